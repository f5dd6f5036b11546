//! The graph of a scenario, checked, and the route from one address to another.

use crate::scenario::{Capture, Route, Scenario, Tunnel};
use polypath_base::{Bytes, Error};
use polypath_link::{InterfaceSpec, LinkSpec, Mtu};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// One direction of a link: `2 * link` from its end a to its end b, `2 * link + 1` back.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Direction(pub(crate) u32);

impl Direction {
    pub(crate) fn reversed(self) -> Self {
        Self(self.0 ^ 1)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a node.
pub(crate) type NodeId = usize;

/// An address of a node.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) text: String,
    /// The direction that leaves by the interface with this address; none: it belongs to the node
    /// as a whole.
    pub(crate) leaves: Option<Direction>,
    pub(crate) mtu: Bytes,
}

#[derive(Debug)]
pub(crate) struct Topology {
    nodes: Vec<NodeInfo>,
    /// By direction: the node where it begins, and the MTU of the interface there.
    begins: Vec<(NodeId, Bytes)>,
    /// Of the links, then of the tunnels.
    link_names: Vec<String>,
    /// How many of these are links.
    links: usize,
    owners: BTreeMap<String, NodeId>,
}

#[derive(Debug)]
struct NodeInfo {
    name: String,
    router: bool,
    leaving: Vec<Direction>,
    addresses: Vec<Address>,
}

/// A tunnel as the link that it is to its nodes. Its MTU is not known yet.
fn tunnel_device(tunnel: &Tunnel) -> LinkSpec {
    let [a, b] =
        [&tunnel.a, &tunnel.b].map(|end| InterfaceSpec { node: end.node.clone(), address: end.address.clone(), mtu: Bytes::new(1500) });
    LinkSpec { name: tunnel.name.clone(), a, b, a_to_b: Vec::new(), b_to_a: Vec::new() }
}

impl Topology {
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, Error> {
        let mut topology =
            Self { nodes: Vec::new(), begins: Vec::new(), link_names: Vec::new(), links: scenario.links.len(), owners: BTreeMap::new() };
        for node in &scenario.nodes {
            if topology.nodes.iter().any(|other| other.name == node.name) {
                return Err(Error::caller(format!("two nodes are named `{}`: rename one", node.name)));
            }
            topology.nodes.push(NodeInfo { name: node.name.clone(), router: node.router, leaving: Vec::new(), addresses: Vec::new() });
            let id = topology.nodes.len() - 1;
            for text in &node.addresses {
                topology.own(id, Address { text: text.clone(), leaves: None, mtu: Bytes::ZERO })?;
            }
        }
        for link in &scenario.links {
            topology.join(link)?;
        }
        for tunnel in &scenario.tunnels {
            topology.join(&tunnel_device(tunnel))?;
        }
        let links = topology.links;
        for node in &mut topology.nodes {
            // An address of the node as a whole is reached over any interface: its packets must fit
            // the narrowest.
            let narrowest = node
                .leaving
                .iter()
                .filter(|direction| direction.index() < 2 * links)
                .map(|direction| topology.begins[direction.index()].1)
                .min()
                .unwrap_or(Bytes::ZERO);
            for address in node.addresses.iter_mut().filter(|address| address.leaves.is_none()) {
                address.mtu = narrowest;
            }
        }
        Ok(topology)
    }

    fn join(&mut self, link: &LinkSpec) -> Result<(), Error> {
        let what = if self.link_names.len() < self.links { "link" } else { "tunnel" };
        if self.link_names.contains(&link.name) {
            return Err(Error::caller(format!("two links are named `{}`: rename one", link.name)));
        }
        self.link_names.push(link.name.clone());
        if link.a.node == link.b.node {
            return Err(Error::caller(format!("{what} `{}` joins node `{}` to itself: name two nodes", link.name, link.a.node)));
        }
        for (end, side) in [(&link.a, "a"), (&link.b, "b")] {
            let Some(node) = self.nodes.iter().position(|node| node.name == end.node) else {
                let known = self.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Error::caller(format!(
                    "{what} `{}` leads to node `{}`, which does not exist; the nodes are {known}",
                    link.name, end.node
                )));
            };
            if end.mtu < Mtu::MIN {
                let sentence = format!("an MTU of {} bytes at `{}`; IPv4 needs at least {}", end.mtu.get(), end.node, Mtu::MIN.get());
                return Err(Error::caller(sentence).of(format!("link `{}`", link.name)).at(&["links", &link.name, side, "mtu"]));
            }
            let direction = Direction(self.begins.len() as u32);
            self.begins.push((node, end.mtu));
            self.nodes[node].leaving.push(direction);
            self.own(node, Address { text: end.address.clone(), leaves: Some(direction), mtu: end.mtu })?;
        }
        Ok(())
    }

    fn own(&mut self, node: NodeId, address: Address) -> Result<(), Error> {
        if let Some(other) = self.owners.insert(address.text.clone(), node) {
            let (first, second) = (&self.nodes[other].name, &self.nodes[node].name);
            return Err(Error::caller(format!(
                "address {} is given twice, to `{first}` and to `{second}`: every address is unique",
                address.text
            )));
        }
        self.nodes[node].addresses.push(address);
        Ok(())
    }

    /// The host of this name, the client or server (`role`) of a flow.
    pub(crate) fn host(&self, name: &str, flow: &str, role: &str) -> Result<NodeId, Error> {
        let wrong = |sentence: String| Err(Error::caller(sentence).of(format!("flow `{flow}`")).at(&["flows", flow, role]));
        let Some(id) = self.nodes.iter().position(|node| node.name == name) else {
            let known = self.nodes.iter().filter(|node| !node.router).map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
            return wrong(format!("the {role} is `{name}`, which does not exist; the hosts are {known}"));
        };
        if self.nodes[id].router {
            return wrong(format!("the {role} is `{name}`, which is a router: only hosts send and receive"));
        }
        if self.nodes[id].addresses.is_empty() {
            return wrong(format!("the {role} is `{name}`, which has no address: join it to a link"));
        }
        Ok(id)
    }

    /// An address as it stands in packets. A name that is none, which scenarios may use, stands for
    /// one of those that RFC 2544 has set aside for tests (198.18.0.0/15).
    pub(crate) fn ip_address(&self, address: &Address) -> IpAddr {
        address.text.parse().unwrap_or_else(|_| {
            let number = self.owners.keys().position(|text| *text == address.text).unwrap_or(0) as u32;
            IpAddr::from((0xc612_0000 | (number & 0x1_ffff)).to_be_bytes())
        })
    }

    /// All addresses of a node: first those of the node as a whole, then those of its links, as
    /// listed.
    pub(crate) fn addresses(&self, node: NodeId) -> &[Address] {
        &self.nodes[node].addresses
    }

    /// The node that has an address.
    pub(crate) fn owner(&self, address: &str) -> Option<NodeId> {
        self.owners.get(address).copied()
    }

    pub(crate) fn node_name(&self, node: NodeId) -> &str {
        &self.nodes[node].name
    }

    pub(crate) fn source(&self, direction: Direction) -> NodeId {
        self.begins[direction.index()].0
    }

    pub(crate) fn target(&self, direction: Direction) -> NodeId {
        self.source(direction.reversed())
    }

    /// The direction by which the node of a capture sends to its link, and a name for the place;
    /// none: there is no such place.
    pub(crate) fn tap(&self, capture: &Capture) -> Option<(Direction, String)> {
        let link = self.link_names.iter().position(|name| *name == capture.link)?;
        let found = self
            .directions()
            .find(|&direction| direction.index() / 2 == link && self.nodes[self.source(direction)].name == capture.node)?;
        Some((found, format!("{}-{}", capture.node, capture.link)))
    }

    /// MTU of the interface by which a direction leaves its first node.
    pub(crate) fn mtu(&self, direction: Direction) -> Bytes {
        self.begins[direction.index()].1
    }

    /// How many tunnels a direction of one comes after, and whether it is that from `b` to `a`;
    /// none: it is a link's.
    pub(crate) fn tunnel(&self, direction: Direction) -> Option<(usize, usize)> {
        let past = direction.index().checked_sub(2 * self.links)?;
        Some((past / 2, past % 2))
    }

    /// The direction of a tunnel from `a` to `b`.
    pub(crate) fn tunnel_direction(&self, tunnel: usize) -> Direction {
        Direction((2 * (self.links + tunnel)) as u32)
    }

    /// The MTU of a tunnel's devices, which follows from routes that are found when all links are
    /// there.
    pub(crate) fn set_tunnel_mtu(&mut self, tunnel: usize, mtu: Bytes) {
        let there = self.tunnel_direction(tunnel);
        for direction in [there, there.reversed()] {
            self.begins[direction.index()].1 = mtu;
            let node = self.source(direction);
            for address in self.nodes[node].addresses.iter_mut().filter(|address| address.leaves == Some(direction)) {
                address.mtu = mtu;
            }
        }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        (0..self.begins.len() as u32).map(Direction)
    }

    pub(crate) fn is_router(&self, node: NodeId) -> bool {
        self.nodes[node].router
    }

    /// Directions that leave a node.
    pub(crate) fn leaving(&self, node: NodeId) -> &[Direction] {
        &self.nodes[node].leaving
    }

    /// The route from an address of one node to an address of another: the shortest over routers
    /// that leaves by the source's link, if the source belongs to one, and arrives by the
    /// destination's, if it does; of equally short ones, by the links listed first. None if there
    /// is no such route.
    pub(crate) fn route(&self, from: (NodeId, usize), to: (NodeId, usize)) -> Option<Vec<Direction>> {
        self.route_over(from, to, self.begins.len())
    }

    /// The link of an address, if it leads to a node whatever address of that is meant: beyond the
    /// interface that a subflow is bound to Linux takes every destination to be
    /// (`ip_route_output_key_hash_rcu`), and a node answers for all of its addresses at each of its
    /// interfaces (`arp_ignore` 0).
    pub(crate) fn on_link(&self, from: (NodeId, usize), to: NodeId) -> Option<Vec<Direction>> {
        let leaves = self.nodes[from.0].addresses[from.1].leaves?;
        (self.target(leaves) == to).then(|| vec![leaves])
    }

    /// The same over links alone: what a tunnel sends goes through no tunnel.
    pub(crate) fn route_outside(&self, from: (NodeId, usize), to: (NodeId, usize)) -> Option<Vec<Direction>> {
        self.route_over(from, to, 2 * self.links)
    }

    /// Over the first so many directions.
    fn route_over(&self, from: (NodeId, usize), to: (NodeId, usize), directions: usize) -> Option<Vec<Direction>> {
        let (source, target) = (&self.nodes[from.0].addresses[from.1], &self.nodes[to.0].addresses[to.1]);
        let arrives = target.leaves.map(Direction::reversed);
        let mut came: Vec<Option<Direction>> = vec![None; self.nodes.len()];
        let mut ahead: VecDeque<NodeId> = VecDeque::from([from.0]);
        while let Some(node) = ahead.pop_front() {
            for &direction in self.nodes[node].leaving.iter().filter(|direction| direction.index() < directions) {
                let next = self.target(direction);
                if node == from.0 && source.leaves.is_some_and(|only| only != direction) {
                    continue;
                }
                if next == to.0 && arrives.is_none_or(|only| only == direction) {
                    came[next] = Some(direction);
                    return Some(self.walk_back(&came, from.0, next));
                }
                if next != from.0 && next != to.0 && came[next].is_none() && self.nodes[next].router {
                    came[next] = Some(direction);
                    ahead.push_back(next);
                }
            }
        }
        None
    }

    fn walk_back(&self, came: &[Option<Direction>], from: NodeId, mut at: NodeId) -> Vec<Direction> {
        let mut route = Vec::new();
        while at != from {
            let direction = came[at].expect("every node on the route was reached by a link");
            route.push(direction);
            at = self.source(direction);
        }
        route.reverse();
        route
    }

    /// The directions of a route that a flow fixes, from the client to the server.
    pub(crate) fn fixed(&self, flow: &str, number: usize, route: &Route, ends: [NodeId; 2]) -> Result<Vec<Direction>, Error> {
        let ([client, server], number) = (ends, number.to_string());
        let place: &[&str] = &["flows", flow, "routes", &number];
        let what = format!("the route from {} to {}", route.from, route.to);
        let wrong = |sentence: String| Err(Error::caller(format!("{what} {sentence}")).of(format!("flow `{flow}`")).at(place));
        for (address, node) in [(&route.from, client), (&route.to, server)] {
            if self.owners.get(address) != Some(&node) {
                return wrong(format!("names {address}, which is no address of `{}`", self.nodes[node].name));
            }
        }
        let (mut at, mut directions) = (client, Vec::new());
        for (position, name) in route.via.iter().enumerate() {
            let Some(link) = self.link_names.iter().position(|known| known == name) else {
                return wrong(format!("uses link `{name}`, which does not exist; the links are {}", self.link_names.join(", ")));
            };
            let Some(&direction) = self.nodes[at].leaving.iter().find(|direction| direction.index() / 2 == link) else {
                return wrong(format!("uses link `{name}` at `{}`, which it does not join", self.nodes[at].name));
            };
            directions.push(direction);
            at = self.target(direction);
            if position + 1 < route.via.len() && !self.nodes[at].router {
                return wrong(format!("passes through `{}`, which is no router", self.nodes[at].name));
            }
        }
        if at != server || directions.is_empty() {
            return wrong(format!("ends at `{}` and not at `{}`", self.nodes[at].name, self.nodes[server].name));
        }
        Ok(directions)
    }
}
