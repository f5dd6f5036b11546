//! Plans and scripts in a machine with a real kernel: that of POLYPATH_KERNEL, or the newest 6.12
//! that `polypath linux build` keeps. Without one (or without the static guest of `make setup-all`)
//! these tests say so and pass; where POLYPATH_REQUIRE names `linux`, they fail.

use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a machine needs.
struct Parts {
    kernel: PathBuf,
    guest: PathBuf,
}

fn parts() -> Option<Parts> {
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/polypath/engines/bin/polypath-guest");
    let kernel = kernel().filter(|_| guest.exists());
    if kernel.is_none() {
        let required = std::env::vars().any(|(name, value)| name == "POLYPATH_REQUIRE" && value.split(',').any(|word| word == "linux"));
        assert!(!required, "no kernel or no guest: `make setup-all` and `polypath linux build` make them");
        // Not by eprintln, whose words the test's runner keeps to itself when a test passes.
        let said = std::io::stderr().write_all(b"skipped: no kernel or no guest (`make setup-all` and `polypath linux build` make them)\n");
        said.expect("standard error takes a line");
    }
    Some(Parts { kernel: kernel?, guest })
}

fn kernel() -> Option<PathBuf> {
    let variable = |name: &str| std::env::vars_os().find(|(found, _)| found == name).map(|(_, value)| PathBuf::from(value));
    if let Some(kernel) = variable("POLYPATH_KERNEL") {
        return Some(kernel);
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    let folders = fs::read_dir(cache.join("polypath/linux")).ok()?.flatten().map(|entry| entry.path());
    // A variant has its name between version and hash.
    let plain = |name: &str| name.strip_prefix("6.12-").is_some_and(|rest| !rest.contains('-'));
    let of_612 = folders.filter(|path| path.file_name().is_some_and(|name| plain(&name.to_string_lossy())));
    let files = of_612.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten().map(|entry| entry.path());
    let kernels = files.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("linux-") && !name.contains('.')
    });
    kernels.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
}

/// A run's folder, gone afterwards.
struct Run {
    folder: PathBuf,
    kernel: PathBuf,
}

impl Run {
    fn new(parts: &Parts, name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = place.join(format!("polypath-guest-{name}-{}", std::process::id()));
        for inside in ["root/proc", "root/run", "root/dev", "root/sys", "root/tmp", "results"] {
            fs::create_dir_all(folder.join(inside)).expect("the folder can be written");
        }
        fs::copy(&parts.guest, folder.join("root/init")).expect("the folder can be written");
        Self { folder, kernel: parts.kernel.clone() }
    }

    fn planned(parts: &Parts, name: &str, plan: &Value) -> Self {
        let run = Self::new(parts, name);
        fs::write(run.folder.join("plan.json"), plan.to_string()).expect("the folder can be written");
        run
    }

    /// Runs the machine. Returns what its keeper said if it died.
    fn start(&self, more: &[&str]) -> Result<(), String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_polypath-machine"));
        command.arg("--dir").arg(&self.folder).arg("--kernel").arg(&self.kernel).args(["--timeout", "300"]).args(more);
        let output = command.output().expect("the keeper starts");
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()) }
    }

    fn bytes(&self, file: &str) -> Vec<u8> {
        fs::read(self.folder.join("results").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    fn result(&self) -> Value {
        serde_json::from_slice(&self.bytes("result.json")).expect("the guest writes JSON")
    }

    /// The result of a run that has to go well.
    fn good(&self) -> Value {
        assert_eq!(self.start(&[]), Ok(()));
        let result = self.result();
        assert_eq!(result["error"], Value::Null);
        result
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

fn plan(text: &str) -> Value {
    serde_json::from_str(text).expect("the plans of the tests are JSON")
}

fn tcp() -> Value {
    plan(include_str!("plans/tcp.json"))
}

/// Mbit/s that a flow's server read between two times since the run's start, both in seconds.
fn goodput(flow: &Value, from: f64, to: f64) -> f64 {
    let points: Vec<(f64, f64)> = serde_json::from_value(flow["read"].clone()).expect("points are pairs of numbers");
    let at = |seconds: f64| points.iter().rev().find(|(time, _)| *time <= seconds * 1e9).map_or(0.0, |(_, bytes)| *bytes);
    (at(to) - at(from)) * 8e-6 / (to - from)
}

#[test]
fn one_tcp_fills_a_link_as_in_the_reference() {
    let Some(parts) = parts() else { return };
    let run = Run::planned(&parts, "tcp", &tcp());
    let result = run.good();
    let flow = &result["flows"][0];
    // 1448 bytes of 1514 carry data: 95.64 Mbit/s at most.
    let rate = goodput(flow, 5.0, 10.0);
    assert!((95.4..95.8).contains(&rate), "{rate}");
    assert_eq!(flow["subflows"][0]["cc"], "cubic");
    // A cycle of 20 ms: the server accepts with the third packet.
    let [connected, accepted] = ["connected_ns", "accepted_ns"].map(|name| flow[name].as_u64().expect("it was"));
    assert!((20_000_000..20_100_000).contains(&connected) && (30_000_000..30_100_000).contains(&accepted), "{connected} {accepted}");
    // A sample every 100 ms, the last ones of a socket that is closed apart.
    let samples = run.bytes("sockets.bin").len();
    assert!(samples % 320 == 0 && (99..=102).contains(&(samples / 320)), "{samples}");
    assert!(matches!(run.bytes("queues.bin").len() / 40, 99..=103), "a sample of the bottleneck's queue every 100 ms");
    let bottleneck = &result["disciplines"][0];
    let longest = bottleneck["max_queue_packets"].as_u64().expect("it is a number");
    assert!(bottleneck["device"] == "rt" && (140..=167).contains(&longest), "{bottleneck}");
}

#[test]
fn a_seed_gives_the_same_bytes_in_another_folder_under_load_and_another_seed_others() {
    let Some(parts) = parts() else { return };
    let mut plan = tcp();
    plan["duration_ns"] = json!(3_000_000_000_u64);
    plan["disciplines"][0]["netem"]["loss"] = json!({"model": "random", "probability": 0.01});
    plan["captures"] = json!([{"namespace": "p1a", "device": "rt", "file": "rt.pcapng", "snaplen": 96, "packets": 1_000_000}]);
    let (first, second, third) =
        (Run::planned(&parts, "a", &plan), Run::planned(&parts, "another-folder", &plan), Run::planned(&parts, "c", &plan));
    first.good();
    let mut load = Command::new("/bin/sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().expect("there is a shell");
    let outcome = second.start(&[]);
    load.kill().and_then(|()| load.wait()).expect("it is ours");
    assert_eq!(outcome, Ok(()));
    for file in ["result.json", "sockets.bin", "queues.bin", "rt.pcapng"] {
        assert!(first.bytes(file) == second.bytes(file), "{file} differs");
    }
    assert_eq!(third.start(&["--seed", "2"]), Ok(()));
    assert_ne!(first.result()["disciplines"][0]["drops"], 0);
    assert!(first.bytes("sockets.bin") != third.bytes("sockets.bin"), "the seed changes nothing");
}

#[test]
fn mptcp_uses_both_paths() {
    let Some(parts) = parts() else { return };
    let result = Run::planned(&parts, "mptcp", &plan(include_str!("plans/mptcp.json"))).good();
    let flow = &result["flows"][0];
    let rate = goodput(flow, 2.0, 10.0);
    assert!((170.0..192.0).contains(&rate), "{rate}");
    let sources: Vec<&str> = (0..2).filter_map(|n| flow["subflows"][n]["source"].as_str()?.split(':').next()).collect();
    assert_eq!((sources, &flow["fallback"]), (vec!["10.11.1.1", "10.12.1.1"], &json!(false)));
    assert!(flow["client_mptcp_info"].is_string() && flow["server_mptcp_info"].is_string(), "{flow}");
}

#[test]
fn a_download_comes_from_the_server_with_the_algorithm_asked_for() {
    let Some(parts) = parts() else { return };
    let mut down = plan(include_str!("plans/mptcp.json"));
    down["flows"][0]["download"] = json!(true);
    down["flows"][0]["cc"] = json!("reno");
    down["flows"][0]["app"] = json!({"kind": "transfer", "bytes": 5_000_000});
    let flow = &Run::planned(&parts, "download", &down).good()["flows"][0];
    let last = |list: &str| flow[list].as_array().and_then(|points| points.last()?.get(1)?.as_u64());
    assert_eq!((last("written"), last("read")), (Some(5_000_000), Some(5_000_000)));
    assert!(flow["finished_ns"].is_u64() && flow["fallback"] == false, "{flow}");
    let of = |name: &str| [0, 1].map(|number| flow["subflows"][number][name].as_str().unwrap_or_default().to_owned());
    assert_eq!(of("cc"), ["reno", "reno"]);
    assert!(of("destination")[0].starts_with("10.11.1.1:") && of("destination")[1].starts_with("10.12.1.1:"), "{flow}");
}

#[test]
fn a_dumbbell_is_shared() {
    let Some(parts) = parts() else { return };
    let result = Run::planned(&parts, "dumbbell", &plan(include_str!("plans/dumbbell.json"))).good();
    let [first, second] = [0, 1].map(|number| goodput(&result["flows"][number], 2.0, 10.0));
    assert!(first > 3.0 && second > 3.0 && (18.0..19.2).contains(&(first + second)), "{first} {second}");
}

/// A wire between two ports with a second place on the link, changes of its rate, two-state loss, a
/// path that goes away, captures, and an application of each kind.
#[test]
fn everything_a_plan_can_say_is_done() {
    let Some(parts) = parts() else { return };
    let run = Run::planned(&parts, "everything", &plan(include_str!("plans/everything.json")));
    let result = run.good();
    let flows = &result["flows"];
    // Transfer: all of it, and the end seen. On/off: 200 of 500 ms at 1 Mbit/s for 2 s make
    // 100,000 bytes.
    let last = |flow: &Value, list: &str| flow[list].as_array().and_then(|points| points.last()?.get(1)?.as_u64());
    assert_eq!(last(&flows[1], "read"), Some(1_000_000));
    assert!(flows[1]["finished_ns"].is_u64());
    assert_eq!((last(&flows[2], "written"), last(&flows[2], "read")), (Some(100_000), Some(100_000)));
    // The second path is there, and 3 s after the connection was established its subflow begins to
    // close.
    let samples = run.bytes("sockets.bin");
    let field = |record: &[u8], at: usize| u64::from(u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]));
    let of_second = samples.chunks_exact(320).filter(|record| field(record, 8) == 0 && field(record, 12) == 1 && field(record, 20) == 1);
    let times: Vec<u64> = of_second.map(|record| (field(record, 0) + (field(record, 4) << 32)) / 1_000_000).collect();
    assert_eq!((times.first(), times.last()), (Some(&100), Some(&3000)));
    // Ethernet in the captures; the first packet is the connection's, on the machine's clock, whose
    // first second is 1 735 689 601.
    assert_eq!(result["capture_losses"], json!({"c-c2.pcapng": 0, "x-x1.pcapng": 0}));
    let pcap = run.bytes("x-x1.pcapng");
    // Until 2 s 20 Mbit/s, then 5 (each packet counts 4 bytes more), from 4 s on as fast as they
    // come.
    let (mut at, mut bytes, mut first) = (0, [0_u64; 7], None);
    while at < pcap.len() {
        let word = |offset: usize| field(&pcap, at + offset);
        match word(0) {
            1 => assert_eq!((word(8), word(12)), (1, 96), "Ethernet, snaplen"),
            6 => {
                let (seconds, length) = ((word(12) << 32 | word(16)) / 1_000_000_000 - 1_735_689_601, word(24));
                first = first.or(Some(seconds));
                // Data only, which is what goes out.
                bytes[seconds as usize] += if length > 200 { length + 4 } else { 0 };
            }
            _ => {}
        }
        at += word(4) as usize;
    }
    assert_eq!(first, Some(0));
    let rates = bytes.map(|bytes| bytes * 8 / 1_000);
    assert!((19_000..=20_020).contains(&rates[1]) && (4_800..=5_020).contains(&rates[3]) && rates[4] > 6_000, "{rates:?}");
    assert!(result["counters"]["c"]["MPTcpExtMPJoinSynAckRx"].is_i64() && result["counters"]["s"]["TcpExtTCPTimeouts"] != 0);
}

#[test]
fn what_a_kernel_does_not_have_is_named() {
    let Some(parts) = parts() else { return };
    let mut wanting = tcp();
    wanting["flows"][0]["cc"] = json!("nonsense");
    let run = Run::planned(&parts, "nonsense", &wanting);
    assert_eq!(run.start(&[]), Ok(()));
    assert_eq!(run.result()["error"], "flow f: this kernel has no congestion control nonsense");
    let mut wrong = tcp();
    wrong["flows"][0]["speed"] = json!(9);
    let run = Run::planned(&parts, "unknown", &wrong);
    assert_eq!(run.start(&[]), Ok(()));
    let told = run.result()["error"].as_str().unwrap_or_default().to_owned();
    assert!(told.starts_with("plan.json: unknown field `speed`"), "{told}");
}

#[test]
fn another_algorithm_than_the_namespaces_own_is_used_on_every_subflow() {
    let Some(parts) = parts() else { return };
    let mut other = plan(include_str!("plans/mptcp.json"));
    other["flows"][0]["cc"] = json!("reno");
    other["duration_ns"] = json!(1_000_000_000);
    let result = Run::planned(&parts, "reno", &other).good();
    let used = [0, 1].map(|number| result["flows"][0]["subflows"][number]["cc"].clone());
    assert_eq!(used, [json!("reno"), json!("reno")]);
}

#[test]
fn a_flow_that_nobody_answers_says_so_and_the_run_ends() {
    let Some(parts) = parts() else { return };
    let mut deaf = tcp();
    deaf["duration_ns"] = json!(500_000_000);
    deaf["routes"] = json!([]);
    let run = Run::planned(&parts, "deaf", &deaf);
    assert_eq!(run.start(&[]), Ok(()));
    let result = run.result();
    assert_eq!(
        (&result["flows"][0]["error"], &result["ended_ns"]),
        (&json!("connect: Network is unreachable (os error 101)"), &json!(100_000_000))
    );
}

#[test]
fn a_kernel_without_its_program_or_memory_says_what_it_died_of() {
    let Some(parts) = parts() else { return };
    let run = Run::planned(&parts, "dies", &tcp());
    let told = run.start(&["--memory", "8M"]).expect_err("8 MB are too few");
    assert!(told.starts_with("the machine died (exit status 1): Too few physical memory!"), "{told}");
    fs::remove_file(run.folder.join("root/init")).expect("it is ours");
    let told = run.start(&[]).expect_err("a kernel needs a program");
    assert!(told.starts_with("the machine died (signal 6): Kernel panic - not syncing: Requested init /init failed"), "{told}");
}

#[test]
fn a_script_runs_as_root_with_the_hosts_files_and_may_not_change_them() {
    let Some(parts) = parts() else { return };
    let run = Run::new(&parts, "script");
    let script = "id -u; ls -d /usr; echo x >/usr/polypath-test && echo written; echo data >$OUT/file; ls /proc | grep -c '^1$'; exit 7";
    fs::write(run.folder.join("script"), script).expect("the folder can be written");
    assert_eq!(run.start(&[]), Ok(()));
    assert_eq!((run.bytes("status"), run.bytes("file")), (b"7\n".to_vec(), b"data\n".to_vec()));
    let log = fs::read_to_string(run.folder.join("log")).expect("the guest writes it");
    assert!(log.starts_with("0\n/usr\n") && log.contains("Read-only") && log.ends_with("\n1\n"), "{log}");
}

#[test]
fn a_script_that_hangs_is_killed() {
    let Some(parts) = parts() else { return };
    let run = Run::new(&parts, "hangs");
    fs::write(run.folder.join("script"), "while :; do :; done").expect("the folder can be written");
    let told = run.start(&["--timeout", "3"]).expect_err("it never ends");
    assert!(told.starts_with("the machine did not end within 3 s of processor time and was killed"), "{told}");
}
