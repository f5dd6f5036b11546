//! The bytes of a simulated segment, and the segment of bytes.
//!
//! A [`Segment`] has no addresses, ports and payload, and keeps two MPTCP options in part: of an MP_JOIN's 160 bits of HMAC the first 64,
//! and of an ADD_ADDR neither address nor HMAC. These the caller gives, in an [`Envelope`].

use crate::checksum::Addresses;
use crate::error::{Error, Result};
use crate::mptcp::{self, FirstData, Keys, Mapping, Number, dss_checksum};
use crate::segment::{Dss, Flags, MpOption, Segment};
use crate::{ipv4, tcp};
use polypath_base::DataSeq;
use std::net::SocketAddrV4;
use std::num::NonZeroU64;

/// What stands around a segment in its packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub source: SocketAddrV4,
    pub destination: SocketAddrV4,
    /// The IP header's identification.
    pub ident: u16,
    /// The whole option where the segment keeps a part of it: MP_JOIN on a third ACK, ADD_ADDR.
    pub option: Option<mptcp::Repr>,
}

impl Envelope {
    fn addresses(&self) -> Addresses {
        Addresses::V4 { source: *self.source.ip(), destination: *self.destination.ip() }
    }
}

impl Segment {
    /// The IPv4 packet; as long as [`Segment::ip_len`] says.
    ///
    /// # Errors
    /// `TooLong` if the options need more than 40 bytes; `Malformed` if the payload is not `len` bytes long, a DSS checksum is wanted for a
    /// mapping that is longer than this payload, or the envelope lacks the option that the segment keeps in part.
    pub fn to_bytes(&self, envelope: &Envelope, payload: &[u8]) -> Result<Vec<u8>> {
        if payload.len() != self.len as usize {
            return Err(Error::Malformed("payload length"));
        }
        let is_syn = self.flags.has(Flags::SYN);
        let mut header = tcp::Repr {
            source_port: envelope.source.port(),
            destination_port: envelope.destination.port(),
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            mss: (is_syn && self.mss != 0).then_some(self.mss),
            window_scale: (is_syn && self.window_scale != 255).then_some(self.window_scale),
            sack_permitted: is_syn && self.sack_permitted,
            timestamps: self.has_ts.then_some(tcp::Timestamps { value: self.ts_val, echo: self.ts_ecr }),
            sack: self.sack,
            payload_len: payload.len(),
            ..tcp::Repr::default()
        };
        // RFC 8684 section 3.1: with data, MP_CAPABLE carries the mapping and stands in for the DSS option.
        let carries_mapping = matches!(self.mp, MpOption::Capable { .. }) && self.len > 0;
        let dss = if self.has_dss && !carries_mapping { Some(self.dss.option(payload)?) } else { None };
        for option in [dss, self.option(envelope, payload)?].into_iter().flatten() {
            header.mptcp.push(option);
        }
        let ip = ipv4::Repr {
            source: *envelope.source.ip(),
            destination: *envelope.destination.ip(),
            protocol: tcp::PROTOCOL,
            ecn: self.ecn,
            ident: envelope.ident,
            dont_fragment: self.df,
            payload_len: header.buffer_len(),
            ..ipv4::Repr::default()
        };
        let mut bytes = vec![0; ip.header_len() + header.header_len()];
        bytes.extend_from_slice(payload);
        header.emit(&mut bytes[ip.header_len()..], &envelope.addresses())?;
        ip.emit(&mut bytes)?;
        Ok(bytes)
    }

    /// The option besides the DSS.
    fn option(&self, envelope: &Envelope, payload: &[u8]) -> Result<Option<mptcp::Repr>> {
        use mptcp::Repr;
        let given = |fits: fn(&Repr) -> bool, what| envelope.option.filter(fits).ok_or(Error::Malformed(what));
        Ok(Some(match self.mp {
            MpOption::None => return Ok(None),
            MpOption::Capable { version, sender_key, receiver_key, checksum } => {
                let flags = Repr::HASH | if checksum { Repr::CHECKSUM } else { 0 };
                let sum = || dss_checksum(self.dss.dsn, self.dss.ssn, self.dss.map_len, payload);
                let data = FirstData { len: self.dss.map_len, checksum: checksum.then(sum) };
                let keys = match receiver_key {
                    Some(receiver) => {
                        Keys::Both { sender: sender_key, receiver: receiver.get(), data: (!payload.is_empty()).then_some(data) }
                    }
                    None if sender_key == 0 => Keys::None,
                    None => Keys::Sender(sender_key),
                };
                Repr::Capable { version, flags, keys }
            }
            MpOption::JoinSyn { token, nonce, address_id, backup } => Repr::JoinSyn { backup, address_id, token, nonce },
            MpOption::JoinSynAck { hmac, nonce, address_id, backup } => Repr::JoinSynAck { backup, address_id, hmac, nonce },
            MpOption::JoinAck { .. } => given(|option| matches!(option, Repr::JoinAck { .. }), "mp_join hmac")?,
            MpOption::AddAddr { .. } => given(|option| matches!(option, Repr::AddAddr { .. }), "add_addr address")?,
            MpOption::RemoveAddr { address_id } => {
                Repr::RemoveAddr { address_ids: crate::Inline::from_slice(&[address_id]).unwrap_or_default() }
            }
            MpOption::Prio { backup } => Repr::Prio { backup, address_id: None },
            MpOption::Fail { dsn } => Repr::Fail { dsn: dsn.get() },
            MpOption::FastClose { receiver_key } => Repr::FastClose { receiver_key },
            MpOption::Rst { reason, transient } => Repr::TcpRst { flags: u8::from(transient), reason },
        }))
    }

    /// Envelope, segment and payload of a packet whose checksums are right. Data sequence numbers of four bytes are as on the wire
    /// ([`Number::expand`]). MP_CAPABLE with data tells no sequence numbers: those of the first byte follow from its keys.
    ///
    /// # Errors
    /// If the bytes are no whole IPv4 packet with a TCP segment.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Envelope, Self, &[u8])> {
        let packet = ipv4::Packet::new_checked(bytes)?;
        let ip = ipv4::Repr::parse(&packet)?;
        if ip.protocol != tcp::PROTOCOL || ip.more_fragments || ip.fragment_offset != 0 {
            return Err(Error::Malformed("no whole tcp segment"));
        }
        // `new_checked` has compared both with the bytes that are there.
        let inner = &bytes[packet.header_len()..packet.total_len()];
        let view = tcp::Packet::new_checked(inner)?;
        let header = tcp::Repr::parse(&view, &packet.addresses())?;
        let payload = &inner[view.header_len()..];
        let mut envelope = Envelope {
            source: SocketAddrV4::new(ip.source, header.source_port),
            destination: SocketAddrV4::new(ip.destination, header.destination_port),
            ident: ip.ident,
            option: None,
        };
        let timestamps = header.timestamps.unwrap_or_default();
        let mut segment = Self {
            seq: header.seq,
            ack: header.ack,
            len: payload.len() as u32,
            ts_val: timestamps.value,
            ts_ecr: timestamps.echo,
            has_ts: header.timestamps.is_some(),
            window: header.window,
            flags: header.flags,
            ecn: ip.ecn,
            df: ip.dont_fragment,
            mss: header.mss.unwrap_or(0),
            window_scale: header.window_scale.unwrap_or(255),
            sack_permitted: header.sack_permitted,
            sack: header.sack,
            ..Self::default()
        };
        for option in header.mptcp.iter() {
            segment.take_option(option, &mut envelope);
        }
        Ok((envelope, segment, payload))
    }

    fn take_option(&mut self, option: &mptcp::Repr, envelope: &mut Envelope) {
        use mptcp::Repr;
        self.mp = match *option {
            Repr::Dss { ack, mapping, data_fin } => {
                self.has_dss = true;
                self.dss = Dss::read(ack, mapping, data_fin);
                return;
            }
            Repr::Capable { version, flags, keys } => {
                let checksum = flags & Repr::CHECKSUM != 0;
                let (sender_key, receiver_key) = match keys {
                    Keys::None => (0, None),
                    Keys::Sender(sender) => (sender, None),
                    Keys::Both { sender, receiver, .. } => (sender, NonZeroU64::new(receiver)),
                };
                if let Keys::Both { sender, receiver, data: Some(data) } = keys {
                    let first = |key| mptcp::Version::V1.token_and_idsn(key).1 + 1;
                    let mapping = Mapping { dsn: Number::Long(first(sender).get()), ssn: 1, len: data.len, checksum: data.checksum };
                    self.has_dss = true;
                    self.dss = Dss::read(Some(Number::Short(first(receiver).get() as u32)), Some(mapping), false);
                    self.dss.data_ack = first(receiver);
                }
                MpOption::Capable { version, sender_key, receiver_key, checksum }
            }
            Repr::JoinSyn { backup, address_id, token, nonce } => MpOption::JoinSyn { token, nonce, address_id, backup },
            Repr::JoinSynAck { backup, address_id, hmac, nonce } => MpOption::JoinSynAck { hmac, nonce, address_id, backup },
            Repr::JoinAck { hmac: [a, b, c, d, e, f, g, h, ..] } => {
                envelope.option = Some(*option);
                MpOption::JoinAck { hmac: u64::from_be_bytes([a, b, c, d, e, f, g, h]) }
            }
            Repr::AddAddr { announcement, address_id, port, .. } => {
                envelope.option = Some(*option);
                let echo = announcement == mptcp::Announcement::Echo;
                MpOption::AddAddr { address_id, address: u32::from(address_id), port: port.unwrap_or(0), echo }
            }
            Repr::RemoveAddr { address_ids } => MpOption::RemoveAddr { address_id: address_ids.first().copied().unwrap_or(0) },
            Repr::Prio { backup, .. } => MpOption::Prio { backup },
            Repr::Fail { dsn } => MpOption::Fail { dsn: DataSeq::new(dsn) },
            Repr::FastClose { receiver_key } => MpOption::FastClose { receiver_key },
            Repr::TcpRst { flags, reason } => MpOption::Rst { reason, transient: flags & 1 != 0 },
            Repr::Unknown { .. } => return,
        };
    }
}

impl Dss {
    fn option(&self, payload: &[u8]) -> Result<mptcp::Repr> {
        let number = |number: DataSeq, long: bool| if long { Number::Long(number.get()) } else { Number::Short(number.get() as u32) };
        let mapped = usize::from(self.map_len) - usize::from(self.data_fin && self.map_len > 0);
        if self.checksum && self.map_len > 0 && mapped != payload.len() {
            return Err(Error::Malformed("dss checksum"));
        }
        let mapping = (self.map_len > 0).then(|| Mapping {
            dsn: number(self.dsn, self.dsn64),
            ssn: self.ssn,
            len: self.map_len,
            checksum: self.checksum.then(|| dss_checksum(self.dsn, self.ssn, self.map_len, payload)),
        });
        Ok(mptcp::Repr::Dss { ack: self.has_ack.then(|| number(self.data_ack, self.ack64)), mapping, data_fin: self.data_fin })
    }

    fn read(ack: Option<Number>, mapping: Option<Mapping>, data_fin: bool) -> Self {
        let long = |number: Number| matches!(number, Number::Long(_));
        let value = |number: Number| number.expand(DataSeq::new(0x8000_0000));
        let mut dss = Self { has_ack: ack.is_some(), ack64: ack.is_some_and(long), data_fin, ..Self::default() };
        dss.data_ack = ack.map_or(dss.data_ack, value);
        if let Some(mapping) = mapping {
            dss.dsn = value(mapping.dsn);
            (dss.ssn, dss.map_len) = (mapping.ssn, mapping.len);
            (dss.dsn64, dss.checksum) = (long(mapping.dsn), mapping.checksum.is_some());
        }
        dss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Sack, SackBlock};
    use polypath_base::Seq;
    use std::net::Ipv4Addr;

    const ENVELOPE: Envelope = Envelope {
        source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4000),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 5000),
        ident: 7,
        option: None,
    };

    fn there_and_back(segment: &Segment, envelope: &Envelope) {
        let payload: Vec<u8> = (0..segment.len).map(|i| i as u8).collect();
        let bytes = segment.to_bytes(envelope, &payload).unwrap();
        assert_eq!(bytes.len(), segment.ip_len() as usize, "{segment:?}");
        assert_eq!(Segment::from_bytes(&bytes), Ok((*envelope, *segment, &payload[..])));
    }

    fn data(len: u32) -> Segment {
        let seq = Seq::new(u32::MAX - 3);
        Segment {
            seq,
            len,
            flags: Flags::ACK,
            window: 9,
            window_scale: 255,
            has_ts: true,
            ts_val: 5,
            ts_ecr: 6,
            df: true,
            ..Segment::default()
        }
    }

    #[test]
    fn segments_survive_and_have_their_length() {
        there_and_back(&data(1448), &ENVELOPE);
        let syn = Segment { flags: Flags::SYN, mss: 1460, window_scale: 7, sack_permitted: true, ..data(0) };
        there_and_back(&syn, &ENVELOPE);
        there_and_back(&Segment { has_ts: false, ts_val: 0, ts_ecr: 0, ..syn }, &ENVELOPE);
        let mut sack = Sack::default();
        assert!((1..4).all(|i| sack.push(SackBlock { start: Seq::new(i), end: Seq::new(i + 1) })));
        there_and_back(&Segment { sack, ecn: 3, ..data(0) }, &ENVELOPE);
    }

    #[test]
    fn dss_options_of_every_size_survive() {
        for bits in 0..32_u32 {
            let bit = |n: u32| bits >> n & 1 == 1;
            let data_ack = DataSeq::new(if bit(1) { 1 << 40 } else { 77 });
            let ack = if bit(0) { Dss { has_ack: true, ack64: bit(1), data_ack, ..Dss::default() } } else { Dss::default() };
            let dsn = DataSeq::new(if bit(2) { 1 << 41 } else { 78 });
            let fin = u16::from(bit(4));
            let dss = Dss { dsn, dsn64: bit(2), checksum: bit(3), map_len: 100 + fin, ssn: 1, data_fin: bit(4), ..ack };
            there_and_back(&Segment { has_dss: true, dss, ..data(100) }, &ENVELOPE);
        }
    }

    #[test]
    fn options_of_handshakes_and_paths_survive() {
        let key = NonZeroU64::new(9);
        for mp in [
            MpOption::Capable { version: 1, sender_key: 0, receiver_key: None, checksum: false },
            MpOption::Capable { version: 1, sender_key: 8, receiver_key: None, checksum: true },
            MpOption::Capable { version: 1, sender_key: 8, receiver_key: key, checksum: true },
            MpOption::JoinSyn { token: 1, nonce: 2, address_id: 3, backup: true },
            MpOption::JoinSynAck { hmac: 1, nonce: 2, address_id: 3, backup: false },
            MpOption::RemoveAddr { address_id: 4 },
            MpOption::Prio { backup: true },
            MpOption::Fail { dsn: DataSeq::new(1 << 50) },
            MpOption::FastClose { receiver_key: 5 },
            MpOption::Rst { reason: 3, transient: true },
        ] {
            there_and_back(&Segment { mp, ..data(0) }, &ENVELOPE);
        }
        let join = Segment { mp: MpOption::JoinAck { hmac: 0x0101_0101_0101_0101 }, ..data(0) };
        there_and_back(&join, &Envelope { option: Some(mptcp::Repr::JoinAck { hmac: [1; 20] }), ..ENVELOPE });
        assert_eq!(join.to_bytes(&ENVELOPE, &[]), Err(Error::Malformed("mp_join hmac")));
    }

    #[test]
    fn first_data_with_keys_survive() {
        let first = |key| mptcp::Version::V1.token_and_idsn(key).1 + 1;
        for checksum in [false, true] {
            let mp = MpOption::Capable { version: 1, sender_key: 8, receiver_key: NonZeroU64::new(9), checksum };
            let dss =
                Dss { has_ack: true, data_ack: first(9), dsn: first(8), dsn64: true, ssn: 1, map_len: 100, checksum, ..Dss::default() };
            there_and_back(&Segment { mp, has_dss: true, dss, ..data(100) }, &ENVELOPE);
        }
    }
}
