//! Searches for the longest packet that each path passes, and watches that it still does (RFC 8899,
//! with the search of `polypath_pmtu`).
//!
//! Probes leave in rounds: one as short as can be, one as long as what is in use, and the sizes
//! that the search wants to know about. The other end answers each. What has not been answered in
//! time is too long if another probe of its round was answered; if none was, the path is dead or
//! congested, and the round says nothing. A size in use that fails in [`MAX_PROBES`] rounds in a
//! row is a black hole (RFC 8899 section 4.3): the search begins anew below it. No message of a
//! router is needed, and one is no more than a hint of what to probe.
//!
//! An end that does not know probes gets the short one alone, every [`CONFIRM`], until it answers
//! one.

use polypath_base::{Bytes, Duration, Instant, PathId};
use polypath_pmtu::{Bounds, LossBurst, MtuSearch, Path, Policy, Search, Sysctls};
use std::collections::VecDeque;

pub use polypath_wire::probe::Repr as Probe;

/// Time between two rounds while nothing is looked for. A path that has become narrower is found
/// out some round trips later.
const CONFIRM: Duration = Duration::from_secs(3);
/// How long a round waits at least. An answer that comes later still counts.
const LEAST_WAIT: Duration = Duration::from_millis(200);
/// The same while no round trip is known.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Rounds in a row in which the size in use was lost; RFC 8899 section 5.1.2 has 3 probes, and here
/// loss takes answers too.
const MAX_PROBES: u8 = 4;
/// What nearly every path passes: the tunnel's packets have this length until a search has ended.
const USUAL: Bytes = Bytes::new(1500);
/// Probes that are remembered for answers that come late.
const REMEMBERED: usize = 16;

/// A path to be searched: bytes of IP packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PathBounds {
    /// In front of each packet of the host, with the outer IP header.
    pub headers: Bytes,
    /// Every path of its IP version passes so much: [`polypath_pmtu::LEAST_MTU`] or
    /// [`polypath_pmtu::LEAST_MTU_IPV6`].
    pub floor: Bytes,
    /// Longer packets are not tried: the MTU of the path's own interface, or what no path exceeds.
    pub ceiling: Bytes,
}

/// How the MTU of a tunnel is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtuConfig {
    /// As many as the tunnel has.
    pub paths: Vec<PathBounds>,
    /// The tunnel's MTU is not below this, 1280 for IPv6 inside (RFC 8200 section 5): a path that
    /// does not carry as much is left alone.
    pub least: Bytes,
}

/// See the module.
///
/// After [`PathMtus::handle_probe`] and [`PathMtus::handle_timeout`], ask
/// [`PathMtus::poll_transmit`] until it returns `None`, then [`PathMtus::poll_timeout`].
#[derive(Debug)]
pub struct PathMtus {
    paths: Vec<Searched>,
    next_id: u32,
    to_send: VecDeque<(PathId, Probe)>,
}

#[derive(Debug)]
struct Searched {
    path: Path,
    search: Search,
    /// Probes whose answers still mean something, the oldest first; those of the round that is out
    /// at the end.
    sent: VecDeque<Sent>,
    /// How many of them are of that round; 0: none is out.
    out: usize,
    /// When the round ends, or the next one begins.
    due: Instant,
    /// Rounds in a row in which the size in use was lost.
    failed: u8,
    /// The other end knows probes.
    answered: bool,
    /// A first search has ended: its result is the path's MTU.
    settled: bool,
}

#[derive(Copy, Clone, Debug)]
struct Sent {
    id: u32,
    size: Bytes,
    at: Instant,
    answered: bool,
    /// The search asked for it.
    searches: bool,
}

impl PathMtus {
    /// The first probes are due at `now`. None without paths, or if nothing fits between bounds.
    pub fn new(now: Instant, config: &MtuConfig) -> Option<Self> {
        let sound =
            |path: &PathBounds| path.floor <= path.ceiling && path.headers < path.ceiling && u16::try_from(path.ceiling.get()).is_ok();
        if config.paths.is_empty() || !config.paths.iter().all(sound) {
            return None;
        }
        let searched = |path: &PathBounds| {
            let bounds = Bounds { floor: path.floor, base: path.floor, ceiling: path.ceiling, headers: path.headers };
            let mut search = MtuSearch::Parallel.search(Sysctls::default());
            search.on_start(now, bounds);
            // A search costs some probes, once in ten minutes: no reason to wait for data.
            let path = Path { bounds, srtt: Duration::ZERO, arrived: Bytes::MAX };
            let sent = VecDeque::with_capacity(REMEMBERED);
            Searched { path, search, sent, out: 0, due: now, failed: 0, answered: false, settled: false }
        };
        Some(Self { paths: config.paths.iter().map(searched).collect(), next_id: 0, to_send: VecDeque::new() })
    }

    /// The longest packet that a path passes, as far as it is known, with all headers.
    pub fn mtu(&self, path: PathId) -> Bytes {
        let path = &self.paths[usize::from(path.0)];
        let largest = path.search.largest();
        if path.settled { largest } else { largest.max(USUAL.min(path.path.bounds.ceiling)) }
    }

    /// The longest packet of the host that a path passes.
    pub fn inner_mtu(&self, path: PathId) -> Bytes {
        self.mtu(path).saturating_sub(self.paths[usize::from(path.0)].path.bounds.headers)
    }

    /// Whether the other end answers probes: otherwise nothing is known of the path.
    pub fn is_answered(&self, path: PathId) -> bool {
        self.paths[usize::from(path.0)].answered
    }

    /// A probe or an answer has come on a path; the answer to a probe is what
    /// [`PathMtus::poll_transmit`] gives next.
    pub fn handle_probe(&mut self, now: Instant, path: PathId, probe: Probe) {
        if !probe.is_answer {
            self.to_send.push_back((path, Probe { is_answer: true, ..probe }));
            return;
        }
        let Some(searched) = self.paths.get_mut(usize::from(path.0)) else { return };
        searched.on_answer(now, probe.id);
        self.go_on(now, path);
    }

    /// The kernel has refused to send a probe: it is longer than the path's own interface takes.
    pub fn handle_refused(&mut self, now: Instant, path: PathId, probe: &Probe) {
        let Some(searched) = self.paths.get_mut(usize::from(path.0)) else { return };
        let Some(place) = searched.sent.iter().position(|sent| sent.id == probe.id && sent.searches && !sent.answered) else { return };
        if place >= searched.sent.len() - searched.out {
            searched.out -= 1;
        }
        if let Some(sent) = searched.sent.remove(place) {
            searched.search.on_probe_lost(now, sent.size);
        }
        debug_assert!(searched.out <= searched.sent.len(), "the probes of a round are remembered");
        self.go_on(now, path);
    }

    /// A message about one of the tunnel's packets says that the path passes `mtu` bytes. It may be
    /// forged.
    pub fn handle_hint(&mut self, path: PathId, mtu: Bytes) {
        if let Some(searched) = self.paths.get_mut(usize::from(path.0)).filter(|searched| searched.answered) {
            // A message about less than the floor is none that a router of this IP version sends.
            if mtu >= searched.path.bounds.floor {
                searched.search.on_hint(mtu);
            }
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        for number in 0..self.paths.len() {
            if self.paths[number].due <= now {
                self.paths[number].end_round(now);
                self.go_on(now, PathId(number as u8));
            }
        }
        debug_assert!(self.poll_timeout() > now, "what was due is done");
    }

    /// Begins a round on a path if one is due.
    fn go_on(&mut self, now: Instant, path: PathId) {
        let searched = &mut self.paths[usize::from(path.0)];
        if searched.out > 0 || searched.due > now {
            return;
        }
        let mut send = |size: Bytes, searches: bool, searched: &mut Searched| {
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            if searched.sent.len() == REMEMBERED {
                searched.sent.pop_front();
            }
            searched.sent.push_back(Sent { id, size, at: now, answered: false, searches });
            searched.out += 1;
            debug_assert!(searched.out <= REMEMBERED, "the probes of a round are remembered");
            debug_assert!(size <= searched.path.bounds.ceiling, "no probe is longer than its interface takes");
            self.to_send.push_back((path, Probe { is_answer: false, size: size.get() as u16, id }));
        };
        send(Bytes::ZERO, false, searched);
        if searched.answered {
            send(searched.search.largest(), false, searched);
            while searched.search.may_probe()
                && let Some(size) = searched.search.next_probe(now, searched.path)
            {
                searched.search.on_probe_sent(now, size);
                send(size, true, searched);
            }
        }
        let srtt = searched.path.srtt;
        searched.due = now + if srtt == Duration::ZERO { FIRST_WAIT } else { (srtt * 2).max(srtt + LEAST_WAIT) };
    }

    /// The next probe or answer, and its path.
    pub fn poll_transmit(&mut self) -> Option<(PathId, Probe)> {
        self.to_send.pop_front()
    }

    /// When [`PathMtus::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        self.paths.iter().map(|path| path.due).min().unwrap_or(Instant::NEVER)
    }
}

impl Searched {
    fn on_answer(&mut self, now: Instant, id: u32) {
        // An answer to what was not sent, or has been answered, is passed over.
        let Some(place) = self.sent.iter().position(|sent| sent.id == id && !sent.answered) else { return };
        self.sent[place].answered = true;
        let Sent { size, at, .. } = self.sent[place];
        let rtt = now.since(at);
        let srtt = &mut self.path.srtt;
        *srtt = if *srtt == Duration::ZERO { rtt.max(Duration::from_micros(1)) } else { (*srtt * 7 + rtt) / 8 };
        self.answered = true;
        let largest = self.search.largest();
        if size > largest || self.sent[place].searches {
            self.search.on_probe_acked(now, size);
        } else {
            self.search.on_data_acked(size);
        }
        if size >= largest {
            self.failed = 0;
        }
        debug_assert!(self.search.largest() <= self.path.bounds.ceiling, "no size in use is longer than the interface takes");
        let begin = self.sent.len() - self.out;
        if self.out > 0 && self.sent.range(begin..).all(|sent| sent.answered) {
            self.end_round(now);
        }
    }

    /// What of the round was not answered is lost, or says nothing.
    fn end_round(&mut self, now: Instant) {
        if self.out == 0 {
            return;
        }
        let begin = self.sent.len() - std::mem::take(&mut self.out);
        let passes = self.sent.range(begin..).any(|sent| sent.answered);
        let (mut searched, mut lost_in_use) = (false, false);
        for place in begin..self.sent.len() {
            let Sent { size, answered, searches, .. } = self.sent[place];
            searched |= searches;
            match (answered, searches) {
                (true, _) => {}
                (false, true) if passes => self.search.on_probe_lost(now, size),
                (false, true) => self.search.on_probe_forgotten(size),
                (false, false) => lost_in_use |= passes && size >= self.search.largest(),
            }
        }
        if lost_in_use {
            self.failed += 1;
            if self.failed >= MAX_PROBES {
                self.on_black_hole(now);
            }
        }
        debug_assert!(self.failed < MAX_PROBES, "a size that rounds have lost is left");
        // Nothing was left to look for: the result holds.
        self.settled |=
            passes && !searched && !lost_in_use && self.sent.range(begin..).any(|sent| sent.answered && sent.size > Bytes::ZERO);
        let again = passes && (searched || lost_in_use || !self.settled);
        self.due = if again { now } else { now + CONFIRM };
    }

    /// What is in use does not pass any more.
    fn on_black_hole(&mut self, now: Instant) {
        let size = self.search.largest();
        // A search takes some timeouts of data for chance; here rounds have shown that it is none.
        for _ in 0..MAX_PROBES {
            self.search.on_data_lost(now, LossBurst { shortest: size, longest: size, by_timeout: true });
            if self.search.largest() < size {
                break;
            }
        }
        debug_assert!(self.search.largest() < size || size <= self.path.bounds.floor, "a size that does not pass is left");
        (self.failed, self.settled) = (0, true);
    }
}
