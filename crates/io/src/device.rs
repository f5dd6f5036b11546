//! Settings of a network device: addresses, MTU, routes. By netlink, in the calling thread's namespace.

use crate::{Failed, check};
use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const REQUEST_AND_ACK: u16 = 1 | 4;
const CREATE: u16 = 0x400;
const REPLACE: u16 = 0x100;

/// An address and how many of its bits name the network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub address: IpAddr,
    pub length: u8,
}

impl Prefix {
    /// Whether an address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(own.to_bits() ^ other.to_bits()) << 96,
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= u32::from(self.length)
    }
}

/// Sets a device's MTU and the packets that its queue holds, brings it up, gives it addresses, and leads these networks through it.
pub fn configure(device: &str, mtu: u32, queue: u32, addresses: &[Prefix], routes: &[Prefix]) -> Result<(), Failed> {
    let index = index(device)?;
    let mut link = change(index, libc::IFF_UP as u32, mtu);
    link.put(libc::IFLA_TXQLEN, &queue.to_ne_bytes());
    link.send(|| format!("setting the MTU of {device} to {mtu}"))?;
    for prefix in addresses {
        // IFA_F_NODAD: nobody else can have the address on a device without neighbours.
        let fixed = [family(prefix), prefix.length, 2, 0];
        let mut request = Request::new(libc::RTM_NEWADDR, CREATE | REPLACE, &[&fixed[..], &index.to_ne_bytes()]);
        request.put(libc::IFA_LOCAL, &octets(prefix));
        request.put(libc::IFA_ADDRESS, &octets(prefix));
        request.send(|| format!("giving {device} the address {}/{}", prefix.address, prefix.length))?;
    }
    for prefix in routes {
        // Of the main table, by whoever administers the machine, through a device, to anywhere.
        let fixed = [family(prefix), prefix.length, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RT_SCOPE_LINK, libc::RTN_UNICAST];
        let mut request = Request::new(libc::RTM_NEWROUTE, CREATE | REPLACE, &[&fixed[..], &[0; 4]]);
        request.put(libc::RTA_DST, &octets(prefix));
        request.put(libc::RTA_OIF, &index.to_ne_bytes());
        request.send(|| format!("leading {}/{} through {device}", prefix.address, prefix.length))?;
    }
    Ok(())
}

/// Gives a device another MTU.
pub fn set_mtu(device: &str, mtu: u32) -> Result<(), Failed> {
    change(index(device)?, 0, mtu).send(|| format!("setting the MTU of {device} to {mtu}"))
}

/// A change of a device's MTU, and of those `flags` that are to be set.
fn change(index: u32, flags: u32, mtu: u32) -> Request {
    let mut link = Request::new(libc::RTM_SETLINK, 0, &[&[0; 4][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &flags.to_ne_bytes()]);
    link.put(libc::IFLA_MTU, &mtu.to_ne_bytes());
    link
}

fn index(device: &str) -> Result<u32, Failed> {
    let name = CString::new(device).map_err(|e| Failed::new("a device's name", io::Error::new(io::ErrorKind::InvalidInput, e)))?;
    // SAFETY: the name ends in zero and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(Failed::last(format!("the device {device}"))),
        index => Ok(index),
    }
}

fn family(prefix: &Prefix) -> u8 {
    if prefix.address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(prefix: &Prefix) -> Vec<u8> {
    match prefix.address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A message to the kernel.
struct Request(Vec<u8>);

impl Request {
    fn new(kind: u16, flags: u16, fixed: &[&[u8]]) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST_AND_ACK).to_ne_bytes());
        bytes.extend(fixed.concat());
        Self(bytes)
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        self.0.extend((value.len() as u16 + 4).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Sends it and waits for the kernel's answer.
    fn send(mut self, what: impl Fn() -> String) -> Result<(), Failed> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) }, &what)?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the bytes outlive the call.
        check(unsafe { libc::send(socket.as_raw_fd(), self.0.as_ptr().cast(), self.0.len(), 0) } as libc::c_int, &what)?;
        let mut answer = [0_u8; 4096];
        // SAFETY: the buffer has the length given and outlives the call.
        let got = check(unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) } as libc::c_int, &what)?;
        // struct nlmsghdr, then the error: 0 for none.
        match answer[..got as usize].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(error) => Err(Failed::new(what(), io::Error::from_raw_os_error(-error))),
            None => Err(Failed::new(what(), io::ErrorKind::InvalidData.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_that_begin_like_it() {
        let prefix = |address: &str, length| Prefix { address: address.parse().unwrap(), length };
        let contains = |prefix: Prefix, address: &str| prefix.contains(address.parse().unwrap());
        assert!(contains(prefix("10.1.2.3", 24), "10.1.2.255") && !contains(prefix("10.1.2.3", 24), "10.1.3.0"));
        assert!(contains(prefix("0.0.0.0", 0), "203.0.113.9") && !contains(prefix("0.0.0.0", 0), "::1"));
        assert!(contains(prefix("10.1.2.3", 32), "10.1.2.3") && !contains(prefix("10.1.2.3", 32), "10.1.2.2"));
        assert!(contains(prefix("fd00::", 64), "fd00::9") && !contains(prefix("fd00::", 64), "fd00:0:0:1::"));
    }
}
