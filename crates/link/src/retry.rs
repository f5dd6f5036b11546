//! Retransmissions of the link layer (HARQ and RLC of cellular networks, Wi-Fi's acknowledged
//! frames): what was lost on the air comes later.

use crate::{DropCategory, DropCause, Error, LinkElement, PacketCount, PacketMeta, Verdict};
use polypath_base::{Duration, Instant, Rng};
use serde::Deserialize;

/// Parameters of [`Retry`]. The default never fails.
#[derive(Copy, Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryConfig {
    /// That an attempt fails, 0 to 1.
    pub probability: f64,
    /// From one attempt to the next.
    #[serde(rename = "delay_ns")]
    pub delay: Duration,
    /// Attempts at most, the first included.
    pub attempts: u32,
}

impl Default for RetryConfig {
    /// A HARQ round trip of LTE (8 ms) and four attempts.
    fn default() -> Self {
        Self { probability: 0.0, delay: Duration::from_millis(8), attempts: 4 }
    }
}

/// Each attempt to send a packet fails with a probability; it is tried again some time later, and
/// given up after several attempts. Packets leave in order: those behind one that is tried again
/// wait for it, as the receiver of the link layer makes them.
#[derive(Clone, Debug)]
pub struct Retry {
    /// For [`Rng::bernoulli`].
    fails: u64,
    /// From one attempt to the next.
    delay: Duration,
    /// Attempts at most, the first included.
    attempts: u32,
    last: Instant,
    drops: PacketCount,
    rng: Rng,
}

impl Retry {
    /// `rng` decides which attempts fail.
    ///
    /// # Errors
    /// The probability is not within 0 and 1, or there is no attempt.
    pub fn new(config: RetryConfig, rng: Rng) -> Result<Self, Error> {
        let RetryConfig { probability, delay, attempts } = config;
        if !(0.0..=1.0).contains(&probability) {
            return Err(Error::caller(format!("the share of failed attempts is {probability}; a probability lies between 0 and 1")));
        }
        if attempts == 0 {
            return Err(Error::caller("a packet that is never tried never arrives: give at least one attempt"));
        }
        let fails = Rng::probability_u32(probability);
        Ok(Self { fails, delay, attempts, last: Instant::ZERO, drops: PacketCount::default(), rng })
    }
}

impl LinkElement for Retry {
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        let mut leaves = at;
        let mut attempt = 1;
        while self.rng.bernoulli(self.fails) {
            if attempt == self.attempts {
                self.drops.add(packet.len);
                return Verdict::Drop(DropCause::Loss);
            }
            attempt += 1;
            leaves += self.delay;
        }
        self.last = self.last.max(leaves);
        Verdict::Pass(self.last)
    }

    fn drops(&self) -> PacketCount {
        self.drops
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::Bytes;

    const PACKET: PacketMeta = PacketMeta { len: Bytes::new(1500), payload: true, df: true, ect: false, l4s: false, flow: 0 };

    fn retry(probability: f64, attempts: u32) -> Retry {
        Retry::new(RetryConfig { probability, attempts, ..RetryConfig::default() }, Rng::new(1, "retry")).unwrap()
    }

    #[test]
    fn attempts_are_geometric_and_end() {
        let mut retry = retry(0.1, 3);
        let mut counts = [0_u32; 3];
        for number in 0..100_000_u64 {
            // Far apart, so that none waits for another.
            let at = Instant::ZERO + Duration::from_secs(number + 1);
            if let Verdict::Pass(leaves) = retry.transit(at, PACKET) {
                counts[(leaves.since(at).as_micros() / 8000) as usize] += 1;
            }
        }
        // 90 %, 9 %, 0.9 %; one in a thousand is given up: standard deviation 10.
        assert!(
            (89_700..90_300).contains(&counts[0]) && (8_700..9_300).contains(&counts[1]) && (800..1_000).contains(&counts[2]),
            "{counts:?}"
        );
        assert!((60..140).contains(&retry.drops().packets), "{}", retry.drops().packets);
    }

    #[test]
    fn packets_behind_wait_and_keep_their_order() {
        let mut retry = retry(0.3, 10);
        let leaves = (0..1000_u64).filter_map(|number| match retry.transit(Instant::ZERO + Duration::from_millis(number), PACKET) {
            Verdict::Pass(leaves) => Some(leaves),
            _ => None,
        });
        assert!(leaves.is_sorted());
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for wrong in [RetryConfig { probability: 1.1, ..RetryConfig::default() }, RetryConfig { attempts: 0, ..RetryConfig::default() }] {
            assert!(Retry::new(wrong, Rng::new(1, "r")).is_err());
        }
    }
}
