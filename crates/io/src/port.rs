//! A port: a device from which every frame is read and to which frames are written, past the machine's IP stack and queues.
//!
//! Frames come through a ring of memory shared with the kernel (AF_PACKET, TPACKET_V2), one call for none of them. Version 2 and not 3:
//! version 3 hands frames over in blocks, when one is full or a timer of whole milliseconds ends, and a link emulator that learns of a
//! packet a millisecond late is late itself. Sending is by `sendmmsg` and not by a ring: the kernel takes a sending ring's place back
//! when the receiving IP stack takes the packet over, while a TCP receive queue still refers to its memory (net/packet/af_packet.c,
//! `tpacket_destruct_skb`; net/ipv4/ip_input.c, `skb_orphan`), so data could change under the reader.
//!
//! Each frame has [`HEAD`] bytes before it (struct virtio_net_hdr) which say whether its checksum is still to be computed, as it is on
//! every packet that comes out of a stack whose device offloads checksums. They are to be sent along with the frame: the receiving
//! stack then knows that the packet has never been on a wire and neither side computes anything.

use crate::{Failed, check};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes before each frame: struct virtio_net_hdr.
pub const HEAD: usize = 10;
/// What one call sends.
const BATCH: usize = 32;
const BLOCK: usize = 256 << 10;
/// struct tpacket2_hdr and struct sockaddr_ll, and the alignment of what follows.
const RING_HEADER: usize = 96;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const ETHERNET: usize = 14;

/// A device's frames.
#[derive(Debug)]
pub struct Port {
    device: String,
    receiving: OwnedFd,
    sending: OwnedFd,
    ring: Ring,
    stats: PortStats,
}

/// A frame that has come.
#[derive(Copy, Clone, Debug)]
pub struct Frame<'a> {
    /// [`HEAD`] bytes, then the frame from its Ethernet header on.
    pub bytes: &'a [u8],
    /// When the kernel got it, ns of CLOCK_REALTIME.
    pub real_ns: u64,
    /// It was longer than any frame of this device may be, and its end is missing: an offload is on.
    pub cut: bool,
}

/// What went wrong at a port so far, in frames.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Lost because the ring was full: nobody read for too long.
    pub missed: u64,
    /// Not taken by the kernel: the device is down or has no memory.
    pub refused: u64,
}

impl Port {
    /// Opens a device of the calling thread's namespace whose packets have at most `mtu` bytes; the ring takes about `room` bytes.
    pub fn open(device: &str, mtu: usize, room: usize) -> Result<Self, Failed> {
        let what = |call: &str| format!("{call} of a packet socket on {device}");
        let (receiving, sending) = (socket(device)?, socket(device)?);
        let index = device_index(device)?;
        set(&receiving, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int, &what)?;
        set(&receiving, libc::PACKET_VNET_HDR, 1, &what)?;
        set(&receiving, PACKET_IGNORE_OUTGOING, 1, &what)?;
        let ring = Ring::new(&receiving, RING_HEADER + ETHERNET + mtu, room, &what)?;
        bind(&receiving, index, libc::ETH_P_ALL as u16, &what)?;
        set(&sending, libc::PACKET_VNET_HDR, 1, &what)?;
        set(&sending, libc::PACKET_QDISC_BYPASS, 1, &what)?;
        // Frames in flight inside the kernel count against this; it is never to be the limit. Root of a user namespace gets what any user
        // may have (net.core.wmem_max of the machine); what the kernel does not take then is counted, and a doubt about the run.
        let room = |option| set_at(&sending, libc::SOL_SOCKET, option, 64 << 20, &what);
        room(libc::SO_SNDBUFFORCE).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => room(libc::SO_SNDBUF),
            _ => Err(error),
        })?;
        // Protocol 0: nothing is received here.
        bind(&sending, index, 0, &what)?;
        Ok(Self { device: device.to_owned(), receiving, sending, ring, stats: PortStats::default() })
    }

    pub fn device(&self) -> &str {
        &self.device
    }

    /// The frame that came first and has not been released, if there is one.
    #[inline]
    pub fn first(&self) -> Option<Frame<'_>> {
        self.ring.first()
    }

    /// Gives the place of the first frame back to the kernel.
    #[inline]
    pub fn release(&mut self) {
        self.ring.release();
    }

    /// Sends frames, each with [`HEAD`] bytes before it. What the kernel does not take is counted and lost.
    pub fn send(&mut self, frames: &[&[u8]]) {
        for part in frames.chunks(BATCH) {
            self.send_part(part);
        }
    }

    /// Counters up to now.
    pub fn stats(&mut self) -> PortStats {
        let mut found = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&found) as libc::socklen_t;
        // SAFETY: `found` has the length given and both outlive the call.
        let done = unsafe {
            let (fd, place) = (self.receiving.as_raw_fd(), (&raw mut found).cast());
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, place, &raw mut length)
        };
        if done == 0 {
            // Reading them sets them to zero.
            self.stats.missed += u64::from(found.tp_drops);
        }
        self.stats
    }

    pub(crate) fn number(&self) -> RawFd {
        self.receiving.as_raw_fd()
    }

    fn send_part(&mut self, frames: &[&[u8]]) {
        let mut parts = [const { libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; BATCH];
        // SAFETY: a header of zeros is a valid one without address, data and control data.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((frame, part), header) in frames.iter().zip(&mut parts).zip(&mut headers) {
            // The kernel only reads from there.
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let mut sent = 0;
        while sent < frames.len() {
            let left = (frames.len() - sent) as libc::c_uint;
            // SAFETY: headers, parts and frames live until the call returns; each part has its frame's length.
            let done = unsafe { libc::sendmmsg(self.sending.as_raw_fd(), headers[sent..].as_mut_ptr(), left, libc::MSG_DONTWAIT as _) };
            match done {
                1.. => sent += done as usize,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // The first of those left is at fault; the others are tried.
                _ => {
                    self.stats.refused += 1;
                    sent += 1;
                }
            }
        }
    }
}

/// The memory into which the kernel writes frames, in order.
#[derive(Debug)]
struct Ring {
    memory: *mut u8,
    length: usize,
    frame: usize,
    per_block: usize,
    blocks: usize,
    /// Offset of the next place, and its number in its block.
    next: usize,
    in_block: usize,
}

// SAFETY: the memory belongs to this value alone and to the kernel, wherever the value goes.
unsafe impl Send for Ring {}

impl Ring {
    fn new(socket: &OwnedFd, longest: usize, room: usize, what: &dyn Fn(&str) -> String) -> Result<Self, Failed> {
        // A frame is not a power of two, so that the headers of all frames do not meet in the same few lines of the cache.
        let frame = (longest | 64).next_multiple_of(64);
        let per_block = BLOCK / frame;
        let blocks = (room / BLOCK).max(1);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: frame as libc::c_uint,
            tp_frame_nr: (per_block * blocks) as libc::c_uint,
        };
        // SAFETY: `request` has the length given and outlives the call.
        let done = unsafe {
            let length = size_of_val(&request) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, (&raw const request).cast(), length)
        };
        check(done, || what("making the ring"))?;
        let length = BLOCK * blocks;
        // SAFETY: a new mapping of a socket's ring, of the ring's length, at a place that the kernel chooses.
        let memory = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(Failed::last(what("mapping the ring")));
        }
        Ok(Self { memory: memory.cast(), length, frame, per_block, blocks, next: 0, in_block: 0 })
    }

    #[inline]
    fn first(&self) -> Option<Frame<'_>> {
        const MINE: u32 = libc::TP_STATUS_USER;
        if self.status().load(Ordering::Acquire) & MINE == 0 {
            return None;
        }
        // SAFETY: the place lies in the mapping and is aligned to 64 bytes; the kernel has handed it over (status above, which orders
        // what it wrote before) and writes there again only after `release`, for which no frame may be borrowed.
        let header = unsafe { &*self.memory.add(self.next).cast::<libc::tpacket2_hdr>() };
        let (mac, kept) = ((header.tp_mac as usize).clamp(HEAD, self.frame), header.tp_snaplen as usize);
        debug_assert!(mac == header.tp_mac as usize && mac + kept <= self.frame, "the kernel keeps within the place");
        let end = (mac + kept).min(self.frame);
        // SAFETY: within the place, since HEAD <= mac <= end <= frame; the kernel leaves it alone as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.memory.add(self.next + mac - HEAD), end + HEAD - mac) };
        let real_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        Some(Frame { bytes, real_ns, cut: header.tp_len > header.tp_snaplen })
    }

    #[inline]
    fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.in_block += 1;
        self.next += self.frame;
        if self.in_block == self.per_block {
            self.in_block = 0;
            let block = self.next.next_multiple_of(BLOCK);
            self.next = if block == self.blocks * BLOCK { 0 } else { block };
        }
    }

    /// Who may use the next place.
    #[inline]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the first four bytes of every place, aligned to 64 bytes and mapped as long as `self` lives, shared with the kernel.
        unsafe { AtomicU32::from_ptr(self.memory.add(self.next).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `new`, and no frame is borrowed any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}

fn socket(device: &str) -> Result<OwnedFd, Failed> {
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) }, || {
        format!("opening a packet socket on {device}")
    })?;
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn device_index(device: &str) -> Result<libc::c_int, Failed> {
    let name = CString::new(device).map_err(|e| Failed::new(device, io::Error::new(io::ErrorKind::InvalidInput, e)))?;
    // SAFETY: the name ends in zero and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(Failed::last(format!("looking for the device {device}"))),
        index => Ok(index as libc::c_int),
    }
}

fn set(socket: &OwnedFd, option: libc::c_int, value: libc::c_int, what: &dyn Fn(&str) -> String) -> Result<(), Failed> {
    set_at(socket, libc::SOL_PACKET, option, value, what)
}

fn set_at(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
    what: &dyn Fn(&str) -> String,
) -> Result<(), Failed> {
    // SAFETY: `value` has the length given and outlives the call.
    let done = unsafe {
        let length = size_of_val(&value) as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    check(done, || what(&format!("setting option {option}"))).map(drop)
}

fn bind(socket: &OwnedFd, index: libc::c_int, protocol: u16, what: &dyn Fn(&str) -> String) -> Result<(), Failed> {
    // SAFETY: an address of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    // SAFETY: `address` has the length given and outlives the call.
    let done = unsafe {
        let length = size_of_val(&address) as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    check(done, || what("binding")).map(drop)
}
