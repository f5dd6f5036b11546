//! Retransmissions of the link layer (HARQ and RLC of cellular networks, Wi-Fi's acknowledged frames): what was lost on the air comes later.

use crate::{Count, DropCause, Invalid, PacketMeta, Verdict};
use polypath_base::{Duration, Instant, Rng};

/// Each attempt to send a packet fails with a probability; it is tried again some time later, and given up after several attempts. Packets
/// leave in order: those behind one that is tried again wait for it, as the receiver of the link layer makes them.
#[derive(Clone, Debug)]
pub struct Retry {
    /// Threshold of [`Rng::chance`].
    fails: u64,
    /// From one attempt to the next.
    delay: Duration,
    /// Attempts at most, the first included.
    attempts: u32,
    last: Instant,
    drops: Count,
    rng: Rng,
}

impl Retry {
    pub fn new(probability: f64, delay: Duration, attempts: u32, rng: Rng) -> Result<Self, Invalid> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(Invalid(format!("the share of failed attempts is {probability}; a probability lies between 0 and 1")));
        }
        if attempts == 0 {
            return Err(Invalid("a packet that is never tried never arrives: give at least one attempt".into()));
        }
        let fails = Rng::probability_u32(probability);
        Ok(Self { fails, delay, attempts, last: Instant::ZERO, drops: Count::default(), rng })
    }

    pub fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
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

    pub fn drops(&self) -> Count {
        self.drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: PacketMeta = PacketMeta { len: 1500, payload: true, df: true, ect: false, flow: 0 };

    fn retry(probability: f64, attempts: u32) -> Retry {
        Retry::new(probability, Duration::from_millis(8), attempts, Rng::new(1, "retry")).unwrap()
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
        assert!(Retry::new(1.1, Duration::ZERO, 1, Rng::new(1, "r")).is_err());
        assert!(Retry::new(0.1, Duration::ZERO, 0, Rng::new(1, "r")).is_err());
    }
}
