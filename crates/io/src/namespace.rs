//! Network namespaces: entering them, and giving them names that `ip netns` knows.

use crate::{Failed, check};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where `ip netns` looks for names.
const NAMES: &str = "/run/netns";

/// A network namespace, held open.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// Another hold on a namespace that is open already.
    pub fn of(file: &impl AsFd) -> Result<Self, Failed> {
        file.as_fd().try_clone_to_owned().map(Self).map_err(|e| Failed::new("holding a namespace open", e))
    }

    /// The one that `ip netns` knows by this name.
    pub fn named(name: &str) -> Result<Self, Failed> {
        let file = path(name);
        File::open(&file).map(|file| Self(file.into())).map_err(|e| Failed::new(format!("the network namespace {name}"), e))
    }

    /// Does something in the namespace, on a thread of its own: the calling thread stays where it
    /// is. Sockets opened there belong to the namespace for ever.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T, Failed> + Send) -> Result<T, Failed> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into the namespace for good.
    pub fn enter(&self) -> Result<(), Failed> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) }, || "entering a namespace".into()).map(drop)
    }

    /// Gives the namespace a name. It exists from then on until the name is taken away, whatever
    /// becomes of this process.
    pub fn name(&self, name: &str) -> Result<(), Failed> {
        prepare_names()?;
        let file = path(name);
        File::options().write(true).create_new(true).open(&file).map_err(|e| Failed::new(format!("making {}", file.display()), e))?;
        let source = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let mounted = mount(Path::new(&source), &file, libc::MS_BIND);
        if mounted.is_err() {
            // Nothing is mounted there, so only an empty file is left.
            let _ = fs::remove_file(&file);
        }
        mounted
    }

    /// Takes a name away; without processes or sockets in it the namespace ends. No fault if there
    /// is no such name.
    pub fn unname(name: &str) -> Result<(), Failed> {
        let file = path(name);
        let path = text(&file)?;
        // More than one mount may lie there if somebody mounted the folder of names anew.
        // SAFETY: the path ends in zero and outlives the call.
        while unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } == 0 {}
        match io::Error::last_os_error() {
            // Nothing is mounted there (any more), or there is no such place.
            e if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {}
            e => return Err(Failed::new(format!("unmounting {}", file.display()), e)),
        }
        match fs::remove_file(&file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Failed::new(format!("removing {}", file.display()), e)),
            _ => Ok(()),
        }
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

/// The folder of names is a mount point shared with other mount namespaces, so that a name that
/// goes away here goes away everywhere; as `ip netns add` sets it up (iproute2, ip/ipnetns.c).
fn prepare_names() -> Result<(), Failed> {
    let folder = Path::new(NAMES);
    fs::create_dir_all(folder).map_err(|e| Failed::new(format!("making {NAMES}"), e))?;
    let share = || mount(Path::new(""), folder, libc::MS_SHARED | libc::MS_REC);
    share().or_else(|_| mount(folder, folder, libc::MS_BIND | libc::MS_REC).and_then(|()| share()))
}

fn mount(source: &Path, target: &Path, flags: libc::c_ulong) -> Result<(), Failed> {
    let (from, to) = (text(source)?, text(target)?);
    // SAFETY: both strings end in zero and outlive the call; these kinds of mount take no type and
    // no data.
    let done = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), c"none".as_ptr(), flags, std::ptr::null()) };
    check(done, || format!("mounting {}", target.display())).map(drop)
}

fn text(path: &Path) -> Result<CString, Failed> {
    let bytes = path.as_os_str().as_encoded_bytes();
    CString::new(bytes).map_err(|e| Failed::new(format!("the name {}", path.display()), io::Error::new(io::ErrorKind::InvalidInput, e)))
}
