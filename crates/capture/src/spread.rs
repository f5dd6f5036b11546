//! Times in a histogram of constant size.

use serde::Serialize;

/// A power of two is cut into so many buckets: a percentile is exact to one part in 16.
const FINE: u64 = 16;

/// How times are spread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// How measured times are spread, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadReport {
    /// Times measured, at least 1.
    pub count: u64,
    /// The shortest, exact.
    pub min_ms: f64,
    /// Arithmetic mean, exact.
    pub mean_ms: f64,
    /// Median, at most one part in 16 too low.
    pub p50_ms: f64,
    /// 95th percentile, at most one part in 16 too low.
    pub p95_ms: f64,
    /// The longest, exact.
    pub max_ms: f64,
}

fn bucket(ns: u64) -> usize {
    if ns < FINE {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2());
    ((power - 3) * FINE + (ns >> (power - 4)) - FINE) as usize
}

/// The smallest value of a bucket.
fn value(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < FINE { bucket } else { (FINE + bucket % FINE) << (bucket / FINE - 1) }
}

impl Spread {
    pub(crate) fn add(&mut self, ns: u64) {
        let at = bucket(ns);
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.count += 1;
        self.sum += u128::from(ns);
    }

    pub(crate) fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    fn percentile(&self, percent: u64) -> u64 {
        let mut left = (self.count * percent).div_ceil(100);
        for (at, count) in self.buckets.iter().enumerate() {
            if left <= *count {
                return value(at).clamp(self.min, self.max);
            }
            left -= count;
        }
        self.max
    }

    pub(crate) fn report(&self) -> Option<SpreadReport> {
        let ms = |ns: u64| ns as f64 / 1e6;
        (self.count > 0).then(|| SpreadReport {
            count: self.count,
            min_ms: ms(self.min),
            mean_ms: self.sum as f64 / self.count as f64 / 1e6,
            p50_ms: ms(self.percentile(50)),
            p95_ms: ms(self.percentile(95)),
            max_ms: ms(self.max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_hold_what_they_say() {
        for ns in (0..5000).chain([u64::MAX - 1, u64::MAX]) {
            let (low, next) = (value(bucket(ns)), bucket(ns) + 1);
            assert!(low <= ns && (ns >= u64::MAX - 1 || ns < value(next)), "{ns}");
            assert!((ns - low) * FINE <= ns);
        }
    }

    #[test]
    fn percentiles_are_of_what_was_added() {
        let mut spread = Spread::default();
        assert_eq!(spread.report(), None);
        (1..=100).for_each(|ms| spread.add(ms * 1_000_000));
        let report = spread.report().unwrap();
        assert_eq!((report.count, report.min_ms, report.max_ms, report.mean_ms), (100, 1.0, 100.0, 50.5));
        assert!((report.p50_ms - 50.0).abs() < 4.0 && (report.p95_ms - 95.0).abs() < 6.0, "{report:?}");
    }
}
