//! Times the cases of `polypath_sim::bench`: `cargo run --release -p polypath-sim --example bench [CASE...]`. With `alone` no
//! queue is timed: for a profiler; with `once` moreover a run lasts a tenth of its time.

use polypath_sim::bench;
use std::time::Instant;

fn main() {
    let mut chosen: Vec<String> = std::env::args().skip(1).collect();
    let once = chosen.iter().any(|word| word == "once");
    let alone = once || chosen.iter().any(|word| word == "alone");
    chosen.retain(|word| word != "once" && word != "alone");
    let events = 50_000_000;
    for sources in [8, 300].into_iter().filter(|_| !alone) {
        let start = now();
        let sum = bench::turn_queue(sources, events);
        println!("bare queue, {sources:3} sources: {:.2} ns an event ({:x})", start.elapsed().as_nanos() as f64 / events as f64, sum & 0xf);
    }
    for name in bench::CASES.iter().filter(|name| chosen.is_empty() || chosen.iter().any(|known| known == *name)) {
        let mut scenario = bench::case(name).expect("every name has a case");
        scenario.duration_ns /= if once { 10 } else { 1 };
        let start = now();
        let outcome = polypath_sim::run(&scenario).expect("a case is a valid scenario");
        let wall = start.elapsed().as_secs_f64();
        let packets = outcome.delivered_packets;
        let goodput = outcome.flows.iter().map(|flow| flow.bytes_received).sum::<u64>() as f64 * 8e9 / outcome.simulated_ns as f64;
        let drops: u64 = outcome.links.iter().map(|link| link.queue_drops).sum();
        println!(
            "{name:15} {:6.2} M packets/s  {:5.1} ns a packet  {:4.2} events a packet  {:6.3} s  {:7.1} Mbit/s  {drops} drops  peak {} MB",
            packets as f64 / wall / 1e6,
            wall * 1e9 / packets as f64,
            outcome.events as f64 / packets as f64,
            wall,
            goodput / 1e6,
            peak_mb(),
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "timing is what this program is for")]
fn now() -> Instant {
    Instant::now()
}

/// Peak memory of this process so far, from Linux.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
