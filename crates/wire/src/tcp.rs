//! TCP (RFC 9293) with its options: MSS, window scale and timestamps (RFC 7323), SACK (RFC 2018),
//! AccECN ([`crate::accecn`]), MPTCP ([`crate::mptcp`]).
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic. Options that are cut off or of a wrong length are passed over, as Linux does
//! (`tcp_parse_options`), and counted.

use crate::checksum::Addresses;
use crate::error::{Error, Result};
use crate::inline::Inline;
use crate::segment::{Flags, Sack, SackBlock};
use crate::{accecn, mptcp, segment};
use polypath_base::Seq;

/// The protocol's number in an IP header.
pub const PROTOCOL: u8 = 6;
/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Most bytes of options.
pub const MAX_OPTIONS: usize = segment::MAX_OPTIONS as usize;
/// Most MPTCP options that are kept apart in one segment; further ones stay among the unknown.
pub const MAX_MPTCP: usize = 4;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// A view of bytes that are a TCP segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of a segment whose header is there whole.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        if bytes.len() < HEADER {
            return Err(Error::Truncated);
        }
        let header = usize::from(bytes[12] >> 4) * 4;
        if header < HEADER {
            return Err(Error::Malformed("tcp data offset"));
        }
        if header > bytes.len() {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn short(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes()[at], self.bytes()[at + 1]])
    }

    fn word(&self, at: usize) -> u32 {
        u32::from(self.short(at)) << 16 | u32::from(self.short(at + 2))
    }

    /// Port of the sender, bytes 0 and 1.
    pub fn source_port(&self) -> u16 {
        self.short(0)
    }

    /// Port of the receiver, bytes 2 and 3.
    pub fn destination_port(&self) -> u16 {
        self.short(2)
    }

    /// Sequence number of the first payload byte; with SYN, of the SYN, which comes before it.
    pub fn seq(&self) -> Seq {
        Seq::new(self.word(4))
    }

    /// Next sequence number that the sender expects. It counts only with flag ACK.
    pub fn ack(&self) -> Seq {
        Seq::new(self.word(8))
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes()[12] >> 4) * 4
    }

    /// The four bits between data offset and flags; the last is AE (RFC 9768 section 3.1.1).
    pub fn reserved(&self) -> u8 {
        self.bytes()[12] & 15
    }

    /// The eight flags of byte 13, CWR and ECE of RFC 3168 included.
    pub fn flags(&self) -> Flags {
        Flags(self.bytes()[13])
    }

    /// Window as on the wire; times 2^(window scale) it is bytes, but on a SYN it is never scaled
    /// (RFC 7323 section 2.2).
    pub fn window(&self) -> u16 {
        self.short(14)
    }

    /// Urgent pointer: bytes from `seq` on (RFC 9293 section 3.8.5). It counts only with flag URG.
    pub fn urgent(&self) -> u16 {
        self.short(18)
    }

    /// The options as they came.
    pub fn options(&self) -> &[u8] {
        &self.bytes()[HEADER..self.header_len()]
    }

    /// All bytes behind the header. TCP has no length field, so the view must end where the IP
    /// payload does.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[self.header_len()..]
    }

    /// Whether the checksum is right (RFC 9293 section 3.1). It covers the pseudo header and the
    /// whole buffer.
    pub fn verify_checksum(&self, addresses: &Addresses) -> bool {
        addresses.pseudo_header(PROTOCOL, self.bytes().len()).bytes(self.bytes()).checksum() == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum over the pseudo header and the whole buffer, and writes it into bytes
    /// 16 and 17.
    pub fn fill_checksum(&mut self, addresses: &Addresses) {
        let bytes = self.buffer.as_mut();
        bytes[16..18].fill(0);
        let sum = addresses.pseudo_header(PROTOCOL, bytes.len()).bytes(bytes).checksum();
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    }
}

/// TSval and TSecr (RFC 7323 section 3).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock, in units of its choice (Linux: milliseconds by default), from any
    /// origin; it wraps.
    pub value: u32,
    /// TSecr: a TSval of the peer. It counts only with flag ACK.
    pub echo: u32,
}

/// The MPTCP options of a segment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct MptcpOptions {
    options: [Option<mptcp::Repr>; MAX_MPTCP],
}

impl MptcpOptions {
    /// Appends an option; false, and no change, if there are [`MAX_MPTCP`] already.
    pub fn push(&mut self, option: mptcp::Repr) -> bool {
        let free = self.options.iter_mut().find(|place| place.is_none());
        free.map(|place| *place = Some(option)).is_some()
    }

    /// The options in the order in which they were pushed.
    pub fn iter(&self) -> impl Iterator<Item = &mptcp::Repr> {
        self.options.iter().flatten()
    }
}

/// A TCP header with its options.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first payload byte; with SYN, of the SYN.
    pub seq: Seq,
    /// Next sequence number that the sender expects, if `flags` have ACK.
    pub ack: Seq,
    /// The eight flags, CWR and ECE of RFC 3168 included.
    pub flags: Flags,
    /// The four bits between data offset and flags; the last is AE.
    pub reserved: u8,
    /// As on the wire: unscaled.
    pub window: u16,
    /// Urgent pointer, bytes from `seq` on, if `flags` have URG (RFC 9293 section 3.8.5).
    pub urgent: u16,
    /// Maximum segment size that the sender takes, bytes of payload and options
    /// (RFC 9293 section 3.7.1). Only a SYN should have it; `parse` takes this and the next two
    /// from any segment.
    pub mss: Option<u16>,
    /// As it came; RFC 7323 section 2.3 has the receiver use 14 for more.
    pub window_scale: Option<u8>,
    /// The sender takes SACK options (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps option (RFC 7323 section 3.2).
    pub timestamps: Option<Timestamps>,
    /// SACK option (RFC 2018 section 3): at most four blocks; none leaves the option out.
    pub sack: Sack,
    /// AccECN option (RFC 9768 section 3.2.3).
    pub accecn: Option<accecn::Repr>,
    /// MPTCP options, the DSS among them, in their order: at most [`MAX_MPTCP`] (RFC 8684).
    pub mptcp: MptcpOptions,
    /// Options of other kinds, each with its kind and length, in their order.
    pub unknown: Inline<MAX_OPTIONS>,
    /// Options that were passed over, because they are cut off or of a wrong length.
    pub malformed: u8,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// Reads a header whose checksum is right.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>, addresses: &Addresses) -> Result<Self> {
        if !packet.verify_checksum(addresses) {
            return Err(Error::Checksum("tcp"));
        }
        let mut repr = Self {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            reserved: packet.reserved(),
            window: packet.window(),
            urgent: packet.urgent(),
            payload_len: packet.payload().len(),
            ..Self::default()
        };
        repr.parse_options(packet.options());
        Ok(repr)
    }

    /// RFC 9293 section 3.1: kind and length, but for two of one byte. Of two options of a kind the
    /// later one counts, as in Linux.
    fn parse_options(&mut self, mut options: &[u8]) {
        while let Some((&kind, rest)) = options.split_first() {
            if kind == NOP {
                options = rest;
                continue;
            }
            if kind == END {
                return;
            }
            let length = rest.first().map_or(0, |&length| usize::from(length));
            let Some((option, behind)) = options.split_at_checked(length).filter(|_| length >= 2) else {
                // Without a length the next option's beginning is unknown.
                self.malformed += 1;
                return;
            };
            if !self.take_option(kind, option) {
                self.malformed += 1;
            }
            options = behind;
        }
    }

    /// False if the option is malformed.
    fn take_option(&mut self, kind: u8, option: &[u8]) -> bool {
        match (kind, &option[2..]) {
            (MSS, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift),
            (SACK_PERMITTED, &[]) => self.sack_permitted = true,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps { value: u32::from_be_bytes([a, b, c, d]), echo: u32::from_be_bytes([e, f, g, h]) });
            }
            (SACK, blocks) if !blocks.is_empty() && blocks.len() % 8 == 0 => {
                self.sack = Sack::default();
                for block in blocks.chunks_exact(8) {
                    let word = |at: usize| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
                    // 40 bytes hold four blocks at most.
                    self.sack.push(SackBlock { start: Seq::new(word(0)), end: Seq::new(word(4)) });
                }
            }
            (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS | SACK, _) => return false,
            (accecn::KIND_0 | accecn::KIND_1, _) => {
                let Some(found) = accecn::Repr::parse(option) else { return false };
                self.accecn = Some(found);
            }
            (mptcp::KIND, _) => match mptcp::Packet::new_checked(option).and_then(|packet| mptcp::Repr::parse(&packet)) {
                Ok(repr) if self.mptcp.push(repr) => {}
                Ok(_) => return self.unknown.extend(option),
                Err(_) => return false,
            },
            _ => return self.unknown.extend(option),
        }
        true
    }

    /// Bytes of the options, padded to a multiple of four. Each option stands on a boundary of four
    /// bytes, as Linux writes them, unless that needs more than 40.
    pub fn options_len(&self) -> usize {
        let aligned = self.aligned_len();
        if aligned <= MAX_OPTIONS { aligned } else { self.tight_len().next_multiple_of(4) }
    }

    fn aligned_len(&self) -> usize {
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        // SACK-permitted takes the place of the timestamps' padding.
        let sack_permitted = if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let sack = if self.sack.len > 0 { 4 + 8 * usize::from(self.sack.len) } else { 0 };
        let mptcp: usize = self.mptcp.iter().map(|option| option.buffer_len().next_multiple_of(4)).sum();
        let accecn = self.accecn.map_or(0, |option| accecn::wire_len(option.len, self.padding_behind_accecn() as u32) as usize);
        mss + timestamps + accecn + sack_permitted + scale + sack + mptcp + self.unknown.len().next_multiple_of(4)
    }

    /// Bytes of padding before the option that follows the AccECN option, which may hold its end.
    fn padding_behind_accecn(&self) -> usize {
        if self.sack_permitted && self.timestamps.is_none() {
            2
        } else if self.window_scale.is_some() {
            1
        } else {
            2 * usize::from(self.sack.len > 0)
        }
    }

    fn tight_len(&self) -> usize {
        let mut n = self.unknown.len() + self.mptcp.iter().map(mptcp::Repr::buffer_len).sum::<usize>();
        n += if self.mss.is_some() { 4 } else { 0 };
        n += if self.window_scale.is_some() { 3 } else { 0 };
        n += if self.sack_permitted { 2 } else { 0 };
        n += if self.timestamps.is_some() { 10 } else { 0 };
        n += self.accecn.map_or(0, |option| option.buffer_len());
        n + if self.sack.len > 0 { 2 + 8 * usize::from(self.sack.len) } else { 0 }
    }

    /// Bytes of the header, options and padding included: a multiple of four. `emit` refuses more
    /// than 60.
    pub fn header_len(&self) -> usize {
        HEADER + self.options_len()
    }

    /// Bytes of the segment.
    pub fn buffer_len(&self) -> usize {
        self.header_len() + self.payload_len
    }

    /// Writes the header in front of the payload, which is in its place already: the checksum
    /// covers it.
    ///
    /// # Errors
    /// `TooLong` if the options need more than 40 bytes, `Truncated` if the buffer is shorter than
    /// the segment.
    pub fn emit(&self, buffer: &mut [u8], addresses: &Addresses) -> Result<()> {
        let options = self.options_len();
        if options > MAX_OPTIONS {
            return Err(Error::TooLong("tcp options"));
        }
        let segment = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        segment[..2].copy_from_slice(&self.source_port.to_be_bytes());
        segment[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        segment[4..8].copy_from_slice(&self.seq.get().to_be_bytes());
        segment[8..12].copy_from_slice(&self.ack.get().to_be_bytes());
        segment[12] = (((HEADER + options) / 4) as u8) << 4 | (self.reserved & 15);
        segment[13] = self.flags.0;
        segment[14..16].copy_from_slice(&self.window.to_be_bytes());
        segment[18..HEADER].copy_from_slice(&self.urgent.to_be_bytes());
        let aligned = self.aligned_len() <= MAX_OPTIONS;
        self.emit_options(&mut segment[HEADER..HEADER + options], aligned)?;
        Packet { buffer: segment }.fill_checksum(addresses);
        Ok(())
    }

    /// In Linux's order (`tcp_options_write`): MSS, SACK permitted with the timestamps, AccECN,
    /// SACK permitted without, window scale, SACK, MPTCP; then the unknown.
    fn emit_options(&self, room: &mut [u8], aligned: bool) -> Result<()> {
        let mut out = Options { room, at: 0, aligned };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            out.put(&[MSS, 4, high, low], 0);
        }
        if self.timestamps.is_some() {
            // Together they fill whole words.
            out.put(if self.sack_permitted { &[SACK_PERMITTED, 2] } else { &[] }, if self.sack_permitted { 0 } else { 2 });
        }
        if let Some(timestamps) = self.timestamps {
            let mut option = [TIMESTAMPS, 10, 0, 0, 0, 0, 0, 0, 0, 0];
            option[2..6].copy_from_slice(&timestamps.value.to_be_bytes());
            option[6..].copy_from_slice(&timestamps.echo.to_be_bytes());
            out.put(&option, 0);
        }
        let mut taken = 0;
        if let Some(counters) = self.accecn {
            let mut option = [0; accecn::MAX_LEN];
            counters.emit(&mut option)?;
            out.put(&option[..counters.buffer_len()], 0);
            let beyond = counters.buffer_len() % 4;
            if beyond <= self.padding_behind_accecn() {
                taken = beyond;
            } else {
                out.put(&[], 4 - beyond);
            }
        }
        // Padding of the next option that has the end of that one.
        let mut padding = |usual: usize| usual - std::mem::take(&mut taken);
        if self.sack_permitted && self.timestamps.is_none() {
            out.put(&[SACK_PERMITTED, 2], padding(2));
        }
        if let Some(shift) = self.window_scale {
            out.put(&[WINDOW_SCALE, 3, shift], padding(1));
        }
        if self.sack.len > 0 {
            out.put(&[SACK, 2 + 8 * self.sack.len], padding(2));
            for block in self.sack.as_slice() {
                out.put(&block.start.get().to_be_bytes(), 0);
                out.put(&block.end.get().to_be_bytes(), 0);
            }
        }
        for option in self.mptcp.iter() {
            let mut bytes = [NOP; MAX_OPTIONS];
            option.emit(&mut bytes)?;
            let length = option.buffer_len();
            out.put(&bytes[..if aligned { length.next_multiple_of(4) } else { length }], 0);
        }
        out.put(&self.unknown, 0);
        out.room[out.at..].fill(END);
        Ok(())
    }
}

/// Options that are being written.
struct Options<'a> {
    room: &'a mut [u8],
    at: usize,
    aligned: bool,
}

impl Options<'_> {
    /// Writes an option behind so many bytes of padding, which are left out where room is short.
    fn put(&mut self, option: &[u8], padding: usize) {
        for piece in [&[NOP; 3][..if self.aligned { padding } else { 0 }], option] {
            // The room has `options_len` bytes, which counts every piece.
            self.room[self.at..self.at + piece.len()].copy_from_slice(piece);
            self.at += piece.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const ADDRESSES: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };

    fn options(repr: &Repr) -> Vec<u8> {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes, &ADDRESSES).unwrap();
        Packet::new_checked(&bytes).unwrap().options().to_vec()
    }

    fn parsed(options: &[u8]) -> Repr {
        let mut repr = Repr::default();
        repr.parse_options(options);
        repr
    }

    #[test]
    fn a_syn_has_its_options_where_linux_writes_them() {
        let timestamps = Some(Timestamps { value: 1, echo: 0 });
        let syn = Repr { mss: Some(1460), window_scale: Some(7), sack_permitted: true, timestamps, ..Repr::default() };
        assert_eq!(options(&syn), [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]);
        let plain = Repr { sack_permitted: true, ..Repr::default() };
        assert_eq!(options(&plain), [1, 1, 4, 2]);
    }

    #[test]
    fn an_accecn_option_ends_in_padding_where_linux_lets_it() {
        let accecn = |len| Some(accecn::Repr { ect_1_first: true, len, counters: [0x01_0203, 4, 5] });
        let blocks = |n| Sack { len: n, ..Sack::default() };
        let whole = Repr { accecn: accecn(3), sack_permitted: true, window_scale: Some(7), ..Repr::default() };
        assert_eq!(options(&whole), [174, 11, 1, 2, 3, 0, 0, 4, 0, 0, 5, 1, 1, 1, 4, 2, 1, 3, 3, 7]);
        let one = Repr { accecn: accecn(1), sack: blocks(1), ..Repr::default() };
        assert_eq!(options(&one)[..8], [174, 5, 1, 2, 3, 1, 5, 10]);
        assert_eq!(options(&Repr { sack: blocks(0), ..one }), [174, 5, 1, 2, 3, 1, 1, 1]);
        assert_eq!(options(&Repr { accecn: accecn(0), ..one })[..4], [174, 2, 5, 10]);
        assert_eq!(options(&Repr { accecn: accecn(1), window_scale: Some(7), ..Repr::default() }), [174, 5, 1, 2, 3, 3, 3, 7]);
    }

    #[test]
    fn malformed_options_are_passed_over_and_counted() {
        // A SACK of nine bytes, an MSS, then one that is cut off.
        let repr = parsed(&[5, 9, 0, 0, 0, 0, 0, 0, 0, 2, 4, 1, 2, 8, 10, 0]);
        assert_eq!((repr.malformed, repr.mss, repr.timestamps, repr.sack.len), (2, Some(258), None, 0));
        assert_eq!(parsed(&[3, 0, 2, 4, 1, 2]).malformed, 1, "no length, no next option");
        assert_eq!(parsed(&[1, 1, 0, 8]).malformed, 0, "nothing counts behind the end");
    }

    #[test]
    fn unknown_options_are_kept() {
        let repr = parsed(&[254, 4, 9, 9, 1, 1, 253, 2]);
        assert_eq!(*repr.unknown, [254, 4, 9, 9, 253, 2]);
        assert_eq!(options(&repr), [254, 4, 9, 9, 253, 2, 0, 0]);
    }

    #[test]
    fn options_that_came_without_padding_find_room_again() {
        let mut bytes = vec![3, 3, 7, 4, 2, 3, 3, 8, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 254, 21];
        bytes.resize(18 + 21, 5);
        bytes.push(0);
        let repr = parsed(&bytes);
        assert_eq!((repr.malformed, repr.window_scale, repr.aligned_len()), (0, Some(8), 40));
        let tight = Repr { mss: Some(5), ..repr };
        assert_eq!(tight.options_len(), 40);
        assert_eq!(parsed(&options(&tight)), tight);
    }
}
