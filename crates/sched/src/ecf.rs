//! `ecf`: earliest completion first.
//!
//! Source: Lim, Nahum, Towsley, Gibbens, "ECF: An MPTCP path scheduler to manage heterogeneous
//! paths", CoNEXT 2017.
//!
//! Idea: when the fastest subflow's window is full, a slower one may still be the wrong choice:
//! what it carries may arrive after the fast one, left alone, would have been done with everything.
//! With k bytes waiting, f the fastest subflow and s the one that minRTT would choose, the fast one
//! needs about (1 + k / window_f) round trips. If that is less than one round trip of s (and the
//! spread of the round-trip times), and s would need two of f's round trips at least, none sends
//! and f is waited for. Having decided to wait makes waiting again a quarter more attractive (the
//! paper's beta), so that the choice does not flap.
//!
//! As in MPTCP 0.96: the spread is half of Linux's `rttvar`, which never falls below half of the
//! least retransmission timeout (100 ms), where the paper has the standard deviation; k counts as a
//! window at least. Its products of microseconds and bytes are 32 bits wide and overflow from some
//! 4 MB·ms on, a window of 100 kB at 40 ms: on most paths its decisions are then as good as drawn.
//! [`Ecf::overflowing`] repeats that. Difference from it: neither a backup subflow nor one in the
//! Loss state is waited for.

use crate::minrtt::{self, MinRtt};
use crate::policy::{Policy, Quirks};
use crate::view::{Choice, DataQueueView, PathView};
use polypath_base::Bytes;

/// Waits for the fastest subflow where that completes earlier.
#[derive(Copy, Clone, Debug, Default)]
pub struct Ecf {
    /// The last decision was to wait.
    waiting: bool,
    /// Products overflow as in MPTCP 0.96.
    overflows: bool,
}

/// Inverse of the hysteresis beta = 1/4. A larger one flaps more between waiting and sending.
const BETA_INVERSE: u128 = 4;

impl Policy for Ecf {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        let choice = MinRtt.pick(subflows, queue)?;
        let slow = &subflows[choice.subflow];
        let fastest = minrtt::fastest(subflows, slow.backup)?;
        // Of two that are as fast, a kernel takes the newer one; the other has room too.
        let waits = fastest != choice.subflow && !subflows[fastest].takes_data();
        if waits && self.waits(&subflows[fastest], slow, queue.waiting()) {
            return None;
        }
        Some(choice)
    }

    fn with(self, quirks: Quirks) -> Self {
        if quirks.ecf_overflows { Self::overflowing() } else { self }
    }
}

/// A product of MPTCP 0.96.
fn narrow(product: u128) -> u128 {
    product & u128::from(u32::MAX)
}

impl Ecf {
    /// The scheduler whose products overflow.
    pub fn overflowing() -> Self {
        Self { overflows: true, ..Self::default() }
    }

    /// Whether the `fast` subflow alone is done with `waiting` bytes before the `slow` one could
    /// help. Times in microseconds (below 2^32), amounts in bytes (below 2^64): the products fit
    /// into 128 bits.
    fn waits(&mut self, fast: &PathView, slow: &PathView, waiting: Bytes) -> bool {
        let fit = if self.overflows { narrow } else { |product| product };
        let window = |s: &PathView| u128::from((s.cwnd * s.mss).get());
        let rtt = |s: &PathView| u128::from(s.srtt.as_micros());
        debug_assert!(slow.takes_data() && !fast.takes_data(), "only a full subflow is waited for");
        let spread = u128::from(fast.rttvar.max(slow.rttvar).as_micros() >> 1);
        let (window_f, window_s) = (window(fast), window(slow));
        let waiting = u128::from(waiting.get());
        let (on_fast, on_slow) = (waiting.max(window_f), waiting.max(window_s));
        let alone = fit(rtt(fast) * (on_fast + window_f));
        let helped = fit(window_f * (rtt(slow) + spread));
        if BETA_INVERSE * alone >= (BETA_INVERSE + u128::from(self.waiting)) * helped {
            self.waiting = false;
            return false;
        }
        // The paper's second test leaves the memory of the last decision alone where it fails.
        let too_slow = fit(rtt(slow) * on_slow) >= fit(window_s * (2 * rtt(fast) + spread));
        self.waiting |= too_slow;
        too_slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::fixtures::subflow;
    use polypath_base::{DataSeq, Duration};

    fn waiting(bytes: u64) -> DataQueueView {
        DataQueueView { end: DataSeq::new(bytes), window_end: DataSeq::new(1 << 30), ..DataQueueView::EMPTY }
    }

    #[test]
    fn little_data_waits_for_the_fast_subflow() {
        // Two round trips of 10 ms alone, against one of 100 ms.
        let flows = [subflow(100, 0), subflow(10, 10)];
        assert_eq!(Ecf::default().pick(&flows, &waiting(5_000)), None);
        assert_eq!(Ecf::default().pick(&[subflow(100, 0), subflow(10, 9)], &waiting(5_000)).map(|c| c.subflow), Some(1));
    }

    #[test]
    fn one_of_two_equals_is_not_kept_waiting_for_the_other() {
        let flows = [PathView { wins_ties: true, rttvar: Duration::from_millis(200), ..subflow(10, 0) }; 2];
        // Having waited, and with what round trips may vary: it would wait again.
        let mut ecf = Ecf { waiting: true, ..Ecf::default() };
        assert_eq!(ecf.pick(&flows, &waiting(123_000)).map(|c| c.subflow), Some(1));
    }

    #[test]
    fn much_data_uses_both() {
        // Eleven round trips of 10 ms alone, against one of 100 ms.
        let flows = [subflow(100, 0), subflow(10, 10)];
        assert_eq!(Ecf::default().pick(&flows, &waiting(100_000)).map(|c| c.subflow), Some(0));
    }

    #[test]
    fn having_waited_makes_waiting_likelier() {
        // 1 + 95/10 round trips are 105 ms: more than 100 ms, less than 125 ms.
        let flows = [subflow(100, 0), subflow(10, 10)];
        let mut ecf = Ecf::default();
        assert!(ecf.pick(&flows, &waiting(95_000)).is_some());
        assert!(ecf.pick(&flows, &waiting(5_000)).is_none());
        assert!(ecf.pick(&flows, &waiting(95_000)).is_none(), "the same as at first, but it has waited");
        assert!(ecf.pick(&flows, &waiting(200_000)).is_some());
        assert!(ecf.pick(&flows, &waiting(95_000)).is_some(), "forgotten");
    }

    #[test]
    fn the_kernel_of_v0_overflows() {
        // Alone 10 ms * 215 kB = 2^31 and more, fits; helped 100 ms * 10 kB fits too: it sends.
        // With 432 kB the product is 2^32 and a little, which counts as that little: it waits.
        let flows = [subflow(100, 0), subflow(10, 10)];
        assert!(Ecf::overflowing().pick(&flows, &waiting(215_000)).is_some());
        assert!(Ecf::overflowing().pick(&flows, &waiting(432_000)).is_none());
        assert!(Ecf::default().pick(&flows, &waiting(432_000)).is_some());
    }

    #[test]
    fn alike_subflows_are_never_waited_for() {
        // 20 ms against 18: the slow one is done before two round trips of the fast one.
        let flows = [subflow(20, 0), subflow(18, 10)];
        assert_eq!(Ecf::default().pick(&flows, &waiting(5_000)).map(|c| c.subflow), Some(0));
    }

    #[test]
    fn where_round_trips_spread_the_fast_subflow_is_waited_for() {
        // Two and a half round trips of 10 ms alone, against one of 25 ms: it waits only if that
        // may be one of 40 ms.
        let slow = PathView { rttvar: Duration::from_millis(30), ..subflow(25, 0) };
        assert_eq!(Ecf::default().pick(&[slow, subflow(10, 10)], &waiting(15_000)), None);
        assert!(Ecf::default().pick(&[subflow(25, 0), subflow(10, 10)], &waiting(15_000)).is_some());
    }

    #[test]
    fn a_backup_is_not_waited_for() {
        let flows = [subflow(100, 0), PathView { backup: true, ..subflow(10, 10) }];
        assert_eq!(Ecf::default().pick(&flows, &waiting(5_000)).map(|c| c.subflow), Some(0));
    }
}
