//! The thread that carries links.
//!
//! It never sleeps over a packet: near the time at which one is due it polls the clock and the
//! ports in turn, further away it sleeps until then or until something arrives. Where every link
//! delays all packets by some time anyway, it need not be woken by arrivals: the kernel has noted
//! when they came, and it is enough to poll before the first of them can be due.

use crate::link::Link;
use crate::status::{DirectionStatus, Series};
use polypath_base::{Duration, Instant};
use polypath_io::{Clock, KernelTime, enter_urgent, name_thread, thread_time, wait};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// So near a due time it does not sleep: about what waking up takes.
const NEAR: Duration = Duration::from_micros(40);
/// What it wakes up earlier than it must where it sleeps over arrivals: the timer may be late.
const RESERVE: Duration = Duration::from_millis(1);
/// It sleeps over arrivals for this long at most, so that the ports' rings do not overflow (a third
/// of what they hold at full speed).
const LONGEST_DEAF: Duration = Duration::from_millis(5);
/// If packets come closer together than this, it does not sleep when it has read them all: waking
/// it up would cost the sender as much as the packet itself does.
const DENSE: Duration = Duration::from_micros(25);
/// So long after the last of them it does.
const DENSE_PAUSE: Duration = Duration::from_micros(100);
/// Without traffic for so long it waits for arrivals.
const QUIET: Duration = Duration::from_millis(200);
/// Between two polls of whether to stop, and two reports.
const REPORT: Duration = Duration::from_millis(100);

/// What a worker and those who watch it share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    /// Processor time used, ns.
    cpu_ns: AtomicU64,
    reports: Mutex<Vec<DirectionStatus>>,
    /// Of the links' queues, once it has stopped.
    series: Mutex<Vec<Series>>,
}

impl Shared {
    pub(crate) fn report(&self) -> Vec<DirectionStatus> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports on the links as they are.
    pub(crate) fn note(&self, links: &mut [Link], late_limit: Duration) {
        let report = links.iter_mut().flat_map(|link| link.status(late_limit)).collect();
        *self.reports.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// What the queues were like, once the links have been closed.
    pub(crate) fn series(&self) -> Vec<Series> {
        std::mem::take(&mut *self.series.lock().unwrap_or_else(PoisonError::into_inner))
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
    let (mut reported, mut traffic) = (Instant::ZERO, Traffic::default());
    loop {
        let now = clock.now();
        time.refresh(now);
        let (mut read, mut sent) = (0, false);
        for link in &mut links {
            read += link.read(&time);
            sent |= link.send(&clock);
        }
        traffic.note(now, read);
        if now.since(reported) >= REPORT {
            reported = now;
            shared.cpu_ns.store(thread_time().as_nanos(), Ordering::Relaxed);
            shared.note(&mut links, late_limit);
            if shared.stop.load(Ordering::Relaxed) {
                *shared.series.lock().unwrap_or_else(PoisonError::into_inner) =
                    links.iter_mut().flat_map(|link| link.series(now)).collect();
                return close(links);
            }
        }
        if read == 0 && !sent {
            let next = links.iter().map(Link::next).min().unwrap_or(Instant::NEVER);
            idle(&links, &clock, next, floor, &traffic);
        }
    }
}

/// Closes the ports of all links at once: the kernel takes its time over each.
fn close(links: Vec<Link>) {
    std::thread::scope(|scope| links.into_iter().for_each(|link| drop(scope.spawn(move || drop(link)))));
}

/// How much has been coming lately.
#[derive(Debug, Default)]
struct Traffic {
    last: Instant,
    /// Between two packets, smoothed.
    gap: Duration,
}

impl Traffic {
    #[inline]
    fn note(&mut self, now: Instant, packets: u32) {
        if packets > 0 {
            let gap = (now.since(self.last).as_nanos() / u64::from(packets)).min(QUIET.as_nanos());
            self.gap = Duration::from_nanos((self.gap.as_nanos() * 15 + gap) / 16);
            self.last = now;
        }
    }
}

/// Passes the time until there may be something to do.
fn idle(links: &[Link], clock: &Clock, next: Instant, floor: Duration, traffic: &Traffic) {
    let now = clock.now();
    let (left, quiet) = (next.since(now).min(REPORT), now.since(traffic.last));
    if left <= NEAR {
        std::hint::spin_loop();
        return;
    }
    let left = left - NEAR;
    // Whatever has not been read yet came after the last poll, so it is due in this time at the
    // earliest.
    let deaf = (floor - RESERVE).min(LONGEST_DEAF).min(left);
    if quiet < QUIET && deaf > NEAR {
        clock.sleep_until(now + deaf);
    } else if quiet < DENSE_PAUSE && traffic.gap < DENSE {
        std::hint::spin_loop();
    } else {
        wait(links.iter().flat_map(Link::ports), Some(left));
    }
}
