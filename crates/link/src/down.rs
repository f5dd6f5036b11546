//! Outages.

use crate::{DropCategory, DropCause, Error, LinkElement, PacketCount, PacketMeta, Verdict};
use polypath_base::Instant;
use serde::Deserialize;

/// Parameters of [`Down`]. The default is no outage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DownConfig {
    /// Outages `[from, to)` in ascending order that do not overlap.
    #[serde(rename = "spans_ns")]
    pub spans: Vec<[Instant; 2]>,
}

/// Nothing passes during these spans, start included, end excluded.
#[derive(Clone, Debug)]
pub struct Down {
    spans: Vec<(Instant, Instant)>,
    /// The first span that has not ended.
    next: usize,
    /// Its start; never if there is none.
    from: Instant,
    drops: PacketCount,
}

impl Down {
    /// # Errors
    /// An outage ends before it begins, or the list is not in ascending order or overlaps.
    pub fn new(config: DownConfig) -> Result<Self, Error> {
        let spans: Vec<(Instant, Instant)> = config.spans.into_iter().map(|[from, to]| (from, to)).collect();
        if let Some(span) = spans.iter().find(|span| span.0 >= span.1) {
            return Err(Error::caller(format!("the outage from {:?} to {:?} ends before it begins", span.0, span.1)));
        }
        if let Some(pair) = spans.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            return Err(Error::caller(format!(
                "the outage from {:?} begins before the one listed earlier ends at {:?}",
                pair[1].0, pair[0].1
            )));
        }
        let from = spans.first().map_or(Instant::NEVER, |span| span.0);
        Ok(Self { spans, next: 0, from, drops: PacketCount::default() })
    }

    #[cold]
    fn within(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        while self.spans.get(self.next).is_some_and(|span| span.1 <= at) {
            self.next += 1;
        }
        self.from = self.spans.get(self.next).map_or(Instant::NEVER, |span| span.0);
        if at < self.from {
            return Verdict::Pass(at);
        }
        self.drops.add(packet.len);
        Verdict::Drop(DropCause::Down)
    }
}

impl LinkElement for Down {
    #[inline]
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        if at < self.from { Verdict::Pass(at) } else { self.within(at, packet) }
    }

    fn drops(&self) -> PacketCount {
        self.drops
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Element, LinkCounters};
    use polypath_base::Bytes;

    const PACKET: PacketMeta = PacketMeta { len: Bytes::new(1500), payload: true, df: true, ect: false, l4s: false, flow: 0 };

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn packets_pass_before_between_and_after_outages() {
        let mut down = Down::new(DownConfig { spans: vec![[at(10), at(20)], [at(30), at(31)]] }).unwrap();
        let passed: Vec<u64> = (0..40).filter(|&t| down.transit(at(t), PACKET) == Verdict::Pass(at(t))).collect();
        assert_eq!(passed, (0..10).chain(20..30).chain(31..40).collect::<Vec<_>>());
        let mut counters = LinkCounters::default();
        counters.add_element(&Element::Down(down));
        assert_eq!(counters, LinkCounters { down_drops: 11, ..LinkCounters::default() });
    }

    #[test]
    fn an_outage_that_nobody_saw_is_skipped() {
        let mut down = Down::new(DownConfig { spans: vec![[at(10), at(20)], [at(30), at(40)]] }).unwrap();
        assert_eq!(down.transit(at(25), PACKET), Verdict::Pass(at(25)));
        assert_eq!(down.transit(at(35), PACKET), Verdict::Drop(DropCause::Down));
    }

    #[test]
    fn overlapping_outages_are_refused() {
        assert!(Down::new(DownConfig { spans: vec![[at(10), at(20)], [at(15), at(40)]] }).is_err());
        assert!(Down::new(DownConfig { spans: vec![[at(10), at(10)]] }).is_err());
    }
}
