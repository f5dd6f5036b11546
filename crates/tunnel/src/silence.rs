//! A path that falls silent while others go on: it is known long before the dead time, by how the
//! path was used until then.
//!
//! Of each path it is learnt how many packets of the peer other paths bring between two of its own,
//! and how long that takes. Where they bring many times as many, in many times that time, the path
//! carries nothing any more. A path that brought little is never judged, and a stall is no more
//! than that: what comes on the path next has it back.

use polypath_base::{Duration, Instant};

/// A path of which fewer pauses have been seen is not judged.
const ENOUGH: u32 = 16;
/// A path is silent after so many times the packets that others bring in its usual pauses, and
/// these.
const TIMES: u32 = 8;
const PACKETS: u32 = 16;
/// The same of the time; it is never shorter than this: a radio link's stall is no death.
const TIMES_LONGER: u64 = 4;
const LEAST: Duration = Duration::from_millis(250);
/// Of the time between two packets so much counts: beyond it the peer had nothing to send.
const COUNTED: Duration = Duration::from_micros(LEAST.as_micros() / PACKETS as u64);
/// A pause in which others bring fewer packets says nothing of how long pauses are: the peer had
/// little to send.
const TELLING: u32 = 8;
/// The longest pauses are those of this time and of the one of the same length before it.
const PERIOD: Duration = Duration::from_secs(5);

/// How a path is used, and what has come on others since its last packet.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Silence {
    /// Pauses that have ended.
    pauses: u32,
    /// Packets that other paths have brought since, when the last of them came, and how long they
    /// have been coming ([`COUNTED`]).
    others: u32,
    last: Instant,
    lasted: Duration,
    /// Of this period and of the one before it, the most packets in a pause, and the longest.
    usual: [(u32, Duration); 2],
    period_began: Instant,
}

impl Silence {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { pauses: 0, others: 0, last: now, lasted: Duration::ZERO, usual: [(0, Duration::ZERO); 2], period_began: now }
    }

    /// A packet has come on the path.
    pub(crate) fn on_own(&mut self, now: Instant) {
        if now.since(self.period_began) >= PERIOD {
            self.usual = [(0, Duration::ZERO), self.usual[0]];
            self.period_began = now;
        }
        self.count(now);
        let (packets, time) = &mut self.usual[0];
        *packets = (*packets).max(self.others);
        if self.others >= TELLING {
            *time = (*time).max(self.lasted);
        }
        self.pauses = self.pauses.saturating_add(u32::from(self.others > 0));
        self.others = 0;
    }

    /// A packet has come on another path; whether this one is silent.
    pub(crate) fn on_other(&mut self, now: Instant) -> bool {
        self.count(now);
        self.others = self.others.saturating_add(1);
        let packets = self.usual[0].0.max(self.usual[1].0).saturating_mul(TIMES).saturating_add(PACKETS);
        let time = (self.usual[0].1.max(self.usual[1].1) * TIMES_LONGER).max(LEAST);
        self.pauses >= ENOUGH && self.others >= packets && self.lasted >= time
    }

    /// Time has passed since another path's last packet; none counts before the first of them.
    fn count(&mut self, now: Instant) {
        debug_assert!(self.others == 0 || self.last <= now, "a pause has begun before others go on");
        self.lasted = if self.others == 0 { Duration::ZERO } else { self.lasted + now.since(self.last).min(COUNTED) };
        self.last = now;
    }

    /// The path is used again: what others have brought meanwhile says nothing.
    pub(crate) fn forgive(&mut self) {
        self.others = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    /// Of packets that come once a millisecond, every `share`th on this path, until `end`; then on
    /// others alone: when it is silent.
    fn silent_after(share: u64, end: u64) -> Option<u64> {
        let mut silence = Silence::new(ms(0));
        for at in 0..end + 30_000 {
            if at < end && at % share == 0 {
                silence.on_own(ms(at));
            } else if silence.on_other(ms(at)) {
                return Some(at - end);
            }
        }
        None
    }

    #[test]
    fn a_path_with_half_of_the_packets_is_silent_after_a_quarter_of_a_second() {
        // Its last packet came two milliseconds before the end.
        assert_eq!(silent_after(2, 1000), Some(249));
    }

    #[test]
    fn a_path_with_few_packets_has_longer() {
        // 99 others in 98 ms between two of its own.
        let after = silent_after(100, 10_000).unwrap();
        assert!((700..900).contains(&after), "{after}");
    }

    #[test]
    fn a_path_that_brought_little_is_not_judged() {
        // The first packet ends no pause.
        assert_eq!(silent_after(2, 2 * u64::from(ENOUGH)), None);
        assert!(silent_after(2, 2 * u64::from(ENOUGH) + 1).is_some());
    }

    #[test]
    fn a_pause_of_the_peer_is_none_of_the_path() {
        let mut silence = Silence::new(ms(0));
        for second in 0..100 {
            // A packet a second, by turns: each path pauses for two, but few packets come
            // meanwhile.
            if second % 2 == 0 {
                silence.on_own(ms(1000 * second));
            } else {
                assert!(!silence.on_other(ms(1000 * second)));
            }
        }
        let silent = (0..1000).position(|at| silence.on_other(ms(100_000 + at)));
        assert!(silent.is_some_and(|at| at < 300), "{silent:?}");
    }

    #[test]
    fn a_turn_of_another_path_after_a_pause_of_the_peer_is_no_silence() {
        let mut silence = Silence::new(ms(0));
        // Two paths by turns of 16, whose delays differ by a turn: they bring packets alternately.
        for at in 0..40 {
            if at % 2 == 0 {
                silence.on_own(ms(at));
            } else {
                assert!(!silence.on_other(ms(at)));
            }
        }
        assert!(!(5000..5048).any(|at| silence.on_other(ms(at))), "a turn of three times the weight");
    }

    #[test]
    fn what_came_before_a_path_is_used_again_is_forgiven() {
        let mut silence = Silence::new(ms(0));
        for at in 0..100 {
            if at % 2 == 0 {
                silence.on_own(ms(at));
            } else {
                assert!(!silence.on_other(ms(at)));
            }
        }
        assert!((100..1000).any(|at| silence.on_other(ms(at))));
        silence.forgive();
        assert!(!(1000..1200).any(|at| silence.on_other(ms(at))));
    }
}
