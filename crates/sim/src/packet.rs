//! Packets on their way, in a slab.

use polypath_link::Parcel;
use polypath_transport::PathId;
use polypath_wire::Segment;

/// A packet in the world. It knows the rest of its way, so that no hop looks anything up.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Packet {
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
    /// A part of `segment`'s packet: `bytes` of its IP payload, of `total`.
    Fragment {
        id: u32,
        bytes: u32,
        total: u32,
    },
}

impl Packet {
    /// What a link element sees of it. ICMP is never split and never answered.
    #[inline]
    pub(crate) fn parcel(&self) -> Parcel {
        let icmp = matches!(self.kind, Kind::TooBig { .. });
        Parcel { len: self.len, payload: self.segment.len > 0 && !icmp, df: self.segment.df || icmp }
    }
}

/// Number of a packet in the slab.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketId(u32);

/// All packets on their way. The last place freed is the first one taken: it is still in the cache.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    packets: Vec<Packet>,
    free: Vec<PacketId>,
}

impl Slab {
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(id) = self.free.pop() {
            self.packets[id.0 as usize] = packet;
            return id;
        }
        self.grow(packet)
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: PacketId) {
        self.free.push(id);
    }

    #[inline]
    pub(crate) fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.0 as usize]
    }

    #[cold]
    fn grow(&mut self, packet: Packet) -> PacketId {
        let id = PacketId(u32::try_from(self.packets.len()).expect("fewer than 2^32 packets fit in memory"));
        self.packets.push(packet);
        id
    }
}
