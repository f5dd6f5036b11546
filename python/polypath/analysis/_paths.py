"""What each path is like before anything runs: its round-trip time, what it holds, and whether
buffers hold as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ._bounds import LIMITING, UNLIMITED, capacities, max_goodput, window
from ._network import Hop, Path, Scenario, opposite, paths

BUFFER_OVERHEAD = 2
"""Buffers hold twice what is under way: about half of Linux's receive buffer is window, and what is
sent waits for its acknowledgement.
"""
_LONG_MS = 40.0
"""Round trips from which a short queue is worth a word: below, a window is large again after some
round trips.
"""
_DEFAULT_MOST = {"net.ipv4.tcp_rmem": 6_291_456, "net.ipv4.tcp_wmem": 4_194_304}
"""Linux's, on a host with memory enough."""


def path_figures(scenario: Scenario) -> pd.DataFrame:
    """A row a path that a route leads along, in the direction of the data.

    Columns: flow, source, destination, hops (links in order), bottleneck, rtt_ms (of an empty
    network: delays without jitter), bound_mbps (goodput that it could carry alone; infinite without
    a rate), bdp_bytes (that times the round-trip time), queue_ms (what the bottleneck's full queue
    delays).
    """
    rows = []
    for flow in scenario["flows"]:
        span = window(scenario, flow)
        for path in paths(scenario, flow):
            back = opposite(scenario, flow, path)
            rtt_ns = _delay_ns(path) + _delay_ns(back)
            goodput = max_goodput([path], span)
            hop, queue_s = _bottleneck(path, span)
            rows.append(
                {
                    "flow": flow["name"],
                    "source": path.source,
                    "destination": path.destination,
                    "hops": ", ".join(hop.link for hop in path.hops),
                    "bottleneck": "" if hop is None else hop.name,
                    "rtt_ms": rtt_ns / 1e6,
                    "bound_mbps": goodput / 1e6,
                    "bdp_bytes": goodput * rtt_ns / 8e9 if math.isfinite(goodput) else math.nan,
                    "queue_ms": 1e3 * queue_s,
                }
            )
    columns = ["flow", "source", "destination", "hops", "bottleneck", "rtt_ms", "bound_mbps", "bdp_bytes", "queue_ms"]
    return pd.DataFrame(rows, columns=columns)


def small_buffers(scenario: Scenario) -> list[str]:
    """A sentence for each host whose largest buffer is below what a flow's paths need together
    (RFC 8684 section 3.3.1).
    """
    sentences: dict[str, None] = {}
    for flow in scenario["flows"]:
        if flow["transport"] == "udp" or flow["app"].get("bits_per_s"):
            continue
        span, taken = window(scenario, flow), paths(scenario, flow)
        rate = max_goodput(taken, span)
        if not taken or not math.isfinite(rate):
            continue
        rtt_ns = max(_delay_ns(path) + _delay_ns(opposite(scenario, flow, path)) for path in taken)
        needed = BUFFER_OVERHEAD * rate * rtt_ns / 8e9
        down = flow.get("direction") == "download" or flow["app"]["kind"] == "requests"
        sender, reader = (flow["server"], flow["client"]) if down else (flow["client"], flow["server"])
        for node, name, direction in ((reader, "net.ipv4.tcp_rmem", "receive"), (sender, "net.ipv4.tcp_wmem", "send")):
            most = _largest(scenario, node, name)
            if most < needed:
                sentence = (
                    f"the {direction} buffer of `{node}` ends at {_size(most)}, and the paths of `{flow['name']}` need {_size(needed)} "
                    f"({rate / 1e6:.4g} Mbit/s over {rtt_ns / 1e6:g} ms, twice what is under way): raise `{name}`"
                )
                sentences[sentence] = None
    return list(sentences)


def short_queues(paths: pd.DataFrame) -> list[str]:
    """A sentence for each bottleneck, of a table of `path_figures`, whose full queue takes less
    than a quarter of the round-trip time.

    After a loss cubic goes on with 0.7 of its window (RFC 9438 section 4.6), so a path stays full
    if its queue holds 43 % of what is under way (Appenzeller et al. 2004 for halving: all of it).
    Far below that, windows shrink before buffers matter.
    """
    sentences: dict[str, None] = {}
    for row in paths.to_dict("records"):
        if row["rtt_ms"] >= _LONG_MS and row["queue_ms"] < row["rtt_ms"] / 4:
            sentences[
                f"the queue of {row['bottleneck']} holds {row['queue_ms']:.2g} ms of packets, and a round trip takes {row['rtt_ms']:g} ms: "
                "one connection may not fill it, because it loses packets before its window is large enough"
            ] = None
    return list(sentences)


def queue_of_round_trips(scenario: Scenario, flow: Mapping[str, Any], path: Path) -> float:
    """How many round trips of an empty network the bottleneck's full queue takes; not a number
    without a rate or a delay.
    """
    rtt_s = (_delay_ns(path) + _delay_ns(opposite(scenario, flow, path))) / 1e9
    return _bottleneck(path, window(scenario, flow))[1] / rtt_s if rtt_s else math.nan


def _largest(scenario: Scenario, node: str, name: str) -> float:
    settings: Mapping[str, Any] = next(entry.get("sysctl", {}) for entry in scenario["nodes"] if entry["name"] == node)
    value = settings.get(name)
    if value is None:
        return _DEFAULT_MOST[name]
    parts: Sequence[Any] = value.split() if isinstance(value, str) else value
    return float(parts[-1])


def _delay_ns(path: Path) -> int:
    return min(
        sum(int(element["delay_ns"]) for hop in strand.hops for element in hop.elements if element["kind"] == "delay")
        for strand in path.strands
    )


def _bottleneck(path: Path, span: tuple[int, int]) -> tuple[Hop | None, float]:
    """The hop that carries the least, and how many seconds its full queue takes; not a number
    without a rate.
    """
    tunnel = next((hop for hop in path.hops if hop.inside), None)
    if tunnel is not None:
        return tunnel, math.nan
    limits, _ = capacities([path], span)
    if not limits:
        return None, math.nan
    narrowest: tuple[float, Hop | None, float] = (UNLIMITED, None, math.nan)
    for hop in path.hops:
        limiting = [element for element in hop.elements if element["kind"] in LIMITING]
        for element, (rate, uses) in zip(limiting, capacities([_only(path, hop)], span)[0], strict=True):
            carried = rate / uses[0]
            if carried < narrowest[0]:
                narrowest = (carried, hop, _queue_bits(element, hop) / rate if rate > 0 else math.nan)
    return narrowest[1], narrowest[2]


def _only(path: Path, hop: Hop) -> Path:
    return replace(path, hops=(hop,))


def _queue_bits(element: Mapping[str, Any], hop: Hop) -> float:
    """Of a queue full of the largest packets, whose they may be."""
    if element["kind"] == "policer":
        return 0.0
    queue = element["queue"]
    size = queue["bytes"] if "bytes" in queue else queue["packets"] * (hop.sender_mtu + int(element.get("framing_bytes", 14)))
    return 8.0 * float(size)


def _size(count: float) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"
