//! The tail loss probe (RFC 8985 section 7): when it may leave, and what an ACK says of it (Linux:
//! `tcp_process_tlp_ack`).

use crate::tcp::sender::Sender;
use polypath_base::{Duration, Seq};

/// Before any sample of the RTT (RFC 8985 section 7.2).
const WITHOUT_RTT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(in crate::tcp) struct Tlp {
    /// A probe is to be sent.
    due: bool,
    /// `snd_nxt` when the last probe left, until an ACK has told of it.
    high_seq: Option<Seq>,
    /// That probe was a retransmission.
    retransmitted: bool,
}

/// What an ACK said that concerns a probe.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct TlpAck {
    pub(in crate::tcp) number: Seq,
    /// A DSACK reports the probe.
    pub(in crate::tcp) reports_duplicate: bool,
    /// It acknowledges something, carries data or changes the window: no pure duplicate ACK.
    pub(in crate::tcp) says_more: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum TlpVerdict {
    Nothing,
    /// The probe repaired a loss, which calls for one reduction of the window.
    RepairedLoss,
}

impl Tlp {
    /// The timer came up with something in the network: a probe is due. False if one is out
    /// already.
    pub(in crate::tcp) fn on_timeout(&mut self) -> bool {
        self.due |= self.high_seq.is_none();
        self.high_seq.is_none()
    }

    #[inline]
    pub(in crate::tcp) fn is_due(&self) -> bool {
        self.due
    }

    /// As [`Tlp::is_due`]; the probe leaves, or there is nothing to probe with.
    pub(in crate::tcp) fn take(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// A probe has left.
    pub(in crate::tcp) fn on_sent(&mut self, snd_nxt: Seq, retransmitted: bool) {
        debug_assert!(!self.due, "it was taken");
        self.high_seq = Some(snd_nxt);
        self.retransmitted = retransmitted;
    }

    /// A probe is out of which no ACK has told.
    #[inline]
    pub(in crate::tcp) fn is_out(&self) -> bool {
        self.high_seq.is_some()
    }

    /// A DSACK up to here reports the probe.
    pub(in crate::tcp) fn is_end(&self, end: Seq) -> bool {
        self.high_seq == Some(end)
    }

    /// Recovery begins: what becomes of the probe tells nothing any more.
    pub(in crate::tcp) fn forget(&mut self) {
        self.high_seq = None;
    }

    /// RFC 8985 section 7.4.
    #[cold]
    pub(in crate::tcp) fn on_ack(&mut self, ack: TlpAck) -> TlpVerdict {
        let Some(probe) = self.high_seq.filter(|&probe| !ack.number.before(probe)) else { return TlpVerdict::Nothing };
        if !self.retransmitted || ack.reports_duplicate {
            self.forget();
        } else if ack.number.after(probe) {
            self.forget();
            return TlpVerdict::RepairedLoss;
        } else if !ack.says_more {
            // The original and the probe have both arrived.
            self.forget();
        }
        TlpVerdict::Nothing
    }

    /// When a probe is due after the last transmission (RFC 8985 section 7.2): two round trips, and
    /// for a lone segment as long as the receiver may delay its ACK (`delayed_ack`), else `floor`.
    /// `srtt`: smoothed RTT, microseconds times 8; 0 before the first sample.
    pub(in crate::tcp) fn timeout(srtt: u32, packets_out: u32, delayed_ack: Duration, floor: Duration) -> Duration {
        if srtt == 0 {
            return WITHOUT_RTT;
        }
        Duration::from_micros(u64::from(srtt >> 2)) + if packets_out == 1 { delayed_ack } else { floor }
    }
}

impl Sender {
    /// The segment with which a probe is made, a buffer of its own: where segments became shorter
    /// since its buffer left, not the last (Linux: `tcp_send_loss_probe` cuts by the number of
    /// segments before).
    #[cold]
    pub(in crate::tcp::sender) fn last_to_probe_with(&mut self) -> Option<usize> {
        let last = self.scoreboard.len().checked_sub(1)?;
        let segment = self.segment_len();
        let first = self.scoreboard.buffer_begin(last);
        if first < last {
            if self.scoreboard.at(first).len > segment {
                self.scoreboard.regroup(first, segment);
            }
            self.scoreboard.begin_buffer(last);
        }
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Seq = Seq::new(1000);

    fn ack(number: u32) -> TlpAck {
        TlpAck { number: Seq::new(number), reports_duplicate: false, says_more: true }
    }

    fn after_probe(retransmitted: bool, ack: TlpAck) -> (TlpVerdict, bool) {
        let mut tlp = Tlp::default();
        tlp.on_sent(PROBE, retransmitted);
        (tlp.on_ack(ack), tlp.is_out())
    }

    #[test]
    fn an_ack_below_the_probe_tells_nothing_of_it() {
        assert_eq!(after_probe(true, ack(999)), (TlpVerdict::Nothing, true));
    }

    #[test]
    fn a_probe_with_new_data_ends_with_its_ack() {
        assert_eq!(after_probe(false, ack(1000)), (TlpVerdict::Nothing, false));
    }

    #[test]
    fn a_repeated_segment_that_arrives_twice_was_no_loss() {
        assert_eq!(after_probe(true, TlpAck { reports_duplicate: true, ..ack(1000) }), (TlpVerdict::Nothing, false));
        assert_eq!(after_probe(true, TlpAck { says_more: false, ..ack(1000) }), (TlpVerdict::Nothing, false));
        assert_eq!(after_probe(true, ack(1000)), (TlpVerdict::Nothing, true), "it may yet be reported");
    }

    #[test]
    fn a_repeated_segment_of_which_only_one_copy_came_was_a_loss() {
        assert_eq!(after_probe(true, ack(1001)), (TlpVerdict::RepairedLoss, false));
    }

    #[test]
    fn one_probe_is_out_at_a_time() {
        let mut tlp = Tlp::default();
        assert!(tlp.on_timeout() && tlp.take() && !tlp.take());
        tlp.on_sent(PROBE, false);
        assert!(!tlp.on_timeout() && !tlp.is_due());
    }

    #[test]
    fn a_lone_segment_waits_for_a_delayed_ack() {
        let timeout = |srtt_ms: u32, packets| Tlp::timeout(srtt_ms * 8000, packets, Duration::from_millis(200), Duration::from_millis(2));
        assert_eq!([timeout(10, 1), timeout(10, 2), timeout(0, 2)].map(Duration::as_millis), [220, 22, 1000]);
    }
}
