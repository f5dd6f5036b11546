//! How the modelled kernels differ: a property is a row, a kernel is a column, and each value says where it comes from.
//!
//! Endpoints ask for a property and never for a kernel: `if stack.subflow_nagle`, not "if this is Linux 6.12". A further kernel is one
//! more column of [`table`], and a difference that two kernels turn out to have is one more row.

mod declare;
mod page;
mod table;
mod values;

use std::fmt;

pub use declare::Row;
pub use page::page;
pub use table::{LINUX_6_1_192, LINUX_6_12_117, MPTCP_0_96_LINUX_5_4_188, STACKS, Stack, rows};
pub use values::{MetaRetransmission, MetaSendBuffer, MptcpVersion, PrrBound, ReceiveCharge, TimerFloor};

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about)
    }
}

impl Stack {
    /// The kernel that a study calls so.
    pub fn find(name: &str) -> Option<&'static Self> {
        STACKS.into_iter().find(|stack| stack.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::tcp::{Config, Socket};
    use polypath_cc as cc;

    #[test]
    fn plain_tcp_has_its_kernels_congestion_control_and_subflows_their_stacks_too() {
        let compat = |stack, is_subflow| {
            let settings = Settings { stack, ..Settings::default() };
            let algorithm = cc::find("cubic").expect("the algorithm exists");
            let socket = Socket::client(Config { settings, algorithm, mtu: 1500, initial_seq: polypath_base::Seq::new(1) });
            if is_subflow { socket.subflow(20, 8).flow.compat } else { socket.flow.compat }
        };
        let of = |is_subflow| [&MPTCP_0_96_LINUX_5_4_188, &LINUX_6_12_117].map(|stack| compat(stack, is_subflow));
        assert_eq!(of(false), [cc::compat::LINUX_5_4, 0]);
        assert_eq!(of(true), [cc::compat::LINUX_5_4 | cc::compat::MPTCP_0_96, 0]);
    }

    #[test]
    fn every_value_has_a_source_and_every_row_a_difference() {
        for row in rows() {
            assert_eq!((row.values.len(), row.sources.len()), (STACKS.len(), STACKS.len()), "{}", row.name);
            assert!(row.meaning.ends_with('.'), "{}", row.meaning);
            assert!(row.sources.iter().all(|source| !source.is_empty()), "{}", row.name);
            assert!(row.values.iter().any(|value| *value != row.values[0]), "{}: all kernels agree, so it is no property", row.name);
        }
    }

    #[test]
    fn a_kernel_is_found_by_its_name() {
        assert!(STACKS.into_iter().all(|stack| Stack::find(stack.name).is_some_and(|found| std::ptr::eq(found, stack))));
        assert!(Stack::find("6.13").is_none());
    }
}
