"""The set-up of one cell, without placeholders, and whether its names, addresses and times fit
together.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field

from ._elements import Down, RateLimit, chain
from ._errors import SetupError, Where, dotted, gathered, unknown
from ._flows import Bulk, Constant, Endpoints, Flow, OnOff, Requests
from ._kernel import KernelName
from ._measure import Measure
from ._model import Model, Name
from ._placeholder import Scalar
from ._quantity import Time
from ._topology import Topology, addresses, joined, node_addresses


class Setup(Model):
    """What one cell runs: a study's set-up without placeholders."""

    topology: Topology
    flows: Mapping[Name, Flow] = Field(min_length=1)
    duration: Time
    measure: Measure
    kernel: KernelName

    def kernel_of(self, node: str) -> str:
        """The kernel that a study asks for at a host."""
        return self.topology.nodes[node].kernel or self.kernel


# What an experiment may replace, and placeholders may stand in.
PARTS = tuple(Setup.model_fields)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of a matrix."""

    experiment: str
    # All parameters, and those of them that the matrix varies.
    parameters: Mapping[str, Scalar]
    varied: Mapping[str, Scalar]
    setup: Setup
    seeds: tuple[int, ...]
    # Where each part of the set-up stands in the study: ("flows",) or ("experiments", "v1",
    # "flows").
    origin: Mapping[str, Where]

    def error(self, where: Where, sentence: str) -> SetupError:
        """A mistake at a field of the set-up, told as one of the study."""
        return SetupError(placed(where, self.origin), in_cell(sentence, self.varied))


def placed(where: Where, origin: Mapping[str, Where]) -> Where:
    """A field of the set-up as a field of the study."""
    return (*origin[str(where[0])], *where[1:]) if where else ()


def in_cell(sentence: str, varied: Mapping[str, Scalar]) -> str:
    cell = ", ".join(f"{name}={value}" for name, value in varied.items())
    return f"{sentence} (in the cell {cell})" if cell else sentence


def check_setup(cell: Cell) -> None:
    """Names, addresses and times that must fit together."""
    if cell.setup.duration == 0:
        raise cell.error(("duration",), "a run that lasts no time measures nothing")
    # What follows needs links that lead somewhere, and addresses that belong to one.
    gathered(partial(_check_link, cell, name) for name in cell.setup.topology.links)
    _check_tunnels(cell)
    _check_addresses(cell)
    flows = (partial(_check_flow, cell, name, flow) for name, flow in cell.setup.flows.items())
    gathered([*flows, partial(_check_captures, cell)])


def _check_link(cell: Cell, name: str) -> None:
    topology = cell.setup.topology
    link = topology.links[name]
    for index, end in enumerate(link.ends):
        if end.node not in topology.nodes:
            where = ("topology", "links", name, "ends", index)
            raise cell.error(where, f"the link leads to nowhere: {unknown('node', end.node, topology.nodes)}")
    if link.ends[0].node == link.ends[1].node:
        raise cell.error(("topology", "links", name, "ends"), f'both ends are at "{link.ends[0].node}"; a link joins two nodes')
    if link.both is None and link.forward is None and link.backward is None:
        raise cell.error(("topology", "links", name), "the link has neither rate nor delay; give `both:` or `forward:` and `backward:`")
    for side in ("both", "forward", "backward"):
        direction = getattr(link, side)
        for index, element in enumerate(() if direction is None else chain(direction)):
            _check_element(cell, ("topology", "links", name, side), index, element)


def _check_tunnels(cell: Cell) -> None:
    topology = cell.setup.topology
    for name, tunnel in topology.tunnels.items():
        where: Where = ("topology", "tunnels", name)
        if name in topology.links:
            raise cell.error(where, f'a link is called "{name}", too: give the tunnel another name')
        for index, end in enumerate(tunnel.ends):
            if end.node not in topology.nodes:
                raise cell.error((*where, "ends", index), f"the tunnel leads to nowhere: {unknown('node', end.node, topology.nodes)}")
        if tunnel.ends[0].node == tunnel.ends[1].node:
            raise cell.error((*where, "ends"), f'both ends are at "{tunnel.ends[0].node}"; a tunnel joins two nodes')


def _check_element(cell: Cell, where: Where, index: int, element: Any) -> None:
    times: list[int] = []
    if isinstance(element, Down):
        for start, end in element.spans:
            times += [start, end]
    elif hasattr(element, "changes"):
        times = [change.at for change in element.changes]
    if any(later <= earlier for earlier, later in itertools.pairwise(times)):
        raise cell.error(where, f"the times of the changes of element {index + 1} ({element.kind}) must ascend")
    if isinstance(element, RateLimit) and int(element.limit) == 0:
        raise cell.error(where, "the queue has no room for the packet in transmission; it must hold at least one")


def _check_addresses(cell: Cell) -> None:
    topology, owner = cell.setup.topology, dict[str, Where]()
    pairs: dict[Where, Sequence[str]] = {("topology", "links", name): pair for name, pair in addresses(topology).items()}
    pairs |= {("topology", "tunnels", name): [end.address for end in tunnel.ends] for name, tunnel in topology.tunnels.items()}
    placed: list[tuple[Where, str]] = [((*part, "ends", index), one) for part, pair in pairs.items() for index, one in enumerate(pair)]
    placed += [(("topology", "nodes", name, "addresses"), address) for name, node in topology.nodes.items() for address in node.addresses]
    for where, address in placed:
        if address in owner:
            raise cell.error(where, f"the address {address} belongs to {dotted(owner[address])} already")
        owner[address] = where


def _check_flow(cell: Cell, name: str, flow: Flow) -> None:
    setup, where = cell.setup, ("flows", name)
    nodes = setup.topology.nodes
    for role in ("client", "server"):
        node = getattr(flow, role)
        if node not in nodes:
            raise cell.error((*where, role), unknown("node", node, nodes))
        if not node_addresses(setup.topology, node):
            raise cell.error((*where, role), f'"{node}" has no address, since no link ends there')
        address = getattr(flow, f"{role}_address")
        if address is not None:
            _check_owner(cell, (*where, f"{role}_address"), address, node)
    if flow.client == flow.server:
        raise cell.error((*where, "server"), f'client and server are the same node "{flow.client}"')
    if flow.server not in _reached(setup.topology, flow.client):
        raise cell.error((*where, "server"), _no_path(setup.topology, flow.client, flow.server))
    for index, route in enumerate(flow.routes):
        _check_owner(cell, (*where, "routes", index, "source"), route.source, flow.client)
        _check_owner(cell, (*where, "routes", index, "destination"), route.destination, flow.server)
        for position, link in enumerate(route.via):
            if link not in (known := joined(setup.topology)):
                raise cell.error((*where, "routes", index, "via", position), unknown("link", link, known))
    if isinstance(flow.path_manager, Endpoints):
        for index, endpoint in enumerate(flow.path_manager.addresses):
            _check_owner(cell, (*where, "path_manager", "addresses", index, "address"), endpoint.address, flow.client)
    if flow.start >= setup.duration:
        raise cell.error((*where, "start"), f"the flow starts at {flow.start}, and the run ends at {setup.duration}")
    _check_app(cell, where, flow)
    span, place = (flow.window, (*where, "window")) if flow.window is not None else (setup.measure.window, ("measure", "window"))
    if span is not None and span[0] >= span[1]:
        raise cell.error(place, f"the window ends at {span[1]}, which is not after its start at {span[0]}")
    if span is not None and span[1] > setup.duration:
        raise cell.error(place, f"the window ends at {span[1]}, and the run at {setup.duration}")


def _check_app(cell: Cell, where: Where, flow: Flow) -> None:
    app = flow.app
    if isinstance(app, OnOff) and app.on == 0:
        raise cell.error((*where, "app", "on"), "an application that is on for no time sends nothing")
    if isinstance(app, OnOff | Constant | Requests | Bulk) and app.duration == 0:
        raise cell.error((*where, "app", "duration"), "an application that lasts no time sends nothing")
    if isinstance(app, Requests) and (app.request == 0 or app.response == 0):
        raise cell.error((*where, "app"), "requests and responses have at least a byte")
    if flow.transport != "udp":
        if "datagram" in flow.model_fields_set:
            raise cell.error((*where, "datagram"), f"a {flow.transport} flow has no datagrams; take it out, or take `transport: udp`")
        return
    if not isinstance(app, OnOff | Constant) or app.rate is None:
        sentence = "datagrams are sent at a rate: give the flow an `app` of the kind constant, or on_off with a `rate`"
        raise cell.error((*where, "app"), sentence)
    mtus = [
        link.mtu if end.mtu is None else end.mtu
        for link in cell.setup.topology.links.values()
        for end in link.ends
        if end.node == flow.client
    ]
    most = min(map(int, mtus)) - DATAGRAM_HEADERS
    if not LEAST_DATAGRAM <= flow.datagram <= most:
        sentence = f"a datagram has {LEAST_DATAGRAM} bytes (a number and a time) to {most} (what fits the client's links)"
        raise cell.error((*where, "datagram"), sentence)


# Headers of IPv4 and UDP, and what stands in each datagram, bytes.
DATAGRAM_HEADERS = 28
LEAST_DATAGRAM = 16


def _check_captures(cell: Cell) -> None:
    topology = cell.setup.topology
    seen = set()
    for index, capture in enumerate(cell.setup.measure.capture):
        where = ("measure", "capture", index)
        if capture.node not in topology.nodes:
            raise cell.error(where, unknown("node", capture.node, topology.nodes))
        pairs = joined(topology)
        if capture.link is not None and capture.link not in pairs:
            raise cell.error(where, unknown("link", capture.link, pairs))
        for link in capture.links(topology):
            ends = pairs[link]
            if capture.node not in ends:
                raise cell.error(where, f'the link "{link}" does not end at "{capture.node}"; it joins {" and ".join(ends)}')
            if (capture.node, link) in seen:
                raise cell.error(where, f'"{capture.node}:{link}" stands here twice')
            seen.add((capture.node, link))


def _reached(topology: Topology, start: str, *, all_forward: bool = False) -> dict[str, str]:
    """The nodes to which packets from `start` find a path, each with the one before it; only
    routers pass them on, or every node.
    """
    before, ahead = {start: start}, deque([start])
    beside: dict[str, list[str]] = {}
    for one, end in joined(topology).values():
        beside.setdefault(one, []).append(end)
        beside.setdefault(end, []).append(one)
    while ahead:
        node = ahead.popleft()
        for other in beside.get(node, ()):
            if other not in before:
                before[other] = node
                if all_forward or topology.nodes[other].router:
                    ahead.append(other)
    return before


def _no_path(topology: Topology, client: str, server: str) -> str:
    """Why no packet gets from one node to another: there are no links, or nodes between them do not
    forward.
    """
    sentence = f'no path leads from "{client}" to "{server}"'
    before = _reached(topology, client, all_forward=True)
    if server not in before:
        return f"{sentence}: join them by links over routers"
    between = [before[server]]
    while between[-1] != client:
        between.append(before[between[-1]])
    hosts = [node for node in reversed(between[:-1]) if not topology.nodes[node].router]
    forwards, them = ("forwards", "it") if len(hosts) == 1 else ("forward", "each")
    return f"{sentence}, because {' and '.join(hosts)} between them {forwards} nothing: give {them} `router: true`"


def _check_owner(cell: Cell, where: Where, address: str, node: str) -> None:
    own = node_addresses(cell.setup.topology, node)
    if address not in own:
        raise cell.error(where, f'"{node}" has no address {address}; it has {", ".join(own)}')
