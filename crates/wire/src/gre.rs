//! GRE (RFC 2784) with key and sequence number (RFC 2890), alone or in UDP (RFC 8086).
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic.

use crate::checksum::checksum;
use crate::error::{Error, Result};

/// The protocol's number in an IP header.
pub const PROTOCOL: u8 = 47;
/// GRE in UDP: the destination port (RFC 8086 section 3).
pub const UDP_PORT: u16 = 4754;
/// Bytes of a header without optional fields.
pub const HEADER: usize = 4;
/// EtherType of a payload that is an IPv4 packet (RFC 2784 section 3).
pub const IPV4: u16 = 0x0800;
/// EtherType of a payload that is an IPv6 packet (RFC 7676 section 3).
pub const IPV6: u16 = 0x86dd;

const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// Routing and strict source route (RFC 1701): who does not know them drops the packet
/// (RFC 2784 section 2.3).
const ROUTING: u16 = 0x4800;
const VERSION: u16 = 7;

/// A view of bytes that are a GRE packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of a packet of version 0 without routing, which has the fields that its flags claim.
    pub fn new_checked(buffer: T) -> Result<Self> {
        if buffer.as_ref().len() < HEADER {
            return Err(Error::Truncated);
        }
        let packet = Self { buffer };
        if packet.flags() & VERSION != 0 {
            return Err(Error::Malformed("gre version"));
        }
        if packet.flags() & ROUTING != 0 {
            return Err(Error::Malformed("gre routing"));
        }
        if packet.buffer.as_ref().len() < packet.header_len() {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    fn flags(&self) -> u16 {
        u16::from_be_bytes([self.buffer.as_ref()[0], self.buffer.as_ref()[1]])
    }

    /// Bytes of these optional fields.
    fn optional(&self, flags: u16) -> usize {
        4 * (self.flags() & flags).count_ones() as usize
    }

    fn field(&self, flag: u16, before: u16) -> Option<u32> {
        let at = HEADER + self.optional(before);
        let four: [u8; 4] = self.buffer.as_ref().get(at..at + 4)?.try_into().ok()?;
        (self.flags() & flag != 0).then(|| u32::from_be_bytes(four))
    }

    /// Bytes of the header: 4, and 4 more for each of checksum, key and sequence number
    /// (RFC 2890 section 2).
    pub fn header_len(&self) -> usize {
        HEADER + self.optional(CHECKSUM | KEY | SEQUENCE)
    }

    /// Flag C: the header has a checksum over itself and the payload (RFC 2784 section 2.2).
    pub fn has_checksum(&self) -> bool {
        self.flags() & CHECKSUM != 0
    }

    /// The EtherType of the payload.
    pub fn protocol(&self) -> u16 {
        u16::from_be_bytes([self.buffer.as_ref()[2], self.buffer.as_ref()[3]])
    }

    /// The number that tells a tunnel's flows apart; none if flag K is clear
    /// (RFC 2890 section 2.1).
    pub fn key(&self) -> Option<u32> {
        self.field(KEY, CHECKSUM)
    }

    /// The packet's number, counted from 0 modulo 2^32 within its key; none if flag S is clear
    /// (RFC 2890 section 2.2).
    pub fn sequence(&self) -> Option<u32> {
        self.field(SEQUENCE, CHECKSUM | KEY)
    }

    /// All bytes behind the header. GRE has no length field, so nothing else may stand behind them.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.header_len()..]
    }

    /// Right or absent.
    pub fn verify_checksum(&self) -> bool {
        !self.has_checksum() || checksum(self.buffer.as_ref()) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Does nothing to a packet that has none.
    pub fn fill_checksum(&mut self) {
        if self.has_checksum() {
            let bytes = self.buffer.as_mut();
            bytes[HEADER..HEADER + 4].fill(0);
            let sum = checksum(bytes);
            bytes[HEADER..HEADER + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// A GRE header.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// The EtherType of the payload.
    pub protocol: u16,
    /// The packet has a checksum over header and payload.
    pub checksum: bool,
    /// The flow in the tunnel (RFC 2890 section 2.1); none leaves the field out.
    pub key: Option<u32>,
    /// The packet's number modulo 2^32 (RFC 2890 section 2.2); none leaves the field out.
    pub sequence: Option<u32>,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a header whose checksum is right or absent.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self> {
        if !packet.verify_checksum() {
            return Err(Error::Checksum("gre"));
        }
        Ok(Self {
            protocol: packet.protocol(),
            checksum: packet.has_checksum(),
            key: packet.key(),
            sequence: packet.sequence(),
            payload_len: packet.payload().len(),
        })
    }

    /// Bytes of the header, 4 to 16; the payload begins there.
    pub fn header_len(&self) -> usize {
        HEADER + 4 * (usize::from(self.checksum) + usize::from(self.key.is_some()) + usize::from(self.sequence.is_some()))
    }

    /// Bytes of the packet.
    pub fn buffer_len(&self) -> usize {
        self.header_len() + self.payload_len
    }

    /// Writes the header in front of the payload, which is in its place already: the checksum
    /// covers it.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than the packet.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let bytes = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let flags = flag(self.checksum, CHECKSUM) | flag(self.key.is_some(), KEY) | flag(self.sequence.is_some(), SEQUENCE);
        bytes[..2].copy_from_slice(&flags.to_be_bytes());
        bytes[2..HEADER].copy_from_slice(&self.protocol.to_be_bytes());
        let mut at = HEADER;
        for field in [self.checksum.then_some(0), self.key, self.sequence].into_iter().flatten() {
            bytes[at..at + 4].copy_from_slice(&field.to_be_bytes());
            at += 4;
        }
        Packet { buffer: bytes }.fill_checksum();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_sequence_number_stand_in_their_order() {
        let repr = Repr { protocol: IPV4, checksum: false, key: Some(0x0102_0304), sequence: Some(7), payload_len: 1 };
        let mut bytes = [0xaa; 13];
        repr.emit(&mut bytes).unwrap();
        assert_eq!(bytes, [0x30, 0, 8, 0, 1, 2, 3, 4, 0, 0, 0, 7, 0xaa]);
    }

    #[test]
    fn routing_and_other_versions_are_refused() {
        assert_eq!(Packet::new_checked([0x40, 0, 8, 0]).err(), Some(Error::Malformed("gre routing")));
        // PPTP's GRE.
        assert_eq!(Packet::new_checked([0, 1, 0x88, 0x0b]).err(), Some(Error::Malformed("gre version")));
        assert_eq!(Packet::new_checked([0x30, 0, 8, 0, 0, 0, 0, 0]).err(), Some(Error::Truncated));
    }
}
