//! Which pipes the packets of each path of each connection enter.
//!
//! A path is resolved once, when its first packet is sent, for both ways. All ways stand in one list, so that a packet holds a
//! place in it and nothing is looked up on the way.

use crate::network::{Network, Steps};
use crate::topology::{Address, Direction, NodeId, Topology};
use polypath_base::PathId;

#[derive(Debug)]
pub(crate) struct Routes {
    topology: Topology,
    hops: Vec<Hop>,
    /// By endpoint and path: where its way begins in `hops`.
    first: Vec<Vec<Known>>,
    /// The same for the paths that are used most, those with the lowest numbers, in one piece of memory; else [`NOT_NEAR`].
    near: Vec<[u32; NEAR]>,
    flows: Vec<Ends>,
}

/// Between what the paths of a flow run.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Client and server.
    pub(crate) nodes: [NodeId; 2],
    /// Which of the node's addresses the connection's addresses are, at client and server.
    pub(crate) addresses: [Vec<usize>; 2],
    /// The ways fixed by hand.
    pub(crate) fixed: Vec<Fixed>,
}

/// A way from one address to another that is not to be searched for.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    pub(crate) addresses: [String; 2],
    pub(crate) way: Vec<Direction>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Known {
    Not,
    /// No way leads there.
    Nowhere,
    At(u32),
}

#[derive(Copy, Clone, Debug)]
struct Hop {
    /// Number of the pipe to enter, or [`Hop::ARRIVED`].
    pipe: u32,
    /// Where an answer to a packet refused by this pipe begins.
    back: u32,
}

const NEAR: usize = 8;
const NOT_NEAR: u32 = u32::MAX;

impl Hop {
    const ARRIVED: u32 = u32::MAX;
}

impl Routes {
    pub(crate) fn new(topology: Topology, flows: Vec<Ends>) -> Self {
        let ends = 2 * flows.len();
        Self { topology, hops: Vec::new(), first: vec![Vec::new(); ends], near: vec![[NOT_NEAR; NEAR]; ends], flows }
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
        match self.near[endpoint as usize].get(usize::from(path.0)) {
            Some(&hop) if hop != NOT_NEAR => Some(hop),
            _ => self.first_of_any(endpoint, path),
        }
    }

    #[cold]
    fn first_of_any(&self, endpoint: u32, path: PathId) -> Option<u32> {
        match self.first[endpoint as usize].get(usize::from(path.0)) {
            Some(&Known::At(hop)) => Some(hop),
            _ => None,
        }
    }

    /// Finds the way of a path between the addresses with these numbers at the endpoint and its peer, and the same way back.
    #[cold]
    pub(crate) fn resolve(&mut self, network: &Network, endpoint: u32, path: PathId, addresses: (usize, usize)) -> Option<u32> {
        let index = usize::from(path.0);
        for end in [endpoint, endpoint ^ 1] {
            let known = &mut self.first[end as usize];
            if known.len() <= index {
                known.resize(index + 1, Known::Not);
            }
        }
        if self.first[endpoint as usize][index] == Known::Nowhere {
            return None;
        }
        let Some(way) = self.way(endpoint, addresses) else {
            self.first[endpoint as usize][index] = Known::Nowhere;
            return None;
        };
        let (there, home) = (network.steps(&way), network.steps(&reversed(&way)));
        let begin = self.hops.len() as u32;
        let begin_home = begin + there.pipes.len() as u32 + 1;
        self.append(&there, begin_home);
        self.append(&home, begin);
        for (end, hop) in [(endpoint, begin), (endpoint ^ 1, begin_home)] {
            self.first[end as usize][index] = Known::At(hop);
            if let Some(near) = self.near[end as usize].get_mut(index) {
                *near = hop;
            }
        }
        Some(begin)
    }

    /// The way from an endpoint to its peer between the connection's addresses with these numbers.
    pub(crate) fn way(&self, endpoint: u32, numbers: (usize, usize)) -> Option<Vec<Direction>> {
        let flow = &self.flows[(endpoint / 2) as usize];
        let from_client = endpoint % 2 == 0;
        let (at_client, at_server) = if from_client { numbers } else { (numbers.1, numbers.0) };
        let way = flow.way(&self.topology, at_client, at_server)?;
        Some(if from_client { way } else { reversed(&way) })
    }

    /// MTU of the interface from which an endpoint's peer answers, bytes.
    pub(crate) fn mtu_of_peer(&self, endpoint: u32, numbers: (usize, usize)) -> u32 {
        let last = self.way(endpoint, numbers).and_then(|way| way.last().copied());
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

    fn append(&mut self, steps: &Steps, begin_back: u32) {
        let hops = steps.pipes.iter().zip(&steps.back).map(|(&pipe, &back)| Hop { pipe, back: begin_back + back as u32 });
        self.hops.extend(hops);
        self.hops.push(Hop { pipe: Hop::ARRIVED, back: begin_back });
    }
}

impl Ends {
    /// The way from the client to the server between the connection's addresses with these numbers.
    pub(crate) fn way(&self, topology: &Topology, at_client: usize, at_server: usize) -> Option<Vec<Direction>> {
        let names = [&self.address(topology, 0, at_client)?.text, &self.address(topology, 1, at_server)?.text];
        if let Some(fixed) = self.fixed.iter().find(|fixed| fixed.addresses.iter().eq(names)) {
            return Some(fixed.way.clone());
        }
        topology.way((self.nodes[0], self.addresses[0][at_client]), (self.nodes[1], self.addresses[1][at_server]))
    }

    /// The address with this number at an end: 0 is the client's, 1 the server's.
    pub(crate) fn address<'a>(&self, topology: &'a Topology, end: usize, number: usize) -> Option<&'a Address> {
        topology.addresses(self.nodes[end]).get(*self.addresses[end].get(number)?)
    }
}

/// The same links the other way.
fn reversed(way: &[Direction]) -> Vec<Direction> {
    way.iter().rev().map(|direction| direction.reversed()).collect()
}
