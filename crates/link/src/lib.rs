//! Link elements: a rate with its queue, delay, loss, MTU, outages.
//!
//! An element is a function of time: given a packet and the instant at which it arrives, it says at
//! once when the packet leaves, or that it does not. That is possible because every element is
//! either memoryless or first in first out, and because all later changes of its parameters are
//! known when it is built. So nothing here waits, keeps packets or reads a clock, and a
//! [`ElementChain`] of elements costs no event of its own. The exceptions are
//! [`FqCodel`] and [`DualPi2`], which decide when they send ([`HoldingQueue`]).
//!
//! The one rule: an element sees packets in the order of their arrival. Every element but a
//! reordering [`Delay`] keeps that order; behind a reordering one the caller sorts what leaves
//! before handing it on (see [`LinkElement::keeps_order`]).
//!
//! # Adding an element
//!
//! Call its type `Name`; copy `retry.rs`. First see whether a [`Verdict`] fits what becomes of a
//! packet. If none does, add a variant and treat it in `chain.rs` (`transit`), `stage.rs`
//! (`cut_into_stages`), `crates/sim/src/data_plane.rs` (`enqueue_slow_path`) and
//! `crates/emu/src/direction.rs`: the compiler asks for `refuse` there, but not for `enter_stage`,
//! `advance` and `Stage::take`, which drop such packets silently.
//!
//! 1. `NAME.rs`: `NameConfig` (`Deserialize`, unknown fields refused, each field with unit,
//!    `Default`), `Name::new(config, rng) -> Result<Self, Error>`, without `rng` if it draws
//!    nothing, and [`LinkElement`], of which only `transit` must be written. One that drops also
//!    writes `drops` and `drop_category`, one that lets packets overtake `keeps_order`. Unit tests
//!    against times computed by hand.
//! 2. The name here, in `elements!` of `element.rs`, and in `spec.rs` in `ElementSpec`, in its
//!    `build`, and in `limits_rate` if it bounds the rate. A queue management goes into `AqmConfig`
//!    of `aqm.rs` and `transmitter` of `spec.rs` instead.
//! 3. `counters.rs`, only if no [`DropCategory`] fits.
//! 4. `tests/model.rs`: a property against a model that is too simple to be wrong. `cargo test -p
//!    polypath-link`.
//! 5. A line in `crates/sim/tests/known_bytes/scenarios.jsonl`, copied from `retry-tcp-v1`.
//!
//! Steps 6 to 8, in Python, are in `CONTRIBUTING.md`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod aqm;
mod chain;
mod codel;
mod count;
mod counters;
mod delay;
mod down;
mod dualpi2;
mod element;
mod fq_codel;
mod link_element;
mod loss;
mod managed;
mod mtu;
mod packet;
mod pie;
mod policer;
mod rate;
mod red;
mod retry;
mod ring;
mod schedule;
mod spec;
mod stage;
mod trace;

pub use aqm::{AqmConfig, CodelConfig, DualPi2Config, FqCodelConfig, PieConfig, RedConfig};
pub use chain::ElementChain;
pub use count::PacketCount;
pub use counters::{LinkCounters, add_samples};
pub use delay::{Delay, DelayConfig};
pub use down::{Down, DownConfig};
pub use dualpi2::DualPi2;
pub use element::Element;
pub use fq_codel::FqCodel;
pub use link_element::{Dequeued, DropCategory, HoldingQueue, LinkElement, QueueSample, SampledQueue};
pub use loss::{Loss, LossConfig};
pub use mtu::{Mtu, MtuConfig, Oversize};
pub use packet::{DropCause, PacketMeta, Verdict};
pub use pie::Pie;
pub use policer::{Policer, PolicerConfig};
pub use polypath_base::{Error, ErrorKind};
pub use rate::{QueueLimit, RateConfig, RateQueue};
pub use red::Red;
pub use retry::{Retry, RetryConfig};
pub use ring::Ring;
pub use schedule::{Change, Schedule};
pub use spec::{ElementSpec, InterfaceSpec, LinkSpec};
pub use stage::{IcmpOrigin, InFlight, PipeStage, StageElements, cut_into_stages};
pub use trace::{Trace, TraceConfig};
