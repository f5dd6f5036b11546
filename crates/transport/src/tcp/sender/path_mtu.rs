//! How long a segment may be: what the interface, the path's links, the peer and the options leave
//! of a packet, and what the search for the path's MTU (RFC 4821; `polypath_pmtu`) has found. It
//! says what size to try next, hears what came of it, and touches neither window nor queue. Linux:
//! `tcp_sync_mss`, `tcp_current_mss`.

use polypath_base::{Bytes, Duration, Instant, Segments, Seq};
use polypath_pmtu::{Bounds, LEAST_MTU, LossBurst, Path, Policy, Search};
use polypath_wire::{DEFAULT_MSS, Segment, TIMESTAMP_BYTES};

/// Smallest MSS (`tcp_mtu_probe_floor`, `tcp_min_snd_mss`).
pub(super) const LEAST_MSS: Bytes = Bytes::new(48);
const HEADERS: u32 = Segment::IPV4_HEADER + Segment::TCP_HEADER;

#[derive(Debug)]
pub(super) struct PathMtu {
    /// What the interface, and the links as far as they have told, let pass.
    pmtu: u32,
    /// What the interface lets pass.
    interface_mtu: u32,
    /// Until when `pmtu` holds, where links told of it ([`Instant::NEVER`]: they have not), and
    /// whether packets may be split on the way because they told of less than the host believes
    /// (Linux: `fnhe_expires`, `fnhe_mtu_locked`).
    expires: Instant,
    is_locked: bool,
    /// Least data in a segment, MPTCP's options included.
    least_mss: u32,
    /// Longest segment that the peer takes, its options included.
    peer_mss: u32,
    /// The widest window that the peer has announced; 0 before any.
    max_window: u32,
    timestamps: bool,
    /// Our SYN offers them.
    offers_timestamps: bool,
    /// The longest packet until the size is computed anew, where that is not what the search says
    /// (Linux: `tcp_init_transfer` begins the search and leaves `mss_cache` as it was).
    before_search: Option<u32>,
    /// Bytes of options that the meta connection adds to every data segment.
    mptcp_options: u32,
    /// Bytes of SACK blocks that stand on data segments for now.
    sack_options: u32,
    /// Data in a full segment; the second with MPTCP's options in it, which Linux does not count.
    payload: u32,
    payload_and_options: u32,
    /// Data, MPTCP's options included, of the packet with which a search begins (`tcp_base_mss`).
    base_mss: u32,
    /// The search counts MPTCP's options among the headers.
    search_counts_options: bool,
    search: Search,
    /// The probes in the network; of Linux's search one at most.
    probes: Vec<Probe>,
    /// What probes carried that are lost, from and to, until it is acknowledged: such losses say
    /// nothing of congestion (RFC 8899 section 3).
    lost_probes: Vec<(Seq, Seq)>,
    /// What was found lost up to here is known to the search.
    reported_lost: Seq,
    /// A full packet, or a probe, has arrived.
    has_passed: bool,
}

/// A segment in the network that is larger than the MSS.
#[derive(Copy, Clone, Debug)]
struct Probe {
    /// Length of the packet, MPTCP's options not counted.
    size: Bytes,
    seq: Seq,
    end: Seq,
}

/// What a host has learnt of a route's MTU (Linux: `fib_nh_exception`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RouteMtu {
    /// Longest packet that passes, bytes with the IP header (Linux: `fnhe_pmtu`).
    pub mtu: Bytes,
    /// When the host forgets it.
    pub expires: Instant,
    /// A link told of less than the host believes: packets may be split on the way.
    pub is_locked: bool,
}

impl RouteMtu {
    /// What a host makes of a message that says that packets of `told` bytes pass, where packets of
    /// `known` bytes were sent: no less than `least` (`route.min_pmtu`), or what was known if that
    /// is less; then packets may be split on the way. None: it tells of no less than known.
    pub fn from_message(now: Instant, told: Bytes, known: Bytes, least: Bytes, lasts: Duration) -> Option<Self> {
        let is_locked = told < least;
        let mtu = if is_locked { least.min(known) } else { told };
        (mtu <= known).then(|| Self { mtu, expires: now + lasts, is_locked })
    }
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
    /// Data that the peer has acknowledged.
    pub(super) arrived: Bytes,
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
    /// Of an interface that passes packets of `mtu` bytes; `search` begins with segments of
    /// `base_mss`.
    pub(super) fn new(mtu: Bytes, timestamps: bool, base_mss: Bytes, search: Search) -> Self {
        Self {
            pmtu: mtu.as_u32(),
            interface_mtu: mtu.as_u32(),
            expires: Instant::NEVER,
            is_locked: false,
            least_mss: LEAST_MSS.as_u32(),
            peer_mss: DEFAULT_MSS,
            max_window: 0,
            timestamps,
            offers_timestamps: timestamps,
            before_search: None,
            mptcp_options: 0,
            sack_options: 0,
            payload: DEFAULT_MSS,
            payload_and_options: DEFAULT_MSS,
            base_mss: base_mss.as_u32(),
            search_counts_options: false,
            search,
            probes: Vec::new(),
            lost_probes: Vec::new(),
            reported_lost: Seq::default(),
            has_passed: false,
        }
    }

    /// The peer's SYN has told the longest segment that it takes; whether both ends use timestamps
    /// is known.
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

    /// A link says that it passes packets of `mtu` bytes (RFC 1191); true if that is less than was
    /// known.
    pub(super) fn on_ptb(&mut self, mtu: Bytes) -> bool {
        if !self.search.is_linux() {
            let was = self.search.largest();
            self.search.on_hint(mtu);
            self.update();
            return self.search.largest() < was;
        }
        let less = mtu < self.pmtu();
        if less {
            self.before_search = None;
            let mtu = mtu.max(LEAST_MTU);
            self.pmtu = mtu.as_u32();
            self.search.on_limit(mtu);
            self.update();
        }
        less
    }

    /// No segment holds less than this (`tcp_min_snd_mss`).
    pub(super) fn with_least_mss(self, least: Bytes) -> Self {
        Self { least_mss: least.as_u32(), ..self }
    }

    /// The search counts MPTCP's options among the headers, so that a packet of `base_mss` holds as
    /// much data.
    pub(super) fn with_options_counted(self, search_counts_options: bool) -> Self {
        Self { search_counts_options, ..self }
    }

    /// What a host has learnt of the route begins to hold; true if that changes the size of
    /// packets. RFC 1191 section 6.3 lets it expire.
    pub(super) fn on_route_mtu(&mut self, learnt: RouteMtu) -> bool {
        if self.search.is_linux() {
            (self.expires, self.is_locked) = (learnt.expires, learnt.is_locked);
        }
        self.on_ptb(learnt.mtu)
    }

    /// What the host has learnt of the route, if anything.
    pub(super) fn route_mtu(&self) -> Option<RouteMtu> {
        let learnt = RouteMtu { mtu: self.pmtu(), expires: self.expires, is_locked: self.is_locked };
        (self.expires != Instant::NEVER).then_some(learnt)
    }

    /// What links told has expired: the interface's MTU counts again, until they tell once more.
    #[cold]
    pub(super) fn on_expired(&mut self) {
        (self.pmtu, self.expires, self.is_locked) = (self.interface_mtu, Instant::NEVER, false);
        self.before_search = None;
        self.update();
    }

    #[inline]
    pub(super) fn expires(&self) -> Instant {
        self.expires
    }

    /// Packets may not be split on the way (RFC 1191 section 3).
    #[inline]
    pub(super) fn dont_fragment(&self) -> bool {
        !self.is_locked
    }

    /// Data in a full segment beside the options of the moment (Linux: `tcp_current_mss`).
    #[inline]
    pub(super) fn mss(&self) -> Bytes {
        Bytes::from_u32(self.payload)
    }

    /// The same where MPTCP's options and SACK blocks are counted as data (Linux: `mss_cache`):
    /// what a full packet holds beside headers.
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
        let searched = self.before_search.unwrap_or(self.search.largest().as_u32());
        let packet = self.pmtu.min(self.peer_mss + HEADERS).min(searched);
        let data = packet.saturating_sub(self.headers());
        let least = self.least_mss;
        self.payload_and_options = self.bound_to_half_window(data.max(least));
        let options = self.mptcp_options + self.sack_options;
        self.payload = self.payload_and_options.saturating_sub(options).max(least.min(self.payload_and_options));
    }

    /// Of `len` bytes as much as is half of the widest window, so that the peer can acknowledge one
    /// segment while the next is on its way; all of a window that is narrow (RFC 1122
    /// section 4.2.3.4; Linux: `tcp_bound_to_half_wnd`).
    pub(super) fn bound_to_half_window(&self, len: u32) -> u32 {
        const LEAST_PACKET: u32 = 68; // RFC 791 section 3.2
        let window = if self.max_window > DEFAULT_MSS { self.max_window / 2 } else { self.max_window };
        if window == 0 { len } else { len.min(window.max(LEAST_PACKET - (self.headers() - Segment::IPV4_HEADER))) }
    }

    /// The peer has announced a window; true if it has never announced one as wide.
    #[inline]
    pub(super) fn on_peer_window(&mut self, window: u32) -> bool {
        let is_widest = window > self.max_window;
        self.max_window = self.max_window.max(window);
        is_widest
    }

    /// The widest window that the peer has announced (Linux: `max_window`).
    pub(super) fn max_window(&self) -> u32 {
        self.max_window
    }

    /// Where a search begins: between `tcp_base_mss` and what the peer takes.
    fn bounds(&self) -> Bounds {
        let headers = self.headers() + if self.search_counts_options { self.mptcp_options } else { 0 };
        let ceiling = (self.peer_mss + HEADERS).min(self.pmtu);
        let [base, ceiling, headers] = [self.base_mss + headers, ceiling, headers].map(Bytes::from_u32);
        Bounds { floor: LEAST_MTU, base, ceiling, headers }
    }

    /// The connection begins. Linux has computed the size of segments before: a client for a SYN
    /// with timestamps, a server without any search.
    pub(super) fn start(&mut self, now: Instant, is_client: bool) {
        let bounds = self.bounds();
        self.search.on_start(now, bounds);
        if self.searches_as_linux() {
            let left_out = if self.offers_timestamps && !self.timestamps { TIMESTAMP_BYTES } else { 0 };
            self.before_search = Some(if is_client { bounds.base.as_u32() + left_out } else { u32::MAX });
        }
    }

    /// A black hole is suspected.
    pub(super) fn on_black_hole(&mut self, now: Instant) {
        self.before_search = None;
        self.search.on_black_hole(now, self.bounds());
    }

    /// The search is Linux's, and on.
    #[inline]
    pub(super) fn searches_as_linux(&self) -> bool {
        self.search.is_linux() && self.search.largest() < Bytes::MAX
    }

    /// A probe may be sent.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.search.may_probe()
    }

    #[inline]
    pub(super) fn is_probe_out(&self) -> bool {
        !self.probes.is_empty()
    }

    /// What lies from `seq` to `end` was sent again: whether a probe with it arrived will not show.
    /// Linux takes no chances with any other.
    #[inline]
    pub(super) fn forget_probe(&mut self, seq: Seq, end: Seq) {
        if !self.probes.is_empty() {
            self.forget_probes(|probe| seq.before(probe.end) && end.after(probe.seq));
        }
    }

    #[cold]
    fn forget_probes(&mut self, is_unclear: impl Fn(&Probe) -> bool) {
        let is_linux = self.search.is_linux();
        let search = &mut self.search;
        self.probes.retain(|probe| {
            let unclear = is_linux || is_unclear(probe);
            if unclear {
                search.on_probe_forgotten(probe.size);
            }
            !unclear
        });
    }

    /// Before new data: is it time for a probe (Linux: `tcp_mtu_probe`)?
    pub(super) fn next_probe(&mut self, now: Instant, srtt: Duration, room: Room) -> Next {
        let path = Path { bounds: self.bounds(), srtt, arrived: room.arrived };
        let Some(size) = self.search.next_probe(now, path) else { return Next::Usual };
        if !self.search.is_linux() {
            return self.probe_of(size, room);
        }
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

    /// A probe with so much data would be longer with MPTCP's options than the route allows.
    /// Linux's search never hears of that; any other takes it for a limit.
    pub(super) fn refuses(&mut self, len: Bytes) -> bool {
        let allowed = self.pmtu().saturating_sub(self.mptcp_options());
        let refused = self.packet_of(len) > allowed;
        if refused && !matches!(self.search, Search::Linux(_)) {
            self.search.on_limit(allowed);
            self.update();
        }
        refused
    }

    /// The probe of this size, MPTCP's options counted, if there is room for it and for a segment
    /// behind it, which shows whether it is lost. It counts as two segments, as Linux's. Nothing
    /// waits for room.
    fn probe_of(&self, size: Bytes, room: Room) -> Next {
        let len = size.saturating_sub(Bytes::from_u32(self.headers() + self.mptcp_options + self.sack_options));
        let needed = len + self.mss();
        let fits = room.unsent >= needed && room.window_room >= needed && room.in_flight + Segments::new(2) <= room.cwnd;
        if fits && len > self.mss() { Next::Probe(len) } else { Next::Usual }
    }

    /// A probe leaves, with the data from `seq` to `end`.
    pub(super) fn on_probe_sent(&mut self, now: Instant, seq: Seq, end: Seq) {
        let options = if self.search.is_linux() { 0 } else { self.mptcp_options + self.sack_options };
        let size = self.packet_of(Bytes::from_u32(end.distance(seq) + options));
        self.probes.push(Probe { size, seq, end });
        self.search.on_probe_sent(now, size);
    }

    /// An ACK came: if it acknowledges the probe, packets of that size pass, and usual ones may
    /// have it.
    pub(super) fn on_ack(&mut self, now: Instant, snd_una: Seq) -> Option<Bytes> {
        let probe = *self.probes.first().filter(|probe| !probe.end.after(snd_una))?;
        self.probes.clear();
        self.before_search = None;
        self.search.on_probe_acked(now, probe.size);
        Some(probe.size)
    }

    /// Something is lost: true if it is the probe, and it alone. That says something of the path's
    /// MTU and nothing of congestion.
    pub(super) fn on_loss(&mut self, now: Instant, snd_una: Seq) -> bool {
        let Some(&probe) = self.probes.first().filter(|probe| self.search.is_linux() && probe.seq == snd_una) else { return false };
        self.probes.clear();
        self.search.on_probe_lost(now, probe.size);
        true
    }

    // Searches other than Linux's.

    /// The search is told what the scoreboard says of probes and data.
    #[inline]
    pub(super) fn reads_scoreboard(&self) -> bool {
        !self.search.is_linux()
    }

    /// What begins at `seq` is one of the probes in the network.
    pub(super) fn is_probe(&self, seq: Seq) -> bool {
        self.reads_scoreboard() && self.probes.iter().any(|probe| probe.seq == seq)
    }

    /// Tells the search of probes of which `arrived` says so, by where they begin; how many there
    /// were.
    pub(super) fn settle_arrived(&mut self, now: Instant, snd_una: Seq, arrived: impl Fn(Seq) -> bool) -> Segments {
        self.lost_probes.retain(|(_, end)| end.after(snd_una));
        let (search, before) = (&mut self.search, self.probes.len());
        self.probes.retain(|probe| {
            let settled = !probe.end.after(snd_una) || arrived(probe.seq);
            if settled {
                search.on_probe_acked(now, probe.size);
            }
            !settled
        });
        let arrived = before - self.probes.len();
        self.has_passed |= arrived > 0;
        Segments::new(arrived as u32)
    }

    /// Tells the search of a probe that `is_lost`, by where it begins, and returns where.
    pub(super) fn settle_lost(&mut self, now: Instant, is_lost: impl Fn(Seq) -> bool) -> Option<Seq> {
        let place = self.probes.iter().position(|probe| is_lost(probe.seq))?;
        let probe = self.probes.remove(place);
        self.search.on_probe_lost(now, probe.size);
        self.lost_probes.push((probe.seq, probe.end));
        Some(probe.seq)
    }

    /// What lost probes carried, from and to, as far as it is not acknowledged.
    #[inline]
    pub(super) fn lost_probes(&self) -> &[(Seq, Seq)] {
        &self.lost_probes
    }

    /// After a timeout what is lost is lost: probes tell nothing more.
    pub(super) fn on_timeout(&mut self) {
        self.forget_probes(|_| true);
        self.lost_probes.clear();
    }

    /// Data arrived, in packets of up to `mss` and the headers.
    pub(super) fn on_data_acked(&mut self, longest: Bytes) {
        let longest = self.data_packet(longest);
        self.has_passed |= longest >= self.usual_packet();
        self.search.on_data_acked(longest);
    }

    /// A full packet, or a probe, has arrived at some time: a loss may be a sign of congestion.
    pub(super) fn has_passed(&self) -> bool {
        self.has_passed
    }

    /// Data are lost, the shortest and the longest segment of these lengths, the last ending at
    /// `end`.
    pub(super) fn on_data_lost(&mut self, now: Instant, [shortest, longest]: [Bytes; 2], end: Seq, by_timeout: bool) {
        self.reported_lost = end;
        let burst = LossBurst { shortest: self.data_packet(shortest), longest: self.data_packet(longest), by_timeout };
        self.search.on_data_lost(now, burst);
    }

    /// Up to here losses of data are known to the search.
    pub(super) fn reported_lost(&self) -> Seq {
        self.reported_lost
    }

    /// A packet with this much data and the options of the moment; a full segment is a full packet.
    fn data_packet(&self, data: Bytes) -> Bytes {
        self.packet_of(data + Bytes::from_u32(self.mptcp_options + self.sack_options))
    }

    /// The packet in which data go.
    pub(super) fn usual_packet(&self) -> Bytes {
        self.packet_of(self.mss_with_options())
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
        arrived: Bytes::ZERO,
    };

    fn of_interface(mtu: u64, mtu_probing: u8) -> PathMtu {
        let search = MtuSearch::Linux.search(Sysctls { mtu_probing, ..Sysctls::default() });
        PathMtu::new(Bytes::new(mtu), true, Bytes::new(1024), search)
    }

    /// A path and a peer that may take 9000 bytes, with timestamps.
    fn jumbo(mtu_probing: u8) -> PathMtu {
        let mut mtu = of_interface(9000, mtu_probing);
        mtu.on_syn(Bytes::new(8960), true);
        mtu.start(Instant::ZERO, true);
        mtu.update();
        mtu
    }

    #[test]
    fn a_probe_waits_for_the_window_and_needs_data_behind_it() {
        let next = |room| jumbo(2).next_probe(Instant::ZERO, Duration::ZERO, room);
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
        assert_eq!(mtu.next_probe(Instant::ZERO, Duration::ZERO, ROOM), Next::Probe(Bytes::new(3525 - 52)));
    }

    #[test]
    fn what_was_sent_again_or_lost_elsewhere_tells_nothing() {
        let mut mtu = jumbo(2);
        mtu.on_probe_sent(Instant::ZERO, Seq::new(100), Seq::new(5000));
        assert_eq!((mtu.on_ack(Instant::ZERO, Seq::new(4999)), mtu.on_loss(Instant::ZERO, Seq::new(50))), (None, false));
        mtu.forget_probe(Seq::new(1), Seq::new(2));
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
    fn a_probe_that_is_too_long_with_mptcps_options_is_refused() {
        let mut mtu = jumbo(2);
        assert!(!mtu.refuses(Bytes::new(8948)), "plain TCP fills the packet");
        mtu.set_mptcp_options(Bytes::new(24));
        assert_eq!((mtu.refuses(Bytes::new(8924)), mtu.refuses(Bytes::new(8925))), (false, true), "8925 + 24 + 52 bytes are 9001");
    }

    #[test]
    fn the_base_mss_holds_mptcps_options_or_does_not() {
        let sizes = [false, true].map(|counted| {
            let mut mtu = of_interface(9000, 2).with_options_counted(counted);
            mtu.set_mptcp_options(Bytes::new(20));
            mtu.on_syn(Bytes::new(8960), true);
            mtu.start(Instant::ZERO, true);
            mtu.update();
            [mtu.mss(), mtu.mss_with_options()].map(Bytes::get)
        });
        assert_eq!(sizes, [[1004, 1024], [1024, 1044]]);
    }

    #[test]
    fn what_links_told_of_the_route_expires() {
        let (mut mtu, lasts) = (jumbo(0), Duration::from_secs(600));
        let told = |mtu: u64| RouteMtu::from_message(Instant::ZERO, Bytes::new(mtu), Bytes::new(9000), Bytes::new(552), lasts);
        let learnt = told(1500).unwrap();
        assert!(mtu.on_route_mtu(learnt) && mtu.dont_fragment());
        assert_eq!((mtu.mss(), mtu.expires(), mtu.route_mtu()), (Bytes::new(1448), Instant::ZERO + lasts, Some(learnt)));
        mtu.on_expired();
        assert_eq!((mtu.mss(), mtu.expires(), mtu.route_mtu()), (Bytes::new(8948), Instant::NEVER, None));
    }

    #[test]
    fn less_than_the_host_believes_lets_packets_be_split() {
        let told = |mtu: u64, known: u64| {
            let learnt = RouteMtu::from_message(Instant::ZERO, Bytes::new(mtu), Bytes::new(known), Bytes::new(552), Duration::from_secs(1));
            learnt.map(|learnt| (learnt.mtu.get(), learnt.is_locked))
        };
        // Linux 6.12 sends 500 bytes a segment without DF where a link of 400 answers
        // (specs/notes/mtu-probing).
        assert_eq!((told(400, 9000), told(552, 9000)), (Some((552, true)), Some((552, false))));
        assert_eq!((told(400, 500), told(0, 1500)), (Some((500, true)), Some((552, true))));
        assert_eq!((told(1500, 1500), told(1501, 1500)), (Some((1500, false)), None), "no message lets a route grow");
        let mut mtu = jumbo(0);
        let learnt = RouteMtu { mtu: Bytes::new(552), expires: Instant::NEVER, is_locked: true };
        assert!(mtu.on_route_mtu(learnt) && !mtu.dont_fragment());
    }

    #[test]
    fn no_segment_holds_less_than_the_setting_says() {
        let mut mtu = jumbo(0).with_least_mss(Bytes::new(600));
        mtu.on_ptb(Bytes::new(552));
        assert_eq!(mtu.mss_with_options(), Bytes::new(600), "tcp_min_snd_mss");
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
