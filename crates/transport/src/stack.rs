//! How the modelled kernels differ: a property is a row, a kernel is a column, and each value says
//! where it comes from.
//!
//! Endpoints ask for a property and never for a kernel: `if stack.subflow_nagle`, not "if this is
//! Linux 6.12". A further kernel is one more column of [`table`], and a difference that two kernels
//! turn out to have is one more row.

mod declare;
mod page;
mod table;
mod values;

use polypath_cc::compat;
use std::fmt;

pub use declare::Row;
pub use page::page;
pub use table::{LINUX_6_1_192, LINUX_6_12_117, LINUX_7_3_4, MPTCP_0_96_LINUX_5_4_188, STACKS, Stack, rows};
pub use values::{MetaRetransmission, MetaSendBuffer, MptcpVersion, PrrBound, PushOrder, ReceiveCharge, TimeoutMin};

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about)
    }
}

impl Stack {
    /// What the kernel's own congestion control computes otherwise than the papers and Linux 6.12:
    /// bits of [`compat`], each a row of the table.
    pub(crate) const fn cc_compat(&self) -> u32 {
        bit(self.hystart_ms, compat::HYSTART_MS)
            | bit(self.hystart_half_rtt, compat::HYSTART_HALF_RTT)
            | bit(self.hystart_late_rounds, compat::HYSTART_LATE_ROUNDS)
    }

    /// The same on a subflow, where coupled algorithms run too.
    pub(crate) const fn cc_subflow_compat(&self) -> u32 {
        self.cc_compat()
            | bit(self.coupled_ack_counts_once, compat::ACK_COUNTS_ONCE)
            | bit(self.lia_coarse, compat::LIA_COARSE)
            | bit(self.olia_coarse, compat::OLIA_COARSE)
            | bit(self.olia_keeps_credit, compat::OLIA_KEEPS_CREDIT)
            | bit(self.balia_whole_alpha, compat::BALIA_WHOLE_ALPHA)
            | bit(self.balia_one_segment, compat::BALIA_ONE_SEGMENT)
    }

    /// The kernel that a study calls so.
    pub fn find(name: &str) -> Option<&'static Self> {
        STACKS.into_iter().find(|stack| stack.name == name)
    }
}

const fn bit(is_set: bool, bit: u32) -> u32 {
    if is_set { bit } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::tcp::{Config, Socket};
    use polypath_base::{Bytes, Seq};
    use polypath_cc as cc;

    #[test]
    fn plain_tcp_has_its_kernels_congestion_control_and_subflows_their_stacks_too() {
        let compat = |stack, is_subflow| {
            let settings = Settings { stack, ..Settings::default() };
            let algorithm = cc::find("cubic").expect("the algorithm exists");
            let socket = Socket::client(Config { settings: settings.into(), algorithm, mtu: Bytes::new(1500), initial_seq: Seq::new(1) });
            if is_subflow { socket.subflow(Bytes::new(20), Bytes::new(8)).tx.flow().compat } else { socket.tx.flow().compat }
        };
        let of = |is_subflow| [&MPTCP_0_96_LINUX_5_4_188, &LINUX_6_12_117].map(|stack| compat(stack, is_subflow));
        let hystart = cc::compat::HYSTART_MS | cc::compat::HYSTART_HALF_RTT | cc::compat::HYSTART_LATE_ROUNDS;
        let every = cc::compat::ALL.iter().map(|(_, bit)| bit).sum::<u32>();
        assert_eq!(of(false), [hystart, 0]);
        assert_eq!(of(true), [every, 0], "the oldest kernel has every property that a bit stands for");
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
