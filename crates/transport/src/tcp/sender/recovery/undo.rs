//! Was a reduction of the window spurious? Three kinds of evidence, and what each takes back.
//!
//! Timestamps (Eifel, RFC 3522): an ACK echoes a time from before the first retransmission, so the
//! original had arrived. DSACKs (RFC 3708): every retransmission is reported as a duplicate. F-RTO
//! (RFC 5682): after a timeout, data that was sent only once is acknowledged. Nothing here marks a
//! segment lost or sends one.

use crate::tcp::sender::ack::AckState;
use crate::tcp::sender::{CaState, Context, Sender, is_earlier};
use polypath_base::Seq;

#[derive(Debug, Default)]
pub(in crate::tcp) struct Undo {
    /// Set while a reduction may yet prove spurious: `snd_una` at its start (Linux: `undo_marker`).
    marker: Option<Seq>,
    /// Retransmissions not yet reported as duplicates; `None` where a DSACK cannot undo (Linux:
    /// `undo_retrans`).
    retrans: Option<u32>,
    /// Slow-start threshold to restore, segments; 0 if the reduction is not to be undone (Linux:
    /// `prior_ssthresh`).
    prior_ssthresh: u32,
    /// Send time (ms clock) of the first retransmission of this episode (Linux: `retrans_stamp`).
    retrans_stamp: Option<u32>,
}

impl Undo {
    /// A reduction begins: from here on evidence against it is collected. Of `retrans_out`
    /// retransmissions in the network duplicates may be reported later; without any, no DSACK can
    /// undo.
    pub(in crate::tcp) fn watch(&mut self, snd_una: Seq, retrans_out: u32) {
        self.marker = Some(snd_una);
        self.retrans = (retrans_out > 0).then_some(retrans_out);
    }

    /// Evidence is being collected.
    #[inline]
    pub(in crate::tcp) fn is_watching(&self) -> bool {
        self.marker.is_some()
    }

    /// What happens now is not to be undone, or has been.
    pub(in crate::tcp) fn end(&mut self) {
        self.marker = None;
    }

    /// The threshold to restore, segments; 0: there is none.
    #[inline]
    pub(in crate::tcp) fn prior_ssthresh(&self) -> u32 {
        self.prior_ssthresh
    }

    pub(in crate::tcp) fn set_prior_ssthresh(&mut self, segments: u32) {
        debug_assert!(segments >= 2, "no threshold is less (RFC 5681 section 3.1)");
        self.prior_ssthresh = segments;
    }

    /// The reduction is not to be undone.
    pub(in crate::tcp) fn forget_threshold(&mut self) {
        self.prior_ssthresh = 0;
    }

    /// A segment is sent again at `stamp`, ms: what arrives later may be that.
    pub(in crate::tcp) fn stamp_retransmission(&mut self, stamp: u32) {
        self.retrans_stamp.get_or_insert(stamp);
    }

    /// A segment is sent again of which a duplicate may be reported.
    pub(in crate::tcp) fn on_retransmitted(&mut self) {
        self.retrans = Some(self.retrans.unwrap_or(0) + 1);
    }

    /// When the first retransmission of this episode left, ms.
    #[inline]
    pub(in crate::tcp) fn retrans_stamp(&self) -> Option<u32> {
        self.retrans_stamp
    }

    /// No retransmission is in the network any more.
    #[inline]
    pub(in crate::tcp) fn forget_retrans_stamp(&mut self) {
        self.retrans_stamp = None;
    }

    /// A DSACK reports that so many segments up to `end` came twice, sent since the reduction
    /// began.
    pub(in crate::tcp) fn on_dsack(&mut self, end: Seq, segments: u32) {
        if let (Some(marker), Some(left)) = (self.marker, self.retrans)
            && end.after(marker)
        {
            self.retrans = Some(left.saturating_sub(segments));
        }
    }

    /// What was missing has arrived, and it was no retransmission: the ACK echoes a time from
    /// before the first one (RFC 3522), or `nothing_again`, none has left yet.
    pub(in crate::tcp) fn shown_by_delay(&self, echo: Option<u32>, nothing_again: bool) -> bool {
        let original = self.retrans_stamp.map_or(nothing_again, |stamp| echo.is_some_and(|echo| is_earlier(echo, stamp)));
        self.is_watching() && original
    }

    /// Every retransmission was reported as a duplicate.
    #[inline]
    pub(in crate::tcp) fn shown_by_dsacks(&self) -> bool {
        self.is_watching() && self.retrans == Some(0)
    }
}

/// What F-RTO says of an ACK after a timeout (RFC 5682 section 3.1).
enum Frto {
    Undecided,
    /// Step 3.b: the timeout was spurious.
    Spurious,
    /// Step 2.b: new data goes before more retransmissions.
    SendNewData,
}

impl Sender {
    /// A reduction begins: from here on evidence against it is collected.
    pub(in crate::tcp::sender) fn watch_for_undo(&mut self) {
        self.undo.watch(self.snd_una(), self.scoreboard.retrans_out() - self.retransmitted_of_probes());
    }

    fn is_spurious(&self, ack: &AckState) -> bool {
        self.undo.shown_by_dsacks() || self.was_delayed(ack)
    }

    /// What was taken for lost came late (Linux: `tcp_packet_delayed`). Without SACK an ACK of
    /// everything may be one of a retransmission before.
    fn was_delayed(&self, ack: &AckState) -> bool {
        self.undo.shown_by_delay(ack.ts_ecr, self.sack_ok || self.snd_una().before(self.loss.high_seq()))
    }

    fn take_back_reduction(&mut self, cx: Context<'_>) {
        if self.undo.prior_ssthresh() > 0 {
            self.flow.cwnd = self.cc.undo_cwnd(&mut self.flow, cx.siblings);
            if self.undo.prior_ssthresh() > self.flow.ssthresh {
                self.flow.ssthresh = self.undo.prior_ssthresh();
                self.queue_cwr(false);
            }
        }
        self.cwnd_validation.on_change(cx.now);
        self.counters.spurious_undos += 1;
        self.undo.end();
        self.rack.look_again();
    }

    /// Nothing is known to be lost any more but what lost probes carried, which the search has
    /// judged, and the reduction is taken back.
    fn take_back_losses(&mut self, cx: Context<'_>) {
        self.scoreboard.unmark_lost_but(self.path_mtu.lost_probes());
        self.take_back_reduction(cx);
    }

    /// All that recovery was for is acknowledged. True if the state must stay (without SACK,
    /// RFC 6582 section 3.2).
    pub(in crate::tcp::sender) fn leave_recovery(&mut self, cx: Context<'_>, ack: &AckState) -> bool {
        if self.is_spurious(ack) {
            self.take_back_reduction(cx);
        } else {
            self.rack.recovery_ended();
        }
        if self.stays_without_sack() {
            return true;
        }
        // Linux leaves for Open here; `end_reduction` still needs the marker, so the caller comes
        // next.
        self.set_ca_state(cx, CaState::Open);
        false
    }

    /// Without SACK the state is kept until something beyond what was in the network is acknowledged
    /// (RFC 6582 section 3.2; Linux: `tcp_is_non_sack_preventing_reopen`).
    fn stays_without_sack(&mut self) -> bool {
        let stays = !self.sack_ok && self.snd_una() == self.loss.high_seq();
        if stays {
            self.forget_retransmissions();
        }
        stays
    }

    /// True if an original proved to have arrived while retransmissions are still in the network:
    /// they are waited for, and nothing is marked lost.
    pub(in crate::tcp::sender) fn undo_during_recovery(&mut self, cx: Context<'_>, ack: &AckState) -> bool {
        if ack.facts.advances_una && self.was_delayed(ack) {
            self.note_reordering(Some(ack.prior_una), true);
            if self.scoreboard.retrans_out() > 0 {
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
    pub(in crate::tcp::sender) fn forget_retransmissions(&mut self) {
        if !self.scoreboard.any_retransmitted() {
            self.undo.forget_retrans_stamp();
        }
    }

    pub(in crate::tcp::sender) fn undo_by_dsacks(&mut self, cx: Context<'_>) -> bool {
        let spurious = self.undo.shown_by_dsacks();
        if spurious {
            self.rack.persist();
            self.take_back_reduction(cx);
        }
        spurious
    }

    /// In the Loss state. True if new data is to be tried instead of retransmissions.
    pub(in crate::tcp::sender) fn go_on_after_timeout(&mut self, cx: Context<'_>, ack: &AckState) -> bool {
        let recovered = !self.snd_una().before(self.loss.high_seq());
        if ack.facts.advances_una && self.is_spurious(ack) {
            self.take_back_timeout(cx, self.sack_ok);
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
        } else if !self.sack_ok {
            // New data has arrived, as F-RTO tried.
            if self.snd_nxt().after(self.loss.high_seq()) {
                self.add_reno_sack(ack);
            } else if ack.facts.advances_una {
                self.scoreboard.set_reno_sacked(0);
            }
        }
        false
    }

    fn ask_frto(&mut self, ack: &AckState, recovered: bool) -> Frto {
        if !self.loss.frto_goes_on() {
            return Frto::Undecided;
        }
        if ack.facts.delivers_original {
            return Frto::Spurious;
        }
        if self.snd_nxt().after(self.loss.high_seq()) {
            // Step 3.a: new data was sent, and a duplicate ACK came for it.
            self.loss.set_frto(!(ack.facts.sacks_segments || ack.is_duplicate && !ack.facts.reports_duplicate));
        } else if ack.facts.advances_una && !recovered {
            self.loss.set_high_seq(self.snd_nxt());
            if self.has_unsent() && self.window_room() > 0 {
                return Frto::SendNewData;
            }
            self.loss.set_frto(false);
        }
        Frto::Undecided
    }

    /// `open`: without SACK the Loss state ends only once all of it is acknowledged.
    fn take_back_timeout(&mut self, cx: Context<'_>, open: bool) {
        self.take_back_losses(cx);
        self.loss.on_progress();
        if !self.stays_without_sack() && open {
            self.set_ca_state(cx, CaState::Open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching() -> Undo {
        let mut undo = Undo::default();
        undo.watch(Seq::new(5000), 0);
        undo
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_shows_it() {
        let mut undo = watching();
        undo.stamp_retransmission(70);
        undo.on_retransmitted();
        undo.stamp_retransmission(90);
        undo.on_retransmitted();
        let shown = |undo: &Undo, echo| undo.shown_by_delay(echo, true);
        assert!(shown(&undo, Some(69)) && !shown(&undo, Some(70)) && !shown(&undo, None));
        undo.end();
        assert!(!shown(&undo, Some(69)), "nothing is to be undone");
    }

    #[test]
    fn what_arrives_before_anything_was_sent_again_was_late() {
        let mut undo = watching();
        assert!(undo.shown_by_delay(None, true) && !undo.shown_by_delay(None, false));
        undo.stamp_retransmission(70);
        undo.on_retransmitted();
        assert!(!undo.shown_by_delay(None, true));
    }

    #[test]
    fn a_duplicate_for_each_retransmission_shows_it() {
        let mut undo = watching();
        assert!(!undo.shown_by_dsacks(), "nothing was sent again");
        undo.stamp_retransmission(70);
        undo.on_retransmitted();
        undo.stamp_retransmission(71);
        undo.on_retransmitted();
        undo.on_dsack(Seq::new(6000), 1);
        assert!(!undo.shown_by_dsacks());
        undo.on_dsack(Seq::new(5000), 1);
        assert!(!undo.shown_by_dsacks(), "older than the reduction");
        undo.on_dsack(Seq::new(7000), 1);
        assert!(undo.shown_by_dsacks());
    }

    #[test]
    fn a_block_of_several_segments_counts_as_many() {
        let mut undo = Undo::default();
        undo.watch(Seq::new(5000), 3);
        undo.on_dsack(Seq::new(8000), 3);
        assert!(undo.shown_by_dsacks());
    }
}
