//! What a SYN may announce of segments that pass a tunnel.

/// Bytes of the fixed headers of IP and TCP. Options are the sender's to subtract (RFC 6691 section 2).
const FIXED: [u32; 2] = [20 + 20, 40 + 20];

/// The greatest MSS whose segments a device of this MTU takes whole (RFC 9293 section 3.7.1, RFC 879 section 3).
pub fn clamped_mss(mtu: u32, v6: bool) -> u16 {
    u16::try_from(mtu.saturating_sub(FIXED[usize::from(v6)])).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_fixed_headers_leave() {
        assert_eq!([1500, 1464, 576, 0].map(|mtu| clamped_mss(mtu, false)), [1460, 1424, 536, 0]);
        assert_eq!([1500, 1280, 70_000].map(|mtu| clamped_mss(mtu, true)), [1440, 1220, u16::MAX]);
    }
}
