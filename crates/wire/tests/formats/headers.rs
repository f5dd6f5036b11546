//! Random headers of every format.

use polypath_base::Seq;
use polypath_wire::checksum::Addresses;
use polypath_wire::mptcp::{self, Announcement, FirstData, Keys, Mapping, Number};
use polypath_wire::{Flags, Inline, Sack, SackBlock, accecn, gre, icmpv4, icmpv6, ipv4, ipv6, tcp, udp};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..80)
}

pub(crate) fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|[a, b]| Addresses::V4 { source: Ipv4Addr::from(a), destination: Ipv4Addr::from(b) }),
        any::<[[u8; 16]; 2]>().prop_map(|[a, b]| Addresses::V6 { source: Ipv6Addr::from(a), destination: Ipv6Addr::from(b) }),
    ]
}

fn inline<const N: usize>(least: usize) -> impl Strategy<Value = Inline<N>> {
    prop::collection::vec(any::<u8>(), least..=N).prop_map(|bytes| Inline::from_slice(&bytes).expect("at most N bytes"))
}

pub(crate) fn ipv4_header(payload_len: usize) -> impl Strategy<Value = ipv4::Repr> {
    let options = prop::collection::vec(any::<[u8; 4]>(), 0..=10).prop_map(|words| Inline::from_slice(&words.concat()).expect("40 bytes"));
    (any::<[[u8; 4]; 2]>(), any::<[u8; 3]>(), 0..64_u8, any::<u16>(), any::<[bool; 2]>(), 0..8192_u16, options).prop_map(
        move |([source, destination], [protocol, ecn, ttl], dscp, ident, [dont_fragment, more_fragments], fragment_offset, options)| {
            let (source, destination) = (source.into(), destination.into());
            let ecn = ecn & 3;
            ipv4::Repr {
                source,
                destination,
                protocol,
                dscp,
                ecn,
                ident,
                dont_fragment,
                more_fragments,
                fragment_offset,
                ttl,
                options,
                payload_len,
            }
        },
    )
}

pub(crate) fn ipv6_header(payload_len: usize) -> impl Strategy<Value = ipv6::Repr> {
    (any::<[[u8; 16]; 2]>(), any::<[u8; 2]>(), 0..64_u8, 0..4_u8, 0..1_u32 << 20).prop_map(
        move |([source, destination], [next_header, hop_limit], dscp, ecn, flow_label)| ipv6::Repr {
            source: source.into(),
            destination: destination.into(),
            next_header,
            dscp,
            ecn,
            flow_label,
            hop_limit,
            payload_len,
        },
    )
}

pub(crate) fn udp_header(payload_len: usize) -> impl Strategy<Value = udp::Repr> {
    (any::<[u16; 2]>(), any::<bool>()).prop_map(move |([source_port, destination_port], checksum)| udp::Repr {
        source_port,
        destination_port,
        checksum,
        payload_len,
    })
}

pub(crate) fn gre_header(payload_len: usize) -> impl Strategy<Value = gre::Repr> {
    (any::<u16>(), any::<bool>(), any::<[Option<u32>; 2]>()).prop_map(move |(protocol, checksum, [key, sequence])| gre::Repr {
        protocol,
        checksum,
        key,
        sequence,
        payload_len,
    })
}

pub(crate) fn icmpv4_header(payload_len: usize) -> impl Strategy<Value = icmpv4::Repr> {
    use icmpv4::Message;
    let message = prop_oneof![
        any::<[u16; 2]>().prop_map(|[ident, number]| Message::EchoRequest { ident, number }),
        any::<[u16; 2]>().prop_map(|[ident, number]| Message::EchoReply { ident, number }),
        (5..16_u8).prop_map(|code| Message::Unreachable { code }),
        any::<u16>().prop_map(|mtu| Message::FragmentationNeeded { mtu }),
        any::<u8>().prop_map(|code| Message::TimeExceeded { code }),
        any::<[u8; 2]>().prop_map(|[code, pointer]| Message::ParameterProblem { code, pointer }),
        (13..=255_u8, any::<u8>(), any::<[u8; 4]>()).prop_map(|(kind, code, rest)| Message::Other { kind, code, rest }),
    ];
    message.prop_map(move |message| icmpv4::Repr { message, payload_len })
}

pub(crate) fn icmpv6_header(payload_len: usize) -> impl Strategy<Value = icmpv6::Repr> {
    use icmpv6::Message;
    let message = prop_oneof![
        any::<[u16; 2]>().prop_map(|[ident, number]| Message::EchoRequest { ident, number }),
        any::<[u16; 2]>().prop_map(|[ident, number]| Message::EchoReply { ident, number }),
        any::<u8>().prop_map(|code| Message::Unreachable { code }),
        any::<u32>().prop_map(|mtu| Message::PacketTooBig { mtu }),
        any::<u8>().prop_map(|code| Message::TimeExceeded { code }),
        (any::<u8>(), any::<u32>()).prop_map(|(code, pointer)| Message::ParameterProblem { code, pointer }),
        (130..=255_u8, any::<u8>(), any::<[u8; 4]>()).prop_map(|(kind, code, rest)| Message::Other { kind, code, rest }),
    ];
    message.prop_map(move |message| icmpv6::Repr { message, payload_len })
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![any::<u32>().prop_map(Number::Short), any::<u64>().prop_map(Number::Long)]
}

fn mapping() -> impl Strategy<Value = Mapping> {
    (number(), any::<u32>(), any::<u16>(), any::<Option<u16>>()).prop_map(|(dsn, ssn, len, checksum)| Mapping { dsn, ssn, len, checksum })
}

fn announcement() -> impl Strategy<Value = Announcement> {
    prop_oneof![Just(Announcement::Echo), Just(Announcement::V0), any::<u64>().prop_map(|hmac| Announcement::Authenticated { hmac })]
}

/// Any option of RFC 8684 and of version 0.
pub(crate) fn mptcp_option() -> impl Strategy<Value = mptcp::Repr> {
    use mptcp::Repr;
    let data = (any::<u16>(), any::<Option<u16>>()).prop_map(|(len, checksum)| FirstData { len, checksum });
    let keys = prop_oneof![
        Just(Keys::None),
        any::<u64>().prop_map(Keys::Sender),
        (any::<[u64; 2]>(), prop::option::of(data)).prop_map(|([sender, receiver], data)| Keys::Both { sender, receiver, data }),
    ];
    let address = prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)];
    prop_oneof![
        (0..16_u8, any::<u8>(), keys).prop_map(|(version, flags, keys)| Repr::Capable { version, flags, keys }),
        (any::<bool>(), any::<u8>(), any::<[u32; 2]>()).prop_map(|(backup, address_id, [token, nonce])| Repr::JoinSyn {
            backup,
            address_id,
            token,
            nonce
        }),
        (any::<bool>(), any::<u8>(), any::<u64>(), any::<u32>()).prop_map(|(backup, address_id, hmac, nonce)| Repr::JoinSynAck {
            backup,
            address_id,
            hmac,
            nonce
        }),
        any::<[u8; 20]>().prop_map(|hmac| Repr::JoinAck { hmac }),
        (prop::option::of(number()), prop::option::of(mapping()), any::<bool>()).prop_map(|(ack, mapping, data_fin)| Repr::Dss {
            ack,
            mapping,
            data_fin
        }),
        (announcement(), any::<u8>(), address, any::<Option<u16>>()).prop_map(|(announcement, address_id, address, port)| Repr::AddAddr {
            announcement,
            address_id,
            address,
            port
        }),
        inline(1).prop_map(|address_ids| Repr::RemoveAddr { address_ids }),
        (any::<bool>(), any::<Option<u8>>()).prop_map(|(backup, address_id)| Repr::Prio { backup, address_id }),
        any::<u64>().prop_map(|dsn| Repr::Fail { dsn }),
        any::<u64>().prop_map(|receiver_key| Repr::FastClose { receiver_key }),
        (0..16_u8, any::<u8>()).prop_map(|(flags, reason)| Repr::TcpRst { flags, reason }),
        (9..16_u8, 0..16_u8, inline(0)).prop_map(|(subtype, nibble, data)| Repr::Unknown { subtype, nibble, data }),
    ]
}

fn sack() -> impl Strategy<Value = Sack> {
    prop::collection::vec(any::<[u32; 2]>(), 0..=4).prop_map(|blocks| {
        let mut sack = Sack::default();
        assert!(blocks.into_iter().all(|[start, end]| sack.push(SackBlock { start: Seq::new(start), end: Seq::new(end) })));
        sack
    })
}

fn accecn_option() -> impl Strategy<Value = Option<accecn::Repr>> {
    let counters = prop::array::uniform3(0..1_u32 << 24);
    prop::option::of((any::<bool>(), 0..=3_u8, counters)).prop_map(|option| {
        let (ect_1_first, len, mut counters) = option?;
        counters[usize::from(len)..].fill(0);
        Some(accecn::Repr { ect_1_first, len, counters })
    })
}

/// Headers whose options fit into 40 bytes: what does not fit any more is left away.
pub(crate) fn tcp_header(payload_len: usize) -> impl Strategy<Value = tcp::Repr> {
    let fixed = (any::<[u16; 4]>(), any::<[u32; 2]>(), any::<u8>(), 0..16_u8);
    let small = (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<[u32; 2]>>());
    // Kinds 200 and more are experimental or unassigned.
    let unknown = prop::option::of((200..=255_u8, prop::collection::vec(any::<u8>(), 0..8)));
    let mptcp = prop::collection::vec(mptcp_option(), 0..3);
    (fixed, small, sack(), mptcp, unknown, accecn_option()).prop_map(move |(fixed, small, sack, options, unknown, accecn)| {
        let ([source_port, destination_port, window, urgent], [seq, ack], flags, reserved) = fixed;
        let (mss, window_scale, sack_permitted, timestamps) = small;
        let (flags, seq, ack) = (Flags(flags), Seq::new(seq), Seq::new(ack));
        let timestamps = timestamps.map(|[value, echo]| tcp::Timestamps { value, echo });
        let mut repr = tcp::Repr {
            source_port,
            destination_port,
            seq,
            ack,
            flags,
            reserved,
            window,
            urgent,
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            payload_len,
            ..Default::default()
        };
        let mut keep = |change: &dyn Fn(&mut tcp::Repr)| {
            let mut more = repr;
            change(&mut more);
            if more.options_len() <= tcp::MAX_OPTIONS {
                repr = more;
            }
        };
        keep(&|repr| repr.accecn = accecn);
        keep(&|repr| repr.sack = sack);
        for option in options {
            keep(&|repr| assert!(repr.mptcp.push(option)));
        }
        if let Some((kind, data)) = unknown {
            keep(&|repr| assert!(repr.unknown.extend(&[&[kind, data.len() as u8 + 2], &data[..]].concat())));
        }
        repr
    })
}
