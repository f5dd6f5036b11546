//! What the emulator is to do, as plain data; made by Python (`polypath.emu`). Unknown fields are
//! refused.

use polypath_base::Duration;
use polypath_guest::plan::Plan;
use polypath_link::LinkSpec;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A network whose links the emulator carries. Names and indices are checked when it is built, not
/// when it is read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The links with their elements.
    pub scenario: EmulatedScenario,
    /// Namespaces, veth pairs, addresses and routes. Both ends of an emulated link are veth pairs
    /// into the namespace `wire`.
    pub plan: Plan,
    /// The namespace that no node owns, where the emulator has its ports.
    pub wire: String,
    /// Which links of the scenario are carried, and where they end. The others are plain veth pairs
    /// of the plan.
    pub links: Vec<Emulated>,
    /// Which of the plan's namespaces get a name that `ip netns` knows; the others end with the
    /// emulator.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// File that says how the emulator fares; written anew several times a second. Its first
    /// appearance says that all is set up.
    #[serde(default)]
    pub status: Option<String>,
    /// A direction whose packets are later than this at the 99th percentile is not to be trusted.
    #[serde(rename = "late_limit_ns")]
    pub late_limit: Duration,
    /// How many threads carry the links; default: half the processors, at most one a link.
    #[serde(default)]
    pub threads: Option<usize>,
    /// The emulator ends when the process that started it does.
    #[serde(default)]
    pub with_parent: bool,
}

/// What the emulator reads of a scenario: it leaves nodes, flows and the rest to others, so it
/// accepts fields that are not here.
#[derive(Clone, Debug, Deserialize)]
pub struct EmulatedScenario {
    /// From which the elements' random streams are derived.
    pub seed: u64,
    pub links: Vec<LinkSpec>,
}

/// A link that the emulator carries.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulated {
    /// Index into the scenario's links.
    pub link: usize,
    /// Devices of the namespace `wire` to which the link's ends a and b lead.
    pub a: String,
    pub b: String,
}
