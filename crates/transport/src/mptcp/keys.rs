//! Keys of connections. What follows from a key is in [`MptcpVersion`].

use crate::stack::MptcpVersion;
use polypath_base::{DataSeq, Rng};

/// A key with its token and first data sequence number. That number lies far enough from the end of
/// the space that what is sent never wraps: one key in 65536 is drawn again, and 2^48 bytes are
/// left.
pub(super) fn draw_key(version: MptcpVersion, random: &mut Rng) -> (u64, u32, DataSeq) {
    loop {
        let key = random.next_u64();
        let (token, idsn) = version.token_and_idsn(key);
        if idsn.get() >> 48 != 0xffff {
            return (key, token, idsn);
        }
    }
}
