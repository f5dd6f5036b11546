//! Registers algorithms with the running kernel and takes them out again.
//!
//! A registration is an entry of a BPF map of the kind struct_ops, and lives as long as the kernel until it is deleted; or it is a link,
//! which lives as long as a process has it open. Which of ours there are is asked of the kernel each time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{ErrorKind, Link, MapCore as _, MapFlags, MapHandle, MapType, Object, Program, ProgramHandle, ProgramType, libbpf_sys};
use polypath_cc as cc;

use crate::kernel::{load_object, offers};
use crate::sources::source;
use crate::{Error, PREFIX, kernel_name, refusal, users};

/// The one key of a struct_ops map.
const KEY: [u8; 4] = [0; 4];
/// `enum bpf_struct_ops_state` of the kernel: registered without a link.
const IN_USE: u32 = 1;
/// How often, and how long apart, a registration that other processes are busy with is tried again.
const HOLD_TRIES: u32 = 20;
const HOLD_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// One of ours that the kernel still has.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The kernel's name for it.
    pub(crate) name: String,
    pub(crate) map: u32,
    pub(crate) how: How,
    /// Sockets, and network namespaces that have it as their default, together.
    pub(crate) users: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Until it is unloaded.
    Loaded,
    /// Until the last process that has this link open ends.
    Held { link: u32 },
    /// Taken out; sockets that had it keep it to their end.
    Leaving,
}

/// Ours, in the order of their names.
pub(crate) fn entries() -> Vec<Entry> {
    let links: BTreeMap<u32, u32> = LinkInfoIter::default()
        .filter_map(|link| if let LinkTypeInfo::StructOps(ops) = link.info { Some((ops.map_id, link.id)) } else { None })
        .collect();
    let mut found: Vec<Entry> = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps)
        .filter_map(|map| {
            let name = map.name.to_str().filter(|name| name.starts_with(PREFIX))?.to_owned();
            // It may be gone by now: then there is nothing to tell.
            let value = MapHandle::from_map_id(map.id).ok()?.lookup(&KEY, MapFlags::ANY).ok()??;
            let word = |at: usize| value.get(at..at + 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
            let (references, state) = (word(0)?, word(4)?);
            let how = match links.get(&map.id) {
                Some(&link) => How::Held { link },
                None if state == IN_USE => How::Loaded,
                None => How::Leaving,
            };
            // The registration is one reference.
            let users = references.saturating_sub(u32::from(how != How::Leaving));
            (how != How::Leaving || users > 0).then_some(Entry { name, map: map.id, how, users })
        })
        .collect();
    found.sort_by(|a, b| (&a.name, a.map).cmp(&(&b.name, b.map)));
    found
}

/// The registered one of this name.
fn registered(name: &str) -> Option<Entry> {
    entries().into_iter().find(|entry| entry.name == name && entry.how != How::Leaving)
}

/// Words of the list of congestion controls that the kernel has.
pub(crate) fn available() -> Vec<String> {
    fs::read_to_string(AVAILABLE).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Registers algorithms until they are unloaded: all of them, or none and an error.
pub fn load(algorithms: &[cc::Algorithm]) -> Result<Vec<String>, Error> {
    possible(algorithms, false)?;
    for algorithm in algorithms {
        let name = kernel_name(*algorithm);
        match registered(&name) {
            Some(Entry { how: How::Held { link }, .. }) => {
                return Err(Error::new(format!("{name} is in this kernel for as long as {} runs: wait until that ends", holders(link))));
            }
            Some(_) => return Err(Error::new(format!("{name} is loaded already; polypath cc unload {name} takes it out"))),
            None => foreign(&name)?,
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

/// Takes algorithms out, by the kernel's names: all of them, or none and an error. Sockets that use one are an error unless `force`; then
/// they keep it to their end.
pub fn unload(names: &[String], force: bool) -> Result<Vec<String>, Error> {
    possible(&[], false)?;
    let mut found = Vec::new();
    for name in names {
        let entry = registered(name).ok_or_else(|| Error::new(format!("{name} is not loaded; polypath cc status shows what is")))?;
        if let How::Held { link } = entry.how {
            return Err(Error::new(format!("{name} is in this kernel for as long as {} runs, and leaves with it", holders(link))));
        }
        if entry.users > 0 && !force {
            return Err(Error::new(format!(
                "{name} is in use by {}: end them, or give --force, with which they keep it until they end",
                users::described(name, entry.users)
            )));
        }
        found.push(entry);
    }
    for entry in &found {
        MapHandle::from_map_id(entry.map)
            .and_then(|map| map.delete(&KEY))
            .map_err(|error| Error::new(format!("the kernel does not let {} go: {error}", entry.name)))?;
    }
    Ok(found.into_iter().map(|entry| entry.name).collect())
}

/// Algorithms that stay registered at least as long as this value.
#[derive(Debug)]
pub struct Held {
    pub names: Vec<String>,
    _links: Vec<(Link, Object)>,
    _shared: Vec<OwnedFd>,
}

/// Sees to it that algorithms are registered until the value is dropped or the process ends, however it ends. What another process holds is
/// shared with it; what is loaded stays as it is. Either must be of this build: what is measured must be what the sources say.
#[expect(
    clippy::disallowed_methods,
    reason = "what other processes do to the kernel takes its time, and nothing of this runs inside a model"
)]
pub fn hold(algorithms: &[cc::Algorithm]) -> Result<Held, Error> {
    possible(algorithms, true)?;
    let mut held = Held { names: Vec::new(), _links: Vec::new(), _shared: Vec::new() };
    for algorithm in algorithms {
        let mut tries = 0;
        while !join(*algorithm, &mut held)? {
            // Other processes come and go meanwhile, and a registration goes in steps: what fails now may be possible at once.
            match foreign(&kernel_name(*algorithm)).and_then(|()| register(*algorithm, true)) {
                Ok(link) => {
                    held._links.push(link);
                    break;
                }
                Err(error) if tries == HOLD_TRIES => return Err(error),
                Err(_) => std::thread::sleep(HOLD_PAUSE),
            }
            tries += 1;
        }
        held.names.push(kernel_name(*algorithm));
    }
    Ok(held)
}

/// Shares the registration that there is; false if there is none.
fn join(algorithm: cc::Algorithm, held: &mut Held) -> Result<bool, Error> {
    let name = kernel_name(algorithm);
    let Some(entry) = registered(&name) else { return Ok(false) };
    // First of all it is kept: of one that leaves meanwhile nothing could be said.
    let link = match entry.how {
        How::Held { link } => match opened(link) {
            Some(open) => Some(open),
            None => return Ok(false),
        },
        _ => None,
    };
    if !is_this_build(&entry)? {
        drop(link);
        let way = match entry.how {
            How::Held { link } => format!("wait until {} ends", holders(link)),
            _ => format!("take it out (polypath cc unload {name})"),
        };
        return Err(Error::new(format!("the {name} in this kernel is of another build than this program's: {way}")));
    }
    held._shared.extend(link);
    Ok(true)
}

/// A link that another process has open, open here too; `None` if it is gone.
fn opened(link: u32) -> Option<OwnedFd> {
    // SAFETY: it takes a number; a result that is not negative is a descriptor that nobody else owns.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(link) };
    // SAFETY: as above.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether a registered one has the very programs that this build would load.
pub(crate) fn is_this_build(entry: &Entry) -> Result<bool, Error> {
    let Some(algorithm) = cc::find(entry.name.trim_start_matches(PREFIX)) else { return Ok(false) };
    let object = load_object(&entry.name, source(algorithm).glue, false)?;
    let handles = object.progs().filter_map(|program| ProgramHandle::from_prog_id(Program::id_from_fd(program.as_fd()).ok()?).ok());
    Ok(tags(handles) == tags(programs(entry.map)))
}

/// The hooks of a registered one. In a struct_ops map's value the kernel shows the numbers of the programs in the places of the functions.
fn programs(map: u32) -> impl Iterator<Item = ProgramHandle> {
    let value = MapHandle::from_map_id(map).and_then(|map| map.lookup(&KEY, MapFlags::ANY)).ok().flatten().unwrap_or_default();
    let words: Vec<u64> = value.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect();
    // The other words of the table are no numbers of such programs: its name, its flags, its place in a list.
    words
        .into_iter()
        .filter_map(|word| u32::try_from(word).ok().filter(|id| *id != 0))
        .filter_map(|id| ProgramHandle::from_prog_id(id).ok())
        .filter(|program| program.prog_type() == ProgramType::StructOps && program.name().to_string_lossy().starts_with(PREFIX))
}

/// Names of programs with the hashes of their instructions as they were loaded.
fn tags(programs: impl Iterator<Item = ProgramHandle>) -> BTreeMap<OsString, [u8; 8]> {
    programs.map(|program| (program.name().to_owned(), program.tag())).collect()
}

fn possible(algorithms: &[cc::Algorithm], until_exit: bool) -> Result<(), Error> {
    refusal(&offers(), algorithms, until_exit).map_or(Ok(()), Err)
}

/// An error if the kernel has the name from somewhere else.
fn foreign(name: &str) -> Result<(), Error> {
    if available().iter().any(|known| known == name) {
        return Err(Error::new(format!(
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
        .find(|map| map.map_type() == MapType::StructOps)
        .expect("the glue has an ops table")
        .attach_struct_ops()
        .map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::new(format!("{name} is loaded already; another process was faster")),
        _ => Error::new(format!("this kernel does not register {name}: {error}")),
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
