//! Packets on their way.

use polypath_base::{Instant, PathId, Seq};
use polypath_link::{InFlight, PacketMeta};
use polypath_wire::{Dss, Flags, MpOption, Sack, Segment};

/// A packet in the world. It knows the rest of its way, so that no hop looks anything up.
///
/// Many of them are on their way at a time, and each is written and read once: the memory that they take is most of what a run
/// with many flows waits for. So a packet holds its segment without what few segments have; that is backlog by [`ColdFields`].
#[derive(Copy, Clone, Debug)]
#[repr(C)]
pub(crate) struct Packet {
    /// When it leaves the pipe that it is in.
    pub(crate) leaves: Instant,
    // The segment's fields, in the order in which they stand there: they are copied in a few large pieces.
    dss: Dss,
    pub(crate) seq: Seq,
    ack: Seq,
    /// Bytes of payload.
    pub(crate) payload: u32,
    ts_val: u32,
    ts_ecr: u32,
    window: u16,
    flags: Flags,
    pub(crate) ecn: u8,
    df: bool,
    udp: bool,
    has_ts: bool,
    has_dss: bool,
    /// Where its next pipe stands in the world's list of hops.
    pub(crate) hop: u32,
    /// The endpoint that receives it.
    pub(crate) to: u32,
    /// Length of the IP packet, bytes.
    pub(crate) len: u32,
    /// Where the rest of its segment is, or [`ColdFields::NONE`].
    pub(crate) cold: u32,
    pub(crate) kind: Kind,
    pub(crate) path: PathId,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    /// ICMP "fragmentation needed" about the segment; `mtu` in bytes.
    TooBig {
        mtu: u32,
    },
    /// A part of the segment's packet, which has this identification.
    Fragment {
        id: u32,
    },
}

impl Packet {
    /// What stands where no packet has been.
    pub(crate) fn blank() -> Self {
        Self {
            leaves: Instant::ZERO,
            hop: 0,
            to: 0,
            len: 0,
            path: PathId(0),
            kind: Kind::Segment,
            cold: ColdFields::NONE,
            seq: Seq::default(),
            ack: Seq::default(),
            payload: 0,
            ts_val: 0,
            ts_ecr: 0,
            window: 0,
            flags: Flags::default(),
            ecn: 0,
            df: false,
            udp: false,
            has_ts: false,
            has_dss: false,
            dss: Dss::default(),
        }
    }

    /// Takes over a segment, but for what [`ColdFields`] keeps.
    #[inline]
    pub(crate) fn pack(&mut self, segment: &Segment) {
        self.dss = segment.dss;
        self.seq = segment.seq;
        self.ack = segment.ack;
        self.payload = segment.len;
        self.ts_val = segment.ts_val;
        self.ts_ecr = segment.ts_ecr;
        self.window = segment.window;
        self.flags = segment.flags;
        self.ecn = segment.ecn;
        self.df = segment.df;
        self.udp = segment.udp;
        self.has_ts = segment.has_ts;
        self.has_dss = segment.has_dss;
    }

    /// Writes the segment out.
    #[inline]
    pub(crate) fn unpack(&self, cold_fields: &ColdFields, segment: &mut Segment) {
        segment.dss = self.dss;
        segment.seq = self.seq;
        segment.ack = self.ack;
        segment.len = self.payload;
        segment.ts_val = self.ts_val;
        segment.ts_ecr = self.ts_ecr;
        segment.window = self.window;
        segment.flags = self.flags;
        segment.ecn = self.ecn;
        segment.df = self.df;
        segment.udp = self.udp;
        segment.has_ts = self.has_ts;
        segment.has_dss = self.has_dss;
        if self.cold == ColdFields::NONE {
            // Blocks behind the length mean nothing, nor do a SYN's options on another segment.
            segment.sack.len = 0;
            segment.mp = MpOption::None;
        } else {
            cold_fields.unpack(self.cold, segment);
        }
    }

    /// What a link element sees of it. ICMP is never split and never answered.
    #[inline]
    pub(crate) fn meta(&self) -> PacketMeta {
        let icmp = matches!(self.kind, Kind::TooBig { .. });
        let flow = flow_number(self.to, self.path);
        PacketMeta { len: self.len, payload: self.payload > 0 && !icmp, df: self.df || icmp, ect: self.ecn != 0 && !icmp, flow }
    }
}

impl InFlight for Packet {
    #[inline]
    fn leaves(&self) -> Instant {
        self.leaves
    }
}

/// Packets of one path to one endpoint are one flow, as those of one pair of addresses and ports are.
#[inline]
pub(crate) fn flow_number(to: u32, path: PathId) -> u32 {
    to << 8 | u32::from(path.0)
}

/// The codepoint Congestion Experienced (RFC 3168).
pub(crate) const CE: u8 = 3;

/// What few segments have: selective acknowledgements, MPTCP options beside the DSS, the options of a SYN.
#[derive(Copy, Clone, Debug, Default)]
struct Cold {
    sack: Sack,
    mp: MpOption,
    mss: u16,
    window_scale: u8,
    sack_permitted: bool,
}

/// The rest of the segments that have more than a [`Packet`] holds, by number. A number belongs to one packet.
#[derive(Debug, Default)]
pub(crate) struct ColdFields {
    held: Vec<Cold>,
    free: Vec<u32>,
}

impl ColdFields {
    pub(crate) const NONE: u32 = u32::MAX;

    /// Keeps what a packet does not hold of a segment.
    #[inline]
    pub(crate) fn keep(&mut self, segment: &Segment) -> u32 {
        if segment.is_plain() { Self::NONE } else { self.put(segment) }
    }

    fn put(&mut self, segment: &Segment) -> u32 {
        let &Segment { sack, mp, mss, window_scale, sack_permitted, .. } = segment;
        self.add(Cold { sack, mp, mss, window_scale, sack_permitted })
    }

    fn add(&mut self, cold: Cold) -> u32 {
        if let Some(number) = self.free.pop() {
            self.held[number as usize] = cold;
            return number;
        }
        self.held.push(cold);
        (self.held.len() - 1) as u32
    }

    /// The same for another packet.
    pub(crate) fn copy(&mut self, number: u32) -> u32 {
        if number == Self::NONE { number } else { self.add(self.held[number as usize]) }
    }

    /// The packet that this belongs to is gone.
    #[inline]
    pub(crate) fn forget(&mut self, number: u32) {
        if number != Self::NONE {
            self.free.push(number);
        }
    }

    fn unpack(&self, number: u32, segment: &mut Segment) {
        let Cold { sack, mp, mss, window_scale, sack_permitted } = self.held[number as usize];
        (segment.sack, segment.mp) = (sack, mp);
        (segment.mss, segment.window_scale, segment.sack_permitted) = (mss, window_scale, sack_permitted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::DataSeq;
    use polypath_wire::SackBlock;

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
        with_sack.sack.push(SackBlock { start: Seq::new(9), end: Seq::new(10) });
        let syn = Segment { flags: Flags::SYN, mss: 1460, window_scale: 7, sack_permitted: true, ..plain };
        let option = Segment { mp: MpOption::Prio { backup: true }, ..plain };
        let (mut cold_fields, mut out) = (ColdFields::default(), Segment::default());
        let datagram = Segment { udp: true, seq: Seq::new(3), len: 4, ts_val: 5, ts_ecr: 6, window_scale: 255, ..Segment::default() };
        for segment in [plain, with_sack, syn, option, datagram] {
            let mut packet = Packet::blank();
            packet.pack(&segment);
            packet.cold = cold_fields.keep(&segment);
            packet.unpack(&cold_fields, &mut out);
            // Blocks behind the length mean nothing.
            out.sack.blocks[usize::from(out.sack.len)..].fill(SackBlock::default());
            if !out.flags.has(Flags::SYN) {
                (out.mss, out.window_scale, out.sack_permitted) = (0, 255, false);
            }
            assert_eq!(out, segment);
            cold_fields.forget(packet.cold);
        }
        assert_eq!((cold_fields.held.len(), cold_fields.free.len()), (1, 1));
    }
}
