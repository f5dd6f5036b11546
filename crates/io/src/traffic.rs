//! Senders and receivers of plain traffic, to measure with.

use crate::{Failed, check};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams of one call.
const BATCH: usize = 32;
/// Room for what waits to be read: no datagram is lost because a reader was kept from the
/// processor for a while.
const ROOM: libc::c_int = 64 << 20;

/// Sends datagrams of one length to one address, many with one call.
#[derive(Debug)]
pub struct UdpSender {
    socket: UdpSocket,
    payload: Vec<u8>,
}

/// Receives datagrams.
#[derive(Debug)]
pub struct UdpReceiver(UdpSocket);

/// A datagram that has come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The first bytes.
    pub head: [u8; 16],
    /// When the kernel got it, ns of CLOCK_REALTIME.
    pub real_ns: u64,
}

impl UdpSender {
    /// A sender in the calling thread's namespace, of datagrams with `length` bytes of payload.
    pub fn new(to: SocketAddr, length: usize) -> Result<Self, Failed> {
        let any = SocketAddr::new(if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
        let socket = UdpSocket::bind(any).map_err(|e| Failed::new("opening a UDP socket", e))?;
        socket.connect(to).map_err(|e| Failed::new(format!("connecting to {to}"), e))?;
        Ok(Self { socket, payload: vec![0; length] })
    }

    /// Sends one datagram that begins with these bytes.
    pub fn send(&self, head: &[u8; 16]) -> Result<(), Failed> {
        let mut payload = self.payload.clone();
        payload[..16].copy_from_slice(head);
        self.socket.send(&payload).map(drop).map_err(|e| Failed::new("sending a datagram", e))
    }

    /// Sends up to `count` datagrams, at most some tens; says how many.
    pub fn send_many(&mut self, count: usize) -> Result<usize, Failed> {
        let count = count.min(BATCH);
        let mut part = libc::iovec { iov_base: self.payload.as_mut_ptr().cast(), iov_len: self.payload.len() };
        // SAFETY: a header of zeros is a valid one without address, data and control data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for header in &mut headers {
            header.msg_hdr.msg_iov = &raw mut part;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: headers, the part that all share and the payload live until the call returns.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count as libc::c_uint, 0) };
        check(sent, || "sending datagrams".into()).map(|sent| sent as usize)
    }
}

impl UdpReceiver {
    /// A receiver at this address in the calling thread's namespace; calls return after `wait`
    /// without a datagram.
    pub fn new(at: SocketAddr, wait: std::time::Duration) -> Result<Self, Failed> {
        let socket = UdpSocket::bind(at).map_err(|e| Failed::new(format!("listening at {at}"), e))?;
        socket.set_read_timeout(Some(wait)).map_err(|e| Failed::new("limiting the wait for datagrams", e))?;
        let set = |option: libc::c_int, value: libc::c_int| {
            // SAFETY: `value` has the length given and outlives the call.
            let done = unsafe {
                let length = size_of_val(&value) as libc::socklen_t;
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), length)
            };
            check(done, || format!("setting option {option} of a UDP socket"))
        };
        // Root of a user namespace gets what any user may have.
        set(libc::SO_RCVBUFFORCE, ROOM).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => set(libc::SO_RCVBUF, ROOM),
            _ => Err(error),
        })?;
        set(libc::SO_TIMESTAMPNS, 1)?;
        Ok(Self(socket))
    }

    /// Counts datagrams that have come, without their contents; 0 if none came for a while.
    pub fn count(&self) -> Result<usize, Failed> {
        let mut byte = 0_u8;
        let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: a header of zeros is a valid one without address, data and control data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for header in &mut headers {
            header.msg_hdr.msg_iov = &raw mut part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let (flags, none) = (libc::MSG_WAITFORONE as _, std::ptr::null_mut());
        // SAFETY: headers, the part that all share and its byte live until the call returns.
        let got = unsafe { libc::recvmmsg(self.0.as_raw_fd(), headers.as_mut_ptr(), BATCH as libc::c_uint, flags, none) };
        Self::or_none(got as isize, 0).map(|got| got.unwrap_or(0))
    }

    /// The next datagram; none if none came for a while.
    pub fn next(&self) -> Result<Option<Arrival>, Failed> {
        let mut arrival = Arrival { head: [0; 16], real_ns: 0 };
        let mut part = libc::iovec { iov_base: arrival.head.as_mut_ptr().cast(), iov_len: arrival.head.len() };
        let mut control = [0_u64; 8];
        // SAFETY: a header of zeros is a valid one without address, data and control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: the header and all that it points to live until the call returns.
        let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, 0) };
        if Self::or_none(got, 0)?.is_none() {
            return Ok(None);
        }
        // SAFETY: the kernel has filled the control data and its length; the first message lies in
        // `control`, which is aligned for it, and one of this type holds a timespec, perhaps not
        // aligned.
        unsafe {
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            if !message.is_null() && (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                arrival.real_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            }
        }
        Ok(Some(arrival))
    }

    /// None where the wait has ended without a datagram.
    fn or_none(got: isize, least: isize) -> Result<Option<usize>, Failed> {
        if got >= least {
            return Ok(Some(got as usize));
        }
        match io::Error::last_os_error() {
            e if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            e => Err(Failed::new("receiving datagrams", e)),
        }
    }
}
