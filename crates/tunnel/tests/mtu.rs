//! Two ends that search for the MTU of their paths, joined by paths that drop what is too long for
//! them, lose packets by chance, and lie.

use polypath_base::{Bytes, Duration, Instant, PathId};
use polypath_tunnel::{Endpoint, EndpointConfig, KeepaliveConfig, Message, MtuConfig, PathBounds, ReorderConfig, Spreading};
use proptest::prelude::*;
use std::collections::BTreeMap;

const HEADERS: u64 = 36;
const LEAST: u64 = 1200;
const CEILING: u64 = 9000;

fn secs(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

/// A path, the same in both directions.
#[derive(Copy, Clone, Debug)]
struct Path {
    passes: u64,
    delay: Duration,
    /// Of a thousand packets, so many are lost.
    loses: u64,
}

struct Net {
    now: Instant,
    ends: [Endpoint<u32>; 2],
    paths: Vec<Path>,
    flying: BTreeMap<(Instant, u64), (usize, PathId, Message<u32>)>,
    sent: u64,
    chance: u64,
    /// The second end is of an older version.
    older: bool,
    /// What a router says of packets that are too long.
    says: Option<u64>,
    /// Bytes of the first end's probes, and how many of them there were.
    probed: (u64, u64),
}

fn config(paths: usize) -> EndpointConfig {
    let bounds = PathBounds { headers: Bytes::new(HEADERS), floor: Bytes::new(68), ceiling: Bytes::new(CEILING) };
    EndpointConfig {
        weights: vec![1; paths],
        spreading: Spreading::Turns { batch: 1 },
        reorder: ReorderConfig::Progress { max_delay: Duration::from_millis(300), capacity: 1000 },
        keepalive: KeepaliveConfig::default(),
        mtu: Some(MtuConfig { paths: vec![bounds; paths], least: Bytes::new(LEAST) }),
        fec: None,
    }
}

impl Net {
    fn new(paths: Vec<Path>, chance: u64) -> Self {
        let config = config(paths.len());
        let ends = [(); 2].map(|()| Endpoint::new(Instant::ZERO, &config).expect("a sound configuration"));
        let flying = BTreeMap::new();
        Self { now: Instant::ZERO, ends, paths, flying, sent: 0, chance: chance | 1, older: false, says: None, probed: (0, 0) }
    }

    fn is_lost(&mut self, of_thousand: u64) -> bool {
        // xorshift64.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % 1000 < of_thousand
    }

    fn drain(&mut self) {
        for end in [0, 1] {
            while let Some((path, message)) = self.ends[end].poll_transmit() {
                let length = match &message {
                    Message::Probe(probe) if !probe.is_answer => u64::from(probe.size).max(48),
                    _ => 48,
                };
                if end == 0 && length > 48 {
                    self.probed = (self.probed.0 + length, self.probed.1 + 1);
                }
                let Path { passes, delay, loses } = self.paths[usize::from(path.0)];
                if length > passes {
                    if let Some(says) = self.says {
                        self.ends[end].handle_mtu_hint(path, Bytes::new(says));
                    }
                    continue;
                }
                if self.is_lost(loses) || self.older && end == 0 && matches!(message, Message::Probe(_)) {
                    continue;
                }
                self.flying.insert((self.now + delay, self.sent), (1 - end, path, message));
                self.sent += 1;
            }
        }
    }

    fn run(&mut self, until: Instant) {
        loop {
            let timeout = self.ends[0].poll_timeout().min(self.ends[1].poll_timeout());
            let arrival = self.flying.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
            if timeout.min(arrival) > until {
                self.now = until;
                return;
            }
            self.now = timeout.min(arrival);
            if arrival <= timeout {
                let (_, (to, path, message)) = self.flying.pop_first().expect("something is in flight");
                self.ends[to].handle_outer(self.now, path, Bytes::ZERO, message);
            } else {
                for end in self.ends.iter_mut().filter(|end| end.poll_timeout() <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
            self.drain();
        }
    }

    /// What an end takes for the longest packet of a path.
    fn found(&self, end: usize, path: u8) -> u64 {
        self.ends[end].path_mtu(PathId(path)).expect("it searches").0.get()
    }

    fn mtu(&self) -> u64 {
        self.ends[0].mtu().expect("it searches").get()
    }
}

fn path(passes: u64) -> Path {
    Path { passes, delay: Duration::from_millis(20), loses: 0 }
}

/// How exactly a search knows a path.
fn is_near(found: u64, passes: u64) -> bool {
    found <= passes && passes - found <= passes / 128 + 9
}

#[test]
fn the_tunnels_mtu_is_that_of_its_narrowest_path() {
    let mut net = Net::new(vec![path(1500), path(1420), path(9000)], 1);
    assert_eq!(net.mtu(), 1500 - HEADERS, "until a search has ended it is what nearly every path passes");
    net.run(secs(3));
    assert_eq!([0, 1, 2].map(|path| net.found(0, path)), [1500, 1420, 9000]);
    assert_eq!([0, 1, 2].map(|path| net.found(1, path)), [1500, 1420, 9000]);
    assert_eq!(net.mtu(), 1420 - HEADERS);
    // The narrow path is down: the others carry more.
    net.paths[1].passes = 0;
    net.run(secs(20));
    assert_eq!(net.mtu(), 1500 - HEADERS);
}

#[test]
fn a_path_that_becomes_narrower_is_found_out_and_one_that_becomes_wider_too() {
    let mut net = Net::new(vec![path(1500)], 1);
    net.run(secs(60));
    net.paths[0].passes = 1400;
    net.run(secs(68));
    assert_eq!(net.found(0, 0), 1400, "eight seconds later");
    net.paths[0].passes = 9000;
    net.run(secs(68 + 610));
    assert_eq!(net.found(0, 0), 9000, "within ten minutes");
}

#[test]
fn a_path_that_is_too_narrow_for_the_tunnels_least_mtu_is_left_alone() {
    let mut net = Net::new(vec![path(1500), path(900)], 1);
    net.run(secs(10));
    assert!(is_near(net.found(0, 1), 900), "{}", net.found(0, 1));
    assert_eq!(net.mtu(), 1500 - HEADERS);
    let paths: Vec<_> = (0..100)
        .map(|number| {
            net.ends[0].handle_inner(net.now, 0, Bytes::new(100), number);
            net.ends[0].poll_transmit().expect("it is sent").0
        })
        .collect();
    assert!(paths.iter().all(|&path| path == PathId(0)));
    // With no other path it has to do.
    net.paths[0].passes = 0;
    net.run(secs(30));
    assert_eq!((net.mtu(), net.ends[0].paths().map(|(up, _)| up).collect::<Vec<_>>()), (LEAST, vec![false, true]));
    net.ends[0].handle_inner(net.now, 0, Bytes::new(100), 100);
    assert_eq!(net.ends[0].poll_transmit().map(|(path, _)| path), Some(PathId(1)));
}

#[test]
fn an_end_that_does_not_know_probes_gets_short_ones_alone() {
    let mut net = Net::new(vec![path(1400)], 1);
    net.older = true;
    net.run(secs(600));
    assert_eq!((net.probed, net.mtu()), ((0, 0), 1500 - HEADERS));
    assert_eq!(net.ends[0].path_mtu(PathId(0)), Some((Bytes::new(1500), false)));
    net.older = false;
    net.run(secs(610));
    assert_eq!(net.found(0, 0), 1400);
}

#[test]
fn an_end_with_a_given_mtu_answers() {
    let mut net = Net::new(vec![path(1464)], 1);
    net.ends[1] = Endpoint::new(Instant::ZERO, &EndpointConfig { mtu: None, ..config(1) }).expect("a sound configuration");
    net.run(secs(5));
    assert_eq!((net.found(0, 0), net.ends[1].mtu()), (1464, None));
}

#[test]
fn a_path_that_is_dead_for_a_while_keeps_its_mtu() {
    let mut net = Net::new(vec![path(1500), path(9000)], 1);
    net.run(secs(10));
    net.paths[1].loses = 1000;
    net.run(secs(100));
    net.paths[1].loses = 0;
    net.run(secs(110));
    assert_eq!(net.found(0, 1), 9000);
}

#[test]
fn mpts_rule_is_refused_because_mpt_answers_no_probes() {
    let reorder = ReorderConfig::Mpt { window: 1600, max_delay: Duration::from_millis(300) };
    assert!(Endpoint::<u32>::new(Instant::ZERO, &EndpointConfig { reorder, ..config(2) }).is_none());
}

#[test]
fn probes_cost_next_to_nothing() {
    let mut net = Net::new(vec![path(1500)], 1);
    net.run(secs(600));
    let (bytes, probes) = net.probed;
    assert!(bytes < 600 * 1000 && probes < 300, "{probes} of {bytes} bytes in ten minutes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_mtu_is_found_whatever_routers_say(
        passes in prop::collection::vec(1280..=9000_u64, 1..4),
        delay in 1..800_u64,
        says in prop::option::of(0..=9100_u64),
        after in 1280..=9000_u64,
    ) {
        let delay = Duration::from_millis(delay);
        let paths: Vec<_> = passes.iter().map(|&passes| Path { passes, delay, loses: 0 }).collect();
        let mut net = Net::new(paths, 1);
        net.says = says;
        net.run(secs(120));
        for (number, &passes) in passes.iter().enumerate() {
            let found = net.found(0, number as u8);
            prop_assert!(is_near(found, passes), "{found} for {passes}");
        }
        let narrowest = (0..passes.len()).map(|path| net.found(0, path as u8)).min().unwrap();
        prop_assert_eq!(net.mtu(), narrowest - HEADERS);
        // The path changes, and nobody says so, or somebody lies.
        net.paths[0].passes = after;
        net.run(secs(120 + 720));
        let found = net.found(0, 0);
        prop_assert!(is_near(found, after), "{found} for {after}, {} before", passes[0]);
    }

    #[test]
    fn loss_hides_nothing_for_long_and_nothing_too_long_is_kept(
        passes in 1280..=9000_u64,
        loses in 0..=50_u64,
        says in prop::option::of(0..=9100_u64),
        chance: u64,
    ) {
        let mut net = Net::new(vec![Path { loses, ..path(passes) }], chance);
        net.says = says;
        let mut near = 0;
        for second in 60..1500 {
            net.run(secs(second));
            let found = net.found(0, 0);
            prop_assert!(found <= passes, "{found} does not pass {passes}");
            near += u32::from(is_near(found, passes));
        }
        prop_assert!(near > 720, "{near} of 1440 s with {passes}");
    }
}
