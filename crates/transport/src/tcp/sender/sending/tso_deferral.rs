//! TSO deferral (Linux: `tcp_tso_should_defer`): a burst waits for the next ACK if that lets a
//! larger one leave.

use polypath_base::{Duration, Instant};

/// Linux defers a burst only if the last one left less than this ago.
const DEFER_WITHIN: Duration = Duration::from_millis(1);

/// The burst that would leave now.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct NextBurst {
    /// Lost segments are being repaired, or a timeout is.
    pub(in crate::tcp) is_recovering: bool,
    /// When the last burst left, or may leave by pacing if that is later.
    pub(in crate::tcp) last_left: Instant,
    pub(in crate::tcp) mss: u32,
    /// Congestion window and what of it is in the network, segments.
    pub(in crate::tcp) cwnd: u32,
    pub(in crate::tcp) in_flight: u32,
    /// The peer's window and what is free of it, bytes; `u32::MAX` where it does not count.
    pub(in crate::tcp) snd_wnd: u32,
    pub(in crate::tcp) send_room: u32,
    /// A burst may be deferred while less than this share of the window is free.
    pub(in crate::tcp) divisor: u32,
    /// Segments of the longest burst.
    pub(in crate::tcp) most: u32,
    /// Bytes in the buffer that leaves next, and whether no other waits behind it.
    pub(in crate::tcp) waiting: u32,
    pub(in crate::tcp) is_last: bool,
    /// The application may add to it: it has not ended.
    pub(in crate::tcp) may_grow: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Deferral {
    Leaves,
    /// Until more of the congestion window is free.
    WaitsForCwnd,
    /// Until more of the peer's window is free.
    WaitsForPeer,
    /// The application may add to the burst before the next ACK.
    WaitsForMore,
}

/// Whether the burst leaves. `head`: when the first unacknowledged segment left; `srtt_us`:
/// smoothed RTT, microseconds times 8; `within`: the kernel's own bound of how far away the next
/// ACK may be.
#[inline(always)]
pub(in crate::tcp) fn deferral(
    now: Instant,
    burst: &NextBurst,
    head: impl FnOnce() -> Option<Instant>,
    srtt_us: u32,
    within: Option<Duration>,
) -> Deferral {
    if burst.is_recovering || now.since(burst.last_left) > DEFER_WITHIN {
        return Deferral::Leaves;
    }
    let &NextBurst { mss, cwnd, send_room, waiting, .. } = burst;
    let window_room = (cwnd - burst.in_flight).saturating_mul(mss);
    let limit = send_room.min(window_room);
    let peer = burst.snd_wnd.max(if send_room == u32::MAX { u32::MAX } else { 0 });
    let chunk = peer.min(cwnd.saturating_mul(mss)) / burst.divisor;
    if limit >= burst.most.saturating_mul(mss) || limit >= chunk || (!burst.is_last && limit >= waiting) {
        return Deferral::Leaves;
    }
    let Some(head) = head() else { return Deferral::Leaves };
    let srtt = Duration::from_nanos(u64::from(srtt_us) * 125);
    let half = srtt / 2;
    let threshold = within.map_or(half, |within| half.min(within));
    if head + srtt > now + threshold {
        return Deferral::Leaves; // the next ACK is too far away
    }
    if window_room < send_room {
        if window_room <= waiting {
            return Deferral::WaitsForCwnd;
        }
    } else if send_room <= waiting {
        return Deferral::WaitsForPeer;
    }
    if burst.may_grow { Deferral::WaitsForMore } else { Deferral::Leaves }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;
    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SRTT: u32 = 8 * 20_000;

    /// Of a window of ten segments two are free, five wait; the head left 15 of 20 ms ago.
    const WAITS: NextBurst = NextBurst {
        is_recovering: false,
        last_left: NOW,
        divisor: 3,
        mss: MSS,
        cwnd: 10,
        in_flight: 8,
        snd_wnd: 100 * MSS,
        send_room: 92 * MSS,
        most: 20,
        waiting: 5 * MSS,
        is_last: true,
        may_grow: true,
    };

    fn ago(us: u64) -> Instant {
        Instant::from_nanos(NOW.as_nanos() - us * 1000)
    }

    fn after(head_ms: u64, within: Option<Duration>, burst: &NextBurst) -> Deferral {
        deferral(NOW, burst, || Some(ago(1000 * head_ms)), SRTT, within)
    }

    fn asked(burst: &NextBurst) -> Deferral {
        after(15, None, burst)
    }

    #[test]
    fn a_burst_waits_until_the_window_holds_it() {
        assert_eq!(asked(&WAITS), Deferral::WaitsForCwnd);
    }

    #[test]
    fn in_recovery_nothing_waits() {
        assert_eq!(asked(&NextBurst { is_recovering: true, ..WAITS }), Deferral::Leaves);
    }

    #[test]
    fn after_a_pause_of_more_than_a_millisecond_nothing_waits() {
        let paused = |us| asked(&NextBurst { last_left: ago(us), ..WAITS });
        assert_eq!([paused(1000), paused(1001)], [Deferral::WaitsForCwnd, Deferral::Leaves]);
    }

    #[test]
    fn the_longest_burst_leaves() {
        assert_eq!([3, 2].map(|most| asked(&NextBurst { most, ..WAITS })), [Deferral::WaitsForCwnd, Deferral::Leaves]);
    }

    #[test]
    fn a_third_of_the_window_leaves() {
        // A third of ten segments is 3333 bytes.
        assert_eq!([7, 6].map(|in_flight| asked(&NextBurst { in_flight, ..WAITS })), [Deferral::WaitsForCwnd, Deferral::Leaves]);
    }

    #[test]
    fn a_buffer_that_fits_leaves_if_another_waits_behind_it() {
        let fits = NextBurst { waiting: 2 * MSS, is_last: false, ..WAITS };
        assert_eq!(asked(&fits), Deferral::Leaves);
        assert_eq!(asked(&NextBurst { waiting: 2 * MSS + 1, ..fits }), Deferral::WaitsForCwnd);
    }

    #[test]
    fn with_nothing_in_the_network_nothing_is_waited_for() {
        assert_eq!(deferral(NOW, &WAITS, || None, SRTT, None), Deferral::Leaves);
    }

    #[test]
    fn the_next_ack_is_waited_for_within_half_a_round_trip() {
        assert_eq!([9, 10].map(|ms| after(ms, None, &WAITS)), [Deferral::Leaves, Deferral::WaitsForCwnd]);
    }

    #[test]
    fn or_within_what_the_kernel_allows() {
        let one = Some(Duration::from_millis(1));
        assert_eq!([18, 19].map(|ms| after(ms, one, &WAITS)), [Deferral::Leaves, Deferral::WaitsForCwnd]);
    }

    #[test]
    fn the_peers_window_is_waited_for_too() {
        let closed = NextBurst { in_flight: 0, snd_wnd: 10 * MSS, send_room: 2 * MSS, ..WAITS };
        assert_eq!(asked(&closed), Deferral::WaitsForPeer);
    }

    #[test]
    fn what_fits_waits_for_the_application_unless_it_has_ended() {
        let fits = NextBurst { waiting: MSS, ..WAITS };
        assert_eq!(asked(&fits), Deferral::WaitsForMore);
        assert_eq!(asked(&NextBurst { may_grow: false, ..fits }), Deferral::Leaves);
    }
}
