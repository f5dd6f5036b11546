//! The path's MTU: what its links say of it (RFC 1191), and probing for it with data (RFC 4821) as
//! Linux does (`tcp_mtu_probing`).
//!
//! With 1 probing begins when a black hole is suspected: at a timeout at least three seconds after
//! the first retransmission. With 2 it begins with the connection. Segments are then those of the
//! lower end of the search range, and a segment of a packet in the middle of the range is sent now
//! and then. If it is acknowledged, the lower end rises; if it alone is lost, the upper end falls,
//! and the window stays as it is.

use super::path_mtu::{LEAST_MSS, Next, Room, RouteMtu};
use super::scoreboard::Sent;
use super::send_buffer::memory_of_buffer;
use super::{CaState, Sender, timestamp};
use polypath_base::{Bytes, Instant, Segments, Seq};
use polypath_cc::SSTHRESH_INFINITE;
use polypath_wire::Unreachable;

/// Fewest segments of congestion window with which a probe is sent: its loss must show.
const LEAST_WINDOW: u32 = 11;
/// A timeout so long after the first retransmission, ms, is taken for a black hole: what three
/// backed-off timeouts of 200 ms take (`tcp_retries1`).
const BLACK_HOLE_MS: u32 = 3000;

/// The data of the last probe that the host itself refused.
#[derive(Debug)]
pub(super) struct RefusedProbe {
    /// Its end; behind it the data lie in buffers as before.
    end: Seq,
    /// The rest of it waits for the next probe.
    is_tried_again: bool,
}

impl RefusedProbe {
    /// None yet of a connection whose data begin at `seq`.
    pub(super) fn new(seq: Seq) -> Self {
        Self { end: seq, is_tried_again: false }
    }
}

impl Sender {
    /// A link refused a segment of ours as too long.
    pub(in crate::tcp) fn handle_unreachable(&mut self, now: Instant, message: &Unreachable) {
        // Only answers to what is in the network count (RFC 5927 section 4.1).
        let ours = !message.seq.before(self.snd_una()) && message.seq.before(self.snd_nxt());
        if !ours {
            return;
        }
        let (known, settings) = (self.path_mtu.pmtu(), &self.settings);
        let told = Bytes::from_u32(message.mtu);
        let Some(learnt) = RouteMtu::from_message(now, told, known, settings.route_min_pmtu, settings.route_mtu_expires) else { return };
        if learnt.mtu == known && !learnt.is_locked && self.path_mtu.expires() > now + settings.route_mtu_expires / 2 {
            return; // Linux renews what is known only when half of its time is over.
        }
        // RFC 8899 section 4.6.1: what a probe met says nothing of the packets in which data go. If
        // they are too long, they are answered themselves.
        if learnt.mtu < self.path_mtu.usual_packet() && self.path_mtu.is_probe(message.seq) {
            return;
        }
        if self.path_mtu.on_route_mtu(learnt) {
            self.resize(now);
            self.retransmit_oversized(now);
        }
    }

    /// What the host has learnt of this route, by this connection or by another one.
    pub(in crate::tcp) fn route_mtu(&self) -> Option<RouteMtu> {
        self.path_mtu.route_mtu()
    }

    /// The host has learnt something of this route from another connection's packets. What is in
    /// the network stays as it is: if it is too long, a message for this connection will say so.
    pub(in crate::tcp) fn set_route_mtu(&mut self, now: Instant, learnt: RouteMtu) {
        if learnt.expires > now && self.path_mtu.on_route_mtu(learnt) {
            self.resize(now);
        }
    }

    /// What links told of the route's MTU has expired (Linux asks in `tcp_current_mss`): segments
    /// grow again, and if they are still too long, the next message says so.
    #[cold]
    pub(super) fn forget_route_mtu(&mut self, now: Instant) {
        self.path_mtu.on_expired();
        self.resize(now);
    }

    fn resize(&mut self, now: Instant) {
        self.flow.now_ns = now.as_nanos();
        self.burst.is_resized = true;
        self.sync_mss();
    }

    /// The handshake is over: the search may begin.
    pub(super) fn start_probing(&mut self, now: Instant, is_client: bool) {
        self.path_mtu.start(now, is_client);
    }

    /// What a full segment holds may have changed: algorithms and pacing count in it, with MPTCP's
    /// options where Linux does.
    pub(super) fn sync_mss(&mut self) {
        let less_options = self.is_subflow && self.settings.stack.subflow_mss_less_options;
        let options = if less_options { self.path_mtu.mptcp_options() } else { Bytes::ZERO };
        let mss = self.path_mtu.mss_with_options().saturating_sub(options).max(LEAST_MSS).as_u32();
        if mss != self.flow.mss
            && let Some(since) = self.established_at
        {
            self.counters.mss_changed = Instant::from_nanos(self.flow.now_ns).since(since);
        }
        self.flow.mss = mss;
    }

    pub(in crate::tcp) fn update_mss(&mut self) {
        self.path_mtu.update();
        self.sync_mss();
    }

    /// Before new data: is it time for a probe?
    #[cold]
    pub(super) fn next_probe(&mut self, now: Instant, in_flight: u32, has_sacks: bool) -> Next {
        let searches_as_linux = !self.path_mtu.reads_scoreboard();
        if searches_as_linux && (self.flow.ca_state != CaState::Open || self.flow.cwnd < LEAST_WINDOW || has_sacks) {
            return Next::Usual;
        }
        let room = Room {
            reordering: Segments::new(self.flow.reordering),
            unsent: self.unsent(),
            snd_wnd: self.peer_window(),
            window_room: Bytes::from_u32(self.window_room()),
            in_flight: Segments::new(in_flight),
            cwnd: self.cwnd(),
            arrived: Bytes::new(self.flow.bytes_acked),
        };
        match self.path_mtu.next_probe(now, self.srtt(), room) {
            // A probe lies within one mapping.
            Next::Probe(len) if self.probe_fits(searches_as_linux, len.as_u32()) < len.as_u32() => Next::Usual,
            Next::Probe(len) if self.path_mtu.refuses(len) => {
                self.refuse_probe(len.as_u32());
                Next::Usual
            }
            next => next,
        }
    }

    /// The search leaves MPTCP's options out of account, so a probe may be longer than the route
    /// allows: the host's own IP layer refuses it (`EMSGSIZE`), which tells the search nothing, and
    /// it is tried again with the next burst. Its data has been joined in one buffer by then, which
    /// is cut as usual (specs/notes/mtu-probing).
    #[cold]
    fn refuse_probe(&mut self, len: u32) {
        self.counters.data_segments_sent += 1;
        self.counters.mtu_probes_refused += 1;
        if !self.settings.stack.grows_buffers {
            self.refused_probe.end = self.snd_nxt() + len;
        }
    }

    /// What is left of the buffer of a refused probe, bytes.
    #[cold]
    pub(super) fn refused_probe_left(&self) -> u32 {
        if self.refused_probe.end.after(self.snd_nxt()) { self.refused_probe.end.distance(self.snd_nxt()) } else { 0 }
    }

    /// A full segment of a refused probe leaves, and `left` bytes of it wait. If it takes more
    /// memory than may wait below TCP (`tcp_small_queue_check`), they leave only when it has been
    /// taken from there: by then it is time for another probe, which takes them in.
    #[cold]
    pub(super) fn refused_probe_leaves(&mut self, full: u32, left: u32) {
        let waits_below = memory_of_buffer(full + left);
        let may_wait = (self.flow.pacing_rate >> 10).max(2 * u64::from(memory_of_buffer(left)));
        self.refused_probe.is_tried_again = left > 0 && u64::from(waits_below) > may_wait && self.scoreboard.packets_out() > 1;
    }

    /// A burst begins, the first of what leaves together or not: is it time for a probe? Linux asks
    /// with the first alone.
    #[inline]
    pub(super) fn probe_is_due(&mut self, is_first: bool) -> bool {
        let is_tried_again = std::mem::take(&mut self.refused_probe.is_tried_again);
        (is_first || is_tried_again || self.path_mtu.reads_scoreboard()) && self.may_probe_mtu()
    }

    /// A probe of `len` bytes leaves as the next segment. It stands for two packets.
    pub(super) fn probe_leaves(&mut self, now: Instant, len: Bytes) {
        self.counters.mtu_probe_bytes += len.get();
        let seq = self.snd_nxt();
        self.path_mtu.on_probe_sent(now, seq, seq + len.as_u32());
        if !self.path_mtu.reads_scoreboard() {
            self.flow.cwnd -= 1;
        }
    }

    /// How much of `len` bytes lies within one mapping, and as Linux has it within one buffer.
    fn probe_fits(&self, within_buffer: bool, len: u32) -> u32 {
        if within_buffer { self.queue.next_new_len(len) } else { self.queue.next_mapped_len(len) }
    }

    /// The window keeps its bytes when packets of `was` bytes become what they are now.
    fn keep_window_bytes(&mut self, was: Bytes) {
        let is = self.path_mtu.usual_packet();
        let scaled = |segments: u32| (u64::from(segments) * was.get() / is.get()).clamp(2, u64::from(u32::MAX)) as u32;
        self.flow.cwnd = scaled(self.flow.cwnd);
        self.flow.cwnd_cnt = 0;
        if self.flow.ssthresh < SSTHRESH_INFINITE {
            self.flow.ssthresh = scaled(self.flow.ssthresh);
        }
    }

    /// The sizes of packets follow the search. If they grow, the window keeps its bytes; if they
    /// shrink, it is a loss that decides.
    #[cold]
    fn follow_search(&mut self) {
        let was = self.path_mtu.usual_packet();
        self.update_mss();
        if self.path_mtu.usual_packet() > was {
            self.keep_window_bytes(was);
        }
    }

    /// An ACK up to `ack` has come, and what it acknowledges is still in the queue: the search
    /// hears what arrived of data.
    #[cold]
    pub(super) fn tell_search_of_acked(&mut self, ack: Seq) {
        let mut longest = 0;
        for index in 0..self.scoreboard.len() {
            let sent = self.scoreboard.at(index);
            if sent.end().after(ack) {
                break;
            }
            longest = longest.max(sent.len);
        }
        if longest > 0 {
            self.path_mtu.on_data_acked(Bytes::from_u32(longest));
        }
    }

    /// The scoreboard is up to date with the ACK: the search hears which probes arrived.
    #[cold]
    pub(super) fn settle_arrived_probes(&mut self, now: Instant) {
        let (snd_una, scoreboard) = (self.snd_una(), &self.scoreboard);
        let is_sacked = |seq: Seq| scoreboard.find(seq).is_some_and(|index| scoreboard.at(index).is_sacked());
        let arrived = self.path_mtu.settle_arrived(now, snd_una, is_sacked).get();
        if arrived > 0 {
            self.counters.mtu_probes_arrived += u64::from(arrived);
            self.follow_search();
        }
    }

    /// Losses were looked for: the search hears which probes are lost and what else is. What a
    /// probe carried goes again in usual segments, and its loss is no sign of congestion
    /// (RFC 8899 section 3).
    #[cold]
    pub(super) fn settle_lost_probes(&mut self, now: Instant) {
        loop {
            let scoreboard = &self.scoreboard;
            let is_lost = |seq: Seq| scoreboard.find(seq).is_some_and(|index| scoreboard.at(index).is_lost());
            let Some(seq) = self.path_mtu.settle_lost(now, is_lost) else { break };
            self.counters.mtu_probes_lost += 1;
            let index = self.scoreboard.index_of(seq);
            self.scoreboard.split(index, self.segment_len());
            self.flow.lost = self.flow.lost.wrapping_sub(1);
        }
        // Sequence numbers begin anywhere, so what was reported counts only while it is in the
        // window.
        let (reported, una) = (self.path_mtu.reported_lost(), self.scoreboard.head().map_or(self.snd_nxt(), |head| head.seq));
        let from = if reported.after(una) && !reported.after(self.snd_nxt()) { reported } else { una };
        let (mut lengths, mut end, mut sacked) = ([u32::MAX, 0], from, 0);
        for index in self.scoreboard.index_of(from)..self.scoreboard.len() {
            let sent = self.scoreboard.at(index);
            if sent.is_lost() && !sent.is_retransmitted() && !sent.seq.before(from) && !self.is_of_lost_probe(sent.seq) {
                lengths = [lengths[0].min(sent.len), lengths[1].max(sent.len)];
                end = sent.end();
            } else if sent.is_sacked() && end != from {
                sacked = sacked.max(sent.len);
            }
        }
        if end != from {
            self.path_mtu.on_data_lost(now, lengths.map(Bytes::from_u32), end, false);
            // What left later and arrived says that its size passes.
            if sacked > 0 {
                self.path_mtu.on_data_acked(Bytes::from_u32(sacked));
            }
            self.follow_search();
        }
    }

    /// It lies in what a lost probe carried, whose repair is no part of an episode of losses: no
    /// duplicate of it will be reported.
    #[inline]
    pub(super) fn is_of_lost_probe(&self, seq: Seq) -> bool {
        self.path_mtu.lost_probes().iter().any(|&(from, to)| !seq.before(from) && seq.before(to))
    }

    /// Segments that are lost because they were in a probe, and not a second time.
    #[cold]
    pub(super) fn lost_in_probes(&self) -> u32 {
        self.count_in_probes(|sent| sent.is_lost() && (sent.is_retrans() || !sent.is_retransmitted()))
    }

    /// Retransmissions in the network of what lost probes carried.
    #[cold]
    pub(super) fn retransmitted_of_probes(&self) -> u32 {
        self.count_in_probes(Sent::is_retrans)
    }

    fn count_in_probes(&self, counts: impl Fn(&Sent) -> bool) -> u32 {
        let mut count = 0;
        for &(from, to) in self.path_mtu.lost_probes() {
            for index in self.scoreboard.index_of(from)..self.scoreboard.len() {
                let sent = self.scoreboard.at(index);
                if !sent.seq.before(to) {
                    break;
                }
                count += u32::from(counts(sent));
            }
        }
        count
    }

    /// A retransmission timeout: the search hears of it. True if it has packets shortened, because
    /// it takes their size for the reason.
    #[cold]
    pub(super) fn tell_search_of_timeout(&mut self, now: Instant) -> bool {
        self.path_mtu.on_timeout();
        let Some(head) = self.scoreboard.head().copied() else { return false };
        let was = self.path_mtu.usual_packet();
        let len = Bytes::from_u32(head.len.min(self.segment_len()));
        self.path_mtu.on_data_lost(now, [len; 2], self.snd_nxt(), true);
        self.follow_search();
        self.path_mtu.usual_packet() < was
    }

    /// After an ACK: the probe arrived, so segments may be as large. The window keeps its bytes.
    #[cold]
    pub(super) fn on_mtu_probe_acked(&mut self, now: Instant) {
        let Some(size) = self.path_mtu.on_ack(now, self.snd_una()) else { return };
        self.counters.mtu_probes_arrived += 1;
        let packet = self.path_mtu.packet_of(self.path_mtu.mss_with_options());
        self.undo.set_prior_ssthresh(self.current_ssthresh());
        self.flow.cwnd = (u64::from(self.flow.cwnd) * packet.get() / size.get()).max(1) as u32;
        self.flow.cwnd_cnt = 0;
        self.flow.ssthresh = self.current_ssthresh();
        self.update_mss();
    }

    /// Something is lost: is it the probe, and it alone? Then it says something of the path's MTU
    /// and nothing of congestion.
    #[cold]
    pub(super) fn mtu_probe_is_lost(&mut self, now: Instant) -> bool {
        if self.flow.ca_state >= CaState::Cwr || !self.path_mtu.on_loss(now, self.snd_una()) {
            return false;
        }
        self.counters.mtu_probes_lost += 1;
        self.flow.cwnd += 1;
        self.retransmit_oversized(now);
        true
    }

    /// A retransmission timeout while nothing has got through for long: large packets may be lost
    /// without a word.
    #[cold]
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        let stuck = self.undo.retrans_stamp().is_some_and(|since| timestamp(now).wrapping_sub(since) >= BLACK_HOLE_MS);
        if self.loss.backoffs() > 0 && stuck {
            self.path_mtu.on_black_hole(now);
            self.update_mss();
        }
    }
}
