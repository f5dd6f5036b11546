//! What is written is read again, for every format: `parse(emit(repr)) == repr`, and the payload is
//! untouched.

use crate::headers::*;
use polypath_wire::checksum::Addresses;
use polypath_wire::{Error, gre, icmpv4, icmpv6, ipv4, ipv6, mpt, mptcp, tcp, udp};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// A buffer with room for a header in front of the payload.
fn buffer(header: usize, payload: &[u8]) -> Vec<u8> {
    [&vec![0xee; header], payload].concat()
}

fn no_error<T>(result: Result<T, Error>) -> Result<T, TestCaseError> {
    result.map_err(|error| TestCaseError::fail(error.to_string()))
}

/// The property for a format of this module; what a checksum covers besides stands behind the
/// header.
macro_rules! round_trip {
    ($format:ident, $repr:expr, $payload:expr $(, $addresses:expr)?) => {{
        let (repr, payload): ($format::Repr, &[u8]) = ($repr, $payload);
        let mut bytes = buffer(repr.header_len(), payload);
        prop_assert_eq!(bytes.len(), repr.buffer_len());
        no_error(repr.emit(&mut bytes $(, $addresses)?))?;
        let packet = no_error($format::Packet::new_checked(&bytes))?;
        prop_assert_eq!(packet.payload(), payload);
        prop_assert_eq!(no_error($format::Repr::parse(&packet $(, $addresses)?))?, repr);
        // A buffer that is too short is refused, and every other bit of it matters to the checksum,
        // if there is one.
        let short = bytes.len() - 1;
        prop_assert_eq!(repr.emit(&mut bytes[..short] $(, $addresses)?), Err(Error::Truncated));
    }};
}

proptest! {
    #[test]
    fn ipv4((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), ipv4_header(n)) })) {
        round_trip!(ipv4, repr, &payload);
    }

    #[test]
    fn ipv6((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), ipv6_header(n)) })) {
        round_trip!(ipv6, repr, &payload);
    }

    #[test]
    fn udp((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), udp_header(n)) }), addresses in addresses()) {
        round_trip!(udp, repr, &payload, &addresses);
    }

    #[test]
    fn gre((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), gre_header(n)) })) {
        round_trip!(gre, repr, &payload);
    }

    #[test]
    fn icmpv4((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), icmpv4_header(n)) })) {
        round_trip!(icmpv4, repr, &payload);
    }

    #[test]
    fn icmpv6((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), icmpv6_header(n)) }), addresses in addresses()) {
        round_trip!(icmpv6, repr, &payload, &addresses);
    }

    #[test]
    fn tcp((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), tcp_header(n)) }), addresses in addresses()) {
        round_trip!(tcp, repr, &payload, &addresses);
    }

    #[test]
    fn mptcp_options(repr in mptcp_option()) {
        let mut bytes = vec![0xee; repr.buffer_len()];
        no_error(repr.emit(&mut bytes))?;
        prop_assert_eq!(no_error(mptcp::Packet::new_checked(&bytes).and_then(|packet| mptcp::Repr::parse(&packet)))?, repr);
    }

    #[test]
    fn mpt_keepalives(addresses in addresses()) {
        let (source, destination) = match addresses {
            Addresses::V4 { source, destination } => (source.into(), destination.into()),
            Addresses::V6 { source, destination } => (source.into(), destination.into()),
        };
        let repr = mpt::Repr { source, destination };
        let mut bytes = vec![0xee; repr.buffer_len()];
        no_error(repr.emit(&mut bytes))?;
        prop_assert_eq!(no_error(mpt::Packet::new_checked(&bytes).and_then(|packet| mpt::Repr::parse(&packet)))?, repr);
        prop_assert!(mpt::is_message(&bytes));
    }

    #[test]
    fn a_changed_bit_is_found(bit in 0..160_usize, (payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), tcp_header(n)) })) {
        let addresses = Addresses::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
        let mut bytes = buffer(repr.header_len(), &payload);
        no_error(repr.emit(&mut bytes, &addresses))?;
        bytes[bit / 8] ^= 1 << (bit % 8);
        // A changed data offset may be no offset at all.
        let parsed = tcp::Packet::new_checked(&bytes).and_then(|packet| tcp::Repr::parse(&packet, &addresses));
        prop_assert!(parsed.is_err());
    }
}
