//! Selective acknowledgements (RFC 2018, RFC 2883) and RACK's loss detection (RFC 8985), as Linux does both.

use super::Socket;
use super::ack::AckState;
use super::queue::Sent;
use super::timer::Pending;
use polypath_base::{Duration, Instant, Seq};
use polypath_wire::{SackBlock, Segment};

/// Recoveries for which a widened reordering window is kept (RFC 8985 section 6.2 step 4).
const REO_WND_PERSIST: u8 = 16;

#[derive(Debug)]
pub(super) struct Rack {
    /// Send time and end of the most recently sent segment that was delivered, and its RTT.
    at: Instant,
    end_seq: Seq,
    rtt: Duration,
    pub(super) advanced: bool,
    /// Width of the reordering window in quarters of the minimum RTT.
    reo_wnd_steps: u8,
    reo_wnd_persist: u8,
    dsack_seen: bool,
    last_delivered: u32,
    pub(super) reordering_seen: bool,
    /// SACK blocks of the last ACK that was looked at: unchanged blocks need no second look.
    seen: [SackBlock; 4],
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            at: Instant::ZERO,
            end_seq: Seq::default(),
            rtt: Duration::ZERO,
            advanced: false,
            reo_wnd_steps: 1,
            reo_wnd_persist: 0,
            dsack_seen: false,
            last_delivered: 0,
            reordering_seen: false,
            seen: [SackBlock::default(); 4],
        }
    }
}

#[inline]
fn sent_after(a: Instant, a_end: Seq, b: Instant, b_end: Seq) -> bool {
    a > b || (a == b && a_end.after(b_end))
}

impl Rack {
    /// RFC 8985 section 6.2 step 2.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant, sent: &Sent, min_rtt_us: u32) {
        let rtt = now.since(sent.at);
        if sent.is_retransmitted() && rtt.as_micros() < u64::from(min_rtt_us) {
            return; // the ACK is for the original, not for the retransmission
        }
        self.advanced = true;
        self.rtt = rtt;
        if sent_after(sent.at, sent.end(), self.at, self.end_seq) {
            self.at = sent.at;
            self.end_seq = sent.end();
        }
    }

    pub(super) fn note_dsack(&mut self) {
        self.dsack_seen = true;
    }

    /// A DSACK undid a reduction: keep the window wide for longer.
    pub(super) fn persist(&mut self) {
        self.reo_wnd_persist = REO_WND_PERSIST.min(self.reo_wnd_persist + 1);
    }

    pub(super) fn recovery_ended(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
    }

    /// RFC 8985 section 6.2 step 4: widen once a round that brought a DSACK.
    pub(super) fn update_reo_wnd(&mut self, prior_delivered: u32, delivered: u32) {
        if self.dsack_seen && prior_delivered.wrapping_sub(self.last_delivered) as i32 >= 0 {
            self.reo_wnd_steps = self.reo_wnd_steps.saturating_add(1);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.reo_wnd_persist = REO_WND_PERSIST;
        } else if self.reo_wnd_persist == 0 {
            self.reo_wnd_steps = 1;
        }
    }
}

impl Socket {
    /// Applies the SACK blocks of an ACK to the scoreboard.
    #[inline(never)]
    pub(super) fn apply_sacks(&mut self, now: Instant, segment: &Segment, ack: &mut AckState) {
        let blocks = segment.sack.as_slice();
        let mut first = 0;
        if self.is_dsack(blocks, segment.ack) {
            first = 1;
            self.handle_dsack(blocks[0], ack);
        }
        // In ascending order: a block below what an earlier ACK reported is reordering, one below its neighbour in this ACK is not.
        let mut ascending = segment.sack.blocks;
        let ascending = &mut ascending[first..blocks.len()];
        ascending.sort_unstable_by_key(|block| block.start.distance(self.snd_una()));
        for &block in &*ascending {
            if self.rack.seen.contains(&block) && !self.queue.highest_sacked().before(block.end) && self.queue.sacked_out() > 0 {
                // Seen before and unchanged; only segments retransmitted or added since could differ, and those were not in it.
                continue;
            }
            if !block.start.before(block.end) || block.end.after(self.snd_nxt()) || !block.end.after(self.snd_una()) {
                continue;
            }
            self.apply_block(now, block, ack);
        }
        self.rack.seen = segment.sack.blocks;
        for stale in &mut self.rack.seen[blocks.len()..] {
            *stale = SackBlock::default();
        }
        // In the loss state without an undo marker reordering cannot be told from loss.
        if self.flow.ca_state != super::CaState::Loss || self.loss.undo_marker.is_some() {
            self.note_reordering(ack.reordered_from, false);
        }
    }

    fn apply_block(&mut self, now: Instant, block: SackBlock, ack: &mut AckState) {
        let mut index = self.queue.index_of(block.start);
        while index < self.queue.len() {
            let sent = *self.queue.at(index);
            if !sent.seq.before(block.end) {
                break;
            }
            let whole = !sent.seq.before(block.start) && !sent.end().after(block.end);
            if whole && !sent.is_sacked() {
                self.sack_one(now, index, &sent, ack);
            }
            index += 1;
        }
    }

    fn sack_one(&mut self, now: Instant, index: usize, sent: &Sent, ack: &mut AckState) {
        if !sent.is_retrans() {
            // A hole below what was selectively acknowledged before, never retransmitted: reordering, not loss.
            if !sent.is_retransmitted() && sent.seq.before(self.queue.highest_sacked()) && self.queue.sacked_out() > 0 {
                ack.reordered_from = Some(ack.reordered_from.map_or(sent.seq, |low| sent.seq.min(low)));
            }
            if !sent.is_retransmitted() {
                if !sent.end().after(self.loss.high_seq) {
                    ack.facts.delivers_original = true;
                }
                ack.first_sacked_at.get_or_insert(sent.at);
                ack.last_sacked_at = Some(sent.at);
            }
        }
        self.rack.advance(now, sent, self.flow.min_rtt_us);
        self.delivery.on_delivered(sent, &mut ack.rate);
        self.queue.mark_sacked(index);
        self.flow.delivered = self.flow.delivered.wrapping_add(1);
        ack.facts.sacks_segments = true;
    }

    /// RFC 2883 section 4: the first block reports a duplicate if it lies below the cumulative ACK or inside the second block.
    fn is_dsack(&self, blocks: &[SackBlock], ack: Seq) -> bool {
        match blocks {
            [first, ..] if first.start.before(ack) => true,
            [first, second, ..] => !first.end.after(second.end) && !first.start.before(second.start),
            _ => false,
        }
    }

    fn handle_dsack(&mut self, block: SackBlock, ack: &mut AckState) {
        ack.facts.reports_duplicate = true;
        self.counters.dsacks_received += 1;
        if self.loss.tlp_high_seq.is_some_and(|tlp| tlp == block.end) {
            ack.facts.reports_probe_duplicate = true;
            return; // a probe that was not needed says nothing of reordering
        }
        self.rack.note_dsack();
        if let (Some(marker), Some(left)) = (self.loss.undo_marker, self.loss.undo_retrans)
            && left > 0
            && !block.end.after(ack.prior_una)
            && block.end.after(marker)
        {
            let segments = block.end.distance(block.start).div_ceil(self.flow.mss.max(1));
            self.loss.undo_retrans = Some(left.saturating_sub(segments.max(1)));
        }
    }

    /// Adaptive reordering: remembers the largest distance seen, in segments.
    #[inline(never)]
    pub(super) fn note_reordering(&mut self, from: Option<Seq>, timestamp: bool) {
        let Some(low) = from else { return };
        let fack = self.queue.highest_sacked();
        if !low.before(fack) && !timestamp {
            return;
        }
        if low.before(fack) {
            let distance = fack.distance(low).div_ceil(self.flow.mss);
            if distance > self.flow.reordering {
                self.flow.reordering = distance.min(self.settings.max_reordering);
            }
        }
        self.rack.reordering_seen = true;
    }

    /// RFC 8985 section 6.2 step 4's window; zero while no reordering was seen and loss is evident.
    fn reo_wnd(&self) -> Duration {
        if !self.rack.reordering_seen && (self.flow.ca_state >= super::CaState::Recovery || self.queue.sacked_out() >= self.flow.reordering)
        {
            return Duration::ZERO;
        }
        let quarter = u64::from(self.flow.min_rtt_us >> 2) * u64::from(self.rack.reo_wnd_steps);
        Duration::from_micros(quarter.min(u64::from(self.flow.srtt_us >> 3)))
    }

    /// Marks what RACK deems lost at `now` (RFC 8985 section 6.2 step 5); arms the reordering timer for what is still in doubt.
    pub(super) fn rack_detect(&mut self, now: Instant) {
        if !self.rack.advanced {
            return;
        }
        self.rack.advanced = false;
        let wait = self.rack_mark(now);
        if wait > Duration::ZERO {
            let wait = wait + self.timers.floor();
            self.timers.arm_pending(Pending::Reordering, now, wait);
        }
    }

    /// Marks losses; returns the longest time until another segment would be lost.
    #[inline(never)]
    pub(super) fn rack_mark(&mut self, now: Instant) -> Duration {
        let allowed = self.rack.rtt + self.reo_wnd();
        let mut wait = Duration::ZERO;
        let mut judge = |queue: &mut super::queue::SendQueue, lost: &mut u32, index: usize| {
            let age = now.since(queue.at(index).at);
            if age >= allowed {
                if queue.mark_lost(index) {
                    *lost = lost.wrapping_add(1);
                }
                true
            } else {
                wait = wait.max(allowed - age);
                false
            }
        };
        // Originals, oldest first: sequence order is sending order.
        let start = self.queue.rack_start();
        let (mut index, mut done) = (start, start);
        let mut contiguous = true;
        while index < self.queue.len() {
            let sent = *self.queue.at(index);
            let open = !sent.is_sacked() && !sent.is_lost() && !sent.is_retransmitted();
            if open {
                if !sent_after(self.rack.at, self.rack.end_seq, sent.at, sent.end()) {
                    break;
                }
                contiguous &= judge(&mut self.queue, &mut self.flow.lost, index);
            }
            index += 1;
            if contiguous {
                done = index;
            }
        }
        self.queue.set_rack_hint(done);
        // Retransmissions, in the order in which they left; an entry is stale if its segment was delivered, lost or sent again.
        let mut keep = 0;
        while keep < self.queue.retransmitted.len() {
            let (seq, at) = self.queue.retransmitted[keep];
            let index = self.queue.index_of(seq);
            let current = index < self.queue.len() && {
                let sent = self.queue.at(index);
                sent.seq == seq && sent.at == at && sent.is_retransmitted() && !sent.is_sacked() && (!sent.is_lost() || sent.is_retrans())
            };
            if !current {
                self.queue.retransmitted.remove(keep);
                continue;
            }
            let sent = *self.queue.at(index);
            if !sent_after(self.rack.at, self.rack.end_seq, sent.at, sent.end()) {
                break;
            }
            if judge(&mut self.queue, &mut self.flow.lost, index) {
                self.queue.retransmitted.remove(keep);
            } else {
                keep += 1;
            }
        }
        wait
    }

    /// Whether RACK would, after a timeout, still wait for this segment.
    pub(super) fn rack_still_waits(&self, now: Instant, index: usize) -> bool {
        let sent = self.queue.at(index);
        self.rack.rtt + self.reo_wnd() > now.since(sent.at)
    }
}
