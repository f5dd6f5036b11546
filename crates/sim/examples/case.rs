//! Runs cases of `polypath_sim::bench`, or scenarios in files of JSON, for a profiler:
//! `cargo run --release -p polypath-sim --example case CASE|FILE.json...`. `polypath bench`
//! measures them; here nobody holds a clock.

use polypath_sim::bench;
use std::process::ExitCode;

fn main() -> ExitCode {
    for name in std::env::args().skip(1) {
        let scenario = match bench::case(&name) {
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
