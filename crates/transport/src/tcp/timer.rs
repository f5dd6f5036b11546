//! The endpoint's timers: a table by [`Timer`], so that a further one is a variant, its clock, and
//! an arm in `Socket::handle_timeout`.

use crate::Settings;
use crate::timer_wheel::{SetBy, TickClock, due_tick, fires_after, level};
use polypath_base::{Duration, Instant};

/// The timers, in the order in which those that come up together are served.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next burst may leave (Linux: `pacing_timer`).
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

/// On which clock a timer fires.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Clock {
    /// The kernel's timer wheel.
    Wheel,
    /// A high-resolution timer, exact.
    Exact,
}

impl Timer {
    pub(super) const ALL: [Self; 4] = [Self::Pacing, Self::CompressedAck, Self::DelayedAck, Self::Retransmission];

    #[inline]
    const fn clock(self) -> Clock {
        match self {
            Self::Pacing | Self::CompressedAck => Clock::Exact,
            Self::DelayedAck | Self::Retransmission => Clock::Wheel,
        }
    }
}

#[derive(Copy, Clone, Debug)]
struct Entry {
    /// [`Instant::NEVER`]: it is off.
    due: Instant,
    /// Of a timer of the wheel: when it was armed, to how long from then, and by whom. Where `due`
    /// is that time it has not been put on the wheel yet: that is done when it first comes up.
    /// `armed` is [`Instant::NEVER`] once it has fired.
    armed: Instant,
    wait: Duration,
    by: SetBy,
    /// The tick that it is set to, once somebody has asked; [`UNKNOWN`] before.
    tick: u64,
}

const UNKNOWN: u64 = u64::MAX;

impl Entry {
    const OFF: Self = Self { due: Instant::NEVER, armed: Instant::NEVER, wait: Duration::ZERO, by: SetBy::Event, tick: UNKNOWN };

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
    table: [Entry; Timer::ALL.len()],
    pending: Pending,
    /// When a timer of the wheel fired last: what is armed then is armed by it.
    fired: Instant,
    tick: Duration,
    clock: TickClock,
    /// What a tail loss probe's and the reordering timer have on top of their time.
    floor: Duration,
}

impl Timers {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            table: [Entry::OFF; Timer::ALL.len()],
            pending: Pending::Timeout,
            fired: Instant::NEVER,
            tick: settings.tick,
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
        match timer.clock() {
            Clock::Exact => self.table[timer as usize] = Entry { due: now + wait, ..Entry::OFF },
            Clock::Wheel => self.arm_on_wheel(timer, now, wait),
        }
    }

    #[inline(never)]
    fn arm_on_wheel(&mut self, timer: Timer, now: Instant, wait: Duration) {
        let entry = &mut self.table[timer as usize];
        let due = now + wait;
        let mut tick = UNKNOWN;
        if wait < entry.wait && due < entry.armed + entry.wait + self.tick {
            debug_assert!(entry.armed != Instant::NEVER, "what was never armed waits for no time");
            tick = self.clock.due_tick(now, wait);
            if entry.set_to(&mut self.clock) == tick {
                // It stays where it was put earlier, on coarser steps maybe (Linux: `__mod_timer`),
                // even if it had been switched off meanwhile (`inet_csk_clear_xmit_timer`).
                entry.due = entry.armed + entry.wait;
                return;
            }
        }
        let by = if now == self.fired { SetBy::Timer } else { SetBy::Event };
        *entry = Entry { due, armed: now, wait, by, tick };
    }

    #[inline]
    pub(super) fn disarm(&mut self, timer: Timer) {
        self.table[timer as usize].due = Instant::NEVER;
    }

    /// It is another timer from now on, which has never been set.
    pub(super) fn begin_anew(&mut self, timer: Timer) {
        self.table[timer as usize] = Entry::OFF;
    }

    /// When a timer is due; [`Instant::NEVER`] if it is off.
    #[inline]
    pub(super) fn due(&self, timer: Timer) -> Instant {
        self.table[timer as usize].due
    }

    /// How long from `now` a timer of the wheel is set to, in whole ticks; nothing if it is off.
    #[inline(never)]
    pub(super) fn left(&mut self, timer: Timer, now: Instant) -> Duration {
        let entry = &mut self.table[timer as usize];
        if entry.due == Instant::NEVER {
            return Duration::ZERO;
        }
        let due = entry.set_to(&mut self.clock);
        debug_assert!(due == due_tick(entry.armed, entry.wait, self.tick), "it is known of what it was armed to");
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
        self.table.iter().fold(Instant::NEVER, |next, entry| next.min(entry.due))
    }

    /// Of the timers of the wheel that are due, the first: its level, and when it was set. Of those
    /// of one tick the higher level comes first, and on a level that which was set last (Linux:
    /// `expire_timers`, `enqueue_timer`).
    pub(super) fn order(&self, now: Instant) -> Option<(u32, Instant)> {
        let wheel = Timer::ALL.iter().filter(|timer| matches!(timer.clock(), Clock::Wheel)).map(|&timer| &self.table[timer as usize]);
        wheel.filter(|entry| entry.due <= now).map(|entry| (level(entry.wait, self.tick, entry.by), entry.armed)).max()
    }

    /// A timer of the wheel is armed, and was so at `now`.
    #[inline]
    pub(super) fn is_set_at(&self, now: Instant) -> bool {
        self.table.iter().any(|entry| entry.due != Instant::NEVER && entry.armed == now)
    }

    /// Whether a timer has come up at `now`; then it is off.
    pub(super) fn expire(&mut self, timer: Timer, now: Instant) -> bool {
        let entry = &mut self.table[timer as usize];
        if entry.due > now {
            return false;
        }
        if matches!(timer.clock(), Clock::Wheel) {
            entry.due = fires_after(entry.armed, entry.wait, self.tick, entry.by);
            debug_assert!(entry.due != Instant::NEVER, "a timer that was armed comes up");
            if entry.due > now {
                return false;
            }
            self.fired = now;
        }
        *entry = Entry::OFF;
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
