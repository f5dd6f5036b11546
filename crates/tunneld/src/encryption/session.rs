//! A session: what both ends encrypt with for some minutes.

use super::window::Window;
use crate::encapsulation::Refusal;
use polypath_base::{Duration, Instant, PathId};
use snow::StatelessTransportState;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first byte of an encrypted datagram. The bit 0x40 is zero in every GRE header that we know
/// (RFC 2784 section 2.1).
pub(super) const DATA: u8 = 0x44;
/// Kind, three bytes of zero, the receiver's name of the session, the number.
pub(super) const HEADER: usize = 16;
const TAG: usize = 16;
/// Bytes that encryption adds to a datagram.
pub const OVERHEAD: usize = HEADER + TAG;
/// Bits of a number that are counted on each path; above them stands the path. What 2^56 datagrams
/// are is never sent within a session's time.
const COUNTED: u32 = 56;
/// Paths that numbers have room for.
pub(super) const PATHS: usize = 256;

/// The half that both threads use.
pub struct Session {
    cipher: StatelessTransportState,
    /// Our name of the session, and the other end's.
    pub(super) local: u32,
    remote: u32,
    /// By path the number of the next datagram.
    next: Vec<AtomicU64>,
    pub(super) born: Instant,
    /// We began the handshake.
    pub(super) initiated: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("local", &self.local).field("born", &self.born).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(cipher: StatelessTransportState, local: u32, remote: u32, paths: usize, born: Instant) -> Self {
        let initiated = cipher.is_initiator();
        Self { cipher, local, remote, next: (0..paths).map(|_| AtomicU64::new(0)).collect(), born, initiated }
    }

    /// How long ago both ends agreed on it.
    pub fn age(&self, now: Instant) -> Duration {
        now.since(self.born)
    }

    /// Encrypts a datagram for a path, at the end of `into`; [`OVERHEAD`] bytes longer. Whether it
    /// could: a plain one of more than 65,519 bytes is too long.
    pub fn seal(&self, path: PathId, plain: &[u8], into: &mut Vec<u8>) -> bool {
        let Some(next) = self.next.get(usize::from(path.0)) else { return false };
        let number = u64::from(path.0) << COUNTED | next.fetch_add(1, Ordering::Relaxed);
        let begin = into.len();
        into.extend_from_slice(&[DATA, 0, 0, 0]);
        into.extend_from_slice(&self.remote.to_be_bytes());
        into.extend_from_slice(&number.to_be_bytes());
        into.resize(begin + HEADER + plain.len() + TAG, 0);
        let sealed = self.cipher.write_message(number, plain, &mut into[begin + HEADER..]).is_ok();
        if !sealed {
            into.truncate(begin);
        }
        sealed
    }
}

/// A session with what has come in it; the receiving thread's.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) session: std::sync::Arc<Session>,
    /// By the sender's path.
    windows: Vec<Window>,
}

impl Held {
    pub(super) fn new(session: std::sync::Arc<Session>) -> Self {
        Self { session, windows: Vec::new() }
    }

    /// Decrypts what stands behind the header of a datagram with this number, which came on this
    /// path; whether it is the newest of its path.
    pub(super) fn open(&mut self, came_on: PathId, number: u64, sealed: &[u8], plain: &mut Vec<u8>) -> Result<bool, Refusal> {
        let (path, counted) = ((number >> COUNTED) as usize, number & ((1 << COUNTED) - 1));
        if self.windows.get(path).is_some_and(|window| !window.is_new(counted)) {
            return Err(Refusal::Replayed);
        }
        plain.resize(sealed.len(), 0);
        let length = self.session.cipher.read_message(number, sealed, plain).map_err(|_| Refusal::NotAuthentic)?;
        plain.truncate(length);
        // Who is on one path must not speak for another one: neither where the other end is there,
        // nor that the path is alive.
        if path != usize::from(came_on.0) {
            return Err(Refusal::WrongPath);
        }
        while self.windows.len() <= path {
            self.windows.push(Window::default());
        }
        Ok(self.windows[path].mark(counted))
    }
}
