//! When an ACK leaves: at once, delayed, or compressed while data waits behind a hole
//! (RFC 5681 section 4.2 with Linux's quick ACKs and ACK compression). It knows no timer and no
//! segment: the socket says what came and arms what it is told.

use crate::settings::Settings;
use polypath_base::{Duration, Instant, Seq};

/// Segments that are acknowledged one by one at the start and after idle times (Linux:
/// `TCP_MAX_QUICKACKS`).
const MAX_QUICK_ACKS: u32 = 16;
/// Duplicate ACKs that leave at once before compression begins (Linux: `dup_ack_counter` up to
/// `TCP_FASTRETRANS_THRESH`).
const UNCOMPRESSED: u32 = 3;
/// Most ACKs that one compressed ACK stands for (`tcp_comp_sack_nr`).
const MAX_COMPRESSED: u32 = 44;
/// Longest delay of a compressed ACK (`tcp_comp_sack_delay_ns`).
const COMPRESSED_DELAY: Duration = Duration::from_millis(1);
/// Longest that a delayed ACK grows to by waiting for its timer (Linux: `TCP_DELACK_MAX`).
const MAX_INFLATED_DELAY: Duration = Duration::from_millis(200);

/// What came, as far as the ACK depends on it.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Arrived {
    /// It lies beyond a hole.
    pub(in crate::tcp) out_of_order: bool,
    /// Something waits beyond a hole.
    pub(in crate::tcp) hole: bool,
    /// More than a full segment has come since the last ACK, and the connection does not decide on
    /// that.
    pub(in crate::tcp) full_frames: bool,
    /// The next sequence number expected.
    pub(in crate::tcp) next: Seq,
    pub(in crate::tcp) sack_ok: bool,
}

/// Until when the ACK waits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum AckTime {
    Now,
    Delayed(Duration),
    /// As [`compressed_delay`] says.
    Compressed,
}

/// The ACK policy of one receiver.
#[derive(Debug)]
pub(in crate::tcp) struct AckPolicy {
    now: bool,
    /// The next ACK that is owed leaves at once, be it for a packet that comes later (Linux:
    /// `ICSK_ACK_NOW` without `ICSK_ACK_SCHED`).
    hurries: bool,
    scheduled: bool,
    /// A segment that ends a burst or is not full has come since the last ACK: a reader that
    /// empties the buffer answers it (Linux: `ICSK_ACK_PUSHED`).
    pushed: bool,
    /// A segment that is not full has come after that: the reader answers in a conversation too
    /// (Linux: `ICSK_ACK_PUSHED2`).
    pushed_twice: bool,
    /// Data went out soon after data had come: a conversation, in which answers carry the ACKs
    /// (Linux: `pingpong`).
    pingpong: bool,
    /// Segments that are yet to be acknowledged one by one (Linux: `icsk_ack.quick`).
    quick: u32,
    /// How long an ACK may wait, ticks (Linux: `icsk_ack.ato`).
    ato: u32,
    delack_min: u32,
    delack_max: u32,
    /// Nanoseconds of a tick; 1 without ticks.
    tick: u32,
    last_data_at: Option<Instant>,
    compressed: u32,
    duplicate_acks: u32,
    compressed_from: Seq,
    /// An ACK leaves behind the own FIN.
    follows_fin: bool,
}

impl AckPolicy {
    pub(in crate::tcp) fn new(settings: &Settings) -> Self {
        let tick = settings.tick.as_nanos().max(1);
        let ticks = |time: Duration| (time.as_nanos() / tick) as u32;
        Self {
            now: false,
            hurries: false,
            scheduled: false,
            pushed: false,
            pushed_twice: false,
            pingpong: false,
            quick: 0,
            ato: 0,
            delack_min: ticks(settings.delack_min),
            delack_max: ticks(settings.delack_max),
            tick: tick as u32,
            last_data_at: None,
            compressed: 0,
            duplicate_acks: 0,
            compressed_from: Seq::default(),
            follows_fin: false,
        }
    }

    /// Data begins at `next`.
    pub(in crate::tcp) fn start(&mut self, next: Seq) {
        self.compressed_from = next;
    }

    /// An ACK leaves at the next opportunity.
    #[inline]
    pub(in crate::tcp) fn is_due(&self) -> bool {
        self.now
    }

    /// An ACK waits for its timer.
    #[inline]
    pub(in crate::tcp) fn is_scheduled(&self) -> bool {
        self.scheduled
    }

    /// ACKs are being compressed: the one that waits stands for several.
    #[inline]
    pub(in crate::tcp) fn is_compressing(&self) -> bool {
        self.compressed > 0
    }

    /// A reader that empties the buffer sends the ACK, since no answer will carry it (Linux:
    /// `tcp_cleanup_rbuf`).
    #[inline]
    pub(in crate::tcp) fn reader_sends_it(&self) -> bool {
        self.scheduled & self.pushed & (self.pushed_twice | !self.pingpong)
    }

    pub(in crate::tcp) fn cancel(&mut self) {
        (self.now, self.scheduled) = (false, false);
    }

    #[inline]
    pub(in crate::tcp) fn ack_now(&mut self) {
        self.now = true;
    }

    /// Once an ACK is owed it leaves at once; one that is owed already does so if `looks` (Linux:
    /// `tcp_ack_snd_check`, which the fast path of ACKs leaves out).
    #[cold]
    pub(in crate::tcp) fn hasten(&mut self, looks: bool) {
        self.hurries = true;
        self.now |= looks & self.scheduled;
    }

    /// The next segments, so many at least, are acknowledged one by one (Linux:
    /// `tcp_enter_quickack_mode`).
    pub(in crate::tcp) fn enter_quickack(&mut self, count: u32) {
        debug_assert!(count > 0, "something is acknowledged at once");
        self.quick = self.quick.max(count);
        self.ato = self.delack_min;
        self.pingpong = false;
    }

    /// A SYN/ACK has come for which a writer waited (Linux: `tcp_rcv_synsent_state_process`).
    #[cold]
    pub(in crate::tcp) fn on_writer_waited(&mut self, now: Instant) {
        self.enter_quickack(MAX_QUICK_ACKS);
        self.last_data_at = Some(now);
    }

    /// When data last came, if any did.
    pub(in crate::tcp) fn last_data_at(&self) -> Option<Instant> {
        self.last_data_at
    }

    /// The peer has ended its data and nothing quicker is called for: an ACK is owed, which what the
    /// program sends on may carry (Linux: `tcp_fin`).
    pub(in crate::tcp) fn enter_pingpong(&mut self) {
        self.scheduled = true;
        self.pingpong = true;
    }

    /// Data came twice: the peer has lost our ACKs.
    pub(in crate::tcp) fn on_duplicate_data(&mut self) {
        self.quick = MAX_QUICK_ACKS;
        self.pingpong = false;
    }

    /// The window has grown: Linux acknowledges the segment that let it at once.
    #[inline]
    pub(in crate::tcp) fn on_window_grown(&mut self) {
        self.quick |= 1;
    }

    /// Data leaves.
    #[inline]
    pub(in crate::tcp) fn on_data_sent(&mut self, now: Instant) {
        if let Some(last) = self.last_data_at {
            self.pingpong |=
                now.since(last) < self.delay_of(self.ato.saturating_sub(1)) || self.ticks_between(last, now) < u64::from(self.ato);
        }
    }

    /// Whole ticks, as the kernel's clock counts them (Linux: `tcp_jiffies32`).
    #[inline]
    fn ticks_between(&self, from: Instant, to: Instant) -> u64 {
        let tick = u64::from(self.tick);
        to.as_nanos() / tick - from.as_nanos() / tick
    }

    #[inline]
    fn delay_of(&self, ticks: u32) -> Duration {
        Duration::from_nanos(u64::from(ticks) * u64::from(self.tick))
    }

    /// Behind the FIN that leaves next there is an ACK.
    #[cold]
    pub(in crate::tcp) fn follow_fin(&mut self) {
        self.follows_fin = true;
    }

    /// The own FIN leaves.
    #[cold]
    pub(in crate::tcp) fn on_fin_sent(&mut self) {
        self.now |= std::mem::take(&mut self.follows_fin);
    }

    /// The timer of delayed ACKs came up.
    pub(in crate::tcp) fn on_delayed_timer(&mut self) {
        if self.scheduled {
            if self.pingpong {
                // No answer came.
                self.pingpong = false;
                self.ato = self.delack_min;
            } else {
                // Linux: a delayed ACK that had to wait for its timer inflates the next delay.
                self.ato = (self.ato * 2).min((MAX_INFLATED_DELAY.as_nanos() / u64::from(self.tick)) as u32);
            }
            self.now = true;
        }
    }

    /// The timer of compressed ACKs came up.
    pub(in crate::tcp) fn on_compressed_timer(&mut self) {
        if self.compressed > 0 {
            self.now = true;
        }
    }

    /// Any segment carries an ACK; true if timers for one were pending.
    #[inline]
    pub(in crate::tcp) fn on_sent(&mut self) -> bool {
        (self.now, self.hurries) = (false, false);
        if self.quick > 0 && self.scheduled {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = self.delack_min;
            }
        }
        let had_timers = self.scheduled || self.compressed > 0;
        self.scheduled = false;
        (self.pushed, self.pushed_twice) = (false, false);
        self.compressed = 0;
        had_timers
    }

    /// Data came in its turn: how long an ACK may wait follows the gaps between arrivals, and after
    /// a long one (`rto`), be it while a hole was mended, each segment is acknowledged for a while.
    /// `window` is what the last ACK announced, in bytes.
    #[inline]
    pub(in crate::tcp) fn on_arrival(&mut self, now: Instant, rto: Duration, window: u32, segment_size: u32) {
        if let Some(last) = self.last_data_at.replace(now) {
            let half = self.delack_min / 2;
            // Most gaps are so short that nothing need be divided.
            if now.since(last) < self.delay_of(half.saturating_sub(1)) {
                self.ato = self.ato / 2 + half;
                return;
            }
            let gap = self.ticks_between(last, now);
            if gap <= u64::from(half) {
                self.ato = self.ato / 2 + half;
            } else if gap < u64::from(self.ato) {
                self.ato = (self.ato / 2 + gap as u32).min(self.delack_max);
            } else if Duration::from_nanos(gap * u64::from(self.tick)) > rto {
                self.increment_quick(window, segment_size);
            }
        } else {
            self.increment_quick(window, segment_size);
            self.ato = self.delack_min;
        }
    }

    /// Linux: `tcp_incr_quickack`.
    fn increment_quick(&mut self, window: u32, segment_size: u32) {
        debug_assert!(segment_size > 0, "a segment was measured");
        let count = match window / (2 * segment_size) {
            0 => 2,
            count => count.min(MAX_QUICK_ACKS),
        };
        self.quick = self.quick.max(count);
    }

    /// An ACK is owed; `short`: for a segment that is not full, `ends`: for one that ends a burst.
    #[inline]
    pub(in crate::tcp) fn owe(&mut self, short: bool, ends: bool) {
        self.scheduled = true;
        self.pushed_twice |= self.pushed & short;
        self.pushed |= short | ends;
    }

    /// When the ACK that is owed leaves.
    #[inline]
    pub(in crate::tcp) fn schedule(&mut self, arrived: Arrived) -> AckTime {
        debug_assert!(self.scheduled, "an ACK is owed");
        if arrived.full_frames || (self.quick > 0 && !self.pingpong) || (self.now | self.hurries) {
            self.now = true;
            return AckTime::Now;
        }
        if !arrived.out_of_order && !arrived.hole {
            return AckTime::Delayed(self.delay());
        }
        self.compress(arrived)
    }

    /// How long an ACK may wait.
    #[inline]
    pub(in crate::tcp) fn delay(&self) -> Duration {
        self.delay_of(self.ato.min(self.delack_max))
    }

    /// Data waits behind a hole (Linux: `__tcp_ack_snd_check`).
    fn compress(&mut self, arrived: Arrived) -> AckTime {
        if !arrived.sack_ok || self.compressed >= MAX_COMPRESSED {
            self.now = true;
            return AckTime::Now;
        }
        if self.compressed_from != arrived.next {
            self.compressed_from = arrived.next;
            self.duplicate_acks = 0;
        }
        if self.duplicate_acks < UNCOMPRESSED {
            self.duplicate_acks += 1;
            self.now = true;
            return AckTime::Now;
        }
        self.compressed += 1;
        debug_assert!(self.compressed <= MAX_COMPRESSED && self.duplicate_acks == UNCOMPRESSED, "ACKs are compressed within bounds");
        AckTime::Compressed
    }
}

/// How long a compressed ACK waits: a twentieth of the shorter of two estimates of the RTT,
/// microseconds (`smoothed_us` zero: unknown).
pub(in crate::tcp) fn compressed_delay(percent: u32, receiver_us: u32, smoothed_us: u32) -> Duration {
    let rtt_us = if smoothed_us > 0 { receiver_us.min(smoothed_us) } else { receiver_us };
    Duration::from_nanos(u64::from(rtt_us) * 10 * u64::from(percent)).min(COMPRESSED_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_ORDER: Arrived = Arrived { out_of_order: false, hole: false, full_frames: false, next: Seq::new(1), sack_ok: true };
    const BEYOND: Arrived = Arrived { out_of_order: true, hole: true, ..IN_ORDER };
    const RTO: Duration = Duration::from_millis(200);

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// A segment of 1000 bytes arrives and, where the ACK leaves at once, it does.
    fn arrive(acks: &mut AckPolicy, now: Instant, arrived: Arrived) -> AckTime {
        if !arrived.out_of_order {
            acks.on_arrival(now, RTO, 20_000, 1000);
        }
        acks.owe(false, false);
        let time = acks.schedule(arrived);
        if acks.is_due() {
            acks.on_sent();
        }
        time
    }

    /// A receiver that has acknowledged its first segments one by one.
    fn settled() -> AckPolicy {
        let mut acks = AckPolicy::new(&Settings::default());
        acks.start(Seq::new(1));
        while arrive(&mut acks, ms(0), IN_ORDER) == AckTime::Now {}
        acks.on_sent();
        acks
    }

    #[test]
    fn the_first_segments_are_acknowledged_one_by_one() {
        let mut acks = AckPolicy::new(&Settings::default());
        let quick = (0..30).take_while(|_| arrive(&mut acks, ms(0), IN_ORDER) == AckTime::Now).count();
        assert_eq!(quick, 10, "half of the window, at most 16");
    }

    #[test]
    fn two_full_segments_are_acknowledged_at_once_and_one_waits() {
        let mut acks = settled();
        assert!(matches!(arrive(&mut acks, ms(10), IN_ORDER), AckTime::Delayed(delay) if delay <= Duration::from_millis(60)));
        assert!(acks.is_scheduled() && !acks.is_due());
        assert_eq!(arrive(&mut acks, ms(10), Arrived { full_frames: true, ..IN_ORDER }), AckTime::Now);
        assert!(!acks.is_scheduled());
    }

    #[test]
    fn a_delayed_ack_that_waits_for_its_timer_waits_longer_the_next_time() {
        let mut acks = settled();
        arrive(&mut acks, ms(10), IN_ORDER);
        let before = acks.ato;
        acks.on_delayed_timer();
        assert!(acks.is_due());
        assert_eq!(acks.ato, before * 2);
        (0..9).for_each(|_| acks.on_delayed_timer());
        assert_eq!(acks.delay(), MAX_INFLATED_DELAY);
    }

    #[test]
    fn gaps_are_counted_in_whole_ticks() {
        let mut acks = AckPolicy::new(&Settings { tick: Duration::from_millis(4), ..Settings::default() });
        arrive(&mut acks, Instant::from_nanos(3_900_000), IN_ORDER);
        arrive(&mut acks, ms(32), IN_ORDER);
        assert_eq!(acks.delay(), Duration::from_millis(20 + 32), "28.1 ms are eight ticks here");
        acks.on_data_sent(Instant::from_nanos(83_900_000));
        assert!(acks.pingpong, "and these 51.9 ms twelve, less than thirteen");
    }

    #[test]
    fn a_writer_that_waited_for_the_syn_ack_is_in_a_conversation() {
        let first_ack = |waited: bool| {
            let mut acks = AckPolicy::new(&Settings::default());
            acks.start(Seq::new(1));
            if waited {
                acks.on_writer_waited(ms(0));
            }
            acks.on_data_sent(ms(0));
            arrive(&mut acks, ms(20), IN_ORDER)
        };
        assert_eq!(first_ack(false), AckTime::Now);
        assert!(matches!(first_ack(true), AckTime::Delayed(_)));
    }

    #[test]
    fn a_conversation_leaves_acks_to_the_answers() {
        let mut acks = settled();
        arrive(&mut acks, ms(10), IN_ORDER);
        acks.owe(true, false);
        assert!(acks.reader_sends_it());
        acks.on_data_sent(ms(11));
        assert!(!acks.reader_sends_it());
        acks.owe(false, true);
        assert!(!acks.reader_sends_it(), "a full segment");
        acks.owe(true, true);
        assert!(acks.reader_sends_it(), "a second short one");
        acks.on_sent();
        acks.owe(true, true);
        assert!(!acks.reader_sends_it());
        acks.on_delayed_timer();
        assert!(acks.reader_sends_it() && acks.is_due(), "no answer came");
    }

    #[test]
    fn a_long_pause_begins_anew_with_quick_acks() {
        let mut acks = settled();
        assert!(matches!(arrive(&mut acks, ms(100), IN_ORDER), AckTime::Delayed(_)));
        acks.on_sent();
        assert_eq!(arrive(&mut acks, ms(400), IN_ORDER), AckTime::Now);
    }

    #[test]
    fn beyond_a_hole_three_acks_leave_at_once_and_then_one_stands_for_44() {
        let mut acks = settled();
        let times: Vec<_> = (0..48).map(|_| arrive(&mut acks, ms(1), BEYOND)).collect();
        assert_eq!(times[..3], [AckTime::Now; 3]);
        assert!(times[3..47].iter().all(|&time| time == AckTime::Compressed));
        assert_eq!(times[47], AckTime::Now);
        assert_eq!(arrive(&mut acks, ms(1), Arrived { next: Seq::new(2), ..BEYOND }), AckTime::Now, "another hole");
        assert_eq!(arrive(&mut acks, ms(1), Arrived { sack_ok: false, ..BEYOND }), AckTime::Now, "nothing to compress without SACK");
    }

    #[test]
    fn a_compressed_ack_waits_for_a_twentieth_of_the_round_trip() {
        assert_eq!(compressed_delay(5, 10_000, 8000), Duration::from_micros(400));
        assert_eq!(compressed_delay(33, 2000, 0), Duration::from_micros(660));
        assert_eq!(compressed_delay(5, 10_000, 0), Duration::from_micros(500));
        assert_eq!(compressed_delay(5, 100_000, 90_000), COMPRESSED_DELAY);
    }
}
