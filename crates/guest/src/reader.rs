//! Whichever end of a connection reads: it throws away what comes, or, if it is a server, answers
//! requests.
//!
//! A system call of a program in the machine costs its host some ten microseconds, as much as
//! several packets: so a reader that may block does so inside the kernel, where it empties its
//! socket each time `low_water` bytes wait, without coming back.

use crate::flow_end::FlowEnd;
use crate::plan::{App, Reading};
use crate::progress::{MILLISECOND, POLL_INTERVAL, lock};
use crate::stream::{READ, read_whole, send_whole};
use crate::sys::{self, Outcome, StreamSocket};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What one call reads at most where it stays until the connection ends: the most that any call
/// reads (MAX_RW_COUNT).
const READ_ALL: usize = 0x7fff_f000;

/// Reads until the connection ends.
pub(crate) fn read(end: &FlowEnd, socket: &Arc<OwnedFd>) -> Outcome<()> {
    let Reading { low_water, sleep_ns } = end.flow.reading;
    if low_water > 0 {
        sys::set_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, low_water as i32)?;
    }
    let stream = StreamSocket::new(&**socket)?;
    if let App::Requests { request_bytes, response_bytes, .. } = end.flow.app {
        answer(end, socket, stream, request_bytes, response_bytes);
    } else if sleep_ns > 0 {
        read_and_sleep(end, stream, sleep_ns);
    } else {
        read_on(end, socket, stream);
    }
    Ok(())
}

/// Reads what waits, sleeps, and so on. The time is asked for only about as often as other readers
/// are looked at.
fn read_and_sleep(end: &FlowEnd, stream: StreamSocket<'_>, sleep_ns: u64) {
    /// Linux's default: the sleeps of the readers in the reference ended by so much late, where
    /// that saved an interrupt.
    const SLACK: libc::c_ulong = 50_000;
    sys::timer_slack(SLACK);
    let (mut total, mut unnoted) = (0, 0);
    loop {
        match sys::discard(stream, READ, libc::MSG_DONTWAIT) {
            Ok(0) => return end.note_end(total, true),
            Ok(length) => {
                total += length as u64;
                unnoted += sleep_ns;
                if unnoted >= POLL_INTERVAL || total == length as u64 {
                    unnoted = 0;
                    let now = end.now();
                    lock(&end.progress).note_read(now, total);
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return end.note_end(total, false),
        }
        sys::sleep_for(sleep_ns);
    }
}

/// Reads inside the kernel: TCP to the connection's end, for the run asks the socket how far it is;
/// MPTCP, which cannot say so, comes back every 100 ms.
fn read_on(end: &FlowEnd, socket: &Arc<OwnedFd>, stream: StreamSocket<'_>) {
    const RETURN: u64 = 100 * MILLISECOND;
    if end.flow.mptcp && sys::set_timeout(socket, libc::SO_RCVTIMEO, RETURN).is_err() {
        return end.note_end(0, false);
    }
    let mut total = 0;
    loop {
        match sys::discard(stream, READ_ALL, libc::MSG_WAITALL) {
            Ok(0) => return end.note_end(total, true),
            Ok(length) => {
                total += length as u64;
                let now = end.now();
                lock(&end.progress).note_read(now, total);
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return end.note_end(total, false),
        }
    }
}

/// Reads each request whole and answers it.
fn answer(end: &FlowEnd, socket: &Arc<OwnedFd>, stream: StreamSocket<'_>, request_bytes: u64, response_bytes: u64) {
    let mut total = 0;
    while read_whole(stream, request_bytes) {
        total += request_bytes;
        let now = end.now();
        lock(&end.progress).note_read(now, total);
        if send_whole(socket, &end.chunk, response_bytes).is_err() {
            return end.note_end(total, false);
        }
    }
    end.note_end(total, true);
}
