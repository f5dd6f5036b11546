//! Builds the network of a plan, runs its flows, samples, and writes what came out.

pub mod plan;
pub mod records;
