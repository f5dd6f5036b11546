//! Elements in a row.

use crate::{Delay, Down, Loss, Meter, Mtu, Parcel, RateQueue, Verdict};
use polypath_base::Instant;

/// Any element. An enum and not a trait object: the match is predicted, the call is inlined.
#[derive(Clone, Debug)]
pub enum Element {
    Rate(RateQueue),
    Delay(Delay),
    Loss(Loss),
    Mtu(Mtu),
    Down(Down),
    Meter(Meter),
}

impl Element {
    /// Passes a packet that arrives at `at`. Packets come in the order of their arrival.
    #[inline]
    pub fn transit(&mut self, at: Instant, parcel: Parcel) -> Verdict {
        match self {
            Self::Rate(rate) => rate.transit(at, parcel),
            Self::Delay(delay) => delay.transit(at),
            Self::Loss(loss) => loss.transit(at, parcel),
            Self::Mtu(mtu) => mtu.transit(at, parcel),
            Self::Down(down) => down.transit(at),
            Self::Meter(meter) => meter.transit(at, parcel),
        }
    }

    /// Whether packets leave in the order in which they came.
    pub fn keeps_order(&self) -> bool {
        !matches!(self, Self::Delay(delay) if delay.reorders())
    }

    /// Whether a packet may cause an answer here (ICMP, fragments), which must be sent when the packet is here and not earlier.
    pub fn answers(&self) -> bool {
        matches!(self, Self::Mtu(mtu) if mtu.answers())
    }

    /// Packets dropped here so far.
    pub fn drops(&self) -> u64 {
        match self {
            Self::Rate(rate) => rate.drops(),
            Self::Loss(loss) => loss.drops(),
            Self::Mtu(mtu) => mtu.drops(),
            Self::Down(down) => down.drops(),
            Self::Delay(_) | Self::Meter(_) => 0,
        }
    }
}

/// Elements in a row, of which only the last may reorder.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    elements: Vec<Element>,
}

impl Chain {
    /// Panics if an element other than the last reorders, since those behind it would see packets out of order.
    pub fn new(elements: Vec<Element>) -> Self {
        let ordered = elements.iter().rev().skip(1).all(Element::keeps_order);
        assert!(ordered, "only the last element of a chain may reorder");
        Self { elements }
    }

    /// Passes a packet through all elements. Packets come in the order of their arrival.
    #[inline]
    pub fn transit(&mut self, mut at: Instant, parcel: Parcel) -> Verdict {
        for element in &mut self.elements {
            match element.transit(at, parcel) {
                Verdict::Pass(leaves) => at = leaves,
                end => return end,
            }
        }
        Verdict::Pass(at)
    }

    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    pub fn elements_mut(&mut self) -> &mut [Element] {
        &mut self.elements
    }
}
