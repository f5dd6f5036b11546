//! An end of a tunnel that hears anything, in any order, over several paths.

use polypath_base::{Bytes, Duration, Instant, PathId, Seq};
use polypath_tunnel::{
    Endpoint, EndpointConfig, FecConfig, KeepaliveConfig, Message, MtuConfig, Parity, PathBounds, Probe, ReorderConfig, Report, Spreading,
};
use std::collections::BTreeSet;

/// A timer that fires so often without time passing never ends.
const MOST_TIMEOUTS: usize = 10_000;

/// What happens: seven bytes each.
#[derive(Copy, Clone, Debug)]
enum Event {
    /// A packet of the host, of this flow and length.
    Inner(u32, u64),
    /// A packet with this number, or without.
    Data(Option<u32>),
    Keepalive,
    Report(Report),
    Probe(Probe),
    /// A parity of a block.
    Parity(Parity),
    /// The kernel refused a probe of this size.
    RefusedProbe(Probe),
    /// A router says that longer packets do not pass.
    MtuHint(u64),
    Passes(Duration),
}

impl Event {
    fn read(kind: u8, [a, b, c, d]: [u8; 4], next: Seq) -> Self {
        let number = u32::from_be_bytes([a, b, c, d]);
        let size = u64::from(u16::from_be_bytes([c, d]));
        // What is near to what was sent gets further than what is not.
        let near = next.get().wrapping_sub(u32::from(d));
        let probe = Probe { is_answer: a & 1 != 0, size: size as u16, id: if a & 2 == 0 { u32::from(b) } else { number } };
        match kind % 10 {
            _ if kind >= 250 => Self::Parity(Parity { index: a & 3, packets: b & 31, parities: c & 7, first: u32::from(d) }),
            0 | 1 => Self::Inner(u32::from(a), 20 + size % 1481),
            2 => Self::Data((a & 0x80 == 0).then_some(number)),
            3 => Self::Data(Some(near)),
            4 => Self::Keepalive,
            5 => Self::Report(Report {
                sent_us: number,
                echo: (a & 1 != 0).then_some((near, number)),
                latest: (a & 2 != 0).then_some((if a & 4 == 0 { near } else { number }, number)),
                packets: if a & 8 == 0 { u32::from(c) } else { number },
                bytes: if a & 16 == 0 { u32::from(c) * 1400 } else { number },
            }),
            6 => Self::Probe(probe),
            7 => Self::RefusedProbe(probe),
            8 => Self::MtuHint(size),
            _ => Self::Passes(Duration::from_micros(u64::from(number >> (a & 31)))),
        }
    }
}

/// The first four bytes say what tunnel it is; then a byte with the kind of event, one with the
/// path, and four of its own.
pub fn tunnel_paths(bytes: &[u8]) {
    let Some((&[form, rule, times, weight], mut rest)) = bytes.split_first_chunk() else { return };
    let paths = 1 + usize::from(form & 3);
    let capacity = 1 + 4 * u32::from(times);
    let most = Duration::from_millis(1 + u64::from(times));
    let config = EndpointConfig {
        weights: (0..paths).map(|path| 1 + u32::from(weight) * path as u32 % 1000).collect(),
        spreading: match form >> 2 & 3 {
            0 => Spreading::Turns { batch: 1 + u32::from(times & 7) },
            1 => Spreading::Flows,
            _ => Spreading::Earliest,
        },
        reorder: match rule % 6 {
            0 => ReorderConfig::Off,
            1 => ReorderConfig::Mpt { window: capacity, max_delay: most },
            2 => ReorderConfig::Fixed { timeout: most, capacity },
            3 => ReorderConfig::Adaptive { offset: most, cap: most * 2, capacity },
            4 => ReorderConfig::Equalised { cap: most, capacity },
            _ => ReorderConfig::Progress { max_delay: most, capacity },
        },
        keepalive: KeepaliveConfig { data_count: form & 0x10 == 0, progress: form & 0x20 == 0, ..KeepaliveConfig::default() },
        mtu: (form & 0x40 != 0).then(|| MtuConfig {
            paths: vec![
                PathBounds {
                    headers: Bytes::new(36),
                    floor: polypath_pmtu::LEAST_MTU,
                    ceiling: Bytes::new(1000 + 32 * u64::from(rule))
                };
                paths
            ],
            least: Bytes::new(if form & 0x80 == 0 { 1280 } else { 576 }),
        }),
        fec: (weight & 1 != 0 && rule % 6 > 1).then(|| {
            let packets = 1 + (weight >> 1 & 31);
            FecConfig { packets, parities: 1 + times % packets, timeout: Duration::from_millis(1 + u64::from(times)) }
        }),
    };
    let mut now = Instant::ZERO;
    let Some(mut end) = Endpoint::new(now, &config) else { return };
    let (mut came, mut given, mut sent) = (0_u32, BTreeSet::new(), Seq::new(0));
    while let Some((&[kind, path, ref four @ ..], behind)) = rest.split_first_chunk::<6>() {
        rest = behind;
        let path = PathId(path % (paths as u8 + 1));
        let event = Event::read(kind, *four, sent);
        match event {
            Event::Inner(flow, len) => {
                if !end.is_full(now) {
                    end.handle_inner(now, flow, Bytes::new(len), u32::MAX);
                }
            }
            Event::Data(seq) => {
                came += 1;
                end.handle_outer(now, path, Bytes::new(1400), Message::Data { seq: seq.map(Seq::new), packet: came });
            }
            Event::Keepalive => end.handle_outer(now, path, Bytes::new(8), Message::Keepalive),
            Event::Report(report) => end.handle_outer(now, path, Bytes::new(32), Message::Report(report)),
            Event::Probe(probe) => end.handle_outer(now, path, Bytes::new(u64::from(probe.size)), Message::Probe(probe)),
            Event::Parity(parity) => {
                came += 1;
                end.handle_outer(now, path, Bytes::new(1400), Message::Parity { parity, payload: came });
            }
            Event::RefusedProbe(probe) if usize::from(path.0) < paths => end.handle_refused_probe(now, path, &probe),
            Event::MtuHint(mtu) if usize::from(path.0) < paths => end.handle_mtu_hint(path, Bytes::new(mtu)),
            Event::Passes(time) => now += time,
            Event::RefusedProbe(_) | Event::MtuHint(_) => {}
        }
        correct(&mut end, now, &mut came);
        drain(&mut end, came, &mut given, &mut sent);
        let mut fired = 0;
        while end.poll_timeout() <= now {
            end.handle_timeout(now);
            correct(&mut end, now, &mut came);
            drain(&mut end, came, &mut given, &mut sent);
            fired += 1;
            assert!(fired < MOST_TIMEOUTS, "{event:?}: a timer fires for ever at {now:?}");
        }
        assert!(end.mtu().is_none_or(|mtu| mtu >= Bytes::new(576)), "{event:?}: {:?}", end.mtu());
    }
}

/// Makes parities, and packets of them: no more than parities that came.
fn correct(end: &mut Endpoint<u32>, now: Instant, came: &mut u32) {
    if let Some(first) = end.poll_block() {
        for index in 0..first.parities {
            end.handle_parity(now, Parity { index, ..first }, Bytes::new(1400), u32::MAX);
        }
    }
    while let Some(recovery) = end.poll_recovery() {
        assert!(recovery.missing.len() <= recovery.parities.len(), "{recovery:?}");
        for seq in recovery.missing {
            *came += 1;
            end.handle_recovered(now, seq, *came);
        }
    }
}

/// Takes what leaves and what is delivered: of what came, each once.
fn drain(end: &mut Endpoint<u32>, came: u32, given: &mut BTreeSet<u32>, sent: &mut Seq) {
    while let Some((_, message)) = end.poll_transmit() {
        if let Message::Data { seq: Some(seq), .. } = message {
            *sent = seq;
        }
    }
    while let Some(packet) = end.poll_deliver() {
        assert!(packet <= came && given.insert(packet), "packet {packet} of {came} is delivered twice, or never came");
    }
}
