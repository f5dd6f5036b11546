//! The endpoint's timers: a table by [`Timer`], so that a further one is a variant, its clock, and
//! an arm in `Socket::handle_timeout`.

use crate::Settings;
use crate::timer_wheel::{SetBy, TickClock, due_tick, fires_after, level};
use polypath_base::{Duration, Instant};

/// The timers, in the order in which those that come up together are served.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next burst may leave (Linux: `pacing_timer`). As the next one a high-resolution timer,
    /// exact; the others are on the kernel's timer wheel.
    Pacing,
    /// Linux: `compressed_ack_timer`.
    CompressedAck,
    /// Linux: `icsk_delack_timer`.
    DelayedAck,
    /// One timer for every [`Pending`] (Linux: `icsk_retransmit_timer`).
    Retransmission,
}

/// What the retransmission timer stands for; arming it for one purpose ends the others (Linux:
/// `icsk_pending`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// RFC 6298 section 5.
    Timeout,
    /// RFC 8985 section 7.2.
    LossProbe,
    /// RFC 8985 section 6.2 step 5.
    Reordering,
    /// The peer's window is closed (RFC 9293 section 3.8.6.1).
    WindowProbe,
}

impl Timer {
    pub(super) const ALL: [Self; 4] = [Self::Pacing, Self::CompressedAck, Self::DelayedAck, Self::Retransmission];

    /// Its place among those of the wheel.
    #[inline]
    const fn on_wheel(self) -> Option<usize> {
        match self {
            Self::Pacing | Self::CompressedAck => None,
            Self::DelayedAck => Some(0),
            Self::Retransmission => Some(1),
        }
    }
}

/// Of a timer of the wheel: when it was armed, to how long from then, and by whom. Where it is due at
/// that time it has not been put on the wheel yet: that is done when it first comes up.
#[derive(Copy, Clone, Debug)]
struct Entry {
    /// [`Instant::NEVER`] once it has fired.
    armed: Instant,
    wait: Duration,
    by: SetBy,
    /// The tick that it is set to, once somebody has asked; [`UNKNOWN`] before.
    tick: u64,
}

const UNKNOWN: u64 = u64::MAX;

impl Entry {
    const OFF: Self = Self { armed: Instant::NEVER, wait: Duration::ZERO, by: SetBy::Event, tick: UNKNOWN };

    /// The tick that it is set to.
    #[inline]
    fn set_to(&mut self, clock: &mut TickClock) -> u64 {
        if self.tick == UNKNOWN {
            self.tick = clock.due_tick(self.armed, self.wait);
        }
        self.tick
    }
}

#[derive(Debug)]
pub(super) struct Timers {
    /// When each is due; [`Instant::NEVER`]: it is off.
    due: [Instant; Timer::ALL.len()],
    wheel: [Entry; 2],
    pending: Pending,
    /// When a timer of the wheel fired last: what is armed then is armed by it.
    fired: Instant,
    clock: TickClock,
    /// What a tail loss probe's and the reordering timer have on top of their time.
    floor: Duration,
}

impl Timers {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            due: [Instant::NEVER; Timer::ALL.len()],
            wheel: [Entry::OFF; 2],
            pending: Pending::Timeout,
            fired: Instant::NEVER,
            clock: TickClock::new(settings.tick),
            floor: settings.stack.timeout_min.on(settings.tick),
        }
    }

    /// RFC 8985 section 6.3 leaves to the implementation how much longer than its time a timer
    /// takes.
    #[inline]
    pub(super) fn floor(&self) -> Duration {
        self.floor
    }

    /// (Re)arms a timer.
    #[inline]
    pub(super) fn arm(&mut self, timer: Timer, now: Instant, wait: Duration) {
        match timer.on_wheel() {
            None => self.due[timer as usize] = now + wait,
            Some(place) => self.due[timer as usize] = self.arm_on_wheel(place, now, wait),
        }
    }

    /// When it is due.
    #[inline(never)]
    fn arm_on_wheel(&mut self, place: usize, now: Instant, wait: Duration) -> Instant {
        let entry = &mut self.wheel[place];
        let due = now + wait;
        let mut tick = UNKNOWN;
        if wait < entry.wait && due < entry.armed + entry.wait + self.clock.tick() {
            debug_assert!(entry.armed != Instant::NEVER, "what was never armed waits for no time");
            tick = self.clock.due_tick(now, wait);
            if entry.set_to(&mut self.clock) == tick {
                // It stays where it was put earlier, on coarser steps maybe (Linux: `__mod_timer`),
                // even if it had been switched off meanwhile (`inet_csk_clear_xmit_timer`).
                return entry.armed + entry.wait;
            }
        }
        let by = if now == self.fired { SetBy::Timer } else { SetBy::Event };
        *entry = Entry { armed: now, wait, by, tick };
        due
    }

    #[inline]
    pub(super) fn disarm(&mut self, timer: Timer) {
        self.due[timer as usize] = Instant::NEVER;
    }

    /// It is another timer from now on, which has never been set.
    pub(super) fn begin_anew(&mut self, timer: Timer) {
        self.disarm(timer);
        if let Some(place) = timer.on_wheel() {
            self.wheel[place] = Entry::OFF;
        }
    }

    /// When a timer is due; [`Instant::NEVER`] if it is off.
    #[inline]
    pub(super) fn due(&self, timer: Timer) -> Instant {
        self.due[timer as usize]
    }

    /// How long from `now` a timer of the wheel is set to, in whole ticks; nothing if it is off.
    #[inline]
    pub(super) fn left(&mut self, timer: Timer, now: Instant) -> Duration {
        timer.on_wheel().filter(|_| self.is_armed(timer)).map_or(Duration::ZERO, |place| self.left_on_wheel(place, now))
    }

    #[inline(never)]
    fn left_on_wheel(&mut self, place: usize, now: Instant) -> Duration {
        let entry = &mut self.wheel[place];
        let due = entry.set_to(&mut self.clock);
        debug_assert!(due == due_tick(entry.armed, entry.wait, self.clock.tick()), "it is known of what it was armed to");
        self.clock.left(now, due)
    }

    /// A timer of the wheel, this one's or another one's, has fired at `now`: what is armed then is
    /// armed by it.
    pub(super) fn note_fired(&mut self, now: Instant) {
        self.fired = now;
    }

    #[inline]
    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.due(timer) != Instant::NEVER
    }

    /// (Re)arms the retransmission timer.
    #[inline]
    pub(super) fn arm_pending(&mut self, pending: Pending, now: Instant, wait: Duration) {
        self.arm(Timer::Retransmission, now, wait);
        self.pending = pending;
    }

    /// What the retransmission timer stands for, if it is armed.
    #[inline]
    pub(super) fn pending(&self) -> Option<Pending> {
        self.is_armed(Timer::Retransmission).then_some(self.pending)
    }

    /// No earlier than this something is due.
    #[inline]
    pub(super) fn next(&self) -> Instant {
        let [a, b, c, d] = self.due;
        a.min(b).min(c.min(d))
    }

    /// Those of the wheel, each with the time at which it is due.
    fn on_wheel(&self) -> impl Iterator<Item = (Instant, &Entry)> {
        let [_, _, due @ ..] = self.due;
        due.into_iter().zip(&self.wheel)
    }

    /// Of the timers of the wheel that are due, the first: its level, and when it was set. Of those
    /// of one tick the higher level comes first, and on a level that which was set last (Linux:
    /// `expire_timers`, `enqueue_timer`).
    pub(super) fn order(&self, now: Instant) -> Option<(u32, Instant)> {
        let come_up = self.on_wheel().filter(|&(due, _)| due <= now);
        come_up.map(|(_, entry)| (level(entry.wait, self.clock.tick(), entry.by), entry.armed)).max()
    }

    /// A timer of the wheel is armed, and was so at `now`.
    #[inline]
    pub(super) fn is_set_at(&self, now: Instant) -> bool {
        self.on_wheel().any(|(due, entry)| due != Instant::NEVER && entry.armed == now)
    }

    /// Whether a timer has come up at `now`; then it is off.
    pub(super) fn expire(&mut self, timer: Timer, now: Instant) -> bool {
        if self.due(timer) > now {
            return false;
        }
        if let Some(place) = timer.on_wheel() {
            let entry = &mut self.wheel[place];
            let due = fires_after(entry.armed, entry.wait, self.clock.tick(), entry.by);
            debug_assert!(due != Instant::NEVER, "a timer that was armed comes up");
            self.due[timer as usize] = due;
            if due > now {
                return false;
            }
            *entry = Entry::OFF;
            self.fired = now;
        }
        self.disarm(timer);
        true
    }

    /// What the retransmission timer stands for, or stood for before it came up.
    pub(super) fn last_pending(&self) -> Pending {
        self.pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188};

    fn expire_pending(timers: &mut Timers, now: Instant) -> Option<Pending> {
        timers.expire(Timer::Retransmission, now).then_some(timers.last_pending())
    }

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_timer_of_the_wheel_fires_on_its_step_and_only_once() {
        let mut timers = Timers::new(&Settings::default());
        timers.arm_pending(Pending::Timeout, ms(7), Duration::from_millis(201));
        assert_eq!(expire_pending(&mut timers, ms(207)), None);
        assert_eq!(expire_pending(&mut timers, ms(208)), None);
        assert_eq!(timers.next(), ms(212), "51 ticks after that of 4 ms, and one");
        assert_eq!(expire_pending(&mut timers, ms(212)), Some(Pending::Timeout));
        assert_eq!(expire_pending(&mut timers, ms(212)), None);
    }

    #[test]
    fn an_exact_timer_fires_when_due() {
        let mut timers = Timers::new(&Settings::default());
        timers.arm(Timer::Pacing, ms(7), Duration::from_micros(1));
        let due = ms(7) + Duration::from_micros(1);
        assert!(!timers.expire(Timer::Pacing, ms(7)) && timers.next() == due);
        assert!(timers.expire(Timer::Pacing, due) && !timers.is_armed(Timer::Pacing));
    }

    #[test]
    fn the_retransmission_timer_stands_for_one_thing() {
        let mut timers = Timers::new(&Settings::default());
        timers.arm_pending(Pending::Reordering, ms(0), Duration::from_millis(10));
        timers.arm_pending(Pending::LossProbe, ms(0), Duration::from_millis(20));
        assert_eq!((timers.pending(), timers.next()), (Some(Pending::LossProbe), ms(20)));
        timers.disarm(Timer::Retransmission);
        assert_eq!((timers.pending(), timers.next()), (None, Instant::NEVER));
    }

    #[test]
    fn a_timer_that_is_set_to_the_tick_it_has_stays_on_its_coarser_step() {
        // tests/scripts/tcp-tail-loss-probe-while-writing.pkt
        let mut timers = Timers::new(&Settings::default());
        timers.arm_pending(Pending::Timeout, ms(301), Duration::from_millis(308));
        timers.disarm(Timer::Retransmission);
        timers.arm_pending(Pending::LossProbe, ms(501), Duration::from_millis(108));
        assert_eq!(expire_pending(&mut timers, ms(612)), None);
        assert_eq!(expire_pending(&mut timers, ms(640)), Some(Pending::LossProbe));
        timers.arm_pending(Pending::LossProbe, ms(701), Duration::from_millis(108));
        assert_eq!(expire_pending(&mut timers, ms(812)), Some(Pending::LossProbe));
    }

    #[test]
    fn all_has_each_timer_in_its_place() {
        assert!(Timer::ALL.iter().enumerate().all(|(at, &timer)| timer as usize == at));
    }

    #[test]
    fn the_floor_is_two_ticks_before_october_2023_and_two_milliseconds_since() {
        let floor = |stack, tick| Timers::new(&Settings { stack, tick: Duration::from_millis(tick), ..Settings::default() }).floor();
        assert_eq!([4, 10].map(|tick| floor(&MPTCP_0_96_LINUX_5_4_188, tick).as_micros()), [8000, 20_000]);
        assert_eq!([4, 10].map(|tick| floor(&LINUX_6_12_117, tick).as_micros()), [2000, 2000]);
    }

    #[test]
    fn without_a_tick_it_fires_when_due() {
        let mut timers = Timers::new(&Settings { tick: Duration::ZERO, ..Settings::default() });
        timers.arm_pending(Pending::Timeout, Instant::ZERO, Duration::from_nanos(5));
        assert_eq!(expire_pending(&mut timers, Instant::from_nanos(5)), Some(Pending::Timeout));
    }
}
