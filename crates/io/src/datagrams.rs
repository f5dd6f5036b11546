//! A UDP socket for many datagrams with one call: segmentation on the way out (UDP_SEGMENT),
//! merging on the way in (UDP_GRO).

use crate::{Failed, check};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Datagrams of one GSO call; a kernel before 6.9 takes no more (UDP_MAX_SEGMENTS).
pub const MOST_SEGMENTS: usize = 64;
/// Datagrams of one call without GSO.
const BATCH: usize = 64;
/// Calls' worth of merged datagrams that are read at once.
const SLOTS: usize = 4;
const SLOT: usize = 1 << 16;
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;
/// Longer a full socket does not hold up the others.
const SEND_WAIT: std::time::Duration = std::time::Duration::from_millis(100);

/// A socket's buffers, bytes as `getsockopt` says them and as the kernel counts packets
/// (`skb->truesize`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rooms {
    pub send: u32,
    pub receive: u32,
}

/// What to do while a socket is full.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// Wait, a tenth of a second at most.
    Wait,
    /// Say so, as `WouldBlock`.
    Tell,
}

impl Full {
    fn flags(self) -> libc::c_int {
        match self {
            Self::Wait => libc::MSG_NOSIGNAL,
            Self::Tell => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        }
    }
}

/// A socket at one address.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    /// The only one that it uses, if one was named.
    device: Option<String>,
    /// The kernel merges what comes in.
    merges: bool,
    /// It says when that came.
    stamps: bool,
}

/// Datagrams that have come from one address, one behind the other.
#[derive(Copy, Clone, Debug)]
pub struct Received<'a> {
    pub from: SocketAddr,
    pub bytes: &'a [u8],
    /// Bytes of each of them; the last may be shorter.
    pub segment: usize,
    /// When the kernel got the first of them, ns of CLOCK_REALTIME; none unless it was asked to say
    /// so.
    pub real_ns: Option<u64>,
}

/// Room for what comes in, for many calls.
#[derive(Debug)]
pub struct Slots {
    bytes: Vec<u8>,
    filled: Vec<(SocketAddr, usize, usize, Option<u64>)>,
}

impl Default for Slots {
    fn default() -> Self {
        Self { bytes: vec![0; SLOTS * SLOT], filled: Vec::with_capacity(SLOTS) }
    }
}

impl Slots {
    /// No room: what stands in the place of others for a moment.
    pub fn empty() -> Self {
        Self { bytes: Vec::new(), filled: Vec::new() }
    }

    /// What the last call has brought.
    pub fn iter(&self) -> impl Iterator<Item = Received<'_>> {
        self.filled.iter().zip(self.bytes.chunks_exact(SLOT)).map(|(&(from, length, segment, real_ns), slot)| Received {
            from,
            bytes: &slot[..length],
            segment,
            real_ns,
        })
    }
}

impl Datagrams {
    /// Binds a socket in the calling thread's namespace, to a device if one is named. What is
    /// longer than its own interface takes is an error of `send`; what routers say of the path
    /// changes nothing, because anybody can say it (RFC 8899 section 4.6.1). Of IPv4 they may
    /// fragment what is too long for them. The kernel keeps as many bytes for each direction as it
    /// may.
    pub fn bind(at: SocketAddr, device: Option<&str>, rooms: Rooms) -> Result<Self, Failed> {
        let socket = UdpSocket::bind(at).map_err(|e| Failed::new(format!("opening a UDP socket at {at}"), e))?;
        let what = |name: &str| format!("{name} of the UDP socket at {at}");
        if let Some(device) = device {
            set(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes(), || format!("binding a UDP socket to {device}"))?;
        }
        let (level, option, value) = match at {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_INTERFACE),
            // As that, but the kernel keeps what routers say, for `said_mtu`.
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
        };
        set_number(&socket, level, option, value, || what("path MTU discovery"))?;
        let directions = [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, rooms.receive), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, rooms.send)];
        for (forced, polite, room) in directions {
            // The kernel doubles what it is told (socket(7)).
            let room = (room / 2) as libc::c_int;
            set_number(&socket, libc::SOL_SOCKET, forced, room, || what("buffer"))
                .or_else(|_| set_number(&socket, libc::SOL_SOCKET, polite, room, || what("buffer")))?;
        }
        socket.set_write_timeout(Some(SEND_WAIT)).map_err(|e| Failed::new(what("setting the longest wait"), e))?;
        Ok(Self { socket, device: device.map(str::to_owned), merges: false, stamps: false })
    }

    /// Asks the kernel to merge datagrams of one sender and length (Linux 5.0 and later); whether
    /// it does.
    pub fn merge(&mut self) -> bool {
        self.merges = set_number(&self.socket, libc::IPPROTO_UDP, UDP_GRO, 1, String::new).is_ok();
        self.merges
    }

    /// No router may fragment what is sent, of IPv4 either (DF): who probes a path's MTU wants to
    /// know what passes whole.
    pub fn forbid_fragments(&self) -> Result<(), Failed> {
        match self.local()? {
            at @ SocketAddr::V4(_) => {
                let what = || format!("path MTU discovery of the UDP socket at {at}");
                set_number(&self.socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE, what)
            }
            SocketAddr::V6(_) => Ok(()),
        }
    }

    /// What routers of IPv6 have said of the path to an address, or its own interface's MTU: bytes
    /// of an IP packet. None if there is no route.
    pub fn said_mtu(&self, to: SocketAddr) -> Option<u32> {
        // The kernel tells it of a connected socket alone (ipv6(7), IPV6_MTU).
        let asked = UdpSocket::bind(SocketAddr::new(self.local().ok()?.ip(), 0)).ok()?;
        if let Some(device) = &self.device {
            set(&asked, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes(), String::new).ok()?;
        }
        asked.connect(to).ok()?;
        let (mut mtu, mut length): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the number and its length outlive the call.
        let result =
            unsafe { libc::getsockopt(asked.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU, (&raw mut mtu).cast(), &raw mut length) };
        (result == 0).then_some(mtu as u32)
    }

    /// Asks the kernel to say when each datagram came; whether it does.
    pub fn stamp(&mut self) -> bool {
        self.stamps = set_number(&self.socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, String::new).is_ok();
        self.stamps
    }

    /// Where it is bound.
    pub fn local(&self) -> Result<SocketAddr, Failed> {
        self.socket.local_addr().map_err(|e| Failed::new("asking for a socket's address", e))
    }

    /// Sends datagrams of `segment` bytes each, the last perhaps shorter, as one: at most
    /// [`MOST_SEGMENTS`] and 65,000 bytes.
    pub fn send_merged(&self, to: SocketAddr, pieces: &[IoSlice<'_>], segment: u16, full: Full) -> io::Result<()> {
        let to = Address::from(to);
        let mut control = [0_u64; 4];
        let mut header = message(&to, pieces);
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the control data are aligned for a header and long enough for one with a number
        // of 16 bits.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(2) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::IPPROTO_UDP;
            (*first).cmsg_type = UDP_SEGMENT;
            (*first).cmsg_len = libc::CMSG_LEN(2) as _;
            std::ptr::write_unaligned(libc::CMSG_DATA(first).cast(), segment);
        }
        // SAFETY: the header and all that it points to live until the call returns; the kernel only
        // reads.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, full.flags()) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends datagrams of `per` pieces each; how many went out before one failed, and why that did.
    pub fn send_each(&self, to: SocketAddr, pieces: &[IoSlice<'_>], per: usize, full: Full) -> (usize, io::Result<()>) {
        let to = Address::from(to);
        let mut done = 0;
        for part in pieces.chunks(per * BATCH) {
            // SAFETY: a header of zeros is a valid one without address, data and control data.
            let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
            let mut count = 0;
            for (header, pieces) in headers.iter_mut().zip(part.chunks(per)) {
                header.msg_hdr = message(&to, pieces);
                count += 1;
            }
            // SAFETY: headers and all that they point to live until the call returns; `count` of
            // them are filled.
            let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count, full.flags() as _) };
            if sent < 0 {
                return (done, Err(io::Error::last_os_error()));
            }
            done += sent as usize;
            if (sent as u32) < count {
                // The next of them says why.
                let (more, result) = self.send_each(to.given, &pieces[done * per..], per, full);
                return (done + more, result);
            }
        }
        (done, Ok(()))
    }

    /// Sends one datagram, or none if the socket is full.
    pub fn send_now(&self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let (to, pieces) = (Address::from(to), [IoSlice::new(bytes)]);
        let header = message(&to, &pieces);
        // SAFETY: the header and all that it points to live until the call returns; the kernel only
        // reads.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, Full::Tell.flags()) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads what is there without waiting; whether that was as much as fits, so that there may be
    /// more.
    pub fn receive(&self, slots: &mut Slots) -> Result<bool, Failed> {
        slots.filled.clear();
        // SAFETY: addresses, headers and control data of zeros are valid ones.
        let (mut names, mut headers): ([libc::sockaddr_storage; SLOTS], [libc::mmsghdr; SLOTS]) = unsafe { std::mem::zeroed() };
        let mut controls = [[0_u64; 8]; SLOTS];
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; SLOTS];
        for (i, slot) in slots.bytes.chunks_exact_mut(SLOT).enumerate() {
            parts[i] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT };
            let header = &mut headers[i].msg_hdr;
            header.msg_name = (&raw mut names[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
            header.msg_iov = &raw mut parts[i];
            header.msg_iovlen = 1;
            header.msg_control = controls[i].as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&controls[i]) as _;
        }
        let (flags, none) = (libc::MSG_DONTWAIT as _, std::ptr::null_mut());
        // SAFETY: headers and all that they point to live until the call returns.
        let got = unsafe { libc::recvmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), SLOTS as libc::c_uint, flags, none) };
        if got < 0 {
            return match io::Error::last_os_error() {
                e if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused) => {
                    Ok(false)
                }
                e => Err(Failed::new("receiving datagrams", e)),
            };
        }
        for (header, name) in headers.iter().zip(&names).take(got as usize) {
            let length = (header.msg_len as usize).min(SLOT);
            let (segment, real_ns) = if self.merges || self.stamps { control_data(&header.msg_hdr) } else { (None, None) };
            // A sender that is neither IPv4 nor IPv6 does not exist; its place must be filled all
            // the same.
            let from = from_kernel(name).unwrap_or_else(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
            slots.filled.push((from, length, segment.unwrap_or(length).max(1), real_ns));
        }
        Ok(got as usize == SLOTS)
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A message without control data.
fn message(to: &Address, pieces: &[IoSlice<'_>]) -> libc::msghdr {
    // SAFETY: a header of zeros is a valid one without address, data and control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw const to.kernel).cast_mut().cast();
    header.msg_namelen = to.length;
    // An IoSlice is laid out as an iovec (its documentation).
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _;
    header
}

/// The length of each datagram that was merged into this one, and when it came.
fn control_data(header: &libc::msghdr) -> (Option<usize>, Option<u64>) {
    let (mut segment, mut real_ns) = (None, None);
    // SAFETY: the kernel has filled the control data and their length; they lie where the header
    // points and are aligned for a header, and those of these types hold an int and a timespec,
    // perhaps not aligned.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(std::ptr::from_ref(header));
        while !message.is_null() {
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::IPPROTO_UDP, UDP_GRO) => {
                    let size: libc::c_int = std::ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                    segment = usize::try_from(size).ok();
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                    real_ns = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(std::ptr::from_ref(header), message);
        }
    }
    (segment, real_ns)
}

/// An address as the kernel has it.
struct Address {
    given: SocketAddr,
    kernel: libc::sockaddr_in6,
    length: libc::socklen_t,
}

impl From<SocketAddr> for Address {
    fn from(given: SocketAddr) -> Self {
        // SAFETY: addresses of zeros are valid ones.
        let mut kernel: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        let length = match given {
            SocketAddr::V6(to) => {
                kernel.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                kernel.sin6_port = to.port().to_be();
                kernel.sin6_addr.s6_addr = to.ip().octets();
                kernel.sin6_scope_id = to.scope_id();
                size_of::<libc::sockaddr_in6>()
            }
            SocketAddr::V4(to) => {
                // SAFETY: an address of IPv4 is shorter than one of IPv6 and no stricter aligned,
                // and both are plain numbers.
                let short = unsafe { &mut *(&raw mut kernel).cast::<libc::sockaddr_in>() };
                short.sin_family = libc::AF_INET as libc::sa_family_t;
                short.sin_port = to.port().to_be();
                short.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
        };
        Self { given, kernel, length: length as libc::socklen_t }
    }
}

fn from_kernel(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is what it holds; a storage is aligned for every
            // address.
            let short = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            Some(SocketAddrV4::new(Ipv4Addr::from(short.sin_addr.s_addr.to_ne_bytes()), u16::from_be(short.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let long = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(long.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(long.sin6_port), 0, long.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn set_number(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
    what: impl FnOnce() -> String,
) -> Result<(), Failed> {
    set(socket, level, option, &value.to_ne_bytes(), what)
}

fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: &[u8], what: impl FnOnce() -> String) -> Result<(), Failed> {
    // SAFETY: the value has the length given and outlives the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    check(done, || format!("setting the {}", what())).map(drop)
}

/// Receives up to `into.len()` datagrams that wait already, blocking only for the first; returns
/// their lengths.
pub fn receive_many<const N: usize>(fd: &impl AsRawFd, into: &mut [Vec<u8>; N]) -> io::Result<([usize; N], usize)> {
    let mut parts = into.each_mut().map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() });
    let mut headers = parts.each_mut().map(|part| {
        // SAFETY: a header of zeros is a valid one without address and control data.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        header
    });
    let none = std::ptr::null_mut();
    // SAFETY: headers, parts and buffers live until the call returns; every part has its buffer's
    // length.
    let got = unsafe { libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), N as u32, libc::MSG_WAITFORONE as _, none) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok((headers.map(|h| h.msg_len as usize), got as usize)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMS: Rooms = Rooms { send: 2 << 20, receive: 2 << 20 };

    #[test]
    fn merged_datagrams_come_out_as_they_went_in() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let mut receiver = Datagrams::bind(at.parse().unwrap(), None, ROOMS).unwrap();
            assert!(receiver.merge() && receiver.stamp());
            let sender = Datagrams::bind(at.parse().unwrap(), None, ROOMS).unwrap();
            let bytes: Vec<u8> = (0..250).collect();
            let to = receiver.local().unwrap();
            sender.send_merged(to, &[IoSlice::new(&bytes[..150]), IoSlice::new(&bytes[150..])], 100, Full::Wait).unwrap();
            sender.send_now(to, b"x").unwrap();
            let each: Vec<_> = bytes.chunks(50).map(IoSlice::new).collect();
            assert!(matches!(sender.send_each(to, &each[..4], 2, Full::Tell), (2, Ok(()))));
            let (mut slots, mut found) = (Slots::default(), vec![]);
            // On the loopback device what was sent has arrived.
            loop {
                let more = receiver.receive(&mut slots).unwrap();
                assert!(slots.iter().all(|received| received.from == sender.local().unwrap() && received.real_ns.is_some()));
                found.extend(
                    slots.iter().flat_map(|received| received.bytes.chunks(received.segment).map(<[u8]>::to_vec).collect::<Vec<_>>()),
                );
                if !more {
                    break;
                }
            }
            assert_eq!(found, [&bytes[..100], &bytes[100..200], &bytes[200..], b"x", &bytes[..100], &bytes[100..200]]);
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let receiver = Datagrams::bind("127.0.0.1:0".parse().unwrap(), None, ROOMS).unwrap();
        let refused = receiver.send_now(receiver.local().unwrap(), &vec![0; 65_520]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EMSGSIZE));
    }
}
