//! The longest packet that passes.

use crate::{DropCategory, DropCause, Error, LinkElement, PacketCount, PacketMeta, Verdict};
use polypath_base::{Bytes, Instant};
use serde::Deserialize;

/// What happens to a packet that is too long.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oversize {
    /// Dropped; the sender gets ICMP "fragmentation needed" (RFC 1191 section 4).
    #[default]
    Icmp,
    /// Dropped without ICMP: an MTU black hole.
    Silent,
    /// Split if DF is off, else as `Icmp` (RFC 791 section 3.2).
    Fragment,
}

/// Parameters of [`Mtu`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MtuConfig {
    /// Of the IP packet; at least [`Mtu::MIN`].
    pub bytes: Bytes,
    /// For packets that are longer.
    pub oversize: Oversize,
    /// MTU that the ICMP message names, if not the right one.
    #[serde(default)]
    pub says: Option<Bytes>,
}

impl Default for MtuConfig {
    /// Ethernet's 1500 bytes.
    fn default() -> Self {
        Self { bytes: Bytes::new(1500), oversize: Oversize::default(), says: None }
    }
}

/// Packets longer than this do not pass.
#[derive(Clone, Debug)]
pub struct Mtu {
    bytes: Bytes,
    oversize: Oversize,
    /// What the ICMP message names.
    says: Bytes,
    drops: PacketCount,
}

impl Mtu {
    /// The smallest MTU of IPv4 (RFC 791 section 3.2: every module must forward 68 bytes).
    pub const MIN: Bytes = Bytes::new(68);

    /// # Errors
    /// The MTU is below [`Mtu::MIN`].
    pub fn new(config: MtuConfig) -> Result<Self, Error> {
        let MtuConfig { bytes, oversize, says } = config;
        if bytes < Self::MIN {
            return Err(Error::caller(format!("an MTU of {bytes:?} is below IPv4's smallest, {:?}", Self::MIN)));
        }
        Ok(Self { bytes, oversize, says: says.unwrap_or(bytes), drops: PacketCount::default() })
    }

    #[cold]
    fn too_long(&mut self, packet: PacketMeta) -> Verdict {
        match self.oversize {
            Oversize::Fragment if !packet.df => return Verdict::Fragment { mtu: self.bytes },
            _ => self.drops.add(packet.len),
        }
        if self.answers() { Verdict::TooBig { mtu: self.says } } else { Verdict::Drop(DropCause::Mtu) }
    }
}

impl LinkElement for Mtu {
    #[inline]
    fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        if packet.len <= self.bytes { Verdict::Pass(at) } else { self.too_long(packet) }
    }

    fn drops(&self) -> PacketCount {
        self.drops
    }

    fn drop_category(&self) -> Option<DropCategory> {
        Some(DropCategory::Mtu)
    }

    fn answers(&self) -> bool {
        self.oversize != Oversize::Silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: u64, df: bool) -> PacketMeta {
        PacketMeta { len: Bytes::new(bytes), payload: true, df, ..PacketMeta::default() }
    }

    #[test]
    fn a_packet_as_long_as_the_mtu_passes() {
        let mut mtu = Mtu::new(MtuConfig { bytes: Bytes::new(1500), oversize: Oversize::Silent, says: None }).unwrap();
        assert_eq!(mtu.transit(Instant::ZERO, of(1500, true)), Verdict::Pass(Instant::ZERO));
        assert_eq!(mtu.transit(Instant::ZERO, of(1501, true)), Verdict::Drop(DropCause::Mtu));
        assert_eq!(mtu.drops().packets, 1);
    }

    #[test]
    fn only_a_packet_without_df_is_split() {
        let mut mtu = Mtu::new(MtuConfig { bytes: Bytes::new(1400), oversize: Oversize::Fragment, says: None }).unwrap();
        assert_eq!(mtu.transit(Instant::ZERO, of(1500, true)), Verdict::TooBig { mtu: Bytes::new(1400) });
        assert_eq!(mtu.transit(Instant::ZERO, of(1500, false)), Verdict::Fragment { mtu: Bytes::new(1400) });
        assert_eq!(mtu.drops().packets, 1);
    }

    #[test]
    fn the_message_may_name_another_mtu() {
        let mut mtu = Mtu::new(MtuConfig { bytes: Bytes::new(1500), oversize: Oversize::Icmp, says: Some(Bytes::new(600)) }).unwrap();
        assert_eq!(mtu.transit(Instant::ZERO, of(1501, true)), Verdict::TooBig { mtu: Bytes::new(600) });
        assert_eq!(mtu.transit(Instant::ZERO, of(1500, true)), Verdict::Pass(Instant::ZERO));
    }

    #[test]
    fn an_mtu_below_ipv4s_smallest_is_refused() {
        assert!(Mtu::new(MtuConfig { bytes: Bytes::new(67), oversize: Oversize::Silent, says: None }).is_err());
    }
}
