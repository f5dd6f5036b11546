//! Putting split packets together again.

use polypath_base::{Duration, Instant};

/// Packets that were split. All hosts share one list: identifications are unique in a run.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    begun: u32,
    partial: Vec<Partial>,
}

#[derive(Debug)]
struct Partial {
    id: u32,
    /// Bytes of its IP payload that have not arrived.
    missing: u32,
    since: Instant,
}

impl Fragments {
    /// How long a host waits for the rest of a packet (Linux's `ipfrag_time`), counted from the splitting.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A packet of this many bytes of IP payload is split: its identification.
    pub(crate) fn begin(&mut self, now: Instant, bytes: u32) -> u32 {
        self.partial.retain(|partial| now.since(partial.since) < Self::PATIENCE);
        self.begun = self.begun.wrapping_add(1);
        self.partial.push(Partial { id: self.begun, missing: bytes, since: now });
        self.begun
    }

    /// A part with this many bytes of IP payload has arrived. True if the packet is complete.
    pub(crate) fn arrive(&mut self, now: Instant, id: u32, bytes: u32) -> bool {
        let Some(place) = self.partial.iter().position(|partial| partial.id == id) else { return false };
        let partial = &mut self.partial[place];
        partial.missing -= bytes;
        let complete = partial.missing == 0 && now.since(partial.since) < Self::PATIENCE;
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
        let at = Instant::ZERO;
        let (a, b) = (fragments.begin(at, 1400), fragments.begin(at, 1400));
        assert!(!fragments.arrive(at, a, 1000));
        assert!(!fragments.arrive(at, b, 400));
        assert!(fragments.arrive(at, a, 400));
        assert!(fragments.arrive(at, b, 1000));
    }

    #[test]
    fn parts_are_forgotten_after_a_while() {
        let mut fragments = Fragments::default();
        let id = fragments.begin(Instant::ZERO, 1400);
        assert!(!fragments.arrive(Instant::ZERO, id, 1000));
        assert!(!fragments.arrive(Instant::ZERO + Fragments::PATIENCE, id, 400));
    }
}
