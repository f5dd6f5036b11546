//! Virtual time in integer nanoseconds, which is how scenarios write it.

use serde::Deserialize;
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A point in virtual time, in nanoseconds since the start of the run.
#[derive(Copy, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Instant(u64);

/// A span of virtual time, in nanoseconds.
#[derive(Copy, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Duration(u64);

impl Instant {
    /// The start of every run.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens: the value of a timer that is not armed.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds after the start of the run.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start of the run; `u64::MAX` of [`Instant::NEVER`].
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds, for people and plots; rounded.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// The longest that there is lasts 584 years.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Below 2^64 ns, as the other two: there is no check.
    #[inline]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// See [`Duration::from_micros`].
    #[inline]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// See [`Duration::from_micros`].
    #[inline]
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// Nanoseconds, exact.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds, for people and plots.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}

/// A smoothed round-trip time in eighths of a microsecond, the unit of Linux's `srtt_us`. Zero:
/// there was no sample yet.
///
/// Schedulers compare and divide these as Linux does; as a [`Duration`] an eighth of a microsecond
/// is exactly 125 ns.
#[derive(Copy, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SmoothedRtt(u32);

impl SmoothedRtt {
    /// Before the first sample.
    pub const ZERO: Self = Self(0);

    /// From Linux's `srtt_us`.
    #[inline]
    pub const fn from_eighths(eighths_us: u32) -> Self {
        Self(eighths_us)
    }

    /// Below 2^32 / 8000 ms, some 9 minutes: there is no check.
    #[inline]
    pub const fn from_millis(ms: u32) -> Self {
        Self(ms * 8000)
    }

    /// Linux's `srtt_us`: eighths of a microsecond.
    #[inline]
    pub const fn as_eighths(self) -> u32 {
        self.0
    }

    /// Whole microseconds, rounded down.
    #[inline]
    pub const fn as_micros(self) -> u32 {
        self.0 >> 3
    }

    /// Exact.
    #[inline]
    pub const fn as_duration(self) -> Duration {
        Duration(self.0 as u64 * 125)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    /// Saturates, so that `NEVER` plus anything stays `NEVER`.
    #[inline]
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Add for Duration {
    type Output = Self;
    #[inline]
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, d: Self) {
        *self = *self + d;
    }
}

impl Sub for Duration {
    type Output = Self;
    /// Saturates at zero.
    #[inline]
    fn sub(self, d: Self) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    #[inline]
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    /// Rounds down to the nanosecond.
    #[inline]
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000) }
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}ms", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl fmt::Debug for SmoothedRtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_duration().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_stays_never() {
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
    }

    #[test]
    fn a_part_is_rounded_down_and_a_multiple_saturates() {
        assert_eq!(Duration::from_nanos(7) / 2, Duration::from_nanos(3));
        assert_eq!(Duration::from_nanos(u64::MAX) * 2, Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn since_a_later_instant_is_zero() {
        assert_eq!(Instant::from_nanos(1).since(Instant::from_nanos(5)), Duration::ZERO);
    }
}
