//! Algorithms that were compiled later: shared objects, each of one C file with the headers of
//! cc/include and of [`ABI_SOURCE`].
//!
//! An object is checked before it is used, and stays for the life of the process. Nothing here
//! compiles.

#[cfg(not(target_family = "wasm"))]
mod elf;
#[cfg(not(target_family = "wasm"))]
mod load;
mod watch;

use std::sync::{PoisonError, RwLock};

#[cfg(not(target_family = "wasm"))]
pub use elf::{Contents, Image, contents};
#[cfg(not(target_family = "wasm"))]
pub use load::{ABI_SOURCE, add, checked, declare, leaked, load, mapped};
pub use watch::{CUSTOM, Call, Watch, call, number, watch};

use super::Algorithm;
use super::mirror::{About, Ops};

/// An algorithm that was added.
struct Added {
    /// Without hooks until it is loaded.
    ops: &'static Ops,
    about: &'static About,
    /// The shared object.
    #[cfg(not(target_family = "wasm"))]
    object: &'static [u8],
}

static ADDED: RwLock<Vec<Added>> = RwLock::new(Vec::new());

/// While it lives, no other thread uses the list. A fork that is made meanwhile can use it in both
/// processes once this has been dropped in each: a lock that another thread held would stay locked
/// in the new process, where that thread is not.
#[cfg(not(target_family = "wasm"))]
pub fn hold() -> impl Drop {
    ADDED.write().unwrap_or_else(PoisonError::into_inner)
}

/// The algorithms that were added, in the order of their names.
pub fn all() -> Vec<Algorithm> {
    ADDED.read().unwrap_or_else(PoisonError::into_inner).iter().map(|each| Algorithm(each.ops)).collect()
}

/// What was said about an algorithm when it was added.
pub(super) fn about(ops: &'static Ops) -> Option<&'static About> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    added.iter().find(|each| std::ptr::eq(each.ops, ops)).map(|each| each.about)
}
