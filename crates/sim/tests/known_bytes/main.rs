//! Scenarios with known bytes: a change that only moves or renames code leaves every result as it was, to the byte.
//!
//! `scenarios.jsonl` has one scenario a line: cells of the reference tables and of the studies, shortened, and one for each scheduler,
//! congestion control, queue management, application, loss model and MTU setting. `digests.tsv` has the digest of each outcome, series
//! included. A change of behaviour renews it, and the commit says which scenarios changed and why:
//!
//!     cargo test -p polypath-sim --test known_bytes renew -- --ignored

use polypath_sim::{Scenario, run};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const SCENARIOS: &str = include_str!("scenarios.jsonl");
const DIGESTS: &str = include_str!("digests.tsv");

/// FNV-1a over 64 bits.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The values of an outcome in the order of its fields, without the names of types and fields, which may change.
fn values(debug: &str) -> String {
    let mut kept = String::with_capacity(debug.len());
    let mut word = String::new();
    for c in debug.chars() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if c == ':' || (c == ' ' && word.starts_with(char::is_uppercase)) {
            word.clear();
            continue;
        }
        kept.push_str(&word);
        word.clear();
        kept.push(c);
    }
    kept + &word
}

/// Name and digest of each scenario, in the file's order.
fn digests() -> Vec<(String, u64)> {
    let lines: Vec<&str> = SCENARIOS.lines().collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(lines.len()));
    let work = || {
        while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut entry: Value = serde_json::from_str(line).expect("each line is one JSON object");
            let scenario: Scenario =
                serde_json::from_value(entry["scenario"].take()).expect("the scenario is one that the simulator reads");
            let outcome = run(&scenario).expect("the scenario is valid");
            let name = entry["name"].as_str().expect("each scenario has a name").to_owned();
            done.lock().unwrap_or_else(PoisonError::into_inner).push((name, digest(&values(&format!("{outcome:?}")))));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable();
    done
}

#[test]
fn outcomes_have_the_bytes_that_are_known() {
    let known: Vec<(String, u64)> = DIGESTS
        .lines()
        .map(|line| line.split_once('\t').expect("a name, a tab, a digest"))
        .map(|(name, hex)| (name.to_owned(), u64::from_str_radix(hex, 16).expect("the digest is hexadecimal")))
        .collect();
    let found = digests();
    assert_eq!(found.len(), known.len(), "scenarios.jsonl and digests.tsv list the same scenarios");
    let changed: Vec<&str> = found.iter().zip(&known).filter(|(found, known)| found != known).map(|(found, _)| found.0.as_str()).collect();
    assert!(
        changed.is_empty(),
        "{} of {} scenarios changed: {}. A refactoring changes none. If the change of behaviour is meant, renew the digests as the head of {} says.",
        changed.len(),
        found.len(),
        changed.join(", "),
        file!()
    );
}

#[test]
#[ignore = "writes digests.tsv anew, after a change of behaviour"]
fn renew() {
    let text = digests().iter().fold(String::new(), |mut text, (name, digest)| {
        let _ = writeln!(text, "{name}\t{digest:016x}");
        text
    });
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/known_bytes/digests.tsv");
    std::fs::write(file, text).expect("the folder of the tests can be written");
}

#[test]
fn names_do_not_count_and_values_do() {
    assert_eq!(values("Outcome { flows: [Flow { name: \"a\", goodput: 1.5 }], events: 3 }"), "{  [{  \"a\",  1.5 }],  3 }");
    assert_ne!(digest(&values("A { b: 1 }")), digest(&values("A { b: 2 }")));
}
