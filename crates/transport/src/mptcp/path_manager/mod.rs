//! Path managers: which subflows a client opens besides the first, and which of its addresses go
//! away.
//!
//! A path manager is a small struct with a [`Policy`]: it sees addresses and subflows as a plain
//! [`View`] and never touches a socket. [`PathManager`] is the closed set of them, declared once.
//! `mptcp::paths` is the mechanism: it opens what a path manager asks for, withdraws addresses, and
//! answers for a server, which has no path manager.
//!
//! # Adding a path manager
//!
//! Call its type `Name`; copy `ndiffports.rs`.
//!
//! 1. `NAME.rs`: the head names the source; `pub struct Name` with its arguments, and [`Policy`]:
//!    `next_subflow`, `most_subflows`, and `next_removal`, which has a default. Unit tests on
//!    views; `opened` helps.
//! 2. `mod NAME;` and `pub use NAME::Name;` here, a sorted line in `path_managers!` with name and
//!    sentence, and the policy in the list of its test. `cargo test -p polypath-transport --lib
//!    path_manager`.
//! 3. `crates/sim/src/scenario.rs`: a variant of `PathManager` with its arguments, units in their
//!    names. `crates/sim/src/build.rs`: an arm in `path_manager` and one in `between`.
//! 4. A scenario in `crates/sim/tests/known_bytes/scenarios.jsonl`. The steps in Python are in
//!    `CONTRIBUTING.md`.

mod endpoints;
mod fullmesh;
mod ndiffports;

pub use endpoints::{Endpoint, Endpoints};
pub use fullmesh::Fullmesh;
pub use ndiffports::Ndiffports;
use polypath_base::Duration;

/// What a path manager sees of its connection.
#[derive(Copy, Clone, Debug)]
pub struct View<'a> {
    /// The client's addresses, without those that went away.
    pub local: AddressSet,
    /// The server's addresses that the client knows.
    pub remote: AddressSet,
    /// The address that the server has announced just now (ADD_ADDR).
    pub heard: Option<u8>,
    /// Every subflow that there has been, in the order in which they were opened.
    pub subflows: &'a [SubflowAddresses],
}

/// Between which addresses a subflow leads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SubflowAddresses {
    /// Id of the client's address; 0 is the one of the first path.
    pub local: u8,
    /// Id of the server's address (RFC 8684 section 3.4.1); 0 is the one of the first path.
    pub remote: u8,
    /// The server took its address back: should it announce it again, a subflow to there is a new
    /// one.
    pub withdrawn: bool,
    /// It is over.
    pub closed: bool,
}

/// A subflow to open.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NewSubflow {
    /// Id of the client's address from which the SYN leaves.
    pub local: u8,
    /// Id of the server's address to which the SYN goes.
    pub remote: u8,
    /// To be used only when no other can be (RFC 8684 section 3.3.8).
    pub backup: bool,
}

/// A rule that decides which subflows a client opens.
pub trait Policy {
    /// The next subflow to open; `None`: all that is wanted is there. Asked, until it answers
    /// `None` or the connection is full, when the first subflow is confirmed, when the server
    /// announces an address and when a subflow closes.
    fn next_subflow(&self, view: &View<'_>) -> Option<NewSubflow>;

    /// The next of the client's addresses `local` that goes away (REMOVE_ADDR), and how long after
    /// the connection was established.
    fn next_removal(&self, _local: AddressSet) -> Option<(Duration, u8)> {
        None
    }

    /// Most subflows that it opens, the first one counted, where the client has `local` addresses
    /// and the server `remote`.
    fn most_subflows(&self, local: usize, remote: usize) -> usize;
}

/// Declares [`PathManager`]: a line has a path manager's type, its name and what it does.
macro_rules! path_managers {
    ($($policy:ident: $name:literal, $about:literal;)+) => {
        /// One of the known path managers.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum PathManager {
            $(#[doc = $about] $policy($policy),)+
        }

        impl PathManager {
            /// All names, sorted, and what each does.
            pub const NAMES: [(&'static str, &'static str); [$($name),+].len()] = [$(($name, $about)),+];

            /// What a study calls it.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$policy(_) => $name,)+
                }
            }
        }

        impl Policy for PathManager {
            fn next_subflow(&self, view: &View<'_>) -> Option<NewSubflow> {
                match self {
                    $(Self::$policy(policy) => policy.next_subflow(view),)+
                }
            }

            fn next_removal(&self, local: AddressSet) -> Option<(Duration, u8)> {
                match self {
                    $(Self::$policy(policy) => policy.next_removal(local),)+
                }
            }

            fn most_subflows(&self, local: usize, remote: usize) -> usize {
                match self {
                    $(Self::$policy(policy) => policy.most_subflows(local, remote),)+
                }
            }
        }

        $(impl From<$policy> for PathManager {
            fn from(policy: $policy) -> Self {
                Self::$policy(policy)
            }
        })+
    };
}

// Sorted by name.
path_managers! {
    Endpoints: "endpoints", "A subflow from each of these client addresses: to the server's first one, or, if laminar, to one that the server announces.";
    Fullmesh: "fullmesh", "A subflow from every address of the client to every address of the server that is announced.";
    Ndiffports: "ndiffports", "Several subflows over the first path, told apart by their source ports.";
}

impl Default for PathManager {
    fn default() -> Self {
        Fullmesh.into()
    }
}

/// Which of the 256 possible address ids are in (RFC 8684 section 3.4.1).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet([u64; 4]);

impl AddressSet {
    /// The ids below `count`.
    pub fn below(count: usize) -> Self {
        let mut set = Self::default();
        (0..=u8::MAX).take(count).for_each(|id| set.insert(id));
        set
    }

    /// Whether `id` is in.
    pub fn has(&self, id: u8) -> bool {
        self.0[usize::from(id >> 6)] >> (id & 63) & 1 == 1
    }

    /// Adds `id`; one that is in stays in.
    pub fn insert(&mut self, id: u8) {
        self.0[usize::from(id >> 6)] |= 1 << (id & 63);
    }

    /// Takes `id` out; one that is not in changes nothing.
    pub fn remove(&mut self, id: u8) {
        self.0[usize::from(id >> 6)] &= !(1 << (id & 63));
    }

    /// Lowest first.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |&id| self.has(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A subflow that is there.
    pub(super) fn joined(local: u8, remote: u8) -> SubflowAddresses {
        SubflowAddresses { local, remote, withdrawn: false, closed: false }
    }

    /// Opens all that a path manager wants where both ends have so many addresses and the first
    /// subflow is there: the pairs, in order.
    pub(super) fn opened(policy: &impl Policy, local: usize, remote: usize) -> Vec<(u8, u8)> {
        let mut subflows = vec![joined(0, 0)];
        let (local, remote) = (AddressSet::below(local), AddressSet::below(remote));
        while let Some(new) = policy.next_subflow(&View { local, remote, heard: None, subflows: &subflows }) {
            subflows.push(joined(new.local, new.remote));
        }
        subflows.iter().map(|s| (s.local, s.remote)).collect()
    }

    #[test]
    fn each_has_a_name_and_opens_as_many_subflows_as_it_says() {
        assert!(PathManager::NAMES.is_sorted());
        let endpoint = |address| Endpoint { address, backup: false, laminar: false, remove_after: None };
        let all: [PathManager; 3] = [Endpoints(vec![endpoint(0), endpoint(2)]).into(), Fullmesh.into(), Ndiffports(4).into()];
        for (manager, (name, about)) in all.iter().zip(PathManager::NAMES) {
            assert_eq!(manager.name(), name);
            assert!(about.ends_with('.'));
            for (local, remote) in [(3, 1), (3, 2)] {
                let opened = opened(manager, local, remote).len();
                assert!(opened > 1 && opened <= manager.most_subflows(local, remote), "{name}: {opened}");
            }
        }
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set = AddressSet::below(2);
        set.insert(255);
        set.insert(64);
        set.remove(0);
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 64, 255]);
        assert_eq!(AddressSet::below(1000).iter().count(), 256);
    }

    /// A thing that happens to a connection; ids are reduced to the eight that there are.
    #[derive(Copy, Clone, Debug)]
    enum Step {
        Announce(u8),
        /// The server takes an address back: it is known no more, and subflows to it are withdrawn.
        Withdraw(u8),
        /// A client's address goes away.
        Leave(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0_u8..3, 0_u8..8).prop_map(|(kind, id)| match kind {
            0 => Step::Announce(id),
            1 => Step::Withdraw(id),
            _ => Step::Leave(id),
        })
    }

    fn manager() -> impl Strategy<Value = PathManager> {
        let endpoint = (0_u8..8, any::<bool>()).prop_map(|(address, backup)| Endpoint {
            address,
            backup,
            laminar: address % 3 == 0,
            remove_after: None,
        });
        prop_oneof![
            prop::collection::vec(endpoint, 0..5).prop_map(|endpoints| Endpoints(endpoints).into()),
            Just(Fullmesh.into()),
            (0_u8..6).prop_map(|subflows| Ndiffports(subflows).into()),
        ]
    }

    proptest! {
        /// Whatever comes and goes: a path manager asks for subflows between addresses that are
        /// there, comes to an end, and then has opened what its description says.
        #[test]
        fn each_opens_what_it_should_and_stops(manager in manager(), addresses in 1_usize..8, steps in prop::collection::vec(step(), 0..30)) {
            let (mut local, mut remote) = (AddressSet::below(addresses), AddressSet::below(1));
            let mut subflows = vec![joined(0, 0)];
            for step in steps.into_iter().map(Some).chain([None]) {
                match step {
                    Some(Step::Announce(id)) => remote.insert(id),
                    Some(Step::Withdraw(id)) => {
                        remote.remove(id);
                        subflows.iter_mut().filter(|s| s.remote == id).for_each(|s| (s.withdrawn, s.closed) = (true, true));
                    }
                    Some(Step::Leave(id)) => {
                        local.remove(id);
                        subflows.iter_mut().filter(|s| s.local == id).for_each(|s| s.closed = true);
                    }
                    None => {}
                }
                let heard = if let Some(Step::Announce(id)) = step { Some(id) } else { None };
                let mut opened = 0;
                while let Some(new) = manager.next_subflow(&View { local, remote, heard, subflows: &subflows }) {
                    let first = (new.local, new.remote) == (0, 0);
                    prop_assert!(first || local.has(new.local), "{new:?}");
                    prop_assert!(new.remote == 0 || remote.has(new.remote), "{new:?}");
                    subflows.push(joined(new.local, new.remote));
                    opened += 1;
                    prop_assert!(opened <= manager.most_subflows(8, 8), "no end");
                }
                let leads = |from: u8, to: u8| subflows.iter().filter(|s| (s.local, s.remote) == (from, to) && !s.withdrawn).count();
                match &manager {
                    PathManager::Fullmesh(_) => {
                        prop_assert!(local.iter().all(|from| remote.iter().all(|to| leads(from, to) == 1)));
                    }
                    PathManager::Endpoints(Endpoints(endpoints)) => {
                        let there = |laminar| endpoints.iter().filter(move |e| e.laminar == laminar && local.has(e.address));
                        prop_assert!(there(false).all(|e| subflows.iter().filter(|s| s.local == e.address).count() == 1));
                        let living = |wanted: &dyn Fn(&SubflowAddresses) -> bool| subflows.iter().filter(|&s| !s.closed && wanted(s)).count();
                        prop_assert!(there(true).all(|e| living(&|s| s.local == e.address) <= 1), "a laminar endpoint has one at a time");
                        let answered = heard.is_none_or(|id| living(&|s| s.remote == id) >= 1);
                        prop_assert!(answered || there(true).all(|e| living(&|s| s.local == e.address) == 1), "an endpoint was free");
                    }
                    PathManager::Ndiffports(Ndiffports(count)) => prop_assert_eq!(subflows.len(), usize::from(*count).max(1)),
                }
            }
        }
    }
}
