//! Samples every socket of the flows and every discipline, and keeps the records that `records`
//! describes.

use crate::address::{family, ip};
use crate::diag::{self, Seen};
use crate::network::{CHILD_PARENT, Network, TC_H_CLSACT, TC_H_ROOT, traffic_control};
use crate::plan::{LinkDirection, Plan};
use crate::records::{DisciplineResult, QUEUE_RECORD, SOCKET_RECORD, SubflowResult};
use crate::sys::{self, Error, Outcome};
use polypath_io::netlink::{self, DUMP, Message, Netlink};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The sockets of all flows, as their senders' namespaces see them.
#[derive(Debug)]
pub(crate) struct Sockets {
    watched: Vec<Watched>,
    /// Name and congestion control of each flow.
    flows: Vec<(String, String)>,
    records: Records,
}

#[derive(Debug)]
struct Watched {
    diag: Netlink,
    families: BTreeSet<u8>,
    /// By the server's port.
    flows: BTreeMap<u16, OwnFlow>,
    /// Flow by the token of its connection, once it was seen: a subflow may go to any port.
    tokens: BTreeMap<u32, usize>,
    /// In order of appearance.
    known: Vec<Known>,
}

/// A flow that sends from a namespace.
#[derive(Clone, Copy, Debug, Default)]
struct OwnFlow {
    number: usize,
    /// The client's port where the flow has other connections too.
    client_port: Option<u16>,
    /// This namespace is the server's.
    download: bool,
}

#[derive(Debug)]
struct Known {
    flow: usize,
    subflow: usize,
    last: Seen,
    established_ns: Option<u64>,
}

impl Sockets {
    pub(crate) fn open(plan: &Plan, network: &Network, results: &Path) -> Outcome<Self> {
        let mut by_namespace: BTreeMap<usize, Watched> = BTreeMap::new();
        for (number, flow) in plan.flows.iter().enumerate() {
            let at = network.number(flow.sender())?;
            if let std::collections::btree_map::Entry::Vacant(vacant) = by_namespace.entry(at) {
                sys::enter_network(&network.namespaces[at].file)?;
                let diag = Netlink::open(libc::NETLINK_SOCK_DIAG)?;
                vacant.insert(Watched {
                    diag,
                    families: BTreeSet::new(),
                    flows: BTreeMap::new(),
                    tokens: BTreeMap::new(),
                    known: Vec::new(),
                });
            }
            if let Some(watched) = by_namespace.get_mut(&at) {
                watched.families.insert(family(ip(&flow.client_address)?));
                let client_port = flow.programs.as_ref().map(|programs| programs.client_port);
                watched.flows.insert(flow.port, OwnFlow { number, client_port, download: flow.download });
            }
        }
        let flows = plan.flows.iter().map(|flow| (flow.name.clone(), flow.cc.clone())).collect();
        Ok(Self { watched: by_namespace.into_values().collect(), flows, records: Records::create(&results.join("sockets.bin"))? })
    }

    /// Asks for all sockets, and keeps what they say as a sample.
    pub(crate) fn sample(&mut self, now_ns: u64) -> Outcome<()> {
        for watched in &mut self.watched {
            for (number, state) in watched.poll(now_ns)? {
                let known = &watched.known[number];
                self.records.socket(now_ns, known.flow, known.subflow, state, &known.last);
            }
        }
        self.records.flush(false)
    }

    /// Asks for all sockets, so that the last of what they say is known.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Outcome<()> {
        self.watched.iter_mut().try_for_each(|watched| watched.poll(now_ns).map(drop))
    }

    /// The subflows of a flow, in the order of their numbers.
    pub(crate) fn subflows(&self, flow: usize) -> Vec<SubflowResult> {
        let known = self.watched.iter().flat_map(|watched| &watched.known).filter(|known| known.flow == flow);
        known.map(Known::result).collect()
    }

    /// Whether the flow's peer agreed to MPTCP.
    pub(crate) fn is_capable(&self, flow: usize) -> bool {
        let mut known = self.watched.iter().flat_map(|watched| &watched.known);
        known.any(|known| known.flow == flow && known.last.flags & diag::FLAG_CAPABLE != 0)
    }

    /// A sentence about the first subflow that does not have the congestion control it should have.
    pub(crate) fn wrong_congestion_control(&self) -> Option<Error> {
        self.watched.iter().flat_map(|watched| &watched.known).find_map(|known| {
            let (name, asked) = &self.flows[known.flow];
            let (subflow, used) = (known.subflow, &known.last.cc);
            (used != asked && !is_fallback(asked, used))
                .then(|| Error::machine(format!("flow {name}, subflow {subflow}: asked for {asked}, the kernel uses {used}")))
        })
    }

    pub(crate) fn finish(&mut self) -> Outcome<()> {
        self.records.flush(true)
    }
}

/// Whether a kernel takes `used` in place of `asked` by itself: where the peer did not agree to
/// ECN, as after a SYN that was sent again, Linux's dctcp becomes a Reno of its own, and ours and
/// prague the kernel's (tests/kernel/test_linux_dctcp.py).
fn is_fallback(asked: &str, used: &str) -> bool {
    matches!((asked, used), ("dctcp", "dctcp-reno") | ("pp_dctcp" | "pp_prague", "reno"))
}

impl Watched {
    /// Asks for the sockets. Returns (index of the known socket, its state) for each, in the order
    /// of flow and subflow.
    fn poll(&mut self, now_ns: u64) -> Outcome<Vec<(usize, u32)>> {
        let mut seen = Vec::new();
        for &family in &self.families {
            diag::sockets(&mut self.diag, family, |socket| seen.push(socket))?;
        }
        let seen = self.assign(seen);
        Ok(self.update(seen, now_ns))
    }

    /// The sockets that belong to flows: those that go to a flow's port, and what has joined their
    /// connections.
    fn assign(&mut self, seen: Vec<Seen>) -> Vec<(usize, Seen)> {
        let by_port = |socket: &Seen| {
            let (here, there) = (socket.source.port(), socket.destination.port());
            [(there, here, false), (here, there, true)].into_iter().find_map(|(server, client, download)| {
                let flow = self.flows.get(&server).filter(|flow| flow.download == download)?;
                flow.client_port.is_none_or(|port| port == client).then_some(flow.number)
            })
        };
        for socket in &seen {
            if let (Some(flow), Some(token)) = (by_port(socket), socket.token) {
                self.tokens.insert(token, flow);
            }
        }
        let flow_of = |socket: &Seen| socket.token.and_then(|token| self.tokens.get(&token).copied()).or_else(|| by_port(socket));
        // What has not been accepted has neither counters nor a congestion control.
        let accepted = |socket: &Seen| socket.state != diag::SYN_RECEIVED || !socket.tcp_info.is_empty();
        seen.into_iter().filter(accepted).filter_map(|socket| flow_of(&socket).map(|flow| (flow, socket))).collect()
    }

    /// Updates what is known; returns as `poll`.
    fn update(&mut self, mut seen: Vec<(usize, Seen)>, now_ns: u64) -> Vec<(usize, u32)> {
        // The kernel lists sockets in the order of its hash table. Of subflows that appear together
        // the initial one comes first, then those of smaller addresses of the client.
        let downloads: BTreeSet<usize> = self.flows.values().filter(|flow| flow.download).map(|flow| flow.number).collect();
        seen.sort_by_key(|(flow, socket)| {
            let client = if downloads.contains(flow) { socket.destination } else { socket.source };
            (*flow, socket.flags & diag::FLAG_JOIN != 0, client)
        });
        let mut found = Vec::new();
        for (flow, socket) in seen {
            let same =
                |known: &Known| known.flow == flow && known.last.source == socket.source && known.last.destination == socket.destination;
            let number = self.known.iter().position(same).unwrap_or_else(|| {
                let subflow = self.known.iter().filter(|known| known.flow == flow).count();
                self.known.push(Known { flow, subflow, last: socket.clone(), established_ns: None });
                self.known.len() - 1
            });
            let known = &mut self.known[number];
            if socket.state == diag::ESTABLISHED && known.established_ns.is_none() {
                known.established_ns = Some(now_ns);
            }
            let state = socket.state;
            // A socket that has lost its congestion control or its tcp_info on the way down keeps
            // what it had.
            if !socket.cc.is_empty() && !socket.tcp_info.is_empty() {
                known.last = socket;
            }
            found.push((number, state));
        }
        found.sort_by_key(|(number, _)| (self.known[*number].flow, self.known[*number].subflow));
        found
    }
}

impl Known {
    fn result(&self) -> SubflowResult {
        SubflowResult {
            source: self.last.source.to_string(),
            destination: self.last.destination.to_string(),
            cc: self.last.cc.clone(),
            established_ns: self.established_ns,
            flags: self.last.flags,
            tcp_info: hexadecimal(&self.last.tcp_info),
        }
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const TCA_STATS2: u16 = 7;
/// struct gnet_stats_queue.
const QUEUE: u16 = 3;

/// The disciplines of a plan and the queues in them.
#[derive(Debug)]
pub(crate) struct Queues {
    watched: Vec<Queue>,
    records: Records,
}

#[derive(Debug)]
struct Queue {
    namespace: usize,
    device: u32,
    link: Option<LinkDirection>,
    result: DisciplineResult,
}

impl Queues {
    pub(crate) fn open(plan: &Plan, network: &Network, results: &Path) -> Outcome<Self> {
        let mut watched = Vec::new();
        for discipline in &plan.disciplines {
            let result = DisciplineResult {
                namespace: discipline.namespace.clone(),
                device: discipline.device.clone(),
                ..DisciplineResult::default()
            };
            let (namespace, device) = (network.number(&discipline.namespace)?, network.device(&discipline.namespace, &discipline.device)?);
            watched.push(Queue { namespace, device, link: discipline.link, result });
        }
        Ok(Self { watched, records: Records::create(&results.join("queues.bin"))? })
    }

    /// Samples the disciplines with a link.
    pub(crate) fn sample(&mut self, network: &mut Network, now_ns: u64) -> Outcome<()> {
        self.ask(network, now_ns, |queue| queue.link.is_some())
    }

    /// Samples all disciplines.
    pub(crate) fn sample_all(&mut self, network: &mut Network, now_ns: u64) -> Outcome<()> {
        self.ask(network, now_ns, |_| true)
    }

    /// Asks the namespaces with a discipline that is wanted for all of theirs.
    fn ask(&mut self, network: &mut Network, now_ns: u64, is_wanted: impl Fn(&Queue) -> bool) -> Outcome<()> {
        const RTM_GETQDISC: u16 = 38;
        for (number, namespace) in network.namespaces.iter_mut().enumerate() {
            if !self.watched.iter().any(|queue| queue.namespace == number && is_wanted(queue)) {
                continue;
            }
            let (watched, records) = (&mut self.watched, &mut self.records);
            namespace.route.ask(Message::new(RTM_GETQDISC, DUMP, &traffic_control(0, 0, 0, 0)), |part| {
                let device = netlink::word(part.body, 4);
                let Some(rest) = part.body.get(20..) else { return };
                let Some(queue) = watched.iter_mut().find(|queue| queue.namespace == number && queue.device == device) else { return };
                match netlink::word(part.body, 12) {
                    TC_H_ROOT => queue.update(rest, now_ns, records),
                    CHILD_PARENT => queue.note_marks(rest),
                    TC_H_CLSACT => queue.note_policed(rest),
                    _ => {}
                }
            })?;
        }
        self.records.flush(false)
    }

    pub(crate) fn finish(&mut self) -> Outcome<Vec<DisciplineResult>> {
        self.records.flush(true)?;
        Ok(self.watched.iter().map(|queue| queue.result.clone()).collect())
    }
}

impl Queue {
    /// Takes over the counters of a discipline.
    fn update(&mut self, attributes: &[u8], now_ns: u64, records: &mut Records) {
        const BASIC: u16 = 1;
        const PACKETS_64: u16 = 8;
        let Some(stats) = netlink::attribute(attributes, TCA_STATS2) else { return };
        if let Some(basic) = netlink::attribute(stats, BASIC) {
            // struct gnet_stats_basic: bytes (u64), packets (u32).
            self.result.bytes = netlink::long(basic, 0);
            self.result.packets = u64::from(netlink::word(basic, 8));
        }
        if let Some(packets) = netlink::attribute(stats, PACKETS_64) {
            self.result.packets = netlink::long(packets, 0);
        }
        // struct gnet_stats_queue: packets waiting, bytes waiting, drops, requeues, overlimits.
        let Some(queue) = netlink::attribute(stats, QUEUE) else { return };
        let (waiting, bytes, drops) = (netlink::word(queue, 0), netlink::word(queue, 4), netlink::word(queue, 8));
        self.result.drops = u64::from(drops);
        self.result.max_queue_packets = self.result.max_queue_packets.max(u64::from(waiting));
        if let Some(link) = self.link {
            records.queue(now_ns, link, waiting, u64::from(bytes), self.result.drops);
        }
    }
}

impl Queue {
    /// Takes over what was dropped at the hooks of a device, which only a policer does.
    fn note_policed(&mut self, attributes: &[u8]) {
        let queue = netlink::attribute(attributes, TCA_STATS2).and_then(|stats| netlink::attribute(stats, QUEUE));
        if let Some(queue) = queue {
            // As in `update`.
            self.result.policed = u64::from(netlink::word(queue, 8));
        }
    }

    /// Takes over how many packets a managed queue marked, from the statistics of its kind.
    fn note_marks(&mut self, attributes: &[u8]) {
        const TCA_KIND: u16 = 1;
        const OF_KIND: u16 = 4;
        let kind = netlink::attribute(attributes, TCA_KIND).unwrap_or_default();
        // struct tc_codel_xstats, tc_fq_codel_xstats, tc_red_xstats, tc_pie_xstats,
        // tc_dualpi2_xstats.
        let at = match kind.split(|&c| c == 0).next().unwrap_or_default() {
            b"codel" => 24,
            b"fq_codel" => 12,
            b"red" => 12,
            b"pie" => 36,
            b"dualpi2" => 24,
            _ => return,
        };
        let stats = netlink::attribute(attributes, TCA_STATS2).and_then(|stats| netlink::attribute(stats, OF_KIND));
        if let Some(stats) = stats.filter(|stats| stats.len() >= at + 4) {
            self.result.marks = u64::from(netlink::word(stats, at));
        }
    }
}

/// Records on their way to a file.
#[derive(Debug)]
struct Records {
    file: File,
    waiting: Vec<u8>,
}

impl Records {
    fn create(path: &Path) -> Outcome<Self> {
        let file = File::create(path).map_err(|e| Error::machine(format!("{}: {e}", path.display())))?;
        Ok(Self { file, waiting: Vec::new() })
    }

    fn socket(&mut self, now_ns: u64, flow: usize, subflow: usize, state: u32, seen: &Seen) {
        let end = self.waiting.len() + SOCKET_RECORD;
        let length = seen.tcp_info.len().min(SOCKET_RECORD - 32);
        self.waiting.extend_from_slice(&now_ns.to_le_bytes());
        for value in [flow as u32, subflow as u32, seen.flags, state, length as u32, 0] {
            self.waiting.extend_from_slice(&value.to_le_bytes());
        }
        self.waiting.extend_from_slice(&seen.tcp_info[..length]);
        self.waiting.resize(end, 0);
    }

    fn queue(&mut self, now_ns: u64, link: LinkDirection, packets: u32, bytes: u64, drops: u64) {
        self.waiting.extend_from_slice(&now_ns.to_le_bytes());
        for value in [link.index, u32::from(link.a_to_b), packets, 0] {
            self.waiting.extend_from_slice(&value.to_le_bytes());
        }
        self.waiting.extend_from_slice(&bytes.to_le_bytes());
        self.waiting.extend_from_slice(&drops.to_le_bytes());
        debug_assert_eq!(self.waiting.len() % QUEUE_RECORD, 0, "a record has the size that the reader knows");
    }

    /// Writes what waits, once it is much or at the end.
    fn flush(&mut self, end: bool) -> Outcome<()> {
        const MUCH: usize = 1 << 20;
        if self.waiting.len() >= MUCH || end && !self.waiting.is_empty() {
            self.file.write_all(&self.waiting).map_err(|e| Error::machine(format!("writing samples: {e}")))?;
            self.waiting.clear();
            if !end {
                sys::forget_pages(&self.file);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(port: u16, flags: u32, state: u32) -> Seen {
        let source = std::net::SocketAddr::from(([10, 0, 0, 1], port));
        let destination = std::net::SocketAddr::from(([10, 9, 0, 1], 5201));
        Seen { source, destination, state, cc: "reno".into(), flags, token: None, ids: (0, 0), tcp_info: vec![port as u8; 8] }
    }

    fn watched() -> Watched {
        let diag = Netlink::open(libc::NETLINK_SOCK_DIAG).expect("every kernel that builds this has socket diagnostics");
        Watched { diag, families: BTreeSet::new(), flows: BTreeMap::new(), tokens: BTreeMap::new(), known: Vec::new() }
    }

    #[test]
    fn the_initial_subflow_is_number_0_whatever_the_order_and_numbers_stay() {
        let mut watched = watched();
        watched.update(vec![(0, socket(2, 0x8, 2)), (0, socket(7, 0x3, 1)), (0, socket(1, 0x8, 2))], 10);
        let order: Vec<u16> = watched.known.iter().map(|known| known.last.source.port()).collect();
        assert_eq!(order, [7, 1, 2]);
        let found = watched.update(vec![(0, socket(9, 0x8, 1)), (0, socket(2, 0xc, 1))], 20);
        assert_eq!(found, [(2, 1), (3, 1)]);
        let established: Vec<_> = watched.known.iter().map(|known| (known.subflow, known.established_ns)).collect();
        assert_eq!(established, [(0, Some(10)), (1, None), (2, Some(20)), (3, Some(20))]);
    }

    #[test]
    fn what_joins_a_connection_belongs_to_its_flow_whatever_its_port() {
        let mut watched = watched();
        watched.flows = BTreeMap::from([(5201, OwnFlow::default()), (5202, OwnFlow { number: 1, ..OwnFlow::default() })]);
        let to = |port: u16, token: u32, flags: u32| {
            let destination = std::net::SocketAddr::from(([10, 9, 0, 1], port));
            Seen { destination, token: (token > 0).then_some(token), ..socket(port, flags, 1) }
        };
        let seen = vec![to(6001, 9, 0x8), to(5202, 9, 0x3), to(5201, 0, 0), to(6002, 8, 0x8), to(22, 0, 0)];
        let found: Vec<_> = watched.assign(seen).iter().map(|(flow, socket)| (*flow, socket.destination.port())).collect();
        assert_eq!(found, [(1, 6001), (1, 5202), (0, 5201)]);
        // Its first subflow may end before the others.
        assert_eq!(watched.assign(vec![to(6001, 9, 0x8)]).len(), 1);
        watched.flows = BTreeMap::from([(5203, OwnFlow { number: 2, client_port: Some(7), ..OwnFlow::default() })]);
        let control = Seen { token: None, ..to(5203, 0, 0) };
        let data = Seen { source: std::net::SocketAddr::from(([10, 0, 0, 1], 7)), ..control.clone() };
        assert_eq!(
            watched.assign(vec![control, data]).iter().map(|(flow, seen)| (*flow, seen.source.port())).collect::<Vec<_>>(),
            [(2, 7)]
        );
    }

    #[test]
    fn a_download_is_seen_at_the_server_where_its_port_is_the_near_one() {
        let mut watched = watched();
        watched.flows = BTreeMap::from([(5201, OwnFlow { number: 3, download: true, ..OwnFlow::default() })]);
        let to = |port: u16, flags: u32, state: u32| {
            let seen = socket(port, flags, state);
            Seen { source: seen.destination, destination: seen.source, ..seen }
        };
        // The client's own sockets, in another namespace, look the other way round.
        assert_eq!(watched.assign(vec![socket(9, 0, 1)]).len(), 0);
        // One that is not accepted yet is no subflow.
        let half_open = Seen { cc: String::new(), tcp_info: Vec::new(), ..to(4, 0x4, diag::SYN_RECEIVED) };
        let seen = watched.assign(vec![to(9, 0x4, 1), half_open, to(7, 0x4, 1), to(8, 0x1, 1)]);
        assert_eq!(watched.update(seen, 10).len(), 3);
        let order: Vec<u16> = watched.known.iter().map(|known| known.last.destination.port()).collect();
        assert_eq!(order, [8, 7, 9], "the initial subflow, then by the client's address");
    }

    #[test]
    fn a_socket_on_its_way_down_keeps_its_last_counters() {
        let mut watched = watched();
        watched.update(vec![(0, socket(5, 0, 1))], 10);
        let gone = Seen { cc: String::new(), tcp_info: Vec::new(), ..socket(5, 0, 7) };
        assert_eq!(watched.update(vec![(0, gone)], 20), [(0, 7)]);
        assert_eq!(watched.known[0].last.tcp_info, vec![5; 8]);
    }

    #[test]
    fn records_have_the_sizes_that_the_reader_knows() {
        let file = File::open("/dev/null").expect("there is always a null device");
        let mut records = Records { file, waiting: Vec::new() };
        records.socket(7, 1, 2, 1, &socket(5, 3, 1));
        assert_eq!(records.waiting.len(), SOCKET_RECORD);
        assert_eq!(records.waiting[..32].iter().map(|b| u32::from(*b)).sum::<u32>(), 7 + 1 + 2 + 3 + 1 + 8);
        assert_eq!(records.waiting[32..41], [5, 5, 5, 5, 5, 5, 5, 5, 0]);
        records.waiting.clear();
        records.queue(9, LinkDirection { index: 3, a_to_b: true }, 4, 5, 6);
        assert_eq!(records.waiting.len(), QUEUE_RECORD);
        assert_eq!(records.waiting.iter().map(|b| u32::from(*b)).sum::<u32>(), 9 + 3 + 1 + 4 + 5 + 6);
    }
}
