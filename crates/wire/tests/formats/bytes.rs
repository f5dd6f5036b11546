//! No bytes do harm, whatever a peer sends: nothing panics, and what can be read can be written and
//! read again.
//!
//! `corpus/*.hex` hold inputs that are always tried, one a line: captured packets, and those on
//! which a test once failed.

use crate::harmless::*;
use crate::headers::*;
use polypath_wire::mptcp;
use proptest::prelude::*;

/// The inputs of `corpus/NAME.hex`.
pub(crate) fn corpus(name: &str) -> Vec<Vec<u8>> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name).with_extension("hex");
    let text = std::fs::read_to_string(&file).expect("the corpus is there");
    let byte = |line: &str, at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal digits");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| (0..line.len()).step_by(2).map(|at| byte(line, at)).collect()).collect()
}

#[test]
fn the_corpus_does_no_harm() {
    let inputs = [corpus("linux"), corpus("failed")].concat();
    assert!(inputs.len() >= 50, "the corpus is there");
    for bytes in inputs {
        // An input for one format is one for all of them, with its first header and without.
        for start in [0, 20, 40, 52] {
            try_all(bytes.get(start..).unwrap_or_default());
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
        try_all(&bytes);
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
