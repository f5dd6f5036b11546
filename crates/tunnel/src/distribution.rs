//! Which path a packet takes.

use polypath_base::PathId;

/// Chooses a path for each packet.
pub trait Distribution {
    /// The path of the next packet, of the flow with this hash; none if all paths are down. `up`
    /// tells which paths are not.
    fn pick(&mut self, flow_hash: u32, up: &[bool]) -> Option<PathId>;
}

/// Turns by fixed weights, as MPT takes them: the turns of a round are worked out once, and those
/// of paths that are down are passed over.
///
/// A round is smooth weighted round robin: each turn goes to the path whose count of packets
/// divided by its weight is least, the first one of several, until all paths are level. Weights of
/// 3 and 1 make the round 0, 1, 0, 0.
///
/// With a batch, that many packets take each turn: fewer of them overtake one another, and a path
/// gets longer bursts.
#[derive(Clone, Debug)]
pub struct WeightedTurns {
    round: Box<[PathId]>,
    next: usize,
    batch: u32,
    /// Packets that have taken this turn.
    taken: u32,
}

/// The longest batch of [`WeightedTurns::new`].
pub const MOST_BATCH: u32 = 1024;

impl WeightedTurns {
    /// By path a weight of at least 1, and packets a turn; none if there are no weights, more than
    /// 256 of them, or one is 0 or above 1000, or if the batch is 0 or above [`MOST_BATCH`].
    pub fn new(weights: &[u32], batch: u32) -> Option<Self> {
        if !(1..=MOST_BATCH).contains(&batch)
            || weights.is_empty()
            || weights.len() > 256
            || weights.iter().any(|weight| !(1..=1000).contains(weight))
        {
            return None;
        }
        let common = weights.iter().copied().reduce(gcd)?;
        let turns: u32 = weights.iter().map(|weight| weight / common).sum();
        let mut counts = vec![0_u32; weights.len()];
        let mut round = Vec::with_capacity(turns as usize);
        for _ in 0..turns {
            // Counts divided by weights are compared crosswise: products stay below 2^20 * 2^10.
            let least = (1..weights.len()).fold(0, |best, path| {
                if u64::from(counts[path]) * u64::from(weights[best]) < u64::from(counts[best]) * u64::from(weights[path]) {
                    path
                } else {
                    best
                }
            });
            counts[least] += 1;
            round.push(PathId(least as u8));
        }
        debug_assert!(
            counts.iter().zip(weights).all(|(count, weight)| count * common == *weight),
            "a round gives each path the turns of its weight"
        );
        Some(Self { round: round.into(), next: 0, batch, taken: 0 })
    }

    /// The turns of a round.
    pub fn round(&self) -> &[PathId] {
        &self.round
    }
}

impl Distribution for WeightedTurns {
    fn pick(&mut self, _flow_hash: u32, up: &[bool]) -> Option<PathId> {
        for _ in 0..self.round.len() {
            let path = self.round[self.next];
            let live = up.get(usize::from(path.0)).copied().unwrap_or(false);
            self.taken += 1;
            if self.taken >= self.batch || !live {
                self.next = (self.next + 1) % self.round.len();
                self.taken = 0;
            }
            debug_assert!(self.taken < self.batch, "a turn that is used up is passed on");
            if live {
                return Some(path);
            }
        }
        None
    }
}

/// All packets of a flow on one path, so that none of them overtakes another: the path with the
/// greatest product of weight and a hash of flow and path (rendezvous hashing). A path that goes
/// down moves its own flows only.
#[derive(Clone, Debug)]
pub struct FlowHash {
    weights: Box<[u32]>,
}

impl FlowHash {
    /// By path a weight; as [`WeightedTurns::new`].
    pub fn new(weights: &[u32]) -> Option<Self> {
        WeightedTurns::new(weights, 1).map(|_| Self { weights: weights.into() })
    }
}

impl Distribution for FlowHash {
    fn pick(&mut self, flow_hash: u32, up: &[bool]) -> Option<PathId> {
        let score = |path: usize| {
            // -weight / ln(uniform) is largest for a path with the probability of its share.
            let uniform = (f64::from(mix(flow_hash, path as u32)) + 0.5) / 4_294_967_296.0;
            -f64::from(self.weights[path]) / uniform.ln()
        };
        (0..self.weights.len())
            .filter(|&path| up.get(path).copied().unwrap_or(false))
            .max_by(|&a, &b| score(a).total_cmp(&score(b)))
            .map(|path| PathId(path as u8))
    }
}

/// A hash of two numbers in which every bit depends on all of theirs (the finaliser of
/// MurmurHash3).
fn mix(flow: u32, path: u32) -> u32 {
    let mut h = flow ^ path.wrapping_add(1).wrapping_mul(0x9e37_79b9);
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(distribution: &mut impl Distribution, up: &[bool], count: usize) -> Vec<u8> {
        (0..count).map(|_| distribution.pick(0, up).expect("a path is up").0).collect()
    }

    #[test]
    fn equal_weights_alternate_strictly() {
        // Seen in captures of MPT: even numbers on path 1, odd ones on path 2.
        let mut even = WeightedTurns::new(&[10, 10], 1).unwrap();
        assert_eq!(even.round().len(), 2);
        assert_eq!(turns(&mut even, &[true, true], 5), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn turns_follow_the_weights_and_mix() {
        let mut uneven = WeightedTurns::new(&[3, 1], 1).unwrap();
        assert_eq!(turns(&mut uneven, &[true, true], 8), [0, 1, 0, 0, 0, 1, 0, 0]);
        let mut three = WeightedTurns::new(&[5, 2, 1], 1).unwrap();
        let mut round = turns(&mut three, &[true; 3], 8);
        round.sort_unstable();
        assert_eq!(round, [0, 0, 0, 0, 0, 1, 1, 2]);
    }

    #[test]
    fn turns_of_paths_that_are_down_are_passed_over() {
        let mut uneven = WeightedTurns::new(&[3, 1], 1).unwrap();
        assert_eq!(turns(&mut uneven, &[false, true], 3), [1, 1, 1]);
        assert_eq!(uneven.pick(0, &[false, false]), None);
        assert_eq!(uneven.pick(0, &[]), None);
    }

    #[test]
    fn a_batch_takes_one_turn() {
        let mut pairs = WeightedTurns::new(&[1, 1], 2).unwrap();
        assert_eq!(turns(&mut pairs, &[true, true], 6), [0, 0, 1, 1, 0, 0]);
        // A path that goes down in the middle of its turn leaves the rest to the next.
        assert_eq!(turns(&mut pairs, &[true, true], 1), [1]);
        assert_eq!(turns(&mut pairs, &[true, false], 3), [0, 0, 0]);
        assert_eq!(turns(&mut pairs, &[true, true], 3), [0, 1, 1]);
        assert!(WeightedTurns::new(&[1, 1], 0).is_none() && WeightedTurns::new(&[1, 1], MOST_BATCH + 1).is_none());
    }

    #[test]
    fn senseless_weights_are_refused() {
        for weights in [&[][..], &[0, 1], &[1001], &[1; 257]] {
            assert!(WeightedTurns::new(weights, 1).is_none() && FlowHash::new(weights).is_none(), "{weights:?}");
        }
    }

    #[test]
    fn a_flow_stays_on_its_path_and_weights_are_shares() {
        let mut hash = FlowHash::new(&[3, 1]).unwrap();
        let paths: Vec<_> = (0..10_000).map(|flow| hash.pick(flow, &[true, true]).unwrap()).collect();
        let share = paths.iter().filter(|path| path.0 == 0).count() as f64 / 10_000.0;
        assert!((share - 0.75).abs() < 0.02, "{share}");
        for (flow, &path) in (0..).zip(&paths) {
            assert_eq!(hash.pick(flow, &[true, true]), Some(path));
            assert_eq!(hash.pick(flow, &[true, false]), Some(PathId(0)));
        }
    }

    #[test]
    fn a_path_that_goes_down_moves_its_own_flows_only() {
        let mut hash = FlowHash::new(&[1, 1, 1]).unwrap();
        for flow in 0..1000 {
            let before = hash.pick(flow, &[true; 3]).unwrap();
            let after = hash.pick(flow, &[true, true, false]).unwrap();
            assert!(before == after || before == PathId(2), "{flow}");
        }
        assert_eq!(hash.pick(7, &[false; 3]), None);
    }
}
