//! What is counted and sampled of a direction of a link. A counter is one line here and the line
//! that counts it.
//!
//! A new counter is a line in `counters!` and its line in `add_element`. `_passed` in
//! `python/polypath/engines/_measure.py` says what the engine linux knows of it. The rest is as for
//! a counter of `crates/transport/src/counters.rs`.

use crate::{DropCategory, Element, LinkElement, QueueSample};
use polypath_base::{Column, counters};
use serde::{Serialize, Serializer};

counters! {
    /// What passed a direction of a link since the start, and what its elements did with the rest.
    pub struct LinkCounters {
        packets: Packets, "packets that came out at the other end";
        bytes: Bytes, "their bytes, IP headers included";
        queue_drops: Packets, "packets dropped for want of room in a queue, by active queue management, or by a policer";
        loss_drops: Packets, "packets that were lost on the link";
        mtu_drops: Packets, "packets that an MTU let not pass";
        down_drops: Packets, "packets that came while the link was down";
        ecn_marks: Packets, "packets that a managed queue marked instead of dropping them (Congestion Experienced, RFC 3168)";
        max_queue_packets: Packets, "longest that one of the queues ever was";
    }
}

impl LinkCounters {
    /// Adds what an element has dropped and marked so far.
    pub fn add_element(&mut self, element: &Element) {
        let counter = match element.drop_category() {
            Some(DropCategory::Queue) => &mut self.queue_drops,
            Some(DropCategory::Loss) => &mut self.loss_drops,
            Some(DropCategory::Mtu) => &mut self.mtu_drops,
            Some(DropCategory::Down) => &mut self.down_drops,
            None => return,
        };
        *counter += element.drops().packets;
        self.ecn_marks += element.marks();
        self.max_queue_packets = self.max_queue_packets.max(element.queue().map_or(0, super::link_element::SampledQueue::longest));
    }
}

impl Serialize for LinkCounters {
    /// By the engines' names, to be flattened into what says which direction it is.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Self::COLUMNS.iter().map(Column::raw).zip(self.values()))
    }
}

/// Adds the samples of a further queue of the same direction, row by row; the first queue gives the
/// rows.
pub fn add_samples(sums: &mut Vec<QueueSample>, samples: &[QueueSample]) {
    if sums.is_empty() {
        sums.extend_from_slice(samples);
        return;
    }
    for (sum, sample) in sums.iter_mut().zip(samples) {
        sum.packets += sample.packets;
        sum.bytes += sample.bytes;
        sum.drops += sample.drops;
    }
}
