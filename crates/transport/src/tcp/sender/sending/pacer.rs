//! Pacing: bursts leave no faster than a rate (Linux: `tcp_update_skb_after_send`).

use polypath_base::{Bytes, Duration, Instant, Rate};

/// Segments that leave unpaced at the start of a flow: the initial window (Linux: 10, in
/// `tcp_update_skb_after_send`).
const UNPACED_SEGMENTS: u64 = 10;

/// The time before which a paced flow sends nothing.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Pacer {
    /// When the next burst may leave (Linux: `tcp_wstamp_ns`); zero where nothing is paced.
    next: Instant,
    /// How late the burst in progress left, as far as it has not yet been made good.
    late: Duration,
}

impl Pacer {
    /// When the next burst may leave.
    #[inline]
    pub(in crate::tcp) fn next(&self) -> Instant {
        self.next
    }

    /// A segment with `len` bytes leaves, the `count`th with data: the next burst does once its
    /// time at `rate` has passed. A burst that left late makes up for it, but takes at least half
    /// of its time. Rate zero: not known yet.
    #[inline]
    pub(in crate::tcp) fn on_sent(&mut self, now: Instant, len: Bytes, rate: Rate, count: u64) {
        if self.next <= now {
            self.late = now.since(self.next);
            self.next = now;
        }
        debug_assert!(self.next >= now, "what leaves now takes its time from now on");
        if rate > Rate::default() && count >= UNPACED_SEGMENTS {
            let whole = rate.time_for(len);
            let made_good = (whole / 2).min(self.late);
            self.late = self.late - made_good;
            self.next += whole - made_good;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: Bytes = Bytes::new(1000);

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// 1000 bytes a millisecond.
    fn rate() -> Rate {
        Rate::from_bytes_per_sec(1_000_000)
    }

    #[test]
    fn each_segment_takes_its_time_at_the_rate() {
        let mut pacer = Pacer::default();
        pacer.on_sent(ms(0), LEN, rate(), 20);
        pacer.on_sent(ms(0), LEN, rate(), 21);
        assert_eq!(pacer.next(), ms(2));
    }

    #[test]
    fn a_late_burst_makes_up_for_it_by_half_of_its_time() {
        let mut pacer = Pacer::default();
        pacer.on_sent(ms(0), LEN, rate(), 20);
        pacer.on_sent(ms(4), LEN, rate(), 21);
        assert_eq!(pacer.next(), ms(4) + Duration::from_micros(500), "three milliseconds late");
        let mut punctual = Pacer::default();
        punctual.on_sent(ms(0), LEN, rate(), 20);
        punctual.on_sent(ms(1), LEN, rate(), 21);
        assert_eq!(punctual.next(), ms(2));
    }

    #[test]
    fn the_initial_window_is_not_paced_and_no_rate_paces_nothing() {
        let mut pacer = Pacer::default();
        (1..10).for_each(|count| pacer.on_sent(ms(3), LEN, rate(), count));
        pacer.on_sent(ms(3), LEN, Rate::default(), 30);
        assert_eq!(pacer.next(), ms(3));
    }
}
