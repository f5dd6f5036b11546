//! What arrives ahead of the rest: the pieces that wait, and the SACK blocks that tell of them (RFC 2018, RFC 2883).

use super::{after, before};
use polypath_wire::{Sack, SackBlock};
use std::collections::VecDeque;

/// A piece that arrived ahead of the rest.
#[derive(Copy, Clone, Debug)]
struct Chunk {
    seq: u32,
    end: u32,
    dsn: u64,
}

#[derive(Debug, Default)]
pub(super) struct Early {
    pieces: VecDeque<Chunk>,
    bytes: u32,
    /// SACK blocks, the most recent first (RFC 2018 section 4).
    sacks: Vec<SackBlock>,
    dsack: Option<SackBlock>,
}

impl Early {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that wait.
    #[inline]
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// `start..end` came twice: the next ACK says so (RFC 2883 section 4).
    pub(super) fn report_duplicate(&mut self, start: u32, end: u32) {
        self.dsack = Some(SackBlock { start, end });
    }

    /// Takes what follows without a gap on everything before `next`: data sequence number and length.
    #[inline(never)]
    pub(super) fn pop(&mut self, next: u32) -> Option<(u64, u32)> {
        while let Some(&first) = self.pieces.front() {
            if after(first.seq, next) {
                break;
            }
            self.pieces.pop_front();
            self.bytes -= first.end.wrapping_sub(first.seq);
            if after(first.end, next) {
                return Some((first.dsn + u64::from(next.wrapping_sub(first.seq)), first.end.wrapping_sub(next)));
            }
        }
        self.sacks.retain(|block| after(block.end, next));
        None
    }

    /// [`Early::write_sack`] has something to write.
    #[inline]
    pub(super) fn has_sacks(&self) -> bool {
        !self.sacks.is_empty() || self.dsack.is_some()
    }

    #[inline(never)]
    pub(super) fn write_sack(&mut self, sack: &mut Sack, room: u8) {
        if let Some(dsack) = self.dsack.take() {
            sack.push(dsack);
        }
        for &block in &self.sacks {
            if sack.len >= room {
                break;
            }
            sack.push(block);
        }
    }

    /// The block that `start..end` belongs to comes first; blocks that touch are joined.
    fn remember_sack(&mut self, mut start: u32, mut end: u32) {
        self.sacks.retain(|block| {
            let touches = !after(block.start, end) && !before(block.end, start);
            if touches {
                if before(block.start, start) {
                    start = block.start;
                }
                if after(block.end, end) {
                    end = block.end;
                }
            }
            !touches
        });
        self.sacks.insert(0, SackBlock { start, end });
        self.sacks.truncate(4);
    }

    /// Keeps a piece that arrived early; false if all of it was there already.
    #[inline(never)]
    pub(super) fn insert(&mut self, mut seq: u32, mut end: u32, mut dsn: u64) -> bool {
        // From the back: early pieces nearly always extend the last one.
        let mut at = self.pieces.len();
        while at > 0 && after(self.pieces[at - 1].seq, seq) {
            at -= 1;
        }
        if at > 0 {
            let previous = self.pieces[at - 1];
            if !before(previous.end, end) {
                self.dsack = Some(SackBlock { start: seq, end });
                return false;
            }
            if after(previous.end, seq) {
                dsn += u64::from(previous.end.wrapping_sub(seq));
                seq = previous.end;
            }
        }
        let full_start = seq;
        // Drop what the new piece covers; trim it where the next one begins.
        while let Some(&following) = self.pieces.get(at) {
            if !before(following.seq, end) {
                break;
            }
            if after(following.end, end) {
                end = following.seq;
                break;
            }
            self.bytes -= following.end.wrapping_sub(following.seq);
            self.pieces.remove(at);
        }
        self.bytes += end.wrapping_sub(seq);
        let joins = at > 0
            && self.pieces[at - 1].end == seq
            && self.pieces[at - 1].dsn.wrapping_add(u64::from(seq.wrapping_sub(self.pieces[at - 1].seq))) == dsn;
        if joins {
            self.pieces[at - 1].end = end;
        } else {
            self.pieces.insert(at, Chunk { seq, end, dsn });
        }
        self.remember_sack(full_start, end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_pieces_join_and_duplicates_are_reported() {
        let mut early = Early::default();
        assert!(early.insert(1100, 1200, 1100));
        assert!(early.insert(1200, 1300, 1200));
        assert!(early.insert(1400, 1500, 1400));
        assert!(!early.insert(1400, 1500, 1400));
        assert_eq!(early.pieces.len(), 2);
        assert_eq!(early.dsack, Some(SackBlock { start: 1400, end: 1500 }));
        let mut sack = Sack::default();
        early.write_sack(&mut sack, 3);
        assert_eq!(sack.as_slice()[1..], [SackBlock { start: 1400, end: 1500 }, SackBlock { start: 1100, end: 1300 }]);
        assert!(early.insert(1300, 1400, 1300));
        assert_eq!((early.sacks[0], early.bytes), (SackBlock { start: 1100, end: 1500 }, 400));
    }
}
