//! Later values of a parameter, by time.

use crate::Error;
use polypath_base::Instant;
use serde::Deserialize;

/// A later value of a parameter.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change<T> {
    /// From when it holds.
    #[serde(rename = "at_ns")]
    pub at: Instant,
    /// In the parameter's unit.
    pub to: T,
}

/// The changes of one parameter: known beforehand, taken in order.
#[derive(Clone, Debug)]
pub struct Schedule<T> {
    changes: Vec<(Instant, T)>,
    taken: usize,
    /// Time of the first change that has not been taken; never if there is none.
    next: Instant,
}

impl<T: Copy> Schedule<T> {
    /// See [`Schedule::new`].
    pub fn of(changes: &[Change<T>]) -> Result<Self, Error> {
        Self::new(changes.iter().map(|change| (change.at, change.to)).collect())
    }

    /// Changes in ascending order of time; of two at the same time the later one in the list wins.
    pub fn new(changes: Vec<(Instant, T)>) -> Result<Self, Error> {
        if let Some(pair) = changes.windows(2).find(|pair| pair[0].0 > pair[1].0) {
            return Err(Error::caller(format!(
                "the change at {:?} stands after one at {:?}: sort the changes by time",
                pair[1].0, pair[0].0
            )));
        }
        let next = changes.first().map_or(Instant::NEVER, |change| change.0);
        Ok(Self { changes, taken: 0, next })
    }

    /// No changes.
    pub fn none() -> Self {
        Self { changes: Vec::new(), taken: 0, next: Instant::NEVER }
    }

    /// Time of the next change.
    #[inline]
    pub fn next_at(&self) -> Instant {
        self.next
    }

    /// Takes all changes up to and including `at`; the last one of them is the value from now on.
    #[inline]
    pub fn advance(&mut self, at: Instant) -> Option<T> {
        if at < self.next { None } else { self.take(at) }
    }

    #[cold]
    fn take(&mut self, at: Instant) -> Option<T> {
        let due = self.changes[self.taken..].iter().take_while(|change| change.0 <= at).count();
        self.taken += due;
        self.next = self.changes.get(self.taken).map_or(Instant::NEVER, |change| change.0);
        if due == 0 { None } else { Some(self.changes[self.taken - 1].1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn the_last_change_that_is_due_counts() {
        let mut schedule = Schedule::new(vec![(at(5), 'a'), (at(7), 'b'), (at(20), 'c')]).unwrap();
        assert_eq!(schedule.advance(at(4)), None);
        assert_eq!(schedule.advance(at(7)), Some('b'));
        assert_eq!(schedule.advance(at(19)), None);
        assert_eq!(schedule.next_at(), at(20));
        assert_eq!(schedule.advance(at(20)), Some('c'));
        assert_eq!(schedule.next_at(), Instant::NEVER);
    }

    #[test]
    fn unsorted_changes_are_refused() {
        assert!(Schedule::new(vec![(at(5), 'a'), (at(4), 'b')]).is_err());
    }
}
