//! `payload`: earliest arrival, where a window counts in segments and segments differ.
//!
//! Source: the wish of Manoratne 2025, section 13, for a scheduler that knows the sizes of
//! segments; the test for waiting is that of ECF (Lim et al. 2017). The rest is the project's own.
//!
//! Idea: a congestion window and an ACK count segments, so the same bytes take seven places on a
//! path of 1500 bytes that take one on a path of 9000, and seven headers. The paths are therefore
//! compared by the same bytes, a segment of the widest path, in each one's own segments: those
//! beyond its window leave as earlier ones are acknowledged, a window a round trip. Of paths whose
//! window has room the one on which they arrive first is chosen; where two are as fast, the one
//! that spends fewer segments, and so fewer headers, on them. If another path, its window full or
//! not, would alone deliver all that waits before that one delivers its first byte, none is chosen.
//!
//! Where all segments are equally long this is minRTT that waits as ECF does.

use crate::policy::Policy;
use crate::view::{Choice, DataQueueView, Limit, PathView};
use polypath_base::Bytes;

/// Earliest arrival by each path's own segments. It has no state.
#[derive(Copy, Clone, Debug, Default)]
pub struct Payload;

impl Policy for Payload {
    #[inline]
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice> {
        let waiting = queue.waiting();
        if waiting == Bytes::ZERO {
            return None;
        }
        let any_active = subflows.iter().any(|s| s.usable && !s.backup);
        let mut candidates = subflows.iter().enumerate().filter(|(_, s)| s.usable && !s.in_loss && s.backup != any_active);
        let widest = candidates.clone().map(|(_, s)| s.mss).max()?;
        let unit = waiting.min(widest);
        let open = candidates.clone().filter(|(_, s)| s.takes_data());
        let (subflow, s) = open.min_by_key(|(_, s)| (arrival(s, unit), segments(s, unit)))?;
        let first = arrival(s, Bytes::ZERO);
        if candidates.any(|(i, other)| i != subflow && arrival(other, waiting) < first) {
            return None;
        }
        Some(Choice { subflow, from: queue.next, limit: Limit::Bytes(s.share()) })
    }
}

/// Segments of a path that so many bytes take.
fn segments(s: &PathView, bytes: Bytes) -> u64 {
    bytes.get().div_ceil(s.mss.get().max(1))
}

/// Time until so many bytes, behind what waits there already, have reached the peer; sixteenths of
/// a microsecond. RTTs below 2^32, bytes below 2^64: the product is taken in 128 bits.
fn arrival(s: &PathView, bytes: Bytes) -> u128 {
    let window = u128::from(s.cwnd.get().max(1));
    let space = u64::from(s.cwnd.saturating_sub(s.in_flight).get());
    let beyond = u128::from(segments(s, s.unsent + bytes).saturating_sub(space));
    u128::from(s.srtt.as_eighths()) * (window + 2 * beyond) / window
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{DATA, subflow};
    use polypath_base::{DataSeq, Segments};

    fn of_mss(mss: u64, srtt_ms: u32, in_flight: u32) -> PathView {
        PathView { mss: Bytes::new(mss), ..subflow(srtt_ms, in_flight) }
    }

    fn waiting(bytes: u64) -> DataQueueView {
        DataQueueView { end: DataSeq::new(bytes), ..DATA }
    }

    fn picks(subflows: &[PathView], bytes: u64) -> Option<usize> {
        Payload.pick(subflows, &waiting(bytes)).map(|choice| choice.subflow)
    }

    #[test]
    fn of_two_as_fast_the_one_with_longer_segments_is_first() {
        assert_eq!(picks(&[of_mss(1424, 10, 0), of_mss(8924, 10, 0)], 100_000), Some(1));
        assert_eq!(picks(&[of_mss(1424, 10, 0), of_mss(8924, 10, 10)], 100_000), Some(0), "its window is full");
        assert_eq!(picks(&[of_mss(1424, 10, 0), of_mss(8924, 10, 0)], 1000), Some(0), "a segment each: the first");
        assert_eq!(picks(&[of_mss(1424, 9, 0), of_mss(8924, 10, 0)], 100_000), Some(0), "a faster path is first in any case");
    }

    #[test]
    fn a_fast_path_whose_window_is_too_short_for_the_bytes_is_not_the_faster_one() {
        // Six of the seven segments fit, one waits for a fifth of a round trip of 10 ms: 7 ms
        // against 6.
        let narrow = of_mss(1424, 10, 4);
        assert_eq!(arrival(&narrow, Bytes::new(8924)), 16_000 * 6);
        assert_eq!(picks(&[narrow, of_mss(8924, 11, 0)], 100_000), Some(1));
        assert_eq!(picks(&[narrow, of_mss(8924, 11, 0)], 6 * 1424), Some(0), "six fit");
    }

    #[test]
    fn it_waits_for_a_path_that_alone_is_done_before_the_other_delivers_anything() {
        // 20 segments of 1424 bytes are two windows of 10 ms, 25 ms in all with the half round
        // trip; the same bytes are 4 of 8924.
        let slow = of_mss(1424, 40, 0);
        assert_eq!(picks(&[slow, of_mss(8924, 10, 10)], 20 * 1424), None, "four segments: 9 ms against 20");
        assert_eq!(picks(&[slow, of_mss(1424, 10, 10)], 20 * 1424), Some(0), "twenty: 25 ms");
        assert_eq!(picks(&[slow, of_mss(8924, 10, 10)], 1 << 20), Some(0), "much data uses both");
    }

    #[test]
    fn equal_segments_make_it_minrtt() {
        let flows = [subflow(20, 0), subflow(5, 7), subflow(4, 10)];
        let choice = Payload.pick(&flows, &DATA);
        assert_eq!(choice, Some(Choice { subflow: 1, from: DataSeq::new(0), limit: Limit::Bytes(Bytes::new(3000)) }));
    }

    #[test]
    fn backup_and_loss_are_left_out() {
        let backup = PathView { backup: true, ..of_mss(8924, 1, 0) };
        assert_eq!(picks(&[of_mss(1424, 100, 0), backup], 100_000), Some(0));
        assert_eq!(picks(&[PathView { usable: false, ..of_mss(1424, 100, 0) }, backup], 100_000), Some(1));
        let mut lossy = of_mss(8924, 1, 0);
        lossy.in_loss = true;
        assert_eq!(picks(&[of_mss(1424, 100, 0), lossy], 100_000), Some(0));
        assert_eq!(picks(&[of_mss(1424, 10, 0)], 0), None);
    }

    #[test]
    fn whoever_has_no_window_at_all_is_no_division_by_zero() {
        let closed = PathView { cwnd: Segments::ZERO, ..of_mss(1424, 10, 0) };
        assert_eq!(picks(&[closed], 1000), None);
    }
}
