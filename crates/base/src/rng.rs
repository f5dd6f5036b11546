//! Seeded random numbers: every host and link has its own stream, derived from the run's seed and
//! its name.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers. It depends on the run's seed and a name alone, so a further host or
/// link changes no other one's numbers.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The stream of this name in a run with this seed.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a over the name; seed_from_u64 spreads the sum over the whole state.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self(Xoshiro256PlusPlus::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Uniform over all values.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Uniform over all values.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with probability `p / 2^32`; [`Rng::probability_u32`] makes `p`, once for many draws.
    #[inline]
    pub fn bernoulli(&mut self, p: u64) -> bool {
        u64::from(self.0.next_u32()) < p
    }

    /// A probability in 0..=1 in units of 2^-32, for [`Rng::bernoulli`].
    pub fn probability_u32(probability: f64) -> u64 {
        debug_assert!((0.0..=1.0).contains(&probability), "a probability lies between 0 and 1");
        (probability * 4_294_967_296.0) as u64
    }

    /// A whole number, uniform in `0..bound`; `bound` must not be zero.
    #[inline]
    pub fn uniform(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// A small stream for one endpoint: 4 bytes of state where [`Rng`] has 32, for the few numbers that
/// a congestion control draws.
///
/// Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003: the 32-bit
/// generator with shifts of 13, 17 and 5. It goes through all states but zero.
#[derive(Copy, Clone, Debug)]
pub struct SmallRng(u32);

impl SmallRng {
    /// Neighbouring seeds give streams apart.
    pub const fn new(seed: u32) -> Self {
        let state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        // Zero would stay zero.
        Self(if state == 0 { 1 } else { state })
    }

    /// Uniform over all values but zero.
    #[inline]
    pub const fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_and_name() {
        let draw = |seed, name| Rng::new(seed, name).next_u64();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn bernoulli_meets_its_probability() {
        let (mut rng, p) = (Rng::new(7, "loss"), Rng::probability_u32(0.01));
        let hits = (0..1_000_000).filter(|_| rng.bernoulli(p)).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
    }

    #[test]
    fn no_seed_of_a_small_stream_stands_still() {
        // Of this one the state would be zero.
        let seed = 2_854_438_647_u32;
        assert_eq!(seed.wrapping_mul(2_654_435_761).wrapping_add(12_345), 0);
        for seed in [seed, 0, 1, u32::MAX] {
            let mut rng = SmallRng::new(seed);
            let drawn: std::collections::BTreeSet<_> = (0..1000).map(|_| rng.next_u32()).collect();
            assert!(drawn.len() == 1000 && !drawn.contains(&0), "{seed}");
        }
    }
}
