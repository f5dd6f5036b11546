"""What a scenario's graph says before anything runs: the links in order that each subflow of each
flow takes, and their sizes.

Reads the scenario as data (the dict that the engines get); never runs anything, never touches the
disk.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polypath import planner
from polypath.planner import Graph
from polypath.study import kernel_of, nearest

Scenario = Mapping[str, Any]

IPV4_HEADER = 20
IPV6_HEADER = 40
TCP_HEADER = 20
UDP_HEADER = 8
TUNNEL_WORD = 4
"""A tunnel puts IP, UDP (RFC 8086) and a word of GRE around a packet; a key and a number take a
word each (RFC 2890).
"""
TIMESTAMPS_OPTION = 12
"""RFC 7323 section 3: ten bytes, padded by two to a multiple of four."""


@dataclass(frozen=True, kw_only=True)
class Hop:
    """One direction of one link."""

    link: str
    a_to_b: bool
    elements: Sequence[Mapping[str, Any]]
    sender: str
    receiver: str
    sender_mtu: int
    receiver_mtu: int
    headers: int = 0
    """Bytes that a tunnel puts around a packet here."""
    inside: tuple[tuple[Hop, ...], ...] = ()
    """Of a tunnel's device: the links of each of its paths."""

    @property
    def name(self) -> str:
        return f"{self.sender} → {self.receiver} ({self.link})"


@dataclass(frozen=True, kw_only=True)
class Path:
    """What the data of one subflow takes: from the client to the server, of a download from the
    server to the client.
    """

    flow: str
    source: str
    destination: str
    hops: tuple[Hop, ...]
    payload: int
    """Payload bytes of a full segment."""
    packet: int
    """IP length of a full segment."""

    @property
    def strands(self) -> list[Path]:
        """What its packets take over links alone: of a path through a tunnel one for each path of
        that.
        """
        ways = itertools.product(*(hop.inside or ((hop,),) for hop in self.hops))
        return [replace(self, hops=tuple(itertools.chain.from_iterable(way))) for way in ways]


def network_of(scenario: Scenario) -> str:
    """All that the paths of its flows and the bounds of them depend on: what is found of one scenario
    holds for those of the same network.
    """
    elements = [element for link in scenario["links"] for side in ("a_to_b", "b_to_a") for element in link.get(side, ())]
    # Where nothing changes over time, it does not matter when flows start.
    steady = not any(
        element.get("changes") or element["kind"] in ("down", "trace", "policer") or element.get("probability") == 1 for element in elements
    )
    left_out = {"cc", *(("start_ns", "window_ns") if steady else ())}
    flows = [{name: value for name, value in flow.items() if name not in left_out} for flow in scenario["flows"]]
    for flow in flows if steady else ():
        if flow["app"]["kind"] == "bulk":
            flow["app"] = {"kind": "bulk"}
    return json.dumps({**scenario, "flows": flows, "seed": 0}, default=str)


def hops(scenario: Scenario) -> Iterator[Hop]:
    """Every direction of every link, in the order of the study."""
    for link in scenario["links"]:
        for a_to_b in (True, False):
            sender, receiver = (link["a"], link["b"]) if a_to_b else (link["b"], link["a"])
            yield Hop(
                link=link["name"],
                a_to_b=a_to_b,
                elements=tuple(link.get("a_to_b" if a_to_b else "b_to_a", ())),
                sender=sender["node"],
                receiver=receiver["node"],
                sender_mtu=int(sender.get("mtu", 1500)),
                receiver_mtu=int(receiver.get("mtu", 1500)),
            )


def tunnels(scenario: Scenario) -> Iterator[Hop]:
    """Every direction of every tunnel, as the link that it is to its nodes."""
    for tunnel in scenario.get("tunnels", ()):
        outer = IPV6_HEADER if ":" in tunnel["paths"][0]["a"] else IPV4_HEADER
        headers = outer + UDP_HEADER + TUNNEL_WORD * (1 + (tunnel["key"] is not None) + (tunnel["reorder"]["kind"] != "off"))
        ways = [_outside(scenario, tunnel, path) for path in tunnel["paths"]]
        mtus = [mtu for way in ways for hop in way for mtu in (hop.sender_mtu, hop.receiver_mtu)]
        mtu = tunnel["mtu"] or (min(mtus, default=1500) - headers)
        for a_to_b in (True, False):
            sender, receiver = (tunnel["a"], tunnel["b"]) if a_to_b else (tunnel["b"], tunnel["a"])
            inside = [way if a_to_b else _reversed(scenario, way) for way in ways]
            yield Hop(
                link=tunnel["name"],
                a_to_b=a_to_b,
                elements=(),
                sender=sender["node"],
                receiver=receiver["node"],
                sender_mtu=mtu,
                receiver_mtu=mtu,
                inside=tuple(tuple(replace(hop, headers=headers) for hop in way) for way in inside),
            )


def _outside(scenario: Scenario, tunnel: Mapping[str, Any], path: Mapping[str, Any]) -> tuple[Hop, ...]:
    """The links of a path of a tunnel, from its end a to its end b."""
    flow = {"client": tunnel["a"]["node"]}
    return _route(scenario, flow, path["a"], path["b"], over_tunnels=False)


def asked(scenario: Scenario, flow: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The addresses of client and server between which `flow` has packets, or asks for a subflow,
    in the order in which it does.
    """
    graph = Graph(scenario)
    clients, servers = (list(graph.addresses[flow[end]]) for end in ("client", "server"))
    here = flow.get("client_address") or clients[0]
    # Studies give the server's first address to which a route leads.
    there = (address for address in servers if _route(scenario, flow, here, address))
    first = (here, flow.get("server_address") or next(there, servers[0]))
    pairs = [first]
    if flow.get("transport") == "mptcp":
        manager = flow.get("mptcp", {}).get("path_manager") or {"kind": "fullmesh"}
        on_links = graph.on_links(flow["server"])
        # A server's address that belongs to no link is reached over every path, and no other is
        # announced.
        others = [address for address in on_links if address != first[1]] if first[1] in on_links else []
        if manager["kind"] == "fullmesh":
            sources = [here, *graph.on_links(flow["client"])]
            pairs += [(source, destination) for source in sources for destination in (first[1], *others)]
        elif manager["kind"] == "endpoints":
            laminar = [endpoint["address"] for endpoint in manager["addresses"] if endpoint.get("laminar")]
            pairs += [(endpoint["address"], first[1]) for endpoint in manager["addresses"] if endpoint["address"] not in laminar]
            # The announced ones one after another, each from the first that has no subflow.
            pairs += zip((address for address in laminar if address != here), others, strict=False)
    return list(dict.fromkeys(pairs))


def unjoined(scenario: Scenario, flow: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Those of `asked` between which no subflow comes up, since no route joins them."""
    return [pair for pair in asked(scenario, flow) if not route(scenario, flow, *pair)]


def route(scenario: Scenario, flow: Mapping[str, Any], source: str, destination: str) -> tuple[Hop, ...]:
    """The links from an address of the client to one of the server; none where nothing joins them.

    Where `_route` finds none, a subflow from an address over its own link reaches whatever address
    the node at the other end has: it is bound to its interface, beyond which Linux takes every
    destination to be (`ip_route_output_key_hash_rcu`), and a node answers for all of its addresses
    at each of its interfaces (`arp_ignore` 0). The simulator does the same.
    """
    if hops_there := _route(scenario, flow, source, destination):
        return hops_there
    graph = Graph(scenario)
    hop = graph.addresses[flow["client"]].get(source)
    return (_directed(scenario)[hop],) if hop and graph.ends(hop) == graph.owner(destination) else ()


def paths(scenario: Scenario, flow: Mapping[str, Any]) -> list[Path]:
    """The paths that the data of `flow`'s subflows take, without duplicates; in the order in which
    an endpoint opens them.

    Two addresses that no route joins have no path. Of subflows over a link that has one already
    there is none, either.
    """
    pairs, directed = asked(scenario, flow), _directed(scenario)
    ways = {pair: _route(scenario, flow, *pair, directed=directed) for pair in pairs}
    for pair in pairs:
        way = ways[pair] or route(scenario, flow, *pair)
        if way not in ways.values():
            ways[pair] = way
    down = is_download(flow)
    return [
        _path(scenario, flow, destination, source, _reversed(scenario, way)) if down else _path(scenario, flow, source, destination, way)
        for (source, destination), way in ways.items()
        if way
    ]


def subflows_over(scenario: Scenario, flow: Mapping[str, Any], path: Path) -> list[frozenset[str]]:
    """The addresses of the subflows that take a path of `paths`."""
    way = _reversed(scenario, path.hops) if is_download(flow) else path.hops
    return [frozenset(pair) for pair in asked(scenario, flow) if route(scenario, flow, *pair) == way]


def bare(end: str) -> str:
    """An end of a subflow without its port, which kernels tell."""
    return end.rpartition(":")[0].strip("[]") if ("." in end or "]" in end) and ":" in end else end


def path_names(scenario: Scenario) -> dict[tuple[str, str], str]:
    """What people call the path between two addresses, whichever comes first.

    Of its links that no other path of its flow takes, it is the one with the lowest rate of those
    with a delay, or of all where none has one; where there is none, all links that some other path
    does not take. Two paths that would have the same name are told apart by their addresses.
    """
    names: dict[tuple[str, str], str] = {}
    # A flow of several paths tells them apart.
    every = [paths(scenario, flow) for flow in scenario["flows"]]
    for ways in sorted(every, key=len, reverse=True):
        for order, path in enumerate(ways):
            if (path.destination, path.source) not in names:
                names.setdefault(
                    (path.source, path.destination), _distinct_name(path, [other for index, other in enumerate(ways) if index != order])
                )
    used: dict[str, int] = {}
    for name in names.values():
        used[name] = used.get(name, 0) + 1
    named = {pair: name if used[name] == 1 else f"{name} ({pair[0]} → {pair[1]})" for pair, name in names.items()}
    # Plain TCP, measured for itself, may have a path that no flow has.
    joined = (*scenario["links"], *scenario.get("tunnels", ()))
    named |= {
        pair: link["name"]
        for link in joined
        if (pair := (link["a"]["address"], link["b"]["address"])) not in named and pair[::-1] not in named
    }
    for flow, ways in zip(scenario["flows"], every, strict=True):
        for path in ways:
            called = named.get((path.source, path.destination), named.get((path.destination, path.source), path.source))
            for ends in subflows_over(scenario, flow, path) if len(asked(scenario, flow)) > 1 else ():
                pair = (min(ends), max(ends))
                if pair not in named and pair[::-1] not in named:
                    named[pair] = called
    return {**{(there, here): name for (here, there), name in named.items()}, **named}


def _distinct_name(path: Path, others: Sequence[Path]) -> str:
    taken = [{hop.link for hop in other.hops} for other in others]
    alone = [hop for hop in path.hops if not any(hop.link in links for links in taken)]
    if not alone:
        return " + ".join(
            [hop.link for hop in path.hops if not all(hop.link in links for links in taken)] or [hop.link for hop in path.hops]
        )
    # A device in front of a line is not what people call the path by.
    far = [hop for hop in alone if any(element["kind"] == "delay" and element["delay_ns"] for element in hop.elements)]
    return min(far or alone, key=_lowest_rate).link


def _lowest_rate(hop: Hop) -> float:
    return min((float(element["bits_per_s"]) for element in hop.elements if element["kind"] == "rate"), default=math.inf)


def is_download(flow: Mapping[str, Any]) -> bool:
    """Whether the server sends; the client opens the connection either way."""
    return bool(flow.get("direction") == "download")


def opposite(scenario: Scenario, flow: Mapping[str, Any], path: Path) -> Path:
    """The same path the other way, on which what answers the data of `path` comes."""
    return _path(scenario, flow, path.destination, path.source, _reversed(scenario, path.hops))


def _reversed(scenario: Scenario, route: Sequence[Hop]) -> tuple[Hop, ...]:
    if not route:
        return ()
    there = itertools.chain(hops(scenario), tunnels(scenario)) if any(hop.inside for hop in route) else hops(scenario)
    directed = {(hop.link, hop.a_to_b): hop for hop in there}
    return tuple(directed[hop.link, not hop.a_to_b] for hop in reversed(route))


def _path(scenario: Scenario, flow: Mapping[str, Any], source: str, destination: str, route: tuple[Hop, ...]) -> Path:
    largest = min(min(hop.sender_mtu for hop in route), route[-1].receiver_mtu)
    for hop in route:
        largest = min([largest, *(int(e["bytes"]) for e in hop.elements if e["kind"] == "mtu")])
    header = IPV6_HEADER if ipaddress.ip_address(source).version == 6 else IPV4_HEADER
    if flow.get("transport") == "udp":
        payload = int(flow["datagram_bytes"])
        return Path(
            flow=flow["name"], source=source, destination=destination, hops=route, payload=payload, packet=header + UDP_HEADER + payload
        )
    header += TCP_HEADER
    if _timestamps(scenario, flow["client"]) and _timestamps(scenario, flow["server"]):
        header += TIMESTAMPS_OPTION
    if flow.get("transport") == "mptcp":
        header += nearest(kernel_of(scenario, flow["client"])).dss_bytes
    return Path(flow=flow["name"], source=source, destination=destination, hops=route, payload=largest - header, packet=largest)


def _timestamps(scenario: Scenario, node: str) -> bool:
    for entry in scenario["nodes"]:
        if entry["name"] == node:
            return bool(int(entry.get("sysctl", {}).get("net.ipv4.tcp_timestamps", 1)))
    return True


def _directed(scenario: Scenario, *, over_tunnels: bool = True) -> dict[planner.Hop, Hop]:
    """By the planner's name of it, every direction of every link and tunnel."""
    there = [*hops(scenario), *(tunnels(scenario) if over_tunnels else ())]
    return {planner.Hop(number // 2, hop.a_to_b): hop for number, hop in enumerate(there)}


def _route(
    scenario: Scenario,
    flow: Mapping[str, Any],
    source: str,
    destination: str,
    *,
    over_tunnels: bool = True,
    directed: Mapping[planner.Hop, Hop] | None = None,
) -> tuple[Hop, ...]:
    """The fixed route if the flow names one, else the one that the simulator takes; `directed` is
    that of `_directed`, where the caller has it.
    """
    directed = directed or _directed(scenario, over_tunnels=over_tunnels)
    for fixed in flow.get("routes", ()):
        if (fixed["from"], fixed["to"]) == (source, destination):
            return _along(list(directed.values()), flow["client"], fixed["via"])
    graph = Graph(scenario)
    owner = graph.owner(destination)
    way = None if owner is None else graph.way(flow["client"], source, owner, destination, over_tunnels=over_tunnels)
    return tuple(directed[hop] for hop in way or ())


def _along(directed: Sequence[Hop], start: str, via: Sequence[str]) -> tuple[Hop, ...]:
    node, route = start, []
    for name in via:
        hop = next((hop for hop in directed if hop.link == name and hop.sender == node), None)
        if hop is None:
            return ()
        route.append(hop)
        node = hop.receiver
    return tuple(route)
