//! The signals that end a process, as something to wait for.

use crate::{Failed, check};
use polypath_base::Duration;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// SIGTERM, SIGINT and SIGHUP, held back from now on.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Holds them back in the calling thread and in those it starts later: call it before there are others.
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
