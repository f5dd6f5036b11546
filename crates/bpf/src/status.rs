//! What the kernel has of congestion control, and who uses it: sockets of every network namespace
//! that has a process or a name, by socket diagnostics.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{io, thread};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use polypath_cc as cc;
use serde::Serialize;

use crate::kernel::capabilities;
use crate::registrations::{RegistrationState, available, is_this_build, registrations};
use crate::{Error, kernel_name, unsupported_reason};

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const MPTCP: &str = "/proc/sys/net/mptcp/enabled";
/// Larger than any message of the kernel's dumps (`NLMSG_GOODSIZE` and what it grows to).
const MESSAGE: usize = 1 << 16;

/// The congestion controls of the running kernel.
#[derive(Debug, Serialize)]
pub struct Status {
    pub release: String,
    /// Ours that can be loaded.
    pub algorithms: Vec<Loadable>,
    /// Ours that the kernel has.
    pub loaded: Vec<Loaded>,
    /// The kernel's own.
    #[serde(rename = "own")]
    pub builtin: Vec<Builtin>,
    /// The default of this network namespace.
    pub default: String,
    /// MPTCP is switched on in this network namespace.
    pub mptcp: bool,
}

#[derive(Debug, Serialize)]
pub struct Loadable {
    pub name: String,
    pub kernel_name: String,
    pub coupled: bool,
}

#[derive(Debug, Serialize)]
pub struct Loaded {
    pub name: String,
    /// "loaded", "held" by a process and gone with it, or "leaving": taken out and still used.
    pub how: &'static str,
    /// Sockets, and namespaces that have it as their default, as the kernel counts them.
    pub users: u32,
    /// It is the one that this program would load.
    pub this_build: bool,
    /// Any user may choose it, in any network namespace.
    pub allowed: bool,
    pub sockets: Vec<Share>,
}

#[derive(Debug, Serialize)]
pub struct Builtin {
    pub name: String,
    pub allowed: bool,
    pub sockets: Vec<Share>,
}

/// What a namespace has of an algorithm.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    pub namespace: String,
    pub sockets: u32,
    /// New sockets there get it.
    pub default: bool,
}

/// What the kernel has, and who uses it.
pub fn status() -> Result<Status, Error> {
    let capabilities = capabilities();
    if let Some(error) = unsupported_reason(&capabilities, &[], false) {
        return Err(error);
    }
    let mut use_of = shares();
    let allowed = fs::read_to_string(ALLOWED).unwrap_or_default();
    let is_allowed = |name: &str| allowed.split_whitespace().any(|word| word == name);
    let mut loaded: Vec<Loaded> = Vec::new();
    for registration in registrations() {
        let leaving = registration.state == RegistrationState::Leaving;
        loaded.push(Loaded {
            how: match registration.state {
                RegistrationState::Loaded => "loaded",
                RegistrationState::Acquired { .. } => "held",
                RegistrationState::Leaving => "leaving",
            },
            users: registration.users,
            this_build: is_this_build(&registration)?,
            allowed: !leaving && is_allowed(&registration.name),
            // Sockets say a name only: where it was loaded anew, they are counted there.
            sockets: if leaving { Vec::new() } else { use_of.remove(&registration.name).unwrap_or_default() },
            name: registration.name,
        });
    }
    let builtin = available()
        .into_iter()
        .filter(|name| !loaded.iter().any(|ours| ours.name == *name && ours.how != "leaving"))
        .map(|name| Builtin { allowed: is_allowed(&name), sockets: use_of.remove(&name).unwrap_or_default(), name })
        .collect();
    let coupled = |algorithm: cc::Algorithm| algorithm.flags() & cc::flags::COUPLED != 0;
    Ok(Status {
        release: capabilities.release,
        algorithms: cc::all().map(|a| Loadable { name: a.name().to_owned(), kernel_name: kernel_name(a), coupled: coupled(a) }).collect(),
        loaded,
        builtin,
        default: fs::read_to_string(DEFAULT).unwrap_or_default().trim().to_owned(),
        mptcp: fs::read_to_string(MPTCP).is_ok_and(|text| text.trim() == "1"),
    })
}

/// Who uses an algorithm, in words. The kernel counts `users`; some may be where this process
/// cannot look.
pub(crate) fn usage_sentence(name: &str, users: u32) -> String {
    let shares = shares().remove(name).unwrap_or_default();
    let mut parts: Vec<String> = Vec::new();
    for share in &shares {
        if share.sockets > 0 {
            parts.push(format!("{} in {}", counted(share.sockets, "socket"), share.namespace));
        }
        if share.default {
            parts.push(format!("{} as its default", share.namespace));
        }
    }
    if parts.is_empty() { counted(users, "socket") } else { parts.join(", ") }
}

fn counted(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// By algorithm: what each namespace has of it.
fn shares() -> BTreeMap<String, Vec<Share>> {
    let mut shares: BTreeMap<String, Vec<Share>> = BTreeMap::new();
    for (namespace, path) in namespaces() {
        // A namespace that went meanwhile has no users.
        let Ok((mut counts, default)) = within(&path, || (counts().unwrap_or_default(), fs::read_to_string(DEFAULT).unwrap_or_default()))
        else {
            continue;
        };
        let default = default.trim();
        counts.entry(default.to_owned()).or_default();
        for (name, sockets) in counts {
            shares.entry(name.clone()).or_default().push(Share { namespace: namespace.clone(), sockets, default: name == default });
        }
    }
    shares
}

/// Network namespaces that have a name or a process, each once: how to call it and where it is.
/// This one is first.
fn namespaces() -> Vec<(String, PathBuf)> {
    let inside = |folder: &str| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut places = vec![("this namespace".to_owned(), PathBuf::from("/proc/self/ns/net"))];
    places.extend(inside("/run/netns").into_iter().map(|path| (format!("namespace {}", name(&path)), path)));
    let mut processes: Vec<(u32, PathBuf)> =
        inside("/proc").into_iter().filter_map(|path| Some((name(&path).parse().ok()?, path))).collect();
    processes.sort();
    places.extend(processes.into_iter().map(|(pid, path)| (format!("the namespace of process {pid}"), path.join("ns/net"))));
    let mut seen = Vec::new();
    places.retain(|(_, path)| {
        let identity = fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        let new = identity.is_some() && !seen.contains(&identity);
        seen.push(identity);
        new
    });
    places
}

/// Runs something in a network namespace, on a thread of its own, since a namespace belongs to a
/// thread.
fn within<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let file = File::open(path)?;
    thread::scope(|scope| {
        scope
            .spawn(|| {
                // SAFETY: the descriptor is open; only this thread, which ends right after, changes
                // its namespace.
                if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(work())
            })
            .join()
            .expect("what runs there does not panic")
    })
}

/// TCP sockets by congestion control, subflows of MPTCP among them.
fn counts() -> io::Result<BTreeMap<String, u32>> {
    let mut counts = BTreeMap::new();
    for (family, id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let request =
            InetRequest { family, protocol: IPPROTO_TCP, extensions: ExtensionFlags::CONG, states: StateFlags::all(), socket_id: id };
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        socket.send(&bytes, 0)?;
        read_dump(&socket, &mut counts)?;
    }
    Ok(counts)
}

fn read_dump(socket: &Socket, counts: &mut BTreeMap<String, u32>) -> io::Result<()> {
    let mut buffer = vec![0; MESSAGE];
    loop {
        let size = socket.recv(&mut &mut buffer[..], 0)?;
        let mut rest = &buffer[..size];
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(|error| io::Error::other(error.to_string()))?;
            // Messages begin at multiples of four bytes.
            rest = rest.get((message.header.length as usize).next_multiple_of(4)..).unwrap_or_default();
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    for nla in &response.nlas {
                        if let Nla::Congestion(name) = nla {
                            *counts.entry(name.clone()).or_default() += 1;
                        }
                    }
                }
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
        }
    }
}
