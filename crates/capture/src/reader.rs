//! Packets out of a file: pcap of either byte order with micro- or nanoseconds, and pcapng with any
//! number of sections and interfaces; packed with gzip or zstd, too.

use crate::packed::unpacked;
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use std::io::Read;
use std::sync::{Arc, OnceLock};

/// A packet of a capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured {
    pub(crate) link_type: i32,
    /// Which of the file's, counted through all sections.
    pub(crate) interface: u32,
    /// Since the epoch of the file's clock.
    pub(crate) time_ns: u64,
    /// Bytes that it had on the wire.
    pub(crate) len: u32,
    /// Its first [`KEPT`] bytes, as far as the file has them.
    pub(crate) bytes: Vec<u8>,
}

/// Bytes of a packet that are looked at: all headers, of a packet in a packet too.
const KEPT: usize = 512;

/// Where a file could not be read on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// From the file's beginning; of a packed file, from that of its content.
    pub byte: u64,
    /// Why, in English, lower case and without a full stop.
    pub sentence: String,
}

/// Bytes held of a file at a time. It grows to the longest block, but not above [`MOST`].
const BUFFER: usize = 1 << 18;
const MOST: usize = 1 << 26;

/// The type of an enhanced packet block, and the bytes of it before the packet
/// (draft-ietf-opsawg-pcapng section 4.3).
const ENHANCED: u32 = 6;
const ENHANCED_HEAD: usize = 28;

/// Bits of a pcap's link type; those above tell the length of a frame check sequence
/// (draft-ietf-opsawg-pcap section 4).
const LINK_TYPE: i32 = 0x03ff_ffff;

/// An interface of a pcapng section.
#[derive(Copy, Clone)]
struct Interface {
    link_type: i32,
    /// As [`Captured::interface`].
    number: u32,
    /// Ticks a second.
    resolution: u64,
    /// Seconds.
    offset: i64,
    snaplen: u32,
    /// Packets that it had and the file has not.
    missing: u64,
}

/// What the packets of a file mean.
#[derive(Default)]
struct Context {
    /// Of a pcap: its link type, and whether its times have nanoseconds.
    pcap: Option<(i32, bool)>,
    /// Of a pcapng: its section has numbers with the least byte first.
    is_little_endian: bool,
    interfaces: Vec<Interface>,
    /// Interfaces of earlier sections.
    earlier: u32,
    /// Packets that earlier sections miss.
    missing: u64,
}

/// A file that is read packet by packet.
pub(crate) struct CaptureReader<'a> {
    reader: Option<Box<dyn PcapReaderIterator + Send + 'a>>,
    context: Context,
    capacity: usize,
    /// Why its packed data could not be read on.
    why: Arc<OnceLock<&'static str>>,
    /// The packet that [`CaptureReader::advance`] has found.
    pub(crate) packet: Captured,
    /// The latest time of a packet so far, and the most that a later packet lay before it, ns.
    latest_ns: u64,
    pub(crate) back_ns: u64,
    /// Why there are no more, if the file does not simply end.
    pub(crate) broken: Option<Broken>,
}

impl<'a> CaptureReader<'a> {
    pub(crate) fn new<R: Read + Send + 'a>(source: R) -> Self {
        let mut made = Self {
            reader: None,
            context: Context::default(),
            capacity: BUFFER,
            why: Arc::default(),
            packet: Captured::default(),
            latest_ns: 0,
            back_ns: 0,
            broken: None,
        };
        let file = match unpacked(source) {
            Ok(file) => file,
            Err(sentence) => {
                made.end(0, sentence);
                return made;
            }
        };
        made.why = file.why;
        match create_reader(BUFFER, file.source) {
            Ok(reader) => made.reader = Some(reader),
            Err(PcapError::ReadError) => made.cannot_be_read(0),
            Err(PcapError::Eof) => made.end(0, "the file is empty"),
            // The first read may have ended where the packed data do.
            Err(_) if made.why.get().is_some() => made.cannot_be_read(0),
            Err(_) if file.is_packed => made.end(0, "what is packed in it is no capture: it is neither pcap nor pcapng"),
            Err(_) => made.end(0, "this is no capture: it is neither pcap nor pcapng"),
        }
        made
    }

    /// Packets that the file itself says it misses: the capture lost them, or ended before they
    /// came.
    pub(crate) fn missing(&self) -> u64 {
        self.context.interfaces.iter().fold(self.context.missing, |sum, interface| sum.saturating_add(interface.missing))
    }

    fn cannot_be_read(&mut self, byte: usize) {
        let sentence = self.why.get().copied().unwrap_or("the file cannot be read");
        self.end(byte, sentence);
    }

    fn end(&mut self, byte: usize, sentence: &str) {
        self.reader = None;
        self.broken = Some(Broken { byte: byte as u64, sentence: sentence.to_owned() });
    }

    /// Goes to the next packet. False if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let is_there = self.find();
        if is_there {
            self.latest_ns = self.latest_ns.max(self.packet.time_ns);
            self.back_ns = self.back_ns.max(self.latest_ns - self.packet.time_ns);
        }
        is_there
    }

    fn find(&mut self) -> bool {
        while let Some(reader) = &mut self.reader {
            if let Some(length) = self.context.take_enhanced(reader.data(), &mut self.packet) {
                reader.consume(length);
                return true;
            }
            let (at, is_done) = (reader.consumed(), reader.reader_exhausted());
            let wants_room = match reader.next() {
                Ok((0, _)) => {
                    self.end(at, "the file is damaged: a block has no length");
                    return false;
                }
                Ok((offset, block)) => {
                    let is_packet = self.context.take(&block, &mut self.packet);
                    drop(block);
                    reader.consume(offset);
                    if is_packet {
                        return true;
                    }
                    continue;
                }
                Err(PcapError::Eof) => {
                    self.reader = None;
                    return false;
                }
                Err(PcapError::Incomplete(_)) if !is_done => false,
                Err(PcapError::BufferTooSmall) if !is_done => true,
                Err(PcapError::UnexpectedEof | PcapError::Incomplete(_) | PcapError::BufferTooSmall) => {
                    self.end(at, "the file is cut off in the middle of a packet");
                    return false;
                }
                Err(PcapError::ReadError) => {
                    self.cannot_be_read(at);
                    return false;
                }
                Err(_) => {
                    self.end(at, "the file is damaged: there is no packet where one should begin");
                    return false;
                }
            };
            if wants_room {
                self.capacity *= 2;
                if self.capacity > MOST || !reader.grow(self.capacity) {
                    self.end(at, "the file is damaged: a packet is longer than 64 MiB");
                    return false;
                }
            }
            if reader.refill().is_err() {
                self.cannot_be_read(at);
                return false;
            }
        }
        false
    }
}

impl Context {
    /// The usual block of a pcapng, an enhanced packet of the usual byte order that is in `data`
    /// whole: its packet is then in `out`. Gives the block's length. Whatever else begins there, a
    /// damaged block too, is for [`Context::take`], which spends ten times as many instructions on
    /// a block.
    #[inline]
    fn take_enhanced(&self, data: &[u8], out: &mut Captured) -> Option<usize> {
        if !self.is_little_endian {
            return None;
        }
        let (head, body) = data.split_first_chunk::<ENHANCED_HEAD>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, caplen) = (word(4) as usize, word(20));
        let rest = length.checked_sub(ENHANCED_HEAD + 4)?;
        let is_whole = body.get(rest..rest + 4).is_some_and(|again| again == &head[4..8]);
        if word(0) != ENHANCED || length % 4 != 0 || !is_whole || caplen as usize > rest {
            return None;
        }
        let interface = self.interfaces.get(word(8) as usize)?;
        let ticks = u64::from(word(12)) << 32 | u64::from(word(16));
        out.set((interface.link_type, interface.number), interface.time_ns(ticks), word(24), &body[..rest], caplen);
        Some(length)
    }

    /// True if the block is a packet, which is then in `out`.
    fn take(&mut self, block: &PcapBlockOwned<'_>, out: &mut Captured) -> bool {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.pcap = Some((header.network.0 & LINK_TYPE, header.is_nanosecond_precision())),
            PcapBlockOwned::Legacy(packet) => {
                let Some((link_type, nanoseconds)) = self.pcap else {
                    return false;
                };
                let fraction = u64::from(packet.ts_usec) * if nanoseconds { 1 } else { 1000 };
                let time_ns = u64::from(packet.ts_sec) * SECOND + fraction;
                out.set((link_type, 0), time_ns, packet.origlen, packet.data, packet.caplen);
                return true;
            }
            PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                self.earlier += self.interfaces.len() as u32;
                self.missing = self.interfaces.drain(..).fold(self.missing, |sum, interface| sum.saturating_add(interface.missing));
                self.is_little_endian = !header.big_endian();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => self.interfaces.push(Interface {
                link_type: interface.linktype.0,
                number: self.earlier + self.interfaces.len() as u32,
                resolution: interface.ts_resolution().unwrap_or(1_000_000).max(1),
                offset: interface.ts_offset(),
                snaplen: interface.snaplen,
                missing: 0,
            }),
            PcapBlockOwned::NG(Block::InterfaceStatistics(statistics)) => {
                // isb_ifdrop and isb_osdrop; each block counts from the beginning
                // (draft-ietf-opsawg-pcapng section 4.5).
                let of = |code: u16| {
                    let option = statistics.options.iter().find(|option| option.code.0 == code)?;
                    let value: [u8; 8] = option.value.get(..8)?.try_into().ok()?;
                    Some(if self.is_little_endian { u64::from_le_bytes(value) } else { u64::from_be_bytes(value) })
                };
                let missing = of(5).unwrap_or(0).saturating_add(of(7).unwrap_or(0));
                if let Some(interface) = self.interfaces.get_mut(statistics.if_id as usize) {
                    interface.missing = missing;
                }
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some(interface) = self.interfaces.get(packet.if_id as usize) else {
                    return false;
                };
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                out.set((interface.link_type, interface.number), interface.time_ns(ticks), packet.origlen, packet.data, packet.caplen);
                return true;
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                // It is of the first interface and has no time.
                let Some(interface) = self.interfaces.first() else {
                    return false;
                };
                let caplen = if interface.snaplen == 0 { packet.origlen } else { packet.origlen.min(interface.snaplen) };
                out.set((interface.link_type, interface.number), 0, packet.origlen, packet.data, caplen);
                return true;
            }
            PcapBlockOwned::NG(_) => {}
        }
        false
    }
}

impl Captured {
    fn set(&mut self, (link_type, interface): (i32, u32), time_ns: u64, len: u32, data: &[u8], caplen: u32) {
        (self.link_type, self.interface, self.time_ns, self.len) = (link_type, interface, time_ns, len);
        self.bytes.clear();
        self.bytes.extend_from_slice(&data[..data.len().min(caplen as usize).min(KEPT)]);
    }
}

const SECOND: u64 = 1_000_000_000;

impl Interface {
    fn time_ns(&self, ticks: u64) -> u64 {
        let ns =
            if self.resolution == SECOND { ticks } else { (u128::from(ticks) * u128::from(SECOND) / u128::from(self.resolution)) as u64 };
        ns.wrapping_add_signed(self.offset.wrapping_mul(SECOND as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of pcapng, whose numbers are written by `bytes`.
    fn block(kind: u32, numbers: &[u32], data: &[u8], bytes: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let padded = data.len().next_multiple_of(4);
        let length = bytes((12 + 4 * numbers.len() + padded) as u32);
        let mut made = [bytes(kind), length].concat();
        made.extend(numbers.iter().flat_map(|&number| bytes(number)));
        made.extend_from_slice(data);
        made.resize(made.len() + padded - data.len(), 0);
        made.extend_from_slice(&length);
        made
    }

    /// A section with an interface of raw IP and packets of 0 to 9 bytes.
    fn file(bytes: fn(u32) -> [u8; 4]) -> Vec<u8> {
        // Two numbers of 16 bits each: version 1.0, and a link type with its reserved half.
        let (one, link) = if bytes(1)[0] == 1 { (0x0000_0001, 101) } else { (0x0001_0000, 101 << 16) };
        let mut made = block(0x0a0d_0d0a, &[0x1a2b_3c4d, one, u32::MAX, u32::MAX], &[], bytes);
        made.extend(block(1, &[link, 65_535], &[], bytes));
        for len in 0..10_u32 {
            made.extend(block(6, &[0, 0, 1000 * len, len, 1500], &vec![7; len as usize], bytes));
        }
        made
    }

    /// Link type, time, length and bytes.
    type Packet = (i32, u64, u32, Vec<u8>);

    fn packets(file: &[u8]) -> (Vec<Packet>, Option<Broken>) {
        let mut reader = CaptureReader::new(file);
        let mut found = Vec::new();
        while reader.advance() {
            let packet = &reader.packet;
            found.push((packet.link_type, packet.time_ns, packet.len, packet.bytes.clone()));
        }
        (found, reader.broken)
    }

    #[test]
    fn enhanced_packets_of_either_byte_order_are_read_alike() {
        let (little, big) = (packets(&file(u32::to_le_bytes)), packets(&file(u32::to_be_bytes)));
        let expected: Vec<_> = (0..10_u32).map(|len| (101, u64::from(len) * 1_000_000, 1500, vec![7; len as usize])).collect();
        assert_eq!(little, (expected, None));
        assert_eq!(big, little);
    }

    #[test]
    fn a_damaged_block_is_told_where_it_begins() {
        let whole = file(u32::to_le_bytes);
        let last = whole.len() - (12 + 20 + 12);
        for (at, wrong) in [(last + 4, 41), (whole.len() - 4, 48), (last + 20, 200)] {
            let mut broken = whole.clone();
            broken[at] = wrong;
            let (found, told) = packets(&broken);
            assert_eq!((found.len(), told.map(|told| told.byte)), (9, Some(last as u64)), "byte {at}");
        }
    }
}
