//! What limits a sender, and for how long each thing has: of a TCP endpoint, a subflow or a whole
//! MPTCP connection. Linux: `tcp_chrono_start` and `tcp_chrono_stop`.

use crate::Counters;
use polypath_base::{Duration, Instant};

/// What limits the sender at this moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing is waiting and nothing is in the network.
    Idle,
    /// Data is in the network; the application offers no more.
    Application,
    /// The congestion window, or the pacing rate; of an MPTCP connection those of its subflows.
    CongestionWindow,
    /// The peer's receive window (Linux: `TCP_CHRONO_RWND_LIMITED`).
    PeerWindow,
    /// The send buffer, which is full of what is in the network (Linux:
    /// `TCP_CHRONO_SNDBUF_LIMITED`).
    SendBuffer,
}

/// How long each has held up a whole connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedTimes {
    /// The peer's receive window.
    pub window: Duration,
    /// The send buffer, which was full of what is in the network.
    pub buffer: Duration,
    /// There was nothing to send.
    pub application: Duration,
}

/// What limits a sender, since when, and how long each had before.
#[derive(Copy, Clone, Debug)]
pub(crate) struct LimitClock {
    by: Limit,
    since: Instant,
    spent: Spent,
}

#[derive(Copy, Clone, Debug, Default)]
struct Spent {
    limited: LimitedTimes,
    congestion_window: Duration,
    busy: Duration,
}

impl LimitClock {
    pub(crate) fn new(by: Limit) -> Self {
        Self { by, since: Instant::ZERO, spent: Spent::default() }
    }

    /// The time before `now` does not count.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since = now;
    }

    #[inline]
    pub(crate) fn set(&mut self, now: Instant, by: Limit) {
        if by != self.by {
            self.change(now, by);
        }
    }

    #[cold]
    fn change(&mut self, now: Instant, by: Limit) {
        debug_assert!(self.since <= now, "a limit ends after it began");
        self.spent.charge(self.by, now.since(self.since));
        (self.since, self.by) = (now, by);
    }

    /// How long each has held up everything, up to `now`.
    pub(crate) fn limited(&self, now: Instant) -> LimitedTimes {
        self.until(now).limited
    }

    /// The same as counters.
    pub(crate) fn count(&self, now: Instant, counters: &mut Counters) {
        let Spent { limited, congestion_window, busy } = self.until(now);
        (counters.busy, counters.cwnd_limited) = (busy, congestion_window);
        (counters.rwnd_limited, counters.sndbuf_limited, counters.app_limited) = (limited.window, limited.buffer, limited.application);
    }

    fn until(&self, now: Instant) -> Spent {
        let mut spent = self.spent;
        spent.charge(self.by, now.since(self.since));
        spent
    }
}

impl Spent {
    fn charge(&mut self, to: Limit, span: Duration) {
        match to {
            Limit::Idle | Limit::Application => self.limited.application += span,
            Limit::CongestionWindow => self.congestion_window += span,
            Limit::PeerWindow => self.limited.window += span,
            Limit::SendBuffer => self.limited.buffer += span,
        }
        if to != Limit::Idle {
            self.busy += span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_time_adds_up() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        let mut clock = LimitClock::new(Limit::Idle);
        clock.begin(at(1));
        clock.set(at(2), Limit::PeerWindow);
        clock.set(at(5), Limit::PeerWindow);
        clock.set(at(7), Limit::SendBuffer);
        clock.set(at(8), Limit::CongestionWindow);
        clock.set(at(12), Limit::Application);
        assert_eq!(clock.limited(at(14)), LimitedTimes { window: ms(5), buffer: ms(1), application: ms(1 + 2) });
        let mut counters = Counters::default();
        clock.count(at(14), &mut counters);
        assert_eq!((counters.busy, counters.cwnd_limited, counters.app_limited), (ms(12), ms(4), ms(3)), "idle time is not busy");
    }
}
