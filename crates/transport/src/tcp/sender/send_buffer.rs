//! The send buffer and its autotuning: the data of plain TCP, and the size that a subflow adds to
//! its connection's.

use super::Sender;

/// What the kernel adds to a segment in its rule for the send buffer: headers 320, shared info 320,
/// then the descriptor 256. Seen on 6.12: subflows queue 8700 bytes for each segment of their
/// largest window, twice 4352.
const SEGMENT_OVERHEAD: u32 = 640;
const SEGMENT_DESCRIPTOR: u32 = 256;

/// What a buffer that is sent takes beside its data: head 384, shared info 320, descriptor 256.
const BURST_OVERHEAD: u32 = 960;

/// What `len` bytes in one piece of memory take.
#[inline]
pub(super) fn memory_of_buffer(len: u32) -> u32 {
    (len + SEGMENT_OVERHEAD).next_power_of_two() + SEGMENT_DESCRIPTOR
}

impl Sender {
    /// The application begins to write: if nothing waits and the window would allow more, what is
    /// in the network tells of the application, not of the path
    /// (draft-cheng-iccrg-delivery-rate-estimation-00 section 3.4). As in Linux this is asked at
    /// the start of a write alone, and never of a subflow, which the connection writes to.
    pub(super) fn note_app_limited(&mut self) {
        let board = &self.scoreboard;
        if !self.is_subflow
            && self.offered > 0
            && self.queue.unsent() < self.flow.mss
            && board.in_flight() < self.flow.cwnd
            && board.lost_out() <= board.retrans_out()
        {
            self.flow.app_limited = self.flow.delivered.wrapping_add(board.in_flight()).max(1);
        }
    }

    /// Takes what the application offers into the send buffer, as far as there is room.
    pub(super) fn fill_send_buffer(&mut self) {
        if self.is_subflow || self.offered == 0 || !self.may_write {
            return;
        }
        self.begin_writing();
        self.end_writing();
    }

    /// A writer that finds no room marks the end of what it has written (Linux: `tcp_push` before
    /// `sk_stream_wait_memory`).
    fn end_writing(&mut self) {
        self.writer_blocked = self.offered > 0;
        if self.writer_blocked && !self.writing {
            self.queue.push_last();
        }
    }

    /// The writer fills a buffer. Where no other waits, the buffer is sent at once as far as the
    /// window allows, and then filled up before the next is begun (Linux: `tcp_push_one`). So the
    /// first buffer of a write ends with the window and has as many segments as any other.
    fn begin_writing(&mut self) {
        if self.queue.buffers() <= 1 {
            self.writing = self.write_buffer() && self.offered > 0;
        } else {
            self.write_rest();
        }
    }

    /// Nothing more leaves of what was written: the writer goes on. False if it cannot.
    #[cold]
    pub(super) fn write_on(&mut self) -> bool {
        let accepted = self.accepted;
        self.pushes_pending = false;
        if self.queue.buffers() == 0 {
            self.begin_writing();
        } else {
            self.write_rest();
        }
        self.end_writing();
        self.accepted != accepted
    }

    /// Buffers are filled whole while the send buffer has room to begin them.
    fn write_rest(&mut self) {
        self.writing = false;
        while self.offered > 0 && self.write_buffer() {
            if self.pushes_pending {
                self.grow_first_buffer(None, self.scoreboard.in_flight());
            }
        }
    }

    /// Data goes into the last buffer that waits, or into a new one; false if there is no room.
    fn write_buffer(&mut self) -> bool {
        let goal = self.buffer_goal();
        let room = match self.queue.room_in_tail(goal) {
            0 if self.queued_memory() < self.sndbuf && self.has_few_unsent(false) => goal,
            room => room,
        };
        let bytes = u64::from(room).min(self.offered) as u32;
        if bytes == 0 {
            return false;
        }
        self.queue.accept_into_buffers(bytes, goal);
        self.on_accepted(bytes);
        if self.offered == 0 {
            // The end of a write is marked, also where the next adds to the buffer (Linux: `tcp_push`).
            if !self.nagle.more_follows() {
                self.queue.push_last();
            }
            if std::mem::take(&mut self.write_ends_record) {
                self.queue.end_record();
            }
        }
        if bytes == room {
            self.pushes_pending |= self.queue.mark_pushed(self.path_mtu.max_window() / 2);
        }
        true
    }

    /// What has left of the only buffer is made up for while the writer goes on.
    #[cold]
    pub(super) fn refill_buffer(&mut self) {
        if !self.pushes_pending && self.queue.buffers() == 1 && self.queue.room_in_tail(self.buffer_goal()) > 0 {
            self.writing = self.write_buffer() && self.offered > 0;
            self.end_writing();
        }
    }

    /// What a buffer, and so a mapping, holds: whole segments, as many as the longest burst has, and up to half of the
    /// widest window that the peer has announced (Linux: `tcp_xmit_size_goal`,
    /// `tcp_bound_to_half_wnd`).
    pub(super) fn buffer_goal(&self) -> u32 {
        let segment = self.segment_len();
        (self.path_mtu.bound_to_half_window(self.size_goal()) / segment).max(1) * segment
    }

    fn on_accepted(&mut self, bytes: u32) {
        debug_assert!(u64::from(bytes) <= self.offered, "no more is accepted than was offered");
        self.accepted += u64::from(bytes);
        self.end_deferral();
        if self.offered != u64::MAX {
            self.offered -= u64::from(bytes);
        }
        self.flow.write_seq = self.queue.write_seq().get();
    }

    /// What the queued data costs in the send buffer, bytes: each burst in the network is a buffer
    /// with an overhead of its own, so that bursts of two segments, as a slow pace makes them, cost
    /// a third more than their bytes; so is each that waits.
    #[inline(never)]
    pub(super) fn queued_memory(&self) -> u32 {
        let bytes = self.queue.write_seq().distance(self.scoreboard.una());
        if self.is_subflow && !self.settings.stack.subflow_counts_memory {
            return bytes;
        }
        bytes + (self.scoreboard.bursts_out() + self.queue.buffers()) * BURST_OVERHEAD
    }

    /// After an ACK, and after what it let out has left: is there room? True if the writer has written
    /// on.
    #[inline]
    pub(super) fn check_space(&mut self) -> bool {
        if std::mem::take(&mut self.space_check) {
            self.look_for_room();
        }
        std::mem::take(&mut self.writer_woken) && self.wake_writer()
    }

    /// The same after each burst of new data (Linux: `tcp_event_new_data_sent`).
    #[inline]
    pub(super) fn check_space_after_burst(&mut self) {
        if self.writer_blocked && (!self.is_subflow || self.settings.stack.subflow_grows_after_sending) {
            self.look_for_room();
        }
    }

    /// A full window needs no larger buffer (Linux: `tcp_should_expand_sndbuf`). A writer that blocks
    /// is woken once a third of the buffer is free (Linux: `sk_stream_write_space`); nothing more is
    /// looked for before it has run.
    #[inline(never)]
    fn look_for_room(&mut self) {
        if self.writer_woken {
            return;
        }
        if self.scoreboard.in_flight() < self.flow.cwnd {
            self.expand_sndbuf();
        }
        let queued = self.queued_memory();
        self.writer_woken = !self.is_subflow && self.sndbuf.saturating_sub(queued) >= queued >> 1;
    }

    /// The writer goes on; true if it has written.
    fn wake_writer(&mut self) -> bool {
        let accepted = self.accepted;
        self.fill_send_buffer();
        self.accepted != accepted
    }

    /// Two windows of segments with their overhead (more if the algorithm asks), up to `tcp_wmem`'s
    /// maximum.
    pub(crate) fn expand_sndbuf(&mut self) {
        let per_segment = memory_of_buffer(self.path_mtu.peer_mss().as_u32().max(self.flow.mss));
        let segments = self.flow.cwnd.max(self.settings.initial_cwnd.get()).max(self.flow.reordering + 1);
        let windows = self.cc.sndbuf_expand(&mut self.flow, None);
        let wanted = per_segment.saturating_mul(segments).saturating_mul(windows);
        self.sndbuf = self.sndbuf.max(wanted.min(self.settings.wmem[2].as_u32()));
    }
}
