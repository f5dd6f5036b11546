//! The scoreboard: segments that were sent and are not cumulatively acknowledged, and which of them
//! are sacked, lost or sent again (RFC 6675 section 4; Linux: the retransmit queue). What waits for
//! its first transmission is the send queue's.
//!
//! Segments keep their place in sequence order in a ring; the counters `sacked`, `lost` and
//! `retrans` make the number in the network cheap, and nothing is searched unless something is
//! missing.

use super::ring::Ring;
use polypath_base::{DataSeq, Instant, Seq};
use std::collections::VecDeque;

/// A segment in the network.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Sent {
    pub(super) seq: Seq,
    pub(super) len: u32,
    /// `flow.delivered` when it was sent.
    pub(super) delivered: u32,
    /// How long before that the segment left that had been delivered last, microseconds; 2^32 are 71
    /// minutes.
    pub(super) interval_us: u32,
    pub(super) flags: u8,
    /// Subflows only: the length of the mapping that it has, and how far into it this segment
    /// begins. A mapping stays whole when a part of it goes again (RFC 8684 section 3.3.1).
    pub(super) map_len: u16,
    pub(super) map_offset: u16,
    /// A record of the program's ends with it (MSG_EOR): it is not sent again with what follows.
    pub(super) ends_record: bool,
    /// Time of its last transmission.
    pub(super) at: Instant,
    pub(super) delivered_at: Instant,
    /// Data sequence number of its first byte; subflows only.
    pub(super) dsn: DataSeq,
}

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// A retransmission of it is in the network.
const RETRANS: u8 = 4;
/// It was ever retransmitted (Karn: no RTT from it).
const EVER: u8 = 8;
const FIN: u8 = 16;
const APP_LIMITED: u8 = 32;
/// It is the first of its burst, which Linux keeps as one buffer.
const GSO_FIRST: u8 = 64;
/// It had PSH, and has it again when it goes again.
const PUSHED: u8 = 128;

impl Sent {
    /// The `next` one left with it, and nothing has been told of either alone.
    pub(super) fn is_in_buffer_of(&self, next: &Sent) -> bool {
        let marks = |sent: &Sent| sent.flags & (SACKED | LOST | RETRANS | EVER);
        next.len > 0
            && !next.is_gso_first()
            && (!self.is_retransmitted() || self.at == next.at)
            && marks(self) == marks(next)
            && !self.ends_record
            && self.has_mapping_of(next)
    }

    /// Both are parts of one mapping, or the other, a FIN alone, of none (Linux:
    /// `mptcp_skb_can_collapse`).
    fn has_mapping_of(&self, other: &Sent) -> bool {
        let between = u32::from(other.map_offset).wrapping_sub(u32::from(self.map_offset));
        other.map_len == 0 || (self.map_len == other.map_len && other.seq.distance(self.seq) == between)
    }

    /// One past its last sequence number; a FIN counts one.
    #[inline]
    pub(super) fn end(&self) -> Seq {
        self.seq + self.len + u32::from(self.flags & FIN != 0)
    }

    #[inline]
    pub(super) fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }

    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.flags & LOST != 0
    }

    #[inline]
    pub(super) fn is_retrans(&self) -> bool {
        self.flags & RETRANS != 0
    }

    #[inline]
    pub(super) fn is_retransmitted(&self) -> bool {
        self.flags & EVER != 0
    }

    /// It was sent once, and is neither sacked nor lost.
    #[inline]
    fn is_plain(&self) -> bool {
        self.flags & (SACKED | LOST | RETRANS | EVER) == 0
    }

    #[inline]
    pub(super) fn is_fin(&self) -> bool {
        self.flags & FIN != 0
    }

    #[inline]
    pub(super) fn is_app_limited(&self) -> bool {
        self.flags & APP_LIMITED != 0
    }

    #[inline]
    pub(super) fn set_app_limited(&mut self, yes: bool) {
        self.flags = self.flags & !APP_LIMITED | if yes { APP_LIMITED } else { 0 };
    }

    #[inline]
    pub(super) fn is_pushed(&self) -> bool {
        self.flags & PUSHED != 0
    }

    /// It left as the first of a burst.
    pub(super) fn is_gso_first(&self) -> bool {
        self.flags & GSO_FIRST != 0
    }

    /// It is lost and has not left again.
    pub(super) fn waits_to_be_retransmitted(&self) -> bool {
        self.is_lost() && !self.is_retrans()
    }

    pub(super) fn set_fin(&mut self) {
        self.flags |= FIN;
    }

    #[inline]
    pub(super) fn set_gso_first(&mut self, yes: bool) {
        self.flags |= if yes { GSO_FIRST } else { 0 };
    }
}

#[derive(Debug)]
pub(super) struct Scoreboard {
    sent: Ring<Sent>,
    sacked: u32,
    lost: u32,
    retrans: u32,
    /// Bursts of which something is in the network.
    bursts: u32,
    una: Seq,
    /// End of the highest segment that was selectively acknowledged.
    highest_sacked: Seq,
    /// All lost segments that still wait for retransmission lie at or after this sequence number.
    retransmit_hint: Seq,
    /// All segments before this one are sacked, lost or retransmitted: RACK need not look at them.
    rack_hint: Seq,
    /// Retransmissions in the order in which they left, by sequence number; stale entries are
    /// dropped when met.
    retransmitted: VecDeque<(Seq, Instant)>,
}

impl Scoreboard {
    pub(super) fn new(seq: Seq) -> Self {
        Self {
            sent: Ring::default(),
            sacked: 0,
            lost: 0,
            retrans: 0,
            bursts: 0,
            una: seq,
            highest_sacked: seq,
            retransmit_hint: seq,
            rack_hint: seq,
            retransmitted: VecDeque::new(),
        }
    }

    /// The handshake is over: data begins at `seq`.
    pub(super) fn start(&mut self, seq: Seq) {
        debug_assert!(self.sent.len() == 0, "no data was sent before");
        self.una = seq;
        (self.highest_sacked, self.retransmit_hint, self.rack_hint) = (seq, seq, seq);
    }

    /// The first byte of data that is not cumulatively acknowledged.
    #[inline]
    pub(super) fn una(&self) -> Seq {
        self.una
    }

    /// One past the last sequence number that was sent.
    fn end(&self) -> Seq {
        self.sent.len().checked_sub(1).map_or(self.una, |last| self.sent[last].end())
    }

    /// Buffers of which something is not cumulatively acknowledged: bursts, and what they were cut
    /// into.
    #[inline]
    pub(super) fn bursts_out(&self) -> u32 {
        // Of the first the beginning may be acknowledged (Linux: `tcp_trim_head`).
        self.bursts + u32::from(self.sent.front().is_some_and(|first| !first.is_gso_first()))
    }

    #[inline]
    pub(super) fn packets_out(&self) -> u32 {
        self.sent.len() as u32
    }

    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans - self.sacked - self.lost
    }

    #[inline]
    pub(super) fn sacked_out(&self) -> u32 {
        self.sacked
    }

    #[inline]
    pub(super) fn lost_out(&self) -> u32 {
        self.lost
    }

    #[inline]
    pub(super) fn retrans_out(&self) -> u32 {
        self.retrans
    }

    #[inline]
    pub(super) fn highest_sacked(&self) -> Seq {
        self.highest_sacked
    }

    #[inline]
    pub(super) fn head(&self) -> Option<&Sent> {
        self.sent.front()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    #[inline]
    pub(super) fn at(&self, index: usize) -> &Sent {
        &self.sent[index]
    }

    #[inline]
    pub(super) fn sent(&mut self, segment: Sent) {
        debug_assert!(self.sent.len() == 0 || segment.seq == self.end(), "new data continues what was sent");
        debug_assert!(segment.is_plain(), "what leaves for the first time has no marks");
        self.bursts += u32::from(segment.flags & GSO_FIRST != 0);
        self.sent.push(segment);
    }

    /// The segment that was sent last, which is there, has PSH.
    #[inline]
    pub(super) fn push_last(&mut self) {
        debug_assert!(self.sent.len() > 0, "something was sent");
        let last = self.sent.len() - 1;
        self.sent[last].flags |= PUSHED;
    }

    /// The first segment if `ack` covers it whole; it stays until [`Self::pop_head`].
    #[inline]
    pub(super) fn head_if_acked(&self, ack: Seq) -> Option<&Sent> {
        self.sent.front().filter(|first| !first.end().after(ack))
    }

    /// The segments at the head that `ack` covers whole, sent once and never marked: the first, the
    /// last, their number, and how many bursts begin with one of them.
    #[inline]
    pub(super) fn plain_acked(&self, ack: Seq) -> Option<(&Sent, &Sent, [u32; 2])> {
        let first = self.sent.front().filter(|first| first.is_plain() && !first.end().after(ack))?;
        let (mut last, mut count) = (first, 1);
        let mut bursts = u32::from(first.flags & GSO_FIRST != 0);
        while let Some(next) = self.sent.get(count).filter(|next| next.is_plain() && !next.end().after(ack)) {
            debug_assert!(next.at >= last.at && next.end().after(last.end()), "segments sent once leave in order");
            last = next;
            count += 1;
            bursts += u32::from(next.flags & GSO_FIRST != 0);
        }
        Some((first, last, [count as u32, bursts]))
    }

    /// Removes what [`Self::plain_acked`] has found, up to the end of its last segment (a FIN not
    /// counted).
    #[inline]
    pub(super) fn pop_plain(&mut self, [count, bursts]: [u32; 2], end: Seq) {
        debug_assert!(count <= self.packets_out() && bursts <= self.bursts, "what leaves the scoreboard is in it");
        debug_assert!(!end.before(self.una), "the acknowledgement moves forward");
        self.una = end;
        self.bursts -= bursts;
        self.sent.pop(count as usize);
        if self.sent.len() == 0 {
            self.retrans = 0;
        }
        debug_assert!(self.in_flight() <= self.packets_out() + self.retrans, "what is in the network was sent");
    }

    /// Removes the first segment.
    #[inline]
    pub(super) fn pop_head(&mut self) {
        let Some(first) = self.sent.front() else { return };
        let flags = first.flags;
        self.una = first.seq + first.len;
        self.sent.pop(1);
        self.bursts -= u32::from(flags & GSO_FIRST != 0);
        self.uncount(flags);
        if self.sent.len() == 0 {
            self.retrans = 0;
        }
        debug_assert!(self.sacked + self.lost <= self.packets_out(), "no segment is both sacked and lost");
    }

    /// Part of the first segment is acknowledged: trims it. What is left of its buffer is segments
    /// from there on; how many fewer they are (Linux: `tcp_tso_acked`).
    #[inline]
    pub(super) fn trim_head(&mut self, ack: Seq) -> u32 {
        if let Some(first) = self.sent.front_mut()
            && ack.after(first.seq)
        {
            let whole = first.len;
            let by = ack.distance(first.seq).min(first.len);
            first.seq += by;
            first.len -= by;
            first.dsn += u64::from(by);
            first.map_offset += by as u16;
            self.una = first.seq;
            debug_assert!(!ack.before(self.una), "no more is cut off than is acknowledged");
            return self.regroup_first(whole);
        }
        0
    }

    /// What is left of the first segment, which had `whole` bytes, and those that left with it are
    /// segments as long as the longest of them.
    #[cold]
    fn regroup_first(&mut self, whole: u32) -> u32 {
        let longest = (1..self.buffer_end(0)).map(|at| self.sent[at].len).fold(whole, u32::max);
        let before = self.packets_out();
        self.regroup(0, longest);
        before - self.packets_out()
    }

    /// One past the last of those that left with a segment and that nothing has been told of alone.
    #[cold]
    pub(super) fn buffer_end(&self, index: usize) -> usize {
        let mut end = index + 1;
        while self.sent.get(end).is_some_and(|next| self.sent[end - 1].is_in_buffer_of(next)) {
            end += 1;
        }
        end
    }

    /// The first of those that left with a segment and that nothing has been told of alone.
    #[cold]
    pub(super) fn buffer_begin(&self, index: usize) -> usize {
        let mut begin = index;
        while begin > 0 && self.sent[begin - 1].is_in_buffer_of(&self.sent[begin]) {
            begin -= 1;
        }
        begin
    }

    /// One past the last of those that left last with a segment, and of which the same is known.
    #[cold]
    pub(super) fn flight_end(&self, index: usize) -> usize {
        let marks = |sent: &Sent| sent.flags & (SACKED | LOST | RETRANS | EVER);
        let first = self.sent[index];
        let mut end = index + 1;
        while self.sent.get(end).is_some_and(|next| !next.is_gso_first() && next.at == first.at && marks(next) == marks(&first)) {
            end += 1;
        }
        end
    }

    /// The segment and those that left with it are cut anew, so that each has `mss` bytes but for the
    /// last (Linux: `tcp_fragment`, `tcp_set_skb_tso_segs`).
    #[cold]
    pub(super) fn regroup(&mut self, mut index: usize, mss: u32) {
        loop {
            if self.cut(index, mss) {
                index += 1;
                continue;
            }
            let Some(&next) = self.sent.get(index + 1).filter(|&next| self.sent[index].is_in_buffer_of(next)) else { return };
            let by = (mss - self.sent[index].len).min(next.len);
            self.sent[index].len += by;
            if by == next.len {
                let first = &mut self.sent[index];
                first.ends_record = next.ends_record;
                first.flags |= next.flags & (FIN | PUSHED);
                self.sent.remove(index + 1);
                self.uncount(next.flags);
                continue;
            }
            index += 1;
            let next = &mut self.sent[index];
            next.seq += by;
            next.len -= by;
            next.dsn += u64::from(by);
            next.map_offset += by as u16;
        }
    }

    #[inline]
    fn uncount(&mut self, flags: u8) {
        if flags & (SACKED | LOST | RETRANS) != 0 {
            self.sacked -= u32::from(flags & SACKED != 0);
            self.lost -= u32::from(flags & LOST != 0);
            self.retrans -= u32::from(flags & RETRANS != 0);
        }
    }

    /// Index of the first segment whose end lies after `seq`.
    pub(super) fn index_of(&self, seq: Seq) -> usize {
        let Some(first) = self.sent.front() else { return 0 };
        if !seq.after(first.seq) {
            return 0;
        }
        // Segments are nearly all of one length, so this guess is mostly right.
        let mut index = (seq.distance(first.seq) / first.len.max(1)).min(self.sent.len() as u32 - 1) as usize;
        while index > 0 && self.sent[index].seq.after(seq) {
            index -= 1;
        }
        while index < self.sent.len() && !self.sent[index].end().after(seq) {
            index += 1;
        }
        index
    }

    /// Index of the segment that begins at `seq`.
    pub(super) fn find(&self, seq: Seq) -> Option<usize> {
        let index = self.index_of(seq);
        self.sent.get(index).filter(|sent| sent.seq == seq).map(|_| index)
    }

    /// Marks a segment as selectively acknowledged; returns it as it was before.
    pub(super) fn mark_sacked(&mut self, index: usize) -> Sent {
        let was = self.sent[index];
        debug_assert!(!was.is_sacked(), "it is marked once");
        // A retransmission of what does not count as lost is taken to be in the network still.
        let ends = if was.is_lost() { LOST | RETRANS } else { 0 };
        self.uncount(was.flags & ends);
        let segment = &mut self.sent[index];
        segment.flags = segment.flags & !ends | SACKED;
        self.sacked += 1;
        if segment.end().after(self.highest_sacked) {
            self.highest_sacked = segment.end();
        }
        debug_assert!(self.sacked + self.lost <= self.packets_out(), "no segment is both sacked and lost");
        self.bound_sacked(index);
        was
    }

    /// What is sacked is a buffer apart from what is not, and one with what is sacked before it
    /// (Linux: `tcp_match_skb_to_sack`, `tcp_shift_skb_data`).
    fn bound_sacked(&mut self, index: usize) {
        let joins = |before: usize, after: usize| {
            let (before, after) = (&self.sent[before], &self.sent[after]);
            before.is_sacked() && !before.is_retrans() && before.len == after.len && !before.ends_record && before.has_mapping_of(after)
        };
        let last = index + 1 == self.sent.len();
        let joins_before = index > 0 && joins(index - 1, index);
        let joins_after = joins_before && !last && self.sent[index + 1].is_sacked() && joins(index, index + 1);
        if index > 0 {
            self.set_gso_first(index, !joins_before);
        }
        if !last {
            self.set_gso_first(index + 1, !joins_after);
        }
    }

    fn set_gso_first(&mut self, index: usize, first: bool) {
        let segment = &mut self.sent[index];
        self.bursts -= u32::from(segment.is_gso_first());
        segment.flags = if first { segment.flags | GSO_FIRST } else { segment.flags & !GSO_FIRST };
        self.bursts += u32::from(first);
    }

    /// Without SACK: how many segments duplicate ACKs tell to have arrived, whichever they are
    /// (Linux: `sacked_out` of a connection without SACK).
    pub(super) fn set_reno_sacked(&mut self, segments: u32) {
        self.sacked = segments;
        debug_assert!(self.sacked + self.lost <= self.packets_out(), "what has arrived is not lost");
    }

    /// The retransmission of a segment has arrived.
    pub(super) fn retransmission_arrived(&mut self, index: usize) {
        self.uncount(self.sent[index].flags & RETRANS);
        self.sent[index].flags &= !RETRANS;
    }

    /// Something was sent again that is in the network, or was the first that is not acknowledged
    /// (Linux: `tcp_any_retrans_done`).
    pub(super) fn any_retransmitted(&self) -> bool {
        self.retrans > 0 || self.head().is_some_and(Sent::is_retransmitted)
    }

    /// Marks a segment as lost, its retransmission too if it was lost before; false if it already
    /// was, and not retransmitted since (Linux: `tcp_mark_skb_lost`).
    pub(super) fn mark_lost(&mut self, index: usize) -> bool {
        let segment = &mut self.sent[index];
        if segment.is_sacked() || (segment.is_lost() && !segment.is_retrans()) {
            return false;
        }
        if segment.is_lost() {
            segment.flags &= !RETRANS;
            debug_assert!(self.retrans > 0, "it was counted");
            self.retrans -= 1;
        } else {
            segment.flags |= LOST;
            self.lost += 1;
        }
        if segment.seq.before(self.retransmit_hint) || self.lost == 1 {
            self.retransmit_hint = segment.seq;
        }
        true
    }

    /// After a timeout the first segment waits to be retransmitted, also if it was since a loss that
    /// proved spurious; that retransmission counts on (Linux: `tcp_retransmit_timer`).
    pub(super) fn first_goes_again(&mut self) {
        debug_assert!(self.lost > 0, "the first at least is lost");
        let first = &mut self.sent[0];
        first.flags &= !RETRANS;
        self.retransmit_hint = first.seq;
    }

    /// A false alarm: no segment counts as lost any more but those that lie in `lost`, from and to.
    /// RACK does not judge a second time what it has (Linux: that has left `tsorted_sent_queue`).
    pub(super) fn unmark_lost_but(&mut self, lost: &[(Seq, Seq)]) {
        let mut left = 0;
        for segment in self.sent.iter_mut().filter(|segment| segment.is_lost()) {
            if lost.iter().any(|&(from, to)| !segment.seq.before(from) && segment.seq.before(to)) {
                left += 1;
            } else {
                segment.flags &= !LOST;
            }
        }
        self.lost = left;
        debug_assert!(self.sacked + self.lost <= self.packets_out(), "no segment is both sacked and lost");
    }

    /// The receiver forgot what it had acknowledged selectively (RFC 2018 section 8).
    pub(super) fn forget_sacks(&mut self) {
        for segment in self.sent.iter_mut() {
            segment.flags &= !SACKED;
        }
        self.sacked = 0;
        self.highest_sacked = self.una;
        self.rack_hint = self.una;
    }

    /// First lost segment that waits for retransmission; but for the very first, none while as many
    /// are in the network again as are lost, though they be others (Linux:
    /// `tcp_xmit_retransmit_queue`, `tcp_retransmit_timer`).
    pub(super) fn next_lost(&mut self) -> Option<usize> {
        if self.lost <= self.retrans && !self.sent.front().is_some_and(Sent::waits_to_be_retransmitted) {
            return None;
        }
        let mut index = self.index_of(self.retransmit_hint);
        while index < self.sent.len() {
            let segment = &self.sent[index];
            if segment.is_lost() && !segment.is_retrans() {
                self.retransmit_hint = segment.seq;
                return Some(index);
            }
            index += 1;
        }
        self.retransmit_hint = self.end();
        None
    }

    /// The segment leaves again at `now`, and counts as in the network once more: one that is there
    /// already until nothing is left (Linux: `tcp_retransmit_skb`, "retrans_out leaked").
    pub(super) fn mark_retransmitted(&mut self, index: usize, now: Instant) {
        self.sent[index].flags |= RETRANS;
        self.retrans += 1;
        self.mark_sent_again(index, now);
    }

    /// The segment leaves again at `now`.
    pub(super) fn mark_sent_again(&mut self, index: usize, now: Instant) {
        let segment = &mut self.sent[index];
        segment.flags |= EVER;
        segment.at = now;
        self.retransmitted.push_back((segment.seq, now));
    }

    /// Takes over the delivery-rate stamps of a retransmission.
    pub(super) fn restamp(&mut self, index: usize, stamped: &Sent) {
        debug_assert!(self.sent[index].seq == stamped.seq && self.sent[index].len == stamped.len, "only its stamps are new");
        self.sent[index] = *stamped;
    }

    /// Cuts a segment that is longer than `mss`, so that each piece fits. Pieces inherit its marks.
    pub(super) fn split(&mut self, mut index: usize, mss: u32) {
        while self.cut(index, mss) {
            index += 1;
        }
    }

    /// Cuts a segment after `len` bytes, if it is longer. Both pieces have its marks.
    pub(super) fn cut(&mut self, index: usize, len: u32) -> bool {
        let whole = self.sent[index];
        debug_assert!(len > 0, "a segment has data");
        if whole.len <= len {
            return false;
        }
        let mut head = whole;
        head.len = len;
        head.flags &= !(FIN | PUSHED);
        head.ends_record = false;
        let mut rest = whole;
        rest.seq = whole.seq + len;
        rest.len = whole.len - len;
        rest.flags &= !GSO_FIRST;
        rest.dsn = whole.dsn + u64::from(len);
        rest.map_offset = whole.map_offset + len as u16;
        self.sent[index] = head;
        self.sent.insert(index + 1, rest);
        self.sacked += u32::from(whole.is_sacked());
        self.lost += u32::from(whole.is_lost());
        self.retrans += u32::from(whole.is_retrans());
        debug_assert!(self.sacked + self.lost <= self.packets_out(), "no segment is both sacked and lost");
        true
    }

    /// The segment was cut off the one before: it is in a buffer with what left after it.
    pub(super) fn begin_buffer(&mut self, index: usize) {
        self.set_gso_first(index, true);
    }

    /// The segment is a buffer of its own: no other left with it, or those have left again since.
    fn is_whole_buffer(&self, index: usize) -> bool {
        let ends = self.sent.get(index + 1).is_none_or(|next| next.is_gso_first() || next.is_retransmitted());
        let begins = |sent: &Sent| sent.is_gso_first() || sent.is_retransmitted() || index == 0 || self.sent[index - 1].is_retransmitted();
        ends && begins(&self.sent[index])
    }

    /// What was sent after a segment goes into it, as far as segments fit whole into `room` bytes and
    /// end at `window_end` or before (Linux: `tcp_retrans_try_collapse`).
    pub(super) fn collapse(&mut self, index: usize, room: u32, window_end: Seq) {
        let mut left = room.saturating_sub(self.sent[index].len);
        while self.is_whole_buffer(index)
            && let Some(&next) = self.sent.get(index + 1)
            && self.is_whole_buffer(index + 1)
            && !next.is_sacked()
            && self.sent[index].has_mapping_of(&next)
            && next.len <= left
            && !self.sent[index].ends_record
            && !next.end().after(window_end)
        {
            left -= next.len;
            self.sent.remove(index + 1);
            self.uncount(next.flags);
            self.bursts -= u32::from(next.is_gso_first());
            let first = &mut self.sent[index];
            first.len += next.len;
            first.ends_record = next.ends_record;
            first.flags |= next.flags & (EVER | FIN | PUSHED);
        }
    }

    /// Original transmissions that RACK has not judged yet: index of the first.
    pub(super) fn rack_start(&self) -> usize {
        self.index_of(self.rack_hint)
    }

    pub(super) fn set_rack_hint(&mut self, index: usize) {
        debug_assert!(index <= self.sent.len(), "it is a place of the scoreboard");
        self.rack_hint = self.sent.get(index).map_or_else(|| self.end(), |segment| segment.seq);
    }

    /// The `nth` retransmission in the order in which they left, those settled excepted: index of
    /// its segment, or none if the segment was delivered, lost or sent again since.
    pub(super) fn retransmission(&self, nth: usize) -> Option<Option<usize>> {
        let &(seq, at) = self.retransmitted.get(nth)?;
        let index = self.index_of(seq);
        let is_current = |sent: &Sent| {
            sent.seq == seq && sent.at == at && sent.is_retransmitted() && !sent.is_sacked() && (!sent.is_lost() || sent.is_retrans())
        };
        Some(self.sent.get(index).filter(|sent| is_current(sent)).map(|_| index))
    }

    /// Nothing more is to be learnt from the `nth` retransmission.
    pub(super) fn settle_retransmission(&mut self, nth: usize) {
        debug_assert!(nth < self.retransmitted.len(), "it is remembered");
        self.retransmitted.remove(nth);
    }

    /// Subflows: data sequence ranges in the network, in order.
    pub(super) fn mappings(&self) -> impl Iterator<Item = (DataSeq, u32)> + '_ {
        self.sent.iter().filter(|s| s.len > 0).map(|s| (s.dsn, s.len))
    }
}

#[cfg(test)]
mod tests;
