//! The two ends of a connection: a thread sends, a thread reads and throws away, or answers.
//!
//! A system call of a program in the machine costs its host some ten microseconds, as much as several packets: so sends are large, and a
//! reader that may block does so inside the kernel, where it empties its socket each time `low_water` bytes wait, without coming back.

use crate::datagrams;
use crate::external;
use crate::mptcp;
use crate::network::{Network, ip};
use crate::plan::{App, Flow, Plan, Programs, Reading};
use crate::records::FlowResult;
use crate::run::LOOK;
use crate::sample::{Sockets, hexadecimal};
use crate::sys::{self, Outcome};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// What one call sends.
const CHUNK: usize = 256 << 10;
/// What one call reads at most, where it may return as soon as there is something.
const READ: usize = 4 << 20;
/// What one call reads at most where it stays until the connection ends: the most that any call reads (MAX_RW_COUNT).
const READ_ALL: usize = 0x7fff_f000;
const IPPROTO_MPTCP: libc::c_int = 262;
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
/// Socket options of MPTCP v0: it is on or off, its scheduler and its path manager by name.
const V0_ENABLED: libc::c_int = 42;
const V0_SCHEDULER: libc::c_int = 43;
const V0_PATH_MANAGER: libc::c_int = 44;

/// A lock whose holder cannot leave the data half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What both threads of a flow and the run know about it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) result: FlowResult,
    written: Points,
    read: Points,
    pub(crate) client: End,
    server: End,
    /// Number of the flow, and records of the datagrams that have arrived.
    number: u32,
    pub(crate) datagrams: Vec<u8>,
    /// The run reads the server's counters for a reader that stays in the kernel.
    silent: bool,
}

/// One end of a flow.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// While it is open.
    pub(crate) socket: Option<Arc<OwnedFd>>,
    pub(crate) ended: bool,
}

/// (time, bytes so far), at most one a millisecond and the last.
#[derive(Debug, Default)]
struct Points {
    kept: Vec<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl Points {
    fn add(&mut self, at: u64, bytes: u64) {
        if self.kept.last().is_none_or(|(before, _)| at >= before + MILLISECOND) {
            self.kept.push((at, bytes));
        }
        self.last = Some((at, bytes));
    }

    fn all(&mut self) -> Vec<(u64, u64)> {
        if self.last.is_some() && self.kept.last() != self.last.as_ref() {
            self.kept.extend(self.last);
        }
        std::mem::take(&mut self.kept)
    }
}

impl Progress {
    pub(crate) fn is_over(&self) -> bool {
        self.client.ended && self.server.ended
    }

    /// A datagram that begins with `head` has arrived.
    pub(crate) fn note_datagram(&mut self, now_ns: u64, head: &[u8]) {
        let record = datagrams::record(now_ns, self.number, head);
        self.datagrams.extend_from_slice(&record);
    }

    /// There is nobody to read any more.
    pub(crate) fn end_server(&mut self) {
        self.server.ended = true;
    }

    pub(crate) fn note_read(&mut self, now_ns: u64, bytes: u64) {
        self.read.add(now_ns, bytes);
    }

    pub(crate) fn note_written(&mut self, now_ns: u64, bytes: u64) {
        self.written.add(now_ns, bytes);
    }

    /// Notes what a silent reader has read by now.
    pub(crate) fn look(&mut self, now_ns: u64) {
        if let (true, Some(socket)) = (self.silent, &self.server.socket) {
            let received = bytes_received(socket);
            if let (Some(received), Some(waiting)) = (received, sys::waiting_bytes(socket)) {
                let read = received.saturating_sub(waiting);
                if read > 0 {
                    self.read.add(now_ns, read);
                }
            }
        }
    }

    /// The result at the run's end, with what the sockets that are still open say.
    pub(crate) fn finish(&mut self) -> FlowResult {
        self.note_client();
        self.note_server();
        self.result.written = self.written.all();
        self.result.read = self.read.all();
        std::mem::take(&mut self.result)
    }

    fn note_client(&mut self) {
        if let Some(info) = self.client.socket.as_ref().and_then(mptcp_info) {
            self.result.fallback |= info.1;
            self.result.client_mptcp_info = Some(info.0);
        }
    }

    fn note_server(&mut self) {
        if let Some(info) = self.server.socket.as_ref().and_then(mptcp_info) {
            self.result.server_mptcp_info = Some(info.0);
        }
    }
}

/// Payload bytes that came in order so far: tcpi_bytes_received.
fn bytes_received(socket: &Arc<OwnedFd>) -> Option<u64> {
    const AT: usize = 128;
    let mut info = [0; AT + 8];
    let length = sys::get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    (length == info.len()).then(|| crate::netlink::long(&info, AT))
}

/// mptcp_info in hexadecimal, and whether the connection fell back to TCP.
fn mptcp_info(socket: &Arc<OwnedFd>) -> Option<(String, bool)> {
    const FLAGS_AT: usize = 8;
    const FELL_BACK: u32 = 1;
    let mut info = [0; 256];
    let length = sys::get_option(socket, SOL_MPTCP, MPTCP_INFO, &mut info)?;
    Some((hexadecimal(&info[..length]), crate::netlink::word(&info, FLAGS_AT) & FELL_BACK != 0))
}

/// A flow before the run: its sockets exist, each in its namespace, and the server listens.
#[derive(Debug)]
pub(crate) struct Ready {
    flow: Flow,
    ends: Ends,
    pub(crate) progress: Arc<Mutex<Progress>>,
}

#[derive(Debug)]
enum Ends {
    Connection { client: OwnedFd, listener: OwnedFd },
    Datagrams(datagrams::Sockets),
    Programs(external::Ends, Programs),
}

impl Ready {
    /// `announces`: the server announces further addresses, on which it listens too.
    pub(crate) fn prepare(number: usize, flow: &Flow, network: &Network, announces: bool, results: &Path) -> Outcome<Self> {
        let named = |e: String| format!("flow {}: {e}", flow.name);
        // Only of a connection the kernel says how far its server has read.
        let silent = !flow.mptcp
            && flow.programs.is_none()
            && flow.datagram_bytes == 0
            && flow.reading.sleep_ns == 0
            && !matches!(flow.app, App::Requests { .. });
        let mut progress = Progress { silent, number: number as u32, ..Progress::default() };
        progress.result.name.clone_from(&flow.name);
        let progress = Arc::new(Mutex::new(progress));
        if flow.datagram_bytes > 0 {
            let ends = Ends::Datagrams(datagrams::Sockets::open(flow, network).map_err(named)?);
            return Ok(Self { flow: flow.clone(), ends, progress });
        }
        if let Some(programs) = &flow.programs {
            let ends = external::Ends::open(number, flow, programs, network, results).map_err(named)?;
            return Ok(Self { flow: flow.clone(), ends: Ends::Programs(ends, programs.clone()), progress });
        }
        let (client_at, server_at) = (network.number(&flow.client)?, network.number(&flow.server)?);
        let (client_address, server_address) = (ip(&flow.client_address)?, ip(&flow.server_address)?);
        sys::enter_network(&network.places[server_at].file)?;
        let listener = open(flow, server_address.is_ipv4()).map_err(named)?;
        sys::set_option(&listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1_i32)?;
        let anywhere = if server_address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        let listens = if announces && flow.mptcp { anywhere } else { server_address };
        sys::bind(&listener, SocketAddr::new(listens, flow.port)).map_err(named)?;
        if flow.cc.ends_with("dctcp") {
            // Its SYN is agreed to by its like alone, and its receiver tells each mark (RFC 8257 section 3.2).
            sys::set_option_bytes(&listener, libc::IPPROTO_TCP, libc::TCP_CONGESTION, flow.cc.as_bytes())
                .map_err(|_| named(format!("this kernel has no congestion control {}", flow.cc)))?;
        }
        sys::listen(&listener)?;
        sys::enter_network(&network.places[client_at].file)?;
        let client = open(flow, client_address.is_ipv4()).map_err(named)?;
        if network.places[client_at].congestion_control != flow.cc {
            sys::set_option_bytes(&client, libc::IPPROTO_TCP, libc::TCP_CONGESTION, flow.cc.as_bytes())
                .map_err(|_| named(format!("this kernel has no congestion control {}", flow.cc)))?;
        }
        sys::bind(&client, SocketAddr::new(client_address, 0)).map_err(named)?;
        Ok(Self { flow: flow.clone(), ends: Ends::Connection { client, listener }, progress })
    }

    /// Starts both ends; the run's time 0 is `origin` on the machine's clock. `on_connect` is called once the client is connected.
    pub(crate) fn start(
        self,
        origin: u64,
        chunk: &Arc<Vec<u8>>,
        sockets: &Arc<Mutex<Sockets>>,
        on_connect: impl FnOnce(u64) + Send + 'static,
    ) -> Outcome<()> {
        let (socket, listener) = match self.ends {
            Ends::Connection { client, listener } => (client, listener),
            Ends::Datagrams(sockets) => return sockets.start(self.flow, self.progress, origin),
            Ends::Programs(ends, programs) => return ends.start(self.flow, programs, self.progress, origin),
        };
        let server = Server { flow: self.flow.clone(), listener, progress: self.progress.clone(), chunk: chunk.clone(), origin };
        let server_address = SocketAddr::new(ip(&self.flow.server_address)?, self.flow.port);
        let client = Client { flow: self.flow, progress: self.progress, sockets: sockets.clone(), chunk: chunk.clone(), origin };
        spawn(move || {
            let outcome = server.run();
            let mut progress = lock(&server.progress);
            progress.note_server();
            progress.server = End { socket: None, ended: true };
            if let Err(wrong) = outcome {
                progress.result.error.get_or_insert(wrong);
            }
        })?;
        spawn(move || {
            let outcome = client.run(Arc::new(socket), server_address, on_connect);
            let mut progress = lock(&client.progress);
            progress.client.ended = true;
            if let Err(wrong) = outcome {
                // Nobody will connect any more.
                progress.server.ended = progress.result.accepted_ns.is_none() || progress.server.ended;
                progress.result.error.get_or_insert(wrong);
            }
        })
    }
}

/// What the senders send.
pub(crate) fn chunk() -> Arc<Vec<u8>> {
    Arc::new(vec![0; CHUNK])
}

pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> Outcome<()> {
    const STACK: usize = 64 << 10;
    let made = std::thread::Builder::new().stack_size(STACK).spawn(work);
    made.map(drop).map_err(|e| format!("starting a thread: {e}"))
}

fn open(flow: &Flow, v4: bool) -> Outcome<OwnedFd> {
    let family = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    if mptcp::is_out_of_tree() {
        let socket = sys::socket(family, libc::SOCK_STREAM, 0)?;
        sys::set_option(&socket, libc::IPPROTO_TCP, V0_ENABLED, i32::from(flow.mptcp))?;
        for (option, name) in [(V0_SCHEDULER, &flow.scheduler), (V0_PATH_MANAGER, &flow.path_manager)] {
            if let Some(name) = name {
                sys::set_option_bytes(&socket, libc::IPPROTO_TCP, option, name.as_bytes())?;
            }
        }
        return Ok(socket);
    }
    let socket = sys::socket(family, libc::SOCK_STREAM, if flow.mptcp { IPPROTO_MPTCP } else { 0 });
    socket.map_err(|e| if flow.mptcp { format!("this kernel has no MPTCP ({e})") } else { e })
}

struct Server {
    flow: Flow,
    listener: OwnedFd,
    progress: Arc<Mutex<Progress>>,
    chunk: Arc<Vec<u8>>,
    origin: u64,
}

impl Server {
    fn now(&self) -> u64 {
        sys::monotonic().saturating_sub(self.origin)
    }

    fn run(&self) -> Outcome<()> {
        let socket = Arc::new(sys::accept(&self.listener)?);
        {
            let mut progress = lock(&self.progress);
            progress.result.accepted_ns = Some(self.now());
            progress.server.socket = Some(socket.clone());
        }
        let Reading { low_water, sleep_ns } = self.flow.reading;
        if low_water > 0 {
            sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, low_water as i32)?;
        }
        if let App::Requests { request_bytes, response_bytes, .. } = self.flow.app {
            self.answer(&socket, request_bytes, response_bytes)
        } else if sleep_ns > 0 {
            self.read_and_sleep(&socket, sleep_ns)
        } else {
            self.read_on(&socket)
        }
        Ok(())
    }

    /// Reads what waits, sleeps, and so on. The time is asked for only about as often as other readers are looked at.
    fn read_and_sleep(&self, socket: &Arc<OwnedFd>, sleep_ns: u64) {
        /// Linux's default: the sleeps of the readers in the reference ended by so much late, where that saved an interrupt.
        const SLACK: libc::c_ulong = 50_000;
        sys::timer_slack(SLACK);
        let (mut total, mut unnoted) = (0, 0);
        loop {
            match sys::discard(socket, READ, libc::MSG_DONTWAIT) {
                Ok(0) => return self.end(total, true),
                Ok(length) => {
                    total += length as u64;
                    unnoted += sleep_ns;
                    if unnoted >= LOOK || total == length as u64 {
                        unnoted = 0;
                        let now = self.now();
                        lock(&self.progress).read.add(now, total);
                    }
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return self.end(total, false),
            }
            sys::sleep_for(sleep_ns);
        }
    }

    /// Reads inside the kernel: TCP to the connection's end, for the run asks the socket how far it is; MPTCP, which cannot say so, comes
    /// back every 100 ms.
    fn read_on(&self, socket: &Arc<OwnedFd>) {
        const RETURN: u64 = 100 * MILLISECOND;
        if self.flow.mptcp && sys::set_timeout(socket, libc::SO_RCVTIMEO, RETURN).is_err() {
            return self.end(0, false);
        }
        let mut total = 0;
        loop {
            match sys::discard(socket, READ_ALL, libc::MSG_WAITALL) {
                Ok(0) => return self.end(total, true),
                Ok(length) => {
                    total += length as u64;
                    let now = self.now();
                    lock(&self.progress).read.add(now, total);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return self.end(total, false),
            }
        }
    }

    /// Reads each request whole and answers it.
    fn answer(&self, socket: &Arc<OwnedFd>, request_bytes: u64, response_bytes: u64) {
        let mut total = 0;
        while read_whole(socket, request_bytes) {
            total += request_bytes;
            let now = self.now();
            lock(&self.progress).read.add(now, total);
            if send_whole(socket, &self.chunk, response_bytes).is_err() {
                return self.end(total, false);
            }
        }
        self.end(total, true);
    }

    fn end(&self, total: u64, complete: bool) {
        let now = self.now();
        let mut progress = lock(&self.progress);
        if total > 0 {
            progress.read.add(now, total);
        }
        if complete {
            progress.result.finished_ns = Some(now);
        }
    }
}

struct Client {
    flow: Flow,
    progress: Arc<Mutex<Progress>>,
    sockets: Arc<Mutex<Sockets>>,
    chunk: Arc<Vec<u8>>,
    origin: u64,
}

impl Client {
    fn now(&self) -> u64 {
        sys::monotonic().saturating_sub(self.origin)
    }

    fn run(&self, socket: Arc<OwnedFd>, server: SocketAddr, on_connect: impl FnOnce(u64)) -> Outcome<()> {
        sys::sleep_until(self.origin + self.flow.start_ns);
        sys::connect(&socket, server)?;
        let connected = self.now();
        {
            let mut progress = lock(&self.progress);
            progress.result.connected_ns = Some(connected);
            progress.client.socket = Some(socket.clone());
        }
        on_connect(connected);
        let prompt = matches!(self.flow.app, App::OnOff { .. });
        let mut sender = Sender { client: self, socket: &socket, total: 0, timeout: 0, prompt };
        let sent = match self.flow.app {
            App::Bulk { duration_ns } => sender.bulk(connected + duration_ns),
            App::Transfer { bytes } => sender.transfer(bytes),
            App::OnOff { on_ns, off_ns, duration_ns, bits_per_s } => sender.on_off(on_ns, off_ns, connected + duration_ns, bits_per_s),
            App::Requests { request_bytes, response_bytes, pause_ns, duration_ns } => {
                sender.requests(request_bytes, response_bytes, pause_ns, connected + duration_ns)
            }
        };
        // The last word of the kernel about this flow's subflows, before they are gone.
        lock(&self.sockets).look(self.now(), false)?;
        let mut progress = lock(&self.progress);
        progress.note_client();
        progress.client.socket = None;
        drop(progress);
        sent
    }
}

struct Sender<'a> {
    client: &'a Client,
    socket: &'a Arc<OwnedFd>,
    total: u64,
    /// How long a send may block now; 0: for ever.
    timeout: u64,
    /// Stops in the middle of a chunk when the time has come; else after it, as the reference's sender does.
    prompt: bool,
}

impl Sender<'_> {
    fn bulk(&mut self, until: u64) -> Outcome<()> {
        self.send_until(until, u64::MAX)?;
        sys::linger_never(self.socket)
    }

    /// Sends, then waits until the peer has everything and closes too.
    fn transfer(&mut self, bytes: u64) -> Outcome<()> {
        self.send_until(u64::MAX, bytes)?;
        sys::shutdown_write(self.socket);
        let mut end = [0; 16];
        while sys::receive(self.socket, &mut end, 0).is_ok_and(|length| length > 0) {}
        Ok(())
    }

    /// Bursts, each from where the last one should have ended; a rate is kept exactly over each burst, in a write a millisecond.
    fn on_off(&mut self, on_ns: u64, off_ns: u64, end: u64, bits_per_s: Option<u64>) -> Outcome<()> {
        let mut begin = self.client.now();
        while begin < end {
            let until = (begin + on_ns).min(end);
            match bits_per_s {
                None => self.send_until(until, u64::MAX)?,
                Some(bits) => {
                    let due = |at: u64| (u128::from(bits) * u128::from(at - begin) / 8_000_000_000) as u64;
                    let (base, mut at) = (self.total, begin);
                    while at < until {
                        at = (at + MILLISECOND).min(until);
                        self.send_until(until, base + due(at))?;
                        sys::sleep_until(self.client.origin + at);
                    }
                }
            }
            begin = until + off_ns;
            sys::sleep_until(self.client.origin + begin.min(end));
        }
        sys::linger_never(self.socket)
    }

    /// Each request once the last was answered and the pause is over.
    fn requests(&mut self, request_bytes: u64, response_bytes: u64, pause_ns: u64, end: u64) -> Outcome<()> {
        let mut at = self.client.now();
        while at < end {
            sys::sleep_until(self.client.origin + at);
            let sent = self.client.now();
            send_whole(self.socket, &self.client.chunk, request_bytes).map_err(|e| format!("send: {e}"))?;
            self.total += request_bytes;
            if !read_whole(self.socket, response_bytes) {
                return Err("the connection ended before the response".to_owned());
            }
            let answered = self.client.now();
            let mut progress = lock(&self.client.progress);
            progress.written.add(sent, self.total);
            progress.result.responses.push((sent, answered));
            at = answered + pause_ns;
        }
        sys::shutdown_write(self.socket);
        Ok(())
    }

    /// Sends until this time or until this many bytes are sent in all.
    fn send_until(&mut self, until: u64, limit: u64) -> Outcome<()> {
        let mut now = self.client.now();
        while now < until && self.total < limit {
            self.block_at_most(until.saturating_sub(now))?;
            let length = (limit - self.total).min(CHUNK as u64) as usize;
            match sys::send(self.socket, &self.client.chunk[..length]) {
                Ok(sent) => self.total += sent as u64,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(format!("send: {e}")),
            }
            now = self.client.now();
            if self.total > 0 {
                lock(&self.client.progress).written.add(now, self.total);
            }
        }
        Ok(())
    }

    /// Sees to it that a send comes back: every second at the latest, so that no flow outlasts its time by more.
    fn block_at_most(&mut self, ns: u64) -> Outcome<()> {
        // A timeout of 0 would mean for ever.
        let wanted = if self.prompt { ns.clamp(MILLISECOND, SECOND) } else { SECOND };
        if wanted != self.timeout {
            sys::set_timeout(self.socket, libc::SO_SNDTIMEO, wanted)?;
            self.timeout = wanted;
        }
        Ok(())
    }
}

/// Sends so many bytes, however long it takes.
fn send_whole(socket: &Arc<OwnedFd>, chunk: &[u8], mut bytes: u64) -> std::io::Result<()> {
    while bytes > 0 {
        match sys::send(socket, &chunk[..bytes.min(chunk.len() as u64) as usize]) {
            Ok(sent) => bytes -= sent as u64,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads so many bytes and throws them away; false if the connection ends before.
fn read_whole(socket: &Arc<OwnedFd>, mut bytes: u64) -> bool {
    while bytes > 0 {
        match sys::discard(socket, bytes.min(READ as u64) as usize, libc::MSG_WAITALL) {
            Ok(0) => return false,
            Ok(read) => bytes -= read as u64,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

/// The plan's flows, ready to start.
pub(crate) fn prepare(plan: &Plan, network: &Network, results: &Path) -> Outcome<Vec<Ready>> {
    let announces = |flow: &Flow| plan.endpoints.iter().any(|endpoint| endpoint.signal && endpoint.namespace == flow.server);
    plan.flows.iter().enumerate().map(|(number, flow)| Ready::prepare(number, flow, network, announces(flow), results)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kept_once_a_millisecond_and_the_last_is_never_lost() {
        let mut points = Points::default();
        for (at, bytes) in [(5, 1), (900_000, 2), (1_000_005, 3), (1_500_000, 4)] {
            points.add(at, bytes);
        }
        assert_eq!(points.all(), [(5, 1), (1_000_005, 3), (1_500_000, 4)]);
        let mut none = Points::default();
        assert_eq!(none.all(), []);
    }
}
