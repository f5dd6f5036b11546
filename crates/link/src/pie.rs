//! PIE (RFC 8033): the probability of dropping follows the queueing delay, as a controller with two
//! terms.

use crate::{DropCategory, Error, LinkElement, PacketCount, PacketMeta, PieConfig, RateConfig, RateQueue, SampledQueue, Verdict};
use polypath_base::{Bytes, Duration, Instant, Rng};

/// A transmitter behind a queue that is managed by PIE.
#[derive(Clone, Debug)]
pub struct Pie {
    queue: RateQueue,
    config: PieConfig,
    probability: f64,
    /// What the last update saw, and when the next one is due.
    old_delay: Duration,
    next_update: Instant,
    /// Time for which nothing is dropped yet.
    burst: Duration,
    /// Sum of the probabilities since the last drop (section 5.4).
    accumulated: f64,
    marks: u64,
    rng: Rng,
}

/// Two packets of this length in the queue are none (section 4.1).
const FULL_PACKET: Bytes = Bytes::new(1514);
/// Above this probability marks give way to drops (section 5.1).
const MOST_MARKED: f64 = 0.1;

impl Pie {
    /// `transmitter` is what sends the packets that pass.
    pub fn new(transmitter: RateConfig, config: PieConfig, rng: Rng) -> Result<Self, Error> {
        let queue = RateQueue::new(transmitter)?;
        if config.target == Duration::ZERO || config.update == Duration::ZERO {
            return Err(Error::caller("PIE needs a target and an interval of updates above zero"));
        }
        if !(config.alpha >= 0.0 && config.beta >= 0.0) {
            return Err(Error::caller("PIE's alpha and beta are at least 0"));
        }
        let burst = config.max_burst;
        let (old_delay, next_update) = (Duration::ZERO, Instant::ZERO + config.update);
        Ok(Self { queue, config, probability: 0.0, old_delay, next_update, burst, accumulated: 0.0, marks: 0, rng })
    }

    /// Sections 4.1 and 5.4.
    fn should_drop(&mut self) -> bool {
        if self.burst > Duration::ZERO {
            return false;
        }
        let half = Duration::from_nanos(self.config.target.as_nanos() / 2);
        if (self.old_delay < half && self.probability < 0.2) || self.queue.bytes() <= FULL_PACKET + FULL_PACKET {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < 0.85 {
            return false;
        }
        let hit = self.accumulated >= 8.5 || f64::from(self.rng.next_u32()) < self.probability * 4_294_967_296.0;
        if hit {
            self.accumulated = 0.0;
        }
        hit
    }

    /// The probability is calculated anew (section 4.2, with the limits of 5.2 and 5.3).
    fn update(&mut self) {
        let delay = self.queue.delay_at(self.next_update);
        let PieConfig { target, update, alpha, beta, max_burst, .. } = self.config;
        let seconds = |span: Duration| span.as_nanos() as f64 * 1e-9;
        let mut step = alpha * (seconds(delay) - seconds(target)) + beta * (seconds(delay) - seconds(self.old_delay));
        // Small probabilities move slowly.
        let bounds = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
        step /= bounds.into_iter().find(|(bound, _)| self.probability < *bound).map_or(1.0, |(_, divisor)| divisor);
        if self.probability >= 0.1 {
            step = step.min(0.02);
        }
        if delay > Duration::from_millis(250) {
            step += 0.02;
        }
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        if delay == Duration::ZERO && self.old_delay == Duration::ZERO {
            self.probability *= 0.98;
        }
        // Below what any run can tell from nothing, so that an idle link comes to rest.
        if self.probability < 1e-12 {
            self.probability = 0.0;
        }
        self.burst = self.burst - update;
        let half = Duration::from_nanos(target.as_nanos() / 2);
        if self.probability == 0.0 && delay < half && self.old_delay < half {
            self.burst = max_burst;
        }
        self.old_delay = delay;
        self.next_update += update;
    }
}

impl LinkElement for Pie {
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        while self.next_update <= at {
            self.update();
        }
        self.queue.pass_time(at);
        let hit = self.should_drop();
        let may_be_marked = self.config.ecn && packet.ect && self.probability <= MOST_MARKED;
        let verdict = self.queue.transit_managed(at, packet, hit, may_be_marked);
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
    use polypath_base::Rate;

    /// 8 Mbit/s: a microsecond a byte.
    fn pie(config: PieConfig) -> Pie {
        let transmitter = RateConfig { rate: Rate::from_bits_per_sec(8_000_000), framing: Bytes::ZERO, ..RateConfig::default() };
        Pie::new(transmitter, config, Rng::new(1, "pie")).unwrap()
    }

    fn packet(ect: bool) -> PacketMeta {
        PacketMeta { len: Bytes::new(1000), payload: true, df: true, ect, ..PacketMeta::default() }
    }

    /// A packet every `gap`; the queueing delay of each that passed, and how many were hit.
    fn load(pie: &mut Pie, gap_us: u64, seconds: u64, ect: bool) -> (Vec<u64>, u64) {
        let (mut delays, mut hits) = (Vec::new(), 0);
        for number in 0..seconds * 1_000_000 / gap_us {
            let at = Instant::ZERO + Duration::from_micros(number * gap_us);
            match pie.transit(at, packet(ect)) {
                Verdict::Pass(leaves) => delays.push(leaves.since(at).as_micros()),
                Verdict::Mark(leaves) => {
                    delays.push(leaves.since(at).as_micros());
                    hits += 1;
                }
                _ => hits += 1,
            }
        }
        (delays, hits)
    }

    #[test]
    fn what_the_link_can_carry_is_left_alone() {
        assert_eq!(load(&mut pie(PieConfig::DEFAULT), 1001, 20, false).1, 0);
    }

    #[test]
    fn overload_is_held_at_the_target() {
        // A tenth too much: a share of 1/11 has to go.
        let mut pie = pie(PieConfig::DEFAULT);
        let (delays, hits) = load(&mut pie, 909, 60, false);
        let share = hits as f64 / (delays.len() as f64 + hits as f64);
        assert!((0.07..0.11).contains(&share), "{share}");
        let settled = &delays[delays.len() / 2..];
        let mean = settled.iter().sum::<u64>() as f64 / settled.len() as f64;
        assert!((10_000.0..20_000.0).contains(&mean), "{mean}");
        assert_eq!(pie.drops().packets, hits);
    }

    #[test]
    fn a_burst_passes_and_ect_packets_are_marked() {
        let mut first = pie(PieConfig::DEFAULT);
        let at = Instant::ZERO + Duration::from_secs(1);
        assert!((0..100).all(|_| matches!(first.transit(at, packet(false)), Verdict::Pass(_))));
        // With a probability that stands (no update is due yet): marks up to a tenth, drops above
        // it.
        let hits = |probability: f64, ect: bool| {
            let mut pie = pie(PieConfig { ecn: true, ..PieConfig::DEFAULT });
            (pie.probability, pie.burst, pie.old_delay) = (probability, Duration::ZERO, Duration::from_millis(20));
            for _ in 0..900 {
                pie.transit(Instant::ZERO, packet(ect));
            }
            (pie.marks(), pie.drops().packets)
        };
        let (marks, drops) = hits(0.05, true);
        assert!((20..70).contains(&marks) && drops == 0, "{marks} {drops}");
        let (marks, drops) = hits(0.05, false);
        assert!(marks == 0 && (20..70).contains(&drops), "{marks} {drops}");
        assert_eq!(hits(0.3, true).0, 0);
    }

    #[test]
    fn the_probability_decays_while_nothing_waits() {
        // RFC 8033 section 4.2: by a fiftieth, beside what the controller takes: alpha (0.125)
        // times the target (15 ms).
        let mut idle = pie(PieConfig::DEFAULT);
        idle.probability = 0.5;
        idle.update();
        assert!((idle.probability - (0.5 - 0.125 * 0.015) * 0.98).abs() < 1e-9, "{}", idle.probability);
        // Not where something waited at the update before.
        (idle.probability, idle.old_delay) = (0.5, Duration::from_millis(1));
        idle.update();
        assert!((idle.probability - (0.5 - 0.125 * 0.015 - 1.25 * 0.001)).abs() < 1e-9, "{}", idle.probability);
    }
}
