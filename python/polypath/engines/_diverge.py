"""A run on two exact engines: the first packet in which the simulator and a kernel part."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polypath.pcap import Listed, segments

from ._base import Engine

if TYPE_CHECKING:
    import pyarrow as pa

NS = 10**9
# Enough for all headers with their options; packets of each link that are kept.
SNAPLEN, PACKETS = 160, 10**7
# How finely the state before the parting is known.
STATE_NS = 1_000_000
# What each sender knows, by the series' names.
STATE = ("cwnd", "ssthresh", "in_flight", "srtt_us", "rttvar_us", "rto_us", "ca_state", "reordering", "retransmissions", "timeouts")
# Parts of a segment's text that a person may look past.
SEGMENT_PARTS = {"win": re.compile(r" win \d+"), "dss": re.compile(r"(?:, )?dss[^,>]*"), "psh": re.compile(r"^(F?S?R?)P")}


@dataclass(frozen=True)
class Passing:
    """A segment that passes a place of capture: when (s since the first one), where, and what it
    says, with its subflow by addresses and the order in which those of the same addresses came.
    """

    at: float
    place: str
    text: str


@dataclass(frozen=True)
class Divergence:
    """Where the engines part: at which place, the first segment that differs on each, none where
    one has no more; how many were the same there before; those around it; and what each sender knew
    before, by flow and subflow.
    """

    place: str
    sim: Passing | None
    linux: Passing | None
    same: int
    around: tuple[Sequence[Passing], Sequence[Passing]]
    state: tuple[Mapping[tuple[int, int], Mapping[str, int]], Mapping[tuple[int, int], Mapping[str, int]]]

    @property
    def at(self) -> float:
        return min(one.at for one in (self.sim, self.linux) if one)


def diverge(
    engines: tuple[Engine, Engine],
    scenarios: tuple[Mapping[str, Any], Mapping[str, Any]],
    *,
    tolerance_s: float,
    ignore: Collection[str] = (),
    around: int = 10,
) -> Divergence | None:
    """Runs a scenario on the simulator and on a kernel, captures at the ends of its flows, and finds
    the first segment that differs: in what it says without the parts `ignore`, or by more than
    `tolerance_s` in its time. None if there is none.
    """
    passed = [_passing(engine, watched(scenario)) for engine, scenario in zip(engines, scenarios, strict=True)]
    difference = first_difference(*passed, tolerance_s=tolerance_s, ignore=ignore)
    if difference is None:
        return None
    place, same = difference
    ours, theirs = ([one for one in each if one.place == place] for each in passed)
    begin = max(same - around // 2, 0)
    first = tuple(next(iter(each[same:]), None) for each in (ours, theirs))
    at = min(one.at for one in first if one)
    states = [_state(engine, scenario, at) for engine, scenario in zip(engines, scenarios, strict=True)]
    parts = (ours[begin : same + around // 2], theirs[begin : same + around // 2])
    return Divergence(place, first[0], first[1], same, parts, (states[0], states[1]))


def watched(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario with a capture at each end of its flows, and nothing else that is measured."""
    ends = dict.fromkeys(flow[end] for flow in scenario["flows"] for end in ("client", "server"))
    captures = [
        {"node": node, "link": link["name"], "snaplen": SNAPLEN, "packets": PACKETS}
        for node in ends
        for link in scenario["links"]
        if node in (link["a"]["node"], link["b"]["node"])
    ]
    return {**scenario, "captures": captures, "series_interval_ns": None}


def _passing(engine: Engine, scenario: Mapping[str, Any]) -> list[Passing]:
    with tempfile.TemporaryDirectory() as folder:
        places, files = [], []
        for name, stream in engine.run(scenario).captures.items():
            places.append(name.removesuffix(".pcapng").replace("-", ":", 1))
            files.append(Path(folder) / name)
            with stream, files[-1].open("wb") as file:
                file.write(stream.read())
        return named(segments(files), places)


def named(listed: Sequence[Listed], places: Sequence[str]) -> list[Passing]:
    """The segments with names that are the same on every engine: no ports, times from the first."""
    subflows: dict[frozenset[tuple[str, int]], int] = {}
    of_addresses: dict[frozenset[str], int] = {}
    start = listed[0].time_ns if listed else 0
    passed = []
    for one in listed:
        ends = frozenset((one.source, one.destination))
        if ends not in subflows:
            addresses = frozenset((one.source[0], one.destination[0]))
            subflows[ends] = of_addresses[addresses] = of_addresses.get(addresses, 0) + 1
        number = f" #{subflows[ends]}" if subflows[ends] > 1 else ""
        text = f"{one.source[0]} > {one.destination[0]}{number} {one.text}"
        passed.append(Passing((one.time_ns - start) / NS, places[one.file], text))
    return passed


def first_difference(
    ours: Sequence[Passing], theirs: Sequence[Passing], *, tolerance_s: float, ignore: Collection[str] = ()
) -> tuple[str, int] | None:
    """The place where a segment differs first, and how many were the same there before."""
    differences: list[tuple[float, str, int]] = []
    for place in dict.fromkeys(one.place for one in (*ours, *theirs)):
        here, there = ([one for one in each if one.place == place] for each in (ours, theirs))
        same = next((at for at, pair in enumerate(zip(here, there, strict=False)) if not _agree(*pair, tolerance_s, ignore)), None)
        if same is None and len(here) == len(there):
            continue
        same = min(len(here), len(there)) if same is None else same
        differences.append((min(one.at for each in (here, there) for one in each[same : same + 1]), place, same))
    return min(differences)[1:] if differences else None


def _agree(ours: Passing, theirs: Passing, tolerance_s: float, ignore: Collection[str]) -> bool:
    same = _without(ours.text, ignore) == _without(theirs.text, ignore)
    return same and math.isclose(ours.at, theirs.at, rel_tol=0, abs_tol=tolerance_s)


def _without(text: str, ignore: Collection[str]) -> str:
    ends, _, rest = text.rpartition(" > ")
    to, _, rest = rest.partition(" ")
    for part in ignore:
        rest = SEGMENT_PARTS[part].sub(r"\1" if part == "psh" else "", rest)
    return f"{ends} > {to} {rest}"


def _state(engine: Engine, scenario: Mapping[str, Any], at: float) -> dict[tuple[int, int], dict[str, int]]:
    """What each sender knew at a time after the first segment, to a millisecond."""
    until = min(flow["start_ns"] for flow in scenario["flows"]) + round(at * NS)
    short = {**scenario, "duration_ns": min(scenario["duration_ns"], until + 2 * STATE_NS), "series_interval_ns": STATE_NS}
    return last_before(engine.run(short).subflow_series, until)


def last_before(series: pa.Table, until_ns: int) -> dict[tuple[int, int], dict[str, int]]:
    """The last row of each subflow that is no later than that."""
    names = [name for name in STATE if name in series.column_names]
    columns = {name: series.column(name).to_pylist() for name in ("time_ns", "flow", "subflow", *names)}
    last: dict[tuple[int, int], dict[str, int]] = {}
    for row, time_ns in enumerate(columns["time_ns"]):
        if time_ns <= until_ns:
            last[columns["flow"][row], columns["subflow"][row]] = {name: columns[name][row] for name in names}
    return last


def describe_divergence(one: Divergence, flows: Sequence[str]) -> str:
    """The divergence in lines; `flows` are the names of the scenario's."""
    lines = [f"they part at {one.at:.6f} s, seen at {one.place} after {one.same} equal segments:"]
    lines += [f"  {engine:5}  {_line(segment)}" for engine, segment in (("sim", one.sim), ("linux", one.linux))]
    sim, linux = one.state
    for flow, subflow in sorted({*sim, *linux}):
        lines.append(f"what the sender of {flows[flow]}, subflow {subflow}, knew before:")
        lines.append(f"  {'':16} {'sim':>12} {'linux':>12}")
        here, there = (state.get((flow, subflow), {}) for state in (sim, linux))
        for name in STATE:
            if name in here or name in there:
                ours, theirs = (state.get(name, "-") for state in (here, there))
                lines.append(f"  {name:16} {ours:>12} {theirs:>12}{'' if ours == theirs else '  *'}")
    for engine, segments_around in zip(("sim", "linux"), one.around, strict=True):
        lines.append(f"around it on {engine}:")
        lines += [f"  {'>' if segment in (one.sim, one.linux) else ' '} {_line(segment)}" for segment in segments_around]
    return "\n".join(lines)


def divergence_as_plain(one: Divergence, flows: Sequence[str]) -> dict[str, Any]:
    """The divergence in plain values, with the names of `flows`."""
    subflows = sorted({*one.state[0], *one.state[1]})
    return {
        "at_s": one.at,
        "place": one.place,
        "equal_segments": one.same,
        "first": {"sim": one.sim and asdict(one.sim), "linux": one.linux and asdict(one.linux)},
        "around": {name: [asdict(each) for each in there] for name, there in zip(("sim", "linux"), one.around, strict=True)},
        "state": [
            {"flow": flows[flow], "subflow": subflow}
            | {name: dict(state.get((flow, subflow), {})) for name, state in zip(("sim", "linux"), one.state, strict=True)}
            for flow, subflow in subflows
        ],
    }


def _line(segment: Passing | None) -> str:
    return f"{segment.at:.6f} {segment.text}" if segment else "nothing more"
