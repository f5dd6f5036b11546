//! The flows of a plan, of each kind: a connection, a stream of datagrams, or two programs.

use crate::connection::Connection;
use crate::datagrams;
use crate::external;
use crate::network::Network;
use crate::plan::{App, Flow, Plan, Programs};
use crate::progress::Progress;
use crate::sample::Sockets;
use crate::sys::{Error, Outcome};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The plan's flows, prepared.
pub(crate) fn prepare(plan: &Plan, network: &Network, results: &Path) -> Outcome<Vec<PreparedFlow>> {
    let announces = |flow: &Flow| plan.endpoints.iter().any(|endpoint| endpoint.signal && endpoint.namespace == flow.server);
    plan.flows.iter().enumerate().map(|(number, flow)| PreparedFlow::new(number, flow, network, announces(flow), results)).collect()
}

/// A flow before the run: its sockets exist, each in its namespace, and the server listens.
#[derive(Debug)]
pub(crate) struct PreparedFlow {
    flow: Flow,
    kind: Kind,
    pub(crate) progress: Arc<Mutex<Progress>>,
}

#[derive(Debug)]
enum Kind {
    Connection(Connection),
    Datagrams(datagrams::Sockets),
    Programs(external::Ends, Programs),
}

impl PreparedFlow {
    /// `announces`: the server announces further addresses, on which it listens too.
    fn new(number: usize, flow: &Flow, network: &Network, announces: bool, results: &Path) -> Outcome<Self> {
        let named = |e: Error| e.of(format!("flow {}", flow.name));
        // Only of a connection the kernel says how far its reader has read.
        let silent = !flow.mptcp
            && flow.programs.is_none()
            && flow.datagram_bytes == 0
            && flow.reading.sleep_ns == 0
            && !matches!(flow.app, App::Requests { .. });
        let progress = Progress::new(number as u32, flow, silent);
        let kind = if flow.datagram_bytes > 0 {
            datagrams::Sockets::open(flow, network).map(Kind::Datagrams)
        } else if let Some(programs) = &flow.programs {
            external::Ends::open(number, flow, programs, network, results).map(|ends| Kind::Programs(ends, programs.clone()))
        } else {
            Connection::open(flow, network, announces).map(Kind::Connection)
        };
        Ok(Self { flow: flow.clone(), kind: kind.map_err(named)?, progress: Arc::new(Mutex::new(progress)) })
    }

    /// Starts both ends; the run's time 0 is `origin` on the machine's clock. `on_connect` is
    /// called once the client is connected.
    pub(crate) fn start(
        self,
        origin: u64,
        chunk: &Arc<Vec<u8>>,
        sockets: &Arc<Mutex<Sockets>>,
        on_connect: impl FnOnce(u64) + Send + 'static,
    ) -> Outcome<()> {
        match self.kind {
            Kind::Connection(connection) => connection.start(self.flow, self.progress, origin, chunk, sockets, on_connect),
            Kind::Datagrams(sockets) => sockets.start(self.flow, self.progress, origin),
            Kind::Programs(ends, programs) => ends.start(self.flow, programs, self.progress, origin),
        }
    }
}
