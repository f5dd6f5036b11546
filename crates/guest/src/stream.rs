//! Byte streams in bulk: what is sent is zeros, what is read is thrown away.

use crate::sys::{self, StreamSocket};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What one call sends.
pub(crate) const CHUNK: usize = 256 << 10;
/// What one call reads at most, where it may return as soon as there is something.
pub(crate) const READ: usize = 4 << 20;

/// What the senders send.
pub(crate) fn chunk() -> Arc<Vec<u8>> {
    Arc::new(vec![0; CHUNK])
}

/// Sends so many bytes, however long it takes.
pub(crate) fn send_whole(socket: &Arc<OwnedFd>, chunk: &[u8], mut bytes: u64) -> std::io::Result<()> {
    while bytes > 0 {
        match sys::send(socket, &chunk[..bytes.min(chunk.len() as u64) as usize]) {
            Ok(sent) => bytes -= sent as u64,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads so many bytes and throws them away; false if the connection ends before.
pub(crate) fn read_whole(socket: StreamSocket<'_>, mut bytes: u64) -> bool {
    while bytes > 0 {
        match sys::discard(socket, bytes.min(READ as u64) as usize, libc::MSG_WAITALL) {
            Ok(0) => return false,
            Ok(read) => bytes -= read as u64,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}
