//! What the handshake is made of: the primitives of snow, with what it leaves out. A secret of
//! X25519 that is zero is refused, and the keys of the curve and of ciphers are wiped when they are
//! given up. What snow keeps beside them during a handshake is not: its chaining key, a copy of the
//! preshared key, and results on the stack.

use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use subtle::ConstantTimeEq;

/// ring's cipher is four times as fast as the one in Rust; random numbers come from the kernel
/// without a file; the rest is snow's own.
pub(super) struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Kernel))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice).map(|dh| Box::new(Curve(dh)) as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice).map(|cipher| Box::new(Wiped(cipher)) as Box<dyn Cipher>)
    }
}

struct Kernel;

impl Random for Kernel {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        polypath_io::random(dest).map_err(|_| Error::Rng)
    }
}

struct Curve(Box<dyn Dh>);

impl Drop for Curve {
    fn drop(&mut self) {
        self.0.set(&[0; 32]);
    }
}

impl Dh for Curve {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }

    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }

    fn set(&mut self, privkey: &[u8]) {
        self.0.set(privkey);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        self.0.generate(rng)
    }

    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }

    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }

    /// RFC 7748 section 6.1: "check [...] for the all-zero value", which some public keys make of
    /// every private one.
    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        self.0.dh(pubkey, out)?;
        if out[..32].ct_eq(&[0; 32]).into() { Err(Error::Dh) } else { Ok(()) }
    }
}

struct Wiped(Box<dyn Cipher>);

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.set(&[0; 32]);
    }
}

impl Cipher for Wiped {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0.set(key);
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        self.0.encrypt(nonce, authtext, plaintext, out)
    }

    fn decrypt(&self, nonce: u64, authtext: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        self.0.decrypt(nonce, authtext, ciphertext, out)
    }
}
