//! The rule of MPT, faults and all, as its source has it (`spyff/mpt`, 2019) and captures show.
//!
//! Held packets stand in a table by number, and in a ring of buffers for each path. For a packet n,
//! where E is expected:
//! 1. n < E and n > 50: it is dropped, although nothing later need have been lost.
//! 2. n < E and n <= 50: the peer is taken to have started anew; everything held is given on, and E
//!    becomes n.
//! 3. n >= E + window: everything held is given on over the gaps, and E becomes n. Whatever a
//!    slower path still carries is late then, and dropped: the knife edge of a window that is a
//!    little too small.
//! 4. Otherwise it is held; if it is E, it and the run behind it are given on.
//! 5. If a path's ring comes round to a buffer that is in use, everything held is given on over the
//!    gaps.
//!
//! Once a millisecond a thread looks whether a packet has been held for longer than the longest
//! delay. It then gives on everything up to the one of these that is furthest ahead, and the run
//! behind it. Nothing else tells that a packet is lost: one lost packet holds the tunnel for the
//! whole delay.
//!
//! Numbers are compared as they are: MPT does not expect them to wrap.

use super::{Arrival, ReorderCounters, Rule};
use polypath_base::{Duration, Instant, PathId, Seq};
use std::collections::VecDeque;

/// Rule 2 takes numbers up to this for those of a peer that has started anew.
const FIRST_NUMBERS: u64 = 50;
/// What MPT makes of a longest delay of 0.
const DEFAULT_DELAY: Duration = Duration::from_millis(100);
/// How often the thread looks.
const TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Mpt<P> {
    window: u32,
    max_delay: Duration,
    expected: u64,
    table: Table<P>,
    /// Arrivals of packets that were held; those below `expected` have left.
    arrivals: VecDeque<(Instant, u64)>,
    /// What [`Rule::poll_timeout`] answers: it is asked for each packet.
    timeout: Instant,
    rings: Vec<Ring>,
    ready: VecDeque<P>,
    counters: ReorderCounters,
}

/// Held packets by number: all are less than the window apart, so each has a place of its own in a
/// ring.
#[derive(Debug)]
struct Table<P> {
    /// A power of two of places, not less than the window; none as long as nothing has been held.
    places: Vec<Option<Held<P>>>,
    held: u32,
}

impl<P> Table<P> {
    const fn new() -> Self {
        Self { places: Vec::new(), held: 0 }
    }

    fn place(&self, number: u64) -> usize {
        number as usize & self.places.len().wrapping_sub(1)
    }

    /// The packet with a number from the expected one on and within the window.
    fn get(&self, number: u64) -> Option<&Held<P>> {
        self.places.get(self.place(number))?.as_ref()
    }

    fn insert(&mut self, number: u64, window: u32, held: Held<P>) {
        if self.places.is_empty() {
            self.places.resize_with(window.next_power_of_two() as usize, || None);
        }
        let place = self.place(number);
        debug_assert!(self.places[place].is_none(), "each number within the window has a place of its own");
        self.places[place] = Some(held);
        self.held += 1;
    }

    fn take(&mut self, number: u64) -> Option<Held<P>> {
        let place = self.place(number);
        let held = self.places.get_mut(place)?.take()?;
        self.held -= 1;
        Some(held)
    }
}

#[derive(Debug)]
struct Held<P> {
    since: Instant,
    /// Where it stands in the ring of its path.
    ring: (PathId, u32),
    packet: P,
}

/// The buffers of a path: `window` of them, used in turn.
#[derive(Clone, Debug)]
struct Ring {
    next: u32,
    /// By buffer the number of its packet.
    numbers: Box<[u64]>,
}

impl<P> Mpt<P> {
    pub(super) fn new(window: u32, max_delay: Duration) -> Self {
        Self {
            window,
            max_delay: if max_delay == Duration::ZERO { DEFAULT_DELAY } else { max_delay },
            expected: 0,
            table: Table::new(),
            arrivals: VecDeque::new(),
            timeout: Instant::NEVER,
            rings: Vec::new(),
            ready: VecDeque::new(),
            counters: ReorderCounters::default(),
        }
    }

    /// Takes the path's next buffer; true if that is still in use.
    fn take_buffer(&mut self, path: PathId, number: u64) -> (u32, bool) {
        let place = usize::from(path.0);
        if place >= self.rings.len() {
            let empty = Ring { next: 0, numbers: vec![0; self.window as usize].into() };
            self.rings.resize(place + 1, empty);
        }
        let ring = &mut self.rings[place];
        let slot = ring.next;
        let occupant = std::mem::replace(&mut ring.numbers[slot as usize], number);
        ring.next = (slot + 1) % self.window;
        let in_use = self.in_window(occupant) && self.table.get(occupant).is_some_and(|held| held.ring == (path, slot));
        (slot, in_use)
    }

    fn in_window(&self, number: u64) -> bool {
        (self.expected..self.expected + u64::from(self.window)).contains(&number)
    }

    /// Gives on what is held up to a number, over the gaps, and the run behind it. Returns how many
    /// numbers were skipped.
    fn release_through(&mut self, now: Instant, number: u64) -> u64 {
        let (mut next, mut given_up) = (self.expected, 0);
        // Every held number is within the window, so the loop ends there at the latest.
        while self.table.held > 0 && (next <= number || next == self.expected) {
            if let Some(held) = self.table.take(next) {
                given_up += next - self.expected;
                self.counters.hold_time += now.since(held.since);
                self.deliver(held.packet);
                self.expected = next + 1;
            }
            next += 1;
        }
        self.forget_left();
        debug_assert!(self.table.get(self.expected).is_none(), "what is held lies beyond a gap");
        debug_assert!(self.table.held as usize <= self.arrivals.len(), "the arrival of what is held is known");
        given_up
    }

    fn release_all(&mut self, now: Instant) {
        self.counters.given_up_for_room += self.release_through(now, u64::MAX);
    }

    fn deliver(&mut self, packet: P) {
        self.ready.push_back(packet);
        self.counters.delivered += 1;
    }

    fn forget_left(&mut self) {
        let before = self.arrivals.len();
        while self.arrivals.front().is_some_and(|&(_, number)| number < self.expected) {
            self.arrivals.pop_front();
        }
        if self.arrivals.len() != before {
            self.note_timeout();
        }
    }

    fn note_timeout(&mut self) {
        // The first look at which the packet that came first has been held for longer.
        self.timeout = self.arrivals.front().map_or(Instant::NEVER, |&(since, _)| {
            let ticks = (since + self.max_delay).as_nanos() / TICK.as_nanos() + 1;
            Instant::from_nanos(ticks.saturating_mul(TICK.as_nanos()))
        });
    }
}

impl<P> Rule<P> for Mpt<P> {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival<P>) {
        let number = u64::from(arrival.seq.get());
        // Every packet takes a buffer, whatever becomes of it.
        let (slot, in_use) = self.take_buffer(arrival.path, number);
        if in_use {
            self.release_all(now);
        }
        if number < self.expected {
            if number > FIRST_NUMBERS {
                self.counters.late_dropped += 1;
                return;
            }
            self.release_all(now);
            self.expected = number;
            self.arrivals.clear();
            self.note_timeout();
            self.counters.restarts += 1;
        } else if number >= self.expected + u64::from(self.window) {
            self.release_all(now);
            self.counters.given_up_for_room += number - self.expected;
            self.expected = number;
        }
        if self.table.get(number).is_some() {
            self.counters.duplicates += 1;
            return;
        }
        debug_assert!(self.in_window(number), "what lay outside has moved the window or is dropped");
        if number != self.expected {
            self.arrivals.push_back((now, number));
            if self.arrivals.len() == 1 {
                self.note_timeout();
            }
            self.counters.held += 1;
            let held = Held { since: now, ring: (arrival.path, slot), packet: arrival.packet };
            self.table.insert(number, self.window, held);
            return;
        }
        self.deliver(arrival.packet);
        self.expected = number + 1;
        self.release_through(now, number);
    }

    fn begin_at(&mut self, first: Seq) {
        debug_assert!(self.table.held == 0, "nothing has come yet");
        self.expected = u64::from(first.get());
    }

    fn handle_timeout(&mut self, now: Instant) {
        let over = self.arrivals.iter().take_while(|&&(since, _)| now.since(since) > self.max_delay);
        if let Some(furthest) = over.map(|&(_, number)| number).max() {
            self.counters.given_up_by_time += self.release_through(now, furthest);
        }
        debug_assert!(self.timeout > now, "what was due is done");
    }

    fn poll_deliver(&mut self) -> Option<P> {
        self.ready.pop_front()
    }

    fn poll_timeout(&self) -> Instant {
        self.timeout
    }

    fn counters(&self) -> ReorderCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, ms};
    use super::*;

    fn mpt(window: u32) -> Bench<Mpt<u32>> {
        Bench::new(Mpt::new(window, Duration::from_millis(300)))
    }

    #[test]
    fn packets_wait_for_the_one_before_them() {
        let mut mpt = mpt(100);
        assert_eq!(mpt.arrive(0, 0, 0), [0]);
        assert_eq!(mpt.arrive(1, 1, 2), []);
        assert_eq!(mpt.arrive(2, 1, 3), []);
        assert_eq!(mpt.arrive(5, 0, 1), [1, 2, 3]);
        assert_eq!((mpt.counters().held, mpt.counters().hold_time), (2, Duration::from_millis(4 + 3)));
    }

    #[test]
    fn one_lost_packet_holds_the_tunnel_for_the_whole_delay() {
        let mut mpt = mpt(1000);
        for n in 0..100 {
            mpt.arrive(0, 0, n);
        }
        for n in 101..300 {
            assert_eq!(mpt.arrive(u64::from(n), 0, n), [], "100 is missing");
        }
        assert_eq!(mpt.timeout(), ms(402), "the first look at which 101 is older than 300 ms");
        // 101 alone is too old, and the run behind it follows.
        assert_eq!(mpt.expire(), (101..300).collect::<Vec<_>>());
        assert_eq!((mpt.counters().given_up_by_time, mpt.timeout()), (1, Instant::NEVER));
        assert_eq!(mpt.arrive(403, 1, 100), [], "dropped");
    }

    #[test]
    fn what_has_waited_for_just_the_delay_waits_on() {
        let mut mpt = mpt(100);
        mpt.arrive(0, 0, 0);
        mpt.arrive(101, 0, 2);
        mpt.arrive(102, 0, 4);
        assert_eq!((mpt.timeout(), mpt.expire()), (ms(402), vec![2]));
        assert_eq!((mpt.timeout(), mpt.expire()), (ms(403), vec![4]));
    }

    #[test]
    fn late_packets_are_dropped_and_low_numbers_start_anew() {
        let mut mpt = mpt(10);
        for n in 0..100 {
            assert_eq!(mpt.arrive(0, 0, n), [n]);
        }
        assert_eq!(mpt.arrive(1, 1, 99), []);
        assert_eq!(mpt.arrive(1, 1, 51), []);
        assert_eq!(mpt.counters().late_dropped, 2);
        assert_eq!(mpt.arrive(2, 1, 101), []);
        assert_eq!(mpt.arrive(2, 1, 50), [101, 50], "what was held goes first");
        assert_eq!(mpt.arrive(3, 1, 51), [51]);
        assert_eq!(mpt.counters().restarts, 1);
    }

    #[test]
    fn a_number_beyond_the_window_gives_up_what_the_slow_path_carries() {
        let mut mpt = mpt(16);
        for n in 0..101 {
            mpt.arrive(0, 0, n);
        }
        // The fast path brings even numbers; the odd ones are under way on the other.
        for n in (102..=116).step_by(2) {
            assert_eq!(mpt.arrive(1, 0, n), [], "101 is missing");
        }
        assert_eq!(mpt.arrive(2, 0, 118), [102, 104, 106, 108, 110, 112, 114, 116, 118], "101 + 16 is 117");
        assert_eq!(mpt.arrive(3, 1, 101), [], "late, and dropped");
        assert_eq!(mpt.arrive(3, 1, 117), []);
        assert_eq!(mpt.counters().late_dropped, 2);
        assert_eq!(mpt.arrive(3, 1, 119), [119]);
    }

    #[test]
    fn a_ring_that_comes_round_gives_everything_on() {
        let mut mpt = mpt(4);
        for n in 0..60 {
            mpt.arrive(0, 0, n);
        }
        // 60 is missing; 61 stays in its buffer while three late packets use the others, and the
        // fifth packet needs that one.
        assert_eq!(mpt.arrive(1, 0, 61), []);
        for _ in 0..3 {
            assert_eq!(mpt.arrive(1, 0, 55), []);
        }
        assert_eq!(mpt.arrive(2, 0, 63), [61]);
        assert_eq!(mpt.arrive(2, 0, 62), [62, 63]);
    }

    #[test]
    fn a_longest_delay_of_0_is_100_ms() {
        let mut mpt = Bench::new(Mpt::new(10, Duration::ZERO));
        mpt.arrive(0, 0, 1);
        assert_eq!(mpt.timeout(), ms(101));
    }
}
