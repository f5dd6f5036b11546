//! Loads a shared object with an algorithm; where there are such things, which is everywhere but in a browser.

use std::path::Path;
use std::sync::PoisonError;

use libloading::Library;
use polypath_base::Error;

use super::super::mirror::{About, Ops, STATE_BYTES};
use super::super::{Algorithm, Family, REGISTRY, flags, try_text};
use super::{ADDED, Entry, OWN};

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// Makes the algorithm of this name in a shared object known to [`crate::find`]; one that was added under this name before is forgotten.
///
/// # Safety
///
/// The object's code runs in this process. It must keep the contract of cc/include/pp_cc.h: above all it writes neither `ca_state` nor the
/// flags of a flow, which are `bool`s and an enumeration here. Its tables must never change, and a symbol `pp_abi` must be that of
/// [`ABI_SOURCE`].
pub unsafe fn add(object: &Path, name: &str) -> Result<Algorithm, Error> {
    let refused = |why: String| Error::caller(format!("{}: {why}", object.display()));
    if REGISTRY.iter().any(|(ops, _)| Algorithm(ops).name() == name) {
        return Err(refused(format!("there is an algorithm {name} in Polypath already: choose another name")));
    }
    // SAFETY: the caller vouches for the object's code, which runs when it is loaded.
    let library = unsafe { Library::new(object) }.map_err(|error| refused(format!("it cannot be loaded: {error}")))?;
    let missing = |symbol: &str| refused(format!("it has no {symbol}"));
    // SAFETY: the symbol is used as a pointer to 64 bits. The caller vouches that an object with this symbol has it from ABI_SOURCE, which
    // defines it so; what it says is not presumed but compared.
    let abi = unsafe { library.get::<*const u64>(b"pp_abi") }.map_err(|_| missing("pp_abi"))?;
    // SAFETY: a symbol that was found lies in the library, which is loaded; ABI_SOURCE defines it as 64 aligned bits that never change.
    let abi = unsafe { **abi };
    if abi != ABI {
        return Err(refused("it was compiled for another version of Polypath: compile it again".to_owned()));
    }
    let (table, about) = (format!("pp_cc_{name}"), format!("pp_about_{name}"));
    // SAFETY: PP_CC_REGISTER and PP_CC_ABOUT define symbols of these names and types, of this very layout as `pp_abi` says; the library is never
    // unloaded, so they live as long as the process.
    let entry: Entry = unsafe {
        (
            &**library.get::<*const Ops>(table.as_bytes()).map_err(|_| missing(&format!("PP_CC_REGISTER({name})")))?,
            &**library.get::<*const About>(about.as_bytes()).map_err(|_| missing(&format!("PP_CC_ABOUT({name})")))?,
        )
    };
    std::mem::forget(library);
    sensible(entry, name).map_err(refused)?;
    let marked = Ops { flags: entry.0.flags | OWN, ..*entry.0 };
    let entry = (&*Box::leak(Box::new(marked)), entry.1);
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.retain(|(ops, _)| Algorithm(ops).name() != name);
    added.push(entry);
    added.sort_by_key(|(ops, _)| Algorithm(ops).name());
    Ok(Algorithm(entry.0))
}

/// What the compiler cannot see in the tables of a file.
fn sensible((ops, about): Entry, name: &str) -> Result<(), String> {
    let said = try_text(&ops.name).ok_or("the name in its ops table is not in UTF-8")?;
    if said != name {
        return Err(format!(".name in its ops table is \"{said}\": write \"{name}\", as the file is called"));
    }
    let hooks = [
        (ops.ssthresh.is_some(), "ssthresh"),
        (ops.undo_cwnd.is_some(), "undo_cwnd"),
        (ops.cong_avoid.is_some() || ops.cong_control.is_some(), "cong_avoid (or cong_control)"),
    ];
    if let Some((_, hook)) = hooks.iter().find(|(there, _)| !there) {
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
