//! Datagrams and requests: what is counted of them follows from the links.

use polypath_sim::outcome::{Outcome, Spread};
use polypath_sim::{Scenario, run};
use serde_json::{Value, json};

fn outcome(value: &Value) -> Outcome {
    let scenario: Scenario = serde_json::from_value(value.clone()).expect("the scenario has the fields that the simulator reads");
    run(&scenario).expect("the scenario is valid")
}

/// client =(given)= server, 10 ms back.
fn link(elements: Value, flows: Value) -> Value {
    json!({
        "seed": 1, "duration_ns": 5_000_000_000_u64,
        "nodes": [{"name": "c"}, {"name": "s"}],
        "links": [{"name": "l", "a": {"node": "c", "address": "10.1.0.1"}, "b": {"node": "s", "address": "10.1.0.2"},
                   "a_to_b": elements, "b_to_a": [{"kind": "delay", "delay_ns": 10_000_000}]}],
        "flows": flows
    })
}

fn datagrams(bits_per_s: u64, on_ns: u64, off_ns: u64) -> Value {
    json!({
        "name": "u", "transport": "udp", "client": "c", "server": "s", "datagram_bytes": 972, "start_ns": 1_000_000_000,
        "app": {"kind": "on_off", "on_ns": on_ns, "off_ns": off_ns, "duration_ns": 2_000_000_000, "bits_per_s": bits_per_s},
        "window_ns": [0, 2_000_000_000]
    })
}

#[test]
fn datagrams_at_a_rate_below_the_links_all_arrive_after_its_delay() {
    // 1000 bytes of IP packet and no framing at 8 Mbit/s: 1 ms. A datagram every 7.776 ms / 3.888.
    let rate = json!({"kind": "rate", "bits_per_s": 8_000_000, "queue": {"packets": 10}, "framing_bytes": 0});
    let elements = json!([rate, {"kind": "delay", "delay_ns": 5_000_000}]);
    let outcome = outcome(&link(elements, json!([datagrams(3_888_000, 2_000_000_000, 0)])));
    let flow = &outcome.flows[0];
    let found = flow.datagrams.as_ref().expect("these are datagrams");
    // One every 2 ms for 2 s, the first at once.
    assert_eq!((found.sent, found.received, found.reordered, found.loss), (1000, 1000, 0, Some(0.0)));
    let six = Spread { mean_ns: 6e6, p50_ns: 6_000_000, p95_ns: 6_000_000, p99_ns: 6_000_000, max_ns: 6_000_000 };
    assert_eq!((found.delay, found.jitter_ns), (Some(six), Some(0.0)));
    assert_eq!((flow.established_ns, flow.bytes_received), (Some(1_006_000_000), 972_000));
    assert!((flow.goodput_receiver_bps - 3_888_000.0).abs() < 10_000.0, "{}", flow.goodput_receiver_bps);
    assert!(flow.subflows.is_empty());
}

#[test]
fn datagrams_above_the_rate_are_lost_to_a_full_queue() {
    let rate = json!([{"kind": "rate", "bits_per_s": 8_000_000, "queue": {"packets": 10}, "framing_bytes": 0}]);
    let outcome = outcome(&link(rate, json!([datagrams(15_552_000, 250_000_000, 250_000_000)])));
    let found = outcome.flows[0].datagrams.as_ref().expect("these are datagrams");
    // Four bursts of 500 datagrams in 250 ms; of each 250 fit in time and some ten into the queue.
    assert_eq!(found.sent, 2000);
    assert!((1030..=1045).contains(&found.received), "{}", found.received);
    let expected = 1.0 - found.received as f64 / 2000.0;
    assert!((found.loss.expect("some arrive") - expected).abs() < 0.01);
    // What comes as another leaves finds the queue full, what comes half a millisecond later does not.
    assert_eq!(found.delay.map(|delay| delay.max_ns), Some(9_500_000));
}

#[test]
fn a_random_loss_of_datagrams_is_measured_as_it_is() {
    let loss = json!([{"kind": "loss", "model": "bernoulli", "probability": 0.05}]);
    let outcome = outcome(&link(loss, json!([datagrams(77_760_000, 2_000_000_000, 0)])));
    let found = outcome.flows[0].datagrams.as_ref().expect("these are datagrams");
    assert_eq!((found.sent, found.sent - found.received), (20_000, outcome.links[0].counters.loss_drops));
    // The standard deviation over 20000 datagrams is 0.15 %.
    assert!((found.loss.expect("some arrive") - 0.05).abs() < 0.006, "{:?}", found.loss);
}

#[test]
fn each_request_is_answered_before_the_next_is_sent() {
    for transport in ["tcp", "mptcp"] {
        let flow = json!({
            "name": "r", "transport": transport, "cc": "cubic", "client": "c", "server": "s", "window_ns": [0, 4_000_000_000_u64],
            "app": {"kind": "requests", "request_bytes": 100, "response_bytes": 5_000, "pause_ns": 50_000_000, "duration_ns": 2_000_000_000}
        });
        let outcome = outcome(&link(json!([{"kind": "delay", "delay_ns": 10_000_000}]), json!([flow])));
        let responses = outcome.flows[0].responses.as_ref().expect("these are requests");
        // The initial window holds a response, so each takes a round trip of 20 ms and the next one
        // leaves 50 ms later.
        assert_eq!(responses.count, 2000_u64.div_ceil(70), "{transport}");
        let time = responses.time.expect("there are some");
        assert_eq!((time.p50_ns, time.max_ns), (20_000_000, 20_000_000), "{transport}");
        assert_eq!(outcome.flows[0].bytes_received, 100 * responses.count, "{transport}");
    }
}

#[test]
fn datagrams_need_a_rate_and_must_fit_the_first_link() {
    let sentence = |key: &str, value: Value| {
        let mut flow = datagrams(1_000_000, 1_000_000_000, 0);
        flow[key] = value;
        let scenario: Scenario = serde_json::from_value(link(json!([]), json!([flow]))).expect("the fields are right");
        run(&scenario).expect_err("the scenario is not valid").to_string()
    };
    assert!(sentence("app", json!({"kind": "bulk", "duration_ns": 1})).contains("give it one"));
    assert!(sentence("datagram_bytes", json!(1473)).contains("16 (a number and a time) to 1472"));
}

#[test]
fn a_trace_lets_a_packet_pass_at_each_chance_and_a_retry_delays_what_fails() {
    // A chance every 2 ms, in rounds of 200 ms: 500 times a second 1504 bytes; 1000 are sent.
    let trace = json!({"kind": "trace", "chances_ms": (1..=100).map(|n| 2 * n).collect::<Vec<u32>>(), "bytes": 1504,
                       "queue": {"packets": 50}, "framing_bytes": 4});
    let mut stream = datagrams(11_200_000, 1_000_000_000, 0);
    (stream["datagram_bytes"], stream["app"]["duration_ns"]) = (json!(1400), json!(1_000_000_000));
    let traced = outcome(&link(json!([trace]), json!([stream])));
    let found = traced.flows[0].datagrams.as_ref().expect("these are datagrams");
    assert_eq!(found.sent, 1000);
    // 752000 bytes in a second are 525 packets of 1432, since what one leaves of a chance is the
    // next one's; 50 wait at the end.
    assert!((570..=576).contains(&found.received), "{}", found.received);
    assert_eq!(traced.links[0].counters.max_queue_packets, 50);
    let retry = json!({"kind": "retry", "probability": 0.1, "delay_ns": 5_000_000, "attempts": 3});
    let retried = outcome(&link(json!([retry]), json!([datagrams(3_888_000, 2_000_000_000, 0)])));
    let found = retried.flows[0].datagrams.as_ref().expect("these are datagrams");
    assert_eq!((found.reordered, found.sent - found.received), (0, retried.links[0].counters.loss_drops));
    let delay = found.delay.expect("some arrive");
    assert_eq!((delay.p50_ns, delay.max_ns), (0, 10_000_000));
}

/// Two links, 2 Mbit/s there and 8 Mbit/s back on each, and a flow of the client.
fn asymmetric(transport: &str, more: &Value) -> Value {
    let side = |bits_per_s: u64| json!([{"kind": "rate", "bits_per_s": bits_per_s, "queue": {"packets": 50}, "framing_bytes": 0}, {"kind": "delay", "delay_ns": 10_000_000}]);
    let mut flow = json!({
        "name": "f", "transport": transport, "cc": "cubic", "client": "c", "server": "s",
        "app": {"kind": "bulk", "duration_ns": 15_000_000_000_u64}, "window_ns": [4_000_000_000_u64, 15_000_000_000_u64]
    });
    flow.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let link = |n: u32| {
        json!({"name": format!("l{n}"), "a": {"node": "c", "address": format!("10.{n}.0.1")}, "b": {"node": "s", "address": format!("10.{n}.0.2")},
               "a_to_b": side(2_000_000), "b_to_a": side(8_000_000)})
    };
    json!({
        "seed": 1, "duration_ns": 16_000_000_000_u64, "nodes": [{"name": "c"}, {"name": "s", "addresses": ["10.9.0.1"]}], "links": [link(1), link(2)],
        "flows": [flow]
    })
}

#[test]
fn a_download_comes_from_the_server_at_the_rate_of_the_way_back() {
    // Of the 1500 bytes of a packet: IP 20, TCP 32, DSS 24.
    for (transport, links, payload) in [("tcp", 1.0, 1448.0), ("mptcp", 2.0, 1424.0)] {
        let up = outcome(&asymmetric(transport, &json!({})));
        let down = outcome(&asymmetric(transport, &json!({"direction": "download"})));
        for (outcome, rate) in [(&up, 2e6), (&down, 8e6)] {
            let flow = &outcome.flows[0];
            let share = flow.goodput_receiver_bps / (links * rate * payload / 1500.0);
            // Beyond all of it by what waits for a retransmission when the window begins: at most a
            // queue of 50 packets, 600 kbit of 22 Mbit.
            assert!((0.97..=1.03).contains(&share), "{transport} at {rate}: {share}");
            assert_eq!(flow.subflows.iter().filter(|subflow| subflow.established_ns.is_some()).count() as f64, links, "{transport}");
            assert!(flow.byte_delay.is_some() && flow.bytes_received > 0 && flow.bytes_accepted >= flow.bytes_received);
        }
        // The sender's counters and addresses are the server's, whoever opened the connection.
        let [first, back] = [&up, &down].map(|outcome| &outcome.flows[0].subflows[0]);
        assert_eq!((&first.source, &first.destination), (&back.destination, &back.source), "{transport}");
        assert!(back.counters.bytes_acked > 3 * first.counters.bytes_acked, "{transport}");
    }
}

#[test]
fn a_transfer_down_is_complete_when_the_client_has_read_it() {
    for transport in ["tcp", "mptcp"] {
        let app = json!({"kind": "transfer", "bytes": 1_000_000});
        let down = outcome(&asymmetric(transport, &json!({"direction": "download", "app": app})));
        let flow = &down.flows[0];
        assert_eq!((flow.bytes_received, flow.bytes_accepted), (1_000_000, 1_000_000), "{transport}");
        // At the full rate from the beginning, and at a quarter of one link's at the least.
        let seconds = flow.completion_ns.expect("it is complete") as f64 / 1e9;
        let fastest = 8e6 / 8e6 / if transport == "mptcp" { 2.0 } else { 1.0 };
        assert!((fastest..4.0).contains(&seconds), "{transport}: {seconds}");
    }
}

#[test]
fn what_has_no_download_says_so() {
    let sentence = |more: &Value| {
        let scenario: Scenario = serde_json::from_value(asymmetric("tcp", more)).unwrap();
        run(&scenario).expect_err("refused").to_string()
    };
    let requests = json!({"kind": "requests", "request_bytes": 100, "response_bytes": 100, "pause_ns": 0, "duration_ns": 1_000_000_000});
    assert!(sentence(&json!({"direction": "download", "app": requests})).contains("their responses come from the server"));
    let rate = json!({"kind": "on_off", "on_ns": 1_000_000_000, "off_ns": 0, "duration_ns": 1_000_000_000, "bits_per_s": 1_000_000});
    assert!(
        sentence(&json!({"direction": "download", "transport": "udp", "app": rate})).contains("let `client` and `server` change places")
    );
}
