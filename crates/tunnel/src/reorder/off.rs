//! No reordering: packets are given on as they come.

use super::{Arrival, ReorderCounters, Rule};
use polypath_base::Instant;
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Off<P> {
    ready: VecDeque<P>,
    delivered: u64,
}

impl<P> Off<P> {
    pub(super) fn new() -> Self {
        Self { ready: VecDeque::new(), delivered: 0 }
    }
}

impl<P> Rule<P> for Off<P> {
    fn handle_packet(&mut self, _now: Instant, arrival: Arrival<P>) {
        self.ready.push_back(arrival.packet);
        self.delivered += 1;
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_deliver(&mut self) -> Option<P> {
        self.ready.pop_front()
    }

    fn poll_timeout(&self) -> Instant {
        Instant::NEVER
    }

    fn counters(&self) -> ReorderCounters {
        ReorderCounters { delivered: self.delivered, ..ReorderCounters::default() }
    }
}
