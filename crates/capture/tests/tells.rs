//! What a report tells of packets that somebody wrote down, item by item.

mod written;

use polypath_base::{DataSeq, Seq};
use polypath_capture::{ConnectionReport, Report, analyse, analyse_one_end};
use polypath_wire::mptcp::{Keys, Repr, Version};
use polypath_wire::pcapng::{self, LinkType};
use polypath_wire::{Dss, Flags, SackBlock, Segment, icmpv4, icmpv6};
use written::{Capture, answer, plain};

const CLIENT_KEY: u64 = 7;
const SERVER_KEY: u64 = 8;

fn with_data(segment: Segment, version: Version, dsn: u64) -> Segment {
    let first = version.token_and_idsn(CLIENT_KEY).1.get() + 1;
    let dss = Dss { dsn: DataSeq::new(first + dsn), dsn64: true, ssn: 1, map_len: segment.len as u16, ..Dss::default() };
    Segment { has_dss: true, dss, ..segment }
}

fn capable(version: Version) -> [Option<Repr>; 3] {
    let number = u8::from(version == Version::V1);
    let option = |keys| Some(Repr::Capable { version: number, flags: Repr::HASH, keys });
    let both = Keys::Both { sender: CLIENT_KEY, receiver: SERVER_KEY, data: None };
    // Only version 1 leaves the key out of the SYN (RFC 8684 section 3.1).
    let first = if version == Version::V0 { Keys::Sender(CLIENT_KEY) } else { Keys::None };
    [option(first), option(Keys::Sender(SERVER_KEY)), option(both)]
}

fn join(version: Version, backup: bool) -> [Option<Repr>; 3] {
    let token = version.token_and_idsn(SERVER_KEY).0;
    [
        Some(Repr::JoinSyn { backup, address_id: 1, token, nonce: 5 }),
        Some(Repr::JoinSynAck { backup: false, address_id: 0, hmac: 6, nonce: 7 }),
        Some(Repr::JoinAck { hmac: [9; 20] }),
    ]
}

#[test]
fn subflows_of_both_versions_are_joined_by_their_tokens() {
    for (version, kind) in [(Version::V0, "mptcp v0"), (Version::V1, "mptcp v1")] {
        let mut capture = Capture::new(version == Version::V1);
        capture.handshake(0, 1, capable(version));
        capture.handshake(30, 2, join(version, true));
        // A join of another connection is none of this one's.
        let mut stranger = join(version, false);
        stranger[0] = Some(Repr::JoinSyn { backup: false, address_id: 1, token: 1234, nonce: 5 });
        capture.handshake(40, 3, stranger);
        let report = capture.report();
        let found: Vec<_> = report.connections.iter().map(|each| (each.kind, each.subflows.len())).collect();
        assert_eq!(found, [(kind, 2), ("mptcp", 1)]);
        let [first, second] = &report.connections[0].subflows[..] else { panic!("{report:?}") };
        assert_eq!((first.is_join, second.is_join, second.backup, second.established), (false, true, true, true));
        assert!(report.connections[1].diagnosis[0].contains("only joins are"), "{report:?}");
    }
}

#[test]
fn data_sent_again_on_another_subflow_are_told_over_time() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(Version::V1));
    capture.handshake(100, 2, join(Version::V1, false));
    for number in 0..40 {
        let (offset, host) = (number * 1000, if number < 20 { 1 } else { 2 });
        let own = if number < 20 { offset } else { offset - 20_000 };
        capture.add(200 + u64::from(number), host, true, &with_data(plain(own, 1000), Version::V1, u64::from(offset)));
    }
    // The first subflow's last five thousand bytes again, on the second.
    for number in 0..5 {
        capture.add(300, 2, true, &with_data(plain(20_000 + number * 1000, 1000), Version::V1, u64::from(15_000 + number * 1000)));
    }
    let connection = capture.connection();
    assert_eq!((connection.data[0].sent_bytes, connection.data[0].reinjected_bytes), (40_000, 5000));
    let [first, second] = [0, 1].map(|number| &connection.subflows[number].directions[0]);
    assert_eq!((first.reinjected_bytes, second.reinjected_bytes, second.retransmissions), (0, 5000, 0));
    let (of_first, of_second) = (&first.series, &second.series);
    // The bin at 200 ms holds the first mapping; times count from the first SYN.
    let at = |series: &polypath_capture::SeriesReport, ms: u64| {
        series.time_s.iter().position(|&time| (time * 1e3 - ms as f64).abs() < 0.5).unwrap()
    };
    assert_eq!((of_first.dsn[at(of_first, 200)], of_first.dsn[at(of_first, 219)]), (Some(1000), Some(20_000)));
    assert_eq!((of_second.dsn[at(of_second, 239)], of_second.reinjected_dsn[at(of_second, 300)]), (Some(40_000), Some(20_000)));
    assert!(of_first.reinjected_dsn.iter().all(Option::is_none));
    // What stands before the first mapping is not under way.
    assert_eq!(connection.data[0].series.in_flight_bytes.iter().max(), Some(&40_000));
    assert!(
        connection.diagnosis.iter().any(|each| each == "12 % of the data of the client were sent again on another subflow"),
        "{connection:?}"
    );
}

#[test]
fn data_that_mptcp_sends_again_on_the_same_subflow_are_told() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(Version::V1));
    capture.handshake(100, 2, join(Version::V1, false));
    let mapped = |offset: u32, dsn: u64| {
        let segment = with_data(plain(offset, 1000), Version::V1, dsn);
        Segment { dss: Dss { ssn: 1 + offset, ..segment.dss }, ..segment }
    };
    // Three segments; what TCP sends again, and then what MPTCP does, twice.
    for (ms, offset, dsn) in [(200, 0, 0), (201, 1000, 1000), (202, 2000, 2000), (500, 1000, 1000), (600, 3000, 1000), (700, 4000, 1000)] {
        capture.add(ms, 1, true, &mapped(offset, dsn));
    }
    let connection = capture.connection();
    let (data, sent) = (&connection.data[0], &connection.subflows[0].directions[0]);
    assert_eq!((data.sent_bytes, data.reinjected_bytes, data.mptcp_retransmitted_bytes), (3000, 0, 2000));
    assert_eq!((sent.bytes, sent.retransmissions, sent.reinjected_bytes, sent.mptcp_retransmitted_bytes), (5000, 1, 0, 2000));
    assert_eq!(sent.series.mptcp_retransmitted_dsn.iter().flatten().collect::<Vec<_>>(), [&2000, &2000]);
    let sentence = "MPTCP sent 2.0 kB of the client's data again on the subflow that had carried them, from 0.600 s to 0.700 s";
    assert!(connection.diagnosis.iter().any(|each| each == sentence), "{connection:?}");
}

#[test]
fn a_subflow_that_is_idle_while_another_carries_the_rest_is_told() {
    for (gap, said) in [(10, None), (100, Some("it carried none of the client's data in the last 0.10 s, 34 % of the time that they took"))]
    {
        let mut capture = Capture::new(false);
        capture.handshake(0, 1, capable(Version::V1));
        capture.handshake(100, 2, join(Version::V1, false));
        for number in 0..20 {
            let (offset, ms) = (number * 1000, 200 + 10 * u64::from(number));
            capture.add(ms, 1, true, &with_data(plain(offset, 1000), Version::V1, u64::from(offset)));
        }
        for (number, ms) in [(0, 400), (1, 390 + gap)] {
            capture.add(ms, 2, true, &with_data(plain(number * 1000, 1000), Version::V1, u64::from(20_000 + number * 1000)));
        }
        let connection = capture.connection();
        let told: Vec<_> = connection.diagnosis.iter().filter_map(|each| each.strip_prefix("10.0.0.1:4000 to 10.0.0.99:80: ")).collect();
        assert_eq!(told, said.into_iter().collect::<Vec<_>>(), "{connection:?}");
    }
}

#[test]
fn a_mapping_that_several_segments_repeat_counts_each_of_their_bytes_once() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(Version::V1));
    capture.handshake(100, 2, join(Version::V1, false));
    // As Linux sends: a whole buffer is one mapping. The last one carries again what the first
    // subflow had.
    for (ms, host, own, dsn, len) in [(200, 1, 0, 0, 3000), (201, 2, 0, 3000, 2500), (300, 2, 2500, 1000, 2000)] {
        for at in (0..len).step_by(1000) {
            let segment = with_data(plain(own + at, (len - at).min(1000)), Version::V1, dsn);
            let dss = Dss { ssn: 1 + own, map_len: len as u16, ..segment.dss };
            capture.add(ms, host, true, &Segment { dss, ..segment });
        }
    }
    let connection = capture.connection();
    assert_eq!((connection.data[0].sent_bytes, connection.data[0].reinjected_bytes), (5500, 2000));
    assert_eq!(connection.data[0].series.in_flight_bytes.iter().max(), Some(&5500));
    assert_eq!(connection.subflows[1].directions[0].reinjected_bytes, 2000);
}

/// Segments of 1460 bytes that nobody answers; a router's answer after the third, and three more as
/// long or shorter.
fn with_answer(v6: bool, after: u32) -> ConnectionReport {
    let mut capture = Capture::new(v6);
    capture.handshake(0, 1, [None; 3]);
    for number in 0..3 {
        capture.add(50, 1, true, &plain(number * 1440, 1440));
    }
    let refused = capture.bytes(1, true, &plain(0, 1440));
    let message = if v6 {
        icmpv6::packet_too_big(&refused, "fd00::aa".parse().unwrap(), 1300).unwrap()
    } else {
        icmpv4::fragmentation_needed(&refused, [10, 0, 0, 170].into(), 1300).unwrap()
    };
    capture.raw(60, &message);
    for number in 0..6 {
        capture.add(70 + number, 1, true, &plain(number as u32 * after, after));
    }
    capture.raw(80, &message);
    capture.connection()
}

#[test]
fn a_router_that_answers_is_heeded_or_there_is_a_black_hole_behind_it() {
    for (v6, router, protocol, kind, headers) in [(false, "10.0.0.170", "ICMP", 3, 40), (true, "fd00::aa", "ICMPv6", 2, 60)] {
        let heeded = with_answer(v6, 1200);
        let [event] = &heeded.subflows[0].icmp[..] else { panic!("{heeded:?}") };
        assert_eq!((&event.from[..], event.protocol, event.kind, event.mtu, event.about), (router, protocol, kind, Some(1300), "client"));
        assert_eq!((event.count, event.longer_after, (event.first_s * 1e3).round()), (2, 0, 60.0));
        assert!(heeded.diagnosis.iter().any(|each| each.contains("the path MTU is 1300 bytes behind")), "{:?}", heeded.diagnosis);
        let ignored = with_answer(v6, 1440);
        let sentence = format!(
            "{router} answers that 1300 bytes are the most, and 6 longer packets (up to {} bytes) followed: black hole",
            1440 + headers
        );
        assert!(ignored.diagnosis.iter().any(|each| each.contains(&sentence)), "{:?}", ignored.diagnosis);
    }
}

#[test]
fn other_messages_are_counted_by_type_and_errors_belong_to_their_subflow() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    let refused = capture.bytes(1, true, &plain(0, 100));
    let mut unreachable = icmpv4::fragmentation_needed(&refused, [10, 0, 0, 9].into(), 0).unwrap();
    // Code 1: host unreachable. An echo request has type 8.
    unreachable[21] = 1;
    let mut echo = unreachable.clone();
    (echo[20], echo[21]) = (8, 0);
    capture.raw(30, &unreachable);
    capture.raw(31, &unreachable);
    capture.raw(32, &echo);
    let report = capture.report();
    let counted: Vec<_> = report.files[0].icmp.iter().map(|each| (each.name, each.count)).collect();
    assert_eq!(counted, [("host unreachable", 2), ("echo request", 1)]);
    let connection = &report.connections[0];
    assert_eq!(connection.subflows[0].icmp.len(), 1);
    assert!(connection.diagnosis[0].ends_with("10.0.0.9 answered the client 2 times with \"host unreachable\""), "{connection:?}");
}

#[test]
fn segments_that_a_host_joined_are_counted_by_their_lengths() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    // Timestamps take 12 bytes of each segment: 1448 are left of 1460.
    let timed = |offset, len| Segment { has_ts: true, ts_val: 1, ts_ecr: 1, ..plain(offset, len) };
    capture.add(30, 1, true, &timed(0, 14_480));
    capture.add(31, 1, true, &timed(14_480, 3000));
    capture.add(32, 1, true, &timed(0, 2896));
    let connection = capture.connection();
    let sent = &connection.subflows[0].directions[0];
    assert_eq!((sent.segments, sent.super_frames, sent.retransmissions, sent.bytes, sent.retransmitted_bytes), (15, 3, 2, 17_480, 2896));
    assert_eq!((sent.mss_announced, sent.mss_used, &sent.sizes[..]), (Some(1460), 1448, &[(1448, 14), (104, 1)][..]));
    assert_eq!(
        connection.joined.as_deref(),
        Some("the host joined segments (TSO, GRO) to 3 packets of the client; they are counted one by one")
    );
    assert!(connection.diagnosis.iter().all(|each| !each.contains("TSO")), "{connection:?}");
}

#[test]
fn two_segments_that_are_no_longer_than_the_mss_are_two_if_their_options_leave_no_room() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(Version::V1));
    // Timestamps and a mapping: 32 bytes of options, 1428 are left of 1460.
    let carried = |offset, len, dsn| Segment { has_ts: true, ts_val: 1, ts_ecr: 1, ..with_data(plain(offset, len), Version::V1, dsn) };
    capture.add(30, 1, true, &carried(0, 1459, 0));
    capture.add(60, 1, false, &answer(1459, 10_000));
    let connection = capture.connection();
    let sent = &connection.subflows[0].directions[0];
    assert_eq!((sent.segments, sent.super_frames, sent.mss_used, sent.pmtu_seen), (2, 1, 1428, 1500));
    assert_eq!(sent.sizes, [(31, 1), (1428, 1)]);
}

#[test]
fn the_share_of_the_time_with_a_full_window_is_told() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    // The window holds four segments: it is full from the fourth to the answer, 83 of each 100 ms.
    for round in 0..10 {
        for number in 0..4 {
            capture.add(100 + round * 100 + number, 1, true, &plain((round * 4 + number) as u32 * 1460, 1460));
        }
        capture.add(100 + round * 100 + 86, 1, false, &answer((round * 4 + 4) as u32 * 1460, 4 * 1460 / 4));
    }
    let connection = capture.connection();
    let sent = &connection.subflows[0].directions[0];
    let share = connection.data[0].window_limited_share.unwrap();
    assert!((share - 0.83).abs() < 0.02, "{share}");
    assert!(
        connection.diagnosis[0].starts_with("limited by the receive window of the server for 8")
            && connection.diagnosis[0].ends_with(" % of the 0.90 s in which the client sent its 58.4 kB"),
        "{connection:?}"
    );
    // In flight and window over time: the one reaches the other.
    assert_eq!(connection.data[0].series.in_flight_bytes.iter().max(), Some(&(4 * 1460)));
    assert_eq!(connection.data[0].series.window_bytes.iter().flatten().min(), Some(&(4 * 1460)));
    assert_eq!((sent.rtt.unwrap().count, sent.series.rtt_ms.iter().flatten().count()), (10, 10));
}

#[test]
fn files_of_one_end_are_read_as_one() {
    let [mut whole, mut first, mut second] = [false; 3].map(Capture::new);
    for capture in [&mut whole, &mut first] {
        capture.handshake(0, 1, [None, None, None]);
    }
    for number in 0..10 {
        let (at, data) = (100 + u64::from(number), plain(1000 * number, 1000));
        whole.add(at, 1, true, &data);
        let path = if number % 2 == 0 { &mut first } else { &mut second };
        path.add(at, 1, true, &data);
    }
    for capture in [&mut whole, &mut first] {
        capture.add(130, 1, false, &answer(10_000, 10_000));
    }
    let both = || vec![("a".to_owned(), &first.file[..]), ("b".to_owned(), &second.file[..])];
    let sent = |report: &Report| {
        let direction = &report.connections[0].subflows[0].directions[0];
        (direction.bytes, direction.acked_bytes, direction.retransmissions, direction.reordered, direction.one_way_delay.is_some())
    };
    let together = analyse_one_end(both());
    assert_eq!(sent(&whole.report()), (10_000, 10_000, 0, 0, false));
    assert_eq!(sent(&together), sent(&whole.report()));
    assert_eq!(together.connections[0].subflows[0].directions[0].file.as_deref(), Some("a, b"));
    assert_eq!(together.files.iter().map(|file| file.packets).collect::<Vec<_>>(), [9, 5], "each file is told of");
    assert_eq!(sent(&analyse(both())).0, 5000, "of two places, the first has half of it");
}

/// Offset in the subflow, payload, and a mapping of so many bytes from that offset on.
type Sent = (u32, u32, Option<(u32, u16)>);

/// The client's subflows 1 and 2, of which the first carries this, and the second the same again.
fn mapped(version: Version, sent: &[Sent], change: impl Fn(Dss) -> Dss) -> ConnectionReport {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(version));
    capture.handshake(30, 2, join(version, false));
    for host in [1, 2] {
        for &(offset, len, mapping) in sent {
            let segment = plain(offset, len);
            let segment = mapping.map_or(segment, |(from, map_len)| {
                let segment = with_data(segment, version, u64::from(from));
                Segment { dss: change(Dss { ssn: 1 + from, map_len, ..segment.dss }), ..segment }
            });
            capture.add(100 * u64::from(host), host, true, &segment);
        }
    }
    capture.connection()
}

#[test]
fn a_mapping_on_one_segment_stands_for_all_that_it_covers() {
    let same = |dss| dss;
    let short = |dss: Dss| Dss { dsn64: false, ..dss };
    let first_alone = [(0, 1000, Some((0, 3000))), (1000, 1000, None), (2000, 1000, None)];
    // Before its data on a bare acknowledgement, behind them, in the middle of them, and with a
    // segment that two mappings share.
    let before = [(0, 0, Some((0, 3000))), (0, 1000, None), (1000, 2000, None)];
    let behind = [(0, 1000, None), (1000, 1000, None), (2000, 1000, Some((0, 3000)))];
    let middle = [(0, 1000, None), (1000, 1000, Some((0, 3000))), (2000, 1000, None)];
    let shared = [(0, 2000, Some((0, 1500))), (2000, 1000, Some((1500, 1500)))];
    // What is lost and sent again is one byte once.
    let again = [(0, 1000, Some((0, 3000))), (2000, 1000, None), (0, 1000, None), (1000, 1000, None), (2000, 1000, None)];
    for version in [Version::V0, Version::V1] {
        for sent in [&first_alone[..], &before, &behind, &middle, &shared, &again] {
            for change in [&same as &dyn Fn(Dss) -> Dss, &short] {
                let found = mapped(version, sent, change);
                assert_eq!((found.data[0].sent_bytes, found.data[0].reinjected_bytes), (3000, 3000), "{sent:?}");
                let [first, second] = [0, 1].map(|number| found.subflows[number].directions[0].reinjected_bytes);
                assert_eq!((first, second), (0, 3000), "{sent:?}");
                assert!(
                    found.diagnosis.iter().any(|each| each.starts_with("100 % of the data of the client were sent again")),
                    "{found:?}"
                );
            }
        }
    }
    // A fallback maps all that follows; a DATA_FIN has a number and no byte.
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(Version::V1));
    // The length of a mapping stands last in its option.
    let mut bytes = capture.bytes(1, true, &with_data(plain(0, 1000), Version::V1, 0));
    let at = bytes.windows(2).rposition(|pair| pair == 1000_u16.to_be_bytes()).expect("payload is zeros");
    bytes[at..at + 2].fill(0);
    capture.raw(100, &bytes);
    (1..100).for_each(|number| capture.add(100, 1, true, &plain(number * 1000, 1000)));
    assert_eq!(capture.connection().data[0].sent_bytes, 100_000);
    let found = mapped(Version::V1, &[(0, 1000, Some((0, 1001)))], |dss| Dss { data_fin: true, ..dss });
    assert_eq!((found.data[0].sent_bytes, found.data[0].reinjected_bytes), (1000, 1000));
}

#[test]
fn numbers_of_32_and_64_bits_are_of_one_stream() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(Version::V1));
    for number in 0..6 {
        let segment = with_data(plain(number * 1000, 1000), Version::V1, u64::from(number) * 1000);
        let dss = Dss { ssn: 1 + number * 1000, dsn64: number % 2 == 1, ..segment.dss };
        capture.add(100, 1, true, &Segment { dss, ..segment });
    }
    assert_eq!(capture.connection().data[0].sent_bytes, 6000);
}

#[test]
fn how_a_subflow_ended_and_by_whom_is_told() {
    let of = |options: Option<Repr>, flags: Flags, from_client: bool| {
        let mut capture = Capture::new(false);
        capture.handshake(0, 1, capable(Version::V1));
        capture.add(100, 1, true, &with_data(plain(0, 1000), Version::V1, 0));
        let mp = options.map(Into::into).unwrap_or_default();
        let own = if from_client { plain(1000, 0) } else { answer(1000, 1000) };
        capture.add(250, 1, from_client, &Segment { flags, mp, ..own });
        capture.connection()
    };
    let (rst, fin) = (Flags::RST.with(Flags::ACK), Flags::FIN.with(Flags::ACK));
    let name = "10.0.0.1:4000 to 10.0.0.99:80";
    let found = of(Some(Repr::TcpRst { flags: 1, reason: 2 }), rst, false);
    assert_eq!(
        found.diagnosis[0],
        format!("{name}: the server reset it at 0.250 s, with MP_TCPRST: lack of resources (reason 2, transient)")
    );
    let end = found.subflows[0].end.as_ref().unwrap();
    assert_eq!(
        (end.how, end.by, end.reason, end.reason_number, end.is_transient),
        ("RST", "server", Some("lack of resources"), Some(2), Some(true))
    );
    let found = of(None, rst, true);
    assert_eq!((&found.diagnosis[0], found.ended), (&format!("{name}: the client reset it at 0.250 s"), None));
    let found = of(Some(Repr::FastClose { receiver_key: SERVER_KEY }), rst, true);
    assert_eq!(found.diagnosis[0], "the client gave the connection up with MP_FASTCLOSE at 0.250 s");
    assert!(!found.diagnosis.iter().any(|each| each.contains("reset")), "{found:?}");
    let found = of(None, fin, true);
    assert_eq!(found.ended.unwrap(), "the client closed it with a FIN at 0.250 s, the server did not");
    assert_eq!(found.subflows[0].end.as_ref().map(|end| (end.how, end.by)), Some(("FIN", "client")));

    let mut capture = Capture::new(false);
    let syn = Segment { flags: Flags::SYN, seq: Seq::new(100), mss: 1460, ..Segment::default() };
    capture.add(0, 1, true, &syn);
    capture.add(20, 1, false, &Segment { flags: rst, ack: Seq::new(101), ..Segment::default() });
    assert_eq!(capture.connection().diagnosis, [format!("{name}: the server refused the SYN with a RST at 0.020 s")]);
}

#[test]
fn what_is_missing_is_not_told_as_if_it_had_not_been_sent() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, capable(Version::V1));
    capture.add(100, 1, true, &with_data(plain(0, 1000), Version::V1, 0));
    assert_eq!(capture.connection().diagnosis, ["only one subflow carried data until the capture ends: no MP_JOIN was sent"]);
    let mut closed = Capture { file: capture.file.clone(), ..capture };
    closed.add(110, 1, true, &Segment { flags: Flags::ACK.with(Flags::FIN), ..plain(1000, 0) });
    assert_eq!(closed.connection().diagnosis, ["only one subflow carried data: no MP_JOIN was sent"]);
    let cut = analyse(vec![("a".to_owned(), &capture.file[..capture.file.len() - 5])]);
    assert!(cut.files[0].broken.is_some() && cut.connections[0].diagnosis.is_empty(), "{cut:?}");
    // The capture itself says that it lost some.
    pcapng::statistics(&mut capture.file, 0, 10, 6, None);
    let report = capture.report();
    assert_eq!((report.files[0].missing, &report.connections[0].diagnosis[..]), (6, &[][..]));
    // In the middle of a connection.
    let mut middle = Capture::new(false);
    middle.add(100, 1, true, &with_data(plain(0, 1000), Version::V1, 0));
    let connection = middle.connection();
    assert_eq!(connection.kind, "mptcp");
    let [beginning, only] = &connection.diagnosis[..] else { panic!("{connection:?}") };
    assert_eq!(beginning, "its beginning is not in the capture: which other subflows belong to it is not known");
    assert_eq!(only, "10.0.0.1:4000 to 10.0.0.99:80: the capture shows only what the client sent");
}

#[test]
fn a_snap_length_that_cuts_options_off_is_told() {
    let mut file = vec![];
    pcapng::section(&mut file, "test");
    pcapng::interface(&mut file, LinkType::RawIp, 44, "a");
    let capture = Capture::new(false);
    let bytes = capture.bytes(1, true, &with_data(plain(0, 1000), Version::V1, 0));
    pcapng::packet(&mut file, 0, bytes.len() as u32, &bytes[..44]);
    let report = analyse(vec![("a".to_owned(), &file[..])]);
    assert!(report.connections[0].diagnosis[1].contains("the snap length cuts the TCP options of 1 packets off"), "{report:?}");
    assert_eq!(report.connections[0].subflows[0].directions[0].bytes, 1000);
}

#[test]
fn bytes_behind_a_hole_count_when_they_arrive() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    // The first of ten is lost: each of the others is acknowledged selectively, and all at once
    // when it came again.
    for number in 0..10 {
        capture.add(100 + u64::from(number) * 10, 1, true, &plain(number * 1000, 1000));
        if number > 0 {
            let mut sack = answer(0, 10_000);
            sack.push_sack(SackBlock { start: Seq::new(1101), end: Seq::new(1101 + number * 1000) });
            capture.add(120 + u64::from(number) * 10, 1, false, &sack);
        }
    }
    capture.add(220, 1, true, &plain(0, 1000));
    capture.add(240, 1, false, &answer(10_000, 10_000));
    let connection = capture.connection();
    let series = &connection.subflows[0].directions[0].series;
    let at = |ms: f64| series.time_s.iter().rposition(|&time| time * 1e3 <= ms + 0.5).unwrap();
    assert_eq!((series.acked_bytes[at(215.0)], series.delivered_bytes[at(160.0)], series.delivered_bytes[at(215.0)]), (0, 4000, 9000));
    assert_eq!((series.acked_bytes.last(), series.delivered_bytes.last()), (Some(&10_000), Some(&10_000)));
}

#[test]
fn a_segment_in_fragments_is_one_and_a_fragment_alone_is_named() {
    // IPv4 fragments at multiples of eight bytes, in any order.
    let cut = |capture: &Capture, offset: u32, cuts: &[usize]| {
        let packet = capture.bytes(1, true, &plain(offset, 1000));
        let body = &packet[20..];
        let ends = cuts.iter().copied().chain([body.len()]);
        let mut begin = 0;
        let mut made = vec![];
        for end in ends {
            let mut header = packet[..20].to_vec();
            header[2..4].copy_from_slice(&((20 + end - begin) as u16).to_be_bytes());
            header[4..6].copy_from_slice(&((offset / 1000 + 1) as u16).to_be_bytes());
            header[6..8].copy_from_slice(&((begin / 8) as u16 | if end < body.len() { 0x2000 } else { 0 }).to_be_bytes());
            made.push([&header, &body[begin..end]].concat());
            begin = end;
        }
        made
    };
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    let [first, second] = &cut(&capture, 0, &[600])[..] else { panic!("two") };
    capture.raw(100, second);
    capture.raw(101, first);
    for piece in cut(&capture, 1000, &[200, 400]) {
        capture.raw(102, &piece);
    }
    capture.add(103, 1, true, &plain(2000, 1000));
    let connection = capture.connection();
    let sent = &connection.subflows[0].directions[0];
    assert_eq!((sent.segments, sent.bytes, sent.retransmissions, &sent.sizes[..]), (3, 3000, 0, &[(1000, 3)][..]));
    let lost = cut(&capture, 3000, &[600]);
    capture.raw(104, &lost[0]);
    let report = capture.report();
    assert_eq!((report.files[0].unread, &report.files[0].unread_kinds[0].name[..]), (1, "fragment of a TCP segment, without the others"));
    assert_eq!(report.connections[0].subflows[0].directions[0].bytes, 3000);
}

/// What stands before IP of a capture of an interface, and its link type.
const ROUTER: [[u8; 14]; 2] = [[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], [2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4, 8, 0]];

/// A capture of several interfaces: each packet with a header that says on which.
struct Passing {
    file: Vec<u8>,
    interfaces: u32,
}

impl Passing {
    fn new(link: u16, interfaces: u32) -> Self {
        let mut file = vec![];
        pcapng::section(&mut file, "test");
        for _ in 0..interfaces {
            let begin = file.len();
            pcapng::interface(&mut file, LinkType::RawIp, 128, "a");
            file[begin + 8..begin + 10].copy_from_slice(&link.to_le_bytes());
        }
        Self { file, interfaces }
    }

    /// A packet on an interface of the file, so many routers behind its sender.
    fn add(&mut self, us: u64, interface: u32, header: &[u8], packet: &[u8], hops: u8) {
        let mut bytes = [header, packet].concat();
        let ttl = header.len() + if packet[0] >> 4 == 4 { 8 } else { 7 };
        bytes[ttl] -= hops;
        assert!(interface < self.interfaces);
        let begin = self.file.len();
        pcapng::packet(&mut self.file, us * 1000, bytes.len() as u32, &bytes[..bytes.len().min(128)]);
        self.file[begin + 8..begin + 12].copy_from_slice(&interface.to_le_bytes());
    }
}

/// A transfer of 200 segments of which the tenth of each twenty is sent again, and of each packet
/// when it passes a router, and whether it comes from the client.
fn passed(v6: bool) -> Vec<(u64, bool, Vec<u8>)> {
    let names = Capture::new(v6);
    let mut ident = 0;
    let mut of = |from_client: bool, segment: &Segment| {
        let mut bytes = names.bytes(1, from_client, segment);
        ident += 1;
        if !v6 {
            bytes[4..6].copy_from_slice(&u16::to_be_bytes(ident));
        }
        bytes
    };
    let syn = Segment { flags: Flags::SYN, seq: Seq::new(100), mss: 1460, window_scale: 2, window: 10_000, ..Segment::default() };
    let syn_ack = Segment { flags: Flags::SYN.with(Flags::ACK), seq: Seq::new(900), ack: Seq::new(101), ..syn };
    let mut packets = vec![(0, true, of(true, &syn)), (10_000, false, of(false, &syn_ack)), (20_000, true, of(true, &plain(0, 0)))];
    let timed = |segment: Segment, ms: u32| Segment { has_ts: true, ts_val: 1 + ms, ts_ecr: 1, ..segment };
    for number in 0..200_u32 {
        let ms = 100 + number;
        let data = plain(number * 1000, 1000);
        packets.push((u64::from(ms) * 1000, true, of(true, &timed(data, ms))));
        if number % 20 == 9 {
            let again = timed(plain((number - 5) * 1000, 1000), ms);
            packets.push((u64::from(ms) * 1000 + 400, true, of(true, &again)));
        }
        if number % 20 == 19 {
            packets.push((u64::from(ms) * 1000 + 900, false, of(false, &timed(answer((number + 1) * 1000, 10_000), ms))));
        }
    }
    packets
}

fn told(files: Vec<(&str, &Passing)>) -> ConnectionReport {
    let mut report = analyse(files.into_iter().map(|(name, capture)| (name.to_owned(), &capture.file[..])).collect());
    assert_eq!((report.connections.len(), report.files[0].unread), (1, 0), "{report:?}");
    report.connections.remove(0)
}

fn is_right(connection: &ConnectionReport, place: &str) {
    let sent = &connection.subflows[0].directions[0];
    let found = (sent.segments, sent.retransmissions, sent.reordered, sent.bytes, sent.acked_bytes, sent.unclear);
    assert_eq!(found, (210, 10, 0, 200_000, 200_000, 0), "{place}");
    assert!(sent.copies > 0, "{place}");
    assert_eq!(connection.diagnosis, ["10.0.0.1:4000 to 10.0.0.99:80: the client sent 4.8 % of its segments again"], "{place}");
}

#[test]
fn a_packet_that_passes_several_interfaces_was_sent_once() {
    let cooked_2 = |device: u8, kind: u8| [&[8, 0, 0, 0, 0, 0, 0, device, 0, 1, kind, 6][..], &[0; 8]].concat();
    let cooked_1 = |kind: u8| [&[0, kind, 0, 1, 0, 6][..], &[0; 8], &[8, 0]].concat();
    let tagged = |vlan: u8| [&ROUTER[0][..12], &[0x81, 0, 0, vlan, 8, 0]].concat();
    let ethernet = |at: usize| ROUTER[at].to_vec();
    // Link type, and by which headers a packet is seen, with its interface, the routers that it has
    // passed and how much later it is, µs.
    type Sight = (u32, Vec<u8>, u8, u64);
    let places: [(&str, u16, Vec<Sight>); 9] = [
        ("router", 1, vec![(0, ethernet(0), 0, 0), (1, ethernet(1), 1, 700)]),
        ("bridge", 1, vec![(0, ethernet(0), 0, 0), (1, ethernet(0), 0, 0)]),
        ("bridge and its device", 1, vec![(0, ethernet(0), 0, 0), (2, ethernet(0), 0, 0), (1, ethernet(0), 0, 100)]),
        ("one-armed router", 1, vec![(0, ethernet(0), 0, 0), (0, ethernet(1), 1, 100)]),
        ("router between VLANs", 1, vec![(0, tagged(1), 0, 0), (0, tagged(2), 1, 100)]),
        ("any, router", 276, vec![(0, cooked_2(2, 0), 0, 0), (0, cooked_2(3, 4), 1, 5000)]),
        ("any, bridge", 276, vec![(0, cooked_2(2, 0), 0, 0), (0, cooked_2(4, 0), 0, 0), (0, cooked_2(3, 4), 0, 0)]),
        ("any without names, router", 113, vec![(0, cooked_1(0), 0, 0), (0, cooked_1(4), 1, 5000)]),
        ("any without names, VLAN", 113, vec![(0, cooked_1(0), 0, 0), (0, cooked_1(0), 0, 3)]),
    ];
    for (place, link, sights) in places {
        let mut all: Vec<_> = (passed(false).iter())
            .flat_map(|(at, _, packet)| sights.iter().map(move |sight| (at + sight.3, sight, packet.clone())))
            .collect();
        all.sort_by_key(|(at, ..)| *at);
        let mut capture = Passing::new(link, 3);
        all.iter().for_each(|(at, (interface, header, hops, _), packet)| capture.add(*at, *interface, header, packet, *hops));
        is_right(&told(vec![("a", &capture)]), place);
    }
}

#[test]
fn an_end_is_judged_by_its_own_capture_even_if_a_routers_is_named_first() {
    let (mut client, mut router, mut server) = (Passing::new(1, 1), Passing::new(1, 2), Passing::new(1, 1));
    let mut all = vec![];
    for (at, from_client, packet) in passed(false) {
        // No time passes on the links, and 3 ms in the router.
        let sights = [(0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 1, 3000), (2, 0, 1, 3000)];
        for (file, interface, hops, later) in sights {
            let (file, interface) =
                if from_client || file == 1 { (file, if from_client { interface } else { file - interface }) } else { (2 - file, 0) };
            all.push((at + later, file, interface, hops, packet.clone()));
        }
    }
    all.sort_by_key(|(at, ..)| *at);
    for (at, file, interface, hops, packet) in all {
        [&mut client, &mut router, &mut server][file].add(at, interface as u32, &ROUTER[interface], &packet, hops);
    }
    let connection = told(vec![("router", &router), ("client", &client), ("server", &server)]);
    let [sent, answered] = &connection.subflows[0].directions;
    assert_eq!((sent.file.as_deref(), answered.file.as_deref()), (Some("client"), Some("server")));
    assert_eq!((sent.segments, sent.retransmissions, sent.reordered, sent.copies), (210, 10, 0, 0));
    assert_eq!(sent.one_way_delay.map(|delay| (delay.min_ms, delay.max_ms)), Some((3.0, 3.0)));
    // Of the router alone, the time is that from an interface back to it.
    let alone = told(vec![("router", &router)]);
    assert_eq!(alone.subflows[0].directions[0].rtt.map(|rtt| rtt.min_ms), Some(3.9));
}

#[test]
fn what_a_router_cuts_and_what_bonded_interfaces_share_is_counted_once() {
    // The first interface shows what a host joined (GRO), the second one what it sends on.
    let mut capture = Passing::new(1, 2);
    let mut bonded = Passing::new(1, 2);
    for (number, (at, from_client, packet)) in passed(false).into_iter().enumerate() {
        let way = usize::from(!from_client);
        capture.add(at, way as u32, &ROUTER[way], &packet, 0);
        if from_client {
            let cut = |begin: usize, len: usize| {
                let mut piece = packet.clone();
                let seq = u32::from_be_bytes(packet[24..28].try_into().unwrap()) + begin as u32;
                piece[24..28].copy_from_slice(&seq.to_be_bytes());
                piece.truncate(packet.len() - 1000 + len);
                let total = piece.len() as u16;
                piece[2..4].copy_from_slice(&total.to_be_bytes());
                piece
            };
            if packet.len() > 1000 {
                capture.add(at + 50, 1, &ROUTER[1], &cut(0, 600), 1);
                capture.add(at + 50, 1, &ROUTER[1], &cut(600, 400), 1);
            } else {
                capture.add(at + 50, 1, &ROUTER[1], &packet, 1);
            }
        } else {
            capture.add(at + 50, 0, &ROUTER[0], &packet, 1);
        }
        bonded.add(at, number as u32 % 2, &ROUTER[0], &packet, 0);
    }
    is_right(&told(vec![("a", &capture)]), "cut");
    let sent = &told(vec![("a", &bonded)]).subflows[0].directions[0];
    assert_eq!((sent.segments, sent.retransmissions, sent.bytes, sent.acked_bytes, sent.copies), (210, 10, 200_000, 200_000, 0));
}

#[test]
fn where_copies_cannot_be_told_from_retransmissions_nothing_is_diagnosed() {
    let header = [&[0, 0, 0, 1, 0, 6][..], &[0; 8], &[0x86, 0xdd]].concat();
    let mut capture = Passing::new(113, 1);
    for (at, _, packet) in passed(true) {
        capture.add(at, 0, &header, &packet, 0);
        capture.add(at + 3, 0, &header, &packet, 0);
    }
    let connection = told(vec![("a", &capture)]);
    let sent = &connection.subflows[0].directions[0];
    assert_eq!((sent.retransmissions, sent.unclear), (10, 210));
    let [only] = &connection.diagnosis[..] else { panic!("{connection:?}") };
    assert!(only.contains("210 packets of the client stand twice in a capture of all interfaces"), "{only}");
}
