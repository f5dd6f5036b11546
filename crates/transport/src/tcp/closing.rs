//! The closing states (RFC 9293 section 3.6), and TIME-WAIT.

use super::{Socket, State};
use polypath_base::{Duration, Instant};
use polypath_wire::{Flags, Segment};

/// How long TIME-WAIT lasts, from the last segment that renewed it (Linux: `TCP_TIMEWAIT_LEN`;
/// RFC 9293 section 3.6.1 asks for 2 MSL, four minutes).
const TIME_WAIT: Duration = Duration::from_secs(60);

impl Socket {
    /// Moves through the closing states once our FIN is acknowledged or the peer's has arrived.
    #[cold]
    pub(super) fn advance_closing(&mut self, now: Instant) {
        let fin_acked = self.tx.fin_sent() && self.tx.snd_una() == self.tx.snd_nxt();
        let peer_fin = self.rx.finished();
        self.state = match (self.state, fin_acked, peer_fin) {
            (State::Established, false, true) => State::CloseWait,
            (State::FinWait1, true, true) | (State::FinWait2, _, true) | (State::Closing, true, _) => State::TimeWait,
            (State::FinWait1, false, true) => State::Closing,
            (State::FinWait1, true, false) => State::FinWait2,
            (State::LastAck, true, _) => State::Closed,
            // What it waits for has not come yet.
            (State::FinWait1 | State::FinWait2 | State::CloseWait | State::Closing | State::LastAck, ..) => self.state,
            // The peer reset the connection by this segment, or its FIN is yet to be sent.
            (State::Closed, ..) => State::Closed,
            (state, ..) => {
                debug_assert!(
                    false,
                    "a closing connection is not in {state:?}: our FIN acknowledged {fin_acked}, the peer's here {peer_fin}"
                );
                state
            }
        };
        if self.state == State::TimeWait {
            self.time_wait_ends = now + TIME_WAIT;
        }
    }

    /// RFC 9293 section 3.10.7.4: the peer repeats its FIN because our ACK was lost, so it gets
    /// another one, and the time begins anew. Nothing is due when it ends: only a segment could
    /// tell.
    #[cold]
    pub(super) fn handle_in_time_wait(&mut self, now: Instant, segment: &Segment) {
        debug_assert!(self.rx.finished() && self.tx.fin_sent(), "both ends have said that they have no more");
        if now >= self.time_wait_ends {
            self.abort();
            self.refuse_with_reset(segment);
            return;
        }
        let bare = segment.len == 0 && !segment.flags.has(Flags::FIN);
        let in_place = segment.seq == self.rx.next();
        if segment.flags.has(Flags::RST) {
            if in_place {
                self.abort();
            }
            return;
        }
        if segment.flags.has(Flags::ACK) {
            self.time_wait_ends = now + TIME_WAIT;
        }
        if bare && in_place && !segment.flags.has(Flags::SYN) {
            return;
        }
        self.refuse(now, segment);
    }
}
