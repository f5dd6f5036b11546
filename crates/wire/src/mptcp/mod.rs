//! The MPTCP option of TCP: every form of RFC 8684 (version 1) and those of RFC 6824 (version 0)
//! that differ.
//!
//! [`Packet::new_checked`] compares the option's length with the bytes that are there; after it no
//! getter can panic. A [`Repr`] is one option; a segment may carry several.

mod crypto;
mod cursor;
mod dss;

pub use crypto::Version;
pub use dss::{Mapping, Number, dss_checksum};

use crate::error::{Error, Result};
use crate::inline::Inline;
use cursor::{Reader, Writer};
use std::net::IpAddr;

/// The option's kind.
pub const KIND: u8 = 30;
/// Most bytes of an option: all that a TCP header has room for.
const MAX_OPTION: usize = 40;

const MP_CAPABLE: u8 = 0;
const MP_JOIN: u8 = 1;
const DSS: u8 = 2;
const ADD_ADDR: u8 = 3;
const REMOVE_ADDR: u8 = 4;
const MP_PRIO: u8 = 5;
const MP_FAIL: u8 = 6;
const MP_FASTCLOSE: u8 = 7;
const MP_TCPRST: u8 = 8;

const BACKUP: u8 = 1;
const ECHO: u8 = 1;

/// A view of bytes that begin with an MPTCP option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of an option that is there whole and has a subtype.
    pub fn new_checked(buffer: T) -> Result<Self> {
        let &[kind, length, _, ..] = buffer.as_ref() else { return Err(Error::Truncated) };
        if kind != KIND {
            return Err(Error::Malformed("mptcp kind"));
        }
        if usize::from(length) < 3 || usize::from(length) > MAX_OPTION {
            return Err(Error::Malformed("mptcp length"));
        }
        if usize::from(length) > buffer.as_ref().len() {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    /// Bytes of the option.
    pub fn option_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[1])
    }

    /// Which option it is (IANA's registry of MPTCP option subtypes): 0 is MP_CAPABLE, 8 MP_TCPRST,
    /// more is [`Repr::Unknown`].
    pub fn subtype(&self) -> u8 {
        self.buffer.as_ref()[2] >> 4
    }

    /// The four bits behind the subtype.
    pub fn nibble(&self) -> u8 {
        self.buffer.as_ref()[2] & 15
    }

    /// What stands behind subtype and nibble.
    pub fn data(&self) -> &[u8] {
        &self.buffer.as_ref()[3..self.option_len()]
    }
}

/// What an ADD_ADDR is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Version 1: the low 64 bits of an HMAC over the address (RFC 8684 section 3.4.1).
    Authenticated {
        /// Made by [`Version::address_hmac`].
        hmac: u64,
    },
    /// Version 1: the peer has the announcement.
    Echo,
    /// Version 0 has neither (RFC 6824 section 3.4.1).
    V0,
}

/// The length that MP_CAPABLE maps when it carries the first data (RFC 8684 section 3.1).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FirstData {
    /// Bytes of data that are mapped, from the first byte behind the SYN on.
    pub len: u16,
    /// As in [`Mapping::checksum`].
    pub checksum: Option<u16>,
}

/// The keys that an MP_CAPABLE carries; each form has a length of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Version 1's SYN.
    None,
    /// The sender's own, on version 1's SYN/ACK and on SYN and SYN/ACK of version 0.
    Sender(u64),
    /// On the client's third ACK, and in version 1 on its first data.
    Both {
        /// Key of who sends the option.
        sender: u64,
        /// Key of who receives it.
        receiver: u64,
        /// Version 1: the segment carries data, and the option has its length; none on a bare ACK.
        data: Option<FirstData>,
    },
}

/// One MPTCP option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Repr {
    /// MP_CAPABLE: opens a connection (RFC 8684 section 3.1).
    Capable {
        /// 0 is RFC 6824, 1 is RFC 8684; `parse` takes any up to 15.
        version: u8,
        /// Flags A to H: 0x80 asks for DSS checksums, 0x20 forbids joins to this address, 0x01
        /// chooses HMAC-SHA1 (version 0) or HMAC-SHA256 (version 1).
        flags: u8,
        /// Which ones depends on version and segment.
        keys: Keys,
    },
    /// MP_JOIN on a SYN: opens a further subflow (RFC 8684 section 3.2).
    JoinSyn {
        /// Flag B: the peer may send here only if no other subflow works (RFC 8684 section 3.3.8).
        backup: bool,
        /// Identifies the source address of this SYN, whatever a middlebox makes of it.
        address_id: u8,
        /// The connection, by the receiver's key ([`Version::token_and_idsn`]).
        token: u32,
        /// Random number of who opens the subflow, part of what both HMACs cover.
        nonce: u32,
    },
    /// MP_JOIN on a SYN/ACK, with the leftmost 64 bits of the HMAC (RFC 8684 section 3.2).
    JoinSynAck {
        /// Flag B, as in [`Repr::JoinSyn`].
        backup: bool,
        /// Identifies the address from which the SYN/ACK comes.
        address_id: u8,
        /// Made by [`Version::short_join_hmac`].
        hmac: u64,
        /// Random number of who accepts the subflow, part of what both HMACs cover.
        nonce: u32,
    },
    /// MP_JOIN on the third ACK, with the leftmost 160 bits of the HMAC (RFC 8684 section 3.2).
    JoinAck {
        /// Made by [`Version::join_hmac`].
        hmac: [u8; 20],
    },
    /// DSS: data acknowledgement, mapping, end of the data (RFC 8684 section 3.3).
    Dss {
        /// Next data sequence number that the sender of the option expects
        /// (RFC 8684 section 3.3.2).
        ack: Option<Number>,
        /// Where the payload belongs in the data (RFC 8684 section 3.3.1).
        mapping: Option<Mapping>,
        /// Flag F: the data end with this mapping, whose last number is the DATA_FIN's
        /// (RFC 8684 section 3.3.3).
        data_fin: bool,
    },
    /// ADD_ADDR: the sender has another address (RFC 8684 section 3.4.1).
    AddAddr {
        /// With an HMAC, as an echo, or in version 0's form.
        announcement: Announcement,
        /// The sender's number for the address, by which REMOVE_ADDR and MP_PRIO name it.
        address_id: u8,
        /// To which the receiver may open a subflow.
        address: IpAddr,
        /// TCP port; none stands for the port of the subflow on which the option came.
        port: Option<u16>,
    },
    /// REMOVE_ADDR (RFC 8684 section 3.4.2), of at least one address.
    RemoveAddr {
        /// Of the addresses that the sender has no more; at most 37 have room.
        address_ids: Inline<37>,
    },
    /// MP_PRIO (RFC 8684 section 3.3.8). The address is told in version 0 only
    /// (RFC 6824 section 3.3.8).
    Prio {
        /// Flag B: from now on the peer may send here only if no other subflow works; false takes
        /// that back.
        backup: bool,
        /// Whose subflows change; none means the subflow on which the option came.
        address_id: Option<u8>,
    },
    /// MP_FAIL: a DSS checksum did not match (RFC 8684 section 3.7).
    Fail {
        /// Data sequence number, 64 bits, at which the mapping with that checksum begins.
        dsn: u64,
    },
    /// MP_FASTCLOSE: the sender gives the whole connection up (RFC 8684 section 3.5).
    FastClose {
        /// Key of who receives the option, which proves that its peer sent it.
        receiver_key: u64,
    },
    /// MP_TCPRST: why the segment resets its subflow (RFC 8684 section 3.6).
    TcpRst {
        /// U, V, W, T, the four bits behind the subtype: 1 is T, the condition is transient.
        flags: u8,
        /// 0 to 6 in RFC 8684 section 3.6.
        reason: u8,
    },
    /// A subtype that RFC 8684 does not define.
    Unknown {
        /// 9 to 15 from `parse`, which has a variant for each that is less.
        subtype: u8,
        /// The four bits behind the subtype.
        nibble: u8,
        /// What stands behind them, as on the wire.
        data: Inline<37>,
    },
}

impl Repr {
    /// DSS checksums are wanted (flag A of MP_CAPABLE).
    pub const CHECKSUM: u8 = 0x80;
    /// An extension is needed that RFC 8684 does not define (flag B of MP_CAPABLE).
    pub const EXTENSIBILITY: u8 = 0x40;
    /// HMAC-SHA1 in version 0, HMAC-SHA256 in version 1 (flag H of MP_CAPABLE).
    pub const HASH: u8 = 0x01;

    /// Why a RST is sent: for no reason that the others name (RFC 8684 section 3.6).
    pub const RST_UNSPECIFIED: u8 = 0;
    /// An error in the MPTCP options of the peer (RFC 8684 section 3.6).
    pub const RST_MPTCP_ERROR: u8 = 1;
    /// A middlebox interferes.
    pub const RST_MIDDLEBOX: u8 = 6;

    /// Reads an option. Reserved bits are ignored.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self> {
        let (nibble, mut data) = (packet.nibble(), Reader(packet.data()));
        let length = packet.option_len();
        let wrong = Err(Error::Malformed("mptcp length"));
        Ok(match (packet.subtype(), length) {
            (MP_CAPABLE, _) => return parse_capable(nibble, length, data),
            (MP_JOIN, 12) => {
                Self::JoinSyn { backup: nibble & BACKUP != 0, address_id: data.byte()?, token: data.word()?, nonce: data.word()? }
            }
            (MP_JOIN, 16) => {
                Self::JoinSynAck { backup: nibble & BACKUP != 0, address_id: data.byte()?, hmac: data.long()?, nonce: data.word()? }
            }
            (MP_JOIN, 24) => {
                data.byte()?;
                Self::JoinAck { hmac: data.array()? }
            }
            (DSS, _) => {
                let (ack, mapping, data_fin) = dss::parse(data)?;
                Self::Dss { ack, mapping, data_fin }
            }
            (ADD_ADDR, _) => return parse_add_addr(nibble, length, data),
            (REMOVE_ADDR, 4..) => Self::RemoveAddr { address_ids: Inline::from_slice(data.0).ok_or(Error::TooLong("address ids"))? },
            (MP_PRIO, 3) => Self::Prio { backup: nibble & BACKUP != 0, address_id: None },
            (MP_PRIO, 4) => Self::Prio { backup: nibble & BACKUP != 0, address_id: Some(data.byte()?) },
            (MP_FAIL, 12) => {
                data.byte()?;
                Self::Fail { dsn: data.long()? }
            }
            (MP_FASTCLOSE, 12) => {
                data.byte()?;
                Self::FastClose { receiver_key: data.long()? }
            }
            (MP_TCPRST, 4) => Self::TcpRst { flags: nibble, reason: data.byte()? },
            (MP_JOIN | REMOVE_ADDR | MP_PRIO | MP_FAIL | MP_FASTCLOSE | MP_TCPRST, _) => return wrong,
            (subtype, _) => Self::Unknown { subtype, nibble, data: Inline::from_slice(data.0).ok_or(Error::TooLong("mptcp option"))? },
        })
    }

    /// Bytes of the option.
    pub fn buffer_len(&self) -> usize {
        match self {
            Self::Capable { keys, .. } => match keys {
                Keys::None => 4,
                Keys::Sender(_) => 12,
                Keys::Both { data: None, .. } => 20,
                Keys::Both { data: Some(data), .. } => 22 + 2 * usize::from(data.checksum.is_some()),
            },
            Self::JoinSyn { .. } | Self::Fail { .. } | Self::FastClose { .. } => 12,
            Self::JoinSynAck { .. } => 16,
            Self::JoinAck { .. } => 24,
            Self::Dss { ack, mapping, .. } => {
                let mapping = mapping.map_or(0, |m| m.dsn.len() + 6 + 2 * usize::from(m.checksum.is_some()));
                4 + ack.map_or(0, Number::len) + mapping
            }
            Self::AddAddr { announcement, address, port, .. } => {
                let address = if address.is_ipv4() { 4 } else { 16 };
                let hmac = if matches!(announcement, Announcement::Authenticated { .. }) { 8 } else { 0 };
                4 + address + 2 * usize::from(port.is_some()) + hmac
            }
            Self::RemoveAddr { address_ids } => 3 + address_ids.len(),
            Self::Prio { address_id, .. } => 3 + usize::from(address_id.is_some()),
            Self::TcpRst { .. } => 4,
            Self::Unknown { data, .. } => 3 + data.len(),
        }
    }

    /// Writes the option, without padding.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than the option; `Malformed` for a value that no
    /// receiver would understand.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let length = self.buffer_len();
        let option = buffer.get_mut(..length).ok_or(Error::Truncated)?;
        let (subtype, nibble) = self.head()?;
        let mut out = Writer::new(option);
        out.put(&[KIND, length as u8, subtype << 4 | nibble & 15]);
        match *self {
            Self::Capable { flags, keys, .. } => {
                out.put(&[flags]);
                emit_keys(keys, &mut out);
            }
            Self::JoinSyn { address_id, token, nonce, .. } => {
                out.put(&[address_id]);
                out.put(&token.to_be_bytes());
                out.put(&nonce.to_be_bytes());
            }
            Self::JoinSynAck { address_id, hmac, nonce, .. } => {
                out.put(&[address_id]);
                out.put(&hmac.to_be_bytes());
                out.put(&nonce.to_be_bytes());
            }
            Self::JoinAck { hmac } => {
                out.put(&[0]);
                out.put(&hmac);
            }
            Self::Dss { ack, mapping, data_fin } => dss::emit(ack, mapping, data_fin, &mut out),
            Self::AddAddr { announcement, address_id, address, port } => {
                out.put(&[address_id]);
                match address {
                    IpAddr::V4(address) => out.put(&address.octets()),
                    IpAddr::V6(address) => out.put(&address.octets()),
                }
                port.into_iter().for_each(|port| out.put(&port.to_be_bytes()));
                if let Announcement::Authenticated { hmac } = announcement {
                    out.put(&hmac.to_be_bytes());
                }
            }
            Self::RemoveAddr { address_ids } => out.put(&address_ids),
            Self::Prio { address_id, .. } => address_id.into_iter().for_each(|id| out.put(&[id])),
            Self::Fail { dsn: number } | Self::FastClose { receiver_key: number } => {
                out.put(&[0]);
                out.put(&number.to_be_bytes());
            }
            Self::TcpRst { reason, .. } => out.put(&[reason]),
            Self::Unknown { data, .. } => out.put(&data),
        }
        Ok(())
    }

    /// Subtype and the four bits behind it.
    fn head(&self) -> Result<(u8, u8)> {
        Ok(match *self {
            Self::Capable { version, .. } => (MP_CAPABLE, version),
            Self::JoinSyn { backup, .. } | Self::JoinSynAck { backup, .. } => (MP_JOIN, u8::from(backup)),
            Self::JoinAck { .. } => (MP_JOIN, 0),
            Self::Dss { .. } => (DSS, 0),
            Self::AddAddr { announcement: Announcement::Echo, .. } => (ADD_ADDR, ECHO),
            Self::AddAddr { announcement: Announcement::V0, address, .. } => (ADD_ADDR, if address.is_ipv4() { 4 } else { 6 }),
            Self::AddAddr { .. } => (ADD_ADDR, 0),
            Self::RemoveAddr { address_ids } if address_ids.is_empty() => return Err(Error::Malformed("address ids")),
            Self::RemoveAddr { .. } => (REMOVE_ADDR, 0),
            Self::Prio { backup, .. } => (MP_PRIO, u8::from(backup)),
            Self::Fail { .. } => (MP_FAIL, 0),
            Self::FastClose { .. } => (MP_FASTCLOSE, 0),
            Self::TcpRst { flags, .. } => (MP_TCPRST, flags),
            Self::Unknown { subtype, nibble, .. } => (subtype, nibble),
        })
    }
}

/// RFC 8684 section 3.1: the length tells which keys there are.
fn parse_capable(version: u8, length: usize, mut data: Reader<'_>) -> Result<Repr> {
    let flags = data.byte()?;
    let keys = match length {
        4 => Keys::None,
        12 => Keys::Sender(data.long()?),
        20 | 22 | 24 => {
            let (sender, receiver) = (data.long()?, data.long()?);
            let first = |data: &mut Reader<'_>| {
                Ok::<_, Error>(FirstData { len: data.short()?, checksum: if length == 24 { Some(data.short()?) } else { None } })
            };
            Keys::Both { sender, receiver, data: if length == 20 { None } else { Some(first(&mut data)?) } }
        }
        _ => return Err(Error::Malformed("mptcp length")),
    };
    Ok(Repr::Capable { version, flags, keys })
}

fn emit_keys(keys: Keys, out: &mut Writer<'_>) {
    match keys {
        Keys::None => {}
        Keys::Sender(key) => out.put(&key.to_be_bytes()),
        Keys::Both { sender, receiver, data } => {
            out.put(&sender.to_be_bytes());
            out.put(&receiver.to_be_bytes());
            if let Some(data) = data {
                out.put(&data.len.to_be_bytes());
                data.checksum.into_iter().for_each(|checksum| out.put(&checksum.to_be_bytes()));
            }
        }
    }
}

/// The length tells family, port and HMAC; an option without HMAC is an echo
/// (RFC 8684 section 3.4.1) or of version 0, whose nibble is the family (RFC 6824 section 3.4.1).
fn parse_add_addr(nibble: u8, length: usize, mut data: Reader<'_>) -> Result<Repr> {
    let (is_v4, port, hmac) = match length {
        8 => (true, false, false),
        10 => (true, true, false),
        16 => (true, false, true),
        18 => (true, true, true),
        20 => (false, false, false),
        22 => (false, true, false),
        28 => (false, false, true),
        30 => (false, true, true),
        _ => return Err(Error::Malformed("mptcp length")),
    };
    let address_id = data.byte()?;
    let address = if is_v4 { IpAddr::from(data.array::<4>()?) } else { IpAddr::from(data.array::<16>()?) };
    let port = if port { Some(data.short()?) } else { None };
    let announcement = match (hmac, nibble & ECHO != 0) {
        (true, false) => Announcement::Authenticated { hmac: data.long()? },
        (false, true) => Announcement::Echo,
        (false, false) if nibble == if is_v4 { 4 } else { 6 } => Announcement::V0,
        _ => return Err(Error::Malformed("add_addr echo")),
    };
    Ok(Repr::AddAddr { announcement, address_id, address, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn bytes(repr: &Repr) -> Vec<u8> {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes).unwrap();
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Repr> {
        Repr::parse(&Packet::new_checked(bytes)?)
    }

    #[test]
    fn options_look_as_the_figures_of_rfc_8684_say() {
        let syn = Repr::Capable { version: 1, flags: Repr::HASH, keys: Keys::None };
        assert_eq!(bytes(&syn), [30, 4, 0x01, 0x01]);
        let join = Repr::JoinSyn { backup: true, address_id: 2, token: 0x0102_0304, nonce: 5 };
        assert_eq!(bytes(&join), [30, 12, 0x11, 2, 1, 2, 3, 4, 0, 0, 0, 5]);
        let fin = Mapping { dsn: Number::Short(9), ssn: 0, len: 1, checksum: None };
        let dss = Repr::Dss { ack: Some(Number::Long(3)), mapping: Some(fin), data_fin: true };
        assert_eq!(bytes(&dss), [30, 22, 0x20, 0x17, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 1]);
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let echo = Repr::AddAddr { announcement: Announcement::Echo, address_id: 1, address, port: Some(80) };
        assert_eq!(bytes(&echo), [30, 10, 0x31, 1, 10, 0, 0, 1, 0, 80]);
        let v0 = Repr::AddAddr { announcement: Announcement::V0, address_id: 1, address, port: None };
        assert_eq!(bytes(&v0), [30, 8, 0x34, 1, 10, 0, 0, 1]);
        assert_eq!(bytes(&Repr::Prio { backup: true, address_id: None }), [30, 3, 0x51]);
    }

    #[test]
    fn an_option_of_another_length_is_refused() {
        for wrong in [&[30, 5, 0x01, 0, 0][..], &[30, 13, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[30, 5, 0x20, 0x01, 0], &[30, 3, 0x40]] {
            assert_eq!(parse(wrong), Err(Error::Malformed("mptcp length")), "{wrong:?}");
        }
        assert_eq!(parse(&[30, 9, 0x01]), Err(Error::Truncated));
        assert_eq!(parse(&[30, 2, 0x01]), Err(Error::Malformed("mptcp length")));
        // An announcement of version 1 has its HMAC, an echo none.
        assert_eq!(parse(&[30, 8, 0x30, 1, 10, 0, 0, 1]), Err(Error::Malformed("add_addr echo")));
    }
}
