//! Messages of MPT, a multipath tunnel of GRE in UDP, as its daemons send them beside data: the
//! keepalive of each path.
//!
//! A message stands behind a GRE header without a sequence number where data stand too. Its first
//! byte tells it from a packet: those begin with their IP version, 0x4n or 0x6n, and messages with
//! 0xa0 or more. The format is not published; it was read from captures of the daemon (`spyff/mpt`,
//! 2019).
//!
//! [`Packet::new_checked`] compares every length with the bytes that are there; after it no getter
//! can panic.

use crate::error::{Error, Result};
use std::net::{IpAddr, Ipv6Addr};

/// The destination port in the files of MPT's authors; RFC 8086 has [`crate::gre::UDP_PORT`].
pub const UDP_PORT: u16 = 23456;
/// The first byte of a message is not less.
const LEAST_COMMAND: u8 = 0xa0;
const KEEPALIVE: u8 = 0xa1;
/// Bytes before what authenticates a message.
const BEGIN: usize = 4;
/// Bytes behind it: round, IP version, two of no use, two addresses.
const END: usize = 4 + 16 + 16;

/// The bytes behind the GRE header are a message and no packet.
pub fn is_message(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|&first| first >= LEAST_COMMAND)
}

/// A view of bytes that hold a keepalive, and perhaps more behind it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view of a keepalive that is there whole.
    pub fn new_checked(buffer: T) -> Result<Self> {
        let &[command, _, _, authentication, ..] = buffer.as_ref() else { return Err(Error::Truncated) };
        if command != KEEPALIVE {
            return Err(Error::Malformed("mpt command"));
        }
        if buffer.as_ref().len() < BEGIN + usize::from(authentication) + END {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    /// What authenticates the message: nothing, 4 or 36 bytes. Nobody checks it in a keepalive.
    pub fn authentication(&self) -> &[u8] {
        &self.buffer.as_ref()[BEGIN..BEGIN + usize::from(self.buffer.as_ref()[3])]
    }

    fn end(&self) -> &[u8] {
        let from = BEGIN + self.authentication().len();
        &self.buffer.as_ref()[from..from + END]
    }

    /// The IP version of the tunnel's addresses.
    pub fn ip_version(&self) -> u8 {
        self.end()[1]
    }

    /// The address of the sender in the tunnel; of IPv4 what stands for it in IPv6
    /// (RFC 4291 section 2.5.5.2).
    pub fn source(&self) -> Ipv6Addr {
        self.address(4)
    }

    /// The address of the receiver in the tunnel.
    pub fn destination(&self) -> Ipv6Addr {
        self.address(20)
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.end()[at..at + 16]);
        bytes.into()
    }
}

/// A keepalive without authentication, which is how MPT sends it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The address of the sender in the tunnel.
    pub source: IpAddr,
    /// The address of the receiver in the tunnel, of the same IP version.
    pub destination: IpAddr,
}

impl Repr {
    /// Reads a keepalive. One with authentication, or with addresses of two versions, is none of
    /// MPT's.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self> {
        if !packet.authentication().is_empty() {
            return Err(Error::Malformed("mpt authentication"));
        }
        let plain = |address: Ipv6Addr| match packet.ip_version() {
            4 => address.to_ipv4_mapped().map(IpAddr::V4),
            6 => Some(IpAddr::V6(address)),
            _ => None,
        };
        match (plain(packet.source()), plain(packet.destination())) {
            (Some(source), Some(destination)) => Ok(Self { source, destination }),
            _ => Err(Error::Malformed("mpt addresses")),
        }
    }

    /// Bytes of the message.
    pub fn buffer_len(&self) -> usize {
        BEGIN + END
    }

    /// Writes the message.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than the message, `Malformed` if the addresses are of
    /// two versions.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let bytes = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        let version = match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 4,
            (IpAddr::V6(_), IpAddr::V6(_)) => 6,
            _ => return Err(Error::Malformed("mpt addresses")),
        };
        let long = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        bytes.fill(0);
        bytes[0] = KEEPALIVE;
        bytes[5] = version;
        bytes[8..24].copy_from_slice(&long(self.source));
        bytes[24..40].copy_from_slice(&long(self.destination));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gre;

    #[test]
    fn a_keepalive_is_44_bytes_behind_udp() {
        let repr = Repr { source: IpAddr::from([10, 0, 0, 1]), destination: IpAddr::from([10, 0, 0, 2]) };
        let header = gre::Repr { protocol: gre::IPV4, payload_len: repr.buffer_len(), ..gre::Repr::default() };
        let mut bytes = vec![0xee; header.buffer_len()];
        repr.emit(&mut bytes[gre::HEADER..]).unwrap();
        header.emit(&mut bytes).unwrap();
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let expected = [&[0, 0, 8, 0, 0xa1, 0, 0, 0, 0, 4, 0, 0][..], &mapped, &[10, 0, 0, 1], &mapped, &[10, 0, 0, 2]].concat();
        assert_eq!((bytes.len(), bytes), (44, expected));
    }

    #[test]
    fn packets_are_no_messages() {
        assert!(!is_message(&[0x45]) && !is_message(&[0x60]) && !is_message(&[]) && is_message(&[0xa1]));
        assert_eq!(Packet::new_checked([0xa2; 40]).err(), Some(Error::Malformed("mpt command")));
    }

    #[test]
    fn lengths_and_versions_are_checked() {
        let mut bytes = [0; 40];
        Repr { source: IpAddr::from([10, 0, 0, 1]), destination: IpAddr::from([10, 0, 0, 2]) }.emit(&mut bytes).unwrap();
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes;
            bytes[at] = to;
            Packet::new_checked(bytes).and_then(|packet| Repr::parse(&packet)).err()
        };
        assert_eq!(changed(3, 1), Some(Error::Truncated), "a byte of authentication that is not there");
        assert_eq!(changed(5, 5), Some(Error::Malformed("mpt addresses")));
        assert_eq!(changed(8, 1), Some(Error::Malformed("mpt addresses")), "no IPv4 address");
        assert_eq!(Packet::new_checked(&bytes[..39]).err(), Some(Error::Truncated));
        let mixed = Repr { source: IpAddr::from([10, 0, 0, 1]), destination: IpAddr::V6(Ipv6Addr::LOCALHOST) };
        assert_eq!(mixed.emit(&mut [0; 40]), Err(Error::Malformed("mpt addresses")));
    }
}
