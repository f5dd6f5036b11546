//! One segment size for a connection over subflows whose own sizes differ, as MPTCP 0.96 chooses it
//! (`mptcp_current_mss`).
//!
//! Source: Manoratne 2025, section 10.6: each subflow's size is a candidate, and the one with which
//! all of them together would be fastest is taken.

use polypath_base::{Bytes, Segments, SmoothedRtt};

/// A subflow that can send.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Candidate {
    pub(super) mss: Bytes,
    /// The larger of its window and what is in the network.
    pub(super) window: Segments,
    pub(super) srtt: SmoothedRtt,
}

impl Candidate {
    /// Bit/s of this subflow if data came in segments of `mss`: of what it sends for each, only
    /// `mss` is data, and it sends whole segments of its own.
    ///
    /// Below 2^63: segments have less than 2^16 bytes, windows less than 2^24 segments; the product
    /// is taken in 128 bits.
    fn rate(self, mss: Bytes) -> u128 {
        let own = self.mss.get().max(1);
        let sent = mss.get().div_ceil(own) * own;
        let srtt_us = u128::from(self.srtt.as_micros().max(1));
        u128::from(mss.get()).pow(2) * 8_000_000 * u128::from(self.window.get()) / (srtt_us * u128::from(sent.max(1)))
    }
}

/// The candidate with the largest sum of rates; of equal ones the first. None without subflows.
pub(super) fn connection_mss(subflows: &[Candidate]) -> Option<Bytes> {
    let sum = |mss: Bytes| subflows.iter().map(|subflow| subflow.rate(mss)).sum::<u128>();
    // `max_by_key` takes the last of equals.
    subflows.iter().rev().map(|subflow| subflow.mss).max_by_key(|&mss| sum(mss))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subflow(mss: u64) -> Candidate {
        Candidate { mss: Bytes::new(mss), window: Segments::new(20), srtt: SmoothedRtt::from_millis(50) }
    }

    #[test]
    fn the_worked_example_has_the_right_sums() {
        // Manoratne 2025 gives 28.67 + 28.05 = 56.72 Mbit/s for the first candidate. Its formula
        // gives 28.67 + 25.14 = 53.81, since 8960 bytes take seven segments of 1460, 10220 bytes.
        // Its second sum, 0.76 + 4.67 = 5.43, is right, and so is the choice.
        let subflows = [subflow(8960), subflow(1460)];
        let kbit = |mss: u64| subflows.map(|subflow| subflow.rate(Bytes::new(mss)) / 1000);
        assert_eq!((kbit(8960), kbit(1460)), ([28_672, 25_137], [761, 4672]));
        assert_eq!(connection_mss(&subflows), Some(Bytes::new(8960)));
    }

    #[test]
    fn equal_subflows_keep_their_size_and_without_any_there_is_none() {
        assert_eq!(connection_mss(&[subflow(1428), subflow(1428)]), Some(Bytes::new(1428)));
        assert_eq!(connection_mss(&[]), None);
    }

    #[test]
    fn even_a_slow_subflow_decides_by_its_larger_segments() {
        let slow = Candidate { window: Segments::new(1), srtt: SmoothedRtt::from_millis(1000), ..subflow(1500) };
        let fast = Candidate { srtt: SmoothedRtt::from_millis(1), ..subflow(1000) };
        let kbit = |mss: u64| [slow, fast].map(|subflow| subflow.rate(Bytes::new(mss)) / 1000);
        // The formula counts the window in segments of the candidate's size, so the fast subflow
        // seems to gain by sending two for each 1500 bytes.
        assert_eq!((kbit(1500), kbit(1000)), ([12, 180_000], [5, 160_000]));
        assert_eq!(connection_mss(&[slow, fast]), Some(Bytes::new(1500)));
    }
}
