//! A TUN device: IP packets of this machine's stack, read and written by a program.
//!
//! Before each packet stand [`VIRTIO_HEAD`] bytes (struct virtio_net_hdr), which say what of the
//! packet is left to do: its checksum, or cutting it into segments. How much of that the kernel may
//! leave to the program is [`Offload`].

use crate::{Failed, check};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Bytes before each packet: struct virtio_net_hdr.
pub const VIRTIO_HEAD: usize = 10;

const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const CHECKSUM: libc::c_uint = 1;
const TSO: libc::c_uint = 2 | 4;
/// Linux 6.2 and later.
const USO: libc::c_uint = 0x20 | 0x40;

/// What the kernel hands over unfinished, and takes so.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// Whole packets only.
    None,
    /// Large TCP segments, and packets without checksums.
    Tcp,
    /// Several UDP datagrams in one as well.
    TcpAndUdp,
}

/// A device that exists until it is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    offload: Offload,
}

impl Tun {
    /// The file of which [`Tun::make`] makes a device, in the namespace of who opens it.
    pub fn file() -> Result<File, Failed> {
        File::options().read(true).write(true).open("/dev/net/tun").map_err(|e| Failed::new("opening /dev/net/tun", e))
    }

    /// Makes a device of this name, with as much of the wanted offload as the kernel has. Reads do
    /// not wait.
    pub fn make(file: File, name: &str, wanted: Offload) -> Result<Self, Failed> {
        // SAFETY: a request of zeros is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= request.ifr_name.len() {
            return Err(Failed::new(format!("the device name {name:?}"), io::ErrorKind::InvalidInput.into()));
        }
        for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the request outlives the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw const request) }, || format!("making the TUN device {name}"))?;
        // SAFETY: flags of an open descriptor; no memory is passed.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }, || format!("reading {name} without waiting"))?;
        let offers = [(Offload::TcpAndUdp, CHECKSUM | TSO | USO), (Offload::Tcp, CHECKSUM | TSO), (Offload::None, 0)];
        let mut refused = None;
        for (offload, flags) in offers.into_iter().filter(|&(offload, _)| offload <= wanted) {
            // SAFETY: the flags are passed by value.
            match check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, libc::c_ulong::from(flags)) }, || {
                format!("choosing the offloads of {name}")
            }) {
                Ok(_) => return Ok(Self { file, name: name.to_owned(), offload }),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| Failed::last(format!("choosing the offloads of {name}"))))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the kernel agreed to.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// The next packet behind its head; none if there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>, Failed> {
        match (&self.file).read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(Failed::new(format!("reading {}", self.name), e)),
        }
    }

    /// Hands a packet in pieces, its head the first of them, to the stack.
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> Result<(), Failed> {
        (&self.file).write_vectored(pieces).map(drop).map_err(|e| Failed::new(format!("writing to {}", self.name), e))
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
