//! Encrypted ends that hear what a stranger makes of their messages.

use polypath_base::{Duration, Instant, PathId};
use polypath_tunneld::encryption::{Key, Keys, Opened, Peer, To};
use std::net::SocketAddr;

const PATHS: usize = 2;

/// Two ends, and events of six bytes: what happens, to which end, and how a datagram is changed. A
/// stranger may send anything, also what an end has sent, changed; an end opens nothing but what
/// the other sealed, and that once.
pub fn peers(bytes: &[u8]) {
    let own = [(); 2].map(|()| Key::generate().expect("the kernel has random numbers"));
    let keys = |end: usize| Keys { private: own[end].clone(), peer: own[1 - end].public(), preshared: Keys::NO_PRESHARED };
    let mut ends = [0, 1].map(|end| Peer::new(keys(end), PATHS, own[end].clone()));
    let mut now = Instant::ZERO;
    // Each datagram that an end has sent, whether it is data, and whether it was opened already.
    let mut sent: Vec<(usize, Vec<u8>, bool)> = vec![];
    let mut opened = std::collections::BTreeSet::new();
    let mut rest = bytes;
    while let Some((&[kind, end, which, at, value, cut], behind)) = rest.split_first_chunk() {
        rest = behind;
        let end = usize::from(end & 1);
        let path = PathId(which & 1);
        let from = SocketAddr::from(([192, 0, 2, at], 23456));
        let mut plain = vec![];
        match kind % 6 {
            0 => {
                now += Duration::from_millis(u64::from(value) << (cut & 7));
                ends[end].handle_timeout(now, 1_000_000_000_000 + now.as_nanos());
            }
            1 => {
                let mut sealed = vec![];
                if let Some(session) = ends[end].session()
                    && session.seal(path, &[which, at, value, cut], &mut sealed)
                {
                    sent.push((end, sealed, true));
                }
            }
            2 | 3 => {
                let Some((sender, datagram, is_data)) = sent.get(usize::from(which) % sent.len().max(1)).cloned() else { continue };
                let taken = ends[1 - sender].handle(now, path, (from, value & 1 != 0), &datagram, &mut plain);
                if let Ok(Opened::Data { .. }) = taken {
                    assert!(is_data && opened.insert((sender, datagram)), "a datagram was opened twice, or is no data");
                }
            }
            4 => {
                let Some((sender, mut datagram, _)) = sent.get(usize::from(which) % sent.len().max(1)).cloned() else { continue };
                let place = usize::from(at) % datagram.len();
                datagram[place] ^= value;
                datagram.truncate(datagram.len() - usize::from(cut) % datagram.len());
                let changed = sent.iter().all(|(_, known, _)| *known != datagram);
                let taken = ends[1 - sender].handle(now, path, (from, cut & 1 != 0), &datagram, &mut plain);
                // Where a proof of a cookie stands nothing is signed: an end may look at an
                // initiation whatever stands there.
                assert!(!changed || !matches!(taken, Ok(Opened::Data { .. })), "changed data were opened");
            }
            _ => {
                let length = usize::from(u16::from_be_bytes([value, cut])).min(rest.len());
                let _ = ends[end].handle(now, path, (from, at & 1 != 0), &rest[..length], &mut plain);
                rest = &rest[length..];
            }
        }
        for (end, peer) in ends.iter_mut().enumerate() {
            while let Some((to, message)) = peer.poll_transmit() {
                let (To::Path(path) | To::Back(path, _)) = to;
                assert!(usize::from(path.0) < PATHS, "{path:?}");
                sent.push((end, message, false));
            }
        }
    }
}
