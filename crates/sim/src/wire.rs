//! The way of packets between endpoints: pipes, routes, and the event queue in which each pipe waits for its first packet.

use crate::fragments::Fragments;
use crate::network::Network;
use crate::packet::{CE, Extras, Kind, Packet, flow_number};
use crate::queue::{EventQueue, Source};
use crate::routes::Routes;
use polypath_base::{Instant, PathId};
use polypath_link::{Parcel, Verdict};
use polypath_wire::{Segment, Unreachable};

/// Bytes of an IPv4 header without options.
const IP_HEADER: u32 = 20;

/// Everything between the endpoints.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) queue: EventQueue,
    pub(crate) network: Network,
    pub(crate) routes: Routes,
    pub(crate) fragments: Fragments,
    pub(crate) extras: Extras,
    /// The first hop itself refused a packet: its sender is told without a packet.
    pub(crate) refused: Option<Unreachable>,
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

impl Wire {
    pub(crate) fn new(queue: EventQueue, network: Network, routes: Routes) -> Self {
        Self { queue, network, routes, fragments: Fragments::default(), extras: Extras::default(), refused: None }
    }

    /// The first packet of a pipe has reached its end: it goes on to the next pipe, or has arrived, and its segment is written
    /// out.
    #[inline]
    pub(crate) fn leave(&mut self, now: Instant, number: u32, segment: &mut Segment) -> Option<Arrival> {
        let pipe = &mut self.network.pipes[number as usize];
        if pipe.holds() {
            return self.leave_held(now, number, segment);
        }
        let (packet, next) = pipe.take();
        self.queue.set(Source(number), next);
        if let Some(next) = self.routes.step(packet.hop) {
            let packet = *packet;
            self.forward(now, next, &packet);
            return None;
        }
        packet.unpack(&self.extras, segment);
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
        self.extras.forget(packet.extra);
        arrival
    }

    /// A packet has been sent by a transmitter that chooses: it chooses the next one.
    #[inline(never)]
    fn leave_held(&mut self, now: Instant, number: u32, segment: &mut Segment) -> Option<Arrival> {
        let packet = *self.network.pipes[number as usize].take().0;
        self.serve(now, number);
        if let Some(next) = self.routes.step(packet.hop) {
            self.forward(now, next, &packet);
            return None;
        }
        packet.unpack(&self.extras, segment);
        Some(self.arrive(now, &packet))
    }

    /// A transmitter that chooses is free.
    fn serve(&mut self, now: Instant, number: u32) {
        let pipe = &mut self.network.pipes[number as usize];
        let leaves = pipe.serve(now);
        while let Some(extra) = pipe.take_dropped() {
            self.extras.forget(extra);
        }
        self.queue.set(Source(number), leaves);
    }

    /// As [`Wire::send`], not in line.
    #[inline(never)]
    pub(crate) fn send_apart(&mut self, now: Instant, number: u32, path: PathId, hop: u32, segment: &Segment) {
        self.send(now, number, path, hop, segment);
    }

    /// An endpoint sends on a path whose way begins at `hop`.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Instant, number: u32, path: PathId, hop: u32, segment: &Segment) {
        let Some(at) = self.routes.step(hop) else { return };
        let (to, len) = (number ^ 1, segment.ip_len());
        let parcel = Parcel { len, payload: segment.len > 0, df: segment.df, ect: segment.ecn != 0, flow: flow_number(to, path) };
        let pipe = &mut self.network.pipes[at as usize];
        let verdict = pipe.transit(now, parcel);
        let Verdict::Pass(leaves) = verdict else {
            if !matches!(verdict, Verdict::Drop(_)) {
                let mut packet = Packet::blank();
                packet.pack(segment);
                (packet.hop, packet.to, packet.len, packet.path) = (hop + 1, to, len, path);
                packet.extra = self.extras.keep(segment);
                self.enter_rarely(now, at, parcel, verdict, packet);
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
        place.extra = self.extras.keep(segment);
        if first {
            self.queue.set(Source(at), leaves);
        }
    }

    /// A packet goes on into the next pipe.
    fn forward(&mut self, now: Instant, number: u32, packet: &Packet) {
        let parcel = packet.parcel();
        let pipe = &mut self.network.pipes[number as usize];
        let verdict = pipe.transit(now, parcel);
        let Verdict::Pass(leaves) = verdict else {
            let mut packet = *packet;
            packet.hop += 1;
            return self.enter_rarely(now, number, parcel, verdict, packet);
        };
        let (place, first) = pipe.place(leaves);
        *place = *packet;
        place.leaves = leaves;
        place.hop += 1;
        if first {
            self.queue.set(Source(number), leaves);
        }
    }

    /// A packet enters a pipe and does not merely pass.
    #[inline(never)]
    fn enter_rarely(&mut self, now: Instant, number: u32, parcel: Parcel, verdict: Verdict, mut packet: Packet) {
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
                if pipe.keep(now, parcel, packet) {
                    self.serve(now, number);
                } else {
                    while let Some(extra) = pipe.take_dropped() {
                        self.extras.forget(extra);
                    }
                }
            }
            Verdict::Drop(_) => self.extras.forget(packet.extra),
            Verdict::TooBig { .. } | Verdict::Fragment { .. } => {
                self.refuse(now, number, &packet, verdict);
                self.extras.forget(packet.extra);
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
        (packet.kind, packet.extra) = (Kind::TooBig { mtu }, Extras::NONE);
        if let Some(pipe) = self.routes.step(hop) {
            return self.forward(now, pipe, &packet);
        }
        self.refused = Some(Unreachable { seq: packet.seq, mtu });
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
            part.extra = self.extras.copy(packet.extra);
            self.forward(now, pipe, &part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Ends;
    use crate::scenario::Scenario;
    use crate::topology::Topology;

    /// A wire from `a` over a router to `b`, whose second link passes 1000 bytes and splits what is longer.
    fn splitting() -> Wire {
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
        let routes = Routes::new(topology, vec![Ends { nodes: [0, 2], addresses: [vec![0], vec![0]], fixed: vec![] }]);
        Wire::new(EventQueue::new(network.pipes.len(), 1), network, routes)
    }

    /// What arrives of a segment sent at time zero: when, how long, and whether it makes the segment whole or is ICMP.
    fn arrivals(wire: &mut Wire, segment: &Segment) -> Vec<(u64, u32, bool)> {
        let hop = wire.routes.resolve(&wire.network, 0, PathId(0), (0, 0)).unwrap();
        wire.send(Instant::ZERO, 0, PathId(0), hop, segment);
        let mut seen = Vec::new();
        while let Some((now, Source(pipe))) = wire.queue.first() {
            let len = wire.network.pipes[pipe as usize].first().len;
            if let Some(arrival) = wire.leave(now, pipe, &mut Segment::default()) {
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
        let mut wire = splitting();
        assert_eq!(arrivals(&mut wire, &segment), [(996, 996, false), (1520, 524, true)]);
        let second = &wire.network.outcomes()[2];
        assert_eq!((second.packets, second.bytes, second.mtu_drops), (2, 1520, 0));
    }

    #[test]
    fn a_packet_with_df_is_answered_by_icmp() {
        let segment = Segment { len: 1460, df: true, window_scale: 255, ..Segment::default() };
        let mut wire = splitting();
        assert_eq!(arrivals(&mut wire, &segment), [(0, 576, true)]);
        let outcomes = wire.network.outcomes();
        assert_eq!((outcomes[2].packets, outcomes[2].mtu_drops, outcomes[1].packets), (0, 1, 1));
    }
}
