//! What the guest gives back, in the folder `results`: one JSON file and three files of fixed-size
//! records.
//!
//! `result.json` is [`RunResult`]. `sockets.bin` has a [`SOCKET_RECORD`]-byte record a sample and
//! socket, `queues.bin` a [`QUEUE_RECORD`]-byte record a sample and discipline with a link,
//! `datagrams.bin` a [`DATAGRAM_RECORD`]-byte record a datagram that arrived, flow by flow in the
//! order of arrival. All little-endian. Python reads both with a numpy dtype (`polypath.engines`),
//! so nothing here interprets a `tcp_info`.

use polypath_base::Error;
use serde::Serialize;
use std::collections::BTreeMap;

/// time_ns u64, flow u32, subflow u32 (0 is the initial one; numbered as they appear), flags u32
/// (MPTCP_SUBFLOW_FLAG_*, 0 for TCP), state u32 (TCP_ESTABLISHED = 1, ...), length of the kernel's
/// tcp_info u32, padding u32, then tcp_info, zero-filled to 288 bytes.
pub const SOCKET_RECORD: usize = 32 + 288;

/// time_ns u64, link u32, a_to_b u32, packets waiting u32, padding u32, bytes waiting u64, packets
/// dropped so far u64.
pub const QUEUE_RECORD: usize = 40;

/// time of arrival since the run's start u64, time of sending u64, number u32, flow u32.
pub const DATAGRAM_RECORD: usize = 24;

#[derive(Clone, Debug, Default, Serialize)]
pub struct RunResult {
    /// `uname -r`.
    pub kernel: String,
    /// What went wrong in words, if anything did; then nothing else can be relied on.
    pub error: Option<String>,
    /// Whose fault that is: `caller` or `machine`.
    pub error_kind: Option<&'static str>,
    /// Machine time from the guest's first instruction to the run's start.
    pub setup_ns: u64,
    /// Time at which the run ended, since its start.
    pub ended_ns: u64,
    /// How much later than planned the latest sample of sockets was; 0 in virtual time.
    pub late_ns: u64,
    pub flows: Vec<FlowResult>,
    /// By namespace: counters of /proc/net/netstat and /proc/net/snmp that are not 0, as
    /// "TcpExtTCPTimeouts".
    pub counters: BTreeMap<String, BTreeMap<String, i64>>,
    pub disciplines: Vec<DisciplineResult>,
    /// In the order of the plan.
    pub tunnels: Vec<TunnelResult>,
    /// Frames that a capture missed, by file; all 0 in a run that can be relied on.
    pub capture_losses: BTreeMap<String, u64>,
}

impl RunResult {
    /// The run came to nothing.
    pub fn fail(&mut self, error: &Error) {
        (self.error, self.error_kind) = (Some(error.to_string()), Some(error.kind().name()));
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct FlowResult {
    pub name: String,
    /// When the server accepted it, since the run's start.
    pub accepted_ns: Option<u64>,
    /// When connect() returned at the client.
    pub connected_ns: Option<u64>,
    /// Why it failed, in words ("connect: Connection refused").
    pub error: Option<String>,
    /// (time since the run's start, bytes so far) after each write that the sender's socket took,
    /// at most one a millisecond and the last.
    pub written: Vec<(u64, u64)>,
    /// The same for the reader's reads.
    pub read: Vec<(u64, u64)>,
    /// When the reader had read everything and saw the end.
    pub finished_ns: Option<u64>,
    /// Datagrams that were sent; those that arrived stand in `datagrams.bin`.
    pub datagrams_sent: u64,
    /// Those of them that left more than a millisecond after their time.
    pub datagrams_late: u64,
    /// (sent, answered) of each request, since the run's start.
    pub responses: Vec<(u64, u64)>,
    pub subflows: Vec<SubflowResult>,
    /// MPTCP: whether it fell back to TCP, and `mptcp_info` of both ends as the kernel gives it
    /// (hexadecimal), last seen.
    pub fallback: bool,
    pub client_mptcp_info: Option<String>,
    pub server_mptcp_info: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct SubflowResult {
    /// "10.0.0.1:40000".
    pub source: String,
    pub destination: String,
    /// Congestion control that the kernel names for it.
    pub cc: String,
    /// First sample in which it was established.
    pub established_ns: Option<u64>,
    pub flags: u32,
    /// Its last tcp_info, hexadecimal: a subflow that is closed keeps its counters.
    pub tcp_info: String,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct TunnelResult {
    pub name: String,
    /// In the order of the plan.
    pub ends: Vec<TunnelEndResult>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct TunnelEndResult {
    /// What `polypath-tunnel status --json` says of this end.
    pub status: serde_json::Value,
    /// Packets that the kernel dropped because the device's queue was full.
    pub queue_drops: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct DisciplineResult {
    pub namespace: String,
    pub device: String,
    pub packets: u64,
    pub bytes: u64,
    pub drops: u64,
    /// Packets that its policer dropped.
    pub policed: u64,
    /// Packets that a managed queue marked (ECN).
    pub marks: u64,
    /// Most packets that waited at the time of any sample.
    pub max_queue_packets: u64,
}
