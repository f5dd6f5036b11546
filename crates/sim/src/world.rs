//! The event path: pipes, endpoints, applications and probes in virtual time.
//!
//! What is due at one time happens in this order: packets leave pipes (by link, as listed), timers of endpoints fire (by flow;
//! client, then server), applications act (by flow), windows begin or end (by flow), samples are taken.

use crate::data_plane::{Arrival, Arrived, DataPlane};
use crate::delays::Delays;
use crate::flow::{AppWait, Flow, SAMPLE};
use crate::network::Network;
use crate::outcome::{Outcome, SubflowSeries};
use crate::queue::{EventQueue, Source};
use crate::routes::Routes;
use polypath_base::{Duration, Instant, PathId};
use polypath_transport::{Connection, End};
use polypath_wire::Segment;

/// Everything that a run moves.
#[derive(Debug)]
pub(crate) struct World {
    data_plane: DataPlane,
    sources: Sources,
    /// The client of flow f is 2f, its server 2f + 1.
    endpoints: Vec<Endpoint>,
    flows: Vec<Flow>,
    /// By flow: how long its bytes take.
    delays: Vec<Delays>,
    /// Flows of which something is still to be measured.
    unfinished: usize,
    series_interval: Option<Duration>,
    series: SubflowSeries,
    /// The segment that an endpoint is given or has just written.
    segment: Segment,
    events: u64,
    delivered: u64,
}

#[derive(Debug)]
struct Endpoint {
    connection: Connection,
    /// When its entry in the event queue is due: at its next timeout or earlier.
    timer: Instant,
    app_wait: AppWait,
    /// Bytes that a client's socket has accepted, or a server's application read, at the last report to the flow.
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
            data_plane: DataPlane::new(queue, network, routes),
            sources,
            endpoints: (connections.into_iter().enumerate())
                .map(|(number, connection)| {
                    // A client is watched once its application has opened the connection.
                    let app_wait = if number % 2 == 0 { AppWait::Nothing } else { AppWait::Established };
                    Endpoint { connection, timer: Instant::NEVER, app_wait, reported_bytes: 0 }
                })
                .collect(),
            unfinished: flows.len(),
            delays: flows.iter().map(Flow::delays).collect(),
            flows,
            series_interval: series,
            series: SubflowSeries::default(),
            segment: Segment::default(),
            events: 0,
            delivered: 0,
        }
    }

    /// Runs until `end`, or until every flow is complete.
    pub(crate) fn run(mut self, end: Instant) -> Outcome {
        let mut now = Instant::ZERO;
        while self.unfinished > 0 {
            let Some((at, source)) = self.data_plane.queue.first().filter(|event| event.0 <= end) else {
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
        let Some(arrival) = self.data_plane.dequeue(now, number, &mut self.segment) else { return };
        if let Arrived::Segment = arrival.what {
            self.delivered += u64::from(self.segment.len > 0);
        }
        let to = arrival.to;
        let endpoint = &mut self.endpoints[to as usize];
        let (data_plane, segment, timer) = (&mut self.data_plane, &mut self.segment, endpoint.timer);
        let after = match &mut endpoint.connection {
            Connection::Mptcp(end) => receive(&mut **end, now, arrival, timer, data_plane, segment),
            Connection::Tcp(end) => receive(&mut **end, now, arrival, timer, data_plane, segment),
            Connection::Udp(end) => receive(&mut **end, now, arrival, timer, data_plane, segment),
        };
        if after.unrouted.is_some() || endpoint.app_wait != AppWait::Nothing {
            return self.flush_unrouted(now, to, after.unrouted);
        }
        if after.done != endpoint.reported_bytes {
            endpoint.reported_bytes = after.done;
            let delays = &mut self.delays[to as usize / 2];
            if is_client(to) { delays.on_accepted(now, after.done) } else { delays.on_read(now, after.done) }
        }
        if let Some(due) = after.due {
            endpoint.timer = due;
            self.data_plane.queue.set(Source(self.sources.timers + to), due.max(now));
        }
    }

    /// Resolves the route of a segment that has none yet, and lets the application act if it waits for something.
    #[inline(never)]
    fn flush_unrouted(&mut self, now: Instant, number: u32, unrouted: Option<PathId>) {
        if let Some(path) = unrouted {
            self.flush_new(now, number, path);
        }
        self.after_io(now, number);
    }

    /// Sends what an endpoint has to send, looks whether what its application waits for has happened, and notes its timeout.
    #[inline(never)]
    fn settle(&mut self, now: Instant, number: u32) {
        if self.endpoints[number as usize].connection.may_transmit() {
            self.flush(now, number);
        }
        self.after_io(now, number);
    }

    /// After input and output of an endpoint: polls its application, reports its bytes, notes its timeout.
    fn after_io(&mut self, now: Instant, number: u32) {
        if self.endpoints[number as usize].app_wait != AppWait::Nothing {
            self.poll_app(now, number);
        }
        let endpoint = &mut self.endpoints[number as usize];
        let (done, due) = match &mut endpoint.connection {
            Connection::Mptcp(end) => state(&mut **end, number, endpoint.timer),
            Connection::Tcp(end) => state(&mut **end, number, endpoint.timer),
            Connection::Udp(end) => state(&mut **end, number, endpoint.timer),
        };
        if done != endpoint.reported_bytes {
            endpoint.reported_bytes = done;
            let delays = &mut self.delays[number as usize / 2];
            if is_client(number) { delays.on_accepted(now, done) } else { delays.on_read(now, done) }
        }
        // A later timeout waits until the entry in the queue is due: most timeouts are moved many times and never come.
        if let Some(due) = due {
            endpoint.timer = due;
            self.data_plane.queue.set(Source(self.sources.timers + number), due.max(now));
        }
    }

    #[inline(never)]
    fn flush(&mut self, now: Instant, number: u32) {
        let (data_plane, segment) = (&mut self.data_plane, &mut self.segment);
        let unrouted = match &mut self.endpoints[number as usize].connection {
            Connection::Mptcp(end) => send_all::<_, false>(&mut **end, now, number, data_plane, segment),
            Connection::Tcp(end) => send_all::<_, false>(&mut **end, now, number, data_plane, segment),
            Connection::Udp(end) => send_all::<_, false>(&mut **end, now, number, data_plane, segment),
        };
        if let Some(path) = unrouted {
            self.flush_new(now, number, path);
        }
    }

    /// Goes on where an endpoint sends on a path for the first time, or on one that leads nowhere.
    #[cold]
    fn flush_new(&mut self, now: Instant, number: u32, path: PathId) {
        let addresses = self.endpoints[number as usize].connection.path(path);
        // Where no route leads, the packet is lost.
        if let Some(hop) = self.data_plane.routes.resolve(&self.data_plane.network, number, path, addresses) {
            // The peer answers from the interface where the route ends.
            let peer = &mut self.endpoints[(number ^ 1) as usize];
            peer.connection.set_mtu(path, self.data_plane.routes.mtu_of_peer(number, addresses));
            self.data_plane.send_outlined(now, number, path, hop, &self.segment);
            if let Some(message) = self.data_plane.local_ptb.take() {
                self.endpoints[number as usize].connection.handle_unreachable(now, path, &message);
            }
        }
        self.flush(now, number);
    }

    /// Something other than a packet is due.
    #[cold]
    fn act(&mut self, now: Instant, source: Source) {
        let Sources { timers, apps, edges, samples, .. } = self.sources;
        if source.0 < apps {
            self.time_out(now, source.0 - timers);
        } else if source.0 < edges {
            let flow = source.0 - apps;
            let client = &mut self.endpoints[2 * flow as usize];
            let (app_wait, next) = self.flows[flow as usize].step(now, &mut client.connection);
            client.app_wait = app_wait;
            self.data_plane.queue.set(source, next);
            self.settle(now, 2 * flow);
        } else if source.0 < samples {
            let flow = (source.0 - edges) as usize;
            let (client, server) = (&self.endpoints[2 * flow].connection, &self.endpoints[2 * flow + 1].connection);
            let next = self.flows[flow].edge(now, client, server);
            self.delays[flow].set_counting(self.flows[flow].is_in_window());
            self.data_plane.queue.set(source, next);
        } else if source.0 == samples {
            for (flow, ends) in self.flows.iter_mut().zip(self.endpoints.chunks_exact(2)) {
                flow.sample(now, &ends[0].connection, &ends[1].connection);
            }
            self.data_plane.queue.set(source, now + SAMPLE);
        } else {
            for (flow, ends) in self.endpoints.chunks_exact(2).enumerate() {
                self.series.sample(now, flow as u32, &ends[0].connection, &ends[1].connection);
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
        self.settle(now, number);
    }

    /// Lets an application act if what it waits for has happened.
    #[cold]
    fn poll_app(&mut self, now: Instant, number: u32) {
        let (flow, is_client) = (number / 2, is_client(number));
        let endpoint = &mut self.endpoints[number as usize];
        let connection = &mut endpoint.connection;
        match endpoint.app_wait {
            AppWait::Established if connection.established_at().is_some() => {
                let (apps, edges) = (self.sources.apps, self.sources.edges);
                let (app_wait, source, next) = if is_client {
                    let (app_wait, next) = self.flows[flow as usize].begin(now, connection);
                    (app_wait, Source(apps + flow), next)
                } else {
                    let (app_wait, next) = self.flows[flow as usize].accept(now);
                    (app_wait, Source(edges + flow), next)
                };
                endpoint.app_wait = app_wait;
                self.data_plane.queue.set(source, next);
            }
            AppWait::Accepted(bytes) if connection.accepted() >= bytes => {
                endpoint.app_wait = AppWait::Nothing;
                connection.close(now);
            }
            AppWait::Request(bytes) if connection.received() >= bytes => {
                endpoint.app_wait = self.flows[flow as usize].serve(now, bytes, connection);
            }
            AppWait::Response(bytes) if connection.received() >= bytes => {
                endpoint.app_wait = AppWait::Nothing;
                let next = self.flows[flow as usize].answer(now, connection);
                self.data_plane.queue.set(Source(self.sources.apps + flow), next);
            }
            AppWait::Received(bytes) if connection.received() >= bytes => {
                endpoint.app_wait = AppWait::Nothing;
                self.flows[flow as usize].complete(now);
                self.unfinished -= 1;
                return;
            }
            _ => return,
        }
        // The application has acted: send what follows, and see whether the next thing has happened as well.
        self.flush(now, number);
        if self.endpoints[number as usize].app_wait != AppWait::Nothing {
            self.poll_app(now, number);
        }
    }

    #[cold]
    fn finish(mut self, end: Instant) -> Outcome {
        let routes = &self.data_plane.routes;
        let flows = (self.flows.iter_mut().zip(&self.delays).zip(self.endpoints.chunks_exact(2)).enumerate())
            .map(|(flow, ((measured, delays), ends))| {
                let (client, server) = (&ends[0].connection, &ends[1].connection);
                measured.outcome(end, client, server, delays.spread(), |path| routes.addresses(2 * flow as u32, client.path(path)))
            })
            .collect();
        Outcome {
            flows,
            links: self.data_plane.network.outcomes(),
            events: self.events,
            delivered_packets: self.delivered,
            simulated_ns: end.as_nanos(),
            subflow_series: self.series,
            link_series: self.series_interval.map(|interval| self.data_plane.network.series(interval, end)).unwrap_or_default(),
        }
    }
}

/// State of an endpoint after it has handled a packet and sent its answers.
struct After {
    /// The segment just written goes to this path, which has no route yet. The endpoint has not finished sending: `done` and `due` are not set.
    unrouted: Option<PathId>,
    /// Bytes that a client's socket has accepted, or a server's application read.
    done: u64,
    /// Its next timeout, if that is before the one noted.
    due: Option<Instant>,
}

/// An endpoint takes what has arrived and sends what it has to send. `timer`: when its entry in the event queue is due.
#[inline(always)]
fn receive<E: End>(
    end: &mut E,
    now: Instant,
    arrival: Arrival,
    timer: Instant,
    data_plane: &mut DataPlane,
    segment: &mut Segment,
) -> After {
    match arrival.what {
        Arrived::Segment => end.handle_segment(now, arrival.path, segment),
        Arrived::Part => {}
        Arrived::TooBig(message) => end.handle_unreachable(now, arrival.path, &message),
    }
    let unrouted = if end.may_transmit() { send_all::<_, true>(end, now, arrival.to, data_plane, segment) } else { None };
    let (done, due) = if unrouted.is_some() { (0, None) } else { state(end, arrival.to, timer) };
    After { unrouted, done, due }
}

/// Sends what an endpoint has to send. It stops at a segment without a known route, and returns its path. `IN_LINE`: here nearly all
/// packets leave.
#[inline(always)]
fn send_all<E: End, const IN_LINE: bool>(
    end: &mut E,
    now: Instant,
    number: u32,
    data_plane: &mut DataPlane,
    segment: &mut Segment,
) -> Option<PathId> {
    while let Some(path) = end.poll_transmit_into(now, segment) {
        let Some(hop) = data_plane.routes.first(number, path) else { return Some(path) };
        if IN_LINE {
            data_plane.send(now, number, path, hop, segment);
        } else {
            data_plane.send_outlined(now, number, path, hop, segment);
        }
        if let Some(message) = data_plane.local_ptb.take() {
            end.handle_unreachable(now, path, &message);
        }
    }
    None
}

/// See [`After`].
#[inline(always)]
fn state<E: End>(end: &mut E, number: u32, timer: Instant) -> (u64, Option<Instant>) {
    let done = if is_client(number) { end.accepted() } else { end.received() };
    (done, end.poll_timeout_before(timer))
}

#[inline]
fn is_client(number: u32) -> bool {
    number % 2 == 0
}
