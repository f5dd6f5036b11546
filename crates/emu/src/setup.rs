//! From what is asked for to links that carry packets.

use crate::direction::LinkDirection;
use crate::frame_pool::FramePool;
use crate::link::Link;
use crate::spec::Spec;
use crate::status::{DirectionStatus, Series};
use crate::worker::{self, Shared};
use polypath_base::Duration;
use polypath_base::Error;
use polypath_guest::Network;
use polypath_io::{Clock, Failed, HEAD, Namespace, Port, processors};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Memory of a port's ring, bytes: some 5000 frames of 1500 bytes, 35 ms at 150,000 packets/s.
const RING: usize = 8 << 20;
/// Memory for packets that are in a link, bytes: half a second at 10 Gbit/s.
const STORE: usize = 1 << 30;

/// Namespaces that exist as long as this does.
#[derive(Debug)]
pub(crate) struct Namespaces(BTreeMap<String, Namespace>);

impl Namespaces {
    /// Builds the network of the plan.
    pub(crate) fn build(spec: &Spec) -> Result<Self, Error> {
        // The thread that builds it ends up in one of the new namespaces.
        let built = std::thread::scope(|scope| scope.spawn(|| Network::build(&spec.plan)).join());
        Self::of(&built.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    }

    /// Those of a network.
    pub(crate) fn of(network: &Network) -> Result<Self, Error> {
        let held = network.namespaces().map(|(name, file)| Ok((name.to_owned(), Namespace::of(file)?)));
        Ok(Self(held.collect::<Result<_, Failed>>()?))
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Namespace, Error> {
        self.0.get(name).ok_or_else(|| Error::caller(format!("the plan has no namespace {name:?}")))
    }
}

/// Opens the ports and makes the elements of the links.
pub(crate) fn links(spec: &Spec, namespaces: &Namespaces) -> Result<Vec<Link>, Error> {
    let wire = namespaces.get(&spec.wire)?;
    let mut made = Vec::new();
    for emulated in &spec.links {
        let Some(link) = spec.scenario.links.get(emulated.link) else {
            return Err(Error::caller(format!(
                "link {} is to be emulated, and the scenario has {}",
                emulated.link,
                spec.scenario.links.len()
            )));
        };
        let mtu = link.a.mtu.max(link.b.mtu).get() as usize;
        let ports = wire.inside(|| Ok([Port::open(&emulated.a, mtu, RING)?, Port::open(&emulated.b, mtu, RING)?]))?;
        let addresses = [&link.a, &link.b].map(|end| end.address.parse().ok());
        let lines =
            [LinkDirection::new(link.elements(spec.scenario.seed, true)?), LinkDirection::new(link.elements(spec.scenario.seed, false)?)];
        // An Ethernet header and a VLAN tag come before a packet.
        let store = FramePool::new(HEAD + 18 + mtu, STORE);
        made.push(Link::new(link.name.clone(), ports, addresses, lines, store));
    }
    Ok(made)
}

/// Threads that carry links.
#[derive(Debug)]
pub(crate) struct Workers {
    pub(crate) clock: Clock,
    running: Vec<(JoinHandle<()>, Arc<Shared>)>,
}

impl Workers {
    /// Packets pass from now on, and the time of the links' changes begins.
    pub(crate) fn start(spec: &Spec, links: Vec<Link>) -> Result<Self, Error> {
        Self::start_at(spec, links, Clock::start(), None)
    }

    /// Packets pass from now on; the time of the links' changes, and of samples of queues if they
    /// were asked for, is that of the clock.
    pub(crate) fn start_at(spec: &Spec, mut links: Vec<Link>, clock: Clock, sampling: Option<Duration>) -> Result<Self, Error> {
        if let Some(interval) = sampling {
            links.iter_mut().for_each(|link| link.sample_every(interval));
        }
        let count = spec.threads.unwrap_or(processors() / 2).clamp(1, links.len().max(1));
        let late_limit = spec.late_limit;
        let mut shares: Vec<Vec<Link>> = (0..count).map(|_| Vec::new()).collect();
        for (number, link) in links.into_iter().enumerate() {
            shares[number % count].push(link);
        }
        let start = |mut links: Vec<Link>| {
            let shared = Arc::new(Shared::default());
            // Whoever looks before the thread runs sees that nothing has passed, and not that there
            // are no links.
            shared.note(&mut links, late_limit);
            let own = shared.clone();
            let thread = std::thread::Builder::new().spawn(move || worker::carry(links, clock, late_limit, &own));
            Ok((thread.map_err(|e| Error::machine(format!("starting a thread: {e}")))?, shared))
        };
        Ok(Self { clock, running: shares.into_iter().map(start).collect::<Result<_, Error>>()? })
    }

    /// What all have reported last.
    pub(crate) fn report(&self) -> Vec<DirectionStatus> {
        self.running.iter().flat_map(|(_, shared)| shared.report()).collect()
    }

    /// Processor time that all have used, ns.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.running.iter().map(|(_, shared)| shared.cpu_ns()).sum()
    }

    /// Whether one of them has ended, which only a fault in it can bring about.
    pub(crate) fn broken(&self) -> bool {
        self.running.iter().any(|(thread, _)| thread.is_finished())
    }

    /// Ends them; what they reported at last.
    pub(crate) fn stop(self) -> Vec<DirectionStatus> {
        self.end().0
    }

    /// Ends them; what they reported at last, and the samples of queues.
    pub(crate) fn end(self) -> (Vec<DirectionStatus>, Vec<Series>) {
        for (_, shared) in &self.running {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let ended = self.running.into_iter().flat_map(|(thread, shared)| {
            // A thread that failed has said so on the error output; what it reported before still
            // holds.
            let _ = thread.join();
            [(shared.report(), shared.series())]
        });
        let (reports, series): (Vec<_>, Vec<_>) = ended.unzip();
        (reports.concat(), series.concat())
    }
}
