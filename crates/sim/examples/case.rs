//! Runs cases of `polypath_sim::bench`, or scenarios in files of JSON, for a profiler:
//! `cargo run --release -p polypath-sim --example case CASE|CASE@MS|FILE.json...`. `polypath bench`
//! measures them; here nobody holds a clock. With two durations, `MS`, a counter of instructions
//! tells what a packet costs without the beginning.

use polypath_base::Duration;
use polypath_sim::bench;
use polypath_sim::scenario::{App, Scenario};
use std::process::ExitCode;

/// The case of this name, which lasts so long if that is said.
fn case(name: &str) -> Option<Scenario> {
    let Some((case, ms)) = name.split_once('@') else { return bench::case(name) };
    let (mut scenario, duration) = (bench::case(case)?, Duration::from_millis(ms.parse().ok()?));
    scenario.duration = duration;
    for flow in &mut scenario.flows {
        (flow.app, flow.window) = (App::Bulk { duration }, [Duration::ZERO, duration]);
    }
    Some(scenario)
}

fn main() -> ExitCode {
    for name in std::env::args().skip(1) {
        let scenario = match case(&name) {
            Some(scenario) => scenario,
            None if std::path::Path::new(&name).extension().is_some_and(|extension| extension == "json") => {
                let text = std::fs::read_to_string(&name).expect("the file can be read");
                serde_json::from_str(&text).expect("the file is a scenario")
            }
            None => {
                eprintln!("there is no case {name}; there are {}, and files of JSON", bench::CASES.join(", "));
                return ExitCode::from(2);
            }
        };
        let outcome = polypath_sim::run(&scenario).expect("a case is a valid scenario");
        println!("{name}: {} packets, {} events", outcome.delivered_packets, outcome.events);
    }
    ExitCode::SUCCESS
}
