//! A second process that keeps the rights that the first one gives up, and sockets of this
//! machine's processes among themselves.

use crate::{Failed, check};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Bytes of the longest message.
const LONGEST: usize = 1 << 20;

/// A process that was forked off the calling one; it ends when this is dropped, or when the calling
/// process ends, however it does.
#[derive(Debug)]
pub struct Helper {
    pub stream: UnixStream,
}

impl Helper {
    /// Starts one that does `work` with its end of a pair of sockets, and then ends. To be called
    /// while no other threads run: what they held locked would stay so in the new process.
    pub fn fork(work: impl FnOnce(UnixStream)) -> Result<Self, Failed> {
        let (own, other) = UnixStream::pair().map_err(|e| Failed::new("making a pair of sockets", e))?;
        // SAFETY: no memory is passed. There is one thread, so the new process may do what this one
        // may.
        if check(unsafe { libc::fork() }, || "starting a second process".into())? > 0 {
            return Ok(Self { stream: own });
        }
        drop(own);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(other)));
        // SAFETY: no memory is passed. Nothing of the calling process is to be cleaned up here.
        unsafe { libc::_exit(i32::from(done.is_err())) }
    }
}

/// Sends a message of this machine's other process, and an open file with it.
pub fn send(mut stream: &UnixStream, message: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let length = (message.len() as u32).to_ne_bytes();
    let mut control = [0_u64; 4];
    let pieces = [IoSlice::new(&length)];
    // SAFETY: a header of zeros is a valid one without address, data and control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    // An IoSlice is laid out as an iovec (its documentation).
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = 1;
    if let Some(file) = file {
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the control data are aligned for a header and long enough for one with a
        // descriptor.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as _;
            std::ptr::write_unaligned(libc::CMSG_DATA(first).cast(), file.as_raw_fd());
        }
    }
    // SAFETY: the header and all that it points to live until the call returns; the kernel only
    // reads.
    match unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) } {
        4 => stream.write_all(message),
        sent if sent < 0 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives what [`send`] has sent.
pub fn receive(mut stream: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut length = [0_u8; 4];
    let mut control = [0_u64; 4];
    let mut part = libc::iovec { iov_base: length.as_mut_ptr().cast(), iov_len: length.len() };
    // SAFETY: a header of zeros is a valid one without address, data and control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header and all that it points to live until the call returns.
    let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled the control data and their length; they lie where the header
    // points. Those of this kind hold one descriptor, which is new and known to nobody else: the
    // other process sends one at most.
    let file = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        let has = !first.is_null() && (*first).cmsg_level == libc::SOL_SOCKET && (*first).cmsg_type == libc::SCM_RIGHTS;
        has.then(|| OwnedFd::from_raw_fd(std::ptr::read_unaligned(libc::CMSG_DATA(first).cast())))
    };
    let length = u32::from_ne_bytes(length) as usize;
    if got != 4 || length > LONGEST {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok((message, file))
}

/// Listens at a file that nobody else may connect to from its first moment on. To be called while
/// no other threads make files.
pub fn bind_private(at: &Path) -> io::Result<UnixListener> {
    // SAFETY: no memory is passed.
    let before = unsafe { libc::umask(0o077) };
    let bound = UnixListener::bind(at);
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    bound
}

/// The user who has connected (SO_PEERCRED).
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    let mut about = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both outlive the call, and the length is that of the first.
    let result =
        unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut about).cast(), &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(about.uid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_message_comes_with_its_file_and_one_without_has_none() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        send(&one, b"with", Some(far.as_fd())).unwrap();
        send(&one, b"", None).unwrap();
        let (message, file) = receive(&other).unwrap();
        assert_eq!(message, b"with");
        drop(far);
        near.write_all(b"x").unwrap();
        let mut said = [0];
        UnixStream::from(file.unwrap()).read_exact(&mut said).unwrap();
        assert_eq!(&said, b"x");
        assert!(matches!(receive(&other), Ok((message, None)) if message.is_empty()));
        drop(one);
        assert!(receive(&other).is_err(), "nobody is there");
    }

    #[test]
    fn who_connects_is_known() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer_user(&one).unwrap(), crate::user());
    }
}
