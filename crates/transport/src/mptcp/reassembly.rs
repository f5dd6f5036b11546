//! Data that waits for what comes before it, as ranges of the connection's bytes. A subflow's
//! out-of-order queue (`tcp::receiving`) keeps pieces instead: it has to tell SACK blocks, and
//! where each piece lies in the data.

use std::collections::VecDeque;

/// `start..end`, counted from the first byte of the data.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
}

/// Ranges in order, none of which touches another.
#[derive(Debug)]
pub(super) struct Reassembly {
    ranges: VecDeque<Range>,
    bytes: u64,
    most: u64,
}

impl Reassembly {
    pub(super) fn new() -> Self {
        Self { ranges: VecDeque::new(), bytes: 0, most: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes that wait.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Most bytes that ever waited.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Everything before `next` is there: what follows it without a gap is taken out, and the end
    /// of that given back.
    #[inline]
    pub(super) fn take(&mut self, mut next: u64) -> u64 {
        while let Some(first) = self.ranges.front()
            && first.start <= next
        {
            self.bytes -= first.end - first.start;
            next = next.max(first.end);
            self.ranges.pop_front();
        }
        debug_assert_eq!(self.bytes == 0, self.ranges.is_empty(), "bytes are counted with their ranges");
        next
    }

    /// Keeps `start..end`; gives back how many bytes of it waited already.
    #[inline]
    pub(super) fn keep(&mut self, start: u64, end: u64) -> u64 {
        debug_assert!(start < end, "what waits has a length");
        match self.ranges.back_mut() {
            Some(last) if last.end == start => {
                last.end = end;
                self.add(end - start);
                0
            }
            _ => self.keep_apart(start, end),
        }
    }

    /// Keeps what does not merely extend the last range.
    #[inline(never)]
    fn keep_apart(&mut self, start: u64, end: u64) -> u64 {
        // Most pieces extend the last range or one near the end.
        let mut at = self.ranges.len();
        if at > 16 && self.ranges[at - 16].start > start {
            at = self.ranges.partition_point(|r| r.start <= start);
        } else {
            while at > 0 && self.ranges[at - 1].start > start {
                at -= 1;
            }
        }
        // `at` is the first range that begins after `start`; the one before it may reach into the
        // new piece.
        if at > 0 && self.ranges[at - 1].end == start && self.ranges.get(at).is_none_or(|next| next.start > end) {
            self.ranges[at - 1].end = end;
            self.add(end - start);
            return 0;
        }
        let mut new = Range { start, end };
        let mut first = at;
        if at > 0 && self.ranges[at - 1].end >= start {
            first = at - 1;
            new.start = self.ranges[first].start;
            new.end = new.end.max(self.ranges[first].end);
        }
        let mut last = first;
        let mut covered = 0;
        while last < self.ranges.len() && self.ranges[last].start <= new.end {
            covered += self.ranges[last].end - self.ranges[last].start;
            new.end = new.end.max(self.ranges[last].end);
            last += 1;
        }
        let added = (new.end - new.start) - covered;
        self.add(added);
        if first == last {
            self.ranges.insert(first, new);
        } else {
            self.ranges[first] = new;
            self.ranges.drain(first + 1..last);
        }
        debug_assert!(first == 0 || self.ranges[first - 1].end < new.start, "ranges do not touch");
        debug_assert!(self.ranges.get(first + 1).is_none_or(|next| new.end < next.start), "ranges do not touch");
        (end - start) - added
    }

    #[inline]
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.most = self.most.max(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a model that is too simple to be wrong: a byte waits or does not.
        #[test]
        fn bytes_wait_once_until_what_is_before_them_has_come(pieces in prop::collection::vec((1_u64..200, 1_u64..40), 1..60)) {
            let (mut reassembly, mut model) = (Reassembly::new(), vec![false; 300]);
            for (start, len) in pieces {
                let place = &mut model[start as usize..(start + len) as usize];
                let known = place.iter().filter(|&&waits| waits).count() as u64;
                place.fill(true);
                prop_assert_eq!(reassembly.keep(start, start + len), known);
                prop_assert_eq!(reassembly.bytes(), model.iter().filter(|&&waits| waits).count() as u64);
                prop_assert!(reassembly.ranges.iter().zip(reassembly.ranges.iter().skip(1)).all(|(a, b)| a.end < b.start));
            }
            prop_assert_eq!(reassembly.most(), reassembly.bytes());
            // Byte 0 comes: whatever follows it without a gap follows.
            let end = 1 + model[1..].iter().take_while(|&&waits| waits).count() as u64;
            prop_assert_eq!(reassembly.take(1), end);
            let left = model[end as usize..].iter().filter(|&&waits| waits).count() as u64;
            prop_assert_eq!((reassembly.bytes(), reassembly.is_empty()), (left, left == 0));
        }
    }
}
