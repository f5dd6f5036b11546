//! Schedulers that were compiled later: shared objects, each of one C file with the headers of
//! cc/include. [`polypath_cc::custom`] reads and maps them.

#[cfg(not(target_family = "wasm"))]
use std::path::Path;

use polypath_base::Error;
use polypath_cc::try_text;

use crate::ops::ADDED;
#[cfg(not(target_family = "wasm"))]
use crate::ops::Ops;
use crate::view::{Choice, DataQueueView, Limit, PathView};

/// Names of those that were added, sorted.
pub fn names() -> Vec<String> {
    ADDED.all().into_iter().filter_map(|(ops, _)| try_text(&ops.name).map(str::to_owned)).collect()
}

/// As [`polypath_cc::custom::hold_table`].
#[cfg(not(target_family = "wasm"))]
pub fn hold() -> impl Drop {
    polypath_cc::custom::hold_table::<Ops>()
}

/// Makes the scheduler of this name in a shared object known to [`crate::Scheduler::find`]; one
/// that was added under this name before is forgotten. Its hooks are there only after [`load`].
#[cfg(not(target_family = "wasm"))]
pub fn declare(object: &Path, name: &str) -> Result<(), Error> {
    polypath_cc::custom::declare_table::<Ops>(object, name).map(drop)
}

/// Maps all schedulers that were declared: from now on their hooks can be called.
///
/// # Safety
///
/// As of [`polypath_cc::custom::load_tables`].
#[cfg(not(target_family = "wasm"))]
pub unsafe fn load() -> Result<(), Error> {
    // SAFETY: the caller vouches for it.
    unsafe { polypath_cc::custom::load_tables::<Ops>() }
}

/// Ends the run if a custom scheduler chose what cannot be sent: the panic carries an [`Error`].
pub(crate) fn check(name: &str, choice: Choice, paths: &[PathView], queue: &DataQueueView) {
    let Choice { subflow, from, limit } = choice;
    let count = paths.len();
    let why = if subflow >= count {
        format!("it chose subflow {subflow}, and the connection has {count}: choose from 0 to {}", count.saturating_sub(1))
    } else if !paths[subflow].usable {
        format!("it chose subflow {subflow}, which cannot send: look at `usable` first")
    } else if from.before(queue.una) || !from.before(queue.end) || from.after(queue.next) {
        "choice->from is neither queue->next nor what was sent and not acknowledged".to_owned()
    } else if limit == Limit::Bytes(polypath_base::Bytes::ZERO) && queue.window_end.after(queue.next) {
        "it chose 0 bytes: return 0 to wait".to_owned()
    } else {
        return;
    };
    std::panic::panic_any(Error::caller(format!("{name}.c: its hook pick is wrong: {why}")));
}
