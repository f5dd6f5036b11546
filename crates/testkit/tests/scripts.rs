//! Every script of `tests/scripts` on our endpoint as each of the kernels that it is about, each
//! script a test of its own: `cargo test -p polypath-testkit --test scripts -- tcp-rto`.

use polypath_testkit::{ours, parse, run};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Of the test program's own options `--list` and `--exact` mean something here; filters are
    // parts of names.
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_exact = arguments.iter().any(|argument| argument == "--exact");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts");
    let chosen: Vec<PathBuf> = scripts(&folder)
        .into_iter()
        .filter(|file| {
            let name = name(file);
            filters.is_empty() || filters.iter().any(|filter| if is_exact { **filter == name } else { name.contains(filter.as_str()) })
        })
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|file| println!("{}: test", name(file)));
        return ExitCode::SUCCESS;
    }
    let mut faults = Vec::new();
    for file in &chosen {
        let outcome = play(file);
        println!("test {} ... {}", name(file), if outcome.is_ok() { "ok" } else { "FAILED" });
        faults.extend(outcome.err());
    }
    faults.iter().for_each(|fault| println!("\n{fault}"));
    println!("\ntest result: {} passed; {} failed", chosen.len() - faults.len(), faults.len());
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// All scripts, by name.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of scripts is there");
    let files = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|extension| extension == "pkt")).collect();
    files.sort();
    assert!(!files.is_empty(), "there are scripts");
    files
}

fn name(file: &Path) -> String {
    file.file_stem().expect("a file has a name").to_string_lossy().into_owned()
}

fn play(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let script = parse(&format!("tests/scripts/{}.pkt", name(file)), &text).map_err(|fault| fault.to_string())?;
    for kernel in &script.head.kernels {
        run(&script, kernel, |head| ours::Host::new(head, kernel)).map_err(|fault| format!("as {kernel}: {fault}"))?;
    }
    Ok(())
}
