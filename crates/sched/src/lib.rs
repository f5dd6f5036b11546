//! MPTCP packet schedulers: which subflow carries the next bytes of a connection.
//!
//! A scheduler sees plain [`Subflow`] summaries and the connection's [`Queue`]; it never touches an endpoint. Each one is a
//! small struct with one method, `pick`; [`Scheduler`] is the closed set of them, matched by an enum so that choosing a
//! subflow costs no indirect call. A scheduler is asked again until it answers `None`.
#![forbid(unsafe_code)]

mod backup;
mod blest;
mod daps;
mod ecf;
mod minrtt;
mod redundant;
mod roundrobin;
mod sttf;
mod upstream;
mod weighted;

pub use backup::Backup;
pub use blest::Blest;
pub use daps::Daps;
pub use ecf::Ecf;
pub use minrtt::MinRtt;
use polypath_base::{Instant, Rate};
pub use redundant::Redundant;
pub use roundrobin::RoundRobin;
pub use sttf::Sttf;
pub use upstream::Upstream;
pub use weighted::Weighted;

/// Most subflows a connection has: masks of them have 32 bits, here as in out-of-tree MPTCP.
pub const MAX_SUBFLOWS: usize = 32;

/// Most data in one buffer of the kernel, bytes (Linux: 64 KiB less the largest TCP header).
pub const BUFFER: u32 = 65_535 - 320;

/// What a scheduler sees of one subflow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Subflow {
    /// Smoothed RTT in eighths of a microsecond; 0 before the first sample.
    pub srtt_us8: u32,
    /// Variation of the RTT in microseconds, never less than the least retransmission timeout (Linux: `rttvar_us`).
    pub rttvar_us: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Congestion window and segments in flight, segments of `mss` bytes.
    pub cwnd: u32,
    pub in_flight: u32,
    pub mss: u32,
    /// Bytes handed to the subflow that it has not sent yet.
    pub unsent: u32,
    /// Where the room in the window is counted in buffers: those that wait. Elsewhere it is counted in bytes.
    pub buffered: Option<Buffered>,
    /// Bytes of memory in the subflow's send queue, sent or not (Linux's `sk_wmem_queued`).
    pub queued: u32,
    /// Pacing rate; zero while unknown.
    pub pacing_rate: Rate,
    /// Joined and able to send, and not given up as stale or potentially failed.
    pub usable: bool,
    /// To be used only when no other subflow can be (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// In the Loss state after a retransmission timeout.
    pub in_loss: bool,
    /// Its send buffer takes more.
    pub room: bool,
    /// It comes before an older subflow whose RTT is the same.
    pub wins_ties: bool,
}

/// What waits on a subflow that keeps the buffers handed to it apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Buffered {
    /// Buffers of which something waits.
    pub buffers: u32,
    /// Segments that the subflow sends as one burst.
    pub burst: u32,
}

impl Buffered {
    /// Segments of the window that what waits is counted as: a burst for each buffer, but a lone buffer as one, so that one too many is given
    /// rather than too few.
    #[inline]
    fn segments(self) -> u32 {
        if self.buffers > 1 { self.buffers.saturating_mul(self.burst) } else { self.buffers }
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

/// What a scheduler sees of the connection's data, in data sequence numbers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// First byte the peer has not acknowledged.
    pub una: u64,
    /// First byte never sent on any subflow.
    pub next: u64,
    /// End of the data accepted from the application.
    pub end: u64,
    /// End of the window the peer advertised.
    pub window_end: u64,
    /// When the scheduler is asked.
    pub now: Instant,
}

/// Which bytes go where.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the subflow.
    pub subflow: usize,
    /// First byte to send there: [`Queue::next`] for new data, less for bytes that went elsewhere before.
    pub from: u64,
    /// At most so many bytes before the scheduler is asked again.
    pub limit: u32,
}

impl Queue {
    /// Nothing to send.
    pub const EMPTY: Self = Self { una: 0, next: 0, end: 0, window_end: 0, now: Instant::ZERO };

    /// Bytes that wait for their first transmission and fit the peer's window.
    #[inline]
    pub fn sendable(&self) -> u64 {
        self.end.min(self.window_end).saturating_sub(self.next)
    }
}

impl Subflow {
    /// Who may be given data: not in Loss, and no more waits than the window lets out.
    #[inline]
    pub fn takes_data(&self) -> bool {
        match self.buffered {
            None => self.fits_window(),
            Some(waiting) => self.usable && !self.in_loss && self.in_flight + waiting.segments() < self.cwnd,
        }
    }

    /// As [`Subflow::takes_data`], by the bytes that wait.
    #[inline]
    pub fn fits_window(&self) -> bool {
        self.usable && !self.in_loss && self.in_flight < self.cwnd && self.unsent <= self.window_space()
    }

    /// Most bytes to give at once: what the congestion window lets out, at most half of it. Counted in buffers, what the window has left by
    /// that count, and a burst at least.
    #[inline]
    pub fn share(&self) -> u32 {
        match self.buffered {
            None => self.window_space().min((self.cwnd / 2).max(1).saturating_mul(self.mss)),
            Some(waiting) => {
                let left = self.cwnd.saturating_sub(self.in_flight + waiting.segments());
                left.max(waiting.burst).saturating_mul(self.mss)
            }
        }
    }

    /// Bytes that the congestion window would let out now.
    #[inline]
    pub fn window_space(&self) -> u32 {
        self.cwnd.saturating_sub(self.in_flight).saturating_mul(self.mss)
    }
}

/// One of the known schedulers, with its state.
#[derive(Clone, Debug)]
pub enum Scheduler {
    Backup(Backup),
    Blest(Blest),
    Daps(Daps),
    Ecf(Ecf),
    MinRtt(MinRtt),
    Redundant(Redundant),
    RoundRobin(RoundRobin),
    Sttf(Sttf),
    Upstream(Upstream),
    Weighted(Weighted),
}

impl Scheduler {
    /// Names that [`Scheduler::find`] knows, sorted, and what each does.
    pub const NAMES: [(&'static str, &'static str); 10] = [
        ("backup", "the first subflow alone; the others when it fails"),
        ("blest", "lowest RTT, but waits for it where a slower one would block the peer's window (Ferlin et al. 2016)"),
        ("daps", "deals out windows in the order in which they will arrive (Kuhn et al. 2014)"),
        ("default", "shortest time to drain what is queued, in bursts: upstream Linux"),
        ("ecf", "lowest RTT, but waits for it where that completes earlier (Lim et al. 2017); v0 as in Linux 5.4, which miscalculates"),
        ("minrtt", "lowest RTT with room in its window: the default of out-of-tree MPTCP"),
        ("redundant", "everything on every subflow; profile v0 as in Linux 5.4, which repeats itself"),
        ("roundrobin", "a segment each in turn, where windows have room"),
        ("sttf", "shortest transfer time of the next segment, queues included (Hurtig et al. 2019)"),
        ("weighted", "fixed shares, \"weighted 3:1\"; waits for the subflow whose turn it is"),
    ];

    /// The scheduler of a name; `weighted` may be followed by weights.
    pub fn find(name: &str) -> Option<Self> {
        Some(match name {
            "backup" => Self::Backup(Backup),
            "blest" => Self::Blest(Blest::default()),
            "daps" => Self::Daps(Daps::default()),
            "default" => Self::Upstream(Upstream::default()),
            "ecf" => Self::Ecf(Ecf::default()),
            "minrtt" => Self::MinRtt(MinRtt),
            "redundant" => Self::Redundant(Redundant::default()),
            "roundrobin" => Self::RoundRobin(RoundRobin::default()),
            "sttf" => Self::Sttf(Sttf),
            "weighted" => Self::Weighted(Weighted::default()),
            _ => return name.strip_prefix("weighted ").and_then(Weighted::parse).map(Self::Weighted),
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Backup(_) => "backup",
            Self::Blest(_) => "blest",
            Self::Daps(_) => "daps",
            Self::Ecf(_) => "ecf",
            Self::MinRtt(_) => "minrtt",
            Self::Redundant(_) => "redundant",
            Self::RoundRobin(_) => "roundrobin",
            Self::Sttf(_) => "sttf",
            Self::Upstream(_) => "default",
            Self::Weighted(_) => "weighted",
        }
    }

    /// The scheduler with a kernel's faults.
    #[must_use]
    pub fn with(self, quirks: Quirks) -> Self {
        match self {
            Self::Ecf(_) if quirks.ecf_overflows => Self::Ecf(Ecf::overflowing()),
            Self::Redundant(_) if quirks.redundant_repeats => Self::Redundant(Redundant::repeating()),
            other => other,
        }
    }

    /// What holds up the peer's window is sent again on a fast subflow, and the slow one that has it is penalised (Raiciu et
    /// al. 2012). In the out-of-tree stack this is the scheduler's to do, and not all do it.
    #[inline]
    pub fn retransmits_head_of_line(&self) -> bool {
        !matches!(self, Self::Backup(_) | Self::Redundant(_) | Self::RoundRobin(_) | Self::Weighted(_))
    }

    /// The peer's window or the send buffer held everything up.
    #[inline]
    pub fn on_blocked(&mut self) {
        if let Self::Blest(s) = self {
            s.on_blocked();
        }
    }

    /// The subflow for the next bytes, or `None` if nothing can be sent now.
    #[inline]
    pub fn pick(&mut self, subflows: &[Subflow], queue: &Queue) -> Option<Choice> {
        match self {
            Self::Upstream(s) => s.pick(subflows, queue),
            Self::MinRtt(s) => s.pick(subflows, queue),
            Self::RoundRobin(s) => s.pick(subflows, queue),
            Self::Redundant(s) => s.pick(subflows, queue),
            Self::Backup(s) => s.pick(subflows, queue),
            Self::Blest(s) => s.pick(subflows, queue),
            Self::Daps(s) => s.pick(subflows, queue),
            Self::Ecf(s) => s.pick(subflows, queue),
            Self::Sttf(s) => s.pick(subflows, queue),
            Self::Weighted(s) => s.pick(subflows, queue),
        }
    }

    /// `len` bytes from `choice.from` on were handed over; the scheduler may have asked for more, or for what begins later.
    #[inline]
    pub fn on_scheduled(&mut self, choice: Choice, len: u32) {
        match self {
            Self::Redundant(s) => s.on_scheduled(choice, len),
            Self::Daps(s) => s.on_scheduled(choice, len),
            Self::Weighted(s) => s.on_scheduled(),
            _ => {}
        }
    }

    /// Which subflow sends again bytes that went to those in the bit mask `tried`: the fastest one that was not tried, else
    /// the fastest. All schedulers share this rule.
    #[inline]
    pub fn pick_reinjection(subflows: &[Subflow], tried: u32) -> Option<usize> {
        minrtt::best(subflows, tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let queue = |next, end, window_end| Queue { next, end, window_end, ..Queue::EMPTY };
        assert_eq!(queue(10, 100, 50).sendable(), 40);
        assert_eq!(queue(10, 30, 50).sendable(), 20);
        assert_eq!(queue(60, 100, 50).sendable(), 0);
    }
}
