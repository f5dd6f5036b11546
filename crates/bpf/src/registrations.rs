//! Which algorithms of ours the kernel has, asked of the kernel each time.
//!
//! A registration is an registration of a BPF map of the kind struct_ops, and lives as long as the
//! kernel until it is deleted; or it is a link, which lives as long as a process has it open.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd as _;

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType, Program, ProgramHandle, ProgramType};
use polypath_cc as cc;

use crate::kernel::{TX_START_PREFIX, load_object};
use crate::sources::source;
use crate::{Error, PREFIX};

/// The one key of a struct_ops map.
pub(crate) const KEY: [u8; 4] = [0; 4];
/// `enum bpf_struct_ops_state` of the kernel: registered without a link.
const IN_USE: u32 = 1;
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// One of ours that the kernel still has.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    /// The kernel's name for it.
    pub(crate) name: String,
    pub(crate) map: u32,
    pub(crate) state: RegistrationState,
    /// Sockets, and network namespaces that have it as their default, together.
    pub(crate) users: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistrationState {
    /// Until it is unloaded.
    Loaded,
    /// Until the last process that has this link open ends.
    Acquired { link: u32 },
    /// Taken out; sockets that had it keep it to their end.
    Leaving,
}

/// Ours, in the order of their names.
pub(crate) fn registrations() -> Vec<Registration> {
    let links: BTreeMap<u32, u32> = LinkInfoIter::default()
        .filter_map(|link| if let LinkTypeInfo::StructOps(ops) = link.info { Some((ops.map_id, link.id)) } else { None })
        .collect();
    let mut found: Vec<Registration> = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps)
        .filter_map(|map| {
            let name = kernel_name_of(map.name.to_str()?)?;
            // It may be gone by now: then there is nothing to tell.
            let value = MapHandle::from_map_id(map.id).ok()?.lookup(&KEY, MapFlags::ANY).ok()??;
            let word = |at: usize| value.get(at..at + 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
            let (references, state) = (word(0)?, word(4)?);
            let state = match links.get(&map.id) {
                Some(&link) => RegistrationState::Acquired { link },
                None if state == IN_USE => RegistrationState::Loaded,
                None => RegistrationState::Leaving,
            };
            // The registration is one reference.
            let users = references.saturating_sub(u32::from(state != RegistrationState::Leaving));
            (state != RegistrationState::Leaving || users > 0).then_some(Registration { name, map: map.id, state, users })
        })
        .collect();
    found.sort_by(|a, b| (&a.name, a.map).cmp(&(&b.name, b.map)));
    found
}

/// What the kernel calls an algorithm whose table has this name.
fn kernel_name_of(table: &str) -> Option<String> {
    let bare = table.strip_prefix(PREFIX).or_else(|| table.strip_prefix(TX_START_PREFIX))?;
    Some(format!("{PREFIX}{bare}"))
}

/// The registered one of this name.
pub(crate) fn registered(name: &str) -> Option<Registration> {
    registrations().into_iter().find(|registration| registration.name == name && registration.state != RegistrationState::Leaving)
}

/// Words of the list of congestion controls that the kernel has.
pub(crate) fn available() -> Vec<String> {
    fs::read_to_string(AVAILABLE).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Whether a registered one has the very programs that this build would load.
pub(crate) fn is_this_build(registration: &Registration) -> Result<bool, Error> {
    let Some(algorithm) = cc::find(registration.name.trim_start_matches(PREFIX)) else { return Ok(false) };
    let object = load_object(&registration.name, source(algorithm).glue, false)?;
    let handles = object.progs().filter_map(|program| ProgramHandle::from_prog_id(Program::id_from_fd(program.as_fd()).ok()?).ok());
    Ok(tags(handles) == tags(programs(registration.map)))
}

/// The hooks of a registered one. In a struct_ops map's value the kernel shows the numbers of the
/// programs in the places of the functions.
fn programs(map: u32) -> impl Iterator<Item = ProgramHandle> {
    let value = MapHandle::from_map_id(map).and_then(|map| map.lookup(&KEY, MapFlags::ANY)).ok().flatten().unwrap_or_default();
    let words: Vec<u64> = value.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect();
    // The other words of the table are no numbers of such programs: its name, its flags, its place
    // in a list.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_of_an_algorithm_are_its_own() {
        assert_eq!(kernel_name_of("pp_cubic").as_deref(), Some("pp_cubic"));
        assert_eq!(kernel_name_of("px_cubic").as_deref(), Some("pp_cubic"));
        assert_eq!(kernel_name_of("bpf_cubic"), None);
    }
}
