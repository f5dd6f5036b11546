//! The fields of TCP_INFO.

use polypath_base::Duration;
use polypath_transport::Connection;
use polypath_transport::tcp::State;

/// A field of TCP_INFO.
pub(super) fn info_of(end: &Connection, field: &str) -> Option<u64> {
    let probe = end.subflow(0);
    if let Connection::Mptcp(connection) = end
        && connection.is_gone(0)
        && let Some(value) = of_disconnected(field)
    {
        return Some(value);
    }
    let socket = if let Connection::Tcp(socket) = end { Some(socket) } else { None };
    Some(match field {
        "tcpi_state" => state_number(socket?.called_state()),
        "tcpi_ca_state" => probe.ca_state as u64,
        "tcpi_backoff" => u64::from(socket?.sender().backoff()),
        "tcpi_rto" => probe.rto.as_micros(),
        "tcpi_snd_mss" => probe.mss.get(),
        "tcpi_retransmits" => u64::from(socket?.sender().consecutive_timeouts()),
        "tcpi_probes" => u64::from(socket?.sender().unanswered_probes()),
        "tcpi_sacked" => u64::from(socket?.sender().sacked_out().get()),
        "tcpi_lost" => u64::from(socket?.sender().lost_out().get()),
        "tcpi_retrans" => u64::from(socket?.sender().retrans_out().get()),
        "tcpi_advmss" => socket?.advmss().get(),
        "tcpi_rcv_mss" => socket?.received_segment_size().get(),
        "tcpi_notsent_bytes" => socket?.sender().unsent().get(),
        "tcpi_snd_wnd" => socket?.sender().peer_window().get(),
        "tcpi_bytes_acked" => probe.counters.bytes_acked,
        "tcpi_bytes_received" => probe.bytes_received.get(),
        "tcpi_data_segs_out" => probe.counters.data_segments_sent,
        "tcpi_dsack_dups" => probe.counters.dsacks_received,
        "tcpi_unacked" if socket?.state() == State::Closed => 0,
        "tcpi_unacked" => u64::from(socket?.sender().packets_out().get()),
        "tcpi_pmtu" => probe.pmtu.get(),
        "tcpi_rtt" => probe.srtt.as_micros(),
        // Before a first measurement Linux has a deviation of one second, four times it.
        "tcpi_rttvar" if probe.srtt == Duration::ZERO => 250_000,
        "tcpi_rttvar" => probe.rttvar.as_micros(),
        "tcpi_snd_ssthresh" => u64::from(probe.ssthresh.get()),
        "tcpi_snd_cwnd" => u64::from(probe.cwnd.get()),
        "tcpi_reordering" => u64::from(probe.reordering.get()),
        "tcpi_total_retrans" => probe.counters.retransmissions,
        "tcpi_min_rtt" => probe.min_rtt.as_micros(),
        "tcpi_delivered" => u64::from(probe.delivered.get()),
        "tcpi_delivered_ce" => u64::from(socket?.sender().delivered_ce().get()),
        _ => return None,
    })
}

/// What Linux begins anew on a first subflow that is gone (`tcp_disconnect`).
fn of_disconnected(field: &str) -> Option<u64> {
    Some(match field {
        "tcpi_ca_state" | "tcpi_delivered" | "tcpi_rtt" | "tcpi_total_retrans" => 0,
        "tcpi_bytes_acked" | "tcpi_bytes_received" | "tcpi_data_segs_out" | "tcpi_dsack_dups" => 0,
        "tcpi_rto" => 1_000_000,
        "tcpi_rttvar" => 250_000,
        "tcpi_snd_cwnd" => 10,
        "tcpi_snd_ssthresh" => i32::MAX as u64,
        _ => return None,
    })
}

/// As Linux numbers them (include/net/tcp_states.h).
fn state_number(state: State) -> u64 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Listen => 10,
        State::Closing => 11,
    }
}
