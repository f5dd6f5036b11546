//! The connection's own retransmission timer, beside those of its subflows: what it waits for, and
//! what goes again when it expires (Linux: `mptcp_reset_rtx_timer`, `__mptcp_retrans`).

use super::sender::Fin;
use super::{Connection, Phase, Subflow};
use crate::settings::Settings;
use crate::stack::{MetaRetransmission, PushOrder};
use crate::timer_wheel::SetBy;
use polypath_base::{Bytes, Duration, Instant, Segments};
use polypath_sched::SubflowSet;

/// Rounds of the retransmission timer without a sign of life after which a subflow is stale
/// (`mptcp.stale_loss_cnt`).
const STALE_ROUNDS: u8 = 4;
/// The wait for a retransmission is doubled so often at most.
const MOST_DOUBLINGS: u32 = 8;

impl Subflow {
    /// It can send what goes again.
    fn is_open(&self) -> bool {
        self.confirmed && !self.closed && self.socket.state().can_send()
    }

    /// Something of it is unacknowledged or waits.
    fn has_work(&self) -> bool {
        self.socket.tx.packets_out() > Segments::ZERO || self.socket.tx.unsent() > Bytes::ZERO
    }
}

impl Connection {
    /// (Re)starts it. Of MPTCP 0.96, the subflows that are not suspected decide how long it waits;
    /// of Linux they did so when the scheduler was asked.
    pub(super) fn arm_retransmission(&mut self, now: Instant) {
        let timer = match self.settings.stack.meta_retransmission {
            MetaRetransmission::TwiceLongestTimeout => self.twice_longest_timeout(),
            MetaRetransmission::LastTimer => self.tx.rtx_interval,
        };
        let wait = timer.unwrap_or(self.settings.rto_min);
        let by = if now == self.fired { SetBy::Timer } else { SetBy::Event };
        self.tx.rtx_due = self.tx.clock.fires_after(now, wait * (1 << self.tx.rtx_backoff.min(MOST_DOUBLINGS)), by);
        debug_assert!(self.tx.rtx_due > now, "the timer comes up later");
    }

    #[inline(never)]
    fn twice_longest_timeout(&self) -> Option<Duration> {
        let timeouts = self.subflows.iter().filter(|s| s.times_retransmission()).map(|s| s.socket.tx.retransmission_timeout() * 2);
        timeouts.max().filter(|&wait| wait > Duration::ZERO)
    }

    /// What is left of the subflows' timers now is how long the connection's own waits whenever it
    /// starts until this is asked again (Linux: `mptcp_set_timeout`).
    #[inline]
    pub(super) fn note_rtx_interval(&mut self, now: Instant) {
        let mut longest = Duration::ZERO;
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.times_retransmission()) {
            longest = longest.max(subflow.socket.tx.rtx_left(now));
        }
        self.tx.rtx_interval = Some(longest).filter(|&left| left > Duration::ZERO);
        self.work.set_sends_first(SubflowSet::EMPTY);
    }

    /// The subflows that send before the scheduler is asked have sent by now: their timers count as
    /// well.
    #[cold]
    pub(super) fn count_timers_of_first(&mut self, now: Instant) {
        let first = self.work.take_sends_first();
        for i in first.iter() {
            let subflow = &mut self.subflows[i];
            if !subflow.times_retransmission() {
                continue;
            }
            let left = Some(subflow.socket.tx.rtx_left(now)).filter(|&left| left > Duration::ZERO);
            self.tx.rtx_interval = self.tx.rtx_interval.max(left);
        }
        if self.tx.rtx_due == Instant::NEVER && self.tx.una.before(self.tx.next) {
            self.arm_retransmission(now);
        }
    }

    /// A timer of the wheel has fired, which turns for all of the host's timers.
    #[cold]
    pub(super) fn note_fired(&mut self, now: Instant) {
        self.fired = now;
        self.subflows.iter_mut().for_each(|subflow| subflow.socket.tx.note_fired(now));
    }

    #[cold]
    pub(super) fn on_retransmission_timer(&mut self, now: Instant) {
        debug_assert!(self.tx.rtx_due <= now, "the timer is due");
        self.tx.rtx_due = Instant::NEVER;
        self.note_fired(now);
        if matches!(self.tx.fin, Fin::Sent) && !self.tx.una.before(self.tx.end) {
            // Only the DATA_FIN is missing: every ACK carries it.
            debug_assert!(self.tx.next == self.tx.end, "the data is sent before its end");
            self.tx.fin_repetitions += 1;
            self.request_acks();
            let late = self.settings.stack.data_fin_doubles_late;
            if self.settings.stack.meta_retransmission == MetaRetransmission::TwiceLongestTimeout {
                self.tx.rtx_backoff = self.tx.fin_repetitions - u32::from(late);
                self.arm_retransmission(now);
                return;
            }
            self.tx.rtx_backoff = 0;
            if late {
                self.arm_retransmission(now);
            }
            self.tx.rtx_interval = Some(self.settings.rto_min * (1 << self.tx.fin_repetitions.min(self.most_doublings_of_fin())));
            if late {
                return;
            }
        } else if self.tx.una.before(self.tx.next) && self.phase == Phase::Established {
            if self.settings.stack.reinjects_pieces {
                self.tx.rtx_backoff += 1;
                if let Some(head) = self.tx.pieces.front().copied() {
                    self.tx.queue_reinjection(head.dsn, head.len, SubflowSet::EMPTY);
                }
            } else {
                // Linux: `__mptcp_clean_una`; the checks that follow may change how long it waits the
                // next time.
                self.arm_retransmission(now);
                self.retransmit_fragments(now);
            }
        } else if self.tx.pending.before(self.tx.end) && self.phase == Phase::Established {
            self.probe_window(now);
        } else if !self.tx.una.before(self.tx.sent_end()) {
            return;
        }
        if self.tx.rtx_due == Instant::NEVER {
            self.arm_retransmission(now);
        }
        self.ask_with_closed_window(now);
    }

    /// The wait for a DATA_FIN's acknowledgement doubles so often at most (Linux:
    /// `mptcp_set_datafin_timeout`).
    fn most_doublings_of_fin(&self) -> u32 {
        let Settings { stack, rto_min, rto_max, .. } = *self.settings;
        if stack.sets_rto_max { (rto_max.as_nanos() / rto_min.as_nanos()).max(1).ilog2() } else { MOST_DOUBLINGS }
    }

    /// The window may have opened without our hearing of it: the last acknowledged byte goes again,
    /// and the answer tells.
    fn probe_window(&mut self, now: Instant) {
        self.tx.rtx_backoff += 1;
        if !self.settings.stack.reinjects_pieces {
            // Or a scheduler keeps it for a subflow that is dead, of which all was acknowledged on
            // others.
            for i in 0..self.subflows.len() {
                let s = &self.subflows[i];
                if s.is_usable() && s.socket.tx.packets_out() > Segments::ZERO {
                    self.check_stale(now, i);
                }
            }
        }
        self.refresh_view();
        let usable = |i: &usize| self.work.views()[*i].usable && self.subflows[*i].socket.tx.packets_out() == Segments::ZERO;
        if let Some(i) = (0..self.subflows.len()).find(usable) {
            self.enqueue_on_subflow(now, i, self.tx.una - 1, 1);
        }
    }

    /// The oldest fragment goes again on a subflow that has nothing else to do, and where several
    /// do, the next ones on others; subflows without a sign of life for too long become stale, and
    /// then everything goes again on the others.
    fn retransmit_fragments(&mut self, now: Instant) {
        let several = self.settings.stack.reinjects_several_fragments;
        if several {
            // Linux: `mptcp_pm_chk_stale`, before a subflow is chosen.
            for i in 0..self.subflows.len() {
                if self.subflows[i].is_open() && self.subflows[i].has_work() {
                    self.check_stale(now, i);
                }
            }
        }
        debug_assert!(self.tx.una.before(self.tx.next), "something is unacknowledged");
        let (mut dsn, mut on) = (self.tx.una, SubflowSet::EMPTY);
        // Subflows without data are fewer with each.
        while let Some(i) = self.choose_for_fragment(now, !several) {
            // While all goes again, only what has done so (Linux: `already_sent`).
            let sent = self.tx.next.min(self.tx.pending);
            if !sent.after(dsn) {
                break;
            }
            let fragment = self.tx.fragment_end(dsn);
            let len = fragment.min(sent).distance(dsn) as u32;
            self.tx.reinjected_bytes += u64::from(len);
            self.enqueue_on_subflow(now, i, dsn, len);
            on.insert(i);
            dsn += u64::from(len);
            if !several || dsn.before(fragment) {
                break;
            }
        }
        if !on.is_empty() && self.settings.stack.push_order == PushOrder::Bursts && self.tx.pending.before(self.tx.end) {
            // Linux asks the scheduler once that has left.
            self.work.set_sends_first(on);
        }
    }

    /// The subflow for a fragment that goes again; `checks`: those with something to do are looked at
    /// meanwhile.
    fn choose_for_fragment(&mut self, now: Instant, checks: bool) -> Option<usize> {
        let (mut pick, mut backup, mut least_rounds) = (None, None, u8::MAX);
        for i in 0..self.subflows.len() {
            let s = &self.subflows[i];
            if !s.is_open() {
                continue;
            }
            if s.has_work() {
                if checks {
                    self.check_stale(now, i);
                }
                least_rounds = least_rounds.min(self.subflows[i].stale_rounds);
            } else if s.backup {
                backup = backup.or(Some(i));
            } else {
                pick = pick.or(Some(i));
            }
        }
        pick.or(if least_rounds > 1 { backup } else { None })
    }

    /// Another round without a sign of life? Then everything goes again on the others at once, or as
    /// soon as they may send it (Linux: `mptcp_pm_nl_subflow_chk_stale`).
    fn check_stale(&mut self, now: Instant, i: usize) {
        let subflow = &mut self.subflows[i];
        if subflow.stale_rounds == 0 {
            subflow.stale_since = subflow.heard_at;
            subflow.stale_rounds = 1;
            return;
        }
        if subflow.stale_since != subflow.heard_at {
            subflow.stale_rounds = 0;
            subflow.stale = false;
            return;
        }
        subflow.stale_rounds = subflow.stale_rounds.saturating_add(1);
        if subflow.stale || subflow.stale_rounds <= STALE_ROUNDS {
            return;
        }
        let alternative =
            (0..self.subflows.len()).any(|j| j != i && self.is_usable(j) && self.subflows[j].stale_rounds < (STALE_ROUNDS - 1).max(1));
        if alternative {
            self.subflows[i].stale = true;
            self.work.touch(i);
            self.reinject_all_of(i);
            if self.settings.stack.push_order == PushOrder::Bursts {
                self.arm_retransmission(now);
                self.push(now);
            }
        }
    }
}
