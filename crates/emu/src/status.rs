//! How the emulator fares, as plain data; what a status file holds.

use polypath_link::LinkCounters;
use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Status {
    pub(crate) pid: u32,
    /// The emulator has ended in good order.
    pub(crate) ended: bool,
    /// Time 0 of the links' changes, ns of CLOCK_MONOTONIC.
    pub(crate) origin_ns: u64,
    /// Since then, ns.
    pub(crate) at_ns: u64,
    pub(crate) late_limit_ns: u64,
    /// Processor time that carrying packets took, ns.
    pub(crate) cpu_ns: u64,
    /// One of the directions is not to be trusted.
    pub(crate) untrusted: bool,
    pub(crate) directions: Vec<DirectionStatus>,
}

/// One direction of a link since the start.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DirectionStatus {
    pub(crate) link: String,
    pub(crate) a_to_b: bool,
    #[serde(flatten)]
    pub(crate) counters: LinkCounters,
    /// In the link now.
    pub(crate) held: u64,
    /// Lost and no part of the model: the emulator did not read in time; it had no memory; the
    /// packet came longer than the device's MTU.
    pub(crate) missed: u64,
    pub(crate) overflow: u64,
    pub(crate) cut: u64,
    /// Not taken by the device at the other end, which is down.
    pub(crate) refused: u64,
    /// How much later than the model says packets left.
    pub(crate) late_median_us: f64,
    pub(crate) late_p99_us: f64,
    pub(crate) late_max_us: f64,
    /// Late beyond the limit, or lost something that the model does not lose.
    pub(crate) untrusted: bool,
}

/// The queues of a direction at multiples of an interval, the first at time 0.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Series {
    pub(crate) link: String,
    pub(crate) a_to_b: bool,
    /// Packets and bytes that waited, framing included, and packets refused so far; nothing where
    /// there is no queue.
    pub(crate) samples: Vec<(u32, u64, u64)>,
}
