//! Functions of libc that packetdrill calls beside its table, and its commands do: the shared
//! object is preloaded (`LD_PRELOAD`) into it and into what it starts.
//!
//! Each does as libc's, but where the endpoint or its folder is meant.

use crate::{abi, lock};
use libc::{c_char, c_int, c_void, clock_t, mode_t, socklen_t};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicI64, Ordering};

/// The folder, for programs that packetdrill starts.
pub(crate) const FOLDER: &str = "POLYPATH_PACKETDRILL";

/// libc's own function.
///
/// # Safety
/// `F` is the type of the function of this name.
pub(crate) unsafe fn libcs<F: Copy>(name: &CStr) -> F {
    // SAFETY: a name of libc's.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "libc has {name:?}");
    // SAFETY: the caller's promise; a pointer to a function is as large as any.
    unsafe { std::mem::transmute_copy(&found) }
}

/// What lines in Python look at: TCP_INFO of a socket of the endpoint.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(fd: c_int, level: c_int, name: c_int, at: *mut c_void, length: *mut socklen_t) -> c_int {
    if lock().as_ref().is_some_and(|program| program.has(fd)) {
        return abi::getsockopt(std::ptr::null_mut(), fd, level, name, at, length);
    }
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    // SAFETY: its type, and the caller's promise.
    unsafe { libcs::<Real>(c"getsockopt")(fd, level, name, at, length) }
}

/// packetdrill looks for the edge of a tick. Time is virtual, so each look finds one.
///
/// # Safety
/// As of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn times(at: *mut libc::tms) -> clock_t {
    static TICKS: AtomicI64 = AtomicI64::new(0);
    type Real = unsafe extern "C" fn(*mut libc::tms) -> clock_t;
    if lock().is_some() {
        return TICKS.fetch_add(1, Ordering::Relaxed) as clock_t;
    }
    // SAFETY: its type, and the caller's promise.
    unsafe { libcs::<Real>(c"times")(at) }
}

/// packetdrill keeps its memory for the sake of real time, which not everybody may.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(_flags: c_int) -> c_int {
    0
}

/// The same, of its scheduling.
#[unsafe(no_mangle)]
pub extern "C" fn sched_setscheduler(_process: libc::pid_t, _policy: c_int, _parameter: *const libc::sched_param) -> c_int {
    0
}

/// Where a file below /proc/sys/net lies for the endpoint, or the list of its sockets.
fn instead(path: *const c_char) -> Option<CString> {
    // SAFETY: a path of C, as libc wants it.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    if !path.starts_with("/proc/sys/net/") && !["/proc/net/tcp", "/proc/net/tcp6"].contains(&path) {
        return None;
    }
    let folder = std::env::var_os(FOLDER)?;
    let own = std::path::Path::new(&folder).join(path.trim_start_matches('/'));
    if !own.exists() {
        std::fs::create_dir_all(own.parent()?).ok()?;
        std::fs::write(&own, "").ok()?;
    }
    CString::new(own.into_os_string().into_encoded_bytes()).ok()
}

macro_rules! opens {
    ($($name:ident, $c:expr;)*) => {$(
        /// Files below /proc/sys/net are the endpoint's.
        ///
        /// # Safety
        /// As of libc's. A mode that is not there is not looked at.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            let own = instead(path);
            type Real = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
            // SAFETY: its type, and the caller's promise.
            unsafe { libcs::<Real>($c)(own.as_deref().map_or(path, CStr::as_ptr), flags, mode) }
        }
    )*};
}

macro_rules! opens_at {
    ($($name:ident, $c:expr;)*) => {$(
        /// Files below /proc/sys/net are the endpoint's.
        ///
        /// # Safety
        /// As of libc's. A mode that is not there is not looked at.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            let own = instead(path);
            type Real = unsafe extern "C" fn(c_int, *const c_char, c_int, ...) -> c_int;
            // SAFETY: its type, and the caller's promise.
            unsafe { libcs::<Real>($c)(folder, own.as_deref().map_or(path, CStr::as_ptr), flags, mode) }
        }
    )*};
}

opens! {
    open, c"open";
    open64, c"open64";
}
opens_at! {
    openat, c"openat";
    openat64, c"openat64";
}
