//! What a meta connection reads and sets of a subflow's sender, beside the public methods.

use super::{CaState, Sender};
use crate::tcp::timer::Timer;
use polypath_base::{DataSeq, Duration, Instant, Segments, Seq, SmoothedRtt};
use polypath_cc as cc;

impl Sender {
    /// Smoothed RTT; zero before the first sample.
    #[inline]
    pub(crate) fn smoothed_rtt(&self) -> SmoothedRtt {
        SmoothedRtt::from_eighths(self.flow.srtt_us)
    }

    /// Variation of the RTT, at least the least retransmission timeout.
    #[inline]
    pub(crate) fn rttvar(&self) -> Duration {
        self.rtt.variation()
    }

    /// Slow-start threshold.
    #[inline]
    pub(crate) fn ssthresh(&self) -> Segments {
        Segments::new(self.flow.ssthresh)
    }

    /// Bytes that the peer's TCP has acknowledged.
    #[inline]
    pub(crate) fn bytes_acked(&self) -> u64 {
        self.flow.bytes_acked
    }

    /// It has data of the connection from `dsn` on that the peer's TCP has not acknowledged.
    #[cold]
    pub(crate) fn holds_data_from(&self, dsn: DataSeq) -> bool {
        (self.may_write || self.fin_sent) && self.unacked_mappings().any(|(start, len)| (start + len.get()).after(dsn))
    }

    #[inline]
    pub(crate) fn timeouts(&self) -> u64 {
        self.counters.timeouts
    }

    /// How long from `now` the retransmission timer, which also serves probes and reordering, is
    /// set to, in whole ticks (Linux: `icsk_timeout`); nothing if it is off or due.
    #[inline]
    pub(crate) fn rtx_left(&mut self, now: Instant) -> Duration {
        self.timers.left(Timer::Retransmission, now)
    }

    /// An acknowledgement up to there is neither older than another one nor of what was never sent.
    #[inline]
    pub(crate) fn may_be_acked(&self, ack: Seq) -> bool {
        !ack.before(self.snd_una()) && !ack.after(self.snd_nxt())
    }

    /// A timer of the wheel has fired at `now`.
    pub(crate) fn note_fired(&mut self, now: Instant) {
        self.timers.note_fired(now);
    }

    /// A tail loss probe leaves next.
    pub(crate) fn tail_loss_probe_is_due(&self) -> bool {
        self.tlp.is_due()
    }

    /// The writer of the meta connection waits for room, or one that does not block has found none:
    /// the send buffer may grow.
    pub(crate) fn set_writer_blocked(&mut self, blocked: bool) {
        self.writer_blocked = blocked;
    }

    /// The congestion window has room, and there is not even a segment to send: Nagle's rule keeps
    /// less than one.
    #[inline]
    pub(crate) fn is_starved(&self) -> bool {
        self.queue.unsent() < self.flow.mss && self.scoreboard.in_flight() < self.flow.cwnd
    }

    /// The meta connection knows of a larger window than this subflow's last segment told.
    #[inline]
    pub(crate) fn raise_peer_window(&mut self, window: u32) {
        self.snd_wnd = self.snd_wnd.max(window);
    }

    /// A burst that was deferred is looked at anew (Linux: `tcp_push`).
    #[cold]
    pub(crate) fn push_pending(&mut self) {
        if self.queue.unsent() > 0 {
            self.end_deferral();
        }
    }

    /// The buffers that wait to be sent, and how many segments leave as one burst.
    #[inline]
    pub(crate) fn buffered(&mut self) -> (u32, Segments) {
        (self.queue.buffers(), Segments::new(self.burst_segments(None)))
    }

    /// MPTCP 0.96's penalty for holding up the others: half the window, and half the
    /// threshold if past it.
    pub(crate) fn penalise(&mut self) {
        let prior = self.flow.cwnd;
        self.flow.cwnd = (prior >> 1).max(1);
        if prior >= self.flow.ssthresh {
            self.flow.ssthresh = (self.flow.ssthresh >> 1).max(2);
        }
    }

    /// What coupled algorithms see of this subflow.
    #[inline]
    pub(crate) fn sibling(&self, usable: bool) -> cc::Sibling {
        cc::Sibling {
            bytes_since_loss: self.loss.bytes_since_loss(self.flow.bytes_acked),
            bytes_between_losses: self.loss.bytes_between_losses(),
            priv_word: self.cc.private_word(),
            cwnd: self.flow.cwnd,
            ssthresh: self.flow.ssthresh,
            srtt_us: self.flow.srtt_us,
            mss: self.flow.mss,
            ca_state: self.flow.ca_state,
            in_recovery: self.flow.ca_state >= CaState::Recovery,
            usable: usable && self.flow.srtt_us > 0,
            reserved: [0; 5],
        }
    }

    /// Bytes of full segments that have left in the burst that is being sent.
    pub(in crate::tcp) fn burst_bytes(&self) -> u32 {
        self.burst.length * self.segment_len()
    }
}
