//! What is innermost in a frame: a TCP segment, an ICMP message, or something else.

use crate::icmp::Message;
use crate::kind::{CUT, Kind, MALFORMED};
use crate::layers::{Content, ICMPV6, IpPacket, Outside, Part, TCP, UDP, innermost, ip};
use crate::point::{Point, Port};
use polypath_wire::{Flags, accecn, mptcp};
use std::net::IpAddr;

/// Of what is put together.
pub(crate) const PIECE: Kind = Kind::Named("fragment of a TCP segment");

/// What is in a frame.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Frame<'a> {
    Tcp(Segment<'a>),
    /// A fragment of a TCP segment; with the beginning of that, if it is the first one.
    Piece(Piece, Option<Segment<'a>>),
    Icmp(Icmp),
    Udp,
    Other(Kind),
}

impl Frame<'_> {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Tcp(_) => Kind::Named("TCP"),
            Self::Piece(..) => PIECE,
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
    /// Bytes of the innermost IP packet; longer than any MTU where the host joins segments (GRO,
    /// TSO).
    pub(crate) ip_len: u32,
    /// In which it came, the innermost one.
    pub(crate) tunnel: Option<&'static str>,
    /// Where in its file; the file's own interfaces are not known here.
    pub(crate) point: Point,
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: Flags,
    /// The flag AE (RFC 9768 section 3.1.1).
    pub(crate) ae: bool,
    pub(crate) window: u16,
    /// Bytes of payload.
    pub(crate) len: u32,
    pub(crate) ecn_ce: bool,
    /// Bytes of options, also of those that the capture has cut off.
    pub(crate) options_len: u32,
    /// The capture has cut some of them off.
    pub(crate) options_cut: bool,
    /// Identification of its IP packet; 0: it has none.
    pub(crate) id: u16,
    options: &'a [u8],
}

/// A message of ICMP, or of ICMPv6.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Icmp {
    pub(crate) from: IpAddr,
    pub(crate) message: Message,
    /// Of "fragmentation needed" and "packet too big", where it is told: older routers say 0
    /// (RFC 1191 section 3).
    pub(crate) mtu: Option<u32>,
    /// Source and destination of the segment that an error is about.
    pub(crate) about: Option<[(IpAddr, u16); 2]>,
}

/// An option of a segment that somebody asks for.
#[derive(Copy, Clone, Debug)]
pub(crate) enum TcpOption {
    Mss(u16),
    WindowScale(u8),
    AccEcn(accecn::Repr),
    Mptcp(mptcp::Repr),
}

/// What is in the frame of a link of this type, of so many bytes on the wire; or why that cannot be
/// told.
pub(crate) fn dissect(link_type: i32, bytes: &[u8], wire: u32) -> Result<Dissected<'_>, Kind> {
    let (content, outside) = innermost(link_type, bytes, wire)?;
    let hops = if let Content::Ip(_, packet, _) = &content { packet.hops } else { 0 };
    let (frame, ip_len) = match content {
        Content::Other(kind) => (Frame::Other(kind), 0),
        Content::Ip(TCP, packet, body) if packet.fragment.is_some() => (piece(&packet, body)?, packet.len),
        Content::Ip(TCP, packet, body) => (Frame::Tcp(tcp(&packet, body)?), packet.len),
        Content::Ip(UDP, packet, _) => (Frame::Udp, packet.len),
        Content::Ip(protocol, packet, body) => (Frame::Icmp(icmp(protocol == ICMPV6, packet.source, body)?), packet.len),
    };
    Ok(Dissected { frame, ip_len, tunnel: outside.tunnel, point: point(link_type, bytes, outside, hops) })
}

/// What link header and IP header tell of the place at which a packet was seen.
fn point(link_type: i32, bytes: &[u8], outside: Outside, hops: u8) -> Point {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let name = |at: std::ops::Range<usize>| at.fold(0_u32, |sum, at| sum.wrapping_mul(31).wrapping_add(u32::from(byte(at))));
    // Linux's packet type 4: sent by this host.
    let (device, is_sent) = match link_type {
        113 => (0, byte(1) == 4),
        276 => (u32::from_be_bytes([4, 5, 6, 7].map(byte)), byte(10) == 4),
        258 => (name(12..36), byte(36) & 2 != 0),
        _ => (0, false),
    };
    Point {
        port: Port { device, is_unnamed: link_type == 113, headers: outside.headers, vlans: outside.vlans, ..Port::default() },
        is_sent,
        hops,
    }
}

/// A fragment of a TCP segment.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Piece {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// Bytes of the packet before it, and its own.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) has_more: bool,
    /// Bytes of other headers before the segment's.
    pub(crate) before: u32,
}

impl Piece {
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        (self.source, self.destination, self.id) == (other.source, other.destination, other.id)
    }
}

fn piece<'a>(packet: &IpPacket, body: Part<'a>) -> Result<Frame<'a>, Kind> {
    let Some(fragment) = packet.fragment else { return Err(MALFORMED) };
    let (source, destination, before) = (packet.source, packet.destination, fragment.extensions);
    let len = body.wire.saturating_add(before);
    let piece = Piece { source, destination, id: fragment.id, offset: fragment.offset, len, has_more: fragment.has_more, before };
    Ok(Frame::Piece(piece, if fragment.offset == 0 { Some(tcp(packet, body)?) } else { None }))
}

/// The beginning of a segment that came in fragments.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Head {
    /// Without options.
    segment: Segment<'static>,
    options: [u8; 40],
    options_there: usize,
    before: u32,
}

impl Head {
    pub(crate) fn of(segment: &Segment<'_>, before: u32) -> Self {
        let mut options = [0; 40];
        options[..segment.options.len()].copy_from_slice(segment.options);
        Self { segment: Segment { options: &[], ..*segment }, options, options_there: segment.options.len(), before }
    }

    /// Of a packet with so many bytes behind its IP header.
    pub(crate) fn with_len(mut self, len: u32) -> Option<Self> {
        self.segment.len = len.checked_sub(self.before + 20 + self.segment.options_len)?;
        Some(self)
    }

    pub(crate) fn segment(&self) -> Segment<'_> {
        Segment { options: &self.options[..self.options_there], ..self.segment }
    }
}

fn tcp<'a>(packet: &IpPacket, part: Part<'a>) -> Result<Segment<'a>, Kind> {
    // All but checksum, urgent pointer and options.
    let fixed: [u8; 16] = part.array(0)?;
    let header = usize::from(fixed[12] >> 4) * 4;
    let len = part.wire.checked_sub(header as u32).filter(|_| header >= 20).ok_or(MALFORMED)?;
    Ok(Segment {
        source: (packet.source, part.u16(0)?),
        destination: (packet.destination, part.u16(2)?),
        seq: part.u32(4)?,
        ack: part.u32(8)?,
        flags: Flags(fixed[13]),
        ae: fixed[12] & 1 != 0,
        window: part.u16(14)?,
        len,
        ecn_ce: packet.ecn_ce,
        options_len: header as u32 - 20,
        id: packet.id,
        options_cut: header > 20 && part.bytes.len() < header,
        options: part.bytes.get(20..header.min(part.bytes.len())).unwrap_or_default(),
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

/// Source and destination of the TCP segment whose beginning an error carries (RFC 792,
/// RFC 4443 section 3).
fn quoted(part: Part<'_>) -> Result<[(IpAddr, u16); 2], Kind> {
    let (packet, protocol, ports) = ip(part)?;
    if protocol != TCP {
        return Err(Kind::IpProtocol(protocol));
    }
    Ok([(packet.source, ports.u16(0)?), (packet.destination, ports.u16(2)?)])
}

impl<'a> Segment<'a> {
    /// The ranges that it acknowledges selectively (RFC 2018 section 3): first sequence number, and
    /// the one behind the last.
    pub(crate) fn sacked(&self) -> impl Iterator<Item = [u32; 2]> + use<'a> {
        let blocks = self.raw_options().find(|option| option[0] == 5).map_or(&[][..], |option| &option[2..]);
        blocks.chunks_exact(8).map(|block| [0, 4].map(|at| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])))
    }

    /// Its options in order, as far as they are there and well made: kind, length, and what
    /// follows.
    fn raw_options(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            loop {
                let (&kind, behind) = rest.split_first()?;
                match kind {
                    0 => return None,
                    1 => rest = behind,
                    _ => {
                        let len = usize::from(*behind.first()?);
                        let option = rest.get(..len).filter(|_| len >= 2)?;
                        rest = &rest[len..];
                        return Some(option);
                    }
                }
            }
        })
    }

    /// TSval of the timestamp option (RFC 7323 section 3.2); 0: there is none.
    pub(crate) fn stamp(&self) -> u32 {
        let stamp = |option: &[u8]| if let [8, 10, value @ ..] = option { value.first_chunk().copied() } else { None };
        self.raw_options().find_map(stamp).map_or(0, u32::from_be_bytes)
    }

    /// Those that somebody asks for.
    pub(crate) fn options(&self) -> impl Iterator<Item = TcpOption> + use<'a> {
        self.raw_options().filter_map(|option| match *option {
            [2, 4, high, low] => Some(TcpOption::Mss(u16::from_be_bytes([high, low]))),
            [3, 3, scale] => Some(TcpOption::WindowScale(scale.min(14))),
            [accecn::KIND_0 | accecn::KIND_1, ..] => accecn::Repr::parse(option).map(TcpOption::AccEcn),
            [mptcp::KIND, ..] => {
                mptcp::Packet::new_checked(option).and_then(|packet| mptcp::Repr::parse(&packet)).ok().map(TcpOption::Mptcp)
            }
            _ => None,
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
        let Ok(Dissected { frame: Frame::Tcp(segment), ip_len, tunnel, .. }) = found else { panic!("{found:?}") };
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
        assert!((0..36).all(|cut| read(101, &packet[..cut]).is_err()));
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
        // Several packets that wait to be cut apart (UDP GSO), and a payload that happens to begin
        // like GRE.
        is_the_segment(read(101, &tunnelled(&packet, 4754, 1)), true);
        let bytes = tunnelled(&packet, 40000, 1);
        let chance = read(101, &bytes);
        assert!(matches!(chance, Ok(Dissected { frame: Frame::Udp, tunnel: None, .. })), "{chance:?}");
    }

    /// This header before the packet.
    fn behind(header: &[u8]) -> Vec<u8> {
        [header, &packet()[..]].concat()
    }

    /// An IPv4 packet of this protocol.
    fn in_ipv4(protocol: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes.extend_from_slice(body);
        let addresses = (Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(2, 2, 2, 2));
        ipv4::Repr { source: addresses.0, destination: addresses.1, protocol, payload_len: body.len(), ..ipv4::Repr::default() }
            .emit(&mut bytes)
            .unwrap();
        bytes
    }

    /// A datagram to this port in an IPv4 packet.
    fn in_udp(port: u16, body: &[u8]) -> Vec<u8> {
        let len = (body.len() + 8) as u16;
        let header = [9_u16, port, len, 0].map(u16::to_be_bytes).concat();
        in_ipv4(UDP, &[&header, body].concat())
    }

    fn ethernet(kind: u16, body: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &kind.to_be_bytes(), body].concat()
    }

    #[track_caller]
    fn comes_in(link_type: i32, frame: &[u8], tunnel: Option<&str>) {
        let Ok(Dissected { frame: Frame::Tcp(segment), ip_len: 148, tunnel: found, .. }) = read(link_type, frame) else {
            panic!("{:?}", read(link_type, frame))
        };
        assert_eq!((segment.source.1, segment.len, segment.options_len, found), (4000, 100, 8, tunnel));
        // Cut anywhere it is the segment or named, and never another length.
        for cut in 0..frame.len() {
            match dissect(link_type, &frame[..cut], frame.len() as u32) {
                Ok(Dissected { frame: Frame::Tcp(segment), .. }) => assert_eq!(segment.len, 100),
                Ok(Dissected { frame: Frame::Udp, .. }) | Err(_) => {}
                other => panic!("{other:?} of {cut} bytes"),
            }
        }
    }

    #[test]
    fn link_types_of_other_programs_lead_to_the_packet() {
        let wireless = |qos: bool| {
            let mut header = vec![if qos { 0x88 } else { 0x08 }, 0x01];
            header.resize(if qos { 26 } else { 24 }, 0);
            [header, vec![0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat()
        };
        let radiotap = [&[0, 0, 9, 0, 2, 0, 0, 0, 0x10][..], &wireless(true)].concat();
        let nflog = |bytes: fn(u16) -> [u8; 2]| {
            let attribute = |len: u16, kind: u16| [bytes(len), bytes(kind)].concat();
            [&[2, 0, 0, 0][..], &attribute(8, 1), &[8, 0, 1, 0], &attribute(4 + 148, 9)].concat()
        };
        let pktap = [&108_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), &101_u32.to_le_bytes(), &[0; 96]].concat();
        for (link_type, header) in [
            (9, &[0, 0x21][..]),
            (9, &[0xff, 3, 0, 0x21]),
            (9, &[0x21]),
            (50, &[0xff, 3, 0, 0x21]),
            (50, &[0x0f, 0, 8, 0]),
            (104, &[0x0f, 0, 8, 0]),
            (51, &[0x11, 0, 0, 7, 0, 150, 0, 0x21]),
            (105, &wireless(false)),
            (105, &wireless(true)),
            (127, &radiotap),
            (119, &[&[0; 144][..], &wireless(false)].concat()),
            (163, &[&[0x80, 0x21, 0x10, 0x01, 0, 0, 0, 64][..], &[0; 56], &wireless(false)].concat()),
            (192, &[&[0, 0, 8, 0, 105, 0, 0, 0][..], &wireless(false)].concat()),
            (204, &[1, 0xff, 3, 0, 0x21]),
            (117, &[&[61, 2, 0, 0][..], &[0; 60]].concat()),
            (109, &[0; 12]),
            (239, &nflog(u16::to_le_bytes)),
            (239, &nflog(u16::to_be_bytes)),
            (258, &pktap),
            (228, &[]),
        ] {
            comes_in(link_type, &behind(header), None);
        }
        // Between Ethernet and IP: 802.1ad with 802.1Q, SNAP, two labels, PPPoE.
        for (kind, header) in [
            (0x88a8, &[0, 1, 0x81, 0, 0, 2, 8, 0][..]),
            (156, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
            (0x8847, &[0, 1, 0, 64, 0, 2, 1, 64]),
            (0x8864, &[0x11, 0, 0, 7, 0, 150, 0, 0x21]),
        ] {
            comes_in(1, &ethernet(kind, &behind(header)), None);
        }
    }

    #[test]
    fn tunnels_are_looked_into_and_named() {
        let packet = packet();
        let inside = ethernet(0x0800, &packet);
        let tunnels = [
            ("IP in IP", in_ipv4(4, &packet)),
            ("GRE", in_ipv4(47, &behind(&[0, 0, 8, 0]))),
            ("GRE", in_ipv4(47, &behind(&[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9]))),
            ("GRE", in_ipv4(47, &[&[0, 0, 0x65, 0x58][..], &inside].concat())),
            ("GRE", in_ipv4(47, &[&[0x30, 0x81, 0x88, 0x0b, 0, 150, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0x21][..], &packet].concat())),
            ("GRE", in_ipv4(47, &[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 1, 0, 0, 0, 0][..], &inside].concat())),
            ("EtherIP", in_ipv4(97, &[&[0x30, 0][..], &inside].concat())),
            ("MPLS in IP", in_ipv4(137, &behind(&[0, 1, 1, 64]))),
            ("VXLAN", in_udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &inside].concat())),
            ("Geneve", in_udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 0][..], &inside].concat())),
            ("GTP-U", in_udp(2152, &behind(&[0x30, 255, 0, 148, 0, 0, 0, 7]))),
            ("GTP-U", in_udp(2152, &behind(&[0x34, 255, 0, 156, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0, 9, 0]))),
            ("L2TP", in_udp(1701, &behind(&[0x40, 2, 0, 158, 0, 1, 0, 1, 0xff, 3, 0, 0x21]))),
        ];
        for (name, packet) in &tunnels {
            comes_in(101, packet, Some(name));
            // In one another, the innermost is told.
            comes_in(101, &in_ipv4(4, packet), Some(name));
        }
        let in_ipv6 = [&[0x60, 0, 0, 0, 0, 148, 4, 64][..], &[7; 32], &packet].concat();
        comes_in(101, &in_ipv6, Some("IP in IP"));
        let mut deep = packet;
        for _ in 0..20 {
            deep = in_ipv4(4, &deep);
        }
        assert!(read(101, &deep).unwrap_err().to_string().contains("more headers in one another"));
    }

    #[test]
    fn a_length_that_is_left_to_the_card_is_that_of_the_frame() {
        let mut long = packet();
        (long[2], long[3]) = (0, 0);
        let of = |frame: &[u8], wire| match dissect(1, frame, wire) {
            Ok(Dissected { frame: Frame::Tcp(segment), ip_len, .. }) => (segment.len, ip_len),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&ethernet(0x0800, &long)[..80], 14 + 48 + 190_000), (190_000, 190_048));
        // IPv6 without a length, and with the option of a jumbogram (RFC 2675 section 2).
        let segment = &long[20..];
        let bare = [&[0x60, 0, 0, 0, 0, 0, 6, 64][..], &[7; 32], segment].concat();
        let jumbo = [&[0x60, 0, 0, 0, 0, 0, 0, 64][..], &[7; 32], &[6, 0, 0xc2, 4, 0, 2, 0xe6, 0x54], segment].concat();
        assert_eq!(of(&ethernet(0x86dd, &bare)[..100], 14 + 40 + 28 + 190_000), (190_000, 190_068));
        assert_eq!(of(&ethernet(0x86dd, &jumbo)[..100], 14 + 48 + 28 + 190_000), (190_000, 190_076));
        // Padding is not payload.
        let short = packet()[..48].to_vec();
        let mut padded = ethernet(0x0800, &short);
        padded[14 + 3] = 48;
        padded.extend([0; 30]);
        assert_eq!(of(&padded, padded.len() as u32), (0, 48));
    }

    #[test]
    fn ipv6_extension_headers_are_walked() {
        let segment = packet()[20..].to_vec();
        let with = |first: u8, extensions: &[u8]| {
            let len = (extensions.len() + segment.len()) as u16;
            [&[0x60, 0, 0, 0][..], &len.to_be_bytes(), &[first, 64], &[7; 32], extensions, &segment].concat()
        };
        for (first, extensions) in [
            (0, &[60, 0, 1, 4, 0, 0, 0, 0, 43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 4, 0, 0, 0, 0, 0][..]),
            (51, &[6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (44, &[6, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            let bytes = with(first, extensions);
            let Ok(Dissected { frame: Frame::Tcp(segment), .. }) = read(101, &bytes) else { panic!("{:?}", read(101, &bytes)) };
            assert_eq!((segment.source.1, segment.len), (4000, 100));
        }
        assert!(matches!(read(101, &with(44, &[6, 0, 0, 8, 0, 0, 0, 1])), Ok(Dissected { frame: Frame::Piece(..), .. })));
        assert_eq!(read(101, &with(50, &[0; 8])).unwrap_err().to_string(), "ESP, encrypted");
    }

    #[test]
    fn what_is_not_read_is_named() {
        let packet = packet();
        let protected = [&[0x08, 0x41][..], &[0; 30], &packet].concat();
        for (link_type, frame, name) in [
            (189, packet.clone(), "USB, link type 189"),
            (9, behind(&[0, 0x2d]), "PPP protocol 0x002d"),
            (1, ethernet(0x4305, &packet), "EtherType 0x4305"),
            (1, ethernet(0x88e5, &packet), "MACsec, EtherType 0x88e5"),
            (105, protected, "IEEE 802.11, encrypted"),
            (101, in_ipv4(50, &packet), "ESP, encrypted"),
            (101, in_ipv4(253, &packet), "IP protocol 253"),
            (101, vec![0x10; 60], "neither IPv4 nor IPv6"),
            (101, packet[..35].to_vec(), "cut off before its headers end"),
        ] {
            assert_eq!(read(link_type, &frame).unwrap_err().to_string(), name);
        }
        for (link_type, frame, name) in [
            (1, ethernet(0x0806, &[0; 28]), "ARP"),
            (1, ethernet(38, &[0x42, 0x42, 3]), "spanning tree"),
            (9, behind(&[0xc0, 0x21]), "PPP protocol 0xc021"),
            (101, in_ipv4(132, &packet), "SCTP"),
            (101, in_udp(53, &packet), "UDP"),
            (105, vec![0x80; 24], "IEEE 802.11 management"),
        ] {
            assert_eq!(read(link_type, &frame).unwrap().frame.kind().to_string(), name);
        }
    }
}
