//! The timestamps that this end sends (RFC 7323 section 3). Those of the peer are the receiver's
//! ([`Receiver::ts_recent`](super::Receiver)).

use super::sender::{rtt_by_echo, timestamp};
use crate::Settings;
use polypath_base::{Duration, Instant, Seq};
use polypath_wire::{Segment, TIMESTAMP_BYTES};

/// The clock of the timestamps, and whether both ends send them.
#[derive(Debug)]
pub(super) struct Timestamps {
    /// Both ends have the option, as far as is known yet.
    ok: bool,
    /// What our timestamp clock shows at time zero, ms.
    start: u32,
}

impl Timestamps {
    /// Where the clock begins follows from the first sequence number.
    pub(super) fn new(settings: &Settings, iss: Seq) -> Self {
        let start = if settings.timestamps_from_zero { 0 } else { iss.get().wrapping_mul(0x9e37_79b1).rotate_left(16) };
        Self { ok: settings.timestamps, start }
    }

    /// The peer's SYN has the option, or has it not.
    pub(super) fn on_syn(&mut self, segment: &Segment) {
        self.ok &= segment.has_ts;
    }

    #[inline]
    pub(super) fn ok(&self) -> bool {
        self.ok
    }

    /// Bytes of them in the options of a segment.
    #[inline]
    pub(super) fn bytes(&self) -> u32 {
        if self.ok { TIMESTAMP_BYTES } else { 0 }
    }

    /// What the clock shows.
    #[inline]
    pub(super) fn at(&self, now: Instant) -> u32 {
        timestamp(now).wrapping_add(self.start)
    }

    /// What the peer echoes, as [`timestamp`] of the time at which we sent it.
    #[inline]
    pub(super) fn echo(&self, segment: &Segment) -> u32 {
        segment.ts_ecr.wrapping_sub(self.start)
    }

    /// How long ago that was, ms.
    #[inline]
    pub(super) fn since_echo(&self, now: Instant, segment: &Segment) -> u32 {
        timestamp(now).wrapping_sub(self.echo(segment))
    }

    /// The segment has timestamps that count.
    #[inline]
    pub(super) fn are_on(&self, segment: &Segment) -> bool {
        self.ok && segment.has_ts
    }

    /// The round trip that the answer to our SYN tells by its echo.
    #[cold]
    pub(super) fn rtt(&self, now: Instant, segment: &Segment) -> Option<Duration> {
        if self.are_on(segment) { rtt_by_echo(now, self.echo(segment)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_the_time_of_what_it_echoes() {
        let settings = Settings::default();
        let mut timestamps = Timestamps::new(&settings, Seq::new(77));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let echo = Segment { has_ts: true, ts_ecr: timestamps.at(at(5)), ..Segment::default() };
        assert_eq!(timestamps.echo(&echo), 5);
        assert_eq!(timestamps.rtt(at(12), &echo), Some(Duration::from_millis(7)));
        let none = Segment::default();
        timestamps.on_syn(&none);
        assert_eq!((timestamps.bytes(), timestamps.rtt(at(12), &echo)), (0, None), "the peer has no such option");
    }
}
