//! What a run gives back, as bytes that Python takes and that pass from one process to another.

use polypath_base::{Error, ErrorKind, Values};
use polypath_sim::Scenario;
use polypath_sim::outcome::{LinkSeries, SubflowSeries};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::{Deserialize, Serialize};

/// A finished run.
pub(crate) struct Done {
    /// JSON.
    pub(crate) outcome: String,
    parts: Vec<Part>,
}

struct Part {
    of: Of,
    name: String,
    /// Its NumPy type; empty for a capture.
    kind: String,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Of {
    SubflowSeries,
    LinkSeries,
    Captures,
}

/// What stands before the bytes of all parts.
#[derive(Serialize, Deserialize)]
enum Head {
    Done { outcome: String, parts: Vec<(Of, String, String, usize)> },
    Failed { kind: Kind, field: Vec<String>, sentence: String },
}

#[derive(Serialize, Deserialize)]
enum Kind {
    Caller,
    Peer,
    Machine,
}

impl Done {
    pub(crate) fn of(scenario: &Scenario) -> Result<Self, Error> {
        let (outcome, captures) = polypath_sim::run_captured(scenario)?;
        let text = serde_json::to_string(&outcome).map_err(|e| Error::machine(format!("the outcome cannot be written: {e}")))?;
        let subflows = outcome.subflow_series.columns().map(|column| Part::of_column(Of::SubflowSeries, column));
        let links = outcome.link_series.columns().map(|column| Part::of_column(Of::LinkSeries, column));
        let files = captures.into_iter().map(|file| Part {
            of: Of::Captures,
            name: format!("{}.pcapng", file.name),
            kind: String::new(),
            bytes: file.bytes,
        });
        let parts = subflows.chain(links).chain(files).collect();
        Ok(Self { outcome: text, parts })
    }

    /// Name -> (NumPy type, bytes).
    pub(crate) fn series<'py>(&self, py: Python<'py>, of: Of) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for part in self.parts.iter().filter(|part| part.of == of) {
            found.set_item(&part.name, (&part.kind, PyBytes::new(py, &part.bytes)))?;
        }
        Ok(found)
    }

    /// Name of the file -> bytes.
    pub(crate) fn captures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for part in self.parts.iter().filter(|part| part.of == Of::Captures) {
            found.set_item(&part.name, PyBytes::new(py, &part.bytes))?;
        }
        Ok(found)
    }
}

impl Part {
    fn of_column(of: Of, (name, values): (&str, Values)) -> Self {
        let (kind, bytes): (_, Vec<u8>) = match values {
            Values::U8(values) => ("<u1", values.to_vec()),
            Values::U32(values) => ("<u4", values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            Values::U64(values) => ("<u8", values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        };
        Self { of, name: name.to_owned(), kind: kind.to_owned(), bytes }
    }
}

/// For another process, which reads it with [`decoded`].
pub(crate) fn encoded(done: Result<Done, Error>) -> Vec<u8> {
    let (head, parts) = match done {
        Ok(Done { outcome, parts }) => {
            let sizes = parts.iter().map(|part| (part.of, part.name.clone(), part.kind.clone(), part.bytes.len())).collect();
            (Head::Done { outcome, parts: sizes }, parts)
        }
        Err(error) => {
            let kind = match error.kind() {
                ErrorKind::Caller => Kind::Caller,
                ErrorKind::Peer => Kind::Peer,
                ErrorKind::Machine => Kind::Machine,
            };
            (Head::Failed { kind, field: error.field().to_vec(), sentence: error.to_string() }, Vec::new())
        }
    };
    let head = serde_json::to_vec(&head).expect("texts and numbers are JSON");
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend(head);
    parts.iter().for_each(|part| bytes.extend(&part.bytes));
    bytes
}

/// What [`encoded`] wrote. Another process wrote it, with code of a person's own in it, so that
/// nothing is taken for granted.
pub(crate) fn decoded(bytes: &[u8]) -> Result<Done, Error> {
    let broken = || {
        Error::machine("the process of an algorithm of your own gave something that is no outcome: it writes memory that is not its own")
    };
    let (length, rest) = bytes.split_first_chunk().ok_or_else(broken)?;
    let (head, mut rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize).ok_or_else(broken)?;
    match serde_json::from_slice(head).map_err(|_| broken())? {
        Head::Failed { kind, field, sentence } => {
            let kind = match kind {
                Kind::Caller => ErrorKind::Caller,
                Kind::Peer => ErrorKind::Peer,
                Kind::Machine => ErrorKind::Machine,
            };
            let field: Vec<&str> = field.iter().map(String::as_str).collect();
            Err(Error::new(kind, sentence).at(&field))
        }
        Head::Done { outcome, parts } => {
            let mut found = Vec::with_capacity(parts.len());
            for (of, name, kind, length) in parts {
                let (bytes, others) = rest.split_at_checked(length).ok_or_else(broken)?;
                if !expected(of, &name, &kind) {
                    return Err(broken());
                }
                found.push(Part { of, name, kind, bytes: bytes.to_vec() });
                rest = others;
            }
            Ok(Done { outcome, parts: found })
        }
    }
}

/// Whether a part is one that [`Done::of`] makes; a capture's name becomes that of a file.
fn expected(of: Of, name: &str, kind: &str) -> bool {
    let columns = match of {
        Of::SubflowSeries => SubflowSeries::COLUMNS,
        Of::LinkSeries => LinkSeries::COLUMNS,
        Of::Captures => return kind.is_empty() && name.ends_with(".pcapng") && !name.starts_with('.') && !name.contains(['/', '\0']),
    };
    ["<u1", "<u4", "<u8"].contains(&kind) && columns.iter().any(|column| column.raw() == name)
}
