//! How long the application's bytes take: from when the client's socket accepts a byte until the
//! server's application reads it.
//!
//! Both ends live in one world, so nothing is estimated: the accepted bytes are kept with their
//! times until they are read. Delays are counted in bins of 1/256 of their size, so a percentile is
//! exact to 0.2 %.

use crate::outcome::Spread;
use polypath_base::Instant;
use std::collections::{BTreeMap, VecDeque};

/// Bins between one power of two and the next.
const FINE: u64 = 256;
/// Bins of one power of two; of each the low half of its bytes.
type Octave = [u32; FINE as usize];
/// Unit of the bins: 2^10 ns.
const UNIT: u32 = 10;

/// Delays of one flow's bytes.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// End of the oldest bytes that were accepted and not all read, and when that was; what was
    /// read if nothing waits.
    end: u64,
    at: Instant,
    /// The same of what was accepted after them.
    later: VecDeque<(u64, Instant)>,
    read: u64,
    /// What is accepted is read once, in order: not of datagrams, which may be lost.
    ordered: bool,
    /// Within the window.
    counting: bool,
    /// By power of two. One that never had a byte in it takes no memory: most flows have delays of
    /// two or three.
    bins: Vec<Option<Box<Octave>>>,
    /// By bin: the high half, where it has one.
    high: BTreeMap<usize, u64>,
    /// Bytes times units, and the longest delay, units.
    sum: u64,
    most: u64,
}

impl Delays {
    /// `ordered`: whether what is accepted is read once and in order; otherwise nothing is counted.
    pub(crate) fn new(ordered: bool) -> Self {
        Self { ordered, ..Self::default() }
    }

    /// The client's socket has accepted `total` bytes since the start.
    #[inline(never)]
    pub(crate) fn on_accepted(&mut self, now: Instant, total: u64) {
        if !self.ordered {
            return;
        }
        if self.read == self.end {
            (self.end, self.at) = (total, now);
        } else {
            self.later.push_back((total, now));
        }
    }

    /// The server's application has read `total` bytes since the start.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, total: u64) {
        if total >= self.end {
            self.finish_oldest(now, total);
        }
        // Of datagrams the end stays where it was.
        if total < self.end {
            self.count(now, total);
        }
    }

    /// The oldest bytes, and perhaps more, have all been read.
    #[cold]
    fn finish_oldest(&mut self, now: Instant, total: u64) {
        while self.read < self.end && total >= self.end {
            self.count(now, self.end);
            if let Some((end, at)) = self.later.pop_front() {
                (self.end, self.at) = (end, at);
            }
        }
    }

    /// The window begins or ends.
    pub(crate) fn set_counting(&mut self, counting: bool) {
        self.counting = counting;
    }

    /// The oldest bytes are read up to `total`.
    #[inline]
    fn count(&mut self, now: Instant, total: u64) {
        let bytes = total - self.read;
        self.read = total;
        if !self.counting {
            return;
        }
        let units = now.since(self.at).as_nanos() >> UNIT;
        let (octave, fine) = place(bin(units));
        let low = match self.bins.get_mut(octave) {
            Some(Some(bins)) => &mut bins[fine],
            _ => &mut self.begin_octave(octave)[fine],
        };
        let sum = u64::from(*low) + bytes;
        *low = sum as u32;
        if sum > u64::from(u32::MAX) {
            self.carry(octave * FINE as usize + fine, sum >> 32);
        }
        // A unit is a microsecond: 2^64 are 1800 GB that took 10 s.
        self.sum += units * bytes;
        self.most = self.most.max(units);
    }

    #[cold]
    fn carry(&mut self, bin: usize, high: u64) {
        *self.high.entry(bin).or_default() += high;
    }

    #[cold]
    fn begin_octave(&mut self, octave: usize) -> &mut Octave {
        if self.bins.len() <= octave {
            self.bins.resize(octave + 1, None);
        }
        self.bins[octave].get_or_insert_with(|| Box::new([0; FINE as usize]))
    }

    /// Bytes by bin, of the bins that may have some.
    fn counted(&self) -> impl Iterator<Item = (usize, u64)> {
        let octaves = self.bins.iter().enumerate().filter_map(|(octave, bins)| bins.as_ref().map(|bins| (octave, bins)));
        let bins = octaves.flat_map(|(octave, bins)| bins.iter().enumerate().map(move |(fine, &low)| (octave * FINE as usize + fine, low)));
        bins.map(|(bin, low)| (bin, self.high.get(&bin).map_or(0, |high| high << 32) + u64::from(low)))
    }

    /// How the delays are spread over the bytes; nothing where none were read.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let bytes: u64 = self.counted().map(|(_, bytes)| bytes).sum();
        let unit_ns = f64::from(1 << UNIT);
        (bytes > 0).then(|| Spread {
            mean_ns: (self.sum as f64 / bytes as f64 + 0.5) * unit_ns,
            p50_ns: self.percentile(50, bytes),
            p95_ns: self.percentile(95, bytes),
            p99_ns: self.percentile(99, bytes),
            max_ns: (self.most << UNIT) + (1 << UNIT) / 2,
        })
    }

    /// The delay, ns, that so many percent of all `bytes` do not exceed.
    fn percentile(&self, percent: u64, bytes: u64) -> u64 {
        let wanted = (u128::from(percent) * u128::from(bytes)).div_ceil(100) as u64;
        let mut seen = 0;
        let found = self.counted().find(|&(_, bytes)| {
            seen += bytes;
            seen >= wanted
        });
        found.map_or(0, |(bin, _)| middle(bin)).min((self.most << UNIT) + (1 << UNIT) / 2)
    }
}

/// Bins are a unit wide up to twice [`FINE`] units, then twice as wide for each power of two.
#[inline]
fn bin(units: u64) -> usize {
    let shift = (units | FINE).ilog2() - FINE.ilog2();
    (FINE * u64::from(shift) + (units >> shift)) as usize
}

/// The power of two of a bin, and its number within that.
#[inline]
fn place(bin: usize) -> (usize, usize) {
    (bin / FINE as usize, bin % FINE as usize)
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
    use polypath_base::Duration;

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
        let ms = |percent| delays.percentile(percent, 10_000) as f64 / 1e6;
        assert!((ms(5) - 100.0).abs() < 0.2 && (ms(6) - 150.0).abs() < 0.3, "{} {}", ms(5), ms(6));
        assert!((ms(95) - 150.0).abs() < 0.3 && (ms(96) - 200.0).abs() < 0.4, "{} {}", ms(95), ms(96));
        let spread = delays.spread().expect("read");
        assert!((spread.mean_ns - 150e6).abs() < 1000.0 && spread.max_ns.abs_diff(200_000_000) < 1000, "{spread:?}");
        assert_eq!((spread.p50_ns, spread.p99_ns), (delays.percentile(50, 10_000), delays.percentile(99, 10_000)));
    }

    #[test]
    fn a_bin_holds_more_than_4_gib() {
        let mut delays = Delays::new(true);
        delays.set_counting(true);
        let (most, total) = (u64::from(u32::MAX), 5 << 32);
        for end in (most..total).step_by(most as usize).chain([total]) {
            delays.on_accepted(at(0), end);
            delays.on_read(at(10), end);
        }
        assert_eq!(delays.counted().map(|(_, bytes)| bytes).max(), Some(total));
        assert!(delays.spread().expect("read").p99_ns.abs_diff(10_000_000) < 20_000);
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
        assert_eq!(delays.counted().map(|(_, bytes)| bytes).sum::<u64>(), 600);
        assert!(delays.spread().expect("read").max_ns.abs_diff(20_000_000) < 1000);
        assert_eq!((delays.read, delays.end, delays.later.len()), (2000, 2000, 0));
    }

    #[test]
    fn datagrams_are_not_counted() {
        let mut delays = Delays::new(false);
        delays.set_counting(true);
        delays.on_accepted(at(0), 1000);
        delays.on_read(at(10), 400);
        assert_eq!((delays.spread(), delays.later.len()), (None, 0));
    }
}
