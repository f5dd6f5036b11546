//! The formats of packets: what is written is read again, no bytes do harm, and other programs
//! agree.

mod agreement;
mod bytes;
mod harmless;
mod headers;
mod linux;
mod round_trip;
