//! A real Linux kernel behind a TUN device, in a network namespace of its own.
//!
//! Made for the machine of `polypath linux exec`, whose time is virtual: there nothing that this
//! program does takes time, so that a wait ends when a packet or a timer comes, and runs are equal
//! to the byte. Elsewhere it works too, as root, but a machine under load is late.
//!
//! The program on the host reads at once whatever it can, as on our endpoint; `read` tells what
//! came since the last `read`.

use crate::endpoint::{Endpoint, Sent};
use crate::numbers::{PORT, local_address, peer_address};
use crate::script::{Directions, Engine, Head, SocketOption, Verb};
use polypath_base::{Duration, Instant};
use polypath_guest::sys;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::Command;

/// What a script is told of is a sentence.
type Outcome<T> = Result<T, String>;

const DEVICE: &str = "tun0";
const IPPROTO_MPTCP: i32 = 262;
/// Scripts begin at multiples of this. It is 2^14 ticks of CONFIG_HZ=250, and so a multiple of all
/// steps in which the kernel's long timers fire (kernel/time/timer.c): when they do depends on the
/// script alone.
const BEGINNING: u64 = 16_384 * 4_000_000;
/// Lets the kernel's own threads run, which have what is due at this very time, ns.
const MOMENT: u64 = 1;

/// `include/uapi/linux/tcp.h`, which libc does not name.
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_RTO_MAX_MS: i32 = 44;

/// The host. It belongs to the thread that made it, whose namespace it has.
#[derive(Debug)]
pub struct Host {
    tun: File,
    alarm: sys::Alarm,
    start: u64,
    sockets: BTreeMap<i32, Sock>,
    newest: Option<i32>,
    reads_by_call: bool,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Sock {
    fd: OwnedFd,
    listens: bool,
    /// It connects or is connected.
    is_connection: bool,
    /// Bytes that came since the last `read`.
    unread: u64,
    finished: bool,
    error: Option<String>,
}

impl Host {
    /// Moves the calling thread into a new network namespace and makes it the host that a script's
    /// head describes.
    ///
    /// # Errors
    /// A sentence, if the kernel refuses something.
    pub fn new(head: &Head) -> Outcome<Self> {
        sys::new_network().map_err(in_words)?;
        sys::timer_slack(1);
        let tun = sys::open_tun(DEVICE).map_err(in_words)?;
        set("net.ipv6.conf.all.disable_ipv6", "1")?;
        ip(&["link", "set", "lo", "up"])?;
        ip(&["link", "set", DEVICE, "mtu", &head.mtu.to_string(), "up"])?;
        let mut addresses: Vec<Ipv4Addr> = vec![local_address(0)];
        addresses.extend(head.subflows.iter().map(|subflow| subflow.local));
        addresses.extend(head.endpoints.iter().map(|endpoint| endpoint.address));
        let mut seen = Vec::new();
        for address in addresses {
            if !seen.contains(&address) {
                ip(&["addr", "add", &format!("{address}/24"), "dev", DEVICE])?;
                seen.push(address);
            }
        }
        ip(&["route", "add", "default", "dev", DEVICE])?;
        // What our endpoints take where a script names none.
        set("net.ipv4.tcp_congestion_control", "reno")?;
        for (name, value) in &head.sysctls {
            set(name, value)?;
        }
        if let Some((subflows, addresses)) = head.limits {
            ip(&["mptcp", "limits", "set", "subflows", &subflows.to_string(), "add_addr_accepted", &addresses.to_string()])?;
        }
        for endpoint in &head.endpoints {
            let address = endpoint.address.to_string();
            let id = endpoint.id.map(|id| id.to_string());
            let mut words = vec!["mptcp", "endpoint", "add", &address, "dev", DEVICE];
            words.extend(id.iter().flat_map(|id| ["id", id]));
            words.extend(endpoint.flags.iter().map(String::as_str));
            ip(&words)?;
        }
        let start = (sys::monotonic() / BEGINNING + 1) * BEGINNING;
        sys::sleep_until(start);
        Ok(Self {
            tun,
            alarm: sys::Alarm::new().map_err(in_words)?,
            start,
            sockets: BTreeMap::new(),
            newest: None,
            reads_by_call: head.reads_by_call,
            buffer: vec![0; 1 << 16],
        })
    }

    /// An IPv4 packet of the kernel's, if there is one.
    fn next_packet(&mut self) -> Outcome<Option<Vec<u8>>> {
        loop {
            match self.tun.read(&mut self.buffer) {
                Ok(length) if self.buffer[..length].first().is_some_and(|byte| byte >> 4 == 4) => {
                    return Ok(Some(self.buffer[..length].to_vec()));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(format!("{DEVICE}: {error}")),
            }
        }
    }

    /// The program reads what it can, unless it reads by call.
    fn read_all(&mut self) {
        if self.reads_by_call {
            return;
        }
        for socket in self.sockets.values_mut().filter(|socket| socket.is_connection && !socket.finished) {
            // The low-water mark counts for this call, and not for one that does not block.
            while socket.error.is_none() && !socket.finished && sys::is_readable(&socket.fd) {
                match sys::receive(&socket.fd, &mut self.buffer, libc::MSG_DONTWAIT) {
                    Ok(0) => socket.finished = true,
                    Ok(length) => socket.unread += length as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => socket.error = Some(name_of(&error)),
                }
            }
        }
    }

    fn free_number(&self) -> i32 {
        (3..).find(|fd| !self.sockets.contains_key(fd)).unwrap_or(i32::MAX)
    }

    fn socket(&mut self, fd: i32) -> Outcome<&mut Sock> {
        self.sockets.get_mut(&fd).ok_or_else(|| format!("{fd} is no socket"))
    }

    fn add(&mut self, fd: OwnedFd, is_connection: bool) -> i64 {
        let number = self.free_number();
        self.sockets.insert(number, Sock { fd, listens: false, is_connection, unread: 0, finished: false, error: None });
        i64::from(number)
    }

    fn read(&mut self, fd: i32, len: u64) -> Outcome<Result<i64, String>> {
        if self.reads_by_call {
            let mut buffer = vec![0; usize::try_from(len).map_err(|_| "a length is too large")?];
            let read = sys::receive(&self.socket(fd)?.fd, &mut buffer, libc::MSG_DONTWAIT);
            return Ok(read.map(|length| length as i64).map_err(|error| name_of(&error)));
        }
        let socket = self.socket(fd)?;
        let waits = socket.unread.min(len);
        socket.unread -= waits;
        Ok(match socket.error.take() {
            Some(error) if waits == 0 => Err(error),
            kept => {
                socket.error = kept;
                if waits == 0 && !socket.finished { Err("EAGAIN".to_owned()) } else { Ok(waits as i64) }
            }
        })
    }
}

impl Endpoint for Host {
    fn engine(&self) -> Engine {
        Engine::Linux
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(sys::monotonic().saturating_sub(self.start))
    }

    fn wait(&mut self, until: Instant) -> Outcome<Option<Sent>> {
        let mut is_last = false;
        loop {
            let at = self.now();
            if let Some(bytes) = self.next_packet()? {
                return Ok(Some(Sent { at, bytes }));
            }
            if at >= until && is_last {
                return Ok(None);
            }
            is_last = at >= until;
            let end = if is_last { at + Duration::from_nanos(MOMENT) } else { until };
            self.alarm.wait(&self.tun, self.start + end.since(Instant::ZERO).as_nanos()).map_err(in_words)?;
            self.read_all();
        }
    }

    fn inject(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.tun.write_all(bytes).map_err(|error| format!("{DEVICE}: {error}"))?;
        self.read_all();
        Ok(())
    }

    fn call(&mut self, verb: &Verb) -> Outcome<Result<i64, String>> {
        let kernel = |done: std::io::Result<()>| done.map(|()| 0).map_err(|error| name_of(&error));
        Ok(match *verb {
            Verb::Socket { mptcp } => {
                let protocol = if mptcp { IPPROTO_MPTCP } else { libc::IPPROTO_TCP };
                let fd = sys::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, protocol).map_err(in_words)?;
                Ok(self.add(fd, false))
            }
            Verb::Bind { fd } => {
                sys::bind(&self.socket(fd)?.fd, SocketAddr::from((local_address(0), PORT))).map_err(in_words)?;
                Ok(0)
            }
            Verb::Listen { fd } => {
                let socket = self.socket(fd)?;
                sys::listen(&socket.fd).map_err(in_words)?;
                socket.listens = true;
                Ok(0)
            }
            Verb::Accept { fd } => match sys::accept_now(&self.socket(fd)?.fd) {
                Ok(accepted) => {
                    let number = self.add(accepted, true);
                    self.newest = Some(number as i32);
                    self.read_all();
                    Ok(number)
                }
                Err(error) => Err(name_of(&error)),
            },
            Verb::Connect { fd } => {
                self.newest = Some(fd);
                let socket = self.socket(fd)?;
                socket.is_connection = true;
                kernel(sys::connect_now(&socket.fd, SocketAddr::from((peer_address(0), PORT))))
            }
            Verb::Write { fd, len } => {
                let bytes = vec![0; usize::try_from(len).map_err(|_| "a length is too large")?];
                sys::send_now(&self.socket(fd)?.fd, &bytes).map(|sent| sent as i64).map_err(|error| name_of(&error))
            }
            Verb::Read { fd, len } => {
                self.read_all();
                self.read(fd, len)?
            }
            Verb::Shutdown { fd, how } => {
                let how = match how {
                    Directions::Read => libc::SHUT_RD,
                    Directions::Write => libc::SHUT_WR,
                    Directions::Both => libc::SHUT_RDWR,
                };
                kernel(sys::shutdown(&self.socket(fd)?.fd, how))
            }
            Verb::Close { fd } => {
                self.socket(fd)?;
                self.sockets.remove(&fd);
                Ok(0)
            }
            Verb::SetOption { fd, option, value } => {
                let (level, name) = match option {
                    SocketOption::ReuseAddr => (libc::SOL_SOCKET, libc::SO_REUSEADDR),
                    SocketOption::ReceiveLowWater => (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
                    SocketOption::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUF),
                    SocketOption::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
                    SocketOption::Linger => (libc::SOL_SOCKET, libc::SO_LINGER),
                    SocketOption::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
                    SocketOption::SynCount => (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
                    SocketOption::Cork => (libc::IPPROTO_TCP, libc::TCP_CORK),
                    SocketOption::NotSentLowWater => (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT),
                    SocketOption::MaxSegment => (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
                    SocketOption::UserTimeout => (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
                    SocketOption::RtoMax => (libc::IPPROTO_TCP, TCP_RTO_MAX_MS),
                };
                let fd = &self.socket(fd)?.fd;
                kernel(if option == SocketOption::Linger {
                    sys::set_option_now(fd, level, name, libc::linger { l_onoff: i32::from(value >= 0), l_linger: value.max(0) })
                } else {
                    sys::set_option_now(fd, level, name, value)
                })
            }
            Verb::RemoveEndpoint { id } => {
                ip(&["mptcp", "endpoint", "delete", "id", &id.to_string()])?;
                Ok(0)
            }
        })
    }

    fn info(&mut self, field: &str) -> Option<u64> {
        let mut info = [0; 256];
        let socket = self.sockets.get(&self.newest?)?;
        let length = sys::get_option(&socket.fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
        // struct tcp_info of include/uapi/linux/tcp.h: place and size.
        let (at, size) = match field {
            "tcpi_state" => (0, 1),
            "tcpi_ca_state" => (1, 1),
            "tcpi_backoff" => (4, 1),
            "tcpi_rto" => (8, 4),
            "tcpi_snd_mss" => (16, 4),
            "tcpi_unacked" => (24, 4),
            "tcpi_pmtu" => (60, 4),
            "tcpi_rtt" => (68, 4),
            "tcpi_rttvar" => (72, 4),
            "tcpi_snd_ssthresh" => (76, 4),
            "tcpi_snd_cwnd" => (80, 4),
            "tcpi_reordering" => (88, 4),
            "tcpi_total_retrans" => (100, 4),
            "tcpi_min_rtt" => (148, 4),
            "tcpi_delivered" => (192, 4),
            "tcpi_delivered_ce" => (196, 4),
            _ => return None,
        };
        let bytes = info[..length].get(at..at + size)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

fn in_words(error: sys::Error) -> String {
    error.to_string()
}

fn set(name: &str, value: &str) -> Outcome<()> {
    let file = format!("/proc/sys/{}", name.replace('.', "/"));
    std::fs::write(&file, value).map_err(|error| format!("{name} = {value}: {error}"))
}

/// Runs the program `ip`.
fn ip(words: &[&str]) -> Outcome<()> {
    let done = Command::new("ip").args(words).output().map_err(|error| format!("ip: {error}"))?;
    if done.status.success() { Ok(()) } else { Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim())) }
}

/// The name of an error of the kernel's.
fn name_of(error: &std::io::Error) -> String {
    const NAMES: [(i32, &str); 13] = [
        (libc::EAGAIN, "EAGAIN"),
        (libc::EINPROGRESS, "EINPROGRESS"),
        (libc::EALREADY, "EALREADY"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ECONNRESET, "ECONNRESET"),
        (libc::ECONNABORTED, "ECONNABORTED"),
        (libc::EPIPE, "EPIPE"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::EHOSTUNREACH, "EHOSTUNREACH"),
        (libc::ENOTCONN, "ENOTCONN"),
        (libc::EISCONN, "EISCONN"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    ];
    let known = NAMES.iter().find(|(number, _)| Some(*number) == error.raw_os_error());
    known.map_or_else(|| error.to_string(), |(_, name)| (*name).to_owned())
}
