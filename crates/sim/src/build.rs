//! From a scenario to a world: everything is checked here, so that nothing can be wrong later.

use crate::ScenarioError;
use crate::connection::Connection;
use crate::flow::Flow;
use crate::network::Network;
use crate::routes::{Fixed, Routes};
use crate::scenario::{self, App, Scenario, Transport};
use crate::sysctl;
use crate::topology::{NodeId, Topology};
use crate::world::World;
use polypath_base::{Duration, Instant, Stream};
use polypath_transport::PathId;
use polypath_transport::tcp::{Config, Socket};
use polypath_transport::{Profile, Settings};

pub(crate) fn world(scenario: &Scenario) -> Result<World, ScenarioError> {
    if scenario.duration_ns == 0 {
        return Err(ScenarioError::new("the run lasts no time: `duration_ns` must be above zero"));
    }
    if scenario.series_interval_ns == Some(0) {
        return Err(ScenarioError::new("`series_interval_ns` is zero: give an interval, or leave it out to keep no series"));
    }
    let topology = Topology::new(scenario)?;
    let mut network = Network::new(scenario, &topology)?;
    let series = scenario.series_interval_ns.map(Duration::from_nanos);
    if let Some(interval) = series {
        network.sample_every(interval);
    }
    let mut ends = Vec::new();
    let mut fixed = Vec::new();
    for (number, flow) in scenario.flows.iter().enumerate() {
        if scenario.flows[..number].iter().any(|other| other.name == flow.name) {
            return Err(ScenarioError::new(format!("two flows are named `{}`: rename one", flow.name)));
        }
        check(flow)?;
        let client = topology.host(&flow.client, &format!("the client of flow `{}`", flow.name))?;
        let server = topology.host(&flow.server, &format!("the server of flow `{}`", flow.name))?;
        if client == server {
            return Err(ScenarioError::new(format!("flow `{}` leads from `{}` to itself: name another server", flow.name, flow.client)));
        }
        ends.push([client, server]);
        let ways = flow.routes.iter().map(|route| {
            let way = topology.fixed(&flow.name, route, client, server)?;
            Ok(Fixed { addresses: [route.from.clone(), route.to.clone()], way })
        });
        fixed.push(ways.collect::<Result<Vec<_>, ScenarioError>>()?);
    }
    let mut connections = Vec::new();
    for (flow, &[client, server]) in scenario.flows.iter().zip(&ends) {
        connections.extend(pair(scenario, flow, &topology, client, server)?);
    }
    let routes = Routes::new(topology, ends, fixed);
    for (number, flow) in scenario.flows.iter().enumerate() {
        // The first path must lead somewhere; later ones may turn out not to, as in a real network.
        let endpoint = 2 * number as u32;
        let numbers = connections[endpoint as usize].path(PathId(0));
        if routes.way(endpoint, numbers).is_none() {
            let [from, to] = routes.addresses(endpoint, numbers);
            return Err(ScenarioError::new(format!(
                "flow `{}`: no route leads from {from} at `{}` to {to} at `{}`: join them by links over routers",
                flow.name, flow.client, flow.server
            )));
        }
    }
    let starts: Vec<Instant> = scenario.flows.iter().map(|flow| Instant::from_nanos(flow.start_ns)).collect();
    let flows = scenario.flows.iter().map(Flow::new).collect();
    Ok(World::new(network, routes, connections, flows, &starts, series))
}

/// What can be wrong with a flow by itself.
fn check(flow: &scenario::Flow) -> Result<(), ScenarioError> {
    let wrong = |sentence: &str| Err(ScenarioError::new(format!("flow `{}`: {sentence}", flow.name)));
    if flow.window_ns[0] >= flow.window_ns[1] {
        return wrong("its window ends before it begins: `window_ns` is [from, to]");
    }
    match flow.app {
        App::Bulk { duration_ns: 0 } => wrong("a bulk transfer of no duration sends nothing"),
        App::Transfer { bytes: 0 } => wrong("a transfer of no bytes is complete before it begins"),
        App::OnOff { on_ns: 0, .. } => wrong("an on/off application that is never on sends nothing"),
        App::OnOff { bits_per_s: Some(0), .. } => wrong("an on/off application at a rate of zero sends nothing"),
        _ => Ok(()),
    }
}

/// Number of the address that a flow names at one of its ends, by default the first.
fn address(topology: &Topology, node: NodeId, named: Option<&String>, flow: &str) -> Result<usize, ScenarioError> {
    let Some(text) = named else { return Ok(0) };
    topology.addresses(node).iter().position(|address| address.text == *text).ok_or_else(|| {
        let known = topology.addresses(node).iter().map(|address| address.text.as_str()).collect::<Vec<_>>().join(", ");
        ScenarioError::new(format!("flow `{flow}`: `{}` has no address {text}; it has {known}", topology.node_name(node)))
    })
}

/// The two ends of a flow's connection.
fn pair(
    scenario: &Scenario,
    flow: &scenario::Flow,
    topology: &Topology,
    client: NodeId,
    server: NodeId,
) -> Result<[Connection; 2], ScenarioError> {
    if flow.transport == Transport::Mptcp {
        return Err(ScenarioError::new(format!("flow `{}`: MPTCP cannot be simulated yet", flow.name)));
    }
    let Some(algorithm) = polypath_cc::find(&flow.cc) else {
        let known = polypath_cc::all().map(|algorithm| algorithm.name()).collect::<Vec<_>>().join(", ");
        return Err(ScenarioError::new(format!("flow `{}`: there is no congestion control `{}`; there are {known}", flow.name, flow.cc)));
    };
    let from = address(topology, client, flow.client_address.as_ref(), &flow.name)?;
    let to = address(topology, server, flow.server_address.as_ref(), &flow.name)?;
    let profile = match flow.mptcp.profile {
        scenario::Profile::V0 => Profile::V0,
        scenario::Profile::V1 => Profile::V1,
    };
    let config = |node: NodeId, local: usize, end: &str| {
        let mut settings = Settings { profile, ..Settings::default() };
        let described = scenario
            .nodes
            .iter()
            .find(|described| described.name == topology.node_name(node))
            .expect("the topology's nodes are the scenario's");
        sysctl::apply(described, &mut settings)?;
        let initial_seq = Stream::new(scenario.seed, &format!("flow {} {end}", flow.name)).next_u32();
        Ok::<Config, ScenarioError>(Config { settings, algorithm, mtu: topology.addresses(node)[local].mtu, initial_seq })
    };
    Ok([
        Connection::new(Socket::client(config(client, from, "client")?), (from, to)),
        Connection::new(Socket::server(config(server, to, "server")?), (to, from)),
    ])
}
