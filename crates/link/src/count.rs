//! What an element counts.

use polypath_base::Bytes;

/// Packets and their bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketCount {
    /// How many.
    pub packets: u64,
    /// Of IP packets, without framing.
    pub bytes: Bytes,
}

impl PacketCount {
    /// One more packet, of length `len` without framing.
    #[inline]
    pub fn add(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes += len;
    }

    /// What is left of this after `other`, which is part of it.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}
