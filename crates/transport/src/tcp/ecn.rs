//! Explicit Congestion Notification (RFC 3168): its negotiation, the echo of marks, and what the
//! sender does about it.
//!
//! An algorithm that needs ECN (DCTCP, RFC 8257) gets every mark told: the echo then follows the
//! marks, and an ACK leaves at once when they begin or end. Otherwise it is repeated until the
//! sender says that it has reduced its window.

use super::Sender;
use super::receiving::AckPolicy;
use polypath_base::Seq;
use polypath_wire::{Flags, Segment};

/// Codepoints of the IP header (RFC 3168 section 5).
const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// Segments acknowledged one by one after a mark (Linux: `tcp_enter_quickack_mode(sk, 2)`).
const QUICK_ACKS: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Ecn {
    /// `tcp_ecn`: 0 is against it, 1 asks for it, 2 agrees to it.
    setting: u8,
    /// The algorithm wants each mark told, and all packets marked as able.
    accurate: bool,
    /// The algorithm's packets say that they are L4S traffic.
    l4s: bool,
    /// Our SYN asked for it.
    asked: bool,
    /// The peer's packets have said that they are able.
    seen: bool,
    /// To be echoed on every segment.
    echo: bool,
    /// An ACK that leaves before all others: its number, and whether it echoes.
    ce_change_ack: Option<(Seq, bool)>,
}

impl Ecn {
    pub(super) fn new(setting: u8, accurate: bool, l4s: bool) -> Self {
        debug_assert!(setting <= 2, "tcp_ecn is 0, 1 or 2");
        Self { setting, accurate, l4s, ..Self::default() }
    }

    /// What our SYN or SYN/ACK says of it (RFC 3168 section 6.1.1); `agreed`: so far both ends have
    /// it; `is_first`: no answer to one before has been missed.
    #[cold]
    pub(super) fn on_syn(&mut self, segment: &mut Segment, agreed: bool, is_first: bool) {
        if segment.flags.has(Flags::ACK) {
            segment.flags = if agreed { segment.flags.with(Flags::ECE) } else { segment.flags };
        } else if (self.setting == 1 || self.accurate) && is_first {
            // A SYN that is sent again asks no more (Linux: `tcp_ecn_fallback`;
            // RFC 3168 section 6.1.1.1).
            self.asked = true;
            segment.flags = segment.flags.with(Flags::ECE).with(Flags::CWR);
        }
        if self.accurate && (self.asked || agreed) {
            segment.ecn = self.ect();
        }
    }

    /// By the peer's SYN or SYN/ACK both ends have it.
    #[cold]
    pub(super) fn agrees(&self, segment: &Segment) -> bool {
        let (ece, cwr) = (segment.flags.has(Flags::ECE), segment.flags.has(Flags::CWR));
        let agreed = if segment.flags.has(Flags::ACK) {
            self.asked && ece && !cwr
        } else {
            // A SYN that is itself able to be marked comes of a sender that needs more than
            // RFC 3168; Linux agrees only if it does too.
            ece && cwr && (self.accurate || (self.setting != 0 && segment.ecn == NOT_ECT))
        };
        debug_assert!(!agreed || self.accurate || self.setting != 0, "an end whose settings are against it agrees to nothing");
        agreed
    }

    /// The peer has reduced its window (RFC 3168 section 6.1.3); Linux hears of it on any segment.
    #[cold]
    pub(super) fn on_cwr(&mut self, segment: &Segment, acks: &mut AckPolicy) {
        self.echo = false;
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
        if !self.accurate {
            if marked && !self.echo {
                acks.enter_quickack(QUICK_ACKS);
                self.echo = true;
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
            self.echo = marked;
        }
        Some(marked)
    }

    /// The ACK that has to leave before the one that is due.
    #[inline]
    pub(super) fn take_ce_change_ack(&mut self) -> Option<(Seq, bool)> {
        self.ce_change_ack.take()
    }

    /// Flags of every segment.
    #[inline]
    pub(super) fn ack_flags(&self) -> Flags {
        if self.echo { Flags::ACK.with(Flags::ECE) } else { Flags::ACK }
    }

    /// Codepoint of segments without new data.
    #[inline]
    pub(super) fn plain_codepoint(&self, agreed: bool) -> u8 {
        if self.accurate && agreed { self.ect() } else { NOT_ECT }
    }

    /// What says that a packet may be marked (RFC 9331 section 4.1).
    #[inline]
    pub(super) fn ect(&self) -> u8 {
        if self.l4s { ECT_1 } else { ECT_0 }
    }
}

/// Marks a segment with new data as able, and tells that the window was reduced (RFC 3168 section
/// 6.1.2). A FIN alone is no data (Linux: `tcp_ecn_send`).
#[inline]
pub(super) fn mark_new_data(tx: &mut Sender, ect: u8, segment: &mut Segment) {
    if tx.ecn_ok() && segment.len > 0 {
        segment.ecn = ect;
        if tx.take_cwr() {
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
    fn connect(ecn: [u8; 2], accurate: [bool; 2]) -> Net<Socket> {
        let algorithm = cc::find("reno").expect("reno is always there");
        let config = |ecn: u8| {
            let settings = Settings { ecn, tso_bytes: Bytes::ZERO, ..Settings::default() };
            Config { settings: settings.into(), algorithm, mtu: Bytes::new(1500), initial_seq: Seq::new(0) }
        };
        let mut ends = (Socket::client(config(ecn[0])), Socket::server(config(ecn[1])));
        (ends.0.ecn.accurate, ends.1.ecn.accurate) = (accurate[0], accurate[1]);
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
