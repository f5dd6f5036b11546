//! `polypath-guest`: the first and only program of the linux engine's machine. It mounts what it
//! needs, does what lies in the run's folder (`script`, or else `plan.json`) and powers the machine
//! off, whatever happens.

use polypath_guest::plan::Plan;
use polypath_guest::records::RunResult;
use polypath_guest::sys::{self, Error, Outcome};
use std::io::Write;
use std::path::Path;

/// The run's folder.
const FOLDER: &str = "/run/polypath";
const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";

fn main() {
    if std::process::id() != 1 {
        eprintln!("polypath-guest: this is the first program of a virtual machine: `polypath run --engine linux` starts it there");
        std::process::exit(2);
    }
    std::panic::set_hook(Box::new(|panic| {
        let words = format!("the guest itself failed: {panic}");
        log(&words);
        let mut result = RunResult::default();
        result.fail(&Error::machine(words));
        let _written = write_result(&result);
        sys::power_off();
    }));
    if let Err(wrong) = mount() {
        // Nothing can be written down: the kernel says so by its own end, and the host reads that.
        panic!("{wrong}");
    }
    if let Err(wrong) = work() {
        log(&wrong.to_string());
        let mut result = RunResult::default();
        result.fail(&wrong);
        let _written = write_result(&result);
    }
    sys::power_off();
}

fn mount() -> Outcome<()> {
    for place in ["/proc", "/run", "/dev", "/sys", "/tmp"] {
        // They are there already in a machine that polypath has made.
        let _there = std::fs::create_dir(place);
    }
    sys::mount("proc", "/proc", "proc", 0, "")?;
    sys::mount("tmpfs", "/run", "tmpfs", 0, "")?;
    std::fs::create_dir(FOLDER).map_err(|e| Error::machine(format!("{FOLDER}: {e}")))?;
    sys::mount("none", FOLDER, "hostfs", 0, "/proc/self/cwd")?;
    // Messages of the kernel would go to a console.
    std::fs::write("/proc/sys/kernel/printk", "0").map_err(|e| Error::machine(format!("printk: {e}")))?;
    // Beyond the first namespace Linux takes only algorithms of the second list as a default
    // (`tcp_set_default_congestion_control`).
    let list = |which: &str| format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
    let all = std::fs::read(list("available")).map_err(|e| Error::machine(format!("{}: {e}", list("available"))))?;
    std::fs::write(list("allowed"), all).map_err(|e| Error::machine(format!("{}: {e}", list("allowed"))))
}

fn work() -> Outcome<()> {
    let folder = Path::new(FOLDER);
    if folder.join("script").exists() {
        return polypath_guest::run_script().map(drop);
    }
    let text = std::fs::read(folder.join("plan.json")).map_err(|e| Error::machine(format!("plan.json: {e}")))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|e| Error::machine(format!("plan.json: {e}")))?;
    if !plan.tunnels.is_empty() {
        // With it comes /dev/net/tun.
        sys::mount("devtmpfs", "/dev", "devtmpfs", 0, "")?;
    }
    if plan.machine.iter().any(|(file, _)| file.starts_with("sys/")) {
        sys::mount("sysfs", "/sys", "sysfs", 0, "")?;
    }
    // All hosts share one processor's queue of packets between two devices. A window that opens at
    // once does not fit into Linux's 1000, and only a link of the study may lose packets.
    std::fs::write(BACKLOG, "1000000").map_err(|e| Error::machine(format!("{BACKLOG}: {e}")))?;
    let mut result = polypath_guest::run(&plan, &folder.join("results"));
    let dropped = dropped_between_devices()?;
    if dropped > 0 {
        result.fail(&Error::machine(format!("{dropped} packets were lost between two devices, which no link of the study did")));
    }
    write_result(&result)
}

/// Packets that found the queue between devices full: the second column, a line a processor.
fn dropped_between_devices() -> Outcome<u64> {
    const FILE: &str = "/proc/net/softnet_stat";
    let text = std::fs::read_to_string(FILE).map_err(|e| Error::machine(format!("{FILE}: {e}")))?;
    let dropped = |line: &str| line.split_whitespace().nth(1).and_then(|count| u64::from_str_radix(count, 16).ok());
    text.lines().map(dropped).sum::<Option<u64>>().ok_or_else(|| Error::machine(format!("{FILE} has no second column: {text}")))
}

fn write_result(result: &RunResult) -> Outcome<()> {
    let text = serde_json::to_vec(result).map_err(|e| Error::machine(format!("result.json: {e}")))?;
    std::fs::write(Path::new(FOLDER).join("results/result.json"), text).map_err(|e| Error::machine(format!("result.json: {e}")))
}

fn log(words: &str) {
    if let Ok(mut file) = std::fs::File::options().append(true).create(true).open(Path::new(FOLDER).join("log")) {
        let _written = writeln!(file, "{words}");
    }
}
