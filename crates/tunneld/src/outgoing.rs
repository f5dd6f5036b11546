//! The thread that carries the host's packets to the paths.

use crate::core::{Core, DaemonCounters, Packet};
use crate::encryption::{OVERHEAD, Session};
use crate::superpacket::{Part, flow_hash, split};
use polypath_base::{Bytes, Duration, PathId};
use polypath_io::{Failed, Full, MOST_SEGMENTS, VIRTIO_HEAD, Waiter};
use polypath_tunnel::{Message, Spreading};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Packets of the stack that are read before they are sent.
const READS: usize = 32;
const READ: usize = VIRTIO_HEAD + 65_536;
/// With so many packets it is time to send.
const ENOUGH: usize = 128;
/// Bytes of one merged send: the longest UDP payload is 65,507.
const MOST_BYTES: usize = 65_000;
/// A message that is too long (Linux: EMSGSIZE), and what the kernel answers where it cannot cut (EIO, EINVAL).
const TOO_LONG: i32 = 90;
const CANNOT_CUT: [i32; 2] = [5, 22];

/// A packet that was cut out of one of the stack's.
#[derive(Debug)]
struct Outgoing {
    read: usize,
    part: Part,
    hash: u32,
}

impl Outgoing {
    fn len(&self) -> usize {
        self.part.head.len() + self.part.body.len()
    }
}

/// Everything between a read and a send; kept, so that nothing is allocated for a packet.
#[derive(Debug)]
struct Batch {
    reads: Vec<Vec<u8>>,
    heads: Vec<u8>,
    parts: Vec<Part>,
    packets: Vec<Outgoing>,
    /// By path, the numbers of its packets in `packets`.
    by_path: Vec<Vec<u32>>,
    /// By path where the other end is.
    remotes: Vec<SocketAddr>,
    /// What to encrypt with; none without encryption.
    session: Option<Arc<Session>>,
    /// A packet with its header, and a run of them encrypted.
    plain: Vec<u8>,
    sealed: Vec<u8>,
    /// What is to be added to the shared counters.
    counters: DaemonCounters,
}

/// Carries packets until `stop` has something to read.
pub(crate) fn run(core: &Core, stop: BorrowedFd<'_>, log: &dyn Fn(&str)) -> Result<(), Failed> {
    let mut batch = Batch {
        reads: vec![vec![0; READ]; READS],
        heads: Vec::new(),
        parts: Vec::new(),
        packets: Vec::new(),
        by_path: vec![Vec::new(); core.paths.len()],
        remotes: Vec::new(),
        session: None,
        plain: Vec::new(),
        sealed: Vec::new(),
        counters: DaemonCounters::default(),
    };
    let mut waiter = Waiter::new([stop, std::os::fd::AsFd::as_fd(&core.tun)]);
    loop {
        waiter.wait(Some(Duration::from_secs(1)));
        if waiter.ready(0) {
            return Ok(());
        }
        // While there is more to read, nothing is waited for; but the end must be noticed.
        for _ in 0..64 {
            if !waiter.ready(1) {
                break;
            }
            let more = batch.fill(core)?;
            batch.number(core);
            batch.send(core, log);
            if !more {
                break;
            }
        }
    }
}

impl Batch {
    /// Reads packets of the stack and cuts them; whether there may be more.
    fn fill(&mut self, core: &Core) -> Result<bool, Failed> {
        let hashed = core.config.endpoint.spreading == Spreading::Flows || core.paths.iter().any(|path| !path.entropy.is_empty());
        let room = core.config.encapsulation.header_len();
        self.heads.clear();
        self.packets.clear();
        for read in 0..READS {
            let buffer = &mut self.reads[read];
            let Some(length) = core.tun.read(buffer)? else { return Ok(false) };
            self.counters.tun_reads += 1;
            self.parts.clear();
            if split(&mut buffer[..length], room, &mut self.heads, &mut self.parts).is_err() {
                self.counters.unreadable += 1;
                continue;
            }
            let hash = if hashed { flow_hash(&buffer[VIRTIO_HEAD..length]) } else { 0 };
            self.packets.extend(self.parts.drain(..).map(|part| Outgoing { read, part, hash }));
            if self.packets.len() >= ENOUGH {
                break;
            }
        }
        Ok(true)
    }

    /// Gives each packet its path and its header.
    fn number(&mut self, core: &Core) {
        self.by_path.iter_mut().for_each(Vec::clear);
        let form = core.config.encapsulation;
        let room = form.header_len();
        let mut state = core.state();
        state.counters += std::mem::take(&mut self.counters);
        self.remotes.clone_from(&state.remotes);
        self.session.clone_from(&state.session);
        if core.config.encryption.is_some() && self.session.is_none() {
            state.counters.no_session += self.packets.len() as u64;
            return;
        }
        let now = core.clock.now();
        for (number, packet) in self.packets.iter().enumerate() {
            state.endpoint.handle_inner(now, packet.hash, Bytes::new((packet.len() - room) as u64), Packet::Outgoing(number as u32));
        }
        while let Some((path, message)) = state.endpoint.poll_transmit() {
            // Keepalives are queued and sent under one lock by the other thread.
            let Message::Data { seq, packet: Packet::Outgoing(number) } = message else { continue };
            let packet = &self.packets[number as usize];
            let first = self.heads.get(packet.part.head.start + room).filter(|_| packet.part.head.len() > room);
            let first = *first.unwrap_or(&self.reads[packet.read][packet.part.body.start]);
            form.emit(seq, first, &mut self.heads[packet.part.head.start..packet.part.head.start + room]);
            self.by_path[usize::from(path.0)].push(number);
        }
    }

    /// Sends them, each path's in their order.
    fn send(&mut self, core: &Core, log: &dyn Fn(&str)) {
        let by_path = std::mem::take(&mut self.by_path);
        for (path, numbers) in by_path.iter().enumerate() {
            let mut rest = &numbers[..];
            while !rest.is_empty() {
                let count = self.run_length(rest);
                let (now, later) = rest.split_at(count);
                self.send_run(core, path, now, log);
                rest = later;
            }
        }
        self.by_path = by_path;
    }

    /// How many of the first packets may go out as one: of one flow's socket and one length, but for the last, which may be shorter.
    fn run_length(&self, numbers: &[u32]) -> usize {
        let overhead = if self.session.is_some() { OVERHEAD } else { 0 };
        let packet = |number: u32| &self.packets[number as usize];
        let first = packet(numbers[0]);
        let mut total = first.len() + overhead;
        let mut count = 1;
        for &number in &numbers[1..] {
            let next = packet(number);
            let previous = packet(numbers[count - 1]);
            total += next.len() + overhead;
            if count == MOST_SEGMENTS
                || total > MOST_BYTES
                || next.hash != first.hash
                || next.len() > first.len()
                || previous.len() < first.len()
            {
                break;
            }
            count += 1;
        }
        count
    }

    fn send_run(&mut self, core: &Core, path: usize, numbers: &[u32], log: &dyn Fn(&str)) {
        let first = &self.packets[numbers[0] as usize];
        let (hash, mut segment) = (first.hash, first.len());
        if let Some(session) = &self.session {
            self.sealed.clear();
            for &number in numbers {
                let packet = &self.packets[number as usize];
                self.plain.clear();
                self.plain.extend_from_slice(&self.heads[packet.part.head.clone()]);
                self.plain.extend_from_slice(&self.reads[packet.read][packet.part.body.clone()]);
                let sealed = session.seal(PathId(path as u8), &self.plain, &mut self.sealed);
                debug_assert!(sealed, "the longest MTU leaves room, and the session knows the path");
            }
            segment += OVERHEAD;
            let (mut pieces, mut count) = ([IoSlice::new(&[]); MOST_SEGMENTS], 0);
            for (piece, datagram) in pieces.iter_mut().zip(self.sealed.chunks(segment)) {
                *piece = IoSlice::new(datagram);
                count += 1;
            }
            send_pieces(&mut self.counters, core, (path, self.remotes[path]), hash, (&pieces[..count], 1, segment), log);
            return;
        }
        let mut pieces = [IoSlice::new(&[]); 2 * MOST_SEGMENTS];
        for (two, &number) in pieces.chunks_exact_mut(2).zip(numbers) {
            let packet = &self.packets[number as usize];
            two[0] = IoSlice::new(&self.heads[packet.part.head.clone()]);
            two[1] = IoSlice::new(&self.reads[packet.read][packet.part.body.clone()]);
        }
        let pieces = (&pieces[..2 * numbers.len()], 2, segment);
        send_pieces(&mut self.counters, core, (path, self.remotes[path]), hash, pieces, log);
    }
}

/// Sends datagrams of so many pieces and bytes each, the last of them perhaps shorter, in one call if the kernel cuts it.
fn send_pieces(
    counters: &mut DaemonCounters,
    core: &Core,
    (path, remote): (usize, SocketAddr),
    hash: u32,
    (pieces, per, segment): (&[IoSlice<'_>], usize, usize),
    log: &dyn Fn(&str),
) {
    let sockets = &core.paths[path];
    let socket = sockets.of(hash);
    let mut cannot_cut = false;
    if pieces.len() > per && sockets.segments() {
        let mut sent = socket.send_merged(remote, pieces, segment as u16, Full::Tell);
        if sent.as_ref().is_err_and(is_full) {
            let since = core.clock.now();
            sent = socket.send_merged(remote, pieces, segment as u16, Full::Wait);
            counters.blocked += core.clock.now().since(since);
        }
        match sent {
            Ok(()) => return,
            Err(error) => {
                cannot_cut = error.raw_os_error().is_some_and(|code| CANNOT_CUT.contains(&code));
                if !cannot_cut && error.raw_os_error() != Some(TOO_LONG) {
                    counters.unsendable += (pieces.len() / per) as u64;
                    return;
                }
            }
        }
    }
    let refused = send_each(counters, core, socket, remote, (pieces, per));
    if cannot_cut && !refused {
        sockets.segments.store(false, Ordering::Relaxed);
        counters.offload_fallbacks += 1;
        let name = &core.config.paths[path].name;
        log(&format!("path {name}: the kernel does not cut what is sent on it (UDP_SEGMENT); packets go out one by one"));
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Sends datagrams of so many pieces each; whether one was too long.
fn send_each(
    counters: &mut DaemonCounters,
    core: &Core,
    socket: &polypath_io::Datagrams,
    remote: SocketAddr,
    (mut pieces, per): (&[IoSlice<'_>], usize),
) -> bool {
    let mut refused = false;
    while !pieces.is_empty() {
        let (sent, result) = socket.send_each(remote, pieces, per, Full::Tell);
        pieces = &pieces[per * sent..];
        let (sent, result) = match result {
            Err(error) if is_full(&error) => {
                let since = core.clock.now();
                let again = socket.send_each(remote, pieces, per, Full::Wait);
                counters.blocked += core.clock.now().since(since);
                again
            }
            result => (0, result),
        };
        pieces = &pieces[per * sent..];
        let Err(error) = result else { break };
        if error.raw_os_error() == Some(TOO_LONG) {
            counters.too_big += 1;
            refused = true;
        } else {
            counters.unsendable += 1;
        }
        // A full socket has been waited for: the rest would wait as long.
        let skipped = if is_full(&error) { pieces.len() } else { per };
        counters.unsendable += (skipped / per) as u64 - 1;
        pieces = &pieces[skipped.min(pieces.len())..];
    }
    refused
}
