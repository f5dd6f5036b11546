//! Cookies: what shows that the sender of an initiation is where it says, so that nobody keeps an
//! end busy from addresses that are not his.
//!
//! As WireGuard's ("WireGuard: Next Generation Kernel Network Tunnel", section 5.4.7): a cookie is
//! a MAC of the sender's address with a secret that changes every two minutes, so the end that
//! gives it keeps nothing. It travels encrypted with a key that whoever knows the end's public key
//! can compute, bound to the stamp of the initiation that it answers: only who sees that initiation
//! can send one.

use super::INITIATION_LEN;
use super::STAMPED;
use super::keys::{Key, STAMP, hmac, mac};
use super::primitives::Primitives;
use polypath_base::{Duration, Instant, PathId};
use snow::params::CipherChoice;
use snow::resolvers::CryptoResolver;
use snow::types::Cipher;
use std::net::{IpAddr, SocketAddr};

pub(super) const COOKIE: u8 = 0x43;
const SALT: usize = 16;
const TAG: usize = 16;
/// Bytes of the message.
pub(super) const LEN: usize = 8 + SALT + STAMP + TAG;
// Nobody gets more bytes back than he has sent.
const _: () = assert!(LEN < INITIATION_LEN);
/// A secret is used for this time, and believed for twice as long.
const PERIOD: Duration = Duration::from_secs(120);

/// The cookies that an end gives.
#[derive(Debug)]
pub(super) struct Made {
    secret: Key,
    salts: u64,
}

impl Made {
    /// `secret`: nobody else's, and another one after each start, so that no cookie of an earlier
    /// one is believed.
    pub(super) fn new(secret: Key) -> Self {
        Self { secret, salts: 0 }
    }

    /// The cookies of an address that are believed now: this period's, and the previous one's.
    pub(super) fn cookies(&self, now: Instant, from: SocketAddr) -> [[u8; STAMP]; 2] {
        let period = now.as_nanos() / PERIOD.as_nanos();
        [period, period.wrapping_sub(1)].map(|period| mac(self.secret.bytes(), &[&period.to_be_bytes()[..], &written(from)].concat()))
    }

    /// A number of an address, of IPv6 of its network, which its owner cannot choose.
    pub(super) fn place(&self, from: SocketAddr) -> u8 {
        let network = match from.ip().to_canonical() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets()[..8].to_vec(),
        };
        mac(self.secret.bytes(), &network)[0]
    }

    /// The message with the cookie of an address, which answers an initiation.
    pub(super) fn message(&mut self, now: Instant, from: SocketAddr, own: &Key, initiation: &[u8]) -> Option<Vec<u8>> {
        self.salts += 1;
        let salt = mac(self.secret.bytes(), &[b"salt", &self.salts.to_be_bytes()[..], &now.as_nanos().to_be_bytes()].concat());
        let cipher = cipher(own, &salt)?;
        let mut message = vec![0; LEN];
        message[0] = COOKIE;
        message[4..8].copy_from_slice(&initiation[4..8]);
        message[8..8 + SALT].copy_from_slice(&salt);
        cipher.encrypt(0, &initiation[STAMPED - STAMP..STAMPED], &self.cookies(now, from)[0], &mut message[8 + SALT..]);
        Some(message)
    }
}

/// The cookies that an end has been given, by path.
#[derive(Debug)]
pub(super) struct Jar {
    held: Vec<Option<([u8; STAMP], Instant)>>,
}

impl Jar {
    pub(super) fn new(paths: usize) -> Self {
        Self { held: vec![None; paths] }
    }

    /// What to prove this end's address on a path with.
    pub(super) fn cookie(&self, now: Instant, path: PathId) -> Option<&[u8; STAMP]> {
        let (cookie, came) = self.held.get(usize::from(path.0))?.as_ref()?;
        (now.since(*came) < PERIOD).then_some(cookie)
    }

    /// Reads a message that answers the initiation with this stamp; whether it is the other end's.
    pub(super) fn take(&mut self, now: Instant, path: PathId, peer: &Key, stamp: &[u8; STAMP], message: &[u8]) -> bool {
        let (salt, sealed) = message[8..].split_at(SALT);
        let mut cookie = [0; STAMP];
        let opened = cipher(peer, salt).is_some_and(|cipher| cipher.decrypt(0, stamp, sealed, &mut cookie).is_ok());
        if let (true, Some(held)) = (opened, self.held.get_mut(usize::from(path.0))) {
            *held = Some((cookie, now));
        }
        opened
    }
}

/// A key for one message of the end with this public key.
fn cipher(giver: &Key, salt: &[u8]) -> Option<Box<dyn Cipher>> {
    let mut cipher = Primitives.resolve_cipher(&CipherChoice::ChaChaPoly)?;
    cipher.set(&hmac(giver.bytes(), &[b"cookie", salt].concat()));
    Some(cipher)
}

fn written(from: SocketAddr) -> [u8; 18] {
    let mut bytes = [0; 18];
    let address = match from.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    bytes[..16].copy_from_slice(&address.octets());
    bytes[16..].copy_from_slice(&from.port().to_be_bytes());
    bytes
}
