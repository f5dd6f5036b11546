//! Which of several sights of a packet is the first.
//!
//! A router, a bridge, or a host with a VLAN's or a tunnel's device passes one packet through
//! several interfaces. A capture of all of them shows it on each, perhaps cut into other segments
//! (TSO, GRO) and with a smaller TTL, and none of these sights is a retransmission. A point that
//! has only shown bytes after another one had is taken for such a later sight. Where each of two
//! points shows bytes first, as with bonded interfaces, a packet is the same if its headers are.

use crate::frame::Segment;
use crate::point::{Point, Port};

/// By which a packet is known again.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) time: u64,
    seq: u32,
    ack: u32,
    /// TSval (RFC 7323 section 3.2), 0 without.
    stamp: u32,
    /// As [`Segment::id`]: Linux counts on with each transmission.
    id: u16,
    /// Index in [`Points`].
    point: u8,
}

impl Sight {
    pub(crate) fn new(time: u64, segment: &Segment<'_>, point: u8) -> Self {
        Self { time, seq: segment.seq, ack: segment.ack, stamp: segment.stamp(), id: segment.id, point }
    }

    /// Nothing tells them apart. Packets cut at other places have other identifications.
    fn is_as(&self, other: &Self) -> bool {
        let is_id_known = self.seq == other.seq && self.id != 0 && other.id != 0;
        self.ack == other.ack && self.stamp == other.stamp && (!is_id_known || self.id == other.id)
    }

    /// No sender gives two packets this much in common.
    fn is_surely(&self, other: &Self) -> bool {
        self.is_as(other) && self.seq == other.seq && self.id == other.id && self.id != 0
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Role {
    Unknown,
    /// It has shown bytes before any other point.
    First,
    Later,
}

/// What a sight of bytes that were seen before is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// They were sent again.
    Again,
    /// It is the same packet at another point, or twice on the link.
    Copy,
    /// The capture does not tell.
    Unclear,
}

/// The points at which a file shows what one end sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    known: Vec<(Point, Role)>,
}

/// Points that are told apart, at most; others count as the last of them.
const POINTS: usize = 16;

/// Within so many nanoseconds a host passes a packet on from one device to the next.
const PASSES_NS: u64 = 3_000_000;

impl Points {
    pub(crate) fn number(&mut self, point: Point) -> u8 {
        let found = self.known.iter().position(|known| known.0 == point).unwrap_or_else(|| {
            if self.known.len() < POINTS {
                self.known.push((point, Role::Unknown));
            }
            self.known.len() - 1
        });
        found as u8
    }

    /// This point shows bytes that none has shown before.
    pub(crate) fn on_first(&mut self, number: u8) {
        self.known[usize::from(number)].1 = Role::First;
    }

    /// Whether it has.
    pub(crate) fn is_first(&self, number: u8) -> bool {
        self.known[usize::from(number)].1 == Role::First
    }

    /// Whether any point of a port has.
    pub(crate) fn has_first(&self, port: &Port) -> bool {
        self.known.iter().any(|(point, role)| *role == Role::First && point.port == *port)
    }

    /// A sight of bytes that were seen before; `earlier` are the first and the last time that a
    /// packet had them, none: it is acknowledged.
    pub(crate) fn on_known(&mut self, sight: &Sight, earlier: Option<[Sight; 2]>) -> Seen {
        let (point, role) = self.known[usize::from(sight.point)];
        // Files that were made at one end are of different paths, and none shows another's packets.
        let is_same_file = |before: &Sight| self.known[usize::from(before.point)].0.port.file == point.port.file;
        let is_passing = |before: &Sight| before.point != sight.point && is_same_file(before) && before.is_as(sight);
        let is_twice = |before: &Sight| before.point == sight.point && before.is_surely(sight);
        match (role, earlier) {
            (Role::Later, _) => Seen::Copy,
            (_, None) => Seen::Again,
            (_, Some(earlier)) if earlier.iter().any(|before| is_passing(before) || is_twice(before)) => {
                if role == Role::Unknown {
                    self.known[usize::from(sight.point)].1 = Role::Later;
                }
                Seen::Copy
            }
            (_, Some([_, last])) if point.port.is_unnamed && last.is_as(sight) && sight.time.saturating_sub(last.time) < PASSES_NS => {
                Seen::Unclear
            }
            _ => Seen::Again,
        }
    }
}
