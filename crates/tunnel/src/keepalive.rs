//! Which paths are alive: both ends send a keepalive on every path now and then, and a path on
//! which nothing has come for long is down.

use crate::silence::Silence;
use polypath_base::{Duration, Instant, PathId};
use std::collections::VecDeque;

/// How often keepalives are sent, and how long silence may last.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeepaliveConfig {
    /// Time between two keepalives on a path; above zero. By default 5 s, as the files of MPT's
    /// authors have it. [`KeepaliveConfig::NEVER`]: none is sent.
    pub interval: Duration,
    /// A path on which no keepalive has come for so long is down; not less than `interval`. By
    /// default 11 s, as there.
    pub dead_time: Duration,
    /// Data count as signs of life too. MPT counts keepalives alone.
    pub data_count: bool,
    /// A path on which nothing comes while much comes on others is down before the dead time, after
    /// a quarter of a second at the soonest. It is up again with its next sign of life; until its
    /// dead time, keepalives are sent on it more often. MPT has nothing of the kind. Not without
    /// keepalives.
    pub progress: bool,
}

impl KeepaliveConfig {
    /// Longer than any tunnel lives: as interval and dead time it makes a tunnel without
    /// keepalives.
    pub const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);
}

impl Default for KeepaliveConfig {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), dead_time: Duration::from_secs(11), data_count: true, progress: true }
    }
}

/// A path has come up or gone down.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which path.
    pub path: PathId,
    /// It is up now.
    pub up: bool,
}

/// Sends keepalives and watches those of the peer.
///
/// All paths are up at the start, so that the first packets need not wait for the peer's first
/// keepalive; a dead one goes down after the dead time.
#[derive(Clone, Debug)]
pub struct Keepalive {
    config: KeepaliveConfig,
    paths: Vec<Path>,
    /// When the next keepalives are due; all paths send at one time.
    due: Instant,
    /// When the next ones are due on paths that were left before their dead time; never: there are
    /// none.
    sooner: Instant,
    /// What [`Keepalive::poll_timeout`] answers: it is asked for each packet, and changes seldom.
    timeout: Instant,
    /// Paths that have one to send now.
    to_send: VecDeque<PathId>,
    changes: VecDeque<Change>,
}

#[derive(Copy, Clone, Debug)]
struct Path {
    heard: Instant,
    up: bool,
    silence: Silence,
}

/// Time between two keepalives on a path that was left before its dead time.
const SOONER: Duration = Duration::from_millis(250);

impl Keepalive {
    /// Of so many paths, from `now` on; none if the configuration makes no sense (see
    /// [`KeepaliveConfig`]).
    pub fn new(now: Instant, paths: usize, config: KeepaliveConfig) -> Option<Self> {
        if config.interval == Duration::ZERO || config.dead_time < config.interval {
            return None;
        }
        let paths = vec![Path { heard: now, up: true, silence: Silence::new(now) }; paths];
        let due = if config.interval == KeepaliveConfig::NEVER { Instant::NEVER } else { now };
        Some(Self { config, paths, due, sooner: Instant::NEVER, timeout: due, to_send: VecDeque::new(), changes: VecDeque::new() })
    }

    /// A keepalive of the peer has come on a path; a path that does not exist is ignored.
    pub fn handle_keepalive(&mut self, now: Instant, path: PathId) {
        let Some(state) = self.paths.get_mut(usize::from(path.0)) else { return };
        state.heard = state.heard.max(now);
        if !state.up {
            state.up = true;
            state.silence.forgive();
            self.changes.push_back(Change { path, up: true });
        }
        self.note_timeout();
        debug_assert!(self.timeout <= now + self.config.dead_time, "a path that is up is watched");
    }

    /// Data have come on a path.
    pub fn handle_data(&mut self, now: Instant, path: PathId) {
        if self.config.data_count {
            self.handle_keepalive(now, path);
        }
    }

    /// The same, or whatever else comes on each path while it is used: by it the others are judged
    /// ([`KeepaliveConfig::progress`]).
    pub fn handle_progress(&mut self, now: Instant, path: PathId) {
        if !self.config.progress || self.config.interval == KeepaliveConfig::NEVER {
            return;
        }
        let mut left = false;
        for (number, other) in self.paths.iter_mut().enumerate() {
            if number == usize::from(path.0) {
                other.silence.on_own(now);
            } else if other.up && other.silence.on_other(now) {
                other.up = false;
                left = true;
                self.changes.push_back(Change { path: PathId(number as u8), up: false });
            }
        }
        if left {
            self.sooner = now;
            self.note_timeout();
            debug_assert!(self.timeout <= now, "a path that was left is asked at once");
        }
    }

    /// Notes what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.due {
            // After a pause, one is enough.
            self.due = now + self.config.interval;
            self.to_send = (0..self.paths.len()).map(|path| PathId(path as u8)).collect();
        }
        if now >= self.sooner {
            // Those whose dead time has passed are asked no more often than all.
            let lately = |path: &Path| !path.up && now.since(path.heard) < self.config.dead_time;
            let left = self.paths.iter().enumerate().filter(|(_, path)| lately(path)).map(|(number, _)| PathId(number as u8));
            let left: Vec<_> = left.filter(|path| !self.to_send.contains(path)).collect();
            self.sooner = if left.is_empty() { Instant::NEVER } else { now + SOONER.min(self.config.interval) };
            self.to_send.extend(left);
        }
        for (number, path) in self.paths.iter_mut().enumerate() {
            if path.up && now.since(path.heard) >= self.config.dead_time {
                path.up = false;
                self.changes.push_back(Change { path: PathId(number as u8), up: false });
            }
        }
        debug_assert!(self.to_send.len() <= self.paths.len(), "a path gets one keepalive at a time");
        self.note_timeout();
        debug_assert!(self.timeout > now, "what was due is done");
    }

    fn note_timeout(&mut self) {
        let dead = self.paths.iter().filter(|path| path.up).map(|path| path.heard + self.config.dead_time).min();
        let due = self.due.min(self.sooner);
        self.timeout = dead.map_or(due, |dead| dead.min(due));
    }

    /// A path on which a keepalive is to be sent now.
    pub fn poll_keepalive(&mut self) -> Option<PathId> {
        self.to_send.pop_front()
    }

    /// A path that has come up or gone down.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// When [`Keepalive::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        self.timeout
    }

    /// By path: whether it is up.
    pub fn up(&self) -> impl Iterator<Item = bool> {
        self.paths.iter().map(|path| path.up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: KeepaliveConfig =
        KeepaliveConfig { interval: Duration::from_secs(5), dead_time: Duration::from_secs(11), data_count: false, progress: false };

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    fn sent(keepalive: &mut Keepalive) -> Vec<u8> {
        std::iter::from_fn(|| keepalive.poll_keepalive()).map(|path| path.0).collect()
    }

    fn changes(keepalive: &mut Keepalive) -> Vec<(u8, bool)> {
        std::iter::from_fn(|| keepalive.poll_change()).map(|change| (change.path.0, change.up)).collect()
    }

    #[test]
    fn keepalives_leave_on_every_path_at_every_interval() {
        let mut keepalive = Keepalive::new(at(0), 2, CONFIG).unwrap();
        assert_eq!(keepalive.poll_timeout(), at(0));
        keepalive.handle_timeout(at(0));
        assert_eq!((sent(&mut keepalive), keepalive.poll_timeout()), (vec![0, 1], at(5)));
        keepalive.handle_timeout(at(4));
        assert_eq!(sent(&mut keepalive), [0; 0]);
        keepalive.handle_timeout(at(9));
        assert_eq!((sent(&mut keepalive), keepalive.poll_timeout()), (vec![0, 1], at(11)), "the dead time comes first");
    }

    #[test]
    fn a_silent_path_goes_down_and_one_keepalive_brings_it_up() {
        let mut keepalive = Keepalive::new(at(0), 2, CONFIG).unwrap();
        keepalive.handle_keepalive(at(6), PathId(1));
        keepalive.handle_timeout(at(10));
        assert_eq!(changes(&mut keepalive), []);
        keepalive.handle_timeout(at(11));
        assert_eq!(changes(&mut keepalive), [(0, false)]);
        assert_eq!(keepalive.up().collect::<Vec<_>>(), [false, true]);
        keepalive.handle_keepalive(at(12), PathId(0));
        keepalive.handle_timeout(at(13));
        assert_eq!(changes(&mut keepalive), [(0, true)]);
        keepalive.handle_keepalive(at(13), PathId(9));
        assert_eq!(changes(&mut keepalive), [], "there is no such path");
    }

    #[test]
    fn without_keepalives_none_is_sent_and_no_path_goes_down() {
        let never = KeepaliveConfig { interval: KeepaliveConfig::NEVER, dead_time: KeepaliveConfig::NEVER, ..KeepaliveConfig::default() };
        let mut keepalive = Keepalive::new(at(0), 2, never).unwrap();
        for second in [0, 1, 100_000] {
            keepalive.handle_timeout(at(second));
            keepalive.handle_data(at(second), PathId(0));
        }
        assert_eq!((sent(&mut keepalive), changes(&mut keepalive)), (vec![], vec![]));
    }

    #[test]
    fn data_are_signs_of_life_where_they_count() {
        for (data_count, up) in [(false, false), (true, true)] {
            let mut keepalive = Keepalive::new(at(0), 1, KeepaliveConfig { data_count, ..CONFIG }).unwrap();
            keepalive.handle_data(at(10), PathId(0));
            keepalive.handle_timeout(at(11));
            assert_eq!(keepalive.up().collect::<Vec<_>>(), [up]);
        }
    }

    #[test]
    fn a_path_that_others_outrun_is_down_at_once_and_asked_often() {
        let ms = |n| Instant::ZERO + Duration::from_millis(n);
        let mut keepalive = Keepalive::new(ms(0), 2, KeepaliveConfig { progress: true, data_count: true, ..CONFIG }).unwrap();
        keepalive.handle_timeout(ms(0));
        assert_eq!(sent(&mut keepalive), [0, 1]);
        let arrive = |keepalive: &mut Keepalive, at: u64, path: u8| {
            keepalive.handle_data(ms(at), PathId(path));
            keepalive.handle_progress(ms(at), PathId(path));
        };
        (0..1000).for_each(|at| arrive(&mut keepalive, at, (at % 2) as u8));
        assert_eq!(changes(&mut keepalive), []);
        (1000..1300).for_each(|at| arrive(&mut keepalive, at, 0));
        assert_eq!(changes(&mut keepalive), [(1, false)]);
        for at in [1300, 1550, 1800] {
            assert!(keepalive.poll_timeout() <= ms(at));
            keepalive.handle_timeout(ms(at));
            assert_eq!(sent(&mut keepalive), [1], "{at}");
        }
        arrive(&mut keepalive, 1900, 1);
        assert_eq!(changes(&mut keepalive), [(1, true)]);
        keepalive.handle_timeout(ms(2100));
        assert_eq!((sent(&mut keepalive), keepalive.poll_timeout()), (vec![], ms(5000)), "all is as usual");
    }

    #[test]
    fn senseless_times_are_refused() {
        let refused = |config| Keepalive::new(at(0), 1, config).is_none();
        assert!(refused(KeepaliveConfig { interval: Duration::ZERO, ..CONFIG }));
        assert!(refused(KeepaliveConfig { dead_time: Duration::from_secs(4), ..CONFIG }));
    }
}
