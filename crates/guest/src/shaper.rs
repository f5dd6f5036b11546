//! A rate behind a managed queue as the kernel wants it told: a token bucket of one packet, and in
//! it what manages the queue.

use crate::plan::{Aqm, Shaper};
use polypath_io::netlink::Message;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

impl Shaper {
    /// The token bucket: kind and options.
    pub(crate) fn put(&self, message: Message) -> Message {
        const TCA_TBF_PARMS: u16 = 1;
        const TCA_TBF_RATE64: u16 = 4;
        const TCA_TBF_BURST: u16 = 6;
        const ETHERNET: u8 = 1;
        let bytes_per_s = self.rate / 8;
        // struct tc_tbf_qopt: rate, peak rate (none), limit (the kernel's own queue is replaced at
        // once), buffer and MTU (given below).
        let mut options = [0; 36];
        options[1] = ETHERNET;
        options[2..4].copy_from_slice(&self.overhead.to_ne_bytes());
        options[8..12].copy_from_slice(&u32::try_from(bytes_per_s).unwrap_or(u32::MAX).to_ne_bytes());
        options[24..28].copy_from_slice(&self.burst.to_ne_bytes());
        message.put_text(TCA_KIND, "tbf").nest(TCA_OPTIONS, &[], |mut m| {
            m = m.put(TCA_TBF_PARMS, &options);
            if bytes_per_s >= 1 << 32 {
                m = m.put(TCA_TBF_RATE64, &bytes_per_s.to_ne_bytes());
            }
            m.put_u32(TCA_TBF_BURST, self.burst)
        })
    }
}

impl Aqm {
    /// Kind and options of what stands in the token bucket. Times are told in microseconds.
    pub(crate) fn put(&self, message: Message) -> Message {
        /// enum tc_dualpi2_ecn_mask.
        const L4S_ECT: u8 = 1;
        const ANY_ECT: u8 = 3;
        let us = |ns: u64| (ns / 1000) as u32;
        match *self {
            // struct tc_fifo_qopt: limit.
            Self::Fifo { limit } => message.put_text(TCA_KIND, "pfifo").put(TCA_OPTIONS, &limit.to_ne_bytes()),
            Self::Codel { limit, target_ns, interval_ns, ecn } => message.put_text(TCA_KIND, "codel").nest(TCA_OPTIONS, &[], |m| {
                m.put_u32(1, us(target_ns)).put_u32(2, limit).put_u32(3, us(interval_ns)).put_u32(4, u32::from(ecn))
            }),
            Self::FqCodel { limit, target_ns, interval_ns, flows, quantum, ecn } => {
                message.put_text(TCA_KIND, "fq_codel").nest(TCA_OPTIONS, &[], |m| {
                    let m = m.put_u32(1, us(target_ns)).put_u32(2, limit).put_u32(3, us(interval_ns));
                    m.put_u32(4, u32::from(ecn)).put_u32(5, flows).put_u32(6, quantum)
                })
            }
            Self::Pie { limit, target_ns, update_ns, ecn } => message.put_text(TCA_KIND, "pie").nest(TCA_OPTIONS, &[], |m| {
                m.put_u32(1, us(target_ns)).put_u32(2, limit).put_u32(3, us(update_ns)).put_u32(6, u32::from(ecn))
            }),
            Self::DualPi2 { limit, target_ns, update_ns, step_ns, step_packets, coupling, classic_percent, any_ect } => {
                message.put_text(TCA_KIND, "dualpi2").nest_flagged(TCA_OPTIONS, |m| {
                    let m = m.put_u32(1, limit).put_u32(3, us(target_ns)).put_u32(4, us(update_ns)).put_u32(8, us(step_ns));
                    m.put_u32(9, step_packets)
                        .put_u8(10, coupling)
                        .put_u8(13, classic_percent)
                        .put_u8(14, if any_ect { ANY_ECT } else { L4S_ECT })
                })
            }
            Self::Red { limit, min, max, probability, weight_log, packet_ns, ecn } => {
                let (idle, idle_log) = idle_table(weight_log, packet_ns);
                // struct tc_red_qopt: limit, minimum, maximum, three logarithms and flags.
                let mut options: Vec<u8> = [limit, min, max].iter().flat_map(|value| value.to_ne_bytes()).collect();
                options.extend([weight_log, 0, idle_log, u8::from(ecn)]);
                message
                    .put_text(TCA_KIND, "red")
                    .nest(TCA_OPTIONS, &[], |m| m.put(1, &options).put(2, &idle).put_u32(3, (probability * f64::from(u32::MAX)) as u32))
            }
        }
    }
}

/// How far the average falls, in halvings, while a link is idle for so many times 2^`log`
/// microseconds; what `tc` computes for `red`.
fn idle_table(weight_log: u8, packet_ns: u64) -> ([u8; 256], u8) {
    const MOST: f64 = 31.0;
    let per_us = -(1.0 - 1.0 / f64::from(1_u32 << weight_log)).log2() / (packet_ns as f64 / 1000.0);
    let log = (0..31).find(|log| MOST / per_us / f64::from(1_u32 << log) < 512.0).unwrap_or(31);
    let mut table = [0; 256];
    for (index, halvings) in table.iter_mut().enumerate().skip(1) {
        *halvings = (index as f64 * f64::from(1_u32 << log) * per_us).ceil().min(MOST) as u8;
    }
    table[255] = MOST as u8;
    (table, log)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(message: &Message) -> String {
        message.body().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    // The expected bytes are what tc of iproute2 sends for the command above each, in the order in
    // which we send them.

    #[test]
    fn codel_is_told_as_tc_tells_it() {
        // tc qdisc add ... codel limit 100 target 5ms interval 100ms ecn
        let aqm = Aqm::Codel { limit: 100, target_ns: 5_000_000, interval_ns: 100_000_000, ecn: true };
        let options = "0800010088130000080002006400000008000300a08601000800040001000000";
        assert_eq!(hexadecimal(&aqm.put(Message::new(0, 0, &[]))), format!("0a000100636f64656c00000024000200{options}"));
    }

    #[test]
    fn dualpi2_is_told_as_linux_pkt_sched_h_numbers_it() {
        // tc qdisc ... dualpi2 limit 100 target 15ms tupdate 16ms step_thresh 1ms min_qlen_step 0
        // coupling_factor 2 classic_protection 10 any_ect
        let times = (15_000_000, 16_000_000, 1_000_000);
        let (target_ns, update_ns, step_ns) = times;
        let aqm =
            Aqm::DualPi2 { limit: 100, target_ns, update_ns, step_ns, step_packets: 0, coupling: 2, classic_percent: 10, any_ect: true };
        let words = "0800010064000000080003009".to_owned() + "83a000008000400803e000008000800e80300000800090000000000";
        let bytes = "05000a000200000005000d000a00000005000e0003000000";
        assert_eq!(hexadecimal(&aqm.put(Message::new(0, 0, &[]))), format!("0c0001006475616c7069320044000280{words}{bytes}"));
    }

    #[test]
    fn a_link_that_is_idle_long_enough_forgets() {
        // A weight of 1/512 and 1 ms a packet: half of the average is gone after 355 packets.
        let (table, log) = idle_table(9, 1_000_000);
        let at = |ms: u64| table[((ms * 1000) >> log) as usize];
        assert_eq!((table[0], at(200), at(400), table[255]), (0, 1, 2, 31));
    }
}
