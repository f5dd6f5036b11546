//! Whatever a peer puts into MPTCP's options, an endpoint neither panics nor counts around.

use super::*;
use polypath_wire::{Dss, Flags, Inline, MpOptions};
use proptest::prelude::*;

/// Numbers at which arithmetic goes wrong, and any other.
fn wide() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63), Just(u64::from(u32::MAX)), any::<u64>()]
}

fn option() -> impl Strategy<Value = MpOptions> {
    let keys = prop_oneof![
        Just(Keys::None),
        wide().prop_map(Keys::Sender),
        (wide(), wide()).prop_map(|(sender, receiver)| Keys::Both { sender, receiver, data: None }),
    ];
    let announcement =
        prop_oneof![Just(Announcement::Echo), Just(Announcement::V0), wide().prop_map(|hmac| Announcement::Authenticated { hmac })];
    let address = prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)];
    let one = prop_oneof![
        1 => (any::<u8>(), any::<u8>(), keys).prop_map(|(version, flags, keys)| Repr::Capable { version, flags, keys }),
        1 => (any::<u32>(), any::<u32>(), any::<u8>(), any::<bool>())
            .prop_map(|(token, nonce, address_id, backup)| Repr::JoinSyn { token, nonce, address_id, backup }),
        1 => (wide(), any::<u32>(), any::<u8>(), any::<bool>())
            .prop_map(|(hmac, nonce, address_id, backup)| Repr::JoinSynAck { hmac, nonce, address_id, backup }),
        1 => any::<[u8; 20]>().prop_map(|hmac| Repr::JoinAck { hmac }),
        3 => (announcement, any::<u8>(), address, any::<Option<u16>>())
            .prop_map(|(announcement, address_id, address, port)| Repr::AddAddr { announcement, address_id, address, port }),
        2 => prop::collection::vec(any::<u8>(), 1..9)
            .prop_map(|ids| Repr::RemoveAddr { address_ids: Inline::from_slice(&ids).expect("eight are few") }),
        1 => any::<(bool, Option<u8>)>().prop_map(|(backup, address_id)| Repr::Prio { backup, address_id }),
        1 => wide().prop_map(|dsn| Repr::Fail { dsn }),
        1 => wide().prop_map(|receiver_key| Repr::FastClose { receiver_key }),
        1 => any::<(u8, u8)>().prop_map(|(flags, reason)| Repr::TcpRst { flags, reason }),
    ];
    // What has no room behind the others is left out.
    prop::collection::vec(one, 0..3).prop_map(|options| {
        let mut all = MpOptions::default();
        options.iter().for_each(|option| {
            all.push(option);
        });
        all
    })
}

/// A segment whose subflow numbers are nearly right, as otherwise TCP would see to it that nothing
/// is looked at.
#[derive(Clone, Debug)]
struct Forged {
    seq: i32,
    ack: i32,
    /// Added to what the connection expects next, or as it is.
    dsn: (bool, u64),
    data_ack: (bool, u64),
    map_len: u16,
    len: u32,
    flags: u8,
    has_dss: bool,
    data_fin: bool,
    option: MpOptions,
    path: u8,
}

fn forged() -> impl Strategy<Value = Forged> {
    let numbers = (prop_oneof![4 => Just(0), 1 => -3000..3000_i32], prop_oneof![4 => Just(0), 1 => -3000..3000_i32]);
    let data = ((any::<bool>(), wide()), (any::<bool>(), wide()), prop_oneof![Just(0), Just(1), any::<u16>()], 0..3000_u32);
    let flags = prop_oneof![6 => Just(16_u8), 1 => Just(17), 1 => Just(20), 1 => Just(2), 1 => any::<u8>()];
    (numbers, data, flags, any::<bool>(), any::<bool>(), option(), prop_oneof![3 => Just(0_u8), 1 => any::<u8>()]).prop_map(
        |((seq, ack), (dsn, data_ack, map_len, len), flags, has_dss, data_fin, option, path)| Forged {
            seq,
            ack,
            dsn,
            data_ack,
            map_len,
            len,
            flags,
            has_dss,
            data_fin,
            option,
            path,
        },
    )
}

impl Forged {
    fn segment(&self, end: &Connection) -> Segment {
        let socket = &end.subflows[0].socket;
        let near = |(near, value): (bool, u64), here: DataSeq| if near { here + value } else { DataSeq::new(value) };
        Segment {
            seq: socket.rx.receives_next() + self.seq as u32,
            ack: socket.tx.snd_nxt() + self.ack as u32,
            len: self.len,
            flags: Flags(self.flags),
            window: 1000,
            has_ts: true,
            has_dss: self.has_dss,
            dss: Dss {
                dsn: near(self.dsn, end.rx.next()),
                data_ack: near(self.data_ack, end.tx.una),
                map_len: self.map_len,
                has_ack: true,
                data_fin: self.data_fin,
                from_wire: true,
                ..Dss::default()
            },
            mp: self.option,
            ..Segment::default()
        }
    }
}

/// Both ends of a connection over two paths that has data under way.
pub(super) fn established(stack: &'static Stack) -> Net<Connection> {
    let mut net = connect(&settings(stack), PathManager::default(), two_paths([5, 5], 10));
    net.keep_log = false;
    net.client.open(net.now);
    net.client.offer(net.now, Bytes::MAX);
    net.server.offer(net.now, Bytes::new(100_000));
    net.run_until(Instant::ZERO + Duration::from_millis(80));
    net
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_option_of_a_peer_panics_or_wraps(kernel in any_kernel(), end in 0..2_usize, segments in prop::collection::vec(forged(), 1..40)) {
        let mut net = established(kernel.0);
        let end = if end == CLIENT { &mut net.client } else { &mut net.server };
        let mut now = net.now;
        for forged in &segments {
            now += Duration::from_millis(3);
            let segment = forged.segment(end);
            end.handle_segment(now, PathId(forged.path), &segment);
            for _ in 0..10_000 {
                if end.poll_transmit(now).is_none() {
                    break;
                }
            }
            if end.poll_timeout() <= now {
                end.handle_timeout(now);
            }
            prop_assert!(end.rx.read_bytes() < 1 << 32, "more was read than was ever sent");
            prop_assert!(end.subflow_count() <= polypath_sched::MAX_SUBFLOWS);
        }
    }
}

#[test]
fn tests_see_an_overflow() {
    let most = std::hint::black_box(u8::MAX);
    assert!(std::panic::catch_unwind(|| most + std::hint::black_box(1)).is_err(), "tests are built with overflow checks");
}

#[test]
fn addresses_from_32_on_are_told_apart() {
    let mut net = established(&LINUX_6_12_117);
    for address_id in [31, 32, 63, 64, 255] {
        let (seq, ack) = (net.client.subflows[0].socket.rx.receives_next(), net.client.subflows[0].socket.tx.snd_nxt());
        let (client, address) = (&net.client, IpAddr::from([10, 3, 0, address_id]));
        let hmac = client.version().address_hmac(client.remote_key, client.local_key, address_id, address, 0);
        let announcement = Announcement::Authenticated { hmac };
        let mp = Repr::AddAddr { announcement, address_id, address, port: None }.into();
        let segment = Segment { seq, ack, flags: Flags::ACK, has_ts: true, mp, ..Segment::default() };
        let before = net.client.subflow_count();
        net.client.handle_segment(net.now, PathId(0), &segment);
        let count = net.client.subflow_count();
        assert!(count > before || count == 9, "{address_id}: {before} subflows, then {count}");
    }
}

#[test]
fn a_data_fin_without_length_ends_nothing() {
    let mut net = established(&LINUX_6_12_117);
    let end = &mut net.server;
    let (seq, ack) = (end.subflows[0].socket.rx.receives_next(), end.subflows[0].socket.tx.snd_nxt());
    for dsn in [DataSeq::default(), end.rx.next()] {
        let dss = Dss { data_fin: true, dsn, map_len: 0, ..Dss::default() };
        let segment = Segment { seq, ack, flags: Flags::ACK, has_ts: true, has_dss: true, dss, ..Segment::default() };
        end.handle_segment(net.now, PathId(0), &segment);
        assert!(!end.rx.finished() && !end.rx.awaits_end(), "{dsn}");
    }
}

#[test]
fn data_is_put_in_order_across_the_end_of_the_number_space() {
    let mut rx = super::super::receiver::Rx::new(131_072, 6_291_456, &crate::stack::LINUX_6_12_117, crate::Device::Veth);
    let first = DataSeq::new(u64::MAX - 1500);
    rx.start(Instant::ZERO, first, 14_480, 65_535);
    assert!(!rx.insert(Instant::ZERO, first + 1000, 1000), "waits, and ends after the number space does");
    assert!(rx.insert(Instant::ZERO, first, 1000));
    assert_eq!((rx.next(), rx.unread()), (first + 2000, 2000));
    assert!(!rx.insert(Instant::ZERO, first - 10, 5), "before the first");
    rx.note_fin(first + 2000);
    assert!(rx.take_fin() && rx.finished());
}

#[test]
fn subflows_that_are_gone_make_room_for_others() {
    // Twelve addresses: nine subflows at a time.
    let paths = vec![two_paths([5; 2], 10).remove(0); 16];
    let client = Connection::client(config(&settings(&LINUX_6_12_117), PathManager::default(), 12, "client"));
    let server = Connection::server(config(&settings(&LINUX_6_12_117), PathManager::default(), 1, "server"));
    let mut net = join(client, server, paths);
    net.client.open(net.now);
    net.client.offer(net.now, Bytes::MAX);
    net.run_until(Instant::ZERO + Duration::from_secs(1));
    assert_eq!(net.client.subflow_count(), 9);
    for (gone, count) in [(3, 10), (4, 11), (5, 12)] {
        let now = net.now;
        net.client.close_subflow(now, gone);
        net.server.close_subflow(now, gone);
        net.run_for(Duration::from_secs(1));
        assert_eq!(net.client.subflow_count(), count, "the next address gets its turn");
        let usable = |end: &Connection| end.subflows.iter().filter(|s| s.is_usable()).count();
        assert_eq!([usable(&net.client), usable(&net.server)], [9, 9]);
    }
}

#[test]
fn options_that_prove_nothing_are_counted() {
    let mut net = established(&LINUX_6_12_117);
    let server = &mut net.server;
    let count = |end: &Connection| end.subflow(0).rejected.rejected_mptcp;
    let join = Repr::JoinSyn { token: server.local_token ^ 1, nonce: 1, address_id: 7, backup: false }.into();
    server.handle_segment(net.now, PathId(9), &Segment { flags: Flags::SYN, mp: join, ..Segment::default() });
    assert_eq!((count(server), server.subflow_count()), (1, 2), "a join with another connection's token");
    let (seq, ack) = (server.subflows[0].socket.rx.receives_next(), server.subflows[0].socket.tx.snd_nxt());
    let mp = Repr::FastClose { receiver_key: server.local_key ^ 1 }.into();
    server.handle_segment(net.now, PathId(0), &Segment { seq, ack, flags: Flags::ACK, has_ts: true, mp, ..Segment::default() });
    assert_eq!(count(server), 2, "a close with another connection's key");
    assert_eq!(server.subflows[0].socket.state(), crate::tcp::State::Established);
    let join = Repr::JoinSyn { token: server.local_token, nonce: 1, address_id: 7, backup: false }.into();
    server.handle_segment(net.now, PathId(9), &Segment { flags: Flags::SYN, mp: join, ..Segment::default() });
    assert_eq!(server.subflow_count(), 3);
    let mp = Repr::JoinAck { hmac: [1; 20] }.into();
    server.handle_segment(net.now, PathId(9), &Segment { flags: Flags::ACK, mp, ..Segment::default() });
    assert_eq!(server.subflow(2).rejected.rejected_mptcp, 1, "a join with a wrong code");
}

#[test]
fn an_address_that_the_peer_did_not_announce_is_not_joined() {
    for right in [false, true] {
        let mut net = established(&LINUX_6_12_117);
        let client = &mut net.client;
        let (seq, ack) = (client.subflows[0].socket.rx.receives_next(), client.subflows[0].socket.tx.snd_nxt());
        let address = IpAddr::from([10, 2, 0, 9]);
        // RFC 8684 section 3.4.1: the code covers the port, 0 if there is none.
        let hmac = client.version().address_hmac(client.remote_key, client.local_key, 9, address, u16::from(!right));
        let mp = Repr::AddAddr { announcement: Announcement::Authenticated { hmac }, address_id: 9, address, port: None }.into();
        let before = client.subflow_count();
        client.handle_segment(net.now, PathId(0), &Segment { seq, ack, flags: Flags::ACK, has_ts: true, mp, ..Segment::default() });
        assert_eq!((client.subflow_count() > before, client.subflow(0).rejected.rejected_mptcp), (right, u64::from(!right)));
    }
}

#[test]
fn a_port_that_is_announced_is_in_the_code_and_in_nothing_else() {
    let mut net = established(&LINUX_6_12_117);
    let client = &mut net.client;
    let address = IpAddr::from([10, 2, 0, 9]);
    let hmac = |client: &Connection, port| client.version().address_hmac(client.remote_key, client.local_key, 9, address, port);
    for (code_of, opens) in [(0, false), (8080, true)] {
        let announcement = Announcement::Authenticated { hmac: hmac(client, code_of) };
        let mp = Repr::AddAddr { announcement, address_id: 9, address, port: Some(8080) }.into();
        let (seq, ack) = (client.subflows[0].socket.rx.receives_next(), client.subflows[0].socket.tx.snd_nxt());
        let before = client.subflow_count();
        client.handle_segment(net.now, PathId(0), &Segment { seq, ack, flags: Flags::ACK, has_ts: true, mp, ..Segment::default() });
        assert_eq!(client.subflow_count() > before, opens, "the code of port {code_of}");
    }
}

#[test]
fn an_mp_fail_changes_nothing() {
    let mut net = established(&LINUX_6_12_117);
    let (now, server) = (net.now, &mut net.server);
    while server.poll_transmit(now).is_some() {}
    let (seq, ack) = (server.subflows[0].socket.rx.receives_next(), server.subflows[0].socket.tx.snd_nxt());
    let mp = Repr::Fail { dsn: server.rx.next().get() }.into();
    server.handle_segment(now, PathId(0), &Segment { seq, ack, flags: Flags::ACK, has_ts: true, mp, ..Segment::default() });
    assert!(server.poll_transmit(now).is_none() && server.phase == crate::mptcp::Phase::Established, "no answer, no fallback");
    assert!(server.subflows.iter().all(|subflow| !subflow.closed));
}

#[test]
fn either_ends_wish_for_checksums_is_met() {
    let settings = settings(&LINUX_6_12_117);
    for asks in [[true, false], [false, true]] {
        let [own, peer] = asks.map(|checksum| Settings { checksum, ..settings.clone() });
        let client = Connection::client(config(&own, PathManager::default(), 2, "client"));
        let server = Connection::server(config(&peer, PathManager::default(), 1, "server"));
        let mut net = join(client, server, two_paths([5; 2], 20));
        net.transfer(200_000, 10);
        assert_eq!((net.server.received().get(), net.client.subflow_count()), (200_000, 2));
        assert!(net.log.iter().filter(|l| l.segment.len > 0).all(|l| l.segment.dss.checksum), "RFC 8684 section 3.1");
    }
}

/// Without window scaling.
fn blank() -> Segment {
    Segment { window_scale: 255, ..Segment::default() }
}

/// A server that asks for no checksums, and the third ACK of a client that asked in its SYN alone.
fn asked_in_syn_alone() -> Connection {
    let mut server = Connection::server(config(&settings(&LINUX_6_12_117), PathManager::default(), 1, "server"));
    let now = Instant::ZERO;
    let capable = |flags, keys| Repr::Capable { version: 1, flags, keys }.into();
    let syn = Segment { flags: Flags::SYN, mss: 1460, window: 65535, mp: capable(Repr::HASH | Repr::CHECKSUM, Keys::None), ..blank() };
    server.handle_segment(now, PathId(0), &syn);
    let answer = server.poll_transmit(now).expect("a SYN is answered").segment;
    let keys = Keys::Both { sender: 2, receiver: server.local_key, data: None };
    let seq = Seq::new(1);
    let third = Segment { seq, ack: answer.seq + 1, flags: Flags::ACK, window: 65535, mp: capable(Repr::HASH, keys), ..blank() };
    server.handle_segment(now, PathId(0), &third);
    server
}

#[test]
fn a_wish_for_checksums_in_the_syn_alone_does_not_count() {
    let mut server = asked_in_syn_alone();
    server.offer(Instant::ZERO, Bytes::new(100));
    let data = server.poll_transmit(Instant::ZERO).expect("what is written leaves").segment;
    assert!(data.has_dss && data.len == 100 && !data.dss.checksum);
}

#[test]
fn a_checksum_where_none_was_agreed_on_is_no_mapping() {
    let mut server = asked_in_syn_alone();
    let socket = &server.subflows[0].socket;
    let (seq, ack) = (socket.rx.receives_next(), socket.tx.snd_nxt());
    let dss = Dss { dsn: server.rx.next(), ssn: 1, map_len: 100, dsn64: true, checksum: true, ..Dss::default() };
    server.handle_segment(Instant::ZERO, PathId(0), &Segment { seq, ack, len: 100, flags: Flags::ACK, has_dss: true, dss, ..blank() });
    assert!(server.is_fallback(), "RFC 8684 section 3.7");
}

#[test]
fn a_join_with_an_unknown_token_is_not_answered() {
    let mut net = established(&LINUX_6_12_117);
    let (now, server) = (net.now, &mut net.server);
    while server.poll_transmit(now).is_some() {}
    let mp = Repr::JoinSyn { token: server.local_token ^ 1, nonce: 1, address_id: 7, backup: false }.into();
    server.handle_segment(now, PathId(9), &Segment { flags: Flags::SYN, mp, ..Segment::default() });
    assert!(server.poll_transmit(now).is_none() && server.poll_timeout() > now);
    assert_eq!(server.subflow(0).rejected.rejected_mptcp, 1);
}

#[test]
fn a_fast_close_with_the_right_key_resets_every_subflow() {
    let mut net = established(&LINUX_6_12_117);
    let (now, server) = (net.now, &mut net.server);
    while server.poll_transmit(now).is_some() {}
    let (seq, ack) = (server.subflows[0].socket.rx.receives_next(), server.subflows[0].socket.tx.snd_nxt());
    let mp = Repr::FastClose { receiver_key: server.local_key }.into();
    server.handle_segment(now, PathId(0), &Segment { seq, ack, flags: Flags::ACK, has_ts: true, mp, ..Segment::default() });
    assert!(server.subflows.iter().all(|subflow| subflow.closed), "every subflow is gone");
    let resets: Vec<_> =
        std::iter::from_fn(|| server.poll_transmit(now)).map(|t| (t.path, t.segment.flags, t.segment.mp.first())).collect();
    let reset = |path| (PathId(path), Flags::RST.with(Flags::ACK), Some(Repr::TcpRst { flags: 0, reason: 0 }));
    assert_eq!(resets, [reset(0), reset(1)], "RFC 8684 section 3.5");
    assert!(server.poll_timeout() > now);
}
