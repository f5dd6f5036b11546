//! What one run simulates, as plain data: the only input of the simulator. Written by Python as JSON.
//!
//! Links and their elements are described where they are built, in `polypath_link`. Times are nanoseconds, rates bits per second, sizes bytes. Unknown fields are refused.

use polypath_link::LinkSpec;
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
    pub links: Vec<LinkSpec>,
    pub flows: Vec<Flow>,
    /// Places whose packets are written down.
    #[serde(default)]
    pub captures: Vec<Capture>,
}

/// Packets that a node sends to a link and gets from it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    pub node: String,
    pub link: String,
    /// Bytes kept of each packet.
    pub snaplen: u32,
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
    /// The kernel of this host, by a name of `transport::stack`; `None` is the one that the profiles of its flows stand for.
    #[serde(default)]
    pub kernel: Option<String>,
    /// How its endpoints search for a path's MTU, by a name of `polypath_pmtu::MtuSearch`; `None` is Linux's way.
    #[serde(default)]
    pub mtu_search: Option<String>,
    /// Settings of the endpoints on this host by their Linux names ("net.ipv4.tcp_rmem": [4096, 131072, 16777216]); see `transport::Settings`.
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mptcp {
    /// `None` is whatever the kernels of both hosts have.
    #[serde(default)]
    pub profile: Option<Profile>,
    #[serde(default)]
    pub scheduler: Option<String>,
    #[serde(default)]
    pub path_manager: PathManager,
}

/// Which Multipath TCP a flow has. On a host without a kernel of its own it stands for one, and plain TCP follows it too: v0 is Linux 5.4's,
/// v1 is 6.12's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Out-of-tree MPTCP 0.96 on Linux 5.4.
    V0,
    /// Upstream MPTCP.
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
