//! CoDel: the state of one queue, and what it does to the packet at the head. Names are those of
//! the pseudo-code of RFC 8289.

use crate::CodelConfig;
use polypath_base::{Bytes, Duration, Instant};

/// What one queue remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codel {
    /// When the delay will have been above the target for an interval; none: it is not above it.
    first_above_time: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    lastcount: u32,
}

/// A queue as CoDel needs it.
pub(crate) trait CodelQueue {
    /// Takes the packet at the head: when it came and whether it is ECN-capable (ECT). `None` if
    /// there is none.
    fn take(&mut self) -> Option<(Instant, bool)>;
    /// Drops what was taken last.
    fn drop_taken(&mut self);
    /// Bytes that wait behind what was taken.
    fn waiting(&self) -> Bytes;
}

/// A queue with less than a full packet is not congested.
const MAXPACKET: Bytes = Bytes::new(1514);

impl Codel {
    /// Takes the next packet to transmit out of the queue, dropping others before it; says whether
    /// there is one and whether it is marked.
    pub(crate) fn dequeue(&mut self, now: Instant, config: &CodelConfig, queue: &mut impl CodelQueue) -> Option<bool> {
        let (mut ect, mut ok_to_drop) = self.dodequeue(now, config, queue)?;
        let mut marked = false;
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if config.ecn && ect {
                    marked = true;
                    self.drop_next = self.control_law(self.drop_next, config);
                    break;
                }
                queue.drop_taken();
                let Some(next) = self.dodequeue(now, config, queue) else {
                    self.dropping = false;
                    return None;
                };
                (ect, ok_to_drop) = next;
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next, config);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            if config.ecn && ect {
                marked = true;
            } else {
                queue.drop_taken();
                // Whatever comes next is transmitted.
                let next = self.dodequeue(now, config, queue);
                self.enter_drop_state(now, config);
                next?;
                return Some(false);
            }
            self.enter_drop_state(now, config);
        }
        Some(marked)
    }

    /// Enters the drop state; soon after the last time, at about the rate of then.
    fn enter_drop_state(&mut self, now: Instant, config: &CodelConfig) {
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.lastcount);
        let recently = now.since(self.drop_next) < config.interval * 16;
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.drop_next = self.control_law(now, config);
        self.lastcount = self.count;
    }

    /// The next packet, whether it may be marked, and whether its queue's delay stands.
    fn dodequeue(&mut self, now: Instant, config: &CodelConfig, queue: &mut impl CodelQueue) -> Option<(bool, bool)> {
        let Some((since, ect)) = queue.take() else {
            self.first_above_time = None;
            return None;
        };
        if now.since(since) < config.target || queue.waiting() <= MAXPACKET {
            self.first_above_time = None;
            return Some((ect, false));
        }
        let ok_to_drop = match self.first_above_time {
            None => {
                self.first_above_time = Some(now + config.interval);
                false
            }
            Some(at) => now >= at,
        };
        Some((ect, ok_to_drop))
    }

    /// When the next drop follows one at `at`: sooner with the square root of their number.
    fn control_law(&self, at: Instant, config: &CodelConfig) -> Instant {
        debug_assert!(self.count > 0, "drops follow a first one");
        // Square roots are rounded the same way on every machine (IEEE 754).
        at + Duration::from_nanos((config.interval.as_nanos() as f64 / f64::from(self.count).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[derive(Default)]
    struct Plain {
        waiting: VecDeque<Instant>,
        dropped: usize,
        ect: bool,
    }

    impl CodelQueue for Plain {
        fn take(&mut self) -> Option<(Instant, bool)> {
            self.waiting.pop_front().map(|since| (since, self.ect))
        }

        fn drop_taken(&mut self) {
            self.dropped += 1;
        }

        fn waiting(&self) -> Bytes {
            Bytes::new(self.waiting.len() as u64 * 1500)
        }
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// A packet leaves each millisecond, having waited for `delay`; the times of drops or marks,
    /// ms.
    fn hits(delay: u64, end: u64, ecn: bool) -> Vec<u64> {
        let config = CodelConfig { ecn, ..CodelConfig::DEFAULT };
        let (mut codel, mut found) = (Codel::default(), Vec::new());
        for now in delay..end {
            let mut queue = Plain { ect: ecn, ..Plain::default() };
            queue.waiting.extend([ms(now - delay); 5]);
            let marked = codel.dequeue(ms(now), &config, &mut queue).expect("five packets wait");
            if marked || queue.dropped > 0 {
                found.push(now);
            }
        }
        found
    }

    #[test]
    fn drops_begin_after_an_interval_and_follow_the_square_root() {
        // First above the target at 20 ms; an interval later it drops, then after 100 / sqrt(1),
        // 100 / sqrt(2) ... ms.
        assert_eq!(hits(20, 430, false), [120, 220, 291, 349, 399]);
        assert_eq!(hits(20, 430, true), [120, 220, 291, 349, 399], "marks take the place of drops");
        assert_eq!(hits(4, 1000, false), [], "below the target nothing is dropped");
    }

    #[test]
    fn a_queue_of_one_packet_is_not_congested() {
        let (mut codel, mut queue) = (Codel::default(), Plain::default());
        for now in 0..1000 {
            queue.waiting.push_back(ms(now));
            codel.dequeue(ms(now + 50), &CodelConfig::DEFAULT, &mut queue);
        }
        assert_eq!(queue.dropped, 0);
    }
}
