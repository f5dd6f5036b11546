//! No bytes do harm to a format, whatever a peer sends: what can be read can be written and read
//! again. `polypath_fuzz` tries the same.

use polypath_wire::checksum::Addresses;
use polypath_wire::{gre, icmpv4, icmpv6, ipv4, ipv6, mpt, mptcp, tcp, udp};
use std::net::Ipv4Addr;

pub(crate) const ADDRESSES: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };

/// Reads bytes as a packet of the format, with its checksum put right (or else random bytes would
/// get no further) or as it is, and writes and reads again what was found.
macro_rules! harmless {
    ($name:ident, $format:ident, $repair:expr, [$($addresses:expr)?]) => {
        pub(crate) fn $name(bytes: &[u8]) {
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

pub(crate) fn try_mptcp(bytes: &[u8]) {
    let Ok(repr) = mptcp::Packet::new_checked(bytes).and_then(|packet| mptcp::Repr::parse(&packet)) else { return };
    let mut again = vec![0; repr.buffer_len()];
    repr.emit(&mut again).expect("what was read can be written");
    assert_eq!(again.len(), usize::from(bytes[1]), "the same form");
    assert_eq!(mptcp::Packet::new_checked(&again).and_then(|packet| mptcp::Repr::parse(&packet)), Ok(repr));
}

pub(crate) fn try_mpt(bytes: &[u8]) {
    let Ok(repr) = mpt::Packet::new_checked(bytes).and_then(|packet| mpt::Repr::parse(&packet)) else { return };
    let mut again = vec![0; repr.buffer_len()];
    repr.emit(&mut again).expect("what was read can be written");
    assert_eq!(mpt::Packet::new_checked(&again).and_then(|packet| mpt::Repr::parse(&packet)), Ok(repr));
}

pub(crate) fn try_operations(bytes: &[u8]) {
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

/// One trial a format.
const TRIALS: [fn(&[u8]); 10] = [try_ipv4, try_ipv6, try_udp, try_gre, try_mpt, try_icmpv4, try_icmpv6, try_tcp, try_mptcp, try_operations];

/// Reads bytes as each format.
pub(crate) fn try_all(bytes: &[u8]) {
    TRIALS.iter().for_each(|trial| trial(bytes));
}
