//! When a timer of the kernel's fires that is not a high-resolution one: Linux's timer wheel. Owned
//! here is arithmetic on ticks alone; nothing waits here.
//!
//! A timer never fires early, and the further away it is, the coarser are the steps on which it may
//! fire: steps of one tick below 63 ticks, of 8 from there, of 64 from 504, and so on, eightfold
//! each time. Within its level it fires on the step after the one that it is due in (Linux:
//! `calc_wheel_index`; seen on 6.12 and 6.1: specs/notes/endpoint-answers,
//! specs/notes/mtu-probing).

use polypath_base::{Duration, Instant};

/// From how many ticks on a timer stands on the second level (Linux: `LVL_START(1)`).
const SECOND_LEVEL: u64 = 63;
/// How much coarser each level is, as a shift (Linux: `LVL_CLK_SHIFT`).
const LEVEL_SHIFT: u32 = 3;
/// The last level's shift, where the kernel has less than 1000 ticks a second (Linux: `LVL_DEPTH`
/// is 9 with 250).
const LAST_SHIFT: u32 = 8 * LEVEL_SHIFT;

/// Who sets a timer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetBy {
    /// Whatever happens between two ticks.
    Event,
    /// A timer that fires: the wheel has turned to the next tick by then, from which the levels
    /// count.
    Timer,
}

/// When a timer fires that was set at `now` to a time from then: whole ticks, from the last one.
/// Without ticks it is exact.
pub(crate) fn fires_after(now: Instant, wait: Duration, tick: Duration, by: SetBy) -> Instant {
    match tick.as_nanos() {
        0 => now + wait,
        t => Instant::from_nanos(fires(now.as_nanos() / t, wait.as_nanos().div_ceil(t), by) * t),
    }
}

/// The tick that such a timer is set to (Linux: `expires`); without ticks each moment is one.
pub(crate) fn due_tick(now: Instant, wait: Duration, tick: Duration) -> u64 {
    let t = tick.as_nanos().max(1);
    now.as_nanos() / t + wait.as_nanos().div_ceil(t)
}

/// In which whole tick a number of nanoseconds lies. Most lie in that of the one before, so that
/// nothing is divided.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct LastTick {
    number: u64,
    /// Where it begins.
    start: u64,
}

impl LastTick {
    /// `len`: nanoseconds of a tick, at least one.
    #[inline]
    fn of(&mut self, ns: u64, len: u64) -> u64 {
        if ns.wrapping_sub(self.start) >= len {
            self.look_up(ns, len);
        }
        self.number
    }

    #[inline(never)]
    fn look_up(&mut self, ns: u64, len: u64) {
        self.number = ns / len;
        self.start = self.number * len;
    }

    /// Rounded up.
    #[inline]
    fn ceil(&mut self, ns: u64, len: u64) -> u64 {
        if ns == 0 { 0 } else { self.of(ns - 1, len) + 1 }
    }

    /// The end of the last tick that is needed.
    #[inline]
    pub(crate) fn round_up(&mut self, time: Duration, tick: Duration) -> Duration {
        let len = tick.as_nanos().max(1);
        Duration::from_nanos(self.ceil(time.as_nanos(), len) * len)
    }
}

/// The same as the functions above, for timers that one holder sets: both their times and their
/// waits are near those before.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TickClock {
    /// Nanoseconds; 0: each is one, and timers are exact.
    tick: u64,
    times: LastTick,
    waits: LastTick,
}

impl TickClock {
    pub(crate) fn new(tick: Duration) -> Self {
        Self { tick: tick.as_nanos(), times: LastTick::default(), waits: LastTick::default() }
    }

    #[inline]
    pub(crate) fn tick(&self) -> Duration {
        Duration::from_nanos(self.tick)
    }

    /// See [`due_tick`].
    #[inline]
    pub(crate) fn due_tick(&mut self, now: Instant, wait: Duration) -> u64 {
        let len = self.tick.max(1);
        self.times.of(now.as_nanos(), len) + self.waits.ceil(wait.as_nanos(), len)
    }

    /// See [`fires_after`].
    #[inline]
    pub(crate) fn fires_after(&mut self, now: Instant, wait: Duration, by: SetBy) -> Instant {
        match self.tick {
            0 => now + wait,
            t => Instant::from_nanos(fires(self.times.of(now.as_nanos(), t), self.waits.ceil(wait.as_nanos(), t), by) * t),
        }
    }

    /// How long from `now` a timer that is set to the tick `due` waits: whole ticks, from the last
    /// one.
    #[inline]
    pub(crate) fn left(&mut self, now: Instant, due: u64) -> Duration {
        let len = self.tick.max(1);
        Duration::from_nanos(due.saturating_sub(self.times.of(now.as_nanos(), len)) * len)
    }
}

/// On which level a timer stands that was set to a time from then, as the shift of its steps: of
/// those that fire on one tick the higher level's come first.
pub(crate) fn level(wait: Duration, tick: Duration, by: SetBy) -> u32 {
    shift_of(wait.as_nanos().div_ceil(tick.as_nanos().max(1)), by)
}

fn shift_of(ticks: u64, by: SetBy) -> u32 {
    let ahead = ticks.saturating_sub(u64::from(by == SetBy::Timer));
    let (mut shift, mut start) = (0, SECOND_LEVEL);
    while ahead >= start && shift < LAST_SHIFT {
        shift += LEVEL_SHIFT;
        start <<= LEVEL_SHIFT;
    }
    shift
}

/// The tick at which a timer fires that was set at the tick `clock`, so many ticks ahead.
fn fires(clock: u64, ticks: u64, by: SetBy) -> u64 {
    let shift = shift_of(ticks, by);
    let at = (((clock + ticks) >> shift) + 1) << shift;
    debug_assert!(at > clock + ticks, "a timer never fires early");
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(4);

    #[test]
    fn steps_are_eight_times_as_long_from_each_level_on() {
        let found = [0, 1, 62, 63, 64, 71, 72, 503, 504, 511, 512, 4031, 4032].map(|ticks| fires(0, ticks, SetBy::Event));
        assert_eq!(found, [1, 2, 63, 64, 72, 72, 80, 504, 512, 512, 576, 4032, 4096]);
    }

    #[test]
    fn steps_are_those_of_the_clock_and_not_of_the_timer() {
        assert_eq!([0, 1, 6, 7, 8].map(|clock| fires(clock, 63, SetBy::Event)), [64, 72, 72, 72, 72]);
        assert_eq!([0, 1, 7].map(|clock| fires(clock, 62, SetBy::Event)), [63, 64, 70]);
        assert_eq!([0, 7, 8, 9].map(|clock| fires(clock, 504, SetBy::Event)), [512, 512, 576, 576]);
    }

    #[test]
    fn what_a_timer_sets_comes_to_a_level_one_tick_later() {
        assert_eq!([62, 63, 64, 504, 505].map(|ticks| fires(0, ticks, SetBy::Timer)), [63, 64, 72, 512, 512]);
        assert_eq!([63, 504].map(|ticks| fires(1, ticks, SetBy::Timer)), [65, 512]);
        assert_eq!([63, 504].map(|ticks| fires(1, ticks, SetBy::Event)), [72, 512]);
        assert_eq!([SetBy::Timer, SetBy::Event].map(|by| fires(8, 504, by)), [520, 576]);
        assert_eq!(fires(8, 0, SetBy::Timer), 9);
    }

    #[test]
    fn it_is_never_early_and_late_by_one_step_at_most() {
        for (ticks, step) in [(62, 1), (63, 8), (503, 8), (504, 64), (4031, 64), (4032, 512), (32_255, 512), (32_256, 4096)] {
            for clock in 0..2 * step {
                let late = fires(clock, ticks, SetBy::Event) - (clock + ticks);
                assert!((1..=step).contains(&late), "{ticks} ticks from {clock}: {late}");
            }
        }
    }

    #[test]
    fn a_timeout_that_is_doubled_comes_when_linux_sends_it() {
        // On 6.12: after 54, 111, 216, 432, 904 and 1728 ticks, the first time 53 ticks
        // (specs/notes/mtu-probing).
        let mut at = 11;
        let waits = [53, 106, 212, 424, 848, 1696].map(|ticks| {
            let before = at;
            at = fires(at, ticks, SetBy::Timer);
            at - before
        });
        assert_eq!(waits, [54, 111, 216, 432, 904, 1728]);
    }

    #[test]
    fn a_time_counts_in_whole_ticks_from_the_last_one_and_a_moment_is_itself() {
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        assert_eq!(fires_after(ms(7), Duration::from_millis(201), TICK, SetBy::Event), ms(212), "51 ticks after that of 4 ms, and one");
        assert_eq!(
            fires_after(ms(7), Duration::from_millis(249), TICK, SetBy::Event),
            ms(288),
            "63 ticks after that of 4 ms, and the next step"
        );
        let mut clock = TickClock::new(TICK);
        let due = due_tick(ms(7), Duration::from_millis(201), TICK);
        assert_eq!(clock.left(ms(9), due), Duration::from_millis(200), "51 ticks after the first, now the second");
        assert_eq!(clock.left(ms(300), due), Duration::ZERO, "it is due");
    }

    #[test]
    fn a_clock_says_what_division_does() {
        for tick in [TICK, Duration::from_nanos(3_333_333), Duration::ZERO] {
            let mut clock = TickClock::new(tick);
            for (now, wait) in [(0, 0), (1, 1), (4_000_000, 4_000_000), (3_999_999, 4_000_001), (900_000_000, 8_000_000), (7, 7_999_999)] {
                let (now, wait) = (Instant::from_nanos(now), Duration::from_nanos(wait));
                assert_eq!(clock.due_tick(now, wait), due_tick(now, wait, tick));
                assert_eq!(clock.fires_after(now, wait, SetBy::Event), fires_after(now, wait, tick, SetBy::Event));
            }
        }
    }

    #[test]
    fn without_a_tick_it_is_exact() {
        let (now, wait) = (Instant::from_nanos(7), Duration::from_nanos(3));
        assert_eq!(fires_after(now, wait, Duration::ZERO, SetBy::Event), now + wait);
        assert_eq!(TickClock::new(Duration::ZERO).left(now, due_tick(now, wait, Duration::ZERO)), wait);
    }
}
