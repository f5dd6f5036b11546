//! TCP segments with their options, and ICMP "fragmentation needed".

use crate::inline::Inline;
use crate::{accecn, mptcp};
use polypath_base::{DataSeq, Seq};

/// Most bytes of options: a header is 60 bytes at most (RFC 9293 section 3.1).
pub const MAX_OPTIONS: u32 = 40;
/// Bytes of data in a segment to a peer that has not told how long it takes them
/// (RFC 9293 section 3.7.1).
pub const DEFAULT_MSS: u32 = 536;
/// Bytes of timestamps in the options of a segment, padded (RFC 7323 appendix A; Linux:
/// `TCPOLEN_TSTAMP_ALIGNED`).
pub const TIMESTAMP_BYTES: u32 = 12;
/// Bytes of a SACK option, padded, without its blocks (RFC 2018 section 3).
pub const SACK_BYTES: u32 = 4;
/// Bytes of one block of a SACK option.
pub const SACK_BLOCK_BYTES: u32 = 8;

/// Bytes of a SACK option with so many blocks; without any there is none.
#[inline]
pub const fn sack_bytes(blocks: u32) -> u32 {
    if blocks == 0 { 0 } else { SACK_BYTES + SACK_BLOCK_BYTES * blocks }
}

/// TCP header flags (RFC 9293 section 3.1).
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has no more data; takes one sequence number behind the payload.
    pub const FIN: Self = Self(1);
    /// Opens a connection; takes one sequence number before the payload.
    pub const SYN: Self = Self(2);
    /// Ends the connection at once.
    pub const RST: Self = Self(4);
    /// The receiver shall give its data to the application now (RFC 9293 section 3.9.1.2).
    pub const PSH: Self = Self(8);
    /// The acknowledgement field counts.
    pub const ACK: Self = Self(16);
    /// The urgent pointer counts.
    pub const URG: Self = Self(32);
    /// ECN-Echo: a packet came with a CE mark; in a handshake, the sender can do ECN
    /// (RFC 3168 section 6.1.1).
    pub const ECE: Self = Self(64);
    /// Congestion window reduced: the sender has answered ECE; on a SYN with ECE, it offers ECN
    /// (RFC 3168 section 6.1.1).
    pub const CWR: Self = Self(128);

    /// Whether every flag of `other` is set; true if `other` has none.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both.
    #[must_use]
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
    /// First sequence number of the block.
    pub start: Seq,
    /// The one behind the last.
    pub end: Seq,
}

/// Up to four SACK blocks; a DSACK (RFC 2883) stands first.
#[derive(Copy, Clone, Default, Debug, PartialEq, Eq)]
pub struct Sack {
    /// The first `len` count, in the order in which they stand in the option.
    pub blocks: [SackBlock; 4],
    /// 0 to 4.
    pub len: u8,
}

impl Sack {
    /// The blocks that count.
    ///
    /// # Panics
    /// If `len` is more than 4.
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
    /// First mapped byte as an offset in the subflow's sequence space (1 is the first byte after
    /// the SYN), if `map_len > 0`.
    pub ssn: u32,
    /// Length of the mapping in bytes, the DATA_FIN's place included.
    pub map_len: u16,
    /// Flag A: `data_ack` counts.
    pub has_ack: bool,
    /// Flag F: the data end with this mapping, whose last number is the DATA_FIN's
    /// (RFC 8684 section 3.3.3).
    pub data_fin: bool,
    /// Flag a: `data_ack` has eight bytes on the wire instead of four.
    pub ack64: bool,
    /// Flag m: `dsn` has eight bytes on the wire instead of four.
    pub dsn64: bool,
    /// The mapping has a checksum (RFC 8684 section 3.3.1).
    pub checksum: bool,
    /// The mapping has no end: all that follows is mapped, in a fallback (RFC 8684 section 3.7).
    /// Then `map_len` is 0.
    pub infinite: bool,
    /// It was read from bytes: a number of four bytes is the lower half of one, and the mapping may
    /// be that of segments without one (RFC 8684 section 3.3.1). What an endpoint of ours makes has
    /// whole numbers, and each segment has the mapping of its data.
    pub from_wire: bool,
    /// The checksum does not match the payload. Only bytes can be wrong, so what the simulator
    /// makes never is.
    pub checksum_wrong: bool,
}

/// The MPTCP options of a segment besides the DSS, and the AccECN option, each in the bytes that it
/// has on the wire.
///
/// Bytes are the most compact form: a segment has room for whatever Linux puts into one, an IPv6
/// address with port and HMAC (30 bytes) included, and stays two cache lines long. Few segments
/// have such an option, so nobody reads them on the hot path.
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub struct MpOptions(Inline<{ MpOptions::MAX_LEN }>);

impl MpOptions {
    /// Most bytes, without padding.
    pub const MAX_LEN: usize = 30;

    /// There are none of MPTCP, as in nearly all segments.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty() || self.first().is_none()
    }

    /// There is an option of any kind.
    #[inline]
    const fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Appends an option; false, and no change, if there is no room for it or it is no valid one.
    pub fn push(&mut self, option: &mptcp::Repr) -> bool {
        debug_assert!(!matches!(option, mptcp::Repr::Dss { .. }), "the DSS has a place of its own");
        let mut bytes = [0; Self::MAX_LEN];
        option.emit(&mut bytes).is_ok() && self.0.extend(&bytes[..option.buffer_len()])
    }

    /// The options in their order.
    pub fn iter(&self) -> impl Iterator<Item = mptcp::Repr> + '_ {
        // They were written by `push`, so they can be read.
        self.packets().filter_map(|packet| mptcp::Repr::parse(&packet).ok())
    }

    /// The option that was pushed first; none if there are none.
    pub fn first(&self) -> Option<mptcp::Repr> {
        self.iter().next()
    }

    /// Takes the first option out.
    pub fn pop_first(&mut self) -> Option<mptcp::Repr> {
        let first = self.first()?;
        let mut left = Self::default();
        for option in self.iter().skip(1) {
            // A part of what had room has room.
            left.push(&option);
        }
        if let Some(option) = self.accecn() {
            left.set_accecn(&option);
        }
        *self = left;
        Some(first)
    }

    /// The AccECN option.
    #[inline]
    pub fn accecn(&self) -> Option<accecn::Repr> {
        if self.0.is_empty() { None } else { self.raw().find_map(accecn::Repr::parse) }
    }

    /// Makes this the AccECN option; false, and no change, if there is no room for it or it is no
    /// valid one.
    pub fn set_accecn(&mut self, option: &accecn::Repr) -> bool {
        let (mut bytes, mut with) = ([0; accecn::MAX_LEN], self.without_accecn());
        let has_room = option.emit(&mut bytes).is_ok() && with.0.extend(&bytes[..option.buffer_len()]);
        if has_room {
            *self = with;
        }
        has_room
    }

    /// MPTCP's alone.
    #[must_use]
    pub fn without_accecn(&self) -> Self {
        let mut left = Self::default();
        for option in self.raw().filter(|option| option[0] == mptcp::KIND) {
            left.0.extend(option);
        }
        left
    }

    /// Each option with its kind and length. They were written by `push` and `set_accecn`, so
    /// lengths are right.
    fn raw(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (option, behind) = rest.split_at_checked(usize::from(*rest.get(1)?))?;
            rest = behind;
            Some(option)
        })
    }

    fn packets(&self) -> impl Iterator<Item = mptcp::Packet<&[u8]>> {
        self.raw().filter_map(|option| mptcp::Packet::new_checked(option).ok())
    }

    /// Bytes of MPTCP's options on the wire, each padded to a multiple of four.
    fn wire_len(&self) -> u32 {
        self.packets().map(|packet| packet.option_len().next_multiple_of(4) as u32).sum()
    }
}

impl From<mptcp::Repr> for MpOptions {
    /// One option. Every form but a REMOVE_ADDR of more than 27 addresses has room.
    fn from(option: mptcp::Repr) -> Self {
        let mut options = Self::default();
        let has_room = options.push(&option);
        debug_assert!(has_room, "{option:?} has no room");
        options
    }
}

impl std::fmt::Debug for MpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).entries(self.accecn()).finish()
    }
}

/// One TCP segment.
///
/// What every segment has stands first and in this order, so that whoever keeps that part alone, in
/// the same order, copies it in a few large pieces.
#[derive(Copy, Clone, Default, Debug, PartialEq)]
#[repr(C)]
pub struct Segment {
    /// Counts if `has_dss`.
    pub dss: Dss,
    /// Sequence number of what comes first in the segment of SYN, payload and FIN
    /// (RFC 9293 section 3.1).
    pub seq: Seq,
    /// Next sequence number that the sender expects; counts if `flags` have ACK.
    pub ack: Seq,
    /// Payload bytes.
    pub len: u32,
    /// TSval: the sender's clock, of which a unit is a millisecond here; it and `ts_ecr` count if
    /// `has_ts` (RFC 7323 section 3.2).
    pub ts_val: u32,
    /// TSecr: a TSval of the peer, in the peer's units (RFC 7323 section 4.3).
    pub ts_ecr: u32,
    /// Window field as on the wire: unscaled.
    pub window: u16,
    /// Of the TCP header (RFC 9293 section 3.1).
    pub flags: Flags,
    /// ECN codepoint of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Don't Fragment.
    pub df: bool,
    /// There is a timestamps option.
    pub has_ts: bool,
    /// There is a DSS option, or an MP_CAPABLE that carries its mapping.
    pub has_dss: bool,
    /// SACK blocks: the first so many of `sack_blocks`. What stands behind them means nothing.
    pub sack_len: u8,
    /// Only on a SYN: maximum segment size in bytes (RFC 9293 section 3.7.1); 0: absent.
    pub mss: u16,
    /// Only on a SYN: how many bits later windows are shifted by (RFC 7323 section 2.2); 255:
    /// absent.
    pub window_scale: u8,
    /// Only on a SYN: the sender takes SACK options (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// [`Segment::sack`] has those that count.
    pub sack_blocks: [SackBlock; 4],
    /// MPTCP options but the DSS, and the AccECN option.
    pub mp: MpOptions,
    /// Accurate ECN, the flag beside CWR: asks for it on a SYN, and is the highest bit of the ACE
    /// field (RFC 9768 section 3.2.2).
    pub ae: bool,
}

impl Segment {
    /// Bytes of an IPv4 header without options (RFC 791 section 3.1).
    pub const IPV4_HEADER: u32 = 20;
    /// Bytes of a TCP header without options (RFC 9293 section 3.1).
    pub const TCP_HEADER: u32 = 20;
    /// Bytes of a UDP header (RFC 768).
    pub const UDP_HEADER: u32 = 8;

    /// The SACK blocks; a DSACK (RFC 2883) stands first.
    #[inline]
    pub fn sack(&self) -> &[SackBlock] {
        &self.sack_blocks[..usize::from(self.sack_len)]
    }

    /// Replaces all SACK blocks.
    #[inline]
    pub fn set_sack(&mut self, sack: &Sack) {
        (self.sack_blocks, self.sack_len) = (sack.blocks, sack.len);
    }

    /// Appends a SACK block; a fifth is refused with `false`.
    pub fn push_sack(&mut self, block: SackBlock) -> bool {
        let mut sack = Sack { blocks: self.sack_blocks, len: self.sack_len };
        let has_room = sack.push(block);
        self.set_sack(&sack);
        has_room
    }

    /// It has no options but timestamps and DSS, and no AE, as nearly all segments.
    #[inline]
    pub fn is_plain(&self) -> bool {
        (self.sack_len | u8::from(self.mp.has_any()) | u8::from(self.ae)) == 0 && !self.flags.has(Flags::SYN)
    }

    /// The ACE field: AE, CWR and ECE as a number of three bits (RFC 9768 section 3.2.2).
    #[inline]
    pub const fn ace(&self) -> u8 {
        (self.ae as u8) << 2 | self.flags.0 >> 6
    }

    /// Replaces AE, CWR and ECE.
    #[inline]
    pub fn set_ace(&mut self, ace: u8) {
        self.ae = ace & 4 != 0;
        self.flags.0 = self.flags.0 & !(Flags::CWR.0 | Flags::ECE.0) | (ace & 3) << 6;
    }

    /// Bytes of TCP options on the wire, each padded to a multiple of four.
    #[inline]
    pub fn options_len(&self) -> u32 {
        let always = if self.has_ts { TIMESTAMP_BYTES } else { 0 };
        let dss = if self.has_dss { self.dss.wire_len() } else { 0 };
        if self.is_plain() { always + dss } else { self.rare_options_len(always, dss) }
    }

    #[cold]
    fn rare_options_len(&self, mut n: u32, dss: u32) -> u32 {
        if self.flags.has(Flags::SYN) {
            n += if self.mss != 0 { 4 } else { 0 };
            n += if self.sack_permitted { if self.has_ts { 0 } else { 4 } } else { 0 };
            n += if self.window_scale != 255 { 4 } else { 0 };
        }
        n += sack_bytes(u32::from(self.sack_len));
        n += self.mp.accecn().map_or(0, |option| accecn::wire_len(option.len, self.padding_behind_accecn()));
        n + if self.carries_mapping() { 24 } else { dss + self.mp.wire_len() }
    }

    /// Bytes of padding before the option that follows the AccECN option, which may hold its end.
    pub fn padding_behind_accecn(&self) -> u32 {
        let is_syn = self.flags.has(Flags::SYN);
        if is_syn && self.sack_permitted && !self.has_ts {
            2
        } else if is_syn && self.window_scale != 255 {
            1
        } else {
            2 * u32::from(self.sack_len > 0)
        }
    }

    /// RFC 8684 section 3.1: with data, MP_CAPABLE carries the mapping and stands in for the DSS
    /// option.
    pub(crate) fn carries_mapping(&self) -> bool {
        self.len > 0 && self.mp.first().is_some_and(|option| matches!(option, mptcp::Repr::Capable { .. }))
    }

    /// Length of the IPv4 packet in bytes.
    #[inline]
    pub fn ip_len(&self) -> u32 {
        Self::IPV4_HEADER + Self::TCP_HEADER + self.options_len() + self.len
    }
}

impl Dss {
    /// There is a mapping, if only that of a DATA_FIN.
    #[inline]
    pub const fn has_mapping(&self) -> bool {
        (self.map_len > 0) | self.infinite
    }

    /// Length on the wire in bytes, padded to a multiple of four (RFC 8684 figure 9).
    #[inline]
    pub const fn wire_len(&self) -> u32 {
        let mut n = 4;
        if self.has_ack {
            n += if self.ack64 { 8 } else { 4 };
        }
        if self.has_mapping() {
            n += if self.dsn64 { 8 } else { 4 } + 4 + 2 + if self.checksum { 2 } else { 0 };
        }
        (n + 3) & !3
    }
}

/// ICMP "fragmentation needed" (RFC 1191 section 4), as the sender of the offending segment hears
/// it.
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
    fn options_come_out_in_their_order() {
        let close = mptcp::Repr::FastClose { receiver_key: 5 };
        let reset = mptcp::Repr::TcpRst { flags: 1, reason: 2 };
        let mut options = MpOptions::from(close);
        assert!(options.push(&reset) && !options.is_empty());
        assert_eq!((options.iter().collect::<Vec<_>>(), options.wire_len()), (vec![close, reset], 16));
        let counters = accecn::Repr { ect_1_first: true, len: 3, counters: [1, 0, 1449] };
        assert!(options.set_accecn(&counters) && options.set_accecn(&accecn::Repr { len: 1, counters: [1, 0, 0], ..counters }));
        assert_eq!((options.accecn().map(|option| option.len), options.iter().count(), options.wire_len()), (Some(1), 2, 16));
        options = options.without_accecn();
        let join = mptcp::Repr::JoinAck { hmac: [7; 20] };
        assert!(!options.push(&join), "16 bytes and 24 are too many");
        assert_eq!((options.pop_first(), options.pop_first(), options.pop_first()), (Some(close), Some(reset), None));
        assert!(options.is_empty() && options.push(&join));
    }

    #[test]
    fn an_accecn_option_alone_is_none_of_mptcp() {
        let mut segment = Segment { has_ts: true, flags: Flags::ACK, window_scale: 255, ..Segment::default() };
        segment.set_ace(5);
        assert!((segment.ae, segment.flags) == (true, Flags::ACK.with(Flags::ECE)) && segment.ace() == 5 && !segment.is_plain());
        assert!(segment.mp.set_accecn(&accecn::Repr { ect_1_first: true, len: 3, counters: [1, 0, 1] }) && segment.mp.is_empty());
        assert_eq!(segment.options_len(), 24);
        segment.push_sack(SackBlock::default());
        segment.mp.set_accecn(&accecn::Repr { ect_1_first: true, len: 1, counters: [1, 0, 0] });
        assert_eq!(segment.options_len(), 12 + 4 + 12, "the last byte stands in the padding of the blocks");
    }

    #[test]
    fn a_fifth_sack_block_is_refused() {
        let mut sack = Sack::default();
        assert!((0..4).all(|i| sack.push(SackBlock { start: Seq::new(i), end: Seq::new(i + 1) })));
        assert!(!sack.push(SackBlock::default()));
    }
}
