//! The operating system's side of packets in real time: packet rings, clocks, waiting, namespaces,
//! signals.
//!
//! Safe functions over system calls. Nothing here decides anything: what is read is handed up as it
//! came, and what is sent was due before it got here. Errors are sentences that name the call and
//! its object; who calls adds what it was for.
//!
//! Frames: [`Port`] (`packet_ring`), [`Tun`]. Datagrams: [`Datagrams`]. Time and waiting:
//! [`Clock`], [`wait()`], [`Waiter`], [`Wake`], [`Signals`]. Networks: [`Namespace`], `device`
//! ([`configure`]), [`netlink`]. Processes: [`Helper`], `privileges`, `process`. To measure with:
//! `between`, `traffic`.

mod between;
mod clock;
mod datagrams;
mod device;
mod helper;
mod namespace;
pub mod netlink;
mod packet_ring;
mod port;
mod privileges;
mod process;
mod signals;
mod traffic;
mod tun;
mod wait;
mod waiter;
mod wake;

pub use between::{Between, Sent, TAIL};
pub use clock::{Clock, KernelTime, time_of_day_ns};
pub use datagrams::{Datagrams, Full, MOST_SEGMENTS, Received, Rooms, Slots, receive_many};
pub use device::{Prefix, configure, set_mtu};
pub use helper::{Helper, bind_private, peer_user, receive, send};
pub use namespace::Namespace;
pub use packet_ring::{Frame, PacketRing, RingLayout};
pub use port::{HEAD, Port, PortStats};
pub use privileges::{keep_net_admin_only, leave_root, user};
pub use process::{bind_to_parent, enter_urgent, name_thread, processors, random, thread_time};
pub use signals::{Signal, Signals};
pub use traffic::{Arrival, UdpReceiver, UdpSender};
pub use tun::{Offload, Tun, VIRTIO_HEAD};
pub use wait::wait;
pub use waiter::Waiter;
pub use wake::Wake;

use polypath_base::Error;
use std::fmt;
use std::io;

/// A system call that failed, and on what.
#[derive(Debug)]
pub struct Failed {
    what: String,
    cause: io::Error,
}

impl Failed {
    pub fn new(what: impl Into<String>, cause: io::Error) -> Self {
        Self { what: what.into(), cause }
    }

    /// What the call has left in `errno`.
    fn last(what: impl Into<String>) -> Self {
        Self::new(what, io::Error::last_os_error())
    }

    pub fn kind(&self) -> io::ErrorKind {
        self.cause.kind()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A call that fails is this machine's fault.
impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        Self::machine(failed.to_string())
    }
}

/// What a call gave back, or the sentence about it where it is negative.
fn check(result: libc::c_int, what: impl FnOnce() -> String) -> Result<libc::c_int, Failed> {
    if result < 0 { Err(Failed::last(what())) } else { Ok(result) }
}
