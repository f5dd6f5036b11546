//! The sender: what RFC 5681, 6675, 8985, 6937 and 4821 speak of. It knows no segment's form and no handshake.

use super::path_mtu::PathMtu;
use super::queue::SendQueue;
use super::rate::Delivery;
use super::recovery::{LossState, Prr, Rack, Tlp, Undo};
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::sending::{CwndValidation, Nagle, Pacer, Persist};
use super::timer::Timers;
use super::{CaState, Config, DEFAULT_MSS, Limit, mtu, output, sack};
use crate::Counters;
use crate::limit_clock::LimitClock;
use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, Seq, SmallRng};
use polypath_cc as cc;

/// Everything that an endpoint keeps of what it sends.
#[derive(Debug)]
pub struct Sender {
    pub(super) is_subflow: bool,
    /// SACK is agreed on.
    pub(super) sack_ok: bool,
    /// When the handshake was complete; `None` before.
    pub(super) established_at: Option<Instant>,
    /// The congestion window and all else that an algorithm sees or writes: this is the master copy.
    pub(crate) flow: cc::Flow,
    pub(super) cc: cc::Controller,
    /// What the congestion control draws, seeded from the first sequence number.
    pub(super) random: SmallRng,

    // Sequence space; `flow.snd_una` and `flow.snd_nxt` are its edges.
    pub(super) queue: SendQueue,
    pub(super) scoreboard: Scoreboard,
    pub(super) snd_wnd: u32,
    /// The widest window that the peer has announced.
    pub(super) max_window: u32,
    pub(super) snd_wl1: Seq,
    /// A FIN is to be sent after everything accepted.
    pub(super) fin_queued: bool,
    pub(super) fin_sent: bool,

    // Recovery.
    pub(super) rtt: Rtt,
    /// The one table of the endpoint's timers. Those of ACKs are in it because the timer wheel is one.
    pub(super) timers: Timers,
    pub(super) delivery: Delivery,
    pub(super) loss: LossState,
    pub(super) tlp: Tlp,
    pub(super) prr: Prr,
    pub(super) undo: Undo,
    pub(super) rack: Rack,
    pub(super) sack_cache: sack::SackCache,
    /// Segments of which the peer told that they came twice.
    pub(super) duplicates_told: u64,

    // What may leave, and when.
    pub(super) burst: output::Burst,
    pub(super) pacer: Pacer,
    pub(super) cwnd_validation: CwndValidation,
    pub(super) nagle: Nagle,
    pub(super) persist: Persist,
    /// When data or FIN was last sent, retransmissions included; [`Instant::ZERO`] before (Linux: `lsndtime`).
    pub(super) last_sent_at: Instant,
    pub(super) path_mtu: PathMtu,
    pub(super) refused_probe: mtu::RefusedProbe,

    // Application side: bytes offered and not yet accepted, and accepted so far.
    pub(super) offered: u64,
    pub(super) accepted: u64,
    pub(super) sndbuf: u32,
    pub(super) writer_blocked: bool,
    /// The writer is about to write more at this instant, once what may leave has left.
    pub(super) writing: bool,
    /// Subflows: an ACK came while the meta connection's writer waited, so the send buffer may grow
    /// once what may leave has left.
    pub(super) space_check: bool,

    pub(super) counters: Counters,
    pub(super) limit: LimitClock,
}

impl Sender {
    pub(super) fn new(config: &Config) -> Self {
        let Config { settings, algorithm, mtu, initial_seq } = config;
        let (mtu, initial_seq) = (*mtu, *initial_seq);
        let search = settings.mtu_search.search(settings.mtu_sysctls());
        let mut flow = cc::Flow::new(settings.initial_cwnd.get(), DEFAULT_MSS);
        flow.snd_una = initial_seq.get();
        flow.snd_nxt = initial_seq.get();
        flow.write_seq = initial_seq.get();
        flow.reordering = settings.reordering.get();
        flow.compat = settings.stack.cc_compat();
        let mut queue = SendQueue::new(initial_seq);
        queue.set_keeps_buffers(!settings.stack.grows_buffers);
        Self {
            is_subflow: false,
            sack_ok: settings.sack,
            established_at: None,
            flow,
            cc: algorithm.start(),
            random: SmallRng::new(initial_seq.get()),
            queue,
            scoreboard: Scoreboard::new(initial_seq),
            snd_wnd: 0,
            max_window: 0,
            snd_wl1: Seq::default(),
            fin_queued: false,
            fin_sent: false,
            rtt: Rtt::new(settings),
            timers: Timers::new(settings),
            delivery: Delivery::default(),
            loss: LossState::default(),
            tlp: Tlp::default(),
            prr: Prr::default(),
            undo: Undo::default(),
            rack: Rack::default(),
            sack_cache: sack::SackCache::default(),
            duplicates_told: 0,
            burst: output::Burst::default(),
            pacer: Pacer::default(),
            cwnd_validation: CwndValidation::default(),
            nagle: Nagle::default(),
            persist: Persist::default(),
            last_sent_at: Instant::ZERO,
            path_mtu: PathMtu::new(mtu, settings.timestamps, settings.base_mss, search)
                .with_least_mss(settings.min_snd_mss)
                .with_options_counted(settings.stack.search_counts_options),
            refused_probe: mtu::RefusedProbe::new(initial_seq),
            offered: 0,
            accepted: 0,
            sndbuf: settings.wmem[1].as_u32(),
            writer_blocked: false,
            writing: false,
            space_check: false,
            counters: Counters::default(),
            limit: LimitClock::new(Limit::Idle),
        }
    }

    /// The algorithm works with marks, and with nothing else.
    pub(super) fn needs_ecn(&self) -> bool {
        self.cc.flags() & cc::flags::NEEDS_ECN != 0
    }

    // Getters.

    /// Congestion state of the sender (Linux: `icsk_ca_state`).
    pub fn ca_state(&self) -> CaState {
        self.flow.ca_state
    }

    /// Whether its algorithm wants [`Context::siblings`].
    pub fn is_coupled(&self) -> bool {
        self.cc.is_coupled()
    }

    /// Segments in the network (RFC 6675's pipe, as Linux counts it).
    #[inline]
    pub fn in_flight(&self) -> Segments {
        Segments::new(self.scoreboard.in_flight())
    }

    /// Segments sent and not cumulatively acknowledged.
    pub fn packets_out(&self) -> Segments {
        Segments::new(self.scoreboard.packets_out())
    }

    /// Congestion window.
    pub fn cwnd(&self) -> Segments {
        Segments::new(self.flow.cwnd)
    }

    /// Smoothed RTT, to the microsecond; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.flow.srtt_us >> 3))
    }

    /// By Linux's rule (RFC 9002 section 7.7 has the like); zero while unknown.
    #[inline]
    pub fn pacing_rate(&self) -> Rate {
        Rate::from_bytes_per_sec(self.flow.pacing_rate)
    }

    /// Payload of a full data segment.
    #[inline]
    pub fn mss(&self) -> Bytes {
        self.path_mtu.mss()
    }

    /// As [`Sender::mss`], for arithmetic in 32 bits.
    #[inline]
    pub(super) fn segment_len(&self) -> u32 {
        self.path_mtu.mss().as_u32()
    }

    /// Accepted and not yet sent for the first time.
    pub fn unsent(&self) -> Bytes {
        Bytes::from_u32(self.queue.unsent())
    }

    /// Most memory that it may take (Linux: `sk_sndbuf`).
    pub fn sndbuf(&self) -> Bytes {
        Bytes::from_u32(self.sndbuf)
    }

    /// First unacknowledged sequence number (RFC 9293 section 3.3.1).
    #[inline]
    pub fn snd_una(&self) -> Seq {
        Seq::new(self.flow.snd_una)
    }

    /// Next sequence number to send for the first time (RFC 9293 section 3.3.1).
    #[inline]
    pub fn snd_nxt(&self) -> Seq {
        Seq::new(self.flow.snd_nxt)
    }

    /// Window that the peer announced, from `snd_una` on.
    pub fn peer_window(&self) -> Bytes {
        Bytes::from_u32(self.snd_wnd)
    }

    /// The timeout to arm now, backed off (RFC 6298 section 5.5; Linux: `icsk_rto`).
    pub fn retransmission_timeout(&self) -> Duration {
        self.rtt.rto()
    }

    /// Timeouts in a row without progress.
    pub fn consecutive_timeouts(&self) -> u32 {
        self.loss.backoffs()
    }

    /// Bytes the application has had accepted so far: the sender's view of the goodput.
    pub fn accepted(&self) -> Bytes {
        Bytes::new(self.accepted)
    }

    /// Everything offered has been acknowledged.
    pub fn everything_acked(&self) -> bool {
        self.offered == 0 && self.queue.unsent() == 0 && self.scoreboard.packets_out() == 0
    }

    /// Data sequence numbers sent on this subflow and not yet acknowledged by the peer's TCP, as (dsn, length) in order.
    pub fn unacked_mappings(&self) -> impl Iterator<Item = (DataSeq, Bytes)> + '_ {
        self.scoreboard.mappings().chain(self.queue.mappings()).map(|(dsn, len)| (dsn, Bytes::from_u32(len)))
    }
}
