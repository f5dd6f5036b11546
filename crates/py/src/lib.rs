//! The Python module `polypath._native`: converts types and errors, and decides nothing.
//!
//! Runs of the simulator start here, those with custom algorithms in `apart`, confined by
//! `confine`; `done` is what comes back. `captures` reads captures, `emulator` and `sockets` talk
//! to the kernel, `columns` and `errors` are what Python sees.

#[cfg(target_os = "linux")]
mod apart;
mod captures;
mod columns;
#[cfg(target_os = "linux")]
mod confine;
mod done;
#[cfg(target_os = "linux")]
mod emulator;
mod errors;
mod own;
#[cfg(target_os = "linux")]
mod sockets;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use done::{Done, Of};
use errors::raised;
use polypath_sched::Scheduler;
use polypath_sim::{Error, Scenario};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Text of the outcome, series of the subflows and of the links, captures by file name.
type Simulated<'py> = (String, Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyDict>);

/// Simulates one scenario (JSON text) and gives back the outcome (JSON text) with the series of
/// subflows and of links, each a dictionary from a column's name to its NumPy type and its
/// little-endian bytes, and the pcapng files of its captures.
#[pyfunction]
fn simulate<'py>(py: Python<'py>, scenario: &str) -> PyResult<Simulated<'py>> {
    let scenario: Scenario = serde_json::from_str(scenario).map_err(unreadable)?;
    let done = py.detach(|| if has_own(&scenario) { apart(&scenario) } else { done(&scenario) }).map_err(raised)?;
    Ok((done.outcome.clone(), done.series(py, Of::SubflowSeries)?, done.series(py, Of::LinkSeries)?, done.captures(py)?))
}

fn done(scenario: &Scenario) -> Result<Done, Error> {
    checked(|| Done::of(scenario))?
}

/// Whether code of a person's own takes part.
fn has_own(scenario: &Scenario) -> bool {
    let cc = |flow: &polypath_sim::scenario::Flow| polypath_cc::find(flow.cc.as_ref()?).map(polypath_cc::Algorithm::is_custom);
    let scheduler = |flow: &polypath_sim::scenario::Flow| Scheduler::find(flow.mptcp.scheduler.as_ref()?).map(|s| s.is_custom());
    scenario.flows.iter().any(|flow| cc(flow) == Some(true) || scheduler(flow) == Some(true))
}

/// In a process of its own that can do nothing but compute.
fn apart(scenario: &Scenario) -> Result<Done, Error> {
    #[cfg(target_os = "linux")]
    {
        let own = || {
            // SAFETY: whatever the code does, it does in this process, which is confined and ends
            // with the run.
            unsafe {
                polypath_cc::custom::load()?;
                polypath_sched::custom::load()?;
            }
            done(scenario)
        };
        done::decoded(&apart::apart(|confined| done::encoded(confined.and_then(|()| own())))?)
    }
    #[cfg(not(target_os = "linux"))]
    Err(Error::machine("an algorithm of your own runs in a confined process, which only Linux has: run the study on Linux"))
}

/// What is wrong with a scenario (JSON text): the field at fault, from the scenario's root, and a
/// sentence; none: nothing.
///
/// With `simulated`, also what only the simulator has no model of.
#[pyfunction]
fn check(scenario: &str, simulated: bool) -> PyResult<Option<(Vec<String>, String)>> {
    let scenario: Scenario = serde_json::from_str(scenario).map_err(unreadable)?;
    let wrong = guarded(|| polypath_sim::check(&scenario, simulated))?.err();
    Ok(wrong.map(|error| (error.field().to_vec(), error.sentence().to_owned())))
}

/// Name, whether it is coupled over subflows, family, source, name of Linux's own, other names,
/// whether it draws random numbers, whether its packets say ECT(1).
type Algorithm = (&'static str, bool, &'static str, &'static str, &'static str, &'static str, bool, bool);

/// The congestion-control algorithms, sorted by name.
#[pyfunction]
fn algorithms() -> Vec<Algorithm> {
    let mut known: Vec<_> = polypath_cc::all().chain(polypath_cc::custom::all()).collect();
    known.sort_by_key(|algorithm| algorithm.name());
    known
        .into_iter()
        .map(|algorithm| {
            let (info, coupled) = (algorithm.info(), algorithm.flags() & polypath_cc::flags::COUPLED != 0);
            let (draws, l4s) = (algorithm.draws(), algorithm.flags() & polypath_cc::flags::ECT_1 != 0);
            (algorithm.name(), coupled, info.family.name(), info.source, info.counterpart, info.aliases, draws, l4s)
        })
        .collect()
}

/// Names of the schedulers, sorted, and what each does.
#[pyfunction]
fn schedulers() -> Vec<(String, String)> {
    let built_in = Scheduler::NAMES.into_iter().map(str::to_owned);
    let mut names: Vec<_> = built_in.chain(polypath_sched::custom::names()).collect();
    names.sort();
    names.into_iter().filter_map(|name| Scheduler::about(&name).map(|about| (name, about))).collect()
}

/// Names of the searches for a path's MTU, sorted, and what each does.
#[pyfunction]
fn mtu_searches() -> Vec<(&'static str, &'static str)> {
    polypath_pmtu::MtuSearch::NAMES.to_vec()
}

/// Names of the path managers, sorted, and what each does.
#[pyfunction]
fn path_managers() -> Vec<(&'static str, &'static str)> {
    polypath_transport::mptcp::PathManager::NAMES.to_vec()
}

/// The kernels that a host can have in the simulator: what a study calls them, and the exact
/// release.
#[pyfunction]
fn kernels() -> Vec<(&'static str, &'static str, u8, usize, u8)> {
    let facts = polypath_sim::KERNELS
        .map(|stack| (stack.name, stack.about, stack.mptcp_version.number(), stack.max_subflows, stack.mptcp_version.dss_len()));
    facts.to_vec()
}

/// The cases by which the simulator's speed is judged.
#[pyfunction]
fn bench_cases() -> Vec<&'static str> {
    polypath_sim::bench::CASES.to_vec()
}

/// Simulates a case: data packets delivered, events, and packets that came over a link, each link
/// counted. The caller holds the clock.
#[pyfunction]
fn bench_case(py: Python<'_>, name: &str) -> PyResult<(u64, u64, u64)> {
    let scenario = polypath_sim::bench::case(name).ok_or_else(|| raised(Error::caller(format!("there is no case \"{name}\""))))?;
    measured(py, &scenario)
}

/// As [`bench_case`], the case by which algorithms are compared.
#[pyfunction]
fn bench_algorithm(py: Python<'_>, name: &str) -> PyResult<(u64, u64, u64)> {
    measured(py, &polypath_sim::bench::case_of_algorithm(name))
}

fn measured(py: Python<'_>, scenario: &polypath_sim::Scenario) -> PyResult<(u64, u64, u64)> {
    let outcome = py.detach(|| guarded(|| polypath_sim::run(scenario)))?.map_err(raised)?;
    let transmissions = outcome.links.iter().map(|link| link.counters.packets).sum();
    Ok((outcome.delivered_packets, outcome.events, transmissions))
}

/// Turns over the event queue alone, with so many sources, so many times. The caller holds the
/// clock.
#[pyfunction]
fn bench_queue(py: Python<'_>, sources: u32, events: u64) -> PyResult<u64> {
    py.detach(|| guarded(|| polypath_sim::bench::turn_queue(sources, events)))
}

/// The release, and a fingerprint of the sources that decide a run's outcome: equal versions, equal
/// outcomes.
#[pyfunction]
const fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+", env!("POLYPATH_SOURCES"))
}

fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    checked(work).map_err(raised)
}

/// A panic below is a bug of this program; it must reach Python as an ordinary exception that names
/// it so.
fn checked<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| match panic.downcast::<Error>() {
        // Of a custom scheduler.
        Ok(error) => *error,
        Err(panic) => Error::machine(format!("the simulator failed, which is a bug in it: {}", message(panic.as_ref()))),
    })
}

fn unreadable(error: serde_json::Error) -> PyErr {
    raised(Error::caller(format!("the scenario cannot be read: {error}")))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(algorithms, module)?)?;
    module.add_function(wrap_pyfunction!(schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(mtu_searches, module)?)?;
    module.add_function(wrap_pyfunction!(path_managers, module)?)?;
    captures::add(module)?;
    columns::add(module)?;
    errors::add(module)?;
    module.add_function(wrap_pyfunction!(kernels, module)?)?;
    own::add(module)?;
    module.add_function(wrap_pyfunction!(bench_cases, module)?)?;
    module.add_function(wrap_pyfunction!(bench_case, module)?)?;
    module.add_function(wrap_pyfunction!(bench_algorithm, module)?)?;
    module.add_function(wrap_pyfunction!(bench_queue, module)?)?;
    #[cfg(target_os = "linux")]
    emulator::add(module)?;
    #[cfg(target_os = "linux")]
    sockets::add(module)?;
    module.add_function(wrap_pyfunction!(version, module)?)
}
