//! A few bytes without an allocation: options that are kept as they came.

/// At most `N` bytes (`N` < 256) that live in the value itself.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Inline<const N: usize> {
    len: u8,
    /// Zero from `len` on, so that equal contents are equal values.
    bytes: [u8; N],
}

impl<const N: usize> Inline<N> {
    /// The bytes of a slice; none if it is longer than `N`.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        let mut inline = Self::default();
        inline.extend(bytes).then_some(inline)
    }

    /// Appends the bytes, or changes nothing and returns false if they do not fit.
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        let start = usize::from(self.len);
        let Some(room) = self.bytes.get_mut(start..start + bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.len += bytes.len() as u8;
        true
    }
}

impl<const N: usize> Inline<N> {
    /// As of the slice, without making one.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<const N: usize> Default for Inline<N> {
    fn default() -> Self {
        const { assert!(N < 256, "the length is one byte") };
        Self { len: 0, bytes: [0; N] }
    }
}

impl<const N: usize> std::ops::Deref for Inline<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl<const N: usize> std::fmt::Debug for Inline<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
