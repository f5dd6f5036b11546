//! Which subflow sends what: new data by the scheduler, and the DATA_FIN behind it.
//!
//! Linux enqueues on a subflow as much as its send buffer takes, MPTCP 0.96 what its congestion
//! window lets out; each difference is a property of [`crate::stack::Stack`].

use super::connection_mss::{Candidate, connection_mss};
use super::sender::{Fin, Piece};
use super::{Connection, EndedByPeer, INITIAL, Phase, Subflow};
use crate::limit_clock::Limit as SenderLimit;
use crate::stack::{MetaRetransmission, MetaSendBuffer, PushOrder};
use crate::tcp::{CaState, State};
use polypath_base::{Bytes, DataSeq, Duration, Instant};
use polypath_sched::{Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView, SubflowSet};
use polypath_wire::Segment;

impl Subflow {
    /// Its send buffer is another one than the connection has counted.
    #[inline]
    pub(super) fn has_new_sndbuf(&self) -> bool {
        self.sndbuf != self.socket.tx.sndbuf() && self.sndbuf != UNCOUNTED
    }

    /// The connection's send buffer does not have its own yet.
    #[inline]
    pub(super) fn is_uncounted(&self) -> bool {
        self.sndbuf == UNCOUNTED
    }
}

/// See [`Connection::sync_sndbuf_with`].
const UNCOUNTED: Bytes = Bytes::MAX;

impl Connection {
    /// The application may write more: fills the send buffer, then the subflows.
    pub(super) fn write(&mut self, now: Instant) {
        self.last_event = now;
        if self.phase != Phase::Negotiating {
            self.refill();
        }
        self.ask_with_closed_window(now);
        self.push(now);
    }

    /// Linux asks the scheduler, and so how long the retransmission timer waits, where a call has
    /// written or the timer has come up, even if the peer's window is closed.
    pub(super) fn ask_with_closed_window(&mut self, now: Instant) {
        let is_closed = self.tx.pending.before(self.tx.end) && !self.tx.window_end.after(self.tx.pending);
        if is_closed && self.settings.stack.push_order == PushOrder::Bursts && self.phase != Phase::Negotiating {
            let first = self.work.sends_first();
            self.note_rtx_interval(now);
            self.work.set_sends_first(first);
            if self.scheduler.schedules_bursts() {
                self.push_chosen(now);
            }
        }
    }

    /// The subflow that the scheduler chooses gets nothing, since the window is closed, but what it
    /// has is looked at anew (Linux: `mptcp_push_release`).
    #[cold]
    fn push_chosen(&mut self, now: Instant) {
        self.refresh_view();
        if let Some(choice) = self.choose(now) {
            self.subflows[choice.subflow].socket.tx.push_pending();
            self.work.mark(choice.subflow);
        }
    }

    #[inline(never)]
    fn refill(&mut self) {
        let was = self.tx.blocked;
        self.tx.fill();
        if self.tx.blocked != was {
            self.set_blocked(self.tx.blocked);
        }
    }

    pub(super) fn set_blocked(&mut self, blocked: bool) {
        self.tx.blocked = blocked;
        self.tell_subflows();
    }

    /// Subflows learn whether a writer waits.
    fn tell_subflows(&mut self) {
        for subflow in &mut self.subflows {
            subflow.socket.tx.set_writer_blocked(self.tx.blocked | self.tx.no_space);
        }
    }

    /// Data was acknowledged: has the application heard of room?
    #[cold]
    fn leave_no_space(&mut self) {
        if self.tx.is_writeable() {
            self.tx.no_space = false;
            self.tell_subflows();
        }
    }

    /// The program asks what its socket is ready for: that nothing can be written is noted, whatever it
    /// has asked for (Linux: `mptcp_check_writeable`).
    pub fn poll_readiness(&mut self) {
        let writes = self.phase != Phase::Negotiating && self.tx.fin == Fin::No;
        if writes && !self.tx.no_space && !self.tx.is_writeable() {
            self.tx.no_space = true;
            self.tell_subflows();
        }
    }

    /// The connection's send buffer follows those of its subflows.
    #[cold]
    pub(super) fn sync_sndbuf(&mut self) {
        // Linux never lets go of the first one, nor of its share (`__mptcp_close_ssk`).
        let keeps_first = self.settings.stack.meta_send_buffer == MetaSendBuffer::Sum;
        let counts = |&(i, s): &(usize, &Subflow)| !s.closed || (keeps_first && i == INITIAL);
        let sizes = self.subflows.iter().enumerate().filter(counts).map(|(_, s)| s.socket.tx.sndbuf().get());
        let (sum, largest) = sizes.fold((0, 0), |(sum, largest): (u64, u64), size| (sum + size, largest.max(size)));
        for subflow in &mut self.subflows {
            subflow.sndbuf = subflow.socket.tx.sndbuf();
            subflow.socket.tx.set_writer_blocked(self.tx.blocked | self.tx.no_space);
        }
        self.tx.sndbuf = match self.settings.stack.meta_send_buffer {
            MetaSendBuffer::LargestSum => self.tx.sndbuf.max(sum.min(self.settings.wmem[2].get())),
            MetaSendBuffer::Largest => self.tx.sndbuf.max(largest),
            MetaSendBuffer::Sum => sum + self.settings.wmem[0].get(),
        };
    }

    /// Subflow `i` has joined. One that the peer asked for is not in the list yet of those whose
    /// buffers are summed, and counts with the next change (Linux: `__mptcp_finish_join`).
    #[cold]
    pub(super) fn sync_sndbuf_with(&mut self, i: usize) {
        let counts_late = i != INITIAL && !self.is_client && self.settings.stack.meta_send_buffer == MetaSendBuffer::Sum;
        self.sync_sndbuf();
        if counts_late {
            self.tx.sndbuf -= self.subflows[i].sndbuf.get();
            self.subflows[i].sndbuf = UNCOUNTED;
        }
    }

    /// A segment has come on a subflow that is uncounted, or new data has left on it: it counts from
    /// then on that a writer waits (Linux: `tcp_check_space`, `subflow_write_space`).
    #[cold]
    pub(super) fn count_late(&mut self) {
        if self.tx.blocked | self.tx.no_space {
            self.sync_sndbuf();
        }
    }

    /// The peer acknowledged data; `waited`: some waited for the scheduler.
    #[inline]
    pub(super) fn on_data_acked(&mut self, now: Instant, waited: bool) {
        self.tx.rtx_backoff = 0;
        if self.tx.no_space {
            self.leave_no_space();
        }
        // A DATA_FIN that waits counts as data (Linux: `__mptcp_wr_shutdown`).
        let waits_for_fin = self.tx.fin == Fin::Queued && self.settings.stack.push_order == PushOrder::Bursts;
        if !self.tx.una.before(self.tx.sent_end()) && self.tx.next == self.tx.end && !waits_for_fin {
            if self.tx.rtx_due != Instant::NEVER {
                // Until data is scheduled again, the timer would come up on the next tick; only
                // a DATA_FIN starts it before (Linux: `mptcp_stop_rtx_timer`).
                self.tx.rtx_interval = Some(Duration::ZERO);
            }
            self.tx.rtx_due = Instant::NEVER;
        } else {
            if waited && self.settings.stack.push_order == PushOrder::Bursts && self.tx.window_end.after(self.tx.next) {
                // Linux asks the scheduler before it lets go of what was acknowledged.
                self.note_rtx_interval(now);
            }
            self.arm_retransmission(now);
        }
        if self.tx.fin == Fin::Acked {
            self.finish_if_done();
        }
    }

    /// Enqueues on subflows whatever they may have now (Linux: `__mptcp_push_pending`). Called
    /// after every event.
    #[inline(never)]
    pub(super) fn push(&mut self, now: Instant) {
        self.push_now(now, false);
    }

    /// As [`Connection::push`], in line; `answers`: after a segment.
    #[inline(always)]
    pub(super) fn push_now(&mut self, now: Instant, answers: bool) {
        if self.phase == Phase::Negotiating || self.tx.is_idle() {
            return;
        }
        if self.work.touched().iter().any(|i| self.subflows[i].has_new_sndbuf() && !self.subflows[i].closed) {
            self.sync_sndbuf();
        }
        if self.tx.blocked && self.tx.wakes_writer() {
            self.refill();
        }
        let mut copied = true;
        match self.settings.stack.push_order {
            PushOrder::Bursts => copied = self.push_bursts(now),
            PushOrder::BufferByBuffer => {
                if !self.tx.all_scheduled() && self.schedule(now) {
                    self.work.push_again();
                    return;
                }
            }
        }
        if self.tx.blocked
            && self.settings.stack.opportunistic_retransmission
            && self.tx.all_scheduled()
            && self.scheduler.retransmits_head_of_line()
        {
            self.opportunistic_retransmit(now);
        }
        if self.tx.pending.before(self.tx.end) && self.tx.una == self.tx.next && self.tx.rtx_due == Instant::NEVER {
            // Everything is acknowledged and yet nothing may be sent: only a probe can find out
            // whether the window has opened (RFC 9293 section 3.8.6.1).
            self.arm_retransmission(now);
        }
        self.note_limit(now);
        if self.tx.fin == Fin::Queued && self.tx.all_scheduled() && self.tx.offered == 0 {
            if self.settings.stack.push_order == PushOrder::Bursts && self.phase == Phase::Established {
                // What was enqueued and what answers leaves first. Data that is acknowledged before it
                // went again calls nobody (Linux: `mptcp_check_send_data_fin`).
                if copied | !answers {
                    self.work.await_fin();
                }
            } else {
                self.send_fin(now);
            }
        }
    }

    /// All have sent: the DATA_FIN that waits for that leaves.
    #[cold]
    pub(super) fn send_waiting_fin(&mut self, now: Instant) {
        if self.tx.fin == Fin::Queued && self.tx.all_scheduled() && self.tx.offered == 0 {
            self.send_fin(now);
        }
    }

    /// What a DATA_ACK lets out on its own subflow leaves before the data of the same segment counts
    /// (Linux: `mptcp_incoming_options`, which calls `__mptcp_subflow_push_pending`).
    #[cold]
    pub(super) fn sends_before_data(&self, i: usize) -> bool {
        let is_established = self.phase == Phase::Established && self.subflows[i].confirmed;
        self.settings.stack.push_order == PushOrder::Bursts && self.scheduler.schedules_bursts() && is_established
    }

    /// A segment with data comes while other data waits to be scheduled. True if its
    /// acknowledgements count.
    #[cold]
    pub(super) fn handle_in_two_steps(&mut self, now: Instant, i: usize, segment: &Segment) -> bool {
        let socket = &mut self.subflows[i].socket;
        if !socket.handle_acknowledgement(self.work.context(now, i), segment) {
            return false;
        }
        self.work.touch(i);
        self.note_heard(now, i, segment);
        self.take_acknowledgement(now, i, segment);
        let (mut last, mut left) = (None, self.work.sends_first());
        while self.tx.pending.before(self.tx.end) && self.schedule_burst(now, &mut last, &mut left, Some(i)) {}
        if last.is_some() {
            if self.tx.rtx_due == Instant::NEVER && self.work.sends_first().is_empty() {
                self.arm_retransmission(now);
            }
            if self.tx.fin == Fin::Queued {
                self.work.await_fin();
            }
            self.subflows[i].socket.send_before_data(self.work.context(now, i));
        }
        if self.subflows[i].socket.has_formed() {
            self.complete_formed(i);
        }
        self.subflows[i].socket.take_rest(self.work.context(now, i), segment);
        true
    }

    /// Bursts, as long as the scheduler hands them out; a writer that waits writes on in between. True
    /// if there were any.
    #[inline(always)]
    fn push_bursts(&mut self, now: Instant) -> bool {
        let (mut last, mut left) = (None, self.work.sends_first());
        loop {
            while self.tx.pending.before(self.tx.end) && self.schedule_burst(now, &mut last, &mut left, None) {}
            if !self.tx.between_writes {
                break;
            }
            self.refill();
        }
        if last.is_some() && self.tx.rtx_due == Instant::NEVER && self.work.sends_first().is_empty() {
            self.arm_retransmission(now);
        }
        last.is_some()
    }

    /// Brings the schedulers' view of the subflows up to date, where anything has happened since.
    #[inline]
    pub(super) fn refresh_view(&mut self) {
        // One that hands out bursts reads only the fields above; the others are not brought up to
        // date for it.
        let all = self.settings.stack.push_order != PushOrder::Bursts || !self.scheduler.schedules_bursts();
        let keeps_buffers = self.settings.stack.subflow_keeps_buffers;
        let is_fallback = self.phase == Phase::Fallback;
        self.work.refresh_views(|i, view| {
            let s = &mut self.subflows[i];
            if keeps_buffers {
                (view.buffers, view.burst) = s.socket.tx.buffered();
            }
            let socket = &s.socket;
            // The client's initial subflow sends before the peer has confirmed the handshake
            // (RFC 8684 section 3.1).
            let sends_early = i == INITIAL && self.is_client && !s.confirmed && socket.state() == State::Established;
            view.usable = s.is_usable() || (is_fallback && socket.state().can_send()) || sends_early;
            view.backup = s.backup;
            view.queued = socket.tx.wmem_queued();
            view.room = view.queued < socket.tx.sndbuf();
            view.pacing_rate = socket.tx.pacing_rate();
            if all {
                view.srtt = socket.tx.smoothed_rtt();
                view.rttvar = socket.tx.rttvar();
                view.ssthresh = socket.tx.ssthresh();
                view.cwnd = socket.tx.cwnd();
                view.in_flight = socket.tx.in_flight();
                view.mss = socket.tx.mss();
                view.unsent = socket.tx.unsent();
                view.in_loss = socket.tx.ca_state() == CaState::Loss;
            }
        });
    }

    #[inline]
    fn queue(&self, now: Instant) -> DataQueueView {
        DataQueueView { una: self.tx.una, next: self.tx.pending, end: self.tx.end, window_end: self.tx.window_end, now }
    }

    /// One choice of the scheduler and what follows from it; false when nothing more may be
    /// enqueued.
    #[inline(never)]
    fn schedule(&mut self, now: Instant) -> bool {
        let queue = self.queue(now);
        self.refresh_view();
        if self.settings.stack.reinjects_pieces
            && let Some(&piece) = self.tx.reinject.front()
        {
            return self.schedule_reinjection(now, piece);
        }
        let Some(choice) = self.scheduler.pick(self.work.views(), &queue) else { return false };
        self.schedule_chunk(now, choice, &queue)
    }

    /// One choice of the scheduler, fragment by fragment, until what it allowed or the subflow's
    /// buffer is used up (Linux: `__subflow_push_pending`).
    ///
    /// `last` is the subflow that got data just before, `left` are those that got data before that
    /// one: what they have, Linux sends before it goes on. `only`: none but this one gets any.
    #[inline(always)]
    fn schedule_burst(&mut self, now: Instant, last: &mut Option<usize>, left: &mut SubflowSet, only: Option<usize>) -> bool {
        if !self.tx.window_end.after(self.tx.pending) && self.scheduler.has_met(self.work.last_views(), self.work.touched()) {
            // The peer's window is full, so no subflow may send.
            return false;
        }
        self.refresh_view();
        self.note_rtx_interval(now);
        self.work.set_sends_first(*left);
        let mut chosen = None;
        let (i, mut burst) = if let Some(rest) = self.work.rest_of_burst() {
            rest
        } else {
            let Some(choice) = self.choose(now) else { return false };
            chosen = Some(choice);
            (choice.subflow, choice.limit.bytes().unwrap_or(Bytes::ZERO))
        };
        if only.is_some_and(|only| only != i) {
            return false;
        }
        if let Some(last) = last.replace(i).filter(|&last| last != i) {
            if left.is_empty() {
                self.work.got_data_first(last);
            }
            left.insert(last);
        }
        // The buffer of this stack is a fragment.
        let (start, next) = (self.tx.pending, self.tx.next);
        while self.tx.pending.before(self.tx.end) {
            let stop = self.tx.fragment_end(self.tx.pending).min(self.tx.window_end);
            if !stop.after(self.tx.pending) {
                break;
            }
            let len = stop.distance(self.tx.pending) as u32;
            debug_assert!(!stop.after(self.tx.end), "a fragment ends with the data");
            self.enqueue_on_subflow(now, i, self.tx.pending, len);
            self.tx.pending += u64::from(len);
            self.tx.next = self.tx.next.max(self.tx.pending);
            burst = burst.saturating_sub(Bytes::from_u32(len));
            let socket = &self.subflows[i].socket;
            if burst == Bytes::ZERO || socket.tx.wmem_queued() >= socket.tx.sndbuf() {
                break;
            }
            if self.settings.stack.rtx_interval_by_fragment {
                self.work.set_sends_first(*left);
            }
        }
        if self.settings.stack.burst_goes_on {
            self.work.keep_burst(i, burst);
        }
        let has_sent = self.tx.pending.after(start);
        if let Some(choice) = chosen.filter(|_| has_sent) {
            if !self.scheduler.reinjects() {
                self.tx.reinjected_bytes += self.tx.pending.min(next).max(start).distance(start);
            }
            self.scheduler.on_scheduled(choice, Bytes::new(self.tx.pending.distance(start)));
        }
        has_sent
    }

    /// The scheduler's choice, as `cc/kernel/sched.c` has it made in a kernel. One that repeats
    /// data moves the place at which the connection goes on.
    #[inline(always)]
    fn choose(&mut self, now: Instant) -> Option<Choice> {
        let queue = self.queue(now);
        if self.scheduler.schedules_bursts() {
            // How long a burst is Linux counts from what was never sent, also while it sends again.
            let queue = DataQueueView { window_end: queue.next + self.tx.window_end.max(self.tx.next).distance(self.tx.next), ..queue };
            return self.scheduler.pick(self.work.views(), &queue);
        }
        let repeats = !self.scheduler.reinjects();
        let next = if repeats { self.tx.next } else { queue.next };
        // As Linux counts it, also while it sends again.
        let queue = DataQueueView { next, window_end: next + self.tx.window_end.max(self.tx.next).distance(self.tx.next), ..queue };
        let held = |view: &PathView| view.usable && queue.window_left() < queue.waiting().min(view.mss);
        if self.work.views().iter().any(held) {
            self.scheduler.on_blocked();
        }
        let choice = self.scheduler.pick(self.work.views(), &queue);
        if repeats && (choice.is_some() || self.tx.una.before(self.tx.next)) {
            let from = choice.map_or(self.tx.una, |choice| choice.from);
            self.tx.pending = from.min(self.tx.end);
        }
        choice
    }

    /// What the scheduler allows, in whole segments as far as the peer's window goes.
    #[inline(never)]
    fn schedule_chunk(&mut self, now: Instant, choice: Choice, queue: &DataQueueView) -> bool {
        let mss = self.work.views()[choice.subflow].mss;
        if choice.from.before(queue.next) {
            // A copy of data that went elsewhere before; of a whole buffer also what was
            // acknowledged of it.
            let (from, most) = match choice.limit {
                Limit::Bytes(bytes) => (choice.from, bytes),
                Limit::Buffer => self.tx.piece(choice.from).map_or((choice.from, Bytes::MAX), |p| (p.dsn, Bytes::from_u32(p.len))),
            };
            let choice = Choice { from, ..choice };
            let len = most.min(Bytes::new(queue.next.distance(from))).as_u32();
            self.tx.reinjected_bytes += u64::from(len);
            self.mark_tried(choice.from, len, choice.subflow);
            self.scheduler.on_scheduled(choice, Bytes::from_u32(len));
            self.enqueue_on_subflow(now, choice.subflow, choice.from, len);
            return true;
        }
        let window = queue.window_left();
        if window < queue.waiting().min(mss) {
            // Not even a segment fits: the peer's window holds us up.
            return self.scheduler.retransmits_head_of_line() && self.retransmit_head(now, choice.subflow, true);
        }
        debug_assert!(choice.from == queue.next, "new data goes out in order");
        if self.tx.begins_buffer(self.tx.pending) {
            self.tx.buffer_mss = self.connection_mss().unwrap_or(mss);
        }
        let limit = choice.limit.bytes().map_or(Bytes::MAX, |most| self.allowed(most, mss));
        let len = self.tx.cut(self.tx.pending, window.get(), limit.get(), mss.get());
        self.scheduler.on_scheduled(choice, Bytes::from_u32(len));
        self.tx.pieces.push_back(Piece { dsn: self.tx.pending, len, tried: SubflowSet::of(choice.subflow) });
        self.enqueue_on_subflow(now, choice.subflow, self.tx.pending, len);
        self.tx.pending += u64::from(len);
        self.tx.next = self.tx.next.max(self.tx.pending);
        if self.tx.rtx_due == Instant::NEVER {
            self.arm_retransmission(now);
        }
        true
    }

    /// What the scheduler allows of the buffer that is being cut, where a subflow with segments of
    /// `mss` may have `most`.
    ///
    /// MPTCP 0.96 has one size of segments for the connection, and a subflow whose own are shorter
    /// cuts what it gets (Manoratne 2025, section 10.5.1: "all subflows will attempt to transmit
    /// data segments sized according to this selected MSS"). So it gets as many of those.
    #[inline]
    fn allowed(&self, most: Bytes, mss: Bytes) -> Bytes {
        if self.tx.buffer_mss == mss {
            return most;
        }
        Bytes::new((most / mss).max(1).saturating_mul(self.tx.buffer_mss.get()))
    }

    /// The size of segments that the connection as a whole counts in (MPTCP 0.96:
    /// `mptcp_current_mss`).
    fn connection_mss(&self) -> Option<Bytes> {
        let candidates = self.work.views().iter().filter(|view| view.usable).map(|view| Candidate {
            mss: view.mss,
            window: view.cwnd.max(view.in_flight),
            srtt: view.srtt,
        });
        let mut found = [Candidate::default(); MAX_SUBFLOWS];
        let mut count = 0;
        for (place, candidate) in found.iter_mut().zip(candidates) {
            *place = candidate;
            count += 1;
        }
        connection_mss(&found[..count])
    }

    #[inline]
    pub(super) fn enqueue_on_subflow(&mut self, now: Instant, i: usize, dsn: DataSeq, len: u32) {
        // What it got before in this push, Linux has sent.
        let has_left = self.work.sends_first().has(i);
        let subflow = &mut self.subflows[i];
        if self.phase != Phase::Fallback {
            // Linux: data that the connection's window allows passes the subflow's test of the
            // window too.
            let window = self.tx.window_end.max(dsn).distance(dsn).min(u64::from(u32::MAX)) as u32;
            subflow.socket.tx.raise_peer_window(window);
        }
        debug_assert!(len > 0 && !subflow.closed, "a subflow that is there gets data");
        subflow.socket.push_mapping(now, dsn, Bytes::from_u32(len), has_left);
        self.work.mark(i);
    }

    #[cold]
    fn send_fin(&mut self, now: Instant) {
        if self.phase == Phase::Fallback {
            self.tx.fin = Fin::Sent;
            self.subflows[INITIAL].socket.close();
            self.work.set_ready(INITIAL);
            return;
        }
        self.tx.fin = Fin::Sent;
        self.tx.fin_at = now;
        self.request_acks();
        if self.tx.rtx_due == Instant::NEVER || self.settings.stack.meta_retransmission == MetaRetransmission::TwiceLongestTimeout {
            self.arm_retransmission(now);
        }
    }

    #[cold]
    pub(super) fn request_acks(&mut self) {
        self.work.none_comes_first();
        for (i, subflow) in self.subflows.iter_mut().enumerate() {
            // Linux keeps the first one in its list until nothing of it is left (`mptcp_send_ack`).
            let is_kept = !subflow.closed || (i == INITIAL && subflow.ended_by_peer != EndedByPeer::No);
            if is_kept && subflow.socket.state().is_synchronized() {
                subflow.socket.request_ack();
                self.work.set_ready(i);
            }
        }
    }

    /// What holds up the connection as a whole now.
    #[inline]
    fn note_limit(&mut self, now: Instant) {
        let waiting = self.tx.end.distance(self.tx.pending);
        // The window or the buffer holds us up only if a subflow could send more than it has.
        let starved = || self.subflows.iter().any(|s| s.is_usable() && s.socket.tx.is_starved());
        let limit = if waiting > 0 {
            let segment = waiting.min(self.subflows[INITIAL].socket.tx.mss().get());
            let closed = (self.tx.pending + segment).after(self.tx.window_end);
            if closed && starved() { SenderLimit::PeerWindow } else { SenderLimit::CongestionWindow }
        } else if self.tx.blocked || self.tx.offered > 0 {
            if starved() { SenderLimit::SendBuffer } else { SenderLimit::CongestionWindow }
        } else {
            SenderLimit::Application
        };
        self.tx.limit.set(now, limit);
    }
}
