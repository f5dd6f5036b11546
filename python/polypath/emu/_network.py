"""From a scenario to what the emulator takes (crates/emu/src/spec.rs): the plan of a network whose
links lead through the emulator.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Collection, Mapping
from typing import Any

from polypath import planner
from polypath.planner import Graph, Hop

from ._errors import EmuError

Scenario = Mapping[str, Any]
Plan = Mapping[str, Any]

# The namespace in which the emulator has its ports; no node can be called so.
WIRE = ".wire"
# A direction is not to be trusted whose packets are later than this at the 99th percentile: a
# millisecond is what a busy machine's timers are late by, and a tenth of the shortest delays that
# people emulate.
LATE_LIMIT_NS = 1_000_000
# A veth whose other end has a smaller MTU still takes every frame.
_ANY_MTU = 65_535
_SILENT = (("net.ipv6.conf.all.disable_ipv6", "1"), ("net.ipv6.conf.default.disable_ipv6", "1"))


def network(scenario: Scenario, *, plain: Collection[str] = (), mptcp: bool = False) -> dict[str, Any]:
    """The network of a scenario without its flows: every address reaches every other one that a way
    leads to.

    Links whose names are in `plain` have no elements. With `mptcp` the hosts have the endpoints and
    limits that the scenario's flows of MPTCP ask for.
    """
    quiet = {**scenario, "flows": [], "tunnels": []}
    bare = {**quiet, "links": [{**link, "a_to_b": [], "b_to_a": []} for link in scenario["links"]]}
    flows = scenario["flows"] if mptcp else []
    try:
        # Which congestion control a program takes is its own affair.
        plan = planner.build({**bare, "flows": flows}, {flow["cc"] for flow in flows}, release=platform.release(), defaults=False).plan
    except planner.PlanError as error:
        raise EmuError(str(error)) from None
    return carried({**plan, "flows": [], "routes": _routes(bare, plan)}, quiet, plain=plain)


def carried(plan: Plan, scenario: Scenario, *, plain: Collection[str] = (), late_limit_ns: int = LATE_LIMIT_NS) -> dict[str, Any]:
    """The specification of an emulator that carries the links of a scenario; `plan` was made of it
    without the links' elements.
    """
    joined, ends, links = [], [], []
    for number, (link, veth) in enumerate(zip(scenario["links"], plan["cables"], strict=True)):
        if link["name"] in plain:
            joined.append(veth)
            continue
        a, b = (
            {
                "namespace": WIRE,
                "device": f"w{number}{end}",
                "mac": f"02:01:{number >> 8:02x}:{number & 255:02x}:00:0{index}",
                "mtu": _ANY_MTU,
            }
            for index, end in enumerate("ab")
        )
        joined.append({"a": veth["a"], "b": a})
        ends.append({"a": b, "b": veth["b"]})
        links.append({"link": number, "a": a["device"], "b": b["device"]})
    wire = {"name": WIRE, "sysctl": [list(pair) for pair in _SILENT]}
    return {
        "scenario": {**{name: value for name, value in scenario.items() if name not in ("kernel", "captures")}, "flows": []},
        "plan": {**plan, "namespaces": [*plan["namespaces"], wire], "cables": joined + ends},
        "wire": WIRE,
        "links": links,
        "late_limit_ns": late_limit_ns,
    }


def _routes(scenario: Scenario, plan: Plan) -> list[dict[str, Any]]:
    """Routes between all addresses of different nodes."""
    graph = Graph(scenario)
    devices = {
        Hop(number, a_to_b): veth["a" if a_to_b else "b"]["device"]
        for number, veth in enumerate(plan["cables"])
        for a_to_b in (True, False)
    }
    routes = []
    # Each way serves both directions, so that none is asymmetric.
    for here, there in itertools.combinations(graph.addresses, 2):
        for source, destination in itertools.product(graph.addresses[here], graph.addresses[there]):
            way = graph.way(here, source, there, destination)
            if way is not None:
                routes += planner.steps(way, graph, source, destination, ("flows", "", "routes"))
    return planner.routes(routes, graph, devices)
