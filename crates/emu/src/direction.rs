//! One direction of a link: its elements and the packets that are in it.
//!
//! It is cut into stages as the simulator's is (`polypath_link`): a packet's path through a stage
//! is computed when it enters, and the next stage sees it at the time at which it should have left,
//! however late somebody comes to move it on. Where a queue chooses what it sends next (CoDel,
//! FQ-CoDel), the choice is made as of the time at which the transmitter became free.

use crate::frame_pool::{FramePool, FrameSlot};
use crate::ip;
use polypath_base::{Bytes, Duration, Instant};
use polypath_link::{Element, ElementChain, IcmpOrigin, InFlight, LinkCounters, LinkElement, PacketMeta, PipeStage, QueueSample, Verdict};
use polypath_link::{add_samples, cut_into_stages};

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
    packets: PipeStage<FrameInFlight>,
    /// When the last packet entered. Elements see packets in order.
    last: Instant,
    icmp_origin: Option<IcmpOrigin>,
    /// Of a queue that chooses what it sends: when its transmitter is free.
    transmitter_free: Instant,
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
    pub(crate) mtu: Bytes,
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

impl LinkDirection {
    pub(crate) fn new(elements: Vec<Element>) -> Self {
        // What answers may have to do so as soon as a packet stands before it.
        let before_answers = elements.iter().take_while(|element| !element.answers());
        let delays = before_answers.filter_map(Element::constant_delay);
        let floor = delays.fold(Duration::ZERO, |sum, delay| sum + delay);
        let stages = cut_into_stages(elements).into_iter().map(|stage| Stage::new(ElementChain::new(stage.elements), stage.icmp_origin));
        Self { stages: stages.collect(), floor, overflow: 0 }
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
            Verdict::Enqueue => at,
            _ => return self.refuse(number, verdict, at, frame),
        };
        match store.keep(frame) {
            Some(slot) => stage.take(verdict, FrameInFlight { leaves, slot, len: frame.len() as u32, meta }, store),
            None => self.overflow += 1,
        }
        None
    }

    /// Moves on all packets that have come to the end of a stage by `now`; passes those that do not
    /// fit into the next one to `on_oversized`.
    pub(crate) fn advance(&mut self, now: Instant, store: &mut FramePool, mut on_oversized: impl FnMut(Oversized)) {
        self.stages[0].send_until(now, store);
        for number in 1..self.stages.len() {
            while let Some(packet) = self.stages[number - 1].packets.take_due(now) {
                let (verdict, at) = self.stages[number].transit(packet.leaves, packet.meta);
                let leaves = match verdict {
                    Verdict::Pass(leaves) | Verdict::Mark(leaves) => leaves,
                    Verdict::Enqueue => at,
                    _ => {
                        let oversized = self.refuse(number, verdict, at, store.get(packet.slot, packet.len as usize));
                        store.release(packet.slot);
                        oversized.into_iter().for_each(&mut on_oversized);
                        continue;
                    }
                };
                self.stages[number].take(verdict, FrameInFlight { leaves, ..packet }, store);
            }
            self.stages[number].send_until(now, store);
        }
    }

    /// The packet that is to leave the direction first, if it is due by `now`.
    #[inline]
    pub(crate) fn due(&mut self, now: Instant) -> Option<FrameInFlight> {
        self.stages.last_mut().expect("there is always a stage").packets.take_due(now)
    }

    /// When there is something to do next.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        let first = |stage: &Stage| stage.packets.first().map_or(Instant::NEVER, |packet| packet.leaves);
        self.stages.iter().map(first).min().unwrap_or(Instant::NEVER)
    }

    /// How many packets are in it.
    pub(crate) fn held(&self) -> u64 {
        self.stages.iter().map(|stage| stage.packets.len() as u64).sum()
    }

    /// What the elements dropped and marked.
    pub(crate) fn counters(&self) -> LinkCounters {
        let mut counters = LinkCounters::default();
        self.stages.iter().flat_map(|stage| stage.packets.chain().elements()).for_each(|(_, element)| counters.add_element(element));
        counters
    }

    /// Packets lost for want of memory, which is no part of the model.
    pub(crate) fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Records the length of its queues at multiples of `interval`.
    pub(crate) fn sample_every(&mut self, interval: Duration) {
        self.elements().filter_map(Element::queue_mut).for_each(|queue| queue.sample_every(interval));
    }

    /// The samples up to now, those of several queues summed; none if it has no queue.
    pub(crate) fn samples(&mut self, now: Instant) -> Vec<QueueSample> {
        let mut sums = Vec::new();
        self.elements().filter_map(Element::queue_mut).for_each(|queue| add_samples(&mut sums, queue.samples(now)));
        sums
    }

    fn elements(&mut self) -> impl Iterator<Item = &mut Element> {
        self.stages.iter_mut().flat_map(|stage| stage.packets.chain_mut().elements_mut()).map(|(_, element)| element)
    }

    #[cold]
    fn refuse(&self, number: usize, verdict: Verdict, at: Instant, frame: &[u8]) -> Option<Oversized> {
        let (mtu, action) = match verdict {
            Verdict::TooBig { mtu } if self.stages[number].icmp_origin == Some(IcmpOrigin::Target) => (mtu, OversizeAction::AnswerFromEnd),
            Verdict::TooBig { mtu } => (mtu, OversizeAction::AnswerAtOnce),
            Verdict::Fragment { mtu } => (mtu, OversizeAction::Split),
            Verdict::Pass(_) | Verdict::Mark(_) | Verdict::Enqueue | Verdict::Drop(_) => return None,
        };
        Some(Oversized { at, mtu, stage: number, frame: frame.to_vec(), action })
    }
}

impl FrameInFlight {
    /// Of the IP packet.
    pub(crate) fn ip_len(&self) -> Bytes {
        self.meta.len
    }
}

impl InFlight for FrameInFlight {
    #[inline]
    fn leaves(&self) -> Instant {
        self.leaves
    }
}

impl Stage {
    fn new(chain: ElementChain, icmp_origin: Option<IcmpOrigin>) -> Self {
        let blank = FrameInFlight { leaves: Instant::ZERO, slot: FrameSlot::default(), len: 0, meta: PacketMeta::default() };
        Self { packets: PipeStage::new(chain, blank), last: Instant::ZERO, icmp_origin, transmitter_free: Instant::ZERO }
    }

    /// What becomes of a packet, and when it entered: stamps of two processors may be in the wrong
    /// order.
    #[inline]
    fn transit(&mut self, at: Instant, meta: PacketMeta) -> (Verdict, Instant) {
        self.last = self.last.max(at);
        (self.packets.transit(self.last, meta), self.last)
    }

    /// A packet that is kept has entered.
    #[inline]
    fn take(&mut self, verdict: Verdict, packet: FrameInFlight, store: &mut FramePool) {
        match verdict {
            Verdict::Enqueue => return self.hold(packet, store),
            Verdict::Mark(_) => ip::mark(store.get_mut(packet.slot, packet.len as usize)),
            _ => {}
        }
        debug_assert!(packet.leaves >= self.last, "no packet leaves before it entered");
        *self.packets.place(packet.leaves).0 = packet;
    }

    /// A packet stands before a queue that chooses, at the time that it carries.
    fn hold(&mut self, packet: FrameInFlight, store: &mut FramePool) {
        let at = packet.leaves;
        self.send_until(at, store);
        if self.packets.hold(at, packet.meta, packet) {
            // The emulator may have looked at a time after this packet's, so the transmitter may
            // only then have become free.
            self.transmitter_free = self.transmitter_free.max(at);
            self.send(store);
        } else {
            self.forget_dropped(store);
        }
    }

    /// A queue that chooses sends what it can by `now`.
    #[inline]
    fn send_until(&mut self, now: Instant, store: &mut FramePool) {
        while self.packets.enqueues() && self.packets.is_transmitting() && self.transmitter_free <= now {
            self.send(store);
        }
    }

    /// The transmitter is free and takes the next packet, if one waits.
    fn send(&mut self, store: &mut FramePool) {
        if let Some((packet, leaves, marked)) = self.packets.transmit_next(self.transmitter_free) {
            debug_assert!(leaves >= self.transmitter_free, "the transmitter sends one packet after the other");
            self.transmitter_free = leaves;
            if marked {
                ip::mark(store.get_mut(packet.slot, packet.len as usize));
            }
            *self.packets.place(leaves).0 = FrameInFlight { leaves, ..packet };
        }
        self.forget_dropped(store);
    }

    fn forget_dropped(&mut self, store: &mut FramePool) {
        while let Some(dropped) = self.packets.take_dropped() {
            store.release(dropped.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tests::frame;
    use polypath_base::{Rate, Rng};
    use polypath_link::{AqmConfig, DelayConfig, ElementSpec, FqCodelConfig, MtuConfig, Oversize, QueueLimit, RateConfig};

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn build(spec: ElementSpec) -> Element {
        spec.build(Rng::new(1, "element")).unwrap()
    }

    fn delay(us: u64, jitter_us: u64) -> Element {
        let (delay, jitter) = (Duration::from_micros(us), Duration::from_micros(jitter_us));
        build(ElementSpec::Delay(DelayConfig { delay, jitter, reorder: true, ..DelayConfig::default() }))
    }

    /// 8 Mbit/s: a microsecond a byte.
    fn transmitter(packets: u64, aqm: Option<AqmConfig>) -> Element {
        let (rate, queue) = (Rate::from_bits_per_sec(8_000_000), QueueLimit::Packets(packets));
        build(ElementSpec::Rate(RateConfig { rate, queue, framing: Bytes::ZERO, aqm, ..RateConfig::default() }))
    }

    fn rate(packets: u64) -> Element {
        transmitter(packets, None)
    }

    fn mtu(bytes: u64, oversize: Oversize) -> Element {
        build(ElementSpec::Mtu(MtuConfig { bytes: Bytes::new(bytes), oversize, says: None }))
    }

    fn store() -> FramePool {
        FramePool::new(2048, 1 << 20)
    }

    /// When what is in the direction leaves it, by length, if somebody looks at these times.
    fn leaving(direction: &mut LinkDirection, store: &mut FramePool, looks: &[u64]) -> Vec<(u64, u64)> {
        let mut seen = Vec::new();
        for &look in looks {
            direction.advance(at(look), store, |oversized| panic!("{oversized:?}"));
            while let Some(held) = direction.due(at(look)) {
                seen.push((held.leaves.as_micros(), held.meta.len.get()));
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
        let (mut direction, mut store) = (LinkDirection::new(vec![rate(9), mtu(1000, Oversize::Icmp), delay(10, 0)]), store());
        let long = frame(17, 1500, true);
        assert_eq!(direction.enter(at(5), &long, &mut store), None);
        assert_eq!(direction.next(), at(1505));
        let mut seen = Vec::new();
        direction.advance(at(1504), &mut store, |oversized| seen.push(oversized));
        assert!(seen.is_empty());
        direction.advance(at(9999), &mut store, |oversized| seen.push(oversized));
        assert_eq!(seen, [Oversized { at: at(1505), mtu: Bytes::new(1000), stage: 1, frame: long, action: OversizeAction::AnswerFromEnd }]);
        assert_eq!((direction.counters().mtu_drops, store.kept()), (1, 0));
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
        let counters = direction.counters();
        assert_eq!((counters.queue_drops, direction.overflow(), counters.max_queue_packets), (2, 1, 3));
    }

    /// A queue of FQ-CoDel or, with one flow, CoDel.
    fn fq_codel(flows: u32, target_us: u64, limit: u64) -> Element {
        let (target, interval) = (Duration::from_micros(target_us), Duration::from_micros(10 * target_us));
        transmitter(limit, Some(AqmConfig::FqCodel(FqCodelConfig { target, interval, flows, quantum: Bytes::new(1000), ecn: true })))
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
            let counters = direction.counters();
            assert_eq!((marks == counters.ecn_marks, marks > 3, counters.queue_drops > 3), (true, marked, !marked));
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
        assert_eq!((direction.held(), store.kept(), direction.counters().queue_drops), (3, 3, 2));
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
        let seen: Vec<_> = direction.samples(at(300)).iter().map(|sample| (sample.packets, sample.bytes.get())).collect();
        // The first leaves the first queue at 150 and comes to the second at 160.
        assert_eq!(seen, [(0, 0), (3, 300), (3, 300), (2, 200)]);
        assert_eq!(LinkDirection::new(vec![delay(1, 0)]).samples(at(300)), []);
    }

    #[test]
    fn a_packet_can_be_left_alone_for_as_long_as_the_constant_delays_before_an_answer() {
        assert_eq!(LinkDirection::new(vec![delay(7, 0), rate(1), delay(8, 3), delay(9, 0)]).floor(), Duration::from_micros(16));
        assert_eq!(LinkDirection::new(vec![delay(7, 0), mtu(1000, Oversize::Icmp), delay(9, 0)]).floor(), Duration::from_micros(7));
    }
}
