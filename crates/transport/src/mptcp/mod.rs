//! An MPTCP connection over its subflows, each a [`Socket`] in subflow mode.
//!
//! Owns what belongs to the connection as a whole: keys and joins, data sequence numbers, the
//! shared window and its buffers, the choice of subflow, what is sent again on another one, and the
//! end of the data. It never touches a subflow's own congestion control except to penalise it
//! ([`crate::stack::Stack::opportunistic_retransmission`]).
//!
//! Order of calls: any `handle_*` or verb, then `poll_transmit` until `None`, then `poll_timeout`.
//!
//! Both ends number a path alike. The client creates paths and says which addresses they join
//! ([`Connection::path`]); the server learns of one by its first segment.
//!
//! Where to find what; start with [`Connection::handle_segment`] and what sends, both here:
//! - what a segment means: `handshake` (MP_CAPABLE, MP_JOIN, the fall back to TCP), `input`
//!   (data, acknowledgement), `known_mappings` (where data without a mapping of its own belongs),
//!   then `receiver` and `reassembly` (order, window);
//! - which subflow sends what: `scheduling`, on the edges of the data in `sender`;
//!   `connection_mss`;
//! - what goes again: `reinjection`, and `retransmission` when the connection's own timer expires;
//! - how a connection ends: `release` in `closing` chooses: at once, there; or `close` here queues
//!   the DATA_FIN, `scheduling` sends it, `retransmission` repeats it, and `finish_if_done` in
//!   `input` closes the subflows;
//! - which subflow has something to do and is served first, and what is kept of subflows between
//!   events: `work`;
//! - what a segment carries: `options`, with keys of `keys`;
//! - how subflows and addresses come and go: `paths`, asked for by `path_manager`.

mod closing;
mod connection_mss;
mod handshake;
mod input;
mod keys;
mod known_mappings;
mod options;
pub mod path_manager;
mod paths;
mod reassembly;
mod receiver;
mod receiver_samples;
mod reinjection;
mod retransmission;
mod scheduling;
mod sender;
#[cfg(test)]
mod tests;
mod work;

pub use path_manager::PathManager;
pub use receiver::ReassemblyCounters;

use crate::settings::Settings;
use crate::stack::{MetaSendBuffer, MptcpVersion, PushOrder};
use crate::tcp::{self, Socket, State};
use crate::{SegmentSlot, SocketError, Transmit, Transmits};
use keys::draw_key;
use known_mappings::KnownMappings;
use paths::Paths;
use polypath_base::{Bytes, Instant, PathId, Rng, Seq};
use polypath_cc as cc;
use polypath_sched::{Quirks, Scheduler};
use polypath_wire::mptcp::Repr;
use polypath_wire::{MpOptions, Segment, Unreachable};
use receiver::Rx;
use sender::{Fin, Tx};
use std::net::IpAddr;
use std::sync::Arc;
use work::PendingWork;

/// Index of the initial subflow: it has the MP_CAPABLE handshake (RFC 8684 section 3.1), carries
/// the handshake of the connection as a whole, and is the one left where the connection becomes
/// plain TCP (section 3.7).
const INITIAL: usize = 0;

/// By how much a DATA_ACK of 8 bytes is longer than one of 4 (RFC 8684 section 3.3).
const WIDE_ACK_BYTES: u32 = 4;

/// Room that a connection has for subflows from the start: two are most common, and unused memory
/// keeps connections apart.
const USUAL_SUBFLOWS: usize = 2;

/// What a connection is told at its making.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of the connection and of all its subflows.
    pub settings: Arc<Settings>,
    /// Congestion control of each subflow (Linux: `tcp_congestion_control`).
    pub algorithm: cc::Algorithm,
    /// Chooses the subflow on which data goes out next (Linux: `mptcp_subflow_get_send`).
    pub scheduler: Scheduler,
    /// Decides which subflows a client opens; a server never asks it.
    pub path_manager: PathManager,
    /// Own addresses; a path names them by their numbers in this list. A client's subflows leave
    /// from them; address 0 is the one of the first path. A server that has more than one announces
    /// the others (ADD_ADDR) with their numbers as address identifiers, and answers every path from
    /// interface 0 unless [`Connection::set_mtu`] says otherwise.
    pub interfaces: Vec<Interface>,
    /// Keys, nonces and initial sequence numbers come from here.
    pub random: Rng,
}

/// An own address of a connection, and the interface that has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// IP address; a server announces it by ADD_ADDR (RFC 8684 section 3.4.1).
    pub address: IpAddr,
    /// Longest packet that leaves by it, bytes with the IP header.
    pub mtu: Bytes,
}

/// Where the connection is in its life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the first handshake is over.
    Negotiating,
    Established,
    /// The peer does not speak MPTCP: one subflow carries plain TCP (RFC 8684 section 3.7).
    Fallback,
}

/// Whether and how the peer has ended a subflow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum EndedByPeer {
    No,
    ByReset,
    /// This end has left by a FIN, too.
    ByFin,
}

/// One subflow and what the connection knows of it.
#[derive(Debug)]
struct Subflow {
    socket: Socket,
    path: PathId,
    local: u8,
    remote: u8,
    /// This end sent the MP_JOIN.
    joining: bool,
    /// The peer has proved that it knows the keys.
    authenticated: bool,
    /// The handshake, MPTCP's part included, is over in the peer's eyes: data may be sent
    /// (RFC 8684 section 3.2).
    confirmed: bool,
    backup: bool,
    local_nonce: u32,
    remote_nonce: u32,
    /// Options that wait, each for a segment without data.
    waiting_options: MpOptions,
    /// When the peer last acknowledged on it what it had been sent, or what it had acknowledged
    /// (Linux: `rcv_tstamp`).
    heard_at: Instant,
    /// Rounds of the retransmission timer without a sign of life, since when, and whether that made
    /// it stale.
    stale_rounds: u8,
    stale_since: Instant,
    stale: bool,
    /// A timeout happened and nothing was heard since
    /// ([`crate::stack::Stack::reinjects_on_timeout`]).
    potentially_failed: bool,
    timeouts: u64,
    /// Its place in the order in which subflows' timers were served and set again.
    timer_set: u64,
    closed: bool,
    /// By the peer: what comes now is TCP's alone, which answers it.
    ended_by_peer: EndedByPeer,
    /// The peer took its address back: should it announce it again, a subflow to there is a new
    /// one.
    withdrawn: bool,
    /// Its handshake was over once: it has brought its buffers.
    synchronized: bool,
    /// Window that its last segment announced, bytes, and where the connection's ended then (Linux:
    /// `rcv_wnd_sent`).
    announced: u32,
    edge: u64,
    /// The ACK of what came last leaves before the reader comes.
    acks_before_reader: bool,
    known_mappings: KnownMappings,
    sndbuf: Bytes,
    /// Last time a slower one's window was halved for filling the buffer that this one waited for.
    penalised_at: Option<Instant>,
}

impl Subflow {
    /// Joined, open, and not given up.
    #[inline]
    fn is_usable(&self) -> bool {
        // All of it is nearly always so: one branch is less than five.
        self.confirmed & !self.closed & !self.potentially_failed & !self.stale & self.socket.state().can_send()
    }

    /// Its retransmission timer counts for that of the connection.
    #[inline]
    fn times_retransmission(&self) -> bool {
        // As above.
        self.is_usable() & (self.stale_rounds == 0)
    }

    /// A segment of it leaves with this window, bytes.
    #[inline]
    fn announce(&mut self, window: u32, segment: &mut Segment) {
        self.socket.rx.set_announced_window(window);
        self.announced = window;
        if segment.len == 0 {
            self.acks_before_reader = false;
        }
        segment.window = (window >> self.socket.window_scale()) as u16;
    }

    #[inline]
    fn as_sibling(&self) -> cc::Sibling {
        self.socket.tx.sibling(self.is_usable())
    }
}

/// An MPTCP connection, client or server.
#[derive(Debug)]
pub struct Connection {
    settings: Arc<Settings>,
    algorithm: cc::Algorithm,
    scheduler: Scheduler,
    is_client: bool,
    phase: Phase,
    paths: Paths,
    subflows: Vec<Subflow>,
    work: PendingWork,
    random: Rng,
    local_key: u64,
    remote_key: u64,
    peer_is_capable: bool,
    /// Mappings have checksums (Linux: `csum_enabled`).
    checksum: bool,
    local_token: u32,
    remote_token: u32,
    tx: Tx,
    rx: Rx,
    read_due: Instant,
    /// When third ACKs without an answer go again.
    join_retry: Instant,
    /// It ended without DATA_FINs of both ends.
    ended: bool,
    /// The application does not read now.
    reader_held: bool,
    /// What the program has yet to be told (Linux: `sk_err`).
    error: Option<SocketError>,
    established_at: Option<Instant>,
    last_event: Instant,
    /// When a timer of the wheel fired last, and how many of subflows have and were set again.
    fired: Instant,
    timers_set: u64,
    /// The last data came with 64-bit sequence numbers: this end answers in kind, as Linux does
    /// (`use_64bit_ack`).
    acks_wide: bool,
}

impl Connection {
    /// The end that opens the connection ([`Connection::open`]).
    pub fn client(config: Config) -> Self {
        let mut connection = Self::new(config, true);
        connection.add_socket(PathId(0), 0, 0, false);
        connection
    }

    /// The end that waits for a SYN.
    pub fn server(config: Config) -> Self {
        let mut connection = Self::new(config, false);
        connection.add_socket(PathId(0), 0, 0, false);
        connection
    }

    fn new(config: Config, is_client: bool) -> Self {
        let Config { settings, algorithm, scheduler, path_manager, interfaces, mut random } = config;
        let stack = settings.stack;
        let (local_key, local_token, local_idsn) = draw_key(stack.mptcp_version, &mut random);
        let mut tx = Tx::new(settings.wmem[1].get(), stack.write_begins_fragment, stack.mptcp_version == MptcpVersion::V1, settings.tick);
        tx.start(local_idsn + 1);
        let rx = Rx::new(settings.rmem[1].as_u32(), settings.rmem[2].as_u32(), stack, settings.device);
        Self {
            work: PendingWork::new(algorithm.flags() & cc::flags::COUPLED != 0),
            algorithm,
            scheduler: scheduler.with(Quirks { ecf_overflows: stack.ecf_overflows, redundant_repeats: stack.redundant_repeats }),
            is_client,
            phase: Phase::Negotiating,
            paths: Paths::new(path_manager, interfaces, is_client),
            subflows: Vec::with_capacity(stack.max_subflows.min(USUAL_SUBFLOWS)),
            random,
            local_key,
            remote_key: 0,
            peer_is_capable: false,
            checksum: settings.checksum,
            local_token,
            remote_token: 0,
            tx,
            rx,
            read_due: Instant::NEVER,
            join_retry: Instant::NEVER,
            ended: false,
            reader_held: false,
            error: None,
            established_at: None,
            last_event: Instant::ZERO,
            fired: Instant::NEVER,
            timers_set: 0,
            acks_wide: false,
            settings,
        }
    }

    /// The version of the protocol.
    fn version(&self) -> MptcpVersion {
        self.settings.stack.mptcp_version
    }

    // Application verbs.

    /// Starts the handshake of the first path.
    pub fn open(&mut self, now: Instant) {
        self.subflows[INITIAL].socket.open(now);
        self.work.mark(INITIAL);
    }

    /// The application has `amount` more to write and blocks in send; [`Bytes::MAX`] is endless.
    pub fn offer(&mut self, now: Instant, amount: Bytes) {
        let page = self.tx.page_may_be_held();
        let is_held = page.is_some_and(|page| self.subflows.iter().any(|s| s.socket.tx.holds_data_from(page)));
        self.tx.begin_write(is_held);
        self.rx.forget_before_reader();
        self.work.none_comes_first();
        self.tx.offered = self.tx.offered.saturating_add(amount.get());
        self.refresh_siblings();
        self.write(now);
    }

    /// The application offers no more; what was not accepted is withdrawn.
    pub fn stop(&mut self, now: Instant) {
        self.last_event = now;
        self.tx.offered = 0;
        self.tx.no_space |= self.tx.blocked;
        self.set_blocked(false);
    }

    /// DATA_FIN after everything that was accepted (RFC 8684 section 3.3.3).
    pub fn close(&mut self, now: Instant) {
        if self.tx.fin == Fin::No {
            self.tx.fin = Fin::Queued;
        }
        self.refresh_siblings();
        self.push(now);
    }

    // Inputs.

    /// Takes a segment that came on a path.
    pub fn handle_segment(&mut self, now: Instant, path: PathId, segment: &Segment) {
        self.last_event = now;
        let Some(i) = self.paths.subflow(path).or_else(|| self.accept_join(path, segment)) else { return };
        if self.subflows[i].closed {
            self.handle_after_end(now, i, segment);
            return;
        }
        let own;
        let is_unmapped = !segment.has_dss & (segment.len > 0) && self.phase == Phase::Established;
        let segment = if segment.dss.from_wire | is_unmapped {
            own = self.with_known_mapping(i, segment);
            &own
        } else {
            segment
        };
        if !segment.mp.is_empty() && !self.handle_options(now, i, segment) {
            return;
        }
        if self.version() == MptcpVersion::V1 {
            self.work.comes_first(i);
        }
        let in_two_steps = (segment.len > 0) & self.tx.pending.before(self.tx.end) && self.sends_before_data(i);
        let subflow = &mut self.subflows[i];
        subflow.potentially_failed = false;
        // Another subflow may have announced a window that ends later (Linux: `rwin_update`).
        if (segment.len > 0) & (self.rx.edge() > subflow.edge) && subflow.socket.rx.lets_window_grow(segment, self.rx.edge() - subflow.edge)
        {
            subflow.edge = self.rx.edge();
        }
        // What is acknowledged ahead of the data counts once: what that lets out was not sent before.
        let is_acknowledged = in_two_steps && self.handle_in_two_steps(now, i, segment);
        if !in_two_steps {
            let subflow = &mut self.subflows[i];
            subflow.socket.handle_segment(self.work.context(now, i), segment);
            if subflow.socket.has_formed() {
                self.complete_formed(i);
            }
        }
        let reads_options = self.reads_options(i);
        if reads_options {
            self.note_heard(now, i, segment);
        }
        let subflow = &self.subflows[i];
        let (confirmed, has_data) = (subflow.confirmed, !subflow.socket.rx.delivered.is_empty());
        if subflow.socket.state() == State::Closed {
            self.explain_reset(i, segment);
        }
        self.work.touch(i);
        if self.phase == Phase::Negotiating || !confirmed {
            self.advance_handshake(now, i, segment);
        }
        if has_data {
            self.take_delivered(now, i, segment);
        }
        if reads_options && !is_acknowledged {
            self.take_acknowledgement(now, i, segment);
        }
        self.take_fins(now, i, segment);
        if self.tx.is_idle() {
            let socket = &self.subflows[i].socket;
            if socket.is_quiet() {
                // A receiver whose ACK is not due yet.
                let due = socket.poll_timeout();
                self.work.set_due(i, due);
            } else {
                self.work.set_ready(i);
            }
            return;
        }
        // The siblings' view follows once what may be sent has been: see `on_subflow_quiet`.
        self.work.set_ready(i);
        if self.settings.stack.push_order == PushOrder::BufferByBuffer {
            self.work.push_again();
        } else {
            self.push_now(now, true);
        }
    }

    /// What the segment that came last on a subflow says of MPTCP counts; of version 0 that was not
    /// measured.
    #[inline]
    fn reads_options(&self, i: usize) -> bool {
        self.subflows[i].socket.reads_options() || self.settings.stack.mptcp_version == MptcpVersion::V0
    }

    /// Data that comes after the peer's FIN is answered by a RST, with a reason: Linux has read its
    /// mapping (`mptcp_reset_option`).
    #[cold]
    fn explain_reset(&mut self, i: usize, segment: &Segment) {
        if segment.len > 0 && self.phase == Phase::Established {
            let options = self.reset_options(Repr::RST_UNSPECIFIED);
            self.subflows[i].socket.explain_reset(options);
        }
    }

    /// A link refused a segment of ours as too long.
    pub fn handle_unreachable(&mut self, now: Instant, path: PathId, message: &Unreachable) {
        self.last_event = now;
        if let Some(i) = self.paths.subflow(path) {
            self.subflows[i].socket.handle_unreachable(now, message);
            self.work.mark(i);
        }
    }

    /// Does what is due at `now`; calling early is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.last_event = now;
        self.work.none_comes_first();
        let (due, rest) = self.due_first(now);
        if let Some(i) = due {
            self.serve_timer(now, i);
        }
        if rest || (due.is_some() && self.tx.rtx_due <= now) {
            // What this one sends leaves before the next one's turn.
            return;
        }
        if self.tx.rtx_due <= now {
            self.on_retransmission_timer(now);
        }
        if self.join_retry <= now {
            self.retry_joins(now);
        }
        if self.paths.timer_due() <= now {
            self.manage_paths(now);
        }
        if self.read_due <= now {
            self.read_due = Instant::NEVER;
            self.read_on_time(now);
        }
        self.push(now);
    }

    /// What is due on a subflow.
    fn serve_timer(&mut self, now: Instant, i: usize) {
        let subflow = &mut self.subflows[i];
        self.work.comes_first(i);
        if !subflow.socket.handle_timeout(self.work.context(now, i)) {
            // A timer of the wheel comes up later than it was set to: nothing leaves until then.
            self.work.set_due(i, subflow.socket.poll_timeout());
            return;
        }
        // A probe sets it as soon as it has left.
        if subflow.socket.sets_timer(now) || subflow.socket.tx.tail_loss_probe_is_due() {
            self.timers_set += 1;
            subflow.timer_set = self.timers_set;
        }
        let gave_up = subflow.socket.state() == State::Closed;
        let timeouts = subflow.socket.tx.timeouts();
        let timed_out = timeouts != subflow.timeouts && !subflow.closed;
        subflow.timeouts = timeouts;
        self.work.mark(i);
        if gave_up {
            if self.phase == Phase::Established {
                self.close_subflow(now, i);
            } else {
                self.drop_subflow(i);
                self.end_at_once();
            }
            return;
        }
        if timed_out {
            self.note_fired(now);
            self.on_subflow_timeout(i);
        }
        self.refresh_sibling(i);
    }

    /// The subflow whose timer is served first of those that are due, and whether there are others.
    /// Of one tick's timers those come first that were set last; a retransmission of the connection
    /// is work that a timer only asks for (Linux: `mptcp_schedule_work`).
    #[inline]
    fn due_first(&self, now: Instant) -> (Option<usize>, bool) {
        let is_due = |s: &Subflow| (!s.closed || s.ended_by_peer != EndedByPeer::No) && s.socket.poll_timeout() <= now;
        let mut due = (0..self.subflows.len()).filter(|&i| is_due(&self.subflows[i]));
        let (first, second) = (due.next(), due.next());
        if second.is_none() {
            return (first, false);
        }
        let order = |&i: &usize| (self.subflows[i].socket.timer_order(now), self.subflows[i].timer_set, i);
        (first.into_iter().chain(second).chain(due).max_by_key(order), true)
    }

    // Outputs.

    /// The next segment to send at `now`, if any.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        Transmits::new(self, &mut Segment::default()).next(now).map(|(path, &segment)| Transmit { path, segment })
    }

    /// What is in the caller's slot is not known.
    pub(crate) fn forget_slot(&mut self) {
        self.subflows.iter_mut().for_each(|subflow| subflow.socket.invalidate_template());
    }

    /// As [`Connection::poll_transmit`], into a slot.
    #[inline(always)]
    pub(crate) fn poll_transmit_into(&mut self, now: Instant, slot: SegmentSlot<'_>) -> Option<PathId> {
        let SegmentSlot(segment) = slot;
        loop {
            let Some(i) = self.work.ready().or_else(|| if self.work.goes_on() { self.resume_writer(now) } else { None }) else {
                if !self.work.sends_first().is_empty() {
                    self.count_timers_of_first(now);
                }
                return None;
            };
            let subflow = &mut self.subflows[i];
            let uncounted = subflow.is_uncounted().then(|| subflow.socket.tx.snd_nxt());
            if subflow.socket.poll_transmit_into(self.work.context(now, i), SegmentSlot(segment)) {
                let path = subflow.path;
                self.work.touch(i);
                // The DATA_FIN stands on the last mapping alone.
                if subflow.socket.is_patched() & (self.tx.fin != Fin::Sent) {
                    self.debug_check_options(i, segment);
                } else if !subflow.socket.was_formed() {
                    self.add_options(i, segment);
                }
                if uncounted.is_some_and(|before| before != self.subflows[i].socket.tx.snd_nxt()) {
                    self.count_late();
                }
                if self.subflows[i].socket.is_quiet() {
                    self.on_subflow_quiet(i);
                }
                return Some(path);
            }
            self.on_subflow_quiet(i);
        }
    }

    /// All have sent. Where the connection pushes again, the subflow that has something to send
    /// then.
    #[inline(never)]
    fn resume_writer(&mut self, now: Instant) -> Option<usize> {
        if self.work.take_first_write(self.tx.accepted > 0) {
            self.sync_sndbuf();
        }
        if self.work.take_push() {
            self.push(now);
        }
        if self.work.ready().is_none() && self.work.take_fin() {
            self.send_waiting_fin(now);
        }
        self.work.ready()
    }

    /// A subflow has nothing more to send for now.
    #[inline]
    fn on_subflow_quiet(&mut self, i: usize) {
        self.refresh_sibling(i);
        let subflow = &mut self.subflows[i];
        // Others write into the slot before it does again.
        subflow.socket.invalidate_template();
        if (self.tx.blocked | self.tx.no_space) && subflow.has_new_sndbuf() {
            // The writer may go on.
            self.work.push_again();
            self.work.touch(i);
        }
        self.work.on_quiet(i, subflow.socket.poll_timeout());
    }

    /// When [`Connection::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Instant {
        self.work.due().min(self.connection_timeout())
    }

    /// When [`Connection::handle_timeout`] is due, if that is before `limit`.
    #[inline]
    pub fn poll_timeout_before(&mut self, limit: Instant) -> Option<Instant> {
        self.work.due_before(limit, self.connection_timeout())
    }

    /// When something is due that is no subflow's.
    #[inline]
    fn connection_timeout(&self) -> Instant {
        self.tx.rtx_due.min(self.read_due).min(self.join_retry).min(self.paths.timer_due())
    }

    /// [`Connection::poll_transmit`] may have something to send.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.work.ready().is_some() || self.work.fin_waits()
    }

    // Getters.

    /// Bytes taken into the send buffer so far: the sender's view of the goodput.
    pub fn accepted(&self) -> Bytes {
        Bytes::new(self.tx.accepted)
    }

    /// Bytes the application has read so far: the receiver's view of the goodput.
    pub fn received(&self) -> Bytes {
        Bytes::new(self.rx.read_bytes())
    }

    /// When the initial subflow's handshake was complete at this end; `None` before.
    pub fn established_at(&self) -> Option<Instant> {
        self.established_at
    }

    /// The peer's DATA_FIN has come, and everything before it was read.
    pub fn peer_finished(&self) -> bool {
        self.rx.unread() == 0
            && if self.phase == Phase::Fallback { self.subflows[INITIAL].socket.peer_finished() } else { self.rx.finished() }
    }

    /// Everything offered, and the DATA_FIN if there is one, has been acknowledged.
    pub fn everything_acked(&self) -> bool {
        self.tx.offered == 0 && !self.tx.una.before(self.tx.end) && !matches!(self.tx.fin, Fin::Queued | Fin::Sent)
    }

    /// The connection has become plain TCP.
    pub fn is_fallback(&self) -> bool {
        self.phase == Phase::Fallback
    }

    /// What was sent on a second subflow (reinjection).
    pub fn reinjected(&self) -> Bytes {
        Bytes::new(self.tx.reinjected_bytes)
    }

    /// What held up everything, up to `now`.
    pub fn limited(&self, now: Instant) -> tcp::LimitedTimes {
        self.tx.limit.limited(now)
    }

    /// Counters of the reordering between subflows.
    pub fn reordering(&self) -> ReassemblyCounters {
        self.rx.counters()
    }

    /// How what was received was out of order between the subflows, up to `now`.
    pub fn disorder(&self, now: Instant) -> crate::ReorderStats {
        self.rx.disorder(now)
    }

    /// Subflows that there have been, closed ones included: the indices of [`Connection::subflow`]
    /// are below it.
    pub fn subflow_count(&self) -> usize {
        self.subflows.len()
    }

    /// The snapshot of a subflow that probes read.
    pub fn subflow(&self, i: usize) -> tcp::Probe {
        self.subflows[i].socket.probe()
    }

    /// The path of a subflow.
    pub fn path_of(&self, i: usize) -> PathId {
        self.subflows[i].path
    }

    /// Local and remote address of a path, by index; the client's view decides.
    pub fn path(&self, path: PathId) -> (usize, usize) {
        self.paths.subflow(path).map_or((0, 0), |i| (usize::from(self.subflows[i].local), usize::from(self.subflows[i].remote)))
    }

    /// The MTU of the interface from which a path leaves this end; to be told before the path's
    /// first segment.
    pub fn set_mtu(&mut self, path: PathId, mtu: Bytes) {
        self.paths.set_mtu(path, mtu);
    }

    // Subflows.

    /// Bytes of options that full data segments leave room for: a DSS with the acknowledgements of
    /// the moment, of 4 or 8 bytes (RFC 8684 section 3.3; Linux: `mptcp_established_options_dss`).
    fn data_options(&self) -> u32 {
        let wide = self.acks_wide && self.version() == MptcpVersion::V1;
        self.settings.stack.mptcp_data_options + if wide { WIDE_ACK_BYTES } else { 0 }
    }

    fn add_socket(&mut self, path: PathId, local: u8, remote: u8, joining: bool) -> usize {
        let i = self.subflows.len();
        let [data, ack] = [self.data_options(), self.settings.stack.mptcp_ack_options].map(Bytes::from_u32);
        let config = tcp::Config {
            settings: Arc::clone(&self.settings),
            algorithm: self.algorithm,
            mtu: self.paths.mtu(path, local),
            initial_seq: Seq::new(self.random.next_u32()),
        };
        let socket = if self.is_client { Socket::client(config) } else { Socket::server(config) }.subflow(data, ack);
        // The buffer of a subflow that joins does not count before its handshake or another's
        // change asks for the sum (specs/notes/held-out).
        let counts_late = i != INITIAL && self.settings.stack.meta_send_buffer == MetaSendBuffer::Sum;
        let sndbuf = if counts_late { socket.tx.sndbuf() } else { Bytes::ZERO };
        self.subflows.push(Subflow {
            socket,
            path,
            local,
            remote,
            joining,
            authenticated: i == INITIAL,
            confirmed: false,
            backup: false,
            local_nonce: self.random.next_u32(),
            remote_nonce: 0,
            waiting_options: MpOptions::default(),
            heard_at: Instant::ZERO,
            stale_rounds: 0,
            stale_since: Instant::ZERO,
            stale: false,
            potentially_failed: false,
            timeouts: 0,
            timer_set: 0,
            closed: false,
            ended_by_peer: EndedByPeer::No,
            withdrawn: false,
            synchronized: false,
            announced: 0,
            edge: 0,
            acks_before_reader: false,
            known_mappings: KnownMappings::default(),
            penalised_at: None,
            sndbuf,
        });
        self.paths.register(path, i);
        self.work.add(self.settings.stack.newer_of_equals);
        i
    }

    /// Brings the siblings' view of a subflow up to date. Only a sender's windows depend on it.
    #[inline]
    fn refresh_sibling(&mut self, i: usize) {
        if !self.tx.is_idle() {
            self.work.set_sibling(i, || self.subflows[i].as_sibling());
        }
    }

    /// The connection may become a sender.
    fn refresh_siblings(&mut self) {
        (0..self.subflows.len()).for_each(|i| self.refresh_sibling(i));
    }

    /// Joined, open, and not given up.
    #[inline]
    fn is_usable(&self, i: usize) -> bool {
        self.subflows[i].is_usable()
    }
}
