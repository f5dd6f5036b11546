//! MSS clamping: no SYN that passes announces longer segments than the tunnel carries.
//!
//! Ends that do not learn of the tunnel's MTU, because ICMP is lost on its way or nobody sends any,
//! would send what the tunnel drops. Everything here works on bytes; nothing that a packet holds
//! can panic.

use polypath_base::Bytes;
use polypath_tunnel::clamped_mss;

const TCP: u8 = 6;
const SYN: u8 = 2;
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const TCP_HEADER: usize = 20;
const CHECKSUM: usize = 16;
/// Extension headers of IPv6 that may stand before TCP: hop by hop, routing, destination options
/// (RFC 8200 section 4).
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const MOST_EXTENSIONS: usize = 8;

/// Lowers the MSS option of a SYN to what a tunnel of this MTU carries, and mends the checksum;
/// whether it did. A lower one stays, and a SYN without one too: that means 536 or 1220 bytes
/// (RFC 9293 section 3.7.1), which every tunnel of ours carries.
pub fn clamp(packet: &mut [u8], mtu: u32) -> bool {
    let Some((start, v6)) = transport(packet) else { return false };
    let Some(segment) = packet.get_mut(start..) else { return false };
    if segment.len() < TCP_HEADER || segment[13] & SYN == 0 {
        return false;
    }
    // A header that is cut off stays as it is; behind this its length is even.
    let Some(header) = segment.get_mut(..4 * usize::from(segment[12] >> 4)) else { return false };
    let Some(at) = option(header) else { return false };
    let most = most(mtu, v6);
    let announced = u16::from_be_bytes([header[at], header[at + 1]]);
    if announced <= most {
        return false;
    }
    // The words of 16 bits that change: two where the option stands at an odd byte.
    let words = at & !1..(at + 3) & !1;
    let before = sum(&header[words.clone()]);
    header[at..at + 2].copy_from_slice(&most.to_be_bytes());
    let after = sum(&header[words]);
    let old = u16::from_be_bytes([header[CHECKSUM], header[CHECKSUM + 1]]);
    header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&mended(old, before, after).to_be_bytes());
    true
}

/// What may be announced.
fn most(mtu: u32, v6: bool) -> u16 {
    clamped_mss(Bytes::from_u32(mtu), v6).get() as u16
}

/// RFC 1624 section 3, equation 3: HC' = ~(~HC + ~m + m').
fn mended(checksum: u16, before: u16, after: u16) -> u16 {
    !folded(u32::from(!checksum) + u32::from(!before) + u32::from(after))
}

/// The sum of words in ones' complement.
fn sum(bytes: &[u8]) -> u16 {
    folded(bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum())
}

fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Where TCP begins in a packet that is no later fragment, and whether it is IPv6.
fn transport(packet: &[u8]) -> Option<(usize, bool)> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => {
            let later = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0;
            let header = 4 * usize::from(packet[0] & 15);
            (header >= 20 && packet[9] == TCP && !later).then_some((header, false))
        }
        6 if packet.len() >= 40 => {
            let (mut kind, mut at) = (packet[6], 40);
            for _ in 0..MOST_EXTENSIONS {
                if kind == TCP {
                    return Some((at, true));
                }
                if !EXTENSIONS.contains(&kind) {
                    return None;
                }
                let (next, length) = (*packet.get(at)?, *packet.get(at + 1)?);
                (kind, at) = (next, at + 8 * (1 + usize::from(length)));
            }
            None
        }
        _ => None,
    }
}

/// Where the value of the MSS option stands in a TCP header (RFC 9293 section 3.1).
fn option(header: &[u8]) -> Option<usize> {
    let mut at = TCP_HEADER;
    while let Some(&kind) = header.get(at) {
        match kind {
            END => return None,
            NOP => at += 1,
            kind => {
                let length = usize::from(*header.get(at + 1)?);
                if length < 2 || at + length > header.len() {
                    return None;
                }
                if kind == MSS && length == 4 {
                    return Some(at + 2);
                }
                at += length;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_wire::checksum::Addresses;
    use polypath_wire::{ipv4, ipv6, tcp};
    use proptest::prelude::*;

    /// A SYN with these options, and right checksums.
    fn syn(v6: bool, options: &[u8]) -> Vec<u8> {
        let padded = options.len().next_multiple_of(4);
        let mut segment = vec![0; TCP_HEADER + padded];
        segment[..4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
        segment[12..14].copy_from_slice(&[((TCP_HEADER + padded) as u8 / 4) << 4, SYN]);
        segment[TCP_HEADER..TCP_HEADER + options.len()].copy_from_slice(options);
        let (mut packet, addresses) = if v6 {
            let mut head = vec![0_u8; 40];
            (head[0], head[5], head[6], head[7], head[23], head[39]) = (0x60, segment.len() as u8, TCP, 64, 1, 2);
            let bytes = ipv6::Packet::new_checked([&head[..], &segment].concat()).unwrap();
            (head, bytes.addresses())
        } else {
            let mut head = vec![0_u8; 20];
            (head[0], head[3], head[8], head[9], head[15], head[19]) = (0x45, 20 + segment.len() as u8, 64, TCP, 1, 2);
            let bytes = ipv4::Packet::new_checked([&head[..], &segment].concat()).unwrap();
            (head, bytes.addresses())
        };
        tcp::Packet::new_checked(&mut segment[..]).unwrap().fill_checksum(&addresses);
        packet.extend(segment);
        packet
    }

    fn read(packet: &[u8]) -> tcp::Repr {
        let (addresses, payload): (Addresses, _) = match packet[0] >> 4 {
            4 => ipv4::Packet::new_checked(packet).map(|outer| (outer.addresses(), outer.payload().to_vec())).unwrap(),
            _ => ipv6::Packet::new_checked(packet).map(|outer| (outer.addresses(), outer.payload().to_vec())).unwrap(),
        };
        tcp::Repr::parse(&tcp::Packet::new_checked(&payload[..]).unwrap(), &addresses).expect("the checksum is right")
    }

    #[test]
    fn a_longer_one_is_lowered_and_a_shorter_one_is_not_raised() {
        for (v6, announced, mtu, becomes) in [
            (false, 1460, 1464, 1424),
            (true, 1440, 1464, 1404),
            (false, 1424, 1464, 1424),
            (false, 536, 1464, 536),
            (true, 65_535, 65_000, 64_940),
            (false, 65_535, 576, 536),
        ] {
            let [high, low] = u16::to_be_bytes(announced);
            for options in [&[MSS, 4, high, low][..], &[NOP, MSS, 4, high, low, 3, 3, 7]] {
                let mut packet = syn(v6, options);
                assert_eq!(read(&packet).mss, Some(announced));
                assert_eq!(clamp(&mut packet, mtu), announced != becomes, "{announced} {mtu}");
                assert_eq!(read(&packet).mss, Some(becomes));
            }
        }
    }

    #[test]
    fn other_packets_stay_as_they_are() {
        let sound = syn(false, &[MSS, 4, 5, 180]);
        let changed = |at: usize, byte: u8| {
            let mut packet = sound.clone();
            packet[at] = byte;
            packet
        };
        // No SYN; a later fragment; UDP; an option that is cut off, or of another length; none at
        // all.
        for packet in
            [changed(33, 16), changed(7, 1), changed(9, 17), changed(32, 0x50), changed(41, 5), syn(false, &[]), vec![], vec![0x45; 20]]
        {
            let mut after = packet.clone();
            assert!(!clamp(&mut after, 1280) && after == packet, "{packet:?}");
        }
        // A wrong checksum stays wrong: what is broken is not hidden.
        let mut broken = changed(39, 1);
        assert!(clamp(&mut broken, 1280));
        let outer = ipv4::Packet::new_checked(&broken[..]).unwrap();
        assert!(tcp::Repr::parse(&tcp::Packet::new_checked(outer.payload()).unwrap(), &outer.addresses()).is_err());
    }

    #[test]
    fn tcp_is_found_behind_extension_headers() {
        let plain = syn(true, &[MSS, 4, 5, 180]);
        let mut packet = [&plain[..40], &[TCP, 0, 1, 4, 0, 0, 0, 0], &plain[40..]].concat();
        packet[6] = 60;
        assert!(clamp(&mut packet, 1280));
        assert_eq!(packet[48 + 22..48 + 24], 1220_u16.to_be_bytes());
    }

    proptest! {
        #[test]
        fn the_checksum_stays_right_and_nothing_else_changes(
            v6: bool,
            before in prop::collection::vec(prop_oneof![Just(vec![NOP]), Just(vec![3, 3, 7]), Just(vec![4, 2])], 0..4),
            announced: u16,
            mtu in 576_u32..65_000,
        ) {
            let options = [&before.concat()[..], &[MSS, 4, (announced >> 8) as u8, announced as u8]].concat();
            let original = syn(v6, &options);
            let mut packet = original.clone();
            let most = most(mtu, v6);
            prop_assert_eq!(clamp(&mut packet, mtu), announced > most);
            let (before, after) = (read(&original), read(&packet));
            prop_assert_eq!(after.mss, Some(announced.min(most)));
            prop_assert_eq!(tcp::Repr { mss: None, ..after }, tcp::Repr { mss: None, ..before });
            prop_assert!(!clamp(&mut packet, mtu), "twice is once");
        }

        /// One that is cut off, or whose IP header says that it is shorter than any, passes as it
        /// is.
        #[test]
        fn a_syn_that_is_cut_off_stays_as_it_is(v6: bool, nops in 0..9_usize, cut in 1..60_usize, words in 0..5_u8) {
            let options = [&[NOP; 9][..nops], &[MSS, 4, 5, 180]].concat();
            let mut packet = syn(v6, &options);
            packet.truncate(packet.len().saturating_sub(cut));
            let mut whole = syn(false, &options);
            whole[0] = 0x40 | words;
            for mut packet in [packet, whole] {
                let before = packet.clone();
                prop_assert!(!clamp(&mut packet, 1280) && packet == before, "{before:?}");
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), first in 0..3_u8, protocol in 0..3_u8) {
            if bytes.len() > 9 {
                bytes[0] = [bytes[0], 0x45, 0x60][usize::from(first)];
                let at = if bytes[0] >> 4 == 4 { 9 } else { 6 };
                bytes[at] = [bytes[at], TCP, 60][usize::from(protocol)];
            }
            let length = bytes.len();
            clamp(&mut bytes, 1280);
            prop_assert_eq!(bytes.len(), length);
        }
    }
}
