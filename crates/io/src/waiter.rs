//! Waiting for any of several descriptors, many times.

use polypath_base::Duration;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::clock::timespec;

/// Descriptors that are waited for together. They must stay open for as long.
#[derive(Debug)]
pub struct Waiter<'a> {
    polled: Vec<libc::pollfd>,
    held: std::marker::PhantomData<BorrowedFd<'a>>,
}

impl<'a> Waiter<'a> {
    pub fn new(fds: impl IntoIterator<Item = BorrowedFd<'a>>) -> Self {
        let polled = fds.into_iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
        Self { polled, held: std::marker::PhantomData }
    }

    /// Waits until one has something or the time has passed; without a time, until one has.
    pub fn wait(&mut self, most: Option<Duration>) {
        self.wait_for_first(self.polled.len(), most);
    }

    /// Waits until one of the first `count` has something or the time has passed; without a time,
    /// until one has.
    pub fn wait_for_first(&mut self, count: usize, most: Option<Duration>) {
        let count = count.min(self.polled.len());
        self.polled[count..].iter_mut().for_each(|fd| fd.revents = 0);
        let time = most.map(|most| timespec(most.as_nanos()));
        let limit = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the list has the length given, the time outlives the call, and the signal mask
        // stays as it is.
        let found = unsafe { libc::ppoll(self.polled.as_mut_ptr(), count as libc::nfds_t, limit, std::ptr::null()) };
        if found <= 0 {
            // Time is up, or a signal came: what an earlier call has found is old.
            self.polled.iter_mut().for_each(|fd| fd.revents = 0);
        }
    }

    /// Whether the descriptor of this number has something, as the last wait found it.
    pub fn ready(&self, number: usize) -> bool {
        self.polled.get(number).is_some_and(|fd| fd.revents != 0)
    }
}
