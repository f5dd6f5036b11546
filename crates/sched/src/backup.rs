//! `backup`: one subflow works, the others wait for it to fail.
//!
//! Idea: the mode of RFC 8684 section 3.3.8 for people who pay for the second link: the first
//! subflow, in the order in which they were opened, carries everything as long as it can be used at
//! all; full windows are waited for. Subflows that the peer or the path manager has marked as
//! backup come after all others.
//!
//! MPTCP 0.96 has no scheduler of this kind; its users set the backup flag on an interface, which
//! gives the same with two subflows and shares the load between the active ones with more.

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, PathView};

/// The first usable subflow alone. It has no state.
#[derive(Copy, Clone, Debug, Default)]
pub struct Backup;

impl Policy for Backup {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        if queue.end == queue.next {
            return None;
        }
        let subflow = working(subflows)?;
        let s = &subflows[subflow];
        s.takes_data().then(|| Choice { subflow, from: queue.next, limit: Limit::Bytes(s.window_space()) })
    }

    fn retransmits_head_of_line(&self) -> bool {
        false
    }
}

/// The subflow that works now, with room or without. One in the Loss state has failed for the time
/// being.
fn working(subflows: &[PathView]) -> Option<usize> {
    let first = |backup: bool| subflows.iter().position(|s| s.backup == backup && s.usable && !s.in_loss);
    first(false).or_else(|| first(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{DATA, subflow};
    use polypath_base::{Bytes, DataSeq, Segments};

    #[test]
    fn the_first_subflow_works_alone_however_slow() {
        let mut flows = [subflow(90, 4), subflow(5, 0)];
        assert_eq!(Backup.pick(&flows, &DATA), Some(Choice { subflow: 0, from: DataSeq::new(0), limit: Limit::Bytes(Bytes::new(6000)) }));
        flows[0].in_flight = Segments::new(10);
        assert_eq!(Backup.pick(&flows, &DATA), None, "a full window is waited for");
    }

    #[test]
    fn the_next_one_takes_over_when_it_fails_and_gives_back() {
        let mut flows = [subflow(90, 4), subflow(5, 0)];
        flows[0].usable = false;
        assert_eq!(Backup.pick(&flows, &DATA).map(|c| c.subflow), Some(1));
        flows[0] = PathView { in_loss: true, ..subflow(90, 1) };
        assert_eq!(Backup.pick(&flows, &DATA).map(|c| c.subflow), Some(1));
        flows[0].in_loss = false;
        assert_eq!(Backup.pick(&flows, &DATA).map(|c| c.subflow), Some(0));
    }

    #[test]
    fn marked_subflows_come_last() {
        let mut flows = [PathView { backup: true, ..subflow(5, 0) }, subflow(90, 0)];
        assert_eq!(Backup.pick(&flows, &DATA).map(|c| c.subflow), Some(1));
        flows[1].usable = false;
        assert_eq!(Backup.pick(&flows, &DATA).map(|c| c.subflow), Some(0));
    }
}
