//! One thread tells another one that waits (eventfd).

use crate::{Failed, check};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Readable from the first [`Wake::wake`] on, until [`Wake::clear`].
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> Result<Self, Failed> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) }, || "making an eventfd".to_owned())?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn wake(&self) {
        let one = 1_u64;
        // SAFETY: the number outlives the call. It fails when 2^64 - 1 others are unread: then the
        // descriptor is readable all the same.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    pub fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: the number outlives the call. It fails when nobody has woken.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Waiter;
    use polypath_base::Duration;

    #[test]
    fn it_is_readable_until_it_is_cleared() {
        let wake = Wake::new().unwrap();
        let mut waiter = Waiter::new([wake.as_fd()]);
        for wakes in [0, 1, 2] {
            (0..wakes).for_each(|_| wake.wake());
            waiter.wait(Some(Duration::ZERO));
            assert_eq!(waiter.ready(0), wakes > 0);
            wake.clear();
        }
        wake.wake();
        waiter.wait_for_first(0, Some(Duration::ZERO));
        assert!(!waiter.ready(0), "it was not asked for");
    }
}
