//! The sockets of a TCP or MPTCP connection, and the threads of its two ends.

use crate::address::ip;
use crate::client;
use crate::flow_end::FlowEnd;
use crate::network::Network;
use crate::out_of_tree;
use crate::plan::Flow;
use crate::progress::{EndState, Progress, lock, spawn};
use crate::sample::Sockets;
use crate::server;
use crate::sys::{self, Error, Outcome};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

const IPPROTO_MPTCP: libc::c_int = 262;

/// Both sockets, each in its namespace: one is bound, the other listens.
#[derive(Debug)]
pub(crate) struct Connection {
    client: OwnedFd,
    listener: OwnedFd,
    /// Of a kernel with out-of-tree MPTCP.
    out_of_tree: bool,
}

impl Connection {
    /// `announces`: the server announces further addresses, on which it listens too.
    pub(crate) fn open(flow: &Flow, network: &Network, announces: bool) -> Outcome<Self> {
        let (client_at, server_at) = (network.number(&flow.client)?, network.number(&flow.server)?);
        let (client_address, server_address) = (ip(&flow.client_address)?, ip(&flow.server_address)?);
        sys::enter_network(&network.namespaces[server_at].file)?;
        let listener = open(flow, server_address.is_ipv4(), network.out_of_tree, true)?;
        sys::set_option(&listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1_i32)?;
        let anywhere = if server_address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        let listens = if announces && flow.mptcp { anywhere } else { server_address };
        sys::bind(&listener, SocketAddr::new(listens, flow.port))?;
        // Of one that needs ECN, the SYN is agreed to by its like alone, and the receiver tells
        // each mark (RFC 8257 section 3.2).
        if needs_ecn(&flow.cc) || flow.server_sends() && network.namespaces[server_at].congestion_control != flow.cc {
            choose_congestion_control(&listener, &flow.cc)?;
        }
        sys::listen(&listener)?;
        sys::enter_network(&network.namespaces[client_at].file)?;
        let client = open(flow, client_address.is_ipv4(), network.out_of_tree, false)?;
        if network.namespaces[client_at].congestion_control != flow.cc {
            choose_congestion_control(&client, &flow.cc)?;
        }
        sys::bind(&client, SocketAddr::new(client_address, 0))?;
        Ok(Self { client, listener, out_of_tree: network.out_of_tree })
    }

    /// Starts a thread for each end; the run's time 0 is `origin` on the machine's clock.
    /// `on_connect` is called once the client is connected.
    pub(crate) fn start(
        self,
        flow: Flow,
        progress: Arc<Mutex<Progress>>,
        origin: u64,
        chunk: &Arc<Vec<u8>>,
        sockets: &Arc<Mutex<Sockets>>,
        on_connect: impl FnOnce(u64) + Send + 'static,
    ) -> Outcome<()> {
        let server_address = SocketAddr::new(ip(&flow.server_address)?, flow.port);
        let end = FlowEnd { flow, progress, sockets: sockets.clone(), chunk: chunk.clone(), origin, out_of_tree: self.out_of_tree };
        let (accepting, socket, listener) = (end.clone(), self.client, self.listener);
        spawn(move || {
            let outcome = server::run(&accepting, &listener);
            let mut progress = lock(&accepting.progress);
            progress.note_server();
            progress.server = EndState { socket: None, ended: true };
            if let Err(wrong) = outcome {
                progress.result.error.get_or_insert(wrong.to_string());
            }
        })?;
        spawn(move || {
            let outcome = client::run(&end, Arc::new(socket), server_address, on_connect);
            let mut progress = lock(&end.progress);
            progress.note_client();
            progress.client = EndState { socket: None, ended: true };
            if let Err(wrong) = outcome {
                // Nobody will connect any more.
                progress.server.ended = progress.result.accepted_ns.is_none() || progress.server.ended;
                progress.result.error.get_or_insert(wrong.to_string());
            }
        })
    }
}

/// Whether it works with marks alone (Linux: `TCP_CONG_NEEDS_ECN`), the kernel's or ours.
fn needs_ecn(congestion_control: &str) -> bool {
    matches!(congestion_control, "dctcp" | "pp_dctcp" | "pp_prague")
}

fn choose_congestion_control(socket: &OwnedFd, name: &str) -> Outcome<()> {
    sys::set_option_bytes(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
        .map_err(|_| Error::machine(format!("this kernel has no congestion control {name}")))
}

fn open(flow: &Flow, v4: bool, out_of_tree: bool, listens: bool) -> Outcome<OwnedFd> {
    let family = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    if out_of_tree {
        let socket = sys::socket(family, libc::SOCK_STREAM, 0)?;
        out_of_tree::configure(&socket, flow, listens)?;
        return Ok(socket);
    }
    if let Some(name) = flow.scheduler.as_ref().or(flow.path_manager.as_ref()) {
        return Err(Error::machine(format!("{name} is told to a socket of out-of-tree MPTCP, which this kernel does not have")));
    }
    let socket = sys::socket(family, libc::SOCK_STREAM, if flow.mptcp { IPPROTO_MPTCP } else { 0 });
    socket.map_err(|e| if flow.mptcp { Error::machine(format!("this kernel has no MPTCP ({e})")) } else { e })
}
