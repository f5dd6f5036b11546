//! RACK (RFC 8985 section 6; Linux: `tcp_recovery.c`): a segment is lost if one that was sent well
//! after it has been delivered.

use crate::tcp::sender::scoreboard::{Scoreboard, Sent};
use crate::tcp::sender::{CaState, Sender};
use crate::tcp::timer::Pending;
use polypath_base::{Duration, Instant, Seq};

/// Recoveries for which a widened reordering window is kept (RFC 8985 section 6.2 step 4).
const REO_WND_PERSIST: u8 = 16;

#[derive(Debug)]
pub(in crate::tcp) struct Rack {
    /// Send time and end of the most recently sent segment that was delivered, and its RTT.
    at: Instant,
    end_seq: Seq,
    rtt: Duration,
    /// Something was delivered since losses were last looked for.
    advanced: bool,
    /// Width of the reordering window in quarters of the minimum RTT.
    reo_wnd_steps: u8,
    reo_wnd_persist: u8,
    dsack_seen: bool,
    last_delivered: u32,
    reordering_seen: bool,
    /// Bytes of the first segment that were acknowledged before the rest of it, from which
    /// reordering counts too.
    pub(in crate::tcp) head_trimmed: u16,
}

/// What the width of the reordering window depends on beside what RACK has seen.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct ReoWnd {
    /// Least RTT, microseconds.
    pub(in crate::tcp) min_rtt_us: u32,
    /// Smoothed RTT, microseconds times 8.
    pub(in crate::tcp) srtt: u32,
    /// In recovery, or as many segments were selectively acknowledged as stand for a loss.
    pub(in crate::tcp) loss_is_evident: bool,
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
            head_trimmed: 0,
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
    pub(in crate::tcp) fn advance(&mut self, now: Instant, sent: &Sent, min_rtt_us: u32) {
        let rtt = now.since(sent.at);
        if sent.is_retransmitted() && rtt.as_micros() < u64::from(min_rtt_us) {
            return; // the ACK is for the original, not for the retransmission
        }
        self.advanced = true;
        self.rtt = rtt;
        debug_assert!(now >= sent.at, "it was sent before it arrived");
        if sent_after(sent.at, sent.end(), self.at, self.end_seq) {
            self.at = sent.at;
            self.end_seq = sent.end();
        }
    }

    pub(in crate::tcp) fn note_dsack(&mut self) {
        self.dsack_seen = true;
    }

    /// A DSACK undid a reduction: keep the window wide for longer.
    pub(in crate::tcp) fn persist(&mut self) {
        self.reo_wnd_persist = REO_WND_PERSIST.min(self.reo_wnd_persist + 1);
    }

    pub(in crate::tcp) fn recovery_ended(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
    }

    /// RFC 8985 section 6.2 step 4: widens the window once a round trip that brought a DSACK. So
    /// much was delivered when the segment left that this ACK acknowledges (`prior_delivered`,
    /// zero: none), and is now.
    pub(in crate::tcp) fn update_reo_wnd(&mut self, prior_delivered: u32, delivered: u32) {
        if prior_delivered == 0 {
            return;
        }
        // It left before the window was widened last.
        self.dsack_seen &= prior_delivered.wrapping_sub(self.last_delivered) as i32 >= 0;
        if self.dsack_seen {
            self.reo_wnd_steps = self.reo_wnd_steps.saturating_add(1);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.reo_wnd_persist = REO_WND_PERSIST;
        } else if self.reo_wnd_persist == 0 {
            self.reo_wnd_steps = 1;
        }
    }

    /// A reduction was taken back: losses are looked for anew.
    pub(in crate::tcp) fn look_again(&mut self) {
        self.advanced = true;
    }

    /// Something was delivered since this was last asked.
    pub(in crate::tcp) fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    pub(in crate::tcp) fn has_seen_reordering(&self) -> bool {
        self.reordering_seen
    }

    pub(in crate::tcp) fn note_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// RFC 8985 section 6.2 step 4's window; zero while no reordering was seen and loss is evident.
    pub(in crate::tcp) fn reo_wnd(&self, by: ReoWnd) -> Duration {
        if !self.reordering_seen && by.loss_is_evident {
            return Duration::ZERO;
        }
        let quarters = u64::from(by.min_rtt_us >> 2) * u64::from(self.reo_wnd_steps);
        Duration::from_micros(quarters.min(u64::from(by.srtt >> 3)))
    }

    /// Whether a segment is, after a timeout, not lost yet. RFC 8985 section 6.3 would wait for a
    /// reordering window more (Linux: `tcp_timeout_mark_lost`).
    pub(in crate::tcp) fn still_waits(&self, now: Instant, sent: &Sent) -> bool {
        self.rtt > now.since(sent.at)
    }

    /// RFC 8985 section 6.2 step 5: marks what is lost, and counts it in `lost`; returns the
    /// longest time until another segment would be.
    #[inline(never)]
    pub(in crate::tcp) fn mark_lost(&self, now: Instant, reo_wnd: Duration, board: &mut Scoreboard, lost: &mut u32) -> Duration {
        let allowed = self.rtt + reo_wnd;
        let mut wait = Duration::ZERO;
        let mut judge = |board: &mut Scoreboard, lost: &mut u32, index: usize| {
            let age = now.since(board.at(index).at);
            if age >= allowed {
                if board.mark_lost(index) {
                    *lost = lost.wrapping_add(1);
                }
                true
            } else {
                wait = wait.max(allowed - age);
                false
            }
        };
        // Originals, oldest first: sequence order is sending order.
        let start = board.rack_start();
        let (mut index, mut done) = (start, start);
        let mut contiguous = true;
        while index < board.len() {
            let sent = *board.at(index);
            let open = !sent.is_sacked() && !sent.is_lost() && !sent.is_retransmitted();
            if open {
                if !sent_after(self.at, self.end_seq, sent.at, sent.end()) {
                    break;
                }
                contiguous &= judge(board, lost, index);
            } else {
                // What a timeout marked is judged once that proves spurious (Linux: it stays in
                // `tsorted_sent_queue`).
                contiguous &= !sent.waits_to_be_retransmitted();
            }
            index += 1;
            if contiguous {
                done = index;
            }
        }
        board.set_rack_hint(done);
        // Retransmissions, in the order in which they left; an entry is stale if its segment was
        // delivered, lost or sent again.
        let mut keep = 0;
        while let Some(entry) = board.retransmission(keep) {
            let Some(index) = entry else {
                board.settle_retransmission(keep);
                continue;
            };
            let sent = *board.at(index);
            if !sent_after(self.at, self.end_seq, sent.at, sent.end()) {
                break;
            }
            if judge(board, lost, index) {
                board.settle_retransmission(keep);
            } else {
                keep += 1;
            }
        }
        wait
    }
}

impl Sender {
    fn reo_wnd(&self) -> Duration {
        self.rack.reo_wnd(ReoWnd {
            min_rtt_us: self.flow.min_rtt_us,
            srtt: self.flow.srtt_us,
            loss_is_evident: self.flow.ca_state >= CaState::Recovery || self.scoreboard.sacked_out() >= self.flow.reordering,
        })
    }

    /// Marks what RACK deems lost at `now`; arms the reordering timer if something is still in
    /// doubt, for a timeout at most, and says so (Linux: `tcp_rack_mark_lost`).
    pub(in crate::tcp::sender) fn rack_detect(&mut self, now: Instant) -> bool {
        if !self.rack.take_advanced() {
            return false;
        }
        let wait = self.rack_mark(now);
        if wait > Duration::ZERO {
            let wait = (wait + self.timers.floor()).min(self.rtt.rto());
            self.timers.arm_pending(Pending::Reordering, now, wait);
        }
        wait > Duration::ZERO
    }

    /// Marks losses; returns the longest time until another segment would be lost.
    pub(in crate::tcp::sender) fn rack_mark(&mut self, now: Instant) -> Duration {
        let reo_wnd = self.reo_wnd();
        self.rack.mark_lost(now, reo_wnd, &mut self.scoreboard, &mut self.flow.lost)
    }

    /// Whether RACK would, after a timeout, still wait for this segment.
    pub(in crate::tcp::sender) fn rack_still_waits(&self, now: Instant, index: usize) -> bool {
        self.rack.still_waits(now, self.scoreboard.at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    const NO_LOSS: ReoWnd = ReoWnd { min_rtt_us: 40_000, srtt: 8 * 50_000, loss_is_evident: false };

    /// Segments of 100 bytes from sequence number 1 on, sent a millisecond apart.
    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::new(Seq::default());
        board.start(Seq::new(1));
        for ms in 0..segments {
            board.sent(Sent { seq: Seq::new(1 + 100 * ms as u32), len: 100, at: at(ms), ..Sent::default() });
        }
        board
    }

    /// A selective acknowledgement of a segment comes.
    fn deliver(rack: &mut Rack, board: &mut Scoreboard, now: Instant, index: usize) {
        let sent = board.mark_sacked(index);
        rack.advance(now, &sent, NO_LOSS.min_rtt_us);
    }

    #[test]
    fn what_left_before_a_delivered_segment_is_lost_once_the_window_has_passed() {
        let (mut rack, mut board, mut lost) = (Rack::default(), board(5), 0);
        deliver(&mut rack, &mut board, at(43), 3);
        assert!(rack.take_advanced() && !rack.take_advanced());
        let wnd = rack.reo_wnd(NO_LOSS);
        assert_eq!(wnd, Duration::from_millis(10), "a quarter of the least RTT");
        // Sent at 0, 1 and 2 ms; lost after the RTT of 40 ms and the window.
        assert_eq!(rack.mark_lost(at(43), wnd, &mut board, &mut lost), Duration::from_millis(9));
        assert_eq!((lost, board.lost_out()), (0, 0));
        assert_eq!(rack.mark_lost(at(51), wnd, &mut board, &mut lost), Duration::from_millis(1));
        assert_eq!((lost, board.lost_out()), (2, 2));
        assert!(!board.at(4).is_lost(), "it left later");
    }

    #[test]
    fn where_loss_is_evident_nothing_is_waited_for_until_reordering_was_seen() {
        let mut rack = Rack::default();
        let evident = ReoWnd { loss_is_evident: true, ..NO_LOSS };
        assert_eq!(rack.reo_wnd(evident), Duration::ZERO);
        rack.note_reordering();
        assert_eq!(rack.reo_wnd(evident), Duration::from_millis(10));
    }

    #[test]
    fn a_dsack_widens_the_window_up_to_the_smoothed_rtt_for_sixteen_recoveries() {
        let mut rack = Rack::default();
        for round in 1..10 {
            rack.note_dsack();
            rack.update_reo_wnd(round * 10, (round + 1) * 10);
        }
        assert_eq!(rack.reo_wnd(NO_LOSS), Duration::from_millis(50));
        (0..REO_WND_PERSIST).for_each(|_| rack.recovery_ended());
        rack.update_reo_wnd(100, 110);
        assert_eq!(rack.reo_wnd(NO_LOSS), Duration::from_millis(10));
    }

    #[test]
    fn dsacks_of_one_round_trip_widen_the_window_once() {
        let mut rack = Rack::default();
        for (prior, delivered) in [(10, 20), (11, 21), (19, 29), (0, 30)] {
            rack.note_dsack();
            rack.update_reo_wnd(prior, delivered);
        }
        assert_eq!(rack.reo_wnd(NO_LOSS), Duration::from_millis(20), "what these acknowledge left before delivery 20");
        rack.update_reo_wnd(20, 31);
        assert_eq!(rack.reo_wnd(NO_LOSS), Duration::from_millis(30), "the last one is of the next round trip");
    }

    #[test]
    fn a_retransmission_is_lost_as_an_original_is() {
        let (mut rack, mut board, mut lost) = (Rack::default(), board(4), 0);
        board.mark_lost(0);
        board.mark_retransmitted(0, at(60));
        deliver(&mut rack, &mut board, at(41), 1);
        rack.mark_lost(at(200), Duration::ZERO, &mut board, &mut lost);
        assert_eq!((lost, board.retrans_out()), (0, 1), "what was delivered left before it");
        board.mark_retransmitted(2, at(61));
        let again = *board.at(2);
        rack.advance(at(101), &again, NO_LOSS.min_rtt_us);
        rack.mark_lost(at(200), Duration::ZERO, &mut board, &mut lost);
        assert!(board.at(0).is_lost() && !board.at(0).is_retrans());
    }
}
