//! What happened over time, in a bounded number of bins.
//!
//! Bins begin with the stream and are 1 ms long at first. When a stream lasts longer than [`BINS`]
//! of them, two neighbours become one and bins are twice as long, as often as that takes: a stream
//! has at most 512 bins, and one that lasts has at least 256. Bins in which nothing happened take
//! no memory.

use serde::Serialize;

const BINS: u64 = 512;
const FINEST_NS: u64 = 1_000_000;

/// What happened in a span of time. Sums, except where something else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin {
    /// It begins so many widths after the stream.
    at: u64,
    pub(crate) new_bytes: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) reinjected_bytes: u64,
    /// Next byte to be sent and to be acknowledged, at the bin's end.
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    /// Bytes that have reached the other end, at the bin's end.
    pub(crate) delivered: u64,
    /// The most that was sent and not acknowledged.
    pub(crate) in_flight: u64,
    /// The smallest window that the other end offered.
    pub(crate) window: Option<u64>,
    /// The end of the data furthest in the connection's stream, where a subflow got further than
    /// before, and of those that another subflow had carried before.
    pub(crate) dsn: Option<u64>,
    pub(crate) reinjected_dsn: Option<u64>,
    /// And of those that the subflow itself had carried before.
    pub(crate) mptcp_retransmitted_dsn: Option<u64>,
    pub(crate) rtt_ns: u64,
    pub(crate) rtts: u64,
}

impl Bin {
    fn merge(&mut self, later: &Self) {
        self.new_bytes += later.new_bytes;
        self.retransmitted_bytes += later.retransmitted_bytes;
        self.reinjected_bytes += later.reinjected_bytes;
        (self.sent, self.acked, self.delivered) = (later.sent, later.acked, later.delivered);
        self.in_flight = self.in_flight.max(later.in_flight);
        self.window = match (self.window, later.window) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.dsn = self.dsn.max(later.dsn);
        self.reinjected_dsn = self.reinjected_dsn.max(later.reinjected_dsn);
        self.mptcp_retransmitted_dsn = self.mptcp_retransmitted_dsn.max(later.mptcp_retransmitted_dsn);
        self.rtt_ns = self.rtt_ns.saturating_add(later.rtt_ns);
        self.rtts += later.rtts;
    }
}

/// The bins of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// When the first bin begins.
    origin: u64,
    width: u64,
    /// When the last bin ends; before that, whatever happens belongs to it.
    until: u64,
    bins: Vec<Bin>,
}

impl Default for Series {
    fn default() -> Self {
        Self { origin: 0, width: FINEST_NS, until: 0, bins: Vec::new() }
    }
}

impl Series {
    /// The bin of this time. Clocks that go back do not make the past anew: that belongs to the
    /// last bin.
    #[inline]
    pub(crate) fn at(&mut self, now: u64) -> &mut Bin {
        if now >= self.until || self.bins.is_empty() {
            self.begin(now);
        }
        let last = self.bins.len() - 1;
        &mut self.bins[last]
    }

    fn begin(&mut self, now: u64) {
        if self.bins.is_empty() {
            self.origin = now;
        }
        let since = now - self.origin;
        while since / self.width >= BINS {
            self.halve();
        }
        let at = since / self.width;
        if self.bins.last().is_none_or(|last| last.at < at) {
            // What lasts is as it was.
            let (sent, acked, delivered) = self.bins.last().map_or((0, 0, 0), |last| (last.sent, last.acked, last.delivered));
            self.bins.push(Bin { at, sent, acked, delivered, ..Bin::default() });
        }
        self.until = self.origin.saturating_add((at + 1).saturating_mul(self.width));
    }

    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.bins.iter_mut().for_each(|bin| bin.at /= 2);
        self.bins.dedup_by(|later, bin| {
            let is_same = later.at == bin.at;
            if is_same {
                bin.merge(later);
            }
            is_same
        });
    }

    /// With times since `first` and counting bytes from `base`.
    pub(crate) fn report(&self, first: u64, base: u64) -> SeriesReport {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut made = SeriesReport { bin_s: seconds(self.width), ..SeriesReport::default() };
        for bin in &self.bins {
            made.time_s.push(seconds((self.origin + bin.at * self.width).saturating_sub(first)));
            made.new_bytes.push(bin.new_bytes);
            made.retransmitted_bytes.push(bin.retransmitted_bytes);
            made.reinjected_bytes.push(bin.reinjected_bytes);
            made.sent_bytes.push(bin.sent.saturating_sub(base));
            made.acked_bytes.push(bin.acked.saturating_sub(base));
            made.delivered_bytes.push(bin.delivered.saturating_sub(base));
            made.in_flight_bytes.push(bin.in_flight);
            made.window_bytes.push(bin.window);
            made.dsn.push(bin.dsn);
            made.reinjected_dsn.push(bin.reinjected_dsn);
            made.mptcp_retransmitted_dsn.push(bin.mptcp_retransmitted_dsn);
            made.rtt_ms.push((bin.rtts > 0).then(|| bin.rtt_ns as f64 / bin.rtts as f64 / 1e6));
        }
        made
    }
}

/// Columns of the bins in which something happened, in the order of their times; at most 512.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SeriesReport {
    /// How long a bin is, s.
    pub bin_s: f64,
    /// When it begins, since the first packet of all files, s.
    pub time_s: Vec<f64>,
    /// Payload sent in it for the first time, bytes.
    pub new_bytes: Vec<u64>,
    /// Payload sent in it that the same subflow had sent before, bytes; of MPTCP's data 0.
    pub retransmitted_bytes: Vec<u64>,
    /// Payload sent in it that another subflow had carried before, bytes.
    pub reinjected_bytes: Vec<u64>,
    /// Bytes of the stream that were sent up to its end.
    pub sent_bytes: Vec<u64>,
    /// Bytes of the stream that were acknowledged up to its end.
    pub acked_bytes: Vec<u64>,
    /// Bytes of the stream that had reached the other end by its end, as that end told:
    /// acknowledged, or behind a hole (SACK, RFC 2018).
    pub delivered_bytes: Vec<u64>,
    /// The most that was sent and not yet acknowledged in it, bytes.
    pub in_flight_bytes: Vec<u64>,
    /// The smallest window that the other end offered in it, bytes; none: no ACK came.
    pub window_bytes: Vec<Option<u64>>,
    /// Of a subflow: how far in the connection's data what it carried reached, bytes from the
    /// first, where that is further than before.
    pub dsn: Vec<Option<u64>>,
    /// Of a subflow: how far the data reached that another subflow had carried before, as `dsn`.
    pub reinjected_dsn: Vec<Option<u64>>,
    /// Of a subflow: how far the data reached that MPTCP sent again on it with new sequence
    /// numbers, as `dsn`.
    pub mptcp_retransmitted_dsn: Vec<Option<u64>>,
    /// Mean of the round-trip times measured in it, ms; none: none was.
    pub rtt_ms: Vec<Option<f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_short_stream_has_a_bin_for_each_millisecond_in_which_something_happened() {
        let mut series = Series::default();
        for (ms, bytes) in [(5, 10), (5, 20), (7, 40)] {
            series.at(ms * MS + 3).new_bytes += bytes;
        }
        let report = series.report(2 * MS + 3, 0);
        assert_eq!((report.bin_s, report.time_s, report.new_bytes), (0.001, vec![0.003, 0.005], vec![30, 40]));
    }

    #[test]
    fn a_long_stream_has_a_bounded_number_of_bins_that_hold_all() {
        let mut series = Series::default();
        for ms in 0..1_000_000 {
            let bin = series.at(ms * MS);
            (bin.new_bytes, bin.sent, bin.in_flight, bin.window) = (bin.new_bytes + 1, ms + 1, bin.in_flight.max(ms % 7), Some(ms));
            (bin.rtt_ns, bin.rtts) = (bin.rtt_ns + 2 * MS, bin.rtts + 1);
        }
        let report = series.report(0, 1);
        assert!((256..=512).contains(&report.time_s.len()) && report.bin_s == 2.048, "{} bins of {} s", report.time_s.len(), report.bin_s);
        assert_eq!((report.new_bytes.iter().sum::<u64>(), *report.sent_bytes.last().unwrap()), (1_000_000, 999_999));
        assert!(report.in_flight_bytes.iter().all(|&most| most == 6) && report.rtt_ms.iter().all(|&mean| mean == Some(2.0)));
        assert!(report.time_s.is_sorted() && report.sent_bytes.is_sorted());
    }

    #[test]
    fn clocks_may_do_anything() {
        let mut series = Series::default();
        for now in [7, u64::MAX, 0, u64::MAX - 1, 9 * MS] {
            series.at(now).new_bytes += 1;
        }
        let report = series.report(u64::MAX, 0);
        assert_eq!(report.new_bytes, [1, 4]);
        assert!(report.time_s.iter().all(|time| time.is_finite()));
    }
}
