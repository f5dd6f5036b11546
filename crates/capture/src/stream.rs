//! One TCP connection, or one subflow, as the captures show it: what each end sent and what became of it.

use crate::frame::{Segment, TcpOption};
use crate::report::{DirectionReport, TooBigReport};
use crate::spread::Spread;
use polypath_wire::Flags;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Segments on their way of which the times are known, at most; older ones are forgotten.
const PENDING: usize = 16_384;
/// Sequence numbers of what was sent again, at most.
const AGAIN: usize = 4096;
/// Ranges that a capture has not seen, at most.
const HOLES: usize = 256;
/// Sizes that are counted one by one, at most; more are rounded to 64 bytes.
const SIZES: usize = 256;
/// A segment that comes so soon behind a later one was not sent again, where there is no round-trip time to compare with (as tshark has it).
const SOON_NS: u64 = 3_000_000;

/// Time in which the window had no room for a segment, of a stream of bytes that is counted in 64 bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowWatch {
    /// Next byte to be sent, next byte to be acknowledged, first byte beyond the window.
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) edge: u64,
    since: Option<u64>,
    limited: u64,
    first: Option<u64>,
    last: u64,
}

impl WindowWatch {
    pub(crate) fn on_data(&mut self, now: u64, end: u64, mss: u32) {
        self.sent = self.sent.max(end);
        self.first.get_or_insert(now);
        self.last = now;
        self.look(now, mss);
    }

    pub(crate) fn on_ack(&mut self, now: u64, ack: u64, window: u64, mss: u32) {
        self.acked = self.acked.max(ack);
        self.edge = self.edge.max(ack.saturating_add(window));
        self.look(now, mss);
    }

    fn look(&mut self, now: u64, mss: u32) {
        let is_limited = self.edge > 0 && self.sent > self.acked && self.sent.saturating_add(u64::from(mss)) > self.edge;
        match (is_limited, self.since) {
            (true, None) => self.since = Some(now),
            (false, Some(since)) => {
                self.limited = self.limited.saturating_add(now.saturating_sub(since));
                self.since = None;
            }
            _ => {}
        }
    }

    /// From the first to the last packet with data, ns.
    pub(crate) fn lasted(&self) -> u64 {
        self.last.saturating_sub(self.first.unwrap_or(self.last))
    }

    pub(crate) fn share(&self) -> f64 {
        let open = self.since.map_or(0, |since| self.last.saturating_sub(since));
        if self.lasted() == 0 { 0.0 } else { (self.limited.saturating_add(open) as f64 / self.lasted() as f64).min(1.0) }
    }

    pub(crate) fn goodput(&self, bytes: u64) -> f64 {
        if self.lasted() == 0 { 0.0 } else { bytes as f64 * 8e9 / self.lasted() as f64 }
    }
}

#[derive(Clone, Debug)]
struct Pending {
    end: u64,
    time: u64,
    ip_len: u32,
    again: bool,
    seen_far: bool,
}

/// What one end sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Direction {
    /// The file in which its packets are seen first.
    pub(crate) near: Option<usize>,
    /// Sequence number of the SYN, or the one before the first byte seen.
    isn: Option<u32>,
    pub(crate) mss: Option<u16>,
    scale: Option<u8>,
    pub(crate) watch: WindowWatch,
    pub(crate) segments: u64,
    bytes: u64,
    pub(crate) retransmissions: u64,
    retransmitted_bytes: u64,
    pub(crate) reordered: u64,
    pub(crate) reinjected_bytes: u64,
    pub(crate) longest: u32,
    pub(crate) pmtu_seen: u32,
    sizes: BTreeMap<u32, u64>,
    pub(crate) super_frames: u64,
    ce_marks: u64,
    pub(crate) rtt: Spread,
    delay: Spread,
    window: Option<(u64, u64)>,
    pending: VecDeque<Pending>,
    again: VecDeque<u64>,
    holes: Vec<(u64, u64)>,
    advanced_at: u64,
    far_next: u64,
    /// Segments sent again that are longer than any that was acknowledged, and the longest of them.
    pub(crate) too_long_again: u64,
    pub(crate) too_long: u32,
    pub(crate) fin: bool,
}

impl Direction {
    /// Bytes since the SYN of a sequence number, near the ones that are sent now.
    fn unwrapped(&mut self, seq: u32) -> u64 {
        let isn = *self.isn.get_or_insert_with(|| seq.wrapping_sub(1));
        let (relative, near) = (seq.wrapping_sub(isn), self.watch.sent);
        // What would stand before the SYN counts as that.
        near.checked_add_signed(i64::from(relative.wrapping_sub(near as u32) as i32)).unwrap_or(0)
    }

    pub(crate) fn largest_segment(&self) -> u32 {
        self.sizes.keys().next_back().copied().unwrap_or(536)
    }

    /// A segment with payload, at the file nearest to this end. `peer_mss` is what the other end announced.
    fn on_data(&mut self, now: u64, segment: &Segment<'_>, ip_len: u32, peer_mss: Option<u16>, near_rtt: bool) {
        let begin = self.unwrapped(segment.seq);
        let end = begin + u64::from(segment.len);
        self.segments += 1;
        let size = if self.sizes.len() < SIZES || self.sizes.contains_key(&segment.len) { segment.len } else { segment.len & !63 };
        *self.sizes.entry(size).or_default() += 1;
        self.longest = self.longest.max(ip_len);
        self.super_frames += u64::from(peer_mss.is_some_and(|mss| segment.len > u32::from(mss)));
        self.ce_marks += u64::from(segment.ecn_ce);
        let next = self.watch.sent.max(1);
        if end > next {
            if begin > next && self.segments > 1 && self.holes.len() < HOLES {
                self.holes.push((next, begin));
            }
            self.bytes += end - begin.max(next);
            self.advanced_at = now;
            if self.pending.len() == PENDING {
                self.pending.pop_front();
            }
            self.pending.push_back(Pending { end, time: now, ip_len, again: begin < next, seen_far: false });
        } else if self.fills_hole(begin, end)
            && !near_rtt
            && now.saturating_sub(self.advanced_at) < self.rtt.min().unwrap_or(SOON_NS).max(SOON_NS)
        {
            self.reordered += 1;
            self.bytes += u64::from(segment.len);
        } else {
            self.on_again(begin, end, segment.len, ip_len);
        }
        let mss = self.mss_for_window();
        self.watch.on_data(now, end, mss);
    }

    fn mss_for_window(&self) -> u32 {
        self.largest_segment().min(65_535)
    }

    fn on_again(&mut self, begin: u64, end: u64, len: u32, ip_len: u32) {
        self.retransmissions += 1;
        self.retransmitted_bytes += u64::from(len);
        // Karn: what was sent twice gives no round-trip time, and does not say which size passed; nor if it was sent again in other pieces.
        let from = self.pending.partition_point(|pending| pending.end <= begin);
        for pending in self.pending.iter_mut().skip(from) {
            pending.again = true;
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
    fn on_far_data(&mut self, now: u64, segment: &Segment<'_>) {
        let begin = self.unwrapped(segment.seq);
        let end = begin + u64::from(segment.len);
        let at = self.pending.partition_point(|pending| pending.end < end);
        if let Some(pending) = self.pending.get_mut(at).filter(|pending| pending.end == end && !pending.seen_far && !pending.again) {
            pending.seen_far = true;
            self.delay.add(now.saturating_sub(pending.time));
        }
        if end <= self.far_next && !self.again.contains(&begin) {
            self.reordered += 1;
        }
        self.far_next = self.far_next.max(end);
    }

    /// An acknowledgement of what this end sent, at the file nearest to it.
    fn on_ack(&mut self, now: u64, ack: u32, window: u64) {
        let Some(isn) = self.isn else { return };
        let (relative, near) = (ack.wrapping_sub(isn), self.watch.sent);
        let ack = near.checked_add_signed(i64::from(relative.wrapping_sub(near as u32) as i32)).unwrap_or(0);
        // Beyond what was sent only the FIN is, or what the capture has not seen.
        if ack > near.saturating_add(1 << 30) {
            return;
        }
        let mut newest = None;
        while let Some(pending) = self.pending.front().filter(|pending| pending.end <= ack) {
            if !pending.again {
                self.pmtu_seen = self.pmtu_seen.max(pending.ip_len);
            }
            newest = Some((pending.time, pending.again));
            self.pending.pop_front();
        }
        if let Some((time, false)) = newest {
            self.rtt.add(now.saturating_sub(time));
        }
        let mss = self.mss_for_window();
        self.watch.on_ack(now, ack, window, mss);
    }

    fn report(&self, files: &[String], acked: u64) -> DirectionReport {
        let mut sizes: Vec<(u32, u64)> = self.sizes.iter().map(|(&size, &count)| (size, count)).collect();
        sizes.sort_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
        DirectionReport {
            file: self.near.and_then(|near| files.get(near)).cloned(),
            segments: self.segments,
            bytes: self.bytes,
            acked_bytes: acked,
            retransmissions: self.retransmissions,
            retransmitted_bytes: self.retransmitted_bytes,
            reordered: self.reordered,
            reinjected_bytes: self.reinjected_bytes,
            goodput_bps: self.watch.goodput(acked),
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
        }
    }

    pub(crate) fn acked_bytes(&self) -> u64 {
        // The SYN has a number of its own, and so has the FIN.
        let acked = self.watch.acked.saturating_sub(1);
        acked.saturating_sub(u64::from(self.fin && acked > self.bytes))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TooBig {
    pub(crate) router: IpAddr,
    pub(crate) mtu: u32,
    pub(crate) count: u64,
    pub(crate) longer_after: u64,
}

/// A TCP connection or a subflow.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Client and server.
    pub(crate) ends: [(IpAddr, u16); 2],
    pub(crate) directions: [Direction; 2],
    pub(crate) connection: usize,
    pub(crate) is_join: bool,
    pub(crate) backup: bool,
    pub(crate) syns: u64,
    pub(crate) syn_ack: bool,
    pub(crate) established: bool,
    pub(crate) reset: bool,
    pub(crate) in_tunnel: bool,
    /// An MP_CAPABLE stood in the SYN, and in the answer.
    pub(crate) capable: [bool; 2],
    syn_at: [Option<u64>; 3],
    pub(crate) too_big: Vec<TooBig>,
}

impl Stream {
    pub(crate) fn new(ends: [(IpAddr, u16); 2], connection: usize) -> Self {
        Self {
            ends,
            directions: [Direction::default(), Direction::default()],
            connection,
            is_join: false,
            backup: false,
            syns: 0,
            syn_ack: false,
            established: false,
            reset: false,
            in_tunnel: false,
            capable: [false; 2],
            syn_at: [None; 3],
            too_big: Vec::new(),
        }
    }

    /// The end that sends a segment: 0 is the client.
    pub(crate) fn side(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// Whether the files show the end near which they were made: the answer to a SYN takes longer than the answer to that.
    fn is_near_sender(&self, side: usize) -> bool {
        let [Some(syn), Some(syn_ack), Some(ack)] = self.syn_at else {
            return false;
        };
        let client_is_near = syn_ack.saturating_sub(syn) >= ack.saturating_sub(syn_ack);
        (side == 0) == client_is_near
    }

    /// Bytes that a segment's window offers.
    pub(crate) fn window_of(&self, side: usize, segment: &Segment<'_>) -> u64 {
        // Both ends must have said it, and a SYN's own window has none (RFC 7323 section 2.2).
        let has_scale = !segment.flags.has(Flags::SYN) && self.directions.iter().all(|direction| direction.scale.is_some());
        u64::from(segment.window) << if has_scale { self.directions[side].scale.unwrap_or(0) } else { 0 }
    }

    /// Takes in a segment that a file shows. True if it is the first sight of this end's data there, so that MPTCP may count it.
    pub(crate) fn take(&mut self, now: u64, file: usize, segment: &Segment<'_>, ip_len: u32) -> bool {
        let side = self.side(segment);
        let is_near = *self.directions[side].near.get_or_insert(file) == file;
        let (is_syn, is_ack) = (segment.flags.has(Flags::SYN), segment.flags.has(Flags::ACK));
        if is_near {
            self.on_flags(now, side, segment);
        }
        let near_rtt = self.directions[0].near != self.directions[1].near || self.is_near_sender(side);
        let (peer_mss, window) = (self.directions[1 - side].mss, self.window_of(side, segment));
        let direction = &mut self.directions[side];
        if is_near && !is_syn && !segment.flags.has(Flags::RST) {
            direction.window = Some(direction.window.map_or((window, window), |(low, high)| (low.min(window), high.max(window))));
        }
        if is_near && is_syn {
            direction.isn = Some(segment.seq);
        }
        if segment.len > 0 && !is_syn {
            if is_near {
                for too_big in self.too_big.iter_mut().filter(|too_big| ip_len > too_big.mtu) {
                    too_big.longer_after += 1;
                }
                direction.on_data(now, segment, ip_len, peer_mss, near_rtt);
            } else {
                direction.on_far_data(now, segment);
            }
        }
        let other = &mut self.directions[1 - side];
        if is_ack && other.near == Some(file) {
            other.on_ack(now, segment.ack, window);
        }
        is_near
    }

    fn on_flags(&mut self, now: u64, side: usize, segment: &Segment<'_>) {
        let direction = &mut self.directions[side];
        direction.fin |= segment.flags.has(Flags::FIN);
        self.reset |= segment.flags.has(Flags::RST);
        if segment.flags.has(Flags::SYN) {
            for option in segment.options() {
                match option {
                    TcpOption::Mss(mss) => direction.mss = Some(mss),
                    TcpOption::WindowScale(scale) => direction.scale = Some(scale),
                    _ => {}
                }
            }
            let place = usize::from(segment.flags.has(Flags::ACK));
            self.syn_at[place].get_or_insert(now);
            self.syns += u64::from(place == 0);
            self.syn_ack |= place == 1;
        } else if side == 0 && self.syn_ack && segment.flags.has(Flags::ACK) {
            self.syn_at[2].get_or_insert(now);
            self.established = true;
        }
        self.established |= segment.len > 0 && !segment.flags.has(Flags::SYN);
    }

    pub(crate) fn report(&self, files: &[String]) -> crate::SubflowReport {
        let name = |(address, port): (IpAddr, u16)| std::net::SocketAddr::new(address, port).to_string();
        crate::SubflowReport {
            client: name(self.ends[0]),
            server: name(self.ends[1]),
            is_join: self.is_join,
            backup: self.backup,
            established: self.established,
            reset: self.reset,
            directions: std::array::from_fn(|side| self.directions[side].report(files, self.directions[side].acked_bytes())),
            too_big: (self.too_big.iter())
                .map(|TooBig { router, mtu, count, longer_after }| TooBigReport {
                    router: router.to_string(),
                    mtu: *mtu,
                    count: *count,
                    longer_after: *longer_after,
                })
                .collect(),
        }
    }
}
