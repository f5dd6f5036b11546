//! From the links of a scenario to pipe stages, and from a route (a list of link directions) to the
//! stages that its packets enter.
//!
//! A link direction is cut into stages (`polypath_link`). Where two links meet at a router that
//! joins only these two, and nothing is sent back from there, the stages on both sides are one
//! pipe: a chain of such links costs one event a packet.

use crate::outcome::{LinkOutcome, LinkRow, LinkSeries};
use crate::packet::Packet;
use crate::scenario::Scenario;
use crate::topology::{Direction, NodeId, Topology};
use polypath_base::Error;
use polypath_base::{Duration, Instant};
use polypath_link::{Element, ElementChain, IcmpOrigin, LinkElement, Mtu, MtuConfig, Oversize, PipeStage, QueueSample};
use polypath_link::{add_samples, cut_into_stages};

/// Pipes, and which of them each direction begins.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) pipes: Vec<PipeStage<Packet>>,
    /// By pipe: the directions that it leads through, and how many elements of each.
    spans: Vec<Vec<(Direction, usize)>>,
    /// By direction: its pipes if packets can enter it from a node; those of the directions fused
    /// to it follow.
    entries: Vec<Option<Vec<u32>>>,
    /// By pipe: an MTU that answers stands at its head, for this direction.
    answering: Vec<Option<Answering>>,
    /// By direction: the number among its pipes of the one behind which packets have left the
    /// interface; only where somebody asks.
    released_behind: Vec<Option<usize>>,
    link_names: Vec<String>,
}

/// Where ICMP about a packet too long for a direction comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Answering {
    direction: Direction,
    origin: IcmpOrigin,
}

/// A stage of a direction while the network is built.
#[derive(Debug)]
struct Stage {
    spans: Vec<(Direction, Vec<Element>)>,
    answering: Option<Answering>,
}

impl Stage {
    fn elements(&self) -> impl Iterator<Item = &Element> {
        self.spans.iter().flat_map(|span| &span.1)
    }
}

impl Network {
    /// In the directions `watched` it can be told when packets have left the interface: they begin
    /// with an interface of a tunnel's end.
    pub(crate) fn new(scenario: &Scenario, topology: &Topology, watched: &[Direction]) -> Result<Self, Error> {
        let mut stages = Vec::new();
        for direction in topology.directions() {
            stages.push(stages_of(elements(scenario, topology, direction)?, direction));
        }
        let mut icmp_origins: Vec<bool> = icmp_origins(topology, &stages);
        let mut released_behind = vec![None; stages.len()];
        for direction in topology.directions().filter(|&direction| topology.tunnel(direction).is_some()) {
            // No pipe passes the end of a tunnel by.
            icmp_origins[topology.source(direction)] = true;
        }
        for &direction in watched {
            released_behind[direction.index()] = Some(cut_behind_rate(&mut stages[direction.index()], direction));
            icmp_origins[topology.target(direction)] = true;
        }
        for capture in &scenario.captures {
            // At a router where packets are captured no pipe passes it by either.
            if let Some((direction, _)) = topology.tap(capture) {
                icmp_origins[topology.source(direction)] = true;
            }
        }
        let follows = |direction: Direction| next_of(topology, &icmp_origins, direction);
        let fused: Vec<bool> = {
            let mut fused = vec![false; stages.len()];
            topology.directions().filter_map(follows).for_each(|next| fused[next.index()] = true);
            fused
        };
        let mut network = Self {
            pipes: Vec::new(),
            spans: Vec::new(),
            entries: vec![None; stages.len()],
            answering: Vec::new(),
            released_behind,
            link_names: scenario.links.iter().map(|link| link.name.clone()).collect(),
        };
        for head in topology.directions().filter(|direction| !fused[direction.index()]) {
            let mut row = std::mem::take(&mut stages[head.index()]);
            let mut at = head;
            while let Some(next) = follows(at) {
                let mut more = std::mem::take(&mut stages[next.index()]).into_iter();
                // `icmp_origins` has seen to it that the first stage behind the joint does not
                // answer.
                let joint = row.last_mut().expect("a direction has at least one stage");
                let enqueues = more.as_slice().first().is_some_and(|stage| stage.elements().any(Element::enqueues));
                if joint.elements().all(Element::keeps_order) && !enqueues {
                    joint.spans.extend(more.next().expect("a direction has at least one stage").spans);
                }
                row.extend(more);
                at = next;
            }
            network.entries[head.index()] = Some(row.into_iter().map(|stage| network.add(stage)).collect());
        }
        Ok(network)
    }

    fn add(&mut self, stage: Stage) -> u32 {
        self.spans.push(stage.spans.iter().map(|(direction, elements)| (*direction, elements.len())).collect());
        let elements = stage.spans.into_iter().flat_map(|span| span.1).collect();
        self.answering.push(stage.answering);
        self.pipes.push(PipeStage::new(ElementChain::new(elements), Packet::blank()));
        (self.pipes.len() - 1) as u32
    }

    /// For each pipe of a route, where ICMP about a packet that it refuses joins the route back:
    /// counted in pipes from the start of that one, which takes the same links; the number of its
    /// pipes is the sender itself.
    pub(crate) fn icmp_return_hops(&self, route: &[Direction]) -> Vec<usize> {
        let back_route: Vec<Direction> = route.iter().rev().map(|direction| direction.reversed()).collect();
        self.pipes_of(route).into_iter().map(|pipe| self.icmp_return_hop(route, &back_route, pipe)).collect()
    }

    /// How many pipes a packet passes until it has left the interface that a direction begins with;
    /// `None`: no send buffer is counted there.
    pub(crate) fn pipes_to_leave(&self, direction: Direction) -> Option<usize> {
        self.released_behind[direction.index()]
    }

    /// The direction that a pipe begins with.
    pub(crate) fn begins(&self, pipe: u32) -> Direction {
        self.spans[pipe as usize][0].0
    }

    /// The pipes that packets enter one after the other.
    pub(crate) fn pipes_of(&self, route: &[Direction]) -> Vec<u32> {
        // A direction that is fused to the one before it has no entry of its own.
        route.iter().filter_map(|direction| self.entries[direction.index()].as_ref()).flatten().copied().collect()
    }

    fn icmp_return_hop(&self, route: &[Direction], back_route: &[Direction], pipe: u32) -> usize {
        let Some(answering) = self.answering[pipe as usize] else { return 0 };
        let position =
            route.iter().position(|&direction| direction == answering.direction).expect("a route enters pipes of its own directions only");
        // The route back passes the links behind the answering node first: skip those.
        let skipped = route.len() - position - usize::from(answering.origin == IcmpOrigin::Target);
        self.pipes_of(&back_route[..skipped]).len()
    }

    /// Writes down the length of every queue at multiples of `interval`.
    pub(crate) fn sample_every(&mut self, interval: Duration) {
        for pipe in &mut self.pipes {
            for queue in pipe.chain_mut().elements_mut().filter_map(|(_, element)| element.queue_mut()) {
                queue.sample_every(interval);
            }
        }
    }

    /// What passed and what did not, by direction.
    pub(crate) fn outcomes(&self) -> Vec<LinkOutcome> {
        let mut outcomes: Vec<LinkOutcome> = (self.link_names.iter())
            .flat_map(|name| [true, false].map(|a_to_b| LinkOutcome { name: name.clone(), a_to_b, ..LinkOutcome::default() }))
            .collect();
        for (pipe, spans) in self.pipes.iter().zip(&self.spans) {
            // What enters and is not dropped passes: of a direction of several pipes, what passes
            // the last one.
            let mut passed = pipe.entered();
            let (mut elements, mut number) = (pipe.chain().elements().peekable(), 0);
            for &(direction, count) in spans {
                if direction.index() >= outcomes.len() {
                    // A tunnel, which has counters of its own.
                    continue;
                }
                number += count;
                while let Some((_, element)) = elements.next_if(|(at, _)| *at < number) {
                    passed = passed.without(element.drops());
                    outcomes[direction.index()].counters.add_element(element);
                }
                let counters = &mut outcomes[direction.index()].counters;
                (counters.packets, counters.bytes) = (passed.packets, passed.bytes.get());
            }
        }
        outcomes
    }

    /// Samples of the queues up to `end`: by time, then by direction; several queues of one
    /// direction are summed.
    pub(crate) fn series(&mut self, interval: Duration, end: Instant) -> LinkSeries {
        let mut columns: Vec<(Direction, Vec<QueueSample>)> = Vec::new();
        for (pipe, spans) in self.pipes.iter_mut().zip(&self.spans) {
            let owners: Vec<Direction> = spans.iter().flat_map(|&(direction, count)| std::iter::repeat_n(direction, count)).collect();
            for (number, element) in pipe.chain_mut().elements_mut() {
                let owner = owners[number];
                let Some(queue) = element.queue_mut() else { continue };
                let column = columns.iter().position(|column| column.0 == owner).unwrap_or_else(|| {
                    columns.push((owner, Vec::new()));
                    columns.len() - 1
                });
                add_samples(&mut columns[column].1, queue.samples(end));
            }
        }
        columns.sort_by_key(|column| column.0);
        let mut series = LinkSeries::default();
        for row in 0..columns.first().map_or(0, |column| column.1.len()) {
            for (direction, samples) in &columns {
                let QueueSample { packets, bytes, drops } = samples[row];
                let time_ns = interval.as_nanos() * row as u64;
                series.push(LinkRow { time_ns, link: direction.0, queue_packets: packets, queue_bytes: bytes.get(), drops });
            }
        }
        series
    }
}

/// Nodes from which ICMP or fragments may come: pipes must not pass them by.
fn icmp_origins(topology: &Topology, stages: &[Vec<Stage>]) -> Vec<bool> {
    let mut icmp_origins = vec![false; topology.nodes()];
    for answering in stages.iter().flatten().filter_map(|stage| stage.answering) {
        let node = match answering.origin {
            IcmpOrigin::Source => topology.source(answering.direction),
            IcmpOrigin::Target => topology.target(answering.direction),
        };
        icmp_origins[node] = true;
    }
    icmp_origins
}

/// The direction that takes all that leaves this one, if nothing else enters it.
fn next_of(topology: &Topology, icmp_origins: &[bool], direction: Direction) -> Option<Direction> {
    let node: NodeId = topology.target(direction);
    match *topology.leaving(node) {
        [first, second] if topology.is_router(node) && !icmp_origins[node] => {
            Some(if first == direction.reversed() { second } else { first })
        }
        _ => None,
    }
}

/// Cuts behind the first element with a rate, which is the interface's transmitter. Returns how
/// many stages end with it; without a rate a packet leaves at once, and the first stage is the
/// interface.
fn cut_behind_rate(stages: &mut Vec<Stage>, direction: Direction) -> usize {
    let transmits = |element: &Element| matches!(element, Element::Rate(_) | Element::Trace(_)) || element.queue().is_some();
    let found = stages.iter().enumerate().find_map(|(at, stage)| Some((at, stage.elements().position(transmits)?)));
    let Some((at, place)) = found else { return 1 };
    // Not fused yet: each stage has one span.
    let behind = stages[at].spans[0].1.split_off(place + 1);
    if !behind.is_empty() {
        stages.insert(at + 1, Stage { spans: vec![(direction, behind)], answering: None });
    }
    at + 1
}

/// A direction's elements in stages.
fn stages_of(elements: Vec<Element>, direction: Direction) -> Vec<Stage> {
    let stages = cut_into_stages(elements).into_iter().map(|stage| Stage {
        answering: stage.icmp_origin.map(|origin| Answering { direction, origin }),
        spans: vec![(direction, stage.elements)],
    });
    stages.collect()
}

/// A direction begins at a node that sends packets of its own: a host, or the end of a tunnel.
fn sends_its_own(scenario: &Scenario, topology: &Topology, direction: Direction) -> bool {
    let node = topology.source(direction);
    let name = topology.node_name(node);
    !topology.is_router(node) || scenario.tunnels.iter().any(|tunnel| name == tunnel.a.node || name == tunnel.b.node)
}

/// The elements of a direction: its interface's MTU where it can matter, then those of the
/// scenario.
fn elements(scenario: &Scenario, topology: &Topology, direction: Direction) -> Result<Vec<Element>, Error> {
    let mut elements = Vec::new();
    if topology.tunnel(direction).is_some() {
        return Ok(elements);
    }
    // A host sends no packet longer than its interface's MTU.
    let longest = topology.directions().filter(|&other| sends_its_own(scenario, topology, other)).map(|other| topology.mtu(other)).max();
    if topology.is_router(topology.source(direction)) && longest.is_some_and(|longest| longest > topology.mtu(direction)) {
        // RFC 1812 section 4.2.2.7: a router splits a packet that is too long, or answers if DF is
        // set.
        let config = MtuConfig { bytes: topology.mtu(direction), oversize: Oversize::Fragment, says: None };
        elements.push(Element::Mtu(Mtu::new(config).expect("an interface's MTU has been checked")));
    }
    elements.extend(scenario.links[direction.index() / 2].elements(scenario.seed, direction.index() % 2 == 0)?);
    Ok(elements)
}
