//! Capture files, written: pcapng (draft-ietf-opsawg-pcapng), little-endian, one section with one
//! interface, times in nanoseconds.
//!
//! Each function appends one block. A file is [`section`], [`interface`], any number of [`packet`],
//! and perhaps [`statistics`].

/// What the bytes of a packet begin with: its link type.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum LinkType {
    /// A header of 14 bytes (addresses and EtherType), without preamble and frame check sequence.
    Ethernet = 1,
    /// An IPv4 or IPv6 header.
    RawIp = 101,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Options, by their code in the block that has them (sections 3.5, 4.1, 4.2 and 4.5 of the draft).
const END: u16 = 0;
const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const SHB_USERAPPL: u16 = 4;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

/// Begins a file. `program` is who writes it.
pub fn section(out: &mut Vec<u8>, program: &str) {
    block(out, SECTION, |out| {
        // Byte order, version 1.0, and a length that is not known.
        out.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]);
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(out, SHB_USERAPPL, program.as_bytes());
        option(out, END, &[]);
    });
}

/// The interface of which all packets are.
pub fn interface(out: &mut Vec<u8>, link_type: LinkType, snaplen: u32, name: &str) {
    const NANOSECONDS: u8 = 9;
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&u32::from(link_type as u16).to_le_bytes());
        out.extend_from_slice(&snaplen.to_le_bytes());
        option(out, IF_NAME, name.as_bytes());
        option(out, IF_TSRESOL, &[NANOSECONDS]);
        option(out, END, &[]);
    });
}

/// A packet of `len` bytes, of which `kept` are kept.
pub fn packet(out: &mut Vec<u8>, time_ns: u64, len: u32, kept: &[u8]) {
    block(out, PACKET, |out| {
        out.extend_from_slice(&0_u32.to_le_bytes());
        time(out, time_ns);
        out.extend_from_slice(&(kept.len() as u32).to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        padded(out, kept);
    });
}

/// How many packets the interface had up to a time, and how many of them are not in the file;
/// `comment` says why.
pub fn statistics(out: &mut Vec<u8>, time_ns: u64, had: u64, missing: u64, comment: Option<&str>) {
    block(out, STATISTICS, |out| {
        out.extend_from_slice(&0_u32.to_le_bytes());
        time(out, time_ns);
        if let Some(comment) = comment {
            option(out, COMMENT, comment.as_bytes());
        }
        option(out, ISB_IFRECV, &had.to_le_bytes());
        option(out, ISB_IFDROP, &missing.to_le_bytes());
        option(out, END, &[]);
    });
}

/// The upper half stands first, whatever the byte order.
fn time(out: &mut Vec<u8>, ns: u64) {
    out.extend_from_slice(&((ns >> 32) as u32).to_le_bytes());
    out.extend_from_slice(&(ns as u32).to_le_bytes());
}

/// A block is framed by its length on both sides.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = (out.len() - begin + 4) as u32;
    out[begin + 4..begin + 8].copy_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
}

/// An option; what has no room in the 16 bits of its length is cut off.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    padded(out, value);
}

fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_framed_by_their_length() {
        let mut out = vec![];
        section(&mut out, "polypath");
        interface(&mut out, LinkType::RawIp, 96, "a:x");
        packet(&mut out, (1 << 32) + 5, 1500, &[7; 5]);
        statistics(&mut out, 9, 3, 2, Some("cut"));
        assert_eq!(out.len() % 4, 0);
        let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, vec![]);
        while at < out.len() {
            let len = word(at + 4) as usize;
            assert_eq!(word(at + len - 4) as usize, len);
            kinds.push(word(at));
            if word(at) == PACKET {
                assert_eq!([8, 12, 16, 20, 24].map(|offset| word(at + offset)), [0, 1, 5, 5, 1500]);
                assert_eq!(out[at + 28..at + 36], [7, 7, 7, 7, 7, 0, 0, 0]);
            }
            at += len;
        }
        assert_eq!(kinds, [SECTION, INTERFACE, PACKET, STATISTICS]);
    }
}
