//! The closed set of link elements.

use crate::{
    Delay, Down, DropCategory, DualPi2, FqCodel, LinkElement, Loss, Mtu, PacketCount, PacketMeta, Pie, Policer, RateQueue, Red, Retry,
    SampledQueue,
};
use crate::{Trace, Verdict};
use polypath_base::{Duration, Instant};

/// Declares [`Element`], an enum and not a trait object: the match is predicted, the call is
/// inlined.
macro_rules! elements {
    ($($variant:ident($element:ty)),+ $(,)?) => {
        /// Any element.
        #[derive(Clone, Debug)]
        pub enum Element {
            $(
                #[doc = concat!("See [`", stringify!($variant), "`](", stringify!($element), ").")]
                $variant($element),
            )+
        }

        /// Calls the element that it is.
        macro_rules! each {
            ($self:ident, $one:ident => $call:expr) => {
                match $self {
                    $(Element::$variant($one) => $call,)+
                }
            };
        }
    };
}

elements! {
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
    Policer(Box<Policer>),
    DualPi2(Box<DualPi2>),
}

impl LinkElement for Element {
    // Not inlined: where a link is no more than queues with a rate, which
    // [`ElementChain::transit`](crate::ElementChain::transit) passes itself, nothing else shall
    // take registers.
    #[inline(never)]
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        each!(self, element => element.transit(at, packet))
    }

    fn drops(&self) -> PacketCount {
        each!(self, element => element.drops())
    }

    fn drop_category(&self) -> Option<DropCategory> {
        each!(self, element => element.drop_category())
    }

    fn keeps_order(&self) -> bool {
        each!(self, element => element.keeps_order())
    }

    fn answers(&self) -> bool {
        each!(self, element => element.answers())
    }

    fn enqueues(&self) -> bool {
        each!(self, element => element.enqueues())
    }

    fn constant_delay(&self) -> Option<Duration> {
        each!(self, element => element.constant_delay())
    }

    fn queue(&self) -> Option<&dyn SampledQueue> {
        each!(self, element => element.queue())
    }

    fn queue_mut(&mut self) -> Option<&mut dyn SampledQueue> {
        each!(self, element => element.queue_mut())
    }

    fn marks(&self) -> u64 {
        each!(self, element => element.marks())
    }
}
