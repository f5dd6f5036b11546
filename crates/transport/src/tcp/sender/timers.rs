//! What comes up: the retransmission timer and all that it stands for.

use super::{CaState, Context, Sender};
use crate::tcp::timer::Pending;
use polypath_cc as cc;

impl Sender {
    /// The retransmission timer has come up. After a timeout, and where RACK's timer has marked
    /// losses, only what is lost leaves (Linux: `tcp_retransmit_timer`, `tcp_rack_reo_timeout`).
    pub(in crate::tcp) fn on_timeout(&mut self, cx: Context<'_>) {
        match self.timers.last_pending() {
            Pending::Timeout => self.handle_rto(cx),
            Pending::LossProbe => {
                if self.scoreboard.packets_out() == 0 || !self.tlp.on_timeout() {
                    self.rearm_rto(cx.now);
                }
            }
            Pending::Reordering => self.handle_reordering_timeout(cx),
            Pending::WindowProbe => {
                self.window_probe_due = self.scoreboard.packets_out() == 0 && self.has_unsent();
                if self.window_probe_due {
                    self.unanswered_probes.on_timeout(cx.now);
                }
            }
        }
    }

    #[cold]
    fn handle_rto(&mut self, cx: Context<'_>) {
        if self.scoreboard.packets_out() == 0 {
            return;
        }
        if self.snd_wnd == 0 && self.obeys_window() {
            // The peer has taken its window back: what is sent again is a probe of it, and no
            // timeout (RFC 9293 section 3.8.6.1; Linux: `tcp_retransmit_timer`).
            self.enter_loss(cx);
            self.loss.set_retransmits(true);
            self.back_off(cx);
            return;
        }
        self.counters.timeouts += 1;
        let ssthresh = self.flow.ssthresh;
        let shorter = if self.path_mtu.reads_scoreboard() {
            self.tell_search_of_timeout(cx.now)
        } else {
            self.suspect_black_hole(cx.now);
            false
        };
        self.enter_loss(cx);
        if shorter {
            // What was lost was too long: slow start begins anew, and ends where it would have. If
            // nothing as long ever arrived, that holds of all losses before too, whatever they were
            // taken for.
            self.flow.ssthresh = if self.path_mtu.has_passed() { ssthresh } else { cc::SSTHRESH_INFINITE };
        }
        self.loss.on_timeout();
        self.hold_new_data(true);
        self.back_off(cx);
    }

    fn back_off(&mut self, cx: Context<'_>) {
        self.rtt.back_off();
        let wait = self.within_user_timeout(Pending::Timeout, cx.now, self.rtt.rto());
        self.timers.arm_pending(Pending::Timeout, cx.now, wait);
    }

    fn handle_reordering_timeout(&mut self, cx: Context<'_>) {
        let in_flight = self.scoreboard.in_flight();
        self.rack_mark(cx.now);
        if self.scoreboard.in_flight() != in_flight {
            if self.path_mtu.reads_scoreboard() {
                self.settle_lost_probes(cx.now);
            }
            if self.flow.ca_state < CaState::Recovery && self.time_to_recover() {
                self.enter_recovery_by_timer(cx);
            }
            self.loss.set_retransmits(true);
        }
        self.hold_new_data(false);
        self.rearm_rto(cx.now);
    }
}
