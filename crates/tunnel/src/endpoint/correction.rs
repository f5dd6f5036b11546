//! What an end does for forward error correction: it passes on which packets are a block and which
//! come back ([`crate::fec`]), and gives parities their paths.

use super::{Endpoint, Message, Spreader};
use crate::distribution::Distribution;
use crate::fec::{Blocks, FecConfig, FecCounters, Parity, Recoverer, Recovery};
use crate::reorder::Rule;
use polypath_base::{Bytes, Instant, Seq};
use std::collections::VecDeque;

/// Both halves of forward error correction.
#[derive(Debug)]
pub(super) struct Fec<P> {
    pub(super) blocks: Blocks,
    pub(super) recoverer: Recoverer<P>,
    /// Parities, of which packets wait for their path: a parity that came before its packets would
    /// be no more than a copy of one.
    parked: VecDeque<(Parity, Bytes, P)>,
}

impl<P> Fec<P> {
    /// None if the configuration is not sound.
    pub(super) fn new(config: FecConfig) -> Option<Self> {
        Some(Self { blocks: Blocks::new(config)?, recoverer: Recoverer::new(), parked: VecDeque::new() })
    }
}

impl<P> Endpoint<P> {
    /// A block of packets has ended: its parities are to be made of them, and handed over
    /// ([`Endpoint::handle_parity`]), before the next packet of the host is. To be asked after each
    /// packet and each timeout; none without [`crate::EndpointConfig::fec`]. What it says is the
    /// first parity; the others differ in their index.
    pub fn poll_block(&mut self) -> Option<Parity> {
        self.fec.as_mut()?.blocks.poll_block()
    }

    /// A parity of the block that has ended is to be sent, of so many bytes. False if it is
    /// dropped, because all paths are down.
    pub fn handle_parity(&mut self, now: Instant, parity: Parity, len: Bytes, payload: P) -> bool {
        let Some(fec) = &mut self.fec else { return false };
        if !self.up.contains(&true) {
            return false;
        }
        fec.parked.push_back((parity, len, payload));
        self.send_parities(now);
        true
    }

    /// Sends the parities of blocks whose packets have left.
    pub(super) fn send_parities(&mut self, now: Instant) {
        while let Some((parity, len, payload)) = self.next_parity() {
            self.send_parity(now, parity, len, payload);
        }
    }

    fn next_parity(&mut self) -> Option<(Parity, Bytes, P)> {
        let fec = self.fec.as_mut()?;
        let waits = |parity: &Parity| self.waiting.iter().flatten().any(|packet| parity.covers(packet.seq.get()));
        let place = fec.parked.iter().position(|(parity, ..)| !waits(parity))?;
        fec.parked.remove(place)
    }

    fn send_parity(&mut self, now: Instant, parity: Parity, len: Bytes, payload: P) {
        let Some(fec) = &mut self.fec else { return };
        let path = match &mut self.spreader {
            Spreader::Turns(turns) => turns.pick(0, &self.usable),
            Spreader::Flows(flows) => flows.pick(parity.first.wrapping_add(u32::from(parity.index)), &self.usable),
            // It does not wait and is not reported, so the model takes what parities leave for what
            // the path carries; and so does one of an end that knows no parities.
            Spreader::Earliest(earliest) => earliest.first(now, len, &self.usable),
        };
        let Some(path) = path else { return };
        fec.recoverer.counters.parities_sent += 1;
        self.to_send.push_back((path, Message::Parity { parity, payload }));
    }

    /// What parities can do now: the driver makes the missing packets, if any, and hands each over
    /// ([`Endpoint::handle_recovered`]). To be asked after each message.
    pub fn poll_recovery(&mut self) -> Option<Recovery<P>> {
        self.fec.as_mut()?.recoverer.poll_recovery()
    }

    /// Parities have brought back the packet with this number.
    pub fn handle_recovered(&mut self, now: Instant, seq: Seq, packet: P) {
        if let Some(fec) = &mut self.fec {
            fec.recoverer.counters.recovered += 1;
            self.reorder.handle_recovered(now, seq, packet);
        }
    }

    /// What forward error correction did; none without [`crate::EndpointConfig::fec`].
    pub fn fec_counters(&self) -> Option<FecCounters> {
        self.fec.as_ref().map(|fec| fec.recoverer.counters)
    }
}
