//! How far packets of a path come behind those of the fastest: measured by the tunnel's numbers,
//! without clocks at the sender.
//!
//! A packet that comes after one with a greater number was sent before it. Had it come by the
//! fastest path, it would have come between the packets whose numbers are next to its own: by how
//! much it comes later is the path's lag.

use polypath_base::{Duration, Instant, PathId};
use std::collections::VecDeque;

/// Arrivals of so many numbers are remembered.
const REMEMBERED: usize = 8192;
/// So many packets in a row before all that is remembered mean that the peer counts anew.
const RESTART: u32 = 64;
/// The largest lag is that of this time and the one of the same length before it.
const PERIOD: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Lags {
    /// Numbers that were greater than all before them, and when they came: both grow.
    frontier: VecDeque<(u64, Instant)>,
    /// By path.
    paths: Vec<Lag>,
    /// The largest of this period and of the one before; none: nothing has come in it.
    largest: [Option<Duration>; 2],
    period_began: Instant,
    /// How many packets in a row came from before all that is remembered.
    behind: u32,
}

#[derive(Copy, Clone, Debug, Default)]
struct Lag {
    /// Mean over the last 8 packets or so.
    smoothed: Duration,
    seen: bool,
}

impl Lags {
    /// Of so many paths.
    pub(super) fn new(paths: usize) -> Self {
        let paths = vec![Lag::default(); paths];
        Self { frontier: VecDeque::new(), paths, largest: [None; 2], period_began: Instant::ZERO, behind: 0 }
    }

    /// A packet has come.
    pub(super) fn on_arrival(&mut self, now: Instant, path: PathId, number: u64) {
        self.behind = if self.frontier.front().is_some_and(|&(first, _)| number < first) { self.behind + 1 } else { 0 };
        if self.behind >= RESTART {
            self.restart();
        }
        let lag = if self.frontier.back().is_none_or(|&(last, _)| number > last) {
            debug_assert!(self.frontier.back().is_none_or(|&(_, came)| came <= now), "times grow with numbers");
            self.frontier.push_back((number, now));
            if self.frontier.len() > REMEMBERED {
                self.frontier.pop_front();
            }
            Duration::ZERO
        } else {
            now.since(self.expected_at(number).unwrap_or(now))
        };
        if now.since(self.period_began) >= PERIOD {
            let idle = now.since(self.period_began) >= PERIOD * 2;
            self.largest = [None, if idle { None } else { self.largest[0] }];
            self.period_began = now;
        }
        self.largest[0] = self.largest[0].max(Some(lag));
        let Some(state) = self.paths.get_mut(usize::from(path.0)) else { return };
        state.smoothed = if state.seen { (state.smoothed * 7 + lag) / 8 } else { lag };
        state.seen = true;
    }

    /// When a packet that was overtaken would have come by the fastest path; none if it was not
    /// overtaken.
    fn expected_at(&self, number: u64) -> Option<Instant> {
        let later = self.frontier.partition_point(|&(known, _)| known <= number);
        let &(after, came_after) = self.frontier.get(later)?;
        let Some(&(before, came_before)) = later.checked_sub(1).and_then(|place| self.frontier.get(place)) else { return Some(came_after) };
        Some(came_before + came_after.since(came_before) * (number - before) / (after - before))
    }

    /// The largest lag of late; none until every path has brought something.
    pub(super) fn largest(&self) -> Option<Duration> {
        self.largest[0].max(self.largest[1]).filter(|_| self.paths.iter().all(|path| path.seen))
    }

    /// By how much a path's packets come before those of the slowest.
    pub(super) fn lead(&self, path: PathId) -> Duration {
        let slowest = self.paths.iter().map(|lag| lag.smoothed).max().unwrap_or(Duration::ZERO);
        let own = self.paths.get(usize::from(path.0)).map_or(Duration::ZERO, |lag| lag.smoothed);
        slowest - own
    }

    /// The peer counts anew.
    pub(super) fn restart(&mut self) {
        self.frontier.clear();
        self.behind = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: PathId = PathId(0);
    const SLOW: PathId = PathId(1);

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    #[test]
    fn the_lag_is_the_time_since_a_later_packet_came() {
        let mut lags = Lags::new(2);
        assert_eq!(lags.largest(), None);
        // Sent every millisecond in turn, the slow path 40 ms behind.
        for n in 0..200_u64 {
            lags.on_arrival(ms(n), FAST, 2 * n + 1);
            if n >= 40 {
                lags.on_arrival(ms(n), SLOW, 2 * (n - 40));
            }
        }
        // Number 2n would have come at n - 0.5 ms, between 2n - 1 and 2n + 1.
        assert_eq!(lags.largest(), Some(Duration::from_micros(40_500)));
        assert!((40_400..=40_500).contains(&lags.lead(FAST).as_micros()) && lags.lead(SLOW) == Duration::ZERO, "{lags:?}");
    }

    #[test]
    fn an_old_lag_is_forgotten() {
        let mut lags = Lags::new(2);
        lags.on_arrival(ms(0), FAST, 1);
        assert_eq!(lags.largest(), None, "of the slow path nothing is known");
        lags.on_arrival(ms(40), SLOW, 0);
        lags.on_arrival(ms(6_000), FAST, 2);
        assert_eq!(lags.largest(), Some(Duration::from_millis(40)), "of the period before");
        lags.on_arrival(ms(11_500), FAST, 3);
        assert_eq!(lags.largest(), Some(Duration::ZERO));
    }
}
