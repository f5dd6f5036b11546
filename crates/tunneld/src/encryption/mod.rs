//! Encryption of the tunnel, without sockets or clocks: sessions are agreed on, used for some minutes and replaced.
//!
//! The handshake is Noise's IKpsk2 with X25519, ChaCha20-Poly1305 and BLAKE2s (the Noise Protocol Framework, revision 34, section 7.5), the one
//! of WireGuard; the crate snow does it. Each end knows the other's public key. Either may begin; what is encrypted of a datagram is the
//! whole plain one. Datagrams are numbered on each path of its own, so that paths of unequal delay do not make each other's look like replays.
//!
//! | datagram | bytes |
//! |---|---|
//! | initiation | 0x41 0 0 0, sender's name of the session (4), Noise's first message with the time of day as payload (104), stamp (16) |
//! | response | 0x42 0 0 0, sender's name (4), receiver's name (4), Noise's second message (48), stamp (16) |
//! | data | 0x44 0 0 0, receiver's name (4), path and number (8), the plain datagram encrypted, tag (16) |

mod keys;
mod session;
mod window;

pub use keys::{Key, Keys};
pub use session::{OVERHEAD, Session};

use crate::encapsulation::Refusal;
use keys::{STAMP, stamp};
use polypath_base::{Duration, Instant, PathId, counters};
use session::{DATA, HEADER, Held};
use snow::{Builder, HandshakeState};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

const NOISE: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"polypath tunnel 1";
/// Where the preshared key goes in.
const PRESHARED_AT: u8 = 2;
const INITIATION: u8 = 0x41;
const RESPONSE: u8 = 0x42;
const INITIATION_LEN: usize = 8 + 104 + STAMP;
const RESPONSE_LEN: usize = 12 + 48 + STAMP;

/// A session is replaced by who began it after this time, by the other end if that has not happened somewhat later, and used by nobody
/// after the third.
const REPLACED: Duration = Duration::from_secs(120);
const REPLACED_BY_OTHER: Duration = Duration::from_secs(150);
const ENDED: Duration = Duration::from_secs(180);
/// An initiation that nobody answers is followed by a new one.
const RETRY: Duration = Duration::from_secs(2);
/// Handshakes that are looked at in a second: each costs some tenths of a millisecond. Whoever is where the other end was last has his own.
const HANDSHAKES: u64 = 20;

/// Where a message of a handshake goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// To the other end on all paths: the first that comes counts.
    All,
    /// Back to where it came from.
    Back(PathId, SocketAddr),
}

/// What a datagram was.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A plain datagram is to be read; whether it is the newest of its path, so that its sender's address is the peer's, and whether the
    /// session has changed.
    Data { newest: bool, renewed: bool },
    /// A message of a handshake; whether the session has changed.
    Handshake { renewed: bool },
}

counters! {
    /// What encryption did.
    pub struct EncryptionCounters {
        initiations_sent: Times, "handshakes that this end began";
        initiations_received: Times, "handshakes that the other end began";
        sessions: Times, "sessions that came into use";
    }
}

/// How many handshakes may be looked at.
#[derive(Copy, Clone, Debug)]
struct Budget {
    left: u64,
    since: Instant,
}

impl Budget {
    fn take(&mut self, now: Instant) -> bool {
        let more = now.since(self.since).as_nanos() / (1_000_000_000 / HANDSHAKES);
        if more > 0 {
            self.left = (self.left + more).min(HANDSHAKES);
            self.since = now;
        }
        let some = self.left > 0;
        self.left -= u64::from(some);
        some
    }
}

/// A handshake that we began.
struct Pending {
    handshake: HandshakeState,
    local: u32,
}

/// The other end of a tunnel, as far as encryption goes.
///
/// After [`Peer::handle`] and [`Peer::handle_timeout`], ask [`Peer::poll_transmit`] until it returns `None`, then [`Peer::poll_timeout`];
/// [`Peer::session`] may have changed.
pub struct Peer {
    keys: Keys,
    public: Key,
    paths: usize,
    current: Option<Held>,
    /// What is still on its way in it can be read.
    previous: Option<Held>,
    /// The other end began it; it is used as soon as that has shown that it can.
    next: Option<Held>,
    pending: Option<Pending>,
    /// When we may begin a handshake, if one is wanted.
    may_begin: Instant,
    /// The greatest time in an initiation; one that is not greater is a replay.
    latest: u64,
    known: Budget,
    unknown: Budget,
    name: u32,
    out: VecDeque<(To, Vec<u8>)>,
    counters: EncryptionCounters,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("current", &self.current).finish_non_exhaustive()
    }
}

impl Peer {
    /// A tunnel of so many paths. The first handshake is due at once.
    pub fn new(keys: Keys, paths: usize) -> Self {
        let budget = Budget { left: HANDSHAKES, since: Instant::ZERO };
        let (public, out) = (keys.private.public(), VecDeque::new());
        Self {
            keys,
            public,
            paths: paths.min(session::PATHS),
            current: None,
            previous: None,
            next: None,
            pending: None,
            may_begin: Instant::ZERO,
            latest: 0,
            known: budget,
            unknown: budget,
            name: 0,
            out,
            counters: EncryptionCounters::default(),
        }
    }

    /// What to encrypt with; none before the first handshake is done.
    pub fn session(&self) -> Option<&Arc<Session>> {
        self.current.as_ref().map(|held| &held.session)
    }

    pub fn counters(&self) -> EncryptionCounters {
        self.counters
    }

    /// A message of a handshake, and where it goes.
    pub fn poll_transmit(&mut self) -> Option<(To, Vec<u8>)> {
        self.out.pop_front()
    }

    /// When [`Peer::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        let ends = [&self.current, &self.previous, &self.next].into_iter().flatten().map(|held| held.session.born + ENDED);
        ends.chain([self.wanted_at().max(self.may_begin)]).min().unwrap_or(Instant::NEVER)
    }

    /// When the session is to be replaced.
    fn wanted_at(&self) -> Instant {
        self.session().map_or(Instant::ZERO, |session| session.born + if session.initiated { REPLACED } else { REPLACED_BY_OTHER })
    }

    /// Ends sessions and begins handshakes that are due. `wall_ns`: the time of day, which does not go back where this end starts again.
    pub fn handle_timeout(&mut self, now: Instant, wall_ns: u64) {
        for held in [&mut self.current, &mut self.previous, &mut self.next] {
            if held.as_ref().is_some_and(|held| now.since(held.session.born) >= ENDED) {
                *held = None;
            }
        }
        if now >= self.wanted_at() && now >= self.may_begin {
            self.may_begin = now + RETRY;
            self.begin(wall_ns);
        }
    }

    fn begin(&mut self, wall_ns: u64) {
        let local = self.new_name();
        let Ok(mut handshake) = self.builder().and_then(|builder| {
            builder.remote_public_key(self.keys.peer.bytes())?.psk(PRESHARED_AT, self.keys.preshared.bytes())?.build_initiator()
        }) else {
            // The kernel has no random numbers yet: tried again.
            return;
        };
        let mut message = vec![0; INITIATION_LEN];
        message[0] = INITIATION;
        message[4..8].copy_from_slice(&local.to_be_bytes());
        if handshake.write_message(&wall_ns.to_be_bytes(), &mut message[8..INITIATION_LEN - STAMP]).is_err() {
            return;
        }
        self.stamp(&mut message);
        self.counters.initiations_sent += 1;
        self.pending = Some(Pending { handshake, local });
        self.out.push_back((To::All, message));
    }

    fn builder(&self) -> Result<Builder<'_>, snow::Error> {
        Builder::new(NOISE.parse()?).prologue(PROLOGUE)?.local_private_key(self.keys.private.bytes())
    }

    fn new_name(&mut self) -> u32 {
        self.name = self.name.wrapping_add(1);
        self.name
    }

    fn stamp(&self, message: &mut [u8]) {
        let (body, place) = message.split_at_mut(message.len() - STAMP);
        place.copy_from_slice(&stamp(&self.keys.peer, body));
    }

    /// A datagram has come on a path; `known`: from where the other end was last. What it holds is written over `plain`, if it is data.
    pub fn handle(
        &mut self,
        now: Instant,
        path: PathId,
        (from, known): (SocketAddr, bool),
        datagram: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Opened, Refusal> {
        match datagram.first() {
            Some(&DATA) if datagram.len() >= OVERHEAD => self.open(datagram, plain),
            Some(&INITIATION) if datagram.len() == INITIATION_LEN => {
                self.check(now, known, datagram)?;
                self.answer(now, (path, from), datagram)?;
                Ok(Opened::Handshake { renewed: false })
            }
            Some(&RESPONSE) if datagram.len() == RESPONSE_LEN => {
                self.check(now, known, datagram)?;
                self.finish(now, datagram)?;
                Ok(Opened::Handshake { renewed: true })
            }
            _ => Err(Refusal::Malformed),
        }
    }

    /// What is cheap to find out about a message of a handshake.
    fn check(&mut self, now: Instant, known: bool, message: &[u8]) -> Result<(), Refusal> {
        let (body, given) = message.split_at(message.len() - STAMP);
        // Whoever does not know our public key learns nothing from how long this takes that he could not compute.
        if stamp(&self.public, body) != given {
            return Err(Refusal::NotAuthentic);
        }
        let budget = if known { &mut self.known } else { &mut self.unknown };
        if budget.take(now) { Ok(()) } else { Err(Refusal::Busy) }
    }

    fn answer(&mut self, now: Instant, (path, from): (PathId, SocketAddr), datagram: &[u8]) -> Result<(), Refusal> {
        let bad = |_| Refusal::NotAuthentic;
        let mut handshake =
            self.builder().and_then(|builder| builder.psk(PRESHARED_AT, self.keys.preshared.bytes())?.build_responder()).map_err(bad)?;
        let mut time = [0; INITIATION_LEN];
        let length = handshake.read_message(&datagram[8..INITIATION_LEN - STAMP], &mut time).map_err(bad)?;
        if handshake.get_remote_static() != Some(&self.keys.peer.bytes()[..]) {
            return Err(Refusal::NotAuthentic);
        }
        let time = time[..length].try_into().map(u64::from_be_bytes).map_err(|_| Refusal::Malformed)?;
        // The same message comes on every path, and anybody may send it again.
        if time <= self.latest {
            return Err(Refusal::Replayed);
        }
        let local = self.new_name();
        let mut message = vec![0; RESPONSE_LEN];
        message[0] = RESPONSE;
        message[4..8].copy_from_slice(&local.to_be_bytes());
        message[8..12].copy_from_slice(&datagram[4..8]);
        handshake.write_message(&[], &mut message[12..RESPONSE_LEN - STAMP]).map_err(bad)?;
        self.stamp(&mut message);
        let cipher = handshake.into_stateless_transport_mode().map_err(bad)?;
        self.latest = time;
        self.counters.initiations_received += 1;
        let remote = u32::from_be_bytes([datagram[4], datagram[5], datagram[6], datagram[7]]);
        self.next = Some(Held::new(Arc::new(Session::new(cipher, local, remote, self.paths, now))));
        self.out.push_back((To::Back(path, from), message));
        Ok(())
    }

    fn finish(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Refusal> {
        let name = |at: usize| u32::from_be_bytes([datagram[at], datagram[at + 1], datagram[at + 2], datagram[at + 3]]);
        let mut pending = self.pending.take_if(|pending| pending.local == name(8)).ok_or(Refusal::NoSession)?;
        let read = pending.handshake.read_message(&datagram[12..RESPONSE_LEN - STAMP], &mut [0; RESPONSE_LEN]);
        if read.is_err() {
            self.pending = Some(pending);
            return Err(Refusal::NotAuthentic);
        }
        let cipher = pending.handshake.into_stateless_transport_mode().map_err(|_| Refusal::NotAuthentic)?;
        self.use_session(Held::new(Arc::new(Session::new(cipher, pending.local, name(4), self.paths, now))));
        Ok(())
    }

    fn use_session(&mut self, held: Held) {
        self.counters.sessions += 1;
        self.previous = self.current.replace(held);
    }

    fn open(&mut self, datagram: &[u8], plain: &mut Vec<u8>) -> Result<Opened, Refusal> {
        let (header, sealed) = datagram.split_at(HEADER);
        let name = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let number = u64::from_be_bytes([header[8], header[9], header[10], header[11], header[12], header[13], header[14], header[15]]);
        let own = |held: &&mut Option<Held>| held.as_ref().is_some_and(|held| held.session.local == name);
        let found = [&mut self.current, &mut self.previous, &mut self.next].into_iter().find(own);
        let held = found.and_then(Option::as_mut).ok_or(Refusal::NoSession)?;
        let newest = held.open(number, sealed, plain)?;
        let confirmed = self.next.take_if(|next| next.session.local == name);
        let renewed = confirmed.is_some();
        if let Some(next) = confirmed {
            self.use_session(next);
        }
        Ok(Opened::Data { newest, renewed })
    }
}

#[cfg(test)]
mod tests;
