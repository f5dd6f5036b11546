//! Two ends whose packets take the path on which they arrive first, joined by paths with a rate, a
//! delay and a queue: how much the paths carry, what waits in them, and in what order packets come.

use polypath_base::{Bytes, Duration, Instant, PathId, Rate};
use polypath_tunnel::{Endpoint, EndpointConfig, KeepaliveConfig, Message, ReorderConfig, Spreading};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LEN: Bytes = Bytes::new(1464);
/// What is added to each packet on its path.
const HEADERS: u64 = 36;
const SECOND: Duration = Duration::from_secs(1);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A path in one direction: packets wait for one another, and then take their time.
#[derive(Clone, Debug)]
struct Path {
    rate: Rate,
    delay: Duration,
    free_at: Instant,
    /// Every so many packets one is lost; 0: none.
    loses: u32,
    count: u32,
    bytes: u64,
    longest_queue: Duration,
}

impl Path {
    fn new(mbps: u64, delay: Duration) -> Self {
        let rate = Rate::from_bits_per_sec(mbps * 1_000_000);
        Self { rate, delay, free_at: Instant::ZERO, loses: 0, count: 0, bytes: 0, longest_queue: Duration::ZERO }
    }

    fn transit(&mut self, now: Instant, len: u64) -> Option<Instant> {
        self.free_at = self.free_at.max(now) + self.rate.time_for(Bytes::new(len));
        self.longest_queue = self.longest_queue.max(self.free_at.since(now));
        self.count += 1;
        self.bytes += len;
        (self.loses == 0 || self.count % self.loses != 0).then_some(self.free_at + self.delay)
    }
}

struct Net {
    now: Instant,
    ends: [Endpoint<u32>; 2],
    /// From end 0, and from end 1.
    paths: [Vec<Path>; 2],
    flying: BTreeMap<(Instant, u64), (usize, PathId, Message<u32>)>,
    sent: u64,
    /// End 1 does not know reports.
    older: bool,
    /// Numbers as they came, before they were put in order, and when.
    came: Vec<(u32, Instant)>,
    delivered: Vec<u32>,
    /// Packets that are lost, by path.
    lost: Vec<u64>,
}

fn config(paths: usize) -> EndpointConfig {
    EndpointConfig {
        weights: vec![1; paths],
        spreading: Spreading::Earliest,
        reorder: ReorderConfig::Progress { max_delay: ms(300), capacity: 4096 },
        keepalive: KeepaliveConfig::default(),
        mtu: None,
        fec: None,
    }
}

/// An end that sends no reports, and takes keepalives alone for signs of life, as MPT does.
fn older(now: Instant) -> Endpoint<u32> {
    let keepalive = KeepaliveConfig { data_count: false, ..KeepaliveConfig::default() };
    let config = EndpointConfig { spreading: Spreading::Turns { batch: 1 }, keepalive, ..config(2) };
    Endpoint::new(now, &config).expect("a sound configuration")
}

impl Net {
    fn new(paths: &[Path]) -> Self {
        let config = config(paths.len());
        let end = || Endpoint::new(Instant::ZERO, &config).expect("a sound configuration");
        let back = paths.iter().map(|path| Path { rate: Rate::from_bits_per_sec(1_000_000_000), ..path.clone() }).collect();
        Self {
            now: Instant::ZERO,
            ends: [end(), end()],
            paths: [paths.to_vec(), back],
            flying: BTreeMap::new(),
            sent: 0,
            older: false,
            came: vec![],
            delivered: vec![],
            lost: vec![0; paths.len()],
        }
    }

    /// A path carries nothing in either direction from now on, and what is in flight on it is lost;
    /// or it carries all again.
    fn cut(&mut self, number: usize, dead: bool) {
        for paths in &mut self.paths {
            paths[number].loses = u32::from(dead);
        }
        let flying = std::mem::take(&mut self.flying);
        let is_lost = |path: PathId| dead && usize::from(path.0) == number;
        self.lost[number] +=
            flying.values().filter(|(_, path, message)| is_lost(*path) && matches!(message, Message::Data { .. })).count() as u64;
        self.flying = flying.into_iter().filter(|(_, (_, path, _))| !is_lost(*path)).collect();
    }

    /// By path, whether both ends have it up.
    fn up(&self) -> Vec<bool> {
        self.ends[0].paths().zip(self.ends[1].paths()).map(|((one, _), (other, _))| one && other).collect()
    }

    fn drain(&mut self) {
        for from in 0..2 {
            while let Some((path, message)) = self.ends[from].poll_transmit() {
                if self.older && from == 0 && matches!(message, Message::Report(_)) {
                    // MPT and older versions take it for garbage.
                    continue;
                }
                let len = if matches!(message, Message::Data { .. }) { LEN.get() + HEADERS } else { 64 };
                if let Some(at) = self.paths[from][usize::from(path.0)].transit(self.now, len) {
                    self.flying.insert((at, self.sent), (1 - from, path, message));
                } else if from == 0 && matches!(message, Message::Data { .. }) {
                    self.lost[usize::from(path.0)] += 1;
                }
                self.sent += 1;
            }
            while let Some(packet) = self.ends[from].poll_deliver() {
                self.delivered.push(packet);
            }
        }
    }

    /// Lets time pass; `offer`: end 0 has so many packets a second, or always some.
    fn run(&mut self, time: Duration, offer: Option<u64>) {
        let until = self.now + time;
        let mut next = self.came.len().max(self.delivered.len()) as u32;
        next = next.max(self.paths[0].iter().map(|path| path.count).sum());
        let gap = offer.map(|rate| SECOND / rate);
        let mut due = self.now;
        loop {
            while due <= self.now && !self.ends[0].is_full(self.now) {
                assert!(self.ends[0].handle_inner(self.now, 0, LEN, next), "a path is up");
                next += 1;
                assert!(self.flying.len() < 100_000, "nobody sends without end");
                due += gap.unwrap_or(Duration::ZERO);
                self.drain();
            }
            let arrival = self.flying.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
            let timeouts = self.ends[0].poll_timeout().min(self.ends[1].poll_timeout());
            let offered = if due > self.now { due } else { Instant::NEVER };
            let at = arrival.min(timeouts).min(offered);
            if at > until {
                self.now = until;
                return;
            }
            assert!(at >= self.now || timeouts <= self.now, "time does not go back");
            self.now = self.now.max(at);
            if arrival <= self.now {
                let (_, (to, path, message)) = self.flying.pop_first().expect("something is in flight");
                if let Message::Data { packet, .. } = message {
                    self.came.push((packet, self.now));
                }
                self.ends[to].handle_outer(self.now, path, LEN, message);
            }
            for end in &mut self.ends {
                if end.poll_timeout() <= self.now {
                    end.handle_timeout(self.now);
                }
            }
            self.drain();
        }
    }

    /// By path, bytes of end 0 since the last call.
    fn carried(&mut self) -> Vec<u64> {
        self.paths[0].iter_mut().map(|path| std::mem::take(&mut path.bytes)).collect()
    }

    /// The share of packets that were overtaken by more than 10 later ones, of those that came
    /// since this place in the list.
    fn disorder(&self, from: usize) -> f64 {
        let came = &self.came[from..];
        let (mut greatest, mut overtaken) = (0, 0);
        for (place, &(number, _)) in came.iter().enumerate() {
            let later = || came[..place].iter().rev().take(1000).filter(|&&(other, _)| other > number).count();
            overtaken += usize::from(number < greatest && later() > 10);
            greatest = greatest.max(number);
        }
        overtaken as f64 / came.len() as f64
    }
}

#[test]
fn one_path_carries_what_fits_it_and_the_other_stays_idle() {
    let mut net = Net::new(&[Path::new(100, ms(1)), Path::new(100, ms(51))]);
    net.run(SECOND, Some(4000));
    net.carried();
    net.run(SECOND, Some(4000));
    let carried = net.carried();
    assert!(carried[0] > 5_900_000 && carried[1] < 100_000, "48 Mbit/s fit the fast path: {carried:?}");
}

#[test]
fn both_paths_are_full_and_packets_come_nearly_in_order() {
    let mut net = Net::new(&[Path::new(100, ms(1)), Path::new(50, ms(51))]);
    // Once every 5 s the queues are let run dry, so that the delays are seen without them.
    net.run(SECOND * 6, None);
    net.carried();
    net.paths[0].iter_mut().for_each(|path| path.longest_queue = Duration::ZERO);
    let from = net.came.len();
    net.run(SECOND * 3, None);
    let carried = net.carried();
    assert!(carried[0] > 36_000_000 && carried[1] > 17_500_000, "of 37.5 and 18.75 MB: {carried:?}");
    for path in &net.paths[0] {
        assert!(path.longest_queue < ms(12), "a packet waits here and not in the network: {path:?}");
    }
    let disorder = net.disorder(from);
    assert!(disorder < 0.02, "with turns every packet of the slow path is overtaken by 50 ms of packets: {disorder}");
    let estimates: Vec<_> = (0..2).map(|path| net.ends[0].estimate(net.now, PathId(path)).unwrap()).collect();
    for (estimate, mbps) in estimates.iter().zip([100, 50]) {
        let rate = estimate.capacity.unwrap().as_bits_per_sec() / 1_000_000;
        assert!((mbps * 97 / 100..=mbps * 104 / 100).contains(&rate), "{estimate:?}");
    }
    let behind = estimates[1].behind.unwrap().as_micros();
    assert!((49_000..52_000).contains(&behind) && estimates[0].behind == Some(Duration::ZERO), "{estimates:?}");
}

#[test]
fn paths_of_any_rates_are_full_whatever_the_weights_say() {
    for rates in [[15, 1], [1, 15], [3, 1], [15, 5], [100, 10], [10, 300]] {
        for delays in [[20, 15], [15, 20], [20, 20], [80, 15], [20, 80]] {
            let mut net = Net::new(&[0, 1].map(|path| Path::new(rates[path], ms(delays[path]))));
            net.run(SECOND * 2, None);
            // Slow start sends little too much: the first window of 10 packets, or some
            // milliseconds.
            for (path, rate) in net.paths[0].iter().zip(rates) {
                let most = ms(15) + Rate::from_bits_per_sec(rate * 1_000_000).time_for(Bytes::new(12 * 1500));
                assert!(path.longest_queue < most, "{rates:?}, {delays:?}: {path:?}");
            }
            net.carried();
            net.run(SECOND * 2, None);
            for (bytes, rate) in net.carried().into_iter().zip(rates) {
                assert!(bytes > 2 * rate * 125_000 * 9 / 10, "{rates:?}, {delays:?}: {bytes}");
            }
        }
    }
}

#[test]
fn what_a_path_carries_under_a_light_load_is_not_its_capacity() {
    for mbps in [1, 5, 15] {
        let mut net = Net::new(&[Path::new(mbps, ms(20)), Path::new(mbps, ms(200))]);
        // A packet is on its way alone, and takes up to 12 ms of the path's time.
        net.run(SECOND * 5, Some(20));
        let capacity = net.ends[0].estimate(net.now, PathId(0)).unwrap().capacity;
        assert_eq!(capacity, None, "{mbps} Mbit/s");
    }
}

#[test]
fn a_path_that_becomes_much_wider_gets_more() {
    let mut net = Net::new(&[Path::new(1, ms(20)), Path::new(2, ms(15))]);
    net.run(SECOND * 3, None);
    net.paths[0][0].rate = Rate::from_bits_per_sec(15_000_000);
    net.run(SECOND * 3, None);
    net.carried();
    net.run(SECOND * 2, None);
    let carried = net.carried();
    assert!(carried[0] > 3_400_000 && carried[1] > 450_000, "of 3.75 and 0.5 MB: {carried:?}");
}

#[test]
fn a_path_that_becomes_narrower_gets_less() {
    let mut net = Net::new(&[Path::new(100, ms(5)), Path::new(100, ms(15))]);
    net.run(SECOND * 2, None);
    net.paths[0][0].rate = Rate::from_bits_per_sec(20_000_000);
    net.run(SECOND * 3, None);
    net.carried();
    net.run(SECOND * 2, None);
    let carried = net.carried();
    assert!((4_500_000..5_600_000).contains(&carried[0]) && carried[1] > 23_000_000, "of 5 and 25 MB: {carried:?}");
    // And more again.
    net.paths[0][0].rate = Rate::from_bits_per_sec(100_000_000);
    net.run(SECOND * 4, None);
    net.carried();
    net.run(SECOND * 2, None);
    let carried = net.carried();
    assert!(carried[0] > 22_000_000, "of 25 MB: {carried:?}");
}

#[test]
fn lost_packets_are_counted_by_path() {
    let mut net = Net::new(&[Path::new(50, ms(5)), Path { loses: 50, ..Path::new(50, ms(5)) }]);
    net.run(SECOND * 2, None);
    let lost: Vec<_> = (0..2).map(|path| net.ends[0].estimate(net.now, PathId(path)).unwrap().lost).collect();
    let sent = u64::from(net.paths[0][1].count);
    assert!(lost[0] == 0 && (sent / 60..=sent / 50).contains(&lost[1]), "{lost:?} of {sent}");
}

#[test]
fn what_waits_for_a_path_that_dies_takes_the_other() {
    let mut net = Net::new(&[Path::new(50, ms(5)), Path::new(50, ms(5))]);
    net.run(SECOND, None);
    for paths in &mut net.paths {
        paths[0].loses = 1;
    }
    net.run(SECOND * 12, None);
    assert_eq!(net.ends[0].paths().map(|(up, _)| up).collect::<Vec<_>>(), [false, true]);
    net.carried();
    net.run(SECOND, None);
    let carried = net.carried();
    assert!(carried[1] > 6_000_000, "of 6.25 MB: {carried:?}");
}

#[test]
fn a_path_that_dies_under_load_loses_no_more_than_was_in_flight_on_it() {
    for (mbps, delay) in [(10, 40), (50, 5), (100, 1), (100, 50)] {
        let mut net = Net::new(&[Path::new(mbps, ms(delay)), Path::new(50, ms(10))]);
        // The pauses of slow start are among a path's usual ones for up to 10 s.
        net.run(SECOND * 11, None);
        assert_eq!(net.lost, [0, 0]);
        let most = net.ends[0].estimate(net.now, PathId(0)).and_then(|path| path.most_in_flight).expect("it was full");
        net.cut(0, true);
        let in_network = net.lost[0];
        assert!(in_network >= mbps * delay * 1000 / 12_000 - 1, "the path was full: {in_network}");
        net.run(ms(700), None);
        assert_eq!(net.up(), [false, true], "{mbps} Mbit/s, {delay} ms");
        // What is unreported: a round trip, 5 ms of queue and a packet, and until a report is due,
        // 32 packets or 10 ms, and 8 packets to spare.
        let report = (32 * 12_000 / mbps).max(10_000);
        let in_flight = mbps * (2 * delay * 1000 + 5000 + report) / 12_000 + 1;
        assert!(net.lost[0] <= in_flight + 8 && net.lost[1] == 0, "{mbps} Mbit/s, {delay} ms: {:?} of {in_flight}", net.lost);
        assert!(net.lost[0] * (LEN.get() + HEADERS) < most.get() + LEN.get() + HEADERS, "{most:?} bytes are all that may be lost");
        // And nothing more.
        let lost = net.lost.clone();
        net.carried();
        net.run(SECOND, None);
        assert!(net.lost == lost && net.carried()[1] > 6_000_000, "of 6.25 MB");
        net.cut(0, false);
        net.run(SECOND * 2, None);
        net.carried();
        net.run(SECOND, None);
        let carried = net.carried();
        assert!(carried[0] > mbps * 110_000, "it is used again: {carried:?}");
    }
}

#[test]
fn a_dead_path_gets_a_quarter_of_a_second_of_a_light_load() {
    // As much as a connection that tries again and again, or a few packets a second.
    for rate in [20, 50, 400] {
        let mut net = Net::new(&[Path::new(50, ms(1)), Path::new(50, ms(20))]);
        net.run(SECOND * 6, Some(rate));
        net.cut(0, true);
        net.run(SECOND, Some(rate));
        let lost = net.lost[0];
        assert!(lost <= rate / 4 + 2, "{lost} of {rate} a second");
        net.run(SECOND * 20, Some(rate));
        assert_eq!(net.lost, [lost, 0], "{rate} a second: all others took the other path");
        net.cut(0, false);
        net.run(SECOND * 6, Some(rate));
        net.carried();
        net.run(SECOND, Some(rate));
        let carried = net.carried();
        assert!(carried[1] < carried[0] / 3, "the earliest path is used again: {carried:?}");
        assert_eq!(net.lost, [lost, 0]);
    }
}

#[test]
fn all_paths_may_die_and_come_back() {
    for outage in [ms(300), SECOND, SECOND * 5] {
        let mut net = Net::new(&[Path::new(50, ms(5)), Path::new(50, ms(25))]);
        net.run(SECOND * 6, None);
        net.cut(0, true);
        net.cut(1, true);
        // An end that hears nothing for 2 s takes whatever comes, so what comes must have an end.
        net.run(outage, Some(5000));
        net.cut(0, false);
        net.cut(1, false);
        net.run(SECOND, Some(2000));
        net.run(SECOND * 2, None);
        net.carried();
        net.run(SECOND, None);
        let carried = net.carried();
        assert!(carried.iter().all(|&bytes| bytes > 5_600_000), "{outage:?}: {carried:?} of 6.25 MB");
    }
}

#[test]
fn an_end_that_sends_no_reports_gets_packets_by_turns_and_keepalives() {
    let mut net = Net::new(&[Path::new(100, ms(1)), Path::new(100, ms(51))]);
    (net.ends[1], net.older) = (older(Instant::ZERO), true);
    net.run(SECOND * 3, Some(1000));
    assert_eq!(net.ends[0].is_reported(), Some(false));
    net.carried();
    net.run(SECOND * 20, Some(1000));
    let carried = net.carried();
    assert!(carried[0].abs_diff(carried[1]) < 100_000 && carried[0] > 14_900_000, "all 30 MB, by turns: {carried:?}");
    assert!(net.ends[1].paths().all(|(up, _)| up), "keepalives came");
    // It is started anew as one that sends them.
    (net.ends[1], net.older) = (Endpoint::new(net.now, &config(2)).unwrap(), false);
    net.run(SECOND * 6, Some(1000));
    net.carried();
    net.run(SECOND, Some(1000));
    let carried = net.carried();
    assert!(net.ends[0].is_reported() == Some(true) && carried[1] < 100_000, "12 Mbit/s fit the fast path: {carried:?}");
}

#[test]
fn ends_that_get_no_reports_refuse() {
    for reorder in [ReorderConfig::Off, ReorderConfig::Mpt { window: 1600, max_delay: ms(300) }] {
        let config = EndpointConfig {
            weights: vec![1, 1],
            spreading: Spreading::Earliest,
            reorder,
            keepalive: KeepaliveConfig::default(),
            mtu: None,
            fec: None,
        };
        assert!(Endpoint::<u32>::new(Instant::ZERO, &config).is_none(), "{reorder:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the paths are: once they are known none gets more than it carries, and together
    /// they carry nearly all that they can.
    #[test]
    fn no_path_gets_more_than_its_capacity(given in prop::collection::vec((5_u64..100, 0_u64..80), 2..4)) {
        let paths: Vec<_> = given.iter().map(|&(mbps, delay)| Path::new(mbps, ms(1 + delay))).collect();
        let mut net = Net::new(&paths);
        net.run(SECOND * 3, None);
        net.carried();
        net.paths[0].iter_mut().for_each(|path| path.longest_queue = Duration::ZERO);
        net.run(SECOND * 2, None);
        let carried = net.carried();
        for ((path, &(mbps, _)), bytes) in net.paths[0].iter().zip(&given).zip(&carried) {
            let capacity = 2 * mbps * 125_000;
            prop_assert!(path.longest_queue < ms(20), "{:?}", net.paths[0]);
            prop_assert!(*bytes <= capacity + mbps * 125_000 / 50, "{bytes} of {capacity}");
            prop_assert!(*bytes >= capacity * 9 / 10, "{bytes} of {capacity}: {given:?}");
        }
    }

    /// Whatever a hostile peer reports, nothing panics and time goes on.
    #[test]
    fn reports_of_a_hostile_peer_do_no_harm(
        reports in prop::collection::vec((any::<u32>(), any::<Option<(u32, u32)>>(), any::<Option<(u32, u32)>>(), any::<u32>(), any::<u32>(), 0_u8..3), 1..100),
    ) {
        let mut net = Net::new(&[Path::new(50, ms(5)), Path::new(50, ms(25))]);
        net.run(ms(100), Some(1000));
        for (sent_us, echo, latest, packets, bytes, path) in reports {
            // A number that was sent is what does most.
            let latest = latest.map(|(seq, at)| (if seq % 2 == 0 { seq % 200 } else { seq }, at));
            let report = polypath_tunnel::Report { sent_us, echo, latest, packets, bytes };
            let now = net.now;
            net.ends[0].handle_outer(now, PathId(path), LEN, Message::Report(report));
            net.run(ms(3), Some(1000));
        }
    }
}
