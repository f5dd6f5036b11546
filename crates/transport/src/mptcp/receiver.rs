//! The connection's receive side: reordering by data sequence number, the shared window and its
//! autotuning.
//!
//! All subflows share one window, which is relative to the data acknowledgement
//! (RFC 8684 section 3.3.1), one buffer and one reader. Data that a subflow delivers in its own
//! order may still be ahead of the connection's.

use super::reassembly::Reassembly;
use super::receiver_samples::RttSamples;
use crate::ReorderStats;
use crate::packets::Packets;
use crate::receive_buffer::{ReadGrowth, ReadSpace, ReceiveMemory, Truesize, Waiting};
use crate::settings::Device;
use crate::stack::Stack;
use polypath_base::{Bytes, DataSeq, Instant, Seq};

/// No data sequence number is farther from the first one than half of the space, or it lies before
/// it.
const FARTHEST: u64 = 1 << 63;

/// Counters of the reordering.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounters {
    /// What had been received before.
    pub duplicate: Bytes,
    /// What lay beyond the window that was announced.
    pub beyond_window: Bytes,
    /// Most memory the waiting data ever took.
    pub max_memory: Bytes,
}

#[derive(Debug)]
pub(super) struct Rx {
    /// Data sequence number of the first byte. All else here counts from it, so that nothing wraps
    /// wherever the peer begins.
    first: DataSeq,
    /// Next byte expected: the data acknowledgement.
    next: u64,
    waiting: Reassembly,
    unread: u64,
    read: u64,
    /// Right edge of the window ever announced; it never moves back (RFC 8684 section 3.3.4).
    edge: u64,
    /// Window last announced, bytes.
    window: u32,
    rcvbuf: u32,
    max_rcvbuf: u32,
    /// Threshold up to which segments announce the window (Linux: `rcv_ssthresh`), bytes, where all
    /// subflows share one ([`crate::stack::Stack::shared_rcv_ssthresh`]); else they have their own
    /// (`Socket::window_limits`).
    rcv_ssthresh: u32,
    /// With the share of payload of the subflow where it is smallest.
    memory: ReceiveMemory,
    /// Where each is a piece of memory of its own ([`Device::Tun`]).
    packets: Option<Packets>,
    /// Largest window that the buffer stands for, bytes: follows `rcvbuf` and `memory`.
    full: u32,
    read_space: ReadSpace,
    stack: &'static Stack,
    rtt_us: u32,
    samples: RttSamples,
    /// Data sequence number of the peer's DATA_FIN.
    fin: Option<u64>,
    finished: bool,
    counters: ReassemblyCounters,
    disorder: ReorderStats,
    /// When a segment came last, and the room that there was before the reader came.
    before_reader: Option<(Instant, Room)>,
}

/// What the buffer has room for.
#[derive(Copy, Clone, Debug)]
pub(super) struct Room {
    occupied: Waiting,
    rcvbuf: u32,
    full: u32,
    memory: ReceiveMemory,
    /// Without a scale the window is of whole segments.
    whole_segments: bool,
}

impl Room {
    /// The window for it, bytes, at most `limit` (the slow-start threshold of the window, and the
    /// largest that it may become) and rounded as the scale wants.
    #[inline]
    pub(super) fn window(&self, limit: (u32, u32), rcv_mss: u32, scale: u8) -> u32 {
        let (limit, clamp) = limit;
        let full = self.full.min(clamp);
        let mask = (1 << scale) - 1;
        let window = if self.occupied.bytes == 0 { self.full } else { self.shrunk_window(full, rcv_mss, mask) };
        let window = window.min(limit);
        if scale == 0 && self.whole_segments {
            // Linux: `__tcp_select_window`.
            return window - window % rcv_mss.min(full).max(1);
        }
        (window + mask) & !mask
    }

    /// The window while something waits.
    #[inline]
    fn shrunk_window(&self, full: u32, rcv_mss: u32, mask: u32) -> u32 {
        let window = self.memory.free_window(self.rcvbuf, self.occupied);
        if window >= full >> 1 {
            return window;
        }
        // Less than a sixteenth, or than a segment: close the window rather than announce crumbs
        // (RFC 9293 section 3.8.6.2.2).
        let rounded = window & !mask;
        if rounded < self.full >> 4 || rounded < rcv_mss { 0 } else { rounded }
    }
}

impl Rx {
    /// `rcvbuf`, `max_rcvbuf`: initial and largest buffer, bytes.
    pub(super) fn new(rcvbuf: u32, max_rcvbuf: u32, stack: &'static Stack, device: Device) -> Self {
        let mut rx = Self {
            stack,
            first: DataSeq::default(),
            next: 0,
            waiting: Reassembly::new(),
            unread: 0,
            read: 0,
            edge: 0,
            window: 0,
            rcvbuf,
            max_rcvbuf,
            rcv_ssthresh: 0,
            memory: ReceiveMemory::new(stack).with_device(device),
            packets: (device == Device::Tun).then(Packets::default),
            full: 0,
            read_space: ReadSpace::default(),
            rtt_us: 0,
            samples: RttSamples::default(),
            fin: None,
            finished: false,
            counters: ReassemblyCounters::default(),
            disorder: ReorderStats::default(),
            before_reader: None,
        };
        rx.resize(rcvbuf);
        rx
    }

    fn resize(&mut self, rcvbuf: u32) {
        self.rcvbuf = rcvbuf;
        self.full = self.memory.win_from_space(u64::from(rcvbuf));
    }

    /// The peer's key is known: data begins at `dsn`. `space` is the first estimate of what is read
    /// in a round trip, `window` what has been announced.
    pub(super) fn start(&mut self, now: Instant, dsn: DataSeq, space: u64, window: u32) {
        debug_assert!(self.next == 0 && self.waiting.is_empty(), "nothing has come before the key was known");
        self.first = dsn;
        self.next = 0;
        self.edge = u64::from(window);
        self.read_space.start(now, space);
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

    /// How far from the first byte a data sequence number of the peer's is; what lies before it, at
    /// a distance that no connection reaches.
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
        ReassemblyCounters {
            max_memory: self.counters.max_memory.max(Bytes::new(self.memory.charge(Waiting::together(self.waiting.most())))),
            ..self.counters
        }
    }

    pub(super) fn disorder(&self, now: Instant) -> ReorderStats {
        self.disorder.until(now)
    }

    /// See [`Rx::edge`](#structfield.edge).
    #[inline]
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }

    /// Largest window that the buffer stands for, bytes.
    #[inline]
    pub(super) fn full_window(&self) -> u32 {
        self.full
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
            self.counters.duplicate += Bytes::from_u32(len);
            return false;
        };
        let end = place + u64::from(len);
        if place > self.next {
            self.wait(now, place, end);
            return false;
        }
        if end <= self.next {
            self.counters.duplicate += Bytes::from_u32(len);
            return false;
        }
        self.counters.duplicate += Bytes::new(self.next - place);
        let before = self.next;
        self.next = end;
        if !self.waiting.is_empty() {
            self.join(now);
        }
        self.unread += self.next - before;
        debug_assert!(self.read + self.unread + u64::from(self.finished) == self.next, "what is in order waits for the reader or was read");
        true
    }

    /// A packet of this memory brings `len` bytes at `dsn`.
    #[cold]
    pub(super) fn hold(&mut self, dsn: DataSeq, len: u32, memory: Truesize) {
        let (Some(place), Some(packets)) = (self.place(dsn), self.packets.as_mut()) else { return };
        let end = place + u64::from(len);
        if end > self.next && (place <= self.next || end <= self.edge) {
            packets.insert(in_packets(place), in_packets(end), memory);
        }
    }

    /// What waits for the reader or beyond a hole.
    #[inline]
    fn occupied(&self) -> Waiting {
        let truesize = self.packets.as_ref().map_or(0, Packets::truesize);
        Waiting { truesize, ..Waiting::together(self.waiting.bytes() + self.unread) }
    }

    /// What waited for what has just come follows it.
    #[inline]
    fn join(&mut self, now: Instant) {
        self.next = self.waiting.take(self.next);
        if let Some(packets) = &mut self.packets {
            packets.join(in_packets(self.next));
        }
        self.disorder.set(now, Bytes::new(self.waiting.bytes()));
    }

    /// Keeps `start..end` until what is missing before it has come.
    #[inline]
    fn wait(&mut self, now: Instant, start: u64, end: u64) {
        if end > self.edge {
            self.counters.beyond_window += Bytes::new(end - start);
            return;
        }
        self.counters.duplicate += Bytes::new(self.waiting.keep(start, end));
        debug_assert!(start > self.next, "what waits lies beyond a gap");
        self.disorder.on_out_of_order(now, Bytes::new(start - self.next), Bytes::new(self.waiting.bytes()));
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
            debug_assert!(!self.finished, "data ends once");
            self.next += 1;
            self.edge = self.edge.max(self.next);
            self.fin = None;
            self.finished = true;
        }
        due
    }

    /// What there is room for now.
    #[inline]
    pub(super) fn room(&self) -> Room {
        Room {
            occupied: self.occupied(),
            rcvbuf: self.rcvbuf,
            full: self.full,
            memory: self.memory,
            whole_segments: !self.stack.shared_rcv_ssthresh,
        }
    }

    /// A segment has come at `now`, and the reader has not.
    #[inline]
    pub(super) fn note_before_reader(&mut self, now: Instant) {
        self.before_reader = Some((now, self.room()));
    }

    /// The application writes: what leaves now is no answer.
    pub(super) fn forget_before_reader(&mut self) {
        self.before_reader = None;
    }

    /// What there was room for before the reader came, where that was at `now`.
    #[inline]
    pub(super) fn room_before_reader(&self, now: Instant) -> Option<Room> {
        self.before_reader.filter(|&(at, _)| at == now).map(|(_, room)| room)
    }

    /// This window is announced without a data acknowledgement.
    #[inline]
    pub(super) fn announce(&mut self, window: u32) -> u32 {
        self.window = window;
        window
    }

    /// The window to announce where there is room for `window`: its right edge never moves back.
    #[inline]
    pub(super) fn advertise(&mut self, mut window: u32) -> u32 {
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
        self.unread == 0 && self.waiting.is_empty()
    }

    /// The application reads all that is in order; returns whether the window has grown enough to
    /// tell the peer at once. `measure` tells what the subflows' receivers have measured.
    #[inline(always)]
    pub(super) fn read(&mut self, now: Instant, most: u64, measure: impl FnOnce() -> Measured) -> Read {
        let bytes = self.unread.min(most);
        if bytes == 0 {
            return Read::default();
        }
        self.unread -= bytes;
        self.read += bytes;
        if let Some(packets) = &mut self.packets {
            packets.read(in_packets(self.read));
        }
        debug_assert!(self.read + self.unread + u64::from(self.finished) == self.next, "what came in order waits or is read");
        let grown = self.adjust(now, measure);
        Read { grown, update: self.memory.free_window(self.rcvbuf, self.occupied()) >= self.window.saturating_mul(2) }
    }

    /// A subflow's receiver is sampled: see [`Stack::meta_rcv_samples`].
    #[cold]
    pub(super) fn take_sample(&mut self, rtt_us: u32, scaling_ratio: u32) {
        debug_assert!(self.stack.meta_rcv_samples, "else all subflows are asked when the buffer may grow");
        self.rtt_us = self.samples.add(rtt_us);
        self.set_scaling_ratio((7 * self.memory.scaling_ratio() + scaling_ratio) >> 3);
    }

    #[inline]
    fn set_scaling_ratio(&mut self, ratio: u32) {
        if ratio != self.memory.scaling_ratio() {
            self.memory.set_scaling_ratio(ratio);
            self.resize(self.rcvbuf);
        }
    }

    /// Most bytes that were read in a round trip.
    pub(super) fn most_read(&self) -> u64 {
        self.read_space.most()
    }

    /// Dynamic right-sizing, once in a round trip.
    #[inline]
    fn adjust(&mut self, now: Instant, measure: impl FnOnce() -> Measured) -> bool {
        let elapsed = self.read_space.elapsed_us(now);
        if elapsed < u64::from(self.rtt_us) {
            return false;
        }
        let mut advmss = 0;
        if !self.stack.meta_rcv_samples {
            let measured = measure();
            (self.rtt_us, advmss) = (measured.rtt_us, measured.advmss);
            self.set_scaling_ratio(measured.scaling_ratio);
        }
        if self.rtt_us == 0 || elapsed < u64::from(self.rtt_us) {
            return false;
        }
        let growth = ReadGrowth::new(self.stack, advmss, None);
        let unread = if self.stack.meta_rcv_samples { self.unread } else { 0 };
        let Some(window) = self.read_space.end_round(now, self.read, unread, &growth) else { return false };
        let rcvbuf = self.memory.grown_buffer(window, advmss).min(u64::from(self.max_rcvbuf)) as u32;
        debug_assert!(self.rcvbuf <= self.max_rcvbuf || rcvbuf <= self.rcvbuf, "a buffer beyond the limit was set so");
        let grown = rcvbuf > self.rcvbuf;
        if grown {
            self.resize(rcvbuf);
        }
        grown
    }
}

/// A place in the data as packets are kept by.
fn in_packets(place: u64) -> Seq {
    Seq::new(place as u32)
}

/// What the receivers of all subflows have measured.
#[derive(Copy, Clone, Debug)]
pub(super) struct Measured {
    /// Largest RTT, microseconds; 0 before the first.
    pub(super) rtt_us: u32,
    /// Largest segment announced, bytes.
    pub(super) advmss: u32,
    /// Smallest share of payload in memory, in 1/256: a subflow without data yet counts as
    /// unmeasured.
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
    use crate::receive_buffer::DEFAULT_SCALING_RATIO;
    use crate::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188};

    const WIDE: (u32, u32) = (u32::MAX, u32::MAX);

    fn advertise(rx: &mut Rx) -> u32 {
        rx.advertise(rx.room().window(WIDE, 1000, 0))
    }

    fn measured(rtt_us: u32) -> Measured {
        Measured { rtt_us, advmss: 1460, scaling_ratio: DEFAULT_SCALING_RATIO }
    }

    fn rx() -> Rx {
        let mut rx = Rx::new(131_072, 6_291_456, &MPTCP_0_96_LINUX_5_4_188, Device::Veth);
        rx.start(Instant::ZERO, DataSeq::new(1000), 14_480, 0);
        advertise(&mut rx);
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
            assert_eq!((rx.next().get(), rx.unread(), rx.waiting.is_empty(), rx.waiting.bytes()), (1600, 600, true, 0), "{order:?}");
        });
    }

    #[test]
    fn overlaps_are_counted_once() {
        let mut rx = rx();
        rx.insert(Instant::ZERO, DataSeq::new(1200), 100);
        rx.insert(Instant::ZERO, DataSeq::new(1250), 100);
        rx.insert(Instant::ZERO, DataSeq::new(1220), 10);
        assert_eq!(rx.waiting.bytes(), 150);
        assert_eq!(rx.counters().duplicate.get(), 60);
        rx.insert(Instant::ZERO, DataSeq::new(1400), 100);
        rx.insert(Instant::ZERO, DataSeq::new(1340), 60);
        assert_eq!(rx.waiting.bytes(), 300);
        assert!(rx.insert(Instant::ZERO, DataSeq::new(1000), 200));
        assert_eq!((rx.next().get(), rx.waiting.bytes()), (1500, 0));
        assert!(!rx.insert(Instant::ZERO, DataSeq::new(1000), 200));
    }

    #[test]
    fn the_right_edge_never_moves_back() {
        let mut rx = rx();
        assert_eq!(advertise(&mut rx), 65_536);
        rx.insert(Instant::ZERO, DataSeq::new(1000), 60_000); // unread: takes memory
        assert_eq!(advertise(&mut rx), 5_536);
        rx.read(Instant::from_nanos(1), u64::MAX, || measured(0));
        assert_eq!(advertise(&mut rx), 65_536);
    }

    #[test]
    fn data_beyond_the_window_is_refused() {
        let mut rx = rx();
        rx.insert(Instant::ZERO, DataSeq::new(1000 + 65_536), 1);
        assert_eq!((rx.waiting.is_empty(), rx.counters().beyond_window.get()), (true, 1));
    }

    #[test]
    fn the_buffer_follows_what_is_read() {
        let mut rx = rx();
        let mut now = Instant::ZERO;
        for _ in 0..20 {
            now += polypath_base::Duration::from_millis(10);
            let (next, window) = (rx.next(), advertise(&mut rx));
            rx.insert(Instant::ZERO, next, window);
            rx.read(now, u64::MAX, || measured(10_000));
        }
        assert_eq!(rx.rcvbuf, 6_291_456);
    }

    #[test]
    fn the_share_of_payload_counts_once_it_is_measured() {
        let mut rx = Rx::new(131_072, 6_291_456, &LINUX_6_12_117, Device::Veth);
        rx.start(Instant::ZERO, DataSeq::new(1000), 14_480, 0);
        assert_eq!(rx.full, 65_536, "half of the buffer");
        rx.insert(Instant::ZERO, DataSeq::new(1000), 1000);
        rx.read(Instant::from_nanos(10_000_000), u64::MAX, || Measured { scaling_ratio: 152, ..measured(10_000) });
        assert_eq!(rx.full, 131_072 / 256 * 152);
        // What waits takes little more memory than its bytes, and the window shrinks by its share
        // of that.
        advertise(&mut rx);
        rx.insert(Instant::ZERO, DataSeq::new(10_000), 20_000);
        assert_eq!(rx.room().window(WIDE, 1, 0), (131_072 - 20_960) * 152 / 256);
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
