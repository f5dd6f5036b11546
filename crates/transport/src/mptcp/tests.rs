//! Client and server over one path or several, in virtual time.

mod bursts;
mod bytes;

use super::path_manager::{Endpoint, Endpoints, Ndiffports, PathManager};
use super::{Config, Connection, Interface};
use crate::harness::{
    CLIENT, Direction, Kernel, Net, SERVER, Sent, any_kernel, change, down, lose, lose_at_random, lose_if, through_bytes,
};
use crate::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188, MptcpVersion, PushOrder, Stack};
use crate::{Settings, Transmit};
use polypath_base::{Bytes, DataSeq, Duration, Instant, PathId, Rng, Seq};
use polypath_cc as cc;
use polypath_sched::Scheduler;
use polypath_wire::Segment;
use polypath_wire::mptcp::{Announcement, Keys, Repr};
use std::net::IpAddr;

mod fallback;
mod hostile;
mod operations;

fn config(settings: &Settings, manager: PathManager, addresses: usize, name: &str) -> Config {
    let scheduler = if settings.stack.push_order == PushOrder::Bursts { "default" } else { "minrtt" };
    Config {
        settings: settings.clone().into(),
        algorithm: cc::find("reno").expect("reno is always there"),
        scheduler: Scheduler::find(scheduler).expect("known"),
        path_manager: manager,
        interfaces: interfaces(name, addresses),
        random: Rng::new(1, name),
    }
}

#[test]
fn ten_thousand_connections_are_small() {
    // What they touch is most of what a run with so many waits for (docs/decisions/0012).
    let sizes = [size_of::<Connection>(), size_of::<super::Subflow>()];
    assert!(sizes[0] <= 1920 && sizes[1] <= 2560, "{sizes:?}");
}

/// 10.1.0.0 and so on at the client, 10.2.0.0 and so on at the server.
fn interfaces(name: &str, count: usize) -> Vec<Interface> {
    let end = if name == "client" { 1 } else { 2 };
    (0..count).map(|i| Interface { address: [10, end, 0, i as u8].into(), mtu: Bytes::new(1500) }).collect()
}

/// A client and a server of one address, with these paths between them.
fn connect(settings: &Settings, manager: PathManager, paths: Vec<[Direction; 2]>) -> Net<Connection> {
    let client = Connection::client(config(settings, manager, paths.len(), "client"));
    let server = Connection::server(config(settings, PathManager::default(), 1, "server"));
    join(client, server, paths)
}

/// The server closes as soon as the client has.
fn join(client: Connection, server: Connection, paths: Vec<[Direction; 2]>) -> Net<Connection> {
    let mut net = Net::new(client, server, paths);
    net.server_closes = true;
    net
}

fn two_paths(delay_ms: [u64; 2], mbit: u64) -> Vec<[Direction; 2]> {
    delay_ms.iter().map(|&delay| [Direction::new(delay, mbit, 200), Direction::new(delay, 0, 10_000)]).collect()
}

fn settings(stack: &'static Stack) -> Settings {
    Settings {
        stack,
        rmem: [4096, 131_072, 16_777_216].map(Bytes::new),
        wmem: [4096, 16_384, 16_777_216].map(Bytes::new),
        ..Settings::default()
    }
}

const BOTH: [&Stack; 2] = [&MPTCP_0_96_LINUX_5_4_188, &LINUX_6_12_117];

#[test]
fn the_handshake_has_linuxs_options_in_linuxs_order() {
    let mut net = connect(&settings(&LINUX_6_12_117), PathManager::default(), two_paths([1, 1], 100));
    net.transfer(300_000, 5);
    let options: Vec<_> =
        net.log.iter().filter(|l| l.path == PathId(0)).take(3).map(|l| (l.end, l.segment.mp.first(), l.segment.options_len())).collect();
    assert!(matches!(options[0], (0, Some(Repr::Capable { keys: Keys::None, .. }), 24)), "{options:?}");
    assert!(matches!(options[1], (1, Some(Repr::Capable { keys: Keys::Sender(_), .. }), 32)));
    assert!(matches!(options[2], (0, Some(Repr::Capable { keys: Keys::Both { .. }, .. }), 32)));
    let joins: Vec<_> = net.log.iter().filter(|l| l.path == PathId(1)).take(4).map(|l| (l.end, l.segment)).collect();
    let option = |i: usize| joins[i].1.mp.first();
    assert!(joins[0].0 == 0 && matches!(option(0), Some(Repr::JoinSyn { .. })), "{joins:?}");
    assert!(joins[1].0 == 1 && matches!(option(1), Some(Repr::JoinSynAck { .. })));
    assert!(joins[2].0 == 0 && joins[2].1.len == 0 && matches!(option(2), Some(Repr::JoinAck { .. })));
    assert!(matches!(joins[3], (1, Segment { has_dss: true, len: 0, .. })), "the fourth ACK lets the client send");
    assert_eq!(net.server.received().get(), 300_000);
}

#[test]
fn segments_have_the_lengths_that_the_stacks_send() {
    // Linux's MSS, which windows and pacing count in, is TCP's; MPTCP 0.96's leaves room for
    // MPTCP's options.
    for (stack, full, ack_options, mss) in [(&MPTCP_0_96_LINUX_5_4_188, 1428, 20, 1428), (&LINUX_6_12_117, 1424, 24, 1448)] {
        let mut net = connect(&settings(stack), PathManager::default(), two_paths([5, 5], 100));
        net.transfer(1_000_000, 5);
        let longest = net.log.iter().map(|l| l.segment.len).max();
        assert_eq!(longest, Some(full), "{stack}");
        assert_eq!(net.client.subflows[0].socket.probe().mss.get(), mss, "{stack}");
        assert!(net.log.iter().all(|l| l.segment.ip_len() <= 1500), "{stack}");
        let ack = net
            .log
            .iter()
            .rfind(|l| l.end == 1 && l.segment.len == 0 && l.segment.has_dss && !l.segment.dss.data_fin && l.segment.sack_len == 0);
        assert_eq!(ack.map(|l| l.segment.options_len()), Some(ack_options), "{stack}");
    }
}

#[test]
fn what_was_offered_and_not_accepted_is_withdrawn() {
    for stack in BOTH {
        let mut net = connect(&settings(stack), PathManager::default(), two_paths([5, 5], 50));
        net.open(Bytes::MAX);
        net.run_for(Duration::from_secs(1));
        net.client.stop(net.now);
        let accepted = net.client.accepted();
        net.run_for(Duration::from_secs(1));
        assert_eq!((net.client.accepted(), net.server.received()), (accepted, accepted), "{stack}");
    }
}

#[test]
fn a_transfer_uses_both_paths_and_ends() {
    for stack in BOTH {
        let mut net = connect(&settings(stack), PathManager::default(), two_paths([5, 5], 50));
        net.transfer(10_000_000, 30);
        assert_eq!(net.server.received().get(), 10_000_000, "{stack}");
        assert!(net.server.peer_finished() && net.client.peer_finished(), "{stack}");
        assert!(net.client.everything_acked());
        let share = net.paths[0][0].payload as f64 / (net.paths[0][0].payload + net.paths[1][0].payload) as f64;
        assert!((0.48..0.57).contains(&share), "{stack}: {share}");
        assert_eq!(net.client.poll_timeout(), Instant::NEVER, "{stack}: nothing is left to do");
        assert_eq!(net.server.poll_timeout(), Instant::NEVER, "{stack}: nothing is left to do");
    }
}

#[test]
fn two_paths_carry_the_sum_of_their_rates() {
    for stack in BOTH {
        let mut net = connect(&settings(stack), PathManager::default(), two_paths([5, 5], 50));
        net.keep_log = false;
        net.client.open(net.now);
        net.client.offer(net.now, Bytes::MAX);
        net.run_until(Instant::ZERO + Duration::from_secs(5));
        let at_five = net.server.received().get();
        net.run_until(Instant::ZERO + Duration::from_secs(15));
        let mbit = (net.server.received().get() - at_five) as f64 * 8e-7;
        // 1428 or 1424 of 1514 bytes are payload: 94.3 or 94.1 of 100.
        assert!((93.5..94.4).contains(&mbit), "{stack}: {mbit} Mbit/s of 100");
    }
}

#[test]
fn data_completes_when_a_path_dies() {
    for stack in BOTH {
        for dying in 0..2 {
            let mut paths = two_paths([5, 5], 20);
            for direction in &mut paths[dying] {
                direction.script(down(Instant::ZERO + Duration::from_secs(1), Instant::NEVER));
            }
            let mut net = connect(&settings(stack), PathManager::default(), paths);
            net.keep_log = false;
            net.transfer(10_000_000, 60);
            assert_eq!(net.server.received().get(), 10_000_000, "{stack} path {dying}");
            assert!(net.client.reinjected() > Bytes::ZERO);
        }
    }
}

/// What a dead path of jumbo frames leaves behind goes by a path of Ethernet's size, in segments
/// that fit there.
#[test]
fn what_goes_again_is_cut_to_the_size_of_its_new_subflow() {
    for stack in BOTH {
        let mut paths = two_paths([5, 5], 20);
        for direction in &mut paths[0] {
            direction.script(down(Instant::ZERO + Duration::from_secs(1), Instant::NEVER));
        }
        let mut net = join(Connection::client(with_mtus(stack, 2, "client")), Connection::server(with_mtus(stack, 1, "server")), paths);
        net.transfer(10_000_000, 60);
        assert_eq!(net.server.received().get(), 10_000_000, "{stack}");
        assert!(net.client.reinjected() > Bytes::ZERO, "{stack}");

        let carried =
            |path: u8| net.log.iter().filter(move |l| l.end == CLIENT && l.path == PathId(path) && l.segment.len > 0).map(|l| &l.segment);
        let longest = |path: u8| carried(path).map(|segment| segment.len).max();
        let [wide, narrow] = if stack.mptcp_version == MptcpVersion::V0 { [8928, 1428] } else { [8924, 1424] };
        assert_eq!((longest(0), longest(1)), (Some(wide), Some(narrow)), "{stack}");
        // Mappings of data that the first path has carried in jumbo frames before.
        let mapped = |path: u8| carried(path).map(|segment| &segment.dss).filter(|dss| dss.map_len > 0);
        let before: Vec<_> = mapped(0).map(|dss| dss.dsn.get()..dss.dsn.get() + u64::from(dss.map_len)).collect();
        let again = mapped(1).filter(|dss| before.iter().any(|range| range.contains(&dss.dsn.get()))).count();
        assert!(again > 10, "{stack}: {again} mappings went again");
    }
}

/// Interfaces of 9000 and 1500 bytes.
fn with_mtus(stack: &'static Stack, addresses: usize, name: &str) -> Config {
    let mut config = config(&settings(stack), PathManager::default(), addresses, name);
    for (interface, mtu) in config.interfaces.iter_mut().zip([9000, 1500]) {
        interface.mtu = Bytes::new(mtu);
    }
    config
}

#[test]
fn out_of_tree_subflows_are_given_segments_of_the_connections_size() {
    let stack = &MPTCP_0_96_LINUX_5_4_188;
    let mut net =
        join(Connection::client(with_mtus(stack, 2, "client")), Connection::server(with_mtus(stack, 1, "server")), two_paths([5, 5], 20));
    net.transfer(10_000_000, 60);
    let lengths =
        |path: u8| net.log.iter().filter(move |l| l.end == CLIENT && l.path == PathId(path) && l.segment.len > 0).map(|l| l.segment.len);
    let short = |path: u8, full: u32| (lengths(path).filter(|&len| len < full).count(), lengths(path).count());
    let ((wide, of_wide), (narrow, of_narrow)) = (short(0, 8928), short(1, 1428));
    assert!(of_wide > 300 && of_narrow > 2000, "both carry data: {of_wide}, {of_narrow}");
    assert!(wide * 50 < of_wide, "whatever the narrow one was given, whole segments are left: {wide} of {of_wide}");
    // 8928 bytes take six segments of 1428 and a short one.
    assert!(narrow * 50 > of_narrow && narrow * 6 < of_narrow, "pieces of several such segments end short: {narrow} of {of_narrow}");
}

#[test]
fn nothing_is_lost_at_random_loss() {
    for stack in BOTH {
        let mut paths = two_paths([5, 20], 20);
        for path in &mut paths {
            path[CLIENT].script(lose_at_random(0.02));
            path[SERVER].script(lose_at_random(0.01));
        }
        let mut net = connect(&settings(stack), PathManager::default(), paths);
        net.keep_log = false;
        net.transfer(3_000_000, 120);
        assert_eq!(net.server.received().get(), 3_000_000, "{stack}");
        assert!(net.client.everything_acked(), "{stack}");
    }
}

#[test]
fn a_lost_handshake_segment_is_made_up_for() {
    // Any of the first twelve segments of either direction of either path.
    for stack in BOTH {
        for path in 0..2 {
            for direction in 0..2 {
                for number in 0..12 {
                    let mut paths = two_paths([5, 5], 20);
                    paths[path][direction].script(lose([number]));
                    let mut net = connect(&settings(stack), PathManager::default(), paths);
                    net.keep_log = false;
                    net.transfer(500_000, 30);
                    assert_eq!(net.server.received().get(), 500_000, "{stack} path {path} direction {direction} number {number}");
                    assert!(!net.client.is_fallback());
                    assert!(net.client.everything_acked(), "{stack} path {path} direction {direction} number {number}");
                }
            }
        }
    }
}

#[test]
fn a_backup_subflow_carries_data_only_when_the_other_is_gone() {
    for stack in BOTH {
        let endpoints = |remove_after| {
            PathManager::from(Endpoints(vec![
                Endpoint { address: 0, backup: false, laminar: false, remove_after },
                Endpoint { address: 1, backup: true, laminar: false, remove_after: None },
            ]))
        };
        let mut net = connect(&settings(stack), endpoints(None), two_paths([5, 5], 20));
        net.transfer(2_000_000, 20);
        assert_eq!(net.server.received().get(), 2_000_000);
        assert_eq!(net.paths[1][0].payload, 0, "{stack}: the backup has carried data");

        let mut net = connect(&settings(stack), endpoints(Some(Duration::from_millis(300))), two_paths([5, 5], 20));
        net.transfer(2_000_000, 20);
        assert_eq!(net.server.received().get(), 2_000_000, "{stack}");
        assert!(net.paths[1][0].payload > 1_000_000, "{stack}: the backup had to take over");
        assert!(net.log.iter().any(|l| matches!(l.segment.mp.first(), Some(Repr::RemoveAddr { address_ids }) if *address_ids == [0])));
    }
}

#[test]
fn ndiffports_opens_that_many_subflows() {
    for stack in BOTH {
        let one = two_paths([5, 5], 20).remove(0);
        let paths = vec![one.clone(), one.clone(), one.clone(), one];
        let mut net = connect(&settings(stack), Ndiffports(4).into(), paths);
        net.transfer(4_000_000, 20);
        assert_eq!((net.client.subflow_count(), net.server.subflow_count()), (4, 4));
        assert!(net.paths.iter().all(|w| w[0].payload > 100_000), "every subflow carries data");
        assert!((1..4).all(|p| net.client.path(PathId(p)) == (0, 0)), "all over the first path");
    }
}

#[test]
fn a_connection_has_no_more_subflows_than_its_stack_allows() {
    for (stack, asked, most) in [(&MPTCP_0_96_LINUX_5_4_188, 32, 32), (&LINUX_6_12_117, 9, 9), (&LINUX_6_12_117, 12, 9)] {
        let paths = vec![two_paths([5, 5], 20).remove(0); usize::from(asked)];
        let mut net = connect(&settings(stack), Ndiffports(asked).into(), paths);
        net.transfer(20_000_000, 20);
        assert_eq!((net.client.subflow_count(), net.server.subflow_count()), (most, most), "{stack}");
        assert!(net.paths[..most].iter().all(|w| w[0].payload > 50_000), "every subflow carries data");
    }
}

#[test]
fn fullmesh_reaches_the_announced_address_of_the_server() {
    for stack in BOTH {
        let one = two_paths([5, 5], 20).remove(0);
        let client = Connection::client(config(&settings(stack), PathManager::default(), 2, "client"));
        let server = Connection::server(config(&settings(stack), PathManager::default(), 2, "server"));
        let mut net = join(client, server, vec![one.clone(), one.clone(), one.clone(), one]);
        net.transfer(4_000_000, 20);
        assert_eq!(net.server.received().get(), 4_000_000);
        let pairs: Vec<_> = (0..4).map(|p| net.client.path(PathId(p))).collect();
        // On Linux the announcement ends the handshake, and is looked at first (rivals.yaml of
        // specs/notes/kernel-7.3).
        let joins = if stack.mptcp_version == MptcpVersion::V0 { [(0, 1), (1, 0), (1, 1)] } else { [(0, 1), (1, 1), (1, 0)] };
        assert_eq!((pairs[0], &pairs[1..]), ((0, 0), &joins[..]), "{stack}");
        let announcements: Vec<_> = announcements(&net);
        let address = IpAddr::from([10, 2, 0, 1]);
        // RFC 6824 section 3.4.1: 8 bytes, and no answer. Linux's have the segment to themselves:
        // 12 bytes of timestamps, 16 or 8.
        let is_v0 = stack.mptcp_version == MptcpVersion::V0;
        let expected = if is_v0 { vec![(1, false, address, 28)] } else { vec![(1, false, address, 28), (0, true, address, 20)] };
        assert_eq!(announcements.iter().map(|a| (a.1, a.2, a.3, a.4)).collect::<Vec<_>>(), expected, "{stack}");
    }
}

/// Time, sending end, whether it is an echo, address and bytes of options of each ADD_ADDR.
fn announcements(net: &Net<Connection>) -> Vec<(Instant, usize, bool, IpAddr, u32)> {
    let announced = |l: &Sent| match l.segment.mp.first()? {
        Repr::AddAddr { announcement, address, .. } => {
            Some((l.at, l.end, announcement == Announcement::Echo, address, l.segment.options_len()))
        }
        _ => None,
    };
    net.log.iter().filter_map(announced).collect()
}

#[test]
fn an_announcement_without_an_echo_is_made_again_three_times() {
    let one = two_paths([5, 5], 20).remove(0);
    let with_timeout = Settings { add_addr_timeout: Duration::from_secs(2), ..settings(&LINUX_6_12_117) };
    let client = Connection::client(config(&with_timeout, PathManager::default(), 1, "client"));
    let server = Connection::server(config(&with_timeout, PathManager::default(), 3, "server"));
    let mut net = join(client, server, vec![one; 3]);
    // No echo of the first address arrives.
    for path in &mut net.paths {
        path[CLIENT].script(lose_if(|crossing| matches!(crossing.segment.mp.first(), Some(Repr::AddAddr { address_id: 1, .. }))));
    }
    net.open(Bytes::new(1000));
    net.run_until(Instant::ZERO + Duration::from_secs(15));
    let made: Vec<_> = announcements(&net).into_iter().filter(|a| a.1 == SERVER).map(|a| (a.0.as_micros() / 1_000_000, a.3)).collect();
    let [first, second] = [1, 2].map(|i| IpAddr::from([10, 2, 0, i]));
    assert_eq!(made, [(0, first), (2, first), (4, first), (6, first), (8, second)]);
    let echoes = announcements(&net).into_iter().filter(|a| a.1 == CLIENT && a.3 == first).count();
    assert_eq!(echoes, 4, "echoes that were lost");
    assert_eq!(net.server.poll_timeout(), Instant::NEVER, "an echoed announcement is not made again");
}

#[test]
fn the_windows_right_edge_bounds_what_is_in_the_network() {
    for stack in BOTH {
        // A reader that comes by every 100 ms, and a receive buffer that cannot grow.
        let mut settings = settings(stack);
        settings.read_period = Duration::from_millis(100);
        settings.rmem = [4096, 131_072, 131_072].map(Bytes::new);
        let mut net = connect(&settings, PathManager::default(), two_paths([5, 5], 50));
        net.transfer(2_000_000, 60);
        assert_eq!(net.server.received().get(), 2_000_000, "{stack}");
        assert!(stack.data_window_by_subflow || net.server.reordering().beyond_window == Bytes::ZERO, "{stack}");
        let window = net.client.limited(net.now).window;
        assert!(window > Duration::from_millis(100), "{stack}: the window has held us up for {window:?}");
    }
}

#[test]
fn a_data_fin_that_is_lost_is_sent_again() {
    for stack in BOTH {
        let mut net = connect(&settings(stack), PathManager::default(), two_paths([5, 5], 20));
        net.client.open(net.now);
        net.client.offer(net.now, Bytes::new(10_000));
        net.run_until(Instant::ZERO + Duration::from_millis(200));
        for path in &mut net.paths {
            let next = path[CLIENT].segments;
            path[CLIENT].script(lose([next]));
        }
        net.client.close(net.now);
        net.run_until(Instant::ZERO + Duration::from_secs(10));
        assert!(net.client.everything_acked() && net.server.peer_finished(), "{stack}");
    }
}

#[test]
fn the_same_seed_gives_the_same_segments() {
    let run = || {
        let mut paths = two_paths([3, 12], 20);
        paths[0][CLIENT].script(lose_at_random(0.03));
        let mut net = connect(&settings(&LINUX_6_12_117), PathManager::default(), paths);
        net.transfer(500_000, 30);
        net.log
    };
    assert_eq!(run(), run());
}

#[test]
fn a_join_with_a_wrong_code_is_refused() {
    let mut net = connect(&settings(&LINUX_6_12_117), PathManager::default(), two_paths([1, 1], 100));
    net.paths[1][SERVER].script(change(|segment| {
        if let Some(Repr::JoinSynAck { hmac, nonce, address_id, backup }) = segment.mp.first() {
            segment.mp = Repr::JoinSynAck { hmac: hmac ^ 1, nonce, address_id, backup }.into();
        }
    }));
    net.open(Bytes::new(100_000));
    net.run_for(Duration::from_secs(5));
    assert_eq!(net.paths[1][0].payload, 0, "no data on a subflow that was not authenticated");
    assert_eq!(net.server.received().get(), 100_000);
}

/// A connection of random kind over random paths.
#[derive(Clone, Debug)]
struct Chaos {
    kernel: Kernel,
    scheduler: usize,
    paths: Vec<(u64, u64, usize, u32, u32)>,
    dying: Option<(usize, u64)>,
    bytes: u64,
    read_ms: u64,
    rmem: u32,
    seed: u64,
    removed_after_ms: Option<u64>,
}

mod property {
    use super::*;
    use polypath_base::Rng;
    use proptest::prelude::*;

    fn chaos() -> impl Strategy<Value = Chaos> {
        let path = (1_u64..60, 1_u64..60, 3_usize..150, 0_u32..6, 0_u32..4);
        let paths = prop::collection::vec(path, 1..4);
        (
            any_kernel(),
            0_usize..Scheduler::NAMES.len(),
            paths,
            prop::option::of((0_usize..3, 0_u64..1500)),
            1_u64..1_500_000,
            0_u64..30,
            17_u32..24,
            any::<u64>(),
            prop::option::of(50_u64..1500),
        )
            .prop_map(|(kernel, scheduler, paths, dying, bytes, read_ms, rmem, seed, removed_after_ms)| Chaos {
                kernel,
                scheduler,
                // One path that neither dies nor goes away is enough to finish on.
                dying: dying.filter(|_| paths.len() > 1),
                removed_after_ms: removed_after_ms.filter(|_| paths.len() > 2),
                paths,
                bytes,
                read_ms,
                rmem: 1 << rmem,
                seed,
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        #[test]
        fn every_byte_arrives_once_whatever_happens_to_paths(c in chaos()) {
            let mut settings = settings(c.kernel.0);
            settings.read_period = Duration::from_millis(c.read_ms);
            settings.rmem[2] = Bytes::from_u32(c.rmem);
            let paths: Vec<_> = c.paths.iter().enumerate().map(|(k, &(delay, mbit, queue, loss, ack_loss))| {
                let mut path = [Direction::new(delay, mbit, queue), Direction::new(delay, 0, 10_000)];
                if let Some((dying, at)) = c.dying && dying % c.paths.len() == k {
                    // The first path may die only once the others had time to join.
                    let at = Instant::ZERO + Duration::from_millis(at + if k == 0 { 4000 } else { 0 });
                    path.iter_mut().for_each(|direction| direction.script(down(at, Instant::NEVER)));
                }
                path[CLIENT].script(lose_at_random(f64::from(loss) / 100.0));
                path[SERVER].script(lose_at_random(f64::from(ack_loss) / 100.0));
                path
            }).collect();
            let manager = match c.removed_after_ms {
                None => PathManager::default(),
                Some(ms) => PathManager::from(Endpoints((0..c.paths.len() as u8).map(|address| Endpoint {
                    address,
                    backup: address == 1,
                    laminar: false,
                    // Not the last one, which may be the only one left.
                    remove_after: (usize::from(address) == (c.dying.map_or(0, |d| d.0) + 1) % c.paths.len() && address > 0)
                        .then(|| Duration::from_millis(ms)),
                }).collect())),
            };
            let mut client = config(&settings, manager, paths.len(), "client");
            client.scheduler = Scheduler::find(Scheduler::NAMES[c.scheduler]).expect("known");
            client.random = Rng::new(c.seed, "client");
            let server = config(&settings, PathManager::default(), 1, "server");
            let mut net = join(Connection::client(client), Connection::server(server), paths);
            net.rng = Rng::new(c.seed, "wire");
            net.keep_log = false;
            net.transfer(c.bytes, 900);
            if net.client.is_fallback() && c.dying.is_some_and(|(dying, _)| dying % c.paths.len() == 0) {
                // Three SYNs were lost, so the connection is plain TCP, which dies with its one
                // path.
                prop_assert!(net.server.received().get() <= c.bytes);
                return Ok(());
            }
            prop_assert_eq!(net.server.received().get(), c.bytes);
            prop_assert!(net.client.everything_acked(), "{:?}", net.client.tx);
            prop_assert!(settings.stack.data_window_by_subflow || net.server.reordering().beyond_window == Bytes::ZERO);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Of a burst only the first segment is written whole: the others must come out as if each
        /// had been.
        #[test]
        fn a_burst_written_in_place_is_the_burst_handed_out_by_value(
            kernel in any_kernel(),
            mbit in 1_u64..300,
            delay_ms in 1_u64..40,
            loss in prop_oneof![Just(0.0), Just(1.0 / 256.0), Just(1.0 / 32.0)],
            bytes in 1_u64..4_000_000,
        ) {
            let settings = Settings::of(kernel.0);
            let logs = [false, true].map(|in_place| {
                let direction = Direction::new(delay_ms, mbit, 60).scripted(lose_at_random(loss));
                let path = [direction.clone(), direction];
                let mut net = connect(&settings, PathManager::default(), vec![path.clone(), path]);
                net.in_place = in_place;
                net.client.open(Instant::ZERO);
                net.run_until(Instant::ZERO + Duration::from_millis(500));
                net.client.offer(net.now, Bytes::new(bytes));
                net.run_until(Instant::ZERO + Duration::from_secs(3));
                net.log
            });
            prop_assert!(!logs[0].is_empty());
            prop_assert_eq!(&logs[0], &logs[1]);
        }
    }
}
