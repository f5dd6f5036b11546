//! `blest`: no data on a slow subflow that would block the window of the peer.
//!
//! Source: Ferlin, Alay, Mehani, Boreli, "BLEST: Blocking estimation-based MPTCP scheduler for
//! heterogeneous networks", IFIP Networking 2016.
//!
//! Idea: what a slow subflow carries holds its place in the peer's window for a round trip of that
//! subflow. If the fast subflow could send more in that time than the window has room for, it would
//! come to a halt (head-of-line blocking): then nothing goes to the slow one, and the fast one is
//! waited for. What the fast one can send is an estimate: its window, growing as in slow start or
//! by a segment a round trip, over as many of its round trips as fit, times a factor lambda. Lambda
//! grows where blocking happened all the same, and shrinks slowly where it did not.
//!
//! As in MPTCP 0.96: lambda begins at 1.2 and stays between 1.0 and 1.3, in steps of +4 and -1 % at
//! most once in the slow subflow's least round trip; the slow subflow's time is taken from between
//! its least and largest round trip, by how full its window is; blocking is noticed when the window
//! of the peer or the full send buffer leads to a retransmission on another subflow. Difference
//! from it: neither a backup subflow nor one in the Loss state is waited for.

use crate::minrtt::{self, MinRtt};
use crate::policy::Policy;
use crate::view::{BUFFER, Choice, DataQueueView, MAX_SUBFLOWS, PathView};
use polypath_base::{Bytes, Duration, Instant, Segments, SmoothedRtt};

/// Thousandths: first, least and largest lambda, and its steps.
const LAMBDA: u32 = 1200;
const LEAST: u32 = 1000;
const LARGEST: u32 = 1300;
const UP: u32 = 40;
const DOWN: u32 = 10;
/// Most round trips over which growth in slow start is believed: windows beyond 2^16 times the
/// present one mean nothing.
const MOST_DOUBLINGS: u32 = 16;
/// Threshold of a flow in its first slow start (Linux: `TCP_INFINITE_SSTHRESH`).
const INFINITE: Segments = Segments::new(0x7fff_ffff);

/// Waits for the fastest subflow where a slower one would block the window.
#[derive(Copy, Clone, Debug)]
pub struct Blest {
    lambda: u32,
    /// A retransmission for want of window since the last change of lambda.
    blocked: bool,
    changed_at: Instant,
    /// Least and largest smoothed RTT of each subflow; zero before the first.
    srtt: [(SmoothedRtt, SmoothedRtt); MAX_SUBFLOWS],
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: LAMBDA, blocked: false, changed_at: Instant::ZERO, srtt: [(SmoothedRtt::ZERO, SmoothedRtt::ZERO); MAX_SUBFLOWS] }
    }
}

impl Blest {
    fn adapt(&mut self, now: Instant, srtt: SmoothedRtt) {
        if now.since(self.changed_at) < Duration::from_micros(u64::from(srtt.as_micros())) {
            return;
        }
        self.lambda = if self.blocked { self.lambda + UP } else { self.lambda - DOWN }.clamp(LEAST, LARGEST);
        debug_assert!(self.changed_at <= now, "lambda changes forwards in time");
        self.blocked = false;
        self.changed_at = now;
    }

    /// How long a segment enqueued on a slow subflow now takes to be acknowledged, eighths of a
    /// microsecond.
    fn linger(&self, slow: &PathView, i: usize) -> u32 {
        let (least, largest) = (self.srtt[i].0.as_eighths(), self.srtt[i].1.as_eighths());
        let (in_flight, cwnd) = (u64::from(slow.in_flight.get()) + 1, u64::from(slow.cwnd.get()));
        debug_assert!(least <= largest && slow.srtt.as_eighths() <= largest, "the last round trip is among those that were seen");
        let estimate = if in_flight >= cwnd { largest } else { least + (u64::from(largest - least) * in_flight / cwnd) as u32 };
        estimate.max(slow.srtt.as_eighths())
    }

    /// What the fast subflow sends in `time`, eighths of a microsecond, times lambda.
    fn sends(&self, fast: &PathView, i: usize, time: u32) -> Bytes {
        let (least, largest) = (self.srtt[i].0.as_eighths(), self.srtt[i].1.as_eighths());
        let mean = u64::midpoint(u64::from(least), u64::from(largest));
        let rounds = u64::from(time).checked_div(mean).map_or(1, |whole| whole + 1);
        let packets = if fast.ssthresh == INFINITE {
            u64::from(fast.cwnd.get()) * ((1 << rounds.min(u64::from(MOST_DOUBLINGS))) - 1)
        } else {
            // Congestion avoidance is taken to have begun.
            (u64::from(fast.cwnd.get().max(fast.ssthresh.get().saturating_add(1))) + (rounds - 1) / 2) * rounds
        };
        // Below 2^48 packets (a window of 2^32 in 2^16 rounds), of less than 2^16 bytes: 2^64 is
        // not reached, but times 1300 it may be.
        Bytes::new((u128::from(packets) * u128::from(fast.mss.get()) * u128::from(self.lambda) / 1000) as u64)
    }
}

impl Policy for Blest {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        for (s, (least, largest)) in subflows.iter().zip(&mut self.srtt) {
            if s.usable && s.srtt > SmoothedRtt::ZERO {
                *least = if *least == SmoothedRtt::ZERO { s.srtt } else { s.srtt.min(*least) };
                *largest = s.srtt.max(*largest);
                debug_assert!(*least <= s.srtt, "the least round trip is no longer than this one");
            }
        }
        let choice = MinRtt.pick(subflows, queue)?;
        let slow = &subflows[choice.subflow];
        let fastest = minrtt::fastest(subflows, slow.backup)?;
        // Of two that are as fast, a kernel takes the newer one; the other has room too.
        if fastest == choice.subflow || subflows[fastest].takes_data() {
            return Some(choice);
        }
        self.adapt(queue.now, self.srtt[choice.subflow].0);
        let for_fast = self.sends(&subflows[fastest], fastest, self.linger(slow, choice.subflow));
        let buffer = Bytes::new(BUFFER.get() / slow.mss.get().max(1) * slow.mss.get()).min(queue.waiting());
        let on_slow = slow.in_flight * slow.mss + slow.unsent + buffer;
        let window = Bytes::new(queue.window_end.max(queue.una).distance(queue.una));
        (for_fast <= window.saturating_sub(on_slow)).then_some(choice)
    }

    #[inline]
    fn on_blocked(&mut self) {
        self.blocked = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use polypath_base::DataSeq;

    fn subflow(srtt_ms: u32, in_flight: u32) -> PathView {
        PathView { ssthresh: Segments::new(5), ..fixtures::subflow(srtt_ms, in_flight) }
    }

    fn window(bytes: u64) -> DataQueueView {
        DataQueueView { end: DataSeq::new(10_000), window_end: DataSeq::new(bytes), ..DataQueueView::EMPTY }
    }

    #[test]
    fn a_small_window_is_kept_for_the_fast_subflow() {
        // In 100 ms the fast one has 11 round trips with windows of 10 to 20: (10 + 5) * 11 =
        // 165 segments, times 1.2 = 198 kB; the slow one would take 10 kB.
        let flows = [subflow(100, 0), subflow(10, 10)];
        assert_eq!(Blest::default().pick(&flows, &window(207_999)), None);
        assert_eq!(Blest::default().pick(&flows, &window(208_000)).map(|c| c.subflow), Some(0));
        assert_eq!(Blest::default().pick(&[subflow(100, 0), subflow(10, 9)], &window(20_000)).map(|c| c.subflow), Some(1));
    }

    #[test]
    fn one_of_two_equals_is_not_kept_waiting_for_the_other() {
        let flows = [PathView { wins_ties: true, ..subflow(10, 0) }; 2];
        assert_eq!(Blest::default().pick(&flows, &window(10_000)).map(|c| c.subflow), Some(1));
    }

    #[test]
    fn what_the_slow_subflow_carries_already_counts() {
        let flows = [subflow(100, 3), subflow(10, 10)];
        assert_eq!(Blest::default().pick(&flows, &window(210_999)), None);
        assert_eq!(Blest::default().pick(&flows, &window(211_000)).map(|c| c.subflow), Some(0));
    }

    #[test]
    fn slow_start_is_expected_to_double() {
        // Four round trips: 10 + 20 + 40 + 80 segments, times 1.2 = 180 kB.
        let flows = [subflow(30, 0), PathView { ssthresh: INFINITE, ..subflow(10, 10) }];
        assert_eq!(Blest::default().pick(&flows, &window(189_999)), None);
        assert_eq!(Blest::default().pick(&flows, &window(190_000)).map(|c| c.subflow), Some(0));
    }

    #[test]
    fn lambda_grows_by_blocking_and_shrinks_without() {
        let flows = [subflow(100, 0), subflow(10, 10)];
        let mut blest = Blest::default();
        let mut after = |ms: u64, blocked: bool| {
            if blocked {
                blest.on_blocked();
            }
            blest.pick(&flows, &DataQueueView { now: Instant::ZERO + Duration::from_millis(ms), ..window(1 << 20) });
            blest.lambda
        };
        assert_eq!(after(99, false), 1200, "not before a round trip of the slow subflow");
        assert_eq!(after(100, false), 1190);
        assert_eq!(after(150, true), 1190);
        assert_eq!(after(200, false), 1230, "remembered until then");
        assert_eq!((0..5).map(|k| after(300 + 100 * k, true)).last(), Some(1300), "at most");
        assert_eq!((0..50).map(|k| after(1000 + 100 * k, false)).last(), Some(1000), "at least");
    }
}
