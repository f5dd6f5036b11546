//! The emulator's life: set up, carry, give up again.

use crate::setup::{Namespaces, Workers, links};
use crate::spec::Spec;
use crate::status::{DirectionStatus, Status};
use polypath_base::Duration;
use polypath_base::Error;
use polypath_io::{Namespace, Signals, bind_to_parent};
use std::fs;
use std::path::Path;

/// Between two versions of the status file.
const REPORT: Duration = Duration::from_millis(250);

/// Builds the network, carries its links until SIGTERM, SIGINT or SIGHUP comes, and takes the names
/// of its namespaces away. To be called where no other threads run, which would get the signals.
pub fn emulate(spec: &Spec) -> Result<(), Error> {
    let signals = Signals::hold()?;
    if spec.with_parent {
        bind_to_parent()?;
    }
    let outcome = carried(spec, &signals);
    let mut unnamed = Ok(());
    for name in spec.names.values() {
        unnamed = unnamed.and(Namespace::unname(name).map_err(Error::from));
    }
    outcome.and(unnamed)
}

fn carried(spec: &Spec, signals: &Signals) -> Result<(), Error> {
    let namespaces = Namespaces::build(spec)?;
    let links = links(spec, &namespaces)?;
    for (namespace, name) in &spec.names {
        namespaces.get(namespace)?.name(name)?;
    }
    let workers = Workers::start(spec, links)?;
    let mut status = Status {
        pid: std::process::id(),
        origin_ns: workers.clock.origin_ns(),
        late_limit_ns: spec.late_limit.as_nanos(),
        ..Status::default()
    };
    let mut write = |directions: Vec<DirectionStatus>, (at_ns, cpu_ns): (u64, u64), ended: bool| {
        (status.at_ns, status.cpu_ns, status.ended) = (at_ns, cpu_ns, ended);
        status.untrusted = directions.iter().any(|direction| direction.untrusted);
        status.directions = directions;
        spec.status.as_deref().map_or(Ok(()), |file| write_whole(Path::new(file), &status))
    };
    while {
        write(workers.report(), (workers.clock.now().as_nanos(), workers.cpu_ns()), false)?;
        !signals.wait(REPORT)
    } {
        if workers.broken() {
            workers.stop();
            return Err(Error::machine("a thread of the emulator failed, which is a bug in it"));
        }
    }
    let spent = (workers.clock.now().as_nanos(), workers.cpu_ns());
    write(workers.stop(), spent, true)
}

/// Readers see the old file or the new one, never half of it.
fn write_whole(file: &Path, status: &Status) -> Result<(), Error> {
    let failed = |e: &dyn std::fmt::Display| Error::machine(format!("writing {}: {e}", file.display()));
    let text = serde_json::to_vec(status).map_err(|e| failed(&e))?;
    let draft = file.with_extension("draft");
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, file)).map_err(|e| failed(&e))
}
