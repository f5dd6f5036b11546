//! When new data may leave: parts that a socket asks and tells, none of which knows the sender.

mod cwnd_validation;
mod nagle;
mod pacer;
mod tso_deferral;

pub(super) use cwnd_validation::{CwndValidation, Flight};
pub(super) use nagle::Nagle;
pub(super) use pacer::Pacer;
pub(super) use tso_deferral::{Deferral, NextBurst, deferral};
