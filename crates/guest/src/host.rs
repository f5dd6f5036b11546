//! The system calls of the machine's keeper behind safe functions: signals, orphans, an end for
//! everything that it started.

use crate::sys::{Outcome, failed};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Adopts every descendant whose own parent dies, and asks for SIGUSR1 when the parent of this
/// process dies. Returns that parent.
pub(crate) fn adopt_orphans() -> libc::pid_t {
    // SAFETY: no memory is passed.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR1);
    }
    parent()
}

/// Moves this process, and what it starts, to one processor that no other keeper has; where all are
/// taken, leaves it to the scheduler. The machine's kernel and the programs in it run by turns: on
/// two processors each turn waits for the other to wake up. The claim lasts as long as the value.
pub(crate) fn claim_processor() -> Option<UnixDatagram> {
    // SAFETY: a set of zeros is an empty one.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `allowed` outlives the call and has the size given.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) } != 0 {
        return None;
    }
    // SAFETY: no memory is passed.
    let here = unsafe { libc::sched_getcpu() }.max(0) as usize;
    let most = libc::CPU_SETSIZE as usize;
    for processor in (here..most).chain(0..here.min(most)) {
        // SAFETY: `processor` is below the size of the set.
        if !unsafe { libc::CPU_ISSET(processor, &allowed) } {
            continue;
        }
        // A name that is no file: the kernel forgets it with the process.
        let name = SocketAddr::from_abstract_name(format!("polypath-machine.{processor}")).ok()?;
        if let Ok(claim) = UnixDatagram::bind_addr(&name) {
            // SAFETY: the set is plain memory of the size given; `processor` is below the size of
            // the set.
            unsafe {
                let mut only: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(processor, &mut only);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
            }
            return Some(claim);
        }
    }
    None
}

pub(crate) fn parent() -> libc::pid_t {
    // SAFETY: no memory is passed.
    unsafe { libc::getppid() }
}

/// The signals that this process waits for; nothing else handles them.
pub(crate) struct Signals {
    waited: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// From here on the signals wait until they are fetched.
    pub(crate) fn block() -> Outcome<Self> {
        // SAFETY: sets of zeros are valid memory for sigemptyset and sigprocmask to fill.
        let (mut waited, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: both sets outlive the calls; the signals exist.
        let done = unsafe {
            libc::sigemptyset(&raw mut waited);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD] {
                libc::sigaddset(&raw mut waited, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const waited, &raw mut before)
        };
        if done < 0 { Err(failed("sigprocmask")) } else { Ok(Self { waited, before }) }
    }

    /// The next signal, or none within this time.
    pub(crate) fn wait(&self, at_most: Duration) -> Option<libc::c_int> {
        let time = libc::timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        // SAFETY: set and time outlive the call; details of the signal are not asked for.
        let signal = unsafe { libc::sigtimedwait(&raw const self.waited, std::ptr::null_mut(), &raw const time) };
        (signal > 0).then_some(signal)
    }
}

/// A file without a name.
pub(crate) fn memory_file() -> Outcome<File> {
    // SAFETY: the name ends in zero.
    let fd = unsafe { libc::memfd_create(c"console".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(failed("memfd_create"));
    }
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Starts the command with addresses that do not change from run to run, in a process that dies
/// with this one.
pub(crate) fn prepare(command: &mut Command, signals: &Signals) {
    let (before, keeper) = (signals.before, std::process::id() as libc::pid_t);
    let work = move || {
        // SAFETY: only calls that a child between fork and exec may make; the set outlives them.
        unsafe {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        if parent() == keeper { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(work) };
}

/// Kills every descendant and waits until none is left.
pub(crate) fn kill_descendants() {
    const AGAIN: Duration = Duration::from_millis(2);
    while !reap() {
        for process in descendants() {
            // SAFETY: no memory is passed.
            unsafe { libc::kill(process.id, libc::SIGKILL) };
        }
        // The dead have to be adopted before they can be waited for.
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(AGAIN.subsec_nanos()) };
        // SAFETY: `time` outlives the call.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    }
}

/// Takes note of all children that have ended. Returns whether there is none left.
fn reap() -> bool {
    loop {
        // SAFETY: the status is not asked for.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            0 => return false,
            child if child < 0 => return io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD),
            _ => {}
        }
    }
}

/// What all descendants have used of processors, and what those did that they have waited for.
pub(crate) fn processor_time() -> Duration {
    // SAFETY: no memory is passed.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let ticks: u64 = descendants().iter().map(|process| process.ticks).sum();
    Duration::from_millis(ticks * 1000 / a_second)
}

struct Process {
    id: libc::pid_t,
    /// Processor time, its dead children's included.
    ticks: u64,
}

fn descendants() -> Vec<Process> {
    let mut children: BTreeMap<libc::pid_t, Vec<Process>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "PID (NAME) STATE PARENT ...", where the name may hold anything; the 14th to 17th field
        // are utime, stime, cutime and cstime (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
        let parent = fields.get(1).and_then(|parent| parent.parse().ok());
        let ticks = fields.iter().skip(11).take(4).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        if let (Some(id), Some(parent)) = (id, parent) {
            children.entry(parent).or_default().push(Process { id, ticks });
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![std::process::id() as libc::pid_t]);
    while let Some(process) = next.pop() {
        let own = children.remove(&process).unwrap_or_default();
        next.extend(own.iter().map(|child| child.id));
        found.extend(own);
    }
    found
}
