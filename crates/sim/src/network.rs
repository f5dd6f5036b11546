//! From the links of a scenario to pipe stages, and from a route (a list of link directions) to the stages that its packets enter.
//!
//! A link direction is cut into stages where packets may overtake and before an MTU that answers: what stands there must
//! happen at the time of the packet and not before. Where two links meet at a router that joins only these two, and nothing
//! is sent back from there, the stages on both sides are one pipe: a chain of such links costs one event a packet.

use crate::ScenarioError;
use crate::outcome::{LinkOutcome, LinkSeries};
use crate::pipe::PipeStage;
use crate::scenario::{self, Scenario};
use crate::topology::{Direction, NodeId, Topology};
use polypath_base::{Duration, Instant, Rate, Rng};
use polypath_link::{
    CodelConfig, Delay, Down, Element, ElementChain, FqCodel, FqCodelConfig, Invalid, Loss, Mtu, Oversize, Pie, PieConfig, QueueLimit,
};
use polypath_link::{QueueSample, RateQueue, Red, RedConfig, Retry, Schedule, Trace};

/// Pipes, and which of them each direction begins.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) pipes: Vec<PipeStage>,
    /// By pipe: the directions that it leads through, and how many elements of each.
    spans: Vec<Vec<(Direction, usize)>>,
    /// By direction: its pipes if packets can enter it from a node; those of the directions fused to it follow.
    entries: Vec<Option<Vec<u32>>>,
    /// By pipe: an MTU that answers stands at its head, for this direction.
    answering: Vec<Option<Answering>>,
    link_names: Vec<String>,
}

/// Where ICMP about a packet too long for a direction comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Answering {
    direction: Direction,
    /// From the node where the direction ends: its MTU stands behind other elements. Else from the node where it begins.
    from_end: bool,
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

/// The pipes of a route, and for each of them where ICMP about a packet that it refuses joins the route back.
#[derive(Debug)]
pub(crate) struct PipeRoute {
    pub(crate) pipes: Vec<u32>,
    /// Counted in pipes from the start of the route back; its length: the sender itself.
    pub(crate) back: Vec<usize>,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, topology: &Topology) -> Result<Self, ScenarioError> {
        let mut stages = Vec::new();
        for direction in topology.directions() {
            stages.push(cut(elements(scenario, topology, direction)?, direction));
        }
        let icmp_origins: Vec<bool> = icmp_origins(topology, &stages);
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
            link_names: scenario.links.iter().map(|link| link.name.clone()).collect(),
        };
        for head in topology.directions().filter(|direction| !fused[direction.index()]) {
            let mut row = std::mem::take(&mut stages[head.index()]);
            let mut at = head;
            while let Some(next) = follows(at) {
                let mut more = std::mem::take(&mut stages[next.index()]).into_iter();
                // `icmp_origins` has seen to it that the first stage behind the joint does not answer.
                let joint = row.last_mut().expect("a direction has at least one stage");
                let held = more.as_slice().first().is_some_and(|stage| stage.elements().any(Element::holds));
                if joint.elements().all(Element::keeps_order) && !held {
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
        self.pipes.push(PipeStage::new(ElementChain::new(elements)));
        (self.pipes.len() - 1) as u32
    }

    /// The pipes of a route. ICMP takes the same links back.
    pub(crate) fn pipe_route(&self, route: &[Direction]) -> PipeRoute {
        let pipes = self.pipes_of(route);
        let back_route: Vec<Direction> = route.iter().rev().map(|direction| direction.reversed()).collect();
        let back = pipes.iter().map(|&pipe| self.icmp_return_hop(route, &back_route, pipe)).collect();
        PipeRoute { pipes, back }
    }

    fn pipes_of(&self, route: &[Direction]) -> Vec<u32> {
        // A direction that is fused to the one before it has no entry of its own.
        route.iter().filter_map(|direction| self.entries[direction.index()].as_ref()).flatten().copied().collect()
    }

    fn icmp_return_hop(&self, route: &[Direction], back_route: &[Direction], pipe: u32) -> usize {
        let Some(answering) = self.answering[pipe as usize] else { return 0 };
        let position =
            route.iter().position(|&direction| direction == answering.direction).expect("a route enters pipes of its own directions only");
        // The route back passes the links behind the answering node first: skip those.
        let skipped = route.len() - position - usize::from(answering.from_end);
        self.pipes_of(&back_route[..skipped]).len()
    }

    /// Writes down the length of every queue at multiples of `interval`.
    pub(crate) fn sample_every(&mut self, interval: Duration) {
        for pipe in &mut self.pipes {
            for (_, element) in pipe.chain.elements_mut() {
                element.sample_every(interval);
            }
        }
    }

    /// What passed and what did not, by direction.
    pub(crate) fn outcomes(&self) -> Vec<LinkOutcome> {
        let mut outcomes: Vec<LinkOutcome> = (self.link_names.iter())
            .flat_map(|name| [true, false].map(|a_to_b| LinkOutcome { name: name.clone(), a_to_b, ..LinkOutcome::default() }))
            .collect();
        for (pipe, spans) in self.pipes.iter().zip(&self.spans) {
            // What enters and is not dropped passes: of a direction of several pipes, what passes the last one.
            let mut passed = pipe.entered();
            let (mut elements, mut number) = (pipe.chain.elements().peekable(), 0);
            for &(direction, count) in spans {
                number += count;
                let outcome = &mut outcomes[direction.index()];
                while let Some((_, element)) = elements.next_if(|(at, _)| *at < number) {
                    let drops = element.drops();
                    passed = passed.without(drops);
                    match element {
                        Element::Rate(_) | Element::Red(_) | Element::Pie(_) | Element::FqCodel(_) | Element::Trace(_) => {
                            outcome.queue_drops += drops.packets;
                            outcome.ecn_marks += element.marks();
                            outcome.max_queue_packets = outcome.max_queue_packets.max(element.longest());
                        }
                        Element::Loss(_) | Element::Retry(_) => outcome.loss_drops += drops.packets,
                        Element::Mtu(_) => outcome.mtu_drops += drops.packets,
                        Element::Down(_) => outcome.down_drops += drops.packets,
                        Element::Delay(_) => {}
                    }
                }
                (outcome.packets, outcome.bytes) = (passed.packets, passed.bytes);
            }
        }
        outcomes
    }

    /// Samples of the queues up to `end`: by time, then by direction; several queues of one direction are summed.
    pub(crate) fn series(&mut self, interval: Duration, end: Instant) -> LinkSeries {
        let mut columns: Vec<(Direction, Vec<QueueSample>)> = Vec::new();
        for (pipe, spans) in self.pipes.iter_mut().zip(&self.spans) {
            let owners: Vec<Direction> = spans.iter().flat_map(|&(direction, count)| std::iter::repeat_n(direction, count)).collect();
            for (number, element) in pipe.chain.elements_mut() {
                let owner = owners[number];
                let Some(samples) = element.samples(end) else { continue };
                match columns.iter_mut().find(|column| column.0 == owner) {
                    Some((_, sums)) => sums.iter_mut().zip(samples).for_each(|(sum, sample)| {
                        sum.packets += sample.packets;
                        sum.bytes += sample.bytes;
                        sum.drops += sample.drops;
                    }),
                    None => columns.push((owner, samples.to_vec())),
                }
            }
        }
        columns.sort_by_key(|column| column.0);
        let mut series = LinkSeries::default();
        for row in 0..columns.first().map_or(0, |column| column.1.len()) {
            for (direction, samples) in &columns {
                series.time_ns.push(interval.as_nanos() * row as u64);
                series.link.push(direction.0);
                series.queue_packets.push(samples[row].packets);
                series.queue_bytes.push(samples[row].bytes);
                series.drops.push(samples[row].drops);
            }
        }
        series
    }
}

/// Nodes from which ICMP or fragments may come: pipes must not pass them by.
fn icmp_origins(topology: &Topology, stages: &[Vec<Stage>]) -> Vec<bool> {
    let mut icmp_origins = vec![false; topology.nodes()];
    for answering in stages.iter().flatten().filter_map(|stage| stage.answering) {
        let node = if answering.from_end { topology.target(answering.direction) } else { topology.source(answering.direction) };
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

/// Cuts a direction's elements into stages.
fn cut(elements: Vec<Element>, direction: Direction) -> Vec<Stage> {
    let mut stages = vec![Stage { spans: vec![(direction, Vec::new())], answering: None }];
    for (position, element) in elements.into_iter().enumerate() {
        let current = stages.last_mut().expect("there is always a stage");
        let answering = element.answers().then_some(Answering { direction, from_end: position > 0 });
        let full = current.elements().any(|held| !held.keeps_order());
        let alone = element.holds() && current.elements().next().is_some();
        if full || alone || (answering.is_some() && position > 0) {
            stages.push(Stage { spans: vec![(direction, vec![element])], answering });
        } else {
            current.answering = current.answering.or(answering);
            current.spans[0].1.push(element);
        }
    }
    stages
}

/// The elements of a direction: its interface's MTU where it can matter, then those of the scenario.
fn elements(scenario: &Scenario, topology: &Topology, direction: Direction) -> Result<Vec<Element>, ScenarioError> {
    let mut elements = Vec::new();
    // A host sends no packet longer than its interface's MTU.
    let longest = topology.directions().filter(|&other| !topology.is_router(topology.source(other))).map(|other| topology.mtu(other)).max();
    if topology.is_router(topology.source(direction)) && longest.is_some_and(|longest| longest > topology.mtu(direction)) {
        // RFC 1812 section 4.2.2.7: a router splits a packet that is too long, or answers if DF is set.
        elements.push(Element::Mtu(Mtu::new(topology.mtu(direction), Oversize::Fragment).expect("an interface's MTU has been checked")));
    }
    elements.extend(link_elements(scenario, direction.index() / 2, direction.index() % 2 == 0)?);
    Ok(elements)
}

/// The elements of one direction of a link as the scenario lists them, for whoever drives them. Panics if there is no such link.
pub fn link_elements(scenario: &Scenario, link: usize, a_to_b: bool) -> Result<Vec<Element>, ScenarioError> {
    let link = &scenario.links[link];
    let (side, listed) = if a_to_b { ("a_to_b", &link.a_to_b) } else { ("b_to_a", &link.b_to_a) };
    let made = listed.iter().enumerate().map(|(number, element)| {
        let stream = Rng::new(scenario.seed, &format!("link {} {side} {number}", link.name));
        convert(element, stream).map_err(|invalid| {
            let error = ScenarioError::new(invalid.to_string()).of(format!("link `{}`, {side}, element {}", link.name, number + 1));
            error.at(&["links", &link.name, side, &number.to_string()])
        })
    });
    made.collect()
}

fn convert(element: &scenario::Element, stream: Rng) -> Result<Element, Invalid> {
    let at = Instant::from_nanos;
    Ok(match element {
        scenario::Element::Rate { bits_per_s, queue, framing_bytes, hold_ns, changes, aqm } => {
            let limit = limit_of(*queue);
            let changes = Schedule::new(changes.iter().map(|change| (at(change.at_ns), Rate::from_bits_per_sec(change.to))).collect())?;
            let rate = Rate::from_bits_per_sec(*bits_per_s);
            if let Some(scenario::Aqm::Codel { .. } | scenario::Aqm::FqCodel { .. }) = aqm {
                return fair(rate, *framing_bytes, changes, limit, *aqm, stream);
            }
            let queue = RateQueue::new(rate, limit, *framing_bytes, changes)?.with_hold(Duration::from_nanos(*hold_ns));
            match *aqm {
                Some(scenario::Aqm::Red { min_bytes, max_bytes, probability, weight_log, mean_packet_bytes, ecn }) => {
                    let config = RedConfig { min_bytes, max_bytes, probability, weight_log, mean_packet_bytes, ecn };
                    Element::Red(Box::new(Red::new(queue, config, stream)?))
                }
                Some(scenario::Aqm::Pie { target_ns, update_ns, ecn }) => {
                    let (target, update) = (Duration::from_nanos(target_ns), Duration::from_nanos(update_ns));
                    Element::Pie(Box::new(Pie::new(queue, PieConfig { target, update, ecn, ..PieConfig::DEFAULT }, stream)?))
                }
                _ => Element::Rate(queue),
            }
        }
        scenario::Element::Delay { delay_ns, jitter_ns, reorder, changes } => {
            let changes = Schedule::new(changes.iter().map(|change| (at(change.at_ns), Duration::from_nanos(change.to))).collect())?;
            Element::Delay(Delay::new(Duration::from_nanos(*delay_ns), Duration::from_nanos(*jitter_ns), *reorder, changes, stream))
        }
        scenario::Element::Trace { chances_ms, bytes, queue, framing_bytes } => {
            // Only its room and its framing count.
            let queue = RateQueue::new(Rate::from_bits_per_sec(1), limit_of(*queue), *framing_bytes, Schedule::none())?;
            let chances = chances_ms.iter().map(|&ms| Duration::from_millis(ms)).collect();
            Element::Trace(Box::new(Trace::new(queue, chances, *bytes)?))
        }
        scenario::Element::Retry { probability, delay_ns, attempts } => {
            Element::Retry(Box::new(Retry::new(*probability, Duration::from_nanos(*delay_ns), *attempts, stream)?))
        }
        scenario::Element::Loss(model) => Element::Loss(match model {
            scenario::Loss::Bernoulli { probability, changes } => {
                Loss::bernoulli(*probability, changes.iter().map(|change| (at(change.at_ns), change.to)).collect(), stream)?
            }
            scenario::Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                Loss::gilbert_elliott(*good_to_bad, *bad_to_good, *loss_good, *loss_bad, stream)?
            }
            scenario::Loss::Packets { numbers, data_only } => Loss::packets(numbers.clone(), *data_only, stream)?,
        }),
        scenario::Element::Mtu { bytes, oversize } => Element::Mtu(Mtu::new(
            *bytes,
            match oversize {
                scenario::Oversize::Icmp => Oversize::Answer,
                scenario::Oversize::Silent => Oversize::Silent,
                scenario::Oversize::Fragment => Oversize::Fragment,
            },
        )?),
        scenario::Element::Down { spans_ns } => Element::Down(Down::new(spans_ns.iter().map(|span| (at(span[0]), at(span[1]))).collect())?),
    })
}

/// A transmitter behind CoDel or FQ-CoDel.
fn fair(
    rate: Rate,
    framing: u32,
    changes: Schedule<Rate>,
    limit: QueueLimit,
    aqm: Option<scenario::Aqm>,
    stream: Rng,
) -> Result<Element, Invalid> {
    let QueueLimit::Packets(limit) = limit else {
        return Err(Invalid("CoDel counts its queue in packets: give it a limit in packets".into()));
    };
    let (target, interval, ecn, flows, quantum) = match aqm {
        Some(scenario::Aqm::FqCodel { target_ns, interval_ns, flows, quantum_bytes, ecn }) => {
            (target_ns, interval_ns, ecn, flows, quantum_bytes)
        }
        Some(scenario::Aqm::Codel { target_ns, interval_ns, ecn }) => (target_ns, interval_ns, ecn, 1, u32::MAX >> 1),
        _ => return Err(Invalid("only CoDel and FQ-CoDel choose packets when they send".into())),
    };
    let codel = CodelConfig { target: Duration::from_nanos(target), interval: Duration::from_nanos(interval), ecn };
    let config = FqCodelConfig { codel, limit: limit.min(u64::from(u32::MAX)) as u32, flows, quantum };
    Ok(Element::FqCodel(Box::new(FqCodel::new(rate, framing, changes, config, stream)?)))
}

fn limit_of(queue: scenario::QueueLimit) -> QueueLimit {
    match queue {
        scenario::QueueLimit::Packets(n) => QueueLimit::Packets(n),
        scenario::QueueLimit::Bytes(n) => QueueLimit::Bytes(n),
    }
}
