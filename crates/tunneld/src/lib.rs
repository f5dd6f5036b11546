//! The tunnel daemon: packets between a TUN device and UDP sockets, one for each path.
//!
//! What a tunnel does is in the crate `tunnel`, which knows no sockets; what talks to the system is
//! in `io`. Here the two meet: a file is read ([`config`]), a device and sockets are made, one
//! thread carries packets out and one carries them in, and the third answers
//! `polypath-tunnel status`. What the network sends is read in [`encapsulation`] alone. Once all is
//! there the daemon gives up its rights (`rights`); what it needs of root's later a second process
//! does for it (`files`).
//!
//! Start at `daemon`. `core` is what the threads `outgoing` and `incoming` share, `signs` what both
//! send by themselves. On the way out a large packet is cut (`superpacket`), its SYN corrected
//! ([`mss`]), put into GRE and encrypted (`encryption`); on the way in the other way round.
//! `parity` has the bytes that bring lost packets back.
//! `control` and `status` answer, `import` reads MPT's files.
#![forbid(unsafe_code)]

pub mod config;
pub mod control;
mod core;
pub mod daemon;
pub mod encapsulation;
pub mod encryption;
mod files;
pub mod import;
mod incoming;
pub mod mss;
mod outgoing;
mod parity;
#[cfg(test)]
mod reference_test;
mod rights;
mod signs;
pub mod status;
pub mod superpacket;
