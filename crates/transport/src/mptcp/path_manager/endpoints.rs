//! `endpoints`: from addresses that somebody named.
//!
//! Source: Linux's `ip mptcp endpoint add ADDRESS subflow|laminar [backup]`.

use super::{AddressSet, NewSubflow, Policy, View};
use polypath_base::Duration;

/// A subflow from each of these addresses: to the server's first one, or, from a laminar one, to
/// one that the server announces.
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
    /// No subflow leaves from here until the server announces an address.
    pub laminar: bool,
    /// The address goes away this long after the connection was established.
    pub remove_after: Option<Duration>,
}

impl Policy for Endpoints {
    fn next_subflow(&self, view: &View<'_>) -> Option<NewSubflow> {
        if let Some(answer) = self.answer(view) {
            return Some(answer);
        }
        let mut there = self.0.iter().filter(|endpoint| !endpoint.laminar && view.local.has(endpoint.address));
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

impl Endpoints {
    /// An announced address to which no subflow leads gets one, from the first laminar endpoint
    /// from which none leaves; without such an endpoint it never gets one (Linux:
    /// `mptcp_pm_nl_add_addr_received`, `fill_local_laminar_endp`).
    fn answer(&self, view: &View<'_>) -> Option<NewSubflow> {
        let remote = view.heard?;
        let living = view.subflows.iter().filter(|subflow| !subflow.closed);
        if living.clone().any(|subflow| subflow.remote == remote) {
            return None;
        }
        let mut laminar = self.0.iter().filter(|endpoint| endpoint.laminar && view.local.has(endpoint.address));
        let free = laminar.find(|endpoint| !living.clone().any(|subflow| subflow.local == endpoint.address))?;
        Some(NewSubflow { local: free.address, remote, backup: free.backup })
    }
}

#[cfg(test)]
mod tests {
    use super::super::SubflowAddresses;
    use super::super::tests::{joined, opened};
    use super::*;

    fn endpoint(address: u8, ms: Option<u64>) -> Endpoint {
        Endpoint { address, backup: address == 2, laminar: false, remove_after: ms.map(Duration::from_millis) }
    }

    fn laminar(address: u8) -> Endpoint {
        Endpoint { laminar: true, ..endpoint(address, None) }
    }

    #[test]
    fn each_address_has_one_subflow_to_the_first_of_the_server() {
        assert_eq!(opened(&Endpoints(vec![endpoint(2, None), endpoint(0, None), endpoint(1, None)]), 3, 2), [(0, 0), (2, 0), (1, 0)]);
        assert_eq!(opened(&Endpoints(vec![endpoint(5, None)]), 3, 2), [(0, 0)], "an address that went away");
    }

    #[test]
    fn each_announced_address_is_answered_from_one_laminar_endpoint_in_their_order() {
        let endpoints = Endpoints(vec![laminar(3), endpoint(1, None), laminar(2), laminar(0)]);
        let mut subflows = vec![joined(0, 0)];
        let mut hear = |remote: u8| {
            let view = |subflows: &[_], heard| {
                endpoints.next_subflow(&View { local: AddressSet::below(4), remote: AddressSet::below(4), heard, subflows })
            };
            while let Some(new) = view(&subflows, (remote > 0).then_some(remote)) {
                subflows.push(joined(new.local, new.remote));
            }
            subflows.iter().map(|s: &SubflowAddresses| (s.local, s.remote)).collect::<Vec<_>>()
        };
        assert_eq!(hear(0), [(0, 0), (1, 0)]);
        assert_eq!(hear(2), [(0, 0), (1, 0), (3, 2)]);
        assert_eq!(hear(2), [(0, 0), (1, 0), (3, 2)], "there is one to it already");
        assert_eq!(hear(1), [(0, 0), (1, 0), (3, 2), (2, 1)]);
        assert_eq!(hear(3), [(0, 0), (1, 0), (3, 2), (2, 1)], "the first address has a subflow, so no endpoint is free");
    }

    #[test]
    fn a_laminar_endpoint_is_free_again_once_its_subflow_has_closed() {
        let endpoints = Endpoints(vec![laminar(1), laminar(2)]);
        let closed = SubflowAddresses { closed: true, ..joined(1, 1) };
        let next = |subflows: &[_], heard| {
            let view = View { local: AddressSet::below(3), remote: AddressSet::below(3), heard, subflows };
            endpoints.next_subflow(&view).map(|new| (new.local, new.remote, new.backup))
        };
        assert_eq!(next(&[joined(0, 0), closed], None), None, "nobody announces anything");
        assert_eq!(next(&[joined(0, 0), closed], Some(1)), Some((1, 1, false)));
        assert_eq!(next(&[joined(0, 0), joined(1, 1)], Some(2)), Some((2, 2, true)), "and is a backup as it says");
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
