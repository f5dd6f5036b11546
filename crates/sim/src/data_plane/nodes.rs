//! What comes to nodes that are no endpoints, and what they send: routers that hold packets, and
//! the ends of tunnels, whose sockets learn when a packet of theirs is gone.

use super::DataPlane;
use crate::outcome::TunnelEndOutcome;
use crate::packet::{Body, Packet, Released};
use crate::queue::Source;
use polypath_base::Instant;

impl DataPlane {
    /// A tunnel's packet is out of its sender's socket buffer.
    pub(super) fn release(&mut self, now: Instant, released: Released) {
        if let Some(index) = released.from.checked_sub(self.routes.endpoints()) {
            let node = &mut self.nodes[index as usize];
            if node.handle_released(now, released, &mut self.store) || node.poll_timeout() <= now {
                self.poll_node(now, released.from);
            }
        }
    }

    /// A packet is forgotten; where it was a tunnel's, its sender learns of it.
    pub(super) fn drop_packet(&mut self, now: Instant, packet: &Packet) {
        self.store.forget(packet);
        if packet.body == Body::Encapsulated {
            self.release_dropped(now);
        }
    }

    #[cold]
    fn release_dropped(&mut self, now: Instant) {
        while let Some(dropped) = self.store.poll_dropped() {
            self.release(now, dropped);
        }
    }

    /// A packet comes to a node that is no endpoint, and goes on at the place `hop` behind it.
    /// Nodes get parts as they come, and answer what is too long for them, or split it, as routers
    /// do (RFC 1812 section 4.2.2.7).
    pub(super) fn visit(&mut self, now: Instant, number: u32, hop: u32, packet: &Packet) {
        let index = (number - self.routes.endpoints()) as usize;
        let mtu = self.nodes[index].mtu();
        if packet.ip_len <= mtu || packet.to == number {
            self.nodes[index].handle_packet(now, packet, hop, &mut self.store);
        } else if packet.meta().df {
            self.answer(now, &Packet { hop, ..*packet }, mtu);
            self.drop_packet(now, packet);
        } else {
            for part in self.parts(now, packet, mtu) {
                self.nodes[index].handle_packet(now, &part, hop, &mut self.store);
            }
            self.drop_packet(now, packet);
        }
        self.poll_node(now, number);
    }

    /// What the nodes that are no endpoints have to say at the end of a run.
    pub(crate) fn node_outcomes(&self, now: Instant) -> Vec<TunnelEndOutcome> {
        self.nodes.iter().filter_map(|node| node.outcome(now)).collect()
    }

    /// Sends what a node that is no endpoint has to send, and notes its timeout. To be called when
    /// that is due.
    pub(crate) fn poll_node(&mut self, now: Instant, number: u32) {
        let index = (number - self.routes.endpoints()) as usize;
        if std::mem::replace(&mut self.polled[index], true) {
            // What it sends is being sent: the loop below goes on with what has come to it
            // meanwhile.
            return;
        }
        while let Some(packet) = self.nodes[index].poll_transmit(now, &mut self.store) {
            // Between a node and an endpoint there is a pipe, if only an empty one.
            if !self.begin(now, &packet) {
                self.drop_packet(now, &packet);
            }
        }
        self.polled[index] = false;
        let due = self.nodes[index].poll_timeout();
        // Most packets change nothing about when a node's timer is due.
        if due != self.due[index] {
            self.due[index] = due;
            self.queue.set(Source(self.network.pipes.len() as u32 + number), due);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::data_plane::{Arrived, DataPlane};
    use crate::network::Network;
    use crate::nodes::Node;
    use crate::nodes::tests::{Decapsulator, Encapsulator};
    use crate::queue::{EventQueue, Source};
    use crate::routes::{FlowAddresses, Next, Routes};
    use crate::scenario::Scenario;
    use crate::topology::Topology;
    use polypath_base::{Bytes, Duration, Instant, PathId, Seq};
    use polypath_transport::udp::Datagram;
    use polypath_wire::Segment;

    /// Two routers between hosts hold packets: what `a` sends goes through a tunnel between them,
    /// in packets of its own.
    #[test]
    fn a_node_holds_packets_and_sends_them_in_packets_at_its_timer() {
        let link = |name: &str, a: &str, b: &str| {
            let end = |node: &str| serde_json::json!({"node": node, "address": format!("{name}-{node}")});
            let rate = serde_json::json!([{"kind": "rate", "bits_per_s": 8_000_000, "queue": {"packets": 9}, "framing_bytes": 0}]);
            serde_json::json!({"name": name, "a": end(a), "b": end(b), "a_to_b": rate, "b_to_a": rate})
        };
        let scenario: Scenario = serde_json::from_value(serde_json::json!({
            "seed": 1, "duration_ns": 1, "flows": [],
            "nodes": [{"name": "a"}, {"name": "r"}, {"name": "s"}, {"name": "b"}],
            "links": [link("first", "a", "r"), link("tunnel", "r", "s"), link("last", "s", "b")]
        }))
        .unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let network = Network::new(&scenario, &topology, &[]).unwrap();
        assert_eq!(network.pipes.len(), 6, "two a link");
        let mut routes = Routes::new(topology, vec![FlowAddresses { nodes: [0, 3], addresses: [vec![0], vec![0]], fixed: vec![] }]);
        // Endpoints are nodes 0 and 1; the tunnel's ends are 2 and 3.
        let path = PathId(0);
        let hop = routes.add(&[Next::Pipe(0), Next::Node(2, path), Next::Pipe(4), Next::Node(1, path)]);
        let tunnel = routes.add(&[Next::Pipe(2), Next::Node(3, path)]);
        let entrance = Encapsulator::new(Duration::from_millis(10), tunnel, 3);
        let nodes: Vec<Box<dyn Node>> = vec![Box::new(entrance), Box::new(Decapsulator::default())];
        let mut data_plane = DataPlane::new(EventQueue::new(network.pipes.len(), 4), network, routes, nodes);
        let datagram = |number| Datagram { number, sent_at: Instant::ZERO, len: Bytes::new(172) };
        let segment = Segment { len: 460, seq: Seq::new(7), window_scale: 255, ..Segment::default() };
        data_plane.send(Instant::ZERO, 1, path, hop, &segment);
        data_plane.send_datagram(Instant::ZERO, 1, path, hop, datagram(8));
        let mut seen = Vec::new();
        while let Some((now, Source(source))) = data_plane.queue.first() {
            if let Some(node) = source.checked_sub(6) {
                data_plane.poll_node(now, node);
                continue;
            }
            let mut out = Segment::default();
            match data_plane.dequeue(now, source, &mut out).map(|arrival| (arrival.to, arrival.what)) {
                None => {}
                Some((to, Arrived::Segment)) => seen.push((now.as_micros(), to, out.seq, out.len)),
                Some((to, Arrived::Datagram)) => {
                    let one = data_plane.datagram;
                    seen.push((now.as_micros(), to, Seq::new(one.number), one.len.as_u32()));
                }
                other => panic!("{other:?}"),
            }
        }
        // 500 bytes reach the entrance at 500 us, 200 at 700; both leave at 10.5 ms, of 540 and
        // 240 bytes, and their last link takes 500 and 200 us, the second packet right behind the
        // first.
        assert_eq!(seen, [(10_500 + 540 + 500, 1, Seq::new(7), 460), (10_500 + 540 + 500 + 200, 1, Seq::new(8), 172)]);
        assert_eq!(data_plane.store.in_use(), 0, "everything was taken out");
    }
}
