//! The series: a row a sample and subflow.

use crate::outcome::{SubflowRow, SubflowSeries};
use crate::routes::PathsOf;
use polypath_base::Instant;
use polypath_transport::Connection;
use polypath_transport::tcp::Probe;

/// The server's end of a subflow of the client, if it has one. It may have met the paths in another order.
pub(crate) fn at_server(client: &Connection, index: usize, server: &Connection, paths: PathsOf<'_>) -> Option<Probe> {
    let path = paths.peer_path(client.path_of(index))?;
    (0..server.subflow_count()).find(|&i| server.path_of(i) == path).map(|i| server.subflow(i))
}

impl SubflowSeries {
    /// Appends the rows of one flow: the sender's state, and the bytes that its peer received.
    pub(crate) fn sample(&mut self, now: Instant, flow: u32, client: &Connection, server: &Connection, paths: PathsOf<'_>) {
        for index in 0..client.subflow_count() {
            let probe = client.subflow(index);
            if probe.established_at.is_none() {
                continue;
            }
            let bytes_received = at_server(client, index, server, paths).map_or(0, |there| there.bytes_received);
            self.push(SubflowRow {
                time_ns: now.as_nanos(),
                flow,
                subflow: index as u32,
                cwnd: probe.cwnd,
                ssthresh: probe.ssthresh,
                srtt_us: probe.srtt_us,
                rttvar_us: probe.rttvar_us,
                min_rtt_us: probe.min_rtt_us,
                in_flight: probe.in_flight,
                bytes_acked: probe.counters.bytes_acked,
                bytes_received,
                // 32 bits as in the kernel's own counters: no run sends that many segments again.
                retransmissions: probe.counters.retransmissions as u32,
                timeouts: probe.counters.timeouts as u32,
                pacing_rate: probe.pacing_rate,
                delivery_rate: probe.delivery_rate,
                rto_us: probe.rto_us,
                reordering: probe.reordering,
                mss: probe.mss,
                ca_state: probe.ca_state,
            });
        }
    }
}
