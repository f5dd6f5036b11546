//! A link: two ports and a direction for each direction.

use crate::direction::{FrameInFlight, LinkDirection, OversizeAction, Oversized};
use crate::frame_pool::FramePool;
use crate::ip;
use crate::lateness::Lateness;
use crate::status::{DirectionStatus, Series};
use polypath_base::{Duration, Instant};
use polypath_io::{Clock, KernelTime, Port};
use polypath_link::{LinkCounters, PacketCount};
use std::net::IpAddr;

/// Frames read from a port before the other one has its turn.
const BURST: usize = 64;
/// Frames sent with one call. Lateness is read off after each, so a large number would tell of
/// lateness that is not there.
const BATCH: usize = 16;

#[derive(Debug)]
pub(crate) struct Link {
    name: String,
    /// At the ends a and b.
    ports: [Port; 2],
    /// Addresses of the ends, from which ICMP comes.
    addresses: [Option<IpAddr>; 2],
    /// From a to b, and back.
    directions: [Direction; 2],
    store: FramePool,
}

#[derive(Debug)]
struct Direction {
    direction: LinkDirection,
    passed: PacketCount,
    lateness: Lateness,
    /// Frames whose end was missing: an offload is on at the device from which they came.
    cut: u64,
}

impl Direction {
    fn new(direction: LinkDirection) -> Self {
        Self { direction, passed: PacketCount::default(), lateness: Lateness::default(), cut: 0 }
    }
}

impl Link {
    pub(crate) fn new(name: String, ports: [Port; 2], addresses: [Option<IpAddr>; 2], lines: [LinkDirection; 2], store: FramePool) -> Self {
        Self { name, ports, addresses, directions: lines.map(Direction::new), store }
    }

    pub(crate) fn ports(&self) -> &[Port; 2] {
        &self.ports
    }

    /// For so long at least there is nothing to do about a packet that arrives.
    pub(crate) fn floor(&self) -> Duration {
        self.directions[0].direction.floor().min(self.directions[1].direction.floor())
    }

    /// When there is something to send next, if nothing arrives.
    pub(crate) fn next(&self) -> Instant {
        self.directions[0].direction.next().min(self.directions[1].direction.next())
    }

    /// Takes in what has arrived at both ends; says how many packets.
    #[inline]
    pub(crate) fn read(&mut self, time: &KernelTime) -> u32 {
        let mut count = 0;
        for side in 0..2 {
            for _ in 0..BURST {
                let Some(frame) = self.ports[side].first() else { break };
                count += 1;
                let direction = &mut self.directions[side];
                let refused = if frame.cut {
                    direction.cut += 1;
                    None
                } else {
                    direction.direction.enter(time.instant(frame.real_ns), frame.bytes, &mut self.store)
                };
                self.ports[side].release();
                if let Some(refused) = refused {
                    self.remedy(side, &refused);
                }
            }
        }
        count
    }

    /// Sends what is due at both ends; says whether there was anything.
    #[inline]
    pub(crate) fn send(&mut self, clock: &Clock) -> bool {
        let mut any = false;
        for side in 0..2 {
            while self.directions[side].direction.next() <= clock.now() {
                any = true;
                self.send_batch(side, clock);
            }
        }
        any
    }

    fn send_batch(&mut self, side: usize, clock: &Clock) {
        let now = clock.now();
        let mut refusals = Vec::new();
        let Direction { direction, passed, lateness, .. } = &mut self.directions[side];
        direction.advance(now, &mut self.store, |refused| refusals.push(refused));
        let mut batch: [Option<FrameInFlight>; BATCH] = [None; BATCH];
        let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
        let mut count = 0;
        while let Some(held) = direction.due(now) {
            batch[count] = Some(held);
            frames[count] = self.store.get(held.slot, held.len as usize);
            count += 1;
            if count == BATCH {
                break;
            }
        }
        self.ports[1 - side].send(&frames[..count]);
        let sent = clock.now();
        for held in batch.into_iter().flatten() {
            lateness.add(sent.since(held.leaves));
            passed.add(held.ip_len());
            self.store.release(held.slot);
        }
        for refused in refusals {
            self.remedy(side, &refused);
        }
    }

    #[cold]
    fn remedy(&mut self, side: usize, refused: &Oversized) {
        let from = self.addresses[1 - side];
        let answer = || ip::too_big(&refused.frame, from, refused.mtu);
        match refused.action {
            OversizeAction::AnswerAtOnce => {
                if let Some(answer) = answer() {
                    self.ports[side].send(&[&answer]);
                }
            }
            OversizeAction::AnswerFromEnd => {
                // An answer about an answer is never given, so there is nothing more to do.
                if let Some(answer) = answer() {
                    self.directions[1 - side].direction.enter(refused.at, &answer, &mut self.store);
                }
            }
            OversizeAction::Split => {
                for part in ip::fragment(&refused.frame, refused.mtu).into_iter().flatten() {
                    self.directions[side].direction.enter_stage(refused.stage, refused.at, &part, &mut self.store);
                }
            }
        }
    }

    /// Writes down the length of its queues at multiples of `interval`.
    pub(crate) fn sample_every(&mut self, interval: Duration) {
        self.directions.iter_mut().for_each(|direction| direction.direction.sample_every(interval));
    }

    /// The samples of both directions' queues up to now.
    pub(crate) fn series(&mut self, now: Instant) -> [Series; 2] {
        [0, 1].map(|side| {
            let samples = self.directions[side].direction.samples(now);
            let samples = samples.iter().map(|sample| (sample.packets, sample.bytes.get(), sample.drops)).collect();
            Series { link: self.name.clone(), a_to_b: side == 0, samples }
        })
    }

    /// How both directions fare.
    pub(crate) fn status(&mut self, late_limit: Duration) -> [DirectionStatus; 2] {
        let (a, b) = (self.ports[0].stats(), self.ports[1].stats());
        [(0, a.missed, b.refused), (1, b.missed, a.refused)].map(|(side, missed, refused)| {
            let Direction { direction, passed, lateness, cut } = &self.directions[side];
            let mut status = DirectionStatus {
                link: self.name.clone(),
                a_to_b: side == 0,
                counters: LinkCounters { packets: passed.packets, bytes: passed.bytes.get(), ..direction.counters() },
                missed,
                refused,
                cut: *cut,
                overflow: direction.overflow(),
                held: direction.held(),
                late_median_us: micros(lateness.quantile(0.5)),
                late_p99_us: micros(lateness.quantile(0.99)),
                late_max_us: micros(lateness.most()),
                ..DirectionStatus::default()
            };
            status.untrusted = lateness.quantile(0.99) > late_limit || missed > 0 || status.overflow > 0 || *cut > 0;
            status
        })
    }
}

fn micros(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e3
}
