//! The crate's tests from outside, as one program: each of its own would compile and link the
//! crate's code again.

mod earliest;
mod fec;
mod mtu;
