//! Selective acknowledgements (RFC 2018, RFC 2883), as Linux reads them.

use super::Sender;
use super::ack::AckState;
use super::scoreboard::Sent;
use polypath_base::{Instant, Seq};
use polypath_wire::SackBlock;

/// SACK blocks of the last ACK that was looked at: unchanged blocks need no second look (Linux:
/// `recv_sack_cache`).
#[derive(Debug, Default)]
pub(super) struct SackCache([SackBlock; 4]);

impl Sender {
    /// Applies the SACK blocks of an ACK to the scoreboard.
    #[inline(never)]
    pub(super) fn apply_sacks(&mut self, now: Instant, blocks: &[SackBlock], ack: &mut AckState) {
        debug_assert!(blocks.len() <= 4, "an option holds four blocks at most (RFC 2018 section 3)");
        let mut first = 0;
        if is_dsack(blocks, ack.number) {
            first = 1;
            self.handle_dsack(blocks[0], ack);
        }
        // In ascending order: a block below what an earlier ACK reported is reordering, one below
        // its neighbour in this ACK is not.
        let mut ascending = [SackBlock::default(); 4];
        ascending[..blocks.len()].copy_from_slice(blocks);
        let seen = ascending;
        let ascending = &mut ascending[first..blocks.len()];
        ascending.sort_unstable_by_key(|block| block.start.distance(self.snd_una()));
        for &block in &*ascending {
            if self.sack_cache.0.contains(&block) && !self.scoreboard.highest_sacked().before(block.end) && self.scoreboard.sacked_out() > 0
            {
                // Seen before and unchanged; only segments retransmitted or added since could
                // differ, and those were not in it.
                continue;
            }
            if !block.start.before(block.end) || block.end.after(self.snd_nxt()) || !block.end.after(self.snd_una()) {
                continue;
            }
            self.apply_block(now, block, ack);
        }
        self.sack_cache.0 = seen;
        // In the loss state without an undo marker reordering cannot be told from loss.
        if self.flow.ca_state != super::CaState::Loss || self.undo.is_watching() {
            self.note_reordering(ack.reordered_from, false);
        }
    }

    fn apply_block(&mut self, now: Instant, block: SackBlock, ack: &mut AckState) {
        let mut index = self.scoreboard.index_of(block.start);
        while index < self.scoreboard.len() {
            let sent = *self.scoreboard.at(index);
            if !sent.seq.before(block.end) {
                break;
            }
            let whole = !sent.seq.before(block.start) && !sent.end().after(block.end);
            if whole && !sent.is_sacked() {
                self.sack_one(now, index, &sent, ack);
            } else if sent.seq.before(block.start) && self.scoreboard.buffer_end(index) > index + 1 {
                // Linux cuts the buffer there, at a whole segment (`tcp_match_skb_to_sack`).
                self.scoreboard.begin_buffer(index + 1);
            }
            index += 1;
        }
    }

    fn sack_one(&mut self, now: Instant, index: usize, sent: &Sent, ack: &mut AckState) {
        if !sent.is_retrans() {
            // A hole below what was selectively acknowledged before, never retransmitted:
            // reordering, not loss.
            if !sent.is_retransmitted() && sent.seq.before(self.scoreboard.highest_sacked()) && self.scoreboard.sacked_out() > 0 {
                ack.reordered_from = Some(ack.reordered_from.map_or(sent.seq, |low| sent.seq.min(low)));
            }
            if !sent.is_retransmitted() {
                if !sent.end().after(self.loss.high_seq()) {
                    ack.facts.delivers_original = true;
                }
                ack.first_sacked_at.get_or_insert(sent.at);
                ack.last_sacked_at = Some(sent.at);
            }
        }
        self.rack.advance(now, sent, self.flow.min_rtt_us);
        self.delivery.on_delivered(sent, &mut ack.rate);
        self.scoreboard.mark_sacked(index);
        self.flow.delivered = self.flow.delivered.wrapping_add(1);
        ack.facts.sacks_segments = true;
    }

    /// RFC 2883 section 4: the peer got `block` twice.
    fn handle_dsack(&mut self, block: SackBlock, ack: &mut AckState) {
        self.counters.dsacks_received += 1;
        if !block.start.before(block.end) {
            return;
        }
        let segments = block.end.distance(block.start).div_ceil(self.flow.mss.max(1));
        let of_probe = segments == 1 && self.tlp.is_end(block.end);
        ack.facts.reports_probe_duplicate = of_probe;
        if self.settings.stack.doubts_dsacks {
            self.duplicates_told += u64::from(segments);
            if self.duplicates_told > self.counters.retransmissions {
                return; // more than was ever sent again
            }
            // A probe that was not needed says nothing of reordering.
            if self.rack.has_seen_reordering() && !of_probe {
                self.rack.note_dsack();
            }
        } else {
            self.rack.note_dsack();
        }
        ack.facts.reports_duplicate = true;
        // What came twice has left the network, too.
        self.flow.delivered = self.flow.delivered.wrapping_add(segments);
        if !block.end.after(ack.prior_una) {
            self.undo.on_dsack(block.end, segments);
            return;
        }
        let mut index = self.scoreboard.index_of(block.start);
        while index < self.scoreboard.len() {
            let sent = *self.scoreboard.at(index);
            if sent.end().after(block.end) {
                break;
            }
            if !sent.seq.before(block.start) && sent.is_retransmitted() {
                self.undo.on_dsack(sent.end(), 1);
                if sent.is_sacked() {
                    ack.reordered_from = Some(ack.reordered_from.map_or(sent.seq, |low| sent.seq.min(low)));
                }
                self.scoreboard.retransmission_arrived(index);
            }
            index += 1;
        }
    }

    /// Adaptive reordering: remembers the largest distance seen, in segments.
    #[inline(never)]
    pub(super) fn note_reordering(&mut self, from: Option<Seq>, timestamp: bool) {
        let Some(low) = from else { return };
        // Once nothing that was told lies beyond a hole, the distance ends at the first byte that is
        // not acknowledged (Linux: `tcp_highest_sack_seq`).
        let fack = if self.scoreboard.sacked_out() > 0 { self.scoreboard.highest_sacked() } else { self.snd_una() };
        if !low.before(fack) && !timestamp {
            return;
        }
        if low.before(fack) {
            let distance = fack.distance(low).div_ceil(self.flow.mss);
            if distance > self.flow.reordering {
                self.flow.reordering = distance.min(self.settings.max_reordering.get());
            }
        }
        self.rack.note_reordering();
    }
}

/// RFC 2883 section 4: the first block reports a duplicate if it lies below the cumulative ACK or
/// inside the second block.
fn is_dsack(blocks: &[SackBlock], ack: Seq) -> bool {
    match blocks {
        [first, ..] if first.start.before(ack) => true,
        [first, second, ..] => !first.end.after(second.end) && !first.start.before(second.start),
        _ => false,
    }
}
