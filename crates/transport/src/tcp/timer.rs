//! The endpoint's timers: one for retransmission, probe and reordering (as Linux has one), one for delayed ACKs, two exact ones.

use crate::Settings;
use polypath_base::{Duration, Instant};

/// What the retransmission timer stands for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Rtx {
    Timeout,
    LossProbe,
    Reordering,
    /// The peer's window is closed (RFC 9293 section 3.8.6.1).
    WindowProbe,
}

/// A timer that fires on the kernel's tick. `due` is exact until it first comes up; then it is rounded to the tick.
#[derive(Copy, Clone, Debug)]
struct Ticked {
    armed: Instant,
    due: Instant,
    rounded: bool,
}

impl Ticked {
    const OFF: Self = Self { armed: Instant::ZERO, due: Instant::NEVER, rounded: true };
}

#[derive(Debug)]
pub(super) struct Timers {
    tick: Duration,
    /// What a tail loss probe's and the reordering timer have on top of their time.
    floor: Duration,
    rtx: Ticked,
    rtx_kind: Rtx,
    delack: Ticked,
    /// Compressed ACKs and pacing run on high-resolution timers.
    pub(super) compressed_ack: Instant,
    pub(super) pacing: Instant,
}

impl Timers {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            tick: settings.tick,
            floor: settings.stack.timer_floor.on(settings.tick),
            rtx: Ticked::OFF,
            rtx_kind: Rtx::Timeout,
            delack: Ticked::OFF,
            compressed_ack: Instant::NEVER,
            pacing: Instant::NEVER,
        }
    }

    #[inline]
    pub(super) fn arm(&mut self, kind: Rtx, now: Instant, wait: Duration) {
        self.rtx = Ticked { armed: now, due: now + wait, rounded: false };
        self.rtx_kind = kind;
    }

    /// RFC 8985 section 6.3 leaves to the implementation how much longer than its time a timer takes.
    #[inline]
    pub(super) fn floor(&self) -> Duration {
        self.floor
    }

    #[inline]
    pub(super) fn arm_rto(&mut self, now: Instant, wait: Duration) {
        self.arm(Rtx::Timeout, now, wait);
    }

    #[inline]
    pub(super) fn disarm_rtx(&mut self) {
        self.rtx = Ticked::OFF;
    }

    #[inline]
    pub(super) fn rtx_armed(&self) -> Option<Rtx> {
        if self.rtx.due == Instant::NEVER { None } else { Some(self.rtx_kind) }
    }

    /// When the retransmission timer is due, whatever it stands for.
    #[inline]
    pub(super) fn rtx_due(&self) -> Option<Instant> {
        (self.rtx.due != Instant::NEVER).then_some(self.rtx.due)
    }

    #[inline]
    pub(super) fn arm_delack(&mut self, now: Instant, due: Instant) {
        self.delack = Ticked { armed: now, due, rounded: false };
    }

    #[inline]
    pub(super) fn disarm_delack(&mut self) {
        self.delack = Ticked::OFF;
    }

    #[inline]
    pub(super) fn delack_due(&self) -> Instant {
        self.delack.due
    }

    /// No earlier than this something is due.
    #[inline]
    pub(super) fn next(&self) -> Instant {
        self.rtx.due.min(self.delack.due).min(self.compressed_ack).min(self.pacing)
    }

    /// Which kind of retransmission timer has come up at `now`, if any; it is disarmed.
    pub(super) fn take_rtx(&mut self, now: Instant) -> Option<Rtx> {
        Self::take(&mut self.rtx, now, self.tick).then_some(self.rtx_kind)
    }

    pub(super) fn take_delack(&mut self, now: Instant) -> bool {
        Self::take(&mut self.delack, now, self.tick)
    }

    fn take(timer: &mut Ticked, now: Instant, tick: Duration) -> bool {
        if timer.due > now {
            return false;
        }
        if !timer.rounded {
            *timer = Ticked { due: on_tick(timer.armed, timer.due, tick), rounded: true, ..*timer };
            if timer.due > now {
                return false;
            }
        }
        *timer = Ticked::OFF;
        true
    }
}

/// A timer of the kernel's never fires early: its time is rounded up to ticks, counts from the last tick, and it fires at the tick after that
/// (seen on 6.12: specs/notes/endpoint-answers).
fn on_tick(armed: Instant, due: Instant, tick: Duration) -> Instant {
    match tick.as_nanos() {
        0 => due,
        t => Instant::from_nanos((armed.as_nanos() / t + due.since(armed).as_nanos().div_ceil(t) + 1) * t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188};

    #[test]
    fn a_ticked_timer_fires_on_the_next_tick_and_only_once() {
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        let mut timers = Timers::new(&Settings::default());
        timers.arm_rto(ms(7), Duration::from_millis(201));
        assert_eq!(timers.take_rtx(ms(207)), None);
        assert_eq!(timers.take_rtx(ms(208)), None);
        assert_eq!(timers.next(), ms(212), "51 ticks after that of 4 ms, and one");
        assert_eq!(timers.take_rtx(ms(212)), Some(Rtx::Timeout));
        assert_eq!(timers.take_rtx(ms(212)), None);
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
        timers.arm_rto(Instant::ZERO, Duration::from_nanos(5));
        assert_eq!(timers.take_rtx(Instant::from_nanos(5)), Some(Rtx::Timeout));
    }
}
