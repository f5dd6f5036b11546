//! The longest packet that passes.

use crate::{Count, DropCause, Invalid, PacketMeta, Verdict};
use polypath_base::Instant;

/// What happens to a packet that is too long.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// Dropped; the sender hears of it.
    Answer,
    /// Dropped, and nobody hears: an MTU black hole.
    Silent,
    /// Split if DF is off, else as `Answer` (RFC 791 section 3.2).
    Fragment,
}

/// Packets longer than this many bytes do not pass.
#[derive(Clone, Debug)]
pub struct Mtu {
    bytes: u32,
    oversize: Oversize,
    drops: Count,
}

impl Mtu {
    /// The smallest MTU of IPv4 (RFC 791 section 3.2: every module must forward 68 bytes).
    pub const MIN: u32 = 68;

    pub fn new(bytes: u32, oversize: Oversize) -> Result<Self, Invalid> {
        if bytes < Self::MIN {
            return Err(Invalid(format!("an MTU of {bytes} bytes is below IPv4's smallest, {} bytes", Self::MIN)));
        }
        Ok(Self { bytes, oversize, drops: Count::default() })
    }

    #[inline]
    pub fn transit(&mut self, at: Instant, packet: PacketMeta) -> Verdict {
        if packet.len <= self.bytes { Verdict::Pass(at) } else { self.too_long(packet) }
    }

    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    pub fn answers(&self) -> bool {
        self.oversize != Oversize::Silent
    }

    pub fn drops(&self) -> Count {
        self.drops
    }

    #[cold]
    fn too_long(&mut self, packet: PacketMeta) -> Verdict {
        match self.oversize {
            Oversize::Fragment if !packet.df => return Verdict::Fragment { mtu: self.bytes },
            _ => self.drops.add(packet.len),
        }
        if self.answers() { Verdict::TooBig { mtu: self.bytes } } else { Verdict::Drop(DropCause::Mtu) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: u32, df: bool) -> PacketMeta {
        PacketMeta { len: bytes, payload: true, df, ..PacketMeta::default() }
    }

    #[test]
    fn a_packet_as_long_as_the_mtu_passes() {
        let mut mtu = Mtu::new(1500, Oversize::Silent).unwrap();
        assert_eq!(mtu.transit(Instant::ZERO, of(1500, true)), Verdict::Pass(Instant::ZERO));
        assert_eq!(mtu.transit(Instant::ZERO, of(1501, true)), Verdict::Drop(DropCause::Mtu));
        assert_eq!(mtu.drops().packets, 1);
    }

    #[test]
    fn only_a_packet_without_df_is_split() {
        let mut mtu = Mtu::new(1400, Oversize::Fragment).unwrap();
        assert_eq!(mtu.transit(Instant::ZERO, of(1500, true)), Verdict::TooBig { mtu: 1400 });
        assert_eq!(mtu.transit(Instant::ZERO, of(1500, false)), Verdict::Fragment { mtu: 1400 });
        assert_eq!(mtu.drops().packets, 1);
    }

    #[test]
    fn an_mtu_below_ipv4s_smallest_is_refused() {
        assert!(Mtu::new(67, Oversize::Silent).is_err());
    }
}
