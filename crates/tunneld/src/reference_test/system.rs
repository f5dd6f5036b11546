//! Two ends and the network between them, in virtual time.

use super::end::{Datagram, End, IP_AND_UDP, number};
use super::reference::Reference;
use super::{Forgery, GIVEN_MTU, LONGEST_WAIT, PASSES, Setup, Transition};
use crate::encapsulation::Refusal;
use crate::encryption::{Key, Keys, Peer};
use polypath_base::{Duration, Instant};
use polypath_tunnel::ReorderConfig;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

#[derive(Copy, Clone, Debug)]
enum Fate {
    Lost,
    Twice(Duration),
    Late(Duration),
}

struct Path {
    alive: bool,
    delay: Duration,
    passes: u64,
    /// Of the next datagrams, by sender.
    fates: [VecDeque<Fate>; 2],
}

struct Flying {
    to: usize,
    from: SocketAddr,
    datagram: Datagram,
    is_copy: bool,
}

pub(super) struct System {
    setup: Setup,
    now: Instant,
    ends: [End; 2],
    /// By end; none: the tunnel is not encrypted.
    keys: Option<[Keys; 2]>,
    paths: Vec<Path>,
    /// By time of arrival and order of sending.
    flying: BTreeMap<(Instant, u64), Flying>,
    sent: u64,
    reference: Reference,
    /// By sender, the packets of its host by number.
    packets: [BTreeMap<u32, Vec<u8>>; 2],
    next_packet: u32,
    /// Copies of a packet that the network made.
    copies: BTreeMap<u32, u32>,
    /// By receiver, how often each packet was delivered.
    delivered: [BTreeMap<u32, u32>; 2],
    /// By receiver, when each packet came that it has not delivered yet.
    came: [BTreeMap<u32, Instant>; 2],
    /// What has come, with its receiver and path.
    history: Vec<(usize, usize, Vec<u8>)>,
    restarts: u32,
    /// What was wrong first.
    fault: Option<String>,
}

/// Kinds of datagrams, as the head of `encryption` has them.
const INITIATION: u8 = 0x41;
const DATA: u8 = 0x44;

/// Where an end is on a path; the first of its addresses is the one in the other end's file.
fn address(end: usize, path: usize, number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, end as u8 + 2, path as u8 * 64 + number], 23456))
}

fn attacker() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 66], 23456))
}

impl System {
    pub(super) fn new(setup: &Setup) -> Self {
        let keys = setup.encrypted.then(|| {
            let private = [(); 2].map(|()| Key::generate().expect("the machine has random numbers"));
            [0, 1].map(|end| Keys { private: private[end].clone(), peer: private[1 - end].public(), preshared: Keys::NO_PRESHARED })
        });
        let paths = setup.delays_ms.iter().map(|&ms| Path {
            alive: true,
            delay: Duration::from_millis(ms),
            passes: PASSES,
            fates: Default::default(),
        });
        let files = |end: usize| (0..setup.paths()).map(|path| address(end, path, 0)).collect::<Vec<_>>();
        let end = |end: usize| End::new(setup, Instant::ZERO, keys.as_ref().map(|keys| keys[end].clone()), files(end), files(1 - end));
        Self {
            ends: [end(0), end(1)],
            setup: setup.clone(),
            now: Instant::ZERO,
            keys,
            paths: paths.collect(),
            flying: BTreeMap::new(),
            sent: 0,
            reference: Reference::new(setup, PASSES),
            packets: Default::default(),
            next_packet: 0,
            copies: BTreeMap::new(),
            delivered: Default::default(),
            came: Default::default(),
            history: Vec::new(),
            restarts: 0,
            fault: None,
        }
    }

    pub(super) fn apply(&mut self, transition: &Transition) {
        let (now, paths) = (self.now, self.paths.len());
        match *transition {
            Transition::Send { from, packets, longest } => self.send(from, packets, longest),
            Transition::Lose { path, from, datagrams } => self.trouble(path % paths, from, datagrams, Fate::Lost),
            Transition::Duplicate { path, from, later_ms } => {
                self.trouble(path % paths, from, 1, Fate::Twice(Duration::from_millis(later_ms)));
            }
            Transition::Delay { path, from, datagrams, later_ms } => {
                self.trouble(path % paths, from, datagrams, Fate::Late(Duration::from_millis(later_ms)));
            }
            Transition::Kill(path) => self.set_alive(path % paths, false),
            Transition::Revive(path) => self.set_alive(path % paths, true),
            Transition::Narrow { path, to } => {
                let path = path % paths;
                self.paths[path].passes = self.paths[path].passes.min(to);
                self.reference.on_narrowed(now, path, self.paths[path].passes);
            }
            Transition::Restart(end) => {
                let keys = self.keys.as_ref().map(|keys| keys[end].clone());
                let remotes = (0..paths).map(|path| address(1 - end, path, 0)).collect();
                self.ends[end] = End::new(&self.setup, now, keys, self.ends[end].addresses.clone(), remotes);
                self.came[end].clear();
                self.restarts += 1;
                self.reference.on_restart(now, end);
            }
            // Without encryption an end is where the other's file says, and nowhere else.
            Transition::Roam(_) if !self.setup.encrypted => {}
            Transition::Roam(path) => {
                let path = path % paths;
                let SocketAddr::V4(here) = self.ends[0].addresses[path] else { return };
                let number = (here.ip().octets()[3] + 1) % 64;
                self.ends[0].addresses[path] = address(0, path, number);
                self.reference.on_roam(now, path);
            }
            Transition::Forge { to, path, kind } => self.forge(to, path % paths, kind),
            Transition::Pass { seconds } => self.run(now + Duration::from_secs(seconds)),
        }
        self.drain();
    }

    /// A packet each millisecond; and then what is under way arrives.
    fn send(&mut self, from: usize, packets: u32, longest: bool) {
        let mtu = self.ends[from].mtu().unwrap_or(GIVEN_MTU);
        let promised = if longest { self.reference.carries_longest(self.now) } else { self.reference.carries(self.now) };
        self.reference.on_send(self.now);
        let first = self.next_packet;
        for _ in 0..packets {
            let number = self.next_packet;
            self.next_packet += 1;
            let mut packet = vec![number as u8; if longest { mtu as usize } else { 100 }];
            packet[0] = 0x45;
            packet[20..24].copy_from_slice(&number.to_be_bytes());
            self.packets[from].insert(number, packet.clone());
            self.ends[from].send(self.now, number, packet);
            self.drain();
            self.run(self.now + Duration::from_millis(1));
        }
        self.run(self.now + Duration::from_secs(2));
        let lost: Vec<u32> = (first..self.next_packet).filter(|packet| !self.delivered[1 - from].contains_key(packet)).collect();
        if promised && !lost.is_empty() {
            self.note(format!("of {packets} packets from end {from} {lost:?} did not arrive: {:?}", self.reference));
        }
    }

    fn trouble(&mut self, path: usize, from: usize, datagrams: usize, fate: Fate) {
        self.paths[path].fates[from].extend(std::iter::repeat_n(fate, datagrams));
        self.reference.on_trouble(self.now, path, matches!(fate, Fate::Lost | Fate::Late(_)));
    }

    fn set_alive(&mut self, path: usize, alive: bool) {
        self.paths[path].alive = alive;
        self.reference.on_alive(self.now, path, alive);
    }

    fn forge(&mut self, to: usize, path: usize, kind: Forgery) {
        let old = self.history.iter().rev().filter(|(end, on, _)| (*end, *on) == (to, path)).nth(2);
        let (from, bytes) = match (kind, old) {
            (Forgery::Foreign, _) => {
                let foreign = self.keys.as_ref().map(|keys| {
                    let private = Key::generate().expect("the machine has random numbers");
                    Keys { private, peer: keys[to].private.public(), preshared: Keys::NO_PRESHARED }
                });
                let Some(keys) = foreign else {
                    // Without encryption, what the other end would send.
                    let packet = vec![0x45; 100];
                    let mut bytes = vec![0; self.setup.form().header_len()];
                    self.setup.form().emit(
                        (self.setup.reorder != ReorderConfig::Off).then_some(polypath_base::Seq::new(0)),
                        0x45,
                        &mut bytes,
                    );
                    bytes.extend(packet);
                    return self.expect_refused(to, path, attacker(), &bytes);
                };
                let mut peer = Peer::new(keys, self.paths.len(), Key::random().expect("the machine has random numbers"));
                peer.handle_timeout(self.now, self.now.as_nanos() + 1);
                let Some((_, initiation)) = peer.poll_transmit() else { return };
                (attacker(), initiation)
            }
            (Forgery::Replayed, Some((_, _, bytes))) => (attacker(), bytes.clone()),
            (Forgery::Changed, Some((_, _, bytes))) => {
                let mut bytes = bytes.clone();
                let place = self.now.as_nanos() as usize / 1000 % bytes.len();
                bytes[place] ^= 1;
                // Without encryption nothing but the address tells.
                (if self.setup.encrypted { self.ends[1 - to].addresses[path] } else { attacker() }, bytes)
            }
            (_, None) => return,
        };
        self.expect_refused(to, path, from, &bytes);
    }

    fn expect_refused(&mut self, to: usize, path: usize, from: SocketAddr, bytes: &[u8]) {
        let taken = self.ends[to].take(self.now, path, from, bytes);
        // An end that started again does not know the initiations of before; what follows of one
        // nobody can use.
        if taken.is_ok() && !(self.restarts > 0 && bytes[0] == INITIATION) {
            self.note(format!("end {to} took a forged datagram on path {path}: {bytes:?}"));
        }
    }

    fn note(&mut self, fault: String) {
        let now = self.now;
        self.fault.get_or_insert_with(|| format!("at {now:?}: {fault}"));
    }

    /// Lets time pass.
    fn run(&mut self, until: Instant) {
        for _ in 0..1_000_000 {
            self.drain();
            let timeout = self.ends[0].poll_timeout().min(self.ends[1].poll_timeout());
            let arrival = self.flying.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
            if timeout.min(arrival) > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(timeout.min(arrival));
            if arrival <= timeout {
                if let Some((_, flying)) = self.flying.pop_first() {
                    self.arrive(flying);
                }
            } else {
                for end in self.ends.iter_mut().filter(|end| end.poll_timeout() <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
        }
        self.note("the ends come to no rest".to_owned());
    }

    fn arrive(&mut self, flying: Flying) {
        let Flying { to, from, datagram: Datagram { path, to: destination, bytes, carries }, is_copy } = flying;
        if self.ends[to].addresses[path] != destination {
            return;
        }
        match self.ends[to].take(self.now, path, from, &bytes) {
            Ok(()) => {
                // Parities may have brought it before.
                if let Some(packet) = carries.filter(|packet| !self.delivered[to].contains_key(packet)) {
                    self.came[to].entry(packet).or_insert(self.now);
                }
            }
            Err(refusal) => {
                let is_handshake = self.setup.encrypted && bytes[0] != DATA;
                let fits = match refusal {
                    Refusal::Replayed => is_copy || is_handshake,
                    Refusal::NoSession => is_handshake || !self.reference.has_session(self.now),
                    _ => false,
                };
                if !fits {
                    self.note(format!("end {to} refused a datagram of the other's on path {path}: {refusal:?}"));
                }
            }
        }
        self.history.push((to, path, bytes));
    }

    /// What leaves the ends enters the network, and what they deliver is looked at.
    fn drain(&mut self) {
        for end in [0, 1] {
            for datagram in self.ends[end].drain(self.now) {
                self.enter(end, datagram);
            }
            for packet in std::mem::take(&mut self.ends[end].delivered) {
                self.deliver(end, &packet);
            }
        }
    }

    fn enter(&mut self, end: usize, datagram: Datagram) {
        let path = &mut self.paths[datagram.path];
        let fate = path.fates[end].pop_front();
        if fate.is_some() {
            self.reference.on_trouble(self.now, datagram.path, !matches!(fate, Some(Fate::Twice(_))));
        }
        if !path.alive || datagram.bytes.len() + IP_AND_UDP > path.passes as usize {
            return;
        }
        let arrival = self.now + path.delay;
        let (arrival, again) = match fate {
            Some(Fate::Lost) => return,
            Some(Fate::Late(later)) => (arrival + later, None),
            Some(Fate::Twice(later)) => (arrival, Some(arrival + later)),
            None => (arrival, None),
        };
        let from = self.ends[end].addresses[datagram.path];
        let copy = again.map(|again| {
            let copy = Datagram { path: datagram.path, to: datagram.to, bytes: datagram.bytes.clone(), carries: None };
            *self.copies.entry(datagram.carries.unwrap_or(u32::MAX)).or_default() += 1;
            (again, Flying { to: 1 - end, from, datagram: copy, is_copy: true })
        });
        let original = (arrival, Flying { to: 1 - end, from, datagram, is_copy: false });
        for (at, flying) in std::iter::once(original).chain(copy) {
            self.sent += 1;
            self.flying.insert((at, self.sent), flying);
        }
    }

    fn deliver(&mut self, end: usize, packet: &[u8]) {
        let number = number(packet);
        if self.packets[1 - end].get(&number).is_none_or(|sent| sent != packet) {
            self.note(format!("end {end} delivered what nobody sent: {packet:?}"));
            return;
        }
        self.came[end].remove(&number);
        // Encryption alone drops what has come before: `mpt` takes a low number for a peer's new
        // start.
        let most = 1 + if self.setup.encrypted { 0 } else { self.copies.get(&number).copied().unwrap_or(0) };
        let count = self.delivered[end].entry(number).or_default();
        *count += 1;
        if *count > most {
            let count = *count;
            self.note(format!("end {end} delivered packet {number} {count} times"));
        }
    }

    pub(super) fn check(&mut self) -> Result<(), TestCaseError> {
        prop_assert!(self.fault.is_none(), "{}", self.fault.as_deref().unwrap_or_default());
        for (number, end) in self.ends.iter().enumerate() {
            if !matches!(self.setup.reorder, ReorderConfig::Mpt { .. }) {
                let late = |&at: &Instant| self.now.since(at) > LONGEST_WAIT + Duration::from_millis(1);
                let held: Vec<_> = self.came[number].iter().filter(|(_, at)| late(at)).collect();
                prop_assert!(held.is_empty(), "end {number} at {:?} still holds {held:?}", self.now);
            }
            for (path, up) in end.up().into_iter().enumerate() {
                let expected = self.reference.is_up(self.now, path);
                let right = expected.is_none_or(|expected| expected == up);
                prop_assert!(right, "end {number} at {:?}: path {path} is up: {up}; {:?}", self.now, self.reference);
                if let (Some(found), Some(right)) = (end.path_mtu(path), self.reference.path_mtu(self.now, path)) {
                    let now = self.now;
                    prop_assert!(right.contains(&found), "end {number} at {now:?}: path {path} passes {right:?}, found {found}");
                }
            }
        }
        Ok(())
    }
}
