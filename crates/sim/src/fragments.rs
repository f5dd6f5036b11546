//! Putting split packets together again.

use polypath_base::{Duration, Instant};

/// Packets of which parts have arrived. All hosts share one list: identifications are unique in a run.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    begun: u32,
    partial: Vec<Partial>,
}

#[derive(Debug)]
struct Partial {
    id: u32,
    bytes: u32,
    first: Instant,
}

impl Fragments {
    /// What a host waits for the rest of a packet (Linux's `ipfrag_time`).
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A new identification.
    pub(crate) fn begin(&mut self) -> u32 {
        self.begun = self.begun.wrapping_add(1);
        self.begun
    }

    /// A part of packet `id` has arrived: `bytes` of `total`. True if the packet is complete.
    pub(crate) fn arrive(&mut self, now: Instant, id: u32, bytes: u32, total: u32) -> bool {
        self.partial.retain(|partial| now.since(partial.first) < Self::PATIENCE);
        let place = self.partial.iter().position(|partial| partial.id == id).unwrap_or_else(|| {
            self.partial.push(Partial { id, bytes: 0, first: now });
            self.partial.len() - 1
        });
        self.partial[place].bytes += bytes;
        let complete = self.partial[place].bytes == total;
        if complete {
            self.partial.swap_remove(place);
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_complete_with_its_last_part() {
        let mut fragments = Fragments::default();
        let (a, b, at) = (fragments.begin(), fragments.begin(), Instant::ZERO);
        assert!(!fragments.arrive(at, a, 1000, 1400));
        assert!(!fragments.arrive(at, b, 400, 1400));
        assert!(fragments.arrive(at, a, 400, 1400));
        assert!(fragments.arrive(at, b, 1000, 1400));
    }

    #[test]
    fn parts_are_forgotten_after_a_while() {
        let mut fragments = Fragments::default();
        let id = fragments.begin();
        assert!(!fragments.arrive(Instant::ZERO, id, 1000, 1400));
        assert!(!fragments.arrive(Instant::ZERO + Fragments::PATIENCE, id, 400, 1400));
    }
}
