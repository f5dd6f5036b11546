//! The table itself. A source is a kernel's change, by release and title, a clause of an RFC, or a
//! folder of `specs/notes` with the job that showed it.
//!
//! # Adding a kernel
//!
//! A kernel is a column, a property in which kernels differ is a row. A kernel of which nothing is
//! known but "as its neighbour" is not worth a column: first collect the differences in
//! `specs/notes/kernel-NAME`, each with its job. Say it is 6.13.
//!
//! 1. A line in `columns`, oldest first, with the study's name and the exact release; then a line
//!    with its source in every row, in the columns' order, or it does not compile. This writes them
//!    as copies of 6.12's; then change what differs, and the sources:
//!    ```text
//!    sed -i -E 's/^( {12})LINUX_6_12_117( = .*, )".*";$/&\n\1LINUX_6_13_1\2"not measured";/' \
//!        crates/transport/src/stack/table.rs
//!    ```
//! 2. A new row for a difference that no row has. The endpoint asks for `settings.stack.PROPERTY`,
//!    never for a kernel. A value that is no number, yes or no needs a type in `values.rs`, its
//!    `Words`, and its name in the `pub use` of `stack.rs`. What all kernels share is a default in
//!    `crates/transport/src/settings.rs` (`rto_min`, the floor of the RTO; `delack_max`). Where one
//!    kernel differs add a row here, and let `Settings::of` copy it; a study's sysctls come after.
//! 3. The static in the `pub use` of `stack.rs`.
//! 4. `cargo run -p polypath-transport --example kernels > docs/reference/kernels.md`, and `git
//!    checkout` the page if that does not build. Then `cargo test -p polypath-transport --lib
//!    stack`.
//! 5. A scenario in `crates/sim/tests/known_bytes/scenarios.jsonl`. Simulator and Python find the
//!    kernel by its name.
//! 6. `make setup`. Tests that take 6.13 for unknown, or list all kernels, say so:
//!    `tests/python/test_refused.py`, `test_validate_starts.py`, and the one at the end of
//!    `stack.rs`. The name in `docs/guide/study-file.md`.
//! 7. Where it was measured: the runs as `tests/data/reference/linux-6.13.csv`, a line in the
//!    `README.md` there, a row a group in `agreement.csv`, the name in `NAMES` of
//!    `tools/agreement.py`, and `tools/figures.py docs/reference/agreement.md`.
//!
//! The default kernel stands in `DEFAULT_KERNEL` of `python/polypath/study/_kernel.py` and in
//! `stacks` of `crates/sim/src/build.rs`. The engine linux does not read this table.

use super::declare::{Row, kernels};
use super::values::{MetaRetransmission, MetaSendBuffer, MptcpVersion, PrrBound, PushOrder, ReceiveCharge, TimeoutMin, Words};
use polypath_base::Duration;

kernels! {
    columns {
        MPTCP_0_96_LINUX_5_4_188: "5.4-mptcp", "Linux 5.4.188 with MPTCP 0.96";
        LINUX_6_1_192: "6.1", "Linux 6.1.192";
        LINUX_6_12_117: "6.12", "Linux 6.12.117";
        LINUX_7_3_4: "7.3", "Linux 7.3.4";
    }

    section "Timers" {
        /// What tail loss probes and the reordering timer wait beyond RFC 8985's time
        /// (`TCP_TIMEOUT_MIN`).
        timeout_min: TimeoutMin {
            MPTCP_0_96_LINUX_5_4_188 = TimeoutMin::Ticks(2), "as before \"tcp: fix excessive TLP and RACK timeouts from HZ rounding\"; not measured";
            LINUX_6_1_192 = TimeoutMin::Time(Duration::from_millis(2)), "a stable update by 6.1.64, \"tcp: fix excessive TLP and RACK timeouts from HZ rounding\"; measured, tests/scripts/tcp-rack-reordering.pkt";
            LINUX_6_12_117 = TimeoutMin::Time(Duration::from_millis(2)), "measured, specs/notes/endpoint-answers, tests/scripts/tcp-rack-reordering.pkt";
            LINUX_7_3_4 = TimeoutMin::Time(Duration::from_millis(2)), "as 6.12: tests/scripts, and its sources";
        }
        /// Equal timeouts of a SYN before they double (`tcp_syn_linear_timeouts`).
        syn_linear_timeouts: u32 {
            MPTCP_0_96_LINUX_5_4_188 = 0, "since 6.5; RFC 6298 section 5.5";
            LINUX_6_1_192 = 0, "measured, tests/scripts/tcp-syn-retransmission.pkt; since 6.5";
            LINUX_6_12_117 = 4, "measured, tests/scripts/tcp-syn-retransmission.pkt";
            LINUX_7_3_4 = 4, "as 6.12: tests/scripts, and its sources";
        }
        /// The longest timeout is a setting (`tcp_rto_max_ms`).
        sets_rto_max: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as before 6.15";
            LINUX_6_1_192 = false, "as before 6.15";
            LINUX_6_12_117 = false, "as before 6.15";
            LINUX_7_3_4 = true, "measured, tests/scripts/tcp-rto-max.pkt";
        }
    }

    section "Sending" {
        /// Bursts are longer on short paths: by 64 KiB, halved for each 512 µs of the least RTT
        /// (`tcp_tso_rtt_log` = 9).
        short_path_bursts: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "came with 5.18, \"tcp: adjust TSO packet sizes based on min_rtt\"";
            LINUX_6_1_192 = true, "5.18, \"tcp: adjust TSO packet sizes based on min_rtt\"";
            LINUX_6_12_117 = true, "5.18, \"tcp: adjust TSO packet sizes based on min_rtt\"";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// A buffer that is shorter than the window allows takes data of the next one before it
        /// leaves (`tcp_grow_skb`); else no burst of plain TCP spans two.
        grows_buffers: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "came with 6.10, \"tcp: try to send bigger TSO packets\"";
            LINUX_6_1_192 = false, "came with 6.10, \"tcp: try to send bigger TSO packets\"; tests/scripts/tcp-buffers.pkt, tests/scripts/mptcp-refused-probe.pkt";
            LINUX_6_12_117 = true, "6.10, \"tcp: try to send bigger TSO packets\"; tests/scripts/tcp-buffers.pkt, tests/scripts/mptcp-refused-probe.pkt";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// The last segment leaves with a FIN though the window is full (`tcp_cwnd_test`).
        fin_ignores_cwnd: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "as 6.1; not measured";
            LINUX_6_1_192 = true, "measured, tests/scripts/tcp-fin-beyond-cwnd.pkt";
            LINUX_6_12_117 = false, "measured, tests/scripts/tcp-fin-waits-for-cwnd.pkt";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// A window of zero counts in a segment that says nothing else that is new
        /// (`tcp_may_update_window`).
        takes_zero_windows: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as 6.1; not measured";
            LINUX_6_1_192 = false, "measured, tests/scripts/tcp-zero-window-alone.pkt";
            LINUX_6_12_117 = true, "measured, tests/scripts/tcp-zero-window-counts.pkt";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// A burst waits for the next ACK only if that is due within this time; without one, within
        /// half a round trip.
        tso_defer_within: Option<Duration> {
            MPTCP_0_96_LINUX_5_4_188 = None, "measured, specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = Some(Duration::from_millis(1)), "a stable update by 6.1.158, \"tcp: fix tcp_tso_should_defer() vs large RTT\"";
            LINUX_6_12_117 = Some(Duration::from_millis(1)), "\"tcp: fix tcp_tso_should_defer() vs large RTT\", a stable update by 6.12.57; specs/notes/out-of-tree-sending";
            LINUX_7_3_4 = Some(Duration::from_millis(1)), "as 6.12: tests/scripts, and its sources";
        }
        /// That the window was the limit in a round trip is not forgotten at a larger flight in it
        /// (RFC 7661).
        keeps_cwnd_limited: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = true, "a stable update by 6.0.3, \"tcp: fix tcp_cwnd_validate() to not forget is_cwnd_limited\"";
            LINUX_6_12_117 = true, "6.1, \"tcp: fix tcp_cwnd_validate() to not forget is_cwnd_limited\"";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// How fast proportional rate reduction lets segments out once fewer than `ssthresh` are in
        /// flight (RFC 6937 section 3).
        prr_bound: PrrBound {
            MPTCP_0_96_LINUX_5_4_188 = PrrBound::ByRetransmissions, "as before 5.15, \"tcp: more accurately check DSACKs to grow RACK reordering window\" and its series";
            LINUX_6_1_192 = PrrBound::ByProgress, "its public sources: `tcp_cwnd_reduction`";
            LINUX_6_12_117 = PrrBound::ByProgress, "measured, specs/notes/tcp-one-flow";
            LINUX_7_3_4 = PrrBound::ByProgress, "as 6.12: tests/scripts, and its sources";
        }
        /// A DSACK counts only up to what was sent again, and widens RACK's window only where
        /// reordering was seen (`tcp_dsack_seen`).
        doubts_dsacks: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as before 5.15, \"tcp: more accurately check DSACKs to grow RACK reordering window\"";
            LINUX_6_1_192 = true, "5.15";
            LINUX_6_12_117 = true, "5.15";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// `tcp_recovery` cannot switch RACK off.
        rack_alone: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "its public sources: `tcp_is_rack`";
            LINUX_6_1_192 = false, "its public sources: `tcp_is_rack`";
            LINUX_6_12_117 = false, "its public sources: `tcp_is_rack`";
            LINUX_7_3_4 = true, "measured, tests/scripts/tcp-rack-alone.pkt";
        }
        /// HyStart's clock has whole milliseconds, and its RTTs have eighths of one; else both have
        /// microseconds.
        hystart_ms: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "as before 5.6, \"tcp_cubic: switch bictcp_clock() to usec resolution\"; specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = false, "5.6, \"tcp_cubic: switch bictcp_clock() to usec resolution\"";
            LINUX_6_12_117 = false, "5.6, \"tcp_cubic: switch bictcp_clock() to usec resolution\"";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// A train of ACKs that lasts half the least RTT ends slow start; else a burst's time is
        /// allowed for, and a paced flow may use the whole RTT.
        hystart_half_rtt: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "as before 5.6, \"tcp_cubic: tweak Hystart detection for short RTT flows\" and \"tcp_cubic: make Hystart aware of pacing\"";
            LINUX_6_1_192 = false, "5.6";
            LINUX_6_12_117 = false, "5.6";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// HyStart's first round begins once the window has 16 segments; else with the first ACK.
        hystart_late_rounds: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "measured, specs/notes/out-of-tree-sending, specs/notes/hystart-rounds";
            LINUX_6_1_192 = false, "a stable update by 6.1.129, \"tcp_cubic: fix incorrect HyStart round start detection\"; specs/notes/hystart-rounds";
            LINUX_6_12_117 = false, "a stable update by 6.12.13, \"tcp_cubic: fix incorrect HyStart round start detection\"; specs/notes/hystart-rounds";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
    }

    section "Receiving" {
        /// The share of payload in the buffer's memory is measured on the segments that come
        /// (`scaling_ratio`); else it is a half (`tcp_adv_win_scale` = 1).
        rcv_scaling_ratio: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "came with 6.6, \"tcp: get rid of sysctl_tcp_adv_win_scale\"";
            LINUX_6_1_192 = false, "came with 6.6, \"tcp: get rid of sysctl_tcp_adv_win_scale\"";
            LINUX_6_12_117 = true, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// What waiting data takes of the receive buffer.
        rcv_charge: ReceiveCharge {
            MPTCP_0_96_LINUX_5_4_188 = ReceiveCharge::Twice, "not measured";
            LINUX_6_1_192 = ReceiveCharge::Merged, "its public sources: `tcp_try_coalesce`, `mptcp_try_coalesce`";
            LINUX_6_12_117 = ReceiveCharge::Merged, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = ReceiveCharge::Merged, "as 6.12: tests/scripts, and its sources";
        }
        /// The buffer grows by whole segments, each with its overhead; else by the share of payload
        /// (`tcp_rcv_space_adjust`).
        rcvbuf_grows_by_segments: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "specs/notes/paced-bursts";
            LINUX_6_1_192 = true, "measured, tests/scripts/tcp-receive-buffer-grows.pkt";
            LINUX_6_12_117 = false, "measured, tests/scripts/tcp-receive-buffer-grows.pkt";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// The buffer has room for 16 segments beside twice what was read.
        rcvbuf_reserves_segments: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources: `tcp_rcv_space_adjust`";
            LINUX_6_1_192 = true, "its public sources: `tcp_rcv_space_adjust`";
            LINUX_6_12_117 = true, "its public sources: `tcp_rcv_space_adjust`";
            LINUX_7_3_4 = false, "its public sources: `tcp_rcvbuf_grow`; specs/notes/kernel-7.3";
        }
        /// What waits beyond a hole makes the buffer grow, as far as it reaches.
        rcvbuf_grows_for_holes: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "its public sources: `tcp_data_queue_ofo`";
            LINUX_6_1_192 = false, "its public sources: `tcp_data_queue_ofo`";
            LINUX_6_12_117 = false, "its public sources: `tcp_data_queue_ofo`";
            LINUX_7_3_4 = true, "its public sources: `tcp_rcvbuf_grow`";
        }
        /// Below this RTT the buffer grows by the RTT's part of it at most (`tcp_rcvbuf_low_rtt`).
        rcvbuf_low_rtt: Duration {
            MPTCP_0_96_LINUX_5_4_188 = Duration::ZERO, "its public sources: `tcp_rcv_space_adjust`";
            LINUX_6_1_192 = Duration::ZERO, "its public sources: `tcp_rcv_space_adjust`";
            LINUX_6_12_117 = Duration::ZERO, "its public sources: `tcp_rcv_space_adjust`";
            LINUX_7_3_4 = Duration::from_millis(1), "the sysctl's default; specs/notes/kernel-7.3";
        }
        /// The first window fits the SYN's field; else it is all that the first buffer has room for
        /// (`tcp_select_initial_window`).
        first_window_fits_field: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "as before \"tcp: remove 64 KByte limit for initial tp->rcv_wnd value\"";
            LINUX_6_1_192 = true, "as before \"tcp: remove 64 KByte limit for initial tp->rcv_wnd value\"; not measured";
            LINUX_6_12_117 = false, "measured, tests/scripts/tcp-first-window.pkt";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// One segment of the first buffer is never announced (`tcp_init_buffer_space`).
        rcv_reserves_segment: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "specs/notes/out-of-tree-start; plain TCP is taken to do as subflows";
            LINUX_6_1_192 = true, "measured, specs/notes/kernel-6.1";
            LINUX_6_12_117 = true, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// MPTCP's first estimate of what is read in a round trip is ten segments; else the whole first
        /// window, and the buffer grows later.
        rcvq_space_ten_segments: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "measured, specs/notes/out-of-tree-start";
            LINUX_6_1_192 = true, "5.10, \"tcp: select sane initial rcvq_space.space for big MSS\"";
            LINUX_6_12_117 = true, "5.10, \"tcp: select sane initial rcvq_space.space for big MSS\"";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// What waits to be read is taken off what was read in a round trip before the buffer grows
        /// to it.
        rcvq_space_less_unread: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "came with 6.16, \"tcp: add receive queue awareness in tcp_rcv_space_adjust()\"";
            LINUX_6_1_192 = false, "in no 6.1, \"tcp: add receive queue awareness in tcp_rcv_space_adjust()\"";
            LINUX_6_12_117 = true, "a stable update by 6.12.35, \"tcp: add receive queue awareness in tcp_rcv_space_adjust()\"";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// The receiver's RTT takes a shorter sample as it is; else every sample goes into a mean
        /// over eight.
        rcv_rtt_least: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as before \"tcp: always seek for minimal rtt in tcp_rcv_rtt_update()\"";
            LINUX_6_1_192 = true, "a stable update by 6.1.147, \"tcp: always seek for minimal rtt in tcp_rcv_rtt_update()\"";
            LINUX_6_12_117 = true, "a stable update by 6.12.35, \"tcp: always seek for minimal rtt in tcp_rcv_rtt_update()\"";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// The receiver's RTT counts a sample below a millisecond as one; else it leaves it out.
        rcv_rtt_zero_samples: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "as before \"tcp: remove zero TCP TS samples for autotuning\"";
            LINUX_6_1_192 = true, "in no 6.1, \"tcp: remove zero TCP TS samples for autotuning\"";
            LINUX_6_12_117 = false, "a stable update by 6.12.35, \"tcp: remove zero TCP TS samples for autotuning\"";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// The receiver's RTT takes a longer sample only while nothing waits to be read.
        rcv_rtt_if_read: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "its public sources: `tcp_rcv_rtt_update`";
            LINUX_6_1_192 = false, "its public sources: `tcp_rcv_rtt_update`";
            LINUX_6_12_117 = false, "its public sources: `tcp_rcv_rtt_update`";
            LINUX_7_3_4 = true, "its public sources: `tcp_rcv_rtt_update`";
        }
        /// Segments beyond a hole tell of the peer's segment size too (`tcp_measure_rcv_mss`).
        rcv_mss_beyond_hole: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "fitted to measured series, specs/notes/out-of-tree-start";
            LINUX_6_1_192 = false, "its public sources: `tcp_data_queue_ofo`";
            LINUX_6_12_117 = true, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
    }

    section "Acknowledging" {
        /// A reader that empties the buffer acknowledges a full segment with PSH, as it does a
        /// short one.
        ack_pushed_full: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as before \"tcp: fix delayed ACKs for MSS boundary condition\"";
            LINUX_6_1_192 = true, "a stable update by 6.1.64, \"tcp: fix delayed ACKs for MSS boundary condition\"; specs/notes/reader-acks";
            LINUX_6_12_117 = true, "measured, specs/notes/reader-acks";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// How much later than its time a compressed ACK may leave (`tcp_comp_sack_slack_ns`).
        comp_sack_slack: Duration {
            MPTCP_0_96_LINUX_5_4_188 = Duration::ZERO, "since 5.8";
            LINUX_6_1_192 = Duration::from_micros(100), "the sysctl's default";
            LINUX_6_12_117 = Duration::from_micros(100), "the sysctl's default";
            LINUX_7_3_4 = Duration::from_micros(10), "the sysctl's default; specs/notes/kernel-7.3";
        }
        /// Part of the round trip that a compressed ACK waits, at most 1 ms
        /// (`tcp_comp_sack_rtt_percent`), percent.
        comp_sack_percent: u32 {
            MPTCP_0_96_LINUX_5_4_188 = 5, "its public sources: it is fixed";
            LINUX_6_1_192 = 5, "its public sources: it is fixed";
            LINUX_6_12_117 = 5, "its public sources: it is fixed";
            LINUX_7_3_4 = 33, "the sysctl's default; specs/notes/kernel-7.3";
        }
        /// An ACK of what was never sent draws a challenge ACK on an established connection (RFC
        /// 9293 section 3.10.7.4); else only once an end has closed.
        challenges_unsent_ack: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "measured, tests/scripts/tcp-out-of-place.pkt";
            LINUX_6_1_192 = false, "measured, tests/scripts/tcp-out-of-place.pkt";
            LINUX_6_12_117 = false, "measured, tests/scripts/tcp-out-of-place.pkt";
            LINUX_7_3_4 = true, "measured, tests/scripts/tcp-out-of-place.pkt";
        }
        /// ECN feedback that counts each mark can be negotiated (RFC 9768; `tcp_ecn` 3 to 5).
        accurate_ecn: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as before \"tcp: AccECN core\" (6.18)";
            LINUX_6_1_192 = false, "as before \"tcp: AccECN core\" (6.18)";
            LINUX_6_12_117 = false, "as before \"tcp: AccECN core\" (6.18)";
            LINUX_7_3_4 = true, "measured, tests/scripts/accecn-negotiation.pkt";
        }
        /// A compressed ACK leaves at once when a block beyond so many SACK blocks changes.
        comp_sack_blocks: usize {
            MPTCP_0_96_LINUX_5_4_188 = 4, "as before \"tcp: better SACK compression\" (5.8)";
            LINUX_6_1_192 = 2, "5.8";
            LINUX_6_12_117 = 2, "5.8";
            LINUX_7_3_4 = 2, "as 6.12: tests/scripts, and its sources";
        }
    }

    section "Multipath TCP: handshake" {
        /// The version of the protocol.
        mptcp_version: MptcpVersion {
            MPTCP_0_96_LINUX_5_4_188 = MptcpVersion::V0, "its public documentation";
            LINUX_6_1_192 = MptcpVersion::V1, "its documentation";
            LINUX_6_12_117 = MptcpVersion::V1, "on the wire: specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = MptcpVersion::V1, "as 6.12: tests/scripts, and its sources";
        }
        /// Subflows that a connection can have.
        max_subflows: usize {
            MPTCP_0_96_LINUX_5_4_188 = polypath_sched::MAX_SUBFLOWS, "its masks have 32 bits";
            LINUX_6_1_192 = 9, "`ip mptcp limits`";
            LINUX_6_12_117 = 9, "`ip mptcp limits`";
            LINUX_7_3_4 = 65, "`ip mptcp limits`";
        }
        /// An address that the server announces can be answered from an endpoint that is kept for
        /// it (`MPTCP_PM_ADDR_FLAG_LAMINAR`).
        laminar_endpoints: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as before 6.18";
            LINUX_6_1_192 = false, "as before 6.18";
            LINUX_6_12_117 = false, "as before 6.18";
            LINUX_7_3_4 = true, "measured, specs/notes/kernel-7.3";
        }
        /// Bytes of MPTCP's options on a data segment with a DATA_ACK of four bytes; with eight
        /// there are four more.
        mptcp_data_options: u32 {
            MPTCP_0_96_LINUX_5_4_188 = 20, "on the wire, specs/notes/mptcp-two-paths";
            LINUX_6_1_192 = 24, "measured, specs/notes/kernel-6.1";
            LINUX_6_12_117 = 24, "on the wire, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = 24, "as 6.12: tests/scripts, and its sources";
        }
        /// Bytes of MPTCP's options on a pure ACK.
        mptcp_ack_options: u32 {
            MPTCP_0_96_LINUX_5_4_188 = 8, "on the wire, specs/notes/mptcp-two-paths";
            LINUX_6_1_192 = 12, "measured, specs/notes/kernel-6.1";
            LINUX_6_12_117 = 12, "on the wire, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = 12, "as 6.12: tests/scripts, and its sources";
        }
        /// ADD_ADDR stands on a segment without data, in place of its DSS.
        add_addr_alone: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "its public sources";
            LINUX_6_1_192 = true, "measured, tests/scripts/mptcp-add-addr-echoed.pkt";
            LINUX_6_12_117 = true, "measured, tests/scripts/mptcp-add-addr-echoed.pkt";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// ADD_ADDR is repeated after the subflows' longest RTO, if that is shorter than
        /// `add_addr_timeout`, and waits twice as long each time.
        add_addr_waits_rto: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "measured, tests/scripts/mptcp-add-addr-repeated.pkt";
            LINUX_6_1_192 = false, "measured, tests/scripts/mptcp-add-addr-repeated.pkt";
            LINUX_6_12_117 = false, "measured, tests/scripts/mptcp-add-addr-repeated.pkt";
            LINUX_7_3_4 = true, "measured, tests/scripts/mptcp-add-addr-repeated.pkt";
        }
        /// After so many repetitions of the SYN the next asks for plain TCP.
        syn_retrans_before_fallback: Option<u32> {
            MPTCP_0_96_LINUX_5_4_188 = None, "not measured";
            LINUX_6_1_192 = None, "measured, specs/notes/fallback";
            LINUX_6_12_117 = Some(2), "measured, specs/notes/fallback";
            LINUX_7_3_4 = Some(2), "as 6.12: tests/scripts, and its sources";
        }
    }

    section "Multipath TCP: receiving" {
        /// All subflows announce the window up to one threshold (`rcv_ssthresh`), the connection's;
        /// else each has its own.
        shared_rcv_ssthresh: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources; specs/notes/out-of-tree-start";
            LINUX_6_1_192 = false, "its public sources: `mptcp_set_rwin`, `rwin_update`";
            LINUX_6_12_117 = false, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// Each new subflow adds its first buffer and window to the connection's.
        adds_subflow_buffers: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources; specs/notes/out-of-tree-start";
            LINUX_6_1_192 = false, "its public sources: `mptcp_sock_graft`, `mptcp_rcv_space_init`";
            LINUX_6_12_117 = false, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// The connection, which knows the reader, decides on the ACK for two full segments; else
        /// each subflow does.
        meta_acks: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "fitted to measured series, specs/notes/out-of-tree-start";
            LINUX_6_1_192 = true, "its public sources: `mptcp_cleanup_rbuf`, `tcp_data_snd_check`";
            LINUX_6_12_117 = true, "measured, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// That ACK waits for the reader where the window would have to shrink for unread data.
        meta_acks_wait_for_reader: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "each subflow decides";
            LINUX_6_1_192 = false, "measured, specs/notes/mtu-probing; before 6.7, \"mptcp: give rcvlowat some love\"";
            LINUX_6_12_117 = true, "measured, specs/notes/mptcp-two-paths; 6.7, \"mptcp: give rcvlowat some love\"";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// After reading, a subflow tells of a larger window only if its own is twice what is left;
        /// else all do once the connection's is.
        window_update_by_subflow: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "fitted to measured series, specs/notes/out-of-tree-start";
            LINUX_6_1_192 = true, "its public sources: `mptcp_subflow_cleanup_rbuf`";
            LINUX_6_12_117 = true, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// A connection samples a subflow's receiver once a window: the least of five RTTs counts,
        /// the share of payload goes an eighth of the way; else the longest RTT and the least
        /// share.
        meta_rcv_samples: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "its public sources: `mptcp_rcv_space_adjust`";
            LINUX_6_1_192 = false, "its public sources: `mptcp_rcv_space_adjust`";
            LINUX_6_12_117 = false, "its public sources: `mptcp_rcv_space_adjust`";
            LINUX_7_3_4 = true, "`mptcp_rcv_rtt_update`, tests/scripts/mptcp-receiver-samples.pkt";
        }
        /// Subflows' receive buffers grow with the connection's by their own RTT and share; else to
        /// its size.
        subflow_rcvbuf_by_own_share: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "it has no such buffers";
            LINUX_6_1_192 = false, "its public sources: `mptcp_rcv_space_adjust`";
            LINUX_6_12_117 = false, "its public sources: `mptcp_rcv_space_adjust`";
            LINUX_7_3_4 = true, "its public sources: `tcp_rcvbuf_grow`";
        }
        /// A connection's receive buffer that grows lets subflows send the ACKs that a reader
        /// would.
        rcvbuf_growth_acks: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "it has no such rule";
            LINUX_6_1_192 = true, "its public sources: `mptcp_rcv_space_adjust`";
            LINUX_6_12_117 = true, "its public sources: `mptcp_rcv_space_adjust`";
            LINUX_7_3_4 = false, "measured, tests/scripts/mptcp-receive-buffer-grows.pkt";
        }
        /// A connection that this end opens measures what is read from its SYN on; else from the
        /// SYN/ACK.
        meta_reads_since_syn: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "as 6.1; not measured";
            LINUX_6_1_192 = false, "its public sources: `mptcp_rcv_space_init`";
            LINUX_6_12_117 = true, "its public sources: `mptcp_connect`";
            LINUX_7_3_4 = true, "its public sources: `mptcp_connect`";
        }
        /// Data without a mapping resets its subflow with reason 6, a middlebox; else with 1 (RFC
        /// 8684 section 3.6).
        blames_middlebox: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "measured, tests/scripts/mptcp-no-mapping-joined.pkt";
            LINUX_6_1_192 = false, "measured, tests/scripts/mptcp-no-mapping-joined.pkt";
            LINUX_6_12_117 = false, "measured, tests/scripts/mptcp-no-mapping-joined.pkt";
            LINUX_7_3_4 = true, "measured, tests/scripts/mptcp-no-mapping-joined.pkt";
        }
    }

    section "Multipath TCP: sending" {
        /// Subflows obey the window that their own segments announced too, not the connection's
        /// alone.
        subflow_obeys_window: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "fitted to measured series, specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = true, "its public sources: `tcp_snd_wnd_test`";
            LINUX_6_12_117 = true, "measured, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// The data window ends at the DATA_ACK plus its subflow's window, which a duplicate ACK
        /// does not shrink; else plus the window of the same segment.
        data_window_by_subflow: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "its public sources: the meta socket's window is the segment's";
            LINUX_6_1_192 = true, "measured, tests/scripts/mptcp-older-window.pkt";
            LINUX_6_12_117 = true, "measured, tests/scripts/mptcp-older-window.pkt; docs/findings/simult-flows.md";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// Subflows search for the path's MTU (`tcp_mtu_probing`).
        subflow_probes_mtu: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "its public sources, and measured: specs/notes/mtu-probing";
            LINUX_6_1_192 = true, "its public sources: `tcp_mtu_probe`";
            LINUX_6_12_117 = true, "measured, specs/notes/mtu-probing";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// Subflows keep Nagle's rule: a burst's short end waits until the one before is
        /// acknowledged.
        subflow_nagle: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "fitted to measured series, specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = true, "measured, tests/scripts/mptcp-nagle.pkt";
            LINUX_6_12_117 = true, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// A subflow's MSS is less MPTCP's options; else they are taken off when a segment is cut.
        subflow_mss_less_options: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources, and measured: specs/notes/mtu-probing";
            LINUX_6_1_192 = false, "its public sources: `tcp_current_mss`";
            LINUX_6_12_117 = false, "measured, specs/notes/mtu-probing";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// A subflow keeps the connection's buffers: no segment or burst spans two, and a window's
        /// room is counted in them.
        subflow_keeps_buffers: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources, and measured: specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = false, "6.1 and 6.12 keep them, without which more of the tables agree, specs/notes/kernel-6.1";
            LINUX_6_12_117 = false, "6.1 and 6.12 keep them, without which more of the tables agree, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// A subflow's send buffer counts the memory of the bursts in the network; else bytes
        /// alone.
        subflow_counts_memory: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "fitted to measured series, specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = true, "its public sources: `mptcp_subflow_get_send`, `sk_stream_memory_free`";
            LINUX_6_12_117 = true, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// A subflow's send buffer grows after what an ACK let out has left; else before.
        subflow_grows_after_sending: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "fitted to measured series, specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = true, "its public sources: `tcp_data_snd_check`, `tcp_check_space`";
            LINUX_6_12_117 = true, "measured, specs/notes/buffer-memory";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// How large the connection's send buffer is.
        meta_send_buffer: MetaSendBuffer {
            MPTCP_0_96_LINUX_5_4_188 = MetaSendBuffer::LargestSum, "its public sources, and measured: specs/notes/mptcp-two-paths";
            LINUX_6_1_192 = MetaSendBuffer::Largest, "measured, specs/notes/kernel-6.1; as before 6.7, \"mptcp: refactor sndbuf auto-tuning\"";
            LINUX_6_12_117 = MetaSendBuffer::Sum, "6.7, \"mptcp: refactor sndbuf auto-tuning\"";
            LINUX_7_3_4 = MetaSendBuffer::Sum, "as 6.12: tests/scripts, and its sources";
        }
        /// A client's first write finds the second value of `tcp_wmem` as send buffer; else its
        /// subflow's larger one.
        first_write_in_first_buffer: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "not measured";
            LINUX_6_1_192 = true, "measured, specs/notes/mtu-probing";
            LINUX_6_12_117 = true, "measured, specs/notes/mtu-probing";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// The MTU search counts MPTCP's options as headers, so `tcp_base_mss` is all data; else
        /// they take room of it.
        search_counts_options: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "measured, specs/notes/mtu-probing";
            LINUX_6_1_192 = false, "its public sources: `tcp_mtup_init`, `tcp_mtu_to_mss`";
            LINUX_6_12_117 = false, "measured, specs/notes/mtu-probing";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// In what order data goes to subflows, and when it leaves (`__mptcp_push_pending`,
        /// `mptcp_subflow_get_send`).
        push_order: PushOrder {
            MPTCP_0_96_LINUX_5_4_188 = PushOrder::BufferByBuffer, "its public sources, and measured: specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = PushOrder::Bursts, "measured, tests/scripts/mptcp-burst.pkt; its public sources: `__mptcp_push_pending`";
            LINUX_6_12_117 = PushOrder::Bursts, "measured, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = PushOrder::Bursts, "as 6.12: tests/scripts, and its sources";
        }
        /// The scheduler of a connection for which none is asked.
        default_scheduler: &'static str {
            MPTCP_0_96_LINUX_5_4_188 = "minrtt", "its documentation (there `default`)";
            LINUX_6_1_192 = "default", "its documentation";
            LINUX_6_12_117 = "default", "its documentation";
            LINUX_7_3_4 = "default", "as 6.12: tests/scripts, and its sources";
        }
        /// A burst that is not used up goes on with the next data on its subflow while that has
        /// room; else the scheduler is asked again.
        burst_goes_on: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "it has no such scheduler";
            LINUX_6_1_192 = true, "measured, tests/scripts/mptcp-burst.pkt";
            LINUX_6_12_117 = false, "measured, tests/scripts/mptcp-burst.pkt";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// A write that finds nothing waiting begins a fragment in what is left of a page of 32
        /// KiB; else fragments fill whole pages.
        write_begins_fragment: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "it has no such fragments";
            LINUX_6_1_192 = true, "measured, specs/notes/kernel-6.1";
            LINUX_6_12_117 = false, "6.12 does it too, without which more drawn networks agree, specs/notes/kernel-6.1";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// Of two subflows with the same RTT the newer one is taken.
        newer_of_equals: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources; specs/notes/out-of-tree-sending";
            LINUX_6_1_192 = false, "a choice: it has no scheduler that asks";
            LINUX_6_12_117 = false, "a choice: it has no scheduler that asks";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// The products of the scheduler `ecf` are 32 bits wide and overflow.
        ecf_overflows: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "measured, specs/notes/mptcp-v0-schedulers";
            LINUX_6_1_192 = false, "a choice: it has no such scheduler";
            LINUX_6_12_117 = false, "a choice: it has no such scheduler";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// The scheduler `redundant` begins again at the oldest buffer that is not acknowledged as
        /// a whole.
        redundant_repeats: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "measured, specs/notes/mptcp-v0-schedulers; mended in April 2022";
            LINUX_6_1_192 = false, "a choice: it has no such scheduler";
            LINUX_6_12_117 = false, "a choice: it has no such scheduler";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
    }

    section "Multipath TCP: coupled congestion control" {
        /// To coupled algorithms an ACK is one segment, however much it acknowledges.
        coupled_ack_counts_once: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "measured, specs/notes/coupled-out-of-tree";
            LINUX_6_1_192 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_6_12_117 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// LIA's alpha is a whole number of 1/4096, and its best path is found among whole numbers.
        lia_coarse: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources, and measured: specs/notes/coupled-out-of-tree";
            LINUX_6_1_192 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_6_12_117 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// What an ACK adds to OLIA's credit is a whole number of 2^-10 segments.
        olia_coarse: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources, and measured: specs/notes/coupled-out-of-tree";
            LINUX_6_1_192 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_6_12_117 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// A reduction keeps what OLIA has collected toward the next increase.
        olia_keeps_credit: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "fitted to measured series, specs/notes/coupled-out-of-tree";
            LINUX_6_1_192 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_6_12_117 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// Balia's cut on loss takes the whole part of alpha.
        balia_whole_alpha: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "measured, specs/notes/coupled-out-of-tree";
            LINUX_6_1_192 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_6_12_117 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// Balia's cut on loss may leave a single segment; else two remain.
        balia_one_segment: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "fitted to measured series, specs/notes/coupled-out-of-tree";
            LINUX_6_1_192 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_6_12_117 = false, "a choice: it has no coupled congestion control of its own";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
    }

    section "Multipath TCP: sending again" {
        /// While the send buffer is full, the oldest data goes again on a fast subflow, and the
        /// slow one that has it is penalised.
        opportunistic_retransmission: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "Raiciu et al. 2012, section 4.2, and its public sources; specs/notes/mptcp-v0-schedulers";
            LINUX_6_1_192 = false, "its public sources: nothing in net/mptcp reduces a congestion window";
            LINUX_6_12_117 = false, "measured, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// A subflow's RTO sends all that it has again on the others; it gets nothing until it is
        /// heard of.
        reinjects_on_timeout: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources";
            LINUX_6_1_192 = false, "its public sources: `tcp_retransmit_timer`";
            LINUX_6_12_117 = false, "measured, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// What one subflow had goes again piece by piece; else all from the oldest unacknowledged
        /// byte on, or one fragment where a timer asks.
        reinjects_pieces: bool {
            MPTCP_0_96_LINUX_5_4_188 = true, "its public sources";
            LINUX_6_1_192 = false, "measured, tests/scripts/mptcp-reinjection.pkt";
            LINUX_6_12_117 = false, "measured, specs/notes/mptcp-two-paths";
            LINUX_7_3_4 = false, "as 6.12: tests/scripts, and its sources";
        }
        /// At a connection's timeout every idle subflow sends a fragment again; else one does.
        reinjects_several_fragments: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "it has no such fragments";
            LINUX_6_1_192 = false, "its public sources: `__mptcp_retrans`";
            LINUX_6_12_117 = false, "measured, tests/scripts/mptcp-retransmission-several.pkt";
            LINUX_7_3_4 = true, "measured, tests/scripts/mptcp-retransmission-several.pkt";
        }
        /// The wait for a DATA_FIN's acknowledgement doubles from its second repetition on; else
        /// from its first.
        data_fin_doubles_late: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "not measured";
            LINUX_6_1_192 = true, "measured, tests/scripts/mptcp-close-first.pkt";
            LINUX_6_12_117 = true, "measured, tests/scripts/mptcp-close-first.pkt";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
        /// What the connection's retransmission timer waits.
        meta_retransmission: MetaRetransmission {
            MPTCP_0_96_LINUX_5_4_188 = MetaRetransmission::TwiceLongestTimeout, "its public sources";
            LINUX_6_1_192 = MetaRetransmission::LastTimer, "measured, tests/scripts/mptcp-retransmission-interval.pkt";
            LINUX_6_12_117 = MetaRetransmission::LastTimer, "measured, tests/scripts/mptcp-retransmission-interval.pkt";
            LINUX_7_3_4 = MetaRetransmission::LastTimer, "as 6.12: tests/scripts, and its sources";
        }
        /// That wait is taken anew after each fragment of a burst; else only when the scheduler is
        /// asked.
        rtx_interval_by_fragment: bool {
            MPTCP_0_96_LINUX_5_4_188 = false, "it has no such scheduler";
            LINUX_6_1_192 = false, "measured, tests/scripts/mptcp-retransmission-burst.pkt";
            LINUX_6_12_117 = true, "measured, tests/scripts/mptcp-retransmission-burst.pkt";
            LINUX_7_3_4 = true, "as 6.12: tests/scripts, and its sources";
        }
    }
}
