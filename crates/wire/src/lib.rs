//! Packets: the formats on the wire, and the parsed segments that endpoints exchange.
//!
//! Each format has a module with the same two types. `Packet` is a view of bytes:
//! `Packet::new_checked` compares every length with the bytes that are there, and after it no
//! getter can panic, whatever a peer has sent. `Repr` is what the header says, as a small plain
//! value: `Repr::parse` reads it off a view, `buffer_len` tells the length of the whole packet, and
//! `emit` writes the header in front of a payload that lies in the buffer already, since most
//! checksums cover it. Addresses come in as [`checksum::Addresses`] where a checksum covers them.
//!
//! Numbers of more than one byte are big-endian on the wire (RFC 791 appendix B); getters and
//! `Repr` have them as plain numbers. Lengths are in bytes where no other unit is named. [`pcapng`]
//! alone is little-endian.
//!
//! What travels in the simulator is a [`Segment`]: it carries every field that the wire form has
//! (TCP with SACK, timestamps and window scale; every MPTCP option whole) except what the path
//! knows anyway (addresses and ports) and the payload bytes themselves, of which only the length is
//! kept. It is copied, never allocated.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod accecn;
pub mod checksum;
mod codec;
mod error;
pub mod gre;
pub mod icmpv4;
pub mod icmpv6;
mod inline;
pub mod ipv4;
pub mod ipv6;
pub mod mpt;
pub mod mptcp;
pub mod parity;
pub mod pcapng;
pub mod probe;
pub mod report;
mod segment;
pub mod tcp;
pub mod udp;

pub use codec::Envelope;
pub use error::{Error, Result};
pub use inline::Inline;
pub use segment::{DEFAULT_MSS, MAX_OPTIONS, SACK_BLOCK_BYTES, SACK_BYTES, TIMESTAMP_BYTES, sack_bytes};
pub use segment::{Dss, Flags, MpOptions, Sack, SackBlock, Segment, Unreachable};
