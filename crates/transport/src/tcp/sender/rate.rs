//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation), in Linux's form.

use super::scoreboard::Sent;
use polypath_base::{Instant, Seq};
use polypath_cc as cc;

/// What is kept between ACKs. `delivered` and `app_limited` live in [`cc::Flow`].
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Send time of the most recently delivered segment, and time of that delivery.
    pub(super) first_tx: Instant,
    pub(super) delivered_at: Instant,
    rate_delivered: u32,
    rate_interval_us: u64,
    rate_app_limited: bool,
}

/// The sample that one ACK builds up.
#[derive(Debug)]
pub(super) struct RateSample {
    pub(super) sample: cc::Sample,
    prior_at: Option<Instant>,
    newest_tx: Instant,
}

impl RateSample {
    pub(super) fn new(prior_in_flight: u32) -> Self {
        Self { sample: cc::Sample { rtt_us: -1, prior_in_flight, ..cc::Sample::default() }, prior_at: None, newest_tx: Instant::ZERO }
    }
}

impl Delivery {
    /// Stamps a segment at its (re)transmission.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, flow: &cc::Flow, nothing_out: bool, sent: &mut Sent) {
        if nothing_out {
            self.first_tx = now;
            self.delivered_at = now;
        }
        sent.interval_us = now.since(self.first_tx).as_micros().min(u64::from(u32::MAX)) as u32;
        sent.delivered_at = self.delivered_at;
        sent.delivered = flow.delivered;
        sent.set_app_limited(flow.app_limited != 0);
    }

    /// A segment was cumulatively or selectively acknowledged for the first time.
    #[inline]
    pub(super) fn on_delivered(&mut self, sent: &Sent, rs: &mut RateSample) {
        // The most recently sent segment of this ACK decides.
        if rs.prior_at.is_none()
            || sent.at > rs.newest_tx
            || (sent.at == rs.newest_tx && sent.end().after(Seq::new(rs.sample.last_end_seq)))
        {
            rs.sample.prior_delivered = sent.delivered;
            rs.prior_at = Some(sent.delivered_at);
            rs.sample.is_app_limited = sent.is_app_limited();
            rs.sample.is_retrans = sent.is_retransmitted();
            rs.sample.last_end_seq = sent.end().get();
            rs.sample.interval_us = i64::from(sent.interval_us);
            rs.newest_tx = sent.at;
            self.first_tx = sent.at;
        }
    }

    /// Completes the sample at the end of an ACK that delivered `acked_sacked` segments and marked
    /// `losses`.
    pub(super) fn finish(&mut self, now: Instant, flow: &mut cc::Flow, acked_sacked: u32, losses: u32, rs: &mut RateSample) {
        if flow.app_limited != 0 && (flow.delivered.wrapping_sub(flow.app_limited) as i32) > 0 {
            flow.app_limited = 0;
        }
        if acked_sacked > 0 {
            self.delivered_at = now;
            flow.delivered_ns = now.as_nanos();
        }
        let sample = &mut rs.sample;
        sample.acked_sacked = acked_sacked;
        sample.losses = losses as i32;
        let Some(prior_at) = rs.prior_at else {
            sample.delivered = -1;
            sample.interval_us = -1;
            return;
        };
        sample.prior_ns = prior_at.as_nanos();
        sample.delivered = flow.delivered.wrapping_sub(sample.prior_delivered) as i32;
        sample.interval_us = sample.interval_us.max(now.since(prior_at).as_micros() as i64);
        // An interval below the minimum RTT is an artefact of compressed ACKs or timers.
        if sample.interval_us < i64::from(flow.min_rtt_us) {
            sample.interval_us = -1;
            return;
        }
        debug_assert!(sample.delivered >= 0 && sample.interval_us >= 0, "a rate is not negative");
        let (delivered, interval) = (sample.delivered as u64, sample.interval_us as u64);
        if !sample.is_app_limited || delivered * self.rate_interval_us >= u64::from(self.rate_delivered) * interval {
            self.rate_delivered = delivered as u32;
            self.rate_interval_us = interval;
            self.rate_app_limited = sample.is_app_limited;
        }
    }

    /// The last delivery rate in bytes per second.
    pub(super) fn rate(&self, mss: u32) -> u64 {
        (u64::from(self.rate_delivered) * u64::from(mss) * 1_000_000).checked_div(self.rate_interval_us).unwrap_or(0)
    }
}
