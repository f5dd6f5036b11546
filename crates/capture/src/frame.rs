//! From a captured frame to the TCP segment or ICMP message in it, looking into GRE-in-UDP (RFC 8086).
//!
//! A capture may keep only the beginning of a packet. So lengths come from headers, and every field is looked for before it is read: `None` is
//! a packet that ends too early or is something else. Nothing here can panic.

use crate::icmp::Message;
use polypath_wire::{Flags, gre, mpt, mptcp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Where GRE-in-UDP goes to: RFC 8086's port and MPT's.
const GRE_PORTS: [u16; 2] = [gre::UDP_PORT, mpt::UDP_PORT];
/// Packets in packets are looked into so deep.
const DEPTH: u32 = 4;

/// What is in a frame.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Frame<'a> {
    Tcp(Segment<'a>),
    Icmp(Icmp),
    Udp,
    Other,
}

/// A frame with what its IP packets tell.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Dissected<'a> {
    pub(crate) frame: Frame<'a>,
    /// Bytes of the innermost IP packet; longer than any MTU where the host joins segments (GRO, TSO).
    pub(crate) ip_len: u32,
    pub(crate) in_tunnel: bool,
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

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// What is in the frame of a link of this type; none: nothing that is known.
pub(crate) fn dissect(link_type: i32, bytes: &[u8]) -> Option<Dissected<'_>> {
    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    let (mut kind, mut at) = match link_type {
        // BSD loopback: a family in some host's byte order.
        0 | 108 => (0, 4),
        1 => (u16_at(bytes, 12)?, 14),
        // Raw IP, by its numbers on several systems; IPv4 and IPv6 alone.
        12 | 14 | 101 | 228 | 229 => (0, 0),
        // Linux cooked, versions 1 and 2.
        113 => (u16_at(bytes, 14)?, 16),
        276 => (u16_at(bytes, 0)?, 20),
        _ => return None,
    };
    while VLAN.contains(&kind) {
        kind = u16_at(bytes, at + 2)?;
        at += 4;
    }
    if kind != 0 && kind != IPV4 && kind != IPV6 {
        return None;
    }
    ip(bytes.get(at..)?, 0)
}

/// The innermost packet of an IP packet.
fn ip(bytes: &[u8], depth: u32) -> Option<Dissected<'_>> {
    let (source, destination, protocol, header, ip_len, ce, fragment) = match bytes.first()? >> 4 {
        4 => {
            let header = usize::from(bytes[0] & 15) * 4;
            let address = |at| Some(IpAddr::V4(Ipv4Addr::from(u32_at(bytes, at)?)));
            let fragment = u16_at(bytes, 6)?;
            let len = u32::from(u16_at(bytes, 2)?);
            // With TSO the length may be left to the card.
            let len = if len == 0 { bytes.len() as u32 } else { len };
            (address(12)?, address(16)?, *bytes.get(9)?, header, len, bytes[1] & 3 == 3, fragment & 0x3fff)
        }
        6 => {
            let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?)));
            let len = u32::from(u16_at(bytes, 4)?) + 40;
            (address(8)?, address(24)?, *bytes.get(6)?, 40, len, bytes[1] >> 4 & 3 == 3, 0)
        }
        _ => return None,
    };
    let body = bytes.get(header..).filter(|_| header >= 20)?;
    let body_len = ip_len.checked_sub(header as u32)?;
    let found = |frame| Some(Dissected { frame, ip_len, in_tunnel: depth > 0 });
    // Only the first fragment has a header (RFC 791 section 3.2).
    if fragment & 0x1fff != 0 {
        return found(Frame::Other);
    }
    match protocol {
        TCP => found(Frame::Tcp(tcp(source, destination, body, body_len, ce)?)),
        UDP => {
            let inner = if depth < DEPTH { gre_in_udp(body).and_then(|packet| ip(packet, depth + 1)) } else { None };
            inner.or_else(|| found(Frame::Udp))
        }
        ICMP | ICMPV6 => found(Frame::Icmp(icmp(protocol, source, body)?)),
        _ => found(Frame::Other),
    }
}

/// What a datagram carries behind a GRE header. At a port that is not known for it a packet must end exactly where the datagram does.
fn gre_in_udp(datagram: &[u8]) -> Option<&[u8]> {
    let packet = behind_gre(datagram.get(8..)?)?;
    if GRE_PORTS.contains(&u16_at(datagram, 2)?) {
        return Some(packet);
    }
    let headers = datagram.len() - packet.len();
    let packet_len = match packet.first()? >> 4 {
        4 => usize::from(u16_at(packet, 2)?),
        6 => usize::from(u16_at(packet, 4)?) + 40,
        _ => return None,
    };
    (headers + packet_len == usize::from(u16_at(datagram, 4)?)).then_some(packet)
}

/// The packet behind a GRE header (RFC 2784, RFC 2890).
fn behind_gre(bytes: &[u8]) -> Option<&[u8]> {
    let flags = u16_at(bytes, 0)?;
    // Version 0, and no reserved bit of those that RFC 2784 section 2.3 has a receiver refuse.
    if flags & 0x4fff != 0 || !matches!(u16_at(bytes, 2)?, 0x0800 | 0x86dd) {
        return None;
    }
    let options = [0x8000, 0x2000, 0x1000].into_iter().filter(|bit| flags & bit != 0).count();
    bytes.get(4 + 4 * options..)
}

fn tcp(source: IpAddr, destination: IpAddr, bytes: &[u8], len: u32, ecn_ce: bool) -> Option<Segment<'_>> {
    let header = usize::from(*bytes.get(12)? >> 4) * 4;
    let options = bytes.get(20..header.min(bytes.len()))?;
    Some(Segment {
        source: (source, u16_at(bytes, 0)?),
        destination: (destination, u16_at(bytes, 2)?),
        seq: u32_at(bytes, 4)?,
        ack: u32_at(bytes, 8)?,
        flags: Flags(*bytes.get(13)?),
        window: u16_at(bytes, 14)?,
        len: len.checked_sub(header as u32)?,
        ecn_ce,
        options_len: (header as u32).checked_sub(20)?,
        options,
    })
}

fn icmp(protocol: u8, from: IpAddr, bytes: &[u8]) -> Option<Icmp> {
    let message = Message { is_v6: protocol == ICMPV6, kind: *bytes.first()?, code: *bytes.get(1)? };
    let mtu = match (message.is_v6, message.kind, message.code) {
        // RFC 1191 section 4, RFC 4443 section 3.2.
        (false, 3, 4) => u16_at(bytes, 6).map(u32::from),
        (true, 2, _) => u32_at(bytes, 4),
        _ => None,
    };
    let about = if message.is_error() { bytes.get(8..).and_then(quoted) } else { None };
    Some(Icmp { from, message, mtu: mtu.filter(|&mtu| mtu > 0), about })
}

/// Source and destination of the TCP segment whose beginning an error carries (RFC 792, RFC 4443 section 3).
fn quoted(bytes: &[u8]) -> Option<[(IpAddr, u16); 2]> {
    let (source, destination, protocol, header) = match bytes.first()? >> 4 {
        4 => {
            let address = |at| Some(IpAddr::V4(Ipv4Addr::from(u32_at(bytes, at)?)));
            (address(12)?, address(16)?, *bytes.get(9)?, usize::from(bytes[0] & 15) * 4)
        }
        6 => {
            let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(at..at + 16)?).ok()?)));
            (address(8)?, address(24)?, *bytes.get(6)?, 40)
        }
        _ => return None,
    };
    let ports = bytes.get(header..).filter(|_| protocol == TCP)?;
    Some([(source, u16_at(ports, 0)?), (destination, u16_at(ports, 2)?)])
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
                    (2, 4) => u16_at(option, 2).map(TcpOption::Mss),
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
    use polypath_wire::{Envelope, Segment as Wire, ipv4, udp};
    use std::net::SocketAddr;

    fn packet() -> Vec<u8> {
        let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let envelope = Envelope { source: end(1, 4000), destination: end(2, 5000), ident: 0 };
        let segment = Wire { len: 100, flags: Flags::SYN, mss: 1460, window_scale: 7, ..Wire::default() };
        segment.to_bytes(&envelope, &[0; 100]).unwrap()
    }

    fn is_the_segment(found: Option<Dissected<'_>>, in_tunnel: bool) {
        let Some(Dissected { frame: Frame::Tcp(segment), ip_len, in_tunnel: tunnel }) = found else { panic!("{found:?}") };
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
            is_the_segment(dissect(link_type, &behind(header)), false);
        }
        assert!(dissect(105, &packet).is_none(), "802.11 is not known");
    }

    #[test]
    fn headers_are_enough() {
        let packet = packet();
        is_the_segment(dissect(101, &packet[..48]), false);
        assert!((0..40).all(|cut| dissect(101, &packet[..cut]).is_none()));
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
            is_the_segment(dissect(101, &tunnelled(&packet, port, 0)), true);
            // The headers are there, the rest is cut off.
            let cut = tunnelled(&packet, port, 0).len() - 100;
            is_the_segment(dissect(101, &tunnelled(&packet, port, 0)[..cut]), true);
        }
    }

    #[test]
    fn what_only_looks_like_a_tunnel_is_a_datagram() {
        let packet = packet();
        // Several packets that wait to be cut apart (UDP GSO), and a payload that happens to begin like GRE.
        is_the_segment(dissect(101, &tunnelled(&packet, 4754, 1)), true);
        let bytes = tunnelled(&packet, 40000, 1);
        let chance = dissect(101, &bytes);
        assert!(matches!(chance, Some(Dissected { frame: Frame::Udp, in_tunnel: false, .. })), "{chance:?}");
    }
}
