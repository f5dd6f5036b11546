//! netem as the kernel wants it told: the same attributes as `tc` sends, with times in nanoseconds
//! instead of its ticks.

use crate::plan::{Loss, Netem};
use polypath_io::netlink::Message;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_NETEM_DELAY_DIST: u16 = 2;
const TCA_NETEM_LOSS: u16 = 5;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const NETEM_LOSS_GE: u16 = 2;

impl Netem {
    /// Puts kind and options. A change names the rate even where it is none: a netem keeps what a
    /// change does not name.
    pub(crate) fn put(&self, message: Message, changes: bool) -> Message {
        let random = if let Loss::Random { probability } = self.loss { share(probability) } else { 0 };
        // struct tc_netem_qopt: latency and jitter are given in nanoseconds below, no reordering
        // gap, no duplicates.
        let mut options = [0; 24];
        options[4..8].copy_from_slice(&self.limit.to_ne_bytes());
        options[8..12].copy_from_slice(&random.to_ne_bytes());
        message.put_text(TCA_KIND, "netem").nest(TCA_OPTIONS, &options, |mut m| {
            if self.delay_ns != 0 {
                m = m.put(TCA_NETEM_LATENCY64, &(self.delay_ns as i64).to_ne_bytes());
            }
            if self.jitter_ns != 0 {
                m = m.put(TCA_NETEM_JITTER64, &(self.jitter_ns as i64).to_ne_bytes());
            }
            if !self.delays.is_empty() {
                let values = self.delays.iter().flat_map(|share| std::iter::repeat_n(share.value, usize::from(share.count)));
                m = m.put(TCA_NETEM_DELAY_DIST, &values.flat_map(i16::to_ne_bytes).collect::<Vec<_>>());
            }
            if let Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } = self.loss {
                // struct tc_netem_gemodel: p, r, 1-h (of which the kernel wants h) and 1-k.
                let model = [share(good_to_bad), share(bad_to_good), u32::MAX - share(loss_bad), share(loss_good)];
                m = m.nest_flagged(TCA_NETEM_LOSS, |m| m.put(NETEM_LOSS_GE, &model.map(u32::to_ne_bytes).concat()));
            }
            if self.rate != 0 || changes {
                m = self.put_rate(m);
            }
            m
        })
    }

    fn put_rate(&self, mut message: Message) -> Message {
        let bytes_per_s = self.rate / 8;
        let small = u32::try_from(bytes_per_s).unwrap_or(u32::MAX);
        if bytes_per_s >= 1 << 32 {
            message = message.put(TCA_NETEM_RATE64, &bytes_per_s.to_ne_bytes());
        }
        // struct tc_netem_rate: rate, overhead of a packet, no cells.
        let mut rate = [0; 16];
        rate[..4].copy_from_slice(&small.to_ne_bytes());
        rate[4..8].copy_from_slice(&self.overhead.to_ne_bytes());
        message.put(TCA_NETEM_RATE, &rate)
    }
}

/// A probability in the kernel's terms: 2^32 - 1 is certain.
fn share(probability: f64) -> u32 {
    (probability * f64::from(u32::MAX)).round_ties_even() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::DelayShare;

    const PLAIN: Netem = Netem { limit: 100, delay_ns: 0, jitter_ns: 0, delays: Vec::new(), rate: 0, overhead: 0, loss: Loss::None };

    /// The options as hexadecimal, without kind and header of the options.
    fn options(netem: Netem) -> String {
        netem.put(Message::new(0, 0, &[]), false).body()[12 + 4..].iter().map(|b| format!("{b:02x}")).collect()
    }

    // The expected bytes are what tc of iproute2 6.1 sends for the command above each, seen with
    // strace.

    #[test]
    fn a_rate_is_told_as_tc_tells_it() {
        // tc qdisc replace dev lo root handle 1: netem rate 100mbit limit 167
        let told = options(Netem { rate: 100_000_000, limit: 167, ..PLAIN });
        assert_eq!(told, "00000000a7000000000000000000000000000000000000001400060020bcbe00000000000000000000000000");
    }

    #[test]
    fn random_loss_is_told_as_tc_tells_it() {
        // netem rate 10gbit limit 100 loss random 1%
        let told = options(Netem { rate: 10_000_000_000, loss: Loss::Random { probability: 0.01 }, ..PLAIN });
        assert_eq!(told, "0000000064000000295c8f0200000000000000000000000014000600807c814a000000000000000000000000");
    }

    #[test]
    fn a_rate_beyond_four_gigabytes_a_second_is_told_as_tc_tells_it() {
        // netem rate 50gbit 18 limit 100
        let told = options(Netem { rate: 50_000_000_000, overhead: 18, ..PLAIN });
        let rate = "0c000800806e87740100000014000600ffffffff120000000000000000000000";
        assert_eq!(told, format!("000000006400000000000000000000000000000000000000{rate}"));
    }

    #[test]
    fn two_state_loss_is_told_as_tc_tells_it() {
        // netem limit 100 loss gemodel 1% 10% 70% 0.1%
        let loss = Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.1, loss_good: 0.001, loss_bad: 0.7 };
        let model = "1800058014000200295c8f029a999919cdcccc4c37894100";
        assert_eq!(options(Netem { loss, ..PLAIN }), format!("000000006400000000000000000000000000000000000000{model}"));
    }

    #[test]
    fn delays_are_told_in_nanoseconds() {
        let told = options(Netem { delay_ns: 10_000_000, jitter_ns: 1, ..PLAIN });
        let times = "0c000a0080969800000000000c000b000100000000000000";
        assert_eq!(told, format!("000000006400000000000000000000000000000000000000{times}"));
    }

    #[test]
    fn a_distribution_is_told_value_by_value() {
        // As with `netem delay 0ms 5ms distribution FILE`, after a file of three zeros and one
        // 8192.
        let delays = vec![DelayShare { value: 0, count: 3 }, DelayShare { value: 8192, count: 1 }];
        let told = options(Netem { jitter_ns: 1, delays, ..PLAIN });
        let table = "0c000b0001000000000000000c0002000000000000000020";
        assert_eq!(told, format!("000000006400000000000000000000000000000000000000{table}"));
    }

    #[test]
    fn a_change_to_no_rate_names_it() {
        let bytes = PLAIN.put(Message::new(0, 0, &[]), true).body().len();
        assert_eq!(bytes, PLAIN.put(Message::new(0, 0, &[]), false).body().len() + 20);
    }
}
