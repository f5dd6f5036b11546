//! Nagle's rule (RFC 1122 section 4.2.3.4) in Minshall's form, as Linux has it
//! (`tcp_minshall_check`).

use polypath_base::Seq;

/// The last segment that was shorter than the MSS.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Nagle {
    /// Its end (Linux: `snd_sml`).
    small_end: Option<Seq>,
}

impl Nagle {
    /// A segment shorter than the MSS leaves.
    #[inline]
    pub(in crate::tcp) fn on_small_sent(&mut self, end: Seq) {
        self.small_end = Some(end);
    }

    /// A further short segment waits, since one is not acknowledged yet.
    #[inline]
    pub(in crate::tcp) fn holds_back(&self, snd_una: Seq) -> bool {
        self.small_end.is_some_and(|end| end.after(snd_una))
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
