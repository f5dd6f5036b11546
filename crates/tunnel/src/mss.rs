//! What a SYN may announce of segments that pass a tunnel.

use polypath_base::Bytes;

/// Bytes of the fixed headers of IP and TCP. Options are the sender's to subtract
/// (RFC 6691 section 2).
const FIXED: [u32; 2] = [20 + 20, 40 + 20];
/// The option has 16 bits.
const MOST: u32 = 65_535;

/// The greatest MSS whose segments a device of this MTU takes whole (RFC 9293 section 3.7.1,
/// RFC 879 section 3).
pub fn clamped_mss(mtu: Bytes, v6: bool) -> Bytes {
    mtu.saturating_sub(Bytes::from_u32(FIXED[usize::from(v6)])).min(Bytes::from_u32(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_fixed_headers_leave() {
        let mss = |mtu, v6| clamped_mss(Bytes::new(mtu), v6).get();
        assert_eq!([1500, 1464, 576, 0].map(|mtu| mss(mtu, false)), [1460, 1424, 536, 0]);
        assert_eq!([1500, 1280, 70_000].map(|mtu| mss(mtu, true)), [1440, 1220, 65_535]);
    }
}
