//! `polypath-script [--engine ours|linux] [--kernel NAME] FILE...`: runs scripts of packets, each
//! against an endpoint of its own, and prints a line for each. The engine `linux` is this machine's
//! kernel; it is meant for the machine of `polypath linux exec`, whose time is virtual. `--kernel`
//! says which kernel that is, or as which one ours does; without it ours does as each of the
//! kernels that a script is about.
//!
//! `--record` judges nothing: it prints what the endpoint did, a JSON object for each file.

use polypath_testkit::record::{Happening, What};
use polypath_testkit::script::Engine;
use polypath_testkit::{Script, linux, ours, parse, record, run};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut engine = Engine::Ours;
    let mut kernel = None;
    let mut records = false;
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
            ("--record", _) => records = true,
            (_, true) => return usage(),
            _ => files.push(argument),
        }
    }
    if files.is_empty() || (engine == Engine::Linux && kernel.is_none()) {
        return usage();
    }
    if records {
        let Some(kernel) = kernel else { return usage() };
        files.iter().for_each(|file| println!("{}", recorded(engine, &kernel, file)));
        return ExitCode::SUCCESS;
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
    eprintln!("       polypath-script --record [--engine ours|linux] --kernel NAME FILE...");
    ExitCode::from(2)
}

/// Whether the script is about this kernel, and so was played.
fn play(engine: Engine, kernel: Option<&String>, file: &str) -> Result<bool, String> {
    let script = read(file)?;
    let kernels: Vec<&String> = script.head.kernels.iter().filter(|own| kernel.is_none_or(|kernel| kernel == *own)).collect();
    for kernel in &kernels {
        let done = on(engine, || run(&script, kernel, |head| ours::Host::new(head, kernel)), || run(&script, kernel, linux::Host::new));
        done.map_err(|fault| format!("as {kernel}: {fault}"))?;
    }
    Ok(!kernels.is_empty())
}

/// What happened, as JSON: times in nanoseconds.
fn recorded(engine: Engine, kernel: &str, file: &str) -> serde_json::Value {
    let shown = |happening: &Happening| {
        let (kind, text) = match &happening.what {
            What::Sent(text) => ("sent", text),
            What::Done(text) => ("done", text),
        };
        let info: serde_json::Map<String, serde_json::Value> =
            happening.info.iter().map(|(field, value)| ((*field).to_owned(), json!(value))).collect();
        json!({"at": happening.at.as_nanos(), "line": happening.line, "kind": kind, "text": text, "info": info})
    };
    let played = read(file).and_then(|script| {
        let done =
            on(engine, || record(&script, kernel, |head| ours::Host::new(head, kernel)), || record(&script, kernel, linux::Host::new));
        done.map_err(|fault| fault.to_string())
    });
    match played {
        Ok(happened) => json!({"happened": happened.iter().map(shown).collect::<Vec<_>>()}),
        Err(sentence) => json!({"error": sentence}),
    }
}

fn read(file: &str) -> Result<Script, String> {
    let text = std::fs::read_to_string(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    parse(file, &text).map_err(|fault| fault.to_string())
}

/// A kernel's host belongs to a thread of its own, which has a namespace of its own.
fn on<T: Send>(engine: Engine, ours: impl FnOnce() -> T, linux: impl FnOnce() -> T + Send) -> T {
    match engine {
        Engine::Ours => ours(),
        Engine::Linux => std::thread::scope(|scope| scope.spawn(linux).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
    }
}
