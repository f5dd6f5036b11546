//! One end of a tunnel: what comes from the host leaves on a path with a number, and what comes
//! from the network is put in order for the host.

mod correction;

use crate::distribution::{Distribution, FlowHash, WeightedTurns};
use crate::earliest::{Earliest, PathEstimate, Report};
use crate::fec::{FecConfig, Parity};
use crate::keepalive::{Keepalive, KeepaliveConfig};
use crate::path_mtu::{MtuConfig, PathMtus, Probe};
use crate::reorder::{Arrival, Reorder, ReorderConfig, ReorderCounters, Rule};
use correction::Fec;
use polypath_base::{Bytes, Instant, PathId, Seq, counters};
use std::collections::VecDeque;

/// How packets are spread over the paths.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Spreading {
    /// Packet by packet, by weight, as MPT, or so many packets a turn.
    Turns {
        /// Packets a turn, 1 to [`crate::MOST_BATCH`]; MPT has 1.
        batch: u32,
    },
    /// Flow by flow, by weight.
    Flows,
    /// Each packet on the path on which it arrives first, and no path gets more than it carries:
    /// see [`Earliest`]. Packets need numbers, and both ends send reports, which MPT does not know:
    /// [`ReorderConfig::Off`] and [`ReorderConfig::Mpt`] are refused beside it.
    Earliest,
}

/// A tunnel as both ends must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// By path its weight, 1 to 1000.
    pub weights: Vec<u32>,
    /// See [`Spreading`].
    pub spreading: Spreading,
    /// What the receiver does about the order. Packets carry numbers unless it is
    /// [`ReorderConfig::Off`].
    pub reorder: ReorderConfig,
    /// See [`KeepaliveConfig`].
    pub keepalive: KeepaliveConfig,
    /// How the tunnel's MTU is found; none: it is given. MPT does not answer probes:
    /// [`ReorderConfig::Mpt`] is refused beside it.
    pub mtu: Option<MtuConfig>,
    /// What brings lost packets back; none: nothing does. Packets need numbers, and MPT knows no
    /// parities: [`ReorderConfig::Off`] and [`ReorderConfig::Mpt`] are refused beside it.
    pub fec: Option<FecConfig>,
}

/// What travels between the ends, but for the headers around it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Message<P> {
    /// A packet of the host, with its number if packets carry one (RFC 2890).
    Data {
        /// The number.
        seq: Option<Seq>,
        /// The packet.
        packet: P,
    },
    /// A sign of life.
    Keepalive,
    /// A sign of life that tells what has come on its path.
    Report(Report),
    /// A probe of the path's MTU, or the answer to one.
    Probe(Probe),
    /// A parity of a block of packets, without a number of its own.
    Parity {
        /// Of which block.
        parity: Parity,
        /// What it is made of.
        payload: P,
    },
}

counters! {
    /// What passed a path of the tunnel.
    pub struct PathCounters {
        packets_sent: Packets, "packets of the host sent on the path";
        bytes_sent: Bytes, "their bytes, without the tunnel's headers";
        packets_received: Packets, "packets of the host that came on the path";
        bytes_received: Bytes, "their bytes, without the tunnel's headers";
        keepalives_sent: Packets, "keepalives sent, and reports";
        keepalives_received: Packets, "keepalives that came, and reports";
        went_down: Times, "times that the path went down for want of signs of life";
    }
}

/// One end of a tunnel, of packets of type `P`.
///
/// After any `handle_*`, ask [`Endpoint::poll_transmit`] and [`Endpoint::poll_deliver`] until they
/// return `None`, then [`Endpoint::poll_timeout`]. With [`EndpointConfig::fec`] ask
/// [`Endpoint::poll_block`] and [`Endpoint::poll_recovery`] before.
#[derive(Debug)]
pub struct Endpoint<P> {
    spreader: Spreader,
    /// The number of the next packet; none: packets carry no numbers.
    next: Option<Seq>,
    reorder: Reorder<P>,
    keepalive: Keepalive,
    up: Vec<bool>,
    /// The paths that packets may take: those that are up, carry the tunnel's least MTU and are not
    /// silent ([`Earliest::is_silent`]); if none is so, those that are wide, and then those that
    /// are up.
    usable: Vec<bool>,
    mtus: Option<PathMtus>,
    least_mtu: Bytes,
    fec: Option<Box<Fec<P>>>,
    paths: Vec<PathCounters>,
    to_send: VecDeque<(PathId, Message<P>)>,
    /// By path, packets that wait until it can carry them; none but with [`Spreading::Earliest`].
    waiting: Vec<VecDeque<Waiting<P>>>,
    /// Somebody has been told that there is no room, and waits.
    full: bool,
    /// Packets that no path could take.
    unsent: u64,
    /// Packets with a number where there should be none, or without.
    malformed: u64,
}

#[derive(Debug)]
enum Spreader {
    Turns(WeightedTurns),
    Flows(FlowHash),
    Earliest(Box<Earliest>),
}

/// A packet that has its number and its path, and waits for its turn.
#[derive(Debug)]
struct Waiting<P> {
    seq: Seq,
    len: Bytes,
    packet: P,
}

impl<P> Endpoint<P> {
    /// From `now` on; none if the configuration makes no sense (see the types of its fields).
    pub fn new(now: Instant, config: &EndpointConfig) -> Option<Self> {
        let paths = config.weights.len();
        let needs_more = config.spreading == Spreading::Earliest || config.fec.is_some();
        if needs_more && matches!(config.reorder, ReorderConfig::Off | ReorderConfig::Mpt { .. }) {
            return None;
        }
        let mut reorder = Reorder::new(config.reorder, paths)?;
        let fec = match config.fec {
            None => None,
            Some(fec) => {
                let both = Fec::new(fec)?;
                reorder.expect_parities(u32::from(fec.packets), fec.timeout);
                Some(Box::new(both))
            }
        };
        let mtus = match &config.mtu {
            None => None,
            Some(mtu) if mtu.paths.len() != paths || matches!(config.reorder, ReorderConfig::Mpt { .. }) => return None,
            Some(mtu) => Some(PathMtus::new(now, mtu)?),
        };
        Some(Self {
            spreader: match config.spreading {
                Spreading::Turns { batch } => Spreader::Turns(WeightedTurns::new(&config.weights, batch)?),
                Spreading::Flows => Spreader::Flows(FlowHash::new(&config.weights)?),
                Spreading::Earliest => Spreader::Earliest(Box::new(Earliest::new(now, &config.weights)?)),
            },
            next: (config.reorder != ReorderConfig::Off).then_some(Seq::new(0)),
            reorder,
            keepalive: Keepalive::new(now, paths, config.keepalive)?,
            up: vec![true; paths],
            usable: vec![true; paths],
            mtus,
            least_mtu: config.mtu.as_ref().map_or(Bytes::ZERO, |mtu| mtu.least),
            fec,
            paths: vec![PathCounters::default(); paths],
            to_send: VecDeque::new(),
            waiting: (0..paths).map(|_| VecDeque::new()).collect(),
            full: false,
            unsent: 0,
            malformed: 0,
        })
    }

    /// Both ends have sent so many packets before this run: the next one has this number and the
    /// turn behind theirs. To be called before anything else.
    pub fn begin_after(&mut self, packets: u32) {
        debug_assert!(self.paths.iter().all(|path| *path == PathCounters::default()), "nothing has passed the tunnel yet");
        for _ in 0..packets {
            match &mut self.spreader {
                Spreader::Turns(turns) => _ = turns.pick(0, &self.usable),
                Spreader::Earliest(earliest) => earliest.skip_turn(),
                Spreader::Flows(_) => break,
            }
        }
        let first = Seq::new(packets);
        self.next = self.next.map(|_| first);
        self.reorder.begin_at(first);
    }

    /// A packet of the host is to go through the tunnel; `flow_hash`: equal for packets of one
    /// flow. False if it is dropped, because all paths are down. Ask [`Endpoint::is_full`] before.
    pub fn handle_inner(&mut self, now: Instant, flow_hash: u32, len: Bytes, packet: P) -> bool {
        self.watch(now);
        let path = match &mut self.spreader {
            Spreader::Turns(turns) => turns.pick(flow_hash, &self.usable),
            Spreader::Flows(flows) => flows.pick(flow_hash, &self.usable),
            Spreader::Earliest(earliest) => earliest.pick(now, len, &self.usable),
        };
        let Some(path) = path else {
            self.unsent += 1;
            return false;
        };
        debug_assert!(self.usable[usize::from(path.0)], "a packet takes a path that it may take");
        let seq = self.next;
        self.next = seq.map(|seq| seq + 1);
        if let (Some(fec), Some(seq)) = (&mut self.fec, seq) {
            fec.blocks.on_packet(now, seq);
        }
        if let (Spreader::Earliest(_), Some(seq)) = (&self.spreader, seq) {
            self.waiting[usize::from(path.0)].push_back(Waiting { seq, len, packet });
            self.release(now);
            return true;
        }
        self.send(path, len, seq, packet);
        true
    }

    fn send(&mut self, path: PathId, len: Bytes, seq: Option<Seq>, packet: P) {
        debug_assert!(seq.is_some() == self.next.is_some(), "all packets carry numbers, or none does");
        let counters = &mut self.paths[usize::from(path.0)];
        counters.packets_sent += 1;
        counters.bytes_sent += len.get();
        self.to_send.push_back((path, Message::Data { seq, packet }));
    }

    /// Nothing is gained by taking another packet of the host now: leave it in the device, until
    /// [`Endpoint::poll_timeout`]. Never but with [`Spreading::Earliest`].
    pub fn is_full(&mut self, now: Instant) -> bool {
        if let Spreader::Earliest(earliest) = &self.spreader {
            self.full = earliest.is_full(now, &self.usable);
        }
        self.full
    }

    /// The longest packet of the host that every path passes that packets may take; none unless it
    /// is searched for ([`EndpointConfig::mtu`]).
    pub fn mtu(&self) -> Option<Bytes> {
        let mtus = self.mtus.as_ref()?;
        let usable = self.usable.iter().enumerate().filter(|&(_, &usable)| usable);
        let carried = usable.map(|(path, _)| mtus.inner_mtu(PathId(path as u8))).min();
        // While all paths are down it stays what the widest may carry.
        let carried = carried.or_else(|| (0..self.up.len()).map(|path| mtus.inner_mtu(PathId(path as u8))).max())?;
        Some(carried.max(self.least_mtu))
    }

    /// The longest packet that a path passes, with all headers, as far as it is known; none unless
    /// it is searched for. The second says whether the other end answers probes on the path:
    /// otherwise it is a guess.
    pub fn path_mtu(&self, path: PathId) -> Option<(Bytes, bool)> {
        self.mtus.as_ref().map(|mtus| (mtus.mtu(path), mtus.is_answered(path)))
    }

    /// The kernel has refused to send a probe, because it is longer than the path's own interface
    /// takes.
    pub fn handle_refused_probe(&mut self, now: Instant, path: PathId, probe: &Probe) {
        if let Some(mtus) = &mut self.mtus {
            mtus.handle_refused(now, path, probe);
            self.apply_mtus(now);
        }
    }

    /// A router says that the path passes `mtu` bytes. It may be forged, so it is no more than a
    /// hint.
    pub fn handle_mtu_hint(&mut self, path: PathId, mtu: Bytes) {
        if let Some(mtus) = &mut self.mtus {
            mtus.handle_hint(path, mtu);
        }
    }

    /// Whether the other end sends the reports that [`Spreading::Earliest`] needs; without them
    /// packets take turns by weight. None with another distribution.
    pub fn is_reported(&self) -> Option<bool> {
        match &self.spreader {
            Spreader::Earliest(earliest) => Some(earliest.is_answered()),
            Spreader::Turns(_) | Spreader::Flows(_) => None,
        }
    }

    /// What is known of a path; none but with [`Spreading::Earliest`].
    pub fn estimate(&self, now: Instant, path: PathId) -> Option<PathEstimate> {
        match &self.spreader {
            Spreader::Earliest(earliest) => earliest.estimate(now, path),
            Spreader::Turns(_) | Spreader::Flows(_) => None,
        }
    }

    /// Sends what has waited for its path, and the reports that are due.
    fn release(&mut self, now: Instant) {
        for number in 0..self.waiting.len() {
            let path = PathId(number as u8);
            loop {
                let Spreader::Earliest(earliest) = &mut self.spreader else { return };
                if self.waiting[number].is_empty() || earliest.due(path) > now {
                    break;
                }
                let Some(Waiting { seq, len, packet }) = self.waiting[number].pop_front() else { break };
                earliest.on_sent(now, path, seq, len);
                self.send(path, len, Some(seq), packet);
            }
            if let (Spreader::Earliest(earliest), true) = (&self.spreader, self.up[number]) {
                if earliest.report_due(path) <= now {
                    self.send_report(now, path);
                }
            }
        }
        self.send_parities(now);
    }

    /// A report, where both ends need them; a keepalive to an end that has sent none yet, because
    /// it may know keepalives alone.
    fn sign_of_life(&mut self, now: Instant, path: PathId) {
        let answered = matches!(&self.spreader, Spreader::Earliest(earliest) if earliest.is_answered());
        // First, so that nothing is in the way of the report.
        self.send_report(now, path);
        if !answered {
            self.paths[usize::from(path.0)].keepalives_sent += 1;
            self.to_send.push_back((path, Message::Keepalive));
        }
    }

    fn send_report(&mut self, now: Instant, path: PathId) {
        let Spreader::Earliest(earliest) = &mut self.spreader else { return };
        self.paths[usize::from(path.0)].keepalives_sent += 1;
        self.to_send.push_back((path, Message::Report(earliest.report(now, path))));
    }

    /// A message of the peer has come on a path. On a path that does not exist it is ignored: who
    /// knows the addresses has found the path.
    pub fn handle_outer(&mut self, now: Instant, path: PathId, len: Bytes, message: Message<P>) {
        self.handle_arrived(now, now, path, len, message);
    }

    /// The same of a message that came at `arrived`, a moment ago, and has been read now.
    pub fn handle_arrived(&mut self, now: Instant, arrived: Instant, path: PathId, len: Bytes, message: Message<P>) {
        debug_assert!(arrived <= now, "a message is read after it came");
        let Some(counters) = self.paths.get_mut(usize::from(path.0)) else { return };
        match message {
            Message::Keepalive => {
                counters.keepalives_received += 1;
                self.keepalive.handle_keepalive(now, path);
            }
            Message::Report(report) => {
                counters.keepalives_received += 1;
                self.keepalive.handle_keepalive(now, path);
                if let Spreader::Earliest(earliest) = &mut self.spreader {
                    // They come on every path while the tunnel is used, whatever path packets take.
                    self.keepalive.handle_progress(now, path);
                    earliest.on_report(now, arrived, path, &report);
                    self.watch(now);
                    self.release(now);
                }
            }
            Message::Probe(probe) => {
                self.keepalive.handle_data(now, path);
                if let Some(mtus) = &mut self.mtus {
                    mtus.handle_probe(now, path, probe);
                    self.apply_mtus(now);
                } else if !probe.is_answer {
                    // Who asks knows the answer's form, whatever this end does itself.
                    self.to_send.push_back((path, Message::Probe(Probe { is_answer: true, ..probe })));
                }
            }
            Message::Parity { parity, payload } => {
                self.keepalive.handle_data(now, path);
                if let Some(fec) = self.fec.as_mut().filter(|_| parity.is_sound()) {
                    fec.recoverer.on_parity(now, parity, payload);
                }
            }
            Message::Data { seq, packet } => {
                counters.packets_received += 1;
                counters.bytes_received += len.get();
                self.keepalive.handle_data(now, path);
                // Flows come and go, and each has one path: that one carries none says nothing.
                if !matches!(self.spreader, Spreader::Flows(_)) {
                    self.keepalive.handle_progress(now, path);
                }
                if let (Spreader::Earliest(earliest), Some(seq)) = (&mut self.spreader, seq) {
                    earliest.on_received(now, arrived, path, seq, len);
                    if earliest.report_due(path) <= now {
                        self.send_report(now, path);
                    }
                }
                if let (Some(fec), Some(seq)) = (&mut self.fec, seq) {
                    if !fec.recoverer.on_packet(now, seq) {
                        return self.apply_changes(now);
                    }
                }
                match (seq, self.next) {
                    (Some(seq), Some(_)) => self.reorder.handle_packet(now, Arrival { path, seq, packet }),
                    (None, None) => self.reorder.handle_packet(now, Arrival { path, seq: Seq::new(0), packet }),
                    _ => self.malformed += 1,
                }
            }
        }
        self.apply_changes(now);
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.keepalive.handle_timeout(now);
        while let Some(path) = self.keepalive.poll_keepalive() {
            self.sign_of_life(now, path);
        }
        if let Some(mtus) = &mut self.mtus {
            if mtus.poll_timeout() <= now {
                mtus.handle_timeout(now);
                self.apply_mtus(now);
            }
        }
        self.apply_changes(now);
        self.watch(now);
        self.full = false;
        self.release(now);
        if let Some(fec) = &mut self.fec {
            fec.blocks.handle_timeout(now);
        }
        if self.reorder.poll_timeout() <= now {
            self.reorder.handle_timeout(now);
        }
        debug_assert!(self.poll_timeout() > now, "what was due is done");
    }

    #[inline]
    fn apply_changes(&mut self, now: Instant) {
        while let Some(change) = self.keepalive.poll_change() {
            debug_assert!(self.up[usize::from(change.path.0)] != change.up, "a path goes from up to down and back");
            self.up[usize::from(change.path.0)] = change.up;
            self.paths[usize::from(change.path.0)].went_down += u64::from(!change.up);
            self.reorder.handle_path(now, change.path, change.up);
            self.choose_usable(now);
            if !change.up {
                self.move_waiting(now, change.path);
            }
        }
    }

    /// Sends what the search has to send, and leaves paths that turn out to be too narrow.
    fn apply_mtus(&mut self, now: Instant) {
        while let Some((path, probe)) = self.mtus.as_mut().and_then(PathMtus::poll_transmit) {
            self.to_send.push_back((path, Message::Probe(probe)));
        }
        self.choose_usable(now);
    }

    /// Leaves paths that have become silent, and takes them again when they are so no more.
    #[inline]
    fn watch(&mut self, now: Instant) {
        if let Spreader::Earliest(earliest) = &mut self.spreader {
            if earliest.watch(now) {
                self.choose_usable(now);
            }
        }
    }

    fn choose_usable(&mut self, now: Instant) {
        let is_wide = |path: PathId| self.mtus.as_ref().is_none_or(|mtus| mtus.inner_mtu(path) >= self.least_mtu);
        let is_silent = |path: PathId| matches!(&self.spreader, Spreader::Earliest(earliest) if earliest.is_silent(path));
        let mut usable = self.up.clone();
        let mut keep = |is_fit: &dyn Fn(PathId) -> bool| {
            let fit: Vec<bool> = usable.iter().enumerate().map(|(path, &usable)| usable && is_fit(PathId(path as u8))).collect();
            if fit.contains(&true) {
                usable = fit;
            }
        };
        keep(&is_wide);
        keep(&|path| !is_silent(path));
        if usable == self.usable {
            return;
        }
        let left: Vec<usize> = (0..usable.len()).filter(|&path| self.usable[path] && !usable[path]).collect();
        self.usable = usable;
        debug_assert!(self.usable.iter().zip(&self.up).all(|(usable, up)| *up || !usable), "no packet takes a path that is down");
        debug_assert_eq!(self.usable.contains(&true), self.up.contains(&true), "while a path is up, packets may take one");
        for path in left {
            self.move_waiting(now, PathId(path as u8));
        }
    }

    /// What waited for a path that is left takes other ones.
    #[cold]
    fn move_waiting(&mut self, now: Instant, path: PathId) {
        let Spreader::Earliest(earliest) = &mut self.spreader else { return };
        earliest.on_left(path);
        for packet in std::mem::take(&mut self.waiting[usize::from(path.0)]) {
            match earliest.pick(now, packet.len, &self.usable) {
                Some(other) => self.waiting[usize::from(other.0)].push_back(packet),
                None => self.unsent += 1,
            }
        }
        debug_assert!(self.waiting[usize::from(path.0)].is_empty(), "nothing waits for a path that is left");
        self.release(now);
    }

    /// The next message for the peer, and its path.
    pub fn poll_transmit(&mut self) -> Option<(PathId, Message<P>)> {
        self.to_send.pop_front()
    }

    /// The next packet for the host.
    pub fn poll_deliver(&mut self) -> Option<P> {
        self.reorder.poll_deliver()
    }

    /// When [`Endpoint::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        self.poll_send_timeout().min(self.poll_receive_timeout())
    }

    /// The part of [`Endpoint::poll_timeout`] that whoever sends packets waits for: when one that
    /// waits for its path may go, and when a block ends.
    pub fn poll_send_timeout(&self) -> Instant {
        let block = self.fec.as_ref().map_or(Instant::NEVER, |fec| fec.blocks.due());
        let Spreader::Earliest(earliest) = &self.spreader else { return block };
        let waits = |&path: &PathId| {
            let number = usize::from(path.0);
            self.full && self.usable[number] || !self.waiting[number].is_empty()
        };
        let due = |path: PathId| earliest.due(path).min(earliest.expiry(path));
        self.live().filter(waits).map(due).fold(block, Instant::min)
    }

    /// The other part, for whoever receives: signs of life, and packets that have waited long
    /// enough for earlier ones.
    pub fn poll_receive_timeout(&self) -> Instant {
        let mtus = self.mtus.as_ref().map_or(Instant::NEVER, PathMtus::poll_timeout);
        let due = self.keepalive.poll_timeout().min(self.reorder.poll_timeout()).min(mtus);
        let Spreader::Earliest(earliest) = &self.spreader else { return due };
        self.live().map(|path| earliest.report_due(path)).fold(due, Instant::min)
    }

    fn live(&self) -> impl Iterator<Item = PathId> {
        self.up.iter().enumerate().filter(|&(_, &up)| up).map(|(path, _)| PathId(path as u8))
    }

    /// By path: whether it is up, and what passed it.
    pub fn paths(&self) -> impl Iterator<Item = (bool, PathCounters)> {
        self.up.iter().copied().zip(self.paths.iter().copied())
    }

    /// What the reorder rule did.
    pub fn reorder_counters(&self) -> ReorderCounters {
        self.reorder.counters()
    }

    /// Packets of the host that were dropped because all paths were down.
    pub fn unsent_packets(&self) -> u64 {
        self.unsent
    }

    /// Packets that were dropped because they had a number where both ends agreed on none, or none
    /// where they agreed on one.
    pub fn malformed_packets(&self) -> u64 {
        self.malformed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::Duration;

    const LEN: Bytes = Bytes::new(1000);

    fn config(reorder: ReorderConfig) -> EndpointConfig {
        let keepalive =
            KeepaliveConfig { interval: Duration::from_secs(5), dead_time: Duration::from_secs(11), data_count: false, progress: false };
        EndpointConfig { weights: vec![10, 10], spreading: Spreading::Turns { batch: 1 }, reorder, keepalive, mtu: None, fec: None }
    }

    const PROGRESS: ReorderConfig = ReorderConfig::Progress { max_delay: Duration::from_millis(300), capacity: 1000 };
    const MPT: ReorderConfig = ReorderConfig::Mpt { window: 1600, max_delay: Duration::from_millis(300) };

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    /// Two ends, joined by paths that take so many milliseconds; none: what is sent on the path is
    /// lost.
    struct Net {
        ends: [Endpoint<u32>; 2],
        delays: [Option<u64>; 2],
        /// In flight: arrival, order of sending, receiver, path, message.
        flying: std::collections::BTreeMap<(Instant, u64), (usize, PathId, Message<u32>)>,
        sent: u64,
        delivered: [Vec<(u32, Instant)>; 2],
    }

    impl Net {
        fn new(config: &EndpointConfig, delays: [u64; 2]) -> Self {
            let end = || Endpoint::new(ms(0), config).expect("a sound configuration");
            Self {
                ends: [end(), end()],
                delays: delays.map(Some),
                flying: std::collections::BTreeMap::new(),
                sent: 0,
                delivered: [vec![], vec![]],
            }
        }

        fn drain(&mut self, now: Instant) {
            for number in 0..2 {
                while let Some((path, message)) = self.ends[number].poll_transmit() {
                    let Some(delay) = self.delays[usize::from(path.0)] else { continue };
                    self.flying.insert((now + Duration::from_millis(delay), self.sent), (1 - number, path, message));
                    self.sent += 1;
                }
                while let Some(packet) = self.ends[number].poll_deliver() {
                    self.delivered[number].push((packet, now));
                }
            }
        }

        /// Lets time pass.
        fn run(&mut self, until: Instant) {
            loop {
                let timeout = self.ends[0].poll_timeout().min(self.ends[1].poll_timeout());
                let arrival = self.flying.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
                let now = timeout.min(arrival);
                if now > until {
                    return;
                }
                if arrival <= timeout {
                    let (_, (to, path, message)) = self.flying.pop_first().expect("something is in flight");
                    self.ends[to].handle_outer(now, path, LEN, message);
                } else {
                    for end in self.ends.iter_mut().filter(|end| end.poll_timeout() <= now) {
                        end.handle_timeout(now);
                    }
                }
                self.drain(now);
            }
        }

        /// End 0 sends packets `numbers`, one a millisecond from `from` on.
        fn send(&mut self, from: u64, numbers: std::ops::Range<u32>) {
            for (at, number) in (from..).zip(numbers) {
                self.run(ms(at));
                self.ends[0].handle_inner(ms(at), 0, LEN, number);
                self.drain(ms(at));
            }
        }
    }

    #[test]
    fn packets_come_out_in_order_over_unequal_paths() {
        for reorder in [PROGRESS, MPT] {
            let mut net = Net::new(&config(reorder), [1, 41]);
            net.send(0, 0..500);
            net.run(ms(1000));
            assert!(net.delivered[1].iter().map(|&(packet, _)| packet).eq(0..500), "{reorder:?}");
            let sent: Vec<_> = net.ends[0].paths().map(|(up, path)| (up, path.packets_sent, path.bytes_sent)).collect();
            assert_eq!(sent, [(true, 250, 250_000); 2]);
            assert_eq!(net.ends[1].reorder_counters().delivered, 500);
        }
    }

    #[test]
    fn without_reordering_packets_carry_no_numbers() {
        let mut end = Endpoint::new(ms(0), &config(ReorderConfig::Off)).unwrap();
        end.handle_inner(ms(0), 0, LEN, 7);
        assert_eq!(end.poll_transmit(), Some((PathId(0), Message::Data { seq: None, packet: 7 })));
        end.handle_outer(ms(1), PathId(1), LEN, Message::Data { seq: Some(Seq::new(3)), packet: 8 });
        assert_eq!((end.poll_deliver(), end.malformed_packets()), (None, 1), "the peer counts, and we do not");
        end.handle_outer(ms(1), PathId(1), LEN, Message::Data { seq: None, packet: 9 });
        assert_eq!(end.poll_deliver(), Some(9));
    }

    #[test]
    fn a_dead_path_is_left_after_the_dead_time_and_used_again_when_it_speaks() {
        let mut net = Net::new(&config(PROGRESS), [1, 1]);
        net.run(ms(10_000));
        net.delays[1] = None;
        // The last keepalive came at 5.001 s, that of 10 s just before the cut at 10.001 s was in
        // flight already.
        net.run(ms(21_000));
        assert_eq!(net.ends[0].paths().map(|(up, _)| up).collect::<Vec<_>>(), [true, true]);
        net.run(ms(21_001));
        assert_eq!(net.ends[0].paths().map(|(up, _)| up).collect::<Vec<_>>(), [true, false]);
        net.send(21_100, 0..100);
        net.run(ms(21_300));
        assert!(net.delivered[1].iter().map(|&(packet, _)| packet).eq(0..100), "all on the other path");
        net.delays[1] = Some(1);
        net.run(ms(26_000));
        assert!(net.ends[0].paths().all(|(up, _)| up), "the peer's next keepalive came");
        assert_eq!(net.ends[0].paths().map(|(_, path)| path.went_down).collect::<Vec<_>>(), [0, 1]);
    }

    /// Both ends send a packet each millisecond from `from` to `to`.
    fn talk(net: &mut Net, from: u64, to: u64) {
        for at in from..to {
            net.run(ms(at));
            for end in &mut net.ends {
                end.handle_inner(ms(at), 0, LEN, at as u32);
            }
            net.drain(ms(at));
        }
    }

    #[test]
    fn a_path_that_dies_under_load_is_left_as_soon_as_the_other_shows_it() {
        let progress = KeepaliveConfig { progress: true, data_count: true, ..config(PROGRESS).keepalive };
        for spreading in [Spreading::Turns { batch: 1 }, Spreading::Turns { batch: 64 }, Spreading::Earliest] {
            let mut net = Net::new(&EndpointConfig { keepalive: progress, spreading, ..config(PROGRESS) }, [1, 20]);
            talk(&mut net, 0, 2000);
            let up = |net: &Net| net.ends.iter().map(|end| end.paths().map(|(up, _)| up).collect::<Vec<_>>()).collect::<Vec<_>>();
            assert_eq!(up(&net), [[true, true]; 2], "{spreading:?}");
            net.delays[1] = None;
            talk(&mut net, 2000, 3500);
            assert_eq!(up(&net), [[true, false]; 2], "{spreading:?}");
            // What was in flight, and what was sent until it was known.
            net.run(ms(3600));
            let came: std::collections::BTreeSet<u32> = net.delivered[1].iter().map(|&(packet, _)| packet).collect();
            let missing: Vec<u32> = (0..3500).filter(|packet| !came.contains(packet)).collect();
            assert!(missing.iter().all(|packet| (1979..3200).contains(packet)), "{spreading:?}: {missing:?}");
            // What it lost: half of all until a quarter of a second after its last packet; more
            // where it has longer pauses; `earliest` did not use it.
            let most = match spreading {
                Spreading::Turns { batch: 1 } => 140,
                Spreading::Turns { .. } => 560,
                _ => 0,
            };
            assert!(missing.len() <= most, "{spreading:?}: {}", missing.len());
            net.delays[1] = Some(20);
            talk(&mut net, 3600, 4500);
            assert_eq!(up(&net), [[true, true]; 2], "{spreading:?}: it is found again before the next keepalive is due");
        }
    }

    #[test]
    fn a_path_that_is_used_as_ever_is_never_left() {
        let progress = KeepaliveConfig { progress: true, data_count: true, ..config(PROGRESS).keepalive };
        for (weights, batch) in [(vec![1, 1], 1), (vec![100, 1], 1), (vec![1, 30], 40), (vec![1, 1], 1024)] {
            let settings = EndpointConfig { keepalive: progress, weights, spreading: Spreading::Turns { batch }, ..config(PROGRESS) };
            let mut net = Net::new(&settings, [1, 150]);
            talk(&mut net, 0, 20_000);
            for end in &net.ends {
                assert!(end.paths().all(|(_, path)| path.went_down == 0), "{settings:?}");
            }
        }
    }

    #[test]
    fn ends_that_have_sent_before_go_on_behind_it() {
        for reorder in [MPT, PROGRESS] {
            let mut ends = [(); 2].map(|()| Endpoint::new(ms(0), &config(reorder)).unwrap());
            ends.iter_mut().for_each(|end| end.begin_after(3));
            ends[0].handle_inner(ms(0), 0, LEN, 7_u32);
            let (path, message) = ends[0].poll_transmit().unwrap();
            assert_eq!((path, message), (PathId(1), Message::Data { seq: Some(Seq::new(3)), packet: 7 }));
            ends[1].handle_outer(ms(1), path, LEN, message);
            assert_eq!(ends[1].poll_deliver(), Some(7), "nothing is waited for");
        }
    }

    #[test]
    fn with_all_paths_down_packets_are_dropped_and_counted() {
        let mut end = Endpoint::new(ms(0), &config(PROGRESS)).unwrap();
        end.handle_timeout(ms(11_000));
        end.handle_inner(ms(0), 0, LEN, 1);
        assert_eq!(end.unsent_packets(), 1);
    }
}
