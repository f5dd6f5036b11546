//! Whichever end of a connection sends: what the flow's application sends, from the time at which
//! this end was connected.
//!
//! A system call of a program in the machine costs its host some ten microseconds, as much as
//! several packets: so sends are large.

use crate::flow_end::FlowEnd;
use crate::plan::App;
use crate::progress::{MILLISECOND, lock};
use crate::stream::{CHUNK, read_whole, send_whole};
use crate::sys::{self, Error, Outcome, StreamSocket};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// Sends all that the application has; this end was connected at `connected`.
pub(crate) fn send(end: &FlowEnd, socket: &Arc<OwnedFd>, connected: u64) -> Outcome<()> {
    let prompt = matches!(end.flow.app, App::OnOff { .. });
    let mut sender = Sender { end, socket, total: 0, timeout: 0, prompt };
    let sent = match end.flow.app {
        App::Bulk { duration_ns } => sender.bulk(connected + duration_ns),
        App::Transfer { bytes } => sender.transfer(bytes),
        App::OnOff { on_ns, off_ns, duration_ns, bits_per_s } => sender.on_off(on_ns, off_ns, connected + duration_ns, bits_per_s),
        App::Requests { request_bytes, response_bytes, pause_ns, duration_ns } => {
            sender.requests(request_bytes, response_bytes, pause_ns, connected + duration_ns)
        }
    };
    // The last word of the kernel about this flow's subflows, before they are gone.
    lock(&end.sockets).poll(end.now())?;
    sent
}

struct Sender<'a> {
    end: &'a FlowEnd,
    socket: &'a Arc<OwnedFd>,
    total: u64,
    /// How long a send may block now; 0: for ever.
    timeout: u64,
    /// Stops in the middle of a chunk when the time has come; else after it, as the reference's
    /// sender does.
    prompt: bool,
}

impl Sender<'_> {
    fn bulk(&mut self, until: u64) -> Outcome<()> {
        self.send_until(until, u64::MAX)?;
        sys::linger_never(self.socket)
    }

    /// Sends, then waits until the peer has everything and closes too.
    fn transfer(&mut self, bytes: u64) -> Outcome<()> {
        self.send_until(u64::MAX, bytes)?;
        sys::shutdown_write(self.socket);
        let mut end = [0; 16];
        while sys::receive(self.socket, &mut end, 0).is_ok_and(|length| length > 0) {}
        Ok(())
    }

    /// Bursts, each from where the last one should have ended; a rate is kept exactly over each
    /// burst, in a write a millisecond.
    fn on_off(&mut self, on_ns: u64, off_ns: u64, end: u64, bits_per_s: Option<u64>) -> Outcome<()> {
        let mut begin = self.end.now();
        while begin < end {
            let until = (begin + on_ns).min(end);
            match bits_per_s {
                None => self.send_until(until, u64::MAX)?,
                Some(bits) => {
                    let due = |at: u64| (u128::from(bits) * u128::from(at - begin) / 8_000_000_000) as u64;
                    let (base, mut at) = (self.total, begin);
                    while at < until {
                        at = (at + MILLISECOND).min(until);
                        self.send_until(until, base + due(at))?;
                        sys::sleep_until(self.end.origin + at);
                    }
                }
            }
            begin = until + off_ns;
            sys::sleep_until(self.end.origin + begin.min(end));
        }
        sys::linger_never(self.socket)
    }

    /// Each request once the last was answered and the pause is over.
    fn requests(&mut self, request_bytes: u64, response_bytes: u64, pause_ns: u64, end: u64) -> Outcome<()> {
        let stream = StreamSocket::new(&**self.socket)?;
        let mut at = self.end.now();
        while at < end {
            sys::sleep_until(self.end.origin + at);
            let sent = self.end.now();
            send_whole(self.socket, &self.end.chunk, request_bytes).map_err(|e| Error::machine(format!("send: {e}")))?;
            self.total += request_bytes;
            if !read_whole(stream, response_bytes) {
                return Err(Error::machine("the connection ended before the response"));
            }
            let answered = self.end.now();
            let mut progress = lock(&self.end.progress);
            progress.note_written(sent, self.total);
            progress.result.responses.push((sent, answered));
            at = answered + pause_ns;
        }
        sys::shutdown_write(self.socket);
        Ok(())
    }

    /// Sends until this time or until this many bytes are sent in all.
    fn send_until(&mut self, until: u64, limit: u64) -> Outcome<()> {
        let mut now = self.end.now();
        while now < until && self.total < limit {
            self.block_at_most(until.saturating_sub(now))?;
            let length = (limit - self.total).min(CHUNK as u64) as usize;
            match sys::send(self.socket, &self.end.chunk[..length]) {
                Ok(sent) => self.total += sent as u64,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(Error::machine(format!("send: {e}"))),
            }
            now = self.end.now();
            if self.total > 0 {
                lock(&self.end.progress).note_written(now, self.total);
            }
        }
        Ok(())
    }

    /// Sees to it that a send comes back: every second at the latest, so that no flow outlasts its
    /// time by more.
    fn block_at_most(&mut self, ns: u64) -> Outcome<()> {
        // A timeout of 0 would mean for ever.
        let wanted = if self.prompt { ns.clamp(MILLISECOND, SECOND) } else { SECOND };
        if wanted != self.timeout {
            sys::set_timeout(self.socket, libc::SO_SNDTIMEO, wanted)?;
            self.timeout = wanted;
        }
        Ok(())
    }
}
