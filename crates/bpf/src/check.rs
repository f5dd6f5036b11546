//! Whether the kernel and the simulator compute the same windows: the vectors of cc/vectors, and
//! random flows, in lockstep.

use polypath_base::Rng;
use polypath_cc as cc;
use polypath_vectors::{self as script, Case, File};

use crate::drive::{Driver, Hook, KERNEL_SIBLINGS};
use crate::kernel::capabilities;
use crate::sources::source;
use crate::{Error, unsupported_reason};

/// Random flows of an algorithm, and calls on each.
const FLOWS: u64 = 200;
const CALLS: u64 = 250;

/// What was compared.
#[derive(Debug, Clone)]
pub struct Agreement {
    pub algorithm: cc::Algorithm,
    /// Cases of the vectors.
    pub cases: usize,
    /// Hooks called in both builds.
    pub calls: u64,
    /// Where the outcome first differed, in words.
    pub difference: Option<String>,
}

/// Runs an algorithm in the running kernel and in this process until they differ. Random flows
/// follow from the seed.
pub fn check(algorithm: cc::Algorithm, seed: u64) -> Result<Agreement, Error> {
    if let Some(error) = unsupported_reason(&capabilities(), &[], false) {
        return Err(error);
    }
    let cases = match source(algorithm).vectors {
        "" => Vec::new(),
        text => {
            let file: File =
                serde_json::from_str(text).map_err(|e| Error::machine(format!("cc/vectors/{}.json: {e}", algorithm.name())))?;
            assert_eq!(file.algorithm, algorithm.name(), "a file of cc/vectors is named after its algorithm");
            file.cases
        }
    };
    let mut both = Both::new(algorithm)?;
    let difference = match all(&mut both, &cases, seed) {
        Ok(()) => None,
        Err(Stop::Different(words)) => Some(words),
        Err(Stop::Impossible(error)) => return Err(error),
    };
    Ok(Agreement { algorithm, cases: cases.len(), calls: both.calls, difference })
}

/// Why a comparison ends before its end.
enum Stop {
    Different(String),
    /// It cannot be made on this kernel.
    Impossible(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Impossible(error)
    }
}

fn all(both: &mut Both, cases: &[Case], seed: u64) -> Result<(), Stop> {
    for case in cases {
        both.place = format!("vector '{}'", case.name);
        vector(both, case)?;
    }
    let mut rng = Rng::new(seed, both.controller.name());
    for flow in 0..FLOWS {
        both.place = format!("random flow {flow} of seed {seed}");
        random(both, &mut rng)?;
    }
    Ok(())
}

/// One flow, in the kernel and here.
struct Both {
    driver: Driver,
    controller: cc::Controller,
    flow: cc::Flow,
    siblings: Option<cc::Siblings>,
    /// What `cong_control` is told of an ACK.
    sample: cc::Sample,
    calls: u64,
    place: String,
}

impl Both {
    fn new(algorithm: cc::Algorithm) -> Result<Self, Error> {
        let driver = Driver::new(algorithm)?;
        Ok(Self {
            driver,
            controller: algorithm.start(),
            flow: cc::Flow::new(10, 1448),
            siblings: None,
            sample: cc::Sample::default(),
            calls: 0,
            place: String::new(),
        })
    }

    fn begin(&mut self, flow: cc::Flow, siblings: Option<cc::Siblings>) -> Result<(), Stop> {
        self.controller = self.controller.algorithm().start();
        self.driver.begin();
        (self.flow, self.siblings) = (flow, siblings);
        self.call(Hook::Init, 0).map(drop)
    }

    /// Calls a hook in both; its result.
    fn call(&mut self, hook: Hook, value: u32) -> Result<u32, Stop> {
        let mut there = self.flow.clone();
        self.driver.set_sample(&self.sample);
        let theirs = self.driver.call(&mut there, self.siblings.as_ref(), hook, value)?;
        let ours = native(&mut self.controller, &mut self.flow, self.siblings.as_ref(), &self.sample, hook, value);
        self.calls += 1;
        if (theirs, windows(&there)) != (ours, windows(&self.flow)) || self.driver.private_word() != self.controller.private_word() {
            return Err(Stop::Different(format!(
                "{}, call {} ({hook:?} {value}): the kernel computed result {theirs} and {:?}, the simulator {ours} and {:?} (cwnd, \
                 cwnd_cnt, ssthresh, app_limited, pacing rate, pacing, TSO goal, reduce), siblings {:?}",
                self.place,
                self.calls,
                windows(&there),
                windows(&self.flow),
                self.siblings.as_ref().map(|view| (view.own(), view.as_slice())),
            )));
        }
        Ok(ours)
    }
}

/// Everything of a flow that an algorithm may write.
fn windows(flow: &cc::Flow) -> [u64; 8] {
    let words = [flow.cwnd, flow.cwnd_cnt, flow.ssthresh, flow.app_limited].map(u64::from);
    let bytes = [flow.pacing, flow.tso_segs_goal, flow.reduce].map(u64::from);
    [words[0], words[1], words[2], words[3], flow.pacing_rate, bytes[0], bytes[1], bytes[2]]
}

fn native(
    controller: &mut cc::Controller,
    flow: &mut cc::Flow,
    siblings: Option<&cc::Siblings>,
    sample: &cc::Sample,
    hook: Hook,
    value: u32,
) -> u32 {
    let name = match hook {
        Hook::Init => {
            controller.init(flow, siblings);
            return 0;
        }
        Hook::Ssthresh => "ssthresh",
        Hook::CongAvoid => "cong_avoid",
        Hook::SetState => "set_state",
        Hook::CwndEvent => "cwnd_event",
        Hook::InAckEvent => "in_ack_event",
        Hook::PktsAcked => "pkts_acked",
        Hook::UndoCwnd => "undo_cwnd",
        Hook::CongControl => "cong_control",
        Hook::SndbufExpand => "sndbuf_expand",
        Hook::MinTsoSegs => "min_tso_segs",
    };
    u32::try_from(script::call(controller, flow, siblings, sample, name, value.into())).expect("hooks answer with 32 bits")
}

/// One case of the vectors: what it expects must come out as well.
fn vector(both: &mut Both, case: &Case) -> Result<(), Stop> {
    both.begin(script::first_flow(case), case.siblings.as_ref().map(script::view))?;
    both.sample = cc::Sample::default();
    for (index, step) in case.steps.iter().enumerate() {
        let mut result = 0;
        script::change(&mut both.sample, &step.sample);
        for _ in 0..step.times {
            both.flow.now_ns += step.advance_us * 1000;
            for (field, value) in &step.set {
                script::slot(&mut both.flow, field).set(*value);
            }
            if let Some(name) = &step.hook {
                let hook = Hook::named(name).expect("vectors name hooks");
                result = both.call(hook, u32::try_from(step.value).expect("hooks take 32 bits"))?;
            }
        }
        for (field, want) in &step.expect {
            let got = if field == "result" { result.into() } else { script::slot(&mut both.flow, field).get() };
            if got != *want {
                return Err(Stop::Different(format!("{}, step {}: {field} is {got}, not {want}", both.place, index + 1)));
            }
        }
    }
    Ok(())
}

/// A flow of random size, and random things that happen to it. Values span what a flow can have,
/// and more of what is usual.
fn random(both: &mut Both, rng: &mut Rng) -> Result<(), Stop> {
    let mut flow = cc::Flow::new(number(rng, 13), 1448);
    flow.now_ns = rng.uniform(1 << 40);
    flow.srtt_us = number(rng, 23);
    flow.cwnd_limited = true;
    flow.established = true;
    flow.pacing_rate = rng.uniform(1 << 30);
    flow.compat = if rng.uniform(4) == 0 { rng.uniform(1 << cc::compat::ALL.len()) as u32 } else { 0 };
    flow.ecn_ok = rng.uniform(4) != 0;
    let count = rng.uniform(KERNEL_SIBLINGS as u64 + 1) as usize;
    both.begin(flow, (count > 0).then(|| siblings(rng, count)))?;
    for _ in 0..CALLS {
        let flow = &mut both.flow;
        flow.now_ns += rng.uniform(1 << 28);
        flow.srtt_us = if rng.uniform(8) == 0 { number(rng, 23) } else { flow.srtt_us };
        flow.snd_una = flow.snd_una.wrapping_add(number(rng, 20));
        flow.snd_nxt = flow.snd_una.wrapping_add(number(rng, 24));
        flow.max_packets_out = number(rng, 13);
        flow.cwnd_limited = rng.uniform(8) != 0;
        flow.prior_cwnd = number(rng, 13);
        flow.in_flight = number(rng, 13);
        flow.packets_out = flow.in_flight;
        let delivered = number(rng, 7);
        flow.delivered = flow.delivered.wrapping_add(delivered);
        flow.delivered_ce = flow.delivered_ce.wrapping_add(rng.uniform(u64::from(delivered) + 1) as u32);
        flow.delivered_ns = flow.now_ns;
        flow.lost = flow.lost.wrapping_add(rng.uniform(2) as u32);
        flow.min_rtt_us = number(rng, 20);
        flow.random = rng.next_u64() as u32;
        flow.app_limited = if rng.uniform(4) == 0 { number(rng, 20) } else { 0 };
        flow.next_send_ns = (flow.now_ns + rng.uniform(1 << 22)).saturating_sub(1 << 21);
        flow.ca_state = script::STATES[rng.uniform(5) as usize];
        flow.ts_peer = flow.ts_peer.wrapping_add(number(rng, 8));
        flow.ts_echo = flow.ts_echo.wrapping_add(number(rng, 8));
        flow.last_sent_ns = flow.now_ns - rng.uniform(1 << 20).min(flow.now_ns);
        if count > 0 && rng.uniform(4) == 0 {
            both.siblings = Some(siblings(rng, count));
        }
        match rng.uniform(16) {
            0 => {
                let ssthresh = both.call(Hook::Ssthresh, 0)?;
                (both.flow.ssthresh, both.flow.cwnd, both.flow.cwnd_cnt) = (ssthresh, ssthresh, 0);
            }
            1 => both.flow.cwnd = both.call(Hook::UndoCwnd, 0)?,
            2 => {
                both.call(Hook::SetState, rng.uniform(5) as u32)?;
            }
            3 => {
                both.call(Hook::CwndEvent, rng.uniform(6) as u32)?;
            }
            4 => {
                let hook = if rng.uniform(2) == 0 { Hook::SndbufExpand } else { Hook::MinTsoSegs };
                both.call(hook, 0)?;
            }
            5 => {
                both.call(Hook::InAckEvent, rng.uniform(8) as u32)?;
            }
            6..9 => {
                both.call(Hook::PktsAcked, number(rng, 20))?;
            }
            _ if both.controller.has_cong_control() => {
                both.sample = sample(rng, &both.flow);
                both.call(Hook::CongControl, rng.uniform(8) as u32)?;
            }
            _ => {
                both.call(Hook::CongAvoid, number(rng, 7))?;
                both.flow.reduce = 0;
            }
        }
    }
    Ok(())
}

/// What an ACK may have delivered.
fn sample(rng: &mut Rng, flow: &cc::Flow) -> cc::Sample {
    let delivered = number(rng, 12);
    cc::Sample {
        prior_ns: flow.now_ns - rng.uniform(1 << 28).min(flow.now_ns),
        interval_us: if rng.uniform(16) == 0 { -1 } else { number(rng, 20).into() },
        rtt_us: if rng.uniform(16) == 0 { -1 } else { number(rng, 20).into() },
        prior_delivered: flow.delivered.wrapping_sub(delivered),
        delivered: if rng.uniform(16) == 0 { -1 } else { i32::try_from(delivered).expect("12 bits") },
        losses: i32::try_from(rng.uniform(4)).expect("2 bits"),
        acked_sacked: number(rng, 7),
        pkts_acked: number(rng, 7),
        prior_in_flight: number(rng, 13),
        last_end_seq: flow.snd_una.wrapping_add(number(rng, 20)),
        is_app_limited: rng.uniform(8) == 0,
        is_retrans: rng.uniform(8) == 0,
        is_ack_delayed: rng.uniform(8) == 0,
        is_ece: rng.uniform(8) == 0,
    }
}

fn siblings(rng: &mut Rng, count: usize) -> cc::Siblings {
    let mut view = cc::Siblings::default();
    for _ in 0..count {
        let sibling = cc::Sibling {
            bytes_since_loss: rng.uniform(1 << 34),
            bytes_between_losses: rng.uniform(1 << 34),
            priv_word: rng.next_u64(),
            cwnd: number(rng, 13),
            ssthresh: number(rng, 13),
            srtt_us: number(rng, 23),
            mss: 500 + rng.uniform(1000) as u32,
            usable: rng.uniform(8) != 0,
            ..cc::Sibling::default()
        };
        view.push(sibling).expect("the simulator has room for more than the kernel");
    }
    view.set_own(rng.uniform(count as u64) as usize);
    view
}

/// At least 1 and below 2^bits; every magnitude is as likely as any other.
fn number(rng: &mut Rng, bits: u64) -> u32 {
    let top = 1u64 << rng.uniform(bits);
    u32::try_from(top + rng.uniform(top)).expect("at most 32 bits")
}
