//! What every link element has in common.

use crate::count::PacketCount;
use crate::packet::{PacketMeta, Verdict};
use polypath_base::{Bytes, Duration, Instant};

/// One element of a link. Only [`LinkElement::transit`] must be written; an element that drops
/// packets, reorders them or has a queue says so in the methods below it.
pub trait LinkElement {
    /// Passes a packet that arrives at `at`. Packets come in the order of their arrival.
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict;

    /// What was dropped here so far.
    fn drops(&self) -> PacketCount {
        PacketCount::default()
    }

    /// The counter of the link to which its drops belong; none: it never drops.
    fn drop_category(&self) -> Option<DropCategory> {
        None
    }

    /// Whether packets leave in the order in which they came.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Whether a packet may cause ICMP or fragments here. Those are sent when the packet is here,
    /// not when it entered the chain.
    fn answers(&self) -> bool {
        false
    }

    /// Whether it decides only later when a packet leaves ([`Verdict::Enqueue`]). Such an element
    /// is alone in its chain.
    fn enqueues(&self) -> bool {
        false
    }

    /// The delay, if the element is nothing but the same delay for all packets.
    fn constant_delay(&self) -> Option<Duration> {
        None
    }

    /// Its queue, if it has one.
    fn queue(&self) -> Option<&dyn SampledQueue> {
        None
    }

    /// The same.
    fn queue_mut(&mut self) -> Option<&mut dyn SampledQueue> {
        None
    }

    /// Packets that it marked (ECN).
    fn marks(&self) -> u64 {
        0
    }
}

/// A packet that is being transmitted from now on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Dequeued {
    /// The caller's number of it.
    pub slot: u32,
    /// When its last bit has left.
    pub leaves: Instant,
    /// With Congestion Experienced (RFC 3168).
    pub marked: bool,
}

/// An element that keeps packets by the caller's numbers and chooses the next one when its
/// transmitter is free ([`LinkElement::enqueues`]).
pub trait HoldingQueue {
    /// A packet arrives, kept by the caller under this number. Then ask for the next one if nothing
    /// is being transmitted, and for those that were dropped.
    fn enqueue(&mut self, at: Instant, packet: PacketMeta, slot: u32);

    /// The transmitter is free: what it sends from now on, if anything waits. What it sent before
    /// has left.
    fn dequeue(&mut self, at: Instant) -> Option<Dequeued>;

    /// Whether a packet is being transmitted.
    fn is_transmitting(&self) -> bool;

    /// The number of a packet that was dropped and not reported.
    fn take_dropped(&mut self) -> Option<u32>;
}

/// The counters of a link's drops.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DropCategory {
    /// No room in a queue, active queue management, or a policer.
    Queue,
    /// Lost at random or by number, attempts of a link layer given up included.
    Loss,
    /// Longer than the MTU.
    Mtu,
    /// During an outage.
    Down,
}

/// A queue whose length is recorded.
pub trait SampledQueue {
    /// Records its length at every multiple of `interval`, zero included.
    fn sample_every(&mut self, interval: Duration);

    /// The samples up to and including `end`, the first one of time zero. To be called once no
    /// packet arrives before `end`.
    fn samples(&mut self, end: Instant) -> &[QueueSample];

    /// The most packets that were ever in it, the one in transmission included.
    fn longest(&self) -> u64;
}

/// A queue at one instant.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Waiting or in transmission.
    pub packets: u32,
    /// Framing included.
    pub bytes: Bytes,
    /// Packets refused since the start.
    pub drops: u64,
}
