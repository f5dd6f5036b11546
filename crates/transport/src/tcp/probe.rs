//! What can be seen of an endpoint from outside: counters, and a snapshot.

use super::{CaState, Socket};
use crate::limit_clock::Held;
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
    /// Mean deviation of the RTT, whole microseconds; zero before the first sample (Linux: `mdev_us >> 2`).
    pub rttvar: Duration,
    /// Smallest RTT of the last five minutes; 2^32 - 1 us before the first sample.
    pub min_rtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// In the network: sent, less sacked and lost, plus retransmitted (Linux: `tcp_packets_in_flight`).
    pub in_flight: Segments,
    /// Segments that the peer has received, duplicates among them, and the SYN (Linux: `tcpi_delivered`).
    pub delivered: Segments,
    /// By how many segments packets may be late before they count as lost.
    pub reordering: Segments,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// The interface's MTU, or less where a link told so: bytes of a packet with the IP header (Linux: `icsk_pmtu_cookie`).
    pub pmtu: Bytes,
    /// Congestion state of the sender (Linux: `icsk_ca_state`).
    pub ca_state: CaState,
    /// At which data may leave; zero while unknown (Linux: `sk_pacing_rate`).
    pub pacing_rate: Rate,
    /// Of the last sample that was not app-limited, or was faster than the one before; zero without any (Linux: `tcpi_delivery_rate`).
    pub delivery_rate: Rate,
}

impl Socket {
    /// What has held up the sender until `now`.
    pub fn limited(&self, now: Instant) -> Held {
        if self.tx.established_at.is_some() { self.tx.limit.held(now) } else { Held::default() }
    }

    /// The snapshot that probes read.
    pub fn probe(&self) -> Probe {
        let us = |micros: u32| Duration::from_micros(u64::from(micros));
        Probe {
            counters: self.counters_now(Instant::from_nanos(self.tx.flow.now_ns)),
            rejected: self.rejected,
            bytes_received: Bytes::new(self.rx.received_bytes()),
            established_at: self.tx.established_at,
            cwnd: Segments::new(self.tx.flow.cwnd),
            ssthresh: Segments::new(self.tx.flow.ssthresh),
            srtt: us(self.tx.flow.srtt_us >> 3),
            rttvar: us(self.tx.flow.mdev_us >> 2),
            min_rtt: us(self.tx.flow.min_rtt_us),
            rto: self.tx.rtt.rto(),
            in_flight: self.tx.in_flight(),
            delivered: Segments::new(self.tx.flow.delivered),
            reordering: Segments::new(self.tx.flow.reordering),
            mss: Bytes::from_u32(self.tx.flow.mss),
            pmtu: self.tx.path_mtu.pmtu(),
            ca_state: self.tx.flow.ca_state,
            pacing_rate: self.tx.pacing_rate(),
            delivery_rate: Rate::from_bytes_per_sec(self.tx.delivery.rate(self.tx.flow.mss)),
        }
    }

    fn counters_now(&self, now: Instant) -> Counters {
        let mut counters = self.tx.counters;
        counters.bytes_acked = self.tx.flow.bytes_acked;
        self.tx.limit.count(now, &mut counters);
        counters
    }
}
