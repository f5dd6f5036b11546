//! `sttf`: shortest transfer time first.
//!
//! Source: Hurtig, Grinnemo, Brunstrom, Ferlin, Alay, Kuhn, "Low-latency scheduling in MPTCP",
//! IEEE/ACM Transactions on Networking 27(1), 2019.
//!
//! Idea: each segment goes where it would reach the peer first, and windows need not be open for
//! that: it may wait in a subflow's queue. A segment that fits the window now takes half a round
//! trip. One that does not waits for as many further windows as what stands before it fills:
//! windows double up to the slow-start threshold and grow by a segment a round trip beyond.
//!
//! Differences from the authors' kernel: it moves what still waits in the queues of subflows when
//! the estimates change, here what has been enqueued stays, so at most as much as a window and a
//! half may wait; it takes the last measured round trip, here the smoothed one counts. MPTCP 0.96
//! does not have this scheduler.

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, PathView};
use polypath_base::Segments;

/// The subflow with the shortest transfer time, its queue included. It has no state.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sttf;

/// Most round trips that are looked ahead: a segment that takes longer is out of the question.
const MOST_ROUNDS: u64 = 64;

impl Policy for Sttf {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        if queue.end == queue.next {
            return None;
        }
        let any_active = subflows.iter().any(|s| s.usable && !s.backup);
        let candidates = subflows.iter().enumerate().filter(|(_, s)| s.usable && !s.in_loss && s.backup != any_active);
        let (subflow, s) = candidates.min_by_key(|(_, s)| transfer_time(s))?;
        let waits = s.unsent.saturating_sub(s.window_space());
        let most = Segments::new(s.cwnd.get() + s.cwnd.get() / 2) * s.mss;
        (s.room && waits < most).then_some(Choice { subflow, from: queue.next, limit: Limit::Bytes(s.mss) })
    }
}

/// Time until another segment of a subflow would have reached the peer, sixteenths of a
/// microsecond.
fn transfer_time(s: &PathView) -> u64 {
    let mut left = s.unsent.get().div_ceil(s.mss.get().max(1)) + 1;
    left = left.saturating_sub(u64::from(s.cwnd.saturating_sub(s.in_flight).get()));
    let ssthresh = u64::from(s.ssthresh.get());
    let (mut window, mut rounds) = (u64::from(s.cwnd.get().max(1)), 0);
    while left > 0 && rounds < MOST_ROUNDS {
        window = if window < ssthresh { (2 * window).min(ssthresh) } else { window + 1 };
        left = left.saturating_sub(window);
        rounds += 1;
    }
    (2 * rounds + 1) * u64::from(s.srtt.as_eighths())
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::{Bytes, DataSeq, SmoothedRtt};

    const DATA: DataQueueView = DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(1 << 20), ..DataQueueView::EMPTY };

    fn subflow(srtt_ms: u32, in_flight: u32, unsent: u64) -> PathView {
        let (in_flight, unsent) = (Segments::new(in_flight), Bytes::new(unsent));
        let s = PathView {
            srtt: SmoothedRtt::from_millis(srtt_ms),
            cwnd: Segments::new(10),
            mss: Bytes::new(1000),
            usable: true,
            room: true,
            ..PathView::default()
        };
        PathView { in_flight, unsent, ssthresh: Segments::new(5), ..s }
    }

    fn half_round_trips(s: PathView) -> u64 {
        transfer_time(&s) / u64::from(s.srtt.as_eighths())
    }

    #[test]
    fn times_follow_the_windows_to_come() {
        assert_eq!(half_round_trips(subflow(10, 9, 0)), 1, "fits");
        assert_eq!(half_round_trips(subflow(10, 10, 0)), 3, "the next window");
        assert_eq!(half_round_trips(subflow(10, 10, 10_000)), 3, "eleven segments in it");
        assert_eq!(half_round_trips(subflow(10, 10, 11_000)), 5, "and the one after");
        let doubling = PathView { ssthresh: Segments::new(0x7fff_ffff), ..subflow(10, 10, 19_000) };
        assert_eq!(half_round_trips(doubling), 3);
        assert_eq!(half_round_trips(PathView { ssthresh: Segments::new(15), ..subflow(10, 10, 30_000) }), 5, "fifteen, then sixteen");
        assert_eq!(
            half_round_trips(PathView { unsent: Bytes::new(u64::from(u32::MAX)), ..doubling }),
            2 * 18 + 1,
            "2^22 segments: 10 * 2 * (2^18 - 1) are enough"
        );
    }

    #[test]
    fn a_full_fast_subflow_may_still_be_the_best() {
        // 3 half round trips of 10 ms against one of 100 ms; 13 with 56 segments waiting; then the
        // slow one.
        let pick = |unsent| Sttf.pick(&[subflow(100, 0, 0), subflow(10, 10, unsent)], &DATA).map(|c| c.subflow);
        assert_eq!(pick(0), Some(1));
        assert_eq!(pick(14_000), Some(1));
        assert_eq!(pick(15_000), None, "enough waits there");
        assert_eq!(pick(70_000), Some(0));
    }

    #[test]
    fn backup_only_without_an_active_one() {
        let backup = PathView { backup: true, ..subflow(1, 0, 0) };
        assert_eq!(Sttf.pick(&[subflow(100, 10, 0), backup], &DATA).map(|c| c.subflow), Some(0));
        assert_eq!(Sttf.pick(&[PathView { usable: false, ..subflow(100, 10, 0) }, backup], &DATA).map(|c| c.subflow), Some(1));
    }
}
