//! Settings of a network device: addresses, MTU, routes. By netlink, in the calling thread's
//! namespace.

use crate::Failed;
use crate::netlink::{CREATE, Message, Netlink, REPLACE};
use polypath_base::Error;
use std::ffi::CString;
use std::io;
use std::net::IpAddr;

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

/// Sets a device's MTU and the packets that its queue holds, brings it up, gives it addresses, and
/// leads these networks through it.
pub fn configure(device: &str, mtu: u32, queue: u32, addresses: &[Prefix], routes: &[Prefix]) -> Result<(), Error> {
    let index = index(device)?;
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    let link = change(index, libc::IFF_UP as u32, mtu).put_u32(libc::IFLA_TXQLEN, queue);
    netlink.queue(link, format!("setting the MTU of {device} to {mtu}"));
    for prefix in addresses {
        // IFA_F_NODAD: nobody else can have the address on a device without neighbours.
        let fixed = [&[family(prefix), prefix.length, 2, 0][..], &index.to_ne_bytes()].concat();
        let octets = octets(prefix);
        let request =
            Message::new(libc::RTM_NEWADDR, CREATE | REPLACE, &fixed).put(libc::IFA_LOCAL, &octets).put(libc::IFA_ADDRESS, &octets);
        netlink.queue(request, format!("giving {device} the address {}/{}", prefix.address, prefix.length));
    }
    for prefix in routes {
        // Of the main table, by whoever administers the machine, through a device, to anywhere.
        let [main, by, scope, kind] = [libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RT_SCOPE_LINK, libc::RTN_UNICAST];
        let fixed = [family(prefix), prefix.length, 0, 0, main, by, scope, kind, 0, 0, 0, 0];
        let request =
            Message::new(libc::RTM_NEWROUTE, CREATE | REPLACE, &fixed).put(libc::RTA_DST, &octets(prefix)).put_u32(libc::RTA_OIF, index);
        netlink.queue(request, format!("leading {}/{} through {device}", prefix.address, prefix.length));
    }
    netlink.flush()
}

/// Gives a device another MTU.
pub fn set_mtu(device: &str, mtu: u32) -> Result<(), Error> {
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    netlink.queue(change(index(device)?, 0, mtu), format!("setting the MTU of {device} to {mtu}"));
    netlink.flush()
}

/// A change of a device's MTU, and of those `flags` that are to be set.
fn change(index: u32, flags: u32, mtu: u32) -> Message {
    let fixed = [[0; 4], index.to_ne_bytes(), flags.to_ne_bytes(), flags.to_ne_bytes()].concat();
    Message::new(libc::RTM_SETLINK, 0, &fixed).put_u32(libc::IFLA_MTU, mtu)
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
