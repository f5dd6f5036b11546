//! What a simulator or a host sees of an end of a connection, whichever transport it is.

use crate::mptcp;
use crate::tcp::{Context, LimitedTimes, Probe, RouteMtu, Socket, State};
use crate::{End, ReorderStats, SegmentSlot, SocketError, Transmit, udp};
use polypath_base::{Bytes, Instant, PathId};
use polypath_wire::{Segment, Unreachable};

/// One end of a TCP or MPTCP connection, or of a flow of UDP datagrams.
///
/// After any `handle_*` or verb, call [`Connection::poll_transmit`] until it returns `None`, then
/// [`Connection::poll_timeout`] for the time of the next [`Connection::handle_timeout`].
#[derive(Debug)]
pub enum Connection {
    /// Plain TCP (RFC 9293), on path 0.
    Tcp(Box<Socket>),
    /// Multipath TCP (RFC 8684, or version 0 of RFC 6824), on several paths.
    Mptcp(Box<mptcp::Connection>),
    /// UDP datagrams; segments, ICMP and timeouts do nothing to it.
    Udp(Box<udp::Socket>),
}

impl End for Socket {
    #[inline]
    fn handle_segment(&mut self, now: Instant, _path: PathId, segment: &Segment) {
        self.handle_segment(Context::at(now), segment);
    }

    fn handle_segment_before_another(&mut self, now: Instant, _path: PathId, segment: &Segment) {
        self.handle_segment_before_another(Context::at(now), segment);
    }

    fn handle_unreachable(&mut self, now: Instant, _path: PathId, message: &Unreachable) {
        self.handle_unreachable(now, message);
    }

    #[inline]
    fn poll_transmit_into(&mut self, now: Instant, slot: SegmentSlot<'_>) -> Option<PathId> {
        (!self.rests(now) && self.poll_transmit_into(Context::at(now), slot)).then_some(PathId(0))
    }

    #[cold]
    fn forget_slot(&mut self) {
        self.invalidate_template();
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        true
    }

    #[inline]
    fn poll_timeout_before(&mut self, limit: Instant) -> Option<Instant> {
        Some(self.poll_timeout()).filter(|&due| due < limit)
    }

    #[inline]
    fn accepted(&self) -> Bytes {
        self.tx.accepted()
    }

    #[inline]
    fn received(&self) -> Bytes {
        self.received()
    }
}

impl End for mptcp::Connection {
    #[inline]
    fn handle_segment(&mut self, now: Instant, path: PathId, segment: &Segment) {
        self.handle_segment(now, path, segment);
    }

    // Of MPTCP's reader nothing was measured: it reads after each segment.
    fn handle_segment_before_another(&mut self, now: Instant, path: PathId, segment: &Segment) {
        self.handle_segment(now, path, segment);
    }

    fn handle_unreachable(&mut self, now: Instant, path: PathId, message: &Unreachable) {
        self.handle_unreachable(now, path, message);
    }

    #[inline(always)]
    fn poll_transmit_into(&mut self, now: Instant, slot: SegmentSlot<'_>) -> Option<PathId> {
        self.poll_transmit_into(now, slot)
    }

    #[cold]
    fn forget_slot(&mut self) {
        self.forget_slot();
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        self.may_transmit()
    }

    #[inline]
    fn poll_timeout_before(&mut self, limit: Instant) -> Option<Instant> {
        self.poll_timeout_before(limit)
    }

    #[inline]
    fn accepted(&self) -> Bytes {
        self.accepted()
    }

    #[inline]
    fn received(&self) -> Bytes {
        self.received()
    }
}

/// Calls the method of whichever transport it is.
macro_rules! either {
    ($self:ident, $tcp:ident => $of_tcp:expr, $mptcp:ident => $of_mptcp:expr, $udp:ident => $of_udp:expr) => {
        match $self {
            Self::Tcp($tcp) => $of_tcp,
            Self::Mptcp($mptcp) => $of_mptcp,
            Self::Udp($udp) => $of_udp,
        }
    };
}

impl Connection {
    // Application verbs.

    /// Starts the handshake; for the client.
    pub fn open(&mut self, now: Instant) {
        either!(self, t => t.open(now), m => m.open(now), u => u.open(now));
    }

    /// The application has `amount` more to write and blocks in send; [`Bytes::MAX`] is endless.
    pub fn offer(&mut self, now: Instant, amount: Bytes) {
        either!(self, t => t.offer(now, amount), m => m.offer(now, amount), u => u.offer(amount));
    }

    /// The application offers no more; what was not accepted is withdrawn.
    pub fn stop(&mut self, now: Instant) {
        either!(self, t => t.stop(), m => m.stop(now), _u => ());
    }

    /// FIN or DATA_FIN after everything that was accepted.
    pub fn close(&mut self, now: Instant) {
        either!(self, t => t.close(), m => m.close(now), _u => ());
    }

    /// The program lets go of the connection: FIN or DATA_FIN, or with data that it has not read,
    /// or if it asks for it (SO_LINGER of zero seconds), a RST, which has MP_FASTCLOSE in MPTCP.
    pub fn release(&mut self, now: Instant, resets: bool) {
        either!(self, t => t.release(now, resets), m => m.release(now, resets), _u => ());
    }

    /// The program sends no more, or reads no more.
    pub fn shut_down(&mut self, now: Instant, reads_no_more: bool, sends_no_more: bool) {
        either!(self, t => t.shut_down(now, reads_no_more, sends_no_more), m => m.shut_down(now, reads_no_more, sends_no_more), _u => ());
    }

    /// The program ends the connection at once, and tells the peer.
    pub fn abort(&mut self, now: Instant) {
        either!(self, t => t.abort_by_program(now), m => m.fast_close(now), _u => ());
    }

    /// The application reads when it calls [`Connection::read`], instead of at once.
    pub fn read_by_call(&mut self) {
        either!(self, t => t.read_by_call(), m => m.read_by_call(), _u => ());
    }

    /// The application reads so much of what waits, at most; how much that was.
    pub fn read(&mut self, now: Instant, most: Bytes) -> Bytes {
        either!(self, t => t.read(now, most), m => m.read(now, most), _u => Bytes::ZERO)
    }

    /// What ended the connection, told once.
    pub fn take_error(&mut self) -> Option<SocketError> {
        either!(self, t => t.take_error(), m => m.take_error(), _u => None)
    }

    // Inputs. A socket of datagrams takes them itself: `udp::Socket::handle_datagram`.

    /// Takes a segment that came on `path`; of MPTCP, one on an unknown path only if it joins
    /// (RFC 8684 section 3.2).
    #[inline]
    pub fn handle_segment(&mut self, now: Instant, path: PathId, segment: &Segment) {
        either!(self, t => t.handle_segment(Context::at(now), segment), m => m.handle_segment(now, path, segment), _u => ());
    }

    /// Takes ICMP "fragmentation needed" (RFC 1191 section 4), if it quotes what is in the network
    /// (RFC 5927 section 4.1).
    pub fn handle_unreachable(&mut self, now: Instant, path: PathId, message: &Unreachable) {
        either!(self, t => t.handle_unreachable(now, message), m => m.handle_unreachable(now, path, message), _u => ());
    }

    /// Does what is due at `now`; calling early is harmless.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        either!(self, t => _ = t.handle_timeout(Context::at(now)), m => m.handle_timeout(now), _u => ());
    }

    // Outputs. A socket of datagrams has its own: `udp::Socket::poll_transmit`.

    /// The next segment to send at `now`, and its path; `None`: there is none, until the next input
    /// or verb.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        match self {
            Self::Tcp(t) => t.poll_transmit(Context::at(now)).map(|segment| Transmit { path: PathId(0), segment }),
            Self::Mptcp(m) => m.poll_transmit(now),
            Self::Udp(_) => None,
        }
    }

    /// False if [`Connection::poll_transmit`] would find nothing to send.
    pub fn may_transmit(&self) -> bool {
        either!(self, _t => true, m => m.may_transmit(), u => u.may_transmit())
    }

    /// When [`Connection::handle_timeout`] is due; [`Instant::NEVER`]: no timer is armed.
    pub fn poll_timeout(&self) -> Instant {
        either!(self, t => t.poll_timeout(), m => m.poll_timeout(), _u => Instant::NEVER)
    }

    // Getters.

    /// Bytes taken into the send buffer so far: the sender's view of the goodput.
    pub fn accepted(&self) -> Bytes {
        either!(self, t => t.accepted(), m => m.accepted(), u => u.accepted())
    }

    /// Bytes the application has read so far: the receiver's view of the goodput.
    pub fn received(&self) -> Bytes {
        either!(self, t => t.received(), m => m.received(), u => u.received())
    }

    /// When this end's handshake was complete (of UDP: opened, or the first datagram came); `None`
    /// before.
    pub fn established_at(&self) -> Option<Instant> {
        either!(self, t => t.established_at(), m => m.established_at(), u => u.established_at())
    }

    /// The peer has ended its data, and all of it was read.
    pub fn peer_finished(&self) -> bool {
        either!(self, t => t.peer_finished(), m => m.peer_finished(), _u => false)
    }

    /// Bytes that wait for the application to read them.
    pub fn unread(&self) -> Bytes {
        either!(self, t => t.unread(), m => m.unread(), _u => Bytes::ZERO)
    }

    /// What has ended the connection and was not told yet.
    pub fn error(&self) -> Option<SocketError> {
        either!(self, t => t.error(), m => m.error(), _u => None)
    }

    /// The send buffer has room enough that a program is told (Linux: `sk_stream_is_writeable`).
    pub fn takes_writes(&self) -> bool {
        either!(self, t => t.takes_writes(), m => m.takes_writes(), _u => true)
    }

    /// The program asks what its socket is ready for.
    pub fn poll_readiness(&mut self) {
        if let Self::Mptcp(connection) = self {
            connection.poll_readiness();
        }
    }

    /// Everything offered has been acknowledged.
    pub fn everything_acked(&self) -> bool {
        either!(self, t => t.tx.everything_acked(), m => m.everything_acked(), u => !u.may_transmit())
    }

    /// The connection is over, by both ends' FINs or at once. One of MPTCP lives on without
    /// subflows (RFC 8684 section 3.6).
    pub fn has_ended(&self) -> bool {
        either!(self, t => t.state() == State::Closed, m => m.has_ended(), _u => false)
    }

    /// Nothing answers on a path any more: its segments are for no connection.
    pub fn is_over(&self, path: PathId) -> bool {
        either!(self, t => t.state() == State::Closed, m => m.is_over(path), _u => false)
    }

    /// An MPTCP connection that the peer made plain TCP.
    pub fn is_fallback(&self) -> bool {
        either!(self, _t => false, m => m.is_fallback(), _u => false)
    }

    /// What MPTCP sent on a second subflow (reinjection).
    pub fn reinjected(&self) -> Bytes {
        either!(self, _t => Bytes::ZERO, m => m.reinjected(), _u => Bytes::ZERO)
    }

    /// What held up the whole connection, up to `now`.
    pub fn limited(&self, now: Instant) -> LimitedTimes {
        either!(self, t => t.limited(now), m => m.limited(now), _u => LimitedTimes::default())
    }

    /// How what this end received was out of order, up to `now`; datagrams have no order to keep.
    pub fn disorder(&self, now: Instant) -> ReorderStats {
        either!(self, t => t.disorder(now), m => m.disorder(now), _u => ReorderStats::default())
    }

    /// Subflows that there have been, closed ones included; 1 of plain TCP, 0 of UDP.
    pub fn subflow_count(&self) -> usize {
        either!(self, _t => 1, m => m.subflow_count(), _u => 0)
    }

    /// The endpoint itself if it is one of datagrams.
    pub fn as_udp(&self) -> Option<&udp::Socket> {
        if let Self::Udp(socket) = self { Some(socket) } else { None }
    }

    /// The snapshot of a subflow; plain TCP is its own only one, and datagrams have none.
    pub fn subflow(&self, i: usize) -> Probe {
        either!(self, t => t.probe(), m => m.subflow(i), _u => Probe::default())
    }

    /// The path that a subflow takes.
    pub fn path_of(&self, i: usize) -> PathId {
        either!(self, _t => PathId(0), m => m.path_of(i), _u => PathId(0))
    }

    /// Own and peer address of a path, by index into the hosts' addresses. Only the client, who
    /// makes paths, knows it for sure. Valid from the path's first segment on.
    pub fn path(&self, path: PathId) -> (usize, usize) {
        either!(self, _t => (0, 0), m => m.path(path), _u => (0, 0))
    }

    /// What the host has learnt of the route of a path, if anything.
    pub fn route_mtu(&self, path: PathId) -> Option<RouteMtu> {
        either!(self, t => t.route_mtu(), m => m.route_mtu(path), _u => None)
    }

    /// The host has learnt something of the route of a path by another connection.
    pub fn set_route_mtu(&mut self, now: Instant, path: PathId, learnt: RouteMtu) {
        either!(self, t => t.set_route_mtu(now, learnt), m => m.set_route_mtu(now, path, learnt), _u => ());
    }

    /// The MTU of the interface from which a path leaves this end, told before the path's first
    /// segment. Plain TCP has it from its configuration.
    pub fn set_mtu(&mut self, path: PathId, mtu: Bytes) {
        either!(self, _t => (), m => m.set_mtu(path, mtu), _u => ());
    }
}
