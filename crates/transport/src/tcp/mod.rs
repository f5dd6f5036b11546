//! One TCP endpoint, or one subflow of an MPTCP connection.
//!
//! Modelled on Linux (`Settings::stack` says which): SACK scoreboard, RACK-TLP, DSACK and timestamp undo, F-RTO, PRR,
//! delayed, quick and compressed ACKs, receive-buffer autotuning, TSO deferral, cwnd validation. The payload itself is
//! never held: a transfer is a count of bytes.
//!
//! Order of calls: any `handle_*` or verb, then `poll_transmit` until `None`, then `poll_timeout`.
//!
//! In subflow mode ([`Socket::subflow`]) data comes as mappings from the meta connection ([`Socket::push_mapping`]), and
//! data received in order is handed to it through [`Socket::delivered`]; window and MPTCP options are the meta's to fill in.

mod acceptance;
mod ack;
mod closing;
mod ecn;
mod input;
mod loss;
mod meta_interface;
mod mtu;
mod output;
mod path_mtu;
mod probe;
mod queue;
mod rate;
mod receiving;
mod recovery;
mod reset;
mod ring;
mod rtt;
mod sack;
mod scoreboard;
mod segment_builder;
mod send_buffer;
mod sending;
#[cfg(test)]
mod tests;
mod timer;
mod undo;

use crate::limit_clock::LimitClock;
pub use crate::limit_clock::{Held, Limit};
use crate::{Counters, Rejections, Settings};
pub use cc::CaState;
use path_mtu::PathMtu;
pub use path_mtu::RouteMtu;
use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, Seq, SmallRng};
use polypath_cc as cc;
use polypath_wire::{Flags, Segment};
pub use probe::Probe;
use queue::SendQueue;
use rate::Delivery;
use receiving::{Delivered, Receiver};
use recovery::{LossState, Prr, Rack, Tlp, Undo};
pub use reset::reset_for;
use rtt::Rtt;
use scoreboard::Scoreboard;
use sending::{CwndValidation, Handshake, Nagle, Pacer, Persist};
use timer::{Pending, Timer, Timers};

/// Bytes of data in a segment to a peer that has not told how long it takes them (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u32 = 536;
/// Bytes of timestamps in the options of a segment, padded (RFC 7323 appendix A; Linux: `TCPOLEN_TSTAMP_ALIGNED`).
const TIMESTAMP_BYTES: u32 = 12;

/// Connection states (RFC 9293 section 3.3.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not opened yet, or over: ended by both ends, reset or aborted (Linux: `TCP_CLOSE`).
    Closed,
    /// A server that waits for a SYN (Linux: `TCP_LISTEN`).
    Listen,
    /// A client that waits for the answer to its SYN (Linux: `TCP_SYN_SENT`).
    SynSent,
    /// A SYN came and was answered; the ACK of the answer is due (Linux: `TCP_SYN_RECV`).
    SynReceived,
    /// The handshake is complete; neither end has sent its FIN (Linux: `TCP_ESTABLISHED`).
    Established,
    /// Own FIN sent and not acknowledged (Linux: `TCP_FIN_WAIT1`).
    FinWait1,
    /// Own FIN acknowledged; the peer's has not come (Linux: `TCP_FIN_WAIT2`).
    FinWait2,
    /// The peer's FIN came first; own data may still be sent (Linux: `TCP_CLOSE_WAIT`).
    CloseWait,
    /// Both FINs sent at the same time; own FIN is not acknowledged (Linux: `TCP_CLOSING`).
    Closing,
    /// Own FIN sent after the peer's, and not acknowledged (Linux: `TCP_LAST_ACK`).
    LastAck,
    /// Both FINs acknowledged; for 60 s a late segment is still answered (Linux: `TCP_TIMEWAIT_LEN`).
    TimeWait,
}

impl State {
    /// Data may still be sent.
    pub const fn can_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// The handshake is over and the connection has not ended.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }
}

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
    pub settings: Settings,
    /// Congestion control (Linux: `tcp_congestion_control`).
    pub algorithm: cc::Algorithm,
    /// MTU of the interface the endpoint sends from.
    pub mtu: Bytes,
    /// First sequence number.
    pub initial_seq: Seq,
}

/// One TCP endpoint.
#[derive(Debug)]
pub struct Socket {
    settings: Settings,
    state: State,
    is_subflow: bool,
    /// The congestion window and all else that an algorithm sees or writes: this is the master copy.
    pub(crate) flow: cc::Flow,
    cc: cc::Controller,

    // Sequence space of what is sent; `flow.snd_una` and `flow.snd_nxt` are its edges.
    queue: SendQueue,
    scoreboard: Scoreboard,
    snd_wnd: u32,
    /// The writer is about to write more at this instant, once what may leave has left.
    writing: bool,
    /// The widest window that the peer has announced.
    max_window: u32,
    snd_wl1: Seq,
    peer_wscale: u8,
    /// A FIN is to be sent after everything accepted.
    fin_queued: bool,
    fin_sent: bool,

    // Path and options.
    /// Bytes of options that the meta connection adds to a pure ACK.
    ack_option_bytes: u32,
    ts_ok: bool,
    /// What our timestamp clock shows at time zero, ms.
    ts_start: u32,
    sack_ok: bool,
    iss: Seq,

    rtt: Rtt,
    timers: Timers,
    delivery: Delivery,
    loss: LossState,
    tlp: Tlp,
    prr: Prr,
    undo: Undo,
    rack: Rack,
    sack_cache: sack::SackCache,
    rx: Receiver,
    handshake: Handshake,
    burst: output::Burst,
    template: segment_builder::Template,
    pacer: Pacer,
    cwnd_validation: CwndValidation,
    nagle: Nagle,
    persist: Persist,
    last_sent_at: Instant,
    ecn: ecn::Ecn,
    path_mtu: PathMtu,
    refused_probe: mtu::RefusedProbe,

    // Application side of sending: bytes offered and not yet accepted, and accepted so far.
    offered: u64,
    accepted: u64,
    sndbuf: u32,
    writer_blocked: bool,
    /// When a segment that could begin an endless exchange of ACKs was last answered.
    last_invalid: Option<Instant>,
    time_wait_ends: Instant,
    /// A RST that has yet to leave; the state is not a synchronized one then.
    reset: Option<Box<Segment>>,
    /// Subflows: an ACK came while the meta connection's writer waited, so the send buffer may grow once what may leave has left.
    space_check: bool,

    established_at: Option<Instant>,
    counters: Counters,
    /// Segments of which the peer told that they came twice.
    duplicates_told: u64,
    rejected: Rejections,
    limit: LimitClock,
    /// What a congestion control draws, seeded from the first sequence number.
    random: SmallRng,

    /// In subflow mode: data received in order, for the meta connection to take.
    pub(crate) delivered: Delivered,
}

impl Socket {
    /// An endpoint that opens the connection ([`Socket::open`]).
    pub fn client(config: Config) -> Self {
        Self::new(config, State::Closed)
    }

    /// An endpoint that waits for a SYN.
    pub fn server(config: Config) -> Self {
        Self::new(config, State::Listen)
    }

    /// Turns a fresh endpoint into a subflow: the meta connection adds `data_options` to data segments and `ack_options` to pure ACKs.
    #[must_use]
    pub fn subflow(mut self, data_options: Bytes, ack_options: Bytes) -> Self {
        self.is_subflow = true;
        self.rx.become_subflow();
        self.path_mtu.set_mptcp_options(data_options);
        self.flow.compat = self.settings.stack.cc_subflow_compat();
        self.queue.set_keeps_buffers(self.settings.stack.subflow_keeps_buffers);
        self.ack_option_bytes = ack_options.as_u32();
        self
    }

    fn new(config: Config, state: State) -> Self {
        let Config { settings, algorithm, mtu, initial_seq } = config;
        let search = settings.mtu_search.search(settings.mtu_sysctls());
        let mut flow = cc::Flow::new(settings.initial_cwnd.get(), DEFAULT_MSS);
        flow.snd_una = initial_seq.get();
        flow.snd_nxt = initial_seq.get();
        flow.write_seq = initial_seq.get();
        flow.reordering = settings.reordering.get();
        flow.compat = settings.stack.cc_compat();
        let cc = algorithm.start();
        let mut queue = SendQueue::new(initial_seq);
        queue.set_keeps_buffers(!settings.stack.grows_buffers);
        let ecn = ecn::Ecn::new(cc.flags() & cc::flags::NEEDS_ECN != 0);
        Self {
            state,
            is_subflow: false,
            flow,
            cc,
            queue,
            scoreboard: Scoreboard::new(initial_seq),
            snd_wnd: 0,
            writing: false,
            max_window: 0,
            snd_wl1: Seq::default(),
            peer_wscale: 0,
            fin_queued: false,
            fin_sent: false,
            ack_option_bytes: 0,
            ts_ok: settings.timestamps,
            ts_start: if settings.timestamps_from_zero { 0 } else { initial_seq.get().wrapping_mul(0x9e37_79b1).rotate_left(16) },
            sack_ok: settings.sack,
            iss: initial_seq,
            rtt: Rtt::new(&settings),
            timers: Timers::new(&settings),
            delivery: Delivery::default(),
            loss: LossState::default(),
            tlp: Tlp::default(),
            prr: Prr::default(),
            undo: Undo::default(),
            rack: Rack::default(),
            sack_cache: sack::SackCache::default(),
            rx: Receiver::new(&settings, mtu.as_u32()),
            handshake: Handshake::default(),
            burst: output::Burst::default(),
            template: segment_builder::Template::default(),
            pacer: Pacer::default(),
            cwnd_validation: CwndValidation::default(),
            nagle: Nagle::default(),
            persist: Persist::default(),
            last_sent_at: Instant::ZERO,
            ecn,
            path_mtu: PathMtu::new(mtu, settings.timestamps, settings.base_mss, search)
                .with_least_mss(settings.min_snd_mss)
                .with_options_counted(settings.stack.search_counts_options),
            refused_probe: mtu::RefusedProbe::new(initial_seq),
            offered: 0,
            accepted: 0,
            sndbuf: settings.wmem[1].as_u32(),
            writer_blocked: false,
            last_invalid: None,
            time_wait_ends: Instant::NEVER,
            reset: None,
            space_check: false,
            established_at: None,
            counters: Counters::default(),
            duplicates_told: 0,
            rejected: Rejections::default(),
            limit: LimitClock::new(Limit::Idle),
            random: SmallRng::new(initial_seq.get()),
            delivered: Delivered::default(),
            settings,
        }
    }

    // Application verbs.

    /// Starts the handshake.
    pub fn open(&mut self, now: Instant) {
        debug_assert!(self.state == State::Closed, "open is for an endpoint that has not begun");
        self.state = State::SynSent;
        self.handshake.request();
        self.timers.arm_pending(Pending::Timeout, now, self.rtt.rto());
    }

    /// The application has `amount` more to write and blocks in send; [`Bytes::MAX`] is endless.
    pub fn offer(&mut self, now: Instant, amount: Bytes) {
        self.offered = self.offered.saturating_add(amount.get());
        self.idle_restart(now);
        if self.state.can_send() {
            self.note_app_limited();
        }
        self.fill_send_buffer();
    }

    /// The application offers no more; what was not accepted is withdrawn.
    pub fn stop(&mut self) {
        self.offered = 0;
    }

    /// FIN after everything that was accepted.
    pub fn close(&mut self) {
        self.fin_queued = true;
    }

    /// Ends at once, silently: nothing more is sent.
    #[cold]
    pub fn abort(&mut self) {
        self.state = State::Closed;
        self.timers = Timers::new(&self.settings);
        self.rx.acks_mut().cancel();
    }

    /// Subflow mode: `len` of data from `dsn` on, at most 2^32 - 1 bytes, is the next to send.
    pub fn push_mapping(&mut self, now: Instant, dsn: DataSeq, len: Bytes) {
        if self.scoreboard.packets_out() == 0 && self.queue.unsent() == 0 {
            self.idle_restart(now);
        }
        let longest = if self.settings.stack.subflow_probes_mtu && self.path_mtu.searches_as_linux() { self.size_goal() } else { u32::MAX };
        self.queue.push_mapping(dsn, len.as_u32(), longest);
        self.accepted += len.get();
        self.flow.write_seq = self.queue.write_seq().get();
    }

    // Inputs.

    /// Takes a segment of the peer.
    #[inline(always)]
    pub fn handle_segment(&mut self, cx: Context<'_>, segment: &Segment) {
        self.flow.now_ns = cx.now.as_nanos();
        self.invalidate_template();
        match self.state {
            State::Closed => self.handle_when_closed(segment),
            State::TimeWait => self.handle_in_time_wait(cx.now, segment),
            State::Listen => self.handle_syn(cx.now, segment),
            State::SynSent => self.handle_syn_ack(cx, segment),
            _ => self.handle_synchronized(cx, segment),
        }
    }

    #[cold]
    fn handle_syn(&mut self, now: Instant, segment: &Segment) {
        if !segment.flags.has(Flags::SYN) || segment.flags.has(Flags::ACK) || segment.flags.has(Flags::RST) {
            self.rejected.rejected_handshake += 1;
            return;
        }
        self.state = State::SynReceived;
        self.learn_options(segment);
        self.learn_ecn(segment);
        self.rx.start(segment.seq + 1);
        self.snd_wnd = u32::from(segment.window);
        self.rx.note_timestamp(now, segment);
        self.handshake.request();
        self.timers.arm_pending(Pending::Timeout, now, self.rtt.rto());
    }

    #[cold]
    fn handle_syn_ack(&mut self, cx: Context<'_>, segment: &Segment) {
        // RFC 9293 section 3.10.7.3: whoever did not see our SYN can neither answer nor reset it.
        if segment.flags.has(Flags::ACK) && segment.ack != self.iss + 1 {
            // Something remembers an earlier connection: it gets a RST, and Linux asks again at once.
            self.refuse_with_reset(segment);
            if self.handshake.timeouts() == 0 {
                self.timers.arm_pending(Pending::Timeout, cx.now, self.settings.tick * 2);
            }
        }
        if !segment.flags.has(Flags::ACK) || segment.ack != self.iss + 1 {
            self.rejected.rejected_handshake += 1;
            return;
        }
        if segment.flags.has(Flags::RST) {
            self.abort();
            return;
        }
        if !segment.flags.has(Flags::SYN) {
            self.rejected.rejected_handshake += 1;
            return;
        }
        self.learn_options(segment);
        self.learn_ecn(segment);
        self.rx.start(segment.seq + 1);
        self.rx.note_timestamp(cx.now, segment);
        self.snd_wnd = u32::from(segment.window); // the window of a SYN is not scaled (RFC 7323 section 2.2)
        self.snd_wl1 = segment.seq;
        self.acknowledge_syn(cx.now, segment);
        self.established(cx);
        self.handshake.request();
    }

    #[cold]
    fn acknowledge_syn(&mut self, now: Instant, segment: &Segment) {
        self.flow.snd_una = (self.iss + 1).get();
        self.queue.start(self.snd_una());
        self.scoreboard.start(self.snd_una());
        self.flow.delivered = self.flow.delivered.wrapping_add(1); // the SYN counts
        let by_timestamp = || if self.ts_ok && segment.has_ts { ack::rtt_by_echo(now, self.echoed(segment)) } else { None };
        if let Some(rtt) = self.handshake.rtt(now).or_else(by_timestamp) {
            self.rtt.sample(rtt, rtt, self.snd_una(), self.snd_nxt(), &mut self.flow);
        }
        self.timers.disarm(Timer::Retransmission);
    }

    #[cold]
    fn established(&mut self, cx: Context<'_>) {
        self.state = State::Established;
        self.established_at = Some(cx.now);
        self.flow.established = true;
        self.start_probing(cx.now);
        self.update_mss();
        if self.handshake.costs_initial_window() {
            self.flow.cwnd = 1;
        }
        self.rtt.forget_backoff();
        self.max_window = self.snd_wnd;
        self.rx.established(self.advertised_mss());
        self.expand_sndbuf();
        self.limit.begin(cx.now);
        self.cc.init(&mut self.flow, cx.siblings);
        self.update_pacing_rate();
        self.note_app_limited();
        self.fill_send_buffer();
    }

    fn learn_options(&mut self, segment: &Segment) {
        self.ts_ok &= segment.has_ts;
        let peer_mss = if segment.mss == 0 { DEFAULT_MSS } else { u32::from(segment.mss) };
        self.path_mtu.on_syn(Bytes::from_u32(peer_mss), self.ts_ok);
        self.sync_mss();
        self.sack_ok &= segment.sack_permitted;
        if segment.window_scale == 255 || !self.settings.window_scaling {
            self.peer_wscale = 0;
            self.rx.disable_scaling();
        } else {
            self.peer_wscale = segment.window_scale.min(14); // RFC 7323 section 2.3
        }
    }

    fn handle_synchronized(&mut self, cx: Context<'_>, segment: &Segment) {
        if !self.takes(cx.now, segment) {
            return;
        }
        if self.state == State::SynReceived {
            if segment.ack != self.iss + 1 {
                self.rejected.rejected_ack += 1;
                self.refuse_with_reset(segment); // RFC 9293 section 3.10.7.4
                return;
            }
            self.snd_wl1 = segment.seq;
            self.snd_wnd = u32::from(segment.window) << self.peer_wscale;
            self.acknowledge_syn(cx.now, segment);
            self.established(cx);
        }
        self.rx.note_timestamp(cx.now, segment);
        self.handle_ack(cx, segment);
        // RFC 9293 section 3.10.7.4: after the peer's FIN there is nothing to take.
        if segment.len > 0 || segment.flags.has(Flags::FIN) {
            if self.rx.finished() {
                self.rejected.rejected_closed += 1;
            } else {
                self.handle_data(cx.now, segment);
                if self.rx.has_sacks() | (self.path_mtu.sack_options() != Bytes::ZERO) {
                    self.reserve_sack_options();
                }
            }
        }
        if self.fin_sent || self.rx.finished() {
            self.advance_closing(cx.now);
        }
    }

    // Getters.

    /// Where it is in RFC 9293 section 3.3.2 (Linux: `sk_state`).
    pub fn state(&self) -> State {
        self.state
    }

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

    /// As [`Socket::mss`], for arithmetic in 32 bits.
    #[inline]
    fn segment_len(&self) -> u32 {
        self.path_mtu.mss().as_u32()
    }

    /// Accepted and not yet sent for the first time.
    pub fn unsent(&self) -> Bytes {
        Bytes::from_u32(self.queue.unsent())
    }

    /// Memory that what is accepted and not yet acknowledged takes (Linux: `sk_wmem_queued`).
    pub fn wmem_queued(&self) -> Bytes {
        Bytes::from_u32(self.queued_memory())
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

    /// By how many bits the windows that the peer announces are shifted, 0 to 14 (RFC 7323 section 2.3; Linux: `snd_wscale`).
    pub fn window_scale_of_peer(&self) -> u8 {
        self.peer_wscale
    }

    /// Our own window scale, by which a meta connection shifts the window it announces.
    pub fn window_scale(&self) -> u8 {
        self.rx.window_scale()
    }

    /// The timeout to arm now, backed off (RFC 6298 section 5.5; Linux: `icsk_rto`).
    pub fn retransmission_timeout(&self) -> Duration {
        self.rtt.rto()
    }

    /// Timeouts in a row without progress.
    pub fn consecutive_timeouts(&self) -> u32 {
        self.loss.backoffs()
    }

    /// When data or FIN was last sent, retransmissions included; [`Instant::ZERO`] before (Linux: `lsndtime`).
    pub fn last_send(&self) -> Instant {
        self.last_sent_at
    }

    /// Bytes the application has had accepted so far: the sender's view of the goodput.
    pub fn accepted(&self) -> Bytes {
        Bytes::new(self.accepted)
    }

    /// Bytes the application has read so far: the receiver's view of the goodput.
    pub fn received(&self) -> Bytes {
        Bytes::new(self.rx.read_bytes())
    }

    /// How what was received was out of order, up to `now`.
    pub fn disorder(&self, now: Instant) -> crate::ReorderStats {
        self.rx.reordering(now)
    }

    /// When the handshake was complete at this end; `None` before.
    pub fn established_at(&self) -> Option<Instant> {
        self.established_at
    }

    /// The peer's FIN has arrived and everything before it.
    pub fn peer_finished(&self) -> bool {
        self.rx.finished()
    }

    /// Everything offered has been acknowledged.
    pub fn everything_acked(&self) -> bool {
        self.offered == 0 && self.queue.unsent() == 0 && self.scoreboard.packets_out() == 0
    }

    /// Asks for an ACK at the next `poll_transmit`.
    pub fn request_ack(&mut self) {
        self.rx.acks_mut().ack_now();
    }

    /// Data sequence numbers sent on this subflow and not yet acknowledged by the peer's TCP, as (dsn, length) in order.
    pub fn unacked_mappings(&self) -> impl Iterator<Item = (DataSeq, Bytes)> + '_ {
        self.scoreboard.mappings().chain(self.queue.mappings()).map(|(dsn, len)| (dsn, Bytes::from_u32(len)))
    }

    /// The peer's echo of our timestamp, as the time at which we sent it.
    #[inline]
    fn echoed(&self, segment: &Segment) -> u32 {
        segment.ts_ecr.wrapping_sub(self.ts_start)
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
