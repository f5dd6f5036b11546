//! Ranges of numbers that do not overlap, each with a value.

use std::collections::BTreeMap;
use std::ops::Bound::Excluded;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(crate) struct Ranges<V> {
    /// First number -> the one behind the last, and the value. Neighbours of one value are one.
    map: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Ranges<V> {
    fn default() -> Self {
        Self { map: BTreeMap::new() }
    }
}

impl<V: Copy + PartialEq> Ranges<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The parts of a range in order, with their values; none: it is not here.
    pub(crate) fn each(&self, range: Range<u64>, mut then: impl FnMut(Range<u64>, Option<V>)) {
        if range.is_empty() {
            return;
        }
        let mut at = range.start;
        let before = self.map.range(..=at).next_back().filter(|(_, (end, _))| *end > at);
        for (&begin, &(end, value)) in before.into_iter().chain(self.map.range((Excluded(at), Excluded(range.end)))) {
            if begin > at {
                then(at..begin, None);
                at = begin;
            }
            let upto = end.min(range.end);
            then(at..upto, Some(value));
            at = upto;
        }
        if at < range.end {
            then(at..range.end, None);
        }
    }

    /// How many numbers of a range are here.
    pub(crate) fn count(&self, range: Range<u64>) -> u64 {
        let mut count = 0;
        self.each(range, |part, value| count += if value.is_some() { part.end - part.start } else { 0 });
        count
    }

    /// Adds what is not here of a range. Of more than `most` ranges the lowest are forgotten.
    pub(crate) fn add(&mut self, range: Range<u64>, value: V, most: usize) {
        if range.is_empty() {
            return;
        }
        if self.map.last_key_value().is_none_or(|(_, (end, _))| *end <= range.start) {
            self.insert(range, value);
        } else {
            let mut gaps = Vec::new();
            self.each(range, |part, known| {
                if known.is_none() {
                    gaps.push(part);
                }
            });
            gaps.into_iter().for_each(|gap| self.insert(gap, value));
        }
        while self.map.len() > most {
            self.map.pop_first();
        }
    }

    /// A range of which nothing is here.
    fn insert(&mut self, range: Range<u64>, value: V) {
        let end = match self.map.get(&range.end) {
            Some(&(end, same)) if same == value => {
                self.map.remove(&range.end);
                end
            }
            _ => range.end,
        };
        match self.map.range_mut(..range.start).next_back() {
            Some((_, before)) if *before == (range.start, value) => before.0 = end,
            _ => {
                self.map.insert(range.start, (end, value));
            }
        }
    }

    pub(crate) fn forget_below(&mut self, at: u64) {
        while let Some(first) = self.map.first_entry() {
            if *first.key() >= at {
                return;
            }
            let (_, (end, value)) = first.remove_entry();
            if end > at {
                self.map.insert(at, (end, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a value for each number.
        #[test]
        fn they_hold_what_was_added_first(adds in prop::collection::vec((0..60_u64, 0..20_u64, 0..3_u8, 0..60_u64), 0..30)) {
            let (mut ranges, mut model) = (Ranges::default(), [None; 100]);
            for (start, len, value, below) in adds {
                ranges.add(start..start + len, value, usize::MAX);
                (start..start + len).for_each(|at| {
                    model[at as usize].get_or_insert(value);
                });
                if below < 10 {
                    ranges.forget_below(below);
                    (0..below).for_each(|at| model[at as usize] = None);
                }
                let mut told = vec![];
                ranges.each(0..100, |part, value| told.extend(part.map(|_| value)));
                prop_assert_eq!(&told[..], &model[..]);
                prop_assert_eq!(ranges.count(0..100), model.iter().flatten().count() as u64);
                let neighbours: Vec<_> = ranges.map.iter().collect();
                prop_assert!(neighbours.windows(2).all(|pair| pair[0].1 != &(*pair[1].0, pair[1].1.1)), "{neighbours:?}");
            }
        }
    }
}
