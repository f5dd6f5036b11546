//! What keeps a process to computing: no file, no network, no other process and no program.
//!
//! A filter of system calls (seccomp) lets through what the C library needs for memory, and writing
//! to one pipe; any other call ends the process. Landlock, where the kernel has it, takes the file
//! system and the network away once more.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::process;

use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, Scope};
use polypath_base::Error;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};

/// Confines this process, which has one thread, for good; it writes to `pipe` alone from now on.
pub(crate) fn confine(pipe: RawFd) -> Result<(), Error> {
    let filter = filter(pipe).map_err(|error| unconfined(&error.to_string()))?;
    // What the kernel lacks of it is left out: the filter is what must be there.
    let landlock = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .restrict_self()
    };
    landlock().map_err(|error| unconfined(&error.to_string()))?;
    // The C library would look for a setting of the kernel's before it gives memory back. The
    // second number is where it would arrive itself. SAFETY: numbers are set, and no other thread
    // allocates.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, c_int::MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
    }
    apply_filter(&filter).map_err(|error| unconfined(&error.to_string()))
}

fn filter(pipe: RawFd) -> Result<BpfProgram, BackendError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let only = |argument, how, value| SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)?]);
    let anonymous = libc::MAP_ANONYMOUS as u64;
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    allowed.insert(libc::SYS_write, vec![only(0, SeccompCmpOp::Eq, pipe as u64)?]);
    // Memory of no file: what is open in the process it came from is open here.
    allowed.insert(libc::SYS_mmap, vec![only(3, SeccompCmpOp::MaskedEq(anonymous), anonymous)?]);
    // A signal to itself, of which it dies.
    allowed.insert(libc::SYS_tgkill, vec![only(0, SeccompCmpOp::Eq, u64::from(process::id()))?]);
    SeccompFilter::new(allowed, SeccompAction::KillProcess, SeccompAction::Allow, arch)?.try_into()
}

const NEWEST: ABI = ABI::V6;

/// Memory, time, and the end of the process.
const ALLOWED: [i64; 15] = [
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

fn unconfined(why: &str) -> Error {
    Error::machine(format!(
        "this machine cannot confine an algorithm of your own, so that it is not run: {why}; it needs a kernel with seccomp, and leave to use it"
    ))
}
