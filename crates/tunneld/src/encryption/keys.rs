//! Keys of X25519 as `wg genkey` writes them: 32 bytes in base64. They are wiped when nobody needs
//! them any more.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use polypath_io::{Failed, random};
use snow::params::{DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::primitives::Primitives;

/// A private, public or preshared key, or another secret.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Key {}

/// A key may be private: what is printed of it is its kind.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A new secret, from the kernel's random numbers.
    pub fn random() -> Result<Self, Failed> {
        let mut key = Self([0; 32]);
        random(&mut key.0)?;
        Ok(key)
    }

    /// A new private key.
    pub fn generate() -> Result<Self, Failed> {
        let mut key = Self::random()?;
        // The bits that a number of X25519 has in any case (RFC 7748 section 5), so that the text
        // is the key that is used.
        key.0[0] &= 0b1111_1000;
        key.0[31] = key.0[31] & 0b0111_1111 | 0b0100_0000;
        Ok(key)
    }

    /// Reads base64; white space around it does not count.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).ok()?);
        bytes.as_slice().try_into().ok().map(Self)
    }

    /// In base64.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0))
    }

    /// The public key of a private one.
    #[must_use]
    pub fn public(&self) -> Self {
        let mut public = [0; 32];
        if let Some(mut curve) = Primitives.resolve_dh(&DHChoice::Curve25519) {
            curve.set(&self.0);
            public.copy_from_slice(curve.pubkey());
        }
        Self(public)
    }

    /// Whether a secret with this public key would be known to everybody (RFC 7748 section 6.1).
    pub fn is_public_of_none(&self) -> bool {
        let mut curve = Primitives.resolve_dh(&DHChoice::Curve25519);
        curve.as_mut().is_some_and(|curve| {
            // Any private key finds it.
            curve.set(&[1; 32]);
            curve.dh(&self.0, &mut [0; 32]).is_err()
        })
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What one end must know to agree on sessions with the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Ours.
    pub private: Key,
    /// The other end's.
    pub peer: Key,
    /// A secret of both, against those who will one day compute private keys from public ones;
    /// zeros: none.
    pub preshared: Key,
}

impl Keys {
    /// Without a preshared key.
    pub const NO_PRESHARED: Key = Key([0; 32]);
}

/// Bytes of a [`stamp`].
pub(super) const STAMP: usize = 16;

/// What shows that the sender of a message knows the public key of its receiver: the first 16 bytes
/// of HMAC-BLAKE2s. It costs far less than the curve, so whoever does not know the key cannot keep
/// the processor busy.
pub(super) fn stamp(receiver: &Key, message: &[u8]) -> [u8; STAMP] {
    mac(receiver.bytes(), message)
}

/// The first 16 bytes of HMAC-BLAKE2s.
pub(super) fn mac(key: &[u8], message: &[u8]) -> [u8; STAMP] {
    let mut short = [0; STAMP];
    short.copy_from_slice(&hmac(key, message)[..STAMP]);
    short
}

/// HMAC-BLAKE2s.
pub(super) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut whole = [0; 64];
    if let Some(mut hash) = DefaultResolver.resolve_hash(&HashChoice::Blake2s) {
        hash.hmac(key, message, &mut whole);
    }
    let mut found = [0; 32];
    found.copy_from_slice(&whole[..32]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hex: &str) -> Key {
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        Key(std::array::from_fn(byte))
    }

    #[test]
    fn public_keys_are_those_of_rfc_7748() {
        // Section 6.1: Alice's and Bob's private and public keys.
        let pairs = [
            (
                "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
                "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            ),
            (
                "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
                "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            ),
        ];
        for (private, public) in pairs {
            assert_eq!(key(private).public().text(), key(public).text());
        }
    }

    #[test]
    fn keys_are_read_as_they_were_written_and_differ() {
        let (one, other) = (Key::generate().unwrap(), Key::generate().unwrap());
        assert_eq!(Key::parse(&format!(" {}\n", *one.text())), Some(one.clone()));
        assert!(one != other && one.public() != other.public());
        assert_eq!(format!("{one:?}"), "Key", "a private key is not printed by chance");
        for text in ["", "abc", "A".repeat(44).as_str(), &one.text()[1..]] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_public_key_with_which_every_secret_is_known_is_found() {
        // 0, 1, a point of order 8, and p - 1 (https://cr.yp.to/ecdh.html, "Validate").
        for hex in [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ] {
            assert!(key(hex).is_public_of_none(), "{hex}");
        }
        assert!(!Key::generate().unwrap().public().is_public_of_none());
    }

    #[test]
    fn a_stamp_is_of_one_receiver_and_message() {
        let (one, other) = (key(&"01".repeat(32)), key(&"02".repeat(32)));
        assert_eq!(stamp(&one, b"abc"), stamp(&one, b"abc"));
        assert_ne!(stamp(&one, b"abc"), stamp(&other, b"abc"));
        assert_ne!(stamp(&one, b"abc"), stamp(&one, b"abd"));
    }
}
