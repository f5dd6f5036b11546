//! Selective acknowledgements (RFC 2018, RFC 2883) and RACK's loss detection (RFC 8985), as Linux does both.

use super::Socket;
use super::ack::AckState;
use super::recovery::ReoWnd;
use super::scoreboard::Sent;
use super::timer::Pending;
use polypath_base::{Duration, Instant, Seq};
use polypath_wire::{SackBlock, Segment};

/// SACK blocks of the last ACK that was looked at: unchanged blocks need no second look (Linux: `recv_sack_cache`).
#[derive(Debug, Default)]
pub(super) struct SackCache([SackBlock; 4]);

impl Socket {
    /// Applies the SACK blocks of an ACK to the scoreboard.
    #[inline(never)]
    pub(super) fn apply_sacks(&mut self, now: Instant, segment: &Segment, ack: &mut AckState) {
        let blocks = segment.sack();
        let mut first = 0;
        if is_dsack(blocks, segment.ack) {
            first = 1;
            self.handle_dsack(blocks[0], ack);
        }
        // In ascending order: a block below what an earlier ACK reported is reordering, one below its neighbour in this ACK is not.
        let mut ascending = segment.sack_blocks;
        let ascending = &mut ascending[first..blocks.len()];
        ascending.sort_unstable_by_key(|block| block.start.distance(self.tx.snd_una()));
        for &block in &*ascending {
            if self.tx.sack_cache.0.contains(&block)
                && !self.tx.scoreboard.highest_sacked().before(block.end)
                && self.tx.scoreboard.sacked_out() > 0
            {
                // Seen before and unchanged; only segments retransmitted or added since could differ, and those were not in it.
                continue;
            }
            if !block.start.before(block.end) || block.end.after(self.tx.snd_nxt()) || !block.end.after(self.tx.snd_una()) {
                continue;
            }
            self.apply_block(now, block, ack);
        }
        self.tx.sack_cache.0 = segment.sack_blocks;
        for stale in &mut self.tx.sack_cache.0[blocks.len()..] {
            *stale = SackBlock::default();
        }
        // In the loss state without an undo marker reordering cannot be told from loss.
        if self.tx.flow.ca_state != super::CaState::Loss || self.tx.undo.is_watching() {
            self.note_reordering(ack.reordered_from, false);
        }
    }

    fn apply_block(&mut self, now: Instant, block: SackBlock, ack: &mut AckState) {
        let mut index = self.tx.scoreboard.index_of(block.start);
        while index < self.tx.scoreboard.len() {
            let sent = *self.tx.scoreboard.at(index);
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
            if !sent.is_retransmitted() && sent.seq.before(self.tx.scoreboard.highest_sacked()) && self.tx.scoreboard.sacked_out() > 0 {
                ack.reordered_from = Some(ack.reordered_from.map_or(sent.seq, |low| sent.seq.min(low)));
            }
            if !sent.is_retransmitted() {
                if !sent.end().after(self.tx.loss.high_seq()) {
                    ack.facts.delivers_original = true;
                }
                ack.first_sacked_at.get_or_insert(sent.at);
                ack.last_sacked_at = Some(sent.at);
            }
        }
        self.tx.rack.advance(now, sent, self.tx.flow.min_rtt_us);
        self.tx.delivery.on_delivered(sent, &mut ack.rate);
        self.tx.scoreboard.mark_sacked(index);
        self.tx.flow.delivered = self.tx.flow.delivered.wrapping_add(1);
        ack.facts.sacks_segments = true;
    }

    /// RFC 2883 section 4: the peer got `block` twice.
    fn handle_dsack(&mut self, block: SackBlock, ack: &mut AckState) {
        self.tx.counters.dsacks_received += 1;
        if !block.start.before(block.end) {
            return;
        }
        let segments = block.end.distance(block.start).div_ceil(self.tx.flow.mss.max(1));
        let of_probe = segments == 1 && self.tx.tlp.is_end(block.end);
        ack.facts.reports_probe_duplicate = of_probe;
        if self.settings.stack.doubts_dsacks {
            self.tx.duplicates_told += u64::from(segments);
            if self.tx.duplicates_told > self.tx.counters.retransmissions {
                return; // more than was ever sent again
            }
            // A probe that was not needed says nothing of reordering.
            if self.tx.rack.has_seen_reordering() && !of_probe {
                self.tx.rack.note_dsack();
            }
        } else {
            self.tx.rack.note_dsack();
        }
        ack.facts.reports_duplicate = true;
        // What came twice has left the network, too.
        self.tx.flow.delivered = self.tx.flow.delivered.wrapping_add(segments);
        if !block.end.after(ack.prior_una) {
            self.tx.undo.on_dsack(block.end, segments);
            return;
        }
        let mut index = self.tx.scoreboard.index_of(block.start);
        while index < self.tx.scoreboard.len() {
            let sent = *self.tx.scoreboard.at(index);
            if sent.end().after(block.end) {
                break;
            }
            if !sent.seq.before(block.start) && sent.is_retransmitted() {
                self.tx.undo.on_dsack(sent.end(), 1);
                if sent.is_sacked() {
                    ack.reordered_from = Some(ack.reordered_from.map_or(sent.seq, |low| sent.seq.min(low)));
                }
                self.tx.scoreboard.retransmission_arrived(index);
            }
            index += 1;
        }
    }

    /// Adaptive reordering: remembers the largest distance seen, in segments.
    #[inline(never)]
    pub(super) fn note_reordering(&mut self, from: Option<Seq>, timestamp: bool) {
        let Some(low) = from else { return };
        let fack = self.tx.scoreboard.highest_sacked();
        if !low.before(fack) && !timestamp {
            return;
        }
        if low.before(fack) {
            let distance = fack.distance(low).div_ceil(self.tx.flow.mss);
            if distance > self.tx.flow.reordering {
                self.tx.flow.reordering = distance.min(self.settings.max_reordering.get());
            }
        }
        self.tx.rack.note_reordering();
    }

    fn reo_wnd(&self) -> Duration {
        self.tx.rack.reo_wnd(ReoWnd {
            min_rtt_us: self.tx.flow.min_rtt_us,
            srtt: self.tx.flow.srtt_us,
            loss_is_evident: self.tx.flow.ca_state >= super::CaState::Recovery
                || self.tx.scoreboard.sacked_out() >= self.tx.flow.reordering,
        })
    }

    /// Marks what RACK deems lost at `now`; arms the reordering timer if something is still in doubt, and says so.
    pub(super) fn rack_detect(&mut self, now: Instant) -> bool {
        if !self.tx.rack.take_advanced() {
            return false;
        }
        let wait = self.rack_mark(now);
        if wait > Duration::ZERO {
            self.tx.timers.arm_pending(Pending::Reordering, now, wait + self.tx.timers.floor());
        }
        wait > Duration::ZERO
    }

    /// Marks losses; returns the longest time until another segment would be lost.
    pub(super) fn rack_mark(&mut self, now: Instant) -> Duration {
        let reo_wnd = self.reo_wnd();
        self.tx.rack.mark_lost(now, reo_wnd, &mut self.tx.scoreboard, &mut self.tx.flow.lost)
    }

    /// Whether RACK would, after a timeout, still wait for this segment.
    pub(super) fn rack_still_waits(&self, now: Instant, index: usize) -> bool {
        self.tx.rack.still_waits(now, self.tx.scoreboard.at(index), self.reo_wnd())
    }
}

/// RFC 2883 section 4: the first block reports a duplicate if it lies below the cumulative ACK or inside the second block.
fn is_dsack(blocks: &[SackBlock], ack: Seq) -> bool {
    match blocks {
        [first, ..] if first.start.before(ack) => true,
        [first, second, ..] => !first.end.after(second.end) && !first.start.before(second.start),
        _ => false,
    }
}
