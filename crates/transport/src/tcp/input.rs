//! Data that arrives: the receiver takes it, and the socket arms the timers of its ACKs.

use super::ecn::accurate::{AccEcn, NOT_ECT};
use super::receiving::{AckTime, Payload, compressed_delay};
use super::timer::Timer;
use super::{Context, Socket, State};
use crate::receive_buffer::Waiting;
use crate::stack::MptcpVersion;
use polypath_base::{Duration, Instant};
use polypath_wire::{Flags, Segment};

impl Socket {
    #[inline(never)]
    pub(super) fn handle_data(&mut self, now: Instant, segment: &Segment) {
        // A mapping may begin before the segment (RFC 8684 section 3.3.1).
        let inside = if segment.has_dss { self.rx.offset_of(segment.seq).wrapping_sub(segment.dss.ssn) } else { 0 };
        let whole = Payload {
            seq: segment.seq,
            len: segment.len,
            dsn: segment.dss.dsn + i64::from(inside as i32) as u64,
            is_mapped: segment.has_dss & (segment.dss.map_len > 0),
            fin: segment.flags.has(Flags::FIN),
            memory: self.rx.memory_apart(segment),
        };
        let payload = self.rx.trim(whole, self.tx.sack_ok() && self.settings.dsack);
        if self.tx.ecn_ok()
            && let Some(marked) = self.ecn.on_data(self.rx.next(), segment, self.rx.acks_mut())
        {
            self.tx.on_mark(marked);
        }
        if payload.seq != self.rx.next() {
            self.handle_data_out_of_order(now, segment, payload);
            return;
        }
        // Linux measures before it queues: whether all was read does not ask for this segment.
        self.measure_rtt(now, segment);
        let filled = self.rx.take(now, payload);
        if segment.len > 0 {
            self.rx.on_arrival(now, self.tx.retransmission_timeout());
        }
        if self.rx.finished() {
            // An end that has closed answers at once, with what it knows beyond the FIN.
            let is_first = self.called_state() == State::Established;
            if is_first {
                self.rx.acks_mut().enter_pingpong();
            } else {
                self.rx.acks_mut().ack_now();
            }
            self.rx.forget_beyond_fin(!is_first);
        }
        self.schedule_ack(now, segment, false, filled);
        self.let_reader_read(now);
    }

    /// Data that lies beyond a hole.
    #[inline(never)]
    fn handle_data_out_of_order(&mut self, now: Instant, segment: &Segment, payload: Payload) {
        let flushes = self.rx.keep(now, payload);
        self.measure_rtt(now, segment);
        self.schedule_ack(now, segment, true, None);
        if flushes {
            // The compressed ACK that leaves tells of what was before. This segment waits for
            // another: Linux takes it for answered.
            self.rx.acks_mut().ack_now();
        }
        self.let_reader_read(now);
    }

    /// What a SYN carries: the SYN/ACK tells of it, and no ACK is scheduled (Linux:
    /// `tcp_fastopen_add_skb`).
    #[cold]
    pub(super) fn take_syn_data(&mut self, now: Instant, segment: &Segment) {
        let memory = self.rx.memory_apart(segment);
        let payload = Payload { seq: segment.seq + 1, len: segment.len, dsn: segment.dss.dsn, is_mapped: false, fin: false, memory };
        self.rx.take(now, payload);
        self.let_reader_read(now);
    }

    /// The application reads what waits for it, unless the host handles packets still.
    #[inline]
    pub(super) fn let_reader_read(&mut self, now: Instant) {
        if self.rx.is_readable() {
            self.rx.read(now);
        }
    }

    /// As [`Socket::handle_segment`], where the host has another segment for this socket already:
    /// the application runs after that one (Linux: a softirq handles all packets that have come
    /// before a process runs).
    #[cold]
    pub fn handle_segment_before_another(&mut self, cx: Context<'_>, segment: &Segment) {
        self.rx.hold_reader(true);
        self.handle_segment(cx, segment);
        self.rx.hold_reader(false);
    }

    /// The receiver's own estimate of the round trip, from echoed timestamps.
    #[inline]
    pub(super) fn measure_rtt(&mut self, now: Instant, segment: &Segment) {
        if self.timestamps.ok() && self.rx.takes_echo(segment.ts_ecr, segment.len) {
            self.rx.on_rtt(self.timestamps.since_echo(now, segment));
        }
    }

    /// An ACK waits so long, at most as long as one does that waits already; if that has a quarter of
    /// the time left, no longer (Linux: `tcp_send_delayed_ack`).
    fn delay_ack(&mut self, now: Instant, delay: Duration) {
        if self.tx.timers.is_armed(Timer::DelayedAck) {
            let left = self.tx.timers.left(Timer::DelayedAck, now);
            let tick = self.settings.tick.as_nanos().max(1);
            if left <= Duration::from_nanos(((delay.as_nanos() / tick) >> 2) * tick) {
                self.rx.acks_mut().ack_now();
                return;
            }
            if left <= delay {
                return;
            }
        }
        self.tx.timers.arm(Timer::DelayedAck, now, delay);
    }

    /// Of subflows of MPTCP 0.96 not all of the rule is modelled: five rows fewer of the out-of-tree
    /// table's group n agree with it (specs/notes/delayed-ack).
    #[inline]
    pub(super) fn delays_as_tcp(&self) -> bool {
        !self.tx.is_subflow() || self.settings.stack.mptcp_version == MptcpVersion::V1
    }

    /// A segment without data came while an ACK waits, and header prediction does not take it: an end
    /// has closed, or it has options of MPTCP (Linux: `tcp_ack_snd_check`).
    #[cold]
    pub(super) fn hasten_ack(&mut self, now: Instant) {
        let delay = self.rx.acks().delay();
        if self.tx.timers.is_armed(Timer::DelayedAck) && self.rx.acks().is_scheduled() {
            self.delay_ack(now, delay);
        }
    }

    /// Now, later, or compressed. In line, where all that asks for the order is known.
    #[inline(always)]
    fn schedule_ack(&mut self, now: Instant, segment: &Segment, out_of_order: bool, filled: Option<Waiting>) {
        match self.rx.schedule_ack(segment, out_of_order, filled, self.tx.sack_ok()) {
            AckTime::Now => {}
            AckTime::Delayed(delay) => {
                if !self.tx.timers.is_armed(Timer::DelayedAck) || self.delays_as_tcp() {
                    // No longer than a round trip, if that takes longer than the least delay
                    // (Linux: `tcp_send_delayed_ack`).
                    let srtt = self.tx.srtt();
                    let most = if srtt > Duration::ZERO && self.delays_as_tcp() { srtt.max(self.settings.delack_min) } else { delay };
                    self.delay_ack(now, delay.min(most));
                }
            }
            AckTime::Compressed => {
                if !self.tx.timers.is_armed(Timer::CompressedAck) {
                    let stack = self.settings.stack;
                    let delay =
                        compressed_delay(stack.comp_sack_percent, self.rx.buffer().rtt_us(), self.tx.smoothed_rtt().as_eighths() >> 3);
                    // Where nothing else wakes the processor the timer fires as late as it may.
                    self.tx.timers.arm(Timer::CompressedAck, now, delay + stack.comp_sack_slack);
                }
            }
        }
    }

    /// A segment is taken: what it tells of marks, and how it came. `completes`: the handshake.
    #[cold]
    pub(super) fn hear_accurate_ecn(&mut self, segment: &Segment, completes: bool) {
        let is_newer = self.timestamps.are_on(segment) && self.rx.advances_timestamp(segment);
        let Some(accecn) = self.ecn.feedback() else { return };
        if completes {
            let marked = accecn.on_third_ack(segment);
            self.tx.note_marked_syn_ack(marked);
        } else {
            accecn.hear(segment, is_newer);
        }
        self.count_marks(segment);
    }

    /// A segment in its place has come, though its acknowledgement may be none. Linux counts on
    /// established connections alone, and what ends a handshake (`tcp_rcv_established`).
    #[cold]
    pub(super) fn count_marks(&mut self, segment: &Segment) {
        let delivered_ce = self.tx.delivered_ce().get();
        let Some(accecn) = self.ecn.feedback().filter(|_| self.state == State::Established) else { return };
        if accecn.on_packet(segment.ecn, segment.len) {
            let is_predicted = segment.mp.accecn().is_none() && segment.ace() == AccEcn::expected_ace(delivered_ce);
            self.rx.acks_mut().hasten(!is_predicted);
        }
        if segment.ecn != NOT_ECT {
            self.ecn.note_capable();
        }
        self.ecn.renew();
    }

    /// After its acknowledgement.
    #[cold]
    pub(super) fn follow_accurate_ecn(&mut self) {
        if self.ecn.feedback().is_some_and(AccEcn::take_haste) {
            self.rx.acks_mut().hasten(true);
        }
        self.reserve_sack_options();
    }
}
