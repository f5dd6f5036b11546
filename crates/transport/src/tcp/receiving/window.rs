//! The window that a receiver announces, and what it accepts by it.

use super::Receiver;
use polypath_base::{Instant, Seq};
use polypath_wire::{Flags, Segment};

impl Receiver {
    /// Data came in its turn; `rto`: a gap longer than this is a pause.
    #[inline]
    pub(in crate::tcp) fn on_arrival(&mut self, now: Instant, rto: polypath_base::Duration) {
        self.acks.on_arrival(now, rto, self.window, self.buffer.segment_size());
    }

    /// Any segment carries an ACK; true if timers for one were pending. The window of a subflow's
    /// segment is the connection's, which calls [`Receiver::set_window`].
    #[inline]
    pub(in crate::tcp) fn on_ack_sent(&mut self) -> bool {
        let had_timers = self.acks.on_sent();
        let edge = self.acked + self.window;
        // A subflow keeps what is left of the window that it announced.
        self.window = if self.is_subflow { self.window_left_or_none() } else { self.select_window() };
        self.room_at_ack = None;
        self.acked = self.next;
        debug_assert!(
            self.is_subflow || !(self.acked + self.window).before(edge),
            "the right edge of the window never moves back (RFC 9293 section 3.8.6)"
        );
        had_timers
    }

    /// Subflows: the meta connection announced this much beyond what has come.
    #[inline]
    pub(in crate::tcp) fn set_window(&mut self, window: u32) {
        debug_assert!(self.is_subflow, "a plain connection chooses its own window");
        self.window = (self.next + window).distance(self.acked);
    }

    /// The window has grown: Linux acknowledges that at once.
    #[inline]
    pub(in crate::tcp) fn quick_ack(&mut self) {
        self.acks.on_window_grown();
        self.acks.ack_now();
    }

    /// What is left of the window that was announced, bytes; wraps where it is overrun.
    #[inline]
    pub(super) fn window_left(&self) -> u32 {
        (self.acked + self.window).distance(self.next)
    }

    /// The same; nothing where the peer has overrun it or a FIN came beyond it.
    #[inline]
    pub(crate) fn window_left_or_none(&self) -> u32 {
        (self.window_left() as i32).max(0) as u32
    }

    /// RFC 9293 section 3.10.7.4: some of the segment lies in the window.
    #[inline]
    pub(in crate::tcp) fn acceptable(&self, segment: &Segment) -> bool {
        if segment.seq == self.next {
            // In its turn: then only the window matters, which may have been overrun.
            return self.window_left() as i32 >= 0;
        }
        let end = segment.seq + segment.len + u32::from(segment.flags.has(Flags::FIN));
        !end.before(self.acked) && !segment.seq.after(self.next + self.window_left())
    }

    /// Nothing of the segment's data and FIN is new.
    pub(in crate::tcp) fn has_taken(&self, segment: &Segment) -> bool {
        !(segment.seq + segment.len + u32::from(segment.flags.has(Flags::FIN))).after(self.next)
    }

    /// A sequence number lies in the window.
    pub(in crate::tcp) fn in_window(&self, seq: Seq) -> bool {
        !seq.before(self.acked) && !seq.after(self.next + self.window_left())
    }

    /// The window to announce now; its right edge never moves back (RFC 9293 section 3.8.6).
    #[inline]
    pub(super) fn select_window(&self) -> u32 {
        let mask = (1_u32 << self.scale) - 1;
        let usable = self.room_at_ack.unwrap_or_else(|| self.room());
        let offered = if self.scale == 0 { self.whole_segments(usable) } else { usable };
        let wanted = offered.max(self.window_left_or_none());
        wanted.saturating_add(mask) & !mask
    }

    /// Without a scale the window is of whole segments, and stays as it is while that is less than
    /// one off (Linux: `__tcp_select_window`).
    fn whole_segments(&self, usable: u32) -> u32 {
        let segment = self.buffer.segment_size();
        if self.window > usable || self.window + segment <= usable { usable - usable % segment } else { self.window }
    }

    /// The field tells less where the window exceeds it (Linux: `tcp_select_window`).
    #[inline]
    pub(in crate::tcp) fn window_field(&self) -> u16 {
        (self.window >> self.scale).min(u32::from(u16::MAX)) as u16
    }
}
