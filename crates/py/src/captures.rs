//! Captures of any program, read and explained.

use crate::errors::raised;
use crate::guarded;
use polypath_base::Error;
use pyo3::prelude::*;
use std::fs::File;

/// What the captures in these files say (JSON text), read side by side; or together, if they were
/// made at one end.
#[pyfunction]
fn analyse_captures(py: Python<'_>, files: Vec<String>, one_end: bool) -> PyResult<String> {
    let mut opened = Vec::with_capacity(files.len());
    for name in files {
        let file = File::open(&name).map_err(|e| raised(Error::caller(format!("{name}: {e}"))))?;
        opened.push((name, file));
    }
    let analyse = if one_end { polypath_capture::analyse_one_end } else { polypath_capture::analyse };
    let report = py.detach(|| guarded(|| analyse(opened)))?;
    serde_json::to_string(&report).map_err(|e| raised(Error::machine(format!("the report cannot be written: {e}"))))
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(analyse_captures, module)?)
}
