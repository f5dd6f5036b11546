//! Registers algorithms with the running kernel and takes them out again.

use std::fs;
use std::os::fd::{FromRawFd as _, OwnedFd};

use libbpf_rs::{ErrorKind, Link, MapCore as _, MapHandle, MapType, Object, libbpf_sys};
use polypath_cc as cc;

use crate::kernel::{capabilities, load_object};
use crate::registrations::{KEY, Registration, RegistrationState, available, is_this_build, registered};
use crate::sources::source;
use crate::status::usage_sentence;
use crate::{Error, kernel_name, unsupported_reason};

/// How often, and how long apart, a registration that other processes are busy with is tried again.
const ACQUIRE_TRIES: u32 = 20;
const ACQUIRE_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Registers algorithms until they are unloaded: all of them, or none and an error.
pub fn load(algorithms: &[cc::Algorithm]) -> Result<Vec<String>, Error> {
    check_supported(algorithms, false)?;
    for algorithm in algorithms {
        let name = kernel_name(*algorithm);
        match registered(&name) {
            Some(Registration { state: RegistrationState::Acquired { link }, .. }) => {
                return Err(Error::caller(format!("{name} is in this kernel for as long as {} runs: wait until that ends", holders(link))));
            }
            Some(_) => return Err(Error::caller(format!("{name} is loaded already; polypath cc unload {name} takes it out"))),
            None => check_no_builtin(&name)?,
        }
    }
    let mut done: Vec<(String, Link, Object)> = Vec::new();
    for algorithm in algorithms {
        // On an error the links before it are dropped, which takes their registrations back.
        let (link, object) = register(*algorithm, false)?;
        done.push((kernel_name(*algorithm), link, object));
    }
    Ok(done
        .into_iter()
        .map(|(name, mut link, _object)| {
            link.disconnect();
            name
        })
        .collect())
}

/// Takes algorithms out, by the kernel's names: all of them, or none and an error. Sockets that use
/// one are an error unless `force`; then they keep it to their end.
pub fn unload(names: &[String], force: bool) -> Result<Vec<String>, Error> {
    check_supported(&[], false)?;
    let mut found = Vec::new();
    for name in names {
        let registration =
            registered(name).ok_or_else(|| Error::caller(format!("{name} is not loaded; polypath cc status shows what is")))?;
        if let RegistrationState::Acquired { link } = registration.state {
            return Err(Error::caller(format!("{name} is in this kernel for as long as {} runs, and leaves with it", holders(link))));
        }
        if registration.users > 0 && !force {
            return Err(Error::caller(format!(
                "{name} is in use by {}: end them, or give --force, with which they keep it until they end",
                usage_sentence(name, registration.users)
            )));
        }
        found.push(registration);
    }
    for registration in &found {
        MapHandle::from_map_id(registration.map)
            .and_then(|map| map.delete(&KEY))
            .map_err(|error| Error::machine(format!("the kernel does not let {} go: {error}", registration.name)))?;
    }
    Ok(found.into_iter().map(|registration| registration.name).collect())
}

/// Algorithms that stay registered at least as long as this value.
#[derive(Debug)]
pub struct Acquired {
    pub names: Vec<String>,
    links: Vec<(Link, Object)>,
    shared: Vec<OwnedFd>,
}

/// Sees to it that algorithms are registered until the value is dropped or the process ends,
/// however it ends. What another process holds is shared with it; what is loaded stays as it is.
/// Either must be of this build: what is measured must be what the sources say.
#[expect(
    clippy::disallowed_methods,
    reason = "what other processes do to the kernel takes its time, and nothing of this runs inside a model"
)]
pub fn acquire(algorithms: &[cc::Algorithm]) -> Result<Acquired, Error> {
    check_supported(algorithms, true)?;
    let mut acquired = Acquired { names: Vec::new(), links: Vec::new(), shared: Vec::new() };
    for algorithm in algorithms {
        let mut tries = 0;
        while !join(*algorithm, &mut acquired)? {
            // Other processes come and go meanwhile, and a registration goes in steps: what fails
            // now may be possible at once.
            match check_no_builtin(&kernel_name(*algorithm)).and_then(|()| register(*algorithm, true)) {
                Ok(link) => {
                    acquired.links.push(link);
                    break;
                }
                Err(error) if tries == ACQUIRE_TRIES => return Err(error),
                Err(_) => std::thread::sleep(ACQUIRE_PAUSE),
            }
            tries += 1;
        }
        acquired.names.push(kernel_name(*algorithm));
    }
    Ok(acquired)
}

/// Shares the registration that there is; false if there is none.
fn join(algorithm: cc::Algorithm, acquired: &mut Acquired) -> Result<bool, Error> {
    let name = kernel_name(algorithm);
    let Some(registration) = registered(&name) else { return Ok(false) };
    // The link is opened first, because a registration can end while it is examined.
    let link = match registration.state {
        RegistrationState::Acquired { link } => match opened(link) {
            Some(open) => Some(open),
            None => return Ok(false),
        },
        _ => None,
    };
    if !is_this_build(&registration)? {
        drop(link);
        let way = match registration.state {
            RegistrationState::Acquired { link } => format!("wait until {} ends", holders(link)),
            _ => format!("take it out (polypath cc unload {name})"),
        };
        return Err(Error::caller(format!("the {name} in this kernel is of another build than this program's: {way}")));
    }
    acquired.shared.extend(link);
    Ok(true)
}

/// A link that another process has open, open here too; `None` if it is gone.
fn opened(link: u32) -> Option<OwnedFd> {
    // SAFETY: it takes a number; a result that is not negative is a descriptor that nobody else
    // owns.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(link) };
    // SAFETY: as above.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check_supported(algorithms: &[cc::Algorithm], until_exit: bool) -> Result<(), Error> {
    unsupported_reason(&capabilities(), algorithms, until_exit).map_or(Ok(()), Err)
}

/// An error if the kernel has the name from somewhere else.
fn check_no_builtin(name: &str) -> Result<(), Error> {
    if available().iter().any(|known| known == name) {
        return Err(Error::machine(format!(
            "this kernel has a {name} of its own, which did not come from BPF: use that one, or boot another kernel"
        )));
    }
    Ok(())
}

fn register(algorithm: cc::Algorithm, until_exit: bool) -> Result<(Link, Object), Error> {
    let name = kernel_name(algorithm);
    let mut object = load_object(&name, source(algorithm).glue, until_exit)?;
    let link = object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps && map.autocreate())
        .expect("the glue has an ops table")
        .attach_struct_ops()
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::caller(format!("{name} is loaded already; another process was faster")),
            _ => Error::machine(format!("this kernel does not register {name}: {error}")),
        })?;
    Ok((link, object))
}

/// The processes that have a link open, in words.
fn holders(link: u32) -> String {
    let wanted = format!("link_id:\t{link}");
    let folder =
        |path: &str| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut pids: Vec<String> = folder("/proc")
        .filter(|pid| pid.bytes().all(|b| b.is_ascii_digit()))
        .filter(|pid| {
            let place = format!("/proc/{pid}/fdinfo");
            folder(&place).any(|fd| fs::read_to_string(format!("{place}/{fd}")).is_ok_and(|text| text.lines().any(|line| line == wanted)))
        })
        .collect();
    pids.sort();
    match pids.as_slice() {
        [] => "another process".to_owned(),
        [one] => format!("process {one}"),
        many => format!("each of the processes {}", many.join(", ")),
    }
}
