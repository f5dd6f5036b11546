//! What an incoming ACK does to the sender.

use super::rate::RateSample;
use super::scoreboard::Sent;
use super::{CaState, Context, Sender};
use crate::tcp::ecn::accurate::{AccEcn, Delivered};
use crate::tcp::timer::{Pending, Timer};
use polypath_base::{Duration, Instant, Seq};
use polypath_cc as cc;
use polypath_wire::SackBlock;

/// Longest round trip that an echoed timestamp can tell, ms: in microseconds it fits into 31 bits
/// (Linux: `tcp_ack_update_rtt`).
const MAX_ECHO_MS: u32 = 1 << 21;

/// The round trip that an echoed timestamp tells; none if it is no time of ours.
pub(in crate::tcp) fn rtt_by_echo(now: Instant, echo: u32) -> Option<Duration> {
    let ms = super::timestamp(now).wrapping_sub(echo);
    (ms < MAX_ECHO_MS).then(|| Duration::from_millis(u64::from(ms.max(1))))
}

/// What an acknowledgement says.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Ack<'a> {
    /// Where the segment that carries it begins.
    pub(in crate::tcp) seq: Seq,
    /// The cumulative acknowledgment.
    pub(in crate::tcp) number: Seq,
    /// The window that it announces, bytes.
    pub(in crate::tcp) window: u32,
    /// Its SACK blocks; none where SACK is not agreed on.
    pub(in crate::tcp) sacks: &'a [SackBlock],
    /// The peer's timestamp, and the time of ours that it echoes, ms.
    pub(in crate::tcp) stamps: Option<(u32, u32)>,
    pub(in crate::tcp) carries_data: bool,
    /// It has ECE.
    pub(in crate::tcp) ece: bool,
    /// It comes with data in its turn and nothing else that is new, unless the number or the window
    /// is.
    pub(in crate::tcp) is_predicted: bool,
}

/// What an incoming ACK told, as far as it has been processed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckFacts {
    pub(super) carries_data: bool,
    /// The peer's receive window became larger or smaller.
    pub(super) changes_window: bool,
    /// The window that it tells counts as the newest, though it may be the same (Linux:
    /// `FLAG_WIN_UPDATE`).
    pub(super) updates_window: bool,
    /// The cumulative acknowledgment moved, if only into a segment.
    pub(super) advances_una: bool,
    /// The cumulative acknowledgment covers at least one more whole segment.
    pub(super) acks_segments: bool,
    /// One of those was in the network as a retransmission.
    pub(super) acks_retransmission: bool,
    /// A segment at or below `high_seq` that was sent only once has arrived.
    pub(super) delivers_original: bool,
    /// A SACK block covers at least one more whole segment.
    pub(super) sacks_segments: bool,
    /// RFC 2883: the receiver got a segment twice.
    pub(super) reports_duplicate: bool,
    /// That segment was the tail loss probe.
    pub(super) reports_probe_duplicate: bool,
    pub(super) echoes_ce: bool,
    /// It has an AccECN option.
    pub(super) tells_counters: bool,
    /// RACK found a retransmission lost.
    pub(super) proves_retransmission_lost: bool,
    /// RACK waits for what may only be late.
    pub(super) waits_for_reordered: bool,
    /// It says nothing of what an earlier one acknowledged selectively, though that is due next.
    pub(super) suspects_reneging: bool,
}

impl AckFacts {
    /// It carries data, tells of a newer window or acknowledges something: no pure duplicate ACK.
    #[inline]
    pub(super) fn is_more_than_duplicate(&self) -> bool {
        self.carries_data | self.updates_window | self.acks_segments
    }
}

#[derive(Debug)]
pub(super) struct AckState {
    pub(super) number: Seq,
    pub(super) facts: AckFacts,
    pub(super) prior_una: Seq,
    pub(super) ts_ecr: Option<u32>,
    pub(super) is_duplicate: bool,
    pub(super) rate: RateSample,
    pub(super) reordered_from: Option<Seq>,
    pub(super) first_sacked_at: Option<Instant>,
    pub(super) last_sacked_at: Option<Instant>,
}

/// Of segments that were sent once: when the first and the last of them left, and where the first
/// began.
type Found<'a> = (&'a mut Option<Instant>, &'a mut Instant, &'a mut Option<Seq>);

impl Sender {
    /// The peer acknowledges; `accecn`: what is kept of accurate ECN, where both ends have it.
    pub(in crate::tcp) fn on_ack(&mut self, cx: Context<'_>, told: &Ack<'_>, accecn: Option<&mut AccEcn>) {
        debug_assert!(!self.snd_una().after(self.snd_nxt()), "what is acknowledged has been sent");
        let prior_una = self.snd_una();
        if told.is_predicted && told.number == prior_una && told.window == self.snd_wnd {
            self.snd_wl1 = told.seq;
            return;
        }
        self.unanswered_probes.on_ack();
        self.nagle.on_ack();
        if told.number == prior_una && self.scoreboard.packets_out() == 0 {
            // Nothing is in the network, as always at a receiver: the ACK can only tell of a
            // window.
            let updates_window = self.is_newer_window(told.seq, told.number, told.window);
            let changes_window = updates_window && self.update_peer_window(told.seq, told.window);
            if changes_window && self.has_unsent() {
                self.idle_restart(cx.now, true);
            }
            if let Some(accecn) = accecn {
                self.hear_counters(accecn, prior_una);
            }
            if self.has_unsent() && self.obeys_window() {
                self.on_ack_of_probe(cx.now);
            }
            if !told.sacks.is_empty() || self.tlp.is_out() {
                self.hear_of_duplicates(cx, told, prior_una, updates_window, changes_window);
            }
            return;
        }
        if told.number.after(self.snd_nxt()) || told.number.before(prior_una) {
            // Data not yet sent, or an old ACK overtaken by a newer one: its SACK blocks may still
            // help.
            if told.number.before(prior_una) && !told.sacks.is_empty() {
                self.on_old_ack(cx, told, prior_una);
            }
            return;
        }
        if let Some(stamps) = told.stamps {
            (self.flow.ts_peer, self.flow.ts_echo) = stamps;
        }
        let prior_delivered = self.flow.delivered;
        let prior_lost = self.flow.lost;
        let had_packets = self.scoreboard.packets_out() > 0;
        let mut ack = self.begin_ack(told, prior_una);

        ack.facts.updates_window = self.is_newer_window(told.seq, told.number, told.window);
        ack.facts.changes_window = ack.facts.updates_window && self.update_peer_window(told.seq, told.window);
        if told.number != prior_una {
            ack.facts.advances_una = true;
            let newly = told.number.distance(prior_una);
            self.flow.bytes_acked += u64::from(newly);
            self.flow.snd_una = told.number.get();
            self.loss.on_progress();
        } else if !told.carries_data && !ack.facts.updates_window && had_packets {
            ack.is_duplicate = true;
        }
        // A segment of which the front was acknowledged before begins before it (Linux:
        // `tcp_highest_sack_seq`).
        let prior_fack = if self.scoreboard.sacked_out() > 0 { self.scoreboard.highest_sacked() } else { prior_una };
        if self.sack_ok && (!told.sacks.is_empty() || self.scoreboard.sacked_out() > 0) {
            self.apply_sacks(cx.now, told.sacks, &mut ack);
        }
        let restarts_timer = had_packets && self.clean_queue(cx, prior_fack, &mut ack);
        self.rack.update_reo_wnd(ack.rate.sample.prior_delivered, self.flow.delivered);
        if self.flow.ecn_ok {
            self.hear_of_marks(told, accecn, prior_delivered, &mut ack);
        }
        self.cc.in_ack_event(&mut self.flow, cx.siblings, event_flags(!told.sacks.is_empty() | ack.facts.tells_counters, &ack.facts));
        if self.tlp.is_out() {
            self.process_tlp_ack(cx, &ack);
        }
        let facts = &ack.facts;
        let tells_of_loss = facts.sacks_segments | facts.reports_duplicate | facts.echoes_ce;
        if !facts.is_more_than_duplicate() || tells_of_loss || self.flow.ca_state != CaState::Open {
            self.fastretrans_alert(cx, &mut ack);
        }
        if restarts_timer && !(ack.facts.waits_for_reordered | ack.facts.suspects_reneging) {
            self.arm_after_ack(cx.now);
        }

        let delivered = self.flow.delivered.wrapping_sub(prior_delivered);
        let lost = self.flow.lost.wrapping_sub(prior_lost);
        debug_assert!(!self.snd_una().after(self.snd_nxt()) && self.flow.cwnd > 0, "the edges are in order, and the window is open");
        debug_assert!(
            (self.scoreboard.packets_out() == 0) == (self.snd_una() == self.snd_nxt()),
            "what is not acknowledged is in the scoreboard"
        );
        self.delivery.finish(cx.now, &mut self.flow, delivered, lost, &mut ack.rate);
        self.control_window(cx, delivered, lost, &ack);
        // Linux looks for room once what may leave has left (`tcp_data_snd_check`).
        self.space_check = self.writer_blocked;
        if self.is_subflow && !self.settings.stack.subflow_grows_after_sending {
            self.check_space();
        }
    }

    /// The same of an ACK that finds nothing in the network.
    #[cold]
    fn hear_counters(&mut self, accecn: &mut AccEcn, prior_una: Seq) {
        let delivered = self.delivered_since(self.flow.delivered, &AckFacts::default(), prior_una);
        self.flow.delivered_ce = self.flow.delivered_ce.wrapping_add(accecn.on_ack(self.flow.delivered_ce, &delivered));
    }

    /// Nothing is in the network. What was sent again and came twice may take a reduction back, or be
    /// the probe.
    #[cold]
    fn hear_of_duplicates(&mut self, cx: Context<'_>, told: &Ack<'_>, prior_una: Seq, updates_window: bool, changes_window: bool) {
        let mut ack = self.begin_ack(told, prior_una);
        (ack.facts.updates_window, ack.facts.changes_window) = (updates_window, changes_window);
        self.apply_sacks(cx.now, told.sacks, &mut ack);
        if ack.facts.reports_duplicate {
            self.fastretrans_alert(cx, &mut ack);
        }
        if self.tlp.is_out() {
            self.process_tlp_ack(cx, &ack);
        }
    }

    /// One that was overtaken, with SACK blocks.
    #[cold]
    fn on_old_ack(&mut self, cx: Context<'_>, told: &Ack<'_>, prior_una: Seq) {
        let mut ack = self.begin_ack(told, prior_una);
        self.apply_sacks(cx.now, told.sacks, &mut ack);
        self.fastretrans_alert(cx, &mut ack);
    }

    /// What the ACK tells of marks: by its ECE all that it delivers is one (RFC 3168), else as many
    /// packets as it says (RFC 9768).
    #[inline(never)]
    fn hear_of_marks(&mut self, told: &Ack<'_>, accecn: Option<&mut AccEcn>, prior_delivered: u32, ack: &mut AckState) {
        let marked = if let Some(accecn) = accecn {
            ack.facts.tells_counters = accecn.hears_option();
            accecn.on_ack(self.flow.delivered_ce, &self.delivered_since(prior_delivered, &ack.facts, ack.prior_una))
        } else {
            self.flow.delivered.wrapping_sub(prior_delivered)
        };
        let is_told = if self.classic_ecn { told.ece } else { marked > 0 };
        if is_told {
            ack.facts.echoes_ce = true;
            ack.rate.sample.is_ece = true;
            self.flow.delivered_ce = self.flow.delivered_ce.wrapping_add(marked);
        }
    }

    /// What accurate ECN asks of an ACK (Linux: `tcp_accecn_process`).
    fn delivered_since(&self, prior_delivered: u32, facts: &AckFacts, prior_una: Seq) -> Delivered {
        let packets = self.flow.delivered.wrapping_sub(prior_delivered);
        let bytes = if facts.acks_segments { self.scoreboard.una().distance(prior_una) } else { packets * self.flow.mss };
        Delivered {
            packets,
            bytes,
            progresses: facts.acks_segments | facts.sacks_segments,
            mss: self.flow.mss,
            is_exact: self.sack_ok || matches!(self.flow.ca_state, CaState::Open | CaState::Cwr),
            bytes_sent: self.flow.bytes_acked,
        }
    }

    /// An ACK came while data waits and nothing is in the network: the next probe of the window
    /// waits from now on, if what waits does not fit yet (Linux: `tcp_ack_probe`).
    #[cold]
    fn on_ack_of_probe(&mut self, now: Instant) {
        let (buffer, is_last) = self.queue.next_buffer();
        let fin = is_last && self.fin_ready();
        if buffer.min(self.size_goal()) + u32::from(fin) <= self.window_room() {
            self.rtt.on_window_open();
            self.timers.disarm(Timer::Retransmission);
        } else {
            let wait = self.within_user_timeout(Pending::WindowProbe, now, self.rtt.probe_timeout());
            self.timers.arm_pending(Pending::WindowProbe, now, wait);
        }
    }

    fn begin_ack(&self, told: &Ack<'_>, prior_una: Seq) -> AckState {
        AckState {
            number: told.number,
            facts: AckFacts { carries_data: told.carries_data, ..AckFacts::default() },
            prior_una,
            ts_ecr: told.stamps.map(|(_, echo)| echo),
            is_duplicate: false,
            rate: RateSample::new(self.scoreboard.in_flight()),
            reordered_from: None,
            first_sacked_at: None,
            last_sacked_at: None,
        }
    }

    /// RFC 9293 section 3.10.7.4: the window of the newest segment counts.
    #[inline]
    pub(in crate::tcp) fn is_newer_window(&self, seq: Seq, number: Seq, window: u32) -> bool {
        let closes = window == 0 && self.settings.stack.takes_zero_windows;
        number.after(self.snd_una()) || seq.after(self.snd_wl1) || (seq == self.snd_wl1 && (window > self.snd_wnd || closes))
    }

    /// The window of a segment is the newest; true if it changed.
    #[inline]
    fn update_peer_window(&mut self, seq: Seq, window: u32) -> bool {
        self.snd_wl1 = seq;
        let changed = window != self.snd_wnd;
        self.snd_wnd = window;
        // The connection may have raised the window of a subflow to this before: then Linux never
        // sees that the peer has announced it (`tcp_ack_update_window`).
        if changed && self.path_mtu.on_peer_window(window) {
            self.widen_segments();
        }
        changed
    }

    /// The peer's window is wider than any before, which may allow longer segments.
    #[cold]
    fn widen_segments(&mut self) {
        if self.path_mtu.bound_to_half_window(u32::MAX) < u32::from(u16::MAX) {
            self.update_mss();
        }
    }

    /// Removes what is acknowledged cumulatively; takes RTT samples. True if the retransmission
    /// timer begins anew.
    fn clean_queue(&mut self, cx: Context<'_>, prior_fack: Seq, ack: &mut AckState) -> bool {
        if self.path_mtu.reads_scoreboard() {
            self.tell_search_of_acked(ack.number);
        }
        let (mut first_at, mut last_at): (Option<Instant>, Instant) = (None, Instant::ZERO);
        let mut acked = 0;
        let mut retransmitted = false;
        let mut low_hole: Option<Seq> = None;
        let any_sacked = self.scoreboard.sacked_out() > 0;
        let reno_sacked = if self.sack_ok { 0 } else { self.take_reno_sacks() };
        // The first segment that is left was in one buffer with the last that goes.
        let mut continues = false;
        // Nearly always each segment was sent once, nothing of it was marked since, and so the last
        // of them decides.
        if let Some((first, last, [count, bursts])) = self.scoreboard.plain_acked(ack.number) {
            (first_at, last_at, low_hole) =
                (Some(first.at), last.at, Some(first.seq - u32::from(std::mem::take(&mut self.rack.head_trimmed))));
            acked = count;
            self.flow.delivered = self.flow.delivered.wrapping_add(count);
            let any_before_high = !first.end().after(self.loss.high_seq());
            ack.facts.delivers_original |= any_before_high;
            self.rack.advance(cx.now, last, self.flow.min_rtt_us);
            self.delivery.on_delivered(last, &mut ack.rate);
            let end = last.seq + last.len;
            let last = *last;
            self.scoreboard.pop_plain([count, bursts], end);
            continues = end != ack.number && self.scoreboard.head().is_some_and(|head| last.is_in_buffer_of(head));
        }
        if self.scoreboard.una() != ack.number && self.scoreboard.head_if_acked(ack.number).is_some() {
            (acked, retransmitted, continues) = self.clean_scoreboarded(cx.now, acked, (&mut first_at, &mut last_at, &mut low_hole), ack);
        }
        if self.scoreboard.una() != ack.number && self.scoreboard.head().is_some_and(|head| ack.number.after(head.seq)) {
            let (fewer, again) = self.clean_part(cx.now, continues, (&mut first_at, &mut last_at, &mut low_hole), ack);
            (acked, retransmitted) = (acked + fewer, retransmitted | again);
        }
        if self.path_mtu.reads_scoreboard() {
            self.settle_arrived_probes(cx.now);
        } else if self.path_mtu.is_probe_out() {
            self.on_mtu_probe_acked(cx.now);
        }
        if acked > 0 {
            ack.facts.acks_segments = true;
        }
        if !self.sack_ok {
            self.remove_reno_sacks(reno_sacked, acked);
            // Which of them were sent once nothing shows (Linux: `tcp_clean_rtx_queue`).
            ack.facts.delivers_original &= !retransmitted;
        }
        // Karn's algorithm: only segments never retransmitted give an RTT; SACKed ones too
        // (RFC 6298 section 3).
        let acked_rtt = first_at.filter(|_| !retransmitted).map(|at| cx.now.since(at));
        let sacked_rtt = ack.first_sacked_at.map(|at| cx.now.since(at));
        let by_timestamp = || rtt_by_echo(cx.now, ack.ts_ecr.filter(|_| acked > 0)?);
        let rtt = acked_rtt.or(sacked_rtt);
        let stamped_rtt = if rtt.is_none() { by_timestamp() } else { None };
        // The timeout goes by the first segment that this ACK covers, algorithms and the least RTT
        // by the last one.
        let last_at = ack.last_sacked_at.or(first_at.filter(|_| !retransmitted).map(|_| last_at));
        let last_rtt = last_at.map(|at| cx.now.since(at)).or(stamped_rtt);
        if let (Some(rtt), Some(last)) = (rtt.or(stamped_rtt), last_rtt) {
            self.rtt.sample(rtt, last, self.snd_una(), self.snd_nxt(), &mut self.flow);
        }
        if acked > 0
            && let Some(low) = low_hole
            && low.before(prior_fack)
            && self.sack_ok
        {
            // A hole that was never retransmitted got filled: that is reordering.
            self.note_reordering(Some(low), false);
        }
        let sample = &mut ack.rate.sample;
        sample.rtt_us = last_rtt.map_or(-1, |rtt| rtt.as_micros() as i64);
        // A lone short segment in a round trip: the receiver may have waited for a second one.
        sample.is_ack_delayed = acked == 1
            && !any_sacked
            && self.snd_una().distance(ack.prior_una) < self.flow.mss
            && sample.prior_delivered.wrapping_add(1) == self.flow.delivered
            && !(ack.facts.sacks_segments | ack.facts.reports_duplicate);
        if acked > 0 || ack.last_sacked_at.is_some() {
            sample.pkts_acked = acked;
            // One that draws gets a number here whether it looks at it or not.
            if self.cc.has_pkts_acked() || self.cc.flags() & cc::flags::DRAWS != 0 {
                self.refresh_flow();
            }
            self.cc.pkts_acked(&mut self.flow, cx.siblings, &ack.rate.sample);
        }
        // A selective acknowledgement of what left after the first segment did tells nothing of
        // that.
        let since_head = || self.scoreboard.head().map(|head| cx.now.since(head.at));
        acked > 0 || sacked_rtt.zip(since_head()).is_some_and(|(rtt, head)| rtt > head)
    }

    /// As [`Sender::clean_queue`] for segments of which some were retransmitted, lost or sacked.
    /// Returns how many were acknowledged, with the `acked` before them, whether any was
    /// retransmitted, and whether the first that is left was in one buffer with the last.
    #[inline(never)]
    fn clean_scoreboarded(&mut self, now: Instant, mut acked: u32, mut found: Found<'_>, ack: &mut AckState) -> (u32, bool, bool) {
        let (mut retransmitted, mut continues) = (false, false);
        while let Some(&sent) = self.scoreboard.head_if_acked(ack.number) {
            acked += 1;
            if !sent.is_sacked() {
                self.flow.delivered = self.flow.delivered.wrapping_add(1);
            }
            retransmitted |= sent.is_retransmitted();
            self.learn_of_acked(now, &sent, &mut found, ack);
            self.scoreboard.pop_head();
            continues = self.scoreboard.head().is_some_and(|head| sent.is_in_buffer_of(head));
        }
        (acked, retransmitted, continues)
    }

    /// Part of the first buffer is acknowledged, which `continues` what went before. Returns how many
    /// segments fewer it has, and whether it was retransmitted (Linux: `tcp_tso_acked`).
    #[cold]
    fn clean_part(&mut self, now: Instant, continues: bool, mut found: Found<'_>, ack: &mut AckState) -> (u32, bool) {
        let Some(mut part) = self.scoreboard.head().copied() else { return (0, false) };
        let last = self.scoreboard.at(self.scoreboard.buffer_end(0) - 1).end();
        debug_assert!(last.after(ack.number), "the peer has acknowledged a part of it");
        // One that is alone in its buffer keeps its beginning until it goes again (Linux:
        // `tcp_clean_rtx_queue`).
        let is_alone = !continues && self.scoreboard.buffer_end(0) == 1;
        let trimmed = if is_alone { self.rack.head_trimmed + ack.number.distance(part.seq) as u16 } else { 0 };
        let fewer = self.scoreboard.trim_head(ack.number);
        self.rack.head_trimmed = trimmed;
        if fewer == 0 {
            return (0, false);
        }
        if !part.is_sacked() {
            self.flow.delivered = self.flow.delivered.wrapping_add(fewer);
        }
        part.len = last.distance(part.seq);
        self.learn_of_acked(now, &part, &mut found, ack);
        (fewer, part.is_retransmitted())
    }

    /// What is acknowledged says when it left, of reordering, and of losses.
    fn learn_of_acked(&mut self, now: Instant, sent: &Sent, found: &mut Found<'_>, ack: &mut AckState) {
        let (first_at, last_at, low_hole) = found;
        let trimmed = u32::from(std::mem::take(&mut self.rack.head_trimmed));
        if sent.is_retransmitted() {
            ack.facts.acks_retransmission |= sent.is_retrans();
        } else if !sent.is_sacked() {
            **last_at = sent.at;
            first_at.get_or_insert(sent.at);
            low_hole.get_or_insert(sent.seq - trimmed);
            ack.facts.delivers_original |= !sent.end().after(self.loss.high_seq());
        }
        if !sent.is_sacked() {
            // An echo from before it was sent again: an earlier copy was received, and this one's
            // time says nothing of losses.
            let earlier_copy = sent.is_retransmitted() && ack.ts_ecr.is_some_and(|echo| super::is_earlier(echo, super::timestamp(sent.at)));
            if !earlier_copy {
                self.rack.advance(now, sent, self.flow.min_rtt_us);
            }
            self.delivery.on_delivered(sent, &mut ack.rate);
        }
    }

    /// What algorithms read and the transport computes.
    #[inline]
    pub(super) fn refresh_flow(&mut self) {
        self.flow.in_flight = self.scoreboard.in_flight();
        self.flow.packets_out = self.scoreboard.packets_out();
        self.flow.cwnd_limited = self.is_cwnd_limited();
        self.flow.next_send_ns = self.pacer.next().as_nanos();
        if self.cc.flags() & cc::flags::DRAWS != 0 {
            self.flow.random = self.random.next_u32();
        }
    }

    fn control_window(&mut self, cx: Context<'_>, delivered: u32, lost: u32, ack: &AckState) {
        if self.cc.has_cong_control() {
            self.refresh_flow();
            let flags = if ack.facts.changes_window { cc::ack_flags::WIN_UPDATE } else { 0 };
            self.cc.cong_control(&mut self.flow, cx.siblings, ack.number.get(), flags, &ack.rate.sample);
            return;
        }
        if matches!(self.flow.ca_state, CaState::Cwr | CaState::Recovery) {
            self.reduce_window(delivered, lost, ack.facts);
        } else {
            // While the path reorders much, SACKs count as progress too; otherwise only the
            // cumulative ACK does.
            let sacks_count = self.flow.reordering > self.settings.reordering.get();
            if ack.facts.acks_segments | (sacks_count & ack.facts.sacks_segments) {
                self.refresh_flow();
                self.cc.cong_avoid(&mut self.flow, cx.siblings, ack.number.get(), delivered);
                self.cwnd_validation.on_change(cx.now);
                if self.flow.reduce != 0 {
                    self.flow.reduce = 0;
                    self.enter_cwr(cx);
                }
            }
        }
        self.update_pacing_rate();
    }

    /// Linux's rule: twice the window a round trip in slow start, 1.2 times after. Without a round
    /// trip measured it takes the least.
    pub(super) fn update_pacing_rate(&mut self) {
        if self.cc.flags() & cc::flags::PACES != 0 {
            return;
        }
        let percent = if self.flow.cwnd < self.flow.ssthresh / 2 { 200 } else { 120 };
        let window = u64::from(self.flow.cwnd.max(self.scoreboard.packets_out()));
        // mss * window stays below 2^46 and the factor below 2^24, so the product holds in 64 bits.
        let rate = u64::from(self.flow.mss) * window * (80_000 * percent) / u64::from(self.flow.srtt_us.max(1));
        self.flow.pacing_rate = rate.min(self.flow.max_pacing_rate);
    }

    #[inline]
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_validation.is_cwnd_limited(self.window(), self.flow.max_packets_out)
    }
}

/// What `in_ack_event` is told of an ACK: Linux's fast path takes those that bring nothing but a
/// number.
#[inline]
fn event_flags(has_sacks: bool, facts: &AckFacts) -> u32 {
    if facts.echoes_ce {
        let window = if facts.changes_window { cc::ack_flags::WIN_UPDATE } else { 0 };
        return cc::ack_flags::SLOWPATH | cc::ack_flags::ECE | window;
    }
    match (has_sacks, facts.changes_window) {
        (false, false) => 0,
        (true, false) => cc::ack_flags::SLOWPATH,
        (_, true) => cc::ack_flags::SLOWPATH | cc::ack_flags::WIN_UPDATE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_of_no_time_of_ours_tells_no_round_trip() {
        let now = Instant::ZERO + Duration::from_secs(100);
        let echo = super::super::timestamp(now);
        let ms = |back| rtt_by_echo(now, echo.wrapping_sub(back)).map(|rtt| rtt.as_micros() / 1000);
        assert_eq!([ms(0), ms(30), ms(MAX_ECHO_MS - 1)], [Some(1), Some(30), Some(u64::from(MAX_ECHO_MS) - 1)]);
        assert_eq!([ms(MAX_ECHO_MS), ms(u32::MAX), ms(1 << 31)], [None; 3], "too old, or later than now");
    }

    #[test]
    fn an_event_tells_what_an_ack_brings_beside_its_number() {
        let told = |echoes_ce, has_sacks, changes_window| {
            let flags = event_flags(has_sacks, &AckFacts { changes_window, echoes_ce, ..AckFacts::default() });
            [cc::ack_flags::SLOWPATH, cc::ack_flags::ECE, cc::ack_flags::WIN_UPDATE].map(|flag| flags & flag != 0)
        };
        assert_eq!(told(false, false, false), [false, false, false]);
        assert_eq!(told(false, true, false), [true, false, false]);
        assert_eq!(told(false, false, true), [true, false, true]);
        assert_eq!(told(true, false, false), [true, true, false]);
        assert_eq!(told(true, true, true), [true, true, true]);
    }
}
