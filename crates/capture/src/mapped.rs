//! Where the bytes of a subflow stand in the connection's data (RFC 8684 section 3.3.1).
//!
//! A mapping stands for as many segments as it is long. Linux repeats it on each of them; other
//! stacks send it once, on the first segment, or with none, before the data or after. So mappings
//! are remembered, and bytes wait until theirs comes.

use crate::ranges::Ranges;
use std::ops::Range;

/// Mappings of a subflow that are remembered, and holes among its bytes, at most.
const REMEMBERED: usize = 1024;
/// Segments that wait for their mapping, at most; older ones never get one.
const WAITING: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Mapped {
    /// What is to be added to a byte's place in the subflow for its data sequence number.
    offsets: Ranges<u64>,
    counted: Ranges<()>,
    waiting: Vec<Range<u64>>,
}

impl Mapped {
    /// No mapping was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// These bytes of the subflow are those of the data from there on. False if an earlier mapping
    /// says something else of one of them.
    pub(crate) fn map(&mut self, bytes: Range<u64>, dsn: u64) -> bool {
        let offset = dsn.wrapping_sub(bytes.start);
        let mut agrees = true;
        self.offsets.each(bytes.clone(), |_, known| agrees &= known.is_none_or(|known| known == offset));
        if agrees {
            self.offsets.add(bytes, offset, REMEMBERED);
        }
        agrees
    }

    /// These bytes were sent.
    pub(crate) fn carry(&mut self, bytes: Range<u64>) {
        if self.waiting.len() == WAITING {
            self.waiting.remove(0);
        }
        self.waiting.push(bytes);
    }

    /// The data whose place is known by now, each byte of the subflow once.
    pub(crate) fn resolve(&mut self) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        if self.is_empty() {
            return found;
        }
        for bytes in std::mem::take(&mut self.waiting) {
            let mut new = Vec::new();
            self.counted.each(bytes, |part, known| new.extend(known.is_none().then_some(part)));
            for part in new {
                self.offsets.each(part, |part, offset| match offset {
                    Some(offset) => {
                        let dsn = part.start.wrapping_add(offset);
                        found.push(dsn..dsn.saturating_add(part.end - part.start));
                        self.counted.add(part, (), REMEMBERED);
                    }
                    None => self.waiting.push(part),
                });
            }
        }
        let more = self.waiting.len().saturating_sub(WAITING);
        self.waiting.drain(..more);
        found
    }
}
