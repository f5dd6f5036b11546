//! `fullmesh`: from every address of the client to every address of the server that it knows.
//!
//! Source: MPTCP 0.96's path manager of that name; Linux does the same with
//! `ip mptcp endpoint ... fullmesh`.

use super::{NewSubflow, Policy, View};

/// All pairs of addresses.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Fullmesh;

impl Policy for Fullmesh {
    fn next_subflow(&self, view: &View<'_>) -> Option<NewSubflow> {
        let pairs = view.local.iter().flat_map(|local| view.remote.iter().map(move |remote| (local, remote)));
        let mut missing = pairs.filter(|&pair| !view.subflows.iter().any(|s| (s.local, s.remote) == pair && !s.withdrawn));
        missing.next().map(|(local, remote)| NewSubflow { local, remote, backup: false })
    }

    fn most_subflows(&self, local: usize, remote: usize) -> usize {
        local * remote
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{joined, opened};
    use super::super::{AddressSet, SubflowAddresses};
    use super::*;

    #[test]
    fn every_pair_has_one_subflow() {
        assert_eq!(opened(&Fullmesh, 2, 3), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn an_address_that_is_announced_again_gets_a_new_subflow() {
        let subflow = |withdrawn| SubflowAddresses { withdrawn, ..joined(0, 0) };
        let next = |subflows: &[_]| {
            Fullmesh
                .next_subflow(&View { local: AddressSet::below(1), remote: AddressSet::below(1), heard: None, subflows })
                .map(|new| new.remote)
        };
        assert_eq!((next(&[subflow(false)]), next(&[subflow(true)]), next(&[subflow(true), subflow(false)])), (None, Some(0), None));
    }
}
