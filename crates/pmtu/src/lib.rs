//! Searches for the largest packet that a path passes (RFC 4821, RFC 8899): what size to probe
//! next, and what came of it.
//!
//! A search sees sizes of packets and times; it never touches an endpoint, so that TCP and a tunnel
//! can use the same ones. Each is a small struct with a [`Policy`]; [`Search`] is the closed set of
//! them, matched by an enum. Whoever sends says when a probe has room, which probes arrived and
//! which are lost.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod linux;
mod msquic_linear;
mod parallel;
mod quic_go;
mod quinn;
mod table;

pub use linux::Linux;
pub use msquic_linear::MsquicLinear;
pub use parallel::Parallel;
use polypath_base::{Bytes, Duration, Instant};
pub use quic_go::QuicGo;
pub use quinn::{Quinn, Quinn0_11_16, QuinnRule};
pub use table::Table;

/// Every link passes IPv4's packets of so many bytes (RFC 791), whatever a message says.
pub const LEAST_MTU: Bytes = Bytes::new(68);
/// The same of IPv6 (RFC 8200 section 5).
pub const LEAST_MTU_IPV6: Bytes = Bytes::new(1280);

/// Between what sizes of packets a search takes place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// No path passes less: [`LEAST_MTU`], or [`LEAST_MTU_IPV6`], below which nobody's estimate may
    /// fall (RFC 8201 section 4).
    pub floor: Bytes,
    /// Where it begins: what nearly every path passes (RFC 8899 section 5.1.2: `BASE_PLPMTU`). For
    /// TCP the packet with `tcp_base_mss`.
    pub base: Bytes,
    /// What the interface, the route and the peer allow (RFC 8899: `MAX_PLPMTU`).
    pub ceiling: Bytes,
    /// What a packet holds beside data.
    pub headers: Bytes,
}

/// What a search is told when it may probe.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Of a search that begins now.
    pub bounds: Bounds,
    /// Smoothed RTT; zero while unknown.
    pub srtt: Duration,
    /// Data that the peer has acknowledged: a search may keep its cost in proportion.
    pub arrived: Bytes,
}

/// Packets that are no probes and were found lost at one time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LossBurst {
    /// The shortest and the longest of them.
    pub shortest: Bytes,
    /// See `shortest`.
    pub longest: Bytes,
    /// Nothing told of the loss but a timeout.
    pub by_timeout: bool,
}

/// What a host's settings say of searches; the names are those of Linux's sysctls.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sysctls {
    /// `tcp_mtu_probing`: 0 no search, 1 once a black hole is suspected, 2 from the start. By
    /// default 0.
    pub mtu_probing: u8,
    /// `tcp_probe_threshold`: a range narrower than this is not searched. By default 8.
    pub probe_threshold: Bytes,
    /// `tcp_probe_interval`: a search that has ended begins anew after this. By default 600 s.
    pub probe_interval: Duration,
    /// `tcp_mtu_probe_floor`: with no fewer bytes of data in a packet a search begins. By default
    /// 48.
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

    /// The largest packet for data that is no probe, as far as the search limits it;
    /// [`Bytes::MAX`]: it does not.
    fn largest(&self) -> Bytes;

    /// A probe may be wanted: only then is [`Policy::next_probe`] asked.
    fn may_probe(&self) -> bool;

    /// The size of the packet to probe next, before data are sent; none: nothing is to be probed
    /// now. The bounds hold for a search that begins anew. The answer obliges to nothing: it is
    /// asked again, until [`Policy::on_probe_sent`].
    fn next_probe(&mut self, now: Instant, path: Path) -> Option<Bytes>;

    /// A probe of that size leaves.
    fn on_probe_sent(&mut self, _now: Instant, _size: Bytes) {}

    /// A probe of that size arrived.
    fn on_probe_acked(&mut self, now: Instant, size: Bytes);

    /// A probe of that size is lost, and it says something of its size.
    fn on_probe_lost(&mut self, now: Instant, size: Bytes);

    /// Whether the probe of that size arrived will not show, because data were sent again.
    fn on_probe_forgotten(&mut self, _size: Bytes) {}

    /// Packets of more than `mtu` bytes do not pass, says the interface, the route or a message
    /// that was believed (RFC 1191).
    fn on_limit(&mut self, mtu: Bytes);

    /// It works as Linux's TCP: a message is believed, any retransmission makes the probe
    /// worthless, and a probe is lost if it alone is. With any other policy the sender tells of
    /// each probe as soon as the scoreboard has it, several may be in the network, and a message is
    /// no more than a hint ([`Policy::on_hint`]).
    fn is_linux(&self) -> bool {
        false
    }

    /// A message says that packets of more than `mtu` bytes do not pass. It may be forged, or wrong
    /// (RFC 8899 section 4.6.1).
    fn on_hint(&mut self, _mtu: Bytes) {}

    /// Packets arrived that were no probes, the longest of this size.
    fn on_data_acked(&mut self, _longest: Bytes) {}

    /// Packets that were no probes are lost.
    fn on_data_lost(&mut self, _now: Instant, _burst: LossBurst) {}

    /// Nothing has got through for long: a black hole is suspected (RFC 8899 section 4.3) by
    /// Linux's rule.
    fn on_black_hole(&mut self, _now: Instant, _bounds: Bounds) {}
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

            fn next_probe(&mut self, now: Instant, path: Path) -> Option<Bytes> {
                match self {
                    $(Self::$policy(policy) => policy.next_probe(now, path),)+
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

            #[inline]
            fn is_linux(&self) -> bool {
                match self {
                    $(Self::$policy(policy) => policy.is_linux(),)+
                }
            }

            fn on_hint(&mut self, mtu: Bytes) {
                match self {
                    $(Self::$policy(policy) => policy.on_hint(mtu),)+
                }
            }

            fn on_data_acked(&mut self, longest: Bytes) {
                match self {
                    $(Self::$policy(policy) => policy.on_data_acked(longest),)+
                }
            }

            fn on_data_lost(&mut self, now: Instant, burst: LossBurst) {
                match self {
                    $(Self::$policy(policy) => policy.on_data_lost(now, burst),)+
                }
            }
        }
    };
}

// Sorted by name.
searches! {
    Linux: "linux", "Halves the range between `tcp_base_mss` and the interface's MTU, if `tcp_mtu_probing` says so.";
    MsquicLinear: "msquic-linear", "Goes up by 80 bytes, over 1500, until three probes of one size are lost; as msquic.";
    Parallel: "parallel", "Tries likely sizes first, several at once; a size fails only when three probes near it are lost.";
    QuicGo: "quic-go", "Halves the range, a probe in five round trips; three losses lower its upper end; as quic-go since 0.45.";
    Quinn: "quinn", "Halves the range, each size up to three times; four bursts of losses with none of the size arriving begin anew at 1200; as quinn since August 2026.";
    Quinn0_11_16: "quinn-0.11.16", "As `quinn`, but only a longer packet that arrives clears the bursts, so that ordinary loss begins anew at 1200; as quinn 0.11.16.";
    Table: "table", "Goes up a table of usual sizes until three packets of one are lost; as neqo 0.13 to 0.20, which count lost data too.";
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A path that passes packets of up to `passes` bytes, with a policy that started there.
    #[derive(Debug)]
    pub(crate) struct Net<P> {
        pub(crate) policy: P,
        pub(crate) passes: u64,
        pub(crate) now: Instant,
        /// Every size that was probed.
        pub(crate) probed: Vec<u64>,
    }

    pub(crate) const RTT: Duration = Duration::from_millis(20);

    pub(crate) fn path(ceiling: u64) -> Path {
        let [base, ceiling, headers] = [1076, ceiling, 52].map(Bytes::new);
        Path { bounds: Bounds { floor: LEAST_MTU, base, ceiling, headers }, srtt: RTT, arrived: Bytes::new(u64::MAX) }
    }

    impl<P: Policy> Net<P> {
        /// The interface has an MTU of `ceiling`.
        pub(crate) fn new(mut policy: P, ceiling: u64, passes: u64) -> Self {
            policy.on_start(Instant::ZERO, path(ceiling).bounds);
            Self { policy, passes, now: Instant::ZERO, probed: Vec::new() }
        }

        /// A round trip: probes leave as long as the policy wants more, and those that `loses` does
        /// not name arrive unless they are too long. How many there were.
        pub(crate) fn round(&mut self, ceiling: u64, mut loses: impl FnMut(u64) -> bool) -> usize {
            let mut sent = Vec::new();
            while self.policy.may_probe()
                && let Some(size) = self.policy.next_probe(self.now, path(ceiling))
            {
                assert!(size.get() <= ceiling && size > self.policy.largest(), "{size:?}");
                self.policy.on_probe_sent(self.now, size);
                sent.push(size);
                assert!(sent.len() < 10, "{sent:?}");
            }
            self.now += RTT;
            for size in &sent {
                self.probed.push(size.get());
                if size.get() <= self.passes && !loses(size.get()) {
                    self.policy.on_probe_acked(self.now, *size);
                } else {
                    self.policy.on_probe_lost(self.now, *size);
                }
            }
            sent.len()
        }

        /// Rounds until nothing was probed for ten; how many until the last probe.
        pub(crate) fn search(&mut self, ceiling: u64, mut loses: impl FnMut(u64) -> bool) -> usize {
            let (mut rounds, mut last, mut idle) = (0, 0, 0);
            while idle < 10 {
                rounds += 1;
                idle += 1;
                if self.round(ceiling, &mut loses) > 0 {
                    (last, idle) = (rounds, 0);
                }
                assert!(rounds < 1000, "no end");
            }
            last
        }

        pub(crate) fn found(&self) -> u64 {
            self.policy.largest().get()
        }
    }

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
