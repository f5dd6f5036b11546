//! Giving up what a program may do and does not need.

use crate::{Failed, check};

const CAP_NET_ADMIN: u32 = 12;
/// _LINUX_CAPABILITY_VERSION_3.
const VERSION: u32 = 0x2008_0522;

/// The calling thread, and those that it starts later, keep CAP_NET_ADMIN alone of the capabilities that they have, and get none again by
/// starting a program.
pub fn keep_net_admin_only() -> Result<(), Failed> {
    for capability in (0..64).filter(|&capability| capability != CAP_NET_ADMIN) {
        // SAFETY: no memory is passed. It fails for numbers that the kernel does not know, and without CAP_SETPCAP, when what the program itself
        // holds is given up below all the same.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
    }
    // SAFETY: no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, || "giving up new privileges".into())?;
    let header = [VERSION, 0];
    // Effective, permitted and inheritable, of 32 capabilities at a time.
    let mut sets = [0_u32; 6];
    // SAFETY: header and sets have the layout of version 3 and outlive the call.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } as libc::c_int, || {
        "asking for capabilities".into()
    })?;
    let kept = sets[1] & 1 << CAP_NET_ADMIN;
    let sets = [kept, kept, 0, 0, 0, 0];
    // SAFETY: as above.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } as libc::c_int, || "giving up capabilities".into())
        .map(drop)
}
