//! The endpoint's timers: one for retransmission, probe and reordering (as Linux has one), one for delayed ACKs, two exact ones.

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
    due: Instant,
    rounded: bool,
}

impl Ticked {
    const OFF: Self = Self { due: Instant::NEVER, rounded: true };
}

#[derive(Debug)]
pub(super) struct Timers {
    tick: Duration,
    rtx: Ticked,
    rtx_kind: Rtx,
    armed_at: Instant,
    delack: Ticked,
    /// Compressed ACKs and pacing run on high-resolution timers.
    pub(super) compressed_ack: Instant,
    pub(super) pacing: Instant,
}

impl Timers {
    pub(super) fn new(tick: Duration) -> Self {
        Self {
            tick,
            rtx: Ticked::OFF,
            rtx_kind: Rtx::Timeout,
            armed_at: Instant::ZERO,
            delack: Ticked::OFF,
            compressed_ack: Instant::NEVER,
            pacing: Instant::NEVER,
        }
    }

    #[inline]
    pub(super) fn arm(&mut self, kind: Rtx, due: Instant) {
        self.rtx = Ticked { due, rounded: false };
        self.rtx_kind = kind;
    }

    #[inline]
    pub(super) fn arm_rto(&mut self, due: Instant) {
        self.arm(Rtx::Timeout, due);
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
        self.armed_at = now;
        self.delack = Ticked { due, rounded: false };
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
            *timer = Ticked { due: on_tick(timer.due, tick), rounded: true };
            if timer.due > now {
                return false;
            }
        }
        *timer = Ticked::OFF;
        true
    }
}

/// A timer of the kernel's wheel never fires early: it fires at the first tick after the one in which it is due.
fn on_tick(due: Instant, tick: Duration) -> Instant {
    match tick.as_nanos() {
        0 => due,
        t => Instant::from_nanos((due.as_nanos() / t + 1) * t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticked_timer_fires_on_the_next_tick_and_only_once() {
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        let mut timers = Timers::new(Duration::from_millis(4));
        timers.arm_rto(ms(201));
        assert_eq!(timers.take_rtx(ms(201)), None);
        assert_eq!(timers.next(), ms(204));
        assert_eq!(timers.take_rtx(ms(204)), Some(Rtx::Timeout));
        assert_eq!(timers.take_rtx(ms(204)), None);
    }

    #[test]
    fn without_a_tick_it_fires_when_due() {
        let mut timers = Timers::new(Duration::ZERO);
        timers.arm_rto(Instant::from_nanos(5));
        assert_eq!(timers.take_rtx(Instant::from_nanos(5)), Some(Rtx::Timeout));
    }
}
