//! Elements in a row.

use crate::{Count, Delay, Down, DropCause, FqCodel, Loss, Mtu, PacketMeta, Pie, QueueSample, RateQueue, Red, Retry, Trace, Verdict};
use polypath_base::{Duration, Instant};

/// Any element. An enum and not a trait object: the match is predicted, the call is inlined.
#[derive(Clone, Debug)]
pub enum Element {
    Rate(RateQueue),
    Delay(Delay),
    Loss(Loss),
    Mtu(Mtu),
    Down(Down),
    Red(Box<Red>),
    Pie(Box<Pie>),
    FqCodel(Box<FqCodel>),
    Trace(Box<Trace>),
    Retry(Box<Retry>),
}

impl Element {
    /// Passes a packet that arrives at `at`. Packets come in the order of their arrival. Not inlined: where a link is no more than queues
    /// with a rate, which [`ElementChain::transit`] passes itself, nothing else shall take registers.
    #[inline(never)]
    pub fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        match self {
            Self::Rate(rate) => rate.transit(at, packet),
            Self::Delay(delay) => delay.transit(at),
            Self::Loss(loss) => loss.transit(at, packet),
            Self::Mtu(mtu) => mtu.transit(at, packet),
            Self::Down(down) => down.transit(at, packet),
            Self::Red(red) => red.transit(at, packet),
            Self::Pie(pie) => pie.transit(at, packet),
            Self::FqCodel(_) => Verdict::Held,
            Self::Trace(trace) => trace.transit(at, packet),
            Self::Retry(retry) => retry.transit(at, packet),
        }
    }

    /// Whether packets leave in the order in which they came.
    pub fn keeps_order(&self) -> bool {
        !self.holds() && !matches!(self, Self::Delay(delay) if delay.reorders())
    }

    /// Whether a packet may cause an answer here (ICMP, fragments), which must be sent when the packet is here and not earlier.
    pub fn answers(&self) -> bool {
        matches!(self, Self::Mtu(mtu) if mtu.answers())
    }

    /// Whether it says only later when a packet leaves: such an element is alone in its chain.
    pub fn holds(&self) -> bool {
        matches!(self, Self::FqCodel(_))
    }

    /// Whether it has a queue.
    pub fn has_queue(&self) -> bool {
        matches!(self, Self::Rate(_) | Self::Red(_) | Self::Pie(_) | Self::FqCodel(_) | Self::Trace(_))
    }

    /// Writes down the length of its queue, if it has one, at every multiple of `interval`, zero included.
    pub fn sample_every(&mut self, interval: Duration) {
        match self {
            Self::Rate(rate) => rate.sample_every(interval),
            Self::Red(red) => red.queue_mut().sample_every(interval),
            Self::Pie(pie) => pie.queue_mut().sample_every(interval),
            Self::FqCodel(fair) => fair.sample_every(interval),
            Self::Trace(trace) => trace.queue_mut().sample_every(interval),
            Self::Delay(_) | Self::Loss(_) | Self::Mtu(_) | Self::Down(_) | Self::Retry(_) => {}
        }
    }

    /// The samples up to and including `end`; none without a queue. To be called once no packet arrives before `end`.
    pub fn samples(&mut self, end: Instant) -> Option<&[QueueSample]> {
        match self {
            Self::Rate(rate) => Some(rate.samples(end)),
            Self::Red(red) => Some(red.queue_mut().samples(end)),
            Self::Pie(pie) => Some(pie.queue_mut().samples(end)),
            Self::FqCodel(fair) => Some(fair.samples(end)),
            Self::Trace(trace) => Some(trace.queue_mut().samples(end)),
            Self::Delay(_) | Self::Loss(_) | Self::Mtu(_) | Self::Down(_) | Self::Retry(_) => None,
        }
    }

    /// The most packets that were ever in its queue.
    pub fn longest(&self) -> u64 {
        match self {
            Self::Rate(rate) => rate.longest(),
            Self::Red(red) => red.queue().longest(),
            Self::Pie(pie) => pie.queue().longest(),
            Self::FqCodel(fair) => fair.longest(),
            Self::Trace(trace) => trace.queue().longest(),
            Self::Delay(_) | Self::Loss(_) | Self::Mtu(_) | Self::Down(_) | Self::Retry(_) => 0,
        }
    }

    /// Packets that it marked.
    pub fn marks(&self) -> u64 {
        match self {
            Self::Red(red) => red.marks(),
            Self::Pie(pie) => pie.marks(),
            Self::FqCodel(fair) => fair.marks(),
            _ => 0,
        }
    }

    /// What was dropped here so far.
    pub fn drops(&self) -> Count {
        match self {
            Self::Rate(rate) => rate.drops(),
            Self::Loss(loss) => loss.drops(),
            Self::Mtu(mtu) => mtu.drops(),
            Self::Down(down) => down.drops(),
            Self::Red(red) => red.drops(),
            Self::Pie(pie) => pie.drops(),
            Self::FqCodel(fair) => fair.drops(),
            Self::Trace(trace) => trace.drops(),
            Self::Retry(retry) => retry.drops(),
            Self::Delay(_) => Count::default(),
        }
    }
}

/// Elements in a row, of which only the last may reorder.
///
/// A delay that never changes takes part in no decision: it is added to the time of what comes before it and costs nothing.
#[derive(Clone, Debug, Default)]
pub struct ElementChain {
    /// Constant delay before the first step.
    lead: Duration,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    element: Element,
    /// Number of the element among those that the chain was made of.
    number: usize,
    /// Constant delay behind it.
    after: Duration,
}

impl ElementChain {
    /// Panics if an element other than the last reorders, since those behind it would see packets out of order.
    pub fn new(elements: Vec<Element>) -> Self {
        let ordered = elements.iter().rev().skip(1).all(Element::keeps_order);
        assert!(ordered, "only the last element of a chain may reorder");
        assert!(elements.len() == 1 || !elements.iter().any(Element::holds), "an element that holds packets is alone in its chain");
        let mut chain = Self::default();
        for (number, element) in elements.into_iter().enumerate() {
            let constant = if let Element::Delay(delay) = &element { delay.constant() } else { None };
            match (constant, chain.steps.last_mut()) {
                (Some(delay), None) => chain.lead += delay,
                (Some(delay), Some(last)) => last.after += delay,
                (None, _) => chain.steps.push(Step { element, number, after: Duration::ZERO }),
            }
        }
        chain
    }

    /// Passes a packet through all elements. Packets come in the order of their arrival.
    #[inline(always)]
    pub fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        let mut at = at + self.lead;
        let mut marked = false;
        for step in &mut self.steps {
            // Most links are queues with a rate and nothing else that varies.
            if let Element::Rate(rate) = &mut step.element {
                let Some(leaves) = rate.pass(at, packet) else { return Verdict::Drop(DropCause::QueueFull) };
                at = leaves + step.after;
                continue;
            }
            match step.element.transit(at, packet) {
                Verdict::Pass(leaves) => at = leaves + step.after,
                Verdict::Mark(leaves) => {
                    marked = true;
                    at = leaves + step.after;
                }
                end => return end,
            }
        }
        if marked { Verdict::Mark(at) } else { Verdict::Pass(at) }
    }

    /// The elements that do more than delay by a constant, with their numbers in the list that the chain was made of.
    pub fn elements(&self) -> impl Iterator<Item = (usize, &Element)> {
        self.steps.iter().map(|step| (step.number, &step.element))
    }

    /// The element that is alone here and holds packets, if this is such a chain.
    pub fn holding(&mut self) -> Option<&mut FqCodel> {
        match self.steps.first_mut() {
            Some(Step { element: Element::FqCodel(fair), .. }) => Some(fair),
            _ => None,
        }
    }

    pub fn elements_mut(&mut self) -> impl Iterator<Item = (usize, &mut Element)> {
        self.steps.iter_mut().map(|step| (step.number, &mut step.element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QueueLimit, Schedule};
    use polypath_base::{Rate, Rng};

    #[test]
    fn a_constant_delay_adds_to_its_place() {
        let ms = Duration::from_millis;
        let delay = |n| Element::Delay(Delay::new(ms(n), Duration::ZERO, false, Schedule::none(), Rng::new(1, "d")));
        let rate = || Element::Rate(RateQueue::new(Rate::from_bits_per_sec(8_000), QueueLimit::Packets(1), 0, Schedule::none()).unwrap());
        let mut chain = ElementChain::new(vec![delay(1), delay(2), rate(), delay(4), rate(), delay(8)]);
        let verdict = chain.transit(Instant::ZERO, PacketMeta { len: 100, payload: true, df: true, ..PacketMeta::default() });
        assert_eq!(verdict, Verdict::Pass(Instant::ZERO + ms(1 + 2 + 100 + 4 + 100 + 8)));
        assert_eq!(chain.elements().map(|(number, _)| number).collect::<Vec<_>>(), [2, 4]);
    }
}
