//! The endpoint as a shared object for packetdrill (`--so_filename`): packetdrill reads a script,
//! times it and judges; what it would ask of a kernel it asks of `polypath_testkit::ours::Host`.
//!
//! - `abi`: packetdrill's table of functions.
//! - `program`: what each call does, and time. [`Program`](program::Program) has no pointers.
//! - `options`: socket options and TCP_INFO.
//! - `settings`: what the commands of a script have set.
//! - `hashes`: the kernel's hashes, for the packetdrill of MPTCP.
//! - `preload`: functions of libc that packetdrill and its commands call beside the table.
//!
//! Time is virtual, and passes where packetdrill sleeps or waits for a packet, or asks for the time
//! again and again. A call that waits does so in packetdrill's second thread: whoever lets time
//! pass tries it anew after each event, and it returns with the time of the one that ended it. So
//! nothing depends on how the threads are run.
//!
//! What the endpoint cannot do is refused by name, in the file `refused` of the folder that
//! `--so_flags` names.

mod abi;
pub mod hashes;
mod options;
pub mod preload;
mod program;
mod settings;

pub use abi::{Table, packetdrill_interface_init};

use program::{Errno, Program, Waiting, WouldBlock};
use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

static PROGRAM: Mutex<Option<Program>> = Mutex::new(None);
/// A call that waited is over.
static OVER: Condvar = Condvar::new();

thread_local! {
    /// When the call that waited in this thread was over, microseconds, until the clock is read.
    static RETURNED_AT: Cell<Option<i64>> = const { Cell::new(None) };
}

fn lock() -> MutexGuard<'static, Option<Program>> {
    PROGRAM.lock().unwrap_or_else(PoisonError::into_inner)
}

fn returned_at() -> Option<i64> {
    RETURNED_AT.take()
}

/// Makes a call that may wait. In the thread that lets time pass it does so itself.
fn turn(mut call: Waiting) -> Result<i64, Errno> {
    let mut guard = lock();
    let program = guard.as_mut().expect("packetdrill has asked for the table");
    program.begin_call();
    match call(program) {
        Ok(value) => return program.end_call(Ok(value)),
        Err(WouldBlock::Failed(errno)) => return program.end_call(Err(errno)),
        Err(WouldBlock::Until(_)) => {}
    }
    if program.is_own_thread() {
        return program.wait_for(call);
    }
    program.suspend(call);
    loop {
        guard = OVER.wait(guard).unwrap_or_else(PoisonError::into_inner);
        let Some(program) = guard.as_mut() else { return Err(Errno(libc::EBADF)) };
        if let Some((micros, result)) = program.take_over() {
            // SAFETY: it has no arguments.
            program.note_ended_thread(unsafe { libc::gettid() });
            RETURNED_AT.set(Some(micros));
            return result;
        }
    }
}

/// A call that waited in the other thread is over: what packetdrill makes of it there comes before
/// what follows here. It has done so once that thread sleeps again.
fn let_others_end() {
    if !lock().as_mut().is_some_and(Program::take_ending) {
        return;
    }
    let sleeps = || {
        let Some(thread) = lock().as_ref().and_then(Program::ended_thread) else { return false };
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('S'))
    };
    // Twice, since it sleeps for a moment where it waits for a lock.
    let mut seen = 0;
    for _ in 0..100_000 {
        seen = if sleeps() { seen + 1 } else { 0 };
        if seen == 3 {
            return;
        }
        std::thread::yield_now();
    }
}
