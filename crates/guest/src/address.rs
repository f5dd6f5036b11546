//! Addresses as a plan writes them, and as netlink wants them.

use crate::sys::Outcome;
use std::net::IpAddr;

pub(crate) fn ip(text: &str) -> Outcome<IpAddr> {
    text.parse().map_err(|_| format!("{text:?} is no address"))
}

pub(crate) fn mac(text: &str) -> Outcome<[u8; 6]> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
    bytes.ok().and_then(|b| b.try_into().ok()).ok_or_else(|| format!("{text:?} is no MAC address"))
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(crate) fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}
