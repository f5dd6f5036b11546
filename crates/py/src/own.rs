//! Congestion controls and schedulers that a person compiled.

use std::path::PathBuf;

use pyo3::prelude::*;

/// C text to compile into the object of a congestion control: it asserts that the headers are those
/// of this module.
#[pyfunction]
const fn abi_source() -> &'static str {
    polypath_cc::custom::ABI_SOURCE
}

/// Makes the congestion control of this name in a shared object known. Its code runs in processes
/// of its own alone.
#[pyfunction]
fn add_algorithm(object: PathBuf, name: &str) -> PyResult<()> {
    polypath_cc::custom::declare(&object, name).map(drop).map_err(crate::errors::raised)
}

/// The same for a scheduler.
#[pyfunction]
fn add_scheduler(object: PathBuf, name: &str) -> PyResult<()> {
    polypath_sched::custom::declare(&object, name).map_err(crate::errors::raised)
}

/// What an object file holds that no algorithm may have: variables that outlive a call, names of
/// others, and what runs when it is loaded.
#[pyfunction]
fn object_contents(object: &[u8]) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
    let found = polypath_cc::custom::contents(object).map_err(|why| crate::errors::raised(polypath_base::Error::machine(why)))?;
    Ok((found.variables, found.used, found.runs_by_itself))
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(abi_source, module)?)?;
    module.add_function(wrap_pyfunction!(add_algorithm, module)?)?;
    module.add_function(wrap_pyfunction!(add_scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(object_contents, module)?)
}
