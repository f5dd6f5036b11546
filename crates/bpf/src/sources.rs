//! The compiled objects and the vectors of every algorithm, as build.rs found them.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use polypath_cc as cc;

use crate::Error;

/// What is embedded of one algorithm.
#[derive(Debug)]
pub(crate) struct Source {
    name: &'static str,
    /// Registers as `pp_<name>`.
    pub(crate) glue: &'static [u8],
    /// Runs the hooks on made-up flows.
    pub(crate) drive: &'static [u8],
    /// cc/vectors/<name>.json; empty if there is none.
    pub(crate) vectors: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The same of algorithms that were added, without vectors.
static OWN: Mutex<Vec<&'static Source>> = Mutex::new(Vec::new());

pub(crate) fn source(algorithm: cc::Algorithm) -> &'static Source {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = own.iter().copied().chain(&SOURCES).find(|source| source.name == algorithm.name());
    found.expect("build.rs and crates/cc list the same files of cc/algs, and who adds one adds it here")
}

/// Takes in an algorithm that is not one of cc/algs: its shared object, which says what it is, and
/// the kernel's, which cc/bpf/build.sh makes.
///
/// # Safety
///
/// As of [`cc::custom::add`]: the shared object's code becomes part of this process.
pub unsafe fn add(name: &str, object: &Path, glue: &Path, drive: &Path) -> Result<(), Error> {
    // SAFETY: the caller vouches for it.
    let algorithm = unsafe { cc::custom::add(object, name) }?;
    // As long as the process, as the algorithm itself.
    let read = |file: &Path| match fs::read(file) {
        Ok(bytes) => Ok(&*bytes.leak()),
        Err(error) => Err(Error::machine(format!("{} cannot be read: {error}", file.display()))),
    };
    let source = Source { name: algorithm.name(), glue: read(glue)?, drive: read(drive)?, vectors: "" };
    OWN.lock().unwrap_or_else(PoisonError::into_inner).push(Box::leak(Box::new(source)));
    Ok(())
}
