//! Signs of life: keepalives and reports, which either thread sends when the tunnel's state asks for them.

use crate::core::{Core, Sign};
use crate::encryption::Session;
use polypath_base::PathId;
use std::net::SocketAddr;
use std::sync::Arc;

/// Sends signs of life on their paths, encrypted where the tunnel is; those before the first session are dropped.
pub(crate) fn send(core: &Core, session: Option<&Arc<Session>>, remotes: &[SocketAddr], signs: &mut Vec<(PathId, Sign)>) {
    let (config, (peer, own)) = (&core.config, core.config.peer);
    let mut sealed = Vec::new();
    for (path, sign) in signs.drain(..) {
        let mut bytes = match sign {
            Sign::Keepalive if !config.keepalives => continue,
            Sign::Keepalive => config.encapsulation.keepalive(own, peer),
            Sign::Report(report) => config.encapsulation.report(&report),
        };
        if config.encryption.is_some() {
            let Some(session) = session else { continue };
            sealed.clear();
            session.seal(path, &bytes, &mut sealed);
            std::mem::swap(&mut bytes, &mut sealed);
        }
        // One that does not go out is a sign of life less; the next one tries again.
        let _ = core.paths[usize::from(path.0)].main.send_now(remotes[usize::from(path.0)], &bytes);
    }
}
