//! What is wrong with a scenario, in one sentence.

use polypath_link::InvalidElement;
use std::fmt;

/// A scenario that cannot be simulated. The sentence names what must be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Of what the sentence speaks, such as "flow `f`"; empty: it says so itself.
    subject: String,
    sentence: String,
    place: Vec<String>,
    simulator_only: bool,
}

impl ScenarioError {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self { subject: String::new(), sentence: sentence.into(), place: Vec::new(), simulator_only: false }
    }

    /// Says what the sentence speaks of.
    pub(crate) fn of(self, subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), ..self }
    }

    /// Says which field is at fault.
    pub(crate) fn at(self, place: &[&str]) -> Self {
        Self { place: place.iter().map(|part| (*part).to_owned()).collect(), ..self }
    }

    /// Says that the scenario is sound, and only the simulator has no model of what it asks for.
    pub(crate) fn simulator_only(self) -> Self {
        Self { simulator_only: true, ..self }
    }

    /// The field at fault from the scenario's root, names in place of numbers: `flows`, `f`, `app`. Empty where none is known.
    pub fn place(&self) -> &[String] {
        &self.place
    }

    /// The sentence without its subject, for whoever names the field.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Whether other engines may run the scenario.
    pub const fn is_simulator_only(&self) -> bool {
        self.simulator_only
    }
}

impl From<InvalidElement> for ScenarioError {
    fn from(invalid: InvalidElement) -> Self {
        let error = Self::new(invalid.reason.to_string()).of(invalid.subject());
        error.at(&["links", &invalid.link, invalid.side, &invalid.number.to_string()])
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for ScenarioError {}
