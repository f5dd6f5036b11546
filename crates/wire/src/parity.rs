//! Parity of a block of packets, beside data as MPT's messages are: see [`crate::mpt`].
//!
//! A parity stands behind a GRE header without a sequence number. Its first byte is above those
//! that MPT uses, so that no end takes it for a packet: an end that does not know it drops it, and
//! loses nothing.
//!
//! | bytes | |
//! |---|---|
//! | 0 | 0xb3 |
//! | 1 | which parity of the block this is, from 0 |
//! | 2 | packets of the block |
//! | 3 | parities of the block |
//! | 4 to 7 | the number of the block's first packet; the others follow it (RFC 2890) |
//! | from 8 | the parity's symbol |
//!
//! A packet's own symbol is its length in two bytes, the packet, and zeros up to the length that
//! all symbols of the block have: a length that was lost comes back with its packet
//! (RFC 6865 section 4.3, without the flow). The symbol of a block's only parity is the sum of the
//! packets' symbols modulo 2. Two parities or more are those of the crate `reed-solomon-simd` 3, a
//! Reed-Solomon code over GF(2^16) in the form of Leopard-RS, and symbols have an even length then.
//!
//! [`Packet::new_checked`] compares the length with the bytes that are there; after it no getter
//! can panic.

use crate::error::{Error, Result};

/// The first byte of a parity.
const COMMAND: u8 = 0xb3;
/// Bytes before the symbol.
pub const HEADER: usize = 8;
/// Bytes of a packet's length in its symbol.
pub const LENGTH: usize = 2;
/// By so many bytes at most a parity is longer than the longest packet of its block: its header,
/// the length and a byte that makes it even, less the number (RFC 2890) that packets have.
pub const OVERHEAD: u32 = HEADER as u32 + LENGTH as u32 + 1 - 4;
/// Packets of a block at most.
pub const MOST_PACKETS: u8 = 64;

/// The bytes behind the GRE header are a parity.
pub fn is_parity(bytes: &[u8]) -> bool {
    bytes.first() == Some(&COMMAND)
}

/// A view of bytes that hold a parity.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of a parity whose header and length of a packet are there.
    pub fn new_checked(buffer: T) -> Result<Self> {
        if !is_parity(buffer.as_ref()) {
            return Err(Error::Malformed("parity command"));
        }
        if buffer.as_ref().len() < HEADER + LENGTH {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    /// The symbol.
    pub fn symbol(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER..]
    }
}

/// What a parity is of.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Which parity of the block, below `parities`.
    pub index: u8,
    /// Packets of the block, 1 to [`MOST_PACKETS`].
    pub packets: u8,
    /// Parities of the block, 1 to [`MOST_PACKETS`].
    pub parities: u8,
    /// The number of its first packet.
    pub first: u32,
}

impl Repr {
    /// Reads the header of a parity that a block can have.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self> {
        let bytes = packet.buffer.as_ref();
        let first = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let repr = Self { index: bytes[1], packets: bytes[2], parities: bytes[3], first };
        repr.is_sound().then_some(repr).ok_or(Error::Malformed("parity block"))
    }

    /// A block can have this parity.
    pub fn is_sound(&self) -> bool {
        let sound = 1..=MOST_PACKETS;
        sound.contains(&self.packets) && sound.contains(&self.parities) && self.index < self.parities
    }

    /// It is of the block in which the packet with this number is.
    pub fn covers(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) < u32::from(self.packets)
    }

    /// Bytes of the header; the symbol begins there.
    pub const fn header_len(&self) -> usize {
        HEADER
    }

    /// Writes the header in front of the symbol.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than the header.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let bytes = buffer.get_mut(..HEADER).ok_or(Error::Truncated)?;
        bytes[..4].copy_from_slice(&[COMMAND, self.index, self.packets, self.parities]);
        bytes[4..].copy_from_slice(&self.first.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mpt, probe, report};

    #[test]
    fn what_is_written_is_read() {
        let repr = Repr { index: 1, packets: 10, parities: 2, first: 0x0102_0304 };
        let mut bytes = [0xee; HEADER + 4];
        repr.emit(&mut bytes).unwrap();
        assert_eq!(bytes, [0xb3, 1, 10, 2, 1, 2, 3, 4, 0xee, 0xee, 0xee, 0xee]);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!((Repr::parse(&packet), packet.symbol()), (Ok(repr), &[0xee; 4][..]));
    }

    #[test]
    fn a_parity_is_no_packet_and_no_other_message() {
        let mut bytes = [0; HEADER + LENGTH];
        Repr { index: 0, packets: 1, parities: 1, first: 0 }.emit(&mut bytes).unwrap();
        assert!(is_parity(&bytes) && mpt::is_message(&bytes) && mpt::Packet::new_checked(&bytes).is_err());
        assert!(!report::is_report(&bytes) && !probe::is_probe(&bytes));
        assert_eq!(Packet::new_checked(&bytes[..=HEADER]).err(), Some(Error::Truncated));
        assert_eq!(Packet::new_checked([0xb2; 10]).err(), Some(Error::Malformed("parity command")));
        assert_eq!(Repr::default().emit(&mut [0; HEADER - 1]), Err(Error::Truncated));
    }

    #[test]
    fn blocks_that_cannot_be_are_refused() {
        for (index, packets, parities) in [(0, 0, 1), (0, 65, 1), (0, 1, 0), (0, 10, 65), (2, 10, 2), (255, 10, 2)] {
            let mut bytes = [0; HEADER + LENGTH];
            Repr { index, packets, parities, first: 7 }.emit(&mut bytes).unwrap();
            let read = Packet::new_checked(&bytes).and_then(|packet| Repr::parse(&packet));
            assert_eq!(read, Err(Error::Malformed("parity block")), "{index} {packets} {parities}");
        }
    }
}
