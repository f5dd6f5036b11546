//! From a scenario to a world: everything is checked here, so that nothing can be wrong later.

use crate::capture::Captures;
use crate::flow::Flow;
use crate::network::Network;
use crate::routes::{Fixed, FlowAddresses, Routes};
use crate::scenario::{self, App, DataDirection, Scenario, Transport};
use crate::sysctl;
use crate::topology::{Direction, NodeId, Topology};
use crate::tunnels;
use crate::world::World;
use polypath_base::{Bytes, Duration, Error, Instant, Rate, Rng, Seq};
use polypath_sched::Scheduler;
use polypath_transport::mptcp::path_manager::{Endpoint, Endpoints, Fullmesh, Ndiffports, PathManager, Policy};
use polypath_transport::mptcp::{self, Interface};
use polypath_transport::stack::{LINUX_6_12_117, STACKS, Stack};
use polypath_transport::tcp::{self, Socket};
use polypath_transport::{Connection, Settings, udp};
use polypath_wire::Segment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) fn world(scenario: &Scenario) -> Result<World, Error> {
    if scenario.duration == Duration::ZERO {
        return Err(Error::caller("the run lasts no time: `duration_ns` must be above zero"));
    }
    if scenario.series_interval == Some(Duration::ZERO) {
        let sentence = "`series_interval_ns` is zero: give an interval, or leave it out to keep no series";
        return Err(Error::caller(sentence).at(&["series_interval_ns"]));
    }
    let mut topology = Topology::new(scenario)?;
    let planned = tunnels::plan(scenario, &mut topology)?;
    let mut network = Network::new(scenario, &topology, &tunnels::watched(scenario, &planned))?;
    if let Some(interval) = scenario.series_interval {
        network.sample_every(interval);
    }
    let mut ends = Vec::new();
    let mut connections = Vec::new();
    let (mut names, mut hosts) = (BTreeSet::new(), Hosts::new());
    for flow in &scenario.flows {
        if !names.insert(&flow.name) {
            return Err(Error::caller(format!("two flows are named `{}`: rename one", flow.name)));
        }
        check(flow)?;
        let end = between(scenario, flow, &topology)?;
        connections.extend(pair(scenario, flow, &topology, &end, &mut hosts)?);
        ends.push(end);
    }
    let starts: Vec<Instant> = scenario.flows.iter().map(|flow| flow.start).collect();
    let flows = scenario.flows.iter().map(Flow::new).collect();
    let mut taps = Vec::new();
    for (number, capture) in scenario.captures.iter().enumerate() {
        taps.push(topology.tap(capture).ok_or_else(|| {
            let sentence = format!(
                "there is no place `{}` on link `{}` to capture at: name a link and a node that it joins",
                capture.node, capture.link
            );
            Error::caller(sentence).at(&["captures", &number.to_string()])
        })?);
    }
    let captures = Captures::new(scenario.captures.iter().zip(&taps).map(|(capture, (_, name))| (capture, name.clone())));
    let mut routes = Routes::new(topology, ends);
    routes.set_taps(taps.into_iter().map(|(direction, _)| direction).collect());
    routes.set_tunnel_keys(scenario.tunnels.iter().map(|tunnel| tunnel.key).collect());
    let nodes = tunnels::nodes(scenario, planned, &network, &mut routes);
    let mut world = World::new(network, routes, connections, nodes, flows, &starts, scenario.series_interval);
    world.tunnel_names = scenario.tunnels.iter().map(|tunnel| tunnel.name.clone()).collect();
    world.data_plane.captures = captures;
    Ok(world)
}

/// A mistake in a field of a flow.
fn of_flow(flow: &scenario::Flow, field: &str, sentence: impl Into<String>) -> Error {
    Error::caller(sentence).of(format!("flow `{}`", flow.name)).at(&["flows", &flow.name, field])
}

/// What can be wrong with a flow by itself.
fn check(flow: &scenario::Flow) -> Result<(), Error> {
    let wrong = |sentence: &str| Err(of_flow(flow, "app", sentence));
    if flow.window[0] >= flow.window[1] {
        return Err(of_flow(flow, "window", "its window ends before it begins: `window_ns` is [from, to]"));
    }
    if flow.direction == DataDirection::Download {
        check_download(flow)?;
    }
    match flow.app {
        App::Bulk { duration: Duration::ZERO } => wrong("a bulk transfer of no duration sends nothing"),
        App::Transfer { bytes: Bytes::ZERO } => wrong("a transfer of no bytes is complete before it begins"),
        App::OnOff { on: Duration::ZERO, .. } => wrong("an on/off application that is never on sends nothing"),
        App::OnOff { rate: Some(Rate::ZERO), .. } => wrong("an on/off application at a rate of zero sends nothing"),
        App::Requests { request, response, .. } if request.min(response) == Bytes::ZERO => {
            wrong("requests and responses have at least a byte")
        }
        App::OnOff { rate: Some(_), .. } if flow.transport == Transport::Udp => Ok(()),
        _ if flow.transport == Transport::Udp => wrong("datagrams are sent by an application at a rate: give it one, or take tcp"),
        _ => Ok(()),
    }
}

/// A download needs a connection, which the client opens, and an application that sends one way.
fn check_download(flow: &scenario::Flow) -> Result<(), Error> {
    if flow.transport == Transport::Udp {
        let sentence =
            "datagrams need no connection, so the sender is the client: leave `direction` out and let `client` and `server` change places";
        return Err(of_flow(flow, "direction", sentence));
    }
    if let App::Requests { .. } = flow.app {
        let sentence = "requests go both ways, and their responses come from the server: leave `direction` out";
        return Err(of_flow(flow, "direction", sentence));
    }
    Ok(())
}

/// The hosts of a flow, which of their addresses its connection uses, and its fixed routes.
pub(crate) fn between(scenario: &Scenario, flow: &scenario::Flow, topology: &Topology) -> Result<FlowAddresses, Error> {
    let client = topology.host(&flow.client, &flow.name, "client")?;
    let server = topology.host(&flow.server, &flow.name, "server")?;
    if client == server {
        return Err(of_flow(flow, "server", format!("it leads from `{}` to itself: name another server", flow.client)));
    }
    let mut at_client = vec![address(topology, client, flow.client_address.as_deref(), flow, "client_address")?];
    let mut at_server = vec![address(topology, server, flow.server_address.as_deref(), flow, "server_address")?];
    if flow.transport == Transport::Mptcp {
        let others = |node: NodeId, first: usize| {
            let on_links = topology.addresses(node).iter().enumerate().filter(|(_, address)| address.leaves.is_some());
            on_links.map(|(number, _)| number).filter(|&number| number != first).collect::<Vec<_>>()
        };
        match &flow.mptcp.path_manager {
            scenario::PathManager::Fullmesh => at_client.extend(others(client, at_client[0])),
            scenario::PathManager::Ndiffports { .. } => {}
            scenario::PathManager::Endpoints { addresses } => {
                for endpoint in addresses {
                    let number = address(topology, client, Some(&endpoint.address), flow, "path_manager")?;
                    if !at_client.contains(&number) {
                        at_client.push(number);
                    }
                }
            }
        }
        // A server address that belongs to no link is reached over every path: there is no need for
        // another.
        if answers(flow) && topology.addresses(server)[at_server[0]].leaves.is_some() {
            at_server.extend(others(server, at_server[0]));
        }
    }
    if flow.transport == Transport::Mptcp {
        let asked = path_manager(flow, topology, client, &at_client).most_subflows(at_client.len(), at_server.len());
        check_subflows(scenario, flow, asked)?;
    }
    let fixed = flow.routes.iter().enumerate().map(|(number, route)| {
        let directions = topology.fixed(&flow.name, number, route, [client, server])?;
        Ok(Fixed { addresses: [route.from.clone(), route.to.clone()], route: directions })
    });
    Ok(FlowAddresses { nodes: [client, server], addresses: [at_client, at_server], fixed: fixed.collect::<Result<_, Error>>()? })
}

/// Whether the client joins addresses that the server announces.
fn answers(flow: &scenario::Flow) -> bool {
    match &flow.mptcp.path_manager {
        scenario::PathManager::Fullmesh => true,
        scenario::PathManager::Ndiffports { .. } => false,
        scenario::PathManager::Endpoints { addresses } => addresses.iter().any(|endpoint| endpoint.laminar),
    }
}

/// No more subflows than either host's kernel has in a connection, and no laminar endpoint where the
/// client's has none.
fn check_subflows(scenario: &Scenario, flow: &scenario::Flow, asked: usize) -> Result<(), Error> {
    let stacks = stacks(scenario, flow)?;
    let is_laminar = matches!(flow.mptcp.path_manager, scenario::PathManager::Endpoints { .. }) && answers(flow);
    if is_laminar && !stacks[0].laminar_endpoints {
        let sentence = format!("it has laminar endpoints, which came with Linux 6.18, and `{}` is {}", flow.client, stacks[0]);
        return Err(of_flow(flow, "path_manager", sentence));
    }
    let stack = stacks.into_iter().min_by_key(|stack| stack.max_subflows).expect("a flow has two ends");
    let (name, most) = (stack.name, stack.max_subflows);
    if asked <= most {
        return Ok(());
    }
    let sentence = format!("this asks for {asked} subflows, and Linux {name} has at most {most} in a connection: ask for fewer");
    let place = ["flows", &flow.name, "path_manager"];
    let error = Error::caller(sentence).of(format!("flow `{}`", flow.name));
    Err(match flow.mptcp.path_manager {
        scenario::PathManager::Fullmesh => error.at(&place),
        scenario::PathManager::Ndiffports { .. } => error.at(&[&place[..], &["subflows"]].concat()),
        scenario::PathManager::Endpoints { .. } => error.at(&[&place[..], &["addresses"]].concat()),
    })
}

/// The kernels of a flow's hosts, client and server. Both ends of a Multipath TCP connection speak
/// one version of it.
fn stacks(scenario: &Scenario, flow: &scenario::Flow) -> Result<[&'static Stack; 2], Error> {
    let mut stacks = [&LINUX_6_12_117; 2];
    for (stack, host) in stacks.iter_mut().zip([&flow.client, &flow.server]) {
        let Some(name) = scenario.nodes.iter().find(|node| node.name == *host).and_then(|node| node.kernel.as_ref()) else { continue };
        *stack = Stack::find(name).ok_or_else(|| {
            let known = STACKS.map(|stack| stack.name).join(", ");
            let sentence = format!("there is no kernel `{name}` in the simulator; there are {known}");
            Error::caller(sentence).of(format!("node `{host}`")).at(&["nodes", host, "kernel"])
        })?;
    }
    let [client, server] = stacks;
    if flow.transport == Transport::Mptcp && client.mptcp_version != server.mptcp_version {
        let speaks = |stack: &Stack, host: &str| {
            format!("the kernel of `{host}` ({}) has MPTCP version {}", stack.name, stack.mptcp_version.number())
        };
        let sentence = format!("{}, and {}: give both a kernel of one version", speaks(client, &flow.client), speaks(server, &flow.server));
        return Err(of_flow(flow, "transport", sentence));
    }
    Ok(stacks)
}

/// Number of the address that a flow names at one of its ends, by default the first.
fn address(topology: &Topology, node: NodeId, named: Option<&str>, flow: &scenario::Flow, field: &str) -> Result<usize, Error> {
    let Some(text) = named else { return Ok(0) };
    topology.addresses(node).iter().position(|address| address.text == text).ok_or_else(|| {
        let known = topology.addresses(node).iter().map(|address| address.text.as_str()).collect::<Vec<_>>().join(", ");
        of_flow(flow, field, format!("`{}` has no address {text}; it has {known}", topology.node_name(node)))
    })
}

/// By node: the settings that all its endpoints share.
type Hosts = BTreeMap<NodeId, Arc<Settings>>;

/// The two ends of a flow's connection.
fn pair(
    scenario: &Scenario,
    flow: &scenario::Flow,
    topology: &Topology,
    ends: &FlowAddresses,
    hosts: &mut Hosts,
) -> Result<[Connection; 2], Error> {
    if flow.transport == Transport::Udp {
        return datagrams(flow, topology, ends);
    }
    let asked = flow.cc.as_deref().unwrap_or_default();
    let Some(algorithm) = polypath_cc::find(asked) else {
        let known = polypath_cc::all().map(polypath_cc::Algorithm::name).collect::<Vec<_>>().join(", ");
        return Err(of_flow(flow, "cc", format!("there is no congestion control `{asked}`; there are {known}")));
    };
    let route = first_route(flow, topology, ends)?;
    // Where an end meets the first path.
    let interfaces = [route.first().copied(), route.last().map(|last| last.reversed())]
        .map(|direction| direction.map_or(Bytes::ZERO, |direction| topology.mtu(direction)));
    let stacks = stacks(scenario, flow)?;
    let mut made = Vec::with_capacity(2);
    for (end, interface) in interfaces.into_iter().enumerate() {
        let name = topology.node_name(ends.nodes[end]);
        let settings = if let Some(settings) = hosts.get(&ends.nodes[end]) {
            Arc::clone(settings)
        } else {
            let mut settings = Settings::of(stacks[end]);
            let node = scenario.nodes.iter().find(|node| node.name == name).expect("the topology's nodes are the scenario's");
            sysctl::apply(node, &mut settings)?;
            Arc::clone(hosts.entry(ends.nodes[end]).or_insert(settings.into()))
        };
        let mut random = Rng::new(scenario.seed, &format!("flow {} at {name}", flow.name));
        made.push(match flow.transport {
            Transport::Tcp => {
                let config = tcp::Config { settings, algorithm, mtu: interface, initial_seq: Seq::new(random.next_u32()) };
                Connection::Tcp(Box::new(if end == 0 { Socket::client(config) } else { Socket::server(config) }))
            }
            Transport::Udp => return datagrams(flow, topology, ends),
            Transport::Mptcp => {
                let addresses = (0..ends.addresses[end].len()).filter_map(|number| ends.address(topology, end, number));
                let mut interfaces: Vec<Interface> =
                    addresses.map(|address| Interface { address: topology.ip_address(address), mtu: address.mtu }).collect();
                interfaces[0].mtu = interface;
                let (scheduler, path_manager) =
                    (scheduler(flow, stacks[end])?, path_manager(flow, topology, ends.nodes[0], &ends.addresses[0]));
                let config = mptcp::Config { settings, algorithm, scheduler, path_manager, interfaces, random };
                Connection::Mptcp(Box::new(if end == 0 { mptcp::Connection::client(config) } else { mptcp::Connection::server(config) }))
            }
        });
    }
    Ok(made.try_into().expect("a connection has two ends"))
}

/// The first path, which must lead somewhere; later ones may turn out not to, as in a real network.
fn first_route(flow: &scenario::Flow, topology: &Topology, ends: &FlowAddresses) -> Result<Vec<Direction>, Error> {
    ends.route(topology, 0, 0).ok_or_else(|| {
        let name = |end: usize| ends.address(topology, end, 0).map_or("?", |address| &address.text);
        let (from, to) = (format!("{} at `{}`", name(0), flow.client), format!("{} at `{}`", name(1), flow.server));
        of_flow(flow, "server", format!("no route leads from {from} to {to}: {}", mend(topology, ends)))
    })
}

/// What to do where no route leads to the server's first address: name those addresses to which one
/// does.
fn mend(topology: &Topology, ends: &FlowAddresses) -> String {
    let [client, server] = ends.nodes;
    let reached = |number: &usize| topology.route((client, ends.addresses[0][0]), (server, *number)).is_some();
    let others: Vec<&str> =
        (0..topology.addresses(server).len()).filter(reached).map(|number| topology.addresses(server)[number].text.as_str()).collect();
    if others.is_empty() {
        "join them by links over routers".into()
    } else {
        format!("give the flow `server_address: {}`", others.join("` or `"))
    }
}

/// The two ends of a flow of datagrams.
fn datagrams(flow: &scenario::Flow, topology: &Topology, ends: &FlowAddresses) -> Result<[Connection; 2], Error> {
    let route = first_route(flow, topology, ends)?;
    let most = route.first().map_or(Bytes::ZERO, |&direction| topology.mtu(direction));
    let most = most.saturating_sub(Bytes::from_u32(Segment::IPV4_HEADER + Segment::UDP_HEADER));
    if !(LEAST_DATAGRAM..=most).contains(&flow.datagram) {
        let sentence = format!(
            "a datagram of {} bytes; on its first link it has {} (a number and a time) to {}",
            flow.datagram.get(),
            LEAST_DATAGRAM.get(),
            most.get()
        );
        return Err(of_flow(flow, "datagram", sentence));
    }
    Ok([(); 2].map(|()| Connection::Udp(Box::new(udp::Socket::new(flow.datagram)))))
}

/// Number and time stand in each datagram.
const LEAST_DATAGRAM: Bytes = Bytes::new(16);

fn scheduler(flow: &scenario::Flow, stack: &Stack) -> Result<Scheduler, Error> {
    let name = flow.mptcp.scheduler.as_deref().unwrap_or(stack.default_scheduler);
    Scheduler::find(name).ok_or_else(|| {
        let names = Scheduler::NAMES.join(", ");
        of_flow(flow, "scheduler", format!("there is no scheduler `{name}`; there are {names}"))
    })
}

/// `at_client`: the numbers of the addresses that the flow uses at node `client`.
fn path_manager(flow: &scenario::Flow, topology: &Topology, client: NodeId, at_client: &[usize]) -> PathManager {
    match &flow.mptcp.path_manager {
        scenario::PathManager::Fullmesh => Fullmesh.into(),
        scenario::PathManager::Ndiffports { subflows } => Ndiffports(*subflows).into(),
        scenario::PathManager::Endpoints { addresses } => {
            let endpoints = addresses.iter().filter_map(|endpoint| {
                let named = |number: &usize| topology.addresses(client)[*number].text == endpoint.address;
                let address = at_client.iter().position(named)? as u8;
                let scenario::Endpoint { backup, laminar, remove_at: remove_after, .. } = *endpoint;
                Some(Endpoint { address, backup, laminar, remove_after })
            });
            Endpoints(endpoints.collect()).into()
        }
    }
}
