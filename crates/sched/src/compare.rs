//! Whether two builds of a scheduler choose alike: both are asked in lockstep, on random
//! connections.

use polypath_base::{Bytes, Duration, Error, Rate, Rng, Segments, SmoothedRtt};
use polypath_cc::SSTHRESH_INFINITE;

use crate::ops::Ops;
use crate::view::{DataQueueView, MAX_SUBFLOWS, PathView};
use crate::{Quirks, Scheduler};

/// Connections, and how often both builds are asked in each.
const CONNECTIONS: u64 = 400;
const TURNS: u64 = 100;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// How often both were asked.
    pub calls: u64,
    /// The first call in which they differ.
    pub difference: Option<String>,
}

/// Compares the scheduler of this name with what a shared object has under it.
///
/// # Safety
///
/// As of [`polypath_cc::custom::opened`].
pub unsafe fn compare(name: &str, object: &[u8], seed: u64) -> Result<Compared, Error> {
    let ours = Scheduler::find(name).ok_or_else(|| Error::caller(format!("there is no scheduler {name}")))?;
    // SAFETY: the caller vouches for it.
    let ops: &'static Ops = unsafe { polypath_cc::custom::opened(object, name) }?;
    let mut calls = 0;
    for connection in 0..CONNECTIONS {
        let mut rng = Rng::new(seed, &format!("{name} {connection}"));
        let quirks = Quirks { ecf_overflows: one_in(&mut rng, 4), redundant_repeats: one_in(&mut rng, 4) };
        let mut weights = [1; MAX_SUBFLOWS];
        weights.iter_mut().for_each(|weight| *weight = 1 + rng.uniform(5) as u8);
        let begun = |ops| Scheduler { weights, ..Scheduler::begun(ops) }.with(quirks);
        let (mut ours, mut theirs) = (begun(ours.ops), begun(ops));
        let few = 1 + rng.uniform(4);
        let count = if one_in(&mut rng, 20) { MAX_SUBFLOWS } else { few as usize };
        let mut paths: Vec<PathView> = (0..count).map(|_| path(&mut rng)).collect();
        let mut queue = DataQueueView::EMPTY;
        for turn in 0..TURNS {
            calls += 1;
            for each in &mut paths {
                if one_in(&mut rng, 3) {
                    *each = path(&mut rng);
                }
            }
            go_on(&mut queue, &mut rng);
            if one_in(&mut rng, 10) {
                ours.on_blocked();
                theirs.on_blocked();
            }
            let (mine, other) = (ours.pick(&paths, &queue), theirs.pick(&paths, &queue));
            if let Some(choice) = mine.filter(|_| mine == other) {
                let most = choice.limit.bytes().map_or(1 << 16, Bytes::get).min(queue.end.distance(choice.from));
                if most > 0 {
                    let bytes = Bytes::new(if one_in(&mut rng, 3) { 1 + rng.uniform(most) } else { most });
                    ours.on_scheduled(choice, bytes);
                    theirs.on_scheduled(choice, bytes);
                    queue.next = queue.next.max(choice.from + bytes.get());
                }
            }
            if mine != other || ours.state != theirs.state {
                let what = if mine == other { "the states differ".to_owned() } else { format!("{mine:?} and {other:?}") };
                let difference = format!("{what}, in turn {} of connection {connection} with seed {seed}", turn + 1);
                return Ok(Compared { calls, difference: Some(difference) });
            }
        }
    }
    Ok(Compared { calls, difference: None })
}

fn one_in(rng: &mut Rng, many: u64) -> bool {
    rng.uniform(many) == 0
}

/// A number below 2^bits, each size as likely as any other.
fn any(rng: &mut Rng, bits: u64) -> u64 {
    let size = rng.uniform(bits + 1);
    rng.uniform(1 << size)
}

/// A path within the contract of pp_sched.h.
fn path(rng: &mut Rng) -> PathView {
    let cwnd = 1 + any(rng, 16) as u32;
    PathView {
        pacing_rate: Rate::from_bits_per_sec(any(rng, 37)),
        mss: Bytes::new(if one_in(rng, 8) { 1 + any(rng, 14) } else { 1428 }),
        unsent: Bytes::new(if one_in(rng, 2) { 0 } else { any(rng, 22) }),
        queued: Bytes::new(any(rng, 29)),
        rttvar: Duration::from_micros(any(rng, 24)),
        srtt: SmoothedRtt::from_eighths(any(rng, 26) as u32),
        cwnd: Segments::new(cwnd),
        in_flight: Segments::new(rng.uniform(u64::from(cwnd) + 3) as u32),
        ssthresh: Segments::new(if one_in(rng, 2) { SSTHRESH_INFINITE } else { 2 + any(rng, 16) as u32 }),
        buffers: rng.uniform(4) as u32,
        burst: Segments::new(if one_in(rng, 4) { 1 + rng.uniform(44) as u32 } else { 0 }),
        usable: !one_in(rng, 8),
        backup: one_in(rng, 4),
        room: !one_in(rng, 4),
        in_loss: one_in(rng, 10),
        wins_ties: one_in(rng, 4),
    }
}

/// Time passes, the peer acknowledges, and the application writes.
fn go_on(queue: &mut DataQueueView, rng: &mut Rng) {
    queue.now += Duration::from_micros(any(rng, 20));
    let sent = queue.next.distance(queue.una);
    queue.una += rng.uniform(sent + 1);
    queue.end += any(rng, 22);
    queue.window_end = queue.una + any(rng, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_lets_every_scheduler_choose_and_wait() {
        for name in Scheduler::NAMES {
            let mut rng = Rng::new(1, name);
            let (mut queue, mut scheduler) = (DataQueueView::EMPTY, Scheduler::find(name).expect("it is in the list"));
            let chosen = (0..500)
                .filter(|_| {
                    go_on(&mut queue, &mut rng);
                    scheduler.pick(&[path(&mut rng), path(&mut rng)], &queue).is_some()
                })
                .count();
            assert!((50..495).contains(&chosen), "{name}: {chosen}");
        }
    }
}
