//! Takes in a shared object with an algorithm; where there are such things, which is everywhere but
//! in a browser.
//!
//! [`declare`] reads what the object says of itself and runs nothing. [`load`] maps what was
//! declared, so that its hooks can be called; the system's loader has no part in it, so that
//! nothing in an object is run by being loaded.

use std::path::Path;
use std::sync::PoisonError;
use std::{fs, io, mem, ptr, slice};

use polypath_base::Error;

use super::super::mirror::{About, Ops, STATE_BYTES};
use super::super::{Algorithm, Family, REGISTRY, flags, try_text};
use super::elf::Image;
use super::{ADDED, Added, CUSTOM};

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// Makes the algorithm of this name in a shared object known to [`crate::find`]; one that was added
/// under this name before is forgotten. Its hooks are there only after [`load`].
pub fn declare(object: &Path, name: &str) -> Result<Algorithm, Error> {
    let refused = |why: String| Error::caller(format!("{}: {why}", object.display()));
    if REGISTRY.iter().any(|(ops, _)| Algorithm(ops).name() == name) {
        return Err(refused(format!("there is an algorithm {name} in Polypath already: choose another name")));
    }
    let (bytes, image) = checked(object)?;
    let missing = |symbol: &str| refused(format!("it has no {symbol}"));
    let at = image.place(&format!("pp_cc_{name}"), size_of::<Ops>()).ok_or_else(|| missing(&format!("PP_CC_REGISTER({name})")))?;
    let facts = image.place(&format!("pp_about_{name}"), size_of::<About>()).ok_or_else(|| missing(&format!("PP_CC_ABOUT({name})")))?;
    // SAFETY: `place` found so many bytes there, and `About` is numbers and texts, which any bits
    // are.
    let about = leaked(unsafe { ptr::read_unaligned(image.bytes[facts..].as_ptr().cast::<About>()) });
    let said = declared(&image, at);
    sensible((said, about), &Hooks { image: &image, at }, name).map_err(refused)?;
    let ops = leaked(Ops { flags: said.flags | CUSTOM, ..*said });
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.retain(|each| Algorithm(each.ops).name() != name);
    added.push(Added { ops, about, object: bytes });
    added.sort_by_key(|each| Algorithm(each.ops).name());
    Ok(Algorithm(ops))
}

/// A shared object that was compiled with the headers of this build: its bytes, and how it lies in
/// memory. Nothing in it is run.
pub fn checked(object: &Path) -> Result<(&'static [u8], Image), Error> {
    let refused = |why: String| Error::caller(format!("{}: {why}", object.display()));
    let bytes = fs::read(object).map_err(|error| refused(format!("it cannot be read: {error}")))?;
    let image = Image::of(&bytes).map_err(refused)?;
    let abi = image.place("pp_abi", 8).ok_or_else(|| refused("it has no pp_abi".to_owned()))?;
    if image.bytes[abi..abi + 8] != ABI.to_le_bytes() {
        return Err(refused("it was compiled for another version of Polypath: compile it again".to_owned()));
    }
    Ok((bytes.leak(), image))
}

/// Maps all algorithms that were declared: from now on their hooks can be called.
///
/// # Safety
///
/// Their code runs in this process when a hook is called. It must keep the contract of
/// cc/include/pp_cc.h: above all it writes neither `ca_state` nor the flags of a flow, which are
/// `bool`s and an enumeration here.
pub unsafe fn load() -> Result<(), Error> {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    for each in added.iter_mut().filter(|each| each.ops.ssthresh.is_none()) {
        let name = Algorithm(each.ops).name();
        let failed = |why: String| Error::machine(format!("the algorithm {name} cannot be loaded: {why}"));
        let image = Image::of(each.object).map_err(failed)?;
        let at = image.place(&format!("pp_cc_{name}"), size_of::<Ops>()).ok_or_else(|| failed("it is another than before".to_owned()))?;
        let base = mapped(image).map_err(|error| failed(error.to_string()))?;
        // SAFETY: `place` found an `Ops` there, of the layout that `pp_abi` vouches for, and
        // `mapped` wrote the addresses of its hooks. The mapping is never undone.
        let ops = unsafe { base.add(at).cast::<Ops>().read_unaligned() };
        each.ops = leaked(Ops { flags: ops.flags | CUSTOM, ..ops });
    }
    Ok(())
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
pub fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// The table with everything but its hooks.
fn declared(image: &Image, at: usize) -> &'static Ops {
    // SAFETY: all bits zero are an `Ops`: no hook, no name.
    let mut ops: Ops = unsafe { mem::zeroed() };
    let word = |offset: usize| u32::from_le_bytes(image.bytes[at + offset..][..4].try_into().expect("four bytes"));
    for (letter, byte) in ops.name.iter_mut().zip(&image.bytes[at + mem::offset_of!(Ops, name)..]) {
        *letter = *byte as _;
    }
    ops.flags = word(mem::offset_of!(Ops, flags));
    ops.priv_bytes = word(mem::offset_of!(Ops, priv_bytes));
    leaked(ops)
}

/// Which hooks a table in an image has.
struct Hooks<'a> {
    image: &'a Image,
    at: usize,
}

impl Hooks<'_> {
    fn has(&self, offset: usize) -> bool {
        self.image.bytes[self.at + offset..][..8] != [0; 8]
    }
}

/// The image in memory, its code executable and nothing of it writable; where it begins.
pub fn mapped(mut image: Image) -> io::Result<*const u8> {
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

/// What the compiler cannot see in the tables of a file.
fn sensible((ops, about): (&'static Ops, &'static About), hooks: &Hooks<'_>, name: &str) -> Result<(), String> {
    let said = try_text(&ops.name).ok_or("the name in its ops table is not in UTF-8")?;
    if said != name {
        return Err(format!(".name in its ops table is \"{said}\": write \"{name}\", as the file is called"));
    }
    let needed = [
        (hooks.has(mem::offset_of!(Ops, ssthresh)), "ssthresh"),
        (hooks.has(mem::offset_of!(Ops, undo_cwnd)), "undo_cwnd"),
        (hooks.has(mem::offset_of!(Ops, cong_avoid)) || hooks.has(mem::offset_of!(Ops, cong_control)), "cong_avoid (or cong_control)"),
    ];
    if let Some((_, hook)) = needed.iter().find(|(there, _)| !there) {
        return Err(format!("its ops table lacks the hook {hook}, which every algorithm needs"));
    }
    if ops.priv_bytes as usize > STATE_BYTES {
        return Err(format!("its state has {} bytes; at most {STATE_BYTES} fit into a socket", ops.priv_bytes));
    }
    if ops.flags & !flags::ALL != 0 {
        return Err(format!(".flags in its ops table is {}, which is none of enum pp_cc_flags", ops.flags));
    }
    if about.family as usize >= Family::ALL.len() {
        return Err(format!(".family is {}, which is none of enum pp_family", about.family));
    }
    let texts: [(&[_], &str); 3] = [(&about.source, "source"), (&about.counterpart, "counterpart"), (&about.aliases, "aliases")];
    match texts.iter().find(|(text, _)| try_text(text).is_none()) {
        Some((_, field)) => Err(format!(".{field} in its facts is not in UTF-8")),
        None => Ok(()),
    }
}
