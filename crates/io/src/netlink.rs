//! Netlink: messages of nested attributes, sent in batches, and the walk through what comes back.
//!
//! A batch is one system call however many messages it has; the kernel answers the last one and
//! whatever fails.

use crate::datagrams::receive_many;
use crate::{Failed, check};
use polypath_base::Error;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub const REQUEST: u16 = 1;
const ACK: u16 = 4;
pub const DUMP: u16 = 0x300;
pub const REPLACE: u16 = 0x100;
pub const EXCL: u16 = 0x200;
pub const CREATE: u16 = 0x400;
const NESTED: u16 = 0x8000;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Length of the header of a message.
const HEADER: usize = 16;
/// Longer answers of one datagram do not occur: the kernel's own buffers for dumps are 32 KiB at
/// most.
const BUFFER: usize = 64 << 10;

/// A message in the making.
#[derive(Clone, Debug)]
#[must_use = "a message does nothing until it is sent"]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message of this type with its fixed part.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        let mut message = Self { bytes };
        message.pad();
        message
    }

    pub fn put(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    pub fn put_u8(self, kind: u16, value: u8) -> Self {
        self.put(kind, &[value])
    }

    pub fn put_u16(self, kind: u16, value: u16) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    pub fn put_u32(self, kind: u16, value: u32) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// A text with its zero at the end.
    pub fn put_text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes)
    }

    /// An attribute that holds `fixed` and then whatever `fill` puts.
    pub fn nest(mut self, kind: u16, fixed: &[u8], fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(fixed);
        self.pad();
        let mut message = fill(self);
        let length = (message.bytes.len() - start) as u16;
        message.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        message.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        message
    }

    /// Like `nest`, with the flag that newer families insist on.
    pub fn nest_flagged(self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        self.nest(kind | NESTED, &[], fill)
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The message without its header.
    pub fn body(&self) -> &[u8] {
        &self.bytes[HEADER..]
    }

    fn finish(mut self, sequence: u32, acknowledged: bool) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        if acknowledged {
            self.bytes[6] |= ACK as u8;
        }
        self.bytes
    }
}

/// A netlink socket. It belongs for ever to the namespace that the thread was in when it was
/// opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    waiting: Vec<(Message, String)>,
    buffers: [Vec<u8>; 4],
}

impl Netlink {
    pub fn open(protocol: libc::c_int) -> Result<Self, Error> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) }, || {
            "opening a netlink socket".to_owned()
        })?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { socket, sequence: 0, waiting: Vec::new(), buffers: [const { Vec::new() }; 4] })
    }

    /// Adds a message to the batch; `what` names it should it fail.
    pub fn queue(&mut self, message: Message, what: impl Into<String>) {
        self.waiting.push((message, what.into()));
    }

    /// Sends the batch and waits until the kernel has done all of it. The first failure comes back.
    pub fn flush(&mut self) -> Result<(), Error> {
        /// The kernel takes no datagram that is longer than the socket's send buffer (208 KiB by
        /// default).
        const MOST: usize = 100 << 10;
        let mut all = std::mem::take(&mut self.waiting).into_iter().peekable();
        while all.peek().is_some() {
            let (first, mut bytes, mut names) = (self.sequence + 1, Vec::new(), Vec::new());
            while let Some((message, what)) = all.next() {
                self.sequence += 1;
                let last = bytes.len() > MOST || all.peek().is_none();
                bytes.extend(message.finish(self.sequence, last));
                names.push(what);
                if last {
                    break;
                }
            }
            self.send(&bytes)?;
            self.await_answers(first, &names)?;
        }
        Ok(())
    }

    fn await_answers(&mut self, first: u32, names: &[String]) -> Result<(), Error> {
        let (last, mut failure) = (self.sequence, None);
        loop {
            let (lengths, count) = self.receive()?;
            for part in self.buffers.iter().zip(lengths).take(count).flat_map(|(buffer, length)| messages(&buffer[..length])) {
                if part.kind != ERROR || part.sequence < first {
                    continue;
                }
                if let (Some(cause), None) = (part.error(), &failure) {
                    let what = names.get((part.sequence - first) as usize).map_or("a request", String::as_str);
                    failure = Some(Failed::new(what, cause));
                }
                if part.sequence == last {
                    return failure.map_or(Ok(()), |failed: Failed| Err(failed.into()));
                }
            }
        }
    }

    /// Asks one question, and hands every message of the answer to `each`.
    pub fn ask(&mut self, message: Message, mut each: impl FnMut(Part<'_>)) -> Result<(), Error> {
        self.sequence += 1;
        let dump = message.bytes[6..8] == (DUMP | REQUEST).to_ne_bytes();
        let sequence = self.sequence;
        self.send(&message.finish(sequence, false))?;
        loop {
            let (lengths, count) = self.receive()?;
            for (buffer, length) in self.buffers.iter().zip(lengths).take(count) {
                for part in messages(&buffer[..length]).filter(|part| part.sequence == sequence) {
                    match part.kind {
                        DONE => return Ok(()),
                        ERROR => return part.error().map_or(Ok(()), |cause| Err(Failed::new("netlink", cause).into())),
                        _ => each(part),
                    }
                    if !dump {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        // SAFETY: `bytes` outlives the call and has the length given.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(Failed::last("netlink").into()) } else { Ok(()) }
    }

    /// Datagrams into the buffers: their lengths, and how many came.
    fn receive(&mut self) -> Result<([usize; 4], usize), Error> {
        for buffer in &mut self.buffers {
            buffer.resize(BUFFER, 0);
        }
        receive_many(&self.socket, &mut self.buffers).map_err(|cause| Failed::new("netlink", cause).into())
    }
}

/// A message that came.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub kind: u16,
    pub sequence: u32,
    /// Fixed part and attributes.
    pub body: &'a [u8],
}

impl Part<'_> {
    /// What the kernel says of a request that failed.
    fn error(&self) -> Option<io::Error> {
        let code = self.body.first_chunk().map_or(0, |b| i32::from_ne_bytes(*b));
        (code != 0).then(|| io::Error::from_raw_os_error(-code))
    }
}

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        if length < HEADER || length > bytes.len() {
            return None;
        }
        let part = Part { kind: short(bytes, 4), sequence: word(bytes, 8), body: &bytes[HEADER..length] };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(part)
    })
}

/// Type (without flags) and value of each attribute.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(*bytes.first_chunk()?) as usize;
        if length < 4 || length > bytes.len() {
            return None;
        }
        let attribute = (short(bytes, 2) & 0x3fff, &bytes[4..length]);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(attribute)
    })
}

/// The first attribute of a type.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Two bytes at `at`, 0 where the message is too short for them.
pub fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

/// Four bytes at `at`, 0 where the message is too short for them.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b))
}

/// Eight bytes at `at`, 0 where the message is too short for them.
pub fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_attributes_come_back_as_they_were_put() {
        let message = Message::new(16, 0, &[1, 2, 3]).nest(5, &[], |m| m.put_text(1, "ab").put_u32(2, 7)).put_u8(6, 9);
        let body = message.body();
        assert_eq!(body[..4], [1, 2, 3, 0]);
        let outer: Vec<_> = attributes(&body[4..]).map(|(kind, value)| (kind, value.len())).collect();
        assert_eq!(outer, [(5, 16), (6, 1)]);
        let inner = attribute(&body[4..], 5).unwrap_or_default();
        assert_eq!(attribute(inner, 1), Some(&b"ab\0"[..]));
        assert_eq!(attribute(inner, 2).map(|v| word(v, 0)), Some(7));
    }

    #[test]
    fn cut_off_bytes_end_the_walk() {
        let message = Message::new(16, 0, &[]).put_u32(1, 1).put_u32(2, 2);
        assert_eq!(attributes(&message.body()[..14]).count(), 1);
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(messages(&[255, 255, 0, 0, 1]).count(), 0);
    }
}
