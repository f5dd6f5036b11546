//! `roundrobin`: MPTCP 0.96's scheduler of that name, with its defaults (one segment a turn,
//! windows respected).

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView};

/// Every subflow with room in its congestion window gets a segment before any gets a second.
#[derive(Copy, Clone, Debug, Default)]
pub struct RoundRobin {
    /// Who has had a turn in this round.
    served: [bool; MAX_SUBFLOWS],
}

impl Policy for RoundRobin {
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        if queue.end == queue.next {
            return None;
        }
        // A round ends when all that could send had their turn; the last subflow in order goes
        // first, as in the original.
        let next = |served: &[bool; MAX_SUBFLOWS]| subflows.iter().enumerate().rposition(|(i, s)| s.fits_window() && !served[i]);
        let subflow = next(&self.served).or_else(|| {
            for (i, s) in subflows.iter().enumerate() {
                if s.fits_window() {
                    self.served[i] = false;
                }
            }
            next(&self.served)
        })?;
        debug_assert!(!self.served[subflow], "a subflow has one turn in a round");
        self.served[subflow] = true;
        Some(Choice { subflow, from: queue.next, limit: Limit::Bytes(subflows[subflow].mss) })
    }

    fn retransmits_head_of_line(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, DATA};
    use polypath_base::Bytes;

    fn subflow(in_flight: u32) -> PathView {
        fixtures::subflow(0, in_flight)
    }

    #[test]
    fn turns_alternate_one_segment_each() {
        let (mut s, flows) = (RoundRobin::default(), [subflow(0), subflow(0)]);
        let turns: Vec<_> = (0..4).map(|_| s.pick(&flows, &DATA).map(|c| (c.subflow, c.limit))).collect();
        assert_eq!(turns, [1, 0, 1, 0].map(|i| Some((i, Limit::Bytes(Bytes::new(1000))))));
    }

    #[test]
    fn a_full_window_is_passed_over() {
        let mut s = RoundRobin::default();
        assert_eq!((0..3).map(|_| s.pick(&[subflow(0), subflow(10)], &DATA).map(|c| c.subflow)).collect::<Vec<_>>(), [Some(0); 3]);
        assert_eq!(s.pick(&[subflow(10), subflow(10)], &DATA), None);
    }
}
