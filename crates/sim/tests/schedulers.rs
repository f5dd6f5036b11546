//! Schedulers over two unequal paths: what they send where, and how much has to wait for what comes
//! before it.

use polypath_sim::outcome::{DisorderOutcome, FlowOutcome, Outcome};
use polypath_sim::{KERNELS, Scenario, run};
use serde_json::{Value, json};

/// A client with two paths to a server: 20 Mbit/s and 10 ms each way, and 5 Mbit/s and 100 ms, both
/// without loss. The server's receive buffer is small.
fn outcome(kernel: &str, scheduler: &str, app: &Value) -> Outcome {
    within(kernel, scheduler, app, [2_000_000_000, 18_000_000_000])
}

fn within(kernel: &str, scheduler: &str, app: &Value, window_ns: [u64; 2]) -> Outcome {
    Cell { queue: 40, buffer: 250_000 }.outcome(kernel, scheduler, app, window_ns)
}

/// As [`flow`], where slow start ends before it overflows the fast path's queue and so nothing is
/// lost.
fn lossless(kernel: &str, scheduler: &str, app: &Value) -> FlowOutcome {
    Cell { queue: 100, buffer: 250_000 }.flow(kernel, scheduler, app)
}

/// The fast path's queue in packets and the receive buffer in bytes.
#[derive(Debug, Clone, Copy)]
struct Cell {
    queue: u64,
    buffer: u64,
}

impl Cell {
    /// The cells of specs/notes/schedulers at 100 ms; docs/concepts/schedulers.md shows all of
    /// them.
    fn all() -> impl Iterator<Item = Cell> {
        [40, 70, 100].into_iter().flat_map(|queue| [250_000, 400_000].map(|buffer| Cell { queue, buffer }))
    }

    fn flow(self, kernel: &str, scheduler: &str, app: &Value) -> FlowOutcome {
        self.outcome(kernel, scheduler, app, [2_000_000_000, 18_000_000_000]).flows.remove(0)
    }

    fn outcome(self, kernel: &str, scheduler: &str, app: &Value, window_ns: [u64; 2]) -> Outcome {
        let path = |name: &str, number: u64, rate: u64, packets: u64, delay_ms: u64| {
            let delay = json!({"kind": "delay", "delay_ns": delay_ms * 1_000_000});
            let rate = json!({"kind": "rate", "bits_per_s": rate * 1_000_000, "queue": {"packets": packets}});
            json!({"name": name, "a": {"node": "c", "address": format!("10.1.{number}.1")}, "b": {"node": "r", "address": format!("10.1.{number}.2")},
                   "a_to_b": [rate, delay], "b_to_a": [delay]})
        };
        let lan = json!({"name": "lan", "a": {"node": "r", "address": "10.9.0.2"}, "b": {"node": "s", "address": "10.9.0.1"}, "a_to_b": [], "b_to_a": []});
        let scenario: Scenario = serde_json::from_value(json!({
            "seed": 1, "duration_ns": 20_000_000_000_u64,
            "nodes": [{"name": "c", "kernel": kernel}, {"name": "r", "router": true},
                      {"name": "s", "kernel": kernel, "sysctl": {"net.ipv4.tcp_rmem": [4096, 131_072, self.buffer]}}],
            "links": [path("fast", 0, 20, self.queue, 10), path("slow", 1, 5, 100, 100), lan],
            "flows": [{
                "name": "f", "transport": "mptcp", "cc": "cubic", "client": "c", "server": "s",
                "app": app, "window_ns": window_ns,
                "mptcp": {"scheduler": scheduler}
            }]
        }))
        .expect("a scenario");
        run(&scenario).expect("a valid scenario")
    }
}

fn bulk() -> Value {
    json!({"kind": "bulk", "duration_ns": 18_500_000_000_u64})
}

fn flow(kernel: &str, scheduler: &str, app: &Value) -> FlowOutcome {
    outcome(kernel, scheduler, app).flows.remove(0)
}

fn disorder(flow: &FlowOutcome) -> &DisorderOutcome {
    flow.disorder.as_ref().expect("a connection keeps order")
}

fn hol_delay(flow: &FlowOutcome) -> f64 {
    disorder(flow).mean_wait_ns.expect("something was read") / 1e6
}

/// 625 kB in 100 ms, once a second: more than the fast path takes at once, less than it takes in a
/// second.
fn bursts() -> Value {
    json!({"kind": "on_off", "on_ns": 100_000_000, "off_ns": 900_000_000, "duration_ns": 18_000_000_000_u64, "bits_per_s": 50_000_000})
}

#[test]
fn blest_waits_less_than_the_lowest_rtt_and_loses_no_goodput_by_it() {
    for (kernel, cell) in KERNELS.map(|stack| stack.name).into_iter().flat_map(|kernel| Cell::all().map(move |cell| (kernel, cell))) {
        let [lowest_rtt, waits] = ["minrtt", "blest"].map(|scheduler| cell.flow(kernel, scheduler, &bulk()));
        // Where the lowest RTT leaves the slow path alone too, nothing waits with either.
        let (wait, most) = (hol_delay(&waits), 0.2 * hol_delay(&lowest_rtt));
        assert!(wait <= most, "{kernel}, {cell:?}: a byte waits {wait} ms, a fifth of minrtt's are {most} ms");
        assert!(waits.goodput_receiver_bps > 0.98 * lowest_rtt.goodput_receiver_bps, "{kernel}, {cell:?}");
    }
}

#[test]
fn who_looks_ahead_brings_bursts_over_earlier_and_in_order() {
    let p95 = |flow: &FlowOutcome| flow.byte_delay.expect("something was read").p95_ns as f64;
    for cell in Cell::all() {
        let lowest_rtt = cell.flow("6.12", "minrtt", &bursts());
        for scheduler in ["blest", "ecf", "sttf"] {
            let other = cell.flow("6.12", scheduler, &bursts());
            let (wait, delay) = (hol_delay(&other) / hol_delay(&lowest_rtt), p95(&other) / p95(&lowest_rtt));
            assert!(wait < 0.5 && delay < 0.9, "{scheduler}, {cell:?}: of minrtt's wait {wait}, of its 95th percentile {delay}");
            let (bytes, least) = (other.bytes_received as f64, 0.98 * lowest_rtt.bytes_received as f64);
            assert!(bytes > least, "{scheduler}, {cell:?}: {bytes} bytes, 98 % of minrtt's are {least}");
        }
    }
}

#[test]
fn a_backup_carries_nothing_while_the_first_subflow_works() {
    let outcome = lossless("6.12", "backup", &bulk());
    assert_eq!((outcome.subflows.len(), outcome.subflows[1].counters.bytes_acked), (2, 0));
    assert!(outcome.goodput_receiver_bps > 0.9 * 20e6 * 1428.0 / 1514.0);
    assert_eq!((disorder(&outcome).max_waiting, disorder(&outcome).blocked_ns), (0, 0), "one subflow keeps its order");
}

#[test]
fn weights_are_shares_whatever_the_paths_could_carry() {
    for (weights, share) in [("weighted 9:1", 0.9), ("weighted 19:1", 0.95)] {
        let outcome = flow("6.12", weights, &bulk());
        let acked: Vec<f64> = outcome.subflows.iter().map(|subflow| subflow.counters.bytes_acked as f64).collect();
        let found = acked[0] / (acked[0] + acked[1]);
        assert!((found - share).abs() < 0.01, "{weights}: {found}");
    }
}

#[test]
fn every_scheduler_brings_everything_over() {
    for (kernel, scheduler) in
        KERNELS.map(|stack| stack.name).into_iter().flat_map(|p| polypath_sched::Scheduler::NAMES.map(|name| (p, name)))
    {
        let done = flow(kernel, scheduler, &json!({"kind": "transfer", "bytes": 3_000_000}));
        assert_eq!(done.bytes_received, 3_000_000, "{kernel} {scheduler}");
        // Alone on the first path it takes 1.3 s; blocked by the second one a few of its round
        // trips more.
        assert!(done.completion_ns < Some(6_000_000_000), "{kernel} {scheduler}: {:?}", done.completion_ns);
    }
}

#[test]
fn delays_are_those_of_the_path_where_nothing_waits() {
    // 1 Mbit/s in writes of 125 bytes a millisecond, on the first path alone.
    let app = json!({"kind": "on_off", "on_ns": 18_000_000_000_u64, "off_ns": 1_000_000, "duration_ns": 18_000_000_000_u64, "bits_per_s": 1_000_000});
    let outcome = flow("6.12", "backup", &app);
    let delay = outcome.byte_delay.expect("something was read");
    // 10 ms each way, and at 20 Mbit/s less than 1 ms for a packet; Nagle's rule holds writes back,
    // for a round trip at most.
    assert!((10_000_000..31_000_000).contains(&delay.p50_ns) && delay.mean_ns >= 10e6, "{delay:?}");
    assert!(delay.p50_ns <= delay.p95_ns && delay.p95_ns <= delay.p99_ns && delay.p99_ns <= delay.max_ns, "{delay:?}");
    assert!(delay.max_ns < 60_000_000, "{delay:?}");
    // A full send buffer waits before everything else.
    let full = flow("6.12", "backup", &bulk());
    assert!(full.byte_delay.expect("something was read").p50_ns > delay.p99_ns);
}

#[test]
fn the_first_bytes_count_from_when_they_were_accepted() {
    let app = json!({"kind": "transfer", "bytes": 1000});
    let delay = within("6.12", "backup", &app, [0, 18_000_000_000]).flows[0].byte_delay.expect("everything was read");
    // 1000 bytes and 104 of headers, and 14 of the link, at 20 Mbit/s, and 10 ms.
    assert!((10_400_000..10_500_000).contains(&delay.p50_ns) && delay.max_ns - delay.p50_ns < 2000, "{delay:?}");
}

#[test]
fn what_waits_is_sampled_with_what_is_read() {
    let outcome = flow("6.12", "minrtt", &bulk());
    assert_eq!(outcome.out_of_order_100ms.len(), outcome.received_100ms.len());
    let disorder = disorder(&outcome);
    let (most, sampled) = (disorder.max_waiting, outcome.out_of_order_100ms.iter().max().copied());
    assert!(sampled > Some(0) && sampled <= Some(most), "{sampled:?} {most}");
    assert!(disorder.max_ahead >= most && disorder.mean_ahead.is_some_and(|mean| mean <= disorder.max_ahead as f64), "{disorder:?}");
    assert!(disorder.share.is_some_and(|share| share > 0.0 && share <= 1.0));
    assert!(disorder.blocked_ns > 0 && disorder.blocked_ns <= 16_000_000_000);
}
