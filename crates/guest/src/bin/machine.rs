//! `polypath-machine`: starts one virtual machine of the linux engine, waits until it has powered
//! itself off, and sees to it that nothing of it outlives its parent. Exit status 0: it powered off
//! by itself; 1: it did not, and a line on stderr says how it died; 2: wrong arguments.

use polypath_guest::machine::{self, Machine};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: polypath-machine --dir DIR --kernel FILE [--seed N] [--memory 512M] [--timeout SECONDS]";

fn main() -> ExitCode {
    let machine = match parse(std::env::args().skip(1)) {
        Ok(machine) => machine,
        Err(wrong) => {
            eprintln!("polypath-machine: {wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match machine::run(&machine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(death) => {
            eprintln!("{death}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Machine, String> {
    let (mut folder, mut kernel, mut seed, mut memory, mut timeout) = (None, None, 1, "512M".to_owned(), None);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: not a number"));
        match word.as_str() {
            "--dir" => folder = Some(value.into()),
            "--kernel" => kernel = Some(value.into()),
            "--seed" => seed = number()?,
            "--memory" => memory = value,
            "--timeout" => timeout = Some(Duration::from_secs(number()?)),
            _ => return Err(format!("{word} is not known")),
        }
    }
    let (folder, kernel) = (folder.ok_or("--dir is missing")?, kernel.ok_or("--kernel is missing")?);
    Ok(Machine { folder, kernel, seed, memory, timeout })
}
