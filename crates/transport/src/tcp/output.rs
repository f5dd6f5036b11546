//! What leaves as a segment: handshake, what the [`Sender`] lets go, and ACKs;
//! timers coming up.

use super::sender::{Kind, Leaving};
use super::timer::{Pending, Timer};
use super::{Context, Sender, Socket, State};
use crate::{SegmentSlot, SocketError};
use polypath_base::Instant;
use polypath_wire::{Flags, Segment};

impl Socket {
    /// The next segment to send at `now`, if any.
    pub fn poll_transmit(&mut self, cx: Context<'_>) -> Option<Segment> {
        let mut segment = Segment::default();
        self.invalidate_template();
        self.poll_transmit_into(cx, SegmentSlot(&mut segment)).then_some(segment)
    }

    /// As [`Socket::poll_transmit`], but writes the segment, if there is one, into a slot. Of a
    /// burst only the first segment is written whole.
    #[inline]
    pub(crate) fn poll_transmit_into(&mut self, cx: Context<'_>, slot: SegmentSlot<'_>) -> bool {
        let SegmentSlot(segment) = slot;
        if self.before_data.is_some() && self.poll_formed(segment) {
            return true;
        }
        if self.handshake.is_due() || !self.lets_data_out() {
            return self.poll_handshake(cx.now, segment);
        }
        if let Some(leaving) = self.tx.poll(cx, self.rx.has_sacks()) {
            self.tx.take_time(cx.now);
            self.make_leaving(cx.now, leaving, segment);
            return true;
        }
        let due = self.rx.acks().is_due();
        self.template.is_valid = false;
        if due && !self.make_ce_change_ack(cx.now, segment) {
            self.make_ack(cx.now, segment);
        }
        if self.tx.reserves_sack_options() {
            // A duplicate is told of once.
            self.reserve_sack_options();
        }
        due
    }

    /// What an acknowledgement lets recovery send leaves before the data of its segment counts (Linux:
    /// `tcp_xmit_recovery`).
    #[cold]
    pub(super) fn recover_before_data(&mut self, cx: Context<'_>) {
        self.form_before_data(cx, Sender::poll_recovery);
    }

    /// What may leave now leaves before the data of the segment counts of which only the
    /// acknowledgement has been taken.
    #[cold]
    pub(crate) fn send_before_data(&mut self, cx: Context<'_>) {
        debug_assert!(self.tx.is_subflow(), "a connection of several subflows asks for it");
        self.form_before_data(cx, Sender::poll);
    }

    /// An ACK leaves, and data not in its place (Linux: `tcp_send_ack`).
    #[cold]
    pub(crate) fn ack_before_data(&mut self, now: Instant) {
        debug_assert!(self.state.is_synchronized(), "an ACK follows the peer's SYN");
        let mut segment = Segment::default();
        self.make_ack(now, &mut segment);
        self.invalidate_template();
        let limits = self.rx.window_limits();
        let formed = self.formed_before_data();
        formed.segments.push_back(segment);
        formed.window_limits = limits;
    }

    #[cold]
    fn form_before_data(&mut self, cx: Context<'_>, poll: impl Fn(&mut Sender, Context<'_>, bool) -> Option<Leaving>) {
        let limits = self.rx.window_limits();
        while let Some(leaving) = poll(&mut self.tx, cx, self.rx.has_sacks()) {
            let mut segment = Segment::default();
            self.invalidate_template();
            self.make_leaving(cx.now, leaving, &mut segment);
            let formed = self.formed_before_data();
            formed.segments.push_back(segment);
            formed.window_limits = limits;
        }
        self.invalidate_template();
    }

    /// What was formed before the data of a segment counted leaves first, also if that ended the
    /// connection.
    #[cold]
    fn poll_formed(&mut self, segment: &mut Segment) -> bool {
        let Some(formed) = self.formed_before_data().segments.pop_front() else { return false };
        *segment = formed;
        self.invalidate_template();
        self.template.is_formed = true;
        true
    }

    #[cold]
    fn poll_handshake(&mut self, now: Instant, segment: &mut Segment) -> bool {
        if let Some(reset) = self.reset.take() {
            *segment = reset;
            self.invalidate_template();
            return true;
        }
        if self.state == State::Closed {
            return false;
        }
        let due = self.handshake.is_due();
        if due && self.state.is_synchronized() {
            // RFC 9293 section 3.10.7.3; Linux lets no data wait for it or go before it.
            self.handshake.on_sent();
            self.make_ack(now, segment);
        } else if due {
            *segment = self.make_syn(now);
            self.invalidate_template();
        } else if self.rx.acks().is_due() {
            // A challenge ACK, where both ends have sent a SYN.
            self.make_ack(now, segment);
            return true;
        }
        due
    }

    /// [`Socket::poll_transmit`] would find nothing to do.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.tx.is_quiet() && !self.rx.acks().is_due() && !self.handshake.is_due() && !self.has_formed() && !self.reset.is_due()
    }

    /// As [`Socket::poll_transmit_into`] where that would find nothing to do, at less cost; else false.
    #[inline]
    pub(crate) fn rests(&mut self, now: Instant) -> bool {
        let rests = self.is_quiet();
        if rests {
            self.tx.set_now(now);
            self.template.is_valid = false;
        }
        rests
    }

    /// What the sender lets go gets its form.
    #[inline(always)]
    fn make_leaving(&mut self, now: Instant, leaving: Leaving, segment: &mut Segment) {
        match leaving.kind {
            Kind::New | Kind::NewOfOtherSize => {
                if leaving.is_fin {
                    debug_assert!(
                        self.handshake.is_fast_open() || matches!(self.state, State::Established | State::CloseWait),
                        "a FIN leaves once"
                    );
                    self.state = if self.state == State::CloseWait { self.state_after_both() } else { State::FinWait1 };
                }
                if leaving.len > 0 {
                    self.rx.acks_mut().on_data_sent(now);
                }
                // Blocks may have been told by the burst before.
                let repeats_blocks = leaving.begins_burst && segment.sack_len > 0;
                if self.template.is_valid_at(now) && leaving.kind == Kind::New && leaving.len > 0 && !repeats_blocks {
                    self.patch_template(leaving, segment);
                    self.debug_check_patched(now, leaving, segment);
                } else {
                    self.make_data(now, leaving, segment);
                    if self.tx.ecn_ok() && segment.len > 0 {
                        let reduced = self.tx.take_cwr();
                        self.ecn.mark_new_data(segment, reduced);
                    }
                    self.template.validate(now);
                }
                if leaving.is_fin {
                    self.rx.acks_mut().on_fin_sent();
                }
            }
            Kind::Again => {
                if leaving.len > 0 && self.delays_as_tcp() {
                    self.rx.acks_mut().on_data_sent(now);
                }
                self.make_data(now, leaving, segment);
            }
            Kind::WindowProbe => self.make_window_probe(now, leaving.seq, segment),
        }
        if leaving.push {
            segment.flags = segment.flags.with(Flags::PSH);
        }
    }

    #[cold]
    fn make_window_probe(&mut self, now: Instant, seq: polypath_base::Seq, segment: &mut Segment) {
        self.make_ack(now, segment);
        segment.seq = seq;
    }

    /// When [`Socket::handle_timeout`] is due.
    #[inline]
    pub fn poll_timeout(&self) -> Instant {
        self.tx.timers.next()
    }

    /// Of sockets that are due at once that with the greatest comes first.
    #[cold]
    pub(crate) fn timer_order(&self, now: Instant) -> Option<(u32, Instant)> {
        self.tx.timers.order(now)
    }

    /// A timer of the wheel was set at `now`.
    #[inline]
    pub(crate) fn sets_timer(&self, now: Instant) -> bool {
        self.tx.timers.is_set_at(now)
    }

    /// Does what is due at `now`; calling early is harmless. False if nothing was.
    #[inline(never)]
    pub fn handle_timeout(&mut self, cx: Context<'_>) -> bool {
        self.tx.set_now(cx.now);
        let mut has_come_up = false;
        for timer in Timer::ALL {
            if !self.tx.timers.expire(timer, cx.now) {
                continue;
            }
            has_come_up = true;
            self.tx.take_time(cx.now);
            match timer {
                // What waits asks for itself whether it may leave.
                Timer::Pacing => self.tx.end_deferral(),
                Timer::CompressedAck => self.rx.acks_mut().on_compressed_timer(),
                Timer::DelayedAck => self.rx.acks_mut().on_delayed_timer(),
                Timer::Retransmission if matches!(self.state, State::SynSent | State::SynReceived) => self.handle_syn_timeout(cx.now),
                Timer::Retransmission if self.tx.gives_up(cx.now, self.closing.is_orphan()) => self.fail(SocketError::TimedOut),
                Timer::Retransmission => self.tx.on_timeout(cx),
            }
        }
        has_come_up
    }

    /// No answer to the SYN or SYN/ACK has come.
    #[cold]
    fn handle_syn_timeout(&mut self, now: Instant) {
        debug_assert!(self.tx.timers.last_pending() == Pending::Timeout, "nothing else is armed before there is data");
        let linear = if self.state == State::SynSent { self.settings.stack.syn_linear_timeouts } else { 0 };
        let retries = self.handshake.retries(self.settings.syn_retries);
        let (timeouts, since) = (self.handshake.timeouts(), self.handshake.began_at());
        if timeouts >= retries + linear || (timeouts > 0 && self.tx.outlasts_user_timeout(now, since)) {
            self.fail(SocketError::TimedOut);
            return;
        }
        self.handshake.on_timeout();
        // RFC 6298 section 5.5 doubles the timeout with each repetition.
        let linear = self.state == State::SynSent && self.handshake.timeouts() <= self.settings.stack.syn_linear_timeouts;
        self.tx.on_syn_timeout(now, !linear);
        self.tx.await_answer_until(now, since);
    }
}
