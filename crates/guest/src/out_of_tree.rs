//! Out-of-tree MPTCP (v0): its connections are TCP sockets with options, and its settings are those
//! of the whole machine.

use crate::plan::Flow;
use crate::sys::{self, Error, Outcome};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

/// On or off, the scheduler and the path manager by name.
const ENABLED: libc::c_int = 42;
const SCHEDULER: libc::c_int = 43;
const PATH_MANAGER: libc::c_int = 44;
/// As `MPTCP_SCHED_NAME_MAX` and `MPTCP_PM_NAME_MAX` have it.
const LONGEST_NAME: usize = 16;

/// Whether this kernel has it, by the settings that it has in the machine's first namespace and in
/// no other: `sysctls` is that namespace's /proc/sys.
pub(crate) fn is_there(sysctls: &Path) -> bool {
    sysctls.join("net/mptcp/mptcp_enabled").exists()
}

/// Writes settings of the whole machine: files below `root`, in this order. One that is not there
/// is an error.
pub(crate) fn set_machine(root: &Path, settings: &[(String, String)]) -> Outcome<()> {
    settings.iter().try_for_each(|(name, value)| {
        let written = File::options().write(true).open(root.join(name)).and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|e| Error::machine(format!("the machine: setting /{name} to {value:?}: {e}")))
    })
}

/// Tells a new socket of a flow what the plan says of its end.
pub(crate) fn configure(socket: &impl AsRawFd, flow: &Flow, listens: bool) -> Outcome<()> {
    sys::set_option(socket, libc::IPPROTO_TCP, ENABLED, i32::from(flow.mptcp))?;
    named(flow, listens).try_for_each(|(option, _, name)| sys::set_option_bytes(socket, libc::IPPROTO_TCP, option, name.as_bytes()))
}

/// Asks a connected socket what it has: the kernel takes its default in silence where it cannot do
/// what it was told.
pub(crate) fn check(socket: &impl AsRawFd, flow: &Flow) -> Outcome<()> {
    named(flow, false).try_for_each(|(option, what, name)| {
        let mut answer = [0; LONGEST_NAME];
        let has = sys::get_option(socket, libc::IPPROTO_TCP, option, &mut answer).map(|length| &answer[..length]);
        compare(what, name, has)
    })
}

fn named(flow: &Flow, listens: bool) -> impl Iterator<Item = (libc::c_int, &'static str, &str)> {
    let path_manager = if listens { &flow.server_path_manager } else { &flow.path_manager };
    let all = [(SCHEDULER, "scheduler", &flow.scheduler), (PATH_MANAGER, "path manager", path_manager)];
    all.into_iter().filter_map(|(option, what, name)| name.as_deref().map(|name| (option, what, name)))
}

/// `has`: what getsockopt gave, a name that ends with a zero.
fn compare(what: &str, asked: &str, has: Option<&[u8]>) -> Outcome<()> {
    let name = has.map(|bytes| String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()));
    match name.as_deref() {
        Some(name) if name == asked => Ok(()),
        Some(name) => Err(Error::machine(format!("the {what} {asked} was asked for, and the connection has {name}"))),
        None => Err(Error::machine(format!("the {what} {asked} was asked for, and this kernel does not say which one the connection has"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder that stands for the root of a machine; gone afterwards.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("polypath-{name}-{}", std::process::id()));
            std::fs::create_dir_all(place.join("proc/sys/net/mptcp")).unwrap();
            Self(place)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }

    fn setting(name: &str, value: &str) -> (String, String) {
        (format!("proc/sys/net/mptcp/{name}"), value.to_owned())
    }

    #[test]
    fn it_is_known_by_the_settings_of_the_first_namespace() {
        let root = Root::new("is-there");
        std::fs::write(root.0.join("proc/sys/net/mptcp/enabled"), "1\n").unwrap();
        assert!(!is_there(&root.0.join("proc/sys")), "upstream's");
        std::fs::write(root.0.join("proc/sys/net/mptcp/mptcp_enabled"), "1\n").unwrap();
        assert!(is_there(&root.0.join("proc/sys")));
    }

    #[test]
    fn settings_of_the_machine_are_written_and_none_is_made() {
        let root = Root::new("settings");
        let file = root.0.join("proc/sys/net/mptcp/mptcp_enabled");
        std::fs::write(&file, "").unwrap();
        set_machine(&root.0, &[setting("mptcp_enabled", "2")]).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "2");
        let wrong = set_machine(&root.0, &[setting("mptcp_checksum", "0")]).unwrap_err().to_string();
        assert!(wrong.starts_with("the machine: setting /proc/sys/net/mptcp/mptcp_checksum to \"0\": No such file"), "{wrong}");
    }

    #[test]
    fn the_client_alone_is_told_to_open_subflows() {
        let flow: Flow = serde_json::from_value(serde_json::json!({
            "name": "f", "mptcp": true, "cc": "lia", "client": "c", "server": "s", "client_address": "10.0.0.1",
            "server_address": "10.0.0.2", "port": 5001, "start_ns": 0, "app": {"kind": "transfer", "bytes": 1},
            "path_manager": "fullmesh", "server_path_manager": "default", "scheduler": "blest"
        }))
        .unwrap();
        let told = |listens| named(&flow, listens).map(|(_, what, name)| (what, name)).collect::<Vec<_>>();
        assert_eq!(told(false), [("scheduler", "blest"), ("path manager", "fullmesh")]);
        assert_eq!(told(true), [("scheduler", "blest"), ("path manager", "default")]);
    }

    #[test]
    fn a_connection_that_has_something_else_is_an_error() {
        assert!(compare("scheduler", "roundrobin", Some(b"roundrobin\0\0\0\0\0\0")).is_ok());
        let wrong = |has| compare("scheduler", "blest", has).unwrap_err().to_string();
        assert_eq!(wrong(Some(b"default\0".as_slice())), "the scheduler blest was asked for, and the connection has default");
        assert_eq!(wrong(Some(b"blest2".as_slice())), "the scheduler blest was asked for, and the connection has blest2");
        assert_eq!(wrong(None), "the scheduler blest was asked for, and this kernel does not say which one the connection has");
    }
}
