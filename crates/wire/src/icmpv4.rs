//! ICMP for IPv4 (RFC 792, RFC 1191).
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic.

use crate::checksum::checksum;
use crate::error::{Error, Result};
use crate::ipv4;
use std::net::Ipv4Addr;

/// The protocol's number in an IP header.
pub const PROTOCOL: u8 = 1;
/// Bytes of the header.
pub const HEADER: usize = 8;

const ECHO_REPLY: u8 = 0;
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;
const TIMESTAMP_REQUEST: u8 = 13;
const TIMESTAMP_REPLY: u8 = 14;

/// A view of bytes that are an ICMP message.
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

    /// The type, byte 0 of the header (RFC 792); [`Message::is_error`] tells the errors among them.
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

    /// Whether the checksum is right (RFC 792). It covers the whole buffer, so nothing may stand
    /// behind the message.
    pub fn verify_checksum(&self) -> bool {
        checksum(self.buffer.as_ref()) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum over the whole buffer and writes it into bytes 2 and 3.
    pub fn fill_checksum(&mut self) {
        let bytes = self.buffer.as_mut();
        bytes[2..4].fill(0);
        let sum = checksum(bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// What a message says; its payload (echoed data, or the quoted packet) follows the header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Type 8, code 0 (RFC 792, Echo or Echo Reply Message).
    EchoRequest {
        /// Tells the requests of one sender or program from those of another; the reply repeats it.
        ident: u16,
        /// Sequence number of the request; the reply repeats it.
        number: u16,
    },
    /// Type 0, code 0: it repeats fields and payload of the request (RFC 1122 section 3.2.2.6).
    EchoReply {
        /// As in the request.
        ident: u16,
        /// As in the request.
        number: u16,
    },
    /// Type 3, of any code but 4.
    Unreachable {
        /// Why: 0 to 5 in RFC 792, 6 to 12 in RFC 1122 section 3.2.2.1, 13 to 15 in
        /// RFC 1812 section 5.2.7.1.
        code: u8,
    },
    /// Type 3, code 4 (RFC 1191 section 4).
    FragmentationNeeded {
        /// Bytes of the longest IP packet, header included, that the next hop takes; 0 from a
        /// router older than RFC 1191.
        mtu: u16,
    },
    /// Type 11 (RFC 792, Time Exceeded Message).
    TimeExceeded {
        /// 0: the time to live ran out on the path; 1: fragments were missing for too long.
        code: u8,
    },
    /// Type 12 (RFC 792, Parameter Problem Message).
    ParameterProblem {
        /// 0: `pointer` names the place; 1: a required option is missing
        /// (RFC 1122 section 3.2.2.5).
        code: u8,
        /// Offset in bytes, from the quoted IP header's first byte, of what is wrong.
        pointer: u8,
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

impl Message {
    /// Whether a message of this kind is an error: no error answers an error
    /// (RFC 1122 section 3.2.2).
    pub fn is_error(kind: u8) -> bool {
        !matches!(kind, ECHO_REPLY | ECHO_REQUEST | TIMESTAMP_REQUEST | TIMESTAMP_REPLY)
    }
}

/// An ICMP header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type, code and the header's second 32-bit word.
    pub message: Message,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a message whose checksum is right. Reserved fields are ignored.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self> {
        if !packet.verify_checksum() {
            return Err(Error::Checksum("icmp"));
        }
        let (code, rest) = (packet.code(), packet.rest());
        let (high, low) = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
        let message = match (packet.kind(), code) {
            (ECHO_REQUEST, 0) => Message::EchoRequest { ident: high, number: low },
            (ECHO_REPLY, 0) => Message::EchoReply { ident: high, number: low },
            (DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED) => Message::FragmentationNeeded { mtu: low },
            (DESTINATION_UNREACHABLE, _) => Message::Unreachable { code },
            (TIME_EXCEEDED, _) => Message::TimeExceeded { code },
            (PARAMETER_PROBLEM, _) => Message::ParameterProblem { code, pointer: rest[0] },
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
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let bytes = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        let pair = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be_bytes();
        let (kind, code, rest) = match self.message {
            Message::EchoRequest { ident, number } => (ECHO_REQUEST, 0, pair(ident, number)),
            Message::EchoReply { ident, number } => (ECHO_REPLY, 0, pair(ident, number)),
            Message::Unreachable { code } => (DESTINATION_UNREACHABLE, code, [0; 4]),
            Message::FragmentationNeeded { mtu } => (DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED, pair(0, mtu)),
            Message::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Message::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0]),
            Message::Other { kind, code, rest } => (kind, code, rest),
        };
        bytes[..2].copy_from_slice(&[kind, code]);
        bytes[4..HEADER].copy_from_slice(&rest);
        Packet { buffer: bytes }.fill_checksum();
        Ok(())
    }
}

/// RFC 1812 section 4.3.2.3: an error quotes as much of the packet as fits into this many bytes in
/// all.
const LONGEST_ERROR: usize = 576;

/// The packet that answers one that does not fit into `mtu` bytes, sent by `from`. None where
/// RFC 1812 section 4.3.2.7 allows no answer, and to what is no IPv4 packet.
pub fn fragmentation_needed(refused: &[u8], from: Ipv4Addr, mtu: u32) -> Option<Vec<u8>> {
    let refused = ipv4::Packet::new_checked(refused).ok()?;
    let source = refused.source();
    let is_error = refused.protocol() == PROTOCOL && refused.payload().first().is_none_or(|&kind| Message::is_error(kind));
    // An answer goes to one host about one packet: not to groups, and of fragments only for the
    // first.
    let to_many = refused.destination().octets()[0] >= 224;
    let from_many = source.is_unspecified() || source.octets()[0] >= 224 || source.is_loopback();
    if is_error || refused.fragment_offset() != 0 || to_many || from_many {
        return None;
    }
    let quoted = refused.total_len().min(LONGEST_ERROR - ipv4::HEADER - HEADER);
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    let message = Repr { message: Message::FragmentationNeeded { mtu }, payload_len: quoted };
    // RFC 1812 section 4.3.2.5: precedence 6 for errors.
    let header = ipv4::Repr {
        source: from,
        destination: source,
        protocol: PROTOCOL,
        dscp: 48,
        payload_len: message.buffer_len(),
        ..ipv4::Repr::default()
    };
    let mut bytes = vec![0; header.buffer_len()];
    bytes[ipv4::HEADER + HEADER..].copy_from_slice(&refused.packet()[..quoted]);
    message.emit(&mut bytes[ipv4::HEADER..]).ok()?;
    header.emit(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, total: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..total).map(|i| i as u8).collect();
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let payload_len = total - ipv4::HEADER;
        ipv4::Repr { source, destination, protocol, payload_len, ..ipv4::Repr::default() }.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_sender_hears_the_mtu_and_its_own_packet() {
        let refused = packet(6, 1500);
        let answer = fragmentation_needed(&refused, Ipv4Addr::new(10, 0, 0, 9), 1400).unwrap();
        let header = ipv4::Packet::new_checked(&answer).unwrap();
        let repr = ipv4::Repr::parse(&header).unwrap();
        assert_eq!((header.total_len(), repr.destination, repr.dscp), (576, Ipv4Addr::new(10, 0, 0, 1), 48));
        let message = Packet::new_checked(header.payload()).unwrap();
        let expected = Repr { message: Message::FragmentationNeeded { mtu: 1400 }, payload_len: 548 };
        assert_eq!(Repr::parse(&message), Ok(expected));
        assert_eq!(message.payload(), &refused[..548]);
    }

    #[test]
    fn nobody_answers_errors_later_fragments_and_groups() {
        let from = Ipv4Addr::new(1, 1, 1, 1);
        let answered = |bytes: &[u8]| fragmentation_needed(bytes, from, 1400).is_some();
        let mut error = packet(PROTOCOL, 1500);
        error[ipv4::HEADER] = DESTINATION_UNREACHABLE;
        assert!(!answered(&error));
        error[ipv4::HEADER] = ECHO_REQUEST;
        assert!(answered(&error));
        let mut part = packet(17, 1500);
        part[7] = 100;
        assert!(!answered(&part));
        let mut group = packet(17, 1500);
        group[16] = 224;
        assert!(!answered(&group));
        assert!(!answered(&[0; 9]));
    }
}
