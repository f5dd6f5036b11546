//! The handshakes: MP_CAPABLE for the first subflow, MP_JOIN for the others, and the fall back to
//! TCP.

use super::sender::Fin;
use super::{Connection, INITIAL, Phase};
use crate::SocketError;
use crate::receive_buffer::first_read_estimate;
use crate::stack::MptcpVersion;
use crate::tcp::{State, reset_for};
use polypath_base::{DataSeq, Duration, Instant, PathId};
use polypath_wire::mptcp::{Announcement, Keys, Repr};
use polypath_wire::{Flags, MpOptions, Segment};

impl Connection {
    /// What the options of a segment say, before the subflow sees it; false if the segment must go
    /// no further.
    #[cold]
    pub(super) fn handle_options(&mut self, now: Instant, i: usize, segment: &Segment) -> bool {
        segment.mp.iter().all(|option| self.handle_option(now, i, segment, &option))
    }

    fn handle_option(&mut self, now: Instant, i: usize, segment: &Segment, option: &Repr) -> bool {
        match *option {
            Repr::Capable { version, flags, keys } => self.on_capable(now, i, segment, version, flags, keys),
            Repr::JoinSynAck { hmac, nonce, backup, .. } => return self.on_join_syn_ack(i, segment, hmac, nonce, backup),
            Repr::JoinAck { hmac } => return self.on_join_ack(i, segment, &hmac),
            Repr::AddAddr { announcement, address_id, address, port } => self.on_add_addr(now, i, announcement, address_id, address, port),
            Repr::RemoveAddr { address_ids } => address_ids.iter().for_each(|&id| self.on_remove_addr(now, id)),
            Repr::Prio { backup, .. } => {
                self.subflows[i].backup = backup;
                self.work.end_burst(); // The scheduler is asked again: tests/scripts/mptcp-prio.pkt.
            }
            Repr::FastClose { receiver_key } if receiver_key == self.local_key => {
                // RFC 8684 section 3.5: a RST on each subflow.
                let options = self.reset_options(Repr::RST_UNSPECIFIED);
                for i in 0..self.subflows.len() {
                    if !self.subflows[i].closed {
                        self.subflows[i].socket.reset(now, options);
                        self.drop_subflow(i);
                    }
                }
                self.end_at_once();
                self.error = Some(SocketError::Reset);
                return false;
            }
            // RFC 8684 section 3.5: without our key it closes nothing.
            Repr::FastClose { .. } => self.subflows[i].socket.note_rejected_option(),
            Repr::JoinSyn { .. } | Repr::Fail { .. } | Repr::TcpRst { .. } | Repr::Dss { .. } | Repr::Unknown { .. } => {}
        }
        true
    }

    #[cold]
    fn on_capable(&mut self, now: Instant, i: usize, segment: &Segment, version: u8, flags: u8, keys: Keys) {
        // MPTCP has no SYNs that cross: the connection becomes plain TCP, as on Linux.
        let has_crossed = self.is_client && self.subflows[INITIAL].socket.state() != State::SynSent;
        let is_awaited = !has_crossed && i == INITIAL && self.phase == Phase::Negotiating && self.remote_key == 0 && !self.gave_up_mptcp();
        if !is_awaited || !self.understands(segment, version, flags, keys) {
            return;
        }
        self.peer_is_capable = true;
        // RFC 8684 section 3.1: checksums are used if either end asks for them. As on Linux, a
        // server of version 1 takes the client's word from the third ACK, not from the SYN.
        let is_first = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if !is_first || self.version() == MptcpVersion::V0 {
            self.checksum |= flags & Repr::CHECKSUM != 0;
        }
        // Version 1 tells the client's key only in the third ACK; version 0 in the SYN.
        if let Keys::Sender(sender) | Keys::Both { sender, .. } = keys {
            self.learn_key(now, sender);
        }
    }

    /// Of this version and algorithm, without an extension that nobody has defined (flag B), and of
    /// the form that this segment has (RFC 8684 section 3.1); else MP_CAPABLE counts as not there.
    fn understands(&self, segment: &Segment, version: u8, flags: u8, keys: Keys) -> bool {
        let own = self.version();
        let has_form = match (segment.flags.has(Flags::SYN), segment.flags.has(Flags::ACK)) {
            (true, false) if self.is_client => false,
            (true, false) if own == MptcpVersion::V1 => keys == Keys::None,
            (true, _) => matches!(keys, Keys::Sender(_)),
            (false, _) => matches!(keys, Keys::Both { .. }),
        };
        // The answer to the SYN of a later version offers the own one.
        let is_own = version == own.number() || (own == MptcpVersion::V1 && keys == Keys::None && version > own.number());
        has_form && is_own && flags & (Repr::HASH | Repr::EXTENSIBILITY) == Repr::HASH
    }

    /// Something on the path may drop what it does not know: after some repetitions of the SYN the
    /// client asks for plain TCP (`syn_retrans_before_tcp_fallback`; `specs/notes/fallback`).
    fn gave_up_mptcp(&self) -> bool {
        self.is_client
            && self.settings.stack.syn_retrans_before_fallback.is_some_and(|most| self.subflows[INITIAL].socket.syn_timeouts() > most)
    }

    /// First estimate of what is read in a round trip, and the window of the handshake, bytes.
    fn first_window(&self) -> (u64, u32) {
        let socket = &self.subflows[INITIAL].socket;
        let window = socket.rx.first_window();
        // A server's is made before timestamps count (Linux: `mptcp_sk_clone_init`).
        let mss = if self.is_client { socket.advertised_mss() } else { socket.advmss().as_u32() };
        // With the whole window a transfer stays at it until losses bunch what is read
        // (specs/notes/out-of-tree-start).
        let read = if self.settings.stack.rcvq_space_ten_segments { first_read_estimate(window, mss) } else { window.max(1) };
        (read.into(), window)
    }

    /// Since when the first round of reading lasts.
    fn first_round(&self, now: Instant) -> Instant {
        if self.is_client && self.settings.stack.meta_reads_since_syn { self.subflows[INITIAL].socket.began_at() } else { now }
    }

    fn learn_key(&mut self, now: Instant, key: u64) {
        debug_assert!(self.remote_key == 0, "the peer's key is learnt once");
        self.remote_key = key;
        let (token, idsn) = self.version().token_and_idsn(key);
        self.remote_token = token;
        let (space, window) = self.first_window();
        // The window of the handshake is TCP's, which came before the first data (Linux:
        // `subflow_set_remote_key`).
        let window = if self.settings.stack.shared_rcv_ssthresh { window } else { 0 };
        self.rx.start(self.first_round(now), idsn + 1, space, window);
    }

    /// After the subflow has seen a segment: does its handshake move on?
    #[cold]
    pub(super) fn advance_handshake(&mut self, now: Instant, i: usize, segment: &Segment) {
        let socket = &self.subflows[i].socket;
        if !socket.state().is_synchronized() {
            return;
        }
        if !self.subflows[i].synchronized {
            // One segment is held back, as in tcp_init_buffer_space.
            let full = self.rx.full_window().saturating_sub(socket.advertised_mss());
            let threshold = socket.rx.first_window().min(full);
            self.subflows[i].synchronized = true;
            if i == INITIAL {
                self.rx.set_rcv_ssthresh(threshold);
            } else if self.settings.stack.adds_subflow_buffers {
                self.rx.add_buffer(self.settings.rmem[1].as_u32(), threshold);
            }
            if i == INITIAL && self.is_client && self.settings.stack.first_write_in_first_buffer {
                self.work.await_first_write();
                self.subflows[i].sndbuf = self.subflows[i].socket.tx.sndbuf();
            } else {
                self.sync_sndbuf_with(i);
            }
        }
        if i == INITIAL && self.phase == Phase::Negotiating {
            self.established_at = Some(now);
            if self.remote_key == 0 {
                self.fall_back(now);
                return;
            }
            debug_assert!(self.tx.next == self.tx.una, "nothing was sent before the handshake");
            self.phase = Phase::Established;
            self.tx.window_end = self.tx.una + self.subflows[INITIAL].socket.tx.peer_window().get();
            self.write(now);
        }
        // RFC 8684 section 3.1: the first subflow may send at once, and so may a server that saw a
        // valid third ACK; a client waits for the fourth one on a joined subflow (section 3.2).
        // Linux takes an announced address for the fourth ACK too (`check_fully_established`).
        let announced = |option| matches!(option, Repr::AddAddr { announcement: Announcement::Authenticated { .. }, .. });
        let seen = (segment.has_dss && segment.dss.has_ack) || segment.mp.iter().any(announced);
        let subflow = &mut self.subflows[i];
        let confirmed = if self.is_client { seen } else { subflow.authenticated };
        if subflow.joining && !confirmed {
            // The third ACK may be lost, and only the fourth tells: it goes again after two round
            // trips.
            let wait = Duration::from_micros(u64::from(subflow.socket.tx.smoothed_rtt().as_eighths() / 4).max(1000));
            self.join_retry = self.join_retry.min(now + wait);
        }
        if i == INITIAL && self.is_client && !confirmed && !segment.flags.has(Flags::SYN) && segment.mp.is_empty() {
            // RFC 8684 section 3.7: the server never had our key, since all segments with it were
            // lost before another one came.
            self.fall_back(now);
            return;
        }
        if confirmed && !subflow.confirmed {
            subflow.confirmed = true;
            if !self.is_client && i != INITIAL {
                // The fourth ACK: lets the client's data come.
                subflow.socket.ack_before_data(now);
                self.complete_formed(i);
            }
            self.on_confirmed(now, i);
        }
    }

    /// Joined subflows whose third ACK has had no answer send it again.
    #[cold]
    pub(super) fn retry_joins(&mut self, now: Instant) {
        self.join_retry = Instant::NEVER;
        for i in 0..self.subflows.len() {
            let subflow = &mut self.subflows[i];
            if subflow.joining && !subflow.confirmed && !subflow.closed && subflow.socket.state() == State::Established {
                subflow.socket.request_ack();
                self.work.mark(i);
                self.join_retry = now + Duration::from_millis(200);
            }
        }
    }

    /// RFC 8684 section 3.7: without MP_CAPABLE from the peer the connection is plain TCP.
    #[cold]
    fn fall_back(&mut self, now: Instant) {
        debug_assert!(self.subflows.len() == 1, "a connection with further subflows does not become plain TCP");
        self.become_plain_tcp();
        let (space, window) = self.first_window();
        self.rx.start(self.first_round(now), DataSeq::default(), space, window);
        self.tx.window_end = self.tx.una + self.subflows[INITIAL].socket.tx.peer_window().get();
        self.write(now);
    }

    /// Data came without a mapping. On the only subflow that there ever was it is taken for an
    /// infinite mapping, and the connection goes on as plain TCP; else the subflow is reset
    /// (RFC 8684 section 3.7; Linux: `allow_infinite_fallback`). True if the data is to be taken.
    #[cold]
    pub(super) fn take_unmapped(&mut self, now: Instant, i: usize) -> bool {
        let only = self.subflows.len() == 1;
        // What this end has sent must be where a subflow alone would have it.
        if !only || self.tx.reinjected_bytes > 0 {
            let options =
                self.reset_options(if self.settings.stack.blames_middlebox { Repr::RST_MIDDLEBOX } else { Repr::RST_MPTCP_ERROR });
            self.subflows[i].socket.reset(now, options);
            self.close_subflow(now, i);
            return false;
        }
        self.become_plain_tcp();
        true
    }

    /// What this end has sent as a DATA_FIN goes as a FIN now.
    #[cold]
    fn become_plain_tcp(&mut self) {
        debug_assert!(self.phase != Phase::Fallback, "there is no way back");
        self.phase = Phase::Fallback;
        self.paths.stop_announcing();
        let subflow = &mut self.subflows[INITIAL];
        subflow.confirmed = true;
        subflow.waiting_options = MpOptions::default();
        subflow.socket.end_mptcp();
        if self.tx.fin == Fin::Sent {
            subflow.socket.close();
        }
        self.work.mark(INITIAL);
    }

    /// A path that is new to the server, with an MP_JOIN for this connection.
    #[cold]
    pub(super) fn accept_join(&mut self, path: PathId, segment: &Segment) -> Option<usize> {
        let Some(Repr::JoinSyn { token, nonce, address_id, backup }) = segment.mp.first() else { return None };
        if self.is_client || token != self.local_token || self.phase != Phase::Established || self.is_full() {
            // There is no subflow to count it with.
            self.subflows[INITIAL].socket.note_rejected_option();
            return None;
        }
        let i = self.add_socket(path, 0, address_id, false);
        if self.version() == MptcpVersion::V1 {
            // Linux: `tcp_check_req` lets go of the request first (`rsk_drop_req`).
            self.subflows[i].socket.measure_no_handshake();
        }
        self.subflows[i].remote_nonce = nonce;
        self.subflows[i].backup = backup;
        Some(i)
    }

    #[cold]
    fn on_join_syn_ack(&mut self, i: usize, segment: &Segment, hmac: u64, nonce: u32, backup: bool) -> bool {
        let version = self.version();
        let (local_key, remote_key) = (self.local_key, self.remote_key);
        let subflow = &mut self.subflows[i];
        if !subflow.joining || hmac != version.short_join_hmac(remote_key, local_key, nonce, subflow.local_nonce) {
            // RFC 8684 section 3.2: a wrong code closes the subflow by a RST.
            subflow.socket.note_rejected_option();
            let reset = reset_for(segment).map(|reset| Segment { ack: segment.seq + 1, flags: Flags::RST.with(Flags::ACK), ..reset });
            self.refuse_join(i, reset);
            return false;
        }
        subflow.remote_nonce = nonce;
        subflow.backup |= backup;
        subflow.authenticated = true;
        true
    }

    #[cold]
    fn on_join_ack(&mut self, i: usize, segment: &Segment, hmac: &[u8; 20]) -> bool {
        let version = self.version();
        let subflow = &mut self.subflows[i];
        if i == INITIAL {
            return true;
        }
        if subflow.confirmed {
            // The client has not seen our fourth ACK (RFC 8684 section 3.2).
            subflow.socket.request_ack();
            return true;
        }
        if *hmac != version.join_hmac(self.remote_key, self.local_key, subflow.remote_nonce, subflow.local_nonce) {
            // RFC 8684 section 3.2.
            subflow.socket.note_rejected_option();
            self.refuse_join(i, reset_for(segment));
            return false;
        }
        self.subflows[i].authenticated = true;
        true
    }

    /// A subflow's peer did not prove that it knows the keys.
    #[cold]
    fn refuse_join(&mut self, i: usize, reset: Option<Segment>) {
        if self.subflows[i].closed {
            // Another option of the segment has taken its address back.
            return;
        }
        let options = self.reset_options(Repr::RST_MPTCP_ERROR);
        self.subflows[i].socket.abort_with(reset.map(|reset| Segment { mp: options, ..reset }));
        self.drop_subflow(i);
    }

    /// The option of a RST that says why (RFC 8684 section 3.6); version 0 has none.
    pub(super) fn reset_options(&self, reason: u8) -> MpOptions {
        if self.version() == MptcpVersion::V1 { Repr::TcpRst { flags: 0, reason }.into() } else { MpOptions::default() }
    }

    /// The option with which this end tells keys.
    fn capable(&self, keys: Keys) -> MpOptions {
        let flags = Repr::HASH | if self.checksum { Repr::CHECKSUM } else { 0 };
        Repr::Capable { version: self.version().number(), flags, keys }.into()
    }

    /// Options of a SYN or SYN/ACK.
    #[cold]
    pub(super) fn add_syn_options(&mut self, i: usize, segment: &mut Segment) {
        let subflow = &self.subflows[i];
        let answer = segment.flags.has(Flags::ACK);
        segment.mp = match (i == INITIAL, answer) {
            (true, false) if self.gave_up_mptcp() => MpOptions::default(),
            // Version 1 keeps the key for the third ACK (RFC 8684 section 3.1).
            (true, false) => self.capable(if self.version() == MptcpVersion::V0 { Keys::Sender(self.local_key) } else { Keys::None }),
            // The peer asked for MPTCP, or it gets none.
            (true, true) if self.peer_is_capable => self.capable(Keys::Sender(self.local_key)),
            (true, true) => MpOptions::default(),
            (false, false) => {
                Repr::JoinSyn { token: self.remote_token, nonce: subflow.local_nonce, address_id: subflow.local, backup: subflow.backup }
                    .into()
            }
            (false, true) => Repr::JoinSynAck {
                hmac: self.version().short_join_hmac(self.local_key, self.remote_key, subflow.local_nonce, subflow.remote_nonce),
                nonce: subflow.local_nonce,
                address_id: 0,
                backup: false,
            }
            .into(),
        };
    }

    /// Options of the client's segments until the server has confirmed the handshake: the third ACK
    /// and its repetitions.
    #[cold]
    pub(super) fn add_third_ack_options(&mut self, i: usize, segment: &mut Segment) {
        let tells_keys = i == INITIAL && self.version() == MptcpVersion::V1;
        let socket = &mut self.subflows[i].socket;
        // The next segment of the burst may need other options.
        socket.invalidate_template();
        // Version 1 repeats the keys on the first data (RFC 8684 section 3.1). Linux does so on the
        // burst that begins with the first byte, and on no acknowledgement after it (seen on 6.12,
        // `specs/notes/fallback`).
        // They tell no sequence number: the mapping begins with the first byte.
        let is_first_mapping = segment.len == 0 || segment.dss.ssn == 1;
        let carries = if tells_keys { is_first_mapping && socket.is_of_first_burst(segment) } else { segment.len == 0 };
        if socket.state() != State::Established || !carries {
            return;
        }
        let subflow = &self.subflows[i];
        segment.mp = if i == INITIAL {
            self.capable(match self.remote_key {
                0 => Keys::Sender(self.local_key),
                receiver => Keys::Both { sender: self.local_key, receiver, data: None },
            })
        } else {
            Repr::JoinAck { hmac: self.version().join_hmac(self.local_key, self.remote_key, subflow.local_nonce, subflow.remote_nonce) }
                .into()
        };
    }
}
