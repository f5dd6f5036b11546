//! Which pipes the packets of each path of each connection enter.
//!
//! A path is resolved once, when its first packet is sent, for both directions. All routes stand in one list, so that a packet holds a
//! place in it and nothing is looked up at a hop.

use crate::network::{Network, PipeRoute};
use crate::topology::{Address, Direction, NodeId, Topology};
use polypath_base::PathId;

#[derive(Debug)]
pub(crate) struct Routes {
    topology: Topology,
    hops: Vec<Hop>,
    /// By endpoint and path: where its route begins in `hops`.
    first: Vec<Vec<Resolution>>,
    /// The same for the paths that are used most, those with the lowest numbers, in one piece of memory; else [`NOT_FAST`].
    fast_table: Vec<[u32; FAST_PATHS]>,
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
    At(u32),
}

#[derive(Copy, Clone, Debug)]
struct Hop {
    /// Number of the pipe to enter, or [`Hop::ARRIVED`].
    pipe: u32,
    /// Where an answer to a packet refused by this pipe begins.
    back: u32,
}

const FAST_PATHS: usize = 8;
const NOT_FAST: u32 = u32::MAX;

impl Hop {
    const ARRIVED: u32 = u32::MAX;
}

impl Routes {
    pub(crate) fn new(topology: Topology, flows: Vec<FlowAddresses>) -> Self {
        let ends = 2 * flows.len();
        Self { topology, hops: Vec::new(), first: vec![Vec::new(); ends], fast_table: vec![[NOT_FAST; FAST_PATHS]; ends], flows }
    }

    /// The pipe at a place of the list; none: the packet has arrived.
    #[inline]
    pub(crate) fn step(&self, hop: u32) -> Option<u32> {
        let pipe = self.hops[hop as usize].pipe;
        (pipe != Hop::ARRIVED).then_some(pipe)
    }

    /// Where an answer to the packet that was refused at this place begins.
    pub(crate) fn back(&self, hop: u32) -> u32 {
        self.hops[hop as usize].back
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
            Some(&Resolution::At(hop)) => Some(hop),
            _ => None,
        }
    }

    /// Finds the route of a path between the addresses with these numbers at the endpoint and its peer, and the same route back.
    #[cold]
    pub(crate) fn resolve(&mut self, network: &Network, endpoint: u32, path: PathId, addresses: (usize, usize)) -> Option<u32> {
        let index = usize::from(path.0);
        for end in [endpoint, endpoint ^ 1] {
            let known = &mut self.first[end as usize];
            if known.len() <= index {
                known.resize(index + 1, Resolution::Unknown);
            }
        }
        if self.first[endpoint as usize][index] == Resolution::Unreachable {
            return None;
        }
        let Some(route) = self.route(endpoint, addresses) else {
            self.first[endpoint as usize][index] = Resolution::Unreachable;
            return None;
        };
        let (there, home) = (network.pipe_route(&route), network.pipe_route(&reversed(&route)));
        let begin = self.hops.len() as u32;
        let begin_home = begin + there.pipes.len() as u32 + 1;
        self.append(&there, begin_home);
        self.append(&home, begin);
        for (end, hop) in [(endpoint, begin), (endpoint ^ 1, begin_home)] {
            self.first[end as usize][index] = Resolution::At(hop);
            if let Some(fast_table) = self.fast_table[end as usize].get_mut(index) {
                *fast_table = hop;
            }
        }
        Some(begin)
    }

    /// The route from an endpoint to its peer between the connection's addresses with these numbers.
    pub(crate) fn route(&self, endpoint: u32, numbers: (usize, usize)) -> Option<Vec<Direction>> {
        let flow = &self.flows[(endpoint / 2) as usize];
        let from_client = endpoint % 2 == 0;
        let (at_client, at_server) = if from_client { numbers } else { (numbers.1, numbers.0) };
        let route = flow.route(&self.topology, at_client, at_server)?;
        Some(if from_client { route } else { reversed(&route) })
    }

    /// MTU of the interface from which an endpoint's peer answers, bytes.
    pub(crate) fn mtu_of_peer(&self, endpoint: u32, numbers: (usize, usize)) -> u32 {
        let last = self.route(endpoint, numbers).and_then(|route| route.last().copied());
        last.map_or(0, |last| self.topology.mtu(last.reversed()))
    }

    /// Source and destination of a path, seen from an endpoint, in words.
    pub(crate) fn addresses(&self, endpoint: u32, numbers: (usize, usize)) -> [String; 2] {
        let flow = &self.flows[(endpoint / 2) as usize];
        let (here, there) = if endpoint % 2 == 0 { (0, 1) } else { (1, 0) };
        let name =
            |end: usize, number: usize| flow.address(&self.topology, end, number).map_or_else(String::new, |address| address.text.clone());
        [name(here, numbers.0), name(there, numbers.1)]
    }

    fn append(&mut self, route: &PipeRoute, begin_back: u32) {
        let hops = route.pipes.iter().zip(&route.back).map(|(&pipe, &back)| Hop { pipe, back: begin_back + back as u32 });
        self.hops.extend(hops);
        self.hops.push(Hop { pipe: Hop::ARRIVED, back: begin_back });
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
