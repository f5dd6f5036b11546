//! Path managers: which subflows there are besides the first, and when they come and go.

use super::{Connection, Interface, Phase};
use polypath_base::{Duration, Instant, PathId};
use polypath_sched::MAX_SUBFLOWS;
use polypath_wire::Inline;
use polypath_wire::mptcp::{Announcement, Repr};
use std::net::IpAddr;

/// How a client creates subflows. A server only answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PathManager {
    /// From every address of the client to every address of the server that it knows.
    #[default]
    Fullmesh,
    /// This many subflows over the first path, from different ports.
    Ndiffports(u8),
    /// From each of these addresses to the server's first.
    Endpoints(Vec<Endpoint>),
}

/// An address of the client that the path manager uses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Index into the client's addresses. The address of the first path may be named too, to make it go away.
    pub address: u8,
    /// Its subflow is used only when no other can be.
    pub backup: bool,
    /// The address goes away this long after the connection was established.
    pub remove_after: Option<Duration>,
}

/// Which path leads to which subflow, and what the path manager has yet to do.
#[derive(Debug)]
pub(super) struct Paths {
    manager: PathManager,
    interfaces: Vec<Interface>,
    path_mtus: Vec<(PathId, u32)>,
    is_client: bool,
    /// Subflow by path; `NONE` if there is none.
    by_path: [u8; 256],
    next_path: u8,
    /// Server addresses that were announced.
    announced: AddressSet,
    /// The path manager has begun.
    started: bool,
    timer: Instant,
    removed: AddressSet,
}

/// Which of the 256 possible address ids are in (RFC 8684 section 3.4.1).
#[derive(Copy, Clone, Debug, Default)]
struct AddressSet([u64; 4]);

impl AddressSet {
    fn has(&self, id: u8) -> bool {
        self.0[usize::from(id >> 6)] >> (id & 63) & 1 == 1
    }

    fn insert(&mut self, id: u8) {
        self.0[usize::from(id >> 6)] |= 1 << (id & 63);
    }

    fn remove(&mut self, id: u8) {
        self.0[usize::from(id >> 6)] &= !(1 << (id & 63));
    }

    fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |&id| self.has(id))
    }
}

const NONE: u8 = u8::MAX;

impl Paths {
    pub(super) fn new(manager: PathManager, interfaces: Vec<Interface>, is_client: bool) -> Self {
        Self {
            manager,
            interfaces,
            path_mtus: Vec::new(),
            is_client,
            by_path: [NONE; 256],
            next_path: 1,
            announced: AddressSet([1, 0, 0, 0]),
            started: false,
            timer: Instant::NEVER,
            removed: AddressSet::default(),
        }
    }

    #[inline]
    pub(super) fn subflow(&self, path: PathId) -> Option<usize> {
        let i = self.by_path[usize::from(path.0)];
        (i != NONE).then_some(usize::from(i))
    }

    pub(super) fn register(&mut self, path: PathId, subflow: usize) {
        self.by_path[usize::from(path.0)] = subflow as u8;
    }

    pub(super) fn set_mtu(&mut self, path: PathId, mtu: u32) {
        self.path_mtus.push((path, mtu));
    }

    pub(super) fn mtu(&self, path: PathId, local: u8) -> u32 {
        let told = self.path_mtus.iter().rev().find(|(p, _)| *p == path).map(|(_, mtu)| *mtu);
        let interface = || self.interfaces.get(usize::from(local)).or(self.interfaces.first());
        told.or_else(|| interface().map(|interface| interface.mtu)).unwrap_or(1500)
    }

    #[inline]
    pub(super) fn timer_due(&self) -> Instant {
        self.timer
    }
}

impl Connection {
    /// A subflow's handshake is complete.
    pub(super) fn on_confirmed(&mut self, now: Instant, i: usize) {
        self.touched |= 1 << i;
        self.sync_sndbuf();
        if i > 0 || self.paths.started || self.phase != Phase::Established {
            return;
        }
        self.paths.started = true;
        if self.paths.is_client {
            self.create_subflows(now);
            self.arm_path_timer();
        } else {
            self.announce_next(0);
        }
    }

    /// Asks for a segment without data on a subflow that carries the option.
    fn send_option(&mut self, i: usize, option: &Repr) {
        let subflow = &mut self.subflows[i];
        subflow.waiting_options.push(option);
        subflow.socket.request_ack();
        self.mark(i);
    }

    /// Tells the client on a subflow of the next address that it does not know, if there is one.
    fn announce_next(&mut self, i: usize) {
        let Some((address_id, address)) = self.next_announcement() else { return };
        // RFC 8684 section 3.4.1: the code is that of who announces.
        let hmac = self.version().address_hmac(self.local_key, self.remote_key, address_id, address, 0);
        let announcement = Announcement::Authenticated { hmac };
        self.send_option(i, &Repr::AddAddr { announcement, address_id, address, port: None });
    }

    /// The server's next address that the client does not know.
    fn next_announcement(&self) -> Option<(u8, IpAddr)> {
        let others = (0..=u8::MAX).zip(&self.paths.interfaces).skip(1);
        others.map(|(id, interface)| (id, interface.address)).find(|&(id, _)| !self.paths.announced.has(id))
    }

    /// Opens what the path manager wants and is not there yet.
    fn create_subflows(&mut self, now: Instant) {
        match self.paths.manager.clone() {
            PathManager::Fullmesh => {
                for local in 0..self.paths.interfaces.len() as u8 {
                    let announced = self.paths.announced;
                    for remote in announced.iter() {
                        if !self.subflows.iter().any(|s| (s.local, s.remote) == (local, remote) && !s.withdrawn) {
                            self.join(now, local, remote, false);
                        }
                    }
                }
            }
            PathManager::Ndiffports(count) => {
                for _ in self.subflows.len()..usize::from(count) {
                    self.join(now, 0, 0, false);
                }
            }
            PathManager::Endpoints(endpoints) => {
                for endpoint in endpoints {
                    if !self.subflows.iter().any(|s| s.local == endpoint.address) {
                        self.join(now, endpoint.address, 0, endpoint.backup);
                    }
                }
            }
        }
    }

    /// The connection has all the subflows that it can have: those that are gone make room for others, until there have been as many as it can keep
    /// record of.
    pub(super) fn is_full(&self) -> bool {
        let living = self.subflows.iter().filter(|s| !s.closed).count();
        living >= self.settings.stack.max_subflows || self.subflows.len() >= MAX_SUBFLOWS
    }

    fn join(&mut self, now: Instant, local: u8, remote: u8, backup: bool) {
        if self.is_full() || self.paths.removed.has(local) {
            return;
        }
        let path = PathId(self.paths.next_path);
        self.paths.next_path += 1;
        let i = self.add_socket(path, local, remote, true);
        self.subflows[i].backup = backup;
        self.subflows[i].socket.open(now);
        self.mark(i);
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
            self.paths.announced.insert(address_id);
            self.announce_next(i);
            return;
        }
        if let Announcement::Authenticated { hmac } = announcement
            && hmac != self.version().address_hmac(self.remote_key, self.local_key, address_id, address, port.unwrap_or(0))
        {
            self.subflows[i].socket.note_rejected_option();
            return;
        }
        self.send_option(i, &Repr::AddAddr { announcement: Announcement::Echo, address_id, address, port });
        if self.paths.is_client && !self.paths.announced.has(address_id) {
            self.paths.announced.insert(address_id);
            self.create_subflows(now);
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

    fn arm_path_timer(&mut self) {
        let start = self.established_at.unwrap_or(Instant::ZERO);
        let PathManager::Endpoints(endpoints) = &self.paths.manager else { return };
        let removals = endpoints.iter().filter(|e| !self.paths.removed.has(e.address)).filter_map(|e| e.remove_after);
        self.paths.timer = removals.min().map_or(Instant::NEVER, |after| start + after);
    }

    /// Addresses whose time has come go away: their subflows end, and the peer is told on one that is left.
    #[cold]
    pub(super) fn manage_paths(&mut self, now: Instant) {
        let start = self.established_at.unwrap_or(Instant::ZERO);
        let PathManager::Endpoints(endpoints) = self.paths.manager.clone() else { return };
        for endpoint in endpoints {
            let due = endpoint.remove_after.is_some_and(|after| start + after <= now);
            if !due || self.paths.removed.has(endpoint.address) {
                continue;
            }
            self.paths.removed.insert(endpoint.address);
            for i in 0..self.subflows.len() {
                if self.subflows[i].local == endpoint.address && !self.subflows[i].closed {
                    self.close_subflow(now, i);
                }
            }
            if let Some(i) = (0..self.subflows.len()).find(|&i| self.is_usable(i)) {
                let address_ids = Inline::from_slice(&[endpoint.address]).unwrap_or_default();
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
        self.refresh_sibling(i);
        if self.paths.is_client && self.paths.started {
            // What did not fit before may now.
            self.create_subflows(now);
        }
        self.push(now);
    }

    #[cold]
    pub(super) fn drop_subflow(&mut self, i: usize) {
        self.subflows[i].closed = true;
        self.touched |= 1 << i;
        self.subflows[i].socket.abort();
        self.due[i] = Instant::NEVER;
    }
}
