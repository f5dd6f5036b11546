//! `quinn` and `quinn-0.11.16`: the search of quinn, with its rule since August 2026 and with that
//! of the release 0.11.16.
//!
//! Source: what quinn-rs/quinn says of its MTU discovery: from 1200 bytes on it halves the range; a
//! probe that is lost is sent again, and after three the size is too large. It stops where a step
//! would be shorter than 20 bytes, after a last probe of the upper end if that is far enough away,
//! and begins anew ten minutes later. A burst of losses is suspicious if no packet of it was short
//! and none of the size in use has arrived since; after four of them everything begins anew at
//! 1200 bytes, a minute later. In 0.11.16 an arrival of the size in use clears no burst, only one
//! of a longer packet does, which is a probe: there ordinary losses of four round trips are taken
//! for a black hole. It believes no ICMP message. Here the interface's MTU is its upper end
//! (quinn's own is 1452 bytes).

use super::{Bounds, LossBurst, Path, Policy, Sysctls};
use polypath_base::{Bytes, Duration, Instant};

const BASE: Bytes = Bytes::new(1200);
/// RFC 8899 section 5.1.2: `MAX_PROBES`.
const MAX_PROBES: u8 = 3;
/// Shorter steps are not worth a probe.
const LEAST_CHANGE: u64 = 20;
const SEARCH_AGAIN: Duration = Duration::from_secs(600);
/// More suspicious bursts than this are a black hole.
const BLACK_HOLE_BURSTS: u8 = 3;
const BLACK_HOLE_COOLDOWN: Duration = Duration::from_secs(60);

/// The rule since August 2026.
pub type Quinn = QuinnRule<true>;
/// The rule of the release 0.11.16.
pub type Quinn0_11_16 = QuinnRule<false>;

/// State of a search; `SAME_SIZE_COUNTS`: packets of the size in use that arrive clear the bursts
/// of losses before them.
#[derive(Clone, Debug)]
pub struct QuinnRule<const SAME_SIZE_COUNTS: bool> {
    current: Bytes,
    ceiling: Bytes,
    phase: Phase,
    suspicious_bursts: u8,
}

#[derive(Copy, Clone, Debug)]
enum Phase {
    Initial,
    Searching(Range),
    /// Until then.
    Complete(Instant),
}

impl Phase {
    /// The range, if a probe of this size is out. One from before a black hole says nothing any
    /// more.
    fn awaits(&mut self, size: Bytes) -> Option<&mut Range> {
        match self {
            Self::Searching(range) if range.is_probe_out && range.last == size.get() => Some(range),
            _ => None,
        }
    }
}

#[derive(Copy, Clone, Debug)]
struct Range {
    low: u64,
    high: u64,
    last: u64,
    /// Probes of the last size that were lost.
    lost: u8,
    /// What to probe, as long as it is neither sent nor answered.
    next: Option<u64>,
    is_probe_out: bool,
}

impl Range {
    /// The size after the last one, which passed or did not.
    fn advance(&mut self, passed: bool) -> Option<u64> {
        if passed {
            self.low = self.last;
        } else {
            self.high = self.last - 1;
        }
        let middle = u64::midpoint(self.low, self.high);
        if middle.abs_diff(self.last) >= LEAST_CHANGE {
            return Some(middle);
        }
        (self.high.saturating_sub(self.last) >= LEAST_CHANGE).then_some(self.high)
    }
}

impl<const SAME_SIZE_COUNTS: bool> QuinnRule<SAME_SIZE_COUNTS> {
    /// A search that has yet to start.
    pub fn new(_sysctls: Sysctls) -> Self {
        Self { current: Bytes::MAX, ceiling: Bytes::ZERO, phase: Phase::Initial, suspicious_bursts: 0 }
    }

    fn is_due(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Initial => true,
            Phase::Searching(_) => false,
            Phase::Complete(until) => now >= until,
        }
    }
}

impl<const SAME_SIZE_COUNTS: bool> Policy for QuinnRule<SAME_SIZE_COUNTS> {
    fn on_start(&mut self, _now: Instant, bounds: Bounds) {
        *self = Self { current: BASE.min(bounds.ceiling), ceiling: bounds.ceiling, phase: Phase::Initial, suspicious_bursts: 0 };
    }

    fn largest(&self) -> Bytes {
        self.current
    }

    fn may_probe(&self) -> bool {
        !matches!(self.phase, Phase::Searching(Range { is_probe_out: true, .. }))
    }

    fn next_probe(&mut self, now: Instant, _path: Path) -> Option<Bytes> {
        if self.is_due(now) {
            let low = self.current.get();
            let mut range = Range { low, high: self.ceiling.get(), last: low, lost: 0, next: None, is_probe_out: false };
            range.next = range.advance(true);
            self.phase = Phase::Searching(range);
        }
        let Phase::Searching(range) = &self.phase else { return None };
        if range.next.is_none() {
            self.phase = Phase::Complete(now + SEARCH_AGAIN);
            return None;
        }
        range.next.map(Bytes::new)
    }

    fn on_probe_sent(&mut self, _now: Instant, size: Bytes) {
        if let Phase::Searching(range) = &mut self.phase {
            (range.last, range.is_probe_out) = (size.get(), true);
        }
    }

    fn on_probe_acked(&mut self, _now: Instant, size: Bytes) {
        self.suspicious_bursts = 0;
        if let Some(range) = self.phase.awaits(size) {
            self.current = size;
            (range.is_probe_out, range.lost) = (false, 0);
            range.next = range.advance(true);
        }
    }

    fn on_probe_lost(&mut self, _now: Instant, size: Bytes) {
        if let Some(range) = self.phase.awaits(size) {
            range.is_probe_out = false;
            range.lost += 1;
            range.next = Some(size.get());
            if range.lost == MAX_PROBES {
                range.lost = 0;
                range.next = range.advance(false);
            }
            debug_assert!(range.lost < MAX_PROBES, "a size is tried so often and no more");
        }
    }

    fn on_probe_forgotten(&mut self, size: Bytes) {
        if let Some(range) = self.phase.awaits(size) {
            range.is_probe_out = false;
        }
    }

    fn on_limit(&mut self, mtu: Bytes) {
        (self.ceiling, self.current) = (self.ceiling.min(mtu), self.current.min(mtu));
        if let Phase::Searching(range) = &mut self.phase {
            range.high = range.high.min(mtu.get());
        }
    }

    fn on_data_acked(&mut self, longest: Bytes) {
        if longest > self.current || (SAME_SIZE_COUNTS && longest == self.current) {
            self.suspicious_bursts = 0;
        }
    }

    fn on_data_lost(&mut self, now: Instant, burst: LossBurst) {
        let base = BASE.min(self.ceiling);
        if burst.shortest <= base {
            return;
        }
        self.suspicious_bursts += 1;
        debug_assert!(self.suspicious_bursts <= BLACK_HOLE_BURSTS + 1, "the burst that shows a black hole ends the search");
        if self.suspicious_bursts > BLACK_HOLE_BURSTS {
            (self.current, self.suspicious_bursts) = (base, 0);
            self.phase = Phase::Complete(now + BLACK_HOLE_COOLDOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Net;
    use super::*;

    fn net(ceiling: u64, passes: u64) -> Net<Quinn> {
        Net::new(Quinn::new(Sysctls::default()), ceiling, passes)
    }

    #[test]
    fn it_halves_the_range_and_tries_the_upper_end_last() {
        let mut net = net(1452, 1500);
        net.search(1452, |_| false);
        assert_eq!((net.probed.as_slice(), net.found()), ([1326, 1389, 1420, 1452].as_slice(), 1452));
    }

    #[test]
    fn each_size_is_tried_three_times() {
        let mut net = net(10_000, 1500);
        net.search(10_000, |_| false);
        let thrice = |size: u64| [size; 3];
        let expected =
            [5600, 3399, 2299, 1749].into_iter().flat_map(thrice).chain([1474]).chain([1611, 1542, 1507].into_iter().flat_map(thrice));
        assert_eq!((net.probed.clone(), net.found()), (expected.collect(), 1474));
    }

    #[test]
    fn four_suspicious_bursts_are_a_black_hole_and_a_minute_later_it_begins_anew() {
        let mut net = net(1500, 1500);
        net.search(1500, |_| false);
        assert!(net.found() >= 1480);
        let burst = LossBurst { shortest: Bytes::new(1400), longest: Bytes::new(1500), by_timeout: false };
        let short = LossBurst { shortest: Bytes::new(1200), ..burst };
        for _ in 0..3 {
            net.policy.on_data_lost(net.now, burst);
            net.policy.on_data_lost(net.now, short);
        }
        net.policy.on_data_acked(Bytes::new(1300));
        assert!(net.found() >= 1480);
        net.policy.on_data_lost(net.now, burst);
        assert_eq!((net.found(), net.round(1500, |_| false)), (1200, 0));
        net.now += BLACK_HOLE_COOLDOWN;
        net.search(1500, |_| false);
        assert!(net.found() >= 1480);
    }

    #[test]
    fn in_0_11_16_ordinary_losses_between_arrivals_of_the_same_size_are_a_black_hole() {
        fn found<const SAME_SIZE_COUNTS: bool>() -> u64 {
            let mut net = Net::new(QuinnRule::<SAME_SIZE_COUNTS>::new(Sysctls::default()), 1500, 1500);
            net.search(1500, |_| false);
            let size = Bytes::new(net.found());
            for _ in 0..4 {
                net.policy.on_data_lost(net.now, LossBurst { shortest: size, longest: size, by_timeout: false });
                net.policy.on_data_acked(size);
            }
            net.found()
        }
        assert_eq!((found::<false>(), found::<true>()), (1200, 1500));
    }
}
