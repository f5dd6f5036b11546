//! `minrtt`: the default scheduler of MPTCP 0.96.
//!
//! The subflow with the lowest smoothed RTT among those whose congestion window has room; backup
//! subflows only when no other subflow exists that could be used at all, even later.

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, PathView, SubflowSet};

/// Lowest RTT first. It has no state.
#[derive(Copy, Clone, Debug, Default)]
pub struct MinRtt;

impl Policy for MinRtt {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        if queue.end == queue.next {
            return None;
        }
        let subflow = best(subflows, SubflowSet::EMPTY)?;
        // The window of the peer is the connection's to obey.
        Some(Choice { subflow, from: queue.next, limit: Limit::Bytes(subflows[subflow].share()) })
    }
}

/// The fastest subflow of those that are backup, or are not, with room or without: the one to wait
/// for. One in the Loss state may be dead, and is not waited for.
pub(crate) fn fastest(subflows: &[PathView], backup: bool) -> Option<usize> {
    let among = subflows.iter().enumerate().filter(|(_, s)| s.usable && !s.in_loss && s.backup == backup);
    among.min_by_key(|(_, s)| s.srtt).map(|(i, _)| i)
}

/// The fastest subflow that takes data, preferring those not in `tried` and then those that are not
/// backup. A subflow that was not tried and is merely busy is waited for.
pub(crate) fn best(subflows: &[PathView], tried: SubflowSet) -> Option<usize> {
    for backup in [false, true] {
        let (mut fresh, mut used, mut fresh_but_busy) = (None, None, false);
        for (i, s) in subflows.iter().enumerate() {
            if s.backup != backup || !s.usable {
                continue;
            }
            let slot = if tried.has(i) { &mut used } else { &mut fresh };
            if s.takes_data() {
                if slot.is_none_or(|(srtt, _)| s.srtt < srtt || (s.wins_ties && s.srtt == srtt)) {
                    *slot = Some((s.srtt, i));
                }
            } else if !tried.has(i) {
                fresh_but_busy = true;
            }
        }
        if let Some((_, i)) = fresh {
            return Some(i);
        }
        // Waiting for an untried subflow beats repeating a tried one, and beats a backup subflow.
        match used {
            Some((_, i)) if backup || !fresh_but_busy => return Some(i),
            None if fresh_but_busy => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{DATA, subflow};
    use crate::view::Buffered;
    use polypath_base::{Bytes, DataSeq, Segments};

    #[test]
    fn the_fastest_subflow_with_room_wins() {
        let flows = [subflow(20, 0), subflow(5, 7), subflow(1, 10)];
        assert_eq!(MinRtt.pick(&flows, &DATA), Some(Choice { subflow: 1, from: DataSeq::new(0), limit: Limit::Bytes(Bytes::new(3000)) }));
    }

    #[test]
    fn a_full_queue_or_loss_disqualifies() {
        let mut flows = [subflow(20, 0), subflow(5, 7)];
        flows[1].unsent = Bytes::new(3000);
        assert_eq!(MinRtt.pick(&flows, &DATA).map(|c| c.subflow), Some(1), "what the window lets out may wait");
        flows[1].unsent = Bytes::new(3001);
        assert_eq!(MinRtt.pick(&flows, &DATA).map(|c| c.subflow), Some(0));
        flows[0].in_loss = true;
        assert_eq!(MinRtt.pick(&flows, &DATA), None);
    }

    #[test]
    fn room_counted_in_buffers_is_used_in_bursts() {
        let flow =
            |in_flight, buffers| PathView { buffered: Some(Buffered { buffers, burst: Segments::new(2) }), ..subflow(20, in_flight) };
        let limit = |flow| MinRtt.pick(&[flow], &DATA).map(|c| c.limit);
        assert_eq!(limit(flow(3, 0)), Some(Limit::Bytes(Bytes::new(7000))), "all that the window has left, not half of it");
        assert_eq!(limit(flow(9, 0)), Some(Limit::Bytes(Bytes::new(2000))), "a burst at least, even if the window has room for less");
        assert_eq!(limit(flow(8, 1)), Some(Limit::Bytes(Bytes::new(2000))), "a lone buffer counts as one segment");
        assert_eq!((limit(flow(9, 1)), limit(flow(6, 2))), (None, None), "several count as a burst each");
    }

    #[test]
    fn of_two_that_are_as_fast_the_newer_one_wins_if_it_shall() {
        let picks = |wins_ties| MinRtt.pick(&[subflow(20, 0); 2].map(|s| PathView { wins_ties, ..s }), &DATA).map(|c| c.subflow);
        assert_eq!((picks(false), picks(true)), (Some(0), Some(1)));
    }

    #[test]
    fn backup_waits_until_nothing_else_is_usable() {
        let mut flows = [subflow(20, 10), PathView { backup: true, ..subflow(5, 0) }];
        assert_eq!(MinRtt.pick(&flows, &DATA), None, "a busy active subflow is waited for");
        flows[0].usable = false;
        assert_eq!(MinRtt.pick(&flows, &DATA).map(|c| c.subflow), Some(1));
    }

    #[test]
    fn a_subflow_that_may_be_dead_is_not_waited_for() {
        let mut flows = [subflow(20, 0), subflow(5, 10)];
        assert_eq!(fastest(&flows, false), Some(1));
        flows[1].in_loss = true;
        assert_eq!(fastest(&flows, false), Some(0));
        assert_eq!(fastest(&flows, true), None);
    }

    #[test]
    fn a_reinjection_avoids_the_subflow_that_carried_it() {
        let flows = [subflow(5, 0), subflow(50, 0)];
        assert_eq!(best(&flows, SubflowSet::of(0)), Some(1));
        assert_eq!(best(&flows, SubflowSet::of(0).with(1)), Some(0), "all were tried: the fastest again");
        let busy = [subflow(5, 0), subflow(50, 10)];
        assert_eq!(best(&busy, SubflowSet::of(0)), None, "an untried subflow is waited for");
    }

    #[test]
    fn nothing_to_send_means_no_choice() {
        assert_eq!(MinRtt.pick(&[subflow(5, 0)], &DataQueueView { end: DataSeq::new(0), ..DATA }), None);
    }
}
