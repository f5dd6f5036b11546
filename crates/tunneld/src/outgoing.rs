//! The thread that carries the host's packets to the paths.

use crate::core::{Core, DaemonCounters, Packet, Sign, TOO_LONG};
use crate::encapsulation::Encapsulation;
use crate::encryption::{OVERHEAD, Session};
use crate::mss;
use crate::signs;
use crate::superpacket::{Part, flow_hash, split};
use polypath_base::{Bytes, Duration, Error, Instant, PathId, Seq};
use polypath_io::{Failed, Full, MOST_SEGMENTS, VIRTIO_HEAD, Waiter};
use polypath_tunnel::Spreading;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Packets of the stack that are read before they are sent.
const READS: usize = 32;
const READ: usize = VIRTIO_HEAD + 65_536;
/// What is polled even if nothing is due.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// With so many packets it is time to send.
const ENOUGH: usize = 128;
/// Bytes of one merged send: the longest UDP payload is 65,507.
const MOST_BYTES: usize = 65_000;
/// What the kernel answers where it cannot cut (EIO, EINVAL).
const CANNOT_CUT: [i32; 2] = [5, 22];

/// What waits for its path is polled so often at most, and not for each packet: a fraction of what
/// waits in the network meanwhile.
const PACE: Duration = Duration::from_micros(250);
/// Buffers that are kept for later packets.
const KEPT: usize = 1024;

/// A packet to be sent.
#[derive(Debug)]
struct Outgoing {
    bytes: PacketBytes,
    hash: u32,
}

/// Where its bytes are, with room for its header.
#[derive(Debug)]
enum PacketBytes {
    /// It was cut out of one of the stack's.
    Read(usize, Part),
    /// It has waited for its path.
    Own(Vec<u8>),
}

impl Outgoing {
    fn len(&self) -> usize {
        match &self.bytes {
            PacketBytes::Read(_, part) => part.head.len() + part.body.len(),
            PacketBytes::Own(bytes) => bytes.len(),
        }
    }
}

/// Everything between a read and a send; kept, so that nothing is allocated for a packet.
#[derive(Debug)]
struct Batch {
    reads: Vec<Vec<u8>>,
    heads: Vec<u8>,
    parts: Vec<Part>,
    packets: Vec<Outgoing>,
    /// How many of `packets` have their paths.
    numbered: usize,
    /// By path, the numbers of its packets in `packets`.
    by_path: Vec<Vec<u32>>,
    /// Packets may wait for their paths, and then need bytes of their own.
    held: bool,
    /// The paths have enough to do: the device is not read.
    full: bool,
    /// When a packet that waits for its path may go.
    due: Instant,
    signs: Vec<(PathId, Sign)>,
    /// Buffers for later packets.
    free: Vec<Vec<u8>>,
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
pub(crate) fn run(core: &Core, stop: BorrowedFd<'_>, log: &dyn Fn(&str)) -> Result<(), Error> {
    let mut batch = Batch {
        reads: vec![vec![0; READ]; READS],
        heads: Vec::new(),
        parts: Vec::new(),
        packets: Vec::new(),
        numbered: 0,
        by_path: vec![Vec::new(); core.paths.len()],
        held: core.config.endpoint.spreading == Spreading::Earliest,
        full: false,
        due: Instant::NEVER,
        signs: Vec::new(),
        free: Vec::new(),
        remotes: Vec::new(),
        session: None,
        plain: Vec::new(),
        sealed: Vec::new(),
        counters: DaemonCounters::default(),
    };
    let mut waiter = Waiter::new([stop, core.wake.as_fd(), core.tun.as_fd()]);
    loop {
        let pause = if batch.due == Instant::NEVER { LONGEST_WAIT } else { batch.due.since(core.clock.now()).max(PACE) };
        waiter.wait_for_first(if batch.full { 2 } else { 3 }, Some(pause.min(LONGEST_WAIT)));
        if waiter.ready(0) {
            return Ok(());
        }
        if waiter.ready(1) {
            core.wake.clear();
        }
        let mut more = waiter.ready(2);
        // While there is more to read, nothing is waited for; but the end must be noticed.
        for _ in 0..64 {
            more = batch.take(core, more)?;
            batch.send(core, log);
            if !more {
                break;
            }
        }
    }
}

impl Batch {
    /// Reads packets of the stack and gives them their paths; whether there may be more that the
    /// paths have room for.
    fn take(&mut self, core: &Core, readable: bool) -> Result<bool, Failed> {
        if !self.held {
            let more = readable && self.fill(core, READS)?;
            self.number(core);
            return Ok(more);
        }
        // Each packet of the stack takes room, so it is asked for before each.
        self.number(core);
        for _ in 0..READS {
            if !readable || self.full || self.packets.len() >= ENOUGH {
                break;
            }
            if !self.fill(core, 1)? {
                return Ok(false);
            }
            self.number(core);
        }
        Ok(readable && !self.full)
    }

    /// Reads packets of the stack and cuts them; whether there may be more.
    fn fill(&mut self, core: &Core, most: usize) -> Result<bool, Failed> {
        let hashed = core.config.endpoint.spreading == Spreading::Flows || core.paths.iter().any(|path| !path.entropy.is_empty());
        let room = core.config.encapsulation.header_len();
        self.heads.clear();
        for read in 0..most {
            let buffer = &mut self.reads[read];
            let Some(length) = core.tun.read(buffer)? else { return Ok(false) };
            self.counters.tun_reads += 1;
            self.parts.clear();
            if split(&mut buffer[..length], room, &mut self.heads, &mut self.parts).is_err() {
                self.counters.unreadable += 1;
                continue;
            }
            // What the stack left to be cut is no SYN.
            if let ([part], true) = (&self.parts[..], core.config.clamp_mss) {
                if part.head.len() == room && mss::clamp(&mut buffer[part.body.clone()], core.mtu()) {
                    self.counters.clamped += 1;
                }
            }
            let hash = if hashed { flow_hash(&buffer[VIRTIO_HEAD..length]) } else { 0 };
            self.packets.extend(self.parts.drain(..).map(|part| Outgoing { bytes: PacketBytes::Read(read, part), hash }));
            if self.packets.len() >= ENOUGH {
                break;
            }
        }
        Ok(true)
    }

    /// Gives each packet its path, and those that may go their headers.
    fn number(&mut self, core: &Core) {
        let form = core.config.encapsulation;
        let room = form.header_len();
        let mut state = core.state();
        state.counters += std::mem::take(&mut self.counters);
        self.remotes.clone_from(&state.remotes);
        self.session.clone_from(&state.session);
        if core.config.encryption.is_some() && self.session.is_none() {
            let dropped = self.packets.len() - self.numbered;
            state.counters.no_session += dropped as u64;
            state.asked |= dropped > 0;
            self.packets.truncate(self.numbered);
            return;
        }
        let now = core.clock.now();
        if state.endpoint.poll_send_timeout() <= now {
            state.endpoint.handle_timeout(now);
            state.protect(now);
        }
        for number in self.numbered..self.packets.len() {
            let packet = &self.packets[number];
            let (hash, length) = (packet.hash, Bytes::new((packet.len() - room) as u64));
            let own = if self.held { Packet::Held(self.copied(number), hash) } else { Packet::Outgoing(number as u32) };
            if state.endpoint.handle_inner(now, hash, length, own) && state.encoder.is_some() {
                let [head, body] = self.pieces(number as u32);
                if let Some(encoder) = &mut state.encoder {
                    encoder.add([head.get(room..).unwrap_or_default(), body]);
                }
                state.protect(now);
            }
        }
        if self.held {
            self.packets.truncate(self.numbered);
        }
        state.poll_transmit(form, &mut self.signs);
        for (path, seq, packet) in state.released.drain(..) {
            let number = match packet {
                Packet::Outgoing(number) => number,
                Packet::Held(bytes, hash) => {
                    self.packets.push(Outgoing { bytes: PacketBytes::Own(bytes), hash });
                    self.packets.len() as u32 - 1
                }
                Packet::Parity(bytes) => {
                    self.packets.push(Outgoing { bytes: PacketBytes::Own(bytes), hash: 0 });
                    let number = self.packets.len() as u32 - 1;
                    self.by_path[usize::from(path.0)].push(number);
                    continue;
                }
                Packet::Incoming(_) | Packet::Symbol(_) => continue,
            };
            self.emit(number, form, seq);
            self.by_path[usize::from(path.0)].push(number);
        }
        self.numbered = self.packets.len();
        self.full = state.endpoint.is_full(now);
        self.due = state.endpoint.poll_send_timeout();
        state.sender_due = self.due;
    }

    /// A packet's bytes, with room for its header.
    fn copied(&mut self, number: usize) -> Vec<u8> {
        let mut bytes = self.free.pop().unwrap_or_default();
        bytes.clear();
        self.pieces(number as u32).into_iter().for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    fn emit(&mut self, number: u32, form: Encapsulation, seq: Option<Seq>) {
        let room = form.header_len();
        match &mut self.packets[number as usize].bytes {
            PacketBytes::Own(bytes) => {
                let (header, packet) = bytes.split_at_mut(room);
                form.emit(seq, packet[0], header);
            }
            PacketBytes::Read(read, part) => {
                let first = self.heads.get(part.head.start + room).filter(|_| part.head.len() > room);
                let first = *first.unwrap_or(&self.reads[*read][part.body.start]);
                form.emit(seq, first, &mut self.heads[part.head.start..part.head.start + room]);
            }
        }
    }

    /// The bytes of a packet, with its header.
    fn pieces(&self, number: u32) -> [&[u8]; 2] {
        match &self.packets[number as usize].bytes {
            PacketBytes::Read(read, part) => [&self.heads[part.head.clone()], &self.reads[*read][part.body.clone()]],
            PacketBytes::Own(bytes) => [bytes, &[]],
        }
    }

    /// Sends them, each path's in their order.
    fn send(&mut self, core: &Core, log: &dyn Fn(&str)) {
        signs::send(core, self.session.as_ref(), &self.remotes, &mut self.signs);
        let mut by_path = std::mem::take(&mut self.by_path);
        for (path, numbers) in by_path.iter_mut().enumerate() {
            let mut rest = &numbers[..];
            while !rest.is_empty() {
                let count = self.run_length(rest);
                let (now, later) = rest.split_at(count);
                self.send_run(core, path, now, log);
                rest = later;
            }
            numbers.clear();
        }
        self.by_path = by_path;
        self.numbered = 0;
        for packet in self.packets.drain(..) {
            if let (PacketBytes::Own(bytes), true) = (packet.bytes, self.free.len() < KEPT) {
                self.free.push(bytes);
            }
        }
    }

    /// How many of the first packets may go out as one: of one flow's socket and one length, but
    /// for the last, which may be shorter.
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
                let mut plain = std::mem::take(&mut self.plain);
                plain.clear();
                self.pieces(number).into_iter().for_each(|piece| plain.extend_from_slice(piece));
                self.plain = plain;
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
        let mut counters = std::mem::take(&mut self.counters);
        let mut pieces = [IoSlice::new(&[]); 2 * MOST_SEGMENTS];
        for (two, &number) in pieces.chunks_exact_mut(2).zip(numbers) {
            two.copy_from_slice(&self.pieces(number).map(IoSlice::new));
        }
        let pieces = (&pieces[..2 * numbers.len()], 2, segment);
        send_pieces(&mut counters, core, (path, self.remotes[path]), hash, pieces, log);
        self.counters = counters;
    }
}

/// Sends datagrams of so many pieces and bytes each, the last of them perhaps shorter, in one call
/// if the kernel cuts it.
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
