//! Schedulers that were compiled later: shared objects, each of one C file with the headers of
//! cc/include. As [`polypath_cc::custom`], which reads and maps them.

use std::sync::{PoisonError, RwLock};

use polypath_base::Error;

use crate::ops::{About, Ops, text};
use crate::view::{Choice, DataQueueView, Limit, PathView};

/// A scheduler that was added.
struct Added {
    /// Without hooks until it is loaded.
    ops: &'static Ops,
    about: &'static About,
    /// The shared object.
    #[cfg(not(target_family = "wasm"))]
    object: &'static [u8],
}

static ADDED: RwLock<Vec<Added>> = RwLock::new(Vec::new());

/// As [`polypath_cc::custom::hold`].
#[cfg(not(target_family = "wasm"))]
pub fn hold() -> impl Drop {
    ADDED.write().unwrap_or_else(PoisonError::into_inner)
}

/// Names of those that were added, sorted.
pub fn names() -> Vec<String> {
    ADDED.read().unwrap_or_else(PoisonError::into_inner).iter().filter_map(|each| text(&each.ops.name)).collect()
}

pub(crate) fn find(name: &str) -> Option<(&'static Ops, &'static About)> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    added.iter().find(|each| text(&each.ops.name).as_deref() == Some(name)).map(|each| (each.ops, each.about))
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

#[cfg(not(target_family = "wasm"))]
mod load {
    use std::path::Path;
    use std::sync::PoisonError;
    use std::{mem, ptr};

    use polypath_base::Error;
    use polypath_cc::custom::{CUSTOM, Image, checked, leaked, mapped};

    use super::{ADDED, Added};
    use crate::ops::{About, Ops, STATE_BYTES, SUBFLOW_BYTES, built_in, flags, text};

    /// Makes the scheduler of this name in a shared object known to [`crate::Scheduler::find`]; one
    /// that was added under this name before is forgotten. Its hooks are there only after [`load`].
    pub fn declare(object: &Path, name: &str) -> Result<(), Error> {
        let refused = |why: String| Error::caller(format!("{}: {why}", object.display()));
        if built_in(name).is_some() {
            return Err(refused(format!("there is a scheduler {name} in Polypath already: choose another name")));
        }
        let (bytes, image) = checked(object)?;
        let missing = |symbol: &str| refused(format!("it has no {symbol}({name})"));
        let at = image.place(&format!("pp_sched_{name}"), size_of::<Ops>()).ok_or_else(|| missing("PP_SCHED_REGISTER"))?;
        let facts = image.place(&format!("pp_sched_about_{name}"), size_of::<About>()).ok_or_else(|| missing("PP_SCHED_ABOUT"))?;
        // SAFETY: `place` found so many bytes there, and `About` is a text, which any bits are.
        let about = leaked(unsafe { ptr::read_unaligned(image.bytes[facts..].as_ptr().cast::<About>()) });
        let said = declared(&image, at);
        sensible(&said, about, &image, at, name).map_err(refused)?;
        let ops = leaked(Ops { flags: said.flags | CUSTOM, ..said });
        let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
        added.retain(|each| text(&each.ops.name).as_deref() != Some(name));
        added.push(Added { ops, about, object: bytes });
        added.sort_by_key(|each| text(&each.ops.name));
        Ok(())
    }

    /// Maps all schedulers that were declared: from now on their hooks can be called.
    ///
    /// # Safety
    ///
    /// Their code runs in this process when a hook is called. It must keep the contract of
    /// cc/include/pp_sched.h.
    pub unsafe fn load() -> Result<(), Error> {
        let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
        for each in added.iter_mut().filter(|each| each.ops.pick.is_none()) {
            let name = text(&each.ops.name).expect("it was declared by its name");
            let failed = |why: String| Error::machine(format!("the scheduler {name} cannot be loaded: {why}"));
            let image = Image::of(each.object).map_err(failed)?;
            let at =
                image.place(&format!("pp_sched_{name}"), size_of::<Ops>()).ok_or_else(|| failed("it is another than before".to_owned()))?;
            let base = mapped(image).map_err(|error| failed(error.to_string()))?;
            // SAFETY: `place` found an `Ops` there, of the layout that `pp_abi` vouches for, and
            // `mapped` wrote the addresses of its hooks. The mapping is never undone.
            let ops = unsafe { base.add(at).cast::<Ops>().read_unaligned() };
            each.ops = leaked(Ops { flags: ops.flags | CUSTOM, ..ops });
        }
        Ok(())
    }

    /// The table with everything but its hooks.
    fn declared(image: &Image, at: usize) -> Ops {
        // SAFETY: all bits zero are an `Ops`: no hook, no name.
        let mut ops: Ops = unsafe { mem::zeroed() };
        let word = |offset: usize| u32::from_le_bytes(image.bytes[at + offset..][..4].try_into().expect("four bytes"));
        for (letter, byte) in ops.name.iter_mut().zip(&image.bytes[at + mem::offset_of!(Ops, name)..]) {
            *letter = *byte as _;
        }
        ops.flags = word(mem::offset_of!(Ops, flags));
        ops.priv_bytes = word(mem::offset_of!(Ops, priv_bytes));
        ops.subflow_bytes = word(mem::offset_of!(Ops, subflow_bytes));
        ops
    }

    /// What the compiler cannot see in the tables of a file.
    fn sensible(ops: &Ops, about: &About, image: &Image, at: usize, name: &str) -> Result<(), String> {
        let said = text(&ops.name).ok_or("the name in its ops table is not in UTF-8")?;
        if said != name {
            return Err(format!(".name in its ops table is \"{said}\": write \"{name}\", as the file is called"));
        }
        if image.bytes[at + mem::offset_of!(Ops, pick)..][..8] == [0; 8] {
            return Err("its ops table lacks the hook pick, which every scheduler needs".to_owned());
        }
        let sizes = [(ops.priv_bytes, STATE_BYTES, "state"), (ops.subflow_bytes, SUBFLOW_BYTES, "state of a subflow")];
        if let Some((has, most, what)) = sizes.into_iter().find(|(has, most, _)| *has as usize > *most) {
            return Err(format!("its {what} has {has} bytes; at most {most} fit"));
        }
        if ops.flags & !flags::ALL != 0 {
            return Err(format!(".flags in its ops table is {}, which is none of enum pp_sched_flags", ops.flags));
        }
        text(&about.what).map(drop).ok_or_else(|| ".what in its facts is not in UTF-8".to_owned())
    }
}

#[cfg(not(target_family = "wasm"))]
pub use load::{declare, load};
