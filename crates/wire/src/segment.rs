//! TCP segments with their options, and ICMP "fragmentation needed".

use polypath_base::{DataSeq, Seq};
use std::num::NonZeroU64;

/// TCP header flags (RFC 9293 section 3.1).
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    pub const FIN: Self = Self(1);
    pub const SYN: Self = Self(2);
    pub const RST: Self = Self(4);
    pub const PSH: Self = Self(8);
    pub const ACK: Self = Self(16);
    pub const URG: Self = Self(32);
    pub const ECE: Self = Self(64);
    pub const CWR: Self = Self(128);

    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = ["F", "S", "R", "P", ".", "U", "E", "W"];
        (0..8).filter(|bit| self.0 & (1 << bit) != 0).try_for_each(|bit| f.write_str(names[bit]))
    }
}

/// One selective acknowledgement: sequence numbers `start..end` (RFC 2018).
#[derive(Copy, Clone, Default, Debug, PartialEq, Eq)]
pub struct SackBlock {
    pub start: Seq,
    pub end: Seq,
}

/// Up to four SACK blocks; a DSACK (RFC 2883) stands first.
#[derive(Copy, Clone, Default, Debug, PartialEq, Eq)]
pub struct Sack {
    pub blocks: [SackBlock; 4],
    pub len: u8,
}

impl Sack {
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Appends a block; a fifth is refused with `false`.
    #[inline]
    pub fn push(&mut self, block: SackBlock) -> bool {
        let room = usize::from(self.len) < self.blocks.len();
        if room {
            self.blocks[usize::from(self.len)] = block;
            self.len += 1;
        }
        room
    }
}

/// The DSS option (RFC 8684 section 3.3): a data acknowledgement, a mapping, or both.
#[derive(Copy, Clone, Default, Debug, PartialEq, Eq)]
pub struct Dss {
    /// Next data sequence number expected, if `has_ack`.
    pub data_ack: DataSeq,
    /// Data sequence number of the first mapped byte, if `map_len > 0` or `data_fin`.
    pub dsn: DataSeq,
    /// First mapped byte as an offset in the subflow's sequence space (1 is the first byte after the SYN), if `map_len > 0`.
    pub ssn: u32,
    /// Length of the mapping in bytes, the DATA_FIN's place included.
    pub map_len: u16,
    pub has_ack: bool,
    pub data_fin: bool,
    /// Which fields are eight bytes long on the wire.
    pub ack64: bool,
    pub dsn64: bool,
    pub checksum: bool,
}

/// The MPTCP option of a segment. One segment carries at most one besides the DSS, as Linux sends them.
#[derive(Copy, Clone, Default, Debug, PartialEq, Eq)]
pub enum MpOption {
    #[default]
    None,
    /// MP_CAPABLE: the sender's key, and the receiver's once it is known (keys are never zero here, which keeps a segment at two cache lines).
    Capable {
        version: u8,
        sender_key: u64,
        receiver_key: Option<NonZeroU64>,
        checksum: bool,
    },
    /// MP_JOIN on a SYN: the token of the connection to join.
    JoinSyn {
        token: u32,
        nonce: u32,
        address_id: u8,
        backup: bool,
    },
    /// MP_JOIN on a SYN/ACK: truncated HMAC.
    JoinSynAck {
        hmac: u64,
        nonce: u32,
        address_id: u8,
        backup: bool,
    },
    /// MP_JOIN on the third ACK; the HMAC's 20 bytes are held as its first eight.
    JoinAck {
        hmac: u64,
    },
    AddAddr {
        address_id: u8,
        address: u32,
        port: u16,
        echo: bool,
    },
    RemoveAddr {
        address_id: u8,
    },
    Prio {
        backup: bool,
    },
    Fail {
        dsn: DataSeq,
    },
    FastClose {
        receiver_key: u64,
    },
    Rst {
        reason: u8,
        transient: bool,
    },
}

/// One TCP segment.
///
/// What every segment has stands first and in this order, so that whoever keeps that part alone, in the same order, copies it in a few
/// large pieces.
#[derive(Copy, Clone, Default, Debug, PartialEq)]
#[repr(C)]
pub struct Segment {
    pub dss: Dss,
    pub seq: Seq,
    pub ack: Seq,
    /// Payload bytes.
    pub len: u32,
    /// RFC 7323 timestamps, in milliseconds; absent if `has_ts` is false.
    pub ts_val: u32,
    pub ts_ecr: u32,
    /// Window field as on the wire: unscaled.
    pub window: u16,
    pub flags: Flags,
    /// ECN codepoint of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Don't Fragment.
    pub df: bool,
    pub has_ts: bool,
    pub has_dss: bool,
    /// Only on a SYN: maximum segment size (0: absent), window scale (255: absent), SACK permitted.
    pub mss: u16,
    pub window_scale: u8,
    pub sack_permitted: bool,
    pub sack: Sack,
    pub mp: MpOption,
}

/// Ethernet framing counted on top of the IP packet: 14 bytes as Linux's netem counts (no preamble, FCS or gap).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EthernetFraming;

impl EthernetFraming {
    pub const NETEM: u32 = 14;
    /// 14 header, 4 FCS, 8 preamble, 12 gap: what a physical link spends.
    pub const PHYSICAL: u32 = 38;
}

impl Segment {
    pub const IPV4_HEADER: u32 = 20;
    pub const TCP_HEADER: u32 = 20;
    pub const UDP_HEADER: u32 = 8;

    /// It has no options but timestamps and DSS, as nearly all segments.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.sack.len == 0 && matches!(self.mp, MpOption::None) && !self.flags.has(Flags::SYN)
    }

    /// Bytes of TCP options on the wire, padded to a multiple of four.
    #[inline]
    pub fn options_len(&self) -> u32 {
        let always = if self.has_ts { 12 } else { 0 };
        let dss = if self.has_dss { self.dss.wire_len() } else { 0 };
        if self.is_plain() { always + dss } else { self.rare_options_len(always, dss) }
    }

    fn rare_options_len(&self, mut n: u32, dss: u32) -> u32 {
        if self.flags.has(Flags::SYN) {
            n += if self.mss != 0 { 4 } else { 0 };
            n += if self.sack_permitted { if self.has_ts { 0 } else { 4 } } else { 0 };
            n += if self.window_scale != 255 { 4 } else { 0 };
        }
        if self.sack.len > 0 {
            n += 4 + 8 * u32::from(self.sack.len);
        }
        match self.mp {
            // RFC 8684 section 3.1: with data, MP_CAPABLE carries the mapping and stands in for the DSS option.
            MpOption::Capable { .. } if self.len > 0 => n + 24,
            option => n + dss + option.wire_len(),
        }
    }

    /// Length of the IPv4 packet in bytes.
    #[inline]
    pub fn ip_len(&self) -> u32 {
        Self::IPV4_HEADER + Self::TCP_HEADER + self.options_len() + self.len
    }
}

impl Dss {
    /// Length on the wire in bytes, padded to a multiple of four (RFC 8684 figure 9).
    #[inline]
    pub const fn wire_len(&self) -> u32 {
        let mut n = 4;
        if self.has_ack {
            n += if self.ack64 { 8 } else { 4 };
        }
        if self.map_len > 0 {
            n += if self.dsn64 { 8 } else { 4 } + 4 + 2 + if self.checksum { 2 } else { 0 };
        }
        (n + 3) & !3
    }
}

impl MpOption {
    /// Length on the wire in bytes, padded to a multiple of four (RFC 8684 sections 3.1 to 3.7).
    pub const fn wire_len(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Capable { receiver_key: Some(_), .. } => 20,
            // Version 1 tells no key on the SYN.
            Self::Capable { sender_key: 0, .. } => 4,
            Self::Capable { .. } => 12,
            Self::JoinSyn { .. } => 12,
            Self::JoinSynAck { .. } => 16,
            Self::JoinAck { .. } => 24,
            Self::AddAddr { echo: true, .. } => 8,
            Self::AddAddr { echo: false, .. } => 16,
            Self::RemoveAddr { .. } | Self::Prio { .. } | Self::Rst { .. } => 4,
            Self::Fail { .. } | Self::FastClose { .. } => 12,
        }
    }
}

/// ICMP "fragmentation needed" (RFC 1191 section 4), as the sender of the offending segment hears it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Sequence number quoted from the dropped segment.
    pub seq: Seq,
    /// MTU of the next hop, in bytes.
    pub mtu: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_segment_with_timestamps_is_1500_bytes() {
        let segment = Segment { len: 1448, has_ts: true, flags: Flags::ACK, ..Segment::default() };
        assert_eq!(segment.ip_len(), 1500);
    }

    #[test]
    fn a_segment_fits_two_cache_lines() {
        assert!(size_of::<Segment>() <= 128, "{}", size_of::<Segment>());
    }

    #[test]
    fn a_fifth_sack_block_is_refused() {
        let mut sack = Sack::default();
        assert!((0..4).all(|i| sack.push(SackBlock { start: Seq::new(i), end: Seq::new(i + 1) })));
        assert!(!sack.push(SackBlock::default()));
    }
}
