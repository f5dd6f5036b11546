//! The signals that end a process, as something to wait for.

use crate::{Failed, check};
use polypath_base::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// SIGTERM, SIGINT and SIGHUP, held back from now on.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Holds them back in the calling thread and in those it starts later: call it before there are
    /// others.
    pub fn hold() -> Result<Self, Failed> {
        // SAFETY: a set of zeros is valid, and sigemptyset makes it empty; it outlives the calls.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            set
        };
        // SAFETY: the set outlives the call.
        let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) }, || "signalfd".into())?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for one of them, at most so long; says whether one has come.
    pub fn wait(&self, most: Duration) -> bool {
        crate::wait::wait_on(&[self.0.as_raw_fd()], Some(most))
    }
}

/// What a signal asks for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: to end.
    End,
    /// SIGHUP.
    Hangup,
}

impl Signals {
    /// The next one that has come, without waiting.
    pub fn take(&self) -> Option<Signal> {
        let mut number = [0_u8; size_of::<libc::signalfd_siginfo>()];
        // SAFETY: the buffer has the length given and outlives the call.
        let got = unsafe { libc::read(self.0.as_raw_fd(), number.as_mut_ptr().cast(), number.len()) };
        // Its first field is the signal's number.
        let signal = (got > 0).then(|| u32::from_ne_bytes([number[0], number[1], number[2], number[3]]))?;
        Some(if signal == libc::SIGHUP as u32 { Signal::Hangup } else { Signal::End })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
