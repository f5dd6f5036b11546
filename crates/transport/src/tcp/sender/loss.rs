//! The sender's congestion states: entering and leaving recovery, PRR, tail loss probes and
//! timeouts. `undo` takes back what proves spurious.

use super::ack::{AckFacts, AckState};
use super::recovery::{Delivered, Tlp, TlpAck, TlpVerdict};
use super::scoreboard::Sent;
use super::{CaState, Context, Sender};
use crate::tcp::timer::{Pending, Timer};
use polypath_base::{Duration, Instant};
use polypath_cc as cc;

/// How long at least an ACK of what was acknowledged selectively is waited for.
const RENEGING_WAIT: Duration = Duration::from_millis(10);

impl Sender {
    #[inline(never)]
    pub(super) fn set_ca_state(&mut self, cx: Context<'_>, state: CaState) {
        // An algorithm hears of each timeout (Linux: `tcp_set_ca_state`).
        if state == self.flow.ca_state && state != CaState::Loss {
            return;
        }
        self.cc.set_state(&mut self.flow, cx.siblings, state);
        self.flow.ca_state = state;
    }

    /// Decides on a dubious ACK: what Linux calls the fast-retransmit alert. Whether
    /// something goes again, `loss.retransmits` says.
    #[inline(never)]
    pub(super) fn fastretrans_alert(&mut self, cx: Context<'_>, ack: &mut AckState) {
        if self.scoreboard.packets_out() == 0 {
            self.scoreboard.forget_sacks();
        }
        let marked = ack.facts.echoes_ce;
        if marked {
            self.undo.forget_threshold();
        }
        if ack.facts.advances_una && self.scoreboard.head().is_some_and(Sent::is_sacked) {
            self.await_reneging(cx.now, ack);
            return;
        }
        if self.flow.ca_state == CaState::Open {
            self.undo.forget_retrans_stamp();
        } else if !self.snd_una().before(self.loss.high_seq()) {
            match self.flow.ca_state {
                CaState::Cwr if self.snd_una() != self.loss.high_seq() => {
                    self.end_reduction(cx);
                    self.set_ca_state(cx, CaState::Open);
                }
                CaState::Recovery => {
                    if !self.sack_ok {
                        self.scoreboard.set_reno_sacked(0);
                    }
                    if self.leave_recovery(cx, ack) {
                        return;
                    }
                    self.end_reduction(cx);
                }
                _ => {}
            }
        }
        match self.flow.ca_state {
            CaState::Recovery => {
                if !self.sack_ok && !ack.facts.advances_una {
                    self.add_reno_sack(ack);
                }
                if self.undo_during_recovery(cx, ack) {
                    return;
                }
                self.identify_losses(cx.now, ack);
                if self.flow.ca_state != CaState::Recovery {
                    if !self.time_to_recover() {
                        self.retransmit_probes();
                        return;
                    }
                    self.enter_recovery(cx);
                }
            }
            CaState::Loss => {
                let new_data = self.go_on_after_timeout(cx, ack);
                self.identify_losses(cx.now, ack);
                if !(self.flow.ca_state == CaState::Open || ack.facts.proves_retransmission_lost) {
                    let is_lost = self.flow.ca_state == CaState::Loss;
                    self.loss.set_retransmits(!new_data && is_lost);
                    self.loss.set_new_data_first(new_data && is_lost);
                    return;
                }
                // The window is taken back, or retransmissions are lost.
                self.open_or_recover(cx, ack);
                return;
            }
            _ => {
                self.open_or_recover(cx, ack);
                return;
            }
        }
        self.loss.set_retransmits(true);
    }

    /// The first segment is one that was acknowledged selectively: the receiver may have dropped it
    /// again (RFC 2018 section 8). If no ACK of it comes soon, a timeout finds so (Linux:
    /// `tcp_check_sack_reneging`).
    #[cold]
    fn await_reneging(&mut self, now: Instant, ack: &mut AckState) {
        let wait = Duration::from_micros(u64::from(self.flow.srtt_us >> 4)).max(RENEGING_WAIT);
        self.timers.arm_pending(Pending::Timeout, now, wait);
        ack.facts.suspects_reneging = true;
        self.loss.set_retransmits(false);
    }

    /// Recovery begins if something is lost; else all may be well.
    fn open_or_recover(&mut self, cx: Context<'_>, ack: &mut AckState) {
        if !self.sack_ok {
            if ack.facts.advances_una {
                self.scoreboard.set_reno_sacked(0);
            }
            self.add_reno_sack(ack);
        }
        if self.flow.ca_state <= CaState::Disorder {
            self.undo_by_dsacks(cx);
        }
        self.identify_losses(cx.now, ack);
        if !self.time_to_recover() {
            self.try_to_open(cx, ack.facts.echoes_ce);
            self.retransmit_probes();
            return;
        }
        if self.path_mtu.is_probe_out() && self.mtu_probe_is_lost(cx.now) {
            return;
        }
        self.enter_recovery(cx);
        self.loss.set_retransmits(true);
    }

    /// What lost probes carried goes again though nothing else is lost.
    fn retransmit_probes(&mut self) {
        if self.scoreboard.lost_out() > 0 {
            self.loss.set_retransmits(true);
        }
    }

    fn identify_losses(&mut self, now: Instant, ack: &mut AckState) {
        if !self.sack_ok {
            self.newreno_losses(ack);
            if self.path_mtu.reads_scoreboard() && self.scoreboard.lost_out() > 0 {
                self.settle_lost_probes(now);
            }
            return;
        }
        let before_marking = self.scoreboard.retrans_out();
        ack.facts.waits_for_reordered |= self.rack_detect(now);
        if before_marking > self.scoreboard.retrans_out() {
            ack.facts.proves_retransmission_lost = true;
        }
        if self.path_mtu.reads_scoreboard() && self.scoreboard.lost_out() > 0 {
            self.settle_lost_probes(now);
        }
    }

    /// Without SACK a duplicate ACK says that a segment has left the network, so that another may be
    /// sent (RFC 3042, RFC 6582 section 3.2; Linux: `tcp_add_reno_sack`).
    pub(super) fn add_reno_sack(&mut self, ack: &AckState) {
        if ack.is_duplicate {
            let before = self.scoreboard.sacked_out();
            self.limit_reno_sacks(before + 1, 0);
            self.flow.delivered = self.flow.delivered.wrapping_add(self.scoreboard.sacked_out().saturating_sub(before));
        }
    }

    /// An ACK may come: what duplicate ACKs told is put aside.
    #[cold]
    pub(super) fn take_reno_sacks(&mut self) -> u32 {
        let sacked = self.scoreboard.sacked_out();
        self.scoreboard.set_reno_sacked(0);
        sacked
    }

    /// So many segments are acknowledged: one was the hole, the others had duplicate ACKs (Linux:
    /// `tcp_remove_reno_sacks`).
    #[cold]
    pub(super) fn remove_reno_sacks(&mut self, sacked: u32, acked: u32) {
        let told_before = sacked.min(acked.saturating_sub(1));
        self.flow.delivered = self.flow.delivered.wrapping_sub(told_before);
        self.limit_reno_sacks(sacked - told_before, acked);
    }

    /// One segment at least has not arrived. More duplicate ACKs than that tell of reordering
    /// (Linux: `tcp_check_reno_reordering`).
    fn limit_reno_sacks(&mut self, sacked: u32, acked: u32) {
        let packets_out = self.scoreboard.packets_out();
        let most = packets_out.saturating_sub(self.scoreboard.lost_out().max(1));
        self.scoreboard.set_reno_sacked(sacked.min(most));
        if sacked > most {
            self.flow.reordering = (packets_out + acked).min(self.settings.max_reordering.get());
        }
    }

    /// Without SACK (RFC 6582): three duplicate ACKs, or a partial ACK in recovery, say that the
    /// first segment is lost (Linux: `tcp_newreno_mark_lost`).
    fn newreno_losses(&mut self, ack: &AckState) {
        let is_lost = match self.flow.ca_state {
            CaState::Recovery => ack.facts.advances_una,
            state => state < CaState::Recovery && self.scoreboard.sacked_out() >= self.flow.reordering,
        };
        if is_lost && self.scoreboard.head().is_some_and(|head| !head.is_lost()) && self.scoreboard.mark_lost(0) {
            self.flow.lost = self.flow.lost.wrapping_add(1);
        }
    }

    pub(super) fn time_to_recover(&self) -> bool {
        let lost = self.scoreboard.lost_out();
        lost > 0 && (self.path_mtu.lost_probes().is_empty() || lost > self.lost_in_probes())
    }

    pub(super) fn try_keep_open(&mut self, cx: Context<'_>) {
        let left_out = self.scoreboard.sacked_out() + self.scoreboard.lost_out() > 0;
        let state = if left_out || self.scoreboard.any_retransmitted() { CaState::Disorder } else { CaState::Open };
        if self.flow.ca_state != state {
            self.set_ca_state(cx, state);
            self.loss.set_high_seq(self.snd_nxt());
        }
    }

    pub(super) fn try_to_open(&mut self, cx: Context<'_>, marked: bool) {
        self.forget_retransmissions();
        if marked {
            self.enter_cwr(cx);
        }
        if self.flow.ca_state != CaState::Cwr {
            self.try_keep_open(cx);
        }
    }

    fn enter_recovery(&mut self, cx: Context<'_>) {
        debug_assert!(self.scoreboard.lost_out() > 0, "something is lost");
        self.forget_retransmissions();
        self.undo.forget_threshold();
        self.watch_for_undo();
        if !matches!(self.flow.ca_state, CaState::Cwr | CaState::Recovery) {
            self.undo.set_prior_ssthresh(self.current_ssthresh());
            self.init_reduction(cx);
        }
        self.counters.fast_recoveries += 1;
        self.set_ca_state(cx, CaState::Recovery);
    }

    /// The reordering timer proved losses.
    pub(super) fn enter_recovery_by_timer(&mut self, cx: Context<'_>) {
        self.enter_recovery(cx);
        if !self.cc.has_cong_control() {
            self.reduce_window(1, 0, AckFacts::default());
        }
    }

    pub(super) fn current_ssthresh(&self) -> u32 {
        // Linux remembers a larger threshold than ssthresh when the window had grown past it.
        if matches!(self.flow.ca_state, CaState::Cwr | CaState::Recovery) { self.flow.ssthresh } else { self.window().current_ssthresh() }
    }

    /// RFC 6937 section 3: the window will shrink in step with what is delivered.
    pub(super) fn init_reduction(&mut self, cx: Context<'_>) {
        self.loss.set_high_seq(self.snd_nxt());
        self.tlp.forget();
        self.flow.cwnd_cnt = 0;
        self.flow.prior_cwnd = self.flow.cwnd;
        self.prr.start();
        self.refresh_flow();
        self.flow.ssthresh = self.cc.ssthresh(&mut self.flow, cx.siblings);
        self.queue_cwr(true);
        self.loss.on_loss(self.flow.bytes_acked);
    }

    /// The peer echoes a mark, or the algorithm asks: once a window, the window is reduced as for a
    /// loss (RFC 3168 section 6.1.2), and nothing undoes it.
    #[cold]
    pub(super) fn enter_cwr(&mut self, cx: Context<'_>) {
        self.undo.forget_threshold();
        if self.flow.ca_state < CaState::Cwr {
            self.undo.end();
            self.init_reduction(cx);
            self.set_ca_state(cx, CaState::Cwr);
        }
    }

    /// The window was reduced, or a reduction taken back.
    pub(super) fn queue_cwr(&mut self, reduced: bool) {
        self.cwr_due = reduced && self.classic_ecn;
    }

    /// During a reduction the window follows what is delivered (RFC 6937 section 3).
    #[inline(never)]
    pub(super) fn reduce_window(&mut self, delivered: u32, newly_lost: u32, facts: AckFacts) {
        let by = Delivered {
            segments: delivered,
            newly_lost,
            advances_una: facts.advances_una,
            acks_retransmission: facts.acks_retransmission,
            proves_retransmission_lost: facts.proves_retransmission_lost,
        };
        let (in_flight, bound) = (self.scoreboard.in_flight(), self.settings.stack.prr_bound);
        if let Some(cwnd) = self.prr.cwnd(by, in_flight, self.flow.ssthresh, self.flow.prior_cwnd, bound) {
            self.flow.cwnd = cwnd;
        }
    }

    fn end_reduction(&mut self, cx: Context<'_>) {
        if self.cc.has_cong_control() {
            return;
        }
        if self.flow.ssthresh < cc::SSTHRESH_INFINITE && (self.flow.ca_state == CaState::Cwr || self.undo.is_watching()) {
            self.flow.cwnd = self.flow.ssthresh;
            self.cwnd_validation.on_change(cx.now);
        }
        self.cc.cwnd_event(&mut self.flow, cx.siblings, cc::Event::CompleteCwr);
    }

    /// A retransmission timeout (RFC 6298 section 5.4 to 5.7, RFC 5681 section 3.1).
    pub(super) fn enter_loss(&mut self, cx: Context<'_>) {
        debug_assert!(self.scoreboard.packets_out() > 0, "a timeout is of something in the network");
        let new_recovery = self.flow.ca_state < CaState::Recovery;
        self.mark_lost_at_timeout(cx.now);
        let fresh = self.flow.ca_state <= CaState::Disorder || !self.loss.high_seq().after(self.snd_una());
        if fresh || (self.flow.ca_state == CaState::Loss && self.loss.backoffs() == 0) {
            self.undo.set_prior_ssthresh(self.current_ssthresh());
            self.flow.prior_cwnd = self.flow.cwnd;
            self.refresh_flow();
            self.flow.ssthresh = self.cc.ssthresh(&mut self.flow, cx.siblings);
            self.cc.cwnd_event(&mut self.flow, cx.siblings, cc::Event::Loss);
            self.loss.on_loss(self.flow.bytes_acked);
            self.watch_for_undo();
        }
        self.flow.cwnd = self.scoreboard.in_flight() + 1;
        self.flow.cwnd_cnt = 0;
        self.cwnd_validation.on_change(cx.now);
        if self.flow.ca_state <= CaState::Disorder && self.scoreboard.sacked_out() >= self.settings.reordering.get() {
            self.flow.reordering = self.flow.reordering.min(self.settings.reordering.get());
        }
        self.set_ca_state(cx, CaState::Loss);
        self.loss.set_high_seq(self.snd_nxt());
        self.queue_cwr(true);
        debug_assert!(self.flow.cwnd >= 1, "a segment may leave");
        debug_assert!(
            self.scoreboard.lost_out() + self.scoreboard.sacked_out() + self.scoreboard.in_flight() >= self.scoreboard.packets_out(),
            "each segment is sacked, lost or in the network"
        );
        self.tlp.forget();
        self.loss.set_frto(self.settings.frto && (new_recovery || self.loss.backoffs() > 0) && !self.path_mtu.is_probe_out());
    }

    fn mark_lost_at_timeout(&mut self, now: Instant) {
        // A first segment that is sacked means that the receiver reneged (RFC 2018 section 8).
        let reneges = self.scoreboard.head().is_some_and(Sent::is_sacked);
        if !self.sack_ok || reneges {
            self.scoreboard.forget_sacks();
        }
        // What left with the first segment shares its fate (Linux: one buffer, `tcp_timeout_mark_lost`).
        let with_first = self.scoreboard.flight_end(0);
        for index in 0..self.scoreboard.len() {
            if index >= with_first && self.sack_ok && !reneges && self.rack_still_waits(now, index) {
                continue;
            }
            if self.scoreboard.mark_lost(index) {
                self.flow.lost = self.flow.lost.wrapping_add(1);
            }
        }
        self.scoreboard.first_goes_again();
    }

    /// RFC 8985 section 7.4: what the ACK says of an outstanding tail loss probe.
    #[cold]
    pub(super) fn process_tlp_ack(&mut self, cx: Context<'_>, ack: &AckState) {
        let says_more = ack.facts.advances_una || ack.facts.is_more_than_duplicate() || ack.facts.sacks_segments;
        let of_probe = TlpAck { number: ack.number, reports_duplicate: ack.facts.reports_probe_duplicate, says_more };
        if self.tlp.on_ack(of_probe) == TlpVerdict::RepairedLoss {
            self.init_reduction(cx);
            self.set_ca_state(cx, CaState::Cwr);
            self.end_reduction(cx);
            self.try_keep_open(cx);
        }
    }

    /// After new data has left: a tail loss probe is due, or else the timeout, which later segments
    /// do not put off (RFC 6298 section 5.1; Linux: `tcp_event_new_data_sent`, and the end of
    /// `tcp_write_xmit`).
    pub(super) fn arm_after_sending(&mut self, now: Instant) {
        let until_timeout = self.until_timeout(now);
        if !self.schedule_loss_probe(now, until_timeout) && !matches!(self.timers.pending(), Some(Pending::Timeout | Pending::Reordering)) {
            self.rearm_rto(now);
        }
    }

    /// After an ACK (Linux: `tcp_set_xmit_timer`).
    pub(super) fn arm_after_ack(&mut self, now: Instant) {
        if !self.schedule_loss_probe(now, self.rtt.rto()) {
            self.rearm_rto(now);
        }
    }

    /// RFC 8985 section 7.2: arms the timer for a tail loss probe, which comes no later than the
    /// timeout; false if none may be sent (Linux: `tcp_schedule_loss_probe`).
    #[inline(never)]
    fn schedule_loss_probe(&mut self, now: Instant, until_timeout: Duration) -> bool {
        let packets_out = self.scoreboard.packets_out();
        let may = self.settings.tail_loss_probe
            && !self.waits_for_handshake
            && self.sack_ok
            && packets_out > 0
            && matches!(self.flow.ca_state, CaState::Open | CaState::Cwr);
        if may {
            let mut wait = Tlp::timeout(self.flow.srtt_us, packets_out, self.settings.rto_min, self.timers.floor());
            if until_timeout > Duration::ZERO {
                wait = wait.min(until_timeout);
            }
            self.timers.arm_pending(Pending::LossProbe, now, wait);
        }
        may
    }

    /// (Re)arms the timeout. It counts from the first segment's last transmission where the timer
    /// stood for a probe or for reordering meanwhile (Linux: `tcp_rearm_rto`).
    pub(super) fn rearm_rto(&mut self, now: Instant) {
        if self.scoreboard.packets_out() == 0 {
            if self.timers.pending() != Some(Pending::WindowProbe) {
                self.timers.disarm(Timer::Retransmission);
            }
            return;
        }
        let wait = match self.timers.last_pending() {
            Pending::LossProbe | Pending::Reordering => self.until_timeout(now).max(Duration::from_micros(1)),
            Pending::Timeout | Pending::WindowProbe => self.rtt.rto(),
        };
        self.timers.arm_pending(Pending::Timeout, now, wait);
    }

    /// Until the first segment's timeout, from its last transmission on; zero if that is past
    /// (Linux: `tcp_rto_delta_us`).
    fn until_timeout(&self, now: Instant) -> Duration {
        let rto = self.rtt.rto();
        self.scoreboard.head().map_or(rto, |head| (head.at + rto).since(now))
    }

    /// A link's MTU is too small for what is in the network: those segments are lost, cut, and sent
    /// again at once without a congestion response (RFC 1191 section 6.5: it is no sign of
    /// congestion).
    #[cold]
    pub(super) fn retransmit_oversized(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.scoreboard.len() {
            let sent = *self.scoreboard.at(index);
            if sent.len > self.segment_len() && !sent.is_sacked() {
                self.scoreboard.mark_lost(index);
                self.scoreboard.split(index, self.segment_len());
            }
            index += 1;
        }
        if self.scoreboard.lost_out() > 0 {
            if self.flow.ca_state != CaState::Loss {
                self.loss.set_high_seq(self.snd_nxt());
                self.flow.ssthresh = self.current_ssthresh();
                self.undo.forget_threshold();
                self.undo.end();
                self.set_ca_state(Context::at(now), CaState::Loss);
            }
            self.loss.set_retransmits(true);
        }
    }
}
