//! Paths by number.

/// A path of a connection: a pair of addresses and ports. Both ends of a simulated connection use
/// the same number for it. Path 0 is the one of the initial handshake.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PathId(pub u8);
