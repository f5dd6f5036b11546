//! The accepting end of a connection: it accepts, then it reads, or sends a download.

use crate::flow_end::FlowEnd;
use crate::progress::lock;
use crate::sys::{self, Outcome};
use crate::{reader, sender};
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(crate) fn run(end: &FlowEnd, listener: &OwnedFd) -> Outcome<()> {
    let socket = Arc::new(sys::accept(listener)?);
    let accepted = end.now();
    {
        let mut progress = lock(&end.progress);
        progress.result.accepted_ns = Some(accepted);
        progress.server.socket = Some(socket.clone());
    }
    if end.flow.download { sender::send(end, &socket, accepted) } else { reader::read(end, &socket) }
}
