//! Algorithms that were compiled later: shared objects, each of one C file with the headers of
//! cc/include and of [`ABI_SOURCE`]. Congestion controls, and what else has a [`Table`].
//!
//! An object is checked before it is used, and stays for the life of the process. Nothing here
//! compiles.

#[cfg(not(target_family = "wasm"))]
mod elf;
#[cfg(not(target_family = "wasm"))]
mod load;
mod watch;

use std::ffi::c_char;
use std::fmt::Debug;
use std::mem;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

#[cfg(not(target_family = "wasm"))]
pub use elf::{Contents, contents};
#[cfg(not(target_family = "wasm"))]
pub use load::{ABI_SOURCE, Hooks, add, declare, declare_table, hold, hold_table, load, load_tables, opened, read};
pub use watch::{CUSTOM, Call, Watch, call, number, watch};

use super::mirror::{About, Ops};
use super::{Algorithm, REGISTRY, try_text};
#[cfg(not(target_family = "wasm"))]
use super::{Family, flags, mirror::STATE_BYTES};

/// The ops table of one kind of algorithm.
///
/// # Safety
///
/// It is a structure of the C side: numbers and texts up to [`Table::HOOKS`], then optional
/// functions alone. `About` has numbers and texts alone.
pub unsafe trait Table: Copy + Debug + Sync + 'static {
    /// Facts for people.
    type About: Debug + Sync + 'static;
    /// What stands before a file's name in the symbols of table and facts, and the macros that
    /// define these.
    const SYMBOLS: [(&'static str, &'static str); 2];
    /// The word for one of this kind.
    const WORD: &'static str;
    /// Where the first hook lies.
    const HOOKS: usize;

    /// Those that were added, in the order of their names.
    fn added() -> &'static Added<Self>;
    /// Whether Polypath has one of this name itself.
    fn is_built_in(name: &str) -> bool;
    /// Its name, as the C side has it.
    fn name(&self) -> &[c_char; 16];
    /// Its flags.
    fn flags(&mut self) -> &mut u32;
    /// A hook is there that each must have; without it none is loaded.
    fn is_loaded(&self) -> bool;
    /// What the compiler cannot see in the tables of a file, its name apart.
    #[cfg(not(target_family = "wasm"))]
    fn check(&self, about: &Self::About, hooks: &Hooks<'_>) -> Result<(), String>;
}

/// A list of algorithms of one kind that were added.
#[derive(Debug)]
pub struct Added<T: Table>(RwLock<Vec<One<T>>>);

/// An algorithm that was added.
#[derive(Debug)]
struct One<T: Table> {
    /// Without hooks until it is loaded.
    ops: &'static T,
    about: &'static T::About,
    /// The shared object.
    #[cfg(not(target_family = "wasm"))]
    object: &'static [u8],
}

impl<T: Table> Added<T> {
    /// An empty list.
    #[expect(clippy::new_without_default, reason = "a list is a static, which has no other way to begin")]
    pub const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    /// Tables and facts, in the order of their names.
    pub fn all(&self) -> Vec<(&'static T, &'static T::About)> {
        self.read().iter().map(|each| (each.ops, each.about)).collect()
    }

    /// The table of this name, and the facts.
    pub fn find(&self, name: &str) -> Option<(&'static T, &'static T::About)> {
        self.read().iter().find(|each| try_text(each.ops.name()) == Some(name)).map(|each| (each.ops, each.about))
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<One<T>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) static ADDED: Added<Ops> = Added::new();

/// The algorithms that were added, in the order of their names.
pub fn all() -> Vec<Algorithm> {
    ADDED.all().into_iter().map(|(ops, _)| Algorithm(ops)).collect()
}

/// What was said about an algorithm when it was added.
pub(super) fn about(ops: &'static Ops) -> Option<&'static About> {
    ADDED.all().into_iter().find(|(each, _)| std::ptr::eq(*each, ops)).map(|(_, about)| about)
}

// SAFETY: build.rs has the C compiler assert the layouts of both.
unsafe impl Table for Ops {
    type About = About;
    const SYMBOLS: [(&'static str, &'static str); 2] = [("pp_cc_", "PP_CC_REGISTER"), ("pp_about_", "PP_CC_ABOUT")];
    const WORD: &'static str = "an algorithm";
    const HOOKS: usize = mem::offset_of!(Ops, init);

    fn added() -> &'static Added<Self> {
        &ADDED
    }

    fn is_built_in(name: &str) -> bool {
        REGISTRY.iter().any(|(ops, _)| Algorithm(ops).name() == name)
    }

    fn name(&self) -> &[c_char; 16] {
        &self.name
    }

    fn flags(&mut self) -> &mut u32 {
        &mut self.flags
    }

    fn is_loaded(&self) -> bool {
        self.ssthresh.is_some()
    }

    #[cfg(not(target_family = "wasm"))]
    fn check(&self, about: &About, hooks: &Hooks<'_>) -> Result<(), String> {
        let needed = [
            (hooks.has(mem::offset_of!(Ops, ssthresh)), "ssthresh"),
            (hooks.has(mem::offset_of!(Ops, undo_cwnd)), "undo_cwnd"),
            (hooks.has(mem::offset_of!(Ops, cong_avoid)) || hooks.has(mem::offset_of!(Ops, cong_control)), "cong_avoid (or cong_control)"),
        ];
        if let Some((_, hook)) = needed.iter().find(|(there, _)| !there) {
            return Err(format!("its ops table lacks the hook {hook}, which every algorithm needs"));
        }
        if self.priv_bytes as usize > STATE_BYTES {
            return Err(format!("its state has {} bytes; at most {STATE_BYTES} fit into a socket", self.priv_bytes));
        }
        if self.flags & !flags::ALL != 0 {
            return Err(format!(".flags in its ops table is {}, which is none of enum pp_cc_flags", self.flags));
        }
        if about.family as usize >= Family::ALL.len() {
            return Err(format!(".family is {}, which is none of enum pp_family", about.family));
        }
        let texts: [(&[_], &str); 3] = [(&about.source, "source"), (&about.counterpart, "counterpart"), (&about.aliases, "aliases")];
        match texts.iter().find(|(text, _)| try_text(text).is_none()) {
            Some((_, field)) => Err(format!(".{field} in its facts is not in UTF-8")),
            None => Ok(()),
        }
    }
}
