//! In what order the far end of the tunnel gives packets on.
//!
//! Packets of one tunnel have one row of numbers, over all paths (RFC 2890). A [`Rule`] holds
//! packets that have come too early, and decides how long the missing ones are waited for. Rules
//! differ in that alone.

mod anew;
mod buffer;
mod equalised;
mod expiry;
mod lag;
mod mpt;
mod off;
mod progress;

use equalised::Equalised;
use expiry::{Expiry, Wait};
use mpt::Mpt;
use off::Off;
use progress::Progress;

use polypath_base::{Duration, Instant, PathId, Seq, counters};

/// A packet has come out of the tunnel's network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// On which path.
    pub path: PathId,
    /// Its number.
    pub seq: Seq,
    /// The packet.
    pub packet: P,
}

counters! {
    /// What a reorder rule did.
    pub struct ReorderCounters {
        delivered: Packets, "packets given on, the late ones among them";
        held: Packets, "packets that waited for an earlier one";
        late_delivered: Packets, "packets given on after a later one, because they had been given up";
        late_dropped: Packets, "packets dropped because a later one had been given on";
        duplicates: Packets, "packets dropped because they had come before (`mpt` alone: other rules give them on)";
        given_up_by_time: Packets, "missing packets that were waited for no longer because time was up";
        given_up_as_lost: Packets, "missing packets given up because every path had delivered later ones";
        given_up_for_room: Packets, "missing packets given up because too many later ones waited, or because the numbers jumped";
        restarts: Times, "times that the peer began to count anew";
        hold_time: Time, "time that packets waited, all together";
    }
}

/// A rule that puts packets in order.
pub trait Rule<P> {
    /// A packet has come.
    fn handle_packet(&mut self, now: Instant, arrival: Arrival<P>);

    /// Does what is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// The peer's first packet has this number. To be called before anything else; by default it is
    /// 0.
    fn begin_at(&mut self, _first: Seq) {}

    /// Parities may bring back a packet that was lost: behind the block that it was in, which has
    /// so many packets and lasts so long at most. To be called before anything else. A rule that
    /// waits for a time that was given, or for no packet at all, waits no longer for that.
    fn expect_parities(&mut self, _packets: u32, _timeout: Duration) {}

    /// Parities have brought back a packet: it says nothing of any path.
    fn handle_recovered(&mut self, now: Instant, seq: Seq, packet: P) {
        self.handle_packet(now, Arrival { path: PathId(0), seq, packet });
    }

    /// A path has come up or gone down. All are up at first.
    fn handle_path(&mut self, _now: Instant, _path: PathId, _up: bool) {}

    /// The next packet to give on.
    fn poll_deliver(&mut self) -> Option<P>;

    /// When [`Rule::handle_timeout`] has something to do; never: [`Instant::NEVER`].
    fn poll_timeout(&self) -> Instant;

    /// What it did so far.
    fn counters(&self) -> ReorderCounters;
}

/// Which rule, and its settings.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReorderConfig {
    /// Packets are given on as they come.
    Off,
    /// As MPT does it. See `mpt`.
    Mpt {
        /// MPT's `reorder_window`, packets: 1 to 2^20. MPT's 0 is [`ReorderConfig::Off`].
        window: u32,
        /// MPT's `max_buffdelay_msec`; MPT reads 0 as 100 ms.
        max_delay: Duration,
    },
    /// A packet waits for so long at most (MP-DCCP calls it static expiration,
    /// draft-amend-iccrg-multipath-reordering-03).
    Fixed {
        /// MP-DCCP's default is 15 ms.
        timeout: Duration,
        /// Packets that may wait: 1 to 2^20.
        capacity: u32,
    },
    /// A packet waits for as long as packets of the slowest path come after those of the fastest,
    /// and `offset` (adaptive expiration in the same draft, which takes the difference from
    /// round-trip times; a tunnel measures it by its numbers).
    Adaptive {
        /// MP-DCCP's default is 5 ms.
        offset: Duration,
        /// The longest wait; MP-DCCP's default is 100 ms.
        cap: Duration,
        /// Packets that may wait: 1 to 2^20.
        capacity: u32,
    },
    /// Packets of faster paths are held for as long as the slowest path is behind, whatever their
    /// numbers (delay equalisation in the same draft).
    Equalised {
        /// The longest that a packet is held.
        cap: Duration,
        /// Packets that may wait: 1 to 2^20.
        capacity: u32,
    },
    /// A missing packet is known to be lost once every path that is up has delivered a later one.
    /// Until then a packet waits no longer than the paths' difference in delay, as measured,
    /// explains. What comes late is given on.
    Progress {
        /// The longest wait, and the wait as long as nothing is measured.
        max_delay: Duration,
        /// Packets that may wait: 1 to 2^20.
        capacity: u32,
    },
}

/// One of the rules, with its state.
#[derive(Debug)]
pub enum Reorder<P> {
    #[doc(hidden)]
    Off(Off<P>),
    #[doc(hidden)]
    Mpt(Box<Mpt<P>>),
    #[doc(hidden)]
    Expiry(Box<Expiry<P>>),
    #[doc(hidden)]
    Equalised(Box<Equalised<P>>),
    #[doc(hidden)]
    Progress(Box<Progress<P>>),
}

const MOST_PACKETS: u32 = 1 << 20;

impl<P> Reorder<P> {
    /// For a tunnel of so many paths. None if there is no path, or if a number of packets is 0 or
    /// above 2^20.
    pub fn new(config: ReorderConfig, paths: usize) -> Option<Self> {
        if paths == 0 {
            return None;
        }
        let sound = |packets: u32| (1..=MOST_PACKETS).contains(&packets).then_some(packets);
        Some(match config {
            ReorderConfig::Off => Self::Off(Off::new()),
            ReorderConfig::Mpt { window, max_delay } => Self::Mpt(Mpt::new(sound(window)?, max_delay).into()),
            ReorderConfig::Fixed { timeout, capacity } => Self::Expiry(Expiry::new(Wait::Fixed(timeout), sound(capacity)?, paths).into()),
            ReorderConfig::Adaptive { offset, cap, capacity } => {
                Self::Expiry(Expiry::new(Wait::Adaptive { offset, cap }, sound(capacity)?, paths).into())
            }
            ReorderConfig::Equalised { cap, capacity } => Self::Equalised(Equalised::new(cap, sound(capacity)?, paths).into()),
            ReorderConfig::Progress { max_delay, capacity } => Self::Progress(Progress::new(max_delay, sound(capacity)?, paths).into()),
        })
    }
}

macro_rules! each {
    ($self:ident, $rule:ident => $call:expr) => {
        match $self {
            Self::Off($rule) => $call,
            Self::Mpt($rule) => $call,
            Self::Expiry($rule) => $call,
            Self::Equalised($rule) => $call,
            Self::Progress($rule) => $call,
        }
    };
}

impl<P> Rule<P> for Reorder<P> {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival<P>) {
        each!(self, rule => rule.handle_packet(now, arrival));
    }

    fn handle_timeout(&mut self, now: Instant) {
        each!(self, rule => rule.handle_timeout(now));
        debug_assert!(self.poll_timeout() > now, "what was due is done");
    }

    fn begin_at(&mut self, first: Seq) {
        each!(self, rule => rule.begin_at(first));
    }

    fn expect_parities(&mut self, packets: u32, timeout: Duration) {
        each!(self, rule => rule.expect_parities(packets, timeout));
    }

    fn handle_recovered(&mut self, now: Instant, seq: Seq, packet: P) {
        each!(self, rule => rule.handle_recovered(now, seq, packet));
    }

    fn handle_path(&mut self, now: Instant, path: PathId, up: bool) {
        each!(self, rule => rule.handle_path(now, path, up));
    }

    fn poll_deliver(&mut self) -> Option<P> {
        each!(self, rule => rule.poll_deliver())
    }

    fn poll_timeout(&self) -> Instant {
        each!(self, rule => rule.poll_timeout())
    }

    fn counters(&self) -> ReorderCounters {
        each!(self, rule => rule.counters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    /// A rule whose packets are their own numbers.
    pub(super) struct Bench<R> {
        rule: R,
    }

    impl<R: Rule<u32>> Bench<R> {
        pub(super) fn new(rule: R) -> Self {
            Self { rule }
        }

        fn delivered(&mut self) -> Vec<u32> {
            std::iter::from_fn(|| self.rule.poll_deliver()).collect()
        }

        /// A packet comes at so many milliseconds; what is given on.
        pub(super) fn arrive(&mut self, at: u64, path: u8, number: u32) -> Vec<u32> {
            self.rule.handle_packet(ms(at), Arrival { path: PathId(path), seq: Seq::new(number), packet: number });
            self.delivered()
        }

        pub(super) fn timeout(&self) -> Instant {
            self.rule.poll_timeout()
        }

        /// Time passes until the next timeout; what is given on.
        pub(super) fn expire(&mut self) -> Vec<u32> {
            self.rule.handle_timeout(self.timeout());
            self.delivered()
        }

        pub(super) fn path(&mut self, at: u64, path: u8, up: bool) -> Vec<u32> {
            self.rule.handle_path(ms(at), PathId(path), up);
            self.delivered()
        }

        pub(super) fn counters(&self) -> ReorderCounters {
            self.rule.counters()
        }
    }

    fn bench<P>(config: ReorderConfig) -> Bench<Reorder<P>> {
        Bench { rule: Reorder::new(config, 2).expect("a sound configuration") }
    }

    const CAP: Duration = Duration::from_millis(100);
    const FIXED: ReorderConfig = ReorderConfig::Fixed { timeout: Duration::from_millis(15), capacity: 64 };
    const ADAPTIVE: ReorderConfig = ReorderConfig::Adaptive { offset: Duration::from_millis(5), cap: CAP, capacity: 4096 };
    const EQUALISED: ReorderConfig = ReorderConfig::Equalised { cap: CAP, capacity: 4096 };
    const PROGRESS: ReorderConfig = ReorderConfig::Progress { max_delay: CAP, capacity: 4096 };

    /// Packets 0, 1, 2, ... sent one a millisecond on two paths in turn, path 1 by `lag` ms behind,
    /// but for those in `lost`; when each is given on.
    fn send(config: ReorderConfig, count: u32, lag: u64, lost: &[u32]) -> (Vec<(u32, u64)>, ReorderCounters) {
        pass(config, arrivals(count, lag).filter(|(.., n)| !lost.contains(n)).collect())
    }

    fn arrivals(count: u32, lag: u64) -> impl Iterator<Item = (u64, u8, u32)> {
        (0..count).map(move |n| (u64::from(n) + u64::from(n % 2) * lag, (n % 2) as u8, n))
    }

    /// The same of packets that come at so many milliseconds on a path.
    fn pass(config: ReorderConfig, mut arrivals: Vec<(u64, u8, u32)>) -> (Vec<(u32, u64)>, ReorderCounters) {
        let mut rule = bench(config);
        arrivals.sort_unstable();
        let mut out = Vec::new();
        for (at, path, number) in arrivals {
            while rule.timeout() < ms(at) {
                let due = rule.timeout().as_micros() / 1000;
                out.extend(rule.expire().into_iter().map(|n| (n, due)));
            }
            out.extend(rule.arrive(at, path, number).into_iter().map(|n| (n, at)));
        }
        while rule.timeout() != Instant::NEVER {
            let due = rule.timeout().as_micros() / 1000;
            out.extend(rule.expire().into_iter().map(|n| (n, due)));
        }
        (out, rule.counters())
    }

    fn out_of_order(given_on: &[(u32, u64)]) -> usize {
        given_on.windows(2).filter(|pair| pair[1].0 < pair[0].0).count()
    }

    #[test]
    fn without_a_rule_packets_are_given_on_as_they_come() {
        let (given_on, counters) = send(ReorderConfig::Off, 100, 20, &[]);
        assert_eq!((given_on.len(), counters.delivered), (100, 100));
        assert!(out_of_order(&given_on) > 20);
    }

    #[test]
    fn a_fixed_time_that_is_too_short_lets_packets_through_out_of_order() {
        let (in_order, _) = send(FIXED, 200, 10, &[]);
        assert_eq!((out_of_order(&in_order), in_order.len()), (0, 200));
        let (too_short, counters) = send(FIXED, 200, 40, &[]);
        assert_eq!(too_short.len(), 200, "late packets are given on");
        assert!(out_of_order(&too_short) > 20 && counters.late_delivered > 20, "{counters:?}");
    }

    #[test]
    fn the_adaptive_time_follows_the_paths() {
        let (given_on, counters) = send(ADAPTIVE, 400, 40, &[200]);
        let after = given_on.iter().position(|&(n, _)| n == 201).unwrap();
        assert_eq!(out_of_order(&given_on[100..]), 0);
        assert_eq!(counters.given_up_by_time, 1);
        // 201 comes at 241 ms on the slow path itself; 202, at 202 ms, waits for 200 in vain until
        // the time is up.
        assert_eq!(given_on[after + 1].0, 202);
        assert!((241..=202 + 40 + 5).contains(&given_on[after + 1].1), "{:?}", given_on[after + 1]);
    }

    #[test]
    fn as_many_packets_wait_as_there_is_room_for() {
        let mut rule = bench(FIXED);
        for number in 1..=64 {
            assert_eq!(rule.arrive(0, 0, number), [], "packet 0 may still come");
        }
        assert_eq!(rule.arrive(0, 0, 65), (1..=65).collect::<Vec<_>>(), "there is no room for one more");
    }

    #[test]
    fn equalisation_needs_no_gaps_and_holds_nobody_up() {
        let (given_on, counters) = send(EQUALISED, 1000, 40, &[500]);
        assert_eq!((counters.delivered, counters.given_up_by_time), (999, 0));
        assert_eq!(out_of_order(&given_on[200..]), 0);
        assert!(given_on[200..].iter().all(|&(n, at)| at - u64::from(n) <= 41), "each takes as long as the slow path");
    }

    #[test]
    fn a_loss_is_known_once_every_path_has_delivered_a_later_packet() {
        // On the slow path: nothing tells before the slow path's next packet.
        let (given_on, counters) = send(PROGRESS, 400, 40, &[201]);
        assert_eq!((out_of_order(&given_on), counters.given_up_as_lost, counters.given_up_by_time), (0, 1, 0));
        let at = |n| given_on.iter().find(|&&(number, _)| number == n).unwrap().1;
        assert_eq!(at(202), 203 + 40, "203 is the slow path's next");
        // On the fast path: it is known from that path before the slow one has come so far.
        let (given_on, counters) = send(PROGRESS, 400, 40, &[200]);
        assert_eq!((out_of_order(&given_on), counters.given_up_as_lost), (0, 1));
        assert_eq!(given_on.iter().find(|&&(number, _)| number == 201).unwrap().1, 201 + 40, "nobody waits for 200");
        // MPT waits for 300 ms more.
        let mpt = ReorderConfig::Mpt { window: 1600, max_delay: Duration::from_millis(300) };
        let (given_on, _) = send(mpt, 400, 40, &[201]);
        assert_eq!(given_on.iter().find(|&&(number, _)| number == 202).unwrap().1, 203 + 300);
    }

    #[test]
    fn a_packet_waits_no_longer_than_the_difference_in_delay_explains() {
        let mut rule = bench(PROGRESS);
        for n in 0..200 {
            rule.arrive(u64::from(n), 0, 2 * n);
            if n >= 20 {
                rule.arrive(u64::from(n), 1, 2 * (n - 20) + 1);
            }
        }
        // The slow path falls silent. Its packets were 19.5 ms behind, so a quarter more and 1 ms
        // is waited, from 362's arrival on.
        assert_eq!(rule.timeout(), ms(181) + Duration::from_micros(19_500 + 4_875 + 1_000));
        let given_on = rule.expire();
        assert_eq!((given_on[0], rule.counters().given_up_by_time), (362, 1), "361 was the next of the slow path");
        // It comes after all, and is given on.
        assert_eq!(rule.arrive(207, 1, 361), [361]);
        assert_eq!(rule.counters().late_delivered, 1);
    }

    #[test]
    fn a_path_that_is_down_is_not_waited_for() {
        let mut rule = bench(PROGRESS);
        rule.arrive(0, 0, 0);
        rule.arrive(0, 1, 1);
        assert_eq!(rule.arrive(2, 0, 3), [], "2 may be under way on path 1");
        assert_eq!(rule.path(3, 1, false), [3]);
        assert_eq!(rule.arrive(4, 0, 5), [5], "nothing that is up can bring 4");
        assert_eq!(rule.path(5, 1, true), []);
        assert_eq!(rule.arrive(6, 0, 7), []);
    }

    #[test]
    fn a_path_that_moves_packets_is_given_so_many_more() {
        let mut rule = bench(PROGRESS);
        for n in 0..10 {
            rule.arrive(0, (n % 2) as u8, n);
        }
        // Path 0 moves 10 behind 12 and 14: path 1 has passed both.
        rule.arrive(1, 1, 15);
        assert_eq!(rule.arrive(1, 0, 12), [12], "10 and 11 are taken for lost");
        rule.arrive(1, 0, 14);
        assert_eq!(rule.arrive(2, 0, 10), [10]);
        assert_eq!(rule.counters().late_delivered, 1);
        // The next time two later ones of path 0 tell nothing.
        for n in [17, 19, 21, 23, 25] {
            rule.arrive(3, 1, n);
        }
        rule.arrive(3, 0, 16);
        assert_eq!(rule.arrive(4, 0, 20), []);
        assert_eq!(rule.arrive(4, 0, 22), []);
        assert_eq!(rule.arrive(4, 0, 18), [18, 19, 20, 21, 22, 23]);
    }

    #[test]
    fn a_peer_that_counts_anew_is_noticed_and_numbers_may_wrap() {
        for config in [FIXED, ADAPTIVE, PROGRESS] {
            let mut rule = bench(config);
            let start = u32::MAX - 500;
            let given_on: Vec<_> = (0..1000).flat_map(|n| rule.arrive(u64::from(n), 0, start.wrapping_add(n))).collect();
            assert_eq!(given_on.len(), 1000, "{config:?}");
            assert_eq!(given_on.last(), Some(&498));
            let anew: Vec<_> = (0..20).flat_map(|n| rule.arrive(2000, (n % 2) as u8, n)).collect();
            assert_eq!((anew, rule.counters().restarts), ((0..20).collect(), 1), "{config:?}");
        }
    }

    #[test]
    fn forged_jumps_change_nothing() {
        for config in [FIXED, ADAPTIVE, EQUALISED, PROGRESS] {
            for every in [1_u32, 10, 200] {
                let genuine: Vec<_> = arrivals(2000, 10).collect();
                // Each far ahead of the one before it, as somebody sends them who does not know
                // where the numbers are.
                let forged = (1..=2000 / every).map(|n| (u64::from(n * every), (n % 2) as u8, n.wrapping_mul((1 << 22) + 5)));
                let forged: Vec<_> = forged.filter(|&(.., n)| n > 10_000 && n < u32::MAX - 10_000).collect();
                let (mut given_on, counters) = pass(config, [&genuine[..], &forged].concat());
                given_on.retain(|&(n, _)| n < 2000);
                assert_eq!((given_on, counters.restarts), (pass(config, genuine).0, 0), "{config:?}, every {every} ms");
            }
        }
    }

    #[test]
    fn a_peer_that_jumps_is_followed_and_nothing_is_lost() {
        for config in [FIXED, ADAPTIVE, EQUALISED, PROGRESS] {
            let mut rule = bench(config);
            let mut given_on: Vec<_> = (0..10_000).flat_map(|n| rule.arrive(u64::from(n), 0, n)).collect();
            // A long loss; and a number between each two of the new ones that somebody forged.
            for n in 0..1000 {
                given_on.extend(rule.arrive(20_000 + u64::from(n), 1, n << 22 | 1 << 31));
                given_on.extend(rule.arrive(20_000 + u64::from(n), 0, 50_000 + n));
            }
            given_on.retain(|n| *n < 1 << 31);
            assert_eq!(given_on, (0..10_000).chain(50_000..51_000).collect::<Vec<_>>(), "{config:?}");
            assert_eq!(rule.counters().restarts, u64::from(config != EQUALISED));
        }
    }

    #[test]
    fn senseless_configurations_are_refused() {
        let refused = |config, paths| Reorder::<u32>::new(config, paths).is_none();
        assert!(refused(ReorderConfig::Off, 0));
        assert!(refused(ReorderConfig::Mpt { window: 0, max_delay: CAP }, 2));
        assert!(refused(ReorderConfig::Progress { max_delay: CAP, capacity: (1 << 20) + 1 }, 2));
    }

    fn any_rule() -> impl Strategy<Value = ReorderConfig> {
        prop_oneof![Just(ReorderConfig::Off), Just(FIXED), Just(ADAPTIVE), Just(EQUALISED), Just(PROGRESS)]
    }

    proptest! {
        /// Whatever arrives in whatever order: no rule but MPT's loses a packet, and none gives one
        /// on twice.
        #[test]
        fn every_packet_is_given_on_once(
            config in any_rule(),
            arrivals in prop::collection::vec((0_u64..5, 0_u8..2, -20_i64..20), 1..400),
        ) {
            let mut rule = bench(config);
            let (mut now, mut sent, mut given_on) = (0, std::collections::BTreeSet::new(), Vec::new());
            for (number, (wait, path, shift)) in (0..).zip(arrivals) {
                now += wait;
                while rule.timeout() <= ms(now) {
                    given_on.extend(rule.expire());
                }
                // Shifted so that some come early and some late; each once.
                let number = 1000_i64 + number + shift;
                if sent.insert(number) {
                    given_on.extend(rule.arrive(now, path, number as u32));
                }
            }
            for _ in 0..1000 {
                if rule.timeout() == Instant::NEVER {
                    break;
                }
                given_on.extend(rule.expire());
            }
            prop_assert_eq!(rule.timeout(), Instant::NEVER, "everything leaves in the end");
            let counters = rule.counters();
            prop_assert_eq!(counters.delivered as usize, given_on.len());
            given_on.sort_unstable();
            given_on.dedup();
            prop_assert_eq!(counters.delivered as usize, given_on.len(), "none twice");
            prop_assert_eq!(counters.delivered, sent.len() as u64, "none is dropped");
        }

        /// Whatever is forged between them, in whatever runs: packets that come in order are all
        /// given on.
        #[test]
        fn forged_numbers_cost_no_packet(
            config in prop_oneof![Just(FIXED), Just(ADAPTIVE), Just(EQUALISED), Just(PROGRESS)],
            first: u32,
            between in prop::collection::vec((0_u64..50, 0_u32..20, prop_oneof![any::<u32>(), Just((1 << 22) + 5), 2000_u32..20_000]), 1..300),
        ) {
            let mut rule = bench(config).rule;
            let (mut now, mut given_on, mut forge) = (0, Vec::new(), 0_u32);
            let mut pass = |now, path, number, packet| {
                while rule.poll_timeout() <= ms(now) {
                    let due = rule.poll_timeout();
                    rule.handle_timeout(due);
                    given_on.extend(std::iter::from_fn(|| rule.poll_deliver()));
                }
                rule.handle_packet(ms(now), Arrival { path: PathId(path), seq: Seq::new(number), packet });
                given_on.extend(std::iter::from_fn(|| rule.poll_deliver()));
            };
            let count = between.len() as u32;
            for (number, (wait, run, jump)) in (0..).zip(between) {
                forge = forge.wrapping_add(jump);
                for n in 0..run {
                    pass(now, 1, first.wrapping_add(forge.wrapping_add(n)), None);
                }
                now += wait;
                pass(now, (number % 2) as u8, first.wrapping_add(number), Some(number));
            }
            pass(now + 10_000, 0, first.wrapping_add(count), Some(count));
            given_on.sort_unstable();
            let genuine: Vec<_> = given_on.into_iter().flatten().collect();
            prop_assert!(genuine.iter().copied().eq(0..=count), "{genuine:?}");
        }

        /// Whatever numbers a hostile peer sends, memory stays within the capacity and nothing
        /// panics.
        #[test]
        fn numbers_of_a_hostile_peer_do_no_harm(
            config in prop_oneof![any_rule(), Just(ReorderConfig::Mpt { window: 7, max_delay: CAP })],
            numbers in prop::collection::vec((0_u64..50, any::<u8>(), prop_oneof![any::<u32>(), 0_u32..100, (u32::MAX - 50)..=u32::MAX]), 1..300),
        ) {
            let mut rule = bench(config);
            let mut now = 0;
            for (wait, path, number) in numbers {
                now += wait;
                while rule.timeout() <= ms(now) {
                    rule.expire();
                }
                rule.arrive(now, path, number);
                prop_assert!(rule.timeout() > ms(now) || rule.timeout() == Instant::NEVER);
            }
        }
    }
}
