//! A program on the endpoint's host: its descriptors, its calls, which may wait, and time.

mod polling;
mod sending;

pub(crate) use sending::Sending;

use crate::settings;
use polypath_base::{Duration, Instant};
use polypath_testkit::Endpoint as _;
use polypath_testkit::Sent;
use polypath_testkit::ours::{Connecting, Host, Readiness};
use polypath_testkit::script::{Directions, Head, Verb};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::thread::{self, ThreadId};

/// The number of an error, as `errno` has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// Why a call has no value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum WouldBlock {
    Failed(Errno),
    /// It waits, at most until then.
    Until(Instant),
}

impl From<Errno> for WouldBlock {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// A call that is made again until it does not wait any more.
pub(crate) type Waiting = Box<dyn FnMut(&mut Program) -> Result<i64, WouldBlock> + Send>;

/// How often in a row the clock may be read before that takes time: packetdrill reads it some times
/// for each line, and again and again where it waits for the last microseconds.
const READS: u32 = 64;
/// A microsecond, which reading the clock takes then.
const STEP: Duration = Duration::from_micros(1);
/// How long packetdrill waits for a packet that does not come.
const PATIENCE: Duration = Duration::from_secs(3600);
/// What the clock shows at the beginning, microseconds: as little as a time may be that is none.
const EPOCH: i64 = 1_000_000;
/// Protocol of MPTCP sockets (`IPPROTO_MPTCP`).
const MPTCP: i32 = 262;

/// Numbers of the kernel's that libc does not name (include/uapi/linux/{socket,tcp,errqueue}.h).
const MSG_ZEROCOPY: i32 = 0x0400_0000;
pub(crate) const TCP_INQ: i32 = 36;
pub(crate) const TCP_FASTOPEN_CONNECT: i32 = 30;
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// The errors that calls have, by their names.
const ERRORS: [(&str, i32); 11] = [
    ("EAGAIN", libc::EAGAIN),
    ("EINPROGRESS", libc::EINPROGRESS),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("ECONNRESET", libc::ECONNRESET),
    ("EPIPE", libc::EPIPE),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("ENOTCONN", libc::ENOTCONN),
    ("EHOSTUNREACH", libc::EHOSTUNREACH),
    ("EISCONN", libc::EISCONN),
    ("EINVAL", libc::EINVAL),
    ("ENOPROTOOPT", libc::ENOPROTOOPT),
];

/// The program, its host and packetdrill's side of the wire.
pub(crate) struct Program {
    /// What commands have set, and where refusals are told.
    folder: PathBuf,
    pub(crate) host: Host,
    /// The thread that lets time pass.
    thread: ThreadId,
    pub(crate) sockets: BTreeMap<i32, Socket>,
    epolls: BTreeMap<i32, Vec<Watched>>,
    /// Packets that packetdrill has not taken.
    packets: VecDeque<Sent>,
    /// How often in a row the clock was read.
    reads: u32,
    /// How often what is known of servers was forgotten.
    flushes: usize,
    /// The call that waits in the other thread.
    suspended: Option<Waiting>,
    /// When a call that waited was over, and what it returned.
    over: Option<(i64, Result<i64, Errno>)>,
    /// A call has been over, and the thread that has made it.
    is_ending: bool,
    ended_thread: Option<i32>,
    /// Of the last `epoll_wait`.
    events: Vec<(u32, u64)>,
}

/// A socket of the program's.
#[derive(Debug, Default)]
pub(crate) struct Socket {
    /// Its number at the host.
    pub(crate) number: i32,
    pub(crate) nonblocking: bool,
    /// `connect` was told of its success, or `accept` has made it.
    pub(crate) connected: bool,
    /// Values of options that no packet shows.
    pub(crate) remembered: BTreeMap<(i32, i32), i32>,
    /// TCP_FASTOPEN_CONNECT: where the first data connects.
    deferred: Option<SocketAddrV4>,
    /// What is left of the call that connects.
    rest: Option<u64>,
    /// MSG_ZEROCOPY: calls that are not acknowledged, by where their data ends, with their numbers.
    unacknowledged: VecDeque<(u64, u32)>,
    calls: u32,
    /// First and last number of calls that are, for the program to hear of.
    notices: VecDeque<(u32, u32)>,
    noticed: u64,
}

impl Socket {
    fn zerocopy_sent(&mut self, end: u64) {
        self.unacknowledged.push_back((end, self.calls));
        self.calls += 1;
    }

    fn readiness(&self, host: &Host) -> Readiness {
        let mut ready = host.readiness(self.number);
        if self.deferred.is_some() {
            // Linux: `defer_connect`.
            ready = Readiness { writable: true, ..Readiness::default() };
        }
        ready.has_error |= !self.notices.is_empty();
        ready
    }
}

/// A descriptor that an epoll watches.
#[derive(Copy, Clone, Debug)]
struct Watched {
    fd: i32,
    events: u32,
    data: u64,
    /// Of an edge-triggered one: what is news.
    news: u32,
    before: Readiness,
    noticed: u64,
    /// EPOLLONESHOT has told.
    is_spent: bool,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("folder", &self.folder).field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

impl Program {
    pub(crate) fn new(folder: PathBuf) -> Self {
        let head = Head { reads_by_call: true, ..Head::default() };
        let mut host = Host::new(&head, "6.12").expect("6.12 is modelled");
        host.set_address(Ipv4Addr::new(192, 168, 0, 1));
        Self {
            folder,
            host,
            thread: thread::current().id(),
            sockets: BTreeMap::new(),
            epolls: BTreeMap::new(),
            packets: VecDeque::new(),
            reads: 0,
            flushes: 0,
            suspended: None,
            over: None,
            is_ending: false,
            ended_thread: None,
            events: Vec::new(),
        }
    }

    /// The endpoint cannot do this: it is told by name.
    pub(crate) fn refuse(&mut self, what: &str) -> Errno {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join("refused"));
        let told = file.and_then(|mut file| writeln!(file, "{what}"));
        if let Err(error) = told {
            eprintln!("the endpoint cannot do this: {what} ({}: {error})", self.folder.display());
        }
        Errno(libc::ENOSYS)
    }

    /// What the host says in a sentence is a refusal.
    fn granted<T>(&mut self, told: Result<T, String>) -> Result<T, Errno> {
        told.map_err(|sentence| self.refuse(&sentence))
    }

    pub(crate) fn errno(&mut self, name: &str) -> Errno {
        match ERRORS.iter().find(|(known, _)| *known == name) {
            Some((_, number)) => Errno(*number),
            None => self.refuse(&format!("the error {name}")),
        }
    }

    pub(crate) fn has(&self, fd: i32) -> bool {
        self.sockets.contains_key(&fd) || self.epolls.contains_key(&fd)
    }

    pub(crate) fn socket_of(&mut self, fd: i32) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&fd).ok_or(Errno(libc::EBADF))
    }

    pub(crate) fn number(&self, fd: i32) -> Result<i32, Errno> {
        self.sockets.get(&fd).map(|socket| socket.number).ok_or(Errno(libc::EBADF))
    }

    // Time, and calls that wait.

    pub(crate) fn begin_call(&mut self) {
        self.reads = 0;
    }

    pub(crate) fn end_call(&mut self, result: Result<i64, Errno>) -> Result<i64, Errno> {
        self.happened();
        result
    }

    /// Makes a call that does not wait.
    pub(crate) fn called(&mut self, call: impl FnOnce(&mut Self) -> Result<i64, Errno>) -> Result<i64, Errno> {
        self.begin_call();
        let result = call(self);
        self.end_call(result)
    }

    pub(crate) fn is_own_thread(&self) -> bool {
        thread::current().id() == self.thread
    }

    /// A call waits in the other thread.
    pub(crate) fn suspend(&mut self, call: Waiting) {
        self.suspended = Some(call);
        self.happened();
    }

    /// The call that waited in this thread is over.
    pub(crate) fn note_ended_thread(&mut self, thread: i32) {
        self.ended_thread = Some(thread);
    }

    /// A call has been over since this was asked last.
    pub(crate) fn take_ending(&mut self) -> bool {
        std::mem::take(&mut self.is_ending)
    }

    /// The thread that has made it, once it knows.
    pub(crate) fn ended_thread(&self) -> Option<i32> {
        self.ended_thread
    }

    /// What the call that waited has returned, and when.
    pub(crate) fn take_over(&mut self) -> Option<(i64, Result<i64, Errno>)> {
        self.over.take()
    }

    /// Lets time pass until a call does not wait any more.
    pub(crate) fn wait_for(&mut self, mut call: Waiting) -> Result<i64, Errno> {
        let end = self.host.now() + PATIENCE;
        loop {
            let until = match call(self) {
                Ok(value) => return Ok(value),
                Err(WouldBlock::Failed(errno)) => return Err(errno),
                Err(WouldBlock::Until(until)) => until,
            };
            if self.host.now() >= end {
                return Err(self.refuse("a call that waits for more than an hour"));
            }
            self.step(until.min(end))?;
        }
    }

    /// Something has happened: who waits looks again.
    fn happened(&mut self) {
        while let Ok(Some(sent)) = self.host.wait(self.host.now()) {
            self.packets.push_back(sent);
        }
        self.note_zerocopy();
        self.note_news();
        let Some(mut call) = self.suspended.take() else { return };
        match call(self) {
            Err(WouldBlock::Until(_)) => self.suspended = Some(call),
            over => {
                let result = over.map_err(|why| if let WouldBlock::Failed(errno) = why { errno } else { Errno(libc::EAGAIN) });
                self.over = Some((self.micros(), result));
                (self.is_ending, self.ended_thread) = (true, None);
                crate::OVER.notify_all();
                self.happened();
            }
        }
    }

    /// Until when the call that waits does so at most.
    fn deadline(&mut self) -> Instant {
        let Some(mut call) = self.suspended.take() else { return Instant::NEVER };
        let until = if let Err(WouldBlock::Until(until)) = call(self) { until } else { self.host.now() };
        self.suspended = Some(call);
        until
    }

    /// Time passes until the next event, and no longer than until then.
    fn step(&mut self, until: Instant) -> Result<(), Errno> {
        let next = self.host.next_due().min(until).max(self.host.now());
        let waited = self.host.wait(next);
        if let Some(sent) = self.granted(waited)? {
            self.packets.push_back(sent);
        }
        self.happened();
        Ok(())
    }

    fn pass(&mut self, until: Instant) -> Result<(), Errno> {
        while self.host.now() < until {
            let next = until.min(self.deadline());
            self.step(next)?;
        }
        Ok(())
    }

    pub(crate) fn sleep(&mut self, micros: u32) -> Result<i64, Errno> {
        self.pass(self.host.now() + Duration::from_micros(u64::from(micros)))?;
        Ok(0)
    }

    fn micros(&self) -> i64 {
        EPOCH + self.host.now().since(Instant::ZERO).as_micros() as i64
    }

    /// What the clock shows. Who reads it again and again waits for it to go on.
    pub(crate) fn read_clock(&mut self) -> i64 {
        self.reads += 1;
        if self.reads > READS && self.is_own_thread() || self.reads > 1000 * READS {
            // A failure was told as a refusal.
            let _refused = self.pass(self.host.now() + STEP);
        }
        self.micros()
    }

    // Packets.

    pub(crate) fn packet_in(&mut self, bytes: &[u8]) -> Result<i64, Errno> {
        self.set_up()?;
        let told = self.host.inject(bytes);
        self.granted(told)?;
        Ok(0)
    }

    /// The next packet and when it left; none if none comes.
    pub(crate) fn packet_out(&mut self) -> (i64, Vec<u8>) {
        let end = self.host.now() + PATIENCE;
        while self.packets.is_empty() && self.host.now() < end {
            let until = end.min(self.deadline());
            if self.host.next_due() == Instant::NEVER && until == end || self.step(until).is_err() {
                break;
            }
        }
        let sent = self.packets.pop_front().unwrap_or(Sent { at: self.host.now(), bytes: Vec::new() });
        (EPOCH + sent.at.since(Instant::ZERO).as_micros() as i64, sent.bytes)
    }

    /// Takes over what commands have set.
    pub(crate) fn set_up(&mut self) -> Result<(), Errno> {
        let flushes = settings::flushes(&self.folder);
        if flushes != std::mem::replace(&mut self.flushes, flushes) {
            self.host.forget_servers();
        }
        let told = settings::sysctls(&self.folder).and_then(|sysctls| self.host.set_sysctls(&sysctls).map_err(settings::first_clause));
        self.granted(told)?;
        let announced = settings::announced(&self.folder);
        let announced = self.granted(announced)?;
        self.host.set_announced(&announced);
        Ok(())
    }

    // Sockets.

    pub(crate) fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i64, Errno> {
        self.set_up()?;
        if domain != libc::AF_INET {
            return Err(self.refuse("sockets of IPv6"));
        }
        if kind & 0xf != libc::SOCK_STREAM || ![0, libc::IPPROTO_TCP, MPTCP].contains(&protocol) {
            return Err(self.refuse(&format!("sockets of the type {kind} and the protocol {protocol}")));
        }
        let told = self.host.call(&Verb::Socket { mptcp: protocol == MPTCP });
        let number = self.value(told)?;
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        self.add(Socket { number: number as i32, nonblocking, ..Socket::default() })
    }

    /// A descriptor of this process stands for the socket, so that no file gets its number.
    fn add(&mut self, socket: Socket) -> Result<i64, Errno> {
        let fd = descriptor()?;
        self.sockets.insert(fd, socket);
        Ok(i64::from(fd))
    }

    /// What a call of the host has returned.
    fn value(&mut self, told: Result<Result<i64, String>, String>) -> Result<i64, Errno> {
        let told = self.granted(told)?;
        told.map_err(|name| self.errno(&name))
    }

    pub(crate) fn bind(&mut self, fd: i32, at: Option<SocketAddrV4>) -> Result<i64, Errno> {
        let number = self.number(fd)?;
        let Some(at) = at else { return Err(self.refuse("bind to what is no address of IPv4")) };
        let told = self.host.bind(number, at);
        self.granted(told)?;
        Ok(0)
    }

    pub(crate) fn listen(&mut self, fd: i32) -> Result<i64, Errno> {
        let number = self.number(fd)?;
        let told = self.host.call(&Verb::Listen { fd: number });
        let listens = self.value(told)?;
        self.note_listeners();
        Ok(listens)
    }

    /// What commands read of listening sockets.
    fn note_listeners(&self) {
        let ports = self.sockets.values().filter_map(|socket| self.host.listens_at(socket.number)).map(|at| at.port());
        settings::tell_listeners(&self.folder, ports);
    }

    pub(crate) fn accept(&mut self, fd: i32) -> Result<i64, WouldBlock> {
        let number = self.number(fd)?;
        let told = self.host.call(&Verb::Accept { fd: number });
        match self.value(told) {
            Ok(accepted) => Ok(self.add(Socket { number: accepted as i32, connected: true, ..Socket::default() })?),
            Err(errno) => Err(self.would_block(fd, 0, errno)?),
        }
    }

    /// A call that finds nothing waits, unless it is told not to.
    fn would_block(&mut self, fd: i32, flags: i32, errno: Errno) -> Result<WouldBlock, Errno> {
        let waits = errno == Errno(libc::EAGAIN) && !self.socket_of(fd)?.nonblocking && flags & libc::MSG_DONTWAIT == 0;
        Ok(if waits { WouldBlock::Until(Instant::NEVER) } else { WouldBlock::Failed(errno) })
    }

    pub(crate) fn peer(&self, fd: i32) -> Option<SocketAddrV4> {
        self.host.peer_of(self.number(fd).ok()?)
    }

    pub(crate) fn connect(&mut self, fd: i32, to: Option<SocketAddrV4>) -> Result<i64, WouldBlock> {
        let number = self.number(fd)?;
        let Some(to) = to else { return Err(self.refuse("connect to what is no address of IPv4").into()) };
        if to.ip().is_unspecified() && to.port() == 0 {
            return Err(self.refuse("connect to AF_UNSPEC, which disconnects").into());
        }
        let nonblocking = self.socket_of(fd)?.nonblocking;
        match self.host.connecting(number) {
            Connecting::Fresh => {
                self.set_up()?;
                let fast = self.socket_of(fd)?.remembered.get(&(libc::SOL_TCP, TCP_FASTOPEN_CONNECT)).is_some_and(|on| *on != 0);
                if fast && self.host.has_fast_open_cookie(to) {
                    let before = self.socket_of(fd)?.deferred.replace(to);
                    return if before.is_some() { Err(Errno(libc::EISCONN).into()) } else { Ok(0) };
                }
                if fast {
                    let told = self.host.begin_fast_open(number, to, 0);
                    let _in_progress = self.granted(told)?;
                    return Err(if nonblocking { Errno(libc::EINPROGRESS).into() } else { WouldBlock::Until(Instant::NEVER) });
                }
                let told = self.host.begin_connecting(number, to);
                self.granted(told)?;
                Err(if nonblocking { Errno(libc::EINPROGRESS).into() } else { WouldBlock::Until(Instant::NEVER) })
            }
            Connecting::InProgress if nonblocking => Err(Errno(libc::EALREADY).into()),
            Connecting::InProgress => Err(WouldBlock::Until(Instant::NEVER)),
            Connecting::Established => {
                let told_before = std::mem::replace(&mut self.socket_of(fd)?.connected, true);
                if told_before { Err(Errno(libc::EISCONN).into()) } else { Ok(0) }
            }
            Connecting::Over => {
                let name = self.host.take_error(number).unwrap_or("ECONNREFUSED");
                Err(self.errno(name).into())
            }
            Connecting::Listens => Err(Errno(libc::EISCONN).into()),
        }
    }

    pub(crate) fn receive(&mut self, fd: i32, most: usize, flags: i32) -> Result<i64, WouldBlock> {
        let unknown = flags & !(libc::MSG_DONTWAIT | libc::MSG_TRUNC | libc::MSG_NOSIGNAL);
        if unknown != 0 {
            return Err(self.refuse(&format!("receiving with the flags {unknown:#x}")).into());
        }
        let number = self.number(fd)?;
        if self.socket_of(fd)?.deferred.is_some() {
            return Err(self.would_block(fd, flags, Errno(libc::EAGAIN))?);
        }
        if matches!(self.host.connecting(number), Connecting::Fresh | Connecting::Listens) {
            return Err(Errno(libc::ENOTCONN).into());
        }
        if most == 0 {
            return Ok(0);
        }
        let told = self.host.call(&Verb::Read { fd: number, len: most as u64 });
        match self.value(told) {
            Ok(read) => Ok(read),
            Err(errno) => Err(self.would_block(fd, flags, errno)?),
        }
    }

    pub(crate) fn fcntl(&mut self, fd: i32, command: i32, value: i32) -> Result<i64, Errno> {
        let socket = self.socket_of(fd)?;
        match command {
            libc::F_GETFL => Ok(i64::from(libc::O_RDWR | if socket.nonblocking { libc::O_NONBLOCK } else { 0 })),
            libc::F_SETFL => {
                socket.nonblocking = value & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            _ => Err(self.refuse(&format!("fcntl with the command {command}"))),
        }
    }

    pub(crate) fn ioctl(&mut self, fd: i32, request: u64) -> Result<i32, Errno> {
        let number = self.number(fd)?;
        match request {
            libc::FIONREAD => Ok(self.host.unread(number) as i32),
            _ => Err(self.refuse(&format!("ioctl with the request {request:#x}"))),
        }
    }

    pub(crate) fn close(&mut self, fd: i32) -> Result<i64, Errno> {
        if self.epolls.remove(&fd).is_none() {
            let number = self.number(fd)?;
            let told = self.host.call(&Verb::Close { fd: number });
            self.sockets.remove(&fd);
            self.value(told)?;
            self.note_listeners();
        }
        // SAFETY: `add` has opened it, and nobody else knows it.
        unsafe { libc::close(fd) };
        Ok(0)
    }

    pub(crate) fn shutdown(&mut self, fd: i32, how: i32) -> Result<i64, Errno> {
        let number = self.number(fd)?;
        let how = match how {
            libc::SHUT_RD => Directions::Read,
            libc::SHUT_WR => Directions::Write,
            libc::SHUT_RDWR => Directions::Both,
            _ => return Err(Errno(libc::EINVAL)),
        };
        if self.host.connecting(number) == Connecting::Fresh {
            return Err(Errno(libc::ENOTCONN));
        }
        let told = self.host.call(&Verb::Shutdown { fd: number, how });
        self.value(told)
    }

    /// Whether the queue of errors has something.
    pub(crate) fn take_notice(&mut self, fd: i32) -> Result<i64, Errno> {
        if self.socket_of(fd)?.notices.is_empty() { Err(Errno(libc::EAGAIN)) } else { Ok(0) }
    }

    /// Control messages of the last `recvmsg`.
    pub(crate) fn take_control(&mut self, fd: i32, of_errors: bool) -> Vec<u8> {
        let Some(socket) = self.sockets.get_mut(&fd) else { return Vec::new() };
        if !of_errors {
            let asks = socket.remembered.get(&(libc::SOL_TCP, TCP_INQ)).is_some_and(|on| *on != 0);
            let left = self.host.unread(socket.number) as i32;
            // Linux adds one for the peer's FIN.
            let left = if left == 0 && self.host.readiness(socket.number).read_closed { 1 } else { left };
            return if asks { control(libc::SOL_TCP, TCP_INQ, &left.to_ne_bytes()) } else { Vec::new() };
        }
        let Some((first, last)) = socket.notices.pop_front() else { return Vec::new() };
        // `struct sock_extended_err`, and room for an address.
        let mut told = vec![0; 32];
        (told[4], told[6]) = (ORIGIN_ZEROCOPY, CODE_COPIED);
        told[8..12].copy_from_slice(&first.to_ne_bytes());
        told[12..16].copy_from_slice(&last.to_ne_bytes());
        control(libc::SOL_IP, libc::IP_RECVERR, &told)
    }

    /// Calls whose data is acknowledged need it no more: the program is told. What the link takes
    /// was copied, as with TUN.
    fn note_zerocopy(&mut self) {
        for socket in self.sockets.values_mut() {
            if socket.unacknowledged.is_empty() {
                continue;
            }
            let acked = self.host.acked(socket.number);
            while let Some(&(end, number)) = socket.unacknowledged.front()
                && end <= acked
            {
                socket.unacknowledged.pop_front();
                socket.noticed += 1;
                // Those in a row are told as one (Linux: `skb_zerocopy_notify_extend`).
                match socket.notices.back_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => socket.notices.push_back((number, number)),
                }
            }
        }
    }

    pub(crate) fn splice(&mut self, _from: i32, _to: i32, _length: usize, _flags: u32) -> Result<i64, Errno> {
        Err(self.refuse("splice"))
    }
}

/// A descriptor that nothing else has.
fn descriptor() -> Result<i32, Errno> {
    // SAFETY: a path of C.
    let fd = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 { Err(Errno(libc::EMFILE)) } else { Ok(fd) }
}

/// A control message, as it lies in memory (`struct cmsghdr`).
fn control(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + data.len()).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&level.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}
