//! Loads the congestion-control algorithms of Polypath into the running kernel: a program of its
//! own, so that a machine needs nothing else for it.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use polypath_bpf as bpf;
use polypath_bpf::{Agreement, Error, Status};
use polypath_cc::Algorithm;

const USAGE: &str = "\
usage: polypath-cc load [OWN]... NAME...    into the running kernel, until unload; the kernel calls them pp_NAME
       polypath-cc unload [--force] NAME...
       polypath-cc status [--json]         what is loaded and who uses it
       polypath-cc hold [OWN]... NAME...   for as long as standard input is open
       polypath-cc check [OWN]... [--seed N] [NAME...]  do this kernel and the simulator compute the same windows?
       polypath-cc list                    names of the algorithms

OWN is --own=NAME=OBJECT=LOADED=DRIVEN, the files of an algorithm that is not of cc/algs: for the simulator, and those of cc/bpf/build.sh";

/// Somebody must change something; the sentence says what.
const REFUSED: u8 = 2;
const OWN: &str = "--own=";
/// A check found a difference.
const DIFFERENT: u8 = 1;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("polypath-cc: {error}");
            ExitCode::from(REFUSED)
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode, Error> {
    let Some((verb, rest)) = words.split_first() else { return Err(usage("which command?")) };
    let (options, names): (Vec<&str>, Vec<&str>) = rest.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    let (own, options): (Vec<&str>, Vec<&str>) =
        options.into_iter().partition(|option| option.starts_with(OWN) && ["load", "hold", "check"].contains(&verb.as_str()));
    let only = |known: &[&str]| match options.iter().find(|option| !known.contains(option)) {
        Some(option) => Err(usage(&format!("{verb} has no option {option}"))),
        None => Ok(()),
    };
    own.iter().try_for_each(|option| add(option))?;
    match verb.as_str() {
        "load" => {
            only(&[])?;
            for name in bpf::load(&algorithms(&names)?)? {
                say(&format!("loaded {name}"));
            }
        }
        "unload" => {
            only(&["--force"])?;
            for name in bpf::unload(&named(&names)?, !options.is_empty())? {
                say(&format!("unloaded {name}"));
            }
        }
        "status" => {
            only(&["--json"])?;
            let status = bpf::status()?;
            if options.is_empty() {
                print_status(&status);
            } else {
                say(&serde_json::to_string(&status).expect("names and numbers"));
            }
        }
        "hold" => {
            only(&[])?;
            let held = bpf::acquire(&algorithms(&names)?)?;
            say(&held.names.join(" "));
            // Whoever started us has the other end; it closes at the latest when they end.
            let _ = io::stdin().read_to_end(&mut Vec::new());
        }
        "check" => {
            only(&["--seed"])?;
            let (seed, names) = match (options.is_empty(), names.split_first()) {
                (true, _) => (1, &names[..]),
                (false, Some((seed, names))) => {
                    (seed.parse().map_err(|_| usage(&format!("'{seed}' is no seed: give a whole number")))?, names)
                }
                (false, None) => return Err(usage("--seed wants a number")),
            };
            let chosen = if names.is_empty() { polypath_cc::all().collect() } else { algorithms(names)? };
            let mut different = false;
            for algorithm in chosen {
                let Agreement { cases, calls, difference, .. } = bpf::check(algorithm, seed)?;
                different |= difference.is_some();
                say(&match difference {
                    None if cases == 0 => format!("{}: same windows in {calls} calls", algorithm.name()),
                    None => format!("{}: same windows in {calls} calls, {cases} vectors among them", algorithm.name()),
                    Some(where_) => format!("{}: different windows: {where_}", algorithm.name()),
                });
            }
            if different {
                return Ok(ExitCode::from(DIFFERENT));
            }
        }
        "list" => {
            only(&[])?;
            polypath_cc::all().for_each(|algorithm| say(algorithm.name()));
        }
        other => return Err(usage(&format!("there is no command '{other}'"))),
    }
    Ok(ExitCode::SUCCESS)
}

fn usage(what: &str) -> Error {
    Error::caller(format!("{what}\n{USAGE}"))
}

/// Takes in an algorithm of the caller's own.
fn add(option: &str) -> Result<(), Error> {
    let words: Vec<&str> = option.strip_prefix(OWN).unwrap_or_default().split('=').collect();
    let [name, object, glue, drive] = words[..] else { return Err(usage(&format!("{option} does not name three files"))) };
    // SAFETY: who calls this program with a shared object wants its code to run.
    unsafe { bpf::add(name, Path::new(object), Path::new(glue), Path::new(drive)) }
}

/// What the kernel calls them, each once; one that is not of cc/algs may have been loaded from its
/// own files.
fn named(names: &[&str]) -> Result<Vec<String>, Error> {
    if names.is_empty() {
        return Err(usage("name at least one algorithm"));
    }
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let kernels =
            bpf::algorithm(name).map_or_else(|_| format!("{}{}", bpf::PREFIX, name.trim_start_matches(bpf::PREFIX)), bpf::kernel_name);
        if !found.contains(&kernels) {
            found.push(kernels);
        }
    }
    Ok(found)
}

/// Algorithms by name, each once.
fn algorithms(names: &[&str]) -> Result<Vec<Algorithm>, Error> {
    if names.is_empty() {
        return Err(usage("name at least one algorithm"));
    }
    let mut found: Vec<Algorithm> = Vec::new();
    for name in names {
        let algorithm = bpf::algorithm(name)?;
        if !found.contains(&algorithm) {
            found.push(algorithm);
        }
    }
    Ok(found)
}

/// A line on standard output; that nobody reads any more is no fault.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn print_status(status: &Status) {
    for ours in &status.loaded {
        say(&format!("{:12} {:8} {} users", ours.name, ours.how, ours.users));
    }
    for builtin in &status.builtin {
        let sockets: u32 = builtin.sockets.iter().map(|share| share.sockets).sum();
        say(&format!("{:12} {:8} {sockets} sockets", builtin.name, "kernel's"));
    }
}
