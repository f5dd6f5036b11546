//! `daps`: delay-aware packet scheduling.
//!
//! Source: Kuhn, Lochin, Mifdaoui, Sarwar, Mehani, Boreli, "DAPS: Intelligent delay-aware packet
//! scheduling for multipath transport", IEEE ICC 2014.
//!
//! Idea: data should arrive in order although paths have other delays. A subflow brings a window of
//! segments each round trip, so the times at which windows arrive are known ahead; sequence numbers
//! are dealt out in the order of these times. The slow subflow thereby sends at once what the peer
//! needs only a slow round trip later, while the fast one still has to send what comes before.
//!
//! Differences from the paper: it plans for the least common multiple of the delays and then plans
//! anew; here each window takes the delay of the moment, and at most as much as the slowest
//! subflow's round trip is planned ahead. It takes half of the round trip as delay, which orders
//! windows alike. The paper's weakness stays: a plan is not changed when a path slows down. MPTCP
//! 0.96 does not have this scheduler.

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView};
use polypath_base::{Bytes, Segments};

/// Windows in the order of their arrival.
#[derive(Copy, Clone, Debug, Default)]
pub struct Daps {
    /// When the next window of each subflow arrives on the plan's own clock, eighths of a
    /// microsecond.
    arrival: [u64; MAX_SUBFLOWS],
    /// What of that window is yet to be dealt out; zero where it has not begun.
    left: [Bytes; MAX_SUBFLOWS],
    /// Where the plan's clock stands.
    clock: u64,
}

impl Policy for Daps {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        if queue.end == queue.next {
            return None;
        }
        let any_active = subflows.iter().any(|s| s.usable && !s.backup);
        let taken = |s: &PathView| s.usable && !s.in_loss && s.backup != any_active;
        let slowest = subflows.iter().filter(|s| taken(s)).map(|s| s.srtt).max()?;
        for (i, s) in subflows.iter().enumerate().filter(|(_, s)| taken(s)) {
            if self.left[i] == Bytes::ZERO {
                self.left[i] = s.cwnd.max(Segments::new(1)) * s.mss;
                // A subflow that was away does not make up for it.
                self.arrival[i] = self.arrival[i].max(self.clock) + u64::from(s.srtt.as_eighths());
            }
        }
        let (subflow, s) = subflows.iter().enumerate().filter(|(_, s)| taken(s)).min_by_key(|&(i, _)| self.arrival[i])?;
        // As many windows as the slowest subflow's round trip holds may wait here.
        let windows = u64::from(slowest.as_eighths().checked_div(s.srtt.as_eighths()).unwrap_or(1));
        let most = windows * (s.cwnd * s.mss).get();
        let waits = s.unsent.saturating_sub(s.window_space()).get();
        (s.room && waits < most).then_some(Choice { subflow, from: queue.next, limit: Limit::Bytes(self.left[subflow]) })
    }

    #[inline]
    fn on_scheduled(&mut self, choice: Choice, len: Bytes) {
        let i = choice.subflow;
        debug_assert!(self.left[i] > Bytes::ZERO, "what is dealt out belongs to a window that has begun");
        self.left[i] = self.left[i].saturating_sub(len);
        self.clock = self.clock.max(self.arrival[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::{DataSeq, SmoothedRtt};

    const DATA: DataQueueView = DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(1 << 20), ..DataQueueView::EMPTY };

    fn subflow(srtt_ms: u32, cwnd: u32) -> PathView {
        let s = PathView {
            srtt: SmoothedRtt::from_millis(srtt_ms),
            cwnd: Segments::new(cwnd),
            mss: Bytes::new(1000),
            usable: true,
            room: true,
            ..PathView::default()
        };
        PathView { in_flight: Segments::ZERO, ssthresh: Segments::new(5), ..s }
    }

    /// Who gets the next windows, and how many segments each.
    fn plan(daps: &mut Daps, flows: &[PathView], count: usize) -> Vec<(usize, u64)> {
        let deal = |_| {
            let choice = daps.pick(flows, &DATA).expect("somebody");
            daps.on_scheduled(choice, choice.limit.bytes().expect("not a buffer"));
            (choice.subflow, choice.limit.bytes().expect("not a buffer").get() / 1000)
        };
        (0..count).map(deal).collect()
    }

    #[test]
    fn windows_are_dealt_out_as_they_arrive() {
        // 10 and 35 ms: windows arrive at 10, 20, 30, 35, 40, 50, 60, 70 and 70 ms.
        let flows = [subflow(35, 20), subflow(10, 4)];
        let expected = [(1, 4), (1, 4), (1, 4), (0, 20), (1, 4), (1, 4), (1, 4), (0, 20), (1, 4)];
        assert_eq!(plan(&mut Daps::default(), &flows, 9), expected);
    }

    #[test]
    fn a_window_may_be_handed_over_in_parts() {
        let flows = [subflow(10, 4)];
        let mut daps = Daps::default();
        let first = daps.pick(&flows, &DATA).expect("alone");
        daps.on_scheduled(first, Bytes::new(1000));
        assert_eq!(daps.pick(&flows, &DATA).map(|c| c.limit), Some(Limit::Bytes(Bytes::new(3000))));
    }

    #[test]
    fn the_plan_ends_with_the_slowest_round_trip() {
        // Three windows of the fast subflow fit into 35 ms, beyond the one that may leave.
        let mut flows = [subflow(35, 20), subflow(10, 4)];
        flows[1].unsent = Bytes::new(4_000 + 11_999);
        assert_eq!(Daps::default().pick(&flows, &DATA).map(|c| c.subflow), Some(1));
        flows[1].unsent += Bytes::new(1);
        assert_eq!(Daps::default().pick(&flows, &DATA), None, "the plan is kept: the slow one has to wait for its turn");
    }

    #[test]
    fn who_was_away_does_not_catch_up() {
        let mut flows = [subflow(10, 4), subflow(10, 4)];
        let mut daps = Daps::default();
        flows[1].usable = false;
        assert_eq!(plan(&mut daps, &flows, 5), [(0, 4); 5]);
        flows[1].usable = true;
        assert_eq!(plan(&mut daps, &flows, 4).iter().filter(|(i, _)| *i == 1).count(), 2);
    }
}
