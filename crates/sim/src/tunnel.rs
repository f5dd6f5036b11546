//! The end of a tunnel: a node that puts the packets of its host into packets of its own, and puts
//! in order what comes out of the others'.
//!
//! The rules are those of `polypath_tunnel`, which a daemon has too. Here are what surrounds them
//! on a Linux host: the queue of the tunnel device, which drops at its tail, and a thread that
//! sends one packet after the other and sleeps while a path's socket buffer is full.

use crate::nodes::Node;
use crate::outcome::{TunnelCounters, TunnelEndOutcome, TunnelPathCounters};
use crate::packet::{Body, Packet, PacketStore, Released, TunnelHeader};
use polypath_base::{Bytes, Duration, Instant, PathId};
use polypath_tunnel::{Endpoint, Message, Parity, Probe, ReorderCounters, clamped_mss};
use std::collections::VecDeque;

/// What the end of a tunnel is made of, beside its rules.
#[derive(Debug)]
pub(crate) struct Config {
    /// Its number as a node, and that of the other end.
    pub(crate) number: u32,
    pub(crate) peer: u32,
    pub(crate) paths: Vec<PathConfig>,
    /// Bytes of the longest packet that the device takes, as long as nothing else turns out.
    pub(crate) mtu: u32,
    /// The MSS of SYNs that pass is lowered to what the MTU leaves.
    pub(crate) clamp_mss: bool,
    /// Packets that wait in the device at most; Linux's `tx_queue_len` of a TUN device is 500
    /// (`TUN_READQ_SIZE`).
    pub(crate) queue: usize,
    /// Bytes of a path's socket buffer (`SO_SNDBUF`); none: the thread never waits.
    pub(crate) send_buffer: Option<u32>,
}

/// A path, seen from one end.
#[derive(Copy, Clone, Debug)]
pub(crate) struct PathConfig {
    /// Where the route to the other end begins.
    pub(crate) hop: u32,
    /// Bytes of the outer IP header.
    pub(crate) ip_header: u32,
    /// Bytes of all headers before the inner packet.
    pub(crate) headers: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TunnelEnd {
    config: Config,
    /// Packets are numbers of the store.
    endpoint: Endpoint<u32>,
    paths: Vec<Path>,
    /// Packets of the host that the thread has not read.
    device: VecDeque<u32>,
    /// Copies of the packets of the block that has not ended; none without error correction.
    block: Option<Vec<u32>>,
    /// What the thread is about to send, and cannot.
    blocked: Option<(Instant, PathId, Message<u32>)>,
    /// What it is to send behind that.
    behind: VecDeque<(PathId, Message<u32>)>,
    to_send: VecDeque<Packet>,
    counters: TunnelCounters,
    /// What the reorder rule did, when it was last asked, and how many packets it was given.
    reorder: ReorderCounters,
    given: u64,
    /// What the rules answered when they were last asked for their timeout: the loop asks several
    /// times a packet.
    due: Instant,
}

#[derive(Copy, Clone, Debug, Default)]
struct Path {
    /// Bytes of the socket buffer that are in use.
    charged: u32,
    lost: u64,
    late: u64,
}

impl TunnelEnd {
    pub(crate) fn new(config: Config, endpoint: Endpoint<u32>) -> Self {
        let paths = vec![Path::default(); config.paths.len()];
        Self {
            due: endpoint.poll_timeout(),
            block: endpoint.fec_counters().map(|_| Vec::new()),
            config,
            endpoint,
            paths,
            device: VecDeque::new(),
            blocked: None,
            behind: VecDeque::new(),
            to_send: VecDeque::new(),
            counters: TunnelCounters::default(),
            reorder: ReorderCounters::default(),
            given: 0,
        }
    }

    /// A packet of the host comes to the device.
    fn handle_inner(&mut self, now: Instant, packet: &Packet, hop: u32, store: &mut PacketStore) {
        if self.device.len() >= self.config.queue {
            // Linux: `tun_net_xmit` drops what its ring has no room for, and the sender of the
            // packet does not hear of it.
            self.counters.queue_drops += 1;
            store.forget(packet);
            return;
        }
        if self.config.clamp_mss {
            store.clamp_mss(packet, clamped_mss(Bytes::from_u32(self.config.mtu), V6));
        }
        self.device.push_back(store.hold(packet, hop));
        self.counters.max_queue_packets = self.counters.max_queue_packets.max(self.device.len() as u64);
        self.read_device(now, store);
    }

    /// The thread reads packets and sends each, until there are no more, a socket buffer is full,
    /// or all paths have enough to do.
    fn read_device(&mut self, now: Instant, store: &mut PacketStore) {
        loop {
            self.send_polled(now, store);
            if self.blocked.is_some() || self.device.is_empty() || self.endpoint.is_full(now) {
                break;
            }
            let Some(number) = self.device.pop_front() else { break };
            let inner = store.held(number).inner;
            let flow = crate::packet::flow_number(inner.to, inner.path);
            if !self.endpoint.handle_inner(now, flow, Bytes::from_u32(inner.ip_len), number) {
                store.forget_held(number);
            } else if let Some(block) = &mut self.block {
                block.push(store.copy_held(number));
                self.protect(now, store);
            }
        }
    }

    /// Makes the parities of a block that has ended.
    fn protect(&mut self, now: Instant, store: &mut PacketStore) {
        let Some(first) = self.endpoint.poll_block() else { return };
        let packets = self.block.replace(Vec::new()).unwrap_or_default();
        debug_assert_eq!(packets.len(), usize::from(first.packets), "a block has the packets since the last one");
        for (index, number) in (0..).zip(store.hold_parities(first, packets)) {
            let len = Bytes::from_u32(store.held(number).inner.ip_len);
            if !self.endpoint.handle_parity(now, Parity { index, ..first }, len, number) {
                store.forget_held(number);
            }
        }
    }

    /// Makes the packets that parities have brought back.
    fn recover(&mut self, now: Instant, store: &mut PacketStore) {
        while let Some(recovery) = self.endpoint.poll_recovery() {
            for seq in recovery.missing {
                let place = seq.get().wrapping_sub(recovery.block.first) as usize;
                if let Some(packet) = recovery.parities.first().and_then(|&(_, parity)| store.recover(parity, place)) {
                    self.given += 1;
                    self.endpoint.handle_recovered(now, seq, packet);
                }
            }
            recovery.parities.into_iter().for_each(|(_, number)| store.forget_held(number));
        }
    }

    /// Sends what the rules have to send. The thread that sends signs of life does not wait behind
    /// data.
    fn send_polled(&mut self, now: Instant, store: &mut PacketStore) {
        while self.blocked.is_none() {
            let Some((path, message)) = self.behind.pop_front() else { break };
            self.send_or_wait(now, path, message, store);
        }
        while let Some((path, message)) = self.endpoint.poll_transmit() {
            match message {
                Message::Keepalive | Message::Report(_) | Message::Probe(_) => self.send(path, message, store),
                Message::Data { .. } | Message::Parity { .. } if self.blocked.is_some() => self.behind.push_back((path, message)),
                Message::Data { .. } | Message::Parity { .. } => self.send_or_wait(now, path, message, store),
            }
        }
        if let Some(mtu) = self.endpoint.mtu() {
            self.config.mtu = mtu.as_u32();
        }
    }

    fn send_or_wait(&mut self, now: Instant, path: PathId, message: Message<u32>, store: &mut PacketStore) {
        // Linux: `sock_alloc_send_pskb` waits unless `sk_wmem_alloc` is below `sk_sndbuf`; one
        // packet may go beyond.
        let full = self.config.send_buffer.is_some_and(|limit| self.paths[usize::from(path.0)].charged >= limit);
        if full {
            self.blocked = Some((now, path, message));
        } else {
            self.send(path, message, store);
        }
    }

    fn send(&mut self, path: PathId, message: Message<u32>, store: &mut PacketStore) {
        let PathConfig { hop, ip_header, headers } = self.config.paths[usize::from(path.0)];
        let mut header = TunnelHeader { from: self.config.number, ..TunnelHeader::default() };
        let (number, headers) = match message {
            Message::Data { seq, packet } => {
                header.seq = seq;
                (packet, headers)
            }
            Message::Keepalive => {
                header.keepalive = true;
                // Never a number of its own, so four bytes of GRE.
                (store.hold_keepalive(KEEPALIVE), ip_header + 8 + 4)
            }
            Message::Parity { payload, .. } => {
                header.keepalive = true;
                (payload, headers - NUMBER)
            }
            Message::Report(report) => {
                header.keepalive = true;
                (store.hold_report(report), ip_header + 8 + 4)
            }
            Message::Probe(probe) => {
                header.keepalive = true;
                let size = if probe.is_answer { 0 } else { u32::from(probe.size) };
                (store.hold_probe(probe, size.saturating_sub(ip_header + 8 + 4)), ip_header + 8 + 4)
            }
        };
        let mut outer = Packet { hop, to: self.config.peer, path, df: true, ..Packet::blank() };
        store.encapsulate(&mut outer, number, headers, ip_header);
        if self.config.send_buffer.is_some() {
            header.charge = truesize(outer.ip_len);
            self.paths[usize::from(path.0)].charged += header.charge;
        }
        store.held(number).header = header;
        self.to_send.push_back(outer);
    }

    /// A packet of the other end has come.
    fn handle_outer(&mut self, now: Instant, outer: &Packet, store: &mut PacketStore) {
        let (path, number) = (outer.path, outer.handle);
        let inside = store.held(number);
        let len = Bytes::from_u32(inside.inner.ip_len);
        if inside.header.keepalive {
            let inner = inside.inner;
            if let Body::Parity { index } = inner.body {
                let parity = store.parity(&inner, index);
                self.endpoint.handle_outer(now, path, len, Message::Parity { parity, payload: number });
                self.recover(now, store);
                self.send_polled(now, store);
                self.reorder = self.endpoint.reorder_counters();
                return;
            }
            let message = match inner.body {
                Body::Report => Message::Report(store.report(&inner)),
                Body::Probe { is_answer, size, id } => Message::Probe(Probe { is_answer, size, id }),
                _ => Message::Keepalive,
            };
            store.forget_held(number);
            self.endpoint.handle_outer(now, path, len, message);
            // What it tells may make room.
            self.read_device(now, store);
            return;
        }
        let seq = inside.header.seq;
        if self.config.clamp_mss {
            let inner = inside.inner;
            store.clamp_mss(&inner, clamped_mss(Bytes::from_u32(self.config.mtu), V6));
        }
        let late = |counters: &ReorderCounters| counters.late_dropped + counters.late_delivered;
        let (dropped_before, late_before) = (self.dropped(), late(&self.reorder));
        self.endpoint.handle_outer(now, path, len, Message::Data { seq, packet: number });
        self.reorder = self.endpoint.reorder_counters();
        let dropped = self.dropped();
        self.recover(now, store);
        self.send_polled(now, store);
        let late_now = late(&self.reorder);
        self.reorder = self.endpoint.reorder_counters();
        // A rule drops what has just come or nothing.
        if dropped > dropped_before {
            store.forget_held(number);
        }
        self.paths[usize::from(path.0)].late += u64::from(late_now > late_before);
        self.given += 1;
        let waiting = self.given - self.reorder.delivered - dropped;
        self.counters.max_held_packets = self.counters.max_held_packets.max(waiting);
    }

    /// Packets that were not given on and will not be.
    fn dropped(&self) -> u64 {
        let late = self.endpoint.fec_counters().map_or(0, |fec| fec.recovered_late);
        dropped(&self.reorder) + self.endpoint.malformed_packets() + late
    }

    /// ICMP "fragmentation needed" about one of its own packets: the device takes shorter ones from
    /// now on, or the search has a hint.
    fn handle_too_big(&mut self, packet: &Packet, mtu: u16) {
        if self.endpoint.mtu().is_some() {
            return self.endpoint.handle_mtu_hint(packet.path, Bytes::new(u64::from(mtu)));
        }
        if let Some(path) = self.config.paths.get(usize::from(packet.path.0)) {
            self.config.mtu = self.config.mtu.min(u32::from(mtu).saturating_sub(path.headers)).max(LEAST_MTU);
        }
    }
}

impl Node for TunnelEnd {
    fn handle_packet(&mut self, now: Instant, packet: &Packet, hop: u32, store: &mut PacketStore) {
        match packet.body {
            _ if packet.to != self.config.number => self.handle_inner(now, packet, hop, store),
            Body::Encapsulated => self.handle_outer(now, packet, store),
            Body::Icmp { mtu, .. } => self.handle_too_big(packet, mtu),
            // Nothing else is sent to the end of a tunnel.
            Body::Tcp | Body::Datagram | Body::Report | Body::Probe { .. } | Body::Parity { .. } => store.forget(packet),
        }
        self.due = self.endpoint.poll_timeout();
    }

    fn mtu(&self) -> u32 {
        self.config.mtu
    }

    fn handle_released(&mut self, now: Instant, released: Released, store: &mut PacketStore) -> bool {
        let Some(path) = self.paths.get_mut(usize::from(released.path.0)) else { return false };
        path.charged = path.charged.saturating_sub(released.charge);
        path.lost += u64::from(released.lost);
        let Some((since, waits_for, message)) = self.blocked else { return false };
        // Linux: `sock_writeable` wakes a writer once less than half of the buffer is in use.
        let limit = self.config.send_buffer.unwrap_or(u32::MAX);
        if self.paths[usize::from(waits_for.0)].charged >= limit / 2 {
            return false;
        }
        self.counters.blocked += now.since(since);
        self.blocked = None;
        self.send(waits_for, message, store);
        self.read_device(now, store);
        self.due = self.endpoint.poll_timeout();
        true
    }

    fn poll_transmit(&mut self, now: Instant, store: &mut PacketStore) -> Option<Packet> {
        if self.due <= now {
            self.endpoint.handle_timeout(now);
            self.protect(now, store);
            self.reorder = self.endpoint.reorder_counters();
            self.read_device(now, store);
            self.due = self.endpoint.poll_timeout();
        }
        if let Some(number) = self.endpoint.poll_deliver() {
            return Some(store.take(number));
        }
        self.to_send.pop_front()
    }

    fn poll_timeout(&self) -> Instant {
        self.due
    }

    fn outcome(&self, now: Instant) -> Option<TunnelEndOutcome> {
        let mut counters = self.counters;
        counters.unsent_packets = self.endpoint.unsent_packets();
        counters.mtu = u64::from(self.config.mtu);
        counters.blocked += self.blocked.map_or(Duration::ZERO, |(since, ..)| now.since(since));
        let found = (0..self.paths.len()).map(|path| self.endpoint.path_mtu(PathId(path as u8)).map_or(0, |(mtu, _)| mtu.get()));
        let paths = self.endpoint.paths().zip(&self.paths).zip(found).map(|(((_, passed), own), mtu)| TunnelPathCounters {
            mtu,
            packets_sent: passed.packets_sent,
            bytes_sent: passed.bytes_sent,
            packets_received: passed.packets_received,
            bytes_received: passed.bytes_received,
            packets_lost: own.lost,
            packets_late: own.late,
            keepalives_sent: passed.keepalives_sent,
            keepalives_received: passed.keepalives_received,
            went_down: passed.went_down,
        });
        let (reorder, fec) = (self.endpoint.reorder_counters(), self.endpoint.fec_counters());
        Some(TunnelEndOutcome { counters, reorder, fec, paths: paths.collect() })
    }
}

/// The packets of the simulator's hosts have the lengths that IPv4 gives them.
const V6: bool = false;

/// Packets that the rule did not give on and will not.
fn dropped(counters: &ReorderCounters) -> u64 {
    counters.late_dropped + counters.duplicates
}

/// Bytes of a packet's number, which a parity does not have.
const NUMBER: u32 = 4;
/// Bytes of MPT's keepalive behind the GRE header.
pub(crate) const KEEPALIVE: u32 = 40;
/// IPv4's least MTU (RFC 791 section 3.2): no message makes the device narrower.
const LEAST_MTU: u32 = 68;

/// Bytes that Linux charges a socket for a packet to be sent (`skb->truesize`): the buffer in the
/// size in which memory is given out, and the description of the packet. 2304 for all from 1218 to
/// 1500 bytes, so that 92 and one more fit into the default buffer of 212992.
fn truesize(ip_len: u32) -> u32 {
    /// `struct sk_buff` and `struct skb_shared_info`, in whole cache lines.
    const DESCRIPTION: u32 = 256;
    const SHARED_INFO: u32 = 320;
    /// Room for the Ethernet header, and 15 bytes with which `__ip_append_data` asks for it.
    const LINK_HEADER: u32 = 16 + 15;
    let buffer = (ip_len + LINK_HEADER).next_multiple_of(64) + SHARED_INFO;
    buffer.next_power_of_two() + DESCRIPTION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_is_charged_as_linux_charges_it() {
        assert_eq!([1500, 1218].map(truesize), [2304; 2]);
        // An acknowledgement of 52 bytes in the tunnel.
        assert_eq!(truesize(88), 768);
        assert_eq!(212_992_u32.div_ceil(truesize(1500)), 93);
    }
}
