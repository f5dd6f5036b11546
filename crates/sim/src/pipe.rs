//! Pipes: elements in a row and the packets that have entered them.
//!
//! A packet's whole way through a pipe is computed when it enters, so a pipe is a list of packets sorted by the time at which
//! they leave, and only the first of them is in the event queue. A link direction is one pipe; or several, where packets
//! may overtake or an answer may be sent; or part of one, where all that leaves it enters the next.

use crate::packet::PacketId;
use polypath_base::Instant;
use polypath_link::{Chain, Parcel, Verdict};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) chain: Chain,
    /// Ascending by time; of equal times, in the order of entry.
    packets: VecDeque<(Instant, PacketId)>,
}

impl Pipe {
    pub(crate) fn new(chain: Chain) -> Self {
        Self { chain, packets: VecDeque::new() }
    }

    /// Sends a packet through the elements.
    #[inline]
    pub(crate) fn transit(&mut self, now: Instant, parcel: Parcel) -> Verdict {
        self.chain.transit(now, parcel)
    }

    /// Puts a packet that leaves at `leaves` in its place; true if it is now the first to leave.
    #[inline]
    pub(crate) fn hold(&mut self, leaves: Instant, packet: PacketId) -> bool {
        match self.packets.back() {
            Some(last) if last.0 > leaves => self.overtake(leaves, packet),
            Some(_) => {
                self.packets.push_back((leaves, packet));
                false
            }
            None => {
                self.packets.push_back((leaves, packet));
                true
            }
        }
    }

    /// Takes the packet that leaves now, and tells when the next one does.
    #[inline]
    pub(crate) fn release(&mut self) -> (PacketId, Instant) {
        let (_, packet) = self.packets.pop_front().expect("a pipe is in the event queue only while it holds packets");
        (packet, self.packets.front().map_or(Instant::NEVER, |next| next.0))
    }

    #[cold]
    fn overtake(&mut self, leaves: Instant, packet: PacketId) -> bool {
        // From the back: jitter rarely moves a packet past more than a few.
        let behind = self.packets.iter().rev().take_while(|held| held.0 > leaves).count();
        let place = self.packets.len() - behind;
        self.packets.insert(place, (leaves, packet));
        place == 0
    }
}
