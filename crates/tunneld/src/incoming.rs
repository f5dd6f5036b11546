//! The thread that puts what comes on the paths in order for the host, and keeps the tunnel's time.

use crate::core::{Core, Packet};
use crate::encapsulation::{Content, Refusal, Refused};
use crate::superpacket::{Group, group, merged_head};
use polypath_base::{Bytes, Duration, PathId};
use polypath_io::{Failed, Offload, Received, Slots, VIRTIO_HEAD, Waiter};
use polypath_tunnel::Message;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Buffers that are kept for later packets.
const KEPT: usize = 1024;
/// Packets that one call hands over, and a head.
const MOST_PIECES: usize = 65;
/// What is looked at even if nothing is due.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Everything between a read and a write; kept, so that nothing is allocated for a packet.
#[derive(Debug, Default)]
struct Batch {
    slots: Slots,
    /// Packets that have come, with their paths and lengths.
    came: Vec<(PathId, usize, Message<Packet>)>,
    refused: Refused,
    /// Paths that are to get a keepalive.
    keepalives: Vec<PathId>,
    /// Packets for the host, in order.
    ready: Vec<Vec<u8>>,
    groups: Vec<Group>,
    head: Vec<u8>,
    /// Buffers for later packets.
    free: Vec<Vec<u8>>,
    written: u64,
    not_taken: u64,
}

/// Carries packets until `stop` has something to read.
pub(crate) fn run(core: &Core, stop: BorrowedFd<'_>) -> Result<(), Failed> {
    let mut batch = Batch::default();
    let mut waiter = Waiter::new([stop].into_iter().chain(core.paths.iter().map(|path| path.main.as_fd())));
    loop {
        let due = core.state().endpoint.poll_timeout();
        waiter.wait(Some(due.since(core.clock.now()).min(LONGEST_WAIT)));
        if waiter.ready(0) {
            return Ok(());
        }
        // A path with much to read leaves the others their turn.
        let mut more = true;
        for _ in 0..16 {
            if !std::mem::take(&mut more) {
                break;
            }
            for path in 0..core.paths.len() {
                if waiter.ready(path + 1) {
                    more |= batch.receive(core, path)?;
                }
            }
            batch.pass(core);
            batch.send_keepalives(core);
            batch.write(core);
        }
    }
}

/// The address as the other end wrote it: one of IPv4 may come as one of IPv6.
fn address(from: SocketAddr) -> IpAddr {
    from.ip().to_canonical()
}

impl Batch {
    /// Reads what has come on a path; whether there may be more.
    fn receive(&mut self, core: &Core, path: usize) -> Result<bool, Failed> {
        let more = core.paths[path].main.receive(&mut self.slots)?;
        let slots = std::mem::take(&mut self.slots);
        for received in slots.iter() {
            self.take(core, path, received);
        }
        self.slots = slots;
        Ok(more)
    }

    fn take(&mut self, core: &Core, path: usize, received: Received<'_>) {
        let known = address(received.from) == core.config.paths[path].remote.ip();
        for datagram in received.bytes.chunks(received.segment) {
            let content =
                if known { core.config.encapsulation.parse(datagram, core.config.mtu as usize) } else { Err(Refusal::UnknownAddress) };
            let message = match content {
                Err(refusal) => {
                    self.refused.count(refusal);
                    continue;
                }
                Ok(Content::Keepalive) => Message::Keepalive,
                Ok(Content::Packet { seq, at }) => {
                    let mut buffer = self.free.pop().unwrap_or_default();
                    buffer.clear();
                    buffer.extend_from_slice(&datagram[at]);
                    Message::Data { seq, packet: Packet::Incoming(buffer) }
                }
            };
            self.came.push((PathId(path as u8), datagram.len(), message));
        }
    }

    /// Passes what has come through the tunnel's state, and does what is due.
    fn pass(&mut self, core: &Core) {
        let header = core.config.encapsulation.header_len();
        let mut state = core.state();
        let now = core.clock.now();
        state.refused += std::mem::take(&mut self.refused);
        state.counters.tun_writes += std::mem::take(&mut self.written);
        state.counters.not_taken += std::mem::take(&mut self.not_taken);
        for (path, length, message) in self.came.drain(..) {
            state.endpoint.handle_outer(now, path, Bytes::new(length.saturating_sub(header) as u64), message);
        }
        if state.endpoint.poll_timeout() <= now {
            state.endpoint.handle_timeout(now);
            while let Some((path, message)) = state.endpoint.poll_transmit() {
                // The other thread queues and takes its packets under one lock, so these are keepalives.
                debug_assert!(matches!(message, Message::Keepalive));
                self.keepalives.push(path);
            }
        }
        while let Some(packet) = state.endpoint.poll_deliver() {
            if let Packet::Incoming(bytes) = packet {
                self.ready.push(bytes);
            }
        }
    }

    fn send_keepalives(&mut self, core: &Core) {
        let (peer, own) = core.config.peer;
        for path in self.keepalives.drain(..).filter(|_| core.config.keepalives) {
            let bytes = core.config.encapsulation.keepalive(own, peer);
            // One that does not go out is a sign of life less; the next one tries again.
            let _ = core.paths[usize::from(path.0)].main.send_now(core.config.paths[usize::from(path.0)].remote, &bytes);
        }
    }

    /// Hands packets to the host's stack, as large ones where it takes them.
    fn write(&mut self, core: &Core) {
        if self.ready.is_empty() {
            return;
        }
        if core.tun.offload() == Offload::None {
            self.groups.clear();
            self.groups.extend((0..self.ready.len()).map(|first| Group { first, count: 1, head: 0 }));
        } else {
            group(&self.ready, core.tun.offload() == Offload::TcpAndUdp, &mut self.groups);
        }
        for group in &self.groups {
            merged_head(&self.ready, group, &mut self.head);
            debug_assert!(self.head.len() >= VIRTIO_HEAD);
            let mut pieces = [IoSlice::new(&[]); MOST_PIECES];
            pieces[0] = IoSlice::new(&self.head);
            for (piece, packet) in pieces[1..].iter_mut().zip(&self.ready[group.first..group.first + group.count]) {
                *piece = IoSlice::new(&packet[if group.count == 1 { 0 } else { group.head }..]);
            }
            match core.tun.write(&pieces[..=group.count]) {
                Ok(()) => self.written += 1,
                Err(_) => self.not_taken += group.count as u64,
            }
        }
        let room = KEPT.saturating_sub(self.free.len());
        self.free.extend(self.ready.drain(..).take(room));
    }
}
