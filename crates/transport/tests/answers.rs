//! What an endpoint answers to segments that are out of place, as Linux 6.12 did when it was asked
//! (`specs/notes/endpoint-answers`).

use polypath_base::{Bytes, Duration, Instant, Seq};
use polypath_transport::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188, Stack};
use polypath_transport::tcp::{Config, Context, Socket, State};
use polypath_transport::{Rejections, Settings};
use polypath_wire::{Flags, SackBlock, Segment};

const PEER: Seq = Seq::new(10_000);
const OURS: Seq = Seq::new(1000);
const DAY: u64 = 24 * 3600 * 1000;

/// An endpoint and a peer that sends it whatever a test wants. Numbers are absolute: the peer's
/// first is 10 000, ours 1000.
struct Script {
    now: Instant,
    end: Socket,
    /// The timestamps of the peer's segments; none without.
    ts: Option<u32>,
}

impl Script {
    fn new(timestamps: bool) -> Self {
        let settings = Settings { timestamps, ..Settings::default() };
        let algorithm = polypath_cc::find("reno").expect("the algorithm exists");
        let end = Socket::server(Config { settings: settings.into(), algorithm, mtu: Bytes::new(1500), initial_seq: OURS });
        Self { now: Instant::ZERO + Duration::from_millis(100), end, ts: timestamps.then_some(1000) }
    }

    fn segment(&self, flags: Flags, seq: Seq, ack: Seq, len: u32) -> Segment {
        let (has_ts, ts_val) = (self.ts.is_some(), self.ts.unwrap_or(0));
        Segment { seq, ack, len, flags, has_ts, ts_val, window: 65_535, window_scale: 255, mss: 1460, ..Segment::default() }
    }

    /// What it answers within `ms`, as (flags, sequence number, acknowledgement).
    fn wait(&mut self, ms: u64) -> Vec<(Flags, Seq, Seq)> {
        let (end, mut answers) = (self.now + Duration::from_millis(ms), Vec::new());
        loop {
            while let Some(s) = self.end.poll_transmit(Context::at(self.now)) {
                answers.push((s.flags, s.seq, s.ack));
            }
            let due = self.end.poll_timeout();
            if due > end {
                self.now = end;
                return answers;
            }
            self.now = self.now.max(due);
            self.end.handle_timeout(Context::at(self.now));
        }
    }

    fn send(&mut self, flags: Flags, seq: Seq, ack: Seq, len: u32) -> Vec<(Flags, Seq, Seq)> {
        let segment = self.segment(flags, seq, ack, len);
        self.end.handle_segment(Context::at(self.now), &segment);
        self.wait(0)
    }

    /// The answer's acknowledgement, if there is one answer and it is a bare ACK.
    fn ack(&mut self, flags: Flags, seq: Seq, ack: Seq, len: u32) -> Option<Seq> {
        let answers = self.send(flags, seq, ack, len);
        assert!(answers.len() <= 1, "{answers:?}");
        answers.first().map(|&(flags, seq, ack)| {
            assert_eq!((flags, seq), (Flags::ACK, self.end.sender().snd_nxt()));
            ack
        })
    }

    fn established(timestamps: bool) -> Self {
        let mut script = Self::new(timestamps);
        assert_eq!(script.send(Flags::SYN, PEER, Seq::new(0), 0).len(), 1);
        script.wait(10);
        script.send(Flags::ACK, PEER + 1, OURS + 1, 0);
        assert_eq!(script.end.state(), State::Established);
        script
    }
}

#[test]
fn time_wait_answers_a_repeated_fin_for_a_minute_after_the_last() {
    let mut script = Script::established(false);
    script.end.close();
    assert_eq!(script.wait(0).len(), 1, "our FIN");
    script.send(Flags::ACK, PEER + 1, OURS + 2, 0);
    let fin = Flags::FIN.with(Flags::ACK);
    assert_eq!(script.ack(fin, PEER + 1, OURS + 2, 0), Some(PEER + 2));
    assert_eq!(script.end.state(), State::TimeWait);
    for after in [1, 1, 30_000, 55_000, 59_900] {
        script.wait(after);
        assert_eq!(script.ack(fin, PEER + 1, OURS + 2, 0), Some(PEER + 2), "{after} ms after the last");
    }
    assert_eq!(script.ack(Flags::ACK, PEER + 2, OURS + 2, 0), None, "in its place");
    assert_eq!(script.ack(Flags::ACK, PEER, OURS + 2, 0), Some(PEER + 2), "an old one");
    assert_eq!(script.ack(Flags::ACK, PEER, OURS + 2, 0), None, "twice a second at most");
    assert_eq!(script.end.poll_timeout(), Instant::NEVER, "nothing is due");
    script.wait(62_100); // a minute on the timer wheel
    assert_eq!(script.send(fin, PEER + 1, OURS + 2, 0), [(Flags::RST, OURS + 2, Seq::new(0))]);
    assert_eq!(script.end.state(), State::Closed);
}

#[test]
fn a_syn_with_fin_is_dropped() {
    let mut script = Script::new(false);
    assert!(script.send(Flags::SYN.with(Flags::FIN), PEER, Seq::new(0), 0).is_empty());
    assert_eq!(script.end.state(), State::Listen);
}

#[test]
fn a_reset_in_time_wait_ends_it_if_it_is_in_place() {
    let mut script = Script::established(false);
    script.end.close();
    script.wait(0);
    script.send(Flags::FIN.with(Flags::ACK), PEER + 1, OURS + 2, 0);
    assert_eq!(script.end.state(), State::TimeWait);
    script.send(Flags::RST, PEER + 100, Seq::new(0), 0);
    assert_eq!(script.end.state(), State::TimeWait);
    script.send(Flags::RST, PEER + 2, Seq::new(0), 0);
    assert_eq!(script.end.state(), State::Closed);
}

#[test]
fn a_syn_is_reset_only_by_who_acknowledges_it() {
    let open = || {
        let mut script = Script::new(false);
        let algorithm = polypath_cc::find("reno").expect("the algorithm exists");
        script.end = Socket::client(Config { settings: Settings::default().into(), algorithm, mtu: Bytes::new(1500), initial_seq: OURS });
        script.end.open(script.now);
        assert_eq!(script.wait(10).len(), 1);
        script
    };
    for (flags, ack) in [(Flags::RST, OURS + 1), (Flags::RST.with(Flags::ACK), OURS + 7), (Flags::SYN.with(Flags::ACK), OURS + 7)] {
        let mut script = open();
        let reset = if flags.has(Flags::SYN) { &[(Flags::RST, ack, Seq::new(0))][..] } else { &[] };
        assert_eq!(script.send(flags, PEER, ack, 0), reset, "{flags:?} {ack}");
        assert_eq!(script.end.state(), State::SynSent, "{flags:?} {ack}");
        // Whatever remembers an earlier connection is gone by now: the SYN goes again at once.
        let again = script.wait(20).len();
        assert_eq!(again, usize::from(flags != Flags::RST), "{flags:?} {ack}");
    }
    let mut script = open();
    script.send(Flags::RST.with(Flags::ACK), Seq::new(0), OURS + 1, 0);
    assert_eq!(script.end.state(), State::Closed);
}

#[test]
fn a_reset_or_a_syn_in_the_window_draws_a_challenge_ack_twice_a_second() {
    let mut script = Script::established(false);
    let here = Some(PEER + 1);
    assert_eq!(script.ack(Flags::RST, PEER + 101, Seq::new(0), 0), here);
    assert_eq!(script.ack(Flags::RST, PEER + 201, Seq::new(0), 0), None, "at once again");
    script.wait(470);
    assert_eq!(script.ack(Flags::RST, PEER + 101, Seq::new(0), 0), None);
    script.wait(40);
    assert_eq!(script.ack(Flags::RST, PEER + 101, Seq::new(0), 0), here);
    script.wait(600);
    assert_eq!(script.ack(Flags::SYN, PEER + 101, Seq::new(0), 0), here);
    assert_eq!(script.ack(Flags::SYN, PEER + 101, Seq::new(0), 0), None);
    script.wait(600);
    assert_eq!(script.ack(Flags::SYN, PEER, Seq::new(0), 0), here, "before the window");
    script.wait(600);
    assert_eq!(script.ack(Flags::RST, PEER - 99, Seq::new(0), 0), None, "outside the window");
    assert_eq!(script.end.state(), State::Established);
    script.send(Flags::RST, PEER + 1, Seq::new(0), 0);
    assert_eq!(script.end.state(), State::Closed);
}

#[test]
fn old_data_is_always_answered_and_an_old_ack_twice_a_second() {
    let mut script = Script::established(false);
    let here = Some(PEER + 1);
    assert_eq!(script.ack(Flags::ACK, PEER - 1, OURS + 1, 0), here);
    assert_eq!(script.ack(Flags::ACK, PEER - 1, OURS + 1, 0), None);
    assert_eq!(script.ack(Flags::ACK, PEER - 1, OURS + 1, 1), here);
    assert_eq!(script.ack(Flags::ACK, PEER - 1, OURS + 1, 1), here);
}

#[test]
fn what_acknowledges_data_never_sent_is_dropped_whole() {
    let mut script = Script::established(false);
    assert_eq!(script.ack(Flags::ACK, PEER + 1, OURS + 1001, 0), None);
    assert_eq!(script.ack(Flags::ACK, PEER + 1, OURS + 1001, 1), None);
    script.wait(1000);
    assert_eq!(script.end.received().get(), 0);
}

#[test]
fn paws_refuses_what_is_older_but_for_a_step_of_the_clock() {
    let mut script = Script::established(true);
    script.ts = Some(5000);
    assert_eq!(script.ack(Flags::ACK, PEER + 1, OURS + 1, 1), Some(PEER + 2));
    script.ts = Some(4999);
    script.send(Flags::ACK, PEER + 2, OURS + 1, 1);
    assert_eq!(script.end.received().get(), 2);
    script.wait(100);
    script.ts = Some(4998);
    assert_eq!(script.ack(Flags::ACK, PEER + 3, OURS + 1, 1), Some(PEER + 3), "a duplicate ACK");
    assert_eq!(script.ack(Flags::ACK, PEER + 3, OURS + 1, 0), Some(PEER + 3), "it comes after what is known, so it is no overtaken ACK");
    script.ts = Some(4000);
    assert_eq!(script.ack(Flags::ACK, PEER + 3, OURS + 1, 0), None, "twice a second at most");
    assert_eq!(script.ack(Flags::ACK, PEER + 13, OURS + 1, 1), Some(PEER + 3), "data beyond a hole");
    assert_eq!(script.ack(Flags::SYN, PEER + 4, Seq::new(0), 0), None, "a SYN counts among them");
    assert_eq!((script.end.received().get(), script.end.state()), (2, State::Established));
}

#[test]
fn paws_forgets_after_24_days_and_lets_resets_through() {
    let mut script = Script::established(true);
    script.ts = Some(5000);
    script.send(Flags::ACK, PEER + 1, OURS + 1, 1);
    script.wait(23 * DAY);
    script.ts = Some(4000);
    script.send(Flags::ACK, PEER + 2, OURS + 1, 1);
    assert_eq!(script.end.received().get(), 1);
    script.wait(2 * DAY);
    script.send(Flags::ACK, PEER + 2, OURS + 1, 1);
    assert_eq!(script.end.received().get(), 2);
    script.ts = Some(3000);
    script.send(Flags::RST, PEER + 3, Seq::new(0), 0);
    assert_eq!(script.end.state(), State::Closed);
}

#[test]
fn nothing_is_taken_after_the_peers_fin() {
    let mut script = Script::established(false);
    script.send(Flags::FIN.with(Flags::ACK), PEER + 1, OURS + 1, 0);
    assert_eq!(script.end.state(), State::CloseWait);
    script.send(Flags::ACK, PEER + 2, OURS + 1, 100);
    script.wait(1000);
    assert_eq!((script.end.received().get(), script.end.state()), (0, State::CloseWait));
}

/// A path of 50 ms whose round-trip time the endpoint knows well, `phase` half milliseconds after a
/// tick of its clock.
fn warm(stack: &'static Stack, phase: u64) -> Script {
    let settings = Settings { stack, timestamps: false, ..Settings::default() };
    let algorithm = polypath_cc::find("reno").expect("the algorithm exists");
    let mut script = Script::new(false);
    script.end = Socket::server(Config { settings: settings.into(), algorithm, mtu: Bytes::new(1500), initial_seq: OURS });
    script.now = Instant::ZERO + Duration::from_micros(4_000_000 + phase * 500 - 50_000 * 31);
    let syn = Segment { sack_permitted: true, ..script.segment(Flags::SYN, PEER, Seq::new(0), 0) };
    script.end.handle_segment(Context::at(script.now), &syn);
    script.wait(50);
    script.send(Flags::ACK, PEER + 1, OURS + 1, 0);
    for _ in 0..30 {
        script.end.offer(script.now, Bytes::new(1000));
        assert_eq!(script.wait(50).len(), 1);
        let acked = script.end.sender().snd_nxt();
        script.send(Flags::ACK, PEER + 1, acked, 0);
    }
    script
}

/// How long it takes until something leaves, in hundredths of a millisecond.
fn until_it_sends(script: &mut Script) -> u64 {
    let from = script.now;
    while script.wait(0).is_empty() {
        script.now = script.end.poll_timeout();
        script.end.handle_timeout(Context::at(script.now));
    }
    script.now.since(from).as_micros() / 10
}

/// From the last segment to the tail loss probe, at eight phases of the clock.
fn probe_times(stack: &'static Stack) -> Vec<u64> {
    let time = |phase| {
        let mut script = warm(stack, phase);
        script.end.offer(script.now, Bytes::new(4 * 1460));
        assert!(script.wait(0).len() >= 2);
        until_it_sends(&mut script)
    };
    (0..8).map(time).collect()
}

/// From the SACK of the second of three segments to the retransmission of the first, where
/// reordering was seen before.
fn reordering_times(stack: &'static Stack) -> Vec<u64> {
    let three = |script: &mut Script| {
        script.end.offer(script.now, Bytes::new(3 * 1460));
        assert_eq!(script.wait(50).len(), 3);
        let first = script.end.sender().snd_una();
        let mut sack = script.segment(Flags::ACK, PEER + 1, first, 0);
        sack.push_sack(SackBlock { start: first + 1460, end: first + 2920 });
        script.end.handle_segment(Context::at(script.now), &sack);
        first
    };
    let time = |phase| {
        let mut script = warm(stack, phase);
        let first = three(&mut script);
        script.wait(2);
        script.send(Flags::ACK, PEER + 1, first + 3 * 1460, 0);
        // Back to the phase of the clock.
        script.wait(48);
        three(&mut script);
        until_it_sends(&mut script)
    };
    (0..8).map(time).collect()
}

#[test]
fn a_tail_loss_probe_comes_when_linux_6_12_sent_it() {
    // 104.5 to 108 ms: the 27th tick after the one before the last segment, whatever the phase.
    assert_eq!(probe_times(&LINUX_6_12_117), [10_800, 10_750, 10_700, 10_650, 10_600, 10_550, 10_500, 10_450]);
    // Two ticks more than the round trips' 25, and one each for the part of a tick that has gone
    // and for that yet to come.
    assert_eq!(probe_times(&MPTCP_0_96_LINUX_5_4_188), [11_200, 11_150, 11_100, 11_050, 11_000, 10_950, 10_900, 10_850]);
}

#[test]
fn the_reordering_timer_comes_when_linux_6_12s_did() {
    // A quarter of the round trip and 2 ms are four ticks; the SACK comes 2 ms into its tick at
    // phase 0.
    assert_eq!(reordering_times(&LINUX_6_12_117), [1800, 1750, 1700, 1650, 2000, 1950, 1900, 1850]);
    // With two ticks they are six.
    assert_eq!(reordering_times(&MPTCP_0_96_LINUX_5_4_188), [2600, 2550, 2500, 2450, 2800, 2750, 2700, 2650]);
}

/// What `end` has rejected, in the order of the table.
fn rejected(script: &Script) -> Vec<(&'static str, u64)> {
    let rejected = script.end.probe().rejected;
    let all = Rejections::COLUMNS.iter().map(|column| column.field).zip(rejected.values());
    all.filter(|&(_, count)| count > 0).collect()
}

#[test]
fn a_segment_outside_the_window_is_counted() {
    let mut script = Script::established(false);
    script.send(Flags::ACK, PEER - 1, OURS + 1, 1);
    script.send(Flags::ACK, PEER + 10_000_000, OURS + 1, 1);
    assert_eq!(rejected(&script), [("rejected_sequence", 2)]);
}

#[test]
fn a_segment_with_an_old_timestamp_is_counted() {
    let mut script = Script::established(true);
    script.ts = Some(900);
    script.send(Flags::ACK, PEER + 1, OURS + 1, 1);
    script.send(Flags::SYN, PEER + 1, OURS + 1, 0);
    assert_eq!(rejected(&script), [("rejected_timestamp", 2)]);
}

#[test]
fn a_reset_out_of_place_is_counted_inside_the_window_and_outside() {
    let mut script = Script::established(false);
    script.send(Flags::RST, PEER + 100, Seq::new(0), 0);
    script.send(Flags::RST, PEER - 100, Seq::new(0), 0);
    assert_eq!(rejected(&script), [("rejected_rst", 2)]);
    script.send(Flags::RST, PEER + 1, Seq::new(0), 0);
    assert_eq!((rejected(&script), script.end.state()), (vec![("rejected_rst", 2)], State::Closed));
}

#[test]
fn a_syn_on_a_connection_is_counted_but_a_repeated_one_of_its_handshake_is_not() {
    let mut script = Script::new(false);
    script.send(Flags::SYN, PEER, Seq::new(0), 0);
    script.send(Flags::SYN, PEER, Seq::new(0), 0);
    script.send(Flags::ACK, PEER + 1, OURS + 1, 0);
    assert_eq!(rejected(&script), []);
    script.send(Flags::SYN, PEER, Seq::new(0), 0);
    assert_eq!(rejected(&script), [("rejected_syn", 1)]);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_and_a_segment_without_one_are_counted() {
    let mut script = Script::established(false);
    script.send(Flags::ACK, PEER + 1, OURS + 1001, 1);
    script.send(Flags::default(), PEER + 1, Seq::new(0), 1);
    assert_eq!(rejected(&script), [("rejected_ack", 2)]);
}

#[test]
fn what_answers_no_syn_is_counted() {
    let mut script = Script::new(false);
    script.send(Flags::ACK, PEER, OURS, 0);
    assert_eq!((rejected(&script), script.end.state()), (vec![("rejected_handshake", 1)], State::Listen));
}

#[test]
fn payload_after_the_peers_fin_and_segments_of_a_closed_connection_are_counted() {
    let mut script = Script::established(false);
    script.send(Flags::FIN.with(Flags::ACK), PEER + 1, OURS + 1, 0);
    script.send(Flags::ACK, PEER + 2, OURS + 1, 100);
    assert_eq!(rejected(&script), [("rejected_closed", 1)]);
    script.send(Flags::RST, PEER + 2, Seq::new(0), 0);
    script.send(Flags::ACK, PEER + 2, OURS + 1, 0);
    assert_eq!(rejected(&script), [("rejected_closed", 2)]);
}
