//! The AccECN option (RFC 9768 section 3.2.3): how many bytes of payload have come with each ECN
//! codepoint, in counters of 24 bits.

use crate::error::{Error, Result};

/// Kind of the option that begins with the bytes of ECT(0) (order 0).
pub const KIND_0: u8 = 172;
/// Kind of the option that begins with the bytes of ECT(1) (order 1).
pub const KIND_1: u8 = 174;
/// Most counters.
pub const COUNTERS: usize = 3;
/// Most bytes, without padding.
pub const MAX_LEN: usize = 2 + 3 * COUNTERS;

/// An option with its counters.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// The order is ECT(1), CE, ECT(0), as Linux sends it; else it is ECT(0), CE, ECT(1).
    pub ect_1_first: bool,
    /// How many counters there are: the first so many of the order, 0 to 3.
    pub len: u8,
    /// As on the wire, 24 bits each; what stands behind `len` is zero.
    pub counters: [u32; COUNTERS],
}

impl Repr {
    /// Reads an option with its kind and length. None if it is another one, or of a length that it
    /// cannot have.
    pub fn parse(option: &[u8]) -> Option<Self> {
        let (&[kind @ (KIND_0 | KIND_1), length], fields) = option.split_first_chunk()? else { return None };
        let fits = usize::from(length) == option.len() && fields.len() % 3 == 0 && fields.len() <= 3 * COUNTERS;
        let mut repr = Self { ect_1_first: kind == KIND_1, len: (fields.len() / 3) as u8, ..Self::default() };
        for (counter, field) in repr.counters.iter_mut().zip(fields.chunks_exact(3)) {
            *counter = u32::from_be_bytes([0, field[0], field[1], field[2]]);
        }
        fits.then_some(repr)
    }

    /// Bytes without padding.
    pub const fn buffer_len(&self) -> usize {
        2 + 3 * self.len as usize
    }

    /// Writes it into the beginning of a buffer.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter, `Malformed` if there are more than three counters.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        if usize::from(self.len) > COUNTERS {
            return Err(Error::Malformed("accecn option"));
        }
        let option = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        option[0] = if self.ect_1_first { KIND_1 } else { KIND_0 };
        option[1] = self.buffer_len() as u8;
        for (field, counter) in option[2..].chunks_exact_mut(3).zip(self.counters) {
            field.copy_from_slice(&counter.to_be_bytes()[1..]);
        }
        Ok(())
    }

    /// The ECN codepoints of the counters that are there, and what they are.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        let order = if self.ect_1_first { [1, 3, 2] } else { [2, 3, 1] };
        order.into_iter().zip(self.counters).take(usize::from(self.len))
    }

    /// The same by packetdrill's names of the counters.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.iter().map(|(codepoint, counter)| (["", "e1b", "e0b", "ceb"][usize::from(codepoint)], counter))
    }
}

/// Bytes that an option with so many counters adds to a header, where `padding` bytes that would
/// stand before the next option may hold its end (Linux: `tcp_options_fit_accecn`).
pub const fn wire_len(counters: u8, padding: u32) -> u32 {
    let len = 2 + 3 * counters as u32;
    if len & 3 > padding { len.next_multiple_of(4) } else { len & !3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_every_length_survive() {
        for (len, ect_1_first) in (0..=3).flat_map(|len| [(len, false), (len, true)]) {
            let mut counters = [0x01_0203, 0xff_ffff, 7];
            counters[usize::from(len)..].fill(0);
            let repr = Repr { ect_1_first, len, counters };
            let mut bytes = [0; MAX_LEN];
            repr.emit(&mut bytes).unwrap();
            assert_eq!(Repr::parse(&bytes[..repr.buffer_len()]), Some(repr));
        }
        assert_eq!(Repr::parse(&[KIND_1, 5, 1, 2, 3]).unwrap().iter().collect::<Vec<_>>(), [(1, 0x01_0203)]);
    }

    #[test]
    fn what_is_none_is_passed_over() {
        for bytes in
            [&[KIND_0][..], &[KIND_0, 4, 0, 0], &[KIND_0, 3, 0, 0, 0], &[30, 5, 0, 0, 0], &[KIND_0, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(Repr::parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn its_end_stands_in_padding_where_there_is_enough() {
        let lengths = |padding| [0, 1, 2, 3].map(|counters| wire_len(counters, padding));
        assert_eq!([lengths(0), lengths(1), lengths(2)], [[4, 8, 8, 12], [4, 4, 8, 12], [0, 4, 8, 12]]);
    }
}
