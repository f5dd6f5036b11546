//! Watches a script from the side: the packets of every network namespace, its sockets and its counters, in the files of the run's folder.
//!
//! It must not change what it watches. So it starts no program and draws no random number, and a run that nobody watches has the same thread with the
//! same sleeps: reading the clock costs virtual time, and a thread has a number.

use crate::diag::{self, Seen};
use crate::netlink::Netlink;
use crate::ring::Ring;
use crate::sys::{self, Error, Outcome};
use polypath_wire::pcapng::{self, LinkType};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Between two looks, ns.
const PERIOD: u64 = 10_000_000;
/// Bytes kept of a packet: the headers with all options.
const SNAPLEN: u32 = 160;
/// Counters are read at every so many looks.
const COUNTERS_EVERY: u64 = 10;
const NAMESPACES: &str = "/run/netns";

/// A thread that looks every 10 ms until it is told to end.
#[derive(Debug)]
pub(crate) struct Observer {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Outcome<()>>,
}

impl Observer {
    /// Starts it; without a folder to write to it only sleeps.
    pub(crate) fn start(into: Option<PathBuf>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        let thread = std::thread::spawn(move || watch(into.as_deref(), &told));
        Self { ended, thread }
    }

    /// Ends it and waits for what it has to write.
    pub(crate) fn finish(self) -> Outcome<()> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(Error::machine("the observer died")))
    }
}

fn watch(into: Option<&Path>, ended: &AtomicBool) -> Outcome<()> {
    let mut seen: BTreeMap<String, Namespace> = BTreeMap::new();
    let home = File::open("/proc/thread-self/ns/net").map_err(|e| Error::machine(format!("the first namespace: {e}")))?;
    let mut looks = 0;
    let mut at = sys::monotonic();
    while !ended.load(Ordering::Relaxed) {
        if let Some(into) = into {
            look(into, &mut seen, at, looks)?;
            // A namespace does not end while a thread is in it.
            sys::enter_network(&home)?;
        }
        looks += 1;
        at += PERIOD;
        sys::sleep_until(at);
    }
    for namespace in seen.into_values() {
        namespace.finish()?;
        sys::enter_network(&home)?;
    }
    Ok(())
}

/// Takes in what has come, opens namespaces that are new and lets go of those that are gone: an open one would not end.
fn look(into: &Path, seen: &mut BTreeMap<String, Namespace>, at: u64, looks: u64) -> Outcome<()> {
    let there: Vec<String> = std::fs::read_dir(NAMESPACES)
        .map(|names| names.flatten().filter_map(|e| e.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    let gone: Vec<String> = seen.keys().filter(|name| !there.contains(name)).cloned().collect();
    for name in gone {
        if let Some(namespace) = seen.remove(&name) {
            // It lives for as long as we hold it, so what came since the last look is still there.
            namespace.finish()?;
        }
    }
    for name in there {
        let Entry::Vacant(place) = seen.entry(name) else { continue };
        // `ip netns add` makes the file before it is a namespace: then the next look finds it.
        if let Ok(namespace) = Namespace::open(into, place.key()) {
            place.insert(namespace);
        }
    }
    seen.values_mut().try_for_each(|namespace| namespace.look(at, looks))
}

struct Namespace {
    name: String,
    handle: File,
    ring: Ring,
    sockets: Netlink,
    packets: File,
    samples: File,
    counters: PathBuf,
    waiting: Vec<u8>,
    last: String,
    count: u64,
    time_ns: u64,
}

impl Namespace {
    fn open(into: &Path, name: &str) -> Outcome<Self> {
        let create =
            |kind: &str| File::create(into.join(format!("{name}.{kind}"))).map_err(|e| Error::machine(format!("{name}.{kind}: {e}")));
        let handle = File::open(Path::new(NAMESPACES).join(name)).map_err(|e| Error::machine(format!("{name}: {e}")))?;
        sys::enter_network(&handle)?;
        // Of all its devices.
        let ring = Ring::open(0, SNAPLEN)?;
        let sockets = Netlink::open(libc::NETLINK_SOCK_DIAG)?;
        let mut waiting = Vec::new();
        pcapng::section(&mut waiting, concat!("polypath ", env!("CARGO_PKG_VERSION")));
        pcapng::interface(&mut waiting, LinkType::Ethernet, SNAPLEN, name);
        let (packets, samples, counters) = (create("pcapng")?, create("sockets")?, into.join(format!("{name}.counters")));
        let name = name.to_owned();
        Ok(Self { name, handle, ring, sockets, packets, samples, counters, waiting, last: String::new(), count: 0, time_ns: 0 })
    }

    fn look(&mut self, at: u64, looks: u64) -> Outcome<()> {
        self.take_packets()?;
        let mut lines = String::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let _none = diag::sockets(&mut self.sockets, family as u8, |socket| line(&mut lines, at, &socket));
        }
        self.samples.write_all(lines.as_bytes()).map_err(|e| Error::machine(format!("{}: {e}", self.name)))?;
        if looks % COUNTERS_EVERY == 0 {
            self.read_counters();
        }
        Ok(())
    }

    fn take_packets(&mut self) -> Outcome<()> {
        let Self { ring, waiting, count, time_ns, .. } = self;
        ring.empty(|seconds, nanoseconds, length, bytes| {
            *count += 1;
            *time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds);
            pcapng::packet(waiting, *time_ns, length, &bytes[..bytes.len().min(SNAPLEN as usize)]);
        });
        self.write()
    }

    fn read_counters(&mut self) {
        if sys::enter_network(&self.handle).is_ok() {
            let read = |file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
            self.last = read("snmp") + &read("netstat");
        }
    }

    fn write(&mut self) -> Outcome<()> {
        self.packets.write_all(&self.waiting).map_err(|e| Error::machine(format!("{}: {e}", self.name)))?;
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self) -> Outcome<()> {
        // What has happened since the last look.
        self.take_packets()?;
        self.read_counters();
        let losses = u64::from(self.ring.losses());
        pcapng::statistics(&mut self.waiting, self.time_ns, self.count + losses, losses, None);
        self.write()?;
        std::fs::write(&self.counters, &self.last).map_err(|e| Error::machine(format!("{}: {e}", self.name)))
    }
}

/// Time, addresses, state, flags of MPTCP, token and tcp_info of a socket.
fn line(lines: &mut String, at: u64, socket: &Seen) {
    let token = socket.token.unwrap_or(0);
    let _written = write!(lines, "{at} {} {} {} {} {token} {} ", socket.source, socket.destination, socket.state, socket.flags, socket.cc);
    for byte in &socket.tcp_info {
        let _written = write!(lines, "{byte:02x}");
    }
    lines.push('\n');
}
