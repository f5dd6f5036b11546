//! Packets on their way.

use polypath_base::{Bytes, Instant, PathId, Seq};
use polypath_link::{InFlight, PacketMeta};
use polypath_transport::udp::Datagram;
use polypath_tunnel::{Parity, Probe, Report};
use polypath_wire::parity;
use polypath_wire::{Dss, Flags, MpOptions, SackBlock, Segment};

/// Declares [`Packet`]: its own fields, and those of a segment that nearly all segments have, in
/// the order in which they stand there, so that they are copied in a few large pieces.
macro_rules! packet {
    (segment { $($(#[$of_field:meta])* $field:ident: $type:ty,)+ } own { $($(#[$of_own:meta])* $own:ident: $own_type:ty = $blank:expr,)+ }) => {
        /// A packet in the world. It knows the rest of its route, so that no hop looks anything up.
        ///
        /// Many of them are on their way at a time, and each is written and read once: the memory
        /// that they take is most of what a run with many flows waits for. So a packet holds its
        /// segment without what few segments have; that is kept by [`PacketStore`].
        #[derive(Copy, Clone, Debug)]
        #[repr(C)]
        pub(crate) struct Packet {
            /// When it leaves the pipe that it is in.
            pub(crate) leaves: Instant,
            $($(#[$of_field])* pub(crate) $field: $type,)+
            $($(#[$of_own])* pub(crate) $own: $own_type,)+
        }

        impl Packet {
            /// What stands where no packet has been.
            pub(crate) fn blank() -> Self {
                let Segment { $($field,)+ .. } = Segment::default();
                Self { leaves: Instant::ZERO, $($field,)+ $($own: $blank,)+ }
            }

            /// Takes over a segment, but for what [`PacketStore`] keeps.
            #[inline]
            pub(crate) fn pack(&mut self, segment: &Segment) {
                $(self.$field = segment.$field;)+
            }

            #[inline]
            fn unpack_plain(&self, segment: &mut Segment) {
                $(segment.$field = self.$field;)+
            }
        }
    };
}

packet! {
    segment {
        dss: Dss,
        seq: Seq,
        ack: Seq,
        /// Bytes of payload, of whatever body.
        len: u32,
        ts_val: u32,
        ts_ecr: u32,
        window: u16,
        flags: Flags,
        /// Of the IP header, of whatever body; as `df`.
        ecn: u8,
        df: bool,
        has_ts: bool,
        has_dss: bool,
    }
    own {
        /// The sender's number of the path, or any other number that tells flows apart.
        path: PathId = PathId(0),
        /// Where its next hop stands in the world's list of hops.
        hop: u32 = 0,
        /// The node that receives it.
        to: u32 = 0,
        /// Length of the IP packet, bytes.
        ip_len: u32 = 0,
        /// What [`PacketStore`] keeps of it, or [`PacketStore::NONE`].
        handle: u32 = PacketStore::NONE,
        body: Body = Body::Tcp,
        /// Identification of the packet that this is a part of, and its place there; 0: it is
        /// whole. See `fragments`.
        fragment: u32 = 0,
    }
}

/// What a packet carries.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A segment: the packet's own fields, and what few segments have.
    Tcp,
    /// A datagram, which the store has.
    Datagram,
    /// ICMP "fragmentation needed" about the segment or datagram whose fields these are; `mtu` in
    /// bytes. It was sent at the place `from` of the list of hops.
    Icmp { mtu: u16, from: u32 },
    /// A tunnel's packet, with another packet inside or a sign of life: see [`Encapsulated`].
    Encapsulated,
    /// Inside of one of a tunnel's packets: what its sender reports of the path, which the store
    /// has.
    Report,
    /// The same: a probe of the path's MTU, or the answer to one.
    Probe { is_answer: bool, size: u16, id: u32 },
    /// The same: a parity of a block of packets, of which the store has copies.
    Parity { index: u8 },
}

/// What is in a packet of a tunnel.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Encapsulated {
    pub(crate) inner: Packet,
    pub(crate) header: TunnelHeader,
}

/// What the headers between the two packets say, and who sent it.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TunnelHeader {
    /// Its number (RFC 2890); none: it carries none.
    pub(crate) seq: Option<Seq>,
    /// There is no packet inside.
    pub(crate) keepalive: bool,
    /// The node that sent it.
    pub(crate) from: u32,
    /// Bytes of the sender's socket buffer that it takes; 0: none any more, or they are not
    /// counted.
    pub(crate) charge: u32,
}

/// A packet of a tunnel is out of its sender's socket buffer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// The node that sent it, and its number of the path.
    pub(crate) from: u32,
    pub(crate) path: PathId,
    /// Bytes of the socket buffer.
    pub(crate) charge: u32,
    /// It was dropped, and was no keepalive.
    pub(crate) lost: bool,
}

impl Packet {
    /// Writes its segment out.
    #[inline]
    pub(crate) fn unpack(&self, store: &PacketStore, segment: &mut Segment) {
        self.unpack_plain(segment);
        if self.handle == PacketStore::NONE {
            // Blocks behind the length mean nothing, nor do a SYN's options on another segment.
            segment.sack_len = 0;
            segment.mp = MpOptions::default();
            segment.ae = false;
        } else {
            store.unpack(self.handle, segment);
        }
    }

    /// What a link element sees of it. ICMP is never split and never answered.
    #[inline]
    pub(crate) fn meta(&self) -> PacketMeta {
        let icmp = matches!(self.body, Body::Icmp { .. });
        let flow = flow_number(self.to, self.path);
        PacketMeta {
            len: Bytes::from_u32(self.ip_len),
            payload: self.len > 0 && !icmp,
            df: self.df || icmp,
            ect: self.ecn != 0 && !icmp,
            l4s: self.ecn & 1 != 0 && !icmp,
            flow,
        }
    }
}

impl InFlight for Packet {
    #[inline]
    fn leaves(&self) -> Instant {
        self.leaves
    }
}

/// Packets of one path to one endpoint are one flow, as those of one pair of addresses and ports
/// are.
#[inline]
pub(crate) fn flow_number(to: u32, path: PathId) -> u32 {
    to << 8 | u32::from(path.0)
}

/// The codepoint Congestion Experienced (RFC 3168).
pub(crate) const CE: u8 = 3;

/// What few segments have: selective acknowledgements, MPTCP options beside the DSS, accurate ECN,
/// the options of a SYN.
#[derive(Copy, Clone, Debug, Default)]
struct ColdFields {
    sack_blocks: [SackBlock; 4],
    mp: MpOptions,
    sack_len: u8,
    mss: u16,
    window_scale: u8,
    sack_permitted: bool,
    ae: bool,
}

/// Values by number, whose places are used again.
#[derive(Debug)]
struct Slab<T> {
    held: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    const fn new() -> Self {
        Self { held: Vec::new(), free: Vec::new() }
    }

    fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.held[number as usize] = value;
            return number;
        }
        self.held.push(value);
        (self.held.len() - 1) as u32
    }
}

/// Copies of the packets of a block, by number, its first parity, and how many are on their way.
#[derive(Debug)]
struct ProtectedBlock {
    packets: Vec<u32>,
    first: Parity,
    parities: u8,
}

/// What packets do not hold themselves, by number. A number belongs to one packet; whose kind of
/// body says what it is a number of.
#[derive(Debug)]
pub(crate) struct PacketStore {
    cold: Slab<ColdFields>,
    datagrams: Slab<Datagram>,
    encapsulated: Slab<Encapsulated>,
    reports: Slab<Report>,
    blocks: Slab<ProtectedBlock>,
    /// Packets of tunnels that were dropped, of which their senders have not heard yet.
    dropped: Vec<Released>,
}

impl PacketStore {
    pub(crate) const NONE: u32 = u32::MAX;

    pub(crate) const fn new() -> Self {
        Self {
            cold: Slab::new(),
            datagrams: Slab::new(),
            encapsulated: Slab::new(),
            reports: Slab::new(),
            blocks: Slab::new(),
            dropped: Vec::new(),
        }
    }

    /// Keeps what a packet does not hold of a segment.
    #[inline]
    pub(crate) fn keep(&mut self, segment: &Segment) -> u32 {
        if segment.is_plain() { Self::NONE } else { self.put(segment) }
    }

    #[cold]
    fn put(&mut self, segment: &Segment) -> u32 {
        let &Segment { sack_blocks, sack_len, mp, mss, window_scale, sack_permitted, ae, .. } = segment;
        self.cold.add(ColdFields { sack_blocks, mp, sack_len, mss, window_scale, sack_permitted, ae })
    }

    #[cold]
    fn unpack(&self, number: u32, segment: &mut Segment) {
        let ColdFields { sack_blocks, mp, sack_len, mss, window_scale, sack_permitted, ae } = self.cold.held[number as usize];
        (segment.sack_blocks, segment.sack_len, segment.mp) = (sack_blocks, sack_len, mp);
        (segment.mss, segment.window_scale, segment.sack_permitted, segment.ae) = (mss, window_scale, sack_permitted, ae);
    }

    /// Lowers what a SYN announces of its sender's segments to `most` bytes.
    pub(crate) fn clamp_mss(&mut self, packet: &Packet, most: Bytes) {
        if packet.body == Body::Tcp && packet.flags.has(Flags::SYN) && packet.handle != Self::NONE {
            let cold = &mut self.cold.held[packet.handle as usize];
            cold.mss = cold.mss.min(most.as_u32() as u16);
        }
    }

    /// Makes a packet the carrier of a datagram.
    pub(crate) fn put_datagram(&mut self, packet: &mut Packet, datagram: Datagram) {
        (packet.body, packet.len, packet.ip_len) = (Body::Datagram, datagram.len.as_u32(), datagram.ip_len().as_u32());
        packet.handle = self.datagrams.add(datagram);
    }

    /// The datagram of a packet whose body is one.
    pub(crate) fn datagram(&self, packet: &Packet) -> Datagram {
        self.datagrams.held[packet.handle as usize]
    }

    /// Keeps a packet that a tunnel has taken, and that goes on at the place `hop` of the list of
    /// hops behind it; it goes into one of the tunnel's by its number.
    pub(crate) fn hold(&mut self, inner: &Packet, hop: u32) -> u32 {
        let number = self.encapsulated.add(Encapsulated { inner: *inner, header: TunnelHeader::default() });
        self.held(number).inner.hop = hop;
        number
    }

    /// Keeps what has no host behind it.
    fn hold_own(&mut self, inner: Packet) -> u32 {
        self.hold(&inner, inner.hop)
    }

    /// Keeps a sign of life of so many bytes.
    pub(crate) fn hold_keepalive(&mut self, ip_len: u32) -> u32 {
        self.hold_own(Packet { ip_len, ..Packet::blank() })
    }

    /// Keeps what an end of a tunnel reports; it goes into one of its packets.
    pub(crate) fn hold_report(&mut self, report: Report) -> u32 {
        let handle = self.reports.add(report);
        self.hold_own(Packet { ip_len: polypath_wire::report::LEN as u32, body: Body::Report, handle, ..Packet::blank() })
    }

    /// Keeps a probe of so many bytes behind the GRE header, or as short as can be.
    pub(crate) fn hold_probe(&mut self, probe: Probe, length: u32) -> u32 {
        let Probe { is_answer, size, id } = probe;
        let ip_len = length.max(polypath_wire::probe::LEN as u32);
        self.hold_own(Packet { ip_len, body: Body::Probe { is_answer, size, id }, ..Packet::blank() })
    }

    /// Keeps a copy of a packet that is held.
    pub(crate) fn copy_held(&mut self, number: u32) -> u32 {
        let mut copied = *self.held(number);
        copied.inner.handle = self.copy(&copied.inner);
        self.encapsulated.add(copied)
    }

    /// Keeps all parities of a block, the packets of which are held by these numbers: each goes
    /// into a packet of the tunnel by its own number.
    pub(crate) fn hold_parities(&mut self, block: Parity, packets: Vec<u32>) -> Vec<u32> {
        let longest = packets.iter().map(|&number| self.encapsulated.held[number as usize].inner.ip_len).max().unwrap_or(0);
        let symbol = longest + parity::LENGTH as u32;
        // The only parity of a block may have an odd length.
        let symbol = if block.parities == 1 { symbol } else { symbol.next_multiple_of(2) };
        let handle = self.blocks.add(ProtectedBlock { packets, first: block, parities: block.parities });
        let ip_len = parity::HEADER as u32 + symbol;
        let of = |index| Packet { ip_len, body: Body::Parity { index }, handle, ..Packet::blank() };
        (0..block.parities).map(|index| self.hold_own(of(index))).collect()
    }

    /// A copy of the packet with this place in the block of a parity that is held.
    pub(crate) fn recover(&mut self, parity: u32, place: usize) -> Option<u32> {
        let block = self.held(parity).inner.handle;
        let number = *self.blocks.held[block as usize].packets.get(place)?;
        Some(self.copy_held(number))
    }

    /// The parity in a packet whose body is one.
    pub(crate) fn parity(&self, packet: &Packet, index: u8) -> Parity {
        Parity { index, ..self.blocks.held[packet.handle as usize].first }
    }

    /// The report in a packet whose body is one.
    pub(crate) fn report(&self, packet: &Packet) -> Report {
        self.reports.held[packet.handle as usize]
    }

    /// A packet that is held, or in one of a tunnel's.
    pub(crate) fn held(&mut self, number: u32) -> &mut Encapsulated {
        &mut self.encapsulated.held[number as usize]
    }

    /// What is in a packet of a tunnel.
    pub(crate) fn inside(&self, outer: &Packet) -> &Encapsulated {
        &self.encapsulated.held[outer.handle as usize]
    }

    /// Makes a packet the carrier of one that is held, behind headers of so many bytes of which
    /// `ip_header` are IP's.
    pub(crate) fn encapsulate(&mut self, outer: &mut Packet, number: u32, headers: u32, ip_header: u32) {
        outer.ip_len = self.held(number).inner.ip_len + headers;
        (outer.body, outer.len, outer.handle) = (Body::Encapsulated, outer.ip_len - ip_header - Segment::UDP_HEADER, number);
    }

    /// Takes out a packet that is held: the number is free.
    pub(crate) fn take(&mut self, number: u32) -> Packet {
        self.encapsulated.free.push(number);
        self.encapsulated.held[number as usize].inner
    }

    /// Forgets a packet that is held.
    pub(crate) fn forget_held(&mut self, number: u32) {
        let inner = self.take(number);
        self.forget(&inner);
    }

    /// What a packet of a tunnel takes of its sender's socket buffer, from now on nothing.
    pub(crate) fn discharge(&mut self, outer: &Packet) -> Released {
        let header = &mut self.encapsulated.held[outer.handle as usize].header;
        let charge = std::mem::take(&mut header.charge);
        Released { from: header.from, path: outer.path, charge, lost: false }
    }

    /// A packet of a tunnel that was dropped, of which its sender has not heard yet.
    pub(crate) fn poll_dropped(&mut self) -> Option<Released> {
        self.dropped.pop()
    }

    /// The same for a further part of a packet that is split.
    pub(crate) fn copy(&mut self, packet: &Packet) -> u32 {
        let number = packet.handle;
        match packet.body {
            _ if number == Self::NONE => number,
            Body::Tcp | Body::Icmp { .. } => self.cold.add(self.cold.held[number as usize]),
            Body::Datagram => self.datagrams.add(self.datagrams.held[number as usize]),
            Body::Report => self.reports.add(self.reports.held[number as usize]),
            Body::Probe { .. } => number,
            Body::Parity { .. } => {
                self.blocks.held[number as usize].parities += 1;
                number
            }
            Body::Encapsulated => {
                let mut copied = self.encapsulated.held[number as usize];
                copied.inner.handle = self.copy(&copied.inner);
                // The first part alone stands for the packet in its sender's socket buffer.
                copied.header.charge = 0;
                self.encapsulated.add(copied)
            }
        }
    }

    /// A packet with a segment is gone, of which this is the number: as [`PacketStore::forget`],
    /// without a look at the packet.
    #[inline]
    pub(crate) fn forget_segment(&mut self, number: u32) {
        if number != Self::NONE {
            self.free_segment(number);
        }
    }

    #[cold]
    fn free_segment(&mut self, number: u32) {
        self.cold.free.push(number);
    }

    /// A packet is gone.
    #[inline]
    pub(crate) fn forget(&mut self, packet: &Packet) {
        if packet.handle != Self::NONE {
            self.free(packet);
        }
    }

    fn free(&mut self, packet: &Packet) {
        match packet.body {
            Body::Tcp | Body::Icmp { .. } => self.cold.free.push(packet.handle),
            Body::Datagram => self.datagrams.free.push(packet.handle),
            Body::Report => self.reports.free.push(packet.handle),
            Body::Probe { .. } => {}
            Body::Parity { .. } => {
                let block = &mut self.blocks.held[packet.handle as usize];
                block.parities -= 1;
                if block.parities == 0 {
                    let packets = std::mem::take(&mut block.packets);
                    self.blocks.free.push(packet.handle);
                    packets.into_iter().for_each(|number| self.forget_held(number));
                }
            }
            Body::Encapsulated => {
                let released = self.discharge(packet);
                let lost = !self.held(packet.handle).header.keepalive;
                self.dropped.push(Released { lost, ..released });
                self.forget_held(packet.handle);
            }
        }
    }

    /// How many numbers are in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        let Self { cold, datagrams, encapsulated, .. } = self;
        cold.held.len() - cold.free.len() + datagrams.held.len() - datagrams.free.len() + encapsulated.held.len() - encapsulated.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::DataSeq;
    use polypath_wire::mptcp::Repr;

    #[test]
    fn a_packet_takes_one_and_a_half_cache_lines() {
        assert!(size_of::<Packet>() <= 96, "{}", size_of::<Packet>());
    }

    #[test]
    fn segments_come_out_as_they_went_in() {
        let plain = Segment {
            seq: Seq::new(1),
            ack: Seq::new(2),
            len: 3,
            window: 4,
            ts_val: 5,
            ts_ecr: 6,
            df: true,
            has_ts: true,
            has_dss: true,
            ..Segment::default()
        };
        let plain = Segment {
            window_scale: 255,
            dss: Dss { dsn: DataSeq::new(7), map_len: 8, ..Dss::default() },
            ecn: 2,
            flags: Flags::ACK,
            ..plain
        };
        let mut with_sack = plain;
        with_sack.push_sack(SackBlock { start: Seq::new(9), end: Seq::new(10) });
        let syn = Segment { flags: Flags::SYN, mss: 1460, window_scale: 7, sack_permitted: true, ..plain };
        let option = Segment { mp: Repr::Prio { backup: true, address_id: None }.into(), ..plain };
        let mut accurate = Segment { ae: true, ..plain };
        accurate.mp.set_accecn(&polypath_wire::accecn::Repr { ect_1_first: true, len: 3, counters: [1, 0, 1449] });
        let (mut store, mut out) = (PacketStore::new(), Segment::default());
        for segment in [plain, with_sack, syn, option, accurate, plain] {
            let mut packet = Packet::blank();
            packet.pack(&segment);
            packet.handle = store.keep(&segment);
            packet.unpack(&store, &mut out);
            // Blocks behind the length mean nothing.
            out.sack_blocks[usize::from(out.sack_len)..].fill(SackBlock::default());
            if !out.flags.has(Flags::SYN) {
                (out.mss, out.window_scale, out.sack_permitted) = (0, 255, false);
            }
            assert_eq!(out, segment);
            store.forget(&packet);
        }
        assert_eq!((store.cold.held.len(), store.cold.free.len()), (1, 1));
    }

    #[test]
    fn a_packet_in_a_packet_is_forgotten_with_it() {
        let mut store = PacketStore::new();
        let (mut inner, mut outer) = (Packet::blank(), Packet::blank());
        store.put_datagram(&mut inner, Datagram { number: 7, sent_at: Instant::ZERO, len: Bytes::new(100) });
        let number = store.hold(&inner, inner.hop);
        store.held(number).header = TunnelHeader { from: 9, charge: 768, ..TunnelHeader::default() };
        store.encapsulate(&mut outer, number, 44, 20);
        assert_eq!((outer.ip_len, outer.len, store.in_use()), (128 + 44, 128 + 44 - 28, 2));
        let part = Packet { handle: store.copy(&outer), ..outer };
        assert_eq!(store.in_use(), 4);
        store.forget(&outer);
        assert_eq!(store.poll_dropped(), Some(Released { from: 9, path: PathId(0), charge: 768, lost: true }));
        let found = store.take(part.handle);
        assert_eq!((store.datagram(&found).number, store.in_use()), (7, 1));
        store.forget(&found);
        assert_eq!(store.in_use(), 0);
    }
}
