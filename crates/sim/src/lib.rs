//! The simulator: virtual time, event queue, world, applications and probes.
//!
//! [`run`] takes a [`Scenario`] and gives back an [`Outcome`]; the same scenario always gives the
//! same outcome. Nothing here reads a clock, a file or the environment.
//!
//! Start at `world`, the event path: `queue` says what is next, `data_plane` moves packets
//! (`packet`) through pipes, `routes` and `nodes` (`fragments`, `tunnel`) to the endpoints of
//! `flow`s. `build` makes a world of a `scenario` (`topology`, `network`, `sockets`, `sysctl`,
//! `tunnels`), and `check` only asks whether it could. `probe`, `delays`, `traffic` and `capture`
//! measure, `outcome` is what comes out.
#![forbid(unsafe_code)]

pub mod bench;
mod build;
mod capture;
mod check;
mod data_plane;
mod delays;
mod digest;
mod flow;
mod fragments;
mod network;
mod nodes;
pub mod outcome;
mod packet;
mod probe;
pub mod queue;
mod routes;
mod run;
pub mod scenario;
mod sockets;
mod sysctl;
#[cfg(test)]
mod through_bytes;
#[cfg(test)]
mod through_bytes_test;
mod topology;
mod traffic;
mod tunnel;
mod tunnels;
mod world;

pub use check::check;
pub use digest::Digest;
pub use outcome::{CaptureFile, Outcome};
pub use polypath_base::{Error, ErrorKind};
pub use polypath_transport::stack::STACKS as KERNELS;
pub use run::Run;
pub use scenario::Scenario;
pub use sysctl::settings;

/// Simulates a scenario.
pub fn run(scenario: &Scenario) -> Result<Outcome, Error> {
    Ok(run_captured(scenario)?.0)
}

/// Simulates a scenario; with the packets of each of its captures, in their order.
pub fn run_captured(scenario: &Scenario) -> Result<(Outcome, Vec<CaptureFile>), Error> {
    let mut run = Run::new(scenario)?;
    run.advance(scenario.duration);
    Ok(run.finish())
}
