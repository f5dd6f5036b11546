//! Whether the peer counts anew, after a restart or a long loss, or whether somebody has forged a
//! number.
//!
//! A number far from those that come is believed when eight that agree have come and none of the
//! old count meanwhile. So whoever does not know the peer's numbers cannot move them while the peer
//! sends. Forged numbers among the peer's do not hide its new count: several runs are followed at a
//! time.

/// So many growing numbers that agree are a new count.
const ENOUGH: u32 = 8;
/// Runs that are followed at a time.
const RUNS: usize = 4;

/// Numbers that may be those of a new count.
#[derive(Copy, Clone, Debug, Default)]
struct Run {
    /// The greatest, and how many have come; 0: there is no run.
    last: u64,
    count: u32,
}

#[derive(Debug, Default)]
pub(super) struct Anew {
    runs: [Run; RUNS],
    /// There is a run.
    some: bool,
}

impl Anew {
    /// A number of the old count has come.
    pub(super) fn forget(&mut self) {
        if self.some {
            *self = Self::default();
        }
    }

    /// One that is none of the old count has come; numbers agree that are no more than `near`
    /// apart. Whether the peer counts anew.
    pub(super) fn on_stranger(&mut self, number: u64, near: u64) -> bool {
        debug_assert!(self.runs.iter().all(|run| run.count < ENOUGH), "a run that is long enough was believed");
        self.some = true;
        let agrees = |run: &&mut Run| run.count > 0 && run.last.abs_diff(number) <= near;
        if let Some(run) = self.runs.iter_mut().find(agrees) {
            if number > run.last {
                *run = Run { last: number, count: run.count + 1 };
            }
            let believed = run.count >= ENOUGH;
            if believed {
                self.forget();
            }
            return believed;
        }
        if let Some(least) = self.runs.iter_mut().min_by_key(|run| run.count) {
            *least = Run { last: number, count: 1 };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_that_agree_are_believed_whatever_is_forged_between_them() {
        let mut anew = Anew::default();
        for n in 0..7 {
            assert!(!anew.on_stranger(1000 + n, 64) && !anew.on_stranger((n + 1) << 32, 64), "{n}");
        }
        // One that comes again says nothing.
        assert!(!anew.on_stranger(1003, 64));
        assert!(anew.on_stranger(1007, 64));
    }

    #[test]
    fn one_of_the_old_count_disproves_them() {
        let mut anew = Anew::default();
        for n in 0..100 {
            assert!(!anew.on_stranger(1000 + n, 64));
            if n % 7 == 6 {
                anew.forget();
            }
        }
    }
}
