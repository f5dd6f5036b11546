"""What links, queues and tunnels of a run show of each flow, from the tables that every engine
fills.

Nothing here knows an engine: what one does not tell (None, not a number) is not a number in the
evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ._bounds import max_goodput, mean_loss, window
from ._network import Hop, Path, Scenario, bare, opposite, path_names, paths, subflows_over
from ._paths import queue_of_round_trips

WAITING = 2
"""Packets in a queue of which at least one waits: one may be the packet that is being sent."""
CHANCE = 1.3
"""More than its share that a loss may take by chance of a few hundred packets."""

Evidence = dict[str, Any]
_REASONS = ("queue", "loss", "mtu", "down")


QUEUE = ("time_s", "link", "a_to_b", "queue_packets", "queue_bytes")
"""Columns of the series of links that tell of queues."""
Columns = Mapping[str, npt.NDArray[Any]]


class Queues:
    """The queues of a run over time."""

    def __init__(self, queues: Columns | None) -> None:
        # Plain arrays: of a thousand short runs, frames would take longer than the runs.
        self._columns = queues or {name: np.array([]) for name in QUEUE}
        self.times: npt.NDArray[np.float64] = np.unique(self._columns["time_s"])
        self._known: dict[tuple[str, bool], npt.NDArray[np.float64] | None] = {}

    def packets(self, hop: Hop) -> npt.NDArray[np.float64] | None:
        """At each time the packets that wait beyond what a rate with a `hold` keeps in any case;
        None where no queue was sampled.
        """
        direction = (hop.link, hop.a_to_b)
        if direction not in self._known:
            here = (self._columns["link"] == hop.link) & (self._columns["a_to_b"] == hop.a_to_b)
            self._known[direction] = None
            if here.any():
                waiting = np.zeros(len(self.times))
                packets, size = (self._columns[name][here].astype(float) for name in ("queue_packets", "queue_bytes"))
                beyond = np.where(size > 0, np.clip(1.0 - _held(hop) / np.maximum(size, 1.0), 0.0, None), 0.0)
                waiting[np.searchsorted(self.times, self._columns["time_s"][here])] = packets * beyond
                self._known[direction] = waiting
        return self._known[direction]


def _held(hop: Hop) -> float:
    """Bytes that rates with a `hold` keep."""
    capacity = 0.0
    for element in hop.elements:
        if element["kind"] == "rate":
            fastest = max(float(element["bits_per_s"]), *(float(change["to"]) for change in element.get("changes", ())), 0.0)
            capacity += fastest * float(element.get("hold_ns") or 0) / 8e9
    return capacity


@dataclass(frozen=True, kw_only=True)
class Way:
    """A path of a flow with what its network says of it."""

    path: Path
    strands: Sequence[Path]
    back: Sequence[Path]
    """The strands of what answers."""
    subflows: Sequence[frozenset[str]]
    """The addresses of those that take it."""
    said: Evidence
    """What no run decides."""
    tunnels: Sequence[tuple[Hop, str, Sequence[Evidence]]]
    """The tunnels on it: how each distributes packets, and its strands."""


def ways_of(scenario: Scenario) -> dict[str, list[Way]]:
    """By flow. All runs of one network have the same."""
    names = path_names(scenario)
    return {flow["name"]: [_way(scenario, flow, path, names) for path in paths(scenario, flow)] for flow in scenario["flows"]}


def _way(scenario: Scenario, flow: Mapping[str, Any], path: Path, names: Mapping[tuple[str, str], str]) -> Way:
    strands, span = path.strands, window(scenario, flow)
    every_hop = [hop for strand in strands for hop in strand.hops]
    asked_for = flow["mptcp"]["path_manager"].get("addresses", ()) if flow["transport"] == "mptcp" else ()
    ends = {path.source, path.destination}
    alone = [
        {
            "name": " + ".join(dict.fromkeys(at.link for at in strand.hops if at.headers)),
            "alone": max_goodput([strand], span) / 1e6,
        }
        for strand in strands
        if any(hop.inside for hop in path.hops)
    ]
    kinds = {tunnel["name"]: tunnel["distribution"] for tunnel in scenario.get("tunnels", ())}
    return Way(
        path=path,
        strands=strands,
        back=opposite(scenario, flow, path).strands,
        subflows=subflows_over(scenario, flow, path),
        said={
            "name": names.get((path.source, path.destination), path.source),
            "backup": any(endpoint["backup"] for endpoint in asked_for if endpoint["address"] in ends),
            "alone": max_goodput([path], span) / 1e6,
            "queue_trips": queue_of_round_trips(scenario, flow, path),
            "black_hole": _black_hole(path),
            "down": _down(path, span),
            "overtakes": len(strands) > 1 or any(element.get("reorder") for hop in every_hop for element in hop.elements),
        },
        tunnels=[(hop, kinds[hop.link], alone) for hop in path.hops if hop.inside],
    )


def evidence(
    taken: Mapping[str, Sequence[Way]],
    runs: Sequence[Mapping[str, Any]],
    subflows: Sequence[Mapping[str, Any]],
    queues: Columns | None,
    links: Sequence[Mapping[str, Any]],
    tunnel_paths: Sequence[Mapping[str, Any]],
) -> dict[str, Evidence]:
    """Of each flow of one run what its paths, those of `ways_of`, did. Rows are those of the tables."""
    seen, counted = Queues(queues), {(row["link"], bool(row["a_to_b"])): row for row in links}
    by_flow = {row["flow"]: row for row in runs}
    by_subflow: dict[str, list[Mapping[str, Any]]] = {}
    for subflow in subflows:
        by_subflow.setdefault(subflow["flow"], []).append(subflow)
    # By direction of a link or tunnel: Mbit/s of the flows whose data it carries.
    sends: dict[tuple[str, bool], float] = {}
    for name, ways in taken.items():
        row = by_flow.get(name)
        mbps = 0.0 if row is None else _carried(row, "goodput_receiver_mbps", row.get("bytes_received"), row)
        for direction in {(hop.link, hop.a_to_b) for way in ways for path in (way.path, *way.strands) for hop in path.hops}:
            sends[direction] = sends.get(direction, 0.0) + mbps
    evidence_of: dict[str, Evidence] = {}
    for name, ways in taken.items():
        row = by_flow.get(name)
        if row is None:
            continue
        begins, lives = (float(row[name]) if pd.notna(row[name]) else math.nan for name in ("established_s", "lifetime_s"))
        alive = (seen.times >= begins) & (seen.times <= begins + lives)
        flow_subflows = [
            {**subflow, "acked_mbps": _carried(subflow, "acked_mbps", subflow.get("bytes_acked"), row)}
            for subflow in by_subflow.get(name, [])
        ]
        of_paths = [_of_path(way, seen, alive, counted, flow_subflows, sends) for way in ways]
        waits = [strand["waits"] for path in of_paths for strand in path["strands"]]
        evidence_of[name] = {
            "cc": row.get("flow_cc"),
            "mbps": _carried(row, "goodput_receiver_mbps", row.get("bytes_received"), row),
            "life": lives,
            "blocked": _number(row.get("hol_blocked_s")) / max(lives, 1e-9),
            "held": _number(row.get("out_of_order_max_bytes")),
            "again": _number(row.get("retransmissions")),
            "needless": _number(row.get("dsacks_received")),
            "segments": sum(_number(subflow.get("data_segments_sent")) for subflow in flow_subflows),
            "established": pd.notna(row["established_s"]),
            "queue_share": min(waits) if waits and not any(map(math.isnan, waits)) else math.nan,
            "paths": of_paths,
            "tunnels": _tunnels(ways, sends, tunnel_paths),
        }
    return evidence_of


def _of_path(
    way: Way,
    seen: Queues,
    alive: npt.NDArray[np.bool_],
    counted: Mapping[tuple[str, bool], Mapping[str, Any]],
    subflows: Sequence[Mapping[str, Any]],
    sends: Mapping[tuple[str, bool], float],
) -> Evidence:
    strands = way.strands
    path_subflows = [subflow for subflow in subflows if frozenset((bare(subflow["source"]), bare(subflow["destination"]))) in way.subflows]
    path_subflows = [subflow for subflow in path_subflows if pd.notna(subflow["established_s"])]
    backs = [(_waits(hop, seen, alive), hop) for strand in way.back for hop in strand.hops]
    slowest = max((way for way in backs if not math.isnan(way[0])), key=lambda way: way[0], default=(math.nan, None))
    lengths = [
        (float(packets[alive].mean()), hop.name)
        for strand in strands
        for hop in strand.hops
        if (packets := seen.packets(hop)) is not None and alive.any()
    ]
    drops = dict.fromkeys(_REASONS, 0.0)
    passed = 0.0
    for strand in strands:
        for hop in strand.hops:
            row = counted.get((hop.link, hop.a_to_b), {})
            for reason, number in _drops(row, hop).items():
                drops[reason] += number
            passed = max(passed, _number(row.get("packets"), 0.0))
    every_hop = [hop for strand in strands for hop in strand.hops]
    overflown = [(_number(counted.get((hop.link, hop.a_to_b), {}).get("queue_drops"), 0.0), hop) for hop in every_hop]
    overflowing = max(overflown, key=lambda queue: queue[0])
    return {
        **way.said,
        "up": bool(path_subflows),
        "acked": sum(_number(subflow["acked_mbps"], 0.0) for subflow in path_subflows),
        "cwnd": sum(_number(subflow.get("mean_cwnd"), 0.0) for subflow in path_subflows),
        "rtt": _mean([_number(subflow.get("mean_srtt_ms")) for subflow in path_subflows]),
        "least_rtt": _mean([_number(subflow.get("min_rtt_ms")) for subflow in path_subflows]),
        "strands": [{"waits": _strand_waits(strand, seen, alive)} for strand in strands],
        "queue": max(lengths, default=(math.nan, ""))[0],
        "back": slowest[0],
        "back_hop": slowest[1].name if slowest[1] else "",
        "back_shared": slowest[1] is not None and (slowest[1].link, slowest[1].a_to_b) in sends,
        "drops": drops,
        "passed": passed,
        "overflowing": _queue_of(overflowing[1]) if overflowing[0] else "",
    }


def _drops(row: Mapping[str, Any], hop: Hop) -> dict[str, float]:
    """Packets dropped on a direction of a link by reason. A kernel's netem counts all together:
    what its loss would take is loss.
    """
    counts = {reason: _number(row.get(f"{reason}_drops")) for reason in _REASONS}
    rest = _number(row.get("drops"), 0.0) - sum(number for number in counts.values() if not math.isnan(number))
    drops = {reason: 0.0 if math.isnan(number) else number for reason, number in counts.items()}
    if rest > 0 and math.isnan(counts["loss"]):
        survive = math.prod(1.0 - mean_loss(element) for element in hop.elements)
        drops["loss"] = min(rest, (1.0 - survive) * (rest + _number(row.get("packets"), 0.0)) * CHANCE)
        rest -= drops["loss"]
    drops["queue"] += max(rest, 0.0)
    return drops


def _waits(hop: Hop, seen: Queues, alive: npt.NDArray[np.bool_]) -> float:
    packets = seen.packets(hop)
    return math.nan if packets is None or not alive.any() else float((packets[alive] >= WAITING).mean())


def _strand_waits(strand: Path, seen: Queues, alive: npt.NDArray[np.bool_]) -> float:
    """The share of the time in which packets waited somewhere on the way; not a number where no
    queue was sampled.
    """
    hops_waiting = [packets[alive] >= WAITING for hop in strand.hops if (packets := seen.packets(hop)) is not None]
    return float(np.logical_or.reduce(hops_waiting).mean()) if hops_waiting and alive.any() else math.nan


def _queue_of(hop: Hop) -> str:
    """The queue of a link in words."""
    for element in hop.elements:
        if element["kind"] == "policer":
            return f"the policer of {hop.name} ({element['burst_bytes']} bytes)"
        if element["kind"] in ("rate", "trace"):
            queue = element["queue"]
            size = f"{queue['packets']} packets" if "packets" in queue else f"{queue['bytes']} bytes"
            return f"the queue of {hop.name} ({size})"
    return f"the queue of {hop.name}"


def _black_hole(path: Path) -> str:
    """Where packets of the size that the ends begin with vanish without ICMP, in words."""
    for strand in path.strands:
        sent = strand.hops[0].sender_mtu
        for hop in strand.hops:
            for element in hop.elements:
                if element["kind"] == "mtu" and element.get("oversize") == "silent" and int(element["bytes"]) < sent + hop.headers:
                    return f"packets of more than {element['bytes']} bytes vanish at {hop.name} without an ICMP message"
    return ""


def _down(path: Path, span: tuple[int, int]) -> float:
    """Seconds of the window in which a link of the path let nothing pass."""
    elements = [element for strand in path.strands for hop in strand.hops for element in hop.elements]
    outages = [_overlap([(int(since), int(to)) for since, to in entry["spans_ns"]], span) for entry in elements if entry["kind"] == "down"]
    for entry in elements:
        if entry["kind"] == "loss" and entry["model"] == "bernoulli":
            changes = [(0, float(entry["probability"])), *((int(to["at_ns"]), float(to["to"])) for to in entry.get("changes", ()))]
            ends = [at for at, _ in changes[1:]] + [span[1]]
            outages.append(_overlap([(at, end) for (at, share), end in zip(changes, ends, strict=True) if share >= 1.0], span))
    return max(outages, default=0.0)


def _overlap(spans: Sequence[tuple[int, int]], whole: tuple[int, int]) -> float:
    return sum(max(0, min(whole[1], to) - max(whole[0], since)) for since, to in spans) / 1e9


def _tunnels(ways: Sequence[Way], sends: Mapping[tuple[str, bool], float], tunnel_paths: Sequence[Mapping[str, Any]]) -> list[Evidence]:
    """Of each tunnel that carries all of the flow's data: its share of packets on each of its
    paths, and how full that made them.
    """
    tunnels = []
    for hop, kind, alone in ways[0].tunnels if len(ways) == 1 else ():
        rows = [row for row in tunnel_paths if row["tunnel"] == hop.link and bool(row["a_to_b"]) == hop.a_to_b]
        sent = [_number(row["packets_sent"], 0.0) for row in sorted(rows, key=lambda row: row["path"])]
        mbps = sends[hop.link, hop.a_to_b]
        if len(sent) != len(hop.inside) or not sum(sent):
            continue
        strands = []
        for count, strand in zip(sent, alone, strict=False):
            share, most = count / sum(sent), strand["alone"]
            strands.append({"name": strand["name"], "share": share, "alone": most, "used": share * mbps / most if most > 0 else math.nan})
        tunnels.append({"name": hop.link, "distribution": kind, "strands": strands})
    return tunnels


def _carried(row: Mapping[str, Any], rate: str, count: Any, flow: Mapping[str, Any]) -> float:
    """Mbit/s of what a row tells; of a transfer that is complete over its life, since the window of the
    measurement may lie behind it.
    """
    lives = _number(flow.get("lifetime_s"), 0.0)
    if math.isnan(_number(flow.get("completion_s"))) or not lives > 0:
        return _number(row[rate], 0.0)
    return _number(count, 0.0) * 8e-6 / lives


def _number(value: Any, otherwise: float = math.nan) -> float:
    return otherwise if value is None or (isinstance(value, float) and math.isnan(value)) else float(value)


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if not math.isnan(value)]
    return sum(finite) / len(finite) if finite else math.nan


def merged(every: Sequence[Any]) -> Any:
    """The mean of the numbers in several pieces of evidence of one form; of words the first, of
    truths whether any is.
    """
    first = every[0]
    if isinstance(first, bool | np.bool_):
        return any(every)
    if isinstance(first, int | float):
        return _mean([float(value) for value in every])
    if isinstance(first, dict):
        return {name: merged([item[name] for item in every]) for name in first}
    if isinstance(first, list):
        alike = [items for items in every if len(items) == len(first)]
        return [merged(list(column)) for column in zip(*alike, strict=True)]
    return next((value for value in every if value), first)
