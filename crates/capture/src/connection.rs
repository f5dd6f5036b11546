//! A connection: of MPTCP the data stream that its subflows carry.

use crate::ranges::Ranges;
use crate::report::DataReport;
use crate::window::WindowWatch;
use polypath_base::DataSeq;
use polypath_wire::mptcp::Number;
use std::ops::Range;

/// Ranges of data that are remembered, at most: by them it is seen that data were sent before on
/// another subflow.
const REMEMBERED: usize = 65_536;

/// A part of the data that a subflow sends.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Placed {
    /// Where it ends, bytes from the first.
    pub(crate) dsn: u64,
    /// Bytes of it that another subflow had sent before, and that this one had, with other sequence
    /// numbers of its own.
    pub(crate) reinjected: u64,
    pub(crate) retransmitted: u64,
}

/// Data of one end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    first: Option<u64>,
    /// The first data sequence number by the key, where that is known (RFC 8684 section 3.1).
    pub(crate) initial: Option<u64>,
    /// Numbers count from a first one of 32 bits, whose upper half is not known.
    is_short: bool,
    pub(crate) watch: WindowWatch,
    pub(crate) reinjected_bytes: u64,
    pub(crate) mptcp_retransmitted_bytes: u64,
    /// When the first and the last of these were sent.
    pub(crate) mptcp_retransmitted: Option<(u64, u64)>,
    /// The subflow that sent them first.
    senders: Ranges<usize>,
}

impl Data {
    /// Bytes of the data that a subflow sends. What TCP sends again, with the same sequence
    /// numbers, is not told.
    pub(crate) fn on_sent(&mut self, now: u64, sent: Range<u64>, subflow: usize, mss: u32) -> Placed {
        let Range { start: begin, end } = sent;
        let first = *self.first.get_or_insert_with(|| {
            // All before it counts as acknowledged.
            self.watch.acked = begin;
            begin
        });
        let (mut new, mut reinjected, mut retransmitted) = (0, 0, 0);
        self.senders.each(sent.clone(), |part, sender| {
            *match sender {
                None => &mut new,
                Some(sender) if sender == subflow => &mut retransmitted,
                Some(_) => &mut reinjected,
            } += part.end - part.start;
        });
        self.senders.add(sent, subflow, REMEMBERED);
        self.reinjected_bytes += reinjected;
        self.mptcp_retransmitted_bytes += retransmitted;
        if retransmitted > 0 {
            self.mptcp_retransmitted = Some((self.mptcp_retransmitted.map_or(now, |(since, _)| since), now));
        }
        let bin = self.watch.series.at(now);
        bin.new_bytes += new;
        bin.reinjected_bytes += reinjected;
        self.watch.on_data(now, end, mss);
        Placed { dsn: end.saturating_sub(first), reinjected, retransmitted }
    }

    pub(crate) fn on_ack(&mut self, now: u64, ack: Number, window: Option<u64>, mss: u32) {
        if self.first.is_some() {
            let ack = self.expand(ack);
            self.watch.on_ack(now, ack, window, mss);
        }
    }

    /// The data sequence number of a mapping.
    pub(crate) fn dsn(&mut self, number: Number) -> u64 {
        self.is_short |= self.first.is_none() && self.initial.is_none() && matches!(number, Number::Short(_));
        self.expand(number)
    }

    fn expand(&self, number: Number) -> u64 {
        /// Above it a first number of 32 bits has room on both sides.
        const MIDDLE: u64 = 1 << 32;
        let near = self.watch.sent.max(self.first.or(self.initial).unwrap_or(MIDDLE));
        match number {
            Number::Long(number) if self.is_short => Number::Short(number as u32),
            _ => number,
        }
        .expand(DataSeq::new(near))
        .get()
    }

    /// `start` is when the first packet of all files was seen; `is_alone` says that they show
    /// nothing of the other end.
    pub(crate) fn report(&self, start: u64, is_alone: bool) -> DataReport {
        let first = self.first.unwrap_or(0);
        let (sent, acked) = (self.watch.sent.saturating_sub(first), self.watch.acked.saturating_sub(first));
        // A DATA_FIN has a number of its own.
        let acked = acked.min(sent);
        DataReport {
            sent_bytes: sent,
            acked_bytes: acked,
            reinjected_bytes: self.reinjected_bytes,
            mptcp_retransmitted_bytes: self.mptcp_retransmitted_bytes,
            lasted_s: self.watch.lasted() as f64 / 1e9,
            goodput_bps: self.watch.goodput(if is_alone { sent } else { acked }),
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
    /// The end that sent an MP_FASTCLOSE first, and when.
    pub(crate) fast_close: Option<(usize, u64)>,
}
