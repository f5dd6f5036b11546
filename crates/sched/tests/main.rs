//! Vectors: what each scheduler of cc/sched chooses, step by step.
//!
//! `cc/vectors/sched/NAME.json` has cases, each a connection. A step has the paths, what differs of
//! the data queue from a megabyte that waits and a window for it, and the choice: subflow, and
//! maybe `bytes` and `from`; null is none. What was chosen is given to the subflow as a whole, or
//! `took` bytes of it. `blocked` comes before the choice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, SmoothedRtt};
use polypath_sched::{Choice, DataQueueView, Limit, PathView, Quirks, Scheduler};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scheduler: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default, rename = "comment")]
    _comment: String,
    #[serde(default)]
    weights: String,
    #[serde(default)]
    compat: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    paths: Vec<View>,
    #[serde(default)]
    queue: BTreeMap<String, u64>,
    pick: Option<Picked>,
    took: Option<u64>,
    #[serde(default)]
    blocked: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Picked {
    subflow: usize,
    bytes: Option<Value>,
    from: Option<u64>,
}

/// A path with a window of ten segments of 1000 bytes and room, but for what it says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct View {
    srtt_ms: u32,
    rttvar_ms: u64,
    pacing_rate: u64,
    mss: u64,
    unsent: u64,
    queued: u64,
    cwnd: u32,
    in_flight: u32,
    ssthresh: u32,
    buffers: u32,
    burst: u32,
    usable: bool,
    backup: bool,
    room: bool,
    in_loss: bool,
    wins_ties: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            srtt_ms: 0,
            rttvar_ms: 0,
            pacing_rate: 8_000_000,
            mss: 1000,
            unsent: 0,
            queued: 0,
            cwnd: 10,
            in_flight: 0,
            ssthresh: 0,
            buffers: 0,
            burst: 0,
            usable: true,
            backup: false,
            room: true,
            in_loss: false,
            wins_ties: false,
        }
    }
}

impl View {
    fn path(&self) -> PathView {
        PathView {
            pacing_rate: Rate::from_bits_per_sec(self.pacing_rate),
            mss: Bytes::new(self.mss),
            unsent: Bytes::new(self.unsent),
            queued: Bytes::new(self.queued),
            rttvar: Duration::from_millis(self.rttvar_ms),
            srtt: SmoothedRtt::from_millis(self.srtt_ms),
            cwnd: Segments::new(self.cwnd),
            in_flight: Segments::new(self.in_flight),
            ssthresh: Segments::new(self.ssthresh),
            buffers: self.buffers,
            burst: Segments::new(self.burst),
            usable: self.usable,
            backup: self.backup,
            room: self.room,
            in_loss: self.in_loss,
            wins_ties: self.wins_ties,
        }
    }
}

/// A megabyte waits, and the window has room for it.
const DATA: DataQueueView = DataQueueView { end: DataSeq::new(1 << 20), window_end: DataSeq::new(1 << 20), ..DataQueueView::EMPTY };

fn queue(fields: &BTreeMap<String, u64>) -> DataQueueView {
    let mut queue = DATA;
    for (name, value) in fields {
        let field = match name.as_str() {
            "una" => &mut queue.una,
            "next" => &mut queue.next,
            "end" => &mut queue.end,
            "window_end" => &mut queue.window_end,
            "now_ms" => {
                queue.now = Instant::ZERO + Duration::from_millis(*value);
                continue;
            }
            _ => panic!("{name} is no field of a data queue"),
        };
        *field = DataSeq::new(*value);
    }
    queue
}

fn run(scheduler: &str, case: &Case) {
    let name = format!("{scheduler} {}", case.weights);
    let has = |quirk: &str| case.compat.iter().any(|each| each == quirk);
    let quirks = Quirks { ecf_overflows: has("ecf_overflows"), redundant_repeats: has("redundant_repeats") };
    let mut scheduler = Scheduler::find(name.trim()).expect("a scheduler of cc/sched").with(quirks);
    for (number, step) in case.steps.iter().enumerate() {
        let paths: Vec<PathView> = step.paths.iter().map(View::path).collect();
        if step.blocked {
            scheduler.on_blocked();
        }
        let choice = scheduler.pick(&paths, &queue(&step.queue));
        let place = format!("{name}, {}, step {}: {choice:?}", case.name, number + 1);
        assert_eq!(choice.map(|choice| choice.subflow), step.pick.as_ref().map(|pick| pick.subflow), "{place}");
        let (Some(choice), Some(pick)) = (choice, &step.pick) else { continue };
        compare(choice, pick, &place);
        let bytes = step.took.or(choice.limit.bytes().map(Bytes::get)).expect("a step says how much of a buffer is taken");
        if bytes > 0 {
            scheduler.on_scheduled(choice, Bytes::new(bytes));
        }
    }
}

fn compare(choice: Choice, pick: &Picked, place: &str) {
    if let Some(bytes) = &pick.bytes {
        let expected = bytes.as_u64().map_or(Limit::Buffer, |bytes| Limit::Bytes(Bytes::new(bytes)));
        assert_eq!(choice.limit, expected, "{place}");
    }
    if let Some(from) = pick.from {
        assert_eq!(choice.from, DataSeq::new(from), "{place}");
    }
}

#[test]
fn every_scheduler_chooses_what_its_vectors_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cc/vectors/sched");
    for name in Scheduler::NAMES {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap_or_else(|e| panic!("cc/vectors/sched/{name}.json: {e}"));
        let file: File = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}.json: {e}"));
        assert_eq!(file.scheduler, name);
        for case in &file.cases {
            run(name, case);
        }
    }
}

#[test]
fn every_scheduler_chooses_the_path_with_room() {
    let path = |srtt_ms, in_flight| View { srtt_ms, in_flight, ..View::default() }.path();
    let data = DataQueueView { end: DataSeq::new(1000), ..DATA };
    for name in Scheduler::NAMES {
        let choice = Scheduler::find(name).expect("it is in the list").pick(&[path(10, 9), path(50, 10)], &data);
        assert!(choice.is_some_and(|choice| choice.subflow == 0 && choice.limit != Limit::Bytes(Bytes::ZERO)), "{name}: {choice:?}");
    }
}

#[test]
fn every_scheduler_takes_a_backup_path_only_where_no_other_is_usable() {
    // RFC 8684 section 3.3.8.
    let path = |srtt_ms, in_flight| View { srtt_ms, in_flight, ..View::default() }.path();
    let backup = PathView { backup: true, ..path(5, 0) };
    for name in Scheduler::NAMES {
        let pick = |first| Scheduler::find(name).expect("it is in the list").pick(&[first, backup], &DATA).map(|choice| choice.subflow);
        assert_eq!(pick(PathView { usable: false, ..path(10, 0) }), Some(1), "{name}");
        // Turns are equal in MPTCP 0.96.
        assert_eq!(pick(path(10, 10)) == Some(1), name == "roundrobin", "{name}");
    }
}

#[test]
fn a_reinjection_avoids_the_subflow_that_carried_it() {
    let path = |srtt_ms, in_flight| View { srtt_ms, in_flight, ..View::default() }.path();
    let tried = polypath_sched::SubflowSet::of(0);
    let flows = [path(5, 0), path(50, 0)];
    assert_eq!(Scheduler::pick_reinjection(&flows, tried), Some(1));
    assert_eq!(Scheduler::pick_reinjection(&flows, tried.with(1)), Some(0), "all were tried: the fastest again");
    assert_eq!(Scheduler::pick_reinjection(&[path(5, 0), path(50, 10)], tried), None, "an untried subflow is waited for");
}
