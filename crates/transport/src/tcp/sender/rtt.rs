//! Round-trip time and retransmission timeout (RFC 6298 with Linux's variance rule and bounds), and
//! the windowed minimum.

use crate::Settings;
use crate::timer_wheel::LastTick;
use polypath_base::{Duration, Instant, Seq};
use polypath_cc as cc;

/// Before any sample (RFC 6298 section 2.1).
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// Where the handshake gave none (RFC 6298 section 5.7; Linux: `TCP_TIMEOUT_FALLBACK`).
const FALLBACK_RTO: Duration = Duration::from_secs(3);
/// Window of the minimum RTT (Linux: `tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// Longest round trip that is told apart: eight times as much fits into 32 bits.
const MAX_SAMPLE_US: u64 = (u32::MAX >> 3) as u64;

/// Probes without an answer that are counted (Linux: `tcp_retries2`).
const MOST_PROBE_DOUBLINGS: u32 = 15;

/// The estimator; `srtt_us`, `mdev_us` and `min_rtt_us` live in [`cc::Flow`], where algorithms read
/// them.
#[derive(Debug)]
pub(super) struct Rtt {
    rto_min: Duration,
    rto_max: Duration,
    rto: Duration,
    tick: Duration,
    /// Of what the timeout was measured to.
    last_tick: LastTick,
    /// `rto`, doubled for each timeout since it was measured; zero: it was not.
    doubled: Duration,
    /// Timeouts and window probes in a row (Linux: `icsk_backoff`).
    backoff: u32,
    /// Variance that the timeout uses, and the largest deviation of this round, microseconds times
    /// 4.
    rttvar_us: u32,
    mdev_max_us: u32,
    /// End of the round in which `mdev_max_us` is collected.
    round_end: Seq,
    min_stamp: Instant,
}

impl Rtt {
    pub(super) fn new(settings: &Settings) -> Self {
        let (tick, mut last_tick) = (settings.tick, LastTick::default());
        Self {
            rto_min: settings.rto_min,
            rto_max: last_tick.round_up(settings.rto_max, tick),
            rto: INITIAL_RTO,
            tick,
            last_tick,
            doubled: Duration::ZERO,
            backoff: 0,
            rttvar_us: 0,
            mdev_max_us: 0,
            round_end: Seq::default(),
            min_stamp: Instant::ZERO,
        }
    }

    /// The timeout to arm now, backed off: whole ticks, which Linux keeps and doubles (`icsk_rto`).
    #[inline]
    pub(super) fn rto(&self) -> Duration {
        if self.doubled == Duration::ZERO { self.rto } else { self.doubled.min(self.rto_max) }
    }

    /// The variation that the timeout uses: four times the mean deviation.
    #[inline]
    pub(super) fn variation(&self) -> Duration {
        Duration::from_micros(u64::from(self.rttvar_us))
    }

    /// TCP_RTO_MAX_MS, in whole ticks.
    #[cold]
    pub(super) fn set_rto_max(&mut self, longest: Duration) {
        self.rto_max = self.last_tick.round_up(longest, self.tick);
        self.rto = self.rto.min(self.rto_max);
    }

    /// The handshake has measured nothing.
    #[cold]
    pub(super) fn fall_back(&mut self) {
        self.rto = FALLBACK_RTO.min(self.rto_max);
    }

    /// RFC 6298 section 5.5.
    pub(super) fn back_off(&mut self) {
        self.doubled = (self.rto() * 2).min(self.rto_max);
        self.backoff += 1;
    }

    #[inline]
    pub(super) fn forget_backoff(&mut self) {
        (self.doubled, self.backoff) = (Duration::ZERO, 0);
    }

    #[inline]
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// From the closing of the window to its first probe (Linux: `tcp_probe0_base`).
    #[cold]
    pub(super) fn first_probe_timeout(&self) -> Duration {
        self.rto().max(self.rto_min)
    }

    /// Until the next probe of the window: it doubles with each (RFC 1122 section 4.2.2.17; Linux:
    /// `tcp_probe0_when`).
    #[cold]
    pub(super) fn probe_timeout(&self) -> Duration {
        let doublings = (self.rto_max.as_nanos() / self.rto_min.as_nanos().max(1)).max(1).ilog2() + 1;
        (self.first_probe_timeout() * (1 << self.backoff.min(doublings).min(MOST_PROBE_DOUBLINGS))).min(self.rto_max)
    }

    /// A probe without data has left.
    #[cold]
    pub(super) fn on_window_probe(&mut self) {
        self.backoff = MOST_PROBE_DOUBLINGS.min(self.backoff + 1);
    }

    /// The window takes data, so nothing is probed any more. Timeouts stay as long as they are.
    #[cold]
    pub(super) fn on_window_open(&mut self) {
        self.backoff = 0;
    }

    /// One measurement (RFC 6298 section 2.3; the variance falls only once a round, and slowly, as
    /// in Linux). Of the segments that an ACK covers the first has taken `rtt` and the last `last`,
    /// which counts for the least (Linux: `tcp_update_rtt_min`).
    pub(super) fn sample(&mut self, rtt: Duration, last: Duration, snd_una: Seq, snd_nxt: Seq, flow: &mut cc::Flow) {
        debug_assert!(!snd_una.after(snd_nxt), "what is acknowledged has been sent");
        let in_us = |rtt: Duration| rtt.as_micros().clamp(1, MAX_SAMPLE_US) as u32;
        let (us, last_us) = (in_us(rtt), in_us(last));
        let now = Instant::from_nanos(flow.now_ns);
        if last_us <= flow.min_rtt_us || now.since(self.min_stamp) > MIN_RTT_WINDOW {
            flow.min_rtt_us = last_us;
            self.min_stamp = now;
        }
        let rto_min_us = self.rto_min.as_micros() as u32;
        if flow.srtt_us == 0 {
            self.take_first(us, snd_nxt, flow);
        } else {
            let error = i64::from(us) - i64::from(flow.srtt_us >> 3);
            flow.srtt_us = (i64::from(flow.srtt_us) + error).max(1) as u32;
            let mut deviation = error.abs() - i64::from(flow.mdev_us >> 2);
            if error < 0 && deviation > 0 {
                deviation >>= 3; // a falling RTT must not look like variance
            }
            flow.mdev_us = (i64::from(flow.mdev_us) + deviation).max(0) as u32;
            if flow.mdev_us > self.mdev_max_us {
                self.mdev_max_us = flow.mdev_us;
                self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
            }
            if snd_una.after(self.round_end) {
                if self.mdev_max_us < self.rttvar_us {
                    self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
                }
                self.round_end = snd_nxt;
                self.mdev_max_us = rto_min_us;
            }
        }
        debug_assert!(flow.srtt_us > 0 && flow.min_rtt_us <= MAX_SAMPLE_US as u32, "there is a sample");
        self.rto =
            self.last_tick.round_up(Duration::from_micros(u64::from((flow.srtt_us >> 3) + self.rttvar_us)), self.tick).min(self.rto_max);
        self.forget_backoff();
    }

    /// RFC 6298 section 2.2.
    #[cold]
    fn take_first(&mut self, us: u32, snd_nxt: Seq, flow: &mut cc::Flow) {
        flow.srtt_us = us << 3;
        flow.mdev_us = us << 1;
        self.rttvar_us = flow.mdev_us.max(self.rto_min.as_micros() as u32);
        self.mdev_max_us = self.rttvar_us;
        self.round_end = snd_nxt;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_ticks_are_doubled() {
        let mut rtt = Rtt::new(&Settings::default());
        rtt.sample(Duration::from_millis(11), Duration::from_millis(11), Seq::new(1), Seq::new(2), &mut cc::Flow::new(10, 1448));
        assert_eq!(rtt.rto().as_millis(), 212);
        rtt.back_off();
        assert_eq!(rtt.rto().as_millis(), 424);
        let mut exact = Rtt::new(&Settings { tick: Duration::ZERO, ..Settings::default() });
        exact.back_off();
        assert_eq!(exact.rto(), INITIAL_RTO * 2);
    }

    #[test]
    fn the_interval_of_window_probes_doubles_up_to_the_longest_timeout() {
        let mut rtt = Rtt::new(&Settings::default());
        rtt.sample(Duration::from_millis(11), Duration::from_millis(11), Seq::new(1), Seq::new(2), &mut cc::Flow::new(10, 1448));
        assert_eq!(rtt.first_probe_timeout().as_millis(), 212);
        let waits: Vec<u64> = (0..12).map(|_| (rtt.on_window_probe(), rtt.probe_timeout().as_millis()).1).collect();
        let doubled = (1..10).map(|n| 212 << n);
        assert_eq!(waits, doubled.chain([120_000; 3]).collect::<Vec<_>>());
        rtt.on_window_open();
        assert_eq!((rtt.probe_timeout().as_millis(), rtt.rto().as_millis()), (212, 212));
        rtt.back_off();
        rtt.on_window_open();
        assert_eq!((rtt.backoff(), rtt.rto().as_millis()), (0, 424), "what timeouts doubled stays");
    }

    #[test]
    fn no_sample_is_too_long() {
        let settings = Settings::default();
        let mut flow = cc::Flow::new(10, 1448);
        for days in [30, 0, 30] {
            let mut rtt = Rtt::new(&settings);
            for _ in 0..50 {
                let taken = Duration::from_secs(days * 24 * 3600);
                rtt.sample(taken, taken, Seq::new(1), Seq::new(2), &mut flow);
            }
            assert!(rtt.rto() <= settings.rto_max && (days == 0 || rtt.rto() == settings.rto_max), "{days} days");
        }
    }
}
