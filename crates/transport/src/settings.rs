//! Settings of an endpoint; the names are those of Linux's sysctls without `net.ipv4.` or
//! `net.mptcp.`.

use crate::stack::{LINUX_6_12_117, Stack};
use polypath_base::{Bytes, Duration, Segments};
use polypath_pmtu::{MtuSearch, Sysctls};

/// The device that a host's packets come by.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// A virtual link to another host: packets stay in the memory in which that one sent them.
    #[default]
    Veth,
    /// A program writes packets into it, as those of scripts do: each is one piece of memory.
    Tun,
}

/// Settings of one host's endpoints.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kernel that is modelled, by default Linux 6.12.
    pub stack: &'static Stack,
    /// `tcp_rmem`: minimum, initial and largest receive buffer, below 2 GiB. By default 4 KiB,
    /// 128 KiB and 6 MiB. A larger one lets longer paths be filled, and lets the sender's queues
    /// grow.
    pub rmem: [Bytes; 3],
    /// What packets come by, which decides how much of the receive buffer they take. By default a
    /// virtual link.
    pub device: Device,
    /// `tcp_wmem`: minimum, initial and largest send buffer, below 2 GiB. By default 4 KiB, 16 KiB
    /// and 4 MiB.
    pub wmem: [Bytes; 3],
    /// `tcp_ecn`: 0 never, 1 asks for it and agrees to it, 2 agrees if asked, which is the default.
    /// A kernel with accurate ECN has 3 (asks for that), 4 (asks for ECN) and 5 (asks for nothing),
    /// and with them agrees to either.
    pub ecn: u8,
    /// `tcp_ecn_option`: 0 sends no AccECN options, 2 does wherever they fit, which is the default,
    /// 3 even where they may not come through. 1, to send fewer, is not modelled.
    pub ecn_option: u8,
    /// `tcp_sack`: selective acknowledgements, if the peer has them too (RFC 2018). By default on.
    pub sack: bool,
    /// `tcp_dsack`: tells of duplicates in the first SACK block (RFC 2883 section 4); needs `sack`.
    /// By default on.
    pub dsack: bool,
    /// `tcp_timestamps`: timestamps, if the peer has them too (RFC 7323 section 3). By default on.
    pub timestamps: bool,
    /// Timestamps count from time zero, not from a value of each connection's own as with
    /// `tcp_timestamps` = 1.
    pub timestamps_from_zero: bool,
    /// `tcp_window_scaling`: if the peer has it too (RFC 7323 section 2). By default on.
    pub window_scaling: bool,
    /// Initial congestion window (RFC 6928), by default 10, at least 1.
    pub initial_cwnd: Segments,
    /// `tcp_slow_start_after_idle`.
    pub slow_start_after_idle: bool,
    /// `tcp_early_retrans`: 0 disables the tail loss probe.
    pub tail_loss_probe: bool,
    /// `tcp_frto`.
    pub frto: bool,
    /// `tcp_reordering`: by how many segments packets may be late before they count as lost, until
    /// more is seen. By default 3, at least 1.
    pub reordering: Segments,
    /// `tcp_max_reordering`: the most that is learned of it, by default 300.
    pub max_reordering: Segments,
    /// How the path's MTU is searched, by default as Linux does.
    pub mtu_search: MtuSearch,
    /// `tcp_mtu_probing`: 0 no search for the path's MTU, 1 once a black hole is suspected, 2 from
    /// the start. By default 0.
    pub mtu_probing: u8,
    /// `tcp_base_mss`: where the search begins, by default 1024, at least 48.
    pub base_mss: Bytes,
    /// Subflows of MPTCP 0.96 (version 0) search for the path's MTU too, if `mtu_probing` says so:
    /// the change to the kernel of Manoratne 2025, section 11. By default they do not; Linux's
    /// always do.
    pub subflow_mtu_probing: bool,
    /// `tcp_min_snd_mss`: a segment holds no less, options included, whatever peer and path allow.
    /// By default and at least 48.
    pub min_snd_mss: Bytes,
    /// `tcp_mtu_probe_floor`: a suspected black hole lowers the search no further, by default 48.
    pub mtu_probe_floor: Bytes,
    /// `tcp_probe_interval`: a search that has ended begins anew after this, by default 600 s;
    /// zero: with the next data.
    pub probe_interval: Duration,
    /// `tcp_probe_threshold`: a range narrower than this is not searched, by default 8.
    pub probe_threshold: Bytes,
    /// `route.mtu_expires`: how long a host keeps what it has learnt of a path's MTU, by default
    /// 600 s.
    pub route_mtu_expires: Duration,
    /// `route.min_pmtu`: a message that tells of less lowers a path's MTU to this, by default 552,
    /// at least 68.
    pub route_min_pmtu: Bytes,
    /// Largest burst that leaves as one piece, by default 64 KiB; zero: segment by segment.
    pub tso_bytes: Bytes,
    /// `tcp_syn_retries`: how often a SYN goes again, by default 6 (or TCP_SYNCNT).
    pub syn_retries: u32,
    /// `tcp_tso_win_divisor`: a burst waits for the next ACK only while less than this share of the
    /// window is free. By default 3, at least 1: with more bursts become smaller.
    pub tso_win_divisor: u32,
    /// `tcp_min_tso_segs`: so many segments leave as one burst, however slow the pace. By default
    /// 2.
    pub min_tso_segs: Segments,
    /// `tcp_notsent_lowat`: a program writes no more while so much waits for its first transmission
    /// (or TCP_NOTSENT_LOWAT). By default without limit.
    pub notsent_lowat: Bytes,
    /// TCP_MAXSEG: a segment of either end holds no more; `None`: as the interface allows.
    pub max_segment: Option<Bytes>,
    /// Lower bound of the delayed-ACK timer, by default 40 ms (Linux: `TCP_DELACK_MIN`).
    pub delack_min: Duration,
    /// Upper bound of it, by default 200 ms (Linux: `TCP_DELACK_MAX`; RFC 1122 section 4.2.3.2
    /// wants less than 500 ms).
    pub delack_max: Duration,
    /// Least variance term: the retransmission timeout is at least srtt + this. By default 200 ms
    /// (Linux: `TCP_RTO_MIN`); RFC 6298 section 2.4 has 1 s for the whole.
    pub rto_min: Duration,
    /// `tcp_rto_max_ms`: upper bound of it, backoff included, by default 120 s (Linux:
    /// `TCP_RTO_MAX`).
    /// RFC 6298 section 2.5 wants at least 60 s.
    pub rto_max: Duration,
    /// Tick of the kernel's timers (HZ=250: 4 ms); timers fire at its multiples. Zero: exactly when
    /// due.
    pub tick: Duration,
    /// The receiving application of a plain TCP connection reads once this much waits
    /// (SO_RCVLOWAT), by default and at least a byte.
    pub receive_low_water: Bytes,
    /// The receiving application of an MPTCP connection reads at multiples of this since it was
    /// established; zero: at once.
    pub read_period: Duration,
    /// DSS checksum.
    pub checksum: bool,
    /// An announced address that the peer has not echoed is announced again after this
    /// (`net.mptcp.add_addr_timeout`), three times at most; zero: never.
    pub add_addr_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stack: &LINUX_6_12_117,
            rmem: [4096, 131_072, 6_291_456].map(Bytes::new),
            device: Device::Veth,
            wmem: [4096, 16_384, 4_194_304].map(Bytes::new),
            ecn: 2,
            ecn_option: 2,
            sack: true,
            dsack: true,
            timestamps: true,
            timestamps_from_zero: false,
            window_scaling: true,
            initial_cwnd: Segments::new(10),
            slow_start_after_idle: true,
            tail_loss_probe: true,
            frto: true,
            reordering: Segments::new(3),
            max_reordering: Segments::new(300),
            mtu_search: MtuSearch::Linux,
            mtu_probing: 0,
            base_mss: Bytes::new(1024),
            subflow_mtu_probing: false,
            min_snd_mss: Bytes::new(48),
            mtu_probe_floor: Bytes::new(48),
            probe_interval: Duration::from_secs(600),
            probe_threshold: Bytes::new(8),
            route_mtu_expires: Duration::from_secs(600),
            route_min_pmtu: Bytes::new(552),
            tso_bytes: Bytes::new(65_536),
            syn_retries: 6,
            tso_win_divisor: 3,
            min_tso_segs: Segments::new(2),
            notsent_lowat: Bytes::from_u32(u32::MAX),
            max_segment: None,
            delack_min: Duration::from_millis(40),
            delack_max: Duration::from_millis(200),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            tick: Duration::from_millis(4),
            receive_low_water: Bytes::new(1),
            read_period: Duration::ZERO,
            checksum: false,
            add_addr_timeout: Duration::from_secs(120),
        }
    }
}

impl Settings {
    /// A host's with this kernel, before its sysctls.
    pub fn of(stack: &'static Stack) -> Self {
        Self { stack, ..Self::default() }
    }

    /// What searches for the path's MTU are told.
    pub(crate) fn mtu_sysctls(&self) -> Sysctls {
        Sysctls {
            mtu_probing: self.mtu_probing,
            probe_threshold: self.probe_threshold,
            probe_interval: self.probe_interval,
            probe_floor: self.mtu_probe_floor,
        }
    }
}
