//! RSTs that this end sends (RFC 9293 section 3.5.2): the answer to a segment that is for no
//! connection, and the end of a connection by this end. Both leave from a state that is not a
//! synchronized one, so that nothing else has to look for them.

use super::{Socket, State};
use polypath_base::{Instant, Seq};
use polypath_wire::{Flags, MpOptions, Segment};

/// The RST that answers a segment for which there is no connection (RFC 9293 section 3.5.2); a RST
/// has no answer.
pub fn reset_for(segment: &Segment) -> Option<Segment> {
    if segment.flags.has(Flags::RST) {
        return None;
    }
    let blank = Segment { df: true, window_scale: 255, ..Segment::default() };
    Some(if segment.flags.has(Flags::ACK) {
        Segment { seq: segment.ack, flags: Flags::RST, ..blank }
    } else {
        let controls = u32::from(segment.flags.has(Flags::SYN)) + u32::from(segment.flags.has(Flags::FIN));
        Segment { seq: Seq::default(), ack: segment.seq + segment.len + controls, flags: Flags::RST.with(Flags::ACK), ..blank }
    })
}

impl Socket {
    /// A segment of somebody else's connection, or of an earlier one: it is answered by a RST, and
    /// this connection goes on.
    #[cold]
    pub(super) fn refuse_with_reset(&mut self, segment: &Segment) {
        self.reset = reset_for(segment).map(Box::new);
    }

    /// RFC 9293 section 3.10.7.1: there is no connection any more.
    #[cold]
    pub(super) fn handle_when_closed(&mut self, segment: &Segment) {
        self.rejected.rejected_closed += 1;
        self.refuse_with_reset(segment);
    }

    /// Ends at once; `reset` tells the peer.
    #[cold]
    pub(crate) fn abort_with(&mut self, reset: Option<Segment>) {
        self.abort();
        self.reset = reset.map(Box::new);
    }

    /// Ends at once and tells the peer, with these options of MPTCP (Linux:
    /// `tcp_send_active_reset`).
    #[cold]
    pub(crate) fn reset(&mut self, now: Instant, options: MpOptions) {
        // Linux: `tcp_need_reset`; of a passive handshake there is no socket yet.
        let told = match self.state {
            State::Established | State::FinWait1 | State::FinWait2 | State::CloseWait => true,
            State::SynReceived => self.is_active || self.fast_open,
            _ => false,
        };
        self.tx.take_time(now);
        let mut segment = Segment::default();
        self.make_ack(now, &mut segment);
        segment.flags = Flags::RST.with(Flags::ACK);
        segment.mp = options;
        self.abort_with(told.then_some(segment));
    }

    /// The RST that waits, if there is one, says why (RFC 8684 section 3.6).
    #[cold]
    pub(crate) fn explain_reset(&mut self, options: MpOptions) {
        if let Some(reset) = &mut self.reset {
            reset.mp = options;
        }
    }

    /// The RST that waits, if there is one.
    #[cold]
    pub(super) fn take_reset(&mut self) -> Option<Segment> {
        self.reset.take().map(|segment| *segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_has_the_number_that_the_peer_expects() {
        let segment = |flags| Segment { seq: Seq::new(100), ack: Seq::new(7), len: 20, flags, ..Segment::default() };
        let answer = |flags| reset_for(&segment(flags)).map(|reset| (reset.seq.get(), reset.ack.get(), reset.flags));
        assert_eq!(answer(Flags::ACK), Some((7, 0, Flags::RST)));
        assert_eq!(answer(Flags::SYN), Some((0, 121, Flags::RST.with(Flags::ACK))));
        assert_eq!(answer(Flags::FIN), Some((0, 121, Flags::RST.with(Flags::ACK))));
        assert_eq!(answer(Flags::RST), None, "two ends would reset each other for ever");
        assert_eq!(answer(Flags::RST.with(Flags::ACK)), None);
    }
}
