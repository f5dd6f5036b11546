//! How the scheduler treats a thread.

use crate::{Failed, check};
use polypath_base::Duration;

/// How many processors this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Fills this with random numbers of the kernel, which waits until it has some. Without opening a
/// file: who has given up files still gets them.
pub fn random(into: &mut [u8]) -> Result<(), Failed> {
    for part in into.chunks_mut(256) {
        // SAFETY: the buffer has the length given and outlives the call; up to 256 bytes always
        // come whole (getrandom(2)).
        let got = unsafe { libc::getrandom(part.as_mut_ptr().cast(), part.len(), 0) };
        check(got as libc::c_int, || "asking for random numbers".into())?;
    }
    Ok(())
}

/// A name of at most 15 bytes for `ps` and `top`.
pub fn name_thread(name: &str) {
    let mut bytes = [0_u8; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: the name ends in zero and outlives the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) };
}

/// Timers of the calling thread end when they are due instead of 50 us later, and it runs before
/// all ordinary threads. That takes a right that root has; without it the thread is merely later. A
/// real-time class and not a nice value: where the scheduler groups processes by session
/// (autogroup), a nice value counts only among those of one session. The kernel leaves ordinary
/// threads a twentieth of each processor's time whatever this one does.
pub fn enter_urgent() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: `lowest` outlives the call; the calling thread's own settings only. 1 ns is the least
    // slack: 0 means the default.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const lowest);
    }
}

/// Processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The calling process is told to end (SIGTERM) when the thread that started it has ended.
pub fn bind_to_parent() -> Result<(), Failed> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) }, || "asking for a signal at the parent's end".into()).map(drop)
}
