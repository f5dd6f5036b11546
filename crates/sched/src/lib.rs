//! The safe face of the packet schedulers in cc/sched, compiled from C by build.rs: which path
//! carries the next bytes.
//!
//! A scheduler sees plain [`PathView`]s and the [`DataQueueView`] of the data that wait; it never
//! touches an endpoint. It is asked again until it answers `None`.
//!
//! - `view.rs`: what a scheduler sees and answers; `subflow_set.rs`: some of the subflows.
//! - `ops.rs`: the C side as Rust sees it; `fields.rs`: the fields of its structures.
//! - `custom.rs`: schedulers that a person wrote; `compare.rs`: whether two builds choose alike.
//! - here: [`Scheduler`], one of them with its state.
//!
//! The C side is trusted to keep the contract of cc/include/pp_sched.h.
//!
//! # Adding a scheduler
//!
//! Call it `NAME`: lower case, at most 12 letters, since the kernel calls it `pp_NAME`. Copy
//! `cc/sched/roundrobin.c`.
//!
//! 1. `cc/sched/NAME.c`; the build finds it by its name. In this order: licence line, essay (idea,
//!    source, differences), tunables with units, state, helpers, hooks, `PP_SCHED_REGISTER(NAME)`,
//!    `PP_SCHED_ABOUT(NAME)`. `cc/include/pp_sched.h` is the whole interface, `pp_choose.h` has
//!    helpers. Lists, messages and the tests over all schedulers have it then.
//! 2. `cc/vectors/sched/NAME.json`, which a test asks for; `tests/vectors.rs` has the format.
//! 3. A row in `docs/concepts/schedulers.md`, and a scenario in
//!    `crates/sim/tests/known_bytes/scenarios.jsonl`.
//! 4. If Linux has it: measure the smallest case that shows its character, and keep job and finding
//!    in `specs/notes`.
#![warn(missing_docs)]

#[cfg(not(target_family = "wasm"))]
mod compare;
pub mod custom;
#[cfg(test)]
mod fields;
mod ops;
mod subflow_set;
mod view;

#[cfg(not(target_family = "wasm"))]
pub use compare::{Compared, compare};
pub use view::{BUFFER, Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView, SubflowSet};

use ops::{Ctx, Ops, RawChoice, STATE_BYTES, SUBFLOW_BYTES, WHOLE_BUFFER, compat, flags};
use polypath_base::{Bytes, DataSeq};
use polypath_cc::try_text;
use std::ptr;

/// Faults of a kernel's schedulers that a model of it repeats.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// The products of `ecf` are 32 bits wide.
    pub ecf_overflows: bool,
    /// `redundant` begins again at the oldest buffer that is not acknowledged as a whole.
    pub redundant_repeats: bool,
}

/// Private state, aligned for any field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    connection: [u64; STATE_BYTES / 8],
    subflows: [[u64; SUBFLOW_BYTES / 8]; MAX_SUBFLOWS],
}

/// The scheduler of one connection, with its state.
#[derive(Clone, Debug)]
pub struct Scheduler {
    ops: &'static Ops,
    weights: [u8; MAX_SUBFLOWS],
    compat: u32,
    state: State,
}

/// The number of a hook, by which an observer tells the calls of custom ones apart.
const fn number(hook: &str) -> u32 {
    polypath_cc::custom::number(hook)
}

impl Scheduler {
    /// Names of the schedulers of cc/sched, sorted.
    pub const NAMES: [&'static str; ops::BUILT_IN.len()] = ops::BUILT_IN;

    /// What the scheduler of this name does.
    pub fn about(name: &str) -> Option<String> {
        let about = ops::built_in(name).map(|(_, about)| about).or_else(|| ops::ADDED.find(name).map(|(_, about)| about))?;
        try_text(&about.what).map(str::to_owned)
    }

    /// The scheduler of a name, of cc/sched or added by [`custom`], as it begins a connection;
    /// `weighted` may be followed by weights.
    pub fn find(name: &str) -> Option<Self> {
        let (name, arguments) = name.split_once(' ').map_or((name, None), |(name, arguments)| (name, Some(arguments)));
        let (ops, _) = ops::built_in(name).or_else(|| ops::ADDED.find(name))?;
        let weights = match arguments {
            None => [1; MAX_SUBFLOWS],
            Some(text) if ops.flags & flags::WEIGHTS != 0 => weights(text)?,
            Some(_) => return None,
        };
        Some(Self { weights, ..Self::begun(ops) })
    }

    /// As it begins a connection, all weights 1.
    fn begun(ops: &'static Ops) -> Self {
        let state = State { connection: [0; STATE_BYTES / 8], subflows: [[0; SUBFLOW_BYTES / 8]; MAX_SUBFLOWS] };
        let mut scheduler = Self { ops, weights: [1; MAX_SUBFLOWS], compat: 0, state };
        if let Some(hook) = ops.init {
            let mut ctx = scheduler.ctx(&[], &DataQueueView::EMPTY);
            // SAFETY: the pointers in `ctx` are valid for the call, which keeps none of them; a
            // test compares the layouts.
            polypath_cc::custom::call(ops.flags, &ops.name, const { number("init") }, || unsafe { hook(&raw mut ctx) });
        }
        scheduler
    }

    /// Its name in [`Scheduler::NAMES`], without arguments.
    pub fn name(&self) -> String {
        try_text(&self.ops.name).expect("a name is checked when it is added").to_owned()
    }

    /// Whether a person wrote it, so that its author alone vouches for it.
    pub const fn is_custom(&self) -> bool {
        self.ops.flags & polypath_cc::custom::CUSTOM != 0
    }

    /// The same with a kernel's faults.
    #[must_use]
    pub fn with(mut self, quirks: Quirks) -> Self {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        self.compat = bit(quirks.ecf_overflows, compat::ECF_OVERFLOWS) | bit(quirks.redundant_repeats, compat::REDUNDANT_REPEATS);
        self
    }

    /// What holds up the peer's window is sent again on a fast path, and the slow one that has it
    /// is penalised (Raiciu et al. 2012). In MPTCP 0.96 this is the scheduler's to do, and not all
    /// do it.
    #[inline]
    pub const fn retransmits_head_of_line(&self) -> bool {
        self.ops.flags & flags::KEEPS_HEAD == 0
    }

    /// What a path leaves undelivered goes to the others. One that sends everything on every path
    /// in any case says no.
    #[inline]
    pub const fn reinjects(&self) -> bool {
        self.ops.flags & flags::NO_REINJECTION == 0
    }

    /// It hands out long bursts to subflows with room in the send buffer, and reads nothing of a
    /// path but what Linux's scheduler reads: `usable`, `backup`, `queued`, `room` and
    /// `pacing_rate`.
    #[inline]
    pub const fn schedules_bursts(&self) -> bool {
        self.ops.flags & flags::BURSTS != 0
    }

    /// As long as the peer's window is closed, [`Scheduler::pick`] would choose no path and
    /// remember nothing of them, whatever those in `changed` look like now: it need not be asked.
    /// That is so once it has looked at every subflow that it could choose.
    #[inline]
    pub fn has_met(&self, paths: &[PathView], changed: SubflowSet) -> bool {
        let met = |i: usize| self.state.subflows[i][0] > 0;
        self.schedules_bursts() && paths.iter().enumerate().all(|(i, path)| met(i) || !(path.usable || changed.has(i)))
    }

    /// The peer's window or the send buffer held everything up.
    #[inline]
    pub fn on_blocked(&mut self) {
        if let Some(hook) = self.ops.blocked {
            let ops = self.ops;
            let mut ctx = self.ctx(&[], &DataQueueView::EMPTY);
            // SAFETY: as in `begun`.
            polypath_cc::custom::call(ops.flags, &ops.name, const { number("blocked") }, || unsafe { hook(&raw mut ctx) });
        }
    }

    /// The path for the next bytes, or `None` if nothing can be sent now.
    #[inline]
    pub fn pick(&mut self, paths: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        let ops = self.ops;
        let hook = ops.pick.expect("every scheduler has it, and a custom one was loaded");
        let mut raw = RawChoice::default();
        let mut ctx = self.ctx(paths, queue);
        // SAFETY: as in `begun`; the choice lives as long.
        let chosen =
            polypath_cc::custom::call(ops.flags, &ops.name, const { number("pick") }, || unsafe { hook(&raw mut ctx, &raw mut raw) });
        if chosen == 0 {
            return None;
        }
        let choice = Choice {
            subflow: raw.subflow as usize,
            from: DataSeq::new(raw.from),
            limit: if raw.bytes == WHOLE_BUFFER { Limit::Buffer } else { Limit::Bytes(Bytes::new(raw.bytes)) },
        };
        if self.is_custom() {
            custom::check(&self.name(), choice, paths, queue);
        }
        debug_assert!(paths[choice.subflow].usable, "a path that cannot send is not chosen");
        debug_assert!(!choice.from.before(queue.una) && choice.from.before(queue.end), "what is sent waits, or is not acknowledged");
        Some(choice)
    }

    /// `len` bytes from `choice.from` on were enqueued; the scheduler may have asked for more, or
    /// for what begins later.
    #[inline]
    pub fn on_scheduled(&mut self, choice: Choice, len: Bytes) {
        if let Some(hook) = self.ops.scheduled {
            debug_assert!(len > Bytes::ZERO, "a turn sends something");
            let ops = self.ops;
            let bytes = choice.limit.bytes().map_or(WHOLE_BUFFER, Bytes::get);
            let raw = RawChoice::new(choice.from.get(), bytes, choice.subflow as u32);
            let mut ctx = self.ctx(&[], &DataQueueView::EMPTY);
            // SAFETY: as in `pick`.
            polypath_cc::custom::call(ops.flags, &ops.name, const { number("scheduled") }, || unsafe {
                hook(&raw mut ctx, &raw const raw, len.get());
            });
        }
    }

    /// Which path sends again bytes that went to those in `tried`: the fastest one that was not
    /// tried, else the fastest. All schedulers share this rule.
    #[inline]
    pub fn pick_reinjection(paths: &[PathView], tried: SubflowSet) -> Option<usize> {
        // SAFETY: so many paths, which the call only reads.
        let path = unsafe { ops::pp_sched_reinjection(paths.as_ptr(), paths.len() as u32, tried.bits()) };
        (path != u32::MAX).then_some(path as usize)
    }

    /// Most that a path gets at once; none: its window has no room.
    #[inline]
    pub fn share(path: &PathView) -> Option<Bytes> {
        // SAFETY: the call only reads the path.
        let bytes = unsafe { ops::pp_sched_share(path) };
        (bytes > 0).then_some(Bytes::new(bytes))
    }

    #[inline]
    fn ctx(&mut self, paths: &[PathView], queue: &DataQueueView) -> Ctx {
        debug_assert!(paths.len() <= MAX_SUBFLOWS, "each has a place in the state");
        Ctx {
            paths: paths.as_ptr(),
            queue: ptr::from_ref(queue),
            priv_: self.state.connection.as_mut_ptr().cast(),
            subflow_priv: self.state.subflows.as_mut_ptr().cast(),
            weights: self.weights.as_ptr(),
            len: paths.len() as u32,
            compat: self.compat,
        }
    }
}

/// Weights written as `3:1`, each from 1 to 100; subflows beyond the last have the last.
fn weights(text: &str) -> Option<[u8; MAX_SUBFLOWS]> {
    let mut weights = [1; MAX_SUBFLOWS];
    let mut last = None;
    for (i, part) in text.split(':').enumerate() {
        let weight = part.parse().ok().filter(|weight| (1..=100).contains(weight))?;
        *weights.get_mut(i)? = weight;
        last = Some((i, weight));
    }
    let (i, weight) = last?;
    weights[i..].fill(weight);
    Some(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_numbers_from_1_to_100() {
        let many = ["1"; MAX_SUBFLOWS + 1].join(":");
        for text in ["", "0:1", "101", "3:", "3:x", &many] {
            assert!(weights(text).is_none(), "{text}");
        }
        let weights = weights("4:2").expect("weights");
        assert!(weights[0] == 4 && weights[1..] == [2; MAX_SUBFLOWS - 1]);
    }

    #[test]
    fn every_name_finds_its_scheduler() {
        for name in Scheduler::NAMES {
            let ops = Scheduler::find(name).expect("it is in the list").ops;
            assert_eq!(Scheduler::find(name).map(|s| s.name()).as_deref(), Some(name));
            // Shorter than its array: a longer text would have been cut.
            assert!(Scheduler::about(name).is_some_and(|about| (10..159).contains(&about.len())), "{name}");
            assert!(ops.priv_bytes as usize <= STATE_BYTES && ops.subflow_bytes as usize <= SUBFLOW_BYTES, "{name}");
        }
        assert!(Scheduler::NAMES.is_sorted());
        assert_eq!(Scheduler::find("weighted 3:1").map(|s| s.name()).as_deref(), Some("weighted"));
        assert!(Scheduler::find("weighted 3:x").is_none() && Scheduler::find("blest 3").is_none() && Scheduler::find("").is_none());
    }
}
