//! What can be wrong with bytes that came from a network, or with a value that shall become bytes.
//!
//! A word or two and no text, because a peer may send wrong bytes as fast as it likes;
//! [`polypath_base::Error`] is made of one where a person is told.

use polypath_base::ErrorKind;

/// Why bytes are no packet of a format, or a value has no bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There are fewer bytes than the header needs or its length fields claim.
    Truncated,
    /// A field has a value that the format does not allow; the field's name.
    Malformed(&'static str),
    /// The checksum does not match; the format's name.
    Checksum(&'static str),
    /// The value needs more room than the format has; the field's name.
    TooLong(&'static str),
}

/// The outcome of parsing.
pub type Result<T> = core::result::Result<T, Error>;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("fewer bytes than the header claims"),
            Self::Malformed(field) => write!(f, "{field}: a value that the format does not allow"),
            Self::Checksum(format) => write!(f, "{format}: wrong checksum"),
            Self::TooLong(field) => write!(f, "{field}: longer than the format allows"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Bytes are the peer's; a value that has none is the caller's.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::Truncated | Self::Malformed(_) | Self::Checksum(_) => ErrorKind::Peer,
            Self::TooLong(_) => ErrorKind::Caller,
        }
    }

    /// The field of the format that is at fault, or the format whose checksum is wrong.
    pub const fn field(self) -> Option<&'static str> {
        match self {
            Self::Truncated => None,
            Self::Malformed(field) | Self::Checksum(field) | Self::TooLong(field) => Some(field),
        }
    }
}

impl From<Error> for polypath_base::Error {
    fn from(error: Error) -> Self {
        let field: Vec<&str> = error.field().into_iter().collect();
        Self::new(error.kind(), error.to_string()).at(&field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_peers_fault_and_values_the_callers() {
        let (bytes, value) =
            (polypath_base::Error::from(Error::Malformed("data offset")), polypath_base::Error::from(Error::TooLong("options")));
        assert_eq!((bytes.kind(), bytes.field_path().as_str()), (ErrorKind::Peer, "data offset"));
        assert_eq!((value.kind(), value.field_path().as_str()), (ErrorKind::Caller, "options"));
        assert_eq!(bytes.to_string(), "data offset: a value that the format does not allow");
    }
}
