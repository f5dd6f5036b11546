//! `table`: the search of neqo 0.13 to 0.20. From 0.21 on (December 2025) lost data count no more,
//! so that it finds no black hole.
//!
//! Source: what mozilla/neqo says of its path MTU discovery, with the table of Custura, Fairhurst
//! and Learmonth, "Exploring usable path MTU in the Internet" (TMA 2018): size by size upwards,
//! until three packets longer than a size are lost; then that size it is. Losses of data count as
//! losses of probes do, and packets that arrive clear the losses of their size, so a black hole is
//! found by three losses. It begins anew ten minutes later. It believes no ICMP message. Here sizes
//! above the interface's MTU are left out.

use super::{Bounds, LossBurst, Path, Policy, Sysctls};
use polypath_base::{Bytes, Duration, Instant};

const SIZES: [u64; 11] = [1280, 1380, 1420, 1472, 1500, 2047, 4095, 8191, 16_383, 32_767, 65_535];
/// RFC 8899 section 5.1.2: `MAX_PROBES`.
const MAX_PROBES: u8 = 3;
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// State of a search.
#[derive(Clone, Debug)]
pub struct Table {
    ceiling: Bytes,
    /// Place of the size in use.
    at: usize,
    is_started: bool,
    is_probe_out: bool,
    /// Packets longer than each size that were lost.
    lost: [u8; SIZES.len()],
    /// The search is over until then.
    complete_until: Option<Instant>,
}

impl Table {
    /// A search that has yet to start.
    pub fn new(_sysctls: Sysctls) -> Self {
        Self { ceiling: Bytes::ZERO, at: 0, is_started: false, is_probe_out: false, lost: [0; SIZES.len()], complete_until: None }
    }

    fn next_size(&self) -> Option<Bytes> {
        SIZES.get(self.at + 1).map(|&size| Bytes::new(size)).filter(|&size| size <= self.ceiling)
    }

    fn note_lost(&mut self, now: Instant, size: Bytes) {
        for (count, shorter) in self.lost.iter_mut().zip(SIZES) {
            *count = count.saturating_add(u8::from(size > Bytes::new(shorter)));
        }
        if let Some(passes) = self.lost.iter().rposition(|&count| count >= MAX_PROBES) {
            self.at = self.at.min(passes);
            self.lost = [0; SIZES.len()];
            self.complete_until = Some(now + RAISE_AFTER);
        }
        debug_assert!(self.lost.iter().all(|&count| count < MAX_PROBES), "what was lost so often ends the search");
    }

    fn note_acked(&mut self, size: Bytes) {
        for (count, shorter) in self.lost.iter_mut().zip(SIZES) {
            if size > Bytes::new(shorter) {
                *count = 0;
            }
        }
    }
}

impl Policy for Table {
    fn on_start(&mut self, _now: Instant, bounds: Bounds) {
        *self = Self { ceiling: bounds.ceiling, is_started: true, ..Self::new(Sysctls::default()) };
    }

    fn largest(&self) -> Bytes {
        if self.is_started { Bytes::new(SIZES[self.at]).min(self.ceiling) } else { Bytes::MAX }
    }

    fn may_probe(&self) -> bool {
        !self.is_probe_out && self.next_size().is_some()
    }

    fn next_probe(&mut self, now: Instant, _path: Path) -> Option<Bytes> {
        if self.complete_until.is_some_and(|until| now < until) {
            return None;
        }
        self.complete_until = None;
        self.next_size()
    }

    fn on_probe_sent(&mut self, _now: Instant, _size: Bytes) {
        self.is_probe_out = true;
    }

    fn on_probe_acked(&mut self, _now: Instant, size: Bytes) {
        self.is_probe_out = false;
        self.at += usize::from(self.next_size() == Some(size));
        self.note_acked(size);
    }

    fn on_probe_lost(&mut self, now: Instant, size: Bytes) {
        self.is_probe_out = false;
        self.note_lost(now, size);
    }

    fn on_probe_forgotten(&mut self, _size: Bytes) {
        self.is_probe_out = false;
    }

    fn on_limit(&mut self, mtu: Bytes) {
        self.ceiling = self.ceiling.min(mtu);
    }

    fn on_data_acked(&mut self, longest: Bytes) {
        self.note_acked(longest);
    }

    fn on_data_lost(&mut self, now: Instant, burst: LossBurst) {
        self.note_lost(now, burst.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Net;
    use super::*;

    fn net(ceiling: u64, passes: u64) -> Net<Table> {
        Net::new(Table::new(Sysctls::default()), ceiling, passes)
    }

    #[test]
    fn it_goes_up_the_table() {
        let mut net = net(9000, 9000);
        net.search(9000, |_| false);
        assert_eq!((net.probed.as_slice(), net.found()), ([1380, 1420, 1472, 1500, 2047, 4095, 8191].as_slice(), 8191));
    }

    #[test]
    fn three_losses_end_it() {
        let mut net = net(9000, 1492);
        net.search(9000, |_| false);
        assert_eq!((net.probed.as_slice(), net.found()), ([1380, 1420, 1472, 1500, 1500, 1500].as_slice(), 1472));
        net.passes = 9000;
        net.now += RAISE_AFTER;
        net.search(9000, |_| false);
        assert_eq!(net.found(), 8191, "ten minutes later");
    }

    #[test]
    fn data_that_is_lost_three_times_without_any_that_arrives_is_a_black_hole() {
        let mut net = net(1500, 1500);
        net.search(1500, |_| false);
        let burst = LossBurst { shortest: Bytes::new(1500), longest: Bytes::new(1500), by_timeout: true };
        for arrives in [true, false] {
            for _ in 0..3 {
                net.policy.on_data_lost(net.now, burst);
                if arrives {
                    net.policy.on_data_acked(Bytes::new(1500));
                }
            }
        }
        assert_eq!(net.found(), 1472, "the next size below");
    }
}
