//! What stands between UDP and the packets of the host: a GRE header, as MPT or as RFC 8086 has it.
//!
//! Whatever has come from the network is read here and nowhere else. Nothing of it can panic, and
//! what is not the peer's is refused with the reason. What stands here is the plain datagram:
//! [`crate::encryption`] has decrypted it before, if the tunnel is encrypted.

use polypath_base::{Seq, counters};
use polypath_tunnel::{Parity, Probe, Report};
use polypath_wire::{Error, gre, mpt, parity, probe, report};
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::Range;

/// Whose form a datagram has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// MPT's: port 23456 at both ends.
    #[default]
    Mpt,
    /// RFC 8086's: port 4754, entropy in the source port.
    Rfc8086,
}

/// The form of a tunnel's datagrams.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Encapsulation {
    pub framing: Framing,
    /// RFC 2890.
    pub key: Option<u32>,
    /// Packets carry sequence numbers (RFC 2890).
    pub numbered: bool,
}

/// What a datagram of the peer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A packet: where it stands in the datagram.
    Packet {
        seq: Option<Seq>,
        at: Range<usize>,
    },
    Keepalive,
    Report(Report),
    Probe(Probe),
    /// A parity: where its symbol stands in the datagram.
    Parity {
        parity: Parity,
        at: Range<usize>,
    },
}

counters! {
    /// Datagrams that were dropped, by reason.
    pub struct Refused {
        unknown_address: Packets, "datagrams that came from an address that is not the path's";
        wrong_key: Packets, "datagrams with another key than the tunnel's, with none, or with one where the tunnel has none";
        wrong_checksum: Packets, "datagrams whose GRE checksum is wrong";
        malformed: Packets, "datagrams that are no GRE, no IP packet, no keepalive, report, probe or parity";
        too_long: Packets, "datagrams whose packet is longer than the tunnel's MTU";
        foreign_source: Packets, "packets whose own source address is not in tunnel.allowed_ips";
        not_authentic: Packets, "datagrams that were not encrypted with the other end's keys, or changed on their path";
        replayed: Packets, "encrypted datagrams that had come before, or came too late to tell";
        wrong_path: Packets, "encrypted datagrams that came on another path than they were sent on: somebody moved them, or the files of both ends have their paths in another order";
        no_session: Packets, "encrypted datagrams of a session that this end does not know: the other end learns of it by a new one";
        busy: Packets, "handshakes beyond what is looked at in a second";
    }
}

/// Why a datagram is dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    UnknownAddress,
    WrongKey,
    WrongChecksum,
    Malformed,
    TooLong,
    ForeignSource,
    NotAuthentic,
    Replayed,
    WrongPath,
    NoSession,
    Busy,
}

impl Refused {
    pub fn count(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::UnknownAddress => &mut self.unknown_address,
            Refusal::WrongKey => &mut self.wrong_key,
            Refusal::WrongChecksum => &mut self.wrong_checksum,
            Refusal::Malformed => &mut self.malformed,
            Refusal::TooLong => &mut self.too_long,
            Refusal::ForeignSource => &mut self.foreign_source,
            Refusal::NotAuthentic => &mut self.not_authentic,
            Refusal::Replayed => &mut self.replayed,
            Refusal::WrongPath => &mut self.wrong_path,
            Refusal::NoSession => &mut self.no_session,
            Refusal::Busy => &mut self.busy,
        } += 1;
    }
}

/// The source address of a packet that [`Encapsulation::parse`] has found.
pub fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => <[u8; 4]>::try_from(packet.get(12..16)?).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(packet.get(8..24)?).ok().map(IpAddr::from),
    }
}

/// Whether bytes are a packet of the host, of at most `mtu` bytes.
pub fn is_packet(bytes: &[u8], mtu: usize) -> Result<(), Refusal> {
    // The shortest header of the version that the packet has. The protocol field follows the
    // tunnel's version in MPT, not the packet's.
    let least = match bytes.first().map(|first| first >> 4) {
        Some(4) => 20,
        Some(6) => 40,
        _ => return Err(Refusal::Malformed),
    };
    if bytes.len() < least {
        return Err(Refusal::Malformed);
    }
    if bytes.len() > mtu { Err(Refusal::TooLong) } else { Ok(()) }
}

impl Encapsulation {
    /// Bytes in front of each packet.
    pub fn header_len(&self) -> usize {
        self.header(0, self.numbered.then_some(0)).header_len()
    }

    fn header(&self, protocol: u16, sequence: Option<u32>) -> gre::Repr {
        gre::Repr { protocol, checksum: false, key: self.key, sequence, payload_len: 0 }
    }

    /// Writes the header of a packet that begins with the byte `first`, into
    /// [`Encapsulation::header_len`] bytes.
    pub fn emit(&self, seq: Option<Seq>, first: u8, into: &mut [u8]) {
        let protocol = if first >> 4 == 6 { gre::IPV6 } else { gre::IPV4 };
        // The buffer has the header's length: `seq` is there if packets are numbered.
        let written = self.header(protocol, seq.map(Seq::get)).emit(into);
        debug_assert!(written.is_ok(), "the header has its place");
    }

    /// A keepalive, from and to these addresses of one IP version in the tunnel. It never has a
    /// number.
    pub fn keepalive(&self, source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let message = mpt::Repr { source, destination };
        let protocol = if source.is_ipv6() { gre::IPV6 } else { gre::IPV4 };
        self.unnumbered(protocol, message.buffer_len(), |into| message.emit(into))
    }

    /// A report. It never has a number.
    pub fn report(&self, report: &Report) -> Vec<u8> {
        self.unnumbered(gre::IPV4, report.buffer_len(), |into| report.emit(into))
    }

    /// A probe or the answer to one, in a datagram of `length` bytes, or as short as can be if that
    /// is longer. It never has a number.
    pub fn probe(&self, probe: &Probe, length: usize) -> Vec<u8> {
        let filled = length.saturating_sub(self.header(gre::IPV4, None).header_len());
        self.unnumbered(gre::IPV4, filled.max(probe.buffer_len()), |into| probe.emit(into))
    }

    /// A parity. It never has a number.
    pub fn parity(&self, parity: &Parity, symbol: &[u8]) -> Vec<u8> {
        self.unnumbered(gre::IPV4, parity.header_len() + symbol.len(), |into| {
            into[parity.header_len()..].copy_from_slice(symbol);
            parity.emit(into)
        })
    }

    fn unnumbered(&self, protocol: u16, length: usize, emit: impl FnOnce(&mut [u8]) -> Result<(), Error>) -> Vec<u8> {
        let header = gre::Repr { payload_len: length, ..self.header(protocol, None) };
        let mut bytes = vec![0; header.buffer_len()];
        let written = emit(&mut bytes[header.header_len()..]).and_then(|()| header.emit(&mut bytes));
        debug_assert!(written.is_ok(), "addresses are of one IP version, and the buffer has the length");
        bytes
    }

    /// Reads a datagram; packets of more than `mtu` bytes are refused.
    pub fn parse(&self, datagram: &[u8], mtu: usize) -> Result<Content, Refusal> {
        let packet = gre::Packet::new_checked(datagram).map_err(|_| Refusal::Malformed)?;
        match gre::Repr::parse(&packet) {
            Ok(header) if header.key != self.key => return Err(Refusal::WrongKey),
            Ok(header) if !matches!(header.protocol, gre::IPV4 | gre::IPV6) => return Err(Refusal::Malformed),
            Ok(_) => {}
            Err(Error::Checksum(_)) => return Err(Refusal::WrongChecksum),
            Err(_) => return Err(Refusal::Malformed),
        }
        let payload = packet.payload();
        if report::is_report(payload) {
            let report = report::Packet::new_checked(payload).map_err(|_| Refusal::Malformed)?;
            return Ok(Content::Report(report::Repr::parse(&report)));
        }
        if probe::is_probe(payload) {
            let probe = probe::Packet::new_checked(payload).map_err(|_| Refusal::Malformed)?;
            return Ok(Content::Probe(probe::Repr::parse(&probe)));
        }
        if parity::is_parity(payload) {
            let packet = parity::Packet::new_checked(payload).map_err(|_| Refusal::Malformed)?;
            let parity = parity::Repr::parse(&packet).map_err(|_| Refusal::Malformed)?;
            let begin = datagram.len() - packet.symbol().len();
            // A byte more may make it even.
            let too_long = packet.symbol().len() > parity::LENGTH + mtu + 1;
            return if too_long { Err(Refusal::TooLong) } else { Ok(Content::Parity { parity, at: begin..datagram.len() }) };
        }
        if mpt::is_message(payload) {
            let message = mpt::Packet::new_checked(payload).and_then(|message| mpt::Repr::parse(&message));
            return message.map(|_| Content::Keepalive).map_err(|_| Refusal::Malformed);
        }
        is_packet(payload, mtu)?;
        Ok(Content::Packet { seq: packet.sequence().map(Seq::new), at: packet.header_len()..datagram.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MPT: Encapsulation = Encapsulation { framing: Framing::Mpt, key: None, numbered: true };
    const KEYED: Encapsulation = Encapsulation { framing: Framing::Rfc8086, key: Some(7), numbered: false };

    fn datagram(form: &Encapsulation, seq: Option<Seq>, packet: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; form.header_len()];
        form.emit(seq, packet[0], &mut bytes);
        bytes.extend(packet);
        bytes
    }

    #[test]
    fn data_are_mpts_to_the_byte() {
        let packet = [0x45; 20];
        let bytes = datagram(&MPT, Some(Seq::new(0x0102_0304)), &packet);
        assert_eq!(bytes[..8], [0x10, 0, 8, 0, 1, 2, 3, 4]);
        assert_eq!(MPT.parse(&bytes, 1464), Ok(Content::Packet { seq: Some(Seq::new(0x0102_0304)), at: 8..28 }));
        assert_eq!(datagram(&Encapsulation { numbered: false, ..MPT }, None, &packet)[..4], [0, 0, 8, 0]);
        assert_eq!(datagram(&KEYED, None, &[0x60; 40])[..8], [0x20, 0, 0x86, 0xdd, 0, 0, 0, 7]);
    }

    #[test]
    fn keepalives_are_mpts_44_bytes() {
        let bytes = MPT.keepalive("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert_eq!((bytes.len(), &bytes[..10]), (44, &[0, 0, 8, 0, 0xa1, 0, 0, 0, 0, 4][..]));
        assert_eq!(MPT.parse(&bytes, 1464), Ok(Content::Keepalive));
        assert_eq!(MPT.parse(&bytes[..43], 1464), Err(Refusal::Malformed));
    }

    #[test]
    fn reports_come_out_as_they_went_in() {
        let report = Report { sent_us: 1, echo: Some((2, 3)), latest: None, packets: 4, bytes: 5 };
        for form in [MPT, KEYED] {
            let bytes = form.report(&report);
            assert_eq!(bytes.len(), if form == MPT { 36 } else { 40 });
            assert_eq!(form.parse(&bytes, 1464), Ok(Content::Report(report)));
            assert_eq!(form.parse(&bytes[..bytes.len() - 1], 1464), Err(Refusal::Malformed));
        }
        assert_eq!(KEYED.parse(&MPT.report(&report), 1464), Err(Refusal::WrongKey));
    }

    #[test]
    fn probes_have_the_length_that_is_asked_for() {
        let probe = Probe { is_answer: false, size: 1500, id: 7 };
        for form in [MPT, KEYED] {
            let bytes = form.probe(&probe, 1472);
            assert_eq!((bytes.len(), form.parse(&bytes, 1464)), (1472, Ok(Content::Probe(probe))));
            let shortest = form.probe(&probe, 0);
            assert_eq!(shortest.len(), if form == MPT { 12 } else { 16 });
            assert_eq!(form.parse(&shortest[..shortest.len() - 1], 1464), Err(Refusal::Malformed));
        }
    }

    #[test]
    fn parities_come_out_as_they_went_in() {
        let parity = Parity { index: 1, packets: 10, parities: 2, first: 77 };
        for form in [MPT, KEYED] {
            let bytes = form.parity(&parity, &[1, 2, 3, 4]);
            let begin = if form == MPT { 12 } else { 16 };
            assert_eq!(form.parse(&bytes, 20), Ok(Content::Parity { parity, at: begin..begin + 4 }));
            assert_eq!(form.parse(&bytes[..=begin], 20), Err(Refusal::Malformed));
            assert_eq!(form.parse(&form.parity(&parity, &[0; 24]), 20), Err(Refusal::TooLong));
            assert_eq!(form.parse(&form.parity(&Parity { index: 2, ..parity }, &[0; 4]), 20), Err(Refusal::Malformed));
        }
    }

    #[test]
    fn what_is_not_the_peers_is_refused_with_the_reason() {
        let packet = [0x45; 20];
        let plain = datagram(&MPT, Some(Seq::new(1)), &packet);
        assert_eq!(KEYED.parse(&plain, 1464), Err(Refusal::WrongKey));
        let other = Encapsulation { key: Some(8), ..KEYED };
        assert_eq!(KEYED.parse(&datagram(&other, None, &packet), 1464), Err(Refusal::WrongKey));
        assert_eq!(MPT.parse(&plain, 19), Err(Refusal::TooLong));
        assert_eq!(MPT.parse(&plain[..27], 1464), Err(Refusal::Malformed), "no whole IP header");
        assert_eq!(MPT.parse(&[0; 28], 1464), Err(Refusal::Malformed), "no EtherType of IP");
        assert_eq!(MPT.parse(&[0x90, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0x45, 0], 1464), Err(Refusal::WrongChecksum));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), form in 0..3_u8, numbered: bool) {
            let form = [MPT, KEYED, Encapsulation { key: None, ..KEYED }][usize::from(form)];
            let form = Encapsulation { numbered, ..form };
            if let Ok(Content::Packet { at, .. }) = form.parse(&bytes, 1464) {
                prop_assert!(at.len() >= 20 && at.end == bytes.len());
            }
        }
    }
}
