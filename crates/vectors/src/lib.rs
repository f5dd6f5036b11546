//! The language of cc/vectors/*.json: scripted hooks on made-up flows. A test runs them in the
//! simulator's build, and crates/bpf in the kernel.
//!
//! Vectors are files of the project: what one of them has wrong is a panic that names it.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use polypath_cc as cc;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// One file of cc/vectors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub algorithm: String,
    /// Where the numbers come from; not read by the test.
    #[serde(rename = "comment")]
    _comment: String,
    pub cases: Vec<Case>,
}

/// A flow and what happens to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    #[serde(rename = "comment")]
    _comment: String,
    /// Fields of the flow before the first step; `cwnd_limited` is true unless said otherwise.
    #[serde(default, deserialize_with = "fields")]
    pub flow: BTreeMap<String, u64>,
    pub siblings: Option<Siblings>,
    pub steps: Vec<Step>,
}

/// The subflows of the flow's connection, and which of them it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Siblings {
    pub own: usize,
    pub at: Vec<BTreeMap<String, u64>>,
}

/// Sets fields, calls a hook, expects fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The hook to call; none: only set and expect.
    pub hook: Option<String>,
    /// Acknowledged segments, RTT in microseconds, state, event or flags, as the hook wants it.
    #[serde(default)]
    pub value: u64,
    /// How often; time advances and fields are set each time.
    #[serde(default = "once")]
    pub times: u32,
    #[serde(default)]
    pub advance_us: u64,
    #[serde(default, deserialize_with = "fields")]
    pub set: BTreeMap<String, u64>,
    /// What `cong_control` is told of its ACK; a field that is not named is as in the step before,
    /// and zero at first.
    #[serde(default)]
    pub sample: BTreeMap<String, i64>,
    /// Fields of the flow afterwards; `result` is what the last call returned.
    #[serde(default)]
    pub expect: BTreeMap<String, u64>,
}

fn once() -> u32 {
    1
}

/// A field's value in a file: a number, or names of bits of `compat`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(u64),
    Compat(Vec<String>),
}

fn fields<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let bit = |name: &String| {
        let found = cc::compat::ALL.iter().find(|(known, _)| known == name);
        found.map(|&(_, bit)| u64::from(bit)).ok_or_else(|| D::Error::custom(format!("{name:?} is no bit of compat")))
    };
    BTreeMap::<String, Value>::deserialize(input)?
        .into_iter()
        .map(|(field, value)| match value {
            Value::Number(number) => Ok((field, number)),
            Value::Compat(names) => Ok((field, names.iter().map(bit).sum::<Result<u64, _>>()?)),
        })
        .collect()
}

/// By their numbers.
pub const STATES: [cc::CaState; 5] = [cc::CaState::Open, cc::CaState::Disorder, cc::CaState::Cwr, cc::CaState::Recovery, cc::CaState::Loss];

/// By their numbers.
const EVENTS: [cc::Event; 6] =
    [cc::Event::TxStart, cc::Event::CwndRestart, cc::Event::CompleteCwr, cc::Event::Loss, cc::Event::EcnNoCe, cc::Event::EcnIsCe];

/// The flow before the first step of a case.
pub fn first_flow(case: &Case) -> cc::Flow {
    let mut flow = cc::Flow::new(10, 1448);
    flow.cwnd_limited = true;
    flow.established = true;
    for (field, value) in &case.flow {
        slot(&mut flow, field).set(*value);
    }
    flow
}

/// Calls the hook of this name; what it returns, or 0.
pub fn call(
    controller: &mut cc::Controller,
    flow: &mut cc::Flow,
    siblings: Option<&cc::Siblings>,
    sample: &cc::Sample,
    hook: &str,
    value: u64,
) -> u64 {
    let small = u32::try_from(value).expect("hooks take 32 bits");
    match hook {
        "ssthresh" => return controller.ssthresh(flow, siblings).into(),
        "undo_cwnd" => return controller.undo_cwnd(flow, siblings).into(),
        "sndbuf_expand" => return controller.sndbuf_expand(flow, siblings).into(),
        "min_tso_segs" => return controller.min_tso_segs(flow, siblings).into(),
        "cong_control" => controller.cong_control(flow, siblings, flow.snd_una, small, sample),
        "cong_avoid" => controller.cong_avoid(flow, siblings, flow.snd_una, small),
        "in_ack_event" => controller.in_ack_event(flow, siblings, small),
        "set_state" => controller.set_state(flow, siblings, STATES[small as usize]),
        "cwnd_event" => controller.cwnd_event(flow, siblings, EVENTS[small as usize]),
        "pkts_acked" => {
            let sample = cc::Sample { rtt_us: i64::from(small), pkts_acked: 1, ..cc::Sample::default() };
            controller.pkts_acked(flow, siblings, &sample);
        }
        _ => panic!("no hook {hook:?}"),
    }
    0
}

/// Tells of another ACK.
pub fn change(sample: &mut cc::Sample, fields: &BTreeMap<String, i64>) {
    let word = |value: i64| u32::try_from(value).expect("a field of 32 bits");
    for (field, &value) in fields {
        match field.as_str() {
            "prior_delivered" => sample.prior_delivered = word(value),
            "delivered" => sample.delivered = i32::try_from(value).expect("a field of 32 bits"),
            "interval_us" => sample.interval_us = value,
            "rtt_us" => sample.rtt_us = value,
            "losses" => sample.losses = i32::try_from(value).expect("a field of 32 bits"),
            "acked_sacked" => sample.acked_sacked = word(value),
            "prior_in_flight" => sample.prior_in_flight = word(value),
            "is_app_limited" => sample.is_app_limited = value != 0,
            "is_ack_delayed" => sample.is_ack_delayed = value != 0,
            "is_ece" => sample.is_ece = value != 0,
            _ => panic!("vectors do not know the sample's field {field:?}"),
        }
    }
}

/// A field of a flow, to be read or set as a number.
#[derive(Debug)]
pub enum Slot<'a> {
    Wide(&'a mut u64),
    Word(&'a mut u32),
    Byte(&'a mut u8),
    Flag(&'a mut bool),
    State(&'a mut cc::CaState),
}

impl Slot<'_> {
    pub fn get(self) -> u64 {
        match self {
            Self::Wide(v) => *v,
            Self::Word(v) => u64::from(*v),
            Self::Byte(v) => u64::from(*v),
            Self::Flag(v) => u64::from(*v),
            Self::State(v) => *v as u64,
        }
    }

    pub fn set(self, value: u64) {
        match self {
            Self::Wide(v) => *v = value,
            Self::Word(v) => *v = u32::try_from(value).expect("a field of 32 bits"),
            Self::Byte(v) => *v = u8::try_from(value).expect("a field of 8 bits"),
            Self::Flag(v) => *v = value != 0,
            Self::State(v) => *v = STATES[usize::try_from(value).expect("a small number")],
        }
    }
}

/// The field of this name.
pub fn slot<'a>(flow: &'a mut cc::Flow, field: &str) -> Slot<'a> {
    match field {
        "now_ns" => Slot::Wide(&mut flow.now_ns),
        "last_sent_ns" => Slot::Wide(&mut flow.last_sent_ns),
        "delivered_ns" => Slot::Wide(&mut flow.delivered_ns),
        "next_send_ns" => Slot::Wide(&mut flow.next_send_ns),
        "pacing_rate" => Slot::Wide(&mut flow.pacing_rate),
        "cwnd" => Slot::Word(&mut flow.cwnd),
        "cwnd_cnt" => Slot::Word(&mut flow.cwnd_cnt),
        "cwnd_clamp" => Slot::Word(&mut flow.cwnd_clamp),
        "ssthresh" => Slot::Word(&mut flow.ssthresh),
        "prior_cwnd" => Slot::Word(&mut flow.prior_cwnd),
        "mss" => Slot::Word(&mut flow.mss),
        "srtt_us" => Slot::Word(&mut flow.srtt_us),
        "ts_peer" => Slot::Word(&mut flow.ts_peer),
        "ts_echo" => Slot::Word(&mut flow.ts_echo),
        "max_packets_out" => Slot::Word(&mut flow.max_packets_out),
        "min_rtt_us" => Slot::Word(&mut flow.min_rtt_us),
        "in_flight" => Slot::Word(&mut flow.in_flight),
        "delivered" => Slot::Word(&mut flow.delivered),
        "delivered_ce" => Slot::Word(&mut flow.delivered_ce),
        "lost" => Slot::Word(&mut flow.lost),
        "app_limited" => Slot::Word(&mut flow.app_limited),
        "random" => Slot::Word(&mut flow.random),
        "snd_una" => Slot::Word(&mut flow.snd_una),
        "snd_nxt" => Slot::Word(&mut flow.snd_nxt),
        "ca_state" => Slot::State(&mut flow.ca_state),
        "pacing" => Slot::Byte(&mut flow.pacing),
        "ecn_ok" => Slot::Flag(&mut flow.ecn_ok),
        "reduce" => Slot::Byte(&mut flow.reduce),
        "cwnd_limited" => Slot::Flag(&mut flow.cwnd_limited),
        "compat" => Slot::Word(&mut flow.compat),
        _ => panic!("vectors do not know the field {field:?}"),
    }
}

/// The siblings that a case describes.
pub fn view(siblings: &Siblings) -> cc::Siblings {
    let mut view = cc::Siblings::default();
    for fields in &siblings.at {
        let mut sibling = cc::Sibling { mss: 1448, usable: true, ..cc::Sibling::default() };
        for (field, value) in fields {
            let small = u32::try_from(*value).unwrap_or(u32::MAX);
            match field.as_str() {
                "cwnd" => sibling.cwnd = small,
                "mss" => sibling.mss = small,
                "srtt_us" => sibling.srtt_us = small,
                "usable" => sibling.usable = *value != 0,
                "bytes_since_loss" => sibling.bytes_since_loss = *value,
                "bytes_between_losses" => sibling.bytes_between_losses = *value,
                "priv_word" => sibling.priv_word = *value,
                _ => panic!("vectors do not know the sibling's field {field:?}"),
            }
        }
        view.push(sibling).expect("at most eight siblings");
    }
    view.set_own(siblings.own);
    view
}
