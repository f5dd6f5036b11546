//! The running kernel: what it can do, and objects loaded into it.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::btf::{Btf, BtfKind, ReferencesType as _, types};
use libbpf_rs::{MapType, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel, libbpf_sys, set_print};

use crate::{Access, Error, KernelCapabilities};

/// What the names of the tables begin with that have the hook of 7.x for a first transmission.
pub(crate) const TX_START_PREFIX: &str = "px_";
/// Where the glue has `pp_tick_ns`.
const TICK_SECTION: &str = ".rodata.tick";
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// What the running kernel can do for this process.
pub(crate) fn capabilities() -> KernelCapabilities {
    // SAFETY: it takes no argument and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let mut capabilities = KernelCapabilities {
        release: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        root,
        bpf: access(),
        btf: Path::new(BTF).exists(),
        struct_ops: false,
        sibling_reads: false,
        mptcp: false,
        control_flags: false,
        links: false,
    };
    if let Ok(btf) = capabilities.btf.then(Btf::from_vmlinux).transpose()
        && let Some(btf) = btf
    {
        capabilities.struct_ops = btf.type_by_name::<types::Struct<'_>>("bpf_struct_ops_tcp_congestion_ops").is_some();
        capabilities.mptcp = btf.type_by_name::<types::Struct<'_>>("mptcp_subflow_context").is_some();
        capabilities.sibling_reads = has_function(&btf, "bpf_rdonly_cast");
        capabilities.control_flags = control_parameters(&btf) == Some(4);
        capabilities.links = btf.type_by_name::<types::Struct<'_>>("bpf_struct_ops_link").is_some();
    }
    capabilities
}

fn has_function(btf: &Btf<'_>, name: &str) -> bool {
    btf.type_by_name::<types::Func<'_>>(name).is_some_and(|found| found.kind() == BtfKind::Func)
}

/// Whether the kernel tells a first transmission by a hook of its own, and by `cwnd_event` no more.
fn has_tx_start() -> bool {
    let Ok(btf) = Btf::from_vmlinux() else { return false };
    let ops = btf.type_by_name::<types::Struct<'_>>("tcp_congestion_ops");
    ops.is_some_and(|ops| ops.iter().any(|member| member.name.is_some_and(|name| name == "cwnd_event_tx_start")))
}

/// How many parameters the kernel gives to `cong_control`.
fn control_parameters(btf: &Btf<'_>) -> Option<usize> {
    let ops = btf.type_by_name::<types::Struct<'_>>("tcp_congestion_ops")?;
    let member = ops.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer = btf.type_by_id::<types::Ptr<'_>>(member.ty)?;
    types::FuncProto::try_from(pointer.referenced_type()).ok().map(|function| function.len())
}

fn access() -> Access {
    let mut next = 0;
    // SAFETY: `next` outlives the call, which writes one number to it.
    let status = unsafe { libbpf_sys::bpf_map_get_next_id(0, &raw mut next) };
    match status.checked_neg() {
        Some(libc::ENOSYS) => Access::Absent,
        Some(libc::EPERM | libc::EACCES) => Access::Refused,
        // No map at all is an answer too.
        _ => Access::Granted,
    }
}

/// The length of a jiffy: what the coarse clock counts.
fn tick_ns() -> u32 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `resolution`, which outlives the call.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    u32::try_from(resolution.tv_nsec).unwrap_or_default()
}

/// What libbpf said since it was last asked.
static SAID: Mutex<String> = Mutex::new(String::new());

fn listen(_: PrintLevel, text: String) {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
}

/// Loads an object. `until_exit`: its registration is to be a link, which ends with the last
/// process that has it open.
pub(crate) fn load_object(name: &str, bytes: &[u8], until_exit: bool) -> Result<Object, Error> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    set_print(Some((PrintLevel::Warn, listen)));
    let loaded = ObjectBuilder::default().open_memory(bytes).and_then(|mut object| {
        for mut map in object.maps_mut().filter(|map| map.name() == TICK_SECTION) {
            map.set_initial_value(&tick_ns().to_ne_bytes())?;
        }
        choose_table(&mut object, has_tx_start())?;
        if until_exit {
            for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
                map.set_map_flags(libbpf_sys::BPF_F_LINK)?;
            }
        }
        object.load()
    });
    loaded.map_err(|error| {
        let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        let why = refused_because(&said).unwrap_or_else(|| error.to_string());
        Error::machine(format!("this kernel's verifier does not accept {name}: {why}"))
    })
}

/// Of the two tables of an object the one that fits the kernel. An algorithm without `cwnd_event`
/// has one.
fn choose_table(object: &mut OpenObject, tx_start: bool) -> libbpf_rs::Result<()> {
    let is_table = |map: &OpenMapMut<'_>| map.map_type() == MapType::StructOps;
    let fits = |map: &OpenMapMut<'_>| map.name().to_string_lossy().starts_with(TX_START_PREFIX) == tx_start;
    if object.maps_mut().any(|map| is_table(&map) && fits(&map)) {
        for mut map in object.maps_mut().filter(is_table) {
            let wanted = fits(&map);
            map.set_autocreate(wanted)?;
        }
    }
    Ok(())
}

/// The line with which a verifier's log ends: what it did not accept.
fn refused_because(said: &str) -> Option<String> {
    let log: Vec<&str> = said.split("-- BEGIN PROG LOAD LOG --").nth(1)?.lines().map(str::trim).collect();
    let end = log.iter().position(|line| line.starts_with("processed ") || line.starts_with("-- END")).unwrap_or(log.len());
    log[..end].iter().rev().find(|line| !line.is_empty()).map(|line| (*line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jiffy_is_one_of_the_lengths_that_a_kernel_can_be_built_with() {
        assert!([1_000_000, 3_333_333, 4_000_000, 10_000_000].contains(&tick_ns()), "{}", tick_ns());
    }

    #[test]
    fn a_kernel_gets_the_table_that_has_its_hooks() {
        let created = |name: &str, tx_start: bool| {
            let glue = crate::sources::source(polypath_cc::find(name).expect("it exists")).glue;
            let mut object = ObjectBuilder::default().open_memory(glue).expect("an object");
            choose_table(&mut object, tx_start).expect("it has tables");
            let tables = object.maps().filter(|map| map.map_type() == MapType::StructOps && map.autocreate());
            tables.map(|map| map.name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(created("cubic", false), ["pp_cubic"]);
        assert_eq!(created("cubic", true), ["px_cubic"]);
        // It has no cwnd_event.
        assert_eq!(created("reno", true), ["pp_reno"]);
    }

    #[test]
    fn the_verifiers_verdict_is_its_last_line_before_the_statistics() {
        let said = "libbpf: prog 'pp_init': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\nR0 invalid mem access 'scalar'\n\
            processed 3 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";
        assert_eq!(refused_because(said).as_deref(), Some("R0 invalid mem access 'scalar'"));
        assert_eq!(refused_because("libbpf: failed to open"), None);
    }
}
