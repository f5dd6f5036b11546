//! Switches a device's offloads off, as
//! `ethtool -K DEVICE tso off gso off gro off tx-udp-segmentation off` does, in one call a device.

use crate::sys::{self, Error, Outcome};
use std::io;

/// What would make packets of a link larger than its MTU.
const NAMES: [&str; 8] = [
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
    "tx-udp-segmentation",
    "rx-gro",
    "rx-gro-list",
];
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const NAME_LENGTH: usize = 32;

/// Which bits the running kernel has for the offloads: its numbering differs between releases.
#[derive(Debug)]
pub(crate) struct Offload {
    /// The request to switch them off.
    request: Vec<u8>,
}

impl Offload {
    /// Asks the kernel by any device of the calling thread's namespace.
    pub(crate) fn find(device: &str) -> Outcome<Self> {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let wrong = |e: io::Error| Error::machine(format!("the offloads of {device}: {e}"));
        // struct ethtool_sset_info: command, reserved, mask of the sets (u64), then the size of the
        // one set asked for.
        let mut sizes = words(&[ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0]);
        // SAFETY: the command writes the structure and one size, which `sizes` has room for.
        unsafe { sys::ethtool(&socket, device, &mut sizes) }.map_err(wrong)?;
        let count = u32::from_ne_bytes([sizes[16], sizes[17], sizes[18], sizes[19]]) as usize;
        // struct ethtool_gstrings: command, set, number, then the names.
        let mut names = words(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
        names.resize(12 + count * NAME_LENGTH, 0);
        // SAFETY: the command writes `count` names, which `names` has room for.
        unsafe { sys::ethtool(&socket, device, &mut names) }.map_err(wrong)?;
        // struct ethtool_sfeatures: command, number of blocks, then (which bits to set, their
        // values) for each block of 32.
        let mut blocks = vec![0_u32; count.div_ceil(32) * 2];
        for (bit, name) in names[12..].chunks_exact(NAME_LENGTH).enumerate() {
            let name = name.split(|&c| c == 0).next().unwrap_or_default();
            if NAMES.iter().any(|wanted| wanted.as_bytes() == name) {
                blocks[bit / 32 * 2] |= 1 << (bit % 32);
            }
        }
        let mut request = words(&[ETHTOOL_SFEATURES, count.div_ceil(32) as u32]);
        request.extend(words(&blocks));
        Ok(Self { request })
    }

    /// Switches the offloads of a device of the calling thread's namespace off.
    pub(crate) fn switch_off(&self, device: &str) -> Outcome<()> {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // SAFETY: the request has as many blocks as it says.
        unsafe { sys::ethtool(&socket, device, &mut self.request.clone()) }
            .map_err(|e| Error::machine(format!("switching the offloads of {device} off: {e}")))
    }
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}
