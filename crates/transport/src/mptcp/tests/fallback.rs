//! RFC 8684 section 3.7: what began as MPTCP goes on as plain TCP.

use super::*;
use polypath_wire::Flags;

#[test]
fn a_peer_without_mptcp_gets_plain_tcp() {
    use crate::tcp;
    for stack in BOTH {
        let settings = settings(stack);
        let client = Connection::client(config(&settings, PathManager::default(), 2, "client"));
        let tcp_config = tcp::Config {
            settings: settings.into(),
            algorithm: cc::find("reno").expect("reno"),
            mtu: Bytes::new(1500),
            initial_seq: Seq::new(77),
        };
        let server = tcp::Socket::server(tcp_config);
        let mut net = Net::new(client, server, two_paths([5, 5], 0));
        net.transfer(1_000_000, 20);
        let sent = || net.log.iter().filter(|l| l.end == CLIENT);
        assert!(sent().all(|l| l.path == PathId(0) && !l.segment.has_dss), "no MPTCP option after the handshake");
        let longest = sent().map(|l| l.segment.len).max();
        let (client, server) = (&net.client, &net.server);
        assert!(client.is_fallback() && server.peer_finished(), "{stack}");
        assert_eq!((server.received().get(), client.subflow_count(), longest), (1_000_000, 1, Some(1448)), "{stack}");
    }
}

/// Linux over one path of 100 Mbit/s and 10 ms and another one, of which the client's packets
/// `lost` never arrive: 0 is the SYN, 1 the third ACK, 2 the first data.
fn transfer_losing(lost: &[u64]) -> Net<Connection> {
    let mut paths = two_paths([5, 5], 100);
    paths[0][CLIENT].script(lose(lost.to_vec()));
    let mut net = connect(&settings(&LINUX_6_12_117), PathManager::default(), paths);
    net.transfer(2_000_000, 20);
    assert_eq!(net.server.received().get(), 2_000_000, "{lost:?}");
    assert!(net.server.peer_finished() && net.client.peer_finished() && net.client.everything_acked(), "{lost:?}");
    assert_eq!(net.client.poll_timeout(), Instant::NEVER, "{lost:?}: nothing is left to do");
    net
}

fn has_keys(segment: &Segment) -> bool {
    matches!(segment.mp.first(), Some(Repr::Capable { .. }))
}

#[test]
fn the_keys_stand_on_the_burst_with_the_first_byte() {
    let net = transfer_losing(&[]);
    let flight: Vec<_> = net
        .log
        .iter()
        .filter(|l| l.end == 0 && l.path == PathId(0))
        .skip(1)
        .take(11)
        .map(|l| (l.segment.len, has_keys(&l.segment)))
        .collect();
    assert_eq!(flight[0], (0, true));
    // Linux sends two segments a burst at this rate.
    assert!(flight[1..3].iter().all(|s| s.0 > 0 && s.1), "{flight:?}");
    assert!(flight[3..].iter().all(|s| s.0 > 0 && !s.1), "{flight:?}");
}

#[test]
fn a_server_that_never_saw_the_keys_falls_back_and_the_client_follows() {
    for lose in [&[1, 2, 3][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]] {
        let net = transfer_losing(lose);
        assert!([&net.client, &net.server].into_iter().all(Connection::is_fallback), "{lose:?}");
        assert_eq!((net.client.subflow_count(), net.paths[1][0].payload), (1, 0), "{lose:?}");
        // Without MPTCP's options segments have TCP's length, and none tells of data sequence
        // numbers any more.
        let last: Vec<_> = net.log.iter().filter(|l| l.segment.len > 0).rev().take(100).collect();
        assert!(last.iter().any(|l| l.segment.len == 1448) && last.iter().all(|l| !l.segment.has_dss), "{lose:?}");
    }
}

#[test]
fn one_segment_with_the_keys_is_enough() {
    for lose in [&[1][..], &[1, 2], &[2, 3], &[1, 3]] {
        let net = transfer_losing(lose);
        assert!(!net.client.is_fallback() && !net.server.is_fallback(), "{lose:?}");
        assert_eq!(net.client.subflow_count(), 2, "{lose:?}");
    }
}

#[test]
fn the_third_repetition_of_the_syn_asks_for_plain_tcp() {
    // The repetitions come every second, not after 1, 3 and 7 s.
    for (lost, fallback) in [(2, false), (3, true)] {
        let lose: Vec<u64> = (0..lost).collect();
        let net = transfer_losing(&lose);
        let syns: Vec<_> = net.log.iter().filter(|l| l.end == 0 && l.path == PathId(0) && l.segment.flags.has(Flags::SYN)).collect();
        assert_eq!(syns.iter().map(|l| l.at.as_nanos() / 1_000_000_000).collect::<Vec<_>>(), (0..=lost).collect::<Vec<_>>());
        assert!(syns[..3].iter().all(|l| has_keys(&l.segment)) && syns[3..].iter().all(|l| !has_keys(&l.segment)));
        assert!([&net.client, &net.server].iter().all(|end| end.is_fallback() == fallback), "{lost} SYNs lost");
    }
}
