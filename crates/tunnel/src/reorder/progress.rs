//! A missing packet is lost once every path that is up has delivered a later one: a path keeps the
//! order of its packets, so what it has not delivered by then it will not deliver.
//!
//! Where a path does not keep the order, it is learnt by how many places its packets move, and so
//! many later packets are asked for. As long as some path has delivered nothing later, a packet
//! waits: but no longer than the paths' difference in delay explains.
//!
//! Where parities bring packets back, a later packet is one of a later block: what its path had to
//! bring of this one has come by then.

use super::buffer::{Buffer, Placed, Why};
use super::lag::Lags;
use super::{Arrival, ReorderCounters, Rule};
use polypath_base::{Duration, Instant, PathId, Seq};

/// So many of a path's greatest numbers are kept; a packet moves by less on any path that is waited
/// for.
const GREATEST: usize = 16;
/// What is learnt of a path's order is halved after so long.
const FORGET: Duration = Duration::from_secs(10);
/// Added to the measured difference in delay, with a quarter of it: clocks and bursts.
const SLACK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Progress<P> {
    buffer: Buffer<P>,
    lags: Lags,
    paths: Vec<Path>,
    max_delay: Duration,
    /// Later packets of a block, and how long it lasts; none where no parities come.
    block: (u64, Duration),
}

#[derive(Copy, Clone, Debug)]
struct Path {
    down: bool,
    /// Its greatest numbers, greatest first; 0 where there are fewer.
    greatest: [u64; GREATEST],
    /// By how many places its packets have moved, and since when that was the most.
    moved: usize,
    moved_at: Instant,
}

impl Default for Path {
    fn default() -> Self {
        Self { down: false, greatest: [0; GREATEST], moved: 0, moved_at: Instant::ZERO }
    }
}

impl Path {
    fn on_arrival(&mut self, now: Instant, number: u64) {
        if now.since(self.moved_at) >= FORGET {
            (self.moved, self.moved_at) = (self.moved / 2, now);
        }
        let place = self.greatest.partition_point(|&known| known > number);
        if place >= self.moved && place > 0 {
            (self.moved, self.moved_at) = (place.min(GREATEST - 1), now);
        }
        if place < GREATEST {
            self.greatest.copy_within(place..GREATEST - 1, place + 1);
            self.greatest[place] = number;
        }
        debug_assert!(self.greatest.is_sorted_by(|a, b| a >= b), "the greatest number stands first");
        debug_assert!(self.moved < GREATEST, "a move is remembered as far as numbers are");
    }

    /// Whatever it has not delivered below this number it has lost.
    fn passed(&self) -> u64 {
        self.greatest[self.moved]
    }
}

impl<P> Progress<P> {
    pub(super) fn new(max_delay: Duration, capacity: u32, paths: usize) -> Self {
        let paths_state = vec![Path::default(); paths];
        Self { buffer: Buffer::new(capacity), lags: Lags::new(paths), paths: paths_state, max_delay, block: (0, Duration::ZERO) }
    }

    fn wait(&self) -> Duration {
        self.lags.largest().map_or(self.max_delay, |lag| (lag + lag / 4 + SLACK + self.block.1).min(self.max_delay))
    }

    fn skip_lost(&mut self, now: Instant) {
        // Without a path that is up nothing is known.
        let Some(passed) = self.paths.iter().filter(|path| !path.down).map(Path::passed).min() else { return };
        while let Some(first) = self.buffer.first_held().filter(|&first| first + self.block.0 <= passed) {
            self.buffer.release_through(now, first, Why::Lost);
        }
    }
}

impl<P> Rule<P> for Progress<P> {
    fn handle_packet(&mut self, now: Instant, arrival: Arrival<P>) {
        let number = self.buffer.extend(arrival.seq);
        match self.buffer.insert(now, number, arrival.packet) {
            Placed::Near => {
                self.lags.on_arrival(now, arrival.path, number);
                if let Some(path) = self.paths.get_mut(usize::from(arrival.path.0)) {
                    path.on_arrival(now, number);
                }
            }
            Placed::Nowhere => {}
            Placed::Anew => {
                self.lags.restart();
                for path in &mut self.paths {
                    path.greatest = [0; GREATEST];
                }
            }
        }
        self.handle_timeout(now);
    }

    fn expect_parities(&mut self, packets: u32, timeout: Duration) {
        self.block = (u64::from(packets - 1), timeout);
    }

    fn handle_recovered(&mut self, now: Instant, seq: Seq, packet: P) {
        let number = self.buffer.extend(seq);
        self.buffer.insert(now, number, packet);
        self.handle_timeout(now);
    }

    fn begin_at(&mut self, first: Seq) {
        self.buffer.expect(first);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.skip_lost(now);
        self.buffer.release_older(now, self.wait());
    }

    fn handle_path(&mut self, now: Instant, path: PathId, up: bool) {
        if let Some(state) = self.paths.get_mut(usize::from(path.0)) {
            state.down = !up;
        }
        self.handle_timeout(now);
    }

    fn poll_deliver(&mut self) -> Option<P> {
        self.buffer.poll_deliver()
    }

    fn poll_timeout(&self) -> Instant {
        self.buffer.oldest().map_or(Instant::NEVER, |since| since + self.wait())
    }

    fn counters(&self) -> ReorderCounters {
        self.buffer.counters
    }
}
