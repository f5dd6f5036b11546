//! A run in steps is the run at once; what was captured before a moment can be forgotten.

use polypath_base::Duration;
use polypath_sim::{Run, Scenario, run_captured};
use serde_json::{Value, json};

/// The first of the scenarios with known bytes, its client's first link captured.
fn scenario() -> Scenario {
    let line = include_str!("known_bytes/scenarios.jsonl").lines().next().expect("there are scenarios");
    let mut scenario: Value = serde_json::from_str::<Value>(line).expect("a line is JSON")["scenario"].take();
    scenario["captures"] = json!([{ "node": "c", "link": "path1", "snaplen": 100, "packets": 1_000_000 }]);
    serde_json::from_value(scenario).expect("the simulator reads it")
}

#[test]
fn steps_change_nothing() {
    let scenario = scenario();
    let (whole, captures) = run_captured(&scenario).expect("it is valid");
    let mut run = Run::new(&scenario).expect("it is valid");
    let mut steps = 1_u64;
    while !run.advance(Duration::from_millis(37 * steps)) {
        steps += 1;
    }
    let (outcome, same) = run.finish();
    assert_eq!((outcome.digest(), &same[0].bytes), (whole.digest(), &captures[0].bytes));
    assert_eq!(steps, scenario.duration.as_nanos().div_ceil(37_000_000));
}

/// Times of the packets in a pcapng, ns (draft-ietf-opsawg-pcapng section 4.3).
fn times(file: &[u8]) -> Vec<u64> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut found) = (0, vec![]);
    while at < file.len() {
        if word(at) == 6 {
            found.push(u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)));
        }
        at += word(at + 4) as usize;
    }
    found
}

#[test]
fn what_was_captured_before_a_moment_is_forgotten() {
    let scenario = scenario();
    let whole = times(&run_captured(&scenario).expect("it is valid").1[0].bytes);
    let moment = whole[whole.len() / 2];
    let mut run = Run::new(&scenario).expect("it is valid");
    run.advance(Duration::from_nanos(moment));
    run.discard_captured();
    run.advance(scenario.duration);
    let kept = times(&run.finish().1[0].bytes);
    let later: Vec<u64> = whole.iter().copied().filter(|&time| time > moment).collect();
    assert!(!kept.is_empty() && kept.len() < whole.len(), "{} of {} packets", kept.len(), whole.len());
    assert_eq!(kept, later);
}
