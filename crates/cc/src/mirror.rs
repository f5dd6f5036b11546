//! The structures of cc/include/pp_cc.h as Rust sees them; that file documents every field.
//!
//! build.rs includes this module too and has the C compiler assert size, place and width of every
//! field. What an algorithm may write is a plain integer here; `bool` and [`CaState`] stand only
//! where the C side reads.

use std::ffi::{c_char, c_void};
use std::fmt;

/// Subflows a coupled algorithm sees, its own included.
pub const MAX_SIBLINGS: usize = 32;
/// Private state of an algorithm, in words.
pub(crate) const PRIV_WORDS: usize = 13;
/// Bytes of it that an algorithm may use.
pub(crate) const STATE_BYTES: usize = 88;
/// The slow-start threshold of a flow that has not lost anything yet, segments.
pub const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

/// Congestion state of a sender; values as in Linux's `tcp_ca_state`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CaState {
    /// No loss, SACK, duplicate ACK or mark of late (Linux: `TCP_CA_Open`).
    #[default]
    Open = 0,
    /// SACKs or duplicate ACKs came, too few to prove a loss (Linux: `TCP_CA_Disorder`).
    Disorder = 1,
    /// The window is being reduced for an ECN mark (RFC 3168 section 6.1.2), or as the algorithm
    /// asked (Linux: `TCP_CA_CWR`).
    Cwr = 2,
    /// Fast recovery (RFC 5681 section 3.2, RFC 6675 section 5; Linux: `TCP_CA_Recovery`).
    Recovery = 3,
    /// A retransmission timeout came; until what was in the network then is acknowledged (Linux:
    /// `TCP_CA_Loss`).
    Loss = 4,
}

/// What `cwnd_event` tells; values as in Linux's `tcp_ca_event`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Event {
    /// First transmission with nothing in flight.
    TxStart = 0,
    /// The window was reduced after idle.
    CwndRestart = 1,
    /// End of a window reduction.
    CompleteCwr = 2,
    /// Retransmission timeout.
    Loss = 3,
    /// A packet came with ECT and without CE; only algorithms with `flags::NEEDS_ECN` are told
    /// (Linux: `CA_EVENT_ECN_NO_CE`).
    EcnNoCe = 4,
    /// A packet came with CE; only algorithms with `flags::NEEDS_ECN` are told (Linux:
    /// `CA_EVENT_ECN_IS_CE`).
    EcnIsCe = 5,
}

/// Declares the bits of [`Flow::compat`].
macro_rules! compat {
    ($($(#[doc = $meaning:literal])+ $name:ident = $bit:literal;)+) => {
        /// Bits of [`Flow::compat`]: what an algorithm computes otherwise than the paper and Linux
        /// 6.12, one property each.
        pub mod compat {
            $($(#[doc = $meaning])+ pub const $name: u32 = $bit;)+

            /// Name and bit of each.
            pub const ALL: &[(&str, u32)] = &[$((stringify!($name), $name)),+];
        }
    };
}

compat! {
    /// HyStart's clock has whole milliseconds, and its RTTs have eighths of one.
    HYSTART_MS = 1;
    /// A train of ACKs may last half the least RTT, without an allowance for bursts or pacing.
    HYSTART_HALF_RTT = 2;
    /// HyStart's first round begins once the window has 16 segments.
    HYSTART_LATE_ROUNDS = 4;
    /// To coupled algorithms an ACK is one segment, however much it acknowledges.
    ACK_COUNTS_ONCE = 8;
    /// LIA's alpha is a whole number of 1/4096, found by whole numbers.
    LIA_COARSE = 16;
    /// What an ACK adds to OLIA's credit is a whole number of 2^-10 segments.
    OLIA_COARSE = 32;
    /// A reduction leaves OLIA's credit as it is.
    OLIA_KEEPS_CREDIT = 64;
    /// Balia's cut on loss takes the whole part of alpha.
    BALIA_WHOLE_ALPHA = 128;
    /// Balia's cut may leave a single segment.
    BALIA_ONE_SEGMENT = 256;
}

/// Flags of `in_ack_event` and `cong_control`.
pub mod ack_flags {
    /// The ACK brought SACK blocks, ECE or another window (Linux: `CA_ACK_SLOWPATH`).
    pub const SLOWPATH: u32 = 1;
    /// The ACK changed the peer's window (Linux: `CA_ACK_WIN_UPDATE`).
    pub const WIN_UPDATE: u32 = 2;
    /// The ACK carries ECE (Linux: `CA_ACK_ECE`).
    pub const ECE: u32 = 4;
}

type Field = (&'static str, usize, usize);

/// Defines a mirror and records where each of its fields lies.
macro_rules! mirror {
    ($(#[$meta:meta])* $vis:vis struct $name:ident as $c:literal in $layout:ident { $($(#[$fmeta:meta])* $fvis:vis $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        $vis struct $name { $($(#[$fmeta])* $fvis $field: $ty,)* }

        const $layout: (&str, usize, &[Field]) =
            ($c, size_of::<$name>(), &[$((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$ty>()),)*]);
    };
}

mirror! {
    /// One flow or subflow. A transport keeps this as the master copy of its window, so that a hook
    /// copies nothing.
    #[derive(Clone, Debug)]
    pub struct Flow as "pp_flow" in FLOW {
        /// Time of the call, ns (Linux: `tcp_mstamp`, in microseconds there).
        pub now_ns: u64,
        /// Bytes per second (Linux: `sk_pacing_rate`). An algorithm with `flags::PACES` writes it,
        /// otherwise the transport does.
        pub pacing_rate: u64,
        /// Upper bound of `pacing_rate`, bytes per second; `u64::MAX`: none (Linux:
        /// `sk_max_pacing_rate`).
        pub max_pacing_rate: u64,
        /// When a segment was last acknowledged or sacked for the first time, ns (Linux:
        /// `delivered_mstamp`).
        pub delivered_ns: u64,
        /// When data was last sent, before the segment that leaves now, ns (Linux: `lsndtime`).
        pub last_sent_ns: u64,
        /// Payload acknowledged since the connection began, bytes (Linux: `bytes_acked`).
        pub bytes_acked: u64,
        /// When pacing lets the next segment leave, ns; in the past: at once (Linux:
        /// `tcp_wstamp_ns`).
        pub next_send_ns: u64,
        /// Congestion window, segments; algorithms write it (Linux: `snd_cwnd`).
        pub cwnd: u32,
        /// Segments acknowledged toward the next increase of `cwnd`; algorithms write it (Linux:
        /// `snd_cwnd_cnt`).
        pub cwnd_cnt: u32,
        /// Upper bound of `cwnd`, segments (Linux: `snd_cwnd_clamp`).
        pub cwnd_clamp: u32,
        /// Slow-start threshold, segments; algorithms write it. [`SSTHRESH_INFINITE`] at first
        /// (Linux: `snd_ssthresh`).
        pub ssthresh: u32,
        /// `cwnd` before the reduction in progress, segments (Linux: `prior_cwnd`).
        pub prior_cwnd: u32,
        /// Payload of a full segment, bytes (Linux: `mss_cache`).
        pub mss: u32,
        /// Smoothed RTT, microseconds << 3; 0 before the first sample (Linux: `srtt_us`;
        /// RFC 6298 section 2).
        pub srtt_us: u32,
        /// Mean deviation of the RTT, microseconds << 2 (Linux: `mdev_us`).
        pub mdev_us: u32,
        /// Windowed minimum of the RTT, microseconds; `u32::MAX` before the first sample (Linux:
        /// `tcp_min_rtt`).
        pub min_rtt_us: u32,
        /// Segments in the network: the pipe of RFC 6675 section 4 (Linux:
        /// `tcp_packets_in_flight`).
        pub in_flight: u32,
        /// Segments sent and not cumulatively acknowledged (Linux: `packets_out`).
        pub packets_out: u32,
        /// Most `packets_out` of the last window, segments (Linux: `max_packets_out`).
        pub max_packets_out: u32,
        /// Segments delivered since the connection began, the SYN among them; wraps (Linux:
        /// `delivered`).
        pub delivered: u32,
        /// Segments delivered by ACKs with ECE; wraps (Linux: `delivered_ce`).
        pub delivered_ce: u32,
        /// Segments marked lost since the connection began; wraps (Linux: `lost`).
        pub lost: u32,
        /// First unacknowledged sequence number, bytes; wraps (RFC 9293 section 3.3.1).
        pub snd_una: u32,
        /// Next sequence number to send, bytes; wraps (RFC 9293 section 3.3.1).
        pub snd_nxt: u32,
        /// End of the data accepted for sending, as a sequence number; wraps (Linux: `write_seq`).
        pub write_seq: u32,
        /// `delivered + in_flight` when the application last had nothing to send; 0: not limited.
        /// Algorithms may write it.
        pub app_limited: u32,
        /// By how many segments packets may be late before they count as lost (Linux:
        /// `reordering`).
        pub reordering: u32,
        /// TSval of the peer's last ACK, ticks of its clock; 0: none yet (RFC 7323 section 3;
        /// Linux: `rcv_tsval`).
        pub ts_peer: u32,
        /// TSecr of the peer's last ACK, ms of `now_ns`; wraps (RFC 7323 section 3; Linux:
        /// `rcv_tsecr`).
        pub ts_echo: u32,
        /// In [`CaState`]; the hook `set_state` still sees the old one (Linux: `icsk_ca_state`).
        pub ca_state: CaState,
        /// `cwnd`, not the application, limited the last window of sending (Linux:
        /// `is_cwnd_limited`).
        pub cwnd_limited: bool,
        /// Both ends agreed to ECN in the handshake (RFC 3168 section 6.1.1; Linux: `TCP_ECN_OK`).
        pub ecn_ok: bool,
        /// The three-way handshake is complete.
        pub established: bool,
        /// 1: the algorithm asks for pacing, which only an algorithm writes (Linux:
        /// `sk_pacing_status`).
        pub pacing: u8,
        /// Segments that the algorithm wants in one burst, which only an algorithm writes; 0: the
        /// transport's rule.
        pub tso_segs_goal: u8,
        /// 1, set in `cong_avoid` by an algorithm with `flags::REDUCES`: the transport enters
        /// [`CaState::Cwr`] and asks `ssthresh`.
        pub reduce: u8,
        /// Padding, 0.
        pub reserved: u8,
        /// A fresh pseudo-random number at each call, if the algorithm has `flags::DRAWS`.
        pub random: u32,
        /// Bits of [`mod@compat`]; 0: as the paper and Linux 6.12 have it.
        pub compat: u32,
    }
}

mirror! {
    /// What one ACK delivered.
    #[derive(Clone, Debug, Default)]
    pub struct Sample as "pp_sample" in SAMPLE {
        /// Start of the delivery interval, ns (Linux: `rate_sample.prior_mstamp`, in microseconds
        /// there).
        pub prior_ns: u64,
        /// Length of the delivery interval, microseconds; negative: no valid sample (Linux:
        /// `interval_us`).
        pub interval_us: i64,
        /// RTT of the last segment that this ACK covers, microseconds; negative: none (Linux:
        /// `ack_sample.rtt_us`).
        pub rtt_us: i64,
        /// [`Flow::delivered`] when the most recently sent of the segments delivered was sent
        /// (Linux: `prior_delivered`).
        pub prior_delivered: u32,
        /// Segments delivered over the interval; negative: no valid sample (Linux:
        /// `rate_sample.delivered`).
        pub delivered: i32,
        /// Segments that this ACK marked lost (Linux: `losses`).
        pub losses: i32,
        /// Segments that this ACK acknowledged or sacked for the first time (Linux:
        /// `acked_sacked`).
        pub acked_sacked: u32,
        /// Segments that this ACK acknowledged cumulatively, sacked before or not, for the hook
        /// `pkts_acked` alone (Linux: `ack_sample.pkts_acked`, which its `tcp_clean_rtx_queue`
        /// counts).
        pub pkts_acked: u32,
        /// [`Flow::in_flight`] before this ACK, segments (Linux: `prior_in_flight`).
        pub prior_in_flight: u32,
        /// End of the most recently sent of the segments delivered, as a sequence number (Linux:
        /// `last_end_seq`).
        pub last_end_seq: u32,
        /// That segment was sent while [`Flow::app_limited`] was set (Linux: `is_app_limited`).
        pub is_app_limited: bool,
        /// That segment had been retransmitted (Linux: `is_retrans`).
        pub is_retrans: bool,
        /// The ACK covers a single short segment, so the receiver may have delayed it (Linux:
        /// `is_ack_delayed`).
        pub is_ack_delayed: bool,
        /// The ACK carries ECE (RFC 3168 section 6.1.3).
        pub is_ece: bool,
    }
}

mirror! {
    /// What a coupled algorithm sees of one subflow of its connection.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
    pub struct Sibling as "pp_sibling" in SIBLING {
        /// Bytes acknowledged since its last loss, or since it began: OLIA's `l_2`.
        pub bytes_since_loss: u64,
        /// Bytes acknowledged between its last two losses: OLIA's `l_1`; 0 before the first loss.
        pub bytes_between_losses: u64,
        /// [`Controller::private_word`](crate::Controller::private_word): the first 8 bytes of its
        /// algorithm's state.
        pub priv_word: u64,
        /// [`Flow::cwnd`], segments.
        pub cwnd: u32,
        /// [`Flow::ssthresh`], segments.
        pub ssthresh: u32,
        /// [`Flow::srtt_us`], microseconds << 3.
        pub srtt_us: u32,
        /// [`Flow::mss`], bytes.
        pub mss: u32,
        /// [`Flow::ca_state`].
        pub ca_state: CaState,
        /// `ca_state` is Recovery or Loss.
        pub in_recovery: bool,
        /// It is established, can send and has an RTT sample; algorithms leave the others out of
        /// their sums.
        pub usable: bool,
        /// Padding, 0.
        pub reserved: [u8; 5],
    }
}

mirror! {
    /// The subflows of a connection, at most [`MAX_SIBLINGS`] of them.
    #[derive(Clone, Debug, Default)]
    pub struct Siblings as "pp_siblings" in SIBLINGS {
        len: u32,
        self_: u32,
        at: [Sibling; MAX_SIBLINGS],
    }
}

mirror! {
    pub(crate) struct Ctx as "pp_ctx" in CTX {
        pub(crate) flow: *mut Flow,
        pub(crate) priv_: *mut c_void,
        pub(crate) siblings: *const Siblings,
    }
}

pub(crate) type Hook<T = ()> = Option<unsafe extern "C" fn(*mut Ctx) -> T>;
pub(crate) type HookWord = Option<unsafe extern "C" fn(*mut Ctx, u32)>;
pub(crate) type HookAcked = Option<unsafe extern "C" fn(*mut Ctx, u32, u32)>;
pub(crate) type HookSample = Option<unsafe extern "C" fn(*mut Ctx, *const Sample)>;
pub(crate) type HookControl = Option<unsafe extern "C" fn(*mut Ctx, u32, u32, *const Sample)>;

mirror! {
    #[derive(Copy, Clone)]
    pub(crate) struct Ops as "pp_cc_ops" in OPS {
        pub(crate) name: [c_char; 16],
        pub(crate) flags: u32,
        pub(crate) priv_bytes: u32,
        pub(crate) init: Hook,
        pub(crate) release: Hook,
        pub(crate) ssthresh: Hook<u32>,
        pub(crate) cong_avoid: HookAcked,
        pub(crate) set_state: HookWord,
        pub(crate) cwnd_event: HookWord,
        pub(crate) in_ack_event: HookWord,
        pub(crate) pkts_acked: HookSample,
        pub(crate) undo_cwnd: Hook<u32>,
        pub(crate) cong_control: HookControl,
        pub(crate) sndbuf_expand: Hook<u32>,
        pub(crate) min_tso_segs: Hook<u32>,
    }
}

mirror! {
    #[derive(Debug)]
    pub(crate) struct About as "pp_cc_about" in ABOUT {
        pub(crate) family: u32,
        pub(crate) source: [c_char; 100],
        pub(crate) counterpart: [c_char; 16],
        pub(crate) aliases: [c_char; 48],
    }
}

/// C name, size and fields (name, offset, size) of every mirror.
pub(crate) const LAYOUTS: &[(&str, usize, &[Field])] = &[FLOW, SAMPLE, SIBLING, SIBLINGS, CTX, OPS, ABOUT];
/// Those of them that hold pointers.
pub(crate) const WITH_POINTERS: &[&str] = &[CTX.0, OPS.0];

impl Flow {
    /// A flow before its first RTT sample: nothing sent, no loss seen, no bound on window or
    /// pacing.
    pub const fn new(cwnd: u32, mss: u32) -> Self {
        Self {
            now_ns: 0,
            pacing_rate: 0,
            max_pacing_rate: u64::MAX,
            delivered_ns: 0,
            last_sent_ns: 0,
            bytes_acked: 0,
            next_send_ns: 0,
            cwnd,
            cwnd_cnt: 0,
            cwnd_clamp: u32::MAX,
            ssthresh: SSTHRESH_INFINITE,
            prior_cwnd: 0,
            mss,
            srtt_us: 0,
            mdev_us: 0,
            min_rtt_us: u32::MAX,
            in_flight: 0,
            packets_out: 0,
            max_packets_out: 0,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            snd_una: 0,
            snd_nxt: 0,
            write_seq: 0,
            app_limited: 0,
            reordering: 3,
            ts_peer: 0,
            ts_echo: 0,
            ca_state: CaState::Open,
            cwnd_limited: false,
            ecn_ok: false,
            established: false,
            pacing: 0,
            tso_segs_goal: 0,
            reduce: 0,
            reserved: 0,
            random: 0,
            compat: 0,
        }
    }

    /// `cwnd` is below `ssthresh` (RFC 5681 section 3.1; Linux: `tcp_in_slow_start`).
    #[inline]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

impl Siblings {
    /// Forgets all subflows; the capacity is part of the value.
    #[inline]
    pub const fn clear(&mut self) {
        self.len = 0;
        self.self_ = 0;
    }

    /// Adds a subflow and says at which index; `None` once [`MAX_SIBLINGS`] are in.
    #[inline]
    pub const fn push(&mut self, sibling: Sibling) -> Option<usize> {
        let index = self.len as usize;
        if index == MAX_SIBLINGS {
            return None;
        }
        self.at[index] = sibling;
        self.len += 1;
        Some(index)
    }

    /// Names the subflow for which the next hook is called.
    #[inline]
    pub const fn set_own(&mut self, index: usize) {
        debug_assert!(index < self.len as usize, "a subflow is among its own siblings");
        self.self_ = index as u32;
    }

    /// Index of the subflow for which hooks are called.
    #[inline]
    pub const fn own(&self) -> usize {
        self.self_ as usize
    }

    /// Every subflow, the own one among them, in the order of [`Siblings::push`].
    #[inline]
    pub fn as_slice(&self) -> &[Sibling] {
        &self.at[..self.len as usize]
    }

    /// As [`Siblings::as_slice`], to renew an entry where it stands.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Sibling] {
        &mut self.at[..self.len as usize]
    }
}

impl fmt::Debug for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ops").field("flags", &self.flags).field("priv_bytes", &self.priv_bytes).finish_non_exhaustive()
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").finish_non_exhaustive()
    }
}
