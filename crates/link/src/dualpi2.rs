//! A transmitter behind DualPI2 (RFC 9332): a queue for scalable traffic (L) and one for the rest
//! (C), whose marks are coupled so that a flow of either kind gets about as much.
//!
//! The pseudocode is that of appendix A of the RFC; where the RFC leaves a choice, the choice is
//! that of Linux's `sch_dualpi2` with its defaults.

use crate::managed::{Chosen, ManagedQueue, Transmitter};
use crate::{DualPi2Config, Error, PacketMeta, QueueLimit, RateConfig};
use polypath_base::{Bytes, Duration, Instant, Rng};
use std::collections::VecDeque;

/// A transmitter with its two queues.
#[derive(Clone, Debug)]
pub struct DualPi2 {
    config: DualPi2Config,
    /// Room in packets, both queues together.
    limit: u64,
    sending: Transmitter,
    low_latency: VecDeque<Item>,
    classic: VecDeque<Item>,
    /// p' of the RFC: what the controller sets.
    base: f64,
    /// What the last update saw, and when the next one is due.
    old_delay: Duration,
    next_update: Instant,
    /// Above 0 it is C's turn: L has had its share. Bytes times percent.
    credit: i64,
    rng: Rng,
}

#[derive(Copy, Clone, Debug)]
struct Item {
    slot: u32,
    /// Of the IP packet, and with framing.
    ip_len: Bytes,
    len: Bytes,
    ect: bool,
    /// Enough waited in L when it came for the step to see it.
    steps: bool,
    since: Instant,
}

/// What becomes of a packet whose turn it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

/// While less than two packets of this length wait, the controller neither marks nor drops, as in
/// Linux.
const FULL_PACKET: Bytes = Bytes::new(1514);

impl DualPi2 {
    /// `transmitter` is what sends the packets; its limit, in packets, holds for both queues
    /// together.
    ///
    /// # Errors
    /// No rate, a limit in bytes or of none, no target, no interval of updates, no coupling, or a
    /// share of C that is no percentage below 100.
    pub fn new(transmitter: RateConfig, config: DualPi2Config, rng: Rng) -> Result<Self, Error> {
        let QueueLimit::Packets(limit) = transmitter.queue else {
            return Err(Error::caller("DualPI2 counts its queues in packets: give it a limit in packets"));
        };
        if limit == 0 || config.target == Duration::ZERO || config.update == Duration::ZERO || config.coupling == 0 {
            return Err(Error::caller("DualPI2 needs room for a packet, and a target, an interval of updates and a coupling above zero"));
        }
        if config.classic_percent > 99 {
            return Err(Error::caller(format!("DualPI2 keeps at most 99 % for the classic queue, not {}", config.classic_percent)));
        }
        Ok(Self {
            limit,
            sending: Transmitter::new(transmitter)?,
            low_latency: VecDeque::new(),
            classic: VecDeque::new(),
            base: 0.0,
            old_delay: Duration::ZERO,
            next_update: Instant::ZERO + config.update,
            credit: config.first_credit(),
            rng,
            config,
        })
    }

    /// The packet whose turn it is, and whether it is marked; what is dropped on the way is noted.
    /// RFC 9332 appendices A.1 and A.2, `dualpi2_dequeue`.
    fn next(&mut self, at: Instant) -> Option<Chosen> {
        loop {
            let (item, is_low, credit) = self.next_in_turn()?;
            match self.judge(&item, is_low, at) {
                Fate::Drop => {
                    (self.sending.packets, self.sending.bytes) = (self.sending.packets - 1, self.sending.bytes - item.len);
                    self.sending.drop(item.slot, item.ip_len);
                }
                fate => {
                    self.credit += credit;
                    return Some(Chosen { slot: item.slot, len: item.len, marked: fate == Fate::Mark });
                }
            }
        }
    }

    /// Weighted round robin (RFC 9332 section 4.2.2: C must not starve): while both wait, C gets
    /// `classic_percent` of the bytes, and L the rest. Also, what the packet changes of the credit
    /// if it is sent.
    fn next_in_turn(&mut self) -> Option<(Item, bool, i64)> {
        let both = !self.low_latency.is_empty() && !self.classic.is_empty();
        let is_low = if both { self.credit <= 0 } else { self.classic.is_empty() };
        let queue = if is_low { &mut self.low_latency } else { &mut self.classic };
        let Some(item) = queue.pop_front() else {
            self.credit = self.config.first_credit();
            return None;
        };
        let classic = i64::from(self.config.classic_percent);
        let weight = if is_low { classic } else { classic - 100 };
        Some((item, is_low, if both { weight * item.len.get() as i64 } else { 0 }))
    }

    fn judge(&mut self, item: &Item, is_low: bool, at: Instant) -> Fate {
        let coupled = self.base * f64::from(self.config.coupling);
        let overload = coupled > 1.0;
        let mut fate = Fate::Pass;
        // What is being transmitted has left the queue.
        if self.waiting_bytes(item) >= FULL_PACKET + FULL_PACKET {
            fate = match (is_low, overload) {
                // Linear marking: p_CL = k p'. ECN says all there is to say.
                (true, false) => self.mark_with(coupled),
                // RFC 9332 section 4.2.3 and appendix A.2: once marks alone no longer hold the
                // queue, both are dropped alike, with p'^2, and L is marked always.
                (true, true) if self.draw_squared() => Fate::Drop,
                (true, true) => Fate::Mark,
                // p_C = p'^2, by two draws that must both hit (RFC 9332 appendix A.1).
                (false, _) if !self.draw_squared() => Fate::Pass,
                (false, _) if overload || !item.ect => Fate::Drop,
                (false, _) => Fate::Mark,
            };
        }
        // The native AQM of L, a step: p_L = max(p'_L, p_CL) (RFC 9332 section 2.4).
        if fate == Fate::Pass && item.steps && at.since(item.since) > self.config.step { Fate::Mark } else { fate }
    }

    fn waiting_bytes(&self, item: &Item) -> Bytes {
        self.sending.bytes - item.len
    }

    fn mark_with(&mut self, probability: f64) -> Fate {
        if self.draw(probability) { Fate::Mark } else { Fate::Pass }
    }

    fn draw_squared(&mut self) -> bool {
        self.draw(self.base) && self.draw(self.base)
    }

    fn draw(&mut self, probability: f64) -> bool {
        f64::from(self.rng.next_u32()) < probability * 4_294_967_296.0
    }

    /// The updates that were due by now; nothing has come or gone since the last call.
    fn update_until(&mut self, at: Instant) {
        while self.next_update <= at {
            // An idle link at rest stays at rest.
            if self.base == 0.0 && self.old_delay == Duration::ZERO && self.low_latency.is_empty() && self.classic.is_empty() {
                let missed = at.since(self.next_update).as_nanos() / self.config.update.as_nanos();
                self.next_update += Duration::from_nanos((missed + 1) * self.config.update.as_nanos());
                return;
            }
            self.update();
        }
    }

    /// RFC 9332 appendices A.1 and A.2, `dualpi2_update`: a controller with two terms, of which C
    /// takes the square and L `coupling` times as much.
    fn update(&mut self) {
        let DualPi2Config { target, update, alpha, beta, .. } = self.config;
        let seconds = |span: Duration| span.as_nanos() as f64 * 1e-9;
        let waited = |queue: &VecDeque<Item>| queue.front().map_or(Duration::ZERO, |item| self.next_update.since(item.since));
        // The longer of the two, so that an overloaded L is held too (RFC 9332 appendix A.2).
        let delay = waited(&self.low_latency).max(waited(&self.classic));
        let step = alpha * (seconds(delay) - seconds(target)) + beta * (seconds(delay) - seconds(self.old_delay));
        self.base = (self.base + step).clamp(0.0, 1.0);
        self.old_delay = delay;
        self.next_update += update;
    }
}

impl DualPi2Config {
    /// As if a full packet of L had been sent and one of C: L comes first.
    fn first_credit(&self) -> i64 {
        FULL_PACKET.get() as i64 * (2 * i64::from(self.classic_percent) - 100)
    }
}

impl ManagedQueue for DualPi2 {
    fn sending(&self) -> &Transmitter {
        &self.sending
    }

    fn sending_mut(&mut self) -> &mut Transmitter {
        &mut self.sending
    }

    /// RFC 9332 appendix A.1, `dualpi2_enqueue`.
    fn insert(&mut self, at: Instant, packet: PacketMeta, slot: u32) {
        self.update_until(at);
        let waiting = self.low_latency.len() as u64 + self.classic.len() as u64;
        if waiting + u64::from(self.sending.is_serving()) >= self.limit {
            self.sending.drop(slot, packet.len);
            return;
        }
        // RFC 9331 section 5.1 and RFC 9332 section 2.3: ECT(1) and CE.
        let is_low = packet.l4s || self.config.any_ect && packet.ect;
        let steps = is_low && self.low_latency.len() as u64 >= u64::from(self.config.step_packets);
        let item = Item { slot, ip_len: packet.len, len: packet.len + self.sending.framing, ect: packet.ect, steps, since: at };
        let queue = if is_low { &mut self.low_latency } else { &mut self.classic };
        queue.push_back(item);
        (self.sending.packets, self.sending.bytes) = (self.sending.packets + 1, self.sending.bytes + item.len);
    }

    fn choose(&mut self, at: Instant) -> Option<Chosen> {
        self.update_until(at);
        self.next(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dequeued, HoldingQueue, LinkElement};
    use polypath_base::Rate;

    /// 8 Mbit/s: a microsecond a byte.
    fn dualpi2(config: DualPi2Config, limit: u64) -> DualPi2 {
        let rate = Rate::from_bits_per_sec(8_000_000);
        let transmitter = RateConfig { rate, queue: QueueLimit::Packets(limit), framing: Bytes::ZERO, ..RateConfig::default() };
        DualPi2::new(transmitter, config, Rng::new(1, "dualpi2")).unwrap()
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    /// Not-ECT, ECT(0) and ECT(1).
    const NOT_ECT: PacketMeta = PacketMeta { len: Bytes::new(1000), payload: true, df: true, ect: false, l4s: false, flow: 0 };
    const ECT_0: PacketMeta = PacketMeta { ect: true, ..NOT_ECT };
    const ECT_1: PacketMeta = PacketMeta { l4s: true, ..ECT_0 };

    /// A packet of `kind(number)` each `spacing` us; by number: (us that it waited, marked).
    fn drive(queue: &mut DualPi2, spacing: u64, count: u64, kind: impl Fn(u64) -> PacketMeta) -> Vec<(u64, u64, bool)> {
        let (mut served, mut free) = (Vec::new(), None::<Dequeued>);
        for number in 0..count {
            let now = at(number * spacing);
            while free.is_some_and(|one| one.leaves <= now) {
                free = free.and_then(|one| queue.dequeue(one.leaves));
                served.extend(free);
            }
            queue.enqueue(now, kind(number), number as u32);
            if !queue.is_transmitting() {
                free = queue.dequeue(now);
                served.extend(free);
            }
            while queue.take_dropped().is_some() {}
        }
        let wait = |one: &Dequeued| one.leaves.as_micros() - u64::from(one.slot) * spacing - 1000;
        served.iter().map(|one| (u64::from(one.slot), wait(one), one.marked)).collect()
    }

    /// Both kinds would fill the link alone; of the last thousand that were sent, those of L.
    fn sent_of_low(queue: &mut DualPi2) -> usize {
        let served = drive(queue, 500, 4000, |number| if number % 2 == 0 { ECT_1 } else { NOT_ECT });
        served.iter().rev().take(1000).filter(|(number, ..)| number % 2 == 0).count()
    }

    #[test]
    fn ect_1_passes_what_waits_and_the_rest_gets_its_share() {
        let mut queue = dualpi2(DualPi2Config::default(), 100_000);
        queue.next_update = Instant::NEVER;
        let low = sent_of_low(&mut queue);
        assert!((890..=910).contains(&low), "C keeps a tenth of the bytes: L had {low} of 1000");
        assert_eq!(queue.drops().packets, 0);
    }

    #[test]
    fn both_are_dropped_alike_where_marks_no_longer_help() {
        let mut queue = dualpi2(DualPi2Config::default(), 100_000);
        let low = sent_of_low(&mut queue);
        assert!((400..=600).contains(&low), "L had {low} of 1000");
        assert!(queue.drops().packets > 1000, "half is too much: {}", queue.drops().packets);
    }

    #[test]
    fn a_standing_queue_of_l_is_marked_by_the_step_at_once() {
        let mut queue = dualpi2(DualPi2Config::default(), 1000);
        // Three packets at once, before the first update: the third has waited for 2 ms, the second
        // for 1 ms, which is not more than the step.
        for slot in 0..3 {
            queue.enqueue(at(0), ECT_1, slot);
        }
        let marked: Vec<bool> = [0, 1000, 2000].map(|us| queue.dequeue(at(us)).unwrap().marked).to_vec();
        assert_eq!((marked, queue.marks(), queue.drops().packets), (vec![false, false, true], 1, 0));
        let mut queue = dualpi2(DualPi2Config { step_packets: 3, ..DualPi2Config::default() }, 1000);
        for slot in 0..3 {
            queue.enqueue(at(0), ECT_1, slot);
        }
        let marked: Vec<bool> = [0, 1000, 2000].map(|us| queue.dequeue(at(us)).unwrap().marked).to_vec();
        assert_eq!(marked, [false, false, false], "so few before it are no queue");
    }

    #[test]
    fn the_controller_moves_as_computed_by_hand() {
        let mut queue = dualpi2(DualPi2Config::default(), 1000);
        for slot in 0..100 {
            queue.enqueue(at(0), NOT_ECT, slot);
        }
        // After 16 ms the head has waited for all of them:
        // 0.16 (16 ms - 15 ms) + 3.2 (16 ms - 0).
        queue.update_until(at(16_000));
        assert!((queue.base - (0.16 * 0.001 + 3.2 * 0.016)).abs() < 1e-12, "{}", queue.base);
        queue.update_until(at(32_000));
        assert!((queue.base - (0.16 * 0.018 + 3.2 * 0.032)).abs() < 1e-12, "{}", queue.base);
    }

    #[test]
    fn marks_of_l_are_the_coupling_times_the_root_of_cs_drops() {
        // A twentieth too much of ECT(0), which is marked and so does not go away: p' rises until
        // every packet is. Nothing is dropped before the coupled probability is 1.
        let mut queue = dualpi2(DualPi2Config::default(), 100_000);
        queue.base = 0.3;
        queue.next_update = Instant::NEVER;
        let served = drive(&mut queue, 990, 20_000, |number| if number % 10 == 0 { ECT_1 } else { ECT_0 });
        let share = |low: bool| {
            let of: Vec<bool> = served.iter().filter(|one| (one.0 % 10 == 0) == low && one.1 > 3000).map(|one| one.2).collect();
            of.iter().filter(|&&marked| marked).count() as f64 / of.len() as f64
        };
        assert!((share(false) - 0.09).abs() < 0.01, "p'^2: {}", share(false));
        assert_eq!(queue.drops().packets, 0);
        let low: Vec<bool> = served.iter().filter(|one| one.0 % 10 == 0).map(|one| one.2).collect();
        let marked = low.iter().filter(|&&marked| marked).count() as f64 / low.len() as f64;
        assert!(marked > 0.55, "2 p', and the step: {marked}");
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let rate = Rate::from_bits_per_sec(8_000_000);
        let transmitter = |queue| RateConfig { rate, queue, ..RateConfig::default() };
        let good = DualPi2Config::default();
        assert!(DualPi2::new(transmitter(QueueLimit::Bytes(Bytes::new(9000))), good, Rng::new(1, "x")).is_err());
        for wrong in [
            DualPi2Config { target: Duration::ZERO, ..good },
            DualPi2Config { update: Duration::ZERO, ..good },
            DualPi2Config { coupling: 0, ..good },
            DualPi2Config { classic_percent: 100, ..good },
        ] {
            assert!(DualPi2::new(transmitter(QueueLimit::Packets(10)), wrong, Rng::new(1, "x")).is_err(), "{wrong:?}");
        }
    }
}
