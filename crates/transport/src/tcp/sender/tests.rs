//! A sender alone: no handshake, no link, no segment's form. Segments are numbered from 0 on, times
//! are milliseconds since the first left. The round trip is 100 ms, the timeout 300 ms, the window
//! 10.
//!
//! What leaves is written as `0 1 2`, a retransmission as `0'`, a window probe as `w`.

mod any_order;
mod recovery;

use super::*;
use crate::stack::MPTCP_0_96_LINUX_5_4_188;
use polypath_wire::SackBlock;

const MSS: u32 = 1448;
const ROUND_TRIP: Duration = Duration::from_millis(100);
const START: Instant = Instant::from_nanos(1_000_000_000);

struct TestSender {
    tx: Sender,
    now: Instant,
    /// The window that the next acknowledgement announces, bytes.
    window: u32,
    ece: bool,
    /// What the next acknowledgement echoes, milliseconds.
    echo: Option<u32>,
}

impl TestSender {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::under("reno", change)
    }

    fn under(algorithm: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { tso_bytes: Bytes::ZERO, tick: Duration::ZERO, ..Settings::default() };
        change(&mut settings);
        let sack = settings.sack;
        let algorithm = cc::find(algorithm).expect("it is built in");
        let mut tx = Sender::new(&Config { settings: settings.into(), algorithm, mtu: Bytes::new(1500), initial_seq: Seq::new(0) });
        let window = 1 << 20;
        tx.set_now(START);
        tx.on_syn_options(Bytes::new(1460), true, sack);
        tx.on_syn_sent(Seq::new(1));
        tx.set_peer_window(window);
        tx.set_window_seq(Seq::new(1));
        tx.start(Seq::new(1), Some(ROUND_TRIP));
        tx.established(Context::at(START), true, false);
        assert_eq!((tx.mss().as_u32(), tx.cwnd()), (MSS, Segments::new(10)));
        Self { tx, now: START, window, ece: false, echo: None }
    }

    /// The application writes so many segments; what leaves.
    fn send(&mut self, segments: u32) -> String {
        self.tx.offer(self.now, Bytes::from_u32(segments * MSS), true);
        self.poll()
    }

    /// Everything before segment `number` is acknowledged; what leaves.
    fn ack(&mut self, number: u32) -> String {
        self.sack(number, &[])
    }

    /// The same with selective acknowledgements from a segment up to another.
    fn sack(&mut self, number: u32, ranges: &[(u32, u32)]) -> String {
        let sacks: Vec<_> = ranges.iter().map(|&(from, to)| SackBlock { start: begins(from), end: begins(to) }).collect();
        self.tx.set_now(self.now);
        self.tx.end_deferral();
        let ack = Ack {
            seq: Seq::new(1),
            number: begins(number),
            window: self.window,
            sacks: &sacks,
            stamps: self.echo.map(|ms| (0, timestamp(START) + ms)),
            carries_data: false,
            ece: self.ece,
            is_predicted: false,
        };
        self.tx.on_ack(Context::at(self.now), &ack, None);
        self.poll()
    }

    /// Time passes up to `ms`; what the timers let go.
    fn at(&mut self, ms: u64) -> String {
        let end = START + Duration::from_millis(ms);
        let mut left = Vec::new();
        while self.tx.timers.next() <= end {
            self.now = self.now.max(self.tx.timers.next());
            self.tx.set_now(self.now);
            for timer in Timer::ALL {
                if self.tx.timers.expire(timer, self.now) && timer == Timer::Retransmission {
                    self.tx.on_timeout(Context::at(self.now));
                }
            }
            left.push(self.poll());
        }
        self.now = end;
        left.retain(|some| !some.is_empty());
        left.join(" ")
    }

    fn poll(&mut self) -> String {
        let mut left = Vec::new();
        while let Some(Leaving { seq, kind, .. }) = self.tx.poll(Context::at(self.now), false) {
            let number = seq.distance(begins(0)) / MSS;
            left.push(match kind {
                Kind::New | Kind::NewOfOtherSize => format!("{number}"),
                Kind::Again => format!("{number}'"),
                Kind::WindowProbe => "w".to_owned(),
            });
        }
        left.join(" ")
    }

    fn state(&self) -> CaState {
        self.tx.ca_state()
    }

    fn windows(&self) -> (u32, u32) {
        (self.tx.flow.cwnd, self.tx.flow.ssthresh)
    }
}

/// Where a segment begins.
fn begins(number: u32) -> Seq {
    Seq::new(1 + number * MSS)
}

/// Ten segments are in the network, twenty more wait, and 100 ms have passed.
fn ten_out() -> TestSender {
    let mut test = TestSender::new();
    assert_eq!(test.send(30), "0 1 2 3 4 5 6 7 8 9");
    assert_eq!(test.at(100), "");
    test
}

/// So many segments are in the network and no more wait.
fn only(segments: u32) -> TestSender {
    let mut test = TestSender::new();
    test.send(segments);
    test
}

fn without_probes() -> TestSender {
    TestSender::with(|settings| settings.tail_loss_probe = false)
}

fn without_sack() -> TestSender {
    TestSender::with(|settings| settings.sack = false)
}

// RACK: RFC 8985 section 6.2.

#[test]
fn a_hole_below_one_sack_waits_for_a_quarter_of_the_least_rtt() {
    let mut test = only(10);
    test.at(100);
    assert_eq!((test.sack(0, &[(1, 2)]), test.state()), (String::new(), CaState::Disorder));
    assert_eq!((test.at(126), test.state()), (String::new(), CaState::Disorder));
    assert_eq!(test.at(127), "0'", "25 ms, and 2 of the timer's granularity");
    assert_eq!(test.state(), CaState::Recovery);
}

#[test]
fn a_hole_below_three_sacks_is_lost_at_once() {
    let mut test = ten_out();
    assert_eq!((test.sack(0, &[(1, 4)]), test.state()), ("0' 10".to_owned(), CaState::Recovery));
}

#[test]
fn what_fills_the_hole_in_time_is_no_loss() {
    let mut test = only(10);
    test.at(100);
    test.sack(0, &[(1, 2)]);
    test.at(110);
    assert_eq!((test.ack(2), test.state()), (String::new(), CaState::Open));
    assert_eq!((test.at(127), test.tx.counters.retransmissions), (String::new(), 0));
}

#[test]
fn once_reordering_was_seen_three_sacks_wait_too() {
    let mut test = only(10);
    test.at(100);
    test.sack(0, &[(1, 2)]);
    test.ack(2);
    assert_eq!((test.sack(2, &[(3, 6)]), test.state()), (String::new(), CaState::Disorder));
    assert_eq!((test.at(126), test.at(127)), (String::new(), "2'".to_owned()));
}

#[test]
fn what_left_later_is_not_lost() {
    let mut test = only(5);
    test.at(50);
    test.send(5);
    test.at(100);
    test.sack(0, &[(1, 4)]);
    assert_eq!(test.tx.scoreboard.lost_out(), 1, "of the second five nothing is known");
}

#[test]
fn a_retransmission_is_lost_if_what_left_after_it_has_arrived() {
    let mut test = ten_out();
    assert_eq!(test.sack(0, &[(1, 4)]), "0' 10");
    test.at(200);
    assert_eq!(test.sack(0, &[(10, 11), (1, 4)]), "0' 4'", "0 again, and 4 to 9 are lost");
    assert_eq!(test.tx.scoreboard.lost_out(), 7);
}

#[test]
fn an_ack_sooner_than_the_least_rtt_is_of_the_original() {
    let mut test = ten_out();
    test.sack(0, &[(1, 4)]);
    test.at(110);
    test.ack(4);
    assert_eq!(test.tx.scoreboard.lost_out(), 0, "what left at 0 is not judged by what left at 100");
}

// Without SACK: RFC 5681 section 3.2, RFC 6582 section 3.2.

#[test]
fn the_third_duplicate_ack_retransmits() {
    let mut test = without_sack();
    test.send(10);
    test.at(100);
    assert_eq!([test.ack(0), test.ack(0), test.ack(0)], ["", "", "0'"]);
    assert_eq!(test.state(), CaState::Recovery);
}

#[test]
fn a_partial_ack_retransmits_the_next_hole() {
    let mut test = without_sack();
    test.send(10);
    test.at(100);
    (0..3).for_each(|_| drop(test.ack(0)));
    test.at(200);
    // PRR holds it back until another segment has left the network (tests/scripts/tcp-limited-transmit.pkt).
    assert_eq!([test.ack(3), test.ack(3)], ["", "3'"]);
    assert_eq!(test.state(), CaState::Recovery);
}

#[test]
fn without_sack_recovery_stays_until_more_than_its_end_is_acknowledged() {
    let mut test = without_sack();
    test.send(10);
    test.at(100);
    (0..3).for_each(|_| drop(test.ack(0)));
    test.at(200);
    assert_eq!((test.ack(10), test.state()), (String::new(), CaState::Recovery));
    test.send(1);
    test.at(300);
    test.ack(11);
    assert_eq!(test.state(), CaState::Open);
}

// The tail loss probe: RFC 8985 section 7.

#[test]
fn a_probe_leaves_after_two_round_trips_and_repeats_the_last_segment() {
    let mut test = only(4);
    assert_eq!((test.at(201), test.at(202)), (String::new(), "3'".to_owned()));
    assert_eq!((test.state(), test.tx.counters.loss_probes), (CaState::Open, 1));
}

#[test]
fn a_probe_is_new_data_if_there_is_any_though_the_window_is_full() {
    let mut test = TestSender::new();
    test.send(20);
    assert_eq!((test.at(202), test.tx.packets_out()), ("10".to_owned(), Segments::new(11)));
}

#[test]
fn a_probe_does_not_overrun_the_peers_window() {
    let mut test = TestSender::new();
    test.tx.set_peer_window(10 * MSS);
    test.send(20);
    assert_eq!(test.at(202), "9'");
}

#[test]
fn the_probe_of_a_lone_segment_allows_for_a_delayed_ack_but_no_more_than_the_timeout() {
    let mut test = only(1);
    assert_eq!((test.at(299), test.at(300)), (String::new(), "0'".to_owned()));
    assert_eq!((test.tx.counters.loss_probes, test.tx.counters.timeouts), (1, 0));
}

#[test]
fn a_timeout_follows_one_probe() {
    let mut test = only(4);
    test.at(202);
    assert_eq!((test.at(501), test.at(502)), (String::new(), "0'".to_owned()));
    assert_eq!((test.tx.counters.loss_probes, test.tx.counters.timeouts), (1, 1));
}

#[test]
fn without_sack_there_is_no_probe() {
    let mut test = without_sack();
    test.send(4);
    assert_eq!((test.at(299), test.at(300), test.tx.counters.loss_probes), (String::new(), "0'".to_owned(), 0));
}

#[test]
fn in_recovery_there_is_no_probe() {
    let mut test = ten_out();
    test.sack(0, &[(1, 4)]);
    test.at(399);
    assert_eq!(test.tx.counters.loss_probes, 0);
}

#[test]
fn a_probe_acknowledged_with_all_before_it_says_nothing_yet() {
    // Section 7.4.2: the original and the probe are acknowledged alike.
    let mut test = only(4);
    test.at(202);
    test.at(302);
    test.ack(4);
    assert_eq!((test.state(), test.windows().0, test.tx.tlp.is_out()), (CaState::Open, 10, true));
}

#[test]
fn a_probe_that_repaired_a_loss_costs_half_of_the_window_once() {
    let mut test = only(4);
    test.at(202);
    test.at(302);
    test.ack(4);
    assert_eq!(test.send(1), "4");
    test.at(402);
    test.ack(5);
    assert_eq!((test.state(), test.windows()), (CaState::Open, (5, 5)));
}

#[test]
fn a_probe_reported_as_a_duplicate_costs_nothing() {
    let mut test = only(4);
    test.at(202);
    test.send(1);
    test.at(302);
    test.sack(4, &[(3, 4)]);
    test.ack(5);
    assert_eq!((test.state(), test.windows().0, test.tx.tlp.is_out()), (CaState::Open, 10, false));
}

#[test]
fn a_probe_with_new_data_costs_nothing_when_acknowledged() {
    let mut test = TestSender::new();
    test.send(11);
    assert_eq!(test.at(202), "10");
    test.ack(11);
    assert!(test.windows().0 >= 10 && !test.tx.tlp.is_out() && test.state() == CaState::Open);
}

// The table of section 7.4.1: of the last segments of a flight these are lost; A: acknowledged, L:
// lost.

/// Of so many segments the first `arrived` come, and the probe does. What leaves when that is
/// acknowledged.
fn tail(segments: u32, arrived: u32) -> (TestSender, String) {
    let mut test = only(segments);
    test.at(100);
    if arrived > 0 {
        test.ack(arrived);
    }
    let due = if arrived > 0 { 302 } else { 202 };
    assert_eq!((test.at(due - 1), test.at(due)), (String::new(), format!("{}'", segments - 1)));
    test.at(due + 100);
    let left = test.sack(arrived, &[(segments - 1, segments)]);
    (test, left)
}

#[test]
fn aaal_is_repaired_by_the_probe() {
    let mut test = only(4);
    test.at(100);
    test.ack(3);
    assert_eq!((test.at(399), test.at(400)), (String::new(), "3'".to_owned()), "a lone segment's");
    test.at(500);
    test.ack(4);
    test.send(1);
    test.at(600);
    test.ack(5);
    assert_eq!((test.state(), test.windows(), test.tx.counters.timeouts), (CaState::Open, (5, 5), 0));
}

#[test]
fn aall_is_repaired_by_rack() {
    let (test, left) = tail(4, 2);
    assert_eq!((left.as_str(), test.state(), test.tx.counters.timeouts), ("2'", CaState::Recovery, 0));
}

#[test]
fn alll_is_repaired_by_rack() {
    let (mut test, left) = tail(4, 1);
    assert_eq!((left.as_str(), test.tx.scoreboard.lost_out()), ("1'", 2));
    test.at(502);
    assert_eq!((test.sack(2, &[(3, 4)]), test.tx.counters.timeouts), ("2'".to_owned(), 0));
}

#[test]
fn llll_is_repaired_by_rack() {
    let (test, left) = tail(4, 0);
    assert_eq!((left.as_str(), test.tx.scoreboard.lost_out(), test.state()), ("0'", 3, CaState::Recovery));
}

#[test]
fn more_than_four_losses_are_repaired_by_rack() {
    let (test, left) = tail(10, 0);
    assert_eq!((left.as_str(), test.tx.scoreboard.lost_out(), test.state()), ("0'", 9, CaState::Recovery));
}

// ECN: RFC 3168 section 6.1.2.

#[test]
fn an_echoed_mark_reduces_once_a_window_and_is_told_once() {
    let mut test = TestSender::new();
    test.tx.set_ecn(crate::tcp::EcnMode::Classic);
    test.send(10);
    test.at(100);
    test.ece = true;
    test.ack(1);
    assert_eq!((test.state(), test.windows().1), (CaState::Cwr, 5));
    assert!(test.tx.take_cwr() && !test.tx.take_cwr());
    test.ack(2);
    assert_eq!((test.windows().1, test.tx.take_cwr()), (5, false));
}

#[test]
fn an_echoed_mark_that_was_not_agreed_on_is_ignored() {
    let mut test = ten_out();
    test.ece = true;
    test.ack(1);
    assert_eq!(test.state(), CaState::Open);
}

// The peer's window: RFC 9293 section 3.8.6.1.

#[test]
fn a_closed_window_is_probed_at_doubling_intervals() {
    let mut test = ten_out();
    test.window = 0;
    assert_eq!(test.ack(10), "");
    assert_eq!((test.at(399), test.at(400)), (String::new(), "w".to_owned()));
    assert_eq!((test.at(999), test.at(1000)), (String::new(), "w".to_owned()));
}

#[test]
fn a_window_that_opens_lets_data_go() {
    let mut test = ten_out();
    test.window = 0;
    test.ack(10);
    test.at(400);
    test.window = 3 * MSS;
    assert_eq!(test.ack(10), "10 11 12");
}

#[test]
fn an_old_ack_does_not_take_the_window_back() {
    let mut test = ten_out();
    test.ack(2);
    test.window = 0;
    test.ack(1);
    assert_eq!(test.tx.peer_window().as_u32(), 1 << 20);
}

#[test]
fn an_ack_of_what_was_never_sent_changes_nothing() {
    let mut test = ten_out();
    assert_eq!((test.ack(11), test.tx.snd_una(), test.tx.packets_out()), (String::new(), begins(0), Segments::new(10)));
}

// The window: RFC 5681 sections 3.1 and 4.1, pacing.

#[test]
fn slow_start_doubles_the_window_in_a_round_trip() {
    let mut test = ten_out();
    test.ack(10);
    assert_eq!((test.windows().0, test.tx.packets_out()), (20, Segments::new(20)));
}

/// Linux 6.1 and later: `tcp_event_new_data_sent` looks after each burst, so the buffer grows while a
/// further one still fits the window.
#[test]
fn a_subflows_buffer_grows_between_the_bursts_that_an_ack_lets_go() {
    let grown = |acked: u32| {
        let mut test = ten_out();
        test.tx.is_subflow = true;
        test.tx.set_writer_blocked(true);
        let before = test.tx.sndbuf();
        (test.ack(acked).split(' ').count(), test.tx.sndbuf() > before, test.tx.in_flight() == test.tx.cwnd())
    };
    assert_eq!([grown(0), grown(1)], [(1, false, true), (2, true, true)]);
}

#[test]
fn after_idle_the_window_begins_anew() {
    for (restarts, leave) in [(true, 10), (false, 30)] {
        let mut test = TestSender::with(|settings| settings.slow_start_after_idle = restarts);
        test.send(30);
        test.at(100);
        test.ack(10);
        test.at(200);
        test.ack(30);
        test.at(2000);
        assert_eq!(test.send(30).split(' ').count(), leave);
    }
}

#[test]
fn the_window_decays_for_each_buffer_that_begins_before_the_first_has_left() {
    for (buffers, has_left, cwnd) in [(1, false, 40), (2, false, 20), (4, false, 10), (4, true, 80)] {
        let mut test = only(1);
        test.at(100);
        test.ack(1);
        test.at(400);
        (test.tx.is_subflow, test.tx.flow.cwnd) = (true, 80);
        let bytes = Bytes::from_u32(buffers * test.tx.buffer_goal());
        test.tx.push_mapping(test.now, DataSeq::new(1), bytes, true, has_left);
        assert_eq!(test.windows().0, cwnd, "{buffers} buffers");
    }
}

#[test]
fn pacing_holds_back_what_the_window_would_let_go() {
    let mut test = TestSender::new();
    (test.tx.flow.pacing, test.tx.flow.max_pacing_rate) = (1, u64::from(MSS) * 100);
    test.send(30);
    test.at(100);
    assert_eq!((test.ack(2), test.tx.in_flight()), ("10".to_owned(), Segments::new(9)));
    // A segment takes 10 ms; one that left late makes up for half of that.
    assert_eq!((test.at(104), test.at(105)), (String::new(), "11".to_owned()));
}

#[test]
fn a_fin_leaves_with_the_last_data_and_nothing_after_it() {
    let mut test = TestSender::new();
    test.tx.offer(test.now, Bytes::from_u32(2 * MSS), true);
    test.tx.close();
    let leaving: Vec<Leaving> = std::iter::from_fn(|| test.tx.poll(Context::at(test.now), false)).collect();
    assert_eq!(leaving.iter().map(|one| one.is_fin).collect::<Vec<_>>(), [false, true]);
    assert_eq!((test.send(1), test.tx.fin_sent()), (String::new(), true));
}

// The send buffer (Linux: `tcp_new_space`).

#[test]
fn a_full_window_leaves_the_send_buffer_as_it_is() {
    let mut test = TestSender::with(|settings| settings.tso_bytes = Bytes::new(65_536));
    test.send(1000);
    let sndbuf = test.tx.sndbuf();
    test.at(100);
    assert_eq!((test.ack(1), test.tx.sndbuf()), ("10 11".to_owned(), sndbuf), "one burst fills the window");
    assert_eq!(test.ack(3), "12 13 14 15");
    assert!(test.tx.sndbuf() > sndbuf, "the first of two bursts does not");
}

#[test]
fn a_writer_is_woken_once_what_may_leave_has_left() {
    let mut test = TestSender::new();
    test.send(1000);
    let accepted = test.tx.accepted();
    test.at(100);
    let left = test.ack(10);
    assert_eq!(left.split(' ').count(), 20, "{left}");
    assert!(test.tx.accepted() > accepted && test.tx.unsent() > Bytes::ZERO, "it has written since");
}

#[test]
fn a_writer_that_finds_no_room_marks_the_end_of_what_it_has_written() {
    // Linux: `tcp_push` before `sk_stream_wait_memory`. A mark is due after half of the window of 1 MiB
    // at the latest, which is later.
    let mut test = TestSender::new();
    test.send(1000);
    let waiting = test.tx.unsent().get() as usize / MSS as usize;
    let queue = &mut test.tx.queue;
    let pushed: Vec<usize> = (1..=waiting)
        .filter(|_| {
            queue.next_new(queue.next_new_len(MSS));
            queue.take_push()
        })
        .collect();
    assert!(waiting > 10, "{waiting} segments");
    assert_eq!(pushed, [waiting]);
}

// What the host knows of the route: RFC 8201 section 5.2; Linux: `tcp_current_mss`.

#[test]
fn the_routes_mtu_counts_until_it_expires() {
    let mut test = only(1);
    let learnt = RouteMtu { mtu: Bytes::new(1000), expires: START + Duration::from_secs(600), is_locked: false };
    test.tx.set_route_mtu(test.now, RouteMtu { expires: test.now, ..learnt });
    assert_eq!(test.tx.mss().as_u32(), MSS, "it is forgotten already");
    test.tx.set_route_mtu(test.now, learnt);
    assert_eq!(test.tx.mss().as_u32(), 948);
    test.at(100);
    test.ack(1);
    test.at(600_000);
    test.send(1);
    assert_eq!(test.tx.mss().as_u32(), MSS);
}
