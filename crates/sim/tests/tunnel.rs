//! Tunnels in scenarios: what they add to packets, in what order packets come out, what holds them
//! up, and what captures show.

use polypath_sim::outcome::{TunnelOutcome, TunnelPathCounters};
use polypath_sim::{CaptureFile, Outcome, Scenario, run_captured};
use polypath_wire::{Segment, gre, ipv4, mpt, parity, report, tcp, udp};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;

/// Host `a`, host `b` and a router on each of two paths of 10 Mbit/s; the first path takes `lag` ms
/// longer. The rate stands at the host's own interface (`nic`) or at the router's.
fn two_paths(nic: bool, lag: u64) -> Value {
    let rate = json!({"kind": "rate", "bits_per_s": 10_000_000, "queue": {"packets": 60}});
    let mut links = vec![];
    for (path, lag) in [(1, lag), (2, 0)] {
        let delay = json!({"kind": "delay", "delay_ns": 1_000_000 * (1 + lag)});
        let end =
            |node: &str, last: u8| json!({"node": node, "address": format!("10.{path}.{}.{last}", u8::from(node == "b" || last == 3))});
        let (own, net) = if nic { (json!([rate, delay]), json!([])) } else { (json!([delay]), json!([rate])) };
        links.push(json!({"name": format!("a-r{path}"), "a": end("a", 1), "b": {"node": format!("r{path}"), "address": format!("10.{path}.0.2")}, "a_to_b": own}));
        links.push(json!({"name": format!("r{path}-b"), "a": {"node": format!("r{path}"), "address": format!("10.{path}.1.1")}, "b": {"node": "b", "address": format!("10.{path}.1.2")},
                          "a_to_b": net, "b_to_a": if nic { json!([rate]) } else { json!([]) }}));
    }
    json!({
        "seed": 1, "duration_ns": 5 * SECOND,
        "nodes": [{"name": "a"}, {"name": "b"}, {"name": "r1", "router": true}, {"name": "r2", "router": true}],
        "links": links,
        "tunnels": [{
            "name": "t", "a": {"node": "a", "address": "10.9.0.1"}, "b": {"node": "b", "address": "10.9.0.2"},
            "paths": [{"a": "10.1.0.1", "b": "10.1.1.2"}, {"a": "10.2.0.1", "b": "10.2.1.2"}],
            "reorder": {"kind": "mpt", "window": 1600, "max_delay_ns": 300_000_000}
        }],
        "flows": [{
            "name": "f", "transport": "tcp", "cc": "reno", "client": "a", "server": "b", "client_address": "10.9.0.1", "server_address": "10.9.0.2",
            "app": {"kind": "bulk", "duration_ns": 4 * SECOND}, "window_ns": [0, 4 * SECOND]
        }]
    })
}

fn ran(scenario: &Value) -> (Outcome, Vec<CaptureFile>) {
    let scenario: Scenario = serde_json::from_value(scenario.clone()).expect("the simulator reads it");
    run_captured(&scenario).expect("the scenario is valid")
}

fn refused(scenario: &Value) -> String {
    let scenario: Scenario = serde_json::from_value(scenario.clone()).expect("the simulator reads it");
    let error = run_captured(&scenario).expect_err("it is refused");
    format!("{}: {}", error.field().join("."), error.sentence())
}

fn goodput_mbps(outcome: &Outcome) -> f64 {
    outcome.flows[0].goodput_receiver_bps / 1e6
}

fn there(outcome: &Outcome) -> &TunnelOutcome {
    &outcome.tunnels[0]
}

#[test]
fn one_connection_fills_both_paths_and_each_packet_grows_by_36_bytes() {
    let (outcome, _) = ran(&two_paths(false, 0));
    // Of 1500 bytes on the wire 1412 are payload: 1464 less 52 of IP, TCP and time stamps.
    assert_eq!(outcome.flows[0].subflows[0].mss, 1412);
    // A packet lost in a queue holds everything for 300 ms.
    assert!((15.0..20.0 * 1412.0 / 1500.0).contains(&goodput_mbps(&outcome)), "{}", goodput_mbps(&outcome));
    let tunnel = there(&outcome);
    assert_eq!((tunnel.name.as_str(), tunnel.a_to_b, tunnel.counters.mtu, tunnel.paths.len()), ("t", true, 1464, 2));
    for path in &tunnel.paths {
        let passed = &path.counters;
        assert!(passed.packets_sent.abs_diff(passed.packets_received + passed.packets_lost) < 70, "{passed:?}");
        assert_eq!(passed.keepalives_sent, 2, "at the start and after 5 s");
    }
    let [one, two] = [0, 1].map(|path| tunnel.paths[path].counters.packets_sent);
    assert!(one.abs_diff(two) <= 1, "equal weights alternate: {one} and {two}");
    assert_eq!((tunnel.paths[1].source.as_str(), tunnel.paths[1].destination.as_str()), ("10.2.0.1", "10.2.1.2"));
}

#[test]
fn a_reorder_rule_hides_the_difference_in_delay_and_without_one_tcp_sees_it() {
    let with = two_paths(false, 20);
    let mut without = with.clone();
    without["tunnels"][0]["reorder"] = json!({"kind": "off"});
    let ((with, _), (without, _)) = (ran(&with), ran(&without));
    let out_of_order = |outcome: &Outcome| outcome.flows[0].disorder.as_ref().unwrap().share.unwrap();
    assert!(out_of_order(&with) < 0.05 && out_of_order(&without) > 0.2, "{} {}", out_of_order(&with), out_of_order(&without));
    assert!(there(&with).reorder.held > 1000 && there(&with).counters.max_held_packets > 10);
    assert_eq!(there(&without).reorder.held, 0);
    // Four bytes less of GRE without numbers.
    assert_eq!(there(&without).counters.mtu, 1468);
}

#[test]
fn packets_that_were_sent_before_decide_the_path_of_the_first() {
    for (before, path) in [(0, 0), (3, 1), (4, 0)] {
        let mut scenario = two_paths(false, 20);
        scenario["tunnels"][0]["packets_before"] = before.into();
        scenario["flows"][0]["app"] = json!({"kind": "transfer", "bytes": 100});
        let (outcome, _) = ran(&scenario);
        // The handshake's first packet takes 21 ms there on the first path, and 1 ms on the second.
        let rtt = f64::from(outcome.flows[0].subflows[0].min_rtt_us) / 1e3;
        assert!(if path == 0 { rtt > 20.0 } else { rtt < 5.0 }, "{before} before: {rtt} ms");
    }
}

#[test]
fn a_full_socket_buffer_stops_the_tunnel_and_its_device_fills() {
    let mut scenario = two_paths(true, 0);
    scenario["tunnels"][0]["send_buffer_bytes"] = 212_992.into();
    scenario["links"][0]["a_to_b"][0]["queue"] = json!({"packets": 1000});
    scenario["links"][2]["a_to_b"][0]["queue"] = json!({"packets": 1000});
    scenario["tunnels"][0]["queue_packets"] = 100.into();
    let (outcome, _) = ran(&scenario);
    let tunnel = there(&outcome);
    assert_eq!((tunnel.counters.max_queue_packets, tunnel.counters.queue_drops > 0), (100, true), "{tunnel:?}");
    assert!(tunnel.counters.blocked.as_secs_f64() > 0.2, "{tunnel:?}");
    for link in [0, 4] {
        let counters = &outcome.links[link].counters;
        // 93 packets of 2304 bytes make the buffer full.
        assert_eq!((counters.queue_drops, counters.max_queue_packets), (0, 93), "{counters:?}");
    }
    assert!(goodput_mbps(&outcome) > 17.0);
    // Where packets are lost on the interface's own link, the buffer is freed all the same.
    scenario["links"][0]["a_to_b"].as_array_mut().unwrap().insert(0, json!({"kind": "loss", "model": "bernoulli", "probability": 0.5}));
    scenario["flows"][0] = json!({
        "name": "f", "transport": "udp", "client": "a", "server": "b", "client_address": "10.9.0.1", "server_address": "10.9.0.2",
        "app": {"kind": "on_off", "on_ns": 4 * SECOND, "off_ns": 0, "duration_ns": 4 * SECOND, "bits_per_s": 15_000_000},
        "datagram_bytes": 1400, "window_ns": [0, 4 * SECOND]
    });
    let (outcome, _) = ran(&scenario);
    let [sent, lost] = [there(&outcome).paths[0].counters.packets_sent, there(&outcome).paths[0].counters.packets_lost];
    assert!(sent > 2500 && (sent * 4 / 10..sent * 6 / 10).contains(&lost), "{sent} sent, {lost} lost");
}

#[test]
fn what_is_too_long_for_the_device_is_answered_or_split() {
    let mut scenario = two_paths(false, 0);
    // The hosts are behind `a` and `b`, which are routers now, and their own links take 1500 bytes.
    let router = |name: &str| json!({"name": name, "router": true});
    scenario["nodes"] = json!([{"name": "c"}, {"name": "s"}, router("a"), router("b"), router("r1"), router("r2")]);
    for (net, host, end) in [(7, "c", "a"), (8, "s", "b")] {
        let side = |node: &str, last: u8| json!({"node": node, "address": format!("10.{net}.0.{last}")});
        scenario["links"].as_array_mut().unwrap().push(json!({"name": format!("lan-{host}"), "a": side(host, 1), "b": side(end, 2)}));
    }
    scenario["flows"][0]["client"] = "c".into();
    scenario["flows"][0]["server"] = "s".into();
    scenario["flows"][0]["client_address"] = "10.7.0.1".into();
    scenario["flows"][0]["server_address"] = "10.8.0.1".into();
    let (outcome, _) = ran(&scenario);
    assert_eq!((outcome.flows[0].subflows[0].mss, outcome.flows[0].subflows[0].pmtu), (1412, 1464), "ICMP has told the client");
    assert!(goodput_mbps(&outcome) > 15.0);
    scenario["flows"][0] = json!({
        "name": "f", "transport": "udp", "client": "c", "server": "s", "client_address": "10.7.0.1", "server_address": "10.8.0.1",
        "app": {"kind": "on_off", "on_ns": SECOND, "off_ns": 0, "duration_ns": SECOND, "bits_per_s": 1_000_000},
        "datagram_bytes": 1472, "window_ns": [0, 4 * SECOND]
    });
    let (outcome, _) = ran(&scenario);
    let datagrams = outcome.flows[0].datagrams.as_ref().unwrap();
    let sent: u64 = there(&outcome).paths.iter().map(|path| path.counters.packets_sent).sum();
    assert_eq!((datagrams.received, sent), (datagrams.sent, 2 * datagrams.sent), "two parts each");
}

#[test]
fn a_narrow_router_on_a_path_makes_the_device_narrower() {
    let mut scenario = two_paths(false, 0);
    // Seen by ICMP alone: the interfaces say 1500.
    scenario["links"][1]["a_to_b"].as_array_mut().unwrap().insert(0, json!({"kind": "mtu", "bytes": 1300, "oversize": "icmp"}));
    let (outcome, _) = ran(&scenario);
    assert_eq!((there(&outcome).counters.mtu, outcome.flows[0].subflows[0].pmtu), (1264, 1264));
    assert!(goodput_mbps(&outcome) > 10.0, "{}", goodput_mbps(&outcome));
}

#[test]
fn a_path_that_is_down_is_left_after_the_dead_time() {
    let mut scenario = two_paths(false, 0);
    scenario["duration_ns"] = (30 * SECOND).into();
    scenario["flows"][0]["app"] = json!({"kind": "bulk", "duration_ns": 28 * SECOND});
    scenario["flows"][0]["window_ns"] = json!([20 * SECOND, 28 * SECOND]);
    for link in [0, 1] {
        for side in ["a_to_b", "b_to_a"] {
            let mut elements = scenario["links"][link][side].as_array().cloned().unwrap_or_default();
            elements.push(json!({"kind": "down", "spans_ns": [[SECOND, 40 * SECOND]]}));
            scenario["links"][link][side] = elements.into();
        }
    }
    let (outcome, _) = ran(&scenario);
    let [dead, alive] = [0, 1].map(|path| there(&outcome).paths[path].counters);
    assert_eq!((dead.went_down, alive.went_down), (1, 0));
    assert!(dead.packets_lost > 0 && (8.0..9.5).contains(&goodput_mbps(&outcome)), "{dead:?} {}", goodput_mbps(&outcome));
}

#[test]
fn a_clamped_syn_announces_what_the_tunnel_carries_and_no_more_than_before() {
    // The client is behind `a`, on a link of 1500 bytes; the server's own device is the tunnel's.
    for (mtu, clamp, expected) in [(1400, true, [1360; 2]), (1400, false, [1460, 1360]), (1464, true, [1424; 2])] {
        let mut scenario = two_paths(false, 0);
        scenario["nodes"][0]["router"] = true.into();
        scenario["nodes"].as_array_mut().unwrap().push(json!({"name": "c"}));
        let link = json!({"name": "c-a", "a": {"node": "c", "address": "10.3.0.1"}, "b": {"node": "a", "address": "10.3.0.2"}});
        scenario["links"].as_array_mut().unwrap().push(link);
        (scenario["flows"][0]["client"], scenario["flows"][0]["client_address"]) = ("c".into(), "10.3.0.1".into());
        (scenario["tunnels"][0]["mtu"], scenario["tunnels"][0]["clamp_mss"]) = (mtu.into(), clamp.into());
        scenario["captures"] = json!([{"node": "b", "link": "t", "snaplen": 2000, "packets": 10}]);
        let (_, captures) = ran(&scenario);
        let announced = packets(&captures[0].bytes).into_iter().filter_map(|bytes| {
            let outer = ipv4::Packet::new_checked(&bytes[..]).unwrap();
            let segment = tcp::Packet::new_checked(outer.payload()).unwrap();
            tcp::Repr::parse(&segment, &outer.addresses()).unwrap().mss
        });
        assert_eq!(announced.collect::<Vec<_>>(), expected, "{mtu} {clamp}");
    }
}

/// As [`two_paths`] with a device of 1500 packets, so that it can hold what a slow path makes wait.
fn earliest(lag: u64) -> Value {
    let mut scenario = two_paths(false, lag);
    scenario["tunnels"][0]["reorder"] = json!({"kind": "progress", "max_delay_ns": 300_000_000, "capacity": 4096});
    scenario["tunnels"][0]["queue_packets"] = 1500.into();
    scenario
}

#[test]
fn the_earliest_path_keeps_the_order_over_unequal_delays() {
    let turns = earliest(50);
    let mut earliest = turns.clone();
    earliest["tunnels"][0]["distribution"] = "earliest".into();
    let ((turns, _), (earliest, _)) = (ran(&turns), ran(&earliest));
    let held = |outcome: &Outcome| there(outcome).reorder.hold_time.as_secs_f64();
    assert!(held(&earliest) < held(&turns) / 10.0, "{} {}", held(&earliest), held(&turns));
    assert!(goodput_mbps(&earliest) > goodput_mbps(&turns), "{} {}", goodput_mbps(&earliest), goodput_mbps(&turns));
    // What is too much waits at the sender, and the queues of the routers stay short.
    for link in [1, 3] {
        let counters = &earliest.links[2 * link].counters;
        assert!(counters.queue_drops == 0 && counters.max_queue_packets < 60, "{counters:?}");
    }
}

#[test]
fn the_earliest_path_needs_no_weights() {
    // The first path carries 15 Mbit/s and stops for 300 ms now and then, the second 1 Mbit/s;
    // beside the connection a call of 1.5 Mbit/s.
    let mut scenario = earliest(5);
    scenario["tunnels"][0]["distribution"] = "earliest".into();
    // As Linux has it.
    scenario["tunnels"][0]["queue_packets"] = 500.into();
    scenario["duration_ns"] = (20 * SECOND).into();
    for path in [0, 1] {
        scenario["links"][2 * path + 1]["a_to_b"][0]["bits_per_s"] = [15_000_000, 1_000_000][path].into();
    }
    for side in ["a_to_b", "b_to_a"] {
        let down =
            json!({"kind": "down", "spans_ns": [[6 * SECOND, 6 * SECOND + SECOND * 3 / 10], [12 * SECOND, 12 * SECOND + SECOND * 3 / 10]]});
        scenario["links"][1][side].as_array_mut().unwrap().push(down);
    }
    let bulk = &mut scenario["flows"][0];
    (bulk["cc"], bulk["window_ns"]) = ("cubic".into(), json!([2 * SECOND, 18 * SECOND]));
    bulk["app"] = json!({"kind": "bulk", "duration_ns": 18 * SECOND});
    scenario["flows"].as_array_mut().unwrap().push(json!({
        "name": "call", "transport": "udp", "client": "a", "server": "b", "client_address": "10.9.0.1", "server_address": "10.9.0.2",
        "app": {"kind": "on_off", "on_ns": 18 * SECOND, "off_ns": 0, "duration_ns": 18 * SECOND, "bits_per_s": 1_500_000},
        "datagram_bytes": 1200, "window_ns": [2 * SECOND, 18 * SECOND]
    }));
    let (outcome, _) = ran(&scenario);
    let delay = outcome.flows[1].datagrams.as_ref().unwrap().delay.as_ref().unwrap();
    assert!(goodput_mbps(&outcome) > 0.9 * (16.0 - 1.5) * 1412.0 / 1500.0, "{}", goodput_mbps(&outcome));
    // The device's 500 packets take no longer.
    assert!(delay.p95_ns < 375_000_000, "{delay:?}");
}

#[test]
fn a_connection_that_fits_the_fast_path_stays_there() {
    let mut scenario = earliest(50);
    scenario["tunnels"][0]["distribution"] = "earliest".into();
    scenario["flows"][0]["cc"] = "vegas".into();
    let (outcome, captures) = ran(&{
        scenario["captures"] = json!([{"node": "a", "link": "a-r1", "snaplen": 2000, "packets": 200}]);
        scenario
    });
    let [slow, fast] = [0, 1].map(|path| there(&outcome).paths[path].counters.packets_sent);
    assert!(slow * 10 < fast && goodput_mbps(&outcome) > 8.0, "{slow} {fast} {}", goodput_mbps(&outcome));
    // Reports are GRE in UDP like keepalives, and whole.
    let reports = packets(&captures[0].bytes).into_iter().filter(|bytes| {
        let datagram = udp::Packet::new_checked(&bytes[20..]).unwrap();
        let header = gre::Packet::new_checked(datagram.payload()).unwrap();
        report::Packet::new_checked(header.payload()).is_ok()
    });
    assert!(reports.count() > 20, "the idle path is measured");
}

/// Paths of 10 Mbit/s that lose 1 %, under a tunnel with this error correction.
fn lossy(fec: Value) -> Value {
    let mut scenario = two_paths(false, 0);
    for link in [1, 3] {
        let elements = scenario["links"][link]["a_to_b"].as_array_mut().unwrap();
        elements.insert(0, json!({"kind": "loss", "model": "bernoulli", "probability": 0.01}));
    }
    scenario["tunnels"][0]["reorder"] = json!({"kind": "progress", "max_delay_ns": 300_000_000, "capacity": 4096});
    scenario["tunnels"][0]["fec"] = fec;
    scenario
}

#[test]
fn parities_bring_lost_packets_back() {
    let call = json!({
        "name": "f", "transport": "udp", "client": "a", "server": "b", "client_address": "10.9.0.1", "server_address": "10.9.0.2",
        "app": {"kind": "on_off", "on_ns": 4 * SECOND, "off_ns": 0, "duration_ns": 4 * SECOND, "bits_per_s": 5_000_000},
        "datagram_bytes": 1200, "window_ns": [0, 4 * SECOND]
    });
    let with = |fec| {
        let mut scenario = lossy(fec);
        scenario["flows"][0] = call.clone();
        scenario
    };
    let ((plain, _), (two, _)) = (ran(&with(Value::Null)), ran(&with(json!({"data": 10, "parity": 2, "timeout_ns": 30_000_000}))));
    let missing = |outcome: &Outcome| {
        let call = outcome.flows[0].datagrams.as_ref().expect("it is a call");
        (call.sent - call.received, call.reordered)
    };
    assert!(missing(&plain).0 > 10, "{:?}", missing(&plain));
    assert_eq!(missing(&two), (0, 0), "all come back, and in their place");
    let (tunnel, fec) = (there(&two), there(&two).fec.expect("it has it"));
    assert_eq!(there(&plain).fec, None);
    // The longest packet inside is 7 bytes shorter, so that a parity is not too long for the paths.
    assert_eq!(tunnel.counters.mtu, 1464 - 7);
    assert_eq!(two.links.iter().map(|link| link.counters.mtu_drops).sum::<u64>(), 0);
    let sum = |of: fn(&TunnelPathCounters) -> u64| tunnel.paths.iter().map(|path| of(&path.counters)).sum::<u64>();
    let (sent, lost) = (sum(|path| path.packets_sent), sum(|path| path.packets_lost));
    assert!(fec.parities_sent >= sent / 5 && fec.parities_sent < sent, "{fec:?}");
    assert!(fec.unrecovered_blocks == 0 && fec.recovered == lost + fec.recovered_late, "{fec:?} {lost}");
}

#[test]
fn a_parity_in_a_capture_has_its_header_and_its_length() {
    let mut scenario = lossy(json!({"data": 4, "parity": 2, "timeout_ns": 10_000_000}));
    scenario["duration_ns"] = (SECOND / 2).into();
    scenario["captures"] = json!([{"node": "a", "link": "a-r1", "snaplen": 2000, "packets": 1000}]);
    let (_, captures) = ran(&scenario);
    let mut longest = 0;
    for bytes in packets(&captures[0].bytes) {
        let datagram = udp::Packet::new_checked(&bytes[20..]).unwrap();
        let header = gre::Packet::new_checked(datagram.payload()).unwrap();
        if let Ok(packet) = parity::Packet::new_checked(header.payload()) {
            let repr = parity::Repr::parse(&packet).expect("a block can have it");
            assert_eq!((header.sequence(), repr.parities, packet.symbol().len() % 2), (None, 2, 0));
            longest = longest.max(bytes.len());
        }
    }
    assert_eq!(longest, 1500, "a parity of full packets fills the path's MTU");
}

#[test]
fn captures_show_gre_in_udp_with_whole_packets_inside() {
    for (key, sixth) in [(None, false), (Some(7), true)] {
        let mut scenario = two_paths(false, 0);
        scenario["duration_ns"] = (SECOND / 2).into();
        scenario["tunnels"][0]["key"] = json!(key);
        if sixth {
            let text = scenario.to_string();
            let text = (1..=2).fold(text, |text, path| {
                text.replace(&format!("\"10.{path}.0.1\""), &format!("\"fd0{path}::1\""))
                    .replace(&format!("\"10.{path}.1.2\""), &format!("\"fd0{path}::2\""))
            });
            scenario = serde_json::from_str(&text).unwrap();
        }
        scenario["captures"] = json!([{"node": "a", "link": "a-r1", "snaplen": 2000, "packets": 1000}, {"node": "a", "link": "t", "snaplen": 2000, "packets": 1000}]);
        let (_, captures) = ran(&scenario);
        let (outer, inner) = (packets(&captures[0].bytes), packets(&captures[1].bytes));
        assert!(outer.len() > 100 && inner.len() > 100, "{} {}", outer.len(), inner.len());
        let (mut data, mut keepalives) = (0, 0);
        for bytes in &outer {
            let ip_header = if sixth { 40 } else { 20 };
            assert_eq!(bytes[0] >> 4, if sixth { 6 } else { 4 });
            if !sixth {
                assert!(ipv4::Packet::new_checked(bytes).unwrap().verify_checksum());
            }
            let datagram = udp::Packet::new_checked(&bytes[ip_header..]).unwrap();
            assert_eq!((datagram.source_port(), datagram.destination_port()), (mpt::UDP_PORT, mpt::UDP_PORT));
            let header = gre::Packet::new_checked(datagram.payload()).unwrap();
            if mpt::is_message(header.payload()) {
                assert_eq!((header.sequence(), datagram.payload().len()), (None, 44));
                keepalives += 1;
                continue;
            }
            assert_eq!((header.sequence().is_some(), header.key(), header.protocol()), (true, key, gre::IPV4));
            let (envelope, segment, _) = Segment::from_bytes(header.payload()).expect("a whole segment with right checksums");
            assert!([envelope.source, envelope.destination].iter().all(|socket| socket.ip().to_string().starts_with("10.9.0.")));
            assert_eq!(segment.ip_len() as usize, header.payload().len());
            data += 1;
        }
        assert!(data > 100 && keepalives == 2, "{data} {keepalives}");
        assert!(inner.iter().all(|bytes| Segment::from_bytes(bytes).is_ok()), "the device shows what is inside");
    }
}

#[test]
fn a_tunnel_that_makes_no_sense_is_refused_with_its_field() {
    let changed = |pointer: &str, value: Value| {
        let mut scenario = two_paths(false, 0);
        *scenario.pointer_mut(pointer).unwrap() = value;
        refused(&scenario)
    };
    let begins = |refusal: String, words: &str| assert!(refusal.starts_with(words), "{refusal}");
    begins(changed("/tunnels/0/paths/0/a", "10.7.0.1".into()), "tunnels.t.paths: path 1 begins at 10.7.0.1, which is no address of `a`");
    begins(changed("/tunnels/0/paths/0/a", "10.9.0.1".into()), "tunnels.t.paths: path 1 begins at 10.9.0.1");
    begins(changed("/tunnels/0/paths", json!([])), "tunnels.t.paths: it has 0 paths");
    begins(changed("/tunnels/0/a/node", "x".into()), ": tunnel `t` leads to node `x`, which does not exist");
    begins(changed("/tunnels/0/reorder/window", 0.into()), "tunnels.t.reorder: ");
    let set = |field: &str, value: Value| {
        let mut scenario = two_paths(false, 0);
        scenario["tunnels"][0][field] = value;
        refused(&scenario)
    };
    begins(set("distribution", "earliest".into()), "tunnels.t.distribution: `earliest` needs numbered packets and the other end's reports");
    let fec = json!({"data": 10, "parity": 2, "timeout_ns": 10_000_000});
    begins(set("fec", fec), "tunnels.t.fec: lost packets are known by their numbers, and MPT knows no parity");
    for (field, wrong) in [("data", 0), ("data", 65), ("parity", 11), ("timeout_ns", 600_000_000)] {
        let mut scenario = lossy(json!({"data": 10, "parity": 2, "timeout_ns": 10_000_000}));
        scenario["tunnels"][0]["fec"][field] = wrong.into();
        begins(
            refused(&scenario),
            "tunnels.t.fec: a block has 1 to 64 packets of `data`, `parity` of 1 to as many, and a `timeout` of up to 500 ms",
        );
    }
    begins(set("batch", 0.into()), "tunnels.t.batch: 0 packets a turn");
    let mut flows = two_paths(false, 0);
    (flows["tunnels"][0]["distribution"], flows["tunnels"][0]["batch"]) = ("flows".into(), 8.into());
    begins(refused(&flows), "tunnels.t.batch: only `distribution: turns` has turns");
    let mut wide = two_paths(false, 0);
    wide["tunnels"][0]["mtu"] = 1500.into();
    begins(
        refused(&wide),
        "tunnels.t.mtu: its devices have an MTU of 1500 bytes, and 36 of headers make more than the 1500 of an interface: 1464 is the most",
    );
}

/// The packets of a pcapng file of ours.
fn packets(file: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut found, mut at) = (vec![], 0);
    while at < file.len() {
        if word(at) == 6 {
            found.push(file[at + 28..at + 28 + word(at + 20) as usize].to_vec());
        }
        at += word(at + 4) as usize;
    }
    found
}
