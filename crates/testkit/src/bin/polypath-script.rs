//! `polypath-script [--engine ours|linux] FILE...`: runs scripts of packets, each against an endpoint of its own, and prints a line for each.
//! The engine `linux` is this machine's kernel; it is meant for the machine of `polypath linux exec`, whose time is virtual.

use polypath_testkit::script::Engine;
use polypath_testkit::{linux, ours, parse, run};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut engine = Engine::Ours;
    let mut files = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), argument.starts_with('-')) {
            ("--engine", _) => match arguments.next().as_deref() {
                Some("ours") => engine = Engine::Ours,
                Some("linux") => engine = Engine::Linux,
                _ => return usage(),
            },
            (_, true) => return usage(),
            _ => files.push(argument),
        }
    }
    if files.is_empty() {
        return usage();
    }
    let mut failed = 0;
    for file in &files {
        match play(engine, file) {
            Ok(()) => println!("{file}: passed"),
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
    eprintln!("usage: polypath-script [--engine ours|linux] FILE...");
    ExitCode::from(2)
}

fn play(engine: Engine, file: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    let script = parse(file, &text).map_err(|fault| fault.to_string())?;
    let done = match engine {
        Engine::Ours => run(&script, ours::Host::new),
        // A thread of its own has a namespace of its own.
        Engine::Linux => std::thread::scope(|scope| {
            let thread = scope.spawn(|| run(&script, linux::Host::new));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    };
    done.map_err(|fault| fault.to_string())
}
