//! The evidence that a reduction of the window was spurious: timestamps (Eifel, RFC 3522) and DSACKs (RFC 3708), as Linux keeps them.

use crate::tcp::is_earlier;
use polypath_base::Seq;

#[derive(Debug, Default)]
pub(in crate::tcp) struct Undo {
    /// Set while a reduction may yet prove spurious: `snd_una` at its start (Linux: `undo_marker`).
    marker: Option<Seq>,
    /// Retransmissions not yet reported as duplicates; `None` where a DSACK cannot undo (Linux: `undo_retrans`).
    retrans: Option<u32>,
    /// Slow-start threshold to restore, segments; 0 if the reduction is not to be undone (Linux: `prior_ssthresh`).
    prior_ssthresh: u32,
    /// Send time (ms clock) of the first retransmission of this episode (Linux: `retrans_stamp`).
    retrans_stamp: Option<u32>,
}

impl Undo {
    /// A reduction begins: from here on evidence against it is collected. Of `retrans_out` retransmissions in the network duplicates may be reported
    /// later; without any, no DSACK can undo.
    pub(in crate::tcp) fn watch(&mut self, snd_una: Seq, retrans_out: u32) {
        self.marker = Some(snd_una);
        self.retrans = (retrans_out > 0).then_some(retrans_out);
    }

    /// Evidence is being collected.
    #[inline]
    pub(in crate::tcp) fn is_watching(&self) -> bool {
        self.marker.is_some()
    }

    /// What happens now is not to be undone, or has been.
    pub(in crate::tcp) fn end(&mut self) {
        self.marker = None;
    }

    /// The threshold to restore, segments; 0: there is none.
    #[inline]
    pub(in crate::tcp) fn prior_ssthresh(&self) -> u32 {
        self.prior_ssthresh
    }

    pub(in crate::tcp) fn set_prior_ssthresh(&mut self, segments: u32) {
        self.prior_ssthresh = segments;
    }

    /// The reduction is not to be undone.
    pub(in crate::tcp) fn forget_threshold(&mut self) {
        self.prior_ssthresh = 0;
    }

    /// A segment is sent again at `stamp`, ms: what arrives later may be that.
    pub(in crate::tcp) fn stamp_retransmission(&mut self, stamp: u32) {
        self.retrans_stamp.get_or_insert(stamp);
    }

    /// A segment is sent again of which a duplicate may be reported.
    pub(in crate::tcp) fn on_retransmitted(&mut self) {
        self.retrans = Some(self.retrans.unwrap_or(0) + 1);
    }

    /// When the first retransmission of this episode left, ms.
    #[inline]
    pub(in crate::tcp) fn retrans_stamp(&self) -> Option<u32> {
        self.retrans_stamp
    }

    /// No retransmission is in the network any more.
    #[inline]
    pub(in crate::tcp) fn forget_retrans_stamp(&mut self) {
        self.retrans_stamp = None;
    }

    /// A DSACK reports that so many segments up to `end` came twice, sent since the reduction began.
    pub(in crate::tcp) fn on_dsack(&mut self, end: Seq, segments: u32) {
        if let (Some(marker), Some(left)) = (self.marker, self.retrans)
            && end.after(marker)
        {
            self.retrans = Some(left.saturating_sub(segments));
        }
    }

    /// What was missing has arrived, and it was no retransmission: the ACK echoes a time from before the first one (RFC 3522), or `nothing_again`, none
    /// has left yet.
    pub(in crate::tcp) fn shown_by_delay(&self, echo: Option<u32>, nothing_again: bool) -> bool {
        let original = self.retrans_stamp.map_or(nothing_again, |stamp| echo.is_some_and(|echo| is_earlier(echo, stamp)));
        self.is_watching() && original
    }

    /// Every retransmission was reported as a duplicate.
    #[inline]
    pub(in crate::tcp) fn shown_by_dsacks(&self) -> bool {
        self.is_watching() && self.retrans == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching() -> Undo {
        let mut undo = Undo::default();
        undo.watch(Seq::new(5000), 0);
        undo
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_shows_it() {
        let mut undo = watching();
        undo.stamp_retransmission(70);
        undo.on_retransmitted();
        undo.stamp_retransmission(90);
        undo.on_retransmitted();
        let shown = |undo: &Undo, echo| undo.shown_by_delay(echo, true);
        assert!(shown(&undo, Some(69)) && !shown(&undo, Some(70)) && !shown(&undo, None));
        undo.end();
        assert!(!shown(&undo, Some(69)), "nothing is to be undone");
    }

    #[test]
    fn what_arrives_before_anything_was_sent_again_was_late() {
        let mut undo = watching();
        assert!(undo.shown_by_delay(None, true) && !undo.shown_by_delay(None, false));
        undo.stamp_retransmission(70);
        undo.on_retransmitted();
        assert!(!undo.shown_by_delay(None, true));
    }

    #[test]
    fn a_duplicate_for_each_retransmission_shows_it() {
        let mut undo = watching();
        assert!(!undo.shown_by_dsacks(), "nothing was sent again");
        undo.stamp_retransmission(70);
        undo.on_retransmitted();
        undo.stamp_retransmission(71);
        undo.on_retransmitted();
        undo.on_dsack(Seq::new(6000), 1);
        assert!(!undo.shown_by_dsacks());
        undo.on_dsack(Seq::new(5000), 1);
        assert!(!undo.shown_by_dsacks(), "older than the reduction");
        undo.on_dsack(Seq::new(7000), 1);
        assert!(undo.shown_by_dsacks());
    }

    #[test]
    fn a_block_of_several_segments_counts_as_many() {
        let mut undo = Undo::default();
        undo.watch(Seq::new(5000), 3);
        undo.on_dsack(Seq::new(8000), 3);
        assert!(undo.shown_by_dsacks());
    }
}
