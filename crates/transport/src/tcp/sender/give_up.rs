//! When a connection whose peer is silent ends (RFC 9293 section 3.8.3, R2; RFC 5482; Linux:
//! `tcp_write_timeout`, `tcp_probe_timer`).

use super::Sender;
use crate::tcp::timer::{Pending, Timer};
use polypath_base::{Duration, Instant};

/// Timeouts that a connection bears (Linux: `tcp_retries2`), and one without a program
/// (`tcp_orphan_retries`).
const RETRIES: u32 = 15;
const ORPHAN_RETRIES: u32 = 8;
/// The timeouts that these are counted in double from this to the longest (Linux: `TCP_RTO_MIN`).
const FIRST_TIMEOUT: Duration = Duration::from_millis(200);

/// Probes of a closed window that the peer has not answered.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct UnansweredProbes {
    /// Since the peer was last heard of (Linux: `icsk_probes_out`).
    count: u32,
    /// When the first one of this closed window was due (Linux: `icsk_probes_tstamp`).
    since: Option<Instant>,
}

impl UnansweredProbes {
    /// A probe is due.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.count += 1;
        self.since.get_or_insert(now);
    }

    /// Probes in a row.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The peer acknowledges.
    #[inline]
    pub(super) fn on_ack(&mut self) {
        self.count = 0;
    }
}

impl Sender {
    /// How long data may stay unacknowledged (TCP_USER_TIMEOUT); zero: as the host has it.
    pub(in crate::tcp) fn set_user_timeout(&mut self, time: Duration) {
        self.user_timeout = time;
    }

    /// The retransmission timer comes up: has the peer been silent for too long? `is_orphan`: no
    /// program waits for it.
    #[cold]
    pub(in crate::tcp) fn gives_up(&self, now: Instant, is_orphan: bool) -> bool {
        let retries = if is_orphan { ORPHAN_RETRIES } else { RETRIES };
        match self.timers.last_pending() {
            Pending::Timeout if self.loss.backoffs() > 0 => {
                let limit = if self.user_timeout > Duration::ZERO { self.user_timeout } else { self.model_timeout(retries) };
                self.since_first_retransmission(now) >= limit
            }
            Pending::WindowProbe => {
                let silent = self.unanswered_probes.since.is_some_and(|since| now.since(since) >= self.user_timeout);
                (self.user_timeout > Duration::ZERO && silent) || self.unanswered_probes.count >= retries
            }
            _ => false,
        }
    }

    /// The time that so many timeouts take (Linux: `tcp_model_timeout`).
    fn model_timeout(&self, retries: u32) -> Duration {
        let doublings = (self.settings.rto_max.as_nanos() / FIRST_TIMEOUT.as_nanos()).max(1).ilog2();
        let doubled = self.settings.rto_min * u64::from((2_u32 << retries.min(doublings)) - 1);
        doubled + self.settings.rto_max * u64::from(retries.saturating_sub(doublings))
    }

    fn since_first_retransmission(&self, now: Instant) -> Duration {
        let ms = self.undo.retrans_stamp().map_or(0, |stamp| super::timestamp(now).wrapping_sub(stamp));
        Duration::from_millis(u64::from(ms))
    }

    /// A timeout ends no later than the time that the program allows (Linux:
    /// `tcp_clamp_rto_to_user_timeout`, `tcp_clamp_probe0_to_user_timeout`).
    pub(super) fn within_user_timeout(&self, pending: Pending, now: Instant, wait: Duration) -> Duration {
        let (elapsed, least) = match pending {
            Pending::WindowProbe => (self.unanswered_probes.since.map(|since| now.since(since)), 2),
            _ => (Some(self.since_first_retransmission(now)), 1),
        };
        match elapsed {
            Some(elapsed) if self.user_timeout > Duration::ZERO => {
                let left = Duration::from_nanos(self.user_timeout.as_nanos().saturating_sub(elapsed.as_nanos()));
                wait.min(left.max(self.settings.tick * least))
            }
            _ => wait,
        }
    }

    /// As [`Sender::within_user_timeout`] for the answer to a SYN, which left first at `since`.
    pub(in crate::tcp) fn await_answer_until(&mut self, now: Instant, since: Instant) {
        if self.user_timeout > Duration::ZERO {
            let left = Duration::from_nanos(self.user_timeout.as_nanos().saturating_sub(now.since(since).as_nanos()));
            let wait = self.rtt.rto().min(left.max(self.settings.tick));
            self.timers.arm(Timer::Retransmission, now, wait);
        }
    }

    /// The SYN that left first at `since` has been without an answer for longer than the program
    /// allows.
    pub(in crate::tcp) fn outlasts_user_timeout(&self, now: Instant, since: Instant) -> bool {
        self.user_timeout > Duration::ZERO && now.since(since) >= self.user_timeout
    }
}
