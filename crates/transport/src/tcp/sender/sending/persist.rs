//! Probes of a closed window (RFC 9293 section 3.8.6.1; Linux: `tcp_probe_timer`).

use polypath_base::Duration;

/// Probes after which the interval doubles no more: the longest is 256 timeouts.
const MOST_DOUBLINGS: u32 = 8;

#[derive(Debug, Default)]
pub(in crate::tcp) struct Persist {
    due: bool,
    probes: u32,
}

impl Persist {
    /// The window has closed anew.
    pub(in crate::tcp) fn begin(&mut self) {
        *self = Self::default();
    }

    /// The timer came up: a probe is due.
    pub(in crate::tcp) fn on_timeout(&mut self) {
        self.due = true;
        self.probes += 1;
    }

    /// A probe is due.
    #[inline]
    pub(in crate::tcp) fn is_due(&self) -> bool {
        self.due
    }

    /// As [`Persist::is_due`]; the probe leaves.
    pub(in crate::tcp) fn take(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// Until the next probe.
    pub(in crate::tcp) fn interval(&self, rto: Duration) -> Duration {
        rto * (1 << self.probes.min(MOST_DOUBLINGS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_doubles_up_to_256_timeouts() {
        let (mut persist, rto) = (Persist::default(), Duration::from_millis(200));
        let intervals: Vec<u64> = (0..11)
            .map(|_| {
                let interval = persist.interval(rto);
                persist.on_timeout();
                interval.as_millis() / 200
            })
            .collect();
        assert_eq!(intervals, [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256]);
    }

    #[test]
    fn one_probe_leaves_for_each_timeout() {
        let mut persist = Persist::default();
        assert!(!persist.take());
        persist.on_timeout();
        assert!(persist.is_due() && persist.take() && !persist.take());
    }
}
