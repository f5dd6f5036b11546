//! The event path: pipes, endpoints, applications and probes in virtual time.
//!
//! What is due at one time happens in this order: packets leave pipes (see [`EventQueue`]), timers
//! of nodes fire (endpoints by flow, client, then server; then other nodes), applications act (by
//! flow), windows begin or end (by flow), samples are taken.

use crate::data_plane::{Arrival, Arrived, DataPlane};
use crate::delays::Delays;
use crate::flow::{AppWait, Flow, SAMPLE};
use crate::network::Network;
use crate::nodes::Node;
use crate::outcome::{CaptureFile, Outcome, SubflowSeries};
use crate::queue::{EventQueue, Source};
use crate::routes::{RouteEntry, Routes};
use crate::tunnels;
use polypath_base::{Bytes, Duration, Instant, PathId};
use polypath_transport::tcp::RouteMtu;
use polypath_transport::{Connection, End, Transmits, udp};
use polypath_wire::Segment;

/// Everything that a run moves.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) data_plane: DataPlane,
    pub(crate) tunnel_names: Vec<String>,
    sources: Sources,
    /// The nodes that the world drives itself, by number.
    endpoints: Vec<Endpoint>,
    /// By flow: its sender and its receiver.
    ends: Vec<[u32; 2]>,
    flows: Vec<Flow>,
    /// By flow: how long its bytes take.
    delays: Vec<Delays>,
    /// Flows of which something is still to be measured.
    unfinished: usize,
    series_interval: Option<Duration>,
    series: SubflowSeries,
    /// What hosts have learnt of their routes' MTUs.
    route_mtus: Vec<(RouteEntry, RouteMtu)>,
    /// The segment that an endpoint receives or has just written.
    segment: Segment,
    /// Everything due by then has happened.
    now: Instant,
    events: u64,
    delivered: u64,
}

#[derive(Debug)]
struct Endpoint {
    connection: Connection,
    flow: u32,
    peer: u32,
    is_client: bool,
    is_sender: bool,
    /// When its entry in the event queue is due: at its next timeout or earlier.
    timer: Instant,
    app_wait: AppWait,
    /// Bytes that a sender's socket has accepted, or a receiver's application read, at the last
    /// report to the flow.
    reported_bytes: u64,
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
    /// `connections` has a client and a server for each flow; `starts` tells when its application
    /// opens it.
    pub(crate) fn new(
        network: Network,
        routes: Routes,
        connections: Vec<Connection>,
        nodes: Vec<Box<dyn Node>>,
        flows: Vec<Flow>,
        starts: &[Instant],
        series: Option<Duration>,
    ) -> Self {
        let timers = network.pipes.len() as u32;
        let (endpoints_end, count) = (timers + connections.len() as u32, flows.len() as u32);
        let apps = endpoints_end + nodes.len() as u32;
        let sides: Vec<[u32; 2]> = routes.ends().collect();
        let ends =
            sides.iter().zip(&flows).map(|(&[client, server], flow)| if flow.client_sends() { [client, server] } else { [server, client] });
        let ends: Vec<[u32; 2]> = ends.collect();
        let sources = Sources { timers, apps, edges: apps + count, samples: apps + 2 * count, series: apps + 2 * count + 1 };
        let mut queue = EventQueue::new(timers as usize, (sources.series + 1 - timers) as usize);
        for (flow, &start) in starts.iter().enumerate() {
            queue.set(Source(apps + flow as u32), start);
        }
        for (source, node) in (endpoints_end..).zip(&nodes) {
            queue.set(Source(source), node.poll_timeout());
        }
        queue.set(Source(sources.samples), Instant::ZERO);
        if series.is_some() {
            queue.set(Source(sources.series), Instant::ZERO);
        }
        Self {
            data_plane: DataPlane::new(queue, network, routes, nodes),
            tunnel_names: Vec::new(),
            sources,
            endpoints: endpoints(connections, &sides, &flows),
            ends,
            unfinished: flows.len(),
            delays: flows.iter().map(Flow::delays).collect(),
            flows,
            series_interval: series,
            series: SubflowSeries::default(),
            route_mtus: Vec::new(),
            segment: Segment::default(),
            now: Instant::ZERO,
            events: 0,
            delivered: 0,
        }
    }

    /// Runs until `end`, or until every flow is complete.
    pub(crate) fn advance(&mut self, end: Instant) {
        let mut now = self.now;
        while self.unfinished > 0 {
            let Some((at, source)) = self.data_plane.queue.first().filter(|event| event.0 <= end) else {
                now = end;
                break;
            };
            debug_assert!(at >= now, "time does not run backwards");
            now = at;
            self.events += 1;
            if source.0 < self.sources.timers {
                self.deliver(now, source.0);
            } else {
                self.act(now, source);
            }
        }
        self.now = now;
    }

    /// Whether every flow is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.unfinished == 0
    }

    pub(crate) fn into_outcome(mut self) -> (Outcome, Vec<CaptureFile>) {
        let captures = std::mem::take(&mut self.data_plane.captures).finish(self.now);
        let now = self.now;
        (self.finish(now), captures)
    }

    /// The first packet of a pipe stage has reached its end and goes to its endpoint. A function of
    /// its own: in line in the loop of [`World::advance`] it lacks registers.
    #[inline(never)]
    fn deliver(&mut self, now: Instant, number: u32) {
        let Some(arrival) = self.data_plane.dequeue(now, number, &mut self.segment) else { return };
        if let Arrived::Segment = arrival.what {
            self.delivered += u64::from(self.segment.len > 0);
        }
        let to = arrival.to;
        let endpoint = &mut self.endpoints[to as usize];
        let ends = Ends { number: to, peer: endpoint.peer, is_sender: endpoint.is_sender };
        let (data_plane, segment, timer) = (&mut self.data_plane, &mut self.segment, endpoint.timer);
        let after = match &mut endpoint.connection {
            Connection::Mptcp(end) => receive(&mut **end, now, arrival, ends, timer, data_plane, segment),
            Connection::Tcp(end) => receive(&mut **end, now, arrival, ends, timer, data_plane, segment),
            Connection::Udp(end) => {
                self.delivered += u64::from(matches!(arrival.what, Arrived::Datagram) && data_plane.datagram.len > Bytes::ZERO);
                receive_datagram(end, now, arrival.what, ends, data_plane)
            }
        };
        if let Arrived::TooBig(_) = arrival.what {
            return self.learn_route_mtu(now, arrival, after.unrouted);
        }
        if after.unrouted.is_some() || endpoint.app_wait != AppWait::Nothing {
            return self.finish_transmit(now, to, after.unrouted);
        }
        if after.done != endpoint.reported_bytes {
            endpoint.reported_bytes = after.done;
            let delays = &mut self.delays[endpoint.flow as usize];
            if endpoint.is_sender { delays.on_accepted(now, after.done) } else { delays.on_read(now, after.done) }
        }
        if let Some(due) = after.due {
            endpoint.timer = due;
            self.data_plane.queue.set(Source(self.sources.timers + to), due.max(now));
        }
    }

    /// A message about a route has come: what the host makes of it holds for all its connections
    /// that use this route (Linux: `update_or_create_fnhe`).
    #[cold]
    fn learn_route_mtu(&mut self, now: Instant, arrival: Arrival, unrouted: Option<PathId>) {
        let routes = &self.data_plane.routes;
        let learnt = self.endpoints[arrival.to as usize].connection.route_mtu(arrival.path);
        let known = |entry: &RouteEntry| self.route_mtus.iter().position(|(known, _)| known == entry);
        if let Some((entry, learnt)) = routes.entry(arrival.to, arrival.path).zip(learnt)
            && known(&entry).is_none_or(|at| self.route_mtus[at].1 != learnt)
        {
            for (number, endpoint) in (0..).zip(&mut self.endpoints) {
                for path in (0..routes.path_count(number)).map(PathId) {
                    if (number, path) != (arrival.to, arrival.path) && routes.entry(number, path).as_ref() == Some(&entry) {
                        endpoint.connection.set_route_mtu(now, path, learnt);
                    }
                }
            }
            match known(&entry) {
                Some(at) => self.route_mtus[at].1 = learnt,
                None => self.route_mtus.push((entry, learnt)),
            }
        }
        self.finish_transmit(now, arrival.to, unrouted);
    }

    /// A connection uses a route for the first time of which its host has learnt before.
    #[cold]
    fn inherit_route_mtu(&mut self, now: Instant, number: u32, path: PathId) {
        let Some(entry) = self.data_plane.routes.entry(number, path) else { return };
        if let Some(&(_, learnt)) = self.route_mtus.iter().find(|(known, _)| *known == entry) {
            self.endpoints[number as usize].connection.set_route_mtu(now, path, learnt);
        }
    }

    /// Resolves the route of a segment that has none yet, and lets the application act if it waits
    /// for something.
    #[inline(never)]
    fn finish_transmit(&mut self, now: Instant, number: u32, unrouted: Option<PathId>) {
        if let Some(path) = unrouted {
            self.transmit_on_new_path(now, number, path);
        }
        self.settle(now, number);
    }

    /// Sends what an endpoint has to send, then settles.
    #[inline(never)]
    fn transmit_and_settle(&mut self, now: Instant, number: u32) {
        if self.endpoints[number as usize].connection.may_transmit() {
            self.transmit(now, number);
        }
        self.settle(now, number);
    }

    /// After input and output of an endpoint: polls its application, reports its bytes, notes its
    /// timeout.
    fn settle(&mut self, now: Instant, number: u32) {
        if self.endpoints[number as usize].app_wait != AppWait::Nothing {
            self.poll_app(now, number);
        }
        let endpoint = &mut self.endpoints[number as usize];
        let (done, due) = match &mut endpoint.connection {
            Connection::Mptcp(end) => state(&mut **end, endpoint.is_sender, endpoint.timer),
            Connection::Tcp(end) => state(&mut **end, endpoint.is_sender, endpoint.timer),
            Connection::Udp(end) => (bytes_done(end, endpoint.is_sender), None),
        };
        if done != endpoint.reported_bytes {
            endpoint.reported_bytes = done;
            let delays = &mut self.delays[endpoint.flow as usize];
            if endpoint.is_sender { delays.on_accepted(now, done) } else { delays.on_read(now, done) }
        }
        // A later timeout waits until the entry in the queue is due: most timeouts are moved many
        // times and never come.
        if let Some(due) = due {
            endpoint.timer = due;
            self.data_plane.queue.set(Source(self.sources.timers + number), due.max(now));
        }
    }

    /// Sends what an endpoint has to send.
    #[inline(never)]
    fn transmit(&mut self, now: Instant, number: u32) {
        let endpoint = &mut self.endpoints[number as usize];
        let ends = Ends { number, peer: endpoint.peer, is_sender: endpoint.is_sender };
        let (data_plane, segment) = (&mut self.data_plane, &mut self.segment);
        let unrouted = match &mut endpoint.connection {
            Connection::Mptcp(end) => send_all::<_, false>(&mut **end, now, ends, data_plane, segment),
            Connection::Tcp(end) => send_all::<_, false>(&mut **end, now, ends, data_plane, segment),
            Connection::Udp(end) => send_datagrams(end, now, ends, data_plane),
        };
        if let Some(path) = unrouted {
            self.transmit_on_new_path(now, number, path);
        }
    }

    /// Goes on where an endpoint sends on a path for the first time, or on one that leads nowhere.
    #[cold]
    fn transmit_on_new_path(&mut self, now: Instant, number: u32, path: PathId) {
        let endpoint = &mut self.endpoints[number as usize];
        let (addresses, peer) = (endpoint.connection.path(path), endpoint.peer);
        let datagram = if let Connection::Udp(end) = &mut endpoint.connection { end.poll_transmit(now) } else { None };
        // Where no route leads, the packet is lost.
        if let Some(hop) = self.data_plane.routes.resolve(&self.data_plane.network, number, path, addresses) {
            // The peer answers from the interface where the route ends.
            if let Some(peer_path) = self.data_plane.routes.peer_path(number, path) {
                self.endpoints[peer as usize].connection.set_mtu(peer_path, self.data_plane.routes.mtu_of_peer(number, addresses));
            }
            if !self.route_mtus.is_empty() {
                self.inherit_route_mtu(now, number, path);
                if let Some(peer_path) = self.data_plane.routes.peer_path(number, path) {
                    self.inherit_route_mtu(now, peer, peer_path);
                }
            }
            match datagram {
                Some(datagram) => self.data_plane.send_datagram(now, peer, path, hop, datagram),
                None => self.data_plane.send_outlined(now, peer, path, hop, &self.segment),
            }
            if let Some(message) = self.data_plane.local_ptb.take() {
                self.endpoints[number as usize].connection.handle_unreachable(now, path, &message);
            }
        }
        self.transmit(now, number);
    }

    /// Something other than a packet is due.
    #[cold]
    fn act(&mut self, now: Instant, source: Source) {
        let Sources { timers, apps, edges, samples, .. } = self.sources;
        if source.0 < apps {
            let node = source.0 - timers;
            if node < self.endpoints.len() as u32 { self.time_out(now, node) } else { self.data_plane.poll_node(now, node) }
        } else if source.0 < edges {
            let flow = (source.0 - apps) as usize;
            let [sender, receiver] = self.ends[flow];
            let acting = if self.flows[flow].client_acts() && !self.flows[flow].client_sends() { receiver } else { sender };
            let endpoint = &mut self.endpoints[acting as usize];
            let (app_wait, next) = self.flows[flow].step(now, &mut endpoint.connection);
            endpoint.app_wait = app_wait;
            self.data_plane.queue.set(source, next);
            self.transmit_and_settle(now, acting);
        } else if source.0 < samples {
            let flow = (source.0 - edges) as usize;
            let [sender, receiver] = self.ends[flow].map(|end| &self.endpoints[end as usize].connection);
            let next = self.flows[flow].edge(now, sender, receiver);
            self.delays[flow].set_counting(self.flows[flow].is_in_window());
            self.data_plane.queue.set(source, next);
        } else if source.0 == samples {
            for (flow, ends) in self.flows.iter_mut().zip(&self.ends) {
                let [sender, receiver] = ends.map(|end| &self.endpoints[end as usize].connection);
                flow.sample(now, sender, receiver);
            }
            self.data_plane.queue.set(source, now + SAMPLE);
        } else {
            for (flow, ends) in self.ends.iter().enumerate() {
                let [sender, receiver] = ends.map(|end| &self.endpoints[end as usize].connection);
                self.series.sample(now, flow as u32, sender, receiver, self.data_plane.routes.paths_of(ends[0]));
            }
            self.data_plane.queue.set(source, self.series_interval.map_or(Instant::NEVER, |interval| now + interval));
        }
    }

    #[cold]
    #[inline(never)]
    fn time_out(&mut self, now: Instant, number: u32) {
        let endpoint = &mut self.endpoints[number as usize];
        let due = endpoint.connection.poll_timeout();
        let source = Source(self.sources.timers + number);
        if due > now {
            endpoint.timer = due;
            self.data_plane.queue.set(source, due);
            return;
        }
        endpoint.timer = Instant::NEVER;
        self.data_plane.queue.set(source, Instant::NEVER);
        endpoint.connection.handle_timeout(now);
        self.transmit_and_settle(now, number);
    }

    /// Lets an application act if what it waits for has happened.
    #[cold]
    fn poll_app(&mut self, now: Instant, number: u32) {
        let endpoint = &mut self.endpoints[number as usize];
        let (flow, is_client) = (endpoint.flow, endpoint.is_client);
        let connection = &mut endpoint.connection;
        match endpoint.app_wait {
            AppWait::Established if connection.established_at().is_some() => {
                let (measured, queue) = (&mut self.flows[flow as usize], &mut self.data_plane.queue);
                if !is_client {
                    queue.set(Source(self.sources.edges + flow), measured.accept(now));
                }
                if endpoint.is_sender {
                    let (app_wait, next) = measured.begin(now, connection);
                    endpoint.app_wait = app_wait;
                    queue.set(Source(self.sources.apps + flow), next);
                } else {
                    endpoint.app_wait = measured.listen();
                }
            }
            AppWait::Accepted(bytes) if connection.accepted().get() >= bytes => {
                endpoint.app_wait = AppWait::Nothing;
                connection.close(now);
            }
            AppWait::Request(bytes) if connection.received().get() >= bytes => {
                endpoint.app_wait = self.flows[flow as usize].serve(now, bytes, connection);
            }
            AppWait::Response(bytes) if connection.received().get() >= bytes => {
                endpoint.app_wait = AppWait::Nothing;
                let next = self.flows[flow as usize].answer(now, connection);
                self.data_plane.queue.set(Source(self.sources.apps + flow), next);
            }
            AppWait::Received(bytes) if connection.received().get() >= bytes => {
                endpoint.app_wait = AppWait::Nothing;
                self.flows[flow as usize].complete(now);
                self.unfinished -= 1;
                return;
            }
            _ => return,
        }
        // The application has acted: send what follows, and see whether the next thing has happened
        // as well.
        self.transmit(now, number);
        if self.endpoints[number as usize].app_wait != AppWait::Nothing {
            self.poll_app(now, number);
        }
    }

    #[cold]
    fn finish(mut self, end: Instant) -> Outcome {
        let routes = &self.data_plane.routes;
        let flows = (self.flows.iter_mut().zip(&self.delays).zip(&self.ends))
            .map(|((measured, delays), ends)| {
                let [sender, receiver] = ends.map(|end| &self.endpoints[end as usize].connection);
                measured.outcome(end, sender, receiver, delays.spread(), routes.paths_of(ends[0]))
            })
            .collect();
        Outcome {
            flows,
            links: self.data_plane.network.outcomes(),
            tunnels: tunnels::outcomes(&self.data_plane.node_outcomes(end), &self.tunnel_names, &self.data_plane.routes),
            events: self.events,
            delivered_packets: self.delivered,
            simulated_ns: end.as_nanos(),
            subflow_series: self.series,
            link_series: self.series_interval.map(|interval| self.data_plane.network.series(interval, end)).unwrap_or_default(),
        }
    }
}

fn endpoints(connections: Vec<Connection>, sides: &[[u32; 2]], flows: &[Flow]) -> Vec<Endpoint> {
    let places = sides.iter().enumerate().flat_map(|(flow, &[client, server])| [(flow, server, true), (flow, client, false)]);
    let made = connections.into_iter().zip(places).map(|(connection, (flow, peer, is_client))| {
        // A client is watched once its application has opened the connection.
        let app_wait = if is_client { AppWait::Nothing } else { AppWait::Established };
        let is_sender = is_client == flows[flow].client_sends();
        Endpoint { connection, flow: flow as u32, peer, is_client, is_sender, timer: Instant::NEVER, app_wait, reported_bytes: 0 }
    });
    made.collect()
}

/// Who sends to whom.
#[derive(Copy, Clone)]
struct Ends {
    number: u32,
    peer: u32,
    is_sender: bool,
}

/// State of an endpoint after it has handled a packet and sent its answers.
struct After {
    /// The segment just written goes to this path, which has no route yet. The endpoint has not
    /// finished sending: `done` and `due` are not set.
    unrouted: Option<PathId>,
    /// Bytes that a sender's socket has accepted, or a receiver's application read.
    done: u64,
    /// Its next timeout, if that is before the one noted.
    due: Option<Instant>,
}

/// An endpoint takes what has arrived and sends what it has to send. `timer`: when its entry in the
/// event queue is due.
#[inline(always)]
fn receive<E: End>(
    end: &mut E,
    now: Instant,
    arrival: Arrival,
    ends: Ends,
    timer: Instant,
    data_plane: &mut DataPlane,
    segment: &mut Segment,
) -> After {
    match arrival.what {
        Arrived::Segment if arrival.more => end.handle_segment_before_another(now, arrival.path, segment),
        Arrived::Segment => end.handle_segment(now, arrival.path, segment),
        Arrived::Datagram | Arrived::Part => {}
        Arrived::TooBig(message) => end.handle_unreachable(now, arrival.path, &message),
    }
    let unrouted = if end.may_transmit() { send_all::<_, true>(end, now, ends, data_plane, segment) } else { None };
    let (done, due) = if unrouted.is_some() { (0, None) } else { state(end, ends.is_sender, timer) };
    After { unrouted, done, due }
}

/// The same for a socket of datagrams, which has no timers.
#[inline(never)]
fn receive_datagram(end: &mut udp::Socket, now: Instant, what: Arrived, ends: Ends, data_plane: &mut DataPlane) -> After {
    if let Arrived::Datagram = what {
        end.handle_datagram(now, data_plane.datagram);
    }
    let unrouted = send_datagrams(end, now, ends, data_plane);
    After { unrouted, done: if unrouted.is_some() { 0 } else { bytes_done(end, ends.is_sender) }, due: None }
}

/// Sends what an endpoint has to send. It stops at a segment without a known route, and returns its
/// path. `IN_LINE`: here nearly all packets leave.
#[inline(always)]
fn send_all<E: End, const IN_LINE: bool>(
    end: &mut E,
    now: Instant,
    ends: Ends,
    data_plane: &mut DataPlane,
    segment: &mut Segment,
) -> Option<PathId> {
    let mut transmits = Transmits::new(end, segment);
    while let Some((path, segment)) = transmits.next(now) {
        let Some(hop) = data_plane.routes.first(ends.number, path) else { return Some(path) };
        if IN_LINE {
            data_plane.send(now, ends.peer, path, hop, segment);
        } else {
            data_plane.send_outlined(now, ends.peer, path, hop, segment);
        }
        if let Some(message) = data_plane.local_ptb.take() {
            transmits.handle_unreachable(now, path, &message);
        }
    }
    None
}

/// The same for datagrams. It stops before the first one if their route is not known.
fn send_datagrams(end: &mut udp::Socket, now: Instant, ends: Ends, data_plane: &mut DataPlane) -> Option<PathId> {
    let path = PathId(0);
    while end.may_transmit() {
        let Some(hop) = data_plane.routes.first(ends.number, path) else { return Some(path) };
        let Some(datagram) = end.poll_transmit(now) else { break };
        data_plane.send_datagram(now, ends.peer, path, hop, datagram);
        // It changes nothing: a datagram has its size from the application.
        data_plane.local_ptb = None;
    }
    None
}

/// See [`After`].
#[inline(always)]
fn state<E: End>(end: &mut E, is_sender: bool, timer: Instant) -> (u64, Option<Instant>) {
    let done = if is_sender { end.accepted().get() } else { end.received().get() };
    (done, end.poll_timeout_before(timer))
}

fn bytes_done(end: &udp::Socket, is_sender: bool) -> u64 {
    if is_sender { end.accepted().get() } else { end.received().get() }
}
