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

/// Time (ns), file by its place among them, source, destination and text of each TCP segment in
/// these files.
type Listed = (u64, usize, (String, u16), (String, u16), String);

#[pyfunction]
fn list_segments(py: Python<'_>, files: Vec<String>) -> PyResult<Vec<Listed>> {
    let mut opened = Vec::with_capacity(files.len());
    for name in files {
        opened.push(File::open(&name).map_err(|e| raised(Error::caller(format!("{name}: {e}"))))?);
    }
    let listed = py.detach(|| guarded(|| polypath_capture::segments(opened)))?;
    let end = |(address, port): (std::net::IpAddr, u16)| (address.to_string(), port);
    Ok(listed.into_iter().map(|one| (one.time_ns, one.file, end(one.source), end(one.destination), one.text)).collect())
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(analyse_captures, module)?)?;
    module.add_function(wrap_pyfunction!(list_segments, module)?)
}
