//! Parsed segments: the form in which endpoints exchange packets.
//!
//! A [`Segment`] carries every field that the wire form has (TCP with SACK, timestamps and window scale; MPTCP options of
//! RFC 8684) except what the path knows anyway (addresses and ports) and the payload bytes themselves, of which only the
//! length is kept. It is a small plain value: copied, never allocated.
#![forbid(unsafe_code)]

mod segment;

pub use segment::{Dss, EthernetFraming, Flags, MpOption, Sack, SackBlock, Segment, Unreachable};
