//! The link emulator: the simulator's own link elements between network interfaces, in real time.
//!
//! A link joins two devices. What comes out of one is passed through the chain of elements of its
//! direction, which says at once when the packet leaves, and goes into the other when that time has
//! come. The time at which a packet arrived is the kernel's time stamp and not when the emulator
//! came to read it, and whatever follows counts from the time at which a packet should have left
//! and not from when it did: being late is never passed on, but it is counted, and said.
//!
//! [`emulate`] builds the network of a plan, carries its links and gives the network up again;
//! [`run()`] has flows run over them and measures them, [`bench()`] measures how well the links are
//! carried. The emulator touches nothing but the namespaces that it makes itself.
//!
//! Start at `emulate` or `run`, which `setup` serves. `worker` is the thread that carries a `link`:
//! in each `direction` packets wait in a `frame_pool` for their time; `ip` is what is read of a
//! frame, and done to one. `spec` comes in, `status` and `lateness` go out.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

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

pub use polypath_base::{Error, ErrorKind};

pub use bench::{BenchSpec, bench};
pub use emulate::emulate;
pub use run::{RunSpec, run};
pub use spec::Spec;

/// Removes the name of a namespace. An emulator that was killed leaves names behind. It is no error
/// if there is no such name.
pub fn unname(name: &str) -> Result<(), Error> {
    Ok(polypath_io::Namespace::unname(name)?)
}
