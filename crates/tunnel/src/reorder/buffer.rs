//! Packets that wait for earlier ones, by number; what all rules but MPT's and equalisation share.

use super::ReorderCounters;
use super::anew::Anew;
use polypath_base::{Duration, Instant, Seq};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Numbers are counted on in 64 bits from here, so that they neither wrap nor go below zero.
const ORIGIN: u64 = 1 << 32;
/// A number that is further than this from what is expected, and further than packets may wait,
/// fits nowhere.
const NEAR: u64 = 4096;

/// Where a packet's number was.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// Among those that are expected or have come.
    Near,
    /// It fits nowhere, or has come before: it was given on at once, and says nothing. TCP drops a
    /// duplicate by itself. And of a peer that has started anew the first seven numbers look like
    /// duplicates: dropped, each would cost a timeout.
    Nowhere,
    /// The peer counts anew: what was learnt of the old numbers means nothing.
    Anew,
}

/// Why missing packets are waited for no longer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Time,
    Lost,
    Room,
}

#[derive(Debug)]
struct Held<P> {
    since: Instant,
    packet: P,
}

#[derive(Debug)]
pub(super) struct Buffer<P> {
    /// Something has come: `expected` is the peer's.
    started: bool,
    /// The number that comes next.
    expected: u64,
    /// Packets behind a gap, by number: all are beyond `expected`.
    held: BTreeMap<u64, Held<P>>,
    /// The same by time of arrival; numbers below `expected` have left and are dropped lazily.
    arrivals: VecDeque<(Instant, u64)>,
    /// Numbers that were given up and have not come; the newest `near` of them.
    given_up: Ranges,
    ready: VecDeque<P>,
    capacity: usize,
    /// A number that is no further from `expected` fits.
    near: u64,
    anew: Anew,
    pub(super) counters: ReorderCounters,
}

impl<P> Buffer<P> {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            started: false,
            expected: ORIGIN,
            held: BTreeMap::new(),
            arrivals: VecDeque::new(),
            given_up: Ranges::default(),
            ready: VecDeque::new(),
            capacity: capacity as usize,
            near: near(capacity),
            anew: Anew::default(),
            counters: ReorderCounters::default(),
        }
    }

    /// A packet's number in 64 bits: of all with these low bits the one nearest to what is
    /// expected.
    pub(super) fn extend(&self, seq: Seq) -> u64 {
        let ahead = seq.get().wrapping_sub(self.expected as u32) as i32;
        self.expected.saturating_add_signed(i64::from(ahead))
    }

    /// The first number that will come.
    pub(super) fn expect(&mut self, first: Seq) {
        debug_assert!(!self.started && self.held.is_empty(), "nothing has come yet");
        self.expected = self.extend(first);
    }

    /// Takes a packet in, and makes ready what is now in order.
    pub(super) fn insert(&mut self, now: Instant, number: u64, packet: P) -> Placed {
        if !self.started {
            self.started = true;
            // A peer that counted before we began is not waited for.
            if !(self.expected..self.expected + self.capacity as u64).contains(&number) {
                self.begin_at(now, number);
            }
        }
        let placed = self.place(number);
        match placed {
            Placed::Near => self.insert_near(now, number, packet),
            Placed::Nowhere => self.deliver(packet),
            Placed::Anew => {
                self.begin_at(now, number);
                self.counters.restarts += 1;
                self.insert_near(now, number, packet);
            }
        }
        placed
    }

    fn place(&mut self, number: u64) -> Placed {
        let near = (self.expected..=self.expected + self.near).contains(&number);
        if near || self.given_up.contains(number) {
            self.anew.forget();
            Placed::Near
        } else if self.anew.on_stranger(number, self.near) {
            Placed::Anew
        } else {
            Placed::Nowhere
        }
    }

    fn insert_near(&mut self, now: Instant, number: u64, packet: P) {
        if self.given_up.remove(number) {
            self.counters.late_delivered += 1;
            self.deliver(packet);
            return;
        }
        if number == self.expected {
            self.deliver(packet);
            self.expected += 1;
            self.run(now);
        } else if let Entry::Vacant(place) = self.held.entry(number) {
            place.insert(Held { since: now, packet });
            self.arrivals.push_back((now, number));
            self.counters.held += 1;
            if self.held.len() > self.capacity {
                let first = self.first_held().unwrap_or(number);
                self.release_through(now, first, Why::Room);
            }
            debug_assert!(self.held.len() <= self.capacity, "there is room for what waits");
        } else {
            self.deliver(packet);
        }
        self.forget_left();
    }

    /// Everything held is given on; `number` comes next. Slower paths may still deliver numbers
    /// before it.
    fn begin_at(&mut self, now: Instant, number: u64) {
        if let Some((&last, _)) = self.held.last_key_value() {
            self.release_through(now, last, Why::Room);
        }
        self.given_up = Ranges::default();
        debug_assert!(self.held.is_empty(), "nothing of the old numbers waits");
        self.arrivals.clear();
        self.expected = number;
        self.given_up.add(number.saturating_sub(self.near)..number, self.near);
    }

    /// The first number that waits.
    pub(super) fn first_held(&self) -> Option<u64> {
        self.held.first_key_value().map(|(&number, _)| number)
    }

    /// When the packet that waits for longest came.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.arrivals.front().map(|&(since, _)| since)
    }

    /// Gives on everything up to a number, and what follows it without a gap.
    pub(super) fn release_through(&mut self, now: Instant, number: u64, why: Why) {
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() > number {
                break;
            }
            let (first, held) = entry.remove_entry();
            self.give_up(self.expected..first, why);
            self.expected = first + 1;
            self.count_hold(now, held.since);
            self.deliver(held.packet);
        }
        self.run(now);
        self.forget_left();
    }

    /// Gives on what has waited for `wait`.
    pub(super) fn release_older(&mut self, now: Instant, wait: Duration) {
        while let Some(&(since, number)) = self.arrivals.front() {
            if since + wait > now {
                break;
            }
            self.release_through(now, number, Why::Time);
        }
    }

    pub(super) fn poll_deliver(&mut self) -> Option<P> {
        self.ready.pop_front()
    }

    fn run(&mut self, now: Instant) {
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() != self.expected {
                break;
            }
            let held = entry.remove();
            self.count_hold(now, held.since);
            self.deliver(held.packet);
            self.expected += 1;
        }
    }

    fn deliver(&mut self, packet: P) {
        self.ready.push_back(packet);
        self.counters.delivered += 1;
    }

    fn count_hold(&mut self, now: Instant, since: Instant) {
        debug_assert!(since <= now, "a packet leaves after it came");
        self.counters.hold_time += now.since(since);
    }

    fn give_up(&mut self, numbers: Range<u64>, why: Why) {
        let count = numbers.end - numbers.start;
        let counter = match why {
            Why::Time => &mut self.counters.given_up_by_time,
            Why::Lost => &mut self.counters.given_up_as_lost,
            Why::Room => &mut self.counters.given_up_for_room,
        };
        *counter += count;
        // They are given on if they come.
        self.given_up.add(numbers, self.near);
    }

    /// Forgets the arrivals of packets that have left.
    fn forget_left(&mut self) {
        while self.arrivals.front().is_some_and(|&(_, number)| number < self.expected) {
            self.arrivals.pop_front();
        }
        debug_assert!(self.first_held().is_none_or(|first| first > self.expected), "what waits lies beyond a gap");
        debug_assert!(self.held.len() <= self.arrivals.len(), "the arrival of what waits is known");
    }
}

/// How far from what is expected a number may be, where so many packets may wait.
pub(super) fn near(capacity: u32) -> u64 {
    NEAR.max(u64::from(capacity))
}

/// A set of numbers, of which whole ranges come and go at a time.
#[derive(Debug, Default)]
struct Ranges {
    /// The end of each by its start; they do not overlap.
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Ranges {
    /// Adds numbers that are greater than all that are there. Of more than `most` the least are
    /// forgotten.
    fn add(&mut self, numbers: Range<u64>, most: u64) {
        debug_assert!(self.ends.last_key_value().is_none_or(|(_, &end)| end <= numbers.start), "ranges do not overlap");
        if !numbers.is_empty() {
            self.count += numbers.end - numbers.start;
            self.ends.insert(numbers.start, numbers.end);
        }
        while let Some(excess) = self.count.checked_sub(most).filter(|&excess| excess > 0) {
            let Some((start, end)) = self.ends.pop_first() else { break };
            let dropped = excess.min(end - start);
            self.count -= dropped;
            if start + dropped < end {
                self.ends.insert(start + dropped, end);
            }
        }
        debug_assert!(self.count <= most, "the least numbers are forgotten");
    }

    fn around(&self, number: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ends.range(..=number).next_back()?;
        (number < end).then_some(start..end)
    }

    fn contains(&self, number: u64) -> bool {
        self.around(number).is_some()
    }

    /// Whether it was there.
    fn remove(&mut self, number: u64) -> bool {
        let Some(Range { start, end }) = self.around(number) else { return false };
        self.ends.remove(&start);
        for rest in [start..number, number + 1..end] {
            if !rest.is_empty() {
                self.ends.insert(rest.start, rest.end);
            }
        }
        self.count -= 1;
        debug_assert_eq!(self.count == 0, self.ends.is_empty(), "numbers are counted with their ranges");
        true
    }
}
