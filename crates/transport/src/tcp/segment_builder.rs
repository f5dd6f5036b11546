//! What a segment of an endpoint looks like: SYN, data, ACK. Of a burst only the first segment is
//! written whole.

use super::handshake::Offer;
use super::sender::Leaving;
use super::timer::Timer;
use super::{Socket, State};
use polypath_base::{Bytes, DataSeq, Instant, Seq};
use polypath_wire::{Dss, Flags, MAX_OPTIONS, SACK_BLOCK_BYTES, SACK_BYTES, Sack, Segment, sack_bytes};

/// What the caller's slot for a segment holds: as long as it is valid, the next segment of a burst
/// is made by patching it.
#[derive(Debug, Default)]
pub(super) struct Template {
    /// It holds the new data that was sent last; what follows that at the same time differs in few
    /// fields.
    pub(super) is_valid: bool,
    /// When that left.
    made_at: Instant,
    /// Only those fields were written the last time.
    is_patched: bool,
    /// What left last was formed before the data of a segment counted.
    pub(super) is_formed: bool,
}

impl Template {
    /// What leaves at `now` may be written over it.
    #[inline]
    pub(super) fn is_valid_at(&self, now: Instant) -> bool {
        self.is_valid && self.made_at == now
    }

    /// New data has been written whole at `now`.
    #[inline]
    pub(super) fn validate(&mut self, now: Instant) {
        (self.is_valid, self.made_at) = (true, now);
    }
}

/// A mapping as it stands in a DSS option (RFC 8684 section 3.3).
struct Mapping {
    dsn: DataSeq,
    /// First byte, as an offset in the subflow's sequence space.
    ssn: u32,
    len: u16,
}

impl Socket {
    #[cold]
    pub(super) fn make_syn(&mut self, now: Instant) -> Segment {
        self.handshake.on_syn_sent(now);
        if !self.handshake.is_fast_open() {
            self.tx.on_syn_sent(self.iss + 1);
        }
        let answering = self.state == State::SynReceived;
        let agreed = Offer { window_scale: self.rx.offered_scale(), timestamps: self.timestamps.ok(), sack: self.tx.sack_ok() };
        let offer = self.handshake.offer().unwrap_or(agreed);
        let mut segment = Segment {
            seq: self.iss,
            ack: if answering { self.rx.next() } else { Seq::default() },
            flags: if answering { Flags::SYN.with(Flags::ACK) } else { Flags::SYN },
            window: self.rx.first_window().min(u32::from(u16::MAX)) as u16, // not scaled (RFC 7323 section 2.2)
            df: true,
            has_ts: offer.timestamps,
            ts_val: self.timestamps.at(now),
            ts_ecr: if answering && self.timestamps.ok() { self.rx.ts_recent() } else { 0 },
            mss: self.rx.buffer().advertised_mss() as u16,
            window_scale: offer.window_scale.unwrap_or(255),
            sack_permitted: offer.sack,
            ..Segment::default()
        };
        self.ecn.on_syn(&mut segment, self.tx.ecn_ok(), self.handshake.timeouts(), self.settings.stack.accurate_ecn);
        if !answering {
            segment.len = self.handshake.carried_data();
        }
        if self.ecn.has_feedback() && !self.tx.is_subflow() {
            self.add_accecn_option(&mut segment);
        }
        segment
    }

    #[inline]
    pub(super) fn make_data(&mut self, now: Instant, sent: Leaving, segment: &mut Segment) {
        self.make_bare(now, self.options_beside_data(sent), segment);
        debug_assert!(!(sent.seq + sent.len + u32::from(sent.is_fin)).after(self.tx.snd_nxt()), "what leaves has been counted as sent");
        segment.seq = sent.seq;
        segment.len = sent.len;
        if sent.is_fin {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if self.tx.is_subflow() && sent.len > 0 {
            segment.has_dss = true;
            let Mapping { dsn, ssn, len } = self.mapping(sent);
            segment.dss = Dss { dsn, ssn, map_len: len, ..Dss::default() };
        }
    }

    /// Turns the segment that was sent just before, at the same time, into the next of its burst:
    /// no more than its data differs.
    #[inline]
    pub(super) fn patch_template(&mut self, sent: Leaving, segment: &mut Segment) {
        segment.seq = sent.seq;
        segment.len = sent.len;
        segment.flags = if sent.is_fin { self.ecn.ack_flags().with(Flags::FIN) } else { self.ecn.ack_flags() };
        if segment.has_dss {
            let Mapping { dsn, ssn, len } = self.mapping(sent);
            (segment.dss.dsn, segment.dss.ssn, segment.dss.map_len) = (dsn, ssn, len);
            segment.dss.data_fin = false;
        }
        self.template.is_patched = true;
    }

    /// The mapping of which a segment has data: it may begin before the segment and reach beyond it
    /// (RFC 8684 section 3.3.1).
    #[inline]
    fn mapping(&self, sent: Leaving) -> Mapping {
        Mapping { dsn: sent.map_dsn, ssn: sent.seq.distance(self.iss) - sent.map_offset, len: sent.map_len }
    }

    /// In a debug build: the segment is what [`Socket::make_data`] makes, but for the window and
    /// options that are the meta connection's.
    #[inline]
    pub(super) fn debug_check_patched(&mut self, now: Instant, sent: Leaving, segment: &Segment) {
        if cfg!(debug_assertions) {
            let mut whole = Segment::default();
            self.make_data(now, sent, &mut whole);
            if segment.has_dss {
                let Dss { dsn, ssn, map_len, .. } = segment.dss;
                assert_eq!((whole.dss.dsn, whole.dss.ssn, whole.dss.map_len), (dsn, ssn, map_len));
            }
            if self.tx.is_subflow() {
                (whole.window, whole.has_dss, whole.mp) = (segment.window, segment.has_dss, segment.mp);
            }
            whole.dss = segment.dss;
            (whole.ecn, whole.mp) = (segment.ecn, segment.mp);
            // A duplicate is told of once, and on all of its burst, as the options of a GSO burst
            // are.
            (whole.sack_blocks, whole.sack_len) = (segment.sack_blocks, segment.sack_len);
            assert_eq!(whole, *segment, "a segment that follows differs in its data only");
            self.template = Template { is_valid: true, is_patched: true, made_at: now, is_formed: false };
        }
    }

    /// The last segment was one of a burst, and the slot for it was left as it was but for its
    /// data.
    #[inline]
    pub(crate) fn is_patched(&self) -> bool {
        self.template.is_patched
    }

    /// The last segment was formed before, and has its connection's options.
    #[inline]
    pub(crate) fn was_formed(&mut self) -> bool {
        std::mem::take(&mut self.template.is_formed)
    }

    /// What is in the caller's slot is not known: the next segment is written whole.
    #[inline]
    pub(crate) fn invalidate_template(&mut self) {
        self.template = Template::default();
    }

    /// A segment without data; whatever ACK was due is served by it.
    #[inline]
    pub(super) fn make_ack(&mut self, now: Instant, segment: &mut Segment) {
        self.make_bare(now, self.ack_option_bytes, segment);
        segment.seq = self.acceptable_seq();
        self.ecn.reflect(segment);
    }

    /// What a segment without data has for its number: the peer may have shrunk its window so far
    /// that it would not take one after all that was sent (RFC 9293 section 3.10.7.4). A window that
    /// is scaled may lack what rounding took (Linux: `tcp_acceptable_seq`).
    #[inline]
    fn acceptable_seq(&self) -> Seq {
        let (next, end) = (self.tx.snd_nxt(), self.tx.window_end());
        let rounding = self.rx.offered_scale().map_or(0, |scale| (1 << scale) - 1);
        if self.tx.obeys_window() && next.after(end + rounding) { end } else { next }
    }

    /// What data and ACKs have in common, with the SACK blocks that have room beside so many bytes of
    /// MPTCP's options.
    #[inline(never)]
    fn make_bare(&mut self, now: Instant, mptcp_options: u32, segment: &mut Segment) {
        self.invalidate_template();
        if self.rx.on_ack_sent() {
            self.tx.timers.disarm(Timer::DelayedAck);
            self.tx.timers.disarm(Timer::CompressedAck);
        }
        *segment = Segment {
            seq: self.tx.snd_nxt(),
            ack: self.rx.next(),
            flags: self.ecn.ack_flags(),
            ecn: self.ecn.plain_codepoint(self.tx.ecn_ok()),
            window: self.rx.window_field(),
            df: self.tx.dont_fragment(),
            has_ts: self.timestamps.ok(),
            ts_val: self.timestamps.at(self.tx.stamp(now)),
            ts_ecr: self.rx.ts_recent(),
            window_scale: 255,
            ..Segment::default()
        };
        if self.tx.sack_ok() && self.rx.has_sacks() {
            let mut sack = Sack::default();
            let room = self.sack_room(mptcp_options);
            self.rx.out_of_order().write_sack(&mut sack, room);
            segment.set_sack(&sack);
        }
        if self.ecn.has_feedback() {
            self.ecn.tell_accurately(segment);
            if !self.tx.is_subflow() {
                self.add_accecn_option(segment);
            }
        }
    }

    /// The ACK that tells of a change in the marks, if one has to leave before the one that is due.
    #[inline]
    pub(super) fn make_ce_change_ack(&mut self, now: Instant, segment: &mut Segment) -> bool {
        let Some((number, echo)) = self.ecn.take_ce_change_ack() else { return false };
        self.make_ack(now, segment);
        segment.ack = number;
        if !self.ecn.has_feedback() {
            segment.flags = if echo { Flags::ACK.with(Flags::ECE) } else { Flags::ACK };
        }
        self.rx.acks_mut().ack_now();
        true
    }

    /// MPTCP's options go before SACK blocks (Linux: `tcp_established_options`), and a mapping is
    /// longer than what a pure ACK has.
    #[inline]
    fn options_beside_data(&self, sent: Leaving) -> u32 {
        let is_mapped = self.tx.is_subflow() & (sent.len > 0);
        if is_mapped { self.tx.mptcp_options().as_u32() } else { self.ack_option_bytes }
    }

    /// SACK blocks that fit into the options beside timestamps and so many bytes of MPTCP's.
    #[inline]
    pub(super) fn sack_room(&self, mptcp_options: u32) -> u8 {
        (self.option_room(mptcp_options).saturating_sub(SACK_BYTES) / SACK_BLOCK_BYTES).min(4) as u8
    }

    /// Bytes of options that are left beside timestamps and so many of MPTCP's.
    #[inline]
    fn option_room(&self, mptcp_options: u32) -> u32 {
        MAX_OPTIONS.saturating_sub(self.timestamps.bytes() + mptcp_options)
    }

    /// Data segments leave room for the SACK blocks that are to stand on them (Linux:
    /// `tcp_current_mss`).
    #[cold]
    pub(super) fn reserve_sack_options(&mut self) {
        let blocks = if self.tx.sack_ok() { self.rx.out_of_order().blocks() } else { 0 };
        let mptcp_options = self.tx.mptcp_options().as_u32();
        let fitting = blocks.min(u32::from(self.sack_room(mptcp_options)));
        let room = self.option_room(mptcp_options);
        let reserved = match self.ecn.feedback() {
            Some(feedback) => feedback.reserved(self.settings.ecn_option, room, fitting as u8),
            None => sack_bytes(fitting),
        };
        self.tx.set_sack_options(Bytes::from_u32(reserved));
    }

    /// Adds the AccECN option to a segment that has all others: the last one takes what room is left
    /// (Linux: `tcp_established_options`).
    #[cold]
    pub(crate) fn add_accecn_option(&mut self, segment: &mut Segment) {
        let setting = self.settings.ecn_option;
        if let Some(accecn) = self.ecn.feedback() {
            accecn.add_option(setting, segment);
        }
    }

    /// Both ends have accurate ECN.
    #[inline]
    pub(crate) fn has_accurate_ecn(&self) -> bool {
        self.ecn.has_feedback()
    }
}
