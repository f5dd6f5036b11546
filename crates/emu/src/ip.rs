//! What the emulator has to know of a packet: length, Don't Fragment, whether it carries payload; and checksums.
//!
//! Frames begin with [`HEAD`] bytes of struct virtio_net_hdr, then Ethernet. Nothing here panics on any bytes.

use polypath_io::HEAD;
use polypath_link::PacketMeta;

pub(crate) const ETHERNET: usize = 14;
/// Where the IP packet begins.
pub(crate) const IP: usize = HEAD + ETHERNET;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The two bits of RFC 3168; both set are a mark, and either makes a packet markable.
const ECN: u8 = 3;
pub(crate) const ICMP: u8 = 1;
const VIRTIO_NEEDS_CHECKSUM: u8 = 1;

/// What the elements see of a frame. What is neither IPv4 nor IPv6 (ARP) is a packet that cannot be split.
#[inline]
pub(crate) fn meta(frame: &[u8]) -> PacketMeta {
    let packet = frame.get(IP..).unwrap_or_default();
    let whole = PacketMeta { len: packet.len() as u32, payload: true, df: true, ..PacketMeta::default() };
    if let Some(v4) = Ipv4::parse(frame) {
        let (ect, flow) = (v4.packet[1] & ECN != 0, v4.flow());
        return PacketMeta { len: v4.total as u32, payload: v4.has_payload(), df: v4.df(), ect, flow };
    }
    if ether_type(frame) == IPV6 && packet.len() >= 40 {
        let payload = packet[6] != TCP || tcp_payload(&packet[40..], usize::from(u16::from_be_bytes([packet[4], packet[5]])));
        let ports = if matches!(packet[6], TCP | UDP) { packet.get(40..44).unwrap_or_default() } else { &[] };
        return PacketMeta { payload, ect: packet[1] >> 4 & ECN != 0, flow: mix([&packet[8..40], ports, &packet[6..7]]), ..whole };
    }
    whole
}

/// Marks a packet: Congestion Experienced (RFC 3168 section 5). What is not IP stays as it is.
pub(crate) fn mark(frame: &mut [u8]) {
    if let Some(header) = Ipv4::parse(frame).map(|v4| v4.header) {
        let header = &mut frame[IP..IP + header];
        header[1] |= ECN;
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    } else if ether_type(frame) == IPV6 && frame.len() > IP + 1 {
        frame[IP + 1] |= ECN << 4;
    }
}

/// A number of a flow: FNV-1a of what tells it from others.
#[inline]
fn mix(parts: [&[u8]; 3]) -> u32 {
    parts.into_iter().flatten().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn ether_type(frame: &[u8]) -> [u8; 2] {
    frame.get(IP - 2..IP).map_or([0; 2], |kind| [kind[0], kind[1]])
}

/// Whether a TCP segment of this length is more than its header.
fn tcp_payload(segment: &[u8], length: usize) -> bool {
    segment.get(12).is_none_or(|offset| length > usize::from(offset >> 4) * 4)
}

/// An IPv4 packet in a frame, whose lengths are as they claim.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Ipv4<'a> {
    /// From the IP header on, without what may stand behind the packet.
    pub(crate) packet: &'a [u8],
    /// Of the header, bytes.
    pub(crate) header: usize,
    /// Of the packet, bytes.
    pub(crate) total: usize,
}

impl<'a> Ipv4<'a> {
    #[inline]
    pub(crate) fn parse(frame: &'a [u8]) -> Option<Self> {
        let packet = frame.get(IP..)?;
        if ether_type(frame) != IPV4 || packet.len() < 20 || packet[0] >> 4 != 4 {
            return None;
        }
        let header = usize::from(packet[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        (header >= 20 && header <= total && total <= packet.len()).then(|| Self { packet: &packet[..total], header, total })
    }

    pub(crate) fn df(&self) -> bool {
        self.packet[6] & 0x40 != 0
    }

    pub(crate) fn protocol(&self) -> u8 {
        self.packet[9]
    }

    /// More Fragments, and the offset in units of eight bytes.
    pub(crate) fn fragment(&self) -> (bool, u16) {
        let word = u16::from_be_bytes([self.packet[6], self.packet[7]]);
        (word & 0x2000 != 0, word & 0x1fff)
    }

    pub(crate) fn source(&self) -> [u8; 4] {
        [self.packet[12], self.packet[13], self.packet[14], self.packet[15]]
    }

    pub(crate) fn destination(&self) -> [u8; 4] {
        [self.packet[16], self.packet[17], self.packet[18], self.packet[19]]
    }

    /// The same for all packets of a flow (RFC 8290 section 4.1.1: protocol, addresses, ports); of fragments, which have no ports but in the
    /// first one, without ports.
    fn flow(&self) -> u32 {
        let whole = matches!(self.protocol(), TCP | UDP) && self.fragment() == (false, 0);
        let ports = if whole { self.packet.get(self.header..self.header + 4).unwrap_or_default() } else { &[] };
        mix([&self.packet[12..20], ports, &self.packet[9..10]])
    }

    pub(crate) fn has_payload(&self) -> bool {
        self.protocol() != TCP || self.fragment().1 != 0 || tcp_payload(&self.packet[self.header..], self.total - self.header)
    }
}

/// The one's complement of the one's complement sum (RFC 1071).
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

fn sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks_exact(2);
    let last = pairs.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    pairs.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u64>() + last
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Computes a checksum that the sender left to its device, in place; the field holds the sum over the pseudo header (virtio 1.2 section
/// 5.1.6.2).
pub(crate) fn complete_checksum(frame: &mut [u8]) {
    if frame.len() < IP || frame[0] & VIRTIO_NEEDS_CHECKSUM == 0 {
        return;
    }
    let start = HEAD + usize::from(u16::from_ne_bytes([frame[6], frame[7]]));
    let field = start + usize::from(u16::from_ne_bytes([frame[8], frame[9]]));
    if field + 2 <= frame.len() {
        // Zero means "no checksum" in UDP, and is the same number as its complement.
        let found = match checksum(&frame[start..]) {
            0 => 0xffff,
            found => found,
        };
        frame[field..field + 2].copy_from_slice(&found.to_be_bytes());
    }
    frame[..HEAD].fill(0);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{fragment, icmp};
    use proptest::prelude::*;

    /// A frame with an IPv4 packet of this total length; DF as given.
    pub(crate) fn frame(protocol: u8, total: usize, df: bool) -> Vec<u8> {
        let mut frame = vec![0; IP + total];
        frame[HEAD..HEAD + 12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[IP - 2..IP].copy_from_slice(&IPV4);
        let packet = &mut frame[IP..];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&[0x12, 0x34]);
        packet[6] = if df { 0x40 } else { 0 };
        packet[8..10].copy_from_slice(&[64, protocol]);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        for (number, byte) in packet[20..].iter_mut().enumerate() {
            *byte = number as u8;
        }
        if protocol == TCP {
            packet[32] = 5 << 4;
        }
        frame
    }

    #[test]
    fn a_segment_without_payload_is_known_as_such() {
        let seen = |protocol, total, df| PacketMeta { flow: 0, ..meta(&frame(protocol, total, df)) };
        assert_eq!(seen(TCP, 40, true), PacketMeta { len: 40, payload: false, df: true, ..PacketMeta::default() });
        assert_eq!(seen(TCP, 41, false), PacketMeta { len: 41, payload: true, df: false, ..PacketMeta::default() });
        assert_eq!(seen(17, 28, false), PacketMeta { len: 28, payload: true, df: false, ..PacketMeta::default() });
    }

    #[test]
    fn a_packet_that_may_be_marked_is_and_its_checksum_holds() {
        let mut packet = frame(TCP, 60, true);
        assert!(!meta(&packet).ect);
        packet[IP + 1] = 0xa2;
        assert!(meta(&packet).ect);
        mark(&mut packet);
        assert_eq!((packet[IP + 1], checksum(&packet[IP..IP + 20]), meta(&packet).ect), (0xa3, 0, true));
        let mut six = vec![0; IP + 60];
        six[IP - 2..IP].copy_from_slice(&IPV6);
        (six[IP], six[IP + 1]) = (0x60, 0x15);
        assert!(meta(&six).ect);
        mark(&mut six);
        assert_eq!(six[IP + 1], 0x35);
    }

    #[test]
    fn packets_of_a_flow_have_a_number_and_others_another() {
        let (one, mut other) = (frame(TCP, 60, true), frame(TCP, 60, true));
        assert_eq!(meta(&one).flow, meta(&frame(TCP, 900, false)).flow);
        other[IP + 21] = 99;
        assert_ne!(meta(&one).flow, meta(&other).flow);
        // Of two fragments the second one has no ports.
        let (mut first, mut second) = (frame(17, 60, false), frame(17, 60, false));
        (first[IP + 6], second[IP + 7], second[IP + 21]) = (0x20, 5, 99);
        assert_eq!(meta(&first).flow, meta(&second).flow);
    }

    #[test]
    fn padding_behind_a_packet_does_not_count() {
        let mut padded = frame(TCP, 40, true);
        padded.extend([0; 6]);
        assert_eq!(meta(&padded).len, 40);
    }

    #[test]
    fn other_frames_count_with_all_their_bytes() {
        let mut arp = frame(17, 28, false);
        arp[IP - 1] = 0x06;
        assert_eq!(meta(&arp), PacketMeta { len: 28, payload: true, df: true, ..PacketMeta::default() });
        assert_eq!(meta(&[0; 5]).len, 0);
    }

    #[test]
    fn a_checksum_left_to_the_device_is_computed() {
        // A UDP datagram of 9 bytes; the field holds the sum over its pseudo header.
        let mut datagram = frame(17, 29, false);
        let field = IP + 26;
        let pseudo = fold(sum(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 9]));
        datagram[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        let mut bytes = vec![VIRTIO_NEEDS_CHECKSUM, 0, 0, 0, 0, 0];
        bytes.extend(((IP - HEAD + 20) as u16).to_ne_bytes());
        bytes.extend(6_u16.to_ne_bytes());
        datagram[..HEAD].copy_from_slice(&bytes);
        complete_checksum(&mut datagram);
        assert_eq!(datagram[..HEAD], [0; HEAD]);
        let whole = [&[10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 9][..], &datagram[IP + 20..]].concat();
        assert_eq!(checksum(&whole), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200), mtu in 0_u32..300, honest in any::<bool>()) {
            if honest && bytes.len() > IP + 4 {
                // Most random bytes are no IPv4: these claim to be.
                bytes[IP - 2..IP].copy_from_slice(&IPV4);
                bytes[IP] = 0x40 | bytes[IP] & 15;
                bytes[IP + 2] = 0;
            }
            prop_assert!(meta(&bytes).len as usize <= bytes.len());
            let answer = icmp::fragmentation_needed(&bytes, [10, 0, 0, 2], mtu);
            prop_assert!(answer.is_none_or(|answer| Ipv4::parse(&answer).is_some()));
            for part in fragment::split(&bytes, mtu).into_iter().flatten() {
                prop_assert!(part.len() - IP <= mtu as usize);
            }
            mark(&mut bytes);
            complete_checksum(&mut bytes);
        }
    }
}
