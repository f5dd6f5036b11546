//! Cost of a packet's way through the elements of a link.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use polypath_base::{Bytes, Duration, Instant, Rate, Rng};
use polypath_link::{
    AqmConfig, DelayConfig, Element, ElementChain, ElementSpec, LossConfig, PacketMeta, PieConfig, QueueLimit, RateConfig,
};
use polypath_link::{RedConfig, RetryConfig, TraceConfig};

fn build(spec: ElementSpec) -> Element {
    spec.build(Rng::new(1, "bench")).expect("the parameters are valid")
}

fn transmitter(aqm: Option<AqmConfig>) -> Element {
    let (rate, queue) = (Rate::from_bits_per_sec(100_000_000), QueueLimit::Packets(100));
    build(ElementSpec::Rate(RateConfig { rate, queue, aqm, ..RateConfig::default() }))
}

fn rate() -> Element {
    transmitter(None)
}

fn red() -> Element {
    let config = RedConfig {
        min: Bytes::new(15_000),
        max: Bytes::new(60_000),
        probability: 0.1,
        weight_log: 7,
        mean_packet: Bytes::new(1000),
        ecn: false,
    };
    transmitter(Some(AqmConfig::Red(config)))
}

fn pie() -> Element {
    transmitter(Some(AqmConfig::Pie(PieConfig::DEFAULT)))
}

/// Eight chances a millisecond, a little less than the rate of the others.
fn trace() -> Element {
    let chances = (0..8000).map(|number| Duration::from_millis(1 + number / 8)).collect();
    build(ElementSpec::Trace(TraceConfig { chances, bytes: Bytes::new(1504), queue: QueueLimit::Packets(100), framing: Bytes::new(14) }))
}

fn retry() -> Element {
    build(ElementSpec::Retry(RetryConfig { probability: 0.1, delay: Duration::from_millis(1), attempts: 7 }))
}

fn delay(ms: u64, jitter_ms: u64) -> Element {
    let (delay, jitter) = (Duration::from_millis(ms), Duration::from_millis(jitter_ms));
    build(ElementSpec::Delay(DelayConfig { delay, jitter, ..DelayConfig::default() }))
}

fn loss() -> Element {
    build(ElementSpec::Loss(LossConfig::Bernoulli { probability: 0.01, changes: vec![] }))
}

/// A thousand packets, ten every 1.3 ms: slightly more than the rate lets through.
fn packets(chain: &mut ElementChain, now: &mut Instant) {
    for number in 0..1000 {
        let packet = PacketMeta { len: Bytes::new(1500), payload: true, df: true, ..PacketMeta::default() };
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
