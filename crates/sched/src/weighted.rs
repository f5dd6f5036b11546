//! `weighted`: round-robin by fixed weights, segment by segment.
//!
//! Idea: the person says how the load is to be shared, `weighted 3:1` for three quarters on the
//! first subflow, whatever the paths could carry. A subflow whose turn it is and whose window is
//! full is waited for, so the slowest one for its weight sets the pace; one that cannot be used at
//! all is passed over. Subflows beyond the last weight have the last weight; without weights all
//! are equal.
//!
//! Source: smooth weighted round-robin as web balancers have it: each turn every subflow earns its
//! weight, the richest one is chosen and pays the sum, so turns mix (a a b a, not a a a b) and
//! shares hold over every round. MPTCP 0.96 has equal turns alone, there by default passing over
//! full windows (`roundrobin`).

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView};
use polypath_base::Bytes;

/// Shares by weight.
#[derive(Copy, Clone, Debug)]
pub struct Weighted {
    weights: [u8; MAX_SUBFLOWS],
    /// What each subflow has earned and not paid; within the sum of all weights of zero.
    credit: [i32; MAX_SUBFLOWS],
    /// Whose turn it is, once that is decided.
    turn: Option<usize>,
}

impl Default for Weighted {
    fn default() -> Self {
        Self { weights: [1; MAX_SUBFLOWS], credit: [0; MAX_SUBFLOWS], turn: None }
    }
}

impl Policy for Weighted {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        if queue.end == queue.next {
            return None;
        }
        let any_active = subflows.iter().any(|s| s.usable && !s.backup);
        let taken = |s: &PathView| s.usable && !s.in_loss && s.backup != any_active;
        let turn = self.turn.filter(|&i| taken(&subflows[i])).or_else(|| {
            let mut sum = 0;
            for (i, _) in subflows.iter().enumerate().filter(|(_, s)| taken(s)) {
                self.credit[i] += i32::from(self.weights[i]);
                sum += i32::from(self.weights[i]);
            }
            let richest = subflows.iter().enumerate().filter(|(_, s)| taken(s)).map(|(i, _)| i).rev().max_by_key(|&i| self.credit[i])?;
            self.credit[richest] -= sum;
            debug_assert!(self.credit.iter().sum::<i32>() == 0, "what is paid was earned");
            Some(richest)
        });
        self.turn = turn;
        let i = turn?;
        subflows[i].takes_data().then_some(Choice { subflow: i, from: queue.next, limit: Limit::Bytes(subflows[i].mss) })
    }

    #[inline]
    fn on_scheduled(&mut self, _choice: Choice, _len: Bytes) {
        self.turn = None;
    }

    /// Weights written as `3:1`, each from 1 to 100.
    fn parse(text: &str) -> Option<Self> {
        let mut weighted = Self::default();
        let mut last = None;
        for (i, part) in text.split(':').enumerate() {
            let weight = part.parse().ok().filter(|weight| (1..=100).contains(weight))?;
            *weighted.weights.get_mut(i)? = weight;
            last = Some((i, weight));
        }
        let (i, weight) = last?;
        weighted.weights[i..].fill(weight);
        debug_assert!(weighted.weights.iter().all(|&weight| weight > 0), "every subflow has a turn");
        Some(weighted)
    }

    fn retransmits_head_of_line(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, DATA};

    fn subflow(in_flight: u32) -> PathView {
        fixtures::subflow(0, in_flight)
    }

    fn turns(weighted: &mut Weighted, flows: &[PathView], count: usize) -> Vec<usize> {
        let turn = |_| {
            let choice = weighted.pick(flows, &DATA).expect("somebody");
            weighted.on_scheduled(choice, choice.limit.bytes().expect("not a buffer"));
            choice.subflow
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn turns_follow_the_weights_and_mix() {
        let mut weighted = Weighted::parse("3:1").expect("weights");
        assert_eq!(turns(&mut weighted, &[subflow(0), subflow(0)], 8), [0, 0, 1, 0, 0, 0, 1, 0]);
        assert_eq!(turns(&mut Weighted::default(), &[subflow(0); 3], 6), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_full_window_is_waited_for_and_a_dead_subflow_passed_over() {
        let mut weighted = Weighted::default();
        let mut flows = [subflow(10), subflow(0)];
        assert_eq!(weighted.pick(&flows, &DATA), None);
        assert_eq!(weighted.pick(&flows, &DATA), None, "it is still its turn");
        flows[0].usable = false;
        assert_eq!(turns(&mut weighted, &flows, 2), [1, 1]);
    }

    #[test]
    fn shares_hold_to_a_segment_over_any_stretch() {
        let mut weighted = Weighted::parse("5:2:1").expect("weights");
        let got = turns(&mut weighted, &[subflow(0); 3], 800);
        for stretch in got.chunks(8) {
            assert_eq!([0, 1, 2].map(|i| stretch.iter().filter(|&&turn| turn == i).count()), [5, 2, 1]);
        }
    }

    #[test]
    fn weights_are_numbers_from_1_to_100() {
        let many = ["1"; MAX_SUBFLOWS + 1].join(":");
        for text in ["", "0:1", "101", "3:", "3:x", &many] {
            assert!(Weighted::parse(text).is_none(), "{text}");
        }
        let weights = Weighted::parse("4:2").expect("weights").weights;
        assert!(weights[0] == 4 && weights[1..] == [2; MAX_SUBFLOWS - 1]);
    }
}
