//! The receive buffer of one endpoint: what it stands for, measured in memory, the threshold up to
//! which the window is announced, the receiver's own estimate of the round trip, and how the buffer
//! grows with what is read (DRS).

use crate::receive_buffer::{DEFAULT_SCALING_RATIO, ReadGrowth, ReadSpace, ReceiveMemory, Truesize, Waiting, first_read_estimate};
use crate::settings::{Device, Settings};
use crate::stack::Stack;
use polypath_base::{Instant, Seq};
use polypath_wire::{DEFAULT_MSS, Flags, Segment, TIMESTAMP_BYTES};

/// A segment that ends nothing counts as a full one from this on, options included, bytes (Linux:
/// `TCP_MIN_MSS`).
const LEAST_MSS: u32 = 88;
/// Segments that Linux merges into one buffer as they come, at most: each brings a page, and these
/// number at most 17 (`MAX_SKB_FRAGS`).
const MERGED_SEGMENTS: u32 = 17;
/// Longest round trip that an echoed timestamp can tell, ms: in microseconds it fits into 32 bits.
const MAX_ECHO_MS: u32 = 1 << 20;
/// `net.core.rmem_max` by default, which the window scale has room for (Linux:
/// `tcp_select_initial_window`): 256 buffers of 832 bytes.
const RMEM_MAX: u32 = 212_992;
/// Bits of the window field; a scale shifts it so far that the largest buffer fits, by at most 14
/// (RFC 7323 section 2.3).
const WINDOW_BITS: u32 = 16;
const MAX_SCALE: u32 = 14;

/// The window scale of an endpoint with these settings.
pub(super) fn window_scale(settings: &Settings) -> u8 {
    if !settings.window_scaling {
        return 0;
    }
    let space = settings.rmem[2].as_u32().max(RMEM_MAX);
    space.ilog2().saturating_sub(WINDOW_BITS - 1).min(MAX_SCALE) as u8
}

/// Buffer, window threshold and autotuning of one receiver.
#[derive(Debug)]
pub(in crate::tcp) struct ReceiveBuffer {
    stack: &'static Stack,
    pub(super) device: Device,
    rcvbuf: u32,
    rcvbuf_max: u32,
    memory: ReceiveMemory,
    /// Threshold up to which segments announce the window, and the largest that it may become,
    /// bytes.
    rcv_ssthresh: u32,
    window_clamp: u32,
    /// Largest segment received, bytes.
    segment_size: u32,
    /// The shorter segment that came just before; zero if it was none.
    last_segment_size: u32,
    /// MSS that this end announces, bytes.
    advertised_mss: u32,
    /// The same less the timestamps, once the connection is established: what the buffer is counted
    /// in, bytes.
    advmss: u32,
    /// The receiver's own estimate of the RTT; 0 before the first.
    rtt_us: u32,
    rtt_last_echo: u32,
    /// Where the window ended when a round trip began by that measure (Linux: `rcv_rtt_est.seq`), and
    /// whether the connection has its sample of it.
    rtt_edge: Option<Seq>,
    is_sampled: bool,
    read_space: ReadSpace,
}

impl ReceiveBuffer {
    pub(super) fn new(settings: &Settings, mtu: u32) -> Self {
        let whole = mtu - Segment::IPV4_HEADER - Segment::TCP_HEADER;
        let advertised_mss = settings.max_segment.map_or(whole, |most| whole.min(most.as_u32()));
        Self {
            stack: settings.stack,
            device: settings.device,
            rcvbuf: settings.rmem[1].as_u32(),
            rcvbuf_max: settings.rmem[2].as_u32(),
            memory: ReceiveMemory::new(settings.stack).with_device(settings.device),
            rcv_ssthresh: 0,
            window_clamp: 0,
            segment_size: DEFAULT_MSS,
            last_segment_size: 0,
            advertised_mss,
            advmss: advertised_mss,
            rtt_us: 0,
            rtt_last_echo: 0,
            rtt_edge: None,
            is_sampled: false,
            read_space: ReadSpace::default(),
        }
    }

    /// Before a segment has been measured the peer's are taken to be as long as own ones of
    /// `own_mss` bytes, at most 536, and no longer than half of the `window` (Linux:
    /// `tcp_initialize_rcv_mss`).
    pub(super) fn expect_segments(&mut self, own_mss: u32, window: u32) {
        self.segment_size = self.advmss.min(own_mss).min(window / 2).clamp(LEAST_MSS, DEFAULT_MSS);
    }

    /// The handshake begins with a window of `window` bytes; a field with this scale tells no more
    /// than `most`.
    pub(super) fn start(&mut self, window: u32, most: u32) {
        self.rcv_ssthresh = window;
        self.window_clamp = self.full_window().min(most);
    }

    /// The connection is established `now` with this `window`; `mss`: what this end announced less the
    /// timestamps (Linux: `tcp_init_buffer_space`).
    pub(super) fn established(&mut self, now: Instant, mss: u32, window: u32) {
        debug_assert!(mss <= self.advertised_mss, "timestamps take room from the MSS");
        self.advmss = mss;
        let full = self.full_window();
        if self.stack.rcv_reserves_segment && self.window_clamp + mss > full {
            self.window_clamp = full.saturating_sub(mss).max(2 * mss);
        }
        self.rcv_ssthresh = self.rcv_ssthresh.min(self.window_clamp);
        self.read_space.start(now, u64::from(first_read_estimate(window, self.advmss)));
        self.read_space.limit(self.rcv_ssthresh);
    }

    fn full_window(&self) -> u32 {
        self.memory.win_from_space(u64::from(self.rcvbuf))
    }

    /// The window that there is room for while so much waits.
    #[inline]
    fn free_window(&self, waiting: Waiting) -> u32 {
        self.memory.free_window(self.rcvbuf, waiting)
    }

    /// The window that there is room for, up to the threshold.
    #[inline]
    pub(super) fn usable_window(&self, waiting: Waiting) -> u32 {
        self.free_window(waiting).min(self.rcv_ssthresh)
    }

    /// A segment came: how much of the memory it takes is payload is measured with the first and
    /// with each larger one. True if it is none of the peer's full ones (Linux:
    /// `tcp_measure_rcv_mss`).
    #[inline]
    pub(super) fn measure_segment(&mut self, segment: &Segment) -> bool {
        let last = std::mem::take(&mut self.last_segment_size);
        if segment.len < self.segment_size {
            return self.measure_shorter(segment, last);
        }
        if segment.len > self.segment_size {
            self.measure_larger(segment);
        }
        false
    }

    /// A shorter segment is a full one if the one before was as long; SACK blocks count as data,
    /// since they take their room from it.
    #[inline(never)]
    fn measure_shorter(&mut self, segment: &Segment, last: u32) -> bool {
        let ends = segment.flags.has(Flags::PSH) | segment.flags.has(Flags::FIN) | segment.flags.has(Flags::URG);
        let options = segment.options_len();
        let may_be_full = segment.len + options >= if ends { DEFAULT_MSS } else { LEAST_MSS };
        if !may_be_full {
            return true;
        }
        let len = segment.len + options - if segment.has_ts { TIMESTAMP_BYTES } else { 0 };
        self.last_segment_size = len;
        if len == last {
            self.segment_size = len;
        }
        len != last
    }

    #[cold]
    fn measure_larger(&mut self, segment: &Segment) {
        let len = segment.len;
        self.segment_size = len.min(self.advertised_mss);
        let share = if self.stack.rcv_scaling_ratio { len * 256 / self.truesize(segment).bytes } else { DEFAULT_SCALING_RATIO };
        if share != self.memory.scaling_ratio() {
            self.memory.set_scaling_ratio(share);
            self.window_clamp = self.full_window();
            self.read_space.limit(self.window_clamp);
        }
    }

    /// The memory in which a segment has come.
    #[inline]
    pub(super) fn truesize(&self, segment: &Segment) -> Truesize {
        Truesize::of(self.device, || segment.ip_len(), segment.len)
    }

    /// Share of payload in the buffer's memory, in 1/256.
    #[inline]
    pub(in crate::tcp) fn scaling_ratio(&self) -> u32 {
        self.memory.scaling_ratio()
    }

    /// Threshold up to which segments announce the window (Linux: `rcv_ssthresh`), and the largest
    /// that it may become, bytes.
    #[inline]
    pub(in crate::tcp) fn window_limits(&self) -> (u32, u32) {
        (self.rcv_ssthresh, self.window_clamp)
    }

    pub(in crate::tcp) fn replace_window_limits(&mut self, limits: (u32, u32)) -> (u32, u32) {
        let before = self.window_limits();
        (self.rcv_ssthresh, self.window_clamp) = limits;
        before
    }

    /// Subflows: the meta connection's buffer has grown, for a window of up to `clamp` bytes.
    pub(in crate::tcp) fn set_size(&mut self, rcvbuf: u32, clamp: u32) {
        debug_assert!(rcvbuf >= self.rcvbuf, "a buffer does not shrink");
        (self.rcvbuf, self.window_clamp) = (rcvbuf, clamp);
    }

    #[inline]
    pub(in crate::tcp) fn rtt_us(&self) -> u32 {
        self.rtt_us
    }

    /// The peer has echoed a timestamp on a segment of `len` bytes: true if it tells a round trip,
    /// which is for [`ReceiveBuffer::on_rtt`].
    #[inline]
    pub(super) fn takes_echo(&mut self, echo: u32, len: u32) -> bool {
        if echo == self.rtt_last_echo || echo == 0 {
            return false;
        }
        self.rtt_last_echo = echo;
        len >= self.segment_size
    }

    /// A round trip took `ms`. The estimate is an average of eight, which the first begins. Where a
    /// shorter time is taken as it is, a queue's delay is not taken for the path's. `all_read`: nothing
    /// waits for the reader.
    pub(super) fn on_rtt(&mut self, ms: u32, all_read: bool) {
        if ms == 0 && !self.stack.rcv_rtt_zero_samples {
            return;
        }
        let us = ms.clamp(1, MAX_ECHO_MS) * 1000;
        let replaces = self.rtt_us == 0 || (self.stack.rcv_rtt_least && us < self.rtt_us);
        if !replaces && !all_read && self.stack.rcv_rtt_if_read {
            return;
        }
        self.rtt_us = if replaces { us } else { self.rtt_us - (self.rtt_us >> 3) + (us >> 3) };
        debug_assert!(self.rtt_us > 0, "an estimate that was made is not zero, which says that there is none");
    }

    /// Data has come up to `next` while `window` bytes were announced: RTT and share of payload, once
    /// for each window of it and as soon as there is an estimate (Linux: `tcp_rcv_rtt_measure`,
    /// `mptcp_rcv_rtt_update`).
    #[inline]
    pub(super) fn takes_sample(&mut self, next: Seq, window: u32) -> Option<(u32, u32)> {
        if self.rtt_edge.is_none_or(|edge| !next.before(edge)) {
            self.rtt_edge = Some(next + window);
            self.is_sampled = false;
        }
        if self.is_sampled || self.rtt_us == 0 {
            return None;
        }
        self.is_sampled = true;
        Some((self.rtt_us, self.memory.scaling_ratio()))
    }

    #[inline]
    pub(in crate::tcp) fn segment_size(&self) -> u32 {
        self.segment_size
    }

    #[inline]
    pub(in crate::tcp) fn advertised_mss(&self) -> u32 {
        self.advertised_mss
    }

    #[inline]
    pub(in crate::tcp) fn advmss(&self) -> u32 {
        self.advmss
    }

    /// The window of the handshake: all that there is room for, in whole segments of `mss` bytes
    /// (Linux: `tcp_select_initial_window`).
    pub(in crate::tcp) fn first_window(&self, mss: u32) -> u32 {
        let space = self.full_window();
        let whole = if space > mss { space - space % mss } else { space };
        if self.stack.first_window_fits_field { whole.min(u32::from(u16::MAX)) } else { whole }
    }

    /// The threshold is as large as it may become.
    #[inline]
    pub(super) fn has_full_threshold(&self) -> bool {
        self.rcv_ssthresh >= self.window_clamp
    }

    /// A segment of `len` bytes came while this waits: the threshold grows if there is room (Linux:
    /// `tcp_grow_window`); true if it did. `truesize`: the memory that it takes.
    #[inline]
    pub(super) fn grow_rcv_ssthresh(&mut self, len: u32, truesize: u32, waiting: Waiting) -> bool {
        if self.has_full_threshold() {
            return false;
        }
        let limit = self.window_clamp.min(self.free_window(waiting));
        if self.rcv_ssthresh >= limit {
            return false;
        }
        let by = if self.memory.win_from_space(u64::from(truesize)) <= len { 2 * self.advmss } else { self.growth_by_short(len, truesize) };
        self.rcv_ssthresh += if by == 0 { 0 } else { by.max(2 * len).min(limit - self.rcv_ssthresh) };
        debug_assert!(self.rcv_ssthresh <= limit, "no more is announced than there is room for");
        by > 0
    }

    /// By how much it grows for a segment of which the memory holds less than its share of payload:
    /// the less it holds, the nearer the threshold must be to nothing (Linux: `__tcp_grow_window`).
    #[cold]
    fn growth_by_short(&self, len: u32, truesize: u32) -> u32 {
        let mut payload = self.memory.win_from_space(u64::from(truesize)) >> 1;
        let mut most = self.memory.win_from_space(u64::from(self.rcvbuf_max)) >> 1;
        while self.rcv_ssthresh <= most {
            if payload <= len {
                return 2 * self.segment_size;
            }
            (payload, most) = (payload >> 1, most >> 1);
        }
        0
    }

    /// So much that waits has room in one buffer.
    pub(super) fn merges(&self, bytes: u32) -> bool {
        bytes <= MERGED_SEGMENTS * self.segment_size
    }

    /// The application reads the `unread` bytes that wait, of which the first buffer has `first`, after
    /// `read` others: the receive buffer grows to what it reads in a round trip. What waits behind a
    /// hole reaches `beyond` bytes far.
    #[inline]
    pub(super) fn on_read(&mut self, now: Instant, [first, unread]: [u32; 2], read: u64, beyond: u32) {
        if self.rtt_us == 0 || self.read_space.elapsed_us(now) < u64::from(self.rtt_us) {
            return;
        }
        // Linux measures after each buffer that is copied, so when the first one was.
        let first = if first > 0 { first } else { MERGED_SEGMENTS * self.segment_size }.min(unread);
        let waiting = if self.stack.rcvq_space_less_unread { unread - first } else { 0 };
        let growth = ReadGrowth::new(self.stack, self.advmss, Some(self.rtt_us));
        if let Some(window) = self.read_space.end_round(now, read + u64::from(first), u64::from(waiting), &growth) {
            self.grow(window, beyond);
        }
    }

    /// Something came beyond a hole; what waits there reaches `beyond` bytes far.
    pub(super) fn on_hole(&mut self, beyond: u32) {
        if self.stack.rcvbuf_grows_for_holes {
            self.grow(self.read_space.window(&ReadGrowth::new(self.stack, self.advmss, Some(self.rtt_us))), beyond);
        }
    }

    /// The connection reads at most `most` bytes in a round trip, and its buffer has grown.
    pub(super) fn follow(&mut self, most: u64, beyond: u32) {
        let growth = ReadGrowth::new(self.stack, self.advmss, Some(self.rtt_us));
        if let Some(window) = self.read_space.follow(most, &growth) {
            self.grow(window, beyond);
        }
    }

    fn grow(&mut self, window: u64, beyond: u32) {
        let beyond = if self.stack.rcvbuf_grows_for_holes { u64::from(beyond) } else { 0 };
        let rcvbuf = self.memory.grown_buffer(window + beyond, self.advmss).min(u64::from(self.rcvbuf_max)) as u32;
        if rcvbuf > self.rcvbuf {
            self.rcvbuf = rcvbuf;
            self.window_clamp = self.full_window();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188, Stack};
    use polypath_base::Bytes;

    fn of_bytes(len: u32) -> Segment {
        Segment { len, ..Segment::default() }
    }

    #[test]
    fn a_shorter_round_trip_counts_as_it_is_and_a_longer_one_by_an_eighth() {
        let estimates = |stack: &'static Stack| {
            let mut buffer = ReceiveBuffer::new(&Settings { stack, ..Settings::default() }, 1500);
            [80, 160, 72, 0].map(|ms| {
                buffer.on_rtt(ms, true);
                buffer.rtt_us()
            })
        };
        assert_eq!(estimates(&LINUX_6_12_117), [80_000, 90_000, 72_000, 72_000]);
        assert_eq!(
            estimates(&MPTCP_0_96_LINUX_5_4_188),
            [80_000, 90_000, 87_750, 76_907],
            "5.4 has the average alone, and a millisecond at least"
        );
    }

    #[test]
    fn the_share_of_payload_is_that_of_the_largest_segment() {
        // What Linux 6.12 announced of a buffer of 6 MiB, in 1/256 (specs/notes/buffer-memory).
        for (len, share) in [(8948, 231), (1448, 153), (1424, 152), (1348, 149), (1324, 148), (548, 93), (524, DEFAULT_SCALING_RATIO)] {
            let mut buffer = ReceiveBuffer::new(&Settings::default(), 9000);
            buffer.start(65_535, u32::MAX);
            buffer.measure_segment(&of_bytes(len));
            assert_eq!(buffer.scaling_ratio(), share, "{len}");
            assert_eq!(buffer.window_clamp, buffer.rcvbuf / 256 * share);
            buffer.measure_segment(&of_bytes(100));
            assert_eq!(buffer.scaling_ratio(), share, "short segments tell nothing");
        }
    }

    #[test]
    fn the_scale_lets_the_largest_buffer_be_announced() {
        let scale = |most| window_scale(&Settings { rmem: [4096, 131_072, most].map(Bytes::new), ..Settings::default() });
        assert_eq!([0, 6_291_456, u64::from(u32::MAX)].map(scale), [2, 7, 14], "at least for rmem_max");
        assert_eq!(window_scale(&Settings { window_scaling: false, ..Settings::default() }), 0);
    }

    #[test]
    fn the_threshold_grows_by_two_segments_while_there_is_room() {
        let mut buffer = ReceiveBuffer::new(&Settings::default(), 1500);
        buffer.start(10_000, u32::MAX);
        assert!(buffer.grow_rcv_ssthresh(500, 1000, Waiting::together(0)));
        assert_eq!(buffer.window_limits(), (12_920, 65_536));
        assert!(!buffer.grow_rcv_ssthresh(500, 1000, Waiting::together(120_000)), "what waits leaves less than the threshold");
        assert_eq!(buffer.usable_window(Waiting::together(120_000)), buffer.free_window(Waiting::together(120_000)));
    }

    #[test]
    fn the_buffer_follows_what_is_read_in_a_round_trip_up_to_its_largest_size() {
        let mut buffer = ReceiveBuffer::new(&Settings::default(), 1500);
        buffer.start(65_535, u32::MAX);
        buffer.established(Instant::ZERO, 1448, 65_535);
        buffer.measure_segment(&of_bytes(1448));
        let at = |ms| Instant::ZERO + polypath_base::Duration::from_millis(ms);
        buffer.on_read(at(10), [0, 20_000], 0, 0);
        assert_eq!(buffer.rcvbuf, 131_072, "no round trip has been measured");
        buffer.on_rtt(10, true);
        buffer.on_read(at(5), [0, 20_000], 0, 0);
        assert_eq!(buffer.rcvbuf, 131_072, "the round is not over");
        // 20000 bytes instead of 14480: twice that and 16 segments, and as much again as it grows
        // by, twice.
        buffer.on_read(at(10), [0, 20_000], 0, 0);
        let window = 40_000 + 16 * 1448;
        assert_eq!(u64::from(buffer.rcvbuf), (window + window * 5520 / 14_480 * 2) * 256 / 153);
        assert_eq!(buffer.window_clamp, buffer.full_window());
        for round in 2..12 {
            buffer.on_read(at(10 * round), [0, 24_000], 1 << (14 + round), 0);
        }
        assert_eq!(buffer.rcvbuf, 6_291_456);
    }
}
