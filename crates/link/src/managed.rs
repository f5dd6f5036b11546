//! What transmitters behind managed queues share: they send one packet at a time, and choose the
//! next one when they are free.

use crate::rate::Sampler;
use crate::{
    Dequeued, DropCategory, Error, HoldingQueue, LinkElement, PacketCount, PacketMeta, QueueSample, RateConfig, SampledQueue, Schedule,
    Verdict,
};
use polypath_base::{Bytes, Duration, Instant, Rate};

/// What is sent, and counts of what waits.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    rate: Rate,
    pub(crate) framing: Bytes,
    changes: Schedule<Rate>,
    /// Length with framing of what is being transmitted, until when.
    serving: Option<(Bytes, Instant)>,
    /// Those in transmission included.
    pub(crate) packets: u32,
    pub(crate) bytes: Bytes,
    pub(crate) dropped: Vec<u32>,
    pub(crate) drops: PacketCount,
    marks: u64,
    longest: u64,
    sampler: Sampler,
}

impl Transmitter {
    pub(crate) fn new(config: RateConfig) -> Result<Self, Error> {
        let changes = config.schedule()?;
        let RateConfig { rate, framing, .. } = config;
        Ok(Self {
            rate,
            framing,
            changes,
            serving: None,
            packets: 0,
            bytes: Bytes::ZERO,
            dropped: Vec::new(),
            drops: PacketCount::default(),
            marks: 0,
            longest: 0,
            sampler: Sampler::never(),
        })
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serving.is_some()
    }

    /// A packet of so many bytes of IP is dropped.
    pub(crate) fn drop(&mut self, slot: u32, ip_len: Bytes) {
        self.drops.add(ip_len);
        self.dropped.push(slot);
    }

    fn sample_until(&mut self, at: Instant) {
        let sample = QueueSample { packets: self.packets, bytes: self.bytes, drops: self.drops.packets };
        self.sampler.fill(at, sample);
    }

    /// What was being transmitted has left.
    fn finish(&mut self, at: Instant) {
        if let Some((len, until)) = self.serving.take() {
            debug_assert!(until <= at, "one packet is transmitted at a time");
            (self.packets, self.bytes) = (self.packets - 1, self.bytes - len);
        }
    }

    fn begin(&mut self, at: Instant, chosen: Option<Chosen>) -> Option<Dequeued> {
        let Some(Chosen { slot, len, marked }) = chosen else {
            debug_assert_eq!((self.packets, self.bytes), (0, Bytes::ZERO), "nothing waits where nothing can be chosen");
            return None;
        };
        if let Some(rate) = self.changes.advance(at) {
            self.rate = rate;
        }
        self.marks += u64::from(marked);
        let leaves = at + self.rate.time_for(len);
        self.serving = Some((len, leaves));
        Some(Dequeued { slot, leaves, marked })
    }
}

impl SampledQueue for Transmitter {
    fn sample_every(&mut self, interval: Duration) {
        self.sampler = Sampler::every(interval);
    }

    fn samples(&mut self, end: Instant) -> &[QueueSample] {
        self.sample_until(end);
        self.sampler.until(end)
    }

    fn longest(&self) -> u64 {
        self.longest
    }
}

/// A packet that is sent next: its number, and its length with framing.
pub(crate) struct Chosen {
    pub(crate) slot: u32,
    pub(crate) len: Bytes,
    pub(crate) marked: bool,
}

/// The queues in front of a transmitter.
pub(crate) trait ManagedQueue {
    fn sending(&self) -> &Transmitter;

    fn sending_mut(&mut self) -> &mut Transmitter;

    /// A packet waits, or is dropped; both are counted in [`Transmitter`].
    fn insert(&mut self, at: Instant, packet: PacketMeta, slot: u32);

    /// Takes the packet whose turn it is, and drops others.
    fn choose(&mut self, at: Instant) -> Option<Chosen>;
}

impl<Q: ManagedQueue> HoldingQueue for Q {
    fn enqueue(&mut self, at: Instant, packet: PacketMeta, slot: u32) {
        self.sending_mut().sample_until(at);
        self.insert(at, packet, slot);
        let sending = self.sending_mut();
        sending.longest = sending.longest.max(u64::from(sending.packets));
    }

    fn dequeue(&mut self, at: Instant) -> Option<Dequeued> {
        self.sending_mut().sample_until(at);
        self.sending_mut().finish(at);
        let chosen = self.choose(at);
        self.sending_mut().begin(at, chosen)
    }

    fn is_transmitting(&self) -> bool {
        self.sending().is_serving()
    }

    fn take_dropped(&mut self) -> Option<u32> {
        self.sending_mut().dropped.pop()
    }
}

impl<Q: ManagedQueue> LinkElement for Q {
    /// It decides when it sends; the caller hands the packet to [`HoldingQueue::enqueue`].
    fn transit(&mut self, _at: Instant, _packet: PacketMeta) -> Verdict {
        Verdict::Enqueue
    }

    fn drops(&self) -> PacketCount {
        self.sending().drops
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Queue)
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn enqueues(&self) -> bool {
        true
    }

    fn queue(&self) -> Option<&dyn SampledQueue> {
        Some(self.sending())
    }

    fn queue_mut(&mut self) -> Option<&mut dyn SampledQueue> {
        Some(self.sending_mut())
    }

    fn marks(&self) -> u64 {
        self.sending().marks
    }
}
