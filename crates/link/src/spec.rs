//! Links and their elements as plain data, as a scenario gives them to the simulator and to the
//! emulator.
//!
//! Times are nanoseconds, rates bits per second, sizes bytes. Unknown fields are refused.

use crate::{
    AqmConfig, Delay, DelayConfig, Down, DownConfig, DualPi2, Element, Error, FqCodel, FqCodelConfig, Loss, LossConfig, Mtu, MtuConfig, Pie,
};
use crate::{Policer, PolicerConfig, RateConfig, RateQueue, Red, Retry, RetryConfig, Trace, TraceConfig};
use polypath_base::{Bytes, Rng};
use serde::Deserialize;

/// A link joins two nodes; each direction is a chain of elements, passed in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// No two links of a scenario have the same; random streams are made from it.
    pub name: String,
    /// One of its interfaces.
    pub a: InterfaceSpec,
    /// The other one.
    pub b: InterfaceSpec,
    /// What packets from `a` to `b` pass.
    #[serde(default)]
    pub a_to_b: Vec<ElementSpec>,
    /// What packets from `b` to `a` pass.
    #[serde(default)]
    pub b_to_a: Vec<ElementSpec>,
}

/// Where a link meets a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// The node's name.
    pub node: String,
    /// IPv4, as 10.1.0.2; no two interfaces have the same.
    pub address: String,
    /// MTU of this interface, by default 1500 bytes: bounds what the node itself sends and the MSS
    /// it announces; a router answers longer packets by ICMP.
    #[serde(default = "default_mtu")]
    pub mtu: Bytes,
}

fn default_mtu() -> Bytes {
    Bytes::new(1500)
}

/// An element and its parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ElementSpec {
    /// A transmitter behind a queue, drop-tail or managed.
    Rate(RateConfig),
    /// Every packet leaves later, by the same time or nearly.
    Delay(DelayConfig),
    /// Packets are lost at random, or chosen ones are.
    Loss(LossConfig),
    /// A transmitter of which every chance to send was recorded; after the last one they begin
    /// anew.
    Trace(TraceConfig),
    /// The link layer tries again what fails on the air, and keeps the order.
    Retry(RetryConfig),
    /// A token bucket that drops what finds too few tokens.
    Policer(PolicerConfig),
    /// Packets longer than this do not pass.
    Mtu(MtuConfig),
    /// Nothing passes during these spans `[from, to)`.
    Down(DownConfig),
}

impl ElementSpec {
    /// The element with these parameters. `rng` is its own stream.
    pub fn build(&self, rng: Rng) -> Result<Element, Error> {
        Ok(match self.clone() {
            Self::Rate(config) => return transmitter(config, rng),
            Self::Delay(config) => Element::Delay(Delay::new(config, rng)?),
            Self::Loss(config) => Element::Loss(Loss::new(config, rng)?),
            Self::Trace(config) => Element::Trace(Box::new(Trace::new(config)?)),
            Self::Retry(config) => Element::Retry(Box::new(Retry::new(config, rng)?)),
            Self::Policer(config) => Element::Policer(Box::new(Policer::new(config)?)),
            Self::Mtu(config) => Element::Mtu(Mtu::new(config)?),
            Self::Down(config) => Element::Down(Down::new(config)?),
        })
    }

    /// Whether it bounds the rate at which packets leave.
    pub fn limits_rate(&self) -> bool {
        matches!(self, Self::Rate(_) | Self::Trace(_) | Self::Policer(_))
    }
}

fn transmitter(config: RateConfig, rng: Rng) -> Result<Element, Error> {
    Ok(match config.aqm {
        None => Element::Rate(RateQueue::new(config)?),
        Some(AqmConfig::Red(red)) => Element::Red(Box::new(Red::new(config, red, rng)?)),
        Some(AqmConfig::Pie(pie)) => Element::Pie(Box::new(Pie::new(config, pie, rng)?)),
        Some(AqmConfig::DualPi2(dualpi2)) => Element::DualPi2(Box::new(DualPi2::new(config, dualpi2, rng)?)),
        Some(AqmConfig::FqCodel(fq_codel)) => Element::FqCodel(Box::new(FqCodel::new(config, fq_codel, rng)?)),
        Some(AqmConfig::Codel(codel)) => Element::FqCodel(Box::new(FqCodel::new(config, FqCodelConfig::one_flow(codel), rng)?)),
    })
}

impl LinkSpec {
    /// Name and elements of one direction.
    pub fn side(&self, a_to_b: bool) -> (&'static str, &[ElementSpec]) {
        if a_to_b { ("a_to_b", &self.a_to_b) } else { ("b_to_a", &self.b_to_a) }
    }

    /// The elements of one direction as they are listed. Each has its own random stream, derived
    /// from `seed` and its place.
    pub fn elements(&self, seed: u64, a_to_b: bool) -> Result<Vec<Element>, Error> {
        let (side, listed) = self.side(a_to_b);
        let made = listed.iter().enumerate().map(|(number, element)| {
            let rng = Rng::new(seed, &format!("link {} {side} {number}", self.name));
            let subject = || format!("link `{}`, {side}, element {}", self.name, number + 1);
            element.build(rng).map_err(|error| error.of(subject()).below(&["links", &self.name, side, &number.to_string()]))
        });
        made.collect()
    }
}
