//! RSTs that this end sends (RFC 9293 section 3.5.2): the answer to a segment that is for no
//! connection, and the end of a connection by this end.

use polypath_base::Seq;
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

/// A RST that has yet to leave. Only a state that is not a synchronized one looks for it.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Reset(Option<Box<Segment>>);

impl Reset {
    /// A segment of somebody else's connection, or of an earlier one: it is answered by a RST, and
    /// this connection goes on.
    #[cold]
    pub(in crate::tcp) fn answer(&mut self, segment: &Segment) {
        self.send(reset_for(segment));
    }

    /// It is to leave, in place of one that waits.
    #[cold]
    pub(in crate::tcp) fn send(&mut self, reset: Option<Segment>) {
        debug_assert!(reset.is_none_or(|reset| reset.flags.has(Flags::RST)), "only a RST leaves without a connection");
        self.0 = reset.map(Box::new);
    }

    /// It says why, if there is one (RFC 8684 section 3.6).
    #[cold]
    pub(in crate::tcp) fn explain(&mut self, options: MpOptions) {
        if let Some(reset) = &mut self.0 {
            reset.mp = options;
        }
    }

    /// It leaves, if there is one.
    #[cold]
    pub(in crate::tcp) fn take(&mut self) -> Option<Segment> {
        self.0.take().map(|segment| *segment)
    }

    #[inline]
    pub(in crate::tcp) fn is_due(&self) -> bool {
        self.0.is_some()
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
