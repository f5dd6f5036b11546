//! A run of the host engine: this machine's kernel as the endpoints, the emulator's links between
//! them, real time.
//!
//! One process has the network, the links and the flows, and its namespaces have no names: whatever
//! ends it, the kernel takes all of it away.

use crate::setup::{Namespaces, Workers, links};
use crate::spec::Spec;
use crate::status::{DirectionStatus, Series};
use polypath_base::Duration;
use polypath_base::Error;
use polypath_guest::plan::Plan;
use polypath_guest::records::RunResult;
use polypath_guest::sys::monotonic;
use polypath_guest::{Network, run_in};
use polypath_io::{Clock, Signals, bind_to_parent};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What settles after the set-up (carriers, threads) has this long.
const SETTLING_NS: u64 = 100_000_000;
/// A process that was told to end has this status, as shells have it: 128 and SIGTERM.
const TERMINATED: i32 = 143;

/// A run as plain data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The links, and the plan with its flows. Nothing is given a name.
    pub spec: Spec,
    /// Folder for samples and captures.
    pub results: PathBuf,
    /// Only builds everything, to see whether this machine can.
    #[serde(default)]
    pub rehearsal: bool,
}

#[derive(Debug, Default, Serialize)]
struct Ran {
    result: RunResult,
    directions: Vec<DirectionStatus>,
    series: Vec<Series>,
    /// Processor time that carrying packets took, ns.
    cpu_ns: u64,
}

/// Carries the run out; what came of it as JSON. To be called where no other threads run, in a
/// process of its own: a signal ends the process.
pub fn run(run: &RunSpec) -> Result<String, Error> {
    let signals = Signals::hold()?;
    if run.spec.with_parent {
        bind_to_parent()?;
    }
    let watch = std::thread::Builder::new().spawn(move || {
        while !signals.wait(Duration::from_secs(3600)) {}
        std::process::exit(TERMINATED);
    });
    watch.map_err(|e| Error::machine(format!("starting a thread: {e}")))?;
    // The thread that builds the network and samples the sockets moves about the namespaces.
    let ran = std::thread::scope(|scope| scope.spawn(|| carry_out(run)).join());
    let ran = ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    serde_json::to_string(&ran).map_err(|e| Error::machine(format!("the result cannot be written: {e}")))
}

fn carry_out(run: &RunSpec) -> Result<Ran, Error> {
    let plan: &Plan = &run.spec.plan;
    let network = Network::build(plan)?;
    let links = links(&run.spec, &Namespaces::of(&network)?)?;
    if run.rehearsal {
        return Ok(Ran::default());
    }
    let mut workers = None;
    let result = run_in(network, plan, &run.results, || {
        let clock = Clock::starting_at(monotonic() + SETTLING_NS);
        let sampling = Duration::from_nanos(plan.sample_ns);
        let started = workers.insert(Workers::start_at(&run.spec, links, clock, Some(sampling))?);
        Ok(started.clock.origin_ns())
    });
    let Some(workers) = workers else { return Ok(Ran { result, ..Ran::default() }) };
    if workers.broken() {
        return Err(Error::machine("a thread of the emulator failed, which is a bug in it"));
    }
    let cpu_ns = workers.cpu_ns();
    let (directions, series) = workers.end();
    Ok(Ran { result, directions, series, cpu_ns })
}
