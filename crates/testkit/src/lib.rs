//! Scripts of packets: one endpoint against a script of lines, in virtual time.
//!
//! A script ([`script`], `tests/scripts/README.md`) injects packets, expects packets and calls the
//! kernel as a program does, each at its time, in the notation of packetdrill. [`parse()`] reads it
//! and [`run()`] plays it against an [`Endpoint`]: [`ours::Host`], on the endpoints of
//! `polypath-transport`, or [`linux::Host`], on a real kernel behind a TUN device. Both see IP
//! packets alone, so neither can tell a script what the other could not.
//!
//! Nothing here reads a clock: on our endpoint time is an argument, on Linux it is the machine's
//! own, which is virtual.
//!
//! # Adding a script
//!
//! 1. `tests/scripts/NAME.pkt`; no list names it. The first lines say what it is about, and the
//!    clause or the note. Copy `tcp-handshake-active.pkt` or `mptcp-handshake-active.pkt`.
//! 2. `polypath linux script --engine linux tests/scripts/NAME.pkt`, and with `--kernel 6.1`, after
//!    `polypath linux build` of both: Linux decides what is right. Keep times off an edge, since
//!    two packets exactly a round trip apart differ by microseconds there. What one kernel alone
//!    does stands on lines `6.1:` or `6.12:` with the reason above them; a script about one kernel
//!    alone begins with `kernel 6.12`.
//! 3. `cargo test -p polypath-testkit --test scripts -- NAME`: our endpoint, as each of these
//!    kernels. Mend a difference, or state it by lines `ours:` and `linux:` with the reason above
//!    them.
//! 4. If it decides a value of the table of kernels (`cargo test -p polypath-testkit --test proofs
//!    -- --ignored --nocapture` lists which), name it there as the source, and write the page anew.
//!
//! What the language lacks: an option is a row of `notation::OPTIONS` with its bytes in `encode.rs`
//! and `decode.rs`; a call is a `script::Verb`, its words in `parse/call.rs`, and what it does in
//! `ours.rs` and `linux.rs`.
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
pub mod record;
mod run;
pub mod script;

pub use endpoint::{Endpoint, Sent};
pub use parse::{Fault, parse};
pub use record::record;
pub use run::run;
pub use script::Script;
