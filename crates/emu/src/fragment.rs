//! Splits an IPv4 packet (RFC 791 section 3.2).

use crate::ip::{IP, Ipv4, checksum, complete_checksum};

/// Bit 7 of an option's type: it is copied into every fragment (RFC 791 section 3.1).
const COPIED: u8 = 0x80;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

/// The frames of the fragments of at most `mtu` bytes; none if it is no IPv4 packet or the MTU leaves no room for eight bytes.
pub(crate) fn split(frame: &[u8], mtu: u32) -> Option<Vec<Vec<u8>>> {
    let mut whole = frame.to_vec();
    complete_checksum(&mut whole);
    let v4 = Ipv4::parse(&whole)?;
    let (more_before, offset_before) = v4.fragment();
    let (first, later) = (&v4.packet[..v4.header], later_header(&v4.packet[..v4.header]));
    let mut payload = &v4.packet[v4.header..];
    let (mut parts, mut offset) = (Vec::new(), offset_before);
    while !payload.is_empty() {
        let header = if parts.is_empty() { first } else { &later };
        let room = (mtu as usize).checked_sub(header.len())?;
        let mut length = payload.len().min(room);
        if length < payload.len() {
            length &= !7;
        }
        if length == 0 {
            return None;
        }
        let (piece, rest) = payload.split_at(length);
        payload = rest;
        let mut part = [&whole[..IP], header, piece].concat();
        let packet = &mut part[IP..];
        packet[2..4].copy_from_slice(&((header.len() + length) as u16).to_be_bytes());
        let more = more_before || !payload.is_empty();
        packet[6..8].copy_from_slice(&(offset | if more { 0x2000 } else { 0 }).to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum(&packet[..header.len()]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        parts.push(part);
        offset += (length / 8) as u16;
    }
    Some(parts)
}

/// The header of all fragments but the first: only options that are to be copied.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut made = header[..20].to_vec();
    let mut options = &header[20..];
    while let [kind, rest @ ..] = options {
        let length = match (*kind, rest.first()) {
            (END_OF_OPTIONS, _) | (_, None) => break,
            (NO_OPERATION, _) => 1,
            (_, Some(&length)) => usize::from(length),
        };
        let Some((option, behind)) = options.split_at_checked(length).filter(|_| length > 0) else { break };
        if *kind & COPIED != 0 {
            made.extend_from_slice(option);
        }
        options = behind;
    }
    made.resize(made.len().next_multiple_of(4), END_OF_OPTIONS);
    made[0] = 0x40 | (made.len() / 4) as u8;
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tests::frame;

    fn together(parts: &[Vec<u8>]) -> Vec<u8> {
        let mut payload = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let v4 = Ipv4::parse(part).unwrap();
            let (more, offset) = v4.fragment();
            assert_eq!((usize::from(offset) * 8, more), (payload.len(), number + 1 < parts.len()));
            assert_eq!(checksum(&v4.packet[..v4.header]), 0);
            payload.extend_from_slice(&v4.packet[v4.header..]);
        }
        payload
    }

    #[test]
    fn the_parts_hold_the_whole() {
        let whole = frame(17, 1500, false);
        let parts = split(&whole, 1000).unwrap();
        assert_eq!(parts.iter().map(|part| part.len() - IP).collect::<Vec<_>>(), [996, 524]);
        assert_eq!(together(&parts), whole[IP + 20..]);
        // A part of a part.
        let again = split(&parts[0], 508).unwrap();
        assert_eq!(again.iter().map(|part| Ipv4::parse(part).unwrap().fragment()).collect::<Vec<_>>(), [(true, 0), (true, 61)]);
    }

    #[test]
    fn only_options_to_be_copied_are() {
        let mut header = frame(17, 40, false)[IP..IP + 36].to_vec();
        header[0] = 0x49;
        header[20..36].copy_from_slice(&[NO_OPERATION, 7, 3, 0, COPIED | 8, 4, 9, 9, 68, 4, 0, 0, 0, 0, 0, 0]);
        let later = later_header(&header);
        assert_eq!((later[0], &later[20..]), (0x46, &[COPIED | 8, 4, 9, 9][..]));
    }

    #[test]
    fn no_room_is_no_split() {
        assert!(split(&frame(17, 1500, false), 27).is_none());
        assert!(split(&[1; 8], 1000).is_none());
    }
}
