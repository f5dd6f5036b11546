"""Settings that change nothing: of a transport that has no such thing, of a host where no flow
ends, of a node that only forwards.

One that counts in some cell is none of them: a matrix over transports may give the scheduler that
its MPTCP cells have. But cells of one experiment that differ in nothing else would be the same run,
with another name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._errors import SetupError, Where
from ._flows import Flow
from ._model import plain
from ._reach import address_pairs
from ._setup import Cell

# Fields of a flow that not every transport has: which do, and what to say of another.
_OF_TRANSPORTS = {
    "scheduler": (("mptcp",), "has one path and no scheduler"),
    "path_manager": (("mptcp",), "has one path and no path manager"),
    "cc": (("mptcp", "tcp"), "has no congestion control"),
}
# What settings of the endpoints are called; others below `net.` may be a router's.
_OF_ENDPOINTS = ("net.ipv4.tcp_", "net.mptcp.")
_OF_MPTCP = ("net.mptcp.", "checksum_enabled", "mptcp_checksum")


def check_idle(cells: Sequence[Cell], *, whole: bool) -> None:
    """Raises `SetupError` at the first setting that counts in none of the cells, where these are
    the whole study, and at equal cells.
    """
    if whole:
        _check_flows(cells)
        _check_routes(cells)
        _check_nodes(cells)
    _check_equal(cells)


def idle_fields(flow: Flow) -> Iterator[str]:
    """Fields that a flow was given and has no use for."""
    for field, (transports, _) in _OF_TRANSPORTS.items():
        if field in flow.model_fields_set and flow.transport not in transports:
            yield field


def _check_flows(cells: Sequence[Cell]) -> None:
    used: set[Where] = set()
    idle: dict[Where, tuple[Cell, str, str]] = {}
    for cell in cells:
        for name, flow in cell.setup.flows.items():
            for field in _OF_TRANSPORTS:
                place = (*cell.origin["flows"], name, field)
                if flow.transport in _OF_TRANSPORTS[field][0]:
                    used.add(place)
                elif field in flow.model_fields_set:
                    idle.setdefault(place, (cell, name, field))
    for place, (cell, name, field) in idle.items():
        if place not in used:
            transports, lacks = _OF_TRANSPORTS[field]
            transport = cell.setup.flows[name].transport
            sentence = f"a {transport} flow {lacks}: take `{field}` out, or take `transport: {transports[0]}`"
            raise cell.error(("flows", name, field), sentence)


def _check_routes(cells: Sequence[Cell]) -> None:
    """A route of addresses that no packet of its flow has is one that the flow does not take: of a
    tunnel, that it is not used.
    """
    used: set[Where] = set()
    idle: dict[Where, tuple[Cell, str, int]] = {}
    for cell in cells:
        for name, flow in cell.setup.flows.items():
            pairs = address_pairs(cell.setup.topology, flow) if flow.routes else {}
            for index, route in enumerate(flow.routes):
                place = (*cell.origin["flows"], name, "routes", index)
                if (route.source, route.destination) in pairs:
                    used.add(place)
                else:
                    idle.setdefault(place, (cell, name, index))
    for place, (cell, name, index) in idle.items():
        if place not in used:
            raise cell.error(("flows", name, "routes", index), _unused(cell, name, index))


def _unused(cell: Cell, name: str, index: int) -> str:
    flow = cell.setup.flows[name]
    route = flow.routes[index]
    pairs = list(address_pairs(cell.setup.topology, flow))
    others = f"{pairs[0][0]} to {pairs[0][1]}" + f", or between {len(pairs) - 1} other pairs" * (len(pairs) > 1)
    return (
        f"no packet of `{name}` goes from {route.source} to {route.destination}, so the route changes nothing: they go from {others}; "
        f"give the flow `client_address: {route.source}` and `server_address: {route.destination}`, or take the route out"
    )


def _check_nodes(cells: Sequence[Cell]) -> None:
    # By name: experiments with topologies of their own often have the same hosts.
    transports: dict[str, set[str]] = {}
    settings: dict[tuple[str, str], Cell] = {}
    # Fields of hosts that only TCP heeds.
    fields: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        for flow in cell.setup.flows.values():
            for node in (flow.client, flow.server):
                transports.setdefault(node, set()).add(flow.transport)
        for name, host in cell.setup.topology.nodes.items():
            for setting in host.sysctl:
                settings.setdefault((name, setting), cell)
            for field in ("kernel", "mtu_search"):
                if getattr(host, field) is not None:
                    fields.setdefault((name, field), cell)
    for (name, field), cell in fields.items():
        if not transports.get(name, set()) & {"mptcp", "tcp"}:
            there = _idle_host(cell, name, "TCP")
            raise cell.error(("topology", "nodes", name, field), f"{there}, so its `{field}` changes nothing: take it out")
    for (name, setting), cell in settings.items():
        carried = transports.get(name, set())
        if not setting.startswith(_OF_ENDPOINTS) and setting.startswith("net."):
            continue
        wanted = "MPTCP" if setting.startswith(_OF_MPTCP) else "TCP"
        if not (carried & {"mptcp"} if wanted == "MPTCP" else carried & {"mptcp", "tcp"}):
            there = _idle_host(cell, name, wanted)
            raise cell.error(("topology", "nodes", name, "sysctl", setting), f"{there}, so `{setting}` changes nothing there: take it out")


def _idle_host(cell: Cell, name: str, transport: str) -> str:
    """Why no endpoint of this transport is on a node."""
    return f"`{name}` only forwards" if cell.setup.topology.nodes[name].router else f"no {transport} flow begins or ends at `{name}`"


def _check_equal(cells: Sequence[Cell]) -> None:
    suspects = {cell.experiment for cell in cells if any(True for flow in cell.setup.flows.values() for _ in idle_fields(flow))}
    seen: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        if cell.experiment not in suspects:
            continue
        other = seen.setdefault((cell.experiment, _effective(cell)), cell)
        if other is not cell:
            raise equal_cells(cell, other)


def equal_cells(cell: Cell, other: Cell) -> SetupError:
    """Where and how to say that two cells are the same run: at a field that has no use for what the
    matrix gives it.
    """
    for name, flow in cell.setup.flows.items():
        for field in idle_fields(flow):
            if getattr(flow, field) != getattr(other.setup.flows[name], field):
                sentence = f"a {flow.transport} flow {_OF_TRANSPORTS[field][1]}, so this cell is the same run as {_named(cell, other)}"
                return cell.error(("flows", name, field), f"{sentence}: leave one of them out with `exclude`")
    return cell.error(("flows",), f"this cell is the same run as {_named(cell, other)}: leave one of them out with `exclude`")


def _named(cell: Cell, other: Cell) -> str:
    """The other cell, by what differs."""
    return ", ".join(f"{name}={value}" for name, value in other.varied.items() if cell.varied.get(name) != value)


def _effective(cell: Cell) -> str:
    """What counts of a cell: its set-up and its seeds."""
    tree: dict[str, Any] = plain(cell.setup)
    flows: Mapping[str, dict[str, Any]] = tree["flows"]
    for name, flow in cell.setup.flows.items():
        for field in idle_fields(flow):
            del flows[name][field]
    return json.dumps([tree, cell.seeds], default=str, sort_keys=True)
