//! TSO deferral (Linux: `tcp_tso_should_defer`): a burst waits for the next ACK if that lets a larger one
//! leave.

use polypath_base::{Duration, Instant};

/// Linux defers a burst only if the last one left less than this ago.
const DEFER_WITHIN: Duration = Duration::from_millis(1);
/// A burst may be deferred while less than this share of the window is free (`tcp_tso_win_divisor`).
const DEFER_DIVISOR: u32 = 3;

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

/// Whether the burst leaves. `head`: when the first unacknowledged segment left; `srtt_us`: smoothed RTT,
/// microseconds times 8; `within`: the kernel's own bound of how far away the next ACK may be.
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
    let chunk = peer.min(cwnd.saturating_mul(mss)) / DEFER_DIVISOR;
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
