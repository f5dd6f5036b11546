//! Runs with algorithms that a person wrote: in a process of their own, which may crash or never
//! end without taking this one with it.
//!
//! The process is a fork, so that it has the algorithms that were added. It is confined before it
//! loads them, touches no object of Python, gives its bytes through a pipe and ends without
//! returning. What crashed it, or which hook does not end, its [`Watch`] tells, which lies in
//! memory that both share. What it says is another's word: nothing here relies on it.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;
use std::{io, mem, process, ptr, thread};

use polypath_base::Error;
use polypath_cc::custom::{self, Call, Watch};

use crate::confine::confine;

/// How often somebody looks whether the process is alive and gets on.
const LOOK: Duration = Duration::from_millis(100);
/// Processor time within one call of a hook, which takes less than a microsecond, after which it
/// counts as endless.
const MOST_IN_A_CALL: Duration = Duration::from_secs(2);
/// Of an outcome, bytes.
const MOST_BYTES: u64 = 8 << 30;

/// What `work` gives, done in a process of its own, which is confined or says why it is not. An
/// error is a crash or an endless loop of an algorithm, or the machine's.
pub(crate) fn apart(work: impl FnOnce(Result<(), Error>) -> Vec<u8>) -> Result<Vec<u8>, Error> {
    let shared = Shared::new()?;
    let (mut reader, writer) = pipe()?;
    let lists = (custom::hold(), polypath_sched::custom::hold());
    // SAFETY: the child runs `work`, which is the simulator: it takes no lock but the allocator's,
    // which the C library keeps usable over a fork, and those of the lists of algorithms and
    // schedulers, which are held here. Then it ends here.
    let forked = unsafe { libc::fork() };
    drop(lists);
    match forked {
        -1 => Err(failed("starting a process for an algorithm of your own")),
        0 => child(shared.watch, writer, work),
        pid => {
            drop(writer);
            let mut child = Child { pid, ended: false };
            let received = child.receive(&mut reader, shared.watch)?;
            received.ok_or_else(|| told(child.wait(), shared.watch.last()))
        }
    }
}

fn child(watch: &'static Watch, mut writer: File, work: impl FnOnce(Result<(), Error>) -> Vec<u8>) -> ! {
    alone();
    // The usual one writes to stderr, which the process may not; who caught the panic tells of it.
    std::panic::set_hook(Box::new(|_| {}));
    custom::watch(watch);
    let bytes = work(confine(writer.as_raw_fd()));
    let length = (bytes.len() as u64).to_le_bytes();
    let written = writer.write_all(&length).and_then(|()| writer.write_all(&bytes));
    // SAFETY: ends the process at once; what else would run belongs to the one that was forked.
    unsafe { libc::_exit(i32::from(written.is_err())) }
}

/// Makes the process one that dies alone: of any signal, without a core dump, and with whoever
/// started it.
fn alone() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: calls without memory of ours but `none`. Handlers of Python must not run here: it
    // does not know of this process.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// Memory with a [`Watch`] that a forked process shares.
struct Shared {
    watch: &'static Watch,
}

impl Shared {
    fn new() -> Result<Self, Error> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of no file.
        let at = unsafe { libc::mmap(ptr::null_mut(), size_of::<Watch>(), protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(failed("sharing memory with a process"));
        }
        // SAFETY: it has the size, pages are aligned, and zeros are a `Watch`, whose words are
        // atomic. It goes away with `self`, after the process that writes there; nobody but this
        // module has the reference.
        Ok(Self { watch: unsafe { &*at.cast::<Watch>() } })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and not used from now on.
        unsafe { libc::munmap(ptr::from_ref(self.watch).cast_mut().cast(), size_of::<Watch>()) };
    }
}

fn pipe() -> Result<(File, File), Error> {
    let mut ends = [0; 2];
    // SAFETY: two numbers are written.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(failed("making a pipe"));
    }
    // SAFETY: they were just made and belong to nobody else.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}

/// A process, which ends with this value at the latest.
struct Child {
    pid: libc::pid_t,
    ended: bool,
}

impl Child {
    /// What it sends; none: it ended before. It does not wait for the end of the pipe, which
    /// another fork may hold open.
    fn receive(&mut self, reader: &mut File, watch: &Watch) -> Result<Option<Vec<u8>>, Error> {
        let mut call: Option<(Call, Duration)> = None;
        while !readable(reader, LOOK)? {
            if let Some(now) = watch.last().filter(|call| !call.ended) {
                let used = self.processor_time()?;
                match &call {
                    Some((before, since)) if *before == now => {
                        if used.saturating_sub(*since) > MOST_IN_A_CALL {
                            return Err(endless(&now));
                        }
                    }
                    _ => call = Some((now, used)),
                }
            }
            // What it wrote before it ended is in the pipe.
            if self.has_ended() && !readable(reader, Duration::ZERO)? {
                return Ok(None);
            }
        }
        let mut length = [0; 8];
        let mut bytes = Vec::new();
        let received = reader.read_exact(&mut length).and_then(|()| {
            let length = u64::from_le_bytes(length);
            // The room is made as the bytes come.
            let read = reader.take(length.min(MOST_BYTES)).read_to_end(&mut bytes)? as u64;
            if read == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
        });
        match received {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(Error::machine(format!("reading from a process failed: {error}"))),
        }
    }

    /// Of the processor, used by it so far.
    fn processor_time(&self) -> Result<Duration, Error> {
        let mut clock = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: one number and one time are written.
        let (found, read) = unsafe { (libc::clock_getcpuclockid(self.pid, &raw mut clock), libc::clock_gettime(clock, &raw mut time)) };
        if found != 0 || read != 0 {
            return Err(failed("asking for the processor time of a process"));
        }
        Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Whether it has ended; it stays to be waited for.
    fn has_ended(&self) -> bool {
        // SAFETY: zeros are a value of this structure.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        // SAFETY: one structure is written; its process is zero as long as there is nothing to
        // tell.
        unsafe {
            libc::waitid(libc::P_PID, self.pid as u32, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) == 0
                && info.si_pid() != 0
        }
    }

    /// How it ended, as `waitpid` has it.
    fn wait(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: one number is written. Interrupted by a signal it is asked again.
        while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } == -1 && io::Error::last_os_error().kind() == ErrorKind::Interrupted {
            thread::yield_now();
        }
        self.ended = true;
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: it was not waited for, so that its number is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.wait();
        }
    }
}

/// Whether something is there to read, or an end of the pipe, within a time.
fn readable(reader: &File, within: Duration) -> Result<bool, Error> {
    let mut poll = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which lives.
    match unsafe { libc::poll(&raw mut poll, 1, within.as_millis() as i32) } {
        -1 if io::Error::last_os_error().kind() != ErrorKind::Interrupted => Err(failed("waiting for a process")),
        -1 | 0 => Ok(false),
        _ => Ok(true),
    }
}

fn endless(call: &Call) -> Error {
    let seconds = MOST_IN_A_CALL.as_secs();
    let Call { algorithm, hook, .. } = call;
    Error::caller(format!("{algorithm}.c: its hook {hook} does not end: one call computed for {seconds} seconds; give its loops a bound"))
}

/// Of a process that ended without a result.
fn told(status: i32, last: Option<Call>) -> Error {
    if !libc::WIFSIGNALED(status) {
        return Error::machine(format!("the process of an algorithm of your own ended with status {}", libc::WEXITSTATUS(status)));
    }
    let signal = libc::WTERMSIG(status);
    let why = match signal {
        libc::SIGSEGV | libc::SIGBUS => "it uses memory that is not its own, or calls itself without end",
        libc::SIGFPE | libc::SIGILL | libc::SIGTRAP => "it divides by zero, or does what C leaves undefined",
        libc::SIGABRT => "it writes memory that is not its own",
        libc::SIGSYS => "it asks the system for something, and an algorithm may only compute",
        _ => {
            let id = process::id();
            return Error::machine(format!(
                "the process of an algorithm of your own was ended by signal {signal}, which process {id} did not send"
            ));
        }
    };
    match last {
        Some(Call { algorithm, hook, ended: false, .. }) => {
            Error::caller(format!("{algorithm}.c: its hook {hook} crashed (signal {signal}): {why}"))
        }
        Some(Call { algorithm, hook, .. }) => {
            Error::caller(format!("{algorithm}.c: the run crashed after its hook {hook} (signal {signal}): {why}"))
        }
        None => Error::machine(format!("the simulator failed, which is a bug in it: signal {signal} before any hook of an algorithm")),
    }
}

fn failed(what: &str) -> Error {
    Error::machine(format!("{what} failed: {}", io::Error::last_os_error()))
}
