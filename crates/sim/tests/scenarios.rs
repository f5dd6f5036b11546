//! Whole runs: routes, metrics, answers to packets that are too long, and that nothing depends on
//! chance but the seed.

use std::collections::BTreeSet;

use polypath_sim::outcome::Outcome;
use polypath_sim::{Scenario, run};
use serde_json::{Value, json};

fn scenario(value: Value) -> Scenario {
    serde_json::from_value(value).expect("the scenario has the fields that the simulator reads")
}

fn outcome(value: Value) -> Outcome {
    run(&scenario(value)).expect("the scenario is valid")
}

fn sentence(value: Value) -> String {
    run(&scenario(value)).expect_err("the scenario is not valid").to_string()
}

/// client =(delay)= router =(rate)= server =(delay)=, as a plain path.
fn path(flow: Value) -> Value {
    let delay = json!([{"kind": "delay", "delay_ns": 10_000_000}]);
    let mut flows = json!([{
        "name": "f", "transport": "tcp", "cc": "cubic", "client": "c", "server": "s",
        "app": {"kind": "bulk", "duration_ns": 5_000_000_000_u64}, "window_ns": [1_000_000_000_u64, 5_000_000_000_u64]
    }]);
    for (key, value) in flow.as_object().into_iter().flatten() {
        flows[0][key] = value.clone();
    }
    json!({
        "seed": 1, "duration_ns": 5_500_000_000_u64, "series_interval_ns": 10_000_000,
        "nodes": [{"name": "c"}, {"name": "r", "router": true}, {"name": "s", "addresses": ["10.9.0.1"]}],
        "links": [
            {"name": "access", "a": {"node": "c", "address": "10.1.0.1"}, "b": {"node": "r", "address": "10.1.0.2"}, "a_to_b": delay},
            {"name": "bottleneck", "a": {"node": "r", "address": "10.2.0.1"}, "b": {"node": "s", "address": "10.2.0.2"},
             "a_to_b": [{"kind": "rate", "bits_per_s": 20_000_000, "queue": {"packets": 50}}], "b_to_a": delay}
        ],
        "flows": flows
    })
}

#[test]
fn a_bulk_transfer_fills_its_link_and_no_more() {
    let outcome = outcome(path(json!({})));
    let flow = &outcome.flows[0];
    // 1448 of 1514 bytes are payload.
    let bound = 20e6 * 1448.0 / 1514.0;
    assert!((0.97 * bound..=1.0005 * bound).contains(&flow.goodput_receiver_bps), "{}", flow.goodput_receiver_bps);
    assert!((0.97 * bound..=1.05 * bound).contains(&flow.goodput_sender_bps), "{}", flow.goodput_sender_bps);
    assert!((flow.subflows[0].acked_bps / bound - 1.0).abs() < 0.03);
    // The SYN takes 10 ms and 74 + 14 bytes at 20 Mbit/s; its answer and the ACK 20 ms and 66 +
    // 14 bytes more.
    assert_eq!(flow.established_ns, Some(30_000_000 + 8 * (74 + 66) * 50));
    assert_eq!(outcome.links[2].counters.max_queue_packets, 50);
    assert_eq!(flow.received_100ms.len(), 56);
    assert_eq!(flow.subflows[0].source, "10.1.0.1");
    assert_eq!(flow.subflows[0].destination, "10.9.0.1");
    // Queues are sampled with the endpoints: a row an interval and direction that has one.
    assert_eq!(outcome.link_series.time_ns.len(), 551);
    assert!(outcome.link_series.link.iter().all(|&link| link == 2));
    assert!(outcome.subflow_series.cwnd.iter().max() > Some(&50));
}

#[test]
fn a_transfer_completes_when_the_server_has_read_everything() {
    let outcome = outcome(path(json!({"app": {"kind": "transfer", "bytes": 1_000_000}, "window_ns": [0, 5_000_000_000_u64]})));
    let flow = &outcome.flows[0];
    assert_eq!(flow.bytes_received, 1_000_000);
    // The link alone takes 1000000 * 1514 / 1448 bytes * 400 ns; slow start adds a few round trips.
    let seconds = flow.completion_ns.expect("the transfer completes") as f64 * 1e-9;
    assert!((0.418..0.7).contains(&seconds), "{seconds}");
    assert!((flow.goodput_receiver_bps - 8e6 / seconds).abs() < 1.0, "the window ends with the run");
    assert_eq!(outcome.simulated_ns, flow.established_ns.unwrap() + flow.completion_ns.unwrap());
}

#[test]
fn an_application_at_a_rate_sends_at_that_rate_while_it_is_on() {
    let on_off =
        json!({"kind": "on_off", "on_ns": 500_000_000, "off_ns": 500_000_000, "duration_ns": 4_000_000_000_u64, "bits_per_s": 8_000_000});
    let outcome = outcome(path(json!({"app": on_off, "window_ns": [0, 5_000_000_000_u64]})));
    // Four bursts of half a second at a megabyte a second.
    assert_eq!(outcome.flows[0].bytes_received, 2_000_000);
    let received = &outcome.flows[0].received_100ms;
    assert_eq!(received[7], received[9], "nothing moves while it is off");
}

#[test]
fn the_same_scenario_gives_the_same_outcome_and_another_seed_another_loss() {
    let lossy = |seed: u64| {
        let mut value = path(json!({}));
        value["seed"] = json!(seed);
        value["links"][0]["a_to_b"] = json!([
            {"kind": "loss", "model": "bernoulli", "probability": 0.01},
            {"kind": "delay", "delay_ns": 10_000_000, "jitter_ns": 2_000_000, "reorder": true}
        ]);
        let outcome = outcome(value);
        // Every field of the outcome and of the series has a place in its debug form.
        (outcome.links[0].counters.loss_drops, format!("{outcome:?}"))
    };
    let (drops, first) = lossy(1);
    assert!(drops > 10);
    assert!(first == lossy(1).1);
    assert!(first != lossy(2).1);
}

#[test]
fn measuring_does_not_change_what_is_measured() {
    let mut value = path(json!({}));
    let with = outcome(value.clone());
    value["series_interval_ns"] = Value::Null;
    let without = outcome(value);
    assert_eq!(with.flows[0].received_100ms, without.flows[0].received_100ms);
    assert_eq!(format!("{:?}", with.links), format!("{:?}", without.links));
}

/// The path with jumbo frames up to the router and 1500 bytes behind it.
fn narrow(oversize: Option<&str>) -> Outcome {
    let mut value = path(json!({}));
    value["links"][0]["a"]["mtu"] = json!(9000);
    value["links"][0]["b"]["mtu"] = json!(9000);
    value["links"][1]["b"]["mtu"] = json!(9000);
    match oversize {
        None => value["links"][1]["a"]["mtu"] = json!(1500),
        Some(oversize) => {
            value["links"][1]["a"]["mtu"] = json!(9000);
            let elements = value["links"][1]["a_to_b"].as_array_mut().expect("a list");
            elements.insert(0, json!({"kind": "mtu", "bytes": 1500, "oversize": oversize}));
        }
    }
    outcome(value)
}

#[test]
fn a_sender_hears_of_a_narrow_link_and_shortens_its_packets() {
    for outcome in [narrow(None), narrow(Some("icmp"))] {
        let flow = &outcome.flows[0];
        assert_eq!(flow.subflows[0].pmtu, 1500);
        assert_eq!(flow.subflows[0].mss, 1448);
        assert!(flow.goodput_receiver_bps > 0.9 * 20e6 * 1448.0 / 1514.0, "{}", flow.goodput_receiver_bps);
        // The first window went out in long packets; ICMP about each of them came back by the
        // delayed link.
        assert!((1..=10).contains(&outcome.links[2].counters.mtu_drops), "{}", outcome.links[2].counters.mtu_drops);
    }
}

/// Packets too long for the link behind the router, and the segment size of each flow, where flows
/// of one client begin at these times.
fn too_long(starts_ms: &[u64]) -> (u64, Vec<u32>) {
    let mut value = path(json!({}));
    for (link, end) in [(0, "a"), (0, "b"), (1, "b")] {
        value["links"][link][end]["mtu"] = json!(9000);
    }
    value["links"][1]["a"]["mtu"] = json!(1500);
    let flow = value["flows"][0].clone();
    let flows = starts_ms.iter().enumerate().map(|(number, start)| {
        let mut flow = flow.clone();
        (flow["name"], flow["start_ns"]) = (json!(format!("f{number}")), json!(start * 1_000_000));
        flow["app"]["duration_ns"] = json!(2_000_000_000_u64);
        flow["window_ns"] = json!([3_500_000_000_u64, 5_000_000_000_u64]);
        flow
    });
    value["flows"] = flows.collect();
    let outcome = outcome(value);
    let sizes = outcome.flows.iter().map(|flow| flow.subflows[0].mss).collect();
    (outcome.links[2].counters.mtu_drops, sizes)
}

/// Linux keeps what ICMP told in the route's cache (specs/notes/mtu-probing), which all connections
/// to that address read.
#[test]
fn a_host_remembers_the_mtu_of_a_route_for_its_next_connection() {
    let (alone, sizes) = too_long(&[0]);
    assert!(alone > 0);
    assert_eq!(sizes, [1448]);
    assert_eq!(too_long(&[0, 3000]), (alone, vec![1448, 1448]), "the second one never sends a packet that is too long");
    // Two that begin together have both sent their first windows when the first message comes.
    let (together, sizes) = too_long(&[0, 0]);
    assert_eq!(sizes, [1448, 1448]);
    assert!((alone + 1..=2 * alone).contains(&together), "{together} of two, {alone} of one");
}

#[test]
fn a_silent_narrow_link_is_a_black_hole() {
    let outcome = narrow(Some("silent"));
    assert!(outcome.flows[0].established_ns.is_some());
    assert_eq!(outcome.flows[0].bytes_received, 0);
}

#[test]
fn mistakes_are_answered_by_a_sentence() {
    let mut value = path(json!({}));
    value["links"][1]["b"]["node"] = json!("nowhere");
    assert_eq!(sentence(value), "link `bottleneck` leads to node `nowhere`, which does not exist; the nodes are c, r, s");
    let mut value = path(json!({}));
    value["links"][1]["a_to_b"][0]["bits_per_s"] = json!(0);
    assert_eq!(sentence(value), "link `bottleneck`, a_to_b, element 1: a rate of zero lets nothing pass: use an outage for that");
    assert!(sentence(path(json!({"cc": "nonsense"}))).contains("there is no congestion control `nonsense`; there are "));
    assert!(sentence(path(json!({"server": "r"}))).contains("router"));
    assert!(sentence(path(json!({"client_address": "10.1.0.2"}))).contains("`c` has no address 10.1.0.2; it has 10.1.0.1"));
    let mut value = path(json!({}));
    value["nodes"][1]["router"] = json!(false);
    assert!(sentence(value).contains("no route leads from 10.1.0.1 at `c` to 10.9.0.1 at `s`"));
    let mut value = path(json!({}));
    value["flows"][0]["routes"] = json!([{"from": "10.1.0.1", "to": "10.9.0.1", "via": ["bottleneck"]}]);
    assert!(sentence(value).contains("uses link `bottleneck` at `c`, which it does not join"));
}

#[test]
fn links_that_share_one_pipe_do_what_separate_ones_do() {
    let fused = outcome(path(json!({})));
    let mut value = path(json!({}));
    // A third link at the router: nothing uses it, but the two on the path are no longer the only
    // ones.
    value["nodes"].as_array_mut().expect("a list").push(json!({"name": "x"}));
    let third = json!({"name": "third", "a": {"node": "r", "address": "10.3.0.1"}, "b": {"node": "x", "address": "10.3.0.2"}});
    value["links"].as_array_mut().expect("a list").push(third);
    let apart = outcome(value);
    assert!(apart.events > fused.events);
    assert_eq!(format!("{:?}", fused.flows), format!("{:?}", apart.flows));
    assert_eq!(format!("{:?}", fused.subflow_series), format!("{:?}", apart.subflow_series));
    assert_eq!(format!("{:?}", fused.link_series), format!("{:?}", apart.link_series));
}

/// MPTCP over two disjoint links between the hosts, 10 Mbit/s and 5 ms each way.
fn two_links(kernel: &str, spans: Value) -> Outcome {
    let elements = |spans: &Value| {
        json!([{"kind": "rate", "bits_per_s": 10_000_000, "queue": {"packets": 30}}, {"kind": "down", "spans_ns": spans},
               {"kind": "delay", "delay_ns": 5_000_000}])
    };
    let link = |number: u32, spans: &Value| {
        let end = |node: &str, host: u32| json!({"node": node, "address": format!("10.{number}.0.{host}")});
        json!({"name": format!("l{number}"), "a": end("c", 1), "b": end("s", 2), "a_to_b": elements(spans), "b_to_a": elements(spans)})
    };
    outcome(json!({
        "seed": 1, "duration_ns": 10_000_000_000_u64, "nodes": [{"name": "c", "kernel": kernel}, {"name": "s", "kernel": kernel}],
        "links": [link(1, &json!([])), link(2, &spans)],
        "flows": [{"name": "f", "transport": "mptcp", "cc": "lia", "client": "c", "server": "s",
                   "app": {"kind": "bulk", "duration_ns": 10_000_000_000_u64}, "window_ns": [5_000_000_000_u64, 10_000_000_000_u64]}]
    }))
}

#[test]
fn mptcp_uses_both_links_and_survives_the_loss_of_one() {
    for kernel in polypath_sim::KERNELS.map(|stack| stack.name) {
        let both = &two_links(kernel, json!([])).flows[0];
        // Four subflows in two small queues: Linux 6.1 has 16.5 ± 2.2 Mbit/s of 18.8 there.
        assert!(both.goodput_receiver_bps > 1.3 * 10e6 * 0.94, "{kernel}: {}", both.goodput_receiver_bps);
        // Each address with each of the peer's, over the link of its own.
        let used = both.subflows.iter().filter(|subflow| subflow.counters.bytes_acked > 0);
        let pairs: BTreeSet<_> = used.map(|subflow| (&*subflow.source, &*subflow.destination)).collect();
        let every = ["10.1.0.1", "10.2.0.1"].into_iter().flat_map(|from| ["10.1.0.2", "10.2.0.2"].map(|to| (from, to)));
        assert_eq!(pairs, every.collect(), "{kernel}");
        let outcome = two_links(kernel, json!([[2_000_000_000_u64, 10_000_000_000_u64]]));
        let one = &outcome.flows[0];
        // Of the ten seconds the other link is there for two.
        assert!((0.85..1.2).contains(&(one.goodput_receiver_bps / (10e6 * 0.9432))), "{kernel}: {}", one.goodput_receiver_bps);
        assert!(outcome.links[2].counters.down_drops > 0);
    }
}
