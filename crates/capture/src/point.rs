//! Where a capture saw a packet.

/// Where packets are seen in one way.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) port: Port,
    /// The link's header says that this host sent it.
    pub(crate) is_sent: bool,
    /// TTL or hop limit.
    pub(crate) hops: u8,
}

/// An interface, or what stands for one.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) file: usize,
    pub(crate) interface: u32,
    /// The link's header of a capture of all interfaces names it.
    pub(crate) device: u32,
    /// That header names none: Linux cooked capture of version 1.
    pub(crate) is_unnamed: bool,
    /// Headers outside the innermost IP packet, and VLANs.
    pub(crate) headers: u32,
    pub(crate) vlans: u32,
}
