//! Which segments a synchronized connection takes, and what it answers to the others: the sequence
//! number check of RFC 9293, PAWS (RFC 7323 section 5), and blind attacks (RFC 5961). What Linux
//! 6.12 answers to each is in `specs/notes/endpoint-answers`.

use super::{Socket, State};
use crate::{Rejections, SocketError};
use polypath_base::{Duration, Instant};
use polypath_wire::{Flags, Segment};

/// Of what could be an endless exchange of ACKs one is answered in this time
/// (`tcp_invalid_ratelimit`).
const INVALID_RATE_LIMIT: Duration = Duration::from_millis(500);
/// How much older than the last one a timestamp may be, ms: the clock's step.
const PAWS_WINDOW: i32 = 1;
/// A timestamp this old says nothing any more, since the peer's clock may have gone half around
/// (RFC 7323 section 5.5).
const PAWS_IDLE: Duration = Duration::from_secs(24 * 24 * 3600);

/// What was not taken.
#[derive(Debug, Default)]
pub(super) struct Acceptance {
    pub(super) rejections: Rejections,
    /// From when on a segment that could begin an endless exchange of ACKs is answered again.
    answers_from: Instant,
    /// The segment that came last was not taken, and what it tells beside is passed over.
    dropped: bool,
}

impl Acceptance {
    /// The segment that came last is taken, or is not.
    #[inline]
    pub(super) fn decide(&mut self, takes: bool) {
        self.dropped = !takes;
    }

    /// The segment that came last was not taken.
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        self.dropped
    }

    /// An answer of this kind went out less than half a second ago, in whole ticks (Linux:
    /// `__tcp_oow_rate_limited`); if not, one goes out now.
    fn is_rate_limited(&mut self, now: Instant, tick: Duration) -> bool {
        debug_assert!(self.answers_from <= now + INVALID_RATE_LIMIT, "no answer is of the future");
        if now < self.answers_from {
            return true;
        }
        let since_tick = now.as_nanos() % tick.as_nanos().max(1);
        self.answers_from = now + Duration::from_nanos(INVALID_RATE_LIMIT.as_nanos() - since_tick);
        false
    }
}

impl Socket {
    /// Whether a segment may be processed; if not, what it asks for is noted.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, segment: &Segment) -> bool {
        if self.timestamps.are_on(segment) && self.rx.is_older(segment.ts_val, PAWS_WINDOW) && !self.takes_old_timestamp(now, segment) {
            return false;
        }
        if segment.flags.0 & (Flags::RST.0 | Flags::SYN.0) != 0 && !self.is_crossing_answer(segment) {
            self.handle_rst_or_syn(now, segment);
            return false;
        }
        if !self.rx.acceptable(segment) && !segment.flags.has(Flags::SYN) {
            self.acceptance.rejections.rejected_sequence += 1;
            self.refuse(now, segment);
            return false;
        }
        let takes = segment.flags.has(Flags::ACK) && (!segment.ack.after(self.tx.snd_nxt()) || self.state == State::SynReceived);
        if !takes {
            self.reject_ack(now, segment);
        }
        takes
    }

    /// RFC 9293 section 3.10.7.4 asks for an answer to an ACK of what was never sent. Linux gives
    /// it once an end has closed (`tcp_rcv_state_process`); before, newer kernels alone do.
    #[cold]
    fn reject_ack(&mut self, now: Instant, segment: &Segment) {
        self.acceptance.rejections.rejected_ack += 1;
        if self.ecn.has_feedback() && segment.flags.has(Flags::ACK) {
            self.count_marks(segment);
        }
        if segment.flags.has(Flags::ACK) && (self.settings.stack.challenges_unsent_ack || self.called_state() != State::Established) {
            self.challenge(now);
        }
    }

    /// PAWS (RFC 7323 section 5.3, R1): a segment with an older timestamp than the last one in its
    /// place is an old duplicate. Excepted are RSTs, what comes after 24 days of silence, and as in
    /// Linux an ACK that says nothing new and is not much older: it may have been overtaken by
    /// data.
    #[cold]
    fn takes_old_timestamp(&mut self, now: Instant, segment: &Segment) -> bool {
        if segment.flags.has(Flags::RST) {
            return true;
        }
        if now.since(self.rx.ts_recent_at()) > PAWS_IDLE {
            self.rx.forget_timestamp();
            return true;
        }
        if segment.flags.has(Flags::SYN) {
            self.acceptance.rejections.rejected_timestamp += 1;
            self.challenge(now);
            return false;
        }
        let replay_ms = (self.tx.retransmission_timeout().as_millis() * 12 / 10) as i32;
        let window = self.window_of(segment);
        let says_nothing = segment.len == 0
            && segment.seq == self.rx.next()
            && segment.ack == self.tx.snd_una()
            && !self.tx.is_newer_window(segment.seq, segment.ack, window);
        if says_nothing && !self.rx.is_older(segment.ts_val, replay_ms) {
            return true;
        }
        self.acceptance.rejections.rejected_timestamp += 1;
        self.refuse(now, segment);
        false
    }

    /// RFC 9293 section 3.10.7.4: an unacceptable segment is answered by an ACK, with a DSACK for
    /// data (RFC 2883); one without data at most twice a second, as two ends that disagree would
    /// answer each other for ever.
    #[cold]
    pub(super) fn refuse(&mut self, now: Instant, segment: &Segment) {
        let bare = segment.len == 0 && !segment.flags.has(Flags::FIN);
        // Linux's time-wait sockets know no SACK.
        let waits = self.is_time_wait();
        if !bare && let Some(feedback) = self.ecn.feedback() {
            feedback.on_duplicate(segment.seq);
        }
        if !(bare && self.acceptance.is_rate_limited(now, self.settings.tick)) {
            self.rx.duplicate(segment, self.tx.sack_ok() && self.settings.dsack && !waits);
            self.reserve_sack_options();
        }
        self.let_reader_read(now);
    }

    #[cold]
    fn handle_rst_or_syn(&mut self, now: Instant, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            // RFC 5961 section 3.2: only the exact number ends the connection; another one in the
            // window makes the peer prove that it knows.
            if self.is_expected_rst(segment) {
                self.fail(self.reset_error());
                return;
            }
            self.acceptance.rejections.rejected_rst += 1;
            if self.rx.in_window(segment.seq) {
                self.challenge(now);
            }
        } else if self.state == State::SynReceived && !self.handshake.is_active() {
            // A repeated SYN or SYN/ACK: the peer lacks our answer. The wait for its own begins
            // anew.
            self.ecn.on_syn_again(segment);
            self.handshake.request();
            self.tx.await_answer(now);
        } else {
            // RFC 5961 section 4.2: wherever its number lies.
            self.acceptance.rejections.rejected_syn += 1;
            self.ecn.on_late_syn(segment);
            self.challenge(now);
        }
    }

    /// The SYN/ACK of a peer whose SYN has crossed ours (RFC 9293 section 3.5, figure 7).
    #[cold]
    fn is_crossing_answer(&self, segment: &Segment) -> bool {
        let has = |flag| segment.flags.has(flag);
        let is_answer = has(Flags::SYN) && has(Flags::ACK) && !has(Flags::RST) && !has(Flags::FIN) && segment.len == 0;
        let is_awaited = self.state == State::SynReceived && self.handshake.is_active();
        is_answer && is_awaited && segment.seq + 1 == self.rx.next() && segment.ack == self.tx.snd_nxt()
    }

    /// What the program is told of the end by a RST (Linux: `tcp_reset`).
    pub(super) fn reset_error(&self) -> SocketError {
        if self.called_state() == State::CloseWait { SocketError::BrokenPipe } else { SocketError::Reset }
    }

    /// The number that comes next; after the peer's FIN also that of the FIN, as peers send it that
    /// have not counted it (Linux: `tcp_reset_check`).
    fn is_expected_rst(&self, segment: &Segment) -> bool {
        let after_fin = matches!(self.state, State::CloseWait | State::LastAck | State::Closing);
        segment.seq == self.rx.next() || (after_fin && segment.seq + 1 == self.rx.next()) || self.is_end_of_sacks(segment)
    }

    /// A peer whose data before it was lost resets after all that it has sent, the end of which was
    /// told to it as selectively acknowledged (Linux: `tcp_validate_incoming`).
    fn is_end_of_sacks(&self, segment: &Segment) -> bool {
        self.tx.sack_ok() && self.rx.sacks_end() == Some(segment.seq)
    }

    /// A challenge ACK (RFC 5961 section 3.2). Linux's limit for the whole host
    /// (`tcp_challenge_ack_limit`) is none by default.
    #[cold]
    pub(super) fn challenge(&mut self, now: Instant) {
        if !self.acceptance.is_rate_limited(now, self.settings.tick) {
            self.rx.acks_mut().ack_now();
        }
    }
}
