//! `linux`: the search of Linux's TCP (`tcp_mtu_probe`, `tcp_mtup_probe_success`,
//! `tcp_mtup_probe_failed`, `tcp_mtu_probing`).
//!
//! Source: RFC 4821 for the method, the kernel's page on its sysctls for the numbers, measurements
//! for the rest (`specs/notes/mtu-probing`). Data go in packets of the lower end of the range, and
//! a packet of the middle of the range is sent now and then. If it arrives, the lower end rises; if
//! it alone is lost, the upper end falls. One probe is in the network at a time.

use super::{Bounds, Path, Policy, Sysctls};
use polypath_base::{Bytes, Instant};

/// State of the search of one connection (Linux: `icsk_mtup`).
#[derive(Clone, Debug)]
pub struct Linux {
    sysctls: Sysctls,
    enabled: bool,
    /// Packets of `low` bytes pass, packets of more than `high` bytes do not (Linux: `search_low`,
    /// `search_high`).
    low: Bytes,
    high: Bytes,
    /// A probe is in the network.
    is_probe_out: bool,
    /// When the search began (Linux: `probe_timestamp`).
    since: Instant,
}

impl Linux {
    /// A search that has yet to start.
    pub fn new(sysctls: Sysctls) -> Self {
        Self { sysctls, enabled: false, low: Bytes::ZERO, high: Bytes::ZERO, is_probe_out: false, since: Instant::ZERO }
    }
}

impl Policy for Linux {
    fn on_start(&mut self, now: Instant, bounds: Bounds) {
        self.enabled = self.sysctls.mtu_probing > 1;
        (self.low, self.high, self.is_probe_out, self.since) = (bounds.base, bounds.ceiling, false, now);
    }

    #[inline]
    fn largest(&self) -> Bytes {
        if self.enabled { self.low } else { Bytes::MAX }
    }

    #[inline]
    fn may_probe(&self) -> bool {
        self.enabled && !self.is_probe_out
    }

    fn next_probe(&mut self, now: Instant, Path { bounds, .. }: Path) -> Option<Bytes> {
        if self.high < self.low + self.sysctls.probe_threshold {
            if now.since(self.since) >= self.sysctls.probe_interval {
                (self.low, self.high, self.since) = (bounds.base, bounds.ceiling, now);
            }
            return None;
        }
        Some(Bytes::new(u64::midpoint(self.high.get(), self.low.get())))
    }

    fn on_probe_sent(&mut self, _now: Instant, _size: Bytes) {
        debug_assert!(!self.is_probe_out, "one probe is in the network at a time");
        self.is_probe_out = true;
    }

    fn on_probe_acked(&mut self, _now: Instant, size: Bytes) {
        debug_assert!(size >= self.low, "a probe is no shorter than what passes");
        (self.low, self.is_probe_out) = (size, false);
    }

    fn on_probe_lost(&mut self, _now: Instant, size: Bytes) {
        (self.high, self.is_probe_out) = (size - Bytes::new(1), false);
    }

    fn on_probe_forgotten(&mut self, _size: Bytes) {
        self.is_probe_out = false;
    }

    #[inline]
    fn is_linux(&self) -> bool {
        true
    }

    fn on_limit(&mut self, mtu: Bytes) {
        self.high = self.high.min(mtu);
    }

    /// The search begins, or goes on further down, with half of the data of what passes, at most
    /// `tcp_base_mss`.
    fn on_black_hole(&mut self, now: Instant, bounds: Bounds) {
        if self.sysctls.mtu_probing == 0 {
            return;
        }
        if self.enabled {
            let half = Bytes::new(self.low.saturating_sub(bounds.headers).get() / 2);
            let data = half.min(bounds.base.saturating_sub(bounds.headers)).max(self.sysctls.probe_floor);
            self.low = data + bounds.headers;
        } else {
            self.enabled = true;
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LEAST_MTU;
    use polypath_base::Duration;

    const BOUNDS: Bounds = Bounds { floor: LEAST_MTU, base: Bytes::new(1076), ceiling: Bytes::new(9000), headers: Bytes::new(52) };
    const PATH: Path = Path { bounds: BOUNDS, srtt: Duration::ZERO, arrived: Bytes::ZERO };

    fn started(mtu_probing: u8, bounds: Bounds) -> Linux {
        let mut linux = Linux::new(Sysctls { mtu_probing, ..Sysctls::default() });
        linux.on_start(Instant::ZERO, bounds);
        linux
    }

    /// Searches a path that passes packets of up to `passes` bytes; the sizes that were tried, and
    /// what was found.
    fn search(passes: u64) -> (Vec<u64>, u64) {
        let (mut linux, mut tried) = (started(2, BOUNDS), Vec::new());
        while let Some(size) = linux.next_probe(Instant::ZERO, PATH) {
            tried.push(size.get());
            linux.on_probe_sent(Instant::ZERO, size);
            assert!(!linux.may_probe(), "one at a time");
            if size <= Bytes::new(passes) {
                linux.on_probe_acked(Instant::ZERO, size);
            } else {
                linux.on_probe_lost(Instant::ZERO, size);
            }
        }
        (tried, linux.largest().get())
    }

    #[test]
    fn it_halves_the_range_until_it_is_narrow() {
        assert_eq!(search(1500), (vec![5038, 3056, 2065, 1570, 1322, 1445, 1507, 1475, 1490, 1498, 1502], 1498));
        for passes in [1076, 1280, 4352, 9000] {
            let (tried, found) = search(passes);
            assert!(found <= passes && passes - found < 16, "{passes}: {found}");
            assert!(tried.len() <= 11, "{tried:?}");
        }
    }

    #[test]
    fn a_suspected_black_hole_begins_the_search_and_then_lowers_it() {
        let mut linux = started(1, BOUNDS);
        assert_eq!((linux.largest(), linux.may_probe()), (Bytes::MAX, false));
        let mut sizes = [(); 12].map(|()| {
            linux.on_black_hole(Instant::ZERO, BOUNDS);
            linux.largest().get()
        });
        assert_eq!(sizes[..3], [1076, 52 + 512, 52 + 256]);
        sizes.reverse();
        assert_eq!(sizes[0], 52 + 48);
        assert!(linux.may_probe());
    }

    #[test]
    fn without_the_sysctl_no_search_begins() {
        let mut linux = started(0, BOUNDS);
        linux.on_black_hole(Instant::ZERO, BOUNDS);
        assert_eq!((linux.largest(), linux.may_probe()), (Bytes::MAX, false));
    }

    #[test]
    fn a_finished_search_begins_anew_after_ten_minutes() {
        let mut linux = started(2, Bounds { base: Bytes::new(8995), ..BOUNDS });
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        assert_eq!((linux.next_probe(at(599), PATH), linux.low), (None, Bytes::new(8995)));
        assert_eq!((linux.next_probe(at(600), PATH), linux.low), (None, BOUNDS.base));
        assert_eq!(linux.next_probe(at(600), PATH), Some(Bytes::new(5038)));
    }

    #[test]
    fn what_does_not_pass_bounds_the_search() {
        let mut linux = started(2, BOUNDS);
        linux.on_limit(Bytes::new(1500));
        linux.on_limit(Bytes::new(4000));
        assert_eq!(linux.next_probe(Instant::ZERO, PATH), Some(Bytes::new(1288)));
    }
}
