//! From a captured frame through the headers of its link, of IP and of tunnels to what is
//! innermost.
//!
//! Each header is taken off by a function of its own, which says what stands behind it. A capture
//! may keep only the beginning of a packet: so a [`Part`] has the length that it had on the wire
//! beside the bytes that are there, and a field that is not there is an error, never a panic.

use crate::kind::{CUT, Kind, MALFORMED};
use polypath_wire::{gre, mpt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Headers that are taken off a packet, at most; IPv6 extension headers of one packet as well.
const DEPTH: u32 = 24;

pub(crate) const ICMP: u8 = 1;
const IPIP: u8 = 4;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const AH: u8 = 51;
pub(crate) const ICMPV6: u8 = 58;
const ETHER_IP: u8 = 97;
const MPLS_IN_IP: u8 = 137;
const ETHERNET_IN_IP: u8 = 143;

const IPV4: u16 = 0x0800;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const IPV6: u16 = 0x86dd;
const PPP: u16 = 0x880b;

/// Some bytes of a packet.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Part<'a> {
    /// As far as the capture has them.
    pub(crate) bytes: &'a [u8],
    /// How many there were on the wire.
    pub(crate) wire: u32,
}

impl Part<'_> {
    pub(crate) fn byte(self, at: usize) -> Result<u8, Kind> {
        self.bytes.get(at).copied().ok_or(CUT)
    }

    pub(crate) fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Kind> {
        self.bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).ok_or(CUT)
    }

    pub(crate) fn u16(self, at: usize) -> Result<u16, Kind> {
        self.array(at).map(u16::from_be_bytes)
    }

    pub(crate) fn u32(self, at: usize) -> Result<u32, Kind> {
        self.array(at).map(u32::from_be_bytes)
    }

    /// What stands behind so many bytes.
    pub(crate) fn skip(self, len: usize) -> Result<Self, Kind> {
        let bytes = self.bytes.get(len..).ok_or(CUT)?;
        Ok(Self { bytes, wire: self.wire.saturating_sub(len as u32) })
    }

    /// With the length that its header tells: what stands behind is padding.
    fn with_length(self, wire: u32) -> Self {
        Self { bytes: &self.bytes[..self.bytes.len().min(wire as usize)], wire }
    }
}

/// What stands at the beginning of a part.
#[derive(Copy, Clone, Debug)]
enum Header {
    Ethernet,
    /// What this EtherType says.
    Ether(u16),
    /// IEEE 802.2.
    Llc,
    Ppp,
    Mpls,
    /// IEEE 802.11.
    Wireless,
    /// IPv4 or IPv6, as its version tells.
    Ip,
    /// What this IP protocol number says, between these addresses.
    InIp(u8, IpPacket),
}

/// What an IP header tells of its packet.
#[derive(Copy, Clone, Debug)]
pub(crate) struct IpPacket {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Bytes, its own header among them.
    pub(crate) len: u32,
    pub(crate) ecn_ce: bool,
    /// Its TTL or hop limit: each router takes one off.
    pub(crate) hops: u8,
    /// Its identification; 0: IPv6 has none, and not all senders give one (RFC 6864 section 4.1).
    pub(crate) id: u16,
    /// It is a part of a packet.
    pub(crate) fragment: Option<Fragment>,
}

/// Which part of a packet it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) id: u32,
    /// Bytes of the packet before it. Only the first fragment has other headers
    /// (RFC 791 section 3.2).
    pub(crate) offset: u32,
    pub(crate) has_more: bool,
    /// Bytes of extension headers in it.
    pub(crate) extensions: u32,
}

/// What is known of a packet when a header is reached.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Outside {
    pub(crate) headers: u32,
    pub(crate) tunnel: Option<&'static str>,
    /// Its VLANs, one behind the other.
    pub(crate) vlans: u32,
}

impl Outside {
    fn through(self, tunnel: &'static str) -> Self {
        Self { tunnel: Some(tunnel), ..self }
    }
}

/// What is innermost.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Content<'a> {
    /// TCP, UDP, ICMP or ICMPv6, by its protocol number.
    Ip(u8, IpPacket, Part<'a>),
    Other(Kind),
}

type Found<'a> = Result<(Content<'a>, Outside), Kind>;

/// What is innermost in the frame of a link of this type, of so many bytes on the wire, and what is
/// around it; or why that cannot be told.
pub(crate) fn innermost(link_type: i32, bytes: &[u8], wire: u32) -> Found<'_> {
    // Some programs write the length that they kept as the one on the wire.
    let frame = Part { bytes, wire: wire.max(bytes.len() as u32) };
    let (header, behind) = first(link_type, frame)?;
    inner(header, behind, Outside::default())
}

/// What a frame begins with behind the header that its link type stands for, by the registry at
/// tcpdump.org.
fn first(link_type: i32, frame: Part<'_>) -> Result<(Header, Part<'_>), Kind> {
    let little = |at| frame.array(at).map(u16::from_le_bytes);
    let behind = |header, len: usize| Ok((header, frame.skip(len)?));
    match link_type {
        // BSD loopback: a family in some host's byte order. IP tells its version itself.
        0 | 108 => behind(Header::Ip, 4),
        1 => Ok((Header::Ethernet, frame)),
        // PPP, in HDLC's framing or not.
        9 => Ok((Header::Ppp, frame)),
        50 if matches!(frame.byte(0)?, 0x0f | 0x8f) => behind(Header::Ether(frame.u16(2)?), 4),
        50 => Ok((Header::Ppp, frame)),
        51 => Ok((Header::Ether(0x8864), frame)),
        // Raw IP, by its numbers on several systems; IPv4 and IPv6 alone.
        12 | 14 | 101 | 228 | 229 => Ok((Header::Ip, frame)),
        // Cisco HDLC.
        104 => behind(Header::Ether(frame.u16(2)?), 4),
        105 => Ok((Header::Wireless, frame)),
        // OpenBSD's enc and pflog.
        109 => behind(Header::Ip, 12),
        117 => behind(Header::Ip, usize::from(frame.byte(0)?).next_multiple_of(4)),
        113 => cooked(frame.u16(2)?, frame.u16(14)?, frame.skip(16)?),
        276 => cooked(frame.u16(8)?, frame.u16(0)?, frame.skip(20)?),
        // Headers of capturing hardware before IEEE 802.11: Prism or AVS, radiotap, AVS, PPI.
        119 if frame.u32(0)? & 0xffff_f000 == 0x8021_1000 => behind(Header::Wireless, frame.u32(4)? as usize),
        119 => behind(Header::Wireless, 144),
        127 => radiotap(frame),
        163 => behind(Header::Wireless, frame.u32(4)? as usize),
        192 => match u32::from_le_bytes(frame.array(4)?) {
            105 => behind(Header::Wireless, usize::from(little(2)?)),
            1 => behind(Header::Ethernet, usize::from(little(2)?)),
            other => Err(Kind::LinkType(other as i32)),
        },
        // A byte for the direction: instead of HDLC's address with pppd, before PPP.
        166 if frame.byte(1)? == 3 => behind(Header::Ppp, 2),
        166 | 204 => behind(Header::Ppp, 1),
        226 => behind(Header::Ip, 24),
        239 => nflog(frame),
        // macOS: length, kind of record, and the link type of what follows.
        258 => match u32::from_le_bytes(frame.array(8)?) {
            258 => Err(MALFORMED),
            inner => first(inner as i32, frame.skip(u32::from_le_bytes(frame.array(0)?) as usize)?),
        },
        _ => Err(Kind::LinkType(link_type)),
    }
}

/// Linux cooked capture: the kind of device (ARPHRD), and the protocol, which is an EtherType
/// unless the device has others.
fn cooked(device: u16, protocol: u16, behind: Part<'_>) -> Result<(Header, Part<'_>), Kind> {
    const GRE_DEVICES: [u16; 2] = [778, 823];
    const RADIOTAP_DEVICE: u16 = 803;
    const NETLINK_DEVICE: u16 = 824;
    match (device, protocol) {
        (NETLINK_DEVICE, _) => Err(Kind::LinkType(253)),
        (RADIOTAP_DEVICE, _) => radiotap(behind),
        (801, _) => Ok((Header::Wireless, behind)),
        // Linux has the header of the tunnel there, too, where an EtherType says Ethernet.
        (device, TRANSPARENT_ETHERNET) if GRE_DEVICES.contains(&device) => Ok((Header::Ethernet, behind)),
        // if_ether.h: ETH_P_802_2, CAN and CAN FD.
        (_, 4) => Ok((Header::Llc, behind)),
        (_, 0x0c..=0x0e) => Err(Kind::LinkType(227)),
        _ => Ok((Header::Ether(protocol), behind)),
    }
}

/// The radiotap header: only its length matters, and whether the 802.11 header is padded.
fn radiotap(frame: Part<'_>) -> Result<(Header, Part<'_>), Kind> {
    let len = usize::from(u16::from_le_bytes(frame.array(2)?));
    Ok((Header::Wireless, frame.skip(len)?))
}

/// Linux's NFLOG: attributes in the byte order of the host, of which one is the packet.
fn nflog(frame: Part<'_>) -> Result<(Header, Part<'_>), Kind> {
    const PAYLOAD: u16 = 9;
    let walk = |read: fn([u8; 2]) -> u16| {
        let mut rest = frame.skip(4)?;
        loop {
            let (len, kind) = (usize::from(read(rest.array(0)?)), read(rest.array(2)?));
            if len < 4 {
                return Err(MALFORMED);
            }
            // The two upper bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
            if kind & 0x3fff == PAYLOAD {
                return Ok(rest.skip(4)?.with_length(len as u32 - 4));
            }
            rest = rest.skip(len.next_multiple_of(4))?;
        }
    };
    walk(u16::from_le_bytes).or_else(|_| walk(u16::from_be_bytes)).map(|packet| (Header::Ip, packet))
}

/// What is innermost, of a part that begins with this header.
fn inner(header: Header, part: Part<'_>, outside: Outside) -> Found<'_> {
    if outside.headers == DEPTH {
        return Err(Kind::Named("more headers in one another than are read"));
    }
    let outside = Outside { headers: outside.headers + 1, ..outside };
    match header {
        Header::Ethernet => match part.u16(12)? {
            // Below, it is a length (IEEE 802.3 section 3.2.6).
            0..=1535 => inner(Header::Llc, part.skip(14)?, outside),
            kind => inner(Header::Ether(kind), part.skip(14)?, outside),
        },
        Header::Ether(kind) => ether(kind, part, outside),
        Header::Llc => llc(part, outside),
        Header::Ppp => ppp(part, outside),
        Header::Mpls => mpls(part, outside),
        Header::Wireless => wireless(part, outside),
        Header::Ip => {
            let (packet, protocol, body) = ip(part)?;
            inner(Header::InIp(protocol, packet), body, outside)
        }
        Header::InIp(protocol, packet) => in_ip(protocol, packet, part, outside),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands among functions that may fail")]
fn other(kind: Kind, outside: Outside) -> Found<'static> {
    Ok((Content::Other(kind), outside))
}

fn is(kind: Kind, outside: Outside) -> Found<'static> {
    if kind.is_without_tcp() { other(kind, outside) } else { Err(kind) }
}

fn ether(kind: u16, part: Part<'_>, outside: Outside) -> Found<'_> {
    match kind {
        IPV4 | IPV6 => inner(Header::Ip, part, outside),
        // VLAN tags: IEEE 802.1Q, 802.1ad, and its number before that.
        0x8100 | 0x88a8 | 0x9100 => {
            let vlans = outside.vlans << 12 | u32::from(part.u16(0)? & 0xfff);
            inner(Header::Ether(part.u16(2)?), part.skip(4)?, Outside { vlans, ..outside })
        }
        TRANSPARENT_ETHERNET => inner(Header::Ethernet, part, outside),
        0x8847 | 0x8848 => inner(Header::Mpls, part, outside),
        // PPPoE session: six bytes (RFC 2516 section 4), the length of the rest last.
        0x8864 => {
            let len = u32::from(part.u16(4)?);
            let behind = part.skip(6)?;
            inner(Header::Ppp, if len > 0 { behind.with_length(len) } else { behind }, outside)
        }
        PPP => inner(Header::Ppp, part, outside),
        _ => is(Kind::EtherType(kind), outside),
    }
}

/// IEEE 802.2; with SNAP an EtherType follows (RFC 1042).
fn llc(part: Part<'_>, outside: Outside) -> Found<'_> {
    match part.array(0)? {
        [0xaa, 0xaa, 3] if !matches!(part.array(3)?, [0, 0, 0 | 0xf8]) => Err(Kind::Named("IEEE 802.2 SNAP, a vendor's own")),
        [0xaa, 0xaa, 3] => inner(Header::Ether(part.u16(6)?), part.skip(8)?, outside),
        // By the service access points of IEEE 802.
        [0x06, 0x06, 3] => inner(Header::Ip, part.skip(3)?, outside),
        [0x42, 0x42, _] => other(Kind::Named("spanning tree"), outside),
        [0xfe, 0xfe, _] => other(Kind::Named("IS-IS"), outside),
        _ => Err(Kind::Named("IEEE 802.2 LLC")),
    }
}

/// PPP (RFC 1661 section 2): HDLC's address and control may stand before it, and the protocol may
/// be compressed to a byte.
fn ppp(part: Part<'_>, outside: Outside) -> Found<'_> {
    let part = if part.u16(0) == Ok(0xff03) { part.skip(2)? } else { part };
    let first = part.byte(0)?;
    let (protocol, behind) = if first & 1 == 1 { (u16::from(first), part.skip(1)?) } else { (part.u16(0)?, part.skip(2)?) };
    match protocol {
        0x0021 | 0x0057 => inner(Header::Ip, behind, outside),
        0x0281 | 0x0283 => inner(Header::Mpls, behind, outside),
        _ => is(Kind::Ppp(protocol), outside),
    }
}

/// A stack of MPLS labels (RFC 3032 section 2.1). A label does not say what is under it: IP begins
/// with its version, a control word with 0 (RFC 4385 section 3), and else it is an Ethernet frame.
fn mpls(part: Part<'_>, outside: Outside) -> Found<'_> {
    const BOTTOM: u8 = 1;
    if part.byte(2)? & BOTTOM == 0 {
        return inner(Header::Mpls, part.skip(4)?, outside);
    }
    let behind = part.skip(4)?;
    match behind.byte(0)? >> 4 {
        4 | 6 => inner(Header::Ip, behind, outside),
        0 => inner(Header::Ethernet, behind.skip(4)?, outside),
        1 => other(Kind::Named("MPLS associated channel"), outside),
        _ => inner(Header::Ethernet, behind, outside),
    }
}

/// A frame of IEEE 802.11 (section 9.2): of data frames only those that have data.
fn wireless(part: Part<'_>, outside: Outside) -> Found<'_> {
    const TO_DS: u8 = 0x01;
    const FROM_DS: u8 = 0x02;
    const PROTECTED: u8 = 0x40;
    const ORDER: u8 = 0x80;
    const QOS: u8 = 0x80;
    const WITHOUT_DATA: u8 = 0x40;
    let [kind, flags] = part.array(0)?;
    let without = |name| other(Kind::Named(name), outside);
    match kind >> 2 & 3 {
        0 => return without("IEEE 802.11 management"),
        1 => return without("IEEE 802.11 control"),
        2 if kind & WITHOUT_DATA != 0 => return without("IEEE 802.11 without data"),
        2 => {}
        _ => return Err(MALFORMED),
    }
    if flags & PROTECTED != 0 {
        return Err(Kind::Named("IEEE 802.11, encrypted"));
    }
    let is_relayed = flags & (TO_DS | FROM_DS) == TO_DS | FROM_DS;
    let addresses = if is_relayed { 30 } else { 24 };
    // The low four bits number the fragments.
    if part.byte(22)? & 15 != 0 {
        return Err(Kind::Named("IEEE 802.11 fragment"));
    }
    let has_qos = kind & QOS != 0;
    if has_qos && part.byte(addresses)? & 0x80 != 0 {
        return Err(Kind::Named("IEEE 802.11 with several packets (A-MSDU)"));
    }
    let header = addresses + if has_qos { 2 } else { 0 } + if has_qos && flags & ORDER != 0 { 4 } else { 0 };
    let behind = part.skip(header)?;
    // Some devices pad the header to a multiple of four.
    if header % 4 == 2 && behind.u16(0)? == 0 && behind.u16(2)? == 0xaaaa {
        return inner(Header::Llc, behind.skip(2)?, outside);
    }
    inner(Header::Llc, behind, outside)
}

/// An IP header with its extensions: what it tells, the protocol behind it, and the rest.
pub(crate) fn ip(part: Part<'_>) -> Result<(IpPacket, u8, Part<'_>), Kind> {
    match part.byte(0)? >> 4 {
        4 => ipv4(part),
        6 => ipv6(part),
        _ => Err(Kind::Named("neither IPv4 nor IPv6")),
    }
}

fn ipv4(part: Part<'_>) -> Result<(IpPacket, u8, Part<'_>), Kind> {
    let header = usize::from(part.byte(0)? & 15) * 4;
    let len = match part.u16(2)? {
        // Left to the card, which cuts the packet apart (TSO); Linux does so with packets that are
        // too long for the field (BIG TCP).
        0 => part.wire,
        len => u32::from(len),
    };
    if header < 20 || len < header as u32 {
        return Err(MALFORMED);
    }
    let address = |at| part.u32(at).map(|bits| IpAddr::V4(Ipv4Addr::from(bits)));
    let (id, fragment) = (u32::from(part.u16(4)?), part.u16(6)?);
    let (offset, has_more) = (u32::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0);
    let packet = IpPacket {
        source: address(12)?,
        destination: address(16)?,
        len,
        ecn_ce: part.byte(1)? & 3 == 3,
        hops: part.byte(8)?,
        id: id as u16,
        fragment: (offset > 0 || has_more).then_some(Fragment { id, offset, has_more, extensions: 0 }),
    };
    Ok((packet, part.byte(9)?, part.with_length(len).skip(header)?))
}

fn ipv6(part: Part<'_>) -> Result<(IpPacket, u8, Part<'_>), Kind> {
    const HEADER: usize = 40;
    let address = |at| part.array::<16>(at).map(|bits| IpAddr::V6(Ipv6Addr::from(bits)));
    let len = match part.u16(4)? {
        // As IPv4's. A jumbogram's option has the length on the wire (RFC 2675 section 2), which is
        // that of the frame.
        0 => part.wire,
        len => u32::from(len) + HEADER as u32,
    };
    let (source, destination, ecn_ce) = (address(8)?, address(24)?, part.byte(1)? >> 4 & 3 == 3);
    let mut packet = IpPacket { source, destination, len, ecn_ce, hops: part.byte(7)?, id: 0, fragment: None };
    let (mut protocol, mut rest) = (part.byte(6)?, part.with_length(len).skip(HEADER)?);
    for _ in 0..DEPTH {
        // RFC 8200 section 4: hop-by-hop options, routing, destination options; and mobility, HIP,
        // shim6. Their length does not count the first eight bytes.
        let extension = match protocol {
            0 | 43 | 60 | 135 | 139 | 140 => 8 + 8 * usize::from(rest.byte(1)?),
            44 => {
                let (bits, id) = (rest.u16(2)?, rest.u32(4)?);
                let (offset, has_more) = (u32::from(bits & 0xfff8), bits & 1 != 0);
                packet.fragment = (offset > 0 || has_more).then_some(Fragment { id, offset, has_more, extensions: 0 });
                8
            }
            _ => return Ok((packet, protocol, rest)),
        };
        let is_fragment_header = protocol == 44;
        (protocol, rest) = (rest.byte(0)?, rest.skip(extension)?);
        if let Some(fragment) = &mut packet.fragment {
            if fragment.offset > 0 {
                return Ok((packet, protocol, rest));
            }
            fragment.extensions += if is_fragment_header { 0 } else { extension as u32 };
        }
    }
    Err(Kind::Named("more headers in one another than are read"))
}

fn in_ip(protocol: u8, packet: IpPacket, body: Part<'_>, outside: Outside) -> Found<'_> {
    let found = || Ok((Content::Ip(protocol, packet, body), outside));
    if packet.fragment.is_some_and(|fragment| fragment.offset > 0) && protocol != TCP {
        return other(Kind::Named("second or later IP fragment"), outside);
    }
    match protocol {
        TCP | ICMP | ICMPV6 => found(),
        UDP => in_udp(body, outside).unwrap_or_else(found),
        IPIP | IPV6_IN_IP => inner(Header::Ip, body, outside.through("IP in IP")),
        GRE => {
            let (header, behind) = behind_gre(body)?;
            inner(header, behind, outside.through("GRE"))
        }
        // RFC 4302 section 2.2: in units of four bytes, without the first two.
        AH => inner(Header::InIp(body.byte(0)?, packet), body.skip(8 + 4 * usize::from(body.byte(1)?))?, outside),
        ETHER_IP => inner(Header::Ethernet, body.skip(2)?, outside.through("EtherIP")),
        MPLS_IN_IP => inner(Header::Mpls, body, outside.through("MPLS in IP")),
        ETHERNET_IN_IP => inner(Header::Ethernet, body, outside.through("Ethernet in IP")),
        _ => is(Kind::IpProtocol(protocol), outside),
    }
}

/// What a datagram carries, if that is a tunnel's packet: by its destination port, and GRE at any
/// other port if its packet ends exactly where the datagram does.
fn in_udp(datagram: Part<'_>, outside: Outside) -> Option<Found<'_>> {
    let (port, len) = (datagram.u16(2).ok()?, u32::from(datagram.u16(4).ok()?));
    let whole = if len >= 8 { datagram.with_length(len) } else { datagram };
    let payload = whole.skip(8).ok()?;
    let (tunnel, found) = match port {
        gre::UDP_PORT | mpt::UDP_PORT => ("GRE-in-UDP", behind_gre(payload).ok()),
        // VXLAN (RFC 7348), and its port in Linux before that; its flag I must be set.
        4789 | 8472 => ("VXLAN", behind_vxlan(payload)),
        6081 => ("Geneve", behind_geneve(payload)),
        2152 => ("GTP-U", behind_gtp(payload)),
        6635 => ("MPLS in UDP", Some((Header::Mpls, payload))),
        1701 => ("L2TP", behind_l2tp(payload)),
        _ => ("", None),
    };
    let outside_of = |tunnel| outside.through(tunnel);
    if let Some((header, behind)) = found {
        return Some(inner(header, behind, outside_of(tunnel)));
    }
    let (Header::Ether(kind @ (IPV4 | IPV6)), packet) = behind_gre(payload).ok()? else { return None };
    let packet_len = match packet.byte(0).ok()? >> 4 {
        4 if kind == IPV4 => u32::from(packet.u16(2).ok()?),
        6 if kind == IPV6 => u32::from(packet.u16(4).ok()?) + 40,
        _ => return None,
    };
    if packet_len != packet.wire {
        return None;
    }
    inner(Header::Ip, packet, outside_of("GRE-in-UDP")).ok().map(Ok)
}

/// What stands behind a GRE header (RFC 2784, RFC 2890), of PPTP too (RFC 2637 section 4.1), and of
/// ERSPAN.
fn behind_gre(part: Part<'_>) -> Result<(Header, Part<'_>), Kind> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACK: u16 = 0x0080;
    let (flags, kind) = (part.u16(0)?, part.u16(2)?);
    let count = |bits: &[u16]| 4 * bits.iter().filter(|&&bit| flags & bit != 0).count();
    // A receiver refuses the reserved bits that RFC 2784 section 2.3 names.
    match flags & 7 {
        0 if flags & (ROUTING | 0x0fff) == 0 => {
            let behind = part.skip(4 + count(&[CHECKSUM, KEY, SEQUENCE]))?;
            match kind {
                0x88be if flags & SEQUENCE != 0 => Ok((Header::Ethernet, behind.skip(8)?)),
                0x88be => Ok((Header::Ethernet, behind)),
                0x22eb => {
                    let has_more = behind.byte(11)? & 1 != 0;
                    Ok((Header::Ethernet, behind.skip(if has_more { 20 } else { 12 })?))
                }
                _ => Ok((Header::Ether(kind), behind)),
            }
        }
        1 if kind == PPP => {
            let behind = part.skip(4 + count(&[KEY, SEQUENCE, ACK]))?;
            Ok((Header::Ppp, behind))
        }
        _ => Err(Kind::Named("GRE with source routing or of an unknown version")),
    }
}

fn behind_vxlan(part: Part<'_>) -> Option<(Header, Part<'_>)> {
    const HAS_VNI: u8 = 0x08;
    (part.byte(0).ok()? & HAS_VNI != 0).then_some(())?;
    Some((Header::Ethernet, part.skip(8).ok()?))
}

/// RFC 8926 section 3.4: version 0, options in units of four bytes.
fn behind_geneve(part: Part<'_>) -> Option<(Header, Part<'_>)> {
    let first = part.byte(0).ok()?;
    (first >> 6 == 0).then_some(())?;
    Some((Header::Ether(part.u16(2).ok()?), part.skip(8 + 4 * usize::from(first & 63)).ok()?))
}

/// 3GPP TS 29.281 section 5.1: version 1, a user's packet; with any of three flags four more bytes,
/// the last of which begins a chain of extension headers, each of which says its length in units of
/// four bytes first and the next one's kind last.
fn behind_gtp(part: Part<'_>) -> Option<(Header, Part<'_>)> {
    const USER_PACKET: u8 = 255;
    let [flags, kind] = part.array(0).ok()?;
    (flags >> 4 == 3 && kind == USER_PACKET).then_some(())?;
    let has_more = flags & 7 != 0;
    let (mut next, mut rest) = if has_more { (part.byte(11).ok()?, part.skip(12).ok()?) } else { (0, part.skip(8).ok()?) };
    for _ in 0..DEPTH {
        if next == 0 {
            return Some((Header::Ip, rest));
        }
        let len = 4 * usize::from(rest.byte(0).ok()?);
        (next, rest) = (rest.byte(len.checked_sub(1)?).ok()?, rest.skip(len).ok()?);
    }
    None
}

/// RFC 2661 section 3.1: a data message of version 2, with length, sequence numbers and padding if
/// flags say so.
fn behind_l2tp(part: Part<'_>) -> Option<(Header, Part<'_>)> {
    const CONTROL: u16 = 0x8000;
    const LENGTH: u16 = 0x4000;
    const SEQUENCE: u16 = 0x0800;
    const OFFSET: u16 = 0x0200;
    let flags = part.u16(0).ok()?;
    (flags & CONTROL == 0 && flags & 15 == 2).then_some(())?;
    let mut at = 6 + if flags & LENGTH != 0 { 2 } else { 0 } + if flags & SEQUENCE != 0 { 4 } else { 0 };
    if flags & OFFSET != 0 {
        at += 2 + usize::from(part.u16(at).ok()?);
    }
    Some((Header::Ppp, part.skip(at).ok()?))
}
