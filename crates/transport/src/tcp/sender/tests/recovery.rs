//! Timeouts, F-RTO, undo and proportional rate reduction.

use super::*;

// The retransmission timeout: RFC 6298 section 5, RFC 5681 section 3.1, RFC 8985 section 6.3.

#[test]
fn a_timeout_leaves_a_window_of_one_segment() {
    let mut test = without_probes();
    test.send(10);
    assert_eq!((test.at(299), test.at(300)), (String::new(), "0'".to_owned()));
    assert_eq!((test.state(), test.windows()), (CaState::Loss, (1, 5)));
    assert_eq!(test.tx.scoreboard.lost_out(), 10);
}

#[test]
fn what_left_just_before_a_timeout_is_not_lost() {
    // RFC 8985 section 6.3; Linux: `tcp_timeout_mark_lost`.
    let mut test = without_probes();
    test.send(5);
    test.at(100);
    test.ack(1);
    test.at(350);
    test.send(3);
    assert_eq!((test.at(399), test.at(400)), (String::new(), "1'".to_owned()));
    assert_eq!(test.tx.scoreboard.lost_out(), 4, "5 to 7 have been out for 50 ms of the round trip's 100");
}

#[test]
fn each_timeout_doubles_the_next() {
    let mut test = without_probes();
    test.send(1);
    assert_eq!(test.at(300), "0'");
    assert_eq!((test.at(899), test.at(900)), (String::new(), "0'".to_owned()));
    assert_eq!((test.at(2099), test.at(2100)), (String::new(), "0'".to_owned()));
}

#[test]
fn timeouts_in_a_row_halve_the_threshold_once() {
    let mut test = without_probes();
    test.send(10);
    test.at(900);
    assert_eq!((test.tx.counters.timeouts, test.windows()), (2, (1, 5)));
}

#[test]
fn progress_ends_the_backoff() {
    let mut test = without_probes();
    test.send(2);
    test.at(900);
    assert_eq!(test.tx.consecutive_timeouts(), 2);
    test.at(1000);
    test.ack(1);
    assert_eq!(test.tx.consecutive_timeouts(), 0);
}

#[test]
fn a_sacked_head_at_a_timeout_means_reneging() {
    // RFC 2018 section 8.
    let mut test = without_probes();
    test.send(3);
    test.at(100);
    test.sack(0, &[(1, 3)]);
    test.at(127);
    test.ack(1);
    assert_eq!(test.tx.scoreboard.sacked_out(), 2);
    // Half a round trip later.
    test.at(200);
    assert_eq!((test.state(), test.tx.scoreboard.sacked_out(), test.tx.counters.timeouts), (CaState::Loss, 0, 1));
}

#[test]
fn karns_rule_takes_no_sample_of_a_retransmission() {
    // RFC 6298 section 3.
    let mut test = without_probes();
    test.send(1);
    test.at(300);
    test.at(310);
    test.ack(1);
    assert_eq!(test.tx.srtt(), ROUND_TRIP);
}

// F-RTO: RFC 5682 section 3.1.

/// A timeout with data behind it that has not left.
fn timed_out(frto: bool) -> TestSender {
    let mut test = TestSender::with(|settings| (settings.tail_loss_probe, settings.frto) = (false, frto));
    test.send(30);
    assert_eq!(test.at(300), "0'");
    test.at(350);
    test
}

#[test]
fn step_2a_a_duplicate_ack_leaves_it_to_retransmission() {
    let mut test = timed_out(true);
    assert_eq!((test.ack(0), test.state()), (String::new(), CaState::Loss));
}

#[test]
fn step_2b_an_ack_that_advances_lets_two_new_segments_go() {
    let mut test = timed_out(true);
    assert_eq!((test.ack(1), test.state()), ("10 11".to_owned(), CaState::Loss));
}

#[test]
fn step_3a_a_duplicate_ack_then_retransmits_what_is_lost() {
    let mut test = timed_out(true);
    test.ack(1);
    test.at(450);
    assert!(test.sack(1, &[(10, 11)]).starts_with("1'"));
    assert_eq!((test.state(), test.tx.counters.spurious_undos), (CaState::Loss, 0));
}

#[test]
fn step_3b_an_ack_of_what_was_sent_once_undoes_the_timeout() {
    let mut test = timed_out(true);
    test.ack(1);
    test.at(360);
    test.ack(2);
    assert_eq!((test.state(), test.tx.counters.spurious_undos, test.tx.scoreboard.lost_out()), (CaState::Open, 1, 0));
    assert!(test.windows().0 >= 10 && test.windows().1 == cc::SSTHRESH_INFINITE);
    assert_eq!(test.tx.counters.retransmissions, 1);
}

#[test]
fn without_frto_the_first_ack_retransmits_on() {
    let mut test = timed_out(false);
    assert_eq!((test.ack(1), test.state()), ("1' 2'".to_owned(), CaState::Loss));
}

#[test]
fn frto_with_nothing_new_to_send_retransmits_on() {
    let mut test = without_probes();
    test.send(10);
    test.at(300);
    test.at(350);
    assert_eq!((test.ack(1), test.tx.loss.frto_goes_on()), ("1' 2'".to_owned(), false));
}

#[test]
fn frto_whose_new_data_the_window_holds_back_retransmits_on() {
    let mut test = timed_out(true);
    test.window = 9 * MSS;
    assert_eq!((test.ack(1), test.tx.loss.frto_goes_on()), ("1' 2'".to_owned(), false));
}

// Undo: by timestamps (RFC 3522 section 3.2), by DSACKs (RFC 3708 section 3).

#[test]
fn an_echo_from_before_the_timeout_undoes_it() {
    let mut test = timed_out(false);
    test.echo = Some(0);
    test.ack(1);
    assert_eq!((test.state(), test.tx.counters.spurious_undos, test.tx.scoreboard.lost_out()), (CaState::Open, 1, 0));
}

#[test]
fn an_echo_of_the_retransmission_does_not() {
    let mut test = timed_out(false);
    test.echo = Some(300);
    test.ack(1);
    assert_eq!((test.state(), test.tx.counters.spurious_undos), (CaState::Loss, 0));
}

#[test]
fn an_echo_from_before_a_fast_retransmission_undoes_it() {
    let mut test = ten_out();
    test.sack(0, &[(1, 4)]);
    test.at(110);
    test.echo = Some(0);
    test.ack(10);
    assert_eq!((test.state(), test.tx.counters.spurious_undos), (CaState::Open, 1));
    assert!(test.windows().0 >= 10);
}

/// Segment 0 was retransmitted without need; all has arrived.
fn retransmitted_in_vain() -> TestSender {
    let mut test = only(10);
    test.at(100);
    assert_eq!(test.sack(0, &[(1, 4)]), "0'");
    test.at(110);
    test.ack(10);
    assert_eq!((test.state(), test.windows()), (CaState::Open, (6, 5)));
    test
}

#[test]
fn a_duplicate_for_each_retransmission_undoes_the_reduction() {
    let mut test = retransmitted_in_vain();
    test.at(210);
    test.sack(10, &[(0, 1)]);
    assert_eq!((test.windows().0, test.tx.counters.spurious_undos), (10, 1));
}

#[test]
fn a_duplicate_of_something_older_does_not() {
    let mut test = TestSender::new();
    test.send(20);
    test.at(100);
    test.ack(10);
    test.at(200);
    test.sack(10, &[(11, 14)]);
    test.at(210);
    test.sack(20, &[(0, 1)]);
    assert_eq!((test.tx.counters.dsacks_received, test.tx.counters.spurious_undos), (1, 0));
}

#[test]
fn more_duplicates_than_retransmissions_are_doubted() {
    let mut test = only(10);
    test.at(100);
    test.ack(2);
    let delivered = test.tx.flow.delivered;
    test.sack(2, &[(0, 1)]);
    assert_eq!((test.tx.flow.delivered, test.tx.counters.dsacks_received), (delivered, 1));
}

// Proportional rate reduction: RFC 6937 section 3.

#[test]
fn above_the_threshold_every_other_delivery_lets_a_segment_go() {
    let mut test = ten_out();
    assert_eq!((test.sack(0, &[(1, 4)]), test.windows()), ("0' 10".to_owned(), (8, 5)));
    let next: Vec<String> = (5..11).map(|to| test.sack(0, &[(1, to)])).collect();
    assert_eq!(next, ["", "11", "", "", "12", "13"], "from the fourth on the flight is the threshold");
}

#[test]
fn below_the_threshold_no_more_leaves_than_was_delivered() {
    let mut test = ten_out();
    assert_eq!((test.sack(0, &[(7, 10)]), test.windows()), ("0' 1' 2'".to_owned(), (3, 5)));
}

#[test]
fn an_ack_that_advances_without_a_loss_lets_one_more_go() {
    let mut test = ten_out();
    test.sack(0, &[(7, 10)]);
    test.at(200);
    assert_eq!((test.sack(1, &[(7, 10)]), test.windows().0), ("3' 4'".to_owned(), 4));
}

#[test]
fn before_5_15_only_an_acknowledged_retransmission_did() {
    let mut test = TestSender::with(|settings| settings.stack = &MPTCP_0_96_LINUX_5_4_188);
    test.send(30);
    test.at(100);
    assert_eq!(test.sack(0, &[(7, 10)]), "0' 1' 2'");
    test.at(200);
    assert_eq!(test.sack(1, &[(7, 10)]), "3' 4'", "0 was one");
}

#[test]
fn recovery_ends_with_the_threshold_as_the_window() {
    let mut test = only(10);
    test.at(100);
    test.sack(0, &[(1, 4)]);
    test.at(200);
    test.ack(10);
    // And one segment more for the seven that were delivered, a whole window
    // (RFC 5681 section 3.1).
    assert_eq!((test.state(), test.windows()), (CaState::Open, (6, 5)));
    assert_eq!(test.tx.counters.fast_recoveries, 1);
}

#[test]
fn losses_of_one_window_are_one_reduction() {
    let mut test = ten_out();
    test.sack(0, &[(1, 4)]);
    test.sack(0, &[(6, 9), (1, 4)]);
    assert_eq!((test.tx.counters.fast_recoveries, test.windows().1), (1, 5));
    assert_eq!(test.tx.scoreboard.lost_out(), 3);
}
