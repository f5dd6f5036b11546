//! The data plane: pipes, routes, and the event queue in which each pipe waits for its first packet.

use crate::fragments::Fragments;
use crate::network::Network;
use crate::packet::{CE, ColdFields, Kind, Packet, flow_number};
use crate::queue::{EventQueue, Source};
use crate::routes::Routes;
use polypath_base::{Instant, PathId};
use polypath_link::{PacketMeta, Verdict};
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
    pub(crate) cold_fields: ColdFields,
    /// ICMP "fragmentation needed" from the sender's own first hop: the endpoint learns of it without a packet.
    pub(crate) local_ptb: Option<Unreachable>,
}

/// A packet that has arrived.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Arrival {
    /// The endpoint, and the path on which it came.
    pub(crate) to: u32,
    pub(crate) path: PathId,
    pub(crate) what: Arrived,
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum Arrived {
    /// A segment, whole now.
    Segment,
    /// A part of a segment of which others are missing.
    Part,
    TooBig(Unreachable),
}

impl DataPlane {
    pub(crate) fn new(queue: EventQueue, network: Network, routes: Routes) -> Self {
        Self { queue, network, routes, fragments: Fragments::default(), cold_fields: ColdFields::default(), local_ptb: None }
    }

    /// The first packet of a pipe has reached its end: it goes on to the next pipe, or has arrived, and its segment is written
    /// out.
    #[inline]
    pub(crate) fn dequeue(&mut self, now: Instant, number: u32, segment: &mut Segment) -> Option<Arrival> {
        let pipe = &mut self.network.pipes[number as usize];
        if pipe.holds() {
            return self.dequeue_aqm(now, number, segment);
        }
        let (packet, next) = pipe.take();
        self.queue.set(Source(number), next);
        if let Some(next) = self.routes.step(packet.hop) {
            let packet = *packet;
            self.forward(now, next, &packet);
            return None;
        }
        packet.unpack(&self.cold_fields, segment);
        let packet = *packet;
        Some(self.arrive(now, &packet))
    }

    /// A packet has arrived, and its segment has been written out.
    #[inline]
    fn arrive(&mut self, now: Instant, packet: &Packet) -> Arrival {
        let what = match packet.kind {
            Kind::Segment => Arrived::Segment,
            Kind::TooBig { mtu } => Arrived::TooBig(Unreachable { seq: packet.seq, mtu }),
            Kind::Fragment { id } if self.fragments.arrive(now, id, packet.len - IP_HEADER) => Arrived::Segment,
            Kind::Fragment { .. } => Arrived::Part,
        };
        let arrival = Arrival { to: packet.to, path: packet.path, what };
        self.cold_fields.forget(packet.cold);
        arrival
    }

    /// The packet that an AQM transmitter was sending has left: the transmitter takes the next one.
    #[inline(never)]
    fn dequeue_aqm(&mut self, now: Instant, number: u32, segment: &mut Segment) -> Option<Arrival> {
        let packet = *self.network.pipes[number as usize].take().0;
        self.serve(now, number);
        if let Some(next) = self.routes.step(packet.hop) {
            self.forward(now, next, &packet);
            return None;
        }
        packet.unpack(&self.cold_fields, segment);
        Some(self.arrive(now, &packet))
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
        while let Some(dropped) = pipe.take_dropped() {
            self.cold_fields.forget(dropped.cold);
        }
        self.queue.set(Source(number), due);
    }

    /// As [`DataPlane::send`], not in line.
    #[inline(never)]
    pub(crate) fn send_outlined(&mut self, now: Instant, number: u32, path: PathId, hop: u32, segment: &Segment) {
        self.send(now, number, path, hop, segment);
    }

    /// An endpoint sends on a path whose route begins at `hop`.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Instant, number: u32, path: PathId, hop: u32, segment: &Segment) {
        let Some(at) = self.routes.step(hop) else { return };
        let (to, len) = (number ^ 1, segment.ip_len());
        let meta = PacketMeta { len, payload: segment.len > 0, df: segment.df, ect: segment.ecn != 0, flow: flow_number(to, path) };
        let pipe = &mut self.network.pipes[at as usize];
        let verdict = pipe.transit(now, meta);
        let Verdict::Pass(leaves) = verdict else {
            if !matches!(verdict, Verdict::Drop(_)) {
                let mut packet = Packet::blank();
                packet.pack(segment);
                (packet.hop, packet.to, packet.len, packet.path) = (hop + 1, to, len, path);
                packet.cold = self.cold_fields.keep(segment);
                self.enqueue_slow_path(now, at, meta, verdict, packet);
            }
            return;
        };
        let (place, first) = pipe.place(leaves);
        place.pack(segment);
        place.leaves = leaves;
        place.hop = hop + 1;
        place.to = to;
        place.len = len;
        place.path = path;
        place.kind = Kind::Segment;
        place.cold = self.cold_fields.keep(segment);
        if first {
            self.queue.set(Source(at), leaves);
        }
    }

    /// A packet goes on into the next pipe.
    fn forward(&mut self, now: Instant, number: u32, packet: &Packet) {
        let meta = packet.meta();
        let pipe = &mut self.network.pipes[number as usize];
        let verdict = pipe.transit(now, meta);
        let Verdict::Pass(leaves) = verdict else {
            let mut packet = *packet;
            packet.hop += 1;
            return self.enqueue_slow_path(now, number, meta, verdict, packet);
        };
        let (place, first) = pipe.place(leaves);
        *place = *packet;
        place.leaves = leaves;
        place.hop += 1;
        if first {
            self.queue.set(Source(number), leaves);
        }
    }

    /// A packet enters a pipe and does not simply pass: it is marked, held, dropped or too long.
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
            Verdict::Held => {
                if pipe.hold(now, meta, packet) {
                    self.serve(now, number);
                } else {
                    while let Some(dropped) = pipe.take_dropped() {
                        self.cold_fields.forget(dropped.cold);
                    }
                }
            }
            Verdict::Drop(_) => self.cold_fields.forget(packet.cold),
            Verdict::TooBig { .. } | Verdict::Fragment { .. } => {
                self.refuse(now, number, &packet, verdict);
                self.cold_fields.forget(packet.cold);
            }
        }
    }

    /// A packet that is too long for a pipe.
    #[cold]
    fn refuse(&mut self, now: Instant, number: u32, packet: &Packet, verdict: Verdict) {
        match verdict {
            Verdict::TooBig { mtu } => self.answer(now, packet, mtu),
            Verdict::Fragment { mtu } => self.split(now, number, packet, mtu),
            Verdict::Pass(_) | Verdict::Mark(_) | Verdict::Held | Verdict::Drop(_) => {}
        }
    }

    /// Sends ICMP "fragmentation needed" back to the sender of a packet.
    fn answer(&mut self, now: Instant, refused: &Packet, mtu: u32) {
        if let Kind::TooBig { .. } = refused.kind {
            // RFC 1812 section 4.3.2.7: no ICMP error about an ICMP error.
            return;
        }
        // RFC 1812 section 4.3.2.3: as much of the packet as fits in 576 bytes, behind 20 bytes of IP and 8 of ICMP.
        let len = (refused.len + 28).min(576);
        let hop = self.routes.back(refused.hop - 1);
        let mut packet = *refused;
        (packet.hop, packet.to, packet.len) = (hop, refused.to ^ 1, len);
        (packet.kind, packet.cold) = (Kind::TooBig { mtu }, ColdFields::NONE);
        if let Some(pipe) = self.routes.step(hop) {
            return self.forward(now, pipe, &packet);
        }
        self.local_ptb = Some(Unreachable { seq: packet.seq, mtu });
    }

    /// Splits a packet before an MTU (RFC 791 section 3.2); the parts then pass one after the other.
    fn split(&mut self, now: Instant, pipe: u32, packet: &Packet, mtu: u32) {
        self.network.pipes[pipe as usize].withdraw(packet.len);
        let mut left = packet.len - IP_HEADER;
        let kind = match packet.kind {
            Kind::Fragment { .. } => packet.kind,
            _ => Kind::Fragment { id: self.fragments.begin(now, left) },
        };
        // All but the last carry a multiple of eight bytes.
        let most = (mtu - IP_HEADER) & !7;
        while left > 0 {
            let bytes = left.min(most);
            left -= bytes;
            let mut part = *packet;
            (part.len, part.kind, part.hop) = (bytes + IP_HEADER, kind, packet.hop - 1);
            part.cold = self.cold_fields.copy(packet.cold);
            self.forward(now, pipe, &part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::FlowAddresses;
    use crate::scenario::Scenario;
    use crate::topology::Topology;

    /// A data plane from `a` over a router to `b`, whose second link passes 1000 bytes and splits what is longer.
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
        let network = Network::new(&scenario, &topology).unwrap();
        let routes = Routes::new(topology, vec![FlowAddresses { nodes: [0, 2], addresses: [vec![0], vec![0]], fixed: vec![] }]);
        DataPlane::new(EventQueue::new(network.pipes.len(), 1), network, routes)
    }

    /// What arrives of a segment sent at time zero: when, how long, and whether it makes the segment whole or is ICMP.
    fn arrivals(data_plane: &mut DataPlane, segment: &Segment) -> Vec<(u64, u32, bool)> {
        let hop = data_plane.routes.resolve(&data_plane.network, 0, PathId(0), (0, 0)).unwrap();
        data_plane.send(Instant::ZERO, 0, PathId(0), hop, segment);
        let mut seen = Vec::new();
        while let Some((now, Source(pipe))) = data_plane.queue.first() {
            let len = data_plane.network.pipes[pipe as usize].first().expect("it is due").len;
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
        assert_eq!((second.packets, second.bytes, second.mtu_drops), (2, 1520, 0));
    }

    #[test]
    fn a_packet_with_df_is_answered_by_icmp() {
        let segment = Segment { len: 1460, df: true, window_scale: 255, ..Segment::default() };
        let mut data_plane = splitting();
        assert_eq!(arrivals(&mut data_plane, &segment), [(0, 576, true)]);
        let outcomes = data_plane.network.outcomes();
        assert_eq!((outcomes[2].packets, outcomes[2].mtu_drops, outcomes[1].packets), (0, 1, 1));
    }
}
