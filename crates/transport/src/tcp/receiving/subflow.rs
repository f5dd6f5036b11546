//! What a meta connection reads and sets of a subflow's receiver.

use super::Receiver;
use crate::receive_buffer::Truesize;
use polypath_base::DataSeq;
use polypath_wire::{Dss, Segment};

impl Receiver {
    /// A mapping has come: data that waits without one gets its numbers, from the place `at` on.
    #[cold]
    pub(crate) fn map_waiting(&mut self, at: u32, dss: &Dss) {
        let before = at.wrapping_sub(dss.ssn);
        let Some(left) = u32::from(dss.map_len).checked_sub(before) else { return };
        let start = self.first + at.wrapping_sub(1);
        self.out_of_order().map(start, left, dss.dsn + u64::from(before));
    }

    /// The packets of what has been delivered go to the meta connection: the data sequence number,
    /// length and memory of each.
    #[cold]
    pub(crate) fn take_packets(&mut self, mut take: impl FnMut(DataSeq, u32, Truesize)) {
        let end = self.next - u32::from(self.finished);
        let mut start = end - self.delivered.bytes();
        let mut from = start;
        let (first, more) = self.delivered.pieces();
        for &(dsn, len) in std::iter::once(&first).chain(more) {
            let piece_end = start + len;
            while from.before(piece_end)
                && let Some((packet_end, memory)) = self.packets.pop(end)
            {
                let to = if packet_end.after(piece_end) { piece_end } else { packet_end };
                take(dsn + u64::from(from.distance(start)), to.distance(from), memory);
                from = packet_end;
            }
            start = piece_end;
        }
        self.packets.read(end);
    }

    /// Next byte expected of the peer, as an offset in its sequence space: 1 is the first after the
    /// SYN.
    pub(crate) fn next_offset(&self) -> u32 {
        self.offset_of(self.next())
    }

    /// Next sequence number expected of the peer.
    #[cfg(test)]
    pub(crate) fn receives_next(&self) -> polypath_base::Seq {
        self.next()
    }

    /// The window that the last segment announced for the meta connection: data up to there is
    /// acceptable.
    #[inline]
    pub(crate) fn set_announced_window(&mut self, window: u32) {
        self.set_window(window);
    }

    /// The connection's window ends `by` bytes later than this subflow knew: true if a segment that
    /// needs it has made the subflow's end later too.
    #[cold]
    pub(crate) fn lets_window_grow(&mut self, segment: &Segment, by: u64) -> bool {
        let left = self.window_left_or_none();
        if segment.len < left || segment.seq.after(self.next() + left) {
            return false;
        }
        self.set_window(left.saturating_add(u32::try_from(by).unwrap_or(u32::MAX)));
        true
    }

    /// A reader that empties the buffer sends the ACK that is scheduled, since no answer will carry
    /// it.
    #[inline]
    pub(crate) fn reader_sends_ack(&self) -> bool {
        self.acks().reader_sends_it() && self.out_of_order.is_empty()
    }

    /// Behind the FIN that leaves next there is an ACK.
    #[cold]
    pub(crate) fn acknowledge_behind_fin(&mut self) {
        self.acks_mut().follow_fin();
    }

    /// An ACK is due for two full segments, unless the meta connection lets it wait.
    #[inline]
    pub(crate) fn full_frames_wait(&self) -> bool {
        self.acks.is_scheduled() && self.next.distance(self.acked) > self.buffer.segment_size()
    }

    /// An ACK leaves at once.
    #[inline]
    pub(crate) fn is_ack_due(&self) -> bool {
        self.acks().is_due()
    }

    /// Share of payload in the memory of what came, in 1/256 (Linux).
    pub(crate) fn scaling_ratio(&self) -> u32 {
        self.buffer().scaling_ratio()
    }

    /// Threshold up to which this subflow's segments announce the window, and the largest that it
    /// may become, bytes.
    #[inline]
    pub(crate) fn window_limits(&self) -> (u32, u32) {
        self.buffer().window_limits()
    }

    /// The limits of the window become these; returns those that they replace.
    #[cold]
    pub(crate) fn replace_window_limits(&mut self, limits: (u32, u32)) -> (u32, u32) {
        self.buffer_mut().replace_window_limits(limits)
    }

    /// The meta connection's buffer has grown, for a window of up to `clamp` bytes.
    #[cold]
    pub(crate) fn set_receive_buffer(&mut self, rcvbuf: u32, clamp: u32) {
        self.buffer_mut().set_size(rcvbuf, clamp);
    }

    /// The connection reads at most `most` bytes in a round trip, and its buffer has grown.
    #[cold]
    pub(crate) fn follow_growth(&mut self, most: u64) {
        let beyond = self.out_of_order.reach(self.next());
        self.buffer_mut().follow(most, beyond);
    }

    /// RTT and share of payload for the connection's samples, once for a window of data that came in
    /// its turn: `segment` is the last.
    #[inline]
    pub(crate) fn takes_sample(&mut self, segment: &Segment) -> Option<(u32, u32)> {
        let window = self.window;
        self.buffer_mut().takes_sample(segment.seq + segment.len, window)
    }

    /// The receiver's own estimate of the RTT, microseconds; 0 before the first.
    #[inline]
    pub(crate) fn receiver_rtt_us(&self) -> u32 {
        self.buffer().rtt_us()
    }

    /// MSS that this end announced, from the handshake's end on less the timestamps (Linux: `advmss`).
    #[inline]
    pub(crate) fn advmss(&self) -> u32 {
        self.buffer().advmss()
    }

    /// Largest segment received, bytes.
    #[inline]
    pub(crate) fn received_segment_size(&self) -> u32 {
        self.buffer().segment_size()
    }

    /// The window of the handshake, bytes.
    pub(crate) fn first_window(&self) -> u32 {
        self.first_window
    }
}
