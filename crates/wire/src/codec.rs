//! The bytes of a simulated segment, and the segment of bytes.
//!
//! A [`Segment`] has no addresses, ports and payload. These the caller gives, in an [`Envelope`]
//! and beside it.

use crate::checksum::Addresses;
use crate::error::{Error, Result};
use crate::mptcp::{self, FirstData, Keys, Mapping, Number, dss_checksum};
use crate::segment::{Dss, Flags, Segment};
use crate::{ipv4, ipv6, tcp};
use polypath_base::DataSeq;
use std::net::{IpAddr, SocketAddr};

/// What stands around a segment in its packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Address and port of the sender. The family decides the packet's IP version.
    pub source: SocketAddr,
    /// Address and port of the receiver, of the same family: [`Segment::to_bytes`] refuses two.
    pub destination: SocketAddr,
    /// The IPv4 header's identification. IPv6 has none.
    pub ident: u16,
}

impl Envelope {
    fn addresses(&self) -> Result<Addresses> {
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(Addresses::V4 { source, destination }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Addresses::V6 { source, destination }),
            _ => Err(Error::Malformed("address family")),
        }
    }
}

impl Segment {
    /// The IP packet. Over IPv4 it is as long as [`Segment::ip_len`] says, over IPv6 20 bytes
    /// longer.
    ///
    /// # Errors
    /// `TooLong` if the options need more than 40 bytes; `Malformed` if the payload is not `len`
    /// bytes long, the addresses are not of one family, or a DSS checksum is wanted for a mapping
    /// of another length than this payload.
    pub fn to_bytes(&self, envelope: &Envelope, payload: &[u8]) -> Result<Vec<u8>> {
        self.to_bytes_with(envelope, payload, &[])
    }

    /// The same with further options behind the others, each with its kind and length, and with
    /// their own padding.
    ///
    /// # Errors
    /// As of [`Segment::to_bytes`].
    pub fn to_bytes_with(&self, envelope: &Envelope, payload: &[u8], options: &[u8]) -> Result<Vec<u8>> {
        if payload.len() != self.len as usize {
            return Err(Error::Malformed("payload length"));
        }
        let addresses = envelope.addresses()?;
        let mut header = self.header(envelope, payload)?;
        if !header.unknown.extend(options) {
            return Err(Error::TooLong("tcp options"));
        }
        let ip_header = match addresses {
            Addresses::V4 { .. } => ipv4::HEADER,
            Addresses::V6 { .. } => ipv6::HEADER,
        };
        let mut bytes = vec![0; ip_header + header.header_len()];
        bytes.extend_from_slice(payload);
        header.emit(&mut bytes[ip_header..], &addresses)?;
        let (ecn, payload_len) = (self.ecn, header.buffer_len());
        match addresses {
            Addresses::V4 { source, destination } => ipv4::Repr {
                source,
                destination,
                protocol: tcp::PROTOCOL,
                ecn,
                ident: envelope.ident,
                dont_fragment: self.df,
                payload_len,
                ..ipv4::Repr::default()
            }
            .emit(&mut bytes)?,
            Addresses::V6 { source, destination } => {
                ipv6::Repr { source, destination, next_header: tcp::PROTOCOL, ecn, payload_len, ..ipv6::Repr::default() }
                    .emit(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// The TCP header with its options.
    fn header(&self, envelope: &Envelope, payload: &[u8]) -> Result<tcp::Repr> {
        let is_syn = self.flags.has(Flags::SYN);
        let mut header = tcp::Repr {
            source_port: envelope.source.port(),
            destination_port: envelope.destination.port(),
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            reserved: u8::from(self.ae),
            accecn: self.mp.accecn(),
            window: self.window,
            mss: (is_syn && self.mss != 0).then_some(self.mss),
            window_scale: (is_syn && self.window_scale != 255).then_some(self.window_scale),
            sack_permitted: is_syn && self.sack_permitted,
            timestamps: self.has_ts.then_some(tcp::Timestamps { value: self.ts_val, echo: self.ts_ecr }),
            sack: crate::Sack { blocks: self.sack_blocks, len: self.sack_len },
            payload_len: payload.len(),
            ..tcp::Repr::default()
        };
        let dss = if self.has_dss && !self.carries_mapping() { Some(self.dss.option(payload)?) } else { None };
        let others = self.mp.iter().map(|option| self.with_first_data(option, payload));
        if dss.into_iter().chain(others).all(|option| header.mptcp.push(option)) {
            Ok(header)
        } else {
            Err(Error::TooLong("mptcp options"))
        }
    }

    /// RFC 8684 section 3.1: MP_CAPABLE with both keys maps the payload that comes with it.
    fn with_first_data(&self, option: mptcp::Repr, payload: &[u8]) -> mptcp::Repr {
        match option {
            mptcp::Repr::Capable { version, flags, keys: Keys::Both { sender, receiver, data: None } } if !payload.is_empty() => {
                let data = FirstData { len: self.dss.map_len, checksum: self.dss.checksum.then(|| self.dss.sum(payload)) };
                mptcp::Repr::Capable { version, flags, keys: Keys::Both { sender, receiver, data: Some(data) } }
            }
            other => other,
        }
    }

    /// Envelope, segment and payload of a packet whose checksums are right. Data sequence numbers
    /// of four bytes are as on the wire ([`Number::expand`]). MP_CAPABLE with data tells no
    /// sequence numbers: those of the first byte follow from its keys. A DSS checksum is compared
    /// if it covers this payload and nothing else ([`Dss::checksum_wrong`]).
    ///
    /// # Errors
    /// If the bytes are no whole IP packet with a TCP segment, or its MPTCP options have no room
    /// ([`crate::MpOptions::MAX_LEN`]).
    pub fn from_bytes(bytes: &[u8]) -> Result<(Envelope, Self, &[u8])> {
        let (ip, inner) = IpHeader::read(bytes)?;
        let view = tcp::Packet::new_checked(inner)?;
        let header = tcp::Repr::parse(&view, &ip.addresses)?;
        let payload = &inner[view.header_len()..];
        let (source, destination): (IpAddr, IpAddr) = match ip.addresses {
            Addresses::V4 { source, destination } => (source.into(), destination.into()),
            Addresses::V6 { source, destination } => (source.into(), destination.into()),
        };
        let envelope = Envelope {
            source: SocketAddr::new(source, header.source_port),
            destination: SocketAddr::new(destination, header.destination_port),
            ident: ip.ident,
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
            ae: header.reserved & 1 != 0,
            ecn: ip.ecn,
            df: ip.dont_fragment,
            mss: header.mss.unwrap_or(0),
            window_scale: header.window_scale.unwrap_or(255),
            sack_permitted: header.sack_permitted,
            ..Self::default()
        };
        segment.set_sack(&header.sack);
        for option in header.mptcp.iter() {
            segment.take_option(option, payload)?;
        }
        if header.accecn.is_some_and(|option| !segment.mp.set_accecn(&option)) {
            return Err(Error::TooLong("mptcp options"));
        }
        Ok((envelope, segment, payload))
    }

    fn take_option(&mut self, option: &mptcp::Repr, payload: &[u8]) -> Result<()> {
        use mptcp::Repr;
        let mut whole = *option;
        match *option {
            Repr::Dss { ack, mapping, data_fin } => {
                self.has_dss = true;
                self.dss = Dss::read(ack, mapping, data_fin, payload);
                return Ok(());
            }
            Repr::Capable { version, flags, keys: Keys::Both { sender, receiver, data: Some(data) } } => {
                let first = |key| mptcp::Version::V1.token_and_idsn(key).1 + 1;
                let mapping = Mapping { dsn: Number::Long(first(sender).get()), ssn: 1, len: data.len, checksum: data.checksum };
                self.has_dss = true;
                self.dss = Dss::read(Some(Number::Short(first(receiver).get() as u32)), Some(mapping), false, payload);
                self.dss.data_ack = first(receiver);
                whole = Repr::Capable { version, flags, keys: Keys::Both { sender, receiver, data: None } };
            }
            _ => {}
        }
        if self.mp.push(&whole) { Ok(()) } else { Err(Error::TooLong("mptcp options")) }
    }
}

/// What a segment needs to know of its IP header.
struct IpHeader {
    addresses: Addresses,
    ecn: u8,
    ident: u16,
    dont_fragment: bool,
}

impl IpHeader {
    /// The header of a packet that holds a whole TCP segment, and the segment.
    fn read(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let no_segment = Err(Error::Malformed("no whole tcp segment"));
        if bytes.first().is_some_and(|byte| byte >> 4 == 6) {
            let packet = ipv6::Packet::new_checked(bytes)?;
            if packet.next_header() != tcp::PROTOCOL {
                return no_segment;
            }
            // RFC 8200 section 4.5: only the source splits a packet, so no router does.
            let header = Self { addresses: packet.addresses(), ecn: packet.ecn(), ident: 0, dont_fragment: true };
            return Ok((header, &bytes[ipv6::HEADER..packet.total_len()]));
        }
        let packet = ipv4::Packet::new_checked(bytes)?;
        let ip = ipv4::Repr::parse(&packet)?;
        if ip.protocol != tcp::PROTOCOL || ip.more_fragments || ip.fragment_offset != 0 {
            return no_segment;
        }
        let header = Self { addresses: packet.addresses(), ecn: ip.ecn, ident: ip.ident, dont_fragment: ip.dont_fragment };
        // `new_checked` has compared both with the bytes that are there.
        Ok((header, &bytes[packet.header_len()..packet.total_len()]))
    }
}

impl Dss {
    fn option(&self, payload: &[u8]) -> Result<mptcp::Repr> {
        let number = |number: DataSeq, long: bool| if long { Number::Long(number.get()) } else { Number::Short(number.get() as u32) };
        if self.checksum && self.has_mapping() && !self.covers(payload) && payload.iter().any(|&byte| byte != 0) {
            return Err(Error::Malformed("dss checksum"));
        }
        let mapping = self.has_mapping().then(|| Mapping {
            dsn: number(self.dsn, self.dsn64),
            ssn: self.ssn,
            len: self.map_len,
            checksum: self.checksum.then(|| self.sum(payload)),
        });
        Ok(mptcp::Repr::Dss { ack: self.has_ack.then(|| number(self.data_ack, self.ack64)), mapping, data_fin: self.data_fin })
    }

    /// The mapping's data are this payload. An infinite mapping has no checksum to speak of
    /// (RFC 8684 section 3.7).
    fn covers(&self, payload: &[u8]) -> bool {
        self.infinite || usize::from(self.map_len) - usize::from(self.data_fin && self.map_len > 0) == payload.len()
    }

    /// The checksum as it stands in the option. What the mapping has beside this payload counts as
    /// zeros, as all is that programs of ours write.
    fn sum(&self, payload: &[u8]) -> u16 {
        match (self.infinite, self.checksum_wrong) {
            (true, _) => 0,
            (false, true) => !dss_checksum(self.dsn, self.ssn, self.map_len, payload),
            (false, false) => dss_checksum(self.dsn, self.ssn, self.map_len, payload),
        }
    }

    fn read(ack: Option<Number>, mapping: Option<Mapping>, data_fin: bool, payload: &[u8]) -> Self {
        let long = |number: Number| matches!(number, Number::Long(_));
        let value = |number: Number| number.expand(DataSeq::new(0x8000_0000));
        let mut dss = Self { has_ack: ack.is_some(), ack64: ack.is_some_and(long), data_fin, from_wire: true, ..Self::default() };
        dss.data_ack = ack.map_or(dss.data_ack, value);
        if let Some(mapping) = mapping {
            dss.dsn = value(mapping.dsn);
            (dss.ssn, dss.map_len, dss.infinite) = (mapping.ssn, mapping.len, mapping.len == 0);
            (dss.dsn64, dss.checksum) = (long(mapping.dsn), mapping.checksum.is_some());
            // Of a number of four bytes the upper half is not known, which the checksum covers.
            let comparable = dss.dsn64 && !dss.infinite && dss.covers(payload);
            dss.checksum_wrong = comparable && mapping.checksum.is_some_and(|sum| sum != dss.sum(payload));
        }
        dss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mptcp::{Announcement, Repr};
    use crate::segment::{MpOptions, SackBlock};
    use polypath_base::Seq;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const ENVELOPE: Envelope = Envelope {
        source: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 4000),
        destination: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 5000),
        ident: 7,
    };
    const ENVELOPE_6: Envelope = Envelope {
        source: SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1)), 4000),
        destination: SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2)), 5000),
        ident: 0,
    };

    /// Over both versions of IP.
    fn there_and_back(segment: &Segment) {
        let payload: Vec<u8> = (0..segment.len).map(|i| i as u8).collect();
        let expected = Segment { dss: Dss { from_wire: segment.has_dss, ..segment.dss }, ..*segment };
        for (envelope, more) in [(ENVELOPE, 0), (ENVELOPE_6, 20)] {
            let bytes = segment.to_bytes(&envelope, &payload).unwrap();
            assert_eq!(bytes.len(), segment.ip_len() as usize + more, "{segment:?}");
            assert_eq!(Segment::from_bytes(&bytes), Ok((envelope, expected, &payload[..])));
        }
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
        there_and_back(&data(1448));
        let syn = Segment { flags: Flags::SYN, mss: 1460, window_scale: 7, sack_permitted: true, ..data(0) };
        there_and_back(&syn);
        there_and_back(&Segment { has_ts: false, ts_val: 0, ts_ecr: 0, ..syn });
        let mut with_sack = Segment { ecn: 3, ..data(0) };
        assert!((1..4).all(|i| with_sack.push_sack(SackBlock { start: Seq::new(i), end: Seq::new(i + 1) })));
        there_and_back(&with_sack);
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
            there_and_back(&Segment { has_dss: true, dss, ..data(100) });
        }
    }

    #[test]
    fn mappings_without_an_end_and_wrong_checksums_survive() {
        let dss = Dss { has_ack: true, dsn: DataSeq::new(9), dsn64: true, ssn: 1, ..Dss::default() };
        for checksum in [false, true] {
            let infinite = Dss { infinite: true, checksum, ..dss };
            there_and_back(&Segment { has_dss: true, dss: infinite, ..data(100) });
        }
        let mut wrong = Segment { has_dss: true, dss: Dss { map_len: 100, checksum: true, ..dss }, ..data(100) };
        there_and_back(&wrong);
        wrong.dss.checksum_wrong = true;
        there_and_back(&wrong);
    }

    #[test]
    fn every_option_survives_whole() {
        let both = Keys::Both { sender: 8, receiver: 9, data: None };
        let announced = |address: IpAddr, port| Repr::AddAddr {
            announcement: Announcement::Authenticated { hmac: 0x0102_0304_0506_0708 },
            address_id: 200,
            address,
            port,
        };
        let many = Repr::RemoveAddr { address_ids: crate::Inline::from_slice(&[1, 2, 3, 254]).unwrap() };
        for option in [
            Repr::Capable { version: 1, flags: Repr::HASH, keys: Keys::None },
            Repr::Capable { version: 1, flags: Repr::HASH | Repr::CHECKSUM, keys: Keys::Sender(8) },
            Repr::Capable { version: 1, flags: 0x20 | Repr::HASH, keys: both },
            Repr::JoinSyn { token: 1, nonce: 2, address_id: 3, backup: true },
            Repr::JoinSynAck { hmac: 1, nonce: 2, address_id: 3, backup: false },
            Repr::JoinAck { hmac: std::array::from_fn(|i| i as u8) },
            announced(ENVELOPE.source.ip(), None),
            announced(ENVELOPE.source.ip(), Some(6000)),
            announced(ENVELOPE_6.source.ip(), None),
            Repr::AddAddr { announcement: Announcement::Echo, address_id: 4, address: ENVELOPE_6.source.ip(), port: Some(5) },
            Repr::AddAddr { announcement: Announcement::V0, address_id: 4, address: ENVELOPE.source.ip(), port: None },
            many,
            Repr::Prio { backup: true, address_id: Some(3) },
            Repr::Fail { dsn: 1 << 50 },
            Repr::FastClose { receiver_key: 5 },
            Repr::TcpRst { flags: 9, reason: 3 },
            Repr::Unknown { subtype: 15, nibble: 1, data: crate::Inline::from_slice(b"abc").unwrap() },
        ] {
            there_and_back(&Segment { mp: option.into(), ..data(0) });
        }
        // An IPv6 address with port leaves no room for timestamps.
        let longest = Segment { has_ts: false, ts_val: 0, ts_ecr: 0, ..data(0) };
        there_and_back(&Segment { mp: announced(ENVELOPE_6.source.ip(), Some(1)).into(), ..longest });
    }

    #[test]
    fn options_of_linux_share_a_segment() {
        let dss = Dss { has_ack: true, ack64: true, data_ack: DataSeq::new(1 << 40), ..Dss::default() };
        let mut close = MpOptions::from(Repr::FastClose { receiver_key: 5 });
        assert!(close.push(&Repr::TcpRst { flags: 0, reason: 2 }));
        there_and_back(&Segment { mp: close, flags: Flags::RST.with(Flags::ACK), ..data(0) });
        let echo = Repr::AddAddr { announcement: Announcement::Echo, address_id: 4, address: ENVELOPE.source.ip(), port: None };
        for option in [echo, Repr::Prio { backup: true, address_id: None }, Repr::Fail { dsn: 7 }] {
            there_and_back(&Segment { mp: option.into(), has_dss: true, dss, ..data(0) });
        }
    }

    #[test]
    fn accurate_ecn_survives() {
        for ace in 0..8 {
            let mut segment = data(100);
            segment.set_ace(ace);
            there_and_back(&segment);
            let counters = [0xff_ffff, 0, 1449];
            assert!(segment.mp.set_accecn(&crate::accecn::Repr { ect_1_first: ace & 1 != 0, len: 3, counters }));
            there_and_back(&segment);
            assert!(segment.push_sack(SackBlock { start: Seq::new(1), end: Seq::new(9) }));
            there_and_back(&segment);
        }
    }

    #[test]
    fn addresses_of_two_families_are_no_packet() {
        let mixed = Envelope { destination: ENVELOPE_6.destination, ..ENVELOPE };
        assert_eq!(data(0).to_bytes(&mixed, &[]), Err(Error::Malformed("address family")));
    }

    #[test]
    fn first_data_with_keys_survive() {
        let first = |key| mptcp::Version::V1.token_and_idsn(key).1 + 1;
        for checksum in [false, true] {
            let flags = Repr::HASH | if checksum { Repr::CHECKSUM } else { 0 };
            let mp = Repr::Capable { version: 1, flags, keys: Keys::Both { sender: 8, receiver: 9, data: None } }.into();
            let dss =
                Dss { has_ack: true, data_ack: first(9), dsn: first(8), dsn64: true, ssn: 1, map_len: 100, checksum, ..Dss::default() };
            there_and_back(&Segment { mp, has_dss: true, dss, ..data(100) });
        }
    }
}
