//! Lost packets of a tunnel that come back: two ends, each of whose parities carries the packets of
//! its block, as the simulator's do.

use polypath_base::{Bytes, Duration, Instant, PathId, Seq};
use polypath_tunnel::{
    Endpoint, EndpointConfig, FecConfig, FecCounters, KeepaliveConfig, Message, Parity, ReorderConfig, ReorderCounters, Spreading,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Payload {
    Packet(u32),
    Parity(Vec<u32>),
}

const LEN: Bytes = Bytes::new(1000);
const FEC: FecConfig = FecConfig { packets: 10, parities: 1, timeout: Duration::from_millis(15) };
const PROGRESS: ReorderConfig = ReorderConfig::Progress { max_delay: Duration::from_millis(300), capacity: 1000 };

fn ms(n: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(n)
}

fn config(fec: Option<FecConfig>) -> EndpointConfig {
    EndpointConfig {
        weights: vec![1, 1],
        spreading: Spreading::Turns { batch: 1 },
        reorder: PROGRESS,
        keepalive: KeepaliveConfig::default(),
        mtu: None,
        fec,
    }
}

/// What end 1 gave its host, with the millisecond, and what both ends counted.
struct Run {
    given: Vec<(u32, u64)>,
    sent: FecCounters,
    came: Option<FecCounters>,
    reorder: ReorderCounters,
}

impl Run {
    fn numbers(&self) -> Vec<u32> {
        self.given.iter().map(|&(number, _)| number).collect()
    }
}

/// End 0 sends `count` packets, one a millisecond; the paths take so many milliseconds; `lost`
/// packets are, and so are the parities of blocks that begin with a number in `lost_parities`.
fn run(configs: [EndpointConfig; 2], count: u32, delays: [u64; 2], lost: &[u32], lost_parities: &[u32]) -> Run {
    let [mut sender, mut receiver] = configs.map(|config| Endpoint::<Payload>::new(ms(0), &config).expect("a sound configuration"));
    let (mut block, mut flying, mut back, mut given, mut sent) = (Vec::new(), BTreeMap::new(), BTreeMap::new(), Vec::new(), 0_u64);
    for now in 0..u64::from(count) + 1000 {
        if now < u64::from(count) {
            block.push(now as u32);
            assert!(sender.handle_inner(ms(now), 0, LEN, Payload::Packet(now as u32)));
        }
        protect(&mut sender, now, &mut block);
        if sender.poll_timeout() <= ms(now) {
            sender.handle_timeout(ms(now));
            protect(&mut sender, now, &mut block);
        }
        while let Some((path, message)) = sender.poll_transmit() {
            let is_lost = match &message {
                Message::Data { packet: Payload::Packet(number), .. } => lost.contains(number),
                Message::Parity { parity, .. } => lost_parities.contains(&parity.first),
                _ => false,
            };
            if !is_lost {
                flying.insert((now + delays[usize::from(path.0)], sent), (path, message));
                sent += 1;
            }
        }
        while let Some(entry) = flying.first_entry().filter(|entry| entry.key().0 <= now) {
            let (path, message) = entry.remove();
            receiver.handle_outer(ms(now), path, LEN, message);
            while let Some(recovery) = receiver.poll_recovery() {
                for seq in recovery.missing {
                    let Some((_, Payload::Parity(packets))) = recovery.parities.first() else { panic!("a parity carries packets") };
                    let number = packets[seq.get().wrapping_sub(recovery.block.first) as usize];
                    receiver.handle_recovered(ms(now), seq, Payload::Packet(number));
                }
            }
        }
        if receiver.poll_timeout() <= ms(now) {
            receiver.handle_timeout(ms(now));
        }
        // Reports, for those that need them.
        while let Some((path, message)) = receiver.poll_transmit() {
            back.insert((now + delays[usize::from(path.0)], sent), (path, message));
            sent += 1;
        }
        while let Some(entry) = back.first_entry().filter(|entry| entry.key().0 <= now) {
            let (path, message) = entry.remove();
            sender.handle_outer(ms(now), path, LEN, message);
        }
        while let Some(packet) = receiver.poll_deliver() {
            let Payload::Packet(number) = packet else { panic!("no parity is given to the host") };
            given.push((number, now));
        }
    }
    Run { given, sent: sender.fec_counters().unwrap_or_default(), came: receiver.fec_counters(), reorder: receiver.reorder_counters() }
}

fn protect(sender: &mut Endpoint<Payload>, now: u64, block: &mut Vec<u32>) {
    if let Some(first) = sender.poll_block() {
        assert_eq!((first.index, usize::from(first.packets), first.first), (0, block.len(), block[0]));
        for index in 0..first.parities {
            sender.handle_parity(ms(now), Parity { index, ..first }, LEN, Payload::Parity(block.clone()));
        }
        block.clear();
    }
}

fn both(fec: FecConfig) -> [EndpointConfig; 2] {
    [config(Some(fec)), config(Some(fec))]
}

#[test]
fn a_lost_packet_of_each_block_comes_back_in_its_place() {
    let lost: Vec<u32> = (0..20).map(|block| 10 * block + block % 10).collect();
    let run = run(both(FEC), 200, [5, 5], &lost, &[]);
    assert!(run.numbers().into_iter().eq(0..200), "{:?}", run.reorder);
    let came = run.came.unwrap();
    assert_eq!((run.sent.parities_sent, came.parities_received, came.recovered, came.unrecovered_blocks), (20, 20, 20, 0));
    assert_eq!((run.reorder.late_delivered, run.reorder.given_up_as_lost), (0, 0), "the rule waits for what may come back");
    // The block of 150 to 159, without 155, ends at 159 ms.
    assert!(run.given[150..160].iter().all(|&(number, at)| at == u64::from(number.min(154)) + 5 || (number >= 155 && at == 164)));
}

#[test]
fn two_lost_of_a_block_need_two_parities() {
    let lost = [101, 102, 133];
    let one = run(both(FEC), 200, [5, 5], &lost, &[]);
    assert_eq!(one.numbers(), (0..200).filter(|n| ![101, 102].contains(n)).collect::<Vec<_>>());
    let two = run(both(FecConfig { parities: 2, ..FEC }), 200, [5, 5], &lost, &[]);
    assert!(two.numbers().into_iter().eq(0..200));
    assert_eq!((two.came.unwrap().recovered, two.sent.parities_sent), (3, 40));
}

#[test]
fn what_cannot_come_back_is_given_up_behind_its_block() {
    let run = run(both(FEC), 300, [5, 5], &[101, 102], &[]);
    let at = |n| run.given.iter().find(|&&(number, _)| number == n).unwrap().1;
    // Both paths must have brought a packet that is not of the block of 100 to 109, nor of one that
    // could have begun with 102.
    assert_eq!(at(103), 112 + 5 + 1, "{:?}", run.reorder);
    assert_eq!(run.reorder.given_up_as_lost, 2);
}

#[test]
fn a_block_that_stays_short_ends_in_time() {
    let run = run(both(FEC), 195, [5, 5], &[193], &[]);
    assert!(run.numbers().into_iter().eq(0..195));
    // The block of 190 to 194 begins at 190 ms and lasts for 15.
    assert_eq!(run.given[193..], [(193, 210), (194, 210)]);
}

#[test]
fn a_packet_of_a_slow_path_may_come_back_before_it_comes() {
    let run = run(both(FecConfig { packets: 2, parities: 1, ..FEC }), 200, [1, 41], &[], &[]);
    assert!(run.numbers().into_iter().eq(0..200), "each is given on once");
    let came = run.came.unwrap();
    assert!(came.recovered > 20 && came.recovered_late == came.recovered, "{came:?}");
}

#[test]
fn an_end_that_knows_no_parities_misses_nothing() {
    for lost in [&[][..], &[50, 51, 120]] {
        let plain = run([config(None), config(None)], 200, [5, 20], lost, &[]);
        let other = run([config(Some(FEC)), config(None)], 200, [5, 20], lost, &[]);
        assert_eq!((other.sent.parities_sent, other.came), (20, None));
        assert_eq!(other.given.len(), plain.given.len());
        assert!(other.numbers() == plain.numbers(), "parities have no numbers, so none is missed");
    }
}

#[test]
fn every_distribution_and_rule_that_takes_it_brings_packets_back() {
    let (cap, capacity) = (Duration::from_millis(100), 1000);
    for reorder in [
        PROGRESS,
        ReorderConfig::Fixed { timeout: Duration::from_millis(50), capacity },
        ReorderConfig::Adaptive { offset: Duration::from_millis(5), cap, capacity },
        ReorderConfig::Equalised { cap, capacity },
    ] {
        for spreading in [Spreading::Turns { batch: 1 }, Spreading::Turns { batch: 16 }, Spreading::Flows, Spreading::Earliest] {
            let with = |fec| EndpointConfig { reorder, spreading, ..config(fec) };
            let run = run([with(Some(FEC)), with(Some(FEC))], 300, [5, 10], &[155], &[]);
            let mut numbers = run.numbers();
            if !matches!(reorder, ReorderConfig::Equalised { .. }) {
                assert!(numbers.is_sorted(), "{reorder:?} {spreading:?}");
            }
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..300), "{reorder:?} {spreading:?}");
            assert!(run.came.unwrap().recovered >= 1);
        }
    }
}

#[test]
fn rules_without_numbers_are_refused() {
    for reorder in [ReorderConfig::Off, ReorderConfig::Mpt { window: 1600, max_delay: Duration::from_millis(300) }] {
        assert!(Endpoint::<Payload>::new(ms(0), &EndpointConfig { reorder, ..config(Some(FEC)) }).is_none());
    }
    assert!(Endpoint::<Payload>::new(ms(0), &config(Some(FecConfig { packets: 0, ..FEC }))).is_none());
}

#[test]
fn a_parity_that_no_block_can_have_is_ignored() {
    let mut end = Endpoint::new(ms(0), &config(Some(FEC))).unwrap();
    for parity in [Parity { index: 3, packets: 10, parities: 3, first: 0 }, Parity { index: 0, packets: 255, parities: 1, first: 0 }] {
        end.handle_outer(ms(1), PathId(0), LEN, Message::Parity { parity, payload: Payload::Parity(vec![]) });
    }
    assert_eq!((end.poll_recovery(), end.fec_counters()), (None, Some(FecCounters::default())));
    end.handle_outer(ms(2), PathId(0), LEN, Message::Data { seq: Some(Seq::new(0)), packet: Payload::Packet(0) });
    assert_eq!(end.poll_deliver(), Some(Payload::Packet(0)));
}
