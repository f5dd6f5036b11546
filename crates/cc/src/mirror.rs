//! The structures of cc/include/pp_cc.h as Rust sees them; that file documents every field.
//!
//! build.rs includes this module too and has the C compiler assert size, place and width of every field. What an algorithm may write is a
//! plain integer here; `bool` and [`CaState`] stand only where the C side reads.

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
    #[default]
    Open = 0,
    Disorder = 1,
    Cwr = 2,
    Recovery = 3,
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
    EcnNoCe = 4,
    EcnIsCe = 5,
}

/// Declares the bits of [`Flow::compat`].
macro_rules! compat {
    ($($(#[doc = $meaning:literal])+ $name:ident = $bit:literal;)+) => {
        /// Bits of [`Flow::compat`]: what an algorithm computes otherwise than the paper and Linux 6.12, one property each.
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
    pub const SLOWPATH: u32 = 1;
    pub const WIN_UPDATE: u32 = 2;
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
    /// One flow or subflow. A transport keeps this as the master copy of its window, so that a hook copies nothing.
    #[derive(Clone, Debug)]
    pub struct Flow as "pp_flow" in FLOW {
        pub now_ns: u64,
        pub pacing_rate: u64,
        pub max_pacing_rate: u64,
        pub delivered_ns: u64,
        pub last_sent_ns: u64,
        pub bytes_acked: u64,
        pub next_send_ns: u64,
        pub cwnd: u32,
        pub cwnd_cnt: u32,
        pub cwnd_clamp: u32,
        pub ssthresh: u32,
        pub prior_cwnd: u32,
        pub mss: u32,
        pub srtt_us: u32,
        pub mdev_us: u32,
        pub min_rtt_us: u32,
        pub in_flight: u32,
        pub packets_out: u32,
        pub max_packets_out: u32,
        pub delivered: u32,
        pub delivered_ce: u32,
        pub lost: u32,
        pub snd_una: u32,
        pub snd_nxt: u32,
        pub write_seq: u32,
        pub app_limited: u32,
        pub reordering: u32,
        pub ts_peer: u32,
        pub ts_echo: u32,
        pub ca_state: CaState,
        pub cwnd_limited: bool,
        pub ecn_ok: bool,
        pub established: bool,
        pub pacing: u8,
        pub tso_segs_goal: u8,
        pub reduce: u8,
        pub reserved: u8,
        pub random: u32,
        pub compat: u32,
    }
}

mirror! {
    /// What one ACK delivered.
    #[derive(Clone, Debug, Default)]
    pub struct Sample as "pp_sample" in SAMPLE {
        pub prior_ns: u64,
        pub interval_us: i64,
        pub rtt_us: i64,
        pub prior_delivered: u32,
        pub delivered: i32,
        pub losses: i32,
        pub acked_sacked: u32,
        pub pkts_acked: u32,
        pub prior_in_flight: u32,
        pub last_end_seq: u32,
        pub is_app_limited: bool,
        pub is_retrans: bool,
        pub is_ack_delayed: bool,
        pub is_ece: bool,
    }
}

mirror! {
    /// What a coupled algorithm sees of one subflow of its connection.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
    pub struct Sibling as "pp_sibling" in SIBLING {
        pub bytes_since_loss: u64,
        pub bytes_between_losses: u64,
        pub priv_word: u64,
        pub cwnd: u32,
        pub ssthresh: u32,
        pub srtt_us: u32,
        pub mss: u32,
        pub ca_state: CaState,
        pub in_recovery: bool,
        pub usable: bool,
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
    /// A flow before its first RTT sample: nothing sent, no loss seen, no bound on window or pacing.
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

    #[inline]
    pub fn as_slice(&self) -> &[Sibling] {
        &self.at[..self.len as usize]
    }

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
