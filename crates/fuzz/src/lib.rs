//! What fuzzers try: each target is a function of bytes that panics if a promise is broken. A new
//! one is a function here, a file in `targets`, its `[[bin]]`, a line of `tests/corpus.rs`, and a
//! folder of `corpus` with what it begins with.
//!
//! `make fuzz` runs the targets under libFuzzer, guided by coverage. `corpus/TARGET/` holds the
//! inputs that it begins with: small captures, what reached new code in earlier runs, and each
//! input that once failed. The plain test run tries all of them again, without libFuzzer.
#![forbid(unsafe_code)]

mod endpoint;
mod files;
mod peers;
mod scenarios;

#[path = "../../wire/tests/formats/harmless.rs"]
mod harmless;
#[path = "../../pmtu/tests/hostile/sender.rs"]
mod sender;

pub use endpoint::tunnel_paths;
pub use files::tunnel_files;
pub use peers::peers;
pub use scenarios::scenarios;

use polypath_base::{Bytes, Duration};
use polypath_capture::{ConnectionReport, DirectionReport, Report, SpreadReport, analyse};
use polypath_pmtu::{Bounds, LEAST_MTU, LEAST_MTU_IPV6, MtuSearch, Policy, Sysctls};
use polypath_tunneld::encapsulation::{Content, Encapsulation, Framing};
use polypath_tunneld::mss;
use polypath_tunneld::superpacket::{flow_hash, group, merged_head, split};
use polypath_wire::pcapng::{self, LinkType};
use polypath_wire::{ipv4, ipv6, tcp};
use sender::{Event, MOST_OUT, Sender, budget};

/// A capture file of any content: read alone, and beside a part of itself as if that were a second
/// place.
pub fn captures(bytes: &[u8]) {
    let report = analyse(vec![("whole".to_owned(), bytes)]);
    check(&report);
    // The smallest block with a packet, of the three formats of blocks, has 16 bytes.
    assert!(report.files[0].packets <= bytes.len() as u64 / 16, "more packets than there is room for");
    let part = &bytes[..bytes.len() - bytes.len() / 4];
    let beside = analyse(vec![("part".to_owned(), part), ("whole".to_owned(), bytes)]);
    check(&beside);
    assert!(beside.files[0].packets <= report.files[0].packets, "a part has packets that the whole has not");
    assert_eq!(beside.files[1].packets, report.files[0].packets, "what stands beside a file changes what is in it");
}

/// Packets, each behind three bytes: milliseconds since the one before, and its length
/// (big-endian). Each is read by every format of `wire`, and all of them are a capture. What `wire`
/// reads of TCP, the capture must read.
pub fn packets(bytes: &[u8]) {
    let (mut file, mut rest, mut now, mut count, mut segments) = (vec![], bytes, 0, 0_u64, 0_u64);
    pcapng::section(&mut file, "fuzz");
    pcapng::interface(&mut file, LinkType::RawIp, 0, "x");
    while let Some((&[step, high, low], behind)) = rest.split_first_chunk() {
        let (packet, behind) = behind.split_at(behind.len().min(usize::from(u16::from_be_bytes([high, low]))));
        for start in [0, 20, 40, 52] {
            harmless::try_all(packet.get(start..).unwrap_or_default());
        }
        let packet = repaired(packet);
        segments += u64::from(is_segment(&packet));
        count += 1;
        now += u64::from(step) * 1_000_000;
        pcapng::packet(&mut file, now, packet.len() as u32, &packet);
        rest = behind;
    }
    let report = analyse(vec![("packets".to_owned(), &file[..])]);
    check(&report);
    let read = &report.files[0];
    assert_eq!((read.packets, &read.broken), (count, &None), "our own file is whole");
    assert!(read.unread + segments <= count, "the capture cannot read a segment that wire reads: {report:?}");
}

/// A search for a path's MTU, and events of five bytes each: what kind, and two sizes (big-endian).
/// The first byte says which search and which IP version, the second `tcp_mtu_probing`, the next
/// two the interface's MTU.
pub fn path_mtu(bytes: &[u8]) {
    let Some((&[which, probing, high, low], mut rest)) = bytes.split_first_chunk() else { return };
    let floor = if which & 0x80 == 0 { LEAST_MTU } else { LEAST_MTU_IPV6 };
    let ceiling = Bytes::new(u64::from(u16::from_be_bytes([high, low]))).max(floor);
    let bounds = Bounds { floor, base: Bytes::new(1076), ceiling, headers: Bytes::new(52) };
    let (name, _) = MtuSearch::NAMES[usize::from(which & 0x7f) % MtuSearch::NAMES.len()];
    let search = MtuSearch::find(name).expect("it is in the list");
    let mut sender = Sender::new(search.search(Sysctls { mtu_probing: probing % 3, ..Sysctls::default() }), bounds);
    let mut spent = 0;
    while let Some((&[kind, a, b, c, d], behind)) = rest.split_first_chunk() {
        rest = behind;
        let [one, other] = [[a, b], [c, d]].map(|pair| u64::from(u16::from_be_bytes(pair)));
        let event = match kind % 9 {
            0 => Event::Room,
            1 => Event::Arrives(usize::from(a)),
            2 => Event::IsLost(usize::from(a)),
            3 => Event::IsForgotten(usize::from(a)),
            4 => Event::Hint(one),
            5 => Event::DataArrives(one),
            6 => Event::DataLost([one, other], a & 1 != 0),
            7 => Event::BlackHole,
            _ => Event::Passes(Duration::from_millis(one << 16 | other)),
        };
        sender.suffer(event);
        let size = sender.search.largest();
        assert!(size == Bytes::MAX || size <= ceiling.max(bounds.base), "{name}, {event:?}: {size:?} of {bounds:?}");
        if search == MtuSearch::Parallel {
            assert!(size >= floor && size <= ceiling, "{event:?}: {size:?} of {bounds:?}");
            assert!(sender.out.len() <= MOST_OUT);
            if sender.spent > spent {
                spent = sender.spent;
                assert!(spent <= budget(sender.now.since(polypath_base::Instant::ZERO), sender.arrived), "{spent} bytes in probes");
            }
        }
    }
}

/// Datagrams that a tunnel's other end sends, each behind its length (big-endian): what is in them
/// is put together for the host's stack. The first byte says what form the tunnel has, and whether
/// lengths and checksums of packets are put right, as a real sender has them.
pub fn tunnel(bytes: &[u8]) {
    let Some((&form, mut rest)) = bytes.split_first() else { return };
    let framing = if form & 1 == 0 { Framing::Mpt } else { Framing::Rfc8086 };
    let form_of_datagrams = Encapsulation { framing, key: (form & 2 != 0).then_some(7), numbered: form & 4 != 0 };
    let mut packets = vec![];
    while let Some((&[high, low], behind)) = rest.split_first_chunk() {
        let (datagram, behind) = behind.split_at(behind.len().min(usize::from(u16::from_be_bytes([high, low]))));
        rest = behind;
        let content = form_of_datagrams.parse(datagram, 1464);
        if let Ok(Content::Report(report)) = content {
            assert_eq!(form_of_datagrams.parse(&form_of_datagrams.report(&report), 1464), Ok(Content::Report(report)));
        } else if let Ok(Content::Packet { at, .. }) = content {
            assert!((20..=1464).contains(&at.len()) && at.end == datagram.len(), "{at:?}");
            let packet = &datagram[at];
            mss::clamp(&mut packet.to_vec(), 1280);
            packets.push(if form & 8 != 0 { repaired(&with_length(packet)) } else { packet.to_vec() });
        }
    }
    let mut groups = vec![];
    group(&packets, form & 16 != 0, &mut groups);
    let mut next = 0;
    for group in &groups {
        assert!(group.first == next && group.count > 0, "every packet is in one group, in order: {groups:?}");
        next += group.count;
        let members = &packets[group.first..next];
        flow_hash(&members[0]);
        let mut whole = vec![];
        merged_head(&packets, group, &mut whole);
        let from = if group.count == 1 { 0 } else { group.head };
        members.iter().for_each(|packet| whole.extend_from_slice(&packet[from..]));
        let (mut heads, mut parts) = (vec![], vec![]);
        let cut = split(&mut whole, 0, &mut heads, &mut parts);
        assert!(cut.is_ok() && parts.len() == group.count, "what is put together can be cut again: {group:?}");
        for (part, packet) in parts.iter().zip(members) {
            let again = [&heads[part.head.clone()], &whole[part.body.clone()]].concat();
            // Identification, which IPv4 may number anew, and checksums over it differ.
            assert!(again.len() == packet.len() && again[from..] == packet[from..], "{again:?} was {packet:?}");
        }
    }
    assert_eq!(next, packets.len());
}

/// With the length in the IP header that the packet has.
fn with_length(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let (at, length) = if packet[0] >> 4 == 4 { (2, packet.len()) } else { (4, packet.len() - 40) };
    packet[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    packet
}

/// With the checksums of IPv4 and TCP put right, or else hardly any changed packet would get
/// further.
fn repaired(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if let Ok(mut outer) = ipv4::Packet::new_checked(&mut packet[..]) {
        outer.fill_checksum();
        let (addresses, header, end) = (outer.addresses(), outer.header_len(), outer.total_len());
        if let Ok(mut segment) = tcp::Packet::new_checked(&mut packet[header..end]) {
            segment.fill_checksum(&addresses);
        }
    }
    packet
}

/// Whether `wire` reads this as a whole TCP segment in an IP packet that is no fragment.
fn is_segment(packet: &[u8]) -> bool {
    const TCP: u8 = 6;
    let (addresses, payload) = if let Ok(outer) = ipv4::Packet::new_checked(packet) {
        if ipv4::Repr::parse(&outer).is_err() || outer.protocol() != TCP || outer.more_fragments() || outer.fragment_offset() != 0 {
            return false;
        }
        (outer.addresses(), outer.payload().to_vec())
    } else if let Ok(outer) = ipv6::Packet::new_checked(packet) {
        if ipv6::Repr::parse(&outer).is_err() || outer.next_header() != TCP {
            return false;
        }
        (outer.addresses(), outer.payload().to_vec())
    } else {
        return false;
    };
    tcp::Packet::new_checked(&payload[..]).is_ok_and(|segment| tcp::Repr::parse(&segment, &addresses).is_ok())
}

/// What every report holds, whatever the bytes were.
fn check(report: &Report) {
    for file in &report.files {
        assert!(file.unread <= file.packets, "{file:?}");
        assert_eq!(file.broken.is_some(), file.broken_at_byte.is_some(), "{file:?}");
    }
    let packets: u64 = report.files.iter().map(|file| file.packets).sum();
    let subflows = report.connections.iter().map(|connection| connection.subflows.len() as u64).sum::<u64>();
    assert!(subflows <= packets, "{subflows} subflows of {packets} packets");
    report.connections.iter().for_each(check_connection);
}

fn check_connection(connection: &ConnectionReport) {
    assert!(!connection.subflows.is_empty() && connection.diagnosis.iter().all(|sentence| !sentence.is_empty()));
    for data in &connection.data {
        assert!(data.goodput_bps.is_finite() && data.window_limited_share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{data:?}");
    }
    connection.subflows.iter().flat_map(|subflow| &subflow.directions).for_each(check_direction);
}

fn check_direction(direction: &DirectionReport) {
    let counted: u64 = direction.sizes.iter().map(|&(_, count)| count).sum();
    assert_eq!(counted, direction.segments, "the histogram holds every segment: {direction:?}");
    assert!(direction.retransmissions <= direction.segments, "{direction:?}");
    assert!(
        direction.goodput_bps.is_finite() && direction.window_limited_share.is_none_or(|share| (0.0..=1.0).contains(&share)),
        "{direction:?}"
    );
    assert!(direction.window_min <= direction.window_max, "{direction:?}");
    for spread in [direction.rtt, direction.one_way_delay].into_iter().flatten() {
        let SpreadReport { count, min_ms, mean_ms, p50_ms, p95_ms, max_ms } = spread;
        assert!(count > 0 && min_ms <= p50_ms && p50_ms <= p95_ms && p95_ms <= max_ms, "{spread:?}");
        // A mean of equal values may differ from them by rounding.
        assert!(min_ms * 0.999 <= mean_ms && mean_ms * 0.999 <= max_ms, "{spread:?}");
    }
}
