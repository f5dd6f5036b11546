//! The machine's keeper with programs in the kernel's place: whatever they do, it says how they
//! ended, and none of them outlives it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder for one test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("polypath-keeper-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Self(path)
    }

    /// A script in the kernel's place.
    fn kernel(&self, script: &str) -> PathBuf {
        let file = self.0.join("kernel");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("the folder can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        file
    }

    fn keeper(&self, kernel: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_polypath-machine"));
        command.arg("--dir").arg(&self.0).arg("--kernel").arg(kernel).args(["--seed", "7", "--memory", "64M"]);
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn words(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
}

/// Processes, dead ones that wait to be noticed apart, whose command line has this text.
fn processes_with(text: &str) -> usize {
    let numbers = fs::read_dir("/proc").expect("there is a /proc").flatten().map(|entry| entry.path());
    numbers.filter(|path| fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))).count()
}

/// Waits until the number of processes with this text is as expected, at most some ten seconds.
fn becomes(text: &str, expected: impl Fn(usize) -> bool) -> bool {
    (0..1000).any(|_| {
        let there = expected(processes_with(text));
        if !there {
            Command::new("sleep").arg("0.01").status().expect("there is a sleep");
        }
        there
    })
}

#[test]
fn a_machine_that_powers_off_is_a_success_and_sees_only_what_it_may() {
    let folder = Folder::new("off");
    let kernel = folder.kernel("env | sort >seen; echo \"$@\" >>seen; pwd >>seen; grep -h SigBlk /proc/self/status >>seen");
    let output = folder.keeper(&kernel).env("LEAK", "1").output().expect("the keeper starts");
    assert_eq!(words(&output), (Some(0), String::new()));
    let seen = fs::read_to_string(folder.0.join("seen")).expect("the program wrote it");
    let here = folder.0.display();
    assert!(
        seen.contains(&format!("HOME={here}\n")) && seen.contains(&format!("TMPDIR={here}\n")) && seen.contains("UML_SEED=7\n"),
        "{seen}"
    );
    assert!(!seen.contains("LEAK") && !seen.contains("PATH=/root"), "{seen}");
    assert!(seen.contains("mem=64M root=/dev/root rootfstype=hostfs rootflags=/proc/self/cwd/root rw init=/init"), "{seen}");
    assert!(seen.contains("SigBlk:\t0000000000000000"), "{seen}");
}

#[test]
fn how_a_machine_died_is_said_in_one_line() {
    let folder = Folder::new("died");
    let kernel = folder.kernel("echo one; echo 'Kernel panic - not syncing: no init'; echo two >&2; exit 3");
    let output = folder.keeper(&kernel).output().expect("the keeper starts");
    let told = "the machine died (exit status 3): Kernel panic - not syncing: no init";
    assert_eq!(words(&output), (Some(1), told.to_owned()));
    let kernel = folder.kernel("kill -9 $$");
    let output = folder.keeper(&kernel).output().expect("the keeper starts");
    assert_eq!(words(&output), (Some(1), "the machine died (signal 9): it said nothing".to_owned()));
}

#[test]
fn what_is_no_kernel_is_named() {
    let folder = Folder::new("none");
    let output = folder.keeper(Path::new("/nowhere/linux")).output().expect("the keeper starts");
    let (status, told) = words(&output);
    assert_eq!(status, Some(1));
    assert!(told.starts_with("no kernel /nowhere/linux: "), "{told}");
    let text = folder.0.join("text");
    fs::write(&text, "not a program").expect("the folder can be written");
    let (status, told) = words(&folder.keeper(&text).output().expect("the keeper starts"));
    assert_eq!(status, Some(1));
    assert!(told.starts_with("the kernel ") && told.contains(" does not start: "), "{told}");
}

#[test]
fn a_machine_that_hangs_is_killed_with_its_helpers_in_sessions_of_their_own() {
    let folder = Folder::new("hangs");
    let mark = format!("99{}.25", std::process::id());
    let kernel = folder.kernel(&format!("echo last words; setsid sleep {mark} & (setsid sleep {mark} &) ; sleep {mark}"));
    let output = folder.keeper(&kernel).args(["--timeout", "1"]).output().expect("the keeper starts");
    let told = "the machine did nothing for 1 s and was killed: last words";
    assert_eq!(words(&output), (Some(1), told.to_owned()));
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn a_machine_that_spins_is_killed_after_its_processor_time_whichever_of_its_processes_does() {
    let folder = Folder::new("spins");
    for script in ["while :; do :; done", "(while :; do :; done) & wait", "while :; do /bin/true; done"] {
        let kernel = folder.kernel(&format!("echo last words; {script}"));
        let output = folder.keeper(&kernel).args(["--timeout", "1"]).output().expect("the keeper starts");
        let told = "the machine did not end within 1 s of processor time and was killed: last words";
        assert_eq!(words(&output), (Some(1), told.to_owned()), "{script}");
    }
}

#[test]
fn a_machine_that_is_slow_or_stopped_for_longer_than_its_timeout_lives() {
    let folder = Folder::new("slow");
    // Some hundredths of processor time between two sleeps, 3 s in all.
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let kernel = folder.kernel(&format!("for turn in 1 2 3 4 5 6; do {work}; sleep 0.5; done"));
    let output = folder.keeper(&kernel).args(["--timeout", "1"]).output().expect("the keeper starts");
    assert_eq!(words(&output), (Some(0), String::new()));
    // As after Ctrl-Z, with its keeper.
    let mark = format!("3.{}96", std::process::id());
    let kernel = folder.kernel(&format!("sleep {mark}; exit 0"));
    let keeper = folder.keeper(&kernel).args(["--timeout", "2"]).stderr(Stdio::piped()).spawn().expect("the keeper starts");
    assert!(becomes(&mark, |count| count > 0), "the machine did not start");
    let stopped = format!("kill -STOP {0}; sleep 2.5; kill -CONT {0}", keeper.id());
    Command::new("/bin/sh").args(["-c", &stopped]).status().expect("there is a shell");
    assert_eq!(words(&keeper.wait_with_output().expect("it is ours")), (Some(0), String::new()));
}

#[test]
fn nothing_stays_after_kill_9_of_the_parent() {
    let folder = Folder::new("parent");
    let mark = format!("98{}.25", std::process::id());
    let kernel = folder.kernel(&format!("setsid sleep {mark} & (setsid sleep {mark} &) ; sleep {mark}"));
    let keeper = env!("CARGO_BIN_EXE_polypath-machine");
    let line = format!("'{keeper}' --dir '{}' --kernel '{}'; true", folder.0.display(), kernel.display());
    let mut parent = Command::new("/bin/sh").args(["-c", &line]).stderr(Stdio::null()).spawn().expect("there is a shell");
    assert!(becomes(&mark, |count| count >= 3), "the helpers did not start");
    parent.kill().expect("it is ours");
    parent.wait().expect("it is ours");
    assert!(becomes(&mark, |count| count == 0), "helpers outlived the parent");
}

#[test]
fn nothing_stays_after_the_keeper_is_told_to_end() {
    let folder = Folder::new("told");
    let mark = format!("97{}.25", std::process::id());
    let kernel = folder.kernel(&format!("setsid sleep {mark} & sleep {mark}"));
    let keeper = folder.keeper(&kernel).stderr(Stdio::piped()).spawn().expect("the keeper starts");
    assert!(becomes(&mark, |count| count >= 2), "the helpers did not start");
    // The shell's own: a small machine has no program `kill`.
    Command::new("/bin/sh").args(["-c", &format!("kill {}", keeper.id())]).status().expect("there is a shell");
    let output = keeper.wait_with_output().expect("it is ours");
    assert_eq!(words(&output), (Some(1), "the machine was killed: this was asked for".to_owned()));
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn wrong_arguments_are_named() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_polypath-machine")).args(["--dir", "x", "--speed", "9"]).output().expect("the keeper starts");
    let (status, told) = words(&output);
    assert_eq!(status, Some(2));
    assert!(told.starts_with("polypath-machine: --speed is not known\nusage: "), "{told}");
}
