//! Addresses as a plan writes them, and as netlink wants them.

use crate::sys::{Error, Outcome};
use std::net::IpAddr;

pub(crate) fn ip(text: &str) -> Outcome<IpAddr> {
    text.parse().map_err(|_| Error::caller(format!("{text:?} is no address")))
}

pub(crate) fn mac(text: &str) -> Outcome<[u8; 6]> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
    bytes.ok().and_then(|b| b.try_into().ok()).ok_or_else(|| Error::caller(format!("{text:?} is no MAC address")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::ErrorKind;

    #[test]
    fn what_is_no_address_is_the_fault_of_who_wrote_the_plan() {
        let kind = |error: Option<Error>| error.map(|error| error.kind());
        assert_eq!((kind(ip("10.0.0.256").err()), kind(ip("10.0.0.25").err())), (Some(ErrorKind::Caller), None));
        assert_eq!((kind(mac("02:00:00:00:00").err()), kind(mac("02:00:00:00:00:01").err())), (Some(ErrorKind::Caller), None));
    }
}
