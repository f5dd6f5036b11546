//! Takes in a shared object with an algorithm; where there are such things, which is everywhere but
//! in a browser.
//!
//! [`declare_table`] reads what the object says of itself and runs nothing. [`load_tables`] maps
//! what was declared, so that its hooks can be called; the system's loader has no part in it, so
//! that nothing in an object is run by being loaded.

use std::path::Path;
use std::sync::PoisonError;
use std::{fs, io, mem, ptr, slice};

use polypath_base::Error;

use super::super::mirror::Ops;
use super::super::{Algorithm, try_text};
use super::elf::Image;
use super::{CUSTOM, One, Table};

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// While it lives, no other thread uses the list. A fork that is made meanwhile can use it in both
/// processes once this has been dropped in each: a lock that another thread held would stay locked
/// in the new process, where that thread is not.
pub fn hold_table<T: Table>() -> impl Drop {
    T::added().0.write().unwrap_or_else(PoisonError::into_inner)
}

/// As [`hold_table`], for congestion controls.
pub fn hold() -> impl Drop {
    hold_table::<Ops>()
}

/// Makes the congestion control of this name in a shared object known to [`crate::find`], as
/// [`declare_table`].
pub fn declare(object: &Path, name: &str) -> Result<Algorithm, Error> {
    declare_table::<Ops>(object, name).map(Algorithm)
}

/// Makes the algorithm of this name in a shared object known; one that was added under this name
/// before is forgotten. Its hooks are there only after [`load_tables`].
pub fn declare_table<T: Table>(object: &Path, name: &str) -> Result<&'static T, Error> {
    let refused = |why: String| Error::caller(format!("{}: {why}", object.display()));
    if T::is_built_in(name) {
        return Err(refused(format!("there is {} {name} in Polypath already: choose another name", T::WORD)));
    }
    let (bytes, image) = checked(object)?;
    let at = |(symbol, word): (&str, &str), size| {
        image.place(&format!("{symbol}{name}"), size).ok_or_else(|| refused(format!("it has no {word}({name})")))
    };
    let [table, facts] = T::SYMBOLS;
    let (table, facts) = (at(table, size_of::<T>())?, at(facts, size_of::<T::About>())?);
    // SAFETY: `place` found so many bytes there, and facts are numbers and texts, which any bits
    // are.
    let about = leaked(unsafe { ptr::read_unaligned(image.bytes[facts..].as_ptr().cast::<T::About>()) });
    // SAFETY: all bits zero are a table: no hook, no name.
    let mut ops: T = unsafe { mem::zeroed() };
    // SAFETY: what stands before the hooks are numbers and texts, and `place` found them.
    unsafe { ptr::copy_nonoverlapping(image.bytes[table..].as_ptr(), (&raw mut ops).cast::<u8>(), T::HOOKS) };
    match try_text(ops.name()) {
        None => return Err(refused("the name in its ops table is not in UTF-8".to_owned())),
        Some(said) if said != name => {
            return Err(refused(format!(".name in its ops table is \"{said}\": write \"{name}\", as the file is called")));
        }
        Some(_) => {}
    }
    ops.check(about, &Hooks { image: &image, at: table }).map_err(refused)?;
    *ops.flags() |= CUSTOM;
    let ops = leaked(ops);
    let mut added = T::added().0.write().unwrap_or_else(PoisonError::into_inner);
    added.retain(|each| try_text(each.ops.name()) != Some(name));
    added.push(One { ops, about, object: bytes });
    added.sort_by_key(|each| try_text(each.ops.name()));
    Ok(ops)
}

/// A shared object that was compiled with the headers of this build: its bytes, and how it lies in
/// memory. Nothing in it is run.
fn checked(object: &Path) -> Result<(&'static [u8], Image), Error> {
    let refused = |why: String| Error::caller(format!("{}: {why}", object.display()));
    let bytes = fs::read(object).map_err(|error| refused(format!("it cannot be read: {error}")))?;
    let image = Image::of(&bytes).map_err(refused)?;
    let abi = image.place("pp_abi", 8).ok_or_else(|| refused("it has no pp_abi".to_owned()))?;
    if image.bytes[abi..abi + 8] != ABI.to_le_bytes() {
        return Err(refused("it was compiled for another version of Polypath: compile it again".to_owned()));
    }
    Ok((bytes.leak(), image))
}

/// The bytes of such an object, for [`opened`].
pub fn read(object: &Path) -> Result<&'static [u8], Error> {
    checked(object).map(|(bytes, _)| bytes)
}

/// Maps all algorithms of a kind that were declared: from now on their hooks can be called.
///
/// # Safety
///
/// Their code runs in this process when a hook is called. It must keep the contract of the headers
/// in cc/include.
pub unsafe fn load_tables<T: Table>() -> Result<(), Error> {
    let mut added = T::added().0.write().unwrap_or_else(PoisonError::into_inner);
    for each in added.iter_mut().filter(|each| !each.ops.is_loaded()) {
        let name = try_text(each.ops.name()).expect("it was declared by its name");
        // SAFETY: the object has the layouts of this build, and the caller vouches for the code.
        each.ops = unsafe { opened(each.object, name) }?;
    }
    Ok(())
}

/// As [`load_tables`], for congestion controls.
///
/// # Safety
///
/// As of [`load_tables`]; above all they write neither `ca_state` nor the flags of a flow, which
/// are `bool`s and an enumeration here.
pub unsafe fn load() -> Result<(), Error> {
    // SAFETY: the caller vouches for it.
    unsafe { load_tables::<Ops>() }
}

/// The table of a shared object, mapped. The mapping is never undone.
///
/// # Safety
///
/// As of [`load_tables`], and the object was compiled with the headers of this build.
pub unsafe fn opened<T: Table>(object: &[u8], name: &str) -> Result<&'static T, Error> {
    let failed = |why: String| Error::machine(format!("the algorithm {name} cannot be loaded: {why}"));
    let image = Image::of(object).map_err(failed)?;
    let at =
        image.place(&format!("{}{name}", T::SYMBOLS[0].0), size_of::<T>()).ok_or_else(|| failed("it is another than before".to_owned()))?;
    let base = mapped(image).map_err(|error| failed(error.to_string()))?;
    // SAFETY: `place` found a table there, and `mapped` wrote the addresses of its hooks.
    let mut ops = unsafe { base.add(at).cast::<T>().read_unaligned() };
    *ops.flags() |= CUSTOM;
    Ok(leaked(ops))
}

/// As [`declare`] and [`load`] together.
///
/// # Safety
///
/// As of [`load`].
pub unsafe fn add(object: &Path, name: &str) -> Result<Algorithm, Error> {
    declare(object, name)?;
    // SAFETY: the caller vouches for it.
    unsafe { load() }?;
    Ok(crate::find(name).expect("it was just added"))
}

/// A value that stays for the life of the process.
fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Which hooks a table in an image has.
#[derive(Debug)]
pub struct Hooks<'a> {
    image: &'a Image,
    at: usize,
}

impl Hooks<'_> {
    /// Whether the one at this place of the table is there.
    pub fn has(&self, offset: usize) -> bool {
        self.image.bytes[self.at + offset..][..8] != [0; 8]
    }
}

/// The image in memory, its code executable and nothing of it writable; where it begins.
fn mapped(mut image: Image) -> io::Result<*const u8> {
    // SAFETY: a question.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let length = image.bytes.len().next_multiple_of(page);
    let (protection, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, of no file.
    let base = unsafe { libc::mmap(ptr::null_mut(), length, protection, how, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    image.moved_to(base as u64);
    // SAFETY: the memory is ours, so long and writable.
    unsafe { slice::from_raw_parts_mut(base.cast::<u8>(), image.bytes.len()) }.copy_from_slice(&image.bytes);
    let protect = |from: usize, to: usize, protection| {
        // SAFETY: whole pages of the mapping above; there is no reference into it.
        match unsafe { libc::mprotect(base.byte_add(from), to - from, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    protect(0, length, libc::PROT_READ)?;
    for (at, bytes, _) in image.parts.iter().filter(|(.., code)| *code) {
        protect(at / page * page, (at + bytes).next_multiple_of(page), libc::PROT_READ | libc::PROT_EXEC)?;
    }
    Ok(base.cast_const().cast())
}
