//! How much the emulator carries and how exactly it delays, beside what the machine can do without
//! it, in one run.

use crate::lateness::Lateness;
use crate::setup::{Namespaces, Workers, links};
use crate::spec::Spec;
use crate::status::DirectionStatus;
use polypath_base::Error;
use polypath_base::{Duration, Instant};
use polypath_io::{Between, Failed, KernelTime, TAIL, UdpReceiver, UdpSender, bind_to_parent, enter_urgent};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};

const PORT: u16 = 5001;
/// Payload of a UDP datagram that fills 1500 bytes.
const FULL: usize = 1472;
/// Between two packets whose delay is measured, and two ends of the bare timer.
const PERIOD: Duration = Duration::from_millis(1);

/// What to measure, as plain data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchSpec {
    /// Links, of which one is not emulated.
    pub spec: Spec,
    /// The namespace of the plan that sends.
    pub client: String,
    /// The namespace of the plan that receives.
    pub server: String,
    /// Address of the server behind a veth pair without an emulator.
    pub plain: Ipv4Addr,
    /// Address of the server behind an emulated link that does nothing.
    pub through: Ipv4Addr,
    /// Address of the server behind an emulated link that delays packets by `delay`.
    pub delayed: Ipv4Addr,
    /// What that link delays packets by.
    #[serde(rename = "delay_ns")]
    pub delay: Duration,
    /// How long each measurement lasts.
    #[serde(rename = "each_ns")]
    pub each: Duration,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Figures {
    plain: Capacity,
    through: Capacity,
    delay: DelayFigures,
    /// Processor time of the emulator for each packet of one sender as fast as it can, ns; with
    /// what the receiving stack does meanwhile.
    cpu_ns_per_packet: f64,
    /// How the emulator saw it.
    directions: Vec<DirectionStatus>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Capacity {
    /// One sender as fast as it can, UDP packets of 1500 bytes: sent and received each second.
    sent_per_s: f64,
    received_per_s: f64,
    /// The highest rate found at which nothing was lost, packets/s.
    lossless_per_s: f64,
    /// One TCP connection at an MTU of 1500 bytes, bits/s.
    tcp_bits_per_s: f64,
}

/// Microseconds.
#[derive(Clone, Debug, Default, Serialize)]
struct DelayFigures {
    asked: f64,
    packets: u64,
    /// Later than asked.
    late_median: f64,
    late_p99: f64,
    late_max: f64,
    /// Earlier than asked: the most; nothing if none was.
    early_max: f64,
    /// A sleeping timer beside it, the thread as urgent as the emulator's.
    timer_late_median: f64,
    timer_late_p99: f64,
    timer_late_max: f64,
}

/// Measures; the figures as JSON.
pub fn bench(bench: &BenchSpec) -> Result<String, Error> {
    if bench.spec.with_parent {
        bind_to_parent()?;
    }
    let namespaces = Namespaces::build(&bench.spec)?;
    let workers = Workers::start(&bench.spec, links(&bench.spec, &namespaces)?)?;
    let (client, server) = (namespaces.get(&bench.client)?, namespaces.get(&bench.server)?);
    let pair = Between { client, server, clock: workers.clock, each: bench.each };
    let mut figures = Figures { delay: delay(&pair, bench)?, ..Figures::default() };
    figures.plain.tcp_bits_per_s = pair.tcp((bench.plain, PORT).into())?;
    figures.through.tcp_bits_per_s = pair.tcp((bench.through, PORT).into())?;
    for (capacity, address) in [(&mut figures.plain, bench.plain), (&mut figures.through, bench.through)] {
        let spent = workers.cpu_ns();
        let at = SocketAddr::from((address, PORT));
        let whole = pair.udp(at, FULL, f64::INFINITY)?;
        figures.cpu_ns_per_packet = (workers.cpu_ns() - spent) as f64 / (whole.received_per_s * pair.each.as_secs_f64());
        (capacity.sent_per_s, capacity.received_per_s) = (whole.sent_per_s, whole.received_per_s);
        capacity.lossless_per_s = pair.lossless(at, FULL, whole.received_per_s)?;
    }
    figures.directions = workers.stop();
    serde_json::to_string(&figures).map_err(|e| Error::machine(format!("the figures cannot be written: {e}")))
}

/// One-way delays by the kernel's time stamps at the far end, and a bare timer beside them.
fn delay(pair: &Between<'_>, bench: &BenchSpec) -> Result<DelayFigures, Error> {
    let at = SocketAddr::from((bench.delayed, PORT));
    let receiver = pair.server.inside(|| UdpReceiver::new(at, TAIL))?;
    let sender = pair.client.inside(|| UdpSender::new(at, 64))?;
    let count = pair.each.as_nanos() / PERIOD.as_nanos();
    std::thread::scope(|scope| {
        let timer = scope.spawn(|| {
            enter_urgent();
            let (mut late, begin) = (Lateness::default(), pair.clock.now());
            for number in 1..=count {
                // Half a period beside the packets, so that the two do not wake each other.
                let due = begin + PERIOD * number + Duration::from_micros(500);
                pair.clock.sleep_until(due);
                late.add(pair.clock.now().since(due));
            }
            late
        });
        let reader = scope.spawn(|| {
            let (mut late, mut early, mut time) = (Lateness::default(), Duration::ZERO, KernelTime::new(pair.clock));
            while let Some(arrival) = receiver.next()? {
                time.refresh(pair.clock.now());
                let sent = arrival.head.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                let due = Instant::from_nanos(sent) + bench.delay;
                let came = time.instant(arrival.real_ns);
                late.add(came.since(due));
                early = early.max(due.since(came));
            }
            Ok::<_, Failed>((late, early))
        });
        let begin = pair.clock.now();
        for number in 1..=count {
            pair.clock.sleep_until(begin + PERIOD * number);
            let mut head = [0; 16];
            head[..8].copy_from_slice(&pair.clock.now().as_nanos().to_le_bytes());
            sender.send(&head)?;
        }
        let timer = timer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (late, early) = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(DelayFigures {
            asked: bench.delay.as_nanos() as f64 / 1e3,
            packets: late.total(),
            late_median: micros(late.quantile(0.5)),
            late_p99: micros(late.quantile(0.99)),
            late_max: micros(late.most()),
            early_max: micros(early),
            timer_late_median: micros(timer.quantile(0.5)),
            timer_late_p99: micros(timer.quantile(0.99)),
            timer_late_max: micros(timer.most()),
        })
    })
}

fn micros(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e3
}
