//! What a meta connection reads and sets of its subflows, beside the public methods.

use super::timer::Timer;
use super::{Socket, cc};
use polypath_base::{Bytes, Duration, Instant, Segments, Seq, SmoothedRtt};
use polypath_wire::Segment;

impl Socket {
    /// Smoothed RTT; zero before the first sample.
    #[inline]
    pub(crate) fn smoothed_rtt(&self) -> SmoothedRtt {
        SmoothedRtt::from_eighths(self.tx.flow.srtt_us)
    }

    /// Variation of the RTT, at least the least retransmission timeout.
    #[inline]
    pub(crate) fn rttvar(&self) -> Duration {
        self.tx.rtt.variation()
    }

    /// Slow-start threshold.
    #[inline]
    pub(crate) fn ssthresh(&self) -> Segments {
        Segments::new(self.tx.flow.ssthresh)
    }

    /// Next sequence number expected of the peer.
    #[cfg(test)]
    pub(crate) fn receives_next(&self) -> polypath_base::Seq {
        self.rx.next()
    }

    /// Bytes that the peer's TCP has acknowledged.
    #[inline]
    pub(crate) fn bytes_acked(&self) -> u64 {
        self.tx.flow.bytes_acked
    }

    /// Counts a segment whose MPTCP option was not what it had to be.
    #[cold]
    pub(crate) fn note_rejected_option(&mut self) {
        self.rejected.rejected_mptcp += 1;
    }

    #[inline]
    pub(crate) fn timeouts(&self) -> u64 {
        self.tx.counters.timeouts
    }

    /// When the retransmission timer, which also serves probes and reordering, is due; `None` if it is off.
    #[inline]
    pub(crate) fn rtx_due(&self) -> Option<Instant> {
        Some(self.tx.timers.due(Timer::Retransmission)).filter(|&due| due != Instant::NEVER)
    }

    /// The writer of the meta connection waits for room: the send buffer may grow.
    pub(crate) fn set_writer_blocked(&mut self, blocked: bool) {
        self.tx.writer_blocked = blocked;
    }

    /// The congestion window has room, and there is not even a segment to send: Nagle's rule keeps less than one.
    #[inline]
    pub(crate) fn is_starved(&self) -> bool {
        self.tx.queue.unsent() < self.tx.flow.mss && self.tx.scoreboard.in_flight() < self.tx.flow.cwnd
    }

    /// The meta connection knows of a larger window than this subflow's last segment told.
    #[inline]
    pub(crate) fn raise_peer_window(&mut self, window: u32) {
        self.tx.snd_wnd = self.tx.snd_wnd.max(window);
    }

    /// The buffers that wait to be sent, and how many segments leave as one burst.
    #[inline]
    pub(crate) fn buffered(&mut self) -> polypath_sched::Buffered {
        polypath_sched::Buffered { buffers: self.tx.queue.buffers(), burst: Segments::new(self.burst_segments(None)) }
    }

    /// The window that the last segment announced for the meta connection: data up to there is acceptable.
    #[inline]
    pub(crate) fn set_announced_window(&mut self, window: u32) {
        self.rx.set_window(window);
    }

    /// What is left of the window that this subflow announced, bytes; nothing where a FIN came beyond it.
    #[inline]
    pub(crate) fn window_left(&self) -> u32 {
        self.rx.window_left_or_none()
    }

    /// An ACK is due for two full segments; on upstream's subflows the meta connection decides when it leaves.
    #[inline]
    pub(crate) fn full_frames_wait(&self) -> bool {
        self.rx.full_frames_wait()
    }

    /// A reader that empties the buffer sends the ACK that is scheduled, since no answer will carry it.
    #[inline]
    pub(crate) fn reader_sends_ack(&self) -> bool {
        self.rx.acks().reader_sends_it()
    }

    /// Share of payload in the memory of what came, in 1/256 (upstream).
    pub(crate) fn scaling_ratio(&self) -> u32 {
        self.rx.buffer().scaling_ratio()
    }

    /// Threshold up to which this subflow's segments announce the window, and the largest that it may become, bytes.
    #[inline]
    pub(crate) fn window_limits(&self) -> (u32, u32) {
        self.rx.buffer().window_limits()
    }

    /// The meta connection's buffer has grown, for a window of up to `clamp` bytes.
    #[cold]
    pub(crate) fn set_receive_buffer(&mut self, rcvbuf: u32, clamp: u32) {
        self.rx.buffer_mut().set_size(rcvbuf, clamp);
    }

    /// The window that this subflow's segments announce has grown by what just came.
    #[inline]
    pub(crate) fn quick_ack(&mut self) {
        self.rx.quick_ack();
    }

    /// The receiver's own estimate of the RTT, microseconds; 0 before the first.
    #[inline]
    pub(crate) fn receiver_rtt_us(&self) -> u32 {
        self.rx.buffer().rtt_us()
    }

    /// Largest segment received, bytes.
    #[inline]
    pub(crate) fn received_segment_size(&self) -> u32 {
        self.rx.buffer().segment_size()
    }

    /// MSS that this end announced less the timestamps, bytes.
    #[inline]
    pub(crate) fn advertised_mss(&self) -> u32 {
        self.rx.buffer().advertised_mss() - self.timestamp_bytes()
    }

    /// Window announced on the SYN.
    pub(crate) fn syn_window(&self) -> u16 {
        self.rx.buffer().syn_window()
    }

    /// The meta connection adds so many bytes of options to data segments from now on.
    #[cold]
    pub(crate) fn set_data_options(&mut self, bytes: u32) {
        self.tx.path_mtu.set_mptcp_options(Bytes::from_u32(bytes));
        self.invalidate_template();
        self.reserve_sack_options();
        self.update_mss();
    }

    /// The connection is plain TCP after all: no MPTCP options any more.
    pub(crate) fn end_mptcp(&mut self) {
        self.tx.path_mtu.set_mptcp_options(Bytes::ZERO);
        self.ack_option_bytes = 0;
        self.update_mss();
    }

    /// How often the SYN or SYN/ACK has been sent again.
    pub(crate) fn syn_timeouts(&self) -> u32 {
        self.handshake.timeouts()
    }

    /// The segment, which was made last, is of the burst that begins with the first byte of data, or a pure ACK before it.
    pub(crate) fn is_of_first_burst(&self, segment: &Segment) -> bool {
        let offset = segment.seq.distance(self.iss + 1);
        let is_new = segment.seq + segment.len == self.tx.snd_nxt();
        offset == 0 || (segment.len > 0 && is_new && offset < self.tx.burst.length * self.tx.segment_len())
    }

    /// Bytes of the burst that begins with the first byte of data.
    pub(crate) fn first_burst_bytes(&self) -> u32 {
        let written = self.tx.snd_nxt().distance(self.iss + 1) + self.tx.queue.unsent();
        written.min(self.tx.burst.length * self.tx.segment_len())
    }

    /// Where a segment of the peer lies in its sequence space: 1 is the first byte after the SYN.
    #[inline]
    pub(crate) fn offset_of_peer(&self, seq: Seq) -> u32 {
        self.rx.offset_of(seq)
    }

    /// The out-of-tree stack's penalty for holding up the others: half the window, and half the threshold if past it.
    pub(crate) fn penalise(&mut self) {
        let prior = self.tx.flow.cwnd;
        self.tx.flow.cwnd = (prior >> 1).max(1);
        if prior >= self.tx.flow.ssthresh {
            self.tx.flow.ssthresh = (self.tx.flow.ssthresh >> 1).max(2);
        }
    }

    /// What coupled algorithms see of this subflow.
    #[inline]
    pub(crate) fn sibling(&self, usable: bool) -> cc::Sibling {
        cc::Sibling {
            bytes_since_loss: self.tx.loss.bytes_since_loss(self.tx.flow.bytes_acked),
            bytes_between_losses: self.tx.loss.bytes_between_losses(),
            priv_word: self.tx.cc.private_word(),
            cwnd: self.tx.flow.cwnd,
            ssthresh: self.tx.flow.ssthresh,
            srtt_us: self.tx.flow.srtt_us,
            mss: self.tx.flow.mss,
            ca_state: self.tx.flow.ca_state,
            in_recovery: self.tx.flow.ca_state >= super::CaState::Recovery,
            usable: usable && self.tx.flow.srtt_us > 0,
            reserved: [0; 5],
        }
    }
}
