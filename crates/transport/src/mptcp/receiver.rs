//! The connection's receive side: reordering by data sequence number, the shared window and its autotuning.
//!
//! All subflows share one window, which is relative to the data acknowledgement (RFC 8684 section 3.3.1), one buffer and one
//! reader. Data that a subflow delivers in its own order may still be ahead of the connection's.

use crate::ReorderStats;
use crate::stack::ReceiveCharge;
use crate::tcp::{DEFAULT_SCALING_RATIO, rmem_charge};
use polypath_base::{DataSeq, Instant};
use std::collections::VecDeque;

/// Data that waits for what comes before it: `start..end`, in data sequence numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
}

/// No data sequence number is farther from the first one than half of the space, or it lies before it.
const FARTHEST: u64 = 1 << 63;

/// Counters of the reordering.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounters {
    /// Bytes that had been received before.
    pub duplicate_bytes: u64,
    /// Bytes beyond the window that was announced.
    pub beyond_window: u64,
    /// Most memory the waiting data ever took, bytes.
    pub max_memory: u64,
}

#[derive(Debug)]
pub(super) struct Rx {
    /// Data sequence number of the first byte. All else here counts from it, so that nothing wraps wherever the peer begins.
    first: DataSeq,
    /// Next byte expected: the data acknowledgement.
    next: u64,
    waiting: VecDeque<Range>,
    waiting_bytes: u64,
    /// Most bytes that ever waited since the share of payload is known.
    most_waiting: u64,
    unread: u64,
    read: u64,
    /// Right edge of the window ever announced; it never moves back (RFC 8684 section 3.3.4).
    edge: u64,
    /// Window last announced, bytes.
    window: u32,
    rcvbuf: u32,
    max_rcvbuf: u32,
    /// Threshold up to which segments announce the window (Linux: `rcv_ssthresh`), bytes, where all subflows share one
    /// ([`crate::stack::Stack::shared_rcv_ssthresh`]); else they have their own (`Socket::window_limits`).
    rcv_ssthresh: u32,
    /// Share of the buffer's memory that is payload, in 1/256: of the subflow with the smallest.
    ratio: u32,
    charge: ReceiveCharge,
    /// Largest window that the buffer stands for, bytes: follows `rcvbuf` and `ratio`.
    full: u32,
    /// Autotuning (dynamic right-sizing): bytes read since `measured_at`, and most read in a round before.
    copied: u64,
    space: u64,
    measured_at: Instant,
    rtt_us: u32,
    /// Data sequence number of the peer's DATA_FIN.
    fin: Option<u64>,
    finished: bool,
    counters: ReassemblyCounters,
    disorder: ReorderStats,
}

impl Rx {
    /// `rcvbuf`, `max_rcvbuf`: initial and largest buffer, bytes.
    pub(super) fn new(rcvbuf: u32, max_rcvbuf: u32, charge: ReceiveCharge) -> Self {
        let mut rx = Self {
            first: DataSeq::default(),
            next: 0,
            waiting: VecDeque::with_capacity(64),
            waiting_bytes: 0,
            most_waiting: 0,
            unread: 0,
            read: 0,
            edge: 0,
            window: 0,
            rcvbuf,
            max_rcvbuf,
            rcv_ssthresh: 0,
            ratio: DEFAULT_SCALING_RATIO,
            charge,
            full: 0,
            copied: 0,
            space: 0,
            measured_at: Instant::ZERO,
            rtt_us: 0,
            fin: None,
            finished: false,
            counters: ReassemblyCounters::default(),
            disorder: ReorderStats::default(),
        };
        rx.resize(rcvbuf);
        rx
    }

    fn resize(&mut self, rcvbuf: u32) {
        self.rcvbuf = rcvbuf;
        self.full = self.win_from_space(u64::from(rcvbuf));
    }

    /// The peer's key is known: data begins at `dsn`. `space` is the first estimate of what is read in a round trip, `window`
    /// what the handshake announced.
    pub(super) fn start(&mut self, now: Instant, dsn: DataSeq, space: u64, window: u16) {
        self.first = dsn;
        self.next = 0;
        self.edge = u64::from(window);
        self.space = space;
        self.measured_at = now;
    }

    /// The buffer and the largest window that it stands for, bytes.
    pub(super) fn buffer(&self) -> (u32, u32) {
        (self.rcvbuf, self.full)
    }

    /// The initial subflow brings its threshold.
    pub(super) fn set_rcv_ssthresh(&mut self, bytes: u32) {
        self.rcv_ssthresh = bytes;
    }

    #[inline]
    pub(super) fn rcv_ssthresh(&self) -> u32 {
        self.rcv_ssthresh
    }

    /// The threshold grows, at most to what the buffer stands for.
    pub(super) fn grow_rcv_ssthresh(&mut self, by: u32) {
        self.rcv_ssthresh = self.rcv_ssthresh.saturating_add(by).min(self.full);
    }

    /// A subflow brings its own buffer and threshold.
    pub(super) fn add_buffer(&mut self, bytes: u32, rcv_ssthresh: u32) {
        self.rcv_ssthresh += rcv_ssthresh;
        self.resize(self.rcvbuf.saturating_add(bytes).min(self.max_rcvbuf.max(self.rcvbuf)));
    }

    /// The data acknowledgement.
    #[inline]
    pub(super) fn next(&self) -> DataSeq {
        self.first + self.next
    }

    /// How far from the first byte a data sequence number of the peer's is; what lies before it, at a distance that no connection reaches.
    #[inline]
    fn place(&self, dsn: DataSeq) -> Option<u64> {
        let place = dsn.distance(self.first);
        (place < FARTHEST).then_some(place)
    }

    pub(super) fn read_bytes(&self) -> u64 {
        self.read
    }

    #[inline]
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    pub(super) fn finished(&self) -> bool {
        self.finished
    }

    pub(super) fn counters(&self) -> ReassemblyCounters {
        ReassemblyCounters { max_memory: self.counters.max_memory.max(self.memory(self.most_waiting)), ..self.counters }
    }

    pub(super) fn disorder(&self, now: Instant) -> ReorderStats {
        self.disorder.until(now)
    }

    /// Largest window that the buffer stands for, bytes.
    #[inline]
    pub(super) fn full_window(&self) -> u32 {
        self.full
    }

    #[inline]
    fn win_from_space(&self, space: u64) -> u32 {
        ((space * u64::from(self.ratio)) >> 8) as u32
    }

    fn space_from_win(&self, window: u64) -> u64 {
        (window << 8) / u64::from(self.ratio)
    }

    /// Memory that `bytes` take while they wait.
    #[inline]
    fn memory(&self, bytes: u64) -> u64 {
        match self.charge {
            ReceiveCharge::Twice => 2 * bytes,
            ReceiveCharge::Merged => rmem_charge(bytes),
        }
    }

    /// Takes several pieces; `next`: each is what comes next, wherever it says it belongs.
    #[cold]
    pub(super) fn insert_more(&mut self, now: Instant, pieces: &[(DataSeq, u32)], next: bool) {
        for &(dsn, len) in pieces {
            self.insert(now, if next { self.next() } else { dsn }, len);
        }
    }

    /// Takes `len` bytes at `dsn` from a subflow; true if the data acknowledgement advanced.
    #[inline(always)]
    pub(super) fn insert(&mut self, now: Instant, dsn: DataSeq, len: u32) -> bool {
        let Some(place) = self.place(dsn) else {
            self.counters.duplicate_bytes += u64::from(len);
            return false;
        };
        let end = place + u64::from(len);
        if place > self.next {
            self.wait(now, place, end);
            return false;
        }
        if end <= self.next {
            self.counters.duplicate_bytes += u64::from(len);
            return false;
        }
        self.counters.duplicate_bytes += self.next - place;
        let before = self.next;
        self.next = end;
        if !self.waiting.is_empty() {
            self.join(now);
        }
        self.unread += self.next - before;
        true
    }

    /// What waited for what has just come follows it.
    #[inline]
    fn join(&mut self, now: Instant) {
        while let Some(first) = self.waiting.front()
            && first.start <= self.next
        {
            self.waiting_bytes -= first.end - first.start;
            self.next = self.next.max(first.end);
            self.waiting.pop_front();
        }
        self.disorder.set(now, self.waiting_bytes);
    }

    /// Keeps `start..end` until what is missing before it has come.
    #[inline]
    fn wait(&mut self, now: Instant, start: u64, end: u64) {
        if end > self.edge {
            self.counters.beyond_window += end - start;
            return;
        }
        match self.waiting.back_mut() {
            Some(last) if last.end == start => {
                last.end = end;
                self.note_waiting(end - start);
            }
            _ => self.wait_apart(start, end),
        }
        self.disorder.on_out_of_order(now, start - self.next, self.waiting_bytes);
    }

    /// Keeps what does not merely extend the last range.
    #[inline(never)]
    fn wait_apart(&mut self, start: u64, end: u64) {
        // Most pieces extend the last range or one near the end.
        let mut at = self.waiting.len();
        if at > 16 && self.waiting[at - 16].start > start {
            at = self.waiting.partition_point(|r| r.start <= start);
        } else {
            while at > 0 && self.waiting[at - 1].start > start {
                at -= 1;
            }
        }
        // `at` is the first range that begins after `start`; the one before it may reach into the new piece.
        if at > 0 && self.waiting[at - 1].end == start && self.waiting.get(at).is_none_or(|next| next.start > end) {
            self.waiting[at - 1].end = end;
            self.note_waiting(end - start);
            return;
        }
        let mut new = Range { start, end };
        let mut first = at;
        if at > 0 && self.waiting[at - 1].end >= start {
            first = at - 1;
            new.start = self.waiting[first].start;
            new.end = new.end.max(self.waiting[first].end);
        }
        let mut last = first;
        let mut covered = 0;
        while last < self.waiting.len() && self.waiting[last].start <= new.end {
            covered += self.waiting[last].end - self.waiting[last].start;
            new.end = new.end.max(self.waiting[last].end);
            last += 1;
        }
        let added = (new.end - new.start) - covered;
        self.counters.duplicate_bytes += (end - start) - added;
        self.note_waiting(added);
        if first == last {
            self.waiting.insert(first, new);
        } else {
            self.waiting[first] = new;
            self.waiting.drain(first + 1..last);
        }
    }

    #[inline]
    fn note_waiting(&mut self, added: u64) {
        self.waiting_bytes += added;
        self.most_waiting = self.most_waiting.max(self.waiting_bytes);
    }

    /// The peer ends its data before `dsn` (RFC 8684 section 3.3.3).
    pub(super) fn note_fin(&mut self, dsn: DataSeq) {
        if !self.finished {
            self.fin = self.place(dsn).or(self.fin);
        }
    }

    /// The peer's DATA_FIN is known, and not everything before it has come.
    #[inline]
    pub(super) fn awaits_end(&self) -> bool {
        self.fin.is_some()
    }

    /// Consumes the DATA_FIN if everything before it has come; true when it just did.
    pub(super) fn take_fin(&mut self) -> bool {
        let due = self.fin == Some(self.next);
        if due {
            self.next += 1;
            self.edge = self.edge.max(self.next);
            self.fin = None;
            self.finished = true;
        }
        due
    }

    /// The window that the buffer has room for, bytes, at most `limit` (the slow-start threshold of the window, and the largest that it may
    /// become) and rounded as the scale wants.
    #[inline]
    pub(super) fn window_for_space(&self, limit: (u32, u32), rcv_mss: u32, scale: u8) -> u32 {
        let (limit, clamp) = limit;
        let full = self.full.min(clamp);
        let mask = (1 << scale) - 1;
        let window = if self.is_empty() { self.full } else { self.shrunk_window(full, rcv_mss, mask) };
        (window.min(limit) + mask) & !mask
    }

    /// The window while something waits.
    #[inline]
    fn shrunk_window(&self, full: u32, rcv_mss: u32, mask: u32) -> u32 {
        let used = self.memory(self.waiting_bytes + self.unread);
        let window = self.win_from_space(u64::from(self.rcvbuf).saturating_sub(used));
        if window >= full >> 1 {
            return window;
        }
        // Less than a sixteenth, or than a segment: close the window rather than announce crumbs (RFC 9293 section 3.8.6.2.2).
        let rounded = window & !mask;
        if rounded < self.full >> 4 || rounded < rcv_mss { 0 } else { rounded }
    }

    /// The window to announce now; as [`Rx::window_for_space`], but at least `left` bytes, and its right edge never moves back.
    #[inline]
    pub(super) fn advertise(&mut self, limit: (u32, u32), left: u32, rcv_mss: u32, scale: u8) -> u32 {
        let mut window = self.window_for_space(limit, rcv_mss, scale).max(left);
        let edge = self.next + u64::from(window);
        if edge > self.edge {
            self.edge = edge;
        } else {
            window = (self.edge - self.next) as u32;
        }
        self.window = window;
        window
    }

    /// Nothing waits, in order or not.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.unread == 0 && self.waiting_bytes == 0
    }

    /// The application reads all that is in order; returns whether the window has grown enough to tell the peer at once.
    /// `measure` tells what the subflows' receivers have measured.
    #[inline]
    pub(super) fn read(&mut self, now: Instant, measure: impl FnOnce() -> Measured) -> Read {
        let bytes = self.unread;
        if bytes == 0 {
            return Read::default();
        }
        self.unread = 0;
        self.read += bytes;
        let grown = self.adjust(now, bytes, measure);
        let free = u64::from(self.rcvbuf).saturating_sub(self.memory(self.waiting_bytes));
        Read { grown, update: self.win_from_space(free) >= self.window.saturating_mul(2) }
    }

    /// Dynamic right-sizing, once in the longest round trip of a subflow: the buffer follows twice what was read, more if that
    /// grows.
    #[inline]
    fn adjust(&mut self, now: Instant, bytes: u64, measure: impl FnOnce() -> Measured) -> bool {
        self.copied += bytes;
        let elapsed = now.since(self.measured_at).as_micros();
        if self.rtt_us > 0 && elapsed < u64::from(self.rtt_us) {
            return false;
        }
        let Measured { rtt_us, advmss, scaling_ratio } = measure();
        self.rtt_us = rtt_us;
        if scaling_ratio != self.ratio {
            self.ratio = scaling_ratio;
            self.resize(self.rcvbuf);
        }
        if rtt_us == 0 || elapsed < u64::from(rtt_us) {
            return false;
        }
        let mut grown = false;
        if self.copied > self.space && self.space > 0 {
            let mut window = (self.copied << 1) + 16 * u64::from(advmss);
            window += (window as u128 * u128::from(self.copied - self.space) / u128::from(self.space)) as u64 * 2;
            let rcvbuf = self.space_from_win(window).min(u64::from(self.max_rcvbuf)) as u32;
            if rcvbuf > self.rcvbuf {
                self.resize(rcvbuf);
                grown = true;
            }
            self.space = self.copied;
        }
        self.copied = 0;
        self.measured_at = now;
        grown
    }
}

/// What the receivers of all subflows have measured.
#[derive(Copy, Clone, Debug)]
pub(super) struct Measured {
    /// Largest RTT, microseconds; 0 before the first.
    pub(super) rtt_us: u32,
    /// Largest segment announced, bytes.
    pub(super) advmss: u32,
    /// Smallest share of payload in memory, in 1/256: a subflow without data yet counts as unmeasured.
    pub(super) scaling_ratio: u32,
}

/// What reading changed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    /// The buffer has grown.
    pub(super) grown: bool,
    /// The window could be at least twice what was announced.
    pub(super) update: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: (u32, u32) = (u32::MAX, u32::MAX);

    fn measured(rtt_us: u32) -> Measured {
        Measured { rtt_us, advmss: 1460, scaling_ratio: DEFAULT_SCALING_RATIO }
    }

    fn rx() -> Rx {
        let mut rx = Rx::new(131_072, 6_291_456, ReceiveCharge::Twice);
        rx.start(Instant::ZERO, DataSeq::new(1000), 14_480, 0);
        rx.advertise(WIDE, 0, 1000, 0);
        rx
    }

    #[test]
    fn data_is_put_in_order_whatever_the_order() {
        // Six pieces in every order give the same end, with nothing left over.
        fn permute(pieces: &mut Vec<u64>, k: usize, visit: &mut impl FnMut(&[u64])) {
            if k == pieces.len() {
                visit(pieces);
                return;
            }
            for i in k..pieces.len() {
                pieces.swap(k, i);
                permute(pieces, k + 1, visit);
                pieces.swap(k, i);
            }
        }
        permute(&mut (0..6).collect(), 0, &mut |order| {
            let mut rx = rx();
            for piece in order {
                rx.insert(Instant::ZERO, DataSeq::new(1000 + piece * 100), 100);
            }
            assert_eq!((rx.next().get(), rx.unread(), rx.waiting.len(), rx.waiting_bytes), (1600, 600, 0, 0), "{order:?}");
        });
    }

    #[test]
    fn overlaps_are_counted_once() {
        let mut rx = rx();
        rx.insert(Instant::ZERO, DataSeq::new(1200), 100);
        rx.insert(Instant::ZERO, DataSeq::new(1250), 100);
        rx.insert(Instant::ZERO, DataSeq::new(1220), 10);
        assert_eq!(rx.waiting_bytes, 150);
        assert_eq!(rx.counters().duplicate_bytes, 60);
        rx.insert(Instant::ZERO, DataSeq::new(1400), 100);
        assert_eq!(rx.waiting.len(), 2);
        rx.insert(Instant::ZERO, DataSeq::new(1340), 60);
        assert_eq!((rx.waiting.len(), rx.waiting_bytes), (1, 300));
        assert!(rx.insert(Instant::ZERO, DataSeq::new(1000), 200));
        assert_eq!((rx.next().get(), rx.waiting_bytes), (1500, 0));
        assert!(!rx.insert(Instant::ZERO, DataSeq::new(1000), 200));
    }

    #[test]
    fn the_right_edge_never_moves_back() {
        let mut rx = rx();
        assert_eq!(rx.advertise(WIDE, 0, 1000, 0), 65_536);
        rx.insert(Instant::ZERO, DataSeq::new(1000), 60_000); // unread: takes memory
        assert_eq!(rx.advertise(WIDE, 0, 1000, 0), 5_536);
        rx.read(Instant::from_nanos(1), || measured(0));
        assert_eq!(rx.advertise(WIDE, 0, 1000, 0), 65_536);
    }

    #[test]
    fn data_beyond_the_window_is_refused() {
        let mut rx = rx();
        rx.insert(Instant::ZERO, DataSeq::new(1000 + 65_536), 1);
        assert_eq!((rx.waiting.len(), rx.counters().beyond_window), (0, 1));
    }

    #[test]
    fn the_buffer_follows_what_is_read() {
        let mut rx = rx();
        let mut now = Instant::ZERO;
        for _ in 0..20 {
            now += polypath_base::Duration::from_millis(10);
            let (next, window) = (rx.next(), rx.advertise(WIDE, 0, 1000, 0));
            rx.insert(Instant::ZERO, next, window);
            rx.read(now, || measured(10_000));
        }
        assert_eq!(rx.rcvbuf, 6_291_456);
    }

    #[test]
    fn the_share_of_payload_counts_once_it_is_measured() {
        let mut rx = Rx::new(131_072, 6_291_456, ReceiveCharge::Merged);
        rx.start(Instant::ZERO, DataSeq::new(1000), 14_480, 0);
        assert_eq!(rx.full, 65_536, "half of the buffer");
        rx.insert(Instant::ZERO, DataSeq::new(1000), 1000);
        rx.read(Instant::from_nanos(10_000_000), || Measured { scaling_ratio: 152, ..measured(10_000) });
        assert_eq!(rx.full, 131_072 / 256 * 152);
        // What waits takes little more memory than its bytes, and the window shrinks by its share of that.
        rx.advertise(WIDE, 0, 1000, 0);
        rx.insert(Instant::ZERO, DataSeq::new(10_000), 20_000);
        assert_eq!(rx.window_for_space(WIDE, 1000, 0), (131_072 - 20_880) * 152 / 256);
    }

    #[test]
    fn a_data_fin_waits_for_the_data_before_it() {
        let mut rx = rx();
        rx.note_fin(DataSeq::new(1100));
        assert!(!rx.take_fin());
        rx.insert(Instant::ZERO, DataSeq::new(1000), 100);
        assert!(rx.take_fin());
        assert_eq!((rx.next().get(), rx.finished()), (1101, true));
        rx.note_fin(DataSeq::new(1100));
        assert!(!rx.take_fin());
    }
}
