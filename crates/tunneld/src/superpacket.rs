//! Large packets of the host's stack: cut into the packets that travel, and put together again from
//! those that have come.
//!
//! The stack hands over a TCP segment of up to 64 KiB, or several UDP datagrams in one, behind a
//! struct virtio_net_hdr that says what is left to do (Linux: `include/uapi/linux/virtio_net.h`).
//! Everything here works on bytes; nothing that a packet holds can panic. Only packets that follow
//! one another are put together, so no packet overtakes another.

use polypath_io::VIRTIO_HEAD;
use polypath_wire::checksum::{Addresses, Sum, checksum};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// The segment that is cut has CWR set, which the first of its parts keeps.
const GSO_ECN: u8 = 0x80;

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;
const CWR: u8 = 128;
/// Where the checksum stands in the transport's header.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// What one packet of the stack may hold, its headers included.
const MOST_BYTES: usize = 65_535;
/// Parts of one packet: the limit of UDP_GSO in the kernel, and enough for TCP.
const MOST_PARTS: usize = 64;

/// A packet of the stack that makes no sense.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A packet to be sent: its first bytes, with room for a tunnel's header before them, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// In the list of heads.
    pub head: Range<usize>,
    /// In the packet of the stack.
    pub body: Range<usize>,
}

/// A little-endian or big-endian number as the machine has it.
fn native(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_ne_bytes([two[0], two[1]]))
}

fn put(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// Cuts what the stack handed over into packets with all their checksums. `room` bytes are left
/// free in front of each head. What is added to `heads` and `parts` stays in their order.
pub fn split(bytes: &mut [u8], room: usize, heads: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<(), Malformed> {
    if bytes.len() < VIRTIO_HEAD + 20 {
        return Err(Malformed);
    }
    let (virtio, packet) = bytes.split_at_mut(VIRTIO_HEAD);
    let (flags, kind) = (virtio[0], virtio[1] & !GSO_ECN);
    let (size, start, field) = (usize::from(native(virtio, 4)), usize::from(native(virtio, 6)), usize::from(native(virtio, 8)));
    if kind == GSO_NONE {
        if flags & NEEDS_CHECKSUM != 0 {
            complete(packet, start, field)?;
        }
        let begin = heads.len();
        heads.resize(begin + room, 0);
        parts.push(Part { head: begin..heads.len(), body: VIRTIO_HEAD..VIRTIO_HEAD + packet.len() });
        return Ok(());
    }
    let (protocol, transport) = match kind {
        GSO_TCP4 | GSO_TCP6 => (TCP, 4 * usize::from(packet.get(start + 12).ok_or(Malformed)? >> 4)),
        GSO_UDP => (UDP, UDP_HEADER),
        _ => return Err(Malformed),
    };
    let head = start + transport;
    let least = if protocol == TCP { 20 } else { UDP_HEADER };
    if size == 0 || start < 20 || transport < least || packet.len() < head || (packet[0] >> 4 == 6 && start < 40) {
        return Err(Malformed);
    }
    let addresses = addresses(packet).ok_or(Malformed)?;
    let whole = packet.len() - head;
    let count = whole.div_ceil(size).max(1);
    for number in 0..count {
        let body = head + number * size..packet.len().min(head + (number + 1) * size);
        let begin = heads.len();
        heads.resize(begin + room, 0);
        heads.extend_from_slice(&packet[..head]);
        let own = &mut heads[begin + room..];
        set_lengths(own, head - start, start, body.len(), number as u16);
        let (ip, own) = own.split_at_mut(start);
        debug_assert!(!ip.is_empty());
        let at = if protocol == TCP {
            let seq = u32::from_be_bytes([own[4], own[5], own[6], own[7]]).wrapping_add((number * size) as u32);
            own[4..8].copy_from_slice(&seq.to_be_bytes());
            own[13] &= if number + 1 < count { !(FIN | PSH) } else { 0xff };
            own[13] &= if number > 0 { !CWR } else { 0xff };
            TCP_CHECKSUM
        } else {
            put(own, 4, (UDP_HEADER + body.len()) as u16);
            UDP_CHECKSUM
        };
        put(own, at, 0);
        let sum = addresses.pseudo_header(protocol, transport + body.len()).bytes(own).bytes(&packet[body.clone()]);
        put(own, at, finished(sum, protocol));
        parts.push(Part { head: begin..heads.len(), body: VIRTIO_HEAD + body.start..VIRTIO_HEAD + body.end });
    }
    Ok(())
}

/// Zero means none in UDP (RFC 768).
fn finished(sum: Sum, protocol: u8) -> u16 {
    match sum.checksum() {
        0 if protocol == UDP => 0xffff,
        sum => sum,
    }
}

/// Computes the checksum that was left to the device: over everything from `start` on, the sum of
/// the pseudo header in its field.
fn complete(packet: &mut [u8], start: usize, field: usize) -> Result<(), Malformed> {
    let at = start + field;
    if at + 2 > packet.len() {
        return Err(Malformed);
    }
    let sum = match checksum(&packet[start..]) {
        0 if field == UDP_CHECKSUM => 0xffff,
        sum => sum,
    };
    put(packet, at, sum);
    Ok(())
}

/// The IP header's lengths, for a packet of its own; in IPv4 also the identification, which grows
/// by `number`, and the checksum.
fn set_lengths(head: &mut [u8], transport: usize, start: usize, body: usize, number: u16) {
    if head[0] >> 4 == 4 {
        put(head, 2, (start + transport + body) as u16);
        let ident = u16::from_be_bytes([head[4], head[5]]).wrapping_add(number);
        put(head, 4, ident);
        put(head, 10, 0);
        let sum = checksum(&head[..start]);
        put(head, 10, sum);
    } else {
        put(head, 4, (start - 40 + transport + body) as u16);
    }
}

fn addresses(packet: &[u8]) -> Option<Addresses> {
    let four = |at: usize| packet.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(Ipv4Addr::from);
    let sixteen = |at: usize| packet.get(at..at + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()).map(Ipv6Addr::from);
    match packet.first()? >> 4 {
        4 => Some(Addresses::V4 { source: four(12)?, destination: four(16)? }),
        6 => Some(Addresses::V6 { source: sixteen(8)?, destination: sixteen(24)? }),
        _ => None,
    }
}

/// A number that is equal for packets of one flow: addresses, protocol and, where they are known,
/// ports.
pub fn flow_hash(packet: &[u8]) -> u32 {
    let (addresses, protocol, ports) = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            let header = 4 * usize::from(packet[0] & 15);
            let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
            (12..20, packet[9], (!fragment).then_some(header))
        }
        Some(6) if packet.len() >= 40 => (8..40, packet[6], Some(40)),
        _ => return 0,
    };
    let ports = ports.filter(|_| matches!(protocol, TCP | UDP)).and_then(|at| packet.get(at..at + 4)).unwrap_or_default();
    let words = packet[addresses].chunks_exact(4).chain([ports].into_iter().filter(|ports| !ports.is_empty()));
    words.fold(u32::from(protocol), |hash, word| {
        let hash = (hash ^ u32::from_be_bytes([word[0], word[1], word[2], word[3]])).wrapping_mul(0x9e37_79b1);
        hash ^ hash >> 15
    })
}

/// What may be put together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Mergeable {
    protocol: u8,
    /// Where the transport's header begins.
    start: usize,
    /// Where the payload begins.
    head: usize,
    payload: usize,
    /// TCP's number of the first byte.
    seq: u32,
}

impl Mergeable {
    /// None of what has IP options, extension headers, fragments, no payload, or flags of TCP other
    /// than ACK and PSH.
    fn of(packet: &[u8], udp: bool) -> Option<Self> {
        let (protocol, start) = match packet.first()? {
            0x45 if packet.len() >= 40 => {
                let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
                let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
                if length != packet.len() || fragment || checksum(&packet[..20]) != 0 {
                    return None;
                }
                (packet[9], 20)
            }
            first if first >> 4 == 6 && packet.len() >= 60 => {
                if usize::from(u16::from_be_bytes([packet[4], packet[5]])) != packet.len() - 40 {
                    return None;
                }
                (packet[6], 40)
            }
            _ => return None,
        };
        let own = &packet[start..];
        let (transport, seq) = match protocol {
            TCP => {
                let transport = 4 * usize::from(own[12] >> 4);
                if transport < 20 || own[13] & !PSH != ACK {
                    return None;
                }
                (transport, u32::from_be_bytes([own[4], own[5], own[6], own[7]]))
            }
            // A checksum of zero says that there is none (RFC 768): put together, the packet would
            // have one.
            UDP if udp && usize::from(u16::from_be_bytes([own[4], own[5]])) == own.len() && own[6..8] != [0, 0] => (UDP_HEADER, 0),
            _ => return None,
        };
        let payload = own.len().checked_sub(transport).filter(|&payload| payload > 0)?;
        Some(Self { protocol, start, head: start + transport, payload, seq })
    }

    /// The transport's checksum is right.
    fn is_whole(&self, packet: &[u8]) -> bool {
        let own = &packet[self.start..];
        addresses(packet).is_some_and(|addresses| addresses.pseudo_header(self.protocol, own.len()).bytes(own).checksum() == 0)
    }

    /// The headers say the same, but for lengths, identification, checksums, PSH and TCP's sequence
    /// number.
    fn same_headers(&self, a: &[u8], b: &[u8]) -> bool {
        let ip = if a[0] >> 4 == 4 {
            a[1] == b[1] && a[6..10] == b[6..10] && a[12..20] == b[12..20]
        } else {
            a[..4] == b[..4] && a[6..40] == b[6..40]
        };
        let (a, b) = (&a[self.start..self.head], &b[self.start..self.head]);
        ip && a[..4] == b[..4] && (self.protocol == UDP || a[8..13] == b[8..13] && a[14..16] == b[14..16] && a[18..] == b[18..])
    }
}

/// Packets that are handed to the stack with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The first of them.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Where the payload begins in each of several.
    pub head: usize,
}

/// Sorts packets into groups of such as follow one another; `udp`: the stack takes UDP datagrams
/// so, too.
pub fn group<T: AsRef<[u8]>>(packets: &[T], udp: bool, groups: &mut Vec<Group>) {
    groups.clear();
    // The last packet if another may be added to its group, whether its checksum is known to be
    // right, and what the group has.
    let mut open: Option<(Mergeable, bool, usize, Mergeable)> = None;
    for (number, packet) in packets.iter().enumerate() {
        let packet = packet.as_ref();
        let own = Mergeable::of(packet, udp);
        if let (Some((last, whole, total, first)), Some(own), Some(group)) = (open, own, groups.last_mut()) {
            let begin = packets[group.first].as_ref();
            let fits = own.protocol == first.protocol
                && own.head == first.head
                && begin[0] == packet[0]
                && last.payload == first.payload
                && own.payload <= first.payload
                && (own.protocol == UDP || own.seq == last.seq.wrapping_add(last.payload as u32))
                && total + own.payload <= MOST_BYTES
                && group.count < MOST_PARTS
                // Data behind PSH are another segment's.
                && (own.protocol == UDP || packets[number - 1].as_ref()[last.start + 13] & PSH == 0)
                && first.same_headers(begin, packet);
            if fits && (whole || first.is_whole(begin)) && own.is_whole(packet) {
                group.count += 1;
                group.head = own.head;
                open = Some((own, true, total + own.payload, first));
                continue;
            }
        }
        groups.push(Group { first: number, count: 1, head: 0 });
        open = own.map(|own| (own, false, packet.len(), own));
    }
}

/// The head of what the stack gets for a group: a struct virtio_net_hdr and, for several packets,
/// the headers of all. The payloads follow, of one packet the whole packet.
pub fn merged_head<T: AsRef<[u8]>>(packets: &[T], group: &Group, into: &mut Vec<u8>) {
    into.clear();
    into.resize(VIRTIO_HEAD, 0);
    if group.count == 1 {
        return;
    }
    let first = packets[group.first].as_ref();
    let Some(own) = Mergeable::of(first, true) else { return };
    let members = &packets[group.first..group.first + group.count];
    let payload: usize = members.iter().map(|packet| packet.as_ref().len() - own.head).sum();
    into.extend_from_slice(&first[..own.head]);
    let (virtio, head) = into.split_at_mut(VIRTIO_HEAD);
    let (kind, field) = match (own.protocol, first[0] >> 4) {
        (TCP, 4) => (GSO_TCP4, TCP_CHECKSUM),
        (TCP, _) => (GSO_TCP6, TCP_CHECKSUM),
        _ => (GSO_UDP, UDP_CHECKSUM),
    };
    virtio[..2].copy_from_slice(&[NEEDS_CHECKSUM, kind]);
    for (at, number) in [(2, own.head), (4, own.payload), (6, own.start), (8, field)] {
        virtio[at..at + 2].copy_from_slice(&(number as u16).to_ne_bytes());
    }
    set_lengths(head, own.head - own.start, own.start, payload, 0);
    let transport = &mut head[own.start..];
    let length = transport.len() + payload;
    if own.protocol == TCP {
        let last = members[group.count - 1].as_ref();
        transport[13] |= last[own.start + 13] & PSH;
    } else {
        put(transport, 4, length as u16);
    }
    // What is left to do is the sum over everything behind the pseudo header.
    let sum = addresses(first).map_or(0, |addresses| addresses.pseudo_header(own.protocol, length).folded());
    put(transport, field, sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A TCP or UDP packet with right checksums, of IPv4 or IPv6.
    fn packet(v6: bool, protocol: u8, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let transport = if protocol == TCP { 32 } else { UDP_HEADER };
        let start = if v6 { 40 } else { 20 };
        let mut bytes = vec![0; start + transport];
        if v6 {
            bytes[0] = 0x60;
            bytes[6..8].copy_from_slice(&[protocol, 64]);
            (bytes[23], bytes[39]) = (1, 2);
        } else {
            bytes[0] = 0x45;
            bytes[8..10].copy_from_slice(&[64, protocol]);
            bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let own = &mut bytes[start..];
        own[..4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
        let at = if protocol == TCP {
            own[4..8].copy_from_slice(&seq.to_be_bytes());
            own[12..14].copy_from_slice(&[8 << 4, flags]);
            TCP_CHECKSUM
        } else {
            put(own, 4, (UDP_HEADER + payload.len()) as u16);
            UDP_CHECKSUM
        };
        set_lengths(&mut bytes, transport, start, payload.len(), 0);
        let sum = addresses(&bytes).unwrap().pseudo_header(protocol, transport + payload.len()).bytes(&bytes[start..]).bytes(payload);
        put(&mut bytes, start + at, finished(sum, protocol));
        bytes.extend(payload);
        bytes
    }

    /// What the stack would get, in one piece.
    fn written(packets: &[Vec<u8>], group: &Group) -> Vec<u8> {
        let mut bytes = vec![];
        merged_head(packets, group, &mut bytes);
        for packet in &packets[group.first..group.first + group.count] {
            bytes.extend(&packet[if group.count == 1 { 0 } else { group.head }..]);
        }
        bytes
    }

    fn parts(mut bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let (mut heads, mut parts) = (vec![], vec![]);
        split(&mut bytes, 8, &mut heads, &mut parts).expect("it makes sense");
        parts.iter().map(|part| [&heads[part.head.start + 8..part.head.end], &bytes[part.body.clone()]].concat()).collect()
    }

    fn grouped(packets: &[Vec<u8>]) -> Vec<(usize, usize)> {
        let mut groups = vec![];
        group(packets, true, &mut groups);
        groups.iter().map(|group| (group.first, group.count)).collect()
    }

    #[test]
    fn what_is_put_together_is_cut_into_the_same_again() {
        for (v6, protocol) in [(false, TCP), (true, TCP), (false, UDP), (true, UDP)] {
            let mut packets: Vec<_> = (0..5_u32).map(|n| packet(v6, protocol, n * 100, ACK, &[n as u8 + 1; 100])).collect();
            packets.push(packet(v6, protocol, 500, ACK | PSH, &[9; 33]));
            if !v6 {
                // Identification grows by one where a stack cuts.
                for (n, packet) in packets.iter_mut().enumerate() {
                    set_lengths(packet, if protocol == TCP { 32 } else { 8 }, 20, if n == 5 { 33 } else { 100 }, n as u16);
                }
            }
            let mut groups = vec![];
            group(&packets, true, &mut groups);
            assert_eq!(groups.len(), 1, "v6 {v6} protocol {protocol}");
            assert_eq!(parts(written(&packets, &groups[0])), packets, "v6 {v6} protocol {protocol}");
        }
    }

    #[test]
    fn what_does_not_belong_together_stays_apart() {
        let tcp = |seq, flags, length: usize| packet(false, TCP, seq, flags, &vec![7; length]);
        assert_eq!(grouped(&[tcp(0, ACK, 100), tcp(100, ACK, 100), tcp(300, ACK, 100)]), [(0, 2), (2, 1)], "a gap");
        assert_eq!(grouped(&[tcp(0, ACK, 100), tcp(100, ACK, 50), tcp(150, ACK, 50)]), [(0, 2), (2, 1)], "a short one ends a group");
        assert_eq!(grouped(&[tcp(0, ACK, 100), tcp(100, ACK, 101)]), [(0, 1), (1, 1)], "a longer one");
        assert_eq!(grouped(&[tcp(0, ACK | PSH, 100), tcp(100, ACK, 100)]), [(0, 1), (1, 1)], "PSH ends a group");
        assert_eq!(grouped(&[tcp(0, ACK, 0), tcp(0, ACK, 100)]), [(0, 1), (1, 1)], "an ACK alone");
        assert_eq!(grouped(&[tcp(0, ACK, 100), tcp(100, ACK | FIN, 100)]), [(0, 1), (1, 1)], "FIN");
        let mut broken = tcp(100, ACK, 100);
        broken[60] ^= 1;
        assert_eq!(grouped(&[tcp(0, ACK, 100), broken, tcp(200, ACK, 100)]), [(0, 1), (1, 1), (2, 1)], "a wrong checksum is not hidden");
        let mut marked = tcp(100, ACK, 100);
        marked[1] = 3;
        set_lengths(&mut marked, 32, 20, 100, 0);
        assert_eq!(grouped(&[tcp(0, ACK, 100), marked]), [(0, 1), (1, 1)], "another ECN mark");
    }

    #[test]
    fn a_checksum_that_was_left_to_the_device_is_computed() {
        let whole = packet(false, UDP, 0, 0, b"abc");
        let mut bytes = vec![0; VIRTIO_HEAD];
        bytes[0] = NEEDS_CHECKSUM;
        bytes[6..8].copy_from_slice(&20_u16.to_ne_bytes());
        bytes[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        bytes.extend(&whole);
        let sum = addresses(&whole).unwrap().pseudo_header(UDP, 11).folded();
        put(&mut bytes, VIRTIO_HEAD + 26, sum);
        assert_eq!(parts(bytes), [whole]);
    }

    #[test]
    fn packets_of_a_flow_have_one_hash_and_others_hardly_ever() {
        let a = packet(false, TCP, 0, ACK, &[1; 10]);
        assert_eq!(flow_hash(&a), flow_hash(&packet(false, TCP, 77, ACK, &[2; 99])));
        assert_ne!(flow_hash(&a), flow_hash(&packet(false, UDP, 0, 0, &[1; 10])));
        assert_eq!(flow_hash(&[]), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_cut_and_grouped_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            kind in 0..6_u8,
            start in 0..80_u8,
            cut in 0..100_usize,
        ) {
            if bytes.len() > 7 {
                bytes[1] = kind;
                bytes[6..8].copy_from_slice(&u16::from(start).to_ne_bytes());
            }
            let (mut heads, mut parts, mut groups) = (vec![], vec![], vec![]);
            let _ = split(&mut bytes, 12, &mut heads, &mut parts);
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            group(&[a, b, b], true, &mut groups);
            let mut head = vec![];
            for group in &groups {
                merged_head(&[a, b, b], group, &mut head);
            }
            flow_hash(&bytes);
        }
    }
}
