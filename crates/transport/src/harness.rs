//! Two endpoints in virtual time with a path or several between them: what the tests of this crate
//! run in.
//!
//! The harness owns the time and every segment that is under way; the endpoints are the test's, to
//! look into. A segment goes through its bytes, so that what no byte carries is lost. Each
//! direction of a path has a rate, a queue and a delay, and scripts: closures that say of each
//! segment whether it arrives, is lost or is held back, and that may change it. Loss, reordering, a
//! small MTU and marks are such closures.

use crate::stack::{STACKS, Stack};
use crate::tcp::{Context, Socket};
use crate::{End, Transmit, Transmits, mptcp};
use polypath_base::{Bytes, Duration, Instant, PathId, Rng};
use polypath_wire::{Envelope, Segment};
use proptest::strategy::Strategy;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

/// A kernel of the table; a failed case shows its name and not its 61 properties.
#[derive(Copy, Clone)]
pub(crate) struct Kernel(pub &'static Stack);

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// What properties are tried with: every kernel of the table.
pub(crate) fn any_kernel() -> impl Strategy<Value = Kernel> {
    proptest::sample::select(&STACKS).prop_map(Kernel)
}

/// Who sends: index of a path's directions, and of [`Sent::end`].
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// What the harness asks of an endpoint besides what the simulator's inner loop does.
pub(crate) trait Endpoint: End {
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    fn poll_timeout(&self) -> Instant;
    fn handle_timeout(&mut self, now: Instant);
    fn peer_finished(&self) -> bool;
    fn open(&mut self, now: Instant);
    fn offer(&mut self, now: Instant, amount: Bytes);
    fn close(&mut self, now: Instant);
}

impl Endpoint for Socket {
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_transmit(Context::at(now)).map(|segment| Transmit { path: PathId(0), segment })
    }

    fn poll_timeout(&self) -> Instant {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(Context::at(now));
    }

    fn peer_finished(&self) -> bool {
        self.peer_finished()
    }

    fn open(&mut self, now: Instant) {
        self.open(now);
    }

    fn offer(&mut self, now: Instant, amount: Bytes) {
        self.offer(now, amount);
    }

    fn close(&mut self, _now: Instant) {
        self.close();
    }
}

impl Endpoint for mptcp::Connection {
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_transmit(now)
    }

    fn poll_timeout(&self) -> Instant {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn peer_finished(&self) -> bool {
        self.peer_finished()
    }

    fn open(&mut self, now: Instant) {
        self.open(now);
    }

    fn offer(&mut self, now: Instant, amount: Bytes) {
        self.offer(now, amount);
    }

    fn close(&mut self, now: Instant) {
        self.close(now);
    }
}

/// A segment about to enter a direction of a path.
pub(crate) struct Crossing<'a> {
    pub now: Instant,
    /// How many segments entered the direction before it.
    pub number: u64,
    /// The same of segments with data; of one without data, how many with data entered before.
    pub data_number: u64,
    /// It may be changed.
    pub segment: &'a mut Segment,
    rng: &'a mut Rng,
}

/// What becomes of a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    Lost,
    /// It arrives, this much later than rate, queue and delay say.
    HeldBack(Duration),
    /// It arrives, and once more this much later.
    Twice(Duration),
}

/// Decides over segments of a direction.
type Script = Rc<dyn Fn(&mut Crossing<'_>) -> Fate>;

/// One direction of one path.
#[derive(Clone)]
pub(crate) struct Direction {
    pub delay: Duration,
    /// Time that a byte takes, with 14 bytes of Ethernet a packet; zero is infinitely fast.
    pub ns_per_byte: u64,
    /// Packets that it holds, those that are sent included; one more is dropped.
    pub queue: usize,
    /// Bytes of payload that were let through, and segments and segments with data that were sent.
    pub payload: u64,
    pub segments: u64,
    pub data_segments: u64,
    /// Asked in order; the first that does not let a segment arrive decides.
    scripts: Vec<Script>,
    departures: VecDeque<Instant>,
}

impl Direction {
    pub(crate) fn new(delay_ms: u64, mbit: u64, queue: usize) -> Self {
        Self {
            delay: Duration::from_millis(delay_ms),
            ns_per_byte: 8000_u64.checked_div(mbit).unwrap_or(0),
            queue,
            payload: 0,
            segments: 0,
            data_segments: 0,
            scripts: Vec::new(),
            departures: VecDeque::new(),
        }
    }

    /// Adds a script behind the others.
    pub(crate) fn script(&mut self, script: impl Fn(&mut Crossing<'_>) -> Fate + 'static) {
        self.scripts.push(Rc::new(script));
    }

    pub(crate) fn scripted(mut self, script: impl Fn(&mut Crossing<'_>) -> Fate + 'static) -> Self {
        self.script(script);
        self
    }

    /// Packets that have not left at `now`.
    pub(crate) fn queued(&mut self, now: Instant) -> usize {
        while self.departures.front().is_some_and(|&at| at <= now) {
            self.departures.pop_front();
        }
        self.departures.len()
    }

    /// When a segment that enters at `now` arrives, and when it does once more; `None` if it is
    /// lost.
    fn pass(&mut self, now: Instant, segment: &mut Segment, rng: &mut Rng) -> Option<(Instant, Option<Instant>)> {
        let mut crossing = Crossing { now, number: self.segments, data_number: self.data_segments, segment, rng };
        self.segments += 1;
        self.data_segments += u64::from(crossing.segment.len > 0);
        let fate = self.scripts.iter().map(|script| script(&mut crossing)).find(|&fate| fate != Fate::Arrives);
        let (held, again) = match fate {
            Some(Fate::Lost) => return None,
            Some(Fate::HeldBack(held)) => (held, None),
            Some(Fate::Twice(later)) => (Duration::ZERO, Some(later)),
            Some(Fate::Arrives) | None => (Duration::ZERO, None),
        };
        if self.queued(now) >= self.queue {
            return None;
        }
        let bytes = u64::from(segment.ip_len() + 14);
        self.payload += u64::from(segment.len);
        let departure = self.departures.back().map_or(now, |&at| at.max(now)) + Duration::from_nanos(bytes * self.ns_per_byte);
        self.departures.push_back(departure);
        let arrival = departure + self.delay + held;
        Some((arrival, again.map(|later| arrival + later)))
    }
}

impl fmt::Debug for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} ns a byte, {} packets, {} scripts", self.delay, self.ns_per_byte, self.queue, self.scripts.len())
    }
}

/// These segments are lost, counted from 0 over all that enter the direction.
pub(crate) fn lose(numbers: impl IntoIterator<Item = u64>) -> impl Fn(&mut Crossing<'_>) -> Fate {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    lose_if(move |crossing| numbers.contains(&crossing.number))
}

/// These segments with data are lost, counted from 0.
pub(crate) fn lose_data(numbers: impl IntoIterator<Item = u64>) -> impl Fn(&mut Crossing<'_>) -> Fate {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    lose_if(move |crossing| crossing.segment.len > 0 && numbers.contains(&crossing.data_number))
}

/// Every segment is lost with this probability.
pub(crate) fn lose_at_random(probability: f64) -> impl Fn(&mut Crossing<'_>) -> Fate {
    let probability = Rng::probability_u32(probability);
    lose_if(move |crossing| probability > 0 && crossing.rng.bernoulli(probability))
}

/// Everything is lost from `start` on, until `end`.
pub(crate) fn down(start: Instant, end: Instant) -> impl Fn(&mut Crossing<'_>) -> Fate {
    lose_if(move |crossing| crossing.now >= start && crossing.now < end)
}

/// Longer packets are lost without a word.
pub(crate) fn black_hole(mtu: u32) -> impl Fn(&mut Crossing<'_>) -> Fate {
    lose_if(move |crossing| crossing.segment.ip_len() > mtu)
}

pub(crate) fn lose_if(lost: impl Fn(&mut Crossing<'_>) -> bool) -> impl Fn(&mut Crossing<'_>) -> Fate {
    move |crossing| if lost(crossing) { Fate::Lost } else { Fate::Arrives }
}

/// These segments with data, counted from 0, arrive so much later.
pub(crate) fn hold_back(held: impl IntoIterator<Item = (u64, Duration)>) -> impl Fn(&mut Crossing<'_>) -> Fate {
    let held: Vec<_> = held.into_iter().collect();
    move |crossing| {
        let found = held.iter().find(|(number, _)| crossing.segment.len > 0 && *number == crossing.data_number);
        found.map_or(Fate::Arrives, |&(_, by)| Fate::HeldBack(by))
    }
}

/// Changes segments; all arrive.
pub(crate) fn change(change: impl Fn(&mut Segment)) -> impl Fn(&mut Crossing<'_>) -> Fate {
    move |crossing| {
        change(crossing.segment);
        Fate::Arrives
    }
}

/// A segment as it left an end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub at: Instant,
    /// [`CLIENT`] or [`SERVER`].
    pub end: usize,
    pub path: PathId,
    pub segment: Segment,
}

/// Client and server with the paths between them.
pub(crate) struct Net<C, S = C> {
    pub now: Instant,
    pub client: C,
    pub server: S,
    /// By path, from the client to the server and back.
    pub paths: Vec<[Direction; 2]>,
    /// What [`lose_at_random`] draws from.
    pub rng: Rng,
    /// Every segment that left an end, if `keep_log`.
    pub log: Vec<Sent>,
    pub keep_log: bool,
    /// The server closes as soon as the client has.
    pub server_closes: bool,
    /// The endpoints write their segments one after the other into one place, as in the simulator;
    /// otherwise each is returned by value.
    pub in_place: bool,
    /// By time of arrival and order of sending: receiving end, path, segment.
    under_way: BTreeMap<(Instant, u64), (usize, PathId, Segment)>,
    sent: u64,
    place: Segment,
}

impl<C: Endpoint, S: Endpoint> Net<C, S> {
    pub(crate) fn new(client: C, server: S, paths: Vec<[Direction; 2]>) -> Self {
        Self {
            now: Instant::ZERO,
            client,
            server,
            paths,
            rng: Rng::new(7, "wire"),
            log: Vec::new(),
            keep_log: true,
            server_closes: false,
            in_place: true,
            under_way: BTreeMap::new(),
            sent: 0,
            place: Segment::default(),
        }
    }

    /// Segments under way to an end.
    pub(crate) fn under_way_to(&self, end: usize) -> usize {
        self.under_way.values().filter(|(to, ..)| *to == end).count()
    }

    /// Takes from both ends what they have to send.
    pub(crate) fn drain(&mut self) {
        for end in [CLIENT, SERVER] {
            let place = self.in_place.then_some(&mut self.place);
            let transmits =
                if end == CLIENT { take_all(&mut self.client, self.now, place) } else { take_all(&mut self.server, self.now, place) };
            for transmit in transmits {
                let (path, mut segment) = (transmit.path, through_bytes(&transmit));
                if self.keep_log {
                    self.log.push(Sent { at: self.now, end, path, segment });
                }
                let passed = self.paths[usize::from(path.0)][end].pass(self.now, &mut segment, &mut self.rng);
                for at in passed.into_iter().flat_map(|(at, again)| std::iter::once(at).chain(again)) {
                    self.sent += 1;
                    self.under_way.insert((at, self.sent), (1 - end, path, segment));
                }
            }
        }
    }

    /// Runs until `end`, what happens then included.
    pub(crate) fn run_until(&mut self, end: Instant) {
        loop {
            self.drain();
            let arrival = self.under_way.keys().next().map_or(Instant::NEVER, |key| key.0);
            let timer = self.client.poll_timeout().min(self.server.poll_timeout());
            let next = arrival.min(timer);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if arrival <= timer {
                let (_, (to, path, segment)) = self.under_way.pop_first().expect("an arrival");
                if to == CLIENT {
                    self.client.handle_segment(self.now, path, &segment);
                } else {
                    self.server.handle_segment(self.now, path, &segment);
                }
            } else {
                if self.client.poll_timeout() <= self.now {
                    self.client.handle_timeout(self.now);
                }
                if self.server.poll_timeout() <= self.now {
                    self.server.handle_timeout(self.now);
                }
            }
            if self.server_closes && self.server.peer_finished() {
                self.server.close(self.now);
            }
        }
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// The client opens the connection and has `bytes` to send.
    pub(crate) fn open(&mut self, bytes: Bytes) {
        self.client.open(self.now);
        self.client.offer(self.now, bytes);
    }

    /// The client sends `bytes` and closes, in at most `seconds`.
    pub(crate) fn transfer(&mut self, bytes: u64, seconds: u64) {
        self.open(Bytes::new(bytes));
        self.client.close(self.now);
        self.run_for(Duration::from_secs(seconds));
    }
}

/// What an end has to send, written into the place if there is one.
fn take_all<E: Endpoint>(end: &mut E, now: Instant, place: Option<&mut Segment>) -> Vec<Transmit> {
    let mut all = Vec::new();
    match place {
        None => all.extend(std::iter::from_fn(|| end.poll_transmit(now))),
        Some(place) => {
            let mut transmits = Transmits::new(end, place);
            while let Some((path, &segment)) = transmits.next(now) {
                all.push(Transmit { path, segment });
            }
        }
    }
    all
}

/// The segment as a packet has it: what no byte carries is lost.
pub(crate) fn through_bytes(transmit: &Transmit) -> Segment {
    let port = 1000 + u16::from(transmit.path.0);
    let envelope = Envelope { source: ([10, 1, 0, 0], port).into(), destination: ([10, 2, 0, 0], port).into(), ident: 0 };
    let bytes = transmit
        .segment
        .to_bytes(&envelope, &vec![0; transmit.segment.len as usize])
        .unwrap_or_else(|error| panic!("{error}: {:?}", transmit.segment));
    Segment::from_bytes(&bytes).expect("what was written can be read").1
}
