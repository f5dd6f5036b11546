//! Packets: `[ect0] [1] P. 1:1001(1000) ack 1 win 257 <mss 1460>`, and ICMP.

use super::cursor::{Cursor, Direction, Read};
use super::options;
use crate::notation::FLAGS;
use crate::script::{Packet, Segment};

/// AE, CWR and ECE.
const ACE: u16 = 7 << 6;

pub(super) fn take(cursor: &mut Cursor<'_>, direction: Direction) -> Read<Packet> {
    let mut segment = Segment::default();
    while cursor.eat("[") {
        let text = cursor.until("]", "behind what stands between brackets")?;
        match text {
            "noecn" => segment.ecn = Some(0),
            "ect1" => segment.ecn = Some(1),
            "ect0" => segment.ecn = Some(2),
            "ce" => segment.ecn = Some(3),
            _ => {
                segment.subflow = text.parse().ok().filter(|&number| number < 32).ok_or_else(|| {
                    format!("`[{text}]` is neither a subflow's number nor one of `[noecn]`, `[ect0]`, `[ect1]` and `[ce]`")
                })?;
            }
        }
    }
    if cursor.eat_word("icmp") {
        return take_icmp(cursor, direction, segment.subflow);
    }
    segment.flags = take_flags(cursor)?;
    (segment.seq, segment.len) = take_range(cursor)?;
    if cursor.eat_word("ack") {
        segment.ack = Some(cursor.number("the acknowledgement")?);
    }
    if cursor.eat_word("win") {
        segment.window = Some(cursor.number("the window")?);
    }
    if cursor.eat("<") {
        let text = cursor.until(">", "behind the options")?;
        segment.options = Some(options::take(text, direction)?);
    }
    let acknowledges = segment.flags & FLAGS[4].1 != 0;
    if direction == Direction::In && acknowledges != segment.ack.is_some() {
        return Err(if acknowledges { "a segment with the flag `.` needs an `ack`" } else { "a segment with an `ack` needs the flag `.`" }
            .to_owned());
    }
    Ok(Packet::Tcp(Box::new(segment)))
}

fn take_flags(cursor: &mut Cursor<'_>) -> Read<u16> {
    let shown = cursor.shown();
    let text = cursor.take(|c| !c.is_whitespace());
    let mut flags = 0;
    for letter in text.chars().filter(|&letter| text != "-" || letter != '-') {
        // The ACE field as a number (RFC 9768 section 3.2.2): AE, CWR and ECE.
        if let Some(ace) = letter.to_digit(8).filter(|_| flags & ACE == 0) {
            flags |= (ace as u16) << 6;
            continue;
        }
        let bit = FLAGS.iter().find(|(name, _)| *name == letter).map(|(_, bit)| *bit);
        let bit = bit.filter(|bit| flags & bit == 0);
        flags |= bit.ok_or_else(|| {
            format!("{shown} are no TCP flags: `S`, `F`, `R`, `P`, `.`, `U`, `E`, `W` and `A` are, each once, a digit for the last three, and `-` for none")
        })?;
    }
    if text.is_empty() { Err("the TCP flags are missing".to_owned()) } else { Ok(flags) }
}

/// `1:1001(1000)`.
fn take_range(cursor: &mut Cursor<'_>) -> Read<(i64, u32)> {
    let from: i64 = cursor.number("the sequence number")?;
    cursor.expect(":", "between the first sequence number and the one behind the last")?;
    let to: i64 = cursor.number("the sequence number behind the last")?;
    cursor.expect("(", "before the length")?;
    let len: u32 = cursor.number("the length")?;
    cursor.expect(")", "behind the length")?;
    if from.checked_add(i64::from(len)) == Some(to) { Ok((from, len)) } else { Err(format!("{from}:{to} are not {len} bytes")) }
}

/// `unreachable frag_needed mtu 1200 [1:1461(1460)]`.
fn take_icmp(cursor: &mut Cursor<'_>, direction: Direction, subflow: usize) -> Read<Packet> {
    if direction == Direction::Out {
        return Err("an endpoint's own ICMP is nothing that a script can expect".to_owned());
    }
    cursor.expect("unreachable", "behind `icmp`, for no other message is known")?;
    cursor.expect("frag_needed", "behind `unreachable`, for no other code is known")?;
    cursor.expect("mtu", "behind `frag_needed`")?;
    let mtu = cursor.number("the MTU")?;
    cursor.expect("[", "before the segment that the message is about")?;
    let (seq, len) = take_range(cursor)?;
    cursor.expect("]", "behind the segment that the message is about")?;
    Ok(Packet::FragmentationNeeded { subflow, mtu, seq, len })
}
