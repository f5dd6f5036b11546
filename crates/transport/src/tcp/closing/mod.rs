//! The closing states (RFC 9293 section 3.6), TIME-WAIT, and how a program lets go of its socket.

mod reset;

use super::{Context, Socket, State};
use crate::SocketError;
use crate::timer_wheel::{SetBy, fires_after};
use polypath_base::{Bytes, Duration, Instant};
use polypath_wire::{Flags, MpOptions, Segment};
pub(super) use reset::Reset;
pub use reset::reset_for;

/// How long TIME-WAIT lasts, from the last segment that renewed it; on the timer wheel up to 2 s
/// longer (Linux: `TCP_TIMEWAIT_LEN`; RFC 9293 section 3.6.1 asks for 2 MSL, four minutes).
const TIME_WAIT: Duration = Duration::from_secs(60);

/// How far the program has let go of its socket, and what it is told of the end.
#[derive(Debug)]
pub(super) struct Closing {
    /// The program has closed, or reads no more (Linux: `RCV_SHUTDOWN`).
    reads_no_more: bool,
    /// The program has closed before the peer's FIN came, whether or not its own could leave.
    is_first: bool,
    /// The program has let go of it (Linux: `SOCK_DEAD`).
    is_orphan: bool,
    /// What the program has yet to be told (Linux: `sk_err`).
    error: Option<SocketError>,
    /// When TIME-WAIT ends, or an orphan's FIN-WAIT-2.
    time_wait_ends: Instant,
}

impl Closing {
    pub(super) fn new() -> Self {
        Self { reads_no_more: false, is_first: false, is_orphan: false, error: None, time_wait_ends: Instant::NEVER }
    }

    /// The program sends no more; `is_open`: the peer may still send.
    pub(super) fn on_close(&mut self, is_open: bool) {
        self.is_first |= is_open;
    }

    /// The program takes no data that comes from now on.
    #[inline]
    pub(super) fn reads_no_more(&self) -> bool {
        self.reads_no_more
    }

    /// No program has the socket any more.
    #[inline]
    pub(super) fn is_orphan(&self) -> bool {
        self.is_orphan
    }

    pub(super) fn error(&self) -> Option<SocketError> {
        self.error
    }

    /// The program is told.
    pub(super) fn take_error(&mut self) -> Option<SocketError> {
        self.error.take()
    }

    /// TIME-WAIT begins anew.
    fn wait(&mut self, now: Instant, tick: Duration) {
        self.time_wait_ends = fires_after(now, TIME_WAIT, tick, SetBy::Event);
        debug_assert!(!self.is_over(now), "it lasts from now on");
    }

    /// TIME-WAIT has ended.
    fn is_over(&self, now: Instant) -> bool {
        now >= self.time_wait_ends
    }
}

impl Socket {
    /// The program lets go of its socket (`close`). With data that it has not read, or where it
    /// asks for it (SO_LINGER of zero seconds), a RST ends the connection (RFC 1122 section
    /// 4.2.2.13, RFC 2525 section 2.17); else a FIN ends what it sends, and data that comes later
    /// is answered by a RST.
    pub fn release(&mut self, now: Instant, resets: bool) {
        self.closing.is_orphan = true;
        if resets || self.rx.unread() > Bytes::ZERO {
            self.abort_by_program(now);
        } else {
            self.shut_down(now, true, true);
        }
    }

    /// The program sends no more, or reads no more (`shutdown`). Before the SYN is answered either
    /// ends the connection.
    pub fn shut_down(&mut self, now: Instant, reads_no_more: bool, sends_no_more: bool) {
        self.closing.reads_no_more |= reads_no_more;
        if reads_no_more {
            self.rx.hold_reader(true);
        }
        match self.state {
            // RFC 9293 section 3.10.4: there is nothing that the peer could know of.
            State::SynSent => self.fail(SocketError::Reset),
            // Of a passive handshake no program knows.
            State::Listen => self.abort(),
            State::SynReceived if !self.handshake.has_program() => self.abort(),
            // A FIN is awaited that no program will see: as long as TIME-WAIT lasts (Linux:
            // `tcp_fin_timeout`).
            State::FinWait2 if self.closing.is_orphan => self.closing.wait(now, self.settings.tick),
            _ if sends_no_more => self.close(),
            _ => {}
        }
    }

    /// As [`Socket::state`], but own closing counts from the program's call on, whether or not its
    /// FIN could leave (Linux: `tcp_close_state`).
    pub fn called_state(&self) -> State {
        match (self.state, self.tx.is_closing()) {
            (State::Established, true) => State::FinWait1,
            (State::CloseWait, true) => self.state_after_both(),
            (state, _) => state,
        }
    }

    /// Both ends have closed, and the own FIN is not acknowledged.
    pub(super) fn state_after_both(&self) -> State {
        if self.closing.is_first { State::Closing } else { State::LastAck }
    }

    /// The program ends the connection by a RST, where the peer still counts on it
    /// (RFC 9293 section 3.10.5; Linux: `tcp_disconnect`, `tcp_need_reset`).
    pub fn abort_by_program(&mut self, now: Instant) {
        self.reset(now, MpOptions::default());
        self.closing.error = Some(SocketError::Reset);
    }

    /// Ends at once, and the program is told why.
    #[cold]
    pub(super) fn fail(&mut self, error: SocketError) {
        self.closing.error = Some(error);
        self.abort();
    }

    /// RFC 9293 section 3.10.7.1: there is no connection any more.
    #[cold]
    pub(super) fn handle_when_closed(&mut self, segment: &Segment) {
        self.acceptance.rejections.rejected_closed += 1;
        self.reset.answer(segment);
    }

    /// Ends at once; `reset` tells the peer.
    #[cold]
    pub(crate) fn abort_with(&mut self, reset: Option<Segment>) {
        self.abort();
        self.reset.send(reset);
    }

    /// Ends at once and tells the peer, with these options of MPTCP (Linux:
    /// `tcp_send_active_reset`).
    #[cold]
    pub(crate) fn reset(&mut self, now: Instant, options: MpOptions) {
        // Linux: `tcp_need_reset`; of a passive handshake there is no socket yet.
        let told = match self.state {
            State::Established | State::FinWait1 | State::FinWait2 | State::CloseWait => true,
            State::SynReceived => self.handshake.has_program(),
            _ => false,
        };
        self.tx.take_time(now);
        let mut segment = Segment::default();
        self.make_ack(now, &mut segment);
        let (ace, accecn) = (segment.ace(), segment.mp.accecn());
        segment.flags = Flags::RST.with(Flags::ACK);
        segment.mp = options;
        if self.ecn.has_feedback() {
            segment.set_ace(ace);
            // Behind MPTCP's, and so only if there is room.
            if let Some(option) = accecn {
                segment.mp.set_accecn(&option);
            }
        }
        self.abort_with(told.then_some(segment));
    }

    /// Nobody will read data that comes after the program has closed (RFC 9293 section 3.6.1,
    /// RFC 1122 section 4.2.2.13), nor any that a segment of the peer's brings past its FIN if it
    /// begins before that (Linux: `tcp_rcv_state_process`).
    #[cold]
    pub(super) fn has_data_after_close(&self, segment: &Segment) -> bool {
        let nobody_reads = match self.called_state() {
            State::FinWait1 | State::FinWait2 => self.closing.reads_no_more,
            State::CloseWait => segment.seq.before(self.rx.next()),
            State::Closing | State::LastAck => segment.seq.before(self.rx.next()) && !self.is_fin_acked(),
            _ => false,
        };
        let takes_numbers = segment.len > 0 || segment.flags.has(Flags::FIN);
        nobody_reads && takes_numbers && (segment.seq + segment.len).after(self.rx.next())
    }

    fn is_fin_acked(&self) -> bool {
        self.tx.fin_sent() && self.tx.snd_una() == self.tx.snd_nxt()
    }

    /// In FIN-WAIT-2, where the program has closed: only a FIN without data is taken, and answered.
    #[cold]
    pub(super) fn handle_orphaned(&mut self, cx: Context<'_>, segment: &Segment) {
        let (next, fin) = (self.rx.next(), segment.flags.has(Flags::FIN));
        let end = segment.seq + segment.len + u32::from(fin);
        let has = |flag| segment.flags.has(flag);
        // A time-wait socket's window begins at rcv_nxt (Linux: `tcp_in_window`).
        let is_old = end != segment.seq && !end.after(next);
        if !self.closing.is_over(cx.now) && (is_old || !self.rx.acceptable(segment)) {
            self.refuse(cx.now, segment);
            return;
        }
        if has(Flags::RST) {
            self.abort();
        } else if self.closing.is_over(cx.now) || (has(Flags::SYN) && !segment.seq.before(next)) {
            self.abort();
            self.reset.answer(segment);
        } else if !has(Flags::ACK) || end == segment.seq {
            // It says nothing new.
        } else if fin && end == next + 1 {
            self.handle_synchronized(cx, segment);
        } else {
            self.abort();
            self.reset.answer(segment);
        }
    }

    /// Moves through the closing states once our FIN is acknowledged or the peer's has arrived.
    #[cold]
    pub(super) fn advance_closing(&mut self, now: Instant) {
        let fin_acked = self.is_fin_acked();
        let peer_fin = self.rx.finished();
        self.state = match (self.state, fin_acked, peer_fin) {
            (State::Established, false, true) => State::CloseWait,
            (State::FinWait1, true, true) | (State::FinWait2, _, true) | (State::Closing, true, _) => State::TimeWait,
            (State::FinWait1, false, true) => State::Closing,
            (State::FinWait1, true, false) => State::FinWait2,
            (State::LastAck, true, _) => State::Closed,
            // What it waits for has not come yet.
            (State::FinWait1 | State::FinWait2 | State::CloseWait | State::Closing | State::LastAck, ..) => self.state,
            // The peer reset the connection by this segment, or its FIN is yet to be sent.
            (State::Closed, ..) => State::Closed,
            (state, ..) => {
                debug_assert!(
                    false,
                    "a closing connection is not in {state:?}: our FIN acknowledged {fin_acked}, the peer's here {peer_fin}"
                );
                state
            }
        };
        if self.is_time_wait() {
            self.closing.wait(now, self.settings.tick);
        }
    }

    /// As little is kept of it as in TIME-WAIT (Linux: a time-wait socket, which
    /// has the state FIN-WAIT-2 too).
    pub(super) fn is_time_wait(&self) -> bool {
        self.state == State::TimeWait || (self.state == State::FinWait2 && self.closing.is_orphan)
    }

    /// RFC 9293 section 3.10.7.4: the peer repeats its FIN because our ACK was lost, so it gets
    /// another one, and the time begins anew. Nothing is due when it ends: only a segment could
    /// tell.
    #[cold]
    pub(super) fn handle_in_time_wait(&mut self, now: Instant, segment: &Segment) {
        debug_assert!(self.rx.finished() && self.tx.fin_sent(), "both ends have said that they have no more");
        if self.closing.is_over(now) {
            self.abort();
            self.reset.answer(segment);
            return;
        }
        let bare = segment.len == 0 && !segment.flags.has(Flags::FIN);
        let in_place = segment.seq == self.rx.next();
        if segment.flags.has(Flags::RST) {
            if in_place {
                self.abort();
            }
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.closing.wait(now, self.settings.tick);
        }
        if bare && in_place && !segment.flags.has(Flags::SYN) {
            return;
        }
        self.refuse(now, segment);
    }
}
