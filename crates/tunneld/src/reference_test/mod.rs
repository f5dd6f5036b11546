//! A tunnel under a reference state machine: random transitions, and after each a [`Reference`] too
//! simple to be wrong says what must be so by now.
//!
//! [`end`]: an end as the daemon makes it of the crate `tunnel`, [`crate::encapsulation`] and
//! [`crate::encryption`]. [`system`]: two of them, and the network between. [`reference`]: what was
//! promised, of transitions alone. Start with [`Transition`].

mod end;
mod reference;
mod system;

use crate::encapsulation::{Encapsulation, Framing};
use crate::encryption::OVERHEAD;
use end::IP_AND_UDP;
use polypath_base::{Bytes, Duration};
use polypath_tunnel::{EndpointConfig, FecConfig, KeepaliveConfig, MtuConfig, PathBounds, ReorderConfig, Spreading};
use polypath_wire::parity;
use proptest::prelude::*;
use system::System;

/// Ends are 0 and 1. A path number is taken modulo the number of paths.
#[derive(Clone, Debug)]
enum Transition {
    /// The host of an end sends a packet each millisecond; `longest`: as long as the device takes.
    Send {
        from: usize,
        packets: u32,
        longest: bool,
    },
    /// The next so many datagrams from there are lost.
    Lose {
        path: usize,
        from: usize,
        datagrams: usize,
    },
    /// The next one arrives again so much later.
    Duplicate {
        path: usize,
        from: usize,
        later_ms: u64,
    },
    /// The next ones arrive so much later, and so behind what is sent after them.
    Delay {
        path: usize,
        from: usize,
        datagrams: usize,
        later_ms: u64,
    },
    Kill(usize),
    Revive(usize),
    /// The path passes no longer packets any more.
    Narrow {
        path: usize,
        to: u64,
    },
    /// The end's program starts again, and remembers nothing.
    Restart(usize),
    /// End 0 has another address on the path; only with encryption does the other end follow.
    Roam(usize),
    /// Somebody without the keys sends to an end.
    Forge {
        to: usize,
        path: usize,
        kind: Forgery,
    },
    Pass {
        seconds: u64,
    },
}

#[derive(Copy, Clone, Debug)]
enum Forgery {
    /// Made with other keys.
    Foreign,
    /// A datagram that has come before, from elsewhere.
    Replayed,
    /// The same with a bit changed.
    Changed,
}

fn transition() -> impl Strategy<Value = Transition> {
    let (end, path) = (|| 0..2_usize, || 0..3_usize);
    let kind = prop::sample::select(vec![Forgery::Foreign, Forgery::Replayed, Forgery::Changed]);
    prop_oneof![
        6 => (end(), 1..60_u32, any::<bool>()).prop_map(|(from, packets, longest)| Transition::Send { from, packets, longest }),
        1 => (path(), end(), 1..12_usize).prop_map(|(path, from, datagrams)| Transition::Lose { path, from, datagrams }),
        1 => (path(), end(), 0..500_u64).prop_map(|(path, from, later_ms)| Transition::Duplicate { path, from, later_ms }),
        1 => (path(), end(), 1..5_usize, 1..500_u64)
            .prop_map(|(path, from, datagrams, later_ms)| Transition::Delay { path, from, datagrams, later_ms }),
        2 => path().prop_map(Transition::Kill),
        2 => path().prop_map(Transition::Revive),
        1 => (path(), 1400..1500_u64).prop_map(|(path, to)| Transition::Narrow { path, to }),
        1 => end().prop_map(Transition::Restart),
        1 => path().prop_map(Transition::Roam),
        1 => (end(), path(), kind).prop_map(|(to, path, kind)| Transition::Forge { to, path, kind }),
        4 => prop_oneof![1..4_u64, 4..40_u64, 100..200_u64].prop_map(|seconds| Transition::Pass { seconds }),
    ]
}

/// What both ends' files say, and the network at first.
#[derive(Clone, Debug)]
struct Setup {
    encrypted: bool,
    weights: Vec<u32>,
    spreading: Spreading,
    reorder: ReorderConfig,
    keepalive: KeepaliveConfig,
    /// The MTU is searched for; else it is given.
    search: bool,
    fec: Option<FecConfig>,
    /// One way, by path.
    delays_ms: Vec<u64>,
}

fn setup() -> impl Strategy<Value = Setup> {
    let paths = prop::collection::vec((1..4_u32, 1..150_u64), 1..4);
    let spreading = vec![Spreading::Turns { batch: 1 }, Spreading::Turns { batch: 16 }, Spreading::Flows, Spreading::Earliest];
    let (wait, capacity) = (LONGEST_WAIT, 1000);
    let reorder = vec![
        ReorderConfig::Off,
        ReorderConfig::Mpt { window: 1600, max_delay: wait },
        ReorderConfig::Fixed { timeout: wait, capacity },
        ReorderConfig::Adaptive { offset: Duration::from_millis(5), cap: wait, capacity },
        ReorderConfig::Equalised { cap: wait, capacity },
        ReorderConfig::Progress { max_delay: wait, capacity },
    ];
    let keepalive = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(short, data_count, progress)| {
        let [interval, dead_time] = if short { [1, 3] } else { [5, 11] }.map(Duration::from_secs);
        KeepaliveConfig { interval, dead_time, data_count, progress }
    });
    let fec = (1..12_u8, 1..4_u8, 1..30_u64).prop_map(|(packets, parities, timeout)| FecConfig {
        packets,
        parities: parities.min(packets),
        timeout: Duration::from_millis(timeout),
    });
    let rules = (prop::sample::select(spreading), prop::sample::select(reorder), keepalive, prop::option::of(fec));
    (any::<bool>(), paths, rules, any::<bool>()).prop_map(|(encrypted, paths, (spreading, reorder, keepalive, fec), search)| {
        let (weights, delays_ms) = paths.into_iter().unzip();
        let is_mpt = matches!(reorder, ReorderConfig::Mpt { .. });
        // What the daemon refuses beside one another.
        let spreading = match spreading {
            Spreading::Earliest if is_mpt || reorder == ReorderConfig::Off => Spreading::Turns { batch: 1 },
            spreading => spreading,
        };
        Setup {
            encrypted,
            weights,
            spreading,
            reorder,
            keepalive,
            search: search && !is_mpt,
            fec: fec.filter(|_| !is_mpt && reorder != ReorderConfig::Off),
            delays_ms,
        }
    })
}

/// A packet waits for an earlier one no longer.
const LONGEST_WAIT: Duration = Duration::from_millis(300);
/// The MTU of the device where it is given.
const GIVEN_MTU: u64 = 1280;
/// What paths pass at first.
const PASSES: u64 = 1500;

impl Setup {
    fn paths(&self) -> usize {
        self.weights.len()
    }

    fn form(&self) -> Encapsulation {
        Encapsulation { framing: Framing::Mpt, key: None, numbered: self.reorder != ReorderConfig::Off }
    }

    fn config(&self) -> EndpointConfig {
        let overhead = if self.encrypted { OVERHEAD } else { 0 } + if self.fec.is_some() { parity::OVERHEAD as usize } else { 0 };
        let headers = Bytes::new((IP_AND_UDP + self.form().header_len() + overhead) as u64);
        let bounds = PathBounds { headers, floor: Bytes::new(68), ceiling: Bytes::new(9000) };
        EndpointConfig {
            weights: self.weights.clone(),
            spreading: self.spreading,
            reorder: self.reorder,
            keepalive: self.keepalive,
            mtu: self.search.then(|| MtuConfig { paths: vec![bounds; self.paths()], least: Bytes::new(GIVEN_MTU) }),
            fec: self.fec,
        }
    }
}

fn run(setup: &Setup, transitions: &[Transition]) -> Result<(), TestCaseError> {
    let mut system = System::new(setup);
    for transition in transitions {
        system.apply(transition);
        system.check()?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_tunnel_keeps_its_promises_whatever_happens(setup in setup(), transitions in prop::collection::vec(transition(), 5..16)) {
        run(&setup, &transitions)?;
    }
}

/// The other end echoes a report of the run before, whose clock this end has no more.
#[test]
fn what_an_end_sent_before_it_started_again_measures_nothing() {
    let (capacity, timeout) = (1000, LONGEST_WAIT);
    let [interval, dead_time] = [5, 11].map(Duration::from_secs);
    let setup = Setup {
        encrypted: false,
        weights: vec![1],
        spreading: Spreading::Earliest,
        reorder: ReorderConfig::Fixed { timeout, capacity },
        keepalive: KeepaliveConfig { interval, dead_time, data_count: false, progress: false },
        search: false,
        fec: None,
        delays_ms: vec![1],
    };
    let packets = Transition::Send { from: 1, packets: 14, longest: false };
    run(&setup, &[Transition::Pass { seconds: 6 }, Transition::Restart(1), packets]).expect("all packets arrive");
}
