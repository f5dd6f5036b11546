//! The connection's send side: what the application wrote, what was enqueued on subflows, what the
//! peer has acknowledged, and what goes out a second time.
//!
//! Data is a count of bytes in the 64-bit data sequence space; nothing is stored but its edges, and
//! for MPTCP 0.96 the pieces in which it was enqueued on subflows.

use crate::limit_clock::{Limit, LimitClock};
use crate::timer_wheel::TickClock;
use polypath_base::{Bytes, DataSeq, Duration, Instant};
use polypath_sched::{BUFFER, SubflowSet};
use std::collections::VecDeque;

/// What the kernel takes at once for data that is written, bytes.
const PAGE: u64 = 32_768;
/// What precedes the data of a fragment, bytes.
const HEADER: u64 = 40;
/// A fragment is begun only where so much of a page is left, bytes (Linux:
/// `mptcp_page_frag_refill`).
const LEAST: u64 = 32 + HEADER;
/// What the applications of the linux engine write with one call, bytes.
const WRITE: u64 = 256 << 10;

/// A fragment of Linux's send queue (`mptcp_data_frag`).
#[derive(Copy, Clone, Debug)]
struct Fragment {
    begin: DataSeq,
    /// Its header, and what lies before that in the page, bytes.
    overhead: u64,
}

/// Linux's send queue: fragments of pages, each of which one retransmission covers.
#[derive(Debug)]
struct Fragments {
    /// Those that are not acknowledged as a whole.
    queue: VecDeque<Fragment>,
    /// Memory that they take beside their data, bytes; of MPTCP 0.96, which has no such fragments,
    /// none.
    overhead: u64,
    counts_overhead: bool,
    /// Bytes in use of the page that data goes to, and the first byte of data in it.
    used: u64,
    page: DataSeq,
    /// A subflow has something of that page still, so that the next fragment goes behind it (Linux:
    /// `skb_page_frag_refill`).
    is_held: bool,
    /// What is left of the call that writes data, bytes, where calls are told apart
    /// ([`crate::stack::Stack::write_begins_fragment`]).
    call: Option<u64>,
}

impl Fragments {
    fn new(tells_calls_apart: bool, counts_overhead: bool) -> Self {
        let call = tells_calls_apart.then_some(WRITE);
        Self { queue: VecDeque::new(), overhead: 0, counts_overhead, used: PAGE, page: DataSeq::default(), is_held: false, call }
    }

    /// Data goes on in the last one.
    fn has_room_in_last(&self) -> bool {
        self.used < PAGE && !self.queue.is_empty()
    }

    /// A fragment begins with the byte `begin`. `is_free`: all before it is acknowledged.
    fn begin(&mut self, begin: DataSeq, is_free: bool) {
        let is_held = std::mem::take(&mut self.is_held);
        if (is_free && !is_held) || self.used + LEAST > PAGE {
            (self.used, self.page) = (0, begin);
        }
        let behind = self.used.next_multiple_of(8) + HEADER;
        let overhead = if self.counts_overhead { behind - self.used } else { 0 };
        self.used = behind;
        self.overhead += overhead;
        self.queue.push_back(Fragment { begin, overhead });
    }

    /// All up to `ack` is acknowledged, of what ends with `end`.
    #[inline]
    fn acknowledge(&mut self, ack: DataSeq, end: DataSeq) {
        while let Some(first) = self.queue.front() {
            if self.queue.get(1).map_or(end, |next| next.begin).after(ack) {
                break;
            }
            self.overhead -= first.overhead;
            self.queue.pop_front();
        }
        debug_assert!(!self.queue.is_empty() || self.overhead == 0, "overhead is counted with its fragment");
    }
}

/// A piece as it was enqueued on subflows (MPTCP 0.96 only).
#[derive(Copy, Clone, Debug)]
pub(super) struct Piece {
    pub(super) dsn: DataSeq,
    pub(super) len: u32,
    /// The subflows that carried it.
    pub(super) tried: SubflowSet,
}

impl Piece {
    /// One past its last byte.
    #[inline]
    pub(super) fn end(&self) -> DataSeq {
        self.dsn + u64::from(self.len)
    }
}

/// Where our DATA_FIN is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    No,
    /// After everything accepted; its place is `Tx::end`.
    Queued,
    Sent,
    Acked,
}

#[derive(Debug)]
pub(super) struct Tx {
    /// Where the data began.
    first: DataSeq,
    /// First byte that the peer has not acknowledged.
    pub(super) una: DataSeq,
    /// First byte never enqueued on a subflow.
    pub(super) next: DataSeq,
    /// Next byte to enqueue; less than `next` only while everything unacknowledged is sent again.
    pub(super) pending: DataSeq,
    /// End of what the application wrote.
    pub(super) end: DataSeq,
    /// MPTCP 0.96: end of the buffer from which the last piece came.
    pub(super) buffer_end: DataSeq,
    /// Size of the segments of which that buffer holds as many as fit.
    pub(super) buffer_mss: Bytes,
    /// MPTCP 0.96: end of the last piece shorter than a segment.
    pub(super) small_end: DataSeq,
    /// Right edge of the peer's window.
    pub(super) window_end: DataSeq,
    pub(super) fin: Fin,
    /// When it was sent.
    pub(super) fin_at: Instant,
    /// Bytes that the application has yet to write; `u64::MAX` is endless.
    pub(super) offered: u64,
    pub(super) accepted: u64,
    /// The application waits for room.
    pub(super) blocked: bool,
    /// A write has found no room, and there was none since for the application to hear of (Linux:
    /// `SOCK_NOSPACE`).
    pub(super) no_space: bool,
    /// Memory for unacknowledged data, bytes.
    pub(super) sndbuf: u64,
    pub(super) reinject: VecDeque<Piece>,
    pub(super) pieces: VecDeque<Piece>,
    pub(super) rtx_due: Instant,
    pub(super) clock: TickClock,
    /// How long the retransmission timer waits when it starts; none: the least retransmission
    /// timeout. Linux's MPTCP only (`timer_ival`).
    pub(super) rtx_interval: Option<Duration>,
    pub(super) rtx_backoff: u32,
    /// How often the DATA_FIN alone went again.
    pub(super) fin_repetitions: u32,
    pub(super) reinjected_bytes: u64,
    pub(super) limit: LimitClock,
    fragments: Fragments,
    /// A call has written all that it had; the application makes the next one once that is enqueued
    /// on subflows.
    pub(super) between_writes: bool,
}

impl Tx {
    pub(super) fn new(sndbuf: u64, write_begins_fragment: bool, counts_overhead: bool, tick: Duration) -> Self {
        Self {
            first: DataSeq::default(),
            una: DataSeq::default(),
            next: DataSeq::default(),
            pending: DataSeq::default(),
            end: DataSeq::default(),
            buffer_end: DataSeq::default(),
            buffer_mss: Bytes::ZERO,
            small_end: DataSeq::default(),
            window_end: DataSeq::default(),
            fin: Fin::No,
            fin_at: Instant::NEVER,
            offered: 0,
            accepted: 0,
            blocked: false,
            no_space: false,
            sndbuf,
            reinject: VecDeque::new(),
            pieces: VecDeque::new(),
            rtx_due: Instant::NEVER,
            clock: TickClock::new(tick),
            rtx_interval: None,
            rtx_backoff: 0,
            fin_repetitions: 0,
            reinjected_bytes: 0,
            limit: LimitClock::new(Limit::CongestionWindow),
            fragments: Fragments::new(write_begins_fragment, counts_overhead),
            between_writes: false,
        }
    }

    /// The application makes a call that writes. `is_held`: a subflow has something of the last
    /// page still.
    pub(super) fn begin_write(&mut self, is_held: bool) {
        self.fragments.is_held = is_held;
    }

    /// Nothing is left of the data, but what lies from there on would keep its page.
    pub(super) fn page_may_be_held(&self) -> Option<DataSeq> {
        let is_asked = self.fragments.call.is_none() && self.una == self.end && self.end != self.first;
        is_asked.then_some(self.fragments.page)
    }

    /// Our key is known: data begins at `dsn`. What was accepted before keeps its length.
    pub(super) fn start(&mut self, dsn: DataSeq) {
        debug_assert!(self.una == self.next && self.pieces.is_empty(), "nothing was sent before the key was known");
        let accepted = self.end.distance(self.first);
        for begin in self.fragments.queue.iter_mut().map(|fragment| &mut fragment.begin).chain([&mut self.fragments.page]) {
            *begin = dsn + begin.distance(self.first);
        }
        (self.first, self.una, self.next, self.pending, self.window_end) = (dsn, dsn, dsn, dsn, dsn);
        (self.buffer_end, self.small_end) = (dsn, dsn);
        self.end = dsn + accepted;
    }

    /// Memory that is taken by what is accepted and not yet acknowledged (Linux: `sk_wmem_queued`).
    #[inline]
    pub(super) fn queued(&self) -> u64 {
        self.end.distance(self.una.min(self.end)) + self.fragments.overhead
    }

    /// A third of the buffer is free (Linux: `sk_stream_is_writeable`).
    pub(super) fn is_writeable(&self) -> bool {
        self.sndbuf.saturating_sub(self.queued()) >= self.queued() >> 1
    }

    /// The application has written nothing and has not closed.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.end == self.first && self.offered == 0 && self.fin == Fin::No
    }

    /// Nothing waits for the scheduler.
    #[inline]
    pub(super) fn all_scheduled(&self) -> bool {
        self.pending == self.end && self.reinject.is_empty()
    }

    /// First data sequence number after the data, the DATA_FIN included once it is sent.
    #[inline]
    pub(super) fn sent_end(&self) -> DataSeq {
        self.next + u64::from(matches!(self.fin, Fin::Sent | Fin::Acked))
    }

    /// A writer that waits may go on: a call of its is over, or a third of the buffer is free.
    #[inline]
    pub(super) fn wakes_writer(&self) -> bool {
        self.between_writes || self.offered == 0 || self.is_writeable()
    }

    /// Takes what the application offers while there is room, page fragment by page fragment as
    /// Linux copies it: data joins the last one while that waits and its page has room. A writer
    /// that waits is woken only when a third of the buffer is free.
    pub(super) fn fill(&mut self) {
        if self.offered == 0 {
            (self.blocked, self.between_writes) = (false, false);
            return;
        }
        if self.blocked && !self.wakes_writer() {
            return;
        }
        self.between_writes = false;
        let mut waits = self.pending.before(self.end);
        while self.offered > 0 {
            let has_room = self.queued() < self.sndbuf;
            let is_free = self.una == self.end;
            let fragments = &mut self.fragments;
            let joins = waits && fragments.has_room_in_last();
            // Where calls are told apart, what joins asks for no memory.
            if !(has_room || joins && fragments.call.is_some()) {
                self.blocked = true;
                return;
            }
            if !joins {
                fragments.begin(self.end, is_free);
                waits = true;
            }
            let bytes = (PAGE - fragments.used).min(self.offered).min(fragments.call.unwrap_or(u64::MAX));
            fragments.used += bytes;
            self.end += bytes;
            self.accepted += bytes;
            if self.offered != u64::MAX {
                self.offered -= bytes;
            }
            if let Some(call) = &mut fragments.call {
                *call -= bytes;
                if *call == 0 || self.offered == 0 {
                    *call = WRITE;
                    self.between_writes = self.offered > 0;
                    break;
                }
            }
        }
        if self.offered == 0 {
            self.blocked = false;
        }
        debug_assert!(self.accepted == self.end.distance(self.first), "what is accepted has its place in the data");
    }

    /// End of the fragment that holds `dsn`: what one retransmission of Linux covers.
    pub(super) fn fragment_end(&self, dsn: DataSeq) -> DataSeq {
        let queue = &self.fragments.queue;
        let after = queue.partition_point(|fragment| !fragment.begin.after(dsn));
        queue.get(after).map_or(self.end, |next| next.begin)
    }

    /// A data acknowledgement with its window; true if it acknowledged something new.
    #[inline]
    pub(super) fn acknowledge(&mut self, ack: DataSeq, window: u32) -> bool {
        // One for data not even sent acknowledges nothing (RFC 9293 section 3.10.7.4), but its window
        // counts (Linux: `ack_update_msk`).
        let ack = if ack.after(self.sent_end()) { self.una } else { ack };
        // An older acknowledgement, overtaken on a faster path, still tells the edge that it told.
        self.window_end = self.window_end.max(ack + u64::from(window));
        if !ack.after(self.una) {
            return false;
        }
        if ack.after(self.end) {
            self.fin = Fin::Acked;
        }
        self.una = ack;
        self.fragments.acknowledge(ack, self.end);
        self.pending = self.pending.max(ack.min(self.end));
        while let Some(first) = self.pieces.front()
            && !first.end().after(ack)
        {
            self.pieces.pop_front();
        }
        while let Some(first) = self.reinject.front()
            && !first.end().after(ack)
        {
            self.reinject.pop_front();
        }
        debug_assert!(!self.pending.after(self.next) && !self.next.after(self.end), "data is given once it was handed over");
        true
    }

    /// MPTCP 0.96: how much of the data from `next` on is enqueued on a subflow at once, where the
    /// peer's window has room for `window` bytes, a segment at least, and the scheduler allows
    /// `limit`.
    ///
    /// A buffer of the kernel holds as many whole segments of `buffer_mss` as fit into 64 KiB with
    /// their headers; what is left of it goes before the next is begun, an odd segment at its end
    /// on its own. What the window leaves beyond whole segments goes too, unless the last short
    /// piece is still on its way (Minshall's form of Nagle's rule).
    #[inline]
    pub(super) fn cut(&mut self, next: DataSeq, window: u64, limit: u64, mss: u64) -> u32 {
        if self.begins_buffer(next) {
            self.buffer_end = next + BUFFER / self.buffer_mss * self.buffer_mss.get();
        }
        let left = self.buffer_end.distance(next).min(self.end.distance(next));
        let mut len = left.min(window).min(limit.max(mss));
        if len < left && len > mss && self.small_end.after(self.una) {
            len -= len % mss;
        }
        if len < mss {
            self.small_end = next + len;
        }
        if next + len == self.end {
            // What the application writes next begins a buffer.
            self.buffer_end = self.end;
        }
        len as u32
    }

    /// MPTCP 0.96: the data from `next` on begins a buffer.
    #[inline]
    pub(super) fn begins_buffer(&self, next: DataSeq) -> bool {
        !self.buffer_end.after(next)
    }

    /// In fallback the subflow's acknowledgement is the connection's; its FIN counts as the
    /// DATA_FIN.
    #[inline]
    pub(super) fn fallback_ack(&self, bytes_acked: u64) -> DataSeq {
        self.first + bytes_acked
    }

    /// Subflows that carried the byte at `dsn` (MPTCP 0.96 only).
    pub(super) fn tried(&self, dsn: DataSeq) -> SubflowSet {
        self.piece(dsn).map_or(SubflowSet::EMPTY, |p| p.tried)
    }

    /// The piece with the byte at `dsn` (MPTCP 0.96 only).
    pub(super) fn piece(&self, dsn: DataSeq) -> Option<Piece> {
        let at = self.pieces.partition_point(|p| !p.end().after(dsn));
        self.pieces.get(at).copied()
    }

    /// Linux's MPTCP: everything unacknowledged is to be scheduled again.
    pub(super) fn send_all_again(&mut self) {
        self.reinjected_bytes += self.pending.distance(self.una.min(self.pending));
        self.pending = self.una.min(self.end);
        debug_assert!(!self.pending.after(self.next), "only what was sent goes again");
    }

    /// Queues a piece for another subflow than those in `tried`, in order and only once.
    pub(super) fn queue_reinjection(&mut self, dsn: DataSeq, len: u32, tried: SubflowSet) {
        if !(dsn + u64::from(len)).after(self.una) {
            return;
        }
        debug_assert!(!(dsn + u64::from(len)).after(self.next), "only what was given goes again");
        let at = self.reinject.partition_point(|p| p.dsn.before(dsn));
        match self.reinject.get(at) {
            Some(p) if p.dsn == dsn => {}
            _ => self.reinject.insert(at, Piece { dsn, len, tried }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of data in a fragment that fills a page.
    const FRAGMENT: u64 = PAGE - HEADER;

    fn tx() -> Tx {
        let mut tx = Tx::new(100_000, false, true, Duration::ZERO);
        tx.start(DataSeq::new(1000));
        tx.buffer_mss = Bytes::new(1428);
        tx
    }

    #[test]
    fn the_application_fills_the_buffer_by_fragments() {
        let mut tx = tx();
        tx.offered = u64::MAX;
        tx.fill();
        assert_eq!(tx.accepted, 4 * FRAGMENT, "the last fragment may overshoot");
        assert!(tx.blocked);
        tx.next = tx.end;
        tx.pending = tx.end;
        tx.acknowledge(DataSeq::new(1000 + 30_000), 0);
        tx.fill();
        assert_eq!(tx.accepted, 4 * FRAGMENT, "not woken before a third is free");
        tx.acknowledge(DataSeq::new(1000 + 70_000), 0);
        tx.fill();
        assert_eq!(tx.accepted, 6 * FRAGMENT);
    }

    #[test]
    fn fragments_begin_anew_once_everything_is_acknowledged() {
        let mut tx = tx();
        for (end, ack) in [(31_000, 31_000), (61_000, 60_999)] {
            tx.offered = 30_000;
            tx.fill();
            assert_eq!(tx.fragment_end(tx.una).get(), end);
            (tx.next, tx.pending) = (tx.end, tx.end);
            tx.acknowledge(DataSeq::new(ack), 0);
        }
        tx.offered = 30_000;
        tx.fill();
        // Behind the second one's head and data, and a head of its own.
        let used = HEADER + 30_000 + HEADER;
        assert_eq!(tx.fragment_end(tx.pending).get(), 61_000 + PAGE - used, "its page has room while a byte is out");
    }

    #[test]
    fn acknowledgements_of_the_future_tell_the_window_alone() {
        let mut tx = tx();
        tx.offered = 10_000;
        tx.fill();
        assert!(!tx.acknowledge(DataSeq::new(2000), 5000));
        assert_eq!((tx.una.get(), tx.window_end.get()), (1000, 6000));
        tx.next = DataSeq::new(3000);
        tx.pending = DataSeq::new(3000);
        assert!(tx.acknowledge(DataSeq::new(2000), 5000));
        assert_eq!((tx.una.get(), tx.window_end.get()), (2000, 7000));
        assert!(!tx.acknowledge(DataSeq::new(1500), 5000));
        assert_eq!((tx.una.get(), tx.window_end.get()), (2000, 7000), "an old one changes nothing");
    }

    #[test]
    fn reinjections_keep_their_order_and_drop_what_is_acknowledged() {
        let mut tx = tx();
        tx.offered = 10_000;
        tx.fill();
        tx.next = tx.end;
        tx.pending = tx.end;
        for dsn in [3000, 1000, 2000, 1000] {
            tx.queue_reinjection(DataSeq::new(dsn), 1000, SubflowSet::of(0));
        }
        assert_eq!(tx.reinject.iter().map(|p| p.dsn.get()).collect::<Vec<_>>(), [1000, 2000, 3000]);
        tx.acknowledge(DataSeq::new(2500), 0);
        assert_eq!(tx.reinject.iter().map(|p| p.dsn.get()).collect::<Vec<_>>(), [2000, 3000]);
    }

    #[test]
    fn a_buffer_is_given_to_its_end_before_the_next_is_begun() {
        let mut tx = tx();
        tx.offered = 90_000;
        tx.fill();
        // Buffers of 45 segments of 1428 bytes: pairs, and an odd segment at the end.
        let mut at = 1000;
        let pieces: Vec<_> = std::iter::from_fn(|| {
            let len = tx.cut(DataSeq::new(at), 1 << 20, 2 * 1428, 1428);
            at += u64::from(len);
            (len > 0).then_some(len)
        })
        .collect();
        assert_eq!((pieces[..22].iter().all(|&len| len == 2856), pieces[22], pieces[23]), (true, 1428, 2856));
        assert_eq!((pieces.iter().sum::<u32>(), pieces.last()), (90_000, Some(&36)), "the end of the data is short");
    }

    #[test]
    fn a_write_that_finds_nothing_waiting_begins_a_fragment() {
        let mut tx = Tx::new(1_000_000, true, true, Duration::ZERO);
        tx.start(DataSeq::new(1000));
        let write = |tx: &mut Tx, bytes: u64| {
            tx.offered += bytes;
            tx.fill();
        };
        write(&mut tx, 100);
        write(&mut tx, 50);
        assert_eq!(tx.fragment_end(tx.una), DataSeq::new(1150), "the first waited, so the second joined it");
        tx.pending = tx.end;
        tx.next = tx.end;
        write(&mut tx, 40_000);
        // What is left of the page behind two fragments' heads, the second at a multiple of eight.
        let second = PAGE - (HEADER + 150).next_multiple_of(8) - HEADER;
        let ends = [1150, 1150 + second, 41_150].map(DataSeq::new);
        assert_eq!([1000, 1150, 1150 + second].map(|at| tx.fragment_end(DataSeq::new(at))), ends);
        tx.pending = tx.end;
        tx.next = tx.end;
        assert!(tx.acknowledge(tx.end, 65_535));
        write(&mut tx, 40_000);
        assert_eq!(tx.fragment_end(tx.una), DataSeq::new(41_150) + FRAGMENT, "all is acknowledged: the head of a page");
    }

    #[test]
    fn fragments_take_memory_beside_their_data() {
        for (counts, heads) in [(true, [40, 84, 44]), (false, [0; 3])] {
            let mut tx = Tx::new(1_000_000, false, counts, Duration::ZERO);
            tx.start(DataSeq::new(1000));
            let mut queued = [0; 3];
            for (bytes, queued) in [100, 50].into_iter().zip(&mut queued) {
                tx.offered = bytes;
                tx.fill();
                (tx.pending, tx.next) = (tx.end, tx.end);
                *queued = tx.queued();
            }
            tx.acknowledge(DataSeq::new(1100), 0);
            queued[2] = tx.queued();
            assert_eq!(queued, [100 + heads[0], 150 + heads[1], 50 + heads[2]], "the second lies at a multiple of eight");
        }
    }

    #[test]
    fn what_the_window_leaves_beyond_whole_segments_goes_too() {
        let mut tx = tx();
        tx.offered = 90_000;
        tx.fill();
        assert_eq!(tx.cut(DataSeq::new(1000), 3000, 1 << 20, 1428), 3000);
        tx.small_end = DataSeq::new(1100);
        assert_eq!(tx.cut(DataSeq::new(4000), 3000, 1 << 20, 1428), 2856, "a short piece is on its way");
    }
}
