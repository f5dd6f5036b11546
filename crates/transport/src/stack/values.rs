//! The types of properties for which yes and no or a number are not enough, and how each value is
//! told to a reader.

pub use polypath_wire::mptcp::Version as MptcpVersion;

use polypath_base::Duration;

/// What some timers wait longer (Linux: `TCP_TIMEOUT_MIN`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TimeoutMin {
    /// So many ticks of the kernel's clock.
    Ticks(u64),
    /// This long, whatever the clock's tick.
    Time(Duration),
}

impl TimeoutMin {
    /// The time, with ticks of this length.
    pub(crate) fn on(self, tick: Duration) -> Duration {
        match self {
            Self::Ticks(count) => tick * count,
            Self::Time(time) => time,
        }
    }
}

/// How fast proportional rate reduction (RFC 6937 section 3) lets segments out once fewer than
/// `ssthresh` are in flight.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PrrBound {
    /// As many as the ACK delivered; by the slow-start bound while retransmissions arrive and none
    /// of them is lost.
    ByRetransmissions,
    /// As many as recovery has had delivered and not sent; one more where the cumulative ACK
    /// advances and nothing new is lost.
    ByProgress,
}

/// What data that waits in the receive buffer takes of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReceiveCharge {
    /// Twice its bytes.
    Twice,
    /// Its bytes and the heads of the buffers into which the kernel merges segments.
    Merged,
}

/// How large the connection's send buffer is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MetaSendBuffer {
    /// The largest that the sum of the subflows' buffers has been, up to the maximum of `tcp_wmem`.
    LargestSum,
    /// As large as the largest buffer of a subflow has been.
    Largest,
    /// The sum of the subflows' buffers, and the minimum of `tcp_wmem`.
    Sum,
}

/// In what order data goes to subflows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PushOrder {
    /// Buffer by buffer: each leaves as far as it may before the scheduler is asked for the next.
    BufferByBuffer,
    /// Choice by choice of the scheduler, each in whole fragments; nothing is ever reinjected piece
    /// by piece.
    Bursts,
}

/// How long the connection's own retransmission timer waits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MetaRetransmission {
    /// After twice the longest retransmission timeout of a subflow.
    TwiceLongestTimeout,
    /// What was left of the subflows' retransmission timers, the longest of them, when the
    /// scheduler was last asked; the least timeout if none ran.
    LastTimer,
}

/// A value in words.
pub(super) trait Words {
    fn words(&self) -> String;
}

impl Words for bool {
    fn words(&self) -> String {
        if *self { "yes" } else { "no" }.into()
    }
}

impl Words for &str {
    fn words(&self) -> String {
        format!("`{self}`")
    }
}

impl Words for u8 {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl Words for u32 {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl Words for usize {
    fn words(&self) -> String {
        self.to_string()
    }
}

impl Words for Duration {
    fn words(&self) -> String {
        match self.as_micros() {
            0 => "none".into(),
            us if us % 1000 == 0 => format!("{} ms", us / 1000),
            us => format!("{us} µs"),
        }
    }
}

impl<T: Words> Words for Option<T> {
    fn words(&self) -> String {
        self.as_ref().map_or("never".into(), Words::words)
    }
}

impl Words for TimeoutMin {
    fn words(&self) -> String {
        match self {
            Self::Ticks(count) => format!("{count} ticks"),
            Self::Time(time) => time.words(),
        }
    }
}

impl Words for PrrBound {
    fn words(&self) -> String {
        match self {
            Self::ByRetransmissions => "what the ACK delivered",
            Self::ByProgress => "what recovery had delivered and not sent",
        }
        .into()
    }
}

impl Words for ReceiveCharge {
    fn words(&self) -> String {
        match self {
            Self::Twice => "twice its bytes",
            Self::Merged => "bytes and the heads of merged buffers",
        }
        .into()
    }
}

impl Words for MptcpVersion {
    fn words(&self) -> String {
        match self {
            Self::V0 => "0 (RFC 6824)",
            Self::V1 => "1 (RFC 8684)",
        }
        .into()
    }
}

impl Words for MetaSendBuffer {
    fn words(&self) -> String {
        match self {
            Self::LargestSum => "the subflows' largest sum so far",
            Self::Largest => "the largest of a subflow",
            Self::Sum => "the subflows' sum, and the minimum of `tcp_wmem`",
        }
        .into()
    }
}

impl Words for PushOrder {
    fn words(&self) -> String {
        match self {
            Self::BufferByBuffer => "buffer by buffer, each as far as it may",
            Self::Bursts => "choice by choice, in whole fragments of up to 32 KiB",
        }
        .into()
    }
}

impl Words for MetaRetransmission {
    fn words(&self) -> String {
        match self {
            Self::TwiceLongestTimeout => "twice a subflow's longest timeout",
            Self::LastTimer => "what was left of the subflows' timers when the scheduler was last asked",
        }
        .into()
    }
}
