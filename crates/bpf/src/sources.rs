//! The compiled objects and the vectors of every algorithm, as build.rs found them.

use polypath_cc as cc;

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

pub(crate) fn source(algorithm: cc::Algorithm) -> &'static Source {
    SOURCES.iter().find(|source| source.name == algorithm.name()).expect("build.rs and crates/cc list the same files of cc/algs")
}
