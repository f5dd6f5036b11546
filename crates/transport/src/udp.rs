//! A UDP endpoint: datagrams of one size, each with its number and the time at which it was sent, and a record of what arrives.
//!
//! It never retransmits, never waits and has no timer. Order of calls: as in the crate's head.

use polypath_base::{Duration, Instant, Seq};
use polypath_wire::Segment;

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
    /// Bytes of a datagram's payload.
    payload: u32,
    /// Datagrams that the application has given, and of these what has left.
    offered: u32,
    sent: u32,
    established_at: Option<Instant>,
    arrivals: Vec<Arrival>,
    received: u64,
}

impl Socket {
    /// The end that sends ([`Socket::open`]), or the one that waits for the first datagram.
    pub fn new(payload: u32) -> Self {
        Self { payload, offered: 0, sent: 0, established_at: None, arrivals: Vec::new(), received: 0 }
    }

    /// May send from now on: there is no handshake.
    pub fn open(&mut self, now: Instant) {
        self.established_at = Some(now);
    }

    /// The application has so many bytes more to send, in whole datagrams.
    pub fn offer(&mut self, bytes: u64) {
        self.offered += (bytes / u64::from(self.payload)) as u32;
    }

    #[inline]
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        self.established_at.get_or_insert(now);
        self.received += u64::from(segment.len);
        let sent_at = Instant::from_nanos(u64::from(segment.ts_ecr) << 32 | u64::from(segment.ts_val));
        self.arrivals.push(Arrival { number: segment.seq.get(), transit: now.since(sent_at) });
    }

    /// Writes the next datagram to send into the caller's place, if there is one.
    #[inline]
    pub fn poll_transmit_into(&mut self, now: Instant, segment: &mut Segment) -> bool {
        if !self.may_transmit() {
            return false;
        }
        // Number and time stand in the payload, as measuring programs write them there; routers may split the packet.
        let ns = now.as_nanos();
        *segment = Segment {
            udp: true,
            seq: Seq::new(self.sent),
            len: self.payload,
            ts_val: ns as u32,
            ts_ecr: (ns >> 32) as u32,
            window_scale: 255,
            ..Segment::default()
        };
        self.sent += 1;
        true
    }

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

    /// Bytes of payload that the application gave.
    pub fn accepted(&self) -> u64 {
        u64::from(self.offered) * u64::from(self.payload)
    }

    /// Bytes of payload that have arrived.
    pub fn received(&self) -> u64 {
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
        let (mut client, mut server) = (Socket::new(100), Socket::new(100));
        client.open(at(5));
        client.offer(399);
        let mut segment = Segment::default();
        // Beyond 2^32 ns, so that both halves of the time count.
        let now = at(5_000_000);
        while client.poll_transmit_into(now, &mut segment) {
            assert_eq!((segment.ip_len(), segment.df), (128, false));
            if segment.seq != Seq::new(1) {
                server.handle_segment(now + Duration::from_micros(u64::from(segment.seq.get()) + 7), &segment);
            }
        }
        let expected = [(0, 7), (2, 9)].map(|(number, us)| Arrival { number, transit: Duration::from_micros(us) });
        assert_eq!(server.arrivals(), expected);
        assert_eq!((client.sent(), client.accepted(), server.received()), (3, 300, 200));
        assert_eq!((client.established_at(), server.established_at()), (Some(at(5)), Some(at(5_000_007))));
    }
}
