"""The way from one address to another, as the simulator takes it (crates/sim/src/topology.rs), and
routes that make a kernel take it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._errors import FieldPath, PlanError

Scenario = Mapping[str, Any]


class Hop(NamedTuple):
    """A link and whether it is walked from its end a to its end b."""

    link: int
    a_to_b: bool

    def reversed(self) -> Hop:
        return Hop(self.link, not self.a_to_b)


class Graph:
    """Nodes, links and who owns which address. A tunnel joins two nodes as a link does; its number
    is behind those of the links.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.tunnels: Sequence[Mapping[str, Any]] = scenario.get("tunnels", ())
        self.links: Sequence[Mapping[str, Any]] = [*scenario["links"], *self.tunnels]
        # How many of them are links.
        self.link_count = len(scenario["links"])
        self.routers = {node["name"] for node in scenario["nodes"] if node.get("router")}
        # By node: addresses in the simulator's order (those of the node as a whole first), each
        # with the hop that leaves by it.
        self.addresses: dict[str, dict[str, Hop | None]] = {
            node["name"]: dict.fromkeys(node.get("addresses", ())) for node in scenario["nodes"]
        }
        self.leaving: dict[str, list[Hop]] = {node["name"]: [] for node in scenario["nodes"]}
        for number in range(len(self.links)):
            for hop in (Hop(number, True), Hop(number, False)):
                node = self.begins(hop)
                self.leaving[node].append(hop)
                self.addresses[node][self.address(hop)] = hop

    def end(self, hop: Hop) -> Mapping[str, Any]:
        """Where the hop begins."""
        end: Mapping[str, Any] = self.links[hop.link]["a" if hop.a_to_b else "b"]
        return end

    def begins(self, hop: Hop) -> str:
        return str(self.end(hop)["node"])

    def ends(self, hop: Hop) -> str:
        return self.begins(hop.reversed())

    def address(self, hop: Hop) -> str:
        """The address of the interface by which the hop leaves."""
        return str(self.end(hop)["address"])

    def first_address(self, node: str) -> str:
        return next(iter(self.addresses[node]))

    def owner(self, address: str) -> str | None:
        """The node that has it."""
        return next((node for node, known in self.addresses.items() if address in known), None)

    def on_links(self, node: str) -> list[str]:
        return [address for address, hop in self.addresses[node].items() if hop is not None]

    def way(self, client: str, source: str, server: str, destination: str, *, over_tunnels: bool = True) -> list[Hop] | None:
        """The shortest over routers that leaves by the source's link, if it has one, and arrives by
        the destination's.
        """
        only, last = self.addresses[client].get(source), self.addresses[server][destination]
        came: dict[str, Hop] = {}
        ahead = deque([client])
        while ahead:
            node = ahead.popleft()
            for hop in self.leaving[node]:
                following = self.ends(hop)
                if hop.link >= self.link_count and not over_tunnels:
                    continue
                if node == client and only is not None and hop != only:
                    continue
                if following == server and (last is None or hop == last.reversed()):
                    came[following] = hop
                    return self._walk_back(came, client, following)
                if following not in (client, server) and following not in came and following in self.routers:
                    came[following] = hop
                    ahead.append(following)
        return None

    def _walk_back(self, came: Mapping[str, Hop], start: str, at: str) -> list[Hop]:
        way = []
        while at != start:
            way.append(came[at])
            at = self.begins(came[at])
        return way[::-1]

    def by_hand(self, flow: Mapping[str, Any], route: Mapping[str, Any]) -> list[Hop]:
        """The way that a route of a flow prescribes."""
        where = ("flows", flow["name"], "routes")
        names, at = [link["name"] for link in self.links], str(flow["client"])
        way: list[Hop] = []
        for position, name in enumerate(route["via"]):
            hop = next((hop for hop in self.leaving[at] if names[hop.link] == name), None)
            if hop is None:
                raise PlanError(where, f"the route from {route['from']} uses the link {name} at {at}, which it does not join")
            way.append(hop)
            at = self.ends(hop)
            if position + 1 < len(route["via"]) and at not in self.routers:
                raise PlanError(where, f"the route from {route['from']} passes through {at}, which is no router")
        if at != flow["server"]:
            raise PlanError(where, f"the route from {route['from']} ends at {at} and not at {flow['server']}")
        return way


@dataclass(frozen=True)
class Step:
    """At a node, packets of this source to this destination take this hop."""

    node: str
    source: str
    destination: str
    hop: Hop
    # Whose: of a flow, or of a tunnel.
    place: FieldPath


def steps(way: Sequence[Hop], graph: Graph, source: str, destination: str, where: FieldPath) -> list[Step]:
    """What each node on the way has to know, there and back."""
    there = [Step(graph.begins(hop), source, destination, hop, where) for hop in way]
    back = [Step(graph.ends(hop), destination, source, hop.reversed(), where) for hop in way]
    return there + back[::-1]


def _named(step: Step) -> str:
    """Whose step it is, in words."""
    kind, name, *_ = step.place
    return f"{str(kind).removesuffix('s')} {name}"


def routes(wanted: Sequence[Step], graph: Graph, device: Mapping[Hop, str]) -> list[dict[str, Any]]:
    """Routes to single addresses: one for all packets where a node sends all of them the same way,
    else one for each source.

    The first way found is also that of packets from any other source, such as a router's own ICMP.
    """
    by_target: dict[tuple[str, str], dict[str, Step]] = {}
    for step in wanted:
        first = by_target.setdefault((step.node, step.destination), {}).setdefault(step.source, step)
        if first.hop != step.hop:
            raise PlanError(
                step.place,
                f"the {_named(first)} and the {_named(step)} take different ways at {step.node} from {step.source} to {step.destination}, "
                "and a kernel knows a way by its addresses; give one of them an address of its own",
            )
    plans = []
    for (node, destination), ways in by_target.items():
        parted = len({step.hop for step in ways.values()}) > 1
        for source in [None, *ways] if parted else [None]:
            hop = ways[source].hop if source else next(iter(ways.values())).hop
            route = {"namespace": node, "to": destination, "device": device[hop]}
            if hop.link < graph.link_count:
                route["via"] = graph.address(hop.reversed())
            plans.append({**route, "source": source} if source else route)
    return plans
