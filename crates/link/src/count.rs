//! What an element counts.

/// Packets and their bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketCount {
    /// How many.
    pub packets: u64,
    /// Of IP packets, without framing.
    pub bytes: u64,
}

impl PacketCount {
    /// One more packet, of `len` bytes without framing.
    #[inline]
    pub fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    /// What is left of this after `other`, which is part of it.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}
