//! Packet schedulers: which path carries the next bytes.
//!
//! A scheduler sees plain [`PathView`]s and the [`DataQueueView`] of the data that wait; it never touches an endpoint, so that MPTCP and a
//! tunnel can use the same ones. Each is a small struct with a [`Policy`]; [`Scheduler`] is the closed set of them, matched by an enum so
//! that choosing a path costs no indirect call. A scheduler is asked again until it answers `None`.
//!
//! # Adding a scheduler
//!
//! Call its type `Name`; copy `roundrobin.rs`.
//!
//! 1. `NAME.rs`: the head names the source and what differs from it and from a kernel's. `Name`
//!    with `Default` and [`Policy`], of which `pick` must be written. What only TCP knows is in
//!    `PathView::tcp`: a scheduler that does without it serves a tunnel too. Unit tests on views
//!    written by hand or made by `fixtures::subflow`.
//! 2. `mod NAME;` here, and a sorted line in `schedulers!` with name and sentence. Lists, messages
//!    and the tests over all schedulers have it then.
//! 3. A row in `docs/concepts/schedulers.md`, and a scenario in
//!    `crates/sim/tests/known_bytes/scenarios.jsonl`.
//! 4. If Linux has it: measure the smallest case that shows its character, and keep job and finding
//!    in `specs/notes`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backup;
mod blest;
mod daps;
mod ecf;
#[cfg(test)]
mod fixtures;
mod linux_default;
mod minrtt;
mod payload;
mod redundant;
mod roundrobin;
mod sttf;
mod subflow_set;
mod weighted;

pub use subflow_set::SubflowSet;

use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, SmoothedRtt};

/// Most subflows a connection has: sets of them have 32 bits, here as in out-of-tree MPTCP.
pub const MAX_SUBFLOWS: usize = 32;

/// Most data in one buffer of the kernel (Linux: 64 KiB less the largest TCP header).
pub const BUFFER: Bytes = Bytes::new(65_535 - 320);

/// What a scheduler sees of one path: a subflow of MPTCP, or a path of a tunnel.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PathView {
    /// Smoothed RTT; zero before the first sample.
    pub srtt: SmoothedRtt,
    /// What the path may carry at a time, full packets: of TCP the congestion window.
    pub capacity: Segments,
    /// What is in flight on it, full packets.
    pub in_flight: Segments,
    /// Payload of a full packet: of TCP the MSS.
    pub mss: Bytes,
    /// Given to the path and not sent yet.
    pub unsent: Bytes,
    /// Memory in the path's send queue, sent or not (Linux's `sk_wmem_queued`).
    pub queued: Bytes,
    /// Rate at which it sends: of TCP the pacing rate; zero while unknown.
    pub pacing_rate: Rate,
    /// Joined and able to send, and not given up as stale or potentially failed.
    pub usable: bool,
    /// To be used only when no other path can be (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// Its send buffer takes more.
    pub room: bool,
    /// What only TCP knows; the default for a path without it.
    pub tcp: TcpExtras,
}

/// What only TCP knows of a path. The default is what a path without TCP says: it is never in the Loss state, and no longer in slow start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpExtras {
    /// Variation of the RTT in whole microseconds, never less than the least retransmission timeout (Linux: `rttvar_us`).
    pub rttvar: Duration,
    /// Slow-start threshold.
    pub ssthresh: Segments,
    /// Where the room in the window is counted in buffers: those that wait. Elsewhere it is counted in bytes.
    pub buffered: Option<Buffered>,
    /// In the Loss state after a retransmission timeout.
    pub in_loss: bool,
    /// It comes before an older path whose RTT is the same.
    pub wins_ties: bool,
}

/// What waits on a subflow that keeps the buffers handed to it apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Buffered {
    /// Buffers of which something waits.
    pub buffers: u32,
    /// What the subflow sends as one burst.
    pub burst: Segments,
}

impl Buffered {
    /// Segments of the window that what waits is counted as: a burst for each buffer, but a lone buffer as one, so that one too many is given
    /// rather than too few.
    #[inline]
    fn segments(self) -> Segments {
        Segments::new(if self.buffers > 1 { self.buffers.saturating_mul(self.burst.get()) } else { self.buffers })
    }
}

/// Faults of a kernel's schedulers that a model of it repeats.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// The products of `ecf` are 32 bits wide.
    pub ecf_overflows: bool,
    /// `redundant` begins again at the oldest buffer that is not acknowledged as a whole.
    pub redundant_repeats: bool,
}

/// What a scheduler sees of the data that wait, in data sequence numbers. What has no sequence of its own counts its bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DataQueueView {
    /// First byte the peer has not acknowledged.
    pub una: DataSeq,
    /// First byte never sent on any subflow.
    pub next: DataSeq,
    /// End of the data accepted from the application.
    pub end: DataSeq,
    /// End of the window the peer advertised.
    pub window_end: DataSeq,
    /// When the scheduler is asked.
    pub now: Instant,
}

/// Which bytes go where.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the path.
    pub subflow: usize,
    /// First byte to send there: [`DataQueueView::next`] for new data, less for bytes that went elsewhere before.
    pub from: DataSeq,
    /// How much, before the scheduler is asked again.
    pub limit: Limit,
}

/// How much of the data goes at once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many bytes.
    Bytes(Bytes),
    /// The buffer of the sender that has the byte at [`Choice::from`], all of it, whatever the window.
    Buffer,
}

impl Limit {
    /// How many bytes; none for a buffer, whose length the sender knows.
    #[inline]
    pub fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Buffer => None,
        }
    }
}

impl DataQueueView {
    /// Nothing to send.
    pub const EMPTY: Self = {
        let start = DataSeq::new(0);
        Self { una: start, next: start, end: start, window_end: start, now: Instant::ZERO }
    };

    /// What waits for its first transmission.
    #[inline]
    pub fn waiting(&self) -> Bytes {
        Bytes::new(self.end.distance(self.next))
    }

    /// What the peer's window leaves for new data.
    #[inline]
    pub fn window_left(&self) -> Bytes {
        Bytes::new(self.window_end.max(self.next).distance(self.next))
    }

    /// What waits for its first transmission and fits the peer's window.
    #[inline]
    pub fn sendable(&self) -> Bytes {
        self.waiting().min(self.window_left())
    }
}

impl PathView {
    /// Who may be given data: not in Loss, and no more waits than the window lets out.
    #[inline]
    pub fn takes_data(&self) -> bool {
        match self.tcp.buffered {
            None => self.fits_window(),
            Some(waiting) => self.usable && !self.tcp.in_loss && self.in_flight + waiting.segments() < self.capacity,
        }
    }

    /// As [`PathView::takes_data`], by the bytes that wait.
    #[inline]
    pub fn fits_window(&self) -> bool {
        self.usable && !self.tcp.in_loss && self.in_flight < self.capacity && self.unsent <= self.window_space()
    }

    /// Most to give at once: what the congestion window lets out, at most half of it. Counted in buffers, what the window has left by
    /// that count, and a burst at least.
    #[inline]
    pub fn share(&self) -> Bytes {
        match self.tcp.buffered {
            None => self.window_space().min(Segments::new((self.capacity.get() / 2).max(1)) * self.mss),
            Some(waiting) => {
                let left = self.capacity.saturating_sub(self.in_flight + waiting.segments());
                left.max(waiting.burst) * self.mss
            }
        }
    }

    /// What the congestion window would let out now.
    #[inline]
    pub fn window_space(&self) -> Bytes {
        self.capacity.saturating_sub(self.in_flight) * self.mss
    }
}

/// A rule that chooses paths.
pub trait Policy: Default {
    /// The path for the next bytes, or `None` if nothing can be sent now.
    fn pick(&mut self, subflows: &[PathView], queue: &DataQueueView) -> Option<Choice>;

    /// `len` bytes from `choice.from` on were enqueued; the scheduler may have asked for more, or for what begins later.
    #[inline]
    fn on_scheduled(&mut self, _choice: Choice, _len: Bytes) {}

    /// The peer's window or the send buffer held everything up.
    #[inline]
    fn on_blocked(&mut self) {}

    /// What holds up the peer's window is sent again on a fast path, and the slow one that has it is penalised (Raiciu et al. 2012). In
    /// the out-of-tree stack this is the scheduler's to do, and not all do it.
    #[inline]
    fn retransmits_head_of_line(&self) -> bool {
        true
    }

    /// What a path leaves undelivered goes to the others. One that sends everything on every path in any case says no.
    #[inline]
    fn reinjects(&self) -> bool {
        true
    }

    /// It hands out long bursts to whoever has room in the send buffer, and reads nothing of a path but what upstream Linux's scheduler
    /// reads: `usable`, `backup`, `queued`, `room` and `pacing_rate`. Any other is asked segment by segment or window by window.
    #[inline]
    fn schedules_bursts(&self) -> bool {
        false
    }

    /// As long as the peer's window is closed, [`Policy::pick`] would choose no path and remember nothing of them, whatever those in `changed`
    /// look like now: it need not be asked.
    #[inline]
    fn has_met(&self, _paths: &[PathView], _changed: SubflowSet) -> bool {
        false
    }

    /// The same with a kernel's faults.
    #[must_use]
    fn with(self, _quirks: Quirks) -> Self {
        self
    }

    /// The policy with what stands behind its name; none: it takes no such arguments.
    fn parse(_arguments: &str) -> Option<Self> {
        None
    }
}

/// Declares [`Scheduler`]: a line has a scheduler's type, its name and what it does.
macro_rules! schedulers {
    ($($variant:ident($policy:ty): $name:literal, $about:literal;)+) => {
        /// One of the known schedulers, with its state.
        #[derive(Clone, Debug)]
        pub enum Scheduler {
            $(#[doc = $about] $variant($policy),)+
        }

        impl Scheduler {
            /// Names that [`Scheduler::find`] knows, sorted, and what each does.
            pub const NAMES: [(&'static str, &'static str); [$($name),+].len()] = [$(($name, $about)),+];

            /// The scheduler of a name; `weighted` may be followed by weights.
            pub fn find(name: &str) -> Option<Self> {
                let (name, arguments) = name.split_once(' ').map_or((name, None), |(name, arguments)| (name, Some(arguments)));
                match (name, arguments) {
                    $(
                        ($name, None) => Some(Self::$variant(<$policy>::default())),
                        ($name, Some(arguments)) => <$policy>::parse(arguments).map(Self::$variant),
                    )+
                    _ => None,
                }
            }

            /// Its name in [`Scheduler::NAMES`], without arguments.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                }
            }

            /// See [`Policy::with`].
            #[must_use]
            pub fn with(self, quirks: Quirks) -> Self {
                match self {
                    $(Self::$variant(policy) => Self::$variant(policy.with(quirks)),)+
                }
            }

            /// See [`Policy::retransmits_head_of_line`].
            #[inline]
            pub fn retransmits_head_of_line(&self) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.retransmits_head_of_line(),)+
                }
            }

            /// See [`Policy::reinjects`].
            #[inline]
            pub fn reinjects(&self) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.reinjects(),)+
                }
            }

            /// See [`Policy::schedules_bursts`].
            #[inline]
            pub fn schedules_bursts(&self) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.schedules_bursts(),)+
                }
            }

            /// See [`Policy::has_met`].
            #[inline]
            pub fn has_met(&self, paths: &[PathView], changed: SubflowSet) -> bool {
                match self {
                    $(Self::$variant(policy) => policy.has_met(paths, changed),)+
                }
            }

            /// See [`Policy::on_blocked`].
            #[inline]
            pub fn on_blocked(&mut self) {
                match self {
                    $(Self::$variant(policy) => policy.on_blocked(),)+
                }
            }

            /// See [`Policy::pick`].
            #[inline]
            pub fn pick(&mut self, paths: &[PathView], queue: &DataQueueView) -> Option<Choice> {
                match self {
                    $(Self::$variant(policy) => policy.pick(paths, queue),)+
                }
            }

            /// See [`Policy::on_scheduled`].
            #[inline]
            pub fn on_scheduled(&mut self, choice: Choice, len: Bytes) {
                match self {
                    $(Self::$variant(policy) => policy.on_scheduled(choice, len),)+
                }
            }
        }
    };
}

// Sorted by name.
schedulers! {
    Backup(backup::Backup): "backup", "the first subflow alone; the others when it fails";
    Blest(blest::Blest): "blest", "lowest RTT, but waits for it where a slower one would block the peer's window (Ferlin et al. 2016)";
    Daps(daps::Daps): "daps", "deals out windows in the order in which they will arrive (Kuhn et al. 2014)";
    LinuxDefault(linux_default::LinuxDefault): "default", "shortest time to drain what is queued, in bursts: upstream Linux";
    Ecf(ecf::Ecf): "ecf", "lowest RTT, but waits for it where that completes earlier (Lim et al. 2017); v0 as in Linux 5.4, which miscalculates";
    MinRtt(minrtt::MinRtt): "minrtt", "lowest RTT with room in its window: the default of out-of-tree MPTCP";
    Payload(payload::Payload): "payload", "earliest arrival, by the segments that each path needs for the same bytes";
    Redundant(redundant::Redundant): "redundant", "everything on every subflow; profile v0 as in Linux 5.4, which repeats itself";
    RoundRobin(roundrobin::RoundRobin): "roundrobin", "a segment each in turn, where windows have room";
    Sttf(sttf::Sttf): "sttf", "shortest transfer time of the next segment, queues included (Hurtig et al. 2019)";
    Weighted(weighted::Weighted): "weighted", "fixed shares, \"weighted 3:1\"; waits for the subflow whose turn it is";
}

impl Scheduler {
    /// Which path sends again bytes that went to those in `tried`: the fastest one that was not tried, else the fastest. All schedulers share
    /// this rule.
    #[inline]
    pub fn pick_reinjection(paths: &[PathView], tried: SubflowSet) -> Option<usize> {
        minrtt::best(paths, tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minrtt::MinRtt;

    #[test]
    fn every_name_finds_its_scheduler() {
        for (name, about) in Scheduler::NAMES {
            assert_eq!(Scheduler::find(name).map(|s| s.name()), Some(name));
            assert!(!about.is_empty());
        }
        assert!(Scheduler::NAMES.is_sorted());
        assert_eq!(Scheduler::find("weighted 3:1").map(|s| s.name()), Some("weighted"));
        assert!(Scheduler::find("weighted 3:x").is_none() && Scheduler::find("blest 3").is_none() && Scheduler::find("").is_none());
    }

    #[test]
    fn sendable_is_bounded_by_data_and_window() {
        let sendable = |next, end, window_end| {
            let [next, end, window_end] = [next, end, window_end].map(DataSeq::new);
            DataQueueView { next, end, window_end, ..DataQueueView::EMPTY }.sendable().get()
        };
        assert_eq!((sendable(10, 100, 50), sendable(10, 30, 50), sendable(60, 100, 50)), (40, 20, 0));
        assert_eq!(sendable(u64::MAX, 100, 50), 51, "numbers wrap");
    }

    #[test]
    fn paths_without_tcp_are_scheduled_too() {
        let path = |srtt_ms, in_flight| PathView {
            srtt: SmoothedRtt::from_millis(srtt_ms),
            capacity: Segments::new(10),
            in_flight: Segments::new(in_flight),
            mss: Bytes::new(1400),
            pacing_rate: Rate::from_bits_per_sec(8_000_000),
            usable: true,
            room: true,
            ..PathView::default()
        };
        let queue = DataQueueView { end: DataSeq::new(1400), window_end: DataSeq::new(1 << 40), ..DataQueueView::EMPTY };
        for (name, _) in Scheduler::NAMES {
            let choice = Scheduler::find(name).expect("it is in the list").pick(&[path(10, 9), path(50, 10)], &queue);
            assert!(choice.is_some_and(|choice| choice.subflow == 0 && choice.limit != Limit::Bytes(Bytes::ZERO)), "{name}: {choice:?}");
        }
        let full = [path(80_000, 10), path(400_000, 0)];
        assert_eq!(MinRtt.pick(&full, &queue).map(|choice| choice.subflow), Some(1), "the fast path is full");
    }
}
