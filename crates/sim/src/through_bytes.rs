//! A segment as it comes out of the bytes of its packet, for a test.

use polypath_base::PathId;
use polypath_wire::{Envelope, Segment};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

/// The segment as it comes out of bytes, with its checksums right; as it is without a count.
pub(crate) fn carried(count: Option<&AtomicU64>, to: u32, path: PathId, segment: &Segment) -> Segment {
    let Some(count) = count else { return *segment };
    count.fetch_add(1, Ordering::Relaxed);
    let payload = vec![0x5a; segment.len as usize];
    let bytes = segment.to_bytes(&envelope(to, path), &payload).unwrap_or_else(|error| panic!("{error}: {segment:?}"));
    let (found, read, carried) = Segment::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}: {segment:?}"));
    assert_eq!((found, carried), (envelope(to, path), &payload[..]));
    assert!(!read.dss.checksum_wrong, "{segment:?}");
    read
}

/// Over IPv4 to clients, over IPv6 to servers.
fn envelope(to: u32, path: PathId) -> Envelope {
    let address = |last: u32| {
        if to % 2 == 0 {
            IpAddr::from(Ipv4Addr::from(0x0a00_0000 | last))
        } else {
            IpAddr::from(Ipv6Addr::from(0xfd01_u128 << 112 | u128::from(last)))
        }
    };
    let port = 1000 + u16::from(path.0);
    Envelope { source: SocketAddr::new(address(to ^ 1), port), destination: SocketAddr::new(address(to), port), ident: 0 }
}
