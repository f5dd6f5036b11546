//! Agreement with `etherparse`, where it knows the same formats.

use crate::headers::*;
use etherparse::{Icmpv4Slice, Icmpv6Slice, Ipv4HeaderSlice, Ipv6HeaderSlice, TcpSlice, UdpSlice};
use polypath_wire::checksum::Addresses;
use polypath_wire::{ipv4, tcp};
use proptest::prelude::*;

fn emitted(header: usize, payload: &[u8], emit: impl FnOnce(&mut [u8]) -> polypath_wire::Result<()>) -> Vec<u8> {
    let mut bytes = [&vec![0; header], payload].concat();
    emit(&mut bytes).expect("the header fits");
    bytes
}

proptest! {
    #[test]
    fn ipv4_headers((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), ipv4_header(n)) })) {
        let bytes = emitted(repr.header_len(), &payload, |b| repr.emit(b));
        let theirs = Ipv4HeaderSlice::from_slice(&bytes).expect("it reads ours").to_header();
        prop_assert_eq!(theirs.calc_header_checksum(), theirs.header_checksum);
        let packet = ipv4::Packet::new_checked(&bytes).expect("we do");
        prop_assert_eq!(
            (theirs.source, theirs.destination, usize::from(theirs.total_len), theirs.time_to_live, theirs.protocol.0),
            (repr.source.octets(), repr.destination.octets(), packet.total_len(), repr.ttl, repr.protocol)
        );
        prop_assert_eq!(
            (theirs.dont_fragment, theirs.more_fragments, theirs.fragment_offset.value(), theirs.identification),
            (repr.dont_fragment, repr.more_fragments, repr.fragment_offset, repr.ident)
        );
        prop_assert_eq!((theirs.dscp.value(), theirs.ecn.value(), theirs.options.as_slice()), (repr.dscp, repr.ecn, &repr.options[..]));
        prop_assert_eq!(&theirs.to_bytes()[..], packet.header());
    }

    #[test]
    fn ipv6_headers((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), ipv6_header(n)) })) {
        let bytes = emitted(repr.header_len(), &payload, |b| repr.emit(b));
        let theirs = Ipv6HeaderSlice::from_slice(&bytes).expect("it reads ours").to_header();
        prop_assert_eq!(
            (theirs.source, theirs.destination, usize::from(theirs.payload_length), theirs.hop_limit, theirs.next_header.0),
            (repr.source.octets(), repr.destination.octets(), payload.len(), repr.hop_limit, repr.next_header)
        );
        prop_assert_eq!((theirs.traffic_class, theirs.flow_label.value()), (repr.dscp << 2 | repr.ecn, repr.flow_label));
        prop_assert_eq!(&theirs.to_bytes()[..], &bytes[..40]);
    }

    #[test]
    fn udp_headers((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), udp_header(n)) }), addresses in addresses()) {
        let repr = polypath_wire::udp::Repr { checksum: true, ..repr };
        let bytes = emitted(repr.header_len(), &payload, |b| repr.emit(b, &addresses));
        let theirs = UdpSlice::from_slice(&bytes).expect("it reads ours");
        prop_assert_eq!((theirs.source_port(), theirs.destination_port(), theirs.payload()), (repr.source_port, repr.destination_port, &payload[..]));
        let header = theirs.to_header();
        let sum = match addresses {
            Addresses::V4 { source, destination } => header.calc_checksum_ipv4_raw(source.octets(), destination.octets(), &payload),
            Addresses::V6 { source, destination } => header.calc_checksum_ipv6_raw(source.octets(), destination.octets(), &payload),
        };
        prop_assert_eq!(sum.expect("short enough"), theirs.checksum());
    }

    #[test]
    fn tcp_segments((payload, repr) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), tcp_header(n)) }), addresses in addresses()) {
        let bytes = emitted(repr.header_len(), &payload, |b| repr.emit(b, &addresses));
        let theirs = TcpSlice::from_slice(&bytes).expect("it reads ours");
        let packet = tcp::Packet::new_checked(&bytes).expect("we do");
        prop_assert_eq!(
            (theirs.source_port(), theirs.destination_port(), theirs.sequence_number(), theirs.acknowledgment_number()),
            (repr.source_port, repr.destination_port, repr.seq.get(), repr.ack.get())
        );
        prop_assert_eq!((theirs.window_size(), theirs.urgent_pointer(), theirs.payload()), (repr.window, repr.urgent, &payload[..]));
        prop_assert_eq!(theirs.options(), packet.options());
        let flags = [theirs.fin(), theirs.syn(), theirs.rst(), theirs.psh(), theirs.ack(), theirs.urg(), theirs.ece(), theirs.cwr()];
        prop_assert_eq!(flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u8::from(flag)), repr.flags.0);
        // The bits that it has no name for are zero in its header.
        let header = theirs.to_header();
        if repr.reserved & 0b1110 == 0 {
            let sum = match addresses {
                Addresses::V4 { source, destination } => header.calc_checksum_ipv4_raw(source.octets(), destination.octets(), &payload),
                Addresses::V6 { source, destination } => header.calc_checksum_ipv6_raw(source.octets(), destination.octets(), &payload),
            };
            prop_assert_eq!(sum.expect("short enough"), theirs.checksum());
        }
        use etherparse::TcpOptionElement as E;
        for element in theirs.options_iterator().flatten() {
            match element {
                E::MaximumSegmentSize(mss) => prop_assert_eq!(Some(mss), repr.mss),
                E::WindowScale(shift) => prop_assert_eq!(Some(shift), repr.window_scale),
                E::SelectiveAcknowledgementPermitted => prop_assert!(repr.sack_permitted),
                E::Timestamp(value, echo) => prop_assert_eq!(Some(tcp::Timestamps { value, echo }), repr.timestamps),
                E::SelectiveAcknowledgement(first, rest) => {
                    let blocks: Vec<_> = [Some(first)].into_iter().chain(rest).flatten().collect();
                    let ours: Vec<_> = repr.sack.as_slice().iter().map(|block| (block.start.get(), block.end.get())).collect();
                    prop_assert_eq!(blocks, ours);
                }
                E::Noop => {}
            }
        }
    }

    #[test]
    fn icmp_messages(
        (payload, v4, v6) in payload().prop_flat_map(|p| { let n = p.len(); (Just(p), icmpv4_header(n), icmpv6_header(n)) }),
        source in any::<[u8; 16]>(),
        destination in any::<[u8; 16]>(),
    ) {
        let bytes = emitted(v4.header_len(), &payload, |b| v4.emit(b));
        let theirs = Icmpv4Slice::from_slice(&bytes).expect("it reads ours");
        // It computes the checksum of what it has a name for: a pointer only with code 0 (RFC 792),
        // timestamp messages of one length only.
        let pointer = matches!(v4.message, polypath_wire::icmpv4::Message::ParameterProblem { code, .. } if code != 0);
        if !pointer && !matches!(theirs.type_u8(), 13 | 14) {
            prop_assert_eq!(theirs.header().icmp_type.calc_checksum(theirs.payload()), theirs.checksum());
        }
        let addresses = Addresses::V6 { source: source.into(), destination: destination.into() };
        let bytes = emitted(v6.header_len(), &payload, |b| v6.emit(b, &addresses));
        let theirs = Icmpv6Slice::from_slice(&bytes).expect("it reads ours");
        prop_assert!(theirs.is_checksum_valid(source, destination));
    }
}
