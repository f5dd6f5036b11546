//! Gives the module a fingerprint of every source that decides a run's outcome, so that stored runs
//! are used again only where they would come out the same.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders with such sources of the simulator, from the root of the project.
const SIMULATOR: [&str; 9] = [
    "cc/include",
    "cc/algs",
    "crates/base/src",
    "crates/wire/src",
    "crates/cc/src",
    "crates/sched/src",
    "crates/link/src",
    "crates/transport/src",
    "crates/sim/src",
];

/// And of runs in real time.
const EMULATOR: [&str; 9] = [
    "cc/include",
    "cc/algs",
    "cc/bpf",
    "crates/base/src",
    "crates/wire/src",
    "crates/link/src",
    "crates/io/src",
    "crates/guest/src",
    "crates/emu/src",
];

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts in the environment")]
fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts")).join("../..");
    println!("cargo::rustc-env=POLYPATH_SOURCES={:016x}", fingerprint(&root, &SIMULATOR));
    println!("cargo::rustc-env=POLYPATH_EMULATOR={:016x}", fingerprint(&root, &EMULATOR));
}

fn fingerprint(root: &Path, folders: &[&str]) -> u64 {
    let mut files = Vec::new();
    for folder in folders.iter().map(|folder| root.join(folder)) {
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(&folder, &mut files);
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for file in files {
        let name = file.strip_prefix(root).expect("it was found below the root");
        hash = fnv(hash, name.to_string_lossy().as_bytes());
        hash = fnv(hash, &fs::read(&file).unwrap_or_else(|e| panic!("{} cannot be read: {e}", file.display())));
    }
    hash
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{} cannot be listed: {e}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "c" || ending == "h") {
            files.push(path);
        }
    }
}

/// FNV-1a over the length and the bytes; the standard library's hashers may change between
/// compilers.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold((bytes.len() as u64).to_le_bytes().iter().fold(hash, step), step)
}
