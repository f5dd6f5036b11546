//! Reading and writing an option's bytes one after another.

use crate::error::{Error, Result};

/// Takes numbers off the front of an option.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Error::Malformed("mptcp length"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn short(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn word(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

/// Writes one piece after another into a buffer of the option's length.
pub(super) struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        // The buffer has `buffer_len` bytes, which counts every piece.
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}
