//! The C side of a scheduler as Rust sees it, and those of cc/sched. cc/include/pp_sched.h has the
//! meaning of every field.

use std::ffi::{c_char, c_void};
use std::mem;

use polypath_cc::custom::{Added, Table};
#[cfg(not(target_family = "wasm"))]
use polypath_cc::{custom::Hooks, try_text};

use crate::view::{DataQueueView, PathView};

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// Names of the schedulers of cc/sched, sorted.
pub(crate) const BUILT_IN: [&str; NAMES.len()] = NAMES;

/// Bytes of private state: of a connection, of a subflow.
pub(crate) const STATE_BYTES: usize = 64;
pub(crate) const SUBFLOW_BYTES: usize = 16;
/// `pp_choice.bytes` of a buffer as a whole.
pub(crate) const WHOLE_BUFFER: u64 = u64::MAX;

/// Bits of `enum pp_sched_compat`.
pub(crate) mod compat {
    pub(crate) const ECF_OVERFLOWS: u32 = 1;
    pub(crate) const REDUNDANT_REPEATS: u32 = 2;
}

/// Bits of `enum pp_sched_flags`.
pub(crate) mod flags {
    pub(crate) const BURSTS: u32 = 1;
    pub(crate) const KEEPS_HEAD: u32 = 2;
    pub(crate) const NO_REINJECTION: u32 = 4;
    pub(crate) const WEIGHTS: u32 = 8;
    #[cfg(not(target_family = "wasm"))]
    pub(crate) const ALL: u32 = BURSTS | KEEPS_HEAD | NO_REINJECTION | WEIGHTS;
}

/// `struct pp_choice`.
#[derive(Copy, Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct RawChoice {
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    pub(crate) subflow: u32,
    reserved: u32,
}

impl RawChoice {
    pub(crate) fn new(from: u64, bytes: u64, subflow: u32) -> Self {
        Self { from, bytes, subflow, reserved: 0 }
    }
}

/// `struct pp_sched_ctx`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ctx {
    pub(crate) paths: *const PathView,
    pub(crate) queue: *const DataQueueView,
    pub(crate) priv_: *mut c_void,
    pub(crate) subflow_priv: *mut c_void,
    pub(crate) weights: *const u8,
    pub(crate) len: u32,
    pub(crate) compat: u32,
}

/// `struct pp_sched_ops`.
#[derive(Copy, Clone, Debug)]
#[repr(C)]
pub(crate) struct Ops {
    pub(crate) name: [c_char; 16],
    pub(crate) flags: u32,
    pub(crate) priv_bytes: u32,
    pub(crate) subflow_bytes: u32,
    pub(crate) reserved: u32,
    pub(crate) init: Option<unsafe extern "C" fn(*mut Ctx)>,
    pub(crate) pick: Option<unsafe extern "C" fn(*mut Ctx, *mut RawChoice) -> u32>,
    pub(crate) scheduled: Option<unsafe extern "C" fn(*mut Ctx, *const RawChoice, u64)>,
    pub(crate) blocked: Option<unsafe extern "C" fn(*mut Ctx)>,
}

/// `struct pp_sched_about`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct About {
    pub(crate) what: [c_char; 160],
}

/// A scheduler of cc/sched by its name.
pub(crate) fn built_in(name: &str) -> Option<(&'static Ops, &'static About)> {
    NAMES.iter().position(|each| *each == name).map(|i| REGISTRY[i])
}

/// Those that [`crate::custom`] added.
pub(crate) static ADDED: Added<Ops> = Added::new();

// SAFETY: a test compares the layouts of both with those of the C side.
unsafe impl Table for Ops {
    type About = About;
    const SYMBOLS: [(&'static str, &'static str); 2] = [("pp_sched_", "PP_SCHED_REGISTER"), ("pp_sched_about_", "PP_SCHED_ABOUT")];
    const WORD: &'static str = "a scheduler";
    const HOOKS: usize = mem::offset_of!(Ops, init);

    fn added() -> &'static Added<Self> {
        &ADDED
    }

    fn is_built_in(name: &str) -> bool {
        built_in(name).is_some()
    }

    fn name(&self) -> &[c_char; 16] {
        &self.name
    }

    fn flags(&mut self) -> &mut u32 {
        &mut self.flags
    }

    fn is_loaded(&self) -> bool {
        self.pick.is_some()
    }

    #[cfg(not(target_family = "wasm"))]
    fn check(&self, about: &About, hooks: &Hooks<'_>) -> Result<(), String> {
        if !hooks.has(mem::offset_of!(Ops, pick)) {
            return Err("its ops table lacks the hook pick, which every scheduler needs".to_owned());
        }
        let sizes = [(self.priv_bytes, STATE_BYTES, "state"), (self.subflow_bytes, SUBFLOW_BYTES, "state of a subflow")];
        if let Some((has, most, what)) = sizes.into_iter().find(|(has, most, _)| *has as usize > *most) {
            return Err(format!("its {what} has {has} bytes; at most {most} fit"));
        }
        if self.flags & !flags::ALL != 0 {
            return Err(format!(".flags in its ops table is {}, which is none of enum pp_sched_flags", self.flags));
        }
        try_text(&about.what).map(drop).ok_or_else(|| ".what in its facts is not in UTF-8".to_owned())
    }
}

unsafe extern "C" {
    /// See build.rs.
    pub(crate) fn pp_sched_reinjection(paths: *const PathView, len: u32, tried: u32) -> u32;
    pub(crate) fn pp_sched_share(path: *const PathView) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{FIELDS, LAYOUT_LEN};
    use std::mem::offset_of;

    unsafe extern "C" {
        safe static pp_sched_layout: [u32; LAYOUT_LEN];
    }

    /// What Rust sees of a structure: its size, then place and size of each field.
    macro_rules! layout {
        ($type:ty { $($field:ident: $kind:ty),+ $(,)? }) => {{
            // The kinds are those of the fields.
            let _ = |s: &$type| { $(let _: &$kind = &s.$field;)+ };
            vec![size_of::<$type>(), $(offset_of!($type, $field), size_of::<$kind>()),+]
        }};
    }

    #[test]
    fn structures_lie_as_the_c_compiler_lays_them() {
        use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, SmoothedRtt};
        let seen = [
            layout!(PathView {
                pacing_rate: Rate,
                mss: Bytes,
                unsent: Bytes,
                queued: Bytes,
                rttvar: Duration,
                srtt: SmoothedRtt,
                cwnd: Segments,
                in_flight: Segments,
                ssthresh: Segments,
                buffers: u32,
                burst: Segments,
                usable: bool,
                backup: bool,
                room: bool,
                in_loss: bool,
                wins_ties: bool,
            }),
            layout!(DataQueueView { una: DataSeq, next: DataSeq, end: DataSeq, window_end: DataSeq, now: Instant }),
            layout!(RawChoice { from: u64, bytes: u64, subflow: u32 }),
            layout!(Ctx {
                paths: *const PathView, queue: *const DataQueueView, priv_: *mut c_void, subflow_priv: *mut c_void, weights: *const u8,
                len: u32, compat: u32,
            }),
            layout!(Ops {
                name: [c_char; 16], flags: u32, priv_bytes: u32, subflow_bytes: u32, init: Option<unsafe extern "C" fn(*mut Ctx)>,
                pick: Option<unsafe extern "C" fn(*mut Ctx, *mut RawChoice) -> u32>,
                scheduled: Option<unsafe extern "C" fn(*mut Ctx, *const RawChoice, u64)>, blocked: Option<unsafe extern "C" fn(*mut Ctx)>,
            }),
            layout!(About { what: [c_char; 160] }),
        ];
        let mut there = pp_sched_layout.iter().map(|number| *number as usize);
        for ((name, fields), seen) in FIELDS.iter().zip(seen) {
            let c: Vec<usize> = there.by_ref().take(1 + 2 * fields.len()).collect();
            assert_eq!(seen, c, "struct {name} of pp_sched.h");
        }
    }
}
