//! Messages of ICMP and ICMPv6 by their numbers.

use crate::point::Point;
use std::net::IpAddr;

/// The type and code of a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) is_v6: bool,
    pub(crate) kind: u8,
    pub(crate) code: u8,
}

impl Message {
    pub(crate) fn protocol(self) -> &'static str {
        if self.is_v6 { "ICMPv6" } else { "ICMP" }
    }

    /// An error quotes the packet that it is about (RFC 1122 section 3.2.2, RFC 4443 section 2.1).
    pub(crate) fn is_error(self) -> bool {
        if self.is_v6 { self.kind < 128 } else { matches!(self.kind, 3 | 4 | 5 | 11 | 12) }
    }

    /// By the registries of IANA, "ICMP Parameters" and "ICMPv6 Parameters".
    pub(crate) fn name(self) -> &'static str {
        match (self.is_v6, self.kind, self.code) {
            (false, 0, _) | (true, 129, _) => "echo reply",
            (false, 8, _) | (true, 128, _) => "echo request",
            (false, 3, 0) => "network unreachable",
            (false, 3, 1) => "host unreachable",
            (false, 3, 2) => "protocol unreachable",
            (false, 3, 3) | (true, 1, 4) => "port unreachable",
            (false, 3, 4) => "fragmentation needed",
            (false, 3, 9 | 10 | 13) | (true, 1, 1) => "administratively prohibited",
            (false, 3, _) | (true, 1, _) if self.kind == 3 || self.code > 4 => "destination unreachable",
            (false, 4, _) => "source quench",
            (false, 5, _) | (true, 137, _) => "redirect",
            (false, 9, _) | (true, 134, _) => "router advertisement",
            (false, 10, _) | (true, 133, _) => "router solicitation",
            (false, 11, _) | (true, 3, _) => "time exceeded",
            (false, 12, _) | (true, 4, _) => "parameter problem",
            (true, 1, 0) => "no route",
            (true, 1, 2) => "beyond scope of the source address",
            (true, 1, _) => "address unreachable",
            (true, 2, _) => "packet too big",
            (true, 130..=132 | 143, _) => "multicast listener",
            (true, 135, _) => "neighbour solicitation",
            (true, 136, _) => "neighbour advertisement",
            _ => "other",
        }
    }
}

/// An error about a stream's packets, as often as the file that showed it first shows it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) from: IpAddr,
    pub(crate) message: Message,
    pub(crate) mtu: Option<u32>,
    /// The end whose packet it is about: 0 is the client.
    pub(crate) side: usize,
    pub(crate) file: usize,
    /// Where that file showed it first.
    pub(crate) point: Point,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Packets of that end longer than the MTU, after the first of these messages.
    pub(crate) longer_after: u64,
    pub(crate) longest_after: u32,
}
