//! What a subflow has received, as the connection sees it: data, acknowledgements, the end of the
//! data.

use super::known_mappings::Mapping;
use super::receiver::Measured;
use super::sender::Fin;
use super::{Connection, EndedByPeer, INITIAL, Phase, Subflow};
use crate::receive_buffer::{DEFAULT_SCALING_RATIO, LEAST_GROWING};
use crate::settings::Device;
use crate::stack::{MetaSendBuffer, MptcpVersion};
use crate::tcp::State;
use polypath_base::{DataSeq, Duration, Instant};
use polypath_wire::mptcp::Number;
use polypath_wire::{Flags, Segment};

impl Connection {
    /// Moves what a subflow has in order into the connection's order.
    #[inline]
    pub(super) fn take_delivered(&mut self, now: Instant, i: usize, segment: &Segment) {
        // A mapping that has a checksum where none was agreed on, or none where one was, counts as
        // not there (Linux: `validate_data_csum`, `subflow_check_data_avail`). RFC 8684 section 3.3
        // asks for a RST.
        let disagrees = segment.has_dss & (segment.dss.map_len > 0) & (segment.dss.checksum != self.checksum);
        if disagrees & segment.mp.is_empty() & (self.phase == Phase::Established) && !self.take_unmapped(now, i) {
            self.subflows[i].socket.rx.delivered.clear();
            return;
        }
        let len = segment.len;
        let stack = self.settings.stack;
        if self.settings.device == Device::Tun {
            self.hold_packets(i);
        }
        if stack.meta_rcv_samples {
            self.sample_receiver(i, segment);
        }
        let (first, more) = self.subflows[i].socket.rx.delivered.pieces();
        let in_fallback = self.phase == Phase::Fallback;
        if first.1 > 0 {
            self.rx.insert(now, if in_fallback { self.rx.next() } else { first.0 }, first.1);
            if !more.is_empty() {
                self.rx.insert_more(now, more, in_fallback);
            }
        }
        let unmapped = self.subflows[i].socket.rx.delivered.unmapped();
        self.subflows[i].socket.rx.delivered.clear();
        if unmapped > 0 {
            if self.phase == Phase::Established && !self.take_unmapped(now, i) {
                // What came before it counts.
                self.let_reader_read(now);
                return;
            }
            self.rx.insert(now, self.rx.next(), unmapped);
        }
        if segment.has_dss & (self.acks_wide != segment.dss.dsn64) {
            self.acknowledge_with(segment.dss.dsn64);
        }
        // Linux lets the window grow by two segments for each that came in order, and tells the
        // peer at once.
        if stack.shared_rcv_ssthresh && len >= LEAST_GROWING && self.rx.rcv_ssthresh() < self.rx.full_window() {
            self.grow_rcv_ssthresh(i, len);
        }
        // Two full segments are acknowledged at once if nothing can be read yet or the window need
        // not shrink for what waits to be read. Else the reader's coming sends the ACK, where it
        // waits for that.
        let subflow = &mut self.subflows[i];
        if stack.meta_acks && subflow.socket.rx.full_frames_wait() {
            let socket = &subflow.socket;
            let window = || self.rx.room().window(socket.rx.window_limits(), socket.rx.received_segment_size(), socket.window_scale());
            if !stack.meta_acks_wait_for_reader || self.rx.unread() == 0 || window() >= subflow.announced {
                subflow.socket.request_ack();
            }
        }
        self.subflows[i].acks_before_reader = self.subflows[i].socket.rx.is_ack_due();
        if !stack.shared_rcv_ssthresh {
            self.rx.note_before_reader(now);
        }
        self.let_reader_read(now);
    }

    /// The packets of what subflow `i` has delivered.
    #[cold]
    fn hold_packets(&mut self, i: usize) {
        let in_fallback = self.phase == Phase::Fallback;
        let (mut next, rx) = (self.rx.next(), &mut self.rx);
        self.subflows[i].socket.rx.take_packets(|dsn, len, memory| {
            rx.hold(if in_fallback { next } else { dsn }, len, memory);
            next += u64::from(len);
        });
    }

    /// The reader comes at once, by its clock, or by call.
    #[inline(always)]
    fn let_reader_read(&mut self, now: Instant) {
        if self.reader_held || self.rx.finished() {
            // It reads by call, or has met the end of the data.
        } else if self.settings.read_period == Duration::ZERO {
            self.read_some(now, u64::MAX);
        } else if self.read_due == Instant::NEVER && self.rx.unread() > 0 {
            self.read_due = self.next_reading(now);
        }
    }

    /// The peer's data came with numbers of this length: acknowledgements have it too, and full
    /// segments leave room for them.
    #[cold]
    fn acknowledge_with(&mut self, wide: bool) {
        self.acks_wide = wide;
        if self.phase != Phase::Fallback {
            let bytes = self.data_options();
            for (i, subflow) in self.subflows.iter_mut().enumerate() {
                subflow.socket.set_data_options(bytes);
                self.work.touch(i);
            }
        }
    }

    /// The shared threshold of the window grows for `len` bytes that came on subflow `i`.
    #[cold]
    fn grow_rcv_ssthresh(&mut self, i: usize, len: u32) {
        debug_assert!(self.settings.stack.shared_rcv_ssthresh, "else each subflow has its own");
        self.rx.grow_rcv_ssthresh((2 * self.subflows[i].socket.advertised_mss()).max(2 * len));
        self.subflows[i].socket.quick_ack();
    }

    /// Readers that poll do so at multiples of the period since the connection was established.
    fn next_reading(&self, now: Instant) -> Instant {
        let period = self.settings.read_period.as_nanos();
        let start = self.established_at.unwrap_or(Instant::ZERO);
        start + Duration::from_nanos((now.since(start).as_nanos() / period + 1) * period)
    }

    /// The reader comes by its clock.
    #[inline(never)]
    pub(super) fn read_on_time(&mut self, now: Instant) {
        self.read_some(now, u64::MAX);
    }

    /// The application reads what waits, at most so many bytes.
    #[inline(always)]
    pub(super) fn read_some(&mut self, now: Instant, most: u64) {
        // One that the peer asked for is none before its third ACK (Linux: `__mptcp_finish_join`), and
        // the first one never goes (`__mptcp_close_ssk`).
        let stack = self.settings.stack;
        let keeps_first = stack.meta_send_buffer == MetaSendBuffer::Sum;
        let in_list = |&(i, s): &(usize, &Subflow)| (!s.closed || (keeps_first && i == INITIAL)) && s.socket.state() != State::SynReceived;
        let open = || self.subflows.iter().enumerate().filter(in_list).map(|(_, s)| s);
        let read = self.rx.read(now, most, || {
            let rtt_us = open().map(|s| s.socket.rx.receiver_rtt_us()).max();
            let advmss = open().map(|s| s.socket.rx.advmss()).max();
            let scaling_ratio = open().map(|s| s.socket.rx.scaling_ratio()).min();
            Measured {
                rtt_us: rtt_us.unwrap_or(0),
                advmss: advmss.unwrap_or(1),
                scaling_ratio: scaling_ratio.unwrap_or(DEFAULT_SCALING_RATIO),
            }
        });
        if read.grown && !stack.shared_rcv_ssthresh {
            self.grow_subflow_buffers();
        }
        let asks = read.update || (read.grown && stack.rcvbuf_growth_acks);
        if !stack.meta_acks && !read.update {
            return;
        }
        let empty = self.rx.is_empty();
        for (i, subflow) in self.subflows.iter_mut().enumerate() {
            let socket = &mut subflow.socket;
            // RFC 8684 section 3.3.1: the window is one for all, so every subflow may tell of it,
            // or only one that may itself announce twice what is left of its window.
            let wider = || {
                let (left, limit) = (socket.rx.window_left_or_none(), socket.rx.window_limits());
                2 * left <= limit.1
                    && self.rx.room().window(limit, socket.rx.received_segment_size(), socket.window_scale()) >= (2 * left).max(1)
            };
            // Linux looks at all once the buffer grows (`mptcp_rcv_space_adjust`) or the window may
            // be twice what it was (`mptcp_cleanup_rbuf`), whatever waits.
            let due = if stack.meta_acks {
                (read.update && !stack.window_update_by_subflow)
                    || socket.rx.full_frames_wait()
                    || ((empty || asks) && socket.rx.reader_sends_ack())
                    || (asks && wider())
            } else {
                !stack.window_update_by_subflow || wider()
            };
            if due && !subflow.closed && socket.state().is_synchronized() {
                if !subflow.acks_before_reader {
                    self.work.none_comes_first();
                }
                socket.request_ack();
                self.work.set_ready(i);
            }
        }
    }

    /// A segment was taken that is a sign of life (Linux: `rcv_tstamp`, `mptcp_subflow_active`).
    #[inline]
    pub(super) fn note_heard(&mut self, now: Instant, i: usize, segment: &Segment) {
        let subflow = &mut self.subflows[i];
        if segment.flags.has(Flags::ACK) && subflow.socket.tx.may_be_acked(segment.ack) {
            subflow.heard_at = now;
            subflow.stale = false;
            if subflow.is_uncounted() {
                self.count_late();
            }
        }
    }

    /// The data acknowledgement and the window of a segment (RFC 8684 section 3.3.2).
    #[inline(always)]
    pub(super) fn take_acknowledgement(&mut self, now: Instant, i: usize, segment: &Segment) {
        let socket = &self.subflows[i].socket;
        // Linux drops an ACK of what was never sent with its options (`tcp_ack`).
        if self.phase == Phase::Negotiating || !segment.flags.has(Flags::ACK) || segment.ack.after(socket.tx.snd_nxt()) {
            return;
        }
        // The window of a SYN is not scaled (RFC 7323 section 2.2).
        let window = u32::from(segment.window) << if segment.flags.has(Flags::SYN) { 0 } else { socket.window_scale_of_peer() };
        let (ack, window) = if self.phase == Phase::Fallback {
            (self.tx.fallback_ack(socket.tx.bytes_acked()), window)
        } else if segment.has_dss && segment.dss.has_ack {
            // RFC 8684 section 3.3.5, with an exception: an ACK with nothing new for its subflow
            // does not make the subflow's window smaller (RFC 9293 section 3.10.7.4), while its
            // DATA_ACK moves on with the other subflows. Linux's window then ends later than was
            // announced.
            let keeps_older = self.settings.stack.data_window_by_subflow;
            (segment.dss.data_ack, if keeps_older { socket.tx.peer_window().as_u32() } else { window })
        } else {
            // Without a data acknowledgement the window has nothing to be relative to.
            return;
        };
        let waited = self.tx.pending.before(self.tx.end);
        if self.tx.acknowledge(ack, window) {
            self.on_data_acked(now, waited);
        }
    }

    /// The same segment with whole numbers: of a data sequence number the one nearest to what comes
    /// next, of an acknowledgement the one nearest to the oldest byte that is not acknowledged; and
    /// with the mapping of an earlier segment where that covers it (RFC 8684 section 3.3.1).
    #[cold]
    pub(super) fn with_known_mapping(&mut self, i: usize, segment: &Segment) -> Segment {
        let mut own = *segment;
        let whole = |number: DataSeq, long: bool, near: DataSeq| {
            let is_half = segment.dss.from_wire && !long && number.get() >> 32 == 0;
            if is_half { Number::Short(number.get() as u32).expand(near) } else { number }
        };
        own.dss.data_ack = whole(own.dss.data_ack, own.dss.ack64, self.tx.una);
        own.dss.dsn = whole(own.dss.dsn, own.dss.dsn64, self.rx.next());
        let subflow = &mut self.subflows[i];
        if segment.len == 0 || !subflow.socket.state().is_synchronized() {
            return own;
        }
        let at = subflow.socket.offset_of_peer(segment.seq);
        if own.dss.map_len > 0 {
            // As in Linux, not for what lies before its segment.
            let mapping = Mapping::from(at, &own.dss);
            subflow.known_mappings.learn(mapping, subflow.socket.rx.next_offset());
            subflow.socket.rx.map_waiting(at, &own.dss);
        } else if let Some(mapping) = subflow.known_mappings.find(at) {
            mapping.put_into(&mut own);
        }
        own
    }

    /// DATA_FIN, or in fallback the subflow's FIN.
    #[inline]
    pub(super) fn take_fins(&mut self, now: Instant, i: usize, segment: &Segment) {
        let state = self.subflows[i].socket.state();
        let data_fin = segment.has_dss & segment.dss.data_fin;
        if data_fin | self.rx.awaits_end() | (state != State::Established) {
            self.take_end(now, i, segment);
        }
    }

    #[cold]
    fn take_end(&mut self, now: Instant, i: usize, segment: &Segment) {
        if segment.has_dss && segment.dss.data_fin && self.reads_options(i) && !segment.ack.after(self.subflows[i].socket.tx.snd_nxt()) {
            // RFC 8684 section 3.3.3: the last place of the mapping is the DATA_FIN's. A mapping
            // without length has none.
            let last = u64::from(segment.dss.map_len).checked_sub(1);
            if let Some(last) = last {
                self.rx.note_fin(segment.dss.dsn + last);
            }
        }
        if self.rx.take_fin() {
            self.work.none_comes_first();
            for (j, subflow) in self.subflows.iter_mut().enumerate() {
                if !subflow.closed && subflow.socket.state().is_synchronized() {
                    subflow.socket.request_ack();
                    if self.tx.fin == Fin::Acked && self.settings.stack.mptcp_version == MptcpVersion::V1 {
                        // Linux closes the subflow first, and acknowledges the DATA_FIN behind that
                        // (`mptcp_check_data_fin`).
                        subflow.socket.rx.acknowledge_behind_fin();
                    }
                    self.work.set_ready(j);
                }
            }
            self.finish_if_done();
        }
        let state = self.subflows[i].socket.state();
        // Once an end has closed the connection, its subflows end with that.
        let closes = self.rx.finished() || (self.tx.fin != Fin::No && self.settings.stack.mptcp_version == MptcpVersion::V1);
        let gives_up = state == State::Closed || (state == State::CloseWait && !closes);
        if self.phase == Phase::Established && gives_up && !self.subflows[i].closed {
            // The peer has given up this subflow, not the connection: so does this end, by a FIN
            // (Linux: `__mptcp_close_subflow`).
            self.subflows[i].ended_by_peer = EndedByPeer::ByReset;
            if state == State::CloseWait && self.settings.stack.mptcp_version == MptcpVersion::V1 {
                // What may leave does so before (Linux: `tcp_data_snd_check`).
                self.subflows[i].socket.send_before_data(self.work.context(now, i));
                if self.subflows[i].socket.has_formed() {
                    self.complete_formed(i);
                }
            }
            self.close_subflow(now, i);
        }
    }

    /// Both directions are at their end: the subflows close (RFC 8684 section 3.3.3).
    #[cold]
    pub(super) fn finish_if_done(&mut self) {
        if self.tx.fin == Fin::Acked && self.rx.finished() {
            self.paths.stop_announcing();
            for (i, subflow) in self.subflows.iter_mut().enumerate() {
                if !subflow.closed {
                    subflow.socket.close();
                    self.work.set_ready(i);
                }
            }
        }
    }
}
