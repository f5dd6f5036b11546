//! Random early detection (S. Floyd and V. Jacobson 1993): the longer the queue is on average, the
//! likelier a packet is dropped or marked.

use crate::{DropCategory, Error, LinkElement, PacketCount, PacketMeta, RateConfig, RateQueue, RedConfig, SampledQueue, Verdict};
use polypath_base::{Bytes, Duration, Instant, Rng};

/// A transmitter behind a queue that is managed by RED.
#[derive(Clone, Debug)]
pub struct Red {
    queue: RateQueue,
    config: RedConfig,
    /// Bytes times 2^`weight_log`.
    average: u64,
    /// Packets since the last one that was dropped or marked.
    count: i64,
    /// A number from 0 to 1, drawn for each of these.
    drawn: f64,
    marks: u64,
    rng: Rng,
}

impl Red {
    /// `transmitter` is what sends the packets that pass.
    pub fn new(transmitter: RateConfig, config: RedConfig, rng: Rng) -> Result<Self, Error> {
        let queue = RateQueue::new(transmitter)?;
        if config.min >= config.max {
            return Err(Error::caller("RED needs a `min` below its `max`"));
        }
        if !(config.probability > 0.0 && config.probability <= 1.0) {
            return Err(Error::caller(format!("RED's probability is {}; it lies above 0 and at most at 1", config.probability)));
        }
        if !(1..=31).contains(&config.weight_log) || !(1..=65_535).contains(&config.mean_packet.get()) {
            return Err(Error::caller("RED's weight_log lies between 1 and 31, and its mean packet has 1 to 65535 bytes"));
        }
        Ok(Self { queue, config, average: 0, count: -1, drawn: 0.0, marks: 0, rng })
    }

    /// Of packets between two that are hit, each is as likely to be the next: the probability grows
    /// with their number.
    fn should_drop(&mut self, average: Bytes) -> bool {
        let RedConfig { min, max, probability, .. } = self.config;
        debug_assert!(min <= average && average < max, "below `min` none is hit, from `max` on all are");
        self.count += 1;
        if self.count > 0 {
            let share = (average - min).get() as f64 / (max - min).get() as f64;
            if share * probability * self.count as f64 >= self.drawn {
                (self.count, self.drawn) = (0, self.draw());
                return true;
            }
        } else {
            self.drawn = self.draw();
        }
        false
    }

    fn draw(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / 4_294_967_296.0
    }

    /// While the queue is empty the average falls as if small packets passed.
    fn decay_idle_average(&mut self, idle: Duration) {
        let one = self.queue.time_for(self.config.mean_packet).as_nanos().max(1);
        let mut packets = idle.as_nanos() / one;
        // (1 - 2^-weight_log)^packets by squaring, of 2^32: products of two stay below 2^64.
        let (mut factor, mut power) = (1_u64 << 32, (1_u64 << 32) - (1 << (32 - self.config.weight_log)));
        while packets > 0 && factor > 0 {
            if packets & 1 == 1 {
                factor = (factor * power) >> 32;
            }
            power = (power * power) >> 32;
            packets >>= 1;
        }
        debug_assert!(factor <= 1 << 32, "an average does not grow while nothing comes");
        self.average = ((u128::from(self.average) * u128::from(factor)) >> 32) as u64;
    }
}

impl LinkElement for Red {
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        self.queue.pass_time(at);
        if let Some(since) = self.queue.idle_since(at) {
            self.decay_idle_average(at.since(since));
        }
        self.average = self.average + self.queue.bytes().get() - (self.average >> self.config.weight_log);
        let hit = match Bytes::new(self.average >> self.config.weight_log) {
            average if average < self.config.min => {
                self.count = -1;
                false
            }
            average if average >= self.config.max => {
                self.count = -1;
                true
            }
            average => self.should_drop(average),
        };
        let verdict = self.queue.transit_managed(at, packet, hit, self.config.ecn && packet.ect);
        self.marks += u64::from(matches!(verdict, Verdict::Mark(_)));
        verdict
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

    fn marks(&self) -> u64 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DropCause, QueueLimit};
    use polypath_base::Rate;

    const CONFIG: RedConfig = RedConfig {
        min: Bytes::new(10_000),
        max: Bytes::new(30_000),
        probability: 0.1,
        weight_log: 5,
        mean_packet: Bytes::new(1000),
        ecn: true,
    };

    /// 8 Mbit/s: a microsecond a byte.
    fn red(config: RedConfig) -> Red {
        let rate = Rate::from_bits_per_sec(8_000_000);
        let transmitter = RateConfig { rate, queue: QueueLimit::Bytes(Bytes::new(200_000)), framing: Bytes::ZERO, ..RateConfig::default() };
        Red::new(transmitter, config, Rng::new(1, "red")).unwrap()
    }

    fn packet(ect: bool) -> PacketMeta {
        PacketMeta { len: Bytes::new(1000), payload: true, df: true, ect, ..PacketMeta::default() }
    }

    /// Packets that keep the queue at about `level`; how many of them were hit.
    fn hits(red: &mut Red, level: u64, packets: u64, ect: bool) -> u64 {
        let (mut at, mut hits) = (Instant::ZERO + Duration::from_secs(1), 0);
        for _ in 0..packets {
            red.queue.pass_time(at);
            while red.queue.bytes().get() < level {
                hits += u64::from(!matches!(red.transit(at, packet(ect)), Verdict::Pass(_)));
            }
            at += Duration::from_micros(1000);
        }
        hits
    }

    #[test]
    fn nothing_is_hit_below_the_minimum_and_everything_above_the_maximum() {
        assert_eq!(hits(&mut red(CONFIG), 9_000, 2000, true), 0);
        let mut full = red(CONFIG);
        hits(&mut full, 40_000, 2000, true);
        let at = Instant::ZERO + Duration::from_millis(3001);
        assert!(matches!(full.transit(at, packet(true)), Verdict::Mark(_)));
        assert_eq!(full.transit(at, packet(false)), Verdict::Drop(DropCause::AqmDrop));
    }

    #[test]
    fn between_them_the_share_of_hits_is_twice_the_probability_of_the_average() {
        // Half way: 5 %. Gaps between hits are uniform from 1 to 1 / 5 %, so their mean is half of
        // that (section 8 of the paper).
        let mut red = red(CONFIG);
        let hit = hits(&mut red, 20_500, 20_000, true) as f64 / 20_000.0;
        assert!((0.085..0.115).contains(&hit), "{hit}");
        assert_eq!((red.marks() > 1500, red.drops().packets), (true, 0));
    }

    #[test]
    fn an_idle_link_forgets() {
        let mut red = red(CONFIG);
        hits(&mut red, 20_500, 2000, true);
        let before = red.average;
        // The queue empties in 20 ms; then 32 packets' time are one halving and a half: (31/32)^32
        // = 0.362.
        red.transit(Instant::ZERO + Duration::from_millis(3000 + 20 + 32), packet(true));
        let left = red.average as f64 / before as f64;
        assert!((0.33..0.40).contains(&left), "{left}");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let transmitter = || RateConfig { rate: Rate::from_bits_per_sec(8_000_000), ..RateConfig::default() };
        for wrong in [
            RedConfig { min: Bytes::new(30_000), ..CONFIG },
            RedConfig { probability: 0.0, ..CONFIG },
            RedConfig { weight_log: 0, ..CONFIG },
        ] {
            assert!(Red::new(transmitter(), wrong, Rng::new(1, "red")).is_err());
        }
    }
}
