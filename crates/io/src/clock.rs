//! The clock of real time as instants since a run's start.

use polypath_base::{Duration, Instant};

/// Instants since an origin on one of the kernel's clocks, CLOCK_MONOTONIC unless another one is
/// asked for.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    origin_ns: u64,
    kernels: libc::clockid_t,
}

impl Clock {
    /// The origin is now.
    pub fn start() -> Self {
        Self::starting_at(read(libc::CLOCK_MONOTONIC))
    }

    /// The origin is now, and the time in which the machine is suspended counts (CLOCK_BOOTTIME).
    pub fn start_with_suspend() -> Self {
        Self { origin_ns: read(libc::CLOCK_BOOTTIME), kernels: libc::CLOCK_BOOTTIME }
    }

    /// The origin is at this time on CLOCK_MONOTONIC, ns. Until then it is always now.
    pub fn starting_at(origin_ns: u64) -> Self {
        Self { origin_ns, kernels: libc::CLOCK_MONOTONIC }
    }

    /// The origin on the kernel's clock, ns.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    #[inline]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(read(self.kernels).saturating_sub(self.origin_ns))
    }

    /// Sleeps until `at`. With the thread's timer slack, which [`crate::enter_urgent`] makes small.
    pub fn sleep_until(&self, at: Instant) {
        let time = timespec(self.origin_ns.saturating_add(at.as_nanos()));
        // SAFETY: `time` outlives the call, and no remainder is asked for.
        while unsafe { libc::clock_nanosleep(self.kernels, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut()) } == libc::EINTR {}
    }
}

/// Makes instants of the kernel's time stamps on packets, which are of CLOCK_REALTIME: the two
/// clocks' distance changes when somebody sets the time or an NTP client slews it, so it is
/// measured again and again.
#[derive(Clone, Debug)]
pub struct KernelTime {
    clock: Clock,
    /// CLOCK_REALTIME at the clock's origin, ns.
    real_origin_ns: u64,
    measured: Instant,
}

impl KernelTime {
    /// Slewing changes the distance by at most 500 ppm (ntp_adjtime), 5 us in this time.
    const KEPT: Duration = Duration::from_millis(10);

    pub fn new(clock: Clock) -> Self {
        let mut time = Self { clock, real_origin_ns: 0, measured: Instant::ZERO };
        time.measure();
        time
    }

    /// Measures the distance of the clocks if it has not been measured for a while.
    #[inline]
    pub fn refresh(&mut self, now: Instant) {
        if now.since(self.measured) >= Self::KEPT {
            self.measure();
        }
    }

    /// The instant of a time stamp.
    #[inline]
    pub fn instant(&self, real_ns: u64) -> Instant {
        Instant::from_nanos(real_ns.saturating_sub(self.real_origin_ns))
    }

    fn measure(&mut self) {
        // Between two readings of one clock the other is read; of some tries the shortest, which
        // nothing interrupted, counts.
        let (mut best, mut found) = (u64::MAX, (0, 0));
        for _ in 0..3 {
            let before = read(self.clock.kernels);
            let real = read(libc::CLOCK_REALTIME);
            let after = read(self.clock.kernels);
            if after - before < best {
                best = after - before;
                found = (real, before + best / 2);
            }
        }
        let (real, own) = found;
        self.real_origin_ns = (real + self.clock.origin_ns).saturating_sub(own);
        self.measured = self.clock.now();
    }
}

/// The time of day: nanoseconds since 1970. Somebody may set it.
pub fn time_of_day_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stamp_of_now_is_now() {
        [Clock::start(), Clock::start_with_suspend()].into_iter().for_each(stamped_now);
    }

    fn stamped_now(clock: Clock) {
        let mut time = KernelTime::new(clock);
        time.refresh(Instant::ZERO + Duration::from_secs(1));
        let before = clock.now();
        let stamped = time.instant(read(libc::CLOCK_REALTIME));
        // A busy machine may keep us for a while between the two, but never lets time run
        // backwards.
        assert!(stamped + Duration::from_millis(1) >= before && stamped <= clock.now() + Duration::from_millis(1));
    }
}
