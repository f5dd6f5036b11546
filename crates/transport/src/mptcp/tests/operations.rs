//! Random operations on a client and a server: whatever applications, addresses and networks do, in
//! whatever order.
//!
//! An [`Observer`] on the wires beside them is too simple to be wrong. It knows of each byte of a
//! subflow which byte of the connection it is, which bytes of the connection have entered the
//! network and were not lost, and how far the peer has ever let its sender go. Bytes have no
//! values here, so a byte is right if its subflow number always stands for the same data sequence
//! number, and it is delivered in order and once if the reader never has more than the bytes up to
//! the first that is missing.

use super::*;
use crate::harness::{Crossing, Fate};
use crate::mptcp::path_manager::Fullmesh;
use crate::mptcp::sender::Fin;
use crate::mptcp::{Phase, Subflow};
use crate::stack::STACKS;
use crate::tcp::State;
use polypath_base::Rng;
use polypath_wire::{Flags, Inline};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Host {
    Client = CLIENT as isize,
    Server = SERVER as isize,
}

impl Host {
    const BOTH: [Self; 2] = [Self::Client, Self::Server];

    fn end(self, net: &mut Net<Connection>) -> &mut Connection {
        if self == Self::Client { &mut net.client } else { &mut net.server }
    }
}

/// Paths are chosen by number: an operation on one of which there is no subflow yet waits for it.
#[derive(Clone, Debug)]
enum Operation {
    Open,
    Write {
        by: Host,
        bytes: u64,
    },
    Close(Host),
    /// The next so many segments from there are lost.
    Lose {
        path: u8,
        from: Host,
        segments: usize,
    },
    /// The next one arrives so much later, and so behind what is sent after it.
    Reorder {
        path: u8,
        from: Host,
        later_ms: u64,
    },
    /// The next one arrives again so much later.
    Duplicate {
        path: u8,
        from: Host,
        later_ms: u64,
    },
    /// The server has one more address, and says so.
    AddAddress(u8),
    /// An address goes away, and its host says so.
    RemoveAddress {
        of: Host,
        address: u8,
    },
    /// Everything is lost on the path, until it is unmuted.
    Mute(u8),
    Unmute(u8),
    /// MP_PRIO.
    SetBackup {
        path: u8,
        by: Host,
        backup: bool,
    },
    Advance {
        ms: u64,
    },
}

/// Most paths that operations speak of.
const PATHS: u8 = 4;

fn operation() -> impl Strategy<Value = Operation> {
    let host = || prop::sample::select(&Host::BOTH[..]);
    let path = || 0..PATHS;
    prop_oneof![
        1 => Just(Operation::Open),
        4 => (host(), 1..150_000_u64).prop_map(|(by, bytes)| Operation::Write { by, bytes }),
        1 => host().prop_map(Operation::Close),
        2 => (path(), host(), 1..6_usize).prop_map(|(path, from, segments)| Operation::Lose { path, from, segments }),
        2 => (path(), host(), 1..200_u64).prop_map(|(path, from, later_ms)| Operation::Reorder { path, from, later_ms }),
        2 => (path(), host(), 0..200_u64).prop_map(|(path, from, later_ms)| Operation::Duplicate { path, from, later_ms }),
        1 => (1..4_u8).prop_map(Operation::AddAddress),
        1 => (host(), 0..3_u8).prop_map(|(of, address)| Operation::RemoveAddress { of, address }),
        2 => path().prop_map(Operation::Mute),
        2 => path().prop_map(Operation::Unmute),
        1 => (path(), host(), any::<bool>()).prop_map(|(path, by, backup)| Operation::SetBackup { path, by, backup }),
        5 => prop_oneof![1..30_u64, 30..3000_u64].prop_map(|ms| Operation::Advance { ms }),
    ]
}

#[derive(Clone, Debug)]
struct Setup {
    kernel: Kernel,
    scheduler: &'static str,
    path_manager: PathManager,
    /// Of the client.
    addresses: usize,
    /// One way, by path.
    delays_ms: [u64; PATHS as usize],
    mbit: u64,
    read_period_ms: u64,
    /// Largest receive buffer.
    rmem: u64,
    /// In the end this path alone lives, if it carries a subflow; else all do.
    survivor: u8,
    seed: u64,
}

fn setup() -> impl Strategy<Value = Setup> {
    let managers = prop_oneof![Just(PathManager::default()), Just(Fullmesh.into()), (2..4_u8).prop_map(|count| Ndiffports(count).into())];
    (
        // Two faults of 5.4-mptcp are open, one case in some ten thousand each: with `redundant` a
        // last byte is never scheduled, and a handshake whose SYNs are lost outlasts the test.
        any_kernel().prop_filter("MPTCP version 1", |kernel| kernel.0.mptcp_version == MptcpVersion::V1),
        prop::sample::select(Scheduler::NAMES.to_vec()),
        managers,
        1..4_usize,
        [1..60_u64, 1..60, 1..60, 1..60],
        1..60_u64,
        prop_oneof![Just(0), 1..50_u64],
        17..23_u32,
        0..PATHS,
        any::<u64>(),
    )
        .prop_map(|(kernel, scheduler, path_manager, addresses, delays_ms, mbit, read_period_ms, rmem, survivor, seed)| Setup {
            kernel,
            scheduler,
            path_manager,
            addresses,
            delays_ms,
            mbit,
            read_period_ms,
            rmem: 1 << rmem,
            survivor,
            seed,
        })
}

/// What an end has sent, as the wires saw it. Bytes of the connection are counted from 0.
#[derive(Debug, Default)]
struct Stream {
    /// Data sequence number of the first byte; the lower half of it is enough.
    first: u32,
    /// Of SYNs, by path.
    initial: BTreeMap<u8, Seq>,
    window_scale: u8,
    /// By path, for each byte of the subflow the byte of the connection; `UNKNOWN` between.
    mapped: BTreeMap<u8, Vec<u32>>,
    /// Bytes of the connection that entered the network and were not lost.
    arrives: Vec<bool>,
    /// Those before the first that is missing.
    whole: usize,
    /// The peer has said that it has so many, and let its sender go so far.
    acked: u64,
    window_end: u64,
    most_window: u64,
}

const UNKNOWN: u32 = u32::MAX;

impl Stream {
    fn arrive(&mut self, from: usize, to: usize) {
        self.arrives.resize(self.arrives.len().max(to), false);
        self.arrives[from..to].fill(true);
        while self.arrives.get(self.whole) == Some(&true) {
            self.whole += 1;
        }
    }
}

struct Observer {
    kernel: Kernel,
    /// By who sends.
    streams: [Stream; 2],
    muted: [bool; PATHS as usize],
    /// What becomes of the next segments, by path and sender.
    fates: [[VecDeque<Fate>; 2]; PATHS as usize],
    /// By sender: options for the next segment without data, on any path or on one.
    options: [VecDeque<(Option<u8>, Repr)>; 2],
    /// What was wrong first.
    fault: Option<String>,
}

impl Observer {
    fn on_segment(&mut self, path: u8, from: usize, crossing: &mut Crossing<'_>) -> Fate {
        let place = usize::from(path % PATHS);
        let segment = &mut *crossing.segment;
        if let Err(fault) = self.look_at(path, from, segment) {
            self.fault.get_or_insert(format!("at {:?}, path {path}, from {from}: {fault}: {segment:?}", crossing.now));
        }
        let fits = |(only, _): &(Option<u8>, Repr)| only.is_none_or(|only| usize::from(only) == place);
        if segment.len == 0 && segment.has_dss && segment.mp.is_empty() && self.options[from].front().is_some_and(fits) {
            segment.mp.push(&self.options[from].pop_front().expect("there is one").1);
        }
        let fate = self.fates[place][from].pop_front().unwrap_or(Fate::Arrives);
        let fate = if self.muted[place] { Fate::Lost } else { fate };
        if fate != Fate::Lost && segment.len > 0 {
            let stream = &mut self.streams[from];
            let offset = (segment.seq.distance(stream.initial[&path]) - 1) as usize;
            let first = stream.mapped.get(&path).and_then(|bytes| bytes.get(offset)).copied().unwrap_or(UNKNOWN);
            if first != UNKNOWN {
                stream.arrive(first as usize, first as usize + segment.len as usize);
            }
        }
        fate
    }

    fn look_at(&mut self, path: u8, from: usize, segment: &Segment) -> Result<(), String> {
        if segment.flags.has(Flags::RST) {
            return Ok(());
        }
        self.look_at_acknowledgement(path, from, segment)?;
        let stream = &mut self.streams[from];
        if segment.flags.has(Flags::SYN) {
            stream.window_scale = if segment.window_scale == u8::MAX { 0 } else { segment.window_scale };
            if *stream.initial.entry(path).or_insert(segment.seq) != segment.seq {
                return Err("another initial sequence number".into());
            }
        }
        if segment.len == 0 {
            return Ok(());
        }
        let Some(&initial) = stream.initial.get(&path) else { return Err("data before any SYN".into()) };
        let (offset, dss) = (segment.seq.distance(initial) - 1, &segment.dss);
        // Without a mapping, as after a fallback, the only subflow's bytes are the connection's.
        let byte = if segment.has_dss && dss.map_len > 0 {
            let inside = offset.wrapping_sub(dss.ssn - 1);
            if inside + segment.len + u32::from(dss.data_fin) > u32::from(dss.map_len) {
                return Err("the mapping is too short".into());
            }
            (dss.dsn.get() as u32).wrapping_sub(stream.first) + inside
        } else {
            offset
        };
        if byte.cast_signed() < 0 {
            // A probe of the window, before anything was acknowledged: the number before the first.
            return Ok(());
        }
        let bytes = stream.mapped.entry(path).or_default();
        let range = offset as usize..(offset + segment.len) as usize;
        bytes.resize(bytes.len().max(range.end), UNKNOWN);
        for (known, byte) in bytes[range].iter_mut().zip(byte..) {
            if *known != UNKNOWN && *known != byte {
                return Err(format!("byte {known} of the connection was sent as what is now its byte {byte}"));
            }
            *known = byte;
        }
        let (end, most) = (u64::from(byte + segment.len), stream.most_end(self.kernel.0));
        if end > most { Err(format!("{end} bytes where the peer's windows allow {most}")) } else { Ok(()) }
    }

    /// What a segment says of the data of the other direction.
    fn look_at_acknowledgement(&mut self, path: u8, from: usize, segment: &Segment) -> Result<(), String> {
        let is_syn = segment.flags.has(Flags::SYN);
        let scale = if is_syn { 0 } else { self.streams[from].window_scale };
        let stream = &mut self.streams[1 - from];
        let acked = if segment.has_dss && segment.dss.has_ack {
            (segment.dss.data_ack.get() as u32).wrapping_sub(stream.first)
        } else if path == 0 && segment.flags.has(Flags::ACK) && !is_syn {
            segment.ack.distance(stream.initial[&path]) - 1
        } else {
            0
        };
        // A DATA_FIN has a number too.
        if segment.has_dss && acked as usize > stream.whole + 1 {
            return Err(format!("{acked} bytes acknowledged of {} that came", stream.whole));
        }
        let window = u64::from(segment.window) << scale;
        stream.acked = stream.acked.max(u64::from(acked));
        stream.most_window = stream.most_window.max(window);
        stream.window_end = stream.window_end.max(u64::from(acked) + window);
        Ok(())
    }
}

impl Stream {
    /// How far its end may go at most.
    fn most_end(&self, stack: &Stack) -> u64 {
        // A window of this kernel's subflow may be older than the data acknowledgement that it is
        // put behind.
        if stack.data_window_by_subflow { self.acked + self.most_window } else { self.window_end }
    }
}

/// A pair of ends, and what they have shown so far.
struct Pair {
    net: Net<Connection>,
    observer: Rc<RefCell<Observer>>,
    opened: bool,
    closed: [bool; 2],
    /// By end, what may only grow.
    before: [Seen; 2],
}

#[derive(Clone, Debug, Default)]
struct Seen {
    received: Bytes,
    established_at: Option<Instant>,
    is_fallback: bool,
    peer_finished: bool,
    /// Of the subflows, and whether each is given up.
    states: Vec<(State, bool)>,
}

impl Seen {
    fn of(end: &Connection) -> Self {
        Self {
            received: end.received(),
            established_at: end.established_at(),
            is_fallback: end.is_fallback(),
            peer_finished: end.peer_finished(),
            states: end.subflows.iter().map(|subflow| (subflow.socket.state(), subflow.closed)).collect(),
        }
    }
}

/// Whether RFC 9293 figure 5 leads from one state to the other, by however many steps.
fn leads(from: State, to: State) -> bool {
    use State::{CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, Listen, SynReceived, SynSent, TimeWait};
    let next: &[State] = match from {
        Listen => &[SynReceived],
        SynSent => &[SynReceived, Established],
        SynReceived => &[Established, FinWait1],
        Established => &[FinWait1, CloseWait],
        FinWait1 => &[FinWait2, Closing, TimeWait],
        FinWait2 | Closing => &[TimeWait],
        CloseWait => &[LastAck],
        LastAck | TimeWait | Closed => &[],
    };
    // Any state ends with a reset.
    from == to || to == Closed || next.iter().any(|&next| leads(next, to))
}

impl Pair {
    fn new(setup: &Setup) -> Self {
        let mut settings = settings(setup.kernel.0);
        settings.read_period = Duration::from_millis(setup.read_period_ms);
        settings.rmem[2] = Bytes::new(setup.rmem);
        let end = |manager, addresses, name| Config {
            scheduler: Scheduler::find(setup.scheduler).expect("known"),
            random: Rng::new(setup.seed, name),
            ..config(&settings, manager, addresses, name)
        };
        let client = Connection::client(end(setup.path_manager.clone(), setup.addresses, "client"));
        let server = Connection::server(end(PathManager::default(), 1, "server"));
        let stream = |end: &Connection| Stream { first: end.tx.una.get() as u32, ..Stream::default() };
        let observer = Rc::new(RefCell::new(Observer {
            kernel: setup.kernel,
            streams: [stream(&client), stream(&server)],
            muted: [false; PATHS as usize],
            fates: Default::default(),
            options: Default::default(),
            fault: None,
        }));
        let paths = (0..polypath_sched::MAX_SUBFLOWS as u8).map(|path| {
            [CLIENT, SERVER].map(|from| {
                let observer = Rc::clone(&observer);
                let direction = Direction::new(setup.delays_ms[usize::from(path % PATHS)], setup.mbit, usize::MAX);
                direction.scripted(move |crossing| observer.borrow_mut().on_segment(path, from, crossing))
            })
        });
        let mut net = Net::new(client, server, paths.collect());
        net.keep_log = false;
        let before = [&net.client, &net.server].map(Seen::of);
        Self { net, observer, opened: false, closed: [false; 2], before }
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.net.now;
        let mut observer = self.observer.borrow_mut();
        let mut fate = |path: u8, from: Host, fate: Fate, count: usize| {
            observer.fates[usize::from(path)][from as usize].extend(std::iter::repeat_n(fate, count));
        };
        match *operation {
            Operation::Open if !self.opened => {
                self.opened = true;
                self.net.client.open(now);
            }
            Operation::Open => {}
            Operation::Write { by, bytes } if !self.closed[by as usize] => by.end(&mut self.net).offer(now, Bytes::new(bytes)),
            Operation::Write { .. } => {}
            Operation::Close(by) => {
                self.closed[by as usize] = true;
                by.end(&mut self.net).close(now);
            }
            Operation::Lose { path, from, segments } => fate(path, from, Fate::Lost, segments),
            Operation::Reorder { path, from, later_ms } => fate(path, from, Fate::HeldBack(Duration::from_millis(later_ms)), 1),
            Operation::Duplicate { path, from, later_ms } => fate(path, from, Fate::Twice(Duration::from_millis(later_ms)), 1),
            Operation::AddAddress(address_id) => {
                let server = &self.net.server;
                let address = IpAddr::from([10, 2, 0, address_id]);
                let announcement = match server.version() {
                    MptcpVersion::V0 => Announcement::V0,
                    version => Announcement::Authenticated {
                        hmac: version.address_hmac(server.local_key, server.remote_key, address_id, address, 0),
                    },
                };
                observer.options[SERVER].push_back((None, Repr::AddAddr { announcement, address_id, address, port: None }));
            }
            Operation::RemoveAddress { of, address } => {
                // Plain TCP has one address, for good.
                let (client, server) = (&self.net.client, &self.net.server);
                if (client.phase, server.phase) != (Phase::Established, Phase::Established) {
                    return;
                }
                let of_client = |path: PathId| if of == Host::Client { client.path(path).0 } else { client.path(path).1 };
                let paths: Vec<_> = client.subflows.iter().map(|subflow| subflow.path).collect();
                let gone: Vec<_> = paths.into_iter().filter(|&path| of_client(path) == usize::from(address)).collect();
                let end = of.end(&mut self.net);
                for i in 0..end.subflow_count() {
                    if gone.contains(&end.subflows[i].path) && !end.subflows[i].closed {
                        end.close_subflow(now, i);
                    }
                }
                let address_ids = Inline::from_slice(&[address]).unwrap_or_default();
                observer.options[of as usize].push_back((None, Repr::RemoveAddr { address_ids }));
            }
            Operation::Mute(path) => observer.muted[usize::from(path)] = true,
            Operation::Unmute(path) => observer.muted[usize::from(path)] = false,
            Operation::SetBackup { path, by, backup } => {
                observer.options[by as usize].push_back((Some(path), Repr::Prio { backup, address_id: None }));
            }
            Operation::Advance { ms } => {
                drop(observer);
                self.net.run_for(Duration::from_millis(ms));
                return;
            }
        }
        drop(observer);
        self.net.drain();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let observer = self.observer.borrow();
        prop_assert!(observer.fault.is_none(), "{}", observer.fault.as_deref().unwrap_or_default());
        let ends = [&self.net.client, &self.net.server];
        for (number, end) in ends.into_iter().enumerate() {
            let (peer, stream) = (ends[1 - number], &observer.streams[number]);
            prop_assert!(stream.arrives.len() as u64 <= end.accepted().get(), "no byte but the writer's");
            prop_assert!(peer.received().get() <= stream.whole as u64, "{:?} read of {} that came", peer.received(), stream.whole);
            if peer.peer_finished() {
                prop_assert!(self.closed[number] && peer.received() == end.accepted(), "an end before the end of the data");
            }
            let beyond = end.reordering().beyond_window;
            prop_assert!(end.settings.stack.data_window_by_subflow || beyond == Bytes::ZERO, "{beyond:?} beyond the window");

            let (was, is) = (&self.before[number], Seen::of(end));
            prop_assert!(was.received <= is.received && was.is_fallback <= is.is_fallback && was.peer_finished <= is.peer_finished);
            prop_assert!(was.established_at.is_none() || was.established_at == is.established_at);
            prop_assert!(was.states.len() <= is.states.len());
            for (was, is) in was.states.iter().zip(&is.states) {
                let opens = was.0 == State::Closed && !was.1;
                prop_assert!(was.1 <= is.1, "a subflow that was given up is back");
                prop_assert!(leads(was.0, is.0) || (opens && leads(State::SynSent, is.0)), "{was:?} became {is:?}");
            }
            // Data that left and is not acknowledged goes again some time.
            let waits = end.tx.una.before(end.tx.end) && end.subflows.iter().any(super::super::Subflow::is_usable);
            prop_assert!(!waits || end.poll_timeout() != Instant::NEVER, "nothing is due, and data waits: {:?}", end.tx);
        }
        self.before = ends.map(Seen::of);
        Ok(())
    }

    /// A path of which both ends have a subflow that is so.
    fn has_path(&self, is_so: impl Fn(&Subflow) -> bool) -> bool {
        let has = |end: &Connection, path| end.subflows.iter().any(|subflow| subflow.path == path && is_so(subflow));
        let [client, server] = [&self.net.client, &self.net.server];
        client.subflows.iter().any(|subflow| has(client, subflow.path) && has(server, subflow.path))
    }

    /// A path is good from now on, or all are, and both ends have said all that they had to say.
    fn finish(&mut self, survivor: u8) -> Result<(), TestCaseError> {
        // What is under way may take the survivor away; what a host has not said by now it does not
        // say.
        self.observer.borrow_mut().options.iter_mut().for_each(VecDeque::clear);
        self.net.run_for(Duration::from_millis(500));
        self.check()?;
        let speaks_mptcp = [&self.net.client, &self.net.server].iter().all(|end| end.phase == Phase::Established);
        let carries = |subflow: &Subflow| subflow.path.0 % PATHS == survivor && subflow.confirmed && !subflow.closed;
        let lone = speaks_mptcp && self.has_path(carries);
        self.observer.borrow_mut().muted = std::array::from_fn(|path| lone && path != usize::from(survivor));
        for operation in [Operation::Open, Operation::Close(Host::Client), Operation::Close(Host::Server)] {
            self.apply(&operation);
            self.check()?;
        }
        // Timeouts last two minutes at most.
        for _ in 0..10 {
            self.net.run_for(Duration::from_secs(100));
            self.check()?;
        }
        if !self.has_path(|subflow| !subflow.closed) {
            return Ok(());
        }
        for (end, peer) in [(&self.net.client, &self.net.server), (&self.net.server, &self.net.client)] {
            // A DATA_FIN that was taken is acknowledged once, as on Linux
            // (tests/scripts/mptcp-data-fin-taken.pkt).
            let lacks_last_ack = end.tx.fin == Fin::Sent && end.tx.una == end.tx.end;
            prop_assert!(end.everything_acked() || lacks_last_ack, "{:?}", end.tx);
            prop_assert!(peer.peer_finished() && peer.received() == end.accepted(), "{:?} read of {:?}", peer.received(), end.accepted());
        }
        Ok(())
    }
}

fn run(setup: &Setup, operations: &[Operation]) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(setup);
    for operation in operations {
        pair.apply(operation);
        pair.check()?;
    }
    pair.finish(setup.survivor)
}

/// Of the simplest kind.
fn plain(kernel: &'static Stack) -> Setup {
    Setup {
        kernel: Kernel(kernel),
        scheduler: "minrtt",
        path_manager: Fullmesh.into(),
        addresses: 1,
        delays_ms: [1; PATHS as usize],
        mbit: 1,
        read_period_ms: 0,
        rmem: 131_072,
        survivor: PATHS - 1,
        seed: 0,
    }
}

#[test]
fn an_echo_on_a_fin_leaves_the_last_data_ack_there() {
    // The server's ADD_ADDR comes with its DATA_FIN, when the client's subflow is ready to close.
    let operations =
        [Operation::Open, Operation::Advance { ms: 7 }, Operation::AddAddress(1), Operation::Write { by: Host::Server, bytes: 21_361 }];
    for kernel in STACKS {
        run(&plain(kernel), &operations).unwrap_or_else(|fault| panic!("{kernel}: {fault}"));
    }
}

#[test]
fn a_fallback_behind_a_data_fin_ends_with_a_fin() {
    // The third ACK and the first data are lost, so the server takes the client's DATA_FIN for
    // plain TCP's ACK.
    let operations = [
        Operation::Open,
        Operation::Lose { path: 0, from: Host::Client, segments: 1 },
        Operation::Advance { ms: 4 },
        Operation::Mute(0),
        Operation::Write { by: Host::Client, bytes: 1 },
    ];
    for kernel in STACKS {
        run(&plain(kernel), &operations).unwrap_or_else(|fault| panic!("{kernel}: {fault}"));
    }
}

#[test]
fn who_has_finished_acknowledges_a_data_fin_no_more() {
    // The server's DATA_FIN is acknowledged on the path that dies, and the FINs of the others leave
    // before their handshakes are over.
    let operations = [
        Operation::Open,
        Operation::Advance { ms: 4 },
        Operation::Close(Host::Server),
        Operation::Close(Host::Client),
        Operation::Lose { path: 0, from: Host::Client, segments: 4 },
    ];
    for kernel in STACKS {
        let setup = Setup { addresses: 3, survivor: 2, ..plain(kernel) };
        run(&setup, &operations).unwrap_or_else(|fault| panic!("{kernel}: {fault}"));
    }
}

#[test]
fn of_equal_subflows_none_is_waited_for() {
    // Six subflows, three of them with one round-trip time to the microsecond.
    let operations = [Operation::AddAddress(1), Operation::Write { by: Host::Client, bytes: 51_257 }];
    for kernel in STACKS {
        let setup = Setup { scheduler: "blest", addresses: 3, delays_ms: [5, 1, 1, 1], survivor: 0, ..plain(kernel) };
        run(&setup, &operations).unwrap_or_else(|fault| panic!("{kernel}: {fault}"));
    }
}

#[test]
fn what_waits_is_not_kept_for_a_path_that_died() {
    for kernel in STACKS {
        let addresses = [0, 1].map(|address| Endpoint { address, backup: address == 1, laminar: false, remove_after: None });
        let mut pair = Pair::new(&Setup { addresses: 2, path_manager: Endpoints(addresses.to_vec()).into(), ..plain(kernel) });
        let write = || Operation::Write { by: Host::Client, bytes: 100_000 };
        let [wait, wait_long] = [2000, 300_000].map(|ms| Operation::Advance { ms });
        for operation in [Operation::Open, write(), wait, Operation::Mute(0), write(), wait_long] {
            pair.apply(&operation);
            pair.check().unwrap_or_else(|fault| panic!("{kernel}: {fault}"));
        }
        assert_eq!(pair.net.server.received().get(), 200_000, "{kernel}: the backup subflow is there");
    }
}

proptest! {
    #[test]
    fn whatever_is_done_to_a_pair_every_byte_arrives_once(setup in setup(), operations in prop::collection::vec(operation(), 1..25)) {
        run(&setup, &operations)?;
    }
}
