//! `msquic-linear`: the search of msquic.
//!
//! Source: what microsoft/msquic says of its MTU discovery: from 1280 bytes on it goes up by 80,
//! and tries 1500 in place of 1520. A probe that is lost is sent again; after three of one size the
//! search is over. It begins anew ten minutes later at what it has found (RFC 8899 section 5.1.1:
//! `PMTU_RAISE_TIMER`). It looks for no black holes, and believes no ICMP message. Here the
//! interface's MTU is its upper end.

use super::{Bounds, Path, Policy, Sysctls};
use polypath_base::{Bytes, Duration, Instant};

const BASE: Bytes = Bytes::new(1280);
const INCREMENT: Bytes = Bytes::new(80);
/// RFC 8899 section 5.1.2: `MAX_PROBES`.
const MAX_PROBES: u8 = 3;
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// State of a search.
#[derive(Clone, Debug)]
pub struct MsquicLinear {
    current: Bytes,
    ceiling: Bytes,
    is_probe_out: bool,
    /// Probes of the next size that were lost.
    lost: u8,
    /// The search is over until then.
    complete_until: Option<Instant>,
}

impl MsquicLinear {
    /// A search that has yet to start.
    pub fn new(_sysctls: Sysctls) -> Self {
        Self { current: Bytes::MAX, ceiling: Bytes::ZERO, is_probe_out: false, lost: 0, complete_until: None }
    }

    fn next_size(&self) -> Bytes {
        match self.current + INCREMENT {
            next if next > self.ceiling => self.ceiling,
            next if next == Bytes::new(1520) => Bytes::new(1500),
            next => next,
        }
    }
}

impl Policy for MsquicLinear {
    fn on_start(&mut self, _now: Instant, bounds: Bounds) {
        *self = Self { current: BASE.min(bounds.ceiling), ceiling: bounds.ceiling, ..Self::new(Sysctls::default()) };
    }

    fn largest(&self) -> Bytes {
        self.current
    }

    fn may_probe(&self) -> bool {
        !self.is_probe_out && self.current < self.ceiling
    }

    fn next_probe(&mut self, now: Instant, _path: Path) -> Option<Bytes> {
        if let Some(until) = self.complete_until {
            if now < until {
                return None;
            }
            (self.complete_until, self.lost) = (None, 0);
        }
        debug_assert!(self.current < self.next_size(), "a probe is longer than what passes");
        Some(self.next_size())
    }

    fn on_probe_sent(&mut self, _now: Instant, _size: Bytes) {
        self.is_probe_out = true;
    }

    fn on_probe_acked(&mut self, now: Instant, size: Bytes) {
        (self.current, self.is_probe_out, self.lost) = (size, false, 0);
        if size == self.ceiling {
            self.complete_until = Some(now + RAISE_AFTER);
        }
    }

    fn on_probe_lost(&mut self, now: Instant, _size: Bytes) {
        self.is_probe_out = false;
        self.lost += 1;
        debug_assert!(self.lost <= MAX_PROBES, "the search is over after the last probe");
        if self.lost == MAX_PROBES {
            self.complete_until = Some(now + RAISE_AFTER);
        }
    }

    fn on_probe_forgotten(&mut self, _size: Bytes) {
        self.is_probe_out = false;
    }

    fn on_limit(&mut self, mtu: Bytes) {
        self.ceiling = self.ceiling.min(mtu);
        self.current = self.current.min(mtu);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Net;
    use super::*;

    fn net(ceiling: u64, passes: u64) -> Net<MsquicLinear> {
        Net::new(MsquicLinear::new(Sysctls::default()), ceiling, passes)
    }

    #[test]
    fn it_goes_up_by_80_over_1500() {
        let mut net = net(1500, 1500);
        assert_eq!((net.search(1500, |_| false), net.probed.as_slice()), (3, [1360, 1440, 1500].as_slice()));
        let mut net = self::net(9000, 1500);
        net.search(9000, |_| false);
        assert_eq!((net.probed.as_slice(), net.found()), ([1360, 1440, 1500, 1580, 1580, 1580].as_slice(), 1500));
    }

    #[test]
    fn a_jumbo_path_takes_ninety_four_probes() {
        let mut net = net(9000, 9000);
        assert_eq!((net.search(9000, |_| false), net.found()), (97, 9000));
    }

    #[test]
    fn three_losses_of_a_size_end_it_and_it_goes_on_ten_minutes_later() {
        let mut net = net(9000, 9000);
        let mut losses = 0;
        net.search(9000, |size| {
            losses += u32::from(size == 1440);
            size == 1440 && losses <= 3
        });
        assert_eq!((net.probed.as_slice(), net.found()), ([1360, 1440, 1440, 1440].as_slice(), 1360));
        net.now += RAISE_AFTER;
        net.search(9000, |_| false);
        assert_eq!((net.probed[4], net.found()), (1440, 9000));
    }
}
