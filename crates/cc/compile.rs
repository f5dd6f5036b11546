//! C files of cc/ compiled into a crate: what the build scripts of this crate and of
//! `polypath-sched` share.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts in the environment")]
pub(super) fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}

/// The folder cc/; the crate is built again when what lies in `folder` or in the headers changes.
pub(super) fn root(folder: &str) -> PathBuf {
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../cc");
    for watched in [folder, "include"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    root
}

/// The C files of a folder with their names, sorted so that every build lists them in one order.
pub(super) fn sources(folder: &Path) -> (Vec<PathBuf>, Vec<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot list {}: {e}", folder.display()));
    let mut sources: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "c"))
        .collect();
    sources.sort();
    let names = sources.iter().map(|path| path.file_stem().expect("a .c file has a stem").to_string_lossy().into_owned()).collect();
    (sources, names)
}

/// Compiles them, and a file that the build script wrote, into a library.
pub(super) fn compile(root: &Path, sources: &[PathBuf], written: &Path, library: &str) {
    cc::Build::new()
        .include(root.join("include"))
        .files(sources)
        .file(written)
        .std("gnu11")
        .opt_level(2)
        .extra_warnings(true)
        // A warning that a later compiler invents must not stop a user; tests are built in the
        // debug profile.
        .warnings_into_errors(variable("PROFILE") == "debug")
        .flag_if_supported("-Wmissing-prototypes")
        .flag_if_supported("-Wvla")
        .compile(library);
}
