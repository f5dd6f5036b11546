//! The system calls of the guest behind safe functions: namespaces, mounts, sockets, clocks.
//! Decides nothing.
//!
//! Errors are of the machine and name the call; who calls adds what it was for.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

pub use polypath_base::Error;

/// An outcome whose error says whose fault it is: the caller's, who wrote the plan, or the
/// machine's.
pub type Outcome<T> = Result<T, Error>;

pub fn failed(call: &str) -> Error {
    Error::machine(format!("{call}: {}", io::Error::last_os_error()))
}

fn check(result: libc::c_int, call: &str) -> Outcome<libc::c_int> {
    if result < 0 { Err(failed(call)) } else { Ok(result) }
}

fn text(value: &str) -> Outcome<CString> {
    CString::new(value).map_err(|_| Error::caller(format!("{value:?} has a zero byte")))
}

/// Takes over a descriptor that a call has just returned.
fn own(fd: libc::c_int, call: &str) -> Outcome<OwnedFd> {
    check(fd, call)?;
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong, options: &str) -> Outcome<()> {
    let (source, place, fs, data) = (text(source)?, text(target)?, text(kind)?, text(options)?);
    // SAFETY: four strings that end in zero and live until the call returns.
    let done = unsafe { libc::mount(source.as_ptr(), place.as_ptr(), fs.as_ptr(), flags, data.as_ptr().cast()) };
    check(done, &format!("mount {kind} at {target}")).map(drop)
}

/// Moves the calling thread into a new network namespace.
pub fn new_network() -> Outcome<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }, "unshare").map(drop)
}

/// Moves the calling thread into a network namespace.
pub fn enter_network(namespace: &impl AsRawFd) -> Outcome<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, "setns").map(drop)
}

pub fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> Outcome<OwnedFd> {
    // SAFETY: no memory is passed.
    own(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }, "socket")
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until CLOCK_MONOTONIC reaches `at` (nanoseconds).
pub fn sleep_until(at: u64) {
    let time = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    // SAFETY: `time` outlives the call, no remainder is asked for.
    while unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut()) } == libc::EINTR
    {
    }
}

pub fn sleep_for(ns: u64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: `time` outlives the call, no remainder is asked for.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// How late the calling thread's sleeps may end; threads it starts later inherit it.
pub fn timer_slack(ns: libc::c_ulong) {
    // SAFETY: no memory is passed.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) };
}

/// Sets a socket option to a plain value.
pub fn set_option<T: Copy>(fd: &impl AsRawFd, level: libc::c_int, name: libc::c_int, value: T) -> Outcome<()> {
    set_option_now(fd, level, name, value).map_err(|_| failed(&format!("setsockopt {level}/{name}")))
}

/// As [`set_option`], for who wants to know which error it was.
pub fn set_option_now<T: Copy>(fd: &impl AsRawFd, level: libc::c_int, name: libc::c_int, value: T) -> std::io::Result<()> {
    // SAFETY: `value` is plain data of the size given and outlives the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size_of::<T>() as libc::socklen_t) };
    if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

pub fn set_option_bytes(fd: &impl AsRawFd, level: libc::c_int, name: libc::c_int, value: &[u8]) -> Outcome<()> {
    // SAFETY: `value` outlives the call and has the length given.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    check(done, &format!("setsockopt {level}/{name}")).map(drop)
}

/// Reads a socket option into `into`; returns how much of it the kernel filled, or none if the
/// kernel has no such option.
pub fn get_option(fd: &impl AsRawFd, level: libc::c_int, name: libc::c_int, into: &mut [u8]) -> Option<usize> {
    let mut length = into.len() as libc::socklen_t;
    // SAFETY: `into` has the length that `length` says, and both outlive the call.
    let done = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, into.as_mut_ptr().cast(), &raw mut length) };
    (done == 0).then_some(length as usize)
}

/// Bytes that wait in a TCP socket's receive queue.
pub fn waiting_bytes(fd: &impl AsRawFd) -> Option<u64> {
    let mut waiting: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int.
    (unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut waiting) } == 0).then_some(waiting.max(0) as u64)
}

/// Sends the bytes, blocking; returns how many the socket took.
pub fn send(fd: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` outlives the call and has the length given.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// As `send`, but never blocks.
pub fn send_now(fd: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` outlives the call and has the length given.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Receives into `into`.
pub fn receive(fd: &impl AsRawFd, into: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: `into` outlives the call and has the length given.
    let got = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// A socket of TCP or MPTCP: what the kernel says of it was checked.
#[derive(Copy, Clone, Debug)]
pub struct StreamSocket<'a>(BorrowedFd<'a>);

impl<'a> StreamSocket<'a> {
    /// An error if the socket has another protocol.
    pub fn new(fd: &'a impl AsFd) -> Outcome<Self> {
        const IPPROTO_MPTCP: i32 = 262;
        let mut protocol = [0; 4];
        let length = get_option(&fd.as_fd(), libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut protocol);
        match (length, i32::from_ne_bytes(protocol)) {
            (Some(4), libc::IPPROTO_TCP | IPPROTO_MPTCP) => Ok(Self(fd.as_fd())),
            _ => Err(Error::caller("the socket is none of TCP or MPTCP")),
        }
    }
}

/// Throws up to `length` bytes of a stream socket away without copying them; returns how many.
pub fn discard(socket: StreamSocket<'_>, length: usize, flags: libc::c_int) -> io::Result<usize> {
    // Any address will do of which `length` bytes still are user space; a write to this one fails.
    let nowhere = std::ptr::without_provenance_mut(4096);
    // SAFETY: with MSG_TRUNC a TCP or MPTCP socket, which this one is, writes nothing to the buffer
    // (net/ipv4/tcp.c, net/mptcp/protocol.c).
    let got = unsafe { libc::recv(socket.0.as_raw_fd(), nowhere, length, flags | libc::MSG_TRUNC) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// An IPv4 or IPv6 address and port as the kernel wants them.
fn address_bytes(address: std::net::SocketAddr) -> ([u8; 28], libc::socklen_t) {
    let mut bytes = [0; 28];
    match address {
        std::net::SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[2..4].copy_from_slice(&v4.port().to_be_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            (bytes, 16)
        }
        std::net::SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[2..4].copy_from_slice(&v6.port().to_be_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            (bytes, 28)
        }
    }
}

pub fn bind(fd: &impl AsRawFd, address: std::net::SocketAddr) -> Outcome<()> {
    let (bytes, length) = address_bytes(address);
    // SAFETY: `bytes` outlives the call and has at least `length` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), bytes.as_ptr().cast(), length) }, &format!("bind {address}")).map(drop)
}

pub fn connect(fd: &impl AsRawFd, address: std::net::SocketAddr) -> Outcome<()> {
    let (bytes, length) = address_bytes(address);
    // SAFETY: `bytes` outlives the call and has at least `length` bytes.
    check(unsafe { libc::connect(fd.as_raw_fd(), bytes.as_ptr().cast(), length) }, "connect").map(drop)
}

pub fn listen(fd: &impl AsRawFd) -> Outcome<()> {
    // SAFETY: no memory is passed. The queue is as long as the reference's.
    check(unsafe { libc::listen(fd.as_raw_fd(), 5) }, "listen").map(drop)
}

pub fn accept(fd: &impl AsRawFd) -> Outcome<OwnedFd> {
    // SAFETY: the peer's address is not asked for.
    own(unsafe { libc::accept4(fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) }, "accept")
}

/// Connects a socket, which need not block; the error is the kernel's.
pub fn connect_now(fd: &impl AsRawFd, address: std::net::SocketAddr) -> io::Result<()> {
    let (bytes, length) = address_bytes(address);
    // SAFETY: `bytes` outlives the call and has at least `length` bytes.
    let done = unsafe { libc::connect(fd.as_raw_fd(), bytes.as_ptr().cast(), length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Accepts a connection whose socket never blocks; the error is the kernel's.
pub fn accept_now(fd: &impl AsRawFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the peer's address is not asked for.
    let accepted = unsafe { libc::accept4(fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    if accepted < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(accepted) }) }
}

/// Opens a TUN device of this name for IP packets without a header of its own; reads never block.
pub fn open_tun(name: &str) -> Outcome<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let place = "/dev/net/tun";
    let tun = std::fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(place)
        .map_err(|e| Error::machine(format!("{place}: {e}")))?;
    // SAFETY: a request of zeros is valid: an empty name and no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) }, "TUNSETIFF")?;
    Ok(tun)
}

/// Whether something can be read now.
pub fn is_readable(fd: &impl AsRawFd) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

/// A timer to wait with. The timeout of poll itself is late by a thousandth.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    pub fn new() -> Outcome<Self> {
        // SAFETY: no memory is passed.
        own(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) }, "timerfd_create").map(Self)
    }

    /// Waits until something can be read from `fd` or CLOCK_MONOTONIC reaches `at` (nanoseconds).
    pub fn wait(&self, fd: &impl AsRawFd, at: u64) -> Outcome<()> {
        let at = at.max(1);
        let time = libc::timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: time };
        // SAFETY: `once` outlives the call, and the old value is not asked for.
        let set = unsafe { libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const once, std::ptr::null_mut()) };
        check(set, "timerfd_settime")?;
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polls = [entry(fd.as_raw_fd()), entry(self.0.as_raw_fd())];
        // SAFETY: two entries, which outlive the call.
        check(unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) }, "poll").map(drop)
    }
}

pub fn shutdown_write(fd: &impl AsRawFd) {
    // Who has closed already gets nothing else.
    let _ = shutdown(fd, libc::SHUT_WR);
}

pub fn shutdown(fd: &impl AsRawFd, how: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is passed.
    if unsafe { libc::shutdown(fd.as_raw_fd(), how) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closing drops what is unsent and resets the connection.
pub fn linger_never(fd: &impl AsRawFd) -> Outcome<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, libc::linger { l_onoff: 1, l_linger: 0 })
}

/// How long a call to send or receive (`name`) may block; 0: for ever.
pub fn set_timeout(fd: &impl AsRawFd, name: libc::c_int, ns: u64) -> Outcome<()> {
    let time = libc::timeval { tv_sec: (ns / 1_000_000_000) as i64, tv_usec: (ns % 1_000_000_000 / 1000) as i64 };
    set_option(fd, libc::SOL_SOCKET, name, time)
}

/// Hands a file's pages to the host and forgets them: results must not fill the machine's memory.
/// The host need not write them to a disk.
pub fn forget_pages(fd: &impl AsRawFd) {
    const NOW: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: no memory is passed.
    unsafe {
        libc::sync_file_range(fd.as_raw_fd(), 0, 0, NOW);
        libc::posix_fadvise(fd.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
    }
}

/// Has the program that the command starts killed when the calling thread ends, however it ends.
pub fn die_with_thread(command: &mut Command) {
    let work = || {
        // SAFETY: no memory is passed; a child between fork and exec may make this call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(work) };
}

/// Number of a device of the calling thread's namespace.
pub fn device_number(name: &str) -> Outcome<u32> {
    let text = std::ffi::CString::new(name).map_err(|_| Error::caller(format!("{name:?} is no name of a device")))?;
    // SAFETY: the name ends in zero and outlives the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(failed("if_nametoindex")),
        number => Ok(number),
    }
}

/// `uname -r`.
pub fn kernel_release() -> String {
    // SAFETY: a structure of arrays of characters may be all zeros, and uname fills it.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` outlives the call.
    unsafe { libc::uname(&raw mut names) };
    names.release.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect()
}

/// Ends the machine. Returns only if the caller may not.
pub fn power_off() {
    // SAFETY: no memory is passed.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
}

/// The number of a descriptor, for a place under /proc.
pub fn number(fd: &impl AsRawFd) -> RawFd {
    fd.as_raw_fd()
}

/// The ethtool request of `device` with `data`, in the namespace of `socket`.
///
/// # Safety
///
/// `data` begins with a command, and is as long as what this command reads and writes: the kernel
/// takes the length from the command.
pub unsafe fn ethtool(socket: &impl AsRawFd, device: &str, data: &mut [u8]) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // SAFETY: a request of zeros is valid: an empty name and no data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(15)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: the caller vouches for the length of `data`, which outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
