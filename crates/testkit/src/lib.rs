//! Scripts of packets: one endpoint against a script of lines, in virtual time.
//!
//! A script ([`script`], `tests/scripts/README.md`) injects packets, expects packets and calls the kernel as a program does, each at its time,
//! in the notation of packetdrill. [`parse()`] reads it and [`run()`] plays it against an [`Endpoint`]: [`ours::Host`], on the endpoints of
//! `polypath-transport`, or [`linux::Host`], on a real kernel behind a TUN device. Both see IP packets alone, so neither can tell a script
//! what the other could not.
//!
//! Nothing here reads a clock: on our endpoint time is an argument, on Linux it is the machine's own, which is virtual.
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod endpoint;
pub mod info;
pub mod linux;
pub mod notation;
pub mod numbers;
pub mod ours;
mod parse;
mod run;
pub mod script;

pub use endpoint::{Endpoint, Sent};
pub use parse::{Fault, parse};
pub use run::run;
pub use script::Script;
