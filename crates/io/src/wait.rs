//! Waiting for packets or for a time.

use crate::Port;
use crate::clock::timespec;
use polypath_base::Duration;
use std::os::fd::RawFd;

/// Waits until one of the ports has a packet or the time has passed; without a time, until there is
/// a packet.
pub fn wait<'a>(ports: impl Iterator<Item = &'a Port>, most: Option<Duration>) {
    let fds: Vec<RawFd> = ports.map(Port::number).collect();
    wait_on(&fds, most);
}

/// Whether one of the descriptors has something.
pub(crate) fn wait_on(fds: &[RawFd], most: Option<Duration>) -> bool {
    let mut polled: Vec<libc::pollfd> = fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let time = most.map(|most| timespec(most.as_nanos()));
    let limit = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the list has the length given, the time outlives the call, and the signal mask stays
    // as it is. An interruption counts as nothing: who waits looks again.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit, std::ptr::null()) > 0 }
}
