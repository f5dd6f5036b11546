//! Which pipes and nodes the packets of each path of each connection visit.
//!
//! A path is resolved once, when its first packet is sent, for both directions. All routes stand in
//! one list, so that a packet holds a place in it and nothing is looked up at a hop. Each end of a
//! connection has its own numbers for paths: the end that sends first on a path names its addresses
//! and ports, and the hosts find the socket and the path of the other end by them.

use crate::network::Network;
use crate::sockets::Sockets;
use crate::topology::{Address, Direction, NodeId, Topology};
use polypath_base::{Bytes, PathId};
use polypath_wire::Envelope;
use std::net::SocketAddr;

#[derive(Debug)]
pub(crate) struct Routes {
    topology: Topology,
    hops: Vec<Hop>,
    /// By endpoint and path.
    first: Vec<Vec<Resolution>>,
    /// Where the routes of the paths begin that are used most, those with the lowest numbers, in
    /// one piece of memory; else [`NOT_FAST`].
    fast_table: Vec<[u32; FAST_PATHS]>,
    sockets: Sockets,
    flows: Vec<FlowAddresses>,
    /// By tap: the direction by which its node sends to its link.
    taps: Vec<Direction>,
    /// Of each tunnel, its ends `a` and `b` in turn: what its packets on each path carry.
    tunnels: Vec<Vec<Envelope>>,
    /// By tunnel.
    tunnel_keys: Vec<Option<u32>>,
}

/// Between what the paths of a flow run.
#[derive(Debug)]
pub(crate) struct FlowAddresses {
    /// Client and server.
    pub(crate) nodes: [NodeId; 2],
    /// Which of the node's addresses the connection's addresses are, at client and server.
    pub(crate) addresses: [Vec<usize>; 2],
    /// The routes fixed by hand.
    pub(crate) fixed: Vec<Fixed>,
}

/// A route that the scenario fixes; it is not searched for.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    pub(crate) addresses: [String; 2],
    pub(crate) route: Vec<Direction>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Resolution {
    Unknown,
    /// No route leads there.
    Unreachable,
    At {
        /// Where its route begins in `hops`.
        hop: u32,
        /// The peer's number of the path.
        peer_path: PathId,
        /// Numbers of the connection's addresses, here and at the peer.
        addresses: (usize, usize),
    },
}

/// What the packets of a route meet in order, as [`Hop::next`] says it.
#[derive(Debug)]
struct Visits {
    next: Vec<u32>,
    /// For each of these: where ICMP about a packet that it refuses joins the route back, counted
    /// in pipes from that one's start.
    back: Vec<usize>,
    /// By pipe of the route, and last for its node: where in `next` a packet begins that is sent
    /// into it.
    begins: Vec<usize>,
}

#[derive(Copy, Clone, Debug)]
struct Hop {
    /// Number of the pipe to enter, or [`Hop::NODE`] and number of the node to visit; of a tap,
    /// [`Hop::TAP`] as well.
    next: u32,
    /// Where an answer to a packet refused by this pipe begins.
    back: u32,
    /// Of a node that is the end of a connection: its number of the path.
    path: PathId,
    /// A node where the route does not end: packets go through it.
    passes: bool,
}

/// What a packet enters next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Pipe(u32),
    /// It arrives at a node; an end of a connection knows the path by this number.
    Node(u32, PathId),
}

const FAST_PATHS: usize = 8;
const NOT_FAST: u32 = u32::MAX;

impl Hop {
    const NODE: u32 = 1 << 31;
    /// Taps are nodes with numbers from here on.
    const TAP: u32 = 1 << 30;
    /// The tap behind which a tunnel's packets have left the interface of their sender.
    const RELEASE: u32 = Self::TAP | (1 << 29);
}

impl Routes {
    pub(crate) fn new(topology: Topology, flows: Vec<FlowAddresses>) -> Self {
        let sockets = Sockets::new(flows.iter().map(|flow| flow.nodes));
        let (first, fast_table) = (vec![Vec::new(); sockets.count()], vec![[NOT_FAST; FAST_PATHS]; sockets.count()]);
        Self {
            topology,
            hops: Vec::new(),
            first,
            fast_table,
            sockets,
            flows,
            taps: Vec::new(),
            tunnels: Vec::new(),
            tunnel_keys: Vec::new(),
        }
    }

    pub(crate) fn set_tunnel_keys(&mut self, keys: Vec<Option<u32>>) {
        self.tunnel_keys = keys;
    }

    /// Puts taps on routes that are resolved from now on: each where packets enter this direction,
    /// and where those of its reverse arrive.
    pub(crate) fn set_taps(&mut self, taps: Vec<Direction>) {
        self.taps = taps;
    }

    /// The tap that a node is.
    #[inline]
    pub(crate) fn tap(node: u32) -> Option<usize> {
        node.checked_sub(Hop::TAP).map(|tap| tap as usize)
    }

    /// Packets of tunnels that come by have left the interface of their sender, which wants to
    /// know.
    #[inline]
    pub(crate) fn is_release(tap: usize) -> bool {
        tap == (Hop::RELEASE - Hop::TAP) as usize
    }

    /// How many ends of connections there are. Their numbers as nodes come first.
    pub(crate) fn endpoints(&self) -> u32 {
        self.sockets.count() as u32
    }

    /// The endpoints of each flow, client first.
    pub(crate) fn ends(&self) -> impl Iterator<Item = [u32; 2]> {
        (0..self.flows.len()).map(|flow| self.sockets.of_flow(flow))
    }

    /// What stands at a place of the list.
    #[inline]
    pub(crate) fn next(&self, hop: u32) -> Next {
        let Hop { next, path, .. } = self.hops[hop as usize];
        if next < Hop::NODE { Next::Pipe(next) } else { Next::Node(next - Hop::NODE, path) }
    }

    /// Where an answer to the packet that was refused at this place begins.
    pub(crate) fn back(&self, hop: u32) -> u32 {
        self.hops[hop as usize].back
    }

    /// The endpoint at which an answer to the packet that was refused at this place arrives.
    pub(crate) fn sender_of(&self, hop: u32) -> u32 {
        let from = self.back(hop) as usize;
        // A tunnel's end on the way is followed by a pipe of its route; the end of a route by
        // another route, or by nothing.
        let is_end = |hop: &&Hop| (Hop::NODE..Hop::NODE + Hop::TAP).contains(&hop.next) && !hop.passes;
        let end = self.hops[from..].iter().find(is_end).expect("every route ends at a node");
        end.next - Hop::NODE
    }

    /// Where the packets of an endpoint on a path begin; none: see [`Routes::resolve`].
    #[inline]
    pub(crate) fn first(&self, endpoint: u32, path: PathId) -> Option<u32> {
        match self.fast_table[endpoint as usize].get(usize::from(path.0)) {
            Some(&hop) if hop != NOT_FAST => Some(hop),
            _ => self.first_of_any(endpoint, path),
        }
    }

    #[cold]
    fn first_of_any(&self, endpoint: u32, path: PathId) -> Option<u32> {
        match self.first[endpoint as usize].get(usize::from(path.0)) {
            Some(&Resolution::At { hop, .. }) => Some(hop),
            _ => None,
        }
    }

    /// The peer's number of a path on which a packet was sent.
    pub(crate) fn peer_path(&self, endpoint: u32, path: PathId) -> Option<PathId> {
        match self.first[endpoint as usize].get(usize::from(path.0)) {
            Some(&Resolution::At { peer_path, .. }) => Some(peer_path),
            _ => None,
        }
    }

    /// Finds the route of a path between the addresses with these numbers at the endpoint and its
    /// peer, and the same route back. The peer takes its next free number for the path.
    #[cold]
    pub(crate) fn resolve(&mut self, network: &Network, endpoint: u32, path: PathId, addresses: (usize, usize)) -> Option<u32> {
        self.grow(endpoint, path);
        let known = &self.first[endpoint as usize][usize::from(path.0)];
        if *known == Resolution::Unreachable {
            return None;
        }
        let peer = self.peer_at(endpoint, addresses);
        let Some((peer, route)) = peer.zip(self.route(endpoint, addresses)) else {
            self.first[endpoint as usize][usize::from(path.0)] = Resolution::Unreachable;
            return None;
        };
        let peer_path = PathId(self.first[peer as usize].len() as u8);
        let [begin, begin_home] = self.append_both(network, &route, [endpoint, peer], [path, peer_path]);
        self.enter(endpoint, path, Resolution::At { hop: begin, peer_path, addresses });
        let addresses = (addresses.1, addresses.0);
        self.enter(peer, peer_path, Resolution::At { hop: begin_home, peer_path: path, addresses });
        Some(begin)
    }

    /// Appends a route between two nodes and the same route back, each with its numbers of the
    /// path. Returns where both begin.
    fn append_both(&mut self, network: &Network, route: &[Direction], nodes: [u32; 2], paths: [PathId; 2]) -> [u32; 2] {
        let (there, home) = (self.visits(network, route, nodes[1]), self.visits(network, &reversed(route), nodes[0]));
        let begin = self.hops.len() as u32;
        let begin_home = begin + there.next.len() as u32;
        self.append(&there, paths[1], &home, begin_home);
        self.append(&home, paths[0], &there, begin);
        [begin, begin_home]
    }

    /// The nodes that are the ends `a` and `b` of a tunnel: they come behind those of connections.
    pub(crate) fn tunnel_ends(&self, tunnel: usize) -> [u32; 2] {
        [0, 1].map(|side| self.endpoints() + (2 * tunnel + side) as u32)
    }

    /// RFC 2890's key in the packets to an end of a tunnel.
    pub(crate) fn tunnel_key(&self, to: u32) -> Option<u32> {
        self.tunnel_keys.get((to.checked_sub(self.endpoints())? / 2) as usize).copied().flatten()
    }

    /// Addresses of the devices of the sender and of the receiver of the packets to an end of a
    /// tunnel.
    pub(crate) fn device_addresses(&self, to: u32) -> Option<[std::net::IpAddr; 2]> {
        let end = to.checked_sub(self.endpoints())? as usize;
        let there = self.topology.tunnel_direction(end / 2);
        // The end `b` gets what goes there.
        let along = if end % 2 == 1 { there } else { there.reversed() };
        let device = |direction: Direction| {
            let of_node = self.topology.addresses(self.topology.source(direction));
            of_node.iter().find(|address| address.leaves == Some(direction)).map(|address| self.topology.ip_address(address))
        };
        Some([device(along)?, device(along.reversed())?])
    }

    /// Source and destination of each path of a tunnel, from its end `a` (0) or `b` (1).
    pub(crate) fn tunnel_addresses(&self, tunnel: usize, side: usize) -> Vec<[String; 2]> {
        let envelopes = self.tunnels.get(2 * tunnel + side).into_iter().flatten();
        envelopes.map(|envelope| [envelope.source, envelope.destination].map(|socket| socket.ip().to_string())).collect()
    }

    /// Appends a path of a tunnel, over links from `a` to `b`, and back; `envelope` is of packets
    /// from `a`. Returns where its routes begin at both ends. Tunnels come in turn, and so do their
    /// paths.
    pub(crate) fn add_tunnel_path(&mut self, network: &Network, tunnel: usize, route: &[Direction], envelope: Envelope) -> [u32; 2] {
        self.tunnels.resize(self.tunnels.len().max(2 * tunnel + 2), Vec::new());
        let path = PathId(self.tunnels[2 * tunnel].len() as u8);
        let Envelope { source, destination, ident } = envelope;
        self.tunnels[2 * tunnel].push(envelope);
        self.tunnels[2 * tunnel + 1].push(Envelope { source: destination, destination: source, ident });
        self.append_both(network, route, self.tunnel_ends(tunnel), [path; 2])
    }

    /// What the packets of a route meet: the pipes of its directions, taps where they are wanted,
    /// and a node.
    fn visits(&self, network: &Network, route: &[Direction], node: u32) -> Visits {
        let mut back = network.icmp_return_hops(route).into_iter();
        let mut visits = Visits { next: Vec::new(), back: Vec::new(), begins: Vec::new() };
        let with_taps = |visits: &mut Visits, direction: Direction| {
            for (number, _) in self.taps.iter().enumerate().filter(|(_, tap)| **tap == direction) {
                visits.next.push(Hop::NODE + Hop::TAP + number as u32);
                visits.back.push(0);
            }
        };
        for (place, &direction) in route.iter().enumerate() {
            let begin = visits.next.len();
            with_taps(&mut visits, direction);
            if let Some((tunnel, side)) = self.topology.tunnel(direction) {
                // What the tunnel's end does not take is answered from there.
                visits.next.push(Hop::NODE + self.tunnel_ends(tunnel)[side]);
                visits.back.push(network.pipes_of(&reversed(&route[place..])).len());
            }
            let leaves = network.pipes_to_leave(direction).filter(|_| place == 0);
            for (position, (pipe, back)) in network.pipes_of(&[direction]).into_iter().zip(&mut back).enumerate() {
                visits.begins.push(if position == 0 { begin } else { visits.next.len() });
                visits.next.push(pipe);
                visits.back.push(back);
                if leaves == Some(position + 1) {
                    visits.next.push(Hop::NODE + Hop::RELEASE);
                    visits.back.push(0);
                }
            }
            with_taps(&mut visits, direction.reversed());
        }
        visits.begins.push(visits.next.len());
        visits.next.push(Hop::NODE + node);
        visits.back.push(0);
        visits
    }

    /// The endpoint that the host which has the address reached by this path finds by addresses and
    /// ports.
    fn peer_at(&self, endpoint: u32, numbers: (usize, usize)) -> Option<u32> {
        let (flow, side) = self.sockets.flow_of(endpoint);
        let address = self.flows[flow].address(&self.topology, 1 - side, numbers.1)?;
        self.sockets.peer(endpoint, self.topology.owner(&address.text)?)
    }

    fn grow(&mut self, endpoint: u32, path: PathId) {
        let known = &mut self.first[endpoint as usize];
        if known.len() <= usize::from(path.0) {
            known.resize(usize::from(path.0) + 1, Resolution::Unknown);
        }
    }

    fn enter(&mut self, endpoint: u32, path: PathId, resolution: Resolution) {
        self.grow(endpoint, path);
        self.first[endpoint as usize][usize::from(path.0)] = resolution;
        let entry = self.fast_table[endpoint as usize].get_mut(usize::from(path.0));
        if let (Some(entry), Resolution::At { hop, .. }) = (entry, resolution) {
            *entry = hop;
        }
    }

    /// Appends a route of a test: pipes and nodes in order. Nothing on it is answered.
    #[cfg(test)]
    pub(crate) fn add(&mut self, visits: &[Next]) -> u32 {
        let begin = self.hops.len() as u32;
        self.hops.extend(visits.iter().map(|&visit| match visit {
            Next::Pipe(pipe) => Hop { next: pipe, back: begin, path: PathId(0), passes: false },
            Next::Node(node, path) => Hop { next: Hop::NODE + node, back: begin, path, passes: false },
        }));
        begin
    }

    /// The route from an endpoint to its peer between the connection's addresses with these
    /// numbers.
    pub(crate) fn route(&self, endpoint: u32, numbers: (usize, usize)) -> Option<Vec<Direction>> {
        let (flow, side) = self.sockets.flow_of(endpoint);
        let (flow, from_client) = (&self.flows[flow], side == 0);
        let (at_client, at_server) = if from_client { numbers } else { (numbers.1, numbers.0) };
        let route = flow.route(&self.topology, at_client, at_server)?;
        Some(if from_client { route } else { reversed(&route) })
    }

    /// MTU of the interface from which an endpoint's peer answers.
    pub(crate) fn mtu_of_peer(&self, endpoint: u32, numbers: (usize, usize)) -> Bytes {
        let last = self.route(endpoint, numbers).and_then(|route| route.last().copied());
        last.map_or(Bytes::ZERO, |last| self.topology.mtu(last.reversed()))
    }

    /// The entry of the routing table that a path's packets use at the endpoint's host: the link
    /// that they leave by and the address at their end.
    #[cold]
    pub(crate) fn entry(&self, endpoint: u32, path: PathId) -> Option<RouteEntry> {
        let Some(&Resolution::At { addresses, .. }) = self.first[endpoint as usize].get(usize::from(path.0)) else { return None };
        let leaves = *self.route(endpoint, addresses)?.first()?;
        let [_, destination] = self.addresses(endpoint, addresses);
        Some(RouteEntry { leaves, destination })
    }

    /// How many paths of an endpoint are known.
    pub(crate) fn path_count(&self, endpoint: u32) -> u8 {
        self.first[endpoint as usize].len() as u8
    }

    /// The paths of an endpoint.
    pub(crate) fn paths_of(&self, endpoint: u32) -> PathsOf<'_> {
        PathsOf { routes: self, endpoint }
    }

    /// Source and destination of a path, seen from an endpoint, in words.
    pub(crate) fn addresses(&self, endpoint: u32, numbers: (usize, usize)) -> [String; 2] {
        let (flow, here) = self.sockets.flow_of(endpoint);
        let (flow, there) = (&self.flows[flow], 1 - here);
        let name =
            |end: usize, number: usize| flow.address(&self.topology, end, number).map_or_else(String::new, |address| address.text.clone());
        [name(here, numbers.0), name(there, numbers.1)]
    }

    /// `back` are the visits of the route back, which begins at `begin_back`.
    fn append(&mut self, visits: &Visits, path: PathId, back: &Visits, begin_back: u32) {
        let last = visits.next.len() - 1;
        let hops = visits.next.iter().zip(&visits.back).enumerate();
        self.hops.extend(hops.map(|(place, (&next, &pipe))| Hop {
            next,
            back: begin_back + back.begins[pipe] as u32,
            path,
            passes: next >= Hop::NODE && place < last,
        }));
    }

    /// The endpoint that has what this one sends.
    pub(crate) fn peer_of(&self, endpoint: u32) -> u32 {
        if let Some(end) = endpoint.checked_sub(self.endpoints()) {
            return self.endpoints() + (end ^ 1);
        }
        let (flow, side) = self.sockets.flow_of(endpoint);
        self.sockets.of_flow(flow)[1 - side]
    }

    /// Addresses and ports of what an endpoint sends on a path that is resolved.
    ///
    /// Paths between one pair of addresses differ in the client's port, as those of `ndiffports`
    /// do.
    pub(crate) fn envelope(&self, endpoint: u32, path: PathId) -> Option<Envelope> {
        if let Some(end) = endpoint.checked_sub(self.endpoints()) {
            return self.tunnels.get(end as usize)?.get(usize::from(path.0)).copied();
        }
        let known = self.first[endpoint as usize].get(usize::from(path.0));
        let Some(&Resolution::At { peer_path, addresses, .. }) = known else { return None };
        let (flow, side) = self.sockets.flow_of(endpoint);
        let socket = |end: usize, number: usize, port| {
            let address = self.flows[flow].address(&self.topology, end, number)?;
            Some(SocketAddr::new(self.topology.ip_address(address), port))
        };
        let [client, server] = self.sockets.of_flow(flow).map(|end| self.sockets.port(end));
        // Beyond the first path, where the first ports of the flows end.
        let extra = u16::from(if side == 0 { path.0 } else { peer_path.0 });
        let ephemeral = if extra == 0 { client } else { 65_535 - (client - 32_768).wrapping_mul(31).wrapping_add(extra) % 16_384 };
        let (here, there) = if side == 0 { (ephemeral, server) } else { (server, ephemeral) };
        Some(Envelope { source: socket(side, addresses.0, here)?, destination: socket(1 - side, addresses.1, there)?, ident: 0 })
    }

    /// The address from which a node sends that begins at a place of the list of hops.
    pub(crate) fn address_at(&self, network: &Network, hop: u32) -> Option<std::net::IpAddr> {
        let pipe = self.hops[hop as usize..].iter().find(|hop| hop.next < Hop::NODE)?.next;
        let direction = network.begins(pipe);
        let leaving = |address: &&Address| address.leaves == Some(direction);
        let address = self.topology.addresses(self.topology.source(direction)).iter().find(leaving)?;
        Some(self.topology.ip_address(address))
    }
}

/// See [`Routes::entry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteEntry {
    leaves: Direction,
    destination: String,
}

/// The paths of an endpoint, for reports.
#[derive(Copy, Clone, Debug)]
pub(crate) struct PathsOf<'a> {
    routes: &'a Routes,
    endpoint: u32,
}

impl PathsOf<'_> {
    /// See [`Routes::peer_path`].
    pub(crate) fn peer_path(self, path: PathId) -> Option<PathId> {
        self.routes.peer_path(self.endpoint, path)
    }

    /// Source and destination of a path in words: of the route that it has, or of the addresses
    /// with these numbers where it has none.
    pub(crate) fn addresses(self, path: PathId, numbers: (usize, usize)) -> [String; 2] {
        let known = self.routes.first[self.endpoint as usize].get(usize::from(path.0));
        let numbers = if let Some(&Resolution::At { addresses, .. }) = known { addresses } else { numbers };
        self.routes.addresses(self.endpoint, numbers)
    }
}

impl FlowAddresses {
    /// The route from the client to the server between the connection's addresses with these
    /// numbers.
    pub(crate) fn route(&self, topology: &Topology, at_client: usize, at_server: usize) -> Option<Vec<Direction>> {
        let names = [&self.address(topology, 0, at_client)?.text, &self.address(topology, 1, at_server)?.text];
        if let Some(fixed) = self.fixed.iter().find(|fixed| fixed.addresses.iter().eq(names)) {
            return Some(fixed.route.clone());
        }
        let ends = [0, 1].map(|end| (self.nodes[end], self.addresses[end][[at_client, at_server][end]]));
        // The first subflow is refused where no route leads; a later one is bound to the interface
        // of its address.
        topology
            .route(ends[0], ends[1])
            .or_else(|| if (at_client, at_server) == (0, 0) { None } else { topology.on_link(ends[0], ends[1].0) })
    }

    /// The address with this number at an end: 0 is the client's, 1 the server's.
    pub(crate) fn address<'a>(&self, topology: &'a Topology, end: usize, number: usize) -> Option<&'a Address> {
        topology.addresses(self.nodes[end]).get(*self.addresses[end].get(number)?)
    }
}

/// The same links in the other direction.
fn reversed(route: &[Direction]) -> Vec<Direction> {
    route.iter().rev().map(|direction| direction.reversed()).collect()
}
