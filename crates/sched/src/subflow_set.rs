/// Most subflows a connection has, here as in MPTCP 0.96.
pub const MAX_SUBFLOWS: usize = 32;

/// Some of a connection's subflows, by index.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SubflowSet(u32);

const _: () = assert!(MAX_SUBFLOWS == 32, "a set has a bit for each subflow");

impl SubflowSet {
    /// No subflow.
    pub const EMPTY: Self = Self(0);

    /// This subflow alone.
    #[inline]
    pub const fn of(i: usize) -> Self {
        debug_assert!(i < MAX_SUBFLOWS, "an index of a subflow");
        Self(1 << i)
    }

    /// The subflow is in it.
    #[inline]
    pub const fn has(self, i: usize) -> bool {
        self.0 >> i & 1 == 1
    }

    /// A bit for each subflow.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The set has no subflow.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a subflow.
    #[inline]
    pub const fn insert(&mut self, i: usize) {
        self.0 |= Self::of(i).0;
    }

    /// Takes a subflow out.
    #[inline]
    pub const fn remove(&mut self, i: usize) {
        self.0 &= !Self::of(i).0;
    }

    /// The set and this subflow.
    #[inline]
    #[must_use]
    pub const fn with(self, i: usize) -> Self {
        Self(self.0 | Self::of(i).0)
    }

    /// The set but for this subflow.
    #[inline]
    #[must_use]
    pub const fn without(self, i: usize) -> Self {
        Self(self.0 & !Self::of(i).0)
    }

    /// The lowest index in it.
    #[inline]
    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }

    /// The indices in it, lowest first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let first = Self(left).first()?;
            left &= left - 1;
            Some(first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_every_index_and_tells_them_in_order() {
        let mut set = SubflowSet::EMPTY;
        assert_eq!((set.first(), set.is_empty(), set.iter().count()), (None, true, 0));
        for i in [31, 0, 7] {
            set.insert(i);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 7, 31]);
        set.remove(0);
        set.remove(1);
        assert_eq!((set.first(), set.has(31), set.has(0)), (Some(7), true, false));
        assert_eq!(set.with(1).without(31).iter().collect::<Vec<_>>(), [1, 7]);
    }
}
