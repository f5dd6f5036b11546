//! Packets of faster paths are held for as long as the slowest one is behind. Numbers tell how far
//! that is, and decide nothing else.

use super::anew::Anew;
use super::buffer::near;
use super::lag::Lags;
use super::{Arrival, ReorderCounters, Rule};
use polypath_base::{Duration, Instant, Seq};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub struct Equalised<P> {
    lags: Lags,
    cap: Duration,
    capacity: usize,
    /// By the time at which they are given on, then by arrival.
    held: BTreeMap<(Instant, u64), (Instant, P)>,
    arrived: u64,
    ready: VecDeque<P>,
    /// The greatest number of late, in 64 bits.
    newest: u64,
    /// A number that is no further from it fits.
    near: u64,
    anew: Anew,
    counters: ReorderCounters,
}

impl<P> Equalised<P> {
    pub(super) fn new(cap: Duration, capacity: u32, paths: usize) -> Self {
        Self {
            lags: Lags::new(paths),
            cap,
            capacity: capacity as usize,
            held: BTreeMap::new(),
            arrived: 0,
            ready: VecDeque::new(),
            newest: 1 << 32,
            near: near(capacity),
            anew: Anew::default(),
            counters: ReorderCounters::default(),
        }
    }

    /// A packet's number in 64 bits; none if it fits nowhere, and says nothing.
    fn place(&mut self, seq: Seq) -> Option<u64> {
        let ahead = seq.get().wrapping_sub(self.newest as u32) as i32;
        let number = self.newest.saturating_add_signed(i64::from(ahead));
        if number.abs_diff(self.newest) <= self.near {
            self.anew.forget();
            self.newest = self.newest.max(number);
        } else if self.anew.on_stranger(number, self.near) {
            self.lags.restart();
            self.newest = number;
        } else {
            return None;
        }
        debug_assert!(number.abs_diff(self.newest) <= self.near, "what fits lies near the greatest number");
        Some(number)
    }

    fn hold(&mut self, now: Instant, hold: Duration, packet: P) {
        self.counters.held += u64::from(hold > Duration::ZERO);
        self.held.insert((now + hold, self.arrived), (now, packet));
        self.arrived += 1;
        if self.held.len() > self.capacity {
            self.deliver_first(now);
        }
        debug_assert!(self.held.len() <= self.capacity, "there is room for what waits");
        debug_assert_eq!(self.arrived, self.counters.delivered + self.held.len() as u64, "what came waits or was given on");
        self.handle_timeout(now);
    }

    fn deliver_first(&mut self, now: Instant) {
        let Some((_, (came, packet))) = self.held.pop_first() else { return };
        debug_assert!(came <= now, "a packet leaves after it came");
        self.counters.hold_time += now.since(came);
        self.counters.delivered += 1;
        self.ready.push_back(packet);
    }
}

impl<P> Rule<P> for Equalised<P> {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival<P>) {
        if let Some(number) = self.place(arrival.seq) {
            self.lags.on_arrival(now, arrival.path, number);
        }
        let hold = self.lags.lead(arrival.path).min(self.cap);
        self.hold(now, hold, arrival.packet);
    }

    fn handle_recovered(&mut self, now: Instant, _seq: Seq, packet: P) {
        self.hold(now, Duration::ZERO, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.held.first_key_value().is_some_and(|(&(due, _), _)| due <= now) {
            self.deliver_first(now);
        }
    }

    fn poll_deliver(&mut self) -> Option<P> {
        self.ready.pop_front()
    }

    fn poll_timeout(&self) -> Instant {
        self.held.first_key_value().map_or(Instant::NEVER, |(&(due, _), _)| due)
    }

    fn counters(&self) -> ReorderCounters {
        self.counters
    }
}
