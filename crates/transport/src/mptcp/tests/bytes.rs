//! Packets of a real kernel with some bits changed: whatever a peer sends, an endpoint neither
//! panics nor counts around, and what it answers has a form in bytes.
//!
//! The packets are `crates/wire/tests/corpus/linux.hex`. Bits are changed at random, checksums put
//! right, and sequence numbers mostly, or else TCP would see to it that nothing is looked at.

use super::*;
use crate::Transmits;
use crate::tcp::{self, Context, Socket};
use polypath_wire::checksum::Addresses;
use polypath_wire::{Dss, Flags, ipv4, ipv6};
use proptest::prelude::*;

const CORPUS: &str = include_str!("../../../../wire/tests/corpus/linux.hex");

/// The packets with a TCP segment.
fn packets() -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("two digits");
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let packets: Vec<Vec<u8>> = lines.map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect();
    packets.into_iter().filter(|bytes| Segment::from_bytes(bytes).is_ok()).collect()
}

/// Puts the checksums right.
fn repair(bytes: &mut [u8]) {
    let (at, addresses) = if bytes[0] >> 4 == 6 {
        let Ok(packet) = ipv6::Packet::new_checked(&bytes[..]) else { return };
        (ipv6::HEADER, packet.addresses())
    } else {
        let Ok(mut packet) = ipv4::Packet::new_checked(&mut bytes[..]) else { return };
        packet.fill_checksum();
        let packet = ipv4::Packet::new_checked(&bytes[..]).expect("a checksum changes no length");
        (packet.header_len(), packet.addresses())
    };
    let end = match addresses {
        Addresses::V4 { .. } => ipv4::Packet::new_checked(&bytes[..]).map(|packet| packet.total_len()),
        Addresses::V6 { .. } => ipv6::Packet::new_checked(&bytes[..]).map(|packet| packet.total_len()),
    };
    let Ok(end) = end else { return };
    if let Ok(mut segment) = polypath_wire::tcp::Packet::new_checked(&mut bytes[at..end]) {
        segment.fill_checksum(&addresses);
    }
}

/// A packet, what is done to it, and what of it is made to fit the connection.
#[derive(Clone, Debug)]
struct Mutated {
    packet: prop::sample::Index,
    changes: Vec<(prop::sample::Index, u8)>,
    fits: [bool; 4],
    path: u8,
}

fn mutated() -> impl Strategy<Value = Mutated> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let fits = [prop::bool::weighted(0.9), prop::bool::weighted(0.9), prop::bool::weighted(0.5), prop::bool::weighted(0.5)];
    (any::<prop::sample::Index>(), changes, fits, 0..4_u8).prop_map(|(packet, changes, fits, path)| Mutated { packet, changes, fits, path })
}

impl Mutated {
    /// The segment, if it still is one.
    fn segment(&self, packets: &[Vec<u8>]) -> Option<Segment> {
        let mut bytes = self.packet.get(packets).clone();
        for (place, change) in &self.changes {
            let place = place.index(bytes.len());
            bytes[place] ^= change;
        }
        repair(&mut bytes);
        Segment::from_bytes(&bytes).ok().map(|read| read.1)
    }

    fn fit(&self, mut segment: Segment, socket: &Socket) -> Segment {
        if self.fits[0] {
            segment.seq = socket.rx.receives_next();
        }
        if self.fits[1] {
            segment.ack = socket.tx.snd_nxt();
        }
        segment
    }
}

/// Polls everything out; what is sent must have a form in bytes.
fn drain(end: &mut Connection, now: Instant) -> Result<(), TestCaseError> {
    let mut place = Segment::default();
    let mut transmits = Transmits::new(end, &mut place);
    for _ in 0..10_000 {
        let Some((path, &segment)) = transmits.next(now) else { return Ok(()) };
        through_bytes(&Transmit { path, segment });
    }
    Err(TestCaseError::fail("an endpoint sends without end"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_packet_of_a_peer_panics_or_wraps(kernel in any_kernel(), end in 0..2_usize, all in prop::collection::vec(mutated(), 1..40)) {
        let packets = packets();
        let mut net = hostile::established(kernel.0);
        let end = if end == CLIENT { &mut net.client } else { &mut net.server };
        let mut now = net.now;
        for mutated in &all {
            let Some(segment) = mutated.segment(&packets) else { continue };
            let mut segment = mutated.fit(segment, &end.subflows[0].socket);
            if mutated.fits[2] {
                segment.dss.dsn = end.rx.next() + (segment.dss.dsn.get() & 0xfff);
            }
            if mutated.fits[3] {
                segment.dss.data_ack = end.tx.una + (segment.dss.data_ack.get() & 0xfff);
            }
            now += Duration::from_millis(3);
            end.handle_segment(now, PathId(mutated.path), &segment);
            drain(end, now)?;
            if end.poll_timeout() <= now {
                end.handle_timeout(now);
                drain(end, now)?;
            }
            prop_assert!(end.rx.read_bytes() < 1 << 32, "more was read than was ever sent");
            prop_assert!(end.subflow_count() <= polypath_sched::MAX_SUBFLOWS);
        }
    }

    #[test]
    fn no_packet_of_a_peer_harms_plain_tcp(is_client in any::<bool>(), all in prop::collection::vec(mutated(), 1..60)) {
        let packets = packets();
        let algorithm = cc::find("reno").expect("reno is always there");
        let initial_seq = Seq::new(u32::MAX - 2000);
        let config = tcp::Config { settings: settings(&LINUX_6_12_117).into(), algorithm, mtu: Bytes::new(1500), initial_seq };
        let mut end = if is_client { Socket::client(config) } else { Socket::server(config) };
        let mut now = Instant::ZERO;
        if is_client {
            end.open(now);
        }
        end.offer(now, Bytes::new(100_000));
        for mutated in &all {
            let Some(segment) = mutated.segment(&packets) else { continue };
            let segment = mutated.fit(segment, &end);
            now += Duration::from_millis(3);
            end.handle_segment(Context::at(now), &segment);
            let (mut sent, mut place) = (0, Segment::default());
            let mut transmits = Transmits::new(&mut end, &mut place);
            while let Some((path, &segment)) = transmits.next(now) {
                through_bytes(&Transmit { path, segment });
                sent += 1;
                prop_assert!(sent < 10_000, "an endpoint sends without end");
            }
            drop(transmits);
            if end.poll_timeout() <= now {
                end.handle_timeout(Context::at(now));
            }
        }
    }
}

#[test]
fn every_segment_of_the_corpus_is_read() {
    assert_eq!(packets().len(), 40);
}

/// MPTCP's options go before SACK blocks, as in Linux's `tcp_established_options`: a mapping leaves
/// no room for a block, and what an acknowledgement has to tell of a hole waits for a segment
/// without data.
#[test]
fn sack_blocks_give_way_to_a_mapping() {
    for stack in [&MPTCP_0_96_LINUX_5_4_188, &LINUX_6_12_117] {
        let mut net = hostile::established(stack);
        let end = &mut net.client;
        let socket = &end.subflows[0].socket;
        let ahead = Segment {
            seq: socket.rx.receives_next() + 5000,
            ack: socket.tx.snd_nxt(),
            len: 100,
            flags: Flags::ACK,
            window: u16::MAX,
            has_ts: true,
            has_dss: true,
            dss: Dss { has_ack: true, data_ack: end.tx.sent_end(), ..Dss::default() },
            ..Segment::default()
        };
        end.handle_segment(net.now, PathId(0), &ahead);
        let (mut with_data, mut place) = (0, Segment::default());
        let mut transmits = Transmits::new(end, &mut place);
        while let Some((path, &segment)) = transmits.next(net.now) {
            let read = through_bytes(&Transmit { path, segment });
            assert!(segment.len == 0 || read.sack_len == 0, "{read:?}");
            with_data += u32::from(segment.len > 0);
        }
        assert!(with_data > 0, "{stack}: nothing to see");
    }
}

/// A mapping may stand on the first segment alone of those that it covers (RFC 8684 section 3.3.1),
/// as out-of-tree kernels send it.
#[test]
fn a_mapping_counts_for_segments_without_one_in_any_order() {
    for stack in [&MPTCP_0_96_LINUX_5_4_188, &LINUX_6_12_117] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 0, 2]] {
            let mut net = hostile::established(stack);
            net.run_until(Instant::ZERO + Duration::from_millis(300)); // nothing waits beyond a hole
            let end = &mut net.client;
            let socket = &end.subflows[0].socket;
            let (seq, dsn) = (socket.rx.receives_next(), end.rx.next());
            let dss = Dss { dsn, dsn64: true, ssn: socket.rx.next_offset(), map_len: 300, from_wire: true, ..Dss::default() };
            let blank = Segment { ack: socket.tx.snd_nxt(), len: 100, flags: Flags::ACK, window: u16::MAX, ..Segment::default() };
            for place in order {
                let is_first = place == 0;
                let dss = if is_first { dss } else { Dss::default() };
                end.handle_segment(net.now, PathId(0), &Segment { seq: seq + 100 * place, has_dss: is_first, dss, ..blank });
            }
            assert_eq!((end.rx.next(), end.is_fallback()), (dsn + 300, false), "{stack}: {order:?}");
        }
    }
}

/// Linux repeats the keys on every segment of the first burst, here two, also where the mapping has a
/// checksum.
#[test]
fn the_keys_stand_on_each_segment_of_the_first_burst() {
    for checksum in [false, true] {
        let settings = Settings { checksum, ..settings(&LINUX_6_12_117) };
        let mut net = connect(&settings, PathManager::default(), two_paths([5; 2], 20));
        net.transfer(200_000, 10);
        let data = net.log.iter().filter(|l| l.end == 0 && l.path == PathId(0) && l.segment.len > 0);
        let first: Vec<&Segment> = data.map(|l| &l.segment).take(10).collect();
        let keys = first.iter().filter(|segment| matches!(segment.mp.first(), Some(Repr::Capable { .. }))).count();
        assert_eq!((first.len(), keys), (10, 2));
        assert!(first.iter().all(|segment| segment.has_dss && segment.dss.checksum == checksum), "each byte is mapped");
        assert!(first.iter().all(|segment| (segment.dss.ssn, segment.dss.map_len) == (1, first[0].dss.map_len)), "by one mapping");
        assert_eq!(net.server.received().get(), 200_000);
    }
}

/// An ACK with nothing new for its subflow and a smaller window: the subflow keeps the older
/// window, and Linux's end of the window counts from that. Also a script that Linux passes,
/// tests/scripts/mptcp-older-window.pkt.
#[test]
fn the_end_of_the_window_counts_from_what_its_subflow_believes() {
    for stack in BOTH {
        let mut net = hostile::established(stack);
        let end = &mut net.client;
        let socket = &end.subflows[0].socket;
        let (scale, data_ack) = (socket.window_scale_of_peer(), end.tx.una);
        let mut repeated = Segment {
            seq: socket.rx.receives_next(),
            ack: socket.tx.snd_una(),
            flags: Flags::ACK,
            window: 60_000,
            has_dss: true,
            dss: Dss { has_ack: true, data_ack, ..Dss::default() },
            ..Segment::default()
        };
        end.handle_segment(net.now, PathId(0), &repeated);
        assert_eq!(end.tx.window_end, data_ack + (60_000 << scale), "{stack}");
        repeated.dss.data_ack = end.tx.sent_end();
        repeated.window = 59_000;
        end.handle_segment(net.now, PathId(0), &repeated);
        let believed = if stack.data_window_by_subflow { 60_000 } else { 59_000 };
        assert_eq!(end.tx.window_end, (data_ack + (60_000 << scale)).max(repeated.dss.data_ack + (believed << scale)), "{stack}");
    }
}
