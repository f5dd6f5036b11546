//! What the threads share: the tunnel's state behind one lock, taken once for many packets, and the
//! sockets.

use crate::config::Config;
use crate::encapsulation::{Encapsulation, Refused};
use crate::encryption::{EncryptionCounters, Session};
use crate::parity::Encoder;
use polypath_base::{Bytes, Error, Instant, PathId, Seq, counters};
use polypath_io::{Clock, Datagrams, Failed, Offload, Rooms, Tun, Wake};
use polypath_tunnel::{Endpoint, Message, Parity, Probe, Report, Spreading};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has come and waits while the receiving thread is kept from the processor, bytes: as fast
/// tunnels have it.
const RECEIVE_BUFFER: u32 = 14 << 20;
/// Source ports over which flows are spread (RFC 8086 section 3.2.1): a socket each.
const ENTROPY_PORTS: usize = 16;

/// A message that is too long (Linux: EMSGSIZE).
pub(crate) const TOO_LONG: i32 = 90;

/// A packet on its way through the tunnel's state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    /// The number of one that is to be sent, in the list of the sending thread: where none waits
    /// for its path.
    Outgoing(u32),
    /// One that is to be sent, with room for its header, and the hash of its flow.
    Held(Vec<u8>, u32),
    /// One that has come.
    Incoming(Vec<u8>),
    /// The symbol of a parity.
    Symbol(Vec<u8>),
    /// A parity that is to be sent, with its header.
    Parity(Vec<u8>),
}

impl AsRef<[u8]> for Packet {
    /// The bytes that a packet or a parity has by itself.
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Outgoing(_) => &[],
            Self::Held(bytes, _) | Self::Incoming(bytes) | Self::Symbol(bytes) | Self::Parity(bytes) => bytes,
        }
    }
}

/// A sign of life that is to be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Keepalive,
    Report(Report),
    Probe(Probe),
}

counters! {
    /// What the daemon did with packets, besides carrying them.
    pub(crate) struct DaemonCounters {
        tun_reads: Times, "packets of the host's stack that were read, large ones counted once";
        tun_writes: Times, "packets that were handed to the host's stack, large ones counted once";
        unreadable: Packets, "packets of the host's stack that made no sense";
        not_taken: Packets, "packets that the host's stack did not take";
        clamped: Packets, "SYNs whose MSS was lowered to what the tunnel carries";
        too_big: Packets, "packets that were longer than a path's MTU allows";
        unsendable: Packets, "packets that a path's socket did not take: no route, the device is down, or full for a tenth of a second";
        no_session: Packets, "packets that were dropped because the other end had not answered yet what to encrypt with";
        offload_fallbacks: Times, "times that an offload failed and was given up";
        blocked: Time, "time in which the sending thread waited for room in a path's socket buffer";
    }
}

/// The state behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) endpoint: Endpoint<Packet>,
    /// The packets whose parities are still to be made; none without error correction.
    pub(crate) encoder: Option<Encoder>,
    /// Packets that the endpoint has sent and the sending thread has not.
    pub(crate) released: VecDeque<(PathId, Option<Seq>, Packet)>,
    /// When the sending thread looks by itself at what waits for a path.
    pub(crate) sender_due: Instant,
    pub(crate) refused: Refused,
    pub(crate) counters: DaemonCounters,
    /// By path where the other end is: as the file says, or, with encryption, where it was heard
    /// last.
    pub(crate) remotes: Vec<SocketAddr>,
    /// What to encrypt with; none without encryption, and until the other end has answered.
    pub(crate) session: Option<Arc<Session>>,
    /// The host had something to send, and there was no session.
    pub(crate) asked: bool,
    pub(crate) encryption: EncryptionCounters,
}

/// A path's sockets.
#[derive(Debug)]
pub(crate) struct PathSockets {
    /// At the path's own port; reads, and sends what has no flow.
    pub(crate) main: Datagrams,
    /// At other ports, for RFC 8086's entropy; otherwise empty.
    pub(crate) entropy: Vec<Datagrams>,
    /// The kernel cuts what is sent.
    pub(crate) segments: AtomicBool,
}

/// A tunnel that is up.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) tun: Tun,
    /// Of the device, bytes; it changes where it is searched for.
    mtu: AtomicU32,
    pub(crate) paths: Vec<PathSockets>,
    state: Mutex<State>,
    /// Wakes the sending thread.
    pub(crate) wake: Wake,
}

impl Core {
    /// Opens the sockets of a tunnel whose device is there. What the machine lacks is told to
    /// `log`.
    pub(crate) fn open(config: Config, tun: Tun, log: &dyn Fn(&str)) -> Result<Self, Error> {
        let clock = Clock::start_with_suspend();
        let mut endpoint = Endpoint::new(clock.now(), &config.endpoint)
            .ok_or_else(|| Error::caller("the tunnel's weights, reorder rule or keepalives make no sense together"))?;
        endpoint.begin_after(config.packets_before);
        let paths = config.paths.iter().map(|path| sockets(&config, path, log)).collect::<Result<_, Failed>>()?;
        if config.offload && tun.offload() != Offload::TcpAndUdp {
            let what = if tun.offload() == Offload::None { "large packets" } else { "large packets of UDP (Linux 6.2 has it)" };
            log(&format!("{}: this kernel's TUN devices take no {what}; the tunnel works, more slowly", tun.name()));
        }
        let state = State {
            encoder: endpoint.fec_counters().map(|_| Encoder::default()),
            endpoint,
            released: VecDeque::new(),
            sender_due: Instant::NEVER,
            refused: Refused::default(),
            counters: DaemonCounters::default(),
            remotes: config.paths.iter().map(|path| path.remote).collect(),
            session: None,
            asked: false,
            encryption: EncryptionCounters::default(),
        };
        let mtu = AtomicU32::new(config.mtu);
        Ok(Self { config, clock, tun, mtu, paths, state: Mutex::new(state), wake: Wake::new()? })
    }

    /// The device's MTU.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu.load(Ordering::Relaxed)
    }

    /// Gives the device the MTU that the paths have turned out to carry.
    pub(crate) fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        self.mtu.store(mtu, Ordering::Relaxed);
        polypath_io::set_mtu(self.tun.name(), mtu)
    }

    /// The state, for as long as it takes to pass some packets through it.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has ended the daemon.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes the parities of a block that has ended. To be called after each packet of the host and
    /// each timeout.
    pub(crate) fn protect(&mut self, now: Instant) {
        let Some((first, encoder)) = self.endpoint.poll_block().zip(self.encoder.as_mut()) else { return };
        for (index, symbol) in (0..).zip(encoder.end(&first)) {
            let len = Bytes::new(symbol.len() as u64);
            self.endpoint.handle_parity(now, Parity { index, ..first }, len, Packet::Symbol(symbol));
        }
    }

    /// Takes what the endpoint sends: packets stay here for the sending thread, so that each path's
    /// keep their order, and signs of life go to the caller.
    pub(crate) fn poll_transmit(&mut self, form: Encapsulation, signs: &mut Vec<(PathId, Sign)>) {
        while let Some((path, message)) = self.endpoint.poll_transmit() {
            match message {
                Message::Data { seq, packet } => self.released.push_back((path, seq, packet)),
                Message::Parity { parity, payload } => {
                    self.released.push_back((path, None, Packet::Parity(form.parity(&parity, payload.as_ref()))));
                }
                Message::Keepalive => signs.push((path, Sign::Keepalive)),
                Message::Report(report) => signs.push((path, Sign::Report(report))),
                Message::Probe(probe) => signs.push((path, Sign::Probe(probe))),
            }
        }
    }
}

fn sockets(config: &Config, path: &crate::config::PathConfig, log: &dyn Fn(&str)) -> Result<PathSockets, Failed> {
    let rooms = Rooms { send: config.send_buffer, receive: RECEIVE_BUFFER };
    let mut main = Datagrams::bind(path.local, path.device.as_deref(), rooms)?;
    if config.offload && !main.merge() {
        log(&format!("path {}: this kernel does not merge datagrams (UDP_GRO); the tunnel works, more slowly", path.name));
    }
    if config.endpoint.spreading == Spreading::Earliest && !main.stamp() {
        log(&format!(
            "path {}: this kernel does not say when datagrams come (SO_TIMESTAMPNS); what is learnt of the path is less exact",
            path.name
        ));
    }
    // What is encrypted has one port at each end: the other end answers to where it came from.
    let spread = config.encapsulation.framing == crate::encapsulation::Framing::Rfc8086 && config.encryption.is_none();
    let ports = if spread { ENTROPY_PORTS } else { 0 };
    let any_port = SocketAddr::new(path.local.ip(), 0);
    let entropy: Vec<_> = (0..ports).map(|_| Datagrams::bind(any_port, path.device.as_deref(), rooms)).collect::<Result<_, _>>()?;
    if config.endpoint.mtu.is_some() {
        std::iter::once(&main).chain(&entropy).try_for_each(Datagrams::forbid_fragments)?;
    }
    Ok(PathSockets { main, entropy, segments: AtomicBool::new(config.offload) })
}

impl PathSockets {
    /// The socket for a flow.
    pub(crate) fn of(&self, flow_hash: u32) -> &Datagrams {
        if self.entropy.is_empty() { &self.main } else { &self.entropy[flow_hash as usize % self.entropy.len()] }
    }

    pub(crate) fn segments(&self) -> bool {
        self.segments.load(Ordering::Relaxed)
    }
}
