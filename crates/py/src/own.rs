//! Congestion controls that a person compiled.

use std::path::PathBuf;

use pyo3::prelude::*;

/// C text to compile into the object of a congestion control: it asserts that the headers are those of this module.
#[pyfunction]
const fn abi_source() -> &'static str {
    polypath_cc::own::ABI_SOURCE
}

/// Makes the congestion control of this name in a shared object known.
#[pyfunction]
fn add_algorithm(object: PathBuf, name: &str) -> PyResult<()> {
    // SAFETY: the caller's code runs in this process at the caller's wish, as an extension module of Python does.
    unsafe { polypath_cc::own::add(&object, name) }.map(drop).map_err(crate::errors::raised)
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(abi_source, module)?)?;
    module.add_function(wrap_pyfunction!(add_algorithm, module)?)
}
