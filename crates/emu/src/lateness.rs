//! How late packets left, as a histogram.

use polypath_base::Duration;

/// Counts by size: each power of two of nanoseconds is divided into this many equal parts, so
/// figures are right to 6 %.
const PARTS: u64 = 16;
/// Everything from 2^40 ns (18 minutes) on is one.
const LARGEST: u32 = 40;

#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    counts: Vec<u64>,
    total: u64,
    most: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { counts: vec![0; (LARGEST as usize + 1) * PARTS as usize], total: 0, most: Duration::ZERO }
    }
}

impl Lateness {
    #[inline]
    pub(crate) fn add(&mut self, late: Duration) {
        self.counts[place(late.as_nanos())] += 1;
        debug_assert!(
            late.as_nanos() <= edge(place(late.as_nanos()) as u64).max(1 << LARGEST),
            "a place holds what is no later than its edge"
        );
        self.total += 1;
        self.most = self.most.max(late);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn most(&self) -> Duration {
        self.most
    }

    /// What this share of all packets did not exceed: the upper edge of its place, but never above
    /// the most. Zero if there are none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (number, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return Duration::from_nanos(edge(number as u64)).min(self.most);
            }
        }
        self.most
    }
}

#[inline]
fn place(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = ns.ilog2().min(LARGEST + 3);
    let part = if power == LARGEST + 3 { PARTS - 1 } else { (ns >> (power - 4)) - PARTS };
    (u64::from(power - 3) * PARTS + part) as usize
}

/// The largest number in a place.
fn edge(place: u64) -> u64 {
    if place < PARTS { place } else { ((PARTS + place % PARTS + 1) << (place / PARTS - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_lies_in_its_place() {
        let largest = (0..44).flat_map(|power| [1_u64 << power, (1 << power) + 1, (3 << power) - 1]);
        for ns in (0..5000).chain(largest.filter(|&ns| ns < 1 << 43)) {
            let at = place(ns);
            assert!(edge(at as u64) >= ns, "{ns}");
            assert!(at == 0 || edge(at as u64 - 1) < ns, "{ns}");
        }
        assert_eq!(place(u64::MAX), (LARGEST as usize + 1) * PARTS as usize - 1);
    }

    #[test]
    fn quantiles_are_right_to_a_part() {
        let mut lateness = Lateness::default();
        (1..=1000).for_each(|us| lateness.add(Duration::from_micros(us)));
        for (share, us) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = lateness.quantile(share).as_nanos() as f64 / 1000.0;
            assert!(found >= f64::from(us) && found <= f64::from(us) * 1.0625, "{share}: {found}");
        }
        assert_eq!(lateness.most(), Duration::from_micros(1000));
        assert_eq!(Lateness::default().quantile(0.5), Duration::ZERO);
    }
}
