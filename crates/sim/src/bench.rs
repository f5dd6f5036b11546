//! The cases by which the simulator's speed is judged. They are only described here; who runs them
//! holds the clock.

use crate::queue::{EventQueue, Source};
use crate::scenario::{
    App, Distribution, Endpoint, Flow, Mptcp, Node, PathManager, Reorder, Scenario, Transport, Tunnel, TunnelEnd, TunnelPath,
};
use polypath_base::{Bytes, Duration, Instant, Rate};
use polypath_link::{DelayConfig, ElementSpec, InterfaceSpec, LinkSpec, QueueLimit, RateConfig};
use std::collections::BTreeMap;

/// Names of the cases.
pub const CASES: [&str; 7] =
    ["mptcp-1x2-1hop", "mptcp-1x2-3hop", "mptcp-100x2", "mptcp-10000x2", "tcp-200-1hop", "tcp-tunnel-mpt", "tcp-tunnel-earliest"];

/// The scenario of a case: MPTCP connections with two subflows each, TCP connections, or one
/// through a tunnel, over paths of 10 ms each way. No series.
pub fn case(name: &str) -> Option<Scenario> {
    match name {
        "mptcp-1x2-1hop" => Some(parallel(2, 1, 100_000_000, 1, Transport::Mptcp, 100)),
        "mptcp-1x2-3hop" => Some(parallel(2, 3, 100_000_000, 1, Transport::Mptcp, 100)),
        "mptcp-100x2" => Some(parallel(2, 1, 1_000_000_000, 100, Transport::Mptcp, 20)),
        // As much for each connection as in the case before.
        "mptcp-10000x2" => Some(parallel(2, 1, 100_000_000_000, 10_000, Transport::Mptcp, 1)),
        "tcp-200-1hop" => Some(parallel(1, 1, 1_000_000_000, 200, Transport::Tcp, 20)),
        "tcp-tunnel-mpt" => Some(tunnelled(Distribution::Turns, Reorder::Mpt { window: 1600, max_delay: LONGEST_WAIT })),
        "tcp-tunnel-earliest" => Some(tunnelled(Distribution::Earliest, Reorder::Progress { max_delay: LONGEST_WAIT, capacity: 4096 })),
        _ => None,
    }
}

/// The case by which algorithms are compared, with all connections under this congestion control.
pub fn case_of_algorithm(cc: &str) -> Scenario {
    let mut scenario = parallel(2, 1, 100_000_000, 1, Transport::Mptcp, 100);
    for flow in &mut scenario.flows {
        flow.cc = Some(cc.to_owned());
    }
    scenario
}

/// What the event queue alone costs: each of a run's events is taken and its source set anew, as
/// often as asked, with this many sources of which four are busy as links are. Returns a sum so
/// that no work is optimised away.
pub fn turn_queue(sources: u32, events: u64) -> u64 {
    let mut queue = EventQueue::new(4, sources as usize - 4);
    for source in 0..sources {
        // Four links whose packets are 120 us apart, and timers far away.
        let at = if source < 4 { Duration::from_micros(30 * u64::from(source)) } else { Duration::from_secs(200_000) };
        queue.set(Source(source), Instant::ZERO + at);
    }
    let mut sum = 0;
    for event in 0..events {
        let Some((at, source)) = queue.first() else { break };
        // Spacing alternates, so that the order of the sources does.
        queue.set(source, at + Duration::from_nanos(121_120 + (event & 7) * 1_000));
        sum = u64::wrapping_add(sum, at.as_nanos() ^ u64::from(source.0));
    }
    sum
}

const LONGEST_WAIT: Duration = Duration::from_millis(300);

/// A TCP connection through a tunnel over two paths, whose ends wait for their interfaces as
/// Linux's sockets do.
fn tunnelled(distribution: Distribution, reorder: Reorder) -> Scenario {
    let mut scenario = parallel(2, 1, 100_000_000, 1, Transport::Tcp, 100);
    let [a, b] =
        [("client", "10.9.0.1"), ("server", "10.9.0.2")].map(|(node, address)| TunnelEnd { node: node.into(), address: address.into() });
    for flow in &mut scenario.flows {
        (flow.client_address, flow.server_address) = (Some(a.address.clone()), Some(b.address.clone()));
    }
    let path = |link: &LinkSpec| TunnelPath { a: link.a.address.clone(), b: link.b.address.clone(), weight: 1 };
    scenario.tunnels.push(Tunnel {
        name: "tunnel".into(),
        a,
        b,
        paths: scenario.links.iter().map(path).collect(),
        mtu: None,
        mtu_search: false,
        clamp_mss: false,
        distribution,
        batch: 1,
        reorder,
        keepalive: Duration::from_secs(5),
        dead_time: Duration::from_secs(11),
        data_count: false,
        key: None,
        port: 23456,
        queue_packets: 1500,
        send_buffer: Some(Bytes::new(212_992)),
        packets_before: 0,
        fec: None,
    });
    scenario
}

/// `paths` disjoint paths of `hops` links each between one client and one server, shared by `flows`
/// connections.
fn parallel(paths: u32, hops: u32, bits_per_s: u64, flows: u32, transport: Transport, seconds: u64) -> Scenario {
    let node = |name: String, router| Node { name, router, addresses: vec![], kernel: None, mtu_search: None, sysctl: BTreeMap::new() };
    let mut nodes = vec![node("client".into(), false), node("server".into(), false)];
    let mut links = Vec::new();
    // A queue of one bandwidth-delay product: 2 x 10 ms.
    let queue = QueueLimit::Packets(bits_per_s / 8 * 20 / 1000 / 1514);
    let elements = || {
        vec![
            ElementSpec::Rate(RateConfig { rate: Rate::from_bits_per_sec(bits_per_s), queue, ..RateConfig::default() }),
            ElementSpec::Delay(DelayConfig { delay: Duration::from_nanos(10_000_000 / u64::from(hops)), ..DelayConfig::default() }),
        ]
    };
    for path in 0..paths {
        let at = |hop: u32| match hop {
            0 => "client".to_owned(),
            hop if hop == hops => "server".to_owned(),
            hop => format!("router-{path}-{hop}"),
        };
        nodes.extend((1..hops).map(|hop| node(at(hop), true)));
        links.extend((0..hops).map(|hop| {
            let end = |node, host| InterfaceSpec { node, address: format!("10.{path}.{hop}.{host}"), mtu: Bytes::new(1500) };
            LinkSpec {
                name: format!("link-{path}-{hop}"),
                a: end(at(hop), 1),
                b: end(at(hop + 1), 2),
                a_to_b: elements(),
                b_to_a: elements(),
            }
        }));
    }
    let duration = Duration::from_secs(seconds);
    // All have begun when a tenth of the run is over.
    let apart = Duration::from_millis(1).min(duration / 10 / u64::from(flows));
    // Links between the same two hosts are one network: a full mesh would join each address to both
    // of the server's.
    let path_manager = || match hops {
        1 if paths > 1 => PathManager::Endpoints {
            addresses: (1..paths)
                .map(|path| Endpoint { address: format!("10.{path}.0.1"), backup: false, laminar: false, remove_at: None })
                .collect(),
        },
        _ => PathManager::Fullmesh,
    };
    let flows = (0..flows).map(|number| Flow {
        name: format!("flow-{number}"),
        transport,
        cc: Some(if transport == Transport::Mptcp { "lia".into() } else { "cubic".into() }),
        datagram: Bytes::new(1400),
        client: "client".into(),
        server: "server".into(),
        client_address: None,
        server_address: None,
        start: Instant::ZERO + apart * u64::from(number),
        direction: crate::scenario::DataDirection::Upload,
        app: App::Bulk { duration },
        mptcp: Mptcp { scheduler: None, path_manager: path_manager() },
        routes: vec![],
        window: [Duration::ZERO, duration],
    });
    Scenario { seed: 1, duration, series_interval: None, nodes, links, tunnels: Vec::new(), flows: flows.collect(), captures: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_two_subflows() {
        for name in ["mptcp-1x2-1hop", "mptcp-1x2-3hop"] {
            let mut scenario = case(name).expect("it is a case");
            scenario.duration = Duration::from_millis(200);
            let outcome = crate::run(&scenario).expect("a case is a valid scenario");
            assert_eq!(outcome.flows[0].subflows.iter().filter(|subflow| subflow.established_ns.is_some()).count(), 2, "{name}");
        }
    }

    #[test]
    fn cases_through_a_tunnel_fill_both_paths() {
        for name in ["tcp-tunnel-mpt", "tcp-tunnel-earliest"] {
            let mut scenario = case(name).expect("it is a case");
            scenario.duration = Duration::from_secs(2);
            let outcome = crate::run(&scenario).expect("a case is a valid scenario");
            // One path carries 8,200 full packets a second.
            assert!(outcome.delivered_packets > 20_000, "{name}: {}", outcome.delivered_packets);
        }
    }
}
