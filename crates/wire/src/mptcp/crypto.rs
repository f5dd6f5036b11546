//! Tokens, first data sequence numbers and authentication codes (RFC 8684 sections 3.1, 3.2 and
//! 3.4.1; RFC 6824 for version 0).

use hmac::{Hmac, Mac};
use polypath_base::DataSeq;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// The version of the Multipath TCP protocol. It decides the hash.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 6824: keys in the SYN, SHA-1, 32-bit data sequence numbers.
    V0,
    /// RFC 8684: the client's key in the third ACK, SHA-256; Linux sends 64-bit data sequence
    /// numbers.
    V1,
}

impl Version {
    /// As MP_CAPABLE tells it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Bytes of a DSS option with a mapping and a 32-bit DATA_ACK, without a checksum, padded to
    /// words (RFC 8684 section 3.3).
    pub const fn dss_len(self) -> u8 {
        match self {
            Self::V0 => 20,
            Self::V1 => 24,
        }
    }

    /// Token and initial data sequence number of a key: the first 32 and the last 64 bits of its
    /// hash.
    pub fn token_and_idsn(self, key: u64) -> (u32, DataSeq) {
        let mut hash = [0; 32];
        let len = match self {
            Self::V0 => {
                hash[..20].copy_from_slice(&Sha1::digest(key.to_be_bytes()));
                20
            }
            Self::V1 => {
                hash.copy_from_slice(&Sha256::digest(key.to_be_bytes()));
                32
            }
        };
        let word = |from: usize| u64::from_be_bytes(hash[from..from + 8].try_into().expect("eight bytes"));
        ((word(0) >> 32) as u32, DataSeq::new(word(len - 8)))
    }

    /// The leftmost 160 bits of HMAC(own key and peer key, own nonce and peer nonce): what an
    /// MP_JOIN on a third ACK carries (RFC 8684 section 3.2).
    pub fn join_hmac(self, own_key: u64, peer_key: u64, own_nonce: u32, peer_nonce: u32) -> [u8; 20] {
        let text = [own_nonce.to_be_bytes(), peer_nonce.to_be_bytes()].concat();
        let code = self.mac(own_key, peer_key, &text);
        code[..20].try_into().expect("SHA-1's code has 20 bytes, SHA-256's 32")
    }

    /// The leftmost 64 bits of the same: what an MP_JOIN on a SYN/ACK carries.
    pub fn short_join_hmac(self, own_key: u64, peer_key: u64, own_nonce: u32, peer_nonce: u32) -> u64 {
        first(&self.join_hmac(own_key, peer_key, own_nonce, peer_nonce))
    }

    /// The rightmost 64 bits of HMAC(own key and peer key, address id, address and port), of who
    /// announces the address; the port is 0 if none is told (RFC 8684 section 3.4.1).
    pub fn address_hmac(self, own_key: u64, peer_key: u64, address_id: u8, address: IpAddr, port: u16) -> u64 {
        let mut text = vec![address_id];
        match address {
            IpAddr::V4(address) => text.extend(address.octets()),
            IpAddr::V6(address) => text.extend(address.octets()),
        }
        text.extend(port.to_be_bytes());
        let code = self.mac(own_key, peer_key, &text);
        first(&code[code.len() - 8..])
    }

    fn mac(self, own_key: u64, peer_key: u64, text: &[u8]) -> Vec<u8> {
        let key = [own_key.to_be_bytes(), peer_key.to_be_bytes()].concat();
        match self {
            Self::V0 => mac::<Hmac<Sha1>>(&key, text),
            Self::V1 => mac::<Hmac<Sha256>>(&key, text),
        }
    }
}

fn first(code: &[u8]) -> u64 {
    u64::from_be_bytes(code[..8].try_into().expect("eight bytes"))
}

fn mac<M: Mac + hmac::digest::KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = <M as Mac>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_and_idsn_are_the_ends_of_the_hash() {
        // SHA-256 of eight zero bytes:
        // af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc
        assert_eq!(Version::V1.token_and_idsn(0), (0xaf55_70f5, DataSeq::new(0xe5b2_328d_e0e8_3dfc)));
        // SHA-1 of eight zero bytes: 05fe405753166f125559e7c9ac558654f107c7e9
        assert_eq!(Version::V0.token_and_idsn(0), (0x05fe_4057, DataSeq::new(0xac55_8654_f107_c7e9)));
    }

    #[test]
    fn the_code_depends_on_who_speaks() {
        for version in [Version::V0, Version::V1] {
            assert_ne!(version.join_hmac(1, 2, 3, 4), version.join_hmac(2, 1, 4, 3));
            assert_eq!(version.join_hmac(1, 2, 3, 4), version.join_hmac(1, 2, 3, 4));
        }
    }

    #[test]
    fn a_code_seen_on_the_wire_is_reproduced() {
        // Linux 6.12: keys of the client and the server, nonces and the server's code of one
        // MP_JOIN.
        let (client, server) = (0xac2d_dc17_3e9a_894b, 0x60d1_f753_38b7_afd3);
        assert_eq!(Version::V1.token_and_idsn(server).0, 0x060c_d886);
        assert_eq!(Version::V1.short_join_hmac(server, client, 0x58e5_0985, 0xf1ec_21e4), 0x7c97_e083_8adb_bd3b);
        assert_eq!(Version::V1.short_join_hmac(client, server, 0xf1ec_21e4, 0x58e5_0985), 0xeab1_9aa4_d21d_04d1);
    }
}
