//! What a tunnel has promised, from transitions and times alone.
//!
//! It never looks at an end. Where a promise depends on something that it does not follow, such as
//! which handshake was lost, it promises nothing for as long as that may last.

use super::Setup;
use polypath_base::{Duration, Instant};
use std::ops::RangeInclusive;

/// What is under way arrives within this time, the latest of delays and
/// [`super::Transition::Delay`] included.
const UNDER_WAY: Duration = Duration::from_millis(700);
/// A handshake that is lost is followed by another one after 2.333 s; with both journeys.
const HANDSHAKE: Duration = Duration::from_millis(3800);
/// After so long without an answer an end is silent until its host has something to send.
const TRIED: Duration = Duration::from_secs(90);
/// An end that is not where the other's file says is not found by it. By itself it begins a
/// handshake when its session is so old.
const REPLACED: Duration = Duration::from_secs(150);
/// Four rounds of probes without an answer to the size in use, 3 s apart, and a new search.
const NARROWED: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Path {
    alive: bool,
    /// When it was killed or revived last.
    changed: Instant,
    /// When something on it was lost, late or sent to where nobody is, last.
    troubled: Instant,
    passes: u64,
    narrowed: Instant,
    /// Something was lost on it, so a search for its MTU may have taken that for too long.
    lossy: bool,
    /// End 0 is where the file of end 1 says.
    home: bool,
    delay: Duration,
}

#[derive(Debug)]
pub(super) struct Reference {
    encrypted: bool,
    interval: Duration,
    dead_time: Duration,
    paths: Vec<Path>,
    /// When an end started again last.
    restarted: Instant,
    /// No path has been alive since.
    blackout: Option<Instant>,
    /// With encryption: from when on both ends have a session for sure; never: somebody must send
    /// something first.
    session: Instant,
}

impl Reference {
    pub(super) fn new(setup: &Setup, passes: u64) -> Self {
        let path = |&ms: &u64| Path {
            alive: true,
            changed: Instant::ZERO,
            troubled: Instant::ZERO,
            passes,
            narrowed: Instant::ZERO,
            lossy: false,
            home: true,
            delay: Duration::from_millis(ms),
        };
        let mut reference = Self {
            encrypted: setup.encrypted,
            interval: setup.keepalive.interval,
            dead_time: setup.keepalive.dead_time,
            paths: setup.delays_ms.iter().map(path).collect(),
            restarted: Instant::ZERO,
            blackout: None,
            session: Instant::ZERO,
        };
        reference.expect_session(Instant::ZERO);
        reference
    }

    /// Something has happened that may have cost a handshake, or the keepalive that ends one.
    fn expect_session(&mut self, now: Instant) {
        if self.session == Instant::NEVER {
            return;
        }
        let found = self.paths.iter().any(|path| path.alive && path.home);
        let handshake = if found { HANDSHAKE } else { REPLACED + HANDSHAKE };
        self.session = self.session.max(now + handshake + self.interval);
    }

    pub(super) fn on_trouble(&mut self, now: Instant, path: usize, loses: bool) {
        self.paths[path].troubled = now;
        self.paths[path].lossy |= loses;
        self.expect_session(now);
    }

    pub(super) fn on_alive(&mut self, now: Instant, path: usize, alive: bool) {
        if self.paths[path].alive == alive {
            return;
        }
        (self.paths[path].alive, self.paths[path].changed) = (alive, now);
        let any = self.paths.iter().any(|path| path.alive);
        match self.blackout {
            None if !any => self.blackout = Some(now),
            Some(since) if any => {
                self.blackout = None;
                if now.since(since) + UNDER_WAY >= TRIED {
                    self.session = Instant::NEVER;
                }
            }
            _ => {}
        }
        self.expect_session(now);
    }

    pub(super) fn on_narrowed(&mut self, now: Instant, path: usize, passes: u64) {
        (self.paths[path].passes, self.paths[path].narrowed) = (passes, now);
    }

    pub(super) fn on_restart(&mut self, now: Instant, end: usize) {
        self.restarted = now;
        if end == 0 {
            // It tells the other where it is.
            self.paths.iter_mut().for_each(|path| path.troubled = now);
        }
        self.expect_session(now);
    }

    pub(super) fn on_roam(&mut self, now: Instant, path: usize) {
        self.paths[path].home = false;
        self.on_trouble(now, path, false);
    }

    /// A host has something to send.
    pub(super) fn on_send(&mut self, now: Instant) {
        if self.session == Instant::NEVER && self.blackout.is_none() {
            self.session = now;
            self.expect_session(now);
        }
    }

    /// Both ends know what to encrypt with.
    pub(super) fn has_session(&self, now: Instant) -> bool {
        !self.encrypted || self.session <= now
    }

    /// Whether both ends know by now that a path is alive, or that it is dead; none: one of them
    /// may be wrong.
    pub(super) fn is_up(&self, now: Instant, number: usize) -> Option<bool> {
        let path = &self.paths[number];
        let known = if path.alive {
            let from = path.changed.max(path.troubled);
            // A session lets keepalives through, and the next of them is due an interval later.
            let session = if self.encrypted { self.session } else { Instant::ZERO };
            self.has_session(now) && now >= from.max(session) + self.interval + path.delay + UNDER_WAY
        } else {
            now >= path.changed.max(path.troubled).max(self.restarted) + self.dead_time + UNDER_WAY
        };
        known.then_some(path.alive)
    }

    /// What is sent now arrives, if no transition comes between: there is a path, and its sender
    /// knows which are dead.
    pub(super) fn carries(&self, now: Instant) -> bool {
        let up: Option<Vec<bool>> = (0..self.paths.len()).map(|path| self.is_up(now, path)).collect();
        self.has_session(now) && up.is_some_and(|up| up.contains(&true))
    }

    /// The same of the longest packets that the device takes.
    pub(super) fn carries_longest(&self, now: Instant) -> bool {
        let latest = self.paths.iter().map(|path| path.narrowed.max(path.changed).max(path.troubled)).max();
        self.carries(now) && latest.is_some_and(|latest| now >= latest.max(self.restarted) + NARROWED)
    }

    /// What a search has found out about a path by now.
    pub(super) fn path_mtu(&self, now: Instant, number: usize) -> Option<RangeInclusive<u64>> {
        let path = &self.paths[number];
        let session = if self.encrypted { self.session } else { Instant::ZERO };
        let from = path.changed.max(path.troubled).max(path.narrowed).max(self.restarted).max(session);
        // How exactly a search knows a path.
        let least = if path.lossy { 0 } else { path.passes - path.passes / 128 - 9 };
        (path.alive && self.has_session(now) && now.since(from) >= NARROWED).then_some(least..=path.passes)
    }
}
