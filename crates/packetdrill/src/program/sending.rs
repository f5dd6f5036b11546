//! What a program sends: calls that wait or do not, TCP Fast Open, and pieces of memory.

use super::{Errno, MSG_ZEROCOPY, Program, WouldBlock};
use polypath_base::Instant;
use polypath_testkit::Endpoint as _;
use polypath_testkit::ours::Connecting;
use polypath_testkit::script::Verb;
use std::net::SocketAddrV4;

/// Pieces of memory of one buffer (`MAX_SKB_FRAGS`).
const MOST_PIECES: usize = 17;

/// What a program sends in one call.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) length: usize,
    pub(crate) flags: i32,
    /// Where a first call connects (MSG_FASTOPEN).
    pub(crate) to: Option<SocketAddrV4>,
    /// Lengths of its pieces, of `sendmsg`.
    pub(crate) pieces: Vec<usize>,
}

impl Program {
    /// `until`: of a call that waits, what is written once it is over; zero before.
    pub(crate) fn send(&mut self, fd: i32, call: &Sending, until: &mut u64) -> Result<i64, WouldBlock> {
        let flags = call.flags;
        let known = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR | libc::MSG_FASTOPEN | MSG_ZEROCOPY;
        if flags & !known != 0 {
            return Err(self.refuse(&format!("sending with {}", names_of(flags & !known))).into());
        }
        let number = self.number(fd)?;
        let deferred = self.socket_of(fd)?.deferred;
        // Not the call that has connected, and waits for that.
        let is_other = *until == 0 && self.socket_of(fd)?.rest.is_none();
        match self.host.connecting(number) {
            Connecting::Fresh if flags & libc::MSG_FASTOPEN != 0 || deferred.is_some() => {
                let Some(to) = call.to.or(deferred) else { return Err(Errno(libc::EINVAL).into()) };
                return self.fast_open(fd, number, to, call, until);
            }
            Connecting::Fresh | Connecting::Listens => return Err(Errno(libc::EPIPE).into()),
            Connecting::InProgress if flags & libc::MSG_FASTOPEN != 0 && is_other => return Err(Errno(libc::EALREADY).into()),
            Connecting::InProgress => return Err(self.would_block(fd, flags, Errno(libc::EAGAIN))?),
            Connecting::Established | Connecting::Over => {}
        }
        if *until == 0 && self.host.connecting(number) == Connecting::Established {
            let told = self.host.announce_write(number, flags & libc::MSG_MORE != 0, flags & libc::MSG_EOR != 0);
            self.granted(told)?;
        }
        let sent = self.write(fd, number, call, until)?;
        if sent > 0 && flags & MSG_ZEROCOPY != 0 {
            let end = self.host.written(number);
            self.socket_of(fd)?.zerocopy_sent(end);
        }
        Ok(sent)
    }

    /// The first call connects, with data in the SYN if the server is known (Linux:
    /// `tcp_sendmsg_fastopen`).
    fn fast_open(&mut self, fd: i32, number: i32, to: SocketAddrV4, call: &Sending, until: &mut u64) -> Result<i64, WouldBlock> {
        self.set_up()?;
        if !self.host.has_fast_open_client() || to.ip().is_unspecified() {
            return Err(Errno(libc::EOPNOTSUPP).into());
        }
        self.socket_of(fd)?.deferred = None;
        let told = self.host.begin_fast_open(number, to, call.length as u64);
        let taken = self.granted(told)?;
        let waits = !self.socket_of(fd)?.nonblocking && call.flags & libc::MSG_DONTWAIT == 0;
        match taken {
            Ok(taken) if !waits => {
                if call.flags & MSG_ZEROCOPY != 0 {
                    let end = self.host.written(number);
                    self.socket_of(fd)?.zerocopy_sent(end);
                }
                Ok(taken)
            }
            Err(name) if !waits => Err(self.errno(&name).into()),
            taken => {
                // It waits for the connection, and so does what the SYN has not taken.
                let (is_out, taken) = (taken.is_ok(), taken.unwrap_or(0));
                let rest = call.length as u64 - taken as u64;
                if is_out && rest > 0 {
                    let told = self.host.begin_writing(number, rest);
                    let told = self.granted(told)?;
                    *until = told.map_err(|name| self.errno(&name))?;
                } else {
                    self.socket_of(fd)?.rest = Some(rest);
                }
                Err(WouldBlock::Until(Instant::NEVER))
            }
        }
    }

    fn write(&mut self, fd: i32, number: i32, call: &Sending, until: &mut u64) -> Result<i64, WouldBlock> {
        let length = call.length;
        if call.flags & MSG_ZEROCOPY != 0 && call.pieces.len() > MOST_PIECES {
            // A buffer has no more pieces of memory, and is closed then (Linux: `MAX_SKB_FRAGS`).
            let mut sent = 0;
            for pieces in call.pieces.chunks(MOST_PIECES) {
                let told = self.host.announce_write(number, false, true);
                self.granted(told)?;
                let told = self.host.call(&Verb::Write { fd: number, len: pieces.iter().sum::<usize>() as u64 });
                sent += self.value(told)?;
            }
            return Ok(sent);
        }
        if self.socket_of(fd)?.nonblocking || call.flags & libc::MSG_DONTWAIT != 0 {
            let told = self.host.call(&Verb::Write { fd: number, len: length as u64 });
            return Ok(self.value(told)?);
        }
        if *until == 0 {
            let rest = self.socket_of(fd)?.rest.take().unwrap_or(length as u64);
            let told = self.host.begin_writing(number, rest);
            let told = self.granted(told)?;
            *until = told.map_err(|name| self.errno(&name))?;
        }
        let left = until.saturating_sub(self.host.written(number));
        if left == 0
            && self.host.connecting(number) == Connecting::Over
            && let Some(name) = self.host.take_error(number)
        {
            // The SYN had taken it all, and was never answered.
            return Err(self.errno(name).into());
        }
        if left == 0 {
            return Ok(length as i64);
        }
        if self.host.connecting(number) == Connecting::Over {
            // The SYN was not answered: of what it took there is the error alone.
            let never_was = self.host.tcp(number).is_some_and(|socket| socket.established_at().is_none());
            let taken = if never_was { 0 } else { length as u64 - left };
            let name = self.host.take_error(number).unwrap_or("EPIPE");
            return if taken > 0 { Ok(taken as i64) } else { Err(self.errno(name).into()) };
        }
        Err(WouldBlock::Until(Instant::NEVER))
    }
}

/// Flags of `send` by their names.
fn names_of(flags: i32) -> String {
    const NAMES: [(i32, &str); 5] = [
        (libc::MSG_MORE, "MSG_MORE"),
        (libc::MSG_EOR, "MSG_EOR"),
        (libc::MSG_FASTOPEN, "MSG_FASTOPEN"),
        (MSG_ZEROCOPY, "MSG_ZEROCOPY"),
        (libc::MSG_OOB, "MSG_OOB"),
    ];
    let known: Vec<&str> = NAMES.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name).collect();
    if known.is_empty() { format!("the flags {flags:#x}") } else { known.join(" and ") }
}
