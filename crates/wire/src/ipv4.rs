//! IPv4 (RFC 791), with its fragmentation.
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic.

use crate::checksum::{Addresses, checksum};
use crate::error::{Error, Result};
use crate::inline::Inline;
use std::net::Ipv4Addr;

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Most bytes of options.
pub const MAX_OPTIONS: usize = 40;
/// Most bytes of a packet.
pub const MAX_PACKET: usize = 65_535;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A view of bytes that hold an IPv4 packet, and perhaps more behind it.
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
        if bytes[0] >> 4 != 4 {
            return Err(Error::Malformed("ipv4 version"));
        }
        let header = usize::from(bytes[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        if header < HEADER || header > total {
            return Err(Error::Malformed("ipv4 header length"));
        }
        if total > bytes.len() {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes()[at], self.bytes()[at + 1]])
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes()[0] & 15) * 4
    }

    /// Bytes of the packet.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(self.word(2))
    }

    /// The packet without what may stand behind it.
    #[inline]
    pub fn packet(&self) -> &[u8] {
        &self.bytes()[..self.total_len()]
    }

    /// The header with its options, 20 to 60 bytes: what the checksum covers.
    pub fn header(&self) -> &[u8] {
        &self.bytes()[..self.header_len()]
    }

    /// Options as on the wire, padding included: 0 to 40 bytes, a multiple of four.
    pub fn options(&self) -> &[u8] {
        &self.bytes()[HEADER..self.header_len()]
    }

    /// Bytes from the end of the header to the total length; in a fragment, its part of the whole
    /// payload.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[self.header_len()..self.total_len()]
    }

    /// Differentiated services codepoint, 0 to 63 (RFC 2474 section 3): the upper six bits of byte
    /// 1.
    pub fn dscp(&self) -> u8 {
        self.bytes()[1] >> 2
    }

    /// ECN codepoint (RFC 3168): 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.bytes()[1] & 3
    }

    /// Identification, which the fragments of a packet share (RFC 791 section 3.2). It means
    /// nothing where none are allowed (RFC 6864 section 4.1).
    pub fn ident(&self) -> u16 {
        self.word(4)
    }

    /// Flag DF: no router may split the packet. One whose next link is too narrow drops it and says
    /// so (RFC 1191 section 4).
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.word(6) & DONT_FRAGMENT != 0
    }

    /// Flag MF: another fragment belongs behind this one. Clear in the last fragment and in a whole
    /// packet (RFC 791 section 3.1).
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.word(6) & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the unfragmented one, in units of eight bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        self.word(6) & OFFSET
    }

    /// Time to live in hops: each router takes one off and drops what is left with 0
    /// (RFC 1812 section 5.3.1).
    pub fn ttl(&self) -> u8 {
        self.bytes()[8]
    }

    /// Protocol number of the payload, as in [`crate::tcp::PROTOCOL`] (IANA's registry of protocol
    /// numbers).
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.bytes()[9]
    }

    /// Address of the sender, bytes 12 to 15.
    pub fn source(&self) -> Ipv4Addr {
        let b = self.bytes();
        Ipv4Addr::new(b[12], b[13], b[14], b[15])
    }

    /// Address of the receiver, bytes 16 to 19; with a source route that is not used up, of its
    /// next router (RFC 791 section 3.1).
    pub fn destination(&self) -> Ipv4Addr {
        let b = self.bytes();
        Ipv4Addr::new(b[16], b[17], b[18], b[19])
    }

    /// Both addresses, for the checksum of TCP or UDP in the payload.
    pub fn addresses(&self) -> Addresses {
        Addresses::V4 { source: self.source(), destination: self.destination() }
    }

    /// Whether the header's checksum is right (RFC 791 section 3.1). It does not cover the payload.
    pub fn verify_checksum(&self) -> bool {
        checksum(self.header()) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the ECN codepoint and the checksum that goes with it.
    pub fn set_ecn(&mut self, ecn: u8) {
        let byte = &mut self.buffer.as_mut()[1];
        *byte = *byte & !3 | ecn & 3;
        self.fill_checksum();
    }

    /// Computes the checksum over the header and writes it into bytes 10 and 11.
    pub fn fill_checksum(&mut self) {
        let header = self.header_len();
        let header = &mut self.buffer.as_mut()[..header];
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// An IPv4 header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Address of the sender.
    pub source: Ipv4Addr,
    /// Address of the receiver.
    pub destination: Ipv4Addr,
    /// Protocol number of the payload (IANA's registry of protocol numbers).
    pub protocol: u8,
    /// Differentiated services codepoint, 0 to 63 (RFC 2474 section 3).
    pub dscp: u8,
    /// ECN codepoint: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Identification, which fragments of one packet share (RFC 791 section 3.2).
    pub ident: u16,
    /// Flag DF: no router may split the packet.
    pub dont_fragment: bool,
    /// Flag MF: another fragment belongs behind this one.
    pub more_fragments: bool,
    /// In units of eight bytes, below 8192.
    pub fragment_offset: u16,
    /// Time to live in hops.
    pub ttl: u8,
    /// As on the wire, padding included: a multiple of four bytes.
    pub options: Inline<MAX_OPTIONS>,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a header whose checksum is right.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self> {
        if !packet.verify_checksum() {
            return Err(Error::Checksum("ipv4"));
        }
        Ok(Self {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            ttl: packet.ttl(),
            options: Inline::from_slice(packet.options()).ok_or(Error::TooLong("ipv4 options"))?,
            payload_len: packet.payload().len(),
        })
    }

    /// Bytes of the header, options included: 20 to 60. The payload begins there.
    pub fn header_len(&self) -> usize {
        HEADER + self.options.len()
    }

    /// Bytes of the packet.
    pub fn buffer_len(&self) -> usize {
        self.header_len() + self.payload_len
    }

    /// Writes the header. The payload is none of its business.
    ///
    /// # Errors
    /// `TooLong` if the packet would be longer than 65535 bytes; `Malformed` if the options are no
    /// multiple of four bytes; `Truncated` if the buffer is shorter than the packet.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        if self.buffer_len() > MAX_PACKET {
            return Err(Error::TooLong("ipv4 packet"));
        }
        if self.options.len() % 4 != 0 {
            return Err(Error::Malformed("ipv4 options"));
        }
        let header = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        header[0] = 0x40 | (self.header_len() / 4) as u8;
        header[1] = self.dscp << 2 | self.ecn & 3;
        header[2..4].copy_from_slice(&(self.buffer_len() as u16).to_be_bytes());
        header[4..6].copy_from_slice(&self.ident.to_be_bytes());
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let fragment = flag(self.dont_fragment, DONT_FRAGMENT) | flag(self.more_fragments, MORE_FRAGMENTS) | self.fragment_offset & OFFSET;
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header[8..10].copy_from_slice(&[self.ttl, self.protocol]);
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        header[HEADER..self.header_len()].copy_from_slice(&self.options);
        Packet { buffer: header }.fill_checksum();
        Ok(())
    }
}

impl Default for Repr {
    /// A header with a lifetime of 64 hops and all else zero.
    fn default() -> Self {
        Self {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            protocol: 0,
            dscp: 0,
            ecn: 0,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            options: Inline::default(),
            payload_len: 0,
        }
    }
}

/// Bit 7 of an option's type: it is copied into every fragment (RFC 791 section 3.1).
const COPIED: u8 = 0x80;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

/// The fragments of a packet, each of at most `mtu` bytes (RFC 791 section 3.2). None if the bytes
/// are no IPv4 packet or the MTU leaves no room for eight bytes of payload. Whether the packet may
/// be split (Don't Fragment) is the caller's question.
pub fn fragment(bytes: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let whole = Packet::new_checked(bytes).ok()?;
    let (first, later) = (whole.header(), later_header(whole.header()));
    let (mut payload, mut offset) = (whole.payload(), whole.fragment_offset());
    let mut parts = Vec::new();
    while !payload.is_empty() {
        let header = if parts.is_empty() { first } else { &later };
        let room = mtu.checked_sub(header.len())?;
        let mut length = payload.len().min(room);
        if length < payload.len() {
            length &= !7;
        }
        if length == 0 {
            return None;
        }
        let (piece, rest) = payload.split_at(length);
        payload = rest;
        let mut part = [header, piece].concat();
        let total = part.len() as u16;
        part[2..4].copy_from_slice(&total.to_be_bytes());
        let more = if whole.more_fragments() || !payload.is_empty() { MORE_FRAGMENTS } else { 0 };
        part[6..8].copy_from_slice(&(offset & OFFSET | more).to_be_bytes());
        Packet { buffer: &mut part }.fill_checksum();
        parts.push(part);
        // A packet has at most 65535 bytes, so at most 8191 units are added to at most as many.
        offset += (length / 8) as u16;
    }
    Some(parts)
}

/// The header of all fragments but the first: only options that are to be copied.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut made = header[..HEADER].to_vec();
    let mut options = &header[HEADER..];
    while let [kind, rest @ ..] = options {
        let length = match (*kind, rest.first()) {
            (END_OF_OPTIONS, _) | (_, None) => break,
            (NO_OPERATION, _) => 1,
            (_, Some(&length)) => usize::from(length),
        };
        let Some((option, behind)) = options.split_at_checked(length).filter(|_| length > 0) else { break };
        if *kind & COPIED != 0 {
            made.extend_from_slice(option);
        }
        options = behind;
    }
    made.resize(made.len().next_multiple_of(4), END_OF_OPTIONS);
    made[0] = 0x40 | (made.len() / 4) as u8;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload_len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..HEADER + payload_len).map(|i| i as u8).collect();
        Repr { protocol: 17, ident: 0x1234, payload_len, ..Repr::default() }.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_fragments_hold_the_whole() {
        let whole = packet(1480);
        let parts = fragment(&whole, 1000).unwrap();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [996, 524]);
        let mut payload = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let part = Packet::new_checked(part).unwrap();
            assert!(part.verify_checksum());
            assert_eq!((usize::from(part.fragment_offset()) * 8, part.more_fragments()), (payload.len(), number == 0));
            payload.extend_from_slice(part.payload());
        }
        assert_eq!(payload, whole[HEADER..]);
        // A fragment of a fragment.
        let again = fragment(&parts[0], 508).unwrap();
        let places = again.iter().map(|part| Packet::new_checked(part).map(|p| (p.more_fragments(), p.fragment_offset())));
        assert_eq!(places.collect::<Vec<_>>(), [Ok((true, 0)), Ok((true, 61))]);
    }

    #[test]
    fn only_options_to_be_copied_are() {
        let mut header = packet(16);
        header[0] = 0x49;
        header[HEADER..].copy_from_slice(&[NO_OPERATION, 7, 3, 0, COPIED | 8, 4, 9, 9, 68, 4, 0, 0, 0, 0, 0, 0]);
        let later = later_header(&header);
        assert_eq!((later[0], &later[HEADER..]), (0x46, &[COPIED | 8, 4, 9, 9][..]));
    }

    #[test]
    fn without_room_for_eight_bytes_there_are_no_fragments() {
        assert!(fragment(&packet(1480), 27).is_none());
        assert!(fragment(&[1; 8], 1000).is_none());
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        let mut bytes = packet(4);
        Packet::new_checked(&mut bytes[..]).unwrap().set_ecn(3);
        let marked = Packet::new_checked(&bytes).unwrap();
        assert_eq!((marked.ecn(), marked.verify_checksum()), (3, true));
    }
}
