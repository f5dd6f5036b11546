//! IPv6 (RFC 8200): the fixed header. Extension headers are part of the payload;
//! [`Packet::upper_layer`] steps over them.
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic.

use crate::checksum::Addresses;
use crate::error::{Error, Result};
use std::net::Ipv6Addr;

/// Bytes of the fixed header.
pub const HEADER: usize = 40;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// A view of bytes that hold an IPv6 packet, and perhaps more behind it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose version and lengths are as they must be.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        if bytes.len() < HEADER {
            return Err(Error::Truncated);
        }
        if bytes[0] >> 4 != 6 {
            return Err(Error::Malformed("ipv6 version"));
        }
        if HEADER + usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) > bytes.len() {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let octets: [u8; 16] = self.bytes()[at..at + 16].try_into().expect("a slice of sixteen bytes");
        Ipv6Addr::from(octets)
    }

    /// Bytes behind the fixed header, extension headers included. 0 in a jumbogram (RFC 2675),
    /// which this does not know.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(u16::from_be_bytes([self.bytes()[4], self.bytes()[5]]))
    }

    /// Bytes of the packet.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER + self.payload_len()
    }

    /// The packet without what may stand behind it.
    pub fn packet(&self) -> &[u8] {
        &self.bytes()[..self.total_len()]
    }

    /// Extension headers and upper layer; [`Packet::upper_layer`] has the latter alone.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER..self.total_len()]
    }

    /// Differentiated services codepoint, 0 to 63 (RFC 2474 section 3): the upper six bits of the
    /// traffic class.
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// ECN codepoint (RFC 3168): 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    #[inline]
    fn traffic_class(&self) -> u8 {
        self.bytes()[0] << 4 | self.bytes()[1] >> 4
    }

    /// The sender's label of the packet's flow, 20 bits; 0 is none (RFC 6437 section 2).
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.bytes()[1] & 15, self.bytes()[2], self.bytes()[3]])
    }

    /// What the payload begins with: an extension header or the upper layer.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.bytes()[6]
    }

    /// Hops that the packet may still go: each router takes one off and drops what is left with 0
    /// (RFC 8200 section 3).
    pub fn hop_limit(&self) -> u8 {
        self.bytes()[7]
    }

    /// Address of the sender, bytes 8 to 23.
    pub fn source(&self) -> Ipv6Addr {
        self.address(8)
    }

    /// Address of the receiver, bytes 24 to 39; with a routing header that is not used up, of its
    /// next router (RFC 8200 section 4.4).
    pub fn destination(&self) -> Ipv6Addr {
        self.address(24)
    }

    /// Both addresses, for the checksum of the upper layer. Under a routing header that is not used
    /// up it covers another destination, the final one (RFC 8200 section 8.1), which this does not
    /// look up.
    pub fn addresses(&self) -> Addresses {
        Addresses::V6 { source: self.source(), destination: self.destination() }
    }

    /// Protocol and bytes of the upper layer behind all extension headers (RFC 8200 section 4);
    /// none if one is cut off, or in a fragment that is not the first.
    pub fn upper_layer(&self) -> Option<(u8, &[u8])> {
        let (mut protocol, mut rest) = (self.next_header(), self.payload());
        // Each step is eight bytes or more, so this ends.
        while matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
            let length = match (protocol, rest) {
                // The offset stands in the upper 13 bits (RFC 8200 section 4.5).
                (FRAGMENT, &[_, _, high, low, ..]) if u16::from_be_bytes([high, low]) & !7 != 0 => return None,
                (FRAGMENT, _) => 8,
                (_, &[_, units, ..]) => (usize::from(units) + 1) * 8,
                _ => return None,
            };
            let (header, behind) = rest.split_at_checked(length)?;
            (protocol, rest) = (header[0], behind);
        }
        Some((protocol, rest))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the ECN codepoint; this header has no checksum.
    pub fn set_ecn(&mut self, ecn: u8) {
        let byte = &mut self.buffer.as_mut()[1];
        *byte = *byte & !0x30 | (ecn & 3) << 4;
    }
}

/// An IPv6 header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Address of the sender.
    pub source: Ipv6Addr,
    /// Address of the receiver.
    pub destination: Ipv6Addr,
    /// What stands behind the fixed header: an extension header or the upper layer (IANA's registry
    /// of protocol numbers).
    pub next_header: u8,
    /// Differentiated services codepoint, 0 to 63 (RFC 2474 section 3).
    pub dscp: u8,
    /// ECN codepoint: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Of 20 bits.
    pub flow_label: u32,
    /// Hops that the packet may go at most.
    pub hop_limit: u8,
    /// Bytes behind the header, extension headers included.
    pub payload_len: usize,
}

impl Repr {
    /// Reads the fixed header. It never fails, as this header has no checksum; the `Result` is what
    /// its siblings return.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self> {
        Ok(Self {
            source: packet.source(),
            destination: packet.destination(),
            next_header: packet.next_header(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            flow_label: packet.flow_label(),
            hop_limit: packet.hop_limit(),
            payload_len: packet.payload_len(),
        })
    }

    /// Bytes of the fixed header, always [`HEADER`]; the payload begins there.
    pub fn header_len(&self) -> usize {
        HEADER
    }

    /// Bytes of the packet.
    pub fn buffer_len(&self) -> usize {
        HEADER + self.payload_len
    }

    /// Writes the header. The payload is none of its business.
    ///
    /// # Errors
    /// `TooLong` if the payload is longer than 65535 bytes, `Truncated` if the buffer is shorter
    /// than the packet.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let length = u16::try_from(self.payload_len).map_err(|_| Error::TooLong("ipv6 payload"))?;
        let header = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        let class = self.dscp << 2 | self.ecn & 3;
        let first = 6 << 28 | u32::from(class) << 20 | self.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6..8].copy_from_slice(&[self.next_header, self.hop_limit]);
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..HEADER].copy_from_slice(&self.destination.octets());
        Ok(())
    }
}

impl Default for Repr {
    /// A header with a lifetime of 64 hops and all else zero.
    fn default() -> Self {
        Self {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            next_header: 0,
            dscp: 0,
            ecn: 0,
            flow_label: 0,
            hop_limit: 64,
            payload_len: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_payload(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = [&[0; HEADER], payload].concat();
        Repr { next_header, payload_len: payload.len(), ..Repr::default() }.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn extension_headers_are_stepped_over() {
        let hop_by_hop = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0];
        let options = [17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let bytes = with_payload(HOP_BY_HOP, &[&hop_by_hop[..], &options, b"upper"].concat());
        assert_eq!(Packet::new_checked(&bytes).unwrap().upper_layer(), Some((17, &b"upper"[..])));
        let cut = with_payload(HOP_BY_HOP, &hop_by_hop[..7]);
        assert_eq!(Packet::new_checked(&cut).unwrap().upper_layer(), None);
    }

    #[test]
    fn only_the_first_fragment_shows_its_upper_layer() {
        let first = with_payload(FRAGMENT, &[6, 0, 0, 1, 0, 0, 0, 9, 7]);
        assert_eq!(Packet::new_checked(&first).unwrap().upper_layer(), Some((6, &[7][..])));
        let second = with_payload(FRAGMENT, &[6, 0, 0, 8, 0, 0, 0, 9, 7]);
        assert_eq!(Packet::new_checked(&second).unwrap().upper_layer(), None);
    }

    #[test]
    fn a_mark_changes_two_bits() {
        let mut bytes = with_payload(6, &[]);
        Packet::new_checked(&mut bytes[..]).unwrap().set_ecn(3);
        let marked = Repr::parse(&Packet::new_checked(&bytes).unwrap()).unwrap();
        assert_eq!(marked, Repr { next_header: 6, ecn: 3, ..Repr::default() });
    }
}
