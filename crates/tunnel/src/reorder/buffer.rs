//! Packets that wait for earlier ones, by number; what all rules but MPT's and equalisation share.

use super::ReorderCounters;
use polypath_base::{Duration, Instant, Seq};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Numbers are counted on in 64 bits from here, so that they neither wrap nor go below zero.
const ORIGIN: u64 = 1 << 32;
/// A number so far ahead is no gap: the peer has begun to count elsewhere, or it is forged.
const JUMP: u64 = 1 << 22;
/// So many packets in a row that are not awaited, with growing numbers, mean that the peer counts anew.
const RESTART: u32 = 8;

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
    /// Numbers that were given up and have not come; the newest `capacity` of them.
    given_up: BTreeSet<u64>,
    ready: VecDeque<P>,
    capacity: usize,
    /// The last packet that was not awaited any more, and how many such came in a row.
    behind: (u64, u32),
    pub(super) counters: ReorderCounters,
}

impl<P> Buffer<P> {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            started: false,
            expected: ORIGIN,
            held: BTreeMap::new(),
            arrivals: VecDeque::new(),
            given_up: BTreeSet::new(),
            ready: VecDeque::new(),
            capacity: capacity as usize,
            behind: (0, 0),
            counters: ReorderCounters::default(),
        }
    }

    /// A packet's number in 64 bits: of all with these low bits the one nearest to what is expected.
    pub(super) fn extend(&self, seq: Seq) -> u64 {
        let ahead = seq.get().wrapping_sub(self.expected as u32) as i32;
        self.expected.saturating_add_signed(i64::from(ahead))
    }

    /// The first number that will come.
    pub(super) fn expect(&mut self, first: Seq) {
        self.expected = self.extend(first);
    }

    /// Takes a packet in, and makes ready what is now in order. True if the peer turns out to count anew, so that what was learnt of the old
    /// numbers means nothing.
    pub(super) fn insert(&mut self, now: Instant, number: u64, packet: P) -> bool {
        if !self.started {
            self.started = true;
            // A peer that counted before we began is not waited for.
            if !(self.expected..self.expected + self.capacity as u64).contains(&number) {
                self.begin_at(now, number);
            }
        }
        if number < self.expected {
            return self.insert_behind(now, number, packet);
        }
        self.behind = (0, 0);
        let jumps = number - self.expected > JUMP;
        if jumps {
            self.begin_at(now, number);
        }
        self.counters.restarts += u64::from(jumps);
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
        } else {
            self.counters.duplicates += 1;
        }
        self.forget_left();
        jumps
    }

    /// A packet that is not awaited any more: it is late, has come before, or the peer counts anew.
    fn insert_behind(&mut self, now: Instant, number: u64, packet: P) -> bool {
        if self.given_up.remove(&number) {
            self.behind = (0, 0);
            self.counters.late_delivered += 1;
            self.deliver(packet);
            return false;
        }
        let (last, count) = self.behind;
        self.behind = (number, if number > last { count + 1 } else { 1 });
        if self.behind.1 < RESTART {
            self.counters.duplicates += 1;
            return false;
        }
        self.begin_at(now, number);
        self.counters.restarts += 1;
        self.deliver(packet);
        self.expected += 1;
        true
    }

    /// Everything held is given on; `number` comes next. Slower paths may still deliver numbers before it.
    fn begin_at(&mut self, now: Instant, number: u64) {
        if let Some((&last, _)) = self.held.last_key_value() {
            self.release_through(now, last, Why::Room);
        }
        self.given_up.clear();
        self.arrivals.clear();
        self.expected = number;
        self.behind = (0, 0);
        self.await_late(number.saturating_sub(self.capacity as u64)..number);
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
        self.await_late(numbers);
    }

    /// These numbers are given on if they come.
    fn await_late(&mut self, numbers: Range<u64>) {
        let newest = numbers.end.saturating_sub(self.capacity as u64).max(numbers.start);
        for number in newest..numbers.end {
            self.given_up.insert(number);
            if self.given_up.len() > self.capacity {
                self.given_up.pop_first();
            }
        }
    }

    /// Forgets the arrivals of packets that have left.
    fn forget_left(&mut self) {
        while self.arrivals.front().is_some_and(|&(_, number)| number < self.expected) {
            self.arrivals.pop_front();
        }
    }
}
