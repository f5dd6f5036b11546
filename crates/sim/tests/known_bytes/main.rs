//! Scenarios with known bytes: a change that only moves or renames code leaves every result as it
//! was, to the byte.
//!
//! `scenarios.jsonl` has one scenario a line: cells of the reference tables and of the studies,
//! shortened, and one for each scheduler, congestion control, queue management, application, loss
//! model and MTU setting. `digests.tsv` has the digest of each outcome, series included, and beside
//! it the numbers by which a reader judges what changed ([`COLUMNS`]). A change of behaviour renews
//! it, and the commit says which scenarios changed and why:
//!
//!     cargo test -p polypath-sim --test known_bytes renew -- --ignored
//!
//! A new scenario adds one line to both files and changes no other. Run the test before you begin,
//! so that you know whose change it is.

use polypath_sim::outcome::Outcome;
use polypath_sim::{Scenario, run};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const SCENARIOS: &str = include_str!("scenarios.jsonl");
const DIGESTS: &str = include_str!("digests.tsv");

/// `-`: the scenario has nothing of the kind.
const COLUMNS: [&str; 8] = [
    "scenario",
    "digest",
    // Mbit/s over the whole run: flows joined by a comma, their subflows by a plus sign.
    "goodput_mbps",
    // Of all subflows, since the start.
    "retransmissions",
    "timeouts",
    // Packets that queues, loss, a link that was down or an MTU dropped, on all links.
    "drops",
    // Packets: the longest queue of a link.
    "max_queue",
    // Seconds from the start until the last transfer was read; of other applications, the length of
    // the run.
    "end_s",
];

type Row = [String; COLUMNS.len()];

fn row(name: &str, outcome: &Outcome) -> Row {
    let mbps = |bytes: u64| format!("{:.3}", bytes as f64 * 8e3 / outcome.simulated_ns as f64);
    let goodput = outcome.flows.iter().map(|flow| match &flow.subflows[..] {
        [] => mbps(flow.bytes_received),
        subflows => subflows.iter().map(|subflow| mbps(subflow.counters.bytes_acked)).collect::<Vec<_>>().join("+"),
    });
    let subflows: Vec<_> = outcome.flows.iter().flat_map(|flow| &flow.subflows).map(|subflow| &subflow.counters).collect();
    let of_subflows = |sum: u64| if subflows.is_empty() { "-".to_owned() } else { sum.to_string() };
    let links = || outcome.links.iter().map(|link| &link.counters);
    let ends = outcome.flows.iter().map(|flow| Some(flow.established_ns? + flow.completion_ns?));
    let end_ns = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()).unwrap_or(outcome.simulated_ns);
    [
        name.to_owned(),
        outcome.digest().to_string(),
        goodput.collect::<Vec<_>>().join(","),
        of_subflows(subflows.iter().map(|counters| counters.retransmissions).sum()),
        of_subflows(subflows.iter().map(|counters| counters.timeouts).sum()),
        links().map(|link| link.queue_drops + link.loss_drops + link.mtu_drops + link.down_drops).sum::<u64>().to_string(),
        links().map(|link| link.max_queue_packets).max().unwrap_or(0).to_string(),
        format!("{:.6}", end_ns as f64 / 1e9),
    ]
}

/// A row for each scenario, by name.
fn rows() -> Vec<Row> {
    let lines: Vec<&str> = SCENARIOS.lines().collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(lines.len()));
    let work = || {
        while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut entry: Value = serde_json::from_str(line).expect("each line is one JSON object");
            let scenario: Scenario =
                serde_json::from_value(entry["scenario"].take()).expect("the scenario is one that the simulator reads");
            let outcome = run(&scenario).expect("the scenario is valid");
            let name = entry["name"].as_str().expect("each scenario has a name");
            done.lock().unwrap_or_else(PoisonError::into_inner).push(row(name, &outcome));
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

/// What a reader judges of a scenario that changed: the columns that differ, each with its old and
/// its new value.
fn difference(known: &Row, found: &Row) -> String {
    let numbers = COLUMNS.iter().zip(known.iter().zip(found)).skip(2);
    let changed: Vec<String> =
        numbers.filter(|(_, (old, new))| old != new).map(|(column, (old, new))| format!("{column} {old} -> {new}")).collect();
    let changed = if changed.is_empty() { "none of the numbers".to_owned() } else { changed.join("; ") };
    format!("{}: {changed}", found[0])
}

#[test]
fn outcomes_have_the_bytes_that_are_known() {
    let mut known = DIGESTS.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(known.next().as_deref(), Some(&COLUMNS.map(str::to_owned)[..]), "digests.tsv begins with the names of its columns");
    let known: Vec<Row> = known.map(|cells| cells.try_into().expect("a cell for each column")).collect();
    let found = rows();
    let names = |rows: &[Row]| rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>();
    assert_eq!(names(&found), names(&known), "scenarios.jsonl and digests.tsv list the same scenarios");
    let changed: Vec<String> = known.iter().zip(&found).filter(|(known, found)| known != found).map(|(k, f)| difference(k, f)).collect();
    assert!(
        changed.is_empty(),
        "{} of {} scenarios changed:\n{}\nA refactoring changes none. If the change of behaviour is meant, renew the digests as the head of {} says.",
        changed.len(),
        found.len(),
        changed.join("\n"),
        file!()
    );
}

#[test]
fn a_difference_names_the_columns_that_changed() {
    let row = |digest: &str, goodput: &str, end: &str| ["a", digest, goodput, "3", "0", "-", "20", end].map(str::to_owned);
    let known = row("01", "1.000+2.000", "5.0");
    assert_eq!(difference(&known, &row("02", "1.000+1.500", "5.5")), "a: goodput_mbps 1.000+2.000 -> 1.000+1.500; end_s 5.0 -> 5.5");
    assert_eq!(difference(&known, &row("02", "1.000+2.000", "5.0")), "a: none of the numbers");
}

#[test]
#[ignore = "writes digests.tsv anew, after a change of behaviour"]
fn renew() {
    let header = COLUMNS.map(str::to_owned);
    let text: String = std::iter::once(&header).chain(&rows()).map(|row| row.join("\t") + "\n").collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/known_bytes/digests.tsv");
    std::fs::write(file, text).expect("the folder of the tests can be written");
}
