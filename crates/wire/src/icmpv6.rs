//! ICMP for IPv6 (RFC 4443).
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic.

use crate::checksum::Addresses;
use crate::error::{Error, Result};
use crate::ipv6;
use std::net::Ipv6Addr;

/// The protocol's number in an IP header.
pub const PROTOCOL: u8 = 58;
/// Bytes of the header.
pub const HEADER: usize = 8;

const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// A view of bytes that are an ICMPv6 message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of a message that has its header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        if buffer.as_ref().len() < HEADER {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    /// The type, byte 0 of the header: errors are below 128 (RFC 4443 section 2.1).
    pub fn kind(&self) -> u8 {
        self.buffer.as_ref()[0]
    }

    /// Byte 1 of the header; its meaning depends on the type.
    pub fn code(&self) -> u8 {
        self.buffer.as_ref()[1]
    }

    /// The second word of the header, whose meaning the kind decides.
    pub fn rest(&self) -> [u8; 4] {
        let b = self.buffer.as_ref();
        [b[4], b[5], b[6], b[7]]
    }

    /// In an error: the packet that it is about, or its beginning.
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER..]
    }

    /// Whether the checksum is right (RFC 4443 section 2.3). It covers the pseudo header and the
    /// whole buffer.
    pub fn verify_checksum(&self, addresses: &Addresses) -> bool {
        let bytes = self.buffer.as_ref();
        addresses.pseudo_header(PROTOCOL, bytes.len()).bytes(bytes).checksum() == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum over the pseudo header and the whole buffer, and writes it into bytes
    /// 2 and 3.
    pub fn fill_checksum(&mut self, addresses: &Addresses) {
        let bytes = self.buffer.as_mut();
        bytes[2..4].fill(0);
        let sum = addresses.pseudo_header(PROTOCOL, bytes.len()).bytes(bytes).checksum();
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// What a message says; its payload (echoed data, or the quoted packet) follows the header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Type 128, code 0 (RFC 4443 section 4.1).
    EchoRequest {
        /// Tells the requests of one sender or program from those of another; the reply repeats it.
        ident: u16,
        /// Sequence number of the request; the reply repeats it.
        number: u16,
    },
    /// Type 129, code 0: it repeats fields and payload of the request (RFC 4443 section 4.2).
    EchoReply {
        /// As in the request.
        ident: u16,
        /// As in the request.
        number: u16,
    },
    /// Type 1, of any code (RFC 4443 section 3.1).
    Unreachable {
        /// Why: 0 no route, 1 prohibited, 2 beyond the scope of the source, 3 no such address, 4 no
        /// such port, 5 source policy, 6 rejected route.
        code: u8,
    },
    /// Type 2 (RFC 4443 section 3.2).
    PacketTooBig {
        /// Bytes of the longest IP packet, header included, that the next hop takes.
        mtu: u32,
    },
    /// Type 3 (RFC 4443 section 3.3).
    TimeExceeded {
        /// 0: the hop limit ran out on the path; 1: fragments were missing for too long.
        code: u8,
    },
    /// Type 4 (RFC 4443 section 3.4).
    ParameterProblem {
        /// 0: a wrong header field; 1: an unknown next header; 2: an unknown IPv6 option.
        code: u8,
        /// Offset in bytes, from the quoted IP header's first byte, of what is wrong; it may lie
        /// behind what is quoted.
        pointer: u32,
    },
    /// Any other type, and an echo whose code is not 0.
    Other {
        /// The type, byte 0 of the header.
        kind: u8,
        /// Byte 1 of the header.
        code: u8,
        /// Bytes 4 to 7 of the header, as on the wire.
        rest: [u8; 4],
    },
}

/// An ICMPv6 header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type, code and the header's second 32-bit word.
    pub message: Message,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a message whose checksum is right. Reserved fields are ignored.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>, addresses: &Addresses) -> Result<Self> {
        if !packet.verify_checksum(addresses) {
            return Err(Error::Checksum("icmpv6"));
        }
        let (code, rest) = (packet.code(), packet.rest());
        let (ident, number) = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
        let message = match (packet.kind(), code) {
            (ECHO_REQUEST, 0) => Message::EchoRequest { ident, number },
            (ECHO_REPLY, 0) => Message::EchoReply { ident, number },
            (UNREACHABLE, _) => Message::Unreachable { code },
            // RFC 4443 section 3.2: the receiver ignores the code.
            (PACKET_TOO_BIG, _) => Message::PacketTooBig { mtu: u32::from_be_bytes(rest) },
            (TIME_EXCEEDED, _) => Message::TimeExceeded { code },
            (PARAMETER_PROBLEM, _) => Message::ParameterProblem { code, pointer: u32::from_be_bytes(rest) },
            (kind, _) => Message::Other { kind, code, rest },
        };
        Ok(Self { message, payload_len: packet.payload().len() })
    }

    /// Bytes of the header, always [`HEADER`]; the payload begins there.
    pub fn header_len(&self) -> usize {
        HEADER
    }

    /// Bytes of the message.
    pub fn buffer_len(&self) -> usize {
        HEADER + self.payload_len
    }

    /// Writes the header in front of the payload, which is in its place already: the checksum
    /// covers it.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than the message.
    pub fn emit(&self, buffer: &mut [u8], addresses: &Addresses) -> Result<()> {
        let bytes = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        let pair = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be_bytes();
        let (kind, code, rest) = match self.message {
            Message::EchoRequest { ident, number } => (ECHO_REQUEST, 0, pair(ident, number)),
            Message::EchoReply { ident, number } => (ECHO_REPLY, 0, pair(ident, number)),
            Message::Unreachable { code } => (UNREACHABLE, code, [0; 4]),
            Message::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Message::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Message::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, pointer.to_be_bytes()),
            Message::Other { kind, code, rest } => (kind, code, rest),
        };
        bytes[..2].copy_from_slice(&[kind, code]);
        bytes[4..HEADER].copy_from_slice(&rest);
        Packet { buffer: bytes }.fill_checksum(addresses);
        Ok(())
    }
}

/// RFC 4443 section 3.2: an error quotes as much of the packet as fits into the least MTU of IPv6.
const LONGEST_ERROR: usize = 1280;
/// Kinds from here on are no errors (RFC 4443 section 2.1).
const FIRST_INFORMATION: u8 = 128;
/// RFC 4861 section 4.5.
const REDIRECT: u8 = 137;

/// The packet that answers one that does not fit into `mtu` bytes, sent by `from`
/// (RFC 4443 section 3.2). None where section 2.4 (e) allows no answer, and to what is no IPv6
/// packet.
pub fn packet_too_big(refused: &[u8], from: Ipv6Addr, mtu: u32) -> Option<Vec<u8>> {
    let refused = ipv6::Packet::new_checked(refused).ok()?;
    let source = refused.source();
    let is_error = match refused.upper_layer() {
        Some((PROTOCOL, message)) => message.first().is_none_or(|&kind| kind < FIRST_INFORMATION || kind == REDIRECT),
        _ => false,
    };
    // An answer goes to one host. That the packet went to many does not forbid it.
    if is_error || source.is_unspecified() || source.is_multicast() || source.is_loopback() {
        return None;
    }
    let quoted = refused.total_len().min(LONGEST_ERROR - ipv6::HEADER - HEADER);
    let message = Repr { message: Message::PacketTooBig { mtu }, payload_len: quoted };
    let header =
        ipv6::Repr { source: from, destination: source, next_header: PROTOCOL, payload_len: message.buffer_len(), ..ipv6::Repr::default() };
    let mut bytes = vec![0; header.buffer_len()];
    bytes[ipv6::HEADER + HEADER..].copy_from_slice(&refused.packet()[..quoted]);
    message.emit(&mut bytes[ipv6::HEADER..], &Addresses::V6 { source: from, destination: source }).ok()?;
    header.emit(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: Ipv6Addr, next_header: u8, total: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..total).map(|i| i as u8).collect();
        let (destination, payload_len) = (Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2), total - ipv6::HEADER);
        ipv6::Repr { source, destination, next_header, payload_len, ..ipv6::Repr::default() }.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_sender_of_a_long_packet_hears_the_mtu_and_its_own_packet() {
        let (sender, router) = (Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 9));
        let refused = packet(sender, 6, 1500);
        let answer = packet_too_big(&refused, router, 1400).unwrap();
        let header = ipv6::Packet::new_checked(&answer).unwrap();
        assert_eq!((answer.len(), header.source(), header.destination()), (1280, router, sender));
        let message = Packet::new_checked(header.payload()).unwrap();
        let repr = Repr::parse(&message, &header.addresses()).unwrap();
        assert_eq!((repr.message, message.payload()), (Message::PacketTooBig { mtu: 1400 }, &refused[..1280 - 48]));
    }

    #[test]
    fn no_error_is_answered_and_no_group() {
        let (one, router) = (Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::LOCALHOST);
        let asks = |source, kind: u8| {
            let mut refused = packet(source, PROTOCOL, 1500);
            refused[ipv6::HEADER] = kind;
            packet_too_big(&refused, router, 1400).is_some()
        };
        assert!(asks(one, ECHO_REQUEST) && !asks(one, PACKET_TOO_BIG) && !asks(one, REDIRECT));
        assert!(!asks(Ipv6Addr::UNSPECIFIED, ECHO_REQUEST) && !asks(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), ECHO_REQUEST));
    }
}
