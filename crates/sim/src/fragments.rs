//! Putting split packets together again.

use polypath_base::{Duration, Instant};

/// A part's identification and its place in the packet, in units of eight bytes
/// (RFC 791 section 3.1), in one word. It is never 0.
///
/// The identification has 19 bits, of which the header's 16 are the lower ones: all hosts share it.
pub(crate) const fn part(id: u32, offset: u32) -> u32 {
    (id << OFFSET_BITS) | (offset / 8)
}

/// Bytes of the packet's IP payload before a part.
pub(crate) const fn offset(fragment: u32) -> u32 {
    (fragment & ((1 << OFFSET_BITS) - 1)) * 8
}

/// The identification of a part's packet.
pub(crate) const fn id(fragment: u32) -> u32 {
    fragment >> OFFSET_BITS
}

const OFFSET_BITS: u32 = 13;
const IDS: u32 = 1 << (32 - OFFSET_BITS);

/// Packets that were split. All hosts share one list: identifications are unique among the packets
/// of [`Fragments::PATIENCE`].
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
    /// How long a host waits for the rest of a packet (Linux's `ipfrag_time`), counted from the
    /// splitting.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A packet of this many bytes of IP payload is split: its identification.
    pub(crate) fn begin(&mut self, now: Instant, bytes: u32) -> u32 {
        self.partial.retain(|partial| now.since(partial.since) < Self::PATIENCE);
        // 0 stands for a whole packet.
        self.begun = self.begun % (IDS - 1) + 1;
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
    fn a_part_says_of_which_packet_it_is_and_where_it_stands() {
        let last = part(IDS - 1, 65_528);
        assert_eq!((id(last), offset(last)), (IDS - 1, 65_528));
        let mut fragments = Fragments { begun: IDS - 2, partial: Vec::new() };
        assert_eq!([(); 2].map(|()| fragments.begin(Instant::ZERO, 8)), [IDS - 1, 1]);
    }

    #[test]
    fn parts_are_forgotten_after_a_while() {
        let mut fragments = Fragments::default();
        let id = fragments.begin(Instant::ZERO, 1400);
        assert!(!fragments.arrive(Instant::ZERO, id, 1000));
        assert!(!fragments.arrive(Instant::ZERO + Fragments::PATIENCE, id, 400));
    }
}
