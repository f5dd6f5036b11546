//! One TCP endpoint, or one subflow of an MPTCP connection.
//!
//! Modelled on Linux (`Settings::stack` says which): SACK scoreboard, RACK-TLP, DSACK and timestamp
//! undo, F-RTO, PRR, delayed, quick and compressed ACKs, receive-buffer autotuning, TSO deferral,
//! cwnd validation. The payload itself is never held: a transfer is a count of bytes.
//!
//! Order of calls: any `handle_*` or verb, then `poll_transmit` until `None`, then `poll_timeout`.
//!
//! Where to find what; start with [`Socket::handle_segment`] here:
//! - a segment comes: `acceptance` (is it taken?), then `sender::ack` and `input` (its data);
//! - an ACK goes through `sender::ack`, `sack` and `loss` (congestion states), with the rules of
//!   PRR, RACK, TLP and undo in `sender::recovery`;
//! - a byte leaves by `sender::transmit`, asked by `output`, and gets its form in
//!   `segment_builder`;
//! - when it may leave: `sender::sending` (pacing, Nagle, TSO deferral, cwnd validation);
//! - a timer is armed in `timer` and expires in `output`, the retransmission timer in
//!   `sender::timers`; how long its timeout is: `sender::rtt`, with its bounds in `Settings`, or, of
//!   one kernel, in `stack::table`;
//! - how long a segment is: `sender::path_mtu`, and `mtu_probing`, which asks it;
//! - what the peer sends: `receiving` (order, window, ACKs), `ecn`; the end, and RSTs: `closing`;
//! - what an MPTCP connection reads and sets: the three `subflow` modules.
//!
//! In subflow mode ([`Socket::subflow`]) data comes as mappings from the meta connection
//! ([`Socket::push_mapping`]), and data received in order is handed to it through
//! [`Receiver::delivered`]; window and MPTCP options are the meta's to fill in.

mod acceptance;
mod closing;
mod ecn;
mod handshake;
mod input;
mod output;
mod receiving;
mod segment_builder;
mod sender;
mod subflow;
#[cfg(test)]
mod tests;
mod timer;
mod timestamps;

pub use crate::limit_clock::{Limit, LimitedTimes};
use crate::{Settings, SocketError};
use acceptance::Acceptance;
pub use cc::CaState;
pub use closing::reset_for;
use closing::{Closing, Reset};
use ecn::{Ecn, Mode as EcnMode};
use handshake::{Handshake, Offer};
use polypath_base::{Bytes, DataSeq, Duration, Instant, Seq};
use polypath_cc as cc;
use polypath_wire::{DEFAULT_MSS, Flags, MAX_OPTIONS, Segment, Unreachable};
use receiving::Receiver;
use segment_builder::Template;
use sender::Ack;
pub use sender::{Config, Context, Probe, RouteMtu, Sender};
use std::sync::Arc;
use subflow::BeforeData;
use timer::{Pending, Timer};
use timestamps::Timestamps;

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
    /// Both FINs acknowledged; for 60 s a late segment is still answered (Linux:
    /// `TCP_TIMEWAIT_LEN`).
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

/// One TCP endpoint.
#[derive(Debug)]
pub struct Socket {
    settings: Arc<Settings>,
    state: State,
    /// All that concerns what this end sends.
    pub(crate) tx: Sender,
    /// All that concerns what the peer sends.
    pub(crate) rx: Receiver,
    handshake: Handshake,
    acceptance: Acceptance,
    closing: Closing,
    /// The first sequence number, the SYN's (RFC 9293 section 3.3.1, ISS).
    iss: Seq,

    // Options.
    timestamps: Timestamps,
    ecn: Ecn,
    /// Linux: `snd_wscale`.
    peer_wscale: u8,
    /// Bytes of options that the meta connection adds to a pure ACK.
    ack_option_bytes: u32,

    // What leaves beside what the sender lets go.
    template: Template,
    reset: Reset,
    /// What recovery sends for an acknowledgement, formed before the data of the segment that brought
    /// it counted. In a box: few sockets need it, and all have to be small (docs/decisions/0012).
    before_data: Option<Box<BeforeData>>,
    /// Of the segment that comes with data only the acknowledgement is taken.
    stops_before_data: bool,
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

    /// Turns a fresh endpoint into a subflow: the meta connection adds `data_options` to data
    /// segments and `ack_options` to pure ACKs.
    #[must_use]
    pub fn subflow(mut self, data_options: Bytes, ack_options: Bytes) -> Self {
        self.tx.become_subflow(data_options);
        self.rx.become_subflow();
        self.ack_option_bytes = ack_options.as_u32();
        self
    }

    fn new(config: Config, state: State) -> Self {
        let tx = Sender::new(&config);
        let Config { settings, mtu, initial_seq, .. } = config;
        Self {
            state,
            rx: Receiver::new(&settings, mtu.as_u32()),
            handshake: Handshake::default(),
            acceptance: Acceptance::default(),
            closing: Closing::new(),
            iss: initial_seq,
            timestamps: Timestamps::new(&settings, initial_seq),
            ecn: Ecn::new(&settings, tx.needs_ecn(), tx.is_l4s()),
            tx,
            peer_wscale: 0,
            ack_option_bytes: 0,
            template: Template::default(),
            reset: Reset::default(),
            before_data: None,
            stops_before_data: false,
            settings,
        }
    }

    // Application verbs.

    /// Starts the handshake.
    pub fn open(&mut self, now: Instant) {
        debug_assert!(self.state == State::Closed, "open is for an endpoint that has not begun");
        self.state = State::SynSent;
        self.handshake.begin();
        self.tx.await_answer(now);
    }

    /// Starts the handshake with a SYN that carries so much data (TCP Fast Open). What is not
    /// acknowledged with it leaves again once the connection is established.
    pub fn open_with_data(&mut self, now: Instant, data: Bytes) {
        self.handshake.carry_data(data.as_u32());
        self.tx.accept_syn_data(data.as_u32());
        self.open(now);
    }

    /// The SYN/ACK has acknowledged data of the SYN.
    pub fn has_syn_data_acked(&self) -> bool {
        self.handshake.has_syn_data_acked()
    }

    /// When data last came; before any did, the end of the handshake (Linux: `lrcvtime`).
    pub fn last_data_received(&self) -> Option<Instant> {
        self.rx.acks().last_data_at().or(self.tx.established_at())
    }

    /// Bytes that a SYN to a peer with this MSS has room for beside options (Linux:
    /// `tcp_send_syn_data`).
    pub fn syn_data_room(&self, peer_mss: Bytes) -> Bytes {
        Bytes::new(peer_mss.get().min(self.advmss().get()).saturating_sub(u64::from(MAX_OPTIONS)))
    }

    /// The application has `amount` more to write and blocks in send; [`Bytes::MAX`] is endless.
    pub fn offer(&mut self, now: Instant, amount: Bytes) {
        self.tx.offer(now, amount, self.state == State::Established);
    }

    /// The application offers no more; what was not accepted is withdrawn.
    pub fn stop(&mut self) {
        self.tx.stop();
    }

    /// FIN after everything that was accepted.
    pub fn close(&mut self) {
        self.closing.on_close(self.state == State::Established);
        self.tx.close();
    }

    /// Ends at once, silently: nothing more is sent.
    #[cold]
    pub fn abort(&mut self) {
        self.state = State::Closed;
        self.tx.abort();
        self.rx.acks_mut().cancel();
    }

    /// The application reads so much of what waits, at most; how much that was. For one that reads
    /// by call ([`Socket::read_by_call`]).
    pub fn read(&mut self, now: Instant, most: Bytes) -> Bytes {
        let len = self.rx.unread().min(most);
        self.rx.read_some(now, len.as_u32());
        len
    }

    /// The application reads when it calls [`Socket::read`], instead of at once.
    pub fn read_by_call(&mut self) {
        self.rx.hold_reader(true);
    }

    /// How long data may stay unacknowledged (TCP_USER_TIMEOUT, RFC 5482); zero: as the host has it.
    pub fn set_user_timeout(&mut self, time: Duration) {
        self.tx.set_user_timeout(time);
    }

    /// The SYN that comes next has a valid cookie: what it carries is taken, and the program has the
    /// connection at once (TCP Fast Open, RFC 7413 section 4.2).
    pub fn accept_fast_open(&mut self) {
        debug_assert!(self.state == State::Listen, "it is for an endpoint that waits for a SYN");
        self.handshake.accept_fast_open();
    }

    /// What the program says of its next write: more follows (MSG_MORE), or a record ends with it,
    /// which shares no segment with the next (MSG_EOR).
    pub fn announce_write(&mut self, more: bool, ends_record: bool) {
        self.tx.on_write(more, ends_record);
    }

    /// TCP_NODELAY: short segments do not wait for each other.
    pub fn set_nodelay(&mut self, on: bool) {
        self.tx.set_nodelay(on);
    }

    /// TCP_CORK: whole segments alone leave, until it is taken off.
    pub fn set_corked(&mut self, on: bool) {
        self.tx.set_corked(on);
    }

    /// SO_SNDBUF, doubled as Linux does: the send buffer keeps this size.
    pub fn set_sndbuf(&mut self, size: Bytes) {
        self.tx.set_sndbuf(size);
    }

    /// TCP_SYNCNT: how often the SYN goes again.
    pub fn set_syn_retries(&mut self, times: u32) {
        Arc::make_mut(&mut self.settings).syn_retries = times;
    }

    /// TCP_RTO_MAX_MS: the longest retransmission timeout from now on.
    pub fn set_rto_max(&mut self, longest: Duration) {
        self.tx.set_rto_max(longest);
    }

    /// TCP_NOTSENT_LOWAT.
    pub fn set_notsent_lowat(&mut self, limit: Bytes) {
        self.tx.set_notsent_lowat(limit);
    }

    /// What ended the connection, told once.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.closing.take_error()
    }

    /// Subflow mode: `len` of data from `dsn` on, at most 2^32 - 1 bytes, is the next to send; of
    /// what was next before something `has_left` even if that has yet to be asked for.
    pub fn push_mapping(&mut self, now: Instant, dsn: DataSeq, len: Bytes, has_left: bool) {
        self.tx.push_mapping(now, dsn, len, self.state == State::Established, has_left);
    }

    /// A link refused a segment of ours as too long.
    pub fn handle_unreachable(&mut self, now: Instant, message: &Unreachable) {
        self.invalidate_template();
        self.tx.handle_unreachable(now, message);
    }

    /// What the host has learnt of this route, by this connection or by another one.
    pub fn route_mtu(&self) -> Option<RouteMtu> {
        self.tx.route_mtu()
    }

    /// The host has learnt something of this route from another connection's packets.
    pub fn set_route_mtu(&mut self, now: Instant, learnt: RouteMtu) {
        self.invalidate_template();
        self.tx.set_route_mtu(now, learnt);
    }

    // Inputs.

    /// Takes a segment of the peer.
    #[inline(always)]
    pub fn handle_segment(&mut self, cx: Context<'_>, segment: &Segment) {
        self.tx.set_now(cx.now);
        self.tx.take_time(cx.now);
        self.invalidate_template();
        match self.state {
            State::Closed => self.handle_when_closed(segment),
            State::TimeWait => self.handle_in_time_wait(cx.now, segment),
            State::FinWait2 if self.closing.is_orphan() => self.handle_orphaned(cx, segment),
            State::Listen => self.handle_syn(cx.now, segment),
            State::SynSent => self.handle_syn_ack(cx, segment),
            _ => self.handle_synchronized(cx, segment),
        }
    }

    #[cold]
    fn handle_syn(&mut self, now: Instant, segment: &Segment) {
        // RFC 9293 section 3.10.7.2 looks at no FIN: specs/exceptions.
        let has = |flag| segment.flags.has(flag);
        if !has(Flags::SYN) || has(Flags::ACK) || has(Flags::RST) || has(Flags::FIN) {
            self.acceptance.rejections.rejected_handshake += 1;
            return;
        }
        self.state = State::SynReceived;
        self.learn_options(segment);
        self.rx.choose_first_window(self.advertised_mss());
        self.rx.start(segment.seq + 1);
        self.tx.set_peer_window(u32::from(segment.window));
        self.rx.note_timestamp(now, segment);
        self.handshake.request();
        if self.handshake.is_fast_open() {
            self.begin_fast_open(now, segment);
        }
        self.tx.await_answer(now);
    }

    /// RFC 7413 section 4.2.2: the data of the SYN is taken, and own data may leave behind the
    /// SYN/ACK.
    #[cold]
    fn begin_fast_open(&mut self, now: Instant, segment: &Segment) {
        self.tx.set_window_seq(segment.seq);
        self.tx.begin_fast_open(now, self.iss + 1);
        self.rx.established(now, self.advertised_mss(), self.tx.mss_cache());
        if segment.len > 0 {
            self.take_syn_data(now, segment);
        }
    }

    /// The SYN/ACK is answered while data goes already.
    #[cold]
    fn finish_fast_open(&mut self, now: Instant, segment: &Segment) {
        let rtt = self.handshake.rtt(now).or_else(|| self.timestamps.rtt(now, segment));
        self.state = State::Established;
        self.handshake.finish_fast_open();
        self.tx.finish_fast_open(now, rtt);
    }

    /// Data may leave: the handshake is over, or need not be.
    #[inline]
    fn lets_data_out(&self) -> bool {
        self.state.is_synchronized() || (self.handshake.is_fast_open() && self.state == State::SynReceived)
    }

    #[cold]
    fn handle_syn_ack(&mut self, cx: Context<'_>, segment: &Segment) {
        // RFC 9293 section 3.10.7.3: a peer that did not see our SYN can neither answer nor reset it.
        let has_ack = segment.flags.has(Flags::ACK);
        let acks_syn = has_ack && segment.ack.after(self.iss) && !segment.ack.after(self.iss + 1 + self.handshake.syn_data());
        if has_ack && !acks_syn {
            // Something remembers an earlier connection: it gets a RST, and Linux asks again at
            // once.
            self.reset.answer(segment);
            if self.handshake.timeouts() == 0 {
                self.tx.timers.arm_pending(Pending::Timeout, cx.now, self.settings.tick * 2);
            }
        }
        let has = |flag| segment.flags.has(flag);
        if has(Flags::SYN) && !has(Flags::ACK) && !has(Flags::RST) {
            self.handle_crossing_syn(cx.now, segment);
            return;
        }
        if !acks_syn {
            self.acceptance.rejections.rejected_handshake += 1;
            return;
        }
        if segment.flags.has(Flags::RST) {
            self.fail(SocketError::Refused);
            return;
        }
        if !segment.flags.has(Flags::SYN) {
            self.acceptance.rejections.rejected_handshake += 1;
            return;
        }
        self.learn_options(segment);
        self.rx.start(segment.seq + 1);
        self.rx.note_timestamp(cx.now, segment);
        self.tx.set_peer_window(u32::from(segment.window)); // the window of a SYN is not scaled (RFC 7323 section 2.2)
        self.tx.set_window_seq(segment.seq);
        self.acknowledge_syn(cx.now, segment);
        self.established(cx);
        let unacked = self.handshake.unacked_syn_data();
        if unacked > 0 {
            self.tx.take_back_syn_data(unacked);
        } else if self.handshake.syn_data() == 0 || self.tx.unsent() == Bytes::ZERO {
            self.handshake.request();
        } else {
            // Data leaves at once, and acknowledges (Linux: `sk_write_pending`).
            self.rx.acks_mut().on_writer_waited(cx.now);
        }
    }

    /// Both ends have sent a SYN, and each answers the other's (RFC 9293 section 3.5, figure 7).
    #[cold]
    fn handle_crossing_syn(&mut self, now: Instant, segment: &Segment) {
        self.state = State::SynReceived;
        self.handshake.keep_offer(Offer {
            window_scale: self.rx.offered_scale(),
            timestamps: self.timestamps.ok(),
            sack: self.tx.sack_ok(),
        });
        self.learn_options(segment);
        self.rx.start(segment.seq + 1);
        self.rx.note_timestamp(now, segment);
        self.tx.set_peer_window(u32::from(segment.window));
        self.tx.set_window_seq(segment.seq);
        self.handshake.request();
    }

    #[cold]
    fn acknowledge_syn(&mut self, now: Instant, segment: &Segment) {
        let rtt = self.handshake.rtt(now).or_else(|| self.timestamps.rtt(now, segment));
        let syn_data = self.handshake.on_syn_acked(segment.ack.distance(self.iss + 1));
        let start = self.iss + 1 + syn_data;
        if syn_data > 0 {
            self.tx.acknowledge_syn_data(start, syn_data);
        }
        self.tx.start(start, rtt);
    }

    #[cold]
    fn established(&mut self, cx: Context<'_>) {
        let is_client = self.state == State::SynSent;
        self.state = State::Established;
        self.tx.established(cx, is_client, self.handshake.costs_initial_window());
        self.rx.established(cx.now, self.advertised_mss(), self.tx.mss_cache());
        if self.ecn.has_feedback() {
            self.reserve_sack_options();
        }
    }

    fn learn_options(&mut self, segment: &Segment) {
        self.timestamps.on_syn(segment);
        let peer_mss = if segment.mss == 0 { DEFAULT_MSS } else { u32::from(segment.mss) };
        self.tx.on_syn_options(Bytes::from_u32(peer_mss), self.timestamps.ok(), segment.sack_permitted);
        self.tx.set_ecn(self.ecn.agree(segment));
        if segment.window_scale == 255 || !self.settings.window_scaling {
            self.peer_wscale = 0;
            self.rx.disable_scaling();
        } else {
            self.peer_wscale = segment.window_scale.min(14); // RFC 7323 section 2.3
        }
    }

    /// The window that a segment without SYN announces, bytes (RFC 7323 section 2.3).
    #[inline]
    fn window_of(&self, segment: &Segment) -> u32 {
        u32::from(segment.window) << self.peer_wscale
    }

    /// The sender is handed what the segment acknowledges.
    #[inline]
    fn handle_ack(&mut self, cx: Context<'_>, segment: &Segment) {
        let ack = Ack {
            seq: segment.seq,
            number: segment.ack,
            window: self.window_of(segment),
            sacks: if self.tx.sack_ok() { segment.sack() } else { &[] },
            stamps: self.timestamps.are_on(segment).then(|| (segment.ts_val, self.timestamps.echo(segment))),
            carries_data: segment.len > 0 || segment.flags.has(Flags::FIN),
            ece: segment.flags.has(Flags::ECE),
            is_predicted: self.is_predicted(segment),
        };
        self.tx.on_ack(cx, &ack, self.ecn.feedback());
    }

    /// Data that comes in its turn and tells nothing else: Linux's header prediction takes it without
    /// a look at its acknowledgement (`tcp_rcv_established`).
    #[inline]
    fn is_predicted(&self, segment: &Segment) -> bool {
        segment.len > 0
            && !segment.has_dss
            && self.state == State::Established
            && segment.seq == self.rx.next()
            && self.ecn.predicts(segment, self.tx.delivered_ce().get())
            && segment.options_len() == self.timestamps.bytes()
            && !self.rx.has_hole()
    }

    fn handle_synchronized(&mut self, cx: Context<'_>, segment: &Segment) {
        let takes = self.takes(cx.now, segment);
        self.acceptance.decide(takes);
        if !takes {
            return;
        }
        self.tx.end_deferral();
        let completes = self.state == State::SynReceived;
        if self.state == State::SynReceived && self.handshake.is_fast_open() {
            if segment.ack.before(self.iss + 1) || segment.ack.after(self.tx.snd_nxt()) {
                self.acceptance.rejections.rejected_ack += 1;
                self.reset.answer(segment);
                return;
            }
            self.finish_fast_open(cx.now, segment);
        } else if self.state == State::SynReceived {
            if segment.ack != self.iss + 1 {
                self.acceptance.rejections.rejected_ack += 1;
                self.reset.answer(segment); // RFC 9293 section 3.10.7.4
                return;
            }
            self.tx.set_window_seq(segment.seq);
            self.tx.set_peer_window(self.window_of(segment));
            self.acknowledge_syn(cx.now, segment);
            if !self.handshake.is_active() {
                // The SYN/ACK's was the request's (Linux: `rsk_timer`).
                self.tx.timers.begin_anew(Timer::Retransmission);
            }
            self.established(cx);
            if segment.flags.has(Flags::SYN) {
                // The peer's SYN has come twice, which RFC 2883 tells it.
                self.rx.note_repeated_syn(segment.seq, self.tx.sack_ok() && self.settings.dsack);
                self.reserve_sack_options();
            }
        } else if segment.len == 0 && self.state == State::Established {
            // What an ACK has echoed, data that echoes it again measures no more (Linux:
            // `rcv_rtt_last_tsecr`).
            self.measure_rtt(cx.now, segment);
        }
        if self.ecn.has_feedback() {
            self.hear_accurate_ecn(segment, completes);
        }
        if segment.ack.before(self.tx.snd_una()) && segment.ack.before(self.tx.oldest_plausible_ack(self.handshake.is_active())) {
            // RFC 5961 section 5.2.
            self.acceptance.decide(false);
            self.challenge(cx.now);
            return;
        }
        self.rx.note_timestamp(cx.now, segment);
        self.handle_ack(cx, segment);
        if self.ecn.has_feedback() {
            self.follow_accurate_ecn();
        }
        let takes_numbers = segment.len > 0 || segment.flags.has(Flags::FIN);
        if takes_numbers && self.tx.recovers() {
            self.recover_before_data(cx);
        }
        if takes_numbers {
            self.rx.forget_duplicate();
        }
        if takes_numbers && std::mem::take(&mut self.stops_before_data) {
            return;
        }
        self.take_rest(cx, segment);
    }

    /// As [`Socket::handle_segment`]; of one with data that is taken no more than what it
    /// acknowledges. True if [`Socket::take_rest`] is to follow.
    #[cold]
    pub(crate) fn handle_acknowledgement(&mut self, cx: Context<'_>, segment: &Segment) -> bool {
        self.stops_before_data = true;
        self.handle_segment(cx, segment);
        !std::mem::take(&mut self.stops_before_data)
    }

    /// What a segment brings beside its acknowledgement.
    #[inline(always)]
    pub(crate) fn take_rest(&mut self, cx: Context<'_>, segment: &Segment) {
        let takes_numbers = segment.len > 0 || segment.flags.has(Flags::FIN);
        if (self.closing.reads_no_more() | self.rx.finished()) && self.has_data_after_close(segment) {
            self.fail(self.reset_error());
            self.reset.answer(segment);
            return;
        }
        if segment.flags.has(Flags::CWR) && self.tx.ecn_ok() {
            self.ecn.on_cwr(segment, self.rx.acks_mut());
        }
        // RFC 9293 section 3.10.7.4: after the peer's FIN there is nothing to take.
        if takes_numbers {
            if self.rx.has_taken(segment) {
                // What came before is not unacceptable while no ACK has said so: its timestamp and
                // its acknowledgement count (Linux: tcp_sequence asks for rcv_wup, not rcv_nxt).
                self.acceptance.rejections.rejected_sequence += 1;
                self.refuse(cx.now, segment);
            } else if self.rx.finished() {
                self.acceptance.rejections.rejected_closed += 1;
            } else {
                self.handle_data(cx.now, segment);
                if self.rx.has_sacks() | (self.tx.reserves_sack_options()) {
                    self.reserve_sack_options();
                }
            }
        }
        let closes = self.tx.fin_sent() || self.rx.finished();
        if !takes_numbers & (closes | self.tx.is_subflow()) && self.rx.acks().is_scheduled() && self.delays_as_tcp() {
            self.hasten_ack(cx.now);
        }
        if closes {
            self.advance_closing(cx.now);
        }
    }

    // Getters.

    /// What has held up the sender until `now`.
    pub fn limited(&self, now: Instant) -> LimitedTimes {
        self.tx.limited(now)
    }

    /// The snapshot that probes read.
    pub fn probe(&self) -> Probe {
        self.tx.probe(Bytes::new(self.rx.received_bytes()), self.acceptance.rejections)
    }

    /// What this end sends, and how.
    #[inline]
    pub fn sender(&self) -> &Sender {
        &self.tx
    }

    /// Where it is in RFC 9293 section 3.3.2 (Linux: `sk_state`).
    pub fn state(&self) -> State {
        self.state
    }

    /// By how many bits the windows that the peer announces are shifted, 0 to 14
    /// (RFC 7323 section 2.3; Linux: `snd_wscale`).
    pub fn window_scale_of_peer(&self) -> u8 {
        self.peer_wscale
    }

    /// Our own window scale, by which a meta connection shifts the window it announces.
    pub fn window_scale(&self) -> u8 {
        self.rx.window_scale()
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
        self.tx.established_at()
    }

    /// The peer's FIN has arrived and everything before it.
    pub fn peer_finished(&self) -> bool {
        self.rx.finished()
    }

    /// What of a segment of the peer is data, at most: the MSS that this end announced less the
    /// timestamps (Linux: `advmss`, which the timestamps are not taken from).
    pub fn advmss(&self) -> Bytes {
        Bytes::from_u32(self.rx.buffer().advertised_mss())
    }

    /// The peer's segments as they come (Linux: `rcv_mss`).
    pub fn received_segment_size(&self) -> Bytes {
        Bytes::from_u32(self.rx.buffer().segment_size())
    }

    /// Timestamps, SACK, window scaling and ECN, as far as both ends have them.
    pub fn agreed(&self) -> [bool; 4] {
        [self.timestamps.ok(), self.tx.sack_ok(), self.rx.offered_scale().is_some(), self.tx.ecn_ok()]
    }

    /// Bytes that wait for the application to read them.
    pub fn unread(&self) -> Bytes {
        self.rx.unread()
    }

    /// What has ended the connection and was not told yet.
    pub fn error(&self) -> Option<SocketError> {
        self.closing.error()
    }

    /// The send buffer has room enough that a program is told (Linux: `sk_stream_is_writeable`).
    pub fn takes_writes(&self) -> bool {
        let (queued, sndbuf) = (self.tx.wmem_queued().get(), self.tx.sndbuf().get());
        sndbuf.saturating_sub(queued) >= queued / 2 && self.tx.has_few_unsent(true)
    }

    /// Asks for an ACK at the next `poll_transmit`.
    pub fn request_ack(&mut self) {
        self.rx.acks_mut().ack_now();
    }
}
