//! A connection: of MPTCP the data stream that its subflows carry.

use crate::report::DataReport;
use crate::window::WindowWatch;
use polypath_base::DataSeq;
use polypath_wire::mptcp::{Mapping, Number};
use std::collections::BTreeMap;
use std::ops::Range;

/// Mappings that are remembered, at most: by them it is seen that data were sent before on another subflow.
const MAPPINGS: usize = 65_536;

/// Data of one end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    first: Option<u64>,
    pub(crate) watch: WindowWatch,
    pub(crate) reinjected_bytes: u64,
    /// First data sequence number -> the end, and the subflow.
    mappings: BTreeMap<u64, (u64, usize)>,
}

impl Data {
    /// The part of a mapping that a segment of a subflow carries. Returns how far into the stream it reaches, and the bytes that another one has
    /// carried before.
    pub(crate) fn on_mapping(&mut self, now: u64, mapping: &Mapping, part: &Range<u32>, subflow: usize, mss: u32) -> (u64, u64) {
        let start = self.expand(mapping.dsn);
        let [begin, end] = [part.start, part.end].map(|at| start.saturating_add(u64::from(at)));
        let first = *self.first.get_or_insert_with(|| {
            // All before it counts as acknowledged.
            self.watch.acked = begin;
            begin
        });
        let mut again = 0;
        let before = self.mappings.range(..begin).next_back().map(|(&begin, &value)| (begin, value));
        let overlapping = before.into_iter().chain(self.mappings.range(begin..end).map(|(&begin, &value)| (begin, value)));
        for (low, (high, other)) in overlapping {
            if other != subflow {
                again += high.min(end).saturating_sub(low.max(begin));
            }
        }
        if again == 0 {
            self.mappings.entry(begin).or_insert((end, subflow));
            if self.mappings.len() > MAPPINGS {
                self.mappings.pop_first();
            }
        }
        self.reinjected_bytes += again;
        self.watch.series.at(now).new_bytes += (end - begin) - again.min(end - begin);
        self.watch.series.at(now).reinjected_bytes += again;
        self.watch.on_data(now, end, mss);
        (end.saturating_sub(first), again)
    }

    pub(crate) fn on_ack(&mut self, now: u64, ack: Number, window: u64, mss: u32) {
        if self.first.is_some() {
            let ack = self.expand(ack);
            self.watch.on_ack(now, ack, window, mss);
        }
    }

    fn expand(&self, number: Number) -> u64 {
        number.expand(DataSeq::new(self.watch.sent.max(self.first.unwrap_or(0)))).get()
    }

    /// `start` is when the first packet of all files was seen.
    pub(crate) fn report(&self, start: u64) -> DataReport {
        let first = self.first.unwrap_or(0);
        let (sent, acked) = (self.watch.sent.saturating_sub(first), self.watch.acked.saturating_sub(first));
        // A DATA_FIN has a number of its own.
        let acked = acked.min(sent);
        DataReport {
            sent_bytes: sent,
            acked_bytes: acked,
            reinjected_bytes: self.reinjected_bytes,
            goodput_bps: self.watch.goodput(acked),
            window_limited_share: self.watch.share(),
            series: self.watch.series.report(start, first),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// None: plain TCP.
    pub(crate) version: Option<u8>,
    pub(crate) streams: Vec<usize>,
    pub(crate) data: [Data; 2],
    /// An MP_CAPABLE was seen: the first subflow is here.
    pub(crate) has_first: bool,
    pub(crate) addresses_announced: u64,
    pub(crate) join_syns: u64,
    pub(crate) fallback: bool,
    pub(crate) fast_close: bool,
}
