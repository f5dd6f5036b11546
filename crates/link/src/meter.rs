//! Counts what passes.

use crate::{Parcel, Verdict};
use polypath_base::Instant;

/// Counts packets and bytes and changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    packets: u64,
    bytes: u64,
}

impl Meter {
    #[inline]
    pub fn transit(&mut self, at: Instant, parcel: Parcel) -> Verdict {
        self.packets += 1;
        self.bytes += u64::from(parcel.len);
        Verdict::Pass(at)
    }

    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of IP packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
