//! The opening end of a connection: it connects, then it sends, or reads a download.

use crate::flow_end::FlowEnd;
use crate::out_of_tree;
use crate::progress::lock;
use crate::sys::{self, Outcome};
use crate::{reader, sender};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(crate) fn run(end: &FlowEnd, socket: Arc<OwnedFd>, server: SocketAddr, on_connect: impl FnOnce(u64)) -> Outcome<()> {
    sys::sleep_until(end.origin + end.flow.start_ns);
    sys::connect(&socket, server)?;
    let connected = end.now();
    if end.out_of_tree && end.flow.mptcp {
        out_of_tree::check(&*socket, &end.flow)?;
    }
    {
        let mut progress = lock(&end.progress);
        progress.result.connected_ns = Some(connected);
        progress.client.socket = Some(socket.clone());
    }
    on_connect(connected);
    if end.flow.download { reader::read(end, &socket) } else { sender::send(end, &socket, connected) }
}
