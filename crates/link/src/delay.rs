//! Propagation delay, with or without jitter.

use crate::{Change, Error, LinkElement, PacketMeta, Schedule, Verdict};
use polypath_base::{Duration, Instant, Rng};
use serde::Deserialize;

/// Parameters of [`Delay`]. The default is no delay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayConfig {
    /// From the beginning until the first of `changes`.
    #[serde(rename = "delay_ns")]
    pub delay: Duration,
    /// Uniform in plus or minus this much. A jitter above the delay is cut at zero: nothing leaves
    /// before it came.
    #[serde(rename = "jitter_ns", default)]
    pub jitter: Duration,
    /// A packet that draws a shorter delay overtakes, as in Linux's netem; without, it leaves
    /// together with the one in front of it.
    #[serde(default)]
    pub reorder: bool,
    /// Later delays, by time; ascending.
    #[serde(default)]
    pub changes: Vec<Change<Duration>>,
}

/// Holds each packet for `delay`, give or take up to `jitter` (uniform).
#[derive(Clone, Debug)]
pub struct Delay {
    delay: Duration,
    jitter: Duration,
    reorder: bool,
    /// When the last packet leaves: the next one does not leave earlier unless packets may
    /// overtake.
    last: Instant,
    changes: Schedule<Duration>,
    rng: Rng,
}

impl Delay {
    /// `rng` draws the jitter.
    ///
    /// # Errors
    /// The changes are not in ascending order of time.
    pub fn new(config: DelayConfig, rng: Rng) -> Result<Self, Error> {
        let changes = Schedule::of(&config.changes)?;
        let DelayConfig { delay, jitter, reorder, .. } = config;
        Ok(Self { delay, jitter, reorder, last: Instant::ZERO, changes, rng })
    }
}

impl LinkElement for Delay {
    #[inline]
    fn transit(&mut self, at: Instant, _packet: PacketMeta) -> Verdict {
        if let Some(delay) = self.changes.advance(at) {
            self.delay = delay;
        }
        let mut leaves = at + self.delay;
        if self.jitter > Duration::ZERO {
            // Uniform in [-jitter, +jitter), as netem without a distribution table; the difference
            // saturates at zero.
            let spread = Duration::from_nanos(self.rng.uniform(2 * self.jitter.as_nanos()));
            leaves = at + ((self.delay + spread) - self.jitter);
        }
        if !self.reorder {
            leaves = leaves.max(self.last);
            self.last = leaves;
        }
        Verdict::Pass(leaves)
    }

    fn keeps_order(&self) -> bool {
        !self.reorder || self.constant_delay().is_some()
    }

    fn constant_delay(&self) -> Option<Duration> {
        let constant = self.jitter == Duration::ZERO && self.changes.next_at() == Instant::NEVER;
        constant.then_some(self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn delay(jitter_ms: u64, reorder: bool, changes: Vec<(Instant, Duration)>) -> Delay {
        let changes = changes.into_iter().map(|(at, to)| Change { at, to }).collect();
        let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(jitter_ms));
        Delay::new(DelayConfig { delay, jitter, reorder, changes }, Rng::new(1, "delay")).unwrap()
    }

    fn leaves(verdict: Verdict) -> Instant {
        match verdict {
            Verdict::Pass(at) => at,
            other => panic!("a delay drops nothing, but: {other:?}"),
        }
    }

    #[test]
    fn a_shorter_delay_does_not_overtake_unless_told() {
        let shorter = vec![(at(5), Duration::from_millis(1))];
        let mut ordered = delay(0, false, shorter.clone());
        let times = [0, 4, 5, 14].map(|ms| leaves(ordered.transit(at(ms), PacketMeta::default())));
        assert_eq!(times, [at(10), at(14), at(14), at(15)]);
        let mut free = delay(0, true, shorter);
        let times = [0, 4, 5, 14].map(|ms| leaves(free.transit(at(ms), PacketMeta::default())));
        assert_eq!(times, [at(10), at(14), at(6), at(15)]);
    }

    #[test]
    fn jitter_is_uniform_around_the_delay() {
        let mut delay = delay(4, true, Vec::new());
        let drawn: Vec<u64> = (0..20_000).map(|_| leaves(delay.transit(at(0), PacketMeta::default())).as_nanos()).collect();
        assert!(drawn.iter().all(|&ns| (6_000_000..14_000_000).contains(&ns)));
        let mean = drawn.iter().sum::<u64>() / 20_000;
        // The standard error of the mean is 4 ms / sqrt(3 * 20000) = 16 us.
        assert!((9_920_000..10_080_000).contains(&mean), "{mean}");
    }

    #[test]
    fn jitter_without_reordering_keeps_the_order() {
        let mut delay = delay(9, false, Vec::new());
        let drawn: Vec<Instant> = (0..1000).map(|ms| leaves(delay.transit(at(ms), PacketMeta::default()))).collect();
        assert!(drawn.is_sorted());
    }
}
