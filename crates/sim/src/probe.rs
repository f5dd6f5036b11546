//! The series: a row a sample and subflow.

use crate::outcome::SubflowSeries;
use polypath_base::Instant;
use polypath_transport::Connection;

impl SubflowSeries {
    /// Appends the rows of one flow: the sender's state, and the bytes that its peer received.
    pub(crate) fn sample(&mut self, now: Instant, flow: u32, client: &Connection, server: &Connection) {
        for index in 0..client.subflow_count() {
            let probe = client.subflow(index);
            if probe.established_at.is_none() {
                continue;
            }
            // The server may have met the paths in another order.
            let path = client.path_of(index);
            let there = (0..server.subflow_count()).find(|&i| server.path_of(i) == path);
            let received = there.map_or(0, |i| server.subflow(i).counters.bytes_received);
            self.time_ns.push(now.as_nanos());
            self.flow.push(flow);
            self.subflow.push(index as u32);
            self.cwnd.push(probe.cwnd);
            self.ssthresh.push(probe.ssthresh);
            self.srtt_us.push(probe.srtt_us);
            self.rttvar_us.push(probe.rttvar_us);
            self.min_rtt_us.push(probe.min_rtt_us);
            self.in_flight.push(probe.in_flight);
            self.bytes_acked.push(probe.counters.bytes_acked);
            self.bytes_received.push(received);
            // 32 bits as in the kernel's own counters: no run sends that many segments again.
            self.retransmissions.push(probe.counters.retransmissions as u32);
            self.timeouts.push(probe.counters.timeouts as u32);
            self.pacing_rate.push(probe.pacing_rate);
            self.delivery_rate.push(probe.delivery_rate);
            self.rto_us.push(probe.rto_us);
            self.reordering.push(probe.reordering);
            self.mss.push(probe.mss);
            self.ca_state.push(probe.ca_state);
        }
    }
}
