//! What leaves: retransmissions, new data and probes.

use super::give_up::UnansweredProbes;
use super::path_mtu::Next;
use super::scoreboard::Sent;
use super::sending::{Deferral, Flight, NextBurst, deferral};
use super::{CaState, Context, Limit, Sender, timestamp};
use crate::tcp::timer::{Pending, Timer};
use polypath_base::{Bytes, DataSeq, Instant, Seq};
use polypath_cc as cc;

/// Bytes of the longest burst, which has one mapping: 64 KiB less the headers (Linux:
/// `MPTCP_MAX_GSO_SIZE`).
const LONGEST_MAPPING: u32 = 65_536 - 321;

/// What a segment that leaves is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Kind {
    New,
    /// The first since the size of packets, or whether they may be split, has changed.
    NewOfOtherSize,
    /// A retransmission.
    Again,
    /// RFC 9293 section 3.8.6.1: a segment that the peer must answer, without data (as Linux sends
    /// it).
    WindowProbe,
}

/// A segment that leaves: what its form is, the socket knows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Leaving {
    pub(in crate::tcp) seq: Seq,
    /// Bytes of data.
    pub(in crate::tcp) len: u32,
    /// Data sequence number of the first byte of its mapping, how far into that this segment begins,
    /// and its length; subflows only.
    pub(in crate::tcp) map_dsn: DataSeq,
    pub(in crate::tcp) map_offset: u32,
    pub(in crate::tcp) map_len: u16,
    pub(in crate::tcp) kind: Kind,
    pub(in crate::tcp) is_fin: bool,
    pub(in crate::tcp) push: bool,
    /// It is the first of its burst.
    pub(in crate::tcp) begins_burst: bool,
}

impl Leaving {
    #[inline(always)]
    fn of(sent: &Sent, kind: Kind, push: bool) -> Self {
        let map_offset = u32::from(sent.map_offset);
        debug_assert!(sent.map_len == 0 || map_offset + sent.len <= u32::from(sent.map_len), "a segment lies within its mapping");
        Self {
            seq: sent.seq,
            len: sent.len,
            map_dsn: sent.dsn - u64::from(map_offset),
            map_offset,
            map_len: sent.map_len,
            kind,
            is_fin: sent.is_fin(),
            push,
            begins_burst: sent.is_gso_first(),
        }
    }

    #[cold]
    fn window_probe(seq: Seq) -> Self {
        Self {
            seq,
            len: 0,
            map_dsn: DataSeq::default(),
            map_offset: 0,
            map_len: 0,
            kind: Kind::WindowProbe,
            is_fin: false,
            push: false,
            begins_burst: true,
        }
    }
}

/// The burst that is being sent.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// Segments that may still leave without another decision.
    pub(super) remaining: u32,
    /// Segments that have left.
    pub(super) length: u32,
    /// Lost segments of one buffer that may still leave again as one burst.
    pub(super) again: u16,
    /// Something left since the last [`Sender::validate_window`].
    pub(super) open: bool,
    /// The next burst waits for what an ACK, a write or a timer changes (TSO deferral).
    pub(super) deferred: bool,
    /// A timeout has come up: only the first segment goes again until one of those has happened
    /// (Linux: `tcp_retransmit_timer`).
    pub(super) first_alone: bool,
    /// One of those has happened, and whether the window is full was not looked at since.
    pub(super) asks: bool,
    /// The size of packets has changed since new data left.
    pub(super) is_resized: bool,
    /// It is a tail loss probe: no rule of Nagle's holds its end back.
    pub(super) is_probe: bool,
}

/// New data to send while `in_flight` segments are in the network; at the end of the data with a
/// FIN.
#[derive(Copy, Clone)]
struct New {
    len: u32,
    with_fin: bool,
    in_flight: u32,
}

impl Sender {
    /// What leaves next at `now`. `has_sacks`: data of the peer wait for a hole before them.
    #[inline(always)]
    pub(in crate::tcp) fn poll(&mut self, cx: Context<'_>, has_sacks: bool) -> Option<Leaving> {
        self.set_now(cx.now);
        if self.queue.unsent() != 0 || self.more_than_data_is_due() {
            loop {
                if let Some(leaving) = self.poll_data(cx, has_sacks) {
                    return Some(leaving);
                }
                if self.writing && self.write_on() {
                    continue;
                }
                self.end_burst(cx.now);
                if !self.check_space() {
                    break;
                }
            }
        }
        None
    }

    /// An acknowledgement has let recovery send, new data for F-RTO included.
    #[inline]
    pub(in crate::tcp) fn recovers(&self) -> bool {
        self.loss.retransmits() | self.loss.new_data_first()
    }

    /// As [`Sender::poll`], of what recovery sends alone (Linux: `tcp_xmit_recovery`).
    #[cold]
    pub(in crate::tcp) fn poll_recovery(&mut self, cx: Context<'_>, has_sacks: bool) -> Option<Leaving> {
        if self.loss.retransmits()
            && let Some(again) = self.next_retransmission(cx.now)
        {
            return Some(again);
        }
        if self.loss.new_data_first() {
            if self.has_unsent()
                && let Some(new) = self.next_new_segment(cx, has_sacks)
            {
                return Some(new);
            }
            if let Some(again) = self.retransmit_if_nothing_left(cx.now) {
                return Some(again);
            }
        }
        self.end_burst(cx.now);
        None
    }

    /// No more leaves for now.
    #[inline]
    fn end_burst(&mut self, now: Instant) {
        if self.burst.open {
            self.validate_window(now);
            if !self.burst.is_probe {
                self.arm_after_sending(now);
            }
        }
        (self.burst.remaining, self.burst.asks, self.burst.is_probe) = (0, false, false);
    }

    /// [`Sender::poll`] would find nothing to do.
    #[inline]
    pub(in crate::tcp) fn is_quiet(&self) -> bool {
        self.queue.unsent() == 0 && !self.more_than_data_is_due()
    }

    /// There is something to do beside new data.
    #[inline]
    fn more_than_data_is_due(&self) -> bool {
        let due = self.burst.open
            | self.window_probe_due
            | self.space_check
            | self.writing
            | self.tlp.is_due()
            | self.loss.retransmits()
            | (self.fin_queued & !self.fin_sent);
        due | (self.burst.remaining != 0)
    }

    #[inline(always)]
    fn poll_data(&mut self, cx: Context<'_>, has_sacks: bool) -> Option<Leaving> {
        if std::mem::take(&mut self.window_probe_due) {
            return Some(self.probe_window(cx));
        }
        if self.tlp.take()
            && let Some(probe) = self.make_probe(cx)
        {
            return Some(probe);
        }
        if self.loss.retransmits()
            && let Some(again) = self.next_retransmission(cx.now)
        {
            return Some(again);
        }
        if self.has_unsent()
            && let Some(new) = self.next_new_segment(cx, has_sacks)
        {
            return Some(new);
        }
        if self.loss.new_data_first() { self.retransmit_if_nothing_left(cx.now) } else { None }
    }

    /// Data or a FIN waits for its first transmission (Linux: `tcp_send_head`).
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.queue.unsent() > 0 || (self.fin_ready() && !self.fin_sent)
    }

    /// The persist timer has come up: what the window takes leaves, if that is less than a segment
    /// too; into a closed window a segment that the peer must answer (RFC 9293 section 3.8.6.1;
    /// Linux: `tcp_write_wakeup`).
    #[cold]
    fn probe_window(&mut self, cx: Context<'_>) -> Leaving {
        let room = self.window_room();
        if room == 0 {
            self.rtt.on_window_probe();
            let wait = self.within_user_timeout(Pending::WindowProbe, cx.now, self.rtt.probe_timeout());
            self.timers.arm_pending(Pending::WindowProbe, cx.now, wait);
            return Leaving::window_probe(self.snd_una() - 1);
        }
        let len = self.queue.next_new_len(self.segment_len()).min(room);
        let with_fin = self.fin_ready() && len == self.queue.unsent() && len < room;
        // Nagle's rule takes no notice of a probe, however short (Linux: no `tcp_minshall_update`).
        let nagle = self.nagle;
        let leaving = self.send_probe(cx, New { len, with_fin, in_flight: self.scoreboard.in_flight() });
        self.nagle = nagle;
        self.scoreboard.push_last();
        // Linux marks the buffer before it cuts it, so what is left of it is marked too.
        self.queue.push_first();
        self.fin_pushed = self.fin_ready() && self.queue.unsent() == 0;
        self.burst.open = false;
        self.rtt.on_window_open();
        self.timers.arm_pending(Pending::Timeout, cx.now, self.rtt.rto());
        Leaving { push: true, ..leaving }
    }

    /// The application has closed and everything it offered is in the queue.
    pub(super) fn fin_ready(&self) -> bool {
        self.fin_queued && self.offered == 0
    }

    /// It keeps to the peer's window; of some subflows the connection alone does.
    #[inline]
    pub(in crate::tcp) fn obeys_window(&self) -> bool {
        !self.is_subflow || self.settings.stack.subflow_obeys_window
    }

    /// New data waits for an ACK, a write or pacing; what is lost waits too, but for the first
    /// segment, if that is to go `alone`.
    pub(super) fn hold_new_data(&mut self, alone: bool) {
        (self.burst.deferred, self.burst.first_alone) = (true, alone);
    }

    /// Something has happened at which a burst that was deferred is looked at anew.
    #[inline]
    pub(in crate::tcp) fn end_deferral(&mut self) {
        (self.burst.deferred, self.burst.first_alone) = (false, false);
        self.burst.asks = true;
    }

    /// Where the peer's window ends (Linux: `tcp_wnd_end`).
    #[inline]
    pub(in crate::tcp) fn window_end(&self) -> Seq {
        self.snd_una() + self.snd_wnd
    }

    pub(super) fn window_room(&self) -> u32 {
        if !self.obeys_window() {
            return u32::MAX;
        }
        let out = self.snd_nxt().distance(self.snd_una());
        self.snd_wnd.saturating_sub(out)
    }

    #[inline(never)]
    fn next_retransmission(&mut self, now: Instant) -> Option<Leaving> {
        if self.flow.cwnd <= self.scoreboard.in_flight() {
            return None;
        }
        let Some(index) = self.scoreboard.next_lost() else {
            self.loss.set_retransmits(false);
            return None;
        };
        if self.waits_for_pacing(now) {
            return None;
        }
        if !self.fit_into_window(index) {
            self.loss.set_retransmits(false);
            return None;
        }
        if self.burst.first_alone {
            self.loss.set_retransmits(false);
        }
        // RFC 1122 section 4.2.2.15 allows repacketization. Mappings stay as they are, and so does the
        // end of a burst.
        if self.scoreboard.at(index).len < self.segment_len() && !self.continues_again(now, index) {
            let end = self.window_end();
            self.scoreboard.collapse(index, self.segment_len(), end);
        }
        Some(self.retransmit(now, index))
    }

    /// What is to leave again is cut to a segment, and to what the window takes if the peer has
    /// shrunk it. False if the window ends before it: then only the first segment leaves, as a probe
    /// of the window (RFC 9293 section 3.8.6; Linux: `__tcp_retransmit_skb`).
    fn fit_into_window(&mut self, index: usize) -> bool {
        let segment = self.segment_len();
        let seq = self.scoreboard.at(index).seq;
        let mut most = segment;
        if self.obeys_window() && !(seq == self.snd_una() && self.snd_wnd == 0) {
            if !seq.before(self.window_end()) {
                return false;
            }
            most = most.min(self.window_end().distance(seq));
        }
        if self.scoreboard.at(index).len < segment {
            self.scoreboard.regroup(index, segment);
        }
        if self.scoreboard.cut(index, most) {
            if most < segment {
                self.scoreboard.begin_buffer(index + 1);
            }
            self.scoreboard.regroup(index + 1, segment);
        }
        true
    }

    /// F-RTO's new data has left, as far as it may. If nothing could, what is lost goes again
    /// (Linux: `tcp_xmit_recovery`).
    #[cold]
    fn retransmit_if_nothing_left(&mut self, now: Instant) -> Option<Leaving> {
        self.loss.set_new_data_first(false);
        if self.snd_nxt().after(self.loss.high_seq()) {
            return None;
        }
        self.loss.set_frto(false);
        self.loss.set_retransmits(true);
        self.next_retransmission(now)
    }

    #[inline(never)]
    fn retransmit(&mut self, now: Instant, index: usize) -> Leaving {
        self.scoreboard.mark_retransmitted(index, now);
        self.undo.stamp_retransmission(timestamp(now));
        if !self.is_of_lost_probe(self.scoreboard.at(index).seq) {
            self.undo.on_retransmitted();
        }
        if matches!(self.flow.ca_state, CaState::Cwr | CaState::Recovery) {
            self.prr.on_sent();
        }
        if index == 0 && self.timers.pending() != Some(Pending::Reordering) {
            let rto = self.rtt.rto();
            let wait = if self.loss.backoffs() > 0 { self.within_user_timeout(Pending::Timeout, now, rto) } else { rto };
            self.timers.arm_pending(Pending::Timeout, now, wait);
        }
        self.send_again(now, index)
    }

    /// A segment leaves that has been marked as sent again.
    fn send_again(&mut self, now: Instant, index: usize) -> Leaving {
        let again = self.scoreboard.at(index);
        self.path_mtu.forget_probe(again.seq, again.end());
        let mut sent = *self.scoreboard.at(index);
        self.delivery.on_sent(now, &self.flow, false, &mut sent);
        self.scoreboard.restamp(index, &sent);
        self.counters.data_segments_sent += 1;
        self.counters.retransmissions += 1;
        self.pace(now, sent.len);
        self.note_sent(now);
        let push = sent.is_pushed() || self.ends_retransmitted_burst(now, index);
        Leaving::of(&sent, Kind::Again, push)
    }

    /// Segments that left as one burst and are lost together leave again as one, as far as the
    /// window takes whole ones, and no more of them than of new data. Linux cuts the buffer there,
    /// and marks the end of the burst (`tcp_xmit_retransmit_queue`). What the window takes beyond
    /// whole segments leaves on its own (`__tcp_retransmit_skb`).
    fn ends_retransmitted_burst(&mut self, now: Instant, index: usize) -> bool {
        let most = self.burst_segments(None);
        let board = &self.scoreboard;
        let continues = |at: usize| at < board.len() && !board.at(at).is_gso_first();
        let follows = self.continues_again(now, index);
        let fills_window = self.obeys_window() && board.at(index).len < self.segment_len() && board.at(index).end() == self.window_end();
        let goes_beyond = |at: usize| self.obeys_window() && board.at(at).end().after(self.window_end());
        let room = self.flow.cwnd.saturating_sub(board.in_flight());
        let again = if follows { u32::from(self.burst.again) - 1 } else { most - 1 }.min(room);
        let goes_on = again > 0 && continues(index + 1) && board.at(index + 1).waits_to_be_retransmitted() && !goes_beyond(index + 1);
        let is_cut = !goes_on && continues(index + 1);
        self.burst.again = if goes_on { u16::try_from(again).unwrap_or(u16::MAX) } else { 0 };
        if is_cut {
            self.scoreboard.begin_buffer(index + 1);
        }
        follows && !fills_window && !goes_on
    }

    /// A segment goes again in one burst with the one before it.
    fn continues_again(&self, now: Instant, index: usize) -> bool {
        let board = &self.scoreboard;
        self.burst.again > 0
            && index > 0
            && !board.at(index).is_gso_first()
            && board.at(index - 1).is_retrans()
            && board.at(index - 1).at == now
    }

    /// What is left is a segment with the FIN, and this kernel sends that whatever the window.
    #[cold]
    fn ends_beyond_cwnd(&self) -> bool {
        self.settings.stack.fin_ignores_cwnd && self.fin_ready() && !self.fin_sent && self.queue.unsent() <= self.segment_len()
    }

    #[inline]
    fn next_new_segment(&mut self, cx: Context<'_>, has_sacks: bool) -> Option<Leaving> {
        let in_flight = self.scoreboard.in_flight();
        if self.flow.cwnd <= in_flight && !self.ends_beyond_cwnd() {
            if self.burst.asks && !self.burst.open {
                // Linux validates the window when it is full, too, though nothing has left
                // (`tcp_write_xmit`).
                self.validate_window(cx.now);
            }
            self.limit.set(cx.now, Limit::CongestionWindow);
            return None;
        }
        if self.burst.remaining == 0 && cx.now >= self.path_mtu.expires() {
            self.forget_route_mtu(cx.now);
        }
        let searches = self.path_mtu.is_searching();
        if searches && self.burst.remaining == 0 && self.probe_is_due(!self.burst.open) {
            match self.next_probe(cx.now, in_flight, has_sacks) {
                Next::Usual => {}
                Next::Wait => return None,
                Next::Probe(len) => {
                    self.probe_leaves(cx.now, len);
                    return Some(self.send_probe(cx, New { len: len.as_u32(), with_fin: false, in_flight }));
                }
            }
        }
        if self.burst.remaining == 0 {
            self.grow_first_buffer(cx.siblings, in_flight);
        }
        let mut len = self.queue.next_new_len(self.segment_len());
        let refused = if searches { self.refused_probe_left() } else { 0 };
        if refused > 0 {
            len = len.min(refused);
        }
        let mut with_fin = self.fin_ready() && len == self.queue.unsent();
        let room = self.window_room();
        let continues_burst = self.burst.remaining > 0;
        if continues_burst && len > room && room > 0 && (self.burst.is_probe || !self.holds_back_small()) {
            // A burst whose first segment fits fills the window (Linux: `tcp_mss_split_point`).
            (len, with_fin) = (room, false);
            self.burst.remaining = 1;
        }
        // The FIN of a burst that fits may lie behind it.
        if len + u32::from(with_fin && !continues_burst) > room {
            self.limit.set(cx.now, Limit::PeerWindow);
            self.probe_for_held(cx.now);
            return None;
        }
        if len < self.segment_len() && !with_fin && !self.burst.is_probe && self.waits_for_small_segment(len) {
            self.probe_for_held(cx.now);
            return None;
        }
        if self.burst.remaining == 0 {
            if self.waits_for_pacing(cx.now) {
                return None;
            }
            if refused > 0 {
                self.burst.remaining = 1;
            } else if !self.begin_burst(cx, in_flight) {
                return None;
            }
            self.burst.length = 0;
        }
        self.burst.remaining -= 1;
        let leaving = self.send_new(cx, New { len, with_fin, in_flight });
        if self.burst.remaining == 0 {
            self.check_space_after_burst();
        }
        if refused > len {
            self.refused_probe_leaves(len, refused - len);
        }
        Some(leaving)
    }

    /// Nothing is in the network that would let out what waits: the persist timer does (Linux:
    /// `tcp_check_probe_timer`).
    #[cold]
    fn probe_for_held(&mut self, now: Instant) {
        if self.scoreboard.packets_out() == 0 && self.timers.pending().is_none() {
            self.unanswered_probes = UnansweredProbes::default();
            self.timers.arm_pending(Pending::WindowProbe, now, self.rtt.first_probe_timeout());
        }
    }

    /// A burst is about to leave, or would if the peer's window let it: the buffer that it comes from
    /// grows to its length.
    #[inline]
    pub(super) fn grow_first_buffer(&mut self, siblings: Option<&cc::Siblings>, in_flight: u32) {
        let cwnd = self.flow.cwnd;
        if cwnd <= in_flight {
            return;
        }
        let most = (cwnd / 2).min(cwnd - in_flight).max(1);
        if self.queue.first_may_grow(most.saturating_mul(self.segment_len())) {
            let quota = self.burst_segments(siblings).min(most);
            self.queue.grow_first(quota * self.segment_len());
        }
    }

    /// How many segments leave as one burst; false if it waits for the next ACK.
    #[inline(always)]
    fn begin_burst(&mut self, cx: Context<'_>, in_flight: u32) -> bool {
        if self.writing {
            self.refill_buffer();
        }
        if self.burst.deferred {
            return false;
        }
        let most = self.burst_segments(cx.siblings);
        let buffer = self.queue.next_buffer();
        if self.settings.tso_bytes > Bytes::ZERO && buffer.0 > self.segment_len() && self.should_defer(cx.now, in_flight, most, buffer) {
            self.burst.deferred = true;
            return false;
        }
        // No burst spans two buffers; a FIN needs none. None takes more than half of the window, so
        // that two are under way (Linux: `tcp_cwnd_test`).
        self.burst.remaining = most.min(self.flow.cwnd / 2).min(buffer.0.div_ceil(self.segment_len())).max(1);
        true
    }

    /// The most that a burst holds: whole segments (Linux: `tcp_xmit_size_goal`).
    #[cold]
    pub(super) fn size_goal(&self) -> u32 {
        let segment = self.segment_len();
        (LONGEST_MAPPING / segment).max(1) * segment
    }

    /// Subflows of MPTCP 0.96 search for no MTU as Linux does, unless a setting lets
    /// them.
    pub(super) fn may_probe_mtu(&self) -> bool {
        let searches = self.settings.stack.subflow_probes_mtu || self.settings.subflow_mtu_probing || self.path_mtu.reads_scoreboard();
        !self.is_subflow || searches
    }

    /// Nagle's rule (RFC 1122 section 4.2.3.4) in Minshall's form, for the last `len` bytes that
    /// there are, and what the program says of them.
    fn waits_for_small_segment(&self, len: u32) -> bool {
        (!self.is_subflow || self.settings.stack.subflow_nagle)
            && len == self.queue.unsent()
            && (self.nagle.waits_for_more()
                || (self.scoreboard.packets_out() > 0 && self.holds_back_small() && !self.loss.new_data_first()))
    }

    /// A short segment is not acknowledged yet, and the next waits for that.
    fn holds_back_small(&self) -> bool {
        self.nagle.holds_back(self.snd_una())
    }

    /// New data that leaves to find something out: a burst of its own.
    #[cold]
    fn send_probe(&mut self, cx: Context<'_>, new: New) -> Leaving {
        self.burst = Burst { remaining: 0, length: 0, ..self.burst };
        self.send_new(cx, new)
    }

    // Inlined where nearly all new data leaves; the other place is out of line itself.
    #[inline(always)]
    fn send_new(&mut self, cx: Context<'_>, new: New) -> Leaving {
        let New { len, with_fin, in_flight } = new;
        debug_assert!(len > 0 || with_fin, "a segment without data is none of the sender's");
        debug_assert!(!self.fin_sent, "nothing follows a FIN");
        debug_assert!(in_flight == self.scoreboard.in_flight(), "nothing has left since it was counted");
        let full = self.segment_len();
        let mut sent = self.queue.next_new(len);
        debug_assert!(sent.seq == self.snd_nxt(), "new data continues what was sent");
        sent.at = cx.now;
        sent.ends_record = self.queue.take_record_end();
        if with_fin {
            sent.set_fin();
            self.fin_sent = true;
            self.may_write = false;
        }
        let nothing_out = self.scoreboard.packets_out() == 0;
        if in_flight == 0 {
            self.cc.cwnd_event(&mut self.flow, cx.siblings, cc::Event::TxStart);
        }
        self.delivery.on_sent(cx.now, &self.flow, nothing_out, &mut sent);
        sent.set_gso_first(self.burst.length == 0);
        self.scoreboard.sent(sent);
        self.flow.snd_nxt = sent.end().get();
        if sent.len < full {
            self.nagle.on_small_sent(sent.end());
        }
        if matches!(self.flow.ca_state, CaState::Cwr | CaState::Recovery) {
            self.prr.on_sent();
        }
        self.burst.open = true;
        self.counters.data_segments_sent += 1;
        self.pace(cx.now, sent.len);
        self.burst.length += 1;
        self.note_sent(cx.now);
        // Linux marks the end of the data, and of each burst of more than one segment.
        let left = self.queue.unsent();
        let ends = self.burst.remaining == 0
            || sent.len < full
            || self.scoreboard.in_flight() >= self.flow.cwnd
            || self.window_room() == 0
            // Nagle's rule keeps the rest (Linux: `tcp_mss_split_point`).
            || (left > 0 && left < full && !self.burst.is_probe && self.waits_for_small_segment(left));
        let pushed = self.queue.take_push();
        let marked = if sent.len > 0 {
            pushed || (self.queue.unsent() == 0 && !self.writing && !self.nagle.more_follows())
        } else {
            self.fin_pushed
        };
        // A burst of several segments has PSH while it leaves alone (Linux: `__tcp_transmit_skb`).
        let push = marked || (sent.len > 0 && ends && self.burst.length > 1);
        if marked {
            self.scoreboard.push_last();
        }
        let kind = if std::mem::take(&mut self.burst.is_resized) { Kind::NewOfOtherSize } else { Kind::New };
        Leaving::of(&sent, kind, push)
    }

    /// Data or a FIN leaves.
    #[inline]
    fn note_sent(&mut self, now: Instant) {
        debug_assert!(now >= self.last_sent_at, "time does not go back");
        self.last_sent_at = now;
        self.flow.last_sent_ns = now.as_nanos();
    }

    /// Pacing holds back what would leave now; the timer is armed.
    #[inline]
    fn waits_for_pacing(&mut self, now: Instant) -> bool {
        let waits = self.flow.pacing != 0 && self.pacer.next() > now;
        if waits {
            self.timers.arm(Timer::Pacing, now, self.pacer.next().since(now));
            // The rate is the algorithm's word as the window is.
            self.limit.set(now, Limit::CongestionWindow);
        }
        waits
    }

    /// A segment has left.
    #[inline]
    fn pace(&mut self, now: Instant, len: u32) {
        if self.flow.pacing != 0 {
            let rate = self.pacing_rate();
            self.pacer.on_sent(now, Bytes::new(u64::from(len)), rate, self.counters.data_segments_sent);
        }
    }

    /// Segments that may leave as one burst: a millisecond's worth at the pacing rate, more on
    /// short paths.
    #[inline(always)]
    pub(super) fn burst_segments(&mut self, siblings: Option<&cc::Siblings>) -> u32 {
        if self.settings.tso_bytes == Bytes::ZERO {
            return 1;
        }
        let mut bytes = self.flow.pacing_rate >> 10;
        if self.settings.stack.short_path_bursts {
            let shift = self.flow.min_rtt_us >> 9;
            if shift < 32 {
                bytes += self.settings.tso_bytes.get() >> shift;
            }
        }
        let bytes = bytes.min(self.settings.tso_bytes.get()) as u32;
        let least =
            if self.cc.has_min_tso_segs() { self.cc.min_tso_segs(&mut self.flow, siblings) } else { self.settings.min_tso_segs.get() };
        (bytes / self.segment_len()).max(least).max(1)
    }

    /// Whether to wait for the next ACK so that a larger burst can leave; remembers that the window
    /// was the limit. `waiting` bytes are to leave next, the `last` of what waits.
    #[inline(always)]
    fn should_defer(&mut self, now: Instant, in_flight: u32, most: u32, (waiting, last): (u32, bool)) -> bool {
        debug_assert!(in_flight < self.flow.cwnd, "the window has room for a segment");
        let burst = NextBurst {
            is_recovering: self.flow.ca_state >= CaState::Recovery,
            last_left: self.last_sent_at.max(self.pacer.next()),
            mss: self.flow.mss,
            cwnd: self.flow.cwnd,
            in_flight,
            snd_wnd: self.snd_wnd,
            send_room: self.window_room(),
            divisor: self.settings.tso_win_divisor,
            most,
            waiting,
            is_last: last,
            may_grow: !self.fin_queued,
        };
        let head = || self.scoreboard.head().map(|head| head.at);
        match deferral(now, &burst, head, self.flow.srtt_us, self.settings.stack.tso_defer_within) {
            Deferral::Leaves => false,
            Deferral::WaitsForCwnd => {
                let packets_out = self.scoreboard.packets_out();
                self.cwnd_validation.on_deferral(now, self.snd_nxt(), packets_out, &mut self.flow.max_packets_out);
                self.limit.set(now, Limit::CongestionWindow);
                true
            }
            Deferral::WaitsForPeer => {
                self.limit.set(now, Limit::PeerWindow);
                true
            }
            Deferral::WaitsForMore => true,
        }
    }

    /// A tail loss probe (RFC 8985 section 7.3): new data if there is any, a burst of it as far as the
    /// window goes (Linux: `tcp_write_xmit` with `push_one` 2), else the last segment again.
    #[cold]
    fn make_probe(&mut self, cx: Context<'_>) -> Option<Leaving> {
        debug_assert!(self.sack_ok, "without SACK there is no probe (RFC 8985 section 7.2)");
        let len = self.queue.next_new_len(self.segment_len());
        let new_data = len > 0 && len <= self.window_room();
        let mut probe_end = self.snd_nxt();
        let leaving = if new_data {
            let (in_flight, left) = (self.scoreboard.in_flight(), self.queue.unsent());
            let segment = self.segment_len();
            let room = self.flow.cwnd.saturating_sub(in_flight).min(self.flow.cwnd / 2).max(1);
            let most = room.min(self.burst_segments(cx.siblings));
            self.grow_first_buffer(cx.siblings, in_flight);
            let bytes = self.queue.next_buffer().0.min(self.window_room()).min(most * segment);
            let len = self.queue.next_new_len(segment).min(bytes);
            probe_end = probe_end + bytes + u32::from(self.fin_ready() && bytes == left);
            self.burst = Burst { remaining: bytes.div_ceil(segment), length: 0, is_probe: true, ..self.burst };
            self.burst.remaining -= 1;
            let with_fin = self.fin_ready() && len == left;
            Some(self.send_new(cx, New { len, with_fin, in_flight }))
        } else if let Some(last) = self.last_to_probe_with()
            && self.fit_into_window(last)
        {
            // No more counts as in the network, no recovery begins (Linux: `__tcp_retransmit_skb`).
            self.scoreboard.mark_sent_again(last, cx.now);
            Some(self.send_again(cx.now, last))
        } else {
            None
        };
        if leaving.is_none() {
            // The window takes none, so the timeout is next.
            self.rearm_rto(cx.now);
            return None;
        }
        self.counters.loss_probes += 1;
        self.tlp.on_sent(probe_end, !new_data);
        self.timers.arm_pending(Pending::Timeout, cx.now, self.rtt.rto());
        leaving
    }

    /// After a burst: was the window or the application the limit? (RFC 7661; Linux's congestion
    /// window validation.)
    #[inline(never)]
    fn validate_window(&mut self, now: Instant) {
        (self.burst.open, self.burst.asks) = (false, false);
        debug_assert!(self.scoreboard.packets_out() > 0, "a burst has left, or fills the window");
        let packets_out = self.scoreboard.packets_out();
        let limited = self.scoreboard.in_flight() >= self.flow.cwnd;
        let flight = Flight { snd_una: self.snd_una(), snd_nxt: self.snd_nxt(), packets_out, fills_window: limited };
        self.cwnd_validation.on_burst(flight, self.settings.stack.keeps_cwnd_limited, &mut self.flow.max_packets_out);
        if self.cwnd_validation.note_use(now, self.is_cwnd_limited(), packets_out, self.rtt.rto())
            && self.settings.slow_start_after_idle
            && !self.cc.has_cong_control()
        {
            self.shrink_unused_window(now);
        }
        if self.queue.unsent() < self.segment_len() {
            let limit = if packets_out == 0 {
                Limit::Idle
            } else if self.writer_blocked {
                Limit::SendBuffer
            } else {
                Limit::Application
            };
            self.limit.set(now, limit);
        } else if limited {
            self.limit.set(now, Limit::CongestionWindow);
        }
    }
}
