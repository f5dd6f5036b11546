//! Packets of Linux 6.12.117 (`corpus/linux.hex`): every field is understood, and what we write of
//! it are the same bytes.

use polypath_base::DataSeq;
use polypath_wire::checksum::Addresses;
use polypath_wire::mptcp::{Announcement, Keys, Repr as Mptcp, Version, dss_checksum};
use polypath_wire::{icmpv4, icmpv6, ipv4, ipv6, tcp, udp};

fn packets() -> Vec<Vec<u8>> {
    crate::bytes::corpus("linux")
}

/// Addresses, protocol and payload of a packet, whose header is found to be reproduced.
fn ip(bytes: &[u8]) -> (Addresses, u8, &[u8]) {
    let mut again = bytes.to_vec();
    if bytes[0] >> 4 == 4 {
        let packet = ipv4::Packet::new_checked(bytes).expect("a packet");
        let repr = ipv4::Repr::parse(&packet).expect("a right header");
        again[..repr.header_len()].fill(0xee);
        repr.emit(&mut again).expect("room");
        assert_eq!(again, bytes);
        (packet.addresses(), repr.protocol, &bytes[packet.header_len()..])
    } else {
        let packet = ipv6::Packet::new_checked(bytes).expect("a packet");
        let repr = ipv6::Repr::parse(&packet).expect("a right header");
        again[..repr.header_len()].fill(0xee);
        repr.emit(&mut again).expect("room");
        assert_eq!(again, bytes);
        let (protocol, upper) = packet.upper_layer().expect("not cut off");
        (packet.addresses(), protocol, &bytes[bytes.len() - upper.len()..])
    }
}

fn segments() -> Vec<(Addresses, tcp::Repr, Vec<u8>)> {
    let packets = packets();
    let tcp = packets.iter().map(|bytes| ip(bytes)).filter(|(_, protocol, _)| *protocol == tcp::PROTOCOL);
    tcp.map(|(addresses, _, bytes)| {
        let packet = tcp::Packet::new_checked(bytes).expect("a segment");
        (addresses, tcp::Repr::parse(&packet, &addresses).expect("a right segment"), bytes.to_vec())
    })
    .collect()
}

#[test]
fn what_linux_sent_is_reproduced_byte_by_byte() {
    for (addresses, repr, bytes) in segments() {
        assert_eq!((repr.malformed, repr.unknown.len()), (0, 0));
        let mut again = bytes.clone();
        again[..repr.header_len()].fill(0xee);
        repr.emit(&mut again, &addresses).expect("room");
        assert_eq!(again, bytes, "{repr:?}");
    }
    let mut others = 0;
    for (addresses, protocol, bytes) in packets().iter().map(|bytes| ip(bytes)) {
        let mut again = bytes.to_vec();
        again[..8].fill(0xee);
        let emitted = match protocol {
            udp::PROTOCOL => {
                udp::Packet::new_checked(bytes).and_then(|p| udp::Repr::parse(&p, &addresses)).map(|r| r.emit(&mut again, &addresses))
            }
            icmpv4::PROTOCOL => icmpv4::Packet::new_checked(bytes).and_then(|p| icmpv4::Repr::parse(&p)).map(|r| r.emit(&mut again)),
            icmpv6::PROTOCOL => {
                icmpv6::Packet::new_checked(bytes).and_then(|p| icmpv6::Repr::parse(&p, &addresses)).map(|r| r.emit(&mut again, &addresses))
            }
            _ => continue,
        };
        assert_eq!(emitted, Ok(Ok(())));
        assert_eq!(again, bytes);
        others += 1;
    }
    assert!(others >= 8, "{others}");
}

#[test]
fn every_form_of_version_1_but_the_failures_is_among_them() {
    let mut forms: Vec<(std::mem::Discriminant<Mptcp>, usize)> = segments()
        .iter()
        .flat_map(|(_, repr, _)| repr.mptcp.iter().map(|o| (std::mem::discriminant(o), o.buffer_len())).collect::<Vec<_>>())
        .collect();
    forms.sort_by_key(|form| form.1);
    forms.dedup();
    // MP_CAPABLE in five lengths, MP_JOIN in three, ...
    assert!(forms.len() >= 20, "{}", forms.len());
    assert!(segments().iter().any(|(_, repr, _)| repr.mptcp.iter().count() == 2));
}

#[test]
fn linuxs_codes_and_checksums_are_ours() {
    let segments = segments();
    let options = |index: usize| segments[index].1.mptcp.iter();
    let (mut codes, mut joins, mut checksums) = (0, 0, 0);
    let (mut keys, mut nonces) = (None, (0, 0));
    for (index, (_, repr, bytes)) in segments.iter().enumerate() {
        for option in options(index) {
            match *option {
                Mptcp::Capable { keys: Keys::Both { sender, receiver, data: None }, .. } => keys = Some((sender, receiver)),
                Mptcp::JoinSyn { token, nonce, .. } => {
                    let (_, server) = keys.expect("a handshake came before");
                    assert_eq!(token, Version::V1.token_and_idsn(server).0);
                    nonces.0 = nonce;
                }
                Mptcp::JoinSynAck { hmac, nonce, .. } => {
                    let (client, server) = keys.expect("a handshake came before");
                    assert_eq!(hmac, Version::V1.short_join_hmac(server, client, nonce, nonces.0));
                    nonces.1 = nonce;
                }
                Mptcp::JoinAck { hmac } => {
                    let (client, server) = keys.expect("a handshake came before");
                    assert_eq!(hmac, Version::V1.join_hmac(client, server, nonces.0, nonces.1));
                    joins += 1;
                }
                Mptcp::AddAddr { announcement: Announcement::Authenticated { hmac }, address_id, address, port } => {
                    let (client, server) = keys.expect("a handshake came before");
                    assert_eq!(hmac, Version::V1.address_hmac(server, client, address_id, address, port.unwrap_or(0)), "{option:?}");
                    codes += 1;
                }
                Mptcp::Dss { mapping: Some(mapping), data_fin: false, .. } => {
                    let payload = &bytes[repr.header_len()..];
                    let whole = usize::from(mapping.len) == payload.len();
                    if let (Some(checksum), polypath_wire::mptcp::Number::Long(dsn), true) = (mapping.checksum, mapping.dsn, whole) {
                        assert_eq!(checksum, dss_checksum(DataSeq::new(dsn), mapping.ssn, mapping.len, payload));
                        checksums += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(codes >= 4 && joins == 2 && checksums >= 1, "{codes} {joins} {checksums}");
}
