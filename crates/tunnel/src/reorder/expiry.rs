//! A packet waits for a time at most: a fixed one, or one that follows the paths' difference in
//! delay.

use super::buffer::{Buffer, Placed};
use super::lag::Lags;
use super::{Arrival, ReorderCounters, Rule};
use polypath_base::{Duration, Instant, Seq};

#[derive(Copy, Clone, Debug)]
pub(super) enum Wait {
    Fixed(Duration),
    Adaptive { offset: Duration, cap: Duration },
}

#[derive(Debug)]
pub struct Expiry<P> {
    buffer: Buffer<P>,
    lags: Lags,
    wait: Wait,
    /// How long a block lasts whose parities bring packets back.
    block: Duration,
}

impl<P> Expiry<P> {
    pub(super) fn new(wait: Wait, capacity: u32, paths: usize) -> Self {
        Self { buffer: Buffer::new(capacity), lags: Lags::new(paths), wait, block: Duration::ZERO }
    }

    fn wait(&self) -> Duration {
        match self.wait {
            Wait::Fixed(timeout) => timeout,
            Wait::Adaptive { offset, cap } => self.lags.largest().map_or(cap, |lag| (lag + offset + self.block).min(cap)),
        }
    }
}

impl<P> Rule<P> for Expiry<P> {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival<P>) {
        let number = self.buffer.extend(arrival.seq);
        match (self.buffer.insert(now, number, arrival.packet), self.wait) {
            (Placed::Near, Wait::Adaptive { .. }) => self.lags.on_arrival(now, arrival.path, number),
            (Placed::Near, Wait::Fixed(_)) | (Placed::Nowhere, _) => {}
            (Placed::Anew, _) => self.lags.restart(),
        }
        self.buffer.release_older(now, self.wait());
    }

    fn expect_parities(&mut self, _packets: u32, timeout: Duration) {
        self.block = timeout;
    }

    fn handle_recovered(&mut self, now: Instant, seq: Seq, packet: P) {
        let number = self.buffer.extend(seq);
        self.buffer.insert(now, number, packet);
        self.buffer.release_older(now, self.wait());
    }

    fn begin_at(&mut self, first: Seq) {
        self.buffer.expect(first);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.buffer.release_older(now, self.wait());
    }

    fn poll_deliver(&mut self) -> Option<P> {
        self.buffer.poll_deliver()
    }

    fn poll_timeout(&self) -> Instant {
        self.buffer.oldest().map_or(Instant::NEVER, |since| since + self.wait())
    }

    fn counters(&self) -> ReorderCounters {
        self.buffer.counters
    }
}
