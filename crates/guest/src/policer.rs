//! A policer as the kernel wants it told: the same attributes as `tc` sends for the action
//! `police`.

use crate::plan::Policer;
use polypath_io::netlink::Message;

impl Policer {
    /// The options of the action: what finds too few tokens is dropped, the rest goes on.
    pub(crate) fn put(&self, message: Message) -> Message {
        const TCA_POLICE_TBF: u16 = 1;
        const TCA_POLICE_RATE: u16 = 2;
        const TCA_POLICE_RATE64: u16 = 8;
        const TC_ACT_SHOT: u32 = 2;
        const ETHERNET: u8 = 1;
        /// The kernel asks for a table of 256 times and reads none of it.
        const TABLE: [u8; 1024] = [0; 1024];
        let bytes_per_s = self.rate / 8;
        // struct tc_ratespec: cell (the table's, and not 0), link layer, overhead, alignment, least
        // length, rate.
        let mut rate = [0; 12];
        (rate[0], rate[1]) = (3, ETHERNET);
        rate[2..4].copy_from_slice(&self.overhead.to_ne_bytes());
        rate[8..12].copy_from_slice(&u32::try_from(bytes_per_s).unwrap_or(u32::MAX).to_ne_bytes());
        // struct tc_police: index, action, limit, burst, longest packet (any), rate, peak rate
        // (none), two counts, capabilities.
        let mut options = [0; 56];
        for (place, value) in [(4, TC_ACT_SHOT), (12, self.burst_ticks()), (16, u32::MAX)] {
            options[place..place + 4].copy_from_slice(&value.to_ne_bytes());
        }
        options[20..32].copy_from_slice(&rate);
        let message = message.put(TCA_POLICE_TBF, &options).put(TCA_POLICE_RATE, &TABLE);
        if bytes_per_s >= 1 << 32 { message.put(TCA_POLICE_RATE64, &bytes_per_s.to_ne_bytes()) } else { message }
    }

    /// The time in which an empty bucket fills, in the kernel's ticks of 64 ns; rounded up, so that
    /// a packet as long as the bucket passes. The planner refuses what does not fit.
    fn burst_ticks(&self) -> u32 {
        const PSCHED_SHIFT: u32 = 6;
        let ns = (u128::from(self.burst) * 8_000_000_000).div_ceil(u128::from(self.rate.max(1)));
        u32::try_from(ns.div_ceil(1 << PSCHED_SHIFT)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_burst_and_overhead_stand_where_tc_puts_them() {
        // tc filter ... action police rate 8mbit burst 20000 overhead 4 drop
        let policer = Policer { rate: 8_000_000, burst: 20_000, overhead: 4 };
        let message = policer.put(Message::new(0, 0, &[]));
        let options: String = message.body()[4..60].iter().map(|byte| format!("{byte:02x}")).collect();
        // 20 ms are 312500 ticks; a million bytes a second.
        let tokens = "0000000002000000000000".to_owned() + "00b4c40400ffffffff" + "030104000000000040420f00";
        assert_eq!(options, tokens + &"00".repeat(24));
        assert_eq!(message.body().len(), 60 + 4 + 1024);
    }

    #[test]
    fn a_bucket_of_one_packet_lets_it_pass() {
        // 1514 bytes at 7 Mbit/s take 1730285.7 ns, or 27035.7 ticks.
        assert_eq!(Policer { rate: 7_000_000, burst: 1514, overhead: 0 }.burst_ticks(), 27_036);
    }
}
