//! Nodes that hold packets, have timers and make packets of their own: routers with state, ends of
//! tunnels.
//!
//! The ends of connections are nodes too, but the world drives them itself, compiled for each
//! transport. A router that only forwards is no node here: it costs nothing, because the pipes on
//! both sides of it are joined.

use crate::outcome::TunnelEndOutcome;
use crate::packet::{Packet, PacketStore, Released};
use polypath_base::Instant;
use std::fmt::Debug;

/// A node that is handed packets and time, and says what leaves and when to ask again. After any
/// call of [`Node::handle_packet`], and at the time that [`Node::poll_timeout`] named, ask
/// [`Node::poll_transmit`] until it returns `None`, then [`Node::poll_timeout`].
pub(crate) trait Node: Debug {
    /// A packet has arrived, and is the node's from now on. Behind this node it goes on at the
    /// place `hop` of the list of hops, whatever its own says: it is copied once, into what the
    /// node keeps.
    fn handle_packet(&mut self, now: Instant, packet: &Packet, hop: u32, store: &mut PacketStore);

    /// Bytes of the longest packet that it takes from a host; what is longer is answered or split
    /// before it.
    fn mtu(&self) -> u32 {
        u32::MAX
    }

    /// A packet of its own is out of its socket buffer. True if it may have something to send now.
    fn handle_released(&mut self, _now: Instant, _released: Released, _store: &mut PacketStore) -> bool {
        false
    }

    /// What there is to say at the end of a run, of the end of a tunnel.
    fn outcome(&self, _now: Instant) -> Option<TunnelEndOutcome> {
        None
    }

    /// The next packet that leaves; its `hop` is the place at which it goes on.
    fn poll_transmit(&mut self, now: Instant, store: &mut PacketStore) -> Option<Packet>;

    /// When there is something to do next if nothing arrives; never: [`Instant::NEVER`].
    fn poll_timeout(&self) -> Instant;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use polypath_base::Duration;
    use std::collections::VecDeque;

    /// The entrance of a tunnel: it holds packets and releases all of them at each tick of its
    /// timer, each in a packet of its own.
    #[derive(Debug)]
    pub(crate) struct Encapsulator {
        pub(crate) tick: Duration,
        /// Where the route to the tunnel's other end begins.
        pub(crate) tunnel: u32,
        pub(crate) far_end: u32,
        held: VecDeque<Packet>,
        due: Instant,
    }

    impl Encapsulator {
        /// Bytes that a tunnel adds: IPv4, UDP and GRE with key and sequence number.
        pub(crate) const HEADER: u32 = 20 + 8 + 12;

        pub(crate) fn new(tick: Duration, tunnel: u32, far_end: u32) -> Self {
            Self { tick, tunnel, far_end, held: VecDeque::new(), due: Instant::NEVER }
        }
    }

    impl Node for Encapsulator {
        fn handle_packet(&mut self, now: Instant, packet: &Packet, hop: u32, _store: &mut PacketStore) {
            if self.held.is_empty() {
                self.due = now + self.tick;
            }
            self.held.push_back(Packet { hop, ..*packet });
        }

        fn poll_transmit(&mut self, now: Instant, store: &mut PacketStore) -> Option<Packet> {
            if now < self.due {
                return None;
            }
            let inner = self.held.pop_front();
            if self.held.is_empty() {
                self.due = Instant::NEVER;
            }
            let mut outer = Packet { hop: self.tunnel, to: self.far_end, ..Packet::blank() };
            let inner = inner?;
            let number = store.hold(&inner, inner.hop);
            store.encapsulate(&mut outer, number, Self::HEADER, 20);
            Some(outer)
        }

        fn poll_timeout(&self) -> Instant {
            self.due
        }
    }

    /// The other end: it unpacks what arrives and sends it on at once.
    #[derive(Debug, Default)]
    pub(crate) struct Decapsulator(VecDeque<Packet>);

    impl Node for Decapsulator {
        fn handle_packet(&mut self, _now: Instant, packet: &Packet, _hop: u32, store: &mut PacketStore) {
            self.0.push_back(store.take(packet.handle));
        }

        fn poll_transmit(&mut self, _now: Instant, _store: &mut PacketStore) -> Option<Packet> {
            self.0.pop_front()
        }

        fn poll_timeout(&self) -> Instant {
            Instant::NEVER
        }
    }
}
