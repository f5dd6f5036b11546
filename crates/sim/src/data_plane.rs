//! The data plane: pipes, routes, nodes that are no endpoints ([`nodes`]), and the event queue in
//! which each pipe waits for its first packet.

mod nodes;

use crate::capture::Captures;
use crate::fragments::{self, Fragments};
use crate::network::Network;
use crate::nodes::Node;
use crate::packet::{Body, CE, Packet, PacketStore, flow_number};
use crate::queue::{EventQueue, Source};
use crate::routes::{Next, Routes};
use polypath_base::{Bytes, Instant, PathId};
use polypath_link::{PacketMeta, PipeStage, Verdict};
use polypath_transport::udp::Datagram;
use polypath_wire::{Segment, Unreachable};

/// Bytes of an IPv4 header without options.
const IP_HEADER: u32 = 20;

/// Everything between the endpoints.
#[derive(Debug)]
pub(crate) struct DataPlane {
    pub(crate) queue: EventQueue,
    pub(crate) network: Network,
    pub(crate) routes: Routes,
    pub(crate) fragments: Fragments,
    pub(crate) store: PacketStore,
    /// Those behind the endpoints, by number.
    nodes: Vec<Box<dyn Node>>,
    /// By node: it is in the middle of [`DataPlane::poll_node`].
    polled: Vec<bool>,
    /// By node: when its entry in the queue is due.
    due: Vec<Instant>,
    /// ICMP "fragmentation needed" from the sender's own first hop: the endpoint learns of it
    /// without a packet.
    pub(crate) local_ptb: Option<Unreachable>,
    /// The datagram that has arrived last. Not in [`Arrived`], so that the arrival of a segment
    /// stays a few registers.
    pub(crate) datagram: Datagram,
    /// What is written down of the packets that meet a tap.
    pub(crate) captures: Captures,
    /// Segments go through bytes on their first link, and are counted here.
    #[cfg(test)]
    pub(crate) through_bytes: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
}

/// A packet that has arrived at an endpoint.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Arrival {
    /// The endpoint, and its number of the path on which the packet came.
    pub(crate) to: u32,
    pub(crate) path: PathId,
    pub(crate) what: Arrived,
    /// Another packet for the same endpoint arrives behind it at the same instant: the host's
    /// applications run after that (Linux: packets are handled in a softirq).
    pub(crate) more: bool,
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum Arrived {
    /// A segment, whole now, which has been written out.
    Segment,
    /// A datagram, which is in [`DataPlane::datagram`].
    Datagram,
    /// A part of a packet of which others are missing.
    Part,
    TooBig(Unreachable),
}

impl DataPlane {
    /// `queue` has a source for each pipe and then one for each endpoint and node.
    pub(crate) fn new(queue: EventQueue, network: Network, routes: Routes, nodes: Vec<Box<dyn Node>>) -> Self {
        Self {
            queue,
            network,
            routes,
            fragments: Fragments::default(),
            store: PacketStore::new(),
            polled: vec![false; nodes.len()],
            due: nodes.iter().map(|node| node.poll_timeout()).collect(),
            nodes,
            local_ptb: None,
            datagram: Datagram::default(),
            captures: Captures::default(),
            #[cfg(test)]
            through_bytes: None,
        }
    }

    /// The first packet of a pipe has reached its end: it goes on to the next pipe or node, or has
    /// arrived at an endpoint, and its segment is written out.
    #[inline]
    pub(crate) fn dequeue(&mut self, now: Instant, number: u32, segment: &mut Segment) -> Option<Arrival> {
        let pipe = &mut self.network.pipes[number as usize];
        if pipe.enqueues() {
            return self.dequeue_aqm(now, number, segment);
        }
        let (packet, next) = pipe.take();
        // All that leaves it at one time leaves in one go.
        if next != now {
            self.queue.set(Source(number), next);
        }
        match self.routes.next(packet.hop) {
            Next::Pipe(next) => {
                let packet = *packet;
                self.forward(now, next, packet.hop, &packet);
                None
            }
            Next::Node(node, path) => {
                if packet.body == Body::Tcp && packet.fragment == 0 && node < self.routes.endpoints() {
                    packet.unpack(&self.store, segment);
                    self.store.forget_segment(packet.handle);
                    let more = next == now && is_followed(pipe, node);
                    return Some(Arrival { to: node, path, what: Arrived::Segment, more });
                }
                let packet = *packet;
                let more = next == now && is_followed(pipe, packet.to);
                self.arrive(now, node, path, &packet, segment).map(|arrival| Arrival { more, ..arrival })
            }
        }
    }

    /// A packet has arrived at a node, and is no whole segment for an endpoint, or it has come to a
    /// tap.
    #[inline(never)]
    fn arrive(&mut self, now: Instant, node: u32, path: PathId, packet: &Packet, segment: &mut Segment) -> Option<Arrival> {
        if let Some(tap) = Routes::tap(node) {
            self.pass_tap(now, tap, packet);
            let hop = packet.hop + 1;
            return match self.routes.next(hop) {
                Next::Pipe(next) => {
                    self.forward(now, next, hop, packet);
                    None
                }
                Next::Node(node, path) => self.arrive(now, node, path, &Packet { hop, ..*packet }, segment),
            };
        }
        if node >= self.routes.endpoints() {
            self.visit(now, node, packet.hop + 1, packet);
            return None;
        }
        let whole = packet.fragment == 0 || { self.fragments.arrive(now, fragments::id(packet.fragment), packet.ip_len - IP_HEADER) };
        let what = match packet.body {
            _ if !whole => Arrived::Part,
            Body::Tcp => {
                packet.unpack(&self.store, segment);
                Arrived::Segment
            }
            Body::Datagram => {
                self.datagram = self.store.datagram(packet);
                Arrived::Datagram
            }
            Body::Icmp { mtu, .. } => Arrived::TooBig(Unreachable { seq: packet.seq, mtu: u32::from(mtu) }),
            // An endpoint has no use for a packet in a packet.
            Body::Encapsulated | Body::Report | Body::Probe { .. } | Body::Parity { .. } => Arrived::Part,
        };
        self.store.forget(packet);
        Some(Arrival { to: node, path, what, more: false })
    }

    /// A packet passes a tap: it is written down, or its sender learns that it has left.
    fn pass_tap(&mut self, now: Instant, tap: usize, packet: &Packet) {
        if !Routes::is_release(tap) {
            return self.captures.record(now, tap, packet, &self.store, &self.routes, &self.network);
        }
        if packet.body == Body::Encapsulated {
            let released = self.store.discharge(packet);
            if released.charge > 0 {
                self.release(now, released);
            }
        }
    }

    /// The packet that an AQM transmitter was sending has left: the transmitter takes the next one.
    #[inline(never)]
    fn dequeue_aqm(&mut self, now: Instant, number: u32, segment: &mut Segment) -> Option<Arrival> {
        let packet = *self.network.pipes[number as usize].take().0;
        self.serve(now, number);
        match self.routes.next(packet.hop) {
            Next::Pipe(next) => {
                self.forward(now, next, packet.hop, &packet);
                None
            }
            Next::Node(node, path) => self.arrive(now, node, path, &packet, segment),
        }
    }

    /// An AQM transmitter is free.
    fn serve(&mut self, now: Instant, number: u32) {
        let pipe = &mut self.network.pipes[number as usize];
        let mut due = Instant::NEVER;
        if let Some((mut packet, leaves, marked)) = pipe.transmit_next(now) {
            packet.leaves = leaves;
            if marked {
                packet.ecn = CE;
            }
            *pipe.place(leaves).0 = packet;
            due = leaves;
        }
        self.forget_dropped(now, number);
        self.queue.set(Source(number), due);
    }

    fn forget_dropped(&mut self, now: Instant, number: u32) {
        while let Some(dropped) = self.network.pipes[number as usize].take_dropped() {
            self.drop_packet(now, &dropped);
        }
    }

    /// A packet is sent at the place `hop` of the list of hops, where there may be taps before a
    /// pipe. False if there is no pipe.
    fn begin(&mut self, now: Instant, packet: &Packet) -> bool {
        let mut hop = packet.hop;
        loop {
            match self.routes.next(hop) {
                Next::Pipe(pipe) => {
                    self.forward(now, pipe, hop, packet);
                    return true;
                }
                Next::Node(node, _) => {
                    hop += 1;
                    if let Some(tap) = Routes::tap(node) {
                        self.pass_tap(now, tap, packet);
                    } else if node >= self.routes.endpoints() {
                        self.visit(now, node, hop, packet);
                        return true;
                    } else {
                        return false;
                    }
                }
            }
        }
    }

    /// As [`DataPlane::send`], not in line.
    #[inline(never)]
    pub(crate) fn send_outlined(&mut self, now: Instant, to: u32, path: PathId, hop: u32, segment: &Segment) {
        self.send(now, to, path, hop, segment);
    }

    /// An endpoint sends a segment to another on a path whose route begins at `hop`.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Instant, to: u32, path: PathId, hop: u32, segment: &Segment) {
        let Next::Pipe(at) = self.routes.next(hop) else { return self.send_tapped(now, to, path, hop, segment) };
        #[cfg(test)]
        let segment = &crate::through_bytes::carried(self.through_bytes.as_deref(), to, path, segment);
        let ip_len = segment.ip_len();
        let meta = PacketMeta {
            len: Bytes::from_u32(ip_len),
            payload: segment.len > 0,
            df: segment.df,
            ect: segment.ecn != 0,
            l4s: segment.ecn & 1 != 0,
            flow: flow_number(to, path),
        };
        let pipe = &mut self.network.pipes[at as usize];
        let verdict = pipe.transit(now, meta);
        let Verdict::Pass(leaves) = verdict else {
            if !matches!(verdict, Verdict::Drop(_)) {
                let mut packet = Packet::blank();
                packet.pack(segment);
                (packet.hop, packet.to, packet.ip_len, packet.path) = (hop + 1, to, ip_len, path);
                packet.handle = self.store.keep(segment);
                self.enqueue_slow_path(now, at, meta, verdict, packet);
            }
            return;
        };
        let (place, first) = pipe.place(leaves);
        place.pack(segment);
        place.leaves = leaves;
        place.path = path;
        place.hop = hop + 1;
        place.to = to;
        place.ip_len = ip_len;
        place.handle = self.store.keep(segment);
        place.body = Body::Tcp;
        place.fragment = 0;
        if first {
            self.queue.set(Source(at), leaves);
        }
    }

    /// As [`DataPlane::send`], where a tap stands before the first pipe.
    #[cold]
    #[inline(never)]
    fn send_tapped(&mut self, now: Instant, to: u32, path: PathId, hop: u32, segment: &Segment) {
        #[cfg(test)]
        let segment = &crate::through_bytes::carried(self.through_bytes.as_deref(), to, path, segment);
        let mut packet = Packet::blank();
        packet.pack(segment);
        (packet.hop, packet.to, packet.ip_len, packet.path) = (hop, to, segment.ip_len(), path);
        packet.handle = self.store.keep(segment);
        if !self.begin(now, &packet) {
            self.store.forget(&packet);
        }
    }

    /// An endpoint sends a datagram, as [`DataPlane::send`] a segment. Routers may split it.
    pub(crate) fn send_datagram(&mut self, now: Instant, to: u32, path: PathId, hop: u32, datagram: Datagram) {
        let mut packet = Packet { path, hop, to, ..Packet::blank() };
        self.store.put_datagram(&mut packet, datagram);
        if !self.begin(now, &packet) {
            self.store.forget(&packet);
        }
    }

    /// A packet goes on into the next pipe, which stands at the place `hop` of the list of hops,
    /// whatever its own says.
    fn forward(&mut self, now: Instant, number: u32, hop: u32, packet: &Packet) {
        let meta = packet.meta();
        let pipe = &mut self.network.pipes[number as usize];
        let verdict = pipe.transit(now, meta);
        let Verdict::Pass(leaves) = verdict else {
            return self.enqueue_slow_path(now, number, meta, verdict, Packet { hop: hop + 1, ..*packet });
        };
        let (place, first) = pipe.place(leaves);
        *place = *packet;
        place.leaves = leaves;
        place.hop = hop + 1;
        if first {
            self.queue.set(Source(number), leaves);
        }
    }

    /// A packet enters a pipe and does not simply pass: it is marked, enqueued, dropped or too
    /// long.
    #[inline(never)]
    fn enqueue_slow_path(&mut self, now: Instant, number: u32, meta: PacketMeta, verdict: Verdict, mut packet: Packet) {
        let pipe = &mut self.network.pipes[number as usize];
        match verdict {
            Verdict::Pass(leaves) | Verdict::Mark(leaves) => {
                let (place, first) = pipe.place(leaves);
                if let Verdict::Mark(_) = verdict {
                    packet.ecn = CE;
                }
                *place = packet;
                place.leaves = leaves;
                if first {
                    self.queue.set(Source(number), leaves);
                }
            }
            Verdict::Enqueue => {
                if pipe.hold(now, meta, packet) {
                    self.serve(now, number);
                } else {
                    self.forget_dropped(now, number);
                }
            }
            Verdict::Drop(_) => self.drop_packet(now, &packet),
            Verdict::TooBig { mtu } => {
                self.answer(now, &packet, mtu.as_u32());
                self.drop_packet(now, &packet);
            }
            Verdict::Fragment { mtu } => {
                self.split(now, number, &packet, mtu.as_u32());
                self.drop_packet(now, &packet);
            }
        }
    }

    /// Sends ICMP "fragmentation needed" back to the sender of a packet.
    #[cold]
    fn answer(&mut self, now: Instant, refused: &Packet, mtu: u32) {
        if let Body::Icmp { .. } = refused.body {
            // RFC 1812 section 4.3.2.7: no ICMP error about an ICMP error.
            return;
        }
        // RFC 1812 section 4.3.2.3: as much of the packet as fits in 576 bytes, behind 20 bytes of
        // IP and 8 of ICMP.
        let ip_len = (refused.ip_len + 28).min(576);
        let hop = self.routes.back(refused.hop - 1);
        let mut packet = *refused;
        (packet.hop, packet.to, packet.ip_len) = (hop, self.routes.sender_of(refused.hop - 1), ip_len);
        let answer = Body::Icmp { mtu: u16::try_from(mtu).unwrap_or(u16::MAX), from: hop };
        (packet.body, packet.handle, packet.fragment) = (answer, PacketStore::NONE, 0);
        if self.begin(now, &packet) {
            return;
        }
        self.local_ptb = Some(Unreachable { seq: packet.seq, mtu });
    }

    /// Splits a packet before an MTU (RFC 791 section 3.2); the parts then pass one after the
    /// other.
    #[cold]
    fn split(&mut self, now: Instant, pipe: u32, packet: &Packet, mtu: u32) {
        self.network.pipes[pipe as usize].withdraw(Bytes::from_u32(packet.ip_len));
        for part in self.parts(now, packet, mtu) {
            self.forward(now, pipe, part.hop - 1, &part);
        }
    }

    /// The parts of a packet that is longer than an MTU.
    #[cold]
    fn parts(&mut self, now: Instant, packet: &Packet, mtu: u32) -> Vec<Packet> {
        let mut parts = Vec::new();
        let mut left = packet.ip_len - IP_HEADER;
        let id = if packet.fragment == 0 { self.fragments.begin(now, left) } else { fragments::id(packet.fragment) };
        let mut offset = fragments::offset(packet.fragment);
        // All but the last carry a multiple of eight bytes.
        let most = (mtu - IP_HEADER) & !7;
        while left > 0 {
            let bytes = left.min(most);
            left -= bytes;
            let mut part = *packet;
            (part.ip_len, part.fragment) = (bytes + IP_HEADER, fragments::part(id, offset));
            offset += bytes;
            part.handle = self.store.copy(packet);
            parts.push(part);
        }
        parts
    }
}

/// The first packet of a pipe is a whole segment for this endpoint.
#[cold]
fn is_followed(pipe: &PipeStage<Packet>, endpoint: u32) -> bool {
    pipe.first().is_some_and(|packet| packet.to == endpoint && packet.body == Body::Tcp && packet.fragment == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::FlowAddresses;
    use crate::scenario::Scenario;
    use crate::topology::Topology;

    /// A data plane from `a` over a router to `b`, whose second link passes 1000 bytes and splits
    /// what is longer.
    fn splitting() -> DataPlane {
        let scenario: Scenario = serde_json::from_value(serde_json::json!({
            "seed": 1, "duration_ns": 1, "nodes": [{"name": "a"}, {"name": "r", "router": true}, {"name": "b"}],
            "links": [
                {"name": "first", "a": {"node": "a", "address": "1"}, "b": {"node": "r", "address": "2"}},
                {"name": "second", "a": {"node": "r", "address": "3"}, "b": {"node": "b", "address": "4"},
                 "a_to_b": [{"kind": "mtu", "bytes": 1000, "oversize": "fragment"},
                            {"kind": "rate", "bits_per_s": 8_000_000, "queue": {"packets": 9}, "framing_bytes": 0}]}
            ],
            "flows": []
        }))
        .unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let network = Network::new(&scenario, &topology, &[]).unwrap();
        let routes = Routes::new(topology, vec![FlowAddresses { nodes: [0, 2], addresses: [vec![0], vec![0]], fixed: vec![] }]);
        DataPlane::new(EventQueue::new(network.pipes.len(), 4), network, routes, vec![])
    }

    /// What arrives of a segment sent at time zero: when, how long, and whether it makes the
    /// segment whole or is ICMP.
    fn arrivals(data_plane: &mut DataPlane, segment: &Segment) -> Vec<(u64, u32, bool)> {
        let hop = data_plane.routes.resolve(&data_plane.network, 0, PathId(0), (0, 0)).unwrap();
        data_plane.send(Instant::ZERO, 1, PathId(0), hop, segment);
        let mut seen = Vec::new();
        while let Some((now, Source(pipe))) = data_plane.queue.first() {
            let len = data_plane.network.pipes[pipe as usize].first().expect("it is due").ip_len;
            if let Some(arrival) = data_plane.dequeue(now, pipe, &mut Segment::default()) {
                let whole = matches!(arrival.what, Arrived::Segment | Arrived::TooBig(Unreachable { mtu: 1000, .. }));
                seen.push((now.as_micros(), len, whole));
            }
        }
        seen
    }

    #[test]
    fn a_packet_without_df_is_split_and_put_together() {
        // 1500 bytes carry 1480 behind the header: 976, a multiple of eight, and 504.
        let segment = Segment { len: 1460, df: false, window_scale: 255, ..Segment::default() };
        let mut data_plane = splitting();
        assert_eq!(arrivals(&mut data_plane, &segment), [(996, 996, false), (1520, 524, true)]);
        let second = &data_plane.network.outcomes()[2];
        assert_eq!((second.counters.packets, second.counters.bytes, second.counters.mtu_drops), (2, 1520, 0));
    }

    #[test]
    fn a_packet_with_df_is_answered_by_icmp() {
        let segment = Segment { len: 1460, df: true, window_scale: 255, ..Segment::default() };
        let mut data_plane = splitting();
        assert_eq!(arrivals(&mut data_plane, &segment), [(0, 576, true)]);
        let outcomes = data_plane.network.outcomes();
        assert_eq!((outcomes[2].counters.packets, outcomes[2].counters.mtu_drops, outcomes[1].counters.packets), (0, 1, 1));
    }
}
