//! How long a segment may be: what the interface, the path's links, the peer and the options leave of a packet, and what the search for the path's
//! MTU (RFC 4821; `polypath_pmtu`) has found. It says what size to try next, hears what came of it, and touches neither window nor queue. Linux:
//! `tcp_sync_mss`, `tcp_current_mss`.

use super::{DEFAULT_MSS, TIMESTAMP_BYTES};
use polypath_base::{Bytes, Instant, Segments, Seq};
use polypath_pmtu::{Bounds, LEAST_MTU, Policy, Search};
use polypath_wire::Segment;

/// Smallest MSS (`tcp_mtu_probe_floor`, `tcp_min_snd_mss`).
pub(super) const LEAST_MSS: Bytes = Bytes::new(48);
const HEADERS: u32 = Segment::IPV4_HEADER + Segment::TCP_HEADER;

#[derive(Debug)]
pub(super) struct PathMtu {
    /// What the interface, and the links as far as they have told, let pass.
    pmtu: u32,
    /// Longest segment that the peer takes, its options included.
    peer_mss: u32,
    timestamps: bool,
    /// Bytes of options that the meta connection adds to every data segment.
    mptcp_options: u32,
    /// Bytes of SACK blocks that stand on data segments for now.
    sack_options: u32,
    /// Data in a full segment; the second with MPTCP's options in it, which Linux does not count.
    payload: u32,
    payload_and_options: u32,
    /// Data, MPTCP's options included, of the packet with which a search begins (`tcp_base_mss`).
    base_mss: u32,
    search: Search,
    /// The probe in the network.
    probe: Option<Probe>,
}

/// A segment in the network that is larger than the MSS.
#[derive(Copy, Clone, Debug)]
struct Probe {
    /// Length of the packet, MPTCP's options not counted.
    size: Bytes,
    seq: Seq,
    end: Seq,
}

/// What a probe needs room in: bytes, and segments where it says so.
#[derive(Copy, Clone, Debug)]
pub(super) struct Room {
    /// Segments that arrive after a lost one before it counts as lost.
    pub(super) reordering: Segments,
    /// Data that waits to be sent.
    pub(super) unsent: Bytes,
    /// The peer's window, and what is left of it.
    pub(super) snd_wnd: Bytes,
    pub(super) window_room: Bytes,
    /// Segments in the network, and the window.
    pub(super) in_flight: Segments,
    pub(super) cwnd: Segments,
}

/// What is to be sent next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Segments as usual.
    Usual,
    /// Nothing, until the window has room for a probe.
    Wait,
    /// A probe with so many bytes of data.
    Probe(Bytes),
}

impl PathMtu {
    /// Of an interface that passes packets of `mtu` bytes; `search` begins with segments of `base_mss`.
    pub(super) fn new(mtu: Bytes, timestamps: bool, base_mss: Bytes, search: Search) -> Self {
        Self {
            pmtu: mtu.as_u32(),
            peer_mss: DEFAULT_MSS,
            timestamps,
            mptcp_options: 0,
            sack_options: 0,
            payload: DEFAULT_MSS,
            payload_and_options: DEFAULT_MSS,
            base_mss: base_mss.as_u32(),
            search,
            probe: None,
        }
    }

    /// The peer's SYN has told the longest segment that it takes; whether both ends use timestamps is known.
    pub(super) fn on_syn(&mut self, peer_mss: Bytes, timestamps: bool) {
        (self.peer_mss, self.timestamps) = (peer_mss.as_u32(), timestamps);
        self.update();
    }

    /// The meta connection adds so many bytes of options to data segments from now on.
    pub(super) fn set_mptcp_options(&mut self, bytes: Bytes) {
        self.mptcp_options = bytes.as_u32();
    }

    #[inline]
    pub(super) fn mptcp_options(&self) -> Bytes {
        Bytes::from_u32(self.mptcp_options)
    }

    /// Data segments leave room for so many bytes of SACK blocks from now on.
    pub(super) fn set_sack_options(&mut self, bytes: Bytes) {
        let bytes = bytes.as_u32();
        if bytes != self.sack_options {
            self.sack_options = bytes;
            self.update();
        }
    }

    #[inline]
    pub(super) fn sack_options(&self) -> Bytes {
        Bytes::from_u32(self.sack_options)
    }

    /// A link says that it passes packets of `mtu` bytes (RFC 1191); true if that is less than was known.
    pub(super) fn on_ptb(&mut self, mtu: Bytes) -> bool {
        let less = mtu < self.pmtu();
        if less {
            let mtu = mtu.max(LEAST_MTU);
            self.pmtu = mtu.as_u32();
            self.search.on_limit(mtu);
            self.update();
        }
        less
    }

    /// Data in a full segment beside the options of the moment (Linux: `tcp_current_mss`).
    #[inline]
    pub(super) fn mss(&self) -> Bytes {
        Bytes::from_u32(self.payload)
    }

    /// The same where MPTCP's options and SACK blocks are counted as data (Linux: `mss_cache`): what a full packet holds beside headers.
    #[inline]
    pub(super) fn mss_with_options(&self) -> Bytes {
        Bytes::from_u32(self.payload_and_options)
    }

    #[inline]
    pub(super) fn peer_mss(&self) -> Bytes {
        Bytes::from_u32(self.peer_mss)
    }

    #[inline]
    pub(super) fn pmtu(&self) -> Bytes {
        Bytes::from_u32(self.pmtu)
    }

    /// What a full packet holds beside data, MPTCP's options not counted, as Linux does not.
    fn headers(&self) -> u32 {
        HEADERS + if self.timestamps { TIMESTAMP_BYTES } else { 0 }
    }

    /// The packet with so much data (Linux: `tcp_mss_to_mtu`).
    pub(super) fn packet_of(&self, data: Bytes) -> Bytes {
        data + Bytes::from_u32(self.headers())
    }

    /// Brings the sizes up to date with what is known of path, peer and options.
    pub(super) fn update(&mut self) {
        let packet = self.pmtu.min(self.peer_mss + HEADERS).min(self.search.largest().as_u32());
        let data = packet.saturating_sub(self.headers());
        let least = LEAST_MSS.as_u32();
        self.payload = data.saturating_sub(self.mptcp_options + self.sack_options).max(least);
        self.payload_and_options = data.max(least);
    }

    /// Where a search begins: between `tcp_base_mss` and what the peer takes.
    fn bounds(&self) -> Bounds {
        let headers = self.headers();
        let ceiling = (self.peer_mss + HEADERS).min(self.pmtu);
        let [base, ceiling, headers] = [self.base_mss + headers, ceiling, headers].map(Bytes::from_u32);
        Bounds { base, ceiling, headers }
    }

    /// The connection begins.
    pub(super) fn start(&mut self, now: Instant) {
        self.search.on_start(now, self.bounds());
    }

    /// A black hole is suspected.
    pub(super) fn on_black_hole(&mut self, now: Instant) {
        self.search.on_black_hole(now, self.bounds());
    }

    /// A probe may be sent.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.search.may_probe()
    }

    #[inline]
    pub(super) fn is_probe_out(&self) -> bool {
        self.probe.is_some()
    }

    /// Something was sent again: whether the probe arrived will not show.
    #[inline]
    pub(super) fn forget_probe(&mut self) {
        if let Some(probe) = self.probe.take() {
            self.search.on_probe_forgotten(probe.size);
        }
    }

    /// Before new data: is it time for a probe (Linux: `tcp_mtu_probe`)?
    pub(super) fn next_probe(&mut self, now: Instant, room: Room) -> Next {
        let Some(size) = self.search.next_probe(now, self.bounds()) else { return Next::Usual };
        let len = size.saturating_sub(Bytes::from_u32(self.headers()));
        // Enough must follow it that its loss shows.
        let needed = len + (room.reordering + Segments::new(1)) * self.mss_with_options();
        if room.unsent < needed || room.snd_wnd < needed {
            return Next::Usual;
        }
        if room.window_room < needed {
            return Next::Wait;
        }
        // It counts as two segments.
        if room.in_flight + Segments::new(2) > room.cwnd {
            return if room.in_flight == Segments::ZERO { Next::Usual } else { Next::Wait };
        }
        Next::Probe(len)
    }

    /// A probe leaves, with the data from `seq` to `end`.
    pub(super) fn on_probe_sent(&mut self, now: Instant, seq: Seq, end: Seq) {
        let size = self.packet_of(Bytes::from_u32(end.distance(seq)));
        self.probe = Some(Probe { size, seq, end });
        self.search.on_probe_sent(now, size);
    }

    /// An ACK came: if it acknowledges the probe, packets of that size pass, and usual ones may have it.
    pub(super) fn on_ack(&mut self, now: Instant, snd_una: Seq) -> Option<Bytes> {
        let probe = self.probe.filter(|probe| !probe.end.after(snd_una))?;
        self.probe = None;
        self.search.on_probe_acked(now, probe.size);
        Some(probe.size)
    }

    /// Something is lost: true if it is the probe, and it alone. That says something of the path's MTU and nothing of congestion.
    pub(super) fn on_loss(&mut self, now: Instant, snd_una: Seq) -> bool {
        let Some(probe) = self.probe.filter(|probe| probe.seq == snd_una) else { return false };
        self.probe = None;
        self.search.on_probe_lost(now, probe.size);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_pmtu::{MtuSearch, Sysctls};

    const MEGABYTE: Bytes = Bytes::new(1 << 20);
    const ROOM: Room = Room {
        reordering: Segments::new(3),
        unsent: MEGABYTE,
        snd_wnd: MEGABYTE,
        window_room: MEGABYTE,
        in_flight: Segments::new(5),
        cwnd: Segments::new(20),
    };

    fn of_interface(mtu: u64, mtu_probing: u8) -> PathMtu {
        let search = MtuSearch::Linux.search(Sysctls { mtu_probing, ..Sysctls::default() });
        PathMtu::new(Bytes::new(mtu), true, Bytes::new(1024), search)
    }

    /// A path and a peer that may take 9000 bytes, with timestamps.
    fn jumbo(mtu_probing: u8) -> PathMtu {
        let mut mtu = of_interface(9000, mtu_probing);
        mtu.on_syn(Bytes::new(8960), true);
        mtu.start(Instant::ZERO);
        mtu.update();
        mtu
    }

    #[test]
    fn a_probe_waits_for_the_window_and_needs_data_behind_it() {
        let next = |room| jumbo(2).next_probe(Instant::ZERO, room);
        let probe = Bytes::new(5038 - 52);
        assert_eq!(next(ROOM), Next::Probe(probe));
        let less = probe + Bytes::new(4 * 1024 - 1);
        assert_eq!(next(Room { unsent: less, ..ROOM }), Next::Usual);
        assert_eq!(next(Room { snd_wnd: less, ..ROOM }), Next::Usual, "it would never fit");
        assert_eq!(next(Room { window_room: less, ..ROOM }), Next::Wait);
        assert_eq!(next(Room { in_flight: Segments::new(19), ..ROOM }), Next::Wait);
        assert_eq!(next(Room { in_flight: Segments::ZERO, cwnd: Segments::new(1), ..ROOM }), Next::Usual, "nothing would wake it");
    }

    #[test]
    fn what_arrived_may_be_used_and_what_alone_is_lost_is_not_tried_again() {
        let mut mtu = jumbo(2);
        mtu.on_probe_sent(Instant::ZERO, Seq::new(100), Seq::new(100 + 2000));
        assert!(mtu.is_probe_out() && !mtu.is_searching());
        assert_eq!(mtu.on_ack(Instant::ZERO, Seq::new(2100)), Some(Bytes::new(2052)));
        mtu.update();
        assert_eq!(mtu.mss_with_options(), Bytes::new(2000));
        mtu.on_probe_sent(Instant::ZERO, Seq::new(2100), Seq::new(2100 + 4948));
        assert!(mtu.on_loss(Instant::ZERO, Seq::new(2100)) && mtu.is_searching());
        assert_eq!(mtu.next_probe(Instant::ZERO, ROOM), Next::Probe(Bytes::new(3525 - 52)));
    }

    #[test]
    fn what_was_sent_again_or_lost_elsewhere_tells_nothing() {
        let mut mtu = jumbo(2);
        mtu.on_probe_sent(Instant::ZERO, Seq::new(100), Seq::new(5000));
        assert_eq!((mtu.on_ack(Instant::ZERO, Seq::new(4999)), mtu.on_loss(Instant::ZERO, Seq::new(50))), (None, false));
        mtu.forget_probe();
        assert_eq!(mtu.on_ack(Instant::ZERO, Seq::new(6000)), None);
        assert!(mtu.is_searching() && !mtu.is_probe_out());
    }

    #[test]
    fn a_suspected_black_hole_shortens_segments_down_to_the_least() {
        let mut mtu = jumbo(1);
        assert_eq!(mtu.mss(), Bytes::new(8948));
        let sizes = [(); 9].map(|()| {
            mtu.on_black_hole(Instant::ZERO);
            mtu.update();
            mtu.mss().get()
        });
        assert_eq!(sizes, [1024, 512, 256, 128, 64, 48, 48, 48, 48]);
    }

    #[test]
    fn headers_and_options_leave_the_rest_to_data() {
        let mut mtu = of_interface(1500, 0);
        assert_eq!(mtu.mss(), Bytes::new(536), "before the peer has told");
        mtu.set_mptcp_options(Bytes::new(20));
        mtu.on_syn(Bytes::new(1460), true);
        assert_eq!([mtu.mss(), mtu.mss_with_options(), mtu.packet_of(Bytes::new(1448))].map(Bytes::get), [1428, 1448, 1500]);
        mtu.on_syn(Bytes::new(1000), false);
        assert_eq!([mtu.mss(), mtu.mss_with_options()].map(Bytes::get), [980, 1000], "the peer takes less than the path");
    }

    #[test]
    fn a_link_can_only_say_that_less_passes() {
        let mut mtu = jumbo(0);
        assert!(mtu.on_ptb(Bytes::new(1500)) && !mtu.on_ptb(Bytes::new(1500)) && !mtu.on_ptb(Bytes::new(4000)));
        assert_eq!([mtu.pmtu(), mtu.mss()].map(Bytes::get), [1500, 1448]);
        assert!(mtu.on_ptb(Bytes::ZERO));
        assert_eq!((mtu.pmtu(), mtu.mss()), (LEAST_MTU, LEAST_MSS), "RFC 791");
    }
}
