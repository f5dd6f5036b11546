//! A transmitter of given rate behind a drop-tail queue.

use crate::{
    AqmConfig, Change, DropCategory, DropCause, Error, LinkElement, PacketCount, PacketMeta, QueueSample, Ring, SampledQueue, Schedule,
    Verdict,
};
use polypath_base::{Bytes, Duration, Instant, Rate};
use serde::Deserialize;

/// Room of a queue, the packet in transmission included (as netem's `limit`).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// Of any length.
    Packets(u64),
    /// Framing bytes count.
    Bytes(Bytes),
}

/// Parameters of [`RateQueue`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateConfig {
    /// Bits per second; a rate of zero is refused.
    #[serde(rename = "bits_per_s")]
    pub rate: Rate,
    /// What more comes is dropped.
    pub queue: QueueLimit,
    /// Bytes added to each IP packet when it is timed and counted; default: Ethernet's 14, as netem
    /// counts.
    #[serde(rename = "framing_bytes", default = "default_framing")]
    pub framing: Bytes,
    /// Time that each packet spends in the queue at least, its place taken: what one netem with
    /// both `delay` and `rate` does.
    #[serde(rename = "hold_ns", default)]
    pub hold: Duration,
    /// Bytes, framing included, that may leave at once after a pause, as through a token bucket of
    /// that size; 0: each packet takes its time at the rate.
    #[serde(rename = "burst_bytes", default)]
    pub burst: Bytes,
    /// Later rates, by time; ascending.
    #[serde(default)]
    pub changes: Vec<Change<Rate>>,
    /// What keeps the queue short; none: a full queue refuses packets. The managed queue reads it,
    /// [`RateQueue`] does not.
    #[serde(default)]
    pub aqm: Option<AqmConfig>,
}

const MOST_BURST: Bytes = Bytes::new(1 << 30);
/// With it the length of a packet stays far below what a rate can be asked about.
const MOST_FRAMING: Bytes = Bytes::new(65_535);

fn default_framing() -> Bytes {
    Bytes::new(14)
}

impl Default for RateConfig {
    /// No rate, which is refused: give one. Room for 1000 packets, as netem's default.
    fn default() -> Self {
        let queue = QueueLimit::Packets(1000);
        let (hold, burst) = (Duration::ZERO, Bytes::ZERO);
        Self { rate: Rate::default(), queue, framing: default_framing(), hold, burst, changes: Vec::new(), aqm: None }
    }
}

impl RateConfig {
    /// The later rates; all that is said of the transmitter is checked.
    pub(crate) fn schedule(&self) -> Result<Schedule<Rate>, Error> {
        if self.burst > MOST_BURST {
            return Err(Error::caller(format!("a bucket of {:?} is too large; at most {MOST_BURST:?}", self.burst)));
        }
        if self.burst > Bytes::ZERO && self.aqm.is_some() {
            return Err(Error::caller("a token bucket's queue has no active queue management: leave out `burst` or `aqm`"));
        }
        if self.framing > MOST_FRAMING {
            return Err(Error::caller(format!("framing adds {:?} to each packet; at most {MOST_FRAMING:?} can be added", self.framing)));
        }
        if self.rate == Rate::default() || self.changes.iter().any(|change| change.to == Rate::default()) {
            return Err(Error::caller("a rate of zero lets nothing pass: use an outage for that"));
        }
        Schedule::of(&self.changes)
    }
}

/// Serialises packets one after the other; a packet leaves when its last bit has. What leaves at
/// the instant at which another arrives still takes room in a queue that drops its tail, as on Linux
/// most times (specs/notes/held-out); RED, PIE and [`RateQueue::admit`] count it no more. A sample
/// sees the queue after what leaves then and before what arrives.
#[derive(Clone, Debug)]
pub struct RateQueue {
    rate: Rate,
    /// Bytes added to each IP packet when it is timed and counted.
    framing: Bytes,
    /// Time that each packet spends in the queue at least before it may be transmitted; counted by
    /// the limit.
    hold: Duration,
    /// Size of the token bucket, and its time at the rate: so much earlier than the last bit would
    /// leave, a packet does.
    burst: (Bytes, Duration),
    limit: QueueLimit,
    /// When everything accepted so far has left; when the token bucket is full again.
    free: Instant,
    /// The last length and its time: most packets are as long as the one before.
    known: (Bytes, Duration),
    /// Packets that have not left at the time of the last arrival.
    waiting: Ring<Waiting>,
    bytes: Bytes,
    /// Later rates, taken as the transmitter reaches them.
    changes: Schedule<Rate>,
    drops: PacketCount,
    longest: u64,
    sampler: Sampler,
}

#[derive(Copy, Clone, Debug)]
struct Waiting {
    leaves: Instant,
    len: Bytes,
}

/// Samples at multiples of an interval are written down as time passes them, so that they are right
/// although the packets of later times may have been seen when somebody asks.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    interval: Duration,
    next: Instant,
    rows: Vec<QueueSample>,
}

impl Sampler {
    pub(crate) fn never() -> Self {
        Self { interval: Duration::ZERO, next: Instant::NEVER, rows: Vec::new() }
    }

    pub(crate) fn every(interval: Duration) -> Self {
        debug_assert!(interval > Duration::ZERO, "samples need an interval");
        Self { interval, next: Instant::ZERO, rows: Vec::new() }
    }

    /// The queue has been like this since the last sample and up to `at`.
    #[inline]
    pub(crate) fn fill(&mut self, at: Instant, sample: QueueSample) {
        while self.next <= at && self.next != Instant::NEVER {
            self.rows.push(sample);
            self.next += self.interval;
        }
    }

    /// The samples up to and including `end`.
    pub(crate) fn until(&self, end: Instant) -> &[QueueSample] {
        // A packet that has passed a delay before a queue may have been seen at a time that lies
        // beyond the end.
        let count = end.as_nanos().checked_div(self.interval.as_nanos()).map_or(0, |last| last as usize + 1);
        &self.rows[..count.min(self.rows.len())]
    }
}

impl RateQueue {
    /// # Errors
    /// A rate is zero, the queue has no room, or the changes are not in ascending order of time.
    pub fn new(config: RateConfig) -> Result<Self, Error> {
        let changes = config.schedule()?;
        let RateConfig { rate, queue: limit, framing, hold, burst, .. } = config;
        if matches!(limit, QueueLimit::Packets(0) | QueueLimit::Bytes(Bytes::ZERO)) {
            return Err(Error::caller("a queue without room lets nothing pass: the packet in transmission counts, so 1 is the least"));
        }
        Ok(Self {
            rate,
            framing,
            hold,
            burst: (burst, rate.time_for(burst)),
            limit,
            free: Instant::ZERO,
            known: (Bytes::ZERO, Duration::ZERO),
            waiting: Ring::new(Waiting { leaves: Instant::ZERO, len: Bytes::ZERO }),
            bytes: Bytes::ZERO,
            changes,
            drops: PacketCount::default(),
            longest: 0,
            sampler: Sampler::never(),
        })
    }

    /// When a packet that arrives at `at` leaves; none if it finds no room.
    #[inline]
    pub(crate) fn pass(&mut self, at: Instant, packet: PacketMeta) -> Option<Instant> {
        if at >= self.sampler.next {
            self.sample_until(at);
        }
        self.drain_before(at);
        let len = packet.len + self.framing;
        if !self.has_room(len) {
            self.drops.add(packet.len);
            return None;
        }
        self.drain(at);
        let ready = at + self.hold;
        let start = ready.max(self.free);
        if len != self.known.0 {
            self.known = (len, self.rate.time_for(len));
        }
        let mut free = start + self.known.1;
        if free > self.changes.next_at() {
            free = self.across_changes(start, len);
        }
        self.free = free;
        let mut leaves = Instant::from_nanos(free.as_nanos().saturating_sub(self.burst.1.as_nanos())).max(ready);
        if self.burst.0 > Bytes::ZERO
            && let Some(last) = self.waiting.iter().next_back()
        {
            // Where the rate has fallen the bucket stands for more time, which is none for a packet
            // to overtake others in.
            leaves = leaves.max(last.leaves);
        }
        debug_assert!(
            self.waiting.iter().next_back().is_none_or(|last| last.leaves <= leaves),
            "packets leave in the order in which they came"
        );
        self.bytes += len;
        *self.waiting.push() = Waiting { leaves, len };
        self.longest = self.longest.max(self.waiting.len() as u64);
        Some(leaves)
    }

    /// Room for a packet that arrives at `at`, for a caller that knows when it leaves
    /// ([`RateQueue::append`]): its length with framing, or none.
    pub(crate) fn admit(&mut self, at: Instant, packet: PacketMeta) -> Option<Bytes> {
        self.pass_time(at);
        let len = packet.len + self.framing;
        if !self.has_room(len) {
            self.drops.add(packet.len);
            return None;
        }
        Some(len)
    }

    /// Whether a packet of this length, framing included, finds room.
    #[inline]
    fn has_room(&self, len: Bytes) -> bool {
        match self.limit {
            QueueLimit::Packets(n) => (self.waiting.len() as u64) < n,
            QueueLimit::Bytes(n) => self.bytes + len <= n,
        }
    }

    /// Passes a packet on which active queue management has decided: one that it hit is marked if
    /// it may be, and dropped otherwise.
    #[inline]
    pub(crate) fn transit_managed(&mut self, at: Instant, packet: PacketMeta, hit: bool, may_be_marked: bool) -> Verdict {
        if hit && !may_be_marked {
            self.drops.add(packet.len);
            return Verdict::Drop(DropCause::AqmDrop);
        }
        match self.transit(at, packet) {
            Verdict::Pass(leaves) if hit => Verdict::Mark(leaves),
            other => other,
        }
    }

    /// A packet for which there was room leaves at this time, not before those that came earlier.
    pub(crate) fn append(&mut self, leaves: Instant, packet: PacketMeta) {
        let len = packet.len + self.framing;
        debug_assert!(leaves >= self.free, "packets leave in the order in which they came");
        self.free = leaves;
        self.bytes += len;
        *self.waiting.push() = Waiting { leaves, len };
        self.longest = self.longest.max(self.waiting.len() as u64);
    }

    /// Forgets what has left by `at`, the time of the next packet.
    pub(crate) fn pass_time(&mut self, at: Instant) {
        if at >= self.sampler.next {
            self.sample_until(at);
        }
        self.drain(at);
    }

    /// What had not left when time was last passed, framing included.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Since when nothing waits or is being sent; none if something does.
    pub(crate) fn idle_since(&self, at: Instant) -> Option<Instant> {
        (self.free <= at).then_some(self.free)
    }

    /// How long all that has arrived takes from `at` on until it has left.
    pub(crate) fn delay_at(&self, at: Instant) -> Duration {
        self.free.since(at)
    }

    /// How long an IP packet of this length takes at the present rate.
    pub(crate) fn time_for(&self, len: Bytes) -> Duration {
        self.rate.time_for(len + self.framing)
    }

    /// Forgets what has left before `at`: what leaves at this instant still takes room.
    #[inline]
    fn drain_before(&mut self, at: Instant) {
        while let Some(first) = self.waiting.front() {
            if first.leaves >= at {
                break;
            }
            self.bytes -= first.len;
            self.waiting.pop();
        }
        debug_assert!(!self.waiting.is_empty() || self.bytes == Bytes::ZERO, "an empty queue holds no bytes");
    }

    /// Forgets what has left by `at`.
    #[inline]
    fn drain(&mut self, at: Instant) {
        self.drain_before(at + Duration::from_nanos(1));
    }

    #[cold]
    fn sample_until(&mut self, at: Instant) {
        while self.sampler.next <= at && self.sampler.next != Instant::NEVER {
            self.drain(self.sampler.next);
            self.sampler.rows.push(QueueSample { packets: self.waiting.len() as u32, bytes: self.bytes, drops: self.drops.packets });
            self.sampler.next += self.sampler.interval;
        }
    }

    /// When a packet of length `len` has left whose transmission begins at `start`, the rate
    /// changing meanwhile or before.
    #[cold]
    fn across_changes(&mut self, start: Instant, len: Bytes) -> Instant {
        // In units of bit ns / s. 2^32 bytes * 8e9 and 2^64 bit/s * 2^64 ns both fit in 128 bits.
        let mut left = u128::from(len.get()) * 8_000_000_000;
        let mut at = start;
        loop {
            if let Some(rate) = self.changes.advance(at) {
                self.rate = rate;
                self.known = (Bytes::ZERO, Duration::ZERO);
                self.burst.1 = rate.time_for(self.burst.0);
            }
            let rate = u128::from(self.rate.as_bits_per_sec());
            let next = self.changes.next_at();
            let sent = rate * u128::from(next.since(at).as_nanos());
            if next == Instant::NEVER || sent >= left {
                return at + Duration::from_nanos((left / rate) as u64);
            }
            left -= sent;
            at = next;
        }
    }
}

impl LinkElement for RateQueue {
    #[inline]
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        self.pass(at, packet).map_or(Verdict::Drop(DropCause::QueueFull), Verdict::Pass)
    }

    fn drops(&self) -> PacketCount {
        self.drops
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Queue)
    }

    fn queue(&self) -> Option<&dyn SampledQueue> {
        Some(self)
    }

    fn queue_mut(&mut self) -> Option<&mut dyn SampledQueue> {
        Some(self)
    }
}

impl SampledQueue for RateQueue {
    fn sample_every(&mut self, interval: Duration) {
        self.sampler = Sampler::every(interval);
    }

    fn samples(&mut self, end: Instant) -> &[QueueSample] {
        if end >= self.sampler.next {
            self.sample_until(end);
        }
        self.sampler.until(end)
    }

    fn longest(&self) -> u64 {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodelConfig;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    fn rate(bits: u64) -> Rate {
        Rate::from_bits_per_sec(bits)
    }

    fn of(len: u32) -> PacketMeta {
        PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, ..PacketMeta::default() }
    }

    /// 8 Mbit/s without framing: a byte takes 1 us.
    fn queue(limit: QueueLimit, changes: Vec<(Instant, Rate)>) -> RateQueue {
        let changes = changes.into_iter().map(|(at, to)| Change { at, to }).collect();
        RateQueue::new(RateConfig { changes, ..config(limit) }).unwrap()
    }

    fn config(limit: QueueLimit) -> RateConfig {
        RateConfig { rate: rate(8_000_000), queue: limit, framing: Bytes::ZERO, ..RateConfig::default() }
    }

    #[test]
    fn a_packet_leaves_when_fully_sent() {
        let mut queue = queue(QueueLimit::Packets(10), vec![]);
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(100)));
        assert_eq!(queue.transit(us(10), of(50)), Verdict::Pass(us(150)));
        assert_eq!(queue.transit(us(500), of(100)), Verdict::Pass(us(600)));
    }

    #[test]
    fn framing_counts_on_the_wire_and_in_the_queue() {
        let mut queue = RateQueue::new(RateConfig { framing: Bytes::new(14), ..config(QueueLimit::Bytes(Bytes::new(228))) }).unwrap();
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(114)));
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(228)));
        assert_eq!(queue.transit(us(114), of(1)), Verdict::Drop(DropCause::QueueFull));
        assert_eq!(queue.transit(us(115), of(1)), Verdict::Pass(us(243)));
    }

    #[test]
    fn the_packet_in_transmission_counts_until_it_has_left() {
        let mut queue = queue(QueueLimit::Packets(2), vec![]);
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(100)));
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(200)));
        assert_eq!(queue.transit(us(100), of(100)), Verdict::Drop(DropCause::QueueFull));
        assert_eq!(queue.transit(us(101), of(100)), Verdict::Pass(us(300)));
        assert_eq!((queue.drops().packets, queue.longest()), (1, 2));
    }

    #[test]
    fn a_change_of_rate_meets_a_packet_half_way() {
        // 100 bytes: 40 us at a byte a us, then 60 bytes at two bytes a us.
        let mut queue =
            queue(QueueLimit::Packets(10), vec![(us(40), rate(16_000_000)), (us(1000), rate(4_000_000)), (us(1010), rate(8_000_000))]);
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(70)));
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(120)));
        // From 990: 20 bytes until 1000, 5 until 1010, the other 75 at a byte a us.
        assert_eq!(queue.transit(us(990), of(100)), Verdict::Pass(us(1085)));
        assert_eq!(queue.transit(us(2000), of(100)), Verdict::Pass(us(2100)));
    }

    #[test]
    fn a_change_long_before_the_next_packet_counts() {
        let mut queue = queue(QueueLimit::Packets(10), vec![(us(500), rate(16_000_000))]);
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(100)));
        assert_eq!(queue.transit(us(700), of(100)), Verdict::Pass(us(750)));
    }

    #[test]
    fn a_held_packet_takes_its_place_in_the_queue() {
        let mut queue = RateQueue::new(RateConfig { hold: Duration::from_micros(1000), ..config(QueueLimit::Packets(2)) }).unwrap();
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(1100)));
        assert_eq!(queue.transit(us(0), of(100)), Verdict::Pass(us(1200)));
        assert_eq!(queue.transit(us(1), of(100)), Verdict::Drop(DropCause::QueueFull));
    }

    #[test]
    fn what_a_token_bucket_holds_leaves_at_once() {
        // A byte a microsecond, and a bucket of 150.
        let mut queue = RateQueue::new(RateConfig { burst: Bytes::new(150), ..config(QueueLimit::Packets(3)) }).unwrap();
        assert_eq!(queue.transit(us(1000), of(100)), Verdict::Pass(us(1000)), "the bucket is full");
        assert_eq!(queue.transit(us(1000), of(100)), Verdict::Pass(us(1050)), "50 are left of it");
        assert_eq!(queue.transit(us(1000), of(100)), Verdict::Pass(us(1150)));
        assert_eq!(queue.transit(us(1299), of(150)), Verdict::Pass(us(1300)), "149 have come since");
        assert_eq!(queue.transit(us(2000), of(150)), Verdict::Pass(us(2000)), "it holds no more than 150");
        assert_eq!(queue.transit(us(2000), of(150)), Verdict::Pass(us(2150)));
    }

    #[test]
    fn samples_show_the_queue_of_their_time() {
        let mut queue = queue(QueueLimit::Packets(2), vec![]);
        queue.sample_every(Duration::from_micros(100));
        for at in [50, 60, 70, 250] {
            queue.transit(us(at), of(100));
        }
        let rows: Vec<_> = queue.samples(us(400)).iter().map(|row| (row.packets, row.bytes.get(), row.drops)).collect();
        // 50..150 and 150..250 are in transmission, the one of 70 was refused, 250..350 follows.
        assert_eq!(rows, [(0, 0, 0), (2, 200, 1), (1, 100, 1), (1, 100, 1), (0, 0, 1)]);
    }

    #[test]
    fn samples_end_where_the_run_does() {
        let mut queue = queue(QueueLimit::Packets(2), vec![]);
        queue.sample_every(Duration::from_micros(100));
        queue.transit(us(950), of(100));
        assert_eq!(queue.samples(us(399)).len(), 4);
        assert_eq!(queue.samples(us(400)).len(), 5);
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let refused = |config: RateConfig| RateQueue::new(config).is_err();
        let sound = config(QueueLimit::Packets(1));
        assert!(refused(RateConfig { rate: rate(0), ..sound.clone() }));
        assert!(refused(RateConfig { changes: vec![Change { at: us(1), to: rate(0) }], ..sound }));
        assert!(refused(config(QueueLimit::Packets(0))));
        let sound = config(QueueLimit::Packets(1));
        let aqm = Some(AqmConfig::Codel(CodelConfig::DEFAULT));
        assert!(refused(RateConfig { burst: Bytes::new(1), aqm, ..sound.clone() }));
        assert!(!refused(RateConfig { burst: MOST_BURST, framing: MOST_FRAMING, ..sound.clone() }));
        assert!(refused(RateConfig { burst: MOST_BURST + Bytes::new(1), ..sound.clone() }));
        assert!(refused(RateConfig { framing: MOST_FRAMING + Bytes::new(1), ..sound }));
    }
}
