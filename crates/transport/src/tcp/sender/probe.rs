//! What can be seen of an endpoint from outside: counters, and a snapshot.

use super::{CaState, Sender};
use crate::limit_clock::LimitedTimes;
use crate::{Counters, Rejections};
use polypath_base::{Bytes, Duration, Instant, Rate, Segments};

/// A snapshot of one endpoint; the columns of the series.
#[derive(Copy, Clone, Debug, Default)]
pub struct Probe {
    /// What the sender counted; times run up to the last input or timeout.
    pub counters: Counters,
    /// Segments that it took no notice of, or not of all they said.
    pub rejected: Rejections,
    /// Payload that arrived, each byte once, in order or not.
    pub bytes_received: Bytes,
    /// When the handshake was complete; `None` before.
    pub established_at: Option<Instant>,
    /// Congestion window (Linux: `snd_cwnd`).
    pub cwnd: Segments,
    /// Slow-start threshold; 2^31 - 1 as long as it is infinite, as Linux has it.
    pub ssthresh: Segments,
    /// Smoothed RTT, whole microseconds; zero before the first sample (Linux: `srtt_us >> 3`).
    pub srtt: Duration,
    /// Mean deviation of the RTT, whole microseconds; zero before the first sample (Linux: `mdev_us
    /// >> 2`).
    pub rttvar: Duration,
    /// Smallest RTT of the last five minutes; 2^32 - 1 us before the first sample.
    pub min_rtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// In the network: sent, less sacked and lost, plus retransmitted (Linux:
    /// `tcp_packets_in_flight`).
    pub in_flight: Segments,
    /// Segments that the peer has received, duplicates among them, and the SYN (Linux:
    /// `tcpi_delivered`).
    pub delivered: Segments,
    /// By how many segments packets may be late before they count as lost.
    pub reordering: Segments,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// The interface's MTU, or less where a link told so: bytes of a packet with the IP header
    /// (Linux: `icsk_pmtu_cookie`).
    pub pmtu: Bytes,
    /// Congestion state of the sender (Linux: `icsk_ca_state`).
    pub ca_state: CaState,
    /// At which data may leave; zero while unknown (Linux: `sk_pacing_rate`).
    pub pacing_rate: Rate,
    /// Of the last sample that was not app-limited, or was faster than the one before; zero without
    /// any (Linux: `tcpi_delivery_rate`).
    pub delivery_rate: Rate,
}

impl Sender {
    /// What has held it up until `now`.
    pub(in crate::tcp) fn limited(&self, now: Instant) -> LimitedTimes {
        if self.established_at.is_some() { self.limit.limited(now) } else { LimitedTimes::default() }
    }

    /// The snapshot of an endpoint that has received so much and rejected these.
    pub(in crate::tcp) fn probe(&self, bytes_received: Bytes, rejected: Rejections) -> Probe {
        let us = |micros: u32| Duration::from_micros(u64::from(micros));
        Probe {
            counters: self.counters_now(Instant::from_nanos(self.flow.now_ns)),
            rejected,
            bytes_received,
            established_at: self.established_at,
            cwnd: Segments::new(self.flow.cwnd),
            ssthresh: Segments::new(self.flow.ssthresh),
            srtt: us(self.flow.srtt_us >> 3),
            rttvar: us(self.flow.mdev_us >> 2),
            min_rtt: us(self.flow.min_rtt_us),
            rto: self.rtt.rto(),
            in_flight: self.in_flight(),
            delivered: Segments::new(self.flow.delivered),
            reordering: Segments::new(self.flow.reordering),
            mss: Bytes::from_u32(self.flow.mss),
            pmtu: self.path_mtu.pmtu(),
            ca_state: self.flow.ca_state,
            pacing_rate: self.pacing_rate(),
            delivery_rate: Rate::from_bytes_per_sec(self.delivery.rate(self.flow.mss)),
        }
    }

    fn counters_now(&self, now: Instant) -> Counters {
        let mut counters = self.counters;
        counters.bytes_acked = self.flow.bytes_acked;
        self.limit.count(now, &mut counters);
        counters
    }
}
