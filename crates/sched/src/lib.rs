//! MPTCP packet schedulers: which subflow carries the next bytes of a connection.
//!
//! A scheduler sees plain [`Subflow`] summaries and the connection's [`Queue`]; it never touches an endpoint. Each one is a
//! small struct with one method, `pick`; [`Scheduler`] is the closed set of them, matched by an enum so that choosing a
//! subflow costs no indirect call. A scheduler is asked again until it answers `None`.
#![forbid(unsafe_code)]

mod minrtt;
mod redundant;
mod roundrobin;
mod upstream;

pub use minrtt::MinRtt;
pub use redundant::Redundant;
pub use roundrobin::RoundRobin;
pub use upstream::Upstream;

/// Most subflows a connection has.
pub const MAX_SUBFLOWS: usize = 8;

/// What a scheduler sees of one subflow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Subflow {
    /// Smoothed RTT in eighths of a microsecond; 0 before the first sample.
    pub srtt_us8: u32,
    /// Congestion window and segments in flight, segments of `mss` bytes.
    pub cwnd: u32,
    pub in_flight: u32,
    pub mss: u32,
    /// Bytes handed to the subflow that it has not sent yet.
    pub unsent: u32,
    /// Bytes of memory in the subflow's send queue, sent or not (Linux's `sk_wmem_queued`).
    pub queued: u32,
    /// Pacing rate, byte/s; 0 while unknown.
    pub pacing_rate: u64,
    /// Joined and able to send, and not given up as stale or potentially failed.
    pub usable: bool,
    /// To be used only when no other subflow can be (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// In the Loss state after a retransmission timeout.
    pub in_loss: bool,
    /// Its send buffer takes more.
    pub room: bool,
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
    /// Bytes that wait for their first transmission and fit the peer's window.
    #[inline]
    pub fn sendable(&self) -> u64 {
        self.end.min(self.window_end).saturating_sub(self.next)
    }
}

impl Subflow {
    /// The out-of-tree stack's rule for who may be given data: not in Loss, and no more waits than the window lets out.
    #[inline]
    pub fn takes_data(&self) -> bool {
        self.usable && !self.in_loss && self.in_flight < self.cwnd && self.unsent <= self.window_space()
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
    MinRtt(MinRtt),
    Upstream(Upstream),
    RoundRobin(RoundRobin),
    Redundant(Redundant),
}

impl Scheduler {
    /// Names that [`Scheduler::find`] knows, sorted.
    pub const NAMES: [&'static str; 4] = ["default", "minrtt", "redundant", "roundrobin"];

    pub fn find(name: &str) -> Option<Self> {
        Some(match name {
            "default" => Self::Upstream(Upstream::default()),
            "minrtt" => Self::MinRtt(MinRtt),
            "redundant" => Self::Redundant(Redundant::default()),
            "roundrobin" => Self::RoundRobin(RoundRobin::default()),
            _ => return None,
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Upstream(_) => "default",
            Self::MinRtt(_) => "minrtt",
            Self::Redundant(_) => "redundant",
            Self::RoundRobin(_) => "roundrobin",
        }
    }

    /// The subflow for the next bytes, or `None` if nothing can be sent now.
    #[inline]
    pub fn pick(&mut self, subflows: &[Subflow], queue: &Queue) -> Option<Choice> {
        match self {
            Self::MinRtt(s) => s.pick(subflows, queue),
            Self::Upstream(s) => s.pick(subflows, queue),
            Self::RoundRobin(s) => s.pick(subflows, queue),
            Self::Redundant(s) => s.pick(subflows, queue),
        }
    }

    /// `len` bytes of a choice were handed over; less than it allowed is possible.
    #[inline]
    pub fn given(&mut self, choice: Choice, len: u32) {
        if let Self::Redundant(s) = self {
            s.given(choice, len);
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
        for name in Scheduler::NAMES {
            assert_eq!(Scheduler::find(name).map(|s| s.name()), Some(name));
        }
        assert!(Scheduler::find("blest").is_none());
    }

    #[test]
    fn sendable_is_bounded_by_data_and_window() {
        assert_eq!(Queue { una: 0, next: 10, end: 100, window_end: 50 }.sendable(), 40);
        assert_eq!(Queue { una: 0, next: 10, end: 30, window_end: 50 }.sendable(), 20);
        assert_eq!(Queue { una: 0, next: 60, end: 100, window_end: 50 }.sendable(), 0);
    }
}
