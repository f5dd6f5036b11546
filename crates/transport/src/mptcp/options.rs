//! What belongs to the connection on a segment of a subflow: its window and its options.

use super::sender::Fin;
use super::{Connection, INITIAL, Phase};
use crate::stack::MptcpVersion;
use polypath_wire::mptcp::{Announcement, Repr};
use polypath_wire::{Dss, Flags, MAX_OPTIONS, Segment};

impl Connection {
    /// In a debug build: a segment that followed another one of its burst needs nothing that the
    /// other one did not have.
    #[inline]
    pub(super) fn debug_check_options(&mut self, i: usize, segment: &Segment) {
        if cfg!(debug_assertions) {
            let mut whole = *segment;
            self.add_options(i, &mut whole);
            assert_eq!(whole, *segment, "what belongs to the connection stays the same within a burst");
        }
    }

    /// What recovery sends for an acknowledgement tells of nothing that came with that.
    #[cold]
    pub(super) fn complete_formed(&mut self, i: usize) {
        let mut formed = std::mem::take(self.subflows[i].socket.formed_before_data());
        let limits = self.subflows[i].socket.rx.replace_window_limits(formed.window_limits);
        formed.segments.iter_mut().for_each(|segment| self.add_options(i, segment));
        self.subflows[i].socket.rx.replace_window_limits(limits);
        *self.subflows[i].socket.formed_before_data() = formed;
    }

    /// Adds what belongs to the connection to a segment of a subflow, and what has the room that is
    /// left.
    #[inline]
    pub(super) fn add_options(&mut self, i: usize, segment: &mut Segment) {
        self.add_own_options(i, segment);
        if self.subflows[i].socket.has_accurate_ecn() {
            self.subflows[i].socket.add_accecn_option(segment);
        }
    }

    #[inline]
    fn add_own_options(&mut self, i: usize, segment: &mut Segment) {
        let is_confirmed = self.subflows[i].confirmed | !self.is_client;
        let is_usual =
            is_confirmed & (self.phase == Phase::Established) && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::RST);
        if !is_usual && self.add_rare_options(i, segment) {
            return;
        }
        if segment.mp.is_empty() {
            self.set_shared_window(i, segment);
        } else {
            // Keys leave no room for a data acknowledgement.
            self.set_own_window(i, segment);
        }
        let wide = self.version() == MptcpVersion::V1;
        segment.has_dss = true;
        segment.dss.has_ack = true;
        debug_assert!(segment.dss.map_len == 0 || segment.len > 0, "a mapping has data");
        segment.dss.data_ack = self.rx.next();
        segment.dss.ack64 = wide && self.acks_wide;
        segment.dss.dsn64 = wide;
        if self.tx.fin == Fin::Sent {
            self.add_data_fin(segment);
        }
        segment.dss.checksum = self.checksum && segment.dss.map_len > 0;
        if segment.len == 0 && !self.subflows[i].waiting_options.is_empty() {
            self.add_waiting_option(i, segment);
        }
        fit_sacks(segment);
    }

    /// What a segment has during a handshake, in a fallback, and at an abrupt end: true if that is
    /// all.
    #[cold]
    fn add_rare_options(&mut self, i: usize, segment: &mut Segment) -> bool {
        if segment.flags.has(Flags::SYN) {
            self.add_syn_options(i, segment);
            return true;
        }
        if segment.flags.has(Flags::RST) {
            return true;
        }
        if self.phase == Phase::Fallback {
            self.set_own_window(i, segment);
            segment.has_dss = false;
            return true;
        }
        // Once a DATA_FIN has left, what comes after it tells no keys any more (Linux:
        // `mptcp_established_options_mp`).
        let ends = i == INITIAL && matches!(self.tx.fin, Fin::Sent | Fin::Acked) && (segment.len == 0 || self.tx.fin_at < self.last_event);
        if !self.subflows[i].confirmed && self.is_client && !ends {
            self.add_third_ack_options(i, segment);
            if segment.len == 0 {
                self.set_own_window(i, segment);
                fit_sacks(segment);
                return true;
            }
        }
        if self.phase == Phase::Negotiating {
            self.set_own_window(i, segment);
            return true;
        }
        false
    }

    /// The window that there is room for on a subflow, up to its threshold, where a segment of `len`
    /// bytes leaves.
    #[inline]
    fn room_for_subflow(&self, i: usize, len: u32) -> u32 {
        let subflow = &self.subflows[i];
        let socket = &subflow.socket;
        let shared = if self.settings.stack.shared_rcv_ssthresh { Some((self.rx.rcv_ssthresh(), u32::MAX)) } else { None };
        let (threshold, clamp) = shared.unwrap_or(socket.rx.window_limits());
        let threshold = if threshold == 0 { u32::MAX } else { threshold };
        // What leaves in answer to a segment does so before the reader comes (Linux: in the softirq),
        // but for an ACK that only the reader asks for.
        let is_before_reader = len > 0 || subflow.acks_before_reader;
        let room = if is_before_reader { self.rx.room_before_reader(self.last_event) } else { None }.unwrap_or_else(|| self.rx.room());
        room.window((threshold, clamp), socket.rx.received_segment_size(), socket.window_scale())
    }

    /// The window of a segment with a data acknowledgement is the connection's, relative to that
    /// (RFC 8684 section 3.3.1), whatever the subflow has announced (Linux: `mptcp_set_rwin`).
    #[inline]
    fn set_shared_window(&mut self, i: usize, segment: &mut Segment) {
        let window = self.rx.advertise(self.room_for_subflow(i, segment.len));
        let subflow = &mut self.subflows[i];
        let scale = subflow.socket.window_scale();
        subflow.edge = self.rx.edge();
        subflow.announce(window.min(65_535 << scale), segment);
    }

    /// The window of a segment without a data acknowledgement: what the subflow has announced does
    /// not shrink but by what came on it.
    #[cold]
    fn set_own_window(&mut self, i: usize, segment: &mut Segment) {
        if self.settings.stack.shared_rcv_ssthresh {
            return self.set_shared_window(i, segment);
        }
        let room = self.room_for_subflow(i, segment.len);
        let subflow = &mut self.subflows[i];
        let scale = subflow.socket.window_scale();
        let left = subflow.socket.rx.window_left_or_none().next_multiple_of(1 << scale);
        let window = self.rx.announce(room.max(left));
        subflow.announce(window.min(65_535 << scale), segment);
    }

    /// RFC 8684 section 3.3.3: a DATA_FIN without data is a mapping of length 1 for subflow sequence
    /// 0; on data it is one more place of the last mapping, where that leaves after it (Linux:
    /// `mptcp_write_data_fin`).
    #[cold]
    fn add_data_fin(&self, segment: &mut Segment) {
        let goes_behind = self.version() == MptcpVersion::V1 && self.tx.fin_at < self.last_event;
        let dss = &mut segment.dss;
        if segment.len == 0 {
            (dss.data_fin, dss.dsn, dss.map_len) = (true, self.tx.end, 1);
        } else if goes_behind && dss.dsn + u64::from(dss.map_len) == self.tx.end {
            dss.data_fin = true;
            dss.map_len += 1;
        }
    }

    /// The first of the options that wait for a segment without data, if it has room.
    #[cold]
    fn add_waiting_option(&mut self, i: usize, segment: &mut Segment) {
        let Some(option) = self.subflows[i].waiting_options.first() else { return };
        let mut with_option = Segment { mp: option.into(), ..*segment };
        // A FIN keeps its DATA_ACK, which may be the only one of the peer's DATA_FIN: Linux leaves
        // the DSS out of pure ACKs alone (`mptcp_pm_add_addr_signal`).
        let is_pure_ack = !segment.flags.has(Flags::FIN);
        if self.settings.stack.add_addr_alone && is_pure_ack && matches!(option, Repr::AddAddr { .. }) {
            (with_option.has_dss, with_option.dss) = (false, Dss::default());
        }
        fit_sacks(&mut with_option);
        if with_option.options_len() > MAX_OPTIONS {
            // The next segment may have room.
            return;
        }
        debug_assert!(segment.len == 0, "options wait for a segment without data");
        *segment = with_option;
        self.subflows[i].waiting_options.pop_first();
        if let Repr::AddAddr { announcement: Announcement::V0, .. } = option {
            // RFC 6824 section 3.4.1: nothing answers, so the next address may follow.
            self.announce_next(self.last_event, i);
        }
        if !self.subflows[i].waiting_options.is_empty() {
            self.subflows[i].socket.request_ack();
        }
    }
}

/// SACK blocks have the room that MPTCP's options leave (Linux: `tcp_established_options`).
#[inline]
fn fit_sacks(segment: &mut Segment) {
    while segment.sack_len > 0 && segment.options_len() > MAX_OPTIONS {
        segment.sack_len -= 1;
    }
}
