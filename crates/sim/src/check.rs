//! Whether a scenario can be run, found out without running it.

use crate::build;
use crate::routes::FlowAddresses;
use crate::scenario::{App, DataDirection, Flow, Scenario, Transport};
use crate::sysctl;
use crate::topology::Topology;
use crate::tunnels::{self, Planned};
use polypath_base::Error;
use polypath_link::ElementSpec;
use polypath_transport::Settings;
use polypath_transport::stack::Stack;

/// What is wrong with a scenario on any engine; with `simulated`, also what only the simulator has
/// no model of.
///
/// Beyond what [`run`](crate::run) refuses, a flow that sends as fast as it can needs a rate on
/// each of its paths.
pub fn check(scenario: &Scenario, simulated: bool) -> Result<(), Error> {
    let mut scenario = scenario.clone();
    for node in &mut scenario.nodes {
        let stack = node.kernel.as_deref().and_then(Stack::find).unwrap_or(Settings::default().stack);
        let settings = std::mem::take(&mut node.sysctl);
        for (name, value) in settings {
            node.sysctl = [(name, value)].into();
            match sysctl::apply(node, &mut Settings::of(stack)) {
                Err(refused) if simulated || !refused.simulator_only => return Err(refused.error),
                _ => {}
            }
        }
        // Each has been tried, and what only other engines know must not end the rest of the check.
        node.sysctl.clear();
    }
    build::world(&scenario)?;
    let mut topology = Topology::new(&scenario)?;
    let planned = tunnels::plan(&scenario, &mut topology)?;
    for flow in &scenario.flows {
        check_rates(&scenario, flow, &topology, &build::between(&scenario, flow, &topology)?, &planned)?;
    }
    Ok(())
}

/// On a path without any rate a sender is held by nothing but its buffers, and its goodput is a
/// figure of those.
fn check_rates(scenario: &Scenario, flow: &Flow, topology: &Topology, ends: &FlowAddresses, planned: &[Planned]) -> Result<(), Error> {
    let greedy = matches!(flow.app, App::Bulk { .. } | App::OnOff { rate: None, .. });
    if !greedy || flow.transport == Transport::Udp {
        return Ok(());
    }
    for at_client in 0..ends.addresses[0].len() {
        for at_server in 0..ends.addresses[1].len() {
            let Some(route) = ends.route(topology, at_client, at_server) else { continue };
            let mut route = tunnels::unfolded(route, planned, topology);
            if flow.direction == DataDirection::Download {
                route = route.iter().rev().map(|direction| direction.reversed()).collect();
            }
            let sides = || {
                route.iter().map(|direction| {
                    let link = &scenario.links[direction.index() / 2];
                    (link, link.side(direction.index() % 2 == 0))
                })
            };
            if sides().any(|(_, (_, elements))| elements.iter().any(ElementSpec::limits_rate)) {
                continue;
            }
            let links: Vec<&str> = sides().map(|(link, _)| link.name.as_str()).collect();
            let Some((first, (side, _))) = sides().next() else { continue };
            let (from, to) =
                if flow.direction == DataDirection::Upload { (&flow.client, &flow.server) } else { (&flow.server, &flow.client) };
            let sentence = format!(
                "no link from `{}` to `{}` ({}) has a rate, so `{}` would send as fast as its buffers allow: give one of them a `rate`",
                from,
                to,
                links.join(", "),
                flow.name
            );
            return Err(Error::caller(sentence).of(format!("link `{}`", first.name)).at(&["links", &first.name, side]));
        }
    }
    Ok(())
}
