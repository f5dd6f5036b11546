//! Mappings of a peer whose segments do not each have their own: one may stand on the first segment
//! alone of those that it covers, and come before or after any of them (RFC 8684 section 3.3.1). It
//! counts for no data before that segment, which Linux looks at first.
//!
//! Only mappings that were read from bytes come here: endpoints of ours put one on each segment.

use polypath_base::DataSeq;
use polypath_wire::{Dss, Segment};

/// Mappings that are remembered; a peer that has more under way maps its data anew.
const MOST: usize = 64;

/// What stands in a DSS option (RFC 8684 section 3.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    dsn: DataSeq,
    ssn: u32,
    len: u16,
    is_wide: bool,
    has_checksum: bool,
}

impl Mapping {
    /// It stands on the segment at a place in the subflow's sequence space.
    pub(super) fn from(at: u32, dss: &Dss) -> Self {
        let before = at.wrapping_sub(dss.ssn).min(u32::from(dss.map_len));
        Self {
            dsn: dss.dsn + u64::from(before),
            ssn: dss.ssn.wrapping_add(before),
            len: dss.map_len - before as u16,
            is_wide: dss.dsn64,
            has_checksum: dss.checksum,
        }
    }

    /// The place in the subflow's sequence space lies in it.
    fn covers(&self, at: u32) -> bool {
        at.wrapping_sub(self.ssn) < u32::from(self.len)
    }

    /// All of it lies before a place.
    fn is_before(&self, at: u32) -> bool {
        self.ssn.wrapping_add(u32::from(self.len)).wrapping_sub(at) as i32 <= 0
    }

    /// A segment has this mapping, as if it stood in its options.
    pub(super) fn put_into(self, segment: &mut Segment) {
        segment.has_dss = true;
        let Self { dsn, ssn, len, is_wide, has_checksum } = self;
        segment.dss = Dss { dsn, ssn, map_len: len, dsn64: is_wide, checksum: has_checksum, ..segment.dss };
    }
}

/// Mappings of which something has yet to come in its turn.
#[derive(Debug, Default)]
pub(super) struct KnownMappings(Vec<Mapping>);

impl KnownMappings {
    /// A mapping has come; `next` is the place in the subflow's sequence space that comes next.
    pub(super) fn learn(&mut self, mapping: Mapping, next: u32) {
        self.0.retain(|known| !known.is_before(next));
        if self.0.len() < MOST && !self.0.contains(&mapping) && !mapping.is_before(next) {
            self.0.push(mapping);
        }
        debug_assert!(self.0.len() <= MOST, "a peer cannot make it longer");
    }

    /// The mapping of a place in the subflow's sequence space.
    pub(super) fn find(&self, at: u32) -> Option<Mapping> {
        self.0.iter().find(|known| known.covers(at)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_known_until_its_end_has_come() {
        let mapping = |ssn, len| Mapping { dsn: DataSeq::new(1000), ssn, len, is_wide: true, has_checksum: false };
        let mut known = KnownMappings::default();
        known.learn(mapping(u32::MAX - 99, 200), u32::MAX - 99);
        known.learn(mapping(100, 50), u32::MAX - 99);
        known.learn(mapping(100, 50), u32::MAX - 99);
        assert_eq!(known.0.len(), 2, "each once");
        assert_eq!(
            [u32::MAX, 99, 100, 149, 150].map(|at| known.find(at).map(|m| m.len)),
            [200, 200, 50, 50, 0].map(|n| (n > 0).then_some(n))
        );
        known.learn(mapping(150, 1), 100);
        assert_eq!((known.find(99), known.find(120).map(|m| m.len)), (None, Some(50)));
    }
}
