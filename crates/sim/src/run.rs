//! A run in steps: between them a caller shows progress or abandons it.

use crate::outcome::{CaptureFile, Outcome};
use crate::scenario::Scenario;
use crate::world::World;
use crate::{Error, build};
use polypath_base::{Duration, Instant};

/// A run: [`Run::advance`] as often as wanted, then [`Run::finish`]. Steps change nothing of what
/// comes of it.
#[derive(Debug)]
pub struct Run {
    world: World,
    duration: Duration,
}

impl Run {
    /// A run of which nothing has happened yet.
    pub fn new(scenario: &Scenario) -> Result<Self, Error> {
        Ok(Self { world: build::world(scenario)?, duration: scenario.duration })
    }

    /// Runs until this simulated time, or until the run ends. Whether it has.
    pub fn advance(&mut self, until: Duration) -> bool {
        self.world.advance(Instant::ZERO + until.min(self.duration));
        until >= self.duration || self.world.is_complete()
    }

    /// Forgets the packets captured so far.
    pub fn discard_captured(&mut self) {
        self.world.data_plane.captures.discard();
    }

    /// What came of it, as of the time that it has reached.
    pub fn finish(self) -> (Outcome, Vec<CaptureFile>) {
        self.world.into_outcome()
    }
}
