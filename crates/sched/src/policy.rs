//! What a scheduler is.

use crate::view::{Choice, DataQueueView, PathView, SubflowSet};
use polypath_base::Bytes;

/// Faults of a kernel's schedulers that a model of it repeats.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// The products of `ecf` are 32 bits wide.
    pub ecf_overflows: bool,
    /// `redundant` begins again at the oldest buffer that is not acknowledged as a whole.
    pub redundant_repeats: bool,
}

/// A rule that chooses paths.
pub trait Policy: Default {
    /// The path for the next bytes, or `None` if nothing can be sent now.
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice>;

    /// `len` bytes from `choice.from` on were enqueued; the scheduler may have asked for more, or
    /// for what begins later.
    #[inline]
    fn on_scheduled(&mut self, _choice: Choice, _len: Bytes) {}

    /// The peer's window or the send buffer held everything up.
    #[inline]
    fn on_blocked(&mut self) {}

    /// What holds up the peer's window is sent again on a fast path, and the slow one that has it
    /// is penalised (Raiciu et al. 2012). In MPTCP 0.96 this is the scheduler's to do, and not all
    /// do it.
    #[inline]
    fn retransmits_head_of_line(&self) -> bool {
        true
    }

    /// What a path leaves undelivered goes to the others. One that sends everything on every path
    /// in any case says no.
    #[inline]
    fn reinjects(&self) -> bool {
        true
    }

    /// It hands out long bursts to subflows with room in the send buffer, and reads nothing of a
    /// path but what Linux's scheduler reads: `usable`, `backup`, `queued`, `room` and
    /// `pacing_rate`. Any other is asked segment by segment or window by window.
    #[inline]
    fn schedules_bursts(&self) -> bool {
        false
    }

    /// As long as the peer's window is closed, [`Policy::pick`] would choose no path and remember
    /// nothing of them, whatever those in `changed` look like now: it need not be asked.
    #[inline]
    fn has_met(&self, _paths: &[PathView], _changed: SubflowSet) -> bool {
        false
    }

    /// The same with a kernel's faults.
    #[must_use]
    fn with(self, _quirks: Quirks) -> Self {
        self
    }

    /// The policy with what stands behind its name; none: it takes no such arguments.
    fn parse(_arguments: &str) -> Option<Self> {
        None
    }
}
