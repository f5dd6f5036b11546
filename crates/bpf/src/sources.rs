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
    /// cc/vectors/<name>.json
    pub(crate) vectors: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// What the kernel takes of algorithms that were added.
static OWN: Mutex<Vec<(&'static str, &'static [u8])>> = Mutex::new(Vec::new());

pub(crate) fn source(algorithm: cc::Algorithm) -> &'static Source {
    SOURCES.iter().find(|source| source.name == algorithm.name()).expect("build.rs and crates/cc list the same files of cc/algs")
}

/// The object that registers an algorithm.
pub(crate) fn glue(algorithm: cc::Algorithm) -> &'static [u8] {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.iter().find(|(name, _)| *name == algorithm.name()).map_or_else(|| source(algorithm).glue, |(_, glue)| glue)
}

/// Takes in an algorithm that is not one of cc/algs: its shared object, which says what it is, and what the kernel takes.
///
/// # Safety
///
/// As of [`cc::own::add`]: the shared object's code becomes part of this process.
pub unsafe fn add(name: &str, object: &Path, glue: &Path) -> Result<(), Error> {
    // SAFETY: the caller vouches for it.
    let algorithm = unsafe { cc::own::add(object, name) }.map_err(|error| Error::new(error.to_string()))?;
    let bytes = fs::read(glue).map_err(|error| Error::new(format!("{} cannot be read: {error}", glue.display())))?;
    // As long as the process, as the algorithm itself.
    OWN.lock().unwrap_or_else(PoisonError::into_inner).push((algorithm.name(), bytes.leak()));
    Ok(())
}
