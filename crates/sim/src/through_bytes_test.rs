//! What the simulator carries is what stands in packets: every segment is made bytes on its first
//! link, and read again, and nothing is lost.

use crate::scenario::Scenario;
use crate::{Outcome, build, run};
use polypath_base::Instant;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn run_through_bytes(scenario: &Scenario) -> (Outcome, u64) {
    let mut world = build::world(scenario).expect("the scenario is valid");
    let count = Arc::new(AtomicU64::new(0));
    world.data_plane.through_bytes = Some(Arc::clone(&count));
    world.advance(Instant::ZERO + scenario.duration);
    let (outcome, _) = world.into_outcome();
    (outcome, count.load(Ordering::Relaxed))
}

/// Of the scenarios with known bytes: TCP and MPTCP of both versions with loss and SACK, joins,
/// announced and withdrawn addresses, requests.
const NAMES: [&str; 14] = [
    "app-mptcp-v0-requests",
    "app-mptcp-v1-requests",
    "app-tcp-v1-on-off",
    "aqm-codel-ecn1",
    "bernoulli-mptcp-v0",
    "bernoulli-mptcp-v1",
    "bernoulli-tcp-v1",
    "endpoints-v1",
    "mtu-icmp-0-mptcp-v1",
    "ndiffports-v0",
    "ndiffports-v1",
    "removal-v0",
    "removal-v1",
    "sysctls",
];

#[test]
fn segments_that_go_through_bytes_change_no_outcome() {
    let mut seen = Vec::new();
    for line in include_str!("../tests/known_bytes/scenarios.jsonl").lines() {
        let mut entry: Value = serde_json::from_str(line).expect("each line is one JSON object");
        let name = NAMES.into_iter().find(|&name| entry["name"] == name);
        let Some(name) = name else { continue };
        let scenario: Scenario = serde_json::from_value(entry["scenario"].take()).expect("the simulator reads it");
        let (outcome, count) = run_through_bytes(&scenario);
        // Not assert_eq: an outcome is too long to be read.
        let same = format!("{outcome:?}") == format!("{:?}", run(&scenario).expect("the scenario is valid"));
        assert!(same, "{name} has another outcome through bytes");
        assert!(count > 100, "{name}: {count} segments");
        seen.push(name);
    }
    assert_eq!(seen.len(), NAMES.len(), "{seen:?}");
}
