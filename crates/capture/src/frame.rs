//! What is innermost in a frame: a TCP segment, an ICMP message, or something else.

use crate::icmp::Message;
use crate::kind::{CUT, Kind, MALFORMED};
use crate::layers::{Content, ICMPV6, IpPacket, Part, TCP, UDP, innermost, ip};
use polypath_wire::{Flags, mptcp};
use std::net::IpAddr;

/// What is in a frame.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Frame<'a> {
    Tcp(Segment<'a>),
    Icmp(Icmp),
    Udp,
    Other(Kind),
}

impl Frame<'_> {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Tcp(_) => Kind::Named("TCP"),
            Self::Icmp(icmp) => Kind::Named(icmp.message.protocol()),
            Self::Udp => Kind::Named("UDP"),
            Self::Other(kind) => *kind,
        }
    }
}

/// A frame with what its IP packets tell.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Dissected<'a> {
    pub(crate) frame: Frame<'a>,
    /// Bytes of the innermost IP packet; longer than any MTU where the host joins segments (GRO, TSO).
    pub(crate) ip_len: u32,
    /// In which it came, the innermost one.
    pub(crate) tunnel: Option<&'static str>,
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    /// Bytes of payload.
    pub(crate) len: u32,
    pub(crate) ecn_ce: bool,
    /// Bytes of options, also of those that the capture has cut off.
    pub(crate) options_len: u32,
    /// The capture has cut some of them off.
    pub(crate) options_cut: bool,
    options: &'a [u8],
}

/// A message of ICMP, or of ICMPv6.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Icmp {
    pub(crate) from: IpAddr,
    pub(crate) message: Message,
    /// Of "fragmentation needed" and "packet too big", where it is told: older routers say 0 (RFC 1191 section 3).
    pub(crate) mtu: Option<u32>,
    /// Source and destination of the segment that an error is about.
    pub(crate) about: Option<[(IpAddr, u16); 2]>,
}

/// An option of a segment that somebody asks for.
#[derive(Copy, Clone, Debug)]
pub(crate) enum TcpOption {
    Mss(u16),
    WindowScale(u8),
    Mptcp(mptcp::Repr),
}

/// What is in the frame of a link of this type, of so many bytes on the wire; or why that cannot be told.
pub(crate) fn dissect(link_type: i32, bytes: &[u8], wire: u32) -> Result<Dissected<'_>, Kind> {
    let (content, tunnel) = innermost(link_type, bytes, wire)?;
    let (frame, ip_len) = match content {
        Content::Other(kind) => (Frame::Other(kind), 0),
        Content::Ip(TCP, packet, body) => (Frame::Tcp(tcp(&packet, body)?), packet.len),
        Content::Ip(UDP, packet, _) => (Frame::Udp, packet.len),
        Content::Ip(protocol, packet, body) => (Frame::Icmp(icmp(protocol == ICMPV6, packet.source, body)?), packet.len),
    };
    Ok(Dissected { frame, ip_len, tunnel })
}

fn tcp<'a>(packet: &IpPacket, part: Part<'a>) -> Result<Segment<'a>, Kind> {
    // With less than the fixed header it is not known where the payload begins.
    let fixed: [u8; 20] = part.array(0)?;
    let header = usize::from(fixed[12] >> 4) * 4;
    let len = part.wire.checked_sub(header as u32).filter(|_| header >= 20).ok_or(MALFORMED)?;
    Ok(Segment {
        source: (packet.source, part.u16(0)?),
        destination: (packet.destination, part.u16(2)?),
        seq: part.u32(4)?,
        ack: part.u32(8)?,
        flags: Flags(fixed[13]),
        window: part.u16(14)?,
        len,
        ecn_ce: packet.ecn_ce,
        options_len: header as u32 - 20,
        options_cut: part.bytes.len() < header,
        options: &part.bytes[20..header.min(part.bytes.len())],
    })
}

fn icmp(is_v6: bool, from: IpAddr, part: Part<'_>) -> Result<Icmp, Kind> {
    let message = Message { is_v6, kind: part.byte(0)?, code: part.byte(1)? };
    let mtu = match (message.is_v6, message.kind, message.code) {
        // RFC 1191 section 4, RFC 4443 section 3.2.
        (false, 3, 4) => part.u16(6).map(u32::from),
        (true, 2, _) => part.u32(4),
        _ => Err(CUT),
    };
    let about = if message.is_error() { part.skip(8).and_then(quoted).ok() } else { None };
    Ok(Icmp { from, message, mtu: mtu.ok().filter(|&mtu| mtu > 0), about })
}

/// Source and destination of the TCP segment whose beginning an error carries (RFC 792, RFC 4443 section 3).
fn quoted(part: Part<'_>) -> Result<[(IpAddr, u16); 2], Kind> {
    let (packet, protocol, ports) = ip(part)?;
    if protocol != TCP {
        return Err(Kind::IpProtocol(protocol));
    }
    Ok([(packet.source, ports.u16(0)?), (packet.destination, ports.u16(2)?)])
}

impl<'a> Segment<'a> {
    /// Its options in order, as far as they are there and well made.
    pub(crate) fn options(&self) -> impl Iterator<Item = TcpOption> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            loop {
                let (&kind, behind) = rest.split_first()?;
                match kind {
                    0 => return None,
                    1 => {
                        rest = behind;
                        continue;
                    }
                    _ => {}
                }
                let len = usize::from(*behind.first()?);
                let option = rest.get(..len).filter(|_| len >= 2)?;
                rest = &rest[len..];
                let found = match (kind, len) {
                    (2, 4) => Some(TcpOption::Mss(u16::from_be_bytes([option[2], option[3]]))),
                    (3, 3) => Some(TcpOption::WindowScale(option[2].min(14))),
                    (mptcp::KIND, _) => {
                        mptcp::Packet::new_checked(option).and_then(|packet| mptcp::Repr::parse(&packet)).ok().map(TcpOption::Mptcp)
                    }
                    _ => None,
                };
                if found.is_some() {
                    return found;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_wire::{Envelope, Segment as Wire, gre, ipv4, udp};
    use std::net::{Ipv4Addr, SocketAddr};

    fn read(link_type: i32, bytes: &[u8]) -> Result<Dissected<'_>, Kind> {
        dissect(link_type, bytes, bytes.len() as u32)
    }

    fn packet() -> Vec<u8> {
        let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let envelope = Envelope { source: end(1, 4000), destination: end(2, 5000), ident: 0 };
        let segment = Wire { len: 100, flags: Flags::SYN, mss: 1460, window_scale: 7, ..Wire::default() };
        segment.to_bytes(&envelope, &[0; 100]).unwrap()
    }

    fn is_the_segment(found: Result<Dissected<'_>, Kind>, in_tunnel: bool) {
        let Ok(Dissected { frame: Frame::Tcp(segment), ip_len, tunnel }) = found else { panic!("{found:?}") };
        let tunnel = tunnel == Some("GRE-in-UDP");
        assert_eq!((segment.source.1, segment.destination.1, segment.len, ip_len, tunnel), (4000, 5000, 100, 148, in_tunnel));
        let options: Vec<String> = segment.options().map(|option| format!("{option:?}")).collect();
        assert_eq!(options, ["Mss(1460)", "WindowScale(7)"]);
    }

    #[test]
    fn every_link_type_leads_to_the_packet() {
        let packet = packet();
        let behind = |header: &[u8]| [header, &packet[..]].concat();
        let mut cooked_1 = [0; 16];
        cooked_1[14..].copy_from_slice(&[8, 0]);
        let mut cooked_2 = [0; 20];
        cooked_2[0] = 8;
        let mut ethernet = [0; 14];
        ethernet[12] = 8;
        let mut tagged = [0; 18];
        (tagged[12], tagged[16]) = (0x81, 8);
        for (link_type, header) in [(101, &[][..]), (0, &[2, 0, 0, 0]), (1, &ethernet), (1, &tagged), (113, &cooked_1), (276, &cooked_2)] {
            is_the_segment(read(link_type, &behind(header)), false);
        }
    }

    #[test]
    fn headers_are_enough() {
        let packet = packet();
        is_the_segment(read(101, &packet[..48]), false);
        assert!((0..40).all(|cut| read(101, &packet[..cut]).is_err()));
    }

    /// `inner` behind GRE and UDP to this port, with `more` bytes behind it in the datagram.
    fn tunnelled(inner: &[u8], port: u16, more: usize) -> Vec<u8> {
        let header = gre::Repr { protocol: gre::IPV4, key: Some(7), sequence: Some(9), checksum: false, payload_len: inner.len() };
        let mut bytes = vec![0; 28 + header.header_len()];
        bytes.extend_from_slice(inner);
        bytes.resize(bytes.len() + more, 0);
        header.emit(&mut bytes[28..]).unwrap();
        let addresses = (Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(2, 2, 2, 2));
        let outer = udp::Repr { source_port: 9, destination_port: port, checksum: false, payload_len: bytes.len() - 28 };
        let v4 = polypath_wire::checksum::Addresses::V4 { source: addresses.0, destination: addresses.1 };
        outer.emit(&mut bytes[20..], &v4).unwrap();
        let payload_len = bytes.len() - 20;
        ipv4::Repr { source: addresses.0, destination: addresses.1, protocol: UDP, payload_len, ..ipv4::Repr::default() }
            .emit(&mut bytes)
            .unwrap();
        bytes
    }

    #[test]
    fn a_packet_in_a_tunnel_is_found() {
        let packet = packet();
        for port in [4754, 23456, 40000] {
            is_the_segment(read(101, &tunnelled(&packet, port, 0)), true);
            // The headers are there, the rest is cut off.
            let cut = tunnelled(&packet, port, 0).len() - 100;
            is_the_segment(read(101, &tunnelled(&packet, port, 0)[..cut]), true);
        }
    }

    #[test]
    fn what_only_looks_like_a_tunnel_is_a_datagram() {
        let packet = packet();
        // Several packets that wait to be cut apart (UDP GSO), and a payload that happens to begin like GRE.
        is_the_segment(read(101, &tunnelled(&packet, 4754, 1)), true);
        let bytes = tunnelled(&packet, 40000, 1);
        let chance = read(101, &bytes);
        assert!(matches!(chance, Ok(Dissected { frame: Frame::Udp, tunnel: None, .. })), "{chance:?}");
    }
}
