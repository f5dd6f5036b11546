//! Packets on their way.

use polypath_base::Instant;
use polypath_link::Parcel;
use polypath_transport::PathId;
use polypath_wire::Segment;

/// A packet in the world. It knows the rest of its way, so that no hop looks anything up.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Packet {
    /// When it leaves the pipe that it is in.
    pub(crate) leaves: Instant,
    pub(crate) segment: Segment,
    /// Where its next pipe stands in the world's list of hops.
    pub(crate) hop: u32,
    /// The endpoint that receives it.
    pub(crate) to: u32,
    /// Length of the IP packet, bytes.
    pub(crate) len: u32,
    pub(crate) path: PathId,
    pub(crate) kind: Kind,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    /// ICMP "fragmentation needed" about `segment`; `mtu` in bytes.
    TooBig {
        mtu: u32,
    },
    /// A part of `segment`'s packet, which has this identification.
    Fragment {
        id: u32,
    },
}

impl Packet {
    /// What stands where no packet has been.
    pub(crate) fn blank() -> Self {
        Self { leaves: Instant::ZERO, segment: Segment::default(), hop: 0, to: 0, len: 0, path: PathId(0), kind: Kind::Segment }
    }

    /// What a link element sees of it. ICMP is never split and never answered.
    #[inline]
    pub(crate) fn parcel(&self) -> Parcel {
        let icmp = matches!(self.kind, Kind::TooBig { .. });
        Parcel { len: self.len, payload: self.segment.len > 0 && !icmp, df: self.segment.df || icmp }
    }
}
