//! Was a reduction of the window spurious? Three kinds of evidence, and what each takes back.
//!
//! Timestamps (Eifel, RFC 3522): an ACK echoes a time from before the first retransmission, so the original had arrived. DSACKs (RFC 3708): every retransmission
//! is reported as a duplicate. F-RTO (RFC 5682): after a timeout, data that was sent only once is acknowledged. Nothing here marks a segment lost or sends one.

use super::ack::AckState;
use super::{CaState, Context, Socket};

/// What F-RTO says of an ACK after a timeout (RFC 5682 section 3.1).
enum Frto {
    Undecided,
    /// Step 3.b: the timeout was spurious.
    Spurious,
    /// Step 2.b: new data goes before more retransmissions.
    SendNewData,
}

impl Socket {
    /// A reduction begins: from here on evidence against it is collected.
    pub(super) fn watch_for_undo(&mut self) {
        self.tx.undo.watch(self.tx.snd_una(), self.tx.scoreboard.retrans_out() - self.retransmitted_of_probes());
    }

    fn is_spurious(&self, ack: &AckState) -> bool {
        self.tx.undo.shown_by_dsacks() || self.was_delayed(ack)
    }

    /// What was taken for lost came late (Linux: `tcp_packet_delayed`). Without SACK an ACK of everything may be one of a retransmission before.
    fn was_delayed(&self, ack: &AckState) -> bool {
        self.tx.undo.shown_by_delay(ack.ts_ecr, self.tx.sack_ok || self.tx.snd_una().before(self.tx.loss.high_seq()))
    }

    fn take_back_reduction(&mut self, cx: Context<'_>) {
        if self.tx.undo.prior_ssthresh() > 0 {
            self.tx.flow.cwnd = self.tx.cc.undo_cwnd(&mut self.tx.flow, cx.siblings);
            if self.tx.undo.prior_ssthresh() > self.tx.flow.ssthresh {
                self.tx.flow.ssthresh = self.tx.undo.prior_ssthresh();
                self.queue_cwr(false);
            }
        }
        self.tx.counters.spurious_undos += 1;
        self.tx.undo.end();
        self.tx.rack.look_again();
    }

    /// Nothing is known to be lost any more but what lost probes carried, which the search has judged, and the reduction is taken back.
    fn take_back_losses(&mut self, cx: Context<'_>) {
        self.tx.scoreboard.unmark_lost_but(self.tx.path_mtu.lost_probes());
        self.take_back_reduction(cx);
    }

    /// All that recovery was for is acknowledged. True if the state must stay (without SACK, RFC 6582 section 3.2).
    pub(super) fn leave_recovery(&mut self, cx: Context<'_>, ack: &AckState) -> bool {
        if self.is_spurious(ack) {
            self.take_back_reduction(cx);
        } else {
            self.tx.rack.recovery_ended();
        }
        if self.tx.snd_una() == self.tx.loss.high_seq() && !self.tx.sack_ok {
            return true;
        }
        // Linux leaves for Open here; `end_reduction` still needs the marker, so the caller comes next.
        self.set_ca_state(cx, CaState::Open);
        false
    }

    /// True if an original proved to have arrived while retransmissions are still in the network: they are waited for, and nothing is marked lost.
    pub(super) fn undo_during_recovery(&mut self, cx: Context<'_>, ack: &AckState) -> bool {
        if ack.facts.advances_una && self.was_delayed(ack) {
            self.note_reordering(Some(ack.prior_una), true);
            if self.tx.scoreboard.retrans_out() > 0 {
                return true;
            }
            self.forget_retransmissions();
            self.take_back_losses(cx);
            self.try_keep_open(cx);
        }
        if self.undo_by_dsacks(cx) {
            self.try_to_open(cx, ack.facts.echoes_ce);
        }
        false
    }

    /// The episode's first retransmission counts no longer, once nothing tells of any.
    pub(super) fn forget_retransmissions(&mut self) {
        if !self.tx.scoreboard.any_retransmitted() {
            self.tx.undo.forget_retrans_stamp();
        }
    }

    pub(super) fn undo_by_dsacks(&mut self, cx: Context<'_>) -> bool {
        let spurious = self.tx.undo.shown_by_dsacks();
        if spurious {
            self.tx.rack.persist();
            self.take_back_reduction(cx);
        }
        spurious
    }

    /// In the Loss state. True if new data is to be tried instead of retransmissions.
    pub(super) fn go_on_after_timeout(&mut self, cx: Context<'_>, ack: &AckState) -> bool {
        let recovered = !self.tx.snd_una().before(self.tx.loss.high_seq());
        if ack.facts.advances_una && self.is_spurious(ack) {
            self.take_back_timeout(cx, self.tx.sack_ok);
            return false;
        }
        match self.ask_frto(ack, recovered) {
            Frto::Spurious => {
                self.take_back_timeout(cx, true);
                return false;
            }
            Frto::SendNewData => return true,
            Frto::Undecided => {}
        }
        if recovered {
            self.leave_recovery(cx, ack);
        }
        false
    }

    fn ask_frto(&mut self, ack: &AckState, recovered: bool) -> Frto {
        if !self.tx.loss.frto_goes_on() {
            return Frto::Undecided;
        }
        if ack.facts.delivers_original {
            return Frto::Spurious;
        }
        if self.tx.snd_nxt().after(self.tx.loss.high_seq()) {
            // Step 3.a: new data was sent, and a duplicate ACK came for it.
            self.tx.loss.set_frto(!(ack.facts.sacks_segments || ack.is_duplicate && !ack.facts.reports_duplicate));
        } else if ack.facts.advances_una && !recovered {
            self.tx.loss.set_high_seq(self.tx.snd_nxt());
            if self.tx.queue.unsent() > 0 && self.window_room() > 0 {
                return Frto::SendNewData;
            }
            self.tx.loss.set_frto(false);
        }
        Frto::Undecided
    }

    /// `open`: without SACK the Loss state ends only once all of it is acknowledged.
    fn take_back_timeout(&mut self, cx: Context<'_>, open: bool) {
        self.take_back_losses(cx);
        self.tx.loss.on_progress();
        if open {
            self.set_ca_state(cx, CaState::Open);
        }
    }
}
