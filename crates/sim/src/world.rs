//! The event path: pipes, endpoints, applications and probes in virtual time.
//!
//! What is due at one time happens in this order: packets leave pipes (by link, as listed), timers of endpoints fire (by flow;
//! client, then server), applications act (by flow), windows begin or end (by flow), samples are taken.

use crate::flow::{Flow, SAMPLE, Watch};
use crate::fragments::Fragments;
use crate::network::Network;
use crate::outcome::{Outcome, SubflowSeries};
use crate::packet::{Kind, Packet};
use crate::queue::{EventQueue, Source};
use crate::routes::Routes;
use polypath_base::{Duration, Instant};
use polypath_link::{Parcel, Verdict};
use polypath_transport::{Connection, PathId, Transmit};
use polypath_wire::Unreachable;

/// Bytes of an IPv4 header without options.
const IP_HEADER: u32 = 20;

/// Everything that a run moves.
#[derive(Debug)]
pub(crate) struct World {
    queue: EventQueue,
    sources: Sources,
    network: Network,
    routes: Routes,
    fragments: Fragments,
    /// The client of flow f is 2f, its server 2f + 1.
    endpoints: Vec<Endpoint>,
    flows: Vec<Flow>,
    /// Flows of which something is still to be measured.
    unfinished: usize,
    series_interval: Option<Duration>,
    series: SubflowSeries,
    events: u64,
    delivered: u64,
}

#[derive(Debug)]
struct Endpoint {
    connection: Connection,
    /// When its entry in the event queue is due: at its next timeout or earlier.
    timer: Instant,
    watch: Watch,
}

/// Where the sources of each kind begin; pipes come first.
#[derive(Copy, Clone, Debug)]
struct Sources {
    timers: u32,
    apps: u32,
    edges: u32,
    samples: u32,
    series: u32,
}

impl World {
    /// `connections` has a client and a server for each flow; `starts` tells when its application opens it.
    pub(crate) fn new(
        network: Network,
        routes: Routes,
        connections: Vec<Connection>,
        flows: Vec<Flow>,
        starts: &[Instant],
        series: Option<Duration>,
    ) -> Self {
        let timers = network.pipes.len() as u32;
        let (ends, count) = (connections.len() as u32, flows.len() as u32);
        let apps = timers + ends;
        let sources = Sources { timers, apps, edges: apps + count, samples: apps + 2 * count, series: apps + 2 * count + 1 };
        let mut queue = EventQueue::new(timers as usize, (sources.series + 1 - timers) as usize);
        for (flow, &start) in starts.iter().enumerate() {
            queue.set(Source(apps + flow as u32), start);
        }
        queue.set(Source(sources.samples), Instant::ZERO);
        if series.is_some() {
            queue.set(Source(sources.series), Instant::ZERO);
        }
        Self {
            queue,
            sources,
            network,
            routes,
            fragments: Fragments::default(),
            endpoints: (connections.into_iter().enumerate())
                .map(|(number, connection)| {
                    // A client is watched once its application has opened the connection.
                    let watch = if number % 2 == 0 { Watch::Nothing } else { Watch::Established };
                    Endpoint { connection, timer: Instant::NEVER, watch }
                })
                .collect(),
            unfinished: flows.len(),
            flows,
            series_interval: series,
            series: SubflowSeries::default(),
            events: 0,
            delivered: 0,
        }
    }

    /// Runs until `end`, or until every flow is complete.
    pub(crate) fn run(mut self, end: Instant) -> Outcome {
        let mut now = Instant::ZERO;
        while self.unfinished > 0 {
            let Some((at, source)) = self.queue.first().filter(|event| event.0 <= end) else {
                now = end;
                break;
            };
            debug_assert!(at >= now, "time does not run backwards");
            now = at;
            self.events += 1;
            if source.0 < self.sources.timers {
                self.leave(now, source.0);
            } else {
                self.act(now, source);
            }
        }
        self.finish(now)
    }

    /// The first packet of a pipe has reached its end.
    #[inline]
    fn leave(&mut self, now: Instant, number: u32) {
        let pipe = &mut self.network.pipes[number as usize];
        self.queue.set(Source(number), pipe.next());
        let packet = pipe.first();
        if let Some(next) = self.routes.step(packet.hop) {
            let packet = *packet;
            pipe.release();
            return self.forward(now, next, packet);
        }
        let (to, path) = (packet.to, packet.path);
        let connection = &mut self.endpoints[to as usize].connection;
        let whole = match packet.kind {
            Kind::Segment => true,
            Kind::TooBig { mtu } => {
                connection.handle_unreachable(now, path, &Unreachable { seq: packet.segment.seq, mtu });
                false
            }
            Kind::Fragment { id } => self.fragments.arrive(now, id, packet.len - IP_HEADER),
        };
        if whole {
            self.delivered += u64::from(packet.segment.len > 0);
            connection.handle_segment(now, path, &packet.segment);
        }
        pipe.release();
        self.settle(now, to);
    }

    /// A packet goes on into the next pipe.
    fn forward(&mut self, now: Instant, number: u32, packet: Packet) {
        self.enter(now, number, packet.parcel(), |leaves| Packet { leaves, hop: packet.hop + 1, ..packet });
    }

    /// A packet enters a pipe. `packet` makes it, given the time at which it leaves.
    #[inline]
    fn enter(&mut self, now: Instant, number: u32, parcel: Parcel, packet: impl Fn(Instant) -> Packet) {
        let pipe = &mut self.network.pipes[number as usize];
        match pipe.transit(now, parcel) {
            Verdict::Pass(leaves) => {
                if pipe.hold(leaves, || packet(leaves)) {
                    self.queue.set(Source(number), leaves);
                }
            }
            Verdict::Drop(_) => {}
            Verdict::TooBig { mtu } => self.answer(now, packet(now), mtu),
            Verdict::Fragment { mtu } => self.split(now, number, packet(now), mtu),
        }
    }

    /// Sends what an endpoint has to send, looks whether what its application waits for has happened, and notes its timeout.
    #[inline]
    fn settle(&mut self, now: Instant, number: u32) {
        self.flush(now, number);
        if self.endpoints[number as usize].watch != Watch::Nothing {
            self.look(now, number);
        }
        let endpoint = &mut self.endpoints[number as usize];
        let due = endpoint.connection.poll_timeout();
        // A later timeout waits until the entry in the queue is due: most timeouts are moved many times and never come.
        if due < endpoint.timer {
            endpoint.timer = due;
            self.queue.set(Source(self.sources.timers + number), due.max(now));
        }
    }

    #[inline]
    fn flush(&mut self, now: Instant, number: u32) {
        while let Some(transmit) = self.endpoints[number as usize].connection.poll_transmit(now) {
            self.send(now, number, &transmit);
        }
    }

    fn send(&mut self, now: Instant, number: u32, transmit: &Transmit) {
        let path = transmit.path;
        // No way leads there: the packet is lost.
        let Some(hop) = self.routes.first(number, path).or_else(|| self.resolve(number, path)) else { return };
        let Some(pipe) = self.routes.step(hop) else { return };
        let len = transmit.segment.ip_len();
        let parcel = Parcel { len, payload: transmit.segment.len > 0, df: transmit.segment.df };
        self.enter(now, pipe, parcel, |leaves| Packet {
            leaves,
            segment: transmit.segment,
            hop: hop + 1,
            to: number ^ 1,
            len,
            path,
            kind: Kind::Segment,
        });
    }

    /// An endpoint sends on a path for the first time.
    #[cold]
    fn resolve(&mut self, number: u32, path: PathId) -> Option<u32> {
        let addresses = self.endpoints[number as usize].connection.path(path);
        let hop = self.routes.resolve(&self.network, number, path, addresses)?;
        // The peer answers from the interface where the way ends.
        let peer = &mut self.endpoints[(number ^ 1) as usize];
        peer.connection.set_mtu(path, self.routes.mtu_of_peer(number, addresses));
        Some(hop)
    }

    /// Sends ICMP "fragmentation needed" back to the sender of a packet.
    #[cold]
    fn answer(&mut self, now: Instant, refused: Packet, mtu: u32) {
        if let Kind::TooBig { .. } = refused.kind {
            // RFC 1812 section 4.3.2.7: no ICMP error about an ICMP error.
            return;
        }
        // RFC 1812 section 4.3.2.3: as much of the packet as fits in 576 bytes, behind 20 bytes of IP and 8 of ICMP.
        let len = (refused.len + 28).min(576);
        let hop = self.routes.back(refused.hop - 1);
        let packet = Packet { hop, to: refused.to ^ 1, len, kind: Kind::TooBig { mtu }, ..refused };
        if let Some(pipe) = self.routes.step(hop) {
            return self.forward(now, pipe, packet);
        }
        // The sender's own link: it knows at once, without a packet. What it sends then follows in the loop that sent this one.
        let message = Unreachable { seq: packet.segment.seq, mtu };
        self.endpoints[packet.to as usize].connection.handle_unreachable(now, packet.path, &message);
    }

    /// Splits a packet before an MTU (RFC 791 section 3.2); the parts then pass one after the other.
    #[cold]
    fn split(&mut self, now: Instant, pipe: u32, packet: Packet, mtu: u32) {
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
            self.forward(now, pipe, Packet { len: bytes + IP_HEADER, kind, hop: packet.hop - 1, ..packet });
        }
    }

    /// Something other than a packet is due.
    fn act(&mut self, now: Instant, source: Source) {
        let Sources { timers, apps, edges, samples, .. } = self.sources;
        if source.0 < apps {
            self.time_out(now, source.0 - timers);
        } else if source.0 < edges {
            let flow = source.0 - apps;
            let client = &mut self.endpoints[2 * flow as usize];
            let (watch, next) = self.flows[flow as usize].step(now, &mut client.connection);
            client.watch = watch;
            self.queue.set(source, next);
            self.settle(now, 2 * flow);
        } else if source.0 < samples {
            let flow = (source.0 - edges) as usize;
            let (client, server) = (&self.endpoints[2 * flow].connection, &self.endpoints[2 * flow + 1].connection);
            let next = self.flows[flow].edge(now, client, server);
            self.queue.set(source, next);
        } else if source.0 == samples {
            for (flow, ends) in self.flows.iter_mut().zip(self.endpoints.chunks_exact(2)) {
                flow.sample(now, &ends[0].connection, &ends[1].connection);
            }
            self.queue.set(source, now + SAMPLE);
        } else {
            for (flow, ends) in self.endpoints.chunks_exact(2).enumerate() {
                self.series.sample(now, flow as u32, &ends[0].connection, &ends[1].connection);
            }
            self.queue.set(source, self.series_interval.map_or(Instant::NEVER, |interval| now + interval));
        }
    }

    fn time_out(&mut self, now: Instant, number: u32) {
        let endpoint = &mut self.endpoints[number as usize];
        let due = endpoint.connection.poll_timeout();
        let source = Source(self.sources.timers + number);
        if due > now {
            endpoint.timer = due;
            self.queue.set(source, due);
            return;
        }
        endpoint.timer = Instant::NEVER;
        self.queue.set(source, Instant::NEVER);
        endpoint.connection.handle_timeout(now);
        self.settle(now, number);
    }

    /// Looks whether what is waited for at an endpoint has happened.
    #[cold]
    fn look(&mut self, now: Instant, number: u32) {
        let (flow, is_client) = (number / 2, number % 2 == 0);
        let endpoint = &mut self.endpoints[number as usize];
        let connection = &mut endpoint.connection;
        match endpoint.watch {
            Watch::Established if connection.established_at().is_some() => {
                let (apps, edges) = (self.sources.apps, self.sources.edges);
                let (watch, source, next) = if is_client {
                    let (watch, next) = self.flows[flow as usize].begin(now, connection);
                    (watch, Source(apps + flow), next)
                } else {
                    let (watch, next) = self.flows[flow as usize].accept(now);
                    (watch, Source(edges + flow), next)
                };
                endpoint.watch = watch;
                self.queue.set(source, next);
            }
            Watch::Accepted(bytes) if connection.accepted() >= bytes => {
                endpoint.watch = Watch::Nothing;
                connection.close(now);
            }
            Watch::Received(bytes) if connection.received() >= bytes => {
                endpoint.watch = Watch::Nothing;
                self.flows[flow as usize].complete(now);
                self.unfinished -= 1;
                return;
            }
            _ => return,
        }
        // The application has acted: send what follows, and see whether the next thing has happened as well.
        self.flush(now, number);
        if self.endpoints[number as usize].watch != Watch::Nothing {
            self.look(now, number);
        }
    }

    fn finish(mut self, end: Instant) -> Outcome {
        let routes = &self.routes;
        let flows = (self.flows.iter_mut().zip(self.endpoints.chunks_exact(2)).enumerate())
            .map(|(flow, (measured, ends))| {
                let (client, server) = (&ends[0].connection, &ends[1].connection);
                measured.outcome(end, client, server, |path| routes.addresses(2 * flow as u32, client.path(path)))
            })
            .collect();
        Outcome {
            flows,
            links: self.network.outcomes(),
            events: self.events,
            delivered_packets: self.delivered,
            simulated_ns: end.as_nanos(),
            subflow_series: self.series,
            link_series: self.series_interval.map(|interval| self.network.series(interval, end)).unwrap_or_default(),
        }
    }
}
