//! The event queue: a tournament among sources.
//!
//! Everything that can happen has a source that is known before the run begins (a pipe, an
//! endpoint's timer, an application, a probe), and a source waits for at most one event. So the
//! queue is a complete binary tree with a leaf a source, in which each node holds the smaller key
//! of its two children. Moving an entry, earlier or later, walks from its leaf to the root without
//! a branch that could be mispredicted; nothing is allocated, compared twice or left behind.
//!
//! There are two such trees: the few sources that nearly all events come from (the pipes) have one
//! of their own, so that their way to the root does not grow with the number of timers that hardly
//! ever fire. Where there are no more than four of those (two paths, there and back), it is a row
//! of keys of which the least is taken.
//!
//! A key is the time with the source's number in its low bits: events of one time come in the order
//! of their sources' numbers. Between the two stands, in keys of pipes, which was set first: of
//! packets that leave two links at one time that one is first which has stood at the head of its
//! link for longer (Linux: timers of one time fire in the order in which they were armed).

use polypath_base::Instant;

/// Number of a source; smaller ones come first where times are equal.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source(pub u32);

/// Events by time, at most one a source.
#[derive(Clone, Debug)]
pub struct EventQueue {
    busy: Busy,
    idle: Tournament<u64>,
    /// The least keys of both.
    first_busy: u128,
    first_idle: u64,
    /// How often a busy source was set.
    sets: u64,
    /// Sources below this are among the busy ones.
    split: usize,
    /// Bits of a key that hold the source.
    bits: u32,
    /// The latest time that a key can hold, nanoseconds.
    horizon: u64,
}

/// Keys of the sources that nearly all events come from.
#[derive(Clone, Debug)]
enum Busy {
    Few([u128; FEW]),
    Many(Tournament<u128>),
}

/// So many keys are compared with each other faster than they are kept in a tree.
const FEW: usize = 4;

/// Bits of a busy source's key that hold its number, and how often one was set before.
const BUSY_BITS: u32 = 24;
const SETS_BITS: u32 = 40;

impl EventQueue {
    /// A queue of `busy` sources and, numbered behind them, `idle` ones, none of which waits for
    /// anything.
    pub fn new(busy: usize, idle: usize) -> Self {
        let bits = (busy + idle).next_power_of_two().trailing_zeros().max(1);
        Self {
            busy: if busy <= FEW { Busy::Few([u128::MAX; FEW]) } else { Busy::Many(Tournament::new(busy, u128::MAX)) },
            idle: Tournament::new(idle, u64::MAX),
            first_busy: u128::MAX,
            first_idle: u64::MAX,
            sets: 0,
            split: busy,
            bits,
            horizon: (u64::MAX >> bits) - 1,
        }
    }

    /// The latest time that a key can hold; what is due later counts as never.
    pub fn horizon(&self) -> Instant {
        Instant::from_nanos(self.horizon)
    }

    /// Sets when the source's event is due; never removes it.
    #[inline]
    pub fn set(&mut self, source: Source, at: Instant) {
        let number = source.0 as usize;
        let ns = at.as_nanos();
        let is_never = ns > self.horizon;
        if number >= self.split {
            let key = if is_never { u64::MAX } else { ns << self.bits | number as u64 };
            self.first_idle = self.idle.set(number - self.split, key);
            return;
        }
        self.sets += 1;
        debug_assert!(number >> BUSY_BITS == 0 && self.sets >> SETS_BITS == 0, "numbers fit into a key");
        let order = self.sets << BUSY_BITS | number as u64;
        let key = if is_never { u128::MAX } else { u128::from(ns) << 64 | u128::from(order) };
        self.first_busy = match &mut self.busy {
            Busy::Few(keys) => {
                keys[number] = key;
                keys[0].min(keys[1]).min(keys[2].min(keys[3]))
            }
            Busy::Many(tree) => tree.set(number, key),
        };
    }

    /// The earliest event. It stays until its source is set anew.
    #[inline]
    pub fn first(&self) -> Option<(Instant, Source)> {
        let (busy, idle) = ((self.first_busy >> 64) as u64, self.first_idle >> self.bits);
        if busy <= idle {
            return Some((Instant::from_nanos(busy), Source(self.first_busy as u32 & ((1 << BUSY_BITS) - 1))));
        }
        if self.first_idle == u64::MAX {
            return None;
        }
        Some((Instant::from_nanos(idle), Source((self.first_idle & ((1 << self.bits) - 1)) as u32)))
    }
}

/// One tree. Node 1 is the root, the children of node n are the nodes, or leaves, 2n and 2n + 1;
/// the leaves come last.
#[derive(Clone, Debug)]
struct Tournament<K> {
    /// By inner node: the keys of its two children. What stands before the root is not used.
    pairs: Box<[[K; 2]]>,
}

impl<K: Copy + Ord> Tournament<K> {
    /// `none`: the greatest key, of a source that waits for nothing.
    fn new(sources: usize, none: K) -> Self {
        Self { pairs: vec![[none; 2]; sources.next_power_of_two().max(2)].into() }
    }

    /// Sets the key of a leaf; returns the least of all.
    #[inline]
    fn set(&mut self, leaf: usize, mut key: K) -> K {
        let pairs = &mut *self.pairs;
        let mut node = pairs.len() + leaf;
        while node > 1 {
            let side = node & 1;
            node >>= 1;
            let pair = &mut pairs[node];
            pair[side] = key;
            // The sibling alone is read: what has just been written would make each level wait for
            // its store.
            key = key.min(pair[side ^ 1]);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn the_earliest_comes_first_and_the_smaller_source_wins_a_tie() {
        let mut queue = EventQueue::new(1, 2);
        assert_eq!(queue.first(), None);
        queue.set(Source(2), at(5));
        queue.set(Source(1), at(7));
        assert_eq!(queue.first(), Some((at(5), Source(2))));
        queue.set(Source(0), at(5));
        assert_eq!(queue.first(), Some((at(5), Source(0))));
        queue.set(Source(0), Instant::NEVER);
        queue.set(Source(2), at(8));
        assert_eq!(queue.first(), Some((at(7), Source(1))));
    }

    #[test]
    fn what_lies_behind_the_horizon_never_happens() {
        let mut queue = EventQueue::new(0, 1000);
        queue.set(Source(999), queue.horizon());
        assert_eq!(queue.first(), Some((queue.horizon(), Source(999))));
        queue.set(Source(999), at(queue.horizon().as_nanos() + 1));
        assert_eq!(queue.first(), None);
        // 2^54 ns: half a year.
        assert!(queue.horizon() > at(1 << 53));
    }

    proptest! {
        #[test]
        fn it_orders_as_a_sorted_map_does(
            busy in 0_usize..8,
            moves in prop::collection::vec((0_u32..20, prop::option::of(0_u64..50)), 1..200),
        ) {
            let (mut queue, mut model, mut sets) = (EventQueue::new(busy, 20 - busy), std::collections::BTreeMap::new(), 0);
            for (source, time) in moves {
                queue.set(Source(source), time.map_or(Instant::NEVER, at));
                sets += 1;
                model.insert(source, (time, if (source as usize) < busy { (0, sets) } else { (1, source) }));
                let first = model.iter().filter_map(|(&source, &(time, order))| Some((at(time?), order, Source(source)))).min();
                prop_assert_eq!(queue.first(), first.map(|(time, _, source)| (time, source)));
            }
        }
    }
}
