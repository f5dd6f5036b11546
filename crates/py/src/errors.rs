//! Errors by whose fault they are: an exception of Python for each kind.

use polypath_base::{Error, ErrorKind};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};

create_exception!(_native, CallerError, PyValueError, "What was asked for cannot be; `field` says where, as a tuple of names and numbers.");
create_exception!(_native, PeerError, PyRuntimeError, "The other end of a network does not obey a standard.");
create_exception!(_native, MachineError, PyRuntimeError, "The machine lacks something, refuses something, or a program on it has a bug.");

/// The exception of an error.
pub(crate) fn raised(error: Error) -> PyErr {
    let sentence = error.to_string();
    Python::attach(|py| match error.kind() {
        ErrorKind::Caller => {
            let raised = CallerError::new_err(sentence);
            let field = pyo3::types::PyTuple::new(py, error.field()).and_then(|field| raised.value(py).setattr("field", field));
            field.err().unwrap_or(raised)
        }
        ErrorKind::Peer => PeerError::new_err(sentence),
        ErrorKind::Machine => MachineError::new_err(sentence),
    })
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("CallerError", py.get_type::<CallerError>())?;
    module.add("PeerError", py.get_type::<PeerError>())?;
    module.add("MachineError", py.get_type::<MachineError>())
}
