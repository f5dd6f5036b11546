//! Carries out a plan: builds the network, starts the flows, samples everything at the times that
//! the plan says, ends in time.
//!
//! One thread follows the clock and never waits for a flow, so that a run ends when it has to
//! whatever the flows do.

use crate::address::ip;
use crate::capture::Tap;
use crate::flow;
use crate::network::Network;
use crate::out_of_tree;
use crate::plan::{Change, Endpoint, Plan};
use crate::progress::{self, MILLISECOND, POLL_INTERVAL, Progress, lock};
use crate::records::RunResult;
use crate::sample::{Queues, Sockets};
use crate::stream;
use crate::sys::{self, Error, Outcome};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Runs start here on the machine's clock, or at a later multiple of `ALIGNMENT`: whatever the
/// set-up took, timers tick alike.
const START: u64 = 1_000 * MILLISECOND;
const ALIGNMENT: u64 = 100 * MILLISECOND;
/// What settles after the set-up (carrier, work queues) has this long.
const SETTLING: u64 = 100 * MILLISECOND;

/// Builds the network of a plan in a machine of virtual time, runs the plan in it and writes its
/// results into a folder. An error ends up in the result, too.
pub fn run(plan: &Plan, results: &Path) -> RunResult {
    noted(|result| {
        check(plan)?;
        let began = sys::monotonic();
        // Sleeps of this thread, and of those that it starts, end exactly when they should.
        sys::timer_slack(1);
        out_of_tree::set_machine(Path::new("/"), &plan.machine)?;
        let begin = || Ok((sys::monotonic() + SETTLING).next_multiple_of(ALIGNMENT).max(START));
        carry_out(plan, Network::build(plan)?, results, result, Time { began, begin, is_real: false })
    })
}

/// Runs a plan in its network in real time. Once all is ready, `begin` says when the run starts, on
/// CLOCK_MONOTONIC. The calling thread is in one of the network's namespaces afterwards.
pub fn run_in(network: Network, plan: &Plan, results: &Path, begin: impl FnOnce() -> Outcome<u64>) -> RunResult {
    noted(|result| {
        check(plan)?;
        let began = sys::monotonic();
        sys::timer_slack(1);
        carry_out(plan, network, results, result, Time { began, begin, is_real: true })
    })
}

/// How a run's time goes by.
struct Time<F> {
    /// When the set-up began.
    began: u64,
    begin: F,
    /// What is polled at some time is seen a little later.
    is_real: bool,
}

fn noted(work: impl FnOnce(&mut RunResult) -> Outcome<()>) -> RunResult {
    let mut result = RunResult { kernel: sys::kernel_release(), ..RunResult::default() };
    if let Err(wrong) = work(&mut result) {
        result.fail(&wrong);
    }
    result
}

fn carry_out(
    plan: &Plan,
    mut network: Network,
    results: &Path,
    result: &mut RunResult,
    time: Time<impl FnOnce() -> Outcome<u64>>,
) -> Outcome<()> {
    let is_real = time.is_real;
    let (mut running, origin) = Running::start(plan, &mut network, results, result, time)?;
    running.follow(plan, origin, is_real, &mut network, result)?;
    running.collect(plan, &mut network, results, result)
}

/// A run that is going on.
struct Running {
    captures: Vec<Tap>,
    queues: Queues,
    sockets: Arc<Mutex<Sockets>>,
    flows: Vec<Arc<Mutex<Progress>>>,
    failure: Failure,
}

impl Running {
    /// Opens everything, and starts the flows once all is ready. Returns when the run begins, too.
    fn start(
        plan: &Plan,
        network: &mut Network,
        results: &Path,
        result: &mut RunResult,
        time: Time<impl FnOnce() -> Outcome<u64>>,
    ) -> Outcome<(Self, u64)> {
        let captures = plan.captures.iter().map(|c| Tap::open(c, network, results)).collect::<Outcome<Vec<_>>>()?;
        let queues = Queues::open(plan, network, results)?;
        let sockets = Arc::new(Mutex::new(Sockets::open(plan, network, results)?));
        let ready = flow::prepare(plan, network, results)?;
        let flows = ready.iter().map(|flow| flow.progress.clone()).collect();
        let origin = (time.begin)()?;
        result.setup_ns = origin.saturating_sub(time.began);
        let removals = Arc::new(Mutex::new(removals(plan, network)?));
        let failure = Failure::default();
        let chunk = stream::chunk();
        for (number, flow) in ready.into_iter().enumerate() {
            let (removals, failure, namespace) = (removals.clone(), failure.clone(), plan.flows[number].client.clone());
            flow.start(origin, &chunk, &sockets, move |connected| {
                if let Some(removal) = lock(&removals).remove(&namespace) {
                    removal.start(origin + connected, failure);
                }
            })?;
        }
        Ok((Self { captures, queues, sockets, flows, failure }, origin))
    }

    /// Does what the plan says at its times, until the run is over.
    fn follow(&mut self, plan: &Plan, origin: u64, is_real: bool, network: &mut Network, result: &mut RunResult) -> Outcome<()> {
        let mut clock = Clock { plan, origin, changes: &plan.changes, polled: 0 };
        loop {
            let (now, what) = clock.wait();
            let seen = if is_real { sys::monotonic().saturating_sub(origin) } else { now };
            result.late_ns = result.late_ns.max(seen.saturating_sub(now));
            match what {
                Due::Change(change) => network.change(change)?,
                Due::Poll => self.poll(seen)?,
                Due::Sample => {
                    if now % POLL_INTERVAL == 0 {
                        self.poll(seen)?;
                    }
                    lock(&self.sockets).sample(now)?;
                    self.queues.sample(network, now)?;
                    if now >= plan.duration_ns || self.flows.iter().all(|flow| lock(flow).is_over()) {
                        result.ended_ns = now;
                        return Ok(());
                    }
                }
            }
        }
    }

    fn poll(&mut self, seen: u64) -> Outcome<()> {
        self.captures.iter_mut().try_for_each(Tap::empty)?;
        self.flows.iter().for_each(|flow| lock(flow).poll(seen));
        Ok(())
    }

    /// Writes down what came of everything.
    fn collect(mut self, plan: &Plan, network: &mut Network, results: &Path, result: &mut RunResult) -> Outcome<()> {
        let (flows, ended) = (&self.flows, result.ended_ns);
        flows.iter().for_each(|flow| lock(flow).poll(ended));
        // Before the connections, whose data they carry: on a host time goes on between both.
        let mut sockets = lock(&self.sockets);
        sockets.finish()?;
        result.flows = flows.iter().map(|flow| lock(flow).finish()).collect();
        let datagrams: Vec<u8> = flows.iter().flat_map(|flow| std::mem::take(&mut lock(flow).datagrams)).collect();
        std::fs::write(results.join("datagrams.bin"), datagrams).map_err(|e| Error::machine(format!("datagrams.bin: {e}")))?;
        for (number, (flow, planned)) in result.flows.iter_mut().zip(&plan.flows).enumerate() {
            flow.subflows = sockets.subflows(number);
            // Where the kernel cannot say that a connection fell back, its peer's silence on MPTCP
            // does. Out-of-tree MPTCP says neither.
            flow.fallback |= planned.mptcp
                && !network.out_of_tree
                && flow.connected_ns.is_some()
                && flow.client_mptcp_info.is_none()
                && !sockets.is_capable(number);
        }
        self.queues.sample_all(network, ended)?;
        result.disciplines = self.queues.finish()?;
        result.tunnels = network.tunnels(plan)?;
        result.capture_losses = self.captures.into_iter().map(Tap::finish).collect::<Outcome<_>>()?;
        result.counters = counters(network)?;
        let wrong = lock(&self.failure).take().or_else(|| sockets.wrong_congestion_control());
        wrong.map_or(Ok(()), Err)
    }
}

fn check(plan: &Plan) -> Outcome<()> {
    if plan.format != Plan::FORMAT {
        return Err(Error::caller(format!(
            "the plan has format {}, this guest carries out format {}: build it anew",
            plan.format,
            Plan::FORMAT
        )));
    }
    if plan.duration_ns == 0 || plan.sample_ns < MILLISECOND {
        return Err(Error::caller("a run lasts some time, and a sample is taken at most every millisecond"));
    }
    Ok(())
}

/// What the run has to do next.
#[derive(Debug)]
enum Due<'a> {
    Change(&'a Change),
    /// What readers have read, and what captures have caught.
    Poll,
    /// Sockets and queues, and if it is time the same.
    Sample,
}

struct Clock<'a> {
    plan: &'a Plan,
    origin: u64,
    changes: &'a [Change],
    /// Time of the last sample or poll.
    polled: u64,
}

impl<'a> Clock<'a> {
    /// Waits for what is next. At the same time changes come first.
    fn wait(&mut self) -> (u64, Due<'a>) {
        let interval = self.plan.sample_ns;
        let sample = ((self.polled / interval + 1) * interval).min(self.plan.duration_ns);
        let next = sample.min((self.polled / POLL_INTERVAL + 1) * POLL_INTERVAL);
        match self.changes {
            [change, later @ ..] if change.at_ns <= next => {
                self.changes = later;
                sys::sleep_until(self.origin + change.at_ns);
                return (change.at_ns, Due::Change(change));
            }
            _ => {}
        }
        self.polled = next;
        sys::sleep_until(self.origin + next);
        (next, if next == sample { Due::Sample } else { Due::Poll })
    }
}

/// What went wrong in another thread, if anything did.
type Failure = Arc<Mutex<Option<Error>>>;

/// Endpoints of one namespace that go away.
#[derive(Debug)]
struct Removal {
    manager: crate::mptcp::PathManager,
    /// (time after the first flow was established, id, address), ascending.
    endpoints: Vec<(u64, u8, std::net::IpAddr)>,
}

impl Removal {
    /// Removes each in time, in a thread of its own.
    fn start(mut self, established: u64, failure: Failure) {
        let failed = failure.clone();
        let work = move || {
            for (after, id, address) in self.endpoints {
                sys::sleep_until(established + after);
                if let Err(wrong) = self.manager.remove(id, address) {
                    lock(&failed).get_or_insert(wrong);
                }
            }
        };
        if let Err(wrong) = progress::spawn(work) {
            lock(&failure).get_or_insert(wrong);
        }
    }
}

fn removals(plan: &Plan, network: &mut Network) -> Outcome<BTreeMap<String, Removal>> {
    let mut all = BTreeMap::new();
    for namespace in &plan.namespaces {
        let own: Vec<&Endpoint> = plan.endpoints.iter().filter(|endpoint| endpoint.namespace == namespace.name).collect();
        let mut endpoints = Vec::new();
        for (number, endpoint) in own.iter().enumerate() {
            if let Some(after) = endpoint.remove_at_ns {
                endpoints.push((after, number as u8 + 1, ip(&endpoint.address)?));
            }
        }
        endpoints.sort_unstable();
        let manager = network.namespace(&namespace.name)?.path_manager.take();
        if let (Some(manager), false) = (manager, endpoints.is_empty()) {
            all.insert(namespace.name.clone(), Removal { manager, endpoints });
        }
    }
    Ok(all)
}

/// Counters of /proc/net/netstat and /proc/net/snmp of each namespace that are not 0.
fn counters(network: &Network) -> Outcome<BTreeMap<String, BTreeMap<String, i64>>> {
    let mut all = BTreeMap::new();
    for namespace in &network.namespaces {
        sys::enter_network(&namespace.file)?;
        let mut own = BTreeMap::new();
        for file in ["netstat", "snmp"] {
            // The folder of the calling thread, whose namespace has just changed.
            let text =
                std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).map_err(|e| Error::machine(format!("{file}: {e}")))?;
            own.extend(table(&text));
        }
        all.insert(namespace.name.clone(), own);
    }
    Ok(all)
}

/// Pairs of lines: "TcpExt: name name", "TcpExt: value value".
fn table(text: &str) -> BTreeMap<String, i64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let (mut names, mut values) = (pair[0].split_whitespace(), pair[1].split_whitespace());
        let prefix = names.next().unwrap_or_default().trim_end_matches(':');
        values.next();
        for (name, value) in names.zip(values) {
            match value.parse::<i64>() {
                Ok(0) | Err(_) => {}
                Ok(value) => drop(found.insert(format!("{prefix}{name}"), value)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_by_their_table_and_zeros_are_left_out() {
        let found = table("TcpExt: TCPTimeouts TCPLossProbes\nTcpExt: 3 0\nMPTcpExt: Retrans\nMPTcpExt: -1\n");
        assert_eq!(found, BTreeMap::from([("MPTcpExtRetrans".to_owned(), -1), ("TcpExtTCPTimeouts".to_owned(), 3)]));
    }

    #[test]
    fn a_plan_of_another_format_is_refused() {
        let text = r#"{"format": 99, "duration_ns": 1, "sample_ns": 1000000, "namespaces": [], "cables": [], "flows": []}"#;
        let plan: Plan = serde_json::from_str(text).expect("the plan is well formed");
        assert_eq!(check(&plan), Err(Error::caller("the plan has format 99, this guest carries out format 1: build it anew")));
    }
}
