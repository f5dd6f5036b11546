//! Packet schedulers: which path carries the next bytes.
//!
//! A scheduler sees plain [`PathView`]s and the [`DataQueueView`] of the data that wait; it never
//! touches an endpoint. It is asked again until it answers `None`.
//!
//! - `view.rs`: what a scheduler sees and answers; `subflow_set.rs`: some of the subflows.
//! - `policy.rs`: what a scheduler is; a file for each one, which uses these two and maybe another
//!   scheduler.
//! - here: [`Scheduler`], the closed set of them, matched by an enum so that choosing a path costs
//!   no indirect call.
//!
//! # Adding a scheduler
//!
//! Call its type `Name`; copy `roundrobin.rs`.
//!
//! 1. `NAME.rs`: the head names the source and what differs from it and from a kernel's. `Name`
//!    with `Default` and [`Policy`], of which `pick` must be written. Unit tests on views written
//!    by hand or made by `fixtures::subflow`.
//! 2. `mod NAME;` here, and a sorted line in `schedulers!` with name and sentence. Lists, messages
//!    and the tests over all schedulers have it then.
//! 3. A row in `docs/concepts/schedulers.md`, and a scenario in
//!    `crates/sim/tests/known_bytes/scenarios.jsonl`.
//! 4. If Linux has it: measure the smallest case that shows its character, and keep job and finding
//!    in `specs/notes`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backup;
mod blest;
mod daps;
mod ecf;
#[cfg(test)]
mod fixtures;
mod linux_default;
mod minrtt;
mod payload;
mod policy;
mod redundant;
mod roundrobin;
mod sttf;
mod subflow_set;
mod view;
mod weighted;

pub use policy::{Policy, Quirks};
pub use view::{BUFFER, Buffered, Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView, SubflowSet};

use polypath_base::Bytes;

/// Declares [`Scheduler`]: a line has a scheduler's type, its name and what it does.
macro_rules! schedulers {
    ($($variant:ident($policy:ty): $name:literal, $about:literal;)+) => {
        /// One of the known schedulers, with its state.
        #[derive(Clone, Debug)]
        pub enum Scheduler {
            $(#[doc = $about] $variant($policy),)+
        }

        impl Scheduler {
            /// Names that [`Scheduler::find`] knows, sorted, and what each does.
            pub const NAMES: [(&'static str, &'static str); [$($name),+].len()] = [$(($name, $about)),+];

            /// The scheduler of a name; `weighted` may be followed by weights.
            pub fn find(name: &str) -> Option<Self> {
                let (name, arguments) = name.split_once(' ').map_or((name, None), |(name, arguments)| (name, Some(arguments)));
                match (name, arguments) {
                    $(
                        ($name, None) => Some(Self::$variant(<$policy>::default())),
                        ($name, Some(arguments)) => <$policy>::parse(arguments).map(Self::$variant),
                    )+
                    _ => None,
                }
            }

            /// Its name in [`Scheduler::NAMES`], without arguments.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                }
            }

            /// See [`Policy::with`].
            #[must_use]
            pub fn with(self, quirks: Quirks) -> Self {
                match self {
                    $(Self::$variant(policy) => Self::$variant(policy.with(quirks)),)+
                }
            }

            /// See [`Policy::retransmits_head_of_line`].
            #[inline]
            pub fn retransmits_head_of_line(&self) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.retransmits_head_of_line(),)+
                }
            }

            /// See [`Policy::reinjects`].
            #[inline]
            pub fn reinjects(&self) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.reinjects(),)+
                }
            }

            /// See [`Policy::schedules_bursts`].
            #[inline]
            pub fn schedules_bursts(&self) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.schedules_bursts(),)+
                }
            }

            /// See [`Policy::has_met`].
            #[inline]
            pub fn has_met(&self, paths: &[PathView], changed: SubflowSet) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.has_met(paths, changed),)+
                }
            }

            /// See [`Policy::on_blocked`].
            #[inline]
            pub fn on_blocked(&mut self) {
                match self {
                    $(Self::$variant(policy) => policy.on_blocked(),)+
                }
            }

            /// See [`Policy::pick`].
            #[inline]
            pub fn pick(&mut self, paths: &[PathView], queue: &DataQueueView) -> Option<Choice> {
                let choice = match self {
                    $(Self::$variant(policy) => policy.pick(paths, queue),)+
                };
                debug_assert!(choice.is_none_or(|choice| paths[choice.subflow].usable), "a path that cannot send is not chosen");
                debug_assert!(
                    choice.is_none_or(|choice| !choice.from.before(queue.una) && choice.from.before(queue.end)),
                    "what is sent waits, or is not acknowledged"
                );
                choice
            }

            /// See [`Policy::on_scheduled`].
            #[inline]
            pub fn on_scheduled(&mut self, choice: Choice, len: Bytes) {
                match self {
                    $(Self::$variant(policy) => policy.on_scheduled(choice, len),)+
                }
            }
        }
    };
}

// Sorted by name.
schedulers! {
    Backup(backup::Backup): "backup", "the first subflow alone; the others when it fails";
    Blest(blest::Blest): "blest", "lowest RTT, but waits for it where a slower one would block the peer's window (Ferlin et al. 2016)";
    Daps(daps::Daps): "daps", "deals out windows in the order in which they will arrive (Kuhn et al. 2014)";
    LinuxDefault(linux_default::LinuxDefault): "default", "shortest time to drain what is queued, in bursts: Linux";
    Ecf(ecf::Ecf): "ecf", "lowest RTT, but waits for it where that completes earlier (Lim et al. 2017); with kernel 5.4-mptcp as that miscalculates it";
    MinRtt(minrtt::MinRtt): "minrtt", "lowest RTT with room in its window: the default of MPTCP 0.96";
    Payload(payload::Payload): "payload", "earliest arrival, by the segments that each path needs for the same bytes";
    Redundant(redundant::Redundant): "redundant", "everything on every subflow; with kernel 5.4-mptcp it repeats itself as that does";
    RoundRobin(roundrobin::RoundRobin): "roundrobin", "a segment each in turn, where windows have room";
    Sttf(sttf::Sttf): "sttf", "shortest transfer time of the next segment, queues included (Hurtig et al. 2019)";
    Weighted(weighted::Weighted): "weighted", "fixed shares, \"weighted 3:1\"; waits for the subflow whose turn it is";
}

impl Scheduler {
    /// Which path sends again bytes that went to those in `tried`: the fastest one that was not
    /// tried, else the fastest. All schedulers share this rule.
    #[inline]
    pub fn pick_reinjection(paths: &[PathView], tried: SubflowSet) -> Option<usize> {
        let path = minrtt::best(paths, tried);
        debug_assert!(path.is_none_or(|path| paths[path].takes_data()), "a path whose window is full is not chosen");
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{DATA, subflow};
    use polypath_base::{DataSeq, Rate};

    #[test]
    fn every_name_finds_its_scheduler() {
        for (name, about) in Scheduler::NAMES {
            assert_eq!(Scheduler::find(name).map(|s| s.name()), Some(name));
            assert!(!about.is_empty());
        }
        assert!(Scheduler::NAMES.is_sorted());
        assert_eq!(Scheduler::find("weighted 3:1").map(|s| s.name()), Some("weighted"));
        assert!(Scheduler::find("weighted 3:x").is_none() && Scheduler::find("blest 3").is_none() && Scheduler::find("").is_none());
    }

    #[test]
    fn every_scheduler_chooses_the_path_with_room() {
        let path = |srtt_ms, in_flight| PathView { pacing_rate: Rate::from_bits_per_sec(8_000_000), ..subflow(srtt_ms, in_flight) };
        let queue = DataQueueView { end: DataSeq::new(1000), ..DATA };
        for (name, _) in Scheduler::NAMES {
            let choice = Scheduler::find(name).expect("it is in the list").pick(&[path(10, 9), path(50, 10)], &queue);
            assert!(choice.is_some_and(|choice| choice.subflow == 0 && choice.limit != Limit::Bytes(Bytes::ZERO)), "{name}: {choice:?}");
        }
    }

    #[test]
    fn every_scheduler_takes_a_backup_path_only_where_no_other_is_usable() {
        // RFC 8684 section 3.3.8.
        let path = |srtt_ms, in_flight| PathView { pacing_rate: Rate::from_bits_per_sec(8_000_000), ..subflow(srtt_ms, in_flight) };
        let backup = PathView { backup: true, ..path(5, 0) };
        for (name, _) in Scheduler::NAMES {
            let pick = |first| Scheduler::find(name).expect("it is in the list").pick(&[first, backup], &DATA).map(|choice| choice.subflow);
            assert_eq!(pick(PathView { usable: false, ..path(10, 0) }), Some(1), "{name}");
            // Turns are equal in MPTCP 0.96.
            assert_eq!(pick(path(10, 10)) == Some(1), name == "roundrobin", "{name}");
        }
    }
}
