//! `ndiffports`: several subflows over the first path.
//!
//! Source: MPTCP 0.96's path manager of that name: subflows that differ in their source port alone,
//! so that routers that spread flows over equal paths (ECMP) spread them too.

use super::{NewSubflow, Policy, View};

/// So many subflows in all between the first addresses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ndiffports(pub u8);

impl Policy for Ndiffports {
    fn next_subflow(&self, view: &View<'_>) -> Option<NewSubflow> {
        // One that has closed is not replaced.
        (view.subflows.len() < usize::from(self.0)).then_some(NewSubflow { local: 0, remote: 0, backup: false })
    }

    fn most_subflows(&self, _local: usize, _remote: usize) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::opened;
    use super::*;

    #[test]
    fn all_are_between_the_first_addresses() {
        assert_eq!(opened(&Ndiffports(3), 2, 2), [(0, 0); 3]);
        assert_eq!(opened(&Ndiffports(0), 2, 2), [(0, 0)], "the first one is always there");
    }
}
