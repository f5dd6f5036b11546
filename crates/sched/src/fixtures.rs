//! What the tests of several schedulers begin with.

use crate::view::{DataQueueView, PathView};
use polypath_base::{Bytes, DataSeq, Segments, SmoothedRtt};

/// A megabyte waits, and the window has room for it.
pub(crate) const DATA: DataQueueView =
    DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(1 << 20), ..DataQueueView::EMPTY };

/// A subflow with a window of ten segments of 1000 bytes, of which some are in flight.
pub(crate) fn subflow(srtt_ms: u32, in_flight: u32) -> PathView {
    PathView {
        srtt: SmoothedRtt::from_millis(srtt_ms),
        cwnd: Segments::new(10),
        in_flight: Segments::new(in_flight),
        mss: Bytes::new(1000),
        usable: true,
        room: true,
        ..PathView::default()
    }
}
