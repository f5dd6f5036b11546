//! What either end of a connection works with, whether it sends or reads.

use crate::plan::Flow;
use crate::progress::{Progress, lock};
use crate::sample::Sockets;
use crate::sys;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
pub(crate) struct FlowEnd {
    pub(crate) flow: Flow,
    pub(crate) progress: Arc<Mutex<Progress>>,
    pub(crate) sockets: Arc<Mutex<Sockets>>,
    pub(crate) chunk: Arc<Vec<u8>>,
    /// The run's time 0 on the machine's clock.
    pub(crate) origin: u64,
    /// The kernel has out-of-tree MPTCP.
    pub(crate) out_of_tree: bool,
}

impl FlowEnd {
    pub(crate) fn now(&self) -> u64 {
        sys::monotonic().saturating_sub(self.origin)
    }

    /// The reader has read so much in all; with `complete`, it saw the end.
    pub(crate) fn note_end(&self, total: u64, complete: bool) {
        let now = self.now();
        let mut progress = lock(&self.progress);
        if total > 0 {
            progress.note_read(now, total);
        }
        if complete {
            progress.result.finished_ns = Some(now);
        }
    }
}
