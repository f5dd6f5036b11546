//! Link elements: a rate with its queue, delay, loss, MTU, outages.
//!
//! An element is a function of time: given a packet and the instant at which it arrives, it says at once when the packet
//! leaves, or that it does not. That is possible because every element is either memoryless or first in first out, and
//! because all later changes of its parameters are known when it is built. So nothing here waits, keeps packets or reads a
//! clock, and a [`ElementChain`] of elements costs no event of its own. The one exception is [`FqCodel`], which decides when it sends.
//!
//! The one rule: an element sees packets in the order of their arrival. Every element but a reordering [`Delay`] keeps that
//! order; behind a reordering one the caller sorts what leaves before handing it on (see [`Element::keeps_order`]).
#![forbid(unsafe_code)]

mod chain;
mod codel;
mod count;
mod delay;
mod down;
mod fq_codel;
mod loss;
mod mtu;
mod pie;
mod rate;
mod red;
mod retry;
mod ring;
mod schedule;
mod trace;

pub use chain::{Element, ElementChain};
pub use codel::CodelConfig;
pub use count::Count;
pub use delay::Delay;
pub use down::Down;
pub use fq_codel::{Dequeued, FqCodel, FqCodelConfig};
pub use loss::Loss;
pub use mtu::{Mtu, Oversize};
pub use pie::{Pie, PieConfig};
pub use rate::{QueueLimit, QueueSample, RateQueue};
pub use red::{Red, RedConfig};
pub use retry::Retry;
pub use ring::Ring;
pub use schedule::Schedule;
pub use trace::Trace;

use polypath_base::Instant;
use std::fmt;

/// What an element sees of a packet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketMeta {
    /// Length of the IP packet, bytes.
    pub len: u32,
    /// Whether it carries payload: a pure acknowledgement does not.
    pub payload: bool,
    /// Don't Fragment.
    pub df: bool,
    /// It may be marked instead of dropped (RFC 3168: it is ECT or marked already).
    pub ect: bool,
    /// Packets of one flow have the same number here.
    pub flow: u32,
}

/// What becomes of a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves the element at this time.
    Pass(Instant),
    /// It leaves at this time, marked: Congestion Experienced (RFC 3168).
    Mark(Instant),
    /// It is kept: only later it turns out when it leaves. Only of an element that is alone in its chain ([`Element::holds`]).
    Held,
    Drop(DropCause),
    /// Dropped; its sender shall hear that at most `mtu` bytes pass (RFC 1191 section 4).
    TooBig {
        mtu: u32,
    },
    /// To be split into packets of at most `mtu` bytes, which then pass one by one.
    Fragment {
        mtu: u32,
    },
}

/// Why a packet was dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DropCause {
    QueueFull,
    /// By active queue management, before the queue was full.
    AqmDrop,
    Loss,
    Mtu,
    Down,
}

/// Parameters that no element can have; the sentence says which and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}
