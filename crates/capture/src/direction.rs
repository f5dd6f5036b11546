//! What one end of a stream sends, and what becomes of it: sizes, retransmissions, reordering,
//! delays.

use crate::connection::Placed;
use crate::frame::Segment;
use crate::mapped::Mapped;
use crate::point::{Point, Port};
use crate::ranges::Ranges;
use crate::report::DirectionReport;
use crate::sight::{Points, Seen, Sight};
use crate::spread::Spread;
use crate::window::WindowWatch;
use polypath_wire::mptcp::Mapping;
use std::collections::{BTreeMap, VecDeque};

/// Segments on their way of which the times are known, at most; older ones are forgotten.
const PENDING: usize = 16_384;
/// Sequence numbers of what was sent again, at most.
const AGAIN: usize = 4096;
/// Ranges that a capture has not seen, at most.
const HOLES: usize = 1024;
/// Sizes that are counted one by one, at most; more are rounded to 64 bytes.
const SIZES: usize = 256;
/// A segment that comes so soon behind a later one was not sent again, where there is no round-trip
/// time to compare with (as tshark has it).
const SOON_NS: u64 = 3_000_000;

#[derive(Clone, Debug)]
struct Pending {
    end: u64,
    ip_len: u32,
    again: bool,
    seen_far: bool,
    /// The first and the last packet that carried its end.
    seen: [Sight; 2],
}

/// A file in which the first packet of an end was seen as early as in any.
#[derive(Clone, Debug)]
struct Tied {
    file: usize,
    point: Point,
    /// It shows that end's packets at another point, too: it was not made at that end.
    passes: bool,
}

/// A packet of the capture as the segments that it was on the link.
///
/// The receiver's MSS holds payload and options of a segment (RFC 6691 section 2). A packet with
/// more was joined by the host (TSO, GRO). Each of its segments carries the options and is as long
/// as they let it be, the last one is what is left: so Linux counts them too (`tcp_skb_pcount`).
/// What a smaller path MTU allows cannot be seen.
struct Joined {
    count: u64,
    size: u32,
    /// Payload of the last segment, if it is shorter.
    rest: u32,
}

impl Joined {
    fn of(segment: &Segment<'_>, peer_mss: Option<u16>) -> Self {
        match peer_mss.map(u32::from) {
            Some(mss) if segment.len.saturating_add(segment.options_len) > mss => {
                let size = mss.saturating_sub(segment.options_len).max(1);
                Self { count: u64::from(segment.len.div_ceil(size)), size, rest: segment.len % size }
            }
            _ => Self { count: 1, size: segment.len, rest: 0 },
        }
    }
}

/// What one end sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Direction {
    /// The file in which its packets are seen first.
    pub(crate) near: Option<usize>,
    since: u64,
    tied: Vec<Tied>,
    /// The other file, from which delays and reordering are told.
    far: Option<usize>,
    points: Points,
    far_points: Points,
    /// Packets that were not counted because they stand in the file twice.
    copies: u64,
    /// Packets of which it is not known whether they were sent again.
    pub(crate) unclear: u64,
    /// A point that shows its data first shows acknowledgements of them.
    has_acks: bool,
    syn_point: Option<Point>,
    /// Sequence number of the SYN, or the one before the first byte seen.
    isn: Option<u32>,
    has_syn: bool,
    /// What is to be added to places in the subflow that a mapping tells, where no SYN says from
    /// where they count.
    place_base: Option<u32>,
    pub(crate) mapped: Mapped,
    pub(crate) mss: Option<u16>,
    /// The window's scale in its SYN; none: the SYN, or its options, were not seen.
    pub(crate) scale: Option<Option<u8>>,
    pub(crate) watch: WindowWatch,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) retransmissions: u64,
    retransmitted_bytes: u64,
    pub(crate) reordered: u64,
    keep_alives: u64,
    reinjected_bytes: u64,
    mptcp_retransmitted_bytes: u64,
    /// How far in the connection's data what it carried first reached.
    reached: u64,
    pub(crate) longest: u32,
    pub(crate) pmtu_seen: u32,
    sizes: BTreeMap<u32, u64>,
    pub(crate) super_frames: u64,
    ce_marks: u64,
    pub(crate) rtt: Spread,
    delay: Spread,
    pub(crate) window: Option<(u64, u64)>,
    pending: VecDeque<Pending>,
    again: VecDeque<u64>,
    holes: Vec<(u64, u64)>,
    /// What the other end has acknowledged selectively; and how many bytes have reached it (Linux:
    /// `tcp_sock::delivered`, in segments).
    sacked: Ranges<()>,
    delivered: u64,
    advanced_at: u64,
    far_next: u64,
    /// Segments sent again that are longer than any that was acknowledged, and the longest of them.
    pub(crate) too_long_again: u64,
    pub(crate) too_long: u32,
    /// When the first one was seen.
    pub(crate) fin: Option<u64>,
}

impl Direction {
    /// Whether a file is the one by which this end is judged: that which saw its first packet
    /// first, and of several at once one that does not show it passing.
    pub(crate) fn is_near(&mut self, now: u64, file: usize, point: Point) -> bool {
        let near = *self.near.get_or_insert_with(|| {
            self.since = now;
            file
        });
        if now == self.since && self.tied.iter().all(|tied| tied.file != file) {
            self.tied.push(Tied { file, point, passes: false });
        }
        if self.tied.len() > 1
            && let Some(tied) = self.tied.iter_mut().find(|tied| tied.file == file && tied.point != point && !tied.passes)
        {
            tied.passes = true;
            if near == file {
                self.near = self.tied.iter().find(|tied| !tied.passes).map(|tied| tied.file).or(self.near);
            }
        }
        self.near == Some(file)
    }

    /// Whether this SYN is not an earlier one at another point.
    pub(crate) fn is_own_syn(&mut self, point: Point) -> bool {
        *self.syn_point.get_or_insert(point) == point
    }

    /// Bytes since the SYN of a sequence number, near the ones that are sent now.
    fn unwrapped(&mut self, seq: u32) -> u64 {
        let isn = *self.isn.get_or_insert_with(|| seq.wrapping_sub(1));
        let (relative, near) = (seq.wrapping_sub(isn), self.watch.sent);
        // What would stand before the SYN counts as that.
        near.checked_add_signed(i64::from(relative.wrapping_sub(near as u32) as i32)).unwrap_or(0)
    }

    /// A SYN's sequence number.
    pub(crate) fn begin(&mut self, isn: u32, point: Point) {
        (self.isn, self.has_syn) = (Some(isn), true);
        let number = self.points.number(point);
        self.points.on_first(number);
    }

    /// The bytes of a segment, counted since the SYN.
    pub(crate) fn range(&mut self, segment: &Segment<'_>) -> std::ops::Range<u64> {
        let begin = self.unwrapped(segment.seq);
        begin..begin + u64::from(segment.len)
    }

    /// A mapping that a segment brings, of so many bytes without a DATA_FIN, to this data sequence
    /// number.
    pub(crate) fn map(&mut self, segment: &Segment<'_>, mapping: &Mapping, len: u64, dsn: u64) {
        let near = self.unwrapped(segment.seq);
        let base = if self.has_syn {
            0
        } else {
            // The mapping begins with the segment or before it; the more of them come, the surer it
            // is where.
            let told = (near as u32).wrapping_sub(mapping.ssn);
            let least = self.place_base.filter(|base| (told.wrapping_sub(*base) as i32) >= 0).unwrap_or(told);
            *self.place_base.insert(least)
        };
        let place = mapping.ssn.wrapping_add(base);
        // In a fallback it has no end (RFC 8684 section 3.7).
        let from = |begin: u64| begin..if mapping.len == 0 { u64::MAX } else { begin.saturating_add(len) };
        let begin = near.checked_add_signed(i64::from(place.wrapping_sub(near as u32) as i32));
        // One that contradicts an earlier one stands for what it came with.
        if !begin.is_some_and(|begin| self.mapped.map(from(begin), dsn)) {
            self.mapped.map(from(near), dsn);
        }
    }

    pub(crate) fn largest_segment(&self) -> u32 {
        self.sizes.keys().next_back().copied().unwrap_or(536)
    }

    /// A segment with payload, at the file nearest to this end. `peer_mss` is what the other end
    /// announced. False if it is one that was seen before at another point.
    pub(crate) fn on_data(
        &mut self,
        now: u64,
        segment: &Segment<'_>,
        ip_len: u32,
        point: Point,
        peer_mss: Option<u16>,
        near_rtt: bool,
    ) -> bool {
        let begin = self.unwrapped(segment.seq);
        let end = begin + u64::from(segment.len);
        let number = self.points.number(point);
        let sight = Sight::new(now, segment, number);
        let next = self.watch.sent.max(1);
        if end > next || self.holes.iter().any(|hole| hole.0 < end && begin < hole.1) {
            self.points.on_first(number);
        } else {
            let at = self.pending.partition_point(|pending| pending.end <= begin);
            match self.points.on_known(&sight, self.pending.get(at).map(|pending| pending.seen)) {
                Seen::Again => {}
                Seen::Copy => {
                    self.copies += 1;
                    return false;
                }
                Seen::Unclear => {
                    self.unclear += 1;
                    return false;
                }
            }
        }
        if self.is_keep_alive(begin, end) {
            self.keep_alives += 1;
            return false;
        }
        let joined = Joined::of(segment, peer_mss);
        // From here on the packet is the longest that was on the link.
        let ip_len = ip_len.saturating_sub(segment.len - joined.size);
        let first = self.segments == 0;
        self.segments += joined.count;
        self.super_frames += u64::from(joined.count > 1);
        self.count_size(joined.size, joined.count - u64::from(joined.rest > 0));
        if joined.rest > 0 {
            self.count_size(joined.rest, 1);
        }
        self.longest = self.longest.max(ip_len);
        self.ce_marks += u64::from(segment.ecn_ce);
        if end > next {
            if begin > next && !first && self.holes.len() < HOLES {
                self.holes.push((next, begin));
            }
            let new = end - begin.max(next);
            self.bytes += new;
            self.watch.series.at(now).new_bytes += new;
            self.advanced_at = now;
            if self.pending.len() == PENDING {
                self.pending.pop_front();
            }
            self.pending.push_back(Pending { end, ip_len, again: begin < next, seen_far: false, seen: [sight; 2] });
        } else if self.fills_hole(begin, end)
            && !near_rtt
            && now.saturating_sub(self.advanced_at) < self.rtt.min().unwrap_or(SOON_NS).max(SOON_NS)
        {
            self.reordered += joined.count;
            self.bytes += u64::from(segment.len);
            self.watch.series.at(now).new_bytes += u64::from(segment.len);
        } else {
            self.watch.series.at(now).retransmitted_bytes += u64::from(segment.len);
            self.on_again(begin, end, joined.count, ip_len, sight);
        }
        let mss = self.mss_for_window();
        self.watch.on_data(now, end, mss);
        true
    }

    /// The byte before the next one again, all being acknowledged (RFC 9293 section 3.8.4).
    fn is_keep_alive(&self, begin: u64, end: u64) -> bool {
        end - begin <= 1 && end == self.watch.acked && end == self.watch.sent
    }

    fn count_size(&mut self, len: u32, count: u64) {
        let size = if self.sizes.len() < SIZES || self.sizes.contains_key(&len) { len } else { len & !63 };
        *self.sizes.entry(size).or_default() += count;
    }

    fn mss_for_window(&self) -> u32 {
        self.largest_segment().min(65_535)
    }

    /// Segments that were sent before.
    fn on_again(&mut self, begin: u64, end: u64, count: u64, ip_len: u32, sight: Sight) {
        self.retransmissions += count;
        self.retransmitted_bytes += end - begin;
        // Karn: what was sent twice gives no round-trip time, and does not say which size passed;
        // nor if it was sent again in other pieces.
        let from = self.pending.partition_point(|pending| pending.end <= begin);
        for pending in self.pending.iter_mut().skip(from) {
            pending.again = true;
            pending.seen[1] = sight;
            if pending.end >= end {
                break;
            }
        }
        if self.again.len() == AGAIN {
            self.again.pop_front();
        }
        self.again.push_back(begin);
        if ip_len > self.pmtu_seen && end > self.watch.acked {
            self.too_long_again += 1;
            self.too_long = self.too_long.max(ip_len);
        }
    }

    /// Takes a range out of those that were not seen.
    fn fills_hole(&mut self, begin: u64, end: u64) -> bool {
        let Some(at) = self.holes.iter().position(|hole| hole.0 <= begin && end <= hole.1) else {
            return false;
        };
        let (low, high) = self.holes.swap_remove(at);
        self.holes.extend([(low, begin), (end, high)].into_iter().filter(|hole| hole.0 < hole.1));
        true
    }

    /// The same at another file: one-way delay, and the order in which segments come.
    pub(crate) fn on_far_data(&mut self, now: u64, segment: &Segment<'_>, point: Point) {
        let begin = self.unwrapped(segment.seq);
        let end = begin + u64::from(segment.len);
        let number = self.far_points.number(point);
        if end > self.far_next {
            self.far_points.on_first(number);
        } else if !self.far_points.is_first(number) {
            return;
        }
        let at = self.pending.partition_point(|pending| pending.end < end);
        if let Some(pending) = self.pending.get_mut(at).filter(|pending| pending.end == end && !pending.seen_far && !pending.again) {
            pending.seen_far = true;
            self.delay.add(now.saturating_sub(pending.seen[0].time));
        }
        if end <= self.far_next && !self.again.contains(&begin) {
            self.reordered += 1;
        }
        self.far_next = self.far_next.max(end);
    }

    /// Whether a file, which is not the nearest, is the one that stands for the far side: that
    /// nearest to the other end, if it is another one.
    pub(crate) fn is_far(&mut self, file: usize, near_peer: Option<usize>) -> bool {
        match near_peer.filter(|&peer| Some(peer) != self.near) {
            Some(peer) => peer == file,
            None => *self.far.get_or_insert(file) == file,
        }
    }

    /// An acknowledgement of what this end sent, at the file nearest to it.
    pub(crate) fn on_ack(&mut self, now: u64, segment: &Segment<'_>, window: Option<u64>, port: &Port) {
        let Some(isn) = self.isn else { return };
        let near = self.watch.sent;
        let unwrapped = |ack: u32| near.checked_add_signed(i64::from(ack.wrapping_sub(isn).wrapping_sub(near as u32) as i32)).unwrap_or(0);
        let ack = unwrapped(segment.ack);
        // Beyond what was sent only the FIN is, or what the capture has not seen.
        if ack > near.saturating_add(1 << 30) {
            return;
        }
        // A round-trip time begins and ends at one interface, if the acknowledgements pass it.
        let is_here = self.points.has_first(port);
        self.has_acks |= is_here;
        let is_timed = is_here || !self.has_acks;
        let mut newest = None;
        while let Some(pending) = self.pending.front().filter(|pending| is_timed && pending.end <= ack) {
            if !pending.again {
                self.pmtu_seen = self.pmtu_seen.max(pending.ip_len);
            }
            newest = Some((pending.seen[0].time, pending.again));
            self.pending.pop_front();
        }
        if let Some((time, false)) = newest {
            let rtt = now.saturating_sub(time);
            self.rtt.add(rtt);
            let bin = self.watch.series.at(now);
            (bin.rtt_ns, bin.rtts) = (bin.rtt_ns.saturating_add(rtt), bin.rtts + 1);
        }
        let mss = self.mss_for_window();
        let before = self.watch.acked;
        self.watch.on_ack(now, ack, window, mss);
        self.count_delivered(before, segment.sacked().map(|block| block.map(unwrapped)));
        self.watch.series.at(now).delivered = self.delivered;
    }

    /// What an acknowledgement of all up to `before` and now up to `watch.acked`, and of these
    /// blocks, tells for the first time.
    fn count_delivered(&mut self, before: u64, blocks: impl Iterator<Item = [u64; 2]>) {
        let acked = self.watch.acked;
        if acked > before {
            self.delivered += (acked - before) - self.sacked.count(before..acked);
            self.sacked.forget_below(acked);
        }
        for [begin, end] in blocks {
            // Below what is acknowledged stands what came twice (RFC 2883 section 4); beyond what
            // was sent stands nothing.
            let block = begin.max(acked)..end.min(self.watch.sent);
            if !block.is_empty() {
                self.delivered += (block.end - block.start) - self.sacked.count(block.clone());
                self.sacked.add(block, (), HOLES);
            }
        }
    }

    /// It carries these data of the connection.
    pub(crate) fn on_placed(&mut self, now: u64, placed: &Placed) {
        let Placed { dsn, reinjected, retransmitted } = *placed;
        self.reinjected_bytes += reinjected;
        self.mptcp_retransmitted_bytes += retransmitted;
        let bin = self.watch.series.at(now);
        bin.reinjected_bytes += reinjected;
        if reinjected > 0 {
            bin.reinjected_dsn = bin.reinjected_dsn.max(Some(dsn));
        } else if retransmitted > 0 {
            bin.mptcp_retransmitted_dsn = bin.mptcp_retransmitted_dsn.max(Some(dsn));
        } else if dsn > self.reached {
            (self.reached, bin.dsn) = (dsn, Some(dsn));
        }
    }

    /// `first` is when the first packet of all files was seen; `is_alone` says that they show
    /// nothing of the other end.
    pub(crate) fn report(&self, files: &[String], first: u64, is_alone: bool) -> DirectionReport {
        let acked = self.acked_bytes();
        let mut sizes: Vec<(u32, u64)> = self.sizes.iter().map(|(&size, &count)| (size, count)).collect();
        sizes.sort_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
        DirectionReport {
            file: self.near.and_then(|near| files.get(near)).cloned(),
            segments: self.segments,
            bytes: self.bytes,
            acked_bytes: acked,
            retransmissions: self.retransmissions,
            retransmitted_bytes: self.retransmitted_bytes,
            copies: self.copies,
            unclear: self.unclear,
            reordered: self.reordered,
            keep_alives: self.keep_alives,
            reinjected_bytes: self.reinjected_bytes,
            mptcp_retransmitted_bytes: self.mptcp_retransmitted_bytes,
            goodput_bps: self.goodput(is_alone),
            mss_announced: self.mss,
            mss_used: self.sizes.keys().next_back().copied().unwrap_or(0),
            pmtu_seen: self.pmtu_seen,
            sizes,
            super_frames: self.super_frames,
            ce_marks: self.ce_marks,
            rtt: self.rtt.report(),
            one_way_delay: self.delay.report(),
            window_min: self.window.map(|window| window.0),
            window_max: self.window.map(|window| window.1),
            window_limited_share: self.watch.share(),
            series: self.watch.series.report(first, 1),
        }
    }

    pub(crate) fn goodput(&self, is_alone: bool) -> f64 {
        self.watch.goodput(if is_alone { self.bytes } else { self.acked_bytes() })
    }

    /// Whether a SYN is not the one that this end's numbers count from.
    pub(crate) fn is_other_syn(&self, seq: u32) -> bool {
        self.isn.is_some_and(|isn| isn != seq)
    }

    pub(crate) fn acked_bytes(&self) -> u64 {
        // The SYN has a number of its own, and so has the FIN.
        let acked = self.watch.acked.saturating_sub(1);
        acked.saturating_sub(u64::from(self.fin.is_some() && acked > self.bytes))
    }
}
