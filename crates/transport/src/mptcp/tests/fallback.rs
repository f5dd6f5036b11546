//! RFC 8684 section 3.7: what began as MPTCP goes on as plain TCP.

use super::*;
use polypath_wire::Flags;

#[test]
fn a_peer_without_mptcp_gets_plain_tcp() {
    use crate::tcp::{self, Context};
    for stack in BOTH {
        let settings = settings(stack);
        let mut client = Connection::client(config(&settings, PathManager::default(), 2, "client"));
        let tcp_config =
            tcp::Config { settings, algorithm: cc::find("reno").expect("reno"), mtu: Bytes::new(1500), initial_seq: Seq::new(77) };
        let mut server = tcp::Socket::server(tcp_config);
        client.open(Instant::ZERO);
        client.offer(Instant::ZERO, Bytes::new(1_000_000));
        client.close(Instant::ZERO);
        let mut flying: BTreeMap<(Instant, u64), (bool, Segment)> = BTreeMap::new();
        let (mut now, mut n, mut longest) = (Instant::ZERO, 0, 0);
        for _ in 0..100_000 {
            while let Some(t) = client.poll_transmit(now) {
                assert_eq!(t.path, PathId(0));
                assert!(!t.segment.has_dss, "no MPTCP option after the handshake");
                longest = longest.max(t.segment.len);
                n += 1;
                flying.insert((now + Duration::from_millis(5), n), (true, t.segment));
            }
            while let Some(segment) = server.poll_transmit(Context::at(now)) {
                n += 1;
                flying.insert((now + Duration::from_millis(5), n), (false, segment));
            }
            let arrival = flying.keys().next().map_or(Instant::NEVER, |key| key.0);
            now = arrival.min(client.poll_timeout()).min(server.poll_timeout());
            if now == Instant::NEVER || server.peer_finished() {
                break;
            }
            if now == arrival {
                let (_, (to_server, segment)) = flying.pop_first().expect("an arrival");
                if to_server {
                    server.handle_segment(Context::at(now), &segment);
                } else {
                    client.handle_segment(now, PathId(0), &segment);
                }
            } else {
                client.handle_timeout(now);
                server.handle_timeout(Context::at(now));
            }
        }
        assert!(client.is_fallback() && server.peer_finished(), "{stack}");
        assert_eq!((server.received().get(), client.subflow_count(), longest), (1_000_000, 1, 1448), "{stack}");
    }
}

/// Upstream over one path of 100 Mbit/s and 10 ms and another one, of which the client's packets `lose` never arrive: 0 is the SYN, 1 the
/// third ACK, 2 the first data.
fn transfer_losing(lose: &[u64]) -> Net {
    let mut wires = two_paths([5, 5], 100);
    wires[0][0].lose = lose.to_vec();
    let mut net = Net::new(&settings(&LINUX_6_12_117), PathManager::default(), wires);
    net.transfer(2_000_000, 20);
    assert_eq!(net.ends[1].received().get(), 2_000_000, "{lose:?}");
    assert!(net.ends[1].peer_finished() && net.ends[0].peer_finished() && net.ends[0].everything_acked(), "{lose:?}");
    assert_eq!(net.ends[0].poll_timeout(), Instant::NEVER, "{lose:?}: nothing is left to do");
    net
}

fn has_keys(segment: &Segment) -> bool {
    matches!(segment.mp.first(), Some(Repr::Capable { .. }))
}

#[test]
fn the_keys_stand_on_the_burst_with_the_first_byte() {
    let net = transfer_losing(&[]);
    let flight: Vec<_> =
        net.log.iter().filter(|l| l.1 == 0 && l.2 == PathId(0)).skip(1).take(11).map(|l| (l.3.len, has_keys(&l.3))).collect();
    assert_eq!(flight[0], (0, true));
    // Linux sends two segments a burst at this rate.
    assert!(flight[1..3].iter().all(|s| s.0 > 0 && s.1), "{flight:?}");
    assert!(flight[3..].iter().all(|s| s.0 > 0 && !s.1), "{flight:?}");
}

#[test]
fn a_server_that_never_saw_the_keys_falls_back_and_the_client_follows() {
    for lose in [&[1, 2, 3][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]] {
        let net = transfer_losing(lose);
        assert!(net.ends.iter().all(Connection::is_fallback), "{lose:?}");
        assert_eq!((net.ends[0].subflow_count(), net.wires[1][0].bytes), (1, 0), "{lose:?}");
        // Without MPTCP's options segments have TCP's length, and none tells of data sequence numbers any more.
        let last: Vec<_> = net.log.iter().filter(|l| l.3.len > 0).rev().take(100).collect();
        assert!(last.iter().any(|l| l.3.len == 1448) && last.iter().all(|l| !l.3.has_dss), "{lose:?}");
    }
}

#[test]
fn one_segment_with_the_keys_is_enough() {
    for lose in [&[1][..], &[1, 2], &[2, 3], &[1, 3]] {
        let net = transfer_losing(lose);
        assert!(!net.ends.iter().any(Connection::is_fallback), "{lose:?}");
        assert_eq!(net.ends[0].subflow_count(), 2, "{lose:?}");
    }
}

#[test]
fn the_third_repetition_of_the_syn_asks_for_plain_tcp() {
    // The repetitions come every second, not after 1, 3 and 7 s.
    for (lost, fallback) in [(2, false), (3, true)] {
        let lose: Vec<u64> = (0..lost).collect();
        let net = transfer_losing(&lose);
        let syns: Vec<_> = net.log.iter().filter(|l| l.1 == 0 && l.2 == PathId(0) && l.3.flags.has(Flags::SYN)).collect();
        assert_eq!(syns.iter().map(|l| l.0.as_nanos() / 1_000_000_000).collect::<Vec<_>>(), (0..=lost).collect::<Vec<_>>());
        assert!(syns[..3].iter().all(|l| has_keys(&l.3)) && syns[3..].iter().all(|l| !has_keys(&l.3)));
        assert!(net.ends.iter().all(|end| end.is_fallback() == fallback), "{lost} SYNs lost");
    }
}
