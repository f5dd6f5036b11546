//! What leaves: handshake, retransmissions, new data, probes and ACKs; timers coming up.

use super::sending::{Flight, Window};
use super::timer::{Pending, Timer};
use super::{Context, Limit, Socket, State, timestamp};
use polypath_base::{Bytes, Duration, Instant};
use polypath_cc as cc;
use polypath_wire::{Flags, Segment};

/// Linux defers a burst only if the last one left less than this ago.
const DEFER_WITHIN: Duration = Duration::from_millis(1);
/// A burst may be deferred while less than this share of the window is free (`tcp_tso_win_divisor`).
const DEFER_DIVISOR: u32 = 3;
/// Bytes of the longest mapping, which leaves as one burst: 64 KiB less the headers (Linux: `MPTCP_MAX_GSO_SIZE`).
const LONGEST_MAPPING: u32 = 65_536 - 321;

/// The burst that is being sent.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// Segments that may still leave without another decision.
    remaining: u32,
    /// Segments that have left.
    pub(super) length: u32,
    /// Something left since the last [`Socket::validate_window`].
    open: bool,
}

/// New data to send while `in_flight` segments are in the network; at the end of the data with a FIN.
#[derive(Copy, Clone)]
struct New {
    len: u32,
    with_fin: bool,
    in_flight: u32,
}

impl Socket {
    /// The next segment to send at `now`, if any.
    pub fn poll_transmit(&mut self, cx: Context<'_>) -> Option<Segment> {
        let mut segment = Segment::default();
        self.template.is_valid = false;
        self.poll_transmit_into(cx, &mut segment).then_some(segment)
    }

    /// As [`Socket::poll_transmit`], but writes the segment, if there is one, into a place that the caller has for it: a segment
    /// is large, and most of the work of handing it on would be to copy it. Until it returns false the caller leaves the place as it
    /// is, because of a burst only the first segment is written whole.
    #[inline]
    pub fn poll_transmit_into(&mut self, cx: Context<'_>, segment: &mut Segment) -> bool {
        if self.handshake.is_due() || !self.state.is_synchronized() {
            return self.poll_handshake(cx.now, segment);
        }
        self.tx.flow.now_ns = cx.now.as_nanos();
        if self.tx.queue.unsent() != 0 || self.more_than_an_ack_is_due() {
            if self.poll_data(cx, segment) {
                return true;
            }
            while self.tx.writing && self.write_on() {
                if self.poll_data(cx, segment) {
                    return true;
                }
            }
            if self.tx.burst.open {
                self.tx.burst.open = false;
                self.validate_window(cx.now);
            }
            self.check_space();
            self.tx.burst.remaining = 0;
        }
        let due = self.rx.acks().is_due();
        self.template.is_valid = false;
        if due && !self.make_ce_change_ack(cx.now, segment) {
            self.make_ack(cx.now, segment);
        }
        if self.tx.path_mtu.sack_options() != Bytes::ZERO {
            // A duplicate is told of once.
            self.reserve_sack_options();
        }
        due
    }

    #[cold]
    fn poll_handshake(&mut self, now: Instant, segment: &mut Segment) -> bool {
        if let Some(reset) = self.take_reset() {
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
        }
        due
    }

    /// [`Socket::poll_transmit`] would find nothing to do.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.tx.queue.unsent() == 0 && !self.rx.acks().is_due() && !self.more_than_an_ack_is_due()
    }

    /// There is something to do beside new data and ACKs.
    #[inline]
    fn more_than_an_ack_is_due(&self) -> bool {
        let due = self.tx.burst.open
            | self.handshake.is_due()
            | self.tx.persist.is_due()
            | self.tx.space_check
            | self.tx.writing
            | self.tx.tlp.is_due()
            | self.tx.loss.retransmits()
            | (self.tx.fin_queued & !self.tx.fin_sent);
        due | (self.tx.burst.remaining != 0)
    }

    #[inline]
    fn poll_data(&mut self, cx: Context<'_>, segment: &mut Segment) -> bool {
        if self.tx.tlp.take() && self.make_probe(cx, segment) {
            return true;
        }
        if self.tx.loss.retransmits() && self.next_retransmission(cx.now, segment) {
            return true;
        }
        if (self.tx.queue.unsent() > 0 || (self.fin_ready() && !self.tx.fin_sent)) && self.next_new_segment(cx, segment) {
            return true;
        }
        if self.tx.loss.new_data_first() && self.retransmit_if_nothing_left(cx.now, segment) {
            return true;
        }
        // RFC 9293 section 3.8.6.1: data waits, and the window is closed to it.
        if self.tx.persist.take() {
            self.make_window_probe(cx.now, segment);
            return true;
        }
        false
    }

    /// When [`Socket::handle_timeout`] is due.
    #[inline]
    pub fn poll_timeout(&self) -> Instant {
        self.tx.timers.next()
    }

    /// Does what is due at `now`; calling early is harmless.
    #[inline(never)]
    pub fn handle_timeout(&mut self, cx: Context<'_>) {
        self.tx.flow.now_ns = cx.now.as_nanos();
        for timer in Timer::ALL {
            if !self.tx.timers.expire(timer, cx.now) {
                continue;
            }
            match timer {
                // What waits asks for itself whether it may leave.
                Timer::Pacing => {}
                Timer::CompressedAck => self.rx.acks_mut().on_compressed_timer(),
                Timer::DelayedAck => self.rx.acks_mut().on_delayed_timer(),
                Timer::Retransmission => self.handle_pending(cx),
            }
        }
    }

    /// The retransmission timer has come up.
    fn handle_pending(&mut self, cx: Context<'_>) {
        match self.tx.timers.last_pending() {
            Pending::Timeout => self.handle_rto(cx),
            Pending::LossProbe => {
                if self.tx.scoreboard.packets_out() == 0 || !self.tx.tlp.on_timeout() {
                    self.rearm(cx.now);
                }
            }
            Pending::Reordering => self.handle_reordering_timeout(cx),
            Pending::WindowProbe => {
                self.tx.persist.on_timeout();
                self.tx.timers.arm_pending(Pending::WindowProbe, cx.now, self.tx.persist.interval(self.tx.rtt.rto_in_ticks()));
            }
        }
    }

    #[cold]
    fn handle_rto(&mut self, cx: Context<'_>) {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.handshake.on_timeout();
            // RFC 6298 section 5.5 doubles the timeout with each repetition.
            let linear = self.state == State::SynSent && self.handshake.timeouts() <= self.settings.stack.syn_linear_timeouts;
            if !linear {
                self.tx.rtt.back_off();
            }
            self.tx.timers.arm_pending(Pending::Timeout, cx.now, self.tx.rtt.rto());
            self.tx.counters.timeouts += 1;
            return;
        }
        if self.tx.scoreboard.packets_out() == 0 {
            return;
        }
        self.tx.counters.timeouts += 1;
        let ssthresh = self.tx.flow.ssthresh;
        let shorter = if self.tx.path_mtu.reads_scoreboard() {
            self.tell_search_of_timeout(cx.now)
        } else {
            self.suspect_black_hole(cx.now);
            false
        };
        self.enter_loss(cx);
        if shorter {
            // What was lost was too long: slow start begins anew, and ends where it would have. If nothing as long ever arrived, that holds of all
            // losses before too, whatever they were taken for.
            self.tx.flow.ssthresh = if self.tx.path_mtu.has_passed() { ssthresh } else { cc::SSTHRESH_INFINITE };
        }
        self.tx.loss.on_timeout();
        self.tx.rtt.back_off();
        self.tx.timers.arm_pending(Pending::Timeout, cx.now, self.tx.rtt.rto());
    }

    fn handle_reordering_timeout(&mut self, cx: Context<'_>) {
        let in_flight = self.tx.scoreboard.in_flight();
        self.rack_mark(cx.now);
        if self.tx.scoreboard.in_flight() != in_flight {
            if self.tx.path_mtu.reads_scoreboard() {
                self.settle_lost_probes(cx.now);
            }
            if self.tx.flow.ca_state < super::CaState::Recovery && self.time_to_recover() {
                self.enter_recovery_by_timer(cx);
            }
            self.tx.loss.set_retransmits(true);
        }
        self.rearm(cx.now);
    }

    /// The application has closed and everything it offered is in the queue.
    fn fin_ready(&self) -> bool {
        self.tx.fin_queued && self.tx.offered == 0
    }

    pub(super) fn window_room(&self) -> u32 {
        if self.tx.is_subflow && !self.settings.stack.subflow_obeys_window {
            return u32::MAX; // the connection alone keeps to the window
        }
        let out = self.tx.snd_nxt().distance(self.tx.snd_una());
        self.tx.snd_wnd.saturating_sub(out)
    }

    #[inline(never)]
    fn next_retransmission(&mut self, now: Instant, segment: &mut Segment) -> bool {
        if self.tx.flow.cwnd <= self.tx.scoreboard.in_flight() {
            return false;
        }
        let Some(index) = self.tx.scoreboard.next_lost() else {
            self.tx.loss.set_retransmits(false);
            return false;
        };
        if self.waits_for_pacing(now) {
            return false;
        }
        self.tx.scoreboard.split(index, self.tx.segment_len());
        self.retransmit(now, index, segment);
        true
    }

    /// F-RTO's new data has left, as far as it may. If nothing could, what is lost goes again (Linux: `tcp_xmit_recovery`).
    #[cold]
    fn retransmit_if_nothing_left(&mut self, now: Instant, segment: &mut Segment) -> bool {
        self.tx.loss.set_new_data_first(false);
        if self.tx.snd_nxt().after(self.tx.loss.high_seq()) {
            return false;
        }
        self.tx.loss.set_frto(false);
        self.tx.loss.set_retransmits(true);
        self.next_retransmission(now, segment)
    }

    #[inline(never)]
    fn retransmit(&mut self, now: Instant, index: usize, segment: &mut Segment) {
        let again = self.tx.scoreboard.at(index);
        self.tx.path_mtu.forget_probe(again.seq, again.end());
        self.tx.scoreboard.mark_retransmitted(index, now);
        let mut sent = *self.tx.scoreboard.at(index);
        self.tx.delivery.on_sent(now, &self.tx.flow, false, &mut sent);
        self.tx.scoreboard.restamp(index, &sent);
        self.tx.counters.data_segments_sent += 1;
        self.tx.counters.retransmissions += 1;
        self.pace(now, sent.len);
        self.tx.undo.stamp_retransmission(timestamp(now));
        if !self.is_of_lost_probe(sent.seq) {
            self.tx.undo.on_retransmitted();
        }
        if matches!(self.tx.flow.ca_state, super::CaState::Cwr | super::CaState::Recovery) {
            self.tx.prr.on_sent();
        }
        if index == 0 && self.tx.timers.pending() != Some(Pending::Reordering) {
            self.tx.timers.arm_pending(Pending::Timeout, now, self.tx.rtt.rto());
        }
        self.make_data(now, &sent, segment);
        if sent.is_pushed() || self.ends_retransmitted_burst(now, index) {
            segment.flags = segment.flags.with(Flags::PSH);
        }
    }

    /// Segments that left as one burst and are lost together leave again as one, as far as the window goes, and Linux marks its end.
    fn ends_retransmitted_burst(&self, now: Instant, index: usize) -> bool {
        let board = &self.tx.scoreboard;
        let continues = |at: usize| at < board.len() && !board.at(at).is_gso_first();
        let leaves_next =
            || continues(index + 1) && board.at(index + 1).waits_to_be_retransmitted() && board.in_flight() < self.tx.flow.cwnd;
        index > 0 && continues(index) && board.at(index - 1).is_retrans() && board.at(index - 1).at == now && !leaves_next()
    }

    #[inline]
    fn next_new_segment(&mut self, cx: Context<'_>, segment: &mut Segment) -> bool {
        let in_flight = self.tx.scoreboard.in_flight();
        if self.tx.flow.cwnd <= in_flight {
            self.tx.limit.set(cx.now, Limit::CongestionWindow);
            return false;
        }
        if self.tx.burst.remaining == 0 && cx.now >= self.tx.path_mtu.expires() {
            self.forget_route_mtu(cx.now);
        }
        let searches = self.tx.path_mtu.is_searching();
        if searches && self.tx.burst.remaining == 0 && self.probe_is_due(!self.tx.burst.open) {
            match self.next_probe(cx.now, in_flight) {
                super::path_mtu::Next::Usual => {}
                super::path_mtu::Next::Wait => return false,
                super::path_mtu::Next::Probe(len) => {
                    self.probe_leaves(cx.now, len);
                    self.send_probe(cx, New { len: len.as_u32(), with_fin: false, in_flight }, segment);
                    return true;
                }
            }
        }
        let mut len = self.tx.queue.next_new_len(self.tx.segment_len());
        let refused = if searches { self.refused_probe_left() } else { 0 };
        if refused > 0 {
            len = len.min(refused);
        }
        let with_fin = self.fin_ready() && len == self.tx.queue.unsent();
        if len > self.window_room() {
            self.tx.limit.set(cx.now, Limit::PeerWindow);
            if self.tx.scoreboard.packets_out() == 0 && self.tx.timers.pending().is_none() {
                self.tx.persist.begin();
                self.tx.timers.arm_pending(Pending::WindowProbe, cx.now, self.tx.persist.interval(self.tx.rtt.rto_in_ticks()));
            }
            return false;
        }
        if len < self.tx.segment_len() && !with_fin && self.waits_for_small_segment(len) {
            return false;
        }
        if self.tx.burst.remaining == 0 {
            if self.waits_for_pacing(cx.now) {
                return false;
            }
            if refused > 0 {
                self.tx.burst.remaining = 1;
            } else if !self.begin_burst(cx, in_flight) {
                return false;
            }
            self.tx.burst.length = 0;
        }
        self.tx.burst.remaining -= 1;
        self.send_new(cx, New { len, with_fin, in_flight }, segment);
        if refused > len {
            self.refused_probe_leaves(len, refused - len);
        }
        true
    }

    /// How many segments leave as one burst; false if it waits for the next ACK.
    #[inline(always)]
    fn begin_burst(&mut self, cx: Context<'_>, in_flight: u32) -> bool {
        if self.tx.writing {
            self.refill_buffer();
        }
        let most = self.burst_segments(cx.siblings);
        let buffer = self.tx.queue.next_buffer();
        if self.settings.tso_bytes > Bytes::ZERO && buffer.0 > self.tx.segment_len() && self.should_defer(cx.now, in_flight, most, buffer) {
            return false;
        }
        // No burst spans two buffers; a FIN needs none. None takes more than half of the window, so that two are under way (Linux: `tcp_cwnd_test`).
        self.tx.burst.remaining = most.min(self.tx.flow.cwnd / 2).min(buffer.0.div_ceil(self.tx.segment_len())).max(1);
        true
    }

    /// The most that one mapping of new data holds: whole segments (Linux: `tcp_xmit_size_goal`).
    #[cold]
    pub(super) fn size_goal(&self) -> u32 {
        let segment = self.tx.segment_len();
        (LONGEST_MAPPING / segment).max(1) * segment
    }

    /// Subflows of the out-of-tree stack search for no MTU as Linux does, unless a setting lets them.
    pub(super) fn may_probe_mtu(&self) -> bool {
        let searches = self.settings.stack.subflow_probes_mtu || self.settings.subflow_mtu_probing || self.tx.path_mtu.reads_scoreboard();
        !self.tx.is_subflow || searches
    }

    /// Nagle's rule (RFC 1122 section 4.2.3.4) in Minshall's form, for the last `len` bytes that there are.
    fn waits_for_small_segment(&self, len: u32) -> bool {
        (!self.tx.is_subflow || self.settings.stack.subflow_nagle)
            && len == self.tx.queue.unsent()
            && self.tx.scoreboard.packets_out() > 0
            && self.tx.nagle.holds_back(self.tx.snd_una())
            && !self.tx.loss.new_data_first()
    }

    /// New data that leaves to find something out: a burst of its own.
    #[cold]
    fn send_probe(&mut self, cx: Context<'_>, new: New, segment: &mut Segment) {
        self.tx.burst = Burst { remaining: 0, length: 0, ..self.tx.burst };
        self.send_new(cx, new, segment);
    }

    // Inlined where nearly all new data leaves; the other place is out of line itself.
    #[inline(always)]
    fn send_new(&mut self, cx: Context<'_>, new: New, segment: &mut Segment) {
        let New { len, with_fin, in_flight } = new;
        let full = self.tx.segment_len();
        let mut sent = self.tx.queue.next_new(len);
        sent.at = cx.now;
        if with_fin {
            sent.set_fin();
            self.tx.fin_sent = true;
            self.state = if self.state == State::CloseWait { State::LastAck } else { State::FinWait1 };
        }
        let nothing_out = self.tx.scoreboard.packets_out() == 0;
        if in_flight == 0 {
            self.tx.cc.cwnd_event(&mut self.tx.flow, cx.siblings, cc::Event::TxStart);
        }
        self.tx.delivery.on_sent(cx.now, &self.tx.flow, nothing_out, &mut sent);
        sent.set_gso_first(self.tx.burst.length == 0);
        self.tx.scoreboard.sent(sent);
        self.tx.flow.snd_nxt = sent.end().get();
        if sent.len < full {
            self.tx.nagle.on_small_sent(sent.end());
        }
        if matches!(self.tx.flow.ca_state, super::CaState::Cwr | super::CaState::Recovery) {
            self.tx.prr.on_sent();
        }
        self.tx.burst.open = true;
        self.rx.acks_mut().on_data_sent(cx.now);
        self.tx.counters.data_segments_sent += 1;
        self.pace(cx.now, sent.len);
        self.tx.burst.length += 1;
        if self.template.is_valid && self.tx.last_sent_at == cx.now {
            self.patch_template(&sent, segment);
            self.debug_check_patched(cx.now, &sent, segment);
        } else {
            self.make_data(cx.now, &sent, segment);
            self.ecn_on_new_data(segment);
            self.template.is_valid = true;
        }
        // Linux marks the end of the data, and of each burst of more than one segment.
        let ends = self.tx.burst.remaining == 0 || sent.len < full || self.tx.scoreboard.in_flight() >= self.tx.flow.cwnd;
        let pushed = self.tx.queue.take_push();
        if sent.len > 0 && (pushed || (self.tx.queue.unsent() == 0 && !self.tx.writing) || (ends && self.tx.burst.length > 1)) {
            segment.flags = segment.flags.with(Flags::PSH);
            if self.tx.queue.unsent() == 0 {
                self.tx.scoreboard.push_last();
            }
        }
    }

    /// Pacing holds back what would leave now; the timer is armed.
    #[inline]
    fn waits_for_pacing(&mut self, now: Instant) -> bool {
        let waits = self.tx.flow.pacing != 0 && self.tx.pacer.next() > now;
        if waits {
            self.tx.timers.arm(Timer::Pacing, now, self.tx.pacer.next().since(now));
            // The rate is the algorithm's word as the window is.
            self.tx.limit.set(now, Limit::CongestionWindow);
        }
        waits
    }

    /// A segment has left.
    #[inline]
    fn pace(&mut self, now: Instant, len: u32) {
        if self.tx.flow.pacing != 0 {
            let rate = self.tx.pacing_rate();
            self.tx.pacer.on_sent(now, Bytes::new(u64::from(len)), rate, self.tx.counters.data_segments_sent);
        }
    }

    /// Segments that may leave as one burst: a millisecond's worth at the pacing rate, more on short paths.
    #[inline(always)]
    pub(super) fn burst_segments(&mut self, siblings: Option<&cc::Siblings>) -> u32 {
        if self.settings.tso_bytes == Bytes::ZERO {
            return 1;
        }
        let mut bytes = self.tx.flow.pacing_rate >> 10;
        if self.settings.stack.short_path_bursts {
            let shift = self.tx.flow.min_rtt_us >> 9;
            if shift < 32 {
                bytes += self.settings.tso_bytes.get() >> shift;
            }
        }
        let bytes = bytes.min(self.settings.tso_bytes.get()) as u32;
        (bytes / self.tx.segment_len()).max(self.tx.cc.min_tso_segs(&mut self.tx.flow, siblings)).max(1)
    }

    /// Whether to wait for the next ACK so that a larger burst can leave; remembers that the window was the limit. `waiting` bytes are to leave next,
    /// the `last` of what waits.
    #[inline(always)]
    fn should_defer(&mut self, now: Instant, in_flight: u32, most: u32, (waiting, last): (u32, bool)) -> bool {
        if self.tx.flow.ca_state >= super::CaState::Recovery || now.since(self.tx.last_sent_at.max(self.tx.pacer.next())) > DEFER_WITHIN {
            return false;
        }
        let mss = self.tx.flow.mss;
        let send_room = self.window_room();
        let window_room = (self.tx.flow.cwnd - in_flight).saturating_mul(mss);
        let limit = send_room.min(window_room);
        let chunk = self.tx.snd_wnd.max(if send_room == u32::MAX { u32::MAX } else { 0 }).min(self.tx.flow.cwnd.saturating_mul(mss))
            / DEFER_DIVISOR;
        if limit >= most.saturating_mul(mss) || limit >= chunk || (!last && limit >= waiting) {
            return false;
        }
        let Some(head) = self.tx.scoreboard.head() else { return false };
        let srtt = Duration::from_nanos(u64::from(self.tx.flow.srtt_us) * 125);
        let half = srtt / 2;
        let threshold = self.settings.stack.tso_defer_within.map_or(half, |within| half.min(within));
        if head.at + srtt > now + threshold {
            return false; // the next ACK is too far away
        }
        if window_room < send_room {
            if window_room <= waiting {
                self.tx.cwnd_validation.on_deferral(self.tx.snd_nxt(), self.tx.scoreboard.packets_out(), &mut self.tx.flow.max_packets_out);
                self.tx.limit.set(now, Limit::CongestionWindow);
                return true;
            }
        } else if send_room <= waiting {
            self.tx.limit.set(now, Limit::PeerWindow);
            return true;
        }
        // The application may add to the burst before the next ACK, unless it has ended.
        !self.tx.fin_queued
    }

    /// After a burst: was the window or the application the limit? (RFC 7661; Linux's congestion window validation.)
    fn validate_window(&mut self, now: Instant) {
        let packets_out = self.tx.scoreboard.packets_out();
        let limited = self.tx.scoreboard.in_flight() >= self.tx.flow.cwnd;
        let flight = Flight { snd_una: self.tx.snd_una(), snd_nxt: self.tx.snd_nxt(), packets_out, fills_window: limited };
        self.tx.cwnd_validation.on_burst(flight, self.settings.stack.keeps_cwnd_limited, &mut self.tx.flow.max_packets_out);
        if self.tx.cwnd_validation.note_use(now, self.is_cwnd_limited(), packets_out, self.tx.rtt.rto())
            && self.settings.slow_start_after_idle
            && !self.tx.cc.has_cong_control()
        {
            self.shrink_unused_window(now);
        }
        if self.tx.queue.unsent() < self.tx.segment_len() {
            let limit = if packets_out == 0 {
                Limit::Idle
            } else if self.tx.writer_blocked {
                Limit::SendBuffer
            } else {
                Limit::Application
            };
            self.tx.limit.set(now, limit);
        } else if limited {
            self.tx.limit.set(now, Limit::CongestionWindow);
        }
        if self.tx.timers.pending() != Some(Pending::Reordering) {
            self.rearm(now);
        }
    }

    #[cold]
    fn shrink_unused_window(&mut self, now: Instant) {
        let open = self.tx.flow.ca_state == super::CaState::Open;
        let Window { cwnd, ssthresh } =
            self.tx.cwnd_validation.on_application_limited(now, self.window(), self.settings.initial_cwnd.get(), open);
        (self.tx.flow.cwnd, self.tx.flow.ssthresh) = (cwnd, ssthresh);
    }

    #[inline]
    pub(super) fn window(&self) -> Window {
        Window { cwnd: self.tx.flow.cwnd, ssthresh: self.tx.flow.ssthresh }
    }

    /// RFC 5681 section 4.1: a window that was not used for a timeout decays, once per timeout, to the initial one.
    pub(super) fn idle_restart(&mut self, now: Instant) {
        let rto = self.tx.rtt.rto();
        let idle = now.since(self.tx.last_sent_at);
        if !self.settings.slow_start_after_idle
            || self.state != State::Established
            || self.tx.scoreboard.packets_out() > 0
            || self.tx.cc.has_cong_control()
            || self.tx.counters.data_segments_sent == 0
            || idle <= rto
        {
            return;
        }
        let restart = self.settings.initial_cwnd.get().min(self.tx.flow.cwnd);
        self.tx.flow.ssthresh = self.window().current_ssthresh();
        self.tx.cc.cwnd_event(&mut self.tx.flow, None, cc::Event::CwndRestart);
        self.tx.flow.cwnd = self.window().cwnd_after_idle(idle, rto, restart);
        self.tx.cwnd_validation.on_restart(now);
    }

    /// A tail loss probe (RFC 8985 section 7.3): new data if there is any, else the last segment again.
    #[cold]
    fn make_probe(&mut self, cx: Context<'_>, segment: &mut Segment) -> bool {
        self.tx.counters.loss_probes += 1;
        let len = self.tx.queue.next_new_len(self.tx.segment_len());
        let new_data = len > 0 && len <= self.window_room();
        let sent = new_data || self.tx.scoreboard.len() > 0;
        if new_data {
            let with_fin = self.fin_ready() && len == self.tx.queue.unsent();
            let in_flight = self.tx.scoreboard.in_flight();
            self.send_probe(cx, New { len, with_fin, in_flight }, segment);
        } else if sent {
            let last = self.tx.scoreboard.len() - 1;
            self.tx.scoreboard.split(last, self.tx.segment_len());
            self.retransmit(cx.now, last, segment);
        }
        if sent {
            self.tx.tlp.on_sent(self.tx.snd_nxt(), !new_data);
        }
        self.tx.timers.arm_pending(Pending::Timeout, cx.now, self.tx.rtt.rto());
        sent
    }

    /// RFC 9293 section 3.8.6.1: a segment that the peer must answer, without data (as Linux sends it).
    #[cold]
    fn make_window_probe(&mut self, now: Instant, segment: &mut Segment) {
        self.make_ack(now, segment);
        segment.seq = self.tx.snd_una() - 1;
    }
}
