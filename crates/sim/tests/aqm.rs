//! Managed queues under TCP: a short queue at the price of no goodput, marks in the place of
//! losses, flows kept apart.

use polypath_sim::outcome::Outcome;
use polypath_sim::{Scenario, run};
use serde_json::{Value, json};

/// TCP over 10 Mbit/s and 20 ms of round trip with a deep queue, beside a voice-like stream of
/// datagrams.
fn outcome(aqm: &Value, ecn: u32) -> Outcome {
    let queue = if aqm["kind"] == "red" { json!({"bytes": 1_000_000}) } else { json!({"packets": 700}) };
    let delay = json!({"kind": "delay", "delay_ns": 10_000_000});
    let rate = json!({"kind": "rate", "bits_per_s": 10_000_000, "queue": queue, "aqm": aqm});
    let host = |name: &str| json!({"name": name, "sysctl": {"net.ipv4.tcp_ecn": ecn}});
    let window = json!([5_000_000_000_u64, 20_000_000_000_u64]);
    let voice =
        json!({"kind": "on_off", "on_ns": 20_000_000_000_u64, "off_ns": 0, "duration_ns": 20_000_000_000_u64, "bits_per_s": 64_000});
    let value = json!({
        "seed": 1, "duration_ns": 20_500_000_000_u64, "series_interval_ns": 100_000_000,
        "nodes": [host("c"), {"name": "r", "router": true}, host("s")],
        "links": [
            {"name": "access", "a": {"node": "c", "address": "10.1.0.1"}, "b": {"node": "r", "address": "10.1.0.2"}, "a_to_b": [delay]},
            {"name": "bottleneck", "a": {"node": "r", "address": "10.2.0.1"}, "b": {"node": "s", "address": "10.2.0.2"},
             "a_to_b": [rate, {"kind": "delay", "delay_ns": 1}], "b_to_a": [delay]}
        ],
        "flows": [
            {"name": "bulk", "transport": "tcp", "cc": "cubic", "client": "c", "server": "s", "window_ns": window,
             "app": {"kind": "bulk", "duration_ns": 20_000_000_000_u64}},
            {"name": "voice", "transport": "udp", "client": "c", "server": "s", "datagram_bytes": 160, "app": voice, "window_ns": window}
        ]
    });
    let scenario: Scenario = serde_json::from_value(value).expect("the scenario has the fields that the simulator reads");
    run(&scenario).expect("the scenario is valid")
}

fn delay_ms(outcome: &Outcome, percentile: impl Fn(&polypath_sim::outcome::Spread) -> u64) -> f64 {
    let delay = outcome.flows[1].datagrams.as_ref().and_then(|datagrams| datagrams.delay.as_ref()).map(percentile);
    delay.expect("datagrams arrive") as f64 * 1e-6
}

#[test]
fn each_keeps_the_queue_short_and_the_link_full() {
    let full = outcome(&Value::Null, 0);
    let kinds = [
        json!({"kind": "red", "min_bytes": 15_000, "max_bytes": 60_000, "probability": 0.1, "weight_log": 7, "mean_packet_bytes": 1000, "ecn": false}),
        json!({"kind": "codel", "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": false}),
        json!({"kind": "pie", "target_ns": 15_000_000, "update_ns": 15_000_000, "ecn": false}),
        json!({"kind": "fq_codel", "target_ns": 5_000_000, "interval_ns": 100_000_000, "flows": 1024, "quantum_bytes": 1514, "ecn": false}),
    ];
    assert!(delay_ms(&full, |delay| delay.p50_ns) > 200.0, "a deep queue fills");
    for aqm in kinds {
        let managed = outcome(&aqm, 0);
        let (median, rate) = (delay_ms(&managed, |delay| delay.p50_ns), managed.flows[0].goodput_receiver_bps);
        assert!(median < 10.0 + 35.0, "{aqm}: {median} ms");
        assert!(rate > 0.85 * 10e6 * 1448.0 / 1514.0, "{aqm}: {rate}");
        let bottleneck = &managed.links[2];
        assert!(bottleneck.counters.queue_drops > 0 && bottleneck.counters.ecn_marks == 0, "{aqm}");
        // Every packet that entered has left or was dropped, and the series sees the queue.
        assert_eq!(bottleneck.counters.packets + bottleneck.counters.queue_drops, managed.links[0].counters.packets, "{aqm}");
        assert!(managed.link_series.queue_packets.iter().any(|&packets| packets > 0), "{aqm}");
        assert!(managed.link_series.drops.last() > Some(&0), "{aqm}: the series counts what was dropped");
    }
}

#[test]
fn marks_take_the_place_of_losses_where_both_ends_agree() {
    for kind in ["red", "codel", "fq_codel", "pie"] {
        let aqm = match kind {
            "red" => {
                json!({"kind": kind, "min_bytes": 15_000, "max_bytes": 60_000, "probability": 0.1, "weight_log": 7, "mean_packet_bytes": 1000, "ecn": true})
            }
            "pie" => json!({"kind": kind, "target_ns": 15_000_000, "update_ns": 15_000_000, "ecn": true}),
            "codel" => json!({"kind": kind, "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": true}),
            _ => {
                json!({"kind": kind, "target_ns": 5_000_000, "interval_ns": 100_000_000, "flows": 1024, "quantum_bytes": 1514, "ecn": true})
            }
        };
        let marking = outcome(&aqm, 1);
        let tcp = &marking.flows[0].subflows[0];
        assert!(marking.links[2].counters.ecn_marks > 5, "{kind}: {} marks", marking.links[2].counters.ecn_marks);
        // Slow start may overrun what marks can hold (PIE drops above a tenth); later nothing is
        // lost.
        assert!(tcp.counters.retransmissions <= marking.links[2].counters.queue_drops + 1, "{kind}: {}", tcp.counters.retransmissions);
        assert!(kind == "pie" || tcp.counters.retransmissions == 0, "{kind}: {}", tcp.counters.retransmissions);
        let without = outcome(&aqm, 0);
        assert_eq!(without.links[2].counters.ecn_marks, 0, "{kind}: nobody asked for marks");
        assert!(without.links[2].counters.queue_drops > 0, "{kind}");
    }
}

#[test]
fn a_sparse_flow_does_not_wait_behind_a_greedy_one_in_fq_codel() {
    let aqm =
        json!({"kind": "fq_codel", "target_ns": 5_000_000, "interval_ns": 100_000_000, "flows": 1024, "quantum_bytes": 1514, "ecn": false});
    let fair = outcome(&aqm, 0);
    // 10 ms of delay, a full packet of 1.2 ms before it, its own 202 bytes.
    assert!(delay_ms(&fair, |delay| delay.p99_ns) < 10.0 + 1.3 + 0.2, "{}", delay_ms(&fair, |delay| delay.p99_ns));
    assert_eq!(fair.flows[1].datagrams.as_ref().and_then(|datagrams| datagrams.loss), Some(0.0));
}
