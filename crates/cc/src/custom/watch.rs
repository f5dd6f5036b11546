//! Which hook of an added algorithm runs: a process that runs one writes here, and its parent knows
//! what crashed or hung.
//!
//! Only hooks of added algorithms and schedulers are told, since only they are marked ([`CUSTOM`]).

use std::ffi::c_char;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A bit of an added algorithm's or scheduler's flags, beside those that its file can set.
pub const CUSTOM: u32 = 1 << 31;

/// The hooks of algorithms and of schedulers, in the order of the ops tables.
const HOOKS: [&str; 15] = [
    "init",
    "release",
    "ssthresh",
    "cong_avoid",
    "set_state",
    "cwnd_event",
    "in_ack_event",
    "pkts_acked",
    "undo_cwnd",
    "cong_control",
    "sndbuf_expand",
    "min_tso_segs",
    "pick",
    "scheduled",
    "blocked",
];

/// What an added algorithm does now. All bits zero: nothing yet. It has no pointers, so that it may
/// lie in memory that processes share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Watch {
    /// Beginnings and ends of calls: odd while a call runs.
    changes: AtomicU64,
    hook: AtomicU32,
    /// The algorithm's name, as its ops table has it.
    name: [AtomicU64; 2],
}

/// A call of a hook. No two are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    changes: u64,
    /// The algorithm's name.
    pub algorithm: String,
    /// As in the ops table.
    pub hook: &'static str,
    /// Whether it has ended.
    pub ended: bool,
}

impl Watch {
    /// The last call that began; none: none did.
    pub fn last(&self) -> Option<Call> {
        let changes = self.changes.load(Ordering::Acquire);
        let bytes: Vec<u8> =
            self.name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).take_while(|byte| *byte != 0).collect();
        let hook = *HOOKS.get(self.hook.load(Ordering::Relaxed) as usize)?;
        let call = Call { changes, algorithm: String::from_utf8_lossy(&bytes).into_owned(), hook, ended: changes % 2 == 0 };
        (changes > 0).then_some(call)
    }
}

static WATCH: AtomicPtr<Watch> = AtomicPtr::new(ptr::null_mut());

/// From now on all calls of hooks of added algorithms in this process are told here. Meant for a
/// process that runs one thing at a time.
pub fn watch(by: &'static Watch) {
    WATCH.store(ptr::from_ref(by).cast_mut(), Ordering::Release);
}

/// The place of a hook in [`HOOKS`].
pub const fn number(hook: &str) -> u32 {
    let mut number = 0;
    while number < HOOKS.len() {
        if same(HOOKS[number].as_bytes(), hook.as_bytes()) {
            return number as u32;
        }
        number += 1;
    }
    panic!("HOOKS lists every hook")
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Calls a hook of an ops table with these flags and this name; what an added one does is told.
#[inline]
pub fn call<T>(flags: u32, name: &[c_char; 16], hook: u32, call: impl FnOnce() -> T) -> T {
    // One place that calls: it is in line wherever a hook is.
    let is_watched = flags & CUSTOM != 0;
    if is_watched {
        began(name, hook);
    }
    let result = call();
    if is_watched {
        ended();
    }
    result
}

#[cold]
fn began(name: &[c_char; 16], hook: u32) {
    // SAFETY: `watch` stored a reference that lives as long as the process, or it was not called.
    let Some(watch) = (unsafe { WATCH.load(Ordering::Acquire).as_ref() }) else { return };
    let bytes = name.map(|char| char as u8);
    for (word, bytes) in watch.name.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_ne_bytes(bytes.try_into().expect("chunks of 8 bytes")), Ordering::Relaxed);
    }
    watch.hook.store(hook, Ordering::Relaxed);
    watch.changes.fetch_add(1, Ordering::Release);
}

#[cold]
fn ended() {
    // SAFETY: as in `began`.
    if let Some(watch) = unsafe { WATCH.load(Ordering::Acquire).as_ref() } {
        watch.changes.fetch_add(1, Ordering::Release);
    }
}
