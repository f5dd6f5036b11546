//! Explicit Congestion Notification (RFC 3168): its negotiation, the echo of marks, and what the
//! sender does about it. Where both ends agree to accurate feedback (RFC 9768), `accurate` tells of
//! marks instead.
//!
//! An algorithm that needs ECN (DCTCP, RFC 8257) gets every mark told: the echo then follows the
//! marks, and an ACK leaves at once when they begin or end. Otherwise it is repeated until the
//! sender says that it has reduced its window.

pub(super) mod accurate;

use super::receiving::AckPolicy;
use crate::Settings;
use accurate::{AccEcn, NOT_ECT};
use accurate::{CE, ECT_0, ECT_1};
use polypath_base::Seq;
use polypath_wire::{Flags, Segment};

/// Segments acknowledged one by one after a mark (Linux: `tcp_enter_quickack_mode(sk, 2)`).
const QUICK_ACKS: u32 = 2;

/// What both ends have agreed to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    None,
    /// RFC 3168.
    Classic,
    /// RFC 9768.
    Accurate,
}

#[derive(Debug, Default)]
pub(super) struct Ecn {
    /// `tcp_ecn`: 0 is against it, 1 asks for it, 2 agrees to it; 3 asks for accurate feedback, 4 for
    /// that of RFC 3168, and they and 5 agree to either.
    setting: u8,
    /// The algorithm wants each mark told, and all packets marked as able (`NEEDS_ECN`).
    needs_ecn: bool,
    /// The algorithm's packets say that they are L4S traffic.
    l4s: bool,
    /// Our SYN asked for it.
    asked: bool,
    /// The peer's packets have said that they are able.
    seen: bool,
    /// To be echoed on every segment.
    echo: bool,
    /// Of every segment, beside AE.
    flags: Flags,
    /// An ACK that leaves before all others: its number, and whether it echoes.
    ce_change_ack: Option<(Seq, bool)>,
    /// Accurate feedback, if both ends have it.
    feedback: Option<Box<AccEcn>>,
}

impl Ecn {
    pub(super) fn new(settings: &Settings, needs_ecn: bool, l4s: bool) -> Self {
        let setting = settings.ecn;
        debug_assert!(setting <= if settings.stack.accurate_ecn { 5 } else { 2 }, "tcp_ecn is 0, 1 or 2, and with accurate ECN up to 5");
        Self { setting, needs_ecn, l4s, flags: Flags::ACK, ..Self::default() }
    }

    /// What our SYN or SYN/ACK says of it (RFC 3168 section 6.1.1, RFC 9768 section 3.1.1);
    /// `agreed`: so far both ends have it; `timeouts`: so many answers have been missed. `gives_up`:
    /// after two a SYN/ACK says nothing of it.
    #[cold]
    pub(super) fn on_syn(&mut self, segment: &mut Segment, agreed: bool, timeouts: u32, gives_up: bool) {
        let asks = matches!(self.setting, 1 | 3 | 4) || self.needs_ecn;
        if self.needs_ecn && (agreed || asks) {
            segment.ecn = self.ect();
        }
        if segment.flags.has(Flags::ACK) {
            if let Some(feedback) = &mut self.feedback {
                segment.set_ace(feedback.on_syn_ack_sent(segment.ecn, timeouts));
            } else if agreed && (timeouts <= 1 || !gives_up) {
                segment.flags = segment.flags.with(Flags::ECE);
            }
            return;
        }
        // A SYN that is sent again asks no more (Linux: `tcp_ecn_fallback`; RFC 3168
        // section 6.1.1.1), but for accurate feedback once (RFC 9768 section 3.1.4.1).
        let accurate = self.setting == 3;
        if asks && timeouts <= u32::from(accurate) {
            self.asked = true;
            segment.set_ace(if accurate { 0b111 } else { 0b011 });
        }
    }

    /// What both ends have by the peer's SYN or SYN/ACK.
    #[cold]
    pub(super) fn agree(&mut self, segment: &Segment) -> Mode {
        let mode = if segment.flags.has(Flags::ACK) { self.mode_by_answer(segment) } else { self.mode_by_syn(segment) };
        debug_assert!(mode == Mode::None || self.needs_ecn || self.setting != 0, "an end whose settings are against it agrees to nothing");
        if mode == Mode::Accurate {
            let mut feedback = Box::<AccEcn>::default();
            if segment.flags.has(Flags::ACK) {
                feedback.on_syn_sent(if self.needs_ecn { self.ect() } else { NOT_ECT });
                feedback.on_syn_ack(segment);
            } else {
                feedback.on_syn(segment.ecn);
            }
            self.feedback = Some(feedback);
            self.renew();
        }
        mode
    }

    /// RFC 9768 table 2.
    fn mode_by_answer(&self, segment: &Segment) -> Mode {
        match segment.ace() {
            _ if !self.asked => Mode::None,
            0b001 => Mode::Classic,
            0b101 if self.setting != 3 => Mode::Classic,
            0b000 | 0b111 => Mode::None,
            _ if self.setting == 3 => Mode::Accurate,
            _ => Mode::None,
        }
    }

    fn mode_by_syn(&self, segment: &Segment) -> Mode {
        let ace = segment.ace();
        // RFC 9768 section 3.1.2: whatever is not the flags of RFC 3168 asks for more.
        if self.setting >= 3 && ace != 0 && ace != 0b011 {
            return Mode::Accurate;
        }
        // A SYN that is itself able to be marked comes of a sender that needs more than RFC 3168;
        // Linux agrees only if it does too, or if the sender asks for accurate feedback.
        let may_agree = self.needs_ecn || (self.setting != 0 && (segment.ecn == NOT_ECT || segment.ae));
        if ace & 0b011 == 0b011 && may_agree { Mode::Classic } else { Mode::None }
    }

    /// The SYN has come again, before its answer was.
    #[cold]
    pub(super) fn on_syn_again(&mut self, segment: &Segment) {
        if let Some(feedback) = &mut self.feedback {
            feedback.on_syn_again(segment);
        }
    }

    /// A SYN has come to a connection that has had one.
    #[cold]
    pub(super) fn on_late_syn(&mut self, segment: &Segment) {
        if let Some(feedback) = &mut self.feedback {
            feedback.on_late_syn(segment);
        }
    }

    // Accurate feedback.

    /// Both ends have it.
    #[inline]
    pub(super) fn has_feedback(&self) -> bool {
        self.feedback.is_some()
    }

    /// What is kept of it.
    #[inline]
    pub(super) fn feedback(&mut self) -> Option<&mut AccEcn> {
        self.feedback.as_deref_mut()
    }

    /// A segment has no flags but ACK and PSH that say anything (Linux: `pred_flags`).
    #[inline]
    pub(super) fn predicts(&self, segment: &Segment, delivered_ce: u32) -> bool {
        if self.feedback.is_none() {
            return segment.flags.0 & !Flags::PSH.0 == Flags::ACK.0;
        }
        let others = segment.flags.0 & !(Flags::PSH.0 | Flags::CWR.0 | Flags::ECE.0);
        others == Flags::ACK.0 && segment.ace() == AccEcn::expected_ace(delivered_ce)
    }

    /// A packet of the peer's has come that may be marked.
    pub(super) fn note_capable(&mut self) {
        self.seen = true;
    }

    /// The flags of segments follow the count of marks.
    pub(super) fn renew(&mut self) {
        if let Some(feedback) = &self.feedback {
            self.flags = Flags(Flags::ACK.0 | (feedback.ace() & 3) << 6);
        }
    }

    /// A segment that leaves says whether it may be marked, and how many were.
    #[cold]
    pub(super) fn tell_accurately(&mut self, segment: &mut Segment) {
        // RFC 9768 section 3.1.5: all packets may be marked, whatever they carry.
        segment.ecn = self.ect();
        if let Some(feedback) = &mut self.feedback {
            segment.set_ace(feedback.tell());
        }
    }

    /// A segment without data leaves, which may have to tell how a SYN came.
    #[inline]
    pub(super) fn reflect(&mut self, segment: &mut Segment) {
        if let Some(reflection) = self.feedback.as_mut().and_then(|feedback| feedback.take_reflection()) {
            segment.set_ace(reflection);
        }
    }

    /// The peer has reduced its window (RFC 3168 section 6.1.3); Linux hears of it on any segment.
    #[cold]
    pub(super) fn on_cwr(&mut self, segment: &Segment, acks: &mut AckPolicy) {
        if self.feedback.is_some() {
            return;
        }
        self.set_echo(false);
        if segment.len > 0 {
            // The sender's window may be down to one segment: it must not wait for a delayed ACK.
            acks.ack_now();
        }
    }

    /// Data has arrived where both ends have ECN; `next` is what was expected before it. Which mark
    /// the algorithm is told of, if it wants each.
    #[inline(never)]
    pub(super) fn on_data(&mut self, next: Seq, segment: &Segment, acks: &mut AckPolicy) -> Option<bool> {
        let marked = segment.ecn == CE;
        if segment.ecn == NOT_ECT {
            if self.seen {
                // A retransmission: RFC 3168 section 6.1.5 lets them go unmarked.
                acks.enter_quickack(QUICK_ACKS);
            }
            return None;
        }
        self.seen = true;
        if !self.needs_ecn {
            if marked && !self.echo && self.feedback.is_none() {
                acks.enter_quickack(QUICK_ACKS);
                self.set_echo(true);
            }
            return None;
        }
        if self.echo != marked {
            // RFC 8257 section 3.2: what waited for an ACK is told with the old state, then the
            // change at once.
            if acks.is_scheduled() {
                self.ce_change_ack = Some((next, self.echo));
            }
            acks.ack_now();
            self.set_echo(marked);
        }
        Some(marked)
    }

    fn set_echo(&mut self, echo: bool) {
        self.echo = echo;
        if self.feedback.is_none() {
            self.flags = if echo { Flags::ACK.with(Flags::ECE) } else { Flags::ACK };
        }
    }

    /// The ACK that has to leave before the one that is due.
    #[inline]
    pub(super) fn take_ce_change_ack(&mut self) -> Option<(Seq, bool)> {
        self.ce_change_ack.take()
    }

    /// Flags of every segment.
    #[inline]
    pub(super) fn ack_flags(&self) -> Flags {
        self.flags
    }

    /// Codepoint of segments without new data.
    #[inline]
    pub(super) fn plain_codepoint(&self, agreed: bool) -> u8 {
        if self.needs_ecn && agreed { self.ect() } else { NOT_ECT }
    }

    /// What says that a packet may be marked (RFC 9331 section 4.1); nothing does where the path
    /// mangles that (RFC 9768 section 3.2.2.3).
    #[inline]
    pub(super) fn ect(&self) -> u8 {
        match (&self.feedback, self.l4s) {
            (Some(feedback), _) if feedback.is_mangled() => NOT_ECT,
            (_, true) => ECT_1,
            (_, false) => ECT_0,
        }
    }

    /// Marks a segment with new data as able; `reduced`: it tells that the window was reduced
    /// (RFC 3168 section 6.1.2). A FIN alone is no data (Linux: `tcp_ecn_send`).
    #[inline]
    pub(super) fn mark_new_data(&self, segment: &mut Segment, reduced: bool) {
        debug_assert!(segment.len > 0, "only data are marked as able");
        segment.ecn = self.ect();
        if reduced {
            segment.flags = segment.flags.with(Flags::CWR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CaState, Config, Socket};
    use super::*;
    use crate::Settings;
    use crate::harness::{CLIENT, Crossing, Direction, Fate, Net, SERVER, change, lose_data};
    use polypath_base::{Bytes, Duration, Instant};
    use polypath_cc as cc;

    /// Two sockets 10 ms apart, with the handshake behind them.
    fn connect(ecn: [u8; 2], needs_ecn: [bool; 2]) -> Net<Socket> {
        let algorithm = cc::find("reno").expect("reno is always there");
        let config = |ecn: u8| {
            let settings = Settings { ecn, tso_bytes: Bytes::ZERO, ..Settings::default() };
            Config { settings: settings.into(), algorithm, mtu: Bytes::new(1500), initial_seq: Seq::new(0) }
        };
        let mut ends = (Socket::client(config(ecn[0])), Socket::server(config(ecn[1])));
        (ends.0.ecn.needs_ecn, ends.1.ecn.needs_ecn) = (needs_ecn[0], needs_ecn[1]);
        let direction = Direction::new(10, 0, 1000);
        let mut net = Net::new(ends.0, ends.1, vec![[direction.clone(), direction]]);
        net.open(Bytes::ZERO);
        net.run_for(Duration::from_millis(50));
        net
    }

    /// Data that begins with one of these segments of 1448 bytes, counted from 0, arrives marked.
    fn mark(numbers: &'static [u32]) -> impl Fn(&mut Crossing<'_>) -> Fate {
        change(|segment| {
            if segment.len > 0 && numbers.iter().any(|number| segment.seq == Seq::new(1 + number * 1448)) {
                assert_eq!(segment.ecn, ECT_0, "only ECT packets are marked");
                segment.ecn = CE;
            }
        })
    }

    fn agreed(net: &Net<Socket>) -> [bool; 2] {
        [net.client.tx.flow().ecn_ok, net.server.tx.flow().ecn_ok]
    }

    /// What an end has sent since `start`.
    fn sent(net: &Net<Socket>, end: usize, start: Instant) -> Vec<Segment> {
        net.log.iter().filter(|l| l.end == end && l.at >= start).map(|l| l.segment).collect()
    }

    #[test]
    fn it_is_used_where_the_client_asks_and_the_server_does_not_refuse() {
        let cases = [(0, 1, false), (2, 1, false), (2, 2, false), (1, 0, false), (1, 1, true), (1, 2, true)];
        for (client, server, expected) in cases {
            let net = connect([client, server], [false; 2]);
            assert_eq!(agreed(&net), [expected; 2], "tcp_ecn {client} at the client, {server} at the server");
            let (syn, answer) = (net.log[0].segment, net.log[1].segment);
            assert_eq!(syn.flags.has(Flags::ECE.with(Flags::CWR)), client == 1);
            assert_eq!((answer.flags.has(Flags::ECE), answer.flags.has(Flags::CWR)), (expected, false));
            assert_eq!((syn.ecn, answer.ecn), (NOT_ECT, NOT_ECT));
        }
    }

    #[test]
    fn a_sender_that_needs_every_mark_is_agreed_with_by_its_like_alone() {
        assert_eq!(agreed(&connect([2, 2], [true, true])), [true; 2]);
        assert_eq!(agreed(&connect([2, 2], [true, false])), [false; 2]);
        assert_eq!(connect([2, 2], [true, true]).log[0].segment.ecn, ECT_0);
    }

    #[test]
    fn an_l4s_senders_packets_say_ect_1() {
        let mut net = connect([2, 2], [true; 2]);
        (net.client.ecn.l4s, net.server.ecn.l4s) = (true, true);
        let start = net.now;
        net.client.offer(start, Bytes::new(1448 * 10));
        net.run_for(Duration::from_millis(100));
        let (data, acks) = (sent(&net, CLIENT, start), sent(&net, SERVER, start));
        assert!(data.len() == 10 && !acks.is_empty() && data.iter().chain(&acks).all(|segment| segment.ecn == ECT_1));
        // What another algorithm could not be told is no L4S traffic.
        assert_eq!(connect([1, 2], [false; 2]).client.ecn.ect(), ECT_0);
    }

    #[test]
    fn a_mark_is_echoed_until_the_sender_has_reduced_its_window_once() {
        let mut net = connect([1, 2], [false; 2]);
        net.paths[0][CLIENT].script(mark(&[2]));
        let (start, cwnd) = (net.now, net.client.tx.flow().cwnd);
        net.client.offer(start, Bytes::new(200_000));
        net.run_for(Duration::from_millis(19));
        let (data, acks) = (sent(&net, CLIENT, start), sent(&net, SERVER, start));
        assert!(data.len() == 10 && data.iter().all(|segment| segment.ecn == ECT_0 && !segment.flags.has(Flags::CWR)));
        let echoes: Vec<bool> = acks.iter().map(|ack| ack.flags.has(Flags::ECE)).collect();
        let first = echoes.iter().position(|&echo| echo).expect("the mark is echoed");
        assert!(first == 2 && echoes[first..].iter().all(|&echo| echo), "{echoes:?}");
        assert!(acks.iter().all(|ack| ack.ecn == NOT_ECT));
        net.run_for(Duration::from_millis(1));
        // Two segments had been acknowledged before.
        assert_eq!((net.client.tx.ca_state(), net.client.tx.flow().ssthresh), (CaState::Cwr, cwnd / 2 + 1));
        // The next new data says so, once, and the echo ends.
        net.run_for(Duration::from_millis(60));
        let cwr = sent(&net, CLIENT, start).iter().filter(|segment| segment.flags.has(Flags::CWR)).count();
        let last = sent(&net, SERVER, start).pop().expect("there are ACKs");
        assert_eq!((cwr, last.flags.has(Flags::ECE)), (1, false));
        let counters = net.client.probe().counters;
        assert_eq!((counters.retransmissions, counters.spurious_undos), (0, 0));
        assert!(net.client.tx.flow().delivered_ce > 0);
        assert!(net.client.tx.ca_state() == CaState::Open && net.client.tx.flow().cwnd <= cwnd);
    }

    #[test]
    fn an_accurate_echo_follows_the_marks() {
        let mut net = connect([2, 2], [true; 2]);
        net.paths[0][CLIENT].script(mark(&[3, 4, 7]));
        let start = net.now;
        net.client.offer(start, Bytes::new(1448 * 10));
        net.run_for(Duration::from_millis(20));
        // By ACK number, in segments: whether it echoes.
        let mut echoes: Vec<(u32, bool)> = Vec::new();
        for ack in sent(&net, SERVER, start) {
            assert_eq!(ack.ecn, ECT_0, "every packet of such a sender may be marked");
            echoes.push((ack.ack.get() / 1448, ack.flags.has(Flags::ECE)));
        }
        let mut marks = [false; 10];
        let mut before = 0;
        for &(number, echo) in &echoes {
            marks[before as usize..number as usize].fill(echo);
            before = number;
        }
        let expected: Vec<bool> = (0..10).map(|number| [3, 4, 7].contains(&number)).collect();
        assert_eq!(marks.to_vec(), expected, "{echoes:?}");
    }

    #[test]
    fn accurate_feedback_counts_each_mark_and_asks_one_reduction_a_round_trip() {
        let stack = &crate::stack::LINUX_7_3_4;
        let settings = Settings { ecn: 3, tso_bytes: Bytes::ZERO, ..Settings::of(stack) };
        let config = Config {
            settings: settings.into(),
            algorithm: cc::find("reno").expect("reno is always there"),
            mtu: Bytes::new(1500),
            initial_seq: Seq::new(0),
        };
        let direction = Direction::new(10, 0, 1000);
        let mut net = Net::new(Socket::client(config.clone()), Socket::server(config), vec![[direction.clone(), direction]]);
        net.open(Bytes::ZERO);
        net.run_for(Duration::from_millis(50));
        let aces: Vec<u8> = net.log.iter().map(|l| l.segment.ace()).collect();
        assert_eq!((aces, agreed(&net)), (vec![0b111, 0b010, 0b010], [true; 2]), "RFC 9768 table 2");
        net.paths[0][CLIENT].script(change(|segment| {
            if segment.len > 0 && [3, 4, 8].iter().any(|number| segment.seq == Seq::new(1 + number * 1436)) {
                segment.ecn = CE;
            }
        }));
        let (start, cwnd) = (net.now, net.client.tx.flow().cwnd);
        net.client.offer(start, Bytes::new(1436 * 10));
        net.run_for(Duration::from_millis(60));
        assert_eq!(net.client.tx.flow().delivered_ce, 3);
        assert_eq!(net.client.tx.flow().ssthresh, cwnd / 2 + 1, "once");
        let (data, acks) = (sent(&net, CLIENT, start), sent(&net, SERVER, start));
        assert!(data.len() == 10 && data.iter().chain(&acks).all(|segment| segment.ecn == ECT_0));
        assert!(data.iter().all(|segment| segment.ace() == 5), "no CWR, and no mark of the peer's");
        let counted = acks.last().and_then(|ack| ack.mp.accecn()).expect("there is room");
        assert_eq!((counted.counters, acks.last().map(Segment::ace)), ([1, 3 * 1436, 7 * 1436 + 1], Some(0)));
    }

    #[test]
    fn retransmissions_and_window_reductions_after_losses() {
        let mut net = connect([1, 1], [false; 2]);
        net.paths[0][CLIENT].script(lose_data([0]));
        let start = net.now;
        net.client.offer(start, Bytes::new(100_000));
        net.run_for(Duration::from_millis(80));
        let data = sent(&net, CLIENT, start);
        let copies: Vec<u8> = data.iter().filter(|segment| segment.seq == Seq::new(1)).map(|segment| segment.ecn).collect();
        assert_eq!(copies, [ECT_0, NOT_ECT], "RFC 3168 section 6.1.5");
        let cwr = data.iter().filter(|segment| segment.flags.has(Flags::CWR)).count();
        assert_eq!(cwr, 1, "a reduction after a loss is told as well");
    }
}
