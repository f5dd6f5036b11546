//! Random and scripted loss.

use crate::{Change, DropCategory, DropCause, Error, LinkElement, PacketCount, PacketMeta, Schedule, Verdict};
use polypath_base::{Instant, Rng};
use serde::Deserialize;

/// Which packets a [`Loss`] loses. The default loses none.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum LossConfig {
    /// Each packet with `probability`, independently of the others.
    Bernoulli {
        /// From 0 to 1, from the beginning until the first of `changes`.
        probability: f64,
        /// Later probabilities, by time; ascending.
        #[serde(default)]
        changes: Vec<Change<f64>>,
    },
    /// A chain of two states, stepped once a packet. A packet is lost by the state that it finds,
    /// then the chain steps (as Linux's netem does; E. N. Gilbert 1960, E. O. Elliott 1963). It
    /// starts in the good state.
    GilbertElliott {
        /// That a step leaves the good state; this and the others from 0 to 1.
        good_to_bad: f64,
        /// That a step leaves the bad state.
        bad_to_good: f64,
        /// That the good state loses a packet.
        loss_good: f64,
        /// That the bad state loses a packet.
        loss_bad: f64,
    },
    /// Chosen packets.
    Packets {
        /// Counted from 1 in this direction, in any order.
        numbers: Vec<u64>,
        /// Only packets with payload are counted.
        #[serde(default)]
        data_only: bool,
    },
}

impl Default for LossConfig {
    fn default() -> Self {
        Self::Packets { numbers: Vec::new(), data_only: false }
    }
}

/// Loses packets.
#[derive(Clone, Debug)]
pub struct Loss {
    model: Model,
    drops: PacketCount,
    rng: Rng,
}

/// Probabilities as [`Rng::bernoulli`] takes them.
#[derive(Clone, Debug)]
enum Model {
    Bernoulli { p: u64, changes: Schedule<u64> },
    GilbertElliott { bad: bool, good_to_bad: u64, bad_to_good: u64, loss_good: u64, loss_bad: u64 },
    Packets { numbers: Vec<u64>, next: usize, seen: u64, data_only: bool },
}

impl Loss {
    /// `rng` decides which packets are lost.
    ///
    /// # Errors
    /// A probability is not within 0 and 1, a number is 0, or the changes are not in ascending
    /// order of time.
    pub fn new(config: LossConfig, rng: Rng) -> Result<Self, Error> {
        let model = match config {
            LossConfig::Bernoulli { probability, changes } => {
                let later = |change: Change<f64>| Ok((change.at, checked("loss probability", change.to)?));
                let changes = Schedule::new(changes.into_iter().map(later).collect::<Result<_, Error>>()?)?;
                Model::Bernoulli { p: checked("loss probability", probability)?, changes }
            }
            LossConfig::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => Model::GilbertElliott {
                bad: false,
                good_to_bad: checked("good_to_bad", good_to_bad)?,
                bad_to_good: checked("bad_to_good", bad_to_good)?,
                loss_good: checked("loss_good", loss_good)?,
                loss_bad: checked("loss_bad", loss_bad)?,
            },
            LossConfig::Packets { mut numbers, data_only } => {
                if numbers.contains(&0) {
                    return Err(Error::caller("packet number 0 cannot be lost: packets are counted from 1"));
                }
                numbers.sort_unstable();
                numbers.dedup();
                Model::Packets { numbers, next: 0, seen: 0, data_only }
            }
        };
        Ok(Self { model, drops: PacketCount::default(), rng })
    }
}

impl LinkElement for Loss {
    #[inline]
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        let lost = match &mut self.model {
            Model::Bernoulli { p, changes } => {
                if let Some(changed) = changes.advance(at) {
                    *p = changed;
                }
                self.rng.bernoulli(*p)
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

    fn drops(&self) -> PacketCount {
        self.drops
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Loss)
    }
}

/// A probability as [`Rng::bernoulli`] takes it.
fn checked(name: &str, probability: f64) -> Result<u64, Error> {
    if (0.0..=1.0).contains(&probability) {
        return Ok(Rng::probability_u32(probability));
    }
    Err(Error::caller(format!("{name} is {probability}; a probability lies between 0 and 1")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::Bytes;

    const DATA: PacketMeta = PacketMeta { len: Bytes::new(1500), payload: true, df: true, ect: false, l4s: false, flow: 0 };
    const ACK: PacketMeta = PacketMeta { len: Bytes::new(52), payload: false, df: true, ect: false, l4s: false, flow: 0 };

    fn rng() -> Rng {
        Rng::new(3, "loss")
    }

    fn lost(loss: &mut Loss, packets: usize) -> Vec<bool> {
        (0..packets).map(|_| loss.transit(Instant::ZERO, DATA) != Verdict::Pass(Instant::ZERO)).collect()
    }

    #[test]
    fn bernoulli_loses_its_share_and_changes_on_time() {
        let mut loss =
            Loss::new(LossConfig::Bernoulli { probability: 0.02, changes: vec![Change { at: Instant::from_nanos(9), to: 1.0 }] }, rng())
                .unwrap();
        let hits = lost(&mut loss, 100_000).iter().filter(|&&hit| hit).count();
        // 2000 expected, standard deviation 44.
        assert!((1_800..2_200).contains(&hits), "{hits}");
        assert_eq!(loss.drops().packets, hits as u64);
        assert_eq!(loss.transit(Instant::from_nanos(9), DATA), Verdict::Drop(DropCause::Loss));
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts_of_the_expected_length() {
        // Bad a sixth of the time (0.02 / 0.12), in spells of ten packets, all of which are lost.
        let config = LossConfig::GilbertElliott { good_to_bad: 0.02, bad_to_good: 0.1, loss_good: 0.0, loss_bad: 1.0 };
        let mut loss = Loss::new(config, rng()).unwrap();
        let hits = lost(&mut loss, 200_000);
        let total = hits.iter().filter(|&&hit| hit).count() as f64;
        let bursts = hits.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((total / 200_000.0 - 1.0 / 6.0).abs() < 0.01, "{total}");
        assert!((total / bursts - 10.0).abs() < 0.5, "{}", total / bursts);
    }

    #[test]
    fn numbered_packets_are_lost_once() {
        let mut loss = Loss::new(LossConfig::Packets { numbers: vec![4, 1, 4], data_only: false }, rng()).unwrap();
        assert_eq!(lost(&mut loss, 6), [true, false, false, true, false, false]);
    }

    #[test]
    fn acknowledgements_do_not_count_with_data_only() {
        let mut loss = Loss::new(LossConfig::Packets { numbers: vec![2], data_only: true }, rng()).unwrap();
        let passed = [DATA, ACK, ACK, DATA, ACK].map(|packet| loss.transit(Instant::ZERO, packet) == Verdict::Pass(Instant::ZERO));
        assert_eq!(passed, [true, true, true, false, true]);
    }

    #[test]
    fn impossible_probabilities_are_refused() {
        assert!(Loss::new(LossConfig::Bernoulli { probability: 1.5, changes: vec![] }, rng()).is_err());
        assert!(
            Loss::new(LossConfig::Bernoulli { probability: 0.5, changes: vec![Change { at: Instant::ZERO, to: f64::NAN }] }, rng())
                .is_err()
        );
        assert!(Loss::new(LossConfig::Packets { numbers: vec![0], data_only: false }, rng()).is_err());
    }
}
