//! Random and scripted loss.

use crate::{Count, DropCause, Invalid, PacketMeta, Schedule, Verdict};
use polypath_base::{Instant, Rng};

/// Loses packets.
#[derive(Clone, Debug)]
pub struct Loss {
    model: Model,
    drops: Count,
    rng: Rng,
}

/// Probabilities are kept as thresholds of [`Rng::chance`].
#[derive(Clone, Debug)]
enum Model {
    Bernoulli { threshold: u64, changes: Schedule<u64> },
    GilbertElliott { bad: bool, good_to_bad: u64, bad_to_good: u64, loss_good: u64, loss_bad: u64 },
    Packets { numbers: Vec<u64>, next: usize, seen: u64, data_only: bool },
}

impl Loss {
    /// Each packet is lost with `probability`, independently of the others.
    pub fn bernoulli(probability: f64, changes: Vec<(Instant, f64)>, rng: Rng) -> Result<Self, Invalid> {
        let changes = changes.into_iter().map(|(at, p)| Ok((at, threshold("loss probability", p)?))).collect::<Result<_, Invalid>>()?;
        let model = Model::Bernoulli { threshold: threshold("loss probability", probability)?, changes: Schedule::new(changes)? };
        Ok(Self { model, drops: Count::default(), rng })
    }

    /// A chain of two states, stepped once a packet; a packet is lost by the state it finds, then the chain steps (as Linux's
    /// netem does; E. N. Gilbert 1960, E. O. Elliott 1963). It starts in the good state.
    pub fn gilbert_elliott(good_to_bad: f64, bad_to_good: f64, loss_good: f64, loss_bad: f64, rng: Rng) -> Result<Self, Invalid> {
        let model = Model::GilbertElliott {
            bad: false,
            good_to_bad: threshold("good_to_bad", good_to_bad)?,
            bad_to_good: threshold("bad_to_good", bad_to_good)?,
            loss_good: threshold("loss_good", loss_good)?,
            loss_bad: threshold("loss_bad", loss_bad)?,
        };
        Ok(Self { model, drops: Count::default(), rng })
    }

    /// The packets with these numbers are lost, counted from 1; with `data_only` only packets with payload are counted.
    pub fn packets(mut numbers: Vec<u64>, data_only: bool, rng: Rng) -> Result<Self, Invalid> {
        if numbers.contains(&0) {
            return Err(Invalid("packet number 0 cannot be lost: packets are counted from 1".into()));
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self { model: Model::Packets { numbers, next: 0, seen: 0, data_only }, drops: Count::default(), rng })
    }

    #[inline]
    pub fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        let lost = match &mut self.model {
            Model::Bernoulli { threshold, changes } => {
                if let Some(changed) = changes.advance(at) {
                    *threshold = changed;
                }
                self.rng.bernoulli(*threshold)
            }
            Model::GilbertElliott { bad, good_to_bad, bad_to_good, loss_good, loss_bad } => {
                let (leave, lose) = if *bad { (*bad_to_good, *loss_bad) } else { (*good_to_bad, *loss_good) };
                *bad ^= self.rng.bernoulli(leave);
                self.rng.bernoulli(lose)
            }
            Model::Packets { numbers, next, seen, data_only } => {
                *seen += u64::from(packet.payload || !*data_only);
                let hit = numbers.get(*next) == Some(seen) && (packet.payload || !*data_only);
                *next += usize::from(hit);
                hit
            }
        };
        if lost {
            self.drops.add(packet.len);
            return Verdict::Drop(DropCause::Loss);
        }
        Verdict::Pass(at)
    }

    pub fn drops(&self) -> Count {
        self.drops
    }
}

fn threshold(name: &str, probability: f64) -> Result<u64, Invalid> {
    if (0.0..=1.0).contains(&probability) {
        return Ok(Rng::probability_u32(probability));
    }
    Err(Invalid(format!("{name} is {probability}; a probability lies between 0 and 1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: PacketMeta = PacketMeta { len: 1500, payload: true, df: true, ect: false, flow: 0 };
    const ACK: PacketMeta = PacketMeta { len: 52, payload: false, df: true, ect: false, flow: 0 };

    fn rng() -> Rng {
        Rng::new(3, "loss")
    }

    fn lost(loss: &mut Loss, packets: usize) -> Vec<bool> {
        (0..packets).map(|_| loss.transit(Instant::ZERO, DATA) != Verdict::Pass(Instant::ZERO)).collect()
    }

    #[test]
    fn bernoulli_loses_its_share_and_changes_on_time() {
        let mut loss = Loss::bernoulli(0.02, vec![(Instant::from_nanos(9), 1.0)], rng()).unwrap();
        let hits = lost(&mut loss, 100_000).iter().filter(|&&hit| hit).count();
        // 2000 expected, standard deviation 44.
        assert!((1_800..2_200).contains(&hits), "{hits}");
        assert_eq!(loss.drops().packets, hits as u64);
        assert_eq!(loss.transit(Instant::from_nanos(9), DATA), Verdict::Drop(DropCause::Loss));
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts_of_the_expected_length() {
        // Bad a sixth of the time (0.02 / 0.12), in spells of ten packets, all of which are lost.
        let mut loss = Loss::gilbert_elliott(0.02, 0.1, 0.0, 1.0, rng()).unwrap();
        let hits = lost(&mut loss, 200_000);
        let total = hits.iter().filter(|&&hit| hit).count() as f64;
        let bursts = hits.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((total / 200_000.0 - 1.0 / 6.0).abs() < 0.01, "{total}");
        assert!((total / bursts - 10.0).abs() < 0.5, "{}", total / bursts);
    }

    #[test]
    fn numbered_packets_are_lost_once() {
        let mut loss = Loss::packets(vec![4, 1, 4], false, rng()).unwrap();
        assert_eq!(lost(&mut loss, 6), [true, false, false, true, false, false]);
    }

    #[test]
    fn acknowledgements_do_not_count_with_data_only() {
        let mut loss = Loss::packets(vec![2], true, rng()).unwrap();
        let passed = [DATA, ACK, ACK, DATA, ACK].map(|packet| loss.transit(Instant::ZERO, packet) == Verdict::Pass(Instant::ZERO));
        assert_eq!(passed, [true, true, true, false, true]);
    }

    #[test]
    fn impossible_probabilities_are_refused() {
        assert!(Loss::bernoulli(1.5, vec![], rng()).is_err());
        assert!(Loss::bernoulli(0.5, vec![(Instant::ZERO, f64::NAN)], rng()).is_err());
        assert!(Loss::packets(vec![0], false, rng()).is_err());
    }
}
