//! Runs one virtual machine as processes of this machine: the only module that belongs to the
//! host's side.
//!
//! User-Mode Linux is a process with helpers and a traced process for each address space inside, in
//! sessions of their own. This process adopts what they leave (subreaper), learns when its own
//! parent dies, and kills whatever is left before it ends itself. Should it be killed itself, the
//! kernel dies with it, and the traced processes with the kernel.

use crate::host::{self, Signals};
use crate::sys::{self, Error, Outcome};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// What the kernel is told, the same for every run and machine: it mixes its command line into its
/// random numbers. The root file system is the folder `root` of the run's folder, time starts on 1
/// January 2025 and stands still while the kernel works, nothing goes to a console.
const COMMAND_LINE: [&str; 13] = [
    "root=/dev/root",
    "rootfstype=hostfs",
    "rootflags=/proc/self/cwd/root",
    "rw",
    "init=/init",
    "time-travel=inf-cpu",
    "time-travel-start=1735689600000000000",
    "con=null",
    // A panic is told there, and nothing else.
    "con0=null,fd:2",
    "con1=null",
    "quiet",
    // A socket diagnostics dump walks the whole table.
    "thash_entries=128",
    "uhash_entries=128",
];
/// A static program of a recent glibc dies as a User-Mode Linux with restartable sequences.
const TUNABLES: &str = "glibc.pthread.rseq=0";

/// What to start.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The run's folder.
    pub folder: PathBuf,
    pub kernel: PathBuf,
    /// Of the kernel's random numbers.
    pub seed: u64,
    /// As `mem=` wants it: "512M".
    pub memory: String,
    /// It is killed when its processes have used this much processor time, so that a busy host does
    /// not end it, or have used none for this long.
    pub timeout: Option<Duration>,
}

/// Why the wait for the machine ended.
enum End {
    Exited(ExitStatus),
    Endless,
    Still,
    /// A signal told this process to end, or its parent is gone.
    Unwanted(&'static str),
}

/// Runs a machine until it powers itself off. An error is one line that says how it died instead.
pub fn run(machine: &Machine) -> Outcome<()> {
    let name = machine.kernel.display();
    let kernel = machine.kernel.canonicalize().map_err(|e| Error::caller(format!("no kernel {name}: {e}")))?;
    let folder = machine.folder.canonicalize().map_err(|e| Error::caller(format!("no folder {}: {e}", machine.folder.display())))?;
    let parent = host::adopt_orphans();
    // Kept until the machine has ended.
    let _processor = host::claim_processor();
    let signals = Signals::block()?;
    let mut console = host::memory_file()?;
    let out = |file: &File| file.try_clone().map_err(|e| Error::machine(format!("console: {e}")));
    let mut command = Command::new(kernel);
    command.arg(format!("mem={}", machine.memory)).args(COMMAND_LINE).current_dir(&folder).env_clear();
    command.env("UML_SEED", machine.seed.to_string()).env("GLIBC_TUNABLES", TUNABLES).env("HOME", &folder).env("TMPDIR", &folder);
    command.stdin(Stdio::null()).stdout(out(&console)?).stderr(out(&console)?);
    host::prepare(&mut command, &signals);
    let mut child = command.spawn().map_err(|e| Error::machine(format!("the kernel {name} does not start: {e}")))?;
    let end = wait(&mut child, &signals, parent, machine.timeout);
    host::kill_descendants();
    let seconds = machine.timeout.unwrap_or_default().as_secs();
    let mut last = || last_words(&mut console);
    match end? {
        End::Exited(status) if status.success() => Ok(()),
        End::Exited(status) => Err(Error::machine(format!("the machine died ({}): {}", death(status), last()))),
        End::Endless => {
            Err(Error::machine(format!("the machine did not end within {seconds} s of processor time and was killed: {}", last())))
        }
        End::Still => Err(Error::machine(format!("the machine did nothing for {seconds} s and was killed: {}", last()))),
        End::Unwanted(why) => Err(Error::machine(format!("the machine was killed: {why}"))),
    }
}

fn wait(child: &mut Child, signals: &Signals, parent: libc::pid_t, timeout: Option<Duration>) -> Outcome<End> {
    /// The parent's death is signalled; this is for one that came before the signal was asked for.
    const PARENT: Duration = Duration::from_secs(2);
    let beat = timeout.map_or(PARENT, |timeout| (timeout / 4).min(PARENT));
    let (mut used, mut still, mut looked) = (Duration::ZERO, Duration::ZERO, sys::monotonic());
    loop {
        if let Some(status) = child.try_wait().map_err(|e| Error::machine(format!("waiting for the kernel: {e}")))? {
            return Ok(End::Exited(status));
        }
        if host::parent() != parent {
            return Ok(End::Unwanted("the program that started it is gone"));
        }
        if let Some(timeout) = timeout {
            let (before, since) = (used, looked);
            (used, looked) = (host::processor_time(), sys::monotonic());
            // At most a beat: this process may have been stopped together with the machine.
            let quiet = Duration::from_nanos(looked - since).min(beat);
            still = if used == before { still + quiet } else { Duration::ZERO };
            if used >= timeout {
                return Ok(End::Endless);
            }
            if still >= timeout {
                return Ok(End::Still);
            }
        }
        // Anything else is a child's or the parent's death, or time that has gone by: poll again.
        // The signal of the parent's death also comes when only the thread of the parent that
        // started this process has ended.
        if let Some(libc::SIGTERM | libc::SIGINT | libc::SIGHUP) = signals.wait(beat) {
            return Ok(End::Unwanted("this was asked for"));
        }
    }
}

fn death(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// The last lines of the console on one line; of a panic only what it is, without the stack.
fn last_words(console: &mut File) -> String {
    const KEPT: i64 = 64 << 10;
    const LINES: usize = 5;
    const LENGTH: usize = 600;
    let mut bytes = Vec::new();
    let length = console.seek(SeekFrom::End(0)).unwrap_or(0) as i64;
    let read = console.seek(SeekFrom::Start((length - KEPT).max(0) as u64)).and_then(|_| console.read_to_end(&mut bytes));
    if read.is_err() {
        return "its console cannot be read".to_owned();
    }
    let text: String = String::from_utf8_lossy(&bytes).chars().map(|c| if c == '\n' || !c.is_control() { c } else { ' ' }).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let panic = lines.iter().position(|line| line.contains("Kernel panic"));
    let chosen = match panic {
        Some(at) => &lines[at..=at],
        None => &lines[lines.len().saturating_sub(LINES)..],
    };
    if chosen.is_empty() { "it said nothing".to_owned() } else { chosen.join(" | ").chars().take(LENGTH).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn console(text: &str) -> String {
        let mut file = host::memory_file().expect("every Linux of the last ten years has memory files");
        file.write_all(text.as_bytes()).expect("memory files can be written");
        last_words(&mut file)
    }

    #[test]
    fn a_panic_is_told_without_its_stack() {
        let told = console("booting\nKernel panic - not syncing: No working init found.\r\nCPU: 0\n\nstack\na\nb\nc\nd\n");
        assert_eq!(told, "Kernel panic - not syncing: No working init found.");
    }

    #[test]
    fn otherwise_the_last_lines_are_told() {
        assert_eq!(console("1\n2\n3\n4\n5\n6\n"), "2 | 3 | 4 | 5 | 6");
        assert_eq!(console(""), "it said nothing");
    }
}
