//! No bytes do harm, whatever a peer sends: nothing panics, and what can be read can be written and read again.
//!
//! `corpus/*.hex` hold inputs that are always tried, one a line: captured packets, and those on which a test once failed.

use crate::headers::*;
use polypath_wire::checksum::Addresses;
use polypath_wire::{gre, icmpv4, icmpv6, ipv4, ipv6, mptcp, tcp, udp};
use proptest::prelude::*;
use std::net::Ipv4Addr;

const ADDRESSES: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };

/// Reads bytes as a packet of the format, with its checksum put right (or else random bytes would get no further) or as it is, and writes
/// and reads again what was found.
macro_rules! harmless {
    ($name:ident, $format:ident, $repair:expr, [$($addresses:expr)?]) => {
        fn $name(bytes: &[u8]) {
            let mut repaired = bytes.to_vec();
            if let Ok(mut packet) = $format::Packet::new_checked(&mut repaired[..]) {
                let repair: fn(&mut $format::Packet<&mut [u8]>) = $repair;
                repair(&mut packet);
            }
            for bytes in [bytes, &repaired] {
                let Ok(packet) = $format::Packet::new_checked(bytes) else { continue };
                let Ok(repr) = $format::Repr::parse(&packet $(, $addresses)?) else { continue };
                let mut again = [&vec![0; repr.header_len()], packet.payload()].concat();
                assert_eq!(again.len(), repr.buffer_len());
                repr.emit(&mut again $(, $addresses)?).expect("what was read can be written");
                let packet = $format::Packet::new_checked(&again).expect("what was written is well-formed");
                let parsed = $format::Repr::parse(&packet $(, $addresses)?).expect("what was written can be read");
                assert_eq!(parsed, without_what_is_not_written(repr));
            }
        }
    };
}

/// A header's own count of what was wrong with it is not written.
trait Clean {
    fn clean(self) -> Self;
}

macro_rules! clean {
    ($($format:ident),*) => { $(impl Clean for $format::Repr { fn clean(self) -> Self { self } })* };
}
clean!(ipv4, ipv6, udp, gre, icmpv4, icmpv6);

impl Clean for tcp::Repr {
    fn clean(self) -> Self {
        Self { malformed: 0, ..self }
    }
}

fn without_what_is_not_written<T: Clean>(repr: T) -> T {
    repr.clean()
}

harmless!(try_ipv4, ipv4, |packet| packet.fill_checksum(), []);
harmless!(try_ipv6, ipv6, |_| (), []);
harmless!(try_udp, udp, |packet| packet.fill_checksum(&ADDRESSES), [&ADDRESSES]);
harmless!(try_gre, gre, |packet| packet.fill_checksum(), []);
harmless!(try_icmpv4, icmpv4, |packet| packet.fill_checksum(), []);
harmless!(try_icmpv6, icmpv6, |packet| packet.fill_checksum(&ADDRESSES), [&ADDRESSES]);
harmless!(try_tcp, tcp, |packet| packet.fill_checksum(&ADDRESSES), [&ADDRESSES]);

fn try_mptcp(bytes: &[u8]) {
    let Ok(repr) = mptcp::Packet::new_checked(bytes).and_then(|packet| mptcp::Repr::parse(&packet)) else { return };
    let mut again = vec![0; repr.buffer_len()];
    repr.emit(&mut again).expect("what was read can be written");
    assert_eq!(again.len(), usize::from(bytes[1]), "the same form");
    assert_eq!(mptcp::Packet::new_checked(&again).and_then(|packet| mptcp::Repr::parse(&packet)), Ok(repr));
}

fn try_operations(bytes: &[u8]) {
    if let Ok(packet) = ipv6::Packet::new_checked(bytes) {
        let _upper = packet.upper_layer();
    }
    for mtu in [0, 27, 28, 576, 1500] {
        for part in ipv4::fragment(bytes, mtu).into_iter().flatten() {
            assert!(part.len() <= mtu && ipv4::Packet::new_checked(&part).is_ok_and(|part| part.verify_checksum()));
        }
        let answer = icmpv4::fragmentation_needed(bytes, [10, 0, 0, 9].into(), mtu as u32);
        assert!(answer.is_none_or(|answer| ipv4::Packet::new_checked(&answer).is_ok()));
    }
}

/// The inputs of `corpus/NAME.hex`.
pub(crate) fn corpus(name: &str) -> Vec<Vec<u8>> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name).with_extension("hex");
    let text = std::fs::read_to_string(&file).expect("the corpus is there");
    let byte = |line: &str, at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal digits");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| (0..line.len()).step_by(2).map(|at| byte(line, at)).collect()).collect()
}

/// One trial a format.
const TRIALS: [fn(&[u8]); 9] = [try_ipv4, try_ipv6, try_udp, try_gre, try_icmpv4, try_icmpv6, try_tcp, try_mptcp, try_operations];

#[test]
fn the_corpus_does_no_harm() {
    let inputs = [corpus("linux"), corpus("failed")].concat();
    assert!(inputs.len() >= 50, "the corpus is there");
    for bytes in inputs {
        // An input for one format is one for all of them, with its first header and without.
        for start in [0, 20, 40, 52] {
            TRIALS.iter().for_each(|trial| trial(bytes.get(start..).unwrap_or_default()));
        }
    }
}

/// Changes to a packet's bytes: (place, value), and where it is cut off.
fn damage() -> impl Strategy<Value = (Vec<(usize, u8)>, usize)> {
    (prop::collection::vec((0..120_usize, any::<u8>()), 0..6), prop_oneof![Just(usize::MAX), 0..120_usize])
}

fn damaged(mut bytes: Vec<u8>, (changes, length): (Vec<(usize, u8)>, usize)) -> Vec<u8> {
    bytes.truncate(length);
    for (at, value) in changes {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    bytes
}

fn emitted(header: usize, payload: &[u8], emit: impl FnOnce(&mut [u8]) -> polypath_wire::Result<()>) -> Vec<u8> {
    let mut bytes = [&vec![0; header], payload].concat();
    emit(&mut bytes).expect("the header fits");
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        TRIALS.iter().for_each(|trial| trial(&bytes));
    }

    #[test]
    fn random_options_do_no_harm(options in prop::collection::vec(any::<[u8; 4]>(), 0..=10)) {
        let words = options.len() as u8;
        let mut bytes = [&[0; 20][..], &options.concat(), &[1, 2, 3]].concat();
        bytes[12] = (5 + words) << 4;
        try_tcp(&bytes);
        bytes[0] = 0x40 | (5 + words);
        bytes[3] = bytes.len() as u8;
        try_ipv4(&bytes);
        try_operations(&bytes);
    }

    #[test]
    fn random_mptcp_options_do_no_harm(length in 3..40_u8, rest in prop::collection::vec(any::<u8>(), 1..40)) {
        try_mptcp(&[&[mptcp::KIND, length], &rest[..]].concat());
    }

    #[test]
    fn damaged_packets_do_no_harm(
        (payload, tcp, ipv4, ipv6) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), tcp_header(n), ipv4_header(n), ipv6_header(n)) }),
        (udp, gre, icmpv4, icmpv6) in (udp_header(9), gre_header(9), icmpv4_header(9), icmpv6_header(9)),
        option in mptcp_option(),
        damage in damage(),
    ) {
        try_tcp(&damaged(emitted(tcp.header_len(), &payload, |b| tcp.emit(b, &ADDRESSES)), damage.clone()));
        let bytes = damaged(emitted(ipv4.header_len(), &payload, |b| ipv4.emit(b)), damage.clone());
        try_ipv4(&bytes);
        try_operations(&bytes);
        let bytes = damaged(emitted(ipv6.header_len(), &payload, |b| ipv6.emit(b)), damage.clone());
        try_ipv6(&bytes);
        try_operations(&bytes);
        let nine = [7; 9];
        try_udp(&damaged(emitted(udp.header_len(), &nine, |b| udp.emit(b, &ADDRESSES)), damage.clone()));
        try_gre(&damaged(emitted(gre.header_len(), &nine, |b| gre.emit(b)), damage.clone()));
        try_icmpv4(&damaged(emitted(icmpv4.header_len(), &nine, |b| icmpv4.emit(b)), damage.clone()));
        try_icmpv6(&damaged(emitted(icmpv6.header_len(), &nine, |b| icmpv6.emit(b, &ADDRESSES)), damage.clone()));
        try_mptcp(&damaged(emitted(option.buffer_len(), &[], |b| option.emit(b)), damage));
    }
}
