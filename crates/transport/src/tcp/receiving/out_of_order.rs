//! What arrives ahead of the rest: the pieces that wait, and the SACK blocks that tell of them
//! (RFC 2018, RFC 2883).

use super::Payload;
use crate::receive_buffer::merged_buffers;
use polypath_base::{DataSeq, Seq};
use polypath_wire::{Sack, SackBlock};
use std::collections::VecDeque;

/// A piece that arrived ahead of the rest.
#[derive(Copy, Clone, Debug)]
struct Chunk {
    seq: Seq,
    end: Seq,
    dsn: DataSeq,
    /// `dsn` is known.
    is_mapped: bool,
}

impl Chunk {
    fn len(&self) -> u32 {
        self.end.distance(self.seq)
    }

    fn buffers(&self) -> u32 {
        merged_buffers(u64::from(self.len())).max(1) as u32
    }
}

#[derive(Debug, Default)]
pub(in crate::tcp) struct OutOfOrderQueue {
    pieces: VecDeque<Chunk>,
    bytes: u32,
    buffers: u32,
    /// The newest segment lies apart from what was there.
    begins_piece: bool,
    /// The peer's FIN was taken.
    is_over: bool,
    /// The newest segment brought something.
    took_newest: bool,
    /// SACK blocks, the most recent first (RFC 2018 section 4).
    sacks: Vec<SackBlock>,
    dsack: Option<SackBlock>,
    dsack_off: bool,
    /// The block of the newest segment, while an ACK with the blocks before it has yet to leave;
    /// then it comes first among `sacks`.
    held: Option<SackBlock>,
}

/// Blocks that are remembered.
const MOST_BLOCKS: usize = 4;

impl OutOfOrderQueue {
    #[inline]
    pub(in crate::tcp) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that wait.
    #[inline]
    pub(in crate::tcp) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// How far beyond `next` what waits reaches, bytes.
    #[inline]
    pub(in crate::tcp) fn reach(&self, next: Seq) -> u32 {
        self.pieces.back().map_or(0, |last| last.end.distance(next))
    }

    /// Buffers that they are in: no two pieces share one.
    #[inline]
    pub(in crate::tcp) fn buffers(&self) -> u64 {
        u64::from(self.buffers)
    }

    /// The newest segment began a piece.
    #[inline]
    pub(in crate::tcp) fn begins_piece(&self) -> bool {
        self.begins_piece
    }

    /// The newest segment was kept: not all of it was there.
    #[inline]
    pub(in crate::tcp) fn took_newest(&self) -> bool {
        self.took_newest
    }

    /// With or without D-SACK (`tcp_dsack`).
    pub(in crate::tcp) fn new(dsack: bool) -> Self {
        Self { dsack_off: !dsack, ..Self::default() }
    }

    /// `start..end` came twice: the next ACK says so (RFC 2883 section 4).
    pub(in crate::tcp) fn report_duplicate(&mut self, start: Seq, end: Seq) {
        debug_assert!(start.before(end), "a block has an end");
        if !self.dsack_off {
            self.dsack = Some(SackBlock { start, end });
        }
    }

    /// No duplicate waits to be told of.
    #[inline]
    pub(in crate::tcp) fn forget_duplicate(&mut self) {
        self.dsack = None;
    }

    /// As [`Self::report_duplicate`]; where a duplicate waits to be told of, only what touches that
    /// is told too (Linux: `tcp_dsack_extend`).
    pub(in crate::tcp) fn extend_duplicate(&mut self, start: Seq, end: Seq) {
        match &mut self.dsack {
            None => self.report_duplicate(start, end),
            Some(block) if touch(block, start, end) => (block.start, block.end) = joined(block, start, end),
            Some(_) => {}
        }
    }

    /// What lies in order up to `next` has come: what it has of the first piece came twice (Linux:
    /// `tcp_ofo_queue`).
    pub(in crate::tcp) fn report_overlap(&mut self, next: Seq) {
        if let Some(&Chunk { seq, end, .. }) = self.pieces.front().filter(|first| first.seq.before(next)) {
            self.extend_duplicate(seq, end.min(next));
        }
    }

    /// The peer's FIN was taken: nothing waits any more. Nor is anything to be told, once an ACK has
    /// left where `after_ack`.
    pub(in crate::tcp) fn forget(&mut self, after_ack: bool) {
        let (sacks, dsack) = if after_ack { (std::mem::take(&mut self.sacks), self.dsack) } else { (Vec::new(), None) };
        *self = Self { dsack_off: self.dsack_off, is_over: true, sacks, dsack, ..Self::default() };
    }

    /// Takes what follows without a gap on everything before `next`.
    #[inline(never)]
    pub(in crate::tcp) fn pop(&mut self, next: Seq) -> Option<Payload> {
        while let Some(&first) = self.pieces.front() {
            if first.seq.after(next) {
                break;
            }
            debug_assert!(self.bytes >= first.end.distance(first.seq), "it was counted");
            self.pieces.pop_front();
            self.bytes -= first.len();
            self.buffers -= first.buffers();
            if first.end.after(next) {
                return Some(Payload {
                    seq: next,
                    len: first.end.distance(next),
                    dsn: first.dsn + u64::from(next.distance(first.seq)),
                    is_mapped: first.is_mapped,
                    // The receiver knows both.
                    fin: false,
                    memory: None,
                });
            }
        }
        debug_assert!(!self.pieces.is_empty() || self.bytes == 0, "bytes are counted with their pieces");
        self.release();
        self.sacks.retain(|block| block.end.after(next));
        None
    }

    /// [`OutOfOrderQueue::write_sack`] has something to write.
    #[inline]
    pub(in crate::tcp) fn has_sacks(&self) -> bool {
        !self.sacks.is_empty() || self.dsack.is_some()
    }

    /// Where the last of the blocks ends, if there is any.
    #[cold]
    pub(in crate::tcp) fn sacks_end(&self) -> Option<Seq> {
        self.sacks.iter().map(|block| block.end).reduce(Seq::max)
    }

    /// Blocks that there are to write, at most.
    pub(in crate::tcp) fn blocks(&self) -> u32 {
        self.sacks.len() as u32 + u32::from(self.dsack.is_some())
    }

    /// The first `room` blocks. A duplicate for which there is no room waits for a segment that has
    /// some.
    #[inline(never)]
    pub(in crate::tcp) fn write_sack(&mut self, sack: &mut Sack, room: u8) {
        if room > 0
            && let Some(dsack) = self.dsack.take()
        {
            sack.push(dsack);
        }
        for &block in &self.sacks {
            if sack.len >= room {
                break;
            }
            sack.push(block);
        }
        self.release();
        if self.is_over {
            self.sacks.clear();
        }
    }

    /// The ACK that had to leave ahead of the newest block has left.
    fn release(&mut self) {
        if let Some(block) = self.held.take() {
            self.remember(block.start, block.end);
        }
    }

    /// `start..end` arrived. True if the ACK that waits (`ack_waits`) has to leave before the
    /// blocks change, since what it was to tell would be pushed back: beyond the first `expected`
    /// blocks, the ones that an option has room for.
    #[inline(never)]
    pub(in crate::tcp) fn note(&mut self, start: Seq, end: Seq, ack_waits: bool, expected: usize) -> bool {
        debug_assert!(start.before(end), "a block has an end");
        self.release();
        let found = self.sacks.iter().position(|block| touch(block, start, end));
        let at = found.unwrap_or(self.sacks.len());
        if !(ack_waits && at >= expected) {
            self.remember(start, end);
            return false;
        }
        if found.is_some() {
            // Already told of, in its place.
            let block = &mut self.sacks[at];
            (block.start, block.end) = joined(block, start, end);
        }
        self.held = Some(SackBlock { start, end });
        true
    }

    /// The block that `start..end` belongs to comes first; blocks that touch are joined.
    fn remember(&mut self, mut start: Seq, mut end: Seq) {
        self.sacks.retain(|block| {
            let touches = touch(block, start, end);
            if touches {
                (start, end) = joined(block, start, end);
            }
            !touches
        });
        debug_assert!(!self.sacks.iter().any(|block| touch(block, start, end)), "blocks that touch are one");
        self.sacks.insert(0, SackBlock { start, end });
        self.sacks.truncate(MOST_BLOCKS);
    }

    /// Keeps a piece that arrived out of order, of no length if it is a FIN alone; false if all of it
    /// was there already. What was there is told of as a duplicate (RFC 2883 section 4.1).
    #[inline(never)]
    pub(in crate::tcp) fn insert(&mut self, mut seq: Seq, mut end: Seq, mut dsn: DataSeq, is_mapped: bool) -> bool {
        (self.begins_piece, self.took_newest) = (false, false);
        let is_empty = seq == end;
        // From the back: such pieces nearly always extend the last one.
        let mut at = self.pieces.len();
        while at > 0 && self.pieces[at - 1].seq.after(seq) {
            at -= 1;
        }
        if at > 0 {
            let previous = self.pieces[at - 1];
            if !previous.end.before(end) {
                if !is_empty {
                    self.report_duplicate(seq, end);
                }
                return false;
            }
            if previous.end.after(seq) {
                if previous.seq == seq {
                    self.extend_duplicate(seq, previous.end);
                } else {
                    self.report_duplicate(seq, previous.end);
                }
                dsn += u64::from(previous.end.distance(seq));
                seq = previous.end;
            }
        }
        // Drop what the new piece covers; trim it where the next one begins.
        while let Some(&following) = self.pieces.get(at) {
            if !following.seq.before(end) {
                break;
            }
            if following.end.after(end) {
                self.extend_duplicate(following.seq, end);
                end = following.seq;
                break;
            }
            self.extend_duplicate(following.seq, following.end);
            self.bytes -= following.len();
            self.buffers -= following.buffers();
            self.pieces.remove(at);
        }
        if !seq.before(end) && !is_empty {
            // Two pieces that lie side by side, of mappings that do not, have all of it.
            return false;
        }
        self.bytes += end.distance(seq);
        self.took_newest = true;
        let follows = |last: &Chunk| {
            let in_order = !is_mapped || last.dsn + u64::from(seq.distance(last.seq)) == dsn;
            last.end == seq && last.is_mapped == is_mapped && in_order
        };
        let joins = at > 0 && follows(&self.pieces[at - 1]);
        if joins {
            let piece = &mut self.pieces[at - 1];
            self.buffers -= piece.buffers();
            piece.end = end;
            self.buffers += piece.buffers();
        } else {
            let piece = Chunk { seq, end, dsn, is_mapped };
            self.buffers += piece.buffers();
            self.pieces.insert(at, piece);
            self.begins_piece = true;
        }
        debug_assert!(self.pieces.get(at + usize::from(!joins)).is_none_or(|next| !next.seq.before(end)), "pieces do not overlap");
        true
    }
}

impl OutOfOrderQueue {
    /// A mapping has come: of the pieces that have none, those whose beginning it covers have it
    /// now, as far as it goes.
    pub(in crate::tcp) fn map(&mut self, start: Seq, len: u32, dsn: DataSeq) {
        let end = start + len;
        let mut at = 0;
        while let Some(&piece) = self.pieces.get(at) {
            if !piece.is_mapped && !piece.seq.before(start) && piece.seq.before(end) {
                let mapped = Chunk { end: piece.end.min(end), dsn: dsn + u64::from(piece.seq.distance(start)), is_mapped: true, ..piece };
                self.pieces[at] = mapped;
                if mapped.end.before(piece.end) {
                    let rest = Chunk { seq: mapped.end, ..piece };
                    self.buffers -= piece.buffers();
                    self.buffers += mapped.buffers() + rest.buffers();
                    self.pieces.insert(at + 1, rest);
                }
            }
            at += 1;
        }
    }
}

fn touch(block: &SackBlock, start: Seq, end: Seq) -> bool {
    !block.start.after(end) && !block.end.before(start)
}

fn joined(block: &SackBlock, start: Seq, end: Seq) -> (Seq, Seq) {
    (block.start.min(start), block.end.max(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data whose data sequence numbers are its sequence numbers.
    fn insert(queue: &mut OutOfOrderQueue, start: u32, end: u32) -> bool {
        queue.insert(Seq::new(start), Seq::new(end), DataSeq::new(u64::from(start)), true)
    }

    fn note(queue: &mut OutOfOrderQueue, start: u32, end: u32, ack_waits: bool, expected: usize) -> bool {
        queue.note(Seq::new(start), Seq::new(end), ack_waits, expected)
    }

    #[test]
    fn a_duplicate_is_told_of_where_there_is_room() {
        let mut queue = OutOfOrderQueue::default();
        for _ in 0..2 {
            insert(&mut queue, 1400, 1500);
        }
        let mut sack = Sack::default();
        queue.write_sack(&mut sack, 0);
        assert!(sack.len == 0 && queue.has_sacks(), "it waits");
        queue.write_sack(&mut sack, 1);
        assert_eq!((sack.len, queue.dsack), (1, None));
    }

    #[test]
    fn early_pieces_join_and_duplicates_are_reported() {
        let mut queue = OutOfOrderQueue::default();
        for (start, end, new) in [(1100, 1200, true), (1200, 1300, true), (1400, 1500, true), (1400, 1500, false)] {
            assert_eq!(insert(&mut queue, start, end), new);
            assert!(!note(&mut queue, start, end, true, 2), "two blocks at most");
        }
        assert_eq!(queue.pieces.len(), 2);
        assert_eq!(queue.dsack, Some(SackBlock { start: Seq::new(1400), end: Seq::new(1500) }));
        let mut sack = Sack::default();
        queue.write_sack(&mut sack, 3);
        assert_eq!(
            sack.as_slice()[1..],
            [SackBlock { start: Seq::new(1400), end: Seq::new(1500) }, SackBlock { start: Seq::new(1100), end: Seq::new(1300) }]
        );
        assert!(insert(&mut queue, 1300, 1400));
        note(&mut queue, 1300, 1400, true, 2);
        assert_eq!((queue.sacks[0], queue.bytes), (SackBlock { start: Seq::new(1100), end: Seq::new(1500) }, 400));
    }

    #[test]
    fn a_duplicate_over_two_pieces_of_other_mappings_is_a_duplicate() {
        let mut queue = OutOfOrderQueue::default();
        assert!(queue.insert(Seq::new(1100), Seq::new(1200), DataSeq::new(100), true));
        assert!(queue.insert(Seq::new(1200), Seq::new(1300), DataSeq::new(700), true));
        assert!(!queue.insert(Seq::new(1150), Seq::new(1250), DataSeq::new(150), true));
        assert_eq!(queue.bytes(), 200);
        assert_eq!(queue.dsack, Some(SackBlock { start: Seq::new(1150), end: Seq::new(1250) }));
    }

    #[test]
    fn a_waiting_ack_tells_of_two_blocks_before_a_third_comes_first() {
        let block = |start, end| SackBlock { start: Seq::new(start), end: Seq::new(end) };
        let told = |queue: &mut OutOfOrderQueue| {
            let mut sack = Sack::default();
            queue.write_sack(&mut sack, 4);
            sack.as_slice().to_vec()
        };
        let mut queue = OutOfOrderQueue::default();
        note(&mut queue, 1100, 1200, false, 2);
        note(&mut queue, 1300, 1400, true, 2);
        assert!(note(&mut queue, 1500, 1600, true, 2), "a third block");
        assert_eq!(told(&mut queue), [block(1300, 1400), block(1100, 1200)], "of before");
        assert_eq!(told(&mut queue), [block(1500, 1600), block(1300, 1400), block(1100, 1200)]);
        assert!(!note(&mut queue, 1700, 1800, false, 2), "no ACK waits");
        assert!(note(&mut queue, 1200, 1210, true, 2), "the last one grows");
        assert_eq!(told(&mut queue), [block(1700, 1800), block(1500, 1600), block(1300, 1400), block(1100, 1210)], "in its place");
        assert_eq!(told(&mut queue)[0], block(1100, 1210));
        assert!(!note(&mut queue, 1590, 1700, true, MOST_BLOCKS), "5.4 waits for the array to be full");
        assert_eq!(told(&mut queue), [block(1500, 1800), block(1100, 1210), block(1300, 1400)]);
    }

    #[test]
    fn a_mapping_that_comes_counts_for_what_it_covers() {
        let mut queue = OutOfOrderQueue::default();
        let at = Seq::new;
        assert!(queue.insert(at(1100), at(1300), DataSeq::default(), false) && insert(&mut queue, 1400, 1500));
        queue.map(at(1000), 200, DataSeq::new(70));
        let popped = [1100, 1200, 1400].map(|next| queue.pop(at(next)).map(|p| (p.dsn.get(), p.len, p.is_mapped)));
        assert_eq!(popped, [Some((170, 100, true)), Some((0, 100, false)), Some((1400, 100, true))]);
    }
}
