//! What a program must do beside a script that is watched. Packets, sockets and counters are
//! written down by the kernel itself (`cc/kernel/observe.c`); here are the names of the network
//! namespaces, and the shell that a person gets at a virtual instant.
//!
//! A run that nobody watches has the same thread with the same sleeps and the same calls: a thread
//! has a number, and reading a clock costs virtual time.

use crate::sys::{self, Error, Outcome};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Between two polls, ns.
const PERIOD: u64 = 10_000_000;
const NAMESPACES: &str = "/run/netns";
/// Written to, the kernel writes down the counters of all namespaces.
const FINISH: &str = "/proc/sys/polypath/observe";
/// A person's lines, and what they see. While the kernel waits for a line the machine stands still.
const PERSON: &str = "/proc/sys/polypath/shell";
const TRACING: &str = "/sys/kernel/tracing";
/// Ends what a command of the person printed.
const MARK: u8 = 1;

/// Of a script, and of a person's shell beside it.
pub(crate) const ENVIRONMENT: [(&str, &str); 4] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/tmp"),
    ("LC_ALL", "C.UTF-8"),
    ("OUT", "/run/polypath/results"),
];

/// What is wanted, as the file `observe` of the run's folder says; the kernel reads the rest of it.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Everything is written down.
    all: bool,
    /// When the shell opens, ns since the machine's start.
    shell_at: Option<u64>,
}

impl Wanted {
    /// First line "all" or "idle", fifth line the shell's instant or nothing.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        Self { all: lines.next() == Some("all"), shell_at: lines.nth(3).and_then(|at| at.trim().parse().ok()) }
    }
}

/// A thread that polls every 10 ms until it is told to end.
#[derive(Debug)]
pub(crate) struct Observer {
    results: PathBuf,
    all: bool,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Outcome<()>>,
}

impl Observer {
    pub(crate) fn start(wanted: Wanted, results: PathBuf) -> Self {
        let (all, ended, folder) = (wanted.all, Arc::new(AtomicBool::new(false)), results.clone());
        let told = Arc::clone(&ended);
        let thread = std::thread::spawn(move || watch(&wanted, &folder, &told));
        Self { results, all, ended, thread }
    }

    /// Ends it, and has everything written down.
    pub(crate) fn finish(self) -> Outcome<()> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(Error::machine("the observer died")))?;
        std::fs::write(FINISH, "1").map_err(|e| Error::machine(format!("{FINISH}: {e}")))?;
        if !self.all {
            return Ok(());
        }
        // A kernel without tracing has no such file system, and a script may have mounted it
        // already.
        let _there = sys::mount("none", TRACING, "tracefs", 0, "");
        for (from, to) in [("trace", "trace"), ("per_cpu/cpu0/stats", "trace.stats")] {
            if let Ok(mut from) = File::open(Path::new(TRACING).join(from)) {
                let copied = File::create(self.results.join(to)).and_then(|mut to| std::io::copy(&mut from, &mut to));
                copied.map_err(|e| Error::machine(format!("{to}: {e}")))?;
            }
        }
        Ok(())
    }
}

fn watch(wanted: &Wanted, results: &Path, ended: &AtomicBool) -> Outcome<()> {
    let failed = |e: std::io::Error| Error::machine(format!("the names of the namespaces: {e}"));
    let mut file = File::create(results.join("namespaces")).map_err(failed)?;
    let mut known = BTreeSet::new();
    let (mut changed, mut again) = (None, false);
    let mut shell_at = wanted.shell_at;
    let mut at = sys::monotonic();
    while !ended.load(Ordering::Relaxed) {
        let now = std::fs::metadata(NAMESPACES).map(|folder| (folder.mtime(), folder.mtime_nsec())).ok();
        if now != changed || again {
            let (named, whole) = namespaces();
            // The folder's time counts in ticks of 4 ms: what is added after this poll may have the
            // same.
            again = now != changed || !whole;
            changed = now;
            for (number, name) in named {
                if known.insert((number, name.clone())) {
                    writeln!(file, "{number} {name}").map_err(failed)?;
                }
            }
        }
        at += PERIOD;
        if let Some(open) = shell_at.filter(|&open| open < at) {
            shell_at = None;
            sys::sleep_until(open);
            shell(results)?;
        }
        sys::sleep_until(at);
    }
    Ok(())
}

/// Numbers and names, and whether that is all: `ip netns add` makes the file before it is a
/// namespace.
fn namespaces() -> (Vec<(u64, String)>, bool) {
    let entries: Vec<_> = std::fs::read_dir(NAMESPACES).map(|entries| entries.flatten().collect()).unwrap_or_default();
    let named = |entry: &std::fs::DirEntry| {
        // The file's own number: nothing is mounted there yet.
        let number = std::fs::metadata(entry.path()).ok()?.ino();
        let name = entry.file_name().into_string().ok()?;
        (number != entry.ino()).then_some((number, name))
    };
    let found: Vec<_> = entries.iter().filter_map(named).collect();
    let whole = found.len() == entries.len();
    (found, whole)
}

/// A person's lines, one by one, in one shell.
fn shell(results: &Path) -> Outcome<()> {
    let failed = |e: std::io::Error| Error::machine(format!("the shell: {e}"));
    std::fs::write(results.join("shell"), "").map_err(failed)?;
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "exec /bin/sh 2>&1"])
        .env_clear()
        .envs(ENVIRONMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    loop {
        let now = sys::monotonic();
        say(format!("{}.{:06} s # ", now / 1_000_000_000, now % 1_000_000_000 / 1000).as_bytes()).map_err(failed)?;
        let line = heard().map_err(failed)?;
        if line.is_empty() || line.trim() == "exit" || !carry_out(&mut shell, line.trim_end()).map_err(failed)? {
            break;
        }
    }
    drop(shell.stdin.take());
    shell.wait().map(drop).map_err(failed)
}

/// False if the shell is gone.
fn carry_out(shell: &mut Child, line: &str) -> std::io::Result<bool> {
    let (Some(input), Some(output)) = (&mut shell.stdin, &mut shell.stdout) else { return Ok(false) };
    // `command` keeps a mistake in the line from ending the shell.
    let quoted = line.replace('\'', r"'\''");
    if writeln!(input, "command eval '{quoted}'\nprintf '\\{MARK:03o}'").is_err() {
        return Ok(false);
    }
    let mut bytes = [0; 4096];
    loop {
        let length = output.read(&mut bytes)?;
        let printed = &bytes[..length];
        let end = printed.iter().position(|&byte| byte == MARK);
        say(&printed[..end.unwrap_or(length)])?;
        if end.is_some() || length == 0 {
            return Ok(end.is_some());
        }
    }
}

fn say(bytes: &[u8]) -> std::io::Result<()> {
    if bytes.is_empty() { Ok(()) } else { std::fs::write(PERSON, bytes) }
}

fn heard() -> std::io::Result<String> {
    let mut bytes = [0; 4096];
    let length = File::open(PERSON)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_what_is_wanted() {
        let Wanted { all, shell_at } = Wanted::parse("all\ntcp:*\nmodule mptcp +p\n0 0\n3200000000\n");
        assert_eq!((all, shell_at), (true, Some(3_200_000_000)));
        let Wanted { all, shell_at } = Wanted::parse("idle");
        assert_eq!((all, shell_at), (false, None));
    }
}
