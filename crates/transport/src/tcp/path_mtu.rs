//! How long a segment may be: what the interface, the path's links, the peer and the options leave of a packet, and the search for the path's MTU by
//! probing with data (RFC 4821), as a state machine. It says what size to try and what came of it, and touches neither window nor queue. Linux:
//! `tcp_sync_mss`, `tcp_current_mss`, `tcp_mtu_probe`, `tcp_mtup_probe_success`, `tcp_mtup_probe_failed`, `tcp_mtu_probing`.

use super::{DEFAULT_MSS, TIMESTAMP_BYTES};
use polypath_base::{Duration, Instant, Seq};
use polypath_wire::Segment;

/// A range narrower than this is not searched (`tcp_probe_threshold`), bytes.
const NARROW: u32 = 8;
/// The search begins anew after this (`tcp_probe_interval`).
const SEARCH_AGAIN: Duration = Duration::from_secs(600);

/// Smallest MSS, bytes (`tcp_mtu_probe_floor`, `tcp_min_snd_mss`).
pub(super) const LEAST_MSS: u32 = 48;
/// Every link passes so many bytes (RFC 791), whatever a message says.
const LEAST_MTU: u32 = 68;
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
    enabled: bool,
    range: Range,
    /// The probe in the network.
    probe: Option<Probe>,
    /// When the search began.
    since: Instant,
}

/// Packets of `low` bytes pass, packets of more than `high` bytes do not.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) low: u32,
    pub(super) high: u32,
}

/// A segment in the network that is larger than the MSS.
#[derive(Copy, Clone, Debug)]
struct Probe {
    /// Length of the packet, MPTCP's options not counted, bytes.
    size: u32,
    seq: Seq,
    end: Seq,
}

/// What a probe needs room in: bytes, and segments where it says so.
#[derive(Copy, Clone, Debug)]
pub(super) struct Room {
    /// Headers and timestamps of a packet.
    pub(super) headers: u32,
    /// Data of a usual segment, MPTCP's options included.
    pub(super) full: u32,
    /// Segments that arrive after a lost one before it counts as lost.
    pub(super) reordering: u32,
    /// Data that waits to be sent.
    pub(super) unsent: u32,
    /// The peer's window, and what is left of it.
    pub(super) snd_wnd: u32,
    pub(super) window_room: u32,
    /// Segments in the network, and the window.
    pub(super) in_flight: u32,
    pub(super) cwnd: u32,
}

/// What is to be sent next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Segments as usual.
    Usual,
    /// Nothing, until the window has room for a probe.
    Wait,
    /// A probe with so many bytes of data.
    Probe(u32),
}

impl PathMtu {
    /// Of an interface that passes packets of `mtu` bytes.
    pub(super) fn new(mtu: u32, timestamps: bool) -> Self {
        Self {
            pmtu: mtu,
            peer_mss: DEFAULT_MSS,
            timestamps,
            mptcp_options: 0,
            sack_options: 0,
            payload: DEFAULT_MSS,
            payload_and_options: DEFAULT_MSS,
            enabled: false,
            range: Range::default(),
            probe: None,
            since: Instant::ZERO,
        }
    }

    /// The peer's SYN has told the longest segment that it takes; whether both ends use timestamps is known.
    pub(super) fn on_syn(&mut self, peer_mss: u32, timestamps: bool) {
        (self.peer_mss, self.timestamps) = (peer_mss, timestamps);
        self.update();
    }

    /// The meta connection adds so many bytes of options to data segments from now on.
    pub(super) fn set_mptcp_options(&mut self, bytes: u32) {
        self.mptcp_options = bytes;
    }

    #[inline]
    pub(super) fn mptcp_options(&self) -> u32 {
        self.mptcp_options
    }

    /// Data segments leave room for so many bytes of SACK blocks from now on.
    pub(super) fn set_sack_options(&mut self, bytes: u32) {
        if bytes != self.sack_options {
            self.sack_options = bytes;
            self.update();
        }
    }

    #[inline]
    pub(super) fn sack_options(&self) -> u32 {
        self.sack_options
    }

    /// A link says that it passes packets of `mtu` bytes (RFC 1191); true if that is less than was known.
    pub(super) fn on_ptb(&mut self, mtu: u32) -> bool {
        let less = mtu < self.pmtu;
        if less {
            self.pmtu = mtu.max(LEAST_MTU);
            self.update();
        }
        less
    }

    /// Data in a full segment beside the options of the moment, bytes (Linux: `tcp_current_mss`).
    #[inline]
    pub(super) fn mss(&self) -> u32 {
        self.payload
    }

    /// The same where MPTCP's options and SACK blocks are counted as data (Linux: `mss_cache`).
    #[inline]
    pub(super) fn mss_with_options(&self) -> u32 {
        self.payload_and_options
    }

    #[inline]
    pub(super) fn peer_mss(&self) -> u32 {
        self.peer_mss
    }

    #[inline]
    pub(super) fn pmtu(&self) -> u32 {
        self.pmtu
    }

    /// What a full packet holds beside headers: data, MPTCP's options and SACK blocks.
    pub(super) fn full_data(&self) -> u32 {
        self.payload_and_options
    }

    /// What a full packet holds beside data, MPTCP's options not counted, as Linux does not.
    pub(super) fn headers(&self) -> u32 {
        HEADERS + if self.timestamps { TIMESTAMP_BYTES } else { 0 }
    }

    /// The packet with so much data.
    pub(super) fn packet_of(&self, data: u32) -> u32 {
        data + self.headers()
    }

    /// Brings the sizes up to date with what is known of path, peer and options.
    pub(super) fn update(&mut self) {
        let packet = self.usual_packet();
        let data = packet.saturating_sub(self.headers());
        self.payload = data.saturating_sub(self.mptcp_options + self.sack_options).max(LEAST_MSS);
        self.payload_and_options = data.max(LEAST_MSS);
    }

    /// Where a search begins: between `base_mss` and what the peer takes.
    pub(super) fn range(&self, base_mss: u32) -> Range {
        Range { low: self.packet_of(base_mss), high: (self.peer_mss + HEADERS).min(self.pmtu) }
    }

    /// The connection begins; `enabled`: it is searched from the start.
    pub(super) fn start(&mut self, now: Instant, enabled: bool, range: Range) {
        (self.enabled, self.range, self.probe, self.since) = (enabled, range, None, now);
    }

    /// A black hole is suspected: the search begins, or goes on further down, with half of the data of what passes, at most `base_mss`.
    pub(super) fn on_black_hole(&mut self, now: Instant, base_mss: u32) {
        if self.enabled {
            let mss = (self.range.low.saturating_sub(self.headers()) / 2).min(base_mss).max(LEAST_MSS);
            self.range.low = self.packet_of(mss);
        } else {
            self.enabled = true;
            self.since = now;
        }
    }

    /// A probe may be sent.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.enabled && self.probe.is_none()
    }

    #[inline]
    pub(super) fn is_probe_out(&self) -> bool {
        self.probe.is_some()
    }

    /// Something was sent again: whether the probe arrived will not show.
    #[inline]
    pub(super) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// The longest packet for usual data; the path bounds the search too.
    fn usual_packet(&mut self) -> u32 {
        let packet = self.pmtu.min(self.peer_mss + HEADERS);
        self.range.high = self.range.high.min(self.pmtu);
        if self.enabled { packet.min(self.range.low) } else { packet }
    }

    /// Before new data: is it time for a probe? `range`: where a new search would begin.
    pub(super) fn next_probe(&mut self, now: Instant, room: Room, range: Range) -> Next {
        let Range { low, high } = self.range;
        if high < low + NARROW {
            if now.since(self.since) >= SEARCH_AGAIN {
                self.since = now;
                self.range = range;
            }
            return Next::Usual;
        }
        let len = u32::midpoint(high, low).saturating_sub(room.headers);
        // Enough must follow it that its loss shows.
        let needed = len + (room.reordering + 1) * room.full;
        if room.unsent < needed || room.snd_wnd < needed {
            return Next::Usual;
        }
        if room.window_room < needed {
            return Next::Wait;
        }
        if room.in_flight + 2 > room.cwnd {
            return if room.in_flight == 0 { Next::Usual } else { Next::Wait };
        }
        Next::Probe(len)
    }

    /// A probe leaves in a packet of `size` bytes.
    pub(super) fn on_probe_sent(&mut self, size: u32, seq: Seq, end: Seq) {
        self.probe = Some(Probe { size, seq, end });
    }

    /// An ACK came: if it acknowledges the probe, so many bytes pass, and usual packets may have them.
    pub(super) fn on_ack(&mut self, snd_una: Seq) -> Option<u32> {
        let probe = self.probe.filter(|probe| !probe.end.after(snd_una))?;
        self.range.low = probe.size;
        self.probe = None;
        Some(probe.size)
    }

    /// Something is lost: true if it is the probe, and it alone. That says something of the path's MTU and nothing of congestion.
    pub(super) fn on_loss(&mut self, snd_una: Seq) -> bool {
        let Some(probe) = self.probe.filter(|probe| probe.seq == snd_una) else { return false };
        self.range.high = probe.size - 1;
        self.probe = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range { low: 1064, high: 9000 };
    const ROOM: Room =
        Room { headers: 52, full: 1012, reordering: 3, unsent: 1 << 20, snd_wnd: 1 << 20, window_room: 1 << 20, in_flight: 5, cwnd: 20 };

    /// A path and a peer that may take 9000 bytes, with timestamps.
    fn jumbo() -> PathMtu {
        let mut mtu = PathMtu::new(9000, true);
        mtu.on_syn(8960, true);
        mtu
    }

    fn searching() -> PathMtu {
        let mut mtu = jumbo();
        mtu.start(Instant::ZERO, true, RANGE);
        mtu
    }

    /// Searches a path that passes packets of up to `passes` bytes; the sizes that were tried, and what was found.
    fn search(passes: u32) -> (Vec<u32>, u32) {
        let (mut mtu, mut tried) = (searching(), Vec::new());
        while let Next::Probe(len) = mtu.next_probe(Instant::ZERO, ROOM, RANGE) {
            let size = len + ROOM.headers;
            tried.push(size);
            mtu.on_probe_sent(size, Seq::new(0), Seq::new(len));
            assert!(mtu.is_probe_out() && !mtu.is_searching());
            if size <= passes {
                assert_eq!(mtu.on_ack(Seq::new(len)), Some(size));
            } else {
                assert!(mtu.on_loss(Seq::new(0)));
            }
        }
        (tried, mtu.usual_packet())
    }

    #[test]
    fn it_halves_the_range_until_it_is_narrow() {
        for passes in [1064, 1280, 1500, 4352, 9000] {
            let (tried, found) = search(passes);
            assert!(found <= passes && passes - found < 2 * NARROW, "{passes}: {found}");
            assert!(tried.len() <= 11 && tried[0] == 5032, "{tried:?}");
        }
    }

    #[test]
    fn a_probe_waits_for_the_window_and_needs_data_behind_it() {
        let next = |room| searching().next_probe(Instant::ZERO, room, RANGE);
        assert_eq!(next(ROOM), Next::Probe(4980));
        let needed = 4980 + 4 * ROOM.full;
        assert_eq!(next(Room { unsent: needed - 1, ..ROOM }), Next::Usual);
        assert_eq!(next(Room { snd_wnd: needed - 1, ..ROOM }), Next::Usual, "it would never fit");
        assert_eq!(next(Room { window_room: needed - 1, ..ROOM }), Next::Wait);
        assert_eq!(next(Room { in_flight: 19, ..ROOM }), Next::Wait);
        assert_eq!(next(Room { in_flight: 0, cwnd: 1, ..ROOM }), Next::Usual, "nothing would wake it");
    }

    #[test]
    fn what_was_sent_again_or_lost_elsewhere_tells_nothing() {
        let mut mtu = searching();
        mtu.on_probe_sent(5000, Seq::new(100), Seq::new(5000));
        assert_eq!((mtu.on_ack(Seq::new(4999)), mtu.on_loss(Seq::new(50))), (None, false));
        mtu.forget_probe();
        assert_eq!((mtu.on_ack(Seq::new(6000)), mtu.range.low), (None, RANGE.low));
    }

    #[test]
    fn a_suspected_black_hole_begins_the_search_and_then_lowers_it() {
        let mut mtu = jumbo();
        mtu.start(Instant::ZERO, false, RANGE);
        assert_eq!((mtu.usual_packet(), mtu.is_searching()), (9000, false));
        mtu.on_black_hole(Instant::ZERO, 1024);
        assert_eq!((mtu.usual_packet(), mtu.is_searching()), (1064, true));
        mtu.on_black_hole(Instant::ZERO, 1024);
        assert_eq!(mtu.usual_packet(), 52 + (1064 - 52) / 2);
        (0..9).for_each(|_| mtu.on_black_hole(Instant::ZERO, 1024));
        assert_eq!(mtu.usual_packet(), 52 + LEAST_MSS);
    }

    #[test]
    fn a_finished_search_begins_anew_after_ten_minutes() {
        let mut mtu = searching();
        mtu.start(Instant::ZERO, true, Range { low: 8995, high: 9000 });
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        assert_eq!((mtu.next_probe(at(599), ROOM, RANGE), mtu.range.low), (Next::Usual, 8995));
        assert_eq!((mtu.next_probe(at(600), ROOM, RANGE), mtu.range.low), (Next::Usual, 1064));
        assert!(matches!(mtu.next_probe(at(600), ROOM, RANGE), Next::Probe(_)));
    }

    #[test]
    fn headers_and_options_leave_the_rest_to_data() {
        let mut mtu = PathMtu::new(1500, true);
        assert_eq!(mtu.mss(), 536, "before the peer has told");
        mtu.set_mptcp_options(20);
        mtu.on_syn(1460, true);
        assert_eq!((mtu.mss(), mtu.mss_with_options(), mtu.packet_of(1448)), (1428, 1448, 1500));
        mtu.on_syn(1000, false);
        assert_eq!((mtu.mss(), mtu.mss_with_options()), (980, 1000), "the peer takes less than the path");
    }

    #[test]
    fn a_link_can_only_say_that_less_passes() {
        let mut mtu = jumbo();
        assert!(mtu.on_ptb(1500) && !mtu.on_ptb(1500) && !mtu.on_ptb(4000));
        assert_eq!((mtu.pmtu(), mtu.mss()), (1500, 1448));
        assert!(mtu.on_ptb(0));
        assert_eq!((mtu.pmtu(), mtu.mss()), (LEAST_MTU, LEAST_MSS), "RFC 791");
    }
}
