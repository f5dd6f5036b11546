//! A transmitter that chooses the next packet when it is free: behind CoDel (RFC 8289), or behind
//! FQ-CoDel (RFC 8290).
//!
//! Which packet leaves when is decided by what arrives after it, so nothing can be said when a
//! packet arrives: the caller keeps the packets by number and asks for the next one whenever the
//! last has left.

use crate::codel::{Codel, CodelQueue};
use crate::managed::{Chosen, ManagedQueue, Transmitter};
use crate::{CodelConfig, Error, FqCodelConfig, PacketCount, PacketMeta, QueueLimit, RateConfig};
use polypath_base::{Bytes, Instant, Rng};
use std::collections::VecDeque;

/// A transmitter with its queues.
#[derive(Clone, Debug)]
pub struct FqCodel {
    config: FqCodelConfig,
    codel: CodelConfig,
    /// Room in packets, all flows together.
    limit: u32,
    sending: Transmitter,
    queues: Vec<Flow>,
    /// Queues that have just begun to wait, and those whose turn comes again
    /// (RFC 8290 section 4.2).
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    /// Hash perturbation: flows fall into other queues in each run.
    perturbation: u32,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    waiting: VecDeque<Item>,
    bytes: Bytes,
    deficit: i64,
    listed: bool,
    codel: Codel,
}

#[derive(Copy, Clone, Debug)]
struct Item {
    slot: u32,
    /// Of the IP packet, and with framing.
    ip_len: Bytes,
    len: Bytes,
    ect: bool,
    since: Instant,
}

/// RFC 8290 section 4.1.3: so many packets of the longest queue are dropped at once where there is
/// no room.
const BATCH: usize = 64;

impl FqCodel {
    /// `transmitter` is what sends the packets; its limit, in packets, holds for all flows
    /// together.
    pub fn new(transmitter: RateConfig, config: FqCodelConfig, mut rng: Rng) -> Result<Self, Error> {
        let QueueLimit::Packets(limit) = transmitter.queue else {
            return Err(Error::caller("CoDel counts its queue in packets: give it a limit in packets"));
        };
        if limit == 0 || config.flows == 0 || !(1..1 << 31).contains(&config.quantum.get()) {
            return Err(Error::caller("a managed queue has room for a packet, a flow and a quantum of at least a byte and less than 2^31"));
        }
        let FqCodelConfig { flows, .. } = config;
        Ok(Self {
            limit: limit.min(u64::from(u32::MAX)) as u32,
            codel: config.codel(),
            config,
            sending: Transmitter::new(transmitter)?,
            queues: vec![Flow::default(); flows as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            perturbation: rng.next_u32(),
        })
    }

    fn drop_from_longest(&mut self) {
        let longest = (0..self.queues.len()).max_by_key(|&number| (self.queues[number].bytes, usize::MAX - number));
        let Some(flow) = longest.map(|number| &mut self.queues[number]) else { return };
        debug_assert!(!flow.waiting.is_empty(), "the longest queue has a packet to drop");
        let enough = Bytes::new(flow.bytes.get() / 2);
        let mut gone = Bytes::ZERO;
        for _ in 0..BATCH {
            let Some(item) = flow.waiting.pop_front() else { break };
            flow.bytes -= item.len;
            gone += item.len;
            self.sending.drop(item.slot, item.ip_len);
            (self.sending.packets, self.sending.bytes) = (self.sending.packets - 1, self.sending.bytes - item.len);
            if gone >= enough {
                break;
            }
        }
    }

    /// Flows that fall into one queue share it, as in Linux.
    fn queue_of(&self, flow: u32) -> u32 {
        // Multiplicative hashing (Knuth 6.4) of a number that is perturbed by run.
        let hash = u64::from(flow ^ self.perturbation).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((hash >> 32) * u64::from(self.config.flows)) >> 32) as u32
    }
}

impl ManagedQueue for FqCodel {
    fn sending(&self) -> &Transmitter {
        &self.sending
    }

    fn sending_mut(&mut self) -> &mut Transmitter {
        &mut self.sending
    }

    fn insert(&mut self, at: Instant, packet: PacketMeta, slot: u32) {
        // A queue of one flow refuses what does not fit; among several, the longest one gives way.
        if self.config.flows == 1 && self.sending.packets >= self.limit {
            self.sending.drop(slot, packet.len);
            return;
        }
        let number = self.queue_of(packet.flow);
        let item = Item { slot, ip_len: packet.len, len: packet.len + self.sending.framing, ect: packet.ect, since: at };
        let flow = &mut self.queues[number as usize];
        flow.bytes += item.len;
        flow.waiting.push_back(item);
        if !flow.listed {
            (flow.listed, flow.deficit) = (true, self.config.quantum.get() as i64);
            self.new.push_back(number);
        }
        self.sending.packets += 1;
        self.sending.bytes += item.len;
        if self.sending.packets > self.limit {
            self.drop_from_longest();
        }
        debug_assert!(self.sending.packets <= self.limit, "what is too much is dropped");
    }

    /// Deficit round robin over the queues (RFC 8290 section 4.2).
    fn choose(&mut self, at: Instant) -> Option<Chosen> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let flow = &mut self.queues[number as usize];
            debug_assert!(flow.listed, "a queue whose turn comes is in a list");
            if flow.deficit <= 0 {
                flow.deficit += self.config.quantum.get() as i64;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let mut head =
                Head { flow, taken: None, dropped: &mut self.sending.dropped, drops: &mut self.sending.drops, lost: (0, Bytes::ZERO) };
            let marked = flow_codel(&mut head, at, &self.codel);
            let (taken, lost) = (head.taken, head.lost);
            (self.sending.packets, self.sending.bytes) = (self.sending.packets - lost.0, self.sending.bytes - lost.1);
            let flow = &mut self.queues[number as usize];
            match (taken, marked) {
                (Some(item), Some(marked)) => {
                    flow.deficit -= item.len.get() as i64;
                    return Some(Chosen { slot: item.slot, len: item.len, marked });
                }
                _ => {
                    let list = if is_new { &mut self.new } else { &mut self.old };
                    list.pop_front();
                    // An empty new queue waits for its turn among the old ones once, so that it
                    // gains nothing by coming and going.
                    if is_new && !self.old.is_empty() {
                        self.old.push_back(number);
                    } else {
                        flow.listed = false;
                    }
                }
            }
        }
    }
}

/// The head of a queue while CoDel looks at it.
struct Head<'a> {
    flow: &'a mut Flow,
    taken: Option<Item>,
    dropped: &'a mut Vec<u32>,
    drops: &'a mut PacketCount,
    /// Packets and bytes dropped here.
    lost: (u32, Bytes),
}

impl CodelQueue for Head<'_> {
    fn take(&mut self) -> Option<(Instant, bool)> {
        self.taken = self.flow.waiting.pop_front();
        self.taken.map(|item| {
            self.flow.bytes -= item.len;
            (item.since, item.ect)
        })
    }

    fn drop_taken(&mut self) {
        debug_assert!(self.taken.is_some(), "what is dropped was taken out");
        if let Some(item) = self.taken.take() {
            self.dropped.push(item.slot);
            self.drops.add(item.ip_len);
            self.lost = (self.lost.0 + 1, self.lost.1 + item.len);
        }
    }

    fn waiting(&self) -> Bytes {
        self.flow.bytes
    }
}

/// CoDel on one queue, whose state is set aside meanwhile.
fn flow_codel(head: &mut Head<'_>, at: Instant, config: &CodelConfig) -> Option<bool> {
    let mut codel = std::mem::take(&mut head.flow.codel);
    let marked = codel.dequeue(at, config, head);
    head.flow.codel = codel;
    marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dequeued, HoldingQueue, LinkElement, SampledQueue};
    use polypath_base::{Duration, Rate};

    /// 8 Mbit/s: a microsecond a byte.
    fn fq_codel(config: FqCodelConfig, limit: u64) -> FqCodel {
        let rate = Rate::from_bits_per_sec(8_000_000);
        let transmitter = RateConfig { rate, queue: QueueLimit::Packets(limit), framing: Bytes::ZERO, ..RateConfig::default() };
        FqCodel::new(transmitter, config, Rng::new(1, "fq_codel")).unwrap()
    }

    fn plain() -> FqCodelConfig {
        FqCodelConfig { flows: 1, ..FqCodelConfig::default() }
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn of(flow: u32, len: u32) -> PacketMeta {
        PacketMeta { len: Bytes::from_u32(len), payload: true, df: true, flow, ..PacketMeta::default() }
    }

    /// Feeds packets (us, flow, length), ascending; who was served when, and what was dropped, by
    /// number of the packet.
    fn drive(queue: &mut FqCodel, packets: &[(u64, u32, u32)], end: u64) -> (Vec<(u64, u32)>, Vec<u32>) {
        let (mut served, mut dropped, mut free) = (Vec::new(), Vec::new(), None::<Dequeued>);
        let mut next = 0;
        loop {
            let arrival = packets.get(next).map_or(u64::MAX, |packet| packet.0);
            let departure = free.map_or(u64::MAX, |serving| serving.leaves.as_micros());
            let now = arrival.min(departure);
            if now > end || now == u64::MAX {
                return (served, dropped);
            }
            if departure <= arrival {
                free = queue.dequeue(at(now));
            } else {
                queue.enqueue(at(now), of(packets[next].1, packets[next].2), next as u32);
                next += 1;
                if !queue.is_transmitting() {
                    free = queue.dequeue(at(now));
                }
            }
            if let Some(Dequeued { slot, leaves, .. }) = free.filter(|one| served.last() != Some(&(one.leaves.as_micros(), one.slot))) {
                served.push((leaves.as_micros(), slot));
            }
            while let Some(slot) = queue.take_dropped() {
                dropped.push(slot);
            }
        }
    }

    #[test]
    fn one_queue_serves_in_order_and_refuses_what_does_not_fit() {
        let mut queue = fq_codel(plain(), 3);
        let (served, dropped) = drive(&mut queue, &[(0, 1, 100), (0, 2, 100), (10, 1, 50), (20, 1, 100), (1000, 1, 100)], 5000);
        assert_eq!(served, [(100, 0), (200, 1), (250, 2), (1100, 4)]);
        assert_eq!((dropped, queue.drops().packets, queue.sending.longest()), (vec![3], 1, 3));
    }

    #[test]
    fn codel_holds_a_standing_queue_at_its_target() {
        // A twentieth too much, for a minute.
        let packets: Vec<(u64, u32, u32)> = (0..63_000).map(|number| (number * 952, 1, 1000)).collect();
        let mut queue = fq_codel(plain(), 1000);
        let (served, dropped) = drive(&mut queue, &packets, 60_000_000);
        let waits: Vec<u64> = served.iter().skip(served.len() / 2).map(|&(left, slot)| left - packets[slot as usize].0).collect();
        let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        assert!(mean < 25_000.0 && dropped.len() > 1500, "{mean} us, {} drops", dropped.len());
    }

    #[test]
    fn flows_share_the_link_and_a_sparse_one_does_not_wait() {
        // Two greedy flows, one with packets half as long, and one that sends now and then.
        let mut packets: Vec<(u64, u32, u32)> = (0..4000).flat_map(|n| [(n * 500, 1, 1000), (n * 500, 2, 500)]).collect();
        packets.extend((0..40).map(|n| (50_000 * n + 17, 3, 200)));
        packets.sort_unstable();
        let mut queue = fq_codel(FqCodelConfig { target: Duration::from_secs(9), ..FqCodelConfig::default() }, 10_000);
        let (served, _) = drive(&mut queue, &packets, 2_000_000);
        let bytes =
            |flow: u32| served.iter().map(|&(_, slot)| packets[slot as usize]).filter(|p| p.1 == flow).map(|p| u64::from(p.2)).sum::<u64>();
        let share = bytes(1) as f64 / bytes(2) as f64;
        assert!((0.95..1.05).contains(&share), "bytes count, not packets: {share}");
        let waits = served.iter().map(|&(left, slot)| (left, packets[slot as usize])).filter(|(_, p)| p.1 == 3).map(|(left, p)| left - p.0);
        // (At the start all of them are new.)
        let longest = waits.skip(1).max().expect("some were served");
        assert!(longest <= 1000 + 200, "a new flow comes next, behind what is being transmitted: {longest} us");
    }

    #[test]
    fn where_there_is_no_room_the_longest_queue_gives_way() {
        let mut queue = fq_codel(FqCodelConfig { flows: 16, ..plain() }, 100);
        let mut packets: Vec<(u64, u32, u32)> = (0..101).map(|_| (0, 1, 1000)).collect();
        packets.push((1, 2, 1000));
        let (_, dropped) = drive(&mut queue, &packets, 10);
        // Half of what waited, from the head: the first is being transmitted already.
        assert_eq!((dropped.len(), dropped.iter().all(|&slot| slot < 60)), (50, true));
    }

    #[test]
    fn ect_packets_are_marked_and_none_is_lost() {
        let mut queue = fq_codel(FqCodelConfig { ecn: true, ..plain() }, 1000);
        let (mut now, mut served) = (0, None);
        for number in 0..20_000 {
            now = number * 900;
            queue.enqueue(at(now), PacketMeta { ect: true, ..of(1, 1000) }, number as u32);
            while served.is_none_or(|one: Dequeued| one.leaves <= at(now)) {
                served = queue.dequeue(served.map_or(at(now), |one| one.leaves));
                if served.is_none() {
                    break;
                }
            }
        }
        assert!(now > 0 && queue.marks() > 100, "{}", queue.marks());
    }
}
