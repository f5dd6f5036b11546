//! What a subflow hands to its meta connection.

use polypath_base::DataSeq;

/// Data received in order: pieces of the data sequence space, one after the other. Nearly always it
/// is one.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// Data sequence number and length; of length zero if there is nothing.
    first: (DataSeq, u32),
    more: Vec<(DataSeq, u32)>,
    /// Bytes after those pieces from the first one on that no mapping has come for.
    unmapped: u32,
}

impl Delivered {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        (self.first.1 | self.unmapped) == 0
    }

    /// The pieces, as (data sequence number, length).
    #[inline]
    pub(crate) fn pieces(&self) -> ((DataSeq, u32), &[(DataSeq, u32)]) {
        (self.first, &self.more)
    }

    /// Bytes after the pieces: no mapping has come for the first of them.
    #[inline]
    pub(crate) fn unmapped(&self) -> u32 {
        self.unmapped
    }

    /// All bytes, with a mapping or without.
    #[cold]
    pub(super) fn bytes(&self) -> u32 {
        self.first.1 + self.more.iter().map(|&(_, len)| len).sum::<u32>() + self.unmapped
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.unmapped = 0;
        self.first = (DataSeq::default(), 0);
        self.more.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, dsn: DataSeq, len: u32, is_mapped: bool) {
        if !is_mapped | (self.unmapped > 0) {
            self.unmapped += len;
        } else if self.first.1 == 0 {
            self.first = (dsn, len);
        } else {
            self.push_more(dsn, len);
        }
    }

    #[cold]
    fn push_more(&mut self, dsn: DataSeq, len: u32) {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.0 + u64::from(last.1) == dsn {
            last.1 += len;
        } else {
            self.more.push((dsn, len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_follow_each_other_are_one() {
        let at = DataSeq::new;
        let mut delivered = Delivered::default();
        for (dsn, len) in [(at(1000), 100), (at(1100), 50), (at(5000), 10), (at(5010), 10)] {
            delivered.push(dsn, len, true);
        }
        assert_eq!(delivered.pieces(), ((at(1000), 150), &[(at(5000), 20)][..]));
        delivered.push(at(0), 5, false);
        delivered.push(at(5020), 10, true);
        assert_eq!((delivered.pieces().1, delivered.unmapped()), (&[(at(5000), 20)][..], 15), "what follows waits too");
        delivered.clear();
        assert!(delivered.is_empty() && delivered.pieces().1.is_empty());
    }
}
