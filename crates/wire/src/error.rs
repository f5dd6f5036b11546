//! What can be wrong with bytes that came from a network, or with a value that shall become bytes.

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
