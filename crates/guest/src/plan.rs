//! The plan of a run: namespaces, veth pairs, addresses, routes, queueing disciplines, endpoints,
//! flows and what to sample, as plain data.
//!
//! Made from a study's scenario by Python (`polypath.planner`); carried out by the guest in the
//! linux engine's machine. It holds nothing that still has to be decided. Times are nanoseconds
//! since the run's start (all set up, nothing sent yet), rates bits per second, sizes bytes.
//! Unknown fields are refused.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this format: [`Plan::FORMAT`].
    pub format: u32,
    /// When the run ends at the latest.
    pub duration_ns: u64,
    /// Interval of the samples of every socket, 1 to 100 ms.
    pub sample_ns: u64,
    /// Of the whole machine, before any namespace is made: what is written to which file
    /// ("proc/sys/net/..."). Only a machine of one's own gets them.
    #[serde(default)]
    pub machine: Vec<(String, String)>,
    pub namespaces: Vec<Namespace>,
    #[serde(rename = "cables")]
    pub veth_pairs: Vec<VethPair>,
    #[serde(default)]
    pub redirects: Vec<Redirect>,
    #[serde(default)]
    pub tunnels: Vec<Tunnel>,
    #[serde(default)]
    pub neighbours: Vec<Neighbour>,
    #[serde(default)]
    pub routes: Vec<Route>,
    #[serde(default)]
    pub disciplines: Vec<Discipline>,
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// Changes of disciplines while the run goes on, ascending in time.
    #[serde(default)]
    pub changes: Vec<Change>,
    pub flows: Vec<Flow>,
    #[serde(default)]
    pub captures: Vec<Capture>,
}

impl Plan {
    pub const FORMAT: u32 = 1;
}

/// A network namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    pub name: String,
    /// Addresses of its loopback device.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Written to /proc/sys in this order, by dotted name, before any device exists.
    #[serde(default)]
    pub sysctl: Vec<(String, String)>,
    /// MPTCP limits; none: the kernel's own.
    #[serde(default)]
    pub limits: Option<Limits>,
}

/// `ip mptcp limits`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub subflows: u32,
    pub add_addr_accepted: u32,
}

/// A veth pair. All offloads are off, so that links carry packets of MTU size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VethPair {
    pub a: Port,
    pub b: Port,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    pub namespace: String,
    pub device: String,
    /// "02:00:00:00:00:01".
    pub mac: String,
    pub mtu: u32,
    /// Address and length of its prefix; none for a port that only passes frames on.
    #[serde(default)]
    pub address: Option<(String, u8)>,
}

/// Every frame that enters the namespace by `from` leaves it by `to`, through `to`'s discipline: a
/// place on a link for a second one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    pub namespace: String,
    pub from: String,
    pub to: String,
}

/// A multipath tunnel: `polypath-tunnel` at both ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// As the daemons' files have it.
    pub name: String,
    /// The daemon's program.
    pub program: String,
    pub ends: [TunnelEnd; 2],
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelEnd {
    pub namespace: String,
    /// The TUN device that the daemon makes.
    pub device: String,
    /// The daemon's file, as TOML.
    pub file: String,
}

/// A permanent entry, so that no run asks for addresses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    pub namespace: String,
    pub device: String,
    pub address: String,
    pub mac: String,
}

/// To one address through a neighbour, or through a device that has none, such as a tunnel's. With
/// `source`, only for packets from this address: the guest gives each (namespace, source) a
/// table of its own and a rule `from SOURCE`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub namespace: String,
    pub to: String,
    #[serde(default)]
    pub via: Option<String>,
    pub device: String,
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub metric: Option<u32>,
}

/// The root discipline of a device: netem, or a rate with a managed queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discipline {
    pub namespace: String,
    pub device: String,
    #[serde(default)]
    pub netem: Option<Netem>,
    #[serde(default)]
    pub shaper: Option<Shaper>,
    /// Before the discipline.
    #[serde(default)]
    pub policer: Option<Policer>,
    /// Which direction of which link of the scenario it stands for: its counters and queue length
    /// go there; none: they are not kept.
    #[serde(default)]
    pub link: Option<LinkDirection>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkDirection {
    /// Index into the scenario's links.
    pub index: u32,
    pub a_to_b: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Netem {
    /// Packets.
    pub limit: u32,
    #[serde(default)]
    pub delay_ns: u64,
    /// Uniform in plus or minus this much; with `delays`, what their values multiply.
    #[serde(default)]
    pub jitter_ns: u64,
    /// The table from which the kernel draws the share of the jitter that a packet gets on top of
    /// the delay.
    #[serde(default)]
    pub delays: Vec<DelayShare>,
    /// Bits per second; 0: as fast as they come.
    #[serde(default)]
    pub rate: u64,
    /// Added to each packet's length when it is timed; the length has 14 bytes of Ethernet header
    /// already.
    #[serde(default)]
    pub overhead: i32,
    #[serde(default)]
    pub loss: Loss,
}

/// A value that stands in netem's table several times.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayShare {
    /// In 8192ths of the jitter.
    pub value: i16,
    pub count: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    #[default]
    None,
    /// Each packet alone, with this probability.
    Random { probability: f64 },
    /// `loss gemodel`: probabilities of leaving good and bad, and of losing in each.
    GilbertElliott { good_to_bad: f64, bad_to_good: f64, loss_good: f64, loss_bad: f64 },
}

/// An MPTCP endpoint of the in-kernel path manager.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub namespace: String,
    pub address: String,
    pub device: String,
    #[serde(default)]
    pub subflow: bool,
    #[serde(default)]
    pub signal: bool,
    #[serde(default)]
    pub backup: bool,
    #[serde(default)]
    pub fullmesh: bool,
    #[serde(default)]
    pub laminar: bool,
    /// Where peers open further subflows to it, if it is not the port of the first: only of one
    /// that is announced.
    #[serde(default)]
    pub port: Option<u16>,
    /// Removed this long after the first flow of its namespace was established.
    #[serde(default)]
    pub remove_at_ns: Option<u64>,
}

/// From this time on a device's discipline has other parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub at_ns: u64,
    pub namespace: String,
    pub device: String,
    #[serde(default)]
    pub netem: Option<Netem>,
    #[serde(default)]
    pub shaper: Option<Shaper>,
}

/// A token bucket that drops what finds too few tokens: `tc police`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// At which tokens come, bits per second.
    pub rate: u64,
    /// Tokens that the bucket holds, bytes.
    pub burst: u64,
    /// Added to each packet's length when it is counted; the length has 14 bytes of Ethernet header
    /// already.
    #[serde(default)]
    pub overhead: u16,
}

/// A token bucket of one packet, with what manages its queue.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shaper {
    /// Bits per second.
    pub rate: u64,
    /// Added to each packet's length when it is timed; the length has 14 bytes of Ethernet header
    /// already.
    #[serde(default)]
    pub overhead: u16,
    /// The longest packet with its Ethernet header: so much may leave at once.
    pub burst: u32,
    pub aqm: Aqm,
}

/// Times in nanoseconds, limits of RED in bytes and of the others in packets.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Aqm {
    /// A plain queue: what does not fit is dropped at its tail.
    Fifo {
        limit: u32,
    },
    Codel {
        limit: u32,
        target_ns: u64,
        interval_ns: u64,
        ecn: bool,
    },
    FqCodel {
        limit: u32,
        target_ns: u64,
        interval_ns: u64,
        flows: u32,
        quantum: u32,
        ecn: bool,
    },
    Pie {
        limit: u32,
        target_ns: u64,
        update_ns: u64,
        ecn: bool,
    },
    /// Percent of the bytes are the classic queue's where both wait.
    #[serde(rename = "dualpi2")]
    DualPi2 {
        limit: u32,
        target_ns: u64,
        update_ns: u64,
        step_ns: u64,
        step_packets: u32,
        coupling: u8,
        classic_percent: u8,
        any_ect: bool,
    },
    /// `packet_ns`: what a packet of mean length takes.
    Red {
        limit: u32,
        min: u32,
        max: u32,
        probability: f64,
        weight_log: u8,
        packet_ns: u64,
        ecn: bool,
    },
}

/// One connection, or a stream of datagrams: the client opens it and sends, the server reads and
/// throws away, or answers; of a download the client opens it and reads, and the server sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub name: String,
    pub mptcp: bool,
    /// Datagrams with so much payload instead of a connection, bytes; 0: a connection.
    #[serde(default)]
    pub datagram_bytes: u32,
    /// The server sends, as soon as it has accepted, and the client reads: only of a connection
    /// whose data go one way.
    #[serde(default)]
    pub download: bool,
    /// Congestion control by its name in the kernel; set on the socket of whoever sends where it
    /// differs from the namespace's own. Datagrams have none.
    #[serde(default)]
    pub cc: String,
    pub client: String,
    pub server: String,
    pub client_address: String,
    pub server_address: String,
    /// The server's port; differs between flows.
    pub port: u16,
    pub start_ns: u64,
    pub app: App,
    #[serde(default)]
    pub reading: Reading,
    /// Out-of-tree MPTCP has these for each socket, by the kernel's names; a kernel of another kind
    /// is given none.
    #[serde(default)]
    pub path_manager: Option<String>,
    /// The server's: one that announces nothing, unless the client is to reach its further
    /// addresses.
    #[serde(default)]
    pub server_path_manager: Option<String>,
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Programs in place of the guest's own two ends.
    #[serde(default)]
    pub programs: Option<Programs>,
}

impl Flow {
    /// The namespace in which the sender's sockets are: of requests the client's.
    pub(crate) fn sender(&self) -> &str {
        if self.download { &self.server } else { &self.client }
    }

    /// Whether the server sends data at all.
    pub(crate) fn server_sends(&self) -> bool {
        self.download || matches!(self.app, App::Requests { .. })
    }
}

/// The two ends of a flow as programs of the machine that the guest runs on; each is started in its
/// namespace, and what it prints goes to NUMBER-client.json or NUMBER-server.json in the results,
/// NUMBER being the flow's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    pub client: Vec<String>,
    /// Started before the run begins; listens at the flow's port.
    pub server: Vec<String>,
    /// The client's port of the connection that carries the data: such programs may open others.
    pub client_port: u16,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    /// Sends as fast as the socket accepts, for a time.
    Bulk { duration_ns: u64 },
    /// Sends this many bytes, then closes.
    Transfer { bytes: u64 },
    /// Sends at `bits_per_s` (or as fast as the socket accepts) for `on_ns`, rests for `off_ns`,
    /// and so on.
    OnOff { on_ns: u64, off_ns: u64, duration_ns: u64, bits_per_s: Option<u64> },
    /// Sends a request, waits for the whole response, pauses, and so on for a time.
    Requests { request_bytes: u64, response_bytes: u64, pause_ns: u64, duration_ns: u64 },
}

/// How the reader reads: the server, of a download the client.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// SO_RCVLOWAT: reads once this many bytes wait; 0: at once.
    #[serde(default)]
    pub low_water: u32,
    /// Sleeps this long after each read; 0: blocks until there is something.
    #[serde(default)]
    pub sleep_ns: u64,
}

/// Packets that a device sends and receives, as a pcapng with the machine's time stamps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    pub namespace: String,
    pub device: String,
    /// Name of the file in the results.
    pub file: String,
    /// Bytes kept of each packet.
    pub snaplen: u32,
    /// Packets kept; later ones are only counted.
    pub packets: u64,
}
