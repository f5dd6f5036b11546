//! What packetdrill expects of a shared object: a table of functions, which it asks for under the
//! name `packetdrill_interface_init`. Order and types are its ABI; every function takes the table's
//! first entry as its first argument, and answers as the system call of its name does.

use crate::program::{Errno, Program, Sending, WouldBlock};
use crate::{lock, turn};
use libc::{
    c_char, c_int, c_longlong, c_short, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};
use std::ffi::CStr;
use std::net::{Ipv4Addr, SocketAddrV4};

type Own = *mut c_void;

/// The table.
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    own: Own,
    end: extern "C" fn(Own),
    socket: extern "C" fn(Own, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(Own, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(Own, c_int, c_int) -> c_int,
    accept: extern "C" fn(Own, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: extern "C" fn(Own, c_int, *const sockaddr, socklen_t) -> c_int,
    read: extern "C" fn(Own, c_int, *mut c_void, size_t) -> ssize_t,
    readv: extern "C" fn(Own, c_int, *const iovec, c_int) -> ssize_t,
    recv: extern "C" fn(Own, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: extern "C" fn(Own, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    recvmsg: extern "C" fn(Own, c_int, *mut msghdr, c_int) -> ssize_t,
    write: extern "C" fn(Own, c_int, *const c_void, size_t) -> ssize_t,
    writev: extern "C" fn(Own, c_int, *const iovec, c_int) -> ssize_t,
    send: extern "C" fn(Own, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: extern "C" fn(Own, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    sendmsg: extern "C" fn(Own, c_int, *const msghdr, c_int) -> ssize_t,
    /// Variadic in C. On x86-64 and arm64 of Linux a third argument is passed as it is here, and
    /// one that is not there is not looked at.
    fcntl: extern "C" fn(Own, c_int, c_int, c_int) -> c_int,
    ioctl: extern "C" fn(Own, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(Own, c_int) -> c_int,
    shutdown: extern "C" fn(Own, c_int, c_int) -> c_int,
    getsockopt: extern "C" fn(Own, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: extern "C" fn(Own, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: extern "C" fn(Own, *mut pollfd, c_ulong, c_int) -> c_int,
    /// A packet for the endpoint.
    packet_in: extern "C" fn(Own, *const c_void, size_t) -> c_int,
    /// The endpoint's next packet, its length and when it left, microseconds; length zero: none.
    packet_out: extern "C" fn(Own, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(Own, u32) -> c_int,
    gettimeofday: extern "C" fn(Own, *mut timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(Own, c_int) -> c_int,
    epoll_ctl: extern "C" fn(Own, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: extern "C" fn(Own, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: extern "C" fn(Own, *mut c_int) -> c_int,
    splice: extern "C" fn(Own, c_int, *mut loff_t, c_int, *mut loff_t, size_t, u32) -> ssize_t,
}

/// Fills packetdrill's table. `flags` (`--so_flags`) names the folder with what the script's
/// commands have set, and where refusals are told.
///
/// # Safety
/// `flags` is null or a string of C, and `table` is packetdrill's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, table: *mut Table) {
    // SAFETY: the caller's promise.
    let flags = if flags.is_null() { String::new() } else { unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned() };
    *lock() = Some(Program::new(flags.into()));
    let filled = Table {
        own: std::ptr::null_mut(),
        end,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        packet_in,
        packet_out,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller's promise.
    unsafe { table.write(filled) };
}

/// The value, or -1 and `errno`.
fn told<T: TryFrom<i64>>(result: Result<i64, Errno>) -> T
where
    T::Error: std::fmt::Debug,
{
    let value = result.unwrap_or_else(|Errno(number)| {
        // SAFETY: libc's own place of this thread.
        unsafe { *libc::__errno_location() = number };
        -1
    });
    T::try_from(value).expect("calls return no more than their types hold")
}

/// A call that does not wait.
fn now<T: TryFrom<i64>>(call: impl FnOnce(&mut Program) -> Result<i64, Errno>) -> T
where
    T::Error: std::fmt::Debug,
{
    let mut guard = lock();
    let program = guard.as_mut().expect("packetdrill has asked for the table");
    told(program.called(call))
}

/// A call that may wait.
fn waiting<T: TryFrom<i64>>(call: impl FnMut(&mut Program) -> Result<i64, WouldBlock> + Send + 'static) -> T
where
    T::Error: std::fmt::Debug,
{
    told(turn(Box::new(call)))
}

/// An IPv4 address and port, or `None` for any other family; the unspecified family is told as
/// address and port zero.
fn address(pointer: *const sockaddr) -> Option<SocketAddrV4> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: packetdrill hands over a whole `sockaddr`, of IPv4 if its family says so.
    match i32::from(unsafe { (*pointer).sa_family }) {
        libc::AF_INET => {
            // SAFETY: as above.
            let whole = unsafe { pointer.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(SocketAddrV4::new(Ipv4Addr::from(u32::from_be(whole.sin_addr.s_addr)), u16::from_be(whole.sin_port)))
        }
        libc::AF_UNSPEC => Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        _ => None,
    }
}

/// The pieces of a message.
///
/// # Safety
/// There are `count`, as long as the call lasts.
unsafe fn pieces<'a>(first: *const iovec, count: usize) -> &'a [iovec] {
    // SAFETY: the caller's promise.
    if first.is_null() || count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(first, count) } }
}

/// Length of all pieces.
///
/// # Safety
/// As of [`pieces`].
unsafe fn total(first: *const iovec, count: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { pieces(first, count) }.iter().map(|piece| piece.iov_len).sum()
}

extern "C" fn end(_: Own) {
    *lock() = None;
}

extern "C" fn socket(_: Own, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    now(|program| program.socket(domain, kind, protocol))
}

extern "C" fn bind(_: Own, fd: c_int, at: *const sockaddr, _length: socklen_t) -> c_int {
    now(|program| program.bind(fd, address(at)))
}

extern "C" fn listen(_: Own, fd: c_int, _backlog: c_int) -> c_int {
    now(|program| program.listen(fd))
}

extern "C" fn accept(_: Own, fd: c_int, at: *mut sockaddr, length: *mut socklen_t) -> c_int {
    let number: c_int = waiting(move |program| program.accept(fd));
    let peer = lock().as_ref().and_then(|program| program.peer(number));
    if let (Some(peer), false, false) = (peer, at.is_null(), length.is_null()) {
        let told = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: peer.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(*peer.ip()).to_be() },
            sin_zero: [0; 8],
        };
        // SAFETY: packetdrill has room for any address there.
        unsafe {
            at.cast::<libc::sockaddr_in>().write_unaligned(told);
            *length = size_of::<libc::sockaddr_in>() as socklen_t;
        }
    }
    number
}

extern "C" fn connect(_: Own, fd: c_int, to: *const sockaddr, _length: socklen_t) -> c_int {
    let to = address(to);
    waiting(move |program| program.connect(fd, to))
}

extern "C" fn read(own: Own, fd: c_int, at: *mut c_void, most: size_t) -> ssize_t {
    recv(own, fd, at, most, 0)
}

extern "C" fn readv(_: Own, fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: packetdrill's array has so many entries.
    let most = unsafe { total(pieces, count.max(0) as usize) };
    waiting(move |program| program.receive(fd, most, 0))
}

extern "C" fn recv(_: Own, fd: c_int, at: *mut c_void, most: size_t, flags: c_int) -> ssize_t {
    if at.is_null() && most > 0 {
        return told(Err(Errno(libc::EFAULT)));
    }
    let read: ssize_t = waiting(move |program| program.receive(fd, most, flags));
    if read > 0 && flags & libc::MSG_TRUNC == 0 {
        // SAFETY: the buffer has room for `most` bytes, of which no more were read.
        unsafe { at.write_bytes(0, read as usize) };
    }
    read
}

extern "C" fn recvfrom(own: Own, fd: c_int, at: *mut c_void, most: size_t, flags: c_int, _: *mut sockaddr, _: *mut socklen_t) -> ssize_t {
    recv(own, fd, at, most, flags)
}

extern "C" fn recvmsg(_: Own, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill's message is whole.
    let most = unsafe { total((*message).msg_iov, (*message).msg_iovlen) };
    let of_errors = flags & libc::MSG_ERRQUEUE != 0;
    let read: ssize_t =
        if of_errors { now(|program| program.take_notice(fd)) } else { waiting(move |program| program.receive(fd, most, flags)) };
    if read < 0 {
        return read;
    }
    let control = lock().as_mut().map_or_else(Vec::new, |program| program.take_control(fd, of_errors));
    // SAFETY: the message has room for `msg_controllen` bytes of control data.
    unsafe {
        let room = (*message).msg_controllen;
        let told = control.len().min(room);
        if told > 0 {
            std::ptr::copy_nonoverlapping(control.as_ptr(), (*message).msg_control.cast::<u8>(), told);
        }
        (*message).msg_controllen = told;
        (*message).msg_flags = if of_errors { libc::MSG_ERRQUEUE } else { 0 };
    }
    read
}

extern "C" fn write(own: Own, fd: c_int, from: *const c_void, length: size_t) -> ssize_t {
    send(own, fd, from, length, 0)
}

extern "C" fn writev(own: Own, fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: packetdrill's array has so many entries.
    let length = unsafe { total(pieces, count.max(0) as usize) };
    send(own, fd, pieces.cast(), length, 0)
}

extern "C" fn send(own: Own, fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    sendto(own, fd, from, length, flags, std::ptr::null(), 0)
}

extern "C" fn sendto(_: Own, fd: c_int, from: *const c_void, length: size_t, flags: c_int, to: *const sockaddr, _: socklen_t) -> ssize_t {
    if from.is_null() && length > 0 {
        return told(Err(Errno(libc::EFAULT)));
    }
    let call = Sending { length, flags, to: address(to), pieces: Vec::new() };
    let mut until = 0;
    waiting(move |program| program.send(fd, &call, &mut until))
}

extern "C" fn sendmsg(_: Own, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: packetdrill's message is whole.
    let (length, to) = unsafe { (total((*message).msg_iov, (*message).msg_iovlen), (*message).msg_name.cast::<sockaddr>()) };
    // SAFETY: as above.
    if unsafe { (*message).msg_controllen } > 0 {
        return now(|program| Err(program.refuse("control messages of sendmsg")));
    }
    // SAFETY: as above.
    let listed = unsafe { pieces((*message).msg_iov, (*message).msg_iovlen) };
    let call = Sending { length, flags, to: address(to), pieces: listed.iter().map(|piece| piece.iov_len).collect() };
    let mut until = 0;
    waiting(move |program| program.send(fd, &call, &mut until))
}

extern "C" fn fcntl(_: Own, fd: c_int, command: c_int, value: c_int) -> c_int {
    now(|program| program.fcntl(fd, command, value))
}

extern "C" fn ioctl(_: Own, fd: c_int, request: c_ulong, at: *mut c_int) -> c_int {
    now(|program| {
        let value = program.ioctl(fd, request)?;
        // SAFETY: requests that are known have an int there.
        unsafe { at.write(value) };
        Ok(0)
    })
}

extern "C" fn close(_: Own, fd: c_int) -> c_int {
    now(|program| program.close(fd))
}

extern "C" fn shutdown(_: Own, fd: c_int, how: c_int) -> c_int {
    now(|program| program.shutdown(fd, how))
}

pub(crate) extern "C" fn getsockopt(_: Own, fd: c_int, level: c_int, name: c_int, at: *mut c_void, length: *mut socklen_t) -> c_int {
    now(|program| {
        // SAFETY: packetdrill's value has so much room.
        let room = unsafe { *length } as usize;
        let value = program.get_option(fd, level, name, room)?;
        let told = value.len().min(room);
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(value.as_ptr(), at.cast::<u8>(), told);
            *length = told as socklen_t;
        }
        Ok(0)
    })
}

extern "C" fn setsockopt(_: Own, fd: c_int, level: c_int, name: c_int, at: *const c_void, length: socklen_t) -> c_int {
    let bytes = if at.is_null() {
        Vec::new()
    } else {
        // SAFETY: packetdrill's value has so many bytes.
        unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length as usize) }.to_vec()
    };
    now(|program| program.set_option(fd, level, name, &bytes))
}

extern "C" fn poll(_: Own, fds: *mut pollfd, count: c_ulong, timeout: c_int) -> c_int {
    // SAFETY: packetdrill's array has so many entries.
    let listed = if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(fds, count as usize) } };
    let asked: Vec<(i32, c_short)> = listed.iter().map(|entry| (entry.fd, entry.events)).collect();
    let mut until = None;
    let again = asked.clone();
    let ready = waiting(move |program| program.poll(&asked, timeout, &mut until));
    let guard = lock();
    let program = guard.as_ref().expect("packetdrill has asked for the table");
    for (entry, (fd, events)) in listed.iter_mut().zip(again) {
        entry.revents = program.poll_events(fd, events);
    }
    ready
}

extern "C" fn packet_in(_: Own, at: *const c_void, length: size_t) -> c_int {
    // SAFETY: packetdrill's packet has so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) };
    now(|program| program.packet_in(bytes))
}

extern "C" fn packet_out(_: Own, at: *mut c_void, length: *mut size_t, when: *mut c_longlong) -> c_int {
    now(|program| {
        let (micros, bytes) = program.packet_out();
        // SAFETY: packetdrill's buffer has so much room.
        unsafe {
            let told = bytes.len().min(*length);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast::<u8>(), told);
            *length = told;
            *when = micros;
        }
        Ok(0)
    })
}

extern "C" fn usleep(_: Own, micros: u32) -> c_int {
    // packetdrill does not hold its lock here, so a call that is over gets to its end.
    crate::let_others_end();
    now(|program| program.sleep(micros))
}

extern "C" fn gettimeofday(_: Own, at: *mut timeval, _zone: *mut c_void) -> c_int {
    let micros = crate::returned_at().unwrap_or_else(|| lock().as_mut().expect("packetdrill has asked for the table").read_clock());
    // SAFETY: packetdrill's place for the time.
    unsafe { at.write(timeval { tv_sec: micros / 1_000_000, tv_usec: micros % 1_000_000 }) };
    0
}

extern "C" fn epoll_create(_: Own, _size: c_int) -> c_int {
    now(Program::epoll_create)
}

extern "C" fn epoll_ctl(_: Own, epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: packetdrill's event, where there is one.
    let event = if event.is_null() { None } else { Some(unsafe { event.read_unaligned() }) };
    now(|program| program.epoll_ctl(epoll, operation, fd, event.map(|event| (event.events, event.u64))))
}

extern "C" fn epoll_wait(_: Own, epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
    let mut until = None;
    let count: c_int = waiting(move |program| program.epoll_wait(epoll, most, timeout, &mut until));
    let mut guard = lock();
    let found = guard.as_mut().expect("packetdrill has asked for the table").take_epoll_events();
    for (i, (events_of, data)) in found.into_iter().enumerate().take(count.max(0) as usize) {
        // SAFETY: packetdrill's array has room for `most` events.
        unsafe { events.add(i).write_unaligned(epoll_event { events: events_of, u64: data }) };
    }
    count
}

extern "C" fn pipe(_: Own, fds: *mut c_int) -> c_int {
    // SAFETY: packetdrill's array of two.
    unsafe { libc::pipe(fds) }
}

extern "C" fn splice(_: Own, from: c_int, _: *mut loff_t, to: c_int, _: *mut loff_t, length: size_t, flags: u32) -> ssize_t {
    now(|program| program.splice(from, to, length, flags))
}
