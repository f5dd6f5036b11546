//! The send queue: what is accepted and waits for its first transmission. What has left is the
//! scoreboard's.

use super::scoreboard::Sent;
use polypath_base::{DataSeq, Seq};
use std::collections::VecDeque;

/// Data waiting for its first transmission, with its place in the data sequence space.
#[derive(Copy, Clone, Debug, Default)]
struct Mapping {
    /// Data sequence number of its first byte.
    dsn: DataSeq,
    len: u32,
    /// Bytes of it that have left.
    sent: u32,
    /// Its end has PSH.
    pushed: bool,
}

impl Mapping {
    /// Data sequence number and length of what waits.
    #[inline]
    fn left(&self) -> (DataSeq, u32) {
        (self.dsn + u64::from(self.sent), self.len - self.sent)
    }
}

/// A piece of memory that waits: bytes still to send of it, and whether its end is marked as
/// pushed.
#[derive(Copy, Clone, Debug, Default)]
struct Buffer {
    left: u32,
    pushed: bool,
    /// A record of the program's ends with it (MSG_EOR): nothing is added behind.
    ends_record: bool,
}

#[derive(Debug)]
pub(super) struct SendQueue {
    /// Sequence number after everything accepted (a FIN not counted).
    write_seq: Seq,
    /// Sequence number of the next new byte.
    next_seq: Seq,
    /// The mapping that is being sent, of length zero if there is none, and those behind it.
    mapping: Mapping,
    mappings: VecDeque<Mapping>,
    /// The buffer that is being sent, with nothing left if there is none, and those behind it; kept
    /// only where `keeps_buffers`.
    buffer: Buffer,
    buffers: VecDeque<Buffer>,
    keeps_buffers: bool,
    /// What a burst lacks its buffer takes from the next.
    grows_buffers: bool,
    /// What was written when the writer last marked a buffer as pushed.
    pushed_seq: Seq,
    /// A buffer that is marked has just been taken whole.
    ended_pushed: bool,
    /// A buffer that ends a record has just been taken whole.
    ended_record: bool,
    /// A mapping is one buffer: it has a greatest length and stands on all of its segments, and no
    /// burst spans two; else each segment has its own.
    maps_bursts: bool,
}

impl SendQueue {
    pub(super) fn new(seq: Seq) -> Self {
        Self {
            write_seq: seq,
            next_seq: seq,
            mapping: Mapping::default(),
            mappings: VecDeque::new(),
            buffer: Buffer::default(),
            buffers: VecDeque::new(),
            keeps_buffers: false,
            grows_buffers: false,
            pushed_seq: seq,
            ended_pushed: false,
            ended_record: false,
            maps_bursts: false,
        }
    }

    /// The handshake is over: data begins at `seq`. What was accepted before keeps its length.
    pub(super) fn start(&mut self, seq: Seq) {
        let waiting = self.unsent();
        (self.next_seq, self.write_seq, self.pushed_seq) = (seq, seq + waiting, seq);
    }

    pub(super) fn accept(&mut self, bytes: u32) {
        debug_assert!(self.unsent().checked_add(bytes).is_some(), "less than 4 GiB wait");
        self.write_seq += bytes;
    }

    /// Data goes into buffers of at most `goal` bytes: into the last one that waits, as far as that
    /// has room, then into new ones.
    pub(super) fn accept_into_buffers(&mut self, mut bytes: u32, goal: u32) {
        debug_assert!(goal > 0, "a buffer holds something");
        self.accept(bytes);
        if let Some(tail) = self.tail_mut().filter(|tail| !tail.ends_record) {
            let fits = bytes.min(goal.saturating_sub(tail.left));
            tail.left += fits;
            bytes -= fits;
        }
        while bytes > 0 {
            let len = bytes.min(goal);
            self.push_buffer(len);
            bytes -= len;
        }
    }

    fn push_buffer(&mut self, left: u32) {
        debug_assert!(left > 0, "a buffer holds something");
        let buffer = Buffer { left, ..Buffer::default() };
        if self.buffer.left == 0 {
            self.buffer = buffer;
        } else {
            self.buffers.push_back(buffer);
        }
    }

    /// The last buffer that waits.
    fn tail(&self) -> Option<&Buffer> {
        Some(self.buffers.back().unwrap_or(&self.buffer)).filter(|tail| tail.left > 0)
    }

    fn tail_mut(&mut self) -> Option<&mut Buffer> {
        Some(self.buffers.back_mut().unwrap_or(&mut self.buffer)).filter(|tail| tail.left > 0)
    }

    /// The last buffer is full: its end is marked if more than `half_window` bytes were written
    /// since the last mark (Linux: `forced_push`), and this is true.
    pub(super) fn mark_pushed(&mut self, half_window: u32) -> bool {
        let is_due = self.write_seq.after(self.pushed_seq + half_window);
        if is_due {
            self.push_last();
        }
        is_due
    }

    /// The last buffer that waits is marked as pushed.
    pub(super) fn push_last(&mut self) {
        if let Some(tail) = self.tail_mut() {
            tail.pushed = true;
            self.pushed_seq = self.write_seq;
        }
    }

    /// A record of the program's ends with what was written.
    pub(super) fn end_record(&mut self) {
        if let Some(tail) = self.tail_mut() {
            tail.ends_record = true;
        }
    }

    /// A record ends where the next new segment begins.
    pub(super) fn take_record_end(&mut self) -> bool {
        std::mem::take(&mut self.ended_record)
    }

    /// The first buffer that waits is marked as pushed.
    pub(super) fn push_first(&mut self) {
        self.buffer.pushed = self.buffer.left > 0;
    }

    /// Whether the segment that was taken last ended a buffer that is marked.
    pub(super) fn take_push(&mut self) -> bool {
        std::mem::take(&mut self.ended_pushed)
    }

    /// What the last buffer that waits has room for.
    pub(super) fn room_in_tail(&self, goal: u32) -> u32 {
        self.tail().filter(|tail| !tail.ends_record).map_or(0, |tail| goal.saturating_sub(tail.left))
    }

    /// What is handed over stays in the buffers in which it comes: no segment spans two, and no
    /// burst does.
    pub(super) fn set_keeps_buffers(&mut self, keeps: bool) {
        self.keeps_buffers = keeps;
    }

    /// As [`Self::set_keeps_buffers`], but [`Self::grow_first`] has an effect.
    pub(super) fn set_grows_buffers(&mut self, grows: bool) {
        self.grows_buffers = grows;
    }

    #[cfg(test)]
    pub(super) fn keeps_buffers(&self) -> bool {
        self.keeps_buffers
    }

    /// The buffer that is sent next: bytes left of it, and whether none waits behind it. Without
    /// buffers all that waits is one.
    #[inline]
    pub(super) fn next_buffer(&self) -> (u32, bool) {
        if self.maps_bursts && self.mapping.len > 0 {
            return (self.mapping.left().1, self.mappings.is_empty());
        }
        if self.buffer.left == 0 { (self.unsent(), true) } else { (self.buffer.left, self.buffers.is_empty()) }
    }

    /// The first buffer holds less than so many bytes and may grow: another waits behind it.
    #[inline]
    pub(super) fn first_may_grow(&self, most: u32) -> bool {
        self.buffer.left < most && self.grows_buffers && !self.buffers.is_empty()
    }

    /// A burst of `most` bytes may leave: the first buffer takes what it lacks from the one behind
    /// it, no further (Linux: `tcp_grow_skb`).
    pub(super) fn grow_first(&mut self, most: u32) {
        let first = &mut self.buffer;
        let lacks = if first.ends_record { 0 } else { most.saturating_sub(first.left) };
        let Some(next) = self.buffers.front_mut().filter(|_| lacks > 0) else { return };
        let taken = lacks.min(next.left);
        next.left -= taken;
        first.left += taken;
        if next.left == 0 {
            first.pushed |= next.pushed;
            first.ends_record = next.ends_record;
            self.buffers.pop_front();
        }
    }

    /// Buffers of which something waits to be sent.
    #[inline]
    pub(super) fn buffers(&self) -> u32 {
        if self.maps_bursts {
            return u32::from(self.mapping.len > 0) + self.mappings.len() as u32;
        }
        u32::from(self.buffer.left > 0) + self.buffers.len() as u32
    }

    /// `len` bytes leave the buffers.
    #[inline]
    fn take_from_buffers(&mut self, len: u32) {
        if len < self.buffer.left {
            self.buffer.left -= len;
        } else {
            self.take_whole_buffers(len);
        }
    }

    /// As [`Self::take_from_buffers`], where the first is taken whole.
    #[inline(never)]
    fn take_whole_buffers(&mut self, mut len: u32) {
        while len >= self.buffer.left && self.buffer.left > 0 {
            len -= self.buffer.left;
            self.ended_pushed |= self.buffer.pushed;
            self.ended_record |= self.buffer.ends_record;
            self.buffer = self.buffers.pop_front().unwrap_or_default();
        }
        self.buffer.left -= len.min(self.buffer.left);
    }

    /// Data goes into the last mapping if it continues it, as far as that does not become longer
    /// than `longest`. What has begun to leave with its length keeps it (Linux:
    /// `mptcp_skb_can_collapse_to`). Gives how many mappings begin.
    pub(super) fn push_mapping(&mut self, mut dsn: DataSeq, mut len: u32, longest: u32) -> u32 {
        debug_assert!(longest > 0, "a mapping holds something");
        self.accept(len);
        self.maps_bursts = longest < u32::MAX;
        if self.keeps_buffers {
            self.push_buffer(len);
        }
        let last = self.mappings.back_mut().unwrap_or(&mut self.mapping);
        let is_open = last.sent == 0 || longest == u32::MAX;
        let continues = last.dsn + u64::from(last.len) == dsn;
        // Linux: `tcp_mark_push` on what can take no more.
        last.pushed = last.len > 0 && !(is_open && (continues || longest == u32::MAX));
        if last.len > 0 && is_open && continues {
            let fits = len.min(longest.saturating_sub(last.len));
            last.len += fits;
            (dsn, len) = (dsn + u64::from(fits), len - fits);
        }
        let mut begun = 0;
        while len > 0 {
            begun += 1;
            let mapping = Mapping { dsn, len: len.min(longest), ..Mapping::default() };
            if self.mapping.len == 0 {
                self.mapping = mapping;
            } else {
                self.mappings.push_back(mapping);
            }
            (dsn, len) = (dsn + u64::from(mapping.len), len - mapping.len);
        }
        begun
    }

    #[inline]
    pub(super) fn write_seq(&self) -> Seq {
        self.write_seq
    }

    #[inline]
    pub(super) fn unsent(&self) -> u32 {
        self.write_seq.distance(self.next_seq)
    }

    /// Takes the next new segment, whose length [`Self::next_new_len`] tells; the caller stamps it
    /// and hands it to `Scoreboard::sent`.
    #[inline]
    pub(super) fn next_new(&mut self, len: u32) -> Sent {
        debug_assert!(len <= self.unsent(), "only what waits leaves");
        let (dsn, left) = self.mapping.left();
        debug_assert!(left == 0 || len <= left, "no segment spans two mappings");
        let mapped = match (self.maps_bursts, left) {
            (_, 0) => (0, 0),
            (true, _) => (self.mapping.sent, self.mapping.len),
            (false, _) => (0, len),
        };
        debug_assert!(u16::try_from(mapped.1).is_ok(), "a mapping's length has 16 bits (RFC 8684 section 3.3)");
        if left > 0 {
            self.mapping.sent += len;
            if len == left {
                self.ended_pushed = self.mapping.pushed;
                self.mapping = self.mappings.pop_front().unwrap_or_default();
            }
        }
        if self.keeps_buffers {
            self.take_from_buffers(len);
        }
        let seq = self.next_seq;
        self.next_seq = seq + len;
        debug_assert!(!self.next_seq.after(self.write_seq), "nothing leaves that was not written");
        Sent { seq, len, dsn, map_offset: mapped.0 as u16, map_len: mapped.1 as u16, ..Sent::default() }
    }

    /// Length of the next new segment: at most `mss` bytes, within one mapping and one buffer.
    #[inline]
    pub(super) fn next_new_len(&self, mss: u32) -> u32 {
        let len = self.unsent().min(mss);
        let len = if self.keeps_buffers { len.min(self.next_buffer().0) } else { len };
        if self.mapping.len == 0 { len } else { len.min(self.mapping.left().1) }
    }

    /// As [`Self::next_new_len`], across buffers.
    pub(super) fn next_mapped_len(&self, most: u32) -> u32 {
        let len = self.unsent().min(most);
        if self.mapping.len == 0 { len } else { len.min(self.mapping.left().1) }
    }

    /// Subflows: data sequence ranges that wait, in order.
    pub(super) fn mappings(&self) -> impl Iterator<Item = (DataSeq, u32)> + '_ {
        std::iter::once(&self.mapping).chain(&self.mappings).filter(|m| m.len > 0).map(Mapping::left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(queue: &mut SendQueue) -> Vec<(u64, u32)> {
        (0..4).map(|_| queue.next_new(queue.next_new_len(100))).map(|s| (s.dsn.get(), s.len)).collect()
    }

    #[test]
    fn a_segment_never_crosses_a_mapping() {
        let mut queue = SendQueue::new(Seq::default());
        queue.start(Seq::new(1));
        queue.push_mapping(DataSeq::new(1000), 150, u32::MAX);
        queue.push_mapping(DataSeq::new(1150), 30, u32::MAX); // contiguous: one mapping
        queue.push_mapping(DataSeq::new(5000), 100, u32::MAX);
        assert_eq!(lengths(&mut queue), [(1000, 100), (1100, 80), (5000, 100), (0, 0)]);
    }

    #[test]
    fn a_mapping_is_filled_up_to_its_greatest_length() {
        let mut queue = SendQueue::new(Seq::default());
        queue.start(Seq::new(1));
        queue.push_mapping(DataSeq::new(1000), 150, 200);
        queue.push_mapping(DataSeq::new(1150), 480, 200);
        assert_eq!(
            queue.mappings().map(|(dsn, len)| (dsn.get(), len)).collect::<Vec<_>>(),
            [(1000, 200), (1200, 200), (1400, 200), (1600, 30)]
        );
        assert_eq!(queue.next_buffer(), (200, false));
        assert_eq!(lengths(&mut queue), [(1000, 100), (1100, 100), (1200, 100), (1300, 100)]);
        queue.push_mapping(DataSeq::new(1630), 50, u32::MAX);
        assert_eq!((queue.next_mapped_len(500), queue.next_buffer()), (200, (280, true)));
    }

    #[test]
    fn a_mapping_that_has_begun_to_leave_keeps_its_length() {
        let mut queue = SendQueue::new(Seq::default());
        queue.start(Seq::new(1));
        let mapped = |queue: &mut SendQueue| {
            let sent = queue.next_new(queue.next_new_len(100));
            (sent.dsn.get(), sent.len, sent.map_offset, sent.map_len, queue.take_push())
        };
        queue.push_mapping(DataSeq::new(1000), 230, 1000);
        queue.push_mapping(DataSeq::new(1230), 20, 1000);
        assert_eq!(mapped(&mut queue), (1000, 100, 0, 250, false));
        queue.push_mapping(DataSeq::new(1250), 70, 1000);
        queue.push_mapping(DataSeq::new(1320), 70, 1000);
        assert_eq!([0; 2].map(|_| mapped(&mut queue)), [(1100, 100, 100, 250, false), (1200, 50, 200, 250, true)]);
        assert_eq!(mapped(&mut queue), (1250, 100, 0, 140, false));
    }

    #[test]
    fn a_write_fills_the_last_buffer_that_waits() {
        let mut queue = SendQueue::new(Seq::default());
        queue.set_keeps_buffers(true);
        queue.start(Seq::new(1));
        queue.accept_into_buffers(350, 200);
        assert_eq!((queue.next_buffer(), queue.buffers(), queue.room_in_tail(200)), ((200, false), 2, 50));
        assert_eq!(lengths(&mut queue), [(0, 100), (0, 100), (0, 100), (0, 50)]);
        assert_eq!((queue.unsent(), queue.room_in_tail(200)), (0, 0), "what has left takes nothing more");
        queue.accept_into_buffers(130, 200);
        queue.mark_pushed(479);
        queue.next_new(queue.next_new_len(100));
        queue.accept_into_buffers(200, 200);
        assert_eq!((queue.next_buffer(), queue.buffers(), queue.unsent()), ((200, false), 2, 230));
        assert_eq!(
            [100, 100, 30].map(|len| (queue.next_new(len), queue.take_push()).1),
            [false, true, false],
            "480 bytes had been written"
        );
    }

    #[test]
    fn a_segment_never_crosses_a_buffer() {
        let mut queue = SendQueue::new(Seq::default());
        queue.set_keeps_buffers(true);
        queue.start(Seq::new(1));
        queue.push_mapping(DataSeq::new(1000), 150, u32::MAX);
        queue.push_mapping(DataSeq::new(1150), 30, u32::MAX);
        assert_eq!((queue.next_buffer(), queue.buffers()), ((150, false), 2));
        assert_eq!(lengths(&mut queue), [(1000, 100), (1100, 50), (1150, 30), (0, 0)]);
        assert_eq!((queue.next_buffer(), queue.buffers()), ((0, true), 0));
    }
}
