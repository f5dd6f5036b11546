//! Accurate ECN feedback (RFC 9768), what both halves of a connection keep of it. Its negotiation is
//! in the module above, which has this where both ends agreed to it and else nothing.
//!
//! As data receiver an end counts the packets that came with CE and the payload bytes of each
//! codepoint. The first count's lower bits stand in each header (the ACE field), the others in the
//! AccECN option where that has room. As data sender it reads both: how many of its packets were
//! marked. Rules that the RFC leaves open are Linux 7.3's (tests/scripts/accecn-*.pkt).

use polypath_base::Seq;
use polypath_wire::{Flags, MAX_OPTIONS, SACK_BLOCK_BYTES, SackBlock, Segment, accecn, sack_bytes};

/// Codepoints of the IP header (RFC 3168 section 5).
pub(in crate::tcp) const NOT_ECT: u8 = 0;
pub(in crate::tcp) const ECT_1: u8 = 1;
pub(in crate::tcp) const ECT_0: u8 = 2;
pub(in crate::tcp) const CE: u8 = 3;

/// What the count of marked packets begins with, so that a field of zeros shows (RFC 9768
/// section 3.2.1).
const FIRST_CEP: u32 = 5;
/// The same of the counts of bytes, of ECT(1), ECT(0) and CE.
const FIRST_BYTES: [u32; 3] = [1, 1, 0];
/// The ACE field has three bits.
const ACE_MASK: u32 = 7;
/// So many marked packets that no ACK has told of make the next one leave at once: before the field
/// wraps (RFC 9768 section 3.2.2.5.1; Linux: `TCP_ACCECN_ACE_MAX_DELTA`).
const MAX_UNTOLD: u8 = 6;
/// Bytes sent without an option from the peer after which none is taken any more, as its counters
/// may have wrapped.
const LATEST_OPTION: u64 = (1 << 23) - 1;
/// While ACKs cover more segments than this, smoothed with a weight of 1/64, the field is not taken
/// to have wrapped: ACKs are thinned on the way, and not lost (Linux: `ACK_COMP_THRESH`).
const THINNED: u32 = 4;

/// What the peer's AccECN options have shown.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    #[default]
    Nothing,
    /// One without counters.
    Empty,
    Counters,
    /// Counters of zero, which the path has made so (RFC 9768 section 3.2.3.2.4).
    Zeroed,
}

/// What a segment tells its receiver of marks.
#[derive(Copy, Clone, Debug)]
struct Heard {
    ace: u8,
    option: Option<accecn::Repr>,
    /// It left after all that came before (RFC 9768 section 3.2.2.5.2 asks for the order).
    is_newer: bool,
}

/// What an ACK delivers, as far as its marks depend on it.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Delivered {
    /// Segments acknowledged anew, selectively or not, and their bytes.
    pub(in crate::tcp) packets: u32,
    pub(in crate::tcp) bytes: u32,
    /// It acknowledges something.
    pub(in crate::tcp) progresses: bool,
    pub(in crate::tcp) mss: u32,
    /// Delivered segments and bytes can be trusted: there is SACK, or no recovery.
    pub(in crate::tcp) is_exact: bool,
    pub(in crate::tcp) bytes_sent: u64,
}

/// Both halves.
#[derive(Debug, Default)]
pub(in crate::tcp) struct AccEcn {
    // As data receiver.
    /// Packets that came with CE (r.cep less its first value).
    received_ce: u32,
    /// Of those, what no ACK has told; 15 at most.
    untold_ce: u8,
    /// Payload bytes that came with ECT(1), ECT(0) and CE.
    received_bytes: [u32; 3],
    /// The next option needs so many counters to tell what has changed.
    required: u8,
    /// Codepoint of the packet that came last.
    last: u8,
    /// Codepoints of the own SYN or SYN/ACK, and of the peer's as it came.
    syn_sent: u8,
    syn_came: u8,
    /// The next segment without data tells how the peer's SYN came.
    reflects: bool,
    /// SYN/ACKs sent.
    syn_acks: u8,
    /// The last segment told of a duplicate from here on, and had the option.
    told_duplicate: Option<Seq>,
    /// An ACK that told so was lost as well: options do not come through.
    options_are_lost: bool,

    // As data sender.
    /// Flags or codepoints do not come through: packets say no more that they may be marked.
    is_mangled: bool,
    seen: Seen,
    /// The peer's options are not read any more.
    ignores_options: bool,
    /// Bytes delivered with ECT(1), ECT(0) and CE, as the peer tells.
    delivered_bytes: [u32; 3],
    /// Codepoint of what an ACK without option delivers; 0: not known.
    estimate: u8,
    /// Segments that an ACK covers, smoothed, times 64; 0: none yet.
    acked_ewma: u32,
    heard: Option<Heard>,
    hastens: bool,
}

impl AccEcn {
    // The handshake.

    /// A server: the peer's SYN came with this codepoint.
    #[cold]
    pub(in crate::tcp) fn on_syn(&mut self, codepoint: u8) {
        (self.syn_came, self.last) = (codepoint, codepoint);
    }

    /// The SYN has come again. If it asks no more the way back may be no better (RFC 9768
    /// section 3.1.4.2).
    #[cold]
    pub(in crate::tcp) fn on_syn_again(&mut self, segment: &Segment) {
        self.syn_came = segment.ecn;
        self.is_mangled |= segment.ace() == 0;
    }

    /// A SYN has come to a connection that has had one: what answers it says how it came.
    #[cold]
    pub(in crate::tcp) fn on_late_syn(&mut self, segment: &Segment) {
        (self.syn_came, self.reflects) = (segment.ecn, true);
        self.see_first(segment);
    }

    /// The own SYN leaves with this codepoint.
    #[cold]
    pub(in crate::tcp) fn on_syn_sent(&mut self, codepoint: u8) {
        self.syn_sent = codepoint;
    }

    /// The SYN/ACK leaves; what it has for flags. From the third on without any: packets with them
    /// may be lost (RFC 9768 section 3.1.4.2).
    #[cold]
    pub(in crate::tcp) fn on_syn_ack_sent(&mut self, codepoint: u8, timeouts: u32) -> u8 {
        self.syn_sent = codepoint;
        self.syn_acks = self.syn_acks.saturating_add(1);
        self.is_mangled |= self.syn_acks > 2;
        if timeouts <= 1 { reflection(self.syn_came) } else { 0 }
    }

    /// A client: the answer has come. The last ACK of the handshake says how (RFC 9768
    /// section 3.2.2.1).
    #[cold]
    pub(in crate::tcp) fn on_syn_ack(&mut self, segment: &Segment) {
        (self.syn_came, self.reflects) = (segment.ecn, true);
        self.see_first(segment);
        // It has acknowledged the SYN.
        self.smooth(1);
        if segment.ecn == CE && (segment.ace() == 5 || self.came_possibly(segment.ace())) {
            (self.received_ce, self.untold_ce) = (1, 1);
        }
    }

    /// A server: what ends the handshake has come. One packet was marked, if that was the SYN/ACK.
    #[cold]
    pub(in crate::tcp) fn on_third_ack(&mut self, segment: &Segment) -> u32 {
        self.see_first(segment);
        let ace = segment.ace();
        if segment.sack_len > 0 {
            return 0;
        }
        match ace {
            // RFC 9768 section 3.2.2.4: the path has wiped the field.
            0 => (self.is_mangled, self.ignores_options) = (true, true),
            // RFC 9768 table 4 has no meaning for them.
            1 | 5 | 7 => {}
            _ if segment.len == 0 && self.came_possibly(ace) => return u32::from(reflected(ace) == CE),
            _ => {}
        }
        0
    }

    /// The codepoint that came of ours, as the peer tells, can have become of the one that left
    /// (RFC 9768 section 3.2.2.3).
    fn came_possibly(&mut self, ace: u8) -> bool {
        let (left, came) = (self.syn_sent, reflected(ace));
        let is_possible = came == left || (left != NOT_ECT && came != NOT_ECT && left != CE);
        self.is_mangled |= !is_possible;
        is_possible
    }

    fn see_first(&mut self, segment: &Segment) {
        if let Some(option) = segment.mp.accecn().filter(|_| self.seen < Seen::Counters) {
            self.see(&option);
        }
    }

    fn see(&mut self, option: &accecn::Repr) {
        self.seen = match (option.len, option.counters) {
            (0, _) => Seen::Empty,
            (_, [0, ..]) | (3, [.., 0]) => Seen::Zeroed,
            _ => Seen::Counters,
        };
        self.ignores_options |= self.seen == Seen::Zeroed;
    }

    // As data receiver.

    /// A packet is taken. True if its codepoint is another one than that of the packet before: an
    /// ACK is to tell of it at once (RFC 9768 section 3.2.3.3).
    pub(in crate::tcp) fn on_packet(&mut self, codepoint: u8, len: u32) -> bool {
        debug_assert!(codepoint <= CE, "a codepoint has two bits");
        if codepoint == CE {
            self.received_ce = self.received_ce.wrapping_add(1);
            self.untold_ce = (self.untold_ce + 1).min(15);
        }
        if codepoint != NOT_ECT && len > 0 {
            let counter = &mut self.received_bytes[usize::from(codepoint) - 1];
            *counter = counter.wrapping_add(len);
            // Linux sends the counters of ECT(1), CE and ECT(0).
            self.required = self.required.max([1, 3, 2][usize::from(codepoint) - 1]);
        }
        std::mem::replace(&mut self.last, codepoint) != codepoint
    }

    /// The ACE field of a segment that leaves (RFC 9768 section 3.2.2.2).
    #[inline]
    pub(in crate::tcp) fn tell(&mut self) -> u8 {
        self.untold_ce = 0;
        self.ace()
    }

    /// The same; the count of what no ACK has told stays.
    pub(in crate::tcp) fn ace(&self) -> u8 {
        (self.received_ce.wrapping_add(FIRST_CEP) & ACE_MASK) as u8
    }

    /// The field of a segment without data, if it tells how the peer's SYN came instead.
    #[inline]
    pub(in crate::tcp) fn take_reflection(&mut self) -> Option<u8> {
        std::mem::take(&mut self.reflects).then(|| reflection(self.syn_came))
    }

    /// Data came that was here, from `seq` on. If the last segment told just that, it was lost, maybe
    /// for its option (RFC 9768 section 3.2.3.2.2).
    #[cold]
    pub(in crate::tcp) fn on_duplicate(&mut self, seq: Seq) {
        self.options_are_lost |= self.told_duplicate == Some(seq);
    }

    /// `setting`: `tcp_ecn_option`. An option of the peer's that came tells that they come through.
    fn sends_options(&self, setting: u8) -> bool {
        setting > 0 && self.seen != Seen::Nothing && (setting > 2 || !self.options_are_lost)
    }

    /// Adds the option to a segment that has all others, if there is room.
    #[cold]
    pub(in crate::tcp) fn add_option(&mut self, setting: u8, segment: &mut Segment) {
        segment.mp = segment.mp.without_accecn();
        let is_syn = segment.flags.has(Flags::SYN);
        let (sends, required) = if is_syn { (setting > 0 && self.syn_acks == 1, 0) } else { (self.sends_options(setting), self.required) };
        self.told_duplicate = None;
        let room = MAX_OPTIONS.saturating_sub(segment.options_len());
        let Some((counters, blocks)) = fit(required, room, segment.sack_len, segment.padding_behind_accecn()).filter(|_| sends) else {
            return;
        };
        let bytes = if is_syn { [0; 3] } else { self.received_bytes };
        let counter = |codepoint: u8| {
            let at = usize::from(codepoint) - 1;
            bytes[at].wrapping_add(FIRST_BYTES[at]) & 0xff_ffff
        };
        let mut option = accecn::Repr { ect_1_first: true, len: counters, counters: [counter(ECT_1), counter(CE), counter(ECT_0)] };
        option.counters[usize::from(counters)..].fill(0);
        let with_room = segment.mp.set_accecn(&option);
        debug_assert!(with_room || !segment.has_ts, "what fits into a header with timestamps fits beside MPTCP's options");
        if with_room && !is_syn {
            segment.sack_len = blocks;
            (self.required, self.told_duplicate) = (0, duplicate(segment));
        }
    }

    /// Bytes of SACK blocks and of the option on a data segment, where `blocks` of the former fit
    /// and `room` is left beside all others.
    pub(in crate::tcp) fn reserved(&self, setting: u8, room: u32, blocks: u8) -> u32 {
        let sack = |blocks: u8| sack_bytes(u32::from(blocks));
        let padding = if blocks > 0 { 2 } else { 0 };
        let fitting =
            if self.sends_options(setting) { fit(self.required, room.saturating_sub(sack(blocks)), blocks, padding) } else { None };
        fitting.map_or(sack(blocks), |(counters, blocks)| sack(blocks) + accecn::wire_len(counters, padding))
    }

    // As data sender.

    /// Packets do not say that they may be marked.
    #[inline]
    pub(in crate::tcp) fn is_mangled(&self) -> bool {
        self.is_mangled
    }

    /// A segment is taken, whose acknowledgement is looked at next. `is_newer`: by its timestamp.
    #[inline]
    pub(in crate::tcp) fn hear(&mut self, segment: &Segment, is_newer: bool) {
        self.heard = Some(Heard { ace: segment.ace(), option: segment.mp.accecn(), is_newer });
    }

    /// The segment that is being looked at has the option.
    #[inline]
    pub(in crate::tcp) fn hears_option(&self) -> bool {
        self.heard.is_some_and(|heard| heard.option.is_some())
    }

    /// The field of a segment that tells of no marks beside those (Linux: `__tcp_fast_path_on`).
    pub(in crate::tcp) fn expected_ace(delivered_ce: u32) -> u8 {
        (delivered_ce.wrapping_add(FIRST_CEP) & ACE_MASK) as u8
    }

    /// The next ACK that is owed leaves at once.
    #[inline]
    pub(in crate::tcp) fn take_haste(&mut self) -> bool {
        std::mem::take(&mut self.hastens)
    }

    /// How many packets were marked, of which the peer has told `delivered_ce` before: what the field
    /// says, and where it may have wrapped, what the option and the number of packets make of it
    /// (RFC 9768 section 3.2.2.5.2 and appendix A).
    pub(in crate::tcp) fn on_ack(&mut self, delivered_ce: u32, told: &Delivered) -> u32 {
        let Some(heard) = self.heard.take().filter(|heard| told.progresses | heard.is_newer) else { return 0 };
        let ce_bytes_before = self.delivered_bytes[usize::from(CE) - 1];
        let knows_bytes = self.take_option(heard.option.as_ref(), told);
        if told.packets > 0 {
            self.smooth(told.packets);
        }
        let delta = u32::from(heard.ace).wrapping_sub(FIRST_CEP).wrapping_sub(delivered_ce) & ACE_MASK;
        // Linux asks on its slow path alone.
        self.hastens |= self.untold_ce >= MAX_UNTOLD && (heard.option.is_some() || delta > 0);
        if told.packets <= ACE_MASK {
            return delta;
        }
        let safe = told.packets - (told.packets.wrapping_sub(delta) & ACE_MASK);
        if !knows_bytes {
            return if self.acked_ewma > THINNED << 6 { delta } else { safe };
        }
        let ce_bytes = self.delivered_bytes[usize::from(CE) - 1].wrapping_sub(ce_bytes_before);
        if ce_bytes == 0 {
            return delta;
        }
        if told.packets >= 2 * (ACE_MASK + 1) && told.is_exact {
            if told.bytes <= ce_bytes {
                return safe;
            }
            // RFC 9768 appendix A.2.2: as many wraps as the share of marked bytes makes likely.
            let likely = (u64::from(ce_bytes) * u64::from(told.packets)).div_ceil(u64::from(told.bytes)) as u32;
            return safe.min(delta + (likely & !ACE_MASK));
        }
        // RFC 9768 appendix A.2.2, with a safety factor of two.
        if ce_bytes <= delta * told.mss && ce_bytes < (safe * told.mss) >> 1 { delta } else { safe }
    }

    fn smooth(&mut self, packets: u32) {
        let sample = packets << 6;
        self.acked_ewma = if self.acked_ewma == 0 { sample } else { (self.acked_ewma * 63 + sample) >> 6 }.min(0xffff);
    }

    /// What the option says of bytes; true if the counters can be used.
    fn take_option(&mut self, option: Option<&accecn::Repr>, told: &Delivered) -> bool {
        if self.ignores_options {
            return false;
        }
        let Some(option) = option else {
            if self.seen == Seen::Nothing {
                self.ignores_options = told.bytes_sent >= LATEST_OPTION;
            } else if self.estimate != NOT_ECT {
                let counter = &mut self.delivered_bytes[usize::from(self.estimate) - 1];
                *counter = counter.wrapping_add(told.bytes);
                return true;
            }
            return false;
        };
        if self.seen < Seen::Counters {
            self.see(option);
        }
        let estimate = self.estimate;
        let (mut is_ambiguous, mut has_changed) = (false, false);
        for (codepoint, counter) in option.iter() {
            let at = usize::from(codepoint) - 1;
            let ahead = counter.wrapping_sub(FIRST_BYTES[at]).wrapping_sub(self.delivered_bytes[at]) << 8;
            // 24 bits with a sign.
            let delta = ahead as i32 >> 8;
            self.delivered_bytes[at] = self.delivered_bytes[at].wrapping_add_signed(delta);
            is_ambiguous |= delta < 0;
            if delta != 0 && codepoint != estimate {
                is_ambiguous |= std::mem::replace(&mut has_changed, true);
                if !is_ambiguous {
                    self.estimate = codepoint;
                }
            }
        }
        if is_ambiguous {
            self.estimate = NOT_ECT;
        }
        estimate != NOT_ECT && !is_ambiguous
    }
}

/// What a SYN/ACK or the ACK of one has for AE, CWR and ECE when what it answers came so (RFC 9768
/// table 2).
const fn reflection(codepoint: u8) -> u8 {
    [0b010, 0b011, 0b100, 0b110][(codepoint & CE) as usize]
}

/// How a SYN or SYN/ACK came whose answer has these flags (RFC 9768 section 3.1.3 for those that
/// have no meaning yet).
const fn reflected(ace: u8) -> u8 {
    match ace {
        0b010 => NOT_ECT,
        0b100 | 0b000 => ECT_0,
        0b110 => CE,
        _ => ECT_1,
    }
}

/// Where the first block begins, if it is a duplicate (RFC 2883 section 4).
fn duplicate(segment: &Segment) -> Option<Seq> {
    let [first, others @ ..] = segment.sack() else { return None };
    let is_inside = |next: &SackBlock| !first.start.before(next.start) && !first.end.after(next.end);
    (first.start.before(segment.ack) || others.first().is_some_and(is_inside)).then_some(first.start)
}

/// How many counters go into so many bytes, `required` at least, and how many SACK blocks stay: of
/// three or four one goes for it (Linux: `tcp_options_fit_accecn`). `padding`: before the next
/// option, which may hold the end.
fn fit(required: u8, mut room: u32, mut blocks: u8, padding: u32) -> Option<(u8, u8)> {
    loop {
        let fitting = (required..=accecn::COUNTERS as u8).rev().find(|&counters| accecn::wire_len(counters, padding) <= room);
        if let Some(counters) = fitting {
            return Some((counters, blocks));
        }
        if required == 0 || blocks <= 2 {
            return None;
        }
        blocks -= 1;
        room += SACK_BLOCK_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Delivered = Delivered { packets: 1, bytes: 1000, progresses: true, mss: 1000, is_exact: true, bytes_sent: 0 };

    fn option(counters: [u32; 3]) -> accecn::Repr {
        accecn::Repr { ect_1_first: true, len: 3, counters }
    }

    /// A segment with this field and option, as the peer of a server sends it.
    fn segment(ace: u8, counters: Option<[u32; 3]>) -> Segment {
        let mut segment = Segment { flags: Flags::ACK, window_scale: 255, ..Segment::default() };
        segment.set_ace(ace);
        if let Some(counters) = counters {
            segment.mp.set_accecn(&option(counters));
        }
        segment
    }

    /// What a sender makes of an ACK of so many segments with this field and option.
    fn told(accecn: &mut AccEcn, before: u32, packets: u32, ace: u8, counters: Option<[u32; 3]>) -> u32 {
        accecn.hear(&segment(ace, counters), false);
        accecn.on_ack(before, &Delivered { packets, bytes: packets * 1000, ..ONE })
    }

    #[test]
    fn a_syn_is_told_to_have_come_as_it_has() {
        for codepoint in [NOT_ECT, ECT_1, ECT_0, CE] {
            assert_eq!(reflected(reflection(codepoint)), codepoint, "RFC 9768 table 2");
        }
    }

    #[test]
    fn a_codepoint_that_cannot_have_become_another_is_mangled() {
        let third_ack = |left, came| {
            let mut accecn = AccEcn { syn_sent: left, ..AccEcn::default() };
            let marked = accecn.on_third_ack(&segment(reflection(came), None));
            (marked, accecn.is_mangled())
        };
        assert_eq!(
            [(ECT_0, CE), (ECT_0, ECT_1), (NOT_ECT, NOT_ECT)].map(|(left, came)| third_ack(left, came)),
            [(1, false), (0, false), (0, false)]
        );
        assert_eq!([(NOT_ECT, CE), (ECT_0, NOT_ECT), (CE, ECT_0)].map(|(left, came)| third_ack(left, came)), [(0, true); 3]);
        let mut wiped = AccEcn::default();
        assert_eq!((wiped.on_third_ack(&segment(0, None)), wiped.is_mangled()), (0, true));
    }

    #[test]
    fn marks_are_counted_modulo_eight_and_told_once() {
        let mut accecn = AccEcn::default();
        let edges: Vec<bool> = [ECT_0, ECT_0, CE, CE, CE, ECT_0].map(|codepoint| accecn.on_packet(codepoint, 1000)).to_vec();
        assert_eq!(edges, [true, false, true, false, false, true]);
        assert_eq!((accecn.untold_ce, accecn.tell(), accecn.untold_ce), (3, 0, 0));
        assert_eq!(accecn.received_bytes, [0, 3000, 3000]);
    }

    #[test]
    fn an_ack_without_progress_tells_nothing() {
        let mut accecn = AccEcn::default();
        accecn.hear(&segment(6, None), false);
        assert_eq!(accecn.on_ack(0, &Delivered { progresses: false, packets: 0, ..ONE }), 0);
        accecn.hear(&segment(6, None), true);
        assert_eq!(accecn.on_ack(0, &Delivered { progresses: false, packets: 0, ..ONE }), 1, "its timestamp is newer");
    }

    #[test]
    fn a_field_that_may_have_wrapped_is_taken_for_the_safe_side() {
        let mut accecn = AccEcn::default();
        assert_eq!(told(&mut accecn, 0, 1, 5, None), 0);
        assert_eq!(told(&mut accecn, 0, 7, 4, None), 7, "seven segments cannot wrap it");
        assert_eq!(told(&mut accecn, 7, 9, 5, None), 9, "one mark, or nine");
        let mut thinned = AccEcn::default();
        assert_eq!(told(&mut thinned, 0, 9, 6, None), 1, "ACKs cover nine segments here");
    }

    #[test]
    fn bytes_tell_whether_it_has_wrapped() {
        let mut accecn = AccEcn::default();
        assert_eq!(told(&mut accecn, 0, 1, 5, Some([1, 0, 1001])), 0);
        assert_eq!(told(&mut accecn, 0, 9, 5, Some([1, 0, 10_001])), 0, "no byte was marked");
        assert_eq!(told(&mut accecn, 0, 9, 6, Some([1, 9000, 10_001])), 9);
        assert_eq!(told(&mut accecn, 9, 9, 7, Some([1, 10_000, 18_001])), 1);
        assert_eq!(told(&mut accecn, 10, 20, 4, Some([1, 15_000, 33_001])), 5, "a quarter of twenty");
        // A counter wraps at 24 bits.
        accecn.delivered_bytes = [0, 0xff_ffff, 0];
        accecn.ignores_options = false;
        told(&mut accecn, 15, 1, 4, Some([1, 0, 1000]));
        assert_eq!(accecn.delivered_bytes[1], 0x100_03e7);
    }

    #[test]
    fn counters_of_zeros_are_not_read() {
        let mut accecn = AccEcn::default();
        told(&mut accecn, 0, 1, 5, Some([0, 0, 0]));
        assert_eq!((accecn.seen, accecn.ignores_options), (Seen::Zeroed, true));
    }

    #[test]
    fn the_option_takes_the_room_that_is_left() {
        assert_eq!(
            [40, 12, 11, 8, 7, 4, 3].map(|room| fit(0, room, 0, 0).map(|(counters, _)| counters)),
            [Some(3), Some(3), Some(2), Some(2), Some(0), Some(0), None]
        );
        assert_eq!((fit(3, 8, 2, 2), fit(3, 4, 3, 2), fit(3, 4, 4, 2)), (None, Some((3, 2)), Some((3, 3))));
    }
}
