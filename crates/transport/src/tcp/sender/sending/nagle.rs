//! Nagle's rule (RFC 1122 section 4.2.3.4) in Minshall's form, as Linux has it
//! (`tcp_minshall_check`).

use polypath_base::Seq;

/// The last segment that was shorter than the MSS, and what the program wants of short ones.
#[derive(Copy, Clone, Debug, Default)]
pub(in crate::tcp) struct Nagle {
    /// Its end (Linux: `snd_sml`).
    small_end: Option<Seq>,
    /// TCP_NODELAY.
    is_off: bool,
    /// TCP_CORK: what is shorter than a segment waits for more.
    is_corked: bool,
    /// The cork does not hold what was written before TCP_NODELAY (Linux: `TCP_NAGLE_PUSH`).
    pushes: bool,
    /// The last write said that more follows (MSG_MORE), and no ACK has come since, which lets out
    /// what may leave.
    holds: bool,
    more_follows: bool,
}

impl Nagle {
    /// TCP_NODELAY. What waits leaves.
    pub(in crate::tcp) fn set_off(&mut self, off: bool) {
        (self.is_off, self.pushes, self.holds) = (off, self.pushes || off, self.holds && !off);
    }

    /// TCP_CORK.
    pub(in crate::tcp) fn set_corked(&mut self, corked: bool) {
        (self.is_corked, self.holds) = (corked, self.holds && corked);
    }

    /// The program writes; `more` says that more follows.
    pub(in crate::tcp) fn on_write(&mut self, more: bool) {
        (self.pushes, self.holds, self.more_follows) = (false, more, more);
    }

    /// An ACK has come.
    #[inline]
    pub(in crate::tcp) fn on_ack(&mut self) {
        self.holds = false;
    }

    /// What is shorter than a segment waits for more.
    pub(in crate::tcp) fn waits_for_more(&self) -> bool {
        self.holds || (self.is_corked && !self.pushes)
    }

    /// What was written last is not the end of what the program has to say.
    #[inline]
    pub(in crate::tcp) fn more_follows(&self) -> bool {
        self.more_follows
    }

    /// A segment shorter than the MSS leaves.
    #[inline]
    pub(in crate::tcp) fn on_small_sent(&mut self, end: Seq) {
        self.small_end = Some(end);
    }

    /// A further short segment waits, since one is not acknowledged yet.
    #[inline]
    pub(in crate::tcp) fn holds_back(&self, snd_una: Seq) -> bool {
        !self.is_off && self.small_end.is_some_and(|end| end.after(snd_una))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_segment_waits_for_the_one_before_it() {
        let mut nagle = Nagle::default();
        assert!(!nagle.holds_back(Seq::new(u32::MAX)), "nothing short was sent");
        nagle.on_small_sent(Seq::new(10));
        assert!(nagle.holds_back(Seq::new(u32::MAX)) && nagle.holds_back(Seq::new(9)));
        assert!(!nagle.holds_back(Seq::new(10)), "acknowledged");
    }
}
