//! The endpoints that the world knows: plain TCP over its one path.

use polypath_base::{Duration, Instant};
use polypath_transport::tcp::{Probe, Socket};
use polypath_transport::{PathId, Transmit};
use polypath_wire::{Segment, Unreachable};

/// One end of a connection, and the addresses by number between which it runs.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    addresses: (usize, usize),
}

/// Sums over the whole connection.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) fallback: bool,
    pub(crate) reinjected_bytes: u64,
    pub(crate) rwnd_limited: Duration,
    pub(crate) app_limited: Duration,
}

impl Connection {
    pub(crate) fn new(socket: Socket, addresses: (usize, usize)) -> Self {
        Self { socket, addresses }
    }

    #[inline]
    pub(crate) fn handle_segment(&mut self, now: Instant, _path: PathId, segment: &Segment) {
        self.socket.handle_segment(now, segment, None);
    }

    pub(crate) fn handle_unreachable(&mut self, now: Instant, _path: PathId, message: &Unreachable) {
        self.socket.handle_unreachable(now, message);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.socket.handle_timeout(now, None);
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.socket.poll_transmit(now, None).map(|segment| Transmit { path: PathId(0), segment })
    }

    #[inline]
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.socket.poll_timeout()
    }

    pub(crate) fn open(&mut self, now: Instant) {
        self.socket.open(now);
    }

    pub(crate) fn offer(&mut self, now: Instant, bytes: u64) {
        self.socket.offer(now, bytes);
    }

    pub(crate) fn stop(&mut self, _now: Instant) {
        self.socket.stop();
    }

    pub(crate) fn close(&mut self, _now: Instant) {
        self.socket.close();
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.socket.accepted()
    }

    pub(crate) fn received(&self) -> u64 {
        self.socket.received()
    }

    pub(crate) fn established_at(&self) -> Option<Instant> {
        self.socket.established_at()
    }

    pub(crate) fn subflow_count(&self) -> usize {
        1
    }

    pub(crate) fn subflow(&self, _index: usize) -> Probe {
        self.socket.probe()
    }

    pub(crate) fn path(&self, _path: PathId) -> (usize, usize) {
        self.addresses
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals { rwnd_limited: self.socket.probe().counters.rwnd_limited, ..Totals::default() }
    }
}
