//! What a receive buffer's memory stands for, and how it grows: the rules that a TCP endpoint and
//! an MPTCP connection share.

use crate::Device;
use crate::stack::{ReceiveCharge, Stack};
use polypath_base::{Duration, Instant};

/// Share of payload in the buffer, in 1/256, before a segment has been measured, and always without
/// [`Stack::rcv_scaling_ratio`].
pub(crate) const DEFAULT_SCALING_RATIO: u32 = 128;

/// Shorter segments do not let the window grow (Linux: `tcp_event_data_recv`), bytes.
pub(crate) const LEAST_GROWING: u32 = 128;

/// Segments of the announced size, without timestamps, for which the buffer has room beside twice
/// what was read (Linux: `tcp_rcv_space_adjust`).
const RESERVE_SEGMENTS: u64 = 16;

/// What a segment takes beside its payload where the buffer grows by whole segments, bytes: headers
/// 320, shared info 320, descriptor 256.
const GROWING_SEGMENT_OVERHEAD: u32 = 896;

/// Memory is added to it in steps of this, until it stands for a segment.
const GROWING_STEP: u32 = 128;

/// What the head of a buffer takes beside what is in it, bytes: shared info and descriptor.
const SHARED_INFO: u32 = 320;
const DESCRIPTOR: u32 = 256;

/// The memory of a received packet (Linux: `skb->truesize`), how much of it the payload needs if
/// its head has none (`truesize_adjust`), and how much more data there is room for in it
/// (`skb_tailroom`), bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truesize {
    pub(crate) bytes: u32,
    pub(crate) without_head: u32,
    pub(crate) room: u32,
}

impl Truesize {
    /// Of a packet of `ip_len` bytes, if anybody asks, with `len` of payload.
    #[inline]
    pub(crate) fn of(device: Device, ip_len: impl FnOnce() -> u32, len: u32) -> Self {
        /// On 6.12: windows of up to 153/256 of the buffer with segments of 1448 bytes, 231/256
        /// with 8948, 93/256 with 548 (specs/notes/buffer-memory). A head has 384 bytes.
        const PAGED: u32 = 384 + SHARED_INFO + DESCRIPTOR;
        match device {
            Device::Veth => Self { bytes: len + PAGED, without_head: len, room: 0 },
            Device::Tun => Self::of_tun(ip_len()),
        }
    }

    /// `tun_alloc_skb`: from a page on the packet lies in pages behind an empty head.
    #[cold]
    fn of_tun(ip_len: u32) -> Self {
        /// Before the packet (`NET_SKB_PAD`).
        const PAD: u32 = 64;
        const CACHE_LINE: u32 = 64;
        const PAGE: u32 = 4096;
        /// The smallest head (`SKB_SMALL_HEAD_SIZE`), which others are of powers of two.
        const SMALL: u32 = 704;
        if PAD + ip_len >= PAGE {
            let pages = ip_len.next_multiple_of(PAGE);
            return Self { bytes: SMALL + DESCRIPTOR + pages, without_head: pages, room: 0 };
        }
        let wanted = (PAD + ip_len).next_multiple_of(CACHE_LINE) + SHARED_INFO;
        let head = if wanted <= SMALL { SMALL } else { wanted.next_power_of_two() };
        let bytes = head + DESCRIPTOR;
        Self { bytes, without_head: bytes, room: head - SHARED_INFO - PAD - ip_len }
    }
}

/// What waits in a receive buffer.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// What its packets take, each a piece of memory ([`Device::Tun`]).
    pub(crate) truesize: u64,
    pub(crate) bytes: u64,
    /// Buffers that the bytes are in ([`merged_buffers`]).
    pub(crate) buffers: u64,
}

impl Waiting {
    /// All of it follows one another.
    pub(crate) fn together(bytes: u64) -> Self {
        Self { bytes, buffers: merged_buffers(bytes), truesize: 0 }
    }
}

/// How memory is counted: bytes of the buffer against bytes of payload.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ReceiveMemory {
    charge: ReceiveCharge,
    device: Device,
    grows_by_segments: bool,
    scaling_ratio: u32,
}

impl ReceiveMemory {
    pub(crate) fn new(stack: &Stack) -> Self {
        Self {
            charge: stack.rcv_charge,
            device: Device::default(),
            grows_by_segments: stack.rcvbuf_grows_by_segments,
            scaling_ratio: DEFAULT_SCALING_RATIO,
        }
    }

    /// Packets come by this device.
    pub(crate) fn with_device(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// Share of payload in the buffer's memory, in 1/256.
    #[inline]
    pub(crate) fn scaling_ratio(&self) -> u32 {
        self.scaling_ratio
    }

    pub(crate) fn set_scaling_ratio(&mut self, ratio: u32) {
        debug_assert!((1..=256).contains(&ratio), "it is a share of payload, in 1/256");
        self.scaling_ratio = ratio;
    }

    /// The window that so much memory stands for, bytes: the rest is for the packets' overhead.
    #[inline]
    pub(crate) fn win_from_space(&self, space: u64) -> u32 {
        ((space * u64::from(self.scaling_ratio)) >> 8) as u32
    }

    /// The buffer that grows to have room for a window of so many bytes; segments have `advmss` of
    /// them (Linux: `tcp_rcv_space_adjust`).
    pub(crate) fn grown_buffer(&self, window: u64, advmss: u32) -> u64 {
        if !self.grows_by_segments {
            return (window << 8) / u64::from(self.scaling_ratio);
        }
        let mut segment = advmss + GROWING_SEGMENT_OVERHEAD;
        while self.win_from_space(u64::from(segment)) < advmss {
            segment += GROWING_STEP;
        }
        window / u64::from(advmss) * u64::from(segment)
    }

    /// Memory that this takes while it waits.
    #[inline]
    pub(crate) fn charge(&self, waiting: Waiting) -> u64 {
        match (self.device, self.charge) {
            (Device::Tun, _) => waiting.truesize,
            (Device::Veth, ReceiveCharge::Twice) => 2 * waiting.bytes,
            (Device::Veth, ReceiveCharge::Merged) => merged_charge(waiting),
        }
    }

    /// The window that a buffer of `rcvbuf` bytes has room for while this is in it.
    #[inline]
    pub(crate) fn free_window(&self, rcvbuf: u32, waiting: Waiting) -> u32 {
        self.win_from_space(u64::from(rcvbuf).saturating_sub(self.charge(waiting)))
    }
}

/// Buffers of so many bytes that follow one another: some 16 segments are merged into one.
#[inline]
pub(crate) const fn merged_buffers(bytes: u64) -> u64 {
    const MERGED: u64 = 16 * 1424;
    if bytes > 0 { 1 + bytes / MERGED } else { 0 }
}

/// Memory that bytes take while they wait; those of a buffer share its overhead. Windows while 1 to
/// 4 segments of 1424 bytes waited in half of 128 KiB, in steps of 512 bytes: 64512, 64000, 62976
/// and 62464; in steps of 128 the first was 64384, and 76416 of 77824. So the first takes 2384, its
/// memory, and each of the others its length. Six segments of 1448 bytes with gaps between them
/// leave 70144 bytes of a window of 78336: each is a first (specs/notes/held-out).
#[inline]
const fn merged_charge(waiting: Waiting) -> u64 {
    const FIRST: u64 = 960;
    waiting.bytes + waiting.buffers * FIRST
}

/// How the window follows what is read.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ReadGrowth {
    /// Room beside twice what was read, bytes.
    pub(crate) reserve: u64,
    /// The round trip, where it is shorter than [`Stack::rcvbuf_low_rtt`].
    pub(crate) short: Option<Duration>,
    pub(crate) low_rtt: Duration,
}

impl ReadGrowth {
    /// For segments of `advmss` bytes and a round trip of `rtt_us`, which an MPTCP connection does
    /// not look at.
    pub(crate) fn new(stack: &Stack, advmss: u32, rtt_us: Option<u32>) -> Self {
        let rtt = rtt_us.map(|us| Duration::from_micros(u64::from(us)));
        Self {
            reserve: if stack.rcvbuf_reserves_segments { RESERVE_SEGMENTS * u64::from(advmss) } else { 0 },
            short: rtt.filter(|&rtt| rtt < stack.rcvbuf_low_rtt),
            low_rtt: stack.rcvbuf_low_rtt,
        }
    }

    /// The window, bytes, where `read` bytes were read in a round and at most `before` in those
    /// before.
    fn window(&self, before: u64, read: u64) -> u64 {
        debug_assert!(read >= before && before > 0, "the buffer follows the most that was read");
        let window = 2 * read + self.reserve;
        let part = |of: u64, whole: u64| (u128::from(window) * u128::from(of) / u128::from(whole)) as u64;
        window
            + match self.short {
                Some(rtt) => part(rtt.as_nanos(), self.low_rtt.as_nanos()),
                // Twice as much again for a sender in slow start.
                None => 2 * part(read - before, before),
            }
    }
}

/// Dynamic right-sizing (Linux: `tcp_rcv_space_adjust`): once in a round trip the buffer follows
/// twice what was read, more if that grows.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ReadSpace {
    /// Most bytes read in a round (Linux: `rcvq_space.space`).
    most: u64,
    /// Bytes that had been read when the round began.
    before: u64,
    began: Instant,
}

impl ReadSpace {
    /// The first round begins; `most`: see [`first_read_estimate`].
    pub(crate) fn start(&mut self, now: Instant, most: u64) {
        *self = Self { most, before: self.before, began: now };
    }

    /// It is no more than `most`.
    pub(crate) fn limit(&mut self, most: u32) {
        self.most = self.most.min(u64::from(most));
    }

    /// How long the round has lasted, microseconds.
    #[inline]
    pub(crate) fn elapsed_us(&self, now: Instant) -> u64 {
        now.since(self.began).as_micros()
    }

    /// The round is over: `read` bytes have been read in all, of which `waiting` do not count yet.
    /// The window to have room for, bytes, if more was read than in any round before.
    pub(crate) fn end_round(&mut self, now: Instant, read: u64, waiting: u64, growth: &ReadGrowth) -> Option<u64> {
        let copied = (read - self.before).saturating_sub(waiting);
        (self.before, self.began) = (read, now);
        if copied <= self.most || self.most == 0 {
            return None;
        }
        let before = std::mem::replace(&mut self.most, copied);
        Some(growth.window(before, copied))
    }

    /// Most bytes read in a round.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// An MPTCP connection has read `most` bytes in a round, and its buffer has grown: the window
    /// that its subflow has room for then, bytes.
    pub(crate) fn follow(&mut self, most: u64, growth: &ReadGrowth) -> Option<u64> {
        if self.most == 0 || most < self.most {
            return None;
        }
        let before = std::mem::replace(&mut self.most, most);
        Some(growth.window(before, most))
    }

    /// The window to have room for by what was read in the last rounds, bytes.
    pub(crate) fn window(&self, growth: &ReadGrowth) -> u64 {
        growth.window(self.most, self.most)
    }
}

/// What a receiver at first takes for the data read in a round trip, bytes; its buffer grows once
/// more is read.
pub(crate) fn first_read_estimate(window: u32, advmss: u32) -> u32 {
    (10 * advmss).min(window).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{LINUX_6_1_192, LINUX_6_12_117, LINUX_7_3_4, MPTCP_0_96_LINUX_5_4_188};

    const GROWTH: ReadGrowth = ReadGrowth { reserve: 16_000, short: None, low_rtt: Duration::ZERO };

    #[test]
    fn merged_segments_share_their_overhead() {
        let memory = ReceiveMemory::new(&LINUX_6_12_117);
        // Windows seen on 6.12 while so many segments waited in 128 KiB, rounded as the scale wants
        // (specs/notes/buffer-memory).
        for (segments, window) in [(0, 65_536), (1, 64_512), (2, 64_000), (3, 62_976), (4, 62_464)] {
            let free = memory.free_window(131_072, Waiting::together(segments * 1424));
            assert!(free <= window && window - free < 512 || free == window || free - window < 512, "{segments}: {free}");
        }
        assert_eq!(
            ReceiveMemory::new(&MPTCP_0_96_LINUX_5_4_188).free_window(131_072, Waiting::together(1000)),
            64_536,
            "a byte of window for a byte that waits"
        );
        assert_eq!(memory.free_window(1000, Waiting::together(2000)), 0);
        let apart = memory.charge(Waiting { bytes: 6 * 1448, buffers: 6, truesize: 0 });
        assert_eq!(apart - memory.charge(Waiting::together(6 * 1448)), 5 * 960, "with gaps between them they share nothing");
    }

    #[test]
    fn a_packet_takes_memory_in_powers_of_two_behind_a_tun_device() {
        // As the windows of 6.12 tell (tests/scripts/tcp-receive-memory.pkt).
        let bytes = |payload| Truesize::of(Device::Tun, || payload + 40, payload).bytes;
        assert_eq!([1, 280, 281, 600, 601, 1460].map(bytes), [960, 960, 1280, 1280, 2304, 2304]);
        assert_eq!(bytes(8960), 960 + 3 * 4096);
        assert_eq!(Truesize::of(Device::Tun, || 140, 100).room, 180);
        let of_veth = Truesize::of(Device::Veth, || 1500, 1448);
        assert_eq!((of_veth.bytes, of_veth.without_head), (2408, 1448), "its payload lies in pages");
    }

    #[test]
    fn a_buffer_grows_by_the_share_of_payload_or_by_whole_segments() {
        // tests/scripts/tcp-receive-buffer-grows.pkt
        assert_eq!(ReceiveMemory::new(&LINUX_6_12_117).grown_buffer(113_294, 1448), 226_588);
        assert_eq!(
            ReceiveMemory::new(&LINUX_6_1_192).grown_buffer(113_294, 1448),
            78 * 2984,
            "half of 2984 holds a segment, half of 2856 does not"
        );
    }

    #[test]
    fn the_window_follows_what_is_read_in_a_round() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut space = ReadSpace::default();
        space.start(at(0), 10_000);
        assert_eq!(space.elapsed_us(at(7)), 7000);
        assert_eq!(space.end_round(at(10), 10_000, 0, &GROWTH), None, "no more than was expected");
        assert_eq!(space.end_round(at(20), 30_000, 0, &GROWTH), Some(56_000 * 3), "20000 bytes, twice as many as before");
        assert_eq!(space.end_round(at(30), 55_000, 5000, &GROWTH), None, "what still waits does not count");
        space.limit(0);
        assert_eq!(space.end_round(at(40), 90_000, 0, &GROWTH), None, "nothing is known of earlier rounds");
    }

    #[test]
    fn a_short_round_trip_lets_it_grow_by_its_part_and_nothing_is_reserved() {
        let growth = ReadGrowth::new(&LINUX_7_3_4, 1448, Some(250));
        assert_eq!(growth.window(10_000, 20_000), 50_000, "a quarter of the millisecond");
        assert_eq!(ReadGrowth::new(&LINUX_7_3_4, 1448, Some(1000)).window(10_000, 20_000), 120_000);
        assert_eq!(ReadGrowth::new(&LINUX_6_12_117, 1448, Some(250)).window(10_000, 20_000), (40_000 + 16 * 1448) * 3);
    }

    #[test]
    fn the_first_estimate_is_ten_segments_within_the_window() {
        assert_eq!(first_read_estimate(65_535, 1460), 14_600);
        assert_eq!(first_read_estimate(5000, 1460), 5000);
    }
}
