//! Which numbers have come: a datagram is taken once, and late ones as long as they are not too
//! late (RFC 6479's shape of the window).

const WORDS: usize = 128;
/// Numbers behind the greatest one of which is known whether they have come; the rest of a word is
/// lost to clearing it whole.
pub(super) const KEPT: u64 = (WORDS as u64 - 1) * 64;

/// The numbers that have come on a path.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Behind the greatest number that has come.
    end: u64,
    /// A ring of words; number n is bit n % 64 of word n / 64 % WORDS.
    seen: Box<[u64; WORDS]>,
}

impl Default for Window {
    fn default() -> Self {
        Self { end: 0, seen: Box::new([0; WORDS]) }
    }
}

impl Window {
    /// Whether a number has not come, as far as is known.
    pub(super) fn is_new(&self, number: u64) -> bool {
        number >= self.end || number + KEPT >= self.end && self.seen[word(number)] & bit(number) == 0
    }

    /// A number that is new has come; whether it is the greatest of all.
    pub(super) fn mark(&mut self, number: u64) -> bool {
        let greatest = number >= self.end;
        if greatest {
            // Words that are entered for the first time in this round; none is cleared twice.
            let entered = (number / 64).saturating_sub(self.end.saturating_sub(1) / 64).min(WORDS as u64);
            let last = number / 64;
            for at in 0..entered {
                self.seen[((last - at) % WORDS as u64) as usize] = 0;
            }
            self.end = number + 1;
        }
        self.seen[word(number)] |= bit(number);
        greatest
    }
}

fn word(number: u64) -> usize {
    (number / 64 % WORDS as u64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_number_is_taken_once_and_not_when_it_is_too_old() {
        let mut window = Window::default();
        assert!(window.is_new(0) && window.mark(0) && !window.is_new(0));
        assert!(window.mark(100_000));
        assert!(window.is_new(100_001 - KEPT) && !window.is_new(100_000 - KEPT), "the edge");
        assert!(!window.mark(100_001 - KEPT), "it is late");
        assert!(!window.is_new(100_001 - KEPT));
    }

    proptest! {
        #[test]
        fn it_says_what_a_set_says(steps in proptest::collection::vec((any::<bool>(), 0..20_000_u64), 1..400)) {
            let (mut window, mut set, mut greatest) = (Window::default(), BTreeSet::new(), 0);
            for (ahead, by) in steps {
                // Small steps ahead, large ones back.
                let number = if ahead { greatest + by / 40 } else { greatest.saturating_sub(by) };
                let new = !set.contains(&number) && number + KEPT > greatest;
                prop_assert_eq!(window.is_new(number), new, "{} beside {}", number, greatest);
                if new {
                    prop_assert_eq!(window.mark(number), set.is_empty() || number > greatest);
                    set.insert(number);
                    greatest = greatest.max(number);
                }
            }
        }
    }
}
