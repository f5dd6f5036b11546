//! A packet socket's receive ring (TPACKET_V2) in shared memory.

use crate::sys::{self, Outcome};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// struct tpacket2_hdr without the address behind it.
const HEADER: usize = 32;
/// From a frame's begin to the Ethernet header: tpacket2_hdr, sockaddr_ll, and the alignment of the network header (packet_mmap.rst).
const TO_PACKET: usize = 66;
const ALIGNMENT: usize = 16;
const BLOCK: usize = 128 << 10;
/// Frames in a ring at least: 20 ms of full-size packets and their acknowledgements at 3 Gbit/s.
const FRAMES: usize = 8192;
const TP_STATUS_USER: u32 = 1;

#[derive(Debug)]
pub(crate) struct Ring {
    socket: OwnedFd,
    memory: *mut u8,
    length: usize,
    frame: usize,
    count: usize,
    next: usize,
}

impl Ring {
    /// For a device of the calling thread's namespace.
    pub(crate) fn open(device: u32, snaplen: u32) -> Outcome<Self> {
        const PACKET_RX_RING: libc::c_int = 5;
        const PACKET_VERSION: libc::c_int = 10;
        const TPACKET_V2: libc::c_int = 1;
        // Protocol 0: nothing comes before the ring is there and the socket is bound.
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        sys::set_option(&socket, libc::SOL_PACKET, PACKET_VERSION, TPACKET_V2)?;
        let frame = (TO_PACKET + snaplen as usize).next_multiple_of(ALIGNMENT).min(BLOCK);
        let a_block = BLOCK / frame;
        let blocks = FRAMES.div_ceil(a_block);
        // struct tpacket_req: size of a block, blocks, size of a frame, frames.
        let request = [BLOCK as u32, blocks as u32, frame as u32, (blocks * a_block) as u32];
        sys::set_option(&socket, libc::SOL_PACKET, PACKET_RX_RING, request)?;
        let length = blocks * BLOCK;
        // SAFETY: a new mapping of the ring that the socket has just got; the result is checked.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(sys::failed("mmap"));
        }
        let ring = Self { socket, memory: memory.cast(), length, frame, count: blocks * a_block, next: 0 };
        ring.bind(device)?;
        Ok(ring)
    }

    fn bind(&self, device: u32) -> Outcome<()> {
        // SAFETY: an address of zeros is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = device as i32;
        // SAFETY: `address` outlives the call and has the size given.
        let done =
            unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t) };
        if done < 0 { Err(sys::failed("bind")) } else { Ok(()) }
    }

    /// Hands (seconds, nanoseconds, length on the wire, bytes) of each packet to `each`.
    pub(crate) fn empty(&mut self, mut each: impl FnMut(u32, u32, u32, &[u8])) {
        loop {
            let a_block = BLOCK / self.frame;
            let offset = self.next / a_block * BLOCK + self.next % a_block * self.frame;
            // SAFETY: `next` is below `count`, so the frame lies in the mapping; its first word is aligned to 16.
            let (frame, status) = unsafe {
                let frame = self.memory.add(offset);
                (frame, AtomicU32::from_ptr(frame.cast()))
            };
            if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the status says that the kernel has filled the frame and leaves it alone until the status is 0 again.
            let bytes = unsafe { std::slice::from_raw_parts(frame, self.frame) };
            let word = |at: usize| crate::netlink::word(bytes, at);
            // Length, length kept, offsets of the Ethernet and network headers, seconds, nanoseconds.
            let (length, kept, at) = (word(4), word(8) as usize, usize::from(crate::netlink::short(bytes, 12)));
            debug_assert!(at >= HEADER, "packets lie behind their headers");
            each(word(16), word(20), length, bytes.get(at..at + kept).unwrap_or_default());
            status.store(0, Ordering::Release);
            self.next = (self.next + 1) % self.count;
        }
    }

    /// Packets that found the ring full.
    pub(crate) fn losses(&self) -> u32 {
        const PACKET_STATISTICS: libc::c_int = 6;
        // struct tpacket_stats: packets, drops.
        let mut counts = [0; 8];
        sys::get_option(&self.socket, libc::SOL_PACKET, PACKET_STATISTICS, &mut counts);
        crate::netlink::word(&counts, 4)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` and nobody uses it any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}
