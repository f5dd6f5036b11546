//! Carries out the plan of a run and writes down what came of it: the linux engine's program inside
//! the machine, and a library for the host engine, which has a network of its own and real time.
//!
//! Start at `run`, which carries a plan out; `script` runs a person's own script instead. `plan` is
//! what comes in, `records` what goes out. `network` builds namespaces and what is in them
//! (`netem`, `shaper`, `mptcp`, `out_of_tree`, `offload`, `tunnels`). A `flow` is a TCP
//! `connection` of `client` and `server` (`sender`, `reader`, `stream`), `datagrams`, or `external`
//! programs; `progress` is how far it is. `sample` and `observe` ask the kernel over time (`diag`),
//! `capture` takes packets. `machine` and `host` start and watch the machine from outside. `sys`
//! has the system calls. Errors are sentences; nothing here writes to a console, whose interrupts
//! would make runs differ.

mod address;
mod capture;
mod client;
mod connection;
mod datagrams;
pub mod diag;
mod external;
mod flow;
mod flow_end;
mod host;
pub mod machine;
mod mptcp;
mod netem;
mod network;
mod observe;
mod offload;
mod out_of_tree;
pub mod plan;
mod policer;
mod progress;
mod reader;
pub mod records;
mod run;
mod sample;
mod script;
mod sender;
mod server;
mod shaper;
mod stream;
pub mod sys;
mod tunnels;

pub use network::Network;
pub use run::{run, run_in};
pub use script::run_script;
