//! The kernel's hashes (`AF_ALG`), which the packetdrill of MPTCP asks for tokens and HMACs, and
//! which many a machine does without: sockets of that family are served here.

use crate::preload::libcs;
use hmac::{Hmac, Mac};
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where the algorithm's name begins in `struct sockaddr_alg`: behind family, type and two masks.
const NAME_AT: usize = 24;
const NAME_LEN: usize = 64;
/// The option that sets a key.
const ALG_SET_KEY: c_int = 1;

/// A hash, by its descriptor.
#[derive(Clone, Debug, Default)]
struct Hash {
    name: String,
    key: Vec<u8>,
    text: Vec<u8>,
}

impl Hash {
    /// None: it is not one that packetdrill asks for.
    fn digest(&self) -> Option<Vec<u8>> {
        fn of<M: Mac + hmac::digest::KeyInit>(hash: &Hash) -> Vec<u8> {
            let mut mac = <M as Mac>::new_from_slice(&hash.key).expect("HMAC takes keys of any length");
            mac.update(&hash.text);
            mac.finalize().into_bytes().to_vec()
        }
        Some(match self.name.as_str() {
            "sha1" => Sha1::digest(&self.text).to_vec(),
            "sha256" => Sha256::digest(&self.text).to_vec(),
            "hmac(sha1)" => of::<Hmac<Sha1>>(self),
            "hmac(sha256)" => of::<Hmac<Sha256>>(self),
            _ => return None,
        })
    }
}

static HASHES: Mutex<BTreeMap<c_int, Hash>> = Mutex::new(BTreeMap::new());

fn hashes() -> MutexGuard<'static, BTreeMap<c_int, Hash>> {
    HASHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor for a hash.
fn open(hash: Hash) -> c_int {
    // SAFETY: a path of C.
    let fd = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    hashes().insert(fd, hash);
    fd
}

/// A socket of the family of hashes is served here.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    if domain == libc::AF_ALG {
        return open(Hash::default());
    }
    // SAFETY: its type, and the caller's promise.
    let fd = unsafe { libcs::<Real>(c"socket")(domain, kind, protocol) };
    hashes().remove(&fd);
    fd
}

/// Names the algorithm.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, at: *const sockaddr, length: socklen_t) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    if let Some(hash) = hashes().get_mut(&fd)
        && length as usize >= NAME_AT + NAME_LEN
    {
        // SAFETY: the caller's promise: so many bytes.
        let name = unsafe { std::slice::from_raw_parts(at.cast::<u8>().add(NAME_AT), NAME_LEN) };
        hash.name = CStr::from_bytes_until_nul(name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        return 0;
    }
    // SAFETY: its type, and the caller's promise.
    unsafe { libcs::<Real>(c"bind")(fd, at, length) }
}

/// Sets a key.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(fd: c_int, level: c_int, name: c_int, at: *const c_void, length: socklen_t) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    if let Some(hash) = hashes().get_mut(&fd)
        && (level, name) == (libc::SOL_ALG, ALG_SET_KEY)
    {
        // SAFETY: the caller's promise: so many bytes.
        hash.key = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length as usize) }.to_vec();
        return 0;
    }
    // SAFETY: its type, and the caller's promise.
    unsafe { libcs::<Real>(c"setsockopt")(fd, level, name, at, length) }
}

/// A socket that hashes.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, at: *mut sockaddr, length: *mut socklen_t) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    let known = hashes().get(&fd).cloned();
    if let Some(hash) = known {
        return open(hash);
    }
    // SAFETY: its type, and the caller's promise.
    unsafe { libcs::<Real>(c"accept")(fd, at, length) }
}

/// Adds to what is hashed.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C" fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    if let Some(hash) = hashes().get_mut(&fd) {
        // SAFETY: the caller's promise: so many bytes.
        hash.text.extend_from_slice(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) });
        return length as ssize_t;
    }
    // SAFETY: its type, and the caller's promise.
    unsafe { libcs::<Real>(c"send")(fd, from, length, flags) }
}

/// The hash.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, at: *mut c_void, most: size_t, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    let digest = hashes().get_mut(&fd).and_then(|hash| {
        let digest = hash.digest();
        hash.text.clear();
        digest
    });
    if let Some(digest) = digest {
        let told = digest.len().min(most);
        // SAFETY: the caller's promise: room for `most` bytes.
        unsafe { std::ptr::copy_nonoverlapping(digest.as_ptr(), at.cast::<u8>(), told) };
        return told as ssize_t;
    }
    // SAFETY: its type, and the caller's promise.
    unsafe { libcs::<Real>(c"recv")(fd, at, most, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_standards() {
        let hex = |hash: Hash| hash.digest().map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let of = |name: &str, key: &[u8], text: &[u8]| Hash { name: name.to_owned(), key: key.to_vec(), text: text.to_vec() };
        // FIPS 180-4's example, and RFC 4231 section 4.3.
        assert!(hex(of("sha256", b"", b"abc")).is_some_and(|digest| digest.starts_with("ba7816bf8f01cfea")));
        assert!(
            hex(of("hmac(sha256)", b"Jefe", b"what do ya want for nothing?")).is_some_and(|digest| digest.starts_with("5bdcc146bf60754e"))
        );
        assert_eq!(hex(of("md5", b"", b"abc")), None);
    }
}
