//! Rates and amounts of data.

use crate::Duration;

/// A rate in bits per second. Zero means "nothing passes" and is refused where a link is built.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// An amount of data in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Rate {
    #[inline]
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded down to the nanosecond as Linux's netem does. Exact up to 2^64 ns.
    #[inline]
    pub const fn time_for(self, bytes: u64) -> Duration {
        // bytes * 8e9 stays below 2^64 for up to 2.3 GB, far above any packet.
        Duration::from_nanos(bytes * 8_000_000_000 / self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_at_100_mbit() {
        assert_eq!(Rate::from_bits_per_sec(100_000_000).time_for(1514), Duration::from_nanos(121_120));
    }
}
