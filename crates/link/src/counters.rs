//! What is counted and sampled of a direction of a link.

use crate::{DropCategory, Element, LinkElement, QueueSample};

/// What the elements of a direction dropped and marked.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementCounters {
    /// Packets dropped for want of room in a queue, or by active queue management.
    pub queue_drops: u64,
    pub loss_drops: u64,
    pub mtu_drops: u64,
    pub down_drops: u64,
    /// Packets marked instead (ECN).
    pub ecn_marks: u64,
    /// The most packets that were ever in one of the queues.
    pub max_queue_packets: u64,
}

impl ElementCounters {
    /// Adds what an element has counted so far.
    pub fn add(&mut self, element: &Element) {
        let counter = match element.drop_category() {
            Some(DropCategory::Queue) => &mut self.queue_drops,
            Some(DropCategory::Loss) => &mut self.loss_drops,
            Some(DropCategory::Mtu) => &mut self.mtu_drops,
            Some(DropCategory::Down) => &mut self.down_drops,
            None => return,
        };
        *counter += element.drops().packets;
        self.ecn_marks += element.marks();
        self.max_queue_packets = self.max_queue_packets.max(element.queue().map_or(0, |queue| queue.longest()));
    }
}

/// Adds the samples of a further queue of the same direction, row by row; the first queue gives the rows.
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
