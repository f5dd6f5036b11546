"""Tunnels as daemons: at each end the file of `polypath-tunnel`, the device that it makes, and the
ways that its paths take.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._errors import FieldPath, PlanError
from ._stages import SIMULATOR
from ._ways import Graph, Hop, Step, steps

# Where the program is in the linux engine's machine.
PROGRAM = "/polypath-tunnel"
# What the daemon takes (crates/tunneld/src/config.rs).
LEAST_MTU, MOST_MTU, MOST_PATHS, MOST_QUEUED, LONGEST_NS = 576, 65_000, 64, 1_000_000, 86_400_000_000_000
SEND_BUFFERS = range(4608, 2**30 + 1)
# Headers in front of a packet: IPv4 and UDP; GRE, and a word each for its key and its number
# (RFC 2890 section 2).
OUTER, GRE, WORD = 28, 4, 4
# What a parity packet has more than the longest packet (crates/wire/src/parity.rs).
PARITY = 7


@dataclass(kw_only=True)
class Tunnels:
    """The tunnels of a plan, and the ways that they need."""

    plan: list[dict[str, Any]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def device(number: int) -> str:
    """The device of a tunnel at both of its ends."""
    return f"t{number}"


def waiting(graph: Graph) -> dict[Hop, FieldPath]:
    """The directions in which the ends of tunnels wait for their own interfaces: those tunnels have
    socket buffers.
    """
    fields: dict[Hop, FieldPath] = {}
    for tunnel in graph.tunnels:
        if tunnel["send_buffer_bytes"] is not None:
            where = ("tunnels", tunnel["name"], "send_buffer")
            for way in (_way(graph, tunnel, number) for number in range(len(tunnel["paths"]))):
                fields |= {way[0]: where, way[-1].reversed(): where}
    return fields


def tunnels(graph: Graph, *, send_buffers: bool) -> Tunnels:
    """All tunnels of a scenario. `send_buffers`: a full interface holds up who sends, as a real one
    does.
    """
    built = Tunnels()
    for number, tunnel in enumerate(graph.tunnels):
        _check(tunnel, send_buffers=send_buffers)
        ways = [_way(graph, tunnel, path) for path in range(len(tunnel["paths"]))]
        mtu = _mtu(graph, tunnel, ways)
        ends = []
        for end, other in (("a", "b"), ("b", "a")):
            text = _file(tunnel, number, end, other, mtu)
            ends.append({"namespace": tunnel[end]["node"], "device": device(number), "file": text})
        built.plan.append({"name": device(number), "program": PROGRAM, "ends": ends})
        for way, path in zip(ways, tunnel["paths"], strict=True):
            built.steps += steps(way, graph, path["a"], path["b"], ("tunnels", tunnel["name"], "paths"))
        hop = Hop(graph.link_count + number, True)
        built.steps += steps([hop], graph, tunnel["a"]["address"], tunnel["b"]["address"], ("tunnels", tunnel["name"], "ends"))
    return built


def _check(tunnel: Mapping[str, Any], *, send_buffers: bool) -> None:
    """Raises `PlanError` for what the daemon does not do."""

    def refuse(field: str, sentence: str) -> None:
        raise PlanError(("tunnels", tunnel["name"], field), sentence)

    addresses = [tunnel["a"]["address"], tunnel["b"]["address"], *(path[end] for path in tunnel["paths"] for end in ("a", "b"))]
    if any(ipaddress.ip_address(address).version != 4 for address in addresses):
        refuse("ends", f"addresses of IPv6 are not yet set up on a kernel{SIMULATOR}")
    if len(tunnel["paths"]) > MOST_PATHS:
        refuse("paths", f"the tunnel daemon has {MOST_PATHS} paths at most{SIMULATOR}")
    if not 1 <= tunnel["queue_packets"] <= MOST_QUEUED:
        refuse("queue", f"the tunnel daemon's device holds 1 to {MOST_QUEUED} packets{SIMULATOR}")
    buffer = tunnel["send_buffer_bytes"]
    if buffer is not None and not send_buffers:
        sentence = "here an interface takes every packet at once, so a socket buffer never fills; the engines sim and linux have it"
        refuse("send_buffer", sentence)
    if buffer is not None and buffer not in SEND_BUFFERS:
        refuse("send_buffer", f"a socket's buffer has {SEND_BUFFERS.start} to {SEND_BUFFERS.stop - 1} bytes{SIMULATOR}")
    if tunnel["dead_time_ns"] < tunnel["keepalive_ns"]:
        refuse("dead_time", "a dead time is not shorter than the time between two keepalives")


def _way(graph: Graph, tunnel: Mapping[str, Any], number: int) -> list[Hop]:
    """The way of a path, over links alone."""
    path, where = tunnel["paths"][number], ("tunnels", tunnel["name"], "paths")
    for end in ("a", "b"):
        node = tunnel[end]["node"]
        addresses = [address for address, hop in graph.addresses[node].items() if hop is None or hop.link < graph.link_count]
        if path[end] not in addresses:
            raise PlanError(
                where, f"path {number + 1} begins at {path[end]}, which is no address of `{node}`; it has {', '.join(addresses)}"
            )
    way = graph.way(tunnel["a"]["node"], path["a"], tunnel["b"]["node"], path["b"], over_tunnels=False)
    if way is None:
        raise PlanError(where, f"no route leads from {path['a']} to {path['b']} over links: name addresses that routers join")
    return way


def _mtu(graph: Graph, tunnel: Mapping[str, Any], ways: list[list[Hop]]) -> int:
    """The MTU of its devices: what is given, or what the narrowest interface on the paths leaves."""
    headers = OUTER + GRE + WORD * ((tunnel["key"] is not None) + (tunnel["reorder"]["kind"] != "off"))
    headers += PARITY * ("fec" in tunnel)
    mtus = [[graph.end(hop_end)["mtu"] for hop in way for hop_end in (hop, hop.reversed())] for way in ways]
    asked = tunnel["mtu"]
    mtu: int = min(map(min, mtus)) - headers if asked is None else asked
    where = ("tunnels", tunnel["name"], "mtu")
    if not LEAST_MTU <= mtu <= MOST_MTU:
        raise PlanError(where, f"the tunnel daemon's devices have an MTU of {LEAST_MTU} to {MOST_MTU} bytes, and this is {mtu}{SIMULATOR}")
    largest = min(min(way_mtus[0], way_mtus[-1]) for way_mtus in mtus)
    if mtu + headers > largest:
        sentence = f"its devices have an MTU of {mtu} bytes, and {headers} of headers make more than the {largest} of an interface"
        raise PlanError(where, f"{sentence}: {largest - headers} is the most")
    return mtu


def _file(tunnel: Mapping[str, Any], number: int, end: str, other: str, mtu: int) -> str:
    """The file of one end. The kernel's devices have no offloads here, so that the tunnel carries
    packets of MTU size, as the links do.
    """
    fields: dict[str, Any] = {
        "device": device(number),
        "addresses": [f"{tunnel[end]['address']}/32"],
        "peer": tunnel[other]["address"],
        "mtu": "search" if tunnel.get("mtu_search") else mtu,
        "clamp_mss": tunnel["clamp_mss"],
        "offload": False,
        "queue": tunnel["queue_packets"],
        "packets_before": tunnel["packets_before"],
        "distribution": tunnel["distribution"],
        "batch": tunnel["batch"],
    }
    if tunnel["send_buffer_bytes"] is not None:
        fields["send_buffer"] = tunnel["send_buffer_bytes"]
    if tunnel["key"] is not None:
        # MPT has no keys.
        fields |= {"encapsulation": "rfc8086", "key": tunnel["key"]}
    keepalive = {
        "interval": _time(tunnel, "keepalive", tunnel["keepalive_ns"]),
        "dead_time": _time(tunnel, "dead_time", tunnel["dead_time_ns"]),
        "data_count": tunnel["data_count"],
        # As in the simulator, by its dead time alone.
        "progress": False,
    }
    parts = [("[tunnel]", fields), ("[reorder]", _reorder(tunnel)), ("[keepalive]", keepalive)]
    if "fec" in tunnel:
        fec = tunnel["fec"]
        parts.append(("[fec]", {"data": fec["data"], "parity": fec["parity"], "timeout": _time(tunnel, "fec", fec["timeout_ns"])}))
    for path in tunnel["paths"]:
        addresses = {"local": path[end], "remote": path[other], "port": tunnel["port"], "weight": path["weight"]}
        parts.append(("[[path]]", addresses))
    lines = [f"name = {json.dumps(device(number))}"]
    for head, values in parts:
        # What stands here is written in JSON as it is in TOML.
        lines += [head, *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def _reorder(tunnel: Mapping[str, Any]) -> dict[str, Any]:
    rule = tunnel["reorder"]
    settings: dict[str, Any] = {"rule": rule["kind"]}
    for ours, daemons in (("window", "packets"), ("capacity", "packets")):
        if ours in rule:
            settings[daemons] = rule[ours]
    for ours, daemons in (("max_delay_ns", "max_delay"), ("timeout_ns", "max_delay"), ("cap_ns", "max_delay"), ("offset_ns", "offset")):
        if ours in rule:
            settings[daemons] = _time(tunnel, "reorder", rule[ours])
    return settings


def _time(tunnel: Mapping[str, Any], field: str, ns: int) -> str:
    if ns % 1000 or not ns <= LONGEST_NS:
        raise PlanError(("tunnels", tunnel["name"], field), f"the tunnel daemon's times are whole microseconds, up to a day{SIMULATOR}")
    return f"{ns // 1000}us"
