//! The sender: what RFC 5681, 6675, 8985, 6937 and 4821 speak of. It knows no segment's form and no
//! handshake.
//!
//! It is handed an acknowledgement as facts ([`Sender::on_ack`]) and told when a timer comes up
//! ([`Sender::on_timeout`]); it is asked what leaves ([`Sender::poll`]); its verbs are the
//! application's (`offer`, `stop`, `close`, `push_mapping`).

mod ack;
mod give_up;
mod loss;
mod mtu_probing;
mod path_mtu;
mod probe;
mod queue;
mod rate;
mod recovery;
mod ring;
mod rtt;
mod sack;
mod scoreboard;
mod send_buffer;
mod sending;
mod subflow;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;

pub(super) use ack::{Ack, rtt_by_echo};
pub use path_mtu::RouteMtu;
pub use probe::Probe;
pub(super) use transmit::{Kind, Leaving};

use super::timer::{Pending, Timer, Timers};
use super::{CaState, EcnMode, Limit};
use crate::limit_clock::LimitClock;
use crate::{Counters, Settings};
use give_up::UnansweredProbes;
use path_mtu::PathMtu;
use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, Seq, SmallRng};
use polypath_cc as cc;
use polypath_wire::DEFAULT_MSS;
use queue::SendQueue;
use rate::Delivery;
use recovery::{LossState, Prr, Rack, Tlp, Undo};
use rtt::Rtt;
use scoreboard::Scoreboard;
use sending::{CwndValidation, Nagle, Pacer};
use std::sync::Arc;

/// What every input and output is told: the time, and what the connection's other subflows do.
#[derive(Copy, Clone, Debug)]
pub struct Context<'a> {
    /// Time of the call, ns.
    pub now: Instant,
    /// For coupled algorithms; `None` for plain TCP and for algorithms that do not look at it.
    pub siblings: Option<&'a cc::Siblings>,
}

impl Context<'_> {
    /// An endpoint without siblings.
    #[inline]
    pub const fn at(now: Instant) -> Self {
        Self { now, siblings: None }
    }
}

/// What an endpoint is told at its making.
#[derive(Clone, Debug)]
pub struct Config {
    /// Sysctls of the host, and the kernel that it models.
    pub settings: Arc<Settings>,
    /// Congestion control (Linux: `tcp_congestion_control`).
    pub algorithm: cc::Algorithm,
    /// MTU of the interface the endpoint sends from.
    pub mtu: Bytes,
    /// First sequence number.
    pub initial_seq: Seq,
}

/// Everything that an endpoint keeps of what it sends.
#[derive(Debug)]
pub struct Sender {
    settings: Arc<Settings>,
    is_subflow: bool,
    /// SACK is agreed on.
    sack_ok: bool,
    /// When the handshake was complete; `None` before.
    established_at: Option<Instant>,
    /// The congestion window and all else that an algorithm sees or writes: this is the master
    /// copy.
    flow: cc::Flow,
    cc: cc::Controller,
    /// What the congestion control draws, seeded from the first sequence number.
    random: SmallRng,

    // Sequence space; `flow.snd_una` and `flow.snd_nxt` are its edges.
    queue: SendQueue,
    scoreboard: Scoreboard,
    snd_wnd: u32,
    snd_wl1: Seq,
    /// A FIN is to be sent after everything accepted.
    fin_queued: bool,
    fin_sent: bool,
    /// The FIN has PSH: a window probe took all data before it from its buffer.
    fin_pushed: bool,
    /// The application may write: the handshake is over, and no FIN has left.
    may_write: bool,
    /// The next new data tells that the window was reduced (RFC 3168 section 6.1.2).
    cwr_due: bool,
    /// ECN is that of RFC 3168.
    classic_ecn: bool,

    // Recovery.
    rtt: Rtt,
    /// The one table of the endpoint's timers. Those of ACKs are in it because the timer wheel is
    /// one.
    pub(super) timers: Timers,
    delivery: Delivery,
    loss: LossState,
    tlp: Tlp,
    prr: Prr,
    undo: Undo,
    rack: Rack,
    sack_cache: sack::SackCache,
    /// Segments of which the peer told that they came twice.
    duplicates_told: u64,

    // What may leave, and when.
    burst: transmit::Burst,
    /// When the clock was last read.
    taken_at: Instant,
    pacer: Pacer,
    cwnd_validation: CwndValidation,
    nagle: Nagle,
    /// The window has been closed to what waits for as long as the persist timer says: a probe is due
    /// (RFC 9293 section 3.8.6.1).
    window_probe_due: bool,
    unanswered_probes: UnansweredProbes,
    /// When data or FIN was last sent, retransmissions included; [`Instant::ZERO`] before (Linux:
    /// `lsndtime`).
    last_sent_at: Instant,
    path_mtu: PathMtu,
    refused_probe: mtu_probing::RefusedProbe,

    // Application side: bytes offered and not yet accepted, and accepted so far.
    offered: u64,
    accepted: u64,
    /// TCP_USER_TIMEOUT; zero: none.
    user_timeout: Duration,
    sndbuf: u32,
    writer_blocked: bool,
    /// The writer is about to write more at this instant, once what may leave has left.
    writing: bool,
    /// Data leaves before the SYN/ACK is answered: nothing but that is sent again (Linux:
    /// `fastopen_rsk`).
    waits_for_handshake: bool,
    /// What is offered ends a record of the program's.
    write_ends_record: bool,
    /// It waits for all that may leave, not for one burst (Linux: `__tcp_push_pending_frames` and
    /// `tcp_push_one`).
    pushes_pending: bool,
    /// An ACK came while the writer waited (of a subflow, the meta connection's): there may be room
    /// once what may leave has left.
    space_check: bool,
    /// There is room, and the writer writes on once no more may leave.
    writer_woken: bool,

    counters: Counters,
    limit: LimitClock,
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
        queue.set_keeps_buffers(true);
        queue.set_grows_buffers(settings.stack.grows_buffers);
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
            snd_wl1: Seq::default(),
            fin_queued: false,
            fin_sent: false,
            fin_pushed: false,
            may_write: false,
            cwr_due: false,
            classic_ecn: false,
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
            burst: transmit::Burst::default(),
            taken_at: Instant::ZERO,
            pacer: Pacer::default(),
            cwnd_validation: CwndValidation::default(),
            nagle: Nagle::default(),
            window_probe_due: false,
            unanswered_probes: UnansweredProbes::default(),
            last_sent_at: Instant::ZERO,
            path_mtu: PathMtu::new(mtu, settings.timestamps, settings.base_mss, search)
                .with_least_mss(settings.min_snd_mss)
                .with_options_counted(settings.stack.search_counts_options),
            refused_probe: mtu_probing::RefusedProbe::new(initial_seq),
            offered: 0,
            accepted: 0,
            user_timeout: Duration::ZERO,
            sndbuf: settings.wmem[1].as_u32(),
            writer_blocked: false,
            writing: false,
            waits_for_handshake: false,
            write_ends_record: false,
            pushes_pending: false,
            space_check: false,
            writer_woken: false,
            counters: Counters::default(),
            limit: LimitClock::new(Limit::Idle),
            settings: Arc::clone(settings),
        }
    }

    /// The algorithm works with marks, and with nothing else.
    pub(super) fn needs_ecn(&self) -> bool {
        self.cc.flags() & cc::flags::NEEDS_ECN != 0
    }

    pub(super) fn is_l4s(&self) -> bool {
        self.cc.flags() & cc::flags::ECT_1 != 0
    }

    /// It is a subflow's: the meta connection adds `data_options` to data segments.
    pub(super) fn become_subflow(&mut self, data_options: Bytes) {
        self.is_subflow = true;
        self.path_mtu.set_mptcp_options(data_options);
        self.flow.compat = self.settings.stack.cc_subflow_compat();
        self.queue.set_keeps_buffers(self.settings.stack.subflow_keeps_buffers);
        self.queue.set_grows_buffers(false);
    }

    // What the handshake brings.

    /// A SYN or SYN/ACK leaves; data begins at `seq`.
    pub(super) fn on_syn_sent(&mut self, seq: Seq) {
        self.flow.snd_nxt = seq.get();
    }

    /// The answer to a SYN or SYN/ACK is awaited.
    #[cold]
    pub(super) fn await_answer(&mut self, now: Instant) {
        debug_assert!(self.scoreboard.packets_out() == 0, "there is no data yet");
        self.timers.arm_pending(Pending::Timeout, now, self.rtt.rto());
    }

    /// It has not come.
    #[cold]
    pub(super) fn on_syn_timeout(&mut self, now: Instant, backs_off: bool) {
        if backs_off {
            self.rtt.back_off();
        }
        self.await_answer(now);
        self.counters.timeouts += 1;
    }

    /// The options of the peer's SYN: how much data it takes in a segment, and what is agreed on.
    pub(super) fn on_syn_options(&mut self, peer_mss: Bytes, timestamps: bool, sack: bool) {
        let peer_mss = self.settings.max_segment.map_or(peer_mss, |most| peer_mss.min(most));
        self.path_mtu.on_syn(peer_mss, timestamps);
        self.sync_mss();
        self.sack_ok &= sack;
    }

    /// The peer announces a window, bytes.
    pub(super) fn set_peer_window(&mut self, window: u32) {
        self.snd_wnd = window;
    }

    /// The window was announced by the segment that begins at `seq` (RFC 9293 section 3.3.1,
    /// SND.WL1).
    pub(super) fn set_window_seq(&mut self, seq: Seq) {
        self.snd_wl1 = seq;
    }

    /// The SYN is acknowledged, with what it says of the round trip; data begins at `seq`.
    #[cold]
    pub(super) fn start(&mut self, seq: Seq, rtt: Option<Duration>) {
        debug_assert!(self.scoreboard.packets_out() == 0, "no data goes before it");
        self.flow.snd_una = seq.get();
        self.queue.start(seq);
        self.scoreboard.start(seq);
        self.flow.delivered = self.flow.delivered.wrapping_add(1); // the SYN counts
        match rtt {
            Some(rtt) => self.rtt.sample(rtt, rtt, self.snd_una(), self.snd_nxt(), &mut self.flow),
            None => self.rtt.fall_back(),
        }
        self.timers.disarm(Timer::Retransmission);
    }

    /// `len` bytes of the SYN are acknowledged, up to `seq`.
    #[cold]
    pub(super) fn acknowledge_syn_data(&mut self, seq: Seq, len: u32) {
        self.on_syn_sent(seq);
        self.flow.bytes_acked += u64::from(len);
    }

    /// The SYN carries `len` bytes.
    #[cold]
    pub(super) fn accept_syn_data(&mut self, len: u32) {
        self.accepted += u64::from(len);
    }

    /// `len` bytes of the SYN have not arrived: they are offered again, before what waits.
    #[cold]
    pub(super) fn take_back_syn_data(&mut self, len: u32) {
        self.accepted -= u64::from(len);
        self.offered = self.offered.saturating_add(u64::from(len));
        self.fill_send_buffer();
    }

    /// Data leaves before the SYN/ACK is answered; it begins at `seq`. The peer's window is not
    /// scaled yet (RFC 7323 section 2.2).
    #[cold]
    pub(super) fn begin_fast_open(&mut self, now: Instant, seq: Seq) {
        self.on_syn_sent(seq);
        self.start(seq, None);
        self.established(Context::at(now), false, false);
        // An ACK that has come counts for the SYN.
        self.flow.delivered = self.flow.delivered.wrapping_sub(1);
        self.waits_for_handshake = true;
        // Nothing is known of the path, so no burst is short for the sake of a pace (Linux:
        // `sk_pacing_rate` begins without limit).
        self.flow.pacing_rate = 1 << 40;
    }

    /// It is answered. What was lost meanwhile is looked after from now on.
    #[cold]
    pub(super) fn finish_fast_open(&mut self, now: Instant, rtt: Option<Duration>) {
        self.waits_for_handshake = false;
        self.flow.delivered = self.flow.delivered.wrapping_add(1);
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt, rtt, self.snd_una(), self.snd_nxt(), &mut self.flow);
        }
        self.rtt.forget_backoff();
        self.timers.disarm(Timer::Retransmission);
        if self.scoreboard.packets_out() > 0 {
            self.timers.arm_pending(Pending::Timeout, now, self.rtt.rto());
        }
        self.update_pacing_rate();
    }

    /// The handshake is over. A SYN that was lost more than once costs the initial window.
    #[cold]
    pub(super) fn established(&mut self, cx: Context<'_>, is_client: bool, costs_initial_window: bool) {
        debug_assert!(self.established_at.is_none() && !self.may_write, "it is over once");
        self.established_at = Some(cx.now);
        self.may_write = true;
        self.flow.established = true;
        self.path_mtu.on_peer_window(self.snd_wnd);
        self.start_probing(cx.now, is_client);
        self.update_mss();
        if costs_initial_window {
            self.flow.cwnd = 1;
        }
        self.rtt.forget_backoff();
        self.expand_sndbuf();
        self.limit.begin(cx.now);
        self.cc.init(&mut self.flow, cx.siblings);
        self.update_pacing_rate();
        self.note_app_limited();
        self.fill_send_buffer();
    }

    /// ECN is agreed on, or not.
    pub(super) fn set_ecn(&mut self, mode: EcnMode) {
        (self.flow.ecn_ok, self.classic_ecn) = (mode != EcnMode::None, mode == EcnMode::Classic);
    }

    /// The SYN/ACK was marked, once or not at all.
    #[cold]
    pub(super) fn note_marked_syn_ack(&mut self, times: u32) {
        self.flow.delivered_ce = self.flow.delivered_ce.max(times);
    }

    // Verbs.

    /// The application has `amount` more to write; [`Bytes::MAX`] is endless. `is_established`:
    /// neither end has closed.
    pub(super) fn offer(&mut self, now: Instant, amount: Bytes, is_established: bool) {
        self.offered = self.offered.saturating_add(amount.get());
        // What the last buffer has room for begins none (Linux: `tcp_skb_entail`).
        if amount.get() > u64::from(self.queue.room_in_tail(self.buffer_goal())) {
            self.idle_restart(now, is_established);
        }
        if self.may_write {
            self.note_app_limited();
        }
        self.fill_send_buffer();
    }

    /// The application offers no more; what was not accepted is withdrawn.
    pub(super) fn stop(&mut self) {
        self.offered = 0;
    }

    /// What the program says of its next write: more follows (MSG_MORE), or a record ends with it
    /// (MSG_EOR).
    pub(super) fn on_write(&mut self, more: bool, ends_record: bool) {
        self.nagle.on_write(more);
        self.write_ends_record = ends_record;
    }

    /// TCP_NODELAY.
    pub(super) fn set_nodelay(&mut self, on: bool) {
        self.nagle.set_off(on);
        self.end_deferral();
    }

    /// TCP_CORK.
    pub(super) fn set_corked(&mut self, on: bool) {
        self.nagle.set_corked(on);
        self.end_deferral();
    }

    /// SO_SNDBUF: the send buffer stays at this size.
    pub(super) fn set_sndbuf(&mut self, size: Bytes) {
        self.sndbuf = size.as_u32();
        Arc::make_mut(&mut self.settings).wmem = [size; 3];
    }

    /// TCP_RTO_MAX_MS.
    pub(super) fn set_rto_max(&mut self, longest: Duration) {
        Arc::make_mut(&mut self.settings).rto_max = longest;
        self.rtt.set_rto_max(longest);
    }

    /// TCP_NOTSENT_LOWAT.
    pub(super) fn set_notsent_lowat(&mut self, limit: Bytes) {
        Arc::make_mut(&mut self.settings).notsent_lowat = limit;
    }

    /// No more waits for its first transmission than the program wants; `wakes`: where it is told
    /// that it may write (Linux: `__tcp_stream_memory_free`).
    pub(super) fn has_few_unsent(&self, wakes: bool) -> bool {
        u64::from(self.queue.unsent()) << u32::from(wakes) < self.settings.notsent_lowat.get()
    }

    /// FIN after everything that was accepted.
    pub(super) fn close(&mut self) {
        self.fin_queued = true;
        self.end_deferral();
    }

    /// Nothing more is sent.
    #[cold]
    pub(super) fn abort(&mut self) {
        self.rtt.on_window_open(); // Linux: `tcp_write_queue_purge`
        self.may_write = false;
        self.timers = Timers::new(&self.settings);
    }

    /// As [`super::Socket::push_mapping`].
    pub(super) fn push_mapping(&mut self, now: Instant, dsn: DataSeq, len: Bytes, is_established: bool, has_left: bool) {
        debug_assert!(self.is_subflow, "mappings are a subflow's");
        self.take_time(now);
        let keeps_buffers = self.settings.stack.subflow_keeps_buffers;
        let is_empty = self.queue.unsent() == 0;
        let longest = if keeps_buffers { u32::MAX } else { self.buffer_goal() };
        let begun = self.queue.push_mapping(dsn, len.as_u32(), longest);
        // Linux looks at the time since the last segment for each buffer that it begins before the
        // first has left (`tcp_skb_entail`), so that the window decays as often.
        let restarts = if keeps_buffers { u32::from(is_empty) } else { begun };
        for _ in 0..if has_left { 0 } else { restarts } {
            self.idle_restart(now, is_established);
        }
        self.end_deferral();
        self.accepted += len.get();
        self.flow.write_seq = self.queue.write_seq().get();
    }

    /// The clock is read for a segment that comes or leaves, data that is written, or a timer
    /// (Linux: `tcp_mstamp_refresh`).
    #[inline]
    pub(super) fn take_time(&mut self, now: Instant) {
        self.taken_at = now;
    }

    /// The time that an ACK tells which leaves at `now`: MPTCP has a subflow send one without a
    /// look at the clock.
    #[inline]
    pub(super) fn stamp(&self, now: Instant) -> Instant {
        debug_assert!(self.taken_at <= now, "time does not go back");
        if self.is_subflow && !self.settings.stack.subflow_keeps_buffers { self.taken_at } else { now }
    }

    /// The time of an input or output.
    #[inline]
    pub(super) fn set_now(&mut self, now: Instant) {
        self.flow.now_ns = now.as_nanos();
    }

    /// Data of the peer came with a mark, or without one: an algorithm that needs ECN is told.
    pub(super) fn on_mark(&mut self, marked: bool) {
        self.cc.cwnd_event(&mut self.flow, None, if marked { cc::Event::EcnIsCe } else { cc::Event::EcnNoCe });
    }

    /// The next new data tells that the window was reduced, once.
    #[inline]
    pub(super) fn take_cwr(&mut self) -> bool {
        std::mem::take(&mut self.cwr_due)
    }

    /// So many bytes of SACK blocks stand on data segments from now on.
    pub(super) fn set_sack_options(&mut self, bytes: Bytes) {
        self.path_mtu.set_sack_options(bytes);
    }

    /// So many bytes of MPTCP's options do.
    #[cold]
    pub(super) fn set_mptcp_options(&mut self, bytes: Bytes) {
        self.path_mtu.set_mptcp_options(bytes);
    }

    // Getters.

    #[cfg(test)]
    pub(crate) fn flow(&self) -> &cc::Flow {
        &self.flow
    }

    #[inline]
    pub(super) fn is_subflow(&self) -> bool {
        self.is_subflow
    }

    #[inline]
    pub(super) fn sack_ok(&self) -> bool {
        self.sack_ok
    }

    /// The program has closed its end, whether or not the FIN has left.
    pub fn is_closing(&self) -> bool {
        self.fin_queued
    }

    #[inline]
    pub(super) fn ecn_ok(&self) -> bool {
        self.flow.ecn_ok
    }

    #[inline]
    pub(super) fn fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// When the handshake was complete; `None` before.
    pub(super) fn established_at(&self) -> Option<Instant> {
        self.established_at
    }

    /// Packets may not be split on the way (RFC 1191).
    #[inline]
    pub(super) fn dont_fragment(&self) -> bool {
        self.path_mtu.dont_fragment()
    }

    /// Bytes of MPTCP's options on a data segment.
    #[inline]
    pub(super) fn mptcp_options(&self) -> Bytes {
        self.path_mtu.mptcp_options()
    }

    /// Data segments leave room for SACK blocks.
    #[inline]
    pub(super) fn reserves_sack_options(&self) -> bool {
        self.path_mtu.sack_options() != Bytes::ZERO
    }

    /// Memory that what is accepted and not yet acknowledged takes (Linux: `sk_wmem_queued`).
    pub fn wmem_queued(&self) -> Bytes {
        Bytes::from_u32(self.queued_memory())
    }

    /// Congestion state of the sender (Linux: `icsk_ca_state`).
    pub fn ca_state(&self) -> CaState {
        self.flow.ca_state
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

    /// Packets of ours that came marked, as far as the peer has told (Linux: `delivered_ce`).
    pub fn delivered_ce(&self) -> Segments {
        Segments::new(self.flow.delivered_ce)
    }

    /// Of those, selectively acknowledged (Linux: `sacked_out`).
    pub fn sacked_out(&self) -> Segments {
        Segments::new(self.scoreboard.sacked_out())
    }

    /// Taken for lost (Linux: `lost_out`).
    pub fn lost_out(&self) -> Segments {
        Segments::new(self.scoreboard.lost_out())
    }

    /// Sent again, and in the network (Linux: `retrans_out`).
    pub fn retrans_out(&self) -> Segments {
        Segments::new(self.scoreboard.retrans_out())
    }

    /// Window probes in a row that nothing answered (Linux: `icsk_probes_out`).
    pub fn unanswered_probes(&self) -> u32 {
        self.unanswered_probes.count()
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

    /// Payload of a full segment beside timestamps alone, bytes (Linux: `mss_cache`).
    pub(super) fn mss_cache(&self) -> u32 {
        self.flow.mss
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

    /// No acknowledgment that left the peer in this connection and came this late is older
    /// (RFC 5961 section 5.2; Linux: `tcp_ack`).
    /// Of an active handshake the SYN counts.
    pub(in crate::tcp) fn oldest_plausible_ack(&self, is_active: bool) -> Seq {
        self.snd_una() - u64::from(self.path_mtu.max_window()).min(self.flow.bytes_acked + u64::from(is_active)) as u32
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

    /// Timeouts and window probes in a row (Linux: `icsk_backoff`).
    pub fn backoff(&self) -> u32 {
        self.rtt.backoff()
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

    /// Data sequence numbers sent on this subflow and not yet acknowledged by the peer's TCP, as
    /// (dsn, length) in order.
    pub fn unacked_mappings(&self) -> impl Iterator<Item = (DataSeq, Bytes)> + '_ {
        self.scoreboard.mappings().chain(self.queue.mappings()).map(|(dsn, len)| (dsn, Bytes::from_u32(len)))
    }
}

/// The RFC 7323 timestamp clock: milliseconds, as Linux's.
#[inline]
pub(crate) fn timestamp(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Which of two values of that clock is the earlier one; it wraps.
#[inline]
pub(crate) const fn is_earlier(stamp: u32, other: u32) -> bool {
    (stamp.wrapping_sub(other) as i32) < 0
}
