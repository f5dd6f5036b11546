//! Probes of a path's MTU, beside data as MPT's messages are (see [`crate::mpt`]), and what the
//! other end answers.
//!
//! A probe stands behind a GRE header without a sequence number, and zeros follow until the packet
//! has the length that it probes. Its first byte is above those that MPT uses, so that no end takes
//! it for a packet. MPT neither sends nor answers probes: they pass between two ends of this
//! project alone.
//!
//! [`Packet::new_checked`] compares the length with the bytes that are there; after it no getter
//! can panic.

use crate::error::{Error, Result};

/// The first byte of a probe and of an answer.
const COMMAND: u8 = 0xb2;
/// Flags of the second byte.
const ANSWER: u8 = 1;
/// Bytes of a probe without what fills it up.
pub const LEN: usize = 8;

/// The bytes behind the GRE header are a probe or an answer.
pub fn is_probe(bytes: &[u8]) -> bool {
    bytes.first() == Some(&COMMAND)
}

/// A view of bytes that hold a probe, and perhaps more behind it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of a probe that is there whole.
    pub fn new_checked(buffer: T) -> Result<Self> {
        if !is_probe(buffer.as_ref()) {
            return Err(Error::Malformed("probe command"));
        }
        if buffer.as_ref().len() < LEN {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer.as_ref()[at..at + N]);
        bytes
    }
}

/// A probe, or the answer to one, which says the same.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// It answers a probe of the receiver.
    pub is_answer: bool,
    /// Bytes of the probe with its IP header; 0: as short as can be.
    pub size: u16,
    /// What its sender knows it by.
    pub id: u32,
}

impl Repr {
    /// Reads a probe.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            is_answer: packet.bytes::<1>(1)[0] & ANSWER != 0,
            size: u16::from_be_bytes(packet.bytes(2)),
            id: u32::from_be_bytes(packet.bytes(4)),
        }
    }

    /// Bytes of the probe, without what fills it up.
    pub const fn buffer_len(&self) -> usize {
        LEN
    }

    /// Writes the probe, and zeros behind it to the end of the buffer.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than the probe.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let (bytes, rest) = buffer.split_at_mut_checked(LEN).ok_or(Error::Truncated)?;
        bytes[..2].copy_from_slice(&[COMMAND, if self.is_answer { ANSWER } else { 0 }]);
        bytes[2..4].copy_from_slice(&self.size.to_be_bytes());
        bytes[4..].copy_from_slice(&self.id.to_be_bytes());
        rest.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mpt, report};

    #[test]
    fn what_is_written_is_read() {
        for repr in [Repr { is_answer: true, size: 9000, id: 7 }, Repr::default(), Repr { is_answer: false, size: 1500, id: u32::MAX }] {
            let mut bytes = [0xee; LEN + 3];
            repr.emit(&mut bytes).unwrap();
            assert_eq!(Packet::new_checked(&bytes).map(|packet| Repr::parse(&packet)), Ok(repr));
            assert_eq!(bytes[LEN..], [0; 3]);
        }
        let mut bytes = [0; LEN];
        Repr { is_answer: true, size: 0x0102, id: 3 }.emit(&mut bytes).unwrap();
        assert_eq!(bytes, [0xb2, 1, 1, 2, 0, 0, 0, 3]);
    }

    #[test]
    fn a_probe_is_no_packet_no_keepalive_and_no_report() {
        let mut bytes = [0; 40];
        Repr::default().emit(&mut bytes).unwrap();
        assert!(is_probe(&bytes) && mpt::is_message(&bytes) && mpt::Packet::new_checked(&bytes).is_err() && !report::is_report(&bytes));
        assert_eq!(Packet::new_checked(&bytes[..LEN - 1]).err(), Some(Error::Truncated));
        assert_eq!(Packet::new_checked([0xb1; LEN]).err(), Some(Error::Malformed("probe command")));
        assert_eq!(Repr::default().emit(&mut [0; LEN - 1]), Err(Error::Truncated));
    }
}
