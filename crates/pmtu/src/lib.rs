//! Searches for the largest packet that a path passes (RFC 4821, RFC 8899): what size to probe next, and what came of it.
//!
//! A search sees sizes of packets and times; it never touches an endpoint, so that TCP and a tunnel can use the same ones. Each is a small
//! struct with a [`Policy`]; [`Search`] is the closed set of them, matched by an enum. Whoever sends says when a probe has room, which probes
//! arrived and which are lost.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod linux;

pub use linux::Linux;
use polypath_base::{Bytes, Duration, Instant};

/// Every link passes packets of so many bytes (RFC 791), whatever a message says.
pub const LEAST_MTU: Bytes = Bytes::new(68);

/// Between what sizes of packets a search takes place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Where it begins: what nearly every path passes (RFC 8899 section 5.1.2: `BASE_PLPMTU`). For TCP the packet with `tcp_base_mss`.
    pub base: Bytes,
    /// What the interface, the route and the peer allow (RFC 8899: `MAX_PLPMTU`).
    pub ceiling: Bytes,
    /// What a packet holds beside data.
    pub headers: Bytes,
}

/// What a host's settings say of searches; the names are those of Linux's sysctls.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sysctls {
    /// `tcp_mtu_probing`: 0 no search, 1 once a black hole is suspected, 2 from the start. By default 0.
    pub mtu_probing: u8,
    /// `tcp_probe_threshold`: a range narrower than this is not searched. By default 8.
    pub probe_threshold: Bytes,
    /// `tcp_probe_interval`: a search that has ended begins anew after this. By default 600 s.
    pub probe_interval: Duration,
    /// `tcp_mtu_probe_floor`: with no fewer bytes of data in a packet a search begins. By default 48.
    pub probe_floor: Bytes,
}

impl Default for Sysctls {
    fn default() -> Self {
        Self { mtu_probing: 0, probe_threshold: Bytes::new(8), probe_interval: Duration::from_secs(600), probe_floor: Bytes::new(48) }
    }
}

/// A rule that searches.
pub trait Policy {
    /// A path is there to be searched: of TCP, the connection is established.
    fn on_start(&mut self, now: Instant, bounds: Bounds);

    /// The largest packet for data that is no probe, as far as the search limits it; [`Bytes::MAX`]: it does not.
    fn largest(&self) -> Bytes;

    /// A probe may be wanted: nobody asks [`Policy::next_probe`] otherwise.
    fn may_probe(&self) -> bool;

    /// The size of the packet to probe next, before data are sent; none: nothing is to be probed now. `bounds` hold for a search that begins
    /// anew. The answer obliges to nothing: it is asked again, until [`Policy::on_probe_sent`].
    fn next_probe(&mut self, now: Instant, bounds: Bounds) -> Option<Bytes>;

    /// A probe of that size leaves.
    fn on_probe_sent(&mut self, _now: Instant, _size: Bytes) {}

    /// A probe of that size arrived.
    fn on_probe_acked(&mut self, now: Instant, size: Bytes);

    /// A probe of that size is lost, and it says something of its size.
    fn on_probe_lost(&mut self, now: Instant, size: Bytes);

    /// Whether the probe of that size arrived will not show, because data were sent again.
    fn on_probe_forgotten(&mut self, _size: Bytes) {}

    /// Packets of more than `mtu` bytes do not pass, says the interface, the route or a message that was believed (RFC 1191).
    fn on_limit(&mut self, mtu: Bytes);

    /// Nothing has got through for long: a black hole is suspected (RFC 8899 section 4.3).
    fn on_black_hole(&mut self, now: Instant, bounds: Bounds);
}

/// Declares [`MtuSearch`] and [`Search`]: a line has a policy's type, its name and what it does.
macro_rules! searches {
    ($($policy:ident: $name:literal, $about:literal;)+) => {
        /// One of the known searches, as a study names it.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum MtuSearch {
            $(#[doc = $about] $policy,)+
        }

        /// A search in progress.
        #[derive(Clone, Debug)]
        pub enum Search {
            $(#[doc = $about] $policy($policy),)+
        }

        impl MtuSearch {
            /// All names, sorted, and what each does.
            pub const NAMES: [(&'static str, &'static str); [$($name),+].len()] = [$(($name, $about)),+];

            /// The search of a name.
            pub fn find(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$policy),)+
                    _ => None,
                }
            }

            /// What a study calls it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$policy => $name,)+
                }
            }

            /// A search of one path that has yet to start.
            pub fn search(self, sysctls: Sysctls) -> Search {
                match self {
                    $(Self::$policy => Search::$policy($policy::new(sysctls)),)+
                }
            }
        }

        impl Policy for Search {
            fn on_start(&mut self, now: Instant, bounds: Bounds) {
                match self {
                    $(Self::$policy(policy) => policy.on_start(now, bounds),)+
                }
            }

            #[inline]
            fn largest(&self) -> Bytes {
                match self {
                    $(Self::$policy(policy) => policy.largest(),)+
                }
            }

            #[inline]
            fn may_probe(&self) -> bool {
                match self {
                    $(Self::$policy(policy) => policy.may_probe(),)+
                }
            }

            fn next_probe(&mut self, now: Instant, bounds: Bounds) -> Option<Bytes> {
                match self {
                    $(Self::$policy(policy) => policy.next_probe(now, bounds),)+
                }
            }

            fn on_probe_sent(&mut self, now: Instant, size: Bytes) {
                match self {
                    $(Self::$policy(policy) => policy.on_probe_sent(now, size),)+
                }
            }

            fn on_probe_acked(&mut self, now: Instant, size: Bytes) {
                match self {
                    $(Self::$policy(policy) => policy.on_probe_acked(now, size),)+
                }
            }

            fn on_probe_lost(&mut self, now: Instant, size: Bytes) {
                match self {
                    $(Self::$policy(policy) => policy.on_probe_lost(now, size),)+
                }
            }

            fn on_probe_forgotten(&mut self, size: Bytes) {
                match self {
                    $(Self::$policy(policy) => policy.on_probe_forgotten(size),)+
                }
            }

            fn on_limit(&mut self, mtu: Bytes) {
                match self {
                    $(Self::$policy(policy) => policy.on_limit(mtu),)+
                }
            }

            fn on_black_hole(&mut self, now: Instant, bounds: Bounds) {
                match self {
                    $(Self::$policy(policy) => policy.on_black_hole(now, bounds),)+
                }
            }
        }
    };
}

// Sorted by name.
searches! {
    Linux: "linux", "Halves the range between `tcp_base_mss` and the interface's MTU, if `tcp_mtu_probing` says so.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_and_is_found_by_it() {
        assert!(MtuSearch::NAMES.is_sorted());
        for (name, about) in MtuSearch::NAMES {
            assert_eq!(MtuSearch::find(name).map(MtuSearch::name), Some(name));
            assert!(about.ends_with('.'), "{name}");
        }
        assert_eq!(MtuSearch::find("bisection"), None);
    }
}
