//! The fields of TCP_INFO that scripts ask for, by Linux's names.

/// Fields that both engines know.
pub const FIELDS: [&str; 16] = [
    "tcpi_state",
    "tcpi_ca_state",
    "tcpi_backoff",
    "tcpi_rto",
    "tcpi_snd_mss",
    "tcpi_unacked",
    "tcpi_pmtu",
    "tcpi_rtt",
    "tcpi_rttvar",
    "tcpi_snd_ssthresh",
    "tcpi_snd_cwnd",
    "tcpi_reordering",
    "tcpi_total_retrans",
    "tcpi_min_rtt",
    "tcpi_delivered",
    "tcpi_delivered_ce",
];

/// States by their names in Linux (include/net/tcp_states.h and tcp.h), as their numbers.
pub fn constant(name: &str) -> Option<u64> {
    const STATES: [&str; 11] = [
        "TCP_ESTABLISHED",
        "TCP_SYN_SENT",
        "TCP_SYN_RECV",
        "TCP_FIN_WAIT1",
        "TCP_FIN_WAIT2",
        "TCP_TIME_WAIT",
        "TCP_CLOSE",
        "TCP_CLOSE_WAIT",
        "TCP_LAST_ACK",
        "TCP_LISTEN",
        "TCP_CLOSING",
    ];
    const CONGESTION: [&str; 5] = ["TCP_CA_Open", "TCP_CA_Disorder", "TCP_CA_CWR", "TCP_CA_Recovery", "TCP_CA_Loss"];
    let number = |list: &[&str], first: u64| list.iter().position(|state| *state == name).map(|at| at as u64 + first);
    number(&CONGESTION, 0).or_else(|| number(&STATES, 1))
}
