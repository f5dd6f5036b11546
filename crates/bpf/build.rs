//! Compiles the BPF objects of every algorithm with cc/bpf/build.sh and lists them, with the
//! vectors, for embedding. Without the feature `load` there is nothing to do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts in the environment")]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

fn main() {
    let root = Path::new(&variable("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../cc");
    for watched in ["algs", "include", "bpf", "vectors"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    if variable("CARGO_FEATURE_LOAD").is_none() {
        return;
    }
    let out = PathBuf::from(variable("OUT_DIR").expect("cargo sets it"));
    let status = Command::new("sh").arg(root.join("bpf/build.sh")).arg(&out).status();
    assert!(status.is_ok_and(|s| s.success()), "cc/bpf/build.sh failed; its words are above");

    let mut names: Vec<String> = fs::read_dir(root.join("algs"))
        .expect("cc/algs exists")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "c"))
        .map(|path| path.file_stem().expect("a .c file has a stem").to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut text = format!("static SOURCES: [Source; {}] = [\n", names.len());
    for name in names {
        let object = |kind: &str| out.join(format!("pp_{name}.{kind}.o"));
        let vectors = root.join("vectors").join(format!("{name}.json"));
        writeln!(
            text,
            "    Source {{ name: {name:?}, glue: include_bytes!({:?}), drive: include_bytes!({:?}), vectors: include_str!({:?}) }},",
            object("bpf"),
            object("drive"),
            fs::canonicalize(&vectors).unwrap_or_else(|e| panic!("{}: {e}", vectors.display()))
        )
        .expect("writing to a string");
    }
    text.push_str("];\n");
    fs::write(out.join("sources.rs"), text).expect("OUT_DIR is writable");
}
