//! Runs cc/vectors/*.json: scripted hooks, and the exact windows that must come out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polypath_cc as cc;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    algorithm: String,
    /// Where the numbers come from; not read by the test.
    #[serde(rename = "comment")]
    _comment: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(rename = "comment")]
    _comment: String,
    /// Fields of the flow before the first step; `cwnd_limited` is true unless said otherwise.
    #[serde(default)]
    flow: BTreeMap<String, u64>,
    siblings: Option<Siblings>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Siblings {
    own: usize,
    at: Vec<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The hook to call; none: only set and expect.
    hook: Option<String>,
    /// Acknowledged segments, RTT in microseconds, state or event, as the hook wants it.
    #[serde(default)]
    value: u64,
    /// How often; time advances and fields are set each time.
    #[serde(default = "once")]
    times: u32,
    #[serde(default)]
    advance_us: u64,
    #[serde(default)]
    set: BTreeMap<String, u64>,
    /// Fields of the flow afterwards; `result` is what the last call returned.
    #[serde(default)]
    expect: BTreeMap<String, u64>,
}

fn once() -> u32 {
    1
}

#[test]
fn every_vector_gives_exactly_its_windows() {
    let mut seen = Vec::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("vectors are readable");
        let file: File = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let algorithm = cc::find(&file.algorithm).unwrap_or_else(|| panic!("{}: no algorithm {:?}", path.display(), file.algorithm));
        assert_eq!(path.file_stem().and_then(|s| s.to_str()), Some(algorithm.name()));
        for case in &file.cases {
            run(algorithm, case);
        }
        seen.push(algorithm);
    }
    for algorithm in cc::all() {
        assert!(seen.contains(&algorithm), "cc/vectors has no file for {algorithm:?}");
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cc/vectors");
    let mut files: Vec<PathBuf> = folder.read_dir().expect("cc/vectors exists").map(|e| e.expect("a readable folder").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "json"));
    files.sort();
    files
}

fn run(algorithm: cc::Algorithm, case: &Case) {
    let place = |step: usize| format!("{} '{}' step {}", algorithm.name(), case.name, step + 1);
    let mut flow = cc::Flow::new(10, 1448);
    flow.cwnd_limited = true;
    flow.established = true;
    for (field, value) in &case.flow {
        slot(&mut flow, field).set(*value);
    }
    let siblings = case.siblings.as_ref().map(view);
    let siblings = siblings.as_ref();
    let mut controller = algorithm.start();
    controller.init(&mut flow, siblings);
    for (index, step) in case.steps.iter().enumerate() {
        let mut result = 0;
        for _ in 0..step.times {
            flow.now_ns += step.advance_us * 1000;
            for (field, value) in &step.set {
                slot(&mut flow, field).set(*value);
            }
            if let Some(hook) = &step.hook {
                result = call(&mut controller, &mut flow, siblings, hook, step.value);
            }
        }
        for (field, want) in &step.expect {
            let got = if field == "result" { result } else { slot(&mut flow, field).get() };
            assert_eq!(got, *want, "{}: {field}", place(index));
        }
    }
}

fn call(controller: &mut cc::Controller, flow: &mut cc::Flow, siblings: Option<&cc::Siblings>, hook: &str, value: u64) -> u64 {
    let small = u32::try_from(value).expect("hooks take 32 bits");
    match hook {
        "ssthresh" => return controller.ssthresh(flow, siblings).into(),
        "undo_cwnd" => return controller.undo_cwnd(flow, siblings).into(),
        "cong_avoid" => controller.cong_avoid(flow, siblings, flow.snd_una, small),
        "set_state" => controller.set_state(
            flow,
            siblings,
            [cc::CaState::Open, cc::CaState::Disorder, cc::CaState::Cwr, cc::CaState::Recovery, cc::CaState::Loss][small as usize],
        ),
        "cwnd_event" => controller.cwnd_event(
            flow,
            siblings,
            [cc::Event::TxStart, cc::Event::CwndRestart, cc::Event::CompleteCwr, cc::Event::Loss][small as usize],
        ),
        "pkts_acked" => {
            let sample = cc::Sample { rtt_us: i64::from(small), pkts_acked: 1, ..cc::Sample::default() };
            controller.pkts_acked(flow, siblings, &sample);
        }
        _ => panic!("no hook {hook:?}"),
    }
    0
}

/// A field of the flow by name.
enum Slot<'a> {
    Wide(&'a mut u64),
    Word(&'a mut u32),
    Byte(&'a mut u8),
    Flag(&'a mut bool),
}

impl Slot<'_> {
    fn get(self) -> u64 {
        match self {
            Self::Wide(v) => *v,
            Self::Word(v) => u64::from(*v),
            Self::Byte(v) => u64::from(*v),
            Self::Flag(v) => u64::from(*v),
        }
    }

    fn set(self, value: u64) {
        match self {
            Self::Wide(v) => *v = value,
            Self::Word(v) => *v = u32::try_from(value).expect("a field of 32 bits"),
            Self::Byte(v) => *v = u8::try_from(value).expect("a field of 8 bits"),
            Self::Flag(v) => *v = value != 0,
        }
    }
}

fn slot<'a>(flow: &'a mut cc::Flow, field: &str) -> Slot<'a> {
    match field {
        "now_ns" => Slot::Wide(&mut flow.now_ns),
        "last_sent_ns" => Slot::Wide(&mut flow.last_sent_ns),
        "pacing_rate" => Slot::Wide(&mut flow.pacing_rate),
        "cwnd" => Slot::Word(&mut flow.cwnd),
        "cwnd_cnt" => Slot::Word(&mut flow.cwnd_cnt),
        "cwnd_clamp" => Slot::Word(&mut flow.cwnd_clamp),
        "ssthresh" => Slot::Word(&mut flow.ssthresh),
        "prior_cwnd" => Slot::Word(&mut flow.prior_cwnd),
        "mss" => Slot::Word(&mut flow.mss),
        "srtt_us" => Slot::Word(&mut flow.srtt_us),
        "max_packets_out" => Slot::Word(&mut flow.max_packets_out),
        "snd_una" => Slot::Word(&mut flow.snd_una),
        "snd_nxt" => Slot::Word(&mut flow.snd_nxt),
        "pacing" => Slot::Byte(&mut flow.pacing),
        "cwnd_limited" => Slot::Flag(&mut flow.cwnd_limited),
        "out_of_tree" => Slot::Flag(&mut flow.out_of_tree),
        _ => panic!("vectors do not know the field {field:?}"),
    }
}

fn view(siblings: &Siblings) -> cc::Siblings {
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
