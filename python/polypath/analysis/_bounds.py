"""The highest goodput that the links and the framing allow, so that every result stands beside what
was possible.

A link carries frames of IP length plus framing; of each frame only the payload is goodput. With
equal segments on all paths this is the maximum flow of the graph restricted to the paths in use;
with unequal segments (another MTU on one path) it is the linear programme below, of which the
maximum flow is a special case. Acknowledgements, handshakes and retransmissions are not subtracted.
It bounds what passes the links in the window; the receiver's goodput can pass it by what had passed
them before and was put in order within the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from ._asked import used_paths
from ._network import Hop, Path, Scenario, paths

UNLIMITED = float("inf")
# Elements that bound how much passes.
LIMITING = ("rate", "trace", "policer")
Capacity = tuple[float, dict[int, float]]
"""Rate of a transmitter in bit/s, and by a path's number the framed bits that a bit of its goodput
costs.
"""


def path_bounds(scenario: Scenario) -> pd.DataFrame:
    """A row a path: what it could carry alone, and which link limits it.

    Columns: flow, path (from 0), source, destination, hops, payload_bytes, packet_bytes,
    bottleneck, alone_mbps.
    """
    rows = []
    for flow in scenario["flows"]:
        for index, path in enumerate(paths(scenario, flow)):
            goodput, hop = _alone(path, window(scenario, flow))
            rows.append(
                {
                    "flow": flow["name"],
                    "path": index,
                    "source": path.source,
                    "destination": path.destination,
                    "hops": ", ".join(hop.link for hop in path.hops),
                    "payload_bytes": path.payload,
                    "packet_bytes": path.packet,
                    "bottleneck": hop.name if hop else "",
                    "alone_mbps": goodput / 1e6,
                }
            )
    columns = ["flow", "path", "source", "destination", "hops", "payload_bytes", "packet_bytes", "bottleneck", "alone_mbps"]
    return pd.DataFrame(rows, columns=columns)


def flow_bounds(scenario: Scenario) -> pd.DataFrame:
    """A row a flow: the highest goodput with every other flow silent (`bound_mbps`), and of all
    flows together (`bound_all_mbps`).

    Each is the optimum of a linear programme, in Mbit/s: paths carry what they like, no transmitter
    more than its mean rate allows, headers and framing counted (docs/concepts/bounds.md).
    """
    return pd.DataFrame(flow_bound_rows(scenario), columns=["flow", "bound_mbps", "bound_all_mbps", "paths"])


def flow_bound_rows(scenario: Scenario) -> list[dict[str, Any]]:
    """The rows of `flow_bounds`; of a thousand scenarios, frames would take longer than what is in
    them.
    """
    taken = {flow["name"]: paths(scenario, flow) for flow in scenario["flows"]}
    windows = {flow["name"]: window(scenario, flow) for flow in scenario["flows"]}
    used = {flow["name"]: used_paths(scenario, flow) for flow in scenario["flows"]}
    everything = max_goodput([path for ways in taken.values() for path in ways], span(list(windows.values())))
    return [
        {
            "flow": name,
            "bound_mbps": max_goodput(ways, windows[name]) / 1e6,
            "bound_all_mbps": everything / 1e6,
            "paths": len(ways),
            "paths_used": used[name][0],
            "paths_asked": used[name][1],
        }
        for name, ways in taken.items()
    ]


def max_goodput(chosen: Sequence[Path], window: tuple[int, int]) -> float:
    """Largest sum of goodputs in bit/s over these paths; infinite if some path has no rate limit, 0
    without a path.
    """
    chosen = [strand for path in chosen for strand in path.strands]
    limits, limited = capacities(chosen, window)
    if not chosen:
        return 0.0
    if not all(limited):
        return UNLIMITED
    return most_mbps(limits, range(len(chosen))) * 1e6


def most_mbps(limits: Sequence[Capacity], chosen: Sequence[int]) -> float:
    """Largest sum of goodputs over the paths of these numbers, each of which has a limit."""
    used = [(capacity, costs) for capacity, uses in limits if any(costs := [uses.get(index, 0.0) for index in chosen])]
    # In Mbit/s, so that the solver sees numbers near one.
    return _most(tuple(tuple(costs) for _, costs in used), tuple(capacity / 1e6 for capacity, _ in used))


@lru_cache(maxsize=4096)
def _most(matrix: tuple[tuple[float, ...], ...], room: tuple[float, ...]) -> float:
    """Largest sum of what the columns carry where each row has so much room. Many runs share their
    links and are solved once.
    """
    if (simple := _separate(matrix, room)) is not None:
        return simple
    # It takes longer to load than most bounds take to find.
    from scipy.optimize import linprog

    solved = linprog([-1.0] * len(matrix[0]), A_ub=matrix, b_ub=room, method="highs")
    return float(-solved.fun)


def _separate(matrix: tuple[tuple[float, ...], ...], room: tuple[float, ...]) -> float | None:
    """The same where each transmitter carries one path, or all of them at one cost: what the paths
    carry alone, or what all have in common. None where paths share anything else.
    """
    alone, common = [UNLIMITED] * len(matrix[0]), UNLIMITED
    for row, space in zip(matrix, room, strict=True):
        users = [path for path, cost in enumerate(row) if cost > 0]
        if len(users) == 1:
            alone[users[0]] = min(alone[users[0]], space / row[users[0]])
        elif len(users) == len(row) and len(set(row)) == 1:
            common = min(common, space / row[0])
        else:
            return None
    return min(sum(alone), common)


def capacities(chosen: Sequence[Path], window: tuple[int, int]) -> tuple[list[Capacity], list[bool]]:
    """Each transmitter on these paths with what each path spends of it per bit of goodput, and of
    each path whether anything limits it.
    """
    limits: dict[tuple[str, bool, int], Capacity] = {}
    limited = [False] * len(chosen)
    for index, path in enumerate(chosen):
        for hop in path.hops:
            for stage, rate, per_payload in _stages(hop, path, window):
                _, uses = limits.setdefault((hop.link, hop.a_to_b, stage), (rate, {}))
                uses[index] = per_payload
                limited[index] = True
    return list(limits.values()), limited


def _alone(path: Path, window: tuple[int, int]) -> tuple[float, Hop | None]:
    tunnel = next((hop for hop in path.hops if hop.inside), None)
    if tunnel is not None:
        return max_goodput([path], window), tunnel
    best, at = UNLIMITED, None
    for hop in path.hops:
        for _, rate, per_payload in _stages(hop, path, window):
            if rate / per_payload < best:
                best, at = rate / per_payload, hop
    return best, at


def _stages(hop: Hop, path: Path, window: tuple[int, int]) -> list[tuple[int, float, float]]:
    """Each transmitter or policer on a hop: its place in the chain, its mean rate in bit/s, and the
    framed bits it spends per bit of goodput.

    What is lost after a transmitter has been paid for there already; spans in which the link is
    down carry nothing.
    """
    stages = []
    for index, element in enumerate(hop.elements):
        if element["kind"] not in LIMITING:
            continue
        mean = _trace_rate(element) if element["kind"] == "trace" else _mean_rate(element, window)
        if element["kind"] == "policer":
            # Its bucket may be full when the window begins.
            mean += 8e9 * element["burst_bytes"] / (window[1] - window[0])
        rate = mean * _up_share(hop.elements, window)
        frame = path.packet + hop.headers + int(element.get("framing_bytes", 14))
        survive = 1.0
        for later in hop.elements[index + 1 :]:
            survive *= 1.0 - mean_loss(later)
        stages.append((index, rate, frame / (path.payload * survive) if survive > 0 else UNLIMITED))
    return stages


def _mean_rate(element: Mapping[str, Any], window: tuple[int, int]) -> float:
    """Rate averaged over the window, from its changes."""
    start, end = window
    total, now, rate = 0.0, start, float(element["bits_per_s"])
    changes = element.get("changes", ())
    if not changes:
        # To the last digit, whatever the window.
        return rate
    for change in changes:
        at = int(change["at_ns"])
        if at > now:
            total += rate * (min(at, end) - now)
            now = min(at, end)
        rate = float(change["to"])
    return (total + rate * (end - now)) / (end - start)


def _trace_rate(element: Mapping[str, Any]) -> float:
    """Of a whole round of the trace, bit/s."""
    chances = element["chances_ms"]
    return float(len(chances) * int(element["bytes"]) * 8 * 1000 / chances[-1])


def _up_share(elements: Sequence[Mapping[str, Any]], window: tuple[int, int]) -> float:
    start, end = window
    down = 0
    for element in elements:
        if element["kind"] == "down":
            down += sum(max(0, min(end, to) - max(start, since)) for since, to in element["spans_ns"])
    return max(0.0, 1.0 - down / (end - start))


def mean_loss(element: Mapping[str, Any]) -> float:
    """Long-run share of packets that a loss element drops; one that changes or drops numbered
    packets counts as none, as a bound must.
    """
    if element["kind"] != "loss" or element.get("changes"):
        return 0.0
    if element["model"] == "bernoulli":
        return float(element["probability"])
    if element["model"] == "gilbert_elliott":
        leave, back = float(element["good_to_bad"]), float(element["bad_to_good"])
        bad = leave / (leave + back) if leave + back > 0 else 0.0
        return bad * float(element["loss_bad"]) + (1.0 - bad) * float(element["loss_good"])
    return 0.0


def window(scenario: Scenario, flow: Mapping[str, Any]) -> tuple[int, int]:
    """The flow's window in simulated time; the handshake's few milliseconds are ignored."""
    start = int(flow.get("start_ns", 0))
    since, until = (int(edge) for edge in flow["window_ns"])
    end = min(start + until, max(int(scenario["duration_ns"]), start + since + 1))
    return start + since, max(end, start + since + 1)


def span(windows: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return min((start for start, _ in windows), default=0), max((end for _, end in windows), default=1)
