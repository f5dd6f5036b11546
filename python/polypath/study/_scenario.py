"""From a set-up to the plain data an engine runs (crates/sim/src/scenario.rs): integers in base
units, all defaults written out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ._aqm import DualPi2, FqCodel, Pie, Red
from ._elements import BurstLoss, Delay, Down, DropPackets, Element, Loss, Mtu, Policer, RateLimit, Retry, Shape, Trace, Wireless, chain
from ._flows import Bulk, Constant, Endpoints, Flow, Ndiffports, OnOff, Requests, Transfer
from ._kernel import DEFAULT_KERNEL, OURS, nearest, split_cc
from ._model import Undecided
from ._quantity import Packets
from ._reach import reachable_server
from ._setup import Setup
from ._topology import Link, addresses
from ._tunnels import tunnel_scenario
from ._wireless import elements as wireless

# The connection is made a little after the flow's start, and its window is counted from then: the
# run lasts this much longer.
TAIL_NS = 2_000_000_000
# What leaves at each chance of a mahimahi trace.
TRACE_BYTES = 1504


def scenario(setup: Setup, seed: int, *, kernel: str | None = None, links: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """What one run is made of; an engine that runs kernels also hears which one, and what to
    capture.

    `links` are those of `links_of`, where the caller has them: a cell and its baselines have the
    same.
    """
    plain: dict[str, Any] = {
        "seed": seed,
        "duration_ns": int(setup.duration) + TAIL_NS,
        "series_interval_ns": None if setup.measure.series is None else int(setup.measure.series),
        "nodes": [
            {
                "name": name,
                "router": node.router,
                "addresses": list(node.addresses),
                "sysctl": _plain_settings(node.sysctl),
                # Only where it is named: other runs are the same runs they were before there was a
                # choice.
                **({} if node.mtu_search is None else {"mtu_search": node.mtu_search}),
            }
            for name, node in setup.topology.nodes.items()
        ],
        "links": links_of(setup, seed) if links is None else links,
        "flows": [_flow(copy, flow, setup, seed) for name, each in setup.flows.items() for copy, flow in copied(name, each)],
    }
    if kernel is None:
        # Without a kernel there are only our own algorithms, and their names need not say so.
        for flow in plain["flows"]:
            flow.pop("program", None)
            flow["cc"] = flow["cc"] and flow["cc"].removesuffix(OURS)
            flow["mptcp"]["scheduler"] = flow["mptcp"]["scheduler"] and flow["mptcp"]["scheduler"].replace(OURS, "")
        for node in plain["nodes"]:
            node |= _simulated_kernel(setup, node["name"])
    else:
        plain["kernel"] = kernel
    # As with captures.
    if setup.topology.tunnels:
        plain["tunnels"] = [tunnel_scenario(name, tunnel) for name, tunnel in setup.topology.tunnels.items()]
    # Only where there are some: a run without captures is the same run it was before they were
    # thought of.
    if setup.measure.capture:
        plain["captures"] = [
            {"node": each.node, "link": link, "snaplen": int(each.snaplen), "packets": each.packets}
            for each in setup.measure.capture
            for link in each.links(setup.topology)
        ]
    return plain


def _simulated_kernel(setup: Setup, name: str) -> dict[str, str]:
    """The kernel that a host has in the simulator: its own, or the nearest one to the study's. The
    default says nothing.
    """
    node = setup.topology.nodes[name]
    if node.router:
        return {}
    if node.kernel is not None:
        return {"kernel": node.kernel}
    modelled = nearest(setup.kernel).name
    return {} if modelled == DEFAULT_KERNEL else {"kernel": modelled}


def kernel_of(scenario: Mapping[str, Any], host: str) -> str:
    """The kernel of a host in a scenario: the one that runs all of them, or the one that the
    simulator has it modelled on.
    """
    modelled = next(node.get("kernel", DEFAULT_KERNEL) for node in scenario["nodes"] if node["name"] == host)
    return str(scenario.get("kernel", modelled))


def links_of(setup: Setup, seed: int, *, until_ns: int | None = None) -> list[dict[str, Any]]:
    """The links of a run: their ends and elements; what the seed draws of them up to a time, by
    default the run's end.
    """
    pairs = addresses(setup.topology)
    until = int(setup.duration) if until_ns is None else until_ns
    return [_link(name, link, pairs[name], seed, until) for name, link in setup.topology.links.items()]


def seeds_make_links(setup: Setup) -> bool:
    """Whether the seed draws something of a link before the run."""
    return any(
        isinstance(element, Wireless)
        for link in setup.topology.links.values()
        for direction in (link.both, link.forward, link.backward)
        if direction is not None
        for element in chain(direction)
    )


def copies(name: str, flow: Flow) -> list[str]:
    """The names of a flow's connections."""
    return [copy for copy, _ in copied(name, flow)]


def copied(name: str, flow: Flow) -> list[tuple[str, Flow]]:
    """A flow's connections: their names, and the flow with the direction that each has."""
    names = [name] if flow.count == 1 else [f"{name}-{number}" for number in range(1, flow.count + 1)]
    if flow.direction != "both":
        return [(each, flow) for each in names]
    ways = {"up": flow.with_checked(direction="upload"), "down": flow.with_checked(direction="download")}
    return [(f"{each}-{way}", one) for each in names for way, one in ways.items()]


def _plain_settings(sysctl: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sysctl.items()}


def _link(name: str, link: Link, pair: tuple[str, str], seed: int, until_ns: int) -> dict[str, Any]:
    a, b = (
        {"node": end.node, "address": address, "mtu": int(link.mtu if end.mtu is None else end.mtu)}
        for end, address in zip(link.ends, pair, strict=True)
    )
    forward = link.forward if link.forward is not None else link.both
    backward = link.backward if link.backward is not None else link.both
    return {
        "name": name,
        "a": a,
        "b": b,
        "a_to_b": _side(forward, f"{name} there", seed, until_ns),
        "b_to_a": _side(backward, f"{name} back", seed, until_ns),
    }


def _side(direction: Shape | tuple[Element, ...] | None, name: str, seed: int, until_ns: int) -> list[dict[str, Any]]:
    elements: list[dict[str, Any]] = []
    for number, element in enumerate(() if direction is None else chain(direction)):
        if isinstance(element, Wireless):
            elements += wireless(element, seed, f"{name} {number}", until_ns)
        else:
            elements.append(_element(element, until_ns))
    return elements


def _element(element: Any, until_ns: int) -> dict[str, Any]:
    match element:
        case RateLimit():
            return {
                "kind": "rate",
                "bits_per_s": int(element.rate),
                "queue": {"packets" if isinstance(element.limit, Packets) else "bytes": int(element.limit)},
                "framing_bytes": int(element.framing),
                "hold_ns": int(element.hold),
                "changes": _changes(element, int(element.rate), int, until_ns),
                **({"burst_bytes": int(element.burst)} if element.burst else {}),
                **({} if element.aqm is None else {"aqm": _aqm(element.aqm)}),
            }
        case Delay():
            return {
                "kind": "delay",
                "delay_ns": int(element.delay),
                "jitter_ns": int(element.jitter),
                "reorder": element.reorder,
                "changes": _changes(element, int(element.delay), int, until_ns),
            }
        case Loss():
            changes = _changes(element, float(element.share), float, until_ns)
            return {"kind": "loss", "model": "bernoulli", "probability": float(element.share), "changes": changes}
        case BurstLoss():
            shares = ("good_to_bad", "bad_to_good", "loss_good", "loss_bad")
            return {"kind": "loss", "model": "gilbert_elliott", **{name: float(getattr(element, name)) for name in shares}}
        case DropPackets():
            return {"kind": "loss", "model": "packets", "numbers": list(element.numbers), "data_only": element.data_only}
        case Mtu():
            return {"kind": "mtu", "bytes": int(element.size), "oversize": element.oversize}
        case Retry():
            return {"kind": "retry", "probability": float(element.share), "delay_ns": int(element.delay), "attempts": element.attempts}
        case Policer():
            sizes = {"burst_bytes": int(element.burst), "framing_bytes": int(element.framing)}
            return {"kind": "policer", "bits_per_s": int(element.rate), **sizes}
        case Trace():
            queue = {"packets" if isinstance(element.queue, Packets) else "bytes": int(element.queue)}
            chances = list(element.chances_ms)
            return {"kind": "trace", "chances_ms": chances, "bytes": TRACE_BYTES, "queue": queue, "framing_bytes": int(element.framing)}
        case Down():
            return {"kind": "down", "spans_ns": _spans(element, until_ns)}
        case _:
            raise AssertionError(f"chain() leaves no {type(element).__name__}")


def _changes(element: Any, first: float, number: type[int] | type[float], until_ns: int) -> list[dict[str, float]]:
    """The changes of a figure that begins with `first`, repeated until then."""
    once = [(int(change.at), number(change.to)) for change in element.changes]
    entries = [{"at_ns": at, "to": to} for at, to in once]
    if element.repeat is None:
        return entries
    for start in range(int(element.repeat), until_ns, int(element.repeat)):
        for at, to in once if once[0][0] == 0 else [(0, first), *once]:
            if to != entries[-1]["to"]:
                entries.append({"at_ns": start + at, "to": to})
    return entries


def _spans(element: Down, until_ns: int) -> list[list[int]]:
    """The outages, repeated until then; two that touch are one."""
    starts = [0] if element.repeat is None else range(0, max(until_ns, 1), int(element.repeat))
    spans_ns: list[list[int]] = []
    for start in starts:
        for since, to in element.spans:
            if start and spans_ns[-1][1] == start + since:
                spans_ns[-1][1] = start + to
            else:
                spans_ns.append([start + since, start + to])
    return spans_ns


def _aqm(aqm: Any) -> dict[str, Any]:
    match aqm:
        case Red():
            sizes = {"min_bytes": int(aqm.min), "max_bytes": int(aqm.max), "mean_packet_bytes": int(aqm.mean_packet)}
            return {"kind": "red", **sizes, "probability": float(aqm.probability), "weight_log": aqm.weight_log, "ecn": aqm.ecn}
        case Pie():
            return {"kind": "pie", "target_ns": int(aqm.target), "update_ns": int(aqm.update), "ecn": aqm.ecn}
        case DualPi2():
            times = {"target_ns": int(aqm.target), "update_ns": int(aqm.update), "step_ns": int(aqm.step)}
            rest = {name: getattr(aqm, name) for name in ("step_packets", "coupling", "classic_percent", "any_ect")}
            return {"kind": "dualpi2", **times, **rest}
    times = {"target_ns": int(aqm.target), "interval_ns": int(aqm.interval)}
    if isinstance(aqm, FqCodel):
        return {"kind": "fq_codel", **times, "flows": aqm.flows, "quantum_bytes": int(aqm.quantum), "ecn": aqm.ecn}
    return {"kind": "codel", **times, "ecn": aqm.ecn}


def _flow(name: str, flow: Flow, setup: Setup, seed: int) -> dict[str, Any]:
    start = int(flow.start) + start_offset(int(flow.start_spread), seed, name)
    until_the_end = max(int(setup.duration) - start, 0)
    app, window_end = _app(flow, until_the_end)
    bare, whose = split_cc(flow.cc)
    window = flow.window if flow.window is not None else setup.measure.window
    # Only where there are datagrams: other runs are the same runs they were before there were any.
    datagrams = flow.transport == "udp"
    # Only where the first one cannot be reached: other runs are the same runs they were before
    # somebody looked.
    ends = [(flow.client, flow.client_address), (flow.server, flow.server_address or reachable_server(setup.topology, flow))]
    routes = [{"from": route.source, "to": route.destination, "via": list(route.via)} for route in flow.routes]
    down = flow.direction == "download"
    if datagrams and down:
        # UDP opens nothing: the sender is the client.
        ends.reverse()
        routes = [{"from": route["to"], "to": route["from"], "via": route["via"][::-1]} for route in routes]
    (client, client_address), (server, server_address) = ends
    return {
        "name": name,
        "transport": flow.transport,
        "cc": None if datagrams else bare + whose,
        "client": client,
        "server": server,
        "client_address": client_address,
        "server_address": server_address,
        # As with datagrams.
        **({"direction": "download"} if down and not datagrams else {}),
        "start_ns": start,
        "app": app,
        **({"datagram_bytes": int(flow.datagram)} if datagrams else {}),
        **({"program": flow.program} if flow.program != "polypath" else {}),
        "mptcp": {"scheduler": flow.scheduler, "path_manager": _path_manager(flow)},
        "routes": routes,
        "window_ns": [0, window_end] if window is None else [int(window[0]), int(window[1])],
    }


def _app(flow: Flow, until_the_end: int) -> tuple[dict[str, Any], int]:
    match flow.app:
        case Bulk(duration=duration):
            lasts = until_the_end if duration is None else int(duration)
            return {"kind": "bulk", "duration_ns": lasts}, lasts
        case Transfer(size=size):
            return {"kind": "transfer", "bytes": int(size)}, until_the_end
        case OnOff() as app:
            lasts = until_the_end if app.duration is None else int(app.duration)
            rate = None if app.rate is None else int(app.rate)
            return {"kind": "on_off", "on_ns": int(app.on), "off_ns": int(app.off), "duration_ns": lasts, "bits_per_s": rate}, lasts
        case Constant() as app:
            lasts = until_the_end if app.duration is None else int(app.duration)
            # One burst.
            return {"kind": "on_off", "on_ns": lasts, "off_ns": 0, "duration_ns": lasts, "bits_per_s": int(app.rate)}, lasts
        case Requests() as app:
            lasts = until_the_end if app.duration is None else int(app.duration)
            sizes = {"request_bytes": int(app.request), "response_bytes": int(app.response)}
            return {"kind": "requests", **sizes, "pause_ns": int(app.pause), "duration_ns": lasts}, lasts
        case Undecided():
            raise AssertionError("a cell has decided every kind")


def _path_manager(flow: Flow) -> dict[str, Any]:
    match flow.path_manager:
        case Ndiffports(subflows=subflows):
            return {"kind": "ndiffports", "subflows": subflows}
        case Endpoints(addresses=endpoints):
            return {
                "kind": "endpoints",
                "addresses": [
                    {
                        "address": endpoint.address,
                        "backup": endpoint.backup,
                        **({"laminar": True} if endpoint.laminar else {}),
                        "remove_at_ns": None if endpoint.remove_at is None else int(endpoint.remove_at),
                    }
                    for endpoint in endpoints
                ],
            }
        case _:
            return {"kind": "fullmesh"}


def start_offset(spread_ns: int, seed: int, name: str) -> int:
    """Nanoseconds in [0, spread), the same on every machine and for every version of Python."""
    drawn = int.from_bytes(hashlib.sha256(f"start {seed} {name}".encode()).digest()[:8], "big")
    return drawn * spread_ns >> 64
