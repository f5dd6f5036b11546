"""What a scenario's graph says before anything runs: the links in order that each subflow of each flow takes, and their sizes.

Reads the scenario as data (the dict that the engines get); never runs anything, never touches the disk.
"""

from __future__ import annotations

import ipaddress
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Scenario = Mapping[str, Any]

IPV4_HEADER = 20
IPV6_HEADER = 40
TCP_HEADER = 20
UDP_HEADER = 8
TIMESTAMPS_OPTION = 12
"""RFC 7323 section 3: ten bytes, padded by two to a multiple of four."""
DSS_OPTION = {"v0": 20, "v1": 24}
"""Bytes of the DSS option (RFC 8684 section 3.3) on a data segment that also carries a DATA_ACK: v0 sends 32-bit sequence numbers, v1 a
64-bit data sequence number and a 32-bit DATA_ACK. Both leave the checksum out, as is usual."""


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

    @property
    def name(self) -> str:
        return f"{self.sender} → {self.receiver} ({self.link})"


@dataclass(frozen=True, kw_only=True)
class Path:
    """What the data of one subflow takes: from the client to the server, of a download from the server to the client."""

    flow: str
    source: str
    destination: str
    hops: tuple[Hop, ...]
    payload: int
    """Payload bytes of a full segment."""
    packet: int
    """IP length of a full segment."""


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


def addresses(scenario: Scenario, node: str) -> list[str]:
    """The addresses of a node: those of its links in the order of the links, then its own."""
    found = [end["address"] for link in scenario["links"] for end in (link["a"], link["b"]) if end["node"] == node]
    own = [address for entry in scenario["nodes"] if entry["name"] == node for address in entry.get("addresses", ())]
    return found + [address for address in own if address not in found]


def paths(scenario: Scenario, flow: Mapping[str, Any]) -> list[Path]:
    """The paths that the data of `flow`'s subflows take, without duplicates; in the order in which an endpoint opens them.

    Two addresses that no route joins have no path, and the simulator opens no subflow between them.
    """
    clients = addresses(scenario, flow["client"])
    servers = addresses(scenario, flow["server"])
    here = flow.get("client_address") or clients[0]
    # Studies give the server's first address to which a route leads.
    there = (address for address in servers if _route(scenario, flow, here, address))
    first = (here, flow.get("server_address") or next(there, servers[0]))
    pairs = [first]
    if flow.get("transport") == "mptcp":
        manager = flow.get("mptcp", {}).get("path_manager") or {"kind": "fullmesh"}
        if manager["kind"] == "fullmesh":
            pairs += [(source, destination) for source in clients for destination in servers]
        elif manager["kind"] == "endpoints":
            pairs += [(endpoint["address"], first[1]) for endpoint in manager["addresses"]]
    found = []
    for source, destination in dict.fromkeys(pairs):
        route = _route(scenario, flow, source, destination)
        if route and is_download(flow):
            found.append(_path(scenario, flow, destination, source, _reversed(scenario, route)))
        elif route:
            found.append(_path(scenario, flow, source, destination, route))
    return found


def path_names(scenario: Scenario) -> dict[tuple[str, str], str]:
    """What people call the path between two addresses, whichever comes first.

    Of its links that no other path of its flow takes, it is the one with the lowest rate of those with a delay, or of all where none has
    one; where there is none, all links
    that some other path does not take. Two paths that would have the same name are told apart by their addresses.
    """
    found: dict[tuple[str, str], str] = {}
    # A flow of several paths tells them apart.
    for own in sorted((paths(scenario, flow) for flow in scenario["flows"]), key=len, reverse=True):
        for place, path in enumerate(own):
            if (path.destination, path.source) not in found:
                found.setdefault(
                    (path.source, path.destination), _told_apart(path, [each for index, each in enumerate(own) if index != place])
                )
    used: dict[str, int] = {}
    for name in found.values():
        used[name] = used.get(name, 0) + 1
    named = {pair: name if used[name] == 1 else f"{name} ({pair[0]} → {pair[1]})" for pair, name in found.items()}
    return {**{(there, here): name for (here, there), name in named.items()}, **named}


def _told_apart(path: Path, others: Sequence[Path]) -> str:
    taken = [{hop.link for hop in other.hops} for other in others]
    alone = [hop for hop in path.hops if not any(hop.link in each for each in taken)]
    if not alone:
        return " + ".join([hop.link for hop in path.hops if not all(hop.link in each for each in taken)] or [hop.link for hop in path.hops])
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
    directed = {(hop.link, hop.a_to_b): hop for hop in hops(scenario)}
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
        header += DSS_OPTION[flow.get("mptcp", {}).get("profile", "v1")]
    return Path(flow=flow["name"], source=source, destination=destination, hops=route, payload=largest - header, packet=largest)


def _timestamps(scenario: Scenario, node: str) -> bool:
    for entry in scenario["nodes"]:
        if entry["name"] == node:
            return bool(int(entry.get("sysctl", {}).get("net.ipv4.tcp_timestamps", 1)))
    return True


def _route(scenario: Scenario, flow: Mapping[str, Any], source: str, destination: str) -> tuple[Hop, ...]:
    """The fixed route if the flow names one, else the fewest links over routers that leave by the link owning `source` and arrive by the
    one owning `destination`; ties go to the earlier link. It is the simulator's rule (`Topology::route` in crates/sim).
    """
    directed = list(hops(scenario))
    for fixed in flow.get("routes", ()):
        if (fixed["from"], fixed["to"]) == (source, destination):
            return _along(directed, flow["client"], fixed["via"])
    routers = {node["name"] for node in scenario["nodes"] if node.get("router")}
    owning = _link_of(scenario, flow["client"], source)
    target = _owner(scenario, destination)
    arriving = None if target is None else _link_of(scenario, target, destination)
    reached: dict[str, tuple[Hop, ...]] = {flow["client"]: ()}
    waiting = deque([flow["client"]])
    while waiting:
        node = waiting.popleft()
        for hop in directed:
            if hop.sender != node or (node == flow["client"] and owning is not None and hop.link != owning):
                continue
            if hop.receiver == target and arriving in (None, hop.link):
                return (*reached[node], hop)
            if hop.receiver != target and hop.receiver in routers and hop.receiver not in reached:
                reached[hop.receiver] = (*reached[node], hop)
                waiting.append(hop.receiver)
    return ()


def _along(directed: Sequence[Hop], start: str, via: Sequence[str]) -> tuple[Hop, ...]:
    node, route = start, []
    for name in via:
        hop = next((hop for hop in directed if hop.link == name and hop.sender == node), None)
        if hop is None:
            return ()
        route.append(hop)
        node = hop.receiver
    return tuple(route)


def _link_of(scenario: Scenario, node: str, address: str) -> str | None:
    for link in scenario["links"]:
        if any(end["node"] == node and end["address"] == address for end in (link["a"], link["b"])):
            return str(link["name"])
    return None


def _owner(scenario: Scenario, address: str) -> str | None:
    for link in scenario["links"]:
        for end in (link["a"], link["b"]):
            if end["address"] == address:
                return str(end["node"])
    for node in scenario["nodes"]:
        if address in node.get("addresses", ()):
            return str(node["name"])
    return None
