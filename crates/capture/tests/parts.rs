//! What a report tells of captures that show a part, and of ends that fall silent.

mod written;

use polypath_base::Seq;
use polypath_wire::{Flags, Segment};
use written::{Capture, answer, plain};

const MSS: u32 = 1460;
/// The windows' scale, where a SYN tells it.
const SHIFT: u8 = 2;

fn syn(capture: &mut Capture, ms: u64, isn: u32) {
    let syn = Segment { flags: Flags::SYN, seq: Seq::new(isn), mss: 1460, window_scale: SHIFT, window: 10_000, ..Segment::default() };
    capture.add(ms, 1, true, &syn);
}

fn syn_ack(capture: &mut Capture, ms: u64, isn: u32, scale: u8) {
    let flags = Flags::SYN.with(Flags::ACK);
    let (seq, ack) = (Seq::new(900), Seq::new(isn + 1));
    capture.add(ms, 1, false, &Segment { flags, seq, ack, mss: 1460, window_scale: scale, window: 10_000, ..Segment::default() });
}

/// In each of 10 times 100 ms four segments, and 83 ms after the last one an answer to them, with a
/// window of so many units.
fn rounds(capture: &mut Capture, window: u16) {
    for round in 0..10 {
        for number in 0..4 {
            capture.add(100 + round * 100 + number, 1, true, &plain((round * 4 + number) as u32 * MSS, MSS));
        }
        capture.add(100 + round * 100 + 86, 1, false, &answer((round * 4 + 4) as u32 * MSS, window));
    }
}

const UNKNOWN: &str =
    "whether the receive window of the server limited the client is not known: the capture has no SYN that tells its scale";

/// The share limited by the server's window, the largest window, and the diagnosis.
fn limits(capture: &Capture) -> (Option<f64>, Option<u64>, Vec<String>) {
    let connection = capture.connection();
    let share = connection.data[0].window_limited_share;
    assert_eq!(share, connection.subflows[0].directions[0].window_limited_share);
    (share, connection.subflows[0].directions[1].window_max, connection.diagnosis)
}

#[test]
fn without_the_syn_it_is_unknown_whether_the_window_limited() {
    // A window of four segments if its scale is known, and of one if it is taken for 0.
    let mut middle = Capture::new(false);
    rounds(&mut middle, MSS as u16);
    assert_eq!(limits(&middle), (None, None, vec![UNKNOWN.to_owned()]));
    // The client's SYN alone does not tell whether the server agreed.
    let mut asked = Capture::new(false);
    syn(&mut asked, 0, 100);
    rounds(&mut asked, MSS as u16);
    assert_eq!(limits(&asked).0, None);
    assert!(limits(&asked).2.iter().any(|sentence| sentence == UNKNOWN), "{:?}", limits(&asked).2);
}

#[test]
fn a_syn_ack_alone_tells_the_scale_of_the_server_and_not_of_the_client() {
    let mut capture = Capture::new(false);
    syn_ack(&mut capture, 20, 100, SHIFT);
    rounds(&mut capture, 4 * MSS as u16);
    let (share, window, diagnosis) = limits(&capture);
    assert_eq!((share.map(|share| share < 0.2), window, diagnosis), (Some(true), Some(16 * u64::from(MSS)), vec![]));
    assert_eq!(capture.connection().subflows[0].directions[0].window_max, None);
    // Without the option on it no window is scaled.
    let mut plain = Capture::new(false);
    syn_ack(&mut plain, 20, 100, 255);
    rounds(&mut plain, 4 * MSS as u16);
    assert_eq!((limits(&plain).1, plain.connection().subflows[0].directions[0].window_max), (Some(4 * u64::from(MSS)), Some(10_000)));
}

#[test]
fn a_closed_window_limits_although_all_is_acknowledged() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    // The window holds 20 segments, and the server reads none of them.
    capture.add(30, 1, false, &answer(0, 20 * MSS as u16 / 4));
    for number in 0..20 {
        capture.add(100, 1, true, &plain(number * MSS, MSS));
    }
    capture.add(100, 1, false, &answer(20 * MSS, 0));
    capture.add(6100, 1, false, &answer(20 * MSS, 10_000));
    capture.add(7100, 1, true, &plain(20 * MSS, MSS));
    let (share, _, diagnosis) = limits(&capture);
    assert_eq!(share, Some(6.0 / 7.0));
    assert_eq!(diagnosis, ["limited by the receive window of the server for 86 % of the 7.00 s in which the client sent its 30.7 kB"]);
}

#[test]
fn a_port_that_is_used_again_without_a_fin_is_another_connection() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    capture.add(100, 1, true, &plain(0, 1000));
    capture.add(120, 1, false, &answer(1000, 10_000));
    // The first SYN again is none, one with another number is.
    syn(&mut capture, 130, 100);
    syn(&mut capture, 1000, 5_000_000);
    syn_ack(&mut capture, 1020, 5_000_000, SHIFT);
    capture.add(1100, 1, true, &plain(4_999_900, 500));
    let report = capture.report();
    let told: Vec<_> = report.connections.iter().map(|connection| (connection.began_s, connection.data[0].sent_bytes)).collect();
    assert_eq!(told, [(0.0, 1000), (1.0, 500)]);
}

#[test]
fn a_capture_of_one_direction_is_told_as_that() {
    let mut capture = Capture::new(false);
    syn(&mut capture, 0, 100);
    for number in 0..20 {
        capture.add(100 + u64::from(number) * 10, 1, true, &plain(number * MSS, MSS));
    }
    // What was sent again may have been answered.
    (0..4).for_each(|number| capture.add(290, 1, true, &plain(number * MSS, MSS)));
    capture.add(300, 1, true, &Segment { flags: Flags::ACK.with(Flags::FIN), ..plain(20 * MSS, 0) });
    let connection = capture.connection();
    assert_eq!(connection.diagnosis, ["10.0.0.1:4000 to 10.0.0.99:80: the capture shows only what the client sent"]);
    assert_eq!(connection.ended.as_deref(), Some("the client closed it with a FIN at 0.300 s"));
    let sent = f64::from(20 * MSS) * 8.0 / 0.19;
    for told in [connection.data[0].goodput_bps, connection.subflows[0].directions[0].goodput_bps] {
        assert!((told - sent).abs() < 1.0, "{told} instead of {sent}");
    }
    assert_eq!((connection.data[0].acked_bytes, connection.data[0].window_limited_share), (0, None));
}

#[test]
fn a_clock_that_goes_back_is_told() {
    let mut capture = Capture::new(false);
    for ms in [1_000_000, 1_000_500, 100_500, 100_600, 1_000_400] {
        capture.add(ms, 1, true, &plain(ms as u32, 100));
    }
    assert_eq!(capture.report().files[0].clock_back_s, 900.0);
    let mut steady = Capture::new(false);
    (0..5).for_each(|number| steady.add(number, 1, true, &plain(number as u32, 1)));
    assert_eq!(steady.report().files[0].clock_back_s, 0.0);
}

#[test]
fn keep_alives_with_a_byte_are_no_retransmissions() {
    let mut capture = Capture::new(false);
    capture.handshake(0, 1, [None; 3]);
    capture.add(100, 1, true, &plain(0, 1000));
    capture.add(200, 1, true, &plain(1000, 1000));
    capture.add(220, 1, false, &answer(2000, 10_000));
    for number in 1..=3 {
        capture.add(number * 60_000, 1, true, &plain(1999, 1));
        capture.add(number * 60_000 + 20, 1, false, &answer(2000, 10_000));
    }
    let sent = &capture.connection().subflows[0].directions[0];
    assert_eq!((sent.keep_alives, sent.retransmissions, sent.retransmitted_bytes, sent.segments), (3, 0, 0, 2));
    assert_eq!(sent.goodput_bps, 2000.0 * 8.0 / 0.1);
    // With the byte in flight it is sent again.
    capture.add(200_000, 1, true, &plain(2000, 1));
    capture.add(200_500, 1, true, &plain(2000, 1));
    let sent = &capture.connection().subflows[0].directions[0];
    assert_eq!((sent.keep_alives, sent.retransmissions), (3, 1));
}
