//! Packets take the path on which they arrive first, and no path gets more than it carries.
//!
//! Of each path the sender keeps a model of one queue: how fast it is served, how long its packets
//! take beside, and what waits in it. A packet goes to the path on which it would arrive first,
//! behind everything that waits there already; so packets arrive in the order in which they were
//! taken, as far as the model is right. What a path cannot carry yet waits here and not in the
//! network, and the device is read no further than until the last path is worth waiting for.
//!
//! The model is kept right by the other end's reports ([`Report`]), of which each end sends one for
//! so many packets or so much time.
//! - **Delay.** The difference of the clocks at both ends of a packet's journey, the least of the
//!   last 5 to 10 s. The clocks need not agree: only differences between paths count.
//! - **Capacity.** What arrived between two reports by the time in which it did, while packets
//!   waited in the path's queue at the beginning and at the end of it; the greatest of the last 1
//!   to 2 s. While nothing waits, what arrives is only a lower bound. A path that was never full is
//!   not guessed at: it gets what its window allows, which grows as in slow start until packets
//!   wait.
//! - **Queue.** What the last packet took longer than the least: the model is moved by what it had
//!   predicted wrongly for that packet.
//!
//! A path that dies is known by its reports, too. What is unreported on it does not exceed what it
//! carries in the time that its reports have taken of late, so it loses what was in flight and no
//! more. And a packet that is unreported for long, while nothing is known to have come that was
//! sent after it, makes its path silent: what waits for it takes others, and it gets no packets
//! while there is another. A report of ours that is echoed has it back.
//!
//! An end that sends no reports (MPT, or an older version of ours) leaves the model nothing to go
//! by. After [`PATIENCE`] without one, packets are sent at once and take turns by weight; a report
//! has the model back. As long as no report has come, keepalives go out beside ours, so that such
//! an end knows that the path is alive.

use crate::distribution::{Distribution, WeightedTurns};
use polypath_base::{Bytes, Duration, Instant, PathId, Rate, Seq};
pub use polypath_wire::report::Repr as Report;
use std::collections::VecDeque;

/// What waits in a path's own queue: CoDel's target, which costs no throughput and little time
/// (RFC 8289 section 4.4).
const QUEUE: Duration = Duration::from_millis(5);
/// A packet that took so much longer than the least waited for others.
const STANDING: Duration = Duration::from_millis(1);
/// The least delay and the greatest rate are those of this period and the one before it.
const DELAY_PERIOD: Duration = Duration::from_secs(5);
const RATE_PERIOD: Duration = Duration::from_secs(1);
/// A report is sent for so many packets, but not sooner than the one time after the last, and not
/// later than the other.
const REPORT_PACKETS: u32 = 32;
const REPORT_SOONEST: Duration = Duration::from_millis(1);
const REPORT_LATEST: Duration = Duration::from_millis(10);
/// At the end of each period of delays nothing is to wait in the network for the one time, so that
/// the least delay is seen; it begins with a pause of the other, because what the model does not
/// know of waits there still.
const DRAIN: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);
/// So often a path on which nothing comes is measured by reports alone, while the tunnel is in use.
const PROBE: Duration = Duration::from_millis(100);
/// Sent packets that are remembered until they are reported.
const REMEMBERED: usize = 1 << 14;
/// So long after a packet without any report the other end is taken for one that sends none: twice
/// [`LOST`].
const PATIENCE: Duration = Duration::from_secs(2);
/// An end that has sent none for so many of ours gets one so often, in case that it learns to.
const UNANSWERED: u32 = 256;
const SELDOM: Duration = Duration::from_secs(1);
/// As long as a path was never full, so many packets and as many again as were reported may be
/// unreported, as in slow start (RFC 6928).
const FIRST: u64 = 10;
/// Bytes of a full packet.
const FULL: u64 = 1500;
/// A packet of which no report has told for so many times the longest that reports have taken of
/// late is taken for lost, but not before the second; the third while none has come.
const LOST_AFTER: u64 = 4;
const LOST_SOONEST: Duration = Duration::from_millis(250);
const LOST: Duration = Duration::from_secs(1);
/// So many packets more than what a path carries until its reports come may be unreported: neither
/// comes like clockwork.
const SPARE: u64 = 8;
/// Bytes of the headers around each packet: IPv4, UDP, GRE with a number.
const HEADERS: u64 = 36;
/// The model never believes in more.
const LONGEST_QUEUE: Duration = Duration::from_secs(1);
/// The slowest path that is worth a number; less is taken for this.
const SLOWEST: u64 = 1000;

/// What is known of a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PathEstimate {
    /// What it carries, headers of the tunnel included; none as long as it was never full.
    pub capacity: Option<Rate>,
    /// How much longer its packets take than those of the fastest path, without queues; none as
    /// long as nothing was reported.
    pub behind: Option<Duration>,
    /// How long a packet waits that is sent now, here and in the network.
    pub queue: Duration,
    /// Bytes that were sent and not reported, headers of the tunnel included, and the most of them;
    /// none as long as it was never full.
    pub in_flight: Bytes,
    /// See `in_flight`.
    pub most_in_flight: Option<Bytes>,
    /// Packets that were lost on it.
    pub lost: u64,
}

/// A packet that was sent, and what the model said of it.
#[derive(Copy, Clone, Debug)]
struct Sent {
    seq: Seq,
    at: Instant,
    /// Packets sent on the path, this one included.
    count: u32,
    /// Nanoseconds that it was to spend in the path's queue.
    predicted: i64,
    /// What the model had been moved by until then, nanoseconds.
    moved: i64,
    bytes: u64,
}

/// The extreme value of a period and of the one before it.
#[derive(Copy, Clone, Debug)]
struct Extreme<T> {
    values: [Option<T>; 2],
    /// Of both: only reports change it, and each packet asks for it.
    best: Option<T>,
    began: Instant,
}

impl<T: Copy> Extreme<T> {
    const fn new() -> Self {
        Self { values: [None; 2], best: None, began: Instant::ZERO }
    }

    fn add(&mut self, now: Instant, period: Duration, value: T, better: impl Fn(T, T) -> T) {
        if now.since(self.began) >= period {
            // What is older than two periods is forgotten only for something newer.
            self.values = [None, self.values[0].or(self.values[1])];
            if now.since(self.began) >= period * 2 {
                self.values[1] = None;
            }
            self.began = now;
        }
        debug_assert!(self.began <= now, "a period has begun before its values come");
        let of_period = self.values[0].map_or(value, |known| better(known, value));
        self.values[0] = Some(of_period);
        self.best = Some(self.values[1].map_or(of_period, |before| better(of_period, before)));
    }

    fn get(&self) -> Option<T> {
        self.best
    }

    fn restart(&mut self, now: Instant, value: T) {
        *self = Self { values: [Some(value), None], best: Some(value), began: now };
    }
}

/// What the last report said of the last packet: when it came, how many bytes had come then, how
/// long it was, and what it took longer than the least.
#[derive(Copy, Clone, Debug)]
struct Sample {
    arrived_us: u32,
    received: u32,
    bytes: u64,
    queue_us: i64,
}

impl Sample {
    /// It waited for others, if this is what the path carries. At less than that, its own bytes
    /// would explain more.
    fn stood(&self, rate: u64) -> bool {
        let own = service(self.bytes, Some(rate));
        self.queue_us >= (own + STANDING).as_micros() as i64
    }
}

/// The other end's view of a path, which it is told in reports.
#[derive(Copy, Clone, Debug, Default)]
struct Receiver {
    packets: u32,
    bytes: u32,
    latest: Option<(u32, u32)>,
    echo: Option<(u32, u32)>,
    /// Packets since the last report.
    unreported: u32,
}

#[derive(Debug)]
struct Path {
    /// Bytes a second.
    rate: Extreme<u64>,
    /// Microseconds by two clocks, against the first that was seen on any path.
    delay: Extreme<i64>,
    /// The model's queue is empty then.
    free_at: Instant,
    /// Bytes that wait here for their turn.
    waiting: u64,
    sent: VecDeque<Sent>,
    /// Bytes of those.
    unreported: u64,
    /// How long it took until a packet was reported, the longest.
    answer: Extreme<Duration>,
    /// What follows from `rate` and `answer`, which only a report changes and each packet asks for:
    /// bytes that may be unreported (once it was full: what it carries until reports come), and how
    /// long a packet may be.
    most: u64,
    patience: Duration,
    /// When the last packet left that is known to have come, reports among them, and the last that
    /// is taken for lost.
    came: Instant,
    expired: Option<Instant>,
    /// A packet is taken for lost, and nothing is known to have come that was sent after it.
    silent: bool,
    /// Packets that may be unreported as long as its capacity is unknown.
    allowed: u64,
    count: u32,
    moved: i64,
    sample: Option<Sample>,
    lost: u64,
    /// Packets that were sent, and of which packets the last report told.
    reported: (u32, u32),
    reported_at: Instant,
    /// When a report was sent while nothing else was on the path.
    clean_us: Option<u32>,
    receiver: Receiver,
}

/// See the module.
#[derive(Debug)]
pub struct Earliest {
    paths: Vec<Path>,
    /// The path of packets as long as nothing is known of some path.
    turns: WeightedTurns,
    started: Instant,
    /// Difference of the clocks, with the delay, that delays are counted against.
    origin: Option<u32>,
    used_at: Option<Instant>,
    /// A report has come.
    answered: bool,
    /// Reports that were sent since the last one came.
    unanswered: u32,
    /// When the first packet was sent after the last report.
    unreported_since: Option<Instant>,
}

impl Earliest {
    /// By path a weight, as [`WeightedTurns::new`]: packets take turns by it as long as nothing is
    /// known of a path.
    pub fn new(now: Instant, weights: &[u32]) -> Option<Self> {
        let path = || Path {
            rate: Extreme::new(),
            delay: Extreme::new(),
            free_at: Instant::ZERO,
            waiting: 0,
            sent: VecDeque::new(),
            unreported: 0,
            answer: Extreme::new(),
            most: u64::MAX,
            patience: LOST,
            came: Instant::ZERO,
            expired: None,
            silent: false,
            allowed: FIRST,
            count: 0,
            moved: 0,
            sample: None,
            lost: 0,
            reported: (0, 0),
            reported_at: Instant::ZERO,
            clean_us: None,
            receiver: Receiver::default(),
        };
        let (paths, turns) = (weights.iter().map(|_| path()).collect(), WeightedTurns::new(weights, 1)?);
        Some(Self { paths, turns, started: now, origin: None, used_at: None, answered: false, unanswered: 0, unreported_since: None })
    }

    /// A packet was sent before this run.
    pub fn skip_turn(&mut self) {
        let up = vec![true; self.paths.len()];
        self.turns.pick(0, &up);
    }

    /// The other end sends no reports, so nothing is known: packets take turns by weight, and none
    /// waits.
    pub fn is_blind(&self, now: Instant) -> bool {
        self.unreported_since.is_some_and(|since| now.since(since) >= PATIENCE)
    }

    /// A report has come since the other end was last taken for one that sends none.
    pub const fn is_answered(&self) -> bool {
        self.answered
    }

    /// Forgets what is taken for lost by now; whether a path has become silent, or is so no more
    /// ([`Earliest::is_silent`]).
    pub fn watch(&mut self, now: Instant) -> bool {
        let mut changed = false;
        for path in &mut self.paths {
            while let Some(sent) = path.sent.front().filter(|_| path.expiry() <= now) {
                path.expired = Some(sent.at);
                path.forget(1);
            }
            // Who sends no reports at all says nothing of a path.
            let silent = self.answered && path.expired.is_some_and(|expired| expired > path.came);
            changed |= std::mem::replace(&mut path.silent, silent) != silent;
        }
        changed
    }

    /// Packets that take this path are lost, as far as its reports tell.
    pub fn is_silent(&self, path: PathId) -> bool {
        self.paths[usize::from(path.0)].silent
    }

    /// When [`Earliest::watch`] has something to do on a path; never: [`Instant::NEVER`].
    pub fn expiry(&self, path: PathId) -> Instant {
        self.paths[usize::from(path.0)].expiry()
    }

    /// The path of the next packet, which waits there; none if all are down.
    pub fn pick(&mut self, now: Instant, len: Bytes, up: &[bool]) -> Option<PathId> {
        self.used_at = Some(now);
        let path = self.first(now, len, up)?;
        self.paths[usize::from(path.0)].waiting += len.get() + HEADERS;
        Some(path)
    }

    /// The same of what does not wait.
    pub fn first(&mut self, now: Instant, len: Bytes, up: &[bool]) -> Option<PathId> {
        let known = |path: usize| self.paths[path].base().is_some();
        let path = if live(up).all(known) && !self.is_blind(now) {
            let slowest = self.slowest(up);
            let first = |path: usize| {
                let own = &self.paths[path];
                let wait = own.wait(now);
                (own.is_full(wait, slowest), own.arrival(wait, len))
            };
            live(up).min_by_key(|&path| first(path)).map(|path| PathId(path as u8))?
        } else {
            self.turns.pick(0, up)?
        };
        debug_assert!(up[usize::from(path.0)], "a packet takes a path that it may take");
        Some(path)
    }

    /// When the first packet that waits for this path may be sent; never: after the next report.
    pub fn due(&self, path: PathId) -> Instant {
        // Without reports nothing waits longer than it takes to find that out.
        let blind = self.unreported_since.map_or(Instant::NEVER, |since| since + PATIENCE);
        self.paths[usize::from(path.0)].due().min(blind)
    }

    /// A packet of this path is sent now.
    pub fn on_sent(&mut self, now: Instant, path: PathId, seq: Seq, len: Bytes) {
        self.unreported_since.get_or_insert(now);
        let blind = self.is_blind(now);
        self.answered &= !blind;
        let path = &mut self.paths[usize::from(path.0)];
        let bytes = len.get() + HEADERS;
        debug_assert!(path.waiting >= bytes, "a packet was counted when it took its path");
        path.waiting = path.waiting.saturating_sub(bytes);
        if blind {
            path.forget(path.sent.len());
            path.allowed = FIRST;
            path.count = path.count.wrapping_add(1);
            return;
        }
        path.free_at = path.free_at.max(now) + service(bytes, path.rate.get());
        path.count = path.count.wrapping_add(1);
        if path.sent.len() == REMEMBERED {
            path.forget(1);
        }
        debug_assert!(path.sent.back().is_none_or(|last| last.at <= now), "packets of a path leave one after the other");
        let predicted = path.free_at.since(now).as_nanos() as i64;
        path.sent.push_back(Sent { seq, at: now, count: path.count, predicted, moved: path.moved, bytes });
        path.unreported += bytes;
        debug_assert!(path.sent.len() <= REMEMBERED, "the oldest packet gives way to a new one");
    }

    /// A path is left: what was to be sent on it does not wait any more.
    pub fn on_left(&mut self, path: PathId) {
        if let Some(path) = self.paths.get_mut(usize::from(path.0)) {
            path.waiting = 0;
            path.forget(path.sent.len());
            path.sample = None;
        }
    }

    /// Every path has so much to do that another packet would not arrive sooner for being taken
    /// now.
    pub fn is_full(&self, now: Instant, up: &[bool]) -> bool {
        let slowest = self.slowest(up);
        !self.is_blind(now)
            && live(up).next().is_some()
            && live(up).all(|path| self.paths[path].is_full(self.paths[path].wait(now), slowest))
    }

    /// The greatest delay of a path that is up, without queues.
    fn slowest(&self, up: &[bool]) -> i64 {
        live(up).filter_map(|path| self.paths[path].base()).max().unwrap_or(0)
    }

    /// What is known of a path.
    pub fn estimate(&self, now: Instant, path: PathId) -> Option<PathEstimate> {
        let own = self.paths.get(usize::from(path.0))?;
        let fastest = self.paths.iter().filter_map(Path::base).min();
        Some(PathEstimate {
            capacity: own.rate.get().map(Rate::from_bytes_per_sec),
            behind: own.base().zip(fastest).map(|(own, fastest)| Duration::from_micros((own - fastest) as u64)),
            queue: own.wait(now),
            in_flight: Bytes::new(own.unreported),
            most_in_flight: Some(own.most).filter(|&most| most < u64::MAX).map(Bytes::new),
            lost: own.lost,
        })
    }

    // What the other end is told.

    /// A packet of the other end has come at `arrived`, not later than now.
    pub fn on_received(&mut self, now: Instant, arrived: Instant, path: PathId, seq: Seq, len: Bytes) {
        self.used_at = Some(now);
        let receiver = &mut self.paths[usize::from(path.0)].receiver;
        debug_assert!(arrived <= now, "a packet is read after it came");
        receiver.packets = receiver.packets.wrapping_add(1);
        receiver.bytes = receiver.bytes.wrapping_add((len.get() + HEADERS) as u32);
        receiver.latest = Some((seq.get(), micros(arrived)));
        receiver.unreported += 1;
    }

    /// When the next report is due on a path; never: [`Instant::NEVER`].
    pub fn report_due(&self, path: PathId) -> Instant {
        let path = &self.paths[usize::from(path.0)];
        let used = self.used_at.is_some_and(|used| used >= path.reported_at);
        let wait = match path.receiver.unreported {
            0 if !used => return Instant::NEVER,
            _ if self.unanswered >= UNANSWERED => SELDOM,
            0 => PROBE,
            REPORT_PACKETS.. => REPORT_SOONEST,
            _ => REPORT_LATEST,
        };
        path.reported_at + wait
    }

    /// The report that is sent on a path now.
    pub fn report(&mut self, now: Instant, path: PathId) -> Report {
        self.unanswered = self.unanswered.saturating_add(1);
        let path = &mut self.paths[usize::from(path.0)];
        let (receiver, sent_us) = (&mut path.receiver, micros(now));
        receiver.unreported = 0;
        debug_assert!(path.reported_at <= now, "a report follows the one before it");
        path.reported_at = now;
        if path.free_at <= now && path.waiting == 0 && path.sent.is_empty() {
            path.clean_us = Some(sent_us);
        }
        Report { sent_us, echo: receiver.echo, latest: receiver.latest, packets: receiver.packets, bytes: receiver.bytes }
    }

    /// A report of the other end has come, as above.
    pub fn on_report(&mut self, now: Instant, arrived: Instant, number: PathId, report: &Report) {
        let Some(path) = self.paths.get_mut(usize::from(number.0)) else { return };
        debug_assert!(arrived <= now, "a report is read after it came");
        (self.answered, self.unanswered, self.unreported_since) = (true, 0, None);
        path.receiver.echo = Some((report.sent_us, micros(arrived)));
        // Who has heard nothing of the path yet is answered soon.
        path.receiver.unreported += u32::from(report.echo.is_none());
        let mut delay = |sent_us: u32, arrived_us: u32| {
            let between = arrived_us.wrapping_sub(sent_us);
            i64::from(between.wrapping_sub(*self.origin.get_or_insert(between)) as i32)
        };
        let age = |sent_us: u32| Duration::from_micros(u64::from(micros(now).wrapping_sub(sent_us)));
        // What this end sent before it started again was timed by another clock.
        let own = |&(sent_us, _): &(u32, u32)| age(sent_us) <= now.since(self.started);
        if let Some((sent_us, arrived_us)) = report.echo.filter(own) {
            let age = age(sent_us);
            path.came = path.came.max(Instant::from_nanos(now.as_nanos().saturating_sub(age.as_nanos())));
            let delay = delay(sent_us, arrived_us);
            if path.clean_us == Some(sent_us) {
                // Nothing was in its way: that is how long the path takes now, even if it took less
                // before.
                path.delay.restart(now, delay);
            } else {
                path.delay.add(now, DELAY_PERIOD, delay, i64::min);
            }
        }
        let Some((seq, arrived_us)) = report.latest else { return };
        let first = path.sent.front().map(|first| first.at);
        let Some(sent) = path.acknowledge(Seq::new(seq)) else { return };
        path.came = path.came.max(sent.at);
        // The first of those that a report tells of has waited longest: a report comes for many.
        // One that was lost has not waited for it.
        let all_came = sent.count.wrapping_sub(path.reported.0) == report.packets.wrapping_sub(path.reported.1);
        let since = first.filter(|_| all_came).unwrap_or(sent.at);
        path.answer.add(now, DELAY_PERIOD, now.since(since), Duration::max);
        let delay = delay(micros(sent.at), arrived_us);
        path.delay.add(now, DELAY_PERIOD, delay, i64::min);
        path.on_delivered(now, &sent, delay, arrived_us, report);
        path.note_limits();
    }
}

impl Path {
    /// It was never full.
    fn is_unmeasured(&self) -> bool {
        self.rate.get().is_none()
    }

    fn base(&self) -> Option<i64> {
        self.delay.get()
    }

    fn note_limits(&mut self) {
        let (rate, answer) = (self.rate.get(), self.answer.get());
        let carried = |(rate, answer): (u64, Duration)| (u128::from(rate) * u128::from(answer.as_micros()) / 1_000_000) as u64;
        self.most = rate.zip(answer).map_or(u64::MAX, |known| carried(known) + SPARE * FULL);
        self.patience = answer.map_or(LOST, |answer| (answer * LOST_AFTER).max(LOST_SOONEST));
    }

    /// When the packet that has been unreported longest is taken for lost.
    fn expiry(&self) -> Instant {
        self.sent.front().map_or(Instant::NEVER, |sent| sent.at + self.patience)
    }

    /// So many packets need no report any more.
    fn forget(&mut self, count: usize) {
        self.unreported -= self.sent.drain(..count).map(|sent| sent.bytes).sum::<u64>();
        debug_assert_eq!(self.unreported == 0, self.sent.is_empty(), "bytes are forgotten with their packets");
    }

    /// When the first packet that waits for it may be sent, as the model has it.
    fn due(&self) -> Instant {
        if self.is_unmeasured() {
            return if self.sent.len() as u64 >= self.allowed { Instant::NEVER } else { Instant::ZERO };
        }
        if self.unreported >= self.most {
            return Instant::NEVER;
        }
        let drain = self.delay.began + DELAY_PERIOD;
        if (self.free_at + DRAIN) >= drain && self.free_at < drain {
            let resumes = drain + PAUSE;
            return self.free_at.max(Instant::from_nanos(resumes.as_nanos().saturating_sub(DRAIN.as_nanos())));
        }
        Instant::from_nanos(self.free_at.as_nanos().saturating_sub(QUEUE.as_nanos()))
    }

    /// How long a packet that is taken now waits before it is served.
    fn wait(&self, now: Instant) -> Duration {
        self.free_at.since(now) + service(self.waiting, self.rate.get())
    }

    /// It has as much to do as there is time until the slowest one is worth waiting for, or has not
    /// reported what it got. `wait`: see [`Path::wait`].
    fn is_full(&self, wait: Duration, slowest: i64) -> bool {
        if self.is_unmeasured() {
            return self.sent.len() as u64 + self.waiting / FULL >= self.allowed;
        }
        if self.unreported >= self.most {
            return true;
        }
        let head_start = self.base().map_or(0, |base| slowest - base);
        wait > QUEUE + Duration::from_micros(head_start as u64)
    }

    /// When a packet that is taken now arrives, and waits for so long before, microseconds against
    /// an instant that is the same for all paths.
    fn arrival(&self, wait: Duration, len: Bytes) -> i64 {
        let wait = wait + service(len.get() + HEADERS, self.rate.get());
        self.base().unwrap_or(0) + wait.as_micros() as i64
    }

    /// The packet of which a report tells; those before it have come, or are lost.
    fn acknowledge(&mut self, seq: Seq) -> Option<Sent> {
        let place = self.sent.iter().position(|sent| sent.seq == seq)?;
        let sent = self.sent[place];
        // Linux: `tcp_is_cwnd_limited`. What was not used says nothing.
        if self.allowed < 2 * self.sent.len() as u64 {
            self.allowed += place as u64 + 1;
        }
        self.forget(place + 1);
        debug_assert!(
            self.sent.front().is_none_or(|next| next.count == sent.count.wrapping_add(1)),
            "packets are remembered without a gap"
        );
        Some(sent)
    }

    fn on_delivered(&mut self, now: Instant, sent: &Sent, delay: i64, arrived_us: u32, report: &Report) {
        let queue_us = (delay - self.base().unwrap_or(delay)).max(0);
        let sample = Sample { arrived_us, received: report.bytes, bytes: sent.bytes, queue_us };
        if let Some(last) = self.sample.replace(sample) {
            let (bytes, time) = (report.bytes.wrapping_sub(last.received), arrived_us.wrapping_sub(last.arrived_us));
            if bytes as i32 > 0 && time as i32 > 0 {
                let rate = (u64::from(bytes) * 1_000_000 / u64::from(time)).max(SLOWEST);
                let full = last.stood(rate) && sample.stood(rate);
                if full || self.rate.get().is_some_and(|known| rate > known) {
                    self.rate.add(now, RATE_PERIOD, rate, u64::max);
                }
            }
        }
        // What was sent up to this packet and did not come, beyond what was missing before.
        let (count, came) = (sent.count.wrapping_sub(self.reported.0), report.packets.wrapping_sub(self.reported.1));
        debug_assert!(count > 0 && count <= u32::MAX >> 1, "a report that counts tells of a later packet than the last");
        self.lost += u64::from(count.saturating_sub(came));
        self.reported = (sent.count, report.packets);
        self.correct(now, sent, queue_us * 1000);
    }

    /// Moves the model by what it predicted wrongly, beyond what it has been moved by since.
    fn correct(&mut self, now: Instant, sent: &Sent, queue: i64) {
        let wrong = queue - sent.predicted - (self.moved - sent.moved);
        let before = self.free_at.max(now).as_nanos();
        let after = before.saturating_add_signed(wrong).clamp(now.as_nanos(), (now + LONGEST_QUEUE).as_nanos());
        self.moved += after as i64 - before as i64;
        self.free_at = Instant::from_nanos(after);
    }
}

fn live(up: &[bool]) -> impl Iterator<Item = usize> + '_ {
    up.iter().enumerate().filter(|&(_, &up)| up).map(|(path, _)| path)
}

fn service(bytes: u64, rate: Option<u64>) -> Duration {
    rate.map_or(Duration::ZERO, |rate| Rate::from_bytes_per_sec(rate).time_for(Bytes::new(bytes)))
}

fn micros(now: Instant) -> u32 {
    now.as_micros() as u32
}
