//! What the threads of a flow and the run know about it, and what both kinds of flow share: locks,
//! threads, the interval of polling.

use crate::plan::Flow;
use crate::records::{DATAGRAM_RECORD, FlowResult};
use crate::sample::hexadecimal;
use crate::sys::{self, Error, Outcome};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) const MILLISECOND: u64 = 1_000_000;
/// The run polls its flows so often: goodput over a window is as exact as this, and the ring of a
/// capture lasts so long.
pub(crate) const POLL_INTERVAL: u64 = 20 * MILLISECOND;
/// What a datagram begins with: its number and the time of its sending since the run's start, u64
/// each.
pub(crate) const DATAGRAM_HEAD: usize = 16;
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;

/// A lock whose holder cannot leave the data half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> Outcome<()> {
    const STACK: usize = 64 << 10;
    let made = std::thread::Builder::new().stack_size(STACK).spawn(work);
    made.map(drop).map_err(|e| Error::machine(format!("starting a thread: {e}")))
}

/// What both threads of a flow and the run know about it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) result: FlowResult,
    written: ByteCount,
    read: ByteCount,
    pub(crate) client: EndState,
    pub(crate) server: EndState,
    /// Number of the flow, and records of the datagrams that have arrived.
    number: u32,
    pub(crate) datagrams: Vec<u8>,
    /// The run reads the reader's counters, because it stays in the kernel.
    silent: bool,
    /// The client reads.
    download: bool,
}

/// One end of a flow.
#[derive(Debug, Default)]
pub(crate) struct EndState {
    /// While it is open.
    pub(crate) socket: Option<Arc<OwnedFd>>,
    pub(crate) ended: bool,
}

/// (time, bytes so far), at most one a millisecond and the last.
#[derive(Debug, Default)]
struct ByteCount {
    kept: Vec<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl ByteCount {
    fn add(&mut self, at: u64, bytes: u64) {
        if self.kept.last().is_none_or(|(before, _)| at >= before + MILLISECOND) {
            self.kept.push((at, bytes));
        }
        self.last = Some((at, bytes));
    }

    fn all(&mut self) -> Vec<(u64, u64)> {
        if self.last.is_some() && self.kept.last() != self.last.as_ref() {
            self.kept.extend(self.last);
        }
        std::mem::take(&mut self.kept)
    }
}

impl Progress {
    /// `silent`: the run reads the reader's counters, because it stays in the kernel.
    pub(crate) fn new(number: u32, flow: &Flow, silent: bool) -> Self {
        let result = FlowResult { name: flow.name.clone(), ..FlowResult::default() };
        Self { result, number, silent, download: flow.download, ..Self::default() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.client.ended && self.server.ended
    }

    /// A datagram that begins with `head` has arrived.
    pub(crate) fn note_datagram(&mut self, now_ns: u64, head: &[u8]) {
        self.datagrams.extend_from_slice(&datagram_record(now_ns, self.number, head));
    }

    /// The reader has gone.
    pub(crate) fn end_server(&mut self) {
        self.server.ended = true;
    }

    pub(crate) fn note_read(&mut self, now_ns: u64, bytes: u64) {
        self.read.add(now_ns, bytes);
    }

    pub(crate) fn note_written(&mut self, now_ns: u64, bytes: u64) {
        self.written.add(now_ns, bytes);
    }

    /// Notes what a silent reader has read by now.
    pub(crate) fn poll(&mut self, now_ns: u64) {
        let reader = if self.download { &self.client } else { &self.server };
        if let (true, Some(socket)) = (self.silent, &reader.socket) {
            let received = bytes_received(socket);
            if let (Some(received), Some(waiting)) = (received, sys::waiting_bytes(socket)) {
                let read = received.saturating_sub(waiting);
                if read > 0 {
                    self.read.add(now_ns, read);
                }
            }
        }
    }

    /// The result at the run's end, with what the sockets that are still open say.
    pub(crate) fn finish(&mut self) -> FlowResult {
        self.note_client();
        self.note_server();
        self.result.written = self.written.all();
        self.result.read = self.read.all();
        std::mem::take(&mut self.result)
    }

    pub(crate) fn note_client(&mut self) {
        if let Some(info) = self.client.socket.as_ref().and_then(mptcp_info) {
            self.result.fallback |= info.1;
            self.result.client_mptcp_info = Some(info.0);
        }
    }

    pub(crate) fn note_server(&mut self) {
        if let Some(info) = self.server.socket.as_ref().and_then(mptcp_info) {
            self.result.server_mptcp_info = Some(info.0);
        }
    }
}

/// Payload bytes that came in order so far: tcpi_bytes_received.
fn bytes_received(socket: &Arc<OwnedFd>) -> Option<u64> {
    const AT: usize = 128;
    let mut info = [0; AT + 8];
    let length = sys::get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    (length == info.len()).then(|| polypath_io::netlink::long(&info, AT))
}

/// mptcp_info in hexadecimal, and whether the connection fell back to TCP.
fn mptcp_info(socket: &Arc<OwnedFd>) -> Option<(String, bool)> {
    const FLAGS_AT: usize = 8;
    const FELL_BACK: u32 = 1;
    let mut info = [0; 256];
    let length = sys::get_option(socket, SOL_MPTCP, MPTCP_INFO, &mut info)?;
    Some((hexadecimal(&info[..length]), polypath_io::netlink::word(&info, FLAGS_AT) & FELL_BACK != 0))
}

/// The record of a datagram that begins with `head`.
fn datagram_record(now: u64, flow: u32, head: &[u8]) -> [u8; DATAGRAM_RECORD] {
    let mut record = [0; DATAGRAM_RECORD];
    record[..8].copy_from_slice(&now.to_le_bytes());
    record[8..16].copy_from_slice(&head[8..DATAGRAM_HEAD]);
    record[16..20].copy_from_slice(&head[..4]);
    record[20..].copy_from_slice(&flow.to_le_bytes());
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_are_kept_once_a_millisecond_and_the_last_is_never_lost() {
        let mut count_of = ByteCount::default();
        for (at, bytes) in [(5, 1), (900_000, 2), (1_000_005, 3), (1_500_000, 4)] {
            count_of.add(at, bytes);
        }
        assert_eq!(count_of.all(), [(5, 1), (1_000_005, 3), (1_500_000, 4)]);
        let mut none = ByteCount::default();
        assert_eq!(none.all(), []);
    }

    #[test]
    fn a_record_has_the_order_that_the_reader_knows() {
        let head: Vec<u8> = [7_u64.to_le_bytes(), 0x0102_0304_0506_0708_u64.to_le_bytes()].concat();
        let expected = [9, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 7, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(datagram_record(9, 3, &head), expected);
    }
}
