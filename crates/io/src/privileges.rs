//! Giving up what a program may do and does not need.

use crate::{Failed, check};

const CAP_NET_ADMIN: u32 = 12;
/// _LINUX_CAPABILITY_VERSION_3.
const VERSION: u32 = 0x2008_0522;

/// No program that this one starts has other capabilities than CAP_NET_ADMIN, whoever owns its
/// file.
fn bound() {
    for capability in (0..64).filter(|&capability| capability != CAP_NET_ADMIN) {
        // SAFETY: no memory is passed. It fails for numbers that the kernel does not know, and
        // without CAP_SETPCAP.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
    }
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: no memory is passed, and it cannot fail.
    unsafe { libc::geteuid() }
}

/// The calling process becomes one of this user and of a group of the same number, and of no other
/// group. It keeps the capabilities that it has, for [`keep_net_admin_only`]. To be called before
/// there are other threads.
pub fn leave_root(user: u32) -> Result<(), Failed> {
    let what = |what: &str| format!("{what} of user {user}");
    // With the user the right to do it goes.
    bound();
    let mut signal: libc::c_int = 0;
    // SAFETY: the number outlives the calls; the list of groups is empty.
    unsafe {
        let parent = libc::getppid();
        check(libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal), || what("asking for the signal"))?;
        check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0), || what("keeping capabilities"))?;
        check(libc::setgroups(0, std::ptr::null()), || what("leaving the groups"))?;
        check(libc::setresgid(user, user, user), || what("taking the group"))?;
        check(libc::setresuid(user, user, user), || what("taking the rights"))?;
        // The kernel forgets the signal at a parent's end with the user.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, signal), || what("keeping the signal"))?;
        if signal != 0 && libc::getppid() != parent {
            libc::raise(signal);
        }
    }
    Ok(())
}

/// The calling thread, and those that it starts later, keep CAP_NET_ADMIN alone of the capabilities
/// that they have, or not even that, and get none again by starting a program. Nobody may trace the
/// process or have its memory written to a file but who has root's rights.
pub fn keep_net_admin_only(net_admin: bool) -> Result<(), Failed> {
    bound();
    // SAFETY: no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, || "giving up new privileges".into())?;
    // SAFETY: no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }, || "giving up core dumps".into())?;
    let header = [VERSION, 0];
    // Effective, permitted and inheritable, of 32 capabilities at a time.
    let mut sets = [0_u32; 6];
    // SAFETY: header and sets have the layout of version 3 and outlive the call.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } as libc::c_int, || {
        "asking for capabilities".into()
    })?;
    let kept = if net_admin { sets[1] & 1 << CAP_NET_ADMIN } else { 0 };
    let sets = [kept, kept, 0, 0, 0, 0];
    // SAFETY: as above.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } as libc::c_int, || "giving up capabilities".into())
        .map(drop)
}
