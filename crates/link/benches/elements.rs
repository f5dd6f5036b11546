//! Cost of a packet's way through the elements of a link.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use polypath_base::{Duration, Instant, Rate, Rng};
use polypath_link::{
    Delay, Element, ElementChain, Loss, PacketMeta, Pie, PieConfig, QueueLimit, RateQueue, Red, RedConfig, Retry, Schedule, Trace,
};

fn queue() -> RateQueue {
    RateQueue::new(Rate::from_bits_per_sec(100_000_000), QueueLimit::Packets(100), 14, Schedule::none())
        .expect("a rate of 100 Mbit/s is valid")
}

fn rate() -> Element {
    Element::Rate(queue())
}

fn red() -> Element {
    let config = RedConfig { min_bytes: 15_000, max_bytes: 60_000, probability: 0.1, weight_log: 7, mean_packet_bytes: 1000, ecn: false };
    Element::Red(Box::new(Red::new(queue(), config, Rng::new(1, "red")).expect("the thresholds ascend")))
}

fn pie() -> Element {
    Element::Pie(Box::new(Pie::new(queue(), PieConfig::DEFAULT, Rng::new(1, "pie")).expect("the defaults are valid")))
}

/// Eight chances a millisecond, a little less than the rate of the others.
fn trace() -> Element {
    let chances = (0..8000).map(|number| Duration::from_millis(1 + number / 8)).collect();
    Element::Trace(Box::new(Trace::new(queue(), chances, 1504).expect("the chances ascend")))
}

fn retry() -> Element {
    Element::Retry(Box::new(Retry::new(0.1, Duration::from_millis(1), 7, Rng::new(1, "retry")).expect("10 % is a probability")))
}

fn delay(ms: u64, jitter_ms: u64) -> Element {
    Element::Delay(Delay::new(Duration::from_millis(ms), Duration::from_millis(jitter_ms), false, Schedule::none(), Rng::new(1, "delay")))
}

fn loss() -> Element {
    Element::Loss(Loss::bernoulli(0.01, vec![], Rng::new(1, "loss")).expect("1 % is a probability"))
}

/// A thousand packets, ten every 1.3 ms: slightly more than the rate lets through.
fn packets(chain: &mut ElementChain, now: &mut Instant) {
    for number in 0..1000 {
        let packet = PacketMeta { len: 1500, payload: true, df: true, ..PacketMeta::default() };
        std::hint::black_box(chain.transit(*now, packet));
        if number % 10 == 9 {
            *now += Duration::from_micros(1200);
        }
    }
}

fn elements(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("elements");
    group.throughput(Throughput::Elements(1000));
    let chains = [
        ("rate", vec![rate()]),
        ("rate_delay", vec![rate(), delay(10, 0)]),
        ("loss_rate_jitter", vec![loss(), rate(), delay(10, 2)]),
        ("red", vec![red()]),
        ("pie", vec![pie()]),
        ("trace", vec![trace()]),
        ("rate_retry", vec![rate(), retry()]),
        ("three_hops", (0..3).flat_map(|_| [rate(), delay(3, 0)]).collect()),
    ];
    for (name, elements) in chains {
        let (mut chain, mut now) = (ElementChain::new(elements), Instant::ZERO);
        group.bench_function(name, |bencher| bencher.iter(|| packets(&mut chain, &mut now)));
    }
    group.finish();
}

criterion_group!(benches, elements);
criterion_main!(benches);
