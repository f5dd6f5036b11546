//! A host with endpoints of `polypath-transport`: IP packets in and out, and the sockets of a
//! program.
//!
//! The program reads at once whatever it can, unless the head says that it reads by call; `read`
//! tells what came since the last `read`. `program` has what a program asks beyond a script's
//! calls.

mod fast_open;
mod program;
mod socket_options;
mod tcp_info;

pub use program::{Connecting, Readiness};

use crate::endpoint::{Endpoint, Sent};
use crate::numbers::{PORT, local_address, peer_address};
use crate::script::{Directions, Engine, Head, Verb};
use fast_open::{Asked, FastOpen, Known};
use polypath_base::{Bytes, Duration, Instant, PathId, Rng, Seq};
use polypath_cc as cc;
use polypath_sched::Scheduler;
use polypath_transport::tcp::{self, Socket, State};
use polypath_transport::{Connection, Device, End, Settings, SocketError, Stack, Transmit, Transmits, mptcp};
use polypath_wire::mptcp::Announcement;
use polypath_wire::{Envelope, Flags, MpOptions, Segment, Unreachable, icmpv4, ipv4};
use socket_options::SocketOptions;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use tcp_info::info_of;

/// Where the host's clock stands when a script begins. In the machine jiffies are a multiple of
/// 2^14 less 75000 then (`INITIAL_JIFFIES`, with CONFIG_HZ=250; `linux::Host` begins there), and
/// the timer wheel's long steps count from there.
const BEGINNING: Duration = Duration::from_millis((5 * 16_384 - 75_000) * 4);

/// The first of the ports that connecting sockets get.
const FIRST_PORT: u16 = 50_000;

/// The host.
#[derive(Debug)]
pub struct Host {
    now: Instant,
    settings: Settings,
    algorithm: cc::Algorithm,
    mtu: Bytes,
    /// Own addresses, the first one first.
    addresses: Vec<Ipv4Addr>,
    subflow_endpoints: Vec<mptcp::path_manager::Endpoint>,
    fullmesh: bool,
    sockets: BTreeMap<i32, Handle>,
    connections: Vec<Conn>,
    sent: VecDeque<Sent>,
    /// Addresses that the peer has announced, by their ids.
    announced: BTreeMap<u8, Ipv4Addr>,
    newest: Option<usize>,
    ident: u16,
    reads_by_call: bool,
    /// TCP_USER_TIMEOUT of sockets.
    user_timeouts: BTreeMap<i32, Duration>,
    /// Sockets with an SO_LINGER of zero seconds.
    linger_not: BTreeSet<i32>,
    fast_open: FastOpen,
    /// What servers have told of it.
    known_servers: BTreeMap<Ipv4Addr, Known>,
}

/// What a number of the program's stands for.
#[derive(Clone, Debug)]
enum Handle {
    Fresh { mptcp: bool, options: Box<SocketOptions> },
    Listener { mptcp: bool, options: Box<SocketOptions> },
    Connection(usize),
}

#[derive(Debug)]
struct Conn {
    end: Connection,
    /// Addresses by the number of the path: the endpoint's and the peer's.
    paths: Vec<(SocketAddrV4, SocketAddrV4)>,
    /// The listening socket that has not handed it out yet.
    waits_at: Option<i32>,
    is_client: bool,
    /// Bytes of which `read` has told.
    told: u64,
    /// The program was told of the end of what comes, or needs to know no more of it.
    finished: bool,
    /// The program sends no more.
    sends_no_more: bool,
    /// What the reading program was told, and no call yet.
    error: Option<SocketError>,
    /// TCP Fast Open: the option of the SYN or SYN/ACK, what a client has asked for, and whether
    /// the data of the SYN counts.
    fast_open_option: Vec<u8>,
    has_asked: Option<Asked>,
    /// SYNs that have left; without a cookie in the answer the first one was in vain.
    syns: u32,
    asks_in_vain: bool,
    has_syn_data: bool,
}

impl Conn {
    /// The program that reads at once is told of an error, unless it was told of the end before.
    fn note_error(&mut self) {
        self.finished |= self.end.peer_finished();
        if !self.finished
            && let Some(error) = self.end.take_error()
        {
            self.error = Some(error);
            self.finished = true;
        }
    }

    fn is_mptcp(&self) -> bool {
        matches!(self.end, Connection::Mptcp(_))
    }
}

impl Host {
    /// The host that a script's head describes, with the column of the table of kernels that has
    /// this name.
    ///
    /// # Errors
    /// A sentence, if the kernel or a setting is not modelled.
    pub fn new(head: &Head, kernel: &str) -> Result<Self, String> {
        Self::with_stack(head, Stack::find(kernel).ok_or_else(|| format!("the kernel {kernel} is not modelled"))?)
    }

    /// The host that a script's head describes, with these properties.
    ///
    /// # Errors
    /// A sentence, if a setting is not modelled.
    pub fn with_stack(head: &Head, stack: &'static Stack) -> Result<Self, String> {
        let (algorithm, settings) = settings_of(&head.sysctls, stack)?;
        let mut addresses = vec![local_address(0)];
        let mut subflow_endpoints = Vec::new();
        for endpoint in &head.endpoints {
            let index = addresses.iter().position(|address| *address == endpoint.address).unwrap_or(addresses.len());
            if index == addresses.len() {
                addresses.push(endpoint.address);
            }
            let has = |flag: &str| endpoint.flags.iter().any(|own| own == flag);
            if has("subflow") {
                subflow_endpoints.push(mptcp::path_manager::Endpoint {
                    address: index as u8,
                    backup: has("backup"),
                    laminar: false,
                    remove_after: None,
                });
            }
        }
        Ok(Self {
            now: Instant::ZERO + BEGINNING,
            settings,
            algorithm,
            mtu: Bytes::from_u32(head.mtu),
            addresses,
            subflow_endpoints,
            fullmesh: head.endpoints.iter().any(|endpoint| endpoint.flags.iter().any(|flag| flag == "fullmesh")),
            sockets: BTreeMap::new(),
            connections: Vec::new(),
            sent: VecDeque::new(),
            announced: BTreeMap::new(),
            newest: None,
            ident: 0,
            reads_by_call: head.reads_by_call,
            user_timeouts: BTreeMap::new(),
            linger_not: BTreeSet::new(),
            fast_open: FastOpen::default(),
            known_servers: BTreeMap::new(),
        })
    }

    /// A stream of random numbers of each connection's own.
    fn random(&self) -> Rng {
        Rng::new(1, &format!("connection {}", self.connections.len()))
    }

    fn open(&mut self, mptcp: bool, options: &SocketOptions, is_client: bool, path: (SocketAddrV4, SocketAddrV4)) -> usize {
        let mut random = self.random();
        let settings = Arc::new(options.settings(&self.settings));
        let mut end = if mptcp {
            let config = mptcp::Config {
                settings: Arc::clone(&settings),
                algorithm: self.algorithm,
                scheduler: Scheduler::find(settings.stack.default_scheduler).expect("a kernel names a scheduler that is there"),
                path_manager: if self.fullmesh {
                    mptcp::path_manager::Fullmesh.into()
                } else {
                    mptcp::path_manager::Endpoints(self.subflow_endpoints.clone()).into()
                },
                interfaces: self.addresses.iter().map(|&address| mptcp::Interface { address: address.into(), mtu: self.mtu }).collect(),
                random,
            };
            Connection::Mptcp(Box::new(if is_client { mptcp::Connection::client(config) } else { mptcp::Connection::server(config) }))
        } else {
            let initial_seq = Seq::new(random.next_u32());
            let config = tcp::Config { settings: Arc::clone(&settings), algorithm: self.algorithm, mtu: self.mtu, initial_seq };
            Connection::Tcp(Box::new(if is_client { Socket::client(config) } else { Socket::server(config) }))
        };
        if self.reads_by_call {
            end.read_by_call();
        }
        if let Connection::Tcp(socket) = &mut end {
            socket.set_nodelay(options.nodelay);
            socket.set_corked(options.corked);
        }
        self.connections.push(Conn {
            end,
            paths: vec![path],
            waits_at: None,
            is_client,
            told: 0,
            finished: false,
            sends_no_more: false,
            error: None,
            fast_open_option: Vec::new(),
            has_asked: None,
            syns: 0,
            asks_in_vain: false,
            has_syn_data: false,
        });
        self.newest = Some(self.connections.len() - 1);
        self.connections.len() - 1
    }

    /// Sends what the endpoints have.
    fn transmit(&mut self) -> Result<(), String> {
        for i in 0..self.connections.len() {
            for transmit in transmits(&mut self.connections[i].end, self.now) {
                let (source, destination) = self.path(i, transmit.path);
                self.ident = self.ident.wrapping_add(1);
                let envelope = Envelope { source: source.into(), destination: destination.into(), ident: self.ident };
                let payload = vec![0; transmit.segment.len as usize];
                let option = if transmit.segment.flags.has(Flags::SYN) { self.connections[i].fast_open_option.clone() } else { Vec::new() };
                if self.connections[i].is_client && transmit.segment.flags.has(Flags::SYN) {
                    // A SYN that goes again goes without (RFC 7413 section 4.1.3.1).
                    self.connections[i].fast_open_option.clear();
                    self.connections[i].syns += 1;
                    self.connections[i].asks_in_vain = self.connections[i].syns == 1 && transmit.segment.len == 0;
                }
                let bytes = transmit.segment.to_bytes_with(&envelope, &payload, &option);
                let bytes = bytes.map_err(|e| format!("our segment has no bytes: {e}"))?;
                self.sent.push_back(Sent { at: self.now(), bytes });
            }
        }
        Ok(())
    }

    /// Addresses of a path; a client makes paths as it goes.
    fn path(&mut self, i: usize, path: PathId) -> (SocketAddrV4, SocketAddrV4) {
        let number = usize::from(path.0);
        while self.connections[i].paths.len() <= number {
            let connection = &self.connections[i];
            let next = connection.paths.len();
            let (local, remote) = connection.end.path(PathId(next as u8));
            let (_, first_peer) = connection.paths[0];
            let local = self.addresses.get(local).copied().unwrap_or(self.addresses[0]);
            let peer = self.announced.get(&(remote as u8)).copied().unwrap_or(*first_peer.ip());
            let paths = (SocketAddrV4::new(local, FIRST_PORT + 100 * i as u16 + next as u16), SocketAddrV4::new(peer, first_peer.port()));
            self.connections[i].paths.push(paths);
        }
        self.connections[i].paths[number]
    }

    /// The connection and the path that these addresses belong to.
    fn find(&self, local: SocketAddrV4, peer: SocketAddrV4) -> Option<(usize, PathId)> {
        let of = |i: usize| self.connections[i].paths.iter().position(|path| *path == (local, peer)).map(|path| (i, PathId(path as u8)));
        (0..self.connections.len()).rev().filter_map(of).find(|&(i, path)| !self.connections[i].end.is_over(path))
    }

    fn inject_tcp(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (envelope, segment, _) =
            Segment::from_bytes(bytes).map_err(|e| format!("the packet is none that our endpoints can read: {e}"))?;
        for option in segment.mp.iter() {
            if let polypath_wire::mptcp::Repr::AddAddr { address_id, address: IpAddr::V4(address), announcement, .. } = option
                && announcement != Announcement::Echo
            {
                self.announced.insert(address_id, address);
            }
        }
        let (SocketAddr::V4(local), SocketAddr::V4(peer)) = (envelope.destination, envelope.source) else {
            return Err("our host has IPv4 alone".to_owned());
        };
        if fast_open::is_signed(&options_of(bytes)?) {
            // No socket here has a key (Linux: `tcp_inbound_hash`, TCPMD5Unexpected).
            return Ok(());
        }
        if let Some((i, path)) = self.find(local, peer) {
            if segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK) {
                self.learn_fast_open(i, bytes, &segment)?;
            }
            self.connections[i].end.handle_segment(self.now, path, &segment);
            return Ok(());
        }
        let has = |flag| segment.flags.has(flag);
        let listens = self.sockets.values().any(|handle| matches!(handle, Handle::Listener { .. }));
        if listens && !has(Flags::ACK) && (!has(Flags::SYN) || has(Flags::FIN)) {
            // RFC 9293 section 3.10.7.2: who listens drops it; a SYN with FIN as well, as Linux.
            return Ok(());
        }
        if !has(Flags::SYN) || has(Flags::ACK) || has(Flags::RST) {
            return self.refuse(&envelope, &segment, MpOptions::default());
        }
        if matches!(segment.mp.first(), Some(polypath_wire::mptcp::Repr::JoinSyn { .. })) {
            if self.join(local, peer, &segment) {
                return Ok(());
            }
            // RFC 8684 section 3.2: no connection knows the token.
            let reason = polypath_wire::mptcp::Repr::RST_MPTCP_ERROR;
            return self.refuse(&envelope, &segment, polypath_wire::mptcp::Repr::TcpRst { flags: 0, reason }.into());
        }
        let listener = self.sockets.iter().find_map(|(fd, handle)| match handle {
            Handle::Listener { mptcp, options } => Some((*fd, *mptcp, options.clone())),
            _ => None,
        });
        if let Some((fd, mptcp, options)) = listener {
            let i = self.open(mptcp, &options, false, (local, peer));
            self.connections[i].waits_at = Some(fd);
            if let Some(time) = self.user_timeouts.get(&fd) {
                self.connections[i].set_user_timeout(*time)?;
            }
            self.open_fast(i, &options, bytes, &segment)?;
            self.connections[i].end.handle_segment(self.now, PathId(0), &segment);
            return Ok(());
        }
        self.refuse(&envelope, &segment, MpOptions::default())
    }

    /// A SYN/ACK may tell a cookie.
    fn learn_fast_open(&mut self, i: usize, bytes: &[u8], segment: &Segment) -> Result<(), String> {
        let Some(asked) = self.connections[i].has_asked.take() else { return Ok(()) };
        let server = *self.connections[i].paths[0].1.ip();
        self.known_servers.entry(server).or_default().learn(
            &asked,
            Asked::find(&options_of(bytes)?),
            segment.mss,
            self.connections[i].asks_in_vain,
        );
        Ok(())
    }

    /// A SYN for a listening socket may carry data, or ask for a cookie.
    fn open_fast(&mut self, i: usize, options: &SocketOptions, bytes: &[u8], segment: &Segment) -> Result<(), String> {
        let asked = Asked::find(&options_of(bytes)?);
        let path = self.connections[i].paths[0];
        let (queue, key) = (options.fast_open_queue, options.fast_open_key);
        let waits = |c: &Conn| matches!(&c.end, Connection::Tcp(t) if t.state() == State::SynReceived && t.established_at().is_some());
        let waiting = self.connections.iter().filter(|c| waits(c)).count() as u32;
        let answer = self.fast_open.answer(asked.as_ref(), path, segment.len > 0, queue, waiting, key);
        let connection = &mut self.connections[i];
        if let (Connection::Tcp(socket), true) = (&mut connection.end, answer.opens) {
            socket.accept_fast_open();
            connection.has_syn_data = segment.len > 0;
        }
        connection.fast_open_option = answer.option;
        Ok(())
    }

    /// A segment is for no connection: the host answers by a RST (RFC 9293 section 3.5.2).
    fn refuse(&mut self, envelope: &Envelope, segment: &Segment, mp: MpOptions) -> Result<(), String> {
        let Some(reset) = tcp::reset_for(segment) else { return Ok(()) };
        self.ident = self.ident.wrapping_add(1);
        let back = Envelope { source: envelope.destination, destination: envelope.source, ident: self.ident };
        let bytes = Segment { mp, ..reset }.to_bytes(&back, &[]).map_err(|e| format!("our RST has no bytes: {e}"))?;
        self.sent.push_back(Sent { at: self.now(), bytes });
        Ok(())
    }

    /// A SYN with MP_JOIN: every connection looks whether the token is its own. False if it is
    /// nobody's.
    fn join(&mut self, local: SocketAddrV4, peer: SocketAddrV4, segment: &Segment) -> bool {
        for connection in self.connections.iter_mut().filter(|connection| !connection.is_client) {
            let before = connection.end.subflow_count();
            let path = PathId(connection.paths.len() as u8);
            connection.end.handle_segment(self.now, path, segment);
            if connection.end.subflow_count() > before {
                connection.paths.push((local, peer));
                return true;
            }
        }
        false
    }

    fn inject_icmp(&mut self, packet: &ipv4::Packet<&[u8]>) -> Result<(), String> {
        let wrong = |what: &str| format!("the ICMP message is none that our endpoints can read: {what}");
        let message = icmpv4::Packet::new_checked(packet.payload()).map_err(|e| wrong(&e.to_string()))?;
        let repr = icmpv4::Repr::parse(&message).map_err(|e| wrong(&e.to_string()))?;
        let icmpv4::Message::FragmentationNeeded { mtu } = repr.message else { return Ok(()) };
        let quoted = message.payload();
        // The quoted packet may be cut off behind its first eight bytes (RFC 792), so no view of a
        // whole one is asked for.
        let (Some(header), Some(first)) = (quoted.get(..ipv4::HEADER), quoted.get(ipv4::HEADER..ipv4::HEADER + 8)) else {
            return Err(wrong("it quotes too little"));
        };
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let port = |at: usize| u16::from_be_bytes([first[at], first[at + 1]]);
        let local = SocketAddrV4::new(address(12), port(0));
        let peer = SocketAddrV4::new(address(16), port(2));
        let seq = Seq::new(u32::from_be_bytes([first[4], first[5], first[6], first[7]]));
        if let Some((i, path)) = self.find(local, peer) {
            self.connections[i].end.handle_unreachable(self.now, path, &Unreachable { seq, mtu: u32::from(mtu) });
        }
        Ok(())
    }

    fn free_number(&self) -> i32 {
        (3..).find(|fd| !self.sockets.contains_key(fd)).unwrap_or(i32::MAX)
    }

    fn connection(&mut self, fd: i32) -> Result<&mut Conn, String> {
        match self.sockets.get(&fd) {
            Some(Handle::Connection(i)) => Ok(&mut self.connections[*i]),
            _ => Err(format!("{fd} is no connection")),
        }
    }

    fn connect(&mut self, fd: i32) -> Result<Result<i64, String>, String> {
        self.connect_to(fd, SocketAddrV4::new(peer_address(0), PORT), None)
    }

    /// `fast_open`: how much data the program has for the SYN, if it wants that.
    fn connect_to(&mut self, fd: i32, peer: SocketAddrV4, fast_open: Option<u64>) -> Result<Result<i64, String>, String> {
        let Some(Handle::Fresh { mptcp, options }) = self.sockets.get(&fd).cloned() else {
            return Err(format!("{fd} is no fresh socket"));
        };
        let port = FIRST_PORT + 100 * self.connections.len() as u16;
        let path = (options.local.unwrap_or(SocketAddrV4::new(self.addresses[0], port)), peer);
        let i = self.open(mptcp, &options, true, path);
        if let Some(time) = self.user_timeouts.get(&fd) {
            self.connections[i].set_user_timeout(*time)?;
        }
        self.sockets.insert(fd, Handle::Connection(i));
        let known = self.known_servers.get(peer.ip()).cloned().unwrap_or_default();
        let connection = &mut self.connections[i];
        if let (Some(wanted), Some(without_cookie), Connection::Tcp(socket)) = (fast_open, self.fast_open.client(), &mut connection.end) {
            let mss = if known.mss == 0 { socket.advmss() } else { Bytes::from_u32(known.mss) };
            let has_data = known.has_cookie() || without_cookie;
            let data = if has_data { Bytes::new(wanted).min(socket.syn_data_room(mss)) } else { Bytes::ZERO };
            let asks = known.asks();
            if known.has_cookie() || !without_cookie {
                connection.fast_open_option = asks.own_option();
            }
            connection.has_asked = Some(asks);
            socket.open_with_data(self.now, data);
            return Ok(if data > Bytes::ZERO { Ok(data.get() as i64) } else { Err("EINPROGRESS".to_owned()) });
        }
        connection.end.open(self.now);
        Ok(Err("EINPROGRESS".to_owned()))
    }

    fn accept(&mut self, fd: i32) -> Result<i64, String> {
        let ready = self.connections.iter().position(|c| c.waits_at == Some(fd) && c.end.established_at().is_some());
        let i = ready.ok_or("EAGAIN")?;
        self.connections[i].waits_at = None;
        let number = self.free_number();
        if self.linger_not.contains(&fd) {
            self.linger_not.insert(number);
        }
        self.sockets.insert(number, Handle::Connection(i));
        self.newest = Some(i);
        Ok(i64::from(number))
    }

    fn write(&mut self, fd: i32, len: u64) -> Result<Result<i64, String>, String> {
        let now = self.now;
        let reads_by_call = self.reads_by_call;
        let connection = self.connection(fd)?;
        if !reads_by_call {
            connection.note_error();
        }
        if connection.sends_no_more || connection.end.has_ended() {
            // Of what the reader was told, it is told alone.
            return Ok(Err(connection.end.take_error().map_or("EPIPE", name_of).to_owned()));
        }
        let before = connection.end.accepted().get();
        connection.end.offer(now, Bytes::new(len));
        if matches!(connection.end, Connection::Tcp(_)) {
            // What leaves meanwhile makes room for more.
            self.transmit()?;
        }
        let connection = self.connection(fd)?;
        connection.end.stop(now);
        let taken = connection.end.accepted().get() - before;
        Ok(if taken == 0 && len > 0 { Err("EAGAIN".to_owned()) } else { Ok(taken as i64) })
    }

    fn read(&mut self, fd: i32, len: u64) -> Result<Result<i64, String>, String> {
        let (now, reads_by_call) = (self.now, self.reads_by_call);
        let connection = self.connection(fd)?;
        let waits = if reads_by_call {
            connection.end.read(now, Bytes::new(len)).get()
        } else {
            connection.note_error();
            let waits = (connection.end.received().get() - connection.told).min(len);
            connection.told += waits;
            waits
        };
        if waits > 0 {
            return Ok(Ok(waits as i64));
        }
        // Linux looks at the peer's FIN before the error (`SOCK_DONE`). A program that reads at
        // once has been told of either already.
        let error = match reads_by_call {
            true if connection.end.peer_finished() => None,
            true => connection.end.take_error(),
            false => connection.error.take(),
        };
        // Linux's MPTCP says ENOTCONN of a connection that never was.
        let never_was = connection.end.has_ended() && connection.is_mptcp() && connection.end.established_at().is_none();
        Ok(match error {
            Some(error) => Err(name_of(error).to_owned()),
            None if never_was => Err("ENOTCONN".to_owned()),
            None if connection.finished || connection.end.peer_finished() || connection.end.has_ended() => Ok(0),
            None => Err("EAGAIN".to_owned()),
        })
    }

    fn shut_down(&mut self, fd: i32, how: Directions) -> Result<Result<i64, String>, String> {
        if let Some(Handle::Listener { .. }) = self.sockets.get(&fd) {
            return if how == Directions::Write { Ok(Ok(0)) } else { self.close_listener(fd).map(|()| Ok(0)) };
        }
        let now = self.now;
        let connection = self.connection(fd)?;
        // Linux: `inet_shutdown`; of what is in TIME-WAIT a socket knows nothing any more.
        let is_over = connection.end.has_ended() || matches!(&connection.end, Connection::Tcp(socket) if socket.state() == State::TimeWait);
        connection.end.shut_down(now, how != Directions::Write, how != Directions::Read);
        connection.sends_no_more |= how != Directions::Read;
        // The reader is told that nothing comes, and reads no more.
        connection.finished |= how != Directions::Write;
        Ok(if is_over { Err("ENOTCONN".to_owned()) } else { Ok(0) })
    }

    fn close(&mut self, fd: i32) -> Result<(), String> {
        let now = self.now;
        self.user_timeouts.remove(&fd);
        let resets = self.linger_not.remove(&fd);
        match self.sockets.get(&fd) {
            Some(Handle::Connection(i)) => self.connections[*i].end.release(now, resets),
            Some(Handle::Listener { .. }) => self.close_listener(fd)?,
            Some(Handle::Fresh { .. }) => {}
            None => return Err(format!("{fd} is no socket")),
        }
        self.sockets.remove(&fd);
        Ok(())
    }

    /// Connections that wait to be accepted end (Linux: `inet_csk_listen_stop`).
    fn close_listener(&mut self, fd: i32) -> Result<(), String> {
        let now = self.now;
        for i in 0..self.connections.len() {
            let connection = &mut self.connections[i];
            if connection.waits_at != Some(fd) {
                continue;
            }
            if connection.end.established_at().is_none() {
                connection.end.release(now, false);
                continue;
            }
            let says_twice = connection.is_mptcp() && !connection.end.is_fallback();
            connection.end.abort(now);
            self.transmit()?;
            if says_twice && let Some(last) = self.sent.back_mut() {
                // The subflow's own socket is let go of, too, and knows of no MPTCP any more.
                let (at, bytes) = (last.at, last.bytes.clone());
                let (envelope, segment, _) = Segment::from_bytes(&bytes).map_err(|e| format!("our RST cannot be read: {e}"))?;
                let bytes = Segment { mp: MpOptions::default(), ..segment }.to_bytes(&envelope, &[]);
                self.sent.push_back(Sent { at, bytes: bytes.map_err(|e| format!("our RST has no bytes: {e}"))? });
            }
        }
        self.sockets.insert(fd, Handle::Fresh { mptcp: false, options: Box::default() });
        Ok(())
    }
}

impl Endpoint for Host {
    fn engine(&self) -> Engine {
        Engine::Ours
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.now.since(Instant::ZERO + BEGINNING)
    }

    fn wait(&mut self, until: Instant) -> Result<Option<Sent>, String> {
        let until = until + BEGINNING;
        loop {
            if let Some(sent) = self.sent.pop_front() {
                return Ok(Some(sent));
            }
            let due = self.connections.iter().map(|c| c.end.poll_timeout()).min().unwrap_or(Instant::NEVER);
            if due > until {
                self.now = self.now.max(until);
                self.poll_readiness();
                return Ok(None);
            }
            self.now = self.now.max(due);
            for connection in &mut self.connections {
                if connection.end.poll_timeout() <= self.now {
                    connection.end.handle_timeout(self.now);
                }
            }
            self.transmit()?;
        }
    }

    fn inject(&mut self, bytes: &[u8]) -> Result<(), String> {
        let packet = ipv4::Packet::new_checked(bytes).map_err(|e| format!("it is no IPv4 packet: {e}"))?;
        if packet.protocol() == icmpv4::PROTOCOL {
            self.inject_icmp(&packet)?;
        } else {
            self.inject_tcp(bytes)?;
        }
        self.transmit()
    }

    fn call(&mut self, verb: &Verb) -> Result<Result<i64, String>, String> {
        let returned = match *verb {
            Verb::Socket { mptcp } => {
                let number = self.free_number();
                self.sockets.insert(number, Handle::Fresh { mptcp, options: Box::default() });
                Ok(i64::from(number))
            }
            Verb::Bind { .. } => Ok(0),
            Verb::Listen { fd } => {
                let Some(Handle::Fresh { mptcp, options }) = self.sockets.get(&fd).cloned() else {
                    return Err(format!("{fd} is no fresh socket"));
                };
                self.sockets.insert(fd, Handle::Listener { mptcp, options });
                Ok(0)
            }
            Verb::Accept { fd } => self.accept(fd),
            Verb::Connect { fd } => self.connect(fd)?,
            Verb::Write { fd, len } => self.write(fd, len)?,
            Verb::Read { fd, len } => self.read(fd, len)?,
            Verb::Shutdown { fd, how } => self.shut_down(fd, how)?,
            Verb::Close { fd } => {
                self.close(fd)?;
                Ok(0)
            }
            Verb::SetOption { fd, option, value } => self.set_option(fd, option, value)?,
            Verb::RemoveEndpoint { .. } => return Err("our path manager cannot lose an endpoint by command".to_owned()),
        };
        self.transmit()?;
        Ok(returned)
    }

    fn info(&mut self, field: &str) -> Option<u64> {
        info_of(&self.connections[self.newest?].end, field)
    }
}

/// What an endpoint has to send, as the simulator asks for it: bursts as such.
fn transmits(end: &mut Connection, now: Instant) -> Vec<Transmit> {
    fn all<E: End>(end: &mut E, now: Instant) -> Vec<Transmit> {
        let mut slot = Segment::default();
        let mut transmits = Transmits::new(end, &mut slot);
        std::iter::from_fn(|| transmits.next(now).map(|(path, &segment)| Transmit { path, segment })).collect()
    }
    match end {
        Connection::Tcp(end) => all(&mut **end, now),
        Connection::Mptcp(end) => all(&mut **end, now),
        Connection::Udp(_) => Vec::new(),
    }
}

/// The options of a TCP segment in an IPv4 packet.
fn options_of(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let packet = ipv4::Packet::new_checked(bytes).map_err(|e| format!("it is no IPv4 packet: {e}"))?;
    let header = polypath_wire::tcp::Packet::new_checked(packet.payload()).map_err(|e| format!("it is no TCP segment: {e}"))?;
    Ok(header.options().to_vec())
}

/// What sysctls say: the congestion control, and the rest.
fn settings_of(sysctls: &[(String, String)], stack: &'static Stack) -> Result<(cc::Algorithm, Settings), String> {
    let mut sysctls: BTreeMap<String, serde_json::Value> =
        sysctls.iter().map(|(name, value)| (name.clone(), serde_json::Value::String(value.clone()))).collect();
    let algorithm = sysctls.remove("net.ipv4.tcp_congestion_control");
    let algorithm = algorithm.as_ref().and_then(|name| name.as_str()).unwrap_or("reno");
    let algorithm = cc::find(algorithm).ok_or_else(|| format!("there is no congestion control {algorithm}"))?;
    let mut settings = polypath_sim::settings(stack, &sysctls).map_err(|error| error.to_string())?;
    // As the packets of scripts come to a kernel.
    settings.device = Device::Tun;
    Ok((algorithm, settings))
}

/// As Linux names them.
fn name_of(error: SocketError) -> &'static str {
    match error {
        SocketError::Refused => "ECONNREFUSED",
        SocketError::Reset => "ECONNRESET",
        SocketError::BrokenPipe => "EPIPE",
        SocketError::TimedOut => "ETIMEDOUT",
    }
}
