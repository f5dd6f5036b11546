//! What a connection learns of its subflows' receivers where it samples them
//! ([`crate::stack::Stack::meta_rcv_samples`]), and how their buffers follow its own.

use super::Connection;
use polypath_wire::Segment;

/// The last RTTs of subflows' receivers (Linux: `MPTCP_RTT_SAMPLES`), microseconds; 0 before there are
/// so many.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct RttSamples {
    last: [u32; 5],
    next: usize,
}

impl RttSamples {
    /// The least of the last ones, of which this is the newest.
    pub(super) fn add(&mut self, rtt_us: u32) -> u32 {
        debug_assert!(rtt_us > 0, "there is an estimate");
        self.last[self.next] = rtt_us;
        self.next = (self.next + 1) % self.last.len();
        self.last.into_iter().filter(|&us| us > 0).min().unwrap_or(rtt_us)
    }
}

impl Connection {
    /// Data has come in its turn on subflow `i`, by `segment`.
    #[inline]
    pub(super) fn sample_receiver(&mut self, i: usize, segment: &Segment) {
        if let Some((rtt_us, scaling_ratio)) = self.subflows[i].socket.rx.takes_sample(segment) {
            self.rx.take_sample(rtt_us, scaling_ratio);
        }
    }

    /// The connection's receive buffer has grown, and so do those of its subflows.
    #[cold]
    pub(super) fn grow_subflow_buffers(&mut self) {
        let (rcvbuf, clamp) = self.rx.buffer();
        let most = self.rx.most_read();
        let by_own_share = self.settings.stack.subflow_rcvbuf_by_own_share;
        for subflow in &mut self.subflows {
            let rx = &mut subflow.socket.rx;
            if by_own_share { rx.follow_growth(most) } else { rx.set_receive_buffer(rcvbuf, clamp) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_five_samples_counts() {
        let mut samples = RttSamples::default();
        assert_eq!([30, 20, 40, 50, 60, 70].map(|us| samples.add(us)), [30, 20, 20, 20, 20, 20]);
        assert_eq!(samples.add(80), 40, "the second has been replaced");
    }
}
