//! The simulator: virtual time, event queue, world, applications and probes.
#![forbid(unsafe_code)]

pub mod outcome;
pub mod scenario;

pub use outcome::Outcome;
pub use scenario::Scenario;
