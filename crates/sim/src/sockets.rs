//! The sockets of hosts: which end of a connection gets what arrives at an address and port.

use crate::topology::NodeId;
use std::collections::BTreeMap;

/// A host's view of an end of a connection.
#[derive(Copy, Clone, Debug)]
struct Socket {
    flow: usize,
    /// 0 is the client's, 1 the server's.
    side: usize,
    ports: Ports,
}

/// Its own port and its peer's.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ports {
    local: u16,
    remote: u16,
}

/// All sockets of a run, by number of the endpoint.
#[derive(Debug)]
pub(crate) struct Sockets {
    sockets: Vec<Socket>,
    /// As a host looks them up. An endpoint takes what comes to any address of its host: MPTCP may
    /// use all.
    bound: BTreeMap<(NodeId, Ports), u32>,
}

impl Sockets {
    /// `flows`: the hosts of each flow's client and server. Ports are given out as the flows are
    /// listed: a server port and an ephemeral one each, in ranges of sizes that have no common
    /// divisor, so that pairs differ for 10^9 flows.
    pub(crate) fn new(flows: impl Iterator<Item = [NodeId; 2]>) -> Self {
        let (mut sockets, mut bound) = (Vec::new(), BTreeMap::new());
        for (flow, nodes) in flows.enumerate() {
            let (client, server) = (32_768 + (flow % 32_768) as u16, 1 + (flow % 32_767) as u16);
            for (side, (local, remote)) in [(client, server), (server, client)].into_iter().enumerate() {
                let ports = Ports { local, remote };
                bound.insert((nodes[side], ports), sockets.len() as u32);
                sockets.push(Socket { flow, side, ports });
            }
        }
        Self { sockets, bound }
    }

    pub(crate) fn count(&self) -> usize {
        self.sockets.len()
    }

    /// The flow of an endpoint, and whether it is its client (0) or its server (1).
    pub(crate) fn flow_of(&self, endpoint: u32) -> (usize, usize) {
        let Socket { flow, side, .. } = self.sockets[endpoint as usize];
        (flow, side)
    }

    /// The port of an endpoint's first path.
    pub(crate) fn port(&self, endpoint: u32) -> u16 {
        self.sockets[endpoint as usize].ports.local
    }

    /// The endpoints of a flow, client first.
    #[expect(clippy::unused_self, reason = "how endpoints are numbered is for the sockets to know")]
    pub(crate) fn of_flow(&self, flow: usize) -> [u32; 2] {
        [2 * flow as u32, 2 * flow as u32 + 1]
    }

    /// Which endpoint gets what an endpoint sends to its peer's port at a host; `None`: no socket
    /// listens there.
    pub(crate) fn peer(&self, endpoint: u32, host: NodeId) -> Option<u32> {
        let Ports { local, remote } = self.sockets[endpoint as usize].ports;
        self.bound.get(&(host, Ports { local: remote, remote: local })).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_tells_its_endpoints_apart_by_ports() {
        // Two flows between the same hosts, one the other way.
        let sockets = Sockets::new([[0, 1], [0, 1], [1, 0]].into_iter());
        for endpoint in 0..6 {
            let (flow, side) = sockets.flow_of(endpoint);
            let other = sockets.of_flow(flow)[1 - side];
            let host = usize::from((flow < 2) == (side == 0));
            assert_eq!((sockets.peer(endpoint, host), sockets.peer(endpoint, 7)), (Some(other), None));
        }
    }

    #[test]
    fn pairs_of_ports_differ_beyond_the_ranges() {
        let sockets = Sockets::new((0..70_000).map(|_| [0, 1]));
        assert_eq!(sockets.bound.len(), 140_000);
    }
}
