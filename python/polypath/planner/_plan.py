"""From a scenario to the plan of a run (crates/guest/src/plan.rs): plain data in which nothing is
left to decide.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ._errors import PlanError
from ._hosts import Flows, machine, namespaces
from ._network import PlacedStage, network
from ._stages import SIMULATOR
from ._tunnels import tunnels
from ._ways import Graph, Scenario, routes

# As in crates/guest/src/plan.rs.
FORMAT = 1
# Means of the metrics are taken from samples every 100 ms, so samples are never further apart.
SAMPLE_NS = 100_000_000
SHORTEST_SAMPLE_NS = 1_000_000
OURS, THEIRS = "@polypath", "@linux"
# Our algorithms' names in the kernel.
PREFIX = "pp_"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan, and what its maker knows about it that the guest need not."""

    plan: dict[str, Any]
    # By which device which part of a link's direction is carried out, in the order in which packets
    # meet them.
    stages: tuple[PlacedStage, ...]


def build(
    scenario: Scenario,
    algorithms: Collection[str],
    *,
    release: str = "",
    schedulers: Collection[str] = (),
    out_of_tree: bool = False,
    defaults: bool = True,
    send_buffers: bool = True,
) -> Planned:
    """The plan of a scenario on a kernel of this release that has these congestion controls, these
    schedulers of ours, and upstream or out-of-tree MPTCP.

    With `defaults`, a client's congestion control is the default of its namespace; without, its
    sockets ask for it: beyond the first namespace a kernel takes as a default only what any user
    may choose. With `send_buffers`, a link's rate stands where it holds up who sends; without,
    tunnels with a socket buffer cannot be carried out.

    Raises `PlanError` for what cannot be carried out.
    """
    graph = Graph(scenario)
    joined = tunnels(graph, send_buffers=send_buffers)
    net = network(scenario, graph)
    flows = Flows(
        scenario,
        graph,
        net,
        lambda flow, name: algorithm(flow, name, algorithms),
        lambda flow, name: scheduler(flow, name, schedulers),
        release=release,
        out_of_tree=out_of_tree,
    )
    plan = {
        "format": FORMAT,
        "duration_ns": scenario["duration_ns"],
        "sample_ns": sample_ns(scenario),
        "namespaces": namespaces(scenario, flows.ccs if defaults else {}, flows, wire=net.has_wire, out_of_tree=out_of_tree),
        "cables": net.veth_pairs,
        "redirects": net.redirects,
        "tunnels": joined.plan,
        "neighbours": net.neighbours,
        "routes": routes([*flows.steps, *joined.steps], graph, net.devices),
        "disciplines": net.disciplines,
        "endpoints": flows.endpoints,
        "changes": [change for change in net.changes if change["at_ns"] < scenario["duration_ns"]],
        "flows": flows.flows,
        "captures": _captures(scenario, graph, net.devices),
    }
    if out_of_tree:
        plan["machine"] = machine(scenario, flows)
    return Planned(plan=plan, stages=tuple(net.stages))


def scheduler(flow: str, name: str | None, available: Collection[str]) -> str:
    """A scheduler's name in an upstream kernel: ours where it has it, else its own default."""
    where = ("flows", flow, "scheduler")
    bare, *weights = (name or f"default{THEIRS}").split(" ", 1)
    if weights:
        raise PlanError(
            where, f"in a kernel all subflows have the same weight, and this flow asks for {name}: leave out the weights{SIMULATOR}"
        )
    bare = bare.removesuffix(OURS)
    if PREFIX + bare in available:
        return PREFIX + bare
    if bare.partition("@")[0] != "default":
        raise PlanError(where, f"this kernel has its own scheduler alone, and this flow asks for {bare}: take --engine linux{SIMULATOR}")
    return "default"


def algorithm(flow: str, name: str, available: Collection[str]) -> str:
    """A congestion control's name in the kernel: its own where it has one of this name, else ours."""
    bare, at, whose = name.partition("@")
    named = {"": [bare, PREFIX + bare], THEIRS: [bare], OURS: [PREFIX + bare]}.get(at + whose, [])
    for candidate in named:
        if candidate in available:
            return candidate
    raise PlanError(("flows", flow, "cc"), f"this kernel has no congestion control {name}")


def sample_ns(scenario: Scenario) -> int:
    """Between two samples: a part of the series' interval and of 100 ms, so that both are met
    exactly.
    """
    interval = scenario["series_interval_ns"]
    sample = SAMPLE_NS if interval is None else math.gcd(SAMPLE_NS, interval)
    if sample < SHORTEST_SAMPLE_NS:
        raise PlanError(("measure", "series"), "samples of a kernel are at least 1 ms apart and fit into 100 ms; take 1ms, 10ms or 100ms")
    return sample


def _captures(scenario: Scenario, graph: Graph, devices: Any) -> list[dict[str, Any]]:
    names = {link["name"]: number for number, link in enumerate(graph.links)}
    captures = []
    for capture in scenario.get("captures", ()):
        number = names[capture["link"]]
        device = next(device for hop, device in devices.items() if hop.link == number and graph.begins(hop) == capture["node"])
        file = f"{capture['node']}-{capture['link']}.pcapng"
        kept = {"snaplen": capture["snaplen"], "packets": capture["packets"]}
        captures.append({"namespace": capture["node"], "device": device, "file": file, **kept})
    return captures
