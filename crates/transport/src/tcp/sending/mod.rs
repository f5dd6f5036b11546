//! When new data may leave: parts that a socket asks and tells, none of which knows the socket.

mod cwnd_validation;
mod handshake;
mod nagle;
mod pacer;
mod persist;

pub(super) use cwnd_validation::{CwndValidation, Flight, Window};
pub(super) use handshake::Handshake;
pub(super) use nagle::Nagle;
pub(super) use pacer::Pacer;
pub(super) use persist::Persist;
