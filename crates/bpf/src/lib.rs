//! Loads the congestion-control algorithms of cc/ into the running kernel, as BPF struct_ops named
//! `pp_<algorithm>`, and says who uses them.
//!
//! What is loaded is known from the kernel alone: nothing is kept in files and no sysctl is
//! changed, so a process that is killed leaves nothing to restore. [`load`] registers an algorithm
//! until [`unload`]; [`acquire`] for as long as the process lives, which the kernel itself sees to.
//! [`check`] runs the scripted flows of cc/vectors, and random ones, in the kernel and in the
//! simulator's build and compares the windows.
//!
//! Start at `registry`, which loads what `sources` has with `kernel`; `registrations` and `status`
//! say what is there, `capabilities` what a kernel can do, `check` and `drive` call hooks in it.
//!
//! Everything that talks to the kernel is behind the feature `load`; without it only the judgement
//! on what a kernel can do is built.

mod capabilities;

#[cfg(feature = "load")]
mod check;
#[cfg(feature = "load")]
mod drive;
#[cfg(feature = "load")]
mod kernel;
#[cfg(feature = "load")]
mod registrations;
#[cfg(feature = "load")]
mod registry;
#[cfg(feature = "load")]
mod sources;
#[cfg(feature = "load")]
mod status;

pub use capabilities::{Access, KernelCapabilities, PREFIX, algorithm, kernel_name, unsupported_reason};
pub use polypath_base::{Error, ErrorKind};

#[cfg(feature = "load")]
pub use check::{Agreement, check};
#[cfg(feature = "load")]
pub use registry::{Acquired, acquire, load, unload};
#[cfg(feature = "load")]
pub use sources::add;
#[cfg(feature = "load")]
pub use status::{Status, status};
