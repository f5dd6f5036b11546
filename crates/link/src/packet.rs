//! What a link element sees of a packet, and what becomes of it.

use polypath_base::{Bytes, Instant};

/// What an element sees of a packet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketMeta {
    /// Length of the IP packet.
    pub len: Bytes,
    /// Whether it carries payload: a pure acknowledgement does not.
    pub payload: bool,
    /// Don't Fragment.
    pub df: bool,
    /// It may be marked instead of dropped (RFC 3168: it is ECT or marked already).
    pub ect: bool,
    /// ECT(1) or CE: the L4S identifier (RFC 9331 section 5.1).
    pub l4s: bool,
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
    /// Enqueue it: only later it turns out when it leaves. Only of an element that is alone in its
    /// chain ([`LinkElement::enqueues`](crate::LinkElement::enqueues)).
    Enqueue,
    /// It is dropped without a message.
    Drop(DropCause),
    /// Dropped; its sender shall hear that at most `mtu` bytes pass (RFC 1191 section 4).
    TooBig {
        /// Of the IP packet.
        mtu: Bytes,
    },
    /// To be split into packets of at most `mtu` bytes, which then pass one by one.
    Fragment {
        /// Of the IP packet.
        mtu: Bytes,
    },
}

/// Why a packet was dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The queue had no room.
    QueueFull,
    /// By active queue management, before the queue was full.
    AqmDrop,
    /// A policer had too few tokens for it.
    Policed,
    /// By [`Loss`](crate::Loss), or [`Retry`](crate::Retry) gave up.
    Loss,
    /// Too long for an MTU that is not told of.
    Mtu,
    /// During an outage.
    Down,
}
