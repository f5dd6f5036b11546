//! Runs cases of `polypath_sim::bench`, for a profiler: `cargo run --release -p polypath-sim --example case CASE...`. `polypath bench`
//! measures them; here nobody holds a clock.

use polypath_sim::bench;
use std::process::ExitCode;

fn main() -> ExitCode {
    for name in std::env::args().skip(1) {
        let Some(scenario) = bench::case(&name) else {
            eprintln!("there is no case {name}; there are {}", bench::CASES.join(", "));
            return ExitCode::from(2);
        };
        let outcome = polypath_sim::run(&scenario).expect("a case is a valid scenario");
        println!("{name}: {} packets, {} events", outcome.delivered_packets, outcome.events);
    }
    ExitCode::SUCCESS
}
