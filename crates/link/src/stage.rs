//! Stages of a direction of a link: what the simulator and the emulator both do with a packet that
//! is in an element chain.
//!
//! A chain says at once when a packet leaves, so a stage is a list of packets sorted by the time at
//! which they leave. A direction is cut into several stages where packets may overtake, before an
//! element that answers, and around a queue that decides later what it sends.

use crate::{Element, ElementChain, HoldingQueue, LinkElement, PacketCount, PacketMeta, Ring, Verdict};
use polypath_base::{Bytes, Instant};

/// The elements of one stage.
#[derive(Debug, Default)]
pub struct StageElements {
    /// In the order in which packets pass them.
    pub elements: Vec<Element>,
    /// Which end of the direction sends ICMP about a packet that the stage's first element refuses;
    /// none: it never answers.
    pub icmp_origin: Option<IcmpOrigin>,
}

/// The end of a direction from which ICMP about a packet comes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum IcmpOrigin {
    /// Where the direction begins: the MTU is that of the interface there.
    Source,
    /// Where it ends: other elements stand before the MTU, so the packet has crossed the link.
    Target,
}

/// Cuts the elements of a direction into stages; there is at least one. A new one begins behind an
/// element that reorders, since those behind it see packets in order; before an element that
/// answers, since the answer is sent when the packet is there; and before and behind an element
/// that holds packets.
pub fn cut_into_stages(elements: Vec<Element>) -> Vec<StageElements> {
    let mut stages = vec![StageElements::default()];
    for (position, element) in elements.into_iter().enumerate() {
        let current = stages.last_mut().expect("there is always a stage");
        let origin = if position > 0 { IcmpOrigin::Target } else { IcmpOrigin::Source };
        let icmp_origin = element.answers().then_some(origin);
        let disordered = !current.elements.iter().all(Element::keeps_order);
        let alone = element.enqueues() && !current.elements.is_empty();
        if disordered || alone || (icmp_origin.is_some() && position > 0) {
            stages.push(StageElements { elements: vec![element], icmp_origin });
        } else {
            current.icmp_origin = current.icmp_origin.or(icmp_origin);
            current.elements.push(element);
        }
    }
    stages
}

/// A packet in a stage, as its carrier keeps it.
pub trait InFlight: Copy {
    /// When it leaves the stage.
    fn leaves(&self) -> Instant;
}

/// A chain and the packets that are in it.
#[derive(Debug)]
pub struct PipeStage<P> {
    chain: ElementChain,
    /// Ascending by the time at which they leave; of equal times, in the order of entry. The
    /// packets themselves and not references to them: they are written and read one after the
    /// other, which the processor foresees.
    in_flight: Ring<P>,
    blank: P,
    /// When the packet that leaves last of all that ever entered leaves.
    last: Instant,
    entered: PacketCount,
    backlog: Option<Box<AqmBacklog<P>>>,
}

impl<P: InFlight> PipeStage<P> {
    /// `blank` fills the places where no packet has been.
    pub fn new(chain: ElementChain, blank: P) -> Self {
        let mut chain = chain;
        let backlog = chain.holding().map(|_| Box::new(AqmBacklog { packets: Vec::new(), free: Vec::new() }));
        Self { chain, in_flight: Ring::new(blank), blank, last: Instant::ZERO, entered: PacketCount::default(), backlog }
    }

    /// Its elements.
    pub fn chain(&self) -> &ElementChain {
        &self.chain
    }

    /// As [`Self::chain`].
    pub fn chain_mut(&mut self) -> &mut ElementChain {
        &mut self.chain
    }

    /// Sends a packet through the elements.
    #[inline]
    pub fn transit(&mut self, now: Instant, meta: PacketMeta) -> Verdict {
        self.entered.add(meta.len);
        self.chain.transit(now, meta)
    }

    /// A packet that entered is split and enters again in parts.
    pub fn withdraw(&mut self, len: Bytes) {
        self.entered = self.entered.without(PacketCount { packets: 1, bytes: len });
    }

    /// What has entered, whether it passed or not.
    pub fn entered(&self) -> PacketCount {
        self.entered
    }

    /// The place of a packet that leaves at `leaves`, to be written in, and whether it is now the
    /// first to leave. A packet is large, and most of the work of passing it on would be to copy
    /// it.
    #[inline]
    pub fn place(&mut self, leaves: Instant) -> (&mut P, bool) {
        if leaves < self.last {
            return self.overtake(leaves);
        }
        self.last = leaves;
        let first = self.in_flight.is_empty();
        (self.in_flight.push(), first)
    }

    #[cold]
    fn overtake(&mut self, leaves: Instant) -> (&mut P, bool) {
        // From the back: jitter rarely moves a packet past more than a few.
        let behind = self.in_flight.iter().rev().take_while(|packet| packet.leaves() > leaves).count();
        let ahead = self.in_flight.len() - behind;
        (self.in_flight.insert(ahead, self.blank), ahead == 0)
    }

    /// Takes out the first packet to leave; also, when the one behind it leaves. There must be one.
    #[inline]
    pub fn take(&mut self) -> (&P, Instant) {
        let (packet, next) = self.in_flight.take();
        (packet, next.map_or(Instant::NEVER, P::leaves))
    }

    /// The first packet to leave, if it is due by `now`.
    #[inline]
    pub fn take_due(&mut self, now: Instant) -> Option<P> {
        let first = self.in_flight.front().copied().filter(|packet| packet.leaves() <= now)?;
        self.in_flight.pop();
        Some(first)
    }

    /// The first packet to leave.
    #[inline]
    pub fn first(&self) -> Option<&P> {
        self.in_flight.front()
    }

    /// How many packets are in it, those that wait for their transmitter included.
    pub fn len(&self) -> usize {
        self.in_flight.len() + self.backlog.as_ref().map_or(0, |backlog| backlog.packets.len() - backlog.free.len())
    }

    /// No packet waits for its transmitter.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether packets wait here until their transmitter takes them ([`Verdict::Enqueue`]).
    #[inline]
    pub fn enqueues(&self) -> bool {
        self.backlog.is_some()
    }

    /// A packet for which [`PipeStage::transit`] said [`Verdict::Enqueue`] waits. True if nothing
    /// is being transmitted: then [`PipeStage::transmit_next`] is due. Ask for
    /// [`PipeStage::take_dropped`] afterwards.
    pub fn hold(&mut self, now: Instant, meta: PacketMeta, packet: P) -> bool {
        let Some((backlog, queue)) = self.managed() else { return false };
        let slot = backlog.keep(packet);
        queue.enqueue(now, meta, slot);
        !queue.is_transmitting()
    }

    /// Whether a packet that waited is being transmitted.
    pub fn is_transmitting(&mut self) -> bool {
        self.chain.holding().is_some_and(|queue| queue.is_transmitting())
    }

    /// The transmitter is free: the packet that it chooses, when that leaves, and whether it is
    /// marked. The caller gives it a [`PipeStage::place`], and asks for
    /// [`PipeStage::take_dropped`].
    pub fn transmit_next(&mut self, now: Instant) -> Option<(P, Instant, bool)> {
        let (backlog, queue) = self.managed()?;
        let next = queue.dequeue(now)?;
        Some((backlog.release(next.slot), next.leaves, next.marked))
    }

    /// A packet that waited and was dropped; none if no more were.
    pub fn take_dropped(&mut self) -> Option<P> {
        let (backlog, queue) = self.managed()?;
        queue.take_dropped().map(|slot| backlog.release(slot))
    }

    fn managed(&mut self) -> Option<(&mut AqmBacklog<P>, &mut dyn HoldingQueue)> {
        self.backlog.as_deref_mut().zip(self.chain.holding())
    }
}

/// Packets that wait for their transmitter, by number.
#[derive(Debug)]
struct AqmBacklog<P> {
    packets: Vec<P>,
    /// Numbers without a packet.
    free: Vec<u32>,
}

impl<P: Copy> AqmBacklog<P> {
    fn keep(&mut self, packet: P) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.packets[slot as usize] = packet;
            return slot;
        }
        self.packets.push(packet);
        (self.packets.len() - 1) as u32
    }

    fn release(&mut self, slot: u32) -> P {
        debug_assert!(self.free.len() < self.packets.len(), "a number is freed once");
        self.free.push(slot);
        self.packets[slot as usize]
    }
}
