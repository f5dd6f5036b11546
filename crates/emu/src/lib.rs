//! The link emulator: the simulator's own link elements between network interfaces, in real time.
//!
//! A link joins two devices. What comes out of one is passed through the chain of elements of its direction, which says at once when the
//! packet leaves, and goes into the other when that time has come. The time at which a packet arrived is the kernel's time stamp and not
//! when the emulator came to read it, and whatever follows counts from the time at which a packet should have left and not from when it
//! did: being late is never passed on, but it is counted, and said.
//!
//! [`emulate`] builds the network of a plan, carries its links and gives the network up again; [`run()`] has flows run over them and measures
//! them, [`bench()`] measures how well the links are carried.
//! The emulator touches nothing but the namespaces that it makes itself.

#![forbid(unsafe_code)]

mod bench;
mod direction;
mod emulate;
mod frame_pool;
mod ip;
mod lateness;
mod link;
mod run;
mod setup;
mod spec;
mod status;
mod worker;

pub use bench::{BenchSpec, bench};
pub use emulate::emulate;
pub use run::{RunSpec, run};
pub use spec::Spec;

use std::fmt;

/// Removes the name of a namespace. An emulator that was killed leaves names behind. It is no error if there is no such name.
pub fn unname(name: &str) -> Result<(), EmuError> {
    Ok(polypath_io::Namespace::unname(name)?)
}

/// Why the emulator cannot go on, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmuError(pub String);

impl fmt::Display for EmuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EmuError {}

impl From<polypath_io::Failed> for EmuError {
    fn from(failed: polypath_io::Failed) -> Self {
        Self(failed.to_string())
    }
}

impl From<polypath_link::InvalidElement> for EmuError {
    fn from(error: polypath_link::InvalidElement) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for EmuError {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}
