//! From the tunnels of a scenario to the nodes that are their ends: addresses and routes of their
//! paths, their MTUs, and everything checked.

use crate::network::Network;
use crate::nodes::Node;
use crate::outcome::{TunnelEndOutcome, TunnelOutcome};
use crate::routes::Routes;
use crate::scenario::{Distribution, Reorder, Scenario, Tunnel};
use crate::topology::{Address, Direction, NodeId, Topology};
use crate::tunnel::{Config, PathConfig, TunnelEnd};
use polypath_base::{Bytes, Duration, Error, Instant};
use polypath_link::Mtu;
use polypath_pmtu::{LEAST_MTU, LEAST_MTU_IPV6};
use polypath_tunnel::{Endpoint, EndpointConfig, FecConfig, KeepaliveConfig, MOST_BATCH, MtuConfig, PathBounds, ReorderConfig, Spreading};
use polypath_wire::{Envelope, gre, ipv4, ipv6, parity, udp};
use std::net::SocketAddr;

/// A tunnel whose paths have been found.
#[derive(Debug)]
pub(crate) struct Planned {
    rules: EndpointConfig,
    paths: Vec<PlannedPath>,
    mtu: Bytes,
}

#[derive(Debug)]
struct PlannedPath {
    /// From `a` to `b`.
    route: Vec<Direction>,
    envelope: Envelope,
    ip_header: u32,
    /// Bytes of all headers before the inner packet.
    headers: u32,
}

/// A mistake in a field of a tunnel.
fn of_tunnel(tunnel: &Tunnel, field: &str, sentence: impl Into<String>) -> Error {
    Error::caller(sentence).of(format!("tunnel `{}`", tunnel.name)).at(&["tunnels", &tunnel.name, field])
}

/// Finds the paths of all tunnels, and gives their devices an MTU.
pub(crate) fn plan(scenario: &Scenario, topology: &mut Topology) -> Result<Vec<Planned>, Error> {
    let mut planned = Vec::new();
    for (number, tunnel) in scenario.tunnels.iter().enumerate() {
        let mut rules = rules(tunnel)?;
        // Packets carry numbers unless they are given on as they come.
        let numbered = rules.reorder != ReorderConfig::Off;
        let mut paths = Vec::new();
        for at in 0..tunnel.paths.len() {
            paths.push(path(tunnel, at, number, numbered, topology)?);
        }
        let mut mtu = mtu(tunnel, &paths, topology)?;
        if tunnel.mtu_search {
            rules.mtu = Some(search(tunnel, &paths, topology)?);
            mtu = mtu.min(first_mtu(tunnel, &rules)?);
        }
        topology.set_tunnel_mtu(number, mtu);
        planned.push(Planned { rules, paths, mtu });
    }
    Ok(planned)
}

/// What the rules of both ends are made of.
fn rules(tunnel: &Tunnel) -> Result<EndpointConfig, Error> {
    let reorder = match tunnel.reorder {
        Reorder::Off => ReorderConfig::Off,
        Reorder::Mpt { window, max_delay } => ReorderConfig::Mpt { window, max_delay },
        Reorder::Fixed { timeout, capacity } => ReorderConfig::Fixed { timeout, capacity },
        Reorder::Adaptive { offset, cap, capacity } => ReorderConfig::Adaptive { offset, cap, capacity },
        Reorder::Equalised { cap, capacity } => ReorderConfig::Equalised { cap, capacity },
        Reorder::Progress { max_delay, capacity } => ReorderConfig::Progress { max_delay, capacity },
    };
    let spreading = match tunnel.distribution {
        Distribution::Turns => Spreading::Turns { batch: tunnel.batch },
        Distribution::Flows => Spreading::Flows,
        Distribution::Earliest => Spreading::Earliest,
    };
    if !(1..=MOST_BATCH).contains(&tunnel.batch) {
        return Err(of_tunnel(tunnel, "batch", format!("{} packets a turn: a turn has 1 to {MOST_BATCH}", tunnel.batch)));
    }
    if tunnel.batch != 1 && tunnel.distribution != Distribution::Turns {
        return Err(of_tunnel(tunnel, "batch", "only `distribution: turns` has turns: leave `batch` out"));
    }
    if spreading == Spreading::Earliest && matches!(reorder, ReorderConfig::Off | ReorderConfig::Mpt { .. }) {
        let sentence = "`earliest` needs numbered packets and the other end's reports of them, which MPT does not send: take another reorder \
                        rule, `progress` for example, or `distribution: turns`";
        return Err(of_tunnel(tunnel, "distribution", sentence));
    }
    // A tunnel of a study leaves a path by its dead time alone, as MPT does and as the engines have
    // the daemon do.
    let (interval, dead_time, data_count) = (tunnel.keepalive, tunnel.dead_time, tunnel.data_count);
    let keepalive = KeepaliveConfig { interval, dead_time, data_count, progress: false };
    let weights: Vec<u32> = tunnel.paths.iter().map(|path| path.weight).collect();
    if weights.is_empty() || weights.len() > 256 {
        return Err(of_tunnel(tunnel, "paths", format!("it has {} paths; a tunnel has 1 to 256", weights.len())));
    }
    if let Some(wrong) = weights.iter().find(|weight| !(1..=1000).contains(*weight)) {
        return Err(of_tunnel(tunnel, "paths", format!("a path has the weight {wrong}; weights are 1 to 1000")));
    }
    if keepalive.interval == Duration::ZERO || keepalive.dead_time < keepalive.interval {
        let sentence =
            "keepalives come at an interval above zero, and the dead time is not shorter than that: give it two or three intervals";
        return Err(of_tunnel(tunnel, "dead_time", sentence));
    }
    if tunnel.queue_packets == 0 {
        return Err(of_tunnel(tunnel, "queue", "a device that holds no packet lets none through: give it 1 at least; Linux's holds 500"));
    }
    if tunnel.send_buffer == Some(Bytes::ZERO) {
        return Err(of_tunnel(tunnel, "send_buffer", "a socket buffer of no bytes never takes a packet; Linux's default is 212992 bytes"));
    }
    let fec = fec(tunnel, reorder)?;
    let config = EndpointConfig { weights, spreading, reorder, keepalive, mtu: None, fec };
    if Endpoint::<u32>::new(Instant::ZERO, &config).is_none() {
        return Err(of_tunnel(tunnel, "reorder", "a reorder rule holds 1 to 1048576 packets"));
    }
    Ok(config)
}

/// What brings lost packets back.
fn fec(tunnel: &Tunnel, reorder: ReorderConfig) -> Result<Option<FecConfig>, Error> {
    let Some(given) = tunnel.fec else { return Ok(None) };
    let config = FecConfig { packets: given.data, parities: given.parity, timeout: given.timeout };
    if matches!(reorder, ReorderConfig::Off | ReorderConfig::Mpt { .. }) {
        let sentence =
            "lost packets are known by their numbers, and MPT knows no parity: take another reorder rule, `progress` for example";
        return Err(of_tunnel(tunnel, "fec", sentence));
    }
    if !config.is_sound() {
        let sentence = format!(
            "a block has 1 to {} packets of `data`, `parity` of 1 to as many, and a `timeout` of up to {} ms",
            polypath_tunnel::MOST_PACKETS,
            FecConfig::LONGEST.as_micros() / 1000
        );
        return Err(of_tunnel(tunnel, "fec", sentence));
    }
    Ok(Some(config))
}

/// The path with this number: between its addresses, over links alone.
fn path(tunnel: &Tunnel, at: usize, number: usize, numbered: bool, topology: &Topology) -> Result<PlannedPath, Error> {
    let given = &tunnel.paths[at];
    let there = topology.tunnel_direction(number);
    let ends = [(topology.source(there), &given.a), (topology.target(there), &given.b)];
    let wrong = |sentence: String| Err(of_tunnel(tunnel, "paths", sentence));
    let mut found: Vec<(NodeId, usize)> = Vec::new();
    for (node, text) in ends {
        let own = topology.addresses(node);
        let of_links = |address: &&Address| address.leaves.is_none_or(|leaves| topology.tunnel(leaves).is_none());
        match own.iter().position(|address| address.text == *text && of_links(&address)) {
            Some(address) => found.push((node, address)),
            None => {
                let known = own.iter().filter(of_links).map(|address| address.text.as_str()).collect::<Vec<_>>().join(", ");
                let name = topology.node_name(node);
                return wrong(format!("path {} begins at {text}, which is no address of `{name}`; it has {known}", at + 1));
            }
        }
    }
    let (a, b) = (found[0], found[1]);
    let Some(route) = topology.route_outside(a, b) else {
        return wrong(format!("no route leads from {} to {} over links: name addresses that routers join", given.a, given.b));
    };
    let [source, destination] = [a, b].map(|(node, address)| topology.ip_address(&topology.addresses(node)[address]));
    if source.is_ipv4() != destination.is_ipv4() {
        return wrong(format!("path {} leads from {source} to {destination}: both are IPv4 or both IPv6", at + 1));
    }
    let ip_header = if source.is_ipv4() { ipv4::HEADER } else { ipv6::HEADER };
    let header = gre::Repr { key: tunnel.key, sequence: numbered.then_some(0), ..gre::Repr::default() };
    let envelope =
        Envelope { source: SocketAddr::new(source, tunnel.port), destination: SocketAddr::new(destination, tunnel.port), ident: 0 };
    Ok(PlannedPath { route, envelope, ip_header: ip_header as u32, headers: (ip_header + udp::HEADER + header.header_len()) as u32 })
}

/// The MTU of a tunnel's devices: what is given, or what the narrowest interface on the paths
/// leaves.
fn mtu(tunnel: &Tunnel, paths: &[PlannedPath], topology: &Topology) -> Result<Bytes, Error> {
    let narrowest = |route: &[Direction]| {
        let both = route.iter().flat_map(|&direction| [direction, direction.reversed()]);
        both.map(|direction| topology.mtu(direction)).min().unwrap_or(Bytes::ZERO)
    };
    let room = paths.iter().map(|path| narrowest(&path.route).saturating_sub(overhead(tunnel, path))).min().unwrap_or(Bytes::ZERO);
    let mtu = tunnel.mtu.unwrap_or(room);
    if mtu < Mtu::MIN {
        let sentence = format!("its devices would have an MTU of {} bytes; IPv4 needs at least {}", mtu.get(), Mtu::MIN.get());
        return Err(of_tunnel(tunnel, "mtu", sentence));
    }
    for path in paths {
        // What a host sends fits its own interface: UDP with DF is refused otherwise (EMSGSIZE).
        let own = own_mtu(path, topology);
        let headers = overhead(tunnel, path);
        if mtu + headers > own {
            let sentence = format!(
                "its devices have an MTU of {} bytes, and {} of headers make more than the {} of an interface: {} is the most",
                mtu.get(),
                headers.get(),
                own.get(),
                own.saturating_sub(headers).get()
            );
            return Err(of_tunnel(tunnel, "mtu", sentence));
        }
    }
    Ok(mtu)
}

/// What must fit beside the longest packet inside: the headers, and what a parity has more.
fn overhead(tunnel: &Tunnel, path: &PlannedPath) -> Bytes {
    Bytes::from_u32(path.headers + if tunnel.fec.is_some() { parity::OVERHEAD } else { 0 })
}

/// What the interfaces at both ends of a path take.
fn own_mtu(path: &PlannedPath, topology: &Topology) -> Bytes {
    let first = [path.route.first().copied(), path.route.last().map(|last| last.reversed())];
    first.into_iter().flatten().map(|direction| topology.mtu(direction)).min().unwrap_or(Bytes::ZERO)
}

/// How the MTU of a tunnel is searched for.
fn search(tunnel: &Tunnel, paths: &[PlannedPath], topology: &Topology) -> Result<MtuConfig, Error> {
    if tunnel.mtu.is_some() {
        return Err(of_tunnel(tunnel, "mtu", "it is given and searched for: take one of both"));
    }
    if matches!(tunnel.reorder, Reorder::Mpt { .. }) {
        let sentence = "MPT, whose reorder rule the tunnel has, does not answer probes: give `mtu` as a number, or take another rule";
        return Err(of_tunnel(tunnel, "mtu", sentence));
    }
    let bounds = |path: &PlannedPath| PathBounds {
        headers: overhead(tunnel, path),
        floor: if path.ip_header == ipv4::HEADER as u32 { LEAST_MTU } else { LEAST_MTU_IPV6 },
        ceiling: own_mtu(path, topology),
    };
    Ok(MtuConfig { paths: paths.iter().map(bounds).collect(), least: Mtu::MIN })
}

/// What the devices take before the search has found anything.
fn first_mtu(tunnel: &Tunnel, rules: &EndpointConfig) -> Result<Bytes, Error> {
    let first = Endpoint::<u32>::new(Instant::ZERO, rules).and_then(|endpoint| endpoint.mtu());
    first.ok_or_else(|| of_tunnel(tunnel, "mtu", "the interfaces of a path take less than 1280 bytes, and IPv6 needs as much: widen them"))
}

/// A route in whose place of each tunnel stand the links of its first path.
pub(crate) fn unfolded(route: Vec<Direction>, planned: &[Planned], topology: &Topology) -> Vec<Direction> {
    let mut links = Vec::new();
    for direction in route {
        match topology.tunnel(direction) {
            None => links.push(direction),
            Some((tunnel, side)) => {
                let there = planned[tunnel].paths[0].route.iter();
                links.extend(there.map(|&direction| if side == 0 { direction } else { direction.reversed() }));
            }
        }
    }
    links
}

/// The directions in which the ends of tunnels have to know when a packet has left their interface.
pub(crate) fn watched(scenario: &Scenario, planned: &[Planned]) -> Vec<Direction> {
    let mut watched = Vec::new();
    for (_, planned) in scenario.tunnels.iter().zip(planned).filter(|(tunnel, _)| tunnel.send_buffer.is_some()) {
        for path in &planned.paths {
            watched.extend(path.route.first().copied());
            watched.extend(path.route.last().map(|last| last.reversed()));
        }
    }
    watched.sort_unstable();
    watched.dedup();
    watched
}

/// The ends of all tunnels, in the order of their numbers as nodes.
pub(crate) fn nodes(scenario: &Scenario, planned: Vec<Planned>, network: &Network, routes: &mut Routes) -> Vec<Box<dyn Node>> {
    let mut nodes: Vec<Box<dyn Node>> = Vec::new();
    for (number, (tunnel, planned)) in scenario.tunnels.iter().zip(planned).enumerate() {
        let ends = routes.tunnel_ends(number);
        let mut paths = [Vec::new(), Vec::new()];
        for path in &planned.paths {
            let hops = routes.add_tunnel_path(network, number, &path.route, path.envelope);
            for (paths, hop) in paths.iter_mut().zip(hops) {
                paths.push(PathConfig { hop, ip_header: path.ip_header, headers: path.headers });
            }
        }
        for (side, paths) in paths.into_iter().enumerate() {
            let mut endpoint = Endpoint::new(Instant::ZERO, &planned.rules).expect("the rules have been checked");
            endpoint.begin_after(tunnel.packets_before);
            let config = Config {
                number: ends[side],
                peer: ends[1 - side],
                paths,
                mtu: planned.mtu.as_u32(),
                clamp_mss: tunnel.clamp_mss,
                queue: tunnel.queue_packets as usize,
                send_buffer: tunnel.send_buffer.map(Bytes::as_u32),
            };
            nodes.push(Box::new(TunnelEnd::new(config, endpoint)));
        }
    }
    nodes
}

/// Both directions of all tunnels, from what their ends have counted.
pub(crate) fn outcomes(ends: &[TunnelEndOutcome], names: &[String], routes: &Routes) -> Vec<TunnelOutcome> {
    let mut outcomes = Vec::new();
    for (number, (name, ends)) in names.iter().zip(ends.chunks_exact(2)).enumerate() {
        for side in [0, 1] {
            let paths = routes.tunnel_addresses(number, side);
            outcomes.push(TunnelOutcome::new(name, side == 0, &ends[side], &ends[1 - side], paths));
        }
    }
    outcomes
}
