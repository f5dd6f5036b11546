//! The crate's tests from outside, as one program: each of its own would compile and link the
//! crate's code again.

mod aqm;
mod captures;
mod mtu_goal;
mod scenarios;
mod schedulers;
mod steps;
mod traffic;
mod tunnel;
