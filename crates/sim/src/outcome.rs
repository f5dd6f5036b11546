//! What a run gives back: metrics and series as plain columns. Rates in bits per second, times in
//! nanoseconds.
//!
//! # Adding a column of a series
//!
//! 1. A line in `series!`; `Unit` in `crates/base/src/columns.rs` says how the name must end.
//! 2. Its value in `probe.rs` (`SubflowRow`; an endpoint tells it by `Probe` of the transport) or
//!    in `network.rs` (`LinkRow`).
//! 3. `_subflow_series` and `_link_series` in `python/polypath/engines/_measure.py`, `_host.py` and
//!    `tests/fake_engine.py`: the column, of nulls where the engine does not know it.
//! 4. Digests, `make setup` and `tools/figures.py docs/reference/results.md`, as for a counter
//!    (`crates/transport/src/counters.rs`).

use polypath_base::{Column, counters, series};
pub use polypath_link::LinkCounters;
use polypath_transport::{Counters, Rejections, ReorderStats};
use polypath_tunnel::{FecCounters, ReorderCounters};
use serde::{Serialize, Serializer};
use std::fmt;

#[derive(Clone, Default, Serialize)]
pub struct Outcome {
    pub flows: Vec<FlowOutcome>,
    pub links: Vec<LinkOutcome>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<TunnelOutcome>,
    pub events: u64,
    /// Data segments that reached their receiver.
    pub delivered_packets: u64,
    pub simulated_ns: u64,
    #[serde(skip)]
    pub subflow_series: SubflowSeries,
    #[serde(skip)]
    pub link_series: LinkSeries,
}

impl fmt::Debug for Outcome {
    /// Without the tunnels where there are none: the digests of known scenarios are made from this
    /// text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flows, links, tunnels, events, delivered_packets, simulated_ns, subflow_series, link_series } = self;
        let mut text = f.debug_struct("Outcome");
        text.field("flows", flows).field("links", links);
        if !tunnels.is_empty() {
            text.field("tunnels", tunnels);
        }
        text.field("events", events).field("delivered_packets", delivered_packets).field("simulated_ns", simulated_ns);
        text.field("subflow_series", subflow_series).field("link_series", link_series).finish()
    }
}

/// The packets of a place where a scenario captures.
#[derive(Clone, Default)]
pub struct CaptureFile {
    /// Of the place: node and link.
    pub name: String,
    /// A pcapng file.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.bytes.len())
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct FlowOutcome {
    pub name: String,
    /// Time at which the server accepted the connection; `None` if it never did.
    pub established_ns: Option<u64>,
    /// Bytes that the server's application read within the window, over its length.
    pub goodput_receiver_bps: f64,
    /// Bytes that the client's socket accepted within the window (from the connection's start if it
    /// begins at 0), over its length.
    pub goodput_sender_bps: f64,
    pub bytes_received: u64,
    pub bytes_accepted: u64,
    /// From the connection's establishment at the server until the server had read everything;
    /// transfers only.
    pub completion_ns: Option<u64>,
    /// First time after which a moving mean of one second of goodput stays within 10 % of the
    /// window's mean.
    pub transient_ns: Option<u64>,
    pub fallback: bool,
    /// Data given to another subflow too, bytes.
    pub reinjected_bytes: u64,
    /// From when the client's socket accepted a byte until the server's application read it, of the
    /// bytes read within the window; `None` if there were none, and for datagrams.
    pub byte_delay: Option<Spread>,
    /// `None` for datagrams.
    pub disorder: Option<DisorderOutcome>,
    /// Time the whole connection could not send because of the peer's window, because its send
    /// buffer was full, or had nothing to send.
    pub rwnd_limited_ns: u64,
    pub sndbuf_limited_ns: u64,
    pub app_limited_ns: u64,
    /// What became of datagrams; `None` for a connection.
    pub datagrams: Option<DatagramOutcome>,
    /// Of an application that asks and waits for answers.
    pub responses: Option<ResponseOutcome>,
    pub subflows: Vec<SubflowOutcome>,
    /// Bytes read by the server's application at multiples of 100 ms since the start of the run.
    pub received_100ms: Vec<u64>,
    /// Bytes accepted by the client's socket at the same times.
    pub accepted_100ms: Vec<u64>,
    /// Bytes that waited at the server for what comes before them, at the same times.
    pub out_of_order_100ms: Vec<u64>,
}

/// How what the server received was out of order; of an MPTCP connection, between its subflows. All
/// but the two `max_` within the window.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DisorderOutcome {
    /// Bytes that came ahead of their turn, over those that were read.
    pub share: Option<f64>,
    /// Bytes by which pieces came ahead of the next byte expected: mean over those that did, and
    /// the most there ever was.
    pub mean_ahead: Option<f64>,
    pub max_ahead: u64,
    /// Bytes that waited: mean over time, and the most there ever were.
    pub mean_waiting: Option<f64>,
    pub max_waiting: u64,
    /// Time in which something waited.
    pub blocked_ns: u64,
    /// How long a byte waited, mean over all that were read.
    pub mean_wait_ns: Option<f64>,
}

impl DisorderOutcome {
    /// What happened between two moments, `seconds` apart, while `read` bytes were read; `end` is
    /// of the whole run.
    pub(crate) fn new([before, after, end]: [&ReorderStats; 3], read: u64, seconds: f64) -> Self {
        let over = |sum: u128, count: f64| (count > 0.0).then(|| sum as f64 / count);
        let byte_ns = after.byte_ns - before.byte_ns;
        Self {
            share: over(u128::from((after.bytes - before.bytes).get()), read as f64),
            mean_ahead: over(after.sum_ahead - before.sum_ahead, (after.pieces - before.pieces) as f64),
            max_ahead: end.most_ahead.get(),
            mean_waiting: over(byte_ns, seconds * 1e9),
            max_waiting: end.most_waiting.get(),
            blocked_ns: (after.blocked - before.blocked).as_nanos(),
            mean_wait_ns: over(byte_ns, read as f64),
        }
    }
}

/// Datagrams of a flow; all but the first three of what arrived within the window.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DatagramOutcome {
    pub sent: u64,
    pub received: u64,
    /// Datagrams that arrived behind one that was sent later.
    pub reordered: u64,
    /// Share of the datagrams up to the last that arrived (RFC 3550 appendix A.3); `None` if none
    /// did.
    pub loss: Option<f64>,
    /// Mean difference between the delays of one datagram and the next to arrive.
    pub jitter_ns: Option<f64>,
    /// From sending to arrival.
    pub delay: Option<Spread>,
}

/// Requests that were sent within the window and answered.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ResponseOutcome {
    pub count: u64,
    /// From sending a request until its whole response was read.
    pub time: Option<Spread>,
}

/// How times are spread, nanoseconds. A percentile is the smallest value that so many percent do
/// not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct SubflowOutcome {
    pub source: String,
    pub destination: String,
    pub established_ns: Option<u64>,
    /// Acknowledged bytes within the window over its length.
    pub acked_bps: f64,
    /// Of the client, which is the sender.
    #[serde(flatten, serialize_with = "counters")]
    pub counters: Counters,
    /// Of both ends.
    #[serde(flatten, serialize_with = "rejections")]
    pub rejected: Rejections,
    /// Means and maxima of 100 ms samples within the window.
    pub mean_srtt_us: f64,
    pub mean_cwnd: f64,
    pub max_cwnd: u32,
    pub min_rtt_us: u32,
    pub mss: u32,
    pub pmtu: u32,
}

fn counters<S: Serializer>(counters: &Counters, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Counters::COLUMNS.iter().map(Column::raw).zip(counters.values()))
}

fn rejections<S: Serializer>(rejections: &Rejections, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Rejections::COLUMNS.iter().map(Column::raw).zip(rejections.values()))
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkOutcome {
    pub name: String,
    /// True for the direction from `a` to `b`.
    pub a_to_b: bool,
    #[serde(flatten)]
    pub counters: LinkCounters,
}

counters! {
    /// One direction of a tunnel: the device of its sender, and how many packets waited at its
    /// receiver.
    pub struct TunnelCounters {
        queue_drops: Packets, "packets dropped because the queue of the tunnel device was full";
        max_queue_packets: Packets, "longest that the queue of the tunnel device ever was";
        blocked: Time, "time in which the sender waited for room in the socket buffer of a path";
        unsent_packets: Packets, "packets dropped because all paths were down";
        mtu: Bytes, "longest packet that the tunnel device takes, at the end of the run";
        max_held_packets: Packets, "most packets that ever waited at the receiver for an earlier one";
    }
}

counters! {
    /// One direction of a path of a tunnel: what its sender sent, and what came of it.
    pub struct TunnelPathCounters {
        packets_sent: Packets, "packets sent in the tunnel";
        bytes_sent: Bytes, "their bytes, without the tunnel's headers";
        packets_received: Packets, "packets that came out at the other end";
        bytes_received: Bytes, "their bytes, without the tunnel's headers";
        packets_lost: Packets, "packets that were dropped on the path";
        packets_late: Packets, "packets that came when a later one had been given on";
        keepalives_sent: Packets, "keepalives sent";
        keepalives_received: Packets, "keepalives that came";
        went_down: Times, "times that the sender found the path down";
        mtu: Bytes, "longest packet that the path passes, with all headers, as found at the end of the run; 0: it was not searched for";
    }
}

/// What a reorder rule counts, as columns.
pub const REORDER_COLUMNS: &[Column] = ReorderCounters::COLUMNS;

/// What forward error correction counts, as columns: those of a tunnel without it have no values.
pub const FEC_COLUMNS: &[Column] = FecCounters::COLUMNS;

/// One direction of a tunnel.
#[derive(Clone, Default, Serialize)]
pub struct TunnelOutcome {
    pub name: String,
    /// True for the direction from `a` to `b`.
    pub a_to_b: bool,
    #[serde(flatten, serialize_with = "tunnel_counters")]
    pub counters: TunnelCounters,
    /// Of the receiver.
    #[serde(flatten, serialize_with = "reorder_counters")]
    pub reorder: ReorderCounters,
    /// What was sent is of the sender, all else of the receiver.
    #[serde(flatten, skip_serializing_if = "Option::is_none", serialize_with = "fec_counters")]
    pub fec: Option<FecCounters>,
    pub paths: Vec<TunnelPathOutcome>,
}

impl fmt::Debug for TunnelOutcome {
    /// Without error correction where there is none: see [`Outcome`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, a_to_b, counters, reorder, fec, paths } = self;
        let mut text = f.debug_struct("TunnelOutcome");
        text.field("name", name).field("a_to_b", a_to_b).field("counters", counters).field("reorder", reorder);
        if let Some(fec) = fec {
            text.field("fec", fec);
        }
        text.field("paths", paths).finish()
    }
}

/// One direction of a path of a tunnel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TunnelPathOutcome {
    pub source: String,
    pub destination: String,
    #[serde(flatten, serialize_with = "tunnel_path_counters")]
    pub counters: TunnelPathCounters,
}

/// What one end of a tunnel has counted.
#[derive(Clone, Debug)]
pub(crate) struct TunnelEndOutcome {
    pub(crate) counters: TunnelCounters,
    pub(crate) reorder: ReorderCounters,
    pub(crate) fec: Option<FecCounters>,
    pub(crate) paths: Vec<TunnelPathCounters>,
}

impl TunnelOutcome {
    /// From what both ends have counted; `paths` are source and destination of each path.
    pub(crate) fn new(name: &str, a_to_b: bool, sender: &TunnelEndOutcome, receiver: &TunnelEndOutcome, paths: Vec<[String; 2]>) -> Self {
        let ends = sender.paths.iter().zip(&receiver.paths);
        let paths = ends.zip(paths).map(|((sent, came), [source, destination])| {
            let counters = TunnelPathCounters {
                packets_received: came.packets_received,
                bytes_received: came.bytes_received,
                packets_late: came.packets_late,
                keepalives_received: came.keepalives_received,
                ..*sent
            };
            TunnelPathOutcome { source, destination, counters }
        });
        let counters = TunnelCounters { max_held_packets: receiver.counters.max_held_packets, ..sender.counters };
        let fec = sender.fec.zip(receiver.fec).map(|(sent, came)| FecCounters { parities_sent: sent.parities_sent, ..came });
        Self { name: name.to_owned(), a_to_b, counters, reorder: receiver.reorder, fec, paths: paths.collect() }
    }
}

fn tunnel_counters<S: Serializer>(counters: &TunnelCounters, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(TunnelCounters::COLUMNS.iter().map(Column::raw).zip(counters.values()))
}

fn tunnel_path_counters<S: Serializer>(counters: &TunnelPathCounters, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(TunnelPathCounters::COLUMNS.iter().map(Column::raw).zip(counters.values()))
}

fn reorder_counters<S: Serializer>(counters: &ReorderCounters, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(ReorderCounters::COLUMNS.iter().map(Column::raw).zip(counters.values()))
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn fec_counters<S: Serializer>(counters: &Option<FecCounters>, serializer: S) -> Result<S::Ok, S::Error> {
    let counters = counters.unwrap_or_default();
    serializer.collect_map(FecCounters::COLUMNS.iter().map(Column::raw).zip(counters.values()))
}

series! {
    /// One row a sample and subflow.
    pub struct SubflowSeries of SubflowRow {
        time_ns: u64 = Nanoseconds, "time since the start of the run";
        flow: u32 = Index, "the connection";
        subflow: u32 = Number, "number of the subflow, from 0";
        cwnd: u32 = Segments, "congestion window";
        ssthresh: u32 = Segments, "slow-start threshold; null as long as it is infinite";
        srtt_us: u32 = Microseconds, "smoothed round-trip time, as Linux's tcp_info has it";
        rttvar_us: u32 = Microseconds, "its mean deviation, as Linux's tcp_info has it";
        min_rtt_us: u32 = Microseconds, "smallest round-trip time of the last five minutes";
        in_flight: u32 = Segments, "segments in the network";
        bytes_acked: u64 = Bytes, "payload acknowledged so far";
        bytes_received: u64 = Bytes, "payload that had arrived at the receiver, each byte once, in order or not: the goodput of a subflow";
        retransmissions: u32 = Segments, "segments sent again so far";
        timeouts: u32 = Times, "retransmission timeouts so far";
        pacing_rate: u64 = BytesPerSecond, "pacing rate";
        delivery_rate: u64 = BytesPerSecond, "measured delivery rate";
        rto_us: u32 = Microseconds, "retransmission timeout";
        reordering: u32 = Segments, "by how many segments packets may be late before they count as lost";
        mss: u32 = Bytes, "payload of a full segment";
        ca_state: u8 = Number, "0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss";
    }
}

series! {
    /// One row a sample and link direction that has a queue.
    pub struct LinkSeries of LinkRow {
        time_ns: u64 = Nanoseconds, "time since the start of the run";
        link: u32 = Index, "the direction of a link";
        queue_packets: u32 = Packets, "the queue at that time";
        queue_bytes: u64 = Bytes, "the queue at that time";
        drops: u64 = Packets, "packets dropped by the queue so far";
    }
}
