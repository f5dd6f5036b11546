//! What the daemon gives up once its device and its sockets are there: root, all capabilities but
//! CAP_NET_ADMIN, and most of the kernel's calls.

use polypath_base::Error;
use polypath_io::{keep_net_admin_only, leave_root, user};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// A user of the daemon's own, a number that no system gives to anybody ("poly" in ASCII; systemd's
/// UIDS-GIDS has its range as unused), and nobody, for containers that have not so many users.
const USERS: [u32; 2] = [0x706f_6c79, 65534];

/// What a daemon may do.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Rights {
    pub(crate) user: u32,
    pub(crate) filtered: bool,
}

/// Gives up what is not needed, for this thread and those that it starts. What the machine does not
/// let us give up is told to `log`.
pub(crate) fn give_up(log: &dyn Fn(&str)) -> Result<Rights, Error> {
    if user() == 0 {
        let left = USERS.iter().map(|&user| leave_root(user)).reduce(Result::or);
        if let Some(Err(failed)) = left {
            log(&format!("the daemon stays root: {failed}"));
        }
    }
    keep_net_admin_only(true)?;
    let filtered = match filter() {
        Ok(()) => true,
        Err(error) => {
            log(&format!("the daemon's system calls are not filtered: {error}"));
            false
        }
    };
    Ok(Rights { user: user(), filtered })
}

/// Lets all threads call what they need. All else fails as if the kernel did not have it (ENOSYS):
/// for that a library has another way, so a new libc does not end a tunnel. What only an intruder
/// calls ends the process.
fn filter() -> Result<(), seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let never = NEVER.iter().map(|&call| (call, Vec::new())).collect();
    let killer: BpfProgram = SeccompFilter::new(never, SeccompAction::Allow, SeccompAction::KillProcess, arch)?.try_into()?;
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let needed: BpfProgram = SeccompFilter::new(needed()?, unknown, SeccompAction::Allow, arch)?.try_into()?;
    apply_filter(&killer)?;
    // The last: it lets nobody add another one.
    apply_filter(&needed)
}

/// Calls of the daemon, by number, with what their arguments must be.
fn needed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let one_of = |argument: u8, values: &[u64]| -> Result<Vec<SeccompRule>, seccompiler::Error> {
        let rule = |&value| {
            let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
            SeccompRule::new(vec![condition])
        };
        values.iter().map(|value| rule(value).map_err(Into::into)).collect()
    };
    let masked = |argument: u8, mask: u64, value: u64| -> Result<Vec<SeccompRule>, seccompiler::Error> {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = ALWAYS.iter().map(|&call| (call, Vec::new())).collect();
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| family as u64);
    calls.insert(libc::SYS_socket, one_of(0, &families)?);
    calls.insert(libc::SYS_ioctl, one_of(1, &IOCTLS)?);
    calls.insert(libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME as u64])?);
    // A signal to itself, as abort sends it.
    calls.insert(libc::SYS_tgkill, one_of(0, &[u64::from(std::process::id())])?);
    // Threads, and no processes. clone3, whose arguments no filter sees, is one of those that do
    // not exist.
    calls.insert(libc::SYS_clone, masked(0, libc::CLONE_THREAD as u64, libc::CLONE_THREAD as u64)?);
    // No memory that can be executed.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        calls.insert(call, masked(2, libc::PROT_EXEC as u64, 0)?);
    }
    Ok(calls)
}

/// TUNSETIFF and TUNSETOFFLOAD for a device after a new file, SIOCGIFINDEX for its settings,
/// FIONBIO for the control socket.
const IOCTLS: [u64; 4] = [0x4004_54ca, 0x4004_54d0, 0x8933, 0x5421];

const ALWAYS: [i64; 46] = [
    // Packets.
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Sockets, of those who ask, and after a new file.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_close,
    libc::SYS_connect,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    // Memory, threads, time.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_getuid,
    libc::SYS_geteuid,
];

const NEVER: [i64; 11] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_finit_module,
    libc::SYS_open_by_handle_at,
];
