//! Scenarios with known bytes: a change that only moves or renames code leaves every result as it was, to the byte.
//!
//! `scenarios.jsonl` has one scenario a line: cells of the reference tables and of the studies, shortened, and one for each scheduler,
//! congestion control, queue management, application, loss model and MTU setting. `digests.tsv` has the digest of each outcome, series
//! included. A change of behaviour renews it, and the commit says which scenarios changed and why:
//!
//!     cargo test -p polypath-sim --test known_bytes renew -- --ignored
//!
//! A new scenario adds one line to both files and changes no other. Run the test before you begin,
//! so that you know whose change it is.

use polypath_sim::{Scenario, run};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const SCENARIOS: &str = include_str!("scenarios.jsonl");
const DIGESTS: &str = include_str!("digests.tsv");

/// Name and digest of each scenario, in the file's order.
fn digests() -> Vec<(String, String)> {
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
            done.lock().unwrap_or_else(PoisonError::into_inner).push((name, outcome.digest().to_string()));
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
    let known: Vec<(String, String)> = DIGESTS
        .lines()
        .map(|line| line.split_once('\t').expect("a name, a tab, a digest"))
        .map(|(name, digest)| (name.to_owned(), digest.to_owned()))
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
        let _ = writeln!(text, "{name}\t{digest}");
        text
    });
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/known_bytes/digests.tsv");
    std::fs::write(file, text).expect("the folder of the tests can be written");
}
