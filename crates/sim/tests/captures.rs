//! Captures of scenarios with known bytes: each packet is right, and the run is the same as
//! without.

use polypath_sim::{CaptureFile, Outcome, Scenario, run_captured};
use polypath_wire::{Flags, Segment, icmpv4, ipv4, udp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Time, length on the wire, bytes.
type Packet<'a> = (u64, u32, &'a [u8]);

/// The packets of a pcapng file of ours, and how many its statistics say there were and are
/// missing.
fn packets(file: &[u8]) -> (Vec<Packet<'_>>, [u64; 2]) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut found, mut counts, mut at) = (vec![], [0; 2], 0);
    while at < file.len() {
        let len = word(at + 4) as usize;
        match word(at) {
            6 => {
                let kept = word(at + 20) as usize;
                let time = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                found.push((time, word(at + 24), &file[at + 28..at + 28 + kept]));
            }
            5 => {
                // Options: code, length, value; the two counts have eight bytes each.
                let mut option = at + 20;
                while word(option) & 0xffff != 0 {
                    let (code, len) = (word(option) & 0xffff, word(option) >> 16);
                    if let 4 | 5 = code {
                        counts[code as usize - 4] = u64::from(word(option + 4)) | u64::from(word(option + 8)) << 32;
                    }
                    option += 4 + (len as usize).next_multiple_of(4);
                }
            }
            _ => {}
        }
        at += len;
    }
    (found, counts)
}

fn scenarios() -> impl Iterator<Item = (String, Value)> {
    include_str!("known_bytes/scenarios.jsonl").lines().map(|line| {
        let mut entry: Value = serde_json::from_str(line).expect("each line is one JSON object");
        (entry["name"].as_str().expect("a name").to_owned(), entry["scenario"].take())
    })
}

/// Captures at both ends of each link, of hosts or of all nodes.
fn captured(mut scenario: Value, routers_too: bool, snaplen: u32) -> Value {
    let is_router = |name: &Value| scenario["nodes"].as_array().unwrap().iter().any(|node| node["name"] == *name && node["router"] == true);
    let mut places = vec![];
    for link in scenario["links"].as_array().unwrap() {
        let ends = [&link["a"]["node"], &link["b"]["node"]].into_iter().filter(|node| routers_too || !is_router(node));
        places.extend(ends.map(|node| json!({"node": node, "link": link["name"], "snaplen": snaplen, "packets": 1_000_000})));
    }
    scenario["captures"] = places.into();
    scenario
}

fn ran(scenario: &Value) -> (Outcome, Vec<CaptureFile>) {
    let scenario: Scenario = serde_json::from_value(scenario.clone()).expect("the simulator reads it");
    run_captured(&scenario).expect("the scenario is valid")
}

#[test]
fn captures_are_right_and_change_nothing() {
    // A part of them, in which everything occurs: the whole takes a minute.
    for (name, scenario) in
        scenarios().enumerate().filter(|(number, (name, _))| number % 9 == 0 || name.starts_with("mtu-icmp-0")).map(|(_, each)| each)
    {
        let ((with, captures), (without, _)) = (ran(&captured(scenario.clone(), false, 65_535)), ran(&scenario));
        assert!(format!("{with:?}") == format!("{without:?}"), "{name} has another outcome when it is captured");
        let clients: Vec<String> =
            scenario["flows"].as_array().unwrap().iter().map(|flow| format!("{}-", flow["client"].as_str().unwrap())).collect();
        let mut streams = Streams::new();
        for capture in &captures {
            let at_client = clients.iter().any(|client| capture.name.starts_with(client));
            let (packets, [had, missing]) = packets(&capture.bytes);
            assert_eq!((packets.len() as u64, missing), (had, 0), "{name}: {}", capture.name);
            let mut before = 0;
            for (time, len, bytes) in packets {
                assert!(time >= before && len as usize == bytes.len());
                before = time;
                check(&name, bytes, at_client, &mut streams);
            }
        }
        counters_agree(&name, &with, &streams);
    }
}

#[test]
fn what_a_router_forwards_is_cut_and_counted() {
    let (_, scenario) = scenarios().find(|(name, _)| name == "bernoulli-mptcp-v1").expect("it is there");
    let (outcome, at_all) = ran(&captured(scenario.clone(), true, 96));
    let whole: BTreeMap<&str, usize> = at_all.iter().map(|capture| (&*capture.name, packets(&capture.bytes).0.len())).collect();
    // What comes to the router leaves it, and what the loss took has not come.
    let sum = |node: &str| whole.iter().filter(|(name, _)| name.starts_with(node)).map(|(_, packets)| packets).sum::<usize>();
    assert!(whole["r-path1"] > 1000 && whole["r-path1"] + whole["r-path2"] == whole["r-tail1"] + whole["r-tail2"], "{whole:?}");
    // At the end some are on the way.
    assert!(sum("c-") > sum("s-") && sum("s-") + 10 >= whole["r-tail1"] + whole["r-tail2"], "{whole:?}");
    assert!(at_all.iter().flat_map(|capture| packets(&capture.bytes).0).all(|(_, len, kept)| kept.len() == 96.min(len as usize)));
    assert_eq!(outcome.flows[0].bytes_received, ran(&scenario).0.flows[0].bytes_received);
    let mut first = captured(scenario, false, 96);
    first["captures"][0]["packets"] = 10.into();
    let (_, cut) = ran(&first);
    let (had, [seen, missing]) = packets(&cut[0].bytes);
    assert_eq!((had.len() as u64, seen), (10, missing + 10));
    assert!(missing > 1000);
}

#[test]
fn the_parts_of_a_datagram_make_the_whole() {
    let (_, mut scenario) = scenarios().find(|(name, _)| name == "udp-on-off").expect("it is there");
    scenario["links"][0]["a_to_b"].as_array_mut().unwrap().push(json!({"kind": "mtu", "bytes": 600, "oversize": "fragment"}));
    let (_, captures) = ran(&captured(scenario, true, 65_535));
    let (mut payload, mut whole, mut last) = (vec![], 0, 0);
    let at_server = captures.iter().find(|capture| capture.name.starts_with("s-")).expect("the server is captured");
    for (_, _, bytes) in packets(&at_server.bytes).0 {
        let ip = ipv4::Packet::new_checked(bytes).unwrap();
        if ip.protocol() != udp::PROTOCOL {
            continue;
        }
        assert!(ip.verify_checksum() && bytes.len() <= 600);
        if usize::from(ip.fragment_offset()) * 8 != payload.len() || (!payload.is_empty() && ip.ident() != last) {
            // A part before this one was lost.
            payload.clear();
            continue;
        }
        last = ip.ident();
        payload.extend_from_slice(ip.payload());
        if !ip.more_fragments() {
            let datagram = udp::Packet::new_checked(&payload[..]).unwrap();
            assert!(datagram.verify_checksum(&ip.addresses()) && datagram.len() == payload.len());
            whole += 1;
            payload.clear();
        }
    }
    assert!(whole > 100, "{whole} datagrams");
}

#[test]
fn a_place_that_is_none_is_refused() {
    let (_, mut scenario) = scenarios().next().expect("there are some");
    scenario["captures"] = json!([{"node": "c", "link": "tail1", "snaplen": 96, "packets": 9}]);
    let scenario: Scenario = serde_json::from_value(scenario).expect("the simulator reads it");
    let refused = run_captured(&scenario).expect_err("no such place");
    assert!(refused.to_string().contains("`tail1`"), "{refused}");
}

/// By addresses and ports: what a client has sent.
type Streams = BTreeMap<[SocketAddr; 2], Stream>;

#[derive(Default)]
struct Stream {
    next: u32,
    /// Of payload, each once.
    bytes: u64,
    retransmissions: u64,
}

impl Stream {
    fn send(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::SYN) {
            self.next = segment.seq.get().wrapping_add(1);
        }
        if segment.len > 0 {
            let again = segment.seq.get().wrapping_sub(self.next) as i32;
            self.retransmissions += u64::from(again < 0);
            if again >= 0 {
                self.bytes += u64::from(segment.len);
                self.next = segment.seq.get().wrapping_add(segment.len);
            }
        }
    }
}

/// Checksums and lengths of a packet; a segment goes to its stream.
fn check(name: &str, bytes: &[u8], at_client: bool, streams: &mut Streams) {
    let ip = ipv4::Packet::new_checked(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(ip.verify_checksum() && ip.total_len() == bytes.len(), "{name}");
    assert!(!ip.more_fragments() && ip.fragment_offset() == 0, "{name}");
    if ip.protocol() == 6 {
        let (envelope, segment, _) = Segment::from_bytes(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!segment.dss.checksum_wrong, "{name}");
        if at_client {
            streams.entry([envelope.source, envelope.destination]).or_default().send(&segment);
        }
    } else if ip.protocol() == udp::PROTOCOL {
        udp::Repr::parse(&udp::Packet::new_checked(ip.payload()).unwrap(), &ip.addresses())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    } else {
        icmpv4::Repr::parse(&icmpv4::Packet::new_checked(ip.payload()).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Retransmissions, summed over the streams of each pair of addresses; and the bytes that were
/// acknowledged have been sent.
fn counters_agree(name: &str, outcome: &Outcome, streams: &Streams) {
    let mut counted: BTreeMap<[String; 2], [u64; 2]> = BTreeMap::new();
    for subflow in outcome.flows.iter().flat_map(|flow| &flow.subflows) {
        let sum = counted.entry([subflow.source.clone(), subflow.destination.clone()]).or_default();
        sum[0] += subflow.counters.retransmissions;
        sum[1] += subflow.counters.bytes_acked;
    }
    let mut seen: BTreeMap<[String; 2], [u64; 2]> = counted.keys().map(|key| (key.clone(), [0; 2])).collect();
    for (ends, stream) in streams {
        if let Some(sum) = seen.get_mut(&ends.map(|end| end.ip().to_string())) {
            sum[0] += stream.retransmissions;
            sum[1] += stream.bytes;
        }
    }
    for (ends, [retransmissions, acked]) in counted {
        assert_eq!(seen[&ends][0], retransmissions, "{name}: {ends:?}");
        assert!(seen[&ends][1] >= acked, "{name}: {ends:?}");
    }
}
