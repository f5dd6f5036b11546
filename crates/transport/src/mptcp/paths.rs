//! Which path leads to which subflow, and how subflows and addresses come and go: what a
//! [`PathManager`] asks for is done here.

use super::path_manager::{AddressSet, NewSubflow, PathManager, Policy, SubflowAddresses, View};
use super::{Connection, EndedByPeer, INITIAL, Interface, Phase};
use crate::stack::{MetaRetransmission, MptcpVersion};
use crate::tcp::{RouteMtu, State};
use crate::timer_wheel::{SetBy, fires_after};
use polypath_base::{Bytes, Duration, Instant, PathId};
use polypath_sched::MAX_SUBFLOWS;
use polypath_wire::Inline;
use polypath_wire::mptcp::{Announcement, Repr};
use std::net::IpAddr;

/// Which path leads to which subflow, and what the path manager has yet to do.
#[derive(Debug)]
pub(super) struct Paths {
    manager: PathManager,
    interfaces: Vec<Interface>,
    path_mtus: Vec<(PathId, Bytes)>,
    is_client: bool,
    /// Subflow by path; `NONE`, or no entry, if there is none.
    by_path: Vec<u8>,
    next_path: u8,
    /// Server addresses that were announced.
    announced: AddressSet,
    /// The announcement that the client has not echoed yet.
    unanswered: Option<Unanswered>,
    /// The path manager has begun.
    started: bool,
    /// When an own address goes away.
    timer: Instant,
    /// Own addresses that have not gone away.
    local: AddressSet,
}

/// An announcement that may have been lost.
#[derive(Copy, Clone, Debug)]
struct Unanswered {
    address_id: u8,
    /// When it is made again, and how often it was.
    due: Instant,
    repetitions: u32,
}

/// Most repetitions of an announcement (Linux: `ADD_ADDR_RETRANS_MAX`).
const MOST_REPETITIONS: u32 = 3;

const NONE: u8 = u8::MAX;

impl Paths {
    pub(super) fn new(manager: PathManager, interfaces: Vec<Interface>, is_client: bool) -> Self {
        let local = AddressSet::below(interfaces.len());
        Self {
            manager,
            interfaces,
            path_mtus: Vec::new(),
            is_client,
            by_path: Vec::new(),
            next_path: 1,
            announced: AddressSet::below(1),
            unanswered: None,
            started: false,
            timer: Instant::NEVER,
            local,
        }
    }

    #[inline]
    pub(super) fn subflow(&self, path: PathId) -> Option<usize> {
        let &i = self.by_path.get(usize::from(path.0))?;
        (i != NONE).then_some(usize::from(i))
    }

    pub(super) fn register(&mut self, path: PathId, subflow: usize) {
        debug_assert!(self.subflow(path).is_none() && subflow < MAX_SUBFLOWS, "a path leads to one subflow");
        let path = usize::from(path.0);
        if self.by_path.len() <= path {
            self.by_path.resize(path + 1, NONE);
        }
        self.by_path[path] = subflow as u8;
    }

    pub(super) fn set_mtu(&mut self, path: PathId, mtu: Bytes) {
        self.path_mtus.push((path, mtu));
    }

    pub(super) fn mtu(&self, path: PathId, local: u8) -> Bytes {
        let told = self.path_mtus.iter().rev().find(|(p, _)| *p == path).map(|(_, mtu)| *mtu);
        let interface = || self.interfaces.get(usize::from(local)).or(self.interfaces.first());
        told.or_else(|| interface().map(|interface| interface.mtu)).unwrap_or(Bytes::new(1500))
    }

    #[inline]
    pub(super) fn timer_due(&self) -> Instant {
        self.unanswered.map_or(self.timer, |announcement| self.timer.min(announcement.due))
    }

    /// The connection ends: no address matters any more.
    pub(super) fn stop_announcing(&mut self) {
        self.unanswered = None;
    }
}

impl Connection {
    /// A subflow's handshake is complete.
    pub(super) fn on_confirmed(&mut self, now: Instant, i: usize) {
        self.work.touch(i);
        self.sync_sndbuf_with(i);
        if i != INITIAL || self.paths.started || self.phase != Phase::Established {
            return;
        }
        debug_assert!(self.paths.unanswered.is_none(), "nothing was announced before");
        self.paths.started = true;
        if self.paths.is_client {
            self.create_subflows(now);
            self.arm_path_timer();
        } else {
            self.announce_next(now, INITIAL);
        }
    }

    /// What the host has learnt of the route of a path, if anything.
    pub fn route_mtu(&self, path: PathId) -> Option<RouteMtu> {
        self.subflows[self.paths.subflow(path)?].socket.route_mtu()
    }

    /// The host has learnt something of the route of a path by another connection.
    pub fn set_route_mtu(&mut self, now: Instant, path: PathId, learnt: RouteMtu) {
        if let Some(i) = self.paths.subflow(path) {
            self.subflows[i].socket.set_route_mtu(now, learnt);
            self.work.mark(i);
        }
    }

    /// Asks for a segment without data on a subflow that carries the option.
    fn send_option(&mut self, i: usize, option: &Repr) {
        let subflow = &mut self.subflows[i];
        subflow.waiting_options.push(option);
        subflow.socket.request_ack();
        self.work.mark(i);
    }

    /// Tells the client on a subflow of the next address that it does not know, if there is one.
    pub(super) fn announce_next(&mut self, now: Instant, i: usize) {
        self.paths.unanswered = None;
        debug_assert!(!self.paths.is_client, "the server tells of its addresses");
        let Some((address_id, address)) = self.next_announcement() else { return };
        if self.version() == MptcpVersion::V0 {
            // RFC 6824 section 3.4.1: nothing answers.
            self.paths.announced.insert(address_id);
        } else {
            let due = self.announce_again_at(now, 0, SetBy::Event);
            self.paths.unanswered = Some(Unanswered { address_id, due, repetitions: 0 });
        }
        self.announce(i, address_id, address);
    }

    fn announce(&mut self, i: usize, address_id: u8, address: IpAddr) {
        let announcement = match self.version() {
            MptcpVersion::V0 => Announcement::V0,
            // RFC 8684 section 3.4.1: the code is that of who announces.
            MptcpVersion::V1 => {
                Announcement::Authenticated { hmac: self.version().address_hmac(self.local_key, self.remote_key, address_id, address, 0) }
            }
        };
        self.send_option(i, &Repr::AddAddr { announcement, address_id, address, port: None });
    }

    /// The client has not echoed an announcement in time: it is made again, or the next address
    /// gets its turn.
    fn announce_again(&mut self, now: Instant) {
        let Some(mut unanswered) = self.paths.unanswered.filter(|announcement| announcement.due <= now) else { return };
        self.paths.unanswered = None;
        let Some(i) = (0..self.subflows.len()).find(|&i| self.is_usable(i)) else { return };
        if unanswered.repetitions == MOST_REPETITIONS {
            self.paths.announced.insert(unanswered.address_id);
            self.announce_next(now, i);
            return;
        }
        debug_assert!(unanswered.repetitions < MOST_REPETITIONS, "an announcement is made so often");
        unanswered.repetitions += 1;
        unanswered.due = self.announce_again_at(now, unanswered.repetitions, SetBy::Timer);
        self.paths.unanswered = Some(unanswered);
        let address = self.paths.interfaces[usize::from(unanswered.address_id)].address;
        self.announce(i, unanswered.address_id, address);
    }

    /// When an announcement of now is made again, after so many repetitions (Linux:
    /// `mptcp_get_add_addr_timeout`).
    fn announce_again_at(&self, now: Instant, repetitions: u32, by: SetBy) -> Instant {
        let mut timeout = self.settings.add_addr_timeout;
        if timeout == Duration::ZERO {
            return Instant::NEVER;
        }
        if self.settings.stack.add_addr_waits_rto {
            let rto = |i: usize| self.subflows[i].socket.tx.retransmission_timeout();
            let longest = (0..self.subflows.len()).filter(|&i| self.is_usable(i)).map(rto).max();
            timeout = longest.map_or(timeout, |rto| rto.min(timeout)) * (1 << repetitions);
        }
        fires_after(now, timeout, self.settings.tick, by)
    }

    /// The server's next address that the client does not know.
    fn next_announcement(&self) -> Option<(u8, IpAddr)> {
        let others = (0..=u8::MAX).zip(&self.paths.interfaces).skip(1);
        others.map(|(id, interface)| (id, interface.address)).find(|&(id, _)| !self.paths.announced.has(id))
    }

    /// Opens what the path manager wants and is not there yet.
    fn create_subflows(&mut self, now: Instant) {
        self.create_subflows_to(now, self.paths.announced, None);
    }

    /// As [`Connection::create_subflows`], to these addresses of the server alone, of which one may
    /// have been `heard` of just now.
    fn create_subflows_to(&mut self, now: Instant, remote: AddressSet, heard: Option<u8>) {
        while !self.is_full()
            && let Some(new) = self.next_subflow(remote, heard).filter(|new| remote.has(new.remote))
        {
            self.join(now, new);
        }
    }

    fn next_subflow(&self, remote: AddressSet, heard: Option<u8>) -> Option<NewSubflow> {
        let addresses =
            self.subflows.iter().map(|s| SubflowAddresses { local: s.local, remote: s.remote, withdrawn: s.withdrawn, closed: s.closed });
        let subflows: Vec<_> = addresses.collect();
        self.paths.manager.next_subflow(&View { local: self.paths.local, remote, heard, subflows: &subflows })
    }

    /// The connection has all the subflows that it can have: those that are gone make room for
    /// others, until there have been as many as it can keep record of.
    pub(super) fn is_full(&self) -> bool {
        let living = self.subflows.iter().filter(|s| !s.closed).count();
        living >= self.settings.stack.max_subflows || self.subflows.len() >= MAX_SUBFLOWS
    }

    fn join(&mut self, now: Instant, new: NewSubflow) {
        debug_assert!(self.paths.is_client && !self.is_full(), "the client opens what there is room for");
        let path = PathId(self.paths.next_path);
        self.paths.next_path += 1;
        let i = self.add_socket(path, new.local, new.remote, true);
        self.subflows[i].backup = new.backup;
        self.subflows[i].socket.open(now);
        self.work.mark(i);
    }

    /// RFC 8684 section 3.4.1: the peer has another address, or has heard of ours.
    #[cold]
    pub(super) fn on_add_addr(
        &mut self,
        now: Instant,
        i: usize,
        announcement: Announcement,
        address_id: u8,
        address: IpAddr,
        port: Option<u16>,
    ) {
        if announcement == Announcement::Echo {
            // An echo of something else answers nothing.
            if self.paths.unanswered.is_some_and(|announcement| announcement.address_id == address_id) {
                self.paths.announced.insert(address_id);
                self.announce_next(now, i);
            }
            return;
        }
        let version = self.version();
        let is_authentic = match announcement {
            Announcement::Authenticated { hmac } => {
                hmac == version.address_hmac(self.remote_key, self.local_key, address_id, address, port.unwrap_or(0))
            }
            _ => version == MptcpVersion::V0,
        };
        if !is_authentic {
            self.subflows[i].socket.note_rejected_option();
            return;
        }
        if version == MptcpVersion::V1 {
            self.send_option(i, &Repr::AddAddr { announcement: Announcement::Echo, address_id, address, port });
        }
        if self.paths.is_client && !self.paths.announced.has(address_id) {
            self.paths.announced.insert(address_id);
            let mut remote = self.paths.announced;
            if version == MptcpVersion::V1 && !self.paths.started {
                // This announcement ends the handshake: the subflows to its address are opened before
                // all others (Linux: `mptcp_pm_nl_work`).
                remote = AddressSet::default();
                remote.insert(address_id);
            }
            self.create_subflows_to(now, remote, Some(address_id));
        }
    }

    /// RFC 8684 section 3.4.2: an address of the peer is gone, and every subflow from it.
    #[cold]
    pub(super) fn on_remove_addr(&mut self, now: Instant, address_id: u8) {
        if self.paths.is_client {
            self.paths.announced.remove(address_id);
        }
        for i in 0..self.subflows.len() {
            if self.subflows[i].remote == address_id && !self.subflows[i].closed {
                self.subflows[i].withdrawn = true;
                self.close_subflow(now, i);
            }
        }
    }

    /// The next own address that goes away, and when.
    fn next_removal(&self) -> Option<(Instant, u8)> {
        let start = self.established_at.unwrap_or(Instant::ZERO);
        self.paths.manager.next_removal(self.paths.local).map(|(after, address)| (start + after, address))
    }

    fn arm_path_timer(&mut self) {
        self.paths.timer = self.next_removal().map_or(Instant::NEVER, |(due, _)| due);
    }

    /// Addresses whose time has come go away: their subflows end, and the peer is told on one that
    /// is left.
    #[cold]
    pub(super) fn manage_paths(&mut self, now: Instant) {
        self.announce_again(now);
        while let Some((_, address_id)) = self.next_removal().filter(|&(due, _)| due <= now) {
            self.paths.local.remove(address_id);
            for i in 0..self.subflows.len() {
                if self.subflows[i].local == address_id && !self.subflows[i].closed {
                    self.close_subflow(now, i);
                }
            }
            if let Some(i) = (0..self.subflows.len()).find(|&i| self.is_usable(i)) {
                let address_ids = Inline::from_slice(&[address_id]).unwrap_or_default();
                self.send_option(i, &Repr::RemoveAddr { address_ids });
            }
        }
        self.arm_path_timer();
    }

    /// A subflow is gone for good; what it had not delivered goes to the others.
    #[cold]
    pub(super) fn close_subflow(&mut self, now: Instant, i: usize) {
        self.reinject_all_of(i);
        self.drop_subflow(i);
        self.sync_sndbuf();
        if self.settings.stack.meta_retransmission == MetaRetransmission::LastTimer && self.tx.una.before(self.tx.sent_end()) {
            // Linux looks at what is acknowledged, as if something had been (`__mptcp_clean_una`).
            self.arm_retransmission(now);
        }
        self.refresh_sibling(i);
        if self.paths.is_client && self.paths.started {
            // What did not fit before may now.
            self.create_subflows(now);
        }
        self.push(now);
    }

    /// A subflow is gone; a RST or FIN of its socket's may have yet to leave.
    #[cold]
    pub(super) fn drop_subflow(&mut self, i: usize) {
        let subflow = &mut self.subflows[i];
        debug_assert!(!subflow.closed, "a subflow goes once");
        subflow.closed = true;
        self.work.mark(i);
        if subflow.ended_by_peer != EndedByPeer::No && subflow.socket.state() == State::CloseWait {
            subflow.socket.close();
            subflow.ended_by_peer = EndedByPeer::ByFin;
            return;
        }
        subflow.socket.abort();
        self.work.set_due(i, Instant::NEVER);
    }
}
