//! Scenarios as the playground hands them to the simulator: JSON.

use polypath_base::Duration;
use polypath_sim::{Run, Scenario};

/// So much of a run: what is built, started and answered once.
const FOR: Duration = Duration::from_millis(20);

/// A scenario that is taken runs; whatever is wrong with it is said, and nothing panics.
pub fn scenarios(bytes: &[u8]) {
    let Ok(scenario) = serde_json::from_slice::<Scenario>(bytes) else { return };
    if polypath_sim::check(&scenario, true).is_ok()
        && let Ok(mut run) = Run::new(&scenario)
    {
        run.advance(FOR);
        run.finish();
    }
}
