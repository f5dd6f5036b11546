//! A transmitter whose every chance to send was recorded, as mahimahi's link shells replay it (R.
//! Netravali et al. 2015).

use crate::{
    DropCategory, DropCause, Error, LinkElement, PacketCount, PacketMeta, QueueLimit, RateConfig, RateQueue, SampledQueue, Verdict,
};
use polypath_base::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Deserializer};

/// Parameters of [`Trace`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// When so many bytes may leave, since the trace's start, ascending; of equal ones each is a
    /// chance.
    #[serde(rename = "chances_ms", deserialize_with = "milliseconds")]
    pub chances: Vec<Duration>,
    /// That leave at each chance; mahimahi's is 1504.
    pub bytes: Bytes,
    /// What more comes is dropped.
    pub queue: QueueLimit,
    /// Bytes added to each IP packet when it is counted.
    #[serde(rename = "framing_bytes")]
    pub framing: Bytes,
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    Ok(Vec::<u64>::deserialize(deserializer)?.into_iter().map(Duration::from_millis).collect())
}

/// When so many bytes may leave; after its last chance the trace begins anew.
#[derive(Clone, Debug)]
pub struct Trace {
    queue: RateQueue,
    /// Ascending, since the trace's start.
    chances: Vec<Duration>,
    period: Duration,
    /// What leaves at each.
    bytes: Bytes,
    /// The chance that is next or partly used: which of the trace, and when the trace began that it
    /// belongs to.
    next: usize,
    lap: Instant,
    /// What of that chance is left for packets that had arrived by then.
    left: Bytes,
}

impl Trace {
    /// # Errors
    /// The queue has no room; there is no chance, or they do not ascend; the trace takes no time,
    /// or nothing may leave.
    pub fn new(config: TraceConfig) -> Result<Self, Error> {
        let TraceConfig { chances, bytes, queue, framing } = config;
        // The queue has the room and the framing; its rate is never used.
        let queue = RateQueue::new(RateConfig { rate: Rate::from_bits_per_sec(1), queue, framing, ..RateConfig::default() })?;
        let Some(&period) = chances.last() else { return Err(Error::caller("a trace needs at least one chance to send")) };
        if !chances.is_sorted() {
            return Err(Error::caller("the times of a trace must ascend"));
        }
        if period == Duration::ZERO || bytes == Bytes::ZERO {
            return Err(Error::caller("a trace lasts some time, and something may leave at each of its chances"));
        }
        Ok(Self { queue, chances, period, bytes, next: 0, lap: Instant::ZERO, left: bytes })
    }

    /// When the present chance is.
    fn time(&self) -> Instant {
        self.lap + self.chances[self.next]
    }

    fn advance(&mut self) {
        self.left = self.bytes;
        self.next += 1;
        if self.next == self.chances.len() {
            self.next = 0;
            self.lap += self.period;
        }
    }

    /// The first chance at `at` or later.
    #[cold]
    fn skip_to(&mut self, at: Instant) {
        let laps = at.since(self.lap).as_nanos() / self.period.as_nanos();
        self.lap += self.period * laps;
        let into = at.since(self.lap);
        self.next = self.chances.partition_point(|&chance| chance < into);
        debug_assert!(self.next < self.chances.len(), "the last chance ends the trace");
        self.left = self.bytes;
    }
}

impl LinkElement for Trace {
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        let Some(mut len) = self.queue.admit(at, packet) else { return Verdict::Drop(DropCause::QueueFull) };
        if self.time() < at {
            // Opportunities without a packet are gone.
            self.skip_to(at);
        }
        while len > self.left {
            len -= self.left;
            self.advance();
        }
        self.left -= len;
        let leaves = self.time();
        if self.left == Bytes::ZERO {
            self.advance();
        }
        self.queue.append(leaves, packet);
        Verdict::Pass(leaves)
    }

    fn drops(&self) -> PacketCount {
        self.queue.drops()
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Queue)
    }

    fn queue(&self) -> Option<&dyn SampledQueue> {
        Some(&self.queue)
    }

    fn queue_mut(&mut self) -> Option<&mut dyn SampledQueue> {
        Some(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(chances_ms: &[u64], limit: u64) -> Trace {
        Trace::new(config(chances_ms.iter().map(|&ms| Duration::from_millis(ms)).collect(), limit)).unwrap()
    }

    fn config(chances: Vec<Duration>, limit: u64) -> TraceConfig {
        TraceConfig { chances, bytes: Bytes::new(1504), queue: QueueLimit::Packets(limit), framing: Bytes::new(4) }
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn of(len: u32) -> PacketMeta {
        PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, ..PacketMeta::default() }
    }

    fn leave(trace: &mut Trace, packets: &[(u64, u32)]) -> Vec<Option<u64>> {
        let passes = packets.iter().map(|&(at, len)| match trace.transit(ms(at), of(len)) {
            Verdict::Pass(leaves) => Some(leaves.as_micros() / 1000),
            _ => None,
        });
        passes.collect()
    }

    #[test]
    fn a_full_packet_leaves_at_each_chance_and_the_trace_begins_anew() {
        let packets = [(0, 1500), (0, 1500), (0, 1500), (0, 1500), (0, 1500), (0, 1500)];
        assert_eq!(leave(&mut trace(&[3, 3, 7, 10], 100), &packets), [3, 3, 7, 10, 13, 13].map(Some));
    }

    #[test]
    fn small_packets_share_a_chance_and_long_ones_take_several() {
        let packets = [(0, 748), (0, 748), (0, 2000), (0, 1500)];
        // 752 + 752; then 2004 of 3008 bytes, of which 1004 are left for the next.
        assert_eq!(leave(&mut trace(&[1, 2, 3, 4, 5], 100), &packets), [1, 1, 3, 4].map(Some));
    }

    #[test]
    fn what_nobody_used_is_gone() {
        let packets = [(0, 100), (1, 100), (25, 100), (500_000, 100)];
        // The second arrives when the first chance is, and finds some of it left; at 25 ms the
        // third lap is half through.
        assert_eq!(leave(&mut trace(&[1, 8, 10], 100), &packets), [1, 1, 28, 500_001].map(Some));
    }

    #[test]
    fn a_full_queue_refuses() {
        let mut trace = trace(&[10], 2);
        assert_eq!(leave(&mut trace, &[(0, 1500), (0, 1500), (0, 1500), (11, 1500)]), [Some(10), Some(20), None, Some(30)]);
        assert_eq!((trace.drops().packets, trace.queue.longest()), (1, 2));
    }

    #[test]
    fn a_trace_without_time_is_refused() {
        for wrong in [vec![], vec![Duration::ZERO], vec![Duration::from_millis(2), Duration::from_millis(1)]] {
            assert!(Trace::new(config(wrong, 1)).is_err());
        }
    }
}
