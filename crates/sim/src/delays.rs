//! How long the application's bytes take: from when the client's socket accepts a byte until the server's application reads it.
//!
//! Both ends live in one world, so nothing is estimated: the accepted bytes are kept with their times until they are read. Delays are
//! counted in bins of 1/256 of their size, so a percentile is exact to 0.2 %.

use crate::outcome::Spread;
use polypath_base::{Duration, Instant};
use std::collections::VecDeque;

/// Bins between one power of two and the next.
const FINE: u64 = 256;
/// Unit of the bins: 2^10 ns.
const UNIT: u32 = 10;

/// Delays of one flow's bytes.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// Ends of what was accepted and not all read, with the time of each, oldest first.
    accepted: VecDeque<(u64, Instant)>,
    read: u64,
    /// What is accepted is read once, in order: not of datagrams, which may be lost.
    ordered: bool,
    /// Within the window.
    counting: bool,
    bins: Vec<u64>,
    bytes: u64,
    /// Bytes times nanoseconds.
    sum: u128,
    most: Duration,
}

impl Delays {
    /// `ordered`: whether what is accepted is read once and in order; otherwise nothing is counted.
    pub(crate) fn new(ordered: bool) -> Self {
        Self { ordered, ..Self::default() }
    }

    /// The client's socket has accepted `total` bytes since the start.
    #[inline]
    pub(crate) fn on_accepted(&mut self, now: Instant, total: u64) {
        if self.ordered {
            self.accepted.push_back((total, now));
        }
    }

    /// The server's application has read `total` bytes since the start.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, total: u64) {
        while let Some(&(end, at)) = self.accepted.front() {
            let upto = end.min(total);
            if self.counting {
                self.count(now.since(at), upto - self.read);
            }
            self.read = upto;
            if end > total {
                break;
            }
            self.accepted.pop_front();
        }
    }

    /// The window begins or ends.
    pub(crate) fn set_counting(&mut self, counting: bool) {
        self.counting = counting;
    }

    #[inline]
    fn count(&mut self, delay: Duration, bytes: u64) {
        let bin = bin(delay.as_nanos() >> UNIT);
        if bin >= self.bins.len() {
            self.bins.resize(bin + FINE as usize, 0);
        }
        self.bins[bin] += bytes;
        self.bytes += bytes;
        self.sum += u128::from(delay.as_nanos()) * u128::from(bytes);
        self.most = self.most.max(delay);
    }

    /// How the delays are spread over the bytes; nothing where none were read.
    pub(crate) fn spread(&self) -> Option<Spread> {
        (self.bytes > 0).then(|| Spread {
            mean_ns: self.sum as f64 / self.bytes as f64,
            p50_ns: self.percentile(50),
            p95_ns: self.percentile(95),
            p99_ns: self.percentile(99),
            max_ns: self.most.as_nanos(),
        })
    }

    /// The delay, ns, that so many percent of the bytes do not exceed.
    fn percentile(&self, percent: u64) -> u64 {
        let wanted = (u128::from(percent) * u128::from(self.bytes)).div_ceil(100) as u64;
        let mut seen = 0;
        let found = self.bins.iter().position(|bytes| {
            seen += bytes;
            seen >= wanted
        });
        found.map_or(0, |bin| middle(bin).min(self.most.as_nanos()))
    }
}

/// Bins are a unit wide up to twice [`FINE`] units, then twice as wide for each power of two.
#[inline]
fn bin(units: u64) -> usize {
    let shift = (units | FINE).ilog2() - FINE.ilog2();
    (FINE * u64::from(shift) + (units >> shift)) as usize
}

/// The middle of a bin, nanoseconds.
fn middle(bin: usize) -> u64 {
    let shift = (bin as u64 / FINE).saturating_sub(1);
    let low = (bin as u64 - FINE * shift) << shift;
    (low << UNIT) + (1 << shift << UNIT) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn bins_follow_one_another_and_are_fine() {
        for units in 0..5000 {
            assert!(bin(units + 1) - bin(units) <= 1, "{units}");
        }
        for units in (0..5000).chain((13..40).map(|k| 1 << k)) {
            let (exact, found) = ((units << UNIT) + (1 << UNIT) / 2, middle(bin(units)));
            assert!(exact.abs_diff(found) <= exact / 500 + (1 << UNIT), "{units}: {exact} {found}");
        }
    }

    #[test]
    fn percentiles_are_of_bytes() {
        let mut delays = Delays::new(true);
        delays.set_counting(true);
        delays.on_accepted(at(0), 1000);
        delays.on_accepted(at(50), 10_000);
        delays.on_read(at(100), 500);
        delays.on_read(at(200), 10_000);
        // 500 bytes after 100 ms, 500 after 200, 9000 after 150.
        let ms = |percent| delays.percentile(percent) as f64 / 1e6;
        assert!((ms(5) - 100.0).abs() < 0.2 && (ms(6) - 150.0).abs() < 0.3, "{} {}", ms(5), ms(6));
        assert!((ms(95) - 150.0).abs() < 0.3 && (ms(96) - 200.0).abs() < 0.4, "{} {}", ms(95), ms(96));
        let spread = delays.spread().expect("read");
        assert_eq!((spread.mean_ns, spread.max_ns), (150e6, 200_000_000));
        assert_eq!((spread.p50_ns, spread.p99_ns), (delays.percentile(50), delays.percentile(99)));
    }

    #[test]
    fn only_what_is_read_within_the_window_counts() {
        let mut delays = Delays::new(true);
        delays.on_accepted(at(0), 1000);
        delays.on_read(at(10), 400);
        assert_eq!(delays.spread(), None);
        delays.set_counting(true);
        delays.on_read(at(20), 1000);
        delays.set_counting(false);
        delays.on_accepted(at(20), 2000);
        delays.on_read(at(90), 2000);
        assert_eq!((delays.bytes, delays.most), (600, Duration::from_millis(20)));
        assert!(delays.accepted.is_empty());
    }

    #[test]
    fn datagrams_are_not_counted() {
        let mut delays = Delays::new(false);
        delays.set_counting(true);
        delays.on_accepted(at(0), 1000);
        delays.on_read(at(10), 400);
        assert_eq!((delays.spread(), delays.accepted.len()), (None, 0));
    }
}
