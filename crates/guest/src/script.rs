//! Runs a person's script as root in a fresh machine: the host's files read-only, /dev, /tmp and
//! /run of the machine's own but for folders that are handed in, results in `$OUT`.

use crate::observe::{ENVIRONMENT, Observer, Wanted};
use crate::sys::{self, Error, Outcome};
use polypath_io::netlink::Netlink;
use std::fs::File;
use std::os::unix::fs::chroot;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Where the host's files are before they become the root.
const HOST: &str = "/run/host";
/// Where the run's folder is for the script.
const FOLDER: &str = "/run/polypath";
/// In the run's folder: a link to each folder of the host that the machine's own files would hide.
const HANDED_IN: &str = "handed-in";

/// What scripts run again and again, with the libraries of these.
const OFTEN: [&str; 12] = [
    "/bin/sh",
    "/bin/bash",
    "/sbin/ip",
    "/bin/sleep",
    "/bin/cat",
    "/bin/grep",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libbpf.so.1",
    "/usr/lib/x86_64-linux-gnu/libelf.so.1",
    "/lib/x86_64-linux-gnu/libtinfo.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
];

/// Reads a file in order, so that the pages in which the kernel keeps it lie in order too: then the
/// host maps many at once.
fn read_through(file: &Path) {
    let mut buffer = [0_u8; 1 << 14];
    if let Ok(mut file) = File::open(file) {
        while std::io::Read::read(&mut file, &mut buffer).is_ok_and(|bytes| bytes > 0) {}
    }
}

/// Mounts the folders that are handed in at their own places. What follows a mount's path are its
/// options, so the path is that of the link.
fn hand_in() -> Outcome<()> {
    let Ok(links) = std::fs::read_dir(Path::new(FOLDER).join(HANDED_IN)) else { return Ok(()) };
    let mut links: Vec<PathBuf> = links.flatten().map(|link| link.path()).collect();
    links.sort();
    for link in links {
        let wrong = |e: std::io::Error| Error::machine(format!("{}: {e}", link.display()));
        let place = std::fs::read_link(&link).map_err(wrong)?;
        let name = link.file_name().unwrap_or_default().to_string_lossy();
        let at = format!("{HOST}{}", place.to_str().ok_or_else(|| Error::machine(format!("{}: not in UTF-8", place.display())))?);
        std::fs::create_dir_all(&at).map_err(wrong)?;
        sys::mount("none", &at, "hostfs", libc::MS_RDONLY, &format!("/proc/self/cwd/{HANDED_IN}/{name}"))?;
    }
    Ok(())
}

/// Makes the host's files the root and runs `FOLDER/script`; what it prints goes to `FOLDER/log`,
/// its exit status to `results/status`.
pub fn run_script() -> Outcome<ExitStatus> {
    std::fs::create_dir_all(HOST).map_err(|e| Error::machine(format!("{HOST}: {e}")))?;
    sys::mount("none", HOST, "hostfs", libc::MS_RDONLY, "/")?;
    for (kind, at) in [("proc", "proc"), ("sysfs", "sys"), ("tmpfs", "tmp"), ("tmpfs", "run")] {
        sys::mount(kind, &format!("{HOST}/{at}"), kind, 0, "")?;
    }
    // Without it the host's own device files lead to the machine's devices as well.
    let _devices = sys::mount("devtmpfs", &format!("{HOST}/dev"), "devtmpfs", 0, "");
    hand_in()?;
    let folder = format!("{HOST}{FOLDER}");
    std::fs::create_dir_all(&folder).map_err(|e| Error::machine(format!("{folder}: {e}")))?;
    sys::mount("none", &folder, "hostfs", 0, "/proc/self/cwd")?;
    std::fs::create_dir_all(format!("{HOST}/run/netns")).map_err(|e| Error::machine(format!("/run/netns: {e}")))?;
    chroot(HOST).and_then(|()| std::env::set_current_dir("/tmp")).map_err(|e| Error::machine(format!("chroot: {e}")))?;
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    // Not every kernel restricts it, and root may use all of them in any case.
    let _unrestricted = std::fs::write("/proc/sys/net/ipv4/tcp_allowed_congestion_control", available);
    crate::network::raise_loopback(&mut Netlink::open(libc::NETLINK_ROUTE)?)?;
    for program in OFTEN {
        read_through(Path::new(program));
    }
    let log = File::create(Path::new(FOLDER).join("log")).map_err(|e| Error::machine(format!("log: {e}")))?;
    let other = log.try_clone().map_err(|e| Error::machine(format!("log: {e}")))?;
    // A run that could be watched, and one that is.
    let wanted = std::fs::read_to_string(Path::new(FOLDER).join("observe")).ok();
    let observer = wanted.map(|wanted| Observer::start(Wanted::parse(&wanted), Path::new(FOLDER).join("results")));
    let status = Command::new("/bin/sh")
        .arg(format!("{FOLDER}/script"))
        .env_clear()
        .envs(ENVIRONMENT)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(other)
        .status()
        .map_err(|e| Error::machine(format!("/bin/sh: {e}")))?;
    observer.map_or(Ok(()), Observer::finish)?;
    let code = status.code().unwrap_or_else(|| 128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0));
    std::fs::write(Path::new(FOLDER).join("results/status"), format!("{code}\n"))
        .map_err(|e| Error::machine(format!("results/status: {e}")))?;
    Ok(status)
}
