//! Pipes: elements in a row and the packets that have entered them.
//!
//! A packet's whole way through a pipe is computed when it enters, so a pipe is a list of packets sorted by the time at which
//! they leave, and only the first of them is in the event queue. A link direction is one pipe; or several, where packets
//! may overtake or an answer may be sent; or part of one, where all that leaves it enters the next.

use crate::packet::{CE, Packet};
use polypath_base::Instant;
use polypath_link::{Count, ElementChain, PacketMeta, Ring, Verdict};

#[derive(Debug)]
pub(crate) struct PipeStage {
    pub(crate) chain: ElementChain,
    /// Ascending by the time at which they leave; of equal times, in the order of entry. The packets themselves and not
    /// references to them: they are written and read one after the other, which the processor foresees.
    packets: Ring<Packet>,
    /// When the packet that leaves last of all that ever entered leaves.
    last: Instant,
    entered: Count,
    /// Of a transmitter that chooses: the packets that wait, by number; those without are free.
    backlog: Option<Box<AqmBacklog>>,
}

#[derive(Debug, Default)]
struct AqmBacklog {
    packets: Vec<Packet>,
    free: Vec<u32>,
}

impl PipeStage {
    pub(crate) fn new(chain: ElementChain) -> Self {
        let mut chain = chain;
        let backlog = chain.holding().map(|_| Box::default());
        Self { chain, packets: Ring::new(Packet::blank()), last: Instant::ZERO, entered: Count::default(), backlog }
    }

    /// Sends a packet through the elements.
    #[inline]
    pub(crate) fn transit(&mut self, now: Instant, meta: PacketMeta) -> Verdict {
        self.entered.add(meta.len);
        self.chain.transit(now, meta)
    }

    /// A packet that entered is split and enters again in parts.
    pub(crate) fn withdraw(&mut self, len: u32) {
        self.entered = self.entered.without(Count { packets: 1, bytes: u64::from(len) });
    }

    /// What has entered, whether it passed or not.
    pub(crate) fn entered(&self) -> Count {
        self.entered
    }

    /// The place of a packet that leaves at `leaves`, to be written in, and whether it is now the first to leave. It is large,
    /// and most of the work of passing it on would be to copy it.
    #[inline]
    pub(crate) fn place(&mut self, leaves: Instant) -> (&mut Packet, bool) {
        if leaves < self.last {
            return self.overtake(leaves);
        }
        self.last = leaves;
        let first = self.packets.is_empty();
        (self.packets.push(), first)
    }

    /// Takes out the first packet to leave; also, when the one behind it leaves. A pipe is in the event queue only while it holds
    /// packets.
    #[inline]
    pub(crate) fn take(&mut self) -> (&Packet, Instant) {
        let (packet, next) = self.packets.take();
        (packet, next.map_or(Instant::NEVER, |next| next.leaves))
    }

    /// Whether packets are backlog until it is known when they leave.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.backlog.is_some()
    }

    /// Keeps a packet. True if nothing is being transmitted: then [`PipeStage::serve`] is due.
    pub(crate) fn keep(&mut self, now: Instant, meta: PacketMeta, packet: Packet) -> bool {
        let (Some(backlog), Some(queue)) = (&mut self.backlog, self.chain.holding()) else { return false };
        let slot = backlog.free.pop().unwrap_or_else(|| {
            backlog.packets.push(packet);
            (backlog.packets.len() - 1) as u32
        });
        backlog.packets[slot as usize] = packet;
        queue.enqueue(now, meta, slot);
        !queue.is_transmitting()
    }

    /// The transmitter is free: the packet that it chooses is the only one to leave, at the time returned.
    pub(crate) fn serve(&mut self, now: Instant) -> Instant {
        let (Some(backlog), Some(queue)) = (&mut self.backlog, self.chain.holding()) else { return Instant::NEVER };
        let Some(served) = queue.dequeue(now) else { return Instant::NEVER };
        let mut packet = backlog.packets[served.slot as usize];
        backlog.free.push(served.slot);
        packet.leaves = served.leaves;
        if served.marked {
            packet.ecn = CE;
        }
        *self.packets.push() = packet;
        served.leaves
    }

    /// What stands beside a packet that was dropped, to be forgotten; none if no more were.
    pub(crate) fn take_dropped(&mut self) -> Option<u32> {
        let (Some(backlog), Some(queue)) = (&mut self.backlog, self.chain.holding()) else { return None };
        let slot = queue.take_dropped()?;
        backlog.free.push(slot);
        Some(backlog.packets[slot as usize].cold)
    }

    /// The first packet to leave.
    #[cfg(test)]
    pub(crate) fn first(&self) -> &Packet {
        self.packets.front().expect("there is a packet to look at")
    }

    #[cold]
    fn overtake(&mut self, leaves: Instant) -> (&mut Packet, bool) {
        // From the back: jitter rarely moves a packet past more than a few.
        let behind = self.packets.iter().rev().take_while(|held| held.leaves > leaves).count();
        let ahead = self.packets.len() - behind;
        (self.packets.insert(ahead, Packet::blank()), ahead == 0)
    }
}
