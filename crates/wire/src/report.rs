//! What one end of a multipath tunnel tells the other about a path, beside data as MPT's messages
//! are: see [`crate::mpt`].
//!
//! A report stands behind a GRE header without a sequence number. Its first byte is above those
//! that MPT uses, so that no end takes it for a packet. MPT sends none and knows none: reports pass
//! between two ends of this project alone.
//!
//! [`Packet::new_checked`] compares the length with the bytes that are there; after it no getter
//! can panic.

use crate::error::{Error, Result};

/// The first byte of a report.
const COMMAND: u8 = 0xb1;
/// Flags of the second byte: which fields mean something.
const HAS_ECHO: u8 = 1;
const HAS_LATEST: u8 = 2;
/// Bytes of a report.
pub const LEN: usize = 4 + 4 * FIELDS;
const FIELDS: usize = 7;

/// The bytes behind the GRE header are a report.
pub fn is_report(bytes: &[u8]) -> bool {
    bytes.first() == Some(&COMMAND)
}

/// A view of bytes that hold a report, and perhaps more behind it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of a report that is there whole.
    pub fn new_checked(buffer: T) -> Result<Self> {
        if !is_report(buffer.as_ref()) {
            return Err(Error::Malformed("report command"));
        }
        if buffer.as_ref().len() < LEN {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn field(&self, number: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.buffer.as_ref()[4 + 4 * number..8 + 4 * number]);
        u32::from_be_bytes(bytes)
    }

    fn flags(&self) -> u8 {
        self.buffer.as_ref()[1]
    }
}

/// A report about one path; times are microseconds of the clock of whoever notes them, modulo 2^32.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// When this report was sent.
    pub sent_us: u32,
    /// The receiver's last report on this path: when it was sent, by its clock, and when it came,
    /// by ours.
    pub echo: Option<(u32, u32)>,
    /// The receiver's last packet on this path: its number, and when it came.
    pub latest: Option<(u32, u32)>,
    /// Packets that have come on this path, modulo 2^32.
    pub packets: u32,
    /// Their bytes, modulo 2^32.
    pub bytes: u32,
}

impl Repr {
    /// Reads a report.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        let pair = |flag: u8, first: usize| (packet.flags() & flag != 0).then(|| (packet.field(first), packet.field(first + 1)));
        Self {
            sent_us: packet.field(0),
            echo: pair(HAS_ECHO, 1),
            latest: pair(HAS_LATEST, 3),
            packets: packet.field(5),
            bytes: packet.field(6),
        }
    }

    /// Bytes of the report.
    pub const fn buffer_len(&self) -> usize {
        LEN
    }

    /// Writes the report.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than the report.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let bytes = buffer.get_mut(..LEN).ok_or(Error::Truncated)?;
        let flag = |pair: Option<(u32, u32)>, flag: u8| if pair.is_some() { flag } else { 0 };
        bytes[..4].copy_from_slice(&[COMMAND, flag(self.echo, HAS_ECHO) | flag(self.latest, HAS_LATEST), 0, 0]);
        let (echo, latest) = (self.echo.unwrap_or_default(), self.latest.unwrap_or_default());
        let fields = [self.sent_us, echo.0, echo.1, latest.0, latest.1, self.packets, self.bytes];
        for (bytes, field) in bytes[4..].chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_be_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpt;

    #[test]
    fn what_is_written_is_read() {
        let full = Repr { sent_us: 1, echo: Some((2, u32::MAX)), latest: Some((4, 5)), packets: 6, bytes: 7 };
        for repr in [full, Repr { echo: None, ..full }, Repr { latest: None, ..full }, Repr::default()] {
            let mut bytes = [0xee; LEN];
            repr.emit(&mut bytes).unwrap();
            assert_eq!(Packet::new_checked(&bytes).map(|packet| Repr::parse(&packet)), Ok(repr));
        }
        let mut bytes = [0; LEN];
        full.emit(&mut bytes).unwrap();
        assert_eq!(bytes, [0xb1, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7]);
    }

    #[test]
    fn a_report_is_no_packet_and_no_keepalive() {
        let mut bytes = [0; LEN];
        Repr::default().emit(&mut bytes).unwrap();
        assert!(is_report(&bytes) && mpt::is_message(&bytes) && mpt::Packet::new_checked(&bytes).is_err());
        assert_eq!(Packet::new_checked(&bytes[..LEN - 1]).err(), Some(Error::Truncated));
        assert_eq!(Packet::new_checked([0xa1; LEN]).err(), Some(Error::Malformed("report command")));
        assert_eq!(Packet::new_checked([]).err(), Some(Error::Malformed("report command")));
        assert_eq!(Repr::default().emit(&mut [0; LEN - 1]), Err(Error::Truncated));
    }
}
