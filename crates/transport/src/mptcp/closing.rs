//! How a program lets go of a connection, and how a connection ends at once: MP_FASTCLOSE
//! (RFC 8684 section 3.5), and the handshake that is given up.

use super::{Connection, EndedByPeer, INITIAL, Phase};
use crate::SocketError;
use crate::stack::MptcpVersion;
use crate::tcp::State;
use polypath_base::{Bytes, Instant, PathId};
use polypath_wire::mptcp::Repr;
use polypath_wire::{Flags, MpOptions, Segment};

impl Connection {
    /// The program lets go of its socket (`close`). With data that it has not read, or where it
    /// asks for it (SO_LINGER of zero seconds), the connection ends at once; else with a DATA_FIN
    /// (Linux: `__mptcp_close`).
    pub fn release(&mut self, now: Instant, resets: bool) {
        match self.phase {
            // There is nothing that the peer could know of.
            Phase::Negotiating if !resets => self.give_up(),
            _ if resets || self.rx.unread() > 0 => self.fast_close(now),
            _ => self.close(now),
        }
    }

    /// The program sends no more, or reads no more (`shutdown`). Before the SYN is answered either
    /// ends the connection.
    pub fn shut_down(&mut self, now: Instant, reads_no_more: bool, sends_no_more: bool) {
        self.reader_held |= reads_no_more;
        if self.phase == Phase::Negotiating {
            self.fast_close(now);
        } else if sends_no_more {
            self.close(now);
        }
    }

    /// The program ends the connection by MP_FASTCLOSE on a RST of each subflow (RFC 8684 section
    /// 3.5 leaves the choice of ACK or RST; Linux: `mptcp_do_fastclose`). Plain TCP has a RST alone.
    #[cold]
    pub fn fast_close(&mut self, now: Instant) {
        let mut options = MpOptions::default();
        if self.phase != Phase::Fallback {
            options.push(&Repr::FastClose { receiver_key: self.remote_key });
            if self.version() == MptcpVersion::V1 {
                options.push(&Repr::TcpRst { flags: 0, reason: Repr::RST_UNSPECIFIED });
            }
        }
        let before_answer = self.phase == Phase::Negotiating && self.is_client;
        for i in 0..self.subflows.len() {
            let subflow = &mut self.subflows[i];
            if subflow.closed {
                continue;
            }
            if before_answer {
                // Linux sends it even before the SYN is answered: with its own first number, since
                // the peer has announced no window, and without a key.
                let seq = subflow.socket.tx.snd_una();
                let flags = Flags::RST.with(Flags::ACK);
                let reset = Segment { seq, flags, df: true, window_scale: 255, mp: options, ..Segment::default() };
                subflow.socket.abort_with(Some(reset));
            } else {
                subflow.socket.reset(now, options);
            }
            self.drop_subflow(i);
        }
        self.end_at_once();
        self.error = Some(SocketError::Reset);
    }

    /// The handshake is given up; neither program nor peer is told.
    #[cold]
    fn give_up(&mut self) {
        if !self.subflows[INITIAL].closed {
            self.drop_subflow(INITIAL);
        }
        self.end_at_once();
    }

    /// Nothing is left to do.
    pub(super) fn end_at_once(&mut self) {
        self.work.none_comes_first();
        debug_assert!(self.subflows.iter().all(|subflow| subflow.closed), "every subflow is let go of first");
        self.ended = true;
        self.paths.stop_announcing();
        (self.tx.rtx_due, self.join_retry, self.read_due) = (Instant::NEVER, Instant::NEVER, Instant::NEVER);
    }

    /// What ended the connection, told once. A subflow's end is not the connection's.
    pub fn take_error(&mut self) -> Option<SocketError> {
        let of_subflow = self.phase != Phase::Established;
        self.error.take().or_else(|| if of_subflow { self.subflows[INITIAL].socket.take_error() } else { None })
    }

    /// What has ended the connection and was not told yet.
    pub fn error(&self) -> Option<SocketError> {
        self.error.or_else(|| if self.phase != Phase::Established { self.subflows[INITIAL].socket.error() } else { None })
    }

    /// Bytes that wait for the application to read them.
    pub fn unread(&self) -> Bytes {
        Bytes::new(self.rx.unread())
    }

    /// The send buffer has room enough that a program is told (Linux: `sk_stream_is_writeable`).
    pub fn takes_writes(&self) -> bool {
        self.tx.sndbuf.saturating_sub(self.tx.queued()) >= self.tx.queued() / 2
    }

    /// The application reads so much of what waits, at most; how much that was. For one that reads
    /// by call ([`Connection::read_by_call`]).
    pub fn read(&mut self, now: Instant, most: Bytes) -> Bytes {
        let len = self.rx.unread().min(most.get());
        self.read_some(now, len);
        Bytes::new(len)
    }

    /// The application reads when it calls [`Connection::read`], instead of at once.
    pub fn read_by_call(&mut self) {
        self.reader_held = true;
    }

    /// The connection is over: at once, or with the only socket that it needs.
    pub fn has_ended(&self) -> bool {
        self.ended || (self.phase != Phase::Established && self.subflows[INITIAL].socket.state() == State::Closed)
    }

    /// Nothing of a subflow is left, as of one that was reset. Linux lets go of each once, and of one
    /// that was shut down then it keeps what it has measured (`__mptcp_subflow_disconnect`).
    pub fn is_gone(&self, i: usize) -> bool {
        let subflow = &self.subflows[i];
        subflow.closed && subflow.ended_by_peer != EndedByPeer::ByFin && subflow.socket.state() == State::Closed
    }

    /// A segment of a subflow that the connection has no more: of what it says of MPTCP the data
    /// acknowledgement counts while it is taken (Linux: `mptcp_incoming_options`).
    #[cold]
    pub(super) fn handle_after_end(&mut self, now: Instant, i: usize, segment: &Segment) {
        if self.subflows[i].ended_by_peer != EndedByPeer::No {
            let socket = &mut self.subflows[i].socket;
            let was_closed = socket.state() == State::Closed;
            socket.handle_segment(self.work.context(now, i), segment);
            socket.rx.delivered.clear();
            if socket.has_formed() {
                self.complete_formed(i);
            }
            if !was_closed {
                self.explain_reset(i, segment);
                if self.reads_options(i) {
                    self.work.comes_first(i);
                    self.take_acknowledgement(now, i, segment);
                    self.push(now);
                }
            }
            self.work.mark(i);
        }
    }

    /// Nothing answers on a path any more.
    pub fn is_over(&self, path: PathId) -> bool {
        self.paths.subflow(path).is_some_and(|i| self.subflows[i].socket.state() == State::Closed)
    }
}
