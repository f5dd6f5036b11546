//! What a meta connection reads and sets of its subflows, beside the public methods.

use super::{Socket, State};
use polypath_base::{Bytes, Instant, Seq};
use polypath_wire::{MAX_OPTIONS, MpOptions, Segment};
use std::collections::VecDeque;

/// Segments formed before the data of the segment counted for which they leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct BeforeData {
    pub(crate) segments: VecDeque<Segment>,
    /// Threshold and clamp of the window at that time.
    pub(crate) window_limits: (u32, u32),
}

impl Socket {
    /// Counts a segment whose MPTCP option was not what it had to be.
    #[cold]
    pub(crate) fn note_rejected_option(&mut self) {
        self.acceptance.rejections.rejected_mptcp += 1;
    }

    /// What the segment that came last says of MPTCP counts: it was taken, or has ended the
    /// connection (Linux: `mptcp_incoming_options` in `tcp_data_queue` and `tcp_reset`).
    #[inline]
    pub(crate) fn reads_options(&self) -> bool {
        !self.acceptance.has_dropped() || self.state == State::Closed
    }

    /// The RST that waits, if there is one, says why.
    #[cold]
    pub(crate) fn explain_reset(&mut self, options: MpOptions) {
        self.reset.explain(options);
    }

    /// The window that this subflow's segments announce has grown by what just came.
    #[inline]
    pub(crate) fn quick_ack(&mut self) {
        self.rx.quick_ack();
    }

    /// MSS that this end announced less the timestamps, bytes.
    #[inline]
    pub(crate) fn advertised_mss(&self) -> u32 {
        self.rx.buffer().advertised_mss() - self.timestamps.bytes()
    }

    /// When the first SYN left.
    pub(crate) fn began_at(&self) -> Instant {
        self.handshake.began_at()
    }

    /// The meta connection adds so many bytes of options to data segments from now on.
    #[cold]
    pub(crate) fn set_data_options(&mut self, bytes: u32) {
        debug_assert!(bytes + self.timestamps.bytes() <= MAX_OPTIONS, "a header has 40 bytes of options (RFC 9293 section 3.1)");
        self.tx.set_mptcp_options(Bytes::from_u32(bytes));
        self.invalidate_template();
        self.reserve_sack_options();
        self.tx.update_mss();
    }

    /// The connection is plain TCP after all: no MPTCP options any more.
    pub(crate) fn end_mptcp(&mut self) {
        self.tx.set_mptcp_options(Bytes::ZERO);
        self.ack_option_bytes = 0;
        self.tx.update_mss();
    }

    /// Segments that leave before the data of the segment that came last counts: the connection adds
    /// its options to each at once.
    #[cold]
    pub(crate) fn formed_before_data(&mut self) -> &mut BeforeData {
        self.before_data.get_or_insert_default()
    }

    /// There are some.
    #[inline]
    pub(crate) fn has_formed(&self) -> bool {
        self.before_data.as_ref().is_some_and(|formed| !formed.segments.is_empty())
    }

    /// The time between SYN/ACK and third ACK is not taken; timestamps still tell a round trip.
    pub(crate) fn measure_no_handshake(&mut self) {
        self.handshake.measure_nothing();
    }

    /// How often the SYN or SYN/ACK has been sent again.
    pub(crate) fn syn_timeouts(&self) -> u32 {
        self.handshake.timeouts()
    }

    /// The segment, which was made last, is of the burst that begins with the first byte of data,
    /// or a pure ACK before it.
    pub(crate) fn is_of_first_burst(&self, segment: &Segment) -> bool {
        let offset = segment.seq.distance(self.iss + 1);
        let is_new = segment.seq + segment.len == self.tx.snd_nxt();
        offset == 0 || (segment.len > 0 && is_new && offset < self.tx.burst_bytes())
    }

    /// Where a segment of the peer lies in its sequence space: 1 is the first byte after the SYN.
    #[inline]
    pub(crate) fn offset_of_peer(&self, seq: Seq) -> u32 {
        self.rx.offset_of(seq)
    }
}
