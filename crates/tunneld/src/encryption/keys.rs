//! Keys of X25519 as `wg genkey` writes them: 32 bytes in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use snow::params::{DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use std::fmt;

/// A private, public or preshared key.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// A key may be private: what is printed of it is its kind.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A new private key, from the kernel's random numbers; none if it has none.
    pub fn generate() -> Option<Self> {
        let mut bytes = [0; 32];
        DefaultResolver.resolve_rng()?.try_fill_bytes(&mut bytes).ok()?;
        // The bits that a number of X25519 has in any case (RFC 7748 section 5), so that the text is the key that is used.
        bytes[0] &= 0b1111_1000;
        bytes[31] = bytes[31] & 0b0111_1111 | 0b0100_0000;
        Some(Self(bytes))
    }

    /// Reads base64; white space around it does not count.
    pub fn parse(text: &str) -> Option<Self> {
        STANDARD.decode(text.trim()).ok()?.try_into().ok().map(Self)
    }

    /// In base64.
    pub fn text(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// The public key of a private one.
    #[must_use]
    pub fn public(&self) -> Self {
        let mut public = [0; 32];
        if let Some(mut curve) = DefaultResolver.resolve_dh(&DHChoice::Curve25519) {
            curve.set(&self.0);
            public.copy_from_slice(curve.pubkey());
        }
        Self(public)
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What one end must know to agree on sessions with the other.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Ours.
    pub private: Key,
    /// The other end's.
    pub peer: Key,
    /// A secret of both, against those who will one day compute private keys from public ones; zeros: none.
    pub preshared: Key,
}

impl Keys {
    /// Without a preshared key.
    pub const NO_PRESHARED: Key = Key([0; 32]);
}

/// Bytes of a [`stamp`].
pub(super) const STAMP: usize = 16;

/// What shows that the sender of a message knows the public key of its receiver: the first 16 bytes of HMAC-BLAKE2s. It costs far less than
/// the curve, so whoever does not know the key cannot keep the processor busy.
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
        assert_eq!(Key::parse(&format!(" {}\n", one.text())), Some(one));
        assert!(one != other && one.public() != other.public());
        assert_eq!(format!("{one:?}"), "Key", "a private key is not printed by chance");
        for text in ["", "abc", &"A".repeat(44), &one.text()[1..]] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_stamp_is_of_one_receiver_and_message() {
        let (one, other) = (key(&"01".repeat(32)), key(&"02".repeat(32)));
        assert_eq!(stamp(&one, b"abc"), stamp(&one, b"abc"));
        assert_ne!(stamp(&one, b"abc"), stamp(&other, b"abc"));
        assert_ne!(stamp(&one, b"abc"), stamp(&one, b"abd"));
    }
}
