//! UDP (RFC 768).
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic.

use crate::checksum::Addresses;
use crate::error::{Error, Result};

/// The protocol's number in an IP header.
pub const PROTOCOL: u8 = 17;
/// Bytes of the header.
pub const HEADER: usize = 8;

/// A view of bytes that hold a UDP datagram, and perhaps more behind it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose length is as it must be.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        if bytes.len() < HEADER {
            return Err(Error::Truncated);
        }
        let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        if length < HEADER {
            return Err(Error::Malformed("udp length"));
        }
        if length > bytes.len() {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.buffer.as_ref()[at], self.buffer.as_ref()[at + 1]])
    }

    /// Port of the sender, bytes 0 and 1; 0 if it wants no reply (RFC 768).
    pub fn source_port(&self) -> u16 {
        self.word(0)
    }

    /// Port of the receiver, bytes 2 and 3.
    pub fn destination_port(&self) -> u16 {
        self.word(2)
    }

    /// Bytes of header and payload.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.word(4))
    }

    /// The datagram has no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == HEADER
    }

    /// The checksum field as on the wire; 0 if the sender made none.
    pub fn checksum(&self) -> u16 {
        self.word(6)
    }

    /// Bytes behind the header, up to the datagram's length: what stands behind it is not among
    /// them.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER..self.len()]
    }

    /// Zero stands for "no checksum" (RFC 768); over IPv6 that is for tunnels only (RFC 6935),
    /// which ask [`Packet::checksum`].
    pub fn verify_checksum(&self, addresses: &Addresses) -> bool {
        if self.checksum() == 0 {
            return matches!(addresses, Addresses::V4 { .. });
        }
        addresses.pseudo_header(PROTOCOL, self.len()).bytes(&self.buffer.as_ref()[..self.len()]).checksum() == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum over pseudo header and datagram, and writes it into bytes 6 and 7.
    pub fn fill_checksum(&mut self, addresses: &Addresses) {
        let length = self.len();
        let bytes = &mut self.buffer.as_mut()[..length];
        bytes[6..8].fill(0);
        let sum = match addresses.pseudo_header(PROTOCOL, length).bytes(bytes).checksum() {
            // RFC 768: zero means "none", and all ones is the same number.
            0 => 0xffff,
            sum => sum,
        };
        bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A UDP header.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender; 0 if it wants no reply (RFC 768).
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// The datagram has a checksum.
    pub checksum: bool,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a header whose checksum is right or absent. Whether it may be absent over IPv6 is the
    /// caller's question: RFC 6936 section 4 allows it to tunnels.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>, addresses: &Addresses) -> Result<Self> {
        let checksum = packet.checksum() != 0;
        if checksum && !packet.verify_checksum(addresses) {
            return Err(Error::Checksum("udp"));
        }
        Ok(Self {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            checksum,
            payload_len: packet.payload().len(),
        })
    }

    /// Bytes of the header, always [`HEADER`]; the payload begins there.
    pub fn header_len(&self) -> usize {
        HEADER
    }

    /// Bytes of the datagram.
    pub fn buffer_len(&self) -> usize {
        HEADER + self.payload_len
    }

    /// Writes the header in front of the payload, which is in its place already: the checksum
    /// covers it.
    ///
    /// # Errors
    /// `TooLong` if the datagram is longer than 65535 bytes, `Truncated` if the buffer is shorter
    /// than the datagram.
    pub fn emit(&self, buffer: &mut [u8], addresses: &Addresses) -> Result<()> {
        let length = u16::try_from(self.buffer_len()).map_err(|_| Error::TooLong("udp datagram"))?;
        let datagram = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        datagram[..2].copy_from_slice(&self.source_port.to_be_bytes());
        datagram[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        datagram[4..6].copy_from_slice(&length.to_be_bytes());
        datagram[6..8].fill(0);
        if self.checksum {
            Packet { buffer: datagram }.fill_checksum(addresses);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const V4: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };

    #[test]
    fn a_checksum_of_zero_is_written_as_all_ones() {
        let mut bytes = [0; HEADER + 2];
        let repr = Repr { checksum: true, payload_len: 2, ..Repr::default() };
        repr.emit(&mut bytes, &V4).unwrap();
        let without = u16::from_be_bytes([bytes[6], bytes[7]]);
        bytes[8..].copy_from_slice(&without.to_be_bytes());
        repr.emit(&mut bytes, &V4).unwrap();
        assert_eq!(bytes[6..8], [0xff, 0xff]);
        assert_eq!(Repr::parse(&Packet::new_checked(&bytes).unwrap(), &V4), Ok(repr));
    }

    #[test]
    fn no_checksum_is_right_over_ipv4_alone() {
        let v6 = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
        let mut bytes = [0; HEADER];
        Repr::default().emit(&mut bytes, &V4).unwrap();
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!((packet.verify_checksum(&V4), packet.verify_checksum(&v6)), (true, false));
    }
}
