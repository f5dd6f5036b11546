//! `polypath-script [--engine ours|linux] [--kernel NAME] FILE...`: runs scripts of packets, each
//! against an endpoint of its own, and prints a line for each. The engine `linux` is this machine's
//! kernel; it is meant for the machine of `polypath linux exec`, whose time is virtual. `--kernel`
//! says which kernel that is, or as which one ours does; without it ours does as each of the
//! kernels that a script is about.

use polypath_testkit::script::Engine;
use polypath_testkit::{linux, ours, parse, run};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut engine = Engine::Ours;
    let mut kernel = None;
    let mut files = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), argument.starts_with('-')) {
            ("--engine", _) => match arguments.next().as_deref() {
                Some("ours") => engine = Engine::Ours,
                Some("linux") => engine = Engine::Linux,
                _ => return usage(),
            },
            ("--kernel", _) => match arguments.next() {
                Some(name) => kernel = Some(name),
                None => return usage(),
            },
            (_, true) => return usage(),
            _ => files.push(argument),
        }
    }
    if files.is_empty() || (engine == Engine::Linux && kernel.is_none()) {
        return usage();
    }
    let mut failed = 0;
    for file in &files {
        match play(engine, kernel.as_ref(), file) {
            Ok(true) => println!("{file}: passed"),
            Ok(false) => println!("{file}: left out, it is about other kernels"),
            Err(sentence) => {
                println!("{sentence}");
                println!("{file}: failed");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("usage: polypath-script [--engine ours] [--kernel NAME] FILE...");
    eprintln!("       polypath-script --engine linux --kernel NAME FILE...");
    ExitCode::from(2)
}

/// Whether the script is about this kernel, and so was played.
fn play(engine: Engine, kernel: Option<&String>, file: &str) -> Result<bool, String> {
    let text = std::fs::read_to_string(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    let script = parse(file, &text).map_err(|fault| fault.to_string())?;
    let kernels: Vec<&String> = script.head.kernels.iter().filter(|own| kernel.is_none_or(|kernel| kernel == *own)).collect();
    for kernel in &kernels {
        let done = match engine {
            Engine::Ours => run(&script, kernel, |head| ours::Host::new(head, kernel)),
            // A thread of its own has a namespace of its own.
            Engine::Linux => std::thread::scope(|scope| {
                let thread = scope.spawn(|| run(&script, kernel, linux::Host::new));
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
        };
        done.map_err(|fault| format!("as {kernel}: {fault}"))?;
    }
    Ok(!kernels.is_empty())
}
