//! A UDP endpoint: datagrams of one size, each with its number and the time at which it was sent,
//! and a record of what arrives.
//!
//! It never retransmits, never waits and has no timer. Order of calls: as in the crate's head.

use polypath_base::{Bytes, Duration, Instant};
use polypath_wire::Segment;

/// A datagram on its way. Number and time stand in its payload, as measuring programs write them
/// there.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Counted from 0 by the sender.
    pub number: u32,
    /// By the sender's clock.
    pub sent_at: Instant,
    /// Of the payload.
    pub len: Bytes,
}

impl Datagram {
    /// Length of the IPv4 packet.
    pub fn ip_len(&self) -> Bytes {
        Bytes::from_u32(Segment::IPV4_HEADER + Segment::UDP_HEADER) + self.len
    }
}

/// A datagram that has arrived.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Counted from 0 by the sender.
    pub number: u32,
    /// From its sending to its arrival.
    pub transit: Duration,
}

/// One end of a flow of datagrams.
#[derive(Debug)]
pub struct Socket {
    /// Of a datagram.
    payload: Bytes,
    /// Datagrams that the application has written, and of these what has left.
    offered: u32,
    sent: u32,
    established_at: Option<Instant>,
    arrivals: Vec<Arrival>,
    received: Bytes,
}

impl Socket {
    /// The end that sends ([`Socket::open`]), or the one that waits for the first datagram; each
    /// carries `payload`, not zero.
    pub fn new(payload: Bytes) -> Self {
        Self { payload, offered: 0, sent: 0, established_at: None, arrivals: Vec::new(), received: Bytes::ZERO }
    }

    /// May send from now on: there is no handshake.
    pub fn open(&mut self, now: Instant) {
        self.established_at = Some(now);
    }

    /// The application has so much more to send, in whole datagrams.
    pub fn offer(&mut self, amount: Bytes) {
        self.offered += (amount / self.payload) as u32;
    }

    /// Notes that a datagram arrived at `now`; the first one establishes an end that waits.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.established_at.get_or_insert(now);
        debug_assert!(datagram.sent_at <= now, "a datagram comes after it left");
        self.received += datagram.len;
        self.arrivals.push(Arrival { number: datagram.number, transit: now.since(datagram.sent_at) });
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if !self.may_transmit() {
            return None;
        }
        let datagram = Datagram { number: self.sent, sent_at: now, len: self.payload };
        self.sent += 1;
        Some(datagram)
    }

    /// False if [`Socket::poll_transmit`] would find nothing to send.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.sent < self.offered
    }

    // Getters.

    /// Datagrams sent so far.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// What has arrived so far, in the order of arrival.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Bytes of payload that the application wrote.
    pub fn accepted(&self) -> Bytes {
        Bytes::new(u64::from(self.offered) * self.payload.get())
    }

    /// Bytes of payload that have arrived.
    pub fn received(&self) -> Bytes {
        self.received
    }

    /// When it was opened, or heard of the peer for the first time.
    pub fn established_at(&self) -> Option<Instant> {
        self.established_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn datagrams_carry_their_number_and_time() {
        let (mut client, mut server) = (Socket::new(Bytes::new(100)), Socket::new(Bytes::new(100)));
        client.open(at(5));
        client.offer(Bytes::new(399));
        let now = at(5_000_000);
        while let Some(datagram) = client.poll_transmit(now) {
            assert_eq!((datagram.ip_len().get(), datagram.sent_at), (128, now));
            if datagram.number != 1 {
                server.handle_datagram(now + Duration::from_micros(u64::from(datagram.number) + 7), datagram);
            }
        }
        let expected = [(0, 7), (2, 9)].map(|(number, us)| Arrival { number, transit: Duration::from_micros(us) });
        assert_eq!(server.arrivals(), expected);
        assert_eq!((client.sent(), client.accepted().get(), server.received().get()), (3, 300, 200));
        assert_eq!((client.established_at(), server.established_at()), (Some(at(5)), Some(at(5_000_007))));
    }
}
