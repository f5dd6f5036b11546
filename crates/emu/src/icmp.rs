//! "Fragmentation needed": what the sender of a packet hears that does not fit.

use crate::ip::{ICMP, IP, Ipv4, checksum};
use polypath_io::HEAD;

/// RFC 1812 section 4.3.2.3: as much of the packet as fits into this many bytes in all.
const LONGEST: usize = 576;
const IP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
/// RFC 792: destination unreachable, fragmentation needed and DF set; RFC 1191 section 4 has the field for the next MTU.
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;

/// The frame that answers one that does not fit into `mtu` bytes, sent by `from`; none where RFC 1812 section 4.3.2.7 allows no answer,
/// and to what is not IPv4.
pub(crate) fn fragmentation_needed(refused: &[u8], from: [u8; 4], mtu: u32) -> Option<Vec<u8>> {
    let v4 = Ipv4::parse(refused)?;
    let source = v4.source();
    let is_error = v4.protocol() == ICMP && !matches!(v4.packet.get(v4.header), Some(0 | 8 | 13 | 14));
    let later_fragment = v4.fragment().1 != 0;
    // To many at once, on either layer; from nobody or from many.
    let to_many = v4.destination()[0] >= 224 || refused[HEAD] & 1 != 0;
    let from_many = source == [0; 4] || source[0] >= 224 || source[0] == 127;
    if is_error || later_fragment || to_many || from_many {
        return None;
    }
    let quoted = v4.total.min(LONGEST - IP_HEADER - ICMP_HEADER);
    let mut frame = vec![0; IP + IP_HEADER + ICMP_HEADER + quoted];
    frame[HEAD..HEAD + 6].copy_from_slice(&refused[HEAD + 6..HEAD + 12]);
    frame[HEAD + 6..HEAD + 12].copy_from_slice(&refused[HEAD..HEAD + 6]);
    frame[IP - 2..IP].copy_from_slice(&refused[IP - 2..IP]);
    let packet = &mut frame[IP..];
    let total = packet.len() as u16;
    packet[0] = 0x45;
    // RFC 1812 section 4.3.2.5: precedence 6 for errors.
    packet[1] = 0xc0;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[8] = 64;
    packet[9] = ICMP;
    packet[12..16].copy_from_slice(&from);
    packet[16..20].copy_from_slice(&source);
    let sum = checksum(&packet[..IP_HEADER]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let message = &mut packet[IP_HEADER..];
    message[0] = UNREACHABLE;
    message[1] = FRAGMENTATION_NEEDED;
    message[6..8].copy_from_slice(&u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
    message[ICMP_HEADER..].copy_from_slice(&v4.packet[..quoted]);
    let sum = checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tests::frame;

    #[test]
    fn the_sender_hears_the_mtu_and_its_own_packet() {
        let refused = frame(6, 1500, true);
        let answer = fragmentation_needed(&refused, [10, 0, 0, 2], 1400).unwrap();
        let v4 = Ipv4::parse(&answer).unwrap();
        assert_eq!((v4.total, v4.source(), v4.destination(), v4.protocol()), (576, [10, 0, 0, 2], [10, 0, 0, 1], ICMP));
        assert_eq!((checksum(&v4.packet[..20]), checksum(&v4.packet[20..])), (0, 0));
        assert_eq!(v4.packet[20..22], [3, 4]);
        assert_eq!(v4.packet[26..28], 1400_u16.to_be_bytes());
        assert_eq!(v4.packet[28..], refused[IP..IP + 548]);
        assert_eq!(answer[HEAD..HEAD + 6], refused[HEAD + 6..HEAD + 12]);
    }

    #[test]
    fn nobody_answers_errors_fragments_and_broadcasts() {
        let mut error = frame(ICMP, 1500, true);
        error[IP + 20] = 3;
        assert!(fragmentation_needed(&error, [1; 4], 1400).is_none());
        error[IP + 20] = 8;
        assert!(fragmentation_needed(&error, [1; 4], 1400).is_some());
        let mut part = frame(17, 1500, false);
        part[IP + 7] = 100;
        assert!(fragmentation_needed(&part, [1; 4], 1400).is_none());
        let mut broadcast = frame(17, 1500, true);
        broadcast[HEAD] = 0xff;
        assert!(fragmentation_needed(&broadcast, [1; 4], 1400).is_none());
        assert!(fragmentation_needed(&[0; 9], [1; 4], 1400).is_none());
    }
}
