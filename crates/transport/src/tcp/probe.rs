//! What can be seen of an endpoint from outside: counters, a snapshot, and what limits the sender.

use super::Socket;
use crate::{Counters, Rejections};
use polypath_base::{Duration, Instant};

/// What limits the sender at this moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Nothing is waiting and nothing is in the network.
    #[default]
    Idle,
    /// Data is in the network; the application offers no more.
    Application,
    CongestionWindow,
    PeerWindow,
    SendBuffer,
}

/// How long each has held up a whole connection.
#[derive(Copy, Clone, Debug, Default)]
pub struct Held {
    /// The peer's receive window.
    pub window: Duration,
    /// The send buffer, which was full of what is in the network.
    pub buffer: Duration,
    /// There was nothing to send.
    pub application: Duration,
}

/// A snapshot of one endpoint; the columns of the series.
#[derive(Copy, Clone, Debug, Default)]
pub struct Probe {
    pub counters: Counters,
    pub rejected: Rejections,
    /// Payload that arrived, each byte once, in order or not.
    pub bytes_received: u64,
    pub established_at: Option<Instant>,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub srtt_us: u32,
    pub rttvar_us: u32,
    pub min_rtt_us: u32,
    pub rto_us: u32,
    pub in_flight: u32,
    pub reordering: u32,
    pub mss: u32,
    pub pmtu: u32,
    pub ca_state: u8,
    /// Bytes per second.
    pub pacing_rate: u64,
    pub delivery_rate: u64,
}

impl Socket {
    /// What has held up the sender until `now`.
    pub fn limited(&self, now: Instant) -> Held {
        let counters = self.counters_now(if self.established_at.is_some() { now } else { self.limit_since });
        Held { window: counters.rwnd_limited, buffer: counters.sndbuf_limited, application: counters.app_limited }
    }

    /// The snapshot that probes read.
    pub fn probe(&self) -> Probe {
        Probe {
            counters: self.counters_now(Instant::from_nanos(self.flow.now_ns)),
            rejected: self.rejected,
            bytes_received: self.rx.received_bytes(),
            established_at: self.established_at,
            cwnd: self.flow.cwnd,
            ssthresh: self.flow.ssthresh,
            srtt_us: self.flow.srtt_us >> 3,
            rttvar_us: self.flow.mdev_us >> 2,
            min_rtt_us: self.flow.min_rtt_us,
            rto_us: self.rtt.rto().as_micros() as u32,
            in_flight: self.queue.in_flight(),
            reordering: self.flow.reordering,
            mss: self.flow.mss,
            pmtu: self.path_mtu.pmtu(),
            ca_state: self.flow.ca_state as u8,
            pacing_rate: self.flow.pacing_rate,
            delivery_rate: self.delivery.rate(self.flow.mss),
        }
    }

    fn counters_now(&self, now: Instant) -> Counters {
        let mut counters = self.counters;
        counters.bytes_acked = self.flow.bytes_acked;
        charge(&mut counters, self.limit, now.since(self.limit_since));
        counters
    }

    pub(super) fn set_limit(&mut self, now: Instant, limit: Limit) {
        if limit != self.limit {
            charge(&mut self.counters, self.limit, now.since(self.limit_since));
            self.limit = limit;
            self.limit_since = now;
        }
    }
}

fn charge(counters: &mut Counters, limit: Limit, span: Duration) {
    match limit {
        Limit::Idle | Limit::Application => counters.app_limited += span,
        Limit::CongestionWindow => counters.cwnd_limited += span,
        Limit::PeerWindow => counters.rwnd_limited += span,
        Limit::SendBuffer => counters.sndbuf_limited += span,
    }
    if limit != Limit::Idle {
        counters.busy += span;
    }
}
