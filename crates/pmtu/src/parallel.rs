//! `parallel`: likely sizes first, several of them in the network at once.
//!
//! Source: RFC 8899, with what its implementations taught one another: a table of likely sizes
//! (neqo), all of them at once (Tailscale), the largest first (picoquic), an upper end that several
//! losses alone can lower (quic-go). No project has exactly this; it is the project's own.
//!
//! Data go in packets of 1280 bytes from the start, which nearly every path passes, so that no
//! connection stands still while it searches. The first probes are 1500 bytes and the interface's
//! MTU. From then on there are three cases. Where likely sizes lie between what passes and what was
//! lost, up to two of them are probed. Where none does, a likely size that passes is taken for the
//! path's MTU, and what lies a little above is probed; if that passes too, thirds of what is left
//! are. Near the end the smallest size that was lost is probed again. The search is over when three
//! probes were lost within one part in 128 of what passes: one or two losses may be chance, and
//! cost no more than a probe. Ten minutes later it begins anew, also where the interface or the
//! route had said what it takes: that may be more by then.
//!
//! Which probes are lost is seen in what the peer acknowledges of later data, not by a timer. A
//! timeout of data says something only when nothing of their size has arrived for long: at once for
//! a size that never passed, at the second one in a row for a size that did.
//!
//! Probes take at most a hundredth of the bytes that the path carries in three to ten seconds, so a
//! slow path is searched more slowly.
//!
//! An ICMP message is a hint of what to probe next (RFC 8899 section 4.6.1). What passes stays in
//! use whatever it says, and what lies above it is probed all the same, so a forged one costs a few
//! probes. A size that never passed gives way to what a message says, but for less than 576 bytes.

use super::{Bounds, LEAST_MTU, LossBurst, Path, Policy, Sysctls};
use polypath_base::{Bytes, Duration, Instant};

/// What data begin with: IPv6's least MTU (RFC 8200 section 5), and that of the narrowest common
/// tunnels.
const BASE: u64 = 1280;
/// What to fall back to when nothing gets through, in this order after [`BASE`], but never below
/// the least MTU of the IP version.
const SMALLER: [u64; 4] = [576, 296, 128, LEAST_MTU.get()];
/// Ethernet's, probed first.
const ETHERNET: u64 = 1500;
/// Sizes that paths have: tunnels over Ethernet, FDDI, the jumbo frames of clouds and of Ethernet.
const LIKELY: [u64; 9] = [1280, 1400, 1420, 1436, 1464, 1492, 1500, 4352, 8000];
/// Most probes in the network.
const AT_ONCE: usize = 3;
/// Losses near a size that make it too large (RFC 8899 section 5.1.2: `MAX_PROBES`).
const MAX_PROBES: usize = 3;
/// A search that has ended begins anew after this (RFC 8899 section 5.1.1: `PMTU_RAISE_TIMER`).
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// In probes goes at most a hundredth of what a path carries, at the rate that it has had so far,
/// in this time: the shorter one at first, when slow start may promise too much, twice the time
/// that has passed more later, and at most the longer one. After that a hundredth of what it has
/// carried.
const SHARE: u64 = 100;
const HORIZON: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(10)];
/// So much always may: a probe of Ethernet's size and one of a jumbo frame.
const ALLOWANCE: u64 = ETHERNET + 9000;
/// Timeouts in a row after which a size that did pass is given up.
const TIMEOUTS: u8 = 2;
/// The same for bursts of losses that later packets revealed.
const BURSTS: u8 = 3;

/// State of a search.
#[derive(Clone, Debug)]
pub struct Parallel {
    /// Data go in packets of this size; it passes if `proven`.
    low: u64,
    proven: bool,
    /// Every path of this IP version passes so much.
    floor: u64,
    ceiling: u64,
    /// It was lowered below what was said at the beginning, and may rise again.
    is_lowered: bool,
    /// The smallest sizes that were lost, ascending; the first `lost_count` count.
    lost: [u64; MAX_PROBES],
    lost_count: usize,
    /// Probes in the network.
    out: [u64; AT_ONCE],
    out_count: usize,
    /// What a message said.
    hint: Option<u64>,
    started: Instant,
    /// In all probes, bytes.
    spent: u64,
    timeouts: u8,
    /// The shortest packet that timed out since one of its size arrived.
    timed_out: u64,
    bursts: u8,
    /// The search is over until then.
    complete_until: Option<Instant>,
}

impl Parallel {
    /// A search that has yet to start.
    pub fn new(_sysctls: Sysctls) -> Self {
        Self {
            low: u64::MAX,
            proven: false,
            floor: LEAST_MTU.get(),
            ceiling: 0,
            is_lowered: false,
            lost: [0; MAX_PROBES],
            lost_count: 0,
            out: [0; AT_ONCE],
            out_count: 0,
            hint: None,
            started: Instant::ZERO,
            spent: 0,
            timeouts: 0,
            timed_out: u64::MAX,
            bursts: 0,
            complete_until: None,
        }
    }

    fn lost(&self) -> &[u64] {
        &self.lost[..self.lost_count]
    }

    fn out(&self) -> &[u64] {
        &self.out[..self.out_count]
    }

    /// How exactly the path's MTU is to be known.
    fn step(&self) -> u64 {
        (self.low / 128).max(8)
    }

    /// The smallest size that may not pass.
    fn suspect(&self) -> u64 {
        self.lost().first().copied().unwrap_or(self.ceiling + 1)
    }

    /// The smallest size that does not pass, for certain.
    fn limit(&self) -> u64 {
        self.lost().get(MAX_PROBES - 1).copied().unwrap_or(self.ceiling + 1)
    }

    fn is_complete(&self) -> bool {
        self.low >= self.ceiling || self.limit() <= self.low + self.step()
    }

    fn note_lost(&mut self, size: u64) {
        if size <= self.low {
            return; // it passes: that was chance
        }
        let place = self.lost().partition_point(|&lost| lost <= size);
        if place < MAX_PROBES {
            self.lost[place..].rotate_right(1);
            self.lost[place] = size;
            self.lost_count = (self.lost_count + 1).min(MAX_PROBES);
        }
        debug_assert!(self.lost().is_sorted() && self.lost().iter().all(|&lost| lost > self.low), "what passes is not among the lost");
    }

    /// Losses of what passes were chance.
    fn forget_passed(&mut self) {
        let passed = self.lost().partition_point(|&lost| lost <= self.low);
        self.lost.rotate_left(passed);
        self.lost_count -= passed;
        debug_assert!(self.suspect() > self.low, "what passes is not suspected");
    }

    fn take_out(&mut self, size: u64) {
        if let Some(place) = self.out().iter().position(|&out| out == size) {
            self.out[place..].rotate_left(1);
            self.out_count -= 1;
        }
    }

    /// The sizes worth a probe now, the best first; those in the network among them.
    fn candidates(&self) -> [Option<u64>; AT_ONCE] {
        let (low, suspect, step) = (self.low, self.suspect(), self.step());
        if self.lost_count == 0 && low < ETHERNET && self.ceiling > ETHERNET {
            return [self.hint, Some(ETHERNET), Some(self.ceiling)].map(|size| size.filter(|&size| size > low));
        }
        if self.lost_count == 0 {
            // The largest size alone is open.
            return [Some(self.ceiling), None, None];
        }
        if let Some(hint) = self.hint.filter(|&hint| hint > low && hint < suspect) {
            return [Some(hint), Some(hint + step).filter(|&above| above < suspect), None];
        }
        if suspect <= low + step {
            // Was it chance?
            let again = (MAX_PROBES - self.lost().iter().filter(|&&lost| lost <= low + step).count()).min(AT_ONCE);
            let mut sizes = [None; AT_ONCE];
            sizes[..again].fill(Some(suspect));
            return sizes;
        }
        let mut likely = LIKELY.iter().copied().filter(|&size| size > low && size < suspect);
        let count = likely.clone().count();
        let above = Some(low + step).filter(|_| LIKELY.contains(&low) || self.hint == Some(low));
        match count {
            0 if above.is_some() => [above, None, None],
            0 => [low + (suspect - low) / 3, low + 2 * (suspect - low) / 3, 0].map(|size| Some(size).filter(|&size| size > low)),
            1 | 2 => [likely.next(), likely.next(), above],
            _ => {
                let (third, two_thirds) = (likely.clone().nth(count / 3), likely.nth(2 * count / 3));
                [third, two_thirds, None]
            }
        }
    }

    /// Nothing gets through: a smaller size is used. What was in use is searched for anew; if
    /// packets of it are among the lost (`is_lost`), it may be too large.
    fn fall_back(&mut self, is_lost: bool) {
        let size = [BASE].into_iter().chain(SMALLER).find(|&size| size < self.low).unwrap_or(self.low).max(self.floor).min(self.low);
        let was = std::mem::replace(&mut self.low, size);
        (self.proven, self.bursts, self.complete_until) = (false, 0, None);
        self.forget_timeouts();
        if is_lost {
            self.note_lost(was);
        }
    }

    fn forget_timeouts(&mut self) {
        (self.timeouts, self.timed_out) = (0, u64::MAX);
    }

    /// Whether a probe of this size is worth its bytes.
    fn affords(&self, now: Instant, size: u64, path: Path) -> bool {
        let elapsed = now.since(self.started).max(path.srtt).as_nanos().max(1);
        let horizon = (HORIZON[0].as_nanos() + 2 * elapsed).min(HORIZON[1].as_nanos()).max(elapsed);
        let carries = u128::from(path.arrived.get()) * u128::from(horizon) / u128::from(elapsed);
        u128::from(self.spent + size) <= (carries / u128::from(SHARE)).max(u128::from(ALLOWANCE))
    }
}

impl Policy for Parallel {
    fn on_start(&mut self, now: Instant, bounds: Bounds) {
        let ceiling = bounds.ceiling.get();
        *self = Self { low: BASE.min(ceiling), floor: bounds.floor.get(), ceiling, started: now, ..Self::new(Sysctls::default()) };
    }

    fn largest(&self) -> Bytes {
        Bytes::new(self.low)
    }

    #[inline]
    fn may_probe(&self) -> bool {
        self.out_count < AT_ONCE && (self.low < self.ceiling || self.is_lowered)
    }

    fn next_probe(&mut self, now: Instant, path: Path) -> Option<Bytes> {
        if let Some(until) = self.complete_until {
            if now < until {
                return None;
            }
            (self.lost_count, self.hint, self.complete_until) = (0, None, None);
            (self.ceiling, self.is_lowered) = (path.bounds.ceiling.get(), false);
        }
        if self.is_complete() {
            self.complete_until = Some(now + RAISE_AFTER);
            return None;
        }
        if !self.proven && self.lost_count > 0 {
            return None; // first what is in use has to pass
        }
        // As often as a size stands among the candidates it may be in the network.
        let candidates = self.candidates();
        let wanted = |size: u64| candidates.iter().filter(|&&other| other == Some(size)).count();
        let is_out = |size: u64| self.out().iter().filter(|&&out| out == size).count();
        let mut sizes = candidates.iter().flatten().copied();
        let size = sizes.find(|&size| is_out(size) < wanted(size) && self.affords(now, size, path));
        debug_assert!(size.is_none_or(|size| self.low < size && size <= self.ceiling), "a probe tells something new");
        size.map(Bytes::new)
    }

    fn on_probe_sent(&mut self, _now: Instant, size: Bytes) {
        debug_assert!(self.out_count < AT_ONCE, "there is room for a probe where one is wanted");
        self.spent += size.get();
        if self.out_count < AT_ONCE {
            self.out[self.out_count] = size.get();
            self.out_count += 1;
        }
    }

    fn on_probe_acked(&mut self, _now: Instant, size: Bytes) {
        self.take_out(size.get());
        if size.get() > self.low {
            (self.low, self.proven, self.bursts) = (size.get(), true, 0);
            self.forget_timeouts();
            self.forget_passed();
        }
    }

    fn on_probe_lost(&mut self, _now: Instant, size: Bytes) {
        self.take_out(size.get());
        self.note_lost(size.get());
    }

    fn on_probe_forgotten(&mut self, size: Bytes) {
        self.take_out(size.get());
    }

    fn on_limit(&mut self, mtu: Bytes) {
        let mtu = mtu.get().max(self.floor);
        self.is_lowered |= mtu < self.ceiling;
        (self.ceiling, self.low) = (self.ceiling.min(mtu), self.low.min(mtu));
    }

    fn on_hint(&mut self, mtu: Bytes) {
        let mtu = mtu.get();
        // RFC 8899 section 4.6.1: only what lies between what passes and what does not can be true.
        if mtu > self.low && mtu < self.limit() {
            self.hint = Some(mtu);
        } else if mtu < self.low && !self.proven {
            // What is in use never passed, so it may be true too; if it is not, what arrives next
            // shows that.
            self.low = mtu.max(SMALLER[0]).max(self.floor).min(self.low);
            self.hint = Some(self.low);
        }
    }

    fn on_data_acked(&mut self, longest: Bytes) {
        if longest.get() >= self.timed_out {
            self.forget_timeouts();
        }
        if longest.get() >= self.low {
            (self.proven, self.bursts) = (true, 0);
            self.forget_timeouts();
        }
    }

    fn on_data_lost(&mut self, _now: Instant, burst: LossBurst) {
        let longest = burst.longest.get();
        if burst.by_timeout {
            // A shorter packet may be too long too: the path may pass even less.
            (self.timeouts, self.timed_out) = (self.timeouts + 1, self.timed_out.min(longest));
        } else if longest >= self.low {
            self.bursts += 1;
        }
        if self.timeouts >= if self.proven { TIMEOUTS } else { 1 } || self.bursts >= BURSTS {
            self.fall_back(longest >= self.low);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Net, path};
    use super::*;

    const TIMEOUT: LossBurst = LossBurst { shortest: Bytes::new(1), longest: Bytes::new(9000), by_timeout: true };

    /// Data of the size in use have arrived.
    fn net(ceiling: u64, passes: u64) -> Net<Parallel> {
        let mut net = Net::new(Parallel::new(Sysctls::default()), ceiling, passes);
        assert_eq!(net.found(), BASE.min(ceiling));
        if passes >= BASE {
            net.policy.on_data_acked(Bytes::new(BASE));
        }
        net
    }

    fn searched(ceiling: u64, passes: u64) -> (Vec<u64>, usize, u64) {
        let mut net = net(ceiling, passes);
        let rounds = net.search(ceiling, |_| false);
        (net.probed.clone(), rounds, net.found())
    }

    #[test]
    fn the_likely_cases_take_a_round_trip_or_three() {
        assert_eq!(searched(9000, 9000), (vec![1500, 9000], 1, 9000));
        assert_eq!(searched(1500, 1500), (vec![1500], 1, 1500));
        assert_eq!(searched(9000, 1500), (vec![1500, 9000, 4352, 8000, 1511, 1511, 1511], 3, 1500));
        assert_eq!(searched(9000, 8000), (vec![1500, 9000, 4352, 8000, 1511, 8062, 8062, 8062], 4, 8000));
        assert_eq!(searched(1280, 1280), (vec![], 0, 1280));
    }

    #[test]
    fn each_tunnel_is_found_exactly_and_with_few_probes() {
        for passes in LIKELY {
            let (probed, rounds, found) = searched(9000, passes);
            assert_eq!(found, passes, "{probed:?}");
            assert!(probed.len() <= 14 && rounds <= 7, "{passes}: {probed:?} in {rounds}");
        }
    }

    #[test]
    fn any_path_is_found_within_a_part_in_128() {
        for ceiling in [1500, 4470, 9000, 65_535] {
            for passes in (1280..=ceiling).step_by(37) {
                let (probed, rounds, found) = searched(ceiling, passes);
                assert!(found <= passes && passes - found <= found / 128 + 1 + 8, "{ceiling}, {passes}: {found}, {probed:?}");
                assert!(probed.len() <= 30 && rounds <= 14, "{passes}: {probed:?} in {rounds}");
            }
        }
    }

    #[test]
    fn two_random_losses_do_no_harm() {
        for passes in [1280, 1464, 1500, 3000, 9000] {
            for [first, second] in (0..8).flat_map(|first| (0..8).map(move |second| [first, second])) {
                let (mut net, mut number) = (net(9000, passes), 0);
                net.search(9000, |_| {
                    number += 1;
                    [first, second].contains(&(number - 1))
                });
                assert!(passes - net.found() <= passes / 128 + 9, "{passes}: {}, {:?}", net.found(), net.probed);
            }
        }
    }

    #[test]
    fn a_size_that_never_passed_is_given_up_at_the_first_timeout() {
        let mut net = net(9000, 1000);
        net.round(9000, |_| false);
        net.policy.on_data_lost(net.now, TIMEOUT);
        assert_eq!((net.found(), net.round(9000, |_| false)), (576, 0), "what is in use has to pass first");
        net.policy.on_data_acked(Bytes::new(576));
        net.search(9000, |_| false);
        assert!(net.found() > 990, "{}: {:?}", net.found(), net.probed);
    }

    #[test]
    fn a_size_that_passed_is_given_up_at_the_second_timeout_and_searched_for_anew() {
        let mut net = net(9000, 9000);
        net.search(9000, |_| false);
        net.policy.on_data_lost(net.now, TIMEOUT);
        net.policy.on_data_acked(Bytes::new(9000));
        net.policy.on_data_lost(net.now, TIMEOUT);
        assert_eq!(net.found(), 9000, "some of them arrived");
        net.passes = 1500;
        net.policy.on_data_lost(net.now, TIMEOUT);
        assert_eq!(net.found(), BASE);
        net.policy.on_data_acked(Bytes::new(BASE));
        net.search(9000, |_| false);
        assert_eq!(net.found(), 1500);
    }

    #[test]
    fn a_message_is_a_hint_and_a_forged_one_costs_a_few_probes() {
        for says in [0, 68, 1000, 1400, 1499, 3000, 8999, 9000, 65_535] {
            let mut net = net(9000, 4000);
            net.policy.on_hint(Bytes::new(says));
            net.round(9000, |_| false);
            net.policy.on_hint(Bytes::new(says));
            net.search(9000, |_| false);
            assert!(4000 - net.found() <= 40, "{says}: {}, {:?}", net.found(), net.probed);
            assert!(net.probed.len() <= 30, "{says}: {:?}", net.probed);
        }
        let mut told = net(9000, 1372);
        told.round(9000, |_| false);
        told.policy.on_hint(Bytes::new(1372));
        assert_eq!((told.search(9000, |_| false), told.found()), (2, 1372));
    }

    #[test]
    fn a_message_is_believed_of_a_size_that_never_passed() {
        let after = |says| {
            let mut net = Net::new(Parallel::new(Sysctls::default()), 9000, 640);
            net.policy.on_hint(Bytes::new(says));
            net.found()
        };
        assert_eq!((after(640), after(68), after(1300)), (640, SMALLER[0], BASE));
        let mut net = net(9000, 9000);
        net.policy.on_hint(Bytes::new(640));
        assert_eq!(net.found(), BASE, "1280 bytes have passed");
        let mut forged = Net::new(Parallel::new(Sysctls::default()), 9000, 9000);
        forged.policy.on_hint(Bytes::new(68));
        forged.policy.on_data_acked(Bytes::new(SMALLER[0]));
        assert!(forged.search(9000, |_| false) <= 3 && forged.found() == 9000, "{:?}", forged.probed);
    }

    #[test]
    fn ten_minutes_later_it_looks_for_more() {
        let mut net = net(9000, 1500);
        net.search(9000, |_| false);
        net.passes = 9000;
        net.search(9000, |_| false);
        assert_eq!(net.found(), 1500);
        net.now += RAISE_AFTER;
        assert_eq!(net.policy.next_probe(net.now, path(9000)), Some(Bytes::new(9000)));
        net.search(9000, |_| false);
        assert_eq!(net.found(), 9000);
    }

    #[test]
    fn a_limit_holds_for_ten_minutes_and_not_for_ever() {
        // Below what was in use, the same, and above it.
        for limit in [1400, 1500, 4000] {
            let mut net = net(9000, 1500);
            net.search(9000, |_| false);
            net.policy.on_limit(Bytes::new(limit));
            let (found, probes) = (net.found(), net.probed.len());
            assert_eq!(found, limit.min(1500));
            // The interface has its MTU again, and the path passes more than ever.
            net.passes = 9000;
            for _ in 0..100 {
                net.round(9000, |_| false);
            }
            assert_eq!((net.found(), net.probed.len()), (found, probes), "it is believed");
            net.now += RAISE_AFTER;
            net.search(9000, |_| false);
            assert_eq!(net.found(), 9000, "{limit}");
        }
    }

    #[test]
    fn an_interface_that_stays_narrow_costs_no_probes() {
        let mut net = net(9000, 9000);
        net.search(9000, |_| false);
        net.policy.on_limit(Bytes::new(1500));
        let probes = net.probed.len();
        for _ in 0..10 {
            // Its own route says now what it passes.
            net.now += RAISE_AFTER;
            net.search(1500, |_| false);
            net.policy.on_limit(Bytes::new(1500));
        }
        assert_eq!((net.found(), net.probed.len()), (1500, probes));
    }
}
