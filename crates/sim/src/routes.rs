//! Which pipes and nodes the packets of each path of each connection visit.
//!
//! A path is resolved once, when its first packet is sent, for both directions. All routes stand in one list, so that a packet holds a
//! place in it and nothing is looked up at a hop. Each end of a connection has its own numbers for paths: the end that sends first on a
//! path names its addresses and ports, and the hosts find the socket and the path of the other end by them.

use crate::network::{Network, PipeRoute};
use crate::sockets::Sockets;
use crate::topology::{Address, Direction, NodeId, Topology};
use polypath_base::PathId;

#[derive(Debug)]
pub(crate) struct Routes {
    topology: Topology,
    hops: Vec<Hop>,
    /// By endpoint and path.
    first: Vec<Vec<Resolution>>,
    /// Where the routes of the paths begin that are used most, those with the lowest numbers, in one piece of memory; else [`NOT_FAST`].
    fast_table: Vec<[u32; FAST_PATHS]>,
    sockets: Sockets,
    flows: Vec<FlowAddresses>,
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
    },
}

#[derive(Copy, Clone, Debug)]
struct Hop {
    /// Number of the pipe to enter, or [`Hop::NODE`] and number of the node to visit.
    next: u32,
    /// Where an answer to a packet refused by this pipe begins.
    back: u32,
    /// Of a node that is the end of a connection: its number of the path.
    path: PathId,
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
}

impl Routes {
    pub(crate) fn new(topology: Topology, flows: Vec<FlowAddresses>) -> Self {
        let sockets = Sockets::new(flows.iter().map(|flow| flow.nodes));
        let (first, fast_table) = (vec![Vec::new(); sockets.count()], vec![[NOT_FAST; FAST_PATHS]; sockets.count()]);
        Self { topology, hops: Vec::new(), first, fast_table, sockets, flows }
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
        let end = self.hops[from..].iter().find(|hop| hop.next >= Hop::NODE).expect("every route ends at a node");
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

    /// Finds the route of a path between the addresses with these numbers at the endpoint and its peer, and the same route back. The peer
    /// takes its next free number for the path.
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
        let (there, home) = (network.pipe_route(&route), network.pipe_route(&reversed(&route)));
        let begin = self.hops.len() as u32;
        let begin_home = begin + there.pipes.len() as u32 + 1;
        self.append(&there, begin_home, (peer, peer_path));
        self.append(&home, begin, (endpoint, path));
        self.enter(endpoint, path, begin, peer_path);
        self.enter(peer, peer_path, begin_home, path);
        Some(begin)
    }

    /// The endpoint that the host which has the address reached by this path finds by addresses and ports.
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

    fn enter(&mut self, endpoint: u32, path: PathId, hop: u32, peer_path: PathId) {
        self.grow(endpoint, path);
        self.first[endpoint as usize][usize::from(path.0)] = Resolution::At { hop, peer_path };
        if let Some(entry) = self.fast_table[endpoint as usize].get_mut(usize::from(path.0)) {
            *entry = hop;
        }
    }

    /// Appends a route of a tunnel or of a test: pipes and nodes in order. Nothing on it is answered.
    #[cfg(test)]
    pub(crate) fn add(&mut self, visits: &[Next]) -> u32 {
        let begin = self.hops.len() as u32;
        self.hops.extend(visits.iter().map(|&visit| match visit {
            Next::Pipe(pipe) => Hop { next: pipe, back: begin, path: PathId(0) },
            Next::Node(node, path) => Hop { next: Hop::NODE + node, back: begin, path },
        }));
        begin
    }

    /// The route from an endpoint to its peer between the connection's addresses with these numbers.
    pub(crate) fn route(&self, endpoint: u32, numbers: (usize, usize)) -> Option<Vec<Direction>> {
        let (flow, side) = self.sockets.flow_of(endpoint);
        let (flow, from_client) = (&self.flows[flow], side == 0);
        let (at_client, at_server) = if from_client { numbers } else { (numbers.1, numbers.0) };
        let route = flow.route(&self.topology, at_client, at_server)?;
        Some(if from_client { route } else { reversed(&route) })
    }

    /// MTU of the interface from which an endpoint's peer answers, bytes.
    pub(crate) fn mtu_of_peer(&self, endpoint: u32, numbers: (usize, usize)) -> u32 {
        let last = self.route(endpoint, numbers).and_then(|route| route.last().copied());
        last.map_or(0, |last| self.topology.mtu(last.reversed()))
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

    fn append(&mut self, route: &PipeRoute, begin_back: u32, (node, path): (u32, PathId)) {
        let hops = route.pipes.iter().zip(&route.back);
        self.hops.extend(hops.map(|(&pipe, &back)| Hop { next: pipe, back: begin_back + back as u32, path }));
        self.hops.push(Hop { next: Hop::NODE + node, back: begin_back, path });
    }
}

/// The paths of an endpoint, for whoever reports on them.
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

    /// See [`Routes::addresses`].
    pub(crate) fn addresses(self, numbers: (usize, usize)) -> [String; 2] {
        self.routes.addresses(self.endpoint, numbers)
    }
}

impl FlowAddresses {
    /// The route from the client to the server between the connection's addresses with these numbers.
    pub(crate) fn route(&self, topology: &Topology, at_client: usize, at_server: usize) -> Option<Vec<Direction>> {
        let names = [&self.address(topology, 0, at_client)?.text, &self.address(topology, 1, at_server)?.text];
        if let Some(fixed) = self.fixed.iter().find(|fixed| fixed.addresses.iter().eq(names)) {
            return Some(fixed.route.clone());
        }
        topology.route((self.nodes[0], self.addresses[0][at_client]), (self.nodes[1], self.addresses[1][at_server]))
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
