//! One direction of a link: its elements and the packets that are in it.
//!
//! It is cut into stages as the simulator's is (crates/sim/src/network.rs): a packet's way through a stage is computed when it enters,
//! and the next stage sees it at the time at which it should have left, however late somebody comes to move it on. Where a queue chooses what
//! it sends next (CoDel, FQ-CoDel), the choice is made as of the time at which the transmitter became free.

use crate::ip;
use crate::store::{Slot, Store};
use polypath_base::{Duration, Instant};
use polypath_link::{Chain, Count, Element, Parcel, Ring, Sample, Verdict};

#[derive(Debug)]
pub(crate) struct Line {
    stages: Vec<Stage>,
    /// For so long at least there is nothing to do about a packet.
    floor: Duration,
    /// Lost for want of memory: no part of the model.
    overflow: u64,
}

#[derive(Debug)]
struct Stage {
    chain: Chain,
    /// Ascending by the time at which they leave; of equal times, in the order of entry.
    held: Ring<Held>,
    /// When the last packet entered. Elements see packets in order.
    last: Instant,
    /// ICMP about a packet that does not fit comes from the far end, since other elements stand before.
    from_end: bool,
    /// Of an element that chooses what it sends: what waits in it.
    choosing: Option<Choosing>,
}

/// What a queue that chooses has not sent yet.
#[derive(Debug, Default)]
struct Choosing {
    /// By slot.
    waiting: Vec<Held>,
    count: u64,
    /// When the transmitter is free.
    free: Instant,
}

/// A packet on its way.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Held {
    pub(crate) leaves: Instant,
    pub(crate) slot: Slot,
    /// Of the frame with what stands before it, bytes.
    pub(crate) len: u32,
    parcel: Parcel,
}

/// What is to be done about a packet that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When.
    pub(crate) at: Instant,
    pub(crate) mtu: u32,
    /// The stage before which it stands.
    pub(crate) stage: usize,
    pub(crate) frame: Vec<u8>,
    pub(crate) remedy: Remedy,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
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

impl Line {
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
    pub(crate) fn enter(&mut self, at: Instant, frame: &[u8], store: &mut Store) -> Option<Refused> {
        self.enter_stage(0, at, frame, store)
    }

    /// A frame stands before a stage.
    #[inline]
    pub(crate) fn enter_stage(&mut self, number: usize, at: Instant, frame: &[u8], store: &mut Store) -> Option<Refused> {
        let parcel = ip::parcel(frame);
        let stage = &mut self.stages[number];
        let (verdict, at) = stage.transit(at, parcel);
        let leaves = match verdict {
            Verdict::Pass(leaves) | Verdict::Mark(leaves) => leaves,
            Verdict::Held => at,
            _ => return self.refuse(number, verdict, at, frame),
        };
        match store.keep(frame) {
            Some(slot) => stage.take(verdict, Held { leaves, slot, len: frame.len() as u32, parcel }, store),
            None => self.overflow += 1,
        }
        None
    }

    /// Moves on all packets that have come to the end of a stage by `now`; what does not fit into the next one is told to `refused`.
    pub(crate) fn advance(&mut self, now: Instant, store: &mut Store, mut refused: impl FnMut(Refused)) {
        self.stages[0].send_until(now, store);
        for number in 1..self.stages.len() {
            while let Some(held) = self.stages[number - 1].held.front().copied().filter(|held| held.leaves <= now) {
                self.stages[number - 1].held.pop();
                let (verdict, at) = self.stages[number].transit(held.leaves, held.parcel);
                let leaves = match verdict {
                    Verdict::Pass(leaves) | Verdict::Mark(leaves) => leaves,
                    Verdict::Held => at,
                    _ => {
                        let told = self.refuse(number, verdict, at, store.get(held.slot, held.len as usize));
                        store.release(held.slot);
                        told.into_iter().for_each(&mut refused);
                        continue;
                    }
                };
                self.stages[number].take(verdict, Held { leaves, ..held }, store);
            }
            self.stages[number].send_until(now, store);
        }
    }

    /// The packet that is to leave the line first, if it is due by `now`.
    #[inline]
    pub(crate) fn due(&mut self, now: Instant) -> Option<Held> {
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
        self.stages.iter().map(|stage| stage.held.len() as u64 + stage.choosing.as_ref().map_or(0, |choosing| choosing.count)).sum()
    }

    pub(crate) fn drops(&self) -> Drops {
        let mut drops = Drops { overflow: self.overflow, ..Drops::default() };
        for element in self.stages.iter().flat_map(|stage| stage.chain.elements()).map(|(_, element)| element) {
            let found = element.drops();
            let sum = match element {
                Element::Rate(_) | Element::Red(_) | Element::Pie(_) | Element::Fair(_) | Element::Trace(_) => {
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
    pub(crate) fn samples(&mut self, now: Instant) -> Vec<Sample> {
        let mut sums: Vec<Sample> = Vec::new();
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
    fn refuse(&self, number: usize, verdict: Verdict, at: Instant, frame: &[u8]) -> Option<Refused> {
        let (mtu, remedy) = match verdict {
            Verdict::TooBig { mtu } if self.stages[number].from_end => (mtu, Remedy::AnswerFromEnd),
            Verdict::TooBig { mtu } => (mtu, Remedy::AnswerAtOnce),
            Verdict::Fragment { mtu } => (mtu, Remedy::Split),
            Verdict::Pass(_) | Verdict::Mark(_) | Verdict::Held | Verdict::Drop(_) => return None,
        };
        Some(Refused { at, mtu, stage: number, frame: frame.to_vec(), remedy })
    }
}

impl Held {
    /// Of the IP packet, bytes.
    pub(crate) fn ip_len(&self) -> u32 {
        self.parcel.len
    }
}

impl Stage {
    fn new() -> Self {
        let blank = Held {
            leaves: Instant::ZERO,
            slot: Slot::default(),
            len: 0,
            parcel: Parcel { len: 0, payload: false, df: false, ..Parcel::default() },
        };
        Self { chain: Chain::default(), held: Ring::new(blank), last: Instant::ZERO, from_end: false, choosing: None }
    }

    /// What becomes of a packet, and when it entered: stamps of two processors may be in the wrong order.
    #[inline]
    fn transit(&mut self, at: Instant, parcel: Parcel) -> (Verdict, Instant) {
        self.last = self.last.max(at);
        (self.chain.transit(self.last, parcel), self.last)
    }

    /// A packet that is kept has entered.
    #[inline]
    fn take(&mut self, verdict: Verdict, packet: Held, store: &mut Store) {
        match verdict {
            Verdict::Held => return self.wait(packet, store),
            Verdict::Mark(_) => ip::mark(store.get_mut(packet.slot, packet.len as usize)),
            _ => {}
        }
        self.hold(packet);
    }

    /// A packet stands before a queue that chooses, at the time that it carries.
    fn wait(&mut self, packet: Held, store: &mut Store) {
        let at = packet.leaves;
        self.send_until(at, store);
        let (Some(choosing), Some(queue)) = (&mut self.choosing, self.chain.holding()) else { return };
        let number = packet.slot.0 as usize;
        if choosing.waiting.len() <= number {
            choosing.waiting.resize(number + 1, packet);
        }
        choosing.waiting[number] = packet;
        choosing.count += 1;
        queue.enter(at, packet.parcel, packet.slot.0);
        // The emulator may have looked at a time after this packet's, so the transmitter may only then have become free.
        let idle = !queue.is_busy();
        choosing.free = if idle { choosing.free.max(at) } else { choosing.free };
        if idle {
            self.send(store);
        } else {
            self.forget_dropped(store);
        }
    }

    /// A queue that chooses sends what it can by `now`.
    #[inline]
    fn send_until(&mut self, now: Instant, store: &mut Store) {
        while let (Some(choosing), Some(queue)) = (&self.choosing, self.chain.holding()) {
            if !queue.is_busy() || choosing.free > now {
                return;
            }
            self.send(store);
        }
    }

    /// The transmitter is free and takes the next packet, if one waits.
    fn send(&mut self, store: &mut Store) {
        let (Some(choosing), Some(queue)) = (&mut self.choosing, self.chain.holding()) else { return };
        if let Some(served) = queue.serve(choosing.free) {
            choosing.free = served.leaves;
            choosing.count -= 1;
            let packet = Held { leaves: served.leaves, ..choosing.waiting[served.slot as usize] };
            if served.marked {
                ip::mark(store.get_mut(packet.slot, packet.len as usize));
            }
            self.hold(packet);
        }
        self.forget_dropped(store);
    }

    fn forget_dropped(&mut self, store: &mut Store) {
        let (Some(choosing), Some(queue)) = (&mut self.choosing, self.chain.holding()) else { return };
        while let Some(slot) = queue.take_dropped() {
            choosing.count -= 1;
            store.release(Slot(slot));
        }
    }

    #[inline]
    fn hold(&mut self, packet: Held) {
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
        let choosing = elements.iter().any(Element::holds).then(Choosing::default);
        Stage { chain: Chain::new(elements), choosing, ..stage }
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tests::frame;
    use polypath_base::{Rate, Stream};
    use polypath_link::{CodelConfig, Delay, Fair, FairConfig, Limit, Mtu, Oversize, RateQueue, Schedule};

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn delay(us: u64, jitter_us: u64) -> Element {
        let (delay, jitter) = (Duration::from_micros(us), Duration::from_micros(jitter_us));
        Element::Delay(Delay::new(delay, jitter, true, Schedule::none(), Stream::new(1, "d")))
    }

    /// 8 Mbit/s: a microsecond a byte.
    fn rate(packets: u64) -> Element {
        Element::Rate(RateQueue::new(Rate::from_bits_per_sec(8_000_000), Limit::Packets(packets), 0, Schedule::none()).unwrap())
    }

    fn mtu(bytes: u32, oversize: Oversize) -> Element {
        Element::Mtu(Mtu::new(bytes, oversize).unwrap())
    }

    fn store() -> Store {
        Store::new(2048, 1 << 20)
    }

    /// When what is in the line leaves it, by length, if somebody looks at these times.
    fn leaving(line: &mut Line, store: &mut Store, looks: &[u64]) -> Vec<(u64, u32)> {
        let mut seen = Vec::new();
        for &look in looks {
            line.advance(at(look), store, |refused| panic!("{refused:?}"));
            while let Some(held) = line.due(at(look)) {
                seen.push((held.leaves.as_micros(), held.parcel.len));
                store.release(held.slot);
            }
        }
        seen
    }

    #[test]
    fn looking_late_delays_nothing() {
        let (looks, late) = ((0..20_000).collect::<Vec<u64>>(), [20_000]);
        let run = |looks: &[u64]| {
            let (mut line, mut store) = (Line::new(vec![delay(500, 400), rate(50), delay(300, 200), rate(50)]), store());
            for packet in 0..30 {
                assert_eq!(line.enter(at(packet * 100), &frame(17, 100 + packet as usize, true), &mut store), None);
            }
            let seen = leaving(&mut line, &mut store, looks);
            assert_eq!((line.next(), store.kept()), (Instant::NEVER, 0));
            seen
        };
        let seen = run(&looks);
        assert_eq!((seen.len(), &seen), (30, &run(&late)));
        assert!(!seen.is_sorted_by_key(|&(_, len)| len), "a jitter of four packets reorders some");
    }

    #[test]
    fn an_mtu_behind_a_queue_answers_when_the_packet_is_there() {
        let (mut line, mut store) = (Line::new(vec![rate(9), mtu(1000, Oversize::Answer), delay(10, 0)]), store());
        let long = frame(17, 1500, true);
        assert_eq!(line.enter(at(5), &long, &mut store), None);
        assert_eq!(line.next(), at(1505));
        let mut told = Vec::new();
        line.advance(at(1504), &mut store, |refused| told.push(refused));
        assert!(told.is_empty());
        line.advance(at(9999), &mut store, |refused| told.push(refused));
        assert_eq!(told, [Refused { at: at(1505), mtu: 1000, stage: 1, frame: long, remedy: Remedy::AnswerFromEnd }]);
        assert_eq!((line.drops().mtu.packets, store.kept()), (1, 0));
    }

    #[test]
    fn an_mtu_at_the_head_answers_or_splits_at_once() {
        let (mut line, mut store) = (Line::new(vec![mtu(1000, Oversize::Fragment), rate(9)]), store());
        let told = line.enter(at(1), &frame(17, 1500, true), &mut store).map(|refused| (refused.at, refused.remedy));
        assert_eq!(told, Some((at(1), Remedy::AnswerAtOnce)));
        let told = line.enter(at(2), &frame(17, 1500, false), &mut store).map(|refused| (refused.stage, refused.remedy));
        assert_eq!(told, Some((0, Remedy::Split)));
    }

    #[test]
    fn a_full_queue_and_a_full_memory_are_told_apart() {
        let (mut line, mut store) = (Line::new(vec![rate(3)]), Store::new(2048, 2 * 2048));
        for _ in 0..5 {
            assert_eq!(line.enter(at(0), &frame(17, 100, true), &mut store), None);
        }
        let drops = line.drops();
        assert_eq!((drops.queue.packets, drops.overflow, drops.longest_queue), (2, 1, 3));
    }

    /// Such a queue of FQ-CoDel or, with one flow, CoDel; 8 Mbit/s.
    fn choosing(flows: u32, target_us: u64, limit: u32) -> Element {
        let codel = CodelConfig { target: Duration::from_micros(target_us), interval: Duration::from_micros(10 * target_us), ecn: true };
        let config = FairConfig { codel, limit, flows, quantum: 1000 };
        Element::Fair(Box::new(Fair::new(Rate::from_bits_per_sec(8_000_000), 0, Schedule::none(), config, Stream::new(1, "f")).unwrap()))
    }

    #[test]
    fn a_queue_of_each_flow_lets_a_new_one_pass_the_others_however_late_one_looks() {
        for looks in [(0..9000).collect::<Vec<u64>>(), vec![9000]] {
            let (mut line, mut store) = (Line::new(vec![delay(10, 0), choosing(64, 50_000, 100), delay(5, 0)]), store());
            for _ in 0..4 {
                assert_eq!(line.enter(at(0), &frame(17, 1000, true), &mut store), None);
            }
            let mut other = frame(17, 500, true);
            other[ip::IP + 21] = 99;
            assert_eq!(line.enter(at(0), &other, &mut store), None);
            assert_eq!(line.held(), 5);
            let seen = leaving(&mut line, &mut store, &looks);
            assert_eq!(seen, [(1015, 1000), (1515, 500), (2515, 1000), (3515, 1000), (4515, 1000)]);
            assert_eq!((line.held(), store.kept(), line.next()), (0, 0, Instant::NEVER));
        }
    }

    #[test]
    fn codel_marks_what_may_be_marked_and_drops_the_rest() {
        for (ecn, marked) in [(2, true), (0, false)] {
            let (mut line, mut store) = (Line::new(vec![choosing(1, 500, 100)]), store());
            let mut packet = frame(17, 1000, true);
            packet[ip::IP + 1] = ecn;
            for _ in 0..60 {
                line.enter(at(0), &packet, &mut store);
            }
            let mut marks = 0;
            line.advance(at(100_000), &mut store, |refused| panic!("{refused:?}"));
            while let Some(held) = line.due(at(100_000)) {
                marks += u64::from(store.get(held.slot, held.len as usize)[ip::IP + 1] == 3);
                store.release(held.slot);
            }
            let drops = line.drops();
            assert_eq!((marks == drops.marks, marks > 3, drops.queue.packets > 3), (true, marked, !marked));
            assert_eq!((line.held(), store.kept()), (0, 0));
        }
    }

    #[test]
    fn a_full_managed_queue_gives_its_places_back() {
        let (mut line, mut store) = (Line::new(vec![choosing(1, 50_000, 3)]), store());
        line.sample_every(Duration::from_micros(100));
        for _ in 0..5 {
            assert_eq!(line.enter(at(50), &frame(17, 100, true), &mut store), None);
        }
        assert_eq!((line.held(), store.kept(), line.drops().queue.packets), (3, 3, 2));
        assert_eq!(leaving(&mut line, &mut store, &[400]).len(), 3);
        assert_eq!(line.samples(at(200)).iter().map(|sample| sample.packets).collect::<Vec<_>>(), [0, 3, 2]);
    }

    #[test]
    fn queues_of_a_direction_are_sampled_together() {
        let (mut line, mut store) = (Line::new(vec![rate(9), delay(10, 0), rate(9)]), store());
        line.sample_every(Duration::from_micros(100));
        for _ in 0..3 {
            assert_eq!(line.enter(at(50), &frame(17, 100, true), &mut store), None);
        }
        leaving(&mut line, &mut store, &[300]);
        let seen: Vec<_> = line.samples(at(300)).iter().map(|sample| (sample.packets, sample.bytes)).collect();
        // The first leaves the first queue at 150 and comes to the second at 160.
        assert_eq!(seen, [(0, 0), (3, 300), (3, 300), (2, 200)]);
        assert_eq!(Line::new(vec![delay(1, 0)]).samples(at(300)), []);
    }

    #[test]
    fn a_packet_can_be_left_alone_for_as_long_as_the_constant_delays_before_an_answer() {
        assert_eq!(Line::new(vec![delay(7, 0), rate(1), delay(8, 3), delay(9, 0)]).floor(), Duration::from_micros(16));
        assert_eq!(Line::new(vec![delay(7, 0), mtu(1000, Oversize::Answer), delay(9, 0)]).floor(), Duration::from_micros(7));
    }
}
