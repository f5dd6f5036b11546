//! Congestion controls and schedulers that a person compiled.

use std::path::PathBuf;

use polypath_base::Error;
#[cfg(target_os = "linux")]
use polypath_base::ErrorKind;
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
    let found = polypath_cc::custom::contents(object).map_err(|why| crate::errors::raised(Error::machine(why)))?;
    Ok((found.variables, found.used, found.runs_by_itself))
}

/// How often the scheduler of this name and what a shared object has under it were asked alike, and
/// where they first differ: two builds of one file.
#[pyfunction]
fn compare_scheduler(py: Python<'_>, object: PathBuf, name: &str, seed: u64) -> PyResult<(u64, Option<String>)> {
    py.detach(|| compared(&object, name, seed)).map_err(crate::errors::raised)
}

#[cfg(target_os = "linux")]
fn compared(object: &std::path::Path, name: &str, seed: u64) -> Result<(u64, Option<String>), Error> {
    let object = polypath_cc::custom::read(object)?;
    let compare = || {
        // SAFETY: as of a run with code of a person's own: it happens in this process alone, which
        // is confined and ends with it.
        let found = unsafe {
            polypath_sched::custom::load()?;
            polypath_sched::compare(name, object, seed)?
        };
        Ok((found.calls, found.difference))
    };
    let told = crate::apart::apart(|confined| {
        let found = confined.and_then(|()| crate::checked(compare)?).map_err(|e| (e.kind() == ErrorKind::Caller, e.to_string()));
        serde_json::to_vec(&found).unwrap_or_default()
    })?;
    let found: Result<_, (bool, String)> =
        serde_json::from_slice(&told).map_err(|e| Error::machine(format!("what a process sent cannot be read: {e}")))?;
    found.map_err(|(callers, sentence)| if callers { Error::caller(sentence) } else { Error::machine(sentence) })
}

#[cfg(not(target_os = "linux"))]
fn compared(_: &std::path::Path, _: &str, _: u64) -> Result<(u64, Option<String>), Error> {
    Err(Error::machine("builds of a scheduler are compared in a confined process, which only Linux has"))
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(abi_source, module)?)?;
    module.add_function(wrap_pyfunction!(add_algorithm, module)?)?;
    module.add_function(wrap_pyfunction!(add_scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(compare_scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(object_contents, module)?)
}
