//! The series: a row a sample and subflow.

use crate::outcome::{SubflowRow, SubflowSeries};
use crate::routes::PathsOf;
use polypath_base::{Bytes, Duration, Instant};
use polypath_transport::Connection;
use polypath_transport::tcp::Probe;

/// Whole microseconds, as Linux's tcp_info has times; they come from 32 bits.
pub(crate) fn micros(time: Duration) -> u32 {
    time.as_micros() as u32
}

/// The receiver's end of a subflow of the sender, if it has one. It may have met the paths in
/// another order.
pub(crate) fn at_receiver(sender: &Connection, index: usize, receiver: &Connection, paths: PathsOf<'_>) -> Option<Probe> {
    let path = paths.peer_path(sender.path_of(index))?;
    (0..receiver.subflow_count()).find(|&i| receiver.path_of(i) == path).map(|i| receiver.subflow(i))
}

impl SubflowSeries {
    /// Appends the rows of one flow: the sender's state, and the bytes that its peer received.
    pub(crate) fn sample(&mut self, now: Instant, flow: u32, sender: &Connection, receiver: &Connection, paths: PathsOf<'_>) {
        for index in 0..sender.subflow_count() {
            let probe = sender.subflow(index);
            if probe.established_at.is_none() {
                continue;
            }
            let bytes_received = at_receiver(sender, index, receiver, paths).map_or(Bytes::ZERO, |there| there.bytes_received).get();
            self.push(SubflowRow {
                time_ns: now.as_nanos(),
                flow,
                subflow: index as u32,
                cwnd: probe.cwnd.get(),
                ssthresh: probe.ssthresh.get(),
                srtt_us: micros(probe.srtt),
                rttvar_us: micros(probe.rttvar),
                min_rtt_us: micros(probe.min_rtt),
                in_flight: probe.in_flight.get(),
                bytes_acked: probe.counters.bytes_acked,
                bytes_received,
                // 32 bits as in the kernel's own counters: no run sends that many segments again.
                retransmissions: probe.counters.retransmissions as u32,
                timeouts: probe.counters.timeouts as u32,
                pacing_rate: probe.pacing_rate.as_bytes_per_sec(),
                delivery_rate: probe.delivery_rate.as_bytes_per_sec(),
                rto_us: micros(probe.rto),
                reordering: probe.reordering.get(),
                mss: probe.mss.as_u32(),
                ca_state: probe.ca_state as u8,
            });
        }
    }
}
