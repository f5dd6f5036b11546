//! `quic-go`: the search of quic-go.
//!
//! Source: what quic-go/quic-go (0.45 of June 2024, and later) says of its MTU discoverer: from
//! 1280 bytes on it halves the range, a probe in five round trips, until the ends are 21 bytes
//! apart. It remembers the three smallest sizes that were lost; the interface's MTU is the first of
//! them. After a loss it aims below the smallest, else below the largest. So two random losses do
//! no harm. It looks for no black holes, and believes no ICMP message.

use super::{Bounds, Path, Policy, Sysctls};
use polypath_base::{Bytes, Instant};

const BASE: Bytes = Bytes::new(1280);
/// A search that is so near stops.
const MAX_DIFF: Bytes = Bytes::new(20);
/// Round trips between probes.
const PROBE_DELAY: u64 = 5;
/// So many smallest sizes that were lost are kept.
const LOST: usize = 3;

/// State of a search.
#[derive(Clone, Debug)]
pub struct QuicGo {
    min: Bytes,
    /// Sizes that were lost, ascending; the largest is the upper end.
    lost: [Option<Bytes>; LOST],
    last_was_lost: bool,
    is_probe_out: bool,
    last_probe: Instant,
}

impl QuicGo {
    /// A search that has yet to start.
    pub fn new(_sysctls: Sysctls) -> Self {
        Self { min: Bytes::MAX, lost: [None; LOST], last_was_lost: false, is_probe_out: false, last_probe: Instant::ZERO }
    }

    fn max(&self) -> Bytes {
        self.lost.iter().flatten().next_back().copied().unwrap_or(self.min)
    }
}

impl Policy for QuicGo {
    fn on_start(&mut self, now: Instant, bounds: Bounds) {
        let lost = [Some(bounds.ceiling), None, None];
        *self = Self { min: BASE.min(bounds.ceiling), lost, last_probe: now, ..Self::new(Sysctls::default()) };
    }

    fn largest(&self) -> Bytes {
        self.min
    }

    fn may_probe(&self) -> bool {
        !self.is_probe_out && self.max().saturating_sub(self.min) > MAX_DIFF + Bytes::new(1)
    }

    fn next_probe(&mut self, now: Instant, path: Path) -> Option<Bytes> {
        if now < self.last_probe + path.srtt * PROBE_DELAY {
            return None;
        }
        let above = if self.last_was_lost { self.lost[0].unwrap_or_default() } else { self.max() };
        Some(Bytes::new(u64::midpoint(self.min.get(), above.get()))).filter(|&size| size > self.min)
    }

    fn on_probe_sent(&mut self, now: Instant, _size: Bytes) {
        (self.is_probe_out, self.last_probe) = (true, now);
    }

    fn on_probe_acked(&mut self, _now: Instant, size: Bytes) {
        (self.min, self.is_probe_out, self.last_was_lost) = (size, false, false);
        // Smaller ones were lost by chance.
        let mut larger = self.lost.into_iter().flatten().filter(|&lost| lost > size);
        self.lost = [(); LOST].map(|()| larger.next());
        debug_assert!(self.max() >= self.min, "the search stays between its ends");
    }

    fn on_probe_lost(&mut self, _now: Instant, size: Bytes) {
        (self.is_probe_out, self.last_was_lost) = (false, true);
        if let Some(place) = self.lost.iter().position(|lost| lost.is_none_or(|lost| size < lost)) {
            self.lost[place..].rotate_right(1);
            self.lost[place] = Some(size);
        }
        debug_assert!(self.lost.iter().flatten().is_sorted(), "the smallest size that was lost stands first");
    }

    fn on_probe_forgotten(&mut self, _size: Bytes) {
        self.is_probe_out = false;
    }

    fn on_limit(&mut self, mtu: Bytes) {
        self.min = self.min.min(mtu);
        self.lost.iter_mut().flatten().for_each(|lost| *lost = (*lost).min(mtu));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Net, RTT, path};
    use super::*;

    fn net(ceiling: u64, passes: u64) -> Net<QuicGo> {
        Net::new(QuicGo::new(Sysctls::default()), ceiling, passes)
    }

    #[test]
    fn it_halves_the_range() {
        let mut to_1500 = net(1500, 1500);
        to_1500.search(1500, |_| false);
        assert_eq!((to_1500.probed.as_slice(), to_1500.found()), ([1390, 1445, 1472, 1486].as_slice(), 1486));
    }

    #[test]
    fn below_a_jumbo_interface_a_narrow_path_takes_many_losses() {
        let mut net = net(9000, 1500);
        net.search(9000, |_| false);
        assert_eq!(net.probed, [5140, 3210, 2245, 1762, 1521, 1400, 1822, 1460, 1641, 1490, 1626, 1505, 1497, 1561, 1501, 1499, 1510]);
        assert_eq!(net.found(), 1499);
    }

    #[test]
    fn a_probe_leaves_every_five_round_trips() {
        let mut net = net(9000, 9000);
        assert_eq!(net.policy.next_probe(Instant::ZERO + RTT * 4, path(9000)), None);
        assert_eq!(net.policy.next_probe(Instant::ZERO + RTT * 5, path(9000)), Some(Bytes::new(5140)));
        // Nine probes; the first round trip is the first round.
        assert_eq!((net.search(9000, |_| false), net.probed.len()), (46, 9));
    }

    #[test]
    fn two_random_losses_do_no_harm() {
        for lost in 0..8 {
            for also in 0..8 {
                let (mut net, mut number) = (net(3000, 3000), 0);
                net.search(3000, |_| {
                    number += 1;
                    number - 1 == lost || number - 1 == also
                });
                assert!(net.found() > 2978, "{lost}, {also}: {:?}", net.probed);
            }
        }
    }
}
