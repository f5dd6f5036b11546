//! What differs between the kernels that are modelled: a property is a field, a kernel is a constant with a value for each.
//!
//! Code asks for a property and never for a kernel, so a further kernel is one more constant.

use crate::settings::Profile;
use polypath_base::Duration;
use polypath_cc as cc;

/// Properties of a kernel's TCP.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// What the tail loss probe's and the reordering timer have on top of the time that RFC 8985 gives them.
    pub(crate) timer_floor: TimerFloor,
    /// What congestion control computes as this kernel does: bits of [`cc::compat`].
    pub(crate) cc_compat: u8,
}

/// Least time of a timer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimerFloor {
    /// So many ticks of the kernel's clock.
    Ticks(u64),
    Time(Duration),
}

impl TimerFloor {
    pub(crate) fn on(self, tick: Duration) -> Duration {
        match self {
            Self::Ticks(count) => tick * count,
            Self::Time(time) => time,
        }
    }
}

/// Linux 5.4.188, the kernel under the out-of-tree MPTCP 0.96.
static LINUX_5_4: Kernel = Kernel {
    // Releases before October 2023; no such kernel was at hand (specs/notes/endpoint-answers).
    timer_floor: TimerFloor::Ticks(2),
    cc_compat: cc::compat::LINUX_5_4,
};

/// Linux 6.12.117.
static LINUX_6_12: Kernel = Kernel {
    // Measured on 6.12.117 and 6.1.192 (specs/notes/endpoint-answers).
    timer_floor: TimerFloor::Time(Duration::from_millis(2)),
    cc_compat: 0,
};

impl Profile {
    /// The kernel that the profile stands for.
    pub(crate) const fn kernel(self) -> &'static Kernel {
        match self {
            Self::V0 => &LINUX_5_4,
            Self::V1 => &LINUX_6_12,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::tcp::{Config, Socket};

    #[test]
    fn plain_tcp_has_its_kernels_congestion_control_and_subflows_their_stacks_too() {
        let compat = |profile, is_subflow| {
            let settings = Settings { profile, ..Settings::default() };
            let algorithm = cc::find("cubic").expect("the algorithm exists");
            let socket = Socket::client(Config { settings, algorithm, mtu: 1500, initial_seq: polypath_base::Seq::new(1) });
            if is_subflow { socket.subflow(20, 8).flow.compat } else { socket.flow.compat }
        };
        assert_eq!([compat(Profile::V0, false), compat(Profile::V1, false)], [cc::compat::LINUX_5_4, 0]);
        assert_eq!([compat(Profile::V0, true), compat(Profile::V1, true)], [cc::compat::LINUX_5_4 | cc::compat::MPTCP_0_96, 0]);
    }
}
