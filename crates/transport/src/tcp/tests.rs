//! Two TCP endpoints over a link of 100 Mbit/s and 10 ms with a queue, in virtual time.

use super::{CaState, Config, Context, Socket, State};
use crate::Settings;
use crate::harness::{self, CLIENT, Direction, SERVER, any_kernel, down, hold_back, lose, lose_data};
use crate::stack::{LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188};
use polypath_base::{Bytes, Duration, Instant, Seq};
use polypath_pmtu::MtuSearch;
use polypath_wire::{Flags, SackBlock, Segment, Unreachable};

type Net = harness::Net<Socket>;

/// Client -> (100 Mbit/s, 167 packets, 10 ms) -> server, and back by delay alone.
fn connect(cc: &str, settings: Settings) -> Net {
    with_mtu(cc, settings, 1500)
}

fn with_mtu(cc: &str, settings: Settings, mtu: u32) -> Net {
    let algorithm = polypath_cc::find(cc).expect("the algorithm exists");
    let config = || Config { settings: settings.clone().into(), algorithm, mtu: Bytes::from_u32(mtu), initial_seq: Seq::new(0) };
    let path = [Direction::new(10, 100, 167), Direction::new(10, 0, 10_000)];
    let mut net = Net::new(Socket::client(config()), Socket::server(config()), vec![path]);
    net.keep_log = false;
    net
}

fn secs(s: f64) -> Instant {
    Instant::from_nanos((s * 1e9) as u64)
}

#[test]
fn the_handshake_takes_one_round_trip() {
    let mut net = connect("reno", Settings::default());
    net.open(Bytes::new(0));
    net.run_until(secs(0.1));
    assert_eq!((net.client.state(), net.server.state()), (State::Established, State::Established));
    assert_eq!(net.client.established_at(), Some(Instant::from_nanos(20_000_000 + (60 + 14) * 80)), "a SYN of 60 bytes");
    assert_eq!(net.client.tx.mss().get(), 1448);
}

/// Linux: `rcv_rtt_last_tsecr`, which an ACK without data sets too, so that the answer to a request
/// measures nothing that the ACK before it could have.
#[test]
fn data_that_echoes_what_an_ack_has_echoed_measures_no_round_trip() {
    let mut net = connect("reno", Settings::default());
    net.open(Bytes::new(1000));
    net.run_until(secs(0.1));
    let end = &mut net.client;
    assert_eq!((end.rx.receiver_rtt_us(), end.rx.advmss()), (0, 1448), "the timestamps are known");
    let echoed = end.timestamps.at(secs(0.08));
    for (echo, measured) in [(echoed, false), (echoed + 1, true)] {
        let data = Segment {
            seq: end.rx.next(),
            ack: end.tx.snd_nxt(),
            len: 1000,
            flags: Flags::ACK,
            window: u16::MAX,
            has_ts: true,
            ts_val: 1_000_000_000,
            ts_ecr: echo,
            ..Segment::default()
        };
        if !measured {
            end.handle_segment(Context::at(net.now), &Segment { len: 0, ..data });
        }
        end.handle_segment(Context::at(net.now), &data);
        assert_eq!(end.rx.receiver_rtt_us() > 0, measured);
    }
    let net = connect("reno", Settings::default());
    assert_eq!(net.client.rx.advmss(), 1460, "in the handshake they are not");
}

#[test]
fn a_transfer_arrives_whole_and_closes() {
    let mut net = connect("reno", Settings::default());
    net.paths[0][CLIENT].queue = 1000;
    net.open(Bytes::new(1_000_000));
    net.client.close();
    net.run_until(secs(5.0));
    assert_eq!(net.server.received().get(), 1_000_000);
    assert!(net.server.peer_finished());
    assert_eq!(net.client.state(), State::FinWait2);
    assert_eq!(net.client.probe().counters.retransmissions, 0);
}

#[test]
fn a_bulk_flow_fills_the_link() {
    for cc in ["reno", "cubic"] {
        let mut net = connect(
            cc,
            Settings {
                rmem: [4096, 131_072, 16 << 20].map(Bytes::new),
                wmem: [4096, 16_384, 16 << 20].map(Bytes::new),
                ..Settings::default()
            },
        );
        net.open(Bytes::new(u64::MAX));
        net.run_until(secs(5.0));
        let before = net.server.received().get();
        net.run_until(secs(30.0));
        let mbps = (net.server.received().get() - before) as f64 * 8e-6 / 25.0;
        let probe = net.client.probe();
        assert!(mbps > 95.0, "{cc}: {mbps}");
        assert_eq!(probe.counters.timeouts, 0);
    }
}

#[test]
fn one_lost_segment_is_repaired_by_sack_without_a_timeout() {
    let mut net = connect("reno", Settings::default());
    net.paths[0][CLIENT].script(lose_data([29]));
    net.open(Bytes::new(300_000));
    net.client.close();
    net.run_until(secs(3.0));
    let counters = net.client.probe().counters;
    assert_eq!(net.server.received().get(), 300_000);
    assert_eq!((counters.retransmissions, counters.timeouts, counters.fast_recoveries), (1, 0, 1));
}

#[test]
fn a_lost_tail_is_found_by_a_probe() {
    let mut net = connect("reno", Settings::default());
    net.paths[0][CLIENT].script(lose_data([20]));
    net.open(Bytes::new(21 * 1448));
    net.run_until(secs(3.0));
    let counters = net.client.probe().counters;
    assert_eq!(net.server.received().get(), 21 * 1448);
    assert_eq!((counters.timeouts, counters.loss_probes), (0, 1));
}

#[test]
fn a_lost_flight_needs_a_timeout() {
    let mut net = connect("reno", Settings { tail_loss_probe: false, ..Settings::default() });
    net.paths[0][CLIENT].script(lose_data(20..40));
    net.open(Bytes::new(40 * 1448));
    net.run_until(secs(5.0));
    let counters = net.client.probe().counters;
    assert_eq!(net.server.received().get(), 40 * 1448);
    assert_eq!(counters.timeouts, 1);
    assert_eq!(net.client.tx.ca_state(), CaState::Open);
}

#[test]
fn reordering_is_undone_and_remembered() {
    let mut net = connect("reno", Settings::default());
    net.paths[0][CLIENT].script(hold_back([(59, Duration::from_millis(8))]));
    net.open(Bytes::new(u64::MAX));
    net.run_until(secs(1.0));
    let probe = net.client.probe();
    assert_eq!(probe.reordering.get(), 11, "{probe:?}");
    // The segment is sent again before it comes; the DSACK for that takes the reduction back, once.
    // What slow start loses later is no reordering.
    assert_eq!((probe.counters.dsacks_received, probe.counters.spurious_undos), (1, 1), "{probe:?}");
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut net = connect("reno", Settings::default());
    net.paths[0][SERVER].script(lose([0]));
    net.open(Bytes::new(0));
    net.run_until(secs(3.0));
    let at = net.client.established_at().expect("established").as_secs_f64();
    assert!((1.0..1.1).contains(&at), "{at}");
}

#[test]
fn a_small_receive_window_limits_and_is_said_to() {
    let mut net = connect("reno", Settings { rmem: [4096, 32_768, 32_768].map(Bytes::new), ..Settings::default() });
    net.open(Bytes::new(u64::MAX));
    net.run_until(secs(3.0));
    let probe = net.client.probe();
    assert!(probe.counters.rwnd_limited > Duration::from_millis(2000), "{probe:?}");
    // A window of 17 kB, what 32 KiB of memory hold, a round trip of 20 ms.
    let mbps = net.server.received().get() as f64 * 8e-6 / 3.0;
    assert!((6.6..7.0).contains(&mbps), "{mbps}");
}

#[test]
fn an_application_that_rests_is_the_limit() {
    let mut net = connect("reno", Settings::default());
    net.open(Bytes::new(100_000));
    net.run_until(secs(2.0));
    let held = net.client.limited(net.now);
    assert_eq!(held.window, Duration::ZERO);
    // 100 kB take four round trips of 20 ms after the handshake.
    assert!((1.8..1.95).contains(&held.application.as_secs_f64()), "{held:?}");
}

#[test]
fn a_paced_flow_keeps_to_its_rate_and_to_a_short_queue() {
    let mut net = connect("bbr", Settings::default());
    net.open(Bytes::new(u64::MAX));
    // Startup fills the queue; after two seconds only probing does, by a quarter of the BDP of
    // 167 segments.
    net.run_until(secs(2.0));
    let mut longest = 0;
    for step in 1..=400 {
        net.run_until(secs(2.0 + f64::from(step) * 0.005));
        longest = longest.max(net.paths[0][CLIENT].queued(net.now));
    }
    assert!((42..75).contains(&longest), "{longest}");
    assert!(net.client.tx.cwnd().get() > 300, "the window is two BDPs and not what limits: {}", net.client.tx.cwnd().get());
    let rate = net.server.received().get() as f64 * 8e-6 / 4.0;
    assert!((92.0..94.5).contains(&rate), "{rate}");
}

#[test]
fn paced_retransmissions_do_not_burst() {
    let mut net = connect("bbr", Settings::default());
    net.open(Bytes::new(u64::MAX));
    net.run_until(secs(3.0));
    let before = net.client.probe().counters.retransmissions;
    let sent = net.paths[0][CLIENT].data_segments;
    net.paths[0][CLIENT].script(lose_data(sent..sent + 40));
    let mut most = 0;
    for step in 1..=500 {
        let sent = net.paths[0][CLIENT].data_segments;
        net.run_until(secs(3.0 + f64::from(step) * 0.001));
        if net.client.tx.ca_state() == CaState::Recovery {
            most = most.max(net.paths[0][CLIENT].data_segments - sent);
        }
    }
    // A burst is a millisecond's worth: 7 segments, 9 while the link is probed. Two fall into one
    // millisecond here and there.
    assert!((14..=18).contains(&most), "{most}");
    assert_eq!((net.client.probe().counters.retransmissions - before, net.client.tx.ca_state()), (40, CaState::Open));
}

#[test]
fn what_an_application_at_a_rate_delivers_says_nothing_of_the_path() {
    // A hundred kilobytes every 50 ms, a sixth of the link: the samples are the application's, and
    // the pacing rate must not fall to them.
    let mut net = connect("bbr", Settings::default());
    net.open(Bytes::new(3_000_000));
    net.run_until(secs(1.0));
    let filled = net.client.tx.pacing_rate().as_bytes_per_sec();
    for step in 0..60 {
        net.client.offer(net.now, Bytes::new(100_000));
        net.run_until(secs(1.0 + 0.05 * f64::from(step + 1)));
    }
    assert!(net.client.tx.pacing_rate().as_bytes_per_sec() > filled / 2, "{} of {filled}", net.client.tx.pacing_rate().as_bytes_per_sec());
    assert!(filled > 5_000_000, "{filled}");
}

#[test]
fn a_too_long_segment_is_cut_after_icmp() {
    let mut net = connect("reno", Settings::default());
    net.paths[0][CLIENT].script(lose_data(0..10));
    net.open(Bytes::new(100_000));
    net.run_until(secs(0.03));
    net.client.handle_unreachable(net.now, &polypath_wire::Unreachable { seq: Seq::new(1), mtu: 1000 });
    net.run_until(secs(3.0));
    assert_eq!(net.client.tx.mss().get(), 948);
    assert_eq!(net.server.received().get(), 100_000);
    assert_eq!(net.client.probe().counters.timeouts, 0);
}

/// A bulk transfer of 20 s with an MTU of 9000 at the ends through a path that drops packets of
/// more than `passes` bytes without a word.
fn black_hole(mtu_probing: u8, passes: u32) -> Net {
    let mut net = with_mtu("reno", Settings { mtu_probing, ..Settings::default() }, 9000);
    net.paths[0][CLIENT].script(harness::black_hole(passes));
    net.open(Bytes::new(u64::MAX));
    net.run_until(secs(20.0));
    net
}

#[test]
fn a_search_from_the_start_finds_what_the_path_passes_and_costs_no_timeout() {
    for passes in [1500, 4321, 9000] {
        let net = black_hole(2, passes);
        let found = net.client.tx.mss().as_u32() + 52;
        assert!(found <= passes && found + 8 > passes, "{found} of {passes}");
        assert_eq!(net.client.probe().counters.timeouts, 0);
        assert!(net.server.received().get() > 100_000_000, "{} bytes", net.server.received().get());
    }
}

#[test]
fn a_silent_black_hole_is_found_after_three_seconds() {
    let mut net = with_mtu("reno", Settings { mtu_probing: 1, ..Settings::default() }, 9000);
    net.paths[0][CLIENT].script(harness::black_hole(1500));
    net.open(Bytes::new(u64::MAX));
    net.run_until(secs(3.0));
    assert_eq!((net.server.received().get(), net.client.tx.mss().get()), (0, 8948));
    net.run_until(secs(20.0));
    assert!(net.server.received().get() > 100_000_000, "{} bytes", net.server.received().get());
    assert!((1441..=1448).contains(&net.client.tx.mss().get()), "{}", net.client.tx.mss().get());
}

/// A bulk transfer of `seconds` as [`black_hole`], with another search than Linux's.
fn searched(mtu_search: MtuSearch, passes: u32, seconds: f64) -> Net {
    let mut net = with_mtu("reno", Settings { mtu_search, ..Settings::default() }, 9000);
    net.paths[0][CLIENT].script(harness::black_hole(passes));
    net.open(Bytes::new(u64::MAX));
    net.run_until(secs(seconds));
    net
}

#[test]
fn every_search_finds_what_a_silent_path_passes() {
    let searches = [MtuSearch::MsquicLinear, MtuSearch::Parallel, MtuSearch::QuicGo, MtuSearch::Quinn, MtuSearch::Table];
    for (search, passes) in searches.into_iter().flat_map(|search| [1280, 1500, 9000].map(|passes| (search, passes))) {
        let net = searched(search, passes, 6.0);
        let (found, counters) = (net.client.tx.mss().as_u32() + 52, net.client.probe().counters);
        // The table has no size between 8191 and 16383; quinn takes losses of slow start while
        // packets grow for a black hole, and waits a minute.
        let least = match (search, passes) {
            (MtuSearch::Quinn, 9000) => 1200,
            (_, 9000) => 8191,
            _ => passes - passes / 15,
        };
        assert!(found <= passes && found >= least, "{search:?}: {found} of {passes}");
        assert!(net.server.received().get() > 30_000_000, "{search:?}, {passes}: {} bytes", net.server.received().get());
        assert!(counters.mtu_probes_arrived + counters.mtu_probes_lost > 0 && counters.timeouts == 0, "{search:?}, {passes}: {counters:?}");
        // msquic's 97 steps take a round trip each: 20 ms, and up to twice as much in the queue.
        assert!(counters.mss_changed < Duration::from_millis(97 * 60), "{search:?}, {passes}: {counters:?}");
    }
}

#[test]
fn a_lost_probe_shrinks_no_window() {
    let net = searched(MtuSearch::Parallel, 1500, 0.12);
    let counters = net.client.probe().counters;
    // One of 9000 bytes, then 4352 and, since 8000 is dear as long as little has arrived, one a
    // little above 1500. Slow start has not ended.
    assert_eq!((net.client.tx.mss().get(), counters.mtu_probes_arrived, counters.mtu_probes_lost), (1448, 1, 3));
    assert_eq!((counters.fast_recoveries, counters.timeouts), (0, 0), "{counters:?}");
    assert_eq!(counters.mtu_probe_bytes, [1500, 9000, 4352, 1511].iter().map(|size| size - 52).sum::<u64>());
}

#[test]
fn a_path_that_becomes_narrow_costs_two_timeouts() {
    let mut net = searched(MtuSearch::Parallel, 9000, 1.0);
    assert_eq!(net.client.tx.mss().get(), 8948);
    net.paths[0][CLIENT].script(harness::black_hole(1500));
    net.run_until(secs(3.0));
    assert_eq!((net.client.tx.mss().get(), net.client.probe().counters.timeouts), (1448, 2));
}

#[test]
fn a_path_narrower_than_the_first_size_is_noticed_at_the_first_timeout() {
    let net = searched(MtuSearch::Parallel, 900, 3.0);
    let found = net.client.tx.mss().get() + 52;
    assert!(found > 885 && found <= 900, "{found}");
    assert_eq!(net.client.probe().counters.timeouts, 1);
    assert!(net.server.received().get() > 20_000_000, "{} bytes", net.server.received().get());
}

#[test]
fn a_forged_message_takes_nothing_from_a_size_that_passes() {
    let mut net = searched(MtuSearch::Parallel, 9000, 1.0);
    for mtu in [0, 68, 576, 1280, 8999] {
        let seq = net.client.tx.snd_una();
        net.client.handle_unreachable(net.now, &Unreachable { seq, mtu });
        assert_eq!(net.client.tx.mss().get(), 8948, "{mtu}");
    }
}

#[test]
fn what_a_probe_met_says_nothing_of_the_packets_that_data_go_in() {
    let mut net = with_mtu("reno", Settings { mtu_search: MtuSearch::Parallel, ..Settings::default() }, 9000);
    net.open(Bytes::new(u64::MAX));
    while net.client.tx.snd_una() == net.client.tx.snd_nxt() || net.client.established_at().is_none() {
        let next = net.now + Duration::from_millis(1);
        net.run_until(next);
    }
    // First a probe of 1500 bytes, then one of 9000, then data.
    let first = net.client.tx.snd_una();
    for (seq, mss) in [(first, 1228), (first + 1448, 1228), (first + 1448 + 8948, 588)] {
        net.client.handle_unreachable(net.now, &Unreachable { seq, mtu: 640 });
        assert_eq!(net.client.tx.mss().get(), mss);
    }
}

/// How long one segment that ends a write waits for its ACK once quick ACKs are used up; the reader
/// waits for this many bytes.
fn ack_of_a_lone_segment(receive_low_water: u64) -> Duration {
    let mut net = connect(
        "reno",
        Settings {
            rmem: [4096, 131_072, 131_072].map(Bytes::new),
            receive_low_water: Bytes::new(receive_low_water),
            ..Settings::default()
        },
    );
    net.open(Bytes::new(0));
    net.run_until(secs(0.1));
    let mut until_acked = |bytes| {
        net.client.offer(net.now, Bytes::new(bytes));
        let start = net.now;
        loop {
            let next = net.now + Duration::from_millis(1);
            net.run_until(next);
            if net.client.tx.everything_acked() && net.client.established_at().is_some() {
                return net.now.since(start);
            }
        }
    };
    until_acked(400 * 1448);
    // A reader that waits for two reads at every second one.
    until_acked(1448).max(until_acked(1448))
}

#[test]
fn a_reader_that_empties_the_buffer_acknowledges_a_pushed_segment_at_once() {
    assert_eq!(ack_of_a_lone_segment(1), Duration::from_millis(21));
    // One that does not come leaves it to the timer for delayed ACKs, at least 40 ms.
    assert!(ack_of_a_lone_segment(2 * 1448) >= Duration::from_millis(61));
}

#[test]
fn in_a_conversation_the_answer_carries_the_ack() {
    let mut net = connect("reno", Settings::default());
    net.open(Bytes::new(1000));
    net.run_until(secs(0.1));
    let mut acks = 0;
    for _ in 0..20 {
        net.client.offer(net.now, Bytes::new(1000));
        let next = net.now + Duration::from_millis(11);
        net.run_until(next);
        acks += net.under_way_to(CLIENT);
        net.server.offer(net.now, Bytes::new(1000));
        let next = net.now + Duration::from_millis(11);
        net.run_until(next);
    }
    // At first nobody knows that answers follow.
    assert_eq!(acks, 1, "lone ACKs of 20 requests");
}

#[test]
fn without_a_search_nothing_passes_a_silent_black_hole() {
    let net = black_hole(0, 1500);
    assert_eq!((net.server.received().get(), net.client.tx.mss().get()), (0, 8948));
}

#[test]
fn the_ack_of_an_earlier_copy_does_not_condemn_what_was_sent_before_the_later_one() {
    let mut net = connect("reno", Settings { tail_loss_probe: false, ..Settings::default() });
    net.open(Bytes::new(0));
    net.run_until(secs(0.1));
    net.paths[0][SERVER].script(down(net.now, Instant::NEVER));
    net.client.offer(net.now, Bytes::new(10 * 1448));
    net.run_until(secs(0.2));
    let answer = |net: &mut Net, acked: u32, sacked: &[(u32, u32)], echo: u32| {
        let mut ack = Segment {
            seq: net.server.tx.snd_nxt(),
            ack: Seq::new(1 + acked * 1448),
            flags: Flags::ACK,
            window: 1000,
            ..Segment::default()
        };
        (ack.has_ts, ack.ts_val, ack.ts_ecr) = (true, (net.now.as_nanos() / 1_000_000) as u32, echo);
        for &(start, end) in sacked {
            ack.push_sack(SackBlock { start: Seq::new(1 + start * 1448), end: Seq::new(1 + end * 1448) });
        }
        net.client.handle_segment(Context::at(net.now), &ack);
        net.drain();
        net.client.probe().counters.retransmissions
    };
    assert_eq!(answer(&mut net, 0, &[(1, 5)], 100), 1, "the first segment goes again at 200 ms");
    net.run_until(secs(0.21));
    net.client.offer(net.now, Bytes::new(10 * 1448));
    assert_eq!(answer(&mut net, 0, &[(1, 7)], 100), 1);
    assert!(net.client.tx.snd_nxt().after(Seq::new(1 + 10 * 1448)), "new data at 210 ms");
    net.run_until(secs(0.23));
    assert_eq!(answer(&mut net, 0, &[(8, 10), (1, 7)], 100), 2, "the eighth at 230 ms");
    net.run_until(secs(0.255));
    // The copy of 200 ms filled the last hole, so the eighth segment's first copy had come, though
    // no ACK told.
    assert_eq!(answer(&mut net, 9, &[(9, 10)], 200), 2, "the data of 210 ms is on its way");
}

#[test]
fn after_a_hole_that_lasted_every_segment_is_acknowledged() {
    let mut net = connect("reno", Settings::default());
    net.open(Bytes::new(0));
    net.run_until(secs(0.1));
    let next = net.client.tx.snd_nxt();
    let mut arrive = |number: u32, ms: u64| {
        let (seq, now) = (next + number * 1000, net.now + Duration::from_millis(ms));
        let mut data = Segment { seq, len: 1000, ack: net.server.tx.snd_nxt(), flags: Flags::ACK, window: 1000, ..Segment::default() };
        (data.has_ts, data.ts_val) = (true, (now.as_nanos() / 1_000_000) as u32);
        net.server.handle_timeout(Context::at(now));
        while net.server.poll_transmit(Context::at(now)).is_some() {}
        net.server.handle_segment(Context::at(now), &data);
        net.server.poll_transmit(Context::at(now)).is_some()
    };
    // The quick ACKs of the start are used up.
    assert!((0..40).map(|n| arrive(n, u64::from(n))).filter(|&answered| !answered).count() > 0);
    for n in 41..80 {
        arrive(n, 10 * u64::from(n));
    }
    assert!(arrive(40, 900), "the hole is filled");
    assert!((80..90).all(|n| arrive(n, 900 + u64::from(n))), "0.8 s after the last arrival in its turn");
}

#[test]
fn a_compressed_ack_leaves_after_a_millisecond_and_the_timers_slack() {
    for (stack, micros) in [(&MPTCP_0_96_LINUX_5_4_188, 1000), (&LINUX_6_12_117, 1100)] {
        let mut net = connect("reno", Settings { stack, rmem: [4096, 131_072, 131_072].map(Bytes::new), ..Settings::default() });
        net.open(Bytes::new(0));
        net.run_until(secs(0.1));
        // The quick ACKs of the start are used up, and the window has its full size but for the
        // room that what begins behind the hole asks for.
        for number in (0..60).chain(61..66) {
            let (seq, ack) = (net.client.tx.snd_nxt() + number * 1000, net.server.tx.snd_nxt());
            let mut data = Segment { seq, len: 1000, ack, flags: Flags::ACK, window: 1000, ..Segment::default() };
            (data.has_ts, data.ts_val, data.ts_ecr) = (true, 100, 80);
            net.server.handle_segment(Context::at(net.now), &data);
            let answered = net.server.poll_transmit(Context::at(net.now)).is_some();
            assert!(number < 60 || answered == (number < 65), "the first is a quick ACK, and the fourth after it is compressed");
        }
        assert_eq!(net.server.poll_timeout(), net.now + Duration::from_micros(micros));
    }
}

#[test]
fn what_still_waits_when_the_first_buffer_is_copied_does_not_count_as_read() {
    let grows = |segments: u32| {
        let mut net = connect("reno", Settings { receive_low_water: Bytes::from_u32(segments * 1448), ..Settings::default() });
        net.open(Bytes::new(0));
        net.run_until(secs(0.1));
        let mut window = 0;
        for number in 0..segments + 6 {
            let (seq, now) = (net.client.tx.snd_nxt() + number * 1448, net.now + Duration::from_millis(u64::from(number) * 5));
            let ms = (now.as_nanos() / 1_000_000) as u32;
            let mut data = Segment { seq, len: 1448, ack: net.server.tx.snd_nxt(), flags: Flags::ACK, window: 1000, ..Segment::default() };
            (data.has_ts, data.ts_val, data.ts_ecr) = (true, ms, ms - 50);
            net.server.handle_segment(Context::at(now), &data);
            while let Some(ack) = net.server.poll_transmit(Context::at(now)) {
                window = u32::from(ack.window) << 7;
            }
        }
        window > 131_072 / 256 * 153
    };
    // Linux 6.12 with a reader that waits for 32 KiB, 23 segments: the first 17 are one buffer,
    // less the 6 that wait hardly more than the initial ten.
    assert!(!grows(23));
    assert!(grows(17));
}

#[test]
fn without_sack_duplicate_acks_find_the_loss() {
    let mut net = connect("reno", Settings { sack: false, ..Settings::default() });
    net.paths[0][CLIENT].script(lose_data([29]));
    net.open(Bytes::new(300_000));
    net.run_until(secs(5.0));
    assert_eq!(net.server.received().get(), 300_000);
    assert_eq!(net.client.probe().counters.timeouts, 0);
}

#[test]
fn the_application_reads_once_all_segments_that_came_at_once_are_handled() {
    // A small buffer has its full window soon: then no segment makes it grow, and none is
    // acknowledged for that.
    let mut net = connect("reno", Settings { rmem: [4096, 131_072, 131_072].map(Bytes::new), ..Settings::default() });
    net.open(Bytes::new(1_000_000));
    // No longer than it takes: after a pause segments are acknowledged one by one.
    net.run_until(secs(0.4));
    let at_rest = net.server.received().get();
    assert_eq!(at_rest, 1_000_000);
    let (cx, len) = (Context::at(net.now), 1448);
    let ack = net.server.tx.snd_nxt();
    let segment = |seq, flags| Segment { seq, len, flags, ack, window: 512, ..Segment::default() };
    let (seq, pushes) = (net.client.tx.snd_nxt(), Flags::ACK.with(Flags::PSH));
    let [last_of_burst, next, alone] = [segment(seq, pushes), segment(seq + len, Flags::ACK), segment(seq + 2 * len, pushes)];
    net.server.handle_segment_before_another(cx, &last_of_burst);
    assert!(net.server.poll_transmit(cx).is_none(), "the reader would acknowledge it, and has not run");
    assert_eq!(net.server.received().get(), at_rest);
    net.server.handle_segment(cx, &next);
    assert_eq!(net.server.poll_transmit(cx).map(|ack| ack.ack), Some(seq + 2 * len));
    assert_eq!(net.server.received().get(), at_rest + 2 * u64::from(len));
    net.server.handle_segment(cx, &alone);
    assert_eq!(net.server.poll_transmit(cx).map(|ack| ack.ack), Some(seq + 3 * len), "the reader acknowledges it");
    // A duplicate behind data that waits for the reader lets it read too.
    net.server.handle_segment_before_another(cx, &segment(seq + 3 * len, Flags::ACK));
    net.server.handle_segment(cx, &alone);
    assert_eq!(net.server.received().get(), at_rest + 4 * u64::from(len));
}

#[test]
fn a_reset_ends_the_connection() {
    let mut net = connect("reno", Settings::default());
    net.open(Bytes::new(10_000));
    net.run_until(secs(0.2));
    let seq = net.server.tx.snd_nxt();
    net.client.handle_segment(Context::at(net.now), &Segment { seq, flags: Flags::RST, ..Segment::default() });
    assert_eq!(net.client.state(), State::Closed);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever is lost or held back, every byte arrives once, the connection ends in order, and
    /// the sender's books balance.
    #[test]
    fn every_byte_arrives_whatever_is_lost(
        lost in proptest::collection::btree_set(1u64..400, 0..60),
        held in proptest::collection::btree_map(1u64..400, 1u64..80, 0..20),
        bytes in 1u64..600_000,
        cc in proptest::sample::select(vec!["reno", "cubic"]),
        queue in 5usize..200,
        sack: bool,
        timestamps: bool,
        kernel in any_kernel(),
        mtu_probing in 0u8..3,
    ) {
        let mut net = connect(cc, Settings { stack: kernel.0, sack, timestamps, mtu_probing, ..Settings::default() });
        net.paths[0][CLIENT].queue = queue;
        net.paths[0][CLIENT].script(lose_data(lost));
        net.paths[0][CLIENT].script(hold_back(held.into_iter().map(|(n, ms)| (n, Duration::from_millis(ms)))));
        net.open(Bytes::new(bytes));
        net.client.close();
        net.run_until(secs(2000.0));
        proptest::prop_assert_eq!(net.server.received().get(), bytes);
        proptest::prop_assert!(net.server.peer_finished());
        proptest::prop_assert_eq!(net.client.tx.in_flight().get(), 0);
        proptest::prop_assert_eq!(net.client.state(), State::FinWait2);
    }
}
