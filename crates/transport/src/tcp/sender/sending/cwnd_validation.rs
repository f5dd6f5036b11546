//! Congestion window validation (RFC 7661, RFC 2861): whether the window or the application limits
//! a flow, and what a window that was not used shrinks to. Linux: `tcp_cwnd_validate`,
//! `tcp_cwnd_application_limited`, `tcp_cwnd_restart`.

use crate::tcp::sender::{CaState, Sender};
use polypath_base::{Duration, Instant, Seq};
use polypath_cc as cc;

/// Congestion window and slow-start threshold, segments.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) struct Window {
    pub(in crate::tcp) cwnd: u32,
    pub(in crate::tcp) ssthresh: u32,
}

/// What a burst has left in the network.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Flight {
    pub(in crate::tcp) snd_una: Seq,
    pub(in crate::tcp) snd_nxt: Seq,
    /// Segments sent and not cumulatively acknowledged.
    pub(in crate::tcp) packets_out: u32,
    /// The window holds no further segment.
    pub(in crate::tcp) fills_window: bool,
}

#[derive(Debug, Default)]
pub(in crate::tcp) struct CwndValidation {
    /// The window was the limit in the round trip that `usage_seq` ends (Linux: `is_cwnd_limited`).
    limited: bool,
    usage_seq: Seq,
    /// Most segments in the network since `stamp` (Linux: `snd_cwnd_used`).
    used: u32,
    /// When the window was last fully used or changed (Linux: `snd_cwnd_stamp`).
    stamp: Instant,
}

impl Window {
    /// What a window is remembered by when it shrinks for want of use, or before it may be
    /// restored: three quarters of it, if that is more than the threshold (RFC 2861 section 3;
    /// Linux: `tcp_current_ssthresh`).
    #[inline]
    pub(in crate::tcp) fn current_ssthresh(self) -> u32 {
        self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
    }

    /// RFC 5681 section 4.1: a window that was not used for some timeouts is halved for each, down
    /// to the initial one at most.
    pub(in crate::tcp) fn cwnd_after_idle(self, idle: Duration, rto: Duration, restart: u32) -> u32 {
        let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(31) as u32;
        (self.cwnd >> halvings).max(restart)
    }
}

impl CwndValidation {
    /// A burst has left. `max_packets_out`: the most segments in the network in this round trip,
    /// which is renewed with the round trip, by a full window, and by a larger flight; `keeps` says
    /// whether a larger flight leaves the window the limit that it was (Linux since late 2022).
    #[inline]
    pub(in crate::tcp) fn on_burst(&mut self, flight: Flight, keeps: bool, max_packets_out: &mut u32) {
        let larger = flight.packets_out > *max_packets_out && !(self.limited && keeps);
        if !flight.snd_una.before(self.usage_seq) || flight.fills_window || larger {
            self.limited = flight.fills_window;
            *max_packets_out = flight.packets_out;
            self.usage_seq = flight.snd_nxt;
        }
    }

    /// A burst was put off until more of the window is free: the window is the limit.
    pub(in crate::tcp) fn on_deferral(&mut self, now: Instant, snd_nxt: Seq, packets_out: u32, max_packets_out: &mut u32) {
        self.limited = true;
        *max_packets_out = packets_out;
        self.usage_seq = snd_nxt;
        (self.used, self.stamp) = (0, now);
    }

    /// The window limits the flow. RFC 7661 section 4.1: in slow start it may be twice what was
    /// used.
    #[inline]
    pub(in crate::tcp) fn is_cwnd_limited(&self, window: Window, max_packets_out: u32) -> bool {
        self.limited || (window.cwnd < window.ssthresh && window.cwnd < 2 * max_packets_out)
    }

    /// After a burst: true if the window has not been fully used for a timeout.
    #[inline]
    pub(in crate::tcp) fn note_use(&mut self, now: Instant, is_limited: bool, packets_out: u32, rto: Duration) -> bool {
        if is_limited {
            self.used = 0;
            self.stamp = now;
            return false;
        }
        self.used = self.used.max(packets_out);
        now.since(self.stamp) >= rto
    }

    /// The application has left the window unused for a timeout: half way down to what it used,
    /// which is no less than `initial` segments (RFC 2861 section 3.1). In any other state than
    /// Open (`open`) the window stays, and the time begins anew.
    pub(in crate::tcp) fn on_application_limited(&mut self, now: Instant, window: Window, initial: u32, open: bool) -> Window {
        self.stamp = now;
        if !open {
            return window;
        }
        let used = std::mem::take(&mut self.used).max(initial);
        if used >= window.cwnd {
            return window;
        }
        Window { cwnd: (window.cwnd + used) >> 1, ssthresh: window.current_ssthresh() }
    }

    /// The window was set, or an ACK could have raised it: what is used of it counts from now on.
    #[inline]
    pub(in crate::tcp) fn on_change(&mut self, now: Instant) {
        self.stamp = now;
    }

    /// The window begins anew after idle.
    pub(in crate::tcp) fn on_restart(&mut self, now: Instant) {
        self.stamp = now;
        self.used = 0;
    }
}

impl Sender {
    #[cold]
    pub(in crate::tcp::sender) fn shrink_unused_window(&mut self, now: Instant) {
        let open = self.flow.ca_state == CaState::Open;
        let Window { cwnd, ssthresh } =
            self.cwnd_validation.on_application_limited(now, self.window(), self.settings.initial_cwnd.get(), open);
        (self.flow.cwnd, self.flow.ssthresh) = (cwnd, ssthresh);
    }

    #[inline]
    pub(in crate::tcp::sender) fn window(&self) -> Window {
        Window { cwnd: self.flow.cwnd, ssthresh: self.flow.ssthresh }
    }

    /// RFC 5681 section 4.1: a window that was not used for a timeout decays, once per timeout, to
    /// the initial one.
    pub(in crate::tcp::sender) fn idle_restart(&mut self, now: Instant, is_established: bool) {
        let rto = self.rtt.rto();
        let idle = now.since(self.last_sent_at);
        if !self.settings.slow_start_after_idle
            || !is_established
            || self.scoreboard.packets_out() > 0
            || self.cc.has_cong_control()
            || self.counters.data_segments_sent == 0
            || idle <= rto
        {
            return;
        }
        let restart = self.settings.initial_cwnd.get().min(self.flow.cwnd);
        self.flow.ssthresh = self.window().current_ssthresh();
        self.cc.cwnd_event(&mut self.flow, None, cc::Event::CwndRestart);
        self.flow.cwnd = self.window().cwnd_after_idle(idle, rto, restart);
        self.cwnd_validation.on_restart(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_millis(200);
    const CLOSED: Window = Window { cwnd: 40, ssthresh: 20 };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn flight(una: u32, nxt: u32, packets_out: u32, fills_window: bool) -> Flight {
        Flight { snd_una: Seq::new(una), snd_nxt: Seq::new(nxt), packets_out, fills_window }
    }

    #[test]
    fn a_full_window_is_the_limit_for_a_round_trip() {
        let (mut validation, mut most) = (CwndValidation::default(), 0);
        validation.on_burst(flight(0, 1000, 10, true), true, &mut most);
        assert!(validation.is_cwnd_limited(CLOSED, most));
        validation.on_burst(flight(500, 1500, 5, false), true, &mut most);
        assert!(validation.is_cwnd_limited(CLOSED, most), "the round trip is not over");
        validation.on_burst(flight(1000, 1600, 6, false), true, &mut most);
        assert!(!validation.is_cwnd_limited(CLOSED, most) && most == 6);
    }

    #[test]
    fn a_larger_flight_forgets_the_limit_where_the_kernel_does() {
        for keeps in [true, false] {
            let (mut validation, mut most) = (CwndValidation::default(), 0);
            validation.on_burst(flight(0, 1000, 10, true), keeps, &mut most);
            validation.on_burst(flight(500, 1500, 11, false), keeps, &mut most);
            assert_eq!((validation.is_cwnd_limited(CLOSED, most), most), (keeps, if keeps { 10 } else { 11 }));
        }
    }

    #[test]
    fn in_slow_start_half_of_the_window_in_use_is_enough() {
        let validation = CwndValidation::default();
        let slow_start = Window { cwnd: 19, ssthresh: 100 };
        assert!(validation.is_cwnd_limited(slow_start, 10) && !validation.is_cwnd_limited(slow_start, 9));
    }

    #[test]
    fn an_unused_window_goes_half_way_to_what_was_used() {
        let mut validation = CwndValidation::default();
        assert!(!validation.note_use(at(0), true, 40, RTO));
        assert!(!validation.note_use(at(199), false, 20, RTO));
        assert!(validation.note_use(at(200), false, 12, RTO));
        assert_eq!(validation.on_application_limited(at(200), CLOSED, 10, true), Window { cwnd: 30, ssthresh: 30 });
        assert!(!validation.note_use(at(399), false, 4, RTO), "the time begins anew");
        assert!(validation.note_use(at(400), false, 4, RTO));
        let shut = validation.on_application_limited(at(400), CLOSED, 10, false);
        assert_eq!(shut, CLOSED, "not in Open");
    }

    #[test]
    fn an_idle_window_is_halved_for_each_timeout_down_to_the_initial_one() {
        let after = |timeouts| CLOSED.cwnd_after_idle(RTO * timeouts, RTO, 10);
        assert_eq!([0, 1, 2, 3, 50].map(after), [40, 20, 10, 10, 10]);
    }
}
