//! A packet socket whose received frames come through a ring of memory shared with the kernel
//! (AF_PACKET, TPACKET_V2), one call for none of them. Version 2 and not 3: version 3 hands frames
//! over in blocks, when one is full or a timer of whole milliseconds ends, and a link emulator that
//! learns of a packet a millisecond late is late itself.

use crate::{Failed, check};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// How a ring lies in memory: blocks of so many bytes, and in each as many places of `frame` bytes
/// as it has room for.
#[derive(Copy, Clone, Debug)]
pub struct RingLayout {
    /// A multiple of the machine's pages.
    pub block: usize,
    pub blocks: usize,
    /// A multiple of 16; the kernel's header takes the first bytes.
    pub frame: usize,
}

/// A frame that has come.
#[derive(Copy, Clone, Debug)]
pub struct Frame<'a> {
    /// What the ring was told to keep before a frame, then the frame from its link header on.
    pub bytes: &'a [u8],
    /// When the kernel got it, ns of CLOCK_REALTIME.
    pub real_ns: u64,
    /// Of the whole frame.
    pub length: u32,
    /// Its end is missing, since the place is too short for it.
    pub cut: bool,
}

/// The memory into which the kernel writes frames, in order.
#[derive(Debug)]
pub struct PacketRing {
    socket: PacketSocket,
    memory: *mut u8,
    layout: RingLayout,
    /// Bytes that are kept before each frame.
    head: usize,
    /// Offset of the next place, and its number in its block.
    next: usize,
    in_block: usize,
}

// SAFETY: the memory belongs to this value alone and to the kernel, wherever the value goes.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// For a device of the calling thread's namespace, with `head` bytes before each frame that are
    /// due to these options (PACKET_*).
    pub fn open(device: &str, layout: RingLayout, head: usize, options: &[(libc::c_int, libc::c_int)]) -> Result<Self, Failed> {
        // Nothing comes before the ring is there and the socket is bound.
        let socket = PacketSocket::open(device)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        for &(option, value) in options {
            socket.set(libc::SOL_PACKET, option, value)?;
        }
        let RingLayout { block, blocks, frame } = layout;
        let request = libc::tpacket_req {
            tp_block_size: block as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: frame as libc::c_uint,
            tp_frame_nr: (block / frame * blocks) as libc::c_uint,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        // SAFETY: a new mapping of a socket's ring, of the ring's length, at a place that the
        // kernel chooses.
        let memory = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
            libc::mmap(std::ptr::null_mut(), block * blocks, protection, flags, socket.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(Failed::last(format!("mapping the ring of {device}")));
        }
        let ring = Self { socket, memory: memory.cast(), layout, head, next: 0, in_block: 0 };
        ring.socket.bind(libc::ETH_P_ALL as u16)?;
        Ok(ring)
    }

    /// The frame that came first and has not been released, if there is one.
    #[inline]
    pub fn first(&self) -> Option<Frame<'_>> {
        const MINE: u32 = libc::TP_STATUS_USER;
        if self.status().load(Ordering::Acquire) & MINE == 0 {
            return None;
        }
        // SAFETY: the place lies in the mapping and is aligned to 16 bytes; the kernel has handed
        // it over (status above, which orders what it wrote before) and writes there again only
        // after `release`, for which no frame may be borrowed.
        let header = unsafe { &*self.memory.add(self.next).cast::<libc::tpacket2_hdr>() };
        let (head, frame) = (self.head, self.layout.frame);
        let (mac, kept) = ((header.tp_mac as usize).clamp(head, frame), header.tp_snaplen as usize);
        debug_assert!(mac == header.tp_mac as usize && mac + kept <= frame, "the kernel keeps within the place");
        let end = (mac + kept).min(frame);
        // SAFETY: within the place, since head <= mac <= end <= frame; the kernel leaves it alone
        // as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.memory.add(self.next + mac - head), end + head - mac) };
        let real_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        Some(Frame { bytes, real_ns, length: header.tp_len, cut: header.tp_len > header.tp_snaplen })
    }

    /// Gives the place of the first frame back to the kernel.
    #[inline]
    pub fn release(&mut self) {
        let RingLayout { block, blocks, frame } = self.layout;
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.in_block += 1;
        self.next += frame;
        if self.in_block == block / frame {
            self.in_block = 0;
            let begin = self.next.next_multiple_of(block);
            self.next = if begin == blocks * block { 0 } else { begin };
        }
    }

    /// Frames that found the ring full since this was last asked.
    pub fn take_losses(&self) -> u32 {
        let mut found = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&found) as libc::socklen_t;
        // SAFETY: `found` has the length given and both outlive the call. Where it fails, nobody is
        // told of losses.
        unsafe {
            let (fd, place) = (self.as_raw_fd(), (&raw mut found).cast());
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, place, &raw mut length);
        }
        found.tp_drops
    }

    /// Who may use the next place.
    #[inline]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the first four bytes of every place, aligned to 16 bytes and mapped as long as
        // `self` lives, shared with the kernel.
        unsafe { AtomicU32::from_ptr(self.memory.add(self.next).cast()) }
    }
}

impl AsRawFd for PacketRing {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `open`, and no frame is borrowed any more.
        unsafe { libc::munmap(self.memory.cast(), self.layout.block * self.layout.blocks) };
    }
}

/// A packet socket for one device.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: OwnedFd,
    device: String,
    index: libc::c_int,
}

impl PacketSocket {
    pub(crate) fn open(device: &str) -> Result<Self, Failed> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) }, || {
            format!("opening a packet socket on {device}")
        })?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let name = CString::new(device).map_err(|e| Failed::new(device, io::Error::new(io::ErrorKind::InvalidInput, e)))?;
        // SAFETY: the name ends in zero and outlives the call.
        match unsafe { libc::if_nametoindex(name.as_ptr()) } {
            0 => Err(Failed::last(format!("looking for the device {device}"))),
            index => Ok(Self { socket, device: device.to_owned(), index: index as libc::c_int }),
        }
    }

    /// Sets an option to a plain value.
    pub(crate) fn set<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: T) -> Result<(), Failed> {
        // SAFETY: `value` is plain data of the length given and outlives the call.
        let done = unsafe {
            let length = size_of::<T>() as libc::socklen_t;
            libc::setsockopt(self.as_raw_fd(), level, option, (&raw const value).cast(), length)
        };
        check(done, || format!("setting option {option} of a packet socket on {}", self.device)).map(drop)
    }

    pub(crate) fn bind(&self, protocol: u16) -> Result<(), Failed> {
        // SAFETY: an address of zeros is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index;
        // SAFETY: `address` has the length given and outlives the call.
        let done = unsafe {
            let length = size_of_val(&address) as libc::socklen_t;
            libc::bind(self.as_raw_fd(), (&raw const address).cast(), length)
        };
        check(done, || format!("binding a packet socket on {}", self.device)).map(drop)
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
