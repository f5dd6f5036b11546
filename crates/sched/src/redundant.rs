//! `redundant`: every subflow sends everything.
//!
//! Source: Frömmgen, Erbshäußer, Buchmann, Zimmermann, Wehrle, "ReMP TCP: Low latency multipath
//! TCP", IEEE ICC 2016; MPTCP 0.96's scheduler of that name.
//!
//! Idea: each subflow goes through the unacknowledged data at its own pace, and the one ahead sends
//! new data first. What arrives first counts, so the latency is that of the better subflow at each
//! moment, and so is the throughput.
//!
//! MPTCP 0.96 up to April 2022 ([`Redundant::repeating`]) repeats itself: a subflow remembers the
//! buffer that it sent last, forgets it once the peer has acknowledged all *before* it instead of
//! all *in* it, and begins again at the oldest buffer that is not acknowledged as a whole. So a
//! subflow that works on the oldest buffer fills its window with copies of it, and the next buffer
//! waits behind them: some 64 KiB of progress in the fastest subflow's full queue, where all links
//! are busy. <https://github.com/multipath-tcp/mptcp/issues/474> reports it, with goodputs of a
//! hundredth; pull request 478 mended it.

use crate::policy::{Policy, Quirks};
use crate::view::{Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView, SubflowSet};
use polypath_base::{Bytes, DataSeq};

/// Each subflow has a place of its own in the data.
#[derive(Copy, Clone, Debug, Default)]
pub struct Redundant {
    /// What each subflow got last, as data sequence numbers: its beginning and its end.
    last: [(DataSeq, DataSeq); MAX_SUBFLOWS],
    /// Who has got anything yet.
    begun: SubflowSet,
    /// Whose turn it is; one past the last is the first.
    turn: usize,
    /// As MPTCP 0.96 was before it was mended.
    repeats: bool,
}

impl Redundant {
    /// The scheduler that begins again at the oldest buffer.
    pub fn repeating() -> Self {
        Self { repeats: true, ..Self::default() }
    }
}

impl Policy for Redundant {
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        if self.repeats && queue.next == queue.end {
            // Copies leave only as long as there is something new.
            return None;
        }
        let any_active = subflows.iter().any(|s| s.usable && !s.backup);
        for step in 0..subflows.len() {
            let i = (self.turn + step) % subflows.len();
            let s = &subflows[i];
            // What the peer has acknowledged need not be sent by the slower subflows any more.
            let (last_start, last_end) = self.last[i];
            let goes_on = self.begun.has(i) && (!self.repeats || last_start.after(queue.una));
            let from = if goes_on { last_end.max(queue.una) } else { queue.una };
            if !from.before(queue.end) || !s.takes_data() || (s.backup && any_active) {
                continue;
            }
            debug_assert!(!from.after(queue.next), "a subflow goes on no further than data was given");
            self.turn = i + 1;
            if self.repeats {
                // A buffer as a whole, whatever the window.
                return Some(Choice { subflow: i, from, limit: Limit::Buffer });
            }
            // Data that was sent once stays a copy: never mix it with new data in one choice.
            let end = if from.before(queue.next) { queue.next } else { queue.end.min(queue.window_end) };
            if !from.before(end) {
                continue;
            }
            let limit = Bytes::new(end.distance(from)).min(s.window_space());
            return Some(Choice { subflow: i, from, limit: Limit::Bytes(limit) });
        }
        None
    }

    #[inline]
    fn on_scheduled(&mut self, choice: Choice, len: Bytes) {
        debug_assert!(len > Bytes::ZERO, "a turn sends something");
        self.last[choice.subflow] = (choice.from, choice.from + len.get());
        self.begun.insert(choice.subflow);
    }

    fn with(self, quirks: Quirks) -> Self {
        if quirks.redundant_repeats { Self::repeating() } else { self }
    }

    fn retransmits_head_of_line(&self) -> bool {
        false
    }

    fn reinjects(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn subflow(in_flight: u32) -> PathView {
        fixtures::subflow(0, in_flight)
    }

    #[test]
    fn both_subflows_send_the_same_bytes() {
        let (mut s, flows) = (Redundant::default(), [subflow(0), subflow(5)]);
        let mut queue = DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(1 << 20), ..DataQueueView::EMPTY };
        let first = s.pick(&flows, &queue);
        assert_eq!(first, Some(Choice { subflow: 0, from: DataSeq::new(0), limit: Limit::Bytes(Bytes::new(10_000)) }));
        s.on_scheduled(first.expect("chosen"), Bytes::new(10_000));
        queue.next = DataSeq::new(10_000);
        let second = s.pick(&flows, &queue);
        assert_eq!(second, Some(Choice { subflow: 1, from: DataSeq::new(0), limit: Limit::Bytes(Bytes::new(5_000)) }));
        s.on_scheduled(second.expect("chosen"), Bytes::new(4_000));
        assert_eq!(
            s.pick(&[subflow(10), subflow(0)], &queue),
            Some(Choice { subflow: 1, from: DataSeq::new(4_000), limit: Limit::Bytes(Bytes::new(6_000)) })
        );
    }

    #[test]
    fn acknowledged_data_is_skipped() {
        let mut s = Redundant::default();
        let queue = DataQueueView {
            una: DataSeq::new(8_000),
            next: DataSeq::new(10_000),
            end: DataSeq::new(10_000),
            window_end: DataSeq::new(1 << 20),
            ..DataQueueView::EMPTY
        };
        assert_eq!(
            s.pick(&[subflow(10), subflow(0)], &queue),
            Some(Choice { subflow: 1, from: DataSeq::new(8_000), limit: Limit::Bytes(Bytes::new(2_000)) })
        );
    }

    #[test]
    fn new_data_stops_at_the_window_of_the_peer() {
        let mut s = Redundant::default();
        let queue = DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(2_000), ..DataQueueView::EMPTY };
        let choice = s.pick(&[subflow(0)], &queue);
        assert_eq!(choice.map(|c| c.limit), Some(Limit::Bytes(Bytes::new(2_000))));
        s.on_scheduled(choice.expect("chosen"), Bytes::new(2_000));
        assert_eq!(s.pick(&[subflow(0)], &DataQueueView { next: DataSeq::new(2_000), ..queue }), None);
    }

    #[test]
    fn mptcp_0_96_repeats_the_oldest_buffer() {
        let (mut s, flows) = (Redundant::repeating(), [subflow(0)]);
        let mut queue = DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(1 << 20), ..DataQueueView::EMPTY };
        let mut deal = |queue: &DataQueueView, len: u32| {
            let choice = s.pick(&flows, queue).expect("one");
            s.on_scheduled(choice, Bytes::from_u32(len));
            choice.from.get()
        };
        assert_eq!(deal(&queue, 4_000), 0);
        queue.next = DataSeq::new(4_000);
        assert_eq!(deal(&queue, 4_000), 0, "again, since nothing before it is missing");
        queue.una = DataSeq::new(4_000);
        assert_eq!(deal(&queue, 4_000), 4_000);
        queue.next = DataSeq::new(8_000);
        assert_eq!(deal(&queue, 4_000), 4_000);
        assert_eq!(s.pick(&flows, &DataQueueView { next: DataSeq::new(1 << 20), ..queue }), None, "nothing new: no copies either");
    }
}
