//! The thread that carries links.
//!
//! It never sleeps over a packet: near the time at which one is due it looks at the clock and the ports in turn, further away it sleeps
//! until then or until something arrives. Where every link delays all packets by some time anyway, it need not be woken by arrivals: the
//! kernel has noted when they came, and it is enough to look before the first of them can be due.

use crate::link::Link;
use crate::status::DirectionStatus;
use polypath_base::{Duration, Instant};
use polypath_io::{Clock, KernelTime, enter_urgent, name_thread, thread_time, wait};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// So near a due time it does not sleep: about what waking up takes.
const NEAR: Duration = Duration::from_micros(40);
/// What it wakes up earlier than it must where it sleeps over arrivals: the timer may be late.
const RESERVE: Duration = Duration::from_millis(1);
/// It sleeps over arrivals for this long at most, so that the ports' rings do not overflow (a third of what they hold at full speed).
const LONGEST_DEAF: Duration = Duration::from_millis(5);
/// Without traffic for so long it waits for arrivals.
const QUIET: Duration = Duration::from_millis(200);
/// Between two looks at whether to stop, and two reports.
const REPORT: Duration = Duration::from_millis(100);

/// What a worker and those who watch it share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    /// Processor time used, ns.
    cpu_ns: AtomicU64,
    reports: Mutex<Vec<DirectionStatus>>,
}

impl Shared {
    pub(crate) fn report(&self) -> Vec<DirectionStatus> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }
}

/// Carries the links until told to stop.
pub(crate) fn carry(mut links: Vec<Link>, clock: Clock, late_limit: Duration, shared: &Arc<Shared>) {
    name_thread("polypath-emu");
    enter_urgent();
    let mut time = KernelTime::new(clock);
    let floor = links.iter().map(Link::floor).min().unwrap_or(Duration::ZERO);
    let (mut reported, mut active) = (Instant::ZERO, Instant::ZERO);
    loop {
        let now = clock.now();
        time.refresh(now);
        let mut worked = false;
        for link in &mut links {
            worked |= link.read(&time);
            worked |= link.send(&clock);
        }
        if now.since(reported) >= REPORT {
            reported = now;
            let report = links.iter_mut().flat_map(|link| link.status(late_limit)).collect();
            shared.cpu_ns.store(thread_time().as_nanos(), Ordering::Relaxed);
            *shared.reports.lock().unwrap_or_else(PoisonError::into_inner) = report;
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
        }
        if worked {
            active = now;
            continue;
        }
        let next = links.iter().map(Link::next).min().unwrap_or(Instant::NEVER);
        idle(&links, &clock, next, floor, now.since(active) < QUIET);
    }
}

/// Passes the time until there may be something to do.
fn idle(links: &[Link], clock: &Clock, next: Instant, floor: Duration, active: bool) {
    let now = clock.now();
    let left = next.since(now).min(REPORT);
    if left <= NEAR {
        std::hint::spin_loop();
        return;
    }
    let left = left - NEAR;
    // Whatever has not been read yet came after the last look, so it is due in this time at the earliest.
    let deaf = (floor - RESERVE).min(LONGEST_DEAF).min(left);
    if active && deaf > NEAR {
        clock.sleep_until(now + deaf);
    } else {
        wait(links.iter().flat_map(Link::ports), Some(left));
    }
}
