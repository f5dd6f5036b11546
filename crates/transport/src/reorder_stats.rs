//! How much of what arrives has to wait for what comes before it.
//!
//! A receiver tells of every change of what waits; where everything comes in order it has nothing
//! to tell, and nothing is counted.

use polypath_base::{Bytes, Duration, Instant};

/// Counters of the loss of order at a receiver. Of an MPTCP connection: between its subflows.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReorderStats {
    /// Pieces that came ahead of their turn, duplicates among them.
    pub pieces: u64,
    /// New data that they brought.
    pub bytes: Bytes,
    /// Most by which a piece came ahead of the next byte expected (Linux: `rcv_nxt`).
    pub most_ahead: Bytes,
    /// Sum over all pieces of how far each came ahead, bytes.
    pub sum_ahead: u128,
    /// What waits now in the out-of-order queue (Linux: `out_of_order_queue`).
    pub waiting: Bytes,
    /// The most that ever waited there.
    pub most_waiting: Bytes,
    /// Time in which something waited: head-of-line blocking.
    pub blocked: Duration,
    /// What waited, over time: byte times nanoseconds. Over the bytes read it is the mean wait of a
    /// byte (Little's law).
    pub byte_ns: u128,
    since: Instant,
}

impl ReorderStats {
    /// A piece came `ahead` too early; `waiting` waits now, more than before unless it was there
    /// already.
    #[inline]
    pub(crate) fn on_out_of_order(&mut self, now: Instant, ahead: Bytes, waiting: Bytes) {
        self.pieces += 1;
        self.bytes += waiting.saturating_sub(self.waiting);
        self.most_ahead = self.most_ahead.max(ahead);
        self.sum_ahead += u128::from(ahead.get());
        self.most_waiting = self.most_waiting.max(waiting);
        self.set(now, waiting);
    }

    /// What was missing has come: `waiting` still waits.
    #[inline]
    pub(crate) fn set(&mut self, now: Instant, waiting: Bytes) {
        if self.waiting > Bytes::ZERO {
            let span = now.since(self.since);
            self.blocked += span;
            self.byte_ns += u128::from(self.waiting.get()) * u128::from(span.as_nanos());
        }
        debug_assert!(waiting <= self.most_waiting, "more waits only where a piece came");
        self.since = now;
        self.waiting = waiting;
    }

    /// The counters up to `now`.
    #[must_use]
    pub fn until(mut self, now: Instant) -> Self {
        self.set(now, self.waiting);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn waiting_adds_up_over_time() {
        let mut disorder = ReorderStats::default();
        disorder.on_out_of_order(at(10), Bytes::new(3000), Bytes::new(1000));
        disorder.on_out_of_order(at(14), Bytes::new(5000), Bytes::new(2000));
        disorder.set(at(20), Bytes::new(0));
        disorder.on_out_of_order(at(30), Bytes::new(1000), Bytes::new(500));
        let seen = disorder.until(at(31));
        // 4 ms of 1000 bytes, 6 of 2000, 1 of 500.
        assert_eq!((seen.byte_ns, seen.blocked), (16_500_000_000, Duration::from_millis(11)));
        assert_eq!((seen.pieces, seen.bytes.get(), seen.most_ahead.get(), seen.sum_ahead), (3, 2500, 5000, 9000));
        assert_eq!((seen.waiting.get(), seen.most_waiting.get()), (500, 2000));
    }

    #[test]
    fn what_comes_twice_is_no_more_bytes() {
        let mut disorder = ReorderStats::default();
        disorder.on_out_of_order(at(0), Bytes::new(3000), Bytes::new(1000));
        disorder.on_out_of_order(at(1), Bytes::new(3000), Bytes::new(1000));
        assert_eq!((disorder.pieces, disorder.bytes.get()), (2, 1000));
    }
}
