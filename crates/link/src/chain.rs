//! Elements in a row.

use crate::{DropCause, Element, HoldingQueue, LinkElement, PacketMeta, Verdict};
use polypath_base::{Duration, Instant};

/// Elements in a row, of which only the last may reorder.
///
/// A delay that never changes takes part in no decision: it is added to the time of what comes
/// before it and costs nothing.
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
    /// Panics if an element other than the last reorders, since those behind it would see packets
    /// out of order.
    pub fn new(elements: Vec<Element>) -> Self {
        let ordered = elements.iter().rev().skip(1).all(Element::keeps_order);
        assert!(ordered, "only the last element of a chain may reorder");
        assert!(elements.len() == 1 || !elements.iter().any(Element::enqueues), "an element that enqueues packets is alone in its chain");
        let mut chain = Self::default();
        for (number, element) in elements.into_iter().enumerate() {
            match (element.constant_delay(), chain.steps.last_mut()) {
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
                Verdict::Pass(leaves) => {
                    debug_assert!(leaves >= at, "nothing leaves before it came");
                    at = leaves + step.after;
                }
                Verdict::Mark(leaves) => {
                    marked = true;
                    at = leaves + step.after;
                }
                end => return end,
            }
        }
        if marked { Verdict::Mark(at) } else { Verdict::Pass(at) }
    }

    /// The elements that do more than delay by a constant, with their numbers in the list that the
    /// chain was made of.
    pub fn elements(&self) -> impl Iterator<Item = (usize, &Element)> {
        self.steps.iter().map(|step| (step.number, &step.element))
    }

    /// The element that is alone here and holds packets, if this is such a chain.
    pub fn holding(&mut self) -> Option<&mut dyn HoldingQueue> {
        match self.steps.first_mut() {
            Some(Step { element: Element::FqCodel(queue), .. }) => Some(&mut **queue),
            Some(Step { element: Element::DualPi2(queue), .. }) => Some(&mut **queue),
            _ => None,
        }
    }

    /// The elements with their places in the chain, from 0, in the order in which packets pass
    /// them.
    pub fn elements_mut(&mut self) -> impl Iterator<Item = (usize, &mut Element)> {
        self.steps.iter_mut().map(|step| (step.number, &mut step.element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Delay, DelayConfig, QueueLimit, RateConfig, RateQueue};
    use polypath_base::{Bytes, Rate, Rng};

    #[test]
    fn a_constant_delay_adds_to_its_place() {
        let ms = Duration::from_millis;
        let delay = |n| {
            let config = DelayConfig { delay: ms(n), ..DelayConfig::default() };
            Element::Delay(Delay::new(config, Rng::new(1, "d")).unwrap())
        };
        let (rate, queue) = (Rate::from_bits_per_sec(8_000), QueueLimit::Packets(1));
        let config = RateConfig { rate, queue, framing: Bytes::ZERO, ..RateConfig::default() };
        let rate = || Element::Rate(RateQueue::new(config.clone()).unwrap());
        let mut chain = ElementChain::new(vec![delay(1), delay(2), rate(), delay(4), rate(), delay(8)]);
        let verdict = chain.transit(Instant::ZERO, PacketMeta { len: Bytes::new(100), payload: true, df: true, ..PacketMeta::default() });
        assert_eq!(verdict, Verdict::Pass(Instant::ZERO + ms(1 + 2 + 100 + 4 + 100 + 8)));
        assert_eq!(chain.elements().map(|(number, _)| number).collect::<Vec<_>>(), [2, 4]);
    }
}
