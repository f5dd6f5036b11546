//! What the emulator has to know of a frame: length, Don't Fragment, whether it carries payload;
//! and what it does to one: marks, answers, fragments, checksums that were left to a device. The
//! formats are `polypath_wire`'s.
//!
//! Frames begin with [`HEAD`] bytes of struct virtio_net_hdr, then Ethernet. Nothing here panics on
//! any bytes.

use polypath_base::Bytes;
use polypath_io::HEAD;
use polypath_link::PacketMeta;
use polypath_wire::checksum::checksum;
use polypath_wire::{icmpv4, icmpv6, ipv4, ipv6, tcp, udp};
use std::net::IpAddr;

pub(crate) const ETHERNET: usize = 14;
/// Where the IP packet begins.
pub(crate) const IP: usize = HEAD + ETHERNET;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Congestion Experienced (RFC 3168).
const CE: u8 = 3;
const VIRTIO_NEEDS_CHECKSUM: u8 = 1;

/// What the elements see of a frame. What is neither IPv4 nor IPv6 (ARP) is a packet that cannot be
/// split.
#[inline]
pub(crate) fn meta(frame: &[u8]) -> PacketMeta {
    if let Some(v4) = ipv4_packet(frame) {
        let first = v4.fragment_offset() == 0;
        let whole = first && !v4.more_fragments();
        return PacketMeta {
            len: Bytes::new(v4.total_len() as u64),
            payload: !first || has_payload(v4.protocol(), v4.payload()),
            df: v4.dont_fragment(),
            ect: v4.ecn() != 0,
            l4s: v4.ecn() & 1 != 0,
            flow: mix([&v4.header()[12..20], if whole { ports(v4.protocol(), v4.payload()) } else { &[] }, &[v4.protocol()]]),
        };
    }
    let packet = frame.get(IP..).unwrap_or_default();
    let other = PacketMeta { len: Bytes::new(packet.len() as u64), payload: true, df: true, ..PacketMeta::default() };
    let Some(v6) = ipv6_packet(frame) else { return other };
    let (protocol, addresses) = (v6.next_header(), &v6.packet()[8..ipv6::HEADER]);
    let flow = mix([addresses, ports(protocol, v6.payload()), &[protocol]]);
    PacketMeta { payload: has_payload(protocol, v6.payload()), ect: v6.ecn() != 0, l4s: v6.ecn() & 1 != 0, flow, ..other }
}

/// Marks a packet: Congestion Experienced (RFC 3168 section 5). What is not IP stays as it is.
pub(crate) fn mark(frame: &mut [u8]) {
    let kind = ether_type(frame);
    let Some(packet) = frame.get_mut(IP..) else { return };
    if kind == IPV4 {
        if let Ok(mut v4) = ipv4::Packet::new_checked(packet) {
            v4.set_ecn(CE);
        }
    } else if kind == IPV6 {
        if let Ok(mut v6) = ipv6::Packet::new_checked(packet) {
            v6.set_ecn(CE);
        }
    }
}

/// The frame that answers one that does not fit into `mtu` bytes, sent by the interface with the
/// address `from`; none where no answer is allowed ([`icmpv4::fragmentation_needed`],
/// [`icmpv6::packet_too_big`]), to what is not IP, and to IPv4 without an IPv4 address.
///
/// To IPv6 an interface without an IPv6 address answers in the name of the packet's destination,
/// which lies behind it: senders look at the quoted packet, not at who answers.
pub(crate) fn too_big(refused: &[u8], from: Option<IpAddr>, mtu: Bytes) -> Option<Vec<u8>> {
    // To many at once, on the layer below.
    if refused.get(HEAD).is_none_or(|first| first & 1 != 0) {
        return None;
    }
    let (kind, answer) = if let Some(v4) = ipv4_packet(refused) {
        let Some(IpAddr::V4(from)) = from else { return None };
        (IPV4, icmpv4::fragmentation_needed(v4.packet(), from, mtu.as_u32())?)
    } else {
        let v6 = ipv6_packet(refused)?;
        let from = match from {
            Some(IpAddr::V6(from)) => from,
            _ if v6.destination().is_multicast() => return None,
            _ => v6.destination(),
        };
        (IPV6, icmpv6::packet_too_big(v6.packet(), from, mtu.as_u32())?)
    };
    // Back to the station that it came from.
    let (destination, source) = (&refused[HEAD..HEAD + 6], &refused[HEAD + 6..HEAD + 12]);
    Some([&[0; HEAD][..], source, destination, &kind, &answer].concat())
}

/// The frames of the fragments of at most `mtu` bytes; none if it is no IPv4 packet or the MTU
/// leaves no room for eight bytes.
pub(crate) fn fragment(frame: &[u8], mtu: Bytes) -> Option<Vec<Vec<u8>>> {
    let mut whole = frame.to_vec();
    complete_checksum(&mut whole);
    let parts = ipv4::fragment(ipv4_packet(&whole)?.packet(), mtu.get() as usize)?;
    Some(parts.into_iter().map(|part| [&whole[..IP], &part].concat()).collect())
}

fn ipv4_packet(frame: &[u8]) -> Option<ipv4::Packet<&[u8]>> {
    if ether_type(frame) != IPV4 {
        return None;
    }
    ipv4::Packet::new_checked(frame.get(IP..)?).ok()
}

fn ipv6_packet(frame: &[u8]) -> Option<ipv6::Packet<&[u8]>> {
    if ether_type(frame) != IPV6 {
        return None;
    }
    ipv6::Packet::new_checked(frame.get(IP..)?).ok()
}

/// A number of a flow: FNV-1a of what tells it from others.
#[inline]
fn mix(parts: [&[u8]; 3]) -> u32 {
    parts.into_iter().flatten().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn ether_type(frame: &[u8]) -> [u8; 2] {
    frame.get(IP - 2..IP).map_or([0; 2], |kind| [kind[0], kind[1]])
}

/// The bytes of both ports.
fn ports(protocol: u8, payload: &[u8]) -> &[u8] {
    if matches!(protocol, tcp::PROTOCOL | udp::PROTOCOL) { payload.get(..4).unwrap_or_default() } else { &[] }
}

/// Whether there is more than the header of a TCP segment; of other protocols every packet counts
/// as payload.
fn has_payload(protocol: u8, payload: &[u8]) -> bool {
    protocol != tcp::PROTOCOL || payload.get(12).is_none_or(|offset| payload.len() > usize::from(offset >> 4) * 4)
}

/// Computes a checksum that the sender left to its device, in place; the field holds the sum over
/// the pseudo header (virtio 1.2 section 5.1.6.2).
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
    use polypath_wire::checksum::Sum;
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
        if protocol == tcp::PROTOCOL {
            packet[32] = 5 << 4;
        }
        frame
    }

    #[test]
    fn a_segment_without_payload_is_known_as_such() {
        let seen = |protocol, total, df| PacketMeta { flow: 0, ..meta(&frame(protocol, total, df)) };
        assert_eq!(seen(tcp::PROTOCOL, 40, true), PacketMeta { len: Bytes::new(40), payload: false, df: true, ..PacketMeta::default() });
        assert_eq!(seen(tcp::PROTOCOL, 41, false), PacketMeta { len: Bytes::new(41), payload: true, df: false, ..PacketMeta::default() });
        assert_eq!(seen(17, 28, false), PacketMeta { len: Bytes::new(28), payload: true, df: false, ..PacketMeta::default() });
    }

    #[test]
    fn a_packet_that_may_be_marked_is_and_its_checksum_holds() {
        let mut packet = frame(tcp::PROTOCOL, 60, true);
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
        let (one, mut other) = (frame(tcp::PROTOCOL, 60, true), frame(tcp::PROTOCOL, 60, true));
        assert_eq!(meta(&one).flow, meta(&frame(tcp::PROTOCOL, 900, false)).flow);
        other[IP + 21] = 99;
        assert_ne!(meta(&one).flow, meta(&other).flow);
        // Of two fragments the second one has no ports.
        let (mut first, mut second) = (frame(17, 60, false), frame(17, 60, false));
        (first[IP + 6], second[IP + 7], second[IP + 21]) = (0x20, 5, 99);
        assert_eq!(meta(&first).flow, meta(&second).flow);
    }

    #[test]
    fn padding_behind_a_packet_does_not_count() {
        let mut padded = frame(tcp::PROTOCOL, 40, true);
        padded.extend([0; 6]);
        assert_eq!(meta(&padded).len, Bytes::new(40));
    }

    #[test]
    fn other_frames_count_with_all_their_bytes() {
        let mut arp = frame(17, 28, false);
        arp[IP - 1] = 0x06;
        assert_eq!(meta(&arp), PacketMeta { len: Bytes::new(28), payload: true, df: true, ..PacketMeta::default() });
        assert_eq!(meta(&[0; 5]).len, Bytes::ZERO);
    }

    #[test]
    fn a_checksum_left_to_the_device_is_computed() {
        // A UDP datagram of 9 bytes; the field holds the sum over its pseudo header.
        let mut datagram = frame(17, 29, false);
        let field = IP + 26;
        let pseudo = Sum::default().bytes(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 9]).folded();
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

    #[test]
    fn an_answer_goes_back_to_the_station_that_sent_the_packet() {
        let refused = frame(tcp::PROTOCOL, 1500, true);
        let here = Some(IpAddr::from([10, 0, 0, 2]));
        let answer = too_big(&refused, here, Bytes::new(1400)).unwrap();
        assert_eq!(answer[HEAD..HEAD + 6], refused[HEAD + 6..HEAD + 12]);
        assert_eq!(answer[HEAD + 6..HEAD + 12], refused[HEAD..HEAD + 6]);
        let v4 = ipv4_packet(&answer).unwrap();
        assert_eq!((v4.protocol(), v4.destination()), (icmpv4::PROTOCOL, [10, 0, 0, 1].into()));
        let mut broadcast = frame(17, 1500, true);
        broadcast[HEAD] = 0xff;
        assert!(too_big(&broadcast, here, Bytes::new(1400)).is_none());
        assert!(too_big(&refused, None, Bytes::new(1400)).is_none(), "no address to answer from");
    }

    /// A frame with an IPv6 packet of this total length.
    fn frame_6(next_header: u8, total: usize) -> Vec<u8> {
        let mut frame = frame(17, total, true);
        frame[IP - 2..IP].copy_from_slice(&IPV6);
        let address = |last| std::net::Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, last);
        let (source, destination, payload_len) = (address(1), address(2), total - ipv6::HEADER);
        let header = ipv6::Repr { source, destination, next_header, payload_len, ..ipv6::Repr::default() };
        header.emit(&mut frame[IP..]).unwrap();
        frame
    }

    #[test]
    fn a_long_packet_of_ipv6_is_answered_too() {
        let refused = frame_6(tcp::PROTOCOL, 1500);
        let other = "fd01::9".parse().unwrap();
        for (from, answers) in
            [(Some(other), other), (None, "fd01::2".parse().unwrap()), (Some([10; 4].into()), "fd01::2".parse().unwrap())]
        {
            let answer = too_big(&refused, from, Bytes::new(1400)).unwrap();
            assert_eq!((&answer[HEAD..HEAD + 6], &answer[HEAD + 6..HEAD + 12]), (&refused[HEAD + 6..HEAD + 12], &refused[HEAD..HEAD + 6]));
            let v6 = ipv6_packet(&answer).unwrap();
            assert_eq!((IpAddr::from(v6.source()), v6.destination()), (answers, "fd01::1".parse().unwrap()));
            let message = icmpv6::Packet::new_checked(v6.payload()).unwrap();
            let repr = icmpv6::Repr::parse(&message, &v6.addresses()).unwrap();
            assert_eq!(repr.message, icmpv6::Message::PacketTooBig { mtu: 1400 });
            assert_eq!(message.payload(), &refused[IP..IP + 1232]);
        }
    }

    #[test]
    fn fragments_keep_the_frames_head() {
        let whole = frame(17, 1500, false);
        let parts = fragment(&whole, Bytes::new(1000)).unwrap();
        assert_eq!(parts.iter().map(|part| part.len() - IP).collect::<Vec<_>>(), [996, 524]);
        assert!(parts.iter().all(|part| part[..IP] == whole[..IP]));
        assert!(fragment(&[1; 8], Bytes::new(1000)).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200), mtu in 0_u32..300, honest in any::<bool>(), six in any::<bool>()) {
            if honest && six && bytes.len() > IP + 6 {
                bytes[IP - 2..IP].copy_from_slice(&IPV6);
                bytes[IP] = 0x60 | bytes[IP] & 15;
                bytes[IP + 4] = 0;
            } else if honest && bytes.len() > IP + 4 {
                // Most random bytes are no IPv4: these claim to be.
                bytes[IP - 2..IP].copy_from_slice(&IPV4);
                bytes[IP] = 0x40 | bytes[IP] & 15;
                bytes[IP + 2] = 0;
            }
            prop_assert!(meta(&bytes).len.get() as usize <= bytes.len());
            let answer = too_big(&bytes, Some([10, 0, 0, 2].into()), Bytes::from_u32(mtu));
            prop_assert!(answer.is_none_or(|answer| ipv4_packet(&answer).is_some() || ipv6_packet(&answer).is_some()));
            for part in fragment(&bytes, Bytes::from_u32(mtu)).into_iter().flatten() {
                prop_assert!(part.len() - IP <= mtu as usize);
            }
            mark(&mut bytes);
            complete_checksum(&mut bytes);
        }
    }
}
