//! Settings of an endpoint; the names are those of Linux's sysctls without `net.ipv4.` or `net.mptcp.`.

use crate::stack::{LINUX_6_12_117, Stack};
use polypath_base::Duration;

/// Settings of one host's endpoints.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kernel that is modelled, by default Linux 6.12.
    pub stack: &'static Stack,
    /// `tcp_rmem`: minimum, initial and largest receive buffer, bytes.
    pub rmem: [u32; 3],
    /// `tcp_wmem`: minimum, initial and largest send buffer, bytes.
    pub wmem: [u32; 3],
    /// `tcp_ecn`: 0 never, 1 asks for it and agrees to it, 2 agrees if asked.
    pub ecn: u8,
    pub sack: bool,
    pub dsack: bool,
    pub timestamps: bool,
    /// Timestamps count from time zero, not from a value of each connection's own as with `tcp_timestamps` = 1.
    pub timestamps_from_zero: bool,
    pub window_scaling: bool,
    /// Initial congestion window, segments (RFC 6928).
    pub initial_cwnd: u32,
    /// `tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `tcp_early_retrans`: 0 disables the tail loss probe.
    pub tail_loss_probe: bool,
    /// `tcp_frto`.
    pub frto: bool,
    /// `tcp_reordering`, segments.
    pub reordering: u32,
    /// `tcp_max_reordering`, segments.
    pub max_reordering: u32,
    /// `tcp_mtu_probing`: 0 no search for the path's MTU, 1 once a black hole is suspected, 2 from the start.
    pub mtu_probing: u8,
    /// `tcp_base_mss`: where the search begins, bytes.
    pub base_mss: u32,
    /// Largest burst that leaves as one piece, bytes; 0: segment by segment.
    pub tso_bytes: u32,
    /// Delayed-ACK timer bounds.
    pub delack_min: Duration,
    pub delack_max: Duration,
    pub rto_min: Duration,
    pub rto_max: Duration,
    /// Tick of the kernel's timers (HZ=250: 4 ms); timers fire at its multiples. Zero: exactly when due.
    pub tick: Duration,
    /// The receiving application of a plain TCP connection reads once this many bytes wait (SO_RCVLOWAT).
    pub receive_low_water: u32,
    /// The receiving application of an MPTCP connection reads at multiples of this since it was established; zero: at once.
    pub read_period: Duration,
    /// DSS checksum.
    pub checksum: bool,
    /// An announced address that the peer has not echoed is announced again after this (`net.mptcp.add_addr_timeout`), three times at most;
    /// zero: never.
    pub add_addr_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stack: &LINUX_6_12_117,
            rmem: [4096, 131_072, 6_291_456],
            wmem: [4096, 16_384, 4_194_304],
            ecn: 2,
            sack: true,
            dsack: true,
            timestamps: true,
            timestamps_from_zero: false,
            window_scaling: true,
            initial_cwnd: 10,
            slow_start_after_idle: true,
            tail_loss_probe: true,
            frto: true,
            reordering: 3,
            max_reordering: 300,
            mtu_probing: 0,
            base_mss: 1024,
            tso_bytes: 65_536,
            delack_min: Duration::from_millis(40),
            delack_max: Duration::from_millis(200),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            tick: Duration::from_millis(4),
            receive_low_water: 1,
            read_period: Duration::ZERO,
            checksum: false,
            add_addr_timeout: Duration::from_secs(120),
        }
    }
}
