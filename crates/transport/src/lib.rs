//! TCP, MPTCP and UDP endpoints, sans-IO: no clock, socket, thread, file or global random numbers.
//!
//! An endpoint has four kinds of method: getters, `handle_*` inputs, application verbs and `poll_*`
//! outputs. After any input or verb, call `poll_transmit` until it returns `None`, then
//! `poll_timeout` for the time of the next `handle_timeout`.
//!
//! Start in `connection` (one transport behind one interface), then `tcp` and `mptcp`, whose heads
//! are maps; `stack` is the table of kernels, `settings` what a host sets.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod connection;
mod counters;
mod end;
#[cfg(test)]
mod harness;
mod limit_clock;
pub mod mptcp;
mod packets;
mod receive_buffer;
mod reorder_stats;
mod settings;
mod socket_error;
pub mod stack;
pub mod tcp;
mod timer_wheel;
pub mod udp;

pub use connection::Connection;
pub use counters::{Counters, Rejections};
pub use end::{End, SegmentSlot, Transmits};
pub use reorder_stats::ReorderStats;
pub use settings::{Device, Settings};
pub use socket_error::SocketError;
pub use stack::Stack;

use polypath_base::PathId;
use polypath_wire::Segment;

/// A segment to send, and the path to send it on.
#[derive(Copy, Clone, Debug)]
pub struct Transmit {
    /// Of a subflow its own; `PathId(0)` of plain TCP.
    pub path: PathId,
    /// Header, options and the length of the payload, which has no bytes here.
    pub segment: Segment,
}
