//! A port: a device from which every frame is read and to which frames are written, past the
//! machine's IP stack and queues.
//!
//! Frames come through a [`PacketRing`]. Sending is by `sendmmsg` and not by a ring: the kernel
//! takes a sending ring's place back when the receiving IP stack takes the packet over, while a TCP
//! receive queue still refers to its memory (net/packet/af_packet.c, `tpacket_destruct_skb`;
//! net/ipv4/ip_input.c, `skb_orphan`), so data could change under the reader.
//!
//! Each frame has [`HEAD`] bytes before it (struct virtio_net_hdr) which say whether its checksum
//! is still to be computed, as it is on every packet that comes out of a stack whose device
//! offloads checksums. They are to be sent along with the frame: the receiving stack then knows
//! that the packet has never been on a wire and neither side computes anything.

use crate::Failed;
use crate::packet_ring::{Frame, PacketRing, PacketSocket, RingLayout};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

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
    sending: PacketSocket,
    ring: PacketRing,
    stats: PortStats,
}

/// What went wrong at a port so far, in frames.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Lost because the ring was full: it was not read for too long.
    pub missed: u64,
    /// Not taken by the kernel: the device is down or has no memory.
    pub refused: u64,
}

impl Port {
    /// Opens a device of the calling thread's namespace whose packets have at most `mtu` bytes; the
    /// ring takes about `room` bytes.
    pub fn open(device: &str, mtu: usize, room: usize) -> Result<Self, Failed> {
        // A frame is not a power of two, so that the headers of all frames do not meet in the same
        // few lines of the cache.
        let frame = ((RING_HEADER + ETHERNET + mtu) | 64).next_multiple_of(64);
        let layout = RingLayout { block: BLOCK, blocks: (room / BLOCK).max(1), frame };
        let ring = PacketRing::open(device, layout, HEAD, &[(libc::PACKET_VNET_HDR, 1), (PACKET_IGNORE_OUTGOING, 1)])?;
        let sending = PacketSocket::open(device)?;
        sending.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        sending.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        // Frames in flight inside the kernel count against this; it is never to be the limit. Root
        // of a user namespace gets what any user may have (net.core.wmem_max of the machine); what
        // the kernel does not take then is counted, and a doubt about the run.
        let room = |option| sending.set(libc::SOL_SOCKET, option, 64 << 20);
        room(libc::SO_SNDBUFFORCE).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => room(libc::SO_SNDBUF),
            _ => Err(error),
        })?;
        // Protocol 0: nothing is received here.
        sending.bind(0)?;
        Ok(Self { device: device.to_owned(), sending, ring, stats: PortStats::default() })
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

    /// Sends frames, each with [`HEAD`] bytes before it. What the kernel does not take is counted
    /// and lost.
    pub fn send(&mut self, frames: &[&[u8]]) {
        for part in frames.chunks(BATCH) {
            self.send_part(part);
        }
    }

    /// Counters up to now.
    pub fn stats(&mut self) -> PortStats {
        self.stats.missed += u64::from(self.ring.take_losses());
        self.stats
    }

    pub(crate) fn number(&self) -> RawFd {
        self.ring.as_raw_fd()
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
            // SAFETY: headers, parts and frames live until the call returns; each part has its
            // frame's length.
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
