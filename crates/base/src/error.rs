//! What went wrong: whose fault it is, where, and a sentence.

use std::fmt;

/// Whose fault an error is, and so who must change something.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The caller's: what was asked for cannot be. The sentence says what to write instead.
    Caller,
    /// The peer's: bytes that came from a network do not obey the standard.
    Peer,
    /// The machine's: it lacks something, refuses something, or a program on it has a bug.
    Machine,
}

impl ErrorKind {
    /// In a word, as results and exceptions name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Peer => "peer",
            Self::Machine => "machine",
        }
    }
}

/// An error: its kind, the field of the caller's input that is at fault, and a sentence for people
/// that says who must change what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    /// From the input's root.
    field: Vec<String>,
    /// Of what the sentence speaks, such as "flow `f`"; empty: it says so itself.
    subject: String,
    sentence: String,
}

impl Error {
    /// One without subject and field, which [`Error::of`] and [`Error::at`] add.
    pub fn new(kind: ErrorKind, sentence: impl Into<String>) -> Self {
        Self { kind, field: Vec::new(), subject: String::new(), sentence: sentence.into() }
    }

    /// One that the caller can avoid.
    pub fn caller(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Caller, sentence)
    }

    /// One that the other end of a network made.
    pub fn peer(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Peer, sentence)
    }

    /// One of this machine.
    pub fn machine(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Machine, sentence)
    }

    /// Says what the sentence speaks of.
    #[must_use]
    pub fn of(self, subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), ..self }
    }

    /// Says which field of the input is at fault, from its root: names, and for an element of a
    /// list its number.
    #[must_use]
    pub fn at(self, field: &[&str]) -> Self {
        Self { field: field.iter().map(|&part| part.into()).collect(), ..self }
    }

    /// Says that the input in which the field was found stands at this field of a larger one.
    #[must_use]
    pub fn below(mut self, field: &[&str]) -> Self {
        self.field.splice(..0, field.iter().map(|&part| part.into()));
        self
    }

    /// Whose fault it is.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The field at fault from the input's root, as [`Error::at`] has it. Empty where none is
    /// known.
    pub fn field(&self) -> &[String] {
        &self.field
    }

    /// The field at fault as people write it: `links.wifi.a_to_b[0].rate`. Empty where none is
    /// known.
    pub fn field_path(&self) -> String {
        let mut path = String::new();
        for part in &self.field {
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                path.push_str(&format!("[{part}]"));
            } else {
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(part);
            }
        }
        path
    }

    /// The sentence without its subject, for a caller that names the field.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_whose_fault_it_is_where_and_what() {
        let error =
            Error::caller("a rate of zero lets nothing pass").at(&["rate"]).of("link `wifi`").below(&["links", "wifi", "a_to_b", "0"]);
        assert_eq!((error.kind(), error.field_path().as_str()), (ErrorKind::Caller, "links.wifi.a_to_b[0].rate"));
        assert_eq!(error.to_string(), "link `wifi`: a rate of zero lets nothing pass");
        assert_eq!(error.sentence(), "a rate of zero lets nothing pass");
        let refused = Error::machine("mount: not permitted");
        assert_eq!(
            (refused.kind().name(), refused.field_path().as_str(), refused.to_string().as_str()),
            ("machine", "", "mount: not permitted")
        );
    }
}
