//! What one run simulates, as plain data: the only input of the simulator. Written by Python as
//! JSON.
//!
//! Links and their elements are described where they are built, in `polypath_link`. Times are
//! nanoseconds, rates bits per second, sizes bytes. Unknown fields are refused.

use polypath_base::{Bytes, Duration, Instant, Rate};
use polypath_link::LinkSpec;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub seed: u64,
    /// Simulated time at which the run stops at the latest.
    #[serde(rename = "duration_ns")]
    pub duration: Duration,
    /// Interval of the series; `None` keeps no series. Means of the metrics are taken from samples
    /// every 100 ms in any case.
    #[serde(rename = "series_interval_ns", default)]
    pub series_interval: Option<Duration>,
    pub nodes: Vec<Node>,
    pub links: Vec<LinkSpec>,
    /// Tunnels over these links.
    #[serde(default)]
    pub tunnels: Vec<Tunnel>,
    pub flows: Vec<Flow>,
    /// Places whose packets are written down.
    #[serde(default)]
    pub captures: Vec<Capture>,
}

/// A multipath GRE-in-UDP tunnel between two nodes. It joins them as a link does, by a device at
/// each end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// No link and no other tunnel has it.
    pub name: String,
    pub a: TunnelEnd,
    pub b: TunnelEnd,
    pub paths: Vec<TunnelPath>,
    /// MTU of the devices; `None`: what the narrowest interface on the paths leaves.
    #[serde(default)]
    pub mtu: Option<Bytes>,
    /// The MTU is searched for, path by path (RFC 8899); `mtu` is not given then.
    #[serde(default)]
    pub mtu_search: bool,
    /// The MSS of SYNs that pass is lowered to what the MTU leaves.
    #[serde(default)]
    pub clamp_mss: bool,
    #[serde(default)]
    pub distribution: Distribution,
    /// Packets that take each turn.
    #[serde(default = "default_batch")]
    pub batch: u32,
    pub reorder: Reorder,
    #[serde(rename = "keepalive_ns", default = "default_keepalive")]
    pub keepalive: Duration,
    /// A path on which the peer's keepalives have not come for so long is down.
    #[serde(rename = "dead_time_ns", default = "default_dead_time")]
    pub dead_time: Duration,
    /// Data are signs of life too.
    #[serde(default)]
    pub data_count: bool,
    /// RFC 2890's key.
    #[serde(default)]
    pub key: Option<u32>,
    /// Port at both ends of all paths, of UDP.
    #[serde(default = "default_port")]
    pub port: u16,
    /// Packets that wait in the device of each end at most.
    #[serde(default = "default_queue_packets")]
    pub queue_packets: u32,
    /// The socket buffer of each path, which holds packets until they have left the end's own
    /// interface; `None`: no end ever waits.
    #[serde(rename = "send_buffer_bytes", default)]
    pub send_buffer: Option<Bytes>,
    /// Packets that each end has sent before the run: they decide the number and the turn of the
    /// first.
    #[serde(default)]
    pub packets_before: u32,
    /// What brings lost packets back.
    #[serde(default)]
    pub fec: Option<Fec>,
}

/// See `polypath_tunnel::FecConfig`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fec {
    pub data: u8,
    pub parity: u8,
    #[serde(rename = "timeout_ns")]
    pub timeout: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelEnd {
    pub node: String,
    /// Of the device.
    pub address: String,
}

/// A path of a tunnel runs between an address of each end's node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelPath {
    pub a: String,
    pub b: String,
    #[serde(default = "default_weight")]
    pub weight: u32,
}

/// Which path a packet takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Packet by packet, by weight.
    #[default]
    Turns,
    /// Flow by flow, by weight.
    Flows,
    /// Packet by packet, on the path on which it arrives first, and no path gets more than it
    /// carries.
    Earliest,
}

/// See `polypath_tunnel::ReorderConfig`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reorder {
    Off,
    Mpt {
        window: u32,
        #[serde(rename = "max_delay_ns")]
        max_delay: Duration,
    },
    Fixed {
        #[serde(rename = "timeout_ns")]
        timeout: Duration,
        capacity: u32,
    },
    Adaptive {
        #[serde(rename = "offset_ns")]
        offset: Duration,
        #[serde(rename = "cap_ns")]
        cap: Duration,
        capacity: u32,
    },
    Equalised {
        #[serde(rename = "cap_ns")]
        cap: Duration,
        capacity: u32,
    },
    Progress {
        #[serde(rename = "max_delay_ns")]
        max_delay: Duration,
        capacity: u32,
    },
}

const fn default_keepalive() -> Duration {
    Duration::from_secs(5)
}

const fn default_dead_time() -> Duration {
    Duration::from_secs(11)
}

const fn default_port() -> u16 {
    polypath_wire::mpt::UDP_PORT
}

/// Linux's for a TUN device (`TUN_READQ_SIZE`).
const fn default_queue_packets() -> u32 {
    500
}

const fn default_weight() -> u32 {
    1
}

fn default_batch() -> u32 {
    1
}

/// Packets that a node sends to a link and gets from it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    pub node: String,
    pub link: String,
    /// What is kept of each packet.
    pub snaplen: Bytes,
    /// Packets kept; later ones are only counted.
    pub packets: u64,
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
    /// The kernel of this host, by a name of `transport::stack`; `None` is Linux 6.12.
    #[serde(default)]
    pub kernel: Option<String>,
    /// How its endpoints search for a path's MTU, by a name of `polypath_pmtu::MtuSearch`; `None`
    /// is Linux's way.
    #[serde(default)]
    pub mtu_search: Option<String>,
    /// Settings of the endpoints on this host by their Linux names ("net.ipv4.tcp_rmem": [4096,
    /// 131072, 16777216]); see `transport::Settings`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub name: String,
    pub transport: Transport,
    /// Congestion control of the sender, by name; none for datagrams.
    #[serde(default)]
    pub cc: Option<String>,
    /// The client opens the connection.
    pub client: String,
    pub server: String,
    /// Source and destination of the first subflow; default: the node's first address.
    #[serde(default)]
    pub client_address: Option<String>,
    #[serde(default)]
    pub server_address: Option<String>,
    #[serde(rename = "start_ns", default)]
    pub start: Instant,
    /// Which end the application sends from.
    #[serde(default)]
    pub direction: DataDirection,
    pub app: App,
    /// Payload of each datagram.
    #[serde(rename = "datagram_bytes", default = "default_datagram")]
    pub datagram: Bytes,
    #[serde(default)]
    pub mptcp: Mptcp,
    /// Paths fixed by hand; others take the shortest path that leaves by the source address's link.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Window of the goodput and of the means, in time since the connection was established at the
    /// server.
    #[serde(rename = "window_ns")]
    pub window: [Duration; 2],
}

/// Who sends the application's data. The client opens the connection either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataDirection {
    /// The client; of requests both, and the client asks.
    #[default]
    Upload,
    /// The server, as soon as it has accepted the connection.
    Download,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Tcp,
    Mptcp,
    /// Datagrams: an application at a rate alone.
    Udp,
}

fn default_datagram() -> Bytes {
    Bytes::new(1400)
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    /// Sends as fast as the socket accepts, for a time.
    Bulk {
        #[serde(rename = "duration_ns")]
        duration: Duration,
    },
    /// Sends this much, then closes; the completion time is when the server has read everything.
    Transfer { bytes: Bytes },
    /// Sends at `rate` (or as fast as the socket accepts) for the time `on`, rests for the time
    /// `off`, and so on.
    OnOff {
        #[serde(rename = "on_ns")]
        on: Duration,
        #[serde(rename = "off_ns")]
        off: Duration,
        #[serde(rename = "duration_ns")]
        duration: Duration,
        #[serde(rename = "bits_per_s", default)]
        rate: Option<Rate>,
    },
    /// Sends a request, waits for the whole response, pauses, and so on for a time.
    Requests {
        #[serde(rename = "request_bytes")]
        request: Bytes,
        #[serde(rename = "response_bytes")]
        response: Bytes,
        #[serde(rename = "pause_ns")]
        pause: Duration,
        #[serde(rename = "duration_ns")]
        duration: Duration,
    },
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mptcp {
    #[serde(default)]
    pub scheduler: Option<String>,
    #[serde(default)]
    pub path_manager: PathManager,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PathManager {
    /// A subflow from every address of the client to every address of the server that is announced.
    #[default]
    Fullmesh,
    /// `subflows` subflows over the first path, by different source ports.
    Ndiffports { subflows: u8 },
    /// A subflow from each of these client addresses: to the server's first one, or, if laminar, to
    /// one that the server announces.
    Endpoints { addresses: Vec<Endpoint> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub address: String,
    #[serde(default)]
    pub backup: bool,
    #[serde(default)]
    pub laminar: bool,
    /// Time since the connection was established at which the address goes away (REMOVE_ADDR).
    #[serde(rename = "remove_at_ns", default)]
    pub remove_at: Option<Duration>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub from: String,
    pub to: String,
    /// Names of the links in order from the client to the server.
    pub via: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_can_name_every_path_manager_and_no_other() {
        let refusal = |name: &str| serde_json::from_str::<PathManager>(&format!(r#"{{"kind": "{name}"}}"#)).err().map(|e| e.to_string());
        for (name, _) in polypath_transport::mptcp::PathManager::NAMES {
            assert!(refusal(name).is_none_or(|sentence| sentence.contains("missing field")), "{name}");
            assert!(refusal("unknown").is_some_and(|sentence| sentence.contains(&format!("`{name}`"))), "{name}");
        }
        let known = refusal("unknown").expect("it is refused").matches('`').count() / 2 - 1;
        assert_eq!(known, polypath_transport::mptcp::PathManager::NAMES.len());
    }
}
