//! When the receive window had no room, and how a stream went on.

use crate::series::Series;

/// Time in which the window had no room for a segment, of a stream of bytes that is counted in 64
/// bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowWatch {
    /// Next byte to be sent, next byte to be acknowledged, first byte beyond the window.
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) edge: u64,
    /// The scale of a window was not seen.
    pub(crate) is_scale_unknown: bool,
    since: Option<u64>,
    limited: u64,
    first: Option<u64>,
    /// When the last packet with data was seen.
    pub(crate) last: u64,
    pub(crate) series: Series,
}

impl WindowWatch {
    pub(crate) fn on_data(&mut self, now: u64, end: u64, mss: u32) {
        self.sent = self.sent.max(end);
        self.first.get_or_insert(now);
        self.last = now;
        self.look(now, mss);
        let (sent, in_flight) = (self.sent, self.sent.saturating_sub(self.acked));
        let bin = self.series.at(now);
        (bin.sent, bin.in_flight) = (sent, bin.in_flight.max(in_flight));
    }

    pub(crate) fn on_ack(&mut self, now: u64, ack: u64, window: Option<u64>, mss: u32) {
        // Until now it was under way, also in a span of time in which nothing is sent.
        let in_flight = self.sent.saturating_sub(self.acked);
        self.acked = self.acked.max(ack);
        self.is_scale_unknown |= window.is_none();
        self.edge = self.edge.max(window.map_or(0, |window| ack.saturating_add(window)));
        self.look(now, mss);
        let acked = self.acked;
        let bin = self.series.at(now);
        bin.in_flight = bin.in_flight.max(in_flight);
        (bin.acked, bin.delivered) = (acked, acked);
        if let Some(window) = window {
            bin.window = Some(bin.window.map_or(window, |least| least.min(window)));
        }
    }

    fn look(&mut self, now: u64, mss: u32) {
        // All may be acknowledged and the window closed (RFC 9293 section 3.8.6.1).
        let has_more = self.sent > self.acked || self.sent >= self.edge;
        let is_limited = self.edge > 0 && has_more && self.sent.saturating_add(u64::from(mss)) > self.edge;
        match (is_limited, self.since) {
            (true, None) => self.since = Some(now),
            (false, Some(since)) => {
                self.limited = self.limited.saturating_add(now.saturating_sub(since));
                self.since = None;
            }
            _ => {}
        }
    }

    /// From the first to the last packet with data, ns.
    pub(crate) fn lasted(&self) -> u64 {
        self.last.saturating_sub(self.first.unwrap_or(self.last))
    }

    /// None: data were sent, and what windows they had is not known.
    pub(crate) fn share(&self) -> Option<f64> {
        if self.first.is_some() && (self.is_scale_unknown || self.edge == 0) {
            return None;
        }
        let open = self.since.map_or(0, |since| self.last.saturating_sub(since));
        Some(if self.lasted() == 0 { 0.0 } else { (self.limited.saturating_add(open) as f64 / self.lasted() as f64).min(1.0) })
    }

    pub(crate) fn goodput(&self, bytes: u64) -> f64 {
        if self.lasted() == 0 { 0.0 } else { bytes as f64 * 8e9 / self.lasted() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_stays_so_while_only_acknowledgements_come() {
        const MS: u64 = 1_000_000;
        let mut watch = WindowWatch::default();
        watch.on_data(0, 5000, 1000);
        for (ms, ack) in [(10, 0), (20, 0), (30, 4000), (40, 4000)] {
            watch.on_ack(ms * MS, ack, Some(9000), 1000);
        }
        assert_eq!(watch.series.report(0, 0).in_flight_bytes, [5000, 5000, 5000, 5000, 1000]);
    }
}
