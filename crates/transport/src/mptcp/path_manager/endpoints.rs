//! `endpoints`: from addresses that somebody named.
//!
//! Source: Linux's `ip mptcp endpoint add ADDRESS subflow [backup]`.

use super::{AddressSet, NewSubflow, Policy, View};
use polypath_base::Duration;

/// A subflow from each of these addresses to the server's first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints(pub Vec<Endpoint>);

/// An address of the client that the path manager uses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Index into the client's addresses. The address of the first path may be named too, to make
    /// it go away.
    pub address: u8,
    /// Its subflow is used only when no other can be.
    pub backup: bool,
    /// The address goes away this long after the connection was established.
    pub remove_after: Option<Duration>,
}

impl Policy for Endpoints {
    fn next_subflow(&self, view: &View<'_>) -> Option<NewSubflow> {
        let mut there = self.0.iter().filter(|endpoint| view.local.has(endpoint.address));
        let missing = there.find(|endpoint| !view.subflows.iter().any(|s| s.local == endpoint.address))?;
        Some(NewSubflow { local: missing.address, remote: 0, backup: missing.backup })
    }

    fn next_removal(&self, local: AddressSet) -> Option<(Duration, u8)> {
        let there = self.0.iter().filter(|endpoint| local.has(endpoint.address));
        there.filter_map(|endpoint| Some((endpoint.remove_after?, endpoint.address))).min_by_key(|(after, _)| *after)
    }

    fn most_subflows(&self, local: usize, _remote: usize) -> usize {
        local
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::opened;
    use super::*;

    fn endpoint(address: u8, ms: Option<u64>) -> Endpoint {
        Endpoint { address, backup: address == 2, remove_after: ms.map(Duration::from_millis) }
    }

    #[test]
    fn each_address_has_one_subflow_to_the_first_of_the_server() {
        assert_eq!(opened(&Endpoints(vec![endpoint(2, None), endpoint(0, None), endpoint(1, None)]), 3, 2), [(0, 0), (2, 0), (1, 0)]);
        assert_eq!(opened(&Endpoints(vec![endpoint(5, None)]), 3, 2), [(0, 0)], "an address that went away");
    }

    #[test]
    fn addresses_go_away_in_the_order_of_their_times() {
        let endpoints = Endpoints(vec![endpoint(0, Some(20)), endpoint(1, None), endpoint(2, Some(10))]);
        let mut local = AddressSet::below(3);
        let gone = std::iter::from_fn(|| {
            let (after, address) = endpoints.next_removal(local)?;
            local.remove(address);
            Some((after.as_micros() / 1000, address))
        });
        assert_eq!(gone.collect::<Vec<_>>(), [(10, 2), (20, 0)]);
    }
}
