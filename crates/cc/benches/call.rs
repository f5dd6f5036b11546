//! What it costs to call an algorithm through its C ops table, beside the same function in Rust,
//! inlined and behind a pointer.
//!
//! Reno is the smallest algorithm, so the call weighs most there. docs/decisions/c-call-cost.md has
//! the figures and what follows from them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group};
use polypath_cc as cc;

const CALLS: u32 = 10_000_000;

/// Reno as cc/algs/reno.c and pp_math.h have it.
#[inline(always)]
fn reno(flow: &mut cc::Flow, acked: u32) {
    let limited = flow.cwnd_limited || (flow.in_slow_start() && u64::from(flow.cwnd) < 2 * u64::from(flow.max_packets_out));
    if !limited {
        return;
    }
    let mut acked = acked;
    if flow.in_slow_start() {
        let used = acked.min(flow.ssthresh - flow.cwnd);
        flow.cwnd = (flow.cwnd + used).min(flow.cwnd_clamp);
        acked -= used;
        if acked == 0 {
            return;
        }
    }
    let per = flow.cwnd.max(1);
    if flow.cwnd_cnt >= per {
        flow.cwnd_cnt = 0;
        flow.cwnd += 1;
    }
    flow.cwnd_cnt += acked;
    if flow.cwnd_cnt >= per {
        let steps = flow.cwnd_cnt / per;
        flow.cwnd_cnt -= steps * per;
        flow.cwnd += steps;
    }
    flow.cwnd = flow.cwnd.min(flow.cwnd_clamp);
}

#[inline(never)]
fn reno_far(flow: &mut cc::Flow, acked: u32) {
    reno(flow, acked);
}

fn flow() -> cc::Flow {
    let mut flow = cc::Flow::new(1000, 1448);
    flow.ssthresh = 500;
    flow.cwnd_limited = true;
    flow.srtt_us = 160_000;
    flow.now_ns = 1_000_000_000;
    flow
}

/// Two subflows of one connection.
fn siblings() -> cc::Siblings {
    let mut siblings = cc::Siblings::default();
    for cwnd in [1000, 700] {
        siblings.push(cc::Sibling {
            cwnd,
            srtt_us: 160_000,
            mss: 1448,
            usable: true,
            bytes_since_loss: 1_000_000,
            ..cc::Sibling::default()
        });
    }
    siblings
}

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("cong_avoid");
    let mut inlined = flow();
    group.bench_function("reno in Rust, inlined", |b| b.iter(|| reno(&mut inlined, black_box(1))));
    let (mut pointed, pointer) = (flow(), black_box(reno_far as fn(&mut cc::Flow, u32)));
    group.bench_function("reno in Rust, through a pointer", |b| b.iter(|| pointer(&mut pointed, black_box(1))));
    for algorithm in cc::all() {
        let (mut flow, siblings) = (flow(), siblings());
        let mut controller = algorithm.start();
        controller.init(&mut flow, Some(&siblings));
        group.bench_function(format!("{} in C", algorithm.name()), |b| {
            b.iter(|| {
                flow.now_ns += 10_000;
                controller.cong_avoid(&mut flow, Some(&siblings), 0, black_box(1));
            });
        });
    }
    group.finish();
}

/// The least time of a call over seven repetitions.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn least(mut call: impl FnMut()) -> Duration {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn print_ratio() {
    let mut state = flow();
    let inlined = least(|| reno(&mut state, black_box(1)));
    let (mut state, pointer) = (flow(), black_box(reno_far as fn(&mut cc::Flow, u32)));
    let pointed = least(|| pointer(&mut state, black_box(1)));
    let (mut state, mut controller) = (flow(), black_box(cc::find("reno")).expect("reno is always there").start());
    let c = least(|| controller.cong_avoid(&mut state, None, 0, black_box(1)));
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(CALLS);
    println!(
        "reno cong_avoid: {:.2} ns through the C ops table, {:.2} ns through a Rust pointer, {:.2} ns inlined Rust; C over pointer {:.2}, over inlined {:.2}",
        ns(c),
        ns(pointed),
        ns(inlined),
        ns(c) / ns(pointed),
        ns(c) / ns(inlined)
    );
}

criterion_group!(benches, calls);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    print_ratio();
}
