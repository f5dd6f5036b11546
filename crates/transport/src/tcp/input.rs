//! The receiving half: data in order, ACK policy, receive window and its autotuning.

mod window;

pub(crate) use window::rmem_charge;

use super::Socket;
use super::out_of_order::OutOfOrderQueue;
use super::timer::Timer;
use crate::ReorderStats;
use crate::settings::Settings;
use crate::stack::Stack;
use polypath_base::{DataSeq, Duration, Instant, Seq};
use polypath_wire::{Flags, Segment};

/// Segments that are acknowledged one by one at the start and after idle times (Linux: `TCP_MAX_QUICKACKS`).
const MAX_QUICK_ACKS: u32 = 16;
/// Duplicate ACKs that leave at once before compression begins.
const UNCOMPRESSED: u32 = 3;
/// Most ACKs that one compressed ACK stands for (`tcp_comp_sack_nr`).
const MAX_COMPRESSED: u32 = 44;
/// Longest delay of a compressed ACK (`tcp_comp_sack_delay_ns`).
const COMPRESSED_DELAY: Duration = Duration::from_millis(1);
/// Segments that Linux merges into one buffer as they come, at most: each brings a page, and these number at most 17.
const MERGED_SEGMENTS: u32 = 17;
/// Share of payload in the buffer, in 1/256, before a segment has been measured, and always without [`Stack::rcv_scaling_ratio`].
pub(crate) const DEFAULT_SCALING_RATIO: u32 = 128;

#[derive(Debug)]
pub(super) struct Receiver {
    next: Seq,
    /// `next` when the last ACK left, and the window it announced.
    acked: Seq,
    window: u32,
    scale: u8,
    /// Window scaling is on, as far as is known yet (Linux: `wscale_ok`).
    scaling_ok: bool,
    stack: &'static Stack,
    pub(super) out_of_order: OutOfOrderQueue,
    pub(super) disorder: ReorderStats,
    fin: Option<Seq>,
    finished: bool,
    ts_recent: u32,
    ts_recent_at: Instant,

    ack_now: bool,
    ack_scheduled: bool,
    /// A segment that ends a burst or is not full has come since the last ACK: a reader that empties the buffer answers it.
    ack_pushed: bool,
    /// Data went out soon after data had come: a conversation, in which answers carry the ACKs (Linux: `pingpong`).
    pingpong: bool,
    quick: u32,
    ato: Duration,
    delack_min: Duration,
    last_data_at: Option<Instant>,
    segment_size: u32,
    compressed: u32,
    duplicate_acks: u32,
    compressed_from: Seq,

    low_water: u32,
    unread: u32,
    read: u64,
    received: u64,

    rcvbuf: u32,
    rcvbuf_max: u32,
    /// Share of payload in the buffer's memory, in 1/256.
    scaling_ratio: u32,
    rcv_ssthresh: u32,
    window_clamp: u32,
    advertised_mss: u32,
    rtt_us: u32,
    rtt_last_echo: u32,
    rcvq_space: u32,
    rcvq_copied: u64,
    measured_at: Instant,
}

/// Data received in order: pieces of the data sequence space, one after the other. Nearly always it is one.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// Data sequence number and length; of length zero if there is nothing.
    first: (DataSeq, u32),
    more: Vec<(DataSeq, u32)>,
}

impl Delivered {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.1 == 0
    }

    /// The pieces, as (data sequence number, length).
    #[inline]
    pub(crate) fn pieces(&self) -> ((DataSeq, u32), &[(DataSeq, u32)]) {
        (self.first, &self.more)
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.first = (DataSeq::default(), 0);
        self.more.clear();
    }

    #[inline]
    fn push(&mut self, dsn: DataSeq, len: u32) {
        if self.first.1 == 0 {
            self.first = (dsn, len);
        } else {
            self.push_more(dsn, len);
        }
    }

    #[cold]
    fn push_more(&mut self, dsn: DataSeq, len: u32) {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.0 + u64::from(last.1) == dsn {
            last.1 += len;
        } else {
            self.more.push((dsn, len));
        }
    }
}

impl Receiver {
    pub(super) fn new(settings: &Settings, mtu: u32) -> Self {
        let space = settings.rmem[2].max(212_992);
        // Linux: enough bits that the largest buffer fits into 16 bits of window.
        let scale = if settings.window_scaling { (space.ilog2().saturating_sub(15)).min(14) as u8 } else { 0 };
        Self {
            next: Seq::default(),
            acked: Seq::default(),
            window: 0,
            scale,
            scaling_ok: settings.window_scaling,
            stack: settings.stack,
            out_of_order: OutOfOrderQueue::default(),
            disorder: ReorderStats::default(),
            fin: None,
            finished: false,
            ts_recent: 0,
            ts_recent_at: Instant::ZERO,
            ack_now: false,
            ack_scheduled: false,
            ack_pushed: false,
            pingpong: false,
            quick: 0,
            ato: Duration::ZERO,
            delack_min: settings.delack_min,
            last_data_at: None,
            segment_size: 536,
            compressed: 0,
            duplicate_acks: 0,
            compressed_from: Seq::default(),
            low_water: settings.receive_low_water.max(1),
            unread: 0,
            read: 0,
            received: 0,
            rcvbuf: settings.rmem[1],
            rcvbuf_max: settings.rmem[2],
            scaling_ratio: DEFAULT_SCALING_RATIO,
            rcv_ssthresh: 0,
            window_clamp: 0,
            advertised_mss: mtu - Segment::IPV4_HEADER - Segment::TCP_HEADER,
            rtt_us: 0,
            rtt_last_echo: 0,
            rcvq_space: 0,
            rcvq_copied: 0,
            measured_at: Instant::ZERO,
        }
    }

    pub(super) fn start(&mut self, next: Seq) {
        self.next = next;
        self.acked = next;
        self.compressed_from = next;
        self.window = u32::from(self.syn_window());
        self.rcv_ssthresh = self.window;
        self.window_clamp = self.win_from_space(self.rcvbuf);
    }

    /// `mss`: what this end announced less the timestamps.
    pub(super) fn established(&mut self, mss: u32) {
        if self.stack.rcv_reserves_segment {
            self.window_clamp = self.window_clamp.saturating_sub(mss).max(2 * mss);
            self.rcv_ssthresh = self.rcv_ssthresh.min(self.window_clamp);
        }
        self.rcvq_space = first_read_estimate(self.stack, self.window, self.advertised_mss);
        if self.stack.rcvq_space_ten_segments {
            self.rcvq_space = self.rcvq_space.min(self.rcv_ssthresh);
        }
    }

    /// The peer, or this end, does without the option.
    pub(super) fn disable_scaling(&mut self) {
        self.scale = 0;
        self.scaling_ok = false;
    }

    pub(super) fn window_scale(&self) -> u8 {
        self.scale
    }

    /// The window scale to offer, which answers no SYN without one (RFC 7323 section 2.2).
    pub(super) fn offered_scale(&self) -> Option<u8> {
        self.scaling_ok.then_some(self.scale)
    }

    #[inline]
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    #[inline]
    pub(super) fn ts_recent(&self) -> u32 {
        self.ts_recent
    }

    pub(super) fn finished(&self) -> bool {
        self.finished
    }

    pub(super) fn read_bytes(&self) -> u64 {
        self.read
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.received
    }

    pub(super) fn cancel_acks(&mut self) {
        (self.ack_now, self.ack_scheduled) = (false, false);
    }

    /// An unacceptable segment: answer at once, and say which part was a duplicate (RFC 2883 section 4).
    #[cold]
    pub(super) fn duplicate(&mut self, segment: &Segment, dsack: bool) {
        let end = segment.seq + segment.len;
        if segment.len > 0 {
            self.quick = MAX_QUICK_ACKS;
            self.pingpong = false;
            if dsack && segment.seq.before(self.next) {
                self.out_of_order.report_duplicate(segment.seq, end.min(self.next));
            }
        }
        self.ack_now = true;
    }

    /// RFC 7323 section 4.3: the timestamp of the segment that the next ACK is sent for.
    #[inline]
    pub(super) fn note_timestamp(&mut self, now: Instant, segment: &Segment) {
        // An older one that was let through is not remembered, as in Linux.
        if segment.has_ts && !segment.seq.after(self.acked) && !self.is_older(segment.ts_val, 0) {
            self.ts_recent = segment.ts_val;
            self.ts_recent_at = now;
        }
    }

    /// The peer's clock showed more than this when [`Receiver::ts_recent`] was sent, by more than `ms`.
    #[inline]
    pub(super) fn is_older(&self, ts_val: u32, ms: i32) -> bool {
        self.ts_recent.wrapping_sub(ts_val) as i32 > ms && self.ts_recent != 0
    }

    /// What the peer's clock showed says nothing any more.
    pub(super) fn forget_timestamp(&mut self) {
        self.ts_recent = 0;
    }

    /// When [`Receiver::ts_recent`] came.
    pub(super) fn ts_recent_at(&self) -> Instant {
        self.ts_recent_at
    }

    // ACK policy.

    #[inline]
    pub(super) fn ack_is_due(&self) -> bool {
        self.ack_now
    }

    /// An ACK waits for its timer.
    pub(super) fn ack_is_scheduled(&self) -> bool {
        self.ack_scheduled
    }

    /// The next segments, so many at least, are acknowledged one by one.
    pub(super) fn quick_acks(&mut self, count: u32) {
        self.quick = self.quick.max(count);
        self.ato = self.delack_min;
        self.pingpong = false;
    }

    /// Data leaves.
    #[inline]
    pub(super) fn on_data_sent(&mut self, now: Instant) {
        if let Some(last) = self.last_data_at {
            self.pingpong |= now.since(last) < self.ato;
        }
    }

    #[inline]
    pub(super) fn ack_now(&mut self) {
        self.ack_now = true;
    }

    pub(super) fn delayed_ack_due(&mut self) {
        if self.ack_scheduled {
            if self.pingpong {
                // No answer came.
                self.pingpong = false;
                self.ato = self.delack_min;
            } else {
                // Linux: a delayed ACK that had to wait for its timer inflates the next delay.
                self.ato = (self.ato * 2).min(Duration::from_millis(200));
            }
            self.ack_now = true;
        }
    }

    pub(super) fn compressed_ack_due(&mut self) {
        if self.compressed > 0 {
            self.ack_now = true;
        }
    }

    /// Any segment carries an ACK; true if timers for one were pending. The window of a subflow's segment is the connection's,
    /// which calls [`Receiver::set_window`].
    #[inline]
    pub(super) fn ack_sent(&mut self, is_subflow: bool) -> bool {
        self.ack_now = false;
        if self.quick > 0 && self.ack_scheduled {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = self.delack_min;
            }
        }
        let had_timers = self.ack_scheduled || self.compressed > 0;
        self.ack_scheduled = false;
        self.ack_pushed = false;
        self.compressed = 0;
        // What is left of a subflow's is less by what has come on it.
        self.window = if is_subflow { (self.window_left() as i32).max(0) as u32 } else { self.select_window() };
        self.acked = self.next;
        had_timers
    }
}

impl Socket {
    pub(super) fn handle_data(&mut self, now: Instant, segment: &Segment) {
        if segment.flags.has(Flags::FIN) {
            self.rx.fin = Some(segment.seq + segment.len);
        }
        let (mut seq, mut len, mut dsn) = (segment.seq, segment.len, segment.dss.dsn);
        if seq.before(self.rx.next) {
            // The front was received before (RFC 2883: report it).
            let known = self.rx.next.distance(seq).min(len);
            if known > 0 && self.sack_ok && self.settings.dsack {
                self.rx.out_of_order.report_duplicate(seq, seq + known);
                self.rx.ack_now = true;
            }
            (seq, len, dsn) = (seq + known, len - known, dsn + u64::from(known));
        }
        let out_of_order = seq != self.rx.next;
        self.check_marks(self.rx.next, segment);
        if out_of_order {
            let ahead = u64::from(seq.distance(self.rx.next));
            if self.rx.out_of_order.insert(seq, seq + len, dsn) {
                self.rx.received += u64::from(len);
            }
            self.measure_rtt(now, segment);
            self.rx.disorder.on_out_of_order(now, ahead, u64::from(self.rx.out_of_order.bytes()));
            let rx = &mut self.rx;
            let flushes = rx.out_of_order.note(seq, seq + len, rx.compressed > 0, rx.stack.comp_sack_blocks);
            self.schedule_ack(now, segment, true);
            if flushes {
                // The compressed ACK that leaves tells of what was before. This segment waits for another: Linux takes it for answered.
                self.rx.ack_now = true;
            }
            return;
        }
        self.rx.received += u64::from(len);
        self.deliver(dsn, len);
        self.rx.next = seq + len;
        if !self.rx.out_of_order.is_empty() {
            self.drain_out_of_order();
            self.rx.disorder.set(now, u64::from(self.rx.out_of_order.bytes()));
        }
        if self.rx.fin == Some(self.rx.next) {
            self.rx.next += 1;
            self.rx.fin = None;
            self.rx.finished = true;
            self.rx.ack_now = true;
        }
        self.measure_rtt(now, segment);
        self.schedule_ack(now, segment, false);
        if !self.is_subflow && (self.rx.unread >= self.rx.low_water || self.rx.finished) {
            self.read(now);
        }
    }

    #[inline]
    fn deliver(&mut self, dsn: DataSeq, len: u32) {
        if len == 0 {
            return;
        }
        if !self.is_subflow {
            self.rx.unread += len;
            return;
        }
        self.rx.read += u64::from(len);
        self.delivered.push(dsn, len);
    }

    fn drain_out_of_order(&mut self) {
        while let Some((dsn, len)) = self.rx.out_of_order.pop(self.rx.next) {
            self.deliver(dsn, len);
            self.rx.next += len;
        }
        if self.rx.out_of_order.is_empty() {
            // RFC 5681 section 4.2: an ACK at once when a gap is filled.
            self.rx.ack_now = true;
        }
    }

    /// The application reads everything that waits; the buffer grows to what it read in a round trip (dynamic right-sizing).
    fn read(&mut self, now: Instant) {
        let rx = &mut self.rx;
        let unread = std::mem::take(&mut rx.unread);
        let elapsed = now.since(rx.measured_at).as_micros();
        if rx.rtt_us > 0 && elapsed >= u64::from(rx.rtt_us) {
            // Linux measures after each buffer that is copied, so when the first one was.
            let first = unread.min(MERGED_SEGMENTS * rx.segment_size);
            let waits = if rx.stack.rcvq_space_less_unread { unread - first } else { 0 };
            let counted = rx.read + u64::from(first);
            let copied = (counted - rx.rcvq_copied).saturating_sub(u64::from(waits)).min(u64::from(u32::MAX)) as u32;
            if copied > rx.rcvq_space {
                let mut window = 2 * u64::from(copied) + 16 * u64::from(rx.advertised_mss);
                // Twice as much again for a sender in slow start.
                window += 2 * (window * u64::from(copied - rx.rcvq_space) / u64::from(rx.rcvq_space));
                let rcvbuf = rx.space_from_win(window).min(u64::from(rx.rcvbuf_max)) as u32;
                if rcvbuf > rx.rcvbuf {
                    rx.rcvbuf = rcvbuf;
                    rx.window_clamp = rx.win_from_space(rcvbuf);
                }
                rx.rcvq_space = copied;
            }
            rx.rcvq_copied = counted;
            rx.measured_at = now;
        }
        rx.read += u64::from(unread);
        // A reader that empties the buffer acknowledges what ended a burst or was short, unless an answer will.
        if rx.ack_pushed() && !rx.pingpong && rx.out_of_order.is_empty() {
            rx.ack_now = true;
            return;
        }
        // A reader that frees much window says so (Linux: when the window doubles).
        if rx.select_window() >= 2 * rx.window_left().max(rx.advertised_mss) && 2 * rx.window_left() <= rx.window_clamp {
            rx.ack_now = true;
        }
    }

    /// The receiver's own estimate of the round trip, from echoed timestamps.
    #[inline]
    fn measure_rtt(&mut self, now: Instant, segment: &Segment) {
        if self.ts_ok && segment.ts_ecr != self.rx.rtt_last_echo && segment.ts_ecr != 0 {
            self.rx.rtt_last_echo = segment.ts_ecr;
            if segment.len >= self.rx.segment_size {
                self.rx.note_rtt(super::timestamp(now).wrapping_sub(self.echoed(segment)));
            }
        }
    }

    /// Data came in its turn: how long an ACK may wait follows the gaps between arrivals, and after a long one, be it while a hole was mended,
    /// each segment is acknowledged for a while.
    #[inline]
    fn note_arrival(&mut self, now: Instant) {
        let rx = &mut self.rx;
        if let Some(last) = rx.last_data_at.replace(now) {
            let gap = now.since(last);
            let half = rx.delack_min / 2;
            if gap <= half {
                rx.ato = rx.ato / 2 + half;
            } else if gap < rx.ato {
                rx.ato = (rx.ato / 2 + gap).min(self.settings.delack_max);
            } else if gap > self.rtt.rto() {
                rx.quick = rx.quick.max((rx.window / (2 * rx.segment_size)).clamp(2, MAX_QUICK_ACKS));
            }
        } else {
            rx.quick = rx.quick.max((rx.window / (2 * rx.segment_size)).clamp(2, MAX_QUICK_ACKS));
            rx.ato = rx.delack_min;
        }
    }

    /// Now, later, or compressed: RFC 5681 section 4.2 with Linux's quick ACKs and ACK compression.
    fn schedule_ack(&mut self, now: Instant, segment: &Segment, out_of_order: bool) {
        if !out_of_order {
            self.note_arrival(now);
        }
        let rx = &mut self.rx;
        if !out_of_order || rx.stack.rcv_mss_beyond_hole {
            rx.measure_segment(segment.len);
        }
        rx.ack_scheduled = true;
        if segment.len >= 128 && !(self.is_subflow && rx.stack.shared_rcv_ssthresh) {
            rx.grow_rcv_ssthresh(segment.len);
        }
        if segment.len < rx.segment_size || (rx.stack.ack_pushed_full && segment.flags.has(Flags::PSH)) {
            rx.ack_pushed = true;
        }
        let left_to_meta = self.is_subflow && rx.stack.meta_acks;
        let full_frames = !left_to_meta && rx.next.distance(rx.acked) > rx.segment_size;
        if full_frames || (rx.quick > 0 && !rx.pingpong) || rx.ack_now {
            rx.ack_now = true;
            return;
        }
        if !out_of_order && rx.out_of_order.is_empty() {
            if !self.timers.is_armed(Timer::DelayedAck) {
                let delay = rx.ato.min(self.settings.delack_max);
                self.timers.arm(Timer::DelayedAck, now, delay);
            }
            return;
        }
        // Data waits behind a hole.
        if !self.sack_ok || rx.compressed >= MAX_COMPRESSED {
            rx.ack_now = true;
            return;
        }
        if rx.compressed_from != rx.next {
            rx.compressed_from = rx.next;
            rx.duplicate_acks = 0;
        }
        if rx.duplicate_acks < UNCOMPRESSED {
            rx.duplicate_acks += 1;
            rx.ack_now = true;
            return;
        }
        rx.compressed += 1;
        if !self.timers.is_armed(Timer::CompressedAck) {
            let mut rtt = rx.rtt_us;
            if self.flow.srtt_us > 0 && self.flow.srtt_us >> 3 < rtt {
                rtt = self.flow.srtt_us >> 3;
            }
            let delay = Duration::from_nanos(u64::from(rtt) * 1000 / 20).min(COMPRESSED_DELAY);
            // Where nothing else wakes the processor the timer fires as late as it may.
            self.timers.arm(Timer::CompressedAck, now, delay + rx.stack.comp_sack_slack);
        }
    }
}

/// What a receiver at first takes for the data read in a round trip, bytes; its buffer grows once more is read. With the whole
/// window a transfer stays at that window until losses bunch what is read (specs/notes/out-of-tree-start).
pub(crate) fn first_read_estimate(stack: &Stack, window: u32, advertised_mss: u32) -> u32 {
    if stack.rcvq_space_ten_segments { (10 * advertised_mss).min(window).max(1) } else { window.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        let mut receiver = Receiver::new(&Settings::default(), 1500);
        receiver.start(Seq::new(1000));
        receiver
    }

    #[test]
    fn the_right_edge_never_moves_back() {
        let mut rx = receiver();
        rx.ack_sent(false);
        let edge = rx.acked + rx.window;
        rx.unread = 60_000;
        rx.next += 10_000;
        rx.ack_sent(false);
        assert!(!(rx.acked + rx.window).before(edge));
    }

    #[test]
    fn what_is_left_of_a_subflows_window_is_less_by_what_came() {
        let mut rx = receiver();
        rx.ack_sent(false);
        let left = rx.window_left();
        rx.next += 10_000;
        rx.ack_sent(true);
        assert_eq!(rx.window_left(), left - 10_000, "until the connection announces more");
    }
}
