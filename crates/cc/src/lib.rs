//! The safe face of the congestion-control algorithms in cc/algs, compiled from C by build.rs.
//!
//! [`find`] gives an [`Algorithm`] by name; [`Algorithm::start`] gives the [`Controller`] of one
//! flow, whose methods are the hooks of cc/include/pp_cc.h in the order in which Linux calls those
//! of the same names. An algorithm writes `pacing_rate`, `cwnd`, `cwnd_cnt`, `ssthresh`,
//! `app_limited`, `pacing` and `tso_segs_goal` of the [`Flow`] it is given, and its own state;
//! nothing else, and it keeps no pointer.
//!
//! The C side is trusted to keep that contract; everything a caller can pass is safe: views are
//! bounded by construction and a missing hook does what pp_cc.h says.
//!
//! # Adding an algorithm
//!
//! Call it `NAME`: lower case, at most 12 letters, since the kernel calls it `pp_NAME`. Copy
//! `cc/algs/scalable.c`, for a coupled one `cc/algs/lia.c`.
//!
//! 1. `cc/algs/NAME.c`; the build finds it by its name. In this order: licence line, essay (idea,
//!    source, differences), tunables with units, state, helpers, hooks, `PP_CC_REGISTER(NAME)`,
//!    `PP_CC_ABOUT(NAME)`. `cc/include/pp_cc.h` is the whole interface. `ssthresh`, `undo_cwnd` and
//!    one of `cong_avoid` and `cong_control` must be there, and the state has at most 88 bytes.
//!    `.flags` are of `enum pp_cc_flags`: `PP_CC_DRAWS` if it draws random numbers, `PP_CC_COUPLED`
//!    if it reads `c->siblings`. Leave `.counterpart` out where Linux has no such algorithm.
//! 2. `cc/vectors/NAME.json`, which a test asks for; `crates/vectors/src/lib.rs` has the format.
//!    Compute at least one window by hand from the paper's formula, in the case's `comment`.
//! 3. A property against the paper's formula in floating point, where there is one:
//!    `crates/cc/tests/growth.rs` (by losses), `delay.rs` (by the RTT), `formulas.rs` (coupled).
//! 4. `cargo test -p polypath-cc -p polypath-vectors`, and `cc/bpf/build.sh /tmp/bpf NAME` for BPF,
//!    which says where a hook that no sibling has needs an adapter.
//! 5. A line in `crates/sim/tests/known_bytes/scenarios.jsonl`, copied from `cc-scalable`.
//! 6. A row in `docs/concepts/congestion-control.md`. Where Linux has one of that name:
//!    `LINUX_ONLY` in `python/polypath/engines/_sim.py`, unless every kernel has it, and `SAME` in
//!    `tests/kernel/test_linux_congestion.py` if the windows must be the same.
//! 7. `make kernel`; as root `polypath cc check NAME` says whether this machine's kernel computes
//!    the same windows. If a table in `tests/data/reference` has runs of it, `polypath validate` on
//!    that table.
#![warn(missing_docs)]

pub mod custom;
#[expect(dead_code, reason = "LAYOUTS is read by build.rs, which includes this module too")]
mod mirror;

use std::ffi::c_char;
use std::fmt;
use std::ptr;

use mirror::{About, Ctx, Ops, PRIV_WORDS};
pub use mirror::{CaState, Event, Flow, MAX_SIBLINGS, SSTHRESH_INFINITE, Sample, Sibling, Siblings, ack_flags, compat};

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// What an algorithm wants of its transport; bits as in `enum pp_cc_flags`.
pub mod flags {
    /// Wants to see its siblings.
    pub const COUPLED: u32 = 1;
    /// Sets the pacing rate itself.
    pub const PACES: u32 = 2;
    /// Negotiates ECN whatever `tcp_ecn` says, and sends every packet as ECT (Linux:
    /// `TCP_CONG_NEEDS_ECN`).
    pub const NEEDS_ECN: u32 = 4;
    /// Replaces the transport's window rules by `cong_control`.
    pub const SEES_SAMPLES: u32 = 8;
    /// Looks at [`Flow::random`](crate::Flow).
    pub const DRAWS: u32 = 16;
    /// Sets [`Flow::reduce`](crate::Flow).
    pub const REDUCES: u32 = 32;
    /// Looks at [`Flow::ts_peer`](crate::Flow), which begins at a random value.
    pub const SEES_STAMPS: u32 = 64;
    /// With [`NEEDS_ECN`]: packets say ECT(1), the L4S identifier (RFC 9331 section 4.1).
    pub const ECT_1: u32 = 128;
    /// Every bit that means something.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) const ALL: u32 = COUPLED | PACES | NEEDS_ECN | SEES_SAMPLES | DRAWS | REDUCES | SEES_STAMPS | ECT_1;
}

/// A congestion-control algorithm.
#[derive(Copy, Clone)]
pub struct Algorithm(&'static Ops);

/// The signal from which an algorithm infers congestion.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Family {
    /// Losses and marks.
    Loss,
    /// The round-trip time.
    Delay,
    /// Both.
    Hybrid,
    /// A model of the path: its rate and its least round-trip time.
    Model,
}

impl Family {
    /// In the order of `enum pp_family`.
    const ALL: [Self; 4] = [Self::Loss, Self::Delay, Self::Hybrid, Self::Model];

    /// The word for it in lower case, as `polypath list cc` shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Delay => "delay",
            Self::Hybrid => "hybrid",
            Self::Model => "model",
        }
    }
}

/// What people want to know of an algorithm; what does not apply is empty.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmInfo {
    /// As the C file says in `PP_CC_ABOUT`.
    pub family: Family,
    /// Papers and standards, in one line.
    pub source: &'static str,
    /// What Linux calls its own of this kind.
    pub counterpart: &'static str,
    /// What else people call it, with spaces between.
    pub aliases: &'static str,
}

/// The text in an array of the C side, whose files are ASCII; texts of others were checked when
/// they were added.
fn text(chars: &'static [c_char]) -> &'static str {
    try_text(chars).expect("the C side's texts are UTF-8")
}

/// The text in an array of the C side, all of it if no NUL ends it; none if it is not in UTF-8.
pub fn try_text(chars: &[c_char]) -> Option<&str> {
    // SAFETY: `c_char` is a byte, whatever its sign.
    let bytes = unsafe { std::slice::from_raw_parts(chars.as_ptr().cast::<u8>(), chars.len()) };
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).ok()
}

/// Every algorithm of cc/algs, in the order of their names.
pub fn all() -> impl Iterator<Item = Algorithm> {
    REGISTRY.iter().map(|(ops, _)| Algorithm(ops))
}

/// The algorithm of this name, of cc/algs or added by [`custom::add`].
pub fn find(name: &str) -> Option<Algorithm> {
    all().chain(custom::all()).find(|algorithm| algorithm.name() == name)
}

impl Algorithm {
    /// At most 16 bytes, the name that [`find`] takes (Linux: `tcp_congestion_ops.name`).
    pub fn name(self) -> &'static str {
        text(&self.0.name)
    }

    /// What people want to know of it.
    pub fn info(self) -> AlgorithmInfo {
        let built_in = REGISTRY.iter().find(|(ops, _)| ptr::eq(*ops, self.0)).map(|(_, about)| *about);
        let about =
            built_in.or_else(|| custom::about(self.0)).expect("an algorithm comes from the registry, or was added and not replaced");
        AlgorithmInfo {
            family: Family::ALL.get(about.family as usize).copied().expect("a family of pp_cc.h"),
            source: text(&about.source),
            counterpart: text(&about.counterpart),
            aliases: text(&about.aliases),
        }
    }

    /// Bits of [`flags`].
    #[inline]
    pub const fn flags(self) -> u32 {
        self.0.flags & !custom::CUSTOM
    }

    /// Whether it was added by [`custom::add`], so that its author alone vouches for it.
    pub const fn is_custom(self) -> bool {
        self.0.flags & custom::CUSTOM != 0
    }

    /// Whether runs that differ in nothing but their random numbers differ by this algorithm: it
    /// draws, or sees what was drawn.
    pub const fn draws(self) -> bool {
        self.0.flags & (flags::DRAWS | flags::SEES_STAMPS) != 0
    }

    /// Bytes of private state that the algorithm uses.
    pub const fn private_bytes(self) -> usize {
        self.0.priv_bytes as usize
    }

    /// A controller for one flow; the transport calls [`Controller::init`] once the flow is
    /// established.
    pub const fn start(self) -> Controller {
        Controller { ops: self.0, private: [0; PRIV_WORDS] }
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Eq for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Algorithm({})", self.name())
    }
}

/// The congestion control of one flow or subflow: an algorithm and its private state.
#[derive(Clone, Debug)]
pub struct Controller {
    ops: &'static Ops,
    private: [u64; PRIV_WORDS],
}

impl Controller {
    /// The one whose [`Algorithm::start`] made this controller.
    #[inline]
    pub const fn algorithm(&self) -> Algorithm {
        Algorithm(self.ops)
    }

    /// Its algorithm's [`Algorithm::name`].
    pub fn name(&self) -> &'static str {
        self.algorithm().name()
    }

    /// Bits of [`flags`].
    #[inline]
    pub const fn flags(&self) -> u32 {
        self.algorithm().flags()
    }

    /// Whether `cong_control` replaces the transport's own window rules.
    #[inline]
    pub const fn has_cong_control(&self) -> bool {
        self.ops.cong_control.is_some()
    }

    /// Whether the algorithm says how many segments a burst has at least.
    #[inline]
    pub const fn has_min_tso_segs(&self) -> bool {
        self.ops.min_tso_segs.is_some()
    }

    /// Whether `pkts_acked` does anything.
    #[inline]
    pub const fn has_pkts_acked(&self) -> bool {
        self.ops.pkts_acked.is_some()
    }

    /// The first word of the private state, for [`Sibling::priv_word`].
    #[inline]
    pub const fn private_word(&self) -> u64 {
        self.private[0]
    }

    #[inline]
    fn ctx(&mut self, flow: &mut Flow, siblings: Option<&Siblings>) -> Ctx {
        Ctx { flow, priv_: self.private.as_mut_ptr().cast(), siblings: siblings.map_or(ptr::null(), ptr::from_ref) }
    }
}

/// A hook without a result; absent hooks do nothing.
macro_rules! hook {
    ($(#[$meta:meta])* $name:ident($($arg:ident: $ty:ty => $pass:expr),*)) => {
        $(#[$meta])*
        #[inline]
        pub fn $name(&mut self, flow: &mut Flow, siblings: Option<&Siblings> $(, $arg: $ty)*) {
            if let Some(hook) = self.ops.$name {
                let mut ctx = self.ctx(flow, siblings);
                // SAFETY: the pointers in `ctx` are valid for the call, which keeps none of them;
                // layouts are asserted by build.rs.
                custom::call(self.ops.flags, &self.ops.name, const { custom::number(stringify!($name)) }, || unsafe { hook(&raw mut ctx $(, $pass)*) })
            }
        }
    };
}

/// A hook with a result and what stands in for it if it is absent.
macro_rules! hook_with_result {
    ($(#[$meta:meta])* $name:ident or $default:expr) => {
        $(#[$meta])*
        #[inline]
        pub fn $name(&mut self, flow: &mut Flow, siblings: Option<&Siblings>) -> u32 {
            match self.ops.$name {
                Some(hook) => {
                    let mut ctx = self.ctx(flow, siblings);
                    // SAFETY: as in `hook!`.
                    custom::call(self.ops.flags, &self.ops.name, const { custom::number(stringify!($name)) }, || unsafe { hook(&raw mut ctx) })
                }
                None => $default(flow),
            }
        }
    };
}

impl Controller {
    hook! {
        /// The flow is established.
        init()
    }
    hook! {
        /// The flow ends.
        release()
    }
    hook_with_result! {
        /// The slow-start threshold after a loss or an ECN mark, segments.
        ssthresh or (|flow: &Flow| (flow.cwnd / 2).max(2))
    }
    hook! {
        /// `acked` segments were acknowledged while Open or Disorder.
        cong_avoid(ack: u32 => ack, acked: u32 => acked)
    }
    hook! {
        /// The congestion state is about to change; `flow.ca_state` still has the old one.
        set_state(state: CaState => u32::from(state as u8))
    }
    hook! {
        /// Tells of `event` (Linux: `tcp_ca_event`); [`Event::TxStart`] comes just before the
        /// segment leaves.
        cwnd_event(event: Event => event as u32)
    }
    hook! {
        /// An ACK came in; `flags` are bits of [`ack_flags`].
        in_ack_event(flags: u32 => flags)
    }
    hook! {
        /// An ACK newly acknowledged or sacked segments; rely on `rtt_us`, `pkts_acked` (which
        /// counts the cumulatively acknowledged alone) and `prior_delivered` of `sample` alone.
        pkts_acked(sample: &Sample => ptr::from_ref(sample))
    }
    hook_with_result! {
        /// The window to return to after a reduction that proved spurious, segments.
        undo_cwnd or (|flow: &Flow| flow.cwnd.max(flow.prior_cwnd))
    }
    hook! {
        /// An ACK was taken in: replaces the transport's window rules. `ack` is its number,
        /// `ack_flags` has bits of [`ack_flags`].
        cong_control(ack: u32 => ack, ack_flags: u32 => ack_flags, sample: &Sample => ptr::from_ref(sample))
    }
    hook_with_result! {
        /// Send buffer in windows.
        sndbuf_expand or (|_: &Flow| 2)
    }
    hook_with_result! {
        /// Fewest segments in one burst.
        min_tso_segs or (|_: &Flow| 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_found_by_its_name_and_has_the_required_hooks() {
        assert!(all().count() >= 1);
        for algorithm in all() {
            assert_eq!(find(algorithm.name()), Some(algorithm));
            assert!(algorithm.0.ssthresh.is_some() && algorithm.0.undo_cwnd.is_some(), "{algorithm:?}");
            assert!(algorithm.0.cong_avoid.is_some() || algorithm.0.cong_control.is_some(), "{algorithm:?}");
            assert!(algorithm.private_bytes() <= PRIV_WORDS * 8, "{algorithm:?}");
        }
        assert_eq!(find("no such thing"), None);
    }

    #[test]
    fn every_algorithm_says_where_it_comes_from() {
        for algorithm in all() {
            let info = algorithm.info();
            // Shorter than its array: a longer text would have been cut.
            assert!((5..100).contains(&info.source.len()), "{algorithm:?}: {info:?}");
            let words: Vec<&str> = info.aliases.split_whitespace().collect();
            assert!(words.iter().all(|alias| find(alias).is_none() && alias.to_lowercase() == **alias), "{algorithm:?}: {info:?}");
            assert!(info.aliases.len() < 48 && info.counterpart.len() < 16, "{algorithm:?}: {info:?}");
        }
        let reno = find("reno").expect("reno is always there").info();
        assert_eq!((reno.family, reno.family.name(), reno.source, reno.counterpart), (Family::Loss, "loss", "RFC 5681", "reno"));
    }

    #[test]
    fn siblings_hold_no_more_than_their_bound() {
        let mut siblings = Siblings::default();
        for index in 0..MAX_SIBLINGS {
            assert_eq!(siblings.push(Sibling::default()), Some(index));
        }
        assert_eq!(siblings.push(Sibling::default()), None);
        siblings.set_own(3);
        assert_eq!((siblings.own(), siblings.as_slice().len()), (3, MAX_SIBLINGS));
        siblings.clear();
        assert!(siblings.as_slice().is_empty());
    }
}
