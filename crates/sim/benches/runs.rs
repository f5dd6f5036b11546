//! Whole runs of two simulated seconds: what queue management, ECN, datagrams, requests, tunnels
//! and each scheduler cost a delivered packet.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use polypath_sched::Scheduler;
use polypath_sim::{Scenario, run};
use serde_json::{Value, json};

const SECONDS: u64 = 2;
const END: u64 = SECONDS * 1_000_000_000;

/// Two paths of 50 Mbit/s and 10 ms each way between a client and a server; `aqm` manages the
/// queues towards the server.
fn scenario(flow: Value, aqm: Value, ecn: u32) -> Scenario {
    let room = if aqm["kind"] == "red" { json!({"bytes": 400_000}) } else { json!({"packets": 250}) };
    let delay = json!({"kind": "delay", "delay_ns": 10_000_000});
    let rate = json!({"kind": "rate", "bits_per_s": 50_000_000, "queue": room, "aqm": aqm});
    let links: Vec<Value> = (1..=2)
        .map(|path| {
            let end = |node: &str, host: u32| json!({"node": node, "address": format!("10.0.{path}.{host}")});
            json!({"name": format!("path{path}"), "a": end("c", 1), "b": end("s", 2), "a_to_b": [rate, delay], "b_to_a": [delay]})
        })
        .collect();
    let host = |name: &str| json!({"name": name, "sysctl": {"net.ipv4.tcp_ecn": ecn}});
    let value = json!({"seed": 1, "duration_ns": END, "nodes": [host("c"), host("s")], "links": links, "flows": [flow]});
    serde_json::from_value(value).expect("the scenario has the fields that the simulator reads")
}

fn flow(transport: &str, app: &Value, scheduler: Option<&str>) -> Value {
    let cc = (transport != "udp").then_some("cubic");
    json!({"name": "f", "transport": transport, "cc": cc, "client": "c", "server": "s", "app": app, "window_ns": [0, END],
        "mptcp": {"scheduler": scheduler}})
}

/// The same links, with TCP through a tunnel over both of them.
fn through_tunnel(distribution: &str, reorder: Value) -> Scenario {
    let mut through = scenario(flow("tcp", &json!({"kind": "bulk", "duration_ns": END}), None), Value::Null, 0);
    let [a, b] = [("c", "10.9.0.1"), ("s", "10.9.0.2")].map(|(node, address)| json!({"node": node, "address": address}));
    let paths = [1, 2].map(|path| json!({"a": format!("10.0.{path}.1"), "b": format!("10.0.{path}.2")}));
    let tunnel = json!({"name": "t", "a": a, "b": b, "paths": paths, "distribution": distribution, "reorder": reorder, "send_buffer_bytes": 212_992});
    through.tunnels = vec![serde_json::from_value(tunnel).expect("the tunnel has the fields that the simulator reads")];
    (through.flows[0].client_address, through.flows[0].server_address) = (Some("10.9.0.1".into()), Some("10.9.0.2".into()));
    through
}

fn runs(criterion: &mut Criterion) {
    let bulk = json!({"kind": "bulk", "duration_ns": END});
    let requests = json!({"kind": "requests", "request_bytes": 200, "response_bytes": 20_000, "pause_ns": 0, "duration_ns": END});
    let constant = json!({"kind": "on_off", "on_ns": END, "off_ns": 0, "duration_ns": END, "bits_per_s": 40_000_000});
    let codel = json!({"kind": "codel", "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": true});
    let managed = [
        ("none", Value::Null),
        (
            "red",
            json!({"kind": "red", "min_bytes": 30_000, "max_bytes": 90_000, "probability": 0.1, "weight_log": 7, "mean_packet_bytes": 1000, "ecn": false}),
        ),
        ("pie", json!({"kind": "pie", "target_ns": 15_000_000, "update_ns": 15_000_000, "ecn": false})),
        ("codel", json!({"kind": "codel", "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": false})),
        (
            "fq_codel",
            json!({"kind": "fq_codel", "target_ns": 5_000_000, "interval_ns": 100_000_000, "flows": 1024, "quantum_bytes": 1514, "ecn": false}),
        ),
    ];
    let mut cases: Vec<(String, Scenario)> =
        managed.map(|(name, aqm)| (format!("tcp_aqm_{name}"), scenario(flow("tcp", &bulk, None), aqm, 0))).into();
    cases.push(("tcp_ecn".to_owned(), scenario(flow("tcp", &bulk, None), codel, 1)));
    cases.push(("tcp_requests".to_owned(), scenario(flow("tcp", &requests, None), Value::Null, 0)));
    let progress = json!({"kind": "progress", "max_delay_ns": 300_000_000, "capacity": 4096});
    let tunnels = [
        ("off", "turns", json!({"kind": "off"})),
        ("mpt", "turns", json!({"kind": "mpt", "window": 1600, "max_delay_ns": 300_000_000})),
        ("progress", "turns", progress.clone()),
        ("earliest", "earliest", progress),
    ];
    cases.extend(tunnels.map(|(name, distribution, reorder)| (format!("tcp_tunnel_{name}"), through_tunnel(distribution, reorder))));
    cases.push(("udp".to_owned(), scenario(flow("udp", &constant, None), Value::Null, 0)));
    cases.extend(
        Scheduler::NAMES.map(|name| (format!("mptcp_scheduler_{name}"), scenario(flow("mptcp", &bulk, Some(name)), Value::Null, 0))),
    );
    let mut group = criterion.benchmark_group("runs");
    for (name, scenario) in cases {
        let packets = run(&scenario).expect("the scenario is valid").delivered_packets;
        group.throughput(Throughput::Elements(packets));
        group.bench_function(&name, |bencher| bencher.iter(|| run(&scenario).map(|outcome| outcome.delivered_packets)));
    }
    group.finish();
}

criterion_group!(benches, runs);
criterion_main!(benches);
