//! Rates and amounts of data.

use crate::Duration;
use serde::Deserialize;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A rate in bits per second. Zero means "nothing passes" and is refused where a link is built.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Rate(u64);

/// An amount of data in bytes. Sums and differences do not saturate: one that 64 bits do not hold
/// is a fault of who asks for it.
#[derive(Copy, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Bytes(u64);

/// A number of segments: what congestion windows are counted in.
#[derive(Copy, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Segments(u32);

macro_rules! amount {
    ($name:ident: $number:ident, $unit:literal) => {
        impl $name {
            #[doc = concat!("No ", $unit, ".")]
            pub const ZERO: Self = Self(0);

            #[doc = concat!("So many ", $unit, ".")]
            #[inline]
            pub const fn new(amount: $number) -> Self {
                Self(amount)
            }

            #[doc = concat!("How many ", $unit, ".")]
            #[inline]
            pub const fn get(self) -> $number {
                self.0
            }

            /// What is left once `other` is taken off, or nothing.
            #[must_use]
            #[inline]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{} ", $unit), self.0)
            }
        }
    };
}

amount!(Bytes: u64, "bytes");
amount!(Segments: u32, "segments");

impl Bytes {
    /// As many as there can be: what an application offers that never ends.
    pub const MAX: Self = Self(u64::MAX);

    /// From arithmetic in 32 bits.
    #[inline]
    pub const fn from_u32(amount: u32) -> Self {
        Self(amount as u64)
    }

    /// The number for arithmetic in 32 bits, where windows and lengths of packets fit. Saturates.
    #[inline]
    pub const fn as_u32(self) -> u32 {
        if self.0 > u32::MAX as u64 { u32::MAX } else { self.0 as u32 }
    }
}

impl Div for Bytes {
    type Output = u64;
    /// How many times `other`, which is not zero, fits in whole.
    #[inline]
    fn div(self, other: Self) -> u64 {
        self.0 / other.0
    }
}

impl Mul<Bytes> for Segments {
    type Output = Bytes;
    /// So many segments of so many bytes each. Below 2^48 for segments of less than 2^16 bytes.
    #[inline]
    fn mul(self, each: Bytes) -> Bytes {
        Bytes(u64::from(self.0) * each.0)
    }
}

impl Rate {
    /// Nothing passes.
    pub const ZERO: Self = Self(0);

    /// So many bits per second.
    #[inline]
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// Bits per second, exact.
    #[inline]
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0
    }

    /// Saturates: a rate that no path has stays the largest.
    #[inline]
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// Whole bytes per second, rounded down.
    #[inline]
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0 / 8
    }

    /// How long `amount` takes at this rate, rounded down to the nanosecond as Linux's netem does.
    /// Exact up to 2^64 ns.
    #[inline]
    pub const fn time_for(self, amount: Bytes) -> Duration {
        // bytes * 8e9 stays below 2^64 for up to 2.3 GB, far above any packet.
        Duration::from_nanos(amount.0 * 8_000_000_000 / self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_per_second_are_an_eighth() {
        let rate = Rate::from_bytes_per_sec(1250);
        assert_eq!((rate.as_bits_per_sec(), rate.as_bytes_per_sec()), (10_000, 1250));
        assert_eq!(Rate::from_bytes_per_sec(u64::MAX), Rate::from_bits_per_sec(u64::MAX));
    }

    #[test]
    fn amounts_add_up() {
        let total: Bytes = [1, 2, 3].map(Bytes::new).into_iter().sum();
        assert_eq!((total - Bytes::new(2), total.saturating_sub(Bytes::new(7))), (Bytes::new(4), Bytes::ZERO));
        assert_eq!(format!("{:?}", Segments::new(10)), "10 segments");
        assert_eq!(Segments::new(3) * Bytes::new(1448), Bytes::new(4344));
        assert_eq!((Bytes::from_u32(7).as_u32(), Bytes::MAX.as_u32()), (7, u32::MAX));
    }

    #[test]
    fn a_full_frame_at_100_mbit() {
        assert_eq!(Rate::from_bits_per_sec(100_000_000).time_for(Bytes::new(1514)), Duration::from_nanos(121_120));
    }
}
