"""What no engine can carry out, asked of the native code that builds a run.

What one engine alone has no counterpart for is that engine's own to refuse.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from polypath import _native

from ._errors import unknown
from ._flows import Endpoints, Flow, Ndiffports
from ._kernel import split_cc
from ._placeholder import is_placeholder
from ._scenario import links_of, scenario
from ._scenario_fields import field_of
from ._setup import Cell, Setup
from ._topology import node_addresses

# What stands in for a congestion control, which is the engine's to know.
_ANY_CC = "reno"


def check_cell(cell: Cell, *, simulated: bool = False, flows: bool = True) -> None:
    """Raises `SetupError` for what no engine can carry out; with `simulated`, also for what only
    the simulator has no model of.
    """
    bare = _bare(cell.setup)
    _check_mtu_searches(cell)
    if flows:
        _check_schedulers(cell)
    else:
        bare["flows"] = []
    wrong = _wrong(json.dumps(bare, sort_keys=True), simulated)
    if wrong is not None:
        place, sentence = wrong
        raise cell.error(field_of(cell.setup, place), sentence)


@lru_cache(maxsize=4096)
def _wrong(text: str, simulated: bool) -> tuple[list[str], str] | None:
    """Most cells of a matrix differ in what does not count here, or in one value."""
    return _native.check(text, simulated)


def _bare(setup: Setup) -> dict[str, Any]:
    """The scenario with what decides whether it can be built, and no more: a connection a flow, no
    recorded or drawn history of a link.
    """
    flows = {name: flow.with_checked(count=1) if flow.count > 1 else flow for name, flow in setup.flows.items()}
    plain = scenario(setup.with_checked(flows=flows), 1, links=links_of(setup, 1, until_ns=0))
    for flow in plain["flows"]:
        flow["cc"] = flow["cc"] and _ANY_CC
        # Whose it is the engine checks.
        flow["mptcp"]["scheduler"] = flow["mptcp"]["scheduler"] and flow["mptcp"]["scheduler"].partition("@")[0]
    for link in plain["links"]:
        for element in (*link["a_to_b"], *link["b_to_a"]):
            if element["kind"] == "trace":
                element["chances_ms"] = [0, 1]
            elif len(element.get("changes", ())) > 1:
                element["changes"] = element["changes"][:1]
    return plain


def _check_schedulers(cell: Cell) -> None:
    names = dict(_native.schedulers())
    for name, flow in cell.setup.flows.items():
        if flow.scheduler is None or is_placeholder(flow.scheduler):
            continue
        # Weights may follow a name.
        name_of, *weights = flow.scheduler.split(" ", 1)
        bare, _ = split_cc(name_of)
        if bare not in names:
            raise cell.error(("flows", name, "scheduler"), unknown("scheduler", bare, names))
        if weights and flow.transport == "mptcp":
            _check_weights(cell, name, weights[0].count(":") + 1)


def _check_mtu_searches(cell: Cell) -> None:
    for name, node in cell.setup.topology.nodes.items():
        asked = node.mtu_search
        if asked is None or is_placeholder(asked):
            continue
        names = dict(_native.mtu_searches())
        if asked not in names:
            raise cell.error(("topology", "nodes", name, "mtu_search"), unknown("search for a path's MTU", asked, names))


def _check_weights(cell: Cell, name: str, weights: int) -> None:
    asked = _subflows_asked(cell, cell.setup.flows[name])
    if weights > asked:
        opens = f"this flow opens {asked} subflow{'s' * (asked != 1)}"
        sentence = f"there are {weights} weights, and {opens}: give one weight a subflow at most"
        raise cell.error(("flows", name, "scheduler"), sentence)


def _subflows_asked(cell: Cell, flow: Flow) -> int:
    """How many subflows a flow's path manager would open."""
    topology = cell.setup.topology
    match flow.path_manager:
        case Ndiffports(subflows=subflows):
            return subflows
        case Endpoints(addresses=addresses):
            first = flow.client_address or node_addresses(topology, flow.client)[0]
            return len({first, *(endpoint.address for endpoint in addresses)})
        case _:
            # A server's address that belongs to no link is reached over every path, and no other is
            # announced.
            ends = {node: set(node_addresses(topology, node)) - set(topology.nodes[node].addresses) for node in (flow.client, flow.server)}
            theirs = flow.server_address or node_addresses(topology, flow.server)[0]
            return len(ends[flow.client]) * (len(ends[flow.server]) if theirs in ends[flow.server] else 1)
