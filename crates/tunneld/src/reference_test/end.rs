//! An end of a tunnel as the daemon's threads put it together, without device, sockets and clock.

use super::Setup;
use crate::encapsulation::{Content, Encapsulation, Refusal, is_packet};
use crate::encryption::{Key, Keys, OVERHEAD, Opened, Peer, To};
use crate::parity::{Encoder, Recent};
use polypath_base::{Bytes, Instant, PathId};
use polypath_tunnel::{Endpoint, Message, Parity};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// A datagram that leaves.
pub(super) struct Datagram {
    pub path: usize,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
    /// The number of the packet that it carries.
    pub carries: Option<u32>,
}

pub(super) struct End {
    /// Its clock is 0 then, as the daemon's is when that starts.
    started: Instant,
    form: Encapsulation,
    endpoint: Endpoint<Vec<u8>>,
    peer: Option<Peer>,
    /// By path where it is, and where it takes the other end to be.
    pub addresses: Vec<SocketAddr>,
    remotes: Vec<SocketAddr>,
    /// What the host has sent and was not taken yet, with the hash of its flow.
    device: VecDeque<(u32, Vec<u8>)>,
    /// With error correction, its bytes.
    fec: Option<(Encoder, Recent)>,
    renewed: bool,
    pub delivered: Vec<Vec<u8>>,
}

/// A packet's number, which stands behind its IPv4 header.
pub(super) fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes([packet[20], packet[21], packet[22], packet[23]])
}

impl End {
    /// It starts, or starts again. `remotes`: where its file says that the other end is.
    pub(super) fn new(setup: &Setup, now: Instant, keys: Option<Keys>, addresses: Vec<SocketAddr>, remotes: Vec<SocketAddr>) -> Self {
        let paths = addresses.len();
        Self {
            started: now,
            form: setup.form(),
            endpoint: Endpoint::new(Instant::ZERO, &setup.config()).expect("the configuration is sound"),
            peer: keys.map(|keys| Peer::new(keys, paths, Key::random().expect("the machine has random numbers"))),
            addresses,
            remotes,
            device: VecDeque::new(),
            fec: setup.fec.map(|_| (Encoder::default(), Recent::new())),
            renewed: false,
            delivered: Vec::new(),
        }
    }

    fn clock(&self, now: Instant) -> Instant {
        Instant::ZERO + now.since(self.started)
    }

    /// A packet of the host.
    pub(super) fn send(&mut self, now: Instant, flow_hash: u32, packet: Vec<u8>) {
        let now = self.clock(now);
        if let Some(peer) = self.peer.as_mut().filter(|peer| peer.session().is_none()) {
            peer.handle_data(now);
            return;
        }
        self.device.push_back((flow_hash, packet));
    }

    /// A datagram has come.
    pub(super) fn take(&mut self, now: Instant, path: usize, from: SocketAddr, datagram: &[u8]) -> Result<(), Refusal> {
        let now = self.clock(now);
        let known = from.ip() == self.remotes[path].ip();
        let mut plain = datagram.to_vec();
        if let Some(peer) = &mut self.peer {
            match peer.handle(now, PathId(path as u8), (from, known), datagram, &mut plain)? {
                Opened::Handshake { renewed } => {
                    self.renewed |= renewed;
                    return Ok(());
                }
                Opened::Data { newest, renewed } => {
                    self.renewed |= renewed;
                    if newest && self.remotes[path] != from {
                        self.remotes[path] = from;
                        self.renewed = true;
                    }
                }
            }
        } else if !known {
            return Err(Refusal::UnknownAddress);
        }
        let (message, len) = match self.form.parse(&plain, 9000)? {
            Content::Parity { parity, at } => (Message::Parity { parity, payload: plain[at.clone()].to_vec() }, at.len()),
            Content::Keepalive => (Message::Keepalive, 0),
            Content::Report(report) => (Message::Report(report), 0),
            Content::Probe(probe) => (Message::Probe(probe), 0),
            Content::Packet { seq, at } => {
                if let (Some((_, recent)), Some(seq)) = (&mut self.fec, seq) {
                    recent.add(seq, &plain[at.clone()]);
                }
                (Message::Data { seq, packet: plain[at.clone()].to_vec() }, at.len())
            }
        };
        self.endpoint.handle_outer(now, PathId(path as u8), Bytes::new(len as u64), message);
        while let Some(recovery) = self.endpoint.poll_recovery() {
            for (seq, packet) in self.fec.as_ref().map_or_else(Vec::new, |(_, recent)| recent.recover(&recovery)) {
                if is_packet(&packet, 9000).is_ok() {
                    self.endpoint.handle_recovered(now, seq, packet);
                }
            }
        }
        Ok(())
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let due = self.endpoint.poll_timeout().min(self.peer.as_ref().map_or(Instant::NEVER, Peer::poll_timeout));
        if due == Instant::NEVER { due } else { self.started + due.since(Instant::ZERO) }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        // The time of day goes on where an end starts again.
        let wall_ns = now.as_nanos() + 1;
        let now = self.clock(now);
        if let Some(peer) = self.peer.as_mut().filter(|peer| peer.poll_timeout() <= now) {
            let before = peer.session().is_some();
            peer.handle_timeout(now, wall_ns);
            self.renewed |= before != peer.session().is_some();
        }
        if self.endpoint.poll_timeout() <= now {
            self.endpoint.handle_timeout(now);
        }
    }

    /// What leaves now. What it has for its host is in `delivered`.
    pub(super) fn drain(&mut self, now: Instant) -> Vec<Datagram> {
        let now = self.clock(now);
        let mut out = Vec::new();
        self.protect(now, None);
        while !self.device.is_empty() && !self.endpoint.is_full(now) {
            let Some((flow_hash, packet)) = self.device.pop_front() else { break };
            let copy = packet.clone();
            if self.endpoint.handle_inner(now, flow_hash, Bytes::new(packet.len() as u64), packet) {
                self.protect(now, Some(&copy));
            }
        }
        while let Some((to, bytes)) = self.peer.as_mut().and_then(Peer::poll_transmit) {
            let (path, to) = match to {
                To::Path(path) => (path, self.remotes[usize::from(path.0)]),
                To::Back(path, address) => (path, address),
            };
            out.push(Datagram { path: usize::from(path.0), to, bytes, carries: None });
        }
        while let Some((path, message)) = self.endpoint.poll_transmit() {
            out.extend(self.datagram(path, message));
        }
        if std::mem::take(&mut self.renewed) {
            out.extend((0..self.addresses.len()).filter_map(|path| self.datagram(PathId(path as u8), Message::Keepalive)));
        }
        self.delivered.extend(std::iter::from_fn(|| self.endpoint.poll_deliver()));
        out
    }

    /// Adds a packet to its block, and makes the parities of one that has ended.
    fn protect(&mut self, now: Instant, packet: Option<&[u8]>) {
        let Some((encoder, _)) = &mut self.fec else { return };
        packet.into_iter().for_each(|packet| encoder.add([packet]));
        let Some(first) = self.endpoint.poll_block() else { return };
        for (index, symbol) in (0..).zip(encoder.end(&first)) {
            self.endpoint.handle_parity(now, Parity { index, ..first }, Bytes::new(symbol.len() as u64), symbol);
        }
    }

    /// None: the tunnel is encrypted, and there is no session.
    fn datagram(&self, path: PathId, message: Message<Vec<u8>>) -> Option<Datagram> {
        let encrypted = if self.peer.is_some() { OVERHEAD } else { 0 };
        let mut carries = None;
        let mut bytes = match message {
            Message::Keepalive => self.form.keepalive(IpAddr::from([10, 9, 0, 1]), IpAddr::from([10, 9, 0, 2])),
            Message::Report(report) => self.form.report(&report),
            Message::Parity { parity, payload } => self.form.parity(&parity, &payload),
            Message::Probe(probe) => {
                let filled = if probe.is_answer { 0 } else { usize::from(probe.size).saturating_sub(IP_AND_UDP + encrypted) };
                self.form.probe(&probe, filled)
            }
            Message::Data { seq, packet } => {
                carries = Some(number(&packet));
                let mut bytes = vec![0; self.form.header_len()];
                self.form.emit(seq, packet[0], &mut bytes);
                bytes.extend(packet);
                bytes
            }
        };
        if let Some(peer) = &self.peer {
            let mut sealed = Vec::new();
            peer.session()?.seal(path, &bytes, &mut sealed);
            bytes = sealed;
        }
        let path = usize::from(path.0);
        Some(Datagram { path, to: self.remotes[path], bytes, carries })
    }

    /// By path, whether this end takes it for alive.
    pub(super) fn up(&self) -> Vec<bool> {
        self.endpoint.paths().map(|(up, _)| up).collect()
    }

    /// The longest packet that its host may send, where that is searched for.
    pub(super) fn mtu(&self) -> Option<u64> {
        self.endpoint.mtu().map(Bytes::get)
    }

    /// The longest packet that a path passes, as far as this end knows.
    pub(super) fn path_mtu(&self, path: usize) -> Option<u64> {
        self.endpoint.path_mtu(PathId(path as u8)).map(|(mtu, _)| mtu.get())
    }
}

/// Bytes in front of a datagram over IPv4.
pub(super) const IP_AND_UDP: usize = 28;
