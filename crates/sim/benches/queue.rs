//! The event queue beside two heaps, on what links do: the first event is taken and its source
//! waits for the next packet.
//!
//! Spacings alternate as those of data packets and acknowledgements on several links do, so that
//! the order of sources is not the same each time round.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use polypath_base::{Duration, Instant};
use polypath_sim::queue::{EventQueue, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const EVENTS: u64 = 10_000;
/// Pipes that are busy; the other sources are timers far away.
const BUSY: u32 = 4;

/// Time until the source's next event, nanoseconds.
fn spacing(event: u64) -> u64 {
    121_120 + (event.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50)
}

fn first(source: u32) -> u64 {
    if source < BUSY { 30_000 * u64::from(source) } else { 200_000_000_000_000 }
}

/// A heap in which a node has four children: half as deep as a binary one.
struct Heap4(Vec<(u64, u32)>);

impl Heap4 {
    fn new(sources: u32) -> Self {
        let mut entries: Vec<_> = (0..sources).map(|source| (first(source), source)).collect();
        entries.sort_unstable();
        Self(entries)
    }

    fn replace_first(&mut self, entry: (u64, u32)) {
        let heap = &mut self.0;
        let mut at = 0;
        loop {
            let children = 4 * at + 1;
            let Some(least) = (children..(children + 4).min(heap.len())).min_by_key(|&child| heap[child]) else { break };
            if heap[least] >= entry {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = entry;
    }
}

fn queues(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event");
    group.throughput(Throughput::Elements(EVENTS));
    for sources in [8_u32, 300] {
        group.bench_function(BenchmarkId::new("tournament", sources), |bencher| {
            let mut queue = EventQueue::new(BUSY as usize, (sources - BUSY) as usize);
            (0..sources).for_each(|source| queue.set(Source(source), Instant::from_nanos(first(source))));
            bencher.iter(|| {
                for event in 0..EVENTS {
                    let (at, source) = queue.first().expect("every source waits");
                    queue.set(source, at + Duration::from_nanos(spacing(event)));
                }
            });
        });
        group.bench_function(BenchmarkId::new("heap4", sources), |bencher| {
            let mut heap = Heap4::new(sources);
            bencher.iter(|| {
                for event in 0..EVENTS {
                    let (at, source) = heap.0[0];
                    heap.replace_first((at + spacing(event), source));
                }
            });
        });
        group.bench_function(BenchmarkId::new("binary_heap", sources), |bencher| {
            let mut heap: BinaryHeap<Reverse<(u64, u32)>> = (0..sources).map(|source| Reverse((first(source), source))).collect();
            bencher.iter(|| {
                for event in 0..EVENTS {
                    let mut top = heap.peek_mut().expect("every source waits");
                    top.0.0 += spacing(event);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, queues);
criterion_main!(benches);
