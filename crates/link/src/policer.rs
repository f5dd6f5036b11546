//! A policer: a token bucket that drops what finds too few tokens, and delays nothing.

use crate::{DropCategory, DropCause, Error, LinkElement, PacketCount, PacketMeta, Verdict};
use polypath_base::{Bytes, Duration, Instant, Rate};
use serde::Deserialize;

/// Parameters of [`Policer`].
#[derive(Copy, Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerConfig {
    /// At which tokens come, bits per second; a rate of zero is refused.
    #[serde(rename = "bits_per_s")]
    pub rate: Rate,
    /// Tokens that the bucket holds, bytes; longer packets never pass.
    #[serde(rename = "burst_bytes")]
    pub burst: Bytes,
    /// Bytes added to each IP packet when it is counted; default: Ethernet's 14.
    #[serde(rename = "framing_bytes", default = "default_framing")]
    pub framing: Bytes,
}

const MOST_BURST: Bytes = Bytes::new(1 << 30);
/// With it the length of a packet stays far below what a rate can be asked about.
const MOST_FRAMING: Bytes = Bytes::new(65_535);

fn default_framing() -> Bytes {
    Bytes::new(14)
}

impl Default for PolicerConfig {
    /// No rate, which is refused: give one. A bucket of ten full packets.
    fn default() -> Self {
        Self { rate: Rate::default(), burst: Bytes::new(15_140), framing: default_framing() }
    }
}

/// A packet takes as many tokens as it has bytes and leaves at once, or there are too few and it is
/// dropped. The bucket is full in the beginning. Tokens are counted in time at the rate, as
/// `police` of Linux counts them.
#[derive(Clone, Debug)]
pub struct Policer {
    rate: Rate,
    framing: Bytes,
    /// In which an empty bucket fills.
    burst: Duration,
    /// When the bucket is full again.
    full: Instant,
    /// The last length and its time: most packets are as long as the one before.
    known: (Bytes, Duration),
    drops: PacketCount,
}

impl Policer {
    /// # Errors
    /// The rate is zero, the bucket holds nothing or too much, or the framing is too long.
    pub fn new(config: PolicerConfig) -> Result<Self, Error> {
        let PolicerConfig { rate, burst, framing } = config;
        if rate == Rate::default() {
            return Err(Error::caller("a policer without a rate lets nothing pass: use an outage for that"));
        }
        if burst == Bytes::ZERO || burst > MOST_BURST {
            return Err(Error::caller(format!("a policer's bucket holds at least a byte and at most {MOST_BURST:?}, not {burst:?}")));
        }
        if framing > MOST_FRAMING {
            return Err(Error::caller(format!("framing adds {framing:?} to each packet; at most {MOST_FRAMING:?} can be added")));
        }
        let known = (Bytes::ZERO, Duration::ZERO);
        Ok(Self { rate, framing, burst: rate.time_for(burst), full: Instant::ZERO, known, drops: PacketCount::default() })
    }
}

impl LinkElement for Policer {
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        let len = packet.len + self.framing;
        if len != self.known.0 {
            self.known = (len, self.rate.time_for(len));
        }
        let full = self.full.max(at) + self.known.1;
        if full.since(at) > self.burst {
            self.drops.add(packet.len);
            return Verdict::Drop(DropCause::Policed);
        }
        self.full = full;
        Verdict::Pass(at)
    }

    fn drops(&self) -> PacketCount {
        self.drops
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    /// 8 Mbit/s, so a token comes each microsecond, and a bucket of 1000.
    const CONFIG: PolicerConfig = PolicerConfig { rate: Rate::from_bits_per_sec(8_000_000), burst: Bytes::new(1000), framing: Bytes::ZERO };

    fn pass(policer: &mut Policer, at: u64, len: u32) -> bool {
        let packet = PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, ..PacketMeta::default() };
        match policer.transit(us(at), packet) {
            Verdict::Pass(leaves) => leaves == us(at),
            verdict => {
                assert_eq!(verdict, Verdict::Drop(DropCause::Policed));
                false
            }
        }
    }

    #[test]
    fn what_finds_tokens_leaves_at_once_and_the_rest_is_dropped() {
        let mut policer = Policer::new(CONFIG).unwrap();
        assert!(pass(&mut policer, 0, 600) && pass(&mut policer, 0, 400), "the bucket is full in the beginning");
        assert!(!pass(&mut policer, 99, 100) && pass(&mut policer, 100, 100), "a dropped packet takes no tokens");
        assert!(!pass(&mut policer, 150, 51) && pass(&mut policer, 150, 50), "a shorter one may pass");
        assert!(pass(&mut policer, 5000, 1000) && !pass(&mut policer, 5000, 1), "it holds no more than 1000");
        assert!(!pass(&mut policer, 9000, 1001), "what is longer than the bucket never passes");
        assert_eq!(policer.drops(), PacketCount { packets: 4, bytes: Bytes::new(100 + 51 + 1 + 1001) });
    }

    #[test]
    fn framing_counts() {
        let mut policer = Policer::new(PolicerConfig { framing: Bytes::new(14), ..CONFIG }).unwrap();
        assert!(pass(&mut policer, 0, 486) && pass(&mut policer, 0, 486) && !pass(&mut policer, 13, 0) && pass(&mut policer, 14, 0));
    }

    #[test]
    fn senseless_parameters_are_refused() {
        for wrong in [
            PolicerConfig { rate: Rate::default(), ..CONFIG },
            PolicerConfig { burst: Bytes::ZERO, ..CONFIG },
            PolicerConfig { burst: MOST_BURST + Bytes::new(1), ..CONFIG },
            PolicerConfig { framing: MOST_FRAMING + Bytes::new(1), ..CONFIG },
        ] {
            assert!(Policer::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
