"""Links as veth pairs: devices, what stands on them, and extra places inside a link where a node's
own device is not the place.

An extra place is a pair of ports in a namespace that no node owns: a frame that enters by one
leaves by the other through that one's discipline. It is no hop of IP, and one place serves both
directions.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._errors import FieldPath, PlanError
from ._stages import VLAN, Direction, Stage, direction
from ._tunnels import device, waiting
from ._ways import Graph, Hop, Scenario

# No node can be called so: names begin with a letter or a digit.
WIRE = ".wire"
# Ports that only pass frames on take whatever an interface may send.
ANY_MTU = 65_535


@dataclass(frozen=True, kw_only=True)
class PlacedStage:
    """A discipline whose counters are kept, and the part of which direction it stands for."""

    link: int
    a_to_b: bool
    namespace: str
    device: str
    stage: Stage


@dataclass(kw_only=True)
class Network:
    veth_pairs: list[dict[str, Any]] = field(default_factory=list)
    redirects: list[dict[str, Any]] = field(default_factory=list)
    neighbours: list[dict[str, Any]] = field(default_factory=list)
    disciplines: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    # In the order in which packets of a direction meet them.
    stages: list[PlacedStage] = field(default_factory=list)
    # By hop: the device by which it leaves its node.
    devices: dict[Hop, str] = field(default_factory=dict)
    has_wire: bool = False
    _macs: int = 0

    def mac(self) -> str:
        """The next address of the locally administered block."""
        self._macs += 1
        return f"02:00:00:00:{self._macs >> 8:02x}:{self._macs & 255:02x}"


@dataclass(kw_only=True)
class _Port:
    namespace: str
    device: str
    mtu: int
    mac: str
    address: tuple[str, int] | None = None

    def plan(self) -> dict[str, Any]:
        plain = {"namespace": self.namespace, "device": self.device, "mac": self.mac, "mtu": self.mtu}
        return {**plain, "address": list(self.address)} if self.address else plain


def network(scenario: Scenario, graph: Graph) -> Network:
    """All links."""
    net = Network()
    captured = {(capture["node"], capture["link"]) for capture in scenario.get("captures", ())}
    held_up = waiting(graph)
    for number in range(graph.link_count):
        _join(net, graph, number, captured, held_up)
    for number in range(len(graph.tunnels)):
        net.devices |= {Hop(graph.link_count + number, a_to_b): device(number) for a_to_b in (True, False)}
    net.changes.sort(key=lambda change: change["at_ns"])
    return net


def _join(net: Network, graph: Graph, number: int, captured: set[tuple[str, str]], held_up: Mapping[Hop, FieldPath]) -> None:
    link = graph.links[number]
    hops = (Hop(number, True), Hop(number, False))
    there, back = (
        direction(
            link[side],
            where=("links", link["name"], side),
            from_router=graph.begins(hop) in graph.routers,
            captured=(graph.begins(hop), link["name"]) in captured,
            mtu=graph.end(hop)["mtu"],
            bucket=held_up.get(hop),
        )
        for side, hop in zip(("a_to_b", "b_to_a"), hops, strict=True)
    )
    prefix = _prefix(link)
    first, last = (_end(net, graph, hop, way, prefix) for hop, way in zip(hops, (there, back), strict=True))
    places = max(len(there.inside), len(back.inside))
    ports = [first]
    for place in range(1, places + 1):
        for side in ("a", "b"):
            ports.append(_Port(namespace=WIRE, device=f"w{number}{side}{place}", mtu=ANY_MTU, mac=net.mac()))
        names = [port.device for port in ports[-2:]]
        net.redirects += [{"namespace": WIRE, "from": x, "to": y} for x, y in (names, names[::-1])]
    ports.append(last)
    net.has_wire |= places > 0
    # Packets from a to b leave by ports 0, 2, 4, ...; those from b to a by the last, the last but
    # two, ...
    for a_to_b, way, row in ((True, there, ports[::2]), (False, back, ports[::-1][::2])):
        entered = ports[1::2] if a_to_b else ports[::-1][1::2]
        standing = [(stage, port) for stage, port in zip([way.egress, *way.inside], row, strict=False) if stage and stage.has_netem]
        # Counters are those of what drops; a direction that drops nothing is counted where packets
        # leave it.
        counted = [stage.drops for stage, _ in standing]
        for position, (stage, port) in enumerate(standing):
            counts = counted[position] or (not any(counted) and position == len(standing) - 1)
            _stand(net, PlacedStage(link=number, a_to_b=a_to_b, namespace=port.namespace, device=port.device, stage=stage), counts=counts)
        for stage, port in zip(way.inside, entered, strict=False):
            if stage.silent_mtu is not None:
                port.mtu = stage.silent_mtu - VLAN
    net.veth_pairs += [{"a": a.plan(), "b": b.plan()} for a, b in zip(ports[::2], ports[1::2], strict=True)]
    for here, other in ((first, last), (last, first)):
        assert other.address is not None, "both ends of a link have addresses"
        # A host answers for all of its addresses at each of its interfaces.
        theirs = [other.address[0]] if other.namespace in graph.routers else graph.on_links(other.namespace)
        known = {"namespace": here.namespace, "device": here.device, "mac": other.mac}
        net.neighbours += [{**known, "address": address} for address in theirs]


def _end(net: Network, graph: Graph, hop: Hop, way: Direction, prefix: int) -> _Port:
    end = graph.end(hop)
    device = net.devices[hop] = f"l{hop.link}"
    mtu = end["mtu"] if way.mtu is None else min(end["mtu"], way.mtu)
    return _Port(namespace=end["node"], device=device, mtu=mtu, mac=net.mac(), address=(end["address"], prefix))


def _stand(net: Network, placed: PlacedStage, *, counts: bool) -> None:
    at = {"namespace": placed.namespace, "device": placed.device}
    discipline = {**at, **placed.stage.discipline()}
    if counts:
        net.stages.append(placed)
        discipline["link"] = {"index": placed.link, "a_to_b": placed.a_to_b}
    net.disciplines.append(discipline)
    net.changes += [{"at_ns": time, **at, **discipline} for time, discipline in placed.stage.changes()]


def _prefix(link: Mapping[str, Any]) -> int:
    """The longest prefix that both ends share and in which neither is the address of the network or
    of its broadcasts.
    """
    where: FieldPath = ("links", link["name"], "a")
    a, b = (ipaddress.ip_address(link[end]["address"]) for end in ("a", "b"))
    if a.version != 4 or b.version != 4:
        raise PlanError(where, "addresses of IPv6 are not yet set up on a kernel; the engine sim can (--engine sim)")
    for prefix in range(min(30, 32 - (int(a) ^ int(b)).bit_length()), 0, -1):
        network = ipaddress.ip_network((int(a), prefix), strict=False)
        if not {a, b} & {network.network_address, network.broadcast_address}:
            return prefix
    raise PlanError(where, f"{a} and {b} cannot be in one network: give the ends other addresses")
