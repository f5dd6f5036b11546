//! What a simulator's inner loop asks of an end, and what an end sends at one time, written segment
//! by segment into one slot.
//!
//! A segment is large, and most of the work of handing it on would be to copy it. So an end writes
//! into a slot of the caller's, and of a burst it writes only the first segment whole: each further
//! one is a patch of it. An end that has a [`SegmentSlot`] may therefore rely on what it wrote
//! there last. [`Transmits`] alone makes one, holds the slot and the end as long as segments come,
//! and lets others only read.

use polypath_base::{Bytes, Instant, PathId};
use polypath_wire::{Segment, Unreachable};
use std::fmt;

/// What is done for every segment, at an end of TCP or MPTCP: a loop that goes through it is
/// compiled for each, so that the transport is looked up once a packet and not once a call.
pub trait End {
    /// As [`Connection::handle_segment`](crate::Connection::handle_segment).
    fn handle_segment(&mut self, now: Instant, path: PathId, segment: &Segment);
    /// The same, where the host has another segment for this end already, and its application runs
    /// after that one.
    fn handle_segment_before_another(&mut self, now: Instant, path: PathId, segment: &Segment);
    /// As [`Connection::handle_unreachable`](crate::Connection::handle_unreachable).
    fn handle_unreachable(&mut self, now: Instant, path: PathId, message: &Unreachable);
    /// The path of the next segment to send, which is in the slot then: for [`Transmits`], which
    /// alone has one.
    fn poll_transmit_into(&mut self, now: Instant, slot: SegmentSlot<'_>) -> Option<PathId>;
    /// What is in the slot is not known any more: the next segment is written whole.
    fn forget_slot(&mut self);
    /// False if [`End::poll_transmit_into`] would find nothing to send.
    fn may_transmit(&self) -> bool;
    /// As [`Connection::poll_timeout`](crate::Connection::poll_timeout), but only where that is
    /// before `limit`, and then at less cost.
    fn poll_timeout_before(&mut self, limit: Instant) -> Option<Instant>;
    /// As [`Connection::accepted`](crate::Connection::accepted), bytes.
    fn accepted(&self) -> Bytes;
    /// As [`Connection::received`](crate::Connection::received), bytes.
    fn received(&self) -> Bytes;
}

/// Where an end writes the next segment. It holds what this end wrote there last, or what
/// [`End::forget_slot`] told it to take for unknown.
#[derive(Debug)]
pub struct SegmentSlot<'a>(pub(crate) &'a mut Segment);

/// The segments that an end has to send now.
pub struct Transmits<'a, E: End> {
    end: &'a mut E,
    segment: &'a mut Segment,
    /// More may come, perhaps as patches of what is in the slot.
    is_open: bool,
}

impl<'a, E: End> Transmits<'a, E> {
    /// Takes the slot for the end's segments; what is in it is lost.
    #[inline(always)]
    pub fn new(end: &'a mut E, slot: &'a mut Segment) -> Self {
        Self { end, segment: slot, is_open: false }
    }

    /// The next segment to send at `now`, and its path.
    #[inline(always)]
    pub fn next(&mut self, now: Instant) -> Option<(PathId, &Segment)> {
        let path = self.end.poll_transmit_into(now, SegmentSlot(self.segment));
        self.is_open = path.is_some();
        path.map(|path| (path, &*self.segment))
    }

    /// As [`End::handle_unreachable`], before the next segment.
    pub fn handle_unreachable(&mut self, now: Instant, path: PathId, message: &Unreachable) {
        self.end.handle_unreachable(now, path, message);
    }
}

impl<E: End> Drop for Transmits<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_open {
            self.end.forget_slot();
        }
    }
}

impl<E: End> fmt::Debug for Transmits<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmits").field("segment", self.segment).field("is_open", &self.is_open).finish_non_exhaustive()
    }
}
