//! The Internet checksum (RFC 1071) and the pseudo headers of IPv4 and IPv6.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes that are added together, in lanes of 32 bits: as many as vector registers of most
/// processors hold.
const BLOCK: usize = 32;

/// A one's complement sum that is still being added up.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian words. An odd last byte is the high byte of a word, so only the
    /// last piece may be odd.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // The sum of words does not depend on their byte order until it is read (RFC 1071 section 2
        // (B)), so that whole blocks are added as the processor has them. A number of 32 bits is
        // two words, and adds less than 2^32: 2^32 of them would be needed to overflow.
        let blocks = bytes.chunks_exact(BLOCK);
        let rest = blocks.remainder();
        let mut lanes = [0_u64; BLOCK / 4];
        for block in blocks {
            for (lane, four) in lanes.iter_mut().zip(block.chunks_exact(4)) {
                *lane += u64::from(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
            }
        }
        let native = Self(lanes.iter().map(|lane| (lane & 0xffff_ffff) + (lane >> 32)).sum()).folded();
        let pairs = rest.chunks_exact(2);
        let last = pairs.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
        let words = pairs.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u64>();
        Self(self.0 + u64::from(u16::from_be_bytes(native.to_ne_bytes())) + words + last)
    }

    /// Adds a number of 32 bits.
    #[must_use]
    pub fn number(self, number: u32) -> Self {
        Self(self.0 + u64::from(number >> 16) + u64::from(number & 0xffff))
    }

    /// The sum itself in 16 bits: what stands in a field whose checksum is left to a device.
    #[must_use]
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum: the complement of the sum. Over bytes that hold their checksum it is zero.
    #[must_use]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// The checksum of these bytes.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).checksum()
}

/// Source and destination of a packet, as far as the checksums of TCP, UDP and ICMPv6 cover them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Of an IPv4 packet (RFC 9293 section 3.1).
    V4 {
        /// Address of the sender.
        source: Ipv4Addr,
        /// Address of the receiver.
        destination: Ipv4Addr,
    },
    /// Of an IPv6 packet (RFC 8200 section 8.1).
    V6 {
        /// Address of the sender.
        source: Ipv6Addr,
        /// Address of the receiver; the final one, if the packet has a routing header.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// The sum over the pseudo header (RFC 9293 section 3.1 for IPv4, RFC 8200 section 8.1 for
    /// IPv6); `length` is that of the upper layer's header and payload, in bytes.
    #[must_use]
    pub fn pseudo_header(&self, protocol: u8, length: usize) -> Sum {
        let sum = match self {
            Self::V4 { source, destination } => Sum::default().bytes(&source.octets()).bytes(&destination.octets()),
            Self::V6 { source, destination } => Sum::default().bytes(&source.octets()).bytes(&destination.octets()),
        };
        sum.number(u32::from(protocol)).number(length as u32)
    }

    /// The same, seen from the other end.
    #[must_use]
    pub fn reversed(&self) -> Self {
        match *self {
            Self::V4 { source, destination } => Self::V4 { source: destination, destination: source },
            Self::V6 { source, destination } => Self::V6 { source: destination, destination: source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!((sum.folded(), sum.checksum()), (0xddf2, 0x220d));
    }

    #[test]
    fn whole_blocks_count_as_their_words_do() {
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 + 255) as u8).collect();
            let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0))).sum();
            assert_eq!(Sum::default().bytes(&bytes).folded(), Sum(words).folded(), "{length}");
        }
        assert_eq!(Sum::default().bytes(&[0xff; 4096]).checksum(), 0);
    }

    #[test]
    fn an_odd_byte_is_the_high_one() {
        assert_eq!(Sum::default().bytes(&[1, 2, 3]).folded(), 0x0402);
    }
}
