//! Active queue management: which kinds there are, and their parameters.

use polypath_base::{Bytes, Duration};
use serde::Deserialize;

/// What keeps the queue of a transmitter short.
#[derive(Copy, Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AqmConfig {
    /// Floyd and Jacobson 1993, on bytes.
    Red(RedConfig),
    /// RFC 8289.
    Codel(CodelConfig),
    /// RFC 8290.
    FqCodel(FqCodelConfig),
    /// RFC 8033.
    Pie(PieConfig),
    /// RFC 9332.
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2Config),
}

/// Parameters of [`Red`](crate::Red). The average is of bytes, as in Linux.
#[derive(Copy, Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedConfig {
    /// At a smaller average nothing is dropped.
    #[serde(rename = "min_bytes")]
    pub min: Bytes,
    /// At a larger average everything is dropped.
    #[serde(rename = "max_bytes")]
    pub max: Bytes,
    /// Probability at `max`.
    pub probability: f64,
    /// The average moves by 1 / 2^`weight_log` of what it is off with each packet: larger ones see
    /// bursts later.
    pub weight_log: u32,
    /// Packets of this length are thought to pass in idle time one after the other.
    #[serde(rename = "mean_packet_bytes")]
    pub mean_packet: Bytes,
    /// Mark ECN-capable packets (ECT) instead of dropping them.
    pub ecn: bool,
}

impl Default for RedConfig {
    /// Linux's `tc-red(8)` suggestions for a queue of some 50 full packets.
    fn default() -> Self {
        Self {
            min: Bytes::new(15_000),
            max: Bytes::new(45_000),
            probability: 0.02,
            weight_log: 9,
            mean_packet: Bytes::new(1000),
            ecn: false,
        }
    }
}

/// Parameters of CoDel, with the names of RFC 8289.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodelConfig {
    /// A standing delay as long as this is accepted.
    #[serde(rename = "target_ns")]
    pub target: Duration,
    /// The delay stands once it has been above the target for so long: about the worst round-trip
    /// time.
    #[serde(rename = "interval_ns")]
    pub interval: Duration,
    /// Mark ECN-capable packets (ECT) instead of dropping them.
    pub ecn: bool,
}

impl CodelConfig {
    /// What RFC 8289 recommends (section 4.2 and 4.3).
    pub const DEFAULT: Self = Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false };
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Parameters of [`FqCodel`](crate::FqCodel): CoDel's own for each queue, and how many queues there
/// are.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FqCodelConfig {
    /// As in [`CodelConfig`].
    #[serde(rename = "target_ns")]
    pub target: Duration,
    /// As in [`CodelConfig`].
    #[serde(rename = "interval_ns")]
    pub interval: Duration,
    /// Flows are told apart by so many queues; 1: plain CoDel.
    pub flows: u32,
    /// What a flow may send before it is the next one's turn; below 2^31 bytes.
    #[serde(rename = "quantum_bytes")]
    pub quantum: Bytes,
    /// Mark ECN-capable packets (ECT) instead of dropping them.
    pub ecn: bool,
}

impl Default for FqCodelConfig {
    /// Linux's: 1024 flows, a quantum of a full Ethernet frame.
    fn default() -> Self {
        let CodelConfig { target, interval, ecn } = CodelConfig::DEFAULT;
        Self { target, interval, flows: 1024, quantum: Bytes::new(1514), ecn }
    }
}

impl FqCodelConfig {
    /// CoDel: one queue, whose turn it always is.
    pub fn one_flow(codel: CodelConfig) -> Self {
        let CodelConfig { target, interval, ecn } = codel;
        Self { target, interval, flows: 1, quantum: Bytes::from_u32(u32::MAX >> 1), ecn }
    }

    pub(crate) fn codel(&self) -> CodelConfig {
        CodelConfig { target: self.target, interval: self.interval, ecn: self.ecn }
    }
}

/// Parameters of [`Pie`](crate::Pie), with the names of RFC 8033.
#[derive(Copy, Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieConfig {
    /// The queueing delay that is aimed at (QDELAY_REF).
    #[serde(rename = "target_ns")]
    pub target: Duration,
    /// Between two updates of the probability (T_UPDATE).
    #[serde(rename = "update_ns")]
    pub update: Duration,
    /// Weight of how far the delay is off the target, per second.
    #[serde(skip, default = "default_alpha")]
    pub alpha: f64,
    /// Weight of how the delay has changed since the update before, per second.
    #[serde(skip, default = "default_beta")]
    pub beta: f64,
    /// A burst as long as this passes untouched (MAX_BURST).
    #[serde(skip, default = "default_max_burst")]
    pub max_burst: Duration,
    /// Mark ECN-capable packets (ECT) instead of dropping them, while the probability is below a
    /// tenth.
    pub ecn: bool,
}

impl PieConfig {
    /// What RFC 8033 recommends (sections 4 and 5).
    pub const DEFAULT: Self = Self {
        target: Duration::from_millis(15),
        update: Duration::from_millis(15),
        alpha: 0.125,
        beta: 1.25,
        max_burst: Duration::from_millis(150),
        ecn: false,
    };
}

fn default_alpha() -> f64 {
    PieConfig::DEFAULT.alpha
}

fn default_beta() -> f64 {
    PieConfig::DEFAULT.beta
}

fn default_max_burst() -> Duration {
    PieConfig::DEFAULT.max_burst
}

impl Default for PieConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Parameters of [`DualPi2`](crate::DualPi2), with the names of `tc-dualpi2(8)` where they are not
/// those of PIE.
#[derive(Copy, Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualPi2Config {
    /// The delay in the queue that the controller aims at.
    #[serde(rename = "target_ns")]
    pub target: Duration,
    /// Between two updates of the probability (Tupdate).
    #[serde(rename = "update_ns")]
    pub update: Duration,
    /// An ECT(1) packet that has waited for longer is marked.
    #[serde(rename = "step_ns")]
    pub step: Duration,
    /// But only if at least so many waited there when it came.
    pub step_packets: u32,
    /// ECT(1) packets are marked with so many times the root of the probability of the others (k).
    pub coupling: u32,
    /// Of the bytes, what the classic queue gets where both wait, percent.
    pub classic_percent: u32,
    /// Whether ECT(0) packets are L4S traffic too: where every sender that is able is scalable.
    pub any_ect: bool,
    /// Weight of how far the delay is off the target, Hz.
    #[serde(skip, default = "dualpi2_alpha")]
    pub alpha: f64,
    /// Weight of how the delay has changed since the update before, Hz.
    #[serde(skip, default = "dualpi2_beta")]
    pub beta: f64,
}

impl DualPi2Config {
    /// Those of `tc-dualpi2(8)`. RFC 9332 appendix A.1 derives target, interval and weights from
    /// the round-trip times that are expected.
    pub const DEFAULT: Self = Self {
        target: Duration::from_millis(15),
        update: Duration::from_millis(16),
        step: Duration::from_millis(1),
        step_packets: 0,
        coupling: 2,
        classic_percent: 10,
        any_ect: false,
        alpha: 0.16,
        beta: 3.2,
    };
}

fn dualpi2_alpha() -> f64 {
    DualPi2Config::DEFAULT.alpha
}

fn dualpi2_beta() -> f64 {
    DualPi2Config::DEFAULT.beta
}

impl Default for DualPi2Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
