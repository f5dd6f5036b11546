//! `default`: the scheduler of Linux.
//!
//! It takes the subflow that would drain its send queue soonest: queued bytes over an averaged
//! pacing rate, the "linger time". The chosen subflow gets a burst of up to 64 KiB. Congestion
//! windows are not asked: a subflow may queue as much as its send buffer takes, so a burst waits
//! there, and if the chosen subflow's buffer is full, none sends.

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, MAX_SUBFLOWS, PathView, SubflowSet};
use polypath_base::Bytes;

/// Shortest linger time first.
#[derive(Copy, Clone, Debug, Default)]
pub struct LinuxDefault {
    /// Pacing rate of each subflow, averaged over the bytes that it got, byte/s; 0 before its first
    /// choice.
    rate: [u64; MAX_SUBFLOWS],
}

/// What is queued, bytes, over the rate at which it drains, byte/s and never 0. Linux compares
/// whole numbers of 2^-32 s.
#[derive(Copy, Clone, Debug)]
struct Linger {
    queued: Bytes,
    rate: u64,
}

impl Linger {
    #[inline]
    fn is_shorter_than(self, other: Self) -> bool {
        let own = u128::from(self.queued.get()) * u128::from(other.rate);
        let others = u128::from(other.queued.get()) * u128::from(self.rate);
        if own >= others {
            return false;
        }
        // Where the times themselves lie further apart than their unit, so do the whole numbers,
        // and no division is needed.
        let unit = (u128::from(self.rate) * u128::from(other.rate)) >> 32;
        others - own > unit || self.whole() < other.whole()
    }

    fn whole(self) -> u64 {
        (self.queued.get() << 32) / self.rate
    }
}

impl LinuxDefault {
    /// Largest burst: 64 KiB less room for headers (TCP 20, its options 40, IPv6 40 and a fragment
    /// header 8).
    pub const BURST: Bytes = Bytes::new((1 << 16) - 20 - 40 - 40 - 8);
}

impl Policy for LinuxDefault {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        // The chosen one must have room, so without any room there is nothing to choose; this is
        // the common case by far.
        if queue.end == queue.next || !subflows.iter().any(|s| s.room && s.usable) {
            return None;
        }
        // Best active subflow and best backup, with their linger times.
        let mut best: [Option<(Linger, usize)>; 2] = [None; 2];
        let mut any_active = false;
        for ((i, s), rate) in subflows.iter().enumerate().zip(&mut self.rate) {
            if !s.usable {
                continue;
            }
            any_active |= !s.backup;
            if *rate == 0 {
                *rate = s.pacing_rate.as_bytes_per_sec();
            }
            if *rate == 0 {
                continue;
            }
            let linger = Linger { queued: s.queued, rate: *rate };
            let slot = &mut best[usize::from(s.backup)];
            if slot.is_none_or(|(least, _)| linger.is_shorter_than(least)) {
                *slot = Some((linger, i));
            }
        }
        let (_, i) = best[usize::from(!any_active)]?;
        let s = subflows.get(i).filter(|s| s.room)?;
        let burst = queue.window_left().min(Self::BURST);
        debug_assert!(s.usable && self.rate[i] > 0, "a subflow that may be chosen has a rate");
        if burst > Bytes::ZERO {
            // Weighted mean of the old rate over what is queued and of the current rate over the
            // burst. Rates stay below 2^34 byte/s and weights below 2^29 bytes, so the products
            // fit.
            let (queued, burst) = (s.queued.get(), burst.get());
            self.rate[i] = (self.rate[i] * queued + s.pacing_rate.as_bytes_per_sec() * burst) / (queued + burst);
        }
        Some(Choice { subflow: i, from: queue.next, limit: Limit::Bytes(burst) })
    }

    #[inline]
    fn schedules_bursts(&self) -> bool {
        true
    }

    /// Every subflow that could be chosen has been looked at once.
    #[inline]
    fn has_met(&self, subflows: &[PathView], changed: SubflowSet) -> bool {
        subflows.iter().zip(&self.rate).enumerate().all(|(i, (s, &rate))| rate > 0 || !(s.usable || changed.has(i)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::{DataSeq, Rate};

    const DATA: DataQueueView = DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(1 << 20), ..DataQueueView::EMPTY };

    /// `pacing_rate` in bytes a second.
    fn subflow(queued: u64, pacing_rate: u64) -> PathView {
        let pacing_rate = Rate::from_bytes_per_sec(pacing_rate);
        PathView { queued: Bytes::new(queued), pacing_rate, mss: Bytes::new(1000), usable: true, room: true, ..PathView::default() }
    }

    #[test]
    fn linger_times_compare_as_whole_numbers() {
        // A row of numbers that jump about, from a multiplicative generator.
        let mut state = 1_u64;
        let mut draw = |bits: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> (64 - bits)
        };
        let (mut shorter, mut near) = (0, 0);
        for round in 0..100_000 {
            let a = Linger { queued: Bytes::new(draw(29)), rate: draw(34) + 1 };
            // Every other time nearly the same: twice the queue at about twice the rate.
            let b = match round % 2 {
                0 => Linger { queued: Bytes::new(a.queued.get() * 2), rate: a.rate * 2 - draw(1) },
                _ => Linger { queued: Bytes::new(draw(29)), rate: draw(34) + 1 },
            };
            assert_eq!(a.is_shorter_than(b), a.whole() < b.whole(), "{a:?} {b:?}");
            shorter += u32::from(a.is_shorter_than(b));
            near += u32::from(a.whole() == b.whole());
        }
        assert!(shorter > 10_000 && near > 10_000, "both answers, and ties: {shorter} {near}");
    }

    #[test]
    fn the_queue_that_drains_first_wins() {
        // 100 kB at 10 MB/s drain in 10 ms, 50 kB at 1 MB/s in 50 ms.
        let flows = [subflow(50_000, 1_000_000), subflow(100_000, 10_000_000)];
        assert_eq!(
            LinuxDefault::default().pick(&flows, &DATA),
            Some(Choice { subflow: 1, from: DataSeq::new(0), limit: Limit::Bytes(LinuxDefault::BURST) })
        );
    }

    #[test]
    fn a_full_buffer_of_the_chosen_one_stops_everything() {
        let flows = [subflow(50_000, 1_000_000), PathView { room: false, ..subflow(0, 1_000_000) }];
        assert_eq!(LinuxDefault::default().pick(&flows, &DATA), None);
    }

    #[test]
    fn the_rate_is_an_average_over_bytes() {
        let mut s = LinuxDefault::default();
        s.pick(&[subflow(0, 1_000_000)], &DATA);
        assert_eq!(s.rate[0], 1_000_000);
        // 65428 bytes queued at the old rate and a burst of as many at three times the rate: twice
        // the rate.
        s.pick(&[subflow(LinuxDefault::BURST.get(), 3_000_000)], &DATA);
        assert_eq!(s.rate[0], 2_000_000);
    }

    #[test]
    fn backup_only_without_an_active_one() {
        let backup = PathView { backup: true, ..subflow(0, 1_000_000) };
        assert_eq!(LinuxDefault::default().pick(&[subflow(900_000, 1_000), backup], &DATA).map(|c| c.subflow), Some(0));
        let gone = PathView { usable: false, ..subflow(0, 1_000) };
        assert_eq!(LinuxDefault::default().pick(&[gone, backup], &DATA).map(|c| c.subflow), Some(1));
    }

    #[test]
    fn bursts_end_with_the_window_of_the_peer() {
        assert_eq!(
            LinuxDefault::default().pick(&[subflow(0, 1)], &DataQueueView { window_end: DataSeq::new(500), ..DATA }).map(|c| c.limit),
            Some(Limit::Bytes(Bytes::new(500)))
        );
    }
}
