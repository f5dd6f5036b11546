//! The thread that puts what comes on the paths in order for the host, and keeps the tunnel's time.

use crate::core::{Core, Packet, Sign};
use crate::encapsulation::{Content, Refusal, Refused, is_packet, source};
use crate::encryption::{Key, Opened, Peer, To};
use crate::mss;
use crate::parity::Recent;
use crate::signs;
use crate::superpacket::{Group, group, merged_head};
use polypath_base::{Bytes, Duration, Error, Instant, PathId};
use polypath_io::{Failed, KernelTime, Offload, Received, Slots, VIRTIO_HEAD, Waiter, time_of_day_ns};
use polypath_tunnel::Message;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Buffers that are kept for later packets.
const KEPT: usize = 1024;
/// Packets that one call hands over, and a head.
const MOST_PIECES: usize = 65;
/// What is polled even if nothing is due.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Everything between a read and a write; kept, so that nothing is allocated for a packet.
#[derive(Debug)]
struct Batch {
    /// With encryption, the other end.
    peer: Option<Peer>,
    /// By path where the other end is.
    remotes: Vec<SocketAddr>,
    /// The sending thread must learn of a new session, or of a new address.
    renewed: bool,
    /// A decrypted datagram.
    plain: Vec<u8>,
    slots: Slots,
    /// What has come, with its path, when the kernel got it if it says so, and its length without
    /// the tunnel's headers.
    came: Vec<(PathId, Option<Instant>, usize, Message<Packet>)>,
    /// What parities need of packets that came; none without error correction.
    recent: Option<Recent>,
    time: KernelTime,
    refused: Refused,
    /// Signs of life to be sent.
    signs: Vec<(PathId, Sign)>,
    /// Packets for the host, in order.
    ready: Vec<Vec<u8>>,
    groups: Vec<Group>,
    head: Vec<u8>,
    /// Buffers for later packets.
    free: Vec<Vec<u8>>,
    written: u64,
    not_taken: u64,
    clamped: u64,
}

/// Carries packets until `stop` has something to read.
pub(crate) fn run(core: &Core, stop: BorrowedFd<'_>, log: &dyn Fn(&str)) -> Result<(), Error> {
    let peer = match &core.config.encryption {
        Some(keys) => Some(Peer::new(keys.clone(), core.paths.len(), Key::random()?)),
        None => None,
    };
    let mut batch = Batch {
        peer,
        remotes: core.config.paths.iter().map(|path| path.remote).collect(),
        renewed: false,
        plain: Vec::new(),
        slots: Slots::default(),
        came: Vec::new(),
        recent: core.config.endpoint.fec.map(|_| Recent::new()),
        time: KernelTime::new(core.clock),
        refused: Refused::default(),
        signs: Vec::new(),
        ready: Vec::new(),
        groups: Vec::new(),
        head: Vec::new(),
        free: Vec::new(),
        written: 0,
        not_taken: 0,
        clamped: 0,
    };
    let mut waiter = Waiter::new([stop].into_iter().chain(core.paths.iter().map(|path| path.main.as_fd())));
    loop {
        let (due, asked) = {
            let mut state = core.state();
            (state.endpoint.poll_receive_timeout(), std::mem::take(&mut state.asked))
        };
        let due = due.min(batch.peer.as_mut().map_or(Instant::NEVER, |peer| {
            if asked {
                peer.handle_data(core.clock.now());
            }
            peer.poll_timeout()
        }));
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
            batch.keep_session(core);
            if let Some(mtu) = batch.pass(core) {
                core.set_mtu(mtu)?;
                log(&format!("the paths carry packets of {mtu} bytes: the MTU of {} follows", core.tun.name()));
            }
            let session = batch.peer.as_ref().and_then(Peer::session);
            signs::send(core, session, &batch.remotes, &mut batch.signs);
            batch.write(core);
        }
    }
}

/// The address as the other end wrote it: one of IPv4 may come as one of IPv6.
fn address(from: SocketAddr) -> IpAddr {
    from.ip().to_canonical()
}

fn check_source(core: &Core, packet: &[u8]) -> Result<(), Refusal> {
    let Some(allowed) = &core.config.allowed_ips else { return Ok(()) };
    let from = source(packet).ok_or(Refusal::Malformed)?;
    if allowed.iter().any(|prefix| prefix.contains(from)) { Ok(()) } else { Err(Refusal::ForeignSource) }
}

impl Batch {
    /// Reads what has come on a path; whether there may be more.
    fn receive(&mut self, core: &Core, path: usize) -> Result<bool, Failed> {
        let more = core.paths[path].main.receive(&mut self.slots)?;
        self.time.refresh(core.clock.now());
        // New room in its place would be a quarter of a megabyte of zeros for each call.
        let slots = std::mem::replace(&mut self.slots, Slots::empty());
        for received in slots.iter() {
            self.take(core, path, received);
        }
        self.slots = slots;
        Ok(more)
    }

    fn take(&mut self, core: &Core, path: usize, received: Received<'_>) {
        let arrived = received.real_ns.map(|real_ns| self.time.instant(real_ns));
        for datagram in received.bytes.chunks(received.segment) {
            match self.read(core, path, received.from, datagram) {
                Ok(Some(message)) => {
                    let length = match &message {
                        Message::Data { packet, .. } | Message::Parity { payload: packet, .. } => packet.as_ref().len(),
                        _ => 0,
                    };
                    self.came.push((PathId(path as u8), arrived, length, message));
                }
                Ok(None) => {}
                Err(refusal) => self.refused.count(refusal),
            }
        }
    }

    /// What a datagram of a path holds for the tunnel; none: it was for the encryption alone.
    fn read(&mut self, core: &Core, path: usize, from: SocketAddr, datagram: &[u8]) -> Result<Option<Message<Packet>>, Refusal> {
        let known = address(from) == self.remotes[path].ip();
        let mut plain = datagram;
        if let Some(peer) = &mut self.peer {
            match peer.handle(core.clock.now(), PathId(path as u8), (from, known), datagram, &mut self.plain)? {
                Opened::Handshake { renewed } => {
                    self.renewed |= renewed;
                    return Ok(None);
                }
                Opened::Data { newest, renewed } => {
                    self.renewed |= renewed;
                    if newest && self.remotes[path] != from {
                        self.remotes[path] = from;
                        self.renewed = true;
                    }
                }
            }
            plain = &self.plain;
        } else if !known {
            return Err(Refusal::UnknownAddress);
        }
        Ok(Some(match core.config.encapsulation.parse(plain, core.config.longest_inside() as usize)? {
            Content::Keepalive => Message::Keepalive,
            Content::Report(report) => Message::Report(report),
            Content::Probe(probe) => Message::Probe(probe),
            Content::Parity { parity, at } => Message::Parity { parity, payload: Packet::Symbol(plain[at].to_vec()) },
            Content::Packet { seq, at } => {
                check_source(core, &plain[at.clone()])?;
                // Before anything in it is changed: parities are of what was sent.
                if let (Some(recent), Some(seq)) = (&mut self.recent, seq) {
                    recent.add(seq, &plain[at.clone()]);
                }
                let mut buffer = self.free.pop().unwrap_or_default();
                buffer.clear();
                buffer.extend_from_slice(&plain[at]);
                if core.config.clamp_mss && mss::clamp(&mut buffer, core.mtu()) {
                    self.clamped += 1;
                }
                Message::Data { seq, packet: Packet::Incoming(buffer) }
            }
        }))
    }

    /// Does what encryption has to do, and tells the sending thread what it must know.
    fn keep_session(&mut self, core: &Core) {
        let Some(peer) = &mut self.peer else { return };
        let now = core.clock.now();
        if peer.poll_timeout() <= now {
            let before = peer.session().is_some();
            peer.handle_timeout(now, time_of_day_ns());
            self.renewed |= before != peer.session().is_some();
        }
        // One that does not go out is followed by another one.
        while let Some((to, message)) = peer.poll_transmit() {
            match to {
                To::Path(path) => {
                    let path = usize::from(path.0);
                    let _ = core.paths[path].main.send_now(self.remotes[path], &message);
                }
                To::Back(path, address) => {
                    let _ = core.paths[usize::from(path.0)].main.send_now(address, &message);
                }
            }
        }
        if std::mem::take(&mut self.renewed) {
            let mut state = core.state();
            state.session = peer.session().cloned();
            state.remotes.clone_from(&self.remotes);
            // The other end learns from it that the session is in use, and where we are.
            self.signs.extend((0..core.paths.len()).map(|path| (PathId(path as u8), Sign::Keepalive)));
        }
    }

    /// Passes what has come through the tunnel's state, and does what is due. The device's MTU, if
    /// it is to change.
    fn pass(&mut self, core: &Core) -> Option<u32> {
        let mut state = core.state();
        let now = core.clock.now();
        state.refused += std::mem::take(&mut self.refused);
        if let Some(peer) = &self.peer {
            state.encryption = peer.counters();
        }
        state.counters.tun_writes += std::mem::take(&mut self.written);
        state.counters.not_taken += std::mem::take(&mut self.not_taken);
        state.counters.clamped += std::mem::take(&mut self.clamped);
        for (path, arrived, length, message) in self.came.drain(..) {
            let arrived = arrived.map_or(now, |arrived| arrived.min(now));
            state.endpoint.handle_arrived(now, arrived, path, Bytes::new(length as u64), message);
            while let Some(recovery) = state.endpoint.poll_recovery() {
                let recovered = self.recent.as_ref().map_or_else(Vec::new, |recent| recent.recover(&recovery));
                for (seq, mut packet) in recovered {
                    let longest = core.config.longest_inside() as usize;
                    if let Err(refusal) = is_packet(&packet, longest).and_then(|()| check_source(core, &packet)) {
                        state.refused.count(refusal);
                        continue;
                    }
                    if core.config.clamp_mss && mss::clamp(&mut packet, core.mtu()) {
                        state.counters.clamped += 1;
                    }
                    state.endpoint.handle_recovered(now, seq, Packet::Incoming(packet));
                }
            }
        }
        if state.endpoint.poll_receive_timeout() <= now {
            state.endpoint.handle_timeout(now);
            state.protect(now);
        }
        state.poll_transmit(core.config.encapsulation, &mut self.signs);
        if !state.released.is_empty() || state.endpoint.poll_send_timeout() < state.sender_due {
            core.wake.wake();
        }
        while let Some(packet) = state.endpoint.poll_deliver() {
            if let Packet::Incoming(bytes) = packet {
                self.ready.push(bytes);
            }
        }
        state.endpoint.mtu().map(Bytes::as_u32).filter(|&mtu| mtu != core.mtu())
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
