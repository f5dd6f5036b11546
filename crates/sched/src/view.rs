//! The words of schedulers: what they see, and what they answer.

use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, SmoothedRtt};

pub use crate::subflow_set::{MAX_SUBFLOWS, SubflowSet};

/// Most data in one buffer of the kernel (Linux: 64 KiB less the largest TCP header).
pub const BUFFER: Bytes = Bytes::new(65_535 - 320);

/// What a scheduler sees of one subflow and its path: `struct pp_path_view` of
/// cc/include/pp_sched.h.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PathView {
    /// Zero while unknown.
    pub pacing_rate: Rate,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// Enqueued on the subflow and not sent yet.
    pub unsent: Bytes,
    /// Memory in its send queue, sent or not (Linux: `sk_wmem_queued`).
    pub queued: Bytes,
    /// Variation of the RTT in whole microseconds, never less than the least retransmission timeout
    /// (Linux: `rttvar_us`).
    pub rttvar: Duration,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: SmoothedRtt,
    /// Congestion window.
    pub cwnd: Segments,
    /// What is in flight on it.
    pub in_flight: Segments,
    /// Slow-start threshold.
    pub ssthresh: Segments,
    /// Buffers of which something waits; counted only where `burst` is more than zero.
    pub buffers: u32,
    /// What the subflow sends as one burst, where the room in the window is counted in the buffers
    /// that wait. Zero where it is counted in bytes.
    pub burst: Segments,
    /// Joined and able to send, and not given up as stale or potentially failed.
    pub usable: bool,
    /// To be used only when no other subflow can be (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// Its send buffer takes more.
    pub room: bool,
    /// In the Loss state after a retransmission timeout.
    pub in_loss: bool,
    /// It comes before an older path whose RTT is the same.
    pub wins_ties: bool,
}

/// What a scheduler sees of the data that wait, in data sequence numbers: `struct pp_data_queue`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DataQueueView {
    /// First byte the peer has not acknowledged.
    pub una: DataSeq,
    /// First byte never sent on any subflow.
    pub next: DataSeq,
    /// End of the data accepted from the application.
    pub end: DataSeq,
    /// End of the window the peer advertised.
    pub window_end: DataSeq,
    /// When the scheduler is asked.
    pub now: Instant,
}

/// Which bytes go where.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the path.
    pub subflow: usize,
    /// First byte to send there: [`DataQueueView::next`] for new data, less for bytes that went
    /// elsewhere before.
    pub from: DataSeq,
    /// How much, before the scheduler is asked again.
    pub limit: Limit,
}

/// How much of the data goes at once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many bytes.
    Bytes(Bytes),
    /// The buffer of the sender that has the byte at [`Choice::from`], all of it, whatever the
    /// window.
    Buffer,
}

impl Limit {
    /// How many bytes; none for a buffer, whose length the sender knows.
    #[inline]
    pub fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Buffer => None,
        }
    }
}

impl DataQueueView {
    /// Nothing to send.
    pub const EMPTY: Self = {
        let start = DataSeq::new(0);
        Self { una: start, next: start, end: start, window_end: start, now: Instant::ZERO }
    };

    /// What waits for its first transmission.
    #[inline]
    pub fn waiting(&self) -> Bytes {
        Bytes::new(self.end.distance(self.next))
    }

    /// What the peer's window leaves for new data.
    #[inline]
    pub fn window_left(&self) -> Bytes {
        Bytes::new(self.window_end.max(self.next).distance(self.next))
    }
}
