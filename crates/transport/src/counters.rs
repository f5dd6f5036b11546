//! What an endpoint counts. A counter is one line here and the line that counts it.
//!
//! # Adding a counter
//!
//! 1. A line `NAME: Unit ["TcpExtNAME"], "meaning";`. Units are in `crates/base/src/columns.rs`. In
//!    brackets stand the counters of Linux's `/proc/net/netstat` or `snmp` whose sum it is; without
//!    brackets the engines linux and host show null. Of [`Counters`] the tables have what the
//!    client counted, of [`Rejections`] the sum of both ends. If the receiver counts it, let
//!    `subflow` in `crates/sim/src/flow.rs` add the server's, as it does for `rejected`; otherwise
//!    the column is nearly always 0.
//! 2. The line that counts, where `tcp` sends or calls its receiving half, which has no counters;
//!    and a test in `tcp/tests.rs` that asserts on it.
//! 3. The digests of `crates/sim/tests/known_bytes`, as a commit of its own: each outcome has one
//!    value more, so all change.
//! 4. `make setup`. The column is in `subflows` then, and for a plain count its sum in `runs`, on
//!    every engine. `tools/figures.py docs/reference/results.md` writes its row; the row of sums in
//!    the section "runs" there is written by hand.

use polypath_base::counters;

counters! {
    /// Counters of the sender of a connection or subflow, since its start.
    pub struct Counters {
        bytes_acked: Bytes, "payload that the peer acknowledged, and a byte for its FIN as in Linux";
        data_segments_sent: Segments, "segments with payload, retransmissions among them";
        retransmissions: Segments, "segments sent again";
        timeouts: Times ["TcpExtTCPTimeouts"], "retransmission timeouts";
        loss_probes: Times ["TcpExtTCPLossProbes"], "tail loss probes (RFC 8985 section 7)";
        spurious_undos: Times ["TcpExtTCPFullUndo", "TcpExtTCPPartialUndo", "TcpExtTCPDSACKUndo", "TcpExtTCPLossUndo"],
            "reductions of the window taken back, because what was sent again had not been lost";
        dsacks_received: Segments ["TcpExtTCPDSACKRecv"], "duplicates of which the peer told (RFC 2883)";
        fast_recoveries: Times ["TcpExtTCPSackRecovery", "TcpExtTCPRenoRecovery"], "fast recoveries begun";
        mtu_probes_arrived: Segments ["TcpExtTCPMTUPSuccess"], "probes of the path's MTU that arrived";
        mtu_probes_lost: Segments ["TcpExtTCPMTUPFail"], "probes of the path's MTU that were lost";
        mtu_probes_refused: Segments, "probes that MPTCP's options made longer than the route allows, refused by the host itself (EMSGSIZE); among data_segments_sent, as in Linux's data_segs_out";
        mtu_probe_bytes: Bytes, "payload of all probes of the path's MTU";
        mss_changed: Time, "from when the connection was established until its MSS last changed";
        busy: Time, "time with data in the network or waiting";
        rwnd_limited: Time, "of that, limited by the peer's receive window";
        sndbuf_limited: Time, "of that, limited by the send buffer; a subflow of MPTCP has none, and this is the time in which the connection enqueued nothing on it";
        cwnd_limited: Time, "of that, limited by the congestion window";
        app_limited: Time, "time with nothing more to send";
    }
}

counters! {
    /// Segments that an endpoint took no notice of, or not of all they said, and why.
    pub struct Rejections {
        rejected_sequence: Segments, "segments outside the receive window (RFC 9293 section 3.10.7.4)";
        rejected_timestamp: Segments, "segments older than their timestamp allows (PAWS, RFC 7323 section 5.3)";
        rejected_rst: Segments, "RSTs that are not at the next number expected (RFC 5961 section 3.2)";
        rejected_syn: Segments, "SYNs on an established connection (RFC 5961 section 4.2)";
        rejected_ack: Segments, "segments that acknowledge what was never sent, or nothing (RFC 9293 section 3.10.7.4)";
        rejected_handshake: Segments, "segments that are no SYN, or no answer to ours, during the handshake (RFC 9293 sections 3.10.7.2 and 3.10.7.3)";
        rejected_closed: Segments, "segments for a connection that has ended, or payload after the peer's FIN";
        rejected_mptcp: Segments, "MPTCP options with a wrong HMAC, token or key, and joins beyond the limit (RFC 8684 sections 3.2 and 3.5)";
    }
}
