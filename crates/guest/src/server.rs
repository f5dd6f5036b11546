//! The accepting end of a connection: it reads and throws away, or answers requests.
//!
//! A system call of a program in the machine costs its host some ten microseconds, as much as several packets: so a reader that may block
//! does so inside the kernel, where it empties its socket each time `low_water` bytes wait, without coming back.

use crate::plan::{App, Flow, Reading};
use crate::progress::{MILLISECOND, POLL_INTERVAL, Progress, lock};
use crate::stream::{READ, read_whole, send_whole};
use crate::sys::{self, Outcome, StreamSocket};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// What one call reads at most where it stays until the connection ends: the most that any call reads (MAX_RW_COUNT).
const READ_ALL: usize = 0x7fff_f000;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) flow: Flow,
    pub(crate) listener: OwnedFd,
    pub(crate) progress: Arc<Mutex<Progress>>,
    pub(crate) chunk: Arc<Vec<u8>>,
    pub(crate) origin: u64,
}

impl Server {
    fn now(&self) -> u64 {
        sys::monotonic().saturating_sub(self.origin)
    }

    pub(crate) fn run(&self) -> Outcome<()> {
        let socket = Arc::new(sys::accept(&self.listener)?);
        {
            let mut progress = lock(&self.progress);
            progress.result.accepted_ns = Some(self.now());
            progress.server.socket = Some(socket.clone());
        }
        let Reading { low_water, sleep_ns } = self.flow.reading;
        if low_water > 0 {
            sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, low_water as i32)?;
        }
        let stream = StreamSocket::new(&*socket)?;
        if let App::Requests { request_bytes, response_bytes, .. } = self.flow.app {
            self.answer(&socket, stream, request_bytes, response_bytes);
        } else if sleep_ns > 0 {
            self.read_and_sleep(stream, sleep_ns);
        } else {
            self.read_on(&socket, stream);
        }
        Ok(())
    }

    /// Reads what waits, sleeps, and so on. The time is asked for only about as often as other readers are looked at.
    fn read_and_sleep(&self, stream: StreamSocket<'_>, sleep_ns: u64) {
        /// Linux's default: the sleeps of the readers in the reference ended by so much late, where that saved an interrupt.
        const SLACK: libc::c_ulong = 50_000;
        sys::timer_slack(SLACK);
        let (mut total, mut unnoted) = (0, 0);
        loop {
            match sys::discard(stream, READ, libc::MSG_DONTWAIT) {
                Ok(0) => return self.end(total, true),
                Ok(length) => {
                    total += length as u64;
                    unnoted += sleep_ns;
                    if unnoted >= POLL_INTERVAL || total == length as u64 {
                        unnoted = 0;
                        let now = self.now();
                        lock(&self.progress).note_read(now, total);
                    }
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return self.end(total, false),
            }
            sys::sleep_for(sleep_ns);
        }
    }

    /// Reads inside the kernel: TCP to the connection's end, for the run asks the socket how far it is; MPTCP, which cannot say so, comes
    /// back every 100 ms.
    fn read_on(&self, socket: &Arc<OwnedFd>, stream: StreamSocket<'_>) {
        const RETURN: u64 = 100 * MILLISECOND;
        if self.flow.mptcp && sys::set_timeout(socket, libc::SO_RCVTIMEO, RETURN).is_err() {
            return self.end(0, false);
        }
        let mut total = 0;
        loop {
            match sys::discard(stream, READ_ALL, libc::MSG_WAITALL) {
                Ok(0) => return self.end(total, true),
                Ok(length) => {
                    total += length as u64;
                    let now = self.now();
                    lock(&self.progress).note_read(now, total);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return self.end(total, false),
            }
        }
    }

    /// Reads each request whole and answers it.
    fn answer(&self, socket: &Arc<OwnedFd>, stream: StreamSocket<'_>, request_bytes: u64, response_bytes: u64) {
        let mut total = 0;
        while read_whole(stream, request_bytes) {
            total += request_bytes;
            let now = self.now();
            lock(&self.progress).note_read(now, total);
            if send_whole(socket, &self.chunk, response_bytes).is_err() {
                return self.end(total, false);
            }
        }
        self.end(total, true);
    }

    fn end(&self, total: u64, complete: bool) {
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
