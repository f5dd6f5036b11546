//! What a packet without a TCP segment is, in a word for a person.

use std::fmt;

/// What is in a packet, or what keeps it from being read.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Named(&'static str),
    /// By the registry of link types at tcpdump.org.
    LinkType(i32),
    /// By IANA's "IEEE 802 Numbers".
    EtherType(u16),
    /// By IANA's "PPP Numbers".
    Ppp(u16),
    /// By IANA's "Protocol Numbers".
    IpProtocol(u8),
}

/// The snap length ends a packet before its headers do, or the packet is shorter than they say.
pub(crate) const CUT: Kind = Kind::Named("cut off before its headers end");
/// A length or a version that cannot be.
pub(crate) const MALFORMED: Kind = Kind::Named("headers that contradict themselves");

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Named(name) => f.write_str(name),
            Self::LinkType(number) => match link_type(number) {
                "" => write!(f, "link type {number}"),
                name => write!(f, "{name}, link type {number}"),
            },
            Self::EtherType(number) => match ether_type(number) {
                "" => write!(f, "EtherType 0x{number:04x}"),
                name => f.write_str(name),
            },
            Self::Ppp(number) => write!(f, "PPP protocol 0x{number:04x}"),
            Self::IpProtocol(number) => match ip_protocol(number) {
                "" => write!(f, "IP protocol {number}"),
                name => f.write_str(name),
            },
        }
    }
}

/// Of link types that are not read.
fn link_type(number: i32) -> &'static str {
    match number {
        3 | 202 => "AX.25",
        6 => "Token Ring",
        7 | 129 => "ARCNET",
        8 => "SLIP",
        10 => "FDDI",
        11 | 123 => "ATM",
        107 => "Frame Relay",
        114 => "LocalTalk",
        122 => "IP over Fibre Channel",
        138 => "IP over IEEE 1394",
        139..=142 => "SS7",
        143 => "DOCSIS",
        144 => "IrDA",
        147..=162 => "USER0 to USER15, whose meaning only their user knows",
        165 => "BACnet",
        177 | 203 => "LAPD",
        187 | 201 | 254 => "Bluetooth HCI",
        186 | 189 | 220 | 249 | 266 | 288 | 292..=295 => "USB",
        190 | 227 => "CAN",
        191 | 195 | 215 | 230 | 283 => "IEEE 802.15.4",
        197 => "ERF",
        209 => "IPMB",
        210 => "FlexRay",
        212 => "LIN",
        224 | 225 => "Fibre Channel",
        231 => "D-Bus",
        242 => "IP over InfiniBand",
        243 => "MPEG-2 transport stream",
        247 => "InfiniBand",
        251 | 255 | 256 | 272 => "Bluetooth Low Energy",
        252 => "Wireshark's upper layers",
        253 => "netlink",
        264 => "ISO 14443",
        _ => "",
    }
}

fn ether_type(number: u16) -> &'static str {
    match number {
        0x0806 => "ARP",
        0x0842 => "Wake-on-LAN",
        0x8035 => "RARP",
        0x8137 => "IPX",
        0x8808 => "Ethernet flow control",
        0x8809 => "LACP",
        0x8863 => "PPPoE discovery",
        0x888e => "EAPOL",
        0x88a2 => "ATA over Ethernet",
        0x88cc => "LLDP",
        0x88e5 => "MACsec, EtherType 0x88e5",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        0x894f => "NSH, EtherType 0x894f",
        _ => "",
    }
}

fn ip_protocol(number: u8) -> &'static str {
    match number {
        2 => "IGMP",
        33 => "DCCP",
        46 => "RSVP",
        50 => "ESP, encrypted",
        55 => "minimal IP encapsulation, protocol 55",
        59 => "IPv6 without payload",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        108 => "IPComp, compressed",
        112 => "VRRP",
        115 => "L2TPv3, protocol 115",
        132 => "SCTP",
        136 => "UDP-Lite",
        _ => "",
    }
}

impl Kind {
    /// Known not to carry TCP: as good as read. Of the rest nobody can say what is in it.
    pub(crate) fn is_without_tcp(self) -> bool {
        match self {
            Self::Named(_) | Self::LinkType(_) => false,
            Self::EtherType(number) => {
                matches!(number, 0x0806 | 0x0842 | 0x8035 | 0x8137 | 0x8808 | 0x8809 | 0x8863 | 0x888e | 0x88a2 | 0x88cc | 0x88f7 | 0x8902)
            }
            // Link control and network control protocols (RFC 1661 section 2).
            Self::Ppp(number) => number >= 0x8000,
            Self::IpProtocol(number) => !ip_protocol(number).is_empty() && !matches!(number, 50 | 55 | 108 | 115),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_by_what_a_person_can_look_up() {
        for (kind, name) in [
            (Kind::LinkType(189), "USB, link type 189"),
            (Kind::LinkType(999), "link type 999"),
            (Kind::EtherType(0x0806), "ARP"),
            (Kind::EtherType(0x4305), "EtherType 0x4305"),
            (Kind::Ppp(0xc021), "PPP protocol 0xc021"),
            (Kind::IpProtocol(50), "ESP, encrypted"),
            (Kind::IpProtocol(253), "IP protocol 253"),
        ] {
            assert_eq!(kind.to_string(), name);
        }
    }
}
