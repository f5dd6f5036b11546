//! The receive window: what the buffer stands for, measured in memory, and the threshold up to which it is announced.

use super::{DEFAULT_SCALING_RATIO, Receiver};
use crate::stack::ReceiveCharge;
use polypath_base::Seq;
use polypath_wire::{Flags, Segment};

/// Memory of a received segment beside its payload, bytes: head 384, shared info 320, descriptor 256. Seen on 6.12: windows of up to 153/256 of
/// the buffer with segments of 1448 bytes, 231/256 with 8948, 93/256 with 548 (specs/notes/buffer-memory).
const SEGMENT_OVERHEAD: u32 = 960;

impl Receiver {
    /// Share of the buffer that may be announced: the rest is for the packets' overhead.
    #[inline]
    pub(super) fn win_from_space(&self, space: u32) -> u32 {
        ((u64::from(space) * u64::from(self.scaling_ratio)) >> 8) as u32
    }

    pub(super) fn space_from_win(&self, window: u64) -> u64 {
        (window << 8) / u64::from(self.scaling_ratio)
    }

    pub(super) fn free_window(&self) -> u32 {
        let waits = self.unread + self.out_of_order.bytes();
        match self.stack.rcv_charge {
            // Twice the bytes at half the memory: as many bytes of window.
            ReceiveCharge::Twice => self.win_from_space(self.rcvbuf).saturating_sub(waits),
            ReceiveCharge::Merged => self.win_from_space(self.rcvbuf.saturating_sub(rmem_charge(u64::from(waits)) as u32)),
        }
    }

    /// A segment came in its turn: how much of the memory it takes is payload is measured with the first and with each larger one.
    #[inline]
    pub(super) fn measure_segment(&mut self, len: u32) {
        if len <= self.segment_size {
            return;
        }
        self.segment_size = len.min(self.advertised_mss);
        let share = if self.stack.rcv_scaling_ratio { len * 256 / (len + SEGMENT_OVERHEAD) } else { DEFAULT_SCALING_RATIO };
        if share != self.scaling_ratio {
            self.scaling_ratio = share;
            self.window_clamp = self.win_from_space(self.rcvbuf);
            self.rcvq_space = self.rcvq_space.min(self.window_clamp);
        }
    }

    #[inline]
    pub(in crate::tcp) fn scaling_ratio(&self) -> u32 {
        self.scaling_ratio
    }

    /// Threshold up to which segments announce the window (Linux: `rcv_ssthresh`), and the largest that it may become, bytes.
    #[inline]
    pub(in crate::tcp) fn window_limits(&self) -> (u32, u32) {
        (self.rcv_ssthresh, self.window_clamp)
    }

    /// Subflows: the meta connection's buffer has grown, for a window of up to `clamp` bytes.
    pub(in crate::tcp) fn set_buffer(&mut self, rcvbuf: u32, clamp: u32) {
        (self.rcvbuf, self.window_clamp) = (rcvbuf, clamp);
    }

    /// Subflows: the meta connection announced this much beyond what has come.
    #[inline]
    pub(in crate::tcp) fn set_window(&mut self, window: u32) {
        self.window = (self.next + window).distance(self.acked);
    }

    /// Subflows: an ACK is due for two full segments, unless the meta connection lets it wait.
    #[inline]
    pub(in crate::tcp) fn full_frames_wait(&self) -> bool {
        self.ack_scheduled && self.next.distance(self.acked) > self.segment_size
    }

    /// An ACK is scheduled, and a reader that empties the buffer should send it.
    #[inline]
    pub(in crate::tcp) fn ack_pushed(&self) -> bool {
        self.ack_scheduled && self.ack_pushed
    }

    /// The window has grown: Linux acknowledges the segment that let it at once.
    #[inline]
    pub(in crate::tcp) fn quick_ack(&mut self) {
        self.quick |= 1;
        self.ack_now = true;
    }

    #[inline]
    pub(in crate::tcp) fn rtt_us(&self) -> u32 {
        self.rtt_us
    }

    /// A round trip took `ms`. The estimate is an average of eight, which the first begins. Where a shorter time is taken as it is, a queue's
    /// delay is not taken for the path's.
    pub(super) fn note_rtt(&mut self, ms: u32) {
        if ms == 0 && !self.stack.rcv_rtt_zero_samples {
            return;
        }
        let us = ms.clamp(1, 1 << 20) * 1000;
        let replaces = self.rtt_us == 0 || (self.stack.rcv_rtt_least && us < self.rtt_us);
        self.rtt_us = if replaces { us } else { self.rtt_us - (self.rtt_us >> 3) + (us >> 3) };
    }

    #[inline]
    pub(in crate::tcp) fn segment_size(&self) -> u32 {
        self.segment_size
    }

    pub(in crate::tcp) fn advertised_mss(&self) -> u32 {
        self.advertised_mss
    }

    #[inline]
    pub(in crate::tcp) fn window_left(&self) -> u32 {
        (self.acked + self.window).distance(self.next)
    }

    /// RFC 9293 section 3.10.7.4: some of the segment lies in the window.
    #[inline]
    pub(in crate::tcp) fn acceptable(&self, segment: &Segment) -> bool {
        if segment.seq == self.next {
            // In its turn: then only the window matters, which may have been overrun.
            return self.window_left() as i32 >= 0;
        }
        let end = segment.seq + segment.len + u32::from(segment.flags.has(Flags::FIN));
        let carries_something_new = segment.len == 0 || end.after(self.next);
        let beyond_window = segment.seq.after(self.next + self.window_left());
        !end.before(self.acked) && !beyond_window && carries_something_new
    }

    /// A sequence number lies in the window.
    pub(in crate::tcp) fn in_window(&self, seq: Seq) -> bool {
        !seq.before(self.acked) && !seq.after(self.next + self.window_left())
    }

    /// The window to announce now; its right edge never moves back (RFC 9293 section 3.8.6).
    #[inline]
    pub(super) fn select_window(&self) -> u32 {
        let mask = (1_u32 << self.scale) - 1;
        let free = self.free_window().min(self.rcv_ssthresh);
        let left = ((self.acked + self.window).distance(self.next) as i32).max(0) as u32;
        let wanted = free.max(left);
        let rounded = wanted.saturating_add(mask) & !mask;
        rounded.min(65_535 << self.scale)
    }

    #[inline]
    pub(in crate::tcp) fn window_field(&self) -> u16 {
        (self.window >> self.scale) as u16
    }

    /// RFC 7323 section 2.2: the window of a SYN is not scaled.
    pub(in crate::tcp) fn syn_window(&self) -> u16 {
        let space = self.win_from_space(self.rcvbuf).min(65_535);
        let mss = self.advertised_mss.max(1);
        ((space / mss).max(1) * mss).min(65_535) as u16
    }

    #[inline]
    pub(super) fn grow_rcv_ssthresh(&mut self, len: u32) {
        if self.rcv_ssthresh >= self.window_clamp {
            return;
        }
        let limit = self.window_clamp.min(self.free_window());
        if self.rcv_ssthresh < limit {
            self.rcv_ssthresh += (limit - self.rcv_ssthresh).min((2 * self.advertised_mss).max(2 * len));
            self.quick |= 1;
        }
    }
}

/// Memory that `bytes` take while they wait: neighbours are merged, some 16 segments into one, whose overhead they share. Windows while 1 to 4
/// segments of 1424 bytes waited in half of 128 KiB: 64512, 64000, 62976 and 62464 bytes, so the first takes 2304 and each of the others its
/// length.
#[inline]
pub(crate) const fn rmem_charge(bytes: u64) -> u64 {
    const FIRST: u64 = 880;
    const MERGED: u64 = 16 * 1424;
    if bytes == 0 { 0 } else { bytes + FIRST + bytes / MERGED * FIRST }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188, Stack};

    #[test]
    fn a_shorter_round_trip_counts_as_it_is_and_a_longer_one_by_an_eighth() {
        let estimates = |stack: &'static Stack| {
            let mut rx = Receiver::new(&Settings { stack, ..Settings::default() }, 1500);
            [80, 160, 72, 0].map(|ms| {
                rx.note_rtt(ms);
                rx.rtt_us()
            })
        };
        assert_eq!(estimates(&LINUX_6_12_117), [80_000, 90_000, 72_000, 72_000]);
        assert_eq!(
            estimates(&MPTCP_0_96_LINUX_5_4_188),
            [80_000, 90_000, 87_750, 76_907],
            "5.4 has the average alone, and a millisecond at least"
        );
    }

    #[test]
    fn the_share_of_payload_is_that_of_the_largest_segment() {
        // What Linux 6.12 announced of a buffer of 6 MiB, in 1/256 (specs/notes/buffer-memory).
        for (len, share) in [(8948, 231), (1448, 153), (1424, 152), (1348, 149), (1324, 148), (548, 93), (524, DEFAULT_SCALING_RATIO)] {
            let mut rx = Receiver::new(&Settings::default(), 9000);
            rx.start(Seq::new(1000));
            rx.measure_segment(len);
            assert_eq!(rx.scaling_ratio(), share, "{len}");
            assert_eq!(rx.window_clamp, rx.rcvbuf / 256 * share);
            rx.measure_segment(100);
            assert_eq!(rx.scaling_ratio(), share, "short segments tell nothing");
        }
    }
}
