//! The link emulator. Each call is made by a process of its own, which the emulator's threads and
//! signals belong to.

use crate::errors::raised;
use crate::guarded;
use polypath_emu::{BenchSpec, Error, RunSpec, Spec};
use pyo3::prelude::*;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(emulate, module)?)?;
    module.add_function(wrap_pyfunction!(emulator_version, module)?)?;
    module.add_function(wrap_pyfunction!(run_emulated, module)?)?;
    module.add_function(wrap_pyfunction!(bench_emulator, module)?)?;
    module.add_function(wrap_pyfunction!(unname_namespace, module)?)
}

/// Builds the network of a specification (JSON text) and carries its links until a signal ends it.
#[pyfunction]
fn emulate(py: Python<'_>, spec: &str) -> PyResult<()> {
    let spec: Spec = serde_json::from_str(spec).map_err(unreadable)?;
    py.detach(|| guarded(|| polypath_emu::emulate(&spec)))?.map_err(raised)
}

/// Release and fingerprint of the sources: other versions may give other outcomes on the same
/// kernel.
#[pyfunction]
const fn emulator_version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+", env!("POLYPATH_EMULATOR"))
}

/// Carries out a run (JSON text) over emulated links in real time; what came of it is JSON. A
/// signal ends the process.
#[pyfunction]
fn run_emulated(py: Python<'_>, run: &str) -> PyResult<String> {
    let run: RunSpec = serde_json::from_str(run).map_err(unreadable)?;
    py.detach(|| guarded(|| polypath_emu::run(&run)))?.map_err(raised)
}

/// Measures the emulator beside what the machine can do without it; the figures are JSON.
#[pyfunction]
fn bench_emulator(py: Python<'_>, spec: &str) -> PyResult<String> {
    let spec: BenchSpec = serde_json::from_str(spec).map_err(unreadable)?;
    py.detach(|| guarded(|| polypath_emu::bench(&spec)))?.map_err(raised)
}

/// Takes the name of a network namespace away, if there is such a name.
#[pyfunction]
fn unname_namespace(name: &str) -> PyResult<()> {
    polypath_emu::unname(name).map_err(raised)
}

fn unreadable(error: serde_json::Error) -> PyErr {
    raised(Error::caller(format!("the specification cannot be read: {error}")))
}
