//! One direction of a link: its elements and the packets that are in it.
//!
//! It is cut into stages as the simulator's is (crates/sim/src/network.rs): a packet's way through a stage is computed when it enters,
//! and the next stage sees it at the time at which it should have left, however late somebody comes to move it on. Where a queue chooses what
//! it sends next (CoDel, FQ-CoDel), the choice is made as of the time at which the transmitter became free.

use crate::frame_pool::{FramePool, FrameSlot};
use crate::ip;
use polypath_base::{Duration, Instant};
use polypath_link::{Count, Element, ElementChain, PacketMeta, QueueSample, Ring, Verdict};

#[derive(Debug)]
pub(crate) struct LinkDirection {
    stages: Vec<Stage>,
    /// For so long at least there is nothing to do about a packet.
    floor: Duration,
    /// Lost for want of memory: no part of the model.
    overflow: u64,
}

#[derive(Debug)]
struct Stage {
    chain: ElementChain,
    /// Ascending by the time at which they leave; of equal times, in the order of entry.
    held: Ring<FrameInFlight>,
    /// When the last packet entered. Elements see packets in order.
    last: Instant,
    /// ICMP about a packet that does not fit comes from the far end, since other elements stand before.
    from_end: bool,
    /// Of an element that manages what it sends: what waits in it.
    backlog: Option<AqmBacklog>,
}

/// What a queue that chooses has not sent yet.
#[derive(Debug, Default)]
struct AqmBacklog {
    /// By slot.
    waiting: Vec<FrameInFlight>,
    count: u64,
    /// When the transmitter is free.
    free: Instant,
}

/// A packet on its way.
#[derive(Copy, Clone, Debug)]
pub(crate) struct FrameInFlight {
    pub(crate) leaves: Instant,
    pub(crate) slot: FrameSlot,
    /// Of the frame with what stands before it, bytes.
    pub(crate) len: u32,
    meta: PacketMeta,
}

/// What is to be done about a packet that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Oversized {
    /// When.
    pub(crate) at: Instant,
    pub(crate) mtu: u32,
    /// The stage before which it stands.
    pub(crate) stage: usize,
    pub(crate) frame: Vec<u8>,
    pub(crate) action: OversizeAction,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum OversizeAction {
    /// ICMP from the end at which the direction begins: its sender hears at once.
    AnswerAtOnce,
    /// ICMP from the end at which the direction ends: it goes all the way back.
    AnswerFromEnd,
    /// Its parts enter in its place.
    Split,
}

/// What elements dropped.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drops {
    pub(crate) queue: Count,
    pub(crate) loss: Count,
    pub(crate) mtu: Count,
    pub(crate) down: Count,
    pub(crate) overflow: u64,
    pub(crate) longest_queue: u64,
    /// Packets that were marked instead (ECN).
    pub(crate) marks: u64,
}

impl LinkDirection {
    pub(crate) fn new(elements: Vec<Element>) -> Self {
        // What answers may have to do so as soon as a packet stands before it.
        let before_answers = elements.iter().take_while(|element| !element.answers());
        let delays = before_answers.filter_map(|element| if let Element::Delay(delay) = element { delay.constant() } else { None });
        let floor = delays.fold(Duration::ZERO, |sum, delay| sum + delay);
        Self { stages: cut(elements), floor, overflow: 0 }
    }

    /// For so long after its arrival at least there is nothing to do about a packet.
    pub(crate) fn floor(&self) -> Duration {
        self.floor
    }

    /// A frame arrives.
    #[inline]
    pub(crate) fn enter(&mut self, at: Instant, frame: &[u8], store: &mut FramePool) -> Option<Oversized> {
        self.enter_stage(0, at, frame, store)
    }

    /// A frame stands before a stage.
    #[inline]
    pub(crate) fn enter_stage(&mut self, number: usize, at: Instant, frame: &[u8], store: &mut FramePool) -> Option<Oversized> {
        let meta = ip::meta(frame);
        let stage = &mut self.stages[number];
        let (verdict, at) = stage.transit(at, meta);
        let leaves = match verdict {
            Verdict::Pass(leaves) | Verdict::Mark(leaves) => leaves,
            Verdict::Held => at,
            _ => return self.refuse(number, verdict, at, frame),
        };
        match store.keep(frame) {
            Some(slot) => stage.take(verdict, FrameInFlight { leaves, slot, len: frame.len() as u32, meta }, store),
            None => self.overflow += 1,
        }
        None
    }

    /// Moves on all packets that have come to the end of a stage by `now`; what does not fit into the next one is oversized to `oversized`.
    pub(crate) fn advance(&mut self, now: Instant, store: &mut FramePool, mut on_oversized: impl FnMut(Oversized)) {
        self.stages[0].send_until(now, store);
        for number in 1..self.stages.len() {
            while let Some(held) = self.stages[number - 1].held.front().copied().filter(|held| held.leaves <= now) {
                self.stages[number - 1].held.pop();
                let (verdict, at) = self.stages[number].transit(held.leaves, held.meta);
                let leaves = match verdict {
                    Verdict::Pass(leaves) | Verdict::Mark(leaves) => leaves,
                    Verdict::Held => at,
                    _ => {
                        let oversized = self.refuse(number, verdict, at, store.get(held.slot, held.len as usize));
                        store.release(held.slot);
                        oversized.into_iter().for_each(&mut on_oversized);
                        continue;
                    }
                };
                self.stages[number].take(verdict, FrameInFlight { leaves, ..held }, store);
            }
            self.stages[number].send_until(now, store);
        }
    }

    /// The packet that is to leave the direction first, if it is due by `now`.
    #[inline]
    pub(crate) fn due(&mut self, now: Instant) -> Option<FrameInFlight> {
        let last = self.stages.last_mut().expect("there is always a stage");
        let held = last.held.front().copied().filter(|held| held.leaves <= now)?;
        last.held.pop();
        Some(held)
    }

    /// When there is something to do next.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        let first = |stage: &Stage| stage.held.front().map_or(Instant::NEVER, |held| held.leaves);
        self.stages.iter().map(first).min().unwrap_or(Instant::NEVER)
    }

    /// How many packets are in it.
    pub(crate) fn held(&self) -> u64 {
        self.stages.iter().map(|stage| stage.held.len() as u64 + stage.backlog.as_ref().map_or(0, |backlog| backlog.count)).sum()
    }

    pub(crate) fn drops(&self) -> Drops {
        let mut drops = Drops { overflow: self.overflow, ..Drops::default() };
        for element in self.stages.iter().flat_map(|stage| stage.chain.elements()).map(|(_, element)| element) {
            let found = element.drops();
            let sum = match element {
                Element::Rate(_) | Element::Red(_) | Element::Pie(_) | Element::FqCodel(_) | Element::Trace(_) => {
                    drops.longest_queue = drops.longest_queue.max(element.longest());
                    drops.marks += element.marks();
                    &mut drops.queue
                }
                Element::Loss(_) | Element::Retry(_) => &mut drops.loss,
                Element::Mtu(_) => &mut drops.mtu,
                Element::Down(_) => &mut drops.down,
                Element::Delay(_) => continue,
            };
            sum.packets += found.packets;
            sum.bytes += found.bytes;
        }
        drops
    }

    /// Writes down the length of its queues at multiples of `interval`.
    pub(crate) fn sample_every(&mut self, interval: Duration) {
        self.queues().for_each(|queue| queue.sample_every(interval));
    }

    /// The samples up to now, those of several queues summed; none if it has no queue.
    pub(crate) fn samples(&mut self, now: Instant) -> Vec<QueueSample> {
        let mut sums: Vec<QueueSample> = Vec::new();
        for queue in self.queues() {
            let samples = queue.samples(now).unwrap_or_default();
            if sums.is_empty() {
                sums = samples.to_vec();
                continue;
            }
            for (sum, sample) in sums.iter_mut().zip(samples) {
                sum.packets += sample.packets;
                sum.bytes += sample.bytes;
                sum.drops += sample.drops;
            }
        }
        sums
    }

    fn queues(&mut self) -> impl Iterator<Item = &mut Element> {
        let elements = self.stages.iter_mut().flat_map(|stage| stage.chain.elements_mut());
        elements.map(|(_, element)| element).filter(|element| element.has_queue())
    }

    #[cold]
    fn refuse(&self, number: usize, verdict: Verdict, at: Instant, frame: &[u8]) -> Option<Oversized> {
        let (mtu, action) = match verdict {
            Verdict::TooBig { mtu } if self.stages[number].from_end => (mtu, OversizeAction::AnswerFromEnd),
            Verdict::TooBig { mtu } => (mtu, OversizeAction::AnswerAtOnce),
            Verdict::Fragment { mtu } => (mtu, OversizeAction::Split),
            Verdict::Pass(_) | Verdict::Mark(_) | Verdict::Held | Verdict::Drop(_) => return None,
        };
        Some(Oversized { at, mtu, stage: number, frame: frame.to_vec(), action })
    }
}

impl FrameInFlight {
    /// Of the IP packet, bytes.
    pub(crate) fn ip_len(&self) -> u32 {
        self.meta.len
    }
}

impl Stage {
    fn new() -> Self {
        let blank = FrameInFlight {
            leaves: Instant::ZERO,
            slot: FrameSlot::default(),
            len: 0,
            meta: PacketMeta { len: 0, payload: false, df: false, ..PacketMeta::default() },
        };
        Self { chain: ElementChain::default(), held: Ring::new(blank), last: Instant::ZERO, from_end: false, backlog: None }
    }

    /// What becomes of a packet, and when it entered: stamps of two processors may be in the wrong order.
    #[inline]
    fn transit(&mut self, at: Instant, meta: PacketMeta) -> (Verdict, Instant) {
        self.last = self.last.max(at);
        (self.chain.transit(self.last, meta), self.last)
    }

    /// A packet that is kept has entered.
    #[inline]
    fn take(&mut self, verdict: Verdict, packet: FrameInFlight, store: &mut FramePool) {
        match verdict {
            Verdict::Held => return self.wait(packet, store),
            Verdict::Mark(_) => ip::mark(store.get_mut(packet.slot, packet.len as usize)),
            _ => {}
        }
        self.hold(packet);
    }

    /// A packet stands before a queue that chooses, at the time that it carries.
    fn wait(&mut self, packet: FrameInFlight, store: &mut FramePool) {
        let at = packet.leaves;
        self.send_until(at, store);
        let (Some(backlog), Some(queue)) = (&mut self.backlog, self.chain.holding()) else { return };
        let number = packet.slot.0 as usize;
        if backlog.waiting.len() <= number {
            backlog.waiting.resize(number + 1, packet);
        }
        backlog.waiting[number] = packet;
        backlog.count += 1;
        queue.enqueue(at, packet.meta, packet.slot.0);
        // The emulator may have looked at a time after this packet's, so the transmitter may only then have become free.
        let idle = !queue.is_transmitting();
        backlog.free = if idle { backlog.free.max(at) } else { backlog.free };
        if idle {
            self.send(store);
        } else {
            self.forget_dropped(store);
        }
    }

    /// A queue that chooses sends what it can by `now`.
    #[inline]
    fn send_until(&mut self, now: Instant, store: &mut FramePool) {
        while let (Some(backlog), Some(queue)) = (&self.backlog, self.chain.holding()) {
            if !queue.is_transmitting() || backlog.free > now {
                return;
            }
            self.send(store);
        }
    }

    /// The transmitter is free and takes the next packet, if one waits.
    fn send(&mut self, store: &mut FramePool) {
        let (Some(backlog), Some(queue)) = (&mut self.backlog, self.chain.holding()) else { return };
        if let Some(dequeued) = queue.dequeue(backlog.free) {
            backlog.free = dequeued.leaves;
            backlog.count -= 1;
            let packet = FrameInFlight { leaves: dequeued.leaves, ..backlog.waiting[dequeued.slot as usize] };
            if dequeued.marked {
                ip::mark(store.get_mut(packet.slot, packet.len as usize));
            }
            self.hold(packet);
        }
        self.forget_dropped(store);
    }

    fn forget_dropped(&mut self, store: &mut FramePool) {
        let (Some(backlog), Some(queue)) = (&mut self.backlog, self.chain.holding()) else { return };
        while let Some(slot) = queue.take_dropped() {
            backlog.count -= 1;
            store.release(FrameSlot(slot));
        }
    }

    #[inline]
    fn hold(&mut self, packet: FrameInFlight) {
        if self.held.iter().next_back().is_none_or(|last| last.leaves <= packet.leaves) {
            *self.held.push() = packet;
        } else {
            // From the back: jitter rarely moves a packet past more than a few.
            let behind = self.held.iter().rev().take_while(|held| held.leaves > packet.leaves).count();
            self.held.insert(self.held.len() - behind, packet);
        }
    }
}

/// Elements in stages: a new one begins behind an element that reorders, since those behind it see packets in order, and before an MTU
/// that answers, since the answer is sent when the packet is there and not before. A queue that chooses is alone in its stage.
fn cut(elements: Vec<Element>) -> Vec<Stage> {
    let mut stages = vec![(Stage::new(), Vec::new())];
    for (position, element) in elements.into_iter().enumerate() {
        let (_, current) = stages.last().expect("there is always a stage");
        let answers_later = element.answers() && position > 0;
        if answers_later || !current.iter().all(Element::keeps_order) || (element.holds() && !current.is_empty()) {
            stages.push((Stage { from_end: answers_later, ..Stage::new() }, Vec::new()));
        }
        stages.last_mut().expect("there is always a stage").1.push(element);
    }
    let made = stages.into_iter().map(|(stage, elements)| {
        let backlog = elements.iter().any(Element::holds).then(AqmBacklog::default);
        Stage { chain: ElementChain::new(elements), backlog, ..stage }
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tests::frame;
    use polypath_base::{Rate, Rng};
    use polypath_link::{CodelConfig, Delay, FqCodel, FqCodelConfig, Mtu, Oversize, QueueLimit, RateQueue, Schedule};

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn delay(us: u64, jitter_us: u64) -> Element {
        let (delay, jitter) = (Duration::from_micros(us), Duration::from_micros(jitter_us));
        Element::Delay(Delay::new(delay, jitter, true, Schedule::none(), Rng::new(1, "d")))
    }

    /// 8 Mbit/s: a microsecond a byte.
    fn rate(packets: u64) -> Element {
        Element::Rate(RateQueue::new(Rate::from_bits_per_sec(8_000_000), QueueLimit::Packets(packets), 0, Schedule::none()).unwrap())
    }

    fn mtu(bytes: u32, oversize: Oversize) -> Element {
        Element::Mtu(Mtu::new(bytes, oversize).unwrap())
    }

    fn store() -> FramePool {
        FramePool::new(2048, 1 << 20)
    }

    /// When what is in the direction leaves it, by length, if somebody looks at these times.
    fn leaving(direction: &mut LinkDirection, store: &mut FramePool, looks: &[u64]) -> Vec<(u64, u32)> {
        let mut seen = Vec::new();
        for &look in looks {
            direction.advance(at(look), store, |oversized| panic!("{oversized:?}"));
            while let Some(held) = direction.due(at(look)) {
                seen.push((held.leaves.as_micros(), held.meta.len));
                store.release(held.slot);
            }
        }
        seen
    }

    #[test]
    fn looking_late_delays_nothing() {
        let (looks, late) = ((0..20_000).collect::<Vec<u64>>(), [20_000]);
        let run = |looks: &[u64]| {
            let (mut direction, mut store) = (LinkDirection::new(vec![delay(500, 400), rate(50), delay(300, 200), rate(50)]), store());
            for packet in 0..30 {
                assert_eq!(direction.enter(at(packet * 100), &frame(17, 100 + packet as usize, true), &mut store), None);
            }
            let seen = leaving(&mut direction, &mut store, looks);
            assert_eq!((direction.next(), store.kept()), (Instant::NEVER, 0));
            seen
        };
        let seen = run(&looks);
        assert_eq!((seen.len(), &seen), (30, &run(&late)));
        assert!(!seen.is_sorted_by_key(|&(_, len)| len), "a jitter of four packets reorders some");
    }

    #[test]
    fn an_mtu_behind_a_queue_answers_when_the_packet_is_there() {
        let (mut direction, mut store) = (LinkDirection::new(vec![rate(9), mtu(1000, Oversize::Answer), delay(10, 0)]), store());
        let long = frame(17, 1500, true);
        assert_eq!(direction.enter(at(5), &long, &mut store), None);
        assert_eq!(direction.next(), at(1505));
        let mut seen = Vec::new();
        direction.advance(at(1504), &mut store, |oversized| seen.push(oversized));
        assert!(seen.is_empty());
        direction.advance(at(9999), &mut store, |oversized| seen.push(oversized));
        assert_eq!(seen, [Oversized { at: at(1505), mtu: 1000, stage: 1, frame: long, action: OversizeAction::AnswerFromEnd }]);
        assert_eq!((direction.drops().mtu.packets, store.kept()), (1, 0));
    }

    #[test]
    fn an_mtu_at_the_head_answers_or_splits_at_once() {
        let (mut direction, mut store) = (LinkDirection::new(vec![mtu(1000, Oversize::Fragment), rate(9)]), store());
        let oversized = direction.enter(at(1), &frame(17, 1500, true), &mut store).map(|oversized| (oversized.at, oversized.action));
        assert_eq!(oversized, Some((at(1), OversizeAction::AnswerAtOnce)));
        let oversized = direction.enter(at(2), &frame(17, 1500, false), &mut store).map(|oversized| (oversized.stage, oversized.action));
        assert_eq!(oversized, Some((0, OversizeAction::Split)));
    }

    #[test]
    fn a_full_queue_and_a_full_memory_are_told_apart() {
        let (mut direction, mut store) = (LinkDirection::new(vec![rate(3)]), FramePool::new(2048, 2 * 2048));
        for _ in 0..5 {
            assert_eq!(direction.enter(at(0), &frame(17, 100, true), &mut store), None);
        }
        let drops = direction.drops();
        assert_eq!((drops.queue.packets, drops.overflow, drops.longest_queue), (2, 1, 3));
    }

    /// Such a queue of FQ-CoDel or, with one flow, CoDel; 8 Mbit/s.
    fn fq_codel(flows: u32, target_us: u64, limit: u32) -> Element {
        let codel = CodelConfig { target: Duration::from_micros(target_us), interval: Duration::from_micros(10 * target_us), ecn: true };
        let config = FqCodelConfig { codel, limit, flows, quantum: 1000 };
        Element::FqCodel(Box::new(FqCodel::new(Rate::from_bits_per_sec(8_000_000), 0, Schedule::none(), config, Rng::new(1, "f")).unwrap()))
    }

    #[test]
    fn a_queue_of_each_flow_lets_a_new_one_pass_the_others_however_late_one_looks() {
        for looks in [(0..9000).collect::<Vec<u64>>(), vec![9000]] {
            let (mut direction, mut store) = (LinkDirection::new(vec![delay(10, 0), fq_codel(64, 50_000, 100), delay(5, 0)]), store());
            for _ in 0..4 {
                assert_eq!(direction.enter(at(0), &frame(17, 1000, true), &mut store), None);
            }
            let mut other = frame(17, 500, true);
            other[ip::IP + 21] = 99;
            assert_eq!(direction.enter(at(0), &other, &mut store), None);
            assert_eq!(direction.held(), 5);
            let seen = leaving(&mut direction, &mut store, &looks);
            assert_eq!(seen, [(1015, 1000), (1515, 500), (2515, 1000), (3515, 1000), (4515, 1000)]);
            assert_eq!((direction.held(), store.kept(), direction.next()), (0, 0, Instant::NEVER));
        }
    }

    #[test]
    fn codel_marks_what_may_be_marked_and_drops_the_rest() {
        for (ecn, marked) in [(2, true), (0, false)] {
            let (mut direction, mut store) = (LinkDirection::new(vec![fq_codel(1, 500, 100)]), store());
            let mut packet = frame(17, 1000, true);
            packet[ip::IP + 1] = ecn;
            for _ in 0..60 {
                direction.enter(at(0), &packet, &mut store);
            }
            let mut marks = 0;
            direction.advance(at(100_000), &mut store, |oversized| panic!("{oversized:?}"));
            while let Some(held) = direction.due(at(100_000)) {
                marks += u64::from(store.get(held.slot, held.len as usize)[ip::IP + 1] == 3);
                store.release(held.slot);
            }
            let drops = direction.drops();
            assert_eq!((marks == drops.marks, marks > 3, drops.queue.packets > 3), (true, marked, !marked));
            assert_eq!((direction.held(), store.kept()), (0, 0));
        }
    }

    #[test]
    fn a_full_managed_queue_gives_its_places_back() {
        let (mut direction, mut store) = (LinkDirection::new(vec![fq_codel(1, 50_000, 3)]), store());
        direction.sample_every(Duration::from_micros(100));
        for _ in 0..5 {
            assert_eq!(direction.enter(at(50), &frame(17, 100, true), &mut store), None);
        }
        assert_eq!((direction.held(), store.kept(), direction.drops().queue.packets), (3, 3, 2));
        assert_eq!(leaving(&mut direction, &mut store, &[400]).len(), 3);
        assert_eq!(direction.samples(at(200)).iter().map(|sample| sample.packets).collect::<Vec<_>>(), [0, 3, 2]);
    }

    #[test]
    fn queues_of_a_direction_are_sampled_together() {
        let (mut direction, mut store) = (LinkDirection::new(vec![rate(9), delay(10, 0), rate(9)]), store());
        direction.sample_every(Duration::from_micros(100));
        for _ in 0..3 {
            assert_eq!(direction.enter(at(50), &frame(17, 100, true), &mut store), None);
        }
        leaving(&mut direction, &mut store, &[300]);
        let seen: Vec<_> = direction.samples(at(300)).iter().map(|sample| (sample.packets, sample.bytes)).collect();
        // The first leaves the first queue at 150 and comes to the second at 160.
        assert_eq!(seen, [(0, 0), (3, 300), (3, 300), (2, 200)]);
        assert_eq!(LinkDirection::new(vec![delay(1, 0)]).samples(at(300)), []);
    }

    #[test]
    fn a_packet_can_be_left_alone_for_as_long_as_the_constant_delays_before_an_answer() {
        assert_eq!(LinkDirection::new(vec![delay(7, 0), rate(1), delay(8, 3), delay(9, 0)]).floor(), Duration::from_micros(16));
        assert_eq!(LinkDirection::new(vec![delay(7, 0), mtu(1000, Oversize::Answer), delay(9, 0)]).floor(), Duration::from_micros(7));
    }
}
