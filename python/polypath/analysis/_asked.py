"""What a scenario asks for and will not get, or gets unasked: subflows between addresses that no
route joins, tunnels as one more path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._network import Scenario, asked, path_names, paths, unjoined

_NAMED = 4
"""So many pairs of addresses are named."""
_MOST = 9
"""Subflows of a connection; some kernels have more."""
HARMLESS = "; every address has another subflow, so no path is missing"
"""Ends the sentence about subflows that are no paths of their own."""

Pairs = Sequence[tuple[str, str]]


def used_paths(scenario: Scenario, flow: Mapping[str, Any]) -> tuple[int, int]:
    """How many paths the subflows of a flow have, and how many it asks for: of its own addresses or
    the peer's, whichever are more.

    Subflows across, from the address of one path to that of another, are no paths of their own.
    """
    pairs, without = asked(scenario, flow), set(unjoined(scenario, flow))
    joined = [pair for pair in pairs if pair not in without]
    return (max(len({pair[end] for pair in joined}) for end in (0, 1)), max(len({pair[end] for pair in pairs}) for end in (0, 1)))


def without_route(scenario: Scenario) -> list[str]:
    """A sentence for each flow, or for several that are alike, that asks for subflows which no
    engine can open.
    """
    addresses: dict[tuple[int, int, str], list[str]] = {}
    for flow in scenario["flows"]:
        if missing := unjoined(scenario, flow):
            every = len(asked(scenario, flow))
            key = (every - len(missing), every, no_route(missing) + _all_the_same(scenario, flow))
            addresses.setdefault(key, []).append(flow["name"])
    return [fewer_subflows(flows, "can have", some, every, why) for (some, every, why), flows in addresses.items()]


def subflows_opened(scenario: Scenario) -> list[str]:
    """A sentence for each MPTCP flow, or for several that are alike, that opens more subflows than
    it has paths; nothing about more than any kernel has.
    """
    alike: dict[tuple[str, int, int], list[str]] = {}
    for flow in scenario["flows"]:
        if flow["transport"] == "mptcp":
            manager, without = flow["mptcp"]["path_manager"], set(unjoined(scenario, flow))
            joined = [pair for pair in asked(scenario, flow) if pair not in without]
            many = manager["subflows"] if manager["kind"] == "ndiffports" else len(joined)
            if len(ways := paths(scenario, flow)) < many <= _MOST:
                alike.setdefault((manager["kind"], many, len(ways)), []).append(flow["name"])
    return [
        f"{_each(flows)} opens {many} subflows over {'1 path' if ways == 1 else f'{ways} paths'}, by its path manager {kind}"
        + ": one from each address of the client to each of the server that a route leads to" * (kind == "fullmesh")
        for (kind, many, ways), flows in alike.items()
    ]


def subflows_across(scenario: Scenario) -> list[str]:
    """Those sentences of `subflows_opened` that are of links whose subflows hinder one another: of
    three or more direct ones, each address with each.
    """
    flows = [flow for flow in scenario["flows"] if flow["transport"] == "mptcp" and flow["mptcp"]["path_manager"]["kind"] == "fullmesh"]
    some = {**scenario, "flows": [flow for flow in flows if len(asked(scenario, flow)) > 2 * len(paths(scenario, flow))]}
    return [f"{sentence}; one address at the server, behind a router, is one subflow a path" for sentence in subflows_opened(some)]


def _each(flows: Sequence[str]) -> str:
    if len(flows) == 1:
        return flows[0]
    return f"each of {', '.join(flows[:_NAMED])}" + f" and {len(flows) - _NAMED} more" * (len(flows) > _NAMED)


def fewer_subflows(flows: Sequence[str], verb: str, some: int, every: int, why: str) -> str:
    """That each of these flows has only `some` of the subflows that it asks for."""
    return f"{_each(flows)} {verb} {'' if why.endswith(HARMLESS) else 'only '}{some} of its {every} subflows" + (f": {why}" if why else "")


def between(pairs: Pairs) -> str:
    """These addresses in words."""
    named = " and ".join(f"from {source} to {destination}" for source, destination in pairs[:_NAMED])
    return named + (f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else "")


def no_route(pairs: Pairs) -> str:
    """Between which addresses there is none."""
    return f"no route {between(pairs)}"


def _all_the_same(scenario: Scenario, flow: Mapping[str, Any]) -> str:
    used, wanted = used_paths(scenario, flow)
    return HARMLESS if used == wanted else ""


def tunnels_as_paths(scenario: Scenario) -> list[str]:
    """A sentence for each MPTCP flow of which a path leads through a tunnel over links of its other
    paths.
    """
    sentences = []
    names = path_names(scenario) if scenario.get("tunnels") else {}
    for flow in scenario["flows"] if names else ():
        ways = paths(scenario, flow)
        for path in ways:
            inside = {hop.link for tunnel in path.hops for way in tunnel.inside for hop in way}
            others = [other for other in ways if other is not path and inside & {hop.link for hop in other.hops}]
            tunnel = next((hop.link for hop in path.hops if hop.inside), None)
            if tunnel is None or not others:
                continue
            beside = " and ".join(names[other.source, other.destination] for other in others)
            manager = flow["mptcp"]["path_manager"]["kind"]
            sentences.append(
                f"{flow['name']} takes the tunnel {tunnel} for one more path ({path.source} → {path.destination}), over the links of "
                f"{beside}: "
                + (
                    "`path_manager: {kind: endpoints, addresses: ...}` with the other addresses leaves it out"
                    if manager == "fullmesh"
                    else "leave its address out of `path_manager`"
                )
            )
    return list(dict.fromkeys(sentences))
