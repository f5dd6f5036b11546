//! Elements against models that are too simple to be wrong.

use polypath_base::{Bytes, Duration, Instant, Rate, Rng};
use polypath_link::{
    Change, Delay, DelayConfig, DualPi2, DualPi2Config, Element, ElementChain, HoldingQueue, LinkElement, PacketMeta, Policer,
    PolicerConfig, QueueLimit, RateConfig, RateQueue, SampledQueue, Verdict,
};
use proptest::prelude::*;

/// Steps through time nanosecond by nanosecond: a transmitter that sends `rate` bits a second from
/// the head of a queue. Returns when each packet left, or `None` if it was refused, and the queue's
/// length at multiples of `interval`.
fn step(packets: &[(u64, u32)], limit: usize, rates: &[(u64, u64)], end: u64, interval: u64) -> (Vec<Option<u64>>, Vec<u32>) {
    let (mut queue, mut left, mut samples) = (std::collections::VecDeque::new(), vec![None; packets.len()], Vec::new());
    let mut bits = 0_u64;
    for now in 0..=end {
        let before = queue.len();
        let rate = |at: u64| rates.iter().rev().find(|change| change.0 <= at).map_or(rates[0].1, |change| change.1);
        if let Some(&number) = queue.front() {
            // What the last nanosecond has sent. A packet leaves at the last whole nanosecond
            // before or at its last bit.
            bits += rate(now - 1);
            let (_, len): (u64, u32) = packets[number];
            if bits + rate(now) > u64::from(len) * 8_000_000_000 {
                left[number] = Some(now);
                queue.pop_front();
                bits = 0;
            }
        }
        if now % interval == 0 {
            samples.push(queue.len() as u32);
        }
        // What leaves at this instant still takes room.
        let leaving = before - queue.len();
        for (number, _) in packets.iter().enumerate().filter(|(_, packet)| packet.0 == now) {
            if queue.len() + leaving < limit {
                queue.push_back(number);
            }
        }
    }
    (left, samples)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_queue_of_changing_rate_does_what_stepping_through_time_does(
        mut packets in prop::collection::vec((0_u64..3_000, 1_u32..40), 1..60),
        limit in 1_usize..12,
        first in prop::sample::select(vec![1_000_000_000_u64, 2_000_000_000, 4_000_000_000, 8_000_000_000]),
        mut changes in prop::collection::vec((1_u64..4_000, prop::sample::select(vec![1_000_000_000_u64, 2_000_000_000, 4_000_000_000, 8_000_000_000])), 0..5),
    ) {
        packets.sort_by_key(|packet| packet.0);
        changes.sort_by_key(|change| change.0);
        changes.dedup_by_key(|change| change.0);
        let rates: Vec<(u64, u64)> = std::iter::once((0, first)).chain(changes.clone()).collect();
        let (left, samples) = step(&packets, limit, &rates, 25_000, 100);

        let changes = changes.iter().map(|&(at, rate)| Change { at: Instant::from_nanos(at), to: Rate::from_bits_per_sec(rate) }).collect();
        let (rate, limit) = (Rate::from_bits_per_sec(first), QueueLimit::Packets(limit as u64));
        let mut queue = RateQueue::new(RateConfig { rate, queue: limit, framing: Bytes::ZERO, changes, ..RateConfig::default() }).unwrap();
        queue.sample_every(Duration::from_nanos(100));
        for (&(at, len), &expected) in packets.iter().zip(&left) {
            let leaves = match queue.transit(Instant::from_nanos(at), PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, ..PacketMeta::default() }) {
                Verdict::Pass(leaves) => Some(leaves.as_nanos()),
                _ => None,
            };
            prop_assert_eq!(leaves, expected);
        }
        let seen: Vec<u32> = queue.samples(Instant::from_nanos(25_000)).iter().map(|sample| sample.packets).collect();
        prop_assert_eq!(seen, samples);
    }

    #[test]
    fn what_passes_a_chain_leaves_in_order_and_not_before_it_came(
        mut packets in prop::collection::vec((0_u64..1_000_000, 40_u32..1500), 1..200),
        jitter in 0_u64..50_000,
        seed in any::<u64>(),
    ) {
        packets.sort_by_key(|packet| packet.0);
        let config = DelayConfig { delay: Duration::from_nanos(20_000), jitter: Duration::from_nanos(jitter), ..DelayConfig::default() };
        let jittered = |name| Delay::new(config.clone(), Rng::new(seed, name)).unwrap();
        let rate = |bits, queue| RateQueue::new(RateConfig { rate: Rate::from_bits_per_sec(bits), queue, ..RateConfig::default() }).unwrap();
        let mut chain = ElementChain::new(vec![
            Element::Rate(rate(1_000_000_000, QueueLimit::Bytes(Bytes::new(20_000)))),
            Element::Delay(jittered("first")),
            Element::Rate(rate(900_000_000, QueueLimit::Packets(10))),
            Element::Delay(jittered("second")),
        ]);
        let mut last = Instant::ZERO;
        for (at, len) in packets {
            if let Verdict::Pass(leaves) = chain.transit(Instant::from_nanos(at), PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, ..PacketMeta::default() }) {
                prop_assert!(leaves >= last && leaves >= Instant::from_nanos(at));
                last = leaves;
            }
        }
    }

    #[test]
    fn a_bucket_whose_rate_changes_keeps_the_order(
        mut packets in prop::collection::vec((0_u64..100_000, 40_u32..1500), 1..100),
        burst in 1_u64..20_000,
        mut changes in prop::collection::vec((0_u64..1_000_000, 10_000_000_u64..10_000_000_000), 1..4),
    ) {
        packets.sort_by_key(|packet| packet.0);
        changes.sort_by_key(|change| change.0);
        let changes = changes.iter().map(|&(at, rate)| Change { at: Instant::from_nanos(at), to: Rate::from_bits_per_sec(rate) }).collect();
        let rate = Rate::from_bits_per_sec(1_000_000_000);
        let mut queue = RateQueue::new(RateConfig { rate, burst: Bytes::new(burst), changes, ..RateConfig::default() }).unwrap();
        let mut last = Instant::ZERO;
        for (at, len) in packets {
            if let Verdict::Pass(leaves) = queue.transit(Instant::from_nanos(at), PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, ..PacketMeta::default() }) {
                prop_assert!(leaves >= last && leaves >= Instant::from_nanos(at), "{leaves:?} after {last:?}");
                last = leaves;
            }
        }
    }

    #[test]
    fn a_policer_passes_what_a_count_of_tokens_pays_for(
        mut packets in prop::collection::vec((0_u64..1_000_000, 40_u32..1500), 1..300),
        burst in 40_u64..20_000,
    ) {
        packets.sort_by_key(|packet| packet.0);
        // 1 Gbit/s: a token of a byte comes every 8 ns.
        let (rate, framing) = (Rate::from_bits_per_sec(1_000_000_000), Bytes::new(14));
        let mut policer = Policer::new(PolicerConfig { rate, burst: Bytes::new(burst), framing }).unwrap();
        let (mut eighths, mut before) = (burst * 8, 0);
        for (at, len) in packets {
            eighths = (eighths + at - before).min(burst * 8);
            before = at;
            let price = (u64::from(len) + 14) * 8;
            let pays = price <= eighths;
            eighths -= if pays { price } else { 0 };
            let verdict = policer.transit(Instant::from_nanos(at), PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, ..PacketMeta::default() });
            prop_assert_eq!(matches!(verdict, Verdict::Pass(leaves) if leaves.as_nanos() == at), pays);
        }
    }

    #[test]
    fn dualpi2_serves_or_drops_each_packet_once_keeps_the_order_of_each_kind_and_never_rests_while_one_waits(
        packets in prop::collection::vec((0_u64..1500, any::<bool>(), any::<bool>()), 1..300),
        limit in 1_u64..60,
    ) {
        let (rate, queue) = (Rate::from_bits_per_sec(8_000_000), QueueLimit::Packets(limit));
        let config = RateConfig { rate, queue, framing: Bytes::ZERO, ..RateConfig::default() };
        let mut queue = DualPi2::new(config, DualPi2Config::default(), Rng::new(1, "dualpi2")).unwrap();
        let (mut now, mut served, mut dropped, mut free) = (Instant::ZERO, Vec::new(), Vec::new(), Instant::ZERO);
        let arrivals: Vec<(Instant, bool, bool)> = packets
            .iter()
            .map(|&(gap, l4s, ect)| {
                now += Duration::from_micros(gap);
                (now, l4s, ect || l4s)
            })
            .collect();
        let mut next = 0;
        loop {
            let arrival = arrivals.get(next).map_or(Instant::NEVER, |arrival| arrival.0);
            let at = if queue.is_transmitting() { free.min(arrival) } else { arrival };
            if at == Instant::NEVER {
                break;
            }
            if at == arrival {
                let (_, l4s, ect) = arrivals[next];
                queue.enqueue(at, PacketMeta { len: Bytes::new(1000), l4s, ect, ..PacketMeta::default() }, next as u32);
                next += 1;
            }
            if at == free || !queue.is_transmitting() {
                if let Some(one) = queue.dequeue(at) {
                    prop_assert_eq!(one.leaves, at + Duration::from_millis(1));
                    prop_assert!(at == free || at == arrival, "it begins when the last one has left, or with an arrival");
                    prop_assert!(!one.marked || arrivals[one.slot as usize].2, "only what is able is marked");
                    served.push(one.slot);
                    free = one.leaves;
                }
            }
            while let Some(slot) = queue.take_dropped() {
                dropped.push(slot);
            }
        }
        let of = |l4s: bool| served.iter().filter(|&&slot| arrivals[slot as usize].1 == l4s).collect::<Vec<_>>();
        prop_assert!(of(true).is_sorted() && of(false).is_sorted());
        prop_assert_eq!(queue.drops().packets, dropped.len() as u64);
        let mut every = [served, dropped].concat();
        every.sort_unstable();
        prop_assert_eq!(every, (0..packets.len() as u32).collect::<Vec<_>>());
    }
}
