//! Encryption of the tunnel, without sockets or clocks: sessions are agreed on, used for some
//! minutes and replaced.
//!
//! The handshake is Noise's IKpsk2 with X25519, ChaCha20-Poly1305 and BLAKE2s (the Noise Protocol
//! Framework, revision 34, section 7.5), the one of WireGuard; the crate snow does it. Each end
//! knows the other's public key. Either may begin; what is encrypted of a datagram is the whole
//! plain one. Datagrams are numbered on each path of its own, so that paths of unequal delay do not
//! make each other's look like replays.
//!
//! | datagram | bytes |
//! |---|---|
//! | initiation | 0x41, path, 0 0, sender's name of the session (4), Noise's first message with the time of day as payload (104), stamp (16), proof (16) |
//! | response | 0x42 0 0 0, sender's name (4), receiver's name (4), Noise's second message (48), stamp (16) |
//! | cookie | 0x43 0 0 0, receiver's name (4), salt (16), cookie encrypted (16), tag (16) |
//! | data | 0x44 0 0 0, receiver's name (4), path and number (8), the plain datagram encrypted, tag (16) |
//!
//! Whoever knows an end's public key can make initiations that cost it some tenths of a millisecond
//! each. So it looks at twenty a second from the other end's address, and at twenty from elsewhere.
//! Beyond that it answers with a cookie, which it computes from the sender's address and forgets.
//! An initiation with a proof of that cookie comes from where it says, so it is looked at all the
//! same, a few a second of each address ([`cookie`]).

mod cookie;
mod keys;
mod primitives;
mod session;
mod window;

pub use keys::{Key, Keys};
pub use session::{OVERHEAD, Session};

use crate::encapsulation::Refusal;
use cookie::{COOKIE, Jar, Made};
use keys::{STAMP, mac, stamp};
use polypath_base::{Duration, Instant, PathId, counters};
use primitives::Primitives;
use session::{DATA, HEADER, Held};
use snow::{Builder, HandshakeState};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

const NOISE: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"polypath tunnel 1";
/// Where the preshared key goes in.
const PRESHARED_AT: u8 = 2;
const INITIATION: u8 = 0x41;
const RESPONSE: u8 = 0x42;
const INITIATION_LEN: usize = STAMPED + STAMP;
/// Without the proof.
const STAMPED: usize = 8 + 104 + STAMP;
const RESPONSE_LEN: usize = 12 + 48 + STAMP;

/// A session is replaced by who began it after this time, by the other end if that has not happened
/// somewhat later, and unused after the third.
const REPLACED: Duration = Duration::from_secs(120);
const REPLACED_BY_OTHER: Duration = Duration::from_secs(150);
const ENDED: Duration = Duration::from_secs(180);
/// Sessions that are still read after they were replaced. Where both ends begin at one time each
/// session is replaced twice, and an end may send in the one while the other end sends in the
/// other: one that is in use is the third of these a moment later.
const PREVIOUS: usize = 3;
/// An initiation that nobody answers is followed by a new one, after up to `JITTER_MS` more, so
/// that two ends do not go on at the same moments.
const RETRY: Duration = Duration::from_secs(2);
const JITTER_MS: u64 = 333;
/// After this time without an answer this end is silent until the host has something to send
/// (WireGuard's REKEY_ATTEMPT_TIME).
const TRIED: Duration = Duration::from_secs(90);
/// Handshakes that are looked at in a second: each costs some tenths of a millisecond. Whoever is
/// where the other end was last has his own.
const HANDSHAKES: u64 = 20;
/// The same with a proof: of one address, and of all. Addresses share so many places.
const EACH: u64 = 5;
const ALL_PROVEN: u64 = 100;
const ADDRESSES: usize = 256;
/// Cookies in a second for addresses that are not the other end's: each costs some microseconds.
const COOKIES: u64 = 1000;

/// Where a message of a handshake goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// To the other end on a path; the same goes out on all of them, and the first that comes
    /// counts.
    Path(PathId),
    /// Back to where it came from.
    Back(PathId, SocketAddr),
}

/// What a datagram was.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A plain datagram is to be read; whether it is the newest of its path, so that its sender's
    /// address is the peer's, and whether the session has changed.
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
        cookies_sent: Times, "handshakes that were answered with a cookie, because there were too many";
        cookies_received: Times, "cookies that came from the other end";
    }
}

/// How many handshakes may be looked at: so many a second.
#[derive(Copy, Clone, Debug)]
struct Budget {
    most: u64,
    left: u64,
    since: Instant,
}

impl Budget {
    const fn new(most: u64) -> Self {
        Self { most, left: most, since: Instant::ZERO }
    }

    fn take(&mut self, now: Instant) -> bool {
        let more = now.since(self.since).as_nanos() / (1_000_000_000 / self.most);
        if more > 0 {
            self.left = (self.left + more).min(self.most);
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
    /// Of its initiation, by path: a cookie answers that of one path, so who is on another one
    /// cannot answer it.
    stamps: Vec<[u8; STAMP]>,
}

/// The other end of a tunnel, as far as encryption goes.
///
/// After [`Peer::handle`] and [`Peer::handle_timeout`], ask [`Peer::poll_transmit`] until it
/// returns `None`, then [`Peer::poll_timeout`]; [`Peer::session`] may have changed.
pub struct Peer {
    keys: Keys,
    public: Key,
    paths: usize,
    current: Option<Held>,
    /// What is still on its way in them can be read; the latest last.
    previous: VecDeque<Held>,
    /// The other end began it; it is used as soon as that has shown that it can.
    next: Option<Held>,
    pending: Option<Pending>,
    /// When we may begin a handshake, if one is wanted.
    may_begin: Instant,
    /// When the host had something to send last and there was no session, or when there was one
    /// last that was to be replaced.
    asked: Instant,
    /// The greatest time in an initiation; one that is not greater is a replay.
    latest: u64,
    /// Handshakes without a proof, from where the other end was last and from elsewhere.
    known: Budget,
    unknown: Budget,
    /// Those with one: from where the other end was last, by address, and from all other addresses
    /// together.
    known_proven: Budget,
    proven: Vec<Budget>,
    all_proven: Budget,
    cookies: Budget,
    made: Made,
    jar: Jar,
    /// Nobody else's, and another one after each start.
    secret: Key,
    name: u64,
    out: VecDeque<(To, Vec<u8>)>,
    counters: EncryptionCounters,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("current", &self.current).finish_non_exhaustive()
    }
}

impl Peer {
    /// A tunnel of so many paths. The first handshake is due at once: the clock is 0 now. `secret`:
    /// [`Key::random`], another one for each.
    pub fn new(keys: Keys, paths: usize, secret: Key) -> Self {
        let budget = Budget::new(HANDSHAKES);
        let (public, out) = (keys.private.public(), VecDeque::new());
        Self {
            made: Made::new(secret.clone()),
            jar: Jar::new(paths),
            secret,
            keys,
            public,
            paths: paths.min(session::PATHS),
            current: None,
            previous: VecDeque::with_capacity(PREVIOUS + 1),
            next: None,
            pending: None,
            may_begin: Instant::ZERO,
            asked: Instant::ZERO,
            latest: 0,
            known: budget,
            unknown: budget,
            known_proven: budget,
            proven: vec![Budget::new(EACH); ADDRESSES],
            all_proven: Budget::new(ALL_PROVEN),
            cookies: Budget::new(COOKIES),
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
        let held = [&self.current, &self.next].into_iter().flatten().chain(&self.previous);
        let ends = held.map(|held| held.session.born + ENDED);
        ends.chain([self.begins_at()]).min().unwrap_or(Instant::NEVER)
    }

    /// The host has something to send, and there is no session.
    pub fn handle_data(&mut self, now: Instant) {
        self.asked = now;
    }

    /// When the next handshake begins; never, if the peer is silent and nothing is to be sent.
    fn begins_at(&self) -> Instant {
        let (wanted, at) = (self.wanted_at(), self.wanted_at().max(self.may_begin));
        if at.since(wanted.max(self.asked)) < TRIED { at } else { Instant::NEVER }
    }

    /// When the session is to be replaced.
    fn wanted_at(&self) -> Instant {
        self.session().map_or(Instant::ZERO, |session| session.born + if session.initiated { REPLACED } else { REPLACED_BY_OTHER })
    }

    /// Ends sessions and begins handshakes that are due. `wall_ns`: the time of day, which does not
    /// go back where this end starts again.
    pub fn handle_timeout(&mut self, now: Instant, wall_ns: u64) {
        if self.session().is_some_and(|session| now.since(session.born) >= ENDED) {
            // It has been tried for some time already.
            self.asked = self.asked.max(self.wanted_at());
        }
        let is_over = |held: &Held| now.since(held.session.born) >= ENDED;
        for held in [&mut self.current, &mut self.next] {
            held.take_if(|held| is_over(held));
        }
        self.previous.retain(|held| !is_over(held));
        if now >= self.begins_at() {
            self.begin(now, wall_ns);
            let jitter = u64::from(self.drawn(b"jitter")) % (JITTER_MS + 1);
            self.may_begin = now + RETRY + Duration::from_millis(jitter);
        }
    }

    fn begin(&mut self, now: Instant, wall_ns: u64) {
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
        if handshake.write_message(&wall_ns.to_be_bytes(), &mut message[8..STAMPED - STAMP]).is_err() {
            return;
        }
        self.counters.initiations_sent += 1;
        let mut stamps = vec![[0; STAMP]; self.paths];
        for (path, stamp) in stamps.iter_mut().enumerate().map(|(path, stamp)| (PathId(path as u8), stamp)) {
            let mut message = message.clone();
            message[1] = path.0;
            self.stamp(&mut message[..STAMPED]);
            stamp.copy_from_slice(&message[STAMPED - STAMP..STAMPED]);
            // Each path has an address of its own, and so a cookie of its own.
            if let Some(cookie) = self.jar.cookie(now, path) {
                let proof = mac(cookie, &message[..STAMPED]);
                message[STAMPED..].copy_from_slice(&proof);
            }
            self.out.push_back((To::Path(path), message));
        }
        self.pending = Some(Pending { handshake, local, stamps });
    }

    fn builder(&self) -> Result<Builder<'_>, snow::Error> {
        Builder::with_resolver(NOISE.parse()?, Box::new(Primitives)).prologue(PROLOGUE)?.local_private_key(self.keys.private.bytes())
    }

    fn new_name(&mut self) -> u32 {
        self.name = self.name.wrapping_add(1);
        // One that nobody can guess, so that a forged response is refused before it costs anything,
        // nor knows from an earlier start, so that it says nothing of who this is.
        self.drawn(b"name")
    }

    /// A number for the latest name that nobody can guess.
    fn drawn(&self, of: &[u8]) -> u32 {
        let name = mac(self.secret.bytes(), &[of, &self.name.to_be_bytes()].concat());
        u32::from_be_bytes([name[0], name[1], name[2], name[3]])
    }

    fn stamp(&self, message: &mut [u8]) {
        let (body, place) = message.split_at_mut(message.len() - STAMP);
        place.copy_from_slice(&stamp(&self.keys.peer, body));
    }

    /// A datagram has come on a path; `known`: from where the other end was last. What it holds is
    /// written over `plain`, if it is data.
    pub fn handle(
        &mut self,
        now: Instant,
        path: PathId,
        (from, known): (SocketAddr, bool),
        datagram: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Opened, Refusal> {
        match datagram.first_chunk() {
            // Nothing signs the three bytes behind the kind of data and of a cookie. An
            // initiation's have its path, and are signed.
            Some(&[DATA, 0, 0, 0]) if datagram.len() >= OVERHEAD => self.open(path, datagram, plain),
            Some(&[INITIATION, ..]) if datagram.len() == INITIATION_LEN => {
                self.check_stamp(&datagram[..STAMPED])?;
                if !self.affords(now, from, known, datagram) {
                    self.send_cookie(now, (path, from), known, datagram);
                    return Err(Refusal::Busy);
                }
                self.answer(now, (path, from), datagram)?;
                Ok(Opened::Handshake { renewed: false })
            }
            Some(&[RESPONSE, ..]) if datagram.len() == RESPONSE_LEN => {
                self.check_stamp(datagram)?;
                let awaited = u32::from_be_bytes([datagram[8], datagram[9], datagram[10], datagram[11]]);
                if self.pending.as_ref().is_none_or(|pending| pending.local != awaited) {
                    return Err(Refusal::NoSession);
                }
                let budget = if known { &mut self.known_proven } else { &mut self.all_proven };
                if !budget.take(now) {
                    return Err(Refusal::Busy);
                }
                self.finish(now, datagram)?;
                Ok(Opened::Handshake { renewed: true })
            }
            Some(&[COOKIE, 0, 0, 0]) if datagram.len() == cookie::LEN => {
                let pending = self.pending.as_ref().ok_or(Refusal::NoSession)?;
                if datagram[4..8] != pending.local.to_be_bytes() {
                    return Err(Refusal::NoSession);
                }
                let stamp = pending.stamps.get(usize::from(path.0)).ok_or(Refusal::NoSession)?;
                if !self.jar.take(now, path, &self.keys.peer, stamp, datagram) {
                    return Err(Refusal::NotAuthentic);
                }
                self.counters.cookies_received += 1;
                Ok(Opened::Handshake { renewed: false })
            }
            _ => Err(Refusal::Malformed),
        }
    }

    /// What is cheap to find out about a message of a handshake.
    fn check_stamp(&self, message: &[u8]) -> Result<(), Refusal> {
        let (body, given) = message.split_at(message.len() - STAMP);
        // How long this takes says nothing of our public key to who does not know it.
        if stamp(&self.public, body).ct_eq(given).into() { Ok(()) } else { Err(Refusal::NotAuthentic) }
    }

    /// Whether an initiation may be looked at.
    fn affords(&mut self, now: Instant, from: SocketAddr, known: bool, initiation: &[u8]) -> bool {
        let (stamped, proof) = initiation.split_at(STAMPED);
        // How long this takes says nothing of a cookie to who has none.
        let proves = |cookie: &[u8; STAMP]| bool::from(mac(cookie, stamped).ct_eq(proof));
        let proven = proof != [0; STAMP] && self.made.cookies(now, from).iter().any(proves);
        match (proven, known) {
            (true, true) => self.known_proven.take(now),
            (true, false) => {
                // An address has a place by a number that its owner cannot choose.
                let place = usize::from(self.made.place(from)) % ADDRESSES;
                self.proven[place].take(now) && self.all_proven.take(now)
            }
            (false, true) => self.known.take(now),
            (false, false) => self.unknown.take(now),
        }
    }

    fn send_cookie(&mut self, now: Instant, (path, from): (PathId, SocketAddr), known: bool, initiation: &[u8]) {
        // What is sent back to one address is never more than has come from it.
        if !known && !self.cookies.take(now) {
            return;
        }
        if let Some(message) = self.made.message(now, from, &self.public, initiation) {
            self.counters.cookies_sent += 1;
            self.out.push_back((To::Back(path, from), message));
        }
    }

    fn answer(&mut self, now: Instant, (path, from): (PathId, SocketAddr), datagram: &[u8]) -> Result<(), Refusal> {
        let bad = |_| Refusal::NotAuthentic;
        let mut handshake =
            self.builder().and_then(|builder| builder.psk(PRESHARED_AT, self.keys.preshared.bytes())?.build_responder()).map_err(bad)?;
        let mut time = [0; INITIATION_LEN];
        let length = handshake.read_message(&datagram[8..STAMPED - STAMP], &mut time).map_err(bad)?;
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
        self.previous.extend(self.current.replace(held));
        if self.previous.len() > PREVIOUS {
            self.previous.pop_front();
        }
        debug_assert!(self.previous.len() <= PREVIOUS, "keys are not kept for longer than they are read with");
    }

    fn open(&mut self, came_on: PathId, datagram: &[u8], plain: &mut Vec<u8>) -> Result<Opened, Refusal> {
        let (header, sealed) = datagram.split_at(HEADER);
        let name = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let number = u64::from_be_bytes([header[8], header[9], header[10], header[11], header[12], header[13], header[14], header[15]]);
        let all = [&mut self.current, &mut self.next].into_iter().flatten().chain(self.previous.iter_mut().rev());
        let held = all.into_iter().find(|held| held.session.local == name).ok_or(Refusal::NoSession)?;
        let newest = held.open(came_on, number, sealed, plain)?;
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
