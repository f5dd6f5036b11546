//! `redundant`: the out-of-tree stack's scheduler of that name: every subflow sends everything.

use crate::{Choice, MAX_SUBFLOWS, Queue, Subflow};

/// Each subflow goes through the unacknowledged data at its own pace; whoever is ahead sends new data first.
#[derive(Copy, Clone, Debug, Default)]
pub struct Redundant {
    /// Where each subflow is, as a data sequence number.
    cursor: [u64; MAX_SUBFLOWS],
    /// Whose turn it is.
    turn: usize,
}

impl Redundant {
    pub fn pick(&mut self, subflows: &[Subflow], queue: &Queue) -> Option<Choice> {
        let any_active = subflows.iter().any(|s| s.usable && !s.backup);
        for step in 0..subflows.len() {
            let i = (self.turn + step) % subflows.len();
            let s = &subflows[i];
            // What the peer has acknowledged need not be sent by the slower subflows any more.
            let from = self.cursor[i].max(queue.una);
            if from >= queue.end || !s.takes_data() || (s.backup && any_active) {
                continue;
            }
            // Data that was sent once stays a copy: never mix it with new data in one choice.
            let end = if from < queue.next { queue.next } else { queue.end.min(queue.window_end) };
            if from >= end {
                continue;
            }
            let limit = u32::try_from(end - from).unwrap_or(u32::MAX).min(s.window_space());
            self.turn = (i + 1) % subflows.len();
            return Some(Choice { subflow: i, from, limit });
        }
        None
    }

    /// `len` bytes of a choice were handed over; the rest of it is still to be sent there.
    #[inline]
    pub fn given(&mut self, choice: Choice, len: u32) {
        self.cursor[choice.subflow] = choice.from + u64::from(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subflow(in_flight: u32) -> Subflow {
        Subflow { cwnd: 10, in_flight, mss: 1000, usable: true, room: true, ..Subflow::default() }
    }

    #[test]
    fn both_subflows_send_the_same_bytes() {
        let (mut s, flows) = (Redundant::default(), [subflow(0), subflow(5)]);
        let mut queue = Queue { una: 0, next: 0, end: 1 << 20, window_end: 1 << 20 };
        let first = s.pick(&flows, &queue);
        assert_eq!(first, Some(Choice { subflow: 0, from: 0, limit: 10_000 }));
        s.given(first.expect("chosen"), 10_000);
        queue.next = 10_000;
        let second = s.pick(&flows, &queue);
        assert_eq!(second, Some(Choice { subflow: 1, from: 0, limit: 5_000 }));
        s.given(second.expect("chosen"), 4_000);
        assert_eq!(s.pick(&[subflow(10), subflow(0)], &queue), Some(Choice { subflow: 1, from: 4_000, limit: 6_000 }));
    }

    #[test]
    fn acknowledged_data_is_skipped() {
        let mut s = Redundant::default();
        let queue = Queue { una: 8_000, next: 10_000, end: 10_000, window_end: 1 << 20 };
        assert_eq!(s.pick(&[subflow(10), subflow(0)], &queue), Some(Choice { subflow: 1, from: 8_000, limit: 2_000 }));
    }

    #[test]
    fn new_data_stops_at_the_window_of_the_peer() {
        let mut s = Redundant::default();
        let queue = Queue { una: 0, next: 0, end: 1 << 20, window_end: 2_000 };
        let choice = s.pick(&[subflow(0)], &queue);
        assert_eq!(choice.map(|c| c.limit), Some(2_000));
        s.given(choice.expect("chosen"), 2_000);
        assert_eq!(s.pick(&[subflow(0)], &Queue { next: 2_000, ..queue }), None);
    }
}
