//! What one run simulates, as plain data: the only input of the simulator. Written by Python as JSON.
//!
//! Times are nanoseconds, rates bits per second, sizes bytes. Unknown fields are refused.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub seed: u64,
    /// Simulated time at which the run stops at the latest.
    pub duration_ns: u64,
    /// Interval of the series; `None` keeps no series. Means of the metrics are taken from samples every 100 ms in any case.
    #[serde(default)]
    pub series_interval_ns: Option<u64>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub flows: Vec<Flow>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    /// Routers forward; hosts only send and receive.
    #[serde(default)]
    pub router: bool,
    /// Addresses that belong to no link (a loopback address that every path reaches).
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Settings of the endpoints on this host by their Linux names ("net.ipv4.tcp_rmem": [4096, 131072, 16777216]); see `transport::Settings`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, serde_json::Value>,
}

/// A link joins two nodes; each direction is a chain of elements, passed in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub name: String,
    pub a: InterfaceSpec,
    pub b: InterfaceSpec,
    #[serde(default)]
    pub a_to_b: Vec<Element>,
    #[serde(default)]
    pub b_to_a: Vec<Element>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    pub node: String,
    pub address: String,
    /// MTU of this interface: bounds what the node itself sends and the MSS it announces; a router answers longer packets by ICMP.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
}

fn default_mtu() -> u32 {
    1500
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Element {
    /// A transmitter of constant rate behind a drop-tail queue.
    Rate {
        bits_per_s: u64,
        queue: QueueLimit,
        /// Bytes added to each IP packet when it is timed and counted.
        #[serde(default = "default_framing")]
        framing_bytes: u32,
        /// Time that each packet spends in the queue at least, its place taken: the delay of a netem that has both `delay` and `rate`.
        #[serde(default)]
        hold_ns: u64,
        /// Later rates, by time; ascending.
        #[serde(default)]
        changes: Vec<Change<u64>>,
        /// What keeps the queue short; none: a full queue refuses packets.
        #[serde(default)]
        aqm: Option<Aqm>,
    },
    Delay {
        delay_ns: u64,
        /// Uniform in plus or minus this much.
        #[serde(default)]
        jitter_ns: u64,
        /// Whether jitter may reorder packets, as netem's does.
        #[serde(default)]
        reorder: bool,
        #[serde(default)]
        changes: Vec<Change<u64>>,
    },
    Loss(Loss),
    /// A transmitter of which every chance to send was recorded; after the last one they begin anew.
    Trace {
        /// Milliseconds since the trace's start, ascending; of equal ones each is a chance.
        chances_ms: Vec<u64>,
        bytes: u32,
        queue: QueueLimit,
        framing_bytes: u32,
    },
    /// The link layer tries again what fails on the air, and keeps the order.
    Retry {
        probability: f64,
        delay_ns: u64,
        attempts: u32,
    },
    /// Packets longer than this do not pass.
    Mtu {
        bytes: u32,
        oversize: Oversize,
    },
    /// Nothing passes during these spans `[from, to)`.
    Down {
        spans_ns: Vec<[u64; 2]>,
    },
}

/// Active queue management. `ecn`: packets that are able are marked instead of dropped.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Aqm {
    /// Floyd and Jacobson 1993, on bytes.
    Red { min_bytes: u64, max_bytes: u64, probability: f64, weight_log: u32, mean_packet_bytes: u32, ecn: bool },
    /// RFC 8289.
    Codel { target_ns: u64, interval_ns: u64, ecn: bool },
    /// RFC 8290.
    FqCodel { target_ns: u64, interval_ns: u64, flows: u32, quantum_bytes: u32, ecn: bool },
    /// RFC 8033.
    Pie { target_ns: u64, update_ns: u64, ecn: bool },
}

fn default_framing() -> u32 {
    14
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change<T> {
    pub at_ns: u64,
    pub to: T,
}

/// Room of a queue, the packet in transmission included (as netem's `limit`).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    Packets(u64),
    Bytes(u64),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum Loss {
    Bernoulli {
        probability: f64,
        #[serde(default)]
        changes: Vec<Change<f64>>,
    },
    /// Two-state chain, stepped once a packet: probability of leaving good and bad, and of losing in each.
    GilbertElliott { good_to_bad: f64, bad_to_good: f64, loss_good: f64, loss_bad: f64 },
    /// The packets with these numbers are lost, counted from 1 in this direction; with `data_only`, only packets with payload count.
    Packets {
        numbers: Vec<u64>,
        #[serde(default)]
        data_only: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oversize {
    /// Dropped; the sender hears ICMP "fragmentation needed".
    Icmp,
    /// Dropped, and nobody hears.
    Silent,
    /// Split when the packet allows it (DF off), else dropped with ICMP.
    Fragment,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub name: String,
    pub transport: Transport,
    /// Congestion control of the sender, by name; none for datagrams.
    #[serde(default)]
    pub cc: Option<String>,
    /// The client opens the connection and sends.
    pub client: String,
    pub server: String,
    /// Source and destination of the first subflow; default: the node's first address.
    #[serde(default)]
    pub client_address: Option<String>,
    #[serde(default)]
    pub server_address: Option<String>,
    #[serde(default)]
    pub start_ns: u64,
    pub app: App,
    /// Payload of each datagram, bytes.
    #[serde(default = "default_datagram")]
    pub datagram_bytes: u32,
    #[serde(default)]
    pub mptcp: Mptcp,
    /// Paths fixed by hand; others take the shortest path that leaves by the source address's link.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Window of the goodput and of the means, in time since the connection was established at the server.
    pub window_ns: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Tcp,
    Mptcp,
    /// Datagrams: an application at a rate alone.
    Udp,
}

fn default_datagram() -> u32 {
    1400
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    /// Sends as fast as the socket accepts, for a time.
    Bulk { duration_ns: u64 },
    /// Sends this many bytes, then closes; the completion time is when the server has read everything.
    Transfer { bytes: u64 },
    /// Sends at `bits_per_s` (or as fast as the socket accepts) for `on_ns`, rests for `off_ns`, and so on.
    OnOff {
        on_ns: u64,
        off_ns: u64,
        duration_ns: u64,
        #[serde(default)]
        bits_per_s: Option<u64>,
    },
    /// Sends a request, waits for the whole response, pauses, and so on for a time.
    Requests { request_bytes: u64, response_bytes: u64, pause_ns: u64, duration_ns: u64 },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mptcp {
    #[serde(default)]
    pub profile: Profile,
    #[serde(default)]
    pub scheduler: Option<String>,
    #[serde(default)]
    pub path_manager: PathManager,
}

impl Default for Mptcp {
    fn default() -> Self {
        Self { profile: Profile::V1, scheduler: None, path_manager: PathManager::default() }
    }
}

/// Which MPTCP stack is modelled; plain TCP follows it too (v0 is Linux 5.4's TCP, v1 is 6.12's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Out-of-tree MPTCP 0.96 on Linux 5.4.
    V0,
    /// Upstream MPTCP of Linux 6.12.
    #[default]
    V1,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PathManager {
    /// A subflow from every address of the client to every address of the server that is announced.
    #[default]
    Fullmesh,
    /// `subflows` subflows over the first path, by different source ports.
    Ndiffports { subflows: u8 },
    /// A subflow from each of these client addresses to the server's first address.
    Endpoints { addresses: Vec<Endpoint> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub address: String,
    #[serde(default)]
    pub backup: bool,
    /// Time since the connection was established at which the address goes away (REMOVE_ADDR).
    #[serde(default)]
    pub remove_at_ns: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub from: String,
    pub to: String,
    /// Names of the links in order from the client to the server.
    pub via: Vec<String>,
}
