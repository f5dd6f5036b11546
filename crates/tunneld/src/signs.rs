//! Signs of life: keepalives, reports and probes, which either thread sends when the tunnel's state
//! asks for them.

use crate::core::{Core, Sign, TOO_LONG};
use crate::encryption::{OVERHEAD, Session};
use polypath_base::PathId;
use polypath_tunnel::Probe;
use std::net::SocketAddr;
use std::sync::Arc;

/// Sends signs of life on their paths, encrypted where the tunnel is; those before the first
/// session are dropped.
pub(crate) fn send(core: &Core, session: Option<&Arc<Session>>, remotes: &[SocketAddr], signs: &mut Vec<(PathId, Sign)>) {
    let (config, (peer, own)) = (&core.config, core.config.peer);
    let mut sealed = Vec::new();
    let mut next = 0;
    while let Some(&(path, sign)) = signs.get(next) {
        next += 1;
        let mut bytes = match sign {
            Sign::Keepalive => config.encapsulation.keepalive(own, peer),
            Sign::Report(report) => config.encapsulation.report(&report),
            Sign::Probe(probe) => config.encapsulation.probe(&probe, probe_len(core, path, &probe)),
        };
        if config.encryption.is_some() {
            let Some(session) = session else { continue };
            sealed.clear();
            session.seal(path, &bytes, &mut sealed);
            std::mem::swap(&mut bytes, &mut sealed);
        }
        // One that does not go out is a sign of life less; the next one tries again.
        let sent = core.paths[usize::from(path.0)].main.send_now(remotes[usize::from(path.0)], &bytes);
        if let (Sign::Probe(probe @ Probe { is_answer: false, .. }), Err(error)) = (sign, sent) {
            if error.raw_os_error() == Some(TOO_LONG) {
                let mut state = core.state();
                state.endpoint.handle_refused_probe(core.clock.now(), path, &probe);
                // Shorter ones may be due at once.
                state.poll_transmit(config.encapsulation, signs);
                if !state.released.is_empty() {
                    core.wake.wake();
                }
            }
        }
    }
    signs.clear();
}

/// Bytes of the plain datagram of a probe, whose size is that of the IP packet; of an answer: none
/// to fill up.
fn probe_len(core: &Core, path: PathId, probe: &Probe) -> usize {
    if probe.is_answer {
        return 0;
    }
    let ip = if core.config.paths[usize::from(path.0)].local.is_ipv6() { 40 } else { 20 };
    let encrypted = if core.config.encryption.is_some() { OVERHEAD } else { 0 };
    usize::from(probe.size).saturating_sub(ip + 8 + encrypted)
}
