//! TCP Fast Open of a server (RFC 7413): cookies, and what a SYN asks for.

use std::net::SocketAddrV4;

/// Kinds of the option: its own, and the experimental one with its magic number (RFC 7413
/// section 4.1.1; RFC 6994).
const KIND: u8 = 34;
const EXPERIMENTAL: u8 = 254;
const MAGIC: [u8; 2] = [0xf9, 0x89];
const NOP: u8 = 1;
const END: u8 = 0;
/// RFC 2385 section 3.
const MD5: u8 = 19;

/// Bits of `tcp_fastopen`: a client takes part; sends data without a cookie; a server takes part;
/// needs no cookie; with every listening socket.
const CLIENT: u32 = 1;
const CLIENT_WITHOUT_COOKIE: u32 = 4;
const SERVER: u32 = 2;
const WITHOUT_COOKIE: u32 = 0x200;
const EVERY_LISTENER: u32 = 0x400;

/// Sysctls of the host.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct FastOpen {
    /// `tcp_fastopen`.
    pub(super) bits: u32,
    /// `tcp_fastopen_key`.
    pub(super) key: [u8; 16],
}

/// What a SYN says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    experimental: bool,
    cookie: Vec<u8>,
}

/// What a client knows of a server (Linux: `tcp_metrics`).
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    cookie: Asked,
    /// The MSS that it told.
    pub(super) mss: u32,
    /// The experimental option is tried next, or was in vain.
    tries_experimental: bool,
    has_tried_experimental: bool,
}

impl Known {
    /// What a SYN asks for: without a cookie for one.
    pub(super) fn asks(&self) -> Asked {
        if self.cookie.cookie.is_empty() {
            Asked { experimental: self.tries_experimental, cookie: Vec::new() }
        } else {
            self.cookie.clone()
        }
    }

    pub(super) fn has_cookie(&self) -> bool {
        !self.cookie.cookie.is_empty()
    }

    /// The SYN/ACK to a SYN that has asked so; `in_vain`: without a cookie it has asked in vain
    /// (Linux: `tcp_rcv_fastopen_synack`, `tcp_fastopen_cache_set`).
    pub(super) fn learn(&mut self, asked: &Asked, answer: Option<Asked>, mss: u16, in_vain: bool) {
        self.mss = u32::from(mss);
        match answer {
            // RFC 7413 section 4.1.1: 4 to 16 bytes, of an even number.
            Some(told) if (4..=16).contains(&told.cookie.len()) && told.cookie.len() % 2 == 0 => self.cookie = told,
            _ if self.has_cookie() || !in_vain => {}
            _ if asked.experimental => (self.tries_experimental, self.has_tried_experimental) = (false, true),
            _ => self.tries_experimental = !self.has_tried_experimental,
        }
    }
}

/// What a server makes of a SYN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Its data counts, and the program has the connection.
    pub(super) opens: bool,
    /// The option of the SYN/ACK, with its padding.
    pub(super) option: Vec<u8>,
}

/// Options by their kinds, as far as they have lengths (RFC 9293 section 3.1).
fn each_of(mut options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        while let [NOP, rest @ ..] = options {
            options = rest;
        }
        let (&kind, &length) = (options.first().filter(|kind| **kind != END)?, options.get(1)?);
        let value = options.get(2..usize::from(length))?;
        options = &options[usize::from(length)..];
        Some((kind, value))
    })
}

/// The segment is signed (RFC 2385).
pub(super) fn is_signed(options: &[u8]) -> bool {
    each_of(options).any(|(kind, _)| kind == MD5)
}

impl Asked {
    /// Reads the options of a SYN.
    pub(super) fn find(options: &[u8]) -> Option<Self> {
        each_of(options).find_map(|option| match option {
            (KIND, cookie) => Some(Self { experimental: false, cookie: cookie.to_vec() }),
            (EXPERIMENTAL, [a, b, cookie @ ..]) if [*a, *b] == MAGIC => Some(Self { experimental: true, cookie: cookie.to_vec() }),
            _ => None,
        })
    }

    /// The option of a SYN that asks so.
    pub(super) fn own_option(&self) -> Vec<u8> {
        self.option(&self.cookie)
    }

    /// The option with this cookie, of the kind that was asked with.
    fn option(&self, cookie: &[u8]) -> Vec<u8> {
        let mut bytes = if self.experimental { vec![EXPERIMENTAL, 0, MAGIC[0], MAGIC[1]] } else { vec![KIND, 0] };
        bytes.extend_from_slice(cookie);
        bytes[1] = bytes.len() as u8;
        bytes.resize(bytes.len().next_multiple_of(4), NOP);
        bytes
    }
}

impl FastOpen {
    /// The key as the sysctl has it: four numbers of eight hexadecimal digits.
    pub(super) fn key_of(text: &str) -> Option<[u8; 16]> {
        let words: Vec<u32> = text.split('-').map(|word| u32::from_str_radix(word, 16).ok()).collect::<Option<_>>()?;
        let mut key = [0; 16];
        if words.len() != 4 {
            return None;
        }
        for (place, word) in key.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Some(key)
    }

    /// A client takes part, and whether it sends data without a cookie.
    pub(super) fn client(&self) -> Option<bool> {
        (self.bits & CLIENT != 0).then_some(self.bits & CLIENT_WITHOUT_COOKIE != 0)
    }

    /// What a listening socket makes of a SYN. `queue`: of its TCP_FASTOPEN, how many connections
    /// may wait; `waiting`: how many do; `key`: its own (Linux: `tcp_try_fastopen`).
    pub(super) fn answer(
        &self,
        asked: Option<&Asked>,
        path: (SocketAddrV4, SocketAddrV4),
        has_data: bool,
        queue: Option<u32>,
        waiting: u32,
        key: Option<[u8; 16]>,
    ) -> Answer {
        let queue = queue.or((self.bits & EVERY_LISTENER != 0).then_some(u32::MAX)).unwrap_or(0);
        if self.bits & SERVER == 0 || waiting >= queue || !(has_data || asked.is_some()) {
            return Answer::default();
        }
        if has_data && self.bits & WITHOUT_COOKIE != 0 {
            return Answer { opens: true, option: Vec::new() };
        }
        let Some(asked) = asked else { return Answer::default() };
        let own = cookie(path, key.unwrap_or(self.key));
        if asked.cookie == own { Answer { opens: true, option: Vec::new() } } else { Answer { opens: false, option: asked.option(&own) } }
    }
}

/// Linux: `__tcp_fastopen_cookie_gen_cipher`.
fn cookie((local, peer): (SocketAddrV4, SocketAddrV4), key: [u8; 16]) -> [u8; 8] {
    let half = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("eight bytes"));
    let mut text = peer.ip().octets().to_vec();
    text.extend(local.ip().octets());
    sip_hash([half(0), half(8)], &text).to_le_bytes()
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012).
#[expect(deprecated, reason = "what stands in its place promises no particular hash, and this one is SipHash-2-4")]
fn sip_hash(key: [u64; 2], text: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = std::hash::SipHasher::new_with_keys(key[0], key[1]);
    hasher.write(text);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: (SocketAddrV4, SocketAddrV4) =
        (SocketAddrV4::new(std::net::Ipv4Addr::new(192, 168, 0, 1), 8080), SocketAddrV4::new(std::net::Ipv4Addr::new(192, 0, 2, 1), 4000));

    #[test]
    fn cookies_are_linux_own() {
        let key = FastOpen::key_of("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").expect("it is a key");
        assert_eq!(
            u64::from_be_bytes(cookie(PATH, key)),
            0x3021_b9d8_8901_7eeb,
            "of Google's own runner, for these addresses and this key"
        );
    }

    #[test]
    fn a_syn_is_opened_by_its_cookie_and_else_told_one() {
        let key = FastOpen::key_of("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").expect("it is a key");
        let host = FastOpen { bits: SERVER | EVERY_LISTENER, key };
        let own = cookie(PATH, key);
        let with = |cookie: &[u8]| Asked { experimental: false, cookie: cookie.to_vec() };
        let answer = |asked: &Asked| host.answer(Some(asked), PATH, true, None, 0, None);
        assert_eq!(answer(&with(&own)), Answer { opens: true, option: Vec::new() });
        let told = answer(&with(&[]));
        assert!(!told.opens && told.option.starts_with(&[KIND, 10]) && told.option[2..10] == own, "{told:?}");
        assert_eq!(Asked::find(&told.option), Some(with(&own)));
        assert_eq!(FastOpen { bits: SERVER, ..host }.answer(Some(&with(&own)), PATH, true, None, 0, None), Answer::default());
        assert_eq!(host.answer(Some(&with(&own)), PATH, true, Some(1), 1, None), Answer::default(), "the queue is full");
    }
}
