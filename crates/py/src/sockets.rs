//! The sockets of a network namespace, as the linux engine's guest reads them too.

use polypath_guest::diag::Diagnostics;
use polypath_guest::sys;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::fs::File;
use std::path::PathBuf;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Sockets>()?;
    module.add_function(wrap_pyfunction!(enter_network, module)?)
}

/// The TCP sockets of the namespace that the thread was in which made this.
#[pyclass]
struct Sockets(Diagnostics);

#[pymethods]
impl Sockets {
    #[new]
    fn new() -> PyResult<Self> {
        Diagnostics::open().map(Self).map_err(refused)
    }

    /// All that neither listen nor wait out their time: (source, port, destination, port, state,
    /// congestion control, MPTCP's flags, token or None, id of this end's address, of the other's,
    /// tcp_info).
    fn look<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let seen = self.0.dump().map_err(refused)?;
        let rows = seen.into_iter().map(|socket| {
            // A socket for both families names its IPv4 addresses as IPv6 ones.
            let [source, destination] = [socket.source, socket.destination].map(|end| end.ip().to_canonical().to_string());
            let ports = (socket.source.port(), socket.destination.port());
            let info = PyBytes::new(py, &socket.tcp_info);
            let mptcp = (socket.flags, socket.token, socket.ids.0, socket.ids.1);
            (source, ports.0, destination, ports.1, socket.state, socket.cc, mptcp.0, mptcp.1, mptcp.2, mptcp.3, info).into_pyobject(py)
        });
        rows.collect()
    }
}

/// Moves the calling thread into the network namespace of a file, for good.
#[pyfunction]
fn enter_network(file: PathBuf) -> PyResult<()> {
    let open = File::open(&file).map_err(|e| PyOSError::new_err(format!("{}: {e}", file.display())))?;
    sys::enter_network(&open).map_err(|e| PyOSError::new_err(format!("{}: {e}", file.display())))
}

/// What the kernel refuses is an `OSError`, whose sentence names the call.
fn refused(error: sys::Error) -> PyErr {
    PyOSError::new_err(error.to_string())
}
