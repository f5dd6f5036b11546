//! Proportional rate reduction (RFC 6937; Linux: `tcp_cwnd_reduction`): the window shrinks in step
//! with what is delivered.

use crate::stack::PrrBound;

/// Segments delivered and sent since the reduction began.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Prr {
    delivered: u32,
    out: u32,
}

/// What an ACK brought during a reduction.
#[derive(Copy, Clone, Debug, Default)]
pub(in crate::tcp) struct Delivered {
    /// Segments newly acknowledged, cumulatively or not.
    pub(in crate::tcp) segments: u32,
    /// Segments newly marked lost.
    pub(in crate::tcp) newly_lost: u32,
    pub(in crate::tcp) advances_una: bool,
    /// One of the segments was in the network as a retransmission.
    pub(in crate::tcp) acks_retransmission: bool,
    /// A retransmission was found lost.
    pub(in crate::tcp) proves_retransmission_lost: bool,
}

impl Prr {
    /// A reduction begins.
    pub(in crate::tcp) fn start(&mut self) {
        *self = Self::default();
    }

    /// A segment leaves while the window is reduced.
    #[inline]
    pub(in crate::tcp) fn on_sent(&mut self) {
        self.out += 1;
    }

    /// The congestion window after an ACK, segments, where `in_flight` are in the network and the
    /// window goes from `prior_cwnd` to `ssthresh`: RFC 6937 section 3, with the bound of the
    /// kernel once fewer than `ssthresh` are in the network. `None`: nothing was delivered, so it
    /// stays.
    pub(in crate::tcp) fn cwnd(&mut self, by: Delivered, in_flight: u32, ssthresh: u32, prior_cwnd: u32, bound: PrrBound) -> Option<u32> {
        if by.segments == 0 {
            return None;
        }
        self.delivered += by.segments;
        let delta = i64::from(ssthresh) - i64::from(in_flight);
        let (done, out) = (i64::from(self.delivered), i64::from(self.out));
        let send = if delta < 0 {
            (u64::from(ssthresh) * u64::from(self.delivered)).div_ceil(u64::from(prior_cwnd.max(1))) as i64 - out
        } else {
            let delivered = i64::from(by.segments);
            let slow_start = (done - out).max(delivered) + 1;
            let bound = match bound {
                PrrBound::ByRetransmissions if by.acks_retransmission && !by.proves_retransmission_lost => slow_start,
                PrrBound::ByRetransmissions => delivered,
                PrrBound::ByProgress if by.advances_una && by.newly_lost == 0 => slow_start,
                PrrBound::ByProgress => slow_start - 1,
            };
            bound.min(delta)
        };
        // A fast retransmission leaves in any case.
        let send = send.max(i64::from(out == 0));
        debug_assert!(send <= i64::from(self.delivered) + 1 || delta < 0, "no more leaves than was delivered, and one");
        Some((i64::from(in_flight) + send).max(1) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Delivered {
        Delivered { segments: 1, ..Delivered::default() }
    }

    /// RFC 6937 section 4: 20 segments, half of them to be taken off, the first lost; each of the
    /// 19 others is acknowledged selectively.
    #[test]
    fn every_other_delivery_lets_a_segment_go() {
        let mut prr = Prr::default();
        let mut in_flight = 19;
        let mut sent = Vec::new();
        for _ in 0..16 {
            in_flight -= 1;
            let cwnd = prr.cwnd(one(), in_flight, 10, 20, PrrBound::ByProgress).expect("something was delivered");
            let go = cwnd.saturating_sub(in_flight);
            (0..go).for_each(|_| prr.on_sent());
            in_flight += go;
            sent.push(go);
        }
        assert_eq!(sent.iter().sum::<u32>(), 8, "half of what was delivered");
        assert!(sent.iter().all(|&go| go <= 1), "{sent:?}");
        assert_eq!(in_flight, 11);
    }

    #[test]
    fn nothing_delivered_changes_nothing() {
        assert_eq!(Prr::default().cwnd(Delivered::default(), 5, 10, 20, PrrBound::ByProgress), None);
    }

    #[test]
    fn below_the_threshold_the_kernels_differ() {
        let cwnd = |bound, by| {
            let mut prr = Prr::default();
            prr.on_sent();
            prr.cwnd(by, 4, 10, 20, bound)
        };
        let progress = Delivered { advances_una: true, ..one() };
        let repaired = Delivered { acks_retransmission: true, ..one() };
        assert_eq!([one(), progress, repaired].map(|by| cwnd(PrrBound::ByProgress, by)), [Some(5), Some(6), Some(5)]);
        assert_eq!([one(), progress, repaired].map(|by| cwnd(PrrBound::ByRetransmissions, by)), [Some(5), Some(5), Some(6)]);
        let lossy = Delivered { newly_lost: 1, ..progress };
        assert_eq!(cwnd(PrrBound::ByProgress, lossy), Some(5));
    }

    #[test]
    fn the_first_retransmission_leaves_however_much_is_in_the_network() {
        assert_eq!(Prr::default().cwnd(one(), 100, 1, 200, PrrBound::ByProgress), Some(101));
    }
}
